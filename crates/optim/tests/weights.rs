//! Weights of 16 bits beside weights of f32 that are rounded by hand, for every optimizer; what is kept beside them; slots of bf16.
#![allow(clippy::unwrap_used)]

mod common;

use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{DType, Device, Error, ErrorKind, Result, Tensor, bf16, compile, f16, step, step_when};
use adamant_nn::{Linear, Module, Param, Walk, manual_seed, rng_state};
use adamant_optim::*;
use common::set;
use std::sync::Mutex;

type Make = fn(Vec<Param>) -> Box<dyn Optimizer>;
/// Every rule, with what of it is not the default.
fn rules() -> Vec<(&'static str, Make)> {
    vec![
        ("SGD", |p| Box::new(Sgd::new(0.05).over(p))),
        ("SGD, momentum", |p| Box::new(Sgd::new(0.01).momentum(0.9).dampening(0.1).weight_decay(0.01).maximize(true).over(p))),
        ("SGD, Nesterov", |p| Box::new(Sgd::new(0.01).momentum(0.9).nesterov(true).over(p))),
        ("Adam", |p| Box::new(Adam::new(1e-3).weight_decay(0.01).amsgrad(true).over(p))),
        ("AdamW", |p| Box::new(AdamW::new(1e-3).over(p))),
        ("Adamax", |p| Box::new(Adamax::new(1e-3).weight_decay(0.01).over(p))),
        ("NAdam", |p| Box::new(NAdam::new(1e-3).weight_decay(0.01).decoupled_weight_decay(true).over(p))),
        ("RAdam", |p| Box::new(RAdam::new(1e-3).over(p))),
        ("Adagrad", |p| Box::new(Adagrad::new(0.01).lr_decay(0.01).initial_accumulator_value(0.1).over(p))),
        ("Adadelta", |p| Box::new(Adadelta::new(0.1).weight_decay(0.01).over(p))),
        ("RMSprop", |p| Box::new(RmsProp::new(1e-3).centered(true).momentum(0.5).over(p))),
        ("Rprop", |p| Box::new(Rprop::new(1e-3).over(p))),
        ("ASGD", |p| Box::new(Asgd::new(0.01).t0(3.0).over(p))),
        ("Adafactor", |p| Box::new(Adafactor::new(1e-2).weight_decay(0.01).over(p))),
        ("Lion", |p| Box::new(Lion::new(1e-3).weight_decay(0.1).over(p))),
        ("LAMB", |p| Box::new(Lamb::new(1e-3).weight_decay(0.1).over(p))),
        ("Muon", |p| Box::new(Muon::new(1e-3).over(p.into_iter().filter(|p| p.meta().shape.rank() == 2)))),
        ("SparseAdam", |p| Box::new(SparseAdam::new(1e-3).over(p))),
        ("centralised AdamW", |p| Box::new(Centralized(AdamW::new(1e-3)).over(p))),
    ]
}
const STOCHASTIC: WeightUpdate = WeightUpdate::Stochastic { seed: 5 };
const BOTH: [DType; 2] = [DType::BF16, DType::F16];
fn policies(dtype: DType) -> Vec<WeightUpdate> {
    let all = [WeightUpdate::Nearest, STOCHASTIC, WeightUpdate::Kahan, WeightUpdate::Split];
    all.into_iter().filter(|p| dtype != DType::F16 || *p != WeightUpdate::Split).collect()
}
fn bits(state: &[(String, Tensor)]) -> Vec<(String, DType, Vec<u8>)> {
    state.iter().map(|(n, t)| (n.clone(), t.dtype().unwrap(), t.to_bytes().unwrap())).collect()
}
fn sorted(mut bits: Vec<(String, DType, Vec<u8>)>) -> Vec<(String, DType, Vec<u8>)> {
    bits.sort_by(|a, b| a.0.cmp(&b.0));
    bits
}
fn slot(optimizer: &dyn Optimizer, name: &str) -> Tensor {
    optimizer.state_dict().into_iter().find(|(n, _)| n == name).unwrap().1
}
/// Sizes that fill no whole bytes of bits.
fn model(dtype: DType) -> Result<Linear> {
    manual_seed(3);
    let model = Linear::new(7, 5)?;
    model.cast(dtype)?;
    Ok(model)
}
fn drawn(random: &mut Random, p: &Param) -> Tensor {
    let meta = p.meta();
    Tensor::from_vec((0..meta.shape.elements()).map(|_| random.unit() * 2.0 - 1.0).collect::<Vec<f64>>(), meta.shape).cast(meta.dtype)
}
fn walk(optimizer: &mut dyn Optimizer, steps: std::ops::Range<u64>) -> Result<()> {
    let parameters = optimizer.parameters();
    for k in steps {
        let mut random = Random::new(k);
        let gradients: Vec<Tensor> = parameters.iter().map(|p| drawn(&mut random, p)).collect();
        optimizer.step(&set(&parameters, &gradients))?;
    }
    Ok(())
}

