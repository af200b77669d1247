//! Folders of GPTQ and AWQ, packed here bit by bit from drawn codes, give the numbers that their rules say; what was read is written again to the same
//! words; each kind of damage is an error that names the layer and says what to do, after which the model is what it was.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{DType, Result, Tensor};
use adamant_formats::safetensors::{self, SafeTensors};
use adamant_models::{Gpt2Config, Gpt2LmHead, LoadWeights};
use adamant_nn::{Linear, Module, Relu, Sequential, Walk, init, manual_seed};
use adamant_quant::{
    LayerKind, QuantizationConfig,
    exchange::{GptqFormat, load_awq, load_gguf, load_gptq, save_awq, save_gguf, save_gptq},
    load_quantized, quantize_model, save_quantized,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path};

/// What of a format a case has.
#[derive(Clone, Copy, Debug)]
struct Case {
    awq: bool,
    bits: u32,
    columns: usize,
    out: usize,
    group: Option<usize>,
    symmetric: bool,
    act_order: bool,
    v2: bool,
    half: bool,
}
impl Case {
    fn groups(&self) -> usize {
        self.group.map_or(1, |g| self.columns / g)
    }
    fn config(&self) -> Value {
        let group = self.group.map_or(-1, |g| g as i64);
        if self.awq {
            return json!({ "quant_method": "awq", "bits": 4, "group_size": group, "zero_point": true, "version": "gemm" });
        }
        let format = if self.v2 { "gptq_v2" } else { "gptq" };
        json!({ "quant_method": "gptq", "bits": self.bits, "group_size": group, "desc_act": self.act_order, "sym": self.symmetric, "checkpoint_format": format })
    }
}
/// A layer as it stands in a folder, and its numbers `[out, columns]`.
struct Layer {
    tensors: Vec<(&'static str, Tensor)>,
    numbers: Vec<f32>,
}
/// Words whose bits are those of numbers, one behind another.
fn words(numbers: &[u32], bits: u32) -> Vec<u32> {
    let mut all = vec![0u32; numbers.len() * bits as usize / 32];
    for (k, number) in numbers.iter().enumerate() {
        for bit in 0..bits as usize {
            let at = k * bits as usize + bit;
            all[at / 32] |= (number >> bit & 1) << (at % 32);
        }
    }
    all
}
fn matrix(lines: &[Vec<u32>], transposed: bool) -> Tensor {
    let (rows, columns) = (lines.len(), lines[0].len());
    if transposed {
        let all = (0..rows * columns).map(|at| lines[at % rows][at / rows] as i32).collect::<Vec<_>>();
        return Tensor::from_vec(all, [columns, rows]);
    }
    Tensor::from_vec(lines.concat().into_iter().map(|w| w as i32).collect::<Vec<_>>(), [rows, columns])
}
impl Layer {
    fn drawn(case: &Case, random: &mut Random) -> Layer {
        let Case { bits, columns, out, .. } = *case;
        let (groups, most) = (case.groups(), 1u32 << bits);
        let mut group_of: Vec<usize> = (0..columns).map(|i| i * groups / columns).collect();
        if case.act_order {
            (1..columns).rev().for_each(|k| group_of.swap(k, random.below(k + 1)));
        }
        let codes: Vec<Vec<u32>> = (0..out).map(|_| (0..columns).map(|_| random.below(most as usize) as u32).collect()).collect();
        let zeros: Vec<Vec<u32>> =
            (0..groups).map(|_| (0..out).map(|_| if case.symmetric { most / 2 } else { random.below(most as usize) as u32 }).collect()).collect();
        let scales: Vec<f32> = (0..groups * out).map(|_| adamant_core::f16::from_f64(0.01 + random.unit() / 10.0).to_f32()).collect();
        let number = |o: usize, i: usize| (codes[o][i] as f32 - zeros[group_of[i]][o] as f32) * scales[group_of[i] * out + o];
        let numbers = (0..out * columns).map(|at| number(at / columns, at % columns)).collect();
        let scale = Tensor::from_vec(scales, [groups, out]).cast(if case.half { DType::F16 } else { DType::F32 });
        if case.awq {
            // Nibble k of a word is the code of the output that this table names.
            let eight =
                |line: &[u32]| line.chunks(8).map(|c| [0, 2, 4, 6, 1, 3, 5, 7].iter().enumerate().map(|(k, at)| c[*at] << (4 * k)).sum()).collect::<Vec<u32>>();
            let of_inputs: Vec<Vec<u32>> = (0..columns).map(|i| eight(&(0..out).map(|o| codes[o][i]).collect::<Vec<_>>())).collect();
            let of_groups: Vec<Vec<u32>> = zeros.iter().map(|line| eight(line)).collect();
            return Layer { tensors: vec![("qweight", matrix(&of_inputs, false)), ("qzeros", matrix(&of_groups, false)), ("scales", scale)], numbers };
        }
        let stored: Vec<Vec<u32>> =
            zeros.iter().map(|line| words(&line.iter().map(|z| if case.v2 { *z } else { (z + most - 1) % most }).collect::<Vec<_>>(), bits)).collect();
        let of_outputs: Vec<Vec<u32>> = codes.iter().map(|row| words(row, bits)).collect();
        let index = Tensor::from_vec(group_of.iter().map(|g| *g as i32).collect::<Vec<_>>(), [columns]);
        Layer { tensors: vec![("qweight", matrix(&of_outputs, true)), ("qzeros", matrix(&stored, false)), ("scales", scale), ("g_idx", index)], numbers }
    }
}
fn folder_of(place: &Path, tensors: &[(String, Tensor)], config: &Value) {
    fs::create_dir_all(place).unwrap();
    safetensors::save(place.join("model.safetensors"), tensors.to_vec(), &BTreeMap::new()).unwrap();
    fs::write(place.join("config.json"), json!({ "quantization_config": config }).to_string()).unwrap();
}
fn load(case: &Case, model: &impl Walk, place: &Path) -> Result<()> {
    let names = |name: &str| Some(name.to_string());
    if case.awq { load_awq(model, place, names) } else { load_gptq(model, place, names) }
}
fn held(model: &impl Walk) -> Vec<(String, Vec<u8>)> {
    model.state_dict().into_iter().map(|(name, t)| (name, t.to_bytes().unwrap())).collect()
}
fn close(got: &Tensor, want: &Tensor, of: &dyn std::fmt::Debug) {
    let largest = want.abs().amax(..).item::<f32>().unwrap().max(1e-3);
    let off = (got - want).abs().amax(..).item::<f32>().unwrap();
    assert!(off <= 1e-5 * largest, "{of:?}: {off:e} of {largest}");
}
/// All kinds of layers: each value of each option with each of every other.
fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (bits, group) in [(3, None), (3, Some(32)), (4, None), (4, Some(32)), (4, Some(16)), (8, None), (8, Some(64)), (4, Some(128))] {
        for k in 0..16 {
            let [symmetric, act_order, v2, half] = [1, 2, 4, 8].map(|bit| k & bit != 0);
            all.push(Case { awq: false, bits, columns: 128, out: 32, group, symmetric, act_order: act_order && group.is_some_and(|g| g < 128), v2, half });
        }
    }
    for (columns, out, group) in [(24, 8, None), (64, 40, Some(32)), (32, 16, Some(8))] {
        for (symmetric, half) in [(true, true), (false, true), (false, false)] {
            all.push(Case { awq: true, bits: 4, columns, out, group, symmetric, act_order: false, v2: false, half });
        }
    }
    all
}

