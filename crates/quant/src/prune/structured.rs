//! Structured pruning: whole channels leave a model, and its parameters are smaller ones.
//!
//! A channel can leave only with all that belongs to it: the filter that makes it, its bias, its share of norms, what a residual sum
//! adds it to, and the inputs of the layers that read it. [`StructuredPruner::compute_importance`] captures the model's forward pass on an
//! example ([`Graph::capture`](adamant_core::graph::Graph::capture)), follows each axis of each parameter through the primitives, and so finds families of channels: of each
//! family any channel may go. What cannot go (what the model returns, what a norm over channels needs whole)
//! stays, and [`StructuredReport::kept`] has the reason. [`StructuredPruner::prune`] takes the least important channels out.
//!
//! The pruned model computes what the model computes with these channels' parameters at zero, and both are run to see it. What goes is
//!
//! | of | goes |
//! |---|---|
//! | linear layers, convolutions, transposed ones, embeddings | outputs, with what is added, joined or multiplied with them, and the inputs of what reads them |
//! | grouped convolutions | the same channels of each group |
//! | depthwise convolutions, group norms, attention | whole groups, whole heads |
//! | RNN, GRU, LSTM | a unit with all its gates, of each layer and direction the same number |
//! | layer and RMS norms | nothing of what they are over |
//!
//! Running statistics shrink too. Make the optimizer afterwards.
//!
//! ```
//! # use adamant_core::Tensor;
//! # use adamant_nn::{BatchNorm2d, Conv2d, Flatten, Linear, Module, Relu, Sequential};
//! # use adamant_quant::prune::StructuredPruner;
//! # adamant_core::Device::reference().make_current();
//! let model = Sequential::new().add(Conv2d::new(3, 8, 3)?).add(BatchNorm2d::new(8)?).add(Relu::new()).add(Flatten::new()).add(Linear::new(8 * 4, 10)?);
//! let x = Tensor::ones([1, 3, 4, 4]);
//! let pruner = StructuredPruner::new(0.5)?;
//! let importance = pruner.compute_importance(&model, &x)?;
//! let report = pruner.prune(&model, &importance)?;
//! assert_eq!(report.pruned[0].removed.len(), 4); // of the 8 channels, and 16 of the 32 inputs of the head
//! assert_eq!(model.forward(&x)?.dims()?, [1, 10]);
//! # Ok::<(), adamant_core::Error>(())
//! ```
//!
//! Source: the dependency graph of Fang et al. 2023 (DepGraph), here from primitives instead of layers.
use crate::select::{check, refusal};
use adamant_core::{DType, Grads, Result, Tensor};
use adamant_nn::{Module, Param, Role, Walk};
use attempt::{Attempts, Leaving};
use dependency::{ChannelFamily, Dependencies, ParamAxis, dependencies};
use std::collections::{BTreeMap, BTreeSet};

mod attempt;
mod dependency;
mod labels;

pub(super) const STRUCTURED: &str = "structured_pruning";

