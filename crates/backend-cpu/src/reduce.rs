//! Reduce: a program over an index space, combined along some axes.
//!
//! The elements of one output, counted in row-major order of the reduced axes, are combined by the fixed [`tree`]. So
//! neither threads, tiles, layouts, instruction sets nor fusion change a bit, and the error grows like that of
//! pairwise summation.
mod blocks;
pub(crate) mod columns;
pub(crate) mod tree;

use crate::{
    device::Runtime,
    isa::Isa,
    map::{
        self, PARTS, TASK,
        load::{CastFrom, store},
        loops::{self, Src},
        program::TileKind,
        tile::TileRun,
        tiles::OutTile,
        tiles::{Lane, Scratch, TILE, with_scratch},
    },
    operand::{In, Out, internal},
    scratch::filled,
};
use adamant_runtime::{AxisSet, DType, ErrorKind, MAX_RANK, Shape, expr::Reg, kernel::Step, op::ReduceOp};
use blocks::BlockBuffers;
use columns::ColumnTotals;
use smallvec::SmallVec;
use tree::{BLOCK, CombineRule, LANES, Max, Min, Prod, ReducedElement, SEGMENT, Sum, Total, push_row};

/// Columns that are reduced side by side: so many that their lanes stay in the L1 cache.
const COLUMNS: usize = 512;
/// As many where rows come from memory, which gives them fastest in long runs: their lanes stay in the L2 cache.
const COLUMNS_OF_MEMORY: usize = 4096;
/// After so many elements that lie in memory is asked whether others can change what they came to; whole blocks.
const FINAL: usize = 64 * BLOCK;
/// Bytes that come from memory rather than from a cache.
const MEMORY: usize = 4 << 20;

