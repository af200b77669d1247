//! Adapters against the plain formula, over training, in files, and where they are refused.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{Grads, Result, Tensor, compile, functional};
use adamant_nn::{Conv2d, Dropout, Embedding, LayerNorm, Linear, Module, Param, Relu, Sequential, Walk, init, manual_seed};
use adamant_optim::{AdamW, Optimizer, Sgd, UpdateRule};
use adamant_quant::lora::{LoraAdapters, LoraBias, LoraConfig};

#[derive(Module)]
struct Block {
    q_proj: Linear,
    v_proj: Linear,
    norm: LayerNorm,
}
#[derive(Module)]
struct Net {
    blocks: Vec<Block>,
    head: Linear,
}
impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for block in &self.blocks {
            let y = block.norm.forward(&x)?;
            x = x + block.q_proj.forward(&y)?.tanh() * block.v_proj.forward(&y)?;
        }
        self.head.forward(&x)
    }
}
fn net() -> Net {
    manual_seed(3);
    let block = || Ok::<_, adamant_core::Error>(Block { q_proj: Linear::new(8, 8)?, v_proj: Linear::no_bias(8, 8)?, norm: LayerNorm::new([8])? });
    Net { blocks: vec![block().unwrap(), block().unwrap()], head: Linear::new(8, 3).unwrap() }
}
fn drawn(shape: impl adamant_core::ToShape) -> Tensor {
    init::normal(shape, 0.0, 1.0).unwrap()
}
fn differ(a: &Tensor, b: &Tensor) -> f64 {
    (a - b).abs().amax(..).item::<f32>().unwrap().into()
}
fn read(t: Tensor) -> Result<Tensor> {
    t.materialize()?;
    Ok(t)
}
fn of(grads: &Grads, p: &Param) -> Tensor {
    grads.of(&p.cell()).unwrap().clone()
}
fn bits(model: &impl Walk) -> Vec<(String, Vec<u8>)> {
    model.state_dict().into_iter().map(|(name, t)| (name, t.to_bytes().unwrap())).collect()
}
/// B starts as zeros, which hides A: both get numbers.
fn stir(adapters: &LoraAdapters) {
    for p in adapters.parameters() {
        p.set(&(drawn(p.meta().shape) * 0.3)).unwrap();
    }
}
fn refused<T>(result: Result<T>, says: &[&str]) {
    let text = result.err().unwrap().to_string();
    for part in says {
        assert!(text.contains(part), "{text} lacks {part}");
    }
}

