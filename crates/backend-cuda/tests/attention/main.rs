//! Attention and its backward by the matrix unit, on the emulator: every two options together, both ways, near sums in f64 of the
//! host; the bits do not depend on the order that a card takes; and nothing as large as the scores is allocated.
//!
//! An ordinary run takes a drawn share of the cases; `ADAMANT_ATTENTION=whole` takes all of them, `ADAMANT_ATTENTION=<number>` one.
mod cases;
#[path = "../common/mod.rs"]
mod common;
mod host;

use adamant_backend_cuda::CudaBackend;
use adamant_conformance::{
    data::download,
    tolerance::{COMPOSED_ULP, ulp},
};
use adamant_core::{
    Arg, Compound, DType, Device, Op, Origin, Tensor,
    composite::{
        attention::{Attention, AttentionBackward},
        keyed,
    },
};
use adamant_cuda_emulator::{Emulator, FindingKind, Options};
use cases::{Chosen, Drawn};
use host::{Attended, HostMask, Summed};
use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

/// Cases of an ordinary run.
const SHARE: usize = 15;
/// Cases of every run: f16, with rows that a mask of queries hides for all keys, causal and not.
const OF_EVERY_RUN: [Chosen; 2] = [[0, 65, 63, 40, 40, 1, 1, 3, 0, 2, 1, 0], [1, 63, 65, 16, 80, 0, 2, 3, 1, 1, 2, 2]];

