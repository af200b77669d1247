//! Rows of x, as signed bytes, times codes whose columns have a scale for each group, by VNNI: codes are multiplied where they lie, four
//! rows of the weight at a time, and the sums of groups are scaled and added in registers.
//!
//! A vector holds 64 bytes of a row, four quarters of 16; the sums of four rows become one vector `[quarter][row]`, and those of four
//! groups a term `[group][row]`. Terms are added to sixteen lanes, as the tree of reductions has them: four vectors, in turn.
//! Other sets have no kernel here. Must not know how codes of x are found, or what totals become.
use super::super::context::AlignedBuffer;
use crate::{
    isa::ByteIsa,
    reduce::tree::{BLOCK, LANES},
    scratch::{ScratchVec, filled, with_buffer},
};
use adamant_runtime::ErrorKind;
use std::cell::RefCell;

/// Bytes of a vector of codes, and of a quarter.
const STEP: usize = 64;
const QUARTER: usize = 16;
/// Rows of the weight, and groups, of a term.
pub(crate) const ROWS: usize = 4;
const GROUPS: usize = 4;

/// How groups lie in vectors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupLayout {
    /// a quarter is a group
    Quarter,
    /// two of them are
    Half,
    /// one vector is, or more
    Vectors(usize),
}
/// A weight whose rows are codes of 4 or 8 bits.
#[derive(Clone, Copy)]
pub(crate) struct CodedGroups<'a> {
    bytes: &'a [u8],
    row_bytes: usize,
    groups: usize,
    layout: GroupLayout,
    nibbles: bool,
    flip: u8,
    scale: &'a [f32],
    zero_point: Option<&'a [u8]>,
    base: i32,
}
impl<'a> CodedGroups<'a> {
    /// Of rows with so many groups of `size` codes, and scales `[rows, groups]`. Codes are `bits` long; `flip` makes bytes unsigned, and
    /// codes count from the zero points, or from `base`. `None`: there is no kernel for such groups, or on this CPU.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        isa: ByteIsa,
        bytes: &'a [u8],
        [groups, size]: [usize; 2],
        bits: usize,
        flip: u8,
        scale: &'a [f32],
        zero_point: Option<&'a [u8]>,
        base: i32,
    ) -> Option<CodedGroups<'a>> {
        let of_group = size * bits / 8;
        let layout = match of_group {
            QUARTER => GroupLayout::Quarter,
            of if of == 2 * QUARTER => GroupLayout::Half,
            of if of > 0 && of.is_multiple_of(STEP) => GroupLayout::Vectors(of / STEP),
            _ => return None,
        };
        let (row_bytes, rows) = (groups * of_group, scale.len() / groups.max(1));
        let fits = matches!(bits, 4 | 8) && rows > 0 && bytes.len() >= rows * row_bytes && zero_point.is_none_or(|zero| zero.len() >= rows * groups);
        (fits && isa == ByteIsa::Avx512Vnni && isa.is_available()).then_some(CodedGroups {
            bytes,
            row_bytes,
            groups,
            layout,
            nibbles: bits == 4,
            flip,
            scale,
            zero_point,
            base,
        })
    }
    fn rows(&self) -> usize {
        self.scale.len() / self.groups
    }
    /// Terms of a row.
    fn terms(&self) -> usize {
        self.groups.div_ceil(GROUPS)
    }
    /// Vectors of a term.
    fn steps(&self) -> usize {
        match self.layout {
            GroupLayout::Quarter => 1,
            GroupLayout::Half => 2,
            GroupLayout::Vectors(vectors) => GROUPS * vectors,
        }
    }
    /// Bytes of x that a vector of codes is multiplied with.
    fn x_step(&self) -> usize {
        if self.nibbles { 2 * STEP } else { STEP }
    }
}
/// Rows of x in the order of the codes' bytes: of nibbles, the 64 columns of the low ones and then those of the high ones.
pub(crate) struct GroupedBytes {
    rows: usize,
    stride: usize,
    bytes: ScratchVec<u8>,
    /// `[rows, terms, 4]`: the sums of groups less zeros, times the base if all rows of the weight have one
    sums: ScratchVec<i32>,
    /// what bytes count from
    zeros: ScratchVec<i32>,
    /// ones in the place of a row, behind the last, if there are zeros that are not 0
    corrected: bool,
}
impl GroupedBytes {
    /// Of unsigned bytes, `columns` in a row, rows `from_stride` apart, that count from `zeros`.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn new(of: &CodedGroups<'_>, bytes: &[u8], from_stride: usize, columns: usize, mut zeros: ScratchVec<i32>) -> Result<GroupedBytes, ErrorKind> {
        zeros.iter_mut().for_each(|zero| *zero -= 128);
        let (count, stride) = (zeros.len(), of.terms() * of.steps() * of.x_step());
        let corrected = zeros.iter().any(|&zero| zero != 0);
        let mut laid = GroupedBytes {
            rows: count,
            stride,
            bytes: filled(0u8, (count + usize::from(corrected)) * stride)?,
            sums: filled(0i32, count * of.terms() * GROUPS)?,
            zeros,
            corrected,
        };
        let factor = if of.zero_point.is_some() { 1 } else { of.base };
        let size = columns / of.groups;
        for (i, from) in bytes.chunks_exact(from_stride).take(count).enumerate() {
            let (from, zero) = (&from[..columns], laid.zeros[i]);
            lay(from, 0x80, of.nibbles, &mut laid.bytes[i * stride..][..stride]);
            let sums = &mut laid.sums[i * of.terms() * GROUPS..][..of.groups];
            for (sum, group) in sums.iter_mut().zip(from.chunks_exact(size)) {
                let all: i32 = group.iter().map(|&byte| i32::from(byte)).sum();
                *sum = all.wrapping_sub((zero + 128).wrapping_mul(size as i32)).wrapping_mul(factor);
            }
        }
        if corrected {
            let ones = filled(1u8, columns)?;
            lay(&ones, 0, of.nibbles, &mut laid.bytes[count * stride..]);
        }
        Ok(laid)
    }
}
/// Bytes of a row, each xor `flip`, in the order of codes; what is behind them stays.
fn lay(from: &[u8], flip: u8, nibbles: bool, to: &mut [u8]) {
    if !nibbles {
        to.iter_mut().zip(from).for_each(|(to, &byte)| *to = byte ^ flip);
        return;
    }
    for (to, from) in to.chunks_exact_mut(2 * STEP).zip(from.chunks(2 * STEP)) {
        let (low, high) = to.split_at_mut(STEP);
        for ((low, high), pair) in low.iter_mut().zip(high).zip(from.chunks(2)) {
            *low = pair[0] ^ flip;
            if let Some(&second) = pair.get(1) {
                *high = second ^ flip;
            }
        }
    }
}

