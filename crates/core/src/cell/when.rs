//! Steps under a predicate that a device may know alone: where it is false, everything that was written keeps its bits. Each
//! write is a selection between the new value and the old one, recorded like any op: it fuses with what computes the new value,
//! and works on every device, in a capture and under transforms.
use super::{Cell, step};
use crate::{DType, Error, ErrorKind, Result, Tensor};
use std::cell::RefCell;

/// What was written under a predicate: each cell with what it held before.
type Written = Vec<(Cell, Tensor)>;
thread_local! {
    static FRAMES: RefCell<Vec<Written>> = const { RefCell::new(Vec::new()) };
}
/// A cell is about to be written: for each predicate around it, this may be the first time.
pub(super) fn note(cell: &Cell) {
    let is_new = |written: &Written| written.iter().all(|(c, _)| c.id() != cell.id());
    if matches!(FRAMES.try_with(|f| f.borrow().iter().any(is_new)), Ok(true)) {
        // Read while nothing is borrowed.
        let before = cell.detached();
        let _ = FRAMES.try_with(|f| f.borrow_mut().iter_mut().filter(|w| is_new(w)).for_each(|w| w.push((cell.clone(), before.clone()))));
    }
}
/// A predicate's frame, until it is taken off: also by a panic.
struct PredicateFrame(bool);
impl PredicateFrame {
    fn open() -> PredicateFrame {
        let _ = FRAMES.try_with(|f| f.borrow_mut().push(Vec::new()));
        PredicateFrame(true)
    }
    fn close(mut self) -> Written {
        self.0 = false;
        FRAMES.try_with(|f| f.borrow_mut().pop()).ok().flatten().unwrap_or_default()
    }
}
impl Drop for PredicateFrame {
    fn drop(&mut self) {
        if self.0 {
            let _gone = FRAMES.try_with(|f| f.borrow_mut().pop());
        }
    }
}

/// As [`step()`], where `f` gives a predicate with its result: a bool of no axes, which may depend on what `f` computed. Where
/// it is false, all cells that `f` wrote keep their bits: weights and slots, and what the forward wrote too (running statistics,
/// counts of steps, the generator, which then draws the same numbers again). Nothing is read by the host; what the other side
/// holds, NaN say, does not leak.
///
/// PyTorch's `GradScaler` skips the optimizer's step alone: there a batch whose gradients overflowed has moved the running
/// statistics of its BatchNorms, perhaps to NaN. Here it has left no trace. For their way, put the optimizer's step alone into
/// `f`.
///
/// ```
/// # use adamant_core::{Cell, Device, Tensor, step_when};
/// # Device::reference().make_current();
/// let weight = Cell::new(&Tensor::full([2], 1.0, adamant_core::DType::F32), false)?;
/// for gradient in [0.5f32, f32::INFINITY, 0.25] {
///     step_when(|| {
///         let gradient = weight.detached().full_like(gradient);
///         weight.set(&(weight.detached() - &gradient))?;
///         Ok((gradient.isfinite().all(..), ()))
///     })?;
/// }
/// assert_eq!(weight.detached().to_vec::<f32>()?, [0.25, 0.25]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Those of [`step()`]; a predicate that is no bool or has axes. A fault in the data behind a new value is one whatever the
/// predicate.
#[track_caller]
pub fn step_when<R>(f: impl FnOnce() -> Result<(Tensor, R)>) -> Result<R> {
    let here = crate::Origin::here();
    step(|| {
        let frame = PredicateFrame::open();
        let (when, result) = f()?;
        let written = frame.close();
        let ty = when.try_meta()?;
        if ty.dtype != DType::Bool || ty.shape.rank() != 0 {
            let text = format!("the predicate is {}{}, it must be a bool without axes", ty.dtype, ty.shape);
            return Err(Error::at("step_when", ErrorKind::Argument(text), here).hint(crate::Hint::new("reduce it to one").code("x.all(..)")));
        }
        let when = when.detach();
        crate::grad::with_grad(false, || {
            written.into_iter().try_for_each(|(cell, before)| {
                let device = cell.meta().device;
                let new = cell.detached();
                if device == ty.device { cell.set(&when.where_(new, before)) } else { cell.set(&when.to(device).where_(new, before)) }
            })
        })?;
        Ok(result)
    })
}