#[test]
fn drawn_layers_have_the_numbers_of_their_format_and_are_written_again_as_they_were() -> Result<()> {
    manual_seed(1);
    let random = Random::new(28);
    let place = tempfile::tempdir().unwrap();
    for (k, case) in cases().iter().enumerate() {
        let layer = Layer::drawn(case, &mut random.part(k as u64));
        let bias = init::normal([case.out], 0.0, 1.0)?;
        let mut tensors: Vec<(String, Tensor)> = layer.tensors.iter().map(|(part, t)| (format!("0.{part}"), t.clone())).collect();
        tensors.push(("0.bias".into(), bias.clone()));
        folder_of(place.path(), &tensors, &case.config());
        let net = Sequential::new().add(Linear::new(case.columns, case.out)?);
        load(case, &net, place.path())?;
        let want = Tensor::from_vec(layer.numbers, [case.out, case.columns]);
        close(&net.get_submodule("0")?.parameter("weight").unwrap().detached(), &want, case);
        let x = init::normal([3, case.columns], 0.0, 1.0)?;
        let dense = adamant_core::functional::linear(&x, &want, Some(&bias));
        let y = net.forward(&x)?;
        close(&y, &dense, case);
        // Zero points that are all the middle are not stored.
        let parts = net.state_dict().len();
        assert_eq!(parts, 3 + usize::from(!case.symmetric) + usize::from(case.act_order), "{case:?}");
        // Our own file holds it too.
        let own = place.path().join("own.safetensors");
        save_quantized(&net, &own)?;
        let fresh = Sequential::new().add(Linear::new(case.columns, case.out)?);
        load_quantized(&fresh, &own)?;
        assert_eq!(fresh.forward(&x)?.to_bytes()?, y.to_bytes()?, "{case:?}");
        let written = place.path().join("written");
        if case.awq {
            save_awq(&net, &written)?
        } else {
            save_gptq(&net, &written, if case.v2 { GptqFormat::V2 } else { GptqFormat::V1 })?
        }
        let file = SafeTensors::open(written.join("model.safetensors"))?;
        for (name, tensor) in &tensors {
            let again = file.tensor(name, tensor.device()?)?;
            assert!(again.cast(DType::F64).equal(&tensor.cast(DType::F64))?, "{case:?}: `{name}`");
        }
        let config: Value = serde_json::from_slice(&fs::read(written.join("config.json")).unwrap()).unwrap();
        for (field, value) in case.config().as_object().unwrap() {
            assert_eq!(&config["quantization_config"][field], value, "{case:?}: {field}");
        }
    }
    Ok(())
}
/// The gradient of the input is that of the layer of numbers, through columns in another order.
#[test]
fn inputs_have_the_gradient_of_the_numbers() -> Result<()> {
    let case = Case { awq: false, bits: 4, columns: 64, out: 16, group: Some(16), symmetric: false, act_order: true, v2: false, half: true };
    let layer = Layer::drawn(&case, &mut Random::new(4));
    let place = tempfile::tempdir().unwrap();
    let tensors: Vec<(String, Tensor)> = layer.tensors.into_iter().map(|(part, t)| (part.to_string(), t)).collect();
    folder_of(place.path(), &tensors, &case.config());
    let net = Linear::no_bias(64, 16)?;
    load(&case, &net, place.path())?;
    let x = adamant_nn::Param::new(&init::normal([5, 64], 0.0, 1.0)?)?;
    let of = |y: Tensor| -> Result<Tensor> { Ok(y.square().sum(..).backward()?.of(&x.cell()).unwrap().clone()) };
    let numbers = Tensor::from_vec(layer.numbers, [16, 64]);
    close(&of(net.forward(&x.get())?)?, &of(adamant_core::functional::linear(&x.get(), &numbers, None))?, &"gradient");
    Ok(())
}

