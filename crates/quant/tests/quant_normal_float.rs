//! NF4: how models hold it, what it is refused for, and adapters over it and over other codes that files of other programs give.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{DType, Result, Tensor, composite::packed::CodeLevels};
use adamant_nn::{Conv2d, Embedding, Flatten, Linear, Lstm, Module, Param, Relu, Sequential, Unflatten, Walk, init, manual_seed};
use adamant_optim::{AdamW, Optimizer, UpdateRule};
use adamant_quant::{
    InputScheme, LayerScheme, Outcome, QuantizationConfig, WeightMethod,
    exchange::{GptqFormat, load_gguf, load_gptq, save_gptq},
    load_quantized,
    lora::{LoraAdapters, LoraConfig},
    quantize_model, save_quantized,
};
use std::path::Path;

fn normal(shape: &[usize]) -> Tensor {
    init::normal(shape, 0.0, 1.0).unwrap()
}
fn nf4() -> QuantizationConfig {
    QuantizationConfig::named("nf4").unwrap()
}
fn bits(model: &impl Walk) -> Vec<(String, Vec<u8>)> {
    model.state_dict().into_iter().map(|(name, t)| (name, t.to_bytes().unwrap())).collect()
}
fn apart(a: &Tensor, b: &Tensor) -> f64 {
    let largest = b.abs().amax(..).item::<f32>().unwrap().max(1e-3);
    f64::from((a - b).abs().amax(..).item::<f32>().unwrap() / largest)
}

#[test]
fn models_of_nf4_are_the_models_of_its_numbers_and_are_read_back_to_the_bit() -> Result<()> {
    manual_seed(3);
    let folder = tempfile::tempdir().unwrap();
    type Made = (fn() -> Result<Sequential>, Tensor);
    let models: [Made; 4] = [
        (|| Ok(Sequential::new().add(Linear::new(64, 96)?).add(Relu::new()).add(Linear::new(96, 8)?)), normal(&[5, 64])),
        (|| Ok(Sequential::new().add(Lstm::new(32, 32)?)), normal(&[3, 4, 32])),
        (|| Ok(Sequential::new().add(Embedding::new(10, 32)?).add(Linear::new(32, 4)?)), Tensor::from_vec(vec![1i64, 9, 0], [3])),
        (
            || Ok(Sequential::new().add(Unflatten::new(1, [2, 8, 8])).add(Conv2d::new(2, 4, 4)?).add(Flatten::new()).add(Linear::new(100, 4)?)),
            normal(&[2, 128]),
        ),
    ];
    for (k, (make, x)) in models.iter().enumerate() {
        for scales in [DType::F32, DType::F16] {
            let model = make()?;
            let report = quantize_model(&model, &nf4().group(Some([32, 32, 32, 4][k])).scales(scales), &[])?;
            assert!(report.quantized().count() > 0);
            let all_named = report.layers.iter().all(|l| matches!(&l.outcome, Outcome::Quantized { method, .. } if method.name == "nf4"));
            assert!(all_named && report.to_string().contains("nf4"), "{report}");
            let y = model.forward(x)?;
            let dense = make()?;
            let numbers: Vec<Param> = model.modules().into_iter().flat_map(|m| m.parameters).filter(|(_, p)| p.packed().is_some()).map(|(_, p)| p).collect();
            assert!(numbers.iter().all(|p| p.packed().unwrap().weight().unwrap().levels() == CodeLevels::NormalFloat));
            let state: Vec<(String, Tensor)> = dense
                .state_dict()
                .into_iter()
                .map(|(name, _)| {
                    let of = model.modules().into_iter().flat_map(|m| {
                        let path = m.path().to_string();
                        m.parameters.into_iter().map(move |(name, p)| (if path.is_empty() { name } else { format!("{path}.{name}") }, p))
                    });
                    let (_, param) = of.into_iter().find(|(n, _)| *n == name).unwrap();
                    (name, param.detached())
                })
                .collect();
            dense.load_state_dict(&state)?;
            assert!(apart(&y, &dense.forward(x)?) < 1e-5, "model {k}: {}", apart(&y, &dense.forward(x)?));
            let file = folder.path().join("model.safetensors");
            save_quantized(&model, &file)?;
            let fresh = make()?;
            load_quantized(&fresh, &file)?;
            assert_eq!(bits(&fresh), bits(&model));
            assert_eq!(fresh.forward(x)?.to_bytes()?, y.to_bytes()?);
        }
    }
    // Four bits and a scale of f16 for each 64.
    let model = Linear::no_bias(256, 256)?;
    quantize_model(&model, &nf4().scales(DType::F16), &[])?;
    assert_eq!(model.memory_usage() * 8, 256 * 256 * 4 + 256 * 4 * 16);
    Ok(())
}
/// Of normal numbers it loses less than even steps do.
#[test]
fn of_normal_numbers_nf4_loses_less() -> Result<()> {
    manual_seed(4);
    let loss = |config: QuantizationConfig| -> Result<f64> {
        manual_seed(5);
        let layer = Linear::no_bias(512, 64)?;
        layer.weight.set(&normal(&[64, 512]))?;
        let before = layer.weight.detached().ok()?;
        before.materialize()?;
        quantize_model(&layer, &config, &[])?;
        Ok(f64::from((layer.weight.detached() - before).square().mean(..).item::<f32>()?))
    };
    let (even, normal) = (loss(QuantizationConfig::weights(4).group(Some(64)))?, loss(nf4())?);
    println!("mean squared error: even steps {even:.5}, NF4 {normal:.5}");
    assert!(normal < 0.85 * even, "{normal} {even}");
    Ok(())
}
#[test]
fn what_nf4_is_refused_for() -> Result<()> {
    let refused = |config: QuantizationConfig, says: &str| {
        let layer = Linear::new(64, 8).unwrap();
        let before = bits(&layer);
        let error = quantize_model(&layer, &config, &[]).expect_err(says);
        assert!(error.to_string().contains(says) && error.to_string().contains("weight`"), "{error}");
        assert!(error.hint_text().is_some(), "{error}");
        assert_eq!(bits(&layer), before);
    };
    refused(nf4().bits(8), "4 bits without zero points");
    refused(nf4().symmetric(false), "4 bits without zero points");
    refused(nf4().group(Some(48)), "groups of 48");
    let scheme = LayerScheme { input: InputScheme::PerToken { symmetric: true }, ..LayerScheme::weights(4) };
    refused(QuantizationConfig::with(scheme).method(WeightMethod::NormalFloat), "inputs do not become codes");
    assert!(WeightMethod::named("nf5").is_err_and(|e| e.hint_text().is_some_and(|h| h.contains("nf4"))));
    let large = Linear::no_bias(64, 8)?;
    large.weight.set(&(normal(&[8, 64]) * 1e6))?;
    let error = quantize_model(&large, &nf4().scales(DType::F16), &[]).unwrap_err().to_string();
    assert!(error.contains("is one that f16 does not hold"), "{error}");
    Ok(())
}

