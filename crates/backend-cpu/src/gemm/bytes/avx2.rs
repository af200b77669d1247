//! AVX2: bytes are widened to 16 bits, of which `vpmaddwd` adds the products of two (`vpmaddubsw` would saturate). A sum is two
//! halves of a quad until it is stored. Tiles of 6 rows by 8 columns take 12 of the 16 registers.

use super::instances::{context, kernels};
use super::micro::{ByteSet, QUAD};
use std::arch::x86_64::*;

struct Avx2Bytes;
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn widened(bytes: __m256i) -> [__m256i; 2] {
    // SAFETY: the caller vouches for the instructions.
    unsafe { [_mm256_cvtepi8_epi16(_mm256_castsi256_si128(bytes)), _mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(bytes))] }
}
impl ByteSet for Avx2Bytes {
    const WIDTH: usize = 2;
    const COLUMNS: usize = 8;
    type Quad = __m256i;
    type Bytes = [__m256i; 2];
    type Whole = [__m256i; 2];
    type Sum = [__m256i; 2];
    type LineSum = __m256i;
    type Lanes = __m256i;
    #[inline(always)]
    unsafe fn zero() -> [__m256i; 2] {
        // SAFETY: the caller vouches for the instructions.
        unsafe { [_mm256_setzero_si256(); 2] }
    }
    #[inline(always)]
    unsafe fn quad(at: *const u8) -> __m256i {
        // SAFETY: the caller vouches for a widened quad.
        unsafe { _mm256_set1_epi64x(at.cast::<i64>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn whole(at: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller vouches for 32 widened bytes.
        unsafe { [_mm256_loadu_si256(at.cast()), _mm256_loadu_si256(at.add(32).cast())] }
    }
    #[inline(always)]
    unsafe fn load(at: *const i8) -> [__m256i; 2] {
        // SAFETY: the caller vouches for 32 bytes.
        unsafe { [_mm256_cvtepi8_epi16(_mm_loadu_si128(at.cast())), _mm256_cvtepi8_epi16(_mm_loadu_si128(at.add(16).cast()))] }
    }
    #[inline(always)]
    unsafe fn load_flipped(at: *const u8, flip: u8) -> [__m256i; 2] {
        // SAFETY: the caller vouches for 32 bytes.
        unsafe { widened(_mm256_xor_si256(_mm256_loadu_si256(at.cast()), _mm256_set1_epi8(flip as i8))) }
    }
    #[inline(always)]
    unsafe fn weave(rows: [*const u8; QUAD], flip: u8) -> [[__m256i; 2]; 4] {
        // SAFETY: the caller vouches for 32 bytes of each.
        unsafe {
            let flip = _mm256_set1_epi8(flip as i8);
            let [a, b, c, d] = rows.map(|row| _mm256_xor_si256(_mm256_loadu_si256(row.cast()), flip));
            let (ab, cd) = (_mm256_unpacklo_epi8(a, b), _mm256_unpacklo_epi8(c, d));
            let (high_ab, high_cd) = (_mm256_unpackhi_epi8(a, b), _mm256_unpackhi_epi8(c, d));
            [
                widened(_mm256_unpacklo_epi16(ab, cd)),
                widened(_mm256_unpackhi_epi16(ab, cd)),
                widened(_mm256_unpacklo_epi16(high_ab, high_cd)),
                widened(_mm256_unpackhi_epi16(high_ab, high_cd)),
            ]
        }
    }
    #[inline(always)]
    unsafe fn dot<const SIGNED: bool>(a: __m256i, b: [__m256i; 2], sum: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller vouches for the instructions.
        unsafe { [_mm256_add_epi32(sum[0], _mm256_madd_epi16(a, b[0])), _mm256_add_epi32(sum[1], _mm256_madd_epi16(a, b[1]))] }
    }
    #[inline(always)]
    unsafe fn dot_whole<const SIGNED: bool>(a: [__m256i; 2], b: [__m256i; 2], sum: __m256i) -> __m256i {
        // SAFETY: the caller vouches for the instructions.
        unsafe { _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_madd_epi16(a[0], b[0]), _mm256_madd_epi16(a[1], b[1]))) }
    }
    #[inline(always)]
    unsafe fn line_zero() -> __m256i {
        // SAFETY: the caller vouches for the instructions.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    unsafe fn totals([a, b, c, d]: [__m256i; 4]) -> [i32; 4] {
        // SAFETY: the caller vouches for the instructions; a vector of four is as large as the list.
        unsafe {
            let four = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
            std::mem::transmute(_mm_add_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256::<1>(four)))
        }
    }
    #[inline(always)]
    unsafe fn lanes(sum: [__m256i; 2]) -> __m256i {
        // SAFETY: the caller vouches for the instructions.
        unsafe { _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_hadd_epi32(sum[0], sum[1])) }
    }
    #[inline(always)]
    unsafe fn load_lanes(at: *const i32) -> __m256i {
        // SAFETY: the caller vouches for 8 sums.
        unsafe { _mm256_loadu_si256(at.cast()) }
    }
    #[inline(always)]
    unsafe fn store_lanes(lanes: __m256i, at: *mut i32) {
        // SAFETY: the caller vouches for 8 sums.
        unsafe { _mm256_storeu_si256(at.cast(), lanes) }
    }
    #[inline(always)]
    unsafe fn add(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller vouches for the instructions.
        unsafe { _mm256_add_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn correct(lanes: __m256i, start: i32, zero: i32, sums: __m256i) -> __m256i {
        // SAFETY: the caller vouches for the instructions.
        unsafe { _mm256_sub_epi32(_mm256_add_epi32(lanes, _mm256_set1_epi32(start)), _mm256_mullo_epi32(_mm256_set1_epi32(zero), sums)) }
    }
}

kernels!("avx2,fma,f16c");
context!(BYTES: tiles of [1 2 3 4 5 6] rows by [1] vectors, lines by 2 rows of Avx2Bytes);
