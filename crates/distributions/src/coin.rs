//! Trials that succeed or fail: by their probability or by its logit, whichever was given, so that neither is lost in the
//! other's rounding.
use crate::{
    Constraint, Family, Parameters, PointFunction, Statistic,
    count::no_count,
    distribution::{TogetherChecked, of_parameters, supported, xlog1py, xlogy},
    host,
    line::open_uniform,
    saddle::{deviances, stirling, stirling_step},
};
use adamant_core::{Result, Rng, Shape, Tensor};

/// The chance of success.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChanceAs {
    Probs,
    Logits,
}
/// The chance, as it was given.
#[derive(Clone, Debug)]
pub(crate) struct Coin {
    pub given: ChanceAs,
    pub p: Tensor,
}
/// `k * log`, 0 where k is 0.
fn times(k: &Tensor, log: &Tensor) -> Tensor {
    let none = k.eq(0.0);
    none.where_(0.0, &(k * none.where_(0.0, log)))
}
impl Coin {
    /// `k` successes' part of a log-probability.
    pub fn success(&self, k: &Tensor) -> Tensor {
        match self.given {
            ChanceAs::Probs => xlogy(k, &self.p),
            ChanceAs::Logits => times(k, &self.p.log_sigmoid()),
        }
    }
    /// `k` failures' part.
    pub fn failure(&self, k: &Tensor) -> Tensor {
        match self.given {
            ChanceAs::Probs => xlog1py(k, &self.p.neg()),
            ChanceAs::Logits => times(k, &self.p.neg().log_sigmoid()),
        }
    }
    pub fn probs(&self) -> Tensor {
        match self.given {
            ChanceAs::Probs => self.p.clone(),
            ChanceAs::Logits => self.p.sigmoid(),
        }
    }
    pub fn logits(&self) -> Tensor {
        match self.given {
            ChanceAs::Probs => self.p.log() - self.p.neg().log1p(),
            ChanceAs::Logits => self.p.clone(),
        }
    }
    /// The probability of failure, which does not cancel.
    pub fn fails(&self) -> Tensor {
        match self.given {
            ChanceAs::Probs => 1.0 - &self.p,
            ChanceAs::Logits => self.p.neg().sigmoid(),
        }
    }
    /// `all p - k` of k successes and the other failures among all: by the side that is rarer, and near an even chance by how uneven a
    /// logit makes it. A probability near 1 has lost the other one's digits, and one near ½ a small logit's.
    fn excess(&self, k: &Tensor, others: &Tensor, all: &Tensor) -> Tensor {
        let (p, q) = (self.probs(), self.fails());
        let rare = p.detach().lt(0.5);
        let by_rarer = rare.where_(&(all * p - k), &(others - all * q));
        match self.given {
            ChanceAs::Probs => by_rarer,
            ChanceAs::Logits => {
                let even = self.p.detach().abs().lt(1.0);
                let uneven = (even.where_(&self.p, 0.0) * 0.5).tanh();
                even.where_(&((others - k + all * uneven) * 0.5), &by_rarer)
            }
        }
    }
    /// How far k > 0 successes and the other failures > 0 are from what is expected of all: the sum of both deviances.
    pub fn deviances(&self, k: &Tensor, others: &Tensor, all: &Tensor) -> Tensor {
        let (ones, log, p, q) = (k.ones_like(), all.log(), self.probs(), self.fails());
        let (log_p, log_q) = (&log + self.success(&ones), &log + self.failure(&ones));
        deviances([k, &(all * p), &log_p], [others, &(all * q), &log_q], &self.excess(k, others, all))
    }
    pub fn entropy(&self) -> Tensor {
        (self.success(&self.probs()) + self.failure(&self.fails())).neg()
    }
    /// The divergence of one trial.
    pub fn kl(&self, other: &Coin) -> Tensor {
        let (p, q) = (self.probs(), self.fails());
        self.success(&p) - other.success(&p) + self.failure(&q) - other.failure(&q)
    }
}
/// A struct over a coin with its two constructors; `$more` parameters come first.
macro_rules! of_coin {
    ($(#[$doc:meta])* $name:ident($($more:ident: $constraint:ident),*), probs $probs:ident, logits $logits:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            parameters: Parameters,
            coin: Coin,
        }
        impl $name {
            #[track_caller]
            fn given($($more: &Tensor,)* given: ChanceAs, name: &'static str, p: &Tensor, constraint: Constraint) -> Result<$name> {
                let parameters = Parameters::new(stringify!($name), &[(name, p, constraint), $((stringify!($more), $more, Constraint::$constraint)),*], 0)?;
                let [p] = parameters.all();
                let coin = Coin { given, p: p.clone() };
                $name { coin, parameters }.checked()
            }
            /// By the probability of success.
            ///
            /// # Errors
            /// As of [`Parameters::new`].
            #[track_caller]
            pub fn $probs($($more: &Tensor,)* probs: &Tensor) -> Result<$name> {
                $name::given($($more,)* ChanceAs::Probs, "probs", probs, $crate::coin::of_coin!(@ $name))
            }
            /// By the logit of the probability of success, `ln(p / (1 - p))`.
            ///
            /// # Errors
            /// As of [`Parameters::new`].
            #[track_caller]
            pub fn $logits($($more: &Tensor,)* logits: &Tensor) -> Result<$name> {
                $name::given($($more,)* ChanceAs::Logits, "logits", logits, Constraint::Real)
            }
            /// The probability of success, broadcast.
            #[track_caller]
            pub fn probs(&self) -> Tensor {
                self.coin.probs().cast(self.parameters.dtype())
            }
            /// The logit of success, broadcast.
            #[track_caller]
            pub fn logits(&self) -> Tensor {
                self.coin.logits().cast(self.parameters.dtype())
            }
        }
        impl TogetherChecked for $name {}
    };
    (@ Geometric) => { Constraint::PositiveProbability };
    (@ NegativeBinomial) => { Constraint::HalfOpenInterval(0.0, 1.0) };
    (@ $name:ident) => { Constraint::Probability };
}
pub(crate) use of_coin;

