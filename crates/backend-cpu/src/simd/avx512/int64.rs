//! Integers of 64 bits, and the halves that random bits are made of.
use std::arch::x86_64::*;

use super::super::{Halves, Integer};

/// 8 lanes of i64.
#[derive(Clone, Copy)]
pub(crate) struct I64x8(pub(super) __m512i);

impl Halves for I64x8 {
    #[inline(always)]
    fn mul_halves(self, other: I64x8) -> I64x8 {
        // SAFETY: the set is present, see the module.
        I64x8(unsafe { _mm512_mul_epu32(self.0, other.0) })
    }
    #[inline(always)]
    fn upper(self) -> I64x8 {
        // SAFETY: as above. A shuffle: the unit for shifts is the one that multiplies.
        I64x8(unsafe { _mm512_shuffle_epi32::<0b11_11_01_01>(self.0) })
    }
    #[inline(always)]
    fn join(self, above: I64x8) -> I64x8 {
        // SAFETY: as above.
        I64x8(unsafe { _mm512_mask_shuffle_epi32::<0b10_10_00_00>(self.0, 0xAAAA, above.0) })
    }
    #[inline(always)]
    fn pairs(self, other: I64x8) -> [I64x8; 2] {
        // SAFETY: as above.
        unsafe { [I64x8(_mm512_unpacklo_epi64(self.0, other.0)), I64x8(_mm512_unpackhi_epi64(self.0, other.0))] }
    }
}
impl Integer for I64x8 {
    type Elem = i64;
    type Mask = __mmask8;

    #[inline(always)]
    fn constant(value: i64) -> I64x8 {
        I64x8::splat(value)
    }
    #[inline(always)]
    fn splat(value: i64) -> I64x8 {
        // SAFETY: the set is present, see the module.
        I64x8(unsafe { _mm512_set1_epi64(value) })
    }
    #[inline(always)]
    fn add(self, other: I64x8) -> I64x8 {
        // SAFETY: the set is present, see the module.
        I64x8(unsafe { _mm512_add_epi64(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: I64x8) -> I64x8 {
        // SAFETY: the set is present, see the module.
        I64x8(unsafe { _mm512_sub_epi64(self.0, other.0) })
    }
    #[inline(always)]
    fn and(self, other: I64x8) -> I64x8 {
        // SAFETY: the set is present, see the module.
        I64x8(unsafe { _mm512_and_si512(self.0, other.0) })
    }
    #[inline(always)]
    fn or(self, other: I64x8) -> I64x8 {
        // SAFETY: the set is present, see the module.
        I64x8(unsafe { _mm512_or_si512(self.0, other.0) })
    }
    #[inline(always)]
    fn xor(self, other: I64x8) -> I64x8 {
        // SAFETY: the set is present, see the module.
        I64x8(unsafe { _mm512_xor_si512(self.0, other.0) })
    }
    #[inline(always)]
    fn shl(self, count: u32) -> I64x8 {
        // SAFETY: the set is present, see the module.
        I64x8(unsafe { _mm512_sllv_epi64(self.0, _mm512_set1_epi64(count as i64)) })
    }
    #[inline(always)]
    fn shr(self, count: u32) -> I64x8 {
        // SAFETY: the set is present, see the module.
        I64x8(unsafe { _mm512_srlv_epi64(self.0, _mm512_set1_epi64(count as i64)) })
    }
    #[inline(always)]
    fn eq(self, other: I64x8) -> __mmask8 {
        // SAFETY: the set is present, see the module.
        unsafe { _mm512_cmpeq_epi64_mask(self.0, other.0) }
    }
    #[inline(always)]
    fn gt(self, other: I64x8) -> __mmask8 {
        // SAFETY: the set is present, see the module.
        unsafe { _mm512_cmpgt_epi64_mask(self.0, other.0) }
    }
}
