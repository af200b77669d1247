//! Maps of single numbers.
use super::{Transform, no_volume, refused, sum_rightmost};
use crate::{Constraint, Distribution, parameters::read};
use adamant_core::{DType, Result, Shape, Tensor};
use std::{f64::consts::LN_2, sync::Arc};

/// Where a tensor of a dtype may not reach: its least normal number, and what 1 has more than the number before it.
fn ends(x: &Tensor) -> (f64, f64) {
    match x.dtype() {
        Ok(DType::F64) => (f64::MIN_POSITIVE, f64::EPSILON),
        Ok(DType::F16) => (6.103_515_625e-5, 2f64.powi(-10)),
        Ok(DType::BF16) => (f64::from(f32::MIN_POSITIVE), 2f64.powi(-7)),
        _ => (f64::from(f32::MIN_POSITIVE), f64::from(f32::EPSILON)),
    }
}
/// A map without parameters that rises everywhere.
macro_rules! rising {
    ($(#[$doc:meta])* $name:ident: $domain:expr => $codomain:expr, |$x:ident| $forward:expr, |$y:ident| $inverse:expr, |$at:ident, $to:ident| $volume:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;
        impl Transform for $name {
            fn name(&self) -> &'static str {
                stringify!($name)
            }
            fn domain(&self) -> Constraint {
                $domain
            }
            fn codomain(&self) -> Constraint {
                $codomain
            }
            fn sign(&self, like: &Tensor) -> Option<Tensor> {
                Some(like.ones_like())
            }
            fn forward(&self, $x: &Tensor) -> Tensor {
                $forward
            }
            fn inverse(&self, $y: &Tensor) -> Tensor {
                $inverse
            }
            fn log_abs_det_jacobian(&self, $at: &Tensor, $to: &Tensor) -> Tensor {
                $volume
            }
        }
    };
}
rising! {
    /// `y = exp(x)`. Source: `torch.distributions.transforms.ExpTransform`.
    ExpTransform: Constraint::Real => Constraint::Positive, |x| x.exp(), |y| y.log(), |x, _y| x.clone()
}
rising! {
    /// `y = 1 / (1 + exp(-x))`, kept inside (0, 1) by a unit of the dtype. Source: `torch.distributions.transforms.SigmoidTransform`.
    SigmoidTransform: Constraint::Real => Constraint::Probability,
    |x| { let (tiny, unit) = ends(x); x.sigmoid().clamp(tiny, 1.0 - unit) },
    |y| { let (tiny, unit) = ends(y); let y = y.clamp(tiny, 1.0 - unit); y.log() - y.neg().log1p() },
    |x, _y| (x.softplus() + x.neg().softplus()).neg()
}
rising! {
    /// `y = ln(1 + exp(x))`. Source: `torch.distributions.transforms.SoftplusTransform`.
    SoftplusTransform: Constraint::Real => Constraint::Positive, |x| x.softplus(), |y| y.neg().expm1().neg().log() + y, |x, _y| x.neg().softplus().neg()
}
rising! {
    /// `y = tanh(x)`. Source: `torch.distributions.transforms.TanhTransform`.
    TanhTransform: Constraint::Real => Constraint::Interval(-1.0, 1.0), |x| x.tanh(), |y| y.atanh(), |x, _y| (LN_2 - x - (x * -2.0).softplus()) * 2.0
}

/// `y = loc + scale x`.
///
/// Source: `torch.distributions.transforms.AffineTransform`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::transforms::{AffineTransform, Transform};
/// # Device::reference().make_current();
/// let t = AffineTransform::new(&tensor![1.0], &tensor![2.0])?;
/// assert_eq!(t.forward(&tensor![3.0]).to_vec::<f32>()?, [7.0]);
/// assert!(AffineTransform::new(&tensor![1.0], &tensor![0.0]).unwrap_err().to_string().contains("scale"));
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AffineTransform {
    loc: Tensor,
    scale: Tensor,
    event_rank: usize,
}
impl AffineTransform {
    /// Of numbers.
    ///
    /// # Errors
    /// A scale of 0 or NaN; shapes that do not broadcast.
    #[track_caller]
    pub fn new(loc: &Tensor, scale: &Tensor) -> Result<AffineTransform> {
        AffineTransform::with(loc, scale, 0)
    }
    /// Of events of so many axes.
    ///
    /// # Errors
    /// As of [`AffineTransform::new`].
    #[track_caller]
    pub fn with(loc: &Tensor, scale: &Tensor, event_rank: usize) -> Result<AffineTransform> {
        if let Some(k) = read(scale)?.and_then(|all| all.iter().position(|x| *x == 0.0 || x.is_nan())) {
            return Err(refused("AffineTransform", format!("scale must be a number other than 0, and is not at element {k}")));
        }
        (loc + scale).shape()?;
        Ok(AffineTransform { loc: loc.clone(), scale: scale.clone(), event_rank })
    }
    fn on(&self, constraint: Constraint) -> Constraint {
        if self.event_rank == 0 { constraint } else { Constraint::Independent(Box::new(constraint), self.event_rank) }
    }
    fn broadcast(&self, shape: Shape) -> Result<Shape> {
        let parameters = (&self.loc + &self.scale).shape()?;
        shape.broadcast(&parameters).ok_or_else(|| refused("AffineTransform", format!("loc and scale of {parameters} do not broadcast with {shape}")))
    }
}
impl Transform for AffineTransform {
    fn name(&self) -> &'static str {
        "AffineTransform"
    }
    fn domain(&self) -> Constraint {
        self.on(Constraint::Real)
    }
    fn codomain(&self) -> Constraint {
        self.on(Constraint::Real)
    }
    fn sign(&self, _like: &Tensor) -> Option<Tensor> {
        Some(self.scale.sign())
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.scale + &self.loc
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        (y - &self.loc) / &self.scale
    }
    fn log_abs_det_jacobian(&self, x: &Tensor, _y: &Tensor) -> Tensor {
        sum_rightmost(&(self.scale.abs().log() + x.zeros_like()), self.event_rank)
    }
    fn forward_shape(&self, shape: Shape) -> Result<Shape> {
        self.broadcast(shape)
    }
    fn inverse_shape(&self, shape: Shape) -> Result<Shape> {
        self.broadcast(shape)
    }
}

