//! The formulas, each once for both widths and all instruction sets.
//!
//! Every lane takes the same steps (branches are selections), so the result of an element depends neither on its
//! neighbours nor on the instruction set. Reductions and series follow the classical scheme (Cody and Waite's
//! argument reduction; fdlibm's form of the logarithm); series are Taylor's, long enough for the reduced range.
//! Must not know slices.
#![allow(clippy::excessive_precision, reason = "split constants are written as the sources print them")]

use super::coefficients::{ERF_F32, ERF_F64, ERFC_F32, ERFC_F64};
use crate::simd::{Arithmetic, Integer, Mask};

/// c(v) for constants, so that formulas stay readable.
#[inline(always)]
pub(super) fn c<V: Arithmetic>(value: f64) -> V {
    V::constant(value)
}

#[inline(always)]
pub(super) fn is_single<V: Arithmetic>() -> bool {
    V::SIGNIFICAND == 23
}

/// One constant for f32, another for f64.
#[inline(always)]
pub(super) fn by_width<V: Arithmetic>(single: f64, double: f64) -> V {
    c(if is_single::<V>() { single } else { double })
}

/// `Σ coefficients[i] x^i` by Horner's rule.
#[inline(always)]
pub(super) fn polynomial<V: Arithmetic, const N: usize>(x: V, coefficients: &[f64; N]) -> V {
    polynomial_from(x, coefficients, 0)
}
/// The same without the first coefficients, over a power of x: `Σ coefficients[i] x^(i - first)` for i ≥ `first`.
#[inline(always)]
pub(super) fn polynomial_from<V: Arithmetic, const N: usize>(x: V, coefficients: &[f64; N], first: usize) -> V {
    let mut sum = c::<V>(coefficients[N - 1]);
    let mut i = N - 1;
    while i > first {
        i -= 1;
        sum = sum.mul_add(x, c(coefficients[i]));
    }
    sum
}

/// 1.5 · 2^significand: adding it to a small number leaves the rounded number in the low bits.
#[inline(always)]
fn magic<V: Arithmetic>() -> V {
    by_width(12582912.0, 6755399441055744.0)
}

/// A float holding a small integer, as an integer.
#[inline(always)]
pub(super) fn to_int<V: Arithmetic>(whole: V) -> V::Int {
    whole.add(magic()).to_bits().sub(magic::<V>().to_bits())
}

/// A small integer as a float.
#[inline(always)]
fn to_float<V: Arithmetic>(whole: V::Int) -> V {
    V::from_bits(whole.add(magic::<V>().to_bits())).sub(magic())
}

#[inline(always)]
fn bias<V: Arithmetic>() -> i64 {
    if is_single::<V>() { 127 } else { 1023 }
}

/// 2^n for a whole n within the normal exponents.
#[inline(always)]
fn power_of_two<V: Arithmetic>(n: V) -> V {
    V::from_bits(to_int(n).add(V::Int::constant(bias::<V>())).shl(V::SIGNIFICAND))
}

/// `value · 2^n`, rounded once, for |n| up to about twice the exponent range.
#[inline(always)]
pub(super) fn scale<V: Arithmetic>(value: V, n: V) -> V {
    if let Some(scaled) = value.scaled(n) {
        return scaled;
    }
    let half = n.mul(c(0.5)).round();
    value.mul(power_of_two(half)).mul(power_of_two(n.sub(half)))
}

/// n and r with x = n ln 2 + r, |r| ≤ ln 2 / 2. x is not NaN and |x| < 2^10 or so.
#[inline(always)]
pub(super) fn reduce_exp<V: Arithmetic>(x: V) -> (V, V) {
    let n = x.mul(c(std::f64::consts::LOG2_E)).round();
    let high = by_width::<V>(0.693_147_182_464_599_6, std::f64::consts::LN_2);
    let low = by_width::<V>(-1.904_654_299_957_767_7e-9, 2.319_046_813_846_299_6e-17);
    let r = n.neg().mul_add(high, x);
    (n, n.neg().mul_add(low, r))
}

