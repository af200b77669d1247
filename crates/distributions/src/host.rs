//! Samplers by rejection. Each element of a sample has a sequence of words of its own from the counter generator, so it does
//! not depend on how often others were rejected.
use adamant_core::{DType, Device, Result, Rng, Shape, Tensor, rng::element_bits, scalar::Unary};
use std::f64::consts::{PI, TAU};

/// The random words of one element.
pub(crate) struct SampleWords {
    key: [u32; 4],
    next: u64,
}
impl SampleWords {
    fn word(&mut self) -> u64 {
        let word = element_bits(self.key, self.next);
        self.next += 1;
        word as u64
    }
    /// Uniform in (0, 1): the middles of 2^53 parts.
    pub fn uniform(&mut self) -> f64 {
        let bits = (self.word() >> 6 << 27) | (self.word() >> 5);
        (bits as f64 + 0.5) * (1.0 / 9_007_199_254_740_992.0)
    }
    /// Standard normal (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (TAU * self.uniform()).cos()
    }
}
fn lgamma(x: f64) -> f64 {
    (Unary::Lgamma.row().exact)(x)
}

/// A tensor drawn on the host: `f` fills one row of `width` numbers from the parameters' rows and the element's words.
pub(crate) fn drawn<const N: usize>(
    shape: Shape,
    parameters: [&Tensor; N],
    width: usize,
    (dtype, device): (DType, Device),
    rng: &Rng,
    f: impl Fn([&[f64]; N], &mut SampleWords, &mut [f64]),
) -> Result<Tensor> {
    let key = rng.key().to_array::<u32, 4>()?;
    let mut values = Vec::with_capacity(N);
    for p in parameters {
        values.push(p.to_vec_as::<f64>()?);
    }
    let mut out = vec![0.0; shape.elements()];
    let rows = values.first().map_or(1, |v| v.len() / width.max(1)).max(1);
    for (k, row) in out.chunks_mut(width.max(1)).enumerate() {
        let at = k % rows * width;
        f(std::array::from_fn(|n| &values[n][at..at + width]), &mut SampleWords { key, next: (k as u64) << 24 }, row);
    }
    Ok(if dtype == DType::F64 {
        Tensor::from_vec_on(out, shape, device)
    } else {
        Tensor::from_vec_on(out.iter().map(|&x| x as f32).collect::<Vec<f32>>(), shape, device)
    })
}

/// The logarithm of a standard gamma sample (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000). A
/// shape below 1 is that of one more, times a power of a uniform, whose logarithm does not underflow.
pub(crate) fn log_gamma(concentration: f64, words: &mut SampleWords) -> f64 {
    if concentration < 1.0 {
        return log_gamma(concentration + 1.0, words) + words.uniform().ln() / concentration;
    }
    let d = concentration - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = words.normal();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && words.uniform().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d.ln() + v.ln();
        }
    }
}
/// A Poisson sample: by products of uniforms (Knuth) below 10, else by transformed rejection (PTRS of Hörmann, "The
/// transformed rejection method for generating Poisson random variables", 1993).
pub(crate) fn poisson(rate: f64, words: &mut SampleWords) -> f64 {
    if rate < 10.0 {
        let (mut k, mut log) = (0.0, words.uniform().ln());
        while log > -rate {
            k += 1.0;
            log += words.uniform().ln();
        }
        return k;
    }
    let b = 0.931 + 2.53 * rate.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse = 1.1239 + 1.1328 / (b - 3.4);
    let squeeze = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let (u, v) = (words.uniform() - 0.5, words.uniform());
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + rate + 0.43).floor();
        if us >= 0.07 && v <= squeeze {
            return k;
        }
        if k < 0.0 || us < 0.013 && v > us {
            continue;
        }
        if v.ln() + inverse.ln() - (a / (us * us) + b).ln() <= k * rate.ln() - rate - lgamma(k + 1.0) {
            return k;
        }
    }
}
/// A binomial sample: by waiting times between successes (Devroye, "Non-uniform random variate generation", 1986, X.4) where
/// few are expected, else by transformed rejection (BTRS of Hörmann, "The generation of binomial random variates", 1993).
pub(crate) fn binomial(n: f64, p: f64, words: &mut SampleWords) -> f64 {
    if p > 0.5 {
        return n - binomial(n, 1.0 - p, words);
    }
    if p <= 0.0 || n <= 0.0 {
        return 0.0;
    }
    if n * p < 10.0 {
        let (mut k, mut trials, rest) = (0.0, 0.0, (-p).ln_1p());
        loop {
            trials += (words.uniform().ln() / rest).floor() + 1.0;
            if trials > n {
                return k;
            }
            k += 1.0;
        }
    }
    let spread = (n * p * (1.0 - p)).sqrt();
    let b = 1.15 + 2.53 * spread;
    let a = -0.0873 + 0.0248 * b + 0.01 * p;
    let (alpha, squeeze) = ((2.83 + 5.1 / b) * spread, 0.92 - 4.2 / b);
    let (odds, m) = ((p / (1.0 - p)).ln(), ((n + 1.0) * p).floor());
    let top = lgamma(m + 1.0) + lgamma(n - m + 1.0);
    loop {
        let (u, v) = (words.uniform() - 0.5, words.uniform());
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + n * p + 0.5).floor();
        if !(0.0..=n).contains(&k) {
            continue;
        }
        if us >= 0.07 && v <= squeeze {
            return k;
        }
        if (v * alpha / (a / (us * us) + b)).ln() <= top - lgamma(k + 1.0) - lgamma(n - k + 1.0) + (k - m) * odds {
            return k;
        }
    }
}
/// An angle about 0, in [-π, π] (Best and Fisher, "Efficient simulation of the von Mises distribution", 1979).
pub(crate) fn von_mises(concentration: f64, words: &mut SampleWords) -> f64 {
    let tau = 1.0 + (1.0 + 4.0 * concentration * concentration).sqrt();
    let rho = (tau - (2.0 * tau).sqrt()) / (2.0 * concentration);
    // The quotient cancels for small concentrations; its series does not.
    let r = if concentration < 1e-5 { 1.0 / concentration + concentration } else { (1.0 + rho * rho) / (2.0 * rho) };
    loop {
        let z = (PI * words.uniform()).cos();
        let f = (1.0 + r * z) / (r + z);
        let c = concentration * (r - f);
        let u = words.uniform();
        if c * (2.0 - c) > u || (c / u).ln() + 1.0 - c >= 0.0 {
            return f.clamp(-1.0, 1.0).acos().copysign(words.uniform() - 0.5);
        }
    }
}
