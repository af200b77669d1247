//! Models whose weights become codes: what is stored, that nothing changes where something is refused, that files give the same
//! bits in another model, and what observers find.
use adamant_backend_cpu as _;
use adamant_core::{DType, Result, Tensor, composite::packed::Packing};
use adamant_nn::{Embedding, Linear, Lstm, Module, Param, RecurrentOptions, Relu, Sequential, Walk, init, manual_seed};
use adamant_quant::{
    InputScheme, LayerKind, LayerScheme, Outcome, QuantizationConfig, load_quantized,
    observe::{Observation, Observer, entropy_threshold},
    quantize_dynamic, quantize_model, quantize_model_with, save_quantized,
};

fn normal(shape: impl adamant_core::ToShape) -> Result<Tensor> {
    init::normal(shape, 0.0, 1.0)
}
fn net() -> Result<Sequential> {
    Ok(Sequential::new().add(Linear::new(40, 64)?).add(Relu::new()).add(Linear::new(64, 48)?).add(Relu::new()).add(Linear::new(48, 10)?))
}
fn largest(a: &Tensor, b: &Tensor) -> Result<f32> {
    (a - b).abs().max().item::<f32>()
}
fn bits(model: &impl Walk) -> Result<Vec<(String, Vec<u8>)>> {
    model.state_dict().into_iter().map(|(name, t)| Ok((name, t.to_bytes()?))).collect()
}
fn scheme(packing: Packing, input: InputScheme) -> LayerScheme {
    LayerScheme { packing, scales: DType::F32, input }
}
fn schemes() -> Vec<LayerScheme> {
    let packings = [(8, None), (8, Some(8)), (4, Some(8)), (4, None), (3, Some(8)), (3, None)];
    let inputs = [
        InputScheme::Float,
        InputScheme::PerToken { symmetric: true },
        InputScheme::PerToken { symmetric: false },
        InputScheme::Calibrated(Observation::MinMax),
    ];
    let all = packings.into_iter().flat_map(|p| inputs.map(move |i| (p, i)));
    all.flat_map(|((bits, group), input)| [true, false].map(move |symmetric| scheme(Packing { bits, group, symmetric }, input))).collect()
}

#[test]
fn every_scheme_is_stored_as_codes_and_read_back_to_the_bit_by_a_fresh_model() -> Result<()> {
    manual_seed(7);
    let folder = tempfile::tempdir().unwrap();
    for (k, scheme) in schemes().into_iter().enumerate() {
        let (model, x) = (net()?, normal([33, 40])?);
        let floats = model.forward(&x)?.ok()?;
        floats.to_bytes()?;
        let before = model.memory_usage();
        let report = quantize_model(&model, &QuantizationConfig::with(scheme), std::slice::from_ref(&x))?;
        assert_eq!(report.quantized().count(), 3, "{scheme:?}\n{report}");
        let bytes: usize = model.state_dict().iter().map(|(_, t)| t.try_meta().map(|m| m.bytes())).sum::<Result<usize>>()?;
        assert_eq!((report.before, report.after, model.memory_usage()), (before, bytes, bytes), "{scheme:?}");
        let share = [0.0, 0.0, 0.0, 0.6, 0.3, 0.0, 0.0, 0.0, 0.05][scheme.packing.bits as usize];
        let codes = model.forward(&x)?.ok()?;
        assert!(largest(&codes, &floats)? <= share * floats.abs().max().item::<f32>()?, "{scheme:?}: {}", largest(&codes, &floats)?);
        let file = folder.path().join(format!("{k}.safetensors"));
        save_quantized(&model, &file)?;
        let fresh = net()?;
        load_quantized(&fresh, &file)?;
        assert_eq!(bits(&fresh)?, bits(&model)?, "{scheme:?}");
        assert_eq!(fresh.forward(&x)?.to_bytes()?, codes.to_bytes()?, "{scheme:?}");
        assert_eq!(fresh.deep_copy()?.forward(&x)?.to_bytes()?, codes.to_bytes()?, "{scheme:?}, copied");
        let report = quantize_dynamic(&fresh, &LayerKind::ALL, DType::I8).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(report.contains("already"), "{report}");
    }
    Ok(())
}

