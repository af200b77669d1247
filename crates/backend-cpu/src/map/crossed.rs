//! Operands that lie across the order of a space, a transposed matrix beside one that is not: read in that order, each element would be
//! in another cache line. They are straightened first, by blocks as a copy transposes them, some rows of the space at a time, so that
//! what is straightened stays in the cache until it is read.
use super::{Outputs, Program, execute, nest};
use crate::{
    copy::{self, SIDE},
    device::Runtime,
    operand::{In, Out},
    scratch::{ScratchVec, filled},
};
use adamant_runtime::{ErrorKind, Layout, Shape, expr::Reg, kernel::Step};
use smallvec::SmallVec;

/// So few elements are as well read across.
const FEWEST: usize = 16 * 1024;
/// Bytes that are straightened at a time, unless a few rows have more.
const TOGETHER: usize = 1 << 20;
/// Rows that are worth straightening: a cache line holds as many.
const LEAST_ROWS: usize = 16;
/// Bytes beyond which nothing is straightened.
const MOST: usize = 64 << 20;

/// The way through a space with operands that lie across it.
pub(super) struct Crossed {
    /// the operands, and where they are straightened
    operands: SmallVec<[(usize, ScratchVec<u64>); 4]>,
    /// the axis that is cut
    axis: usize,
    /// how much of it is gone through at a time
    rows: usize,
}
impl Crossed {
    /// `None`: no operand lies across the space, or there is no memory to straighten it in.
    pub fn of(program: &Program, space: &Shape, inputs: &[In<'_>]) -> Option<Crossed> {
        let n = space.elements();
        // Draws and coordinates are those of the whole space.
        if n < FEWEST || program.draws || !program.indices.is_empty() || inputs.iter().any(|i| i.in_place.is_some()) {
            return None;
        }
        let across: SmallVec<[usize; 4]> = (0..inputs.len()).filter(|&k| lies_across(space, &inputs[k])).collect();
        let axis = (0..space.rank()).find(|&a| space[a] > 1)?;
        let row = n / space[axis];
        let bytes: usize = across.iter().map(|&k| row * inputs[k].dtype.size()).sum();
        if across.is_empty() || LEAST_ROWS * bytes > MOST {
            return None;
        }
        let rows = (TOGETHER / bytes).max(LEAST_ROWS);
        // Whole blocks.
        let rows = if rows > SIDE { rows / SIDE * SIDE } else { rows }.min(space[axis]);
        let words = |k: usize| (row * rows * inputs[k].dtype.size()).div_ceil(size_of::<u64>());
        let operands = across.into_iter().map(|k| Some((k, filled(0, words(k)).ok()?))).collect::<Option<_>>()?;
        Some(Crossed { operands, axis, rows })
    }
    /// Runs a program over the space; `rest` are its outputs.
    ///
    /// # Errors
    /// Operands that do not fit the program.
    pub fn run(
        mut self,
        runtime: &Runtime,
        program: &Program,
        step: &Step<'_>,
        results: &[Reg],
        inputs: &[In<'_>],
        mut rest: Outputs<'_>,
    ) -> Result<(), ErrorKind> {
        let (space, axis) = (&step.space, self.axis);
        let row = space.elements() / space[axis];
        for first in (0..space[axis]).step_by(self.rows) {
            let count = self.rows.min(space[axis] - first);
            let part = space.with(axis, count);
            let n = row * count;
            let mut taken: SmallVec<[In<'_>; 8]> = inputs.iter().map(|input| rows_of(input, axis, first, part)).collect();
            for (k, straight) in &mut self.operands {
                let across = &mut taken[*k];
                let bytes = &mut bytemuck::cast_slice_mut(&mut straight[..])[..n * across.dtype.size()];
                let layout = Layout::dense(&part);
                copy::run(runtime, &part, &[*across], &mut [Out { bytes: &mut *bytes, shape: part, layout, dtype: across.dtype, is_dense: true }])?;
                *across = In { bytes, layout, is_dense: true, ..*across };
            }
            let mut outs: Outputs<'_> = SmallVec::new();
            for (bytes, dtype) in &mut rest {
                let (head, tail) = std::mem::take(bytes).split_at_mut(n * dtype.size());
                *bytes = tail;
                outs.push((head, *dtype));
            }
            execute(runtime, program, nest(program, &part, 0..part.rank(), &taken), n, results, &taken, outs, step.args, step.fault)?;
        }
        Ok(())
    }
}
/// Some rows of an operand.
fn rows_of<'a>(input: &In<'a>, axis: usize, first: usize, part: Shape) -> In<'a> {
    let offset = input.layout.offset as isize + first as isize * input.layout.strides[axis];
    let layout = Layout { offset: offset as usize, ..input.layout };
    In { shape: part, layout, is_dense: layout.is_dense(&part), ..*input }
}
/// Are an operand's neighbours not those of the space, but those along another of its axes?
fn lies_across(space: &Shape, input: &In<'_>) -> bool {
    let mut long = (0..space.rank()).filter(|&a| space[a] > 1);
    let strides = &input.layout.strides;
    let Some(last) = long.next_back() else { return false };
    strides[last].unsigned_abs() > 1
        && *input.shape == **space
        && long.clone().all(|a| strides[a] != 0)
        && long.any(|a| strides[a] == 1 && space[a] >= LEAST_ROWS / 2)
}
