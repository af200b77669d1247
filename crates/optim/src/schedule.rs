//! Learning-rate schedules, as `torch.optim.lr_scheduler`. A schedule says how one rate follows from the one
//! before; so schedules chain, and a rate that was changed by hand in between is respected where PyTorch's is.
use crate::{Optimizer, Rates};
use adamant_core::{Error, ErrorKind, Result, compile};
use std::{
    f64::consts::PI,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

mod cycle;
mod plateau;
mod swa;
pub use cycle::{Anneal, CyclicLr, CyclicMode, OneCycleLr};
pub use plateau::{Goal, PlateauState, ReduceLrOnPlateau, Threshold};
pub use swa::SwaLr;

/// How the learning rate goes from step to step: a function of the step, the rate that a group began with and the present one. A
/// schedule has no state of its own; so [`SchedulerState`] and the optimizer's numbers are all that there is to save.
pub trait Schedule: Send + Sync {
    /// The rate of step `t` (from 0), from the rate the group began with and the present one.
    fn lr(&self, t: u64, base: f64, present: f64) -> f64;
    /// The rate at the start of this schedule inside a [`SequentialLr`].
    fn restart(&self, base: f64, _present: f64) -> f64 {
        self.lr(0, base, base)
    }
    /// The momentum of step `t`, for schedules that cycle it.
    fn momentum(&self, _t: u64) -> Option<f64> {
        None
    }
    /// The rates of the first `n` steps from a base rate.
    fn rates(&self, base: f64, n: usize) -> Vec<f64> {
        let mut present = base;
        (0..n as u64)
            .map(|t| {
                present = self.lr(t, base, present);
                present
            })
            .collect()
    }
}
impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn lr(&self, t: u64, base: f64, present: f64) -> f64 {
        (**self).lr(t, base, present)
    }
    fn restart(&self, base: f64, present: f64) -> f64 {
        (**self).restart(base, present)
    }
    fn momentum(&self, t: u64) -> Option<f64> {
        (**self).momentum(t)
    }
}

