//! Mode full against a rule of its own: every value of a step is read by the host and judged one by one.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{DType, Device, Result, Tensor, compile, no_grad};
use adamant_nn::Param;
use adamant_stability::{
    HandlingType, NanHandler, NanOptions, NumberStats, OpVisitor, StepPhase, TraceOptions, ValueChange, VisitedOp, VisitedValues, WatchMode, trace_with,
    visit_ops,
};
use std::{
    cell::RefCell,
    collections::HashMap,
    sync::{Arc, Mutex},
};

fn full(handling_type: HandlingType) -> NanOptions {
    NanOptions { handling_type, mode: WatchMode::Full, ..NanOptions::default() }
}
/// Reads each value, and judges it by what its op was given.
#[derive(Default)]
struct PlainJudge {
    bad: Mutex<Vec<String>>,
    /// where a value only moved from: whether an infinity in it was asked for
    meant: Mutex<HashMap<u64, (Tensor, bool)>>,
}
impl OpVisitor for PlainJudge {
    fn visit(&self, seen: &VisitedOp) -> Vec<ValueChange> {
        let has_infinity = |x: &Tensor| NumberStats::of(x).is_ok_and(|s| s.non_finite > s.nan);
        let is_float = |x: &&Tensor| x.dtype().is_ok_and(DType::is_float);
        let is_result = seen.shows == VisitedValues::Results;
        let mut meant = self.meant.lock().unwrap();
        let is_meant = |x: &Tensor| meant.get(&x.value_address()).is_some_and(|(_, is)| *is);
        let excused = is_result && (seen.fills_infinity || seen.inputs.iter().filter(is_float).any(|x| has_infinity(x) || is_meant(x)));
        let moved = seen.moves && (seen.fills_infinity || seen.inputs.iter().any(is_meant));
        for value in seen.values.iter().flatten().filter(is_float) {
            let stats = NumberStats::of(value).unwrap();
            if is_result {
                meant.insert(value.value_address(), (value.clone(), moved));
            }
            if !seen.moves && (stats.nan > 0 || stats.non_finite > 0 && !excused) {
                self.bad.lock().unwrap().push(format!("{} of {}", seen.shows.name(), seen.op));
            }
        }
        Vec::new()
    }
}
/// A program of random ops, whose loss is finite, whatever happens on the way there.
struct DrawnStep {
    seed: u64,
    weight: Param,
    data: Tensor,
}
impl DrawnStep {
    fn new(seed: u64) -> DrawnStep {
        let mut random = Random::new(seed ^ 0x51);
        let mut draw =
            |scale: f64| Tensor::from_vec((0..24).map(|_| (random.below(2001) as f64 / 1000.0 - 1.0) * scale).collect::<Vec<_>>(), [4, 6]).cast(DType::F32);
        let weight = Param::new(&draw(1.0)).unwrap();
        DrawnStep { seed, weight, data: draw(2.0) }
    }
    /// Sees finite numbers alone, forward and back.
    fn cleaned(x: &Tensor) -> Tensor {
        let mask = x.detach().isfinite();
        mask.where_(x, x.zeros_like())
    }
    fn loss(&self, data: &Tensor) -> Tensor {
        let mut random = Random::new(self.seed);
        let mut x = self.weight.get() * data + 0.5;
        for _ in 0..1 + random.below(5) {
            let positions = Tensor::from_vec((0..24).map(|_| random.below(4) == 0).collect::<Vec<_>>(), [4, 6]);
            x = match random.below(14) {
                0 => x.exp(),
                1 => (&x * 40.0).exp(),
                2 => x.log(),
                3 => x.abs().sqrt(),
                4 => x.tanh(),
                5 => x.masked_fill(&positions, f64::NEG_INFINITY).softmax(1),
                6 => x.masked_fill(&positions, f64::NEG_INFINITY),
                7 => x.reciprocal() * 0.1,
                8 => &x * &x,
                9 => x.cast(DType::F16).cast(DType::F32),
                10 => (&x * 1e3).cast(DType::F16).cast(DType::F32),
                11 => Tensor::cat(&[x.narrow(0, 2, 2), x.narrow(0, 0, 2)], 0),
                12 => DrawnStep::cleaned(&x),
                _ => x.relu() / (x.sum_keepdim(1) + 1.0),
            };
        }
        DrawnStep::cleaned(&x).tanh().mean(..)
    }
    fn learn(&self, data: &Tensor, handle: impl FnOnce(&Tensor, &mut adamant_core::Grads) -> Result<()>) -> Result<()> {
        let loss = self.loss(data);
        let mut grads = loss.backward()?;
        handle(&loss, &mut grads)?;
        no_grad(|| {
            let Some(g) = grads.of(&self.weight.cell()).cloned() else { return Ok(()) };
            self.weight.set(&(self.weight.detached() - g * 0.01))
        })
    }
    /// What a judge that reads all finds.
    fn judged(&self) -> Vec<String> {
        let judge = Arc::new(PlainJudge::default());
        // Taken back, so that all judges see the same weights.
        let before = self.weight.detached().to_vec::<f32>().unwrap();
        visit_ops(judge.clone(), || self.learn(&self.data, |_, _| Ok(()))).unwrap();
        no_grad(|| self.weight.set(&Tensor::from_vec(before, [4, 6]))).unwrap();
        std::mem::take(&mut *judge.bad.lock().unwrap())
    }
    fn handled(&self, captured: bool) -> bool {
        let handler = RefCell::new(NanHandler::new(full(HandlingType::Skip)).unwrap());
        let step = |x: &[Tensor]| {
            handler.borrow_mut().attempt(|handler| {
                self.learn(&x[0], |loss, grads| handler.handle(loss, grads, std::slice::from_ref(&self.weight)))?;
                Ok(Vec::new())
            })
        };
        if captured {
            handler.borrow_mut().prepare(self.data.device().unwrap()).unwrap();
            compile(step).call(&[&self.data]).unwrap();
        } else {
            step(std::slice::from_ref(&self.data)).unwrap();
        }
        let stats = handler.borrow().look().unwrap();
        assert_eq!(stats.steps, 1);
        stats.bad == 1
    }
}
#[test]
fn a_step_that_is_judged_otherwise_than_value_by_value() {
    let (mut bad, mut good, mut hidden) = (0, 0, 0);
    for device in [Device::reference(), Device::cpu().unwrap()] {
        device.scoped(|| {
            for seed in 0..150 {
                let found = DrawnStep::new(seed).judged();
                for captured in [false, true] {
                    let step = DrawnStep::new(seed);
                    assert_eq!(step.handled(captured), !found.is_empty(), "seed {seed} on {device}, captured: {captured}: {found:?}");
                }
                if found.is_empty() {
                    good += 1
                } else {
                    bad += 1
                }
                // A watch over what the step comes to does not see it.
                let mut watch = NanHandler::new(HandlingType::Skip).unwrap();
                let step = DrawnStep::new(seed);
                watch.attempt(|h| step.learn(&step.data, |loss, grads| h.handle(loss, grads, std::slice::from_ref(&step.weight)))).unwrap();
                hidden += usize::from(!found.is_empty() && watch.look().unwrap().bad == 0);
            }
        });
    }
    assert!(bad > 60 && good > 60 && hidden > 15, "{bad} bad, {good} good, {hidden} that reach nothing");
}
/// Bad numbers that reach neither the loss nor a weight: the op that makes each, and the part of the step.
#[test]
fn a_bad_number_that_reaches_nothing_and_has_no_origin() {
    type Planted = fn(&Tensor) -> Tensor;
    let hidden: [(&str, StepPhase, &str, Planted); 5] = [
        ("log", StepPhase::Loss, "-Inf", |w| {
            let y = w.detach().zeros_like().log();
            w.sum(..) + y.gt(0.0).cast(DType::F32).sum(..)
        }),
        ("sqrt", StepPhase::Loss, "NaN", |w| {
            let y = (w.detach() - 9.0).sqrt();
            w.sum(..) + y.isnan().logical_not().where_(&y, y.zeros_like()).sum(..)
        }),
        ("exp", StepPhase::Loss, "+Inf", |w| w.sum(..) + (w.detach() * 200.0 + 200.0).exp().clamp_max(1.0).sum(..)),
        ("div", StepPhase::Loss, "NaN", |w| {
            let zero = w.detach().zeros_like();
            w.sum(..) + (&zero / &zero).nan_to_num(0.0, None, None).sum(..)
        }),
        ("sqrt", StepPhase::Backward, "+Inf", |w| (w * 0.0).sqrt().clamp_min(-1.0).sum(..) * 1.0),
    ];
    Device::cpu().unwrap().scoped(|| {
        for (op, phase, kind, loss) in hidden {
            let weight = Param::new(&Tensor::ones([3])).unwrap();
            let step = |weight: &Param| -> Result<()> { loss(&weight.get()).backward().map(drop) };
            let looks_for = TraceOptions { every_op: true, ..TraceOptions::default() };
            let bad = trace_with(looks_for, &[], |_| step(&weight)).unwrap().bad.unwrap_or_else(|| panic!("{op}: no origin"));
            assert_eq!((bad.op.as_ref().unwrap().name(), bad.phase, bad.kind()), (op, phase, kind), "{bad}");
            let mut handler = NanHandler::new(full(HandlingType::Stop)).unwrap();
            let attempt = handler.attempt(|h| {
                let loss = loss(&weight.get());
                let mut grads = loss.backward()?;
                h.handle(&loss, &mut grads, std::slice::from_ref(&weight))
            });
            attempt.unwrap();
            assert!(handler.look().unwrap().latched, "{op}");
        }
    });
}
/// What the optimizer makes on the way, and nobody keeps.
#[test]
fn a_bad_number_in_the_optimizer_that_is_not_looked_at() {
    Device::cpu().unwrap().scoped(|| {
        for (scale, bad) in [(1.0, 0), (1e30, 1)] {
            let weight = Param::new(&Tensor::ones([3])).unwrap();
            let mut handler = NanHandler::new(full(HandlingType::Skip)).unwrap();
            let step = handler.attempt(|h| {
                let loss = weight.get().sum(..);
                let mut grads = loss.backward()?;
                h.handle(&loss, &mut grads, std::slice::from_ref(&weight))?;
                no_grad(|| {
                    let g = grads.of(&weight.cell()).unwrap() * scale;
                    // Its square is not finite, its inverse is.
                    weight.set(&(weight.detached() - (&g * &g + 1.0).reciprocal()))
                })
            });
            step.unwrap();
            assert_eq!(handler.look().unwrap().bad, bad, "{scale}");
        }
    });
}
/// What is written is bad where it is not finite, whatever excuses it on the way, and whatever else is looked for; in small and in large weights of many shapes.
#[test]
fn an_infinity_that_is_excused_and_kept() {
    Device::cpu().unwrap().scoped(|| {
        for (rows, detect_inf, planted) in [(3, true, true), (5000, true, true), (5000, false, true), (3, false, true), (5000, true, false), (3, true, false)] {
            let weights = [rows, rows + 1000].map(|n| Param::new(&Tensor::ones([n])).unwrap());
            let mut handler = NanHandler::new(NanOptions { detect_inf, ..full(HandlingType::Skip) }).unwrap();
            let step = handler.attempt(|h| {
                let loss = weights[0].get().sum(..) + weights[1].get().square().sum(..);
                let mut grads = loss.backward()?;
                h.handle(&loss, &mut grads, &weights)?;
                no_grad(|| {
                    for weight in &weights {
                        let step = weight.detached() - grads.of(&weight.cell()).unwrap() * 0.25;
                        let mask = step.ge(if planted { 0.6 } else { 9.0 });
                        // Asked for.
                        weight.set(&step.masked_fill(&mask, f64::NEG_INFINITY))?;
                    }
                    Ok(())
                })
            });
            step.unwrap();
            let (bad, first) = (handler.look().unwrap().bad, weights[0].detached().to_vec::<f32>().unwrap()[0]);
            assert_eq!((bad, first), if planted { (1, 1.0) } else { (0, 0.75) }, "{rows} {detect_inf}");
        }
    });
}
/// A scaler that holds a step back is not bad luck: what such a step has is none of the watch's affair, whenever it is found.
#[test]
fn a_step_that_another_holds_back_and_that_is_bad() {
    Device::cpu().unwrap().scoped(|| {
        for applied in [true, false] {
            let weight = Param::new(&Tensor::ones([3])).unwrap();
            let mut handler = NanHandler::new(full(HandlingType::Skip)).unwrap();
            let step = handler.attempt(|h| {
                let loss = weight.get().sum(..) * 1e-3;
                let mut grads = loss.backward()?;
                let _overflown = (weight.detached() * 200.0).exp();
                h.handle(&loss, &mut grads, std::slice::from_ref(&weight))?;
                h.excuse(&Tensor::from_vec(vec![applied], ()))?;
                let _overflown = (weight.detached() * 300.0).exp();
                Ok(())
            });
            step.unwrap();
            assert_eq!(handler.look().unwrap().bad, u32::from(applied));
        }
    });
}
/// Kinds are told apart, and change gradients as those of the loss do.
#[test]
fn a_policy_that_does_not_heed_what_ops_give() {
    Device::cpu().unwrap().scoped(|| {
        let drawn = |fault: f64, policy: HandlingType| {
            let weight = Param::new(&Tensor::ones([3])).unwrap();
            let options = NanOptions { detect_overflow: true, ..full(policy) };
            let mut handler = NanHandler::new(options).unwrap();
            let step = handler.attempt(|h| {
                let hidden = (weight.detached() * fault).sum(..).gt(0.0).cast(DType::F32);
                let loss = weight.get().sum(..) + hidden;
                let mut grads = loss.backward()?;
                h.handle(&loss, &mut grads, std::slice::from_ref(&weight))?;
                no_grad(|| weight.set(&(weight.detached() - grads.of(&weight.cell()).unwrap())))
            });
            step.unwrap();
            let stats = handler.look().unwrap();
            (weight.detached().to_vec::<f32>().unwrap()[0], [stats.nan, stats.inf, stats.overflow])
        };
        use HandlingType::{Adaptive, GradientScaling, GradientZeroing, Skip};
        // Of a NaN: severity 1.0; of an overflow 0.3.
        assert_eq!(drawn(f64::NAN, GradientZeroing), (1.0, [1, 0, 0]));
        assert_eq!(drawn(f64::NAN, GradientScaling), (0.9, [1, 0, 0]));
        assert_eq!(drawn(1e7, GradientScaling), (1.0 - 0.7, [0, 0, 1]));
        assert_eq!(drawn(1e7, Adaptive), (0.5, [0, 0, 1]));
        assert_eq!(drawn(0.5, Adaptive).0, 0.0);
        assert_eq!(drawn(f64::NAN, Skip), (1.0, [1, 0, 0]));
    });
}
