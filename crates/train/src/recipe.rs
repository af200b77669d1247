//! How a model is trained, from its description: optimizer and schedule by PyTorch's kinds under PyTorch's argument names, early
//! stopping, a running mean of the weights, frozen parameters and those that come from a file.
mod alerts;
mod clip;
mod distill;
mod distributed;
mod mesh;
mod parameters;
mod precision;
mod quantize;
mod stability;

pub(crate) use alerts::alerts;
pub(crate) use clip::{clip, clipped_layers};
pub(crate) use distill::{Teaching, distill};
pub(crate) use distributed::{SharingMode, distributed, patience};
pub(crate) use mesh::{MeshRecipe, TensorStyles, goes_with_mesh, patterns_fit};
pub(crate) use parameters::{InitFrom, freeze};
pub(crate) use precision::{precision, precision_of};
pub(crate) use quantize::quantize;
pub(crate) use stability::{WatchedNumbers, stability};

use crate::{
    Failure,
    config::Section,
    session::Course,
    storage::check_output,
    trainer::{EarlyStopping, Monitor},
};
use adamant_nn::Param;
use adamant_optim::{schedule::*, *};
pub(crate) use parameters::first_name;
use parameters::grouped;
use std::path::PathBuf;

/// One row for each optimizer: its name, its rule, and what it takes besides `lr`.
macro_rules! optimizers {
    ($($kind:literal $rule:ident { $($key:ident: $getter:ident),* };)*) => {
        /// The optimizers of the library.
        pub const OPTIMIZERS: [&str; [$($kind),*].len()] = [$($kind),*];
        /// What each of them takes besides `lr`.
        const OPTIONS: [&[&str]; OPTIMIZERS.len()] = [$(&[$(stringify!($key)),*]),*];

        /// The optimizer of a section, over parameters. Each of its `groups` has the same keys and, in `parameters`, patterns of names.
        ///
        /// # Errors
        /// `Usage`: an unknown kind, or a value that makes no sense.
        pub fn optimizer(s: Section<'_>, parameters: Vec<Param>) -> Result<Box<dyn Optimizer>, Failure> {
            let names: Vec<String> = parameters.iter().map(|p| first_name(&p.path())).collect();
            optimizer_among(s, parameters, &names)
        }
        /// The same over those of a model's parameters that this rank has; `names` are those of all.
        pub(crate) fn optimizer_among(s: Section<'_>, parameters: Vec<Param>, names: &[String]) -> Result<Box<dyn Optimizer>, Failure> {
            match s.kind(&OPTIMIZERS)? {
                $($kind => {
                    let said = |s: &Section<'_>, usual: $rule| -> Result<$rule, Failure> {
                        let mut rule = usual;
                        if let Some(lr) = s.number("lr")? {
                            rule.lr = lr;
                        }
                        $(if let Some(v) = s.$getter(stringify!($key))? {
                            rule = rule.$key(v);
                        })*
                        rule.check().map_err(|text| s.wrong(text))?;
                        Ok(rule)
                    };
                    let rule = said(&s, $rule::default())?;
                    let (mut rules, mut lists) = (Vec::new(), Vec::new());
                    for group in s.sections("groups")?.unwrap_or_default() {
                        lists.push(group.need("parameters", group.texts("parameters")?)?);
                        rules.push(said(&group, rule.clone())?);
                        group.finish()?;
                    }
                    let (rest, groups) = grouped(&s, &lists, parameters, names)?;
                    s.finish()?;
                    let optimizer = rule.over(rest);
                    Ok(Box::new(rules.into_iter().zip(groups).fold(optimizer, |all, (rule, of)| all.group(rule, of))))
                })*
                other => Err(s.wrong(format!("{other} cannot be built"))),
            }
        }
    };
}
optimizers! {
    "SGD" Sgd { momentum: number, dampening: number, weight_decay: number, nesterov: flag, maximize: flag };
    "Adam" Adam { betas: pair, eps: number, weight_decay: number, amsgrad: flag, decoupled_weight_decay: flag, maximize: flag };
    "AdamW" AdamW { betas: pair, eps: number, weight_decay: number, amsgrad: flag, maximize: flag };
    "Adamax" Adamax { betas: pair, eps: number, weight_decay: number, maximize: flag };
    "NAdam" NAdam { betas: pair, eps: number, weight_decay: number, momentum_decay: number, decoupled_weight_decay: flag, maximize: flag };
    "RAdam" RAdam { betas: pair, eps: number, weight_decay: number, decoupled_weight_decay: flag, maximize: flag };
    "RMSprop" RmsProp { alpha: number, eps: number, weight_decay: number, momentum: number, centered: flag, maximize: flag };
    "Rprop" Rprop { etas: pair, step_sizes: pair, maximize: flag };
    "ASGD" Asgd { lambd: number, alpha: number, t0: number, weight_decay: number, maximize: flag };
    "Adagrad" Adagrad { lr_decay: number, weight_decay: number, initial_accumulator_value: number, eps: number, maximize: flag };
    "Adadelta" Adadelta { rho: number, eps: number, weight_decay: number, maximize: flag };
    "Adafactor" Adafactor { beta2_decay: number, d: number, weight_decay: number, maximize: flag };
    "Lion" Lion { betas: pair, weight_decay: number, maximize: flag };
    "LAMB" Lamb { betas: pair, eps: number, weight_decay: number, maximize: flag };
    "SparseAdam" SparseAdam { betas: pair, eps: number, maximize: flag };
}
/// Is a key of `[optimizer]` one that other kinds take, and this one does not?
pub(crate) fn of_another_optimizer(kind: &str, key: &str) -> bool {
    let takes = |(_, options): &(&&str, &&[&str])| options.contains(&key);
    let mut all = OPTIMIZERS.iter().zip(OPTIONS.iter());
    OPTIMIZERS.contains(&kind) && all.clone().any(|o| takes(&o)) && !all.any(|o| *o.0 == kind && takes(&o))
}

