//! AVX-512: 16 lanes of f32, 8 of f64, with mask registers.
//!
//! Must not know what is computed. Every intrinsic here is sound because values of these types are made only inside
//! functions compiled for, and entered on, CPUs with AVX-512 F, BW, DQ and VL (see the parent's invariant).

mod int64;
mod turn;

use std::arch::x86_64::*;

pub(crate) use int64::I64x8;

use super::{Arithmetic, Float, Integer, Mask, Simd, SimdKernel};

/// The set as a type.
#[derive(Clone, Copy)]
pub(crate) struct Avx512;

impl Simd for Avx512 {
    type F32 = F32x16;
    type F64 = F64x8;
}

/// Runs a kernel compiled for this set.
///
/// # Safety
/// The CPU has AVX2, FMA, F16C and AVX-512 F, BW, DQ and VL.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
pub(crate) unsafe fn enter<K: SimdKernel>(kernel: K) -> K::Output {
    kernel.run::<Avx512>()
}

macro_rules! mask {
    ($mask:ident) => {
        impl Mask for $mask {
            #[inline(always)]
            fn and(self, other: $mask) -> $mask {
                self & other
            }
            #[inline(always)]
            fn or(self, other: $mask) -> $mask {
                self | other
            }
            #[inline(always)]
            fn not(self) -> $mask {
                !self
            }
            #[inline(always)]
            fn any(self) -> bool {
                self != 0
            }
        }
    };
}

mask!(__mmask16);
mask!(__mmask8);

/// A mask of the first `count` lanes (all ones from 32 on).
#[inline(always)]
fn first(count: usize) -> u32 {
    if count >= 32 { u32::MAX } else { (1u32 << count) - 1 }
}

/// 16 lanes of f32.
#[derive(Clone, Copy)]
pub(crate) struct F32x16(pub(crate) __m512);

/// 16 lanes of i32.
#[derive(Clone, Copy)]
pub(crate) struct I32x16(__m512i);

/// Elements between rows that share one set of the nearest cache, which cannot hold a line of each: quarters of such rows
/// would fetch every line four times.
const ONE_SET: usize = 4096 / size_of::<f32>();
impl Float for F32x16 {
    type Elem = f32;
    type Group = [F32x16; 1];
    #[inline(always)]
    fn group(value: F32x16) -> [F32x16; 1] {
        [value; 1]
    }
    const LANES: usize = 16;
    #[inline(always)]
    fn splat(value: f32) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_set1_ps(value) })
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> F32x16 {
        // SAFETY: the caller vouches for 16 elements.
        F32x16(unsafe { _mm512_loadu_ps(at) })
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        // SAFETY: the caller vouches for 16 elements.
        unsafe { _mm512_storeu_ps(at, self.0) }
    }
    #[inline(always)]
    unsafe fn store_past(self, at: *mut f32) {
        // SAFETY: the caller vouches for 16 elements at a multiple of their size.
        unsafe { _mm512_stream_ps(at, self.0) }
    }
    #[inline(always)]
    unsafe fn load_first(at: *const f32, count: usize) -> F32x16 {
        // SAFETY: lanes that the mask leaves out are not read.
        F32x16(unsafe { _mm512_maskz_loadu_ps(first(count) as u16, at) })
    }
    #[inline(always)]
    unsafe fn store_first(self, at: *mut f32, count: usize) {
        // SAFETY: lanes that the mask leaves out are not written.
        unsafe { _mm512_mask_storeu_ps(at, first(count) as u16, self.0) }
    }
    #[inline(always)]
    unsafe fn load_transposed(at: *const Self::Elem, row_stride: usize, rows: usize, count: usize) -> [Self; 16] {
        let zero = Self::splat(0.0);
        let mut out = [zero; 16];
        let mut r = [zero.0; 16];
        for (index, row) in r.iter_mut().enumerate().take(rows) {
            // SAFETY: the caller vouches for `count` elements of the row.
            *row = unsafe { Self::load_first(at.add(index * row_stride), count).0 };
        }
        // SAFETY: the set is present, see the module.
        for (to, vector) in out.iter_mut().zip(unsafe { turn::block(r) }) {
            *to = F32x16(vector);
        }
        out
    }
    #[inline(always)]
    unsafe fn transpose(at: *const f32, row_stride: usize, to: *mut f32, to_stride: usize) {
        // SAFETY: the caller vouches for 16 elements of 16 rows of both.
        unsafe {
            if row_stride.is_multiple_of(ONE_SET) {
                let mut rows = [_mm512_setzero_ps(); 16];
                for (r, row) in rows.iter_mut().enumerate() {
                    *row = Self::load(at.add(r * row_stride)).0;
                }
                for (c, vector) in turn::block(rows).into_iter().enumerate() {
                    F32x16(vector).store(to.add(c * to_stride));
                }
                return;
            }
            // A quarter is written before the next is read: sixteen columns and what they are made of would not stay in registers.
            for group in 0..4 {
                for (c, vector) in turn::quarter(at.add(4 * group), row_stride).into_iter().enumerate() {
                    F32x16(vector).store(to.add((4 * group + c) * to_stride));
                }
            }
        }
    }
    #[inline(always)]
    fn fold_four(groups: [[F32x16; 1]; 4], vectors: impl Fn(F32x16, F32x16) -> F32x16, _: impl Fn(f32, f32) -> f32) -> [f32; 4] {
        let [[a], [b], [c], [d]] = groups;
        // SAFETY: the set is present, see the module.
        unsafe {
            // Eight lanes of each of two, then four of each.
            let ab = vectors(F32x16(_mm512_shuffle_f32x4::<0x44>(a.0, b.0)), F32x16(_mm512_shuffle_f32x4::<0xEE>(a.0, b.0)));
            let cd = vectors(F32x16(_mm512_shuffle_f32x4::<0x44>(c.0, d.0)), F32x16(_mm512_shuffle_f32x4::<0xEE>(c.0, d.0)));
            let quarters = vectors(F32x16(_mm512_shuffle_f32x4::<0x88>(ab.0, cd.0)), F32x16(_mm512_shuffle_f32x4::<0xDD>(ab.0, cd.0)));
            let pairs = vectors(quarters, F32x16(_mm512_permute_ps::<0x4E>(quarters.0)));
            let folded = vectors(pairs, F32x16(_mm512_permute_ps::<0xB1>(pairs.0)));
            let mut lanes = [0.0; 16];
            folded.store(lanes.as_mut_ptr());
            [lanes[0], lanes[4], lanes[8], lanes[12]]
        }
    }
    #[inline(always)]
    unsafe fn dot_rows(x: *const f32, at: *const f32, row_stride: usize, mut sum: F32x16) -> F32x16 {
        // Four columns are used as soon as they are transposed: sixteen would not stay in registers.
        for group in 0..4 {
            // SAFETY: the caller vouches for a whole block and as many factors.
            unsafe {
                let quarter = turn::quarter(at.add(4 * group), row_stride);
                for (i, vector) in quarter.into_iter().enumerate() {
                    sum = F32x16::splat(*x.add(4 * group + i)).mul_add(F32x16(vector), sum);
                }
            }
        }
        sum
    }
}
impl Arithmetic for F32x16 {
    type Int = I32x16;
    type Mask = __mmask16;
    const SIGNIFICAND: u32 = f32::MANTISSA_DIGITS - 1;

