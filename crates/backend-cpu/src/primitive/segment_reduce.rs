//! Combining runs of neighbours along an axis, in f64 or i64 and rounded once. A segment is combined in pieces of so many elements,
//! counted from its first, each from its first to its last, and then the pieces in their order: so bits depend neither on how many
//! tasks there are nor on what else is in the batch, and a long segment is work for more than one.
use super::{Call, computes};
use crate::{
    device::Runtime,
    element::{Number, Wide, indices, with_number, with_type},
    lines::AxisLines,
    operand::{In, Out, internal},
    scratch::{filled, scratch_vec},
};
use adamant_runtime::{
    DType, ErrorKind, Scalar,
    kernel::Fault,
    op::{SegmentOp, segment},
};
use parking_lot::Mutex;
use std::ops::Range;

type Fields<'a> = (&'a SegmentOp, &'a u8);

/// Whether it runs on these dtypes.
pub(super) fn supports(_: Fields<'_>, dtypes: &[DType]) -> bool {
    computes((), &dtypes[..1])
}
/// Runs a SegmentReduce step. Where offsets are wrong: zero and a fault.
///
/// # Errors
/// Operands that do not fit.
pub(super) fn run((op, axis): Fields<'_>, call: &Call<'_>, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let ([x, offsets], [out]) = (inputs, outputs) else { return Err(internal("a segment reduction has two inputs and one output")) };
    let axis = *axis as usize;
    if axis >= x.shape.rank() || offsets.shape.rank() != axis + 1 || offsets.shape[axis] != out.shape[axis] + 1 {
        return Err(internal("a segment reduction of other shapes"));
    }
    if out.shape.elements() == 0 {
        return Ok(());
    }
    let cut = SegmentCut {
        op: *op,
        segments: out.shape[axis],
        wrong: Mutex::new(None),
        lines: AxisLines::new(&x.shape, axis, &[&x.layout.strides, &offsets.layout.strides]),
    };
    let (dtype, to) = (x.dtype, out.dtype);
    if dtype == to {
        with_number!(dtype, T => cut.combine::<T, T>(call.runtime, x, offsets, out))?;
    } else {
        with_type!(
            dtype,
            [Bool crate::element::Bit, U8 u8, I8 i8, I32 i32, U32 u32],
            T => cut.combine::<T, i64>(call.runtime, x, offsets, out),
            d => Err(internal(&format!("a segment reduction from {d} to {to}")))
        )?;
    }
    if let Some((position, index)) = cut.wrong.into_inner() {
        call.fault.set(Fault::Index { index, bound: x.shape[axis] + 1, position });
    }
    Ok(())
}

/// A number as arithmetic has it.
trait Of {
    fn of(number: Scalar) -> Self;
}
impl Of for f64 {
    fn of(number: Scalar) -> f64 {
        number.to_f64()
    }
}
impl Of for i64 {
    fn of(number: Scalar) -> i64 {
        number.to_i64()
    }
}

/// So many elements of a segment are combined at once. Which they are is a part of what a sum's bits are.
const PIECE: usize = 16 * 1024;

fn combined<W: Wide>(op: SegmentOp, a: W, b: W) -> W {
    match op {
        SegmentOp::Sum => a.plus(b),
        SegmentOp::Max => a.larger(b),
        SegmentOp::Min => a.smaller(b),
    }
}
/// Where elements of a line lie.
struct SegmentWalk<'a, T> {
    op: SegmentOp,
    elements: &'a [T],
    /// of what lies behind the axis
    places: &'a [isize],
    along: isize,
    offset: isize,
    lines: &'a AxisLines,
}
impl<T: Number> SegmentWalk<'_, T> {
    /// Combines a range of a line for some columns from `first` on; where it is empty, totals stay as they are.
    fn take_in(&self, totals: &mut [T::Wide], line: usize, range: Range<usize>, first: usize) {
        let places = &self.places[first..first + totals.len()];
        let row_of = |k: usize| self.offset + self.lines.outer.offset(0, line) + k as isize * self.along;
        let value = |row: isize, place: isize| self.elements[(row + place) as usize].wide();
        let Range { start, end } = range;
        if start < end {
            totals.iter_mut().zip(places).for_each(|(t, p)| *t = value(row_of(start), *p));
        }
        for k in start + 1..end {
            let row = row_of(k);
            let pairs = totals.iter_mut().zip(places);
            match self.op {
                SegmentOp::Sum => pairs.for_each(|(t, p)| *t = t.plus(value(row, *p))),
                SegmentOp::Max => pairs.for_each(|(t, p)| *t = t.larger(value(row, *p))),
                SegmentOp::Min => pairs.for_each(|(t, p)| *t = t.smaller(value(row, *p))),
            }
        }
    }
}

