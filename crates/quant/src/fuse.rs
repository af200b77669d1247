//! Batch norms folded into the layer before them: in evaluation a norm multiplies and shifts each channel by fixed numbers, which the
//! weight and the bias of a convolution or linear layer can do as well. The norm is gone then, and a ReLU behind it is computed by the
//! kernel of the layer.
//!
//! ```
//! # use adamant_core::Tensor;
//! # use adamant_nn::{BatchNorm2d, Conv2d, Module, Relu, Sequential, Walk};
//! # use adamant_quant::fuse_modules_on;
//! # use adamant_backend_cpu as _;
//! let model = Sequential::new().add(Conv2d::new(3, 8, 3)?).add(BatchNorm2d::new(8)?).add(Relu::new());
//! model.eval();
//! let x = Tensor::ones([1, 3, 4, 4]);
//! let before = model.forward(&x)?.to_vec::<f32>()?;
//! let report = fuse_modules_on(&model, &x)?;
//! assert_eq!(report.folded().count(), 1);
//! assert_eq!(model.parameters().len(), 2);
//! let after = model.forward(&x)?.to_vec::<f32>()?;
//! assert!(before.iter().zip(&after).all(|(a, b)| (a - b).abs() < 1e-6));
//! # Ok::<(), adamant_core::Error>(())
//! ```
//!
//! A norm can be folded if it evaluates by running statistics, is applied once, and alone reads what the layer returns.
//! [`fuse_modules_on`] finds out by the graph of a forward pass; [`fuse_modules`] takes the user's word.
//!
//! Source: `torch.ao.quantization.fuse_modules`, `torch.nn.utils.fuse_conv_bn_eval`.
use crate::{
    report::{FuseReport, NormOutcome, NormReport},
    select::{check, evaluating, joined, placed_params, refusal},
};
use adamant_core::{DType, Error, ErrorKind, Result, Tensor, grad::no_grad};
use adamant_nn::{FoldedNorm, Module, Submodule, Walk};
use std::collections::HashMap;

mod arithmetic;
mod readers;

/// What may stand behind a norm, or behind a layer, in a list of [`fuse_modules`].
const ACTIVATIONS: [&str; 2] = ["ReLU", "ReLU6"];

/// How often each parameter stands in a model; what is computed from others counts twice.
pub(crate) struct ParamPlaces(HashMap<usize, usize>);
impl ParamPlaces {
    fn of(model: &(impl Walk + ?Sized)) -> ParamPlaces {
        let mut places = HashMap::new();
        for place in placed_params(model) {
            *places.entry(place.param.id()).or_default() += if place.is_computed { 2 } else { 1 };
        }
        ParamPlaces(places)
    }
    fn is_shared(&self, module: &Submodule) -> bool {
        module.parameters.iter().any(|(_, p)| self.0.get(&p.id()) != Some(&1))
    }
}
/// Why a norm cannot be folded, whatever the model does with it.
fn refused_norm(norm: &Submodule, places: &ParamPlaces) -> Option<String> {
    let site = norm.site().ok()?;
    let computed = || norm.parameters.iter().any(|(name, p)| name.starts_with("parametrizations.") || p.packed().is_some());
    Some(match site.folded_into() {
        Some(layer) => format!("it was folded into `{}` before", layer.path()),
        None if site.is_training() => "it is training: its statistics are those of each batch (`eval()` first)".into(),
        None if norm.parameter("running_mean").is_none() => "it has no running statistics".into(),
        None if computed() => "its parameters are computed from others".into(),
        None if norm.parameters.iter().any(|(_, p)| p.is_uninitialized()) => "it has no values yet (run the model once on an example before)".into(),
        None if places.is_shared(norm) => "its parameters belong to several layers".into(),
        None if site.has_hooks() => "hooks look at what it is given and returns".into(),
        None => return None,
    })
}
/// Why a layer cannot do a norm's part, whatever the model does with it.
fn refused_layer(layer: &Submodule, norm: &Submodule, places: &ParamPlaces) -> Option<String> {
    let path = layer.path();
    let name = |text: &str| Some(format!("{text} `{path}`"));
    let Ok(site) = layer.site() else { return name("there is no convolution or linear layer of this library at") };
    if !site.takes_bias() {
        return name("there is no convolution or linear layer of this library, not wrapped, at");
    }
    let Some(weight) = layer.parameter("weight").filter(|_| !layer.parameters.iter().any(|(name, _)| name.starts_with("parametrizations."))) else {
        return Some(format!("the weight of `{path}` is computed from other parameters"));
    };
    if layer.parameters.iter().any(|(_, p)| p.packed().is_some()) {
        return Some(format!("the weight of `{path}` is integer codes already"));
    }
    if layer.parameters.iter().any(|(_, p)| p.is_uninitialized()) {
        return Some(format!("`{path}` has no values yet (run the model once on an example before)"));
    }
    if places.is_shared(layer) {
        return Some(format!("the parameters of `{path}` belong to several layers"));
    }
    if site.has_hooks() {
        return Some(format!("hooks look at what `{path}` is given and returns"));
    }
    let floats = norm.parameters.iter().filter(|(name, _)| name != "num_batches_tracked").map(|(_, p)| p.meta());
    let mut others = floats.filter(|meta| meta.dtype != weight.meta().dtype || meta.device != weight.meta().device);
    others.next().map(|meta| format!("it is {} on {}, and the weight of `{path}` {} on {}", meta.dtype, meta.device, weight.meta().dtype, weight.meta().device))
}

