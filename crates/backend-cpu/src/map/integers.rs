//! The loops over integers, by the rules of [`super::loops`]. Must not know programs, tiles or layouts.
use super::loops::{Src, each, run, zip};
use crate::{
    isa::Isa,
    simd::{Simd, SimdKernel},
};

/// A function of two integers, wrapped to the dtype afterwards.
#[derive(Clone, Copy)]
pub(crate) enum IntBinary {
    Add,
    Sub,
    Mul,
    Max,
    Min,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    Heaviside,
    Divide(DivisionFn, fn(i64, i64) -> Option<i64>),
    /// `None`: a division by zero, reported; the result is 0
    Exact(fn(i64, i64) -> Option<i64>),
}
/// A function of a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DivisionFn {
    /// toward zero
    Truncated,
    /// down
    Floor,
    /// what is left, with the sign of x
    Fmod,
    /// with the sign of y
    Remainder,
}
struct IntBinaryLoop<'a>(IntBinary, Src<'a, i64>, Src<'a, i64>, &'a mut [i64]);
impl SimdKernel for IntBinaryLoop<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let IntBinaryLoop(f, x, y, out) = self;
        match f {
            IntBinary::Add => zip(x, y, out, i64::wrapping_add),
            IntBinary::Sub => zip(x, y, out, i64::wrapping_sub),
            IntBinary::Mul => zip(x, y, out, i64::wrapping_mul),
            IntBinary::Max => zip(x, y, out, i64::max),
            IntBinary::Min => zip(x, y, out, i64::min),
            IntBinary::And => zip(x, y, out, |x, y| x & y),
            IntBinary::Or => zip(x, y, out, |x, y| x | y),
            IntBinary::Xor => zip(x, y, out, |x, y| x ^ y),
            // The counts of a shift within the width, beyond which nothing or the sign alone is left.
            IntBinary::ShiftLeft => zip(x, y, out, |x, y| if (y as u64) < 64 { x << (y & 63) } else { 0 }),
            IntBinary::ShiftRight => zip(x, y, out, |x, y| x >> if (y as u64) < 64 { y & 63 } else { 63 }),
            IntBinary::Heaviside => zip(x, y, out, |x, y| if x == 0 { y } else { (x > 0) as i64 }),
            IntBinary::Divide(f, _) => match f {
                DivisionFn::Truncated => zip(x, y, out, |x, y| quotient(x, y).0),
                DivisionFn::Floor => zip(x, y, out, |x, y| {
                    let (whole, left) = quotient(x, y);
                    whole - is_across(left, y)
                }),
                DivisionFn::Fmod => zip(x, y, out, |x, y| quotient(x, y).1),
                DivisionFn::Remainder => zip(x, y, out, |x, y| {
                    let left = quotient(x, y).1;
                    left + y * is_across(left, y)
                }),
            },
            IntBinary::Exact(_) => {}
        }
    }
}

