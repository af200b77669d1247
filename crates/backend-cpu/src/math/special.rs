//! The gamma function's logarithm and its derivative, and modified Bessel functions, of f32: computed in f64, where formulas that
//! lose some digits have them to spare. What a formula does not cover is computed by its exact meaning, one by one.
use super::{
    coefficients::{BESSEL_I0_LARGE, BESSEL_I0_SMALL, BESSEL_I1_LARGE, BESSEL_I1_SMALL, LGAMMA_NEAR},
    elementary::{c, exp, log, polynomial},
};
use crate::{
    isa::Isa,
    simd::{Arithmetic, Float, Mask, Simd, SimdKernel, dispatch, twice::Twice},
};
use std::f64::consts::PI;

/// A function of one number that is computed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpecialFn {
    /// ln |Γ(x)|
    Lgamma,
    /// its derivative
    Digamma,
    /// I₀(x)
    I0,
    /// exp(-|x|) I₀(x)
    I0e,
    /// I₁(x)
    I1,
    /// exp(-|x|) I₁(x)
    I1e,
}
impl SpecialFn {
    /// All functions.
    #[cfg(test)]
    const ALL: [SpecialFn; 6] = [SpecialFn::Lgamma, SpecialFn::Digamma, SpecialFn::I0, SpecialFn::I0e, SpecialFn::I1, SpecialFn::I1e];

    /// The function of this name in the table of scalar functions.
    pub fn named(name: &str) -> Option<SpecialFn> {
        Some(match name {
            "lgamma" => SpecialFn::Lgamma,
            "digamma" => SpecialFn::Digamma,
            "i0" => SpecialFn::I0,
            "i0e" => SpecialFn::I0e,
            "i1" => SpecialFn::I1,
            "i1e" => SpecialFn::I1e,
            _ => return None,
        })
    }
    /// Does its formula cover x? At the positive root of the digamma function little is left of its parts.
    #[inline(always)]
    fn covers(self, x: f32) -> bool {
        match self {
            SpecialFn::Lgamma => (x > 0.0) & (x < f32::INFINITY),
            SpecialFn::Digamma => (x > 0.0) & (x < f32::INFINITY) & ((x - 1.461_632_1).abs() > 1e-4),
            _ => x.abs() < f32::INFINITY,
        }
    }
    #[inline(always)]
    fn value<V: Arithmetic>(self, x: V) -> V {
        match self {
            SpecialFn::Lgamma => lgamma(x),
            SpecialFn::Digamma => digamma(x),
            SpecialFn::I0 => bessel::<V, 0>(x, false),
            SpecialFn::I0e => bessel::<V, 0>(x, true),
            SpecialFn::I1 => bessel::<V, 1>(x, false),
            SpecialFn::I1e => bessel::<V, 1>(x, true),
        }
    }
}

/// Elements done at a time.
const PIECE: usize = 256;

/// What the functions are of.
pub(crate) trait SpecialElement: Sized {
    /// `out = f(x)`, where `exact` is its meaning.
    fn special(isa: Isa, f: SpecialFn, exact: fn(f64) -> f64, x: &[Self], out: &mut [Self]);
}
impl SpecialElement for f32 {
    fn special(isa: Isa, f: SpecialFn, exact: fn(f64) -> f64, x: &[f32], out: &mut [f32]) {
        special_f32(isa, f, exact, x, out);
    }
}
/// Of f64 there is the meaning alone.
impl SpecialElement for f64 {
    fn special(_: Isa, _: SpecialFn, exact: fn(f64) -> f64, x: &[f64], out: &mut [f64]) {
        x.iter().zip(out).for_each(|(&x, out)| *out = exact(x));
    }
}
fn special_f32(isa: Isa, f: SpecialFn, exact: fn(f64) -> f64, x: &[f32], out: &mut [f32]) {
    for (x, out) in x.chunks(PIECE).zip(out.chunks_mut(PIECE)) {
        if dispatch(isa, SpecialPiece(f, x, out)) {
            continue;
        }
        for (&x, out) in x.iter().zip(out) {
            if !f.covers(x) {
                *out = exact(x as f64) as f32;
            }
        }
    }
}
/// Up to a piece. Were all covered?
struct SpecialPiece<'a>(SpecialFn, &'a [f32], &'a mut [f32]);
impl SimdKernel for SpecialPiece<'_> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self) -> bool {
        let SpecialPiece(f, x, out) = self;
        match f {
            SpecialFn::Lgamma => piece::<S::F64>(SpecialFn::Lgamma, x, out),
            SpecialFn::Digamma => piece::<S::F64>(SpecialFn::Digamma, x, out),
            SpecialFn::I0 => piece::<S::F64>(SpecialFn::I0, x, out),
            SpecialFn::I0e => piece::<S::F64>(SpecialFn::I0e, x, out),
            SpecialFn::I1 => piece::<S::F64>(SpecialFn::I1, x, out),
            SpecialFn::I1e => piece::<S::F64>(SpecialFn::I1e, x, out),
        }
    }
}
#[inline(always)]
fn piece<V: Float<Elem = f64>>(f: SpecialFn, x: &[f32], out: &mut [f32]) -> bool {
    let mut covered = true;
    for &x in x {
        covered &= f.covers(x);
    }
    let mut wide = [1.0f64; PIECE];
    for (wide, &x) in wide.iter_mut().zip(x) {
        *wide = x as f64;
    }
    // What is behind the last one is computed for nobody.
    let count = x.len().next_multiple_of(Twice::<V>::LANES);
    for some in wide[..count].chunks_exact_mut(Twice::<V>::LANES) {
        f.value(Twice::<V>::from_slice(some)).write(some);
    }
    for (out, &wide) in out.iter_mut().zip(&wide) {
        *out = wide as f32;
    }
    covered
}

