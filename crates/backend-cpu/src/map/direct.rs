//! One function of floats over a few elements that lie side by side: the shape of small eager work, where binding a
//! program to tiles would cost more than the elements do. Computes with the loops the tiles use, so the bits are the
//! same. Must not know nests or tiles.
use super::{
    loops::{self, Real, RealBinary, RealUnary, Src},
    program::{Code, Register},
};
use crate::operand::{In, Out};
use adamant_core::{DType, ErrorKind, Scalar, Shape, expr::Reg};

/// Up to so many elements; above, tiles and threads pay.
const FEW: usize = 1024;

/// A program that is one function of floats.
pub(crate) struct Single {
    function: Function,
    dtype: DType,
}
enum Function {
    Unary(RealUnary, Operand),
    Binary(RealBinary, Operand, Operand),
}
#[derive(Clone, Copy)]
enum Operand {
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
            Some(Register { code: Code::Load(k), .. }) => Some(Operand::Input(*k)),
            Some(Register { code: Code::Arg(k), .. }) => Some(Operand::Arg(*k)),
            Some(Register { code: Code::Const(s), .. }) => Some(Operand::Const(*s)),
            _ => None,
        };
        let function = match last.code {
            Code::RealUnary(f, x) => Function::Unary(f, operand(x)?),
            Code::RealBinary(f, x, y) => Function::Binary(f, operand(x)?, operand(y)?),
            _ => return None,
        };
        Some(Single { function, dtype: last.dtype })
    }
    /// Computes it. `None`: the operands are too many or lie otherwise, and nothing was done.
    pub fn run(&self, isa: crate::isa::Isa, space: &Shape, inputs: &[In<'_>], args: &[Scalar], out: &mut Out<'_>) -> Option<Result<(), ErrorKind>> {
        let fits = |i: &In<'_>| i.in_place.is_none() && i.dtype == self.dtype && i.layout.strides == space.strides();
        if space.elements() > FEW || out.dtype != self.dtype || !inputs.iter().all(fits) {
            return None;
        }
        match self.dtype {
            DType::F32 => self.typed::<f32>(isa, inputs, args, out),
            _ => self.typed::<f64>(isa, inputs, args, out),
        }
    }
    fn typed<T: Real + bytemuck::Pod>(&self, isa: crate::isa::Isa, inputs: &[In<'_>], args: &[Scalar], out: &mut Out<'_>) -> Option<Result<(), ErrorKind>> {
        let out = match out.dense::<T>() {
            Ok(out) => out,
            Err(e) => return Some(Err(e)),
        };
        let n = out.len();
        let source = |o: Operand| -> Option<Src<'_, T>> {
            match o {
                Operand::Input(k) => {
                    let input = inputs.get(k as usize)?;
                    input.elements::<T>().ok()?.get(input.layout.offset..input.layout.offset + n).map(Src::Slice)
                }
                Operand::Arg(k) => args.get(k as usize).map(|s| Src::Splat(T::narrow(s.to_f64()))),
                Operand::Const(s) => Some(Src::Splat(T::narrow(s.to_f64()))),
            }
        };
        match self.function {
            Function::Binary(f, x, y) => loops::real_binary(isa, f, source(x)?, source(y)?, out),
            Function::Unary(f, x) => match source(x)? {
                Src::Slice(x) => loops::real_unary(isa, f, x, out),
                Src::Splat(_) => return None,
            },
        }
        Some(Ok(()))
    }
}
