//! What every distribution does, and what one is written as. The checks of values and the dtypes of results stand here, once.
use crate::parameters::{Parameters, joined, located};
use adamant_core::{DType, Device, Error, ErrorKind, Result, Rng, Shape, Tensor};
use std::{any::Any, fmt::Debug};

/// A number of a distribution itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// the expectation
    Mean,
    /// the expected square of the distance to the mean
    Variance,
    /// where the density is largest
    Mode,
    /// the expected `-log_prob`, in nats
    Entropy,
}
/// A function of a value, or of a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PointFunction {
    /// the logarithm of the density or the probability
    LogProb,
    /// the probability of at most the value
    Cdf,
    /// the value that is not exceeded with the probability
    Icdf,
}

/// The formulas of a distribution: all that is written to add one. [`Distribution`] comes of itself.
///
/// Tensors here are in [`Parameters::wide`]; values have at least the shape of batch and event.
pub trait Family: Debug + Any {
    /// Its parameters.
    fn parameters(&self) -> &Parameters;
    /// Samples of the shape, which ends in those of batch and event. A gradient to the parameters that flows through them is
    /// right if [`Family::reparameterized`].
    ///
    /// # Errors
    /// What is drawn on the host reads its parameters, and that may fail.
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor>;
    /// Do gradients flow through [`Family::draw`]?
    fn reparameterized(&self) -> bool {
        false
    }
    /// Are values class numbers, which are i64?
    fn of_classes(&self) -> bool {
        false
    }
    /// A function of a value; `None`: there is no closed form.
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor>;
    /// A number of the distribution; `None`: there is no closed form.
    fn statistic(&self, statistic: Statistic) -> Option<Tensor>;
    /// The Kullback-Leibler divergence to another member of the family; `None`: there is no closed form.
    fn kl(&self, _other: &Self) -> Option<Tensor>
    where
        Self: Sized,
    {
        None
    }
}

/// A probability distribution over a batch of independent parameters.
///
/// Shapes: parameters broadcast to `batch`; a value is `[sample.., batch.., event..]`, its log-probability
/// `[sample.., batch..]`. Wrong calls give failed tensors whose error is told when they are read: a value of another float
/// dtype than the parameters', shapes that do not broadcast, and what has no closed form (`Argument`, with the
/// distribution's name).
///
/// ```
/// # use adamant_core::{Device, Rng, tensor};
/// use adamant_distributions::{Distribution, Normal};
/// # Device::reference().make_current();
/// let p: Box<dyn Distribution> = Box::new(Normal::new(&tensor![0.0, 10.0], &tensor![1.0])?);
/// let x = p.sample(&[3], &Rng::new(1)?);
/// assert_eq!(x.dims::<2>()?, [3, 2]);
/// assert_eq!(p.log_prob(&x).dims::<2>()?, [3, 2]);
/// assert_eq!(p.mean().to_vec::<f32>()?, [0.0, 10.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub trait Distribution: Debug {
    /// Its name, PyTorch's.
    fn name(&self) -> &'static str;
    /// The shape that the parameters broadcast to.
    fn batch_shape(&self) -> Shape;
    /// The shape of one event; without axes for a distribution of numbers.
    fn event_shape(&self) -> Shape;
    /// The parameters' dtype, and that of results.
    fn dtype(&self) -> DType;
    /// The parameters' device.
    fn device(&self) -> Device;
    /// Independent samples, `[shape.., batch.., event..]`, of the parameters' dtype (class numbers: i64). No gradient flows.
    #[track_caller]
    fn sample(&self, shape: &[usize], rng: &Rng) -> Tensor;
    /// As [`Distribution::sample`], with gradients to the parameters (Kingma and Welling, "Auto-encoding variational Bayes",
    /// 2014). A distribution that has none gives a failed tensor that names it.
    #[track_caller]
    fn rsample(&self, shape: &[usize], rng: &Rng) -> Tensor;
    /// Does [`Distribution::rsample`] work?
    fn has_rsample(&self) -> bool;
    /// The logarithm of the density (of numbers) or the probability (of counts and classes); -inf outside the support.
    #[track_caller]
    fn log_prob(&self, value: &Tensor) -> Tensor;
    /// The probability of at most `value`.
    #[track_caller]
    fn cdf(&self, value: &Tensor) -> Tensor;
    /// The inverse of [`Distribution::cdf`].
    #[track_caller]
    fn icdf(&self, probability: &Tensor) -> Tensor;
    /// The expectation; NaN where there is none.
    #[track_caller]
    fn mean(&self) -> Tensor;
    /// The variance of each element; inf or NaN where there is none.
    #[track_caller]
    fn variance(&self) -> Tensor;
    /// The square root of [`Distribution::variance`].
    #[track_caller]
    fn stddev(&self) -> Tensor {
        self.variance().sqrt()
    }
    /// Where the density is largest; NaN where no value is.
    #[track_caller]
    fn mode(&self) -> Tensor;
    /// The entropy in nats, of the batch's shape.
    #[track_caller]
    fn entropy(&self) -> Tensor;
    /// [`kl_divergence`] to another distribution.
    #[track_caller]
    fn kl_to(&self, other: &dyn Distribution) -> Tensor;
    /// The distribution as what it is.
    fn as_any(&self) -> &dyn Any;
}

