//! More of coins: failures before so many successes, and coins whose sides are numbers between 0 and 1.
use crate::{
    Constraint, Family, Parameters, PointFunction, Statistic,
    coin::{ChanceAs, Coin, of_coin},
    count::no_count,
    distribution::{TogetherChecked, of_parameters, supported},
    host,
    line::open_uniform,
    saddle::{stirling, stirling_step},
    transforms::{SigmoidTransform, Transform},
};
use adamant_core::{Result, Rng, Shape, Tensor};
use std::f64::consts::LN_2;

of_coin! {
    /// The number of successes before `total_count` failures, which need not be a whole number: `Γ(n + k) / (Γ(n) k!) p^k (1 - p)^n`. The
    /// entropy has no closed form.
    ///
    /// Source: `torch.distributions.NegativeBinomial`; a sample is a Poisson one of a gamma one.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, NegativeBinomial};
    /// # Device::reference().make_current();
    /// let p = NegativeBinomial::new(&tensor![3.0], &tensor![0.5])?;
    /// assert_eq!(p.mean().to_vec::<f32>()?, [3.0]);
    /// assert!(NegativeBinomial::new(&tensor![3.0], &tensor![1.0]).unwrap_err().to_string().contains("probs"));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    NegativeBinomial(total_count: NonNegative), probs new, logits from_logits
}
impl NegativeBinomial {
    fn count(&self) -> &Tensor {
        let [_, n] = self.parameters.all();
        n
    }
    /// The number of failures, broadcast.
    #[track_caller]
    pub fn total_count(&self) -> Tensor {
        self.parameters.named("total_count")
    }
    /// p / (1 - p).
    fn odds(&self) -> Tensor {
        self.coin.probs() / self.coin.fails()
    }
}
impl Family for NegativeBinomial {
    of_parameters!(parameters);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let p = &self.parameters;
        host::drawn(shape, [self.count(), &self.odds()], 1, (p.wide(), p.device()), rng, |[n, odds], words, out| {
            out[0] = if n[0] > 0.0 { host::poisson(host::log_gamma(n[0], words).exp() * odds[0], words) } else { 0.0 };
        })
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let n = self.count();
        (function == PointFunction::LogProb).then(|| {
            supported(&no_count(x), x, &x.zeros_like(), |k| {
                // As a binomial coefficient of n + k, whose pieces do not cancel, times n / (n + k).
                let plain = k.eq(0.0).logical_or(n.eq(0.0));
                let (some, others) = (plain.where_(1.0, k), plain.where_(1.0, n));
                let apart = self.coin.deviances(&some, &others, &(&some + &others));
                let first = some.le(&others);
                let (less, more) = (first.where_(&some, &others), first.where_(&others, &some));
                let ways = stirling(&less) - stirling_step(&more, &less) - (&some / &others).log1p();
                // Without failures to wait for there are no successes.
                let none = k.eq(0.0).where_(&self.coin.failure(n), f64::NEG_INFINITY);
                plain.where_(&none, &(ways - apart))
            })
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let n = self.count();
        Some(match statistic {
            Statistic::Mean => n * self.odds(),
            Statistic::Mode => ((n - 1.0) * self.odds()).floor().clamp_min(0.0),
            Statistic::Variance => n * self.odds() / self.coin.fails(),
            Statistic::Entropy => return None,
        })
    }
}

of_coin! {
    /// A coin by numbers between 0 and 1: a sigmoid of `(logit + logistic noise) / temperature`. Moments, mode and entropy have no closed
    /// form.
    ///
    /// Source: `torch.distributions.RelaxedBernoulli`; Maddison, Mnih and Teh, "The concrete distribution", 2017.
    ///
    /// ```
    /// # use adamant_core::{Device, Rng, tensor};
    /// use adamant_distributions::{Distribution, RelaxedBernoulli};
    /// # Device::reference().make_current();
    /// let p = RelaxedBernoulli::new(&tensor![0.1], &tensor![1.0, 0.0])?;
    /// assert!(p.rsample(&[], &Rng::new(1)?).allclose(&tensor![1.0, 0.0], 1e-5, 1e-5)?);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    RelaxedBernoulli(temperature: Positive), probs new, logits from_logits
}
impl RelaxedBernoulli {
    /// The temperature, broadcast.
    #[track_caller]
    pub fn temperature(&self) -> Tensor {
        self.parameters.named("temperature")
    }
}
impl Family for RelaxedBernoulli {
    of_parameters!(parameters, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [_, temperature] = self.parameters.all();
        let u = open_uniform(&self.parameters, shape, rng);
        Ok(SigmoidTransform.forward(&((u.log() - u.neg().log1p() + self.coin.logits()) / temperature)))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [_, temperature] = self.parameters.all();
        (function == PointFunction::LogProb).then(|| {
            let (log, rest) = (x.log(), x.neg().log1p());
            let apart = self.coin.logits() - temperature * (&log - &rest);
            temperature.log() + &apart - apart.softplus() * 2.0 - log - rest
        })
    }
    fn statistic(&self, _statistic: Statistic) -> Option<Tensor> {
        None
    }
}

of_coin! {
    /// The continuous Bernoulli distribution on [0, 1]: `C(p) p^x (1 - p)^(1 - x)`.
    ///
    /// Source: `torch.distributions.ContinuousBernoulli`; Loaiza-Ganem and Cunningham, "The continuous Bernoulli: fixing a pervasive error
    /// in variational autoencoders", 2019. By the logit l, `C = l / (1 - p) / (exp(l) - 1)`, which near l = 0 is by its series.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{ContinuousBernoulli, Distribution};
    /// # Device::reference().make_current();
    /// let p = ContinuousBernoulli::new(&tensor![0.5])?; // uniform
    /// assert_eq!(p.mean().to_vec::<f32>()?, [0.5]);
    /// assert!(p.log_prob(&tensor![0.3]).allclose(&tensor![0.0], 0.0, 1e-6)?);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ContinuousBernoulli(), probs new, logits from_logits
}
/// From which logit on series stand for quotients of differences: of moments and of the norm; of the distribution function.
const FLAT: f64 = 0.1;
const FLATTER: f64 = 0.01;
impl ContinuousBernoulli {
    /// The logit, the one of the other side, and where it is small: formulas see 1 there, or 0.
    fn split(l: &Tensor, least: f64) -> (Tensor, Tensor, Tensor) {
        let flat = l.abs().lt(least);
        (flat.where_(1.0, l), flat.where_(l, 0.0), flat)
    }
    /// The logit; of certain sides one that is large.
    fn bounded(&self) -> Tensor {
        self.coin.logits().clamp(-1e30, 1e30)
    }
    /// `ln C`: that of `2 h / tanh h` with h = l / 2.
    fn log_norm(l: &Tensor) -> Tensor {
        let (steep, near, flat) = ContinuousBernoulli::split(l, FLAT);
        let square = (near * 0.5).square();
        let series = [1.0 / 3.0, -7.0 / 90.0, 62.0 / 2835.0, -127.0 / 18_900.0].iter().rev().fold(square.zeros_like(), |sum, c| sum * &square + *c) * &square;
        let half = steep.abs() * 0.5;
        flat.where_(&series, &(half.log() - half.tanh().log())) + LN_2
    }
    fn mean_of(l: &Tensor) -> Tensor {
        let (steep, near, flat) = ContinuousBernoulli::split(l, FLAT);
        let square = near.square();
        let series = (((&square * (-1.0 / 1_209_600.0) + 1.0 / 30_240.0) * &square - 1.0 / 720.0) * &square + 1.0 / 12.0) * &near + 0.5;
        flat.where_(&series, &(steep.neg().expm1().neg().reciprocal() - steep.reciprocal()))
    }
    /// `ln(1 - p)`, of the bounded logit.
    fn log_fails(l: &Tensor) -> Tensor {
        l.softplus().neg()
    }
    /// `-E ln(density of q)` over p.
    fn cross_entropy(p: &Tensor, q: &Tensor) -> Tensor {
        (ContinuousBernoulli::log_norm(q) + ContinuousBernoulli::log_fails(q) + ContinuousBernoulli::mean_of(p) * q).neg()
    }
    /// The value that is not exceeded with the probability u.
    fn quantile(l: &Tensor, u: &Tensor) -> Tensor {
        let (steep, near, flat) = ContinuousBernoulli::split(l, FLATTER);
        let (rest, high, size) = (1.0 - u, steep.gt(0.0), steep.abs());
        // From that end at which the density is large, so that no power overflows.
        let log = (high.where_(&rest, u) * size.neg().expm1()).log1p() / size;
        let far = high.where_(&(&log + 1.0), &log.neg());
        // ln(1 + u (exp(l) - 1)) / l = u + l u (1 - u) / 2 + ..
        let product = u * &rest;
        let (slope, bend) = (&product * 0.5, &product * (1.0 - u * 2.0) * (1.0 / 6.0));
        let third = &product * (1.0 - &product * 6.0) * (1.0 / 24.0);
        let series = u + &near * (slope + &near * (bend + &near * third));
        flat.where_(&series, &far)
    }
}
impl Family for ContinuousBernoulli {
    of_parameters!(parameters, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        Ok(ContinuousBernoulli::quantile(&self.bounded(), &open_uniform(&self.parameters, shape, rng)))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let l = self.bounded();
        let outside = x.lt(0.0).logical_or(x.gt(1.0));
        Some(match function {
            PointFunction::LogProb => {
                supported(&outside, x, &x.full_like(0.5), |x| ContinuousBernoulli::log_norm(&l) + self.coin.success(x) + self.coin.failure(&(1.0 - x)))
            }
            PointFunction::Cdf => {
                let x = x.clamp(0.0, 1.0);
                let (steep, near, flat) = ContinuousBernoulli::split(&l, FLATTER);
                let size = steep.abs();
                // By that end at which the density is large.
                let power = steep.gt(0.0).where_(&((1.0 - &x) * &size).neg().exp(), 1.0);
                let far = power * (&x * &size).neg().expm1() / size.neg().expm1();
                let product = &x * (1.0 - &x);
                let terms = (&product * -0.5, &product * (1.0 - &x * 2.0) * (1.0 / 12.0), product.square() * (1.0 / 24.0));
                let series = &x + &near * (terms.0 + &near * (terms.1 + &near * terms.2));
                flat.where_(&series, &far)
            }
            PointFunction::Icdf => ContinuousBernoulli::quantile(&l, x),
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let l = self.bounded();
        Some(match statistic {
            Statistic::Mean => ContinuousBernoulli::mean_of(&l),
            Statistic::Variance => {
                let (steep, near, flat) = ContinuousBernoulli::split(&l, FLAT);
                let square = near.square();
                let series = ((&square * (-1.0 / 172_800.0) + 1.0 / 6048.0) * &square - 1.0 / 240.0) * &square + 1.0 / 12.0;
                let power = steep.abs().neg().exp();
                // 1 / (4 sinh²(l / 2)) by the power that does not overflow.
                flat.where_(&series, &(steep.square().reciprocal() - &power / (1.0 - &power).square()))
            }
            Statistic::Entropy => ContinuousBernoulli::cross_entropy(&l, &l),
            Statistic::Mode => return None,
        })
    }
    fn kl(&self, other: &ContinuousBernoulli) -> Option<Tensor> {
        let (p, q) = (self.bounded(), other.bounded());
        Some(ContinuousBernoulli::cross_entropy(&p, &q) - ContinuousBernoulli::cross_entropy(&p, &p))
    }
}
