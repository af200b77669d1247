//! Arithmetic of integers: a table from an instruction's name and type to what it does to the rows of a warp.
use super::registers::{CARRY, LaneValue, Plain, Registers, RowOperands, map1, map2, map3};
use crate::ptx::PtxType;

/// The same closure for each integer type that the instruction may have.
macro_rules! each {
    ($t:expr, [$($name:pat => $of:ty),*], |$r:ident, $o:ident, $m:ident, $T:ident| $body:expr) => {
        Some(match $t {
            $($name => { type $T = $of; |$r: &mut Registers, $o: &RowOperands, $m: u32| $body })*
            _ => return None,
        })
    };
}
macro_rules! integers {
    ($t:expr, |$r:ident, $o:ident, $m:ident, $T:ident| $body:expr) => {
        each!($t, [
            PtxType::U16 | PtxType::B16 => u16, PtxType::S16 => i16, PtxType::U32 | PtxType::B32 => u32,
            PtxType::S32 => i32, PtxType::U64 | PtxType::B64 => u64, PtxType::S64 => i64
        ], |$r, $o, $m, $T| $body)
    };
}
macro_rules! binary {
    ($t:expr, |$a:ident, $b:ident| $e:expr) => {
        integers!($t, |r, o, m, T| map2::<T, T, T>(r, o, m, |$a, $b| $e))
    };
}
macro_rules! unary {
    ($t:expr, |$a:ident| $e:expr) => {
        integers!($t, |r, o, m, T| map1::<T, T>(r, o, m, |$a| $e))
    };
}

/// An integer of a lane with what the instructions ask of it beyond Rust's operators.
pub trait Whole: LaneValue + Ord {
    fn high(self, other: Self) -> Self;
    fn quotient(self, by: Self) -> Self;
    fn remainder(self, by: Self) -> Self;
    fn distance(self, other: Self) -> Self;
}
macro_rules! whole {
    ($($t:ty, $wide:ty, $bits:literal, $ones:expr;)*) => {$(
        impl Whole for $t {
            #[inline(always)]
            fn high(self, other: Self) -> Self { (self as $wide * other as $wide >> $bits) as $t }
            // By zero: all ones, as the sequences give that ptxas makes of it.
            #[inline(always)]
            fn quotient(self, by: Self) -> Self { if by == 0 { $ones } else { self.wrapping_div(by) } }
            #[inline(always)]
            fn remainder(self, by: Self) -> Self { if by == 0 { $ones } else { self.wrapping_rem(by) } }
            #[inline(always)]
            fn distance(self, other: Self) -> Self { if self < other { other.wrapping_sub(self) } else { self.wrapping_sub(other) } }
        }
    )*};
}
whole! {
    u16, u32, 16, u16::MAX;
    i16, i32, 16, -1;
    u32, u64, 32, u32::MAX;
    i32, i64, 32, -1;
    u64, u128, 64, u64::MAX;
    i64, i128, 64, -1;
}

/// `add`, `mul.hi`, `div` and their kin: what an instruction does whose operands are all of its type.
pub fn arithmetic(name: &str, t: PtxType) -> Option<Plain> {
    match name {
        "add" => binary!(t, |a, b| a.wrapping_add(b)),
        "sub" => binary!(t, |a, b| a.wrapping_sub(b)),
        "mul.lo" => binary!(t, |a, b| a.wrapping_mul(b)),
        "mul.hi" => binary!(t, |a, b| a.high(b)),
        "div" => binary!(t, |a, b| a.quotient(b)),
        "rem" => binary!(t, |a, b| a.remainder(b)),
        "min" => binary!(t, |a, b| a.min(b)),
        "max" => binary!(t, |a, b| a.max(b)),
        "mad.lo" => integers!(t, |r, o, m, T| map3::<T, T, T, T>(r, o, m, |a, b, c| a.wrapping_mul(b).wrapping_add(c))),
        "mad.hi" => integers!(t, |r, o, m, T| map3::<T, T, T, T>(r, o, m, |a, b, c| a.high(b).wrapping_add(c))),
        "sad" => integers!(t, |r, o, m, T| map3::<T, T, T, T>(r, o, m, |a, b, c| a.distance(b).wrapping_add(c))),
        "and" => binary!(t, |a, b| a & b),
        "or" => binary!(t, |a, b| a | b),
        "xor" => binary!(t, |a, b| a ^ b),
        "not" => unary!(t, |a| !a),
        "cnot" => unary!(t, |a| (a == 0).into()),
        "neg" => each!(t, [PtxType::S16 => i16, PtxType::S32 => i32, PtxType::S64 => i64], |r, o, m, T| map1::<T, T>(r, o, m, |a| a.wrapping_neg())),
        "abs" => each!(t, [PtxType::S16 => i16, PtxType::S32 => i32, PtxType::S64 => i64], |r, o, m, T| map1::<T, T>(r, o, m, |a| a.wrapping_abs())),
        "add.sat" if t == PtxType::S32 => Some(|r, o, m| map2::<i32, i32, i32>(r, o, m, |a, b| a.saturating_add(b))),
        "sub.sat" if t == PtxType::S32 => Some(|r, o, m| map2::<i32, i32, i32>(r, o, m, |a, b| a.saturating_sub(b))),
        "mul24.lo" => {
            each!(t, [PtxType::U32 => u32, PtxType::S32 => i32], |r, o, m, T| map2::<T, T, T>(r, o, m, |a, b| (a << 8 >> 8).wrapping_mul(b << 8 >> 8)))
        }
        "mad24.lo" => {
            each!(t, [PtxType::U32 => u32, PtxType::S32 => i32], |r, o, m, T| map3::<T, T, T, T>(r, o, m, |a, b, c| (a << 8 >> 8)
                .wrapping_mul(b << 8 >> 8)
                .wrapping_add(c)))
        }
        "mul24.hi" => match t {
            PtxType::U32 => Some(|r, o, m| map2::<u32, u32, u32>(r, o, m, |a, b| (u64::from(a << 8 >> 8) * u64::from(b << 8 >> 8) >> 16) as u32)),
            PtxType::S32 => Some(|r, o, m| map2::<i32, i32, i32>(r, o, m, |a, b| (i64::from(a << 8 >> 8) * i64::from(b << 8 >> 8) >> 16) as i32)),
            _ => None,
        },
        _ => None,
    }
}