type Change = Box<dyn Fn(&mut BTreeMap<String, Tensor>, &mut Value)>;
fn put(name: &'static str, f: impl Fn(&Tensor) -> Tensor + 'static) -> Change {
    Box::new(move |all, _| drop(all.insert(name.into(), f(&all[name]))))
}
#[test]
fn damage_that_is_read_or_refused_without_the_layer() -> Result<()> {
    manual_seed(2);
    let place = tempfile::tempdir().unwrap();
    let (gptq, awq) = (
        Case { awq: false, bits: 4, columns: 64, out: 32, group: Some(32), symmetric: false, act_order: true, v2: false, half: true },
        Case { awq: true, bits: 4, columns: 64, out: 32, group: Some(32), symmetric: false, act_order: false, v2: false, half: true },
    );
    let say = |field: &'static str, value: Value| -> Change { Box::new(move |_, config| config[field] = value.clone()) };
    let set = |at: usize, value: i32| {
        move |t: &Tensor| {
            let mut values = t.to_vec::<i32>().unwrap();
            values[at] = value;
            Tensor::from_vec(values, t.shape().unwrap())
        }
    };
    let both: Vec<(Change, &str)> = vec![
        (put("0.qweight", |t| t.narrow(0, 0, 3)), "the layer `0`"),
        (put("0.qweight", |t| t.cast(DType::I64)), "the layer `0`: `qweight` is i32"),
        (put("0.qweight", |t| t.reshape([-1])), "the layer `0`: `qweight` is a matrix"),
        (put("0.qweight", |t| t.narrow(0, 0, 0)), "the layer `0`"),
        (put("0.qzeros", |t| t.narrow(1, 0, 2)), "the layer `0`: `qzeros` have shape"),
        (put("0.scales", |t| t.narrow(0, 0, 1)), "the layer `0`: `scales` have shape"),
        (put("0.scales", |t| t.cast(DType::I32)), "the layer `0`: `scales` are f16"),
        (put("0.scales", |t| t * f64::NAN), "the layer `0`: the scale of group 0 and output 0 is NaN"),
        (put("0.scales", |t| t * f64::INFINITY), "is inf"),
        (put("0.scales", |t| t * -1.0), "the layer `0`: the scale of group 0"),
        (Box::new(|all, _| drop(all.remove("0.scales"))), "the layer `0`"),
        (Box::new(|all, _| drop(all.remove("0.qzeros"))), "the layer `0`"),
        (Box::new(|all, _| drop(all.remove("0.bias"))), "missing: `0.bias`"),
        (Box::new(|all, _| drop(all.insert("2.extra".into(), Tensor::ones([1])))), "`2.extra`"),
        (
            Box::new(|all, _| *all = std::mem::take(all).into_iter().map(|(name, t)| (name.replace("0.", "7."), t)).collect()),
            "codes of `7.weight`, which the model lacks",
        ),
        (Box::new(|all, _| drop(all.insert("0.weight".into(), Tensor::ones([32, 64])))), "`0.weight` has numbers in the file"),
        (say("bits", json!("four")), "`bits` is"),
        (say("bits", json!(2)), "codes have 2 bits"),
        (say("quant_method", json!("bitsandbytes")), "bitsandbytes"),
        (say("group_size", json!(0)), "groups have 0 columns"),
        (say("group_size", json!(48)), "the layer `0`: 64 inputs are no multiple of groups of 48"),
        (say("group_size", json!(16)), "the layer `0`"),
        (say("group_size", Value::Null), "`group_size` is"),
    ];
    let of_gptq: Vec<(Change, &str)> = vec![
        (put("0.g_idx", set(3, 2)), "the layer `0`: `g_idx` of input 3 is 2, and there are groups 0 to 1"),
        (put("0.g_idx", set(3, -1)), "the layer `0`: `g_idx` of input 3 is -1"),
        (put("0.g_idx", |t| t.zeros_like()), "the layer `0`: `g_idx` gives group 0 64 inputs"),
        (put("0.g_idx", |t| t.narrow(0, 0, 63)), "the layer `0`: `g_idx` is i32 [64]"),
        (put("0.g_idx", |t| t.cast(DType::I64)), "the layer `0`: `g_idx` is i32 [64]"),
        (say("checkpoint_format", json!("marlin")), "checkpoint_format is `marlin`"),
    ];
    let of_awq: Vec<(Change, &str)> = vec![(say("version", json!("gemv")), "version is `gemv`")];
    for (case, changes) in [(gptq, both.iter().chain(&of_gptq)), (awq, both.iter().chain(&of_awq))] {
        let layer = Layer::drawn(&case, &mut Random::new(5));
        let mut good: BTreeMap<String, Tensor> = layer.tensors.into_iter().map(|(part, t)| (format!("0.{part}"), t)).collect();
        good.insert("0.bias".into(), Tensor::ones([32]));
        good.insert("2.weight".into(), Tensor::ones([4, 32]));
        good.insert("2.bias".into(), Tensor::ones([4]));
        let model = || Ok::<_, adamant_core::Error>(Sequential::new().add(Linear::new(64, 32)?).add(Relu::new()).add(Linear::new(32, 4)?));
        let net = model()?;
        let before = held(&net);
        for (change, says) in changes {
            let (mut tensors, mut config) = (good.clone(), case.config());
            change(&mut tensors, &mut config);
            folder_of(place.path(), &tensors.into_iter().collect::<Vec<_>>(), &config);
            let error = load(&case, &net, place.path()).expect_err(says);
            let text = error.to_string();
            assert!(text.contains(says), "{case:?}: {text} does not say {says:?}");
            assert!(text.contains("quant_exchange.rs:"), "{text} does not say where");
            let named_by_state_dict = says.contains("missing") || says.contains("extra");
            assert!(named_by_state_dict || error.hint_text().is_some_and(|hint| hint.len() > 10), "{text} has no hint");
            assert_eq!(held(&net), before, "{case:?}: {text}");
        }
        folder_of(place.path(), &good.clone().into_iter().collect::<Vec<_>>(), &case.config());
        let bytes = fs::read(place.path().join("model.safetensors")).unwrap();
        for length in (0..bytes.len()).step_by(97) {
            fs::write(place.path().join("model.safetensors"), &bytes[..length]).unwrap();
            assert!(load(&case, &net, place.path()).is_err());
        }
        fs::write(place.path().join("model.safetensors"), &bytes).unwrap();
        assert_eq!(held(&net), before);
        fs::write(place.path().join("config.json"), "{}").unwrap();
        assert!(load(&case, &net, place.path()).unwrap_err().to_string().contains("quantization_config"));
        // The configuration in the method's own file.
        let own = if case.awq {
            ("quant_config.json", json!({ "w_bit": 4, "q_group_size": 32, "zero_point": true, "version": "GEMM" }))
        } else {
            ("quantize_config.json", case.config())
        };
        fs::write(place.path().join(own.0), own.1.to_string()).unwrap();
        load(&case, &net, place.path())?;
        fs::remove_file(place.path().join(own.0)).unwrap();
        // A model that holds codes already is not read into again.
        folder_of(place.path(), &good.into_iter().collect::<Vec<_>>(), &case.config());
        assert!(load(&case, &net, place.path()).unwrap_err().to_string().contains("holds no numbers that codes could take the place of"));
    }
    Ok(())
}

