//! AVX2 with FMA: 8 lanes of f32, 4 of f64; a mask is a vector of all-ones and all-zeros lanes.
//!
//! Must not know what is computed. Every intrinsic here is sound because values of these types are made only inside
//! functions compiled for, and entered on, CPUs with AVX2, FMA and F16C (see the parent's invariant).

mod int64;

use std::arch::x86_64::*;

pub(crate) use int64::I64x4;

use super::{Arithmetic, Float, Integer, Mask, Simd, SimdKernel};

/// The set as a type.
#[derive(Clone, Copy)]
pub(crate) struct Avx2;

impl Simd for Avx2 {
    type F32 = F32x8;
    type F64 = F64x4;
}

/// Runs a kernel compiled for this set.
///
/// # Safety
/// The CPU has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn enter<K: SimdKernel>(kernel: K) -> K::Output {
    kernel.run::<Avx2>()
}

/// All-ones in the lanes that are true.
#[derive(Clone, Copy)]
pub(crate) struct Lanes(__m256i);

impl Mask for Lanes {
    #[inline(always)]
    fn and(self, other: Lanes) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_and_si256(self.0, other.0) })
    }
    #[inline(always)]
    fn or(self, other: Lanes) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_or_si256(self.0, other.0) })
    }
    #[inline(always)]
    fn not(self) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_xor_si256(self.0, _mm256_set1_epi32(-1)) })
    }
    #[inline(always)]
    fn any(self) -> bool {
        // SAFETY: the set is present, see the module.
        unsafe { _mm256_testz_si256(self.0, self.0) == 0 }
    }
}

/// 8 lanes of f32.
#[derive(Clone, Copy)]
pub(crate) struct F32x8(pub(crate) __m256);

/// 8 lanes of i32.
#[derive(Clone, Copy)]
pub(crate) struct I32x8(__m256i);