/// Drives an optimizer's rates along a schedule.
///
/// A schedule is any function of Rust in f64, so it runs in Rust: rates are arguments of a captured step. [`Scheduler::step`]
/// inside [`adamant_core::compile()`] moves on after each call that succeeded; a predicate ([`adamant_core::step_when`]) does not
/// hold it back.
///
/// ```
/// # use adamant_nn::{Linear, Walk};
/// # use adamant_optim::{Optimizer, Sgd, UpdateRule, schedule::{Scheduler, StepLr}};
/// # adamant_core::Device::reference().make_current();
/// let mut optimizer = Sgd::new(0.1).over(Linear::new(2, 2)?.parameters());
/// let mut scheduler = Scheduler::new(StepLr { step_size: 2, gamma: 0.5 }, &mut optimizer);
/// for _ in 0..2 { scheduler.step(&mut optimizer); }
/// assert_eq!(optimizer.lrs(), [0.05]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct Scheduler<S>(Arc<Mutex<ScheduleCourse<S>>>);
/// A schedule and the place in it, shared with the captures of steps.
struct ScheduleCourse<S> {
    schedule: S,
    bases: Vec<f64>,
    t: u64,
    scale: f64,
}
/// Beyond this a step is no exact f64, which schedules compute with.
const MOST_STEPS: u64 = 1 << 53;
/// Where a [`Scheduler`] is.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerState {
    /// steps made
    pub steps: u64,
    /// the rates that the groups began with
    pub bases: Vec<f64>,
    /// what all rates of the schedule are multiplied by: 1, unless [`Scheduler::scale`] has changed it
    pub scale: f64,
}
impl<S: Schedule + 'static> Scheduler<S> {
    /// Takes the optimizer's rates as the base rates and sets those of step 0.
    pub fn new(schedule: S, optimizer: &mut dyn Optimizer) -> Scheduler<S> {
        let course = ScheduleCourse { bases: optimizer.lrs(), schedule, t: 0, scale: 1.0 };
        course.apply(&*optimizer.rates());
        Scheduler(Arc::new(Mutex::new(course)))
    }
    fn course(&self) -> MutexGuard<'_, ScheduleCourse<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Sets the rates of the next step. Call it after the optimizer's step.
    pub fn step(&mut self, optimizer: &mut dyn Optimizer) {
        let (course, rates) = (self.0.clone(), optimizer.rates());
        compile::effect(move || {
            let mut course = course.lock().unwrap_or_else(PoisonError::into_inner);
            course.t += 1;
            course.apply(&*rates);
        });
    }
    /// Takes up groups that the optimizer got since ([`Updater::add_param_group`](crate::Updater::add_param_group)): their present
    /// rates are what they began with, and the next step moves them along.
    pub fn follow(&mut self, optimizer: &dyn Optimizer) {
        let mut course = self.course();
        let fresh: Vec<f64> = optimizer.lrs().into_iter().skip(course.bases.len()).collect();
        course.bases.extend(fresh);
    }
    /// The number of steps made.
    pub fn steps(&self) -> u64 {
        self.course().t
    }
    /// All that the scheduler knows; the present rates and momenta are in [`Optimizer::hyperparameters`].
    pub fn state(&self) -> SchedulerState {
        let course = self.course();
        SchedulerState { steps: course.t, bases: course.bases.clone(), scale: course.scale }
    }
    /// Goes on from a state. Restore the optimizer's numbers too, before or after: of them, only a momentum that the schedule
    /// cycles is set here, to that of the step.
    ///
    /// # Errors
    /// The state has the base rates of another number of groups.
    #[track_caller]
    pub fn restore(&mut self, state: &SchedulerState, optimizer: &mut dyn Optimizer) -> Result<()> {
        let mut course = self.course();
        if state.bases.len() != course.bases.len() {
            let text = format!("the state is of {} groups of parameters, the optimizer has {}", state.bases.len(), course.bases.len());
            return Err(Error::new("scheduler", ErrorKind::Argument(text)));
        }
        if state.steps > MOST_STEPS {
            return Err(Error::new("scheduler", ErrorKind::Argument(format!("the state counts {} steps; nobody has made so many", state.steps))));
        }
        if !(state.scale.is_finite() && state.scale > 0.0) {
            return Err(Error::new("scheduler", ErrorKind::Argument(format!("the state's rates are multiplied by {}, not by a positive number", state.scale))));
        }
        (course.t, course.bases, course.scale) = (state.steps, state.bases.clone(), state.scale);
        if let Some(momentum) = course.schedule.momentum(course.t) {
            optimizer.set_momentum(momentum);
        }
        Ok(())
    }
    /// The rates of the next `n` steps of a group that is at `present` now and began with the first base rate.
    pub fn ahead(&self, mut present: f64, n: u64) -> Vec<f64> {
        let course = self.course();
        let base = course.bases.first().copied().unwrap_or(present);
        let mut rates = Vec::new();
        for k in 0..n {
            if k > 0 {
                present = course.scaled_lr(course.t.saturating_add(k), base, present);
            }
            rates.push(present);
        }
        rates
    }
    /// Multiplies the present rates, and all that the schedule gives from here on: training goes on more slowly along the same course.
    ///
    /// ```
    /// # use adamant_nn::{Linear, Walk};
    /// # use adamant_optim::{Optimizer, Sgd, UpdateRule, schedule::{ExponentialLr, Scheduler}};
    /// # adamant_core::Device::reference().make_current();
    /// let mut optimizer = Sgd::new(0.4).over(Linear::new(2, 2)?.parameters());
    /// let mut scheduler = Scheduler::new(ExponentialLr { gamma: 0.5 }, &mut optimizer);
    /// scheduler.scale(0.5, &mut optimizer);
    /// assert_eq!(optimizer.lrs(), [0.2]);
    /// scheduler.step(&mut optimizer);
    /// assert_eq!(optimizer.lrs(), [0.1]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    pub fn scale(&mut self, factor: f64, optimizer: &mut dyn Optimizer) {
        self.course().scale *= factor;
        let rates: Vec<f64> = optimizer.lrs().iter().map(|lr| lr * factor).collect();
        optimizer.set_lrs(&rates);
    }
    /// Goes on by another schedule from the present step; rates stay until the next one, or [`Scheduler::set_again`].
    pub fn replace(&mut self, schedule: S) {
        self.course().schedule = schedule;
    }
    /// Sets the rates and the momentum of the present step, as the schedule comes to them from its own beginning.
    pub fn set_again(&self, optimizer: &mut dyn Optimizer) {
        let own = self.course();
        let course = |base: f64| (0..=own.t).fold(base, |present, t| own.schedule.lr(t, base, present)) * own.scale;
        let rates: Vec<f64> = own.bases.iter().map(|base| course(*base)).collect();
        optimizer.set_lrs(&rates);
        if let Some(momentum) = own.schedule.momentum(own.t) {
            optimizer.set_momentum(momentum);
        }
    }
}
impl<S: Schedule> ScheduleCourse<S> {
    /// The schedule's own rate, multiplied: what it goes on from is its own too.
    fn scaled_lr(&self, t: u64, base: f64, present: f64) -> f64 {
        self.schedule.lr(t, base, present / self.scale) * self.scale
    }
    fn apply(&self, rates: &dyn Rates) {
        let new: Vec<f64> = rates.lrs().iter().zip(&self.bases).map(|(present, base)| self.scaled_lr(self.t, *base, *present)).collect();
        rates.set_lrs(&new);
        if let Some(momentum) = self.schedule.momentum(self.t) {
            rates.set_momentum(momentum);
        }
    }
}