of_coin! {
    /// One trial: 1 with the probability p, else 0. At an even chance the mode is 1.
    ///
    /// Source: `torch.distributions.Bernoulli`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Bernoulli, Distribution};
    /// # Device::reference().make_current();
    /// let p = Bernoulli::from_logits(&tensor![-1e4])?;
    /// assert_eq!(p.log_prob(&tensor![1.0, 0.0]).to_vec::<f32>()?, [-1e4, 0.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Bernoulli(), probs new, logits from_logits
}
impl Family for Bernoulli {
    of_parameters!(parameters);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let p = &self.parameters;
        Ok(rng.uniform(shape, p.wide()).to(p.device()).lt(&self.coin.probs()).cast(p.wide()))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        match function {
            PointFunction::LogProb => {
                let outside = no_count(x).logical_or(x.gt(1.0));
                Some(supported(&outside, x, &x.zeros_like(), |x| self.coin.success(x) + self.coin.failure(&(1.0 - x))))
            }
            PointFunction::Cdf => Some(x.lt(0.0).where_(0.0, &x.lt(1.0).where_(&self.coin.fails(), 1.0))),
            PointFunction::Icdf => None,
        }
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let p = self.coin.probs();
        Some(match statistic {
            Statistic::Mean => p,
            Statistic::Mode => p.ge(0.5).cast(self.parameters.wide()),
            Statistic::Variance => p * self.coin.fails(),
            Statistic::Entropy => self.coin.entropy(),
        })
    }
    fn kl(&self, other: &Bernoulli) -> Option<Tensor> {
        Some(self.coin.kl(&other.coin))
    }
}

