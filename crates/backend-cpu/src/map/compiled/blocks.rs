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
    /// Takes the compiled loop that combines a result by blocks, for rows of `row` elements, if there is one. Then there are no tiles:
    /// [`TileRun::combine`] is all that runs.
    pub fn compile_blocks(&mut self, result: Reg, op: ReduceOp, row: usize, n: usize) -> bool {
        let Some(form) = self.form(&[], n).filter(|_| self.inputs.iter().all(|i| i.in_place.is_none())) else { return false };
        let form = LoopForm { combines: Some(op), ..form };
        let Some(part) = self.program.compiled.get(self.program, &form, &[result]) else { return false };
        // A block lies in a line.
        let fits = |line: usize| line.is_multiple_of(row) || line.is_multiple_of(BLOCK) && row.is_multiple_of(line);
        let does = self.line_of(&part).is_none_or(fits);
        self.compiled = Some(part).filter(|_| does);
        does
    }
    /// How many elements from position `at` on the loop over blocks can go over at a time.
    pub fn reach(&self, at: usize) -> usize {
        self.compiled.as_ref().and_then(|part| self.line_of(part)).map_or(usize::MAX, |line| line - at % line)
    }
    /// Combines blocks from position `at` on, no further than the loop of [`TileRun::compile_blocks`] reaches, into the lanes of each.
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
