//! The loops under an instruction: one plain loop per function and operand form, compiled once per instruction set
//! and vectorised by the compiler. Every operation rounds once and nothing is contracted, so all sets give the same
//! bits. Must not know programs, tiles or layouts.
use crate::isa::Isa;
use crate::math::{
    MathFn,
    pairs::{PairFn, pair_f32, pair_f64},
    partial::{PartialFn, partial_f32, partial_f64},
    special::{SpecialElement, SpecialFn},
    unary_f32, unary_f64,
};
use crate::simd::{Float, Simd, SimdKernel, dispatch};
use adamant_runtime::DType;

/// Up to here the plain set is used: choosing another would cost more than it gains.
const SHORT: usize = 16;
pub(super) fn run<K: SimdKernel>(isa: Isa, n: usize, kernel: K) -> K::Output {
    dispatch(if n <= SHORT { Isa::Scalar } else { isa }, kernel)
}

/// An operand of a loop.
#[derive(Clone, Copy)]
pub(crate) enum Src<'a, T> {
    /// one value per element
    Slice(&'a [T]),
    /// one value for all
    Splat(T),
}

/// An operand as a slice, spread out where it is one value.
pub(super) fn spread<'a, T: Copy>(of: Src<'a, T>, buffer: &'a mut [T]) -> &'a [T] {
    match of {
        Src::Slice(all) => all,
        Src::Splat(v) => {
            buffer.fill(v);
            buffer
        }
    }
}
/// A function of a slice, or of one value for all.
#[inline]
pub(super) fn one<T: Copy, O: Copy>(x: Src<'_, T>, out: &mut [O], f: impl Fn(&[T], &mut [O])) {
    match x {
        Src::Slice(x) => f(x, out),
        Src::Splat(x) => {
            f(&[x], &mut out[..1]);
            let v = out[0];
            out.fill(v);
        }
    }
}

