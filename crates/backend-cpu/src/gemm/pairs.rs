//! Products of bf16 by pairs: what is packed where the CPU adds two products at a time.
//!
//! A packed number holds two elements that are adjacent in K, the first in its high half; of an odd K the last one has a zero
//! in its low half. K is counted in such numbers, also in chunks, which end where those of the other sets do. Sums are the same
//! bit for bit as those of widened operands, but for subnormal numbers ([`micro_bf16`](super::micro_bf16)).
//! Must not know block sizes, threads or C.

use super::context::{AlignedBuffer, GemmContext};
use super::driver::{Size, TileOutput, multiply};
use super::micro::A_STRIDE;
use super::pack::{MatrixView, PackA, PackB, transpose_made};
use crate::isa::Isa;
use crate::simd::{Simd, SimdKernel, dispatch};
use adamant_runtime::ErrorKind;
use half::bf16;

/// The tiles that multiply pairs, where the set in use is AVX-512 and the CPU has bf16 products that take no longer than others.
pub(crate) fn context(isa: Isa) -> Option<&'static GemmContext<f32>> {
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx512 && isa.is_available() && super::micro_bf16::pays() {
        return Some(&super::micro_bf16::PAIRS);
    }
    let _ = isa;
    None
}

/// `C = A · B` of two matrices of bf16; false if there are no pairs on this set.
///
/// # Errors
/// `OutOfMemory` for what is packed.
pub(crate) fn multiply_pairs(
    isa: Isa,
    size: Size,
    a: MatrixView<'_, bf16>,
    b: MatrixView<'_, bf16>,
    out: &mut impl TileOutput<f32>,
    [a_buffer, b_buffer]: [&mut AlignedBuffer<f32>; 2],
) -> Result<bool, ErrorKind> {
    let (Some(context), k) = (context(isa), size.k) else { return Ok(false) };
    let (a, b) = (PairedLines { view: a, k }, PairedLines { view: b.transposed(), k });
    multiply(context, Size { k: k.div_ceil(2), ..size }, &a, &b, out, false, a_buffer, b_buffer)?;
    Ok(true)
}

/// The two elements as one number.
#[inline(always)]
fn pair(first: bf16, second: bf16) -> f32 {
    f32::from_bits((first.to_bits() as u32) << 16 | second.to_bits() as u32)
}
/// Pairs of neighbours.
#[inline(always)]
fn join(elements: &[bf16], target: &mut [f32]) {
    let (pairs, rest) = elements.split_at(elements.len() / 2 * 2);
    let words: &[[u8; 4]] = bytemuck::cast_slice(pairs);
    for (target, &word) in target.iter_mut().zip(words) {
        *target = f32::from_bits(if cfg!(target_endian = "little") { u32::from_le_bytes(word).rotate_left(16) } else { u32::from_be_bytes(word) });
    }
    if let (&[last], Some(target)) = (rest, target.get_mut(elements.len() / 2)) {
        *target = pair(last, bf16::ZERO);
    }
}
/// Pairs of elements of two lines.
#[inline(always)]
fn interleave(first: &[bf16], second: Option<&[bf16]>, target: &mut [f32]) {
    match second {
        Some(second) => target.iter_mut().zip(first).zip(second).for_each(|((target, &a), &b)| *target = pair(a, b)),
        None => target.iter_mut().zip(first).for_each(|(target, &a)| *target = pair(a, bf16::ZERO)),
    }
}

/// Rows of A or columns of B, each `k` elements long, in pairs.
struct PairedLines<'a> {
    view: MatrixView<'a, bf16>,
    k: usize,
}
/// How lines of pairs lie where they are packed.
#[derive(Clone, Copy)]
enum PackedAs {
    /// one line after another, so far apart
    Lines(usize),
    /// one pair of all lines after another, so far apart
    Pairs(usize),
}
struct PackPairs<'a> {
    lines: &'a PairedLines<'a>,
    context: &'a GemmContext<f32>,
    line: usize,
    count: usize,
    pair: usize,
    pairs: usize,
    target: &'a mut [f32],
    packed: PackedAs,
}
impl SimdKernel for PackPairs<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let PackPairs { lines, context, line, count, pair: first, pairs, target, packed } = self;
        let PairedLines { view, k } = *lines;
        let elements = (2 * pairs).min(k - 2 * first);
        if view.column_stride == 1 {
            let made = |l: usize, p: usize, out: &mut [f32]| {
                let done = 2 * p;
                join(&view.data[view.index(line + l, 2 * first + done)..][..(2 * out.len()).min(elements - done)], out);
            };
            match packed {
                PackedAs::Lines(stride) => (0..count).for_each(|l| made(l, 0, &mut target[l * stride..][..pairs])),
                PackedAs::Pairs(stride) => transpose_made(context, [count, pairs], made, target, stride),
            }
        } else if view.row_stride == 1 {
            let made = |p: usize, l: usize, out: &mut [f32]| {
                let of = |element: usize| &view.data[view.index(line + l, 2 * first + element)..][..out.len()];
                interleave(of(2 * p), (2 * p + 1 < elements).then(|| of(2 * p + 1)), out);
            };
            match packed {
                PackedAs::Pairs(stride) => (0..pairs).for_each(|p| made(p, 0, &mut target[p * stride..][..count])),
                PackedAs::Lines(stride) => transpose_made(context, [pairs, count], made, target, stride),
            }
        } else {
            for l in 0..count {
                for p in 0..pairs {
                    let element = |e: usize| if e < elements { view.data[view.index(line + l, 2 * first + e)] } else { bf16::ZERO };
                    let at = match packed {
                        PackedAs::Lines(stride) => l * stride + p,
                        PackedAs::Pairs(stride) => p * stride + l,
                    };
                    target[at] = pair(element(2 * p), element(2 * p + 1));
                }
            }
        }
    }
}
impl PackA<f32> for PairedLines<'_> {
    fn pack(&self, context: &GemmContext<f32>, row: usize, rows: usize, k: usize, length: usize, target: &mut [f32]) {
        let packed = PackedAs::Lines(A_STRIDE);
        dispatch(Isa::Avx512, PackPairs { lines: self, context, line: row, count: rows, pair: k, pairs: length, target, packed });
    }

    fn tiles_together(&self) -> usize {
        PackA::tiles_together(&self.view)
    }
}
impl PackB<f32> for PairedLines<'_> {
    fn pack(&self, context: &GemmContext<f32>, column: usize, columns: usize, k: usize, length: usize, target: &mut [f32]) {
        let packed = PackedAs::Pairs(context.columns());
        dispatch(Isa::Avx512, PackPairs { lines: self, context, line: column, count: columns, pair: k, pairs: length, target, packed });
    }

    fn depth(&self) -> usize {
        PackB::depth(&self.view.transposed())
    }
}

