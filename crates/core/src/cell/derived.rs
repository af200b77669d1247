//! Copies that follow from a cell's value, such as a cast or packed one, kept until the cell is written.
use super::Cell;
use crate::{
    Result, Tensor,
    record::{context, evaluate},
};

/// The most copies that a cell keeps, one for each key and what is around it.
const MOST_DERIVED: usize = 8;
/// A copy, and the number of the commit that it was made of.
pub(super) struct Derived {
    key: &'static str,
    /// [`crate::Ambient::identity`] of where it was made: an interceptor may have acted on it
    around: u64,
    since: u64,
    tensor: Tensor,
}
impl Cell {
    /// What `f` makes of the value: kept by its key until the cell is written, and made again then. No gradient flows through it.
    /// The copy is of the value that this thread sees. Where that is not the committed one (inside a step that wrote the cell,
    /// under a transform, in a compiled function, where `f` becomes part of the function), it is made anew and not kept; who reads
    /// an older [`crate::Snapshot`] makes it anew too.
    ///
    /// Keep one meaning for each key of a cell. Under other interceptors it is another copy.
    ///
    /// ```
    /// # use adamant_core::{Cell, DType, Device, Tensor};
    /// # Device::reference().make_current();
    /// let weight = Cell::new(&Tensor::from_vec(vec![1.0f32, 2.0], [2]), true)?;
    /// let half = || weight.derived("bf16", |w| w.cast(DType::BF16).ok());
    /// assert_eq!(half()?.to_vec_as::<f32>()?, [1.0, 2.0]);
    /// half()?; // nothing is computed
    /// weight.set(&(weight.detached() * 3.0))?;
    /// assert_eq!(half()?.to_vec_as::<f32>()?, [3.0, 6.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `f`; a value that carries an error.
    #[track_caller]
    pub fn derived(&self, key: &'static str, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        let make = |value: &Tensor| crate::grad::no_grad(|| f(value)?.detach().ok());
        let plain = context(|c| !c.capturing() && c.open.borrow().get(self.0.id).is_none() && c.committing.get() == 0);
        if crate::transform::any() || super::overlay::any() || !plain {
            return make(&self.detached().ok()?);
        }
        let (value, since) = context(|c| {
            c.alive("cell read")?;
            Ok::<_, crate::Error>(self.version_of(c.section.at(self.0.id)))
        })?;
        let around = crate::record::context(crate::ambient::identity);
        if let Some(kept) = self.0.derived.lock().iter().find(|d| d.key == key && d.around == around && d.since == since) {
            return Ok(kept.tensor.clone());
        }
        let made = make(&Tensor::from_value(value).ok()?)?;
        // Other threads get it too: it is of no thread's window.
        evaluate(made.value())?;
        // A value whose write was taken back meanwhile is of a commit that there is no more.
        if self.since() != since {
            return Ok(made);
        }
        let mut gone = Vec::new();
        let mut all = self.0.derived.lock();
        match all.iter_mut().find(|d| d.key == key && d.around == around) {
            Some(d) if d.since <= since => gone.push(std::mem::replace(d, Derived { key, around, since, tensor: made.clone() })),
            Some(_) => {}
            None => {
                if all.len() >= MOST_DERIVED {
                    gone.push(all.remove(0));
                }
                all.push(Derived { key, around, since, tensor: made.clone() });
            }
        }
        drop(all);
        drop(gone);
        Ok(made)
    }
}
