//! What happens to finished parts of C while they are in cache. Must not know how C was computed.
use adamant_runtime::ErrorKind;

/// Runs on every part of C, once, after its last sum.
pub trait Epilogue<T>: Sync {
    /// `values` is C[batch, row, column ..]: part of a row, or whole rows where `column` is 0.
    ///
    /// # Errors
    /// What the hook reads does not fit.
    fn apply(&self, batch: usize, row: usize, column: usize, values: &mut [T]) -> Result<(), ErrorKind>;

    /// Whether `apply` does nothing.
    fn is_identity(&self) -> bool {
        false
    }
}

/// Nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoEpilogue;

impl<T> Epilogue<T> for NoEpilogue {
    fn apply(&self, _: usize, _: usize, _: usize, _: &mut [T]) -> Result<(), ErrorKind> {
        Ok(())
    }

    fn is_identity(&self) -> bool {
        true
    }
}
