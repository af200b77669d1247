//! Which integers the lanes of a compiled loop hold. Lanes of 64 bits hold those of i64, and narrower ones that are read. Lanes of 32 bits
//! hold narrower dtypes, the bits of u32, and of i64 what stays small whatever the operands are: coordinates, numbers of a call that are small themselves,
//! sums of these.
use super::{
    integers::IntBinary,
    program::{Code, Program, TileKind},
};
use adamant_runtime::{DType, expr::Reg};

/// Coordinates and numbers below it are small.
pub(super) const SMALL: i64 = 1 << 29;
/// Up to here every integer is a float of 32 bits.
const EXACT: i64 = 1 << 24;

/// The least and the largest value of each register of integers, as far as lanes hold them; those of u32 as bits, with or without a sign.
pub(super) struct HeldIntegers(Vec<Option<(i64, i64)>>);
impl HeldIntegers {
    /// No lane holds any.
    pub fn none(program: &Program) -> HeldIntegers {
        HeldIntegers(vec![None; program.registers.len()])
    }
    /// In lanes such as those of `lanes`. `are_small`: so are the numbers and coordinates of the call.
    pub fn of(program: &Program, lanes: TileKind, are_small: bool) -> HeldIntegers {
        let mut held: Vec<Option<(i64, i64)>> = Vec::with_capacity(program.registers.len());
        for register in &program.registers {
            let range = match (lanes, register.dtype) {
                (TileKind::F64, DType::I64) => Some((i64::MIN, i64::MAX)),
                // Narrower ones are read and made wider, and never written.
                (TileKind::F64, DType::U32) => None,
                (TileKind::F64, dtype) if matches!(register.code, Code::Load(_)) => range_of(dtype),
                (TileKind::F32, DType::I64) => small(program, register.code, &held, are_small),
                (TileKind::F32, dtype) => range_of(dtype),
                _ => None,
            };
            let is_in_lane = |(low, high): &(i64, i64)| *low >= i32::MIN.into() && *high <= i32::MAX.into();
            let fits = |range: &(i64, i64)| lanes == TileKind::F64 || register.dtype == DType::U32 || is_in_lane(range);
            held.push(range.filter(|range| register.kind == TileKind::I64 && fits(range)));
        }
        HeldIntegers(held)
    }
    /// Do lanes hold what register `r` may be?
    pub fn has(&self, r: Reg) -> bool {
        self.0[r as usize].is_some()
    }
    /// Is each of its values a float of 32 bits?
    pub fn are_exact(&self, r: Reg) -> bool {
        self.0[r as usize].is_some_and(|(low, high)| low >= -EXACT && high <= EXACT)
    }
}
fn range_of(dtype: DType) -> Option<(i64, i64)> {
    Some(match dtype {
        DType::U8 => (0, u8::MAX.into()),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        _ => return None,
    })
}
/// The range of an i64 that is made of others.
fn small(program: &Program, code: Code, held: &[Option<(i64, i64)>], are_small: bool) -> Option<(i64, i64)> {
    let of = |x: Reg| held[x as usize];
    match code {
        Code::Const(s) if s.to_i64().unsigned_abs() <= SMALL as u64 => Some((s.to_i64(), s.to_i64())),
        Code::Arg(_) => are_small.then_some((-SMALL, SMALL)),
        Code::Index(_) => are_small.then_some((0, SMALL)),
        Code::IntBinary(f, x, y) => {
            let ((a, b), (c, d)) = (of(x)?, of(y)?);
            Some(match f {
                IntBinary::Add => (a + c, b + d),
                IntBinary::Sub => (a - d, b - c),
                IntBinary::Mul => {
                    let ends = [a.saturating_mul(c), a.saturating_mul(d), b.saturating_mul(c), b.saturating_mul(d)];
                    (ends.into_iter().min()?, ends.into_iter().max()?)
                }
                IntBinary::Max => (a.max(c), b.max(d)),
                IntBinary::Min => (a.min(c), b.min(d)),
                _ => return None,
            })
        }
        Code::Cast(x) => match program.registers[x as usize].kind {
            TileKind::Bool => Some((0, 1)),
            _ => of(x),
        },
        Code::Select(_, x, y) => {
            let ((a, b), (c, d)) = (of(x)?, of(y)?);
            Some((a.min(c), b.max(d)))
        }
        _ => None,
    }
}
