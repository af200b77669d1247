//! Bad input: each kind of it under options of all pairs is an error that names the layer and says what to do, and then nothing has
//! changed; and what looks bad and is not (channels of zeros, constant ones) gives finite numbers.
use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{DType, Error, Result, Tensor, composite::packed::Packing};
use adamant_formats::safetensors;
use adamant_nn::{Conv2d, Embedding, Flatten, Gru, Linear, Lstm, Module, Relu, Sequential, Unflatten, Walk, init, manual_seed};
use adamant_quant::{
    AwqOptions, GptqOptions, InputScheme, LayerKind, LayerScheme, QuantizationConfig, WeightMethod, load_quantized, observe::Observation, quantize_dynamic,
    quantize_model, save_quantized,
};
use std::{collections::BTreeMap, path::Path};

/// Options by their numbers.
const BITS: [u32; 3] = [8, 4, 3];
const GROUPS: [Option<usize>; 3] = [None, Some(8), Some(4)];
const SCALES: [DType; 2] = [DType::F32, DType::F16];
const KINDS: [&str; 6] = ["linear", "lstm", "gru", "embedding", "conv", "deep"];
const COUNTS: [usize; 7] = [BITS.len(), GROUPS.len(), 2, SCALES.len(), 9, 3, KINDS.len()];
fn inputs(k: usize) -> InputScheme {
    let observations = [
        Observation::MinMax,
        Observation::MovingAverage { rate: 0.1 },
        Observation::Histogram,
        Observation::Percentile { percent: 99.0 },
        Observation::Mse,
        Observation::Entropy,
    ];
    match k {
        0 => InputScheme::Float,
        1 | 2 => InputScheme::PerToken { symmetric: k == 1 },
        _ => InputScheme::Calibrated(observations[k - 3]),
    }
}
#[derive(Clone, Debug)]
struct Options {
    kind: &'static str,
    scheme: LayerScheme,
    method: WeightMethod,
}
impl Options {
    fn of(k: &[usize]) -> Options {
        let methods = [WeightMethod::Round, WeightMethod::Gptq(GptqOptions::default()), WeightMethod::Awq(AwqOptions { grid: 3, clip: true })];
        let kind = KINDS[k[6]];
        // A convolution's rows are of 9 columns here.
        let group = if kind == "conv" { None } else { GROUPS[k[1]] };
        let packing = Packing { bits: BITS[k[0]], group, symmetric: k[2] == 0 };
        Options { kind, scheme: LayerScheme { packing, scales: SCALES[k[3]], input: inputs(k[4]) }, method: methods[k[5]] }
    }
    fn config(&self) -> QuantizationConfig {
        QuantizationConfig::with(self.scheme).method(self.method)
    }
    fn model(&self) -> Result<(Sequential, Tensor)> {
        manual_seed(3);
        let numbers = |shape: &[usize]| init::normal(shape, 0.0, 1.0);
        let net = Sequential::new();
        Ok(match self.kind {
            "lstm" => (net.add(Lstm::new(8, 8)?).add(Linear::new(8, 4)?), numbers(&[2, 6, 8])?),
            "gru" => (net.add(Gru::new(8, 8)?).add(Linear::new(8, 4)?), numbers(&[2, 6, 8])?),
            "embedding" => (net.add(Embedding::new(12, 8)?).add(Linear::new(8, 4)?), Tensor::from_vec((0..12i64).collect(), [12])),
            "conv" => {
                let net = net.add(Unflatten::new(1, [1, 4, 4])).add(Conv2d::new(1, 4, 3)?).add(Relu::new()).add(Flatten::new());
                (net.add(Linear::new(16, 4)?), numbers(&[9, 16])?)
            }
            "deep" => (net.add(Linear::new(16, 16)?).add(Relu::new()).add(Linear::new(16, 8)?).add(Relu::new()).add(Linear::new(8, 4)?), numbers(&[12, 16])?),
            _ => (net.add(Linear::new(16, 4)?), numbers(&[12, 16])?),
        })
    }
    /// Does it look at calibration data?
    fn looks(&self) -> bool {
        self.method != WeightMethod::Round || matches!(self.scheme.input, InputScheme::Calibrated(_))
    }
}
/// Choices of options so that every two values of two options come together in one at least.
fn all_pairs() -> Vec<Options> {
    let mut random = Random::new(8);
    let mut open: Vec<[usize; 4]> = Vec::new();
    for a in 0..COUNTS.len() {
        for b in a + 1..COUNTS.len() {
            open.extend((0..COUNTS[a]).flat_map(|x| (0..COUNTS[b]).map(move |y| [a, x, b, y])));
        }
    }
    let mut chosen = Vec::new();
    while let Some(&[a, x, b, y]) = open.first() {
        // The best of some that have the first pair that is open.
        let tried = (0..40).map(|_| {
            let mut k: Vec<usize> = COUNTS.iter().map(|n| random.below(*n)).collect();
            (k[a], k[b]) = (x, y);
            (open.iter().filter(|[a, x, b, y]| k[*a] == *x && k[*b] == *y).count(), k)
        });
        let (_, k) = tried.max_by_key(|(n, _)| *n).unwrap();
        open.retain(|[a, x, b, y]| k[*a] != *x || k[*b] != *y);
        chosen.push(Options::of(&k));
    }
    chosen
}
fn held(model: &impl Walk) -> Result<Vec<(String, Vec<u8>)>> {
    model.state_dict().into_iter().map(|(name, t)| Ok((name, t.to_bytes()?))).collect()
}
/// An error that says all of this, has a hint, and after which the model is what it was.
fn refused(of: &str, options: &Options, model: &Sequential, call: impl FnOnce(&Sequential) -> Result<()>, says: &[&str]) -> Result<()> {
    let before = held(model)?;
    let error: Error = match call(model) {
        Ok(()) => panic!("{of}: {options:?} was accepted"),
        Err(error) => error,
    };
    let text = error.to_string();
    for wanted in says {
        assert!(text.contains(wanted), "{of}: {options:?}: {text} does not say {wanted:?}");
    }
    assert!(error.hint_text().is_some_and(|hint| hint.len() > 10), "{of}: {options:?}: no hint: {text}");
    assert_eq!(held(model)?, before, "{of}: {options:?}: {text}");
    Ok(())
}
/// The path of the first layer whose weight becomes codes, and the name of that weight.
fn first(options: &Options) -> (&'static str, &'static str) {
    match options.kind {
        "lstm" | "gru" => ("0", "0.weight_ih_l0"),
        "conv" => ("1", "1.weight"),
        _ => ("0", "0.weight"),
    }
}
fn spoil(model: &Sequential, name: &str, change: impl Fn(&mut Vec<f32>)) -> Result<()> {
    let (_, param) = model.named_parameters().into_iter().find(|(path, _)| path == name).unwrap();
    let mut values = param.detached().to_vec::<f32>()?;
    change(&mut values);
    param.set(&Tensor::from_vec(values, param.meta().shape))
}