fn gpt2() -> Gpt2LmHead {
    manual_seed(6);
    let config = Gpt2Config { vocab_size: 40, n_positions: 8, n_embd: 32, n_layer: 2, n_head: 2, ..Default::default() };
    let model = Gpt2LmHead::new(config).unwrap();
    model.eval();
    model
}
/// Codes of a network of transformers, whose weights are transposed, whose head is tied and whose names have a prefix, in shards.
#[test]
fn a_gpt2_of_codes_answers_as_that_of_their_numbers() -> Result<()> {
    let (model, dense) = (gpt2(), gpt2());
    let place = tempfile::tempdir().unwrap();
    let case = Case { awq: false, bits: 4, columns: 32, out: 0, group: Some(16), symmetric: false, act_order: true, v2: false, half: true };
    let (mut tensors, mut numbers) = (Vec::new(), model.state_dict());
    for (k, (name, value)) in numbers.iter_mut().enumerate() {
        if name == "lm_head.weight" {
            continue;
        }
        let of_codes = name.contains(".c_") && name.ends_with("weight");
        if !of_codes {
            tensors.push((name.clone(), value.clone()));
            continue;
        }
        let [columns, out] = value.dims()?;
        let layer = Layer::drawn(&Case { columns, out, ..case }, &mut Random::new(k as u64));
        tensors.extend(layer.tensors.into_iter().map(|(part, t)| (format!("{}{part}", name.strip_suffix("weight").unwrap()), t)));
        *value = Tensor::from_vec(layer.numbers, [out, columns]).mt() * 0.1;
    }
    // A tenth: the network stays tame.
    for (name, tensor) in &mut tensors {
        if name.ends_with("scales") {
            *tensor = (tensor.cast(DType::F32) * 0.1).ok()?;
        }
    }
    dense.load_state_dict(&numbers)?;
    let (first, second): (Vec<_>, Vec<_>) = tensors.into_iter().partition(|(name, _)| name.contains(".h.0."));
    let mut map = serde_json::Map::new();
    for (shard, tensors) in [("model-00001-of-00002.safetensors", first), ("model-00002-of-00002.safetensors", second)] {
        map.extend(tensors.iter().map(|(name, _)| (name.clone(), json!(shard))));
        safetensors::save(place.path().join(shard), tensors, &BTreeMap::new())?;
    }
    fs::write(place.path().join("model.safetensors.index.json"), json!({ "weight_map": map }).to_string()).unwrap();
    fs::write(place.path().join("quantize_config.json"), case.config().to_string()).unwrap();
    let own = |model: &Gpt2LmHead| model.naming().own_names(model.state_dict().into_iter().map(|(name, _)| name));
    load_gptq(&model, place.path(), own(&model))?;
    let ids = Tensor::from_vec(vec![3i64, 1, 39, 0, 7, 12], [2, 3]);
    let want = dense.forward(&ids)?;
    close(&model.forward(&ids)?, &want, &"gptq");
    // As one of our files, and as a folder again.
    let file = place.path().join("own.safetensors");
    save_quantized(&model, &file)?;
    let again = gpt2();
    load_quantized(&again, &file)?;
    assert_eq!(again.forward(&ids)?.to_bytes()?, model.forward(&ids)?.to_bytes()?);
    let written = place.path().join("written");
    save_gptq(&model, &written, GptqFormat::V2)?;
    let again = gpt2();
    load_gptq(&again, &written, own(&again))?;
    assert_eq!(again.forward(&ids)?.to_bytes()?, model.forward(&ids)?.to_bytes()?);
    assert!(again.memory_usage() < dense.memory_usage() / 2, "{} of {}", again.memory_usage(), dense.memory_usage());
    Ok(())
}
#[test]
fn models_that_a_format_has_no_place_for() -> Result<()> {
    let place = tempfile::tempdir().unwrap();
    let refused = |result: Result<()>, says: &str| {
        let error = result.expect_err(says);
        assert!(error.to_string().contains(says) && error.to_string().contains("quant_exchange.rs:"), "{error} does not say {says:?}");
        assert!(error.hint_text().is_some(), "{error}");
        assert!(!place.path().join("model.safetensors").exists());
    };
    let of = |config: &QuantizationConfig| {
        let net = Sequential::new().add(Linear::new(64, 32)?).add(Linear::new(32, 32)?);
        quantize_model(&net, config, &[])?;
        Ok::<_, adamant_core::Error>(net)
    };
    refused(save_gptq(&Linear::new(32, 32)?, place.path(), GptqFormat::V1), "no weights of codes");
    refused(save_gptq(&of(&QuantizationConfig::int8_dynamic())?, place.path(), GptqFormat::V1), "`0.weight` has inputs that become codes");
    let mixed = QuantizationConfig::weights(4).layers("1", adamant_quant::LayerScheme::weights(8));
    refused(save_gptq(&of(&mixed)?, place.path(), GptqFormat::V1), "the weight `1.weight`: it has 8 bits");
    refused(save_awq(&of(&QuantizationConfig::weights(8))?, place.path()), "the weight `0.weight`: it has codes of 8 bits");
    refused(
        save_gptq(&of(&QuantizationConfig::named("nf4")?.group(Some(32)))?, place.path(), GptqFormat::V1),
        "the weight `0.weight`: its codes are not evenly spaced",
    );
    let odd = Linear::new(60, 7)?;
    quantize_model(&odd, &QuantizationConfig::weights(4), &[])?;
    refused(save_gptq(&odd, place.path(), GptqFormat::V1), "do not fill words");
    refused(save_awq(&odd, place.path()), "do not fill words");
    let table = adamant_nn::Embedding::new(32, 32)?;
    quantize_model(&table, &QuantizationConfig::weights(4).kinds(&[LayerKind::Embedding]), &[])?;
    refused(save_gptq(&table, place.path(), GptqFormat::V1), "no weight of a linear layer");
    Ok(())
}