/// How the axis is cut.
struct SegmentCut {
    op: SegmentOp,
    segments: usize,
    lines: AxisLines,
    /// the first wrong offset: its position and what it is
    wrong: Mutex<Option<(usize, i64)>>,
}
impl SegmentCut {
    fn combine<T: Number<Wide: Of>, O: Number<Wide = T::Wide>>(
        &self,
        runtime: &Runtime,
        x: &In<'_>,
        offsets: &In<'_>,
        out: &mut Out<'_>,
    ) -> Result<(), ErrorKind> {
        let (lines, segments) = (&self.lines, self.segments);
        let elements = x.elements::<T>()?;
        let read = indices(offsets.bytes, offsets.dtype);
        let (inner, along, next) = (lines.inner.len(), lines.steps[0], lines.steps[1]);
        let places = lines.inner_offsets(0)?;
        let nothing = T::Wide::of(self.op.of_nothing(out.dtype));
        let out: &mut [O] = out.dense()?;
        let walk = SegmentWalk { op: self.op, elements, places: &places, along, offset: x.layout.offset as isize, lines };
        let segment_of = |row: usize| {
            let (line, number) = (row / segments, row % segments);
            let cut_at = offsets.layout.offset as isize + lines.outer.offset(1, line) + number as isize * next;
            let pair = [read(cut_at as usize), read((cut_at + next) as usize)];
            segment(pair, number, segments - 1, lines.n).map_err(|k| (line * (segments + 1) + number + k, pair[k]))
        };
        // Segments of several pieces, with the number of their first: their pieces are tasks of their own.
        let mut long: Vec<(usize, Range<usize>, usize)> = Vec::new();
        let mut pieces: Vec<(usize, Range<usize>)> = Vec::new();
        for row in if lines.n > PIECE { 0..out.len() / inner } else { 0..0 } {
            let Some(range) = segment_of(row).ok().filter(|range| range.len() > PIECE) else { continue };
            long.push((row, range.clone(), pieces.len()));
            pieces.extend(range.clone().step_by(PIECE).map(|begin| (row / segments, begin..range.end.min(begin + PIECE))));
        }
        let mut partial = filled(nothing, pieces.len() * inner)?;
        // Neighbours together, which lie in one cache line.
        let columns = inner.min(16);
        runtime.threads.for_chunks_mut(&mut partial[..], columns, |task, partial| {
            let mut done = 0;
            while done < partial.len() {
                let (at, column) = ((task * columns + done) / inner, (task * columns + done) % inner);
                let count = (inner - column).min(partial.len() - done);
                let (line, range) = &pieces[at];
                walk.take_in(&mut partial[done..done + count], *line, range.clone(), column);
                done += count;
            }
        });
        // So many results that a task takes in some 64 Ki elements.
        let each = (lines.n / segments).max(1);
        let chunk = (64 * 1024 / each).clamp(16, 64 * 1024);
        runtime.threads.try_for_chunks_mut(out, chunk, |task, out| {
            let mut totals = scratch_vec::<T::Wide>(inner.min(chunk))?;
            let (mut at, end) = (task * chunk, task * chunk + out.len());
            while at < end {
                let (row, first) = (at / inner, at % inner);
                let results = &mut out[at - task * chunk..][..(inner - first).min(end - at)];
                at += results.len();
                let range = match segment_of(row) {
                    Ok(range) => range,
                    Err((position, offset)) => {
                        self.note(position, offset);
                        results.fill(O::narrow(T::Wide::ZERO));
                        continue;
                    }
                };
                totals.clear();
                totals.resize(results.len(), nothing);
                match long.binary_search_by_key(&row, |(row, ..)| *row) {
                    Ok(k) => {
                        let (_, range, begin) = &long[k];
                        for piece in 0..range.len().div_ceil(PIECE) {
                            let of = &partial[(begin + piece) * inner + first..][..results.len()];
                            let pairs = totals.iter_mut().zip(of);
                            pairs.for_each(|(t, p)| *t = if piece == 0 { *p } else { combined(self.op, *t, *p) });
                        }
                    }
                    Err(_) => walk.take_in(&mut totals, row / segments, range, first),
                }
                results.iter_mut().zip(totals.iter()).for_each(|(o, t)| *o = O::narrow(*t));
            }
            Ok(())
        })
    }
    /// Of wrong offsets the first is told, whichever task meets one first.
    fn note(&self, position: usize, offset: i64) {
        let mut wrong = self.wrong.lock();
        if wrong.is_none_or(|(first, _)| position < first) {
            *wrong = Some((position, offset));
        }
    }
}
