//! What happens to finished parts of C while they are in cache: a hook, and the program that layers need.
//!
//! Every step rounds to C's type by itself, so a fused epilogue gives the bits of the separate operations.
//! Must not know how C was computed.

use super::context::GemmElement;

/// Runs on every part of every row of C, once, after its last sum.
pub trait Epilogue<T>: Sync {
    /// `values` is C[batch, row, column ..].
    fn apply(&self, batch: usize, row: usize, column: usize, values: &mut [T]);

    /// Whether `apply` does nothing.
    fn is_identity(&self) -> bool {
        false
    }

    /// Says what is wrong if the hook cannot serve matrices of `m` by `n`.
    ///
    /// # Errors
    /// An operand of the hook has the wrong length.
    fn check(&self, _m: usize, _n: usize) -> Result<(), String> {
        Ok(())
    }
}

/// The last step of an [`EpilogueProgram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// max(x, 0); NaN stays NaN.
    Relu,
    /// x Φ(x), by erf.
    Gelu,
    /// x / (1 + e^-x).
    Silu,
}

/// Optionally add a bias per column, then optionally apply an activation. The default does nothing.
#[derive(Clone, Copy, Debug)]
pub struct EpilogueProgram<'a, T> {
    /// One addend a column, `[n]`.
    pub bias: Option<&'a [T]>,
    /// Applied after the bias.
    pub activation: Option<Activation>,
}

impl<T> Default for EpilogueProgram<'_, T> {
    fn default() -> Self {
        EpilogueProgram { bias: None, activation: None }
    }
}

impl<T: GemmElement> Epilogue<T> for EpilogueProgram<'_, T> {
    fn apply(&self, _batch: usize, _row: usize, column: usize, values: &mut [T]) {
        let bias = self.bias.map(|bias| &bias[column..column + values.len()]);
        T::finish(values, bias, self.activation);
    }

    fn is_identity(&self) -> bool {
        self.bias.is_none() && self.activation.is_none()
    }

    fn check(&self, _m: usize, n: usize) -> Result<(), String> {
        match self.bias {
            Some(bias) if bias.len() != n => Err(format!("gemm epilogue: a bias of {} elements for {n} columns", bias.len())),
            _ => Ok(()),
        }
    }
}
