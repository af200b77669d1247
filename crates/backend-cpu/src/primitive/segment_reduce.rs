//! Combining runs of neighbours along an axis. Each element of the result is combined by one task, from the first element of its
//! segment to the last, in f64 or i64 and rounded once: so its bits do not depend on how many tasks there are.
use super::{Call, computes};
use crate::{
    device::Runtime,
    element::{Number, Wide, indices, with_number, with_type},
    lines::Lines,
    operand::{In, Out, internal},
    scratch::scratch_vec,
};
use adamant_runtime::{
    DType, ErrorKind, Scalar,
    kernel::Fault,
    op::{SegmentOp, segment},
};
use parking_lot::Mutex;

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
    let cut =
        Cut { op: *op, segments: out.shape[axis], wrong: Mutex::new(None), lines: Lines::new(&x.shape, axis, &[&x.layout.strides, &offsets.layout.strides]) };
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

/// How the axis is cut.
struct Cut {
    op: SegmentOp,
    segments: usize,
    lines: Lines,
    /// the first wrong offset: its position and what it is
    wrong: Mutex<Option<(usize, i64)>>,
}
impl Cut {
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
        // So many results that a task takes in some 64 Ki elements, and neighbours together, which lie in one cache line.
        let each = (lines.n / segments).max(1);
        let chunk = (64 * 1024 / each).clamp(16, 64 * 1024);
        runtime.threads.try_for_chunks_mut(out, chunk, |task, out| {
            let mut totals = scratch_vec::<T::Wide>(inner.min(chunk))?;
            let (mut at, end) = (task * chunk, task * chunk + out.len());
            while at < end {
                let (row, first) = (at / inner, at % inner);
                let results = &mut out[at - task * chunk..][..(inner - first).min(end - at)];
                let (line, number) = (row / segments, row % segments);
                at += results.len();
                let cut_at = offsets.layout.offset as isize + lines.outer.offset(1, line) + number as isize * next;
                let pair = [read(cut_at as usize), read((cut_at + next) as usize)];
                let range = match segment(pair, number, segments - 1, lines.n) {
                    Ok(range) => range,
                    Err(k) => {
                        self.note(line * (segments + 1) + number + k, pair[k]);
                        results.fill(O::narrow(T::Wide::ZERO));
                        continue;
                    }
                };
                let places = &places[first..first + results.len()];
                let row_of = |k: usize| x.layout.offset as isize + lines.outer.offset(0, line) + k as isize * along;
                let value = |row: isize, place: isize| elements[(row + place) as usize].wide();
                totals.clear();
                match range.clone().next() {
                    None => totals.extend(places.iter().map(|_| nothing)),
                    Some(k) => totals.extend(places.iter().map(|p| value(row_of(k), *p))),
                }
                for k in range.skip(1) {
                    let row = row_of(k);
                    let pairs = totals.iter_mut().zip(places);
                    match self.op {
                        SegmentOp::Sum => pairs.for_each(|(t, p)| *t = t.plus(value(row, *p))),
                        SegmentOp::Max => pairs.for_each(|(t, p)| *t = t.larger(value(row, *p))),
                        SegmentOp::Min => pairs.for_each(|(t, p)| *t = t.smaller(value(row, *p))),
                    }
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