/// (e^r - 1 - r) / r² for |r| ≤ ln 2 / 2.
#[inline(always)]
fn exp_tail<V: Arithmetic>(r: V) -> V {
    const SINGLE: [f64; 6] = [0.5, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0];
    const DOUBLE: [f64; 13] = [
        0.5,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
        1.0 / 40320.0,
        1.0 / 362_880.0,
        1.0 / 3_628_800.0,
        1.0 / 39_916_800.0,
        1.0 / 479_001_600.0,
        1.0 / 6_227_020_800.0,
        1.0 / 87_178_291_200.0,
    ];
    if is_single::<V>() { polynomial(r, &SINGLE) } else { polynomial(r, &DOUBLE) }
}

/// x, or the next bound of where e^x is finite and not zero.
#[inline(always)]
fn bounded<V: Arithmetic>(x: V) -> V {
    let x = c::<V>(if is_single::<V>() { -170.0 } else { -1400.0 }).max(x);
    c::<V>(if is_single::<V>() { 90.0 } else { 711.0 }).min(x)
}

/// e^r for |r| ≤ ln 2 / 2.
#[inline(always)]
pub(super) fn exp_series<V: Arithmetic>(r: V) -> V {
    r.mul(r).mul_add(exp_tail(r), r).add(c(1.0))
}

/// e^x as (p, n), p · 2^n, for x clamped to where the result is finite or zero.
#[inline(always)]
pub(super) fn exp_parts<V: Arithmetic>(x: V) -> (V, V) {
    let (n, r) = reduce_exp(bounded(x));
    (exp_series(r), n)
}

/// As [`exp_parts`] for e^(x + rest), rest far smaller than x.
#[inline(always)]
pub(super) fn exp_pair_parts<V: Arithmetic>(x: V, rest: V) -> (V, V) {
    let (n, r) = reduce_exp(bounded(x));
    (exp_series(r.add(rest)), n)
}

/// 2^(x + rest) as (p, n), p · 2^n, rest far smaller than x.
#[inline(always)]
pub(super) fn exp2_pair_parts<V: Arithmetic>(x: V, rest: V) -> (V, V) {
    // Powers of ln 2 over factorials.
    const SERIES: [f64; 13] = [
        std::f64::consts::LN_2,
        0.240_226_506_959_100_72,
        0.055_504_108_664_821_58,
        0.009_618_129_107_628_477,
        0.001_333_355_814_642_844_3,
        0.000_154_035_303_933_816_1,
        1.525_273_380_405_984_1e-5,
        1.321_548_679_014_431e-6,
        1.017_808_600_923_97e-7,
        7.054_911_620_801_123e-9,
        4.445_538_271_870_811_6e-10,
        2.567_843_599_348_820_6e-11,
        1.369_148_885_390_412_8e-12,
    ];
    const SINGLE: [f64; 7] = [SERIES[0], SERIES[1], SERIES[2], SERIES[3], SERIES[4], SERIES[5], SERIES[6]];
    let n = x.round();
    let r = x.sub(n).add(rest);
    let tail = if is_single::<V>() { polynomial(r, &SINGLE) } else { polynomial(r, &SERIES) };
    (r.mul_add(tail, c(1.0)), n)
}

/// `result`, or x where x is NaN.
#[inline(always)]
pub(super) fn keep_nan<V: Arithmetic>(x: V, result: V) -> V {
    V::select(x.is_nan(), x, result)
}

/// `result`, or NaN where x is NaN or -inf: -inf times a factor of 0 is no number, as in PyTorch.
#[inline(always)]
pub(super) fn no_product<V: Arithmetic>(x: V, result: V) -> V {
    V::select(x.is_nan().or(x.eq(c(f64::NEG_INFINITY))), c(f64::NAN), result)
}

#[inline(always)]
pub(crate) fn exp<V: Arithmetic>(x: V) -> V {
    let (p, n) = exp_parts(x);
    scale(p, n)
}

