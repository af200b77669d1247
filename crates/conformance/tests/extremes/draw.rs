//! Numbers from a seed: magnitudes over all exponents, denormals, ties, and the places where functions bend. Must not know
//! functions.
use super::big::{F32, Grid};

/// Words by SplitMix64 (Steele, Lea and Flood, 2014).
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64, stream: &str) -> Draw {
        // FNV-1a of the name, so that a function's numbers do not depend on which others are tested.
        Draw(stream.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)))
    }
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }
    pub fn chance(&mut self, of: f64) -> bool {
        self.unit() < of
    }
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / 9_007_199_254_740_992.0
    }
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }
    pub fn sign(&mut self) -> f64 {
        if self.chance(0.5) { 1.0 } else { -1.0 }
    }
    /// Between 10^low and 10^high, all decades alike.
    pub fn magnitude(&mut self, low: f64, high: f64) -> f64 {
        10f64.powf(self.uniform(low, high))
    }
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
    /// Rounded to the dtype and kept within its finite numbers.
    pub fn on(grid: Grid, x: f64) -> f64 {
        if grid == F32 { f64::from(x.clamp(-grid.largest, grid.largest) as f32) } else { x.clamp(-grid.largest, grid.largest) }
    }
    /// Any positive number of the dtype, denormals included.
    pub fn positive(&mut self, grid: Grid) -> f64 {
        let deepest = if grid == F32 { -44.8 } else { -323.3 };
        let highest = if grid == F32 { 38.5 } else { 308.2 };
        let x = match self.below(4) {
            0 => self.magnitude(deepest, highest),
            1 => self.magnitude(-3.0, 3.0),
            2 => self.magnitude(-37.9, 38.0),
            _ => self.uniform(0.0, 12.0),
        };
        Draw::on(grid, x).max(if grid == F32 { f64::from(f32::from_bits(1)) } else { f64::from_bits(1) })
    }
    /// Near one of the places where functions have a root, a pole or a seam.
    pub fn near(&mut self, grid: Grid) -> f64 {
        let place = match self.below(3) {
            0 => self.below(60) as f64 * 0.25 - 8.0,
            1 => self.pick(&[0.0, 1.0, 1.461_632_144_968_362_3, 2.0, std::f64::consts::PI, 2.404_825_557_695_773, 0.893_576_966_279_167_5, 88.0, 700.0]),
            _ => self.uniform(-30.0, 30.0),
        };
        let off = self.sign() * self.magnitude(if grid == F32 { -8.0 } else { -17.0 }, -0.5);
        Draw::on(grid, place + off)
    }
    /// An argument of a function whose usual ones lie in `domain`.
    pub fn argument(&mut self, grid: Grid, domain: (f64, f64)) -> f64 {
        let x = match self.below(5) {
            0 => self.sign() * self.positive(grid),
            1 => self.near(grid),
            2 => self.sign() * self.magnitude(-2.0, 3.0),
            3 => {
                // Towards the ends of the domain.
                let width = (domain.1 - domain.0) * self.magnitude(-12.0, 0.0);
                if self.chance(0.5) { domain.0 + width } else { domain.1 - width }
            }
            _ => self.uniform(domain.0, domain.1),
        };
        Draw::on(grid, x)
    }
}