#[test]
fn bad_numbers_data_and_options_that_are_accepted_or_refused_without_the_layer() -> Result<()> {
    let all = all_pairs();
    assert!(all.len() >= 54, "{}", all.len());
    for options in &all {
        let (layer, weight) = first(options);
        let quantize = |calibration: Vec<Tensor>| move |model: &Sequential| quantize_model(model, &options.config(), &calibration).map(drop);
        let (model, x) = options.model()?;
        if options.looks() && options.kind != "embedding" && !matches!(options.kind, "lstm" | "gru") {
            for bad in [f32::NAN, f32::INFINITY] {
                let calibration = vec![x.masked_fill(&x.gt(1.0), bad)];
                refused("calibration that is not finite", options, &model, quantize(calibration), &["the layer `"])?;
            }
        }
        if options.looks() {
            let says: &[&str] = &["the layer `", "were seen"];
            refused("no calibration data", options, &model, quantize(vec![]), says)?;
        }
        for bad in [f32::NAN, f32::NEG_INFINITY] {
            let (model, x) = options.model()?;
            spoil(&model, weight, |values| values[3] = bad)?;
            refused("a weight that is not finite", options, &model, quantize(vec![x]), &[if options.looks() { "`" } else { weight }])?;
        }
        let odd = LayerScheme { packing: Packing { group: Some(7), ..options.scheme.packing }, ..options.scheme };
        let config = options.config().layers(layer, odd);
        let says = [weight, "no multiple"];
        refused("a group that does not divide", options, &model, |m| quantize_model(m, &config, std::slice::from_ref(&x)).map(drop), &says)?;
        for bits in [0, 2, 5, 16] {
            let odd = LayerScheme { packing: Packing { bits, ..options.scheme.packing }, ..options.scheme };
            let config = options.config().layers(layer, odd);
            refused("bits", options, &model, |m| quantize_model(m, &config, std::slice::from_ref(&x)).map(drop), &[weight, "8, 4 or 3"])?;
        }
        let config = options.config().scales(DType::BF16);
        refused("scales of another dtype", options, &model, |m| quantize_model(m, &config, std::slice::from_ref(&x)).map(drop), &["`", "bf16"])?;
        for size in [1e8f32, 1e-9] {
            let (model, x) = options.model()?;
            spoil(&model, weight, |values| values.iter_mut().for_each(|v| *v *= size))?;
            let config = options.config().scales(DType::F16);
            let says: &[&str] = if options.method == WeightMethod::Round { &[weight, "f16", "row"] } else { &["f16", "row"] };
            refused("a scale that f16 does not hold", options, &model, |m| quantize_model(m, &config, std::slice::from_ref(&x)).map(drop), says)?;
        }
        let config = options.config().skip("lair.*");
        refused("a layer that there is not", options, &model, |m| quantize_model(m, &config, std::slice::from_ref(&x)).map(drop), &["`lair.*`"])?;
        quantize_model(&model, &options.config(), std::slice::from_ref(&x))?;
        for twice in 0..2 {
            let again = |m: &Sequential| match twice {
                0 => quantize_model(m, &options.config(), std::slice::from_ref(&x)).map(drop),
                _ => quantize_dynamic(m, &LayerKind::ALL, DType::I8).map(drop),
            };
            refused("quantized twice", options, &model, again, &[&format!("`{layer}`"), "already"])?;
        }
    }
    Ok(())
}