/// f32 and f64, as the loops see them.
pub(crate) trait Real:
    Copy
    + Default
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + SpecialElement
{
    /// A vector of them.
    type V<S: Simd>: Float<Elem = Self>;
    fn wide(self) -> f64;
    /// The nearest one.
    fn nearest(v: f64) -> Self;
    fn magnitude(self) -> Self;
    fn down(self) -> Self;
    fn up(self) -> Self;
    fn cut(self) -> Self;
    fn even(self) -> Self;
    fn signed_as(self, sign: Self) -> Self;
    fn math(isa: Isa, f: MathFn, x: &[Self], out: &mut [Self]);
    /// `out = f(x, y)`, of one length.
    fn pair(isa: Isa, f: PairFn, x: &[Self], y: &[Self], out: &mut [Self]);
    /// `out = f(x, y)`, of one length, where `exact` is its meaning.
    fn partial(isa: Isa, f: PartialFn, exact: fn(f64, f64) -> f64, x: &[Self], y: &[Self], out: &mut [Self]);
}
macro_rules! real {
    ($t:ident, $vector:ident, $math:ident, $pair:ident, $partial:ident) => {
        impl Real for $t {
            type V<S: Simd> = S::$vector;
            #[inline(always)]
            fn wide(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn nearest(v: f64) -> $t {
                v as $t
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn down(self) -> $t {
                self.floor()
            }
            #[inline(always)]
            fn up(self) -> $t {
                self.ceil()
            }
            #[inline(always)]
            fn cut(self) -> $t {
                self.trunc()
            }
            #[inline(always)]
            fn even(self) -> $t {
                self.round_ties_even()
            }
            #[inline(always)]
            fn signed_as(self, sign: $t) -> $t {
                self.copysign(sign)
            }
            fn math(isa: Isa, f: MathFn, x: &[$t], out: &mut [$t]) {
                $math(isa, f, x, out);
            }
            fn pair(isa: Isa, f: PairFn, x: &[$t], y: &[$t], out: &mut [$t]) {
                $pair(isa, f, x, y, out);
            }
            fn partial(isa: Isa, f: PartialFn, exact: fn(f64, f64) -> f64, x: &[$t], y: &[$t], out: &mut [$t]) {
                $partial(isa, f, exact, x, y, out);
            }
        }
    };
}
real!(f32, F32, unary_f32, pair_f32, partial_f32);
real!(f64, F64, unary_f64, pair_f64, partial_f64);

#[inline(always)]
pub(super) fn each<A: Copy, O>(x: &[A], out: &mut [O], f: impl Fn(A) -> O) {
    for (o, &x) in out.iter_mut().zip(x) {
        *o = f(x);
    }
}
#[inline(always)]
pub(super) fn zip<A: Copy, O: Copy>(x: Src<'_, A>, y: Src<'_, A>, out: &mut [O], f: impl Fn(A, A) -> O) {
    match (x, y) {
        (Src::Slice(x), Src::Slice(y)) => {
            for ((o, &x), &y) in out.iter_mut().zip(x).zip(y) {
                *o = f(x, y);
            }
        }
        (Src::Slice(x), Src::Splat(y)) => each(x, out, |x| f(x, y)),
        (Src::Splat(x), Src::Slice(y)) => each(y, out, |y| f(x, y)),
        (Src::Splat(x), Src::Splat(y)) => out.fill(f(x, y)),
    }
}

/// A function of one float, float out.
#[derive(Clone, Copy)]
pub(crate) enum RealUnary {
    Neg,
    Abs,
    Square,
    Sign,
    Floor,
    Ceil,
    Trunc,
    Round,
    Relu,
    Frac,
    /// times a number of f64
    Times(f64),
    Math(MathFn),
    Special(SpecialFn, fn(f64) -> f64),
    Exact(fn(f64) -> f64),
}
struct RealUnaryLoop<'a, T>(RealUnary, &'a [T], &'a mut [T]);
impl<T: Real> SimdKernel for RealUnaryLoop<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let RealUnaryLoop(f, x, out) = self;
        let (zero, one) = (T::nearest(0.0), T::nearest(1.0));
        match f {
            RealUnary::Neg => each(x, out, |x| -x),
            RealUnary::Abs => each(x, out, T::magnitude),
            RealUnary::Square => each(x, out, |x| x * x),
            RealUnary::Sign => each(x, out, |x| {
                if x > zero {
                    one
                } else if x < zero {
                    -one
                } else {
                    zero
                }
            }),
            RealUnary::Floor => each(x, out, T::down),
            RealUnary::Ceil => each(x, out, T::up),
            RealUnary::Trunc => each(x, out, T::cut),
            RealUnary::Round => each(x, out, T::even),
            RealUnary::Relu => each(x, out, |x| if x <= zero { zero } else { x }),
            RealUnary::Frac => each(x, out, |x| x - x.cut()),
            RealUnary::Times(by) => each(x, out, |x| T::nearest(x.wide() * by)),
            RealUnary::Exact(f) => each(x, out, |x| T::nearest(f(x.wide()))),
            RealUnary::Math(_) | RealUnary::Special(..) => {}
        }
    }
}
/// `out = f(x)`.
pub(crate) fn real_unary<T: Real>(isa: Isa, f: RealUnary, x: &[T], out: &mut [T]) {
    match f {
        RealUnary::Math(f) => T::math(if x.len() <= SHORT { Isa::Scalar } else { isa }, f, x, out),
        RealUnary::Special(f, exact) => T::special(if x.len() <= SHORT { Isa::Scalar } else { isa }, f, exact, x, out),
        RealUnary::Exact(f) => each(x, out, |x| T::nearest(f(x.wide()))),
        _ => run(isa, x.len(), RealUnaryLoop(f, x, out)),
    }
}

/// A function of two floats, float out.
#[derive(Clone, Copy)]
pub(crate) enum RealBinary {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    /// NaN is no number
    LargerNumber,
    SmallerNumber,
    CopySign,
    Heaviside,
    DivTrunc,
    Pair(PairFn),
    Partial(PartialFn, fn(f64, f64) -> f64),
    Exact(fn(f64, f64) -> f64),
}
/// The larger; NaN if either is.
#[inline(always)]
pub(crate) fn larger<T: Real>(x: T, y: T) -> T {
    let most = if x > y { x } else { y };
    if x.partial_cmp(&x).is_none() { x } else { most }
}
/// The smaller; NaN if either is.
#[inline(always)]
pub(crate) fn smaller<T: Real>(x: T, y: T) -> T {
    let least = if x < y { x } else { y };
    if x.partial_cmp(&x).is_none() { x } else { least }
}
struct RealBinaryLoop<'a, T>(RealBinary, Src<'a, T>, Src<'a, T>, &'a mut [T]);
impl<T: Real> SimdKernel for RealBinaryLoop<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let RealBinaryLoop(f, x, y, out) = self;
        match f {
            RealBinary::Add => zip(x, y, out, |x, y| x + y),
            RealBinary::Sub => zip(x, y, out, |x, y| x - y),
            RealBinary::Mul => zip(x, y, out, |x, y| x * y),
            RealBinary::Div => zip(x, y, out, |x, y| x / y),
            RealBinary::Max => zip(x, y, out, larger),
            RealBinary::Min => zip(x, y, out, smaller),
            RealBinary::LargerNumber => zip(x, y, out, |x, y| if x > y || y.partial_cmp(&y).is_none() { x } else { y }),
            RealBinary::SmallerNumber => zip(x, y, out, |x, y| if x < y || y.partial_cmp(&y).is_none() { x } else { y }),
            RealBinary::CopySign => zip(x, y, out, T::signed_as),
            RealBinary::Heaviside => {
                let (zero, one) = (T::nearest(0.0), T::nearest(1.0));
                zip(x, y, out, |x, y| if x == zero { y } else { [zero, one][(x > zero) as usize] })
            }
            RealBinary::DivTrunc => zip(x, y, out, |x, y| T::nearest((x.wide() / y.wide()).trunc())),
            RealBinary::Pair(_) | RealBinary::Partial(..) | RealBinary::Exact(_) => {}
        }
    }
}
/// Elements of two operands done at a time.
const PIECE: usize = 256;