/// Norms that were folded, to be undone where what comes behind fails.
#[derive(Default)]
pub(crate) struct Foldings(Vec<FoldedNorm>);
impl Foldings {
    /// Every norm and layer as it was.
    #[track_caller]
    pub fn undo(self) -> Result<()> {
        self.0.into_iter().rev().try_for_each(FoldedNorm::undo)
    }
    /// Folds a norm, or says why it cannot be.
    #[track_caller]
    fn fold(&mut self, layer: &Submodule, norm: &Submodule) -> Result<Option<String>> {
        match no_grad(|| arithmetic::folded(layer, norm))? {
            Ok((weight, bias)) => {
                self.0.push(norm.fold_into(layer, &weight, &bias)?);
                Ok(None)
            }
            Err(why) => Ok(Some(why)),
        }
    }
    /// What was done, or, where that failed, nothing.
    #[track_caller]
    fn all_or_none<T>(self, done: Result<T>) -> Result<(T, Foldings)> {
        match done {
            Ok(done) => Ok((done, self)),
            Err(error) => {
                self.undo()?;
                Err(error)
            }
        }
    }
}

/// Folds the norms of lists of modules into the layers before them, as PyTorch's function of that name: each list has the paths of a
/// convolution (or a transposed one) or linear layer, of the batch norm behind it, and, if there is one, of the ReLU behind that. No
/// forward pass is looked at: that the layer's output goes to the norm and nowhere else, with channels along axis 1, is the
/// caller's word. [`fuse_modules_on`] finds out by itself. A list of a layer and an activation is good, and nothing is done to it:
/// they are one kernel as they are.
///
/// ```
/// # use adamant_nn::{BatchNorm2d, Conv2d, Relu, Sequential, Walk};
/// # use adamant_quant::fuse_modules;
/// # use adamant_backend_cpu as _;
/// let model = Sequential::new().add(Conv2d::new(3, 8, 3)?).add(BatchNorm2d::new(8)?).add(Relu::new());
/// model.eval();
/// fuse_modules(&model, &[["0", "1", "2"]])?;
/// let names: Vec<String> = model.state_dict().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["0.weight", "0.bias"]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A path without a module, with the nearest; modules of other kinds; a norm that cannot be folded, with the reason: it is training,
/// has no running statistics, belongs to several layers, or the layer's weight is shared, computed or codes. Then nothing has changed.
#[track_caller]
pub fn fuse_modules<S: AsRef<str>>(model: &(impl Walk + ?Sized), modules: &[impl AsRef<[S]>]) -> Result<FuseReport> {
    const OP: &str = "fuse_modules";
    let (before, places) = (model.memory_usage(), ParamPlaces::of(model));
    let (mut foldings, mut norms) = (Foldings::default(), Vec::new());
    let done = modules.iter().try_for_each(|list| {
        let list: Vec<Submodule> = list.as_ref().iter().map(|path| model.get_submodule(path.as_ref())).collect::<Result<_>>()?;
        let Some((layer, norm)) = pair(OP, &list)? else { return Ok(()) };
        let refused = refused_norm(norm, &places).or_else(|| refused_layer(layer, norm, &places));
        let why = refused.map_or_else(|| foldings.fold(layer, norm), |why| Ok(Some(why)))?;
        norms.push(report(norm, NormOutcome::Folded { layer: layer.path().into() }));
        check(OP, why.is_none(), || format!("the {} `{}` cannot be folded: {}", norm.kind, norm.path(), why.unwrap_or_default()))
    });
    foldings.all_or_none(done)?;
    Ok(FuseReport { norms, before, after: model.memory_usage() })
}
/// The layer and the norm of a list, if it has one.
#[track_caller]
fn pair<'a>(op: &'static str, list: &'a [Submodule]) -> Result<Option<(&'a Submodule, &'a Submodule)>> {
    let is_norm = |m: &Submodule| m.site().is_ok_and(|site| site.eps().is_some());
    let of_activations = |rest: &[Submodule]| rest.iter().all(|m| ACTIVATIONS.contains(&m.kind));
    match list {
        [layer, norm, rest @ ..] if is_norm(norm) && rest.len() <= 1 && of_activations(rest) => Ok(Some((layer, norm))),
        [layer, activation] if layer.site().is_ok_and(|site| site.takes_bias()) && of_activations(std::slice::from_ref(activation)) => Ok(None),
        _ => {
            let kinds: Vec<String> = list.iter().map(|m| format!("{} `{}`", m.kind, m.path())).collect();
            Err(refusal(op, format!("[{}] cannot be fused", kinds.join(", ")))
                .hint("a list is a convolution or linear layer, the batch norm behind it, and then, if there is one, a ReLU"))
        }
    }
}
fn report(norm: &Submodule, outcome: NormOutcome) -> NormReport {
    NormReport { path: norm.path().into(), norm: norm.kind, outcome }
}

