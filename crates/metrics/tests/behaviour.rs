//! What metrics do beside computing: nothing is read by an update, memory stays the same, wrong batches are refused by name and
//! change nothing, states are saved, merged and set back.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_backend_cpu::{Context, CpuBackend};
use adamant_core::{DType, Device, ErrorKind, Tensor, compile, schedule::take_stats, tensor};
use adamant_metrics::*;
use std::sync::Mutex;

type Made = (&'static str, Box<dyn Fn() -> Box<dyn Metric>>, Tensor, Tensor);
fn made<M: Metric + 'static>(name: &'static str, make: impl Fn() -> adamant_core::Result<M> + 'static, p: &Tensor, t: &Tensor) -> Made {
    (name, Box::new(move || Box::new(make().unwrap())), p.clone(), t.clone())
}
fn integers(v: &[i64]) -> Tensor {
    Tensor::from_vec(v.to_vec(), [v.len()])
}
/// Every metric that sums, with a batch.
fn sums() -> Vec<Made> {
    let (scores, classes) = (tensor![[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.2, 0.5, 0.3]], integers(&[0, 1, 1, 2]));
    let (yes, flags) = (tensor![0.9, 0.2, 0.7, 0.4], integers(&[1, 0, 0, 1]));
    let numbers = tensor![1.0, 0.0, 2.5, 3.0];
    let (of, many) = (Classification::multiclass(3), Classification::multilabel(3).averaging(Averaging::None));
    let labels = classes.one_hot(3);
    let second = of.clone().top_k(2).ignore_index(2);
    let (binary, again, tables) = (Classification::binary(), of.clone(), many.clone());
    let f = binary.clone();
    vec![
        made(
            "accuracy",
            {
                let of = of.clone();
                move || Accuracy::new(&of)
            },
            &scores,
            &classes,
        ),
        made("accuracy of 2", move || Accuracy::new(&second), &scores, &classes),
        made("precision", move || Precision::new(&many), &scores, &labels),
        made(
            "recall",
            {
                let of = of.clone();
                move || Recall::new(&of)
            },
            &scores,
            &classes,
        ),
        made("f_beta", move || FBeta::f1(&f), &yes, &flags),
        made(
            "specificity",
            {
                let of = binary.clone();
                move || Specificity::new(&of)
            },
            &yes,
            &flags,
        ),
        made("confusion_matrix", move || ConfusionMatrix::new(&tables, ConfusionShares::Truth), &scores, &labels),
        made(
            "cohen_kappa",
            {
                let of = again.clone();
                move || CohenKappa::new(&of, KappaWeights::Linear)
            },
            &scores,
            &classes,
        ),
        made("matthews_corr_coef", move || MatthewsCorrCoef::new(&again), &scores, &classes),
        made("mean_metric", MeanMetric::new, &yes, &numbers),
        made("perplexity", || Perplexity::new(3, Some(2)), &scores, &classes),
        made("mean_absolute_error", || MeanAbsoluteError::new(1), &yes, &numbers),
        made("mean_squared_error", || MeanSquaredError::root(1), &yes, &numbers),
        made("r2_score", || R2Score::new(1, OutputAveraging::Uniform), &yes, &numbers),
    ]
}
/// Every metric that keeps scores, with a batch.
fn lists() -> Vec<Made> {
    let (yes, flags) = (tensor![0.9, 0.2, 0.7, 0.4], integers(&[1, 0, 0, 1]));
    vec![
        made("auroc", || Auroc::new(&Classification::binary()), &yes, &flags),
        made("average_precision", || AveragePrecision::new(&Classification::binary()), &yes, &flags),
    ]
}
fn bits(metric: &dyn Metric) -> Vec<u64> {
    metric.compute().unwrap().to_vec_as::<f64>().unwrap().into_iter().map(f64::to_bits).collect()
}
/// A device of its own, whose memory no other test asks for.
fn own_device() -> Device {
    Context::new(CpuBackend::builder().threads(1)).unwrap().device()
}

