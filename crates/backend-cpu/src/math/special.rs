//! Functions of one f32 that are computed in f64, where formulas that lose some digits have them to spare: of the gamma function, of
//! Bessel's, and a few more. Where a formula gives no number, the exact meaning decides, one by one.
mod airy;
mod airy_coefficients;
mod bessel;
mod bessel_coefficients;
pub(super) mod gamma;
pub(super) mod incomplete;

use super::{
    circular::sin_cos,
    elementary::{c, exp, log1p, polynomial},
    normal::erfcx,
};
use crate::{
    isa::Isa,
    simd::{Arithmetic, Float, Simd, SimdKernel, dispatch, twice::Twice},
};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

macro_rules! special_functions {
    ($($(#[$doc:meta])* $variant:ident $name:literal = |$x:ident| $formula:expr;)*) => {
        /// A function of one number that is computed here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum SpecialFn {
            $($(#[$doc])* $variant,)*
        }
        impl SpecialFn {
            /// All functions.
            #[cfg(test)]
            const ALL: &[SpecialFn] = &[$(SpecialFn::$variant,)*];

            /// The function of this name in the table of scalar functions.
            pub fn named(name: &str) -> Option<SpecialFn> {
                Some(match name {
                    $($name => SpecialFn::$variant,)*
                    _ => return None,
                })
            }
        }
        impl SimdKernel for SpecialPiece<'_> {
            type Output = bool;
            #[inline(always)]
            fn run<S: Simd>(self) -> bool {
                let SpecialPiece(f, x, out) = self;
                match f {
                    $(SpecialFn::$variant => piece::<S::F64>(x, out, #[inline(always)] |$x| $formula),)*
                }
            }
        }
    };
}
special_functions! {
    /// ln |Γ(x)|
    Lgamma "lgamma" = |x| gamma::lgamma(x);
    /// its derivative
    Digamma "digamma" = |x| gamma::digamma(x);
    /// the derivative of that
    Trigamma "trigamma" = |x| gamma::trigamma(x);
    /// I₀(x)
    I0 "i0" = |x| bessel::modified::<_, 0>(x, false);
    /// exp(-|x|) I₀(x)
    I0e "i0e" = |x| bessel::modified::<_, 0>(x, true);
    /// I₁(x)
    I1 "i1" = |x| bessel::modified::<_, 1>(x, false);
    /// exp(-|x|) I₁(x)
    I1e "i1e" = |x| bessel::modified::<_, 1>(x, true);
    /// J₀(x)
    J0 "bessel_j0" = |x| bessel::first::<_, 0>(x);
    /// J₁(x)
    J1 "bessel_j1" = |x| bessel::first::<_, 1>(x);
    /// Y₀(x)
    Y0 "bessel_y0" = |x| bessel::second::<_, 0>(x);
    /// Y₁(x)
    Y1 "bessel_y1" = |x| bessel::second::<_, 1>(x);
    /// K₀(x)
    K0 "modified_bessel_k0" = |x| bessel::modified_second::<_, 0>(x, false);
    /// exp(x) K₀(x)
    K0e "scaled_modified_bessel_k0" = |x| bessel::modified_second::<_, 0>(x, true);
    /// K₁(x)
    K1 "modified_bessel_k1" = |x| bessel::modified_second::<_, 1>(x, false);
    /// exp(x) K₁(x)
    K1e "scaled_modified_bessel_k1" = |x| bessel::modified_second::<_, 1>(x, true);
    /// sin(x) / x
    SphericalJ0 "spherical_bessel_j0" = |x| bessel::spherical(x);
    /// Ai(x)
    AiryAi "airy_ai" = |x| airy::airy::<_, false>(x);
    /// Ai'(x)
    AiryAiDerivative "airy_ai_derivative" = |x| airy::airy::<_, true>(x);
    /// ln of the normal distribution function
    LogNdtr "log_ndtr" = |x| log_ndtr(x);
    /// the derivative of sin(πx) / (πx)
    SincDerivative "sinc_derivative" = |x| sinc_derivative(x);
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
            for (&x, out) in x.iter().zip(out).filter(|(_, out)| out.is_nan()) {
                *out = exact(x as f64) as f32;
            }
        }
    }
}
/// Up to a piece. Is there any that is no number?
struct SpecialPiece<'a>(SpecialFn, &'a [f32], &'a mut [f32]);
#[inline(always)]
fn piece<V: Float<Elem = f64>>(x: &[f32], out: &mut [f32], f: impl Fn(Twice<V>) -> Twice<V>) -> bool {
    let mut wide = [1.0f64; PIECE];
    for (wide, &x) in wide.iter_mut().zip(x) {
        *wide = x as f64;
    }
    // What is beyond the last one is computed for nobody.
    let count = x.len().next_multiple_of(Twice::<V>::LANES);
    for some in wide[..count].chunks_exact_mut(Twice::<V>::LANES) {
        f(Twice::<V>::from_slice(some)).write(some);
    }
    let mut any = false;
    for (out, &wide) in out.iter_mut().zip(&wide) {
        *out = wide as f32;
        any |= wide.is_nan();
    }
    any
}
/// The value where a formula covers its argument, else no number.
#[inline(always)]
fn covered<V: Arithmetic>(is_covered: V::Mask, value: V) -> V {
    V::select(is_covered, value, c(f64::NAN))
}

/// By y = exp(x²/2) Φ(-|x|): ln y - x²/2 to the left, ln(1 - y exp(-x²/2)) to the right.
#[inline(always)]
fn log_ndtr<V: Arithmetic>(x: V) -> V {
    let (zero, one) = (c::<V>(0.0), c::<V>(1.0));
    // Far to the left the square is all there is, and y is kept from vanishing beside 1.
    let scaled = erfcx(c::<V>(1e6).min(x.abs().mul(c(FRAC_1_SQRT_2)))).mul(c(0.5));
    let lost = x.mul(x).mul(c(-0.5));
    let is_left = x.lt(zero);
    let value = log1p(V::select(is_left, scaled.sub(one), scaled.mul(exp(lost)).neg()));
    V::select(is_left, value.add(lost), value)
}
/// (cos πx - sin πx / (πx)) / x with the angle reduced before π is multiplied in; below one half Taylor's series.
#[inline(always)]
fn sinc_derivative<V: Arithmetic>(x: V) -> V {
    // (-1)^k 2k / (2k+1)! from k = 1
    const SERIES: [f64; 10] = [
        -2.0 / 6.0,
        4.0 / 120.0,
        -6.0 / 5040.0,
        8.0 / 362_880.0,
        -10.0 / 39_916_800.0,
        12.0 / 6_227_020_800.0,
        -14.0 / 1_307_674_368_000.0,
        16.0 / 355_687_428_096_000.0,
        -18.0 / 121_645_100_408_832_000.0,
        20.0 / 51_090_942_171_709_440_000.0,
    ];
    let angle = x.mul(c(PI));
    // The sum with zero is there for the sign at 0.
    let near = polynomial(angle.mul(angle), &SERIES).mul(angle).mul_add(c(PI), c(0.0));
    let halved = x.mul(c(0.5));
    let part = halved.sub(halved.round());
    let (sine, cosine) = sin_cos(part.mul(c(2.0 * PI)));
    let far = cosine.sub(sine.div(angle)).div(x);
    V::select(x.abs().lt(c(0.5)), near, far)
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
        let row = Unary::ALL.iter().find(|row| SpecialFn::named(row.row().name) == Some(f));
        row.unwrap_or_else(|| unreachable!("{f:?} is of no row")).row().exact
    }
    #[test]
    fn functions_are_their_meaning_rounded_once_more() {
        let x = numbers();
        for &f in SpecialFn::ALL {
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
        for &f in SpecialFn::ALL {
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