#[test]
fn gradients_of_a_and_b_are_those_of_the_plain_formula() {
    manual_seed(1);
    let layer = Linear::new(5, 4).unwrap();
    let base = layer.weight.detached();
    let adapters = LoraConfig::new(2, 3.0, [""]).apply(&layer).unwrap();
    stir(&adapters);
    let all = adapters.parameters();
    let (a, b) = (Param::new(&all[0].detached()).unwrap(), Param::new(&all[1].detached()).unwrap());
    let x = drawn([6, 5]);
    let plain = functional::linear(&x, &(&base + b.get().matmul(a.get()) * 1.5), Some(&layer.bias.as_ref().unwrap().detached()));
    let y = layer.forward(&x).unwrap();
    assert!(differ(&y, &plain) < 1e-5);
    let (got, want) = (y.square().sum(..).backward().unwrap(), plain.square().sum(..).backward().unwrap());
    let worst = differ(&of(&got, &all[0]), &of(&want, &a)).max(differ(&of(&got, &all[1]), &of(&want, &b)));
    println!("linear: gradients differ by {worst:e}");
    assert!(worst < 2e-4, "{worst}");
    // The weight as it is read from outside, with its gradients, is the same formula.
    let outside = layer.weight.get();
    assert!(differ(&outside, &(&base + b.get().matmul(a.get()) * 1.5)) < 1e-6);
    let got = outside.square().sum(..).backward().unwrap();
    let want = (&base + b.get().matmul(a.get()) * 1.5).square().sum(..).backward().unwrap();
    assert!(differ(&of(&got, &all[0]), &of(&want, &a)) < 1e-4);
}
#[test]
fn kernels_and_tables_have_adapters_of_pefts_shapes() {
    manual_seed(2);
    let (conv, table) = (Conv2d::new(3, 4, 3).unwrap(), Embedding::new(7, 5).unwrap());
    let (kernel, rows) = (conv.weight.detached(), table.weight.detached());
    let (of_conv, of_table) = (LoraConfig::new(2, 2.0, [""]).apply(&conv).unwrap(), LoraConfig::new(2, 2.0, [""]).apply(&table).unwrap());
    let x = drawn([2, 3, 6, 6]);
    // What PEFT computes: a convolution to r channels and one of 1 x 1 behind it.
    let plain = functional::conv2d(&x, &kernel, Some(&conv.bias.as_ref().unwrap().detached()), &Default::default());
    assert!(differ(&conv.forward(&x).unwrap(), &plain) < 1e-6, "an adapter starts as nothing");
    stir(&of_conv);
    let p = of_conv.parameters();
    assert_eq!((p[0].meta().shape.to_vec(), p[1].meta().shape.to_vec()), (vec![2, 3, 3, 3], vec![4, 2, 1, 1]));
    let thin = functional::conv2d(&x, &p[0].get(), None, &Default::default());
    let plain = plain + functional::conv2d(&thin, &p[1].get(), None, &Default::default());
    let y = conv.forward(&x).unwrap();
    assert!(differ(&y, &plain) < 1e-4);
    let (got, want) = (y.square().mean(..).backward().unwrap(), plain.square().mean(..).backward().unwrap());
    assert!(differ(&of(&got, &p[0]), &of(&want, &p[0])) < 1e-4);
    assert!(differ(&of(&got, &p[1]), &of(&want, &p[1])) < 1e-4);
    stir(&of_table);
    let p = of_table.parameters();
    let ids = Tensor::from_slice(&[1i64, 6, 1], [3]);
    let plain = functional::embedding(&ids, &rows, None) + functional::embedding(&ids, &p[0].get().transpose(0, 1), None).matmul(p[1].get().transpose(0, 1));
    assert!(differ(&table.forward(&ids).unwrap(), &plain) < 1e-5);
    assert_eq!(of_table.state_dict()[1].0, "base_model.model.lora_embedding_B");
}
#[test]
fn the_base_keeps_its_bits_over_200_steps() {
    let model = net();
    let before = bits(&model);
    let adapters = LoraConfig::new(2, 4.0, ["*_proj"]).apply(&model).unwrap();
    // All parameters, frozen ones too, under weight decay: what is frozen has no gradient.
    let mut optimizer = AdamW::new(1e-2).weight_decay(0.1).over(model.parameters()).ok().unwrap();
    let (x, target) = (drawn([16, 8]), drawn([16, 3]));
    let mut losses = Vec::new();
    for _ in 0..200 {
        let loss = (model.forward(&x).unwrap() - &target).square().mean(..);
        losses.push(loss.item::<f32>().unwrap());
        optimizer.step(&loss.backward().unwrap()).unwrap();
    }
    println!("loss {} -> {}", losses[0], losses[199]);
    assert!(losses[199] < 0.7 * losses[0]);
    let after = bits(&model);
    for (name, value) in &before {
        let now = name.replace("_proj.weight", "_proj.parametrizations.weight.original");
        assert_eq!(&after.iter().find(|(n, _)| *n == now).unwrap().1, value, "{name}");
    }
    adapters.unload().unwrap();
    assert_eq!(bits(&model), before);
    assert_eq!(model.trainable_parameters().len(), model.parameters().len());
}
#[test]
fn merged_is_unmerged_and_back_to_the_bit() {
    let model = net();
    let before = bits(&model);
    let mut adapters = LoraConfig::new(4, 4.0, ["all-linear"]).apply(&model).unwrap();
    assert_eq!(adapters.modules(), ["blocks.0.q_proj", "blocks.0.v_proj", "blocks.1.q_proj", "blocks.1.v_proj", "head"]);
    stir(&adapters);
    let x = drawn([10, 8]);
    let unmerged = model.forward(&x).and_then(read).unwrap();
    adapters.merge().unwrap();
    assert_eq!(bits(&model).iter().map(|(n, _)| n).collect::<Vec<_>>(), before.iter().map(|(n, _)| n).collect::<Vec<_>>());
    let merged = model.forward(&x).and_then(read).unwrap();
    let scale: f32 = unmerged.abs().amax(..).item().unwrap();
    println!("merged differs by {:e}, outputs up to {scale}", differ(&merged, &unmerged));
    assert!(differ(&merged, &unmerged) < 1e-5 * f64::from(scale.max(1.0)));
    refused(adapters.merge(), &["merged already"]);
    adapters.unmerge().unwrap();
    assert_eq!(differ(&model.forward(&x).unwrap(), &unmerged), 0.0);
    for (name, value) in before {
        let now = if name.ends_with("weight") && !name.contains("norm") { name.replace(".weight", ".parametrizations.weight.original") } else { name };
        assert!(bits(&model).contains(&(now.clone(), value)), "{now}");
    }
    adapters.merge_and_unload().unwrap();
    assert!(differ(&model.forward(&x).unwrap(), &merged) < 1e-6);
}
#[test]
fn dropout_is_of_the_layers_input_and_only_in_training() {
    manual_seed(5);
    let layer = Linear::no_bias(16, 4).unwrap();
    let base = layer.weight.detached();
    let adapters = LoraConfig { dropout: 0.5, ..LoraConfig::new(2, 2.0, [""]) }.apply(&layer).unwrap();
    stir(&adapters);
    let p = adapters.parameters();
    let x = drawn([8, 16]);
    manual_seed(9);
    let y = layer.forward(&x).and_then(read).unwrap();
    manual_seed(9);
    let dropped = Dropout::new(0.5).unwrap().forward(&x).unwrap();
    let formula = |x_a: &Tensor| functional::linear(&x, &base, None) + functional::linear(&functional::linear(x_a, &p[0].get(), None), &p[1].get(), None);
    assert!(differ(&y, &formula(&dropped)) < 1e-5);
    assert!(differ(&y, &formula(&x)) > 0.1);
    // A copy has no hooks: it computes, and refuses what it cannot.
    let copy = layer.deep_copy().unwrap();
    refused(copy.forward(&x), &["weight", "dropout", "deep copy"]);
    layer.eval();
    copy.eval();
    assert!(differ(&layer.forward(&x).unwrap(), &formula(&x)) < 1e-5);
    assert!(differ(&copy.forward(&x).unwrap(), &formula(&x)) < 1e-5);
    let mixed = Sequential::new().add(Conv2d::new(1, 1, 1).unwrap()).add(Linear::new(2, 2).unwrap());
    refused(LoraConfig { dropout: 0.1, ..LoraConfig::new(2, 2.0, ["*"]) }.apply(&mixed), &["`0`", "Conv2d", "dropout"]);
    assert_eq!(mixed.trainable_parameters().len(), 4, "a refusal changes nothing");
}
#[test]
fn targets_that_mean_nothing_are_told_with_the_nearest() {
    let model = net();
    refused(LoraConfig::new(2, 2.0, ["q_prj"]).apply(&model), &["`q_prj`", "q_proj"]);
    refused(LoraConfig::new(2, 2.0, ["blocks.?.norm"]).apply(&model), &["blocks.0.norm", "LayerNorm"]);
    refused(LoraConfig::new(0, 2.0, ["q_proj"]).apply(&model), &["rank is 0"]);
    refused(LoraConfig { dropout: 1.0, ..LoraConfig::new(2, 2.0, ["*"]) }.apply(&model), &["dropout is 1"]);
    assert_eq!(LoraConfig::new(2, 2.0, ["blocks.0*"]).apply(&model).unwrap().modules(), ["blocks.0.q_proj", "blocks.0.v_proj"]);
    refused(LoraConfig::new(2, 2.0, ["q_proj"]).apply(&model), &["blocks.0.q_proj.weight", "computed"]);
    refused(LoraConfig::new(2, 2.0, ["*"]).apply(&Linear::lazy(3).unwrap()), &["no value yet"]);
}
#[derive(Module)]
struct TiedNet {
    table: Embedding,
    fc: Linear,
    head: Linear,
}
#[test]
fn a_tied_weight_is_adapted_in_all_its_places_or_refused() {
    manual_seed(4);
    let table = Embedding::new(6, 4).unwrap();
    let head = Linear::tied(&table.weight).unwrap();
    let net = TiedNet { table, fc: Linear::new(4, 4).unwrap(), head };
    refused(LoraConfig::new(2, 2.0, ["head"]).apply(&net), &["head.weight", "`table.weight`"]);
    assert_eq!(LoraConfig::new(2, 2.0, ["fc"]).apply(&net).unwrap().parameters().len(), 2);
    assert_eq!(net.trainable_parameters().len(), 2, "what was adapted alone is all that is trained");
    refused(LoraConfig { dropout: 0.5, ..LoraConfig::new(2, 2.0, ["table", "head"]) }.apply(&net), &["`head.weight`", "table.weight", "dropout"]);
    let mut adapters = LoraConfig::new(2, 2.0, ["table", "head"]).apply(&net).unwrap();
    assert_eq!((adapters.modules(), adapters.parameters().len()), (vec!["table".to_string(), "head".to_string()], 2));
    stir(&adapters);
    let ids = Tensor::from_slice(&[0i64, 3], [2]);
    let run = || net.head.forward(&net.table.forward(&ids).unwrap()).and_then(read).unwrap();
    let (unmerged, weight) = (run(), net.table.weight.detached());
    let by_hand = functional::linear(&functional::embedding(&ids, &weight, None), &weight, None);
    assert!(differ(&unmerged, &by_hand) < 1e-5);
    adapters.merge().unwrap();
    assert!(net.table.weight.same(&net.head.weight));
    assert!(differ(&unmerged, &run()) < 1e-5);
}
#[test]
fn biases_are_trained_by_pefts_names() {
    for (bias, trained) in [(LoraBias::None, 2), (LoraBias::LoraOnly, 4), (LoraBias::All, 7)] {
        let model = net();
        let adapters = LoraConfig { bias, ..LoraConfig::new(2, 2.0, ["q_proj"]) }.apply(&model).unwrap();
        assert_eq!(adapters.parameters().len() - 2, trained, "{bias:?}");
        assert_eq!(model.trainable_parameters().len(), trained + 2, "{bias:?}");
    }
}
#[test]
fn files_are_pefts_and_come_back() {
    let (folder, model, other) = (tempfile::tempdir().unwrap(), net(), net());
    let config = LoraConfig { bias: LoraBias::LoraOnly, dropout: 0.25, ..LoraConfig::new(3, 6.0, ["blocks.*.?_proj"]) };
    let adapters = config.apply(&model).unwrap();
    stir(&adapters);
    adapters.save(folder.path()).unwrap();
    let file = adamant_formats::safetensors::SafeTensors::open(folder.path().join("adapter_model.safetensors")).unwrap();
    let names = file.names();
    assert!(names.contains(&"base_model.model.blocks.0.q_proj.lora_A.weight".to_string()) && names.len() == 10, "{names:?}");
    assert_eq!(&*file.meta("base_model.model.blocks.1.v_proj.lora_B.weight").unwrap().1, [8, 3]);
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.path().join("adapter_config.json")).unwrap()).unwrap();
    for (key, value) in [
        ("peft_type", serde_json::json!("LORA")),
        ("r", 3.into()),
        ("lora_alpha", 6.into()),
        ("lora_dropout", 0.25.into()),
        ("bias", "lora_only".into()),
        ("fan_in_fan_out", false.into()),
        ("target_modules", serde_json::json!(["blocks.0.q_proj", "blocks.0.v_proj", "blocks.1.q_proj", "blocks.1.v_proj"])),
    ] {
        assert_eq!(json[key], value, "{key}");
    }
    let loaded = LoraAdapters::load(&other, folder.path()).unwrap();
    assert_eq!((loaded.config().r, loaded.config().alpha, loaded.config().dropout), (3, 6.0, 0.25));
    model.eval();
    other.eval();
    let x = drawn([4, 8]);
    assert_eq!(differ(&model.forward(&x).unwrap(), &other.forward(&x).unwrap()), 0.0);
    // A state dict of a living model of PEFT: with the adapter's name, and without the biases of adapted layers.
    let living = adapters.state_dict().into_iter().filter(|(name, _)| !name.ends_with("bias"));
    let living: Vec<(String, Tensor)> = living.map(|(name, t)| (name.replace(".weight", ".default.weight"), t * 2.0)).collect();
    loaded.load_state_dict(&living).unwrap();
    assert_eq!(loaded.state_dict()[0].1.to_vec::<f32>().unwrap(), (adapters.state_dict()[0].1.clone() * 2.0).to_vec::<f32>().unwrap());
    refused(loaded.load_state_dict(&[("base_model.model.blocks.0.q_proj.lora_C.weight".into(), x)]), &["lora_C", "nearest", "lora_A"]);
}
#[test]
fn files_that_do_not_fit_are_told() {
    let (folder, model) = (tempfile::tempdir().unwrap(), net());
    let a = |r: usize| Tensor::ones([r, 8]);
    let b = Tensor::ones([8, 2]);
    let name = |module: &str, letter: &str| format!("base_model.model.{module}.lora_{letter}.weight");
    let check = |config: serde_json::Value, tensors: Vec<(String, Tensor)>, says: &[&str]| {
        std::fs::write(folder.path().join("adapter_config.json"), config.to_string()).unwrap();
        adamant_formats::safetensors::save(folder.path().join("adapter_model.safetensors"), tensors, &Default::default()).unwrap();
        let before = bits(&model);
        refused(LoraAdapters::load(&model, folder.path()), says);
        assert_eq!(bits(&model), before);
        assert_eq!(model.trainable_parameters().len(), 12);
    };
    let config = serde_json::json!({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ".*q_proj", "unknown": [1]});
    let with = |key: &str, value: serde_json::Value| {
        let mut config = config.clone();
        config[key] = value;
        config
    };
    let (q, other) = ("blocks.0.q_proj", "blocks.0.q_proi");
    let whole = || vec![(name(q, "A"), a(2)), (name(q, "B"), b.clone())];
    check(with("peft_type", "IA3".into()), whole(), &["IA3"]);
    check(with("use_dora", true.into()), whole(), &["use_dora"]);
    check(with("rank_pattern", serde_json::json!({"q_proj": 4})), whole(), &["rank_pattern"]);
    check(config.clone(), vec![(name(other, "A"), a(2)), (name(other, "B"), b.clone())], &[other, "nearest", q]);
    check(config.clone(), vec![(name(q, "A"), a(2))], &["lora_B.weight` is missing"]);
    check(config.clone(), vec![(name(q, "A"), a(3)), (name(q, "B"), b.clone())], &["shape [3, 8]", "[2, 8]"]);
    for rank in [0, 3, 1 << 40, u64::MAX] {
        check(with("r", rank.into()), whole(), &["rank"]);
        check(with("r", rank.into()), vec![(name(q, "B"), b.clone())], &["rank"]);
    }
    check(config.clone(), vec![("q_proj.lora_A.weight".into(), a(2))], &["base_model.model."]);
    check(config.clone(), vec![(name("blocks.0.norm", "A"), a(2))], &["blocks.0.norm", "LayerNorm"]);
}
#[test]
fn a_captured_step_trains_adapters_as_an_eager_one() {
    let run = |captured: bool| {
        let model = net();
        LoraConfig::new(2, 4.0, ["*_proj"]).apply(&model).unwrap();
        let mut optimizer = Sgd::new(0.1).momentum(0.9).over(model.trainable_parameters()).ok().unwrap();
        manual_seed(8);
        let x = drawn([4, 8]);
        let mut step = |x: &Tensor| -> Result<Tensor> {
            let loss = model.forward(x)?.square().mean(..);
            optimizer.step(&loss.backward()?)?;
            Ok(loss)
        };
        let mut losses = Vec::new();
        if captured {
            let optimizer = std::sync::Mutex::new(step);
            let compiled = compile(|x: &[Tensor]| Ok(vec![(optimizer.lock().unwrap())(&x[0])?]));
            (0..5).for_each(|_| losses.push(compiled.call(&[&x]).unwrap()[0].item::<f32>().unwrap()));
        } else {
            (0..5).for_each(|_| losses.push(step(&x).unwrap().item::<f32>().unwrap()));
        }
        losses
    };
    assert_eq!(run(true), run(false));
    let x = Relu::new();
    assert!(LoraConfig::new(1, 1.0, ["*"]).apply(&x).is_err());
}
