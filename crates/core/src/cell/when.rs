//! Steps under a predicate that a device may know alone: where it is false, everything that was written keeps its bits. Each
//! write is a selection between the new value and the old one, recorded like any op: it fuses with what computes the new value,
//! and works on every device, in a capture and under transforms. Beneath it lies the review: what a step has written is shown to a
//! function before it commits.
use super::{Cell, step};
use crate::{DType, Error, ErrorKind, Result, Tensor};
use std::cell::RefCell;

/// A cell that was written in a step which has not committed yet.
#[derive(Clone)]
pub struct WrittenCell {
    /// the cell, which holds the new value for who is in the step
    pub cell: Cell,
    /// what it held before
    pub before: Tensor,
}
/// What was written since a review began.
type Written = Vec<WrittenCell>;
thread_local! {
    static FRAMES: RefCell<Vec<Written>> = const { RefCell::new(Vec::new()) };
}
/// A cell is about to be written: for each review around it, this may be the first time.
pub(super) fn note(cell: &Cell) {
    let is_new = |written: &Written| written.iter().all(|w| w.cell.id() != cell.id());
    if matches!(FRAMES.try_with(|f| f.borrow().iter().any(is_new)), Ok(true)) {
        // Read while nothing is borrowed.
        let before = cell.detached();
        let _ = FRAMES
            .try_with(|f| f.borrow_mut().iter_mut().filter(|w| is_new(w)).for_each(|w| w.push(WrittenCell { cell: cell.clone(), before: before.clone() })));
    }
}
/// A review's frame, until it is taken off: also by a panic.
struct ReviewFrame(bool);
impl ReviewFrame {
    fn open() -> ReviewFrame {
        let _ = FRAMES.try_with(|f| f.borrow_mut().push(Vec::new()));
        ReviewFrame(true)
    }
    fn close(mut self) -> Written {
        self.0 = false;
        FRAMES.try_with(|f| f.borrow_mut().pop()).ok().flatten().unwrap_or_default()
    }
}
impl Drop for ReviewFrame {
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
    let keep = |(when, _): &(Tensor, R), written: &[WrittenCell]| {
        let ty = when.try_meta()?;
        if ty.dtype != DType::Bool || ty.shape.rank() != 0 {
            let text = format!("the predicate is {}{}, it must be a bool without axes", ty.dtype, ty.shape);
            return Err(Error::at("step_when", ErrorKind::Argument(text), here).hint(crate::Hint::new("reduce it to one").code("x.all(..)")));
        }
        let when = when.detach();
        crate::grad::with_grad(false, || {
            written.iter().try_for_each(|WrittenCell { cell, before }| {
                let device = cell.meta().device;
                let new = cell.detached();
                if device == ty.device { cell.set(&when.where_(new, before)) } else { cell.set(&when.to(device).where_(new, before)) }
            })
        })
    };
    step_reviewed(f, keep).map(|(_, result)| result)
}
/// As [`step()`], whose writes are shown to `review` before they commit, each cell once, with what it held before `f`. It may write other
/// values in their place; an error of it is one of the step.
///
/// ```
/// # use adamant_core::{Cell, Device, Tensor, step_reviewed};
/// # Device::reference().make_current();
/// let mean = Cell::new(&Tensor::full([2], 1.0, adamant_core::DType::F32), false)?;
/// // What is not finite is not taken over, element by element.
/// step_reviewed(
///     || mean.set(&(mean.detached() * Tensor::from_vec(vec![2.0f32, f32::NAN], [2]))),
///     |_, written| written.iter().try_for_each(|w| {
///         let new = w.cell.detached();
///         w.cell.set(&new.isfinite().where_(&new, &w.before))
///     }),
/// )?;
/// assert_eq!(mean.detached().to_vec::<f32>()?, [2.0, 1.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Those of [`step()`] and of `review`.
#[track_caller]
pub fn step_reviewed<R>(f: impl FnOnce() -> Result<R>, review: impl FnOnce(&R, &[WrittenCell]) -> Result<()>) -> Result<R> {
    step(|| {
        let frame = ReviewFrame::open();
        let result = f()?;
        let written = frame.close();
        review(&result, &written)?;
        Ok(result)
    })
}