/// The file that `gguf` wrote, into layers: their answers are those of its numbers.
#[test]
fn codes_of_gguf_are_multiplied_as_their_numbers() -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/gguf/drawn.gguf");
    let file = adamant_formats::gguf::Gguf::open(&path)?;
    let place = tempfile::tempdir().unwrap();
    for (name, rows, columns) in [("q8_0", 3, 256), ("q4_0", 3, 256), ("q4_1", 3, 256), ("q4_k", 2, 512), ("q6_k", 2, 512)] {
        let layer = Linear::no_bias(columns, rows)?;
        load_gguf(&layer, &path, |found| (found == name).then(|| "weight".to_string()))?;
        let numbers = file.tensor(&format!("{name}.numbers"), adamant_core::Device::current()?)?;
        for x in [init::normal([3, columns], 0.0, 1.0)?, init::normal([2, 5, columns], 1.0, 1.0)?] {
            let want = adamant_core::functional::linear(&x, &numbers, None);
            close(&layer.forward(&x)?, &want, &name);
            let half = layer.forward(&x.cast(DType::F16))?;
            assert_eq!(half.dtype()?, DType::F16);
            let off = (half.cast(DType::F32) - &want).abs().amax(..).item::<f32>()? / want.abs().amax(..).item::<f32>()?;
            assert!(off < 3e-3, "{name} of f16: {off}");
        }
        let own = place.path().join("own.safetensors");
        save_quantized(&layer, &own)?;
        let fresh = Linear::no_bias(columns, rows)?;
        load_quantized(&fresh, &own)?;
        let x = init::normal([3, columns], 0.0, 1.0)?;
        assert_eq!(fresh.forward(&x)?.to_bytes()?, layer.forward(&x)?.to_bytes()?);
        let table = adamant_nn::Embedding::new(rows, columns)?;
        load_gguf(&table, &path, |found| (found == name).then(|| "weight".to_string()))?;
        close(&table.forward(&Tensor::from_vec(vec![1i64, 0], [2]))?, &numbers.index_select(0, &Tensor::from_vec(vec![1i64, 0], [2])), &name);
    }
    let layer = Linear::no_bias(256, 2)?;
    let before = held(&layer);
    for (name, says) in [("q8_0", "has shape [3, 256] in the file and [2, 256]"), ("nothing", "no tensor that is one of the model's")] {
        let error = load_gguf(&layer, &path, |found| (found == name).then(|| "weight".to_string())).unwrap_err();
        assert!(error.to_string().contains(says) && error.hint_text().is_some(), "{error}");
    }
    let error = load_gguf(&layer, &path, |found| (found == "q4_k").then(|| "wieght".to_string())).unwrap_err();
    assert!(error.to_string().contains("wieght") && error.hint_text().is_some_and(|h| h.contains("`weight`")), "{error}");
    assert_eq!(held(&layer), before);
    Ok(())
}
/// A GPT-2 under llama.cpp's names.
#[test]
fn a_gpt2_goes_through_gguf() -> Result<()> {
    let model = gpt2();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("gpt2.gguf");
    let scheme = QuantizationConfig::weights(8).group(Some(32)).scales(DType::F16).kinds(&[LayerKind::Embedding]).skip("*wpe");
    adamant_quant::quantize_model_with(&model, &scheme, || Ok(()))?;
    let back = |name: &str| adamant_models::gguf::gpt2_name_in_file(name);
    save_gguf(&model, &path, &[("general.architecture".into(), adamant_formats::gguf::GgufValue::Text("gpt2".into()))], back)?;
    let file = adamant_formats::gguf::Gguf::open(&path)?;
    for (name, shape) in
        [("blk.1.attn_qkv.weight", vec![96, 32]), ("blk.0.ffn_down.weight", vec![32, 128]), ("token_embd.weight", vec![40, 32]), ("output_norm.bias", vec![32])]
    {
        assert_eq!(file.tensors()[name].shape.to_vec(), shape, "{name}");
    }
    let again = gpt2();
    for (_, param) in again.named_parameters() {
        param.set(&(param.detached() * 0.0))?;
    }
    load_gguf(&again, &path, adamant_models::gguf::gpt2_name)?;
    let ids = Tensor::from_vec(vec![3i64, 1, 39, 0, 7, 12], [2, 3]);
    assert_eq!(again.forward(&ids)?.to_bytes()?, model.forward(&ids)?.to_bytes()?);
    Ok(())
}
