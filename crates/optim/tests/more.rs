//! Optimizers, averages and clipping beside PyTorch 2.15 (Lookahead and centralised gradients: their papers); python/goldens.py made
//! the figures.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use adamant_core::{DType, Device, Result, Tensor};
use adamant_nn::{BatchNorm1d, BatchNormOptions, Linear, Module, Param, Walk};
use adamant_optim::*;
use common::set;
use serde_json::Value;

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
fn goldens() -> Value {
    serde_json::from_str(include_str!("more.json")).unwrap()
}
fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}
fn sizes(v: &Value) -> Vec<usize> {
    numbers(v).into_iter().map(|d| d as usize).collect()
}
fn made(v: &Value, shape: &Value, dtype: DType) -> Tensor {
    Tensor::from_slice(&numbers(v), sizes(shape)).cast(dtype)
}
fn f(args: &Value, name: &str, default: f64) -> f64 {
    args.get(name).and_then(Value::as_f64).unwrap_or(default)
}
fn flag(args: &Value, name: &str, default: bool) -> bool {
    args.get(name).and_then(Value::as_bool).unwrap_or(default)
}
/// By how much the worst of them is off, beyond a relative tolerance.
fn off(got: &Tensor, want: &[f64], rtol: f64) -> f64 {
    let got = got.to_vec_as::<f64>().unwrap();
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).map(|(g, w)| (g - w).abs() - rtol * w.abs()).fold(0.0, |worst, d| if d > worst || d.is_nan() { d } else { worst })
}
fn muon(a: &Value) -> Muon {
    let adjust = match a["adjust_lr_fn"].as_str() {
        Some("match_rms_adamw") => AdjustLr::MatchRmsAdamw,
        Some("spectral_unclamped") => AdjustLr::SpectralUnclamped,
        _ => AdjustLr::Original,
    };
    let steps = f(a, "ns_steps", 5.0) as usize;
    let rule = Muon::new(f(a, "lr", 0.0)).adjust_lr(adjust).ns_steps(steps).nesterov(flag(a, "nesterov", true));
    let rule = rule.momentum(f(a, "momentum", 0.95)).weight_decay(f(a, "weight_decay", 0.1));
    match a.get("ns_coefficients").map(numbers) {
        Some(c) => rule.ns_coefficients((c[0], c[1], c[2])),
        None => rule,
    }
}
fn optimizer(op: &str, a: &Value, p: Vec<Param>) -> Box<dyn Optimizer> {
    let (lr, decay, maximize) = (f(a, "lr", f64::NAN), f(a, "weight_decay", 0.0), flag(a, "maximize", false));
    let betas = a.get("betas").map_or((0.9, 0.999), |b| (b[0].as_f64().unwrap(), b[1].as_f64().unwrap()));
    let sgd = || Sgd::new(lr).momentum(f(a, "momentum", 0.0));
    match op {
        "Muon" => Box::new(muon(a).over(p).ok().unwrap()),
        "SparseAdam" => Box::new(SparseAdam::new(lr).betas(betas).eps(f(a, "eps", 1e-8)).maximize(maximize).over(p).ok().unwrap()),
        "Adam" => {
            let rule = Adam::new(lr).weight_decay(decay).amsgrad(flag(a, "amsgrad", false)).maximize(maximize);
            Box::new(rule.decoupled_weight_decay(flag(a, "decoupled_weight_decay", false)).over(p).ok().unwrap())
        }
        "RMSprop" => Box::new(RmsProp::new(lr).centered(true).momentum(f(a, "momentum", 0.0)).maximize(maximize).over(p).ok().unwrap()),
        "Lookahead" => {
            let fast: Box<dyn Optimizer> = match a["fast"].as_str() {
                Some("SGD") => Box::new(sgd().over(p)),
                _ => Box::new(AdamW::new(lr).weight_decay(decay).over(p)),
            };
            Box::new(Lookahead::new(fast, f(a, "k", 0.0) as u32, f(a, "alpha", 0.0)).unwrap())
        }
        "Centralized" if a["rule"] == "SGD" => Box::new(Centralized(sgd()).over(p).ok().unwrap()),
        "Centralized" => Box::new(Centralized(Adam::new(lr).weight_decay(decay)).over(p).ok().unwrap()),
        other => panic!("no optimizer {other}"),
    }
}
#[test]
fn a_trajectory_that_is_not_pytorchs() {
    let all = goldens();
    let cases = all["optimizers"].as_array().unwrap();
    assert_eq!(cases.len(), 14);
    for case in cases {
        let id = case["id"].as_str().unwrap();
        let dtype = if id.ends_with("f64") { DType::F64 } else { DType::F32 };
        // What is rounded to bf16 in between may be rounded otherwise at a tie; the rates are 0.05.
        let (rtol, atol) = if id.contains("Muon") {
            (0.0, 2e-3)
        } else if dtype == DType::F64 {
            (1e-12, 1e-13)
        } else {
            (1e-5, 1e-6)
        };
        on_reference(|| {
            let shapes = case["shapes"].as_array().unwrap();
            let p: Vec<Param> = shapes.iter().enumerate().map(|(k, s)| Param::new(&made(&case["start"][k], s, dtype)).unwrap()).collect();
            let mut optimizer = optimizer(case["op"].as_str().unwrap(), &case["args"], p.clone());
            for step in 0..8 {
                let g: Vec<Tensor> = shapes.iter().enumerate().map(|(k, s)| made(&case["grads"][k][step], s, dtype)).collect();
                optimizer.step(&set(&p, &g)).unwrap();
                for (k, p) in p.iter().enumerate() {
                    let worst = off(&p.detached(), &numbers(&case["after"][k][step]), rtol);
                    assert!(worst <= atol, "{id}: parameter {k} after step {step} is off by {worst:.3e}");
                }
            }
        });
    }
}