/// `y = x^exponent` of positive numbers.
///
/// Source: `torch.distributions.transforms.PowerTransform`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::transforms::{PowerTransform, Transform};
/// # Device::reference().make_current();
/// assert_eq!(PowerTransform::new(&tensor![2.0])?.forward(&tensor![3.0]).to_vec::<f32>()?, [9.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PowerTransform {
    exponent: Tensor,
}
impl PowerTransform {
    /// By an exponent.
    ///
    /// # Errors
    /// An exponent of 0 or NaN.
    #[track_caller]
    pub fn new(exponent: &Tensor) -> Result<PowerTransform> {
        if let Some(k) = read(exponent)?.and_then(|all| all.iter().position(|x| *x == 0.0 || x.is_nan())) {
            return Err(refused("PowerTransform", format!("exponent must be a number other than 0, and is not at element {k}")));
        }
        Ok(PowerTransform { exponent: exponent.clone() })
    }
    fn broadcast(&self, shape: Shape) -> Result<Shape> {
        let exponent = self.exponent.shape()?;
        shape.broadcast(&exponent).ok_or_else(|| refused("PowerTransform", format!("exponent of {exponent} does not broadcast with {shape}")))
    }
}
impl Transform for PowerTransform {
    fn name(&self) -> &'static str {
        "PowerTransform"
    }
    fn domain(&self) -> Constraint {
        Constraint::Positive
    }
    fn codomain(&self) -> Constraint {
        Constraint::Positive
    }
    fn sign(&self, _like: &Tensor) -> Option<Tensor> {
        Some(self.exponent.sign())
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        x.pow(&self.exponent)
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        y.pow(&self.exponent.reciprocal())
    }
    fn log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Tensor {
        (&self.exponent * y / x).abs().log()
    }
    fn forward_shape(&self, shape: Shape) -> Result<Shape> {
        self.broadcast(shape)
    }
    fn inverse_shape(&self, shape: Shape) -> Result<Shape> {
        self.broadcast(shape)
    }
}

/// `y = |x|`, which is not bijective: [`Transform::inverse`] gives the positive one. Source: `torch.distributions.transforms.AbsTransform`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AbsTransform;
impl Transform for AbsTransform {
    fn name(&self) -> &'static str {
        "AbsTransform"
    }
    fn domain(&self) -> Constraint {
        Constraint::Real
    }
    fn codomain(&self) -> Constraint {
        Constraint::NonNegative
    }
    fn bijective(&self) -> bool {
        false
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        x.abs()
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        y.clone()
    }
    fn log_abs_det_jacobian(&self, _x: &Tensor, _y: &Tensor) -> Tensor {
        no_volume("AbsTransform")
    }
}

/// A distribution's cdf: its values become uniform ones.
///
/// Source: `torch.distributions.transforms.CumulativeDistributionTransform`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::{Normal, transforms::{CumulativeDistributionTransform, Transform}};
/// # Device::reference().make_current();
/// let t = CumulativeDistributionTransform::new(Normal::new(&tensor![1.0], &tensor![2.0])?);
/// assert_eq!(t.forward(&tensor![1.0]).to_vec::<f32>()?, [0.5]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CumulativeDistributionTransform(Arc<dyn Distribution>);
impl CumulativeDistributionTransform {
    /// By this distribution.
    pub fn new(distribution: impl Distribution + 'static) -> CumulativeDistributionTransform {
        CumulativeDistributionTransform(Arc::new(distribution))
    }
}
impl Transform for CumulativeDistributionTransform {
    fn name(&self) -> &'static str {
        "CumulativeDistributionTransform"
    }
    fn domain(&self) -> Constraint {
        Constraint::Real
    }
    fn codomain(&self) -> Constraint {
        Constraint::Probability
    }
    fn sign(&self, like: &Tensor) -> Option<Tensor> {
        Some(like.ones_like())
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        self.0.cdf(x)
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        self.0.icdf(y)
    }
    fn log_abs_det_jacobian(&self, x: &Tensor, _y: &Tensor) -> Tensor {
        self.0.log_prob(x)
    }
}
