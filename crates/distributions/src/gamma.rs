//! The gamma distribution and what is made of gamma variables. Their samples have no gradients here: those need the derivative
//! of the incomplete gamma function to its shape (Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", 2018).
use crate::{
    Family, Parameters, PointFunction, Statistic,
    distribution::{TogetherChecked, family, of_parameters, supported, xlog1py, xlogy},
    host,
    line::LN_TAU,
    saddle::{deviance, half_log1p_square, half_step, is_double, log_ratio, peak, stirling, stirling_step, student_peak, sum_of_logarithms, widest},
};
use adamant_core::{Result, Rng, Shape, Tensor};
use std::f64::consts::PI;

family! {
    /// The gamma distribution: `rate^a x^(a-1) exp(-rate x) / Γ(a)` for `x ≥ 0`, with a the concentration. The cdf has no
    /// gradient to the concentration; samples have none at all.
    ///
    /// Source: `torch.distributions.Gamma`; samples by Marsaglia and Tsang, 2000.
    ///
    /// ```
    /// # use adamant_core::{Device, Rng, tensor};
    /// use adamant_distributions::{Distribution, Gamma};
    /// # Device::reference().make_current();
    /// let p = Gamma::new(&tensor![3.0], &tensor![2.0])?;
    /// assert_eq!(p.mean().to_vec::<f32>()?, [1.5]);
    /// assert!(p.rsample(&[2], &Rng::new(1)?).error().is_some());
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Gamma(concentration: Positive, rate: Positive), events 0
}
/// The logarithm of the density for x ≥ 0.
fn density(a: &Tensor, rate: &Tensor, x: &Tensor) -> Tensor {
    let zero = x.eq(0.0);
    let at_zero = a * rate.log() + xlogy(&(a - 1.0), &zero.where_(x, 1.0)) - a.lgamma();
    let x = zero.where_(1.0, x);
    let log = x.log();
    zero.where_(&at_zero, &(peak(a, &x, &log) - deviance(a, &(rate * &x), &(rate.log() + &log))))
}
impl Family for Gamma {
    of_parameters!(0);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let p = &self.0;
        host::drawn(shape, p.all::<2>(), 1, (p.wide(), p.device()), rng, |[a, rate], words, out| out[0] = host::log_gamma(a[0], words).exp() / rate[0])
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [a, rate] = self.0.all();
        Some(match function {
            PointFunction::LogProb => supported(&x.lt(0.0), x, &x.ones_like(), |x| density(a, rate, x)),
            PointFunction::Cdf => a.igamma(&(rate * x.clamp_min(0.0))),
            PointFunction::Icdf => return None,
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [a, rate] = self.0.all();
        Some(match statistic {
            Statistic::Mean => a / rate,
            Statistic::Mode => (a - 1.0).clamp_min(0.0) / rate,
            Statistic::Variance => a / rate.square(),
            Statistic::Entropy => a - rate.log() + a.lgamma() + (1.0 - a) * a.digamma(),
        })
    }
    fn kl(&self, other: &Gamma) -> Option<Tensor> {
        let ([a, r], [b, s]) = (self.0.all(), other.0.all());
        Some(b * (r / s).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (s - r) * (a / r))
    }
}

/// The chi-squared distribution of `df` degrees of freedom: `Gamma(df / 2, 1 / 2)`.
///
/// Source: `torch.distributions.Chi2`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::{Chi2, Distribution};
/// # Device::reference().make_current();
/// assert_eq!(Chi2::new(&tensor![3.0])?.variance().to_vec::<f32>()?, [6.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chi2 {
    own: Parameters,
    gamma: Gamma,
}
impl Chi2 {
    /// The distribution of so many degrees of freedom.
    ///
    /// # Errors
    /// As of [`Parameters::new`]: `df` is greater than 0.
    #[track_caller]
    pub fn new(df: &Tensor) -> Result<Chi2> {
        let own = Parameters::new("Chi2", &[("df", df, crate::Constraint::Positive)], 0)?;
        let [wide] = own.all();
        let gamma = crate::unchecked(|| Gamma::new(&(wide * 0.5), &wide.full_like(0.5)))?;
        Ok(Chi2 { own, gamma })
    }
    /// The degrees of freedom.
    #[track_caller]
    pub fn df(&self) -> Tensor {
        self.own.named("df")
    }
}
impl Family for Chi2 {
    of_parameters!(own);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        self.gamma.draw(shape, rng)
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        self.gamma.function(function, x)
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        self.gamma.statistic(statistic)
    }
    fn kl(&self, other: &Chi2) -> Option<Tensor> {
        self.gamma.kl(&other.gamma)
    }
}

