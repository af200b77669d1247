//! A few rows times lines of 16 bits in which K is contiguous: numbers are made in registers ([`words`](super::words)), and nothing is
//! packed. The sums are those of widened operands, in their order.
//! Subnormal bf16 count here, whereas products by pairs (`pairs`), which take more rows, know none.
//! Must not know threads, or what is done with sums.
use super::{
    context::{Accumulator, AlignedBuffer},
    driver::{BLOCK_COLUMNS, Size, SumsOutput},
    micro::A_STRIDE,
    pack::{MatrixView, PackA},
    words::{Bf16Pairs, F16Pairs, FewVectors, REGION, RegionSum, WordRows, multiply},
};
use crate::{gemm::MatrixElement, isa::Isa};
use adamant_runtime::ErrorKind;

/// Rows up to which this takes less time than packing.
const MOST_ROWS: usize = 8;

/// Two dtypes of 16 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HalfKind {
    Bf16,
    F16,
}
/// Columns of B as lines, so many bytes apart.
#[derive(Clone, Copy)]
pub(crate) struct HalfLines<'a> {
    kind: HalfKind,
    bytes: &'a [u8],
    stride: usize,
}
impl<'a> HalfLines<'a> {
    /// Of a matrix whose columns lie in this way, if its elements have 16 bits.
    pub(crate) fn of<E: MatrixElement>(b: &MatrixView<'a, E>) -> Option<HalfLines<'a>> {
        let from = b.data.get(usize::try_from(b.base).ok()?..)?;
        let (kind, bytes) = E::as_halves(from)?;
        let stride = usize::try_from(b.column_stride).ok()?;
        (b.row_stride == 1).then_some(HalfLines { kind, bytes, stride: 2 * stride })
    }
}

/// `C = A · B` of a few rows; false if there are more, or lines that lie in another way.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn multiply_few(
    isa: Isa,
    size: Size,
    a: &impl PackA<f32>,
    b: Option<HalfLines<'_>>,
    out: &mut impl SumsOutput<f32>,
    [a_buffer, b_buffer]: [&mut AlignedBuffer<f32>; 2],
) -> Result<bool, ErrorKind> {
    let Size { m, n, k } = size;
    let (Some(HalfLines { kind, bytes, stride }), true) = (b, m <= MOST_ROWS && n > 1) else { return Ok(false) };
    let (width, context) = (WordRows::width(isa, m), f32::context(isa));
    let lines = WordRows { bytes, stride, length: 2 * k, rows: n, bits: 16 };
    let x = a_buffer.take(k.div_ceil(REGION) * m * A_STRIDE)?;
    for (x, column) in x.chunks_exact_mut(m * A_STRIDE).zip((0..k).step_by(REGION)) {
        a.pack(context, 0, m, column, REGION.min(k - column), x);
    }
    let (space, sums) = b_buffer.take(WordRows::space(width) + 2 * m * width)?.split_at_mut(WordRows::space(width));
    let (totals, sums) = sums.split_at_mut(m * width);
    for j0 in (0..n).step_by(BLOCK_COLUMNS) {
        let block = BLOCK_COLUMNS.min(n - j0);
        for j in (j0..j0 + block).step_by(width) {
            for (x, column) in x.chunks_exact(m * A_STRIDE).zip((0..k).step_by(REGION)) {
                let columns = REGION.min(k - column);
                let words = lines.stage(isa, j, column, columns, width, space);
                let x = FewVectors { data: x, stride: A_STRIDE, count: m };
                let to = if column == 0 { &mut *totals } else { &mut *sums };
                match kind {
                    HalfKind::Bf16 => multiply::<Bf16Pairs>(isa, words, width, x, 0, columns, RegionSum::Numbers(None), to),
                    HalfKind::F16 => multiply::<F16Pairs>(isa, words, width, x, 0, columns, RegionSum::Numbers(None), to),
                }
                if column > 0 {
                    totals.iter_mut().zip(&*sums).for_each(|(total, sum)| *total += sum);
                }
            }
            let columns = width.min(j0 + block - j);
            totals.chunks_exact(width).enumerate().for_each(|(i, totals)| out.put(i, j, &totals[..columns]));
        }
        out.finish(0, m, j0, block)?;
    }
    Ok(true)
}
