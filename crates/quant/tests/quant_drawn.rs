//! Drawn models by drawn schemes: layers, sizes, bits, groups, signs and inputs that nobody has listed.
use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{DType, Result, Tensor, compile, composite::packed::Packing, functional::PadMode};
use adamant_nn::{
    Conv1d, Conv2d, Conv3d, ConvOptions, Embedding, Flatten, Gru, Linear, Lstm, Module, Relu, Rnn, Sequential, Site, Tanh, TransformerEncoderLayer,
    TransformerOptions, Unflatten, Walk, init, manual_seed,
};
use adamant_quant::{
    AwqOptions, InputScheme, LayerScheme, Outcome, QuantizationConfig, WeightMethod, load_quantized, observe::Observation, quantize_model, save_quantized,
};

/// A model by its number and sizes, drawn again alike, and inputs for it.
fn model(kind: usize, random: &Random) -> Result<(Sequential, Tensor)> {
    let mut random = random.part(kind as u64);
    let width = 8 * (1 + random.below(6));
    let (hidden, classes, rows) = (8 * (1 + random.below(8)), 2 + random.below(9), 1 + random.below(40));
    manual_seed(random.bits());
    let numbers = |shape: &[usize]| init::normal(shape, 0.0, 1.0);
    let net = Sequential::new();
    Ok(match kind {
        0 => (net.add(Linear::new(width, hidden)?).add(Relu::new()).add(Linear::no_bias(hidden, classes)?), numbers(&[rows, width])?),
        1 => {
            let net = net.add(Unflatten::new(1, [1, 8, width as isize])).add(Conv2d::new(1, 8, 3)?).add(Relu::new()).add(Flatten::new());
            (net.add(Linear::new(8 * 6 * (width - 2), classes)?), numbers(&[rows, 8 * width])?)
        }
        2 => (net.add(Lstm::new(width, hidden)?).add(Linear::new(hidden, classes)?), numbers(&[5, rows, width])?),
        3 => (net.add(Gru::new(width, hidden)?).add(Tanh::new()), numbers(&[3, rows, width])?),
        4 => (net.add(Rnn::new(width, hidden)?).add(Linear::new(hidden, classes)?), numbers(&[4, rows, width])?),
        5 => {
            let layer = TransformerEncoderLayer::with(width, 2, TransformerOptions { dim_feedforward: hidden, dropout: 0.0, ..Default::default() })?;
            (net.add(layer).add(Linear::new(width, classes)?), numbers(&[6, rows, width])?)
        }
        6 => {
            let depthwise = ConvOptions { groups: width, stride: 2.into(), padding: 1.into(), padding_mode: PadMode::Reflect, ..Default::default() };
            let net = net.add(Conv1d::with(width, width, 4, depthwise)?).add(Tanh::new()).add(Conv1d::new(width, classes, 1)?);
            (net, numbers(&[rows, width, 12])?)
        }
        7 => {
            let groups = ConvOptions { groups: 2, padding: 1.into(), dilation: 2.into(), ..Default::default() };
            (net.add(Conv3d::with(4, 6, 2, groups)?).add(Flatten::new()), numbers(&[1 + rows % 3, 4, 3, 4, 5])?)
        }
        _ => {
            let ids = (0..rows).map(|_| random.below(20) as i64).collect();
            (net.add(Embedding::new(20, width)?).add(Linear::new(width, classes)?), Tensor::from_vec(ids, [rows]))
        }
    })
}
const MODELS: usize = 9;
fn scheme(random: &mut Random) -> LayerScheme {
    let packing = Packing { bits: [8, 8, 4, 3][random.below(4)], group: [None, None, Some(8), Some(4)][random.below(4)], symmetric: random.below(2) == 0 };
    let inputs = [
        InputScheme::Float,
        InputScheme::PerToken { symmetric: true },
        InputScheme::PerToken { symmetric: false },
        InputScheme::Calibrated(Observation::Percentile { percent: 99.9 }),
        InputScheme::Calibrated(Observation::Entropy),
        InputScheme::Calibrated(Observation::Mse),
    ];
    LayerScheme { packing, scales: [DType::F32, DType::F16][random.below(2)], input: inputs[random.below(inputs.len())] }
}
fn forward(model: &Sequential, x: &Tensor) -> Result<Vec<u8>> {
    model.forward(x)?.to_bytes()
}

