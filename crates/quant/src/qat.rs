//! Quantization-aware training: a model is trained with the weights and inputs that its codes will stand for, and then converted.
//!
//! [`prepare_qat`] puts fake quantization on the layers that a [`QuantizationConfig`] means; [`convert()`] makes codes of them, and
//! what the model computes stays what it was in training (Jacob et al. 2018).
//!
//! | | in training | gradient |
//! |---|---|---|
//! | a weight | the numbers of its codes, in the arithmetic of [`PackedWeight::round`](adamant_core::functional::PackedWeight::round) | straight through; 0 where a code is cut off at the end of its range |
//! | [`InputScheme::Calibrated`] | the numbers of unsigned 8-bit codes over the range that was observed | as a weight's |
//! | [`InputScheme::PerToken`] | the numbers of 8-bit codes of each row | as a weight's |
//!
//! **Ranges of inputs** are observed in training mode: the mean of batches' extremes, the newest counting as
//! [`Observation::MovingAverage`] says, or the extremes of all ([`Observation::MinMax`]). Other observations need counts of values,
//! which a training step does not keep; they become a moving average with a rate of 0.01, PyTorch's. In evaluation they stand
//! still; before the first training step an input passes as it is.
//!
//! **Which inputs.** Those of `Linear` and, by token, of attention's projections. States of recurrent layers are seen by no hook, so
//! recurrent layers have weights of codes and inputs of floats here. Embeddings and convolutions read codes as numbers anyway.
//!
//! **State.** What is observed, learned and counted lies in parameters of the model, under `parametrizations.weight.0`: it is saved,
//! copied and moved with the model, a captured step works as any other, and a run that goes on from a state dict and an optimizer's
//! comes to the same bits. Prepare a fresh model by the same configuration and options, then load. Make the optimizer behind
//! [`prepare_qat`]: what is trained are other parameters than before.
//!
//! ```
//! # use adamant_core::Tensor;
//! # use adamant_nn::{Linear, Module, Relu, Sequential, Walk};
//! # use adamant_optim::{Optimizer, Sgd, UpdateRule};
//! # use adamant_quant::{QuantizationConfig, qat::{QatOptions, convert, prepare_qat}};
//! # use adamant_backend_cpu as _;
//! let net = Sequential::new().add(Linear::new(8, 32)?).add(Relu::new()).add(Linear::new(32, 1)?);
//! let options = QatOptions { freeze_observers_after: Some(20), ..Default::default() };
//! prepare_qat(&net, &QuantizationConfig::int8().group(Some(8)), options)?;
//! let mut optimizer = Sgd::new(0.05).over(net.parameters());
//! let x = adamant_nn::init::normal([16, 8], 0.0, 1.0)?;
//! for _ in 0..30 {
//!     let loss = (net.forward(&x)? - x.sum_keepdim(1)).square().mean(..);
//!     optimizer.step(&loss.backward()?)?;
//! }
//! net.eval();
//! assert_eq!(convert(&net)?.quantized().count(), 2);
//! # Ok::<(), adamant_core::Error>(())
//! ```
use crate::{
    method::WeightMethod,
    observe::{Observation, Observer},
    quantize::{PlannedLayer, QuantizationPlan, plan},
    report::Outcome,
    scheme::{InputScheme, LayerKind, LayerScheme, QuantizationConfig},
    select::{AtPath, check, joined, refusal},
};
use adamant_core::{DType, Result, Tensor, composite::packed::Packing, grad::no_grad};
use adamant_nn::{
    Param, Site, Walk,
    parametrize::{register_parametrization, remove_parametrizations},
};
use std::{collections::HashMap, fmt, sync::Arc};

mod convert;
mod grid;
mod hooks;
mod input;
mod norm;
mod weight;
pub use convert::{convert, remove_qat};
use hooks::LayerHooks;
use input::{FakeQuantizedInput, InputRange, TokenAxes};
use norm::FrozenNorm;
use weight::{FakeQuantizedWeight, WeightGrid};

