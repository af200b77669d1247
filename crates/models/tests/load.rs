//! Loading by name: what a file may have and lack, what is told of one that does not fit, and that nothing changes then.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_core::{DType, Device, Tensor};
use adamant_formats::safetensors;
use adamant_models::*;
use adamant_nn::Walk;
use std::{collections::BTreeMap, fs, path::Path};

type State = BTreeMap<String, Tensor>;

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
fn gpt2(tie_word_embeddings: bool) -> Gpt2LmHead {
    let config = Gpt2Config { vocab_size: 7, n_positions: 4, n_embd: 4, n_layer: 1, n_head: 2, tie_word_embeddings, ..Default::default() };
    Gpt2LmHead::new(config).unwrap()
}
fn state(model: &impl Walk) -> State {
    model.state_dict().into_iter().collect()
}
fn same(a: &State, b: &State) -> bool {
    a.len() == b.len() && a.iter().all(|(name, t)| t.equal(&b[name]).unwrap())
}
fn write(path: &Path, state: &State) {
    safetensors::save(path, state.clone(), &Default::default()).unwrap();
}
/// What loading a changed file into a GPT-2 of two heads says; the model must be as it was.
fn refused(tied: bool, change: impl FnOnce(&mut State)) -> String {
    on_reference(|| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.safetensors");
        let mut written = state(&gpt2(tied));
        change(&mut written);
        write(&file, &written);
        let model = gpt2(tied);
        let before = state(&model);
        let error = model.load_path(&file).unwrap_err().to_string();
        assert!(same(&before, &state(&model)), "changed by: {error}");
        error
    })
}