#[inline(always)]
pub(super) fn exp2<V: Arithmetic>(x: V) -> V {
    let limit = if is_single::<V>() { 160.0 } else { 1100.0 };
    let clamped = c::<V>(limit).min(c::<V>(-limit).max(x));
    let n = clamped.round();
    let f = clamped.sub(n);
    // f ln 2 in two parts.
    let high = by_width::<V>(0.693_147_182_464_599_6, std::f64::consts::LN_2);
    let low = by_width::<V>(-1.904_654_299_957_767_7e-9, 2.319_046_813_846_299_6e-17);
    let r = f.mul(high);
    let rest = f.mul_add(high, r.neg()).add(f.mul(low));
    let p = r.mul(r).mul_add(exp_tail(r), rest).add(r).add(c(1.0));
    keep_nan(x, scale(p, n))
}

#[inline(always)]
pub(crate) fn expm1<V: Arithmetic>(x: V) -> V {
    let low = if is_single::<V>() { -20.0 } else { -40.0 };
    let high = if is_single::<V>() { 90.0 } else { 711.0 };
    let clamped = c::<V>(high).min(c::<V>(low).max(x));
    let (n, r) = reduce_exp(clamped);
    let p = r.mul(r).mul_add(exp_tail(r), r);
    // (1 - 2^-n) + p, then times 2^n; 2^-n vanishes beside 1 long before it leaves the exponents.
    let inverse = power_of_two(c::<V>(60.0).min(n).neg());
    let result = scale(c::<V>(1.0).sub(inverse).add(p), n);
    // Tiny arguments are their own result, which also keeps -0.
    let tiny = x.abs().lt(by_width(1e-8, 1e-17));
    keep_nan(x, V::select(tiny, x, result))
}

/// e and f with x = 2^e (1 + f), 1 + f in [√½, √2), for x positive and finite.
#[inline(always)]
pub(super) fn split<V: Arithmetic>(x: V) -> (V, V) {
    let lift = if is_single::<V>() { 25.0 } else { 54.0 };
    let small = x.lt(by_width(f32::MIN_POSITIVE as f64, f64::MIN_POSITIVE));
    let up = by_width::<V>(33_554_432.0, 18_014_398_509_481_984.0);
    let x = V::select(small, x.mul(up), x);
    // Subtracting the bits of √½ makes the exponent field count from √½.
    let root = c::<V>(std::f64::consts::FRAC_1_SQRT_2).to_bits();
    let offset = x.to_bits().sub(root);
    // Shift in the sign by hand: the sum with a multiple of the exponent range is positive.
    let field = offset.add(V::Int::constant(bias::<V>()).shl(V::SIGNIFICAND)).shr(V::SIGNIFICAND);
    let e_int = field.sub(V::Int::constant(bias::<V>()));
    let m = V::from_bits(x.to_bits().sub(e_int.shl(V::SIGNIFICAND)));
    let e = to_float::<V>(e_int);
    (V::select(small, e.sub(c(lift)), e), m.sub(c(1.0)))
}

/// ln(1 + f) as f - (half - rest): (half, rest) with half = f²/2.
#[inline(always)]
fn log_series<V: Arithmetic>(f: V) -> (V, V) {
    const SINGLE: [f64; 6] = [2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0, 2.0 / 13.0];
    const DOUBLE: [f64; 12] =
        [2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0, 2.0 / 11.0, 2.0 / 13.0, 2.0 / 15.0, 2.0 / 17.0, 2.0 / 19.0, 2.0 / 21.0, 2.0 / 23.0, 2.0 / 25.0];
    let s = f.div(f.add(c(2.0)));
    let z = s.mul(s);
    let tail = if is_single::<V>() { polynomial(z, &SINGLE) } else { polynomial(z, &DOUBLE) };
    let half = f.mul(f).mul(c(0.5));
    (half, s.mul(z.mul_add(tail, half)))
}

