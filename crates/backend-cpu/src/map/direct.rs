//! One function of floats over a few elements that lie side by side: the shape of small eager work, where binding a
//! program to tiles, or only its operands to slices, would cost more than the elements do. Computes with the loops the tiles use, so the bits are the
//! same. Must not know nests or tiles.
use super::{
    loops::{self, Real, RealBinary, RealUnary, Src},
    program::{Code, Register},
};
use crate::{
    isa::Isa,
    operand::{Read, host, host_mut, whole, whole_mut},
};
use adamant_core::{
    DType, Scalar,
    expr::Reg,
    kernel::{Operand, Step},
};

/// Up to so many elements; above, tiles and threads pay.
const FEW: usize = 1024;

/// A program that is one function of floats.
pub(crate) struct Single {
    function: Function,
    dtype: DType,
}
enum Function {
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
            Code::RealUnary(f, x) => Function::Unary(f, operand(x)?),
            Code::RealBinary(f, x, y) => Function::Binary(f, operand(x)?, operand(y)?),
            _ => return None,
        };
        Some(Single { function, dtype: last.dtype })
    }
    /// Computes it. `None`: the operands are too many, share memory or lie otherwise, and nothing was done.
    pub fn run(&self, isa: Isa, step: &Step<'_>) -> Option<()> {
        let [out] = step.outputs else { return None };
        let fits = |o: &Operand<'_>| o.dense && o.dtype == self.dtype && o.shape == step.space;
        let apart = |o: &Operand<'_>, p: &Operand<'_>| !std::ptr::eq(o.buffer, p.buffer);
        if step.space.elements() > FEW || !fits(out) || !step.inputs.iter().all(|i| fits(i) && apart(i, out)) {
            return None;
        }
        match step.inputs {
            [x] => self.compute(isa, step, [(x, &x.buffer.read())], out),
            [x, y] if apart(x, y) => self.compute(isa, step, [(x, &x.buffer.read()), (y, &y.buffer.read())], out),
            _ => None,
        }
    }
    fn compute<const N: usize>(&self, isa: Isa, step: &Step<'_>, inputs: [(&Operand<'_>, &Read<'_>); N], out: &Operand<'_>) -> Option<()> {
        match self.dtype {
            DType::F32 => self.typed::<f32, N>(isa, step, inputs, out),
            _ => self.typed::<f64, N>(isa, step, inputs, out),
        }
    }
    fn typed<T: Real + bytemuck::Pod, const N: usize>(
        &self,
        isa: Isa,
        step: &Step<'_>,
        inputs: [(&Operand<'_>, &Read<'_>); N],
        out: &Operand<'_>,
    ) -> Option<()> {
        let mut guard = out.buffer.write();
        let write = whole_mut::<T>(host_mut(&mut guard).ok()?).ok()?.get_mut(range(out))?;
        let source = |o: Source| -> Option<Src<'_, T>> {
            match o {
                Source::Input(k) => {
                    let (operand, guard) = inputs.get(k as usize)?;
                    whole::<T>(host(guard).ok()?).ok()?.get(range(operand)).map(Src::Slice)
                }
                Source::Arg(k) => step.args.get(k as usize).map(|s| Src::Splat(T::nearest(s.to_f64()))),
                Source::Const(s) => Some(Src::Splat(T::nearest(s.to_f64()))),
            }
        };
        match self.function {
            Function::Binary(f, x, y) => loops::real_binary(isa, f, source(x)?, source(y)?, write),
            Function::Unary(f, x) => match source(x)? {
                Src::Slice(x) => loops::real_unary(isa, f, x, write),
                Src::Splat(_) => return None,
            },
        }
        Some(())
    }
}
/// The elements of a dense operand in its buffer.
fn range(o: &Operand<'_>) -> std::ops::Range<usize> {
    o.offset..o.offset.saturating_add(o.shape.elements())
}
