//! Post-training quantization: weights of layers become integer codes in place, all of them or, after an error, none.
//!
//! What is to be done is planned first ([`QuantizationConfig`] over the layers of the model), then inputs are calibrated by hooks
//! where a scheme asks for it, then every weight is rounded and looked at, and only then do the parameters change. The report names
//! every layer, done or not, and why.
use crate::{
    faster::{self, LayersOfBothForms},
    fuse::fold_all,
    method::{Run, WeightMethod, normal_floats, quantize_in_order, rounded},
    observe::Observer,
    report::{LayerReport, MethodReport, Outcome, QuantizationReport},
    scheme::{InputScheme, LayerKind, LayerScheme, QuantizationConfig},
    select::{evaluating, joined, nothing_means, refusal},
};
use adamant_core::{
    DType, Error, ErrorKind, Result, Tensor,
    composite::packed::{Packing, matrix},
    functional::PackedWeight,
    grad::no_grad,
};
use adamant_nn::{InputCodes, Module, Param, Role, Submodule, Walk, glob_matches};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// A layer that is to be quantized.
pub(crate) struct PlannedLayer {
    pub layer: Submodule,
    /// names within the layer
    pub weights: Vec<(String, Param)>,
    pub scheme: LayerScheme,
}
impl PlannedLayer {
    pub(crate) fn report(&self, outcome: Outcome) -> LayerReport {
        report(&self.layer, outcome)
    }
}
fn report(layer: &Submodule, outcome: Outcome) -> LayerReport {
    LayerReport { path: layer.path().into(), layer: layer.kind, outcome }
}
/// What is planned, and what stays with the reason.
pub(crate) struct QuantizationPlan {
    pub planned: Vec<PlannedLayer>,
    /// those that stay what they are
    pub left: Vec<LayerReport>,
}
#[track_caller]
pub(crate) fn plan(op: &'static str, model: &(impl Walk + ?Sized), config: &QuantizationConfig) -> Result<QuantizationPlan> {
    let all: Vec<Submodule> = model.modules();
    for pattern in config.patterns() {
        if !all.iter().any(|layer| glob_matches(pattern, layer.path())) {
            return Err(nothing_means(op, "layer", pattern, all.iter().map(Submodule::path)));
        }
    }
    let mut plan = QuantizationPlan { planned: Vec::new(), left: Vec::new() };
    for layer in all {
        let Some(kind) = LayerKind::of(layer.kind) else {
            if layer.parameters.iter().any(|(_, p)| p.role() == Role::Trainable && p.meta().shape.rank() > 1) {
                plan.left.push(report(&layer, Outcome::Left("codes of such a layer are not known".into())));
            }
            continue;
        };
        if layer.parameters.iter().any(|(_, p)| p.packed().is_some()) {
            return Err(Error::new(op, ErrorKind::Argument(format!("the {} `{}` holds integer codes already", layer.kind, layer.path())))
                .hint("quantize the model of floats, or `unpack` the layer's parameters first"));
        }
        let weights: Vec<(String, Param)> = layer.parameters.iter().filter(|(name, _)| kind.is_weight(name)).cloned().collect();
        let why = match config.scheme_of(layer.path(), kind) {
            None => "the configuration leaves it out",
            Some(_) if layer.parameters.iter().any(|(name, _)| name.starts_with("parametrizations.")) => "its weight is computed from other parameters",
            Some(_) if weights.is_empty() => "it has no weight of its own",
            Some(LayerScheme { scales, .. }) if !matches!(scales, DType::F32 | DType::F16) => {
                return Err(Error::new(op, ErrorKind::Dtype(format!("the {} `{}`: scales are f32 or f16, not {scales}", layer.kind, layer.path())))
                    .hint("take `scales(DType::F16)` for small files, `scales(DType::F32)` for any number"));
            }
            Some(scheme) => {
                weights.iter().try_for_each(|(name, param)| suits(op, layer.path(), name, param, scheme.packing))?;
                plan.planned.push(PlannedLayer { layer, weights, scheme });
                continue;
            }
        };
        plan.left.push(report(&layer, Outcome::Left(why.into())));
    }
    Ok(plan)
}