/// Times `gamma` every `step_size` steps.
#[derive(Clone, Debug)]
pub struct StepLr {
    /// steps between changes
    pub step_size: u64,
    /// the factor
    pub gamma: f64,
}
impl Schedule for StepLr {
    fn lr(&self, t: u64, _base: f64, present: f64) -> f64 {
        if t == 0 || !t.is_multiple_of(self.step_size.max(1)) { present } else { present * self.gamma }
    }
}
/// Times `gamma` at each milestone.
#[derive(Clone, Debug)]
pub struct MultiStepLr {
    /// the steps at which the rate changes
    pub milestones: Vec<u64>,
    /// the factor
    pub gamma: f64,
}
impl Schedule for MultiStepLr {
    fn lr(&self, t: u64, _base: f64, present: f64) -> f64 {
        present * self.gamma.powi(self.milestones.iter().filter(|m| **m == t).count() as i32)
    }
}
/// Times `factor` for the first `total_iters` steps.
#[derive(Clone, Debug)]
pub struct ConstantLr {
    /// the factor
    pub factor: f64,
    /// how long it holds
    pub total_iters: u64,
}
impl Default for ConstantLr {
    fn default() -> ConstantLr {
        ConstantLr { factor: 1.0 / 3.0, total_iters: 5 }
    }
}
impl Schedule for ConstantLr {
    fn lr(&self, t: u64, _base: f64, present: f64) -> f64 {
        match t {
            0 => present * self.factor,
            t if t == self.total_iters => present / self.factor,
            _ => present,
        }
    }
}
/// A factor that goes in a straight line from `start_factor` to `end_factor` over `total_iters` steps.
#[derive(Clone, Debug)]
pub struct LinearLr {
    /// the factor at step 0
    pub start_factor: f64,
    /// the factor at the end
    pub end_factor: f64,
    /// how long it takes
    pub total_iters: u64,
}
impl Default for LinearLr {
    fn default() -> LinearLr {
        LinearLr { start_factor: 1.0 / 3.0, end_factor: 1.0, total_iters: 5 }
    }
}
impl Schedule for LinearLr {
    fn lr(&self, t: u64, _base: f64, present: f64) -> f64 {
        let rise = self.end_factor - self.start_factor;
        match t {
            0 => present * self.start_factor,
            t if t > self.total_iters => present,
            t => present * (1.0 + rise / (self.total_iters as f64 * self.start_factor + (t - 1) as f64 * rise)),
        }
    }
}
/// Times `gamma` every step.
#[derive(Clone, Debug)]
pub struct ExponentialLr {
    /// the factor
    pub gamma: f64,
}
impl Schedule for ExponentialLr {
    fn lr(&self, t: u64, _base: f64, present: f64) -> f64 {
        if t == 0 { present } else { present * self.gamma }
    }
}
/// Falls to zero over `total_iters` steps as (1 - t / total)^power.
#[derive(Clone, Debug)]
pub struct PolynomialLr {
    /// how long it takes
    pub total_iters: u64,
    /// the power
    pub power: f64,
}
impl Default for PolynomialLr {
    fn default() -> PolynomialLr {
        PolynomialLr { total_iters: 5, power: 1.0 }
    }
}
impl Schedule for PolynomialLr {
    fn lr(&self, t: u64, _base: f64, present: f64) -> f64 {
        let total = self.total_iters as f64;
        if t == 0 || t > self.total_iters { present } else { present * ((1.0 - t as f64 / total) / (1.0 - (t - 1) as f64 / total)).powf(self.power) }
    }
}
/// Half a cosine from the base rate to `eta_min` over `t_max` steps, and back (Loshchilov and Hutter 2017, without restarts).
#[derive(Clone, Debug)]
pub struct CosineAnnealingLr {
    /// steps from top to bottom
    pub t_max: u64,
    /// the lowest rate
    pub eta_min: f64,
}
impl Schedule for CosineAnnealingLr {
    fn lr(&self, t: u64, base: f64, present: f64) -> f64 {
        let (max, min) = (self.t_max.max(1), self.eta_min);
        if t == 0 {
            return present;
        }
        // At the bottom the recurrence divides by zero; PyTorch starts the rise from the base rate there.
        if (t as i64 - 1 - max as i64).rem_euclid(2 * max as i64) == 0 {
            return present + (base - min) * (1.0 - (PI / max as f64).cos()) / 2.0;
        }
        (1.0 + (PI * t as f64 / max as f64).cos()) / (1.0 + (PI * (t - 1) as f64 / max as f64).cos()) * (present - min) + min
    }
}
/// Cosine annealing that starts again after `t_0` steps, then after `t_mult` times as many, ... (SGDR).
#[derive(Clone, Debug)]
pub struct CosineAnnealingWarmRestarts {
    /// steps of the first run
    pub t_0: u64,
    /// the factor from run to run
    pub t_mult: u64,
    /// the lowest rate
    pub eta_min: f64,
}
impl Schedule for CosineAnnealingWarmRestarts {
    fn lr(&self, t: u64, base: f64, _present: f64) -> f64 {
        let (mut at, mut run) = (t, self.t_0.max(1));
        if self.t_mult <= 1 {
            at %= run;
        }
        while at >= run {
            at -= run;
            run *= self.t_mult;
        }
        self.eta_min + (base - self.eta_min) * (1.0 + (PI * at as f64 / run as f64).cos()) / 2.0
    }
}
/// The base rate times a function of the step.
pub struct LambdaLr<F>(pub F);
impl<F: Fn(u64) -> f64 + Send + Sync> Schedule for LambdaLr<F> {
    fn lr(&self, t: u64, base: f64, _present: f64) -> f64 {
        base * (self.0)(t)
    }
}
/// The present rate times a function of the step, from step 1 on.
pub struct MultiplicativeLr<F>(pub F);
impl<F: Fn(u64) -> f64 + Send + Sync> Schedule for MultiplicativeLr<F> {
    fn lr(&self, t: u64, _base: f64, present: f64) -> f64 {
        if t == 0 { present } else { present * (self.0)(t) }
    }
    /// PyTorch's multiplies here too.
    fn restart(&self, _base: f64, present: f64) -> f64 {
        present * (self.0)(0)
    }
}
/// A schedule up to a step, after which rate and momentum stay as they are.
pub struct Held<S> {
    /// the schedule
    pub schedule: S,
    /// the last step that it decides
    pub until: u64,
}
impl<S: Schedule> Schedule for Held<S> {
    fn lr(&self, t: u64, base: f64, present: f64) -> f64 {
        if t > self.until { present } else { self.schedule.lr(t, base, present) }
    }
    fn restart(&self, base: f64, present: f64) -> f64 {
        self.schedule.restart(base, present)
    }
    fn momentum(&self, t: u64) -> Option<f64> {
        self.schedule.momentum(t.min(self.until))
    }
}
/// One schedule after another; each begins anew at its milestone.
pub struct SequentialLr {
    schedules: Vec<Box<dyn Schedule>>,
    milestones: Vec<u64>,
}
impl SequentialLr {
    /// `milestones[k]` is the step at which schedule k + 1 begins.
    ///
    /// # Errors
    /// Not exactly one milestone between each two schedules, or milestones that do not grow.
    #[track_caller]
    pub fn new(schedules: Vec<Box<dyn Schedule>>, milestones: Vec<u64>) -> Result<SequentialLr> {
        if schedules.len() != milestones.len() + 1 || milestones.windows(2).any(|w| w[0] >= w[1]) {
            return Err(Error::new(
                "SequentialLr",
                ErrorKind::Argument(format!("{} schedules need one growing milestone between each two, not {milestones:?}", schedules.len())),
            ));
        }
        Ok(SequentialLr { schedules, milestones })
    }
    fn at(&self, t: u64) -> (usize, u64) {
        let k = self.milestones.partition_point(|m| *m <= t);
        (k, t - if k == 0 { 0 } else { self.milestones[k - 1] })
    }
}
impl Schedule for SequentialLr {
    fn lr(&self, t: u64, base: f64, present: f64) -> f64 {
        let (k, local) = self.at(t);
        if local == 0 && k > 0 { self.schedules[k].restart(base, present) } else { self.schedules[k].lr(local, base, present) }
    }
    fn momentum(&self, t: u64) -> Option<f64> {
        let (k, local) = self.at(t);
        self.schedules[k].momentum(local)
    }
}
/// Several schedules at once, each on the rate the one before it gave.
pub struct ChainedScheduler(pub Vec<Box<dyn Schedule>>);
impl Schedule for ChainedScheduler {
    fn lr(&self, t: u64, base: f64, present: f64) -> f64 {
        self.0.iter().fold(present, |present, s| s.lr(t, base, present))
    }
    fn momentum(&self, t: u64) -> Option<f64> {
        self.0.iter().rev().find_map(|s| s.momentum(t))
    }
}
