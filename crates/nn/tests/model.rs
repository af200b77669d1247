//! What is done with whole models: copies, loading in part, names, and what a walk costs.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_core::*;
use adamant_nn::{parametrize::*, *};
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
#[derive(Module)]
enum Head {
    Linear(Linear),
    #[allow(dead_code)]
    Two {
        first: Linear,
        second: Box<dyn Module>,
    },
}
#[derive(Module)]
struct Net<M> {
    body: Sequential,
    tied: Linear,
    inner: M,
    heads: ModuleDict,
    many: Vec<Arc<Linear>>,
    head: Head,
    rnn: Lstm,
    loss: Box<dyn Criterion>,
    rng: Rng,
    #[module(skip)]
    words: Vec<&'static str>,
    width: Option<usize>,
}
fn net() -> Result<Net<BatchNorm1d>> {
    let body = Sequential::new().add(Linear::new(3, 3)?).add(Sequential::new().add(Dropout::new(0.5)?).add(Linear::new(3, 3)?));
    let shared = Arc::new(Linear::new(3, 3)?);
    let Some((_, weight)) = body.named_parameters().into_iter().next() else { panic!("no weight") };
    Ok(Net {
        tied: Linear::tied(&weight)?,
        body,
        inner: BatchNorm1d::new(3)?,
        heads: ModuleDict::of([("a", Box::new(Linear::new(3, 2)?) as Box<dyn Module>)])?,
        many: vec![shared.clone(), shared],
        head: Head::Two { first: Linear::new(3, 3)?, second: Box::new(Relu::new()) },
        rnn: Lstm::new(3, 2)?,
        loss: Box::new(BceLoss::with(Some(&Tensor::ones([2])), functional::Reduction::Sum)?),
        rng: Rng::new(3)?,
        words: vec!["kept"],
        width: Some(3),
    })
}
fn values(model: &dyn Walk) -> Vec<(String, Vec<f64>)> {
    model.state_dict().into_iter().map(|(name, t)| (name, t.cast(DType::F64).to_vec::<f64>().unwrap())).collect()
}
#[test]
fn a_copy_that_shares_a_cell_or_forgets_something() -> Result<()> {
    on_reference(|| {
        let model = net()?;
        weight_norm(&model, "rnn.weight_hh_l0", Some(0))?;
        spectral_norm(&model, "tied.weight", Default::default()).unwrap();
        model.eval();
        model.inner.set_training(true);
        model.freeze_matching("heads.*");
        let copy = model.deep_copy()?;
        assert_eq!(values(&model), values(&copy));
        let ids = |m: &dyn Walk| m.leaves().into_iter().map(|(_, p)| p.cell().id()).collect::<HashSet<_>>();
        assert!(ids(&model).is_disjoint(&ids(&copy)) && ids(&model).len() == ids(&copy).len(), "tied ones are tied, and no cell is shared");
        let frozen =
            |m: &dyn Walk| m.leaves().into_iter().filter(|(_, p)| p.role() == Role::Trainable && !p.is_trainable()).map(|(n, _)| n).collect::<Vec<_>>();
        assert_eq!((frozen(&copy), frozen(&copy).len()), (frozen(&model), 2));
        assert!(copy.inner.is_training() && !copy.body.is_training() && !copy.rnn.is_training());
        assert_eq!((copy.words.clone(), copy.width), (vec!["kept"], Some(3)));
        let Some((_, p)) = copy.named_parameters().into_iter().next() else { panic!("no parameter") };
        assert_eq!(&*p.path(), "body.0.parametrizations.weight.original");
        // Each goes its own way.
        let before = values(&model);
        for (_, p) in copy.leaves() {
            p.set(&(p.detached() + 1))?;
        }
        copy.train();
        assert_eq!(values(&model), before);
        assert!(!model.body.is_training());
        assert_eq!(model.rng.uniform(4, DType::F32).to_vec::<f32>()?, copy.rng.uniform(4, DType::F32).to_vec::<f32>()?);
        assert!(matches!(copy.head, Head::Two { .. }));
        Ok(())
    })
}
#[derive(Module)]
struct NotClone {
    fc: Linear,
    #[module(skip)]
    counter: AtomicUsize,
}
struct ByHand(Linear);
impl Walk for ByHand {
    fn walk(&self, walker: &mut Walker<'_>) {
        walker.child("fc", &self.0);
    }
}
impl Module for ByHand {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x)
    }
}
#[test]
fn a_part_that_cannot_be_copied_and_is_shared() -> Result<()> {
    on_reference(|| {
        let model = NotClone { fc: Linear::new(1, 1)?, counter: AtomicUsize::new(0) };
        model.counter.fetch_add(1, Relaxed);
        let error = model.deep_copy().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("the field `counter`") && error.contains("derive `Clone`"), "{error}");
        let error = Sequential::new().add(ByHand(Linear::new(1, 1)?)).deep_copy().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("ByHand") && error.contains("Walk::duplicate"), "{error}");
        assert!(Head::Linear(Linear::new(1, 1)?).deep_copy().is_ok() && model.fc.deep_copy().is_ok());
        Ok(())
    })
}

