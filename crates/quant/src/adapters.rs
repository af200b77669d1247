//! Adapters on what a layer returns: of a frozen layer's output `y` a trained map makes `y + A y + β`, and as that is linear, it can
//! become part of the layer's weight and bias.
//!
//! | | A | β | for |
//! |---|---|---|---|
//! | FiLM (Perez et al. 2018) | a number for each feature or channel | one too, where the layer has a bias | `Linear`, `Conv1d` to `Conv3d` |
//! | bottleneck (Houlsby et al. 2019, without the activation inside) | `U D`, down to a few numbers and up again | where the layer has a bias | `Linear` |
//!
//! With a **norm cap** neither A nor β is ever longer than the cap (Frobenius norm): what is longer is scaled to it, also while it is
//! trained, so that an adapter changes a layer by no more than it may. The model computes what it did when adapters are put on:
//! all numbers of FiLM and U start as zeros. All else in the model is frozen.
//!
//! ```
//! # use adamant_core::Tensor;
//! # use adamant_nn::{Linear, Module, Relu, Sequential, Walk};
//! # use adamant_quant::adapters::OutputAdapter;
//! # adamant_core::Device::reference().make_current();
//! let model = Sequential::new().add(Linear::new(8, 16)?).add(Relu::new()).add(Linear::new(16, 2)?);
//! let adapters = OutputAdapter::film(["*"]).norm_cap(0.5).apply(&model)?;
//! // A scale and a shift for each feature.
//! assert_eq!(adapters.parameters().iter().map(|p| p.elements()).sum::<usize>(), 2 * (16 + 2));
//! adapters.merge()?; // a plain model again
//! assert_eq!(model.named_parameters()[0].0, "0.weight");
//! # model.forward(&Tensor::ones([1, 8]))?;
//! # Ok::<(), adamant_core::Error>(())
//! ```
use crate::select::{AtPath, check, joined, means, nothing_means, placed_params, refusal};
use adamant_core::{Result, Tensor};
use adamant_nn::{
    Module, Param, Submodule, Walk, init,
    parametrize::{Parametrization, register_parametrization, remove_parametrizations},
};
use std::collections::HashMap;

const OP: &str = "adapters";