/// Folds every norm of a model that can be folded. Which they are is read from the graph of the model's forward pass on an example
/// ([`Graph::capture`](adamant_core::graph::Graph::capture)): what the norm reads is what the layer returns, nothing else reads it, and
/// both are applied once. The model is then run on the example, and must say what it said before. The report names every batch norm,
/// folded or not, and why.
///
/// # Errors
/// A forward pass that cannot be captured (it reads data, or gives a lazy layer its shape); an example of which the model's answer
/// changes. Then nothing has changed.
#[track_caller]
pub fn fuse_modules_on(model: &(impl Module + ?Sized), example: &Tensor) -> Result<FuseReport> {
    fold_all("fuse_modules", model, example).map(|(report, _)| report)
}
#[track_caller]
pub(crate) fn fold_all(op: &'static str, model: &(impl Module + ?Sized), example: &Tensor) -> Result<(FuseReport, Foldings)> {
    let (before, places) = (model.memory_usage(), ParamPlaces::of(model));
    let readers = readers::NormReaders::of(model, example)?;
    let answer = || -> Result<Tensor> {
        let y = evaluating(model, || no_grad(|| model.forward(example)))?;
        y.materialize()?;
        Ok(y)
    };
    let wanted = answer()?;
    let (mut foldings, mut norms) = (Foldings::default(), Vec::new());
    let mut fold = || -> Result<()> {
        for norm in readers.norms() {
            let found = match refused_norm(norm, &places) {
                Some(why) => Err(why),
                None => readers.layer_before(norm),
            };
            let why = match &found {
                Err(why) => Some(why.clone()),
                Ok(layer) => refused_layer(layer, norm, &places).map_or_else(|| foldings.fold(layer, norm), |why| Ok(Some(why)))?,
            };
            norms.push(report(
                norm,
                match (found, why) {
                    (Ok(layer), None) => NormOutcome::Folded { layer: layer.path().into() },
                    (_, why) => NormOutcome::Left(why.unwrap_or_default()),
                },
            ));
        }
        check(op, is_same(&answer()?, &wanted)?, || "with its norms folded the model answers otherwise on the example".into())
    };
    let done = fold();
    let ((), foldings) = foldings.all_or_none(done)?;
    Ok((FuseReport { norms, before, after: model.memory_usage() }, foldings))
}
/// Are two answers the same but for rounding? Where the model's own is no number there is nothing to compare with.
#[track_caller]
fn is_same(got: &Tensor, wanted: &Tensor) -> Result<bool> {
    let dtype = wanted.dtype()?;
    if got.shape()? != wanted.shape()? {
        return Ok(false);
    }
    if !dtype.is_float() || wanted.shape()?.elements() == 0 {
        return Ok(true);
    }
    let [got, wanted] = [got, wanted].map(|t| t.cast(DType::F64));
    let (scale, apart) = (wanted.abs().amax(..).item::<f64>()?, (got - wanted).abs().amax(..).item::<f64>()?);
    let most = if matches!(dtype, DType::F32 | DType::F64) { 1e-3 } else { 0.1 };
    Ok(!scale.is_finite() || apart <= most * scale.max(1e-3))
}