/// The Kullback-Leibler divergence of q from p, `E[log p(x) - log q(x)]` over x of p, of the broadcast batch's shape.
///
/// Both are of one family. The result is a failed tensor if they are not, or if the family has no closed form (Beta,
/// Normal and most others have one; StudentT, VonMises, MixtureSameFamily and Multinomial have none).
/// Source: `torch.distributions.kl.kl_divergence`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::{Exponential, Normal, kl_divergence};
/// # Device::reference().make_current();
/// let (p, q) = (Normal::new(&tensor![1.0], &tensor![1.0])?, Normal::new(&tensor![0.0], &tensor![1.0])?);
/// assert_eq!(kl_divergence(&p, &q).to_vec::<f32>()?, [0.5]);
/// let other = Exponential::new(&tensor![1.0])?;
/// assert!(kl_divergence(&p, &other).error().unwrap().to_string().contains("from Normal to Exponential"));
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[track_caller]
pub fn kl_divergence(p: &dyn Distribution, q: &dyn Distribution) -> Tensor {
    p.kl_to(q)
}

#[track_caller]
fn at_caller(called: &'static str, f: impl FnOnce() -> Result<Tensor>) -> Tensor {
    located(called, f).unwrap_or_else(Tensor::failed)
}
#[track_caller]
fn missing(name: &'static str, what: &str) -> Error {
    Error::new(name, ErrorKind::Argument(format!("{name} has no {what}")))
}
/// A value as formulas take it: wide, and broadcast with batch and event.
fn prepared<F: Family>(family: &F, value: &Tensor) -> Result<Tensor> {
    let (p, meta) = (family.parameters(), value.try_meta()?);
    let fail = |kind| Err(Error::new(p.name(), kind));
    let full = p.full();
    let Some(shape) = meta.shape.broadcast(&full) else {
        return fail(ErrorKind::ShapeMismatch { left: meta.shape, right: full, axes: None, expected: "a value broadcasts with batch and event" });
    };
    if family.of_classes() {
        return if meta.dtype.is_int() {
            Ok(value.cast(DType::I64).expand(shape))
        } else {
            fail(ErrorKind::Dtype(format!("classes are integers, not {}", meta.dtype)))
        };
    }
    if meta.dtype.is_float() && meta.dtype != p.dtype() {
        return fail(ErrorKind::DtypeMismatch { left: p.dtype(), right: meta.dtype });
    }
    Ok(value.cast(p.wide()).expand(shape))
}
#[track_caller]
fn function<F: Family>(family: &F, which: PointFunction, value: &Tensor) -> Tensor {
    let (called, what) = match which {
        PointFunction::LogProb => ("log_prob", "log_prob"),
        PointFunction::Cdf => ("cdf", "cdf in closed form"),
        PointFunction::Icdf => ("icdf", "icdf in closed form"),
    };
    at_caller(called, || {
        let p = family.parameters();
        let x = prepared(family, value)?;
        Ok(family.function(which, &x).ok_or_else(|| missing(p.name(), what))?.cast(p.dtype()))
    })
}
#[track_caller]
fn statistic<F: Family>(family: &F, which: Statistic) -> Tensor {
    let (called, what) = match which {
        Statistic::Mean => ("mean", "mean"),
        Statistic::Variance => ("variance", "variance"),
        Statistic::Mode => ("mode", "mode in closed form"),
        Statistic::Entropy => ("entropy", "entropy in closed form"),
    };
    at_caller(called, || {
        let p = family.parameters();
        let dtype = if family.of_classes() && which == Statistic::Mode { DType::I64 } else { p.dtype() };
        Ok(family.statistic(which).ok_or_else(|| missing(p.name(), what))?.cast(dtype))
    })
}
#[track_caller]
fn drawn<F: Family>(called: &'static str, family: &F, shape: &[usize], rng: &Rng) -> Tensor {
    at_caller(called, || {
        let p = family.parameters();
        let dims = [shape, &p.batch(), &p.event()].concat();
        let shape = Shape::new(&dims).map_err(|kind| Error::new(p.name(), kind))?;
        Ok(family.draw(shape, rng)?.cast(if family.of_classes() { DType::I64 } else { p.dtype() }))
    })
}
impl<F: Family> Distribution for F {
    fn name(&self) -> &'static str {
        self.parameters().name()
    }
    fn batch_shape(&self) -> Shape {
        self.parameters().batch()
    }
    fn event_shape(&self) -> Shape {
        self.parameters().event()
    }
    fn dtype(&self) -> DType {
        self.parameters().dtype()
    }
    fn device(&self) -> Device {
        self.parameters().device()
    }
    fn sample(&self, shape: &[usize], rng: &Rng) -> Tensor {
        drawn("sample", self, shape, rng).detach()
    }
    fn rsample(&self, shape: &[usize], rng: &Rng) -> Tensor {
        if self.reparameterized() {
            drawn("rsample", self, shape, rng)
        } else {
            at_caller("rsample", || Err(missing(self.name(), "reparameterized samples; `sample` draws without gradients")))
        }
    }
    fn has_rsample(&self) -> bool {
        self.reparameterized()
    }
    fn log_prob(&self, value: &Tensor) -> Tensor {
        function(self, PointFunction::LogProb, value)
    }
    fn cdf(&self, value: &Tensor) -> Tensor {
        function(self, PointFunction::Cdf, value)
    }
    fn icdf(&self, probability: &Tensor) -> Tensor {
        function(self, PointFunction::Icdf, probability)
    }
    fn mean(&self) -> Tensor {
        statistic(self, Statistic::Mean)
    }
    fn variance(&self) -> Tensor {
        statistic(self, Statistic::Variance)
    }
    fn mode(&self) -> Tensor {
        statistic(self, Statistic::Mode)
    }
    fn entropy(&self) -> Tensor {
        statistic(self, Statistic::Entropy)
    }
    fn kl_to(&self, other: &dyn Distribution) -> Tensor {
        at_caller("kl_divergence", || {
            let none = || Error::new("kl_divergence", ErrorKind::Argument(format!("no closed form is known from {} to {}", self.name(), other.name())));
            let other = other.as_any().downcast_ref::<F>().ok_or_else(none)?;
            if self.dtype() != other.dtype() {
                return Err(Error::new("kl_divergence", ErrorKind::DtypeMismatch { left: self.dtype(), right: other.dtype() }));
            }
            if self.event_shape() != other.event_shape() {
                let (left, right) = (self.event_shape(), other.event_shape());
                return Err(Error::new("kl_divergence", ErrorKind::ShapeMismatch { left, right, axes: None, expected: "events have one shape" }));
            }
            Ok(self.kl(other).ok_or_else(none)?.cast(self.dtype()))
        })
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `f` of the values that are not outside, -inf of those that are: they are replaced by a safe one, so that no gradient of
/// theirs is NaN. NaN is not outside.
pub(crate) fn supported(outside: &Tensor, x: &Tensor, safe: &Tensor, f: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    outside.where_(f64::NEG_INFINITY, &f(&outside.where_(safe, x)))
}
/// `k ln(x)`, whose gradient to x is 0 where both are 0.
pub(crate) fn xlogy(k: &Tensor, x: &Tensor) -> Tensor {
    let both = k.eq(0.0).logical_and(x.eq(0.0));
    k.xlogy(&both.where_(1.0, x))
}
/// `k ln(1 + x)`, whose gradient to x is 0 where k is 0 and x is -1.
pub(crate) fn xlog1py(k: &Tensor, x: &Tensor) -> Tensor {
    let both = k.eq(0.0).logical_and(x.eq(-1.0));
    k.xlog1py(&both.where_(0.0, x))
}
/// Samples and batch, without the event.
pub(crate) fn outer(shape: &Shape, event: &Shape) -> Shape {
    joined(&[&shape[..shape.rank() - event.rank()]])
}
/// Where a family holds its parameters, and whether gradients flow through its samples.
macro_rules! of_parameters {
    ($field:tt) => {
        fn parameters(&self) -> &$crate::Parameters {
            &self.$field
        }
    };
    ($field:tt, reparameterized) => {
        of_parameters!($field);
        fn reparameterized(&self) -> bool {
            true
        }
    };
}
pub(crate) use of_parameters;
/// A struct over named parameters with its constructor and its getters; `together` if it implements [`TogetherChecked`] itself.
macro_rules! family {
    ($(#[$doc:meta])* $name:ident($($parameter:ident: $constraint:ident),+), events $events:literal) => {
        $crate::distribution::family! { $(#[$doc])* $name($($parameter: $constraint),+), events $events, together }
        impl $crate::distribution::TogetherChecked for $name {}
    };
    ($(#[$doc:meta])* $name:ident($($parameter:ident: $constraint:ident),+), events $events:literal, together) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(pub(crate) $crate::Parameters);
        impl $name {
            /// The distribution of parameters that broadcast.
            ///
            /// # Errors
            /// As of [`Parameters::new`](crate::Parameters::new): a parameter out of its range, two dtypes, shapes that do not broadcast.
            #[track_caller]
            pub fn new($($parameter: &adamant_core::Tensor),+) -> adamant_core::Result<$name> {
                let given = [$((stringify!($parameter), $parameter, $crate::Constraint::$constraint)),+];
                $crate::parameters::located(stringify!($name), || $name($crate::Parameters::new(stringify!($name), &given, $events)?).checked())
            }
            $(
                #[doc = concat!("The parameter `", stringify!($parameter), "`, broadcast.")]
                #[track_caller]
                pub fn $parameter(&self) -> adamant_core::Tensor {
                    self.0.named(stringify!($parameter))
                }
            )+
        }
    };
}
pub(crate) use family;
/// What two parameters must be together: nothing, unless a family says otherwise.
pub(crate) trait TogetherChecked: Sized {
    fn checked(self) -> Result<Self> {
        Ok(self)
    }
}
