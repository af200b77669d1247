//! Random numbers as programs write them: uniform numbers of 24 bits, and what dropout makes of one, one of two numbers.
//! Such a chain of instructions is one loop, which never writes what lies in between. Must not know tiles.
use super::{
    loops::{Compare, RealBinary},
    program::{Code, Register},
    random::{self, DrawKind},
    tiles::Value,
};
use adamant_runtime::{
    DType,
    expr::{Expr, Instr, Reg},
};
use smallvec::SmallVec;

/// `product = number * unit`, `number` that of the bits `shifted` by `shift`, and nobody else asks for what is in between:
/// how a uniform number of 24 bits is written. The two scalars may be arguments, so their values decide.
pub(crate) struct Uniform {
    key: u16,
    place: u16,
    shift: Reg,
    unit: Reg,
    between: [Reg; 3],
    product: Reg,
    kept: Option<DrawnSelect>,
    times: Option<Times>,
}
/// `product = number * other`, of the drawn number, which nobody else asks for.
#[derive(Clone, Copy)]
struct Times {
    other: Reg,
    product: Reg,
}
/// `select = yes where product < limit, else no`, and nobody else asks for the product.
struct DrawnSelect {
    limit: Reg,
    below: Reg,
    yes: Reg,
    no: Reg,
    select: Reg,
}
/// A register that is drawn as a whole.
pub(crate) struct Drawn {
    pub register: Reg,
    pub key: u16,
    pub place: u16,
    pub draw: DrawKind,
    /// what the number is multiplied by
    pub times: Option<Reg>,
}

/// Those of an expression.
pub(crate) fn uniforms(expr: &Expr, registers: &[Register], reads: &[[Option<Reg>; 3]], results: &[Reg]) -> Vec<Uniform> {
    let readers = |r: Reg| reads.iter().enumerate().filter(move |(_, reads)| reads.iter().flatten().any(|&x| x == r)).map(|(k, _)| k as Reg);
    let alone = |r: Reg| !results.contains(&r) && reads.iter().flatten().flatten().filter(|&&x| x == r).count() == 1;
    let kept = |product: Reg| {
        let below = readers(product).next().filter(|_| alone(product))?;
        let Code::Compare(Compare::Lt, x, limit) = registers[below as usize].code else { return None };
        let select = readers(below).next().filter(|_| alone(below))?;
        let Code::Select(c, yes, no) = registers[select as usize].code else { return None };
        let fits = x == product && c == below && registers[select as usize].dtype == DType::F32;
        fits.then_some(DrawnSelect { limit, below, yes, no, select })
    };
    let times = |drawn: Reg| {
        let product = readers(drawn).next().filter(|_| alone(drawn))?;
        let Code::RealBinary(RealBinary::Mul, x, y) = registers[product as usize].code else { return None };
        let other = if x == drawn { y } else { x };
        (registers[product as usize].dtype == DType::F32).then_some(Times { other, product })
    };
    let find = |product: Reg, number: Reg, unit: Reg| {
        let Code::Cast(shifted) = registers[number as usize].code else { return None };
        let Instr::Binary(f, bits, shift) = expr.instrs[shifted as usize] else { return None };
        let Code::Random { key, place } = registers[bits as usize].code else { return None };
        let dtypes = registers[shifted as usize].dtype == DType::U32 && registers[number as usize].dtype == DType::F32;
        let between = [bits, shifted, number];
        let fits = f.row().name == "bitwise_right_shift" && dtypes && between.iter().all(|&r| alone(r));
        let kept = kept(product);
        let times = times(kept.as_ref().map_or(product, |k| k.select));
        fits.then_some(Uniform { key, place, shift, unit, between, product, kept, times })
    };
    let of = |(k, register): (usize, &Register)| match register.code {
        Code::RealBinary(RealBinary::Mul, x, y) if register.dtype == DType::F32 => find(k as Reg, x, y).or_else(|| find(k as Reg, y, x)),
        _ => None,
    };
    registers.iter().enumerate().filter_map(of).collect()
}
impl Uniform {
    /// What is drawn, and the registers nobody asks for then, given those that are the same for all elements. `None`: the
    /// scalars are others than a uniform number has.
    pub fn bind(&self, uniform: &[Option<Value>]) -> Option<(Drawn, SmallVec<[Reg; 6]>)> {
        let number = |r: Reg| uniform[r as usize];
        if !matches!((number(self.shift), number(self.unit)), (Some(Value::I64(8)), Some(Value::F32(unit))) if unit == random::UNIT) {
            return None;
        }
        let mut idle = SmallVec::from_slice(&self.between);
        let (mut register, mut draw) = (self.product, DrawKind::Uniform);
        if let Some(kept) = &self.kept {
            match (number(kept.limit), number(kept.yes), number(kept.no)) {
                (Some(Value::F32(limit)), Some(Value::F32(yes)), Some(Value::F32(no))) => {
                    idle.extend([register, kept.below]);
                    (register, draw) = (kept.select, DrawKind::below(limit, yes, no));
                }
                // What follows was found behind the choice.
                _ => return Some((Drawn { register, key: self.key, place: self.place, draw, times: None }, idle)),
            }
        }
        let times = self.times.filter(|t| number(t.other).is_none());
        if let Some(times) = times {
            idle.push(register);
            register = times.product;
        }
        Some((Drawn { register, key: self.key, place: self.place, draw, times: times.map(|t| t.other) }, idle))
    }
}
