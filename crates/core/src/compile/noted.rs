//! What a capture notes beside its ops: what Rust decided on the way, numbers that Rust gives anew at each call, and what
//! Rust does once a call has succeeded. Outside a capture each of them is what it says, at once.
//!
//! Must not know plans or memory.
use crate::{Arg, DType, Device, Error, ErrorKind, Op, Origin, Result, Scalar, Shape, Tensor, TensorType, recycle::Shared, value::Value};
use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

/// A switch that compiled functions watch: a capture that read it is used only while it stands as it did then
/// (training or evaluation).
#[derive(Clone, Debug)]
pub struct Flag(Arc<AtomicBool>);
impl Flag {
    /// A switch.
    pub fn new(on: bool) -> Flag {
        Flag(Arc::new(AtomicBool::new(on)))
    }
    /// Is it on?
    pub fn get(&self) -> bool {
        let on = self.0.load(Relaxed);
        note(|notes| {
            // Every layer asks; each flag is watched once.
            let known = |(watched, was): &(WatchedChoice, bool)| matches!(watched, WatchedChoice::Flag(flag) if Arc::ptr_eq(&flag.0, &self.0)) && *was == on;
            if !notes.guards.iter().any(known) {
                notes.guards.push((WatchedChoice::Flag(self.clone()), on));
            }
        });
        on
    }
    /// Turns it on or off.
    pub fn set(&self, on: bool) {
        self.0.store(on, Relaxed);
    }
}

/// What stood so when a capture was made.
enum WatchedChoice {
    Flag(Flag),
    Decision(Arc<dyn Fn() -> bool + Send + Sync>),
}
impl WatchedChoice {
    fn now(&self) -> bool {
        match self {
            WatchedChoice::Flag(flag) => flag.0.load(Relaxed),
            WatchedChoice::Decision(f) => f(),
        }
    }
}
/// The decisions of a capture, which is good while they would be made again.
#[derive(Default)]
pub(super) struct CaptureGuards(Vec<(WatchedChoice, bool)>);
impl CaptureGuards {
    pub fn hold(&self) -> bool {
        self.0.iter().all(|(watched, was)| watched.now() == *was)
    }
}

/// What Rust does at each call, in the order of the function.
pub(crate) enum CallEvent {
    /// Gives the number of this constant.
    Number(Shared<Value>, Arc<dyn Fn() -> f64 + Send + Sync>),
    Effect(Arc<dyn Fn() + Send + Sync>),
}
type Check = Box<dyn FnOnce() -> Result<()>>;
#[derive(Default)]
struct Notes {
    number: u64,
    guards: Vec<(WatchedChoice, bool)>,
    /// what was decided once
    once: Vec<u64>,
    events: Vec<CallEvent>,
    checks: Vec<Check>,
}
thread_local! {
    static NOTES: RefCell<Vec<Notes>> = const { RefCell::new(Vec::new()) };
    /// the number of the capture that is open, 0: none
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}
/// In the capture that is open, if there is one. A thread that ends captures nothing any more.
fn note(f: impl FnOnce(&mut Notes)) -> bool {
    let noted = NOTES.try_with(|n| n.borrow_mut().last_mut().map(f));
    matches!(noted, Ok(Some(())))
}
/// Takes notes until it is dropped: also by a panic.
pub(super) struct Noting(bool);
impl Noting {
    pub fn begin() -> Noting {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let number = NUMBERS.fetch_add(1, Relaxed);
        let _ = NOTES.try_with(|n| n.borrow_mut().push(Notes { number, ..Notes::default() }));
        let _ = NUMBER.try_with(|n| n.set(number));
        Noting(true)
    }
    fn pop() -> Notes {
        let (notes, outer) = NOTES
            .try_with(|n| {
                let mut n = n.borrow_mut();
                let notes = n.pop().unwrap_or_default();
                (notes, n.last().map_or(0, |n| n.number))
            })
            .unwrap_or_default();
        let _ = NUMBER.try_with(|n| n.set(outer));
        notes
    }
    /// What was noted, once all that was to be looked at in the end is as it has to be.
    ///
    /// # Errors
    /// That of a check.
    pub fn end(mut self) -> Result<(CaptureGuards, Vec<CallEvent>)> {
        self.0 = false;
        let Notes { guards, events, checks, .. } = Noting::pop();
        checks.into_iter().try_for_each(|check| check())?;
        Ok((CaptureGuards(guards), events))
    }
}
impl Drop for Noting {
    fn drop(&mut self) {
        if self.0 {
            drop(Noting::pop());
        }
    }
}

