//! Low-rank adapters (LoRA, Hu et al. 2021): a frozen weight W, and beside it a product of two thin trained ones.
//!
//! [`LoraConfig::apply`] looks through a model for the layers that its globs mean and has each one's weight be `W + s B A`, with
//! `s = alpha / r`. No struct changes: the weight becomes a computed one ([`adamant_nn::parametrize`]), whose A and B are parameters
//! of the model under `parametrizations.weight.0.lora_A` and `lora_B`. All else in the model is frozen. What comes back, a
//! [`LoraAdapters`], merges, unmerges, saves and takes away.
//!
//! | kind of layer | A | B | where it is computed |
//! |---|---|---|---|
//! | `Linear` | `[r, in]` | `[out, r]` | the layer's hooks add `s B A dropout(x)`: no product of W's size, no gradient of W |
//! | `Conv1d`, `Conv2d`, `Conv3d` | `[r, in / groups, ..kernel]` | `[out, r, 1, ..]` | in the weight |
//! | `Embedding` | `[r, rows]` | `[width, r]` | in the weight; indices have no dropout, as in PEFT |
//! | any other with a `weight` of two axes | `[r, in]` | `[out, r]` | in the weight |
//!
//! **Dropout** acts on the layer's input, for each element of a batch on its own. A weight cannot express that, so it is there for
//! `Linear` only, whose call it is part of; for convolutions and modules of one's own it is an error that names the layer. A
//! [`deep_copy`](adamant_nn::Walk::deep_copy) has no hooks: it computes the same by its weights, and is refused only where it would
//! have to drop in training.
//!
//! **Tied weights** are one parameter, and an adapter on it acts in every place. It is applied when the globs mean all of these
//! places, and is an error that lists them when they mean only some.
//!
//! **Files** are PEFT's: `adapter_model.safetensors` and `adapter_config.json`.
//!
//! ```
//! # use adamant_core::Tensor;
//! # use adamant_nn::{Linear, Module, Relu, Sequential, Walk};
//! # use adamant_quant::lora::LoraConfig;
//! # adamant_core::Device::reference().make_current();
//! let model = Sequential::new().add(Linear::new(8, 16)?).add(Relu::new()).add(Linear::new(16, 2)?);
//! let mut adapters = LoraConfig::new(4, 8.0, ["*"]).apply(&model)?;
//! // A and B of both layers are all that is trained: 4·8 + 16·4 + 4·16 + 2·4 numbers.
//! assert_eq!(model.trainable_parameters().iter().map(|p| p.elements()).sum::<usize>(), 168);
//! adapters.merge()?; // a plain model again, until `unmerge`
//! assert_eq!(model.named_parameters()[0].0, "0.weight");
//! # model.forward(&Tensor::ones([1, 8]))?;
//! # Ok::<(), adamant_core::Error>(())
//! ```
use crate::select::{AtPath, check, joined, means, nothing_means, placed_params, refusal};
use adamant_core::{Result, Tensor, grad::HookHandle};
use adamant_nn::{
    PackedParam, Param, Role, Submodule, Walk,
    parametrize::{register_parametrization, remove_parametrizations},
};
use std::collections::HashMap;
use weight::{LoraFactors, LoraWeight};

mod files;
mod weight;