#[test]
fn layers_of_every_kind_keep_their_answers_and_tied_ones_share_their_codes() -> Result<()> {
    manual_seed(7);
    let (lstm, x) = (Lstm::with(24, 32, RecurrentOptions { num_layers: 2, bidirectional: true, ..Default::default() })?, normal([7, 3, 24])?);
    let before = lstm.forward(&x)?.ok()?;
    before.to_bytes()?;
    let report = quantize_dynamic(&lstm, &[LayerKind::Linear, LayerKind::Lstm], DType::I8)?;
    assert_eq!(report.quantized().count(), 1);
    assert!(report.ratio() > 3.3, "{report}");
    assert!(largest(&lstm.forward(&x)?, &before)? < 0.02);

    #[derive(adamant_nn::Module)]
    struct Tied {
        table: Embedding,
        read: Linear,
    }
    impl Module for Tied {
        fn forward(&self, ids: &Tensor) -> Result<Tensor> {
            self.read.forward(&self.table.forward(ids)?)
        }
    }
    let table = Embedding::new(50, 16)?;
    let model = Tied { read: Linear::tied(&table.weight)?, table };
    let ids = Tensor::from_vec(vec![3i64, 49, 0, 3], [2, 2]);
    let before = model.forward(&ids)?.ok()?;
    before.to_bytes()?;
    let report = quantize_model_with(&model, &QuantizationConfig::weights(8), || Ok(()))?;
    assert_eq!((report.quantized().count(), report.layers.len()), (1, 2), "{report}");
    assert!(report.layers.iter().any(|l| matches!(&l.outcome, Outcome::Tied(why) if why.contains("table") || why.contains("read"))));
    assert!(model.table.weight.same(&model.read.weight) && model.memory_usage() < 50 * 16 + 50 * 8);
    assert!(largest(&model.forward(&ids)?, &before)? < 0.05 * before.abs().max().item::<f32>()?);
    Ok(())
}

#[test]
fn what_is_refused_changes_nothing_and_names_the_layer() -> Result<()> {
    manual_seed(7);
    let x = normal([8, 40])?;
    let check = |wanted: &str, config: QuantizationConfig, calibration: Vec<Tensor>, spoil: &dyn Fn(&Sequential) -> Result<()>| -> Result<()> {
        let model = net()?;
        spoil(&model)?;
        let before = bits(&model)?;
        let error = quantize_model(&model, &config, &calibration).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains(wanted), "wanted {wanted:?}, got {error:?}");
        assert_eq!(bits(&model)?, before, "{wanted}");
        Ok(())
    };
    let keep = |_: &Sequential| Ok(());
    check("`2`", QuantizationConfig::int8().skip("2x"), vec![x.clone()], &keep)?;
    check("no multiple", QuantizationConfig::weights(4).group(Some(7)), vec![], &keep)?;
    check("8, 4 or 3", QuantizationConfig::weights(5), vec![], &keep)?;
    check("no values were seen", QuantizationConfig::int8(), vec![], &keep)?;
    check("NaN", QuantizationConfig::int8(), vec![x.masked_fill(&x.gt(1.0), f32::NAN)], &keep)?;
    check("`4.weight` holds numbers that are not finite", QuantizationConfig::int8_dynamic(), vec![], &|model| {
        let (_, weight) = &model.named_parameters()[4];
        weight.set(&(weight.detached() / 0.0))
    })?;
    let model = net()?;
    assert!(quantize_dynamic(&model, &[LayerKind::Linear], DType::F32).is_err_and(|e| e.to_string().contains("i8 or u8")));
    Ok(())
}

#[test]
fn a_packed_parameter_is_not_trained_and_says_what_to_do() -> Result<()> {
    manual_seed(7);
    let layer = Linear::new(16, 4)?;
    let weight: Param = layer.weight.clone();
    quantize_dynamic(&layer, &[LayerKind::Linear], DType::I8)?;
    assert_eq!(layer.trainable_parameters().len(), 1);
    assert!(!weight.is_trainable());
    let set = weight.set(&Tensor::zeros([4, 16])).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(set.contains("no gradient") || set.contains("integer codes"), "{set}");
    let mut optimizer = adamant_optim::UpdateRule::over(adamant_optim::Sgd::new(0.1), [weight.clone()]);
    let grads = layer.forward(&normal([5, 16])?)?.sum(..).backward()?;
    let step = adamant_optim::Optimizer::step(&mut optimizer, &grads).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(step.contains("`weight` holds integer codes") && step.contains("lora"), "{step}");
    let x = normal([5, 16])?.tracked();
    let grads = layer.forward(&x)?.sum(..).backward()?;
    let of_x = grads.get(&x).map(|g| g.to_vec::<f32>()).transpose()?.unwrap_or_default();
    let numbers = weight.detached().sum(0).to_vec::<f32>()?;
    assert!(of_x.chunks(16).all(|row| row.iter().zip(&numbers).all(|(a, b)| (a - b).abs() < 1e-5)));
    weight.unpack()?;
    assert_eq!(layer.state_dict().len(), 2);
    assert_eq!(layer.trainable_parameters().len(), 2);
    Ok(())
}

