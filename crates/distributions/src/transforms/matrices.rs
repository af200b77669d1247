//! Maps of vectors to the simplex, and to triangles and matrices.
use super::{Transform, no_volume, refused};
use crate::Constraint;
use adamant_core::{DType, Result, Shape, Tensor};
use std::f64::consts::LN_2;

/// Softmax: `y = exp(x)`, over its sum. It is not bijective: [`Transform::inverse`] is the logarithm.
///
/// Source: `torch.distributions.transforms.SoftmaxTransform`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoftmaxTransform;
impl Transform for SoftmaxTransform {
    fn name(&self) -> &'static str {
        "SoftmaxTransform"
    }
    fn domain(&self) -> Constraint {
        Constraint::real_vector()
    }
    fn codomain(&self) -> Constraint {
        Constraint::Simplex
    }
    fn bijective(&self) -> bool {
        false
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        x.softmax(-1)
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        y.log()
    }
    fn log_abs_det_jacobian(&self, _x: &Tensor, _y: &Tensor) -> Tensor {
        no_volume("SoftmaxTransform")
    }
}

/// Vectors of K numbers to the simplex of K + 1: each takes its share of what those before have left.
///
/// Source: `torch.distributions.transforms.StickBreakingTransform`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::transforms::{StickBreakingTransform, Transform};
/// # Device::reference().make_current();
/// let y = StickBreakingTransform.forward(&tensor![0.0, 0.0]);
/// assert!(y.allclose(&tensor![1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0], 1e-6, 1e-6)?);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct StickBreakingTransform;
impl StickBreakingTransform {
    /// ln of how many shares there still are: `ln [K, .., 1]`.
    fn log_shares(x: &Tensor) -> Tensor {
        x.ones_like().flip(-1).cumsum(-1).flip(-1).log()
    }
    fn shape(shape: Shape, len: usize) -> Result<Shape> {
        Ok(shape.with(shape.rank() - 1, len))
    }
}
/// All but the last of a vector.
fn cropped(y: &Tensor) -> Tensor {
    y.slice_signed(-1, None, Some(-1), 1)
}
/// A vector with a number before it.
fn after(first: f64, x: &Tensor) -> Tensor {
    Tensor::cat(&[x.narrow(-1, 0, 1).full_like(first), x.clone()], -1)
}
impl Transform for StickBreakingTransform {
    fn name(&self) -> &'static str {
        "StickBreakingTransform"
    }
    fn domain(&self) -> Constraint {
        Constraint::real_vector()
    }
    fn codomain(&self) -> Constraint {
        Constraint::Simplex
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let z = x - StickBreakingTransform::log_shares(x);
        let (share, left) = (z.sigmoid(), z.neg().sigmoid().cumprod(-1));
        let last = share.narrow(-1, 0, 1).ones_like();
        Tensor::cat(&[share, last], -1) * after(1.0, &left)
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        let part = cropped(y);
        let tiny = if matches!(y.dtype(), Ok(DType::F64)) { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
        let left = (1.0 - part.cumsum(-1)).clamp_min(tiny);
        part.log() - left.log() + StickBreakingTransform::log_shares(&part)
    }
    fn log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let z = x - StickBreakingTransform::log_shares(x);
        (z.log_sigmoid() - z + cropped(y).log()).sum(-1)
    }
    fn forward_shape(&self, shape: Shape) -> Result<Shape> {
        match shape.last() {
            Some(k) if *k > 0 => StickBreakingTransform::shape(shape, k + 1),
            _ => Err(refused("StickBreakingTransform", format!("vectors of at least one number, not {shape}"))),
        }
    }
    fn inverse_shape(&self, shape: Shape) -> Result<Shape> {
        match shape.last() {
            Some(k) if *k > 1 => StickBreakingTransform::shape(shape, k - 1),
            _ => Err(refused("StickBreakingTransform", format!("vectors of at least two numbers, not {shape}"))),
        }
    }
}

/// Square matrices to lower triangles with a positive diagonal, which is the exponential of theirs. What stands above it is left away, so
/// the map is not bijective.
///
/// Source: `torch.distributions.transforms.LowerCholeskyTransform`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LowerCholeskyTransform;
fn real_matrix() -> Constraint {
    Constraint::Independent(Box::new(Constraint::Real), 2)
}
impl Transform for LowerCholeskyTransform {
    fn name(&self) -> &'static str {
        "LowerCholeskyTransform"
    }
    fn domain(&self) -> Constraint {
        real_matrix()
    }
    fn codomain(&self) -> Constraint {
        Constraint::LowerCholesky
    }
    fn bijective(&self) -> bool {
        false
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed(0, -2, -1)
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed(0, -2, -1)
    }
    fn log_abs_det_jacobian(&self, _x: &Tensor, _y: &Tensor) -> Tensor {
        no_volume("LowerCholeskyTransform")
    }
}

/// Square matrices to positive definite ones: [`LowerCholeskyTransform`], times its transpose.
///
/// Source: `torch.distributions.transforms.PositiveDefiniteTransform`.
#[derive(Clone, Copy, Debug, Default)]
pub struct PositiveDefiniteTransform;
impl Transform for PositiveDefiniteTransform {
    fn name(&self) -> &'static str {
        "PositiveDefiniteTransform"
    }
    fn domain(&self) -> Constraint {
        real_matrix()
    }
    fn codomain(&self) -> Constraint {
        Constraint::PositiveDefinite
    }
    fn bijective(&self) -> bool {
        false
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let root = LowerCholeskyTransform.forward(x);
        root.matmul(root.mt())
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        LowerCholeskyTransform.inverse(&y.cholesky())
    }
    fn log_abs_det_jacobian(&self, _x: &Tensor, _y: &Tensor) -> Tensor {
        no_volume("PositiveDefiniteTransform")
    }
}