/// Does a packing suit a weight? One without a value is asked for it later.
///
/// # Errors
/// [`Packing::check`]'s, with the weight's path, and a group that would suit.
#[track_caller]
fn suits(op: &'static str, path: &str, name: &str, param: &Param, packing: Packing) -> Result<()> {
    if param.is_uninitialized() {
        return Ok(());
    }
    let shape = param.meta().shape;
    packing.check(&shape).map_err(|kind| {
        let error = Error::new(op, ErrorKind::Argument(format!("the layer `{path}`: `{}`: {kind}", joined(path, name))));
        let (_, columns) = matrix(&shape);
        let divides = packing.group.and_then(|group| (1..=group.min(columns)).rev().find(|g| columns.is_multiple_of(*g)));
        match divides {
            Some(divides) if packing.group != Some(divides) => {
                error.hint(format!("groups of {divides} cut such rows; or give the layer a scheme of its own (`layers`), or leave it out (`skip`)"))
            }
            _ => error.hint(OWN_SCHEME),
        }
    })
}
/// What to do about a layer that a scheme does not suit.
const OWN_SCHEME: &str = "give the layer a scheme of its own (`layers`), or leave it out (`skip`)";

/// What calibration says of inputs, by the path of the layer.
pub(crate) type Calibrated = HashMap<String, InputCodes>;
/// Runs the model with observers before the layers whose inputs are to be calibrated.
#[track_caller]
fn calibrate(op: &'static str, plan: &QuantizationPlan, run: &mut Run<'_>) -> Result<Calibrated> {
    let mut observers = Vec::new();
    let mut handles = Vec::new();
    let registered = plan.planned.iter().try_for_each(|planned| {
        let InputScheme::Calibrated(how) = planned.scheme.input else { return Ok(()) };
        let Ok(site) = planned.layer.site() else { return Ok(()) };
        let observer = Arc::new(Mutex::new(Observer::new(how)?));
        observers.push((planned.layer.path().to_string(), observer.clone()));
        let path = planned.layer.path().to_string();
        handles.push(site.register_forward_pre_hook(move |_, inputs| {
            if let Some(x) = inputs.first() {
                let values = x.detach().to_vec_as::<f32>()?;
                observer.lock().unwrap_or_else(std::sync::PoisonError::into_inner).see(&values).map_err(|e| named(op, &path, &e))?;
            }
            Ok(None)
        })?);
        Ok::<(), Error>(())
    });
    let ran = registered.and_then(|()| if observers.is_empty() { Ok(()) } else { no_grad(|| run(&|_| Ok(()))) });
    handles.iter().for_each(|h| h.remove());
    ran?;
    let found = observers.into_iter().map(|(path, observer)| {
        let observer = observer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (scale, zero_point) = observer.unsigned_codes().map_err(|e| named(op, &path, &e))?;
        Ok((path, InputCodes::Given { scale, zero_point }))
    });
    found.collect()
}
#[track_caller]
pub(crate) fn named(op: &'static str, path: &str, error: &Error) -> Error {
    let told = Error::new(op, ErrorKind::Argument(format!("the layer `{path}`: {}", error.kind())));
    told.hint(error.hint_text().unwrap_or(OWN_SCHEME).to_string())
}

