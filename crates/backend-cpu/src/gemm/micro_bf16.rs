//! AVX-512 BF16: one number of A or B is two bf16 that are adjacent in K, and one instruction adds both products.
//!
//! The instruction adds the product of the high halves, rounds, adds that of the low halves and rounds again. A product of two
//! bf16 is exact in f32, so each half is what a fused multiply-add of widened numbers is; with the element of the lower k in
//! the high half the sums are those of the other sets, bit for bit. Subnormal operands and sums count as zero here: the
//! instruction knows no others.

use super::context::GemmContext;
use super::instances::{context, kernels};
use super::micro::{self, CHUNK, Segment, TileStep};
use crate::simd::Float;
use crate::simd::avx512::F32x16;
use std::arch::x86_64::{__m512, __m512bh, _mm512_dpbf16_ps};
use std::mem::transmute;

/// Two products, the high halves' first.
struct Paired;
impl TileStep<F32x16> for Paired {
    #[inline(always)]
    unsafe fn add(a: F32x16, b: F32x16, sum: F32x16) -> F32x16 {
        // SAFETY: both types are 64 bytes of any content; the caller vouches for the instruction.
        unsafe { F32x16(_mm512_dpbf16_ps(sum.0, transmute::<__m512, __m512bh>(a.0), transmute::<__m512, __m512bh>(b.0))) }
    }
}

kernels!("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16" by Paired);
context!(PAIRS: f32, chunks of CHUNK / 2, tiles of [1 2 3 4 5 6 7 8 9 10 11 12] rows by 2 of F32x16);