/// `mul.wide`: the type is that of the factors.
pub fn multiply_wide(t: PtxType) -> Option<Plain> {
    Some(match t {
        PtxType::U16 => |r, o, m| map2::<u16, u16, u32>(r, o, m, |a, b| u32::from(a) * u32::from(b)),
        PtxType::S16 => |r, o, m| map2::<i16, i16, i32>(r, o, m, |a, b| i32::from(a) * i32::from(b)),
        PtxType::U32 => |r, o, m| map2::<u32, u32, u64>(r, o, m, |a, b| u64::from(a) * u64::from(b)),
        PtxType::S32 => |r, o, m| map2::<i32, i32, i64>(r, o, m, |a, b| i64::from(a) * i64::from(b)),
        _ => return None,
    })
}
/// `mad.wide`: the type is that of the factors.
pub fn multiply_add_wide(t: PtxType) -> Option<Plain> {
    Some(match t {
        PtxType::U16 => |r, o, m| map3::<u16, u16, u32, u32>(r, o, m, |a, b, c| (u32::from(a) * u32::from(b)).wrapping_add(c)),
        PtxType::S16 => |r, o, m| map3::<i16, i16, i32, i32>(r, o, m, |a, b, c| (i32::from(a) * i32::from(b)).wrapping_add(c)),
        PtxType::U32 => |r, o, m| map3::<u32, u32, u64, u64>(r, o, m, |a, b, c| (u64::from(a) * u64::from(b)).wrapping_add(c)),
        PtxType::S32 => |r, o, m| map3::<i32, i32, i64, i64>(r, o, m, |a, b, c| (i64::from(a) * i64::from(b)).wrapping_add(c)),
        _ => return None,
    })
}

/// Shifts: the amount is 32 bits wide, and what is beyond the width shifts everything out.
pub fn shift(name: &str, t: PtxType) -> Option<Plain> {
    Some(match (name, t) {
        ("shl", PtxType::B16) => |r, o, m| map2::<u16, u32, u16>(r, o, m, |a, b| if b > 15 { 0 } else { a << b }),
        ("shl", PtxType::B32) => |r, o, m| map2::<u32, u32, u32>(r, o, m, |a, b| if b > 31 { 0 } else { a << (b & 31) }),
        ("shl", PtxType::B64) => |r, o, m| map2::<u64, u32, u64>(r, o, m, |a, b| if b > 63 { 0 } else { a << (b & 63) }),
        ("shr", PtxType::B16 | PtxType::U16) => |r, o, m| map2::<u16, u32, u16>(r, o, m, |a, b| if b > 15 { 0 } else { a >> b }),
        ("shr", PtxType::B32 | PtxType::U32) => |r, o, m| map2::<u32, u32, u32>(r, o, m, |a, b| if b > 31 { 0 } else { a >> (b & 31) }),
        ("shr", PtxType::B64 | PtxType::U64) => |r, o, m| map2::<u64, u32, u64>(r, o, m, |a, b| if b > 63 { 0 } else { a >> (b & 63) }),
        ("shr", PtxType::S16) => |r, o, m| map2::<i16, u32, i16>(r, o, m, |a, b| a >> b.min(15)),
        ("shr", PtxType::S32) => |r, o, m| map2::<i32, u32, i32>(r, o, m, |a, b| a >> b.min(31)),
        ("shr", PtxType::S64) => |r, o, m| map2::<i64, u32, i64>(r, o, m, |a, b| a >> b.min(63)),
        _ => return None,
    })
}

