//! A program whose loop was compiled ahead of time, over as much as lies side by side; and how much any program takes at a time.
//! Must not know what is computed.
use super::{
    prefused::Loop,
    program::{Code, Register},
    tile::{TileRun, unexpected},
    tiles::{Lane, OutTile, Scratch, TILE, Tile},
};
use crate::{operand::internal, simd::lockstep::LoopStreams};
use adamant_runtime::{ErrorKind, expr::Reg};
use smallvec::SmallVec;

/// How much is taken at a time.
#[derive(Clone, Copy)]
pub(crate) enum Stretch {
    /// so many elements
    Elements(usize),
    /// to the end of a line of so many
    Lines(usize),
    /// a tile, or to the end of a line of so many
    TilesOf(usize),
}
impl Stretch {
    /// How many positions from `at` on.
    pub fn from(self, at: usize) -> usize {
        match self {
            Stretch::Elements(n) => n,
            Stretch::Lines(n) => n - at % n,
            Stretch::TilesOf(n) => TILE.min(n - at % n),
        }
    }
}
/// Shorter lines are gathered into tiles.
pub(crate) const LINE: usize = 512;
/// A number of one operand, or its elements.
enum LoadedOperand<'a> {
    Number(f32),
    Elements(&'a [f32]),
}

impl TileRun<'_> {
    /// How much [`TileRun::tile`] takes: a tile; several where all that is made is drawn into its output from what lies in
    /// memory; and where a loop that was compiled ahead of time reads and writes memory alone, any number of elements that lie side
    /// by side, or a line of those that are broadcast along others.
    pub fn stretch(&self) -> Stretch {
        if let Some(part) = &self.compiled {
            return match (part.is_whole, self.line_of(part)) {
                (true, None) => Stretch::Elements(usize::MAX),
                (true, Some(line)) => Stretch::Lines(line),
                (false, None) => Stretch::Elements(TILE),
                (false, Some(line)) => Stretch::TilesOf(line),
            };
        }
        let ahead = self.program.ahead.is_some();
        let drawn = |r: usize| self.into[r].is_some() && self.drawn.iter().any(|d| d.register as usize == r);
        let needs_none = |lies: &dyn Fn(usize) -> bool| {
            self.program.registers.iter().enumerate().all(|(r, register)| match register.code {
                Code::Load(k) if self.uniform[r].is_none() && !self.idle[r] => lies(k as usize),
                _ => self.uniform[r].is_some() || self.idle[r] || ahead || drawn(r),
            })
        };
        let writes_memory = || self.program.results.iter().enumerate().all(|(o, &r)| self.into[r as usize] == Some(o as u8));
        let is_dense = |k: usize| self.direct[k] || ahead && self.shared[k].is_some();
        let is_line = |k: usize| is_dense(k) || self.inputs[k].in_place.is_none() && matches!(self.nest.innermost_stride(k), 0 | 1);
        if needs_none(&is_dense) {
            return match ahead && writes_memory() {
                true => Stretch::Elements(usize::MAX),
                false if !self.drawn.is_empty() => Stretch::Elements(8 * TILE),
                false => Stretch::Elements(TILE),
            };
        }
        match self.nest.innermost() {
            line if line >= LINE && ahead && writes_memory() && needs_none(&is_line) => Stretch::Lines(line),
            // What is one number along a line is computed once for each tile.
            line if self.lines.contains(&true) => Stretch::TilesOf(line),
            _ => Stretch::Elements(TILE),
        }
    }
    /// Input `k` over a line, if it need not be gathered.
    fn line(&self, k: usize, at: usize, n: usize) -> Option<LoadedOperand<'_>> {
        if let Some(there) = self.lies(k, at, n) {
            return Some(LoadedOperand::Elements(there));
        }
        let input = &self.inputs[k];
        if input.in_place.is_some() || self.nest.innermost_stride(k) != 0 || at % self.nest.innermost() + n > self.nest.innermost() {
            return None;
        }
        let start = (input.layout.offset as isize + self.nest.offset(k, at)) as usize * size_of::<f32>();
        let number = input.bytes.get(start..start + size_of::<f32>())?;
        Some(LoadedOperand::Number(bytemuck::pod_read_unaligned(number)))
    }
    /// Runs the loop that was compiled ahead of time.
    ///
    /// # Errors
    /// Operands that do not fit the program.
    pub(super) fn run_ahead(&self, ahead: Loop, at: usize, n: usize, scratch: &mut Scratch, outs: &mut [OutTile<'_>]) -> Result<(), ErrorKind> {
        let program = self.program;
        let takes = || program.registers.iter().enumerate().filter(|(_, r)| matches!(r.code, Code::Load(_) | Code::Arg(_) | Code::Const(_)));
        let mut loaded: SmallVec<[Option<LoadedOperand<'_>>; 8]> = SmallVec::new();
        for (r, register) in takes().filter(|(r, _)| self.uniform[*r].is_none()) {
            let Code::Load(k) = register.code else { return unexpected() };
            let k = k as usize;
            let line = if self.shared[k].is_none() { self.line(k, at, n) } else { None };
            if line.is_none() && self.shared[k].is_none() {
                self.execute(r, at, n, scratch, outs)?;
            }
            loaded.push(line);
        }
        let is_into = |k: usize, r: Reg| self.into[r as usize] == Some(k as u8);
        let in_tiles = program.results.iter().enumerate().filter(|(k, r)| !is_into(*k, **r)).map(|(_, &r)| program.registers[r as usize].slot);
        let mut tiles: SmallVec<[(u16, Tile<f32>); 2]> = in_tiles.map(|slot| (slot, scratch.f32.take(slot))).collect();
        let mut streams = LoopStreams::new(n);
        // What lies behind the outputs is only read.
        let (written, beside) = outs.split_at_mut(program.results.len().min(outs.len()));
        let count = written.len();
        let (mut places, mut rooms) = (written.iter_mut(), tiles.iter_mut());
        for (k, &r) in program.results.iter().enumerate() {
            let place = places.next();
            match (place, is_into(k, r)) {
                (Some(out), true) => {
                    let range = out.range(at, n);
                    streams.write(bytemuck::cast_slice_mut(&mut out.bytes[range]));
                }
                _ => streams.write(rooms.next().map(|(_, tile)| &mut tile.values_mut()[..n]).ok_or_else(|| internal("a result without a place"))?),
            }
        }
        let mut loaded = loaded.into_iter();
        for (r, register) in takes() {
            match (self.uniform[r], register) {
                (Some(v), Register { code: Code::Load(_), .. }) => streams.repeat(f32::of(v)),
                (Some(v), _) => streams.number(f32::of(v)),
                (None, Register { code: Code::Load(k), slot, .. }) => match (loaded.next().flatten(), self.shared[*k as usize]) {
                    (Some(LoadedOperand::Number(v)), _) => streams.repeat(v),
                    (Some(LoadedOperand::Elements(there)), _) if self.direct[*k as usize] => streams.read_on(there),
                    (Some(LoadedOperand::Elements(there)), _) => streams.read(there),
                    (None, Some(o)) => match (o as usize).checked_sub(count).and_then(|o| beside.get(o)) {
                        Some(there) => streams.read(bytemuck::cast_slice(&there.bytes[there.range(at, n)])),
                        None => streams.read_output(o as usize),
                    },
                    (None, None) => streams.read(&scratch.f32.values(*slot)[..n]),
                },
                _ => return unexpected(),
            }
        }
        if self.streamed {
            streams.past_caches();
        }
        let done = ahead(self.isa, &streams);
        for (slot, tile) in tiles {
            scratch.f32.put(slot, tile);
        }
        if done { Ok(()) } else { unexpected() }
    }
}