/// Puts in what a logarithm gives outside the positive finite numbers.
#[inline(always)]
fn log_domain<V: Arithmetic>(x: V, result: V) -> V {
    let result = V::select(x.eq(c(f64::INFINITY)), x, result);
    let result = V::select(x.eq(c(0.0)), c(f64::NEG_INFINITY), result);
    let result = V::select(x.lt(c(0.0)), c(f64::NAN), result);
    keep_nan(x, result)
}

/// ln(1 + f) + e ln 2 + extra.
#[inline(always)]
pub(super) fn log_parts<V: Arithmetic>(e: V, f: V, extra: V) -> V {
    // The high part has trailing zeros: e times it is exact.
    let high = by_width::<V>(0.693_138_122_558_593_75, 0.693_147_180_369_123_816_49);
    let low = by_width::<V>(9.058_000_614_5e-6, 1.908_214_929_270_587_700_02e-10);
    let (half, rest) = log_series(f);
    let rest = rest.add(e.mul_add(low, extra));
    e.mul(high).sub(half.sub(rest).sub(f))
}

#[inline(always)]
pub(crate) fn log<V: Arithmetic>(x: V) -> V {
    let (e, f) = split(x);
    log_domain(x, log_parts(e, f, c(0.0)))
}

/// ln(1 + f) for the split's range as an unevaluated sum: f - half is the large part.
#[inline(always)]
fn log_pair<V: Arithmetic>(f: V) -> (V, V) {
    let (half, rest) = log_series(f);
    let sum = f.sub(half);
    // What the subtraction lost, exactly (|f| > half), and the rounding of half itself.
    let lost = f.sub(sum).sub(half);
    let half_error = f.mul(c(0.5)).mul_add(f, half.neg());
    (sum, rest.add(lost).sub(half_error))
}

#[inline(always)]
pub(super) fn log2<V: Arithmetic>(x: V) -> V {
    let (e, f) = split(x);
    let (high, low) = log_pair(f);
    let scale_high = by_width::<V>(1.442_695_021_629_333_5, std::f64::consts::LOG2_E);
    let scale_low = by_width::<V>(1.925_963_033_500_011_4e-8, 2.035_527_374_093_103_3e-17);
    let small = high.mul_add(scale_low, low.mul(scale_high));
    let product = high.mul(scale_high);
    let lost = high.mul_add(scale_high, product.neg());
    let total = e.add(product);
    // |e| is 0 or above |product|.
    let dropped = V::select(e.eq(c(0.0)), c(0.0), e.sub(total).add(product));
    log_domain(x, total.add(small.add(lost).add(dropped)))
}

#[inline(always)]
pub(super) fn log10<V: Arithmetic>(x: V) -> V {
    let (e, f) = split(x);
    let (high, low) = log_pair(f);
    let scale_high = by_width::<V>(0.434_294_492_006_301_9, std::f64::consts::LOG10_E);
    let scale_low = by_width::<V>(-1.010_305_011_872_617_6e-8, 1.098_319_650_216_765_1e-17);
    let two_high = c::<V>(std::f64::consts::LOG10_2);
    let two_low = by_width::<V>(LOG10_2_LOW_F32, -2.803_728_127_785_170_4e-18);
    let small = high.mul_add(scale_low, low.mul(scale_high)).add(e.mul(two_low));
    let product = high.mul(scale_high);
    let lost = high.mul_add(scale_high, product.neg());
    let whole = e.mul(two_high);
    let whole_lost = e.mul_add(two_high, whole.neg());
    let total = whole.add(product);
    let dropped = V::select(e.eq(c(0.0)), c(0.0), whole.sub(total).add(product));
    log_domain(x, total.add(small.add(lost).add(whole_lost).add(dropped)))
}

/// log10(2) less its f32 rounding.
const LOG10_2_LOW_F32: f64 = std::f64::consts::LOG10_2 - (std::f64::consts::LOG10_2 as f32 as f64);

