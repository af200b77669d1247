//! Integers of 64 bits, and the halves that random bits are made of.
use std::arch::x86_64::*;

use super::super::{Halves, Integer};
use super::Lanes;

/// 4 lanes of i64.
#[derive(Clone, Copy)]
pub(crate) struct I64x4(pub(super) __m256i);

impl Halves for I64x4 {
    #[inline(always)]
    fn mul_halves(self, other: I64x4) -> I64x4 {
        // SAFETY: the set is present, see the module.
        I64x4(unsafe { _mm256_mul_epu32(self.0, other.0) })
    }
    #[inline(always)]
    fn upper(self) -> I64x4 {
        // SAFETY: as above.
        I64x4(unsafe { _mm256_shuffle_epi32::<0b11_11_01_01>(self.0) })
    }
    #[inline(always)]
    fn join(self, above: I64x4) -> I64x4 {
        // SAFETY: as above.
        I64x4(unsafe { _mm256_blend_epi32::<0b1010_1010>(self.0, _mm256_shuffle_epi32::<0b10_10_00_00>(above.0)) })
    }
    #[inline(always)]
    fn pairs(self, other: I64x4) -> [I64x4; 2] {
        // SAFETY: as above.
        unsafe { [I64x4(_mm256_unpacklo_epi64(self.0, other.0)), I64x4(_mm256_unpackhi_epi64(self.0, other.0))] }
    }
}
impl Integer for I64x4 {
    type Elem = i64;
    type Mask = Lanes;

    #[inline(always)]
    fn constant(value: i64) -> I64x4 {
        I64x4::splat(value)
    }
    #[inline(always)]
    fn splat(value: i64) -> I64x4 {
        // SAFETY: the set is present, see the module.
        I64x4(unsafe { _mm256_set1_epi64x(value) })
    }
    #[inline(always)]
    fn add(self, other: I64x4) -> I64x4 {
        // SAFETY: the set is present, see the module.
        I64x4(unsafe { _mm256_add_epi64(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: I64x4) -> I64x4 {
        // SAFETY: the set is present, see the module.
        I64x4(unsafe { _mm256_sub_epi64(self.0, other.0) })
    }
    #[inline(always)]
    fn and(self, other: I64x4) -> I64x4 {
        // SAFETY: the set is present, see the module.
        I64x4(unsafe { _mm256_and_si256(self.0, other.0) })
    }
    #[inline(always)]
    fn or(self, other: I64x4) -> I64x4 {
        // SAFETY: the set is present, see the module.
        I64x4(unsafe { _mm256_or_si256(self.0, other.0) })
    }
    #[inline(always)]
    fn xor(self, other: I64x4) -> I64x4 {
        // SAFETY: the set is present, see the module.
        I64x4(unsafe { _mm256_xor_si256(self.0, other.0) })
    }
    #[inline(always)]
    fn shl(self, count: u32) -> I64x4 {
        // SAFETY: the set is present, see the module.
        I64x4(unsafe { _mm256_sllv_epi64(self.0, _mm256_set1_epi64x(count as i64)) })
    }
    #[inline(always)]
    fn shr(self, count: u32) -> I64x4 {
        // SAFETY: the set is present, see the module.
        I64x4(unsafe { _mm256_srlv_epi64(self.0, _mm256_set1_epi64x(count as i64)) })
    }
    #[inline(always)]
    fn eq(self, other: I64x4) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_cmpeq_epi64(self.0, other.0) })
    }
    #[inline(always)]
    fn gt(self, other: I64x4) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_cmpgt_epi64(self.0, other.0) })
    }
}
