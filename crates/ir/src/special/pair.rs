//! Twice the precision of f64: where a function is a small rest of large numbers, or a power of a large one, an error of f64 in
//! between is one of the result many times larger. Must not know which functions use it.
use std::f64::consts::{LN_2, LOG2_E, PI};

/// The sum of two numbers of which the second is at most half a unit of the first (T. J. Dekker, "A floating-point technique
/// for extending the available precision", 1971).
#[derive(Clone, Copy)]
pub(super) struct DekkerPair(pub f64, pub f64);

/// ln 2, π, 2π and ln √(2π) beyond what their nearest f64 holds.
pub(super) const LN_2_PAIR: DekkerPair = DekkerPair(LN_2, 2.3190468138462996e-17);
pub(super) const PI_PAIR: DekkerPair = DekkerPair(PI, 1.2246467991473532e-16);
pub(super) const TAU_PAIR: DekkerPair = DekkerPair(2.0 * PI, 2.4492935982947064e-16);
pub(super) const LN_SQRT_TAU: DekkerPair = DekkerPair(0.9189385332046728, -3.8782941580672414e-17);
pub(super) const ONE: DekkerPair = DekkerPair(1.0, 0.0);

impl From<f64> for DekkerPair {
    fn from(x: f64) -> DekkerPair {
        DekkerPair(x, 0.0)
    }
}
impl DekkerPair {
    /// The sum, the larger number first.
    pub fn of(large: f64, small: f64) -> DekkerPair {
        let sum = large + small;
        DekkerPair(sum, small - (sum - large))
    }
    /// The sum of two numbers of any size.
    pub fn sum(x: f64, y: f64) -> DekkerPair {
        if x.abs() < y.abs() { DekkerPair::of(y, x) } else { DekkerPair::of(x, y) }
    }
    pub fn plus(self, other: DekkerPair) -> DekkerPair {
        let sum = self.0 + other.0;
        let back = sum - self.0;
        DekkerPair::of(sum, (self.0 - (sum - back)) + (other.0 - back) + self.1 + other.1)
    }
    pub fn minus(self, other: DekkerPair) -> DekkerPair {
        self.plus(other.negative())
    }
    pub fn negative(self) -> DekkerPair {
        DekkerPair(-self.0, -self.1)
    }
    pub fn times(self, other: DekkerPair) -> DekkerPair {
        let product = self.0 * other.0;
        DekkerPair::of(product, self.0.mul_add(other.0, -product) + self.0 * other.1 + self.1 * other.0)
    }
    pub fn over(self, other: DekkerPair) -> DekkerPair {
        let ratio = self.0 / other.0;
        let rest = self.plus(other.times(DekkerPair(-ratio, 0.0)));
        DekkerPair::of(ratio, (rest.0 + rest.1) / other.0)
    }
    pub fn sqrt(self) -> DekkerPair {
        let root = self.0.sqrt();
        let rest = self.minus(DekkerPair(root, 0.0).times(DekkerPair(root, 0.0)));
        DekkerPair::of(root, rest.0 / (2.0 * root))
    }
    /// The nearest f64.
    pub fn value(self) -> f64 {
        self.0 + self.1
    }
    /// e^x as (p, n), p · 2^n.
    pub fn exp(self) -> (DekkerPair, i32) {
        let n = (self.0 * LOG2_E).round();
        let r = self.plus(LN_2_PAIR.times(DekkerPair(-n, 0.0)));
        // Taylor's series, from its end.
        let sum = (1..=22).rev().fold(ONE, |sum, k| ONE.plus(r.times(sum).over(DekkerPair(f64::from(k), 0.0))));
        (sum, n as i32)
    }
    /// ln x of a positive x: f64's logarithm, and one step of Newton's method from there.
    pub fn ln(self) -> DekkerPair {
        let (m, n) = libm::frexp(self.0);
        let m = DekkerPair(m, libm::scalbn(self.1, -n));
        let guess = DekkerPair(m.0.ln(), 0.0);
        // |guess| ≤ ln 2: the power of two is 1 or 2.
        let (p, k) = guess.negative().exp();
        let scale = libm::scalbn(1.0, k);
        let off = m.times(DekkerPair(p.0 * scale, p.1 * scale)).minus(ONE);
        let fine = guess.plus(off).minus(DekkerPair(0.5 * off.0 * off.0, 0.0));
        LN_2_PAIR.times(DekkerPair(f64::from(n), 0.0)).plus(fine)
    }
    /// sin πx and cos πx by Taylor's series, |x| ≤ ½.
    pub fn sin_cos_pi(self) -> (DekkerPair, DekkerPair) {
        let u = PI_PAIR.times(self);
        let square = u.times(u);
        let series = |first: DekkerPair, from: f64| {
            let (mut term, mut sum, mut n) = (first, first, from);
            while term.0.abs() > 1e-34 * sum.0.abs().max(1e-3) {
                term = term.times(square).over(DekkerPair(-(n + 1.0) * (n + 2.0), 0.0));
                sum = sum.plus(term);
                n += 2.0;
            }
            sum
        };
        (series(u, 1.0), series(ONE, 0.0))
    }
}
