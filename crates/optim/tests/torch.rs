//! Every optimizer walks PyTorch's trajectory (Lion and LAMB: their papers' formulas), every schedule its rates.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_core::{DType, Device, Grads, Result, Tensor};
use adamant_nn::Param;
use adamant_optim::{schedule::*, *};
use serde_json::Value;

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}
fn f(args: &Value, name: &str, default: f64) -> f64 {
    args.get(name).and_then(Value::as_f64).unwrap_or(default)
}
fn flag(args: &Value, name: &str) -> bool {
    args.get(name).and_then(Value::as_bool).unwrap_or(false)
}
fn betas(args: &Value, default: (f64, f64)) -> (f64, f64) {
    args.get("betas").map_or(default, |b| (b[0].as_f64().unwrap(), b[1].as_f64().unwrap()))
}
fn optimizer(op: &str, a: &Value, p: Vec<Param>) -> Box<dyn Optimizer> {
    let lr = f(a, "lr", f64::NAN);
    let adam = (0.9, 0.999);
    match op {
        "SGD" => Box::new(
            Sgd::new(lr)
                .momentum(f(a, "momentum", 0.0))
                .dampening(f(a, "dampening", 0.0))
                .weight_decay(f(a, "weight_decay", 0.0))
                .nesterov(flag(a, "nesterov"))
                .maximize(flag(a, "maximize"))
                .over(p),
        ),
        "Adam" => {
            Box::new(Adam::new(lr).betas(betas(a, adam)).eps(f(a, "eps", 1e-8)).weight_decay(f(a, "weight_decay", 0.0)).amsgrad(flag(a, "amsgrad")).over(p))
        }
        "AdamW" => Box::new(AdamW::new(lr).betas(betas(a, adam)).weight_decay(f(a, "weight_decay", 1e-2)).amsgrad(flag(a, "amsgrad")).over(p)),
        "RMSprop" => Box::new(
            RmsProp::new(lr)
                .alpha(f(a, "alpha", 0.99))
                .momentum(f(a, "momentum", 0.0))
                .centered(flag(a, "centered"))
                .weight_decay(f(a, "weight_decay", 0.0))
                .over(p),
        ),
        "Adagrad" => Box::new(
            Adagrad::new(lr)
                .lr_decay(f(a, "lr_decay", 0.0))
                .weight_decay(f(a, "weight_decay", 0.0))
                .initial_accumulator_value(f(a, "initial_accumulator_value", 0.0))
                .over(p),
        ),
        "Adadelta" => Box::new(Adadelta::new(lr).rho(f(a, "rho", 0.9)).weight_decay(f(a, "weight_decay", 0.0)).over(p)),
        "Adamax" => Box::new(Adamax::new(lr).weight_decay(f(a, "weight_decay", 0.0)).over(p)),
        "NAdam" => Box::new(NAdam::new(lr).weight_decay(f(a, "weight_decay", 0.0)).decoupled_weight_decay(flag(a, "decoupled_weight_decay")).over(p)),
        "RAdam" => Box::new(RAdam::new(lr).weight_decay(f(a, "weight_decay", 0.0)).decoupled_weight_decay(flag(a, "decoupled_weight_decay")).over(p)),
        "ASGD" => Box::new(Asgd::new(lr).over(p)),
        "Rprop" => Box::new(Rprop::new(lr).over(p)),
        "Adafactor" => Box::new(Adafactor::new(lr).over(p)),
        "Lion" => Box::new(Lion::new(lr).betas(betas(a, (0.9, 0.99))).weight_decay(f(a, "weight_decay", 0.0)).over(p)),
        "LAMB" => Box::new(Lamb::new(lr).betas(betas(a, adam)).eps(f(a, "eps", 1e-6)).weight_decay(f(a, "weight_decay", 0.0)).over(p)),
        other => panic!("no optimizer {other}"),
    }
}
/// Gradients of given values: those of the sum of parameter times value.
fn gradients(parameters: &[Param], values: &[Tensor]) -> Result<Grads> {
    let terms: Vec<Tensor> = parameters.iter().zip(values).map(|(p, v)| (p.get() * v).sum(..)).collect();
    terms.into_iter().reduce(|a, b| a + b).unwrap().backward()
}