/// Bases that adapters stand on: NF4, a GPTQ folder whose inputs are in an order of their own, codes of GGUF with minima.
fn bases() -> Vec<(&'static str, Linear)> {
    let folder = tempfile::tempdir().unwrap();
    let of = || Linear::no_bias(256, 2).unwrap();
    let normal_float = of();
    quantize_model(&normal_float, &nf4(), &[]).unwrap();
    let even = Linear::no_bias(256, 32).unwrap();
    quantize_model(&even, &QuantizationConfig::weights(4).group(Some(64)).symmetric(false), &[]).unwrap();
    save_gptq(&even, folder.path(), GptqFormat::V1).unwrap();
    let path = folder.path().join("model.safetensors");
    let mut state = adamant_formats::safetensors::load(&path).unwrap();
    let mixed: Vec<i32> = (0..256).map(|k| k * 37 % 256 / 64).collect();
    state.iter_mut().filter(|(name, _)| name == "g_idx").for_each(|(_, t)| *t = Tensor::from_vec(mixed.clone(), [256]));
    adamant_formats::safetensors::save(&path, state, &Default::default()).unwrap();
    let sorted = Linear::no_bias(256, 32).unwrap();
    load_gptq(&sorted, folder.path(), |name| Some(name.into())).unwrap();
    let least = Linear::no_bias(256, 3).unwrap();
    let gguf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/gguf/drawn.gguf");
    load_gguf(&least, gguf, |name| (name == "q4_1").then(|| "weight".into())).unwrap();
    vec![("nf4", normal_float), ("gptq", sorted), ("q4_1", least)]
}
#[test]
fn adapters_over_codes_are_those_over_their_numbers_and_leave_them_as_they_were() -> Result<()> {
    manual_seed(8);
    for (name, layer) in bases() {
        let x = normal(&[6, 256]);
        let before = bits(&layer);
        let dense = Linear::no_bias(256, layer.weight.meta().shape[0])?;
        dense.weight.set(&layer.weight.detached().ok()?)?;
        let config = LoraConfig::new(4, 8.0, [""]);
        let (mut over_codes, over_numbers) = (config.apply(&layer)?, config.apply(&dense)?);
        let pairs = |a: &LoraAdapters, b: &LoraAdapters| a.parameters().into_iter().zip(b.parameters()).collect::<Vec<_>>();
        for (a, b) in pairs(&over_codes, &over_numbers) {
            let value = normal(&a.meta().shape) * 0.3;
            a.set(&value)?;
            b.set(&value)?;
        }
        let (codes, numbers) = (layer.forward(&x)?, dense.forward(&x)?);
        assert!(apart(&codes, &numbers) < 1e-5, "{name}: {}", apart(&codes, &numbers));
        let (of_codes, of_numbers) = (codes.square().mean(..).backward()?, numbers.square().mean(..).backward()?);
        for (a, b) in pairs(&over_codes, &over_numbers) {
            let (got, want) = (of_codes.of(&a.cell()).unwrap(), of_numbers.of(&b.cell()).unwrap());
            assert!(apart(got, want) < 1e-5, "{name}: {}", apart(got, want));
        }
        let target = normal(&[6, layer.weight.meta().shape[0]]);
        let mut optimizer = AdamW::new(1e-2).weight_decay(0.1).over(layer.parameters()).ok()?;
        for _ in 0..200 {
            let loss = (layer.forward(&x)? - &target).square().mean(..);
            optimizer.step(&loss.backward()?)?;
        }
        let y = layer.forward(&x)?.ok()?;
        y.materialize()?;
        over_codes.merge()?;
        assert!(apart(&layer.forward(&x)?, &y) < 1e-5, "{name}: merged");
        over_codes.unmerge()?;
        assert_eq!(layer.forward(&x)?.to_bytes()?, y.to_bytes()?, "{name}: unmerged");
        over_codes.unload()?;
        assert_eq!(bits(&layer), before, "{name}");
    }
    Ok(())
}
