//! Invertible maps of values, with the volume that they make of one: what distributions are made of others by. Must not know
//! families.
mod combined;
mod elements;
mod matrices;
mod registry;

pub use combined::{CatTransform, ComposeTransform, IndependentTransform, ReshapeTransform, StackTransform};
pub use elements::{
    AbsTransform, AffineTransform, CumulativeDistributionTransform, ExpTransform, PowerTransform, SigmoidTransform, SoftplusTransform, TanhTransform,
};
pub use matrices::{CorrCholeskyTransform, LowerCholeskyTransform, PositiveDefiniteTransform, SoftmaxTransform, StickBreakingTransform};
pub use registry::{biject_to, identity_transform, transform_to};

use crate::Constraint;
use adamant_core::{Error, ErrorKind, Result, Shape, Tensor};
use std::fmt::Debug;

/// A map of values `[.., event..]` of a domain to those of a codomain.
///
/// Wrong calls give failed tensors whose error names the transform. Source: `torch.distributions.transforms.Transform`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::transforms::{ExpTransform, Transform};
/// # Device::reference().make_current();
/// let x = tensor![0.0, 1.0];
/// let y = ExpTransform.forward(&x);
/// assert!(ExpTransform.inverse(&y).allclose(&x, 1e-6, 1e-6)?);
/// assert_eq!(ExpTransform.log_abs_det_jacobian(&x, &y).to_vec::<f32>()?, [0.0, 1.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub trait Transform: Debug {
    /// Its name, PyTorch's.
    fn name(&self) -> &'static str;
    /// What it takes. The rank of an event is that of one value which it maps.
    fn domain(&self) -> Constraint;
    /// What it gives.
    fn codomain(&self) -> Constraint;
    /// Has each value of the codomain one of the domain, and the map a volume?
    fn bijective(&self) -> bool {
        true
    }
    /// The sign of the derivative, if it has one everywhere: a tensor of `like`'s dtype that broadcasts with it.
    fn sign(&self, _like: &Tensor) -> Option<Tensor> {
        None
    }
    /// The map.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor;
    /// The value that is mapped to `y`; one of them where there are several.
    #[track_caller]
    fn inverse(&self, y: &Tensor) -> Tensor;
    /// `ln |det ∂y/∂x|` at x, of which y is what it is mapped to: the domain's event axes are gone.
    #[track_caller]
    fn log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Tensor;
    /// The shape of what a shape is mapped to.
    ///
    /// # Errors
    /// The shape is none that the transform takes.
    fn forward_shape(&self, shape: Shape) -> Result<Shape> {
        Ok(shape)
    }
    /// The shape of what is mapped to a shape.
    ///
    /// # Errors
    /// The shape is none that the transform gives.
    fn inverse_shape(&self, shape: Shape) -> Result<Shape> {
        Ok(shape)
    }
}
/// Sums over the last axes.
pub(crate) fn sum_rightmost(x: &Tensor, axes: usize) -> Tensor {
    let over: Vec<isize> = (1..=axes as isize).map(|k| -k).collect();
    if over.is_empty() { x.clone() } else { x.sum(over) }
}
#[track_caller]
fn refused(name: &'static str, what: impl Into<String>) -> Error {
    Error::new(name, ErrorKind::Argument(what.into()))
}
/// There is no volume: a map that is not bijective.
#[track_caller]
fn no_volume(name: &'static str) -> Tensor {
    Tensor::failed(refused(name, format!("{name} is not bijective, so it has no log_abs_det_jacobian")))
}
