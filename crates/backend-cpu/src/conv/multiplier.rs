//! Which tiles multiply what a convolution has gathered: pairs where its operands are bf16 widened, else those of the type.
//!
//! Must not know roles or shapes.

use super::ConvShape;
use crate::gemm::Accumulator;
use crate::gemm::context::{AlignedBuffer, GemmContext};
use crate::gemm::driver::{Size, TileOutput, multiply};
use crate::gemm::pack::{PackA, PackB};
use crate::isa::Isa;
use adamant_runtime::ErrorKind;

/// What multiplies the operands of a convolution.
pub(super) struct Multiplier<T: 'static> {
    isa: Isa,
    pub(super) context: &'static GemmContext<T>,
    are_bf16: bool,
}
impl<T: Accumulator> Multiplier<T> {
    pub(super) fn new(isa: Isa, shape: &ConvShape) -> Multiplier<T> {
        Multiplier { isa, context: T::context(isa), are_bf16: shape.are_bf16 }
    }

    /// As [`multiply`](crate::gemm::driver::multiply).
    #[allow(clippy::too_many_arguments)]
    pub(super) fn multiply(
        &self,
        size: Size,
        a: &impl PackA<T>,
        b: &impl PackB<T>,
        out: &mut impl TileOutput<T>,
        accumulate: bool,
        a_buffer: &mut AlignedBuffer<T>,
        b_buffer: &mut AlignedBuffer<T>,
    ) -> Result<(), ErrorKind> {
        if self.are_bf16 && T::multiply_joined(self.isa, size, a, b, out, accumulate, [&mut *a_buffer, &mut *b_buffer])? {
            return Ok(());
        }
        multiply(self.context, size, a, b, out, accumulate, a_buffer, b_buffer)
    }
}