/// Calls `f` with stretches of both operands, each a number for each element.
fn by_stretches<T: Copy + Default>(x: Src<'_, T>, y: Src<'_, T>, out: &mut [T], f: impl Fn(&[T], &[T], &mut [T])) {
    let stretch = |of, k: usize, n: usize| match of {
        Src::Slice(all) => Src::Slice(&all[k * PIECE..][..n]),
        splat => splat,
    };
    let mut buffers = [[T::default(); PIECE]; 2];
    for (k, out) in out.chunks_mut(PIECE).enumerate() {
        let [first, second] = &mut buffers;
        let n = out.len();
        f(spread(stretch(x, k, n), &mut first[..n]), spread(stretch(y, k, n), &mut second[..n]), out);
    }
}
/// `out = f(x, y)`.
pub(crate) fn real_binary<T: Real>(isa: Isa, f: RealBinary, x: Src<'_, T>, y: Src<'_, T>, out: &mut [T]) {
    let set = if out.len() <= SHORT { Isa::Scalar } else { isa };
    match (f, y) {
        (RealBinary::Exact(f), _) => zip(x, y, out, |x, y| T::nearest(f(x.wide(), y.wide()))),
        // The formula has these powers as products, too.
        (RealBinary::Pair(PairFn::Pow), Src::Splat(y)) if y.wide() == 2.0 => run(isa, out.len(), RealBinaryLoop(RealBinary::Mul, x, x, out)),
        (RealBinary::Pair(PairFn::Pow), Src::Splat(y)) if y.wide() == 3.0 => zip(x, x, out, |x, _| x * x * x),
        (RealBinary::Pair(f), _) => by_stretches(x, y, out, |x, y, out| T::pair(set, f, x, y, out)),
        (RealBinary::Partial(f, exact), _) => by_stretches(x, y, out, |x, y, out| T::partial(set, f, exact, x, y, out)),
        _ => run(isa, out.len(), RealBinaryLoop(f, x, y, out)),
    }
}

/// A comparison.
#[derive(Clone, Copy)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}
struct CompareLoop<'a, T>(Compare, Src<'a, T>, Src<'a, T>, &'a mut [u8]);
impl<T: Copy + PartialOrd> SimdKernel for CompareLoop<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let CompareLoop(f, x, y, out) = self;
        match f {
            Compare::Eq => zip(x, y, out, |x, y| (x == y) as u8),
            Compare::Ne => zip(x, y, out, |x, y| (x != y) as u8),
            Compare::Lt => zip(x, y, out, |x, y| (x < y) as u8),
            Compare::Le => zip(x, y, out, |x, y| (x <= y) as u8),
            Compare::Gt => zip(x, y, out, |x, y| (x > y) as u8),
            Compare::Ge => zip(x, y, out, |x, y| (x >= y) as u8),
        }
    }
}
/// `out = f(x, y)` as 0 or 1.
pub(crate) fn compare<T: Copy + PartialOrd>(isa: Isa, f: Compare, x: Src<'_, T>, y: Src<'_, T>, out: &mut [u8]) {
    run(isa, out.len(), CompareLoop(f, x, y, out));
}