#[inline(always)]
pub(crate) fn log1p<V: Arithmetic>(x: V) -> V {
    let one = c::<V>(1.0);
    let u = one.add(x);
    // What rounding 1 + x lost, from the larger of the two.
    let large = one.lt(x);
    let lost = V::select(large, one.sub(u.sub(x)), x.sub(u.sub(one)));
    let (e, f) = split(u);
    // ln(u + lost) = ln u + lost / u, to first order.
    let correction = lost.div(u);
    let result = log_domain(u, log_parts(e, f, correction));
    let infinite = x.eq(c(f64::INFINITY));
    let tiny = x.abs().lt(by_width(1e-8, 1e-17));
    keep_nan(x, V::select(tiny.or(infinite), x, result))
}

#[inline(always)]
pub(crate) fn tanh<V: Arithmetic>(x: V) -> V {
    let a = c::<V>(22.0).min(x.abs());
    let t = expm1(a.add(a));
    let result = t.div(t.add(c(2.0))).copysign(x);
    keep_nan(x, result)
}

#[inline(always)]
pub(crate) fn sigmoid<V: Arithmetic>(x: V) -> V {
    let e = exp(x.abs().neg());
    let top = V::select(x.lt(c(0.0)), e, c(1.0));
    keep_nan(x, top.div(e.add(c(1.0))))
}

#[inline(always)]
pub(crate) fn silu<V: Arithmetic>(x: V) -> V {
    let (p, n) = exp_parts(x.abs().neg());
    let below = x.lt(c(0.0));
    // x e^x is scaled last, so that it keeps its digits where e^x has none left.
    let bounded = c::<V>(-1000.0).max(x);
    let top = V::select(below, scale(bounded.mul(p), n), x);
    no_product(x, top.div(scale(p, n).add(c(1.0))))
}

/// log(1 + e^-|x|).
#[inline(always)]
fn softplus_tail<V: Arithmetic>(x: V) -> V {
    log1p(exp(x.abs().neg()))
}

#[inline(always)]
pub(super) fn softplus<V: Arithmetic>(x: V) -> V {
    keep_nan(x, x.max(c(0.0)).add(softplus_tail(x)))
}

#[inline(always)]
pub(super) fn logsigmoid<V: Arithmetic>(x: V) -> V {
    keep_nan(x, x.min(c(0.0)).sub(softplus_tail(x)))
}

/// erf(x) for |x| ≤ 1.
#[inline(always)]
pub(super) fn erf_small<V: Arithmetic>(x: V) -> V {
    let z = x.mul(x);
    let ratio = if is_single::<V>() { polynomial(z, &ERF_F32) } else { polynomial(z, &ERF_F64) };
    x.mul_add(ratio, x)
}

/// a erfc(a) for a ≥ ¾ as (p, n), p · 2^n; `square` + `rest` is a² to twice the precision.
#[inline(always)]
fn erfc_large<V: Arithmetic>(a: V, square: V, rest: V) -> (V, V) {
    let a = c::<V>(0.75).max(by_width::<V>(11.0, 28.0).min(a));
    let t = a.sub(c(2.0)).div(a.add(c(2.0)));
    let g = if is_single::<V>() { polynomial(t, &ERFC_F32) } else { polynomial(t, &ERFC_F64) };
    let (p, n) = exp_pair_parts(square.neg(), rest.neg());
    (p.mul(g), n)
}

/// x² and what its rounding lost.
#[inline(always)]
pub(super) fn square_pair<V: Arithmetic>(x: V) -> (V, V) {
    let square = x.mul(x);
    let rest = x.mul_add(x, square.neg());
    let finite = square.lt(by_width(1e4, 1e6));
    (V::select(finite, square, by_width(1e4, 1e6)), V::select(finite, rest, c(0.0)))
}

#[inline(always)]
pub(crate) fn erf<V: Arithmetic>(x: V) -> V {
    let a = x.abs();
    let (square, rest) = square_pair(x);
    let (p, n) = erfc_large(a, square, rest);
    let large = c::<V>(1.0).sub(scale(p.div(a), n)).copysign(x);
    keep_nan(x, V::select(a.lt(c(1.0)), erf_small(x), large))
}

