//! The distribution of what a variable of another one is mapped to.
use crate::{
    Constraint, Distribution, Family, Parameters, PointFunction, Statistic,
    distribution::{of_parameters, outer},
    parameters::{joined, located},
    transforms::{ComposeTransform, Transform, sum_rightmost},
};
use adamant_core::{Error, ErrorKind, Result, Rng, Shape, Tensor};
use std::sync::Arc;

/// The distribution of `y = f(x)` for x of a base distribution and maps f, one after the other. Moments and entropy have no closed form;
/// the cdf has one if all maps rise or fall everywhere.
///
/// Source: `torch.distributions.TransformedDistribution`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::{Distribution, LogNormal, Normal, TransformedDistribution, transforms::ExpTransform};
/// # Device::reference().make_current();
/// let base = Normal::new(&tensor![0.5], &tensor![2.0])?;
/// let p = TransformedDistribution::new(base, vec![Box::new(ExpTransform)])?;
/// let same = LogNormal::new(&tensor![0.5], &tensor![2.0])?;
/// assert!(p.log_prob(&tensor![3.0]).allclose(&same.log_prob(&tensor![3.0]), 1e-6, 1e-6)?);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TransformedDistribution {
    own: Parameters,
    base: Arc<dyn Distribution>,
    map: ComposeTransform,
}
const NAME: &str = "TransformedDistribution";
impl TransformedDistribution {
    /// The distribution of mapped values.
    ///
    /// # Errors
    /// A base of fewer axes than the maps take, or whose shape they would change by broadcasting; a base of class numbers.
    #[track_caller]
    pub fn new(base: impl Distribution + 'static, transforms: Vec<Box<dyn Transform>>) -> Result<TransformedDistribution> {
        located(NAME, || TransformedDistribution::built(Arc::new(base), ComposeTransform::new(transforms)))
    }
    fn built(base: Arc<dyn Distribution>, map: ComposeTransform) -> Result<TransformedDistribution> {
        let fail = |what: String| Err(Error::new(NAME, ErrorKind::Argument(what)));
        let (shape, inside) = (joined(&[&base.batch_shape(), &base.event_shape()]), base.event_shape().rank());
        let (from, to) = (map.domain().event_rank(), map.codomain().event_rank());
        if shape.rank() < from {
            return fail(format!("base must have at least {from} axes for its transforms, and has {shape}"));
        }
        let mapped = map.forward_shape(shape)?;
        let back = map.inverse_shape(mapped)?;
        if back != shape {
            return fail(format!("base must have the shape {back} that its transforms broadcast to, and has {shape}"));
        }
        let event = to + inside.saturating_sub(from);
        let split = mapped.rank() - event.min(mapped.rank());
        let own = Parameters::of_parts(NAME, base.dtype(), base.device(), joined(&[&mapped[..split]]), joined(&[&mapped[split..]]));
        Ok(TransformedDistribution { own, base, map })
    }
    /// The distribution of what is mapped.
    pub fn base(&self) -> &dyn Distribution {
        self.base.as_ref()
    }
    /// All maps, as one.
    pub fn transform(&self) -> &ComposeTransform {
        &self.map
    }
    /// What its values are.
    pub fn support(&self) -> Constraint {
        self.map.codomain()
    }
    fn log_density(&self, y: &Tensor) -> Tensor {
        let (inside, event) = (self.base.event_shape().rank(), self.own.event().rank());
        let (from, to) = (self.map.domain().event_rank(), self.map.codomain().event_rank());
        let x = self.map.inverse(y);
        let volume = sum_rightmost(&self.map.log_abs_det_jacobian(&x, y), event.saturating_sub(to));
        // The base's axes that the maps, or the base itself, take as one event.
        let taken = inside.max(from);
        let base = self.base.log_prob(&x.cast(self.own.dtype())).cast(self.own.wide());
        sum_rightmost(&base, taken - inside) - volume
    }
    /// A function of a number's side, where all maps rise or fall.
    fn rising(&self, like: &Tensor, of: impl FnOnce(&Tensor) -> Tensor) -> Option<Tensor> {
        (self.own.event().rank() == 0).then_some(())?;
        Some(of(&self.map.sign(like)?))
    }
}
impl Family for TransformedDistribution {
    of_parameters!(own);
    fn reparameterized(&self) -> bool {
        self.base.has_rsample()
    }
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let samples = outer(&shape, &self.own.full());
        let x = if self.reparameterized() { self.base.rsample(&samples, rng) } else { self.base.sample(&samples, rng) };
        Ok(self.map.forward(&x.cast(self.own.wide())))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let own = |t: &Tensor| t.cast(self.own.dtype());
        match function {
            PointFunction::LogProb => Some(self.log_density(x)),
            PointFunction::Cdf => self.rising(x, |sign| {
                let p = self.base.cdf(&own(&self.map.inverse(x))).cast(self.own.wide());
                (p - 0.5) * sign + 0.5
            }),
            PointFunction::Icdf => self.rising(x, |sign| self.map.forward(&self.base.icdf(&own(&((x - 0.5) * sign + 0.5))).cast(self.own.wide()))),
        }
    }
    fn statistic(&self, _statistic: Statistic) -> Option<Tensor> {
        None
    }
}