#[test]
fn a_trajectory_that_is_not_pytorchs() {
    let file = std::env::var("TORCH_OPTIMIZERS").unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/optimizers.json").into());
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert!(cases.len() >= 27);
    let mut wrong = Vec::new();
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let dtype = if id.ends_with("f64") { DType::F64 } else { DType::F32 };
        on_reference(|| {
            let make = |v: &[f64], shape: &Value| {
                let dims: Vec<usize> = shape.as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect();
                Tensor::from_slice(v, dims).cast(dtype)
            };
            let n = case["shapes"].as_array().unwrap().len();
            let p: Vec<Param> = (0..n).map(|k| Param::new(&make(&numbers(&case["start"][k]), &case["shapes"][k])).unwrap()).collect();
            let mut optimizer = optimizer(case["op"].as_str().unwrap(), &case["args"], p.clone());
            for step in 0..case["grads"][0].as_array().unwrap().len() {
                let g: Vec<Tensor> = (0..n).map(|k| make(&numbers(&case["grads"][k][step]), &case["shapes"][k])).collect();
                optimizer.step(&gradients(&p, &g).unwrap()).unwrap();
                for (k, p) in p.iter().enumerate() {
                    let (got, want) = (p.detached().cast(DType::F64).to_vec::<f64>().unwrap(), numbers(&case["after"][k][step]));
                    let (rtol, atol) = if dtype == DType::F64 { (1e-9, 1e-10) } else { (1e-4, 1e-5) };
                    let worst = got.iter().zip(&want).map(|(g, w)| (g - w).abs() - rtol * w.abs()).fold(0.0, f64::max);
                    if worst > atol || got.len() != want.len() {
                        wrong.push(format!("{id}: parameter {k} after step {step} is off by {worst:.3e}"));
                        return;
                    }
                }
            }
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn schedule(op: &str, a: &Value) -> Box<dyn Schedule> {
    let u = |name: &str, default: u64| a.get(name).and_then(Value::as_u64).unwrap_or(default);
    match op {
        "StepLR" => Box::new(StepLr { step_size: u("step_size", 1), gamma: f(a, "gamma", 0.1) }),
        "MultiStepLR" => Box::new(MultiStepLr { milestones: numbers(&a["milestones"]).into_iter().map(|m| m as u64).collect(), gamma: f(a, "gamma", 0.1) }),
        "ConstantLR" => Box::new(ConstantLr { factor: f(a, "factor", 1.0 / 3.0), total_iters: u("total_iters", 5) }),
        "LinearLR" => {
            Box::new(LinearLr { start_factor: f(a, "start_factor", 1.0 / 3.0), end_factor: f(a, "end_factor", 1.0), total_iters: u("total_iters", 5) })
        }
        "ExponentialLR" => Box::new(ExponentialLr { gamma: f(a, "gamma", 0.1) }),
        "PolynomialLR" => Box::new(PolynomialLr { total_iters: u("total_iters", 5), power: f(a, "power", 1.0) }),
        "CosineAnnealingLR" => Box::new(CosineAnnealingLr { t_max: u("T_max", 1), eta_min: f(a, "eta_min", 0.0) }),
        "CosineAnnealingWarmRestarts" => Box::new(CosineAnnealingWarmRestarts { t_0: u("T_0", 1), t_mult: u("T_mult", 1), eta_min: f(a, "eta_min", 0.0) }),
        "CyclicLR" => {
            let mode = match a["mode"].as_str() {
                Some("triangular2") => CyclicMode::Triangular2,
                Some("exp_range") => CyclicMode::ExpRange,
                _ => CyclicMode::Triangular,
            };
            let down = a.get("step_size_down").and_then(Value::as_u64);
            Box::new(CyclicLr {
                step_size_up: u("step_size_up", 2000),
                step_size_down: down,
                mode,
                gamma: f(a, "gamma", 1.0),
                ..CyclicLr::new(f(a, "base_lr", 0.0), f(a, "max_lr", 0.0))
            })
        }
        "OneCycleLR" => {
            let anneal = if a["anneal_strategy"] == "linear" { Anneal::Linear } else { Anneal::Cos };
            Box::new(OneCycleLr {
                pct_start: f(a, "pct_start", 0.3),
                anneal,
                three_phase: flag(a, "three_phase"),
                ..OneCycleLr::new(f(a, "max_lr", 0.0), u("total_steps", 1))
            })
        }
        "SequentialLR" => Box::new(SequentialLr::new(inner(a), numbers(&a["milestones"]).into_iter().map(|m| m as u64).collect()).unwrap()),
        "ChainedScheduler" => Box::new(ChainedScheduler(inner(a))),
        "LambdaLR" => Box::new(LambdaLr(|t| 0.95f64.powi(t as i32))),
        "MultiplicativeLR" => {
            let factor = f(a, "factor_each_step", 1.0);
            Box::new(MultiplicativeLr(move |_| factor))
        }
        other => panic!("no schedule {other}"),
    }
}
fn inner(a: &Value) -> Vec<Box<dyn Schedule>> {
    a["schedulers"].as_array().unwrap().iter().map(|s| schedule(s[0].as_str().unwrap(), &s[1])).collect()
}
#[test]
fn a_learning_rate_that_is_not_pytorchs() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("schedules.json")).unwrap();
    assert_eq!(cases.len(), 20);
    for case in &cases {
        let (id, a, want) = (case["id"].as_str().unwrap(), &case["args"], numbers(&case["lr"]));
        let op = id.rsplit('.').next().unwrap();
        let got = on_reference(|| {
            let mut optimizer = Sgd::new(case["base_lr"].as_f64().unwrap()).over([]);
            let mut rates = Vec::new();
            if op == "ReduceLROnPlateau" {
                let t = f(a, "threshold", 1e-4);
                let mut plateau = ReduceLrOnPlateau::new(if a["mode"] == "max" { Goal::Max } else { Goal::Min });
                plateau.factor = f(a, "factor", 0.1);
                plateau.patience = f(a, "patience", 10.0) as u64;
                plateau.cooldown = f(a, "cooldown", 0.0) as u64;
                plateau.min_lr = f(a, "min_lr", 0.0);
                plateau.threshold = if a["threshold_mode"] == "abs" { Threshold::Abs(t) } else { Threshold::Rel(t) };
                for measure in numbers(&case["metric"]) {
                    rates.push(optimizer.lrs()[0]);
                    plateau.step(measure, &mut optimizer);
                }
            } else {
                let mut scheduler = Scheduler::new(schedule(op, a), &mut optimizer);
                for t in 0..want.len() {
                    if let Some(momentum) = case.get("momentum") {
                        let (got, want) = (schedule(op, a).momentum(t as u64).unwrap(), numbers(momentum)[t]);
                        assert!((got - want).abs() < 1e-9, "{id}: momentum of step {t} is {got}, not {want}");
                    }
                    rates.push(optimizer.lrs()[0]);
                    scheduler.step(&mut optimizer);
                }
            }
            rates
        });
        for (t, (got, want)) in got.iter().zip(&want).enumerate() {
            assert!((got - want).abs() <= 1e-9 + 1e-6 * want.abs(), "{id}: the rate of step {t} is {got}, not {want}");
        }
    }
}
