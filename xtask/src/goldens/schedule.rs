//! Learning-rate schedules: the rate, and where it is cycled the momentum, before each step.
use super::{
    call::{OpCall, argument, unsupported},
    manifest::Case,
};
use adamant::{
    Error,
    optim::schedule::{
        Anneal, ChainedScheduler, ConstantLr, CosineAnnealingLr, CosineAnnealingWarmRestarts, CyclicLr, CyclicMode, ExponentialLr, Goal, LambdaLr, LinearLr,
        MultiStepLr, MultiplicativeLr, OneCycleLr, PolynomialLr, ReduceLrOnPlateau, Schedule, SequentialLr, StepLr, Threshold,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How many steps are asked for, unless a list of measures says otherwise.
const STEPS: usize = 48;

/// What a schedule gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(expecting = "struct Rates")]
pub struct ScheduleRates {
    /// the learning rate before each step
    pub lr: Vec<f64>,
    /// the momentum before each step, where the schedule moves it
    pub momentum: Option<Vec<f64>>,
}

/// The rates of a case of schedulers.json.
pub fn rates(case: &Case) -> Result<ScheduleRates, Error> {
    if case.op == "sched.ReduceLROnPlateau" {
        return watched(case);
    }
    let schedule = schedule(case)?;
    let momentum = (0..STEPS as u64).map(|t| schedule.momentum(t)).collect();
    Ok(ScheduleRates { lr: schedule.rates(case.base_lr, STEPS), momentum })
}
fn watched(case: &Case) -> Result<ScheduleRates, Error> {
    let call = OpCall::new(case, Vec::new());
    let goal = match call.text_or("mode", "min")? {
        "min" => Goal::Min,
        "max" => Goal::Max,
        other => return Err(argument(format!("mode {other}"))),
    };
    let threshold = call.float_or("threshold", 1e-4)?;
    let mut schedule = ReduceLrOnPlateau::new(goal);
    schedule.factor = call.float_or("factor", 0.1)?;
    schedule.patience = call.int_or("patience", 10)? as u64;
    schedule.threshold = if call.text_or("threshold_mode", "rel")? == "abs" { Threshold::Abs(threshold) } else { Threshold::Rel(threshold) };
    schedule.cooldown = call.int_or("cooldown", 0)? as u64;
    schedule.min_lr = call.float_or("min_lr", 0.0)?;
    schedule.eps = call.float_or("eps", 1e-8)?;
    let mut present = case.base_lr;
    let mut step = |measure: &f64| {
        let before = present;
        if schedule.observe(*measure) {
            present = schedule.reduced(present);
        }
        before
    };
    Ok(ScheduleRates { lr: case.metric.iter().map(&mut step).collect(), momentum: None })
}
/// The schedule that a case names, with its arguments.
fn schedule(case: &Case) -> Result<Box<dyn Schedule>, Error> {
    let call = OpCall::new(case, Vec::new());
    let (f, n) = (|name: &str, default: f64| call.float_or(name, default), |name: &str, default: i64| call.int_or(name, default).map(|v| v as u64));
    Ok(match case.op.trim_start_matches("sched.") {
        "StepLR" => Box::new(StepLr { step_size: call.size("step_size")? as u64, gamma: f("gamma", 0.1)? }),
        "MultiStepLR" => Box::new(MultiStepLr { milestones: milestones(&call)?, gamma: f("gamma", 0.1)? }),
        "ConstantLR" => Box::new(ConstantLr { factor: f("factor", 1.0 / 3.0)?, total_iters: n("total_iters", 5)? }),
        "LinearLR" => Box::new(LinearLr { start_factor: f("start_factor", 1.0 / 3.0)?, end_factor: f("end_factor", 1.0)?, total_iters: n("total_iters", 5)? }),
        "ExponentialLR" => Box::new(ExponentialLr { gamma: call.float("gamma")? }),
        "PolynomialLR" => Box::new(PolynomialLr { total_iters: n("total_iters", 5)?, power: f("power", 1.0)? }),
        "CosineAnnealingLR" => Box::new(CosineAnnealingLr { t_max: call.size("T_max")? as u64, eta_min: f("eta_min", 0.0)? }),
        "CosineAnnealingWarmRestarts" => {
            Box::new(CosineAnnealingWarmRestarts { t_0: call.size("T_0")? as u64, t_mult: n("T_mult", 1)?, eta_min: f("eta_min", 0.0)? })
        }
        "CyclicLR" => Box::new(cyclic(&call)?),
        "OneCycleLR" => Box::new(one_cycle(&call)?),
        "SequentialLR" => Box::new(SequentialLr::new(parts(case)?, milestones(&call)?)?),
        "ChainedScheduler" => Box::new(ChainedScheduler(parts(case)?)),
        "LambdaLR" => {
            // The manifest states the function in words; this is the one it knows.
            let formula = call.text("formula")?;
            let gamma = formula.strip_prefix("lr = base_lr * ").and_then(|f| f.strip_suffix(" ** step")).and_then(|g| g.parse::<f64>().ok());
            let gamma = gamma.ok_or_else(|| unsupported(format!("the formula {formula}")))?;
            Box::new(LambdaLr(move |step: u64| gamma.powf(step as f64)))
        }
        "MultiplicativeLR" => {
            let factor = call.float("factor_each_step")?;
            Box::new(MultiplicativeLr(move |_: u64| factor))
        }
        other => return Err(unsupported(format!("the schedule {other}"))),
    })
}
fn cyclic(call: &OpCall) -> Result<CyclicLr, Error> {
    let mode = match call.text_or("mode", "triangular")? {
        "triangular" => CyclicMode::Triangular,
        "triangular2" => CyclicMode::Triangular2,
        "exp_range" => CyclicMode::ExpRange,
        other => return Err(argument(format!("mode {other}"))),
    };
    Ok(CyclicLr {
        step_size_up: call.int_or("step_size_up", 2000)? as u64,
        step_size_down: call.maybe_int("step_size_down")?.map(|n| n as u64),
        mode,
        gamma: call.float_or("gamma", 1.0)?,
        ..CyclicLr::new(call.float("base_lr")?, call.float("max_lr")?)
    })
}
fn one_cycle(call: &OpCall) -> Result<OneCycleLr, Error> {
    let anneal = match call.text_or("anneal_strategy", "cos")? {
        "cos" => Anneal::Cos,
        "linear" => Anneal::Linear,
        other => return Err(argument(format!("anneal_strategy {other}"))),
    };
    Ok(OneCycleLr {
        pct_start: call.float_or("pct_start", 0.3)?,
        anneal,
        div_factor: call.float_or("div_factor", 25.0)?,
        final_div_factor: call.float_or("final_div_factor", 1e4)?,
        three_phase: call.bool_or("three_phase", false)?,
        ..OneCycleLr::new(call.float("max_lr")?, call.size("total_steps")? as u64)
    })
}
fn milestones(call: &OpCall) -> Result<Vec<u64>, Error> {
    Ok(call.ints_or_int("milestones")?.into_iter().map(|m| m as u64).collect())
}
/// The schedules inside another: pairs of a name and arguments.
fn parts(case: &Case) -> Result<Vec<Box<dyn Schedule>>, Error> {
    let pairs = case.args.get("schedulers").and_then(Value::as_array).ok_or_else(|| argument(format!("{} has no schedulers", case.id)))?;
    let part = |pair: &Value| match (pair.get(0).and_then(Value::as_str), pair.get(1).and_then(Value::as_object)) {
        (Some(name), Some(args)) => schedule(&Case { op: name.into(), args: args.clone(), ..Case::default() }),
        _ => Err(argument(format!("{pair} is no pair of a name and arguments"))),
    };
    pairs.iter().map(part).collect()
}