family! {
    /// The beta distribution: `x^(a-1) (1-x)^(b-1) / B(a, b)` in [0, 1], with a and b the two concentrations. Its mode is that
    /// end at which the density has the stronger pole, or NaN, where it has none inside.
    ///
    /// Source: `torch.distributions.Beta`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Beta, Distribution};
    /// # Device::reference().make_current();
    /// assert_eq!(Beta::new(&tensor![1.0], &tensor![3.0])?.mean().to_vec::<f32>()?, [0.25]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Beta(concentration1: Positive, concentration0: Positive), events 0
}
impl Family for Beta {
    of_parameters!(0);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let p = &self.0;
        host::drawn(shape, p.all::<2>(), 1, (p.wide(), p.device()), rng, |[a, b], words, out| {
            let (x, y) = (host::log_gamma(a[0], words), host::log_gamma(b[0], words));
            out[0] = 1.0 / (1.0 + (y - x).exp());
        })
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [a, b] = self.0.all();
        let density = |x: &Tensor| {
            let end = x.eq(0.0).logical_or(x.eq(1.0));
            let at_end = end.where_(x, 0.5);
            let at_end = xlogy(&(a - 1.0), &at_end) + xlog1py(&(b - 1.0), &at_end.neg()) + (a + b).lgamma() - a.lgamma() - b.lgamma();
            let x = end.where_(0.5, x);
            let (total, log, log_rest) = (a + b, x.log(), x.neg().log1p());
            let apart = deviance(a, &(&total * &x), &(total.log() + &log)) + deviance(b, &(&total * (1.0 - &x)), &(total.log() + &log_rest));
            // By the lesser concentration; beside the larger one the total is the same, and of their difference little would be left.
            let first = a.le(b);
            let (less, more) = (first.where_(a, b), first.where_(b, a));
            let ends = peak(&less, &(&x * (1.0 - &x)), &(log + log_rest)) - stirling_step(&more, &less) - (&less / &more).log1p();
            end.where_(&at_end, &(ends - apart))
        };
        (function == PointFunction::LogProb).then(|| supported(&x.lt(0.0).logical_or(x.gt(1.0)), x, &x.full_like(0.5), density))
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [a, b] = self.0.all();
        let total = a + b;
        Some(match statistic {
            Statistic::Mean => a / total,
            Statistic::Mode => {
                let (x, y) = ((a - 1.0).clamp_min(0.0), (b - 1.0).clamp_min(0.0));
                let sum = x + y;
                let flat = sum.eq(0.0);
                let end = a.eq(b).where_(f64::NAN, &a.gt(b).cast(self.0.wide()));
                flat.where_(&end, &((a - 1.0).clamp_min(0.0) / flat.where_(1.0, &sum)))
            }
            Statistic::Variance => a * b / (total.square() * (&total + 1.0)),
            Statistic::Entropy => {
                a.lgamma() + b.lgamma() - total.lgamma() - (a - 1.0) * a.digamma() - (b - 1.0) * b.digamma() + (&total - 2.0) * total.digamma()
            }
        })
    }
    fn kl(&self, other: &Beta) -> Option<Tensor> {
        let ([a, b], [c, d]) = (self.0.all(), other.0.all());
        let norm = |a: &Tensor, b: &Tensor| a.lgamma() + b.lgamma() - (a + b).lgamma();
        Some(norm(c, d) - norm(a, b) + (a - c) * a.digamma() + (b - d) * b.digamma() + (c - a + d - b) * (a + b).digamma())
    }
}

