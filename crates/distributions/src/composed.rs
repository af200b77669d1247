//! Distributions made of others.
use crate::{
    Categorical, Distribution, Family, Parameters, PointFunction, Statistic,
    distribution::{of_parameters, outer},
    parameters::joined,
};
use adamant_core::{Error, ErrorKind, Result, Rng, Shape, Tensor};
use std::sync::Arc;

/// A distribution whose last batch axes are part of the event: log-probabilities are summed over them.
///
/// Source: `torch.distributions.Independent`.
///
/// ```
/// # use adamant_core::{Device, Tensor, tensor};
/// use adamant_distributions::{Distribution, Independent, Normal};
/// # Device::reference().make_current();
/// let p = Independent::new(Normal::new(&Tensor::zeros([2, 3]), &tensor![1.0])?, 1)?;
/// assert_eq!((p.batch_shape().to_vec(), p.event_shape().to_vec()), (vec![2], vec![3]));
/// assert_eq!(p.entropy().dims::<1>()?, [2]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Independent<D> {
    own: Parameters,
    base: D,
    axes: usize,
}
impl<D: Distribution> Independent<D> {
    /// Takes the last `axes` axes of the batch into the event.
    ///
    /// # Errors
    /// There are not so many.
    #[track_caller]
    pub fn new(base: D, axes: usize) -> Result<Independent<D>> {
        let (batch, event) = (base.batch_shape(), base.event_shape());
        let Some(left) = batch.rank().checked_sub(axes) else {
            let what = format!("{axes} axes of a batch {batch}, which has {}", batch.rank());
            return Err(Error::new("Independent", ErrorKind::Argument(what)));
        };
        let own = Parameters::of_parts("Independent", base.dtype(), base.device(), joined(&[&batch[..left]]), joined(&[&batch[left..], &event]));
        Ok(Independent { own, base, axes })
    }
    /// The distribution whose axes were taken.
    pub fn base(&self) -> &D {
        &self.base
    }
    fn summed(&self, x: Tensor) -> Tensor {
        let axes: Vec<isize> = (1..=self.axes as isize).map(|k| -k).collect();
        if axes.is_empty() { x } else { x.sum(axes) }.cast(self.own.wide())
    }
}
impl<D: Distribution + 'static> Family for Independent<D> {
    of_parameters!(own);
    fn reparameterized(&self) -> bool {
        self.base.has_rsample()
    }
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let samples = outer(&shape, &self.own.full());
        Ok(if self.reparameterized() { self.base.rsample(&samples, rng) } else { self.base.sample(&samples, rng) })
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        (function == PointFunction::LogProb).then(|| self.summed(self.base.log_prob(&x.cast(self.own.dtype()))))
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        Some(match statistic {
            Statistic::Mean => self.base.mean(),
            Statistic::Variance => self.base.variance(),
            Statistic::Mode => self.base.mode(),
            Statistic::Entropy => self.summed(self.base.entropy()),
        })
    }
    fn kl(&self, other: &Self) -> Option<Tensor> {
        (self.axes == other.axes).then(|| self.summed(self.base.kl_to(&other.base)))
    }
}

/// A mixture of distributions of one family: one of the last batch axis of `component` is drawn by `mixing`. Mode and entropy
/// have no closed form.
///
/// Shapes: mixing `[batch..]` over K classes, component `[batch.., K]`. Source: `torch.distributions.MixtureSameFamily`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::{Categorical, Distribution, MixtureSameFamily, Normal};
/// # Device::reference().make_current();
/// let p = MixtureSameFamily::new(Categorical::new(&tensor![1.0, 3.0])?, Normal::new(&tensor![0.0, 4.0], &tensor![1.0])?)?;
/// assert_eq!(p.mean().item::<f32>()?, 3.0);
/// assert_eq!(p.variance().item::<f32>()?, 4.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MixtureSameFamily {
    own: Parameters,
    mixing: Categorical,
    component: Arc<dyn Distribution>,
}
impl MixtureSameFamily {
    /// The mixture.
    ///
    /// # Errors
    /// The batch of `component` is not that of `mixing` with its classes as the last axis; two dtypes.
    #[track_caller]
    pub fn new(mixing: Categorical, component: impl Distribution + 'static) -> Result<MixtureSameFamily> {
        let _call = adamant_core::scope::call("MixtureSameFamily");
        let fail = |kind| Err(Error::new("MixtureSameFamily", kind));
        let (left, right) = (mixing.probs().shape()?, component.batch_shape());
        if left != right {
            let expected = "the component's batch is the mixing one's, and the classes";
            return fail(ErrorKind::ShapeMismatch { left, right, axes: None, expected });
        }
        if mixing.dtype() != component.dtype() {
            return fail(ErrorKind::DtypeMismatch { left: mixing.dtype(), right: component.dtype() });
        }
        let own = Parameters::of_parts("MixtureSameFamily", mixing.dtype(), Distribution::device(&mixing), mixing.batch_shape(), component.event_shape());
        Ok(MixtureSameFamily { own, mixing, component: Arc::new(component) })
    }
    /// The axis of the components, before the event's.
    fn axis(&self) -> isize {
        -1 - self.own.event().rank() as isize
    }
    fn weights(&self) -> Tensor {
        let p = self.mixing.probs().cast(self.own.wide());
        (0..self.own.event().rank()).fold(p, |p, _| p.unsqueeze(-1))
    }
    fn mixed(&self, of_components: &Tensor) -> Tensor {
        (self.weights() * of_components.cast(self.own.wide())).sum(self.axis())
    }
}
impl Family for MixtureSameFamily {
    of_parameters!(own);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let samples = outer(&shape, &self.own.full());
        let drawn = self.component.sample(&samples, rng);
        let hot = self.mixing.sample(&samples, rng).one_hot(self.mixing.probs().shape()?.last().copied().unwrap_or(0));
        let hot = (0..self.own.event().rank()).fold(hot, |h, _| h.unsqueeze(-1));
        // Picked, not multiplied: a component may draw inf.
        Ok(hot.ne(0i64).where_(&drawn, 0.0).sum(self.axis()))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let each = x.cast(self.own.dtype()).unsqueeze(self.axis());
        match function {
            PointFunction::LogProb => Some((self.component.log_prob(&each).cast(self.own.wide()) + self.mixing.logits().cast(self.own.wide())).logsumexp(-1)),
            PointFunction::Cdf if self.own.event().rank() == 0 => Some(self.mixed(&self.component.cdf(&each))),
            PointFunction::Cdf | PointFunction::Icdf => None,
        }
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let means = || self.component.mean().cast(self.own.wide());
        match statistic {
            Statistic::Mean => Some(self.mixed(&means())),
            Statistic::Variance => {
                let middle = self.mixed(&means()).unsqueeze(self.axis());
                Some(self.mixed(&(self.component.variance().cast(self.own.wide()) + (means() - middle).square())))
            }
            Statistic::Mode | Statistic::Entropy => None,
        }
    }
}
