//! Every schedule alone, every pair one after the other, and every pair at once, beside PyTorch 2.15 over 1,000 steps
//! (python/goldens.py); and each of them interrupted. Pairs leave out the two that write over the rate that the optimizer began with
//! when PyTorch makes them (CyclicLR, OneCycleLR).
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_core::Device;
use adamant_nn::Param;
use adamant_optim::{schedule::*, *};
use serde_json::Value;

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}
fn schedule(name: &str, all: &Value) -> Box<dyn Schedule> {
    let a = &all["args"][name];
    let f = |name: &str| a[name].as_f64().unwrap();
    let u = |name: &str| a[name].as_u64().unwrap();
    match name {
        "StepLR" => Box::new(StepLr { step_size: u("step_size"), gamma: f("gamma") }),
        "MultiStepLR" => Box::new(MultiStepLr { milestones: numbers(&a["milestones"]).into_iter().map(|m| m as u64).collect(), gamma: f("gamma") }),
        "ConstantLR" => Box::new(ConstantLr { factor: f("factor"), total_iters: u("total_iters") }),
        "LinearLR" => Box::new(LinearLr { start_factor: f("start_factor"), end_factor: f("end_factor"), total_iters: u("total_iters") }),
        "ExponentialLR" => Box::new(ExponentialLr { gamma: f("gamma") }),
        "PolynomialLR" => Box::new(PolynomialLr { total_iters: u("total_iters"), power: f("power") }),
        "CosineAnnealingLR" => Box::new(CosineAnnealingLr { t_max: u("T_max"), eta_min: f("eta_min") }),
        "CosineAnnealingWarmRestarts" => Box::new(CosineAnnealingWarmRestarts { t_0: u("T_0"), t_mult: u("T_mult"), eta_min: f("eta_min") }),
        "CyclicLR" => Box::new(CyclicLr {
            step_size_up: u("step_size_up"),
            step_size_down: Some(u("step_size_down")),
            mode: CyclicMode::Triangular2,
            ..CyclicLr::new(f("base_lr"), f("max_lr"))
        }),
        "OneCycleLR" => Box::new(OneCycleLr { pct_start: f("pct_start"), ..OneCycleLr::new(f("max_lr"), u("total_steps")) }),
        "LambdaLR" => Box::new(LambdaLr(|t: u64| 0.996f64.powf(t as f64))),
        "MultiplicativeLR" => Box::new(MultiplicativeLr(|_| 0.998)),
        "SWALR" => Box::new(SwaLr { anneal_epochs: u("anneal_epochs"), ..SwaLr::new(f("swa_lr")) }),
        other => panic!("no schedule {other}"),
    }
}
fn combined(case: &Value, all: &Value) -> Box<dyn Schedule> {
    let parts: Vec<_> = case["of"].as_array().unwrap().iter().map(|n| schedule(n.as_str().unwrap(), all)).collect();
    match case["kind"].as_str() {
        Some("sequential") => Box::new(SequentialLr::new(parts, vec![all["milestone"].as_u64().unwrap()]).unwrap()),
        Some("chained") => Box::new(ChainedScheduler(parts)),
        _ => parts.into_iter().next().unwrap(),
    }
}
/// The rates of 1,000 steps, the schedule and the optimizer replaced by restored ones before some of them.
fn rates(case: &Value, all: &Value, interrupted: &[usize]) -> Vec<f64> {
    Device::reference().scoped(|| {
        let weight = Param::new(&adamant_core::Tensor::zeros([1])).unwrap();
        let make = || Sgd::new(all["base"].as_f64().unwrap()).momentum(0.9).over([weight.clone()]).ok().unwrap();
        let mut optimizer = make();
        let mut scheduler = Scheduler::new(combined(case, all), &mut optimizer);
        let mut rates = Vec::new();
        for t in 0..1000 {
            if interrupted.contains(&t) {
                let (state, numbers) = (scheduler.state(), optimizer.hyperparameters());
                optimizer = make();
                scheduler = Scheduler::new(combined(case, all), &mut optimizer);
                scheduler.restore(&state, &mut optimizer).unwrap();
                optimizer.set_hyperparameters(&numbers).unwrap();
            }
            rates.push(optimizer.lrs()[0]);
            scheduler.step(&mut optimizer);
        }
        rates
    })
}
#[test]
fn a_pair_of_schedules_whose_rates_are_not_pytorchs_or_change_when_interrupted() {
    let text = std::env::var("TORCH_PAIRS").map_or_else(|_| include_str!("pairs.json").to_string(), |file| std::fs::read_to_string(file).unwrap());
    let all: Value = serde_json::from_str(&text).unwrap();
    let cases = all["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 13 + 2 * 121);
    let mut wrong = Vec::new();
    for case in cases {
        let name = format!("{} {}", case["kind"].as_str().unwrap(), case["of"]);
        let (got, want) = (rates(case, &all, &[]), numbers(&case["rates"]));
        let kept: Vec<usize> = if want.len() == 1000 { (0..1000).collect() } else { numbers(&all["kept"]).into_iter().map(|t| t as usize).collect() };
        assert_eq!(kept.len(), want.len());
        let off = |(t, want): (&usize, &f64)| (got[*t] - want).abs() / want.abs().max(1e-3);
        let worst = kept.iter().zip(&want).map(|(t, w)| (off((t, w)), *t)).fold((0.0, 0), |a, b| if b.0 > a.0 || b.0.is_nan() { b } else { a });
        if worst.0 > 1e-12 || worst.0.is_nan() {
            let (t, at) = (worst.1, kept.iter().position(|t| *t == worst.1).unwrap());
            wrong.push(format!("{name}: the rate of step {t} is {}, not {}", got[t], want[at]));
        }
        let bits = |rates: &[f64]| rates.iter().map(|r| r.to_bits()).collect::<Vec<_>>();
        if bits(&rates(case, &all, &[7, 301, 640])) != bits(&got) {
            wrong.push(format!("{name}: interrupted, it has other rates"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
