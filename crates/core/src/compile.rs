//! `compile(f)`: one plan over a whole function. The first call captures what `f` records, nothing runs meanwhile;
//! later calls replay the plan without recording. Cells that `f` reads are implicit inputs, cells that it writes
//! implicit outputs, updated in place where nobody else holds their value.
//!
//! What `f` may depend on: its inputs' shapes and dtypes, the cells it reads, [`Flag`]s, what it [decides](decide), whether
//! gradients are recorded. Rust numbers that the closure captures are fixed at capture; pass what changes as a tensor or a cell,
//! or let it be [asked for](number) at each call.
//!
//! Each size of the inputs is traced once; sizes of one structure share the plan. Not more than [`MOST_CAPTURES`] captures are
//! kept, and [`Compiled::captures`] tells how many were made.
//!
//! A whole training step may be one function: forward, backward, clipping, and the optimizer, whose counts of steps are cells and
//! whose rates are asked for. (This crate has no optimizers; those of `adamant-optim` do what the rule here does.)
//!
//! ```
//! # use adamant_core::{Cell, DType, Device, Rng, Tensor, compile, compile::number, functional};
//! # use std::sync::{Arc, Mutex};
//! # Device::reference().make_current();
//! let weight = Cell::new(&Tensor::zeros([3, 1]), true)?;
//! let (momentum, steps) = (Cell::new(&Tensor::zeros([3, 1]), false)?, Cell::new(&Tensor::zeros([1]), false)?);
//! let (rng, rate) = (Rng::new(7)?, Arc::new(Mutex::new(0.1)));
//! let step = compile(|x: &[Tensor]| {
//!     let dropped = functional::dropout(&x[0], 0.1, &rng); // the generator's counter is a cell
//!     let loss = (dropped.matmul(&weight.get()) - &x[1]).square().mean(..);
//!     let grads = loss.backward()?;
//!     let gradient = grads.of(&weight).cloned().unwrap_or_else(|| weight.detached().zeros_like());
//!     let mean = momentum.detached() * 0.9 + gradient;
//!     let asked = rate.clone();
//!     let rate = number(DType::F32, Device::reference(), move || *asked.lock().unwrap());
//!     weight.set(&(weight.detached() - &mean * rate))?;
//!     momentum.set(&mean)?;
//!     steps.set(&(steps.detached() + 1.0))?; // all commit, or none
//!     Ok(vec![loss.detach()])
//! });
//! let (x, y) = (Tensor::ones([8, 3]), Tensor::ones([8, 1]));
//! let first = step.call(&[&x, &y])?[0].item::<f32>()?;
//! for _ in 0..20 {
//!     *rate.lock().unwrap() *= 0.9; // no new capture
//!     step.call(&[&x, &y])?;
//! }
//! assert!(step.call(&[&x, &y])?[0].item::<f32>()? < first / 2.0);
//! assert_eq!(steps.detached().item::<f32>()?, 22.0);
//! # Ok::<(), adamant_core::Error>(())
//! ```
use crate::{
    Device, Error, ErrorKind, Hint, Origin, Outputs, Result, Tensor,
    cell::{Overlay, OverlayGuard, OverlayKind},
    record::{capture, context},
    schedule::captured::{Captured, CapturedCall, Plans},
};
use std::sync::{Arc, OnceLock};

mod kept;
pub(crate) mod noted;
pub use crate::schedule::captured::MOST_CAPTURES;
pub use kept::Captures;
use kept::{CallKind, GuardedCapture, Others};
use noted::Noting;
pub use noted::{Flag, capture_number, check_at_end, decide, decide_once, effect, number};

