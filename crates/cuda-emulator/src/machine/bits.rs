//! Instructions on bits and bytes within a word: counting, fields, permutations, funnels, products of bytes.
use super::registers::{Plain, map1, map2, map3};
use crate::ptx::PtxType;

/// Instructions whose operands are words of their type, 32 bits where they count or place.
pub fn bits(name: &str, t: PtxType) -> Option<Plain> {
    Some(match (name, t) {
        ("popc", PtxType::B32) => |r, o, m| map1::<u32, u32>(r, o, m, |a| a.count_ones()),
        ("popc", PtxType::B64) => |r, o, m| map1::<u64, u32>(r, o, m, |a| a.count_ones()),
        ("clz", PtxType::B32) => |r, o, m| map1::<u32, u32>(r, o, m, |a| a.leading_zeros()),
        ("clz", PtxType::B64) => |r, o, m| map1::<u64, u32>(r, o, m, |a| a.leading_zeros()),
        ("brev", PtxType::B32) => |r, o, m| map1::<u32, u32>(r, o, m, |a| a.reverse_bits()),
        ("brev", PtxType::B64) => |r, o, m| map1::<u64, u64>(r, o, m, |a| a.reverse_bits()),
        ("bfind", PtxType::U32) => |r, o, m| map1::<u32, u32>(r, o, m, |a| top(a.into(), 32)),
        ("bfind", PtxType::U64) => |r, o, m| map1::<u64, u32>(r, o, m, |a| top(a, 64)),
        ("bfind", PtxType::S32) => |r, o, m| map1::<i32, u32>(r, o, m, |a| top((a ^ a >> 31) as u32 as u64, 32)),
        ("bfind", PtxType::S64) => |r, o, m| map1::<i64, u32>(r, o, m, |a| top((a ^ a >> 63) as u64, 64)),
        ("bfind.shiftamt", PtxType::U32) => |r, o, m| map1::<u32, u32>(r, o, m, |a| amount(top(a.into(), 32), 32)),
        ("bfind.shiftamt", PtxType::U64) => |r, o, m| map1::<u64, u32>(r, o, m, |a| amount(top(a, 64), 64)),
        ("bfind.shiftamt", PtxType::S32) => |r, o, m| map1::<i32, u32>(r, o, m, |a| amount(top((a ^ a >> 31) as u32 as u64, 32), 32)),
        ("bfind.shiftamt", PtxType::S64) => |r, o, m| map1::<i64, u32>(r, o, m, |a| amount(top((a ^ a >> 63) as u64, 64), 64)),
        ("bfe", PtxType::U32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| field(a.into(), b, c, 32, false) as u32),
        ("bfe", PtxType::S32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| field(a.into(), b, c, 32, true) as u32),
        ("bfe", PtxType::U64) => |r, o, m| map3::<u64, u32, u32, u64>(r, o, m, |a, b, c| field(a, b, c, 64, false)),
        ("bfe", PtxType::S64) => |r, o, m| map3::<u64, u32, u32, u64>(r, o, m, |a, b, c| field(a, b, c, 64, true)),
        ("bmsk.clamp", PtxType::B32) => |r, o, m| map2::<u32, u32, u32>(r, o, m, |a, b| mask(a, b.min(32))),
        ("bmsk.wrap", PtxType::B32) => |r, o, m| map2::<u32, u32, u32>(r, o, m, |a, b| mask(a & 31, b & 31)),
        ("fns", PtxType::B32) => |r, o, m| map3::<u32, u32, i32, u32>(r, o, m, nth_set),
        ("shf.l.wrap", PtxType::B32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| (pair(a, b) << (c & 31) >> 32) as u32),
        ("shf.l.clamp", PtxType::B32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| (pair(a, b) << c.min(32) >> 32) as u32),
        ("shf.r.wrap", PtxType::B32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| (pair(a, b) >> (c & 31)) as u32),
        ("shf.r.clamp", PtxType::B32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| (pair(a, b) >> c.min(32)) as u32),
        ("prmt", PtxType::B32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, permute),
        ("prmt.f4e", PtxType::B32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| pick(a, b, |k| (c & 3) + k)),
        ("prmt.b4e", PtxType::B32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| pick(a, b, |k| (c & 3).wrapping_sub(k) & 7)),
        ("prmt.rc8", PtxType::B32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| pick(a, b, |_| c & 3)),
        ("prmt.ecl", PtxType::B32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| pick(a, b, |k| k.max(c & 3))),
        ("prmt.ecr", PtxType::B32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| pick(a, b, |k| k.min(c & 3))),
        ("prmt.rc16", PtxType::B32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| pick(a, b, |k| (c & 1) * 2 + (k & 1))),
        _ => return None,
    })
}

