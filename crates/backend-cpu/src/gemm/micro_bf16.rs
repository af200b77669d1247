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
use std::arch::x86_64::{__cpuid, __m512, __m512bh, _mm512_dpbf16_ps};
use std::mem::transmute;
use std::sync::OnceLock;

/// Whether the CPU has the instruction, and it pays: Intel's cores take 2.2 times as long for it as for a fused multiply-add
/// (a Xeon with AMX, where products by it took 1.1 to 2.2 times those of f32), AMD's 1.1 times (Zen 5).
pub(crate) fn pays() -> bool {
    static PAYS: OnceLock<bool> = OnceLock::new();
    *PAYS.get_or_init(|| {
        let vendor = __cpuid(0);
        let is_intel = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel";
        is_x86_feature_detected!("avx512bf16") && !is_intel
    })
}

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