#[inline(always)]
pub(super) fn erfc<V: Arithmetic>(x: V) -> V {
    let a = x.abs();
    let (square, rest) = square_pair(x);
    let (p, n) = erfc_large(a, square, rest);
    let large = scale(p.div(a), n);
    let large = V::select(x.lt(c(0.0)), c::<V>(2.0).sub(large), large);
    let small = c::<V>(1.0).sub(erf_small(x));
    keep_nan(x, V::select(a.lt(c(0.75)), small, large))
}

/// x Φ(x) = x erfc(-x/√2) / 2.
#[inline(always)]
pub(crate) fn gelu<V: Arithmetic>(x: V) -> V {
    let a = x.abs().mul(c(std::f64::consts::FRAC_1_SQRT_2));
    let (tail, small) = if is_single::<V>() { (gelu_tail(x, a), gelu_small(x, a)) } else { (gelu_tail_f64(x, a), gelu_small_f64(x, a)) };
    // In f32 twice a large x is infinite, as x (1 + erf) is in PyTorch.
    let whole = x.mul(by_width(2.0, 1.0)).mul(by_width(0.5, 1.0));
    let large = V::select(x.lt(c(0.0)), tail.neg(), whole.sub(tail));
    // x - x is the NaN of both infinities, and of NaN.
    V::select(a.lt(c(f64::INFINITY)), V::select(a.lt(c(0.75)), small, large), x.sub(x))
}

/// |x| erfc(a) / 2 = a erfc(a) / √2 for a = |x|/√2 ≥ ¾.
#[inline(always)]
fn gelu_tail<V: Arithmetic>(x: V, a: V) -> V {
    let (double, rest) = square_pair(x);
    let (p, n) = erfc_large(a, double.mul(c(0.5)), rest.mul(c(0.5)));
    scale(p.mul(c(std::f64::consts::FRAC_1_SQRT_2)), n)
}

/// x (1 + erf(x/√2)) / 2 for a < ¾.
#[inline(always)]
fn gelu_small<V: Arithmetic>(x: V, a: V) -> V {
    x.mul(c(0.5)).mul(c::<V>(1.0).add(erf_small(a.copysign(x))))
}

/// 1/√2 minus the f64 nearest to it.
const FRAC_1_SQRT_2_LOW: f64 = -4.833_646_656_726_457e-17;

/// As [`gelu_tail`]. A product of so many factors that each are rounded is off by more than three units; so the last ones,
/// the polynomial's value and the exponential's, are pairs of numbers whose sum they are.
#[inline(always)]
fn gelu_tail_f64<V: Arithmetic>(x: V, a: V) -> V {
    let (double, rest) = square_pair(x);
    let a = c::<V>(0.75).max(c::<V>(28.0).min(a));
    let t = a.sub(c(2.0)).div(a.add(c(2.0)));
    let [first, others @ ..] = &ERFC_F64;
    let slope = polynomial(t, others);
    let g = slope.mul_add(t, c(*first));
    let g_low = slope.mul_add(t, c::<V>(*first).sub(g));
    let (n, r) = reduce_exp(bounded(double.mul(c(-0.5))));
    let r = rest.mul_add(c(-0.5), r);
    let grown = r.mul(r).mul_add(exp_tail(r), r);
    let e = c::<V>(1.0).add(grown);
    let e_low = grown.sub(e.sub(c(1.0)));
    let p = e.mul(g);
    let p_low = e.mul_add(g, p.neg()).add(e.mul_add(g_low, e_low.mul(g)));
    let root = c::<V>(std::f64::consts::FRAC_1_SQRT_2);
    scale(p.mul_add(root, p.mul_add(c(FRAC_1_SQRT_2_LOW), p_low.mul(root))), n)
}