/// What adapters are like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdapterKind {
    /// a scale and a shift for each feature or channel
    Film,
    /// down to so many numbers and up again
    Bottleneck {
        /// how many
        width: usize,
    },
}
/// What adapters are like, and on which layers.
#[derive(Clone, PartialEq, Debug)]
pub struct OutputAdapter {
    kind: AdapterKind,
    norm_cap: Option<f64>,
    targets: Vec<String>,
}
impl OutputAdapter {
    /// A scale and a shift for each feature or channel of the layers that globs mean, as in [`crate::lora::LoraConfig::targets`].
    pub fn film<T: Into<String>>(targets: impl IntoIterator<Item = T>) -> OutputAdapter {
        OutputAdapter { kind: AdapterKind::Film, norm_cap: None, targets: targets.into_iter().map(Into::into).collect() }
    }
    /// A bottleneck of a width on the linear layers that globs mean.
    pub fn bottleneck<T: Into<String>>(width: usize, targets: impl IntoIterator<Item = T>) -> OutputAdapter {
        OutputAdapter { kind: AdapterKind::Bottleneck { width }, ..OutputAdapter::film(targets) }
    }
    /// Of A and of β no more than this counts, by their Frobenius norm.
    #[must_use]
    pub fn norm_cap(self, cap: f64) -> OutputAdapter {
        OutputAdapter { norm_cap: Some(cap), ..self }
    }
    /// Puts adapters on a model and freezes the rest. Make the optimizer afterwards, over [`OutputAdapters::parameters`].
    ///
    /// # Errors
    /// A width of 0, a cap that is no number above 0; a target that means nothing (the nearest is named), or no layer that can have
    /// such an adapter; a weight that has no value yet, is computed already, holds codes, or is tied. Then the model is as it was.
    #[track_caller]
    pub fn apply(&self, model: &(impl Walk + ?Sized)) -> Result<OutputAdapters> {
        let layers = self.targeted(&model.modules())?;
        let mut places: HashMap<usize, usize> = HashMap::new();
        placed_params(model).iter().for_each(|place| *places.entry(place.param.id()).or_default() += 1);
        let mut planned = Vec::new();
        for layer in &layers {
            for (name, param) in layer.parameters.iter().filter(|(name, _)| name == "weight" || name == "bias") {
                let path = joined(layer.path(), name);
                check(OP, !param.is_uninitialized(), || format!("`{path}` has no value yet: its shape follows from the layer's first input"))?;
                check(OP, param.packed().is_none(), || format!("`{path}` holds integer codes, which `lora` is for"))?;
                check(OP, places.get(&param.id()) == Some(&1), || format!("`{path}` belongs to several layers"))?;
            }
            planned.push(self.adapted(layer)?);
        }
        let trained_before: Vec<Param> = model.trainable_parameters();
        trained_before.iter().for_each(|p| p.set_frozen(true));
        let mut all = OutputAdapters { adapted: Vec::new(), parameters: Vec::new(), trained_before };
        for (put, map) in planned {
            all.parameters.extend(map.parameters());
            let attached = put.iter().try_for_each(|adapted| {
                register_parametrization(&AtPath(&adapted.path, &adapted.param), &adapted.path, adapted.by.clone())?;
                all.adapted.push(adapted.clone());
                Ok(())
            });
            if let Err(error) = attached {
                // Its own failure could say no more than the first one does.
                let _ = all.unload();
                return Err(error);
            }
        }
        model.named_parameters();
        Ok(all)
    }
    /// The layers that the targets mean and that can have an adapter.
    #[track_caller]
    fn targeted(&self, all: &[Submodule]) -> Result<Vec<Submodule>> {
        check(OP, self.kind != AdapterKind::Bottleneck { width: 0 }, || "the bottleneck has width 0: at least 1 is needed".into())?;
        check(OP, self.norm_cap.is_none_or(|cap| cap.is_finite() && cap > 0.0), || "the norm cap is no number above 0".into())?;
        check(OP, !self.targets.is_empty(), || "there are no targets".into())?;
        let fits = |layer: &Submodule| match self.kind {
            AdapterKind::Film => matches!(layer.kind, "Linear" | "Conv1d" | "Conv2d" | "Conv3d"),
            AdapterKind::Bottleneck { .. } => layer.kind == "Linear",
        };
        for pattern in &self.targets {
            let mut found = all.iter().filter(|layer| means(pattern, layer.path())).peekable();
            let Some(first) = found.peek().map(|layer| (layer.path(), layer.kind)) else {
                return Err(nothing_means(OP, "module", pattern, all.iter().map(Submodule::path)));
            };
            if !found.any(fits) {
                return Err(refusal(OP, format!("`{pattern}` means `{}`, a {}, which has no such adapter", first.0, first.1))
                    .hint("FiLM is for Linear and Conv1d to Conv3d, a bottleneck for Linear"));
            }
        }
        let chosen: Vec<Submodule> =
            all.iter().filter(|layer| fits(layer) && self.targets.iter().any(|pattern| means(pattern, layer.path()))).cloned().collect();
        let computed =
            |layer: &&Submodule| layer.parameter("weight").is_none() || layer.parameters.iter().any(|(name, _)| name.starts_with("parametrizations."));
        match chosen.iter().find(computed) {
            Some(layer) => Err(refusal(OP, format!("the weight of `{}` is computed from other parameters already", layer.path()))
                .hint("take that away first: `remove_parametrizations`, `unload` of adapters, `remove` of masks")),
            None => Ok(chosen),
        }
    }
    /// The adapter of a layer: of its weight and, if it has one, of its bias.
    #[track_caller]
    fn adapted(&self, layer: &Submodule) -> Result<(Vec<AdaptedParam>, OutputMap)> {
        let weight = layer.parameter("weight").ok_or_else(|| refusal(OP, format!("`{}` has no weight", layer.path())))?;
        let (meta, bias) = (weight.meta(), layer.parameter("bias"));
        let out = meta.shape.first().copied().unwrap_or(0);
        let zeros = |shape: &[usize]| Param::new(&Tensor::full_on(shape, 0, meta.dtype, meta.device));
        let (scale, down, up) = match self.kind {
            AdapterKind::Film => (Some(zeros(&[out])?), None, None),
            AdapterKind::Bottleneck { width } => {
                let bound = 1.0 / (out.max(1) as f64).sqrt();
                let down = init::uniform([width, out], -bound, bound)?.cast(meta.dtype).to(meta.device);
                (None, Some(Param::new(&down)?), Some(zeros(&[out, width])?))
            }
        };
        let shift = if bias.is_some() { Some(zeros(&[out])?) } else { None };
        let map = OutputMap { scale, down, up, cap: self.norm_cap };
        let put = |name: &str, param: &Param, shift: Option<Param>| AdaptedParam {
            path: joined(layer.path(), name),
            param: param.clone(),
            by: AdaptedOutput { map: map.clone(), shift },
        };
        let mut all = vec![put("weight", weight, None)];
        all.extend(bias.map(|bias| put("bias", bias, shift.clone())));
        Ok((all, map))
    }
}

