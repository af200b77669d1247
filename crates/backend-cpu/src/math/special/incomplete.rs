//! The regularized incomplete gamma functions, in f64 for f32.
use super::{
    super::elementary::{c, exp, log},
    covered,
    gamma::lgamma,
};
use crate::simd::{Arithmetic, Mask};

/// The most steps of the series and of the fraction, in fours: what takes more is not covered.
const FOURS: usize = 100;
/// What is left of a sum when it ends.
const LEAST: f64 = 1e-12;

/// 1 + x/(a+1) + x²/((a+1)(a+2)) + .. (DLMF 8.7.1 multiplied out), and where it has ended.
#[inline(always)]
fn lower_series<V: Arithmetic>(a: V, x: V) -> (V, V::Mask) {
    let one = c::<V>(1.0);
    let (mut term, mut sum, mut n) = (one, one, a);
    let mut ended = term.lt(c(0.0));
    for _ in 0..FOURS {
        for _ in 0..4 {
            n = n.add(one);
            term = term.mul(x).div(n);
            sum = sum.add(term);
        }
        ended = term.lt(sum.mul(c(LEAST)));
        if !ended.not().any() {
            break;
        }
    }
    (sum, ended)
}
/// The continued fraction of Γ(a, x) (DLMF 8.9.2) over x^a e^-x by the recurrences of its numerators and denominators, and where it has
/// ended.
#[inline(always)]
fn upper_fraction<V: Arithmetic>(a: V, x: V) -> (V, V::Mask) {
    let (one, vast) = (c::<V>(1.0), c::<V>(1e120));
    let (mut k, mut y) = (c::<V>(0.0), one.sub(a));
    let mut z = x.add(y).add(one);
    let (mut above, mut below) = ([one, x.add(one)], [x, z.mul(x)]);
    let mut value = above[1].div(below[1]);
    let mut ended = one.lt(c(0.0));
    for _ in 0..FOURS {
        let before = value;
        for _ in 0..4 {
            k = k.add(one);
            y = y.add(one);
            z = z.add(c(2.0));
            let factor = y.mul(k);
            above = [above[1], above[1].mul(z).sub(above[0].mul(factor))];
            below = [below[1], below[1].mul(z).sub(below[0].mul(factor))];
        }
        value = above[1].div(below[1]);
        ended = before.sub(value).abs().lt(value.abs().mul(c(LEAST)));
        if !ended.not().any() {
            break;
        }
        // Both grow without bounds; only their ratio counts.
        let scale = V::select(vast.lt(below[1].abs()), c(1e-120), one);
        above = above.map(|v| v.mul(scale));
        below = below.map(|v| v.mul(scale));
    }
    (value, ended)
}
/// P(a, x) or, if `UPPER`, Q(a, x) = 1 - P(a, x).
#[inline(always)]
pub(in super::super) fn incomplete<V: Arithmetic, const UPPER: bool>(a: V, x: V) -> V {
    let (zero, one) = (c::<V>(0.0), c::<V>(1.0));
    // Beyond these bounds digits are lost, or steps are many.
    let inside = c::<V>(1e-3).le(a).and(a.le(c(200.0))).and(zero.lt(x)).and(x.le(c(1000.0)));
    let (a, x) = (V::select(inside, a, one), V::select(inside, x, one));
    let is_low = x.lt(a.add(one));
    // x^a e^-x / Γ(a + 1)
    let weight = exp(a.mul(log(x)).sub(x).sub(lgamma(a.add(one))));
    let (mut lower, mut upper, mut ended) = (zero, zero, is_low);
    if is_low.any() {
        let (sum, series) = lower_series(a, V::select(is_low, x, zero));
        let sum = sum.mul(weight);
        (lower, upper, ended) = (sum, one.sub(sum), series);
    }
    if is_low.not().any() {
        let (ratio, fraction) = upper_fraction(a, V::select(is_low, a.add(c(50.0)), x));
        let rest = ratio.mul(weight).mul(a);
        (lower, upper) = (V::select(is_low, lower, one.sub(rest)), V::select(is_low, upper, rest));
        ended = is_low.and(ended).or(is_low.not().and(fraction));
    }
    covered(inside.and(ended), if UPPER { upper } else { lower })
}