    #[inline(always)]
    fn constant(value: f64) -> F32x16 {
        F32x16::splat(value as f32)
    }
    #[inline(always)]
    fn add(self, other: F32x16) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: F32x16) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_sub_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul(self, other: F32x16) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn div(self, other: F32x16) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_div_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul_add(self, factor: F32x16, addend: F32x16) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_fmadd_ps(self.0, factor.0, addend.0) })
    }
    #[inline(always)]
    fn scaled(self, n: F32x16) -> Option<F32x16> {
        // SAFETY: the set is present, see the module.
        Some(F32x16(unsafe { _mm512_scalef_ps(self.0, n.0) }))
    }
    #[inline(always)]
    fn sqrt(self) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_sqrt_ps(self.0) })
    }
    #[inline(always)]
    fn min(self, other: F32x16) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_min_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn max(self, other: F32x16) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_max_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn round(self) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn floor(self) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn ceil(self) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn trunc(self) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn lt(self, other: F32x16) -> __mmask16 {
        // SAFETY: the set is present, see the module.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    fn le(self, other: F32x16) -> __mmask16 {
        // SAFETY: the set is present, see the module.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    fn eq(self, other: F32x16) -> __mmask16 {
        // SAFETY: the set is present, see the module.
        unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    fn is_nan(self) -> __mmask16 {
        // SAFETY: the set is present, see the module.
        unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0) }
    }
    #[inline(always)]
    fn select(mask: __mmask16, yes: F32x16, no: F32x16) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_mask_blend_ps(mask, no.0, yes.0) })
    }
    #[inline(always)]
    fn to_bits(self) -> I32x16 {
        // SAFETY: the set is present, see the module.
        I32x16(unsafe { _mm512_castps_si512(self.0) })
    }
    #[inline(always)]
    fn from_bits(bits: I32x16) -> F32x16 {
        // SAFETY: the set is present, see the module.
        F32x16(unsafe { _mm512_castsi512_ps(bits.0) })
    }
    #[inline(always)]
    fn abs(self) -> F32x16 {
        F32x16::from_bits(self.to_bits().and(I32x16::splat(i32::MAX)))
    }
    #[inline(always)]
    fn neg(self) -> F32x16 {
        F32x16::from_bits(self.to_bits().xor(I32x16::splat(i32::MIN)))
    }
    #[inline(always)]
    fn copysign(self, sign: F32x16) -> F32x16 {
        F32x16::from_bits(self.abs().to_bits().or(sign.to_bits().and(I32x16::splat(i32::MIN))))
    }
}