/// What a thread needs on the way.
#[derive(Default)]
pub(crate) struct GroupScratch {
    scales: AlignedBuffer<f32>,
    zero_points: AlignedBuffer<i32>,
    lanes: AlignedBuffer<f32>,
    parts: AlignedBuffer<i32>,
    totals: AlignedBuffer<f64>,
}
impl GroupScratch {
    pub(crate) fn with<R>(f: impl FnOnce(&mut GroupScratch) -> R) -> R {
        thread_local! {
            static KEPT: RefCell<Vec<GroupScratch>> = const { RefCell::new(Vec::new()) };
        }
        with_buffer(&KEPT, f)
    }
}
/// Sums over all groups of four rows of the weight from `row` on, into `[rows of x, 4]`; of rows that are not there any.
///
/// # Errors
/// `OutOfMemory`; operands that do not fit.
pub(crate) fn multiply_four(of: &CodedGroups<'_>, x: &GroupedBytes, row: usize, scratch: &mut GroupScratch, totals: &mut [f32]) -> Result<(), ErrorKind> {
    let (terms, m) = (of.terms(), x.rows);
    let fits = row < of.rows() && totals.len() == m * ROWS && x.stride == terms * of.steps() * of.x_step();
    if !fits {
        return Err(ErrorKind::Internal("groups of codes whose operands do not fit".into()));
    }
    // The last stands for those that are not there.
    let rows: [usize; ROWS] = std::array::from_fn(|r| (row + r).min(of.rows() - 1));
    let scales = scratch.scales.take(terms * LANES)?;
    let whole = if terms * GROUPS == of.groups { terms } else { terms - 1 };
    turn_scales(rows.map(|row| &of.scale[row * of.groups..][..of.groups]), whole, scales);
    let zero_points = scratch.zero_points.take(if of.zero_point.is_some() { terms * LANES } else { 0 })?;
    for (r, &row) in rows.iter().enumerate() {
        // Groups that are not there have zeros.
        for (g, to) in scales.iter_mut().skip(r).step_by(ROWS).enumerate().skip(whole * GROUPS) {
            *to = if g < of.groups { of.scale[row * of.groups + g] } else { 0.0 };
        }
        if let Some(zero) = of.zero_point {
            for (g, to) in zero_points.iter_mut().skip(r).step_by(ROWS).enumerate() {
                *to = if g < of.groups { i32::from(zero[row * of.groups + g]) } else { 0 };
            }
        }
    }
    let lanes = scratch.lanes.take(m * GROUPS * LANES)?;
    let parts = scratch.parts.take((m + 1) * GROUPS * LANES)?;
    let wide = scratch.totals.take(m * ROWS)?;
    wide.fill(0.0);
    for first in (0..terms).step_by(BLOCK / GROUPS) {
        lanes.fill(0.0);
        let block = first..terms.min(first + BLOCK / GROUPS);
        run(of, x, rows, block, scales, zero_points, parts, lanes);
        for (lanes, wide) in lanes.as_chunks_mut::<{ GROUPS * LANES }>().0.iter_mut().zip(wide.as_chunks_mut::<ROWS>().0) {
            // By halves, each with the one half of them behind it.
            let lanes = lanes.as_chunks_mut::<ROWS>().0;
            for half in [8, 4, 2, 1] {
                for lane in 0..half {
                    for r in 0..ROWS {
                        lanes[lane][r] += lanes[lane + half][r];
                    }
                }
            }
            wide.iter_mut().zip(lanes[0]).for_each(|(wide, folded)| *wide += f64::from(folded));
        }
    }
    totals.iter_mut().zip(&*wide).for_each(|(to, &total)| *to = total as f32);
    Ok(())
}
/// Scales of four rows as `[terms][4 groups][4 rows]`, of so many whole terms.
fn turn_scales(rows: [&[f32]; ROWS], terms: usize, to: &mut [f32]) {
    assert!(rows.iter().all(|row| terms * GROUPS <= row.len()) && terms * LANES <= to.len());
    #[cfg(target_arch = "x86_64")]
    // SAFETY: rows and target hold as many; a weight of groups exists only where the instructions do.
    unsafe {
        vnni::turn_scales(rows.map(<[f32]>::as_ptr), terms, to.as_mut_ptr());
    }
}
/// Adds the terms of a block of groups to the lanes `[rows of x][16 groups][4 rows]`.
#[allow(clippy::too_many_arguments)]
fn run(
    of: &CodedGroups<'_>,
    x: &GroupedBytes,
    rows: [usize; ROWS],
    terms: std::ops::Range<usize>,
    scales: &[f32],
    zero_points: &[i32],
    parts: &mut [i32],
    lanes: &mut [f32],
) {
    assert!(terms.end * LANES <= scales.len() && (zero_points.is_empty() || scales.len() <= zero_points.len()));
    assert!(x.rows * GROUPS * LANES <= lanes.len() && (x.rows + 1) * GROUPS * LANES <= parts.len());
    assert!(terms.end * of.steps() * of.x_step() <= x.stride && (x.rows + usize::from(x.corrected)) * x.stride <= x.bytes.len());
    assert!(x.rows * of.terms() * GROUPS <= x.sums.len() && terms.end <= of.terms() && x.rows <= x.zeros.len());
    let rows = rows.map(|row| of.bytes[row * of.row_bytes..][..of.row_bytes].as_ptr());
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the asserts are the conditions of `terms`; a weight of groups exists only where the instructions do.
    unsafe {
        let job = vnni::Job {
            rows,
            row_bytes: of.row_bytes,
            flip: of.flip as i8,
            x: x.bytes.as_ptr(),
            x_stride: x.stride,
            count: x.rows,
            sums: x.sums.as_ptr(),
            sums_stride: of.terms() * GROUPS,
            zeros: if x.corrected { x.zeros.as_ptr() } else { std::ptr::null() },
            scales: scales.as_ptr(),
            zero_points: if zero_points.is_empty() { std::ptr::null() } else { zero_points.as_ptr() },
            parts: parts.as_mut_ptr(),
            lanes: lanes.as_mut_ptr(),
        };
        match (of.nibbles, of.layout) {
            (true, GroupLayout::Quarter) => vnni::quarters::<true>(&job, terms),
            (true, GroupLayout::Half) => vnni::halves::<true>(&job, terms),
            (true, GroupLayout::Vectors(vectors)) => vnni::wholes::<true>(&job, terms, vectors),
            (false, GroupLayout::Quarter) => vnni::quarters::<false>(&job, terms),
            (false, GroupLayout::Half) => vnni::halves::<false>(&job, terms),
            (false, GroupLayout::Vectors(vectors)) => vnni::wholes::<false>(&job, terms, vectors),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (rows, terms, parts);
}

#[cfg(target_arch = "x86_64")]
mod vnni {
    use super::{GROUPS, LANES, ROWS, STEP};
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
            *codes = if NIBBLES {
                [_mm512_and_si512(bytes, low), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low)]
            } else {
                [_mm512_xor_si512(bytes, flip), bytes]
            };
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
    fn turned([a, b, c, d]: [__m512i; ROWS]) -> __m512i {
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
                    of_ones = turned(dots::<NIBBLES>(&codes, job.x.add(job.count * job.x_stride + term * x_step), zero));
                }
                for i in 0..job.count {
                    let sums = turned(dots::<NIBBLES>(&codes, job.x.add(i * job.x_stride + term * x_step), zero));
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
                    let sums = paired(turned(dots::<NIBBLES>(&first, x, zero)), turned(dots::<NIBBLES>(&second, x.add(x_step), zero)));
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
                            let sums = turned(dots::<NIBBLES>(&codes, job.x.add(i * job.x_stride + step * x_step), zero));
                            _mm512_storeu_si512(job.parts.add((i * GROUPS + group) * LANES).cast(), sums);
                        }
                        continue;
                    }
                    for i in 0..all {
                        let mut sums = zero;
                        for step in step..step + vectors {
                            sums = dots::<NIBBLES>(&codes::<NIBBLES>(job, step), job.x.add(i * job.x_stride + step * x_step), sums);
                        }
                        _mm512_storeu_si512(job.parts.add((i * GROUPS + group) * LANES).cast(), turned(sums));
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
}
