//! What in a model could go, against plants: units that are dead, static or copies, a weight that is a product of thin factors.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{DType, Result, Tensor};
use adamant_nn::{BatchNorm2d, Conv2d, Flatten, Linear, Module, Relu, Sequential, Walk, init, manual_seed};
use adamant_quant::prune::{PruneSignals, SignalLimits, StructuredPruner, prune_signals, shrink_to};
use std::collections::BTreeMap;

fn drawn(shape: impl adamant_core::ToShape) -> Tensor {
    init::normal(shape, 0.0, 1.0).unwrap()
}
fn looked_at(model: &impl Module, x: &Tensor) -> PruneSignals {
    prune_signals(model, &[x.narrow(0, 0, 40), x.narrow(0, 40, 60)], SignalLimits::default()).unwrap()
}
/// Sets rows of a weight and its bias.
fn set(layer: &Linear, change: impl Fn(&mut [f32], &mut [f32], usize)) {
    let [rows, columns] = layer.weight.detached().dims().unwrap();
    let bias = layer.bias.as_ref().unwrap();
    let (mut w, mut b) = (layer.weight.detached().to_vec::<f32>().unwrap(), bias.detached().to_vec::<f32>().unwrap());
    change(&mut w, &mut b, columns);
    layer.weight.set(&Tensor::from_vec(w, [rows, columns])).unwrap();
    bias.set(&Tensor::from_vec(b, [rows])).unwrap();
}

