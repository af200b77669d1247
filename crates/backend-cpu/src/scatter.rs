//! Scatter: elements of a source combined into places of the output that an index tensor names, in index order.
use crate::{
    device::Runtime,
    element::{Number, Wide, WorstIndex, indices, with_number},
    lines::AxisLines,
    operand::{In, Out, internal, whole_mut},
    scratch::ScratchVec,
};
use adamant_runtime::{DType, ErrorKind, kernel::FaultWord, op::ScatterMode};
use std::ops::Range;

/// Runs a Scatter step on an output that holds the destination. Bad indices write nothing and are a fault.
///
/// # Errors
/// Operands that do not fit.
pub(crate) fn run(runtime: &Runtime, axis: usize, mode: ScatterMode, inputs: &[In<'_>], outputs: &mut [Out<'_>], fault: &FaultWord) -> Result<(), ErrorKind> {
    let ([index, source], [out]) = (inputs, outputs) else { return Err(internal("a scatter has two inputs and one output")) };
    if index.shape != source.shape || axis >= out.shape.rank() || out.shape.rank() != index.shape.rank() || source.dtype != out.dtype {
        return Err(internal("a scatter of other shapes"));
    }
    if index.shape.elements() == 0 {
        return Ok(());
    }
    let job = Job {
        lines: AxisLines::new(&index.shape, axis, &[&out.layout.strides, &index.layout.strides, &source.layout.strides]),
        bound: out.shape[axis],
        index,
        source,
        base: out.layout.offset as isize,
        dense: out.is_dense,
        runtime,
    };
    let dtype = out.dtype;
    if mode == ScatterMode::Set {
        return crate::element::with_bits!(dtype, T => job.walk::<T, T>(source.elements()?, whole_mut(out.bytes)?, fault, |_, v| v, |v| v));
    }
    // 16-bit floats are combined in f32 and rounded once.
    match dtype {
        DType::BF16 => job.widened::<half::bf16>(out, mode, fault),
        DType::F16 => job.widened::<half::f16>(out, mode, fault),
        DType::F32 if mode == ScatterMode::Add => job.walk(source.elements()?, whole_mut(out.bytes)?, fault, |a: f32, b| a + b, |v: f32| v),
        DType::F32 => job.walk(source.elements()?, whole_mut(out.bytes)?, fault, float_combine(mode), |v: f32| v),
        _ if mode == ScatterMode::Add => with_number!(dtype, T => {
            job.walk::<T, T>(source.elements()?, whole_mut(out.bytes)?, fault, |a, b| T::narrow(a.wide().plus(b.wide())), |v| v)
        }),
        _ => with_number!(dtype, T => {
            let f = wide_combine::<<T as Number>::Wide>(mode);
            job.walk::<T, T>(source.elements()?, whole_mut(out.bytes)?, fault, |a, b| T::narrow(f(a.wide(), b.wide())), |v| v)
        }),
    }
}
fn float_combine(mode: ScatterMode) -> fn(f32, f32) -> f32 {
    wide_combine::<f32>(mode)
}
fn wide_combine<W: Wide>(mode: ScatterMode) -> fn(W, W) -> W {
    match mode {
        ScatterMode::Set => |_, b| b,
        ScatterMode::Add => W::plus,
        ScatterMode::Mul => W::times,
        ScatterMode::Max => W::larger,
        ScatterMode::Min => W::smaller,
    }
}
struct Job<'a> {
    /// operands: destination, indices, source
    lines: AxisLines,
    bound: usize,
    index: &'a In<'a>,
    source: &'a In<'a>,
    base: isize,
    /// does the destination lie in row-major order?
    dense: bool,
    runtime: &'a Runtime,
}
/// How many elements of a source are worth a task.
const TASK: usize = 16 * 1024;