impl Float for F32x8 {
    type Elem = f32;
    type Group = [F32x8; 2];
    #[inline(always)]
    fn group(value: F32x8) -> [F32x8; 2] {
        [value; 2]
    }
    const LANES: usize = 8;
    #[inline(always)]
    fn splat(value: f32) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_set1_ps(value) })
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> F32x8 {
        // SAFETY: the caller vouches for 8 elements.
        F32x8(unsafe { _mm256_loadu_ps(at) })
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        // SAFETY: the caller vouches for 8 elements.
        unsafe { _mm256_storeu_ps(at, self.0) }
    }
    #[inline(always)]
    unsafe fn store_past(self, at: *mut f32) {
        // SAFETY: the caller vouches for 8 elements at a multiple of their size.
        unsafe { _mm256_stream_ps(at, self.0) }
    }
    #[inline(always)]
    unsafe fn load_first(at: *const f32, count: usize) -> F32x8 {
        // SAFETY: lanes that the mask leaves out are not read.
        unsafe {
            let wanted = _mm256_cmpgt_epi32(_mm256_set1_epi32(count.min(8) as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            F32x8(_mm256_maskload_ps(at, wanted))
        }
    }
    #[inline(always)]
    unsafe fn store_first(self, at: *mut f32, count: usize) {
        // SAFETY: lanes that the mask leaves out are not written.
        unsafe {
            let wanted = _mm256_cmpgt_epi32(_mm256_set1_epi32(count.min(8) as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            _mm256_maskstore_ps(at, wanted, self.0)
        }
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
                t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
                t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
            }
            // u[4q + c]: in half L, column 4L + c of rows 4q .. 4q + 4.
            let mut u = t;
            for q in 0..2 {
                let (t0, t1) = (_mm256_castps_pd(t[4 * q]), _mm256_castps_pd(t[4 * q + 1]));
                let (t2, t3) = (_mm256_castps_pd(t[4 * q + 2]), _mm256_castps_pd(t[4 * q + 3]));
                u[4 * q] = _mm256_castpd_ps(_mm256_unpacklo_pd(t0, t2));
                u[4 * q + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(t0, t2));
                u[4 * q + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(t1, t3));
                u[4 * q + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(t1, t3));
            }
            for c in 0..4 {
                out[c] = F32x8(_mm256_permute2f128_ps::<0x20>(u[c], u[4 + c]));
                out[4 + c] = F32x8(_mm256_permute2f128_ps::<0x31>(u[c], u[4 + c]));
            }
        }
        out
    }
    #[inline(always)]
    fn fold_four(groups: [[F32x8; 2]; 4], vectors: impl Fn(F32x8, F32x8) -> F32x8, _: impl Fn(f32, f32) -> f32) -> [f32; 4] {
        let [[a, e], [b, f], [c, g], [d, h]] = groups;
        let (a, b, c, d) = (vectors(a, e), vectors(b, f), vectors(c, g), vectors(d, h));
        // SAFETY: the set is present, see the module.
        unsafe {
            // Four lanes of each of two, then two of each: those of the first and third in the lower half.
            let ab = vectors(F32x8(_mm256_permute2f128_ps::<0x20>(a.0, b.0)), F32x8(_mm256_permute2f128_ps::<0x31>(a.0, b.0)));
            let cd = vectors(F32x8(_mm256_permute2f128_ps::<0x20>(c.0, d.0)), F32x8(_mm256_permute2f128_ps::<0x31>(c.0, d.0)));
            let pairs = vectors(F32x8(_mm256_shuffle_ps::<0x44>(ab.0, cd.0)), F32x8(_mm256_shuffle_ps::<0xEE>(ab.0, cd.0)));
            let folded = vectors(pairs, F32x8(_mm256_permute_ps::<0xB1>(pairs.0)));
            let mut lanes = [0.0; 8];
            folded.store(lanes.as_mut_ptr());
            [lanes[0], lanes[4], lanes[2], lanes[6]]
        }
    }
}
impl Arithmetic for F32x8 {
    type Int = I32x8;
    type Mask = Lanes;
    const SIGNIFICAND: u32 = f32::MANTISSA_DIGITS - 1;

    #[inline(always)]
    fn constant(value: f64) -> F32x8 {
        F32x8::splat(value as f32)
    }
    #[inline(always)]
    fn add(self, other: F32x8) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: F32x8) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_sub_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul(self, other: F32x8) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn div(self, other: F32x8) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_div_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul_add(self, factor: F32x8, addend: F32x8) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_fmadd_ps(self.0, factor.0, addend.0) })
    }
    #[inline(always)]
    fn sqrt(self) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_sqrt_ps(self.0) })
    }
    #[inline(always)]
    fn min(self, other: F32x8) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_min_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn max(self, other: F32x8) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_max_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn round(self) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn floor(self) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn ceil(self) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn trunc(self) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn lt(self, other: F32x8) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0)) })
    }
    #[inline(always)]
    fn le(self, other: F32x8) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LE_OQ>(self.0, other.0)) })
    }
    #[inline(always)]
    fn eq(self, other: F32x8) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_castps_si256(_mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, other.0)) })
    }
    #[inline(always)]
    fn is_nan(self) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0)) })
    }
    #[inline(always)]
    fn select(mask: Lanes, yes: F32x8, no: F32x8) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_blendv_ps(no.0, yes.0, _mm256_castsi256_ps(mask.0)) })
    }
    #[inline(always)]
    fn to_bits(self) -> I32x8 {
        // SAFETY: the set is present, see the module.
        I32x8(unsafe { _mm256_castps_si256(self.0) })
    }
    #[inline(always)]
    fn from_bits(bits: I32x8) -> F32x8 {
        // SAFETY: the set is present, see the module.
        F32x8(unsafe { _mm256_castsi256_ps(bits.0) })
    }
    #[inline(always)]
    fn abs(self) -> F32x8 {
        F32x8::from_bits(self.to_bits().and(I32x8::splat(i32::MAX)))
    }
    #[inline(always)]
    fn neg(self) -> F32x8 {
        F32x8::from_bits(self.to_bits().xor(I32x8::splat(i32::MIN)))
    }
    #[inline(always)]
    fn copysign(self, sign: F32x8) -> F32x8 {
        F32x8::from_bits(self.abs().to_bits().or(sign.to_bits().and(I32x8::splat(i32::MIN))))
    }
}

