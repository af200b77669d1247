//! Rows that a compiled loop combines as it computes them: no element goes through memory. The loop gives the lanes of each block, which
//! are folded here, so the tree is that of all other ways.
use super::{
    Job, Loops, TOGETHER,
    tree::{BLOCK, LANES, ReducedElement, Total},
    write,
};
use crate::{jit::LaneBlocks, map::tiles::Scratch};
use adamant_runtime::ErrorKind;

/// The lanes of as many blocks as are folded at a time, and what they are folded to.
pub(super) struct BlockBuffers<T> {
    lanes: [T; TOGETHER * LANES],
    last: [T; TOGETHER * LANES],
    folded: [T; TOGETHER],
}
impl<T: ReducedElement> BlockBuffers<T> {
    pub fn new() -> BlockBuffers<T> {
        BlockBuffers { lanes: [T::default(); TOGETHER * LANES], last: [T::default(); TOGETHER * LANES], folded: [T::default(); TOGETHER] }
    }
    fn fold(&mut self, job: &Job<'_>, loops: &Loops<T>, count: usize) -> &[T] {
        (loops.fold)(job.run.isa, &self.lanes[..count * LANES], &mut self.folded[..count]);
        &self.folded[..count]
    }
    /// Whole blocks that lie one behind the other, folded.
    fn whole(&mut self, job: &Job<'_>, loops: &Loops<T>, at: usize, count: usize, scratch: &mut Scratch) -> Result<&[T], ErrorKind> {
        job.run.combine(at, LaneBlocks { count, block: BLOCK, step: BLOCK }, scratch, &mut self.lanes[..count * LANES])?;
        Ok(self.fold(job, loops, count))
    }
    /// Blocks of `n` elements every `step` from `at` on, each at the end of [`LANES`] elements of its row or more, folded.
    fn short(&mut self, job: &Job<'_>, loops: &Loops<T>, of: ShortBlocks, scratch: &mut Scratch) -> Result<&[T], ErrorKind> {
        let ShortBlocks { at, n, step, count } = of;
        let lanes = &mut self.lanes[..count * LANES];
        let whole = n / LANES * LANES;
        match whole {
            0 => lanes.fill(loops.identity),
            block => job.run.combine(at, LaneBlocks { count, block, step }, scratch, lanes)?,
        }
        let rest = n - whole;
        if rest > 0 {
            // The last elements as the last of so many that there is one for each lane.
            let last = &mut self.last[..count * LANES];
            job.run.combine(at + n - LANES, LaneBlocks { count, block: LANES, step: step.max(LANES) }, scratch, last)?;
            for (lanes, last) in lanes.chunks_exact_mut(LANES).zip(last.chunks_exact(LANES)) {
                lanes.iter_mut().zip(&last[LANES - rest..]).for_each(|(lane, &v)| *lane = (loops.lanes)(*lane, v));
            }
        }
        Ok(self.fold(job, loops, count))
    }
    /// Pushes the blocks of `n` elements from `start` on.
    pub fn push_row(
        &mut self,
        job: &Job<'_>,
        loops: &Loops<T>,
        (start, n): (usize, usize),
        total: &mut Total<T>,
        scratch: &mut Scratch,
    ) -> Result<(), ErrorKind> {
        let whole = n / BLOCK * BLOCK;
        let mut at = 0;
        while at < whole {
            let count = ((whole - at).min(job.run.reach(start + at)) / BLOCK).min(TOGETHER);
            (loops.push)(total, self.whole(job, loops, start + at, count, scratch)?);
            at += count * BLOCK;
        }
        if whole < n {
            // A row has at least as many elements as there are lanes: what is missing to them lies before.
            let rest = ShortBlocks { at: start + whole, n: n - whole, step: n - whole, count: 1 };
            (loops.push)(total, self.short(job, loops, rest, scratch)?);
        }
        Ok(())
    }
}
struct ShortBlocks {
    at: usize,
    n: usize,
    step: usize,
    count: usize,
}

/// Outputs that are rows, from row `first` on.
pub(super) fn rows<T: ReducedElement>(job: &Job<'_>, loops: &Loops<T>, first: usize, out: &mut [u8], scratch: &mut Scratch) -> Result<(), ErrorKind> {
    let (n, size) = (job.reduced, job.dtype.size());
    let mut buffers = BlockBuffers::new();
    let mut totals = [loops.identity.widen(); TOGETHER];
    let rows = out.len() / size;
    let mut row = 0;
    while row < rows {
        let at = (first + row) * n;
        // Rows that the loop goes over in one call.
        let within = (job.run.reach(at) / n).min(rows - row);
        let count = if n < BLOCK {
            let count = within.min(TOGETHER);
            let blocks = buffers.short(job, loops, ShortBlocks { at, n, step: n, count }, scratch)?;
            (loops.each)(blocks, &mut totals[..count]);
            count
        } else if n.is_multiple_of(BLOCK) && n / BLOCK * 2 <= TOGETHER && within > 1 {
            let of_row = n / BLOCK;
            let count = within.min(TOGETHER / of_row);
            let blocks = buffers.whole(job, loops, at, count * of_row, scratch)?;
            for (blocks, to) in blocks.chunks_exact(of_row).zip(&mut totals) {
                let mut total = loops.none();
                (loops.push)(&mut total, blocks);
                *to = (loops.total)(total);
            }
            count
        } else {
            let mut total = loops.none();
            buffers.push_row(job, loops, (at, n), &mut total, scratch)?;
            totals[0] = (loops.total)(total);
            1
        };
        write::<T>(job.run.isa, totals[..count].iter().copied(), job.dtype, &mut out[row * size..(row + count) * size]);
        row += count;
    }
    Ok(())
}
