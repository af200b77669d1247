//! Rows of x as codes: by their own values, or by a scale and a code of 0 that are given.
use crate::{
    device::Runtime,
    gemm::bytes::packed_stride,
    scratch::few,
    simd::{Simd, SimdKernel, dispatch},
    threads::Threads,
};
use adamant_runtime::ErrorKind;
use smallvec::SmallVec;

/// A row whose largest value is no larger than this counts as zeros: core's `SMALLEST_ROW`.
const SMALLEST_ROW: f32 = 1e-30;
/// Elements of x that a task turns into codes.
const TASK: usize = 32 << 10;

/// What the codes of a row are found by.
#[derive(Clone, Copy)]
pub(in super::super) enum RowScale {
    /// signed, about 0
    Symmetric,
    /// unsigned, from the least to the largest value
    Affine,
    /// unsigned, by a scale and a code of 0
    Given { scale: f32, zero: i32 },
}
/// How rows of x become codes.
#[derive(Clone, Copy)]
pub(in super::super) struct Coding {
    pub(in super::super) by: RowScale,
    /// symmetric ones as signed bytes, else with 128 added
    pub(in super::super) signed: bool,
}
/// What codes of a row stand for.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct RowCode {
    pub(in super::super) scale: f32,
    pub(in super::super) zero: i32,
    /// `Σ (code - zero)`
    pub(in super::super) sum: i32,
}
/// Codes of all rows of x, and a row of ones.
pub(in super::super) struct CodedRows<'a> {
    pub(in super::super) coding: Coding,
    pub(in super::super) bytes: &'a [u8],
    pub(in super::super) stride: usize,
    pub(in super::super) rows: SmallVec<[RowCode; 4]>,
}
impl<'a> CodedRows<'a> {
    /// Into `bytes`, which holds one row more.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(in super::super) fn new(runtime: &Runtime, x: &[f32], columns: usize, coding: Coding, bytes: &'a mut [u8]) -> Result<CodedRows<'a>, ErrorKind> {
        let (stride, m) = (packed_stride(columns), x.len() / columns);
        let mut rows = few(m)?;
        rows.resize(m, RowCode::default());
        let (codes, ones) = bytes.split_at_mut(m * stride);
        ones[..columns].fill(1);
        ones[columns..].fill(0);
        let some = (TASK / columns).max(1);
        let parts = rows.chunks_mut(some).zip(codes.chunks_mut(some * stride)).zip(x.chunks(some * columns));
        let threads = if x.len() <= TASK { Threads::alone() } else { &runtime.threads };
        threads.for_parts(parts, |_, ((rows, codes), x)| {
            for ((row, codes), x) in rows.iter_mut().zip(codes.chunks_mut(stride)).zip(x.chunks(columns)) {
                *row = dispatch(runtime.isa, RowOfCodes { x, coding, codes });
            }
        });
        Ok(CodedRows { coding, bytes, stride, rows })
    }
}
/// Turns a row into codes, and zeros behind them.
struct RowOfCodes<'a> {
    x: &'a [f32],
    coding: Coding,
    codes: &'a mut [u8],
}
/// Added to a number of less than 2^22, it rounds it to the nearest integer, ties to even, which the lowest bits then hold.
const ROUNDING: f32 = 12_582_912.0;
#[inline(always)]
fn rounded(v: f32) -> i32 {
    ((v + ROUNDING).to_bits() as i32).wrapping_sub(ROUNDING.to_bits() as i32)
}
/// Bits of floats as integers of the same order; a NaN is beyond all numbers.
#[inline(always)]
fn in_order(bits: i32) -> i32 {
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}
impl SimdKernel for RowOfCodes<'_> {
    type Output = RowCode;
    #[inline(always)]
    fn run<S: Simd>(self) -> RowCode {
        let RowOfCodes { x, coding, codes } = self;
        let (codes, behind) = codes.split_at_mut(x.len());
        behind.fill(0);
        let inverse = |largest: f32, steps: f32| if largest > SMALLEST_ROW { steps / largest } else { 0.0 };
        if let RowScale::Given { scale, zero } = coding.by {
            return given(x, scale, zero, codes);
        }
        if let RowScale::Symmetric = coding.by {
            // Magnitudes are in the order of their bits.
            let largest = f32::from_bits(x.iter().fold(0u32, |most, v| most.max(v.to_bits() & 0x7fff_ffff)));
            let inverse = inverse(largest, 127.0);
            let offset = if coding.signed { 0 } else { 128 };
            let row = RowCode { scale: largest / 127.0, zero: offset, sum: 0 };
            if !largest.is_finite() {
                codes.fill(offset as u8);
                return row;
            }
            let mut sum = 0i32;
            for (to, v) in codes.iter_mut().zip(x) {
                let code = rounded(v * inverse);
                sum = sum.wrapping_add(code);
                *to = (code + offset) as u8;
            }
            return RowCode { sum, ..row };
        }
        let bits = |v: &f32| in_order(v.to_bits() as i32);
        let (least, most) = x.iter().fold((0, 0), |(least, most): (i32, i32), v| (least.min(bits(v)), most.max(bits(v))));
        let (least, most) = (f32::from_bits(in_order(least) as u32), f32::from_bits(in_order(most) as u32));
        let range = most - least;
        let scale = range / 255.0;
        if !range.is_finite() {
            codes.fill(0);
            return RowCode { scale, zero: 0, sum: 0 };
        }
        let inverse = inverse(range, 255.0);
        let zero = rounded(-least * inverse);
        let mut sum = 0i32;
        for (to, v) in codes.iter_mut().zip(x) {
            let code = (rounded(v * inverse) + zero).clamp(0, 255);
            sum = sum.wrapping_add(code);
            *to = code as u8;
        }
        RowCode { scale, zero, sum: sum.wrapping_sub(zero.wrapping_mul(x.len() as i32)) }
    }
}
/// Codes by a scale and a code of 0; a NaN has the least.
#[inline(always)]
fn given(x: &[f32], scale: f32, zero: i32, codes: &mut [u8]) -> RowCode {
    // Values beyond have the first or the last code, and so have these.
    const FAR: f32 = 1_048_576.0;
    let inverse = 1.0 / scale;
    let mut sum = 0i32;
    for (to, v) in codes.iter_mut().zip(x) {
        // In this order a NaN becomes the first of the two.
        let step = v * inverse;
        let step = if step > -FAR { step } else { -FAR };
        let step = if step < FAR { step } else { FAR };
        let code = (rounded(step) + zero).clamp(0, 255);
        sum = sum.wrapping_add(code);
        *to = code as u8;
    }
    RowCode { scale, zero, sum: sum.wrapping_sub(zero.wrapping_mul(x.len() as i32)) }
}
