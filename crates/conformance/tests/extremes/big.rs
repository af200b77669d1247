//! Numbers of 320 bits with infinities and NaN, and how far a float is from one. The arithmetic and the elementary functions are
//! `astro-float`'s; the special functions (`special.rs`) are series in it. Must not know tensors.
use astro_float::{BigFloat, Consts, RoundingMode, Sign};
use std::{
    cell::RefCell,
    cmp::Ordering,
    fmt,
    ops::{Add, Div, Mul, Neg, Sub},
};

/// Bits of a number. Sums of f32 from the smallest to the largest need 277, and some are lost in special functions.
pub const BITS: usize = 320;
/// Of results nothing but some bits beyond the 128 is asked: the last ones may be off.
const ROUNDING: RoundingMode = RoundingMode::None;

thread_local! {
    static CONSTANTS: RefCell<Consts> = RefCell::new(Consts::new().expect("memory for constants"));
}
fn with_constants<R>(f: impl FnOnce(&mut Consts) -> R) -> R {
    CONSTANTS.with_borrow_mut(f)
}

/// A number of [`BITS`] bits.
#[derive(Clone)]
pub struct Big(BigFloat);

impl From<f64> for Big {
    fn from(x: f64) -> Big {
        // astro-float 0.9.6 reads denormals wrongly.
        if x.is_subnormal() {
            return Big::from(x * 2f64.powi(200)).scaled(-200);
        }
        Big(BigFloat::from_f64(x, BITS))
    }
}
impl From<i32> for Big {
    fn from(x: i32) -> Big {
        Big::from(f64::from(x))
    }
}
macro_rules! operator {
    ($trait:ident $name:ident) => {
        impl $trait<&Big> for &Big {
            type Output = Big;
            fn $name(self, other: &Big) -> Big {
                Big(self.0.$name(&other.0, BITS, ROUNDING))
            }
        }
        impl $trait<Big> for Big {
            type Output = Big;
            fn $name(self, other: Big) -> Big {
                (&self).$name(&other)
            }
        }
        impl $trait<&Big> for Big {
            type Output = Big;
            fn $name(self, other: &Big) -> Big {
                (&self).$name(other)
            }
        }
        impl $trait<Big> for &Big {
            type Output = Big;
            fn $name(self, other: Big) -> Big {
                self.$name(&other)
            }
        }
        impl $trait<f64> for Big {
            type Output = Big;
            fn $name(self, other: f64) -> Big {
                (&self).$name(&Big::from(other))
            }
        }
        impl $trait<f64> for &Big {
            type Output = Big;
            fn $name(self, other: f64) -> Big {
                self.$name(&Big::from(other))
            }
        }
    };
}
operator!(Add add);
operator!(Sub sub);
operator!(Mul mul);
operator!(Div div);
impl Neg for &Big {
    type Output = Big;
    fn neg(self) -> Big {
        Big(BigFloat::neg(&self.0))
    }
}
impl Neg for Big {
    type Output = Big;
    fn neg(self) -> Big {
        -&self
    }
}
impl PartialEq for Big {
    fn eq(&self, other: &Big) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}
impl PartialOrd for Big {
    fn partial_cmp(&self, other: &Big) -> Option<Ordering> {
        self.0.cmp(&other.0).map(|o| o.cmp(&0))
    }
}
impl PartialEq<f64> for Big {
    fn eq(&self, other: &f64) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}
