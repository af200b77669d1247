//! How long gradients are: of those that are here, or of all ranks.
use super::total_norm;
use adamant_core::{DType, Grads, Result, Tensor};
use adamant_nn::Param;

/// Who says how long gradients are. Where ranks share them out, what is here is a piece of each, or nothing of some.
pub trait GradientMeasure {
    /// The norm of the gradients of these parameters together, of shape \[\], as it was computed; and the dtype in which it is told.
    ///
    /// # Errors
    /// A gradient that carries an error.
    fn norm(&self, grads: &Grads, parameters: &[Param]) -> Result<(Tensor, DType)>;
    /// Has a parameter a gradient, here or on another rank?
    fn has(&self, grads: &Grads, parameter: &Param) -> bool;
    /// Are there pieces of gradients here?
    fn is_of_pieces(&self) -> bool;
}
/// Gradients that are here as a whole.
pub(super) struct WholeGradients;
impl GradientMeasure for WholeGradients {
    #[track_caller]
    fn norm(&self, grads: &Grads, parameters: &[Param]) -> Result<(Tensor, DType)> {
        let cells: Vec<_> = parameters.iter().map(Param::cell).collect();
        let all: Vec<&Tensor> = cells.iter().filter_map(|cell| grads.of(cell)).collect();
        let total = total_norm(&all, 2.0)?;
        Ok((total.norm, total.dtype))
    }
    fn has(&self, grads: &Grads, parameter: &Param) -> bool {
        grads.of(&parameter.cell()).is_some()
    }
    fn is_of_pieces(&self) -> bool {
        false
    }
}