/// `dp4a` and `dp2a`: sums of products of bytes, with and without sign, by the types of both factors.
pub fn dot(name: &str, a: PtxType, b: PtxType) -> Option<Plain> {
    macro_rules! signs {
        ($f:ident, $at:literal) => {
            match (a, b) {
                (PtxType::U32, PtxType::U32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| $f::<false, false>(a, b, c, $at)),
                (PtxType::U32, PtxType::S32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| $f::<false, true>(a, b, c, $at)),
                (PtxType::S32, PtxType::U32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| $f::<true, false>(a, b, c, $at)),
                (PtxType::S32, PtxType::S32) => |r, o, m| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| $f::<true, true>(a, b, c, $at)),
                _ => return None,
            }
        };
    }
    Some(match name {
        "dp4a" => signs!(dot4, 0),
        "dp2a.lo" => signs!(dot2, 0),
        "dp2a.hi" => signs!(dot2, 2),
        _ => return None,
    })
}

#[inline(always)]
fn byte<const SIGNED: bool>(word: u32, at: u32) -> i32 {
    let byte = (word >> (8 * at)) as u8;
    if SIGNED { i32::from(byte as i8) } else { i32::from(byte) }
}
fn dot4<const A: bool, const B: bool>(a: u32, b: u32, c: u32, _: u32) -> u32 {
    (0..4).fold(c, |sum, k| sum.wrapping_add((byte::<A>(a, k) * byte::<B>(b, k)) as u32))
}
fn dot2<const A: bool, const B: bool>(a: u32, b: u32, c: u32, at: u32) -> u32 {
    let half = |k: u32| {
        let half = (a >> (16 * k)) as u16;
        if A { i32::from(half as i16) } else { i32::from(half) }
    };
    (0..2).fold(c, |sum, k| sum.wrapping_add(half(k).wrapping_mul(byte::<B>(b, at + k)) as u32))
}

/// The place of the highest bit that is set, all ones if there is none.
fn top(a: u64, width: u32) -> u32 {
    if a == 0 { u32::MAX } else { (63 - a.leading_zeros()).min(width - 1) }
}
fn amount(top: u32, width: u32) -> u32 {
    if top == u32::MAX { top } else { width - 1 - top }
}

/// `bfe` as its table in the PTX ISA says it: bits beyond the word are its sign.
fn field(a: u64, position: u32, length: u32, width: u32, signed: bool) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    let sign = match (signed, length) {
        (false, _) | (_, 0) => false,
        _ => a >> (position + length - 1).min(width - 1) & 1 == 1,
    };
    let moved = if position < 64 { a >> position } else { 0 };
    let there = length.min(width.saturating_sub(position));
    let low = if there >= 64 { u64::MAX } else { (1 << there) - 1 };
    moved & low | if sign { !low } else { 0 }
}
/// `bfi`: puts the low bits of `a` into `b`.
#[inline(always)]
pub fn insert(a: u64, b: u64, position: u32, length: u32, width: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if length == 0 || position >= width {
        return b;
    }
    let ones = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    let mask = ones << position;
    b & !mask | a << position & mask
}
fn mask(position: u32, length: u32) -> u32 {
    if position > 31 {
        return 0;
    }
    let ones = if length > 31 { u32::MAX } else { (1 << length) - 1 };
    ones << position
}
/// `fns`: the place of the n-th bit that is set, seen from a base.
fn nth_set(word: u32, base: u32, offset: i32) -> u32 {
    let set = |at: u32| word >> at & 1 == 1;
    if base > 31 {
        return u32::MAX;
    }
    if offset == 0 {
        return if set(base) { base } else { u32::MAX };
    }
    let wanted = offset.unsigned_abs() as usize - 1;
    let found = if offset > 0 { (base..32).filter(|at| set(*at)).nth(wanted) } else { (0..=base).rev().filter(|at| set(*at)).nth(wanted) };
    found.unwrap_or(u32::MAX)
}

#[inline(always)]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = pair(a, b).to_le_bytes();
    (0..4).fold(0, |word, k| {
        let choice = selector >> (4 * k);
        let byte = bytes[(choice & 7) as usize];
        let byte = if choice & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 };
        word | u32::from(byte) << (8 * k)
    })
}
fn pick(a: u32, b: u32, from: impl Fn(u32) -> u32) -> u32 {
    let bytes = pair(a, b).to_le_bytes();
    (0..4).fold(0, |word, k| word | u32::from(bytes[(from(k) & 7) as usize]) << (8 * k))
}

/// `lop3`: any function of three bits, by its table.
#[inline(always)]
pub fn any_function(a: u32, b: u32, c: u32, table: u32) -> u32 {
    let term = |bit: u32, value: u32| if table >> bit & 1 == 1 { value } else { 0 };
    term(0, !a & !b & !c)
        | term(1, !a & !b & c)
        | term(2, !a & b & !c)
        | term(3, !a & b & c)
        | term(4, a & !b & !c)
        | term(5, a & !b & c)
        | term(6, a & b & !c)
        | term(7, a & b & c)
}