/// The schedules of the library that a description can tell; `LambdaLR` and `MultiplicativeLR` take functions.
pub const SCHEDULES: [&str; 14] = [
    "StepLR",
    "MultiStepLR",
    "ConstantLR",
    "LinearLR",
    "ExponentialLR",
    "PolynomialLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "OneCycleLR",
    "CyclicLR",
    "SWALR",
    "SequentialLR",
    "ChainedScheduler",
    "ReduceLROnPlateau",
];
/// The key of a schedule that reaches over all steps where it is not given.
fn reaching_key(kind: &str) -> Option<&'static str> {
    match kind {
        "PolynomialLR" => Some("total_iters"),
        "CosineAnnealingLR" => Some("T_max"),
        "OneCycleLR" => Some("total_steps"),
        _ => None,
    }
}
/// The first schedule of a section, or inside it, whose length follows from that of the run: its kind, and the key that would give
/// it another one.
///
/// # Errors
/// A section that makes no sense.
pub(crate) fn reaching(s: &Section<'_>) -> Result<Option<(&'static str, &'static str)>, Failure> {
    let kind = s.kind(&SCHEDULES)?;
    if let Some(key) = reaching_key(kind) {
        return Ok(s.size(key)?.is_none().then_some((kind, key)));
    }
    if !matches!(kind, "SequentialLR" | "ChainedScheduler") {
        return Ok(None);
    }
    for part in s.sections("schedulers")?.unwrap_or_default() {
        if let Some(found) = reaching(&part)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
/// What becomes of a schedule that reaches over all steps when a run goes on with more or fewer of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExtend {
    /// nothing: the run is refused
    Refuse,
    /// it reaches over the steps that there are now
    Stretch,
    /// it stays as it was, and the rate stays where it ends
    Hold,
}
impl OnExtend {
    pub(crate) fn of(s: &Section<'_>) -> Result<OnExtend, Failure> {
        match s.text("on_extend")? {
            None | Some("refuse") => Ok(OnExtend::Refuse),
            Some("stretch") => Ok(OnExtend::Stretch),
            Some("hold") => Ok(OnExtend::Hold),
            Some(other) => Err(s.wrong_key("on_extend", format!("there is no `{other}`; there are refuse, stretch, hold"))),
        }
    }
}
/// What decides the learning rate, by the root of a description. Steps of a schedule are optimizer steps; what is not given
/// reaches over all `total` of them. `valid`: is there a validation part?
///
/// # Errors
/// `Usage`: an unknown kind, or a value that makes no sense.
pub fn course(root: &Section<'_>, total: u64, valid: bool) -> Result<Course, Failure> {
    let Some(s) = root.section("schedule")? else { return Ok(Course::Constant) };
    if s.kind(&SCHEDULES)? == "ReduceLROnPlateau" {
        return plateau(s, valid);
    }
    OnExtend::of(&s)?;
    Ok(Course::Schedule(schedule(s, total)?))
}
/// What is watched, by the keys `monitor` and `mode`.
fn watched(s: &Section<'_>, valid: bool) -> Result<(Monitor, Goal), Failure> {
    let monitor = Monitor::named(s.text("monitor")?.unwrap_or(if valid { "valid_loss" } else { "train_loss" }));
    if monitor.needs_validation() && !valid {
        return Err(s.wrong_key("monitor", format!("`{monitor}` needs a validation part: say `data.valid = 0.1`, or watch `train_loss`")));
    }
    let goal = match s.text("mode")? {
        Some("min") => Goal::Min,
        Some("max") => Goal::Max,
        Some(other) => return Err(s.wrong_key("mode", format!("there is no `{other}`; there are min, max"))),
        None => monitor.goal().ok_or_else(|| {
            let known = "train_loss, valid_loss, valid_accuracy, valid_mae, valid_rmse, valid_r2";
            s.wrong_key("monitor", format!("nobody knows whether more or less of `{monitor}` is better: say `mode = \"min\"` or `\"max\"`; known are {known}"))
        })?,
    };
    Ok((monitor, goal))
}
fn plateau(s: Section<'_>, valid: bool) -> Result<Course, Failure> {
    let (monitor, goal) = watched(&s, valid)?;
    let mut rule = ReduceLrOnPlateau::new(goal);
    let not_negative = |key: &'static str, usual: f64| -> Result<f64, Failure> {
        match s.number(key)?.unwrap_or(usual) {
            v if v >= 0.0 && v.is_finite() => Ok(v),
            v => Err(s.wrong_key(key, format!("{v} is no number from 0 on"))),
        }
    };
    rule.factor = not_negative("factor", rule.factor)?;
    if rule.factor >= 1.0 {
        return Err(s.wrong_key("factor", "the rate falls only by a factor below 1"));
    }
    rule.patience = s.size("patience")?.map_or(rule.patience, |n| n as u64);
    rule.cooldown = s.size("cooldown")?.map_or(rule.cooldown, |n| n as u64);
    rule.min_lr = not_negative("min_lr", rule.min_lr)?;
    rule.eps = not_negative("eps", rule.eps)?;
    let threshold = not_negative("threshold", 1e-4)?;
    rule.threshold = match s.text("threshold_mode")? {
        None | Some("rel") => Threshold::Rel(threshold),
        Some("abs") => Threshold::Abs(threshold),
        Some(other) => return Err(s.wrong_key("threshold_mode", format!("there is no `{other}`; there are rel, abs"))),
    };
    s.finish()?;
    Ok(Course::Plateau(rule, monitor))
}
/// `[early_stopping]`. `valid`: is there a validation part?
///
/// # Errors
/// `Usage`: a value that makes no sense.
pub fn early_stopping(root: &Section<'_>, valid: bool) -> Result<Option<EarlyStopping>, Failure> {
    let Some(s) = root.section("early_stopping")? else { return Ok(None) };
    let (monitor, goal) = watched(&s, valid)?;
    let mut stopping = EarlyStopping::new(monitor, s.size("patience")?.unwrap_or(3) as u64);
    stopping.goal = goal;
    stopping.restore_best = s.flag("restore_best")?.unwrap_or(false);
    stopping.min_delta = s.number("min_delta")?.unwrap_or(0.0);
    if !(stopping.min_delta >= 0.0 && stopping.min_delta.is_finite()) {
        return Err(s.wrong_key("min_delta", "the least improvement is a number from 0 on"));
    }
    s.finish()?;
    Ok(Some(stopping))
}
/// `[ema]`: the decay of a running mean of the weights.
///
/// # Errors
/// `Usage`: a value that makes no sense.
pub fn ema(root: &Section<'_>) -> Result<Option<f64>, Failure> {
    let Some(s) = root.section("ema")? else { return Ok(None) };
    let decay = s.number("decay")?.unwrap_or(0.999);
    if !(0.0..1.0).contains(&decay) {
        return Err(s.wrong_key("decay", "it is from 0 to below 1, as 0.999"));
    }
    s.finish()?;
    Ok(Some(decay))
}
/// `weights`: where the final weights also go. The place is tried now, for training may take days.
///
/// # Errors
/// A folder that is not there, or in which nothing can be written.
pub fn weights(root: &Section<'_>) -> Result<Option<PathBuf>, Failure> {
    let Some(path) = root.text("weights")?.map(PathBuf::from) else { return Ok(None) };
    match check_output(&path) {
        Ok(()) => Ok(Some(path)),
        Err(e) => Err(root.wrong_key("weights", e.to_string())),
    }
}

