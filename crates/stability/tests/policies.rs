//! Every policy against its formula in plain f64: faults of all kinds in all places of a step, random dtypes and options, bad steps in a row.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{Cell, DType, Device, Grads, Result, Tensor, compile, no_grad, step};
use adamant_nn::Param;
use adamant_stability::{HandlingType, NanHandler, NanOptions};
use std::cell::RefCell;

const RATE: f64 = 0.125;
const MOMENTUM: f64 = 0.5;
const ELEMENTS: usize = 6;
/// Where a fault is planted.
const PLACES: [&str; 6] = ["loss", "gradient", "weight", "slot", "activation", "buffer"];
/// What is planted: the last is a gradient a million times too large.
const FAULTS: [(&str, f64); 5] = [("NaN", f64::NAN), ("+Inf", f64::INFINITY), ("-Inf", f64::NEG_INFINITY), ("overflow", 3e6), ("explosion", 1e6)];

/// What a step holds on to, and what it is given, as numbers.
#[derive(Clone, Debug)]
struct Numbers {
    weight: Vec<f64>,
    slot: Vec<f64>,
    buffer: Vec<f64>,
}
#[derive(Clone, Debug)]
struct Given {
    loss: f64,
    gradient: Vec<f64>,
    activation: Vec<f64>,
    statistic: Vec<f64>,
}
/// A policy as plain numbers, written apart.
struct PlainPolicy {
    options: NanOptions,
    consecutive: u32,
    latched: bool,
    bad: u32,
}
fn kinds<'a>(all: impl IntoIterator<Item = &'a f64>, o: &NanOptions) -> [bool; 3] {
    let mut seen = [false; 3];
    for x in all {
        seen[0] |= o.detect_nan && x.is_nan();
        seen[1] |= o.detect_inf && x.is_infinite();
        seen[2] |= o.detect_overflow && x.is_finite() && x.abs() > o.overflow_threshold;
    }
    seen
}
impl PlainPolicy {
    fn replaced(o: &NanOptions, x: f64, largest: f64) -> f64 {
        match x {
            x if x.is_nan() && o.detect_nan => o.nan_replacement,
            x if x.is_infinite() && o.detect_inf => o.inf_replacement.min(largest).copysign(x),
            x if o.detect_overflow && x.is_finite() && x.abs() > o.overflow_threshold => o.overflow_replacement.min(largest).copysign(x),
            x => x,
        }
    }
    fn step(&mut self, now: &Numbers, given: &Given, round: &dyn Fn(f64) -> f64, largest: f64) -> Numbers {
        let o = self.options.clone();
        let mut seen = [false; 3];
        let mut look = |all: &[f64], on: bool| {
            let of = if on { kinds(all, &o) } else { [false; 3] };
            (0..3).for_each(|k| seen[k] |= of[k]);
        };
        look(&[given.loss], o.loss_checking);
        look(&given.gradient, o.gradient_checking);
        // The kinds by which gradients are changed are those of loss and gradients.
        let mut by = seen;
        if !o.loss_checking && !o.gradient_checking {
            by = [false; 3];
        }
        let mut look = |all: &[f64], on: bool| {
            let of = if on { kinds(all, &o) } else { [false; 3] };
            (0..3).for_each(|k| seen[k] |= of[k]);
        };
        look(&given.activation, o.activation_checking);
        let severity = f64::from(u8::from(by[0])) + 0.7 * f64::from(u8::from(by[1])) + 0.3 * f64::from(u8::from(by[2]));
        let factor = match o.handling_type {
            HandlingType::GradientZeroing if by.contains(&true) => None,
            HandlingType::Adaptive if severity >= 1.5 => None,
            HandlingType::Adaptive if severity > 0.0 && severity < 0.8 => Some(0.5),
            HandlingType::GradientScaling if by[0] => Some(0.1),
            HandlingType::GradientScaling if by[1] => Some(0.3),
            HandlingType::GradientScaling if by[2] => Some(0.7),
            _ => Some(1.0),
        };
        let mends = matches!(o.handling_type, HandlingType::Replace | HandlingType::GradientZeroing | HandlingType::Adaptive | HandlingType::GradientScaling);
        let gradient: Vec<f64> = given
            .gradient
            .iter()
            .map(|g| match (mends, factor, o.handling_type) {
                (false, ..) => *g,
                (true, None, _) => 0.0,
                (true, Some(_), HandlingType::GradientZeroing) => *g,
                (true, Some(f), _) => round(Self::replaced(&o, *g, largest) * f),
            })
            .collect();
        let slot: Vec<f64> = now.slot.iter().zip(&gradient).map(|(m, g)| round(MOMENTUM * m + g)).collect();
        let weight: Vec<f64> = now.weight.iter().zip(&slot).map(|(w, m)| round(w - RATE * m)).collect();
        let buffer: Vec<f64> = now.buffer.iter().zip(&given.statistic).map(|(b, s)| round(0.5 * b + 0.5 * s)).collect();
        let next = Numbers { weight, slot, buffer };
        let finite = |n: &Numbers| n.weight.iter().chain(&n.slot).chain(&n.buffer).all(|x| x.is_finite());
        let good = !seen.contains(&true) && (!o.parameter_checking || finite(&next));
        let latched = self.latched;
        if o.handling_type != HandlingType::Detect {
            let over = if o.handling_type.latches() { !good } else { !good && self.consecutive >= o.max_consecutive };
            self.latched |= over;
        }
        if !latched && !o.handling_type.latches() {
            self.bad += u32::from(!good);
            self.consecutive = if good { 0 } else { self.consecutive + 1 };
        }
        let mend = |new: &[f64], before: &[f64]| -> Vec<f64> {
            let all = NanOptions { detect_nan: true, detect_inf: true, detect_overflow: false, ..o.clone() };
            let of = |(n, b): (&f64, &f64)| match (n.is_finite(), b.is_finite()) {
                (true, _) => *n,
                (false, true) => *b,
                (false, false) => round(Self::replaced(&all, *n, largest)),
            };
            new.iter().zip(before).map(of).collect()
        };
        match o.handling_type {
            HandlingType::Detect => next,
            _ if self.latched => now.clone(),
            _ if mends && o.parameter_checking => {
                Numbers { weight: mend(&next.weight, &now.weight), slot: mend(&next.slot, &now.slot), buffer: mend(&next.buffer, &now.buffer) }
            }
            _ if mends => next,
            _ if good => next,
            _ => now.clone(),
        }
    }
}
/// The same step with tensors.
struct Machine {
    weight: Param,
    slot: Cell,
    buffer: Cell,
    count: Cell,
}
fn tensor(values: &[f64], dtype: DType) -> Tensor {
    Tensor::from_vec(values.to_vec(), [values.len()]).cast(dtype)
}
impl Machine {
    fn new(n: &Numbers, dtype: DType) -> Machine {
        let count = Cell::new(&Tensor::from_vec(vec![0u32], ()), false).unwrap();
        Machine {
            weight: Param::new(&tensor(&n.weight, dtype)).unwrap(),
            slot: Cell::new(&tensor(&n.slot, dtype), false).unwrap(),
            buffer: Cell::new(&tensor(&n.buffer, dtype), false).unwrap(),
            count,
        }
    }
    fn numbers(&self) -> Numbers {
        let read = |t: Tensor| t.to_vec_as::<f64>().unwrap();
        Numbers { weight: read(self.weight.detached()), slot: read(self.slot.detached()), buffer: read(self.buffer.detached()) }
    }
    fn step(&self, handler: &mut NanHandler, given: &[&Tensor], dtype: DType) -> Result<()> {
        let [loss, gradient, activation, statistic] = given else { unreachable!() };
        handler.attempt(|handler| {
            // An activation that no loss and no gradient depends on.
            let seen = (self.weight.get().zeros_like() + *activation).sin();
            drop(seen);
            self.count.set(&(self.count.detached() + 1u32))?;
            no_grad(|| self.buffer.set(&(self.buffer.detached() * 0.5 + *statistic * 0.5)))?;
            let mut grads = Grads::default();
            grads.set(&self.weight.cell(), (*gradient).clone());
            handler.handle(loss, &mut grads, std::slice::from_ref(&self.weight))?;
            no_grad(|| {
                let g = grads.of(&self.weight.cell()).unwrap().cast(dtype);
                let m = self.slot.detached() * MOMENTUM + &g;
                self.slot.set(&m)?;
                self.weight.set(&(self.weight.detached() - m * RATE))
            })
        })
    }
}
fn near(a: &[f64], b: &[f64], tolerance: f64) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * b.abs().max(1e-3))
}
fn drawn(random: &mut Random) -> NanOptions {
    let mut on = |odds: usize| random.below(odds) != 0;
    let mut o = NanOptions {
        detect_nan: on(6),
        detect_inf: on(6),
        detect_overflow: on(3),
        loss_checking: on(6),
        gradient_checking: on(6),
        parameter_checking: on(4),
        activation_checking: !on(3),
        ..NanOptions::default()
    };
    o.nan_replacement = [0.0, 0.25][random.below(2)];
    o.inf_replacement = [1e6, 1e3][random.below(2)];
    o.overflow_threshold = [1e6, 1e5][random.below(2)];
    o.overflow_replacement = [1e6, 1e2][random.below(2)];
    o.max_consecutive = random.below(4) as u32;
    if o.check().is_err() { NanOptions { handling_type: HandlingType::Stop, ..NanOptions::default() } } else { o }
}
/// Random numbers that every dtype holds.
fn some(random: &mut Random) -> Vec<f64> {
    (0..ELEMENTS).map(|_| (random.below(129) as f64 - 64.0) / 32.0).collect()
}
struct Case {
    policy: HandlingType,
    place: &'static str,
    fault: (&'static str, f64),
    dtype: DType,
    options: NanOptions,
    seed: u64,
}
impl Case {
    /// Five steps, of which some are bad: tensors and plain numbers stay together. Gives whether the fault made a difference to the plain numbers.
    fn agrees(&self, planted: f64) -> std::result::Result<(), String> {
        let mut random = Random::new(self.seed);
        let dtype = self.dtype;
        let rounded = |x: f64| Tensor::from_vec(vec![x], ()).cast(dtype).item::<f64>().unwrap();
        let round: &dyn Fn(f64) -> f64 = match dtype {
            DType::F64 => &|x| x,
            _ => &rounded,
        };
        let mut now = Numbers { weight: some(&mut random), slot: some(&mut random), buffer: some(&mut random) };
        let at = random.below(ELEMENTS);
        let (name, value) = self.fault;
        let put = |into: &mut Vec<f64>| match name {
            "explosion" => into.iter_mut().for_each(|x| *x = round(*x * value)),
            _ => into[at] = round(value),
        };
        match self.place {
            "weight" => put(&mut now.weight),
            "slot" => put(&mut now.slot),
            _ => {}
        }
        let machine = Machine::new(&now, dtype);
        let options = NanOptions { handling_type: self.policy, ..self.options.clone() };
        let mut handler = NanHandler::new(NanOptions { inf_replacement: options.inf_replacement * planted, ..options.clone() }).unwrap();
        let mut plain = PlainPolicy { options: options.clone(), consecutive: 0, latched: false, bad: 0 };
        for k in 0..5 {
            let is_bad = random.below(3) != 0;
            let mut given = Given { loss: 1.5, gradient: some(&mut random), activation: some(&mut random), statistic: some(&mut random) };
            if is_bad {
                match self.place {
                    "loss" => given.loss = round(value),
                    "gradient" => put(&mut given.gradient),
                    "activation" => given.activation[at] = if name == "overflow" || name == "explosion" { f64::INFINITY } else { value },
                    "buffer" => put(&mut given.statistic),
                    _ => {}
                }
            }
            let tensors =
                [tensor(&[given.loss], dtype).reshape(()), tensor(&given.gradient, dtype), tensor(&given.activation, dtype), tensor(&given.statistic, dtype)];
            machine.step(&mut handler, &tensors.iter().collect::<Vec<_>>(), dtype).unwrap();
            // The sine of an infinity is NaN.
            given.activation = given.activation.iter().flat_map(|x| [*x, x.sin()]).collect();
            now = plain.step(&now, &given, round, dtype.largest().unwrap());
            let is = machine.numbers();
            let tolerance = match dtype {
                DType::F64 => 1e-12,
                DType::F32 => 1e-6,
                DType::F16 => 4e-3,
                _ => 3e-2,
            };
            for (what, a, b) in [("weight", &is.weight, &now.weight), ("slot", &is.slot, &now.slot), ("buffer", &is.buffer, &now.buffer)] {
                if !near(a, b, tolerance) {
                    return Err(format!("step {k}: {what} {a:?}, by the formula {b:?}"));
                }
            }
            if self.policy != HandlingType::Detect && options.parameter_checking {
                let repaired = is.weight.iter().chain(&is.slot).chain(&is.buffer).all(|x| x.is_finite());
                let mends = !(self.policy.latches() || self.policy == HandlingType::Skip || plain.latched);
                if mends && !repaired {
                    return Err(format!("step {k}: not finite after it was handled: {is:?}"));
                }
            }
            let stats = handler.look().unwrap();
            if (stats.latched, stats.bad, stats.consecutive) != (plain.latched, plain.bad, plain.consecutive) {
                return Err(format!("step {k}: {stats:?}, by the formula latched {}, bad {}, {} in a row", plain.latched, plain.bad, plain.consecutive));
            }
            // What was rounded otherwise goes on as the tensors have it.
            now = is;
        }
        Ok(())
    }
}
fn cases(seeds: u64) -> Vec<Case> {
    let mut all = Vec::new();
    for seed in 0..seeds {
        for policy in HandlingType::ALL {
            for place in PLACES {
                for fault in FAULTS {
                    let seed = seed * 1000 + all.len() as u64;
                    let mut random = Random::new(seed ^ 0xABCD);
                    let dtype = [DType::F32, DType::F64, DType::BF16, DType::F16][random.below(4)];
                    all.push(Case { policy, place, fault, dtype, options: drawn(&mut random), seed });
                }
            }
        }
    }
    all
}
#[test]
fn a_policy_that_does_not_do_what_its_formula_says() {
    Device::cpu().unwrap().scoped(|| {
        let mut noticed = 0;
        for case in cases(4) {
            let of = |said: String| {
                format!("{} of {} in the {}, {}, seed {}: {said}\n{:?}", case.policy, case.fault.0, case.place, case.dtype, case.seed, case.options)
            };
            case.agrees(1.0).map_err(of).unwrap();
            // An infinity replaced by a number that is off by 1 %.
            noticed += usize::from(case.agrees(1.01).is_err());
        }
        assert!(noticed >= 10, "{noticed}");
    });
}
#[test]
fn what_a_step_comes_to_where_it_is_captured_or_resumed() {
    Device::cpu().unwrap().scoped(|| {
        for policy in HandlingType::ALL {
            for place in ["loss", "gradient", "buffer"] {
                let mut random = Random::new(7);
                let first = Numbers { weight: some(&mut random), slot: some(&mut random), buffer: some(&mut random) };
                let options = NanOptions { detect_overflow: true, max_consecutive: 2, ..policy.into() };
                let steps: Vec<[Tensor; 4]> = (0..8)
                    .map(|k| {
                        let mut given = Given { loss: 1.0, gradient: some(&mut random), activation: some(&mut random), statistic: some(&mut random) };
                        if [2, 5].contains(&k) {
                            match place {
                                "loss" => given.loss = f64::NAN,
                                "gradient" => given.gradient[1] = f64::NEG_INFINITY,
                                _ => given.statistic[2] = f64::NAN,
                            }
                        }
                        let of = |v: &[f64]| tensor(v, DType::F32);
                        [of(&[given.loss]).reshape(()), of(&given.gradient), of(&given.activation), of(&given.statistic)]
                    })
                    .collect();
                let by_op = Machine::new(&first, DType::F32);
                let mut handler = NanHandler::new(options.clone()).unwrap();
                handler.prepare(Device::cpu().unwrap()).unwrap();
                let captured = Machine::new(&first, DType::F32);
                let of_captured = RefCell::new(NanHandler::new(options.clone()).unwrap());
                of_captured.borrow_mut().prepare(Device::cpu().unwrap()).unwrap();
                let compiled = compile(|given: &[Tensor]| {
                    captured.step(&mut of_captured.borrow_mut(), &given.iter().collect::<Vec<_>>(), DType::F32)?;
                    Ok(vec![])
                });
                for (k, given) in steps.iter().enumerate() {
                    if k == 4 && !policy.latches() {
                        let mut resumed = NanHandler::new(options.clone()).unwrap();
                        resumed.load_state_dict(&handler.state_dict()).unwrap();
                        handler = resumed;
                    }
                    let given: Vec<&Tensor> = given.iter().collect();
                    by_op.step(&mut handler, &given, DType::F32).unwrap();
                    compiled.call(&given).unwrap();
                    let bits = |n: Numbers| [n.weight, n.slot, n.buffer].concat().into_iter().map(f64::to_bits).collect::<Vec<_>>();
                    assert_eq!(bits(by_op.numbers()), bits(captured.numbers()), "{policy} {place} step {k}");
                }
                let (a, b) = (handler.look().unwrap(), of_captured.borrow().look().unwrap());
                assert_eq!((a.bad, a.latched, a.nan, a.inf), (b.bad, b.latched, b.nan, b.inf), "{policy} {place}");
                if policy.latches() {
                    assert_eq!((a.latched, a.steps), (true, 2), "{policy} {place}: the third step is bad");
                    let before = by_op.numbers();
                    handler.reopen().unwrap();
                    by_op.step(&mut handler, &steps[0].iter().collect::<Vec<_>>(), DType::F32).unwrap();
                    assert_ne!(format!("{before:?}"), format!("{:?}", by_op.numbers()), "{policy}: it commits again");
                }
            }
        }
    });
}
#[test]
fn a_wrong_call_that_is_taken() {
    Device::cpu().unwrap().scoped(|| {
        let said = |options: NanOptions| NanHandler::new(options).err().unwrap().to_string();
        assert!(said(NanOptions { inf_replacement: f64::INFINITY, ..NanOptions::default() }).contains("inf_replacement is inf"));
        assert!(said(NanOptions { nan_replacement: f64::NAN, ..NanOptions::default() }).contains("nan_replacement is NaN"));
        assert!(said(NanOptions { overflow_threshold: 0.0, ..NanOptions::default() }).contains("overflow_threshold is 0"));
        assert!(said(NanOptions { detect_nan: false, detect_inf: false, ..NanOptions::default() }).contains("nothing is bad then"));
        assert!(said(NanOptions { explosion_factor: 1.0, ..NanOptions::default() }).contains("explosion_factor is 1"));
        assert!(said(NanOptions { detect_explosion: true, gradient_checking: false, ..NanOptions::default() }).contains("gradient_checking is off"));
        assert!(HandlingType::from_name("skipp").unwrap_err().to_string().contains("there are detect, replace"));
        let mut handler = NanHandler::new(HandlingType::Skip).unwrap();
        let (loss, w) = (Tensor::ones(()), Param::new(&Tensor::ones([2])).unwrap());
        assert!(handler.handle(&loss, &mut Grads::default(), &[]).unwrap_err().to_string().contains("inside of `attempt`"));
        let before = w.detached();
        let without = handler.attempt(|_| w.set(&(w.detached() * 2.0)));
        assert!(without.unwrap_err().to_string().contains("did not hand over its gradients"));
        let twice = handler.attempt(|handler| {
            handler.handle(&loss, &mut Grads::default(), &[])?;
            handler.handle(&loss, &mut Grads::default(), &[])
        });
        assert!(twice.unwrap_err().to_string().contains("handled already"));
        assert!(w.detached().equal(&before).unwrap());
        assert!(handler.load_state_dict(&[("count".into(), Tensor::ones([5]))]).unwrap_err().to_string().contains("no `count`"));
        assert!(handler.load_state_dict(&[("counts".into(), Tensor::ones([4]))]).unwrap_err().to_string().contains("shape"));
        // A step around it takes it back.
        let taken_back: Result<()> = step(|| {
            handler.attempt(|handler| {
                handler.handle(&loss, &mut Grads::default(), &[])?;
                w.set(&(w.detached() * 2.0))
            })?;
            Err(adamant_core::Error::new("test", adamant_core::ErrorKind::Argument("no".into())))
        });
        assert!(taken_back.is_err() && w.detached().equal(&before).unwrap());
    });
}
/// The largest norm of late, by its formula in f64; whether a norm is an explosion, and what the gradients of the step become.
#[derive(Default)]
struct NormHistory {
    largest: f64,
    known: u32,
    row: u32,
    bad: u32,
    latched: bool,
}
impl NormHistory {
    fn step(&mut self, gradient: &[f64], o: &NanOptions) -> Option<Vec<f64>> {
        if self.latched {
            return None;
        }
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        let explodes = self.known >= 3 && norm > o.explosion_factor * self.largest;
        if !explodes {
            (self.largest, self.known, self.row) = (norm.max(0.99 * self.largest), self.known + 1, 0);
            return Some(gradient.to_vec());
        }
        (self.bad, self.row) = (self.bad + 1, self.row + 1);
        self.latched = o.handling_type.latches() || (o.handling_type != HandlingType::Detect && self.row > o.max_consecutive);
        match o.handling_type {
            _ if self.latched => None,
            HandlingType::Detect => Some(gradient.to_vec()),
            HandlingType::GradientZeroing => Some(vec![0.0; gradient.len()]),
            HandlingType::Replace | HandlingType::Adaptive | HandlingType::GradientScaling => Some(gradient.iter().map(|g| g * self.largest / norm).collect()),
            _ => None,
        }
    }
}
#[test]
fn explosions_that_are_not_handled_by_their_formula() {
    Device::cpu().unwrap().scoped(|| {
        let mut seen = 0;
        for policy in HandlingType::ALL {
            for seed in 0..12u64 {
                let mut random = Random::new(seed);
                let options = NanOptions { detect_explosion: true, explosion_factor: [5.0, 100.0][seed as usize % 2], max_consecutive: 2, ..policy.into() };
                let (a, b) = (Param::new(&Tensor::zeros([3])).unwrap(), Param::new(&Tensor::zeros([2])).unwrap());
                let mut handler = NanHandler::new(options.clone()).unwrap();
                let (mut history, mut weights) = (NormHistory::default(), [0.0f64; 5]);
                for k in 0..30 {
                    let size = if random.one_in(5) { 1e6 } else { 1.0 + 3.0 * random.unit() };
                    let gradient: Vec<f64> = (0..5).map(|_| f64::from(((random.unit() * 2.0 - 1.0) * size) as f32)).collect();
                    let given = Tensor::from_vec(gradient.iter().map(|g| *g as f32).collect::<Vec<_>>(), [5]);
                    handler
                        .attempt(|handler| {
                            let loss = (a.get() * given.narrow(0, 0, 3)).sum(..) + (b.get() * given.narrow(0, 3, 2)).sum(..);
                            let parameters = [a.clone(), b.clone()];
                            let mut grads = loss.backward()?;
                            handler.handle(&loss, &mut grads, &parameters)?;
                            parameters.iter().try_for_each(|p| p.set(&(p.detached() - grads.of(&p.cell()).unwrap() * RATE)))
                        })
                        .unwrap();
                    if let Some(mended) = history.step(&gradient, &options) {
                        weights.iter_mut().zip(mended).for_each(|(w, g)| *w -= RATE * g);
                    }
                    let got: Vec<f64> = [a.detached(), b.detached()].iter().flat_map(|p| p.to_vec_as::<f64>().unwrap()).collect();
                    let size = weights.iter().fold(1.0f64, |most, w| most.max(w.abs()));
                    let near = got.iter().zip(&weights).all(|(got, want)| (got - want).abs() <= 1e-5 * size);
                    assert!(near, "{policy}, seed {seed}, step {k}: {got:?}, not {weights:?}");
                }
                let stats = handler.look().unwrap();
                assert_eq!(stats.latched, history.latched, "{policy}, seed {seed}");
                if !policy.latches() {
                    assert_eq!((stats.bad, stats.explosion), (history.bad, history.bad), "{policy}, seed {seed}");
                    // Another handler goes on with what this one knows.
                    let mut other = NanHandler::new(options).unwrap();
                    other.load_state_dict(&handler.state_dict()).unwrap();
                    assert_eq!(format!("{:?}", other.state_dict()), format!("{:?}", handler.state_dict()));
                }
                seen += history.bad;
            }
        }
        assert!(seen > 150, "{seen} explosions");
    });
}