impl Integer for I32x16 {
    type Elem = i32;
    type Mask = __mmask16;

    #[inline(always)]
    fn constant(value: i64) -> I32x16 {
        I32x16::splat(value as i32)
    }
    #[inline(always)]
    fn splat(value: i32) -> I32x16 {
        // SAFETY: the set is present, see the module.
        I32x16(unsafe { _mm512_set1_epi32(value) })
    }
    #[inline(always)]
    fn add(self, other: I32x16) -> I32x16 {
        // SAFETY: the set is present, see the module.
        I32x16(unsafe { _mm512_add_epi32(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: I32x16) -> I32x16 {
        // SAFETY: the set is present, see the module.
        I32x16(unsafe { _mm512_sub_epi32(self.0, other.0) })
    }
    #[inline(always)]
    fn and(self, other: I32x16) -> I32x16 {
        // SAFETY: the set is present, see the module.
        I32x16(unsafe { _mm512_and_si512(self.0, other.0) })
    }
    #[inline(always)]
    fn or(self, other: I32x16) -> I32x16 {
        // SAFETY: the set is present, see the module.
        I32x16(unsafe { _mm512_or_si512(self.0, other.0) })
    }
    #[inline(always)]
    fn xor(self, other: I32x16) -> I32x16 {
        // SAFETY: the set is present, see the module.
        I32x16(unsafe { _mm512_xor_si512(self.0, other.0) })
    }
    #[inline(always)]
    fn shl(self, count: u32) -> I32x16 {
        // SAFETY: the set is present, see the module.
        I32x16(unsafe { _mm512_sllv_epi32(self.0, _mm512_set1_epi32(count as i32)) })
    }
    #[inline(always)]
    fn shr(self, count: u32) -> I32x16 {
        // SAFETY: the set is present, see the module.
        I32x16(unsafe { _mm512_srlv_epi32(self.0, _mm512_set1_epi32(count as i32)) })
    }
    #[inline(always)]
    fn eq(self, other: I32x16) -> __mmask16 {
        // SAFETY: the set is present, see the module.
        unsafe { _mm512_cmpeq_epi32_mask(self.0, other.0) }
    }
    #[inline(always)]
    fn gt(self, other: I32x16) -> __mmask16 {
        // SAFETY: the set is present, see the module.
        unsafe { _mm512_cmpgt_epi32_mask(self.0, other.0) }
    }
}

/// 8 lanes of f64.
#[derive(Clone, Copy)]
pub(crate) struct F64x8(pub(crate) __m512d);

impl Float for F64x8 {
    type Elem = f64;
    type Group = [F64x8; 2];
    #[inline(always)]
    fn group(value: F64x8) -> [F64x8; 2] {
        [value; 2]
    }
    const LANES: usize = 8;
    #[inline(always)]
    fn splat(value: f64) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_set1_pd(value) })
    }
    #[inline(always)]
    unsafe fn load(at: *const f64) -> F64x8 {
        // SAFETY: the caller vouches for 8 elements.
        F64x8(unsafe { _mm512_loadu_pd(at) })
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f64) {
        // SAFETY: the caller vouches for 8 elements.
        unsafe { _mm512_storeu_pd(at, self.0) }
    }
    #[inline(always)]
    unsafe fn store_past(self, at: *mut f64) {
        // SAFETY: the caller vouches for 8 elements at a multiple of their size.
        unsafe { _mm512_stream_pd(at, self.0) }
    }
    #[inline(always)]
    unsafe fn load_first(at: *const f64, count: usize) -> F64x8 {
        // SAFETY: lanes that the mask leaves out are not read.
        F64x8(unsafe { _mm512_maskz_loadu_pd(first(count) as u8, at) })
    }
    #[inline(always)]
    unsafe fn store_first(self, at: *mut f64, count: usize) {
        // SAFETY: lanes that the mask leaves out are not written.
        unsafe { _mm512_mask_storeu_pd(at, first(count) as u8, self.0) }
    }
    #[inline(always)]
    unsafe fn load_transposed(at: *const Self::Elem, row_stride: usize, rows: usize, count: usize) -> [Self; 16] {
        let zero = Self::splat(0.0);
        let mut r = [zero.0; 16];
        if rows >= 8 && count >= 8 {
            for (index, row) in r.iter_mut().enumerate().take(8) {
                // SAFETY: the caller vouches for the row.
                *row = unsafe { Self::load(at.add(index * row_stride)).0 };
            }
        } else {
            for (index, row) in r.iter_mut().enumerate().take(8) {
                if index < rows {
                    // SAFETY: the caller vouches for `count` elements of the row.
                    *row = unsafe { Self::load_first(at.add(index * row_stride), count).0 };
                }
            }
        }
        let mut out = [zero; 16];
        // SAFETY: the set is present, see the module.
        unsafe {
            let mut t = r;
            for i in 0..4 {
                t[2 * i] = _mm512_unpacklo_pd(r[2 * i], r[2 * i + 1]);
                t[2 * i + 1] = _mm512_unpackhi_pd(r[2 * i], r[2 * i + 1]);
            }
            // t[2i + c]: in quarter L, column 2L + c of rows 2i and 2i + 1.
            for c in 0..2 {
                let even_low = _mm512_shuffle_f64x2::<0x88>(t[c], t[2 + c]);
                let odd_low = _mm512_shuffle_f64x2::<0xdd>(t[c], t[2 + c]);
                let even_high = _mm512_shuffle_f64x2::<0x88>(t[4 + c], t[6 + c]);
                let odd_high = _mm512_shuffle_f64x2::<0xdd>(t[4 + c], t[6 + c]);
                out[c] = F64x8(_mm512_shuffle_f64x2::<0x88>(even_low, even_high));
                out[2 + c] = F64x8(_mm512_shuffle_f64x2::<0x88>(odd_low, odd_high));
                out[4 + c] = F64x8(_mm512_shuffle_f64x2::<0xdd>(even_low, even_high));
                out[6 + c] = F64x8(_mm512_shuffle_f64x2::<0xdd>(odd_low, odd_high));
            }
        }
        out
    }
}
impl Arithmetic for F64x8 {
    type Int = I64x8;
    type Mask = __mmask8;
    const SIGNIFICAND: u32 = f64::MANTISSA_DIGITS - 1;