/// The norms of a model that were folded, each behind the path of the layer that does its part: what [`fuse_modules`] makes of a fresh
/// model of the same type, so that it takes this one's state dict.
pub fn folded_pairs(model: &(impl Walk + ?Sized)) -> Vec<[String; 2]> {
    let modules = model.modules();
    let folded = modules.iter().filter_map(|norm| {
        let into = norm.site().ok()?.folded_into()?;
        let layer = modules.iter().find(|layer| layer.site().is_ok_and(|site| site.same(&into)))?;
        Some([layer.path().to_string(), norm.path().to_string()])
    });
    folded.collect()
}
/// Gives a fresh model the shape of one with these norms folded. Its values are to be loaded: they mean nothing until then.
///
/// # Errors
/// A path without such a module, a norm or layer that cannot be folded. Then nothing has changed.
#[track_caller]
pub(crate) fn shape_as_folded(op: &'static str, model: &(impl Walk + ?Sized), pairs: &[[String; 2]]) -> Result<Foldings> {
    let mut foldings = Foldings::default();
    let done = pairs.iter().try_for_each(|[layer, norm]| {
        let (layer, norm) = (model.get_submodule(layer)?, model.get_submodule(norm)?);
        let weight = layer.parameter("weight").ok_or_else(|| Error::new(op, ErrorKind::Argument(format!("`{}` has no weight", layer.path()))))?;
        let mean = norm.parameter("running_mean");
        let mean = mean.ok_or_else(|| refusal(op, format!("`{}` has no running statistics", joined(norm.path(), "running_mean"))))?;
        let (value, meta) = (weight.detached(), weight.meta());
        let bias = Tensor::full_on(mean.meta().shape, 0, meta.dtype, meta.device);
        foldings.0.push(norm.fold_into(&layer, &value, &bias)?);
        Ok::<(), Error>(())
    });
    foldings.all_or_none(done).map(|((), foldings)| foldings)
}
