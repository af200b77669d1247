//! Places in a forward pass that the walk back comes by: what was recorded behind such a place has given its gradients then.
//!
//! ```text
//! forward:   mark A | reads w | .. | mark B | reads u | ..
//! walk back:        ..  gradients of u are whole -> B's function | ..  gradients of w are whole -> A's
//! ```
//!
//! So what is to be done with gradients (they travel to other ranks, they are added to a sum) is recorded while the walk goes on, and not
//! behind all of it.
use super::{Grads, tape::NEXT};
use crate::Result;
use std::{
    cell::{Cell, RefCell},
    sync::atomic::Ordering::Relaxed,
};

type AtMark = Box<dyn FnOnce(&mut Grads) -> Result<()>>;
thread_local! {
    /// The marks of the pass at work, the last one last, each with the number of the next node when it was made.
    static MARKS: RefCell<Vec<(u64, AtMark)>> = const { RefCell::new(Vec::new()) };
    static MARKING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, a forward pass and its walk back, in which [`mark`] counts. Marks that no walk has come by are forgotten.
pub fn with_marks<R>(f: impl FnOnce() -> R) -> R {
    struct Before(Vec<(u64, AtMark)>, bool);
    impl Drop for Before {
        fn drop(&mut self) {
            let marks = std::mem::take(&mut self.0);
            let _gone = MARKS.with(|now| now.replace(marks));
            MARKING.set(self.1);
        }
    }
    let _before = Before(MARKS.with(RefCell::take), MARKING.replace(true));
    f()
}
/// Has `f` called by the walk back of the pass at work ([`with_marks`]; outside of one nothing happens) as soon as all that is recorded
/// from now on has given its gradients. It sees the gradients of leaves, and may take them. Of several marks the last comes first.
///
/// ```
/// # use adamant_core::{Cell, Tensor, grad::{mark, with_marks}};
/// # adamant_core::Device::reference().make_current();
/// let (w, u) = (Cell::new(&Tensor::ones([2]), true)?, Cell::new(&Tensor::ones([2]), true)?);
/// let sums = with_marks(|| {
///     let x = w.get() * 3.0;
///     let later = u.clone();
///     // The gradient of `u` is whole before that of `w` is known.
///     mark(move |grads| {
///         assert!(grads.take(&later).is_some() && grads.is_empty());
///         Ok(())
///     });
///     (x * u.get()).sum(..).backward()
/// })?;
/// assert!(sums.of(&w).is_some() && sums.of(&u).is_none());
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn mark(f: impl FnOnce(&mut Grads) -> Result<()> + 'static) {
    if MARKING.get() {
        MARKS.with(|marks| marks.borrow_mut().push((NEXT.load(Relaxed), Box::new(f))));
    }
}
/// The walk goes on with this node: marks that were made behind it are come by.
#[inline]
pub(super) fn come_by(node: u64, grads: &mut Grads) -> Result<()> {
    if MARKING.get() { called_behind(node, grads) } else { Ok(()) }
}
#[cold]
fn called_behind(node: u64, grads: &mut Grads) -> Result<()> {
    loop {
        // Not borrowed while it runs: it may read cells, whose sources mark.
        let Some((_, f)) = MARKS.with(|marks| marks.borrow_mut().pop_if(|(number, _)| *number > node)) else { return Ok(()) };
        f(grads)?;
    }
}
