//! Loops that combine the elements of blocks, for reductions: what is computed goes into lanes and nowhere else.
use super::{LoopForm, StreamSource, Stretched};
use crate::{
    jit::{LaneBlocks, LoopCall},
    map::{
        tile::{self, TileRun},
        tiles::{Lane, Scratch},
    },
    reduce::tree::BLOCK,
};
use adamant_runtime::{ErrorKind, expr::Reg, op::ReduceOp};

impl TileRun<'_> {
    /// As [`TileRun::compile`] for a result that is reduced. Where rows of `row` elements may be combined by blocks and there is a loop for
    /// that, it is taken, and true is returned: then there are no tiles, and [`TileRun::combine`] is all that runs.
    pub fn compile_reduction(&mut self, result: Reg, op: ReduceOp, row: Option<usize>, n: usize) -> bool {
        let has_other = self.program.ahead.is_some();
        let Some(form) = self.form(&[], n).filter(|_| row.is_some() || !has_other) else { return false };
        if let Some(row) = row.filter(|_| self.inputs.iter().all(|i| i.in_place.is_none())) {
            let form = LoopForm { combines: Some(op), ..form.clone() };
            // A block lies in a line.
            let fits = |line: usize| line.is_multiple_of(row) || line.is_multiple_of(BLOCK) && row.is_multiple_of(line);
            let part = self.program.compiled.get(self.program, &form, &[result]);
            self.compiled = part.filter(|part| self.line_of(part).is_none_or(fits));
        }
        let by_blocks = self.compiled.is_some();
        if !by_blocks && !has_other {
            self.take(&form, &[result], &[]);
        }
        by_blocks
    }
    /// How many elements from position `at` on the loop over blocks can go over at a time.
    pub fn reach(&self, at: usize) -> usize {
        self.compiled.as_ref().and_then(|part| self.line_of(part)).map_or(usize::MAX, |line| line - at % line)
    }
    /// Combines blocks from position `at` on, no further than the loop of [`TileRun::compile_reduction`] reaches, into the lanes of each.
    ///
    /// # Errors
    /// Operands that do not fit the program.
    pub fn combine<T: Lane>(&self, at: usize, blocks: LaneBlocks, scratch: &mut Scratch, lanes: &mut [T]) -> Result<(), ErrorKind> {
        let (Some(part), n) = (&self.compiled, blocks.span()) else { return tile::unexpected() };
        let mut numbers = part.before.iter().map(|&r| r as usize).filter(|&r| self.uniform[r].is_none());
        numbers.try_for_each(|r| self.execute(r, at, 1, scratch, &mut []))?;
        let mut call = LoopCall::over(&part.code, blocks);
        self.number(part, Stretched { at, n: 1, done: 0, count: n }, scratch, &mut call)?;
        for source in &part.reads {
            match *source {
                StreamSource::Input(k) => call.read(self.memory(k as usize, at, n)),
                StreamSource::Column => call.read(self.columns(at, n)),
                StreamSource::Tile(_) => return tile::unexpected(),
            }
        }
        call.write(bytemuck::cast_slice_mut(lanes));
        call.run();
        Ok(())
    }
}
