//! A vector that writes down what is done with it. The formulas of [`crate::math`] are written over any [`Arithmetic`]; over this
//! one they give the operations of a compiled loop, so its bits are those of the other sets by construction. Must not know
//! what the operations become.
use super::graph::{LoopGraph, LoopOp, LoopValue, PairOp, WholeRule};
use crate::simd::{Arithmetic, Integer, Mask};
use std::cell::RefCell;

thread_local! {
    static RECORDED: RefCell<LoopGraph> = RefCell::default();
}
/// Enters the operations of `f` on traced vectors into `graph`.
pub(crate) fn record<R>(graph: &mut LoopGraph, f: impl FnOnce() -> R) -> R {
    RECORDED.with_borrow_mut(|recorded| std::mem::swap(recorded, graph));
    let result = f();
    RECORDED.with_borrow_mut(|recorded| std::mem::swap(recorded, graph));
    result
}
/// Enters one operation, inside [`record`].
pub(crate) fn enter(op: LoopOp) -> LoopValue {
    RECORDED.with_borrow_mut(|recorded| recorded.enter(op))
}
fn pair(op: PairOp, x: LoopValue, y: LoopValue) -> LoopValue {
    enter(LoopOp::Pair(op, x, y))
}

/// Floats of 32 bits, or of 64.
#[derive(Clone, Copy)]
pub(crate) struct Traced<const DOUBLE: bool>(pub LoopValue);
/// The bits of [`Traced`].
#[derive(Clone, Copy)]
pub(crate) struct TracedBits<const DOUBLE: bool>(LoopValue);
/// A comparison of [`Traced`]: all bits of a lane, or none.
#[derive(Clone, Copy)]
pub(crate) struct TracedMask(pub LoopValue);

impl Mask for TracedMask {
    fn and(self, other: TracedMask) -> TracedMask {
        TracedMask(pair(PairOp::And, self.0, other.0))
    }
    fn or(self, other: TracedMask) -> TracedMask {
        TracedMask(pair(PairOp::Or, self.0, other.0))
    }
    fn not(self) -> TracedMask {
        TracedMask(pair(PairOp::Xor, self.0, enter(LoopOp::Constant(u64::MAX))))
    }
    /// A formula takes the same steps in every lane, whatever is true.
    fn any(self) -> bool {
        true
    }
}

impl<const DOUBLE: bool> TracedBits<DOUBLE> {
    fn bits(value: i64) -> TracedBits<DOUBLE> {
        TracedBits(enter(LoopOp::Constant(if DOUBLE { value as u64 } else { value as u32 as u64 })))
    }
    /// The sign alone.
    fn sign() -> TracedBits<DOUBLE> {
        Self::bits(if DOUBLE { i64::MIN } else { i32::MIN as i64 })
    }
    /// All but the sign.
    fn magnitude() -> TracedBits<DOUBLE> {
        Self::bits(if DOUBLE { i64::MAX } else { i32::MAX as i64 })
    }
}
impl<const DOUBLE: bool> Integer for TracedBits<DOUBLE> {
    type Elem = i64;
    type Mask = TracedMask;

    fn splat(value: i64) -> Self {
        Self::bits(value)
    }
    fn constant(value: i64) -> Self {
        Self::bits(value)
    }
    fn add(self, other: Self) -> Self {
        TracedBits(pair(PairOp::IntAdd, self.0, other.0))
    }
    fn sub(self, other: Self) -> Self {
        TracedBits(pair(PairOp::IntSub, self.0, other.0))
    }
    fn and(self, other: Self) -> Self {
        TracedBits(pair(PairOp::And, self.0, other.0))
    }
    fn or(self, other: Self) -> Self {
        TracedBits(pair(PairOp::Or, self.0, other.0))
    }
    fn xor(self, other: Self) -> Self {
        TracedBits(pair(PairOp::Xor, self.0, other.0))
    }
    fn shl(self, count: u32) -> Self {
        TracedBits(enter(LoopOp::ShiftLeft(self.0, count as u8)))
    }
    fn shr(self, count: u32) -> Self {
        TracedBits(enter(LoopOp::ShiftRight(self.0, count as u8)))
    }
    fn eq(self, other: Self) -> TracedMask {
        TracedMask(pair(PairOp::IntEqual, self.0, other.0))
    }
    fn gt(self, other: Self) -> TracedMask {
        TracedMask(pair(PairOp::IntGreater, self.0, other.0))
    }
}

