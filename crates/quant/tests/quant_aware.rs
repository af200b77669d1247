//! Quantization-aware training: that what is trained with is what is converted to, observers and norms against arithmetic on the
//! host, and that all state lies in the model: copies, captures and runs that were killed come to the same bits.
#![allow(clippy::unwrap_used)]

mod common;

use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{
    DType, Result, Tensor, compile,
    composite::packed::Packing,
    functional::{self, PackedWeight, PadMode},
};
use adamant_nn::{
    BatchNorm, BatchNorm1d, BatchNorm2d, BatchNormOptions, Conv1d, Conv2d, ConvOptions, Embedding, Flatten, Gru, InputCodes, Linear, Lstm, Module, Param, Relu,
    Sequential, TransformerEncoderLayer, TransformerOptions, Unflatten, Walk, manual_seed,
};
use adamant_optim::{AdamW, Optimizer, Sgd, UpdateRule};
use adamant_quant::{
    InputScheme, LayerScheme, Outcome, QatOptions, QuantizationConfig, WeightMethod, convert, load_quantized, observe::Observation, prepare_qat,
    qat::PreparedOutcome, quantize_model, save_quantized,
};
use common::{close, held, normal, numbers, packing, weights};
use std::{io::Read, sync::Mutex};

fn bits(state: &[(String, Tensor)]) -> Vec<(String, Vec<u8>)> {
    state.iter().map(|(name, t)| (name.clone(), t.to_bytes().unwrap())).collect()
}
fn refused<T>(result: Result<T>, says: &[&str]) {
    let text = result.err().unwrap().to_string();
    for part in says {
        assert!(text.contains(part), "{text} lacks {part}");
    }
}
#[test]
fn a_weight_in_training_is_what_rounding_stores_to_the_bit() -> Result<()> {
    let mut random = Random::new(31);
    for round in 0..60 {
        let (packing, rows, columns) = (packing(&mut random), 1 + random.below(9), 8 * (1 + random.below(6)));
        manual_seed(random.bits());
        let layer = Linear::new(columns, rows)?;
        if random.one_in(3) {
            layer.weight.set(&(layer.weight.detached() * 0.0))?;
        }
        let dtype = if random.one_in(4) { DType::BF16 } else { DType::F32 };
        layer.cast(dtype)?;
        let plain = layer.weight.detached();
        let frozen = [None, Some(0), Some(3)][random.below(3)];
        prepare_qat(&layer, &weights(packing, InputScheme::Float), QatOptions { freeze_observers_after: frozen, ..Default::default() })?;
        let rounded = PackedWeight::round(&plain, packing)?;
        assert!(layer.weight.detached().to_bytes()? == rounded.dequantize(dtype).to_bytes()?, "{round}: {packing:?}");
        assert!(layer.weight.detached().to_bytes()? == layer.weight.get().to_bytes()?, "{round}: {packing:?}: a gradient changes the value");
        assert_eq!(held(&layer, "parametrizations.weight.original").detached().to_bytes()?, plain.to_bytes()?);
        convert(&layer)?;
        let codes = layer.weight.packed().unwrap().weight()?;
        assert_eq!(codes.codes().to_bytes()?, rounded.codes().to_bytes()?, "{round}: {packing:?}");
        assert_eq!(codes.scale().to_bytes()?, rounded.scale().to_bytes()?, "{round}: {packing:?}");
    }
    Ok(())
}