/// A weight that has become codes, not yet in its place.
pub(crate) struct RoundedWeight {
    pub param: Param,
    pub weight: PackedWeight,
    /// what it stands for in the place of the value, f32
    pub numbers: Tensor,
}
impl PlannedLayer {
    /// The value of one of its weights.
    ///
    /// # Errors
    /// It has none yet, or one that is not finite.
    #[track_caller]
    pub(crate) fn value(&self, op: &'static str, name: &str, param: &Param) -> Result<Tensor> {
        let path = joined(self.layer.path(), name);
        if param.is_uninitialized() {
            return Err(Error::new(op, ErrorKind::Argument(format!("`{path}` has no value yet"))).hint("run the model once on an example before"));
        }
        let value = param.detached();
        // A product of floats alone: what else it may be, its packing refuses.
        if value.dtype()?.is_float() && !squares(&value)?.is_finite() {
            return Err(Error::new(op, ErrorKind::Argument(format!("`{path}` holds numbers that are not finite, or too large to be squared")))
                .hint("`adamant doctor` finds where a run's weights became so; or leave the layer out (`skip`)"));
        }
        Ok(value)
    }
    /// Its weights by the nearest codes, or by the levels of NF4.
    #[track_caller]
    pub(crate) fn rounded(&self, op: &'static str, method: WeightMethod) -> Result<Vec<RoundedWeight>> {
        let nearest = if method == WeightMethod::NormalFloat { normal_floats } else { rounded };
        let of = |(name, param): &(String, Param)| {
            let value = self.value(op, name, param)?;
            let weight = nearest(&value, &self.scheme).map_err(|e| named(op, &joined(self.layer.path(), name), &e))?;
            let numbers = weight.dequantize(DType::F32);
            Ok(RoundedWeight { param: param.clone(), weight, numbers })
        };
        self.weights.iter().map(of).collect()
    }
    /// What becomes of its inputs.
    pub(crate) fn input(&self, calibrated: &Calibrated) -> InputCodes {
        let input = self.scheme.input.without_calibration().or_else(|| calibrated.get(self.layer.path()).cloned());
        input.unwrap_or(InputCodes::PerToken { symmetric: false })
    }
    /// What became of it. Its parameters are as they were before.
    #[track_caller]
    pub(crate) fn outcome(&self, rounded: &[RoundedWeight], input: InputCodes, method: MethodReport) -> Result<Outcome> {
        let (mut signal, mut noise, mut before, mut after) = (0.0, 0.0, 0, 0);
        for RoundedWeight { param, weight, numbers, .. } in rounded {
            let value = param.detached().cast(DType::F32);
            (signal, noise) = (signal + squares(&value)?, noise + squares(&(numbers - &value))?);
            (before, after) = (before + param.meta().bytes(), after + weight.bytes());
        }
        let LayerScheme { packing, scales, .. } = self.scheme;
        Ok(Outcome::Quantized { packing, scales, method, input, signal_to_noise: crate::report::decibels(signal, noise), before, after })
    }
}
#[track_caller]
fn squares(t: &Tensor) -> Result<f64> {
    let t = t.cast(DType::F32);
    Ok(f64::from((&t * &t).sum(..).item::<f32>()?))
}
/// Of a layer whose weights belong to another one too.
pub(crate) fn tied(first: &str) -> Outcome {
    Outcome::Tied(format!("its weight is that of `{first}`, and has become codes there"))
}
#[track_caller]
fn apply(op: &'static str, model: &(impl Walk + ?Sized), plan: QuantizationPlan, calibrated: &Calibrated, method: WeightMethod) -> Result<QuantizationReport> {
    let (mut all, mut reports) = (Vec::new(), plan.left);
    let mut known: HashMap<usize, String> = HashMap::new();
    for planned in &plan.planned {
        if let Some(first) = planned.weights.iter().find_map(|(_, p)| known.get(&p.id())) {
            reports.push(planned.report(tied(first)));
            continue;
        }
        let input = planned.input(calibrated);
        let (rounded, outcome) = no_grad(|| {
            let rounded = planned.rounded(op, method)?;
            let outcome = planned.outcome(&rounded, input.clone(), MethodReport { name: method.name(), ..MethodReport::rounded(None) })?;
            Ok::<_, Error>((rounded, outcome))
        })?;
        known.extend(rounded.iter().map(|r| (r.param.id(), planned.layer.path().to_string())));
        reports.push(planned.report(outcome));
        all.extend(rounded.into_iter().map(|r| (r.param, r.weight, input.clone())));
    }
    let before = model.memory_usage();
    for (param, weight, input) in all {
        param.pack(&weight, input)?;
    }
    reports.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(QuantizationReport { layers: reports, before, after: model.memory_usage(), fused: None })
}

