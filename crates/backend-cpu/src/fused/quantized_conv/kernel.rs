//! The rows of a convolution's weight in the order of a window's steps.
use super::{super::quantized_linear::CodedWeight, layout::PlaneLayout, planes::interleave};
use crate::{
    gemm::bytes::micro::{ByteContext, QUAD, Strided},
    isa::Isa,
    scratch::{ScratchVec, filled},
    simd::{Simd, SimdKernel, dispatch},
    threads::Threads,
};
use adamant_runtime::ErrorKind;

/// Rows as tiles read them.
pub(super) struct KernelRows<'a> {
    bytes: RowBytes<'a>,
    stride: usize,
    /// of each row's signed codes, where x's count from something
    pub sums: ScratchVec<i32>,
}
enum RowBytes<'a> {
    AsStored(&'a [u8]),
    Packed(ScratchVec<u8>),
}
impl<'a> KernelRows<'a> {
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(layout: &PlaneLayout, context: &ByteContext, weight: &CodedWeight<'a>, isa: Isa, threads: &Threads) -> Result<KernelRows<'a>, ErrorKind> {
        KernelRows::of_bytes(layout, context, weight.bytes, weight.flip(), isa, threads)
    }
    /// A row of ones.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn ones(layout: &PlaneLayout, context: &ByteContext, isa: Isa) -> Result<KernelRows<'static>, ErrorKind> {
        let ones = filled(1u8, layout.sizes.window())?;
        let KernelRows { bytes, stride, sums } = KernelRows::of_bytes(layout, context, &ones, 0, isa, Threads::alone())?;
        let bytes = match bytes {
            RowBytes::Packed(bytes) => bytes,
            RowBytes::AsStored(_) => ones,
        };
        Ok(KernelRows { bytes: RowBytes::Packed(bytes), stride, sums })
    }
    fn of_bytes<'b>(layout: &PlaneLayout, context: &ByteContext, stored: &'b [u8], flip: u8, isa: Isa, threads: &Threads) -> Result<KernelRows<'b>, ErrorKind> {
        let window = layout.sizes.window();
        let mut sums = filled(0i32, stored.len() / window)?;
        let as_stored = context.width == 1 && flip == 0 && layout.sizes.taps() == 1 && window.is_multiple_of(QUAD);
        let stride = layout.steps.quads() * QUAD * context.width;
        // Rows of some kilobytes at a time.
        let some = (16384 / window).max(1);
        let of_rows = |rows: &[u8], to: Option<&mut [u8]>, sums: &mut [i32]| {
            dispatch(isa, RowsToPack { layout, stored: rows, flip, width: context.width, to, sums });
        };
        let parts = stored.chunks(some * window).zip(sums.chunks_mut(some));
        if as_stored {
            threads.for_parts(parts, |_, (rows, sums)| of_rows(rows, None, sums));
            return Ok(KernelRows { bytes: RowBytes::AsStored(stored), stride, sums });
        }
        let mut bytes = filled(0u8, sums.len() * stride)?;
        let parts = stored.chunks(some * window).zip(sums.chunks_mut(some)).zip(bytes.chunks_mut(some * stride));
        threads.for_parts(parts, |_, ((rows, sums), to)| of_rows(rows, Some(to), sums));
        Ok(KernelRows { bytes: RowBytes::Packed(bytes), stride, sums })
    }
    /// From a row on.
    pub fn from(&self, row: usize) -> Strided<'_, u8> {
        let bytes: &[u8] = match &self.bytes {
            RowBytes::AsStored(bytes) => bytes,
            RowBytes::Packed(bytes) => bytes,
        };
        Strided { data: &bytes[row * self.stride..], stride: self.stride }
    }
}
struct RowsToPack<'a> {
    layout: &'a PlaneLayout,
    stored: &'a [u8],
    flip: u8,
    width: usize,
    to: Option<&'a mut [u8]>,
    sums: &'a mut [i32],
}
impl SimdKernel for RowsToPack<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let RowsToPack { layout, stored, flip, width, to, sums } = self;
        let window = layout.sizes.window();
        for (sum, row) in sums.iter_mut().zip(stored.chunks_exact(window)) {
            *sum = row.iter().map(|&code| i32::from((code ^ flip) as i8)).sum();
        }
        let Some(to) = to else { return };
        let (taps, bytes) = (layout.step_taps(), layout.steps.quads() * QUAD);
        let columns = if layout.folded { layout.sizes.kernel[2] } else { 1 };
        for (row, to) in stored.chunks_exact(window).zip(to.chunks_exact_mut(bytes * width)) {
            // What is widened is made where its last bytes will be.
            let (quads, _) = to[bytes * (width - 1)..].as_chunks_mut::<QUAD>();
            for (quad, to) in quads.chunks_exact_mut(taps).enumerate() {
                let of = layout.channels(quad);
                if let ([Some(_), Some(_), Some(_), Some(_)], false) = (of, layout.folded) {
                    let from = std::array::from_fn(|j| &row[(quad * QUAD + j) * taps..][..taps]);
                    interleave(from, u32::from_le_bytes([flip; QUAD]), to);
                    continue;
                }
                for (j, of) in of.iter().enumerate() {
                    for (tap, to) in to.iter_mut().enumerate() {
                        to[j] = of.map_or(0, |of| row[(of.channel * taps + tap) * columns + of.column] ^ flip);
                    }
                }
            }
            if width == 2 {
                for k in 0..bytes {
                    let code = i16::from(to[bytes + k] as i8).to_le_bytes();
                    to[2 * k..2 * k + 2].copy_from_slice(&code);
                }
            }
        }
    }
}