/// The schedule of a section. Its steps are optimizer steps; what is not given reaches over all `total` of them.
///
/// # Errors
/// `Usage`: an unknown kind, or a value that makes no sense.
pub fn schedule(s: Section<'_>, total: u64) -> Result<Box<dyn Schedule>, Failure> {
    let size = |key: &'static str, default: u64| -> Result<u64, Failure> { Ok(s.size(key)?.map_or(default, |v| v as u64)) };
    let number = |key: &'static str, default: f64| -> Result<f64, Failure> { Ok(s.number(key)?.unwrap_or(default)) };
    let milestones = || -> Result<Vec<u64>, Failure> { Ok(s.need("milestones", s.sizes("milestones")?)?.into_iter().map(|m| m as u64).collect()) };
    let schedule: Box<dyn Schedule> = match s.kind(&SCHEDULES)? {
        "StepLR" => Box::new(StepLr { step_size: s.need("step_size", s.size("step_size")?)? as u64, gamma: number("gamma", 0.1)? }),
        "MultiStepLR" => Box::new(MultiStepLr { milestones: milestones()?, gamma: number("gamma", 0.1)? }),
        "ConstantLR" => Box::new(ConstantLr { factor: number("factor", 1.0 / 3.0)?, total_iters: size("total_iters", 5)? }),
        "LinearLR" => Box::new(LinearLr {
            start_factor: number("start_factor", 1.0 / 3.0)?,
            end_factor: number("end_factor", 1.0)?,
            total_iters: size("total_iters", 5)?,
        }),
        "ExponentialLR" => Box::new(ExponentialLr { gamma: s.need("gamma", s.number("gamma")?)? }),
        "PolynomialLR" => Box::new(PolynomialLr { total_iters: size("total_iters", total)?, power: number("power", 1.0)? }),
        "CosineAnnealingLR" => Box::new(CosineAnnealingLr { t_max: size("T_max", total)?, eta_min: number("eta_min", 0.0)? }),
        "CosineAnnealingWarmRestarts" => {
            Box::new(CosineAnnealingWarmRestarts { t_0: s.need("T_0", s.size("T_0")?)? as u64, t_mult: size("T_mult", 1)?, eta_min: number("eta_min", 0.0)? })
        }
        "OneCycleLR" => {
            let d = OneCycleLr::new(s.need("max_lr", s.number("max_lr")?)?, size("total_steps", total)?);
            Box::new(OneCycleLr {
                pct_start: number("pct_start", d.pct_start)?,
                div_factor: number("div_factor", d.div_factor)?,
                final_div_factor: number("final_div_factor", d.final_div_factor)?,
                three_phase: s.flag("three_phase")?.unwrap_or(false),
                anneal: annealing(&s)?,
                momentum: cycled(&s, ("base_momentum", "max_momentum"), d.momentum)?,
                ..d
            })
        }
        "CyclicLR" => {
            let d = CyclicLr::new(s.need("base_lr", s.number("base_lr")?)?, s.need("max_lr", s.number("max_lr")?)?);
            Box::new(CyclicLr {
                step_size_up: size("step_size_up", d.step_size_up)?,
                step_size_down: s.size("step_size_down")?.map(|v| v as u64),
                mode: match s.text("mode")? {
                    None | Some("triangular") => CyclicMode::Triangular,
                    Some("triangular2") => CyclicMode::Triangular2,
                    Some("exp_range") => CyclicMode::ExpRange,
                    Some(other) => return Err(s.wrong_key("mode", format!("there is no `{other}`; there are triangular, triangular2, exp_range"))),
                },
                gamma: number("gamma", d.gamma)?,
                momentum: cycled(&s, ("base_momentum", "max_momentum"), d.momentum)?,
                ..d
            })
        }
        "SWALR" => {
            let swa_lr = s.need("swa_lr", s.number("swa_lr")?)?;
            Box::new(SwaLr { anneal_epochs: size("anneal_epochs", 10)?, anneal: annealing(&s)?, ..SwaLr::new(swa_lr) })
        }
        "ChainedScheduler" => {
            let mut parts = Vec::new();
            for part in s.need("schedulers", s.sections("schedulers")?)? {
                parts.push(schedule(part, total)?);
            }
            Box::new(ChainedScheduler(parts))
        }
        "ReduceLROnPlateau" => return Err(s.wrong_key("kind", "it follows a measure and not the step: it stands alone")),
        "SequentialLR" => {
            let mut parts = Vec::new();
            for part in s.need("schedulers", s.sections("schedulers")?)? {
                parts.push(schedule(part, total)?);
            }
            Box::new(SequentialLr::new(parts, milestones()?).map_err(|e| s.wrong(e.kind().to_string()))?)
        }
        other => return Err(s.wrong(format!("{other} cannot be built"))),
    };
    s.finish()?;
    Ok(schedule)
}
/// The shape of a way from one rate to another.
fn annealing(s: &Section<'_>) -> Result<Anneal, Failure> {
    match s.text("anneal_strategy")? {
        None | Some("cos") => Ok(Anneal::Cos),
        Some("linear") => Ok(Anneal::Linear),
        Some(other) => Err(s.wrong_key("anneal_strategy", format!("there is no `{other}`; there are cos, linear"))),
    }
}
/// The momenta between which a schedule goes; none with `cycle_momentum = false`.
fn cycled(s: &Section<'_>, (low, high): (&'static str, &'static str), usual: Option<(f64, f64)>) -> Result<Option<(f64, f64)>, Failure> {
    let cycles = s.flag("cycle_momentum")?.unwrap_or(true);
    let (least, most) = usual.unwrap_or((0.85, 0.95));
    let momentum = (s.number(low)?.unwrap_or(least), s.number(high)?.unwrap_or(most));
    for (key, v) in [(low, momentum.0), (high, momentum.1)] {
        if !(0.0..1.0).contains(&v) {
            return Err(s.wrong_key(key, "a momentum is from 0 to below 1"));
        }
    }
    Ok(cycles.then_some(momentum))
}