/// The loss of a case of L-BFGS.
fn objective(case: &Value, p: &[Param], dtype: DType) -> Result<Tensor> {
    if case["problem"] == "valley" {
        let sign = if flag(&case["args"], "maximize", false) { -1.0 } else { 1.0 };
        let x = p[0].get();
        let (head, tail) = (x.narrow(0, 0, 3), x.narrow(0, 1, 3));
        return (((head.neg() + 1.0).square() + (tail - head.square()).square() * 100.0).sum(..) * sign).ok();
    }
    let (x, y) = (Tensor::from_slice(&numbers(&case["x"]), [12, 3]).cast(dtype), Tensor::from_slice(&numbers(&case["y"]), [12, 2]).cast(dtype));
    ((x.matmul(p[0].get()) + p[1].get()).tanh() - y).square().mean(..).ok()
}
fn lbfgs(case: &Value, p: Vec<Param>) -> Lbfgs {
    let (a, usual) = (&case["args"], LbfgsOptions::default());
    let count = |name: &str| a.get(name).and_then(Value::as_u64).map(|v| v as usize);
    let options = LbfgsOptions {
        lr: f(a, "lr", usual.lr),
        max_iter: count("max_iter").unwrap_or(usual.max_iter),
        max_eval: count("max_eval"),
        history_size: count("history_size").unwrap_or(usual.history_size),
        tolerance_grad: f(a, "tolerance_grad", usual.tolerance_grad),
        tolerance_change: f(a, "tolerance_change", usual.tolerance_change),
        line_search: if a.get("line_search_fn").is_some() { LineSearch::StrongWolfe } else { LineSearch::Fixed },
        maximize: flag(a, "maximize", false),
    };
    Lbfgs::new(p, options).unwrap()
}
#[test]
fn a_search_that_goes_elsewhere_than_pytorchs_or_takes_more_evaluations() {
    let all = goldens();
    let cases = all["lbfgs"].as_array().unwrap();
    assert_eq!(cases.len(), 11);
    for (n, case) in cases.iter().enumerate() {
        on_reference(|| {
            let dtype = if case["dtype"] == "f64" { DType::F64 } else { DType::F32 };
            let shapes = case["shapes"].as_array().unwrap();
            let p: Vec<Param> = shapes.iter().enumerate().map(|(k, s)| Param::new(&made(&case["start"][k], s, dtype)).unwrap()).collect();
            let mut optimizer = lbfgs(case, p.clone());
            for (step, want) in case["steps"].as_array().unwrap().iter().enumerate() {
                // Interrupted before each step: what goes on is another optimizer with the same state.
                let state = optimizer.state_dict();
                optimizer = lbfgs(case, p.clone());
                optimizer.load_state_dict(&state).unwrap();
                let loss = optimizer.step_with(|| objective(case, &p, dtype)).unwrap();
                let what = format!("case {n} ({} {}) step {step}", case["problem"], case["args"]);
                let (rtol, atol) = if dtype == DType::F64 { (1e-7, 1e-9) } else { (2e-3, 1e-4) };
                assert!(off(&loss, &[want["loss"].as_f64().unwrap()], rtol) <= atol, "{what}: the loss");
                for (k, p) in p.iter().enumerate() {
                    let worst = off(&p.detached(), &numbers(&want["after"][k]), rtol);
                    assert!(worst <= atol, "{what}: parameter {k} is off by {worst:.3e}");
                }
                if dtype == DType::F64 {
                    assert_eq!(optimizer.evaluations(), want["func_evals"].as_u64().unwrap(), "{what}");
                }
            }
        });
    }
}

