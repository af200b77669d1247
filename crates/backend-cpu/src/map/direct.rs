//! Programs over a few elements that lie side by side: the shape of small eager work and of small models, where binding a
//! program to tiles, or only its operands to slices, would cost more than the elements do. Computes with the loops the
//! tiles use, so the bits are the same. Must not know nests or tiles.
use super::{
    few::{self, GivenInput},
    loops::{self, Real, RealBinary, RealUnary, Src},
    prefused::Loop,
    program::{Code, Program, Register},
    tile::scalar_value,
    tiles::Lane,
};
use crate::{
    isa::Isa,
    operand::{In, Read, Write, host, host_mut, whole, whole_mut},
    simd::lockstep::LoopStreams,
};
use adamant_runtime::{
    DType, Scalar,
    expr::Reg,
    kernel::{Operand, Step},
};
use bytemuck::{AnyBitPattern, NoUninit};
use smallvec::{SmallVec, smallvec};

/// Up to so many elements; above, tiles and threads pay.
pub(crate) const FEW: usize = 1024;

/// A program that is one function of floats.
pub(crate) struct Single {
    function: LoopFunction,
    dtype: DType,
}
enum LoopFunction {
    Unary(RealUnary, Source),
    Binary(RealBinary, Source, Source),
}
#[derive(Clone, Copy)]
enum Source {
    Input(u16),
    Arg(u16),
    Const(Scalar),
}

