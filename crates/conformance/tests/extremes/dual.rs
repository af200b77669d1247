//! Exact values with their derivatives to every input, carried forward (R. E. Wengert, "A simple automatic derivative evaluation
//! program", 1964): what a result is, what its gradient is, and how it hangs on the inputs' last bits. Must not know tensors.
use super::{big::Big, special};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A value and its derivatives.
#[derive(Clone, Debug)]
pub struct Dual {
    pub v: Big,
    pub d: Vec<Big>,
}
/// What does not depend on an input does not, however steep or infinite what it is multiplied with.
fn times(a: &Big, b: &Big) -> Big {
    if a.is_zero() { a.clone() } else { a * b }
}
impl Dual {
    pub fn constant(v: impl Into<Big>, inputs: usize) -> Dual {
        Dual { v: v.into(), d: vec![Big::from(0.0); inputs] }
    }
    /// The k-th of so many inputs.
    pub fn input(v: f64, k: usize, inputs: usize) -> Dual {
        let mut x = Dual::constant(v, inputs);
        x.d[k] = Big::from(1.0);
        x
    }
    pub fn like(&self, v: impl Into<Big>) -> Dual {
        Dual::constant(v, self.d.len())
    }
    pub fn detached(&self) -> Dual {
        self.like(self.v.clone())
    }
    /// The value of a function, and its derivative here.
    fn through(&self, v: Big, slope: impl FnOnce() -> Big) -> Dual {
        if self.d.iter().all(Big::is_zero) {
            return self.like(v);
        }
        let slope = slope();
        Dual { v, d: self.d.iter().map(|d| times(d, &slope)).collect() }
    }
    pub fn exp(&self) -> Dual {
        let v = self.v.exp();
        self.through(v.clone(), || v)
    }
    pub fn exp_m1(&self) -> Dual {
        self.through(self.v.exp_m1(), || self.v.exp())
    }
    pub fn ln(&self) -> Dual {
        self.through(self.v.ln(), || self.v.recip())
    }
    pub fn ln_1p(&self) -> Dual {
        self.through(self.v.ln_1p(), || (&self.v + 1.0).recip())
    }
    pub fn sqrt(&self) -> Dual {
        let v = self.v.sqrt();
        self.through(v.clone(), || (v * 2.0).recip())
    }
    pub fn abs(&self) -> Dual {
        self.through(self.v.abs(), || {
            Big::from(if self.v.is_zero() {
                0.0
            } else if self.v.is_negative() {
                -1.0
            } else {
                1.0
            })
        })
    }
    pub fn square(&self) -> Dual {
        self.through(self.v.square(), || &self.v * 2.0)
    }
    pub fn softplus(&self) -> Dual {
        self.through(super::functions::softplus(&self.v), || super::functions::sigmoid(&self.v))
    }
    /// For a positive base; the exponent is a constant.
    pub fn pow(&self, p: Big) -> Dual {
        self.through(self.v.pow(&p), || &p * self.v.pow(&(&p - 1.0)))
    }
    pub fn ln_gamma(&self) -> Dual {
        self.through(special::ln_gamma(&self.v), || special::digamma(&self.v))
    }
    pub fn sin(&self) -> Dual {
        self.through(self.v.sin(), || self.v.cos())
    }
    /// ln(e^-x I₀(x)).
    pub fn ln_i0e(&self) -> Dual {
        let i0 = special::bessel_i_scaled(0, &self.v);
        self.through(i0.ln(), || special::bessel_i_scaled(1, &self.v) / i0 - 1.0)
    }
    /// k · ln(self), 0 where both are 0.
    pub fn times_ln(&self, k: &Dual) -> Dual {
        if k.v.is_zero() && self.v.is_zero() { self.like(0.0) } else { k * &self.ln() }
    }
}
macro_rules! operator {
    ($trait:ident $name:ident, |$x:ident, $y:ident| $value:expr, |$a:ident, $b:ident| $slope:expr) => {
        impl $trait<&Dual> for &Dual {
            type Output = Dual;
            fn $name(self, other: &Dual) -> Dual {
                let ($x, $y) = (&self.v, &other.v);
                Dual { v: $value, d: self.d.iter().zip(&other.d).map(|($a, $b)| $slope).collect() }
            }
        }
        impl $trait<Dual> for Dual {
            type Output = Dual;
            fn $name(self, other: Dual) -> Dual {
                (&self).$name(&other)
            }
        }
        impl $trait<&Dual> for Dual {
            type Output = Dual;
            fn $name(self, other: &Dual) -> Dual {
                (&self).$name(other)
            }
        }
        impl $trait<Dual> for &Dual {
            type Output = Dual;
            fn $name(self, other: Dual) -> Dual {
                self.$name(&other)
            }
        }
        impl $trait<f64> for Dual {
            type Output = Dual;
            fn $name(self, other: f64) -> Dual {
                let other = self.like(other);
                (&self).$name(&other)
            }
        }
        impl $trait<f64> for &Dual {
            type Output = Dual;
            fn $name(self, other: f64) -> Dual {
                self.$name(&self.like(other))
            }
        }
    };
}
operator!(Add add, |x, y| x + y, |a, b| a + b);
operator!(Sub sub, |x, y| x - y, |a, b| a - b);
/// The rules of a product and of a quotient.
fn of_product(x: &Big, y: &Big, a: &Big, b: &Big) -> Big {
    times(a, y) + times(b, x)
}
fn of_quotient(x: &Big, y: &Big, a: &Big, b: &Big) -> Big {
    match (a.is_zero(), b.is_zero()) {
        (true, true) => a.clone(),
        (false, true) => a / y,
        _ => (times(a, y) - times(b, x)) / y.square(),
    }
}
operator!(Mul mul, |x, y| x * y, |a, b| of_product(x, y, a, b));
operator!(Div div, |x, y| x / y, |a, b| of_quotient(x, y, a, b));
impl Neg for &Dual {
    type Output = Dual;
    fn neg(self) -> Dual {
        Dual { v: -&self.v, d: self.d.iter().map(|d| -d).collect() }
    }
}
impl Neg for Dual {
    type Output = Dual;
    fn neg(self) -> Dual {
        -&self
    }
}
/// The sum of at least one.
pub fn sum<'a>(of: impl IntoIterator<Item = &'a Dual>) -> Dual {
    let mut of = of.into_iter();
    let first = of.next().expect("something to sum").clone();
    of.fold(first, |a, b| a + b)
}
pub fn largest(of: &[Dual]) -> Big {
    of.iter().fold(-Big::infinity(), |m, x| m.max(&x.v))
}
/// ln Σ eˣ.
pub fn log_sum_exp(x: &[Dual]) -> Dual {
    let top = largest(x);
    if top.is_infinite() {
        // What it hangs on is not defined: PyTorch's gradient is NaN, too.
        return Dual { v: top, d: vec![Big::nan(); x[0].d.len()] };
    }
    let powers: Vec<Dual> = x.iter().map(|x| (x - &x.like(top.clone())).exp()).collect();
    let log = sum(&powers).ln();
    let top = log.like(top);
    log + top
}