/// `A`, as what it is made of.
#[derive(Clone, Module)]
struct OutputMap {
    scale: Option<Param>,
    down: Option<Param>,
    up: Option<Param>,
    #[module(skip)]
    cap: Option<f64>,
}
/// No longer than the cap.
#[track_caller]
fn capped(t: Tensor, cap: Option<f64>) -> Tensor {
    let Some(cap) = cap else { return t };
    // Where it is 0 the root has no gradient, and nothing is to be scaled.
    let squares = t.square().sum(..);
    let longer = squares.detach().gt(cap * cap);
    let factor = longer.where_(squares.maximum(cap * cap).sqrt().reciprocal() * cap, squares.ones_like());
    t * factor
}
impl OutputMap {
    fn parameters(&self) -> Vec<Param> {
        [&self.scale, &self.down, &self.up].into_iter().flatten().cloned().collect()
    }
    /// `y + A y` for each column of `[out, columns]`.
    #[track_caller]
    fn applied(&self, y: &Tensor) -> Result<Tensor> {
        match (&self.scale, &self.down, &self.up) {
            (Some(scale), ..) => (y + y * capped(scale.get(), self.cap).reshape([-1, 1])).ok(),
            (None, Some(down), Some(up)) => (y + capped(up.get().matmul(down.get()), self.cap).matmul(y)).ok(),
            _ => Err(refusal(OP, "an adapter of nothing".into())),
        }
    }
}
/// A weight or a bias with what the adapter adds.
#[derive(Clone, Module)]
struct AdaptedOutput {
    #[module(flatten)]
    map: OutputMap,
    shift: Option<Param>,
}
impl Parametrization for AdaptedOutput {
    fn forward(&self, originals: &[Tensor]) -> Result<Tensor> {
        let [original] = originals else { return Err(refusal(OP, format!("it is made of one tensor, not of {}", originals.len()))) };
        let (shape, dtype) = (original.shape()?, original.dtype()?);
        let columns = original.reshape([shape.first().copied().unwrap_or(0) as isize, -1]);
        let mapped = self.map.applied(&columns)?.reshape(shape);
        match &self.shift {
            Some(shift) => (mapped + capped(shift.get(), self.map.cap)).cast(dtype).ok(),
            None => mapped.cast(dtype).ok(),
        }
    }
}
#[derive(Clone)]
struct AdaptedParam {
    path: String,
    param: Param,
    by: AdaptedOutput,
}
/// The adapters on a model: what [`OutputAdapter::apply`] gives. To drop it leaves them there.
pub struct OutputAdapters {
    adapted: Vec<AdaptedParam>,
    parameters: Vec<Param>,
    trained_before: Vec<Param>,
}
impl OutputAdapters {
    /// All that is trained.
    pub fn parameters(&self) -> Vec<Param> {
        let shifts = self.adapted.iter().filter_map(|adapted| adapted.by.shift.clone());
        self.parameters.iter().cloned().chain(shifts).collect()
    }
    /// Makes the adapters part of the weights and biases for good: the model is a plain one again, and gradients flow as before the
    /// adapters. Outputs agree to what f32 rounds.
    ///
    /// # Errors
    /// A weight that cannot be computed. Then nothing has changed.
    #[track_caller]
    pub fn merge(self) -> Result<()> {
        self.adapted.iter().try_for_each(|adapted| adapted.param.detached().materialize())?;
        self.end(true)
    }
    /// Takes the adapters away: weights are bit by bit what they were, and gradients flow as before.
    ///
    /// # Errors
    /// Something else was put on a weight since.
    #[track_caller]
    pub fn unload(self) -> Result<()> {
        self.end(false)
    }
    #[track_caller]
    fn end(&self, keeps: bool) -> Result<()> {
        self.adapted.iter().try_for_each(|adapted| remove_parametrizations(&AtPath(&adapted.path, &adapted.param), &adapted.path, keeps))?;
        self.trained_before.iter().for_each(|p| p.set_frozen(false));
        Ok(())
    }
}