/// Runs a Reduce step.
///
/// # Errors
/// Operands that do not fit the program.
pub(crate) fn run(
    runtime: &Runtime,
    step: &Step<'_>,
    value: Reg,
    op: ReduceOp,
    axes: AxisSet,
    inputs: &[In<'_>],
    outputs: &mut [Out<'_>],
) -> Result<(), ErrorKind> {
    let [out] = outputs else { return Err(internal("a reduction has one output")) };
    let program = map::program(step.kernel, runtime.isa)?;
    let AxisPlan { order, reduced, inner } = AxisPlan::new(&step.space, axes, inputs);
    let columns = inner > 1;
    let nest = map::nest(program, &step.space, order.into_iter(), inputs);
    let kind = program.registers.get(value as usize).ok_or_else(|| internal("no such register"))?.kind;
    let dtype = out.dtype;
    let want = if kind == TileKind::Bool || kind == TileKind::I64 {
        matches!(TileKind::of(dtype), TileKind::I64 | TileKind::Bool)
    } else {
        TileKind::of(dtype) == kind
    };
    if !want {
        return Err(internal("a reduction into another kind"));
    }
    let mut run = TileRun::new(program, runtime.isa, nest, inputs, step.args, step.fault)?;
    if run.nest.innermost() >= map::LINE {
        run.find_lines()?;
    }
    run.find_truths(&[value]);
    let n = step.space.elements();
    // What lies in memory as the loops want it is as well read by them.
    let row = (!columns && reduced >= LANES && !run.is_direct(value)).then_some(reduced);
    let by_blocks = !run.is_truth(value) && run.compile_reduction(value, op, row, n);
    let job = Job { runtime, value, reduced, inner, run, dtype, by_blocks };
    let bytes = out.dense_bytes()?;
    if step.space.elements() == 0 && bytes.is_empty() {
        return Ok(());
    }
    match kind {
        TileKind::F32 => by_op::<f32, f32>(&job, op, columns, bytes),
        TileKind::F64 => by_op::<f64, f64>(&job, op, columns, bytes),
        TileKind::I64 => by_op::<i64, i64>(&job, op, columns, bytes),
        // Truth values stay bytes where one of them is the result.
        TileKind::Bool => match op {
            ReduceOp::Max => reduce::<u8, u8>(&job, &Loops::of::<Max>(), columns, bytes),
            ReduceOp::Min => reduce::<u8, u8>(&job, &Loops::of::<Min>(), columns, bytes),
            ReduceOp::Sum | ReduceOp::Prod => by_op::<u8, i64>(&job, op, columns, bytes),
        },
    }
}
/// In which order a reduction goes over the axes of its space: kept ones in their order, reduced ones in theirs, for the tree counts
/// elements so; which of the kept ones are innermost is free.
struct AxisPlan {
    order: SmallVec<[usize; MAX_RANK]>,
    /// elements of one output
    reduced: usize,
    /// outputs that are made side by side; 1 by rows
    inner: usize,
}
impl AxisPlan {
    fn new(space: &Shape, axes: AxisSet, inputs: &[In<'_>]) -> AxisPlan {
        let of = |is_reduced: bool| (0..space.rank()).filter(move |&a| axes.has(a) == is_reduced);
        let reduced: usize = of(true).map(|a| space[a]).product();
        let side_by_side = Self::side_by_side(space, &axes, inputs);
        let inner: usize = side_by_side.iter().map(|&a| space[a]).product();
        let by_columns = inner >= 8 && reduced > 1;
        let inside = |a: &usize| by_columns && side_by_side.contains(a);
        let order = of(false).filter(|a| !inside(a)).chain(of(true)).chain(of(false).filter(inside)).collect();
        AxisPlan { order, reduced, inner: if by_columns { inner } else { 1 } }
    }
    /// The last kept axes, along which an operand lies closer together than along the reduced ones. Where no operand has an element for
    /// each position, and none of this tells, those behind the last reduced axis.
    fn side_by_side(space: &Shape, axes: &AxisSet, inputs: &[In<'_>]) -> SmallVec<[usize; MAX_RANK]> {
        let long = |a: &usize| space[*a] != 1;
        let kept: SmallVec<[usize; MAX_RANK]> = (0..space.rank()).filter(|a| !axes.has(*a)).filter(long).collect();
        let last = (0..space.rank()).rev().filter(|a| axes.has(*a)).find(long);
        let is_full = |i: &&In<'_>| (0..space.rank()).filter(long).all(|a| i.layout.strides[a] != 0);
        let behind = |a: &usize| last.is_some_and(|last| *a > last);
        let Some(whole) = inputs.iter().filter(is_full).max_by_key(|i| i.dtype.size()) else { return kept.iter().copied().filter(behind).collect() };
        let step = |a: usize| whole.layout.strides[a].unsigned_abs();
        let is_closer = |a: usize| last.is_some_and(|last| step(a) < step(last));
        let joins = |k: &usize| match kept.get(k + 1) {
            None => is_closer(kept[*k]),
            Some(&next) => behind(&kept[*k]) || is_closer(kept[*k]) && step(kept[*k]) == step(next) * space[next],
        };
        let from = (0..kept.len()).rev().take_while(joins).last().unwrap_or(kept.len());
        kept[from..].iter().copied().collect()
    }
}
struct Job<'a> {
    runtime: &'a Runtime,
    run: TileRun<'a>,
    value: Reg,
    /// elements of one output
    reduced: usize,
    /// outputs that lie side by side
    inner: usize,
    dtype: DType,
    /// a compiled loop combines the elements as it computes them
    by_blocks: bool,
}
/// From the tile's lanes to the lanes of the reduction.
trait Into2<T>: Lane {
    fn view<'a>(isa: Isa, src: Src<'a, Self>, n: usize, buffer: &'a mut [T]) -> &'a [T];
    /// The lanes where they lie, if they are of the reduction's type already.
    fn in_place<'a>(_: Src<'a, Self>) -> Option<&'a [T]> {
        None
    }
}
macro_rules! same_lanes {
    ($($t:ty),*) => { $(impl Into2<$t> for $t {
        fn view<'a>(_: Isa, src: Src<'a, $t>, n: usize, buffer: &'a mut [$t]) -> &'a [$t] {
            match src {
                Src::Slice(s) => &s[..n],
                Src::Splat(v) => {
                    buffer[..n].fill(v);
                    &buffer[..n]
                }
            }
        }
        fn in_place<'a>(src: Src<'a, $t>) -> Option<&'a [$t]> {
            match src {
                Src::Slice(s) => Some(s),
                Src::Splat(_) => None,
            }
        }
    })* };
}
same_lanes!(f32, f64, i64, u8);
impl Into2<i64> for u8 {
    fn view<'a>(isa: Isa, src: Src<'a, u8>, n: usize, buffer: &'a mut [i64]) -> &'a [i64] {
        match src {
            Src::Slice(s) => loops::convert(isa, &s[..n], &mut buffer[..n], CastFrom::to_i64),
            Src::Splat(v) => buffer[..n].fill(v as i64),
        }
        &buffer[..n]
    }
}

