//! Coins and classes by numbers between 0 and 1, so that gradients flow through samples; and vectors of shares.
use crate::{
    Constraint, Family, OneHotCategorical, Parameters, PointFunction, Statistic,
    distribution::{Distribution, TogetherChecked, family, of_parameters},
    line::{normal_kl, normal_log_density, open_uniform, standard_normal},
    parameters::{joined, located},
    transforms::{StickBreakingTransform, Transform},
};
use adamant_core::{Error, ErrorKind, Result, Rng, Shape, Tensor};

/// As [`OneHotCategorical`], with samples whose gradient is that of the probabilities (Bengio, Léonard and Courville, "Estimating or
/// propagating gradients through stochastic neurons", 2013).
///
/// Source: `torch.distributions.OneHotCategoricalStraightThrough`.
///
/// ```
/// # use adamant_core::{Device, Rng, tensor};
/// use adamant_distributions::{Distribution, OneHotCategoricalStraightThrough};
/// # Device::reference().make_current();
/// let p = OneHotCategoricalStraightThrough::new(&tensor![1.0, 3.0])?;
/// assert!(p.has_rsample());
/// assert_eq!(p.rsample(&[5], &Rng::new(1)?).sum(-1).to_vec::<f32>()?, [1.0; 5]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OneHotCategoricalStraightThrough {
    own: Parameters,
    base: OneHotCategorical,
}
impl OneHotCategoricalStraightThrough {
    fn of(base: OneHotCategorical) -> OneHotCategoricalStraightThrough {
        let own = Parameters::of_parts("OneHotCategoricalStraightThrough", base.dtype(), Distribution::device(&base), base.batch_shape(), base.event_shape());
        OneHotCategoricalStraightThrough { own, base }
    }
    /// As [`OneHotCategorical::new`].
    ///
    /// # Errors
    /// As of [`OneHotCategorical::new`].
    #[track_caller]
    pub fn new(probs: &Tensor) -> Result<OneHotCategoricalStraightThrough> {
        Ok(OneHotCategoricalStraightThrough::of(OneHotCategorical::new(probs)?))
    }
    /// As [`OneHotCategorical::from_logits`].
    ///
    /// # Errors
    /// As of [`OneHotCategorical::from_logits`].
    #[track_caller]
    pub fn from_logits(logits: &Tensor) -> Result<OneHotCategoricalStraightThrough> {
        Ok(OneHotCategoricalStraightThrough::of(OneHotCategorical::from_logits(logits)?))
    }
    /// The probabilities, `[batch.., classes]`.
    #[track_caller]
    pub fn probs(&self) -> Tensor {
        self.base.probs()
    }
    /// The normalised log-probabilities, `[batch.., classes]`.
    #[track_caller]
    pub fn logits(&self) -> Tensor {
        self.base.logits()
    }
}
impl Family for OneHotCategoricalStraightThrough {
    of_parameters!(own, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let probs = self.base.probs().cast(self.own.wide());
        Ok(self.base.draw(shape, rng)?.detach() + (&probs - probs.detach()))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        self.base.function(function, x)
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        self.base.statistic(statistic)
    }
    fn kl(&self, other: &OneHotCategoricalStraightThrough) -> Option<Tensor> {
        self.base.kl(&other.base)
    }
}