/// A function that is captured once per kind of inputs and replayed afterwards.
pub struct Compiled<F> {
    f: F,
    /// The capture of the first call, which is often the only one: found without a lock.
    first: OnceLock<GuardedCapture>,
    others: Others,
    /// plans by structure, which all sizes share
    plans: Arc<Plans>,
}
/// Is this thread capturing a function? Then Rust numbers that change from call to call would be fixed.
pub fn is_capturing() -> bool {
    context(|c| c.capturing())
}
/// Compiles a function of tensors.
///
/// **Numbers of Rust's are frozen**: what the closure reads beside its tensors (a field, a counter, an atomic) is what it was when the
/// function was captured, at every later call. What changes is a tensor, a [`Cell`](crate::Cell), or [asked for](number) at
/// each call; [`Compiled::check`] finds out whether anything else does.
///
/// ```
/// # use adamant_core::{compile, Device, Tensor};
/// # Device::reference().make_current();
/// let f = compile(|x: &[Tensor]| Ok(vec![(&x[0] * 2.0).exp().sum(..)]));
/// let y = f.call(&[&Tensor::zeros([3])])?;
/// assert_eq!(y[0].item::<f32>()?, 3.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn compile<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>>(f: F) -> Compiled<F> {
    Compiled::of(f)
}