/// A test of two floats.
#[derive(Clone, Copy)]
pub(crate) enum RealPredicate {
    And,
    Or,
    Xor,
    Exact(fn(f64, f64) -> f64),
}
struct RealPredicateLoop<'a, T>(RealPredicate, Src<'a, T>, Src<'a, T>, &'a mut [u8]);
impl<T: Real> SimdKernel for RealPredicateLoop<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let RealPredicateLoop(f, x, y, out) = self;
        let zero = T::nearest(0.0);
        match f {
            RealPredicate::And => zip(x, y, out, |x, y| (x != zero) as u8 & (y != zero) as u8),
            RealPredicate::Or => zip(x, y, out, |x, y| (x != zero) as u8 | (y != zero) as u8),
            RealPredicate::Xor => zip(x, y, out, |x, y| (x != zero) as u8 ^ (y != zero) as u8),
            RealPredicate::Exact(f) => zip(x, y, out, |x, y| (f(x.wide(), y.wide()) != 0.0) as u8),
        }
    }
}
/// `out = f(x, y)` as 0 or 1.
pub(crate) fn real_predicate<T: Real>(isa: Isa, f: RealPredicate, x: Src<'_, T>, y: Src<'_, T>, out: &mut [u8]) {
    run(isa, out.len(), RealPredicateLoop(f, x, y, out));
}
/// A function of two truth values, given as a table: bit `2 x + y` of the number is the result.
pub(crate) fn bool_binary(table: u8, x: Src<'_, u8>, y: Src<'_, u8>, out: &mut [u8]) {
    zip(x, y, out, |x, y| table >> (x * 2 + y) & 1);
}
/// The same of one: bit `x`.
pub(crate) fn bool_unary(table: u8, x: &[u8], out: &mut [u8]) {
    each(x, out, |x| table >> x & 1);
}
/// A test of a float.
#[derive(Clone, Copy)]
pub(crate) enum RealTest {
    Nan,
    Infinite,
    Finite,
    /// to this number
    Equal(f64),
    /// by its sign: -0 is
    Negative,
    Exact(fn(f64) -> f64),
}
struct RealTestLoop<'a, T>(RealTest, &'a [T], &'a mut [u8]);
impl<T: Real> SimdKernel for RealTestLoop<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let RealTestLoop(f, x, out) = self;
        let (one, infinite) = (T::nearest(1.0), T::nearest(f64::INFINITY));
        match f {
            RealTest::Nan => each(x, out, |x| x.partial_cmp(&x).is_none() as u8),
            RealTest::Infinite => each(x, out, |x| (x.magnitude() == infinite) as u8),
            RealTest::Finite => each(x, out, |x| (x.magnitude() < infinite) as u8),
            RealTest::Equal(v) => {
                let v = T::nearest(v);
                each(x, out, |x| (x == v) as u8)
            }
            RealTest::Negative => each(x, out, |x| (one.signed_as(x) != one) as u8),
            RealTest::Exact(f) => each(x, out, |x| (f(x.wide()) != 0.0) as u8),
        }
    }
}
/// `out = test(x)` as 0 or 1.
pub(crate) fn real_test<T: Real>(isa: Isa, f: RealTest, x: &[T], out: &mut [u8]) {
    run(isa, x.len(), RealTestLoop(f, x, out));
}
struct SelectLoop<'a, T>(&'a [u8], Src<'a, T>, Src<'a, T>, &'a mut [T]);
impl<T: Copy> SimdKernel for SelectLoop<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let SelectLoop(c, x, y, out) = self;
        match (x, y) {
            (Src::Slice(x), Src::Slice(y)) => {
                for (((o, &c), &x), &y) in out.iter_mut().zip(c).zip(x).zip(y) {
                    *o = if c != 0 { x } else { y };
                }
            }
            (Src::Slice(x), Src::Splat(y)) => {
                for ((o, &c), &x) in out.iter_mut().zip(c).zip(x) {
                    *o = if c != 0 { x } else { y };
                }
            }
            (Src::Splat(x), Src::Slice(y)) => {
                for ((o, &c), &y) in out.iter_mut().zip(c).zip(y) {
                    *o = if c != 0 { x } else { y };
                }
            }
            (Src::Splat(x), Src::Splat(y)) => each(c, out, |c| if c != 0 { x } else { y }),
        }
    }
}
/// `out = c ? x : y`.
pub(crate) fn select<T: Copy>(isa: Isa, c: Src<'_, u8>, x: Src<'_, T>, y: Src<'_, T>, out: &mut [T]) {
    match c {
        Src::Slice(c) => run(isa, out.len(), SelectLoop(c, x, y, out)),
        Src::Splat(c) => match if c != 0 { x } else { y } {
            Src::Slice(v) => out.copy_from_slice(&v[..out.len()]),
            Src::Splat(v) => out.fill(v),
        },
    }
}

