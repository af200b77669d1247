//! Pruning: weights that are zero and stay so.
//!
//! A [`Pruner`] says what a weight is worth ([`PruneImportance`]) and where (globs over paths of parameters, each layer for itself or
//! all together); [`Pruner::prune`] masks the least of them and gives a [`PrunedModel`], which prunes further, reports and makes
//! permanent. A [`PruningScheduler`] does it little by little in training.
//!
//! **Where the zeros are.** A masked weight becomes a computed one ([`adamant_nn::parametrize`]): `parametrizations.weight.original`
//! where the mask is true and 0 where not. The mask is a buffer of the model, `parametrizations.weight.0.mask`, and is saved, copied
//! and moved with it. Gradients do not reach what is masked; and whatever sets the original (momentum of the time before the mask, weight
//! decay, a state dict) sets it through the mask ([`Parametrization::project`]), so
//! its zeros are exact after each step of any optimizer and in every state dict. Make the optimizer behind the first [`Pruner::prune`]; masks may grow later.
//!
//! A weight that layers share is masked once, in all its places.
//!
//! **How much.** A share of all elements ([`PruneAmount::Share`]), or N of each M neighbours along the axis of inputs
//! ([`PruneAmount::Keep`]; 2 of 4 is what sparse tensor cores take). What is masked stays masked.
//!
//! **Resume.** Build the model, `prune` it with a share of 0, load the state dict and [`PruningScheduler::load_state_dict`].
//!
//! **Files.** [`save_sparse`] writes state dicts with the zeros left out, [`load_sparse`] reads them back, bit by bit the same.
//!
//! **Structured.** A [`StructuredPruner`] takes whole channels out, and the parameters are smaller ones.
//!
//! **Before.** [`prune_signals`] tells what in a trained model looks as if it could go.
//!
//! ```
//! # use adamant_core::Tensor;
//! # use adamant_nn::{Linear, Module, Relu, Sequential};
//! # use adamant_quant::prune::{PruneAmount, PruneImportance, Pruner};
//! # adamant_core::Device::reference().make_current();
//! let model = Sequential::new().add(Linear::new(8, 16)?).add(Relu::new()).add(Linear::new(16, 4)?);
//! let pruned = Pruner::new(PruneImportance::Magnitude).global().prune(&model, 0.5)?;
//! assert_eq!(pruned.report()?.zeros(), (8 * 16 + 16 * 4) / 2);
//! pruned.prune(PruneAmount::Share(0.75))?; // further, later
//! pruned.remove()?; // plain weights again, zeros included
//! # model.forward(&Tensor::ones([1, 8]))?;
//! # Ok::<(), adamant_core::Error>(())
//! ```
use crate::select::{AtPath, check, joined, means, nothing_means, placed_params, refusal};
use adamant_core::{DType, Grads, Result, Tensor, step};
use adamant_nn::{
    Module, Param, Role, Walk,
    parametrize::{Parametrization, register_parametrization, remove_parametrizations},
};
use std::collections::HashSet;

mod choose;
mod report;
mod schedule;
mod shapes;
mod signals;
mod sparse;
mod structured;
pub use report::{LayerSparsity, SparsityReport, sparsity_report};
pub use schedule::{PruningCurve, PruningSchedule, PruningScheduler};
pub use shapes::shrink_to;
pub use signals::{LayerSignals, PruneSignals, SignalLimits, prune_signals};
pub use sparse::{load_sparse, save_sparse};
pub use structured::{ChannelImportance, KeptAxis, PrunedChannels, StructuredImportance, StructuredPruner, StructuredReport};

const PRUNE: &str = "prune";

