//! Comparisons and choices: which lanes a relation holds in.
use super::{
    floats::flush,
    registers::{Plain, Registers, RowOperands, compare, map3},
};
use crate::ptx::PtxType;
use half::{bf16, f16};

/// A relation of the rows `a` and `b`: the lanes it holds in.
pub type Relation = fn(&Registers, &RowOperands) -> u32;

macro_rules! relation {
    ($t:ty, |$a:ident, $b:ident| $e:expr) => {
        Some(|r: &Registers, o: &RowOperands| compare::<$t, $t>(r, o, |$a, $b| $e))
    };
}
macro_rules! ordered {
    ($t:ty, $name:expr) => {
        match $name {
            "eq" => relation!($t, |a, b| a == b),
            "ne" => relation!($t, |a, b| a != b),
            "lt" | "lo" => relation!($t, |a, b| a < b),
            "le" | "ls" => relation!($t, |a, b| a <= b),
            "gt" | "hi" => relation!($t, |a, b| a > b),
            "ge" | "hs" => relation!($t, |a, b| a >= b),
            _ => None,
        }
    };
}
macro_rules! float {
    ($t:ty, $name:expr, |$x:ident| $prepare:expr) => {{
        #[inline(always)]
        fn p($x: $t) -> impl PartialOrd + Copy {
            $prepare
        }
        #[inline(always)]
        fn unordered(a: $t, b: $t) -> bool {
            a.is_nan() | b.is_nan()
        }
        match $name {
            "eq" => relation!($t, |a, b| p(a) == p(b)),
            "ne" => relation!($t, |a, b| !unordered(a, b) & (p(a) != p(b))),
            "lt" => relation!($t, |a, b| p(a) < p(b)),
            "le" => relation!($t, |a, b| p(a) <= p(b)),
            "gt" => relation!($t, |a, b| p(a) > p(b)),
            "ge" => relation!($t, |a, b| p(a) >= p(b)),
            "equ" => relation!($t, |a, b| unordered(a, b) | (p(a) == p(b))),
            "neu" => relation!($t, |a, b| p(a) != p(b)),
            "ltu" => relation!($t, |a, b| unordered(a, b) | (p(a) < p(b))),
            "leu" => relation!($t, |a, b| unordered(a, b) | (p(a) <= p(b))),
            "gtu" => relation!($t, |a, b| unordered(a, b) | (p(a) > p(b))),
            "geu" => relation!($t, |a, b| unordered(a, b) | (p(a) >= p(b))),
            "num" => relation!($t, |a, b| !unordered(a, b)),
            "nan" => relation!($t, |a, b| unordered(a, b)),
            _ => None,
        }
    }};
}

/// The relation that a word names, of values of a type.
pub fn relation(name: &str, t: PtxType, ftz: bool) -> Option<Relation> {
    match t {
        PtxType::B16 | PtxType::U16 => ordered!(u16, name),
        PtxType::S16 => ordered!(i16, name),
        PtxType::B32 | PtxType::U32 => ordered!(u32, name),
        PtxType::S32 => ordered!(i32, name),
        PtxType::B64 | PtxType::U64 => ordered!(u64, name),
        PtxType::S64 => ordered!(i64, name),
        PtxType::F32 if ftz => float!(f32, name, |x| flush(x)),
        PtxType::F32 => float!(f32, name, |x| x),
        PtxType::F64 => float!(f64, name, |x| x),
        PtxType::F16 => float!(f16, name, |x| x.to_f32()),
        PtxType::Bf16 => float!(bf16, name, |x| x.to_f32()),
        _ => None,
    }
}

/// `testp`: what kind of float the row `a` holds.
pub fn kind_of_float(name: &str, t: PtxType) -> Option<Relation> {
    macro_rules! kinds {
        ($t:ty) => {
            match name {
                "finite" => relation!($t, |a, _b| a.is_finite()),
                "infinite" => relation!($t, |a, _b| a.is_infinite()),
                "number" => relation!($t, |a, _b| !a.is_nan()),
                "notanumber" => relation!($t, |a, _b| a.is_nan()),
                "normal" => relation!($t, |a, _b| a.is_normal()),
                "subnormal" => relation!($t, |a, _b| a.is_subnormal()),
                _ => None,
            }
        };
    }
    match t {
        PtxType::F32 => kinds!(f32),
        PtxType::F64 => kinds!(f64),
        _ => None,
    }
}

/// `selp`: the row `a` where the predicate `c` holds, negated if `x` is 1, else the row `b`.
pub fn select(wide: bool) -> Plain {
    macro_rules! choose {
        ($words:ident) => {
            |r, o, mask| {
                let choice = r.predicate(o.c) ^ 0u32.wrapping_sub(o.x);
                let (a, b) = (r.$words(o.a), r.$words(o.b));
                let mut d = *b;
                for lane in 0..32 {
                    d[lane] = if choice & super::registers::BITS[lane] != 0 { a[lane] } else { b[lane] };
                }
                r.put(o.d, mask, &d);
            }
        };
    }
    if wide { choose!(wide) } else { choose!(words) }
}

/// `slct`: the row `a` where `c` is not negative, else the row `b`.
pub fn select_by_sign(wide: bool, by: PtxType) -> Option<Plain> {
    Some(match (wide, by) {
        (false, PtxType::S32) => |r, o, m| map3::<u32, u32, i32, u32>(r, o, m, |a, b, c| if c >= 0 { a } else { b }),
        (false, PtxType::F32) => |r, o, m| map3::<u32, u32, f32, u32>(r, o, m, |a, b, c| if c >= 0.0 { a } else { b }),
        (true, PtxType::S32) => |r, o, m| map3::<u64, u64, i32, u64>(r, o, m, |a, b, c| if c >= 0 { a } else { b }),
        (true, PtxType::F32) => |r, o, m| map3::<u64, u64, f32, u64>(r, o, m, |a, b, c| if c >= 0.0 { a } else { b }),
        _ => return None,
    })
}