impl<const DOUBLE: bool> Traced<DOUBLE> {
    fn pair(self, op: PairOp, other: Self) -> Self {
        Traced(pair(op, self.0, other.0))
    }
    fn whole(self, rule: WholeRule) -> Self {
        Traced(enter(LoopOp::Whole(rule, self.0)))
    }
}
impl<const DOUBLE: bool> Arithmetic for Traced<DOUBLE> {
    type Int = TracedBits<DOUBLE>;
    type Mask = TracedMask;
    const SIGNIFICAND: u32 = if DOUBLE { f64::MANTISSA_DIGITS - 1 } else { f32::MANTISSA_DIGITS - 1 };

    fn constant(value: f64) -> Self {
        Traced(enter(LoopOp::Constant(if DOUBLE { value.to_bits() } else { (value as f32).to_bits() as u64 })))
    }
    fn add(self, other: Self) -> Self {
        self.pair(PairOp::Add, other)
    }
    fn sub(self, other: Self) -> Self {
        self.pair(PairOp::Sub, other)
    }
    fn mul(self, other: Self) -> Self {
        self.pair(PairOp::Mul, other)
    }
    fn div(self, other: Self) -> Self {
        self.pair(PairOp::Div, other)
    }
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Traced(enter(LoopOp::MulAdd(self.0, factor.0, addend.0)))
    }
    fn sqrt(self) -> Self {
        Traced(enter(LoopOp::Sqrt(self.0)))
    }
    fn min(self, other: Self) -> Self {
        self.pair(PairOp::Min, other)
    }
    fn max(self, other: Self) -> Self {
        self.pair(PairOp::Max, other)
    }
    fn round(self) -> Self {
        self.whole(WholeRule::Nearest)
    }
    fn floor(self) -> Self {
        self.whole(WholeRule::Floor)
    }
    fn ceil(self) -> Self {
        self.whole(WholeRule::Ceil)
    }
    fn trunc(self) -> Self {
        self.whole(WholeRule::Trunc)
    }
    fn lt(self, other: Self) -> TracedMask {
        TracedMask(pair(PairOp::Less, self.0, other.0))
    }
    fn le(self, other: Self) -> TracedMask {
        TracedMask(pair(PairOp::LessEqual, self.0, other.0))
    }
    fn eq(self, other: Self) -> TracedMask {
        TracedMask(pair(PairOp::Equal, self.0, other.0))
    }
    fn is_nan(self) -> TracedMask {
        TracedMask(pair(PairOp::Unordered, self.0, self.0))
    }
    fn select(mask: TracedMask, yes: Self, no: Self) -> Self {
        Traced(enter(LoopOp::Select(mask.0, yes.0, no.0)))
    }
    fn to_bits(self) -> TracedBits<DOUBLE> {
        TracedBits(self.0)
    }
    fn from_bits(bits: TracedBits<DOUBLE>) -> Self {
        Traced(bits.0)
    }
    fn abs(self) -> Self {
        Self::from_bits(self.to_bits().and(TracedBits::magnitude()))
    }
    fn neg(self) -> Self {
        Self::from_bits(self.to_bits().xor(TracedBits::sign()))
    }
    fn copysign(self, sign: Self) -> Self {
        Self::from_bits(self.abs().to_bits().or(sign.to_bits().and(TracedBits::sign())))
    }
}