#[test]
fn a_state_dict_that_is_loaded_in_part_and_not_reported() -> Result<()> {
    on_reference(|| {
        let model = Sequential::new().add_named("a", Linear::new(2, 3)?).add_named("b", Linear::new(3, 2)?);
        let before = values(&model);
        let ones = |dims: &[usize]| Tensor::ones(dims);
        let state: Vec<(String, Tensor)> = [("a.weight", ones(&[3, 2])), ("b.weight", ones(&[2, 4])), ("b.bias", ones(&[2, 1])), ("c", ones(&[1]))]
            .into_iter()
            .map(|(n, t)| (n.to_string(), t))
            .collect();
        let error = model.load_state_dict_with(&state, LoadOptions { strict: false, ..Default::default() }).unwrap_err().to_string();
        assert!(error.contains("`b.weight` has shape [2, 3] in the model and [2, 4] in the state dict (axis 1: 3 and 4)"), "{error}");
        assert!(error.contains("`b.bias` has shape [2] in the model and [2, 1] in the state dict"), "{error}");
        assert!(model.load_state_dict_with(&state, LoadOptions { skip_mismatched: true, ..Default::default() }).is_err());
        assert_eq!(values(&model), before, "nothing is written");
        let report = model.load_state_dict_with(&state, LoadOptions { strict: false, skip_mismatched: true })?;
        assert_eq!((report.missing.clone(), report.unexpected.clone()), (vec!["a.bias".to_string()], vec!["c".to_string()]));
        let differ: Vec<_> = report.mismatched.iter().map(|m| (m.name.as_str(), m.axis)).collect();
        assert_eq!((differ, report.is_complete()), (vec![("b.weight", Some(1)), ("b.bias", None)], false));
        let after = values(&model);
        assert_eq!((after[0].1.clone(), &after[1..]), (vec![1.0; 6], &before[1..]));
        let saved = model.state_dict();
        let wrapped = map_keys(&saved, |n| Some(format!("module.{n}")));
        assert!(model.load_state_dict(&wrapped).is_err());
        model.load_state_dict(&map_keys(&wrapped, |n| n.strip_prefix("module.").map(str::to_string)))?;
        Ok(())
    })
}

