//! Softmax, its logarithm, and the backwards of both, row by row. Along an axis that is not the last, columns are
//! brought together as rows first.
use super::{
    interleaved::{Exponentials, KnownRow, LastRow, MadeRow, Writing},
    known, one_float,
    rows::{StoredElement, Summed, extremes, map, rows_of_a_task, sum, sum_twice, update},
    side_by_side::{self, LineFunction, OfLines, SideBySide},
};
use crate::{
    copy::turn,
    device::{CpuKernel, KernelOperands, Runtime},
    element::with_float,
    isa::Isa,
    math::elementary::{exp, log},
    operand::internal,
    scratch::{ScratchVec, filled},
    simd::{
        Arithmetic, Float, Mask, Simd, SimdKernel, dispatch, dispatch_vectors,
        stream::{self, ReadAhead, STREAMED},
        twice::Twice,
    },
};
use adamant_runtime::{
    Composite, DType, ErrorKind, Shape,
    composite::softmax::{LogSoftmax, LogSoftmaxBackward, Softmax, SoftmaxBackward},
    kernel::FaultWord,
};

/// Softmax and log-softmax.
pub(super) struct SoftmaxForwardKernel;
/// Their backwards.
pub(super) struct SoftmaxBackwardKernel;

/// e^(x - largest) into `out`; the largest, minus the smallest, and the sum. Meanwhile the rows that come next are asked for.
#[inline(always)]
fn exponentials<S: Simd, T: Summed, const K: usize>(x: &[T], out: &mut [T], next: &[ReadAhead<'_>; K]) -> ([T; 2], T) {
    let extremes = extremes::<S, T, 2>(x);
    let largest = Twice::<T::V<S>>::splat(extremes[0]);
    let total = sum_twice::<S, T>(
        x,
        Some(out),
        #[inline(always)]
        |x| {
            for row in next {
                row.fetch_line();
                row.fetch_line();
            }
            exp(x.sub(largest))
        },
    );
    (extremes, T::nearest(total))
}
/// Divides e^(x - largest) by their sum, with the bits of a division.
#[inline(always)]
fn divide<S: Simd, T: Summed>(out: &mut [T], [largest, minus_smallest]: [T; 2], total: T) {
    let all = T::V::<S>::splat(total);
    let inverse = T::V::<S>::splat(T::nearest(1.0)).div(all);
    // e^-60 is well above the tiny ones; a row with NaN is left to the careful way.
    let spread = largest.wide() + minus_smallest.wide();
    if spread <= 60.0 && total.wide() < 1e9 {
        return update::<S, T, 0>(
            out,
            [],
            #[inline(always)]
            |e, []| corrected(e, all, inverse),
        );
    }
    update::<S, T, 0>(
        out,
        [],
        #[inline(always)]
        |e, []| quotient(e, all, inverse),
    );
}
/// `e / total` where 0 ≤ e ≤ 1 ≤ total, given the nearest number to `1 / total`: a product, twice corrected by what is
/// left, which is exact, so that the second correction rounds as the division does (Markstein, IBM J. Res. Dev. 34, 1990).
/// Where what is left may be too small to be exact, and of what is no number, it is the division itself.
#[inline(always)]
fn quotient<V: Float>(e: V, total: V, inverse: V) -> V {
    let tiny = V::constant(if V::SIGNIFICAND == 23 { 1e-28 } else { 1e-290 });
    let plain = V::constant(0.0).lt(e).and(e.lt(tiny)).or(total.lt(V::constant(1e9)).not());
    if plain.any() {
        return e.div(total);
    }
    corrected(e, total, inverse)
}
/// [`quotient`] of what is neither tiny nor no number.
#[inline(always)]
fn corrected<V: Arithmetic>(e: V, total: V, inverse: V) -> V {
    let minus = total.neg();
    let first = e.mul(inverse);
    let second = minus.mul_add(first, e).mul_add(inverse, first);
    minus.mul_add(second, e).mul_add(inverse, second)
}
/// The logarithm of one number.
#[inline(always)]
pub(super) fn log_of<S: Simd, T: Summed>(x: T) -> T {
    let mut out = [x];
    map::<S, T, 1>(
        &mut out,
        [&[x]],
        #[inline(always)]
        |[x]| log(x),
    );
    out[0]
}

/// The quotient of an exponential and the sum of all: of none that is tiny, where that is known.
#[derive(Clone, Copy)]
struct Quotient<T> {
    total: T,
    inverse: T,
    bounded: bool,
}
impl<T: Summed> MadeRow<T> for Quotient<T> {
    #[inline(always)]
    fn of<S: Simd>(self, e: Twice<T::V<S>>) -> Twice<T::V<S>> {
        let (total, inverse) = (T::V::<S>::splat(self.total), T::V::<S>::splat(self.inverse));
        if self.bounded {
            return corrected(e, Twice(total, total), Twice(inverse, inverse));
        }
        Twice(quotient(e.0, total, inverse), quotient(e.1, total, inverse))
    }
}
/// x - largest - logarithm of the sum.
#[derive(Clone, Copy)]
struct Difference<T> {
    largest: T,
    log_sum: T,
}
impl<T: Summed> MadeRow<T> for Difference<T> {
    #[inline(always)]
    fn of<S: Simd>(self, x: Twice<T::V<S>>) -> Twice<T::V<S>> {
        x.sub(Twice::splat(self.largest)).sub(Twice::splat(self.log_sum))
    }
}
struct LogOf<T>(T);
impl<T: Summed> SimdKernel for LogOf<T> {
    type Output = T;
    #[inline(always)]
    fn run<S: Simd>(self) -> T {
        log_of::<S, T>(self.0)
    }
}
struct SoftmaxRow<'a, T, const K: usize, F> {
    x: [&'a [T]; K],
    next: [ReadAhead<'a>; K],
    out: &'a mut [T],
    function: F,
}
/// What happens to a row.
trait RowFunction<T, const K: usize>: Copy + Sync {
    fn row<S: Simd>(self, x: [&[T]; K], next: &[ReadAhead<'_>; K], out: &mut [T]);
    /// Rows of a result that is written by non-temporal stores, each while the next one's exponentials are formed, where that can
    /// be; false, and nothing is written, where it cannot.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn interleaved(self, _isa: Isa, _rows: Many<'_, T, K>) -> Result<bool, ErrorKind> {
        Ok(false)
    }
    /// The same of rows that lie side by side, of which the first begins with `out`.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn lines<M: StoredElement<Real = T>>(self, isa: Isa, x: [SideBySide<'_, M>; K], out: &mut [M]) -> Result<(), ErrorKind>;
}
/// Rows of `n` elements one after another, and what lies behind them.
struct Many<'a, T, const K: usize> {
    n: usize,
    x: [&'a [T]; K],
    behind: [&'a [T]; K],
    out: &'a mut [T],
}
/// Bytes of a row beside which its two next ones fit into the L2 cache.
const AHEAD: usize = 256 * 1024;
impl<T: Summed> Many<'_, T, 1> {
    /// Writes them: a row is made of what is `known` of it, of its exponentials if they are kept, else of itself.
    fn write<M: MadeRow<T>>(self, isa: Isa, keeps: bool, known: impl Fn(KnownRow<T>) -> M) -> Result<bool, ErrorKind> {
        let Many { n, x: [x], behind: [behind], out } = self;
        // Of shorter rows too little lies in whole lines. And exponentials that are read in other pieces than they were
        // written in must have left the processor's queue of writes, or reading waits for all that is in it.
        let is_whole = (n * size_of::<T>()).is_multiple_of(64);
        if n < if keeps && !is_whole { 1024 } else { 256 } {
            return Ok(false);
        }
        let scratch = || filled(T::ZERO, if keeps { n } else { 0 });
        let (mut e, mut of_before, mut before, mut largest) = (scratch()?, scratch()?, None::<(M, &[T], &mut [T])>, None);
        let is_near = n * size_of::<T>() <= AHEAD;
        for (k, (row, out)) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)).enumerate() {
            let next = x.get((k + 1) * n..(k + 2) * n).filter(|_| is_near).unwrap_or_default();
            let soon = x.get((k + 2) * n..).filter(|soon| !soon.is_empty()).unwrap_or(behind);
            let soon = ReadAhead::of(if is_near { &soon[..soon.len().min(n)] } else { &[] });
            let writing = before.map(|(made, row, out)| Writing { from: if keeps { &of_before } else { row }, made, out });
            let formed = dispatch_vectors(isa, Exponentials { x: row, largest, e: keeps.then_some(&mut e), before: writing, next, soon });
            let Some(found) = formed else { return Ok(false) };
            largest = (!next.is_empty()).then_some(found.largest_of_next);
            before = Some((known(found), row, out));
            std::mem::swap(&mut e, &mut of_before);
        }
        if let Some((made, row, out)) = before {
            dispatch_vectors(isa, LastRow(Writing { from: if keeps { &of_before } else { row }, made, out }));
        }
        stream::publish();
        Ok(true)
    }
}
impl<T: Summed, const K: usize, F: RowFunction<T, K>> SimdKernel for SoftmaxRow<'_, T, K, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        self.function.row::<S>(self.x, &self.next, self.out);
    }
}
#[derive(Clone, Copy)]
struct PlainSoftmax;
#[derive(Clone, Copy)]
struct Logarithm;
impl<T: Summed> RowFunction<T, 1> for PlainSoftmax {
    fn lines<M: StoredElement<Real = T>>(self, isa: Isa, [x]: [SideBySide<'_, M>; 1], out: &mut [M]) -> Result<(), ErrorKind> {
        let (mut scratch, mut e) = (M::scratch_vec(x.width)?, x.terms(true)?);
        let (mut largest, mut total) = (filled(T::ZERO, x.width)?, filled(T::ZERO, x.width)?);
        x.largest(isa, &mut scratch, &mut largest);
        x.sums(isa, true, &mut e, &mut total, |i, out| {
            dispatch(isa, OfLines { f: LineFunction::Exponential, x: [x.line(isa, i, &mut scratch), &largest], out });
        })?;
        for (i, e) in e.chunks_exact(x.width).enumerate() {
            M::write(isa, &mut out[i * x.step..][..x.width], &mut scratch, |out| dispatch(isa, OfLines { f: LineFunction::Quotient, x: [e, &total], out }));
        }
        Ok(())
    }
    #[inline(always)]
    fn row<S: Simd>(self, [x]: [&[T]; 1], next: &[ReadAhead<'_>; 1], out: &mut [T]) {
        let (extremes, total) = exponentials::<S, T, _>(x, out, next);
        divide::<S, T>(out, extremes, total);
    }
    fn interleaved(self, isa: Isa, rows: Many<'_, T, 1>) -> Result<bool, ErrorKind> {
        rows.write(isa, true, |KnownRow { least, total, .. }| Quotient { total, inverse: T::ONE / total, bounded: least.wide() > 1e-26 && total.wide() < 1e9 })
    }
}
impl<T: Summed> RowFunction<T, 1> for Logarithm {
    fn lines<M: StoredElement<Real = T>>(self, isa: Isa, [x]: [SideBySide<'_, M>; 1], out: &mut [M]) -> Result<(), ErrorKind> {
        let ([largest, log_sum], mut scratch) = (known_of_lines(isa, x)?, M::scratch_vec(x.width)?);
        let mut result = M::scratch_vec(x.width)?;
        for i in 0..x.n {
            let x_line = x.line(isa, i, &mut scratch);
            M::write(isa, &mut out[i * x.step..][..x.width], &mut result, |out| {
                dispatch(isa, OfLines { f: LineFunction::Difference, x: [x_line, &largest, &log_sum], out })
            });
        }
        Ok(())
    }
    #[inline(always)]
    fn row<S: Simd>(self, [x]: [&[T]; 1], next: &[ReadAhead<'_>; 1], out: &mut [T]) {
        let ([most, _], total) = exponentials::<S, T, _>(x, out, next);
        let (most, log_sum) = (T::V::<S>::splat(most), T::V::<S>::splat(log_of::<S, T>(total)));
        map::<S, T, 1>(
            out,
            [x],
            #[inline(always)]
            |[x]| x.sub(most).sub(log_sum),
        );
    }
    fn interleaved(self, isa: Isa, rows: Many<'_, T, 1>) -> Result<bool, ErrorKind> {
        rows.write(isa, false, |KnownRow { largest, total, .. }| Difference { largest, log_sum: dispatch(isa, LogOf(total)) })
    }
}
impl<T: Summed> RowFunction<T, 2> for PlainSoftmax {
    fn lines<M: StoredElement<Real = T>>(self, isa: Isa, [g, y]: [SideBySide<'_, M>; 2], out: &mut [M]) -> Result<(), ErrorKind> {
        let scratch = || M::scratch_vec(g.width);
        let (mut first, mut second, mut result) = (scratch()?, scratch()?, scratch()?);
        let (mut terms, mut dot) = (g.terms(false)?, filled(T::ZERO, g.width)?);
        g.sums(isa, false, &mut terms, &mut dot, |i, out| {
            dispatch(isa, OfLines { f: LineFunction::Term, x: [g.line(isa, i, &mut first), y.line(isa, i, &mut second)], out });
        })?;
        for i in 0..g.n {
            let x = [y.line(isa, i, &mut second), g.line(isa, i, &mut first), &dot];
            M::write(isa, &mut out[i * g.step..][..g.width], &mut result, |out| dispatch(isa, OfLines { f: LineFunction::Softmax, x, out }));
        }
        Ok(())
    }
    #[inline(always)]
    fn row<S: Simd>(self, [g, y]: [&[T]; 2], next: &[ReadAhead<'_>; 2], out: &mut [T]) {
        let dot = T::V::<S>::splat(T::nearest(sum::<S, T, 2>(
            [g, y],
            #[inline(always)]
            |[g, y]| g.mul(y),
        )));
        map::<S, T, 2>(
            out,
            [g, y],
            #[inline(always)]
            |[g, y]| {
                for row in next {
                    row.fetch_line();
                }
                y.mul(g.sub(dot))
            },
        );
    }
}
impl<T: Summed> RowFunction<T, 2> for Logarithm {
    fn lines<M: StoredElement<Real = T>>(self, isa: Isa, [g, x]: [SideBySide<'_, M>; 2], out: &mut [M]) -> Result<(), ErrorKind> {
        let scratch = || M::scratch_vec(g.width);
        let (mut first, mut second, mut result) = (scratch()?, scratch()?, scratch()?);
        let (mut terms, mut total) = (g.terms(false)?, filled(T::ZERO, g.width)?);
        g.sums(isa, false, &mut terms, &mut total, |i, out| out.copy_from_slice(g.line(isa, i, &mut first)))?;
        let [largest, log_sum] = known_of_lines(isa, x)?;
        for i in 0..g.n {
            let x = [g.line(isa, i, &mut first), x.line(isa, i, &mut second), &largest, &log_sum, &total];
            M::write(isa, &mut out[i * g.step..][..g.width], &mut result, |out| dispatch(isa, OfLines { f: LineFunction::LogSoftmax, x, out }));
        }
        Ok(())
    }
    #[inline(always)]
    fn row<S: Simd>(self, [g, x]: [&[T]; 2], next: &[ReadAhead<'_>; 2], out: &mut [T]) {
        let total = T::V::<S>::splat(T::nearest(sum::<S, T, 1>(
            [g],
            #[inline(always)]
            |[g]| g,
        )));
        let ([most, _], sum) = exponentials::<S, T, _>(x, out, next);
        let (most, log_sum) = (T::V::<S>::splat(most), T::V::<S>::splat(log_of::<S, T>(sum)));
        map::<S, T, 2>(
            out,
            [g, x],
            #[inline(always)]
            |[g, x]| g.sub(exp(x.sub(most).sub(log_sum)).mul(total)),
        );
    }
}

/// The largest of each row, and the logarithm of the sum of e^(x - largest).
fn known_of_lines<M: StoredElement>(isa: Isa, x: SideBySide<'_, M>) -> Result<[ScratchVec<M::Real>; 2], ErrorKind> {
    let (mut scratch, mut terms) = (M::scratch_vec(x.width)?, x.terms(false)?);
    let row = || filled(M::Real::default(), x.width);
    let (mut largest, mut total, mut log_sum) = (row()?, row()?, row()?);
    x.largest(isa, &mut scratch, &mut largest);
    x.sums(isa, false, &mut terms, &mut total, |i, out| {
        dispatch(isa, OfLines { f: LineFunction::Exponential, x: [x.line(isa, i, &mut scratch), &largest], out });
    })?;
    dispatch(isa, OfLines { f: LineFunction::Logarithm, x: [&total], out: &mut log_sum });
    Ok([largest, log_sum])
}

/// Columns that are brought together as rows at a time: a cache line of f32.
const COLUMNS: usize = 16;

/// Space of a task: numbers of the operands and of the result, and columns as rows.
struct RowScratch<M: StoredElement, const K: usize> {
    inputs: [ScratchVec<M::Real>; K],
    output: ScratchVec<M::Real>,
    columns: ScratchVec<M>,
}
impl<M: StoredElement, const K: usize> RowScratch<M, K> {
    /// For rows of `n` elements that lie side by side, or that are `columns`.
    fn new(n: usize, columns: bool) -> Result<RowScratch<M, K>, ErrorKind> {
        let mut inputs = [(); K].map(|()| ScratchVec::default());
        for scratch in &mut inputs {
            *scratch = M::scratch_vec(n)?;
        }
        Ok(RowScratch { inputs, output: M::scratch_vec(n)?, columns: filled(M::zeroed(), if columns { (K + 1) * COLUMNS * n } else { 0 })? })
    }
    fn row(&mut self, isa: Isa, x: [&[M]; K], next: [&[M]; K], out: &mut [M], function: impl RowFunction<M::Real, K>) {
        let mut scratch = self.inputs.each_mut().map(Some);
        let x = std::array::from_fn(|k| scratch[k].take().map_or(&[][..], |scratch| M::read(isa, x[k], scratch)));
        M::write(isa, out, &mut self.output, |out| dispatch(isa, SoftmaxRow { x, next: next.map(ReadAhead::of), out, function }));
    }
    /// The columns of `[n, inner]` matrices as rows.
    fn columns(&mut self, isa: Isa, n: usize, inner: usize, x: [&[M]; K], out: &mut [M], function: impl RowFunction<M::Real, K>) {
        let mut columns = std::mem::take(&mut self.columns);
        let (rows, results) = columns.split_at_mut(K * COLUMNS * n);
        for first in (0..inner).step_by(COLUMNS) {
            let count = COLUMNS.min(inner - first);
            for (x, rows) in x.iter().zip(rows.chunks_exact_mut(COLUMNS * n)) {
                for (i, x) in x.chunks_exact(inner).enumerate() {
                    for (c, &v) in x[first..first + count].iter().enumerate() {
                        rows[c * n + i] = v;
                    }
                }
            }
            for (c, result) in results.chunks_exact_mut(n).enumerate().take(count) {
                let x = std::array::from_fn(|k| &rows[(k * COLUMNS + c) * n..][..n]);
                self.row(isa, x, [&[]; K], result, function);
            }
            for (i, out) in out.chunks_exact_mut(inner).enumerate() {
                for (c, o) in out[first..first + count].iter_mut().enumerate() {
                    *o = results[c * n + i];
                }
            }
        }
        self.columns = columns;
    }
}
/// A row of so few elements is not worth vectors of its own.
const FEW: usize = 32;
/// Rows of a few elements, transposed so that they lie side by side, and back.
fn transposed<M: StoredElement, const K: usize>(
    isa: Isa,
    n: usize,
    x: [&[M]; K],
    out: &mut [M],
    function: impl RowFunction<M::Real, K>,
) -> Result<(), ErrorKind> {
    let width = side_by_side::width(n).min(out.len() / n);
    let mut lines = filled(M::zeroed(), (K + 1) * n * width)?;
    for (k, out) in out.chunks_mut(n * width).enumerate() {
        let (at, rows) = (k * n * width, out.len() / n);
        let (given, made) = lines.split_at_mut(K * n * width);
        for (x, lines) in x.iter().zip(given.chunks_exact_mut(n * width)) {
            turn(isa, x, at as isize, n as isize, lines, width, rows, n);
        }
        let given = &*given;
        let of = std::array::from_fn(|k| SideBySide { x: &given[k * n * width..], step: width, n, width: rows });
        function.lines(isa, of, made)?;
        turn(isa, made, 0, width as isize, out, n, n, rows);
    }
    Ok(())
}
/// Runs a function over all rows along an axis.
fn along<'a, M: StoredElement, const K: usize>(
    runtime: &Runtime,
    shape: &Shape,
    axis: usize,
    x: [&'a [M]; K],
    out: &mut [M],
    function: impl RowFunction<M::Real, K>,
) -> Result<(), ErrorKind> {
    if out.is_empty() {
        return Ok(());
    }
    let (n, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let (isa, plane) = (runtime.isa, n * inner);
    let planes = rows_of_a_task(&runtime.threads, out.len() / plane, plane);
    let bytes = size_of_val(out);
    let is_interleaved = M::AS_IS && inner == 1 && bytes >= STREAMED;
    runtime.threads.try_for_chunks_mut(out, planes * plane, |task, out| {
        if is_interleaved {
            let (from, to) = (task * planes * plane, task * planes * plane + out.len());
            let numbers = |x: &'a [M]| M::read(isa, x, &mut []);
            let (x, behind) = (x.map(|x| numbers(&x[from..to])), x.map(|x| numbers(&x[to..])));
            let mut done = Ok(false);
            M::write(isa, out, &mut [], |out| done = function.interleaved(isa, Many { n, x, behind, out }));
            if done? {
                return Ok(());
            }
        }
        if inner == 1 && n <= FEW && out.len() >= side_by_side::LEAST * n {
            return transposed(isa, n, x.map(|x| &x[task * planes * n..][..out.len()]), out, function);
        }
        let mut scratch = RowScratch::<M, K>::new(n, inner > 1)?;
        let mut rows = stream::StreamedRows::new(n, bytes)?;
        for (k, out) in out.chunks_exact_mut(plane).enumerate() {
            let at = (task * planes + k) * plane;
            let next = x.map(|x| &x[at + plane..x.len().min(at + 2 * plane)]);
            let x = x.map(|x| &x[at..at + plane]);
            if inner == 1 {
                rows.write(out, |out| scratch.row(isa, x, next, out, function));
            } else if inner >= side_by_side::LEAST {
                let width = side_by_side::width(n);
                for first in (0..inner).step_by(width) {
                    let lines = x.map(|x| SideBySide { x: &x[first..], step: inner, n, width: width.min(inner - first) });
                    function.lines(isa, lines, &mut out[first..])?;
                }
            } else {
                scratch.columns(isa, n, inner, x, out, function);
            }
        }
        Ok(())
    })
}
fn run<const K: usize>(operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, axis: usize, logarithm: bool) -> Result<(), ErrorKind>
where
    PlainSoftmax: RowFunction<f32, K> + RowFunction<f64, K>,
    Logarithm: RowFunction<f32, K> + RowFunction<f64, K>,
{
    let shape = operands.shape(0)?;
    let [out] = operands.outputs else { return Err(internal("a softmax has one output")) };
    if operands.inputs.len() != K || axis >= shape.rank() || operands.inputs.iter().any(|i| i.shape != out.shape || i.dtype != out.dtype) {
        return Err(internal("a softmax of other shapes"));
    }
    let inputs = operands.inputs;
    with_float!(out.dtype, M => {
        let mut x: [&[M]; K] = [&[]; K];
        for (x, i) in x.iter_mut().zip(inputs) {
            *x = i.dense()?;
        }
        let out = out.dense()?;
        if logarithm { along(runtime, &shape, axis, x, out, Logarithm) } else { along(runtime, &shape, axis, x, out, PlainSoftmax) }
    })
}

impl CpuKernel for SoftmaxForwardKernel {
    fn supports(&self, _: &dyn Composite, dtypes: &[DType]) -> bool {
        one_float(dtypes)
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        match (known::<Softmax>(composite), known::<LogSoftmax>(composite)) {
            (Some(c), _) => run::<1>(operands, runtime, c.axis, false),
            (_, Some(c)) => run::<1>(operands, runtime, c.axis, true),
            _ => Err(internal("a softmax of another make")),
        }
    }
}
impl CpuKernel for SoftmaxBackwardKernel {
    fn supports(&self, _: &dyn Composite, dtypes: &[DType]) -> bool {
        one_float(dtypes)
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        match (known::<SoftmaxBackward>(composite), known::<LogSoftmaxBackward>(composite)) {
            (Some(c), _) => run::<2>(operands, runtime, c.axis, false),
            (_, Some(c)) => run::<2>(operands, runtime, c.axis, true),
            _ => Err(internal("the backward of a softmax of another make")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numerators, what is known of their exponents, and their sum.
    struct Divide<'a, T>(&'a mut [T], [T; 2], T);
    const UNBOUNDED: f32 = 1000.0;
    impl<T: Summed> SimdKernel for Divide<'_, T> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self) {
            divide::<S, T>(self.0, self.1, self.2);
        }
    }
    /// Numbers of 0 to 1, most of them with random bits, some so small that the quotient has few.
    fn numerators(random: &mut impl FnMut() -> u64, n: usize) -> Vec<f64> {
        let one = |bits: u64| (bits >> 11) as f64 / (1u64 << 53) as f64;
        (0..n)
            .map(|i| match i % 16 {
                0 => 0.0,
                1 => 1.0,
                2 => f64::from(f32::MIN_POSITIVE) * one(random()),
                3 => one(random()) * 1e-300,
                4 => 1.0 - one(random()) * 1e-6,
                k => one(random()) * 10f64.powi(-3 * (k as i32 - 5)),
            })
            .collect()
    }
    #[test]
    fn a_row_divided_by_its_sum_has_the_bits_of_a_division() {
        let mut state = 7u64;
        let mut random = move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd)
        };
        for round in 0..400 {
            let mut given = numerators(&mut random, 2001);
            // Every other row has exponents from -60 on, of which a quotient is taken without looking.
            let spread = if round % 2 == 0 { UNBOUNDED } else { 60.0 };
            given.retain(|&e| spread == UNBOUNDED || e > (-60f64).exp());
            let size = 10f64.powi(round % 12);
            let total = 1.0 + (random() >> 11) as f64 / (1u64 << 53) as f64 * size;
            for isa in [Isa::Avx512, Isa::Avx2, Isa::Scalar] {
                let wide = given.clone();
                let mut seen = wide.clone();
                dispatch(isa, Divide(&mut seen, [0.0, spread.into()], total));
                let same = |(&q, &e): (&f64, &f64)| q.to_bits() == (e / total).to_bits();
                assert!(seen.iter().zip(&wide).all(same), "f64 / {total:e} with {isa:?}");
                let narrow = given.iter().map(|&e| e as f32).collect::<Vec<_>>();
                let mut seen = narrow.clone();
                dispatch(isa, Divide(&mut seen, [0.0, spread], total as f32));
                let same = |(&q, &e): (&f32, &f32)| q.to_bits() == (e / total as f32).to_bits();
                assert!(seen.iter().zip(&narrow).all(same), "f32 / {total:e} with {isa:?}");
            }
        }
    }
    #[test]
    fn a_row_with_no_sum_is_divided_like_any() {
        for total in [f32::NAN, f32::INFINITY] {
            let given = [0.0, 1.0, f32::NAN, f32::INFINITY, 1e-42];
            let mut seen = given;
            dispatch(Isa::Scalar, Divide(&mut seen, [0.0, UNBOUNDED], total));
            let (seen, expected) = (seen.map(f32::to_bits), given.map(|e| (e / total).to_bits()));
            let quiet = |bits: u32| if f32::from_bits(bits).is_nan() { f32::NAN.to_bits() } else { bits };
            assert_eq!(seen.map(quiet), expected.map(quiet));
        }
    }
}
