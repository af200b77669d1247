//! Distributions on the whole line, by location and scale, and on a stretch or a circle.
use crate::{
    Family, Parameters, PointFunction, Statistic,
    distribution::{TogetherChecked, family, of_parameters, supported},
    host,
    parameters::read,
    saddle::{half_log1p_square, one_logarithm},
};
use adamant_core::{Error, ErrorKind, Result, Rng, Shape, Tensor};
use std::f64::consts::{LN_2, PI, TAU};

pub(crate) const LN_TAU: f64 = 1.837_877_066_409_345_3;
pub(crate) const EULER: f64 = 0.577_215_664_901_532_9;

/// Uniform in (0, 1): `Rng::uniform` with its 0 moved to the middle of the first step.
pub(crate) fn open_uniform(p: &Parameters, shape: Shape, rng: &Rng) -> Tensor {
    let u = rng.uniform(shape, p.wide()).to(p.device());
    let half = if p.wide() == adamant_core::DType::F64 { 2f64.powi(-54) } else { 2f64.powi(-25) };
    u.eq(0.0).where_(half, &u)
}
/// Standard normal samples.
pub(crate) fn standard_normal(p: &Parameters, shape: Shape, rng: &Rng) -> Tensor {
    rng.normal(shape, p.wide()).to(p.device())
}
/// `(x - loc) / scale`.
fn standard(x: &Tensor, loc: &Tensor, scale: &Tensor) -> Tensor {
    (x - loc) / scale
}
/// `KL(N(m, s²) || N(n, t²))`.
pub(crate) fn normal_kl(m: &Tensor, s: &Tensor, n: &Tensor, t: &Tensor) -> Tensor {
    let ratio = (s / t).square();
    (&ratio + ((m - n) / t).square() - 1.0 - ratio.log()) * 0.5
}
/// The logarithm of the normal density.
pub(crate) fn normal_log_density(x: &Tensor, loc: &Tensor, scale: &Tensor) -> Tensor {
    // Half before it is a square, which may be too large.
    let z = standard(x, loc, scale);
    &z * (&z * -0.5) - scale.log() - 0.5 * LN_TAU
}