/// Counts how often it is walked.
struct Counted(Arc<AtomicUsize>);
impl Walk for Counted {
    fn walk(&self, _: &mut Walker<'_>) {
        self.0.fetch_add(1, Relaxed);
    }
}
impl Module for Counted {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.clone())
    }
}
#[test]
fn appending_a_layer_that_walks_those_before() -> Result<()> {
    on_reference(|| {
        let visits = Arc::new(AtomicUsize::new(0));
        let mut net = Sequential::new();
        for k in 0..2000 {
            net.push(&k.to_string(), Box::new(Counted(visits.clone())));
        }
        assert_eq!((net.len(), visits.load(Relaxed)), (2000, 2000), "one visit for each layer");
        let mut dict: ModuleDict<Counted> = ModuleDict::new();
        for k in 0..500 {
            dict.insert(k.to_string(), Counted(visits.clone()))?;
        }
        assert_eq!(visits.load(Relaxed), 2500);
        Ok(())
    })
}
#[test]
fn a_module_that_is_not_named_or_has_anothers_parameters() -> Result<()> {
    on_reference(|| {
        let model = net()?;
        let named = model.named_modules();
        let kinds: Vec<(&str, &str)> = named.iter().map(|(path, m)| (path.as_str(), m.kind)).collect();
        let want = [
            ("", "Net"),
            ("body", "Sequential"),
            ("body.0", "Linear"),
            ("body.1", "Sequential"),
            ("body.1.0", "Dropout"),
            ("body.1.1", "Linear"),
            ("tied", "Linear"),
            ("inner", "BatchNorm1d"),
            ("heads", "ModuleDict"),
            ("heads.a", "Linear"),
            ("many.0", "Linear"),
            ("many.1", "Linear"),
            ("head", "Head"),
            ("head.first", "Linear"),
            ("head.second", "ReLU"),
            ("rnn", "LSTM"),
            ("loss", "BCELoss"),
        ];
        assert_eq!(kinds, want);
        let own = |path: &str| model.get_submodule(path).map(|m| m.parameters.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>());
        assert_eq!(own("inner")?, ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]);
        assert!(own("")?.is_empty() && own("heads")?.is_empty());
        assert_eq!(own("loss")?, ["weight"]);
        assert_eq!(model.modules().len(), want.len());
        let mut order = Vec::new();
        model.apply(&mut |m| {
            order.push(m.path().to_string());
            Ok(())
        })?;
        assert_eq!(order[..5], ["body.0", "body.1.0", "body.1.1", "body.1", "body"]);
        assert_eq!(order.last().map(String::as_str), Some(""));
        let error = model.apply(&mut |m| if m.kind == "LSTM" { Err(Error::new("mine", ErrorKind::Argument("stop".into()))) } else { Ok(()) });
        assert!(error.unwrap_err().to_string().contains("stop"));
        for (pattern, count) in [("*.bias", 6), ("body.?.weight", 1), ("rnn.*_hh_*", 2), ("nothing", 0), ("*", 16)] {
            let found = model.freeze_matching(pattern);
            model.unfreeze();
            assert_eq!(found, count, "{pattern}");
        }
        Ok(())
    })
}
#[test]
fn figures_of_a_parameter_that_are_wrong() -> Result<()> {
    on_reference(|| {
        let layer = Linear::no_bias(2, 2)?;
        layer.weight.set(&Tensor::from_slice(&[3.0f32, 0.0, -4.0, f32::NAN], [2, 2]))?;
        let stats = &layer.parameter_stats()?[0];
        assert_eq!((stats.elements, stats.zeros, stats.not_finite, stats.min, stats.max), (4, 1, 1, -4.0, 3.0));
        layer.weight.set(&Tensor::from_slice(&[3.0f32, 0.0, -4.0, 0.0], [2, 2]))?;
        layer.freeze();
        let stats = &layer.parameter_stats()?[0];
        assert_eq!((stats.mean, stats.norm, stats.trainable, stats.zeros), (-0.25, 5.0, false, 2));
        assert!((stats.std - (6.25f64 - 0.0625).sqrt()).abs() < 1e-12);
        let all = [layer.weight.clone()];
        let vector = parameters_to_vector(&all)?;
        assert_eq!(vector.to_vec::<f32>()?, [3.0, 0.0, -4.0, 0.0]);
        vector_to_parameters(&(vector + 1.0), &all)?;
        assert_eq!(layer.weight.detached().to_vec::<f32>()?, [4.0, 1.0, -3.0, 1.0]);
        assert!(vector_to_parameters(&Tensor::ones([5]), &all).is_err() && parameters_to_vector(&[]).is_err());
        Ok(())
    })
}
#[test]
fn a_parametrization_that_is_put_on_or_off_wrongly() -> Result<()> {
    on_reference(|| {
        let layer = Linear::new(3, 3)?;
        let before = layer.weight.detached().to_vec::<f32>()?;
        let error = weight_norm(&layer, "wieght", None).unwrap_err().to_string();
        assert!(error.contains("no parameter `wieght`") && error.contains("`weight`"), "{error}");
        assert!(weight_norm(&layer, "weight", Some(2)).is_err() && !is_parametrized(&layer, None));
        weight_norm(&layer, "weight", Some(0))?;
        assert!(is_parametrized(&layer, Some("weight")) && !is_parametrized(&layer, Some("bias")));
        let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-6);
        assert!(near(&layer.weight.detached().to_vec::<f32>()?, &before));
        let error = remove_parametrizations(&layer, "weight", false).unwrap_err().to_string();
        assert!(error.contains("computed from 2 tensors"), "{error}");
        // Set through the inverse; a second one on top; by path in a model.
        layer.weight.set(&(Tensor::eye(3) * 2.0))?;
        assert!(near(&layer.weight.detached().to_vec::<f32>()?, &(Tensor::eye(3) * 2.0).to_vec::<f32>()?));
        spectral_norm(&layer, "weight", Default::default())?;
        layer.eval();
        assert!((layer.weight.detached().to_vec::<f32>()?[0] - 1.0).abs() < 1e-3);
        let model = Sequential::new().add_named("fc", layer);
        let names: Vec<String> = model.state_dict().into_iter().map(|(n, _)| n).collect();
        let own = |n: &str| format!("fc.parametrizations.weight.{n}");
        assert_eq!(names, [own("original0"), own("original1"), own("1._u"), own("1._v"), "fc.bias".into()]);
        model.cast(DType::F64)?;
        assert_eq!(model.forward(&Tensor::ones([1, 3]).cast(DType::F64))?.dtype()?, DType::F64);
        remove_parametrizations(&model, "fc.weight", true)?;
        assert_eq!(model.named_parameters()[0].0, "fc.weight");
        assert!(remove_parametrizations(&model, "fc.weight", true).is_err());
        assert_eq!(model.named_parameters()[0].1.meta().dtype, DType::F64);
        let vector = LayerNorm::new([4])?;
        assert!(orthogonal(&vector, "weight", Default::default()).is_err());
        assert!(weight_norm(&Linear::lazy(3)?, "weight", None).unwrap_err().to_string().contains("no value yet"));
        Ok(())
    })
}
#[test]
fn sequences_that_cannot_be_packed_and_are() -> Result<()> {
    on_reference(|| {
        let x = Tensor::ones([3, 2, 4]);
        let told = |result: Result<PackedSequence>, part: &str| {
            let error = result.map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("model.rs"), "{error}");
        };
        told(pack_padded_sequence(&x, &[1, 2], false, true), "enforce_sorted: false");
        told(pack_padded_sequence(&x, &[3], false, true), "1 lengths for 2 sequences");
        told(pack_padded_sequence(&x, &[3, 0], false, true), "sequence 1 has length 0");
        told(pack_padded_sequence(&x, &[4, 1], false, true), "sequence 0 has length 4");
        told(pack_sequence(&[], true), "no sequences");
        let packed = pack_padded_sequence(&x, &[1, 3], false, false)?;
        assert!(pad_packed_sequence(&packed, false, 0.0, Some(2)).is_err());
        let gru = Gru::new(4, 2)?;
        assert!(gru.forward_packed(&packed, Some(&Tensor::ones([1, 3, 2]))).is_err());
        let wrong = PackedSequence { batch_sizes: vec![2, 1], ..packed.clone() };
        assert!(gru.forward_packed(&wrong, None).is_err() && pad_packed_sequence(&wrong, false, 0.0, None).is_err());
        let (padded, h) = gru.forward_lengths(&x, &[1, 3], None)?;
        let (alone, last) = gru.forward_state(&x.narrow(1, 0, 1).narrow(0, 0, 1), None)?;
        assert_eq!(padded.narrow(1, 0, 1).narrow(0, 0, 1).to_vec::<f32>()?, alone.to_vec::<f32>()?);
        assert_eq!(h.narrow(1, 0, 1).to_vec::<f32>()?, last.to_vec::<f32>()?);
        assert_eq!(padded.narrow(1, 0, 1).narrow(0, 1, 2).to_vec::<f32>()?, [0.0; 4]);
        Ok(())
    })
}
#[test]
fn a_channel_that_is_dropped_in_part() -> Result<()> {
    on_reference(|| {
        manual_seed(3);
        let dropout = FeatureAlphaDropout::new(0.4)?;
        let x = Tensor::ones([100, 20, 3]);
        let y = dropout.forward(&x)?.to_vec::<f32>()?;
        assert!(y.chunks(3).all(|c| c[0] == c[1] && c[1] == c[2]));
        let low = y.iter().copied().fold(f32::INFINITY, f32::min);
        let dropped = y.iter().filter(|v| **v == low).count() as f64 / 6000.0;
        assert!((dropped - 0.4).abs() < 0.04, "{dropped}");
        dropout.eval();
        assert_eq!(dropout.forward(&x)?.to_vec::<f32>()?, x.to_vec::<f32>()?);
        let pool = FractionalMaxPool2d::new(2, 3);
        let (y, at) = pool.forward_indices(&Tensor::from_iter((0..49).map(|v| v as f32)).reshape([1, 7, 7]))?;
        assert_eq!(y.cast(DType::I64).to_vec::<i64>()?, at.to_vec::<i64>()?);
        Ok(())
    })
}