#[test]
fn observers_find_the_ranges_of_plain_computations() -> Result<()> {
    manual_seed(7);
    let values: Vec<f32> = (0..4000).map(|k| ((k * 2_654_435_761u64 % 10_007) as f32 / 10_007.0 - 0.3).powi(3) * 9.0).collect();
    let seen = |how| -> Result<(f64, f64)> {
        let mut observer = Observer::new(how)?;
        values.chunks(100).try_for_each(|some| observer.see(some))?;
        observer.range()
    };
    let (low, high) = values.iter().fold((f32::MAX, f32::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
    assert_eq!(seen(Observation::MinMax)?, (low as f64, high as f64));
    let mut averaged: Option<(f32, f32)> = None;
    for some in values.chunks(100) {
        let (l, h) = some.iter().fold((f32::MAX, f32::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
        averaged = Some(averaged.map_or((l, h), |(x, y)| (x + 0.1 * (l - x), y + 0.1 * (h - y))));
    }
    assert_eq!(Some(seen(Observation::MovingAverage { rate: 0.1 })?), averaged.map(|(l, h)| (l as f64, h as f64)));
    let mut sorted = values.clone();
    sorted.sort_by(f32::total_cmp);
    let (low_cut, high_cut) = seen(Observation::Percentile { percent: 98.0 })?;
    let bin = 2.0 * 4.0 / 8192.0 + 1e-9;
    assert!((low_cut - sorted[40] as f64).abs() <= bin + 0.01 && (high_cut - sorted[3960] as f64).abs() <= bin + 0.01, "{low_cut} {high_cut}");
    // The best of 1,000 thresholds, each tried on the values themselves.
    let error = |(low, high): (f64, f64)| -> f64 {
        let step = (high - low) / 255.0;
        values.iter().map(|v| (*v as f64 - (((*v as f64 - low) / step).round().clamp(0.0, 255.0) * step + low)).powi(2)).sum()
    };
    let outlier: f64 = (1..=1000).map(|k| error((low.min(0.0) as f64 * k as f64 / 1000.0, high as f64 * k as f64 / 1000.0))).fold(f64::INFINITY, f64::min);
    assert!(error(seen(Observation::Mse)?) <= 1.01 * outlier, "{} for {outlier}", error(seen(Observation::Mse)?));
    // A bell with a far outlier: the threshold that loses the least lies far within.
    let mut counts: Vec<f64> = (0..2048).map(|b| (1e6 * (-((b as f64 - 1023.5) / 60.0).powi(2)).exp()).floor()).collect();
    counts[2040] = 3.0;
    let threshold = entropy_threshold(&counts, 128);
    assert!((150..400).contains(&threshold), "{threshold}");
    assert!(Observer::new(Observation::Percentile { percent: 0.0 }).is_err() && Observer::new(Observation::MovingAverage { rate: 0.0 }).is_err());
    assert!(Observer::new(Observation::MinMax)?.range().is_err_and(|e| e.to_string().contains("no values")));
    Ok(())
}

#[test]
fn adapters_over_codes_leave_every_code_and_merged_give_the_same() -> Result<()> {
    use adamant_optim::{AdamW, Optimizer, UpdateRule};
    use adamant_quant::lora::LoraConfig;
    for scheme in [LayerScheme::weights(4), LayerScheme::weights(8), LayerScheme::int8(InputScheme::Float)] {
        manual_seed(5);
        let codes = Sequential::new().add(Linear::new(24, 16)?).add(Relu::new()).add(Linear::new(16, 4)?);
        quantize_model(&codes, &QuantizationConfig::with(scheme), &[])?;
        let x = normal([9, 24])?;
        let held = |model: &Sequential| -> Result<Vec<(String, Vec<u8>)>> {
            Ok(bits(model)?.into_iter().filter(|(n, _)| n.contains("original") || n.ends_with("weight") && !n.contains("lora")).collect())
        };
        let mut adapters = LoraConfig::new(4, 8.0, ["0", "2"]).apply(&codes)?;
        let parameters = adapters.parameters();
        assert_eq!(parameters.len(), 4, "{scheme:?}");
        let before = held(&codes)?;
        assert!(before.iter().any(|(_, b)| !b.is_empty()));
        let mut optimizer = AdamW::new(1e-2).over(codes.trainable_parameters());
        for _ in 0..20 {
            let grads = codes.forward(&x)?.square().mean(..).backward()?;
            optimizer.step(&grads)?;
        }
        assert_eq!(held(&codes)?, before, "{scheme:?}: the codes stay");
        let y = codes.forward(&x)?.ok()?;
        y.to_bytes()?;
        adapters.merge()?;
        let merged = codes.forward(&x)?.ok()?;
        assert!(largest(&merged, &y)? < 1e-4, "{scheme:?}: {}", largest(&merged, &y)?);
    }
    Ok(())
}
