//! Keys and values of what is known, as numbers and as codes: tokens one by one, in pieces and at once give the same bits over codes and
//! the network's own answer over numbers; what a cache refuses leaves it as it was.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_backend_cpu as _;
use adamant_core::{DType, Tensor, no_grad};
use adamant_models::{CacheStorage, Gpt2Config, Gpt2Inputs, Gpt2LmHead, KeyValueCache, generate::GenerateOptions};
use adamant_nn::{
    CachedAttentionOptions, Embedding, LayerNorm, Linear, Lstm, Module, PositionEmbedding, RecurrentOptions, Sequential, TransformerEncoderLayer,
    TransformerOptions, Walk, manual_seed,
};

fn gpt2(positions: usize) -> Gpt2LmHead {
    manual_seed(3);
    let config = Gpt2Config { vocab_size: 7, n_positions: positions, n_embd: 32, n_layer: 2, n_head: 2, initializer_range: 0.4, ..Default::default() };
    let model = Gpt2LmHead::new(config).unwrap();
    model.eval();
    model
}
/// A language model of layers, as descriptions have it.
fn layers(length: usize, causal: bool) -> Sequential {
    manual_seed(4);
    let options = TransformerOptions { dim_feedforward: 24, is_causal: causal, batch_first: true, norm_first: true, ..Default::default() };
    let model = Sequential::new().add(Embedding::new(9, 16).unwrap()).add(PositionEmbedding::new(length, 16).unwrap());
    let model = (0..3).fold(model, |model, _| model.add(TransformerEncoderLayer::with(16, 4, options).unwrap()));
    let model = model.add(LayerNorm::new([16]).unwrap()).add(Linear::new(16, 9).unwrap());
    model.eval();
    model
}
fn ids(batch: usize, time: usize, vocabulary: i64) -> Tensor {
    Tensor::from_vec((0..(batch * time) as i64).map(|k| (k * k + 3 * k + k / 7) % vocabulary).collect(), [batch, time])
}
/// What a model says through a cache, the tokens in pieces.
fn in_pieces(mut forward: impl FnMut(&Tensor, &mut KeyValueCache) -> Tensor, x: &Tensor, storage: CacheStorage, pieces: &[usize]) -> (Tensor, KeyValueCache) {
    let mut cache = KeyValueCache::with(storage);
    let (mut at, mut all) = (0, Vec::new());
    for len in pieces {
        all.push(forward(&x.narrow(1, at, *len), &mut cache));
        // As a program does that reads what it needs to go on.
        all.last().unwrap().materialize().unwrap();
        at += len;
    }
    assert_eq!(cache.len(), at);
    (Tensor::cat(&all, 1), cache)
}
fn bits(t: &Tensor) -> Vec<u32> {
    t.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits()).collect()
}
fn furthest(a: &Tensor, b: &Tensor) -> f32 {
    (a - b).abs().max().item::<f32>().unwrap()
}

