//! From numbers without bounds to what a constraint asks for.
use super::{
    CatTransform, ComposeTransform, CorrCholeskyTransform, ExpTransform, IndependentTransform, LowerCholeskyTransform, PositiveDefiniteTransform,
    SigmoidTransform, SoftmaxTransform, StackTransform, StickBreakingTransform, Transform, refused,
};
use crate::Constraint;
use adamant_core::{Result, Tensor};

/// `y = loc + scale x` by two numbers, which are of any dtype.
#[derive(Clone, Copy, Debug)]
struct Line {
    loc: f64,
    scale: f64,
}
impl Transform for Line {
    fn name(&self) -> &'static str {
        "AffineTransform"
    }
    fn domain(&self) -> Constraint {
        Constraint::Real
    }
    fn codomain(&self) -> Constraint {
        Constraint::Real
    }
    fn sign(&self, like: &Tensor) -> Option<Tensor> {
        Some(like.full_like(self.scale.signum()))
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        x * self.scale + self.loc
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        (y - self.loc) / self.scale
    }
    fn log_abs_det_jacobian(&self, x: &Tensor, _y: &Tensor) -> Tensor {
        x.full_like(self.scale.abs().ln())
    }
}
fn line(before: impl Transform + 'static, loc: f64, scale: f64) -> Box<dyn Transform> {
    Box::new(ComposeTransform::new(vec![Box::new(before), Box::new(Line { loc, scale })]))
}
/// The map that changes nothing: PyTorch's `identity_transform`.
pub fn identity_transform() -> ComposeTransform {
    ComposeTransform::new(Vec::new())
}
/// A bijection from numbers without bounds to what a constraint asks for, for example to sample in them.
///
/// # Errors
/// None is known: whole numbers, matrices, which [`transform_to`] may have a map for.
///
/// Source: `torch.distributions.biject_to`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::{Constraint, transforms::{Transform, biject_to}};
/// # Device::reference().make_current();
/// let t = biject_to(&Constraint::Interval(1.0, 3.0))?;
/// assert_eq!(t.forward(&tensor![0.0]).to_vec::<f32>()?, [2.0]);
/// assert!(biject_to(&Constraint::Count).is_err());
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[track_caller]
pub fn biject_to(constraint: &Constraint) -> Result<Box<dyn Transform>> {
    chosen(constraint, "biject_to")
}
/// A map from numbers without bounds to what a constraint asks for, for example to learn them: it may take more numbers than
/// there are.
///
/// # Errors
/// None is known: whole numbers.
///
/// Source: `torch.distributions.transform_to`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::{Constraint, transforms::{Transform, transform_to}};
/// # Device::reference().make_current();
/// assert_eq!(transform_to(&Constraint::Simplex)?.forward(&tensor![1.0, 1.0]).to_vec::<f32>()?, [0.5, 0.5]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[track_caller]
pub fn transform_to(constraint: &Constraint) -> Result<Box<dyn Transform>> {
    chosen(constraint, "transform_to")
}
#[track_caller]
fn chosen(constraint: &Constraint, called: &'static str) -> Result<Box<dyn Transform>> {
    let bijective = called == "biject_to";
    let each = |part: &Constraint| chosen(part, called);
    Ok(match constraint {
        Constraint::Real => Box::new(identity_transform()),
        Constraint::Positive | Constraint::NonNegative => Box::new(ExpTransform),
        Constraint::GreaterThan(low) | Constraint::AtLeast(low) => line(ExpTransform, *low, 1.0),
        Constraint::LessThan(high) => line(ExpTransform, *high, -1.0),
        Constraint::Probability | Constraint::PositiveProbability => Box::new(SigmoidTransform),
        Constraint::Interval(low, high) | Constraint::HalfOpenInterval(low, high) => line(SigmoidTransform, *low, high - low),
        Constraint::Simplex if bijective => Box::new(StickBreakingTransform),
        Constraint::Simplex => Box::new(SoftmaxTransform),
        Constraint::CorrCholesky => Box::new(CorrCholeskyTransform),
        Constraint::LowerCholesky if !bijective => Box::new(LowerCholeskyTransform),
        Constraint::PositiveDefinite | Constraint::PositiveSemidefinite if !bijective => Box::new(PositiveDefiniteTransform),
        Constraint::Independent(base, axes) => Box::new(IndependentTransform::of(each(base)?.into(), *axes)),
        Constraint::Cat(parts, axis) => {
            let parts: Result<Vec<_>> = parts.iter().map(|(part, len)| Ok((each(part)?, *len))).collect();
            Box::new(CatTransform::new(parts?, *axis)?)
        }
        Constraint::Stack(parts, axis) => Box::new(StackTransform::new(parts.iter().map(each).collect::<Result<Vec<_>>>()?, *axis)?),
        _ => return Err(refused(called, format!("no map is known to what must be {constraint}"))),
    })
}