/// From here on the asymptotic series of the gamma function are used.
const SHIFT: usize = 6;
/// What the recurrences of the gamma function make of x below [`SHIFT`], to x + `SHIFT`: the product of x, x + 1, .. and its
/// derivative.
#[inline(always)]
fn rising<V: Arithmetic>(x: V) -> (V, V) {
    let (mut product, mut derivative) = (x, c::<V>(1.0));
    for k in 1..SHIFT {
        let next = x.add(c(k as f64));
        derivative = derivative.mul_add(next, product);
        product = product.mul(next);
    }
    (product, derivative)
}
/// Recurrence (DLMF 5.5.2) and asymptotic series (5.11.2), for x > 0.
#[inline(always)]
fn digamma<V: Arithmetic>(x: V) -> V {
    // B₂ₖ / 2k
    const SERIES: [f64; 7] = [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0];
    let is_low = x.lt(c(SHIFT as f64));
    let (product, derivative) = rising(x);
    let product = V::select(is_low, product, c(1.0));
    let z = V::select(is_low, x.add(c(SHIFT as f64)), x);
    // One division for both quotients.
    let square = z.mul(z);
    let both = c::<V>(1.0).div(product.mul(square));
    let (steps, r) = (V::select(is_low, derivative.mul(square).mul(both), c(0.0)), product.mul(both));
    let series = polynomial(r, &SERIES).mul(r);
    log(z).sub(c::<V>(0.5).mul(z).mul(r)).sub(series).sub(steps)
}
/// Around both roots by a polynomial, else recurrence (DLMF 5.5.1) and asymptotic series (5.11.1), for x > 0.
#[inline(always)]
fn lgamma<V: Arithmetic>(x: V) -> V {
    // B₂ₖ / (2k (2k - 1))
    const SERIES: [f64; 6] = [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360360.0];
    // The sum with zero is there for the sign of the root at 1.
    let near = polynomial(x.sub(c(1.6)).mul(c(1.0 / 0.75)), &LGAMMA_NEAR).mul(x.sub(c(1.0))).mul_add(x.sub(c(2.0)), c(0.0));
    let is_near = c::<V>(0.85).le(x).and(x.le(c(2.35)));
    if !is_near.not().any() {
        return near;
    }
    let is_low = x.lt(c(SHIFT as f64));
    let z = V::select(is_low, x.add(c(SHIFT as f64)), x);
    let inverse = c::<V>(1.0).div(z);
    let series = polynomial(inverse.mul(inverse), &SERIES).mul(inverse);
    let half_log_tau = 0.5 * (2.0 * PI).ln();
    let mut far = z.sub(c(0.5)).mul_add(log(z), series.add(c(half_log_tau)).sub(z));
    if is_low.any() {
        far = far.sub(log(V::select(is_low, rising(x).0, c(1.0))));
    }
    V::select(is_near, near, far)
}
/// I₀ or I₁, by polynomials in x² up to 8 and in 1/x beyond; `scaled` by exp(-|x|).
#[inline(always)]
fn bessel<V: Arithmetic, const ORDER: usize>(x: V, scaled: bool) -> V {
    let magnitude = x.abs();
    let is_large = c::<V>(8.0).lt(magnitude);
    let power = exp(if scaled { magnitude.neg() } else { magnitude });
    let small = {
        let t = magnitude.mul(magnitude).mul_add(c(1.0 / 32.0), c(-1.0));
        let even = polynomial(t, if ORDER == 0 { &BESSEL_I0_SMALL } else { &BESSEL_I1_SMALL });
        let value = if ORDER == 0 { even } else { even.mul(magnitude.mul(c(0.5))) };
        if scaled { value.mul(power) } else { value }
    };
    let value = if is_large.any() {
        let t = c::<V>(16.0).div(magnitude).sub(c(1.0));
        let value = polynomial(t, if ORDER == 0 { &BESSEL_I0_LARGE } else { &BESSEL_I1_LARGE }).div(magnitude.sqrt());
        V::select(is_large, if scaled { value } else { value.mul(power) }, small)
    } else {
        small
    };
    if ORDER == 0 { value } else { value.copysign(x) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant_runtime::scalar::Unary;

    fn numbers() -> Vec<f32> {
        let mut state = 5u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        let mut all: Vec<f32> = (0..3000).map(|_| f32::from_bits(next())).collect();
        all.extend((0..8000).map(|_| next() as f32 / u32::MAX as f32 * 40.0 - 10.0));
        // Around the roots of both functions of the gamma function, and where formulas change.
        for middle in [1.0f32, 2.0, 1.461_632_1, 0.85, 2.35, 6.0, 8.0, -8.0, 90.0, 1e-30] {
            all.extend((0..40).map(|k| f32::from_bits(middle.to_bits() - 20 + k)));
            all.extend((0..40).map(|k| middle + (k as f32 - 20.0) * 1e-4));
        }
        all.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, f32::MAX, f32::MIN, 1e-45, -1.0, -1.5]);
        all
    }
    fn row(f: SpecialFn) -> fn(f64) -> f64 {
        let row = match f {
            SpecialFn::Lgamma => Unary::Lgamma,
            SpecialFn::Digamma => Unary::Digamma,
            SpecialFn::I0 => Unary::I0,
            SpecialFn::I0e => Unary::I0e,
            SpecialFn::I1 => Unary::I1,
            SpecialFn::I1e => Unary::I1e,
        };
        assert_eq!(SpecialFn::named(row.row().name), Some(f));
        row.row().exact
    }
    #[test]
    fn functions_are_their_meaning_rounded_once_more() {
        let x = numbers();
        for f in SpecialFn::ALL {
            let exact = row(f);
            let mut worst = 0i64;
            let mut out = vec![0.0; x.len()];
            special_f32(Isa::detect(), f, exact, &x, &mut out);
            for (&x, &got) in x.iter().zip(&out) {
                let want = exact(x as f64) as f32;
                if want.is_nan() || want.is_infinite() {
                    assert!(got == want || got.is_nan() && want.is_nan(), "{f:?}({x:e}) = {got:e}, not {want:e}");
                    continue;
                }
                assert_eq!(got.is_sign_negative(), want.is_sign_negative(), "{f:?}({x:e}) = {got:e}, not {want:e}");
                let apart = (got.to_bits() as i64 - want.to_bits() as i64).abs();
                assert!(apart <= 1, "{f:?}({x:e}) = {got:e}, not {want:e}");
                worst += apart;
            }
            // Only what lies between two numbers may go the other way.
            assert!(worst < 30, "{f:?}: {worst} are not the nearest");
        }
    }
    #[test]
    fn every_set_and_every_place_has_the_same_bits() {
        let x = numbers();
        for f in SpecialFn::ALL {
            let run = |isa: Isa, x: &[f32]| {
                let mut out = vec![0.0; x.len()];
                special_f32(isa, f, row(f), x, &mut out);
                out.iter().map(|v| if v.is_nan() { 0 } else { v.to_bits() }).collect::<Vec<u32>>()
            };
            let want = run(Isa::Scalar, &x);
            for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                assert!(run(isa, &x) == want, "{f:?} on {isa:?}");
                for len in [1, 3, 7, 255, 257] {
                    assert!(run(isa, &x[5..5 + len]) == want[5..5 + len], "{f:?} on {isa:?}, {len} of them");
                }
            }
        }
    }
}