impl Integer for I32x8 {
    type Elem = i32;
    type Mask = Lanes;

    #[inline(always)]
    fn constant(value: i64) -> I32x8 {
        I32x8::splat(value as i32)
    }
    #[inline(always)]
    fn splat(value: i32) -> I32x8 {
        // SAFETY: the set is present, see the module.
        I32x8(unsafe { _mm256_set1_epi32(value) })
    }
    #[inline(always)]
    fn add(self, other: I32x8) -> I32x8 {
        // SAFETY: the set is present, see the module.
        I32x8(unsafe { _mm256_add_epi32(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: I32x8) -> I32x8 {
        // SAFETY: the set is present, see the module.
        I32x8(unsafe { _mm256_sub_epi32(self.0, other.0) })
    }
    #[inline(always)]
    fn and(self, other: I32x8) -> I32x8 {
        // SAFETY: the set is present, see the module.
        I32x8(unsafe { _mm256_and_si256(self.0, other.0) })
    }
    #[inline(always)]
    fn or(self, other: I32x8) -> I32x8 {
        // SAFETY: the set is present, see the module.
        I32x8(unsafe { _mm256_or_si256(self.0, other.0) })
    }
    #[inline(always)]
    fn xor(self, other: I32x8) -> I32x8 {
        // SAFETY: the set is present, see the module.
        I32x8(unsafe { _mm256_xor_si256(self.0, other.0) })
    }
    #[inline(always)]
    fn shl(self, count: u32) -> I32x8 {
        // SAFETY: the set is present, see the module.
        I32x8(unsafe { _mm256_sllv_epi32(self.0, _mm256_set1_epi32(count as i32)) })
    }
    #[inline(always)]
    fn shr(self, count: u32) -> I32x8 {
        // SAFETY: the set is present, see the module.
        I32x8(unsafe { _mm256_srlv_epi32(self.0, _mm256_set1_epi32(count as i32)) })
    }
    #[inline(always)]
    fn eq(self, other: I32x8) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_cmpeq_epi32(self.0, other.0) })
    }
    #[inline(always)]
    fn gt(self, other: I32x8) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_cmpgt_epi32(self.0, other.0) })
    }
}

/// 4 lanes of f64.
#[derive(Clone, Copy)]
pub(crate) struct F64x4(pub(crate) __m256d);

impl Float for F64x4 {
    type Elem = f64;
    type Group = [F64x4; 4];
    #[inline(always)]
    fn group(value: F64x4) -> [F64x4; 4] {
        [value; 4]
    }
    const LANES: usize = 4;
    #[inline(always)]
    fn splat(value: f64) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_set1_pd(value) })
    }
    #[inline(always)]
    unsafe fn load(at: *const f64) -> F64x4 {
        // SAFETY: the caller vouches for 4 elements.
        F64x4(unsafe { _mm256_loadu_pd(at) })
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f64) {
        // SAFETY: the caller vouches for 4 elements.
        unsafe { _mm256_storeu_pd(at, self.0) }
    }
    #[inline(always)]
    unsafe fn store_past(self, at: *mut f64) {
        // SAFETY: the caller vouches for 4 elements at a multiple of their size.
        unsafe { _mm256_stream_pd(at, self.0) }
    }
    #[inline(always)]
    unsafe fn load_first(at: *const f64, count: usize) -> F64x4 {
        // SAFETY: lanes that the mask leaves out are not read.
        unsafe {
            let wanted = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count.min(4) as i64), _mm256_setr_epi64x(0, 1, 2, 3));
            F64x4(_mm256_maskload_pd(at, wanted))
        }
    }
    #[inline(always)]
    unsafe fn store_first(self, at: *mut f64, count: usize) {
        // SAFETY: lanes that the mask leaves out are not written.
        unsafe {
            let wanted = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count.min(4) as i64), _mm256_setr_epi64x(0, 1, 2, 3));
            _mm256_maskstore_pd(at, wanted, self.0)
        }
    }
    #[inline(always)]
    unsafe fn load_transposed(at: *const Self::Elem, row_stride: usize, rows: usize, count: usize) -> [Self; 16] {
        let zero = Self::splat(0.0);
        let mut r = [zero.0; 16];
        if rows >= 4 && count >= 4 {
            for (index, row) in r.iter_mut().enumerate().take(4) {
                // SAFETY: the caller vouches for the row.
                *row = unsafe { Self::load(at.add(index * row_stride)).0 };
            }
        } else {
            for (index, row) in r.iter_mut().enumerate().take(4) {
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
            for i in 0..2 {
                t[2 * i] = _mm256_unpacklo_pd(r[2 * i], r[2 * i + 1]);
                t[2 * i + 1] = _mm256_unpackhi_pd(r[2 * i], r[2 * i + 1]);
            }
            for c in 0..2 {
                out[c] = F64x4(_mm256_permute2f128_pd::<0x20>(t[c], t[2 + c]));
                out[2 + c] = F64x4(_mm256_permute2f128_pd::<0x31>(t[c], t[2 + c]));
            }
        }
        out
    }
}
impl Arithmetic for F64x4 {
    type Int = I64x4;
    type Mask = Lanes;
    const SIGNIFICAND: u32 = f64::MANTISSA_DIGITS - 1;

