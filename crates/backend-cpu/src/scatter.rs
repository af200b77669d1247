//! Scatter: elements of a source combined into places of the output that an index tensor names, in index order.
use crate::{
    device::Runtime,
    element::{Number, Wide, WorstIndex, indices, with_number},
    lines::AxisLines,
    map::{
        load,
        loops::{self, Src},
    },
    operand::{In, Out, internal, whole_mut},
    scratch::{ScratchVec, filled, list},
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
        return crate::element::with_bits!(dtype, T => job.walk::<T, T>(source.elements()?, whole_mut(out.bytes)?, fault, None, |_, v| v, |v| v));
    }
    // 16-bit floats are combined in f32 and rounded once.
    match dtype {
        DType::BF16 => job.widened::<half::bf16>(out, mode, fault),
        DType::F16 => job.widened::<half::f16>(out, mode, fault),
        DType::F32 if mode == ScatterMode::Add => job.walk(source.elements()?, whole_mut(out.bytes)?, fault, None, |a: f32, b| a + b, |v: f32| v),
        DType::F32 => job.walk(source.elements()?, whole_mut(out.bytes)?, fault, None, float_combine(mode), |v: f32| v),
        _ if mode == ScatterMode::Add => with_number!(dtype, T => {
            let nothing = (!dtype.is_float()).then(|| T::narrow(<T as Number>::Wide::ZERO));
            job.walk::<T, T>(source.elements()?, whole_mut(out.bytes)?, fault, nothing, |a, b| T::narrow(a.wide().plus(b.wide())), |v| v)
        }),
        _ => with_number!(dtype, T => {
            let f = wide_combine::<<T as Number>::Wide>(mode);
            job.walk::<T, T>(source.elements()?, whole_mut(out.bytes)?, fault, None, |a, b| T::narrow(f(a.wide(), b.wide())), |v| v)
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
/// Elements of 16 bits that are made wider, and rounded again, at a time.
const WIDENED: usize = 4 * 1024;
/// Of so many elements of 16 bits that less than one is written, the others are left as they are.
const SPARSE: usize = 64;
/// Columns that lie in one cache line, and go to one task.
const COLUMNS: usize = 16;

impl Job<'_> {
    fn widened<T: Number<Wide = f64>>(&self, out: &mut Out<'_>, mode: ScatterMode, fault: &FaultWord) -> Result<(), ErrorKind> {
        let (source, dtype, isa, threads): (&[T], _, _, _) = (self.source.elements()?, out.dtype, self.runtime.isa, &self.runtime.threads);
        let size = dtype.size();
        if self.index.shape.elements() < out.bytes.len() / size / SPARSE && (self.lines.inner.len() == 1 || self.lines.inner.is_uniform(1)) {
            return self.widened_few::<T>(source, out, mode, fault);
        }
        let mut sums = filled(0f32, out.bytes.len() / size)?;
        let bytes: &[u8] = out.bytes;
        threads.for_chunks_mut(&mut sums, WIDENED, |k, sums| load::decode(isa, dtype, &bytes[k * WIDENED * size..][..sums.len() * size], sums));
        self.walk(source, &mut sums, fault, None, float_combine(mode), |v: T| v.wide() as f32)?;
        threads.for_chunks_mut(&mut out.bytes[..sums.len() * size], WIDENED * size, |k, bytes| {
            let mut rounded = [0f32; WIDENED];
            let rounded = &mut rounded[..bytes.len() / size];
            rounded.copy_from_slice(&sums[k * WIDENED..][..rounded.len()]);
            loops::round(isa, dtype, rounded);
            load::store(isa, Src::Slice(rounded), dtype, bytes);
        });
        Ok(())
    }
    /// As [`Job::widened`], where most places keep what they have: those of one place are brought together, in the order of the indices.
    fn widened_few<T: Number<Wide = f64>>(&self, source: &[T], out: &mut Out<'_>, mode: ScatterMode, fault: &FaultWord) -> Result<(), ErrorKind> {
        let (lines, f) = (&self.lines, float_combine(mode));
        let inner = lines.inner.len();
        let [to, from] = [lines.inner_offsets(0)?, lines.inner_offsets(2)?];
        let (read, worst) = (indices(self.index.bytes, self.index.dtype), WorstIndex::default());
        let mut pairs: Vec<(isize, usize, isize)> = list(lines.outer.len() * lines.n)?;
        for o in 0..lines.outer.len() {
            let [place, at, element] = [0, 1, 2].map(|k| lines.outer.offset(k, o));
            for k in 0..lines.n {
                let i = read((self.index.layout.offset as isize + at + k as isize * lines.steps[1]) as usize);
                let position = o * lines.n + k;
                match usize::try_from(i).ok().filter(|&i| i < self.bound) {
                    Some(i) => pairs.push((self.base + place + i as isize * lines.steps[0], position, element + k as isize * lines.steps[2])),
                    None => worst.add(position * inner, i),
                }
            }
        }
        pairs.sort_unstable();
        let (start, elements): (_, &mut [T]) = (self.source.layout.offset as isize, whole_mut(out.bytes)?);
        let mut sums = filled(0f32, inner)?;
        for same in pairs.chunk_by(|a, b| a.0 == b.0) {
            let place = |j: usize| (same[0].0 + to[j]) as usize;
            sums.iter_mut().enumerate().for_each(|(j, sum)| *sum = elements[place(j)].wide() as f32);
            for (_, _, element) in same {
                sums.iter_mut().zip(&*from).for_each(|(sum, &j)| *sum = f(*sum, source[(start + element + j) as usize].wide() as f32));
            }
            sums.iter().enumerate().for_each(|(j, &sum)| elements[place(j)] = T::narrow(sum.into()));
        }
        worst.report(self.bound, fault);
        Ok(())
    }
    /// `nothing` changes nothing that it is combined with; of modes where it does not matter in which order, and how far, elements
    /// are combined before they meet what is in their place.
    fn walk<S: Copy + Sync, T: Copy + Send + Sync>(
        &self,
        source: &[S],
        out: &mut [T],
        fault: &FaultWord,
        nothing: Option<T>,
        f: impl Fn(T, T) -> T + Sync,
        wide: impl Fn(S) -> T + Sync,
    ) -> Result<(), ErrorKind> {
        match self.index.dtype {
            DType::I64 => {
                let all: &[i64] = self.index.elements()?;
                self.walk_by(|at| all[at], source, out, fault, nothing, f, wide)
            }
            other => self.walk_by(indices(self.index.bytes, other), source, out, fault, nothing, f, wide),
        }
    }
    /// Every task has a part of the destination to itself, in which each place meets its elements in the order of the indices: the
    /// rows of some outer indices; or of each row some columns; or, where these are few or have one index, a range of places along
    /// the axis, for which it looks at all indices.
    fn walk_by<S: Copy + Sync, T: Copy + Send + Sync>(
        &self,
        read: impl Fn(usize) -> i64 + Sync,
        source: &[S],
        out: &mut [T],
        fault: &FaultWord,
        nothing: Option<T>,
        f: impl Fn(T, T) -> T + Sync,
        wide: impl Fn(S) -> T + Sync,
    ) -> Result<(), ErrorKind> {
        let (lines, threads) = (&self.lines, &self.runtime.threads);
        let (outer, inner) = (lines.outer.len(), lines.inner.len());
        let places = [lines.inner_offsets(0)?, lines.inner_offsets(1)?, lines.inner_offsets(2)?];
        let work = lines.n * inner;
        let to = DestinationPart { rows: 0..self.bound, outers: 0..outer, indices: 0..lines.n, base: self.base };
        let whole = self.dense && self.base >= 0 && (inner == 1 || lines.inner.is_dense(0)) && lines.steps[0] == inner as isize;
        let worst = WorstIndex::default();
        let every = self.bound * inner;
        let walk = ScatterWalk { job: self, places: &places, read: &read, source, combine: &f, wide: &wide, worst: &worst };
        if !whole || threads.count() == 1 || outer * work < 2 * TASK || every == 0 {
            walk.some(&to, out);
        } else if outer >= threads.count() {
            let several = (TASK / work.max(1)).max(1);
            let all = &mut out[self.base as usize..][..outer * every];
            threads.for_chunks_mut(all, several * every, |task, out| {
                let first = task * several;
                let base = -lines.outer.offset(0, first);
                walk.some(&DestinationPart { outers: first..(first + several).min(outer), base, ..to.clone() }, out);
            });
        } else if inner >= COLUMNS * threads.count() && self.bound <= lines.n && !lines.inner.is_uniform(1) {
            let columns = inner.div_ceil(threads.count()).next_multiple_of(COLUMNS);
            let all = &mut out[self.base as usize..][..outer * every];
            let tasks = inner.div_ceil(columns);
            let mut parts: Vec<Vec<&mut [T]>> = (0..tasks).map(|_| list(outer * self.bound)).collect::<Result<_, _>>()?;
            for row in all.chunks_mut(inner) {
                row.chunks_mut(columns).zip(&mut parts).for_each(|(some, part)| part.push(some));
            }
            threads.for_parts(parts, |task, mut out| {
                let first = task * columns;
                walk.some_columns(first, &mut out);
            });
        } else if let (1, true, Some(nothing)) = (inner, self.bound <= lines.n / 4, nothing) {
            // Some of the indices each, to a destination of its own.
            let (tasks, each) = (threads.count(), lines.n.div_ceil(threads.count()));
            let mut own = list(tasks * self.bound)?;
            for (o, out) in out[self.base as usize..][..outer * every].chunks_mut(every).enumerate() {
                own.clear();
                own.resize(tasks * every, nothing);
                threads.for_chunks_mut(&mut own, every, |task, own| {
                    let indices = (task * each).min(lines.n)..((task + 1) * each).min(lines.n);
                    walk.some(&DestinationPart { outers: o..o + 1, indices, base: -lines.outer.offset(0, o), ..to.clone() }, own);
                });
                for own in own.chunks(every) {
                    out.iter_mut().zip(own).for_each(|(place, own)| *place = f(*place, *own));
                }
            }
        } else {
            let rows = self.bound.div_ceil(threads.count());
            let all = &mut out[self.base as usize..][..outer * every];
            for (o, out) in all.chunks_mut(every).enumerate() {
                threads.for_chunks_mut(out, rows * inner, |task, out| {
                    let first = task * rows;
                    let base = -lines.outer.offset(0, o) - (first * inner) as isize;
                    walk.some(&DestinationPart { rows: first..(first + rows).min(self.bound), outers: o..o + 1, base, ..to.clone() }, out);
                });
            }
        }
        worst.report(self.bound, fault);
        Ok(())
    }
}
/// What every task walks with.
struct ScatterWalk<'a, S, R, F, W> {
    job: &'a Job<'a>,
    places: &'a [ScratchVec<isize>; 3],
    read: &'a R,
    source: &'a [S],
    combine: &'a F,
    wide: &'a W,
    worst: &'a WorstIndex,
}
impl<S: Copy, R: Fn(usize) -> i64, F, W> ScatterWalk<'_, S, R, F, W> {
    /// Combines what falls into a part of the destination.
    fn some<T: Copy>(&self, part: &DestinationPart, out: &mut [T])
    where
        F: Fn(T, T) -> T,
        W: Fn(S) -> T,
    {
        let ScatterWalk { job, places, read, source, combine, wide, worst } = *self;
        let lines = &job.lines;
        let inner = lines.inner.len();
        let (i0, s0) = (job.index.layout.offset as isize, job.source.layout.offset as isize);
        // An index that is given once for elements side by side (a row of a table) is read once for them.
        let by_rows = inner > 1 && lines.inner.is_uniform(1) && [0, 2].iter().all(|&k| lines.inner.is_dense(k));
        let (first, count) = (part.rows.start as i64, part.rows.len() as u64);
        // What is negative is, without its sign, behind all rows. Who has the first rows of an outer index tells of indices that are
        // nowhere.
        let place = |i: i64, position: usize| {
            if (i.wrapping_sub(first) as u64) < count {
                return Some(i as isize);
            }
            if part.rows.start == 0 && i as u64 >= job.bound as u64 {
                worst.add(position, i);
            }
            None
        };
        for o in part.outers.clone() {
            let [to, at, from] = [0, 1, 2].map(|k| lines.outer.offset(k, o));
            if inner == 1 {
                let steps = [lines.steps[0], lines.steps[1], lines.steps[2]];
                let Range { start, end } = part.indices;
                let (to, mut at, mut from) = (part.base + to, i0 + at + start as isize * steps[1], s0 + from + start as isize * steps[2]);
                for k in start..end {
                    if let Some(i) = place(read(at as usize), o * lines.n + k) {
                        let place = &mut out[(to + i * steps[0]) as usize];
                        *place = combine(*place, wide(source[from as usize]));
                    }
                    (at, from) = (at + steps[1], from + steps[2]);
                }
                continue;
            }
            for k in part.indices.clone() {
                let at = i0 + at + k as isize * lines.steps[1];
                let from = s0 + from + k as isize * lines.steps[2];
                let position = (o * lines.n + k) * inner;
                if by_rows {
                    let Some(i) = place(read(at as usize), position) else { continue };
                    let first = (part.base + to + i * lines.steps[0]) as usize;
                    let pairs = out[first..first + inner].iter_mut().zip(&source[from as usize..from as usize + inner]);
                    pairs.for_each(|(place, &s)| *place = combine(*place, wide(s)));
                    continue;
                }
                for j in 0..inner {
                    let Some(i) = place(read((at + places[1][j]) as usize), position + j) else { continue };
                    let place = &mut out[(part.base + to + i * lines.steps[0] + places[0][j]) as usize];
                    *place = combine(*place, wide(source[(from + places[2][j]) as usize]));
                }
            }
        }
    }
    /// Combines what falls into some columns, from `first` on, of which `rows` are the rows, those of an outer index behind those of
    /// the one before.
    fn some_columns<T: Copy>(&self, first: usize, rows: &mut [&mut [T]])
    where
        F: Fn(T, T) -> T,
        W: Fn(S) -> T,
    {
        let ScatterWalk { job, places, read, source, combine, wide, worst } = *self;
        let lines = &job.lines;
        let (i0, s0) = (job.index.layout.offset as isize, job.source.layout.offset as isize);
        for (o, rows) in rows.chunks_mut(job.bound).enumerate() {
            let columns = rows[0].len();
            let [at, from] = [1, 2].map(|k: usize| &places[k][first..first + columns]);
            let [index, element] = [(1, i0), (2, s0)].map(|(k, start)| start + lines.outer.offset(k, o));
            for k in 0..lines.n {
                let (index, element) = (index + k as isize * lines.steps[1], element + k as isize * lines.steps[2]);
                let position = (o * lines.n + k) * lines.inner.len() + first;
                for j in 0..columns {
                    let i = read((index + at[j]) as usize);
                    let Some(row) = rows.get_mut(i as usize) else {
                        worst.add(position + j, i);
                        continue;
                    };
                    row[j] = combine(row[j], wide(source[(element + from[j]) as usize]));
                }
            }
        }
    }
}
/// A part of the destination, and the indices that are looked at for it.
#[derive(Clone)]
struct DestinationPart {
    /// places along the axis
    rows: Range<usize>,
    outers: Range<usize>,
    indices: Range<usize>,
    /// where in the part the destination's first element would be
    base: isize,
}
