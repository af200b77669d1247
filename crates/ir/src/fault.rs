//! What kernels find wrong in data.

/// An error found in data.
#[allow(missing_docs, reason = "a variant's line explains its fields")]
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// An index out of range: the index, the bound, and its position in the index tensor.
    Index { index: i64, bound: usize, position: usize },
    /// An integer divided by zero.
    DivisionByZero,
    /// Values outside a function's domain.
    Domain(String),
}