impl PartialOrd<f64> for Big {
    fn partial_cmp(&self, other: &f64) -> Option<Ordering> {
        self.partial_cmp(&Big::from(*other))
    }
}
impl fmt::Display for Big {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.digits(20))
    }
}
impl fmt::Debug for Big {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! elementary {
    ($($name:ident)*) => {
        impl Big {
            $(pub fn $name(&self) -> Big {
                Big(with_constants(|c| self.0.$name(BITS, ROUNDING, c)))
            })*
        }
    };
}
elementary!(sin cos tan asin acos atan sinh cosh asinh acosh atanh);

impl Big {
    pub fn nan() -> Big {
        Big(astro_float::NAN)
    }
    pub fn infinity() -> Big {
        Big(astro_float::INF_POS)
    }
    pub fn is_nan(&self) -> bool {
        self.0.is_nan()
    }
    pub fn is_infinite(&self) -> bool {
        self.0.is_inf()
    }
    pub fn is_finite(&self) -> bool {
        !self.is_nan() && !self.is_infinite()
    }
    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }
    pub fn is_negative(&self) -> bool {
        self.0.is_negative()
    }
    pub fn abs(&self) -> Big {
        Big(self.0.abs())
    }
    pub fn is_whole(&self) -> bool {
        self.is_finite() && *self == self.floor()
    }
    pub fn floor(&self) -> Big {
        // astro-float 0.9.6 changes whole numbers whose last bit is not 1 and above.
        if self.exponent().is_some_and(|e| e >= BITS as i64) {
            return self.clone();
        }
        Big(self.0.floor())
    }
    /// The larger; neither is NaN.
    pub fn max(&self, other: &Big) -> Big {
        if self < other { other.clone() } else { self.clone() }
    }
    pub fn pi() -> Big {
        Big(with_constants(|c| c.pi(BITS, ROUNDING)))
    }
    pub fn ln_2() -> Big {
        Big(with_constants(|c| c.ln_2(BITS, ROUNDING)))
    }
    pub fn parse(digits: &str) -> Big {
        Big(with_constants(|c| BigFloat::parse(digits, astro_float::Radix::Dec, BITS, ROUNDING, c)))
    }
    pub fn digits(&self, count: usize) -> String {
        let all = with_constants(|c| self.0.format(astro_float::Radix::Dec, ROUNDING, c)).unwrap_or_default();
        match all.split_once('e') {
            Some((digits, exponent)) => format!("{}e{exponent}", &digits[..digits.len().min(count)]),
            None => all,
        }
    }
    /// e with 2^(e-1) ≤ |x| < 2^e; of no number but a finite one that is not 0.
    pub fn exponent(&self) -> Option<i64> {
        if self.is_zero() { None } else { self.0.exponent().map(i64::from) }
    }
    /// x · 2^n.
    pub fn scaled(&self, n: i64) -> Big {
        let mut x = self.clone();
        if let (Some(e), false) = (self.0.exponent(), self.is_zero()) {
            x.0.set_exponent(e + n as i32);
        }
        x
    }
    pub fn exp(&self) -> Big {
        // Beyond, no power has an exponent of 32 bits, and none is asked for.
        if self.is_nan() || self.abs() < 1e8 {
            return Big(with_constants(|c| self.0.exp(BITS, ROUNDING, c)));
        }
        if self.is_negative() { Big::from(0.0) } else { Big::infinity() }
    }
    pub fn ln(&self) -> Big {
        if self.is_zero() {
            return -Big::infinity();
        }
        if *self < 0.0 {
            return Big::nan();
        }
        if self.is_infinite() {
            return self.clone();
        }
        Big(with_constants(|c| self.0.ln(BITS, ROUNDING, c)))
    }
    pub fn sqrt(&self) -> Big {
        Big(self.0.sqrt(BITS, ROUNDING))
    }
    pub fn square(&self) -> Big {
        self * self
    }
    pub fn recip(&self) -> Big {
        Big::from(1.0) / self
    }
    pub fn exp_m1(&self) -> Big {
        // eˣ - 1 = x + x²/2 + x³/6 + ..; what is left out is below 2^-200 of it.
        if self.exponent().is_some_and(|e| e < -50) {
            let series = [24.0, 6.0, 2.0, 1.0].iter().fold(Big::from(1.0 / 128.0) * self, |sum, f| (sum + Big::from(*f).recip()) * self);
            return series;
        }
        if self.is_zero() { self.clone() } else { self.exp() - 1.0 }
    }
    pub fn ln_1p(&self) -> Big {
        if self.exponent().is_some_and(|e| e < -50) {
            return [-4.0, 3.0, -2.0, 1.0].iter().fold(Big::from(0.2) * self, |sum, f| (sum + Big::from(*f).recip()) * self);
        }
        if self.is_zero() { self.clone() } else { (self + 1.0).ln() }
    }
    pub fn tanh(&self) -> Big {
        if self.is_zero() {
            return self.clone();
        }
        if self.abs() > 1e6 {
            return Big::from(if self.is_negative() { -1.0 } else { 1.0 });
        }
        let e = (self.abs() * 2.0).exp_m1();
        let t = &e / (&e + 2.0);
        if self.is_negative() { -t } else { t }
    }
    /// self^y for self ≥ 0, or a whole y.
    pub fn pow(&self, y: &Big) -> Big {
        if self.is_nan() || y.is_nan() {
            return Big::nan();
        }
        if y.is_zero() {
            return Big::from(1.0);
        }
        if *self < 0.0 {
            if !y.is_whole() {
                return if y.is_infinite() { self.abs().pow(y) } else { Big::nan() };
            }
            let size = self.abs().pow(y);
            return if (y / 2.0).is_whole() { size } else { -size };
        }
        if self.is_zero() {
            return if *y > 0.0 { self.clone() } else { Big::infinity() };
        }
        if *self == 1.0 {
            return self.clone();
        }
        (y * self.ln()).exp()
    }
    /// The nearest f64, for messages and for weights of errors: bits below 2^-1074 are cut.
    pub fn to_f64(&self) -> f64 {
        if self.is_nan() {
            return f64::NAN;
        }
        if self.is_infinite() {
            return if self.is_negative() { f64::NEG_INFINITY } else { f64::INFINITY };
        }
        let Some((words, _, sign, exponent, _)) = self.0.as_raw_parts() else { return f64::NAN };
        let Some(top) = words.last().filter(|_| !self.is_zero()) else { return 0.0 };
        let size = scaled(*top as f64, exponent - 64);
        if sign == Sign::Neg { -size } else { size }
    }
}
/// x · 2^n in steps that neither overflow nor underflow before the result does.
fn scaled(x: f64, n: i32) -> f64 {
    let mut left = n.clamp(-4000, 4000);
    let mut x = x;
    while left != 0 {
        let step = left.clamp(-1000, 1000);
        x *= 2f64.powi(step);
        left -= step;
    }
    x
}

