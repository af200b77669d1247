//! Inputs of workloads, the same on every device and in every run.
use adamant::Tensor;

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): one 64-bit word per call.
#[derive(Clone, Debug)]
pub struct RandomWords(u64);
impl RandomWords {
    /// A stream of its own for each seed.
    pub fn new(seed: u64) -> RandomWords {
        RandomWords(seed)
    }
    /// The next word.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
    /// Uniform in [-1, 1).
    pub fn uniform(&mut self) -> f32 {
        (self.word() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
    /// Below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound.max(1) as u64) as usize
    }
}

/// Host numbers uniform in [-1, 1).
pub fn uniform(n: usize, seed: u64) -> Vec<f32> {
    let mut words = RandomWords::new(seed);
    (0..n).map(|_| words.uniform()).collect()
}
/// A tensor of numbers uniform in [-1, 1), in memory of the device: what a vector of the system's allocator lies in is no
/// property of a backend.
pub fn tensor(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from_slice(&uniform(shape.iter().product(), seed), shape)
}
/// Indices below `bound`, spread over all of it.
pub fn indices(shape: &[usize], bound: usize) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_vec((0..n as u64).map(|i| (i * 2_654_435_761 % bound as u64) as i64).collect::<Vec<_>>(), shape)
}
