//! Matrix products.
use super::Tensor;
use crate::{Arg, Op, Origin};

impl Tensor {
    /// The matrix product of two matrices or of equal batches of them.
    #[track_caller]
    pub fn matmul(&self, other: impl std::borrow::Borrow<Tensor>) -> Tensor {
        Tensor::apply_at(Op::Matmul, Arg::None, &[self, other.borrow()], Origin::here())
    }
}