#[test]
fn an_observer_is_the_formula_and_stands_still_in_evaluation_and_when_it_is_frozen() -> Result<()> {
    let mut random = Random::new(35);
    for round in 0..24u64 {
        let limit = [None, Some(1), Some(4)][random.below(3)];
        let how = [Observation::MinMax, Observation::MovingAverage { rate: 0.25 }, Observation::default()][random.below(3)];
        manual_seed(random.bits());
        let layer = Linear::new(8, 3)?;
        let options = QatOptions { freeze_observers_after: limit, ..Default::default() };
        prepare_qat(&layer, &weights(Packing { bits: 8, group: None, symmetric: true }, InputScheme::Calibrated(how)), options)?;
        let (mut low, mut high, mut seen) = (0f32, 0f32, 0);
        for pass in 0..7u64 {
            let x = normal([4, 8]) * (1.0 + pass as f64) + 0.5;
            layer.set_training(pass % 3 != 2);
            layer.forward(&x)?.to_bytes()?;
            if layer.is_training() && limit.is_none_or(|limit| seen < limit) {
                let values = x.to_vec::<f32>()?;
                let (least, most) = values.iter().fold((f32::MAX, f32::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
                let rate = if let Observation::MovingAverage { rate } = how { rate as f32 } else { 0.01 };
                (low, high) = match how {
                    _ if seen == 0 => (least, most),
                    Observation::MinMax => (low.min(least), high.max(most)),
                    _ => (low + (least - low) * rate, high + (most - high) * rate),
                };
            }
            seen += u64::from(layer.is_training());
            let got = ["low", "high"].map(|end| held(&layer, &format!("parametrizations.weight.0.input_{end}")).detached().item::<f32>().unwrap());
            assert!((got[0] - low).abs() <= 1e-6 * low.abs() && (got[1] - high).abs() <= 1e-6 * high, "{round}, pass {pass}: {got:?}, not {low} and {high}");
            assert_eq!(held(&layer, "parametrizations.weight.0.observed").detached().item::<i64>()?, seen as i64);
        }
        convert(&layer)?;
        let InputCodes::Given { scale, zero_point } = layer.weight.packed().unwrap().input()? else { panic!("no scale") };
        let want = (high.max(0.0) - low.min(0.0)) / 255.0;
        assert!((scale - want).abs() <= 1e-5 * want && zero_point == (-low.min(0.0) / want).round() as i32, "{round}: {scale} {zero_point}");
    }
    Ok(())
}
#[test]
fn a_frozen_scale_is_that_of_the_last_weight_that_was_observed() -> Result<()> {
    let mut random = Random::new(36);
    for round in 0..12 {
        let packing = packing(&mut random);
        manual_seed(random.bits());
        let layer = Linear::new(16, 5)?;
        prepare_qat(&layer, &weights(packing, InputScheme::Float), QatOptions { freeze_observers_after: Some(2), ..Default::default() })?;
        let original = held(&layer, "parametrizations.weight.original");
        let (x, mut observed) = (normal([3, 16]), original.detached());
        for pass in 0..4 {
            layer.forward(&x)?.to_bytes()?;
            observed = if pass < 2 { original.detached() } else { observed };
            let scale = held(&layer, "parametrizations.weight.0.scale").detached();
            assert_eq!(scale.to_bytes()?, PackedWeight::round(&observed, packing)?.scale().to_bytes()?, "{round}, pass {pass}: {packing:?}");
            original.set(&(original.detached() * 1.3))?;
        }
    }
    Ok(())
}
#[test]
fn the_input_of_a_layer_by_token_is_the_formula() -> Result<()> {
    for symmetric in [true, false] {
        manual_seed(12);
        let layer = Linear::new(16, 2)?;
        prepare_qat(&layer, &weights(Packing { bits: 8, group: None, symmetric: true }, InputScheme::PerToken { symmetric }), QatOptions::default())?;
        let met = std::sync::Arc::new(Mutex::new(Vec::new()));
        let note = met.clone();
        layer.register_forward_hook(move |_, inputs, _| {
            note.lock().unwrap().extend(numbers(&inputs[0]));
            Ok(None)
        })?;
        let x = normal([20, 16]) + 0.4;
        layer.forward(&x)?.to_bytes()?;
        let want: Vec<f64> = numbers(&x)
            .chunks(16)
            .flat_map(|row| {
                let (least, most) = row.iter().fold((0f64, 0f64), |(l, h), v| (l.min(*v), h.max(*v)));
                let scale = if symmetric { most.max(-least) / 127.0 } else { (most - least) / 255.0 };
                let zero_point = if symmetric { 0.0 } else { (-least / scale).round() };
                let (low, high) = if symmetric { (-128.0, 127.0) } else { (0.0, 255.0) };
                row.iter().map(|v| (((v / scale).round() + zero_point).clamp(low, high) - zero_point) * scale).collect::<Vec<f64>>()
            })
            .collect();
        close(&met.lock().unwrap(), &want, &format!("symmetric: {symmetric}"));
    }
    Ok(())
}
#[test]
fn a_batch_that_is_not_finite_teaches_an_observer_nothing() -> Result<()> {
    let layer = Linear::new(4, 2)?;
    prepare_qat(&layer, &QuantizationConfig::int8(), QatOptions::default())?;
    let x = Tensor::from_slice(&[1.0f32, -2.0, 0.5, 3.0], [1, 4]);
    layer.forward(&(&x / 0.0))?.to_bytes()?;
    refused(convert(&layer), &["no values were seen"]);
    layer.forward(&x)?.to_bytes()?;
    layer.forward(&(&x * f64::NAN))?.to_bytes()?;
    convert(&layer)?;
    assert_eq!(layer.weight.packed().unwrap().input()?, InputCodes::Given { scale: 5.0 / 255.0, zero_point: 102 });
    Ok(())
}

/// A model by its number and sizes, drawn again alike, and inputs for it.
fn model(kind: usize, random: &Random) -> Result<(Sequential, Tensor)> {
    let mut random = random.part(kind as u64);
    let (width, hidden, classes, rows) = (8 * (1 + random.below(5)), 8 * (1 + random.below(5)), 2 + random.below(9), 4 + random.below(20));
    manual_seed(random.bits());
    let net = Sequential::new();
    Ok(match kind {
        0 => (net.add(Linear::new(width, hidden)?).add(Relu::new()).add(Linear::no_bias(hidden, classes)?), normal([rows, width])),
        1 => {
            let net = net.add(Unflatten::new(1, [1, 8, width as isize])).add(Conv2d::new(1, 8, 3)?).add(BatchNorm2d::new(8)?).add(Relu::new());
            (net.add(Flatten::new()).add(Linear::new(8 * 6 * (width - 2), classes)?), normal([rows, 8 * width]))
        }
        2 => (net.add(Lstm::new(width, hidden)?).add(Linear::new(hidden, classes)?), normal([5, rows, width])),
        3 => (net.add(Gru::new(width, hidden)?).add(Linear::new(hidden, classes)?), normal([3, rows, width])),
        4 => {
            let layer = TransformerEncoderLayer::with(width, 2, TransformerOptions { dim_feedforward: hidden, dropout: 0.0, ..Default::default() })?;
            (net.add(layer).add(Linear::new(width, classes)?), normal([6, rows, width]))
        }
        5 => {
            let depthwise = ConvOptions { groups: width, stride: 2.into(), padding: 1.into(), padding_mode: PadMode::Reflect, ..Default::default() };
            let net = net.add(Conv1d::with(width, width, 4, depthwise)?).add(Relu::new()).add(Conv1d::new(width, classes, 1)?);
            (net, normal([rows, width, 12]))
        }
        _ => {
            let ids = (0..rows).map(|_| random.below(20) as i64).collect();
            (net.add(Embedding::new(20, width)?).add(Linear::new(width, classes)?), Tensor::from_vec(ids, [rows]))
        }
    })
}
const MODELS: usize = 7;
fn scheme(random: &mut Random, kind: usize) -> LayerScheme {
    let inputs = [
        InputScheme::Float,
        InputScheme::PerToken { symmetric: true },
        InputScheme::PerToken { symmetric: false },
        InputScheme::Calibrated(Observation::MinMax),
        InputScheme::Calibrated(Observation::MovingAverage { rate: 0.2 }),
        InputScheme::Calibrated(Observation::Entropy),
    ];
    let packing = packing(random);
    // A convolution's rows have columns that no group of these cuts.
    LayerScheme {
        packing: Packing { group: packing.group.filter(|_| !matches!(kind, 1 | 5)), ..packing },
        scales: DType::F32,
        input: inputs[random.below(inputs.len())],
    }
}
fn options(random: &mut Random) -> QatOptions {
    QatOptions {
        freeze_observers_after: [None, Some(1), Some(3)][random.below(3)],
        freeze_norms_after: [None, Some(0), Some(2)][random.below(3)],
        learned_steps: random.one_in(3),
    }
}
fn train(model: &Sequential, optimizer: &mut dyn Optimizer, x: &Tensor, target: &Tensor) -> Result<()> {
    let loss = (model.forward(x)? - target).square().mean(..);
    optimizer.step(&loss.backward()?)
}
/// The values of the weights that are computed, by path.
fn computed(model: &impl Walk) -> Vec<(String, Tensor)> {
    #[derive(Default)]
    struct Computed(Vec<(String, Tensor)>);
    impl adamant_nn::Visit for Computed {
        fn parametrized(&mut self, path: &str, param: &Param) {
            self.0.push((path.into(), param.detached()));
        }
    }
    let mut all = Computed::default();
    model.visit(&mut all);
    all.0
}

#[test]
fn drawn_models_by_drawn_schemes_are_converted_to_what_they_were_trained_as() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let random = Random::new(2027);
    for round in 0..84u64 {
        let (kind, drawn) = (round as usize % MODELS, random.part(round));
        let (scheme, options) = (scheme(&mut drawn.part(99), kind), options(&mut drawn.part(98)));
        let name = format!("{round}: {scheme:?} {options:?}");
        let (net, x) = model(kind, &drawn)?;
        let plain = net.state_dict();
        let shapes: Vec<String> = plain.iter().map(|(name, _)| name.clone()).collect();
        let qat = prepare_qat(&net, &QuantizationConfig::with(scheme), options)?;
        assert!(qat.layers().iter().all(|l| matches!(l.outcome, PreparedOutcome::Prepared { .. })), "{name}\n{qat}");
        assert_eq!(qat.norms(), usize::from(kind == 1 && options.freeze_norms_after.is_some()));
        let target = normal(net.forward(&x)?.shape()?);
        let mut optimizer = Sgd::new(0.05).momentum(0.9).over(net.parameters());
        for _ in 0..5 {
            train(&net, &mut optimizer, &x, &target)?;
        }
        net.eval();
        let fake = net.forward(&x)?.ok()?;
        let bytes = fake.to_bytes()?;
        assert_eq!(net.deep_copy()?.forward(&x)?.to_bytes()?, bytes, "{name}: a copy");
        let copy = net.deep_copy()?;
        let weights = computed(&net);
        let report = convert(&net)?;
        assert!(report.layers.iter().all(|l| matches!(l.outcome, Outcome::Quantized { .. })), "{name}\n{report}");
        for (path, value) in &weights {
            assert!(held_packed(&net, path).detached().to_bytes()? == value.to_bytes()?, "{name}: {path}");
        }
        let codes = net.forward(&x)?.ok()?;
        let (largest, off) = (fake.abs().max().item::<f32>()?, (&fake - &codes).abs().max().item::<f32>()?);
        // A code of a later layer's input may be the next one: its step is a 255th of what came.
        assert!(off <= 0.02 * largest, "{name}: {off} of {largest}");
        convert(&copy)?;
        assert_eq!(copy.forward(&x)?.to_bytes()?, codes.to_bytes()?, "{name}: a converted copy");
        let file = folder.path().join(format!("{round}.safetensors"));
        save_quantized(&net, &file)?;
        let (fresh, _) = model(kind, &drawn)?;
        fresh.eval();
        load_quantized(&fresh, &file)?;
        assert_eq!(fresh.forward(&x)?.to_bytes()?, codes.to_bytes()?, "{name}: read back");
        // Nothing of the training is left.
        let left: Vec<String> =
            net.state_dict().into_iter().map(|(name, _)| name).filter(|name| shapes.iter().all(|s| !name.starts_with(s.as_str()))).collect();
        assert!(left.is_empty(), "{name}: {left:?}");
        refused(convert(&net), &["no layers that were prepared"]);
    }
    Ok(())
}
/// The parameter at a path that holds codes.
fn held_packed(model: &impl Walk, path: &str) -> Param {
    struct Packed<'a>(&'a str, Option<Param>);
    impl adamant_nn::Visit for Packed<'_> {
        fn packed(&mut self, path: &str, param: &Param) {
            if path == self.0 {
                self.1 = Some(param.clone());
            }
        }
    }
    let mut packed = Packed(path, None);
    model.visit(&mut packed);
    packed.1.unwrap()
}