/// The number of the capture at work on this thread; 0: none.
pub fn capture_number() -> u64 {
    NUMBER.try_with(Cell::get).unwrap_or(0)
}
/// Decides in Rust. A capture that was made under the decision is used only while it would be made again; else the function is
/// captured anew.
///
/// ```
/// # use adamant_core::{compile, compile::decide, Device, Tensor};
/// # use std::sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}};
/// # Device::reference().make_current();
/// let power = Arc::new(AtomicU32::new(1));
/// let f = compile(|x: &[Tensor]| {
///     let power = power.clone();
///     Ok(vec![if decide(move || power.load(Relaxed) == 2) { &x[0] * &x[0] } else { x[0].clone() }])
/// });
/// let x = Tensor::full([1], 3.0, adamant_core::DType::F32);
/// assert_eq!(f.call(&[&x])?[0].to_vec::<f32>()?, [3.0]);
/// power.store(2, Relaxed);
/// assert_eq!(f.call(&[&x])?[0].to_vec::<f32>()?, [9.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn decide(f: impl Fn() -> bool + Send + Sync + 'static) -> bool {
    let made = f();
    if capture_number() != 0 {
        note_decision(Arc::new(f), made);
    }
    made
}
/// As [`decide`] of what holds now, for what is asked many times: noted once for each key.
pub fn decide_once(key: u64, holds: impl Fn() -> bool + Send + Sync + 'static) {
    if capture_number() != 0 && is_first(key) {
        note_decision(Arc::new(holds), true);
    }
}
/// Is this key asked for the first time in the capture that is open?
#[cold]
fn is_first(key: u64) -> bool {
    let mut first = false;
    note(|notes| {
        first = !notes.once.contains(&key);
        if first {
            notes.once.push(key);
        }
    });
    first
}
/// A number of Rust's as a 0-d tensor. A compiled function asks for it at each call, where it is an argument of the kernels: that
/// it changes makes no new capture.
///
/// ```
/// # use adamant_core::{compile, compile::number, DType, Device, Tensor};
/// # use std::sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}};
/// # Device::reference().make_current();
/// let rate = Arc::new(AtomicU32::new(2));
/// let f = compile(|x: &[Tensor]| {
///     let rate = rate.clone();
///     Ok(vec![&x[0] * number(DType::F32, Device::reference(), move || rate.load(Relaxed).into())])
/// });
/// let x = Tensor::ones([1]);
/// assert_eq!(f.call(&[&x])?[0].to_vec::<f32>()?, [2.0]);
/// rate.store(5, Relaxed);
/// assert_eq!(f.call(&[&x])?[0].to_vec::<f32>()?, [5.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[track_caller]
pub fn number(dtype: DType, device: Device, f: impl Fn() -> f64 + Send + Sync + 'static) -> Tensor {
    let origin = Origin::here();
    if capture_number() == 0 { constant(dtype, device, &f, origin) } else { asked_again(dtype, device, Arc::new(f), origin) }
}
// What is the same for every function of Rust's is compiled once: optimizers have hundreds of them.
#[inline(never)]
fn constant(dtype: DType, device: Device, f: &dyn Fn() -> f64, origin: Origin) -> Tensor {
    if !dtype.is_float() {
        return Tensor::failed(Error::at("number", ErrorKind::Dtype(format!("a number of f64 becomes a float, not {dtype}")), origin));
    }
    Tensor::source(Op::Const(TensorType { shape: Shape::SCALAR, dtype }), Arg::Scalar(Scalar::Float(f())), device, origin)
}
#[cold]
#[inline(never)]
fn asked_again(dtype: DType, device: Device, f: Arc<dyn Fn() -> f64 + Send + Sync>, origin: Origin) -> Tensor {
    let constant = constant(dtype, device, &*f, origin);
    if constant.error().is_none() {
        note_event(CallEvent::Number(constant.value().clone(), f));
    }
    constant
}
#[cold]
fn note_event(event: CallEvent) {
    note(|notes| notes.events.push(event));
}
#[cold]
fn note_decision(decision: Arc<dyn Fn() -> bool + Send + Sync>, made: bool) {
    note(|notes| notes.guards.push((WatchedChoice::Decision(decision), made)));
}
/// Does something in Rust: at once, or, in a compiled function, at each call. Numbers that are [asked for](number) later in the
/// function see what it did; where none are, it is done after a call that succeeded, and not after one that failed.
///
/// No predicate of [`crate::step_when`] reaches it, for a device decides that.
pub fn effect(f: impl Fn() + Send + Sync + 'static) {
    if capture_number() == 0 {
        return f();
    }
    note_event(CallEvent::Effect(Arc::new(f)));
}
/// What is to be looked at when the capture at work ends; an error makes the capture fail. Outside a capture nothing is.
pub fn check_at_end(check: impl FnOnce() -> Result<()> + 'static) {
    note(|notes| notes.checks.push(Box::new(check)));
}