/// Quantizes a model by a configuration. Where that asks for calibrated inputs, or for another method than rounding
/// ([`WeightMethod`]), the model is run on the batches of `calibration`, which should be a few hundred rows of the training data;
/// else they are not looked at.
///
/// ```
/// # use adamant_nn::{Linear, Module, Relu, Sequential};
/// # use adamant_quant::{QuantizationConfig, quantize_model};
/// # use adamant_backend_cpu as _;
/// let net = Sequential::new().add(Linear::new(64, 64)?).add(Relu::new()).add(Linear::new(64, 10)?);
/// let x = adamant_nn::init::normal([32, 64], 0.0, 1.0)?;
/// let before = net.forward(&x)?.to_vec::<f32>()?;
/// let report = quantize_model(&net, &QuantizationConfig::int8(), &[x.clone()])?;
/// assert!(report.ratio() > 3.5);
/// let after = net.forward(&x)?.to_vec::<f32>()?;
/// assert!(before.iter().zip(&after).all(|(a, b)| (a - b).abs() < 0.05));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A pattern that matches no layer, with the nearest; a layer that holds codes already; a weight that a packing does not suit, or
/// that is not finite; no calibration data, or values in it that are not finite; with [`QuantizationConfig::fuse`] those of [`crate::fuse_modules_on`]. Then
/// nothing has changed.
#[track_caller]
pub fn quantize_model(model: &(impl Module + ?Sized), config: &QuantizationConfig, calibration: &[Tensor]) -> Result<QuantizationReport> {
    const OP: &str = "quantize_model";
    let mut run = |output: &dyn Fn(&Tensor) -> Result<()>| evaluating(model, || calibration.iter().try_for_each(|x| output(&model.forward(x)?)));
    if !config.fuses() {
        return quantize_running(OP, model, config, &mut run);
    }
    // Before anything changes.
    plan(OP, model, config)?;
    let Some(example) = calibration.first() else {
        return Err(refusal(OP, "norms are folded by a forward pass, and there are no calibration data".into())
            .hint("give an example of the model's input, or fold by name first (`fuse_modules`)"));
    };
    let before = model.memory_usage();
    let (fused, foldings) = fold_all(OP, model, example)?;
    match quantize_running(OP, model, config, &mut run) {
        Ok(report) => Ok(QuantizationReport { before, fused: Some(fused), ..report }),
        Err(error) => {
            foldings.undo()?;
            Err(error)
        }
    }
}
/// As [`quantize_model`], of a model of any shape: `run` runs it on the calibration data, the same at each call. It is called once for
/// inputs that are calibrated, and with GPTQ and AWQ once for each set of layers with a common input, and more.
///
/// # Errors
/// As [`quantize_model`]; those of `run`; a configuration that folds norms.
#[track_caller]
pub fn quantize_model_with(model: &(impl Walk + ?Sized), config: &QuantizationConfig, mut run: impl FnMut() -> Result<()>) -> Result<QuantizationReport> {
    const OP: &str = "quantize_model";
    if config.fuses() {
        return Err(refusal(OP, "norms are folded by the model's own forward pass, which is not known of a model that is given with a function".into())
            .hint("fold them first: `fuse_modules_on` with an example, or `fuse_modules` by name"));
    }
    quantize_running(OP, model, config, &mut |_| run())
}
#[track_caller]
fn quantize_running(op: &'static str, model: &(impl Walk + ?Sized), config: &QuantizationConfig, run: &mut Run<'_>) -> Result<QuantizationReport> {
    config.weight_method().check(op)?;
    faster::check(op, config)?;
    let plan = plan(op, model, config)?;
    let both = config.keeps_only_faster().then(|| LayersOfBothForms::of(&plan));
    let calibrated = calibrate(op, &plan, run)?;
    let report = match config.weight_method() {
        method @ (WeightMethod::Round | WeightMethod::NormalFloat) => apply(op, model, plan, &calibrated, method)?,
        method => quantize_in_order(op, model, plan, &calibrated, method, run)?,
    };
    match both {
        Some(both) => both.keep_faster(op, model, report, run),
        None => Ok(report),
    }
}
/// Quantizes the weights of layers of some kinds to 8 bits; inputs become codes row by row as they come. No data are needed.
///
/// ```
/// # use adamant_nn::{Linear, Walk};
/// # use adamant_core::DType;
/// # use adamant_quant::{LayerKind, quantize_dynamic};
/// # use adamant_backend_cpu as _;
/// let layer = Linear::new(64, 64)?;
/// quantize_dynamic(&layer, &[LayerKind::Linear, LayerKind::Lstm], DType::I8)?;
/// assert_eq!(layer.state_dict()[0].1.dtype()?, DType::I8);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// As [`quantize_model`]; another dtype than i8 or u8.
///
/// Source: `torch.ao.quantization.quantize_dynamic`.
#[track_caller]
pub fn quantize_dynamic(model: &(impl Walk + ?Sized), kinds: &[LayerKind], dtype: DType) -> Result<QuantizationReport> {
    const OP: &str = "quantize_dynamic";
    let symmetric = match dtype {
        DType::I8 => true,
        DType::U8 => false,
        other => {
            return Err(Error::new(OP, ErrorKind::Dtype(format!("weights become i8 or u8, not {other}")))
                .hint("fewer bits are `QuantizationConfig::weights(4)` with `quantize_model`"));
        }
    };
    let config = QuantizationConfig::int8_dynamic().kinds(kinds).symmetric(symmetric);
    apply(OP, model, plan(OP, model, &config)?, &Calibrated::new(), WeightMethod::Round)
}
