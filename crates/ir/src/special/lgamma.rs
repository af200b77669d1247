//! ln |Γ(x)|: libm's, and in pairs where that is little beside what it is a difference of. Must not know who asks.
use super::pair::{DekkerPair, LN_SQRT_TAU, ONE, PI_PAIR};

/// (-1)ᵏ⁺¹ |B₂ₖ| / (2k (2k - 1)) as fractions, of Stirling's series (DLMF 5.11.1).
const STIRLING: [(f64, f64); 11] = [
    (1.0, 12.0),
    (-1.0, 360.0),
    (1.0, 1260.0),
    (-1.0, 1680.0),
    (1.0, 1188.0),
    (-691.0, 360_360.0),
    (1.0, 156.0),
    (-3617.0, 122_400.0),
    (43867.0, 244_188.0),
    (-174_611.0, 125_400.0),
    (77683.0, 5796.0),
];
/// From here on the series has as many digits as a pair.
const FAR: f64 = 32.0;

/// What Stirling's formula lacks, ln Γ(a+1) - (a+½) ln a + a - ln √(2π), for a ≥ [`FAR`].
pub(super) fn stirling_rest(a: DekkerPair) -> DekkerPair {
    let r = ONE.over(a.times(a));
    let series = STIRLING.iter().rev().fold(DekkerPair::from(0.0), |sum, &(p, q)| sum.times(r).plus(DekkerPair::from(p).over(q.into())));
    series.over(a)
}
/// ln Γ(x) for x > 0.
pub(super) fn ln_gamma_pair(x: DekkerPair) -> DekkerPair {
    let (mut at, mut product) = (x, ONE);
    while at.0 < FAR {
        product = product.times(at);
        at = at.plus(ONE);
    }
    let stirling = at.minus(0.5.into()).times(at.ln()).minus(at).plus(LN_SQRT_TAU).plus(stirling_rest(at));
    stirling.minus(product.ln())
}
/// ln |Γ(x)|. To the left of zero it has roots, beside which it is by reflection (DLMF 5.5.3) in pairs.
///
/// ```
/// // By 40 digits.
/// assert_eq!(adamant_ir::special::lgamma(-2.457), 3.7496305958099786e-5);
/// ```
pub fn lgamma(x: f64) -> f64 {
    let value = libm::lgamma(x);
    if x > -2.0 || value.abs() > 1.0 || x == x.round() {
        return value;
    }
    let (sine, _) = DekkerPair::from(x - x.round()).sin_cos_pi();
    let sine = if sine.0 < 0.0 { sine.negative() } else { sine };
    PI_PAIR.over(sine).ln().minus(ln_gamma_pair(DekkerPair::sum(1.0, -x))).value()
}
