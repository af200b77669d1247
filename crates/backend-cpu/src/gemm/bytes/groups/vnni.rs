//! The kernels of [`groups`](super) by AVX-512 VNNI. Must not know what is done with lanes.
use super::{GROUPS, LANES, ROWS, STEP};
use half::f16;
use std::{arch::x86_64::*, ops::Range};

/// Where everything is. Of rows of x there are `count`, and one of ones behind them if there are `zeros`.
pub(super) struct Job {
    pub(super) rows: [*const u8; ROWS],
    pub(super) row_bytes: usize,
    pub(super) flip: i8,
    pub(super) x: *const u8,
    pub(super) x_stride: usize,
    pub(super) count: usize,
    /// `[count][terms][4]`
    pub(super) sums: *const i32,
    pub(super) sums_stride: usize,
    pub(super) zeros: *const i32,
    /// `[terms][4 groups][4 rows]`
    pub(super) scales: *const f32,
    pub(super) zero_points: *const i32,
    /// `[count + 1][4][16]`
    pub(super) parts: *mut i32,
    /// `[count][16 groups][4 rows]`
    pub(super) lanes: *mut f32,
}
/// Codes of a vector as unsigned bytes: of nibbles the low and the high ones.
type Codes = [__m512i; 2];

/// # Safety
/// The CPU has AVX-512 BW; below `at` and within the row bytes can be read.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn codes<const NIBBLES: bool>(job: &Job, step: usize) -> [Codes; ROWS] {
    let at = step * STEP;
    let left = job.row_bytes.saturating_sub(at);
    let mask = if left >= STEP { !0 } else { (1u64 << left) - 1 };
    let (low, flip) = (_mm512_set1_epi8(15), _mm512_set1_epi8(job.flip));
    let mut all = [[_mm512_setzero_si512(); 2]; ROWS];
    for (codes, row) in all.iter_mut().zip(job.rows) {
        // SAFETY: what the mask leaves out is not read, and all else is in the row.
        let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, row.wrapping_add(at).cast()) };
        *codes =
            if NIBBLES { [_mm512_and_si512(bytes, low), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low)] } else { [_mm512_xor_si512(bytes, flip), bytes] };
    }
    all
}
/// Sums of four rows with a row of x, in parts of four columns' products.
///
/// # Safety
/// The CPU has the instructions; `x` holds a vector, or two.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn dots<const NIBBLES: bool>(codes: &[Codes; ROWS], x: *const u8, mut sums: [__m512i; ROWS]) -> [__m512i; ROWS] {
    // SAFETY: the caller vouches for them.
    let first = unsafe { _mm512_loadu_si512(x.cast()) };
    for (sum, codes) in sums.iter_mut().zip(codes) {
        *sum = _mm512_dpbusd_epi32(*sum, codes[0], first);
    }
    if NIBBLES {
        // SAFETY: likewise.
        let second = unsafe { _mm512_loadu_si512(x.add(STEP).cast()) };
        for (sum, codes) in sums.iter_mut().zip(codes) {
            *sum = _mm512_dpbusd_epi32(*sum, codes[1], second);
        }
    }
    sums
}
/// `[quarter][row]` of the sums of four rows.
#[target_feature(enable = "avx512f")]
#[inline]
fn transposed([a, b, c, d]: [__m512i; ROWS]) -> __m512i {
    let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd))
}
/// Adjacent quarters of two, added: those of the first, then of the second.
#[target_feature(enable = "avx512f")]
#[inline]
fn paired(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi32(_mm512_shuffle_i32x4::<0b10_00_10_00>(a, b), _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b))
}
/// The sums of groups `[group][row]` with row `i` of x are corrected, scaled and added to their lanes.
///
/// # Safety
/// As of the kernels.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn add_term(job: &Job, term: usize, i: usize, mut sums: __m512i, of_ones: __m512i) {
    // SAFETY: the caller vouches for all places.
    unsafe {
        if !job.zeros.is_null() {
            sums = _mm512_sub_epi32(sums, _mm512_mullo_epi32(of_ones, _mm512_set1_epi32(*job.zeros.add(i))));
        }
        let of_x = _mm_loadu_si128(job.sums.add(i * job.sums_stride + term * GROUPS).cast());
        let spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
        let mut of_x = _mm512_permutexvar_epi32(spread, _mm512_castsi128_si512(of_x));
        if !job.zero_points.is_null() {
            of_x = _mm512_mullo_epi32(of_x, _mm512_loadu_si512(job.zero_points.add(term * LANES).cast()));
        }
        let exact = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums, of_x));
        let scaled = _mm512_mul_ps(exact, _mm512_loadu_ps(job.scales.add(term * LANES)));
        let lanes = job.lanes.add((i * GROUPS + term % GROUPS) * LANES);
        _mm512_storeu_ps(lanes, _mm512_add_ps(_mm512_loadu_ps(lanes), scaled));
    }
}
/// Asks for what is read some steps later, or in the rows to come.
#[target_feature(enable = "avx512f")]
#[inline]
fn ask(job: &Job, step: usize) {
    /// Bytes ahead.
    const AHEAD: usize = 512;
    let at = step * STEP + AHEAD;
    // The rows to come lie behind these.
    let at = if at < job.row_bytes { at } else { at + (ROWS - 1) * job.row_bytes };
    for row in job.rows {
        // SAFETY: a prefetch reads nothing.
        _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(at).cast())
    }
}
/// `to[term][group][row] = rows[row][4 term + group]`.
///
/// # Safety
/// The CPU has AVX-512; rows and target hold so many terms.
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn turn_scales(rows: [*const f32; ROWS], terms: usize, to: *mut f32) {
    let turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for term in 0..terms {
        // SAFETY: the caller's promise.
        unsafe {
            let [a, b, c, d] = rows.map(|row| row.add(term * GROUPS));
            // Those of the rows to come lie behind these.
            _mm_prefetch::<_MM_HINT_T0>(d.wrapping_add(terms * GROUPS + term * (LANES - GROUPS)).cast());
            let four = _mm512_castps128_ps512(_mm_loadu_ps(a));
            let four = _mm512_insertf32x4::<1>(four, _mm_loadu_ps(b));
            let four = _mm512_insertf32x4::<2>(four, _mm_loadu_ps(c));
            let four = _mm512_insertf32x4::<3>(four, _mm_loadu_ps(d));
            _mm512_storeu_ps(to.add(term * LANES), _mm512_permutexvar_ps(turn, four));
        }
    }
}
/// The same of halves.
///
/// # Safety
/// As [`turn_scales`]; the CPU has F16C.
#[target_feature(enable = "avx512f,avx512dq,f16c")]
pub(super) unsafe fn turn_halves(rows: [*const f16; ROWS], terms: usize, to: *mut f32) {
    let turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for term in 0..terms {
        // SAFETY: the caller's promise.
        unsafe {
            let [a, b, c, d] = rows.map(|row| row.add(term * GROUPS));
            // Those of the rows to come lie behind these.
            _mm_prefetch::<_MM_HINT_T0>(d.wrapping_add(terms * GROUPS + term * (LANES - GROUPS)).cast());
            let first = _mm_unpacklo_epi64(_mm_loadl_epi64(a.cast()), _mm_loadl_epi64(b.cast()));
            let second = _mm_unpacklo_epi64(_mm_loadl_epi64(c.cast()), _mm_loadl_epi64(d.cast()));
            let four = _mm512_cvtph_ps(_mm256_set_m128i(second, first));
            _mm512_storeu_ps(to.add(term * LANES), _mm512_permutexvar_ps(turn, four));
        }
    }
}