#[test]
fn drawn_models_by_drawn_schemes_are_read_back_copied_and_compiled_to_the_same_bits() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let random = Random::new(2026);
    for round in 0..90u64 {
        let kind = round as usize % MODELS;
        let drawn = random.part(round);
        let scheme = scheme(&mut drawn.part(99));
        // A convolution's rows have columns that no group of these cuts.
        let whole = LayerScheme { packing: Packing { group: None, ..scheme.packing }, ..scheme };
        let config = QuantizationConfig::with(if matches!(kind, 1 | 6 | 7) { whole } else { scheme });
        let (net, x) = model(kind, &drawn)?;
        net.eval();
        let compiled = compile(|x: &[Tensor]| Ok(vec![net.forward(&x[0])?]));
        let floats = compiled.call(&[&x])?[0].to_vec::<f32>()?;
        let report = quantize_model(&net, &config, std::slice::from_ref(&x))?;
        assert!(report.layers.iter().all(|l| matches!(l.outcome, Outcome::Quantized { .. })), "{round}: {report}");
        let codes = net.forward(&x)?.to_vec::<f32>()?;
        let (largest, off) = floats.iter().zip(&codes).fold((0f32, 0f32), |(m, off), (a, b)| (m.max(a.abs()), off.max((a - b).abs())));
        // Of a few hundred numbers the divergence that is least may be that of a range which cuts many off.
        let cut = if scheme.input == InputScheme::Calibrated(Observation::Entropy) { 0.3 } else { 0.0 };
        let share = cut + [0.0, 0.0, 0.0, 1.2, 0.6, 0.0, 0.0, 0.0, 0.12][scheme.packing.bits as usize];
        assert!(off > 0.0 && off <= share * largest, "{round}: {config:?}: {off} of {largest}");
        let bytes = forward(&net, &x)?;
        assert_eq!(compiled.call(&[&x])?[0].to_bytes()?, bytes, "{round}: {config:?}: a function that was compiled before");
        assert_eq!(forward(&net.deep_copy()?, &x)?, bytes, "{round}: {config:?}: a copy");
        let file = folder.path().join(format!("{round}.safetensors"));
        save_quantized(&net, &file)?;
        let (fresh, _) = model(kind, &drawn)?;
        fresh.eval();
        // Other numbers than those that were quantized.
        fresh.parameters().iter().try_for_each(|p| p.set(&(p.detached() + 0.25)))?;
        load_quantized(&fresh, &file)?;
        assert_eq!(forward(&fresh, &x)?, bytes, "{round}: {config:?}: read back");
    }
    Ok(())
}

#[test]
fn a_row_has_the_same_bits_alone_and_in_any_batch() -> Result<()> {
    let mut random = Random::new(5);
    for round in 0..60u64 {
        let (net, x) = model([0, 1, 6, 7][round as usize % 4], &random.part(round))?;
        let packing = Packing { bits: 8, group: None, symmetric: random.below(2) == 0 };
        let input = InputScheme::PerToken { symmetric: random.below(2) == 0 };
        quantize_model(&net, &QuantizationConfig::with(LayerScheme { packing, scales: DType::F32, input }), &[])?;
        let (all, rows) = (forward(&net, &x)?, x.shape()?[0]);
        let width = all.len() / rows;
        for row in 0..rows {
            let alone = forward(&net, &x.narrow(0, row, 1))?;
            assert_eq!(alone, all[row * width..][..width], "{round}: row {row} of {rows}, {packing:?}, {input:?}");
        }
    }
    Ok(())
}

/// What takes no less time as codes is what it was, to the bit; what became codes is faster; and all of it is told. Layers are made slow by
/// hooks, as floats or as codes, so that no clock decides.
#[test]
fn only_what_is_faster_becomes_codes() {
    let net = || -> Result<Sequential> {
        manual_seed(3);
        Ok(Sequential::new().add(Conv2d::new(1, 2, 3)?).add(Flatten::new()).add(Linear::new(2 * 36, 24)?).add(Relu::new()).add(Linear::new(24, 4)?))
    };
    let x = init::normal([2, 1, 8, 8], 0.0, 1.0).unwrap();
    let state = |model: &Sequential| model.state_dict().into_iter().map(|(name, t)| (name, t.to_bytes().unwrap())).collect::<Vec<_>>();
    let before = state(&net().unwrap());
    let config = QuantizationConfig::int8_dynamic().only_faster(true);
    for slow_as_codes in 0..8u32 {
        let model = net().unwrap();
        let paths = ["0", "2", "4"];
        let is_slow = |path: &str| paths.iter().position(|p| *p == path).map(|k| slow_as_codes >> k & 1 == 1);
        for layer in model.modules() {
            let Some(slow) = is_slow(layer.path()) else { continue };
            let weight = layer.parameters[0].1.clone();
            let waits = move |_: &Site, _: &[Tensor], _: &[Tensor]| {
                if weight.packed().is_some() == slow {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                Ok(None)
            };
            layer.site().unwrap().register_forward_hook(waits).unwrap();
        }
        let report = quantize_model(&model, &config, std::slice::from_ref(&x)).unwrap();
        for path in paths {
            let outcome = &report.layers.iter().find(|l| l.path == path).expect("a layer of the model").outcome;
            match outcome {
                Outcome::Left(why) => assert!(is_slow(path) == Some(true) && why.starts_with("no faster as codes: "), "{path}: {report}"),
                Outcome::Quantized { .. } => assert_eq!(is_slow(path), Some(false), "{path}: {report}"),
                Outcome::Tied(_) => panic!("{report}"),
            }
        }
        let after = state(&model);
        for (name, bytes) in &before {
            let now = &after.iter().find(|(n, _)| n == name).expect("its name is what it was").1;
            let kept = report.quantized().all(|layer| name != &format!("{}.weight", layer.path));
            assert_eq!(now == bytes, kept, "{name}: {report}");
        }
        assert_eq!(report.after, model.memory_usage());
    }
    // Without data no layer is timed, and nothing has changed.
    let untimed = net().unwrap();
    let error = quantize_model(&untimed, &config, &[]).unwrap_err();
    assert!(error.to_string().contains("no layer was run"), "{error}");
    assert_eq!(state(&untimed), before);
    let awq = QuantizationConfig::weights(4).method(WeightMethod::Awq(AwqOptions::default())).only_faster(true);
    let error = quantize_model(&untimed, &awq, &[x]).unwrap_err();
    assert!(error.to_string().contains("AWQ"), "{error}");
}
