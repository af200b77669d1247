//! Some ranks of each line of a sort, without sorting the line. Elements with their places are integers of one total order (see
//! [`crate::order`]), so whatever picks the right ones picks those that a stable sort has there.
//!
//! Where few of many are wanted a line is read once, and only what beats the last of the best so far is kept; a long line is cut
//! for the threads, and the best of the pieces are put together.
use super::known;
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    element::with_number,
    isa::Isa,
    lines::AxisLines,
    operand::internal,
    order::{OrderKey, Ordered, Placed, is_short, placed},
    scratch::list,
    simd::{Simd, SimdKernel, dispatch},
};
use adamant_runtime::{Composite, DType, ErrorKind, composite::sorted_range::SortedRange, kernel::FaultWord};
use parking_lot::Mutex;

pub(super) struct SortedRangeKernel;

impl CpuKernel for SortedRangeKernel {
    fn supports(&self, _: &dyn Composite, dtypes: &[DType]) -> bool {
        dtypes.iter().all(|d| d.computes())
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let range = known::<SortedRange>(composite).ok_or_else(|| internal("a sorted range of another make"))?;
        let ([x], [values, at]) = (operands.inputs, &mut *operands.outputs) else { return Err(internal("a sorted range has one input and two outputs")) };
        if range.axis >= x.shape.rank() || range.start + range.len > x.shape[range.axis] {
            return Err(internal("ranks that a line has not"));
        }
        if values.shape.elements() == 0 {
            return Ok(());
        }
        with_number!(x.dtype, T => {
            let lines = AxisLines::new(&x.shape, range.axis, &[&x.layout.strides]);
            let job = Job { range, x: x.elements::<T>()?, base: x.layout.offset as isize, lines: &lines };
            let (values, at) = (values.dense()?, at.dense()?);
            if is_short::<T>(lines.n) { job.run::<u64>(runtime, values, at) } else { job.run::<u128>(runtime, values, at) }
        })
    }
}
/// How many elements make a task.
const TASK: usize = 64 * 1024;
/// Where fewer than one in this many is wanted, what is not is passed over.
const FEW: usize = 8;

