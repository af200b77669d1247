//! The end of quantization-aware training: the numbers that codes stand for become the codes.
use super::{
    CONVERT, REMOVE,
    input::FakeQuantizedInput,
    weight::{FakeQuantizedWeight, MET, check_scales},
};
use crate::{
    quantize::tied,
    report::{LayerReport, MethodReport, Outcome, QuantizationReport, decibels},
    scheme::LayerKind,
    select::{AtPath, check, refusal},
};
use adamant_core::{DType, Result, Tensor, functional::PackedWeight, grad::no_grad};
use adamant_nn::{InputCodes, Param, Role, Submodule, Visit, Walk, parametrize::remove_parametrizations};
use std::collections::{HashMap, HashSet};

/// A parameter that is fake-quantized, at one of its places.
pub(super) struct MetWeight {
    pub path: String,
    pub param: Param,
    pub weight: FakeQuantizedWeight,
    /// what the codes are found of
    pub original: Option<Param>,
    /// Does no other parametrization stand on this one?
    pub alone: bool,
}
impl MetWeight {
    /// What is trained, where nothing but fake quantization makes the weight of it.
    #[track_caller]
    fn original(&self, op: &'static str) -> Result<&Param> {
        self.original.as_ref().filter(|_| self.alone).ok_or_else(|| {
            refusal(op, format!("`{}` is computed by more than fake quantization", self.path)).hint("take away first what was put on it since `prepare_qat`")
        })
    }
}
/// Every fake-quantized parameter at every place it has.
pub(super) fn met(model: &(impl Walk + ?Sized)) -> Vec<MetWeight> {
    #[derive(Default)]
    struct MetWeights {
        all: Vec<MetWeight>,
        at: Option<(String, Param)>,
    }
    impl MetWeights {
        /// Those that were met since the last parameter that is computed are of that one.
        fn take(&mut self) {
            let new = MET.with_borrow_mut(|met| met.as_mut().map(std::mem::take).unwrap_or_default());
            if let Some((path, param)) = &self.at {
                self.all.extend(new.into_iter().map(|weight| MetWeight { path: path.clone(), param: param.clone(), weight, original: None, alone: true }));
            }
        }
    }
    impl Visit for MetWeights {
        fn parametrized(&mut self, path: &str, param: &Param) {
            self.take();
            self.at = Some((path.into(), param.clone()));
        }
    }
    /// Looks for what a parameter is computed from, and for what else it is computed by.
    struct Originals<'a>(HashMap<String, &'a mut MetWeight>);
    impl Visit for Originals<'_> {
        fn param(&mut self, path: &str, param: &Param) {
            let Some((holder, rest)) = path.split_once("parametrizations.") else { return };
            let mut parts = rest.splitn(2, '.');
            let (Some(name), Some(part)) = (parts.next(), parts.next()) else { return };
            let Some(met) = self.0.get_mut(&format!("{holder}{name}")) else { return };
            match part.split('.').next() {
                Some("original") => met.original = Some(param.clone()),
                first => met.alone &= first == Some("0"),
            }
        }
    }
    struct Collecting;
    impl Drop for Collecting {
        fn drop(&mut self) {
            MET.set(None);
        }
    }
    let mut weights = MetWeights::default();
    {
        MET.set(Some(Vec::new()));
        let _collecting = Collecting;
        model.visit(&mut weights);
        weights.take();
    }
    let mut all = weights.all;
    let mut originals = Originals(all.iter_mut().map(|met| (met.path.clone(), met)).collect());
    model.visit(&mut originals);
    all
}

