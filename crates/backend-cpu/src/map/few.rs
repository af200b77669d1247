//! Programs of f32 numbers and truth values over a few elements that lie side by side, each register in one tile: what small
//! eager work and small models run where no loop was compiled ahead of time. Binding such a program to a nest would cost some
//! thousand instructions, more than its elements do. Computes with the loops the interpreter uses, so the bits are the same.
//! Must not know nests or locks.
use super::{
    direct::FEW,
    load,
    loops::{self, Src},
    program::{Code, Program, Register, TileKind},
    tile::scalar_value,
    tiles::{Lane, Scratch, TILE, with_scratch},
};
use crate::{isa::Isa, operand::In};
use adamant_runtime::{DType, Scalar, expr::Reg};
use bytemuck::AnyBitPattern;
use smallvec::SmallVec;

/// The most registers.
const REGISTERS: usize = 16;
/// Lines that are shorter cost more than tiles would, unless they are few.
const SHORTEST: usize = 8;
const FEW_LINES: usize = 4;

/// Can a program with these results be run here? It makes f32 numbers of numbers and truth values.
pub(super) fn fits(registers: &[Register], results: &[Reg]) -> bool {
    let of = |r: Reg| registers.get(r as usize).map(|r| r.dtype);
    let is_known = |r: &Register| match (r.dtype, r.code) {
        (DType::F32, Code::Load(_) | Code::Arg(_) | Code::Const(_) | Code::RealUnary(..) | Code::RealBinary(..) | Code::Select(..)) => true,
        (DType::F32, Code::Cast(x)) => of(x) == Some(DType::Bool),
        (DType::Bool, Code::Load(_) | Code::BoolUnary(..) | Code::BoolBinary(..)) => true,
        (DType::Bool, Code::Compare(_, x, _) | Code::RealTest(_, x) | Code::RealPredicate(_, x, _)) => of(x) == Some(DType::F32),
        _ => false,
    };
    // The last instruction of a program with one result writes it, and nothing may be left to compute behind it.
    let is_single = registers.len().checked_sub(1).is_some_and(|last| results == [last as Reg]);
    let ends = results.len() > 1 || is_single;
    registers.len() <= REGISTERS && ends && results.iter().all(|&r| of(r) == Some(DType::F32)) && registers.iter().all(is_known)
}