    #[inline(always)]
    fn constant(value: f64) -> F64x4 {
        F64x4::splat(value)
    }
    #[inline(always)]
    fn add(self, other: F64x4) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_add_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: F64x4) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_sub_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn mul(self, other: F64x4) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_mul_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn div(self, other: F64x4) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_div_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn mul_add(self, factor: F64x4, addend: F64x4) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_fmadd_pd(self.0, factor.0, addend.0) })
    }
    #[inline(always)]
    fn sqrt(self) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_sqrt_pd(self.0) })
    }
    #[inline(always)]
    fn min(self, other: F64x4) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_min_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn max(self, other: F64x4) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_max_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn round(self) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn floor(self) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_round_pd::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn ceil(self) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_round_pd::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn trunc(self) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn lt(self, other: F64x4) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_castpd_si256(_mm256_cmp_pd::<_CMP_LT_OQ>(self.0, other.0)) })
    }
    #[inline(always)]
    fn le(self, other: F64x4) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_castpd_si256(_mm256_cmp_pd::<_CMP_LE_OQ>(self.0, other.0)) })
    }
    #[inline(always)]
    fn eq(self, other: F64x4) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_castpd_si256(_mm256_cmp_pd::<_CMP_EQ_OQ>(self.0, other.0)) })
    }
    #[inline(always)]
    fn is_nan(self) -> Lanes {
        // SAFETY: the set is present, see the module.
        Lanes(unsafe { _mm256_castpd_si256(_mm256_cmp_pd::<_CMP_UNORD_Q>(self.0, self.0)) })
    }
    #[inline(always)]
    fn select(mask: Lanes, yes: F64x4, no: F64x4) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_blendv_pd(no.0, yes.0, _mm256_castsi256_pd(mask.0)) })
    }
    #[inline(always)]
    fn to_bits(self) -> I64x4 {
        // SAFETY: the set is present, see the module.
        I64x4(unsafe { _mm256_castpd_si256(self.0) })
    }
    #[inline(always)]
    fn from_bits(bits: I64x4) -> F64x4 {
        // SAFETY: the set is present, see the module.
        F64x4(unsafe { _mm256_castsi256_pd(bits.0) })
    }
    #[inline(always)]
    fn abs(self) -> F64x4 {
        F64x4::from_bits(self.to_bits().and(I64x4::splat(i64::MAX)))
    }
    #[inline(always)]
    fn neg(self) -> F64x4 {
        F64x4::from_bits(self.to_bits().xor(I64x4::splat(i64::MIN)))
    }
    #[inline(always)]
    fn copysign(self, sign: F64x4) -> F64x4 {
        F64x4::from_bits(self.abs().to_bits().or(sign.to_bits().and(I64x4::splat(i64::MIN))))
    }
}
