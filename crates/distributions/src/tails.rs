//! Distributions with heavy tails, and others whose densities are elementary.
use crate::{
    Family, PointFunction, Statistic,
    distribution::{TogetherChecked, family, of_parameters, supported},
    host,
    line::{EULER, open_uniform},
};
use adamant_core::{Result, Rng, Shape, Tensor};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, PI};

/// A moment where it exists, and what stands for it elsewhere. The formula sees `least + 1` there, so that no gradient is NaN.
fn where_above(p: &Tensor, least: f64, otherwise: f64, moment: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    let exists = p.gt(least);
    exists.where_(&moment(&exists.where_(p, least + 1.0)), otherwise)
}

family! {
    /// What the absolute value of a Cauchy variable about 0 has: twice the density of `Cauchy(0, scale)` for `x ≥ 0`. Mean and
    /// variance are inf.
    ///
    /// Source: `torch.distributions.HalfCauchy`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, HalfCauchy};
    /// # Device::reference().make_current();
    /// let p = HalfCauchy::new(&tensor![2.0])?;
    /// assert!(p.cdf(&tensor![2.0]).allclose(&tensor![0.5], 1e-6, 0.0)?);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    HalfCauchy(scale: Positive), events 0
}
impl Family for HalfCauchy {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [scale] = self.0.all();
        Ok((open_uniform(&self.0, shape, rng) * FRAC_PI_2).tan() * scale)
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [scale] = self.0.all();
        Some(match function {
            PointFunction::LogProb => supported(&x.lt(0.0), x, &x.zeros_like(), |x| {
                // ln(1 + r²), of an r whose square may be infinite.
                let r = x / scale;
                let far = r.gt(1e4);
                let near = far.where_(0.0, &r).square().log1p();
                let large = far.where_(&r, 1.0);
                FRAC_2_PI.ln() - scale.log() - far.where_(&(large.log() * 2.0 + large.reciprocal().square()), &near)
            }),
            PointFunction::Cdf => (x.clamp_min(0.0) / scale).atan() * FRAC_2_PI,
            PointFunction::Icdf => (x * FRAC_PI_2).tan() * scale,
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [scale] = self.0.all();
        Some(match statistic {
            Statistic::Mean | Statistic::Variance => scale.full_like(f64::INFINITY),
            Statistic::Mode => scale.zeros_like(),
            Statistic::Entropy => scale.log() + (2.0 * PI).ln(),
        })
    }
    fn kl(&self, other: &HalfCauchy) -> Option<Tensor> {
        // That of the Cauchy variables about 0: both densities are doubled.
        let ([s], [t]) = (self.0.all(), other.0.all());
        Some((s + t).log() * 2.0 - s.log() - t.log() - 4f64.ln())
    }
}

family! {
    /// What one over a gamma variable has: `rate^a / Γ(a) x^(-a-1) exp(-rate / x)` for `x > 0`, with a the concentration. Moments that
    /// do not exist are inf.
    ///
    /// Source: `torch.distributions.InverseGamma`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, InverseGamma};
    /// # Device::reference().make_current();
    /// assert_eq!(InverseGamma::new(&tensor![3.0], &tensor![4.0])?.mean().to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    InverseGamma(concentration: Positive, rate: Positive), events 0
}
impl Family for InverseGamma {
    of_parameters!(0);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let p = &self.0;
        host::drawn(shape, p.all::<2>(), 1, (p.wide(), p.device()), rng, |[a, rate], words, out| out[0] = rate[0] * (-host::log_gamma(a[0], words)).exp())
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [a, rate] = self.0.all();
        let outside = x.le(0.0);
        Some(match function {
            PointFunction::LogProb => supported(&outside, x, &x.ones_like(), |x| a * (rate.log() - x.log()) - a.lgamma() - x.log() - rate / x),
            PointFunction::Cdf => outside.where_(0.0, &a.igammac(&(rate / outside.where_(1.0, x)))),
            PointFunction::Icdf => return None,
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [a, rate] = self.0.all();
        Some(match statistic {
            Statistic::Mean => where_above(a, 1.0, f64::INFINITY, |a| rate / (a - 1.0)),
            Statistic::Mode => rate / (a + 1.0),
            Statistic::Variance => where_above(a, 2.0, f64::INFINITY, |a| rate.square() / ((a - 1.0).square() * (a - 2.0))),
            Statistic::Entropy => a + rate.log() + a.lgamma() - (a + 1.0) * a.digamma(),
        })
    }
    fn kl(&self, other: &InverseGamma) -> Option<Tensor> {
        // That of the gamma variables: both are one over theirs.
        let ([a, r], [b, s]) = (self.0.all(), other.0.all());
        Some(b * (r / s).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (s - r) * (a / r))
    }
}

family! {
    /// The distribution of Kumaraswamy (1980) on (0, 1): `a b x^(a-1) (1 - x^a)^(b-1)`, with a the first concentration and b the
    /// second. Its distribution function is elementary, unlike Beta's, which it resembles.
    ///
    /// Source: `torch.distributions.Kumaraswamy`, but for the mode, which PyTorch takes of the logarithm of a negative number.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, Kumaraswamy};
    /// # Device::reference().make_current();
    /// let p = Kumaraswamy::new(&tensor![1.0], &tensor![1.0])?; // uniform
    /// assert_eq!(p.cdf(&tensor![0.25]).to_vec::<f32>()?, [0.25]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Kumaraswamy(concentration1: Positive, concentration0: Positive), events 0
}
impl Kumaraswamy {
    /// The n-th moment: `b B(1 + n/a, b)`.
    fn moment(&self, n: f64) -> Tensor {
        let [a, b] = self.0.all();
        let first = a.reciprocal() * n + 1.0;
        (b.log() + first.lgamma() + b.lgamma() - (&first + b).lgamma()).exp()
    }
}
impl Family for Kumaraswamy {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [a, b] = self.0.all();
        // (1 - u^(1/b))^(1/a), and a power of u near 1 keeps its distance to it.
        let log = (open_uniform(&self.0, shape, rng).log() / b).expm1().neg();
        Ok(log.pow(&a.reciprocal()))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [a, b] = self.0.all();
        let outside = x.le(0.0).logical_or(x.ge(1.0));
        Some(match function {
            PointFunction::LogProb => supported(&outside, x, &x.full_like(0.5), |x| {
                let rest = (a * x.log()).expm1().neg().log();
                a.log() + b.log() + (a - 1.0) * x.log() + (b - 1.0) * rest
            }),
            PointFunction::Cdf => {
                let inside = outside.where_(0.5, x);
                let cdf = (b * inside.pow(a).neg().log1p()).expm1().neg();
                outside.where_(&x.ge(1.0).cast(cdf.dtype().ok()?), &cdf)
            }
            PointFunction::Icdf => ((x.neg().log1p() / b).expm1().neg()).pow(&a.reciprocal()),
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [a, b] = self.0.all();
        Some(match statistic {
            Statistic::Mean => self.moment(1.0),
            Statistic::Mode => {
                let inner = a.gt(1.0).logical_and(b.gt(1.0));
                let (a, b) = (inner.where_(a, 2.0), inner.where_(b, 2.0));
                inner.where_(&((&a - 1.0) / (&a * &b - 1.0)).pow(&a.reciprocal()), f64::NAN)
            }
            Statistic::Variance => self.moment(2.0) - self.moment(1.0).square(),
            Statistic::Entropy => (1.0 - b.reciprocal()) + (1.0 - a.reciprocal()) * ((b + 1.0).digamma() + EULER) - a.log() - b.log(),
        })
    }
}

family! {
    /// The generalized Pareto distribution of what exceeds a threshold: `(1 + c z)^(-1 - 1/c) / scale` with `z = (x - loc) / scale ≥ 0`
    /// and c the concentration; exponential at c = 0, and up to `z = -1/c` where c is negative.
    ///
    /// Source: `torch.distributions.GeneralizedPareto`; Coles, "An introduction to statistical modeling of extreme values", 2001.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, GeneralizedPareto};
    /// # Device::reference().make_current();
    /// let p = GeneralizedPareto::new(&tensor![1.0], &tensor![2.0], &tensor![0.5])?;
    /// assert_eq!(p.mean().to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    GeneralizedPareto(loc: Real, scale: Positive, concentration: Real), events 0
}
impl GeneralizedPareto {
    /// `ln(1 + c z) / c`, which is z where c is nothing beside it.
    fn rate(z: &Tensor, c: &Tensor) -> Tensor {
        let flat = c.abs().lt(1e-9);
        flat.where_(z, &((flat.where_(1.0, c) * z).log1p() / flat.where_(1.0, c)))
    }
}
impl Family for GeneralizedPareto {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [loc, scale, c] = self.0.all();
        // Of an exponential e: expm1(c e) / c.
        let e = open_uniform(&self.0, shape, rng).log().neg();
        let flat = c.abs().lt(1e-9);
        let c = flat.where_(1.0, c);
        Ok(flat.where_(&e, &((&c * &e).expm1() / &c)) * scale + loc)
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [loc, scale, c] = self.0.all();
        let outside = |z: &Tensor| z.lt(0.0).logical_or((c * z).le(-1.0));
        Some(match function {
            PointFunction::LogProb => {
                let z = (x - loc) / scale;
                let out = outside(&z);
                let rate = GeneralizedPareto::rate(&out.where_(0.0, &z), c);
                out.where_(f64::NEG_INFINITY, &((c + 1.0).neg() * rate - scale.log()))
            }
            PointFunction::Cdf => {
                let z = ((x - loc) / scale).clamp_min(0.0);
                let beyond = (c * &z).le(-1.0);
                beyond.where_(1.0, &GeneralizedPareto::rate(&beyond.where_(0.0, &z), c).neg().expm1().neg())
            }
            PointFunction::Icdf => {
                let e = x.neg().log1p().neg();
                let flat = c.abs().lt(1e-9);
                let c = flat.where_(1.0, c);
                flat.where_(&e, &((&c * &e).expm1() / &c)) * scale + loc
            }
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [loc, scale, c] = self.0.all();
        let below = |most: f64, moment: &dyn Fn(&Tensor) -> Tensor| {
            let exists = c.lt(most);
            exists.where_(&moment(&exists.where_(c, most - 1.0)), f64::INFINITY)
        };
        Some(match statistic {
            Statistic::Mean => below(1.0, &|c| loc + scale / (1.0 - c)),
            Statistic::Mode => loc.clone(),
            Statistic::Variance => below(0.5, &|c| scale.square() / ((1.0 - c).square() * (1.0 - c * 2.0))),
            Statistic::Entropy => scale.log() + c + 1.0,
        })
    }
}

family! {
    /// The distribution of Fisher and Snedecor: of the quotient of two chi-squared variables, each over its degrees of freedom. Moments
    /// that do not exist are NaN.
    ///
    /// Source: `torch.distributions.FisherSnedecor`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, FisherSnedecor};
    /// # Device::reference().make_current();
    /// assert_eq!(FisherSnedecor::new(&tensor![3.0], &tensor![4.0])?.mean().to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    FisherSnedecor(df1: Positive, df2: Positive), events 0
}
impl Family for FisherSnedecor {
    of_parameters!(0);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let p = &self.0;
        host::drawn(shape, p.all::<2>(), 1, (p.wide(), p.device()), rng, |[m, n], words, out| {
            let (above, below) = (host::log_gamma(m[0] / 2.0, words), host::log_gamma(n[0] / 2.0, words));
            out[0] = (above - below).exp() * n[0] / m[0];
        })
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [m, n] = self.0.all();
        Some(match function {
            PointFunction::LogProb => supported(&x.le(0.0), x, &x.ones_like(), |x| {
                let (a, b, ratio) = (m * 0.5, n * 0.5, m / n);
                let beta = a.lgamma() + b.lgamma() - (&a + &b).lgamma();
                &a * ratio.log() + (&a - 1.0) * x.log() - (&a + &b) * (&ratio * x).log1p() - beta
            }),
            PointFunction::Cdf | PointFunction::Icdf => return None,
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [m, n] = self.0.all();
        Some(match statistic {
            Statistic::Mean => where_above(n, 2.0, f64::NAN, |n| n / (n - 2.0)),
            Statistic::Mode => where_above(m, 2.0, f64::NAN, |m| (m - 2.0) / m * n / (n + 2.0)),
            Statistic::Variance => where_above(n, 4.0, f64::NAN, |n| n.square() * (m + n - 2.0) * 2.0 / (m * (n - 2.0).square() * (n - 4.0))),
            Statistic::Entropy => return None,
        })
    }
}