/// To nearest even by distances in f64, of a finite number or an infinity.
fn rounded(m: f32) -> u16 {
    let (high, value) = ((m.to_bits() >> 16) as u16, |b: u16| f64::from(f32::from_bits(u32::from(b) << 16)));
    if m.is_infinite() {
        return high;
    }
    // The next number of bf16 may be infinite: it stands where the grid goes on.
    let away = if value(high + 1).is_infinite() { 2f64.powi(128).copysign(f64::from(m)) } else { value(high + 1) };
    let (below, above) = ((f64::from(m) - value(high)).abs(), (away - f64::from(m)).abs());
    if below < above || below == above && high.is_multiple_of(2) { high } else { high + 1 }
}
/// Masters by the documented meaning of the slots.
fn masters(optimizer: &dyn Optimizer, p: &Param) -> Vec<u32> {
    let path = p.path();
    let low = slot(optimizer, &format!("{path}.split_low_bits")).to_vec::<i16>().unwrap();
    let ties = slot(optimizer, &format!("{path}.split_ties")).to_vec::<u8>().unwrap();
    assert_eq!(ties.len(), low.len().div_ceil(8));
    let weights = p.detached().to_vec::<bf16>().unwrap();
    let one = |k: usize| {
        let above = ties[k / 8] >> (k % 8) & 1 == 1;
        assert!(!above || low[k] == i16::MIN);
        (u32::from(weights[k].to_bits()) << 16).wrapping_add_signed(i32::from(low[k]) + if above { 1 << 16 } else { 0 })
    };
    (0..low.len()).map(one).collect()
}
fn f32_bits(t: &Tensor) -> Vec<u32> {
    t.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}
