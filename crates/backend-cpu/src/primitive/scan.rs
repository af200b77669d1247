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
    let run = ScanLines { runtime, lines, x, bases, reverse };
    let first = |v: [T::Wide; 2]| v[0];
    match op {
        ScanOp::Sum => run.all(first, |acc, [v, _]| acc.plus(v), out),
        ScanOp::Prod => run.all(first, |acc, [v, _]| acc.times(v), out),
        ScanOp::Max => run.all(first, |acc, [v, _]| acc.larger(v), out),
        ScanOp::Min => run.all(first, |acc, [v, _]| acc.smaller(v), out),
        // An absent past adds nothing, even where the coefficient is infinite.
        ScanOp::LinearRecurrence => run.all(|[_, b]| T::Wide::ZERO.plus(b), |acc, [a, b]| a.times(acc).plus(b), out),
    }
}
/// How many lines are walked together where each lies side by side: each waits for its own sums only. Of more, whose bytes are a power
/// of two, the nearest cache would not hold a line of each.
const TOGETHER: usize = 4;
/// How many elements make a task.
const TASK: usize = 64 * 1024;

struct ScanLines<'a, T> {
    runtime: &'a Runtime,
    lines: &'a AxisLines,
    x: [&'a [T]; 2],
    bases: [isize; 2],
    reverse: bool,
}
impl<T: Number> ScanLines<'_, T> {
    fn all<O: Number<Wide = T::Wide>>(
        &self,
        first: impl Fn([T::Wide; 2]) -> T::Wide + Sync,
        next: impl Fn(T::Wide, [T::Wide; 2]) -> T::Wide + Sync,
        out: &mut [O],
    ) -> Result<(), ErrorKind> {
        let ScanLines { runtime, lines, x, bases, reverse } = *self;
        let (inner, n) = (lines.inner.len(), lines.n);
        let start = |outer: usize| [0, 1].map(|k| bases[k] + lines.outer.offset(k, outer));
        let groups = (TASK / (inner * n)).max(1);
        if inner == 1 && lines.steps[..2] == [1, 1] {
            let groups = groups.next_multiple_of(TOGETHER);
            runtime.threads.for_chunks_mut(out, groups * n, |task, out| {
                for (g, out) in out.chunks_mut(TOGETHER * n).enumerate() {
                    let line = |r: usize| [0, 1].map(|k| &x[k][start(task * groups + g * TOGETHER + r)[k] as usize..][..n]);
                    if out.len() == TOGETHER * n {
                        together::<T, O, TOGETHER>(std::array::from_fn(line), reverse, &first, &next, out);
                    } else {
                        out.chunks_mut(n).enumerate().for_each(|(r, out)| together::<T, O, 1>([line(r)], reverse, &first, &next, out));
                    }
                }
            });
            return Ok(());
        }
        let side_by_side = lines.inner.is_dense(0) && lines.inner.is_dense(1);
        let places = if side_by_side { Default::default() } else { [lines.inner_offsets(0)?, lines.inner_offsets(1)?] };
        runtime.threads.try_for_chunks_mut(out, groups * inner * n, |task, out| {
            let mut acc = filled(T::Wide::ZERO, inner)?;
            for (g, out) in out.chunks_mut(inner * n).enumerate() {
                let start = start(task * groups + g);
                for t in 0..n {
                    let k = if reverse { n - 1 - t } else { t };
                    let row = [0, 1].map(|o| start[o] + k as isize * lines.steps[o]);
                    let (out, acc) = (&mut out[k * inner..][..inner], &mut acc[..inner]);
                    if !side_by_side {
                        for (j, (o, acc)) in out.iter_mut().zip(acc.iter_mut()).enumerate() {
                            let v = [0, 1].map(|o| x[o][(row[o] + places[o][j]) as usize].wide());
                            *acc = if t == 0 { first(v) } else { next(*acc, v) };
                            *o = O::narrow(*acc);
                        }
                        continue;
                    }
                    let [a, b] = [0, 1].map(|o| &x[o][row[o] as usize..][..inner]);
                    if t == 0 {
                        (0..inner).for_each(|j| acc[j] = first([a[j].wide(), b[j].wide()]));
                    } else {
                        (0..inner).for_each(|j| acc[j] = next(acc[j], [a[j].wide(), b[j].wide()]));
                    }
                    (0..inner).for_each(|j| out[j] = O::narrow(acc[j]));
                }
            }
            Ok(())
        })
    }
}
/// `R` lines whose elements lie side by side, each with its second operand.
#[inline(always)]
fn together<T: Number, O: Number<Wide = T::Wide>, const R: usize>(
    lines: [[&[T]; 2]; R],
    reverse: bool,
    first: &impl Fn([T::Wide; 2]) -> T::Wide,
    next: &impl Fn(T::Wide, [T::Wide; 2]) -> T::Wide,
    out: &mut [O],
) {
    let n = out.len() / R;
    let mut acc = [T::Wide::ZERO; R];
    for t in 0..n {
        let k = if reverse { n - 1 - t } else { t };
        for r in 0..R {
            let v = [lines[r][0][k].wide(), lines[r][1][k].wide()];
            acc[r] = if t == 0 { first(v) } else { next(acc[r], v) };
            out[r * n + k] = O::narrow(acc[r]);
        }
    }
}
