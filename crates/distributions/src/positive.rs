//! Distributions of positive numbers whose samples are closed forms of a uniform or a normal one.
use crate::{
    Family, PointFunction, Statistic,
    distribution::{TogetherChecked, family, of_parameters, supported, xlogy},
    line::{EULER, LN_TAU, normal_kl, normal_log_density, open_uniform, standard_normal},
    saddle::{log_product, log_ratio},
};
use adamant_core::{Result, Rng, Shape, Tensor};
use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI, SQRT_2};

family! {
    /// What the exponential of a normal variable has: `Normal(loc, scale)` is the distribution of `ln x`.
    ///
    /// Source: `torch.distributions.LogNormal`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, LogNormal};
    /// # Device::reference().make_current();
    /// let p = LogNormal::new(&tensor![0.0; f64], &tensor![2.0; f64])?;
    /// assert_eq!(p.mean().to_vec::<f64>()?, [2f64.exp()]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    LogNormal(loc: Real, scale: Positive), events 0
}
impl Family for LogNormal {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [loc, scale] = self.0.all();
        Ok((standard_normal(&self.0, shape, rng) * scale + loc).exp())
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [loc, scale] = self.0.all();
        let outside = x.le(0.0);
        Some(match function {
            PointFunction::LogProb => supported(&outside, x, &x.ones_like(), |x| {
                let z = (x.log() - loc) / scale;
                &z * (&z * -0.5) - log_product(scale, x) - 0.5 * LN_TAU
            }),
            PointFunction::Cdf => outside.where_(0.0, &((outside.where_(1.0, x).log() - loc) / scale).ndtr()),
            PointFunction::Icdf => (x.ndtri() * scale + loc).exp(),
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [loc, scale] = self.0.all();
        let square = scale.square();
        Some(match statistic {
            Statistic::Mean => (loc + square * 0.5).exp(),
            Statistic::Mode => (loc - square).exp(),
            Statistic::Variance => square.expm1() * (loc * 2.0 + square).exp(),
            Statistic::Entropy => scale.log() + loc + (0.5 + 0.5 * LN_TAU),
        })
    }
    fn kl(&self, other: &LogNormal) -> Option<Tensor> {
        let ([m, s], [n, t]) = (self.0.all(), other.0.all());
        Some(normal_kl(m, s, n, t))
    }
}

family! {
    /// What the absolute value of a normal variable about 0 has: twice the density of `Normal(0, scale)` for `x ≥ 0`.
    ///
    /// Source: `torch.distributions.HalfNormal`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, HalfNormal};
    /// # Device::reference().make_current();
    /// assert_eq!(HalfNormal::new(&tensor![2.0])?.mode().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    HalfNormal(scale: Positive), events 0
}
impl Family for HalfNormal {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [scale] = self.0.all();
        Ok(standard_normal(&self.0, shape, rng).abs() * scale)
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [scale] = self.0.all();
        Some(match function {
            PointFunction::LogProb => supported(&x.lt(0.0), x, &x.zeros_like(), |x| normal_log_density(x, &x.zeros_like(), scale) + LN_2),
            PointFunction::Cdf => (x / scale * FRAC_1_SQRT_2).erf().clamp_min(0.0),
            PointFunction::Icdf => x.erfinv() * scale * SQRT_2,
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [scale] = self.0.all();
        Some(match statistic {
            Statistic::Mean => scale * (2.0 / PI).sqrt(),
            Statistic::Mode => scale.zeros_like(),
            Statistic::Variance => scale.square() * (1.0 - 2.0 / PI),
            Statistic::Entropy => scale.log() + (0.5 + 0.5 * (PI / 2.0).ln()),
        })
    }
    fn kl(&self, other: &HalfNormal) -> Option<Tensor> {
        let ([s], [t]) = (self.0.all(), other.0.all());
        Some(normal_kl(&s.zeros_like(), s, &t.zeros_like(), t))
    }
}

family! {
    /// The exponential distribution: `rate exp(-rate x)` for `x ≥ 0`.
    ///
    /// Source: `torch.distributions.Exponential`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, Exponential};
    /// # Device::reference().make_current();
    /// assert_eq!(Exponential::new(&tensor![4.0])?.mean().to_vec::<f32>()?, [0.25]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Exponential(rate: Positive), events 0
}
impl Family for Exponential {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [rate] = self.0.all();
        Ok(open_uniform(&self.0, shape, rng).log().neg() / rate)
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [rate] = self.0.all();
        Some(match function {
            PointFunction::LogProb => supported(&x.lt(0.0), x, &x.zeros_like(), |x| rate.log() - rate * x),
            PointFunction::Cdf => (rate * x.clamp_min(0.0)).neg().expm1().neg(),
            PointFunction::Icdf => x.neg().log1p().neg() / rate,
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [rate] = self.0.all();
        Some(match statistic {
            Statistic::Mean => rate.reciprocal(),
            Statistic::Mode => rate.zeros_like(),
            Statistic::Variance => rate.reciprocal().square(),
            Statistic::Entropy => 1.0 - rate.log(),
        })
    }
    fn kl(&self, other: &Exponential) -> Option<Tensor> {
        let ([p], [q]) = (self.0.all(), other.0.all());
        let ratio = q / p;
        Some(&ratio - ratio.log() - 1.0)
    }
}

family! {
    /// The Weibull distribution: `k/λ (x/λ)^(k-1) exp(-(x/λ)^k)` for `x ≥ 0`, with λ the scale and k the concentration.
    ///
    /// Source: `torch.distributions.Weibull`; divergence: Bauckhage, "Computing the Kullback-Leibler divergence between two
    /// Weibull distributions", 2013.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, Weibull};
    /// # Device::reference().make_current();
    /// let p = Weibull::new(&tensor![2.0], &tensor![1.0])?; // an exponential one
    /// assert!(p.log_prob(&tensor![2.0]).allclose(&tensor![-1.0 - 2f32.ln()], 1e-6, 1e-6)?);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Weibull(scale: Positive, concentration: Positive), events 0
}
impl Family for Weibull {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [scale, k] = self.0.all();
        Ok(open_uniform(&self.0, shape, rng).log().neg().pow(&k.reciprocal()) * scale)
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [scale, k] = self.0.all();
        Some(match function {
            PointFunction::LogProb => supported(&x.lt(0.0), x, scale, |x| {
                // At x = 0 the power is 0, or has no logarithm but an infinite one.
                let zero = x.eq(0.0);
                let inside = zero.where_(scale, x);
                let log = log_ratio(scale, &inside, &inside.log());
                let at_zero = xlogy(&(k - 1.0), &zero.where_(x, 1.0)) - scale.log();
                let power = zero.where_(&(zero.where_(x, scale) / scale).pow(k), &(k * &log).exp());
                zero.where_(&(k.log() + at_zero), &(k * &log + log_ratio(&inside, k, &k.log()))) - power
            }),
            PointFunction::Cdf => (x.clamp_min(0.0) / scale).pow(k).neg().expm1().neg(),
            PointFunction::Icdf => x.neg().log1p().neg().pow(&k.reciprocal()) * scale,
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [scale, k] = self.0.all();
        let moment = |n: f64| (k.reciprocal() * n + 1.0).lgamma();
        Some(match statistic {
            Statistic::Mean => scale * moment(1.0).exp(),
            Statistic::Mode => scale * ((k - 1.0).clamp_min(0.0) / k).pow(&k.reciprocal()),
            Statistic::Variance => scale.square() * (moment(2.0).exp() - (moment(1.0) * 2.0).exp()),
            Statistic::Entropy => (1.0 - k.reciprocal()) * EULER + (scale / k).log() + 1.0,
        })
    }
    fn kl(&self, other: &Weibull) -> Option<Tensor> {
        let ([a, k], [b, l]) = (self.0.all(), other.0.all());
        let apart = a.log() - b.log();
        Some((k / l).log() + l * b.log() - k * a.log() + (k - l) * (a.log() - k.reciprocal() * EULER) + (l * apart + (l / k + 1.0).lgamma()).exp() - 1.0)
    }
}

family! {
    /// The Pareto distribution: `alpha scale^alpha / x^(alpha + 1)` for `x ≥ scale`. Without enough moments mean and variance
    /// are inf.
    ///
    /// Source: `torch.distributions.Pareto`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, Pareto};
    /// # Device::reference().make_current();
    /// assert_eq!(Pareto::new(&tensor![2.0], &tensor![2.0])?.mean().to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Pareto(scale: Positive, alpha: Positive), events 0
}
impl Family for Pareto {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [scale, alpha] = self.0.all();
        Ok((open_uniform(&self.0, shape, rng).log().neg() / alpha).exp() * scale)
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [scale, alpha] = self.0.all();
        Some(match function {
            PointFunction::LogProb => supported(&x.lt(scale), x, scale, |x| log_ratio(x, alpha, &alpha.log()) - alpha * log_ratio(scale, x, &x.log())),
            PointFunction::Cdf => (alpha * (scale.log() - x.maximum(scale).log())).expm1().neg(),
            PointFunction::Icdf => (x.neg().log1p().neg() / alpha).exp() * scale,
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [scale, alpha] = self.0.all();
        let moment = |n: f64| alpha.le(n).where_(n + 1.0, alpha);
        Some(match statistic {
            Statistic::Mean => alpha.le(1.0).where_(f64::INFINITY, &(moment(1.0) * scale / (moment(1.0) - 1.0))),
            Statistic::Mode => scale.clone(),
            Statistic::Variance => {
                let a = moment(2.0);
                alpha.le(2.0).where_(f64::INFINITY, &(scale.square() * &a / ((&a - 1.0).square() * (&a - 2.0))))
            }
            Statistic::Entropy => (scale / alpha).log() + alpha.reciprocal() + 1.0,
        })
    }
    fn kl(&self, other: &Pareto) -> Option<Tensor> {
        let ([m, a], [n, b]) = (self.0.all(), other.0.all());
        let ratio = b / a;
        Some(m.lt(n).where_(f64::INFINITY, &(b * (m / n).log() - ratio.log() + &ratio - 1.0)))
    }
}