/// What a channel is worth: a sum over what makes it, where several layers do (a residual sum).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StructuredImportance {
    /// the sum of `|w|` over its filters (Li et al. 2017)
    #[default]
    L1,
    /// the square root of the sum of `w²` over its filters
    L2,
    /// `|Σ w · g|` over its filters, what the loss changes by without it to first order (Molchanov et al. 2019). Needs gradients:
    /// [`StructuredPruner::compute_importance_by`].
    Taylor,
    /// the scale `|γ|` of its norms (Liu et al. 2017). Channels without one stay.
    NormScale,
}
/// How many channels leave, and by what they are worth.
#[derive(Clone, PartialEq, Debug)]
pub struct StructuredPruner {
    share: f64,
    importance: StructuredImportance,
}
/// What the channels of a model are worth.
pub struct ChannelImportance {
    found: Dependencies,
    /// of each family, of each channel
    scores: Vec<Option<Vec<f64>>>,
    example: Tensor,
}
/// A family of channels, some of which have left.
#[derive(Clone, PartialEq, Debug)]
pub struct PrunedChannels {
    /// the parameters that have them, each with the axis
    pub parameters: Vec<(String, usize)>,
    /// how many there were
    pub channels: usize,
    /// which of them have left
    pub removed: Vec<usize>,
}
/// An axis of a parameter of which nothing leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptAxis {
    /// the parameter
    pub path: String,
    /// its axis
    pub axis: usize,
    /// why
    pub reason: String,
}
/// What has left a model and what has not.
#[derive(Clone, PartialEq, Debug)]
pub struct StructuredReport {
    /// families of channels
    pub pruned: Vec<PrunedChannels>,
    /// axes 0 and 1 of weights of which channels stay, with the reason
    pub kept: Vec<KeptAxis>,
    /// of each parameter that shrank, by path and axis, which elements have left
    pub removed: BTreeMap<(String, usize), Vec<usize>>,
    /// elements of the parameters that were looked at, before
    pub elements_before: usize,
    /// and after
    pub elements_after: usize,
}
impl StructuredReport {
    /// The shapes of the parameters that shrank, of the model as it is now: what [`super::shrink_to`] gives a fresh one.
    pub fn shapes(&self, model: &(impl Walk + ?Sized)) -> BTreeMap<String, Vec<usize>> {
        let shrank = |path: &String| self.removed.keys().any(|(of, _)| of == path);
        model.leaves().into_iter().filter(|(path, _)| shrank(path)).map(|(path, param)| (path, param.meta().shape.to_vec())).collect()
    }
}
impl StructuredPruner {
    /// That takes this share of each family's channels, by their filters' sum of `|w|`. One channel of each always stays.
    ///
    /// # Errors
    /// A share that is not from 0 to below 1.
    #[track_caller]
    pub fn new(share: f64) -> Result<StructuredPruner> {
        check(STRUCTURED, (0.0..1.0).contains(&share), || format!("the share is {share}, it must be from 0 to below 1"))?;
        Ok(StructuredPruner { share, importance: StructuredImportance::default() })
    }
    /// By another importance.
    #[must_use]
    pub fn importance(self, importance: StructuredImportance) -> StructuredPruner {
        StructuredPruner { importance, ..self }
    }
    /// Follows the channels of a model through its forward pass on an example, which is not run, and tells what they are worth.
    ///
    /// # Errors
    /// A forward pass that cannot be captured (it reads data); parameters that are computed from others; importance by gradients,
    /// which are not given here; numbers that are not finite.
    #[track_caller]
    pub fn compute_importance(&self, model: &impl Module, example: &Tensor) -> Result<ChannelImportance> {
        self.scored(model, example, None)
    }
    /// As [`StructuredPruner::compute_importance`], with the gradients of a loss of this model.
    ///
    /// # Errors
    /// As [`StructuredPruner::compute_importance`]; a parameter without a gradient.
    #[track_caller]
    pub fn compute_importance_by(&self, model: &impl Module, example: &Tensor, grads: &Grads) -> Result<ChannelImportance> {
        self.scored(model, example, Some(grads))
    }
    #[track_caller]
    fn scored(&self, model: &impl Module, example: &Tensor, grads: Option<&Grads>) -> Result<ChannelImportance> {
        let found = dependencies(model, example)?;
        let norms: BTreeSet<String> =
            model.named_modules().into_iter().filter(|(_, m)| m.kind.contains("Norm")).map(|(path, _)| crate::select::joined(&path, "weight")).collect();
        let mut sums: BTreeMap<ParamAxis, Vec<f64>> = BTreeMap::new();
        for family in &found.families {
            for axis in &family.axes {
                let (path, param) = &found.params[axis.0];
                let counts = match self.importance {
                    StructuredImportance::NormScale => norms.contains(path),
                    _ => param.role() == Role::Trainable && param.meta().shape.rank() >= 2 && !found.consumed.contains(axis),
                };
                if counts && !sums.contains_key(axis) {
                    sums.insert(*axis, self.sums(path, param, axis.1, grads)?);
                }
            }
        }
        let score = |members: &[(ParamAxis, usize)]| -> f64 {
            let of = members.iter().filter_map(|(axis, k)| sums.get(axis).map(|sums| sums[*k]));
            if self.importance == StructuredImportance::L2 { of.sum::<f64>().sqrt() } else { of.map(f64::abs).sum() }
        };
        let scores = found.families.iter().map(|family| {
            let is_known = family.axes.iter().any(|axis| sums.contains_key(axis));
            is_known.then(|| family.channels.iter().map(|members| score(members)).collect())
        });
        Ok(ChannelImportance { scores: scores.collect(), found, example: example.clone() })
    }
    /// For each element along an axis the sum over the others.
    #[track_caller]
    fn sums(&self, path: &str, param: &Param, axis: usize, grads: Option<&Grads>) -> Result<Vec<f64>> {
        let values = numbers(&param.detached())?;
        let terms: Vec<f64> = match self.importance {
            StructuredImportance::L1 | StructuredImportance::NormScale => values.into_iter().map(f64::abs).collect(),
            StructuredImportance::L2 => values.into_iter().map(|w| w * w).collect(),
            StructuredImportance::Taylor => {
                let Some(grads) = grads else {
                    return Err(
                        refusal(STRUCTURED, "importance by gradients needs gradients".into()).hint("call `compute_importance_by` with what `backward` gave")
                    );
                };
                let gradient = grads.of(&param.cell()).ok_or_else(|| refusal(STRUCTURED, format!("`{path}` has no gradient among those given")))?;
                values.into_iter().zip(numbers(gradient)?).map(|(w, g)| w * g).collect()
            }
        };
        check(STRUCTURED, terms.iter().all(|term| term.is_finite()), || format!("`{path}` or its gradient has a number that is not finite"))?;
        let shape = param.meta().shape;
        let (size, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        let mut sums = vec![0.0; size];
        terms.iter().enumerate().for_each(|(at, term)| sums[at / inner.max(1) % size] += term);
        Ok(sums)
    }
    /// Takes the channels of least importance out of a model. The model runs on the example, evaluating, without them and with their
    /// parameters at zero; a family without which it does not run, or computes something else, stays, and the report has the reason.
    ///
    /// # Errors
    /// A model that has changed since its importance was computed, or does not run on the example. Then it is as it was.
    #[track_caller]
    pub fn prune(&self, model: &impl Module, importance: &ChannelImportance) -> Result<StructuredReport> {
        let found = &importance.found;
        let named = |axis: &ParamAxis| (found.params[axis.0].0.clone(), axis.1);
        let kept = |axis: &ParamAxis, reason: &str| KeptAxis { path: named(axis).0, axis: axis.1, reason: reason.to_string() };
        let mut report = StructuredReport { pruned: Vec::new(), kept: Vec::new(), removed: BTreeMap::new(), elements_before: 0, elements_after: 0 };
        let mut chosen = Vec::new();
        for (family, scores) in found.families.iter().zip(&importance.scores) {
            match scores {
                Some(scores) => chosen.push((family, self.least(scores))),
                None => report.kept.extend(family.axes.iter().map(|axis| kept(axis, "nothing of it has this importance"))),
            }
        }
        report.elements_before = found.params.iter().map(|(_, param)| param.elements()).sum();
        let attempts = Attempts { model, params: &found.params, example: &importance.example };
        let staying = taken_out(&attempts, &chosen)?;
        for (number, (family, removed)) in chosen.into_iter().enumerate() {
            if let Some(reason) = staying.get(&number) {
                report.kept.extend(family.axes.iter().map(|axis| kept(axis, reason)));
                continue;
            }
            for (axis, k) in removed.iter().flat_map(|channel| &family.channels[*channel]) {
                report.removed.entry(named(axis)).or_default().push(*k);
            }
            report.pruned.push(PrunedChannels { parameters: family.axes.iter().map(named).collect(), channels: family.channels.len(), removed });
        }
        report.removed.values_mut().for_each(|gone| gone.sort_unstable());
        let is_shown = |axis: &ParamAxis| axis.1 < 2 && found.params[axis.0].1.meta().shape.rank() >= 2;
        report.kept.extend(found.staying.iter().filter(|(axis, _)| is_shown(axis)).map(|(axis, reason)| kept(axis, reason)));
        report.elements_after = found.params.iter().map(|(_, param)| param.elements()).sum();
        Ok(report)
    }
    /// The channels of least worth, all but one at most.
    fn least(&self, scores: &[f64]) -> Vec<usize> {
        let count = ((self.share * scores.len() as f64) as usize).min(scores.len().saturating_sub(1));
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]).then(a.cmp(b)));
        order.truncate(count);
        order.sort_unstable();
        order
    }
}
/// Takes channels of families out: all together; if that does not do, all that can go alone; and if that does not do either, one
/// family after the other. Gives those that stay, with the reason.
#[track_caller]
fn taken_out<M: Module>(attempts: &Attempts<'_, M>, chosen: &[(&ChannelFamily, Vec<usize>)]) -> Result<BTreeMap<usize, String>> {
    let leaving = |numbers: &[usize]| -> Leaving {
        let mut leaving = Leaving::new();
        for (family, removed) in numbers.iter().filter_map(|number| chosen.get(*number)) {
            for (axis, k) in removed.iter().flat_map(|channel| &family.channels[*channel]) {
                leaving.entry(*axis).or_default().insert(*k);
            }
        }
        leaving
    };
    let all: Vec<usize> = (0..chosen.len()).collect();
    if attempts.take_out(&leaving(&all))?.is_none() {
        return Ok(BTreeMap::new());
    }
    // What goes alone is put back until it is known what goes together.
    let (mut staying, mut alone) = (BTreeMap::new(), Vec::new());
    for number in all {
        match attempts.try_out(&leaving(&[number]))? {
            Some(reason) => drop(staying.insert(number, reason)),
            None => alone.push(number),
        }
    }
    if attempts.take_out(&leaving(&alone))?.is_none() {
        return Ok(staying);
    }
    let mut together = Vec::new();
    for number in alone {
        together.push(number);
        if let Some(reason) = attempts.try_out(&leaving(&together))? {
            together.pop();
            staying.insert(number, reason);
        }
    }
    match attempts.take_out(&leaving(&together))? {
        None => Ok(staying),
        Some(reason) => Err(refusal(STRUCTURED, format!("the model computes something else each time: {reason}"))),
    }
}
#[track_caller]
fn numbers(t: &Tensor) -> Result<Vec<f64>> {
    match t.dtype()? {
        DType::F64 => t.to_vec::<f64>(),
        _ => Ok(t.to_vec_as::<f32>()?.into_iter().map(f64::from).collect()),
    }
}
