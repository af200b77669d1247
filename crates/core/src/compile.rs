//! `compile(f)`: one plan over a whole function. The first call captures what `f` records, nothing runs meanwhile;
//! later calls replay the plan without recording. Cells that `f` reads are implicit inputs, cells that it writes
//! implicit outputs, updated in place where nobody else holds their value.
//!
//! What `f` may depend on: its inputs' shapes and dtypes, the cells it reads, [`Flag`]s, whether gradients are
//! recorded. Rust numbers that the closure captures are fixed at capture; pass what changes as a tensor or a cell.
use crate::{
    Device, Error, ErrorKind, Meta, Origin, Outputs, Result, Tensor,
    cell::{Overlay, OverlayGuard, OverlayKind},
    hash::mix,
    record::{capture, context},
    schedule::captured::{Call, Captured},
};
use parking_lot::Mutex;
use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// A switch that compiled functions watch: a capture that read it is used only while it stands as it did then
/// (training or evaluation).
#[derive(Clone, Debug)]
pub struct Flag(Arc<AtomicBool>);
thread_local! {
    static GUARDS: RefCell<Vec<Vec<(Flag, bool)>>> = const { RefCell::new(Vec::new()) };
}
impl Flag {
    /// A switch.
    pub fn new(on: bool) -> Flag {
        Flag(Arc::new(AtomicBool::new(on)))
    }
    /// Is it on?
    pub fn get(&self) -> bool {
        let on = self.0.load(Relaxed);
        // A thread that ends captures nothing any more.
        let _ = GUARDS.try_with(|g| {
            if let Some(top) = g.borrow_mut().last_mut() {
                top.push((self.clone(), on));
            }
        });
        on
    }
    /// Turns it on or off.
    pub fn set(&self, on: bool) {
        self.0.store(on, Relaxed);
    }
}

/// Notes the flags that a capture reads, until it is dropped: also by a panic.
struct SeenFlags(bool);
impl SeenFlags {
    fn begin() -> SeenFlags {
        let _ = GUARDS.try_with(|g| g.borrow_mut().push(Vec::new()));
        SeenFlags(true)
    }
    fn pop() -> Vec<(Flag, bool)> {
        GUARDS.try_with(|g| g.borrow_mut().pop()).ok().flatten().unwrap_or_default()
    }
    fn end(mut self) -> Vec<(Flag, bool)> {
        self.0 = false;
        SeenFlags::pop()
    }
}
impl Drop for SeenFlags {
    fn drop(&mut self) {
        if self.0 {
            SeenFlags::pop();
        }
    }
}

/// A function that is captured once per kind of inputs and replayed afterwards.
pub struct Compiled<F> {
    f: F,
    /// The capture of the first call, which is often the only one: found without a lock.
    first: OnceLock<Guarded>,
    /// The others, by the hash of their kind.
    others: Mutex<BTreeMap<u64, Vec<Arc<Guarded>>>>,
}
/// What a capture is good for: inputs like these, called where these things stand so.
struct Kind<'a> {
    inputs: &'a [&'a Tensor],
    grad: bool,
    ambient: u64,
}
impl Kind<'_> {
    fn metas(&self) -> impl ExactSizeIterator<Item = Meta> {
        self.inputs.iter().map(|t| t.meta())
    }
    fn hash(&self) -> u64 {
        self.metas().fold(mix(self.ambient, self.grad as u64), |hash, m| mix(hash ^ m.dtype as u64, m.shape.hash()))
    }
}
struct Guarded {
    metas: Vec<Meta>,
    grad: bool,
    ambient: u64,
    flags: Vec<(Flag, bool)>,
    captured: Captured,
}
impl Guarded {
    fn fits(&self, kind: &Kind<'_>) -> bool {
        let as_they_stood = || self.flags.iter().all(|(flag, on)| flag.0.load(Relaxed) == *on);
        self.grad == kind.grad && self.ambient == kind.ambient && kind.metas().eq(self.metas.iter().copied()) && as_they_stood()
    }
}

/// Is this thread capturing a function? Then Rust numbers that change from call to call would be fixed.
pub fn is_capturing() -> bool {
    context(|c| c.capturing())
}
/// Compiles a function of tensors.
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
    Compiled { f, first: OnceLock::new(), others: Mutex::new(BTreeMap::new()) }
}

impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>> Compiled<F> {
    /// Runs the function.
    ///
    /// # Errors
    /// Whatever `f` returns; a read of data inside `f` (the line is named); an input that is tracked (take gradients
    /// inside `f`); memory that cannot be had; a fault found in data.
    #[track_caller]
    pub fn call(&self, inputs: &[&Tensor]) -> Result<Outputs> {
        let origin = Origin::here();
        if crate::transform::any() {
            // A transform interprets what is inside, which is the plain function.
            let plain: Vec<Tensor> = inputs.iter().map(|t| (*t).clone()).collect();
            return crate::step(|| (self.f)(&plain)).map(Outputs::from_vec);
        }
        let grad = crate::grad::grad_enabled();
        for t in inputs {
            if let Some(e) = t.error() {
                return Err(e);
            }
            if t.is_tracked() && grad {
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
        if context(|c| c.capturing() || c.eager.get()) || device.is_reference() {
            let plain: Vec<Tensor> = inputs.iter().map(|t| t.detach()).collect();
            return crate::step(|| (self.f)(&plain)).map(Outputs::from_vec);
        }
        let kind = Kind { inputs, grad, ambient: crate::ambient::identity() };
        let call = Call { inputs, device, origin };
        if let Some(first) = self.first.get().filter(|first| first.fits(&kind)) {
            return first.captured.call(&call);
        }
        let known = self.others.lock().get(&kind.hash()).and_then(|all| all.iter().find(|g| g.fits(&kind)).cloned());
        if let Some(other) = known {
            return other.captured.call(&call);
        }
        let captured = self.capture(&kind, device)?;
        match self.first.set(captured) {
            Ok(()) => {
                let first = self.first.get().ok_or_else(|| Error::at("compile", ErrorKind::Internal("a capture was lost".into()), origin))?;
                first.captured.call(&call)
            }
            Err(another) => {
                let another = Arc::new(another);
                self.others.lock().entry(kind.hash()).or_default().push(another.clone());
                another.captured.call(&call)
            }
        }
    }

    fn capture(&self, kind: &Kind<'_>, device: Device) -> Result<Guarded> {
        let places: Vec<Tensor> = kind.inputs.iter().map(|t| Tensor::placeholder(t.meta())).collect();
        let (overlay, seen) = (OverlayGuard::push(Overlay::new(OverlayKind::Capture)), SeenFlags::begin());
        let (outputs, stream) = capture(device, || (self.f)(&places));
        let flags = seen.end();
        let overlay = overlay.pop().unwrap_or_else(|| Overlay::new(OverlayKind::Capture));
        let outputs = outputs?.into_iter().map(|t| t.detach().ok()).collect::<Result<Vec<_>>>()?;
        let captured = Captured::new(&places, &outputs, &overlay, &stream, device)?;
        Ok(Guarded { metas: kind.metas().collect(), grad: kind.grad, ambient: kind.ambient, flags, captured })
    }
}
