//! Densities in terms of how far a value is from its mean (Loader, "Fast and Accurate Computation of Binomial Probabilities",
//! 2000). Written out, `a ln y - y - ln Γ(a)` is a difference of numbers as large as `a ln a`, of which nothing is left for a large
//! a, and which are infinite for a larger one. Must not know distributions.
use adamant_core::{DType, Tensor};
use std::f64::consts::{LN_2, TAU};

/// `f` of tensors of 53 bits, where the device has such: for what would cancel in 24.
pub(crate) fn widest<const N: usize>(tensors: [&Tensor; N], f: impl FnOnce([&Tensor; N]) -> Tensor) -> Tensor {
    let Ok(meta) = tensors[0].try_meta() else { return f(tensors) };
    let wide = tensors.map(|t| t.cast(meta.device.widest_float()));
    f(wide.each_ref()).cast(meta.dtype)
}
/// Does a tensor have 53 bits?
pub(crate) fn is_double(x: &Tensor) -> bool {
    matches!(x.dtype(), Ok(DType::F64))
}
/// `ln(m / k)` for k > 0, given m and its logarithm, which may be known where m is 0 or infinite in the dtype. Operands are chosen
/// and not results, so that no gradient is 0 times an infinite one.
pub(crate) fn log_ratio(k: &Tensor, m: &Tensor, log_m: &Tensor) -> Tensor {
    log_ratio_apart(k, m, &(m - k), log_m)
}
/// [`log_ratio`], given `m - k`, too: it may be known where the rounding of m has lost it.
fn log_ratio_apart(k: &Tensor, m: &Tensor, apart: &Tensor, log_m: &Tensor) -> Tensor {
    let (least, most) = if is_double(k) { (1e-300, 1e300) } else { (1e-36, 1e36) };
    let ratio = m.detach() / k.detach();
    let near = ratio.gt(0.5).logical_and(ratio.lt(2.0));
    // Of a denormal number some bits are lost.
    let normal = if is_double(k) { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    let middle = ratio.gt(least).logical_and(ratio.lt(most)).logical_and(m.detach().ge(normal));
    let close = near.where_(apart, 0.0) / near.where_(k, 1.0);
    let quotient = (middle.where_(m, 1.0) / middle.where_(k, 1.0)).detach();
    // The gradient is that of the logarithms always: that of a quotient may be infinite on its way.
    let line = log_m - k.log();
    let exact = middle.where_(&(quotient.log() - &line), 0.0).detach();
    near.where_(&close.log1p(), &(near.where_(0.0, line) + exact))
}
/// `m - k - k ln(m / k)` ≥ 0 for k > 0, as [`log_ratio`]. Where m is near k, by a series in `v = (m - k) / (m + k)`: of a difference
/// of d and ln(1 + d) little is left.
pub(crate) fn deviance(k: &Tensor, m: &Tensor, log_m: &Tensor) -> Tensor {
    deviance_of(k, &(m - k), &log_ratio(k, m, log_m))
}
/// [`deviance`] by `m - k` and `ln(m / k)`.
fn deviance_of(k: &Tensor, apart: &Tensor, log: &Tensor) -> Tensor {
    let near = is_near(log);
    let (ours, close) = (near.where_(k, 1.0), near.where_(apart, 0.0));
    let v = &close / (&ours * 2.0 + &close);
    let square = v.square();
    let terms = if is_double(k) { 20 } else { 9 };
    let series = (1..=terms).rev().fold(k.zeros_like(), |sum, n| (sum + 1.0 / f64::from(2 * n + 1)) * &square);
    // An infinite mean is beyond what the logarithm takes from it.
    let single = near.logical_or(apart.detach().eq(f64::INFINITY));
    near.where_(&(&v * (close - &ours * series * 2.0)), &(near.where_(0.0, apart) - k * single.where_(0.0, log)))
}
/// Is a deviance by its series, given the logarithm of the ratio?
fn is_near(log: &Tensor) -> Tensor {
    log.detach().abs().lt(0.85)
}
/// The sum of two deviances whose counts have the sum of their means: what the first mean has more than its count, `apart`, the second
/// has less. Each count comes with its mean and the logarithm of that.
pub(crate) fn deviances(first: [&Tensor; 3], second: [&Tensor; 3], apart: &Tensor) -> Tensor {
    let ([k, m, log_m], [l, n, log_n], back) = (first, second, apart.neg());
    let (to_first, to_second) = (log_ratio_apart(k, m, apart, log_m), log_ratio_apart(l, n, &back, log_n));
    // What is apart is left out where it would be added and subtracted.
    let far = is_near(&to_first).logical_or(is_near(&to_second)).logical_not();
    let logs = k * far.where_(&to_first, 0.0) + l * far.where_(&to_second, 0.0);
    let of = |count: &Tensor, apart: &Tensor, log: &Tensor| deviance_of(count, &far.where_(0.0, apart), &far.where_(0.0, log));
    of(k, apart, &to_first) + of(l, &back, &to_second) - logs
}
/// `ln(x y)` of positive numbers, whose product may be too large or too small for the dtype.
pub(crate) fn log_product(x: &Tensor, y: &Tensor) -> Tensor {
    one_logarithm(x.log() + y.log(), &(x * y))
}
/// What ln Γ(a + 1) has more than Stirling's formula, `a ln a - a + ln √(2π a)`, for a ≥ 1 (Binet's function, DLMF 5.9.10), as a
/// polynomial in `w = 2 / a² - 1`: by Chebyshev's interpolation of 60 digits, to 2e-17 and 7e-9 of 1 / a.
fn binet(a: &Tensor) -> Tensor {
    const DOUBLE: [f64; 29] = [
        0.08209573235566395,
        -0.0011180402217243588,
        9.714526760267806e-05,
        -1.6458634140279073e-05,
        3.990532926776105e-06,
        -1.2132640380074288e-06,
        4.315431689699521e-07,
        -1.7235168441324088e-07,
        7.528806813256344e-08,
        -3.504119416049714e-08,
        1.7074500420158946e-08,
        -1.062061560151245e-08,
        7.525323809623158e-09,
        3.6496016148010653e-09,
        -8.365662530517494e-09,
        -2.014121771266839e-08,
        2.7774668093700673e-08,
        3.937129982920004e-08,
        -5.199583675855209e-08,
        -5.756234308251219e-08,
        7.075800609531798e-08,
        5.6723916553026116e-08,
        -6.591560271029198e-08,
        -3.6812285756470594e-08,
        4.057352115166446e-08,
        1.4103862330435933e-08,
        -1.48265641459013e-08,
        -2.4684399801003773e-09,
        2.4745463580551526e-09,
    ];
    const SINGLE: [f64; 7] = [
        0.08209573122378865,
        -0.0011180708021935695,
        9.717999237137965e-05,
        -1.6226939741686398e-05,
        3.828289954550021e-06,
        -1.630380847609967e-06,
        6.592161628040976e-07,
    ];
    odd_in_reciprocal(a, if is_double(a) { &DOUBLE } else { &SINGLE })
}
/// A polynomial in `2 / a² - 1`, over a, for a ≥ 1.
fn odd_in_reciprocal(a: &Tensor, coefficients: &[f64]) -> Tensor {
    let r = a.reciprocal();
    let w = r.square() * 2.0 - 1.0;
    coefficients.iter().rev().fold(a.zeros_like(), |sum, c| sum * &w + *c) * r
}
/// `a ln a - a - ln Γ(a + 1)`.
pub(crate) fn stirling(a: &Tensor) -> Tensor {
    let small = a.lt(1.0);
    let (low, high) = (small.where_(a, 0.5), small.where_(1.0, a));
    small.where_(&stirling_of_small(&low), &(high.log() * -0.5 - 0.5 * TAU.ln() - binet(&high)))
}
fn stirling_of_small(a: &Tensor) -> Tensor {
    a.xlogy(a) - a - (a + 1.0).lgamma()
}
/// `stirling(a) - ln(x / a)` of positive numbers, given ln x: what a gamma density has at its peak. The logarithms of both are one.
pub(crate) fn peak(a: &Tensor, x: &Tensor, log_x: &Tensor) -> Tensor {
    let small = a.lt(1.0);
    let (low, high) = (small.where_(a, 0.5), small.where_(1.0, a));
    let of_small = stirling_of_small(&low) - log_ratio(&low, x, log_x);
    let line = high.log() * 0.5 - log_x - 0.5 * TAU.ln();
    let of_large = one_logarithm(line, &(high.sqrt() * (1.0 / TAU.sqrt()) / x)) - binet(&high);
    small.where_(&of_small, &of_large)
}
/// `stirling(a + b) - stirling(a)` for 0 < b ≤ a.
pub(crate) fn stirling_step(a: &Tensor, b: &Tensor) -> Tensor {
    let small = a.lt(1.0);
    let (low, high) = (small.where_(a, 0.5), small.where_(1.0, a));
    let (low_step, step) = (small.where_(b, 0.5), small.where_(0.5, b));
    let of_large = (&step / &high).log1p() * -0.5 - (binet(&(&high + step)) - binet(&high));
    small.where_(&(stirling(&(&low + low_step)) - stirling(&low)), &of_large)
}
/// A sum of logarithms whose value is the logarithm of `product`, where the dtype holds that. The gradient is the sum's: that of a
/// product may be infinite on its way.
pub(crate) fn one_logarithm(sum: Tensor, product: &Tensor) -> Tensor {
    let (least, most) = if is_double(product) { (1e-300, 1e300) } else { (1e-36, 1e36) };
    let product = product.detach();
    let middle = product.gt(least).logical_and(product.lt(most));
    let rest = middle.where_(&(middle.where_(product, 1.0).log() - &sum), 0.0).detach();
    sum + rest
}
/// The sum along the last axis of `logs`, those of the numbers in `of` where the dtype holds these. The powers of two in them are counted
/// and not added as logarithms, so that large ones of either sign leave no roundings. The gradient is that of `logs`.
pub(crate) fn sum_of_logarithms(logs: &Tensor, of: &Tensor) -> Tensor {
    let (least, most) = if is_double(of) { (1e-300, 1e300) } else { (1e-36, 1e36) };
    let (of, line, sum) = (of.detach(), logs.detach(), logs.sum(-1));
    let middle = of.gt(least).logical_and(of.lt(most));
    let safe = middle.where_(of, 1.0);
    let twos = safe.log2().round();
    let rest = middle.where_(&safe.ldexp(twos.neg()).log(), &line).sum(-1);
    let off = twos.sum(-1) * LN_2 + rest - sum.detach();
    let known = off.eq(&off);
    sum + known.where_(off, 0.0)
}
/// `ln Γ(h + ½) - ln Γ(h) - ln(h) / 2` for h > 0. Below 1 by that of h + 1, and no difference of two logarithms of gamma functions.
pub(crate) fn half_step(h: &Tensor) -> Tensor {
    let small = h.lt(1.0);
    let low = small.where_(h, 1.0);
    let step = small.where_(&((&low + 1.0).log() * 0.5 + low.log() * 0.5 - (&low + 0.5).log()), 0.0);
    large_half_step(&small.where_(&(h + 1.0), h)) + step
}
/// [`half_step`] of h ≥ 1, to 6e-17 and 5e-9 of 1 / h, as [`binet`].
fn large_half_step(h: &Tensor) -> Tensor {
    const DOUBLE: [f64; 29] = [
        -0.1226927085097032,
        0.0020734366537378127,
        -0.00018940399720718693,
        3.25817410121956e-05,
        -7.943690512005246e-06,
        2.42077302419141e-06,
        -8.619724157934069e-07,
        3.4443518210477514e-07,
        -1.504340533685871e-07,
        7.014378471353418e-08,
        -3.473683864931043e-08,
        2.0746298466479852e-08,
        -1.1913413215242993e-08,
        -5.345560514438194e-09,
        5.520678081231864e-09,
        3.498634001580811e-08,
        -2.766570860238967e-08,
        -6.878138760530361e-08,
        5.5203757798721935e-08,
        1.0213056586648843e-07,
        -8.168912325860074e-08,
        -1.0191560238501259e-07,
        8.150423457493302e-08,
        6.698208855047443e-08,
        -5.3487590511904306e-08,
        -2.5968841645352462e-08,
        2.070907287440568e-08,
        4.601735589215677e-09,
        -3.6588001235500288e-09,
    ];
    const SINGLE: [f64; 8] = [
        -0.12269270643391407,
        0.002073435611183213,
        -0.00018946986974618563,
        3.2614796294693544e-05,
        -7.629074626515557e-06,
        2.26366694036737e-06,
        -1.310522920266672e-06,
        5.655821435963704e-07,
    ];
    odd_in_reciprocal(h, if is_double(h) { &DOUBLE } else { &SINGLE })
}
/// The value of `half_step(df / 2) - ln(√(2π) scale √(1 + z² / df))`, with `z = d / scale`: all logarithms are one, so that none of
/// them cancels another. Without gradients; not a number where the dtype does not hold what it is the logarithm of.
pub(crate) fn student_peak(df: &Tensor, d: &Tensor, scale: &Tensor) -> Tensor {
    let (df, d, scale) = (df.detach(), d.detach(), scale.detach());
    let (least, most) = if is_double(&df) { (1e-300, 1e300) } else { (1e-36, 1e36) };
    let (h, root) = (&df * 0.5, df.sqrt());
    let small = h.lt(1.0);
    let next = small.where_(&(&h + 1.0), &h);
    let norm = large_half_step(&next);
    // Of a denormal number some bits are lost.
    let near = (&scale * &root).hypot(&d);
    let normal = near.gt(if is_double(&df) { 1e-300 } else { 1e-36 });
    // Γ(h + ½) / Γ(h) is h / (h + ½) of Γ(h + 3/2) / Γ(h + 1).
    let of_small = normal.where_(&(&near / &df), &(&scale / &root).hypot(&(&d / &df))) * ((2.0 * TAU).sqrt() * (&h + 0.5) / next.sqrt());
    let of_large = scale.hypot(&(d / root)) * TAU.sqrt();
    let product = small.where_(&of_small, &of_large);
    let middle = product.gt(least).logical_and(product.lt(most));
    middle.where_(&(norm - middle.where_(product, 1.0).log()), f64::NAN)
}
/// `ln(1 + (d / w)²) / 2` for w > 0, a product of `scales`, where quotient and product may be too large or too small for the dtype.
pub(crate) fn half_log1p_square(d: &Tensor, scales: &[&Tensor]) -> Tensor {
    let over = |order: &mut dyn Iterator<Item = &&Tensor>| order.fold(d.detach().abs(), |ratio, s| ratio / s.detach());
    // Where the first quotient is infinite, the other way round none need be.
    let (forth, back) = (over(&mut scales.iter()), over(&mut scales.iter().rev()));
    let ratio = forth.isfinite().where_(&forth, &back);
    let far = ratio.gt(1e4);
    let near = scales.iter().fold(far.where_(0.0, d), |ratio, s| ratio / far.where_(1.0, *s));
    // Of what is that far, 1 beside the square is less than a unit in f32, and counts in f64.
    let line = scales.iter().fold(far.where_(&d.abs(), 1.0).log(), |log, s| log - far.where_(*s, 1.0).log());
    let log = one_logarithm(line, &far.where_(&ratio, 1.0));
    let rest = (&log * -2.0).exp() * 0.5;
    far.where_(&(log + rest), &(near.square().log1p() * 0.5))
}