/// Integers below this are numbers of f64 with a bit to spare, which a sum with [`MAGIC`] has in its lower bits.
const LARGEST: i64 = 1 << 50;
/// 1.5 · 2^52
const MAGIC: f64 = 6_755_399_441_055_744.0;
#[inline(always)]
fn to_real(x: i64) -> f64 {
    f64::from_bits((x as u64).wrapping_add(MAGIC.to_bits())) - MAGIC
}
#[inline(always)]
fn to_int(x: f64) -> i64 {
    (x + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()) as i64
}
/// The quotient toward zero and what it leaves, of numbers below [`LARGEST`]: that of f64 is no whole number that the exact one is not,
/// and its product with the divisor is exact.
#[inline(always)]
fn quotient(x: i64, y: i64) -> (i64, i64) {
    let (x, y) = (to_real(x), to_real(y));
    let whole = (x / y).trunc();
    (to_int(whole), to_int(x - whole * y))
}
/// 1 where what is left is on the other side of zero than the divisor.
#[inline(always)]
fn is_across(left: i64, y: i64) -> i64 {
    ((left != 0) & ((left < 0) != (y < 0))) as i64
}
/// Are all of them below [`LARGEST`], and none of the divisors 0?
struct DivisibleLoop<'a>(Src<'a, i64>, Src<'a, i64>);
impl SimdKernel for DivisibleLoop<'_> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self) -> bool {
        let all = |of: Src<'_, i64>, f: fn(i64) -> bool| match of {
            Src::Slice(of) => of.iter().fold(true, |all, &x| all & f(x)),
            Src::Splat(x) => f(x),
        };
        all(self.0, |x| (x.wrapping_add(LARGEST) as u64) < 2 * LARGEST as u64)
            & all(self.1, |y| (y != 0) & ((y.wrapping_add(LARGEST) as u64) < 2 * LARGEST as u64))
    }
}
/// `out = f(x, y)`; true if there was a division by zero.
pub(crate) fn int_binary(isa: Isa, f: IntBinary, x: Src<'_, i64>, y: Src<'_, i64>, out: &mut [i64]) -> bool {
    let exact = match f {
        IntBinary::Exact(exact) => exact,
        IntBinary::Divide(_, exact) if !run(isa, out.len(), DivisibleLoop(x, y)) => exact,
        _ => {
            run(isa, out.len(), IntBinaryLoop(f, x, y, out));
            return false;
        }
    };
    let bad = std::cell::Cell::new(false);
    zip(x, y, out, |x, y| {
        exact(x, y).unwrap_or_else(|| {
            bad.set(true);
            0
        })
    });
    bad.get()
}

/// A function of one integer, wrapped to the dtype afterwards.
#[derive(Clone, Copy)]
pub(crate) enum IntUnary {
    Neg,
    Abs,
    Sign,
    Square,
    Not,
    Relu,
    /// what is whole already
    Same,
    Exact(fn(i64) -> i64),
}
struct IntUnaryLoop<'a>(IntUnary, &'a [i64], &'a mut [i64]);
impl SimdKernel for IntUnaryLoop<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let IntUnaryLoop(f, x, out) = self;
        match f {
            IntUnary::Neg => each(x, out, i64::wrapping_neg),
            IntUnary::Abs => each(x, out, i64::wrapping_abs),
            IntUnary::Sign => each(x, out, i64::signum),
            IntUnary::Square => each(x, out, |x: i64| x.wrapping_mul(x)),
            IntUnary::Not => each(x, out, |x: i64| !x),
            IntUnary::Relu => each(x, out, |x: i64| x.max(0)),
            IntUnary::Same => each(x, out, |x| x),
            IntUnary::Exact(f) => each(x, out, f),
        }
    }
}
/// `out = f(x)`.
pub(crate) fn int_unary(isa: Isa, f: IntUnary, x: &[i64], out: &mut [i64]) {
    run(isa, x.len(), IntUnaryLoop(f, x, out));
}

/// A test of an integer.
#[derive(Clone, Copy)]
pub(crate) enum IntTest {
    Zero,
    Negative,
    Always,
    Never,
    Exact(fn(i64) -> i64),
}
struct IntTestLoop<'a>(IntTest, &'a [i64], &'a mut [u8]);
impl SimdKernel for IntTestLoop<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let IntTestLoop(f, x, out) = self;
        match f {
            IntTest::Zero => each(x, out, |x| (x == 0) as u8),
            IntTest::Negative => each(x, out, |x| (x < 0) as u8),
            IntTest::Always => out.fill(1),
            IntTest::Never => out.fill(0),
            IntTest::Exact(f) => each(x, out, |x| (f(x) != 0) as u8),
        }
    }
}
/// `out = test(x)` as 0 or 1.
pub(crate) fn int_test(isa: Isa, f: IntTest, x: &[i64], out: &mut [u8]) {
    run(isa, x.len(), IntTestLoop(f, x, out));
}