#[test]
fn a_split_weight_that_is_not_its_f32_masters() -> Result<()> {
    for (name, make) in rules() {
        let (split, whole) = (model(DType::BF16)?, model(DType::F32)?);
        for (p, w) in split.parameters().iter().zip(whole.parameters()) {
            // Every third lies on a tie, beside an even or an odd number.
            let planted = |(k, b): (usize, u32)| f32::from_bits(if k.is_multiple_of(3) { b & !0xffff | 0x8000 } else { b });
            let values: Vec<f32> = f32_bits(&w.detached()).into_iter().enumerate().map(planted).collect();
            let values = Tensor::from_vec(values, w.meta().shape);
            w.set(&values)?;
            p.set(&values.cast(DType::BF16))?;
        }
        let (mut optimizer, mut reference) = (make(split.parameters()), make(whole.parameters()));
        let (parameters, wholes) = (optimizer.parameters(), reference.parameters());
        optimizer.set_weight_update(WeightUpdate::Split)?;
        let given: Vec<_> = parameters.iter().zip(&wholes).map(|(p, w)| (p.clone(), w.detached())).collect();
        optimizer.adopt_masters(&given)?;
        let mut random = Random::new(1);
        for k in 0..=200 {
            for (p, w) in parameters.iter().zip(&wholes) {
                let (kept, want) = (masters(&*optimizer, p), f32_bits(&w.detached()));
                assert_eq!(kept, want, "{name}: masters after {k} steps");
                let weights: Vec<u16> = p.detached().to_vec::<bf16>()?.into_iter().map(bf16::to_bits).collect();
                assert_eq!(weights, want.into_iter().map(|b| rounded(f32::from_bits(b))).collect::<Vec<_>>(), "{name}: weights after {k} steps");
            }
            let narrow: Vec<Tensor> = parameters.iter().map(|p| drawn(&mut random, p)).collect();
            let wide: Vec<Tensor> = narrow.iter().map(|g| g.cast(DType::F32)).collect();
            optimizer.step(&set(&parameters, &narrow))?;
            reference.step(&set(&wholes, &wide))?;
        }
    }
    Ok(())
}
#[test]
fn steps_from_tie_to_tie() -> Result<()> {
    let start = Tensor::from_vec((0..64u8).map(|k| bf16::from_f64(1.25 + f64::from(k) / 128.0)).collect(), [64]);
    let (p, w) = (Param::new(&start)?, Param::new(&start.cast(DType::F32))?);
    let mut optimizer = Sgd::new(1.0).over([p.clone()]).weight_update(WeightUpdate::Split).ok()?;
    let mut reference = Sgd::new(1.0).over([w.clone()]).ok()?;
    let (mut random, mut lower, mut upper) = (Random::new(2), 0, 0);
    for _ in 0..50 {
        let half_units: Vec<f32> = (0..64).map(|_| (random.below(3) as f32 - 1.0) / 256.0).collect();
        let g = Tensor::from_vec(half_units, [64]);
        optimizer.step(&set(std::slice::from_ref(&p), &[g.cast(DType::BF16)]))?;
        reference.step(&set(std::slice::from_ref(&w), &[g]))?;
        let (kept, want) = (masters(&optimizer, &p), f32_bits(&w.detached()));
        assert_eq!(kept, want);
        let weights = p.detached().to_vec::<bf16>()?;
        assert_eq!(weights.iter().map(|w| w.to_bits()).collect::<Vec<_>>(), want.iter().map(|b| rounded(f32::from_bits(*b))).collect::<Vec<_>>());
        let beyond = weights.iter().zip(&want).map(|(w, m)| m.wrapping_sub(u32::from(w.to_bits()) << 16) as i32);
        beyond.for_each(|d| (lower, upper) = (lower + usize::from(d == -0x8000), upper + usize::from(d == 0x8000)));
    }
    assert!(lower > 100 && upper > 100, "{lower} lower ties, {upper} upper ones");
    Ok(())
}
/// Masters next to and on the ties of every kind of number.
fn every_kind() -> Vec<f32> {
    let highs = [0u32, 1, 2, 0x7e, 0x7f, 0x80, 0x81, 0x3f7f, 0x3f80, 0x3f81, 0x7f7e, 0x7f7f, 0x7f80];
    let near = |high: u32| [-0x8000i32, -0x7fff, -1, 0, 1, 0x7fff, 0x8000].map(|d| (high << 16).checked_add_signed(d));
    let of_one_sign = highs.into_iter().flat_map(near).flatten().filter(|b| *b <= 0x7f80_0000);
    let both = of_one_sign.flat_map(|b| [f32::from_bits(b), f32::from_bits(b | 1 << 31)]);
    both.chain([f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0x7fff_ffff), f32::MAX, f32::MIN]).collect()
}
fn alike(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}
#[test]
fn a_master_that_does_not_come_back() -> Result<()> {
    let all = every_kind();
    for n in [0, 1, 8, all.len()] {
        for device in [Device::reference(), Device::current()?] {
            device.scoped(|| {
                let values = all[..n].to_vec();
                let master = if n == 1 { Tensor::from_vec(values.clone(), ()) } else { Tensor::from_vec(values.clone(), [n]) };
                let p = Param::new(&master.cast(DType::BF16))?;
                let mut optimizer = Sgd::new(0.5).over([p.clone()]).weight_update(WeightUpdate::Split).ok()?;
                optimizer.adopt_masters(&[(p.clone(), master.clone())])?;
                for _ in 0..3 {
                    let kept = masters(&optimizer, &p);
                    let lost: Vec<_> = kept.iter().zip(&values).filter(|(b, m)| !alike(f32::from_bits(**b), **m)).collect();
                    assert!(lost.is_empty() && kept.len() == n, "{lost:x?}");
                    optimizer.step(&set(std::slice::from_ref(&p), &[p.detached().zeros_like()]))?;
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// What 16-bit numbers a policy makes of f32 numbers: a step of SGD from 0 by the numbers themselves.
fn narrowed(values: &[f32], dtype: DType, by: WeightUpdate) -> Result<Vec<f32>> {
    let p = Param::new(&Tensor::zeros([values.len()]).cast(dtype))?;
    let mut optimizer = Sgd::new(1.0).maximize(true).over([p.clone()]).weight_update(by).ok()?;
    optimizer.step(&set(std::slice::from_ref(&p), &[Tensor::from_vec(values.to_vec(), [values.len()])]))?;
    p.detached().to_vec_as::<f32>()
}
fn nearest(x: f32, dtype: DType) -> f32 {
    if dtype == DType::F16 { f16::from_f32(x).to_f32() } else { bf16::from_f32(x).to_f32() }
}
/// The neighbours of a number in a dtype, by its bits, and the part of the way from the lower to the upper.
fn neighbours(x: f32, dtype: DType) -> (f32, f32, f64) {
    let value = |bits: u16| if dtype == DType::F16 { f16::from_bits(bits).to_f32() } else { bf16::from_bits(bits).to_f32() };
    let size = x.abs();
    let most = if dtype == DType::F16 { 0x7c00 } else { 0x7f80 };
    let below = (0..most).collect::<Vec<u16>>().partition_point(|b| value(*b) <= size) as u16 - 1;
    let (low, high) = (value(below), value(below + 1));
    let part = (f64::from(size) - f64::from(low)) / (f64::from(high) - f64::from(low));
    if x < 0.0 { (-high, -low, 1.0 - part) } else { (low, high, part) }
}
#[test]
fn chance_that_favours_a_side_or_goes_further_than_a_neighbour() -> Result<()> {
    const DRAWS: usize = 20_000;
    for dtype in BOTH {
        let mut random = Random::new(7);
        let ranges = if dtype == DType::F16 { [1.0, 1e3, 6e-5, 3e-6, 1e-8] } else { [1.0, 1e30, 1e-30, 1e-38, 1e-40] };
        for k in 0..20 {
            let x = ((random.unit() * 2.0 - 1.0) * ranges[k % ranges.len()]) as f32;
            let (low, high, part) = neighbours(x, dtype);
            let got = narrowed(&vec![x; DRAWS], dtype, STOCHASTIC)?;
            assert!(got.iter().all(|y| *y == low || *y == high), "{dtype} {x:e}: beyond {low:e} and {high:e}");
            let ups = got.iter().filter(|y| **y == high).count() as f64;
            let sigma = (part * (1.0 - part) * DRAWS as f64).sqrt();
            assert!((ups - part * DRAWS as f64).abs() <= 5.0 * sigma + 1.0, "{dtype} {x:e}: {ups} of {DRAWS} go up, the part is {part}");
        }
    }
    Ok(())
}
#[test]
fn a_representable_or_infinite_number_that_chance_moves() -> Result<()> {
    for dtype in BOTH {
        let beyond: Vec<f32> = if dtype == DType::F16 { vec![65504.0, 65505.0, 65519.9, 65520.0, 1e6] } else { vec![f32::from_bits(0x7f7f_7fff), f32::MAX] };
        let beyond = beyond.into_iter().chain([f32::INFINITY, f32::NAN]);
        let exact = every_kind().into_iter().map(|m| nearest(m, dtype)).chain((-30..16).map(|k| nearest(2f32.powi(k), dtype)));
        let values: Vec<f32> = exact.chain(beyond).flat_map(|x| [x, -x]).collect();
        for seed in 0..20 {
            let got = narrowed(&values, dtype, WeightUpdate::Stochastic { seed })?;
            for (x, y) in values.iter().zip(got) {
                // 0 + x loses the sign of 0.
                assert!(
                    alike(y, nearest(*x, dtype)) || *x == 0.0 && y == 0.0 || x.is_finite() && x.abs() > f32::from_bits(0x7f7f_0000),
                    "{dtype} {x:e}: {y:e}"
                );
                assert!(x.abs() <= f32::from_bits(0x7f7f_0000) || alike(y, nearest(*x, dtype)), "{dtype} {x:e}: {y:e}");
            }
        }
    }
    Ok(())
}
#[test]
fn bits_that_do_not_follow_from_seed_parameter_and_step() -> Result<()> {
    let third = vec![1.0f32 / 3.0; 100];
    for dtype in BOTH {
        let of = |seed| narrowed(&third, dtype, WeightUpdate::Stochastic { seed }).unwrap();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert_ne!(of(1), of(1 | 1 << 32));
        // Two parameters alike, and two steps.
        let p = [0, 1].map(|_| Param::new(&Tensor::zeros([100]).cast(dtype)).unwrap());
        let mut optimizer = Sgd::new(1.0).over(p.clone()).weight_update(STOCHASTIC).ok()?;
        let before = rng_state(Device::current()?)?;
        let mut seen = Vec::new();
        for _ in 0..2 {
            p.iter().try_for_each(|p| p.set(&p.detached().zeros_like()))?;
            optimizer.step(&set(&p, &[0, 1].map(|_| Tensor::from_vec(third.clone(), [100]))))?;
            seen.extend(p.iter().map(|p| p.detached().to_vec_as::<f32>().unwrap()));
        }
        for (i, j) in (0..4).flat_map(|j| (0..j).map(move |i| (i, j))) {
            assert_ne!(seen[i], seen[j], "{i} and {j}");
        }
        assert_eq!(rng_state(Device::current()?)?, before, "the model's generator was asked");
    }
    Ok(())
}
#[test]
fn a_captured_or_held_back_step_that_leaves_other_bits() -> Result<()> {
    for dtype in BOTH {
        for by in policies(dtype) {
            for (name, make) in rules() {
                let run = |captured: bool, held_back: bool| -> Result<_> {
                    let model = model(dtype)?;
                    let mut optimizer = make(model.parameters());
                    optimizer.set_weight_update(by)?;
                    optimizer.set_slot_dtype(if name.len() % 2 == 0 { DType::BF16 } else { DType::F32 })?;
                    let optimizer = Mutex::new(optimizer);
                    let learn = |x: &[Tensor]| {
                        step_when(|| {
                            let loss = model.forward(&x[0])?.square().sum(..);
                            optimizer.lock().unwrap().step(&loss.backward()?)?;
                            Ok((loss.lt(1e6).logical_and(x[1].gt(0.0)), vec![]))
                        })
                    };
                    let whole = compile(learn);
                    for k in 0..5 {
                        let x = Tensor::from_vec((0..14).map(|i| (i * 5 + k * 3) as f32 % 11.0 / 10.0 - 0.5).collect(), [2, 7]).cast(dtype);
                        for on in if held_back { vec![-1.0f32, 1.0, -1.0] } else { vec![1.0] } {
                            let on = Tensor::full([], on, DType::F32);
                            if captured { drop(whole.call(&[&x, &on])?) } else { drop(learn(&[x.clone(), on])?) }
                        }
                    }
                    let optimizer = optimizer.into_inner().unwrap();
                    Ok((bits(&model.state_dict()), bits(&optimizer.state_dict())))
                };
                let plain = run(false, false)?;
                for (captured, held_back) in [(true, false), (false, true), (true, true)] {
                    assert_eq!(run(captured, held_back)?, plain, "{name}, {dtype}, {by:?}, captured: {captured}, held back between: {held_back}");
                }
            }
        }
    }
    Ok(())
}
#[test]
fn a_saved_or_taken_back_step_that_goes_on_otherwise() -> Result<()> {
    let mut rules = rules();
    rules.push(("Lookahead", |p| Box::new(Lookahead::new(Box::new(Adam::new(1e-3).over(p)) as Box<dyn Optimizer>, 2, 0.5).unwrap())));
    for (name, make) in rules {
        for (dtype, by, slots) in BOTH.into_iter().flat_map(|d| policies(d).into_iter().flat_map(move |by| [DType::F32, DType::BF16].map(|s| (d, by, s)))) {
            let made = |model: &Linear, seed: u64| -> Result<_> {
                let mut optimizer = make(model.parameters());
                // The state's bits go on, whatever the seed of who takes it over.
                optimizer.set_weight_update(if by == STOCHASTIC { WeightUpdate::Stochastic { seed } } else { by })?;
                optimizer.set_slot_dtype(slots)?;
                Ok(optimizer)
            };
            let plain = model(dtype)?;
            let mut optimizer = made(&plain, 5)?;
            walk(&mut *optimizer, 0..6)?;
            let want = (bits(&plain.state_dict()), sorted(bits(&optimizer.state_dict())));
            let other = model(dtype)?;
            let mut optimizer = made(&other, 5)?;
            for (k, seed) in (0..6).zip([6, 7, 8, 9, 10, 11]) {
                let failed = step(|| {
                    walk(&mut *optimizer, 50..52)?;
                    Err::<(), _>(Error::new("around", ErrorKind::Domain("no".into())))
                });
                assert!(failed.is_err());
                walk(&mut *optimizer, k..k + 1)?;
                let state = optimizer.state_dict();
                optimizer = made(&other, seed)?;
                optimizer.load_state_dict(&state)?;
            }
            assert_eq!((bits(&other.state_dict()), sorted(bits(&optimizer.state_dict()))), want, "{name}, {dtype}, {by:?}, slots {slots}");
        }
    }
    Ok(())
}
#[test]
fn small_updates_that_are_lost_or_counted_twice() -> Result<()> {
    let sum = |by, update: f64, dtype| -> Result<f64> {
        let p = Param::new(&Tensor::ones([1]).cast(dtype))?;
        let mut optimizer = Sgd::new(update.abs()).over([p.clone()]).weight_update(by).ok()?;
        let grads = set(std::slice::from_ref(&p), &[p.detached().full_like(-update.signum())]);
        (0..10_000).try_for_each(|_| optimizer.step(&grads))?;
        p.detached().item::<f64>()
    };
    for dtype in BOTH {
        assert_eq!(sum(WeightUpdate::Nearest, 1e-4, dtype)?, 1.0);
        for (update, by) in [1e-4, 3e-5, -3e-5].into_iter().flat_map(|u| policies(dtype)[2..].to_vec().into_iter().map(move |by| (u, by))) {
            let (got, want) = (sum(by, update, dtype)?, 1.0 + 1e4 * update);
            let unit = if dtype == DType::F16 { 2f64.powi(-10) } else { 2f64.powi(-7) } * if want < 1.0 { 0.5 } else { 1.0 };
            assert!((got - want).abs() <= unit, "{dtype}, {by:?}: {got} is not {want}");
        }
        // By chance it goes as far on average: here within 5 times the spread of one.
        let got = sum(STOCHASTIC, 1e-4, dtype)?;
        assert!((got - 2.0).abs() < 0.5, "{dtype}: {got}");
    }
    Ok(())
}
#[test]
fn a_weight_of_f32_or_f64_that_a_policy_changes() -> Result<()> {
    for dtype in [DType::F32, DType::F64] {
        for (name, make) in rules() {
            let run = |by: Option<WeightUpdate>| -> Result<_> {
                let model = model(dtype)?;
                let mut optimizer = make(model.parameters());
                by.into_iter().try_for_each(|by| optimizer.set_weight_update(by))?;
                walk(&mut *optimizer, 0..5)?;
                Ok((bits(&model.state_dict()), bits(&optimizer.state_dict())))
            };
            let plain = run(None)?;
            for by in policies(dtype) {
                assert_eq!(run(Some(by))?, plain, "{name}, {dtype}, {by:?}");
            }
        }
    }
    Ok(())
}
#[test]
fn slots_that_are_not_stored_as_told_or_do_not_learn() -> Result<()> {
    for (name, make) in rules() {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            for by in [None, Some(WeightUpdate::Kahan)] {
                let mut optimizer = make(model(dtype)?.parameters());
                by.into_iter().try_for_each(|by| optimizer.set_weight_update(by))?;
                optimizer.set_slot_dtype(DType::BF16)?;
                walk(&mut *optimizer, 0..2)?;
                for (slot, value) in optimizer.state_dict().iter().filter(|(_, t)| t.rank() > 0) {
                    let want = if slot.ends_with("kahan_compensation") { dtype } else { DType::BF16 };
                    assert_eq!(value.dtype()?, want, "{name}, {dtype}, {by:?}: {slot}");
                }
            }
        }
    }
    // A line through points: loss from 10 to nearly nothing.
    for (dtype, bound) in [(DType::F32, 1e-4), (DType::BF16, 1e-3)] {
        manual_seed(3);
        let model = Linear::new(7, 1)?;
        model.cast(dtype)?;
        let mut optimizer = Adam::new(0.02).betas((0.9, 0.99)).over(model.parameters()).slot_dtype(DType::BF16).weight_update(WeightUpdate::Kahan).ok()?;
        let mut random = Random::new(4);
        let x = Tensor::from_vec((0..64 * 7).map(|_| (random.unit() * 2.0 - 1.0) as f32).collect(), [64, 7]).cast(dtype);
        let y = (x.cast(DType::F32).sum_keepdim(1) * 2.0 + 0.5).cast(dtype);
        let loss = || Ok::<_, Error>((model.forward(&x)? - &y).cast(DType::F32).square().mean(..));
        let first = loss()?.item::<f64>()?;
        (0..600).try_for_each(|_| optimizer.step(&loss()?.backward()?))?;
        let last = loss()?.item::<f64>()?;
        assert!(first > 1.0 && last < bound * first, "{dtype}: from {first} to {last}");
    }
    Ok(())
}
#[track_caller]
fn told<T>(result: Result<T>, text: &str) {
    let error = result.err().unwrap().to_string();
    assert!(error.contains(text) && error.contains("tests/weights.rs"), "{error}\nlacks {text}");
}
#[test]
fn a_choice_that_makes_no_sense_and_is_not_told() -> Result<()> {
    let half = || Param::new(&Tensor::ones([3]).cast(DType::F16)).unwrap();
    let brain = || Param::new(&Tensor::ones([3]).cast(DType::BF16)).unwrap();
    let split = |p: Param| Sgd::new(0.1).over([p]).weight_update(WeightUpdate::Split);
    // Of what cannot be: where it is made, and at the first step.
    told(split(half()).ok(), "SGD: the parameter of shape [3]: it is f16, and `WeightUpdate::Split`");
    told(Sgd::new(0.1).over([brain()]).slot_dtype(DType::F16).ok(), "slots are stored in f32 or bf16, not f16");
    let late = half();
    let mut optimizer = split(late.clone());
    told(optimizer.step(&set(std::slice::from_ref(&late), &[late.detached()])), "it is f16");
    let mut optimizer = Sgd::new(0.1).over([late.clone()]).slot_dtype(DType::F64);
    told(optimizer.step(&set(std::slice::from_ref(&late), &[late.detached()])), "not f64");
    // Of an optimizer that is made already; then it is as it was.
    let mut boxed: Box<dyn Optimizer> = Box::new(Sgd::new(0.1).momentum(0.9).over([late.clone()]));
    told(boxed.set_weight_update(WeightUpdate::Split), "the parameter of shape [3]: it is f16");
    told(boxed.set_slot_dtype(DType::I32), "not i32");
    walk(&mut *boxed, 0..1)?;
    told(boxed.set_weight_update(WeightUpdate::Kahan), "before its first step");
    told(boxed.set_slot_dtype(DType::BF16), "before its first step");
    told(boxed.adopt_masters(&[]), "SGD has no `WeightUpdate`");
    let p = brain();
    let mut optimizer = split(p.clone());
    walk(&mut optimizer, 0..1)?;
    told(optimizer.adopt_masters(&[(p.clone(), Tensor::ones([3]))]), "before the first step");
    told(optimizer.slot_dtype(DType::BF16).ok(), "before its first step");
    // Of one that has no choice.
    let mut quasi = Lbfgs::new([p.clone()], LbfgsOptions::default())?;
    told(quasi.set_weight_update(WeightUpdate::Nearest), "LBFGS has no `set_weight_update`: it is unsupported by this optimizer");
    told(quasi.set_slot_dtype(DType::BF16), "unsupported by this optimizer");
    told(quasi.adopt_masters(&[]), "unsupported by this optimizer");
    // Of masters.
    for by in policies(DType::BF16) {
        let (p, wide) = (brain(), Param::new(&Tensor::ones([3]))?);
        let mut optimizer = Sgd::new(0.1).over([p.clone(), wide.clone()]).weight_update(by).ok()?;
        told(optimizer.adopt_masters(&[(brain(), Tensor::ones([3]))]), "the parameter of shape [3] is none of this optimizer's");
        told(optimizer.adopt_masters(&[(p.clone(), Tensor::ones([2]))]), "shape [2]: that of the parameter of shape [3], [3]");
        told(optimizer.adopt_masters(&[(p.clone(), p.detached())]), "its master is bf16, it must be f32");
        let off = Tensor::from_vec(vec![1.0f32, 1.004, 1.0], [3]);
        told(optimizer.adopt_masters(&[(p.clone(), off.clone())]), "element 1 is 1, and its master 1.004 is 1.0078125 in bf16");
        told(optimizer.adopt_masters(&[(wide.clone(), off)]), "element 1 is 1, and its master 1.004 is 1.004 in f32");
        assert!(optimizer.state_dict().is_empty());
        optimizer.adopt_masters(&[(p, Tensor::from_vec(vec![1.0f32, 1.003, 0.999], [3])), (wide, Tensor::ones([3]))])?;
        assert_eq!(optimizer.state_dict().is_empty(), matches!(by, WeightUpdate::Nearest | WeightUpdate::Stochastic { .. }), "{by:?}");
    }
    Ok(())
}
#[test]
fn a_state_of_another_policy_that_is_taken() -> Result<()> {
    for dtype in BOTH {
        let with = |by: Option<WeightUpdate>| -> Result<Box<dyn Optimizer>> {
            let mut optimizer: Box<dyn Optimizer> = Box::new(Adam::new(0.1).over(model(dtype)?.parameters()));
            by.into_iter().try_for_each(|by| optimizer.set_weight_update(by))?;
            Ok(optimizer)
        };
        let all: Vec<_> = policies(dtype).into_iter().map(Some).chain([None]).collect();
        for (from, to) in all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to))) {
            let (mut source, mut target) = (with(from)?, with(to)?);
            walk(&mut *source, 0..2)?;
            let loaded = target.load_state_dict(&source.state_dict());
            let keeps = |by: Option<WeightUpdate>| by.filter(|by| *by != WeightUpdate::Nearest);
            match (keeps(from), keeps(to)) {
                (from, to) if from == to => loaded?,
                (None, _) => told(loaded, "the state is of another policy"),
                _ => told(loaded, "is of another policy: this optimizer has"),
            }
        }
    }
    // Slots that are cut, or of another dtype, or one of two.
    let mut source = Adam::new(0.1).over(model(DType::BF16)?.parameters()).weight_update(WeightUpdate::Split).ok()?;
    walk(&mut source, 0..2)?;
    let mut target = Adam::new(0.1).over(model(DType::BF16)?.parameters()).weight_update(WeightUpdate::Split).ok()?;
    let changed = |name: &str, value: Option<Tensor>| -> Vec<(String, Tensor)> {
        let change = |(n, t): (String, Tensor)| if n == name { value.clone().map(|v| (n, v)) } else { Some((n, t)) };
        source.state_dict().into_iter().filter_map(change).collect()
    };
    told(target.load_state_dict(&changed("bias.split_ties", None)), "there is no `bias.split_ties`, which WeightUpdate::Split keeps");
    told(target.load_state_dict(&changed("bias.split_ties", Some(Tensor::zeros([2]).cast(DType::U8)))), "`bias.split_ties` is u8 [2]");
    told(target.load_state_dict(&changed("weight.split_low_bits", Some(Tensor::zeros([5, 7])))), "`weight.split_low_bits` is f32 [5, 7]");
    target.load_state_dict(&[])?;
    target.load_state_dict(&source.state_dict())
}
#[test]
fn a_rate_of_zero_that_a_schedule_brought_and_that_a_resumed_run_refuses() -> Result<()> {
    for (name, make) in rules() {
        let model = model(DType::F32)?;
        let mut optimizer = make(model.parameters());
        let groups = optimizer.lrs().len();
        optimizer.set_lrs(&vec![0.0; groups]);
        let numbers = optimizer.hyperparameters();
        let mut resumed = make(model.parameters());
        resumed.set_hyperparameters(&numbers).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((resumed.lrs(), resumed.hyperparameters()), (vec![0.0; groups], numbers.clone()), "{name}");
        // What no schedule brings is refused as ever, and changes nothing.
        for bad in [f64::NAN, -1.0] {
            let mut spoiled = numbers.clone();
            spoiled.iter_mut().for_each(|group| group.iter_mut().filter(|(n, _)| n.as_str() == "lr").for_each(|(_, v)| *v = bad));
            assert!(resumed.set_hyperparameters(&spoiled).is_err(), "{name}: a rate of {bad}");
            assert_eq!(resumed.hyperparameters(), numbers, "{name}");
        }
    }
    Ok(())
}