/// Vectors of N (N - 1) / 2 numbers to the lower triangles L of N x N correlation matrices `L Lᵀ`: each row has length 1 and a positive
/// end.
///
/// Source: `torch.distributions.transforms.CorrCholeskyTransform`; Lewandowski, Kurowicka and Joe, "Generating random correlation
/// matrices based on vines and extended onion method", 2009.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::transforms::{CorrCholeskyTransform, Transform};
/// # Device::reference().make_current();
/// assert_eq!(CorrCholeskyTransform.forward(&tensor![0.0]).to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CorrCholeskyTransform;
/// The N of N (N - 1) / 2 numbers.
fn side(numbers: usize) -> Result<usize> {
    let n = ((0.25 + 2.0 * numbers as f64).sqrt() + 0.5).round() as usize;
    if n > 1 && n * (n - 1) / 2 == numbers { Ok(n) } else { Err(refused("CorrCholeskyTransform", format!("vectors of n (n - 1) / 2 numbers, not {numbers}"))) }
}
/// The numbers below the diagonal, row by row: of n x n matrices, those that lie `below` it.
fn below(matrix: &Tensor, n: usize, below: usize) -> Result<Tensor> {
    let places: Vec<i64> = (0..n).flat_map(|i| (0..n).filter(move |j| j + below <= i).map(move |j| (i * n + j) as i64)).collect();
    let shape = matrix.shape()?;
    let flat = [&shape[..shape.rank() - 2], &[n * n]].concat();
    let index = Tensor::from_vec_on(places.clone(), [places.len()], matrix.device()?);
    Ok(matrix.reshape(&flat[..]).index_select(-1, &index))
}
impl CorrCholeskyTransform {
    fn tried_forward(x: &Tensor) -> Result<Tensor> {
        let shape = x.shape()?;
        let n = side(shape.last().copied().unwrap_or(0))?;
        let unit = if matches!(x.dtype(), Ok(DType::F64)) { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let bounded = x.tanh().clamp(unit - 1.0, 1.0 - unit);
        // A zero behind the vector is what stands on the diagonal and above it.
        let zero = bounded.narrow(-1, 0, 1).zeros_like();
        let places: Vec<i64> = (0..n).flat_map(|i| (0..n).map(move |j| if j < i { i * (i - 1) / 2 + j } else { n * (n - 1) / 2 } as i64)).collect();
        let index = Tensor::from_vec_on(places, [n * n], x.device()?);
        let dims = [&shape[..shape.rank() - 1], &[n, n]].concat();
        let partial = Tensor::cat(&[bounded, zero], -1).index_select(-1, &index).reshape(&dims[..]);
        let left = (1.0 - partial.square()).sqrt().cumprod(-1);
        let eye = Tensor::eye_on(n, n, x.dtype()?, x.device()?);
        Ok((partial + eye) * after(1.0, &cropped(&left)))
    }
    fn tried_inverse(y: &Tensor) -> Result<Tensor> {
        let n = y.shape()?.last().copied().unwrap_or(0);
        let left = 1.0 - y.square().cumsum(-1);
        let partial = below(y, n, 1)? / below(&after(1.0, &cropped(&left)), n, 1)?.sqrt();
        Ok((partial.log1p() - partial.neg().log1p()) * 0.5)
    }
    fn tried_volume(x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let n = y.shape()?.last().copied().unwrap_or(0);
        let left = below(&(1.0 - y.square().cumsum(-1)), n, 2)?;
        Ok(left.log().sum(-1) * 0.5 - ((x * -2.0).softplus() + x - LN_2).sum(-1) * 2.0)
    }
}
impl Transform for CorrCholeskyTransform {
    fn name(&self) -> &'static str {
        "CorrCholeskyTransform"
    }
    fn domain(&self) -> Constraint {
        Constraint::real_vector()
    }
    fn codomain(&self) -> Constraint {
        Constraint::CorrCholesky
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        CorrCholeskyTransform::tried_forward(x).unwrap_or_else(Tensor::failed)
    }
    fn inverse(&self, y: &Tensor) -> Tensor {
        CorrCholeskyTransform::tried_inverse(y).unwrap_or_else(Tensor::failed)
    }
    fn log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Tensor {
        CorrCholeskyTransform::tried_volume(x, y).unwrap_or_else(Tensor::failed)
    }
    fn forward_shape(&self, shape: Shape) -> Result<Shape> {
        let n = side(shape.last().copied().unwrap_or(0))?;
        Shape::new(&[&shape[..shape.rank() - 1], &[n, n]].concat()).map_err(|kind| adamant_core::Error::new("CorrCholeskyTransform", kind))
    }
    fn inverse_shape(&self, shape: Shape) -> Result<Shape> {
        let rank = shape.rank();
        if rank < 2 || shape[rank - 1] != shape[rank - 2] || shape[rank - 1] < 2 {
            return Err(refused("CorrCholeskyTransform", format!("square matrices of at least two rows, not {shape}")));
        }
        let n = shape[rank - 1];
        Shape::new(&[&shape[..rank - 2], &[n * (n - 1) / 2]].concat()).map_err(|kind| adamant_core::Error::new("CorrCholeskyTransform", kind))
    }
}