#[test]
fn a_channel_of_zeros_or_of_one_number_that_gives_nan() -> Result<()> {
    for options in &all_pairs() {
        for constant in [0.0f32, 0.5, -2.0, 1e-42] {
            let (model, x) = options.model()?;
            let (_, weight) = first(options);
            // Rows of one number, one of zeros among them; and inputs that are all alike.
            spoil(&model, weight, |values| {
                let half = values.len() / 2;
                values[..half].fill(constant);
                let last = values.len() - half / 2;
                values[last..].fill(0.0);
            })?;
            let x = if options.kind == "embedding" { x } else { (&x * 0.0 + f64::from(constant)).ok()? };
            quantize_model(&model, &options.config(), std::slice::from_ref(&x))?;
            for (name, bytes) in model.state_dict() {
                if bytes.dtype()?.is_float() {
                    assert!(bytes.to_vec_as::<f32>()?.iter().all(|v| v.is_finite()), "{options:?}, {constant}: `{name}`");
                }
            }
            let others = if options.kind == "embedding" { x.clone() } else { init::normal(&*x.shape()?, 0.0, 3.0)? };
            for x in [&x, &others] {
                let y = model.forward(x)?.to_vec::<f32>()?;
                assert!(y.iter().all(|v| v.is_finite()), "{options:?}, {constant}: {y:?}");
            }
        }
    }
    Ok(())
}

