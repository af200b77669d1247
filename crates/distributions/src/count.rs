//! Counts without an upper end.
use crate::{
    Family, PointFunction, Statistic,
    distribution::{TogetherChecked, family, of_parameters, supported, xlogy},
    host,
    saddle::{deviance, stirling},
};
use adamant_core::{Result, Rng, Shape, Tensor};

/// Is it no whole number of at least 0?
pub(crate) fn no_count(x: &Tensor) -> Tensor {
    x.lt(0.0).logical_or(x.floor().ne(x).logical_and(x.eq(x)))
}

family! {
    /// The Poisson distribution of counts: `rate^k exp(-rate) / k!`. The entropy has no closed form.
    ///
    /// Source: `torch.distributions.Poisson`; samples by Knuth's products, and Hörmann, 1993.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, Poisson};
    /// # Device::reference().make_current();
    /// let p = Poisson::new(&tensor![2.5])?;
    /// assert_eq!(p.mode().to_vec::<f32>()?, [2.0]);
    /// assert_eq!(p.log_prob(&tensor![0, -1]).to_vec::<f32>()?, [-2.5, f32::NEG_INFINITY]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Poisson(rate: NonNegative), events 0
}
impl Family for Poisson {
    of_parameters!(0);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let p = &self.0;
        host::drawn(shape, p.all::<1>(), 1, (p.wide(), p.device()), rng, |[rate], words, out| out[0] = host::poisson(rate[0], words))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [rate] = self.0.all();
        match function {
            PointFunction::LogProb => Some(supported(&no_count(x), x, &x.zeros_like(), |k| {
                let none = k.eq(0.0);
                let some = none.where_(1.0, k);
                none.where_(&rate.neg(), &(stirling(&some) - deviance(&some, rate, &rate.log())))
            })),
            PointFunction::Cdf => {
                let outside = x.lt(0.0);
                Some(outside.where_(0.0, &(outside.where_(0.0, x).floor() + 1.0).igammac(rate)))
            }
            PointFunction::Icdf => None,
        }
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let [rate] = self.0.all();
        match statistic {
            Statistic::Mean | Statistic::Variance => Some(rate.clone()),
            Statistic::Mode => Some(rate.floor()),
            Statistic::Entropy => None,
        }
    }
    fn kl(&self, other: &Poisson) -> Option<Tensor> {
        let ([p], [q]) = (self.0.all(), other.0.all());
        Some(xlogy(p, p) - xlogy(p, q) - (p - q))
    }
}