fn by_op<L: Into2<T>, T: ReducedElement>(job: &Job<'_>, op: ReduceOp, columns: bool, out: &mut [u8]) -> Result<(), ErrorKind> {
    let loops = match op {
        ReduceOp::Sum => Loops::of::<Sum>(),
        ReduceOp::Prod => Loops::of::<Prod>(),
        ReduceOp::Max => Loops::of::<Max>(),
        ReduceOp::Min => Loops::of::<Min>(),
    };
    reduce::<L, T>(job, &loops, columns, out)
}
/// What differs between the ways to combine: so that what decides about rows, columns and tasks is compiled once for them all.
struct Loops<T: ReducedElement> {
    identity: T,
    push_row: fn(Isa, &[T], &mut Total<T>),
    push_segment: fn(&mut Total<T>, T::Wide),
    total: fn(Total<T>) -> T::Wide,
    is_final: fn(&Total<T>) -> bool,
    rows: fn(Isa, &[T], usize, &mut [T::Wide]),
    add: fn(&mut ColumnTotals<T>, Isa, &[T], usize),
    end_block: fn(&mut ColumnTotals<T>, Isa),
    end: fn(&mut ColumnTotals<T>) -> &[T::Wide],
    // Where a compiled loop gives the lanes of blocks.
    lanes: fn(T, T) -> T,
    fold: fn(Isa, &[T], &mut [T]),
    push: fn(&mut Total<T>, &[T]),
    each: fn(&[T], &mut [T::Wide]),
}
impl<T: ReducedElement> Loops<T> {
    fn of<C: CombineRule>() -> Loops<T> {
        Loops {
            identity: C::identity(),
            push_row: push_row::<T, C>,
            push_segment: Total::push_segment::<C>,
            total: Total::value::<C>,
            is_final: Total::is_final::<C>,
            rows: tree::rows::<T, C>,
            add: ColumnTotals::add::<C>,
            end_block: ColumnTotals::end_block::<C>,
            end: ColumnTotals::end::<C>,
            lanes: C::lanes::<T>,
            fold: tree::fold_blocks::<T, C>,
            push: Total::push_all::<C>,
            each: tree::each_block::<T, C>,
        }
    }
    fn none(&self) -> Total<T> {
        Total::from(self.identity)
    }
}
/// Outputs that are written at a time.
const TOGETHER: usize = 64;
fn write<T: ReducedElement>(isa: Isa, mut totals: impl Iterator<Item = T::Wide>, dtype: DType, out: &mut [u8]) {
    let mut buffer = [T::default(); TOGETHER];
    for out in out.chunks_mut(TOGETHER * dtype.size()) {
        let buffer = &mut buffer[..out.len() / dtype.size()];
        for (v, total) in buffer.iter_mut().zip(&mut totals) {
            *v = T::finish(total, dtype);
        }
        store(isa, Src::Slice(buffer), dtype, out);
    }
}
fn reduce<L: Into2<T>, T: ReducedElement>(job: &Job<'_>, loops: &Loops<T>, columns: bool, out: &mut [u8]) -> Result<(), ErrorKind> {
    let threads = &job.runtime.threads;
    let size = job.dtype.size();
    let outputs = out.len() / size;
    let weight = 1 + job.run.program.weight;
    let work = outputs.saturating_mul(job.reduced).saturating_mul(weight);
    // Columns are read in strips: apart they must be worth it.
    let many = threads.count() > 1 && work > if columns { 4 * TASK * weight } else { 2 * TASK };
    if job.reduced == 0 {
        write::<T>(job.run.isa, std::iter::repeat_n(loops.identity.widen(), outputs), job.dtype, out);
        Ok(())
    } else if columns {
        let of_memory = is_direct::<L, T>(job) && (outputs * size_of::<T>()).saturating_mul(job.reduced) > MEMORY;
        let (most, parts) = if of_memory { (COLUMNS_OF_MEMORY, 2) } else { (COLUMNS, 4) };
        let wanted = if many { (threads.count() * parts).div_ceil(outputs / job.inner) } else { 1 };
        // Widths are multiples of 16 so that rows of a part start on lines.
        let width = job.inner.div_ceil(wanted).next_multiple_of(64).clamp(64, most);
        let row_parts = |(o, row)| <[u8]>::chunks_mut(row, width * size).enumerate().map(move |(c, part)| (o, c * width, part));
        let mut parts = out.chunks_mut(job.inner * size).enumerate().flat_map(row_parts);
        if many {
            threads.try_for_parts(parts, |_, (o, c, part)| with_scratch(|s| reduce_columns::<L, T>(job, loops, o, c, part, s)))
        } else {
            with_scratch(|s| parts.try_for_each(|(o, c, part)| reduce_columns::<L, T>(job, loops, o, c, part, s)))
        }
    } else if many && job.reduced > SEGMENT && outputs < threads.count() * 4 {
        // Few long rows: their segments are the tasks.
        let segments = job.reduced.div_ceil(SEGMENT);
        let mut partial = filled(loops.identity.widen(), outputs * segments)?;
        threads.try_for_chunks_mut(&mut partial, 1, |task, place| {
            let (o, s) = (task / segments, task % segments);
            let n = SEGMENT.min(job.reduced - s * SEGMENT);
            let mut total = loops.none();
            with_scratch(|scratch| long_row::<L, T>(job, loops, o * job.reduced + s * SEGMENT, n, &mut total, scratch))?;
            place[0] = total.segment();
            Ok::<(), ErrorKind>(())
        })?;
        let totals = partial.chunks(segments).map(|row| {
            let mut total = loops.none();
            row.iter().for_each(|&s| (loops.push_segment)(&mut total, s));
            (loops.total)(total)
        });
        write::<T>(job.run.isa, totals, job.dtype, out);
        Ok(())
    } else {
        let rows = if many { TASK.div_ceil(job.reduced * weight).max(outputs.div_ceil(threads.count() * PARTS)) } else { outputs };
        threads.try_for_chunks_mut(out, rows.max(1) * size, |k, part| with_scratch(|s| reduce_rows::<L, T>(job, loops, k * rows, part, s)))
    }
}
fn tile<'s, L: Into2<T>, T: ReducedElement>(
    job: &'s Job<'_>,
    at: usize,
    n: usize,
    scratch: &'s mut Scratch,
    buffer: &'s mut [T],
) -> Result<&'s [T], ErrorKind> {
    let mut none: [OutTile<'_>; 0] = [];
    job.run.tile(at, n, scratch, &mut none)?;
    Ok(L::view(job.run.isa, job.run.src::<L>(job.value, at, n, scratch, &[]), n, buffer))
}
fn long_row<L: Into2<T>, T: ReducedElement>(
    job: &Job<'_>,
    loops: &Loops<T>,
    start: usize,
    n: usize,
    total: &mut Total<T>,
    scratch: &mut Scratch,
) -> Result<(), ErrorKind> {
    if job.by_blocks {
        return BlockBuffers::new().push_row(job, loops, (start, n), total, scratch);
    }
    if job.run.is_direct(job.value)
        && let Some(row) = L::in_place(job.run.src::<L>(job.value, start, n, scratch, &[]))
    {
        // It lies in memory as the loops want it: no tiles.
        for part in row[..n].chunks(if T::IS_BOUNDED { FINAL } else { n }) {
            (loops.push_row)(job.run.isa, part, total);
            if (loops.is_final)(total) {
                break;
            }
        }
        return Ok(());
    }
    let mut buffer = [T::default(); TILE];
    let mut at = 0;
    while at < n {
        let count = TILE.min(n - at);
        let x = tile::<L, T>(job, start + at, count, scratch, &mut buffer)?;
        (loops.push_row)(job.run.isa, x, total);
        if (loops.is_final)(total) {
            break;
        }
        at += count;
    }
    Ok(())
}
/// Outputs that are rows of the nest, from row `first` on.
fn reduce_rows<L: Into2<T>, T: ReducedElement>(job: &Job<'_>, loops: &Loops<T>, first: usize, out: &mut [u8], scratch: &mut Scratch) -> Result<(), ErrorKind> {
    let (n, size) = (job.reduced, job.dtype.size());
    let count = out.len() / size;
    if job.by_blocks {
        return blocks::rows(job, loops, first, out, scratch);
    }
    if job.run.is_direct(job.value)
        && (n < 2 * FINAL || !T::IS_BOUNDED)
        && let Some(x) = L::in_place(job.run.src::<L>(job.value, first * n, count * n, scratch, &[]))
    {
        // They lie in memory as the loops want them: no tiles.
        let mut totals = [loops.identity.widen(); TOGETHER];
        for (x, out) in x[..count * n].chunks(TOGETHER * n).zip(out.chunks_mut(TOGETHER * size)) {
            let totals = &mut totals[..out.len() / size];
            (loops.rows)(job.run.isa, x, n, totals);
            write::<T>(job.run.isa, totals.iter().copied(), job.dtype, out);
        }
        return Ok(());
    }
    if n > TILE / 2 {
        for (k, o) in out.chunks_exact_mut(size).enumerate() {
            let mut total = loops.none();
            long_row::<L, T>(job, loops, (first + k) * n, n, &mut total, scratch)?;
            write::<T>(job.run.isa, std::iter::once((loops.total)(total)), job.dtype, o);
        }
        return Ok(());
    }
    if out.len() / size * n <= FEW {
        tiles_of_rows::<L, T, FEW>(job, loops, first, out, scratch)
    } else {
        tiles_of_rows::<L, T, TILE>(job, loops, first, out, scratch)
    }
}
/// As many elements are so few that a tile for them is not worth its making.
const FEW: usize = 64;
/// Short rows, as many at a time as `CAPACITY` elements hold.
fn tiles_of_rows<L: Into2<T>, T: ReducedElement, const CAPACITY: usize>(
    job: &Job<'_>,
    loops: &Loops<T>,
    first: usize,
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), ErrorKind> {
    let (n, size) = (job.reduced, job.dtype.size());
    let mut buffer = [T::default(); CAPACITY];
    let mut totals = [loops.identity.widen(); CAPACITY];
    let rows = CAPACITY / n;
    for (k, o) in out.chunks_mut(rows * size).enumerate() {
        let count = o.len() / size;
        let x = tile::<L, T>(job, (first + k * rows) * n, count * n, scratch, &mut buffer)?;
        let isa = job.run.isa;
        let totals = &mut totals[..count];
        (loops.rows)(isa, x, n, totals);
        write::<T>(isa, totals.iter().copied(), job.dtype, o);
    }
    Ok(())
}

