//! Generation as such: seeds, frequencies of draws, ends of sequences, wrong calls. (That it says what transformers says is in
//! goldens.rs.)
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_backend_cpu as _;
use adamant_core::{Tensor, no_grad};
use adamant_models::{Gpt2Config, Gpt2Inputs, Gpt2LmHead, KeyValueCache, generate::GenerateOptions};
use adamant_nn::{Module, Walk, manual_seed};

fn model() -> Gpt2LmHead {
    manual_seed(3);
    let config = Gpt2Config { vocab_size: 5, n_positions: 12, n_embd: 8, n_layer: 2, n_head: 2, initializer_range: 0.4, ..Default::default() };
    let model = Gpt2LmHead::new(config).unwrap();
    model.eval();
    model
}
fn ids(rows: &[[i64; 3]]) -> Tensor {
    Tensor::from_vec(rows.concat(), [rows.len(), 3])
}
fn rows(t: &Tensor) -> Vec<Vec<i64>> {
    t.to_rows::<i64>().unwrap()
}

#[test]
fn draws_follow_from_the_seed_and_have_the_frequencies_of_the_logits() {
    let model = model();
    // Many copies of one prompt: each draws for itself.
    let prompt = ids(&[[1, 2, 3]; 2000]);
    let options = GenerateOptions { max_new_tokens: 1, temperature: 0.8, top_k: Some(4), ..Default::default() };
    let drawn = |seed| rows(&model.generate(&prompt, None, &GenerateOptions { seed, ..options.clone() }).unwrap());
    let first = drawn(1);
    assert_eq!(first, drawn(1));
    assert_ne!(first, drawn(2));
    let logits = no_grad(|| model.forward(&prompt.narrow(0, 0, 1))).unwrap().narrow(1, 2, 1).to_vec::<f32>().unwrap();
    let p = options.probabilities(&logits);
    assert_eq!(p.iter().filter(|x| **x == 0.0).count(), 1);
    for (token, p) in p.iter().enumerate() {
        let seen = first.iter().filter(|row| row[3] == token as i64).count() as f64 / 2000.0;
        // Five standard deviations.
        assert!((seen - p).abs() <= 5.0 * (p * (1.0 - p) / 2000.0).sqrt(), "{token}: {seen} and not {p}");
    }
}
#[test]
fn the_likeliest_token_stays_whatever_top_p_says() {
    let options = GenerateOptions { temperature: 1.0, top_p: Some(1e-18), ..Default::default() };
    assert_eq!(options.probabilities(&[0.3, 0.1, 0.7, -0.4, 0.69]), [0.0, 0.0, 1.0, 0.0, 0.0]);
}
#[test]
fn a_sequence_ends_behind_its_last_token() {
    let model = model();
    let prompt = ids(&[[1, 2, 3], [4, 0, 1], [2, 2, 2], [3, 4, 4]]);
    let options = GenerateOptions { max_new_tokens: 9, temperature: 2.0, ..Default::default() };
    let plain = rows(&model.generate(&prompt, None, &options).unwrap());
    let eos = 3;
    let ends: Vec<Option<usize>> = plain.iter().map(|row| row[3..].iter().position(|t| *t == eos).map(|k| 4 + k)).collect();
    // Some end early, at several times.
    assert!(ends.iter().flatten().min() < ends.iter().flatten().max(), "{plain:?}");
    let ended = rows(&model.generate(&prompt, None, &GenerateOptions { eos_token_id: Some(eos), pad_token_id: Some(0), ..options.clone() }).unwrap());
    let length = ends.iter().map(|end| end.unwrap_or(12)).max().unwrap();
    for ((plain, ended), end) in plain.iter().zip(&ended).zip(ends) {
        assert_eq!(ended.len(), length, "all have ended, or nine tokens are there");
        let end = end.unwrap_or(12);
        assert_eq!(ended[..end], plain[..end]);
        assert!(ended[end..].iter().all(|t| *t == 0), "{ended:?}");
    }
    let alone = rows(&model.generate(&prompt, None, &GenerateOptions { eos_token_id: Some(eos), ..options }).unwrap());
    assert!(alone.iter().flatten().zip(ended.iter().flatten()).all(|(a, b)| a == b || (*a, *b) == (eos, 0)), "the end stands for the padding");
}
#[test]
fn wrong_calls_are_told_and_leave_the_cache() {
    let model = model();
    let prompt = ids(&[[1, 2, 3]]);
    let told = |options: GenerateOptions| model.generate(&prompt, None, &options).unwrap_err().to_string();
    let plain = GenerateOptions::default;
    assert!(told(plain()).contains("3 tokens and 20 new ones are more than the 12 positions"));
    assert!(told(GenerateOptions { temperature: -1.0, ..plain() }).contains("temperature is -1"));
    assert!(told(GenerateOptions { temperature: f64::NAN, ..plain() }).contains("temperature is NaN"));
    assert!(told(GenerateOptions { top_k: Some(0), ..plain() }).contains("top_k is 0"));
    assert!(told(GenerateOptions { top_p: Some(1.5), ..plain() }).contains("top_p is Some(1.5)"));
    let mut cache = KeyValueCache::new();
    model.forward_cached(&prompt, &Gpt2Inputs::default(), &mut cache).unwrap();
    // Another batch than the cache's; more than there are positions; a mask of the new tokens alone.
    let mask = Tensor::ones([1, 3]);
    for (ids, mask) in [(ids(&[[1, 2, 3], [1, 2, 3]]), None), (Tensor::zeros([1, 10]).cast(adamant_core::DType::I64), None), (prompt.clone(), Some(&mask))] {
        model.forward_cached(&ids, &Gpt2Inputs { attention_mask: mask, ..Default::default() }, &mut cache).unwrap_err();
        assert_eq!(cache.len(), 3);
    }
    let next = model.forward_cached(&ids(&[[4, 0, 1]]), &Gpt2Inputs::default(), &mut cache).unwrap();
    let whole = model.forward(&Tensor::from_vec(vec![1i64, 2, 3, 4, 0, 1], [1, 6])).unwrap();
    assert!(next.allclose(&whole.narrow(1, 3, 3), 1e-5, 1e-5).unwrap());
    let long = model.forward(&Tensor::zeros([1, 13]).cast(adamant_core::DType::I64)).unwrap_err().to_string();
    assert!(long.contains("a time from 1 to 12"), "{long}");
}
#[test]
fn dropout_follows_the_mode() {
    let model = model();
    let prompt = ids(&[[1, 2, 3]]);
    let run = || model.forward(&prompt).unwrap();
    assert!(run().equal(&run()).unwrap());
    model.train();
    assert!(!run().equal(&run()).unwrap());
}