/// What an element of a weight is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PruneImportance {
    /// `|w|` (Han et al. 2015)
    Magnitude,
    /// `|w · g|`, what the loss changes by without it to first order (Molchanov et al. 2017; SNIP, Lee et al. 2019). Needs gradients:
    /// [`Pruner::prune_by`].
    Gradient,
    /// Drawn from a seed: the same order each time.
    Random(u64),
}
/// How much is pruned.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PruneAmount {
    /// This share of all elements, from 0 to below 1.
    Share(f64),
    /// All but `n` of each `m` neighbours along axis 1, that of a layer's inputs.
    Keep {
        /// how many stay
        n: usize,
        /// of how many
        m: usize,
    },
}
impl From<f64> for PruneAmount {
    fn from(share: f64) -> PruneAmount {
        PruneAmount::Share(share)
    }
}
impl PruneAmount {
    #[track_caller]
    fn sense(self) -> Result<()> {
        match self {
            PruneAmount::Share(share) => check(PRUNE, (0.0..1.0).contains(&share), || format!("the sparsity is {share}, it must be from 0 to below 1")),
            PruneAmount::Keep { n, m } => check(PRUNE, n > 0 && n <= m, || format!("{n} of each {m} cannot be kept: it must be 1 to {m}")),
        }
    }
}
/// Which weights are pruned, and by what they are worth.
#[derive(Clone, PartialEq, Debug)]
pub struct Pruner {
    importance: PruneImportance,
    targets: Vec<String>,
    global: bool,
}
impl Pruner {
    /// The weights of all `Linear`, `Conv` and `ConvTranspose` layers, each layer for itself.
    pub fn new(importance: PruneImportance) -> Pruner {
        Pruner { importance, targets: Vec::new(), global: false }
    }
    /// The parameters that globs mean: `*` any characters, `?` one; a name without either also means every path that ends with it.
    #[must_use]
    pub fn targets<T: Into<String>>(self, targets: impl IntoIterator<Item = T>) -> Pruner {
        Pruner { targets: targets.into_iter().map(Into::into).collect(), ..self }
    }
    /// The least of all weights together, so that layers end with shares of their own. Has no meaning for N of M.
    #[must_use]
    pub fn global(self) -> Pruner {
        Pruner { global: true, ..self }
    }
    /// Masks a model's weights.
    ///
    /// # Errors
    /// A share or a pattern that makes no sense; a target that means nothing (the nearest is named); a weight that has no value yet,
    /// is computed already, or has numbers that are not finite; a pattern that does not divide a layer's inputs; importance by
    /// gradients, which are not given here. They name the layer. Then the model is as it was.
    #[track_caller]
    pub fn prune(&self, model: &(impl Walk + ?Sized), amount: impl Into<PruneAmount>) -> Result<PrunedModel> {
        self.begin(model, amount.into(), None)
    }
    /// As [`Pruner::prune`], with the gradients of a loss of this model.
    ///
    /// # Errors
    /// As [`Pruner::prune`]; a weight without a gradient.
    #[track_caller]
    pub fn prune_by(&self, model: &(impl Walk + ?Sized), amount: impl Into<PruneAmount>, grads: &Grads) -> Result<PrunedModel> {
        self.begin(model, amount.into(), Some(grads))
    }
    #[track_caller]
    fn begin(&self, model: &(impl Walk + ?Sized), amount: PruneAmount, grads: Option<&Grads>) -> Result<PrunedModel> {
        amount.sense()?;
        let mut weights = self.chosen(model)?;
        // Looked at with the parameters that the gradients are of, before anything is changed.
        let masks = choose::masks(self, &weights, amount, grads)?;
        for weight in &mut weights {
            weight.attach()?;
        }
        model.named_parameters();
        let pruned = PrunedModel { pruner: self.clone(), weights };
        pruned.set_masks(&masks)?;
        Ok(pruned)
    }
    #[track_caller]
    fn chosen(&self, model: &(impl Walk + ?Sized)) -> Result<Vec<PrunedWeight>> {
        let placed = placed_params(model);
        let paths: Vec<String> = match self.targets.as_slice() {
            [] => {
                let kinds = |kind: &str| kind == "Linear" || kind.starts_with("Conv");
                let all = model.named_modules();
                all.iter()
                    .filter(|(_, m)| kinds(m.kind))
                    .map(|(path, _)| joined(path, "weight"))
                    .filter(|path| placed.iter().any(|p| p.path == *path))
                    .collect()
            }
            targets => {
                let mut paths = Vec::new();
                for pattern in targets {
                    let fit = |p: &&crate::select::PlacedParam| means(pattern, &p.path) && (p.is_computed || p.param.role() == Role::Trainable);
                    let found: Vec<String> = placed.iter().filter(fit).map(|p| p.path.clone()).collect();
                    if found.is_empty() {
                        return Err(nothing_means(PRUNE, "parameter", pattern, placed.iter().map(|p| p.path.as_str())));
                    }
                    paths.extend(found);
                }
                paths
            }
        };
        check(PRUNE, !paths.is_empty(), || "the model has no Linear and no convolution".into())
            .map_err(|e| e.hint("name parameters: `.targets([\"*.weight\"])`"))?;
        let mut known = HashSet::new();
        let mut weights = Vec::new();
        // Each once and in the model's order, also a tied one.
        for place in placed.iter().filter(|p| paths.contains(&p.path)) {
            if !known.insert(place.param.id()) {
                continue;
            }
            if place.is_computed {
                return Err(refusal(PRUNE, format!("`{}` is computed from other parameters already", place.path))
                    .hint("more of a pruned model: `PrunedModel::prune`; else take away what computes it first"));
            }
            check(PRUNE, !place.param.is_uninitialized(), || format!("`{}` has no value yet: its shape follows from the layer's first input", place.path))?;
            let meta = place.param.meta();
            let mask = Param::buffer(&Tensor::full_on(meta.shape, 1, DType::Bool, meta.device))?;
            weights.push(PrunedWeight { path: place.path.clone(), param: place.param.clone(), original: place.param.clone(), mask });
        }
        Ok(weights)
    }
}
/// A weight where a mask is true, 0 elsewhere.
#[derive(Clone, Module)]
struct MaskedWeight {
    mask: Param,
}
impl MaskedWeight {
    #[track_caller]
    fn masked(&self, original: &Tensor) -> Result<Tensor> {
        self.mask.detached().where_(original, original.zeros_like()).ok()
    }
}
impl Parametrization for MaskedWeight {
    fn forward(&self, originals: &[Tensor]) -> Result<Tensor> {
        let [original] = originals else {
            return Err(refusal(PRUNE, format!("a mask is of one tensor, not of {}", originals.len())));
        };
        self.masked(original)
    }
    fn project(&self, original: &Tensor) -> Result<Tensor> {
        self.masked(original)
    }
}
/// One weight and its mask.
struct PrunedWeight {
    path: String,
    param: Param,
    /// what is trained: the parameter itself until it has a mask
    original: Param,
    mask: Param,
}
impl PrunedWeight {
    #[track_caller]
    fn attach(&mut self) -> Result<()> {
        let at = AtPath(&self.path, &self.param);
        register_parametrization(&at, &self.path, MaskedWeight { mask: self.mask.clone() })?;
        let found = placed_params(&at).into_iter().find(|p| !p.is_computed && p.param.role() == Role::Trainable);
        self.original = found.map(|p| p.param).ok_or_else(|| refusal(PRUNE, format!("`{}` is trained by nothing", self.path)))?;
        Ok(())
    }
}
/// A model's masked weights: what [`Pruner::prune`] gives. To drop it leaves the masks there.
pub struct PrunedModel {
    pruner: Pruner,
    weights: Vec<PrunedWeight>,
}
impl PrunedModel {
    /// Prunes further by what the weights are worth now. What is masked stays masked: a share below the present one changes nothing.
    ///
    /// # Errors
    /// As [`Pruner::prune`]. Then nothing has changed.
    #[track_caller]
    pub fn prune(&self, amount: impl Into<PruneAmount>) -> Result<()> {
        self.further(amount.into(), None)
    }
    /// As [`PrunedModel::prune`], with the gradients of a loss of this model.
    ///
    /// # Errors
    /// As [`Pruner::prune_by`]. Then nothing has changed.
    #[track_caller]
    pub fn prune_by(&self, amount: impl Into<PruneAmount>, grads: &Grads) -> Result<()> {
        self.further(amount.into(), Some(grads))
    }
    #[track_caller]
    fn further(&self, amount: PruneAmount, grads: Option<&Grads>) -> Result<()> {
        amount.sense()?;
        self.set_masks(&choose::masks(&self.pruner, &self.weights, amount, grads)?)
    }
    /// All masks and what they mask, or none.
    #[track_caller]
    fn set_masks(&self, masks: &[Vec<bool>]) -> Result<()> {
        step(|| {
            self.weights.iter().zip(masks).try_for_each(|(weight, mask)| {
                let meta = weight.mask.meta();
                weight.mask.set(&Tensor::from_vec_on(mask.clone(), meta.shape, meta.device))?;
                weight.original.set(&weight.original.detached())
            })
        })
    }
    /// The paths of the masked weights, in the model's order.
    pub fn paths(&self) -> Vec<String> {
        self.weights.iter().map(|weight| weight.path.clone()).collect()
    }
    /// How many elements of each masked weight are zero.
    ///
    /// # Errors
    /// A weight that cannot be read.
    #[track_caller]
    pub fn report(&self) -> Result<SparsityReport> {
        report::of(self.weights.iter().map(|weight| (weight.path.clone(), weight.param.clone())))
    }
    /// Makes the zeros permanent: the weights are plain parameters again, without masks, under their first names. What trains them from
    /// then on may move the zeros.
    ///
    /// # Errors
    /// A weight whose mask was taken away by other means.
    #[track_caller]
    pub fn remove(self) -> Result<()> {
        self.weights.iter().try_for_each(|weight| remove_parametrizations(&AtPath(&weight.path, &weight.param), &weight.path, true))
    }
}