/// Do rows lie in memory as the loops want them?
fn is_direct<L: Into2<T>, T: ReducedElement>(job: &Job<'_>) -> bool {
    job.run.is_direct(job.value) && L::in_place(Src::Slice(&[])).is_some()
}
/// Outputs side by side: columns `first ..` of group `o`.
fn reduce_columns<L: Into2<T>, T: ReducedElement>(
    job: &Job<'_>,
    loops: &Loops<T>,
    o: usize,
    first: usize,
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), ErrorKind> {
    let width = out.len() / job.dtype.size();
    let isa = job.run.isa;
    let mut buffer = [T::default(); TILE];
    let mut columns = ColumnTotals::new(loops.identity, width, job.reduced)?;
    // Where rows lie in memory as the loops want them, all of a block are taken at once. Else whole rows lie one after
    // another and a tile takes several, or one has a part of each.
    let is_direct = is_direct::<L, T>(job);
    let rows = match width == job.inner {
        _ if is_direct => BLOCK,
        true => (TILE / width).max(1),
        false => 1,
    };
    let mut r = 0;
    while r < job.reduced {
        let end = (r / BLOCK * BLOCK + BLOCK).min(job.reduced);
        while r < end {
            let count = rows.min(end - r);
            let at = (o * job.reduced + r) * job.inner + first;
            let (x, stride) = match is_direct {
                true => (L::in_place(job.run.src::<L>(job.value, at, (count - 1) * job.inner + width, scratch, &[])).unwrap_or_default(), job.inner),
                false => (tile::<L, T>(job, at, count * width, scratch, &mut buffer)?, width),
            };
            (loops.add)(&mut columns, isa, x, stride);
            r += count;
        }
        (loops.end_block)(&mut columns, isa);
    }
    write::<T>(isa, (loops.end)(&mut columns).iter().copied(), job.dtype, out);
    Ok(())
}
