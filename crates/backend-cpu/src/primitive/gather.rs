//! Gather: elements of a tensor picked by an index tensor along an axis. Whole rows are copied where the index is
//! broadcast along the axes behind it (an embedding).
use super::Call;
use crate::{
    device::Runtime,
    element::{WorstIndex, indices, with_bits},
    lines::AxisLines,
    operand::{In, Out, internal},
    simd::stream::{self, ReadAhead, STREAMED},
};
use adamant_runtime::{DType, ErrorKind, kernel::FaultWord};

/// An index may be of any integer dtype, and moved elements of any.
pub(super) fn supports(_: &u8, _: &[DType]) -> bool {
    true
}

/// Runs a Gather step. Bad indices give zero and a fault.
///
/// # Errors
/// Operands that do not fit.
pub(super) fn run(axis: &u8, call: &Call<'_>, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
    let ([x, index], [out]) = (inputs, outputs) else { return Err(internal("a gather has two inputs and one output")) };
    let (runtime, axis, fault) = (call.runtime, *axis as usize, call.fault);
    if x.shape.rank() != out.shape.rank() || index.shape != out.shape || axis >= out.shape.rank() || x.dtype.size() != out.dtype.size() {
        return Err(internal("a gather of other shapes"));
    }
    if out.shape.elements() == 0 {
        return Ok(());
    }
    let job = Job { lines: AxisLines::new(&out.shape, axis, &[&x.layout.strides, &index.layout.strides]), bound: x.shape[axis], x, index, fault };
    with_bits!(x.dtype, T => match index.dtype {
        DType::I64 => {
            let all: &[i64] = index.elements()?;
            job.run::<T>(runtime, |at| all[at], out)
        }
        DType::I32 => {
            let all: &[i32] = index.elements()?;
            job.run::<T>(runtime, |at| all[at] as i64, out)
        }
        other => job.run::<T>(runtime, indices(index.bytes, other), out),
    })
}
/// How many elements make a task.
const TASK: usize = 64 * 1024;

