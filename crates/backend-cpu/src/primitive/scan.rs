//! Running combinations along an axis, carried in f64 (integers in i64) and rounded once per element.
use super::Call;
pub(super) use super::computes as supports;
use crate::{
    device::Runtime,
    element::{Number, Wide, with_number},
    lines::AxisLines,
    operand::{In, Out, internal},
    scratch::filled,
};
use adamant_runtime::{DType, ErrorKind, op::ScanOp};

type Fields<'a> = (&'a ScanOp, &'a u8, &'a bool);

/// Runs a Scan step.
///
/// # Errors
/// Operands that do not fit.
pub(super) fn run((op, axis, reverse): Fields<'_>, call: &Call<'_>, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let (runtime, space, op, axis, reverse) = (call.runtime, call.space, *op, *axis as usize, *reverse);
    let [out] = outputs else { return Err(internal("a scan has one output")) };
    let recurrence = op == ScanOp::LinearRecurrence;
    let (x, b) = match inputs {
        [x] if !recurrence => (x, x),
        [a, b] if recurrence => (a, b),
        _ => return Err(internal("a scan has one input, a recurrence two")),
    };
    let lines = AxisLines::new(space, axis, &[&x.layout.strides, &b.layout.strides]);
    let bases = [x.layout.offset as isize, b.layout.offset as isize];
    if space.elements() == 0 {
        return Ok(());
    }
    let (dtype, to) = (x.dtype, out.dtype);
    if dtype == to {
        return with_number!(dtype, T => scan::<T, T>(runtime, &lines, [x.elements()?, b.elements()?], bases, op, reverse, out.dense()?));
    }
    if to != DType::I64 || dtype.is_float() {
        return Err(internal("a scan into another dtype"));
    }
    let out: &mut [i64] = out.dense()?;
    match dtype {
        DType::Bool => scan::<crate::element::Bit, i64>(runtime, &lines, [x.elements()?, b.elements()?], bases, op, reverse, out),
        DType::U8 => scan::<u8, i64>(runtime, &lines, [x.elements()?, b.elements()?], bases, op, reverse, out),
        DType::I8 => scan::<i8, i64>(runtime, &lines, [x.elements()?, b.elements()?], bases, op, reverse, out),
        DType::I32 => scan::<i32, i64>(runtime, &lines, [x.elements()?, b.elements()?], bases, op, reverse, out),
        DType::U32 => scan::<u32, i64>(runtime, &lines, [x.elements()?, b.elements()?], bases, op, reverse, out),
        d => Err(ErrorKind::Internal(format!("a scan of {d} into i64"))),
    }
}
fn scan<T: Number, O: Number<Wide = T::Wide>>(
    runtime: &Runtime,
    lines: &AxisLines,
    x: [&[T]; 2],
    bases: [isize; 2],
    op: ScanOp,
    reverse: bool,
    out: &mut [O],
) -> Result<(), ErrorKind> {
    let (inner, n) = (lines.inner.len(), lines.n);
    let places = [lines.inner_offsets(0)?, lines.inner_offsets(1)?];
    let groups = (64 * 1024 / (inner * n)).max(1);
    runtime.threads.try_for_chunks_mut(out, groups * inner * n, |task, out| {
        let mut acc = filled(T::Wide::ZERO, inner)?;
        for (g, out) in out.chunks_mut(inner * n).enumerate() {
            let outer = task * groups + g;
            let start = [0, 1].map(|k| bases[k] + lines.outer.offset(k, outer));
            for t in 0..n {
                let k = if reverse { n - 1 - t } else { t };
                let row = [0, 1].map(|o| start[o] + k as isize * lines.steps[o]);
                let out = &mut out[k * inner..][..inner];
                let read = |o: usize, j: usize| x[o][(row[o] + places[o][j]) as usize].wide();
                for (j, (o, acc)) in out.iter_mut().zip(&mut acc).enumerate() {
                    let v = read(0, j);
                    *acc = match op {
                        // An absent past adds nothing, even where the coefficient is infinite.
                        ScanOp::LinearRecurrence if t == 0 => T::Wide::ZERO.plus(read(1, j)),
                        ScanOp::LinearRecurrence => v.times(*acc).plus(read(1, j)),
                        _ if t == 0 => v,
                        ScanOp::Sum => acc.plus(v),
                        ScanOp::Prod => acc.times(v),
                        ScanOp::Max => acc.larger(v),
                        ScanOp::Min => acc.smaller(v),
                    };
                    *o = O::narrow(*acc);
                }
            }
        }
        Ok(())
    })
}