const PREPARE: &str = "prepare_qat";
const CONVERT: &str = "convert";
const REMOVE: &str = "remove_qat";
/// What the newest batch counts where the configuration does not say it: PyTorch's `averaging_constant`.
const RATE: f64 = 0.01;
/// So many passes, as they are counted.
fn passes(limit: u64) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// What changes in the course of quantization-aware training. Passes are forward passes of a layer in training mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QatOptions {
    /// Behind so many passes the ranges of inputs and the scales of weights stay what they are; `None`: never, and weights have at
    /// each pass the scales that [`PackedWeight::round`](adamant_core::functional::PackedWeight::round) would give them. Steps that are
    /// learned begin with the ranges observed by then (`None`: by the first pass).
    pub freeze_observers_after: Option<u64>,
    /// Behind so many passes batch norms normalise by their running statistics, which move no more; `None`: never. Their
    /// `num_batches_tracked` begins at 0.
    pub freeze_norms_after: Option<u64>,
    /// Are steps of weights and inputs trained ("Learned Step Size Quantization", Esser et al. 2020)? Their gradient is scaled by
    /// `1/√(n · Qp)`, n being the weights that share the step, or the features of the input. They are parameters of the model
    /// ([`Qat::steps`]). Zero points of affine weights stay those of the first weights.
    pub learned_steps: bool,
}
/// What became of a layer.
#[derive(Clone, PartialEq, Debug)]
pub enum PreparedOutcome {
    /// it computes with what codes stand for
    Prepared {
        /// how codes of its weights stand for numbers
        packing: Packing,
        /// what becomes of its input
        input: InputScheme,
    },
    /// its weight is another layer's, which was prepared
    Tied(String),
    /// it stays what it was, and why
    Left(String),
}
/// A layer, and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct PreparedLayer {
    /// its path
    pub path: String,
    /// the name of its kind
    pub layer: &'static str,
    /// what became of it
    pub outcome: PreparedOutcome,
}
/// A model that was prepared: what [`prepare_qat`] gives. To drop it changes nothing.
pub struct Qat {
    layers: Vec<PreparedLayer>,
    steps: Vec<Param>,
    norms: usize,
}
impl Qat {
    /// What became of the layers that codes are known for, by path.
    pub fn layers(&self) -> &[PreparedLayer] {
        &self.layers
    }
    /// The steps that are learned, which [`Walk::parameters`] gives too: for a group of an optimizer's with a rate of its own and
    /// without weight decay.
    pub fn steps(&self) -> &[Param] {
        &self.steps
    }
    /// How many batch norms stop following their batches.
    pub fn norms(&self) -> usize {
        self.norms
    }
}
impl fmt::Display for Qat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.layers.iter().map(|l| l.path.chars().count()).max().unwrap_or(0);
        for PreparedLayer { path, layer, outcome } in &self.layers {
            write!(f, "{path:width$}  {layer:9}  ")?;
            match outcome {
                PreparedOutcome::Prepared { packing, input } => {
                    let group = packing.group.map_or(String::new(), |g| format!(" in groups of {g}"));
                    let input = match input {
                        InputScheme::Float => "floats",
                        InputScheme::PerToken { .. } => "codes by token",
                        InputScheme::Calibrated(_) => "codes by one scale",
                    };
                    writeln!(f, "{} bits{group}, inputs {input}", packing.bits)?;
                }
                PreparedOutcome::Tied(why) | PreparedOutcome::Left(why) => writeln!(f, "{why}")?,
            }
        }
        let prepared = self.layers.iter().filter(|l| matches!(l.outcome, PreparedOutcome::Prepared { .. })).count();
        write!(f, "{prepared} layers prepared, {} learned steps, {} norms", self.steps.len(), self.norms)
    }
}