/// As [`gelu_small`].
#[inline(always)]
fn gelu_small_f64<V: Arithmetic>(x: V, a: V) -> V {
    x.mul(c(0.5)).mul(one_and_erf_f64(x, a))
}

/// 1 + erf(x/√2) for a = |x|/√2 < ¾: to the left it is a small rest of 1, in which what x/√2 and the sum lose would count several
/// times.
#[inline(always)]
fn one_and_erf_f64<V: Arithmetic>(x: V, a: V) -> V {
    let root = c::<V>(std::f64::consts::FRAC_1_SQRT_2);
    let s = a.copysign(x);
    let z = s.mul(s);
    let s_low = x.mul_add(root, s.neg()).add(x.mul(c(FRAC_1_SQRT_2_LOW)));
    // The derivative of erf, 2/√π exp(-z), to two digits, as a factor of so little.
    let slope = z.mul_add(z.mul_add(c(0.564), c(-1.128)), c(1.128));
    let sum = c::<V>(1.0).add(s);
    let lost = s.sub(sum.sub(c(1.0)));
    sum.add(s.mul_add(polynomial(z, &ERF_F64), s_low.mul_add(slope, lost)))
}

/// x σ(2u), u = √(2/π) (x + 0.044715 x³): Hendrycks and Gimpel's approximation.
#[inline(always)]
pub(crate) fn gelu_tanh<V: Arithmetic>(x: V) -> V {
    // 2u = (LINE + CUBE x²) x ln 2. LINE has few bits, so that it is a multiple of the last bit of every sum with it.
    const LINE: f64 = 2.300_781_25;
    const LINE_LOW: f64 = 0.001_426_948_144_324_889_2;
    const CUBE: f64 = 0.102_943_239_580_023_5;
    let cube_low = by_width::<V>(CUBE - CUBE as f32 as f64, -5.978_177_400_718_744e-18);
    // Beyond the bound nothing of e^-2|u| is left. 2|u| is kept as a pair: an error of it is one of e^-2|u| as many times larger.
    let a = by_width::<V>(12.5, 22.0).min(x.abs());
    let square = a.mul(a);
    let square_low = a.mul_add(a, square.neg());
    let factor = square.mul_add(c(CUBE), c(LINE));
    let lost = square.mul_add(c(CUBE), c::<V>(LINE).sub(factor));
    let factor_low = square.mul_add(cube_low, square_low.mul_add(c(CUBE), c(LINE_LOW))).add(lost);
    let minus = a.neg();
    let u = minus.mul(factor);
    let u_low = minus.mul_add(factor_low, minus.mul_add(factor, u.neg()));
    let (p, n) = exp2_pair_parts(u, u_low);
    // x e^-2|u| is scaled last, so that it keeps its digits where e^-2|u| has none left.
    let top = V::select(x.lt(c(0.0)), scale(minus.mul(p), n), x);
    let result = top.div(scale(p, n).add(c(1.0)));
    // -inf times a factor of 0 is no number, as in PyTorch.
    V::select(x.eq(c(f64::NEG_INFINITY)), c(f64::NAN), result)
}

/// Φ(x), the normal distribution function.
#[inline(always)]
pub(super) fn ndtr<V: Arithmetic>(x: V) -> V {
    let magnitude = x.abs();
    let a = magnitude.mul(c(std::f64::consts::FRAC_1_SQRT_2));
    let single = is_single::<V>();
    // |x| erfc(a) / 2 by x; beyond the bound nothing of it is left.
    let bounded = by_width::<V>(15.0, 39.0).min(magnitude);
    let tail = if single { gelu_tail(bounded, a) } else { gelu_tail_f64(bounded, a) }.div(bounded);
    let large = V::select(x.lt(c(0.0)), tail, c::<V>(1.0).sub(tail));
    let small = if single { c::<V>(1.0).add(erf_small(a.copysign(x))).mul(c(0.5)) } else { one_and_erf_f64(x, a).mul(c(0.5)) };
    keep_nan(x, V::select(a.lt(c(0.75)), small, large))
}
