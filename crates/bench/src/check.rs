//! The comparison of a result with plain arithmetic in f64 on the host.
use crate::{
    inputs::RandomWords,
    workload::{Checked, ensure},
};
use adamant::{DType, Tensor};

/// Half a unit in the last place of f32, relative.
pub const F32: f64 = 5.960_464_477_539_063e-8;
/// The same of bf16.
pub const BF16: f64 = 0.001_953_125;
/// The same of f16.
pub const F16: f64 = 0.000_244_140_625;
/// How many elements are compared, but for the first and the last.
const PLACES: usize = 62;

/// Compares some elements of a result with their exact values, and returns the worst error as a share of what is allowed.
///
/// `exact(i)` gives the value of flat element i and the size of what was added up to it (the sum of magnitudes); the
/// error of k `roundings` of such terms grows with √k (Higham, *Accuracy and Stability of Numerical Algorithms*, 2.8).
///
/// # Errors
/// The result cannot be read, is empty, or has an element outside the bound.
pub fn check(result: &Tensor, roundings: usize, epsilon: f64, exact: impl Fn(usize) -> (f64, f64)) -> Checked<f64> {
    let got = result.cast(DType::F32).to_vec::<f32>()?;
    ensure(!got.is_empty(), || "the result is empty".into())?;
    let mut words = RandomWords::new(got.len() as u64);
    // The corners, where edges of tiles lie, and some elements in between.
    let places = [0, got.len() - 1].into_iter().chain((0..PLACES).map(|_| words.below(got.len())));
    let bound = 4.0 * (roundings as f64).sqrt().max(1.0) * epsilon;
    let mut worst = 0.0f64;
    for i in places {
        let (want, size) = exact(i);
        let error = (got[i] as f64 - want).abs();
        let allowed = (bound * size.max(want.abs())).max(1e-30);
        ensure(error <= allowed, || format!("element {i} is {} instead of {want}", got[i]))?;
        worst = worst.max(error / allowed);
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_element_or_a_nan_that_passes() {
        let exact = |i: usize| (i as f64, i as f64);
        let right: Vec<f32> = (0..8).map(|i| i as f32).collect();
        assert_eq!(check(&Tensor::from_vec(right.clone(), [8]), 1, F32, exact).ok(), Some(0.0));
        for bad in [f32::NAN, 7.001] {
            let mut wrong = right.clone();
            wrong[7] = bad;
            assert!(check(&Tensor::from_vec(wrong, [8]), 1, F32, exact).is_err(), "{bad}");
        }
        assert!(check(&Tensor::from_vec(Vec::<f32>::new(), [0]), 1, F32, exact).is_err());
    }
}