struct Job<'a, T> {
    range: &'a SortedRange,
    x: &'a [T],
    base: isize,
    lines: &'a AxisLines,
}
impl<T: Ordered> Job<'_, T> {
    fn run<P: Placed>(&self, runtime: &Runtime, values: &mut [T], at: &mut [i64]) -> Result<(), ErrorKind> {
        let (inner, n, len) = (self.lines.inner.len(), self.lines.n, self.range.len);
        let places = self.lines.inner_offsets(0)?;
        let outer = values.len() / (inner * len);
        let end = self.range.start + len;
        if outer * inner < runtime.threads.count() && n >= 4 * TASK && end * FEW <= n {
            for (o, (values, at)) in values.chunks_mut(inner * len).zip(at.chunks_mut(inner * len)).enumerate() {
                for (j, p) in places.iter().enumerate() {
                    let mut best = self.pieces::<P>(runtime, self.base + self.lines.outer.offset(0, o) + p, end)?;
                    self.pick(&mut best, self.base + self.lines.outer.offset(0, o) + p, inner, &mut values[j..], &mut at[j..]);
                }
            }
            return Ok(());
        }
        let group = (TASK / (inner * n)).max(1);
        let parts = values.chunks_mut(group * inner * len).zip(at.chunks_mut(group * inner * len));
        runtime.threads.try_for_parts(parts, |task, (values, at)| {
            let mut line: Vec<P> = list(n.min(capacity(end)))?;
            for (g, (values, at)) in values.chunks_mut(inner * len).zip(at.chunks_mut(inner * len)).enumerate() {
                for (j, p) in places.iter().enumerate() {
                    let start = self.base + self.lines.outer.offset(0, task * group + g) + p;
                    line.clear();
                    self.candidates(runtime.isa, start, 0..n, end, &mut line)?;
                    self.pick(&mut line, start, inner, &mut values[j..], &mut at[j..]);
                }
            }
            Ok(())
        })
    }
    /// What of a line may be among its first `end`, in any order.
    fn candidates<P: Placed>(&self, isa: Isa, start: isize, places: std::ops::Range<usize>, end: usize, into: &mut Vec<P>) -> Result<(), ErrorKind> {
        let (step, descending) = (self.lines.steps[0], self.range.descending);
        if end * FEW <= places.len() {
            crate::scratch::reserve(into, capacity(end))?;
            if step == 1 {
                let line = &self.x[(start + places.start as isize) as usize..][..places.len()];
                dispatch(isa, Passing { line, first: places.start, descending, end, into });
            } else {
                let mut best = Best { into, end, descending, bar: None };
                places.for_each(|k| best.offer(self.x[(start + k as isize * step) as usize], k));
            }
            return Ok(());
        }
        crate::scratch::reserve(into, places.len())?;
        into.extend(places.map(|k| placed::<T, P>(self.x[(start + k as isize * step) as usize], k, descending)));
        Ok(())
    }
    /// The candidates of one long line, by all threads.
    fn pieces<P: Placed>(&self, runtime: &Runtime, start: isize, end: usize) -> Result<Vec<P>, ErrorKind> {
        let n = self.lines.n;
        let piece = n.div_ceil(4 * runtime.threads.count()).max(TASK).max(end * FEW);
        let all = Mutex::new(Vec::new());
        runtime.threads.try_for_parts((0..n).step_by(piece), |_, first| {
            let mut some: Vec<P> = Vec::new();
            self.candidates(runtime.isa, start, first..(first + piece).min(n), end, &mut some)?;
            let mut all = all.lock();
            crate::scratch::reserve(&mut *all, some.len())?;
            all.append(&mut some);
            Ok::<(), ErrorKind>(())
        })?;
        Ok(all.into_inner())
    }
    /// Puts the wanted ranks of the candidates in order, and writes them `inner` apart.
    fn pick<P: Placed>(&self, all: &mut [P], start: isize, inner: usize, values: &mut [T], at: &mut [i64]) {
        let SortedRange { start: first, len, .. } = *self.range;
        let mut wanted = all;
        if first + len < wanted.len() {
            wanted = wanted.select_nth_unstable(first + len).0;
        }
        if first > 0 {
            wanted.select_nth_unstable(first);
            wanted = &mut wanted[first..];
        }
        wanted.sort_unstable();
        for (t, element) in wanted.iter().enumerate() {
            values[t * inner] = self.x[(start + element.place() as isize * self.lines.steps[0]) as usize];
            at[t * inner] = element.place() as i64;
        }
    }
}
/// How many candidates are kept before the worse ones are thrown away.
fn capacity(end: usize) -> usize {
    2 * end + 256
}
/// The first `end` of what was offered, and some more.
struct Best<'a, P> {
    into: &'a mut Vec<P>,
    end: usize,
    descending: bool,
    /// what does not come before the last of the first `end` is none of them
    bar: Option<u64>,
}
impl<P: Placed> Best<'_, P> {
    #[inline(always)]
    fn offer<T: Ordered>(&mut self, v: T, place: usize) {
        let element = placed::<T, P>(v, place, self.descending);
        if self.bar.is_none_or(|bar| element.key() < bar) {
            self.into.push(element);
            if self.into.len() == capacity(self.end) {
                self.cut();
            }
        }
    }
    #[cold]
    fn cut(&mut self) {
        let last = *self.into.select_nth_unstable(self.end - 1).1;
        self.into.truncate(self.end);
        self.bar = Some(last.key());
    }
}
/// A line whose elements lie side by side, past the best so far: a block without one that beats the last of these is passed over.
struct Passing<'a, T, P> {
    line: &'a [T],
    /// the place of its first element
    first: usize,
    descending: bool,
    end: usize,
    into: &'a mut Vec<P>,
}
impl<T: Ordered, P: Placed> SimdKernel for Passing<'_, T, P> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        const BLOCK: usize = 64;
        let Passing { line, first, descending, end, into } = self;
        let mut best = Best { into, end, descending, bar: None };
        let whole = line.len() / BLOCK * BLOCK;
        for (b, block) in line[..whole].chunks_exact(BLOCK).enumerate() {
            if let Some(bar) = best.bar {
                let mut least = T::Key::LARGEST;
                for v in block {
                    let key = if descending { v.key().reversed() } else { v.key() };
                    least = least.min(key);
                }
                if least.unsigned() >= bar {
                    continue;
                }
            }
            block.iter().enumerate().for_each(|(k, v)| best.offer(*v, first + b * BLOCK + k));
        }
        line[whole..].iter().enumerate().for_each(|(k, v)| best.offer(*v, first + whole + k));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{gemm::Blas, threads::Threads};
    use adamant_runtime::Shape;

    /// The ranks of a full stable sort.
    fn expected(x: &[f32], range: &SortedRange) -> Vec<i64> {
        let mut all: Vec<usize> = (0..x.len()).collect();
        all.sort_by(|&a, &b| {
            let order = x[a].partial_cmp(&x[b]).unwrap_or_else(|| x[a].is_nan().cmp(&x[b].is_nan()));
            if range.descending { order.reverse() } else { order }
        });
        all[range.start..range.start + range.len].iter().map(|&k| k as i64).collect()
    }
    #[test]
    fn ranks_are_those_of_a_stable_sort_however_few_are_wanted() {
        let mut state = 7u64;
        let mut draw = |bound: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % bound
        };
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for threads in [1, 3] {
                let runtime = Runtime { threads: Threads::new(threads), isa, blas: Blas::built_in() };
                for n in [1usize, 2, 63, 64, 700, 5000, 4 * TASK + 17] {
                    for kind in 0..4 {
                        let x: Vec<f32> = (0..n)
                            .map(|k| match kind {
                                0 => draw(1 << 20) as f32,
                                1 => draw(3) as f32,
                                2 => k as f32,
                                _ => [f32::NAN, f32::INFINITY, -0.0, 0.0, f32::NEG_INFINITY][draw(5) as usize],
                            })
                            .collect();
                        for (start, len) in [(0, 1), (0, n.min(10)), (n / 2, 1), (0, n), (n / 100, n / 90 - n / 100)] {
                            for descending in [false, true] {
                                let range = SortedRange { axis: 0, descending, start, len };
                                let shape = Shape::new(&[n]).unwrap();
                                let lines = AxisLines::new(&shape, 0, &[&shape.strides()]);
                                let job = Job { range: &range, x: &x, base: 0, lines: &lines };
                                if len == 0 {
                                    continue;
                                }
                                let (mut values, mut at) = (vec![9.0f32; len], vec![-1; len]);
                                job.run::<u64>(&runtime, &mut values, &mut at).unwrap();
                                assert_eq!(at, expected(&x, &range), "{n} {kind} {start} {len} {descending}");
                                let mut again = vec![-1; len];
                                job.run::<u128>(&runtime, &mut values, &mut again).unwrap();
                                assert_eq!(at, again);
                                assert!(values.iter().zip(&at).all(|(v, &k)| v.to_bits() == x[k as usize].to_bits()));
                            }
                        }
                    }
                }
            }
        }
    }
}
