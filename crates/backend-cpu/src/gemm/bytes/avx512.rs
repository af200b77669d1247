//! AVX-512 without VNNI: bytes are widened to 16 bits, of which `vpmaddwd` adds the products of two. A sum is two halves of a quad
//! until it is stored.

use super::instances::{context, kernels};
use super::micro::{ByteSet, QUAD};
use super::vnni::{lanes_512, weave_512};
use std::arch::x86_64::*;

struct Avx512Bytes;
/// # Safety
/// The CPU has AVX-512 BW.
#[inline(always)]
unsafe fn widened(bytes: __m512i) -> [__m512i; 2] {
    // SAFETY: the caller vouches for the instructions.
    unsafe { [_mm512_cvtepi8_epi16(_mm512_castsi512_si256(bytes)), _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64::<1>(bytes))] }
}
impl ByteSet for Avx512Bytes {
    const WIDTH: usize = 2;
    const COLUMNS: usize = 16;
    type Quad = __m512i;
    type Bytes = [__m512i; 2];
    type Whole = [__m512i; 2];
    type Sum = [__m512i; 2];
    type LineSum = __m512i;
    type Lanes = __m512i;
    #[inline(always)]
    unsafe fn zero() -> [__m512i; 2] {
        // SAFETY: the caller vouches for the instructions.
        unsafe { [_mm512_setzero_si512(); 2] }
    }
    #[inline(always)]
    unsafe fn quad(at: *const u8) -> __m512i {
        // SAFETY: the caller vouches for a widened quad.
        unsafe { _mm512_set1_epi64(at.cast::<i64>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn whole(at: *const u8) -> [__m512i; 2] {
        // SAFETY: the caller vouches for 64 widened bytes.
        unsafe { [_mm512_loadu_si512(at.cast()), _mm512_loadu_si512(at.add(64).cast())] }
    }
    #[inline(always)]
    unsafe fn load(at: *const i8) -> [__m512i; 2] {
        // SAFETY: the caller vouches for 64 bytes.
        unsafe { [_mm512_cvtepi8_epi16(_mm256_loadu_si256(at.cast())), _mm512_cvtepi8_epi16(_mm256_loadu_si256(at.add(32).cast()))] }
    }
    #[inline(always)]
    unsafe fn load_flipped(at: *const u8, flip: u8) -> [__m512i; 2] {
        // SAFETY: the caller vouches for 64 bytes.
        unsafe { widened(_mm512_xor_si512(_mm512_loadu_si512(at.cast()), _mm512_set1_epi8(flip as i8))) }
    }
    #[inline(always)]
    unsafe fn weave(rows: [*const u8; QUAD], flip: u8) -> [[__m512i; 2]; 4] {
        // SAFETY: the caller vouches for 64 bytes of each.
        unsafe { weave_512(rows, flip).map(|bytes| widened(bytes)) }
    }
    #[inline(always)]
    unsafe fn dot<const SIGNED: bool>(a: __m512i, b: [__m512i; 2], sum: [__m512i; 2]) -> [__m512i; 2] {
        // SAFETY: the caller vouches for the instructions.
        unsafe { [_mm512_add_epi32(sum[0], _mm512_madd_epi16(a, b[0])), _mm512_add_epi32(sum[1], _mm512_madd_epi16(a, b[1]))] }
    }
    #[inline(always)]
    unsafe fn dot_whole<const SIGNED: bool>(a: [__m512i; 2], b: [__m512i; 2], sum: __m512i) -> __m512i {
        // SAFETY: the caller vouches for the instructions.
        unsafe { _mm512_add_epi32(sum, _mm512_add_epi32(_mm512_madd_epi16(a[0], b[0]), _mm512_madd_epi16(a[1], b[1]))) }
    }
    #[inline(always)]
    unsafe fn lanes(sum: [__m512i; 2]) -> __m512i {
        // SAFETY: the caller vouches for the instructions.
        unsafe {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
            _mm512_add_epi32(_mm512_permutex2var_epi32(sum[0], even, sum[1]), _mm512_permutex2var_epi32(sum[0], odd, sum[1]))
        }
    }
    lanes_512!();
}

kernels!("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl");
context!(BYTES: tiles of [1 2 3 4 5 6] rows by [1 2] vectors, lines by 4 rows of Avx512Bytes);