/// A test of two integers.
#[derive(Clone, Copy)]
pub(crate) enum IntPredicate {
    And,
    Or,
    Xor,
    Exact(fn(i64, i64) -> Option<i64>),
}
struct IntPredicateLoop<'a>(IntPredicate, Src<'a, i64>, Src<'a, i64>, &'a mut [u8]);
impl SimdKernel for IntPredicateLoop<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let IntPredicateLoop(f, x, y, out) = self;
        match f {
            IntPredicate::And => zip(x, y, out, |x, y| ((x != 0) & (y != 0)) as u8),
            IntPredicate::Or => zip(x, y, out, |x, y| ((x != 0) | (y != 0)) as u8),
            IntPredicate::Xor => zip(x, y, out, |x, y| ((x != 0) ^ (y != 0)) as u8),
            IntPredicate::Exact(f) => zip(x, y, out, |x, y| f(x, y).is_some_and(|v| v != 0) as u8),
        }
    }
}
/// `out = f(x, y)` as 0 or 1.
pub(crate) fn int_predicate(isa: Isa, f: IntPredicate, x: Src<'_, i64>, y: Src<'_, i64>, out: &mut [u8]) {
    run(isa, out.len(), IntPredicateLoop(f, x, y, out));
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant_runtime::special;

    /// Small ones, large ones, those at the bounds of the formula and of the width.
    fn numbers() -> Vec<i64> {
        let mut state = 9u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state as i64
        };
        let mut all: Vec<i64> = (0..3000).map(|_| next() >> 58).collect();
        all.extend((0..3000).map(|_| next() >> 40));
        all.extend((0..3000).map(|_| next() >> 14));
        for middle in [0, LARGEST, -LARGEST, i64::MAX, i64::MIN] {
            all.extend((0..40).map(|k| middle.wrapping_add(k - 20)));
        }
        all
    }
    #[test]
    fn a_division_that_is_not_that_of_integers() {
        let exact: [(DivisionFn, fn(i64, i64) -> Option<i64>); 4] = [
            (DivisionFn::Truncated, |x, y| if y == 0 { None } else { Some(x.wrapping_div(y)) }),
            (DivisionFn::Floor, special::int_floor_divide),
            (DivisionFn::Fmod, |x, y| if y == 0 { None } else { Some(x.wrapping_rem(y)) }),
            (DivisionFn::Remainder, special::int_remainder),
        ];
        let x = numbers();
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for (f, exact) in exact {
                for shift in [1, 17, 2999, 3001, 6007] {
                    let y: Vec<i64> = x.iter().cycle().skip(shift).take(x.len()).copied().collect();
                    // By pieces, so that some hold a divisor of zero or a large number and most do not.
                    for (x, y) in x.chunks(50).zip(y.chunks(50)) {
                        let mut out = vec![7; x.len()];
                        let bad = int_binary(isa, IntBinary::Divide(f, exact), Src::Slice(x), Src::Slice(y), &mut out);
                        assert_eq!(bad, y.contains(&0), "{f:?} on {isa:?}");
                        for k in 0..x.len() {
                            assert_eq!(out[k], exact(x[k], y[k]).unwrap_or(0), "{f:?}({}, {}) on {isa:?}", x[k], y[k]);
                        }
                    }
                }
            }
        }
    }
    #[test]
    fn a_shift_beyond_the_width_that_leaves_bits() {
        let x = numbers();
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for y in [-1, 0, 1, 5, 63, 64, 65, i64::MIN, i64::MAX] {
                for (f, exact) in [(IntBinary::ShiftLeft, special::shift_left as fn(i64, i64) -> i64), (IntBinary::ShiftRight, special::shift_right)] {
                    let mut out = vec![7; x.len()];
                    int_binary(isa, f, Src::Slice(&x), Src::Slice(&vec![y; x.len()]), &mut out);
                    assert!(x.iter().zip(&out).all(|(&x, &out)| out == exact(x, y)), "by {y} on {isa:?}");
                }
            }
        }
    }
}