/// A dtype's grid of numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Grid {
    /// bits of a significand, with the hidden one
    pub bits: i64,
    /// the exponent of the smallest normal number
    pub least: i64,
    /// the largest number
    pub largest: f64,
}
pub const F32: Grid = Grid { bits: 24, least: -126, largest: f32::MAX as f64 };
pub const F64: Grid = Grid { bits: 53, least: -1022, largest: f64::MAX };

impl Grid {
    /// The distance of neighbours where x is.
    pub fn ulp(&self, x: &Big) -> Big {
        let e = x.exponent().map_or(self.least, |e| (e - 1).max(self.least));
        Big::from(1.0).scaled(e - self.bits + 1)
    }
    /// Does the nearest number overflow?
    pub fn overflows(&self, x: &Big) -> bool {
        let largest = Big::from(self.largest);
        x.is_infinite() || x.abs() >= &largest + self.ulp(&largest) / 2.0
    }
    /// How many units in the last place `got` is off; infinite where it is NaN or infinite and the exact value is not.
    pub fn error(&self, got: f64, want: &Big) -> f64 {
        if want.is_nan() {
            // No exact value: nothing is promised.
            return 0.0;
        }
        if self.overflows(want) {
            let same_side = got.is_sign_negative() == want.is_negative();
            if want.is_infinite() && got.is_nan() {
                return 0.0;
            }
            // The largest number is a unit from where infinity begins.
            return if same_side && (got.is_infinite() || (want.is_finite() && got.abs() == self.largest)) { 0.0 } else { f64::INFINITY };
        }
        if !got.is_finite() {
            return f64::INFINITY;
        }
        ((Big::from(got) - want) / self.ulp(want)).abs().to_f64()
    }
}