family! {
    /// The normal distribution: `exp(-((x - loc) / scale)² / 2) / (scale √(2π))`; `scale` is the standard deviation.
    ///
    /// Source: `torch.distributions.Normal`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, Normal};
    /// # Device::reference().make_current();
    /// let p = Normal::new(&tensor![0.0; f64], &tensor![2.0; f64])?;
    /// assert_eq!(p.variance().to_vec::<f64>()?, [4.0]);
    /// assert_eq!(p.cdf(&tensor![0.0; f64]).to_vec::<f64>()?, [0.5]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Normal(loc: Real, scale: Positive), events 0
}
impl Family for Normal {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [loc, scale] = self.0.all();
        Ok(standard_normal(&self.0, shape, rng) * scale + loc)
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [loc, scale] = self.0.all();
        Some(match function {
            PointFunction::LogProb => normal_log_density(x, loc, scale),
            PointFunction::Cdf => standard(x, loc, scale).ndtr(),
            PointFunction::Icdf => x.ndtri() * scale + loc,
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [loc, scale] = self.0.all();
        Some(match statistic {
            Statistic::Mean | Statistic::Mode => loc.clone(),
            Statistic::Variance => scale.square(),
            Statistic::Entropy => scale.log() + (0.5 + 0.5 * LN_TAU),
        })
    }
    fn kl(&self, other: &Normal) -> Option<Tensor> {
        let ([m, s], [n, t]) = (self.0.all(), other.0.all());
        Some(normal_kl(m, s, n, t))
    }
}

family! {
    /// The Laplace distribution: `exp(-|x - loc| / scale) / (2 scale)`.
    ///
    /// Source: `torch.distributions.Laplace`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, Laplace};
    /// # Device::reference().make_current();
    /// assert_eq!(Laplace::new(&tensor![1.0], &tensor![3.0])?.variance().to_vec::<f32>()?, [18.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Laplace(loc: Real, scale: Positive), events 0
}
/// The standard Laplace distribution's inverse.
fn laplace_inverse(p: &Tensor) -> Tensor {
    let from_middle = p - 0.5;
    (from_middle.sign() * (from_middle.abs() * -2.0).log1p()).neg()
}
impl Family for Laplace {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [loc, scale] = self.0.all();
        Ok(laplace_inverse(&open_uniform(&self.0, shape, rng)) * scale + loc)
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [loc, scale] = self.0.all();
        let z = || standard(x, loc, scale);
        Some(match function {
            PointFunction::LogProb => (z().abs() + scale.log() + LN_2).neg(),
            PointFunction::Cdf => {
                let (z, half) = (z(), z().abs().neg().exp() * 0.5);
                z.gt(0.0).where_(&(1.0 - &half), &half)
            }
            PointFunction::Icdf => laplace_inverse(x) * scale + loc,
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [loc, scale] = self.0.all();
        Some(match statistic {
            Statistic::Mean | Statistic::Mode => loc.clone(),
            Statistic::Variance => scale.square() * 2.0,
            Statistic::Entropy => scale.log() + (1.0 + LN_2),
        })
    }
    fn kl(&self, other: &Laplace) -> Option<Tensor> {
        let ([m, s], [n, t]) = (self.0.all(), other.0.all());
        let (ratio, apart) = (s / t, (m - n).abs());
        Some(&apart / t + &ratio * (apart / s).neg().exp() - ratio.log() - 1.0)
    }
}

family! {
    /// The Cauchy distribution: `1 / (π scale (1 + ((x - loc) / scale)²))`. It has no mean, which is NaN, and no variance,
    /// which is inf as PyTorch's.
    ///
    /// Source: `torch.distributions.Cauchy`; divergence: Chyzak and Nielsen, 2019.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Cauchy, Distribution};
    /// # Device::reference().make_current();
    /// assert!(Cauchy::new(&tensor![0.0], &tensor![1.0])?.mean().item::<f32>()?.is_nan());
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Cauchy(loc: Real, scale: Positive), events 0
}
impl Family for Cauchy {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        self.function(PointFunction::Icdf, &open_uniform(&self.0, shape, rng)).ok_or_else(|| Error::new("Cauchy", ErrorKind::Internal("no inverse".into())))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [loc, scale] = self.0.all();
        Some(match function {
            PointFunction::LogProb => {
                let d = x - loc;
                let sum = half_log1p_square(&d, &[scale]) * 2.0 + scale.log() + PI.ln();
                one_logarithm(sum, &((&d / scale * &d + scale) * PI)).neg()
            }
            PointFunction::Cdf => standard(x, loc, scale).atan() * (1.0 / PI) + 0.5,
            PointFunction::Icdf => ((x - 0.5) * PI).tan() * scale + loc,
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [loc, scale] = self.0.all();
        Some(match statistic {
            Statistic::Mean => self.0.filled(f64::NAN),
            Statistic::Variance => self.0.filled(f64::INFINITY),
            Statistic::Mode => loc.clone(),
            Statistic::Entropy => scale.log() + (4.0 * PI).ln(),
        })
    }
    fn kl(&self, other: &Cauchy) -> Option<Tensor> {
        let ([m, s], [n, t]) = (self.0.all(), other.0.all());
        Some(((s + t).square() + (m - n).square()).log() - (s * t * 4.0).log())
    }
}

family! {
    /// The Gumbel distribution of largest values: `exp(-(z + exp(-z))) / scale` with `z = (x - loc) / scale`.
    ///
    /// Source: `torch.distributions.Gumbel`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, Gumbel};
    /// # Device::reference().make_current();
    /// assert_eq!(Gumbel::new(&tensor![3.0], &tensor![1.0])?.mode().to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Gumbel(loc: Real, scale: Positive), events 0
}
impl Family for Gumbel {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [loc, scale] = self.0.all();
        Ok(loc - open_uniform(&self.0, shape, rng).log().neg().log() * scale)
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [loc, scale] = self.0.all();
        let z = || standard(x, loc, scale);
        Some(match function {
            PointFunction::LogProb => (z() + z().neg().exp() + scale.log()).neg(),
            PointFunction::Cdf => z().neg().exp().neg().exp(),
            PointFunction::Icdf => loc - x.log().neg().log() * scale,
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [loc, scale] = self.0.all();
        Some(match statistic {
            Statistic::Mean => loc + scale * EULER,
            Statistic::Mode => loc.clone(),
            Statistic::Variance => scale.square() * (PI * PI / 6.0),
            Statistic::Entropy => scale.log() + (1.0 + EULER),
        })
    }
    fn kl(&self, other: &Gumbel) -> Option<Tensor> {
        let ([m, s], [n, t]) = (self.0.all(), other.0.all());
        let (ratio, apart) = (s / t, (m - n) / t);
        Some(&ratio * EULER - ratio.log() + &apart + ((&ratio + 1.0).lgamma() - &apart).exp() - (1.0 + EULER))
    }
}

family! {
    /// The uniform distribution: `1 / (high - low)` in `[low, high)`. Its mode is NaN: no value is likelier than others.
    ///
    /// Source: `torch.distributions.Uniform`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, Uniform};
    /// # Device::reference().make_current();
    /// assert_eq!(Uniform::new(&tensor![1.0], &tensor![3.0])?.mean().to_vec::<f32>()?, [2.0]);
    /// assert!(Uniform::new(&tensor![3.0], &tensor![1.0]).unwrap_err().to_string().contains("high"));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Uniform(low: Real, high: Real), events 0, together
}
impl TogetherChecked for Uniform {
    fn checked(self) -> Result<Uniform> {
        let [low, high] = self.0.all();
        match read(&(high - low))?.and_then(|width| width.iter().position(|w| w.is_nan() || *w <= 0.0)) {
            None => Ok(self),
            Some(k) => Err(Error::new("Uniform", ErrorKind::Argument(format!("high must be greater than low, and is not at element {k}")))),
        }
    }
}
impl Family for Uniform {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [low, high] = self.0.all();
        Ok(rng.uniform(shape, self.0.wide()).to(self.0.device()) * (high - low) + low)
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [low, high] = self.0.all();
        Some(match function {
            PointFunction::LogProb => supported(&x.lt(low).logical_or(x.ge(high)), x, low, |x| (high - low).log().neg() + x * 0.0),
            PointFunction::Cdf => ((x - low) / (high - low)).clamp(0.0, 1.0),
            PointFunction::Icdf => x * (high - low) + low,
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [low, high] = self.0.all();
        Some(match statistic {
            Statistic::Mean => (low + high) * 0.5,
            Statistic::Mode => self.0.filled(f64::NAN),
            Statistic::Variance => (high - low).square() * (1.0 / 12.0),
            Statistic::Entropy => (high - low).log(),
        })
    }
    fn kl(&self, other: &Uniform) -> Option<Tensor> {
        let ([a, b], [c, d]) = (self.0.all(), other.0.all());
        Some(a.lt(c).logical_or(b.gt(d)).where_(f64::INFINITY, &(((d - c) / (b - a)).log())))
    }
}

family! {
    /// The von Mises distribution of angles: `exp(concentration cos(x - loc)) / (2π I₀(concentration))`. Mean and variance
    /// are the circular ones. Samples lie in [-π, π).
    ///
    /// Source: `torch.distributions.VonMises`; samples by Best and Fisher, 1979.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, VonMises};
    /// # Device::reference().make_current();
    /// assert_eq!(VonMises::new(&tensor![1.0], &tensor![4.0])?.mean().to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    VonMises(loc: Real, concentration: Positive), events 0
}
impl Family for VonMises {
    of_parameters!(0);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let p = &self.0;
        host::drawn(shape, p.all::<2>(), 1, (p.wide(), p.device()), rng, |[loc, k], words, out| {
            out[0] = (loc[0] + host::von_mises(k[0], words) + PI).rem_euclid(TAU) - PI;
        })
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [loc, k] = self.0.all();
        // cos(d) - 1 as a square, which does not cancel; I₀ without its exponential.
        let density = || k * ((x - loc) * 0.5).sin().square() * -2.0 - (k.i0e() * TAU).log();
        (function == PointFunction::LogProb).then(density)
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [loc, k] = self.0.all();
        let resultant = || k.i1e() / k.i0e();
        Some(match statistic {
            Statistic::Mean | Statistic::Mode => loc.clone(),
            Statistic::Variance => 1.0 - resultant(),
            Statistic::Entropy => k.i0e().log() + LN_TAU + k * (1.0 - resultant()),
        })
    }
}
