//! What factorizations do to vectors that lie side by side, written once over vector types: sums of products in 32 sums beside
//! each other, whatever the set of instructions, so that it does not change a bit.
use crate::{
    gemm::Accumulator,
    map::loops::Real,
    simd::{Arithmetic, Float, Simd},
};

/// An element of a matrix that is factored.
pub(super) trait FactorElement: Real + Accumulator + bytemuck::Pod {
    const ZERO: Self;
    const ONE: Self;
    const EPSILON: f64;
    fn root(self) -> Self;
    /// The place of the first of the elements of the largest magnitude; NaN is larger than all.
    fn largest(x: &[Self]) -> usize;
}
macro_rules! factor_element {
    ($t:ident) => {
        impl FactorElement for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const EPSILON: f64 = $t::EPSILON as f64;
            #[inline(always)]
            fn root(self) -> $t {
                self.sqrt()
            }
            #[inline(always)]
            fn largest(x: &[$t]) -> usize {
                let mut most = 0;
                for v in x {
                    most = v.abs().to_bits().max(most);
                }
                x.iter().position(|v| v.abs().to_bits() == most).unwrap_or(0)
            }
        }
    };
}
factor_element!(f32);
factor_element!(f64);

/// `y += a x`.
#[inline(always)]
pub(super) fn add_scaled<T: FactorElement, S: Simd>(y: &mut [T], a: T, x: &[T]) {
    let lanes = <T::V<S> as Float>::LANES;
    let factor = T::V::<S>::splat(a);
    let x = &x[..y.len()];
    let mut x = x.chunks_exact(lanes);
    let mut y = y.chunks_exact_mut(lanes);
    for (y, x) in (&mut y).zip(&mut x) {
        factor.mul_add(T::V::<S>::from_slice(x), T::V::<S>::from_slice(y)).write(y);
    }
    let (y, x) = (y.into_remainder(), x.remainder());
    if !y.is_empty() {
        factor.mul_add(T::V::<S>::from_partial(x), T::V::<S>::from_partial(y)).write_partial(y);
    }
}
/// `y += a x + b z`, the first product first.
#[inline(always)]
pub(super) fn add_two<T: FactorElement, S: Simd>(y: &mut [T], [a, b]: [T; 2], [x, z]: [&[T]; 2]) {
    let lanes = <T::V<S> as Float>::LANES;
    let (a, b) = (T::V::<S>::splat(a), T::V::<S>::splat(b));
    let (x, z) = (&x[..y.len()], &z[..y.len()]);
    let (mut x, mut z, mut y) = (x.chunks_exact(lanes), z.chunks_exact(lanes), y.chunks_exact_mut(lanes));
    for ((y, x), z) in (&mut y).zip(&mut x).zip(&mut z) {
        let sum = a.mul_add(T::V::<S>::from_slice(x), T::V::<S>::from_slice(y));
        b.mul_add(T::V::<S>::from_slice(z), sum).write(y);
    }
    let (y, x, z) = (y.into_remainder(), x.remainder(), z.remainder());
    if !y.is_empty() {
        let sum = a.mul_add(T::V::<S>::from_partial(x), T::V::<S>::from_partial(y));
        b.mul_add(T::V::<S>::from_partial(z), sum).write_partial(y);
    }
}
/// Vectors of equal numbers. By loops: a closure that is not inlined would have no vector instructions.
#[inline(always)]
pub(super) fn splats<T: FactorElement, S: Simd, const N: usize>(factors: [[T; 3]; N]) -> [[T::V<S>; 3]; N] {
    let mut out = [[T::V::<S>::splat(T::ZERO); 3]; N];
    for n in 0..N {
        for k in 0..3 {
            out[n][k] = T::V::<S>::splat(factors[n][k]);
        }
    }
    out
}
/// Elements that are summed beside each other.
const ABREAST: usize = 32;
/// The sums of products of one vector with each of several.
#[inline(always)]
pub(super) fn dots<T: FactorElement, S: Simd, const N: usize>(x: &[T], of: [&[T]; N]) -> [T; N] {
    let lanes = <T::V<S> as Float>::LANES;
    let zero = T::V::<S>::group(T::V::<S>::splat(T::ZERO));
    let mut sums = [[zero; 2]; N];
    let whole = x.len() / ABREAST * ABREAST;
    let mut at = 0;
    while at < whole {
        for half in 0..2 {
            for v in 0..16 / lanes {
                let from = at + half * 16 + v * lanes;
                let x = T::V::<S>::from_slice(&x[from..]);
                for n in 0..N {
                    let sum = &mut sums[n][half].as_mut()[v];
                    *sum = x.mul_add(T::V::<S>::from_slice(&of[n][from..]), *sum);
                }
            }
        }
        at += ABREAST;
    }
    // What is left is short; its lanes are those of whole pieces.
    for half in 0..2 {
        for v in 0..16 / lanes {
            let from = whole + half * 16 + v * lanes;
            if from < x.len() {
                let to = x.len().min(from + lanes);
                let x = T::V::<S>::from_partial(&x[from..to]);
                for n in 0..N {
                    let sum = &mut sums[n][half].as_mut()[v];
                    *sum = x.mul_add(T::V::<S>::from_partial(&of[n][from..to]), *sum);
                }
            }
        }
    }
    let mut out = [T::ZERO; N];
    for n in 0..N {
        let mut all = [T::ZERO; 16];
        for v in 0..16 / lanes {
            sums[n][0].as_ref()[v].add(sums[n][1].as_ref()[v]).write(&mut all[v * lanes..]);
        }
        out[n] = crate::simd::fold(all, |a, b| a + b);
    }
    out
}
/// The sum of products.
#[inline(always)]
pub(super) fn dot<T: FactorElement, S: Simd>(x: &[T], y: &[T]) -> T {
    dots::<T, S, 1>(x, [y])[0]
}
/// The sum of squares in f64, where no square of an f32 overflows or vanishes.
#[inline(always)]
pub(super) fn squares<T: FactorElement>(x: &[T]) -> f64 {
    let mut sums = [0.0f64; 16];
    let (whole, rest) = x.as_chunks::<16>();
    for x in whole {
        for k in 0..16 {
            sums[k] += x[k].wide() * x[k].wide();
        }
    }
    for (sum, x) in sums.iter_mut().zip(rest) {
        *sum += x.wide() * x.wide();
    }
    crate::simd::fold(sums, |a, b| a + b)
}