#[test]
fn units_that_are_planted_and_not_found() {
    manual_seed(1);
    let layer = Linear::new(6, 12).unwrap();
    layer.weight.set(&drawn([12, 6])).unwrap();
    set(&layer, |w, b, columns| {
        // 3 never gets above 0, 5 is a number, 7 is twice 2, 9 is 4 the other way round (before the activation).
        b[3] = -100.0;
        w[5 * columns..6 * columns].fill(0.0);
        b[5] = 2.5;
        for k in 0..columns {
            w[7 * columns + k] = 2.0 * w[2 * columns + k];
        }
        b[7] = 2.0 * b[2];
    });
    let model = Sequential::new().add(layer).add(Relu::new()).add(Linear::new(12, 3).unwrap());
    let found = looked_at(&model, &drawn([100, 6]));
    let first = &found.layers[0];
    assert_eq!((first.path.as_str(), first.units, &first.dead, &first.constant), ("0", 12, &vec![3], &vec![5]), "{found}");
    assert_eq!(first.redundant.iter().map(|(unit, other, _)| (*unit, *other)).collect::<Vec<_>>(), [(7, 2)]);
    assert!(found.layers[1].dead.is_empty() && found.layers[1].redundant.is_empty(), "{found}");
    // Training mode is what it was, and nothing has changed.
    assert!(model.is_training());
    model.eval();
    assert!(!{
        looked_at(&model, &drawn([100, 6]));
        model.is_training()
    });
}
#[test]
fn channels_behind_their_norm_and_activation() -> Result<()> {
    manual_seed(2);
    let norm = BatchNorm2d::new(6)?;
    let mut shift = vec![0.1f32; 6];
    shift[4] = -50.0;
    norm.parameters()[1].set(&Tensor::from_vec(shift, [6]))?;
    let model = Sequential::new().add(Conv2d::new(1, 6, 3)?).add(norm).add(Relu::new()).add(Flatten::new()).add(Linear::new(6 * 9, 4)?);
    let found = looked_at(&model, &drawn([100, 1, 5, 5]));
    assert_eq!((found.layers[0].kind, &found.layers[0].dead), ("Conv2d", &vec![4]), "{found}");
    Ok(())
}
#[test]
fn ranks_and_bits_are_those_of_the_weight() -> Result<()> {
    manual_seed(3);
    let model = Sequential::new().add(Linear::no_bias(40, 30)?).add(Linear::no_bias(30, 20)?);
    let weights: Vec<_> = model.parameters();
    weights[0].set(&drawn([30, 3]).matmul(drawn([3, 40])))?;
    weights[1].set(&drawn([20, 30]))?;
    let found = looked_at(&model, &drawn([100, 40]));
    let (thin, full) = (&found.layers[0], &found.layers[1]);
    assert!(thin.rank <= 3 && thin.low_rank && thin.full_rank == 30, "{found}");
    assert!(full.rank > 10 && !full.low_rank && full.full_rank == 20, "{found}");
    // Of normal numbers with one scale a row, by hand: (code - 0) · scale, the largest of the row at the last code.
    let w = weights[1].detached().to_vec::<f32>()?;
    for (told, bits) in full.decibels.iter().zip([8u32, 4, 3]) {
        let most = (1 << (bits - 1)) - 1;
        let (mut signal, mut noise) = (0.0, 0.0);
        for row in w.chunks(30) {
            let scale = f64::from(row.iter().fold(0f32, |m, v| m.max(v.abs()))) / f64::from(most);
            for v in row {
                let v = f64::from(*v);
                signal += v * v;
                noise += ((v / scale).round() * scale - v).powi(2);
            }
        }
        let want = 10.0 * (signal / noise).log10();
        assert!((told - want).abs() < 0.3, "{bits} bits: {told}, not {want}");
    }
    assert_eq!(full.bits, [3u32, 4, 8].into_iter().zip([2, 1, 0]).find(|(_, k)| full.decibels[*k] >= 20.0).map(|(bits, _)| bits));
    Ok(())
}
#[test]
fn what_cannot_be_looked_at_is_told() -> Result<()> {
    let model = Sequential::new().add(Linear::new(2, 2)?);
    let refused = |result: Result<PruneSignals>, says: &str| {
        let text = result.err().unwrap().to_string();
        assert!(text.contains(says), "{text} lacks {says}");
    };
    refused(prune_signals(&model, &[], SignalLimits::default()), "no batches");
    refused(prune_signals(&model, &[Tensor::full([3, 2], f64::NAN, DType::F32)], SignalLimits::default()), "not finite");
    model.parameters()[0].set(&Tensor::full([2, 2], f64::INFINITY, DType::F32))?;
    refused(prune_signals(&model, &[Tensor::ones([3, 2])], SignalLimits::default()), "not finite");
    Ok(())
}
#[test]
fn a_fresh_model_takes_shapes_or_stays_what_it_was() -> Result<()> {
    let net = || Ok::<_, adamant_core::Error>(Sequential::new().add(Linear::new(4, 8)?).add(Relu::new()).add(Linear::new(8, 2)?));
    let (model, fresh, x) = (net()?, net()?, drawn([3, 4]));
    let pruner = StructuredPruner::new(0.5)?;
    let report = pruner.prune(&model, &pruner.compute_importance(&model, &x)?)?;
    let shapes = report.shapes(&model);
    assert_eq!(shapes.keys().collect::<Vec<_>>(), ["0.bias", "0.weight", "2.weight"]);
    let refused = |change: &dyn Fn(&mut BTreeMap<String, Vec<usize>>), says: &str| {
        let mut shapes = shapes.clone();
        change(&mut shapes);
        let text = shrink_to(&fresh, &shapes).unwrap_err().to_string();
        assert!(text.contains(says), "{text} lacks {says}");
        assert_eq!(fresh.parameters()[0].meta().shape.to_vec(), [8, 4]);
    };
    refused(&|s| drop(s.insert("2.wieght".into(), vec![1])), "2.weight");
    refused(&|s| drop(s.insert("2.weight".into(), vec![2, 9])), "no part");
    refused(&|s| drop(s.insert("2.weight".into(), vec![2])), "no part");
    refused(&|s| drop(s.insert("2.weight".into(), vec![0, 4])), "no part");
    shrink_to(&fresh, &shapes)?;
    fresh.load_state_dict(&model.state_dict())?;
    assert_eq!(fresh.forward(&x)?.to_vec::<f32>()?, model.forward(&x)?.to_vec::<f32>()?);
    Ok(())
}
