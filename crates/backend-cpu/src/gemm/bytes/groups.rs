//! Rows of x, as signed bytes, times codes whose columns have a scale for each group, by VNNI: codes are multiplied where they lie, four
//! rows of the weight at a time, and the sums of groups are scaled and added in registers.
//!
//! A vector holds 64 bytes of a row, four quarters of 16; the sums of four rows become one vector `[quarter][row]`, and those of four
//! groups a term `[group][row]`. Terms are added to sixteen lanes, as the tree of reductions has them: four vectors, in turn.
//! Other sets have no kernel here. Must not know how codes of x are found, or what totals become.
#[cfg(target_arch = "x86_64")]
mod vnni;

use super::super::context::AlignedBuffer;
use crate::{
    isa::ByteIsa,
    reduce::tree::{BLOCK, LANES},
    scratch::{ScratchVec, filled, with_buffer},
};
use adamant_runtime::ErrorKind;
use half::f16;
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
impl GroupLayout {
    /// Of groups of so many bytes.
    fn of(bytes: usize) -> Option<GroupLayout> {
        match bytes {
            QUARTER => Some(GroupLayout::Quarter),
            bytes if bytes == 2 * QUARTER => Some(GroupLayout::Half),
            bytes if bytes > 0 && bytes.is_multiple_of(STEP) => Some(GroupLayout::Vectors(bytes / STEP)),
            _ => None,
        }
    }
}
/// Scales of groups, row by row.
#[derive(Clone, Copy)]
pub(crate) enum StoredScales<'a> {
    Floats(&'a [f32]),
    Halves(&'a [f16]),
}
impl StoredScales<'_> {
    fn count(&self) -> usize {
        match self {
            StoredScales::Floats(scales) => scales.len(),
            StoredScales::Halves(scales) => scales.len(),
        }
    }
    fn at(&self, at: usize) -> f32 {
        match self {
            StoredScales::Floats(scales) => scales[at],
            StoredScales::Halves(scales) => scales[at].to_f32(),
        }
    }
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
    scale: StoredScales<'a>,
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
        scale: StoredScales<'a>,
        zero_point: Option<&'a [u8]>,
        base: i32,
    ) -> Option<CodedGroups<'a>> {
        let of_group = size * bits / 8;
        let layout = GroupLayout::of(of_group)?;
        let (row_bytes, rows) = (groups * of_group, scale.count() / groups.max(1));
        let fits = rows > 0 && bytes.len() >= rows * row_bytes && zero_point.is_none_or(|zero| zero.len() >= rows * groups);
        (fits && CodedGroups::suit(isa, size, bits)).then_some(CodedGroups {
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
    /// Is there a kernel for groups of so many codes of so many bits?
    pub(crate) fn suit(isa: ByteIsa, size: usize, bits: usize) -> bool {
        isa == ByteIsa::Avx512Vnni && isa.is_available() && matches!(bits, 4 | 8) && GroupLayout::of(size * bits / 8).is_some()
    }
    fn rows(&self) -> usize {
        self.scale.count() / self.groups
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
    match of.scale {
        StoredScales::Floats(all) => turn_scales(rows.map(|row| &all[row * of.groups..][..of.groups]), whole, scales),
        StoredScales::Halves(all) => turn_halves(rows.map(|row| &all[row * of.groups..][..of.groups]), whole, scales),
    }
    let zero_points = scratch.zero_points.take(if of.zero_point.is_some() { terms * LANES } else { 0 })?;
    for (r, &row) in rows.iter().enumerate() {
        // Groups that are not there have zeros.
        for (g, to) in scales.iter_mut().skip(r).step_by(ROWS).enumerate().skip(whole * GROUPS) {
            *to = if g < of.groups { of.scale.at(row * of.groups + g) } else { 0.0 };
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
/// The same of halves.
fn turn_halves(rows: [&[f16]; ROWS], terms: usize, to: &mut [f32]) {
    assert!(rows.iter().all(|row| terms * GROUPS <= row.len()) && terms * LANES <= to.len());
    #[cfg(target_arch = "x86_64")]
    // SAFETY: rows and target hold as many; a weight of groups exists only where the instructions do.
    unsafe {
        vnni::turn_halves(rows.map(<[f16]>::as_ptr), terms, to.as_mut_ptr());
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