/// Has the layers that a configuration means compute with what their codes will stand for. Values of the weights stay what they
/// are, under the names `parametrizations.weight.original`. Make the optimizer afterwards.
///
/// ```
/// # use adamant_nn::{Linear, Relu, Sequential, Walk};
/// # use adamant_quant::{QuantizationConfig, qat::{QatOptions, prepare_qat}};
/// # use adamant_backend_cpu as _;
/// let net = Sequential::new().add(Linear::new(8, 16)?).add(Relu::new()).add(Linear::new(16, 2)?);
/// let options = QatOptions { learned_steps: true, ..Default::default() };
/// let qat = prepare_qat(&net, &QuantizationConfig::weights(4).skip("2"), options)?;
/// assert_eq!((qat.steps().len(), qat.steps()[0].meta().shape.to_vec()), (1, vec![16, 1]));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A pattern that matches no layer, with the nearest; a model that was prepared already or holds codes; no layer that can be
/// prepared; a weight that has no value yet or that the packing does not suit; `freeze_observers_after: Some(0)` where inputs are to
/// be observed; a method beside rounding, or scales in f16. They name the layer. Then nothing has changed.
///
/// Source: `torch.ao.quantization.prepare_qat`.
#[track_caller]
pub fn prepare_qat(model: &(impl Walk + ?Sized), config: &QuantizationConfig, options: QatOptions) -> Result<Qat> {
    let QuantizationPlan { planned, left } = checked(model, config, options)?;
    let left = left.into_iter().map(|l| match l.outcome {
        Outcome::Left(why) | Outcome::Tied(why) => Some(PreparedLayer { path: l.path, layer: l.layer, outcome: PreparedOutcome::Left(why) }),
        Outcome::Quantized { .. } => None,
    });
    let mut qat = Qat { layers: left.flatten().collect(), steps: Vec::new(), norms: 0 };
    let norms: Vec<FrozenNorm> = match options.freeze_norms_after {
        Some(limit) => model.modules().iter().filter_map(|module| FrozenNorm::of(module, limit)).collect(),
        None => Vec::new(),
    };
    let prepared = prepare(&mut qat, &planned, options, norms.clone())?;
    let mut done: Vec<(&str, &Param)> = Vec::new();
    let registered = prepared.iter().try_for_each(|(path, param, weight)| {
        register_parametrization(&AtPath(path, param), path, weight.clone())?;
        done.push((path, param));
        Ok(())
    });
    if let Err(error) = registered.and_then(|()| norms.iter().try_for_each(FrozenNorm::begin)) {
        // What was done so far is undone; its own failure could say no more than the first one does.
        done.into_iter().for_each(|(path, param)| drop(remove_parametrizations(&AtPath(path, param), path, false)));
        return Err(error);
    }
    // Names, for errors and for optimizers' state.
    model.named_parameters();
    qat.norms = norms.len();
    qat.layers.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(qat)
}
/// Looks whether [`prepare_qat`] would prepare a model. It asks for shapes alone, and computes nothing.
///
/// ```
/// # use adamant_nn::Linear;
/// # use adamant_quant::{QuantizationConfig, qat::{QatOptions, check_qat}};
/// # use adamant_backend_cpu as _;
/// let config = QuantizationConfig::weights(4).group(Some(5));
/// let error = check_qat(&Linear::new(8, 2)?, &config, QatOptions::default()).unwrap_err();
/// assert!(error.to_string().contains("8 is no multiple of it"));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// As [`prepare_qat`].
#[track_caller]
pub fn check_qat(model: &(impl Walk + ?Sized), config: &QuantizationConfig, options: QatOptions) -> Result<()> {
    checked(model, config, options).map(drop)
}
#[track_caller]
fn checked(model: &(impl Walk + ?Sized), config: &QuantizationConfig, options: QatOptions) -> Result<QuantizationPlan> {
    if let Some(met) = convert::met(model).first() {
        return Err(refusal(PREPARE, format!("`{}` was prepared already", met.path)).hint("`convert` ends the training that it was prepared for"));
    }
    let method = config.weight_method();
    check(PREPARE, method == WeightMethod::Round, || format!("weights in training are rounded to the nearest code, not by {}", method.name()))
        .map_err(|e| e.hint("methods that need calibration data are `quantize_model`'s, after training"))?;
    let plan = plan(PREPARE, model, config)?;
    check(PREPARE, !plan.planned.is_empty(), || "the configuration means no layer whose codes are known".into())?;
    plan.planned.iter().try_for_each(|layer| check_layer(layer, in_training(layer), options))?;
    Ok(plan)
}
#[track_caller]
fn check_layer(layer: &PlannedLayer, scheme: LayerScheme, options: QatOptions) -> Result<()> {
    let path = layer.layer.path();
    check(PREPARE, scheme.scales == DType::F32, || format!("the layer `{path}` has scales of f32 in training, not {}", scheme.scales))?;
    if let InputScheme::Calibrated(how) = scheme.input {
        let seen = options.freeze_observers_after != Some(0);
        check(PREPARE, seen, || format!("the input of `{path}` is to be observed, and `freeze_observers_after` is 0"))?;
        // What an observer refuses is refused here too.
        Observer::new(how).map_err(|e| refusal(PREPARE, format!("the layer `{path}`: {}", e.kind())))?;
    }
    layer.weights.iter().try_for_each(|(name, param)| {
        let (path, meta) = (joined(path, name), param.meta());
        let initialized = check(PREPARE, !param.is_uninitialized(), || format!("`{path}` has no value yet"));
        initialized.map_err(|e| e.hint("run the model once on an example before"))?;
        check(PREPARE, meta.dtype.is_float(), || format!("`{path}` holds {}, and codes are found of floats", meta.dtype))?;
        scheme.packing.check(&meta.shape).map_err(|kind| refusal(PREPARE, format!("the layer `{}`: {kind}", layer.layer.path())))
    })
}
/// The parametrizations of all weights, each once, with the first of its paths.
type PreparedWeights = Vec<(String, Param, FakeQuantizedWeight)>;
#[track_caller]
fn prepare(qat: &mut Qat, planned: &[PlannedLayer], options: QatOptions, mut norms: Vec<FrozenNorm>) -> Result<PreparedWeights> {
    let mut all: PreparedWeights = Vec::new();
    let mut known: HashMap<usize, String> = HashMap::new();
    for layer in planned {
        let path = layer.layer.path();
        let tied = layer.weights.iter().find_map(|(_, p)| known.get(&p.id()));
        let outcome = if let Some(first) = tied {
            PreparedOutcome::Tied(format!("its weight is that of `{first}`, and is prepared there"))
        } else {
            known.extend(layer.weights.iter().map(|(_, p)| (p.id(), path.to_string())));
            let scheme = in_training(layer);
            // Layers whose inputs become codes alike see one range.
            let shares = |other: &&PlannedLayer| other.weights.iter().any(|(_, p)| layer.weights.iter().any(|(_, own)| own.same(p)));
            let takes_codes = |other: &&PlannedLayer| LayerKind::of(other.layer.kind).is_some_and(LayerKind::multiplies_codes);
            let sites: Vec<Site> = planned.iter().filter(shares).filter(takes_codes).map(|l| l.layer.site().cloned()).collect::<Result<_>>()?;
            let own = layer.layer.site()?.clone();
            let sites = if sites.is_empty() || matches!(scheme.input, InputScheme::Float) { vec![own] } else { sites };
            no_grad(|| prepare_layer(layer, scheme, options, sites, std::mem::take(&mut norms), &mut all, &mut qat.steps))?;
            PreparedOutcome::Prepared { packing: scheme.packing, input: scheme.input }
        };
        qat.layers.push(PreparedLayer { path: path.into(), layer: layer.layer.kind, outcome });
    }
    Ok(all)
}
/// The scheme of a layer, without codes of an input that hooks do not see.
fn in_training(layer: &PlannedLayer) -> LayerScheme {
    let is_recurrent = matches!(LayerKind::of(layer.layer.kind), Some(LayerKind::Lstm | LayerKind::Gru | LayerKind::Rnn));
    LayerScheme { input: if is_recurrent { InputScheme::Float } else { layer.scheme.input }, ..layer.scheme }
}
#[track_caller]
fn prepare_layer(
    layer: &PlannedLayer,
    scheme: LayerScheme,
    options: QatOptions,
    sites: Vec<Site>,
    norms: Vec<FrozenNorm>,
    all: &mut PreparedWeights,
    steps: &mut Vec<Param>,
) -> Result<()> {
    let (path, limit) = (layer.layer.path(), options.freeze_observers_after);
    let device = layer.weights.first().map(|(_, p)| p.meta().device);
    let Some(device) = device else { return Ok(()) };
    let observed = Param::buffer(&Tensor::full_on((), 0, DType::I64, device))?;
    let token = match (LayerKind::of(layer.layer.kind), layer.weights.first()) {
        (Some(LayerKind::Conv), Some((_, weight))) => TokenAxes::Sample { spatial: weight.meta().shape.rank().saturating_sub(2) },
        _ => TokenAxes::Row,
    };
    let input = match scheme.input {
        InputScheme::Float => FakeQuantizedInput::Float,
        InputScheme::PerToken { symmetric } => FakeQuantizedInput::PerToken { symmetric, token },
        InputScheme::Calibrated(how) => {
            let rate = match how {
                Observation::MinMax => None,
                Observation::MovingAverage { rate } => Some(rate),
                _ => Some(RATE),
            };
            FakeQuantizedInput::Ranged { range: InputRange::new(&observed, rate, limit, options.learned_steps)?, token }
        }
    };
    let own = layer.layer.site()?;
    let mut hooks = Some((sites, input, norms));
    for (name, param) in &layer.weights {
        let path = joined(path, name);
        let grid = WeightGrid::new(&param.detached(), scheme.packing, &observed, limit, options.learned_steps)?;
        steps.extend(grid.step().cloned());
        let hooks = match hooks.take() {
            Some((sites, input, norms)) => {
                if let FakeQuantizedInput::Ranged { range: InputRange { step: Some(step), .. }, .. } = &input {
                    steps.push(step.clone());
                }
                Some(Arc::new(LayerHooks::attach(sites, input, &observed, norms)?))
            }
            None => None,
        };
        all.push((path, param.clone(), FakeQuantizedWeight { site: own.clone(), grid, hooks }));
    }
    Ok(())
}