/// How an input lies along the elements.
pub(super) enum Along<'a, T> {
    /// an element for each
    Each(&'a [T]),
    /// an element for each column
    Row(&'a [T]),
    /// one for all
    One(T),
}
impl<'a, T: AnyBitPattern> Along<'a, T> {
    /// `None`: it lies otherwise.
    fn new(i: &In<'a>, n: usize, columns: usize) -> Option<Along<'a, T>> {
        if i.shape.elements() != n {
            return None;
        }
        if i.is_dense {
            return i.dense().ok().map(Along::Each);
        }
        let last = i.shape.rank().checked_sub(1)?;
        let rest = i.elements::<T>().ok()?.get(i.layout.offset..)?;
        let stands = |axes: std::ops::Range<usize>| axes.into_iter().all(|a| i.shape[a] == 1 || i.layout.strides[a] == 0);
        match () {
            () if stands(0..last + 1) => rest.first().copied().map(Along::One),
            () if stands(0..last) && i.shape[last] == columns && i.layout.strides[last] == 1 => rest.get(..columns).map(Along::Row),
            () => None,
        }
    }
    /// Over so many elements from one on, which lie within a row.
    fn part(&self, at: usize, count: usize) -> Option<Src<'a, T>> {
        match *self {
            Along::Each(all) => all.get(at..at + count).map(Src::Slice),
            Along::Row(row) => row.get(at % row.len()..at % row.len() + count).map(Src::Slice),
            Along::One(v) => Some(Src::Splat(v)),
        }
    }
}
/// What a program reads.
pub(super) enum GivenInput<'a> {
    /// what this output holds before it is written
    Output(usize),
    Numbers(Along<'a, f32>),
    Truths(Along<'a, u8>),
}
impl<'a> GivenInput<'a> {
    /// `None`: it lies otherwise than what is read here.
    pub fn new(i: &In<'a>, n: usize, columns: usize) -> Option<GivenInput<'a>> {
        match i.dtype {
            DType::F32 => match i.in_place {
                Some(o) => Some(GivenInput::Output(o)),
                None => Along::new(i, n, columns).map(GivenInput::Numbers),
            },
            DType::Bool if i.in_place.is_none() => Along::new(i, n, columns).map(GivenInput::Truths),
            _ => None,
        }
    }
    pub fn is_row(&self) -> bool {
        matches!(self, GivenInput::Numbers(Along::Row(_)) | GivenInput::Truths(Along::Row(_)))
    }
    /// As the loops over f32 read it; `None` also for what the output holds.
    pub fn numbers(&self, at: usize, count: usize) -> Option<Src<'a, f32>> {
        if let GivenInput::Numbers(along) = self { along.part(at, count) } else { None }
    }
}
/// How many elements belong together where something has one for each column; `None` if those are too few for so many lines.
pub(super) fn line(given: &[GivenInput<'_>], n: usize, columns: usize) -> Option<usize> {
    let line = if given.iter().any(GivenInput::is_row) { columns } else { n };
    (line >= SHORTEST || line > 0 && n / line <= FEW_LINES).then_some(line)
}

/// What a program writes.
pub(super) type Outs<'o> = SmallVec<[&'o mut [f32]; 2]>;
/// Runs a program over `n` elements, which are few and whose last axis has so many columns. `None`: it is none of those programs,
/// or an input lies otherwise, all of which is known before anything is written, and nothing was done.
pub(super) fn run(program: &Program, isa: Isa, args: &[Scalar], given: &[GivenInput<'_>], n: usize, columns: usize, outs: &mut Outs<'_>) -> Option<()> {
    if n > FEW.min(TILE) || !program.few || !agree(program, args, given, outs.len()) || outs.iter().any(|out| out.len() != n) {
        return None;
    }
    let line = line(given, n, columns)?;
    with_scratch(|scratch| (0..n).step_by(line).try_for_each(|at| run_line(program, isa, args, given, [at, line], scratch, outs)))
}
/// Is there all that the program loads, of its kind, and a place for each result?
fn agree(program: &Program, args: &[Scalar], given: &[GivenInput<'_>], outs: usize) -> bool {
    let is_loaded = |r: &Register, given: &GivenInput<'_>| match given {
        GivenInput::Truths(_) => r.kind == TileKind::Bool,
        GivenInput::Numbers(_) => r.kind == TileKind::F32,
        GivenInput::Output(o) => r.kind == TileKind::F32 && *o < outs,
    };
    let loads = program.registers.iter().all(|r| match r.code {
        Code::Load(k) => given.get(k as usize).is_some_and(|given| is_loaded(r, given)),
        Code::Arg(k) => (k as usize) < args.len(),
        _ => true,
    });
    loads && program.results.len() == outs
}

/// Where a register's values are.
#[derive(Clone, Copy)]
enum HeldRegister<'a> {
    Numbers(Src<'a, f32>),
    Truths(Src<'a, u8>),
    /// in the tile of this slot
    Tile(u16),
}
fn run_line(
    program: &Program,
    isa: Isa,
    args: &[Scalar],
    given: &[GivenInput<'_>],
    [at, n]: [usize; 2],
    scratch: &mut Scratch,
    outs: &mut Outs<'_>,
) -> Option<()> {
    let mut held: SmallVec<[HeldRegister<'_>; REGISTERS]> = SmallVec::new();
    let number = |s: Scalar| HeldRegister::Numbers(Src::Splat(f32::of(scalar_value(s, DType::F32))));
    let last = program.registers.len() - 1;
    for (r, register) in program.registers.iter().enumerate() {
        let slot = register.slot;
        held.push(match register.code {
            Code::Load(k) => match given.get(k as usize)? {
                GivenInput::Truths(along) => HeldRegister::Truths(along.part(at, n)?),
                GivenInput::Numbers(along) => HeldRegister::Numbers(along.part(at, n)?),
                GivenInput::Output(o) => {
                    let mut tile = scratch.f32.take(slot);
                    tile.values_mut()[..n].copy_from_slice(&outs.get(*o)?[at..at + n]);
                    scratch.f32.put(slot, tile);
                    HeldRegister::Tile(slot)
                }
            },
            Code::Arg(k) => number(*args.get(k as usize)?),
            Code::Const(s) => number(s),
            code if r == last && program.results.len() == 1 => return MadeRegisters { held: &held, scratch, n }.numbers(code, isa, &mut outs[0][at..at + n]),
            // A tile is taken out while it is written: no instruction reads what it writes.
            code if register.kind == TileKind::Bool => {
                let mut tile = u8::tiles_mut(scratch).take(slot);
                let made = MadeRegisters { held: &held, scratch, n }.truths(code, isa, &mut tile.values_mut()[..n]);
                u8::tiles_mut(scratch).put(slot, tile);
                made?;
                HeldRegister::Tile(slot)
            }
            code => {
                let mut tile = scratch.f32.take(slot);
                let made = MadeRegisters { held: &held, scratch, n }.numbers(code, isa, &mut tile.values_mut()[..n]);
                scratch.f32.put(slot, tile);
                made?;
                HeldRegister::Tile(slot)
            }
        });
    }
    for (out, &r) in outs.iter_mut().zip(&program.results) {
        match (MadeRegisters { held: &held, scratch, n }).number(r)? {
            Src::Slice(made) => out[at..at + n].copy_from_slice(made),
            Src::Splat(number) => out[at..at + n].fill(number),
        }
    }
    Some(())
}
/// What an instruction may read: the registers before its own.
struct MadeRegisters<'s> {
    held: &'s [HeldRegister<'s>],
    scratch: &'s Scratch,
    n: usize,
}
impl<'s> MadeRegisters<'s> {
    fn number(&self, r: Reg) -> Option<Src<'s, f32>> {
        match *self.held.get(r as usize)? {
            HeldRegister::Numbers(src) => Some(src),
            HeldRegister::Tile(slot) => Some(Src::Slice(&self.scratch.f32.values(slot)[..self.n])),
            HeldRegister::Truths(_) => None,
        }
    }
    fn truth(&self, r: Reg) -> Option<Src<'s, u8>> {
        match *self.held.get(r as usize)? {
            HeldRegister::Truths(src) => Some(src),
            HeldRegister::Tile(slot) => Some(Src::Slice(&u8::tiles(self.scratch).values(slot)[..self.n])),
            HeldRegister::Numbers(_) => None,
        }
    }
    fn numbers(&self, code: Code, isa: Isa, out: &mut [f32]) -> Option<()> {
        match code {
            Code::RealUnary(f, x) => loops::one(self.number(x)?, out, |x, out| loops::real_unary(isa, f, x, out)),
            Code::RealBinary(f, x, y) => loops::real_binary(isa, f, self.number(x)?, self.number(y)?, out),
            Code::Select(c, x, y) => loops::select(isa, self.truth(c)?, self.number(x)?, self.number(y)?, out),
            Code::Cast(x) => loops::one(self.truth(x)?, out, |x, out| load::cast_real(isa, x, out, false)),
            _ => return None,
        }
        Some(())
    }
    fn truths(&self, code: Code, isa: Isa, out: &mut [u8]) -> Option<()> {
        match code {
            Code::Compare(f, x, y) => loops::compare(isa, f, self.number(x)?, self.number(y)?, out),
            Code::RealTest(f, x) => loops::one(self.number(x)?, out, |x, out| loops::real_test(isa, f, x, out)),
            Code::RealPredicate(f, x, y) => loops::real_predicate(isa, f, self.number(x)?, self.number(y)?, out),
            Code::BoolUnary(table, x) => loops::one(self.truth(x)?, out, |x, out| loops::bool_unary(table, x, out)),
            Code::BoolBinary(table, x, y) => loops::bool_binary(table, self.truth(x)?, self.truth(y)?, out),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
