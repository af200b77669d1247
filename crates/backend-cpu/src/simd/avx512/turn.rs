//! Blocks of f32 transposed in registers: rows become columns. Must not know what for.
use std::arch::x86_64::*;

/// Four elements of 16 rows: lane `r` of vector `c` is element `c` of row `r`. Quarters of four rows meet in the load,
/// which leaves two rounds of shuffles.
///
/// # Safety
/// Four elements can be read at `at + r * row_stride` for every `r < 16`; the CPU has AVX-512.
#[inline(always)]
pub(super) unsafe fn quarter(at: *const f32, row_stride: usize) -> [__m512; 4] {
    // SAFETY: the caller vouches for the elements and the set.
    unsafe {
        let four = |row: usize| _mm_loadu_ps(at.add(row * row_stride));
        let z0 = side_by_side(four(0), four(4), four(8), four(12));
        let z1 = side_by_side(four(1), four(5), four(9), four(13));
        let z2 = side_by_side(four(2), four(6), four(10), four(14));
        let z3 = side_by_side(four(3), four(7), four(11), four(15));
        let (low01, high01) = (_mm512_castps_pd(_mm512_unpacklo_ps(z0, z1)), _mm512_castps_pd(_mm512_unpackhi_ps(z0, z1)));
        let (low23, high23) = (_mm512_castps_pd(_mm512_unpacklo_ps(z2, z3)), _mm512_castps_pd(_mm512_unpackhi_ps(z2, z3)));
        [
            _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23)),
            _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23)),
            _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23)),
            _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23)),
        ]
    }
}
/// The quarters of a vector.
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn side_by_side(a: __m128, b: __m128, c: __m128, d: __m128) -> __m512 {
    // SAFETY: as the caller's.
    unsafe { _mm512_insertf32x4::<3>(_mm512_insertf32x4::<2>(_mm512_insertf32x4::<1>(_mm512_castps128_ps512(a), b), c), d) }
}
/// 16 rows of 16 elements: lane `r` of vector `c` is element `c` of row `r`.
///
/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
pub(super) unsafe fn block(r: [__m512; 16]) -> [__m512; 16] {
    let mut out = r;
    // SAFETY: the caller vouches for the set.
    unsafe {
        let mut t = r;
        for i in 0..8 {
            t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        // u[4q + c]: in quarter L, column 4L + c of rows 4q .. 4q + 4.
        let mut u = t;
        for q in 0..4 {
            let (t0, t1) = (_mm512_castps_pd(t[4 * q]), _mm512_castps_pd(t[4 * q + 1]));
            let (t2, t3) = (_mm512_castps_pd(t[4 * q + 2]), _mm512_castps_pd(t[4 * q + 3]));
            u[4 * q] = _mm512_castpd_ps(_mm512_unpacklo_pd(t0, t2));
            u[4 * q + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(t0, t2));
            u[4 * q + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(t1, t3));
            u[4 * q + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(t1, t3));
        }
        for c in 0..4 {
            let even_low = _mm512_shuffle_f32x4::<0x88>(u[c], u[4 + c]);
            let odd_low = _mm512_shuffle_f32x4::<0xdd>(u[c], u[4 + c]);
            let even_high = _mm512_shuffle_f32x4::<0x88>(u[8 + c], u[12 + c]);
            let odd_high = _mm512_shuffle_f32x4::<0xdd>(u[8 + c], u[12 + c]);
            out[c] = _mm512_shuffle_f32x4::<0x88>(even_low, even_high);
            out[4 + c] = _mm512_shuffle_f32x4::<0x88>(odd_low, odd_high);
            out[8 + c] = _mm512_shuffle_f32x4::<0xdd>(even_low, even_high);
            out[12 + c] = _mm512_shuffle_f32x4::<0xdd>(odd_low, odd_high);
        }
    }
    out
}