/// Groups of a quarter.
///
/// # Safety
/// The CPU has the features named; all places of the job hold what it says, for the terms.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn quarters<const NIBBLES: bool>(job: &Job, terms: Range<usize>) {
    let x_step = if NIBBLES { 2 * STEP } else { STEP };
    let zero = [_mm512_setzero_si512(); ROWS];
    for term in terms {
        ask(job, term);
        // SAFETY: the caller's promise.
        unsafe {
            let codes = codes::<NIBBLES>(job, term);
            let mut of_ones = zero[0];
            if !job.zeros.is_null() {
                of_ones = transposed(dots::<NIBBLES>(&codes, job.x.add(job.count * job.x_stride + term * x_step), zero));
            }
            for i in 0..job.count {
                let sums = transposed(dots::<NIBBLES>(&codes, job.x.add(i * job.x_stride + term * x_step), zero));
                add_term(job, term, i, sums, of_ones);
            }
        }
    }
}
/// Groups of two quarters.
///
/// # Safety
/// As [`quarters`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn halves<const NIBBLES: bool>(job: &Job, terms: Range<usize>) {
    let x_step = if NIBBLES { 2 * STEP } else { STEP };
    let zero = [_mm512_setzero_si512(); ROWS];
    for term in terms {
        ask(job, 2 * term);
        ask(job, 2 * term + 1);
        // SAFETY: the caller's promise.
        unsafe {
            let (first, second) = (codes::<NIBBLES>(job, 2 * term), codes::<NIBBLES>(job, 2 * term + 1));
            let mut of_ones = zero[0];
            for i in (0..job.count + usize::from(!job.zeros.is_null())).rev() {
                let x = job.x.add(i * job.x_stride + 2 * term * x_step);
                let sums = paired(transposed(dots::<NIBBLES>(&first, x, zero)), transposed(dots::<NIBBLES>(&second, x.add(x_step), zero)));
                // The row of ones is the last, and comes first.
                if i == job.count {
                    of_ones = sums;
                } else {
                    add_term(job, term, i, sums, of_ones);
                }
            }
        }
    }
}
/// Groups of so many vectors.
///
/// # Safety
/// As [`quarters`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn wholes<const NIBBLES: bool>(job: &Job, terms: Range<usize>, vectors: usize) {
    let x_step = if NIBBLES { 2 * STEP } else { STEP };
    let zero = [_mm512_setzero_si512(); ROWS];
    let all = job.count + usize::from(!job.zeros.is_null());
    for term in terms {
        // SAFETY: the caller's promise.
        unsafe {
            for group in 0..GROUPS {
                let step = (term * GROUPS + group) * vectors;
                (step..step + vectors).for_each(|step| ask(job, step));
                if vectors == 1 {
                    let codes = codes::<NIBBLES>(job, step);
                    for i in 0..all {
                        let sums = transposed(dots::<NIBBLES>(&codes, job.x.add(i * job.x_stride + step * x_step), zero));
                        _mm512_storeu_si512(job.parts.add((i * GROUPS + group) * LANES).cast(), sums);
                    }
                    continue;
                }
                for i in 0..all {
                    let mut sums = zero;
                    for step in step..step + vectors {
                        sums = dots::<NIBBLES>(&codes::<NIBBLES>(job, step), job.x.add(i * job.x_stride + step * x_step), sums);
                    }
                    _mm512_storeu_si512(job.parts.add((i * GROUPS + group) * LANES).cast(), transposed(sums));
                }
            }
            let mut of_ones = zero[0];
            for i in (0..all).rev() {
                let at = job.parts.add(i * GROUPS * LANES);
                let first = paired(_mm512_loadu_si512(at.cast()), _mm512_loadu_si512(at.add(LANES).cast()));
                let second = paired(_mm512_loadu_si512(at.add(2 * LANES).cast()), _mm512_loadu_si512(at.add(3 * LANES).cast()));
                let sums = paired(first, second);
                if i == job.count {
                    of_ones = sums;
                } else {
                    add_term(job, term, i, sums, of_ones);
                }
            }
        }
    }
}