/// A tensor of drawn numbers that its dtype holds, on the host, and the numbers.
fn numbers(drawn: &mut Drawn, shape: &[usize], dtype: DType, most: f32, hides: bool) -> (Tensor, Vec<f64>) {
    let n = shape.iter().product();
    let mut number = || if hides && drawn.next() % 5 == 0 { f32::NEG_INFINITY } else { ((drawn.next() % 8191) as f32 / 4095.0 - 1.0) * most };
    let values: Vec<f32> = (0..n).map(|_| number()).collect();
    Device::reference().scoped(|| {
        let tensor = Tensor::from_vec(values, shape).cast(dtype);
        let held = floats(&tensor);
        (tensor, held)
    })
}
fn floats(tensor: &Tensor) -> Vec<f64> {
    let array = download(tensor).unwrap_or_else(|e| panic!("{e}: {:#?}", findings()));
    (0..array.len()).map(|k| array.float(k)).collect()
}
fn apply(composite: impl Compound, inputs: &[Tensor]) -> Vec<Tensor> {
    Tensor::apply_many(Op::Composite(keyed(composite)), Arg::None, &inputs.iter().collect::<Vec<_>>(), Origin::here()).into_iter().collect()
}
/// The published table: ULPs of the largest element for what is composed, and for sums the magnitude of their terms.
fn near(what: &str, case: &str, dtype: DType, got: &[f64], want: &Summed, terms: usize) {
    let largest = want.result.iter().filter(|v| v.is_finite()).fold(0.0f64, |m, v| m.max(v.abs()));
    let composed = ulp(dtype, largest) * if dtype.size() == 2 { COMPOSED_ULP / 8.0 } else { COMPOSED_ULP };
    assert_eq!(got.len(), want.result.len(), "{case}: {what}");
    for (k, ((x, y), terms_size)) in got.iter().zip(&want.result).zip(&want.magnitude).enumerate() {
        let allowed = composed + terms as f64 * f64::from(f32::EPSILON) * terms_size;
        assert!(x == y || (x - y).abs() <= allowed, "{case}: element {k} of {what} is {x:e}, {y:e} by the host, allowed {allowed:e}");
    }
}
/// A case, on tensors and for the host.
struct Posed {
    dtype: DType,
    attention: Attention,
    inputs: Vec<Tensor>,
    g: Tensor,
    of_lse: Option<Tensor>,
    host: Attended,
}
fn posed(case: &Chosen, seed: u64) -> Posed {
    let mut drawn = Drawn(seed);
    let [dtype, queries, keys, features, values, causal, mask, extents, dropout, ratio, shared, scale] = *case;
    let dtype = [DType::F16, DType::BF16][dtype];
    let heads = ratio * shared;
    // More axes before the heads where there are few of them.
    let lead = |n: usize, rows: usize, columns: usize| if heads == 1 { vec![1, n, rows, columns] } else { vec![n, rows, columns] };
    let scale = [1.0 / (features as f64).sqrt(), -0.3, 1.0 / 64.0][scale];
    let dropout = [0.0, 0.25][dropout];
    let (q, q_of) = numbers(&mut drawn, &lead(heads, queries, features), dtype, 2.0, false);
    let (k, k_of) = numbers(&mut drawn, &lead(shared, keys, features), dtype, 2.0, false);
    let (v, v_of) = numbers(&mut drawn, &lead(shared, keys, values), dtype, 2.0, false);
    let (g, g_of) = numbers(&mut drawn, &lead(heads, queries, values), dtype, 1.0, false);
    let with_lse = drawn.next() % 2 == 0;
    let (of_lse, lse_of) = numbers(&mut drawn, &lead(heads, queries, 1), DType::F32, 1.0, false);
    let mut inputs = vec![q, k, v];
    let mut host_mask = None;
    let extents = [[heads, queries, keys], [1, queries, keys], [1, 1, keys], [1, queries, 1]][extents];
    if mask > 0 {
        let n: usize = extents.iter().product();
        if mask == 1 {
            let seen: Vec<bool> = (0..n).map(|_| drawn.next() % 4 != 0).collect();
            inputs.push(Device::reference().scoped(|| Tensor::from_vec(seen.clone(), extents)));
            host_mask = Some((HostMask::Seen(seen), extents));
        } else {
            // Some hide, whole rows where a query has one for all keys.
            let (tensor, added) = numbers(&mut drawn, &extents, if mask == 2 { DType::F32 } else { dtype }, 3.0, true);
            inputs.push(tensor);
            host_mask = Some((HostMask::Added(added), extents));
        }
    }
    let draws = [drawn.next() as u32, drawn.next() as u32, 7, 0];
    if dropout > 0.0 {
        inputs.push(Device::reference().scoped(|| Tensor::from_vec(draws.to_vec(), [4])));
    }
    let causal = causal == 1;
    let host = Attended {
        heads,
        shared,
        queries,
        keys,
        features,
        values,
        scale,
        causal,
        mask: host_mask,
        dropout,
        draws,
        q: q_of,
        k: k_of,
        v: v_of,
        g: g_of,
        of_lse: with_lse.then_some(lse_of),
    };
    Posed { dtype, attention: Attention { scale, causal, mask: mask > 0, dropout }, inputs, g, of_lse: with_lse.then_some(of_lse), host }
}
/// The results on the device: output, logarithms, and the cotangents, of a mask too where it is added.
fn computed(device: Device, posed: &Posed) -> Vec<Vec<f64>> {
    let mut drawn = Drawn(posed.host.q.len() as u64);
    let here = |t: &Tensor| t.to(device);
    device.scoped(|| {
        let mut rows = |t: &Tensor| laid(device, t, drawn.next());
        let g = rows(&posed.g);
        let inputs: Vec<Tensor> = posed.inputs.iter().enumerate().map(|(k, t)| if k < 3 { rows(t) } else { here(t) }).collect();
        let orders = drawn.next() % 2 == 0;
        let by_rows = |t: &Tensor| if orders { seen_by_rows(t) } else { t.clone() };
        let mut results = apply(posed.attention, &inputs);
        let out = by_rows(&results[0]);
        let mut all = vec![g];
        all.extend(inputs);
        all.extend(results.iter().cloned());
        all.extend(posed.of_lse.as_ref().map(here));
        let backward = apply(AttentionBackward { forward: posed.attention, with_lse: posed.of_lse.is_some() }, &all);
        results.extend(backward.iter().enumerate().map(|(k, t)| if k < 3 { by_rows(t) } else { t.clone() }));
        results[0] = out;
        results.iter().map(floats).collect()
    })
}
/// A tensor on the device whose rows lie as they come, with those of the heads side by side, or as parts of longer ones.
fn laid(device: Device, t: &Tensor, how: usize) -> Tensor {
    let [.., heads, _, columns] = t.shape().unwrap().to_vec()[..] else { unreachable!() };
    let swapped = |t: &Tensor| t.transpose(-3, -2);
    match how % 3 {
        1 if heads > 1 => swapped(&Device::reference().scoped(|| swapped(t) + 0.0).to(device)),
        2 => swapped(&Device::reference().scoped(|| Tensor::cat(&[swapped(t), swapped(t)], -1)).to(device)).narrow(-1, columns, columns),
        _ => t.to(device),
    }
}
/// As it is, but read first as rows of all heads together: a kernel that may writes it in that order.
fn seen_by_rows(t: &Tensor) -> Tensor {
    let shape = t.shape().unwrap().to_vec();
    let rank = shape.len();
    let swapped = t.transpose(-3, -2);
    let together: Vec<usize> = shape[..rank - 3].iter().copied().chain([shape[rank - 2], shape[rank - 3] * shape[rank - 1]]).collect();
    let apart = swapped.shape().unwrap();
    swapped.reshape(&together[..]).reshape(apart).transpose(-3, -2)
}
fn check(device: Device, case: &Chosen, number: usize) {
    let name = format!("case {number}: {}", cases::described(case));
    let posed = posed(case, number as u64 + 1);
    let got = computed(device, &posed);
    let want = posed.host.answer();
    let (features, keys) = (posed.host.features, posed.host.keys);
    near("the output", &name, posed.dtype, &got[0], &want.out, features + keys);
    let lse = Summed { magnitude: want.lse.iter().map(|v| if v.is_finite() { v.abs() } else { 0.0 }).collect(), result: want.lse };
    near("the logarithms", &name, DType::F32, &got[1], &lse, 0);
    let terms = features + posed.host.values + posed.host.queries * posed.host.heads + keys;
    let added = posed.inputs.get(3).and_then(|m| m.dtype().ok()).filter(|d| d.is_float());
    assert_eq!(got.len(), if added.is_some() { 6 } else { 5 }, "{name}");
    for ((what, want), got) in ["queries", "keys", "values", "the mask"].iter().zip(&want.cotangents).zip(&got[2..]) {
        let dtype = if *what == "the mask" { added.unwrap_or(posed.dtype) } else { posed.dtype };
        near(&format!("the cotangent of {what}"), &name, dtype, got, want, terms);
    }
}
fn findings() -> Vec<adamant_cuda_emulator::Finding> {
    let found = Emulator::installed().map(Emulator::findings).unwrap_or_default();
    found.into_iter().filter(|f| f.kind != FindingKind::HostReadUnwritten).collect()
}
/// One card for all tests, which take turns: what it found is of the test that looks.
fn card() -> Option<(Device, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::new(());
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let device = *DEVICE.get_or_init(|| common::device(Options { seed: 11, cublaslt: false, ..Options::default() }));
    device.map(|d| (d, turn))
}
/// A device of its own on the card, with nothing allocated yet.
fn fresh() -> Device {
    Device::from_backend(Box::new(CudaBackend::builder().cache(None).build().unwrap()))
}
/// How many of the device's texts are attention by the matrix unit, and how many plain.
fn texts(device: Device) -> [usize; 2] {
    let texts = device.backend().downcast::<CudaBackend>().map(CudaBackend::texts).unwrap_or_default();
    ["adm_attention_", "line7"].map(|mark| texts.iter().filter(|t| t.contains(mark)).count())
}
#[test]
fn attention_is_near_the_host_whatever_options_meet() {
    let Some((device, _turn)) = card() else { return };
    let mut all = OF_EVERY_RUN.to_vec();
    all.extend(cases::all(1));
    let asked = std::env::var("ADAMANT_ATTENTION").unwrap_or_default();
    let chosen: BTreeSet<usize> = match asked.parse::<usize>() {
        Ok(one) => [one].into(),
        Err(_) if asked == "whole" => (0..all.len()).collect(),
        Err(_) => {
            let mut drawn = Drawn(3);
            (0..OF_EVERY_RUN.len()).chain((0..SHARE).map(|_| drawn.next() % all.len())).collect()
        }
    };
    for number in chosen {
        let plain = texts(device)[1];
        check(device, &all[number], number);
        let found = findings();
        let name = cases::described(&all[number]);
        assert!(found.is_empty(), "case {number}, {name}: {found:#?}");
        assert!(texts(device)[0] > 0 && texts(device)[1] == plain, "case {number}, {name}: a plain kernel ran");
    }
}
#[test]
fn the_bits_are_those_of_any_order() {
    let Some((device, _turn)) = card() else { return };
    let emulator = Emulator::installed().unwrap();
    // bf16, 257 queries and 65 keys: causal heads of 64 that share, with dropout; of 128 with a mask.
    for case in [[1, 257, 65, 64, 64, 1, 0, 0, 1, 3, 1, 0], [1, 65, 257, 128, 40, 0, 1, 1, 0, 1, 2, 1]] {
        let posed = posed(&case, 5);
        let first = computed(device, &posed);
        for seed in 1..5 {
            emulator.set_seed(seed);
            assert!(computed(device, &posed) == first, "{}: other bits with seed {seed}", cases::described(&case));
        }
    }
    assert!(findings().is_empty());
}
#[test]
fn what_the_unit_does_not_take_is_computed_plainly() {
    let Some((device, _turn)) = card() else { return };
    // Rows that are no whole pieces, and longer ones than registers hold.
    for (features, values) in [(20, 16), (16, 6), (264, 16)] {
        let [unit, plain] = texts(device);
        check(device, &[0, 65, 63, features, values, 1, 0, 0, 0, 2, 1, 0], 1);
        let [now, plain_now] = texts(device);
        assert!(now == unit && plain_now >= plain.max(1), "{features} features, {values} values: no plain kernel ran");
    }
    assert!(findings().is_empty());
}
#[test]
fn nothing_as_large_as_the_scores_is_allocated() {
    let Some((_, _turn)) = card() else { return };
    // Causal, and with a mask of the keys alone.
    for (causal, mask) in [(1, 0), (0, 1)] {
        let allocated = [256, 1024].map(|length| {
            let (device, posed) = (fresh(), posed(&[1, length, length, 16, 16, causal, mask, 2, 0, 2, 1, 0], 1));
            computed(device, &posed);
            let bytes = device.backend().counters().iter().find(|(name, _)| *name == "allocated").map_or(0, |(_, n)| *n);
            // 3 tensors of 2 heads, 3 of one, and as many cotangents but one; 16-bit rows of 16. The rest are numbers of rows, and parameters.
            let tensors = (length * 16 * 2) as u64 * (2 + 1 + 1 + 2 + 2 + 2 + 1 + 1);
            assert!(bytes < 3 * tensors / 2 + 40_000, "length {length}: {bytes} bytes are allocated, {tensors} are those of tensors");
            bytes
        });
        let [few, many] = allocated;
        assert!(many < 4 * few, "{few} bytes for 256 keys, {many} for 1024");
    }
}