/// Sums and products of several words that hand a carry on: `add.cc`, `addc`, `sub.cc`, `subc`, `mad.lo.cc`, `madc.hi.cc` …
pub fn carried(name: &str, wide: bool) -> Option<Plain> {
    macro_rules! both {
        ($in:literal, $out:literal, |$a:ident, $b:ident, $c:ident, $carry:ident| $e:expr) => {
            if wide {
                type T = u64;
                |r: &mut Registers, o: &RowOperands, m: u32| carry::<T, $in, $out>(r, o, m, |$a, $b, $c, $carry| $e)
            } else {
                type T = u32;
                |r: &mut Registers, o: &RowOperands, m: u32| carry::<T, $in, $out>(r, o, m, |$a, $b, $c, $carry| $e)
            }
        };
    }
    fn sum<T: Whole + num::Add>(a: T, b: T, carry: bool) -> (T, bool) {
        a.carrying(b, carry)
    }
    Some(match name {
        "add.cc" => both!(false, true, |a, b, _c, carry| sum(a, b, carry)),
        "addc" => both!(true, false, |a, b, _c, carry| sum(a, b, carry)),
        "addc.cc" => both!(true, true, |a, b, _c, carry| sum(a, b, carry)),
        "sub.cc" => both!(false, true, |a, b, _c, borrow| num::Add::borrowing(a, b, borrow)),
        "subc" => both!(true, false, |a, b, _c, borrow| num::Add::borrowing(a, b, borrow)),
        "subc.cc" => both!(true, true, |a, b, _c, borrow| num::Add::borrowing(a, b, borrow)),
        "mad.lo.cc" => both!(false, true, |a, b, c, carry| sum(a.wrapping_mul(b), c, carry)),
        "mad.hi.cc" => both!(false, true, |a, b, c, carry| sum(a.high(b), c, carry)),
        "madc.lo" => both!(true, false, |a, b, c, carry| sum(a.wrapping_mul(b), c, carry)),
        "madc.hi" => both!(true, false, |a, b, c, carry| sum(a.high(b), c, carry)),
        "madc.lo.cc" => both!(true, true, |a, b, c, carry| sum(a.wrapping_mul(b), c, carry)),
        "madc.hi.cc" => both!(true, true, |a, b, c, carry| sum(a.high(b), c, carry)),
        _ => return None,
    })
}

mod num {
    /// Sums and differences of words with a carry.
    pub trait Add: Sized {
        fn carrying(self, other: Self, carry: bool) -> (Self, bool);
        fn borrowing(self, other: Self, borrow: bool) -> (Self, bool);
    }
    macro_rules! add {
        ($($t:ty),*) => {$(
            impl Add for $t {
                #[inline(always)]
                fn carrying(self, other: Self, carry: bool) -> (Self, bool) {
                    let (sum, over) = self.overflowing_add(other);
                    let (sum, again) = sum.overflowing_add(<$t>::from(carry));
                    (sum, over | again)
                }
                #[inline(always)]
                fn borrowing(self, other: Self, borrow: bool) -> (Self, bool) {
                    let (rest, under) = self.overflowing_sub(other);
                    let (rest, again) = rest.overflowing_sub(<$t>::from(borrow));
                    (rest, under | again)
                }
            }
        )*};
    }
    add!(u32, u64);
}

#[inline(always)]
fn carry<T: LaneValue, const IN: bool, const OUT: bool>(r: &mut Registers, o: &RowOperands, mask: u32, f: impl Fn(T, T, T, bool) -> (T, bool)) {
    let (a, b, c) = (r.get::<T>(o.a), r.get::<T>(o.b), r.get::<T>(o.c));
    let before = if IN { r.predicate(CARRY) } else { 0 };
    let (mut d, mut after) = ([T::Word::default(); 32], 0);
    for lane in 0..32 {
        let (value, carry) = f(a[lane], b[lane], c[lane], before >> lane & 1 == 1);
        d[lane] = value.word();
        after |= u32::from(carry) << lane;
    }
    r.put(o.d, mask, &d);
    if OUT {
        r.put_predicate(CARRY, mask, after);
    }
}