#[test]
fn an_update_that_reads_or_that_a_capture_cannot_hold() {
    own_device().scoped(|| {
        for (name, make, predictions, targets) in sums() {
            let (mut plain, captured) = (make(), Mutex::new(make()));
            let update = compile(|x: &[Tensor]| {
                captured.lock().unwrap().update(&x[0], &x[1])?;
                Ok(vec![x[0].sum(..)])
            });
            for _ in 0..5 {
                plain.update(&predictions, &targets).unwrap();
                update.call(&[&predictions, &targets]).unwrap();
            }
            assert_eq!(update.captures().structures, 1, "{name}");
            assert_eq!(bits(&*plain), bits(&**captured.lock().unwrap()), "{name}");
        }
        for (name, make, predictions, targets) in lists() {
            let captured = Mutex::new(make());
            let update = compile(|x: &[Tensor]| {
                captured.lock().unwrap().update(&x[0], &x[1])?;
                Ok(vec![x[0].sum(..)])
            });
            let refused = update.call(&[&predictions, &targets]).map(|_| ()).unwrap_err();
            assert_eq!((refused.kind(), refused.op()), (&ErrorKind::Capturing, name));
        }
    });
}
/// That the test above finds a read.
#[test]
fn an_update_that_reads_is_found() {
    struct Reads(MetricState);
    impl Metric for Reads {
        fn state(&self) -> &MetricState {
            &self.0
        }
        fn state_mut(&mut self) -> &mut MetricState {
            &mut self.0
        }
        fn update(&mut self, predictions: &Tensor, _: &Tensor) -> adamant_core::Result<()> {
            let sum = predictions.sum(..).item::<f32>()?;
            self.0.add(&[tensor![sum].reshape(())])
        }
        fn compute(&self) -> adamant_core::Result<Tensor> {
            self.0.value("sum")
        }
    }
    own_device().scoped(|| {
        let metric = Mutex::new(Reads(MetricState::new("reads").unwrap().sum("sum", ()).unwrap()));
        let update = compile(|x: &[Tensor]| metric.lock().unwrap().update(&x[0], &x[0]).map(|()| vec![x[0].clone()]));
        let found = update.call(&[&tensor![1.0, 2.0]]).map(|_| ()).unwrap_err();
        assert_eq!(found.kind(), &ErrorKind::Capturing);
    });
}
#[test]
fn memory_that_grows_with_the_number_of_updates() {
    let device = own_device();
    device.scoped(|| {
        // Predictions are computed from something larger, which must not be held.
        let batch = |p: &Tensor| Tensor::stack(&vec![p.clone(); 64], 0).mean(0);
        let live = |metric: &mut dyn Metric, p: &Tensor, t: &Tensor, times: usize| {
            (0..times).for_each(|_| metric.update(&batch(p), t).unwrap());
            device.memory().live_bytes
        };
        for (name, make, p, t) in sums() {
            let mut metric = make();
            let before = live(&mut *metric, &p, &t, 10);
            assert_eq!(live(&mut *metric, &p, &t, 500), before, "{name}");
        }
        for (name, make, p, t) in lists() {
            let mut metric = make();
            let before = live(&mut *metric, &p, &t, 10);
            let grown = live(&mut *metric, &p, &t, 500) - before;
            // Memory comes in blocks of 64 bytes: four scores of f32 in one, four targets in another.
            // Beside that a few that are there once, whatever the number of updates.
            let kept = 500 * 2 * 64;
            assert!((kept..kept + 1024).contains(&grown), "{name}: {grown} bytes, of which {kept} are scores and targets");
        }
    });
}
#[test]
fn an_update_that_is_planned_anew() {
    own_device().scoped(|| {
        for (name, make, p, t) in sums().into_iter().chain(lists()) {
            let mut metric = make();
            (0..10).for_each(|_| metric.update(&p, &t).unwrap());
            take_stats();
            (0..50).for_each(|_| metric.update(&p, &t).unwrap());
            assert_eq!(take_stats().misses, 0, "{name}");
        }
    });
}
#[test]
fn a_class_out_of_range_that_is_counted_or_forgotten() {
    own_device().scoped(|| {
        let of = Classification::multiclass(3);
        let scores = tensor![[0.5, 0.2, 0.3], [0.1, 0.8, 0.1]];
        let make: [(&str, Box<dyn Fn() -> Box<dyn Metric>>); 4] = [
            ("accuracy", Box::new(|| Box::new(Accuracy::new(&Classification::multiclass(3)).unwrap()))),
            ("confusion_matrix", Box::new(|| Box::new(ConfusionMatrix::new(&Classification::multiclass(3), ConfusionShares::Counts).unwrap()))),
            ("auroc", Box::new(|| Box::new(Auroc::new(&Classification::multiclass(3)).unwrap()))),
            ("perplexity", Box::new(|| Box::new(Perplexity::new(3, None).unwrap()))),
        ];
        for (name, make) in make {
            for class in [3, 7, -1, i64::MIN, i64::MAX] {
                let mut metric = make();
                metric.update(&scores, &integers(&[0, class])).unwrap();
                metric.update(&scores, &integers(&[0, 1])).unwrap();
                let found = metric.compute().unwrap().to_vec_as::<f64>().unwrap_err();
                assert!(matches!(found.kind(), ErrorKind::Index { index, bound: 3, .. } if *index == class), "{name}: {found}");
                assert_eq!(found.scope(), name);
                let mut other = make();
                other.merge(&*metric).unwrap();
                assert!(other.compute().unwrap().to_vec_as::<f64>().is_err(), "{name}: a merge forgot it");
                metric.reset().unwrap();
                metric.update(&scores, &integers(&[0, 1])).unwrap();
                assert!(metric.compute().unwrap().to_vec_as::<f64>().is_ok(), "{name}: it stayed after a reset");
            }
        }
        // Of answers, and of yes and no.
        let mut accuracy = Accuracy::new(&of).unwrap();
        accuracy.update(&integers(&[0, 4]), &integers(&[0, 1])).unwrap();
        assert!(matches!(accuracy.compute().unwrap().item::<f64>().unwrap_err().kind(), ErrorKind::Index { index: 4, bound: 3, .. }));
        let mut precision = Precision::new(&Classification::binary()).unwrap();
        precision.update(&tensor![0.5, 0.7], &integers(&[1, 2])).unwrap();
        assert!(matches!(precision.compute().unwrap().item::<f64>().unwrap_err().kind(), ErrorKind::Index { index: 2, bound: 2, .. }));
        // What takes no part may be any number, whatever the answer is.
        let mut accuracy = Accuracy::new(&of.ignore_index(9)).unwrap();
        accuracy.update(&integers(&[0, 77]), &integers(&[0, 9])).unwrap();
        assert_eq!(accuracy.compute().unwrap().item::<f64>().unwrap(), 1.0);
    });
}
#[test]
fn a_batch_that_does_not_fit_and_changes_something() {
    own_device().scoped(|| {
        let cases: Vec<(&str, Tensor, Tensor)> = vec![
            ("shape", Tensor::ones([3]), integers(&[0, 1])),
            ("shape", Tensor::ones([2, 2, 5]), integers(&[0, 1])),
            ("dtype", tensor![[0.1, 0.2, 0.3]], tensor![1.0]),
            ("shape", Tensor::ones([2, 4]), integers(&[0, 1])),
            ("device", Tensor::zeros_on([2, 3], DType::F32, Device::reference()), integers(&[0, 1])),
        ];
        for (name, make, p, t) in sums().into_iter().chain(lists()) {
            let mut metric = make();
            metric.update(&p, &t).unwrap();
            let before = bits(&*metric);
            let failed = Tensor::ones([2]).reshape([3]);
            assert_eq!(metric.update(&failed, &t).unwrap_err().kind().word(), "shape", "{name}");
            if ["accuracy", "accuracy of 2", "recall", "cohen_kappa", "matthews_corr_coef", "perplexity"].contains(&name) {
                for (kind, p, t) in &cases {
                    let refused = metric.update(p, t).unwrap_err();
                    let op = name.trim_end_matches(" of 2");
                    assert_eq!((refused.kind().word(), refused.op()), (*kind, op), "{name}: {refused}");
                }
            }
            assert_eq!(bits(&*metric), before, "{name}");
        }
        let options = [
            Accuracy::new(&Classification::multiclass(1)).err(),
            Accuracy::new(&Classification::multilabel(0)).err(),
            Accuracy::new(&Classification::multiclass(3).top_k(4)).err(),
            Accuracy::new(&Classification::multiclass(3).top_k(0)).err(),
            Accuracy::new(&Classification::binary().top_k(2)).err(),
            Accuracy::new(&Classification::binary().threshold(f64::NAN)).err(),
            FBeta::new(0.0, &Classification::binary()).err(),
            Auroc::new(&Classification::multiclass(3).averaging(Averaging::Micro)).err(),
            ConfusionMatrix::new(&Classification::multiclass(3).top_k(2), ConfusionShares::All).err(),
            CohenKappa::new(&Classification::multilabel(3), KappaWeights::Equal).err(),
            MeanAbsoluteError::new(0).err(),
            R2Score::new(0, OutputAveraging::Raw).err(),
            Perplexity::new(0, None).err(),
            MetricCollection::new().with("a.b", MeanMetric::new().unwrap()).err(),
        ];
        for (k, refused) in options.into_iter().enumerate() {
            assert_eq!(refused.unwrap_or_else(|| panic!("options {k} are not refused")).kind().word(), "argument");
        }
    });
}
#[test]
fn a_state_of_another_metric_that_is_taken() {
    own_device().scoped(|| {
        let seen = |classes: usize| {
            let mut metric = Accuracy::new(&Classification::multiclass(classes)).unwrap();
            metric.update(&integers(&[0, 1, 1]), &integers(&[0, 1, 0])).unwrap();
            metric
        };
        let (mut three, four) = (seen(3), seen(4));
        let before = bits(&three);
        assert_eq!(three.merge(&four).unwrap_err().kind().word(), "shape");
        assert_eq!(three.load_state_dict(&four.state_dict().unwrap()).unwrap_err().kind().word(), "shape");
        assert_eq!(three.merge(&MeanMetric::new().unwrap()).unwrap_err().kind().word(), "argument");
        let mut state = three.state_dict().unwrap();
        assert_eq!(state.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["tp", "fp", "fn", "tn", "refused"]);
        state[3].1 = state[3].1.cast(DType::F32);
        assert_eq!(three.load_state_dict(&state).unwrap_err().kind().word(), "dtype");
        state.remove(3);
        assert_eq!(three.load_state_dict(&state).unwrap_err().kind().word(), "argument");
        assert_eq!(bits(&three), before);
    });
}
/// f64 would lose the one.
#[test]
fn counts_that_are_rounded() {
    own_device().scoped(|| {
        let mut metric = Accuracy::new(&Classification::binary()).unwrap();
        let mut state = metric.state_dict().unwrap();
        state[0].1 = Tensor::from_vec(vec![1i64 << 53], [1]);
        metric.load_state_dict(&state).unwrap();
        metric.update(&tensor![1.0], &integers(&[1])).unwrap();
        assert_eq!(metric.state_dict().unwrap()[0].1.to_vec::<i64>().unwrap(), [(1i64 << 53) + 1]);
    });
}
#[test]
fn workers_whose_parts_are_not_the_whole() {
    let device = own_device();
    device.scoped(|| {
        for (name, make, p, t) in sums().into_iter().chain(lists()) {
            let mut parts: Vec<Box<dyn Metric>> = (0..4).map(|_| make()).collect();
            std::thread::scope(|scope| {
                for part in &mut parts {
                    scope.spawn(|| device.scoped(|| (0..10).for_each(|_| part.update(&p, &t).unwrap())));
                }
            });
            let (mut all, mut whole) = (make(), make());
            parts.iter().for_each(|part| all.merge(&**part).unwrap());
            (0..40).for_each(|_| whole.update(&p, &t).unwrap());
            let [all, whole] = [&all, &whole].map(|m| m.compute().unwrap().to_vec_as::<f64>().unwrap());
            assert!(all.iter().zip(&whole).all(|(a, b)| (a - b).abs() < 1e-12), "{name}: {all:?}, one that saw all has {whole:?}");
        }
    });
}
#[test]
fn a_score_that_is_nan_is_hidden_by_a_mean() {
    own_device().scoped(|| {
        // Also where the label has no positive, and so does not count in a mean.
        for (averaging, last) in [(Averaging::Macro, 1), (Averaging::Weighted, 1), (Averaging::Macro, 0), (Averaging::Weighted, 0)] {
            let of = Classification::multilabel(2).averaging(averaging);
            let mut area = Auroc::new(&of).unwrap();
            let mut precision = AveragePrecision::new(&of).unwrap();
            let (scores, flags) = (tensor![[0.1, f32::NAN], [0.7, 0.2]], Tensor::from_vec(vec![0i64, 0, 1, last], [2, 2]));
            area.update(&scores, &flags).unwrap();
            precision.update(&scores, &flags).unwrap();
            assert!(area.compute().unwrap().item::<f64>().unwrap().is_nan() && precision.compute().unwrap().item::<f64>().unwrap().is_nan());
        }
    });
}
#[test]
fn a_collection_whose_metrics_are_not_those_alone() {
    own_device().scoped(|| {
        let of = Classification::binary();
        let make = || {
            let metrics = MetricCollection::new().with("accuracy", Accuracy::new(&of).unwrap()).unwrap();
            metrics.with("auroc", Auroc::new(&of).unwrap()).unwrap()
        };
        let (p, t) = (tensor![0.9, 0.2, 0.7, 0.4], integers(&[1, 0, 0, 1]));
        let (mut all, mut more) = (make(), make());
        all.update(&p, &t).unwrap();
        more.update(&p, &t).unwrap();
        all.merge(&more).unwrap();
        let told = |metrics: &MetricCollection| metrics.compute().unwrap().into_iter().map(|(n, f)| (n, f.item::<f64>().unwrap())).collect::<Vec<_>>();
        let expected = [("accuracy".to_owned(), 0.5), ("auroc".to_owned(), 0.75)];
        assert_eq!(told(&all), expected);
        let state = all.state_dict().unwrap();
        let names = ["accuracy.tp", "accuracy.fp", "accuracy.fn", "accuracy.tn", "accuracy.refused", "auroc.scores", "auroc.targets", "auroc.refused"];
        assert_eq!(state.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), names);
        let mut loaded = make();
        loaded.load_state_dict(&state).unwrap();
        assert_eq!(told(&loaded), expected);
        all.reset().unwrap();
        assert!(told(&all)[1].1.is_nan());
        assert!(all.update(&p, &integers(&[1])).is_err());
    });
}