/// Which biases are trained beside A and B, by PEFT's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoraBias {
    /// none of them
    #[default]
    None,
    /// every parameter of the model that is named `bias`
    All,
    /// those of layers that have an adapter
    LoraOnly,
}
/// What adapters are like, and on which layers.
#[derive(Clone, PartialEq, Debug)]
pub struct LoraConfig {
    /// rank of the product: rows of A and columns of B
    pub r: usize,
    /// The product counts `alpha / r`.
    pub alpha: f64,
    /// share of the elements of a layer's input that A does not see in training
    pub dropout: f64,
    /// Globs over paths of modules: `*` any characters, `?` one. A name without either also means every path that ends with it,
    /// as in PEFT (`q_proj`), and `all-linear` every `Linear`.
    pub targets: Vec<String>,
    /// the biases that are trained too
    pub bias: LoraBias,
    /// Weights of two axes in modules that are neither `Linear` nor `Embedding` are `[in, out]` (GPT-2's `Conv1D` in transformers).
    pub fan_in_fan_out: bool,
    /// The product counts `alpha / √r` (Kalajdzievski 2023).
    pub use_rslora: bool,
}
impl LoraConfig {
    /// Of a rank and an alpha on the layers that globs mean, without dropout and trained biases.
    pub fn new<T: Into<String>>(r: usize, alpha: f64, targets: impl IntoIterator<Item = T>) -> LoraConfig {
        let targets = targets.into_iter().map(Into::into).collect();
        LoraConfig { r, alpha, dropout: 0.0, targets, bias: LoraBias::None, fan_in_fan_out: false, use_rslora: false }
    }
    /// What the product counts.
    pub fn scale(&self) -> f64 {
        let r = self.r as f64;
        self.alpha / if self.use_rslora { r.sqrt() } else { r }
    }
    /// Puts adapters on a model and freezes the rest. The model computes what it did, since B A starts as zeros. Make the optimizer
    /// afterwards, over [`Walk::trainable_parameters`] or [`LoraAdapters::parameters`].
    ///
    /// # Errors
    /// A rank of 0, a dropout that is no probability; a target that means nothing (the nearest is named), or nothing that can have
    /// an adapter; a weight that has no value yet, is computed already, or is tied to a place that no target means; dropout on
    /// anything but a `Linear` or an `Embedding`. Then the model is as it was.
    #[track_caller]
    pub fn apply(&self, model: &(impl Walk + ?Sized)) -> Result<LoraAdapters> {
        let modules = self.targeted(&model.named_modules())?;
        self.apply_to(model, modules)
    }
    #[track_caller]
    fn sense(&self) -> Result<()> {
        check(LORA, self.r > 0, || "the rank is 0: at least 1 is needed".into())?;
        check(LORA, self.alpha.is_finite(), || format!("alpha is {}, it must be a finite number", self.alpha))?;
        check(LORA, (0.0..1.0).contains(&self.dropout), || format!("dropout is {}, it must be from 0 to below 1", self.dropout))?;
        check(LORA, !self.targets.is_empty(), || "there are no targets".into())
    }
    /// The modules that the targets mean and that can have an adapter.
    #[track_caller]
    fn targeted(&self, all: &[(String, Submodule)]) -> Result<Vec<Submodule>> {
        self.sense()?;
        let mut chosen: Vec<bool> = vec![false; all.len()];
        for pattern in &self.targets {
            let meant = |(path, m): &(String, Submodule)| if pattern == "all-linear" { m.kind == "Linear" } else { means(pattern, path) };
            let found: Vec<usize> = (0..all.len()).filter(|k| meant(&all[*k])).collect();
            let Some(first) = found.first() else {
                return Err(nothing_means(LORA, "module", pattern, all.iter().map(|(path, _)| path.as_str())));
            };
            let fit: Vec<usize> = found.iter().copied().filter(|k| self.factors(&all[*k].1).is_some()).collect();
            if fit.is_empty() {
                let (path, module) = &all[*first];
                let text = format!("`{pattern}` means `{path}`, a {}, which has no weight that an adapter is for", module.kind);
                return Err(refusal(LORA, text).hint("adapters are for Linear, Conv1d to Conv3d, Embedding, and modules with a `weight` of two axes"));
            }
            fit.into_iter().for_each(|k| chosen[k] = true);
        }
        Ok(all.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|((_, module), _)| module.clone()).collect())
    }
    fn factors(&self, module: &Submodule) -> Option<LoraFactors> {
        // Of a weight that is computed, which is refused later by name, only that is known.
        let known = module.parameter("weight").or_else(|| module.parameter("parametrizations.weight.original"));
        let rank = known.map_or(2, |p| p.meta().shape.rank());
        let computed = module.parameters.iter().any(|(name, _)| name.starts_with("parametrizations.weight."));
        if known.is_none() && !computed {
            return None;
        }
        match module.kind {
            "Linear" => Some(LoraFactors::Rows),
            "Embedding" | "EmbeddingBag" | "PositionEmbedding" => Some(LoraFactors::Table),
            "Conv1d" | "Conv2d" | "Conv3d" => Some(LoraFactors::Kernel),
            kind if rank == 2 && known.is_some_and(|p| p.role() == Role::Trainable) && !kind.starts_with("Conv") => {
                Some(if self.fan_in_fan_out { LoraFactors::Columns } else { LoraFactors::Rows })
            }
            _ => None,
        }
    }
    /// What is to be done, looked at before anything is.
    #[track_caller]
    fn plan(&self, model: &(impl Walk + ?Sized), modules: Vec<Submodule>) -> Result<Vec<Adapted>> {
        let mut places: HashMap<usize, Vec<String>> = HashMap::new();
        for place in placed_params(model) {
            if place.is_computed && modules.iter().any(|m| joined(m.path(), "weight") == place.path) {
                return Err(refusal(LORA, format!("`{}` is computed from other parameters already", place.path))
                    .hint("take that away first: `remove_parametrizations`, `unload` of adapters, `remove` of masks"));
            }
            places.entry(place.param.id()).or_default().push(place.path);
        }
        let paths: Vec<String> = modules.iter().map(|m| joined(m.path(), "weight")).collect();
        let mut adapted: Vec<Adapted> = Vec::new();
        for (module, path) in modules.iter().zip(&paths) {
            let (Some(param), Some(factors)) = (module.parameter("weight"), self.factors(module)) else { continue };
            if let Some(known) = adapted.iter_mut().find(|a| a.param.same(param)) {
                if self.dropout > 0.0 && factors != known.weight.factors {
                    let text = format!("`{path}` is tied to `{}`, a layer of another kind, and so cannot have dropout", known.path);
                    return Err(refusal(LORA, text).hint("use `dropout: 0.0`"));
                }
                known.layers.push(module.clone());
                continue;
            }
            check(LORA, !param.is_uninitialized(), || format!("`{path}` has no value yet: its shape follows from the layer's first input"))
                .map_err(|e| e.hint("run the model once on an example, or load a state dict"))?;
            let others: Vec<&String> = places.get(&param.id()).into_iter().flatten().filter(|place| !paths.contains(place)).collect();
            if let Some(first) = others.first() {
                let text = format!("`{path}` is tied to `{first}`, which no target means; an adapter on the one weight acts in both places");
                return Err(refusal(LORA, text).hint("make both of them targets, or neither"));
            }
            if self.dropout > 0.0 && !(module.kind == "Linear" || factors == LoraFactors::Table) {
                let text = format!("`{}`, a {}, cannot have dropout: its adapter is part of the weight, which sees no input", module.path(), module.kind);
                return Err(refusal(LORA, text).hint("use `dropout: 0.0`, or targets that are Linear layers"));
            }
            let dropout = if factors == LoraFactors::Table { 0.0 } else { self.dropout };
            let weight = LoraWeight::new(param, factors, self.r, self.scale(), dropout)?;
            adapted.push(Adapted { path: path.clone(), param: param.clone(), weight, layers: vec![module.clone()], hooks: Vec::new(), base: None });
        }
        Ok(adapted)
    }
    #[track_caller]
    fn apply_to(&self, model: &(impl Walk + ?Sized), modules: Vec<Submodule>) -> Result<LoraAdapters> {
        let adapted = self.plan(model, modules)?;
        let trained_before: Vec<(String, Param)> = model.named_parameters().into_iter().filter(|(_, p)| p.is_trainable()).collect();
        let mut all = LoraAdapters { config: self.clone(), adapted, trained_before, biases: Vec::new(), merged: false };
        all.trained_before.iter().for_each(|(_, p)| p.set_frozen(true));
        let in_adapted = |path: &str| all.adapted.iter().flat_map(|a| &a.layers).any(|layer| joined(layer.path(), "bias") == path);
        let is_bias = |path: &str| path == "bias" || path.ends_with(".bias");
        let biases = model.named_parameters().into_iter().filter(|(path, _)| match self.bias {
            LoraBias::None => false,
            LoraBias::All => is_bias(path),
            LoraBias::LoraOnly => in_adapted(path),
        });
        all.biases = biases.collect();
        all.biases.iter().for_each(|(_, p)| p.set_frozen(false));
        let attached = all.attach();
        if let Err(e) = attached {
            // What was done so far is undone; its own failure could say no more than the first one does.
            let _ = all.detach(true);
            all.restore_frozen();
            return Err(e);
        }
        // Names, for errors and for optimizers' state.
        model.named_parameters();
        Ok(all)
    }
}
const LORA: &str = "lora";