/// A run of 16 steps, killed behind some, if it is: what it comes to, and how many structures its captures have.
fn run(killed_behind: Option<u64>, captured: bool, input: InputScheme, options: QatOptions) -> Result<(Vec<(String, Vec<u8>)>, u64)> {
    let packing = Packing { bits: 4, group: Some(4), symmetric: false };
    let begin = |seed: u64| -> Result<_> {
        manual_seed(seed);
        let net = Sequential::new().add(Linear::new(8, 12)?).add(BatchNorm1d::new(12)?).add(Relu::new()).add(Linear::new(12, 3)?);
        prepare_qat(&net, &weights(packing, input), options)?;
        let optimizer = AdamW::new(0.02).over(net.parameters());
        Ok((net, Mutex::new(optimizer)))
    };
    let (mut net, mut optimizer) = begin(1)?;
    let mut structures = 0;
    let mut from = 0;
    for until in killed_behind.into_iter().chain([16]) {
        if from > 0 {
            let (state, of_optimizer) = (net.state_dict(), optimizer.lock().unwrap().state_dict());
            // Through bytes, as a file would have it.
            let read = |state: &[(String, Tensor)]| -> Result<Vec<(String, Tensor)>> {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("state");
                adamant_formats::safetensors::save(&path, state.to_vec(), &Default::default()).unwrap();
                Ok(adamant_formats::safetensors::load(&path).unwrap())
            };
            let hyperparameters = optimizer.lock().unwrap().hyperparameters();
            (net, optimizer) = begin(99)?;
            net.load_state_dict(&read(&state)?)?;
            let mut optimizer = optimizer.lock().unwrap();
            optimizer.load_state_dict(&read(&of_optimizer)?)?;
            optimizer.set_hyperparameters(&hyperparameters)?;
        }
        let learn = |batch: &[Tensor]| -> Result<Vec<Tensor>> {
            let loss = (net.forward(&batch[0])? - &batch[1]).square().mean(..);
            optimizer.lock().unwrap().step(&loss.backward()?)?;
            Ok(vec![loss])
        };
        let whole = compile(learn);
        for step in from..until {
            let at = |n: usize, k: u64| -> Vec<f32> { (0..n as u64).map(|i| ((i * 37 + step * 11 + k) % 23) as f32 / 9.0 - 1.1).collect() };
            let batch = [Tensor::from_vec(at(40, 0), [5, 8]), Tensor::from_vec(at(15, 5), [5, 3])];
            // The first step of an optimizer that was loaded reads its counts, which no capture does.
            let first = from > 0 && step == from;
            if captured && !first { drop(whole.call(&[&batch[0], &batch[1]])?) } else { drop(learn(&batch)?) }
        }
        structures = whole.captures().structures;
        from = until;
    }
    let mut all = bits(&net.state_dict());
    all.extend(bits(&optimizer.lock().unwrap().state_dict()));
    Ok((all, structures))
}
#[test]
fn a_run_that_was_killed_or_captured_comes_to_the_same_bits() -> Result<()> {
    let ranges = InputScheme::Calibrated(Observation::MovingAverage { rate: 0.1 });
    let all = [None, Some(5)].into_iter().flat_map(|o| [None, Some(8)].into_iter().flat_map(move |n| [false, true].map(|l| (o, n, l))));
    for (k, (freeze_observers_after, freeze_norms_after, learned_steps)) in all.enumerate() {
        let options = QatOptions { freeze_observers_after, freeze_norms_after, learned_steps };
        let input = if k % 4 == 3 { InputScheme::PerToken { symmetric: false } } else { ranges };
        let (eager, _) = run(None, false, input, options)?;
        let (captured, structures) = run(None, true, input, options)?;
        assert!(captured == eager, "{options:?}: captured");
        assert_eq!(structures, 1, "{options:?}: one capture does before and behind every limit");
        for behind in [1, 4, 5, 6, 8, 13] {
            for captured in [false, true] {
                assert!(run(Some(behind), captured, input, options)?.0 == eager, "{options:?}: killed behind {behind}, captured: {captured}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_norm_follows_its_batches_until_it_is_frozen() -> Result<()> {
    for (momentum, affine) in [(Some(0.3), true), (None, true), (Some(0.1), false)] {
        manual_seed(8);
        let norm = || BatchNorm::<1>::with(6, BatchNormOptions { eps: 1e-3, momentum, affine, ..Default::default() });
        let net = Sequential::new().add(Linear::new(4, 6)?).add(norm()?);
        let twin = net.deep_copy()?;
        // It has counted batches before.
        net.forward(&normal([9, 4]))?.to_bytes()?;
        for (own, other) in net.leaves().iter().zip(twin.leaves()) {
            other.1.set(&own.1.detached())?;
        }
        held(&twin, "1.num_batches_tracked").set(&Tensor::full((), 0, DType::I64))?;
        let first = QuantizationConfig::weights(8);
        prepare_qat(&net, &first, QatOptions { freeze_norms_after: Some(3), ..Default::default() })?;
        prepare_qat(&twin, &first, QatOptions::default())?;
        let statistics = |net: &Sequential| ["1.running_mean", "1.running_var"].map(|name| held(net, name).detached());
        let bytes = |all: [Tensor; 2]| all.map(|t| t.to_bytes().unwrap());
        for pass in 0..6 {
            let x = normal([7, 4]) * (1.0 + f64::from(pass));
            let before = statistics(&net);
            let (y, plain) = (net.forward(&x)?.ok()?, twin.forward(&x)?.ok()?);
            if pass < 3 {
                assert_eq!(y.to_bytes()?, plain.to_bytes()?, "pass {pass}");
                assert_eq!(bytes(statistics(&net)), bytes(statistics(&twin)), "pass {pass}");
                continue;
            }
            assert_eq!(bytes(statistics(&net)), bytes(before.clone()), "pass {pass}");
            // The formula, in f64 on the host.
            let input = numbers(&functional::linear(&x, &held_value(&net, "0.weight"), Some(&held(&net, "0.bias").detached())));
            let of = |name: &str, or: f64| if affine { numbers(&held(&net, name).detached()) } else { vec![or; 6] };
            let (mean, var, weight, bias) = (numbers(&before[0]), numbers(&before[1]), of("1.weight", 1.0), of("1.bias", 0.0));
            let want: Vec<f64> = input.iter().enumerate().map(|(k, v)| (v - mean[k % 6]) / (var[k % 6] + 1e-3).sqrt() * weight[k % 6] + bias[k % 6]).collect();
            close(&numbers(&y), &want, &format!("pass {pass}"));
            let grads = y.square().sum(..).backward()?;
            assert!(grads.of(&held(&net, "0.bias").cell()).unwrap().isfinite().all(..).item::<bool>()?);
        }
        net.eval();
        let x = normal([7, 4]);
        let evaluated = net.forward(&x)?.to_bytes()?;
        net.train();
        assert_eq!(net.forward(&x)?.to_bytes()?, evaluated, "what is frozen trains as it evaluates");
        convert(&net)?;
        let before = bytes(statistics(&net));
        net.forward(&(&x * 3.0))?.to_bytes()?;
        assert_ne!(bytes(statistics(&net)), before, "what was converted follows its batches again");
    }
    Ok(())
}
/// The value of a weight that is computed.
fn held_value(model: &impl Walk, path: &str) -> Tensor {
    computed(model).into_iter().find(|(p, _)| p == path).unwrap().1
}

#[test]
fn hooks_and_state_belong_to_one_model_and_go_with_its_fake_quantization() -> Result<()> {
    let net = || Ok::<_, adamant_core::Error>(Sequential::new().add(Linear::new(6, 5)?).add(BatchNorm1d::new(5)?).add(Linear::new(5, 2)?));
    manual_seed(4);
    let (one, x) = (net()?, normal([7, 6]));
    let options = QatOptions { freeze_observers_after: Some(3), freeze_norms_after: Some(2), learned_steps: true };
    prepare_qat(&one, &QuantizationConfig::int8(), options)?;
    one.forward(&x)?.to_bytes()?;
    let (copy, state) = (one.deep_copy()?, bits(&one.state_dict()));
    (0..2).try_for_each(|_| copy.forward(&(&x * 2.0))?.to_bytes().map(drop))?;
    let of_copy = |name: &str| held(&copy, &format!("0.parametrizations.weight.0.{name}")).detached().item::<f32>();
    let seen = of_copy("input_low")?;
    (0..2).try_for_each(|_| copy.forward(&(&x * 9.0))?.to_bytes().map(drop))?;
    assert_eq!((of_copy("input_low")?, bits(&one.state_dict())), (seen, state), "a copy observes for itself, until it has seen enough");
    let low = |net: &Sequential| held(net, "0.parametrizations.weight.0.input_low").detached().item::<f32>();
    assert!(low(&copy)? < low(&one)?, "a copy observes");
    // Without fake quantization there are no hooks, by what means ever it is taken away.
    adamant_quant::remove_qat(&copy)?;
    refused(adamant_quant::remove_qat(&copy), &["no layers that were prepared"]);
    let fresh = net()?;
    fresh.load_state_dict(&copy.state_dict())?;
    assert_eq!(copy.forward(&x)?.to_bytes()?, fresh.forward(&x)?.to_bytes()?);
    for layer in ["0.weight", "2.weight"] {
        adamant_nn::parametrize::remove_parametrizations(&one, layer, false)?;
    }
    let fresh = net()?;
    fresh.load_state_dict(&one.state_dict())?;
    assert_eq!(one.forward(&x)?.to_bytes()?, fresh.forward(&x)?.to_bytes()?);
    assert_eq!(bits(&one.state_dict()), bits(&fresh.state_dict()), "its norms follow their batches again");
    Ok(())
}
#[test]
fn layers_that_share_a_weight_share_its_codes_and_one_range() -> Result<()> {
    #[derive(adamant_nn::Module)]
    struct Twice {
        first: Linear,
        second: Linear,
    }
    impl Module for Twice {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            self.second.forward(&(self.first.forward(x)? * 10.0).relu())
        }
    }
    manual_seed(3);
    let first = Linear::new(6, 6)?;
    let net = Twice { second: Linear::tied(&first.weight)?, first };
    let x = normal([9, 6]);
    let qat = prepare_qat(&net, &QuantizationConfig::int8(), QatOptions::default())?;
    assert_eq!(qat.layers().iter().filter(|l| matches!(&l.outcome, PreparedOutcome::Tied(why) if why.contains("`first`"))).count(), 1, "{qat}");
    let fake = net.forward(&x)?.ok()?;
    fake.to_bytes()?;
    assert_eq!(held(&net, "first.parametrizations.weight.0.observed").detached().item::<i64>()?, 1);
    net.eval();
    let fake = net.forward(&x)?.ok()?;
    fake.to_bytes()?;
    let report = convert(&net)?;
    assert_eq!((report.quantized().count(), report.layers.len()), (1, 2), "{report}");
    assert!(net.first.weight.same(&net.second.weight));
    let codes = net.forward(&x)?;
    assert!((fake - &codes).abs().max().item::<f32>()? <= 0.02 * codes.abs().max().item::<f32>()?);
    Ok(())
}

#[test]
fn what_is_refused_changes_nothing_and_names_the_layer() -> Result<()> {
    let net = || Sequential::new().add(Linear::new(8, 6).unwrap()).add(Relu::new()).add(Linear::new(6, 2).unwrap());
    let check = |config: QuantizationConfig, options: QatOptions, says: &[&str]| {
        let net = net();
        let before = bits(&net.state_dict());
        refused(prepare_qat(&net, &config, options), says);
        assert_eq!(bits(&net.state_dict()), before);
    };
    let none = QatOptions::default();
    check(QuantizationConfig::int8().skip("3"), none, &["`3`", "nearest"]);
    check(QuantizationConfig::weights(5), none, &["`0`", "8, 4 or 3"]);
    check(QuantizationConfig::weights(4).group(Some(8)), none, &["`2`", "no multiple"]);
    check(QuantizationConfig::int8().kinds(&[adamant_quant::LayerKind::Lstm]), none, &["no layer"]);
    check(QuantizationConfig::int8(), QatOptions { freeze_observers_after: Some(0), ..none }, &["`0`", "freeze_observers_after"]);
    let half = LayerScheme::int8(InputScheme::Calibrated(Observation::MovingAverage { rate: 0.0 }));
    check(QuantizationConfig::with(half), none, &["`0`", "rate"]);
    check(QuantizationConfig::weights(4).scales(DType::F16), none, &["`0`", "scales of f32", "f16"]);
    check(QuantizationConfig::weights(4).method(WeightMethod::named("gptq")?), none, &["gptq", "quantize_model"]);
    refused(prepare_qat(&Linear::lazy(3)?, &QuantizationConfig::weights(8), none), &["no value yet", "run the model"]);
    let net = net();
    refused(convert(&net), &["no layers that were prepared", "prepare_qat"]);
    prepare_qat(&net, &QuantizationConfig::int8(), none)?;
    let state = bits(&net.state_dict());
    refused(prepare_qat(&net, &QuantizationConfig::int8(), none), &["`0.weight` was prepared already", "convert"]);
    refused(convert(&net), &["`0`", "no values were seen", "training"]);
    assert_eq!(bits(&net.state_dict()), state);
    net.forward(&normal([3, 8]))?.to_bytes()?;
    let original = held(&net, "2.parametrizations.weight.original");
    original.set(&(original.detached() / 0.0))?;
    let state = bits(&net.state_dict());
    refused(convert(&net), &["`2.weight`", "not finite"]);
    assert_eq!(bits(&net.state_dict()), state);
    original.set(&original.detached().ones_like())?;
    adamant_nn::parametrize::weight_norm(&net, "2.weight", Some(0)).err().unwrap();
    convert(&net)?;
    refused(prepare_qat(&net, &QuantizationConfig::int8(), none), &["holds integer codes already"]);
    refused(quantize_model(&net, &QuantizationConfig::int8_dynamic(), &[]), &["already"]);
    Ok(())
}

/// The digits of `examples/digits`: two thirds to train, the others to judge.
fn digits() -> [(Tensor, Vec<i64>); 2] {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/data/digits.csv.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let rows: Vec<Vec<f32>> = text.lines().map(|line| line.split(',').map(|v| v.trim().parse().unwrap()).collect()).collect();
    [false, true].map(|judged| {
        let part: Vec<&Vec<f32>> = rows.iter().enumerate().filter(|(k, _)| (k % 3 == 0) == judged).map(|(_, row)| row).collect();
        let images: Vec<f32> = part.iter().flat_map(|row| row[..64].iter().map(|v| v / 16.0)).collect();
        (Tensor::from_vec(images, [part.len(), 64]), part.iter().map(|row| row[64] as i64).collect())
    })
}
fn classes(logits: &Tensor) -> Vec<i64> {
    logits.argmax(1).to_vec().unwrap()
}
#[test]
fn digits_by_weights_of_4_bits_and_inputs_of_8_are_read_as_by_floats() -> Result<()> {
    let [(images, labels), (others, truth)] = digits();
    let (rows, labels) = (labels.len(), Tensor::from_vec(labels.clone(), [labels.len()]));
    assert_eq!((rows, truth.len()), (1198, 599));
    let right = |logits: &Tensor| classes(logits).iter().zip(&truth).filter(|(a, b)| a == b).count() as f64 / truth.len() as f64;
    let mut lost = Vec::new();
    for (seed, learned_steps) in [(1, false), (2, false), (3, false), (1, true), (2, true), (3, true)] {
        manual_seed(seed);
        let net = Sequential::new().add(Linear::new(64, 64)?).add(BatchNorm1d::new(64)?).add(Relu::new()).add(Linear::new(64, 10)?);
        let epochs = |net: &Sequential, count: usize, lr: f64| -> Result<()> {
            net.train();
            let mut optimizer = AdamW::new(lr).over(net.parameters());
            for step in 0..count * 12 {
                optimizer.set_lrs(&[lr * (1.0 - step as f64 / (count * 12) as f64)]);
                let at = (step % 12) * 99;
                let logits = net.forward(&images.narrow(0, at, 99))?;
                let loss = functional::cross_entropy(&logits, &labels.narrow(0, at, 99), &Default::default());
                optimizer.step(&loss.backward()?)?;
            }
            net.eval();
            Ok(())
        };
        epochs(&net, 15, 0.01)?;
        let floats = net.deep_copy()?;
        epochs(&floats, 15, 0.005)?;
        let floats = right(&floats.forward(&others)?);
        let scheme = LayerScheme {
            packing: Packing { bits: 4, group: None, symmetric: true },
            scales: DType::F32,
            input: InputScheme::Calibrated(Observation::default()),
        };
        let options = QatOptions { freeze_observers_after: Some(60), freeze_norms_after: Some(120), learned_steps };
        prepare_qat(&net, &QuantizationConfig::with(scheme), options)?;
        epochs(&net, 15, 0.005)?;
        let all = Tensor::cat(&[&images, &others], 0).ok()?;
        let fake = net.forward(&all)?.ok()?;
        let of_fake = classes(&fake);
        let report = convert(&net)?;
        let codes = net.forward(&all)?.ok()?;
        let same = classes(&codes).iter().zip(&of_fake).filter(|(a, b)| a == b).count();
        let (off, largest) = ((&fake - &codes).abs().max().item::<f32>()?, fake.abs().max().item::<f32>()?);
        let judged = right(&codes.narrow(0, rows, truth.len()));
        println!(
            "seed {seed}, learned steps {learned_steps}: {floats:.4} by floats, {judged:.4} by codes, {same} of 1797 alike, logits off {off} of {largest}\n{report}"
        );
        assert!(same as f64 >= 0.9995 * 1797.0, "{same} of 1797");
        assert!(off <= 0.02 * largest, "{off} of {largest}");
        lost.push(floats - judged);
    }
    let mean = lost.iter().sum::<f64>() / lost.len() as f64;
    println!("{mean:.5} lost in the mean of {lost:.4?}");
    assert!(mean <= 0.003, "{lost:?}");
    Ok(())
}