/// f32 rounded to bf16, ties to even, as an f32.
#[inline(always)]
pub(crate) fn to_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) & 0xFFFF_0000;
    f32::from_bits(if x.is_nan() { (bits | 0x0040_0000) & 0xFFFF_0000 } else { rounded })
}
/// Numbers rounded to bf16, ties to even.
pub(crate) fn round_to_bf16(isa: Isa, x: &[f32], out: &mut [half::bf16]) {
    convert(isa, x, out, |v| half::bf16::from_bits((to_bf16(v).to_bits() >> 16) as u16));
}
/// f32 rounded to f16, ties to even, as an f32.
#[inline(always)]
pub(crate) fn to_f16(x: f32) -> f32 {
    let bits = x.to_bits();
    let sign = bits & 0x8000_0000;
    let magnitude = f32::from_bits(bits & 0x7FFF_FFFF);
    // Below 2^-14 the spacing is 2^-24, which is that of f32 just above 0.5.
    let small = (magnitude + 0.5) - 0.5;
    let normal = f32::from_bits((magnitude.to_bits() + 0xFFF + (bits >> 13 & 1)) & 0xFFFF_E000);
    let finite = if magnitude < 6.103_515_6e-5 { small } else { normal };
    let bounded = if magnitude >= 65520.0 { f32::INFINITY } else { finite };
    f32::from_bits(sign | if x.is_nan() { (bits & 0x7FFF_E000) | 0x0040_0000 } else { bounded.to_bits() })
}
struct RoundLoop<'a>(DType, &'a mut [f32]);
impl SimdKernel for RoundLoop<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        match self.0 {
            DType::BF16 => self.1.iter_mut().for_each(|x| *x = to_bf16(*x)),
            DType::F16 => self.1.iter_mut().for_each(|x| *x = to_f16(*x)),
            _ => {}
        }
    }
}
/// Rounds computed values to a 16-bit or 8-bit dtype.
pub(crate) fn round(isa: Isa, dtype: DType, x: &mut [f32]) {
    match dtype {
        DType::BF16 | DType::F16 => run(isa, x.len(), RoundLoop(dtype, x)),
        DType::F8E4M3 | DType::F8E5M2 => x.iter_mut().for_each(|x| *x = adamant_runtime::f8_to_f32(adamant_runtime::f32_to_f8(*x, dtype), dtype)),
        _ => {}
    }
}
struct WrapLoop<'a>(DType, &'a mut [i64]);
impl SimdKernel for WrapLoop<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let x = self.1;
        match self.0 {
            DType::U8 => x.iter_mut().for_each(|x| *x = *x as u8 as i64),
            DType::I8 => x.iter_mut().for_each(|x| *x = *x as i8 as i64),
            DType::U16 => x.iter_mut().for_each(|x| *x = *x as u16 as i64),
            DType::I16 => x.iter_mut().for_each(|x| *x = *x as i16 as i64),
            DType::U32 => x.iter_mut().for_each(|x| *x = *x as u32 as i64),
            DType::I32 => x.iter_mut().for_each(|x| *x = *x as i32 as i64),
            _ => {}
        }
    }
}
/// Wraps computed values to a narrower integer dtype.
pub(crate) fn wrap(isa: Isa, dtype: DType, x: &mut [i64]) {
    if !matches!(dtype, DType::I64 | DType::U64) {
        run(isa, x.len(), WrapLoop(dtype, x));
    }
}

/// A conversion of a whole slice by a plain function, vectorised where the set can.
pub(crate) fn convert<A: Copy, O>(isa: Isa, x: &[A], out: &mut [O], f: impl Fn(A) -> O) {
    struct ConvertLoop<'a, A, O, F>(&'a [A], &'a mut [O], F);
    impl<A: Copy, O, F: Fn(A) -> O> SimdKernel for ConvertLoop<'_, A, O, F> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self) {
            each(self.0, self.1, self.2);
        }
    }
    run(isa, x.len(), ConvertLoop(x, out, f));
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    #[test]
    fn rounding_to_16_bits_agrees_with_the_conversion() {
        for k in 0..2_000_000u32 {
            let x = f32::from_bits(k.wrapping_mul(2_147_001_325));
            for (got, want) in [(to_f16(x), f16::from_f32(x).to_f32()), (to_bf16(x), bf16::from_f32(x).to_f32())] {
                assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{x:e}: {got:e} {want:e}");
            }
        }
        for x in [0.0f32, -0.0, 6.103_515_6e-5, 6.1e-5, 5.9e-8, 2.9e-8, 3e-8, 65504.0, 65519.9, 65520.0, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE] {
            assert_eq!(to_f16(x).to_bits(), f16::from_f32(x).to_f32().to_bits(), "{x:e}");
            assert_eq!(to_f16(-x).to_bits(), f16::from_f32(-x).to_f32().to_bits(), "-{x:e}");
        }
    }
}