/// A weight that is to become codes.
struct ConvertedWeight {
    path: String,
    param: Param,
    weight: FakeQuantizedWeight,
    packed: PackedWeight,
    input: InputCodes,
}
#[track_caller]
fn converted(met: &MetWeight, input: &InputCodes) -> Result<(ConvertedWeight, [f64; 2])> {
    let MetWeight { path, param, weight, .. } = met;
    let original = met.original(CONVERT)?.detached();
    let packed = weight.grid.packed(&original)?;
    let numbers = original.cast(DType::F32);
    let squares = |t: &Tensor| -> Result<f64> { Ok(f64::from((t * t).sum(..).item::<f32>()?)) };
    let (signal, noise) = (squares(&numbers)?, squares(&(&packed.dequantize(DType::F32) - &numbers))?);
    check(CONVERT, signal.is_finite(), || format!("`{path}` holds numbers that are not finite, or too large to be squared"))?;
    check_scales(path, &packed)?;
    let (path, param, weight, input) = (path.clone(), param.clone(), weight.clone(), input.clone());
    Ok((ConvertedWeight { path, param, weight, packed, input }, [signal, noise]))
}
/// What becomes of a layer's input, by the first of its weights.
#[track_caller]
fn input_of(layer: &Submodule, weights: &[&MetWeight]) -> Result<InputCodes> {
    let Some(hooks) = weights.iter().find_map(|met| met.weight.hooks.as_ref()) else { return Ok(InputCodes::Float) };
    match &hooks.input {
        FakeQuantizedInput::Float => Ok(InputCodes::Float),
        FakeQuantizedInput::PerToken { symmetric, .. } => Ok(InputCodes::PerToken { symmetric: *symmetric }),
        FakeQuantizedInput::Ranged { range, .. } => range.input_codes()?.ok_or_else(|| {
            refusal(CONVERT, format!("the layer `{}`: no values were seen: no forward pass in training has reached it", layer.path()))
                .hint("train the prepared model before, or run it on some batches in training mode")
        }),
    }
}
/// Ends [quantization-aware training](super): fake quantization is taken away, and the weights become the codes whose numbers they
/// were, with the scales that training ended with; inputs become codes by the ranges that were observed, or the steps that were
/// learned. What the model computes changes by what f32 rounds: where a sum of products lies that near the middle between two codes
/// of the next layer's input, by one step of it.
///
/// The model is as [`quantize_model`](crate::quantize_model) leaves it, and is saved by [`save_quantized`](crate::save_quantized).
/// Optimizers that were made for it have nothing left to train in those layers.
///
/// ```
/// # use adamant_nn::{Linear, Module, Relu, Sequential, Walk};
/// # use adamant_quant::{QuantizationConfig, qat::{QatOptions, convert, prepare_qat}};
/// # use adamant_backend_cpu as _;
/// let net = Sequential::new().add(Linear::new(16, 32)?).add(Relu::new()).add(Linear::new(32, 4)?);
/// prepare_qat(&net, &QuantizationConfig::int8(), QatOptions::default())?;
/// let x = adamant_nn::init::normal([8, 16], 0.0, 1.0)?;
/// net.forward(&x)?; // in training mode: the ranges of inputs are observed
/// net.eval();
/// let fake = net.forward(&x)?.to_vec::<f32>()?;
/// let report = convert(&net)?;
/// assert_eq!(report.quantized().count(), 2);
/// let codes = net.forward(&x)?.to_vec::<f32>()?;
/// assert!(fake.iter().zip(&codes).all(|(a, b)| (a - b).abs() < 0.02));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A model that was not prepared; a layer whose input was never seen in training; a weight or a step that is not finite, or a weight
/// with other parametrizations. They name the layer. Then nothing has changed.
///
/// Source: `torch.ao.quantization.convert`.
#[track_caller]
pub fn convert(model: &(impl Walk + ?Sized)) -> Result<QuantizationReport> {
    let met = met(model);
    check(CONVERT, !met.is_empty(), || "the model has no layers that were prepared".into())
        .map_err(|e| e.hint("`prepare_qat` prepares them; a model that is trained already is quantized by `quantize_model`"))?;
    let (mut all, mut reports): (Vec<ConvertedWeight>, Vec<LayerReport>) = (Vec::new(), Vec::new());
    let mut known: HashMap<usize, String> = HashMap::new();
    for layer in model.modules() {
        let weights: Vec<&MetWeight> = met.iter().filter(|met| met.path.rsplit_once('.').map_or("", |(of, _)| of) == layer.path()).collect();
        let outcome = match weights.first() {
            None if LayerKind::of(layer.kind).is_some() => Outcome::Left("it was not prepared".into()),
            None if layer.parameters.iter().any(|(_, p)| p.role() == Role::Trainable && p.meta().shape.rank() > 1) => {
                Outcome::Left("codes of such a layer are not known".into())
            }
            None => continue,
            Some(first) if known.contains_key(&first.param.id()) => tied(known.get(&first.param.id()).map_or("", String::as_str)),
            Some(first) => {
                let input = input_of(&layer, &weights)?;
                let (mut sums, mut before, mut after) = ([0.0; 2], 0, 0);
                for met in &weights {
                    let (weight, squares) = no_grad(|| converted(met, &input))?;
                    sums = [sums[0] + squares[0], sums[1] + squares[1]];
                    (before, after) = (before + met.param.meta().bytes(), after + weight.packed.bytes());
                    known.insert(met.param.id(), layer.path().into());
                    all.push(weight);
                }
                Outcome::Quantized {
                    packing: first.weight.grid.packing,
                    scales: DType::F32,
                    method: MethodReport::rounded(Some("as trained")),
                    input,
                    signal_to_noise: decibels(sums[0], sums[1]),
                    before,
                    after,
                }
            }
        };
        reports.push(LayerReport { path: layer.path().into(), layer: layer.kind, outcome });
    }
    let before = model.memory_usage();
    for ConvertedWeight { path, param, weight, packed, input } in all {
        if let Some(hooks) = &weight.hooks {
            hooks.detach();
        }
        remove_parametrizations(&AtPath(&path, &param), &path, false)?;
        param.pack(&packed, input)?;
    }
    reports.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(QuantizationReport { layers: reports, before, after: model.memory_usage(), fused: None })
}
/// Ends [quantization-aware training](super) without codes: fake quantization is taken away, and the weights are the numbers that
/// were trained, under their first names. What the model computes changes by what rounding did.
///
/// ```
/// # use adamant_nn::{Linear, Walk};
/// # use adamant_quant::{QuantizationConfig, qat::{QatOptions, prepare_qat, remove_qat}};
/// # use adamant_backend_cpu as _;
/// let layer = Linear::new(16, 4)?;
/// prepare_qat(&layer, &QuantizationConfig::weights(4), QatOptions::default())?;
/// assert_eq!(layer.named_parameters()[0].0, "parametrizations.weight.original");
/// remove_qat(&layer)?;
/// assert_eq!(layer.named_parameters()[0].0, "weight");
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A model that was not prepared; a weight with other parametrizations. Then nothing has changed.
#[track_caller]
pub fn remove_qat(model: &(impl Walk + ?Sized)) -> Result<()> {
    let met = met(model);
    check(REMOVE, !met.is_empty(), || "the model has no layers that were prepared".into())?;
    met.iter().try_for_each(|met| met.original(REMOVE).map(drop))?;
    let mut known = HashSet::new();
    for met in met.iter().filter(|met| known.insert(met.param.id())) {
        met.weight.hooks.iter().for_each(|hooks| hooks.detach());
        remove_parametrizations(&AtPath(&met.path, &met.param), &met.path, false)?;
    }
    Ok(())
}
