//! Densities in terms of how far a value is from its mean (Loader, "Fast and Accurate Computation of Binomial Probabilities",
//! 2000). Written out, `a ln y - y - ln Γ(a)` is a difference of numbers as large as `a ln a`, of which nothing is left for a large
//! a, and which are infinite for a larger one. Must not know distributions.
use adamant_core::{DType, Tensor};
use std::f64::consts::TAU;

/// Does a tensor have 53 bits?
pub(crate) fn is_double(x: &Tensor) -> bool {
    matches!(x.dtype(), Ok(DType::F64))
}
/// `ln(m / k)` for k > 0, given m and its logarithm, which may be known where m is 0 or infinite in the dtype. Operands are chosen
/// and not results, so that no gradient is 0 times an infinite one.
pub(crate) fn log_ratio(k: &Tensor, m: &Tensor, log_m: &Tensor) -> Tensor {
    let (least, most) = if is_double(k) { (1e-300, 1e300) } else { (1e-36, 1e36) };
    let ratio = m.detach() / k.detach();
    let near = ratio.gt(0.5).logical_and(ratio.lt(2.0));
    // Of a denormal number some bits are lost.
    let middle = ratio.gt(least).logical_and(ratio.lt(most)).logical_and(m.detach().gt(least)).logical_and(k.detach().gt(least));
    let close = near.where_(&(m - k), 0.0) / near.where_(k, 1.0);
    let quotient = (middle.where_(m, 1.0) / middle.where_(k, 1.0)).detach();
    // The gradient is that of the logarithms always: that of a quotient may be infinite on its way.
    let line = log_m - k.log();
    let exact = middle.where_(&(quotient.log() - &line), 0.0).detach();
    near.where_(&close.log1p(), &(near.where_(0.0, line) + exact))
}
/// `m - k - k ln(m / k)` ≥ 0 for k > 0, as [`log_ratio`]. Where m is near k, by a series in `v = (m - k) / (m + k)`: of a difference
/// of d and ln(1 + d) little is left.
pub(crate) fn deviance(k: &Tensor, m: &Tensor, log_m: &Tensor) -> Tensor {
    let log = log_ratio(k, m, log_m);
    let near = log.detach().abs().lt(0.4);
    let (ours, apart) = (near.where_(k, 1.0), near.where_(&(m - k), 0.0));
    let v = &apart / (&ours * 2.0 + &apart);
    let square = v.square();
    let series = (1..=12).rev().fold(k.zeros_like(), |sum, n| (sum + 1.0 / f64::from(2 * n + 1)) * &square);
    near.where_(&(&v * (apart - &ours * series * 2.0)), &(near.where_(0.0, m - k) - k * near.where_(0.0, &log)))
}
/// `ln(x y)` of positive numbers, whose product may be too large or too small for the dtype.
pub(crate) fn log_product(x: &Tensor, y: &Tensor) -> Tensor {
    let (least, most) = if is_double(x) { (1e-300, 1e300) } else { (1e-36, 1e36) };
    let product = (x * y).detach();
    let middle = product.gt(least).logical_and(product.lt(most));
    let line = x.log() + y.log();
    let exact = middle.where_(&(middle.where_(product, 1.0).log() - &line), 0.0).detach();
    line + exact
}
/// `a ln a - a - ln Γ(a + 1)`, by Stirling's series for an a that is not small (DLMF 5.11.1).
pub(crate) fn stirling(a: &Tensor) -> Tensor {
    /// B₂ₖ / (2k (2k - 1))
    const SERIES: [f64; 8] = [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0, 1.0 / 156.0, -3617.0 / 122_400.0];
    // From there on the series ends below the dtype's last bit.
    let least = if is_double(a) { 10.0 } else { 4.0 };
    let small = a.lt(least);
    let (low, high) = (small.where_(a, 1.0), small.where_(least, a));
    let r = high.reciprocal();
    let square = r.square();
    let series = SERIES.iter().rev().fold(a.zeros_like(), |sum, c| sum * &square + *c) * &r;
    small.where_(&(low.xlogy(&low) - &low - (&low + 1.0).lgamma()), &(high.log() * -0.5 - 0.5 * TAU.ln() - series))
}
/// `ln Γ(h + ½) - ln Γ(h) - ln(h) / 2`, by its series for an h that is not small (DLMF 5.11.13).
pub(crate) fn half_step(h: &Tensor) -> Tensor {
    const SERIES: [f64; 6] = [-1.0 / 8.0, 1.0 / 192.0, -1.0 / 640.0, 17.0 / 14_336.0, -31.0 / 18_432.0, 691.0 / 180_224.0];
    let least = if is_double(h) { 14.0 } else { 3.0 };
    let small = h.lt(least);
    let (low, high) = (small.where_(h, 1.0), small.where_(least, h));
    let r = high.reciprocal();
    let square = r.square();
    let series = SERIES.iter().rev().fold(h.zeros_like(), |sum, c| sum * &square + *c) * &r;
    small.where_(&((&low + 0.5).lgamma() - low.lgamma() - low.log() * 0.5), &series)
}
/// `ln(1 + (d / w)²) / 2` for w > 0, a product of `scales`, where quotient and product may be too large or too small for the dtype.
pub(crate) fn half_log1p_square(d: &Tensor, scales: &[&Tensor]) -> Tensor {
    let far = scales.iter().fold(d.detach(), |ratio, s| ratio / s.detach()).abs().gt(1e4);
    let near = scales.iter().fold(far.where_(0.0, d), |ratio, s| ratio / far.where_(1.0, *s));
    // Of what is that far, 1 beside the square is less than a unit in f32, and counts in f64.
    let log = scales.iter().fold(far.where_(&d.abs(), 1.0).log(), |log, s| log - far.where_(*s, 1.0).log());
    let rest = (&log * -2.0).exp() * 0.5;
    far.where_(&(log + rest), &(near.square().log1p() * 0.5))
}