impl Job<'_> {
    fn widened<T: Number<Wide = f64>>(&self, out: &mut Out<'_>, mode: ScatterMode, fault: &FaultWord) -> Result<(), ErrorKind> {
        let source: &[T] = self.source.elements()?;
        let target: &mut [T] = whole_mut(out.bytes)?;
        let mut sums = crate::scratch::collected(target.len(), target.iter().map(|v| v.wide() as f32))?;
        self.walk(source, &mut sums, fault, float_combine(mode), |v: T| v.wide() as f32)?;
        target.iter_mut().zip(&sums).for_each(|(t, &s)| *t = T::narrow(s as f64));
        Ok(())
    }
    fn walk<S: Copy + Sync, T: Copy + Send>(
        &self,
        source: &[S],
        out: &mut [T],
        fault: &FaultWord,
        f: impl Fn(T, T) -> T + Sync,
        wide: impl Fn(S) -> T + Sync,
    ) -> Result<(), ErrorKind> {
        match self.index.dtype {
            DType::I64 => {
                let all: &[i64] = self.index.elements()?;
                self.walk_by(|at| all[at], source, out, fault, f, wide)
            }
            other => self.walk_by(indices(self.index.bytes, other), source, out, fault, f, wide),
        }
    }
    /// Every task has rows of the destination to itself: those of some outer indices or, where there are few of these, a range of
    /// places along the axis, for which it looks at all indices. So each place meets its elements in the order of the indices.
    fn walk_by<S: Copy + Sync, T: Copy + Send>(
        &self,
        read: impl Fn(usize) -> i64 + Sync,
        source: &[S],
        out: &mut [T],
        fault: &FaultWord,
        f: impl Fn(T, T) -> T + Sync,
        wide: impl Fn(S) -> T + Sync,
    ) -> Result<(), ErrorKind> {
        let (lines, threads) = (&self.lines, &self.runtime.threads);
        let (outer, inner) = (lines.outer.len(), lines.inner.len());
        let places = [lines.inner_offsets(0)?, lines.inner_offsets(1)?, lines.inner_offsets(2)?];
        let work = lines.n * inner;
        let to = DestinationPart { rows: 0..self.bound, outers: 0..outer, base: self.base };
        let whole = self.dense && self.base >= 0 && lines.inner.is_dense(0) && lines.steps[0] == inner as isize;
        let worst = WorstIndex::default();
        let every = self.bound * inner;
        if !whole || threads.count() == 1 || outer * work < 2 * TASK || every == 0 {
            self.some(&to, &places, &read, source, out, &f, &wide, &worst);
        } else if outer >= threads.count() {
            let several = (TASK / work.max(1)).max(1);
            let all = &mut out[self.base as usize..][..outer * every];
            threads.for_chunks_mut(all, several * every, |task, out| {
                let first = task * several;
                let base = -lines.outer.offset(0, first);
                let to = DestinationPart { rows: 0..self.bound, outers: first..(first + several).min(outer), base };
                self.some(&to, &places, &read, source, out, &f, &wide, &worst);
            });
        } else {
            let rows = self.bound.div_ceil(threads.count());
            let all = &mut out[self.base as usize..][..outer * every];
            for (o, out) in all.chunks_mut(every).enumerate() {
                threads.for_chunks_mut(out, rows * inner, |task, out| {
                    let first = task * rows;
                    let base = -lines.outer.offset(0, o) - (first * inner) as isize;
                    let to = DestinationPart { rows: first..(first + rows).min(self.bound), outers: o..o + 1, base };
                    self.some(&to, &places, &read, source, out, &f, &wide, &worst);
                });
            }
        }
        worst.report(self.bound, fault);
        Ok(())
    }
    /// Combines what falls into a part of the destination.
    fn some<S: Copy, T: Copy>(
        &self,
        part: &DestinationPart,
        places: &[ScratchVec<isize>; 3],
        read: &impl Fn(usize) -> i64,
        source: &[S],
        out: &mut [T],
        f: &impl Fn(T, T) -> T,
        wide: &impl Fn(S) -> T,
        worst: &WorstIndex,
    ) {
        let lines = &self.lines;
        let inner = lines.inner.len();
        let (i0, s0) = (self.index.layout.offset as isize, self.source.layout.offset as isize);
        // An index that is given once for elements side by side (a row of a table) is read once for them.
        let by_rows = inner > 1 && lines.inner.is_uniform(1) && [0, 2].iter().all(|&k| lines.inner.is_dense(k));
        // Who has the first rows of an outer index tells of indices that are nowhere.
        let place = |i: i64, position: usize| {
            let inside = usize::try_from(i).ok().filter(|&i| i < self.bound);
            if inside.is_none() && part.rows.start == 0 {
                worst.add(position, i);
            }
            inside.filter(|i| part.rows.contains(i))
        };
        for o in part.outers.clone() {
            let [to, at, from] = [0, 1, 2].map(|k| lines.outer.offset(k, o));
            if inner == 1 {
                let steps = [lines.steps[0], lines.steps[1], lines.steps[2]];
                let (to, mut at, mut from) = (part.base + to, i0 + at, s0 + from);
                for k in 0..lines.n {
                    if let Some(i) = place(read(at as usize), o * lines.n + k) {
                        let place = &mut out[(to + i as isize * steps[0]) as usize];
                        *place = f(*place, wide(source[from as usize]));
                    }
                    (at, from) = (at + steps[1], from + steps[2]);
                }
                continue;
            }
            for k in 0..lines.n {
                let at = i0 + at + k as isize * lines.steps[1];
                let from = s0 + from + k as isize * lines.steps[2];
                let position = (o * lines.n + k) * inner;
                if by_rows {
                    let Some(i) = place(read(at as usize), position) else { continue };
                    let first = (part.base + to + i as isize * lines.steps[0]) as usize;
                    let pairs = out[first..first + inner].iter_mut().zip(&source[from as usize..from as usize + inner]);
                    pairs.for_each(|(place, &s)| *place = f(*place, wide(s)));
                    continue;
                }
                for j in 0..inner {
                    let Some(i) = place(read((at + places[1][j]) as usize), position + j) else { continue };
                    let place = &mut out[(part.base + to + i as isize * lines.steps[0] + places[0][j]) as usize];
                    *place = f(*place, wide(source[(from + places[2][j]) as usize]));
                }
            }
        }
    }
}
/// A part of the destination.
struct DestinationPart {
    /// places along the axis
    rows: Range<usize>,
    outers: Range<usize>,
    /// where in the part the destination's first element would be
    base: isize,
}