#[test]
fn tokens_have_the_same_bits_however_they_come() {
    no_grad(|| {
        let time = 70;
        let (described, own) = (layers(time, true), gpt2(time));
        for storage in CacheStorage::ALL {
            for batch in [1, 3] {
                let ways: [&[usize]; 4] = [&[70], &[1; 70], &[5, 1, 1, 20, 43], &[64, 1, 5]];
                let described_ids = ids(batch, time, 9);
                let whole = described.forward(&described_ids).unwrap();
                let first = in_pieces(|x, cache| cache.forward(&described, x).unwrap(), &described_ids, storage, ways[0]).0;
                let own_ids = ids(batch, time, 7);
                let own_whole = own.forward(&own_ids).unwrap();
                let own_first = in_pieces(|x, cache| own.forward_cached(x, &Gpt2Inputs::default(), cache).unwrap(), &own_ids, storage, ways[0]).0;
                let near = match storage {
                    CacheStorage::Float => 1e-5,
                    CacheStorage::Int8 => 0.03,
                    CacheStorage::Int4 => 0.4,
                };
                for (got, want) in [(&first, &whole), (&own_first, &own_whole)] {
                    let size = want.abs().max().item::<f32>().unwrap();
                    let off = furthest(got, want);
                    assert!(off <= near * size, "{storage:?}: {off} of {size}");
                    assert!(storage == CacheStorage::Float || off > 1e-4 * size, "{storage:?}: codes lose something");
                }
                for way in &ways[1..] {
                    let (got, cache) = in_pieces(|x, cache| cache.forward(&described, x).unwrap(), &described_ids, storage, way);
                    let (own_got, _) = in_pieces(|x, cache| own.forward_cached(x, &Gpt2Inputs::default(), cache).unwrap(), &own_ids, storage, way);
                    if storage == CacheStorage::Float {
                        assert!(furthest(&got, &first) <= 1e-5 * 10.0 && furthest(&own_got, &own_first) <= 1e-4);
                    } else {
                        assert_eq!(bits(&got), bits(&first), "{storage:?} {way:?}");
                        assert_eq!(bits(&own_got), bits(&own_first), "{storage:?} {way:?}");
                    }
                    // Three attentions, keys and values, four heads of four features; codes have space for 128 tokens.
                    let rows = 3 * 2 * batch * 4;
                    let bytes = match storage {
                        CacheStorage::Float => rows * 70 * 4 * 4,
                        CacheStorage::Int8 => rows * 128 * (4 + 2),
                        CacheStorage::Int4 => rows * 128 * (2 + 2 + 1),
                    };
                    assert_eq!(cache.memory_bytes(), bytes, "{storage:?} {way:?}");
                }
            }
        }
    });
}
#[test]
fn prompts_that_are_padded_in_front_go_on_as_they_do_alone() {
    let model = gpt2(24);
    let prompts: [&[i64]; 3] = [&[1, 2, 3, 4, 5, 6, 0], &[3, 1], &[5, 5, 2, 6]];
    let longest = 7;
    let padded: Vec<i64> = prompts.iter().flat_map(|p| std::iter::repeat_n(0, longest - p.len()).chain(p.iter().copied())).collect();
    let mask: Vec<i64> = prompts.iter().flat_map(|p| std::iter::repeat_n(0, longest - p.len()).chain(p.iter().map(|_| 1))).collect();
    let (padded, mask) = (Tensor::from_vec(padded, [3, longest]), Tensor::from_vec(mask, [3, longest]));
    for cache in CacheStorage::ALL {
        let options = GenerateOptions { max_new_tokens: 9, cache, ..Default::default() };
        let together = model.generate(&padded, Some(&mask), &options).unwrap().to_rows::<i64>().unwrap();
        for (prompt, together) in prompts.iter().zip(&together) {
            let alone = model.generate(&Tensor::from_vec(prompt.to_vec(), [1, prompt.len()]), None, &options).unwrap().to_rows::<i64>().unwrap();
            assert_eq!(alone[0][prompt.len()..], together[longest..], "{cache:?}");
        }
    }
}
#[test]
fn what_a_cache_refuses_leaves_it_as_it_was() {
    no_grad(|| {
        let model = layers(8, true);
        for storage in CacheStorage::ALL {
            let mut cache = KeyValueCache::with(storage);
            cache.forward(&model, &ids(1, 3, 9)).unwrap();
            let (other, smaller) = (layers(8, false), Sequential::new().add(Embedding::new(9, 16).unwrap()));
            smaller.eval();
            let mut told = |model: &Sequential, x: &Tensor| {
                let text = cache.forward(model, x).unwrap_err().to_string();
                assert_eq!(cache.len(), 3, "{text}");
                text
            };
            assert!(told(&model, &ids(1, 6, 9)).contains("a length of at most 5, behind 3 tokens"));
            told(&model, &ids(2, 1, 9));
            assert!(told(&other, &ids(1, 1, 9)).contains("causal self-attention"));
            assert!(told(&smaller, &ids(1, 1, 9)).contains("0 attentions have had the step"));
            assert!(told(&model, &Tensor::zeros([3]).cast(DType::I64)).contains("[batch, time]"));
            let next = cache.forward(&model, &ids(1, 4, 9).narrow(1, 3, 1)).unwrap();
            let whole = in_pieces(|x, cache| cache.forward(&model, x).unwrap(), &ids(1, 4, 9), storage, &[4]).0;
            assert!(furthest(&next, &whole.narrow(1, 3, 1)) < 1e-5);
        }
        let recurrent =
            Sequential::new().add(Embedding::new(9, 4).unwrap()).add(Lstm::with(4, 4, RecurrentOptions { batch_first: true, ..Default::default() }).unwrap());
        let text = KeyValueCache::new().forward(&recurrent, &ids(1, 3, 9)).unwrap_err().to_string();
        assert!(text.contains("the LSTM at `1` may look at other tokens"), "{text}");
        let text = KeyValueCache::new().forward(&layers(8, false), &ids(1, 3, 9)).unwrap_err().to_string();
        assert!(text.contains("causal self-attention"), "{text}");
        // A model in training drops weights, which are codes'.
        let training = layers(8, true);
        training.train();
        let text = KeyValueCache::with(CacheStorage::Int8).forward(&training, &ids(1, 3, 9)).unwrap_err().to_string();
        assert!(text.contains("drops no weights"), "{text}");
        assert!(KeyValueCache::new().forward(&training, &ids(1, 3, 9)).is_ok());
    });
}
#[test]
fn a_step_counts_once_and_behind_the_tokens_it_was_begun_with() {
    let x = |tokens: usize| Tensor::ones([1, 2, tokens, 4]);
    let options = CachedAttentionOptions::default();
    let mut cache = KeyValueCache::with(CacheStorage::Int4);
    let mut first = cache.begin(2);
    assert!(first.attend(&x(3), &x(3), &x(3), &options).unwrap_err().to_string().contains("keys [batch, heads, 2, features]"));
    first.attend(&x(2), &x(2), &x(2), &options).unwrap();
    let mut overtaken = cache.begin(1);
    cache.commit(first).unwrap();
    overtaken.attend(&x(1), &x(1), &x(1), &options).unwrap();
    assert!(cache.commit(overtaken).unwrap_err().to_string().contains("behind 0 tokens"));
    let mut twice = cache.begin(1);
    twice.attend(&x(1), &x(1), &x(1), &options).unwrap();
    assert!(twice.attend(&x(1), &x(1), &x(1), &options).unwrap_err().to_string().contains("of another network"));
    assert_eq!((cache.len(), cache.memory_bytes()), (2, 2 * 2 * 64 * (2 + 2 + 1)));
    for storage in CacheStorage::ALL {
        assert_eq!(CacheStorage::named(storage.name()), Some(storage));
    }
}