struct Net(Linear, BatchNorm1d);
impl Net {
    fn new() -> Net {
        let options = BatchNormOptions { momentum: Some(0.3), ..BatchNormOptions::default() };
        Net(Linear::new(3, 2).unwrap(), BatchNorm1d::with(2, options).unwrap())
    }
}
impl Walk for Net {
    fn walk(&self, walker: &mut adamant_nn::Walker<'_>) {
        walker.child("0", &self.0);
        walker.child("1", &self.1);
    }
}
impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.1.forward(&self.0.forward(x)?)
    }
}
fn same_state(what: &str, got: &[(String, Tensor)], want: &Value) {
    let want = want.as_object().unwrap();
    let mut names: Vec<&String> = got.iter().map(|(name, _)| name).collect();
    names.sort();
    let mut known: Vec<&String> = want.keys().collect();
    known.sort();
    assert_eq!(names, known, "{what}");
    for (name, t) in got {
        let worst = off(t, &numbers(&want[name]), 1e-5);
        assert!(worst <= 1e-6, "{what}: {name} is off by {worst:.3e}");
    }
}
#[test]
fn an_average_or_a_statistic_that_is_not_pytorchs() {
    let all = goldens();
    for case in all["averages"].as_array().unwrap() {
        on_reference(|| {
            let model = Net::new();
            let own = |mean: &Tensor, now: &Tensor, n: &Tensor| mean + (now - mean) / (n + 2.0);
            let averaged = match case["kind"].as_str() {
                Some("ema") => AveragedModel::ema(Net::new(), &model, 0.7),
                Some("swa") => AveragedModel::swa(Net::new(), &model),
                _ => AveragedModel::by(Net::new(), &model, own),
            };
            let mut averaged = averaged.unwrap().use_buffers(case["use_buffers"].as_bool().unwrap());
            let data = numbers(&case["data"]);
            let batch = |k: usize| Tensor::from_slice(&data[12 * k..12 * (k + 1)], [4, 3]).cast(DType::F32);
            for (k, step) in case["steps"].as_array().unwrap().iter().enumerate() {
                for (p, w) in model.parameters().iter().zip(step["weights"].as_array().unwrap()) {
                    p.set(&Tensor::from_slice(&numbers(w), p.meta().shape).cast(DType::F32)).unwrap();
                }
                model.forward(&batch(k)).unwrap();
                averaged.update_parameters().unwrap();
                same_state(&format!("{} {} after {k}", case["kind"], case["use_buffers"]), &averaged.state_dict(), &step["state"]);
            }
            assert_eq!(averaged.n_averaged().unwrap(), 5);
            averaged.eval();
            update_bn(&averaged, (0..6).map(|k| Ok(batch(k)))).unwrap();
            assert!(!averaged.is_training());
            same_state(&format!("{} {} after update_bn", case["kind"], case["use_buffers"]), &averaged.state_dict(), &case["after_update_bn"]);
        });
    }
}
#[test]
fn a_norm_or_a_clipped_gradient_that_is_not_pytorchs() {
    let all = goldens();
    let cases = all["clip"].as_array().unwrap();
    assert_eq!(cases.len(), 12);
    for case in cases {
        on_reference(|| {
            let g: Vec<Tensor> = (0..3).map(|k| made(&case["grads"][k], &case["shapes"][k], DType::F32)).collect();
            let p: Vec<Param> = g.iter().map(|g| Param::new(&g.zeros_like()).unwrap()).collect();
            let norm_type = case["norm_type"].as_f64().unwrap_or(f64::INFINITY);
            let mut grads = set(&p, &g);
            let total = clip_grad_norm(&mut grads, &p, ClipNorm { max: f(case, "max", 0.0), norm_type, error_if_nonfinite: true }).unwrap();
            assert!(off(&total, &[f(case, "total", 0.0)], 1e-6) <= 1e-6, "{norm_type}");
            for (k, p) in p.iter().enumerate() {
                assert!(off(grads.of(&p.cell()).unwrap(), &numbers(&case["clipped"][k]), 1e-5) <= 1e-7, "{norm_type} {k}");
            }
        });
    }
}
