//! Inputs of workloads, the same on every device and in every run, and the comparison of results with plain
//! arithmetic on the host.
use super::harness::{Checked, ensure};
use adamant::Tensor;

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): one 64-bit word per call.
pub struct Words(u64);
impl Words {
    /// A stream of its own for each seed.
    pub fn new(seed: u64) -> Words {
        Words(seed)
    }
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
    /// Uniform in [-1, 1).
    pub fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
    /// Below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Host numbers uniform in [-1, 1).
pub fn uniform(n: usize, seed: u64) -> Vec<f32> {
    let mut words = Words::new(seed);
    (0..n).map(|_| words.uniform()).collect()
}
/// A tensor of numbers uniform in [-1, 1), in memory.
pub fn tensor(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from_vec(uniform(shape.iter().product(), seed), shape)
}
/// Indices below `bound`, spread over all of it.
pub fn indices(shape: &[usize], bound: usize) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_vec((0..n as u64).map(|i| (i * 2_654_435_761 % bound as u64) as i64).collect::<Vec<_>>(), shape)
}

/// Compares some elements of a result with their exact values. `exact(i)` gives the value of flat element i and the
/// size of what was added up to it (the sum of magnitudes); the error of k roundings of such terms grows with √k.
pub fn check(result: &Tensor, roundings: usize, epsilon: f64, exact: impl Fn(usize) -> (f64, f64)) -> Checked<()> {
    let got = result.cast(adamant::DType::F32).to_vec::<f32>()?;
    ensure(!got.is_empty(), || "the result is empty".into())?;
    let mut words = Words::new(got.len() as u64);
    // The corners, where edges of tiles lie, and some elements in between.
    let mut places = vec![0, got.len() - 1];
    places.extend((0..62).map(|_| words.below(got.len())));
    let bound = 4.0 * (roundings as f64).sqrt().max(1.0) * epsilon;
    for i in places {
        let (want, size) = exact(i);
        let error = (got[i] as f64 - want).abs();
        ensure(error <= bound * size.max(want.abs()) || error < 1e-30, || format!("element {i} is {} instead of {want}", got[i]))?;
    }
    Ok(())
}
/// Half a unit in the last place of f32, relative.
pub const F32: f64 = 5.960_464_477_539_063e-8;
/// The same of bf16.
pub const BF16: f64 = 0.001_953_125;
