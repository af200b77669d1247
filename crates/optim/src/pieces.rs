//! Optimizers that change pieces of parameters: where ranks share out who updates what, each has slots for its own elements alone.
//!
//! ```text
//! Grads (of pieces) -> UpdateRule::update (on pieces, slots of pieces) -> ParameterPieces::write .. -> ParameterPieces::finish
//! ```
//!
//! A rule that computes each element from that element alone gives the bits that it gives on the whole parameter.
//!
//! Must not know: how pieces travel.
use adamant_core::{Result, Tensor};
use adamant_nn::Param;
use std::ops::Range;

/// Which elements of parameters an optimizer changes here. See [`Optimizer::share_out`](crate::Optimizer::share_out).
pub trait ParameterPieces: Send + Sync {
    /// The elements of a parameter, row-major, that are changed here: of one that has none it sees no gradient.
    fn piece(&self, p: &Param) -> Range<usize>;
    /// The present value of that piece, of one axis.
    ///
    /// # Errors
    /// A value that cannot be had.
    fn read(&self, p: &Param) -> Result<Tensor>;
    /// Takes its new value.
    ///
    /// # Errors
    /// A value of another length or dtype.
    fn write(&self, p: &Param, value: &Tensor) -> Result<()>;
    /// All pieces of the step are written: called once in each, within the step.
    ///
    /// # Errors
    /// Whatever keeps parameters from their new values: the step has not been.
    fn finish(&self) -> Result<()>;
}