/// The captures of a function that is given at each call: a method, say, that borrows what it changes.
///
/// ```
/// # use adamant_core::{Cell, Device, Tensor, compile};
/// # Device::reference().make_current();
/// struct Counter { sum: Cell, captured: compile::Compiled<()> }
/// impl Counter {
///     fn add(&mut self, x: &Tensor) -> adamant_core::Result<Tensor> {
///         let Counter { sum, captured } = self;
///         let out = captured.call_with(&[x], &mut |x| {
///             let next = sum.detached() + &x[0];
///             sum.set(&next)?;
///             Ok(vec![next])
///         })?;
///         Ok(out[0].clone())
///     }
/// }
/// let mut counter = Counter { sum: Cell::new(&Tensor::zeros([1]), false)?, captured: compile::captures() };
/// counter.add(&Tensor::ones([1]))?;
/// assert_eq!(counter.add(&Tensor::ones([1]))?.to_vec::<f32>()?, [2.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn captures() -> Compiled<()> {
    Compiled::of(())
}
impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>> Compiled<F> {
    /// Runs the function. Threads may call it at once: calls that write a cell follow each other, each with what the one before
    /// wrote. Where nothing is planned (on the reference device, with ops run at once, inside a transform) it is the plain
    /// function in a step, and threads that write what they have read take turns.
    ///
    /// # Errors
    /// Whatever `f` returns; a read of data inside `f` (the line is named); an input that is tracked (take gradients
    /// inside `f`); memory that cannot be had; a fault found in data.
    #[track_caller]
    pub fn call(&self, inputs: &[&Tensor]) -> Result<Outputs> {
        self.run(inputs, &mut |x| (self.f)(x))
    }
    /// Traces the function once more, where a capture for these inputs is there, and compares: does it read a number of Rust's
    /// that has changed, which the capture keeps as it was? For a test or a debug build; nothing runs.
    ///
    /// ```
    /// # use adamant_core::{Tensor, compile};
    /// # use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// # fn checked(x: &Tensor) -> adamant_core::Result<()> {
    /// let factor = AtomicU64::new(1);
    /// let f = compile(|x: &[Tensor]| Ok(vec![&x[0] * factor.load(Relaxed) as f32]));
    /// f.call(&[x])?;
    /// f.check(&[x])?;
    /// factor.store(100, Relaxed);
    /// f.call(&[x])?; // still times 1
    /// assert!(f.check(&[x]).unwrap_err().to_string().contains("when it was captured"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The line that came out otherwise; an error of `f`.
    #[track_caller]
    pub fn check(&self, inputs: &[&Tensor]) -> Result<()> {
        self.differs(inputs, &mut |x| (self.f)(x))
    }
}
impl Compiled<()> {
    /// Runs the function, which is the same one at each call.
    ///
    /// # Errors
    /// Those of [`Compiled::call`].
    #[track_caller]
    pub fn call_with(&self, inputs: &[&Tensor], f: &mut dyn FnMut(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Outputs> {
        self.run(inputs, f)
    }
    /// Traces the function once more, where a capture for these inputs is there, and compares: it would be another one if the
    /// function read numbers of Rust's that change, which a replay repeats. Nothing runs.
    ///
    /// # Errors
    /// The line that came out otherwise; an error of `f`.
    #[track_caller]
    pub fn check_with(&self, inputs: &[&Tensor], f: &mut dyn FnMut(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<()> {
        self.differs(inputs, f)
    }
}
impl<F> Compiled<F> {
    #[track_caller]
    fn differs(&self, inputs: &[&Tensor], f: &mut dyn FnMut(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<()> {
        let kind = context(|c| CallKind::now(inputs, c));
        let first = self.first.get().filter(|first| first.fits(&kind));
        let other = if first.is_none() { self.others.find(&kind) } else { None };
        let Some(there) = first.or(other.as_deref()) else { return Ok(()) };
        let Some(device) = inputs.first().map(|t| t.meta().device) else { return Ok(()) };
        let again = self.trace(&kind, device, f)?;
        match there.captured.differs(&again.captured) {
            Some(origin) => Err(Error::at("compile", ErrorKind::Argument("the function does something else than when it was captured".into()), origin).hint(
                Hint::new("a number of Rust's that changes is a cell, or asked for at each call").code("compile::number(DType::F32, x.device()?, || 0.1)"),
            )),
            None => Ok(()),
        }
    }
}
impl<F> Compiled<F> {
    fn of(f: F) -> Compiled<F> {
        Compiled { f, first: OnceLock::new(), others: Others::default(), plans: Arc::default() }
    }
    #[track_caller]
    fn run(&self, inputs: &[&Tensor], f: &mut dyn FnMut(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Outputs> {
        let origin = Origin::here();
        if crate::transform::any() {
            // A transform interprets what is inside, which is the plain function.
            let plain: Vec<Tensor> = inputs.iter().map(|t| (*t).clone()).collect();
            return crate::step(|| f(&plain)).map(Outputs::from_vec);
        }
        let (kind, is_plain) = context(|c| (CallKind::now(inputs, c), c.capturing() || c.eager.get()));
        for t in inputs {
            if t.value().is_failed()
                && let Some(e) = t.error()
            {
                return Err(e);
            }
            if kind.grad && t.is_tracked() {
                return Err(Error::at(
                    "compile",
                    ErrorKind::Argument("an input is tracked, and no gradient flows through a compiled function; call backward inside it".into()),
                    origin,
                ));
            }
        }
        let device = match inputs.first() {
            Some(t) => t.meta().device,
            None => Device::current()?,
        };
        // Inside another capture, or where nothing is planned, it is the plain function, and its writes commit together too.
        if is_plain || device.is_reference() {
            let plain: Vec<Tensor> = inputs.iter().map(|t| t.detach()).collect();
            return crate::step(|| f(&plain)).map(Outputs::from_vec);
        }
        let call = CapturedCall { inputs, device, origin };
        if let Some(first) = self.first.get().filter(|first| first.fits(&kind)) {
            return first.captured.call(&call);
        }
        if let Some(other) = self.others.find(&kind) {
            return other.captured.call(&call);
        }
        let captured = self.trace(&kind, device, f)?;
        self.others.count(captured.captured.structure());
        match self.first.set(captured) {
            Ok(()) => {
                let first = self.first.get().ok_or_else(|| Error::at("compile", ErrorKind::Internal("a capture was lost".into()), origin))?;
                first.captured.call(&call)
            }
            Err(another) => {
                let another = Arc::new(another);
                self.others.keep(kind.hash(), another.clone());
                another.captured.call(&call)
            }
        }
    }
    /// How often it was captured, and how many captures it holds.
    pub fn captures(&self) -> Captures {
        self.others.captures(self.first.get().is_some())
    }

    fn trace(&self, kind: &CallKind<'_>, device: Device, f: &mut dyn FnMut(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<GuardedCapture> {
        let places: Vec<Tensor> = kind.inputs.iter().map(|t| Tensor::placeholder(t.meta())).collect();
        let (overlay, noting) = (OverlayGuard::push(Overlay::new(OverlayKind::Capture)), Noting::begin());
        let (outputs, stream) = capture(device, || f(&places));
        let noted = noting.end();
        let overlay = overlay.pop().unwrap_or_else(|| Overlay::new(OverlayKind::Capture));
        let outputs = outputs?.into_iter().map(|t| t.detach().ok()).collect::<Result<Vec<_>>>()?;
        let (guards, events) = noted?;
        let captured = Captured::new(&places, &outputs, &overlay, &stream, device, events, self.plans.clone())?;
        Ok(GuardedCapture { metas: kind.metas().collect(), grad: kind.grad, ambient: kind.ambient, guards, captured })
    }
}