#[test]
fn errors_name_what_does_not_fit() {
    let missing = refused(true, |s| drop(s.remove("transformer.h.0.mlp.c_fc.bias")));
    assert!(missing.contains("missing: `transformer.h.0.mlp.c_fc.bias`"), "{missing}");
    let unknown = refused(true, |s| drop(s.insert("transformer.h.1.ln_1.bias".into(), Tensor::zeros(4))));
    assert!(unknown.contains("unknown: `transformer.h.1.ln_1.bias`"), "{unknown}");
    let shape = refused(true, |s| drop(s.insert("transformer.wpe.weight".into(), Tensor::zeros([5, 4]))));
    assert!(shape.contains("`transformer.wpe.weight` has shape [4, 4] in the model and [5, 4]"), "{shape}");
    // The weight is stored as [in, out]: transposed, it does not fit.
    let transposed = refused(true, |s| {
        let name = "transformer.h.0.attn.c_attn.weight";
        let weight = s[name].t();
        s.insert(name.into(), weight);
    });
    assert!(transposed.contains("c_attn.weight` has shape [4, 12] in the model and [12, 4]"), "{transposed}");
    let untied = refused(true, |s| drop(s.insert("lm_head.weight".into(), Tensor::ones([7, 4]))));
    assert!(untied.contains("are one parameter of the model and have different values"), "{untied}");
    let twice = refused(true, |s| drop(s.insert("wpe.weight".into(), Tensor::zeros([4, 4]))));
    assert!(twice.contains("are one tensor of the model"), "{twice}");
    let headless = refused(false, |s| drop(s.remove("lm_head.weight")));
    assert!(headless.contains("missing: `lm_head.weight`"), "{headless}");
}
#[test]
fn files_of_all_spellings_fill_the_same_parameters() {
    on_reference(|| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.safetensors");
        let model = gpt2(true);
        let whole = state(&model);
        let without = |name: &str| -> State { whole.iter().filter(|(n, _)| *n != name).map(|(n, t)| (n.clone(), t.clone())).collect() };
        let bare = |s: &State| -> State { s.iter().map(|(n, t)| (n.trim_start_matches("transformer.").to_owned(), t.clone())).collect() };
        let mut old = bare(&without("lm_head.weight"));
        old.insert("h.0.attn.bias".into(), Tensor::ones([1, 1, 4, 4]));
        old.insert("h.0.attn.masked_bias".into(), Tensor::full((), -1e4, DType::F32));
        let wide = whole.iter().map(|(n, t)| (n.clone(), t.cast(DType::F64))).collect();
        // Tied weights stand once under either name, or twice; old files have masks and no prefix; another dtype is converted.
        for (what, written) in [
            ("twice", whole.clone()),
            ("as embeddings", without("lm_head.weight")),
            ("as the head", without("transformer.wte.weight")),
            ("of the body", bare(&without("lm_head.weight"))),
            ("old", old),
            ("wide", wide),
        ] {
            write(&file, &written);
            let other = gpt2(true);
            assert!(!same(&whole, &state(&other)));
            other.load_path(&file).unwrap();
            assert!(same(&whole, &state(&other)), "{what}");
            let body = Gpt2::new(other.transformer().config().clone()).unwrap();
            if what != "as the head" {
                body.load_path(folder.path()).unwrap();
                assert!(same(&state(&body), &state(other.transformer())), "{what}: the body");
            }
        }
        let names: Vec<String> = model.named_parameters().into_iter().map(|(n, _)| n).collect();
        assert!(names.contains(&"transformer.wte.weight".to_owned()) && !names.contains(&"lm_head.weight".to_owned()), "tied weights train once");
    });
}
#[test]
fn folders_tell_what_is_wrong_with_them() {
    on_reference(|| {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let told = || Gpt2LmHead::from_folder(folder.path()).err().unwrap().to_string();
        assert!(told().contains("config.json"), "{}", told());
        put("config.json", r#"{"model_type": "llama"}"#);
        assert!(told().contains("of type `llama` and not `gpt2`"), "{}", told());
        put("config.json", r#"{"n_embd": 4, "n_head": 3}"#);
        assert!(told().contains("3 heads do not divide 4 features"), "{}", told());
        put("config.json", r#"{"activation_function": "quick_gelu"}"#);
        assert!(told().contains("quick_gelu") && told().contains("gelu_new"), "{}", told());
        put("config.json", r#"{"vocab_size": 7, "n_positions": 4, "n_embd": 4, "n_layer": 1, "n_head": 2, "n_inner": null, "task": {}}"#);
        assert!(told().contains("neither `model.safetensors` nor `model.safetensors.index.json`"), "{}", told());
        for stranger in ["../other.safetensors", "/etc/passwd", "a/b", ".."] {
            put("model.safetensors.index.json", &format!(r#"{{"weight_map": {{"wte.weight": "{stranger}"}}}}"#));
            assert!(told().contains("is no file of the folder"), "{}", told());
        }
        put("model.safetensors.index.json", r#"{"weight_map": {"wte.weight": "a.safetensors"}}"#);
        write(&folder.path().join("a.safetensors"), &State::from([("wpe.weight".into(), Tensor::zeros([4, 4]))]));
        assert!(told().contains("no tensor `wte.weight`") && told().contains("a.safetensors"), "{}", told());
        let model = gpt2(true);
        let (one, two): (State, State) = state(&model).into_iter().partition(|(name, _)| name.contains(".h."));
        write(&folder.path().join("a.safetensors"), &one);
        write(&folder.path().join("b.safetensors"), &two);
        let map: BTreeMap<&String, &str> = one.keys().map(|n| (n, "a.safetensors")).chain(two.keys().map(|n| (n, "b.safetensors"))).collect();
        put("model.safetensors.index.json", &serde_json::json!({ "weight_map": map }).to_string());
        let read = Gpt2LmHead::from_folder(folder.path()).unwrap();
        assert!(same(&state(&model), &state(&read)) && !read.is_training());
    });
}
#[test]
fn bert_is_loaded_from_files_of_its_other_heads() {
    on_reference(|| {
        let config = BertConfig { vocab_size: 7, hidden_size: 4, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 6, ..Default::default() };
        let config = BertConfig { max_position_embeddings: 5, ..config };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.safetensors");
        // What BertForPreTraining has: the body with its pooler, both heads, and old names.
        let (classifier, masked) = (BertClassifier::new(config.clone()).unwrap(), BertMaskedLm::new(config.clone()).unwrap());
        masked
            .bert()
            .load_path({
                write(&file, &state(&classifier));
                &file
            })
            .unwrap();
        let mut written: State = state(&masked).into_iter().filter(|(n, _)| !n.contains("decoder")).collect();
        written.extend(state(&classifier).into_iter().filter(|(n, _)| n.starts_with("bert.")));
        let mut written: State = written.into_iter().map(|(n, t)| (n.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"), t)).collect();
        written.insert("cls.seq_relationship.weight".into(), Tensor::zeros([2, 4]));
        written.insert("cls.seq_relationship.bias".into(), Tensor::zeros(2));
        written.insert("bert.embeddings.position_ids".into(), Tensor::zeros([1, 5]));
        write(&file, &written);
        let (body, again) = (Bert::new(config.clone()).unwrap(), BertMaskedLm::new(config.clone()).unwrap());
        body.load_path(&file).unwrap();
        again.load_path(&file).unwrap();
        assert!(same(&state(&body), &state(classifier.bert())) && same(&state(&again), &state(&masked)));
        // A classifier of its own is not made up.
        let error = BertClassifier::new(config).unwrap().load_path(&file).unwrap_err().to_string();
        assert!(error.contains("missing: `classifier.weight`, `classifier.bias`"), "{error}");
    });
}
#[test]
fn other_configurations_are_refused() {
    let config = BertConfig::default;
    let refused = |config: BertConfig| on_reference(|| Bert::new(config).err().unwrap().to_string());
    assert!(refused(BertConfig { is_decoder: true, ..config() }).contains("is_decoder"));
    assert!(refused(BertConfig { position_embedding_type: "relative_key".into(), ..config() }).contains("relative_key"));
    assert!(refused(BertConfig { num_attention_heads: 7, ..config() }).contains("7 heads do not divide 768 features"));
    let cross = Gpt2Config { add_cross_attention: true, ..Default::default() };
    assert!(on_reference(|| Gpt2::new(cross).err().unwrap().to_string()).contains("cross attention"));
}
