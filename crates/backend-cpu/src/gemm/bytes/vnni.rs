//! AVX-512 with VNNI: `vpdpbusd` adds the four products of a quad. Tiles of 6 rows by 4 vectors leave 8 of the 32 registers.

use super::instances::{context, kernels};
use super::micro::{ByteSet, QUAD};
use std::arch::x86_64::*;

struct VnniBytes;
/// Four rows of 64 columns as quads of 16 columns: lane `l` of vector `v` has columns `16 l + 4 v` on.
///
/// # Safety
/// 64 bytes can be read at each; the CPU has AVX-512 BW.
#[inline(always)]
pub(super) unsafe fn weave_512(rows: [*const u8; QUAD], flip: u8) -> [__m512i; 4] {
    // SAFETY: the caller vouches for both.
    unsafe {
        let flip = _mm512_set1_epi8(flip as i8);
        let [a, b, c, d] = rows.map(|row| _mm512_xor_si512(_mm512_loadu_si512(row.cast()), flip));
        let (ab, cd) = (_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d));
        let (high_ab, high_cd) = (_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d));
        [_mm512_unpacklo_epi16(ab, cd), _mm512_unpackhi_epi16(ab, cd), _mm512_unpacklo_epi16(high_ab, high_cd), _mm512_unpackhi_epi16(high_ab, high_cd)]
    }
}
/// The functions that sets of 512 bits share: those of 16 sums.
macro_rules! lanes_512 {
    () => {
        #[inline(always)]
        unsafe fn line_zero() -> __m512i {
            // SAFETY: the caller vouches for the instructions.
            unsafe { _mm512_setzero_si512() }
        }
        #[inline(always)]
        unsafe fn totals([a, b, c, d]: [__m512i; 4]) -> [i32; 4] {
            // SAFETY: the caller vouches for the instructions; a vector of four is as large as the list.
            unsafe {
                let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
                let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
                let four = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
                let two = _mm256_add_epi32(_mm512_castsi512_si256(four), _mm512_extracti64x4_epi64::<1>(four));
                std::mem::transmute(_mm_add_epi32(_mm256_castsi256_si128(two), _mm256_extracti128_si256::<1>(two)))
            }
        }
        #[inline(always)]
        unsafe fn load_lanes(at: *const i32) -> __m512i {
            // SAFETY: the caller vouches for 16 sums.
            unsafe { _mm512_loadu_si512(at.cast()) }
        }
        #[inline(always)]
        unsafe fn store_lanes(lanes: __m512i, at: *mut i32) {
            // SAFETY: the caller vouches for 16 sums.
            unsafe { _mm512_storeu_si512(at.cast(), lanes) }
        }
        #[inline(always)]
        unsafe fn add(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: the caller vouches for the instructions.
            unsafe { _mm512_add_epi32(a, b) }
        }
        #[inline(always)]
        unsafe fn correct(lanes: __m512i, start: i32, zero: i32, sums: __m512i) -> __m512i {
            // SAFETY: the caller vouches for the instructions.
            unsafe { _mm512_sub_epi32(_mm512_add_epi32(lanes, _mm512_set1_epi32(start)), _mm512_mullo_epi32(_mm512_set1_epi32(zero), sums)) }
        }
    };
}
pub(super) use lanes_512;

impl ByteSet for VnniBytes {
    const WIDTH: usize = 1;
    const COLUMNS: usize = 16;
    type Quad = __m512i;
    type Bytes = __m512i;
    type Whole = __m512i;
    type Sum = __m512i;
    type LineSum = __m512i;
    type Lanes = __m512i;
    #[inline(always)]
    unsafe fn zero() -> __m512i {
        // SAFETY: the caller vouches for the instructions.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    unsafe fn quad(at: *const u8) -> __m512i {
        // SAFETY: the caller vouches for a quad.
        unsafe { _mm512_set1_epi32(at.cast::<i32>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn whole(at: *const u8) -> __m512i {
        // SAFETY: the caller vouches for 64 bytes.
        unsafe { _mm512_loadu_si512(at.cast()) }
    }
    #[inline(always)]
    unsafe fn load(at: *const i8) -> __m512i {
        // SAFETY: the caller vouches for 64 bytes.
        unsafe { _mm512_loadu_si512(at.cast()) }
    }
    #[inline(always)]
    unsafe fn load_flipped(at: *const u8, flip: u8) -> __m512i {
        // SAFETY: the caller vouches for 64 bytes.
        unsafe { _mm512_xor_si512(_mm512_loadu_si512(at.cast()), _mm512_set1_epi8(flip as i8)) }
    }
    #[inline(always)]
    unsafe fn weave(rows: [*const u8; QUAD], flip: u8) -> [__m512i; 4] {
        // SAFETY: the caller vouches for 64 bytes of each.
        unsafe { weave_512(rows, flip) }
    }
    #[inline(always)]
    unsafe fn dot<const SIGNED: bool>(a: __m512i, b: __m512i, sum: __m512i) -> __m512i {
        // SAFETY: the caller vouches for the instruction.
        unsafe { if SIGNED { _mm512_dpbusd_epi32(sum, b, a) } else { _mm512_dpbusd_epi32(sum, a, b) } }
    }
    #[inline(always)]
    unsafe fn dot_whole<const SIGNED: bool>(a: __m512i, b: __m512i, sum: __m512i) -> __m512i {
        // SAFETY: the caller vouches for the instruction.
        unsafe { Self::dot::<SIGNED>(a, b, sum) }
    }
    #[inline(always)]
    unsafe fn lanes(sum: __m512i) -> __m512i {
        sum
    }
    lanes_512!();
}

kernels!("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni");
context!(BYTES: tiles of [1 2 3 4 5 6] rows by [1 2 3 4] vectors, lines by 6 rows of VnniBytes);