/// A file with one tensor changed, or its scheme.
fn changed(from: &Path, to: &Path, change: impl Fn(&mut Vec<(String, Tensor)>, &mut serde_json::Value)) -> Result<()> {
    let mut state = safetensors::load(from)?;
    let text = safetensors::SafeTensors::open(from)?.texts()["quantization"].clone();
    let mut scheme = serde_json::from_str(&text).unwrap();
    change(&mut state, &mut scheme);
    safetensors::save(to, state, &BTreeMap::from([("quantization".to_string(), scheme.to_string())]))
}
fn of<'a>(state: &'a mut [(String, Tensor)], name: &str) -> Option<&'a mut Tensor> {
    state.iter_mut().find(|(n, _)| n == name).map(|(_, t)| t)
}
#[test]
fn a_file_of_codes_that_is_not_as_it_was_written() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good"), folder.path().join("bad"));
    for options in &all_pairs() {
        let (model, x) = options.model()?;
        quantize_model(&model, &options.config(), std::slice::from_ref(&x))?;
        save_quantized(&model, &good)?;
        let (_, weight) = first(options);
        let check = |what: &str, says: &[&str], change: &dyn Fn(&mut Vec<(String, Tensor)>, &mut serde_json::Value)| -> Result<()> {
            changed(&good, &bad, change)?;
            refused(what, options, &options.model()?.0, |m| load_quantized(m, &bad), says)
        };
        let longer = |t: &Tensor, more: isize| {
            let n = t.shape().unwrap()[0];
            if more < 0 { t.narrow(0, 0, n - 1) } else { Tensor::cat(&[t, &t.narrow(0, 0, 1)], 0) }
        };
        for suffix in ["", "_scale", "_zero_point"] {
            let name = format!("{weight}{suffix}");
            if suffix == "_zero_point" && options.scheme.packing.symmetric {
                continue;
            }
            for more in [-1, 1] {
                check("another length", &[weight], &|state, _| {
                    let t = of(state, &name).unwrap();
                    *t = longer(t, more);
                })?;
            }
            check("gone", &[&name], &|state, _| state.retain(|(n, _)| *n != name))?;
            check("another dtype", &[weight], &|state, _| {
                let t = of(state, &name).unwrap();
                *t = t.cast(DType::I64);
            })?;
        }
        for value in [f32::NAN, f32::INFINITY, 0.0, -1.0] {
            check("a scale", &[weight, "scale 0 is"], &|state, _| {
                let t = of(state, &format!("{weight}_scale")).unwrap();
                let mut values = t.to_vec_as::<f32>().unwrap();
                values[0] = value;
                *t = Tensor::from_vec(values, t.shape().unwrap()).cast(t.dtype().unwrap());
            })?;
        }
        if !options.scheme.packing.symmetric && options.scheme.packing.bits < 8 {
            check("a zero point", &[weight, "zero point 0 is 255"], &|state, _| {
                let t = of(state, &format!("{weight}_zero_point")).unwrap();
                *t = Tensor::full(t.shape().unwrap(), 255, DType::U8);
            })?;
        }
        let entries: [(&str, serde_json::Value, &str); 8] = [
            ("bits", 5.into(), "8, 4 or 3"),
            ("bits", (-1).into(), weight),
            ("symmetric", 3.into(), weight),
            ("group", 7.into(), weight),
            ("group", 0.into(), weight),
            ("shape", serde_json::json!([1, 1]), weight),
            ("shape", serde_json::json!([u64::MAX, 8, 8]), weight),
            ("input", "tokens".into(), "tokens"),
        ];
        for (entry, value, says) in entries {
            check(entry, &[says], &|_, scheme| scheme["weights"][weight][entry] = value.clone())?;
        }
        check("a weight that there is not", &["0.weigth"], &|_, scheme| {
            let known = scheme["weights"][weight].clone();
            scheme["weights"]["0.weigth"] = known;
        })?;
        check("no weight", &["no weight"], &|_, scheme| scheme["weights"] = serde_json::json!({}))?;
        check("another version", &["version 7"], &|_, scheme| scheme["version"] = 7.into())?;
    }
    Ok(())
}

#[test]
fn names_that_there_are_not_have_a_suggestion() {
    let hint = |e: Error| e.hint_text().unwrap_or_default().to_string();
    for (wrong, near) in [("gtpq", "gptq"), ("aqw", "awq"), ("rtm", "rtn"), ("GPTQ", "gptq")] {
        let error = WeightMethod::named(wrong).unwrap_err();
        assert!(error.to_string().contains(wrong) && hint(error).contains(near), "{wrong}");
    }
    for (wrong, near) in [("int8", "int8-"), ("w5", "w"), ("int8_dynamic", "int8-dynamic")] {
        let error = QuantizationConfig::named(wrong).unwrap_err();
        assert!(error.to_string().contains(wrong) && hint(error).contains(near), "{wrong}");
    }
    let net = Sequential::new().add_named("encoder", Linear::new(4, 4).unwrap()).add_named("head", Linear::new(4, 2).unwrap());
    for (wrong, near) in [("hed", "head"), ("encoder.weight", "encoder")] {
        for config in [QuantizationConfig::weights(8).skip(wrong), QuantizationConfig::weights(8).layers(wrong, LayerScheme::weights(4))] {
            let error = quantize_model(&net, &config, &[]).unwrap_err();
            assert!(error.to_string().contains(wrong) && hint(error).contains(near), "{wrong}");
        }
    }
}