/// Classes by shares on the simplex: a softmax of `(logits + Gumbel noise) / temperature`, which at a low temperature is nearly a one in
/// one place. Moments, mode and entropy have no closed form.
///
/// Shapes: `temperature` `[batch..]`, values `[sample.., batch.., K]`. Source: `torch.distributions.RelaxedOneHotCategorical`; Maddison,
/// Mnih and Teh, "The concrete distribution", 2017; Jang, Gu and Poole, "Categorical reparameterization with Gumbel-softmax", 2017.
///
/// ```
/// # use adamant_core::{Device, Rng, tensor};
/// use adamant_distributions::{Distribution, RelaxedOneHotCategorical};
/// # Device::reference().make_current();
/// let p = RelaxedOneHotCategorical::new(&tensor![0.5], &tensor![[1.0, 3.0]])?;
/// let x = p.rsample(&[], &Rng::new(1)?);
/// assert!(x.sum(-1).allclose(&tensor![1.0], 1e-5, 1e-5)?);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RelaxedOneHotCategorical {
    own: Parameters,
    temperature: Tensor,
    logits: Tensor,
}
impl RelaxedOneHotCategorical {
    const NAME: &str = "RelaxedOneHotCategorical";
    /// By weights of the classes along the last axis.
    ///
    /// # Errors
    /// A temperature that is not positive; weights as of [`OneHotCategorical::new`]; shapes that do not broadcast.
    #[track_caller]
    pub fn new(temperature: &Tensor, probs: &Tensor) -> Result<RelaxedOneHotCategorical> {
        located(RelaxedOneHotCategorical::NAME, || RelaxedOneHotCategorical::of(temperature, &OneHotCategorical::new(probs)?))
    }
    /// By logarithms of the weights.
    ///
    /// # Errors
    /// As of [`RelaxedOneHotCategorical::new`].
    #[track_caller]
    pub fn from_logits(temperature: &Tensor, logits: &Tensor) -> Result<RelaxedOneHotCategorical> {
        located(RelaxedOneHotCategorical::NAME, || RelaxedOneHotCategorical::of(temperature, &OneHotCategorical::from_logits(logits)?))
    }
    fn of(temperature: &Tensor, classes: &OneHotCategorical) -> Result<RelaxedOneHotCategorical> {
        let name = RelaxedOneHotCategorical::NAME;
        let given = Parameters::new(name, &[("temperature", temperature, Constraint::Positive)], 0)?;
        if given.dtype() != classes.dtype() {
            return Err(Error::new(name, ErrorKind::DtypeMismatch { left: given.dtype(), right: classes.dtype() }));
        }
        let Some(batch) = given.batch().broadcast(&classes.batch_shape()) else {
            let (left, right) = (given.batch(), classes.batch_shape());
            return Err(Error::new(name, ErrorKind::ShapeMismatch { left, right, axes: None, expected: "temperature broadcasts with the batch" }));
        };
        let own = Parameters::of_parts(name, given.dtype(), given.device(), batch, classes.event_shape());
        let [temperature] = given.all();
        let logits = classes.logits().cast(own.wide()).expand(own.full());
        Ok(RelaxedOneHotCategorical { temperature: temperature.expand(batch), logits, own })
    }
    /// The temperature, broadcast.
    #[track_caller]
    pub fn temperature(&self) -> Tensor {
        self.temperature.cast(self.own.dtype())
    }
    /// The probabilities, `[batch.., classes]`.
    #[track_caller]
    pub fn probs(&self) -> Tensor {
        self.logits.exp().cast(self.own.dtype())
    }
    /// The normalised log-probabilities, `[batch.., classes]`.
    #[track_caller]
    pub fn logits(&self) -> Tensor {
        self.logits.cast(self.own.dtype())
    }
}
impl Family for RelaxedOneHotCategorical {
    of_parameters!(own, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let gumbel = open_uniform(&self.own, shape, rng).log().neg().log().neg();
        Ok(((&self.logits + gumbel) / self.temperature.unsqueeze(-1)).softmax(-1))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let classes = self.own.event().elements() as f64;
        (function == PointFunction::LogProb).then(|| {
            let log = x.log();
            let scores = (&self.logits - &log * self.temperature.unsqueeze(-1)).log_softmax(-1);
            let factorial: f64 = (2..classes as usize).map(|k| (k as f64).ln()).sum();
            (scores - log).sum(-1) + self.temperature.log() * (classes - 1.0) + factorial
        })
    }
    fn statistic(&self, _statistic: Statistic) -> Option<Tensor> {
        None
    }
}

family! {
    /// Shares of K + 1 parts, which are normal variables by [`StickBreakingTransform`]: values `[sample.., batch.., K + 1]`. Moments and
    /// entropy have no closed form.
    ///
    /// Shapes: `loc` and `scale` `[batch.., K]`. Source: `torch.distributions.LogisticNormal`.
    ///
    /// ```
    /// # use adamant_core::{Device, Rng, tensor};
    /// use adamant_distributions::{Distribution, LogisticNormal};
    /// # Device::reference().make_current();
    /// let p = LogisticNormal::new(&tensor![0.0, 0.0], &tensor![1.0])?;
    /// assert!(p.rsample(&[], &Rng::new(1)?).sum(-1).allclose(&tensor![1.0], 1e-5, 1e-5)?);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    LogisticNormal(loc: Real, scale: Positive), events 1, together
}
impl TogetherChecked for LogisticNormal {
    fn checked(self) -> Result<LogisticNormal> {
        let event = StickBreakingTransform.forward_shape(self.0.event())?;
        Ok(LogisticNormal(self.0.with_event(event)))
    }
}
impl Family for LogisticNormal {
    of_parameters!(0, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let [loc, scale] = self.0.all();
        let parts = self.0.event().elements();
        let normal = joined(&[&shape[..shape.rank() - 1], &[parts - 1]]);
        Ok(StickBreakingTransform.forward(&(standard_normal(&self.0, normal, rng) * scale + loc)))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let [loc, scale] = self.0.all();
        (function == PointFunction::LogProb).then(|| {
            let normal = StickBreakingTransform.inverse(x);
            normal_log_density(&normal, loc, scale).sum(-1) - StickBreakingTransform.log_abs_det_jacobian(&normal, x)
        })
    }
    fn statistic(&self, _statistic: Statistic) -> Option<Tensor> {
        None
    }
    fn kl(&self, other: &LogisticNormal) -> Option<Tensor> {
        // That of the normal variables: the map is the same.
        let ([m, s], [n, t]) = (self.0.all(), other.0.all());
        Some(normal_kl(m, s, n, t).sum(-1))
    }
}