family! {
    /// The Dirichlet distribution over probabilities x of K classes: `Γ(Σ aₖ) / Π Γ(aₖ) Π xₖ^(aₖ-1)`, with the concentrations
    /// a `[batch.., K]`. The value's sum is not checked. The mode is NaN where no concentration is above 1.
    ///
    /// Source: `torch.distributions.Dirichlet`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Dirichlet, Distribution};
    /// # Device::reference().make_current();
    /// assert_eq!(Dirichlet::new(&tensor![1.0, 3.0])?.mean().to_vec::<f32>()?, [0.25, 0.75]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Dirichlet(concentration: Positive), events 1
}
/// The logarithm of a Dirichlet density. Of small concentrations it is a sum of logarithms of either sign.
fn shares(a: &Tensor, x: &Tensor) -> Tensor {
    let classes = a.shape().ok().and_then(|shape| shape.last().copied()).unwrap_or(1);
    // The largest concentration meets the total in one logarithm of a ratio and one step: of their difference little would be left.
    let first = a.argmax(-1).one_hot(classes).ne(0);
    let (most, rest) = (first.where_(a, 0.0).sum(-1), first.where_(0.0, a).sum(-1));
    let outside = x.lt(0.0);
    let x = &outside.where_(1.0, x);
    let total = a.sum_keepdim(-1) + a.zeros_like();
    let zero = x.eq(0.0);
    let log_share = total.log() - a.log();
    let at_zero = xlogy(&(a - 1.0), &zero.where_(x, 1.0)) + a * &log_share + first.where_(&log_share.neg(), &a.log());
    let x = zero.where_(1.0, x);
    let (log, mean) = (x.log(), &total * &x);
    let share = log_ratio(a, &mean, &(total.log() + &log));
    let logs = zero.where_(0.0, &first.where_(&share, &log_ratio(a, &x, &log)));
    let of = zero.where_(1.0, &(first.where_(&mean, &x) / a));
    let others = first.where_(0.0, &stirling(&first.where_(1.0, a)));
    let each = outside.where_(f64::NEG_INFINITY, &(zero.where_(&at_zero, &(a * &share)) + others));
    each.sum(-1) - stirling_step(&most, &rest) - sum_of_logarithms(&logs, &of)
}
impl Family for Dirichlet {
    of_parameters!(0);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let p = &self.0;
        let classes = p.event().elements();
        host::drawn(shape, p.all::<1>(), classes, (p.wide(), p.device()), rng, |[a], words, out| {
            out.iter_mut().zip(a).for_each(|(x, a)| *x = host::log_gamma(*a, words));
            let most = out.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            out.iter_mut().for_each(|x| *x = (*x - most).exp());
            let sum: f64 = out.iter().sum();
            out.iter_mut().for_each(|x| *x /= sum);
        })
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [a] = self.0.all();
        (function == PointFunction::LogProb).then(|| widest([a, x], |[a, x]| shares(a, x)))
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [a] = self.0.all();
        let total = a.sum_keepdim(-1);
        Some(match statistic {
            Statistic::Mean => a / total,
            Statistic::Mode => {
                let less = (a - 1.0).clamp_min(0.0);
                &less / less.sum_keepdim(-1)
            }
            Statistic::Variance => a * (&total - a) / (total.square() * (&total + 1.0)),
            Statistic::Entropy => {
                let (total, classes) = (a.sum(-1), self.0.event().elements() as f64);
                a.lgamma().sum(-1) - total.lgamma() + (&total - classes) * total.digamma() - ((a - 1.0) * a.digamma()).sum(-1)
            }
        })
    }
    fn kl(&self, other: &Dirichlet) -> Option<Tensor> {
        let ([a], [b]) = (self.0.all(), other.0.all());
        let (s, t) = (a.sum_keepdim(-1), b.sum_keepdim(-1));
        Some((s.lgamma() - t.lgamma()).squeeze(-1) + (b.lgamma() - a.lgamma() + (a - b) * (a.digamma() - s.digamma())).sum(-1))
    }
}

family! {
    /// Student's t distribution: `(1 + z²/df)^(-(df+1)/2) / (scale √df B(1/2, df/2))` with `z = (x - loc) / scale`. The mean is
    /// NaN up to `df` 1; the variance is NaN up to 1, and inf up to 2.
    ///
    /// Source: `torch.distributions.StudentT`. Samples are quotients of a normal one and the root of a gamma one.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, StudentT};
    /// # Device::reference().make_current();
    /// assert_eq!(StudentT::new(&tensor![4.0], &tensor![0.0], &tensor![1.0])?.variance().to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    StudentT(df: Positive, loc: Real, scale: Positive), events 0
}
impl Family for StudentT {
    of_parameters!(0);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let p = &self.0;
        host::drawn(shape, p.all::<3>(), 1, (p.wide(), p.device()), rng, |[df, loc, scale], words, out| {
            let z = words.normal();
            // A chi-squared variable over df: two gamma ones over it.
            let spread = (0.5 * (host::log_gamma(0.5 * df[0], words) + (2.0 / df[0]).ln())).exp();
            out[0] = loc[0] + scale[0] * z / spread;
        })
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [df, loc, scale] = self.0.all();
        (function == PointFunction::LogProb).then(|| {
            let norm = half_step(&(df * 0.5)) - scale.log() - 0.5 * LN_TAU;
            let apart = x - loc;
            let near = apart.detach() / scale.detach();
            // Far fewer scales away than there are degrees, the power is the normal density's.
            let enough = if is_double(df) { 1e17 } else { 1e9 };
            let many = df.gt(near.square() * enough).logical_and(df.gt(enough));
            let of_many = (many.where_(&apart, 0.0) / many.where_(scale, 1.0)).square() * -0.5;
            let few = many.where_(1.0, df);
            let half = half_log1p_square(&many.where_(0.0, &apart), &[scale, &few.sqrt()]);
            let power = many.where_(&of_many, &(&half * &few).neg());
            // The gradient is that of the sum.
            let sum = norm - half + &power;
            let value = student_peak(df, &apart, scale) + power.detach();
            let known = value.eq(&value).logical_and(sum.abs().lt(f64::INFINITY));
            &sum + known.where_(&(known.where_(value, 0.0) - sum.detach()), 0.0)
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [df, loc, scale] = self.0.all();
        Some(match statistic {
            Statistic::Mean => df.le(1.0).where_(f64::NAN, loc),
            Statistic::Mode => loc.clone(),
            Statistic::Variance => {
                let safe = df.le(2.0).where_(3.0, df);
                let finite = scale.square() * (&safe / (&safe - 2.0));
                df.le(1.0).where_(f64::NAN, &df.le(2.0).where_(f64::INFINITY, &finite))
            }
            Statistic::Entropy => {
                let (half, next) = (df * 0.5, (df + 1.0) * 0.5);
                scale.log() + &next * (next.digamma() - half.digamma()) + df.log() * 0.5 + half.lgamma() + 0.5 * PI.ln() - next.lgamma()
            }
        })
    }
}