/// One weight with its adapter.
struct Adapted {
    /// the weight's first place
    path: String,
    param: Param,
    weight: LoraWeight,
    /// the layers that have the weight
    layers: Vec<Submodule>,
    hooks: Vec<HookHandle>,
    /// what the weight was, while the adapter is merged
    base: Option<BaseWeight>,
}
/// What a weight was before an adapter became part of it.
enum BaseWeight {
    Numbers(Tensor),
    Codes(PackedParam),
}
impl Adapted {
    #[track_caller]
    fn attach(&mut self) -> Result<()> {
        register_parametrization(&AtPath(&self.path, &self.param), &self.path, self.weight.clone())?;
        for layer in &self.layers {
            let Ok(site) = layer.site() else { continue };
            self.weight.set_training(site.is_training());
            if layer.kind == "Linear" && self.weight.factors == LoraFactors::Rows && site.runs_hooks() {
                self.hooks.extend(self.weight.hook(site)?);
            }
        }
        Ok(())
    }
    /// The weight is a plain one again, with its first value or the computed one.
    #[track_caller]
    fn detach(&mut self, keep_base: bool) -> Result<()> {
        self.hooks.drain(..).for_each(|hook| hook.remove());
        remove_parametrizations(&AtPath(&self.path, &self.param), &self.path, !keep_base)
    }
    /// The weight is what it was before the adapter became part of it.
    #[track_caller]
    fn restore_base(&mut self) -> Result<()> {
        match self.base.take() {
            Some(BaseWeight::Numbers(base)) => self.param.set(&base),
            Some(BaseWeight::Codes(codes)) => self.param.pack_as(&codes),
            None => Ok(()),
        }
    }
    /// The path of the module, without `weight`.
    fn module(&self) -> &str {
        self.layers.first().map_or("", |layer| layer.path())
    }
}
/// The adapters on a model: what [`LoraConfig::apply`] and [`LoraAdapters::load`] give. To drop it leaves them there.
pub struct LoraAdapters {
    config: LoraConfig,
    adapted: Vec<Adapted>,
    /// the parameters that gradients flowed to before
    trained_before: Vec<(String, Param)>,
    /// the biases that are trained
    biases: Vec<(String, Param)>,
    merged: bool,
}
impl LoraAdapters {
    /// What they were made by.
    pub fn config(&self) -> &LoraConfig {
        &self.config
    }
    /// The paths of the modules that have an adapter, in the model's order; of a tied weight, those of all its places.
    pub fn modules(&self) -> Vec<String> {
        self.adapted.iter().flat_map(|a| &a.layers).map(|layer| layer.path().to_string()).collect()
    }
    /// All that is trained: A and B of each layer, and the biases of [`LoraConfig::bias`].
    pub fn parameters(&self) -> Vec<Param> {
        let factors = self.adapted.iter().flat_map(|a| [a.weight.a.clone(), a.weight.b.clone()]);
        factors.chain(self.biases.iter().map(|(_, p)| p.clone())).collect()
    }
    /// Are the products part of the weights now?
    pub fn is_merged(&self) -> bool {
        self.merged
    }
    /// Adds the products to the weights. The model is a plain one then, of the first names, that runs as fast as before and can be
    /// saved, exported and quantized; what the weights were is kept in memory for [`LoraAdapters::unmerge`]. Outputs agree to what f32
    /// rounds (1e-5).
    ///
    /// # Errors
    /// They are merged; a product that cannot be computed. Then nothing has changed.
    #[track_caller]
    pub fn merge(&mut self) -> Result<()> {
        check(LORA, !self.merged, || "the adapters are merged already".into())?;
        let merged: Vec<Tensor> = self.adapted.iter().map(|a| a.param.detached()).collect();
        merged.iter().try_for_each(|value| value.materialize().map(drop))?;
        for (adapted, value) in self.adapted.iter_mut().zip(&merged) {
            adapted.detach(true)?;
            adapted.base = Some(match adapted.param.packed() {
                Some(codes) => {
                    adapted.param.unpack()?;
                    BaseWeight::Codes(codes)
                }
                None => BaseWeight::Numbers(adapted.param.detached()),
            });
            adapted.param.set(value)?;
        }
        self.merged = true;
        Ok(())
    }
    /// Takes the products out again: the weights are bit by bit what they were. A and B are the ones of before, so an optimizer
    /// goes on with them.
    ///
    /// # Errors
    /// They are not merged.
    #[track_caller]
    pub fn unmerge(&mut self) -> Result<()> {
        check(LORA, self.merged, || "the adapters are not merged".into())?;
        for adapted in &mut self.adapted {
            adapted.restore_base()?;
            adapted.param.set_frozen(true);
            adapted.attach()?;
        }
        self.merged = false;
        Ok(())
    }
    /// Adds the products to the weights for good, and lets the gradients flow as before the adapters.
    ///
    /// # Errors
    /// As [`LoraAdapters::merge`].
    #[track_caller]
    pub fn merge_and_unload(mut self) -> Result<()> {
        if !self.merged {
            self.merge()?;
        }
        self.restore_frozen();
        Ok(())
    }
    /// Takes the adapters away: weights are bit by bit what they were, and gradients flow as before.
    ///
    /// # Errors
    /// As [`LoraAdapters::unmerge`].
    #[track_caller]
    pub fn unload(mut self) -> Result<()> {
        if self.merged {
            self.adapted.iter_mut().try_for_each(Adapted::restore_base)?;
        } else {
            self.detach(true)?;
        }
        self.restore_frozen();
        Ok(())
    }
    #[track_caller]
    fn attach(&mut self) -> Result<()> {
        self.adapted.iter_mut().try_for_each(Adapted::attach)
    }
    #[track_caller]
    fn detach(&mut self, keep_base: bool) -> Result<()> {
        self.adapted.iter_mut().try_for_each(|a| a.detach(keep_base))
    }
    fn restore_frozen(&self) {
        self.biases.iter().for_each(|(_, p)| p.set_frozen(true));
        self.trained_before.iter().for_each(|(_, p)| p.set_frozen(false));
    }
}
