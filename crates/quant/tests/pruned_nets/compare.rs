//! A drawn network without channels beside the same with their parameters at zero: outputs, gradients and counts. The test and
//! `cargo xtask quant prune` share it, so the crates are named by who includes this.
use super::{
    core, drawn,
    drawn::{DrawnCase, DrawnNet, Draws},
    nn, prune,
};
use core::{DType, Grads, Result, Tensor};
use nn::{Module, Param, Walk, init};
use prune::{StructuredImportance, StructuredPruner, StructuredReport};
use std::collections::BTreeMap;

/// What is done to a pruned network before it is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrunedFault {
    None,
    /// the channels of one parameter stand in another order
    Order,
    /// a channel that stays is announced in the place of one that has left
    Announced,
    /// one element more is announced
    Count,
    /// a number of one parameter is a little off
    Number,
}
/// What came of a network.
pub struct ComparedNet {
    /// the largest difference of outputs and of gradients, as a part of the largest number
    pub outputs: f64,
    pub gradients: f64,
    pub removed: usize,
    /// couplings, and of each whether the channels that it binds became fewer
    pub couplings: Vec<(&'static str, bool)>,
    /// was it compared in f64?
    pub is_wide: bool,
    /// was there anything that a fault could be planted in?
    pub planted: bool,
}
/// Numbers beyond which networks differ.
pub const CLOSE: f64 = 1e-5;
const CLOSE_WIDE: f64 = 1e-9;

/// The network of a seed. An error is a network that differs.
pub fn compare(seed: u64, fault: PrunedFault) -> std::result::Result<ComparedNet, String> {
    let told = |e: core::Error| format!("net {seed}: {e}");
    let mut case = drawn::drawn(seed).map_err(told)?;
    let mut draws = Draws(seed ^ 0x5eed);
    stir(&case.net).map_err(told)?;
    case.net.eval();
    let masked = case.net.deep_copy().map_err(told)?;
    let share = draws.one(&[0.25, 0.5, 0.75]);
    let (before, mut report) = pruned(&case, share, &mut draws).map_err(told)?;
    let planted = plant(fault, &case.net, &before, &mut report).map_err(told)?;
    counts(&case.net, &before, &report, share).map_err(|text| format!("net {seed}: {text}"))?;
    mask(&masked, &report).map_err(told)?;
    let [mut outputs, mut gradients] = differences(&case, &masked, &report).map_err(told)?;
    let is_wide = !(outputs <= CLOSE && gradients <= CLOSE);
    if is_wide {
        // Behind a norm of numbers near 0 f32 rounds more than that; in f64 the two are still one network, or they are not.
        case.widen().and_then(|()| masked.cast(DType::F64)).map_err(told)?;
        [outputs, gradients] = differences(&case, &masked, &report).map_err(told)?;
        if !(outputs <= CLOSE_WIDE && gradients <= CLOSE_WIDE) {
            return Err(format!("net {seed}: outputs differ by {outputs:e}, gradients by {gradients:e} of the largest; {:?}", case.couplings));
        }
    }
    let shrunk = |layer: usize| report.removed.keys().any(|(path, _)| path.starts_with(&format!("layers.{layer}.")));
    let couplings = case.couplings.iter().map(|(name, layer)| (*name, shrunk(*layer))).collect();
    Ok(ComparedNet { outputs, gradients, removed: report.elements_before - report.elements_after, couplings, planted, is_wide })
}
type Shapes = BTreeMap<String, Vec<usize>>;
fn shapes(net: &DrawnNet) -> Shapes {
    net.leaves().into_iter().map(|(path, p)| (path, p.meta().shape.to_vec())).collect()
}
fn pruned(case: &DrawnCase, share: f64, draws: &mut Draws) -> Result<(Shapes, StructuredReport)> {
    use StructuredImportance::{L1, L2, NormScale, Taylor};
    let importance = draws.one(&[L1, L1, L2, Taylor, NormScale]);
    let grads = case.net.forward(&case.x)?.square().sum(..).backward()?;
    let pruner = StructuredPruner::new(share)?.importance(importance);
    let found = pruner.compute_importance_by(&case.net, &case.x, &grads)?;
    let before = shapes(&case.net);
    Ok((before, pruner.prune(&case.net, &found)?))
}
/// Parameters and running statistics that say something.
fn stir(net: &DrawnNet) -> Result<()> {
    for (path, p) in net.leaves() {
        let meta = p.meta();
        if meta.dtype.is_float() {
            let value = init::normal(meta.shape, 0.0, 0.4)?;
            p.set(&if path.ends_with("running_var") { value.abs() + 0.5 } else { value })?;
        }
    }
    Ok(())
}
/// The parameters of what has left at zero.
fn mask(net: &DrawnNet, report: &StructuredReport) -> Result<()> {
    let leaves: BTreeMap<String, Param> = net.leaves().into_iter().collect();
    for ((path, axis), gone) in &report.removed {
        let p = &leaves[path];
        let (shape, mut values) = (p.meta().shape, p.detached().to_vec::<f32>()?);
        let inner: usize = shape[axis + 1..].iter().product();
        values.iter_mut().enumerate().filter(|(at, _)| gone.contains(&(at / inner % shape[*axis]))).for_each(|(_, v)| *v = 0.0);
        p.set(&Tensor::from_vec(values, shape))?;
    }
    Ok(())
}
/// Every size is what the report announces.
fn counts(net: &DrawnNet, before: &Shapes, report: &StructuredReport, share: f64) -> std::result::Result<(), String> {
    let after = shapes(net);
    for (path, old) in before {
        let wanted: Vec<usize> = old.iter().enumerate().map(|(axis, size)| size - report.removed.get(&(path.clone(), axis)).map_or(0, Vec::len)).collect();
        if after[path] != wanted {
            return Err(format!("`{path}` is {:?}, announced {wanted:?}", after[path]));
        }
    }
    let sum = |shapes: &Shapes| shapes.values().map(|shape| shape.iter().product::<usize>()).sum::<usize>();
    let (left, announced) = (sum(before) - sum(&after), report.elements_before - report.elements_after);
    if left != announced {
        return Err(format!("{left} elements have left, announced {announced}"));
    }
    for family in &report.pruned {
        let wanted = ((share * family.channels as f64) as usize).min(family.channels - 1);
        if family.removed.len() != wanted {
            return Err(format!("{} of {} channels have left, not {wanted}: {:?}", family.removed.len(), family.channels, family.parameters));
        }
    }
    // No size is written into these networks: what can go is seen without trying.
    match report.kept.iter().find(|kept| kept.reason.contains("without them")) {
        Some(kept) => Err(format!("`{}`, axis {}: {}", kept.path, kept.axis, kept.reason)),
        None => Ok(()),
    }
}
/// Outputs and gradients, evaluating and training, of one loss.
fn differences(case: &DrawnCase, masked: &DrawnNet, report: &StructuredReport) -> Result<[f64; 2]> {
    let (mut outputs, mut gradients) = (0f64, 0f64);
    for training in [false, true] {
        let answers = [&case.net, masked].map(|net| -> Result<(Tensor, Grads)> {
            if training {
                net.train()
            } else {
                net.eval()
            }
            let y = net.forward(&case.x)?;
            let weights = Tensor::from_vec((0..y.shape()?.elements()).map(|k| 1.0 - 0.37 * (k % 5) as f32).collect(), y.shape()?).cast(y.dtype()?);
            let grads = (&y * weights).sum(..).backward()?;
            Ok((y.detach(), grads))
        });
        let [small, large] = answers;
        let ((small, of_small), (large, of_large)) = (small?, large?);
        outputs = outputs.max(apart(&small, &large)?);
        let (own, whole) = (case.net.named_parameters(), masked.named_parameters());
        // A gradient is as exact as the largest of all.
        let mut scale = 1f64;
        let mut pairs = Vec::new();
        for ((path, p), (_, q)) in own.iter().zip(&whole) {
            let (Some(got), Some(wanted)) = (of_small.of(&p.cell()), of_large.of(&q.cell())) else {
                // Neither of the two, or it is one network that has it.
                gradients = if of_small.of(&p.cell()).is_some() == of_large.of(&q.cell()).is_some() { gradients } else { f64::INFINITY };
                continue;
            };
            let mut wanted = wanted.clone();
            for axis in 0..p.meta().shape.rank() {
                let Some(gone) = report.removed.get(&(path.clone(), axis)) else { continue };
                let stays: Vec<i64> = (0..wanted.shape()?[axis]).filter(|k| !gone.contains(k)).map(|k| k as i64).collect();
                let count = stays.len();
                wanted = wanted.index_select(axis, &Tensor::from_vec(stays, [count]));
            }
            scale = scale.max(largest(&wanted)?);
            pairs.push((got.clone(), wanted));
        }
        for (got, wanted) in pairs {
            gradients = gradients.max(largest(&(got.cast(DType::F64) - wanted.cast(DType::F64)))? / scale);
        }
    }
    Ok([outputs, gradients])
}
fn largest(t: &Tensor) -> Result<f64> {
    let all = t.cast(DType::F64).to_vec::<f64>()?;
    Ok(all.into_iter().fold(0.0, |most, v| if v.is_nan() { f64::INFINITY } else { f64::max(most, v.abs()) }))
}
fn apart(a: &Tensor, b: &Tensor) -> Result<f64> {
    Ok(largest(&(a.cast(DType::F64) - b.cast(DType::F64)))? / largest(b)?.max(1.0))
}
/// Whether there was something to plant it in.
fn plant(fault: PrunedFault, net: &DrawnNet, before: &Shapes, report: &mut StructuredReport) -> Result<bool> {
    let leaves: BTreeMap<String, Param> = net.leaves().into_iter().collect();
    // Where channels are read, with more than one left: a head's inputs matter always.
    let read = report.removed.keys().rfind(|(path, axis)| *axis == 1 && leaves[path].meta().shape[1] > 1).cloned();
    match (fault, read) {
        (PrunedFault::None, _) => Ok(false),
        (PrunedFault::Count, _) => {
            report.elements_after = report.elements_after.saturating_sub(1);
            Ok(true)
        }
        (_, None) => Ok(false),
        (PrunedFault::Announced, Some((path, axis))) => {
            let Some(gone) = report.removed.get_mut(&(path.clone(), axis)) else { return Ok(false) };
            let Some(stays) = (0..before[&path][axis]).find(|k| !gone.contains(k)) else { return Ok(false) };
            if let Some(first) = gone.first_mut() {
                *first = stays;
            }
            Ok(true)
        }
        (PrunedFault::Order, Some((path, axis))) => {
            let p = &leaves[&path];
            let order: Vec<i64> = (0..p.meta().shape[axis] as i64).rev().collect();
            let count = order.len();
            p.set(&p.detached().index_select(axis, &Tensor::from_vec(order, [count])))?;
            Ok(true)
        }
        (PrunedFault::Number, Some((path, _))) => {
            let p = &leaves[&path];
            p.set(&(p.detached() * 1.001))?;
            Ok(true)
        }
    }
}