impl Single {
    /// The program as one function, if it is one: loads and numbers, then a function of them as the only result.
    pub fn of(registers: &[Register], results: &[Reg]) -> Option<Single> {
        let (last, before) = registers.split_last()?;
        if results != [before.len() as Reg] || !matches!(last.dtype, DType::F32 | DType::F64) {
            return None;
        }
        let operand = |r: Reg| match before.get(r as usize) {
            Some(x) if x.dtype != last.dtype => None,
            Some(Register { code: Code::Load(k), .. }) => Some(Source::Input(*k)),
            Some(Register { code: Code::Arg(k), .. }) => Some(Source::Arg(*k)),
            Some(Register { code: Code::Const(s), .. }) => Some(Source::Const(*s)),
            _ => None,
        };
        let function = match last.code {
            Code::RealUnary(f, x) => LoopFunction::Unary(f, operand(x)?),
            Code::RealBinary(f, x, y) => LoopFunction::Binary(f, operand(x)?, operand(y)?),
            _ => return None,
        };
        Some(Single { function, dtype: last.dtype })
    }
    /// Computes it. `None`: the operands are too many, share memory in another way than place by place or lie otherwise, and
    /// nothing was done.
    pub fn run(&self, isa: Isa, step: &Step<'_>) -> Option<()> {
        let [out] = step.outputs else { return None };
        let fits = |o: &Operand<'_>| lies_as(step, o, self.dtype);
        if step.space.elements() > FEW || !fits(out) || !step.inputs.iter().all(fits) {
            return None;
        }
        match self.dtype {
            DType::F32 => self.typed::<f32>(isa, step, out),
            _ => self.typed::<f64>(isa, step, out),
        }
    }
    fn typed<T: Real + bytemuck::Pod>(&self, isa: Isa, step: &Step<'_>, out: &Operand<'_>) -> Option<()> {
        match step.inputs {
            [x] if !shares(x, out) => {
                let (read, mut write) = (x.buffer.read(), out.buffer.write());
                self.over::<T, 1>(isa, step, [elements(&read, x)?], elements_mut(&mut write, out)?)
            }
            [x, y] if !shares(x, y) && !shares(x, out) && !shares(y, out) => {
                let (read_x, read_y, mut write) = (x.buffer.read(), y.buffer.read(), out.buffer.write());
                self.over::<T, 2>(isa, step, [elements(&read_x, x)?, elements(&read_y, y)?], elements_mut(&mut write, out)?)
            }
            [x] if x.offset == out.offset => {
                let mut write = out.buffer.write();
                let out = elements_mut::<T>(&mut write, out)?;
                self.over(isa, step, [&before(out)], out)
            }
            [x, y] if !shares(x, y) => {
                let (inside, apart) = if shares(x, out) { (x, y) } else { (y, x) };
                if inside.offset != out.offset {
                    return None;
                }
                let (read, mut write) = (apart.buffer.read(), out.buffer.write());
                let out = elements_mut::<T>(&mut write, out)?;
                let (before, apart): (_, &[T]) = (before(out), elements(&read, apart)?);
                self.over(isa, step, if std::ptr::eq(inside, x) { [&before, apart] } else { [apart, &before] }, out)
            }
            _ => None,
        }
    }
    #[inline]
    fn over<T: Real, const N: usize>(&self, isa: Isa, step: &Step<'_>, inputs: [&[T]; N], out: &mut [T]) -> Option<()> {
        self.apply(isa, step.args, |k| inputs.get(k as usize).copied().map(Src::Slice), out)
    }
    /// Computes it over a row of sums, which are its first input.
    fn behind<'a>(&self, isa: Isa, args: &[Scalar], beside: impl Fn(u16) -> Option<Src<'a, f32>>, row: &mut [f32]) -> Option<()> {
        let sums = before(row);
        self.apply(isa, args, |k| if k == 0 { Some(Src::Slice(&sums)) } else { beside(k) }, row)
    }
    fn apply<'a, T: Real + 'a>(&self, isa: Isa, args: &[Scalar], input: impl Fn(u16) -> Option<Src<'a, T>>, out: &mut [T]) -> Option<()> {
        let source = |o: Source| -> Option<Src<'a, T>> {
            match o {
                Source::Input(k) => input(k),
                Source::Arg(k) => args.get(k as usize).map(|s| Src::Splat(T::nearest(s.to_f64()))),
                Source::Const(s) => Some(Src::Splat(T::nearest(s.to_f64()))),
            }
        };
        match self.function {
            LoopFunction::Binary(f, x, y) => loops::real_binary(isa, f, source(x)?, source(y)?, out),
            LoopFunction::Unary(f, x) => match source(x)? {
                Src::Slice(x) => loops::real_unary(isa, f, x, out),
                Src::Splat(_) => return None,
            },
        }
        Some(())
    }
}
/// What will be overwritten, to be read.
fn before<T: Copy>(out: &[T]) -> SmallVec<[T; 32]> {
    SmallVec::from_slice(out)
}
/// Where the loop finds what an input of it holds.
enum InputFrom {
    /// in the memory of an output, place by place
    Output(usize),
    /// elements under a lock
    Elements(usize),
    /// one number for all under a lock
    Number(usize),
}
/// Runs the loop that was compiled ahead of time for a program. `None`: the operands share memory in another way than place by
/// place or lie otherwise, and nothing was done.
pub(crate) fn run_ahead(ahead: Loop, program: &Program, isa: Isa, step: &Step<'_>) -> Option<()> {
    let n = step.space.elements();
    let fits = |o: &Operand<'_>| lies_as(step, o, DType::F32);
    let outputs = step.outputs;
    let are_apart = || outputs.iter().enumerate().all(|(k, o)| !outputs[..k].iter().any(|p| shares(o, p)));
    if n > FEW || outputs.len() != program.results.len() || !outputs.iter().all(fits) || !are_apart() {
        return None;
    }
    let mut read: SmallVec<[Read<'_>; 12]> = SmallVec::new();
    let mut from: SmallVec<[InputFrom; 12]> = SmallVec::new();
    for (k, i) in step.inputs.iter().enumerate() {
        let is_dense = fits(i);
        if let Some(o) = outputs.iter().position(|o| shares(i, o)) {
            if !is_dense || i.offset != outputs[o].offset {
                return None;
            }
            from.push(InputFrom::Output(o));
            continue;
        }
        let is_number = || i.dtype == DType::F32 && i.shape == step.space && (0..i.shape.rank()).all(|a| i.shape[a] == 1 || i.strides[a] == 0);
        if !is_dense && !is_number() {
            return None;
        }
        // A second lock of one buffer could wait behind a writer that waits for the first.
        let guard = match step.inputs[..k].iter().position(|p| shares(i, p)) {
            Some(p) => match from[p] {
                InputFrom::Elements(g) | InputFrom::Number(g) => g,
                InputFrom::Output(_) => return None,
            },
            None => {
                read.push(i.buffer.read());
                read.len() - 1
            }
        };
        from.push(if is_dense { InputFrom::Elements(guard) } else { InputFrom::Number(guard) });
    }
    let mut written: SmallVec<[Write<'_>; 8]> = outputs.iter().map(|o| o.buffer.write()).collect();
    let mut streams = LoopStreams::new(n);
    for (guard, o) in written.iter_mut().zip(outputs) {
        streams.write(elements_mut(guard, o)?);
    }
    feed(&mut streams, program, step.args, |streams, k| {
        let input = step.inputs.get(k as usize)?;
        match *from.get(k as usize)? {
            InputFrom::Output(o) => streams.read_output(o),
            InputFrom::Elements(g) => streams.read(elements(&read[g], input)?),
            InputFrom::Number(g) => streams.repeat(*whole(host(&read[g]).ok()?).ok()?.get(input.offset)?),
        }
        Some(())
    })?;
    ahead(isa, &streams).then_some(())
}
/// Gives a loop what its program reads, in the program's order; `load` gives an input.
fn feed<'a>(streams: &mut LoopStreams<'a>, program: &Program, args: &[Scalar], load: impl Fn(&mut LoopStreams<'a>, u16) -> Option<()>) -> Option<()> {
    for register in &program.registers {
        match register.code {
            Code::Load(k) => load(streams, k)?,
            Code::Arg(k) => streams.number(f32::of(scalar_value(*args.get(k as usize)?, DType::F32))),
            Code::Const(s) => streams.number(f32::of(scalar_value(s, DType::F32))),
            _ => {}
        }
    }
    Some(())
}
/// Runs a program over the few sums of a product where they lie: they are its first input, and what else it reads lies beside
/// them. `None`: it is none of those programs, the sums are many or what is beside lies otherwise, all of which is known before
/// anything is written, and nothing was done.
pub(crate) fn run_behind(program: &Program, isa: Isa, args: &[Scalar], others: &[In<'_>], out: &mut [f32], columns: usize) -> Option<()> {
    let n = out.len();
    if n > FEW {
        return None;
    }
    let mut given: SmallVec<[GivenInput<'_>; 5]> = SmallVec::new();
    given.push(GivenInput::Output(0));
    for other in others {
        given.push(GivenInput::new(other, n, columns)?);
    }
    let single = program.single.as_ref().filter(|single| single.dtype == DType::F32);
    if single.is_none() && program.ahead.is_none() {
        return few::run(program, isa, args, &given, n, columns, &mut smallvec![out]);
    }
    let line = few::line(&given, n, columns)?;
    out.chunks_exact_mut(line).enumerate().try_for_each(|(k, row)| {
        let beside = |input: u16| given.get(usize::from(input)).filter(|_| input > 0)?.numbers(k * line, line);
        match (single, program.ahead) {
            (Some(single), _) => single.behind(isa, args, beside, row),
            (None, Some(ahead)) => ahead_behind(ahead, program, isa, args, beside, row),
            (None, None) => None,
        }
    })
}
fn ahead_behind<'a>(ahead: Loop, program: &Program, isa: Isa, args: &[Scalar], beside: impl Fn(u16) -> Option<Src<'a, f32>>, row: &'a mut [f32]) -> Option<()> {
    let mut streams = LoopStreams::new(row.len());
    streams.write(row);
    feed(&mut streams, program, args, |streams, k| {
        match if k == 0 { None } else { Some(beside(k)?) } {
            None => streams.read_output(0),
            Some(Src::Slice(x)) => streams.read(x),
            Some(Src::Splat(x)) => streams.repeat(x),
        }
        Some(())
    })?;
    ahead(isa, &streams).then_some(())
}
/// Are its elements those of the space, of the dtype, side by side?
#[inline]
fn lies_as(step: &Step<'_>, o: &Operand<'_>, dtype: DType) -> bool {
    o.dense && o.dtype == dtype && o.shape == step.space
}
#[inline]
fn shares(o: &Operand<'_>, p: &Operand<'_>) -> bool {
    std::ptr::eq(o.buffer, p.buffer)
}
/// The elements of a dense operand. Into each place, for a sum of four has three of these.
#[inline(always)]
fn elements<'g, T: AnyBitPattern>(guard: &'g Read<'_>, o: &Operand<'_>) -> Option<&'g [T]> {
    whole(host(guard).ok()?).ok()?.get(range(o))
}
#[inline(always)]
fn elements_mut<'g, T: AnyBitPattern + NoUninit>(guard: &'g mut Write<'_>, o: &Operand<'_>) -> Option<&'g mut [T]> {
    whole_mut(host_mut(guard).ok()?).ok()?.get_mut(range(o))
}
/// The elements of a dense operand in its buffer.
#[inline]
fn range(o: &Operand<'_>) -> std::ops::Range<usize> {
    o.offset..o.offset.saturating_add(o.shape.elements())
}
