//! Numbers times codes: those of the weight become numbers while they are packed for the product, a strip at a time, so that memory
//! gives the codes alone. The products and sums are those of a matrix of the numbers, in the same order.
use super::weight::{CodedWeight, WeightPart};
use crate::{
    device::Runtime,
    gemm::{
        bytes::{
            PackScratch,
            micro::{BLOCK, LINE, QUAD},
        },
        context::{Accumulator, GemmContext},
        driver::{PlainOutput, Size, multiply},
        micro::Block,
        pack::{MatrixView, PackB},
        part_size,
    },
    isa::Isa,
    simd::{Simd, SimdKernel, dispatch},
};
use adamant_runtime::{
    ErrorKind,
    composite::packed::{CodeLevels, NORMAL_FLOATS},
};
use std::cell::Cell;

/// Products below this many multiplications run on the calling thread.
const SERIAL_WORK: usize = 1 << 17;

/// The weight's numbers as the other operand of a product, from a row on.
struct NumbersOfCodes<'a> {
    isa: Isa,
    weight: &'a CodedWeight<'a>,
    first: usize,
    /// what packing came to, which has no other way to say it
    failed: Cell<Option<ErrorKind>>,
}
impl PackB<f32> for NumbersOfCodes<'_> {
    fn pack(&self, context: &GemmContext<f32>, column: usize, columns: usize, k: usize, length: usize, target: &mut [f32]) {
        let (weight, stride) = (self.weight, context.columns());
        let part = WeightPart { row: self.first + column, rows: columns, column: k, columns: length, stretch: length.next_multiple_of(QUAD) };
        let packed = PackScratch::with(|PackScratch { rows, blocks, .. }| {
            let blocks = part.pack(self.isa, weight, rows, blocks)?;
            dispatch(self.isa, NumbersOfBlocks { weight, part, blocks, target, stride });
            Ok::<(), ErrorKind>(())
        });
        if let Err(error) = packed {
            self.failed.set(Some(error));
        }
    }
}
/// Numbers of codes in blocks, a column of the weight in each row of the target.
struct NumbersOfBlocks<'a> {
    weight: &'a CodedWeight<'a>,
    part: WeightPart,
    blocks: &'a [i8],
    target: &'a mut [f32],
    stride: usize,
}
impl SimdKernel for NumbersOfBlocks<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let NumbersOfBlocks { weight, part: WeightPart { row, rows, column, columns, .. }, blocks, target, stride } = self;
        let (groups, size) = (weight.groups(), weight.group());
        let block = columns.div_ceil(QUAD) * LINE;
        for (blocks, first) in blocks.chunks_exact(block).zip((0..rows).step_by(BLOCK)) {
            let wide = BLOCK.min(rows - first);
            let (quads, mut at) = (blocks.as_chunks::<LINE>().0, 0);
            while at < columns {
                let group = (column + at) / size;
                let end = columns.min((group + 1) * size - column);
                let (mut scale, mut base) = ([0f32; BLOCK], [0i32; BLOCK]);
                for l in 0..wide {
                    scale[l] = weight.scale[(row + first + l) * groups + group];
                    base[l] = weight.base(row + first + l, group);
                }
                for c in at..end {
                    let (Some(quads), shift) = (quads.get(c / QUAD), 24 - 8 * (c % QUAD) as u32) else { return };
                    let quads: [i32; BLOCK] = bytemuck::cast::<[i8; LINE], _>(*quads);
                    let mut numbers = [0f32; BLOCK];
                    if weight.levels == CodeLevels::NormalFloat {
                        for l in 0..BLOCK {
                            numbers[l] = NORMAL_FLOATS[(i32::from_le(quads[l]) >> (24 - shift)) as usize & 15] * scale[l];
                        }
                    } else {
                        for l in 0..BLOCK {
                            numbers[l] = (((i32::from_le(quads[l]) << shift) >> 24) - base[l]) as f32 * scale[l];
                        }
                    }
                    match target[c * stride + first..].first_chunk_mut::<BLOCK>() {
                        Some(to) if wide == BLOCK => *to = numbers,
                        _ => target[c * stride + first..][..wide].copy_from_slice(&numbers[..wide]),
                    }
                }
                at = end;
            }
        }
    }
}
/// `x numbersᵀ + bias`.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn product(runtime: &Runtime, x: &[f32], weight: &CodedWeight<'_>, out: &mut [f32]) -> Result<(), ErrorKind> {
    let (n, k) = (weight.rows, weight.columns);
    let (m, context, threads) = (x.len() / k, f32::context(runtime.isa), &runtime.threads);
    let part = |i: usize, j: usize, block: Block<'_, f32>| {
        let (size, columns) = (Size { m: block.rows, n: block.columns, k }, block.columns);
        let rows = MatrixView { data: x, base: (i * k) as isize, row_stride: k as isize, column_stride: 1 };
        let finish = |_: usize, column: usize, values: &mut [f32]| {
            if let Some(bias) = weight.bias {
                let bias = &bias[j + column..];
                values.chunks_mut(columns).for_each(|line| line.iter_mut().zip(bias).for_each(|(v, bias)| *v += bias));
            }
            Ok(())
        };
        f32::with_scratch(|scratch| {
            let numbers = NumbersOfCodes { isa: runtime.isa, weight, first: j, failed: Cell::new(None) };
            multiply(context, size, &rows, &numbers, &mut PlainOutput { block, finish }, false, &mut scratch.a, &mut scratch.b)?;
            numbers.failed.take().map_or(Ok(()), Err)
        })
    };
    let out = Block::new(out, m, n, n);
    if threads.count() == 1 || m * n * k < SERIAL_WORK {
        return part(0, 0, out);
    }
    let (rows, columns) = part_size(threads.count(), 1, m, n, context.rows, context.columns());
    threads.try_for_parts(out.cut(rows, columns), |_, (i, j, block)| part(i, j, block))
}