/// A gather whose operands fit.
struct Job<'a> {
    /// operands: elements, indices
    lines: AxisLines,
    bound: usize,
    x: &'a In<'a>,
    index: &'a In<'a>,
    fault: &'a FaultWord,
}
impl Job<'_> {
    fn run<T: Moved>(&self, runtime: &Runtime, read: impl Fn(usize) -> i64 + Sync, out: &mut Out<'_>) -> Result<(), ErrorKind> {
        let Job { lines, x, .. } = self;
        let elements = x.elements::<T>()?;
        let out: &mut [T] = out.dense()?;
        let inner = lines.inner.len();
        let worst = WorstIndex::default();
        if inner == 1 && lines.n == 1 {
            runtime.threads.for_chunks_mut(out, TASK, |task, out| self.one_of_each(elements, &read, task * TASK, out, &worst));
        } else if inner == 1 {
            runtime.threads.for_chunks_mut(out, TASK, |task, out| self.along(elements, &read, task * TASK, out, &worst));
        } else if lines.inner.is_uniform(1) {
            let places = if lines.inner.is_dense(0) { Default::default() } else { lines.inner_offsets(0)? };
            let rows = (TASK / inner).max(1);
            let streamed = size_of_val(out) >= STREAMED;
            runtime.threads.for_chunks_mut(out, rows * inner, |task, out| self.rows(elements, &read, &places, streamed, task * rows, out, &worst));
        } else {
            let places = [lines.inner_offsets(0)?, lines.inner_offsets(1)?];
            let rows = (TASK / inner).max(1);
            runtime.threads.for_chunks_mut(out, rows * inner, |task, out| {
                for (r, out) in out.chunks_mut(inner).enumerate() {
                    let row = task * rows + r;
                    let (from, at) = self.place(row);
                    for (j, o) in out.iter_mut().enumerate() {
                        *o = match self.in_range(read((at + places[1][j]) as usize), row * inner + j, &worst) {
                            Some(i) => elements[(from + i as isize * lines.steps[0] + places[0][j]) as usize],
                            None => T::zeroed(),
                        };
                    }
                }
            });
        }
        worst.report(self.bound, self.fault);
        Ok(())
    }
    /// Where what a row picks begins for index 0, and where its first index is.
    fn place(&self, row: usize) -> (isize, isize) {
        let lines = &self.lines;
        let (o, k) = (row / lines.n, (row % lines.n) as isize);
        let at = self.index.layout.offset as isize + lines.outer.offset(1, o) + k * lines.steps[1];
        (self.x.layout.offset as isize + lines.outer.offset(0, o), at)
    }
    #[inline(always)]
    fn in_range(&self, i: i64, position: usize, worst: &WorstIndex) -> Option<usize> {
        let inside = usize::try_from(i).ok().filter(|&i| i < self.bound);
        if inside.is_none() {
            worst.add(position, i);
        }
        inside
    }
    /// Elements of lines along the axis, from number `first` of the output on: no axis lies behind it.
    fn along<T: Moved>(&self, elements: &[T], read: &impl Fn(usize) -> i64, mut first: usize, mut out: &mut [T], worst: &WorstIndex) {
        let lines = &self.lines;
        while !out.is_empty() {
            let count = (lines.n - first % lines.n).min(out.len());
            let (now, rest) = std::mem::take(&mut out).split_at_mut(count);
            let (from, at) = self.place(first);
            let next = first + now.len();
            if lines.steps[..2] == [1, 1] {
                let line = &elements[from as usize..][..self.bound];
                for (t, o) in now.iter_mut().enumerate() {
                    let i = read(at as usize + t);
                    // An index that is negative is, without its sign, behind the end of any line.
                    *o = if (i as u64) < line.len() as u64 {
                        line[i as usize]
                    } else {
                        worst.add(first + t, i);
                        T::zeroed()
                    };
                }
                (first, out) = (next, rest);
                continue;
            }
            for (t, o) in now.iter_mut().enumerate() {
                *o = match self.in_range(read((at + t as isize * lines.steps[1]) as usize), first + t, worst) {
                    Some(i) => elements[(from + i as isize * lines.steps[0]) as usize],
                    None => T::zeroed(),
                };
            }
            (first, out) = (next, rest);
        }
    }
    /// As [`Job::along`], of lines that one element is picked from.
    fn one_of_each<T: Moved>(&self, elements: &[T], read: &impl Fn(usize) -> i64, first: usize, out: &mut [T], worst: &WorstIndex) {
        let along = self.lines.steps[0];
        let starts = [self.x.layout.offset as isize, self.index.layout.offset as isize];
        let (mut from, mut line) = ([0; 64], [0; 64]);
        for (some, out) in out.chunks_mut(from.len()).enumerate() {
            let first = first + some * from.len();
            self.lines.outer.places(0, first, starts[0], &mut from[..out.len()]);
            self.lines.outer.places(1, first, starts[1], &mut line[..out.len()]);
            for (k, o) in out.iter_mut().enumerate() {
                *o = match self.in_range(read(line[k] as usize), first + k, worst) {
                    Some(i) => elements[(from[k] + i as isize * along) as usize],
                    None => T::zeroed(),
                };
            }
        }
    }
    /// Whole rows, from number `first` on, each picked by one index. Without `places` they lie side by side.
    fn rows<T: Moved>(&self, elements: &[T], read: &impl Fn(usize) -> i64, places: &[isize], streamed: bool, first: usize, out: &mut [T], worst: &WorstIndex) {
        let (inner, along) = (self.lines.inner.len(), self.lines.steps[0]);
        let contiguous = places.is_empty();
        let ahead = contiguous && inner * size_of::<T>() >= 256;
        let streamed = ahead && streamed;
        // A row that lies anywhere is nothing that a processor fetches by itself before its turn.
        let picked = |row: usize| {
            let (from, at) = self.place(row);
            let i = usize::try_from(read(at as usize)).ok().filter(|&i| i < self.bound);
            ReadAhead::of(i.map_or(&[], |i| &elements[(from + i as isize * along) as usize..][..inner]))
        };
        let count = out.len() / inner;
        for (r, out) in out.chunks_mut(inner).enumerate() {
            let row = first + r;
            let (from, at) = self.place(row);
            let next = if ahead && r + 1 < count { picked(row + 1) } else { ReadAhead::of::<T>(&[]) };
            if !streamed {
                next.fetch_all();
            }
            let Some(i) = self.in_range(read(at as usize), row * inner, worst) else {
                out.fill(T::zeroed());
                continue;
            };
            let start = from + i as isize * along;
            if streamed {
                let row = &elements[start as usize..start as usize + inner];
                stream::copy(bytemuck::cast_slice(row), bytemuck::cast_slice_mut(out), &[next]);
            } else if contiguous {
                out.copy_from_slice(&elements[start as usize..start as usize + inner]);
            } else {
                out.iter_mut().zip(places).for_each(|(o, p)| *o = elements[(start + p) as usize]);
            }
        }
        if streamed {
            stream::publish();
        }
    }
}
/// An element that is moved as its bits.
trait Moved: bytemuck::Pod + Send + Sync {}
impl<T: bytemuck::Pod + Send + Sync> Moved for T {}