    #[inline(always)]
    fn constant(value: f64) -> F64x8 {
        F64x8::splat(value)
    }
    #[inline(always)]
    fn add(self, other: F64x8) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_add_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: F64x8) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_sub_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn mul(self, other: F64x8) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_mul_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn div(self, other: F64x8) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_div_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn mul_add(self, factor: F64x8, addend: F64x8) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_fmadd_pd(self.0, factor.0, addend.0) })
    }
    #[inline(always)]
    fn scaled(self, n: F64x8) -> Option<F64x8> {
        // SAFETY: the set is present, see the module.
        Some(F64x8(unsafe { _mm512_scalef_pd(self.0, n.0) }))
    }
    #[inline(always)]
    fn sqrt(self) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_sqrt_pd(self.0) })
    }
    #[inline(always)]
    fn min(self, other: F64x8) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_min_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn max(self, other: F64x8) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_max_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn round(self) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_roundscale_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn floor(self) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_roundscale_pd::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn ceil(self) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_roundscale_pd::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn trunc(self) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_roundscale_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn lt(self, other: F64x8) -> __mmask8 {
        // SAFETY: the set is present, see the module.
        unsafe { _mm512_cmp_pd_mask::<_CMP_LT_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    fn le(self, other: F64x8) -> __mmask8 {
        // SAFETY: the set is present, see the module.
        unsafe { _mm512_cmp_pd_mask::<_CMP_LE_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    fn eq(self, other: F64x8) -> __mmask8 {
        // SAFETY: the set is present, see the module.
        unsafe { _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    fn is_nan(self) -> __mmask8 {
        // SAFETY: the set is present, see the module.
        unsafe { _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(self.0, self.0) }
    }
    #[inline(always)]
    fn select(mask: __mmask8, yes: F64x8, no: F64x8) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_mask_blend_pd(mask, no.0, yes.0) })
    }
    #[inline(always)]
    fn to_bits(self) -> I64x8 {
        // SAFETY: the set is present, see the module.
        I64x8(unsafe { _mm512_castpd_si512(self.0) })
    }
    #[inline(always)]
    fn from_bits(bits: I64x8) -> F64x8 {
        // SAFETY: the set is present, see the module.
        F64x8(unsafe { _mm512_castsi512_pd(bits.0) })
    }
    #[inline(always)]
    fn abs(self) -> F64x8 {
        F64x8::from_bits(self.to_bits().and(I64x8::splat(i64::MAX)))
    }
    #[inline(always)]
    fn neg(self) -> F64x8 {
        F64x8::from_bits(self.to_bits().xor(I64x8::splat(i64::MIN)))
    }
    #[inline(always)]
    fn copysign(self, sign: F64x8) -> F64x8 {
        F64x8::from_bits(self.abs().to_bits().or(sign.to_bits().and(I64x8::splat(i64::MIN))))
    }
}
