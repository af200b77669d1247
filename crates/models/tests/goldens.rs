//! The networks give torchvision's and transformers' numbers: outputs, losses, gradients and running statistics of the folders
//! in `goldens`, which `python/goldens.py small` writes.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_backend_cpu as _;
use adamant_core::{DType, Tensor, no_grad};
use adamant_models::{FromFolder, Gpt2Inputs, Gpt2LmHead, KeyValueCache, generate::GenerateOptions};
use std::path::{Path, PathBuf};

#[path = "replay/replay.rs"]
mod replay;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name)
}
#[test]
fn outputs_gradients_and_statistics_are_those_of_pytorch() {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(folder("")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    assert!(folders.len() >= 15, "{folders:?}");
    let mut wrong = Vec::new();
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let seen = replay::replay(&folder, DType::F32).unwrap_or_else(|e| panic!("{name}: {e}"));
        println!("{name}: {seen:?}");
        if !seen.are_small() {
            wrong.push(format!("{name}: {seen:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const LANGUAGE_MODELS: [&str; 3] = ["gpt2-lm", "gpt2-lm-untied", "gpt2-lm-old-names"];
#[test]
fn what_is_generated_is_what_transformers_generates() {
    for name in LANGUAGE_MODELS {
        let (model, expected) = (Gpt2LmHead::from_folder(folder(name)).unwrap(), replay::Expected::open(&folder(name), DType::F32).unwrap());
        let prompt = expected.tensor("prompt").unwrap();
        for padding in ["plain", "padded"] {
            let mask = expected.tensor(&format!("mask.{padding}")).unwrap();
            let options = GenerateOptions { max_new_tokens: 12, ..Default::default() };
            let got = model.generate(&prompt, Some(&mask), &options).unwrap();
            assert_eq!(got.to_rows::<i64>().unwrap(), expected.tensor(&format!("generated.{padding}")).unwrap().to_rows::<i64>().unwrap(), "{name} {padding}");
            if padding == "plain" {
                assert!(model.generate(&prompt, None, &options).unwrap().equal(&got).unwrap(), "{name}: a mask of ones says nothing");
            }
        }
    }
}
#[test]
fn tokens_behind_a_cache_get_the_logits_of_the_whole_window() {
    for name in LANGUAGE_MODELS {
        let model = Gpt2LmHead::from_folder(folder(name)).unwrap();
        let ids = replay::Expected::open(&folder(name), DType::F32).unwrap().given("ids").unwrap();
        let [batch, time] = ids.dims().unwrap();
        let mut hidden = vec![1i64; batch * time];
        hidden[time] = 0;
        let mask = Tensor::from_vec(hidden, [batch, time]);
        no_grad(|| {
            for mask in [None, Some(&mask)] {
                let whole = model.forward_with(&ids, &Gpt2Inputs { attention_mask: mask, ..Default::default() }).unwrap();
                // Parts of one token, of several, and all at once.
                for parts in [vec![1; time], vec![3, 1, time - 4], vec![time]] {
                    let (mut cache, mut start, mut logits) = (KeyValueCache::new(), 0, Vec::new());
                    for part in parts {
                        let known = mask.map(|mask| mask.narrow(1, 0, start + part));
                        let inputs = Gpt2Inputs { attention_mask: known.as_ref(), ..Default::default() };
                        logits.push(model.forward_cached(&ids.narrow(1, start, part), &inputs, &mut cache).unwrap());
                        start += part;
                        assert_eq!(cache.len(), start);
                    }
                    let apart = (Tensor::cat(&logits, 1) - &whole).abs().max().item::<f32>().unwrap();
                    assert!(apart <= 1e-5, "{name}: {apart}");
                }
            }
        });
    }
}
#[test]
fn draws_have_the_probabilities_of_transformers() {
    let cases: Vec<serde_json::Value> = serde_json::from_str(&std::fs::read_to_string(folder("sampling.json")).unwrap()).unwrap();
    assert_eq!(cases.len(), 96);
    for case in cases {
        let number = |name: &str| case[name].as_f64();
        let options = GenerateOptions {
            temperature: number("temperature").unwrap(),
            top_k: number("top_k").map(|k| k as usize),
            top_p: number("top_p"),
            ..Default::default()
        };
        let read = |name: &str| -> Vec<f64> { serde_json::from_value(case[name].clone()).unwrap() };
        let logits: Vec<f32> = read("logits").into_iter().map(|x| x as f32).collect();
        let (got, want) = (options.probabilities(&logits), read("probabilities"));
        assert_eq!(got.len(), want.len());
        let far = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(far < 1e-6, "{case}: {got:?}");
        assert_eq!(got.iter().filter(|x| **x > 0.0).count() as u64, case["kept"], "{case}: {got:?}");
    }
}