/// What another packs as f32 that are bf16 widened, in pairs. `k` is the number of elements.
pub(crate) struct Joined<'a, P> {
    pub(crate) source: &'a P,
    pub(crate) k: usize,
}
/// The bits of a widened bf16.
#[inline(always)]
fn narrowed(value: f32) -> bf16 {
    bf16::from_bits((value.to_bits() >> 16) as u16)
}
impl<P: PackA<f32>> PackA<f32> for Joined<'_, P> {
    fn pack(&self, context: &GemmContext<f32>, row: usize, rows: usize, k: usize, length: usize, target: &mut [f32]) {
        struct JoinRows<'a>(&'a mut [f32], usize, usize);
        impl SimdKernel for JoinRows<'_> {
            type Output = ();
            #[inline(always)]
            fn run<S: Simd>(self) {
                let JoinRows(target, rows, elements) = self;
                for row in 0..rows {
                    // A packed row has space for elements, of which there are more than pairs, and each pair lies before what is still to be read.
                    let line = &mut target[row * A_STRIDE..][..elements];
                    for p in 0..elements.div_ceil(2) {
                        let second = line.get(2 * p + 1).map_or(bf16::ZERO, |&v| narrowed(v));
                        line[p] = pair(narrowed(line[2 * p]), second);
                    }
                }
            }
        }
        let elements = (2 * length).min(self.k - 2 * k);
        self.source.pack(context, row, rows, 2 * k, elements, target);
        dispatch(Isa::Avx512, JoinRows(target, rows, elements));
    }

    fn tiles_together(&self) -> usize {
        self.source.tiles_together()
    }
}
impl<P: PackB<f32>> PackB<f32> for Joined<'_, P> {
    fn pack(&self, context: &GemmContext<f32>, column: usize, columns: usize, k: usize, length: usize, target: &mut [f32]) {
        /// Lines of elements that are joined at a time, and how long they are.
        const LINES: usize = 64;
        const WIDTH: usize = 32;
        struct JoinLines<'a>(&'a [f32], &'a mut [f32], usize);
        impl SimdKernel for JoinLines<'_> {
            type Output = ();
            #[inline(always)]
            fn run<S: Simd>(self) {
                let JoinLines(lines, target, columns) = self;
                for (lines, target) in lines.chunks(2 * WIDTH).zip(target.chunks_mut(WIDTH)) {
                    let (first, second) = lines.split_at(WIDTH);
                    let target = &mut target[..columns];
                    match second.first_chunk::<WIDTH>() {
                        Some(second) => target.iter_mut().zip(first).zip(second).for_each(|((to, &a), &b)| *to = pair(narrowed(a), narrowed(b))),
                        None => target.iter_mut().zip(first).for_each(|(to, &a)| *to = pair(narrowed(a), bf16::ZERO)),
                    }
                }
            }
        }
        // Wider tiles would need more space.
        assert_eq!(context.columns(), WIDTH, "tiles of pairs have another width");
        let mut lines = [0f32; LINES * WIDTH];
        let elements = (2 * length).min(self.k - 2 * k);
        for done in (0..elements).step_by(LINES) {
            let count = LINES.min(elements - done);
            self.source.pack(context, column, columns, 2 * k + done, count, &mut lines);
            dispatch(Isa::Avx512, JoinLines(&lines[..count * WIDTH], &mut target[done / 2 * WIDTH..], columns));
        }
    }

    fn depth(&self) -> usize {
        self.source.depth().div_ceil(2)
    }
}