of_coin! {
    /// The number of failures before the first success: `(1 - p)^k p`.
    ///
    /// Source: `torch.distributions.Geometric`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, Geometric};
    /// # Device::reference().make_current();
    /// assert_eq!(Geometric::new(&tensor![0.25])?.mean().to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Geometric(), probs new, logits from_logits
}
impl Geometric {
    /// `ln(1 - p)`.
    fn log_fails(&self) -> Tensor {
        self.coin.failure(&self.coin.p.ones_like())
    }
}
impl Family for Geometric {
    of_parameters!(parameters);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        Ok((open_uniform(&self.parameters, shape, rng).log() / self.log_fails()).floor())
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        match function {
            PointFunction::LogProb => Some(supported(&no_count(x), x, &x.zeros_like(), |k| self.coin.failure(k) + self.coin.success(&k.ones_like()))),
            PointFunction::Cdf => Some(((x.floor() + 1.0).clamp_min(0.0) * self.log_fails()).expm1().neg()),
            PointFunction::Icdf => None,
        }
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let (p, q) = (self.coin.probs(), self.coin.fails());
        Some(match statistic {
            Statistic::Mean => q / p,
            Statistic::Mode => p.zeros_like(),
            Statistic::Variance => q / p.square(),
            Statistic::Entropy => self.coin.entropy() / p,
        })
    }
    fn kl(&self, other: &Geometric) -> Option<Tensor> {
        Some(self.coin.kl(&other.coin) / self.coin.probs())
    }
}

of_coin! {
    /// The number of successes in `total_count` trials: `C(n, k) p^k (1 - p)^(n-k)`. The entropy has no closed form. The
    /// divergence to fewer trials is inf, and that to more NaN: no closed form is known.
    ///
    /// Source: `torch.distributions.Binomial`; samples by Devroye, 1986, and Hörmann, 1993.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Binomial, Distribution};
    /// # Device::reference().make_current();
    /// let p = Binomial::new(&tensor![2.0], &tensor![0.5])?;
    /// assert!(p.log_prob(&tensor![0.0, 1.0, 2.0]).exp().allclose(&tensor![0.25, 0.5, 0.25], 1e-6, 1e-6)?);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Binomial(total_count: Count), probs new, logits from_logits
}
impl Binomial {
    fn count(&self) -> &Tensor {
        let [_, n] = self.parameters.all();
        n
    }
    /// The number of trials, broadcast.
    #[track_caller]
    pub fn total_count(&self) -> Tensor {
        self.parameters.named("total_count")
    }
}
impl Family for Binomial {
    of_parameters!(parameters);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let p = &self.parameters;
        host::drawn(shape, [self.count(), &self.coin.probs()], 1, (p.wide(), p.device()), rng, |[n, p], words, out| out[0] = host::binomial(n[0], p[0], words))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let n = self.count();
        (function == PointFunction::LogProb).then(|| {
            supported(&no_count(x).logical_or(x.gt(n)), x, &x.zeros_like(), |k| {
                let rest = n - k;
                // All or none succeed: a power. Else by how far both counts are from their means.
                let one_sided = k.eq(0.0).logical_or(rest.eq(0.0));
                let (some, others, all) = (one_sided.where_(1.0, k), one_sided.where_(1.0, &rest), one_sided.where_(2.0, n));
                let apart = self.coin.deviances(&some, &others, &all);
                // The number of ways, over its powers: beside the larger count the sum of both is nearly the same.
                let (less, more) = (some.minimum(&others), some.maximum(&others));
                let ways = stirling(&less) - stirling_step(&more, &less);
                one_sided.where_(&(self.coin.success(k) + self.coin.failure(&rest)), &(ways - apart))
            })
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let (n, p) = (self.count(), self.coin.probs());
        Some(match statistic {
            Statistic::Mean => n * p,
            Statistic::Mode => ((n + 1.0) * p).floor().minimum(n),
            Statistic::Variance => n * p * self.coin.fails(),
            Statistic::Entropy => return None,
        })
    }
    fn kl(&self, other: &Binomial) -> Option<Tensor> {
        let (n, m) = (self.count(), other.count());
        Some(n.gt(m).where_(f64::INFINITY, &n.lt(m).where_(f64::NAN, &(n * self.coin.kl(&other.coin)))))
    }
}
