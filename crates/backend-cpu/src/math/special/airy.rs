//! Airy's function of the first kind and its derivative, in f64 for f32.
use super::{
    super::{
        circular::sin_cos,
        elementary::{c, exp, polynomial},
    },
    airy_coefficients::*,
    covered,
};
use crate::simd::{Arithmetic, Mask};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Left of -9.5 by the asymptotic series (DLMF 9.7.9 and 9.7.10).
#[inline(always)]
fn far_left<V: Arithmetic, const SLOPE: bool>(z: V) -> V {
    // (-1)^k u₂ₖ and (-1)^k u₂ₖ₊₁, and those of the derivative.
    const EVEN: [f64; 6] = [1.0, -0.037133487654320986, 0.05764919041266972, -0.2915913992307505, 3.079453030173167, -55.62278536591708];
    const ODD: [f64; 6] = [0.06944444444444445, -0.03799305912780064, 0.11609906402551541, -0.8776669695100169, 12.341573332345238, -278.46508077760257];
    const SLOPE_EVEN: [f64; 6] = [1.0, 0.04388503086419753, -0.06266216349203231, 0.3082537649010791, -3.210493584648621, 57.50830351391427];
    const SLOPE_ODD: [f64; 6] = [-0.09722222222222222, 0.04246283078989483, -0.12410589602727509, 0.9204799924129445, -12.807293080735626, 287.0332371092211];
    let root = z.sqrt();
    let zeta = z.mul(root).mul(c(2.0 / 3.0));
    let inverse = c::<V>(1.0).div(zeta);
    let square = inverse.mul(inverse);
    let (sine, cosine) = sin_cos(zeta);
    // Of ζ - π/4, times √2.
    let (sine, cosine) = (sine.sub(cosine), sine.add(cosine));
    if SLOPE {
        let (even, odd) = (polynomial(square, &SLOPE_EVEN), polynomial(square, &SLOPE_ODD).mul(inverse));
        sine.mul(even).sub(cosine.mul(odd)).mul(root.sqrt()).mul(c(FRAC_1_SQRT_2 / PI.sqrt()))
    } else {
        let (even, odd) = (polynomial(square, &EVEN), polynomial(square, &ODD).mul(inverse));
        cosine.mul(even).add(sine.mul(odd)).div(root.sqrt()).mul(c(FRAC_1_SQRT_2 / PI.sqrt()))
    }
}
/// Ai or its derivative, by polynomials between.
#[inline(always)]
pub(super) fn airy<V: Arithmetic, const SLOPE: bool>(x: V) -> V {
    let middle = x.add(c(1.0)).mul(c(1.0 / 3.0));
    let mut value = if SLOPE { polynomial(middle, &AIRY_SLOPE_MIDDLE) } else { polynomial(middle, &AIRY_MIDDLE) };
    let is_right = c::<V>(2.0).lt(x);
    if is_right.any() {
        let root = x.sqrt();
        let zeta = x.mul(root).mul(c(2.0 / 3.0));
        let t = c::<V>(2.0 / 0.5625).div(zeta).sub(c(1.0));
        let fourth = root.sqrt();
        let shrunk = exp(zeta.neg()).mul(c(0.5 / PI.sqrt()));
        let right = if SLOPE { shrunk.neg().mul(fourth).mul(polynomial(t, &AIRY_SLOPE_RIGHT)) } else { shrunk.mul(polynomial(t, &AIRY_RIGHT)).div(fourth) };
        value = V::select(is_right, right, value);
    }
    let is_left = x.lt(c(-4.0));
    if is_left.any() {
        let t = x.add(c(6.75)).mul(c(1.0 / 2.75));
        let left = if SLOPE { polynomial(t, &AIRY_SLOPE_LEFT) } else { polynomial(t, &AIRY_LEFT) };
        value = V::select(is_left, left, value);
        let is_far = x.lt(c(-9.5));
        if is_far.any() {
            value = V::select(is_far, far_left::<V, SLOPE>(x.neg()), value);
        }
    }
    // Farther out the phase has not its digits, or nothing is left.
    covered(c::<V>(-200.0).lt(x).and(x.lt(c(100.0))), value)
}
