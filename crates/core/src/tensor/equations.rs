//! What follows from factors of matrices: solutions of equations, conditions, and products over batches. The functions are those
//! of PyTorch's `torch.linalg`.
use super::{
    MatrixNorm, Tensor,
    compose::{Built, compose, compose1, refuse},
};
use crate::{DType, ErrorKind, Scalar, Shape, composite::wide::same_dtype, shape::Axis};

impl Tensor {
    /// x with `A x = b`, where this tensor `[.., n, n]` is the Cholesky factor of A: lower triangular, or `upper`.
    #[track_caller]
    pub fn cholesky_solve(&self, b: &Tensor, upper: bool) -> Tensor {
        compose("cholesky_solve", &[self, b], || {
            let lower = if upper { self.mt() } else { self.clone() };
            Ok(lower.mt().solve_triangular(&lower.solve_triangular(b, false, false), true, false))
        })
    }
    /// The inverse of A, of which this tensor `[.., n, n]` is the Cholesky factor: lower triangular, or `upper`.
    #[track_caller]
    pub fn cholesky_inverse(&self, upper: bool) -> Tensor {
        compose1("cholesky_inverse", self, |x| {
            let n = x.meta().shape.last().copied().unwrap_or(0);
            let identity = Tensor::eye_on(n, n, x.meta().dtype, x.meta().device);
            Ok(x.cholesky_solve(&identity, upper))
        })
    }
    /// x of the least norm among those for which `self x - b` has the least: `[.., m, n]` and `[.., m, k]` give `[.., n, k]`.
    /// Singular values up to `rtol` times the largest count as zero; `None`: the dtype's epsilon times the larger size.
    #[track_caller]
    pub fn lstsq(&self, b: &Tensor, rtol: Option<f64>) -> Tensor {
        compose("lstsq", &[self, b], || {
            same_dtype(&self.meta(), &b.meta())?;
            Ok(self.pinv(rtol).matmul(b))
        })
    }
    /// The condition of each matrix: the largest singular value by the smallest, or, in another norm, that of the matrix times
    /// that of its inverse.
    #[track_caller]
    pub fn cond(&self, norm: Option<MatrixNorm>) -> Tensor {
        compose1("cond", self, |x| match norm {
            None => {
                let s = x.svdvals();
                Ok(s.amax(-1) / s.amin(-1))
            }
            Some(norm) => Ok(x.matrix_norm(norm) * x.inv().matrix_norm(norm)),
        })
    }
    /// The powers 0 to `columns - 1` of each element along a new last axis.
    #[track_caller]
    pub fn vander(&self, columns: usize) -> Tensor {
        compose1("vander", self, |x| {
            if columns == 0 {
                return refuse("a matrix of powers has at least one column");
            }
            // Powers of narrow integers are soon too large for them, as in PyTorch.
            let x = &if x.meta().dtype.is_int() { x.cast(DType::I64) } else { x.clone() };
            let mut powers = vec![x.ones_like()];
            while powers.len() < columns {
                let next = powers.last().map_or_else(|| x.clone(), |last| last * x);
                powers.push(next);
            }
            Ok(Tensor::stack(&powers, -1))
        })
    }
    /// The inner products of vectors along an axis, broadcast.
    #[track_caller]
    pub fn vecdot(&self, other: &Tensor, axis: impl Axis) -> Tensor {
        compose("vecdot", &[self, other], || {
            same_dtype(&self.meta(), &other.meta())?;
            let shape = crate::op::broadcast(&self.meta().shape, &other.meta().shape)?;
            let axis = shape.axis(axis.to_axis())?;
            let sum = (self * other).sum(axis as isize).ok()?;
            Ok(if sum.meta().dtype.is_float() { sum } else { sum.cast(self.meta().dtype) })
        })
    }
    /// The inverse of [`Tensor::tensordot_last`] by this tensor, whose first `axes` have as many elements together as the others.
    #[track_caller]
    pub fn tensorinv(&self, axes: usize) -> Tensor {
        compose1("tensorinv", self, |x| {
            let shape = x.meta().shape;
            if axes == 0 || axes >= shape.rank() {
                return refuse(format!("{axes} of {} axes", shape.rank()));
            }
            let (first, last) = shape.split_at(axes);
            let n = square(&shape, first, last)?;
            Ok(x.reshape([n, n]).inv().reshape(Shape::new(&[last, first].concat())?))
        })
    }
    /// x with `tensordot(self, x) = b` over all axes of x: this tensor's first axes are those of b, the others those of x.
    #[track_caller]
    pub fn tensorsolve(&self, b: &Tensor) -> Tensor {
        compose("tensorsolve", &[self, b], || {
            let (shape, right) = (self.meta().shape, b.meta().shape);
            if right.rank() > shape.rank() || shape[..right.rank()] != *right {
                return Err(ErrorKind::ShapeMismatch { left: shape, right, axes: None, expected: "the first axes are those of the right side" }.into());
            }
            let (first, last) = shape.split_at(right.rank());
            let n = square(&shape, first, last)?;
            Ok(self.reshape([n, n]).solve(&b.ravel()).reshape(Shape::new(last)?))
        })
    }
    /// `beta * self + alpha * Σ a b` over a batch of products of matrices `[batch, m, k]` and `[batch, k, n]`.
    #[track_caller]
    pub fn addbmm(&self, a: &Tensor, b: &Tensor, beta: impl Into<Scalar>, alpha: impl Into<Scalar>) -> Tensor {
        let (beta, alpha) = (beta.into(), alpha.into());
        compose("addbmm", &[self, a, b], || {
            let product = a.bmm(b);
            let sum = product.ok()?.sum(0).cast(a.meta().dtype);
            super::linalg::plus_product(self, &sum, beta, alpha)
        })
    }
    /// `beta * self + alpha * outer(a, b)` of two vectors.
    #[track_caller]
    pub fn addr(&self, a: &Tensor, b: &Tensor, beta: impl Into<Scalar>, alpha: impl Into<Scalar>) -> Tensor {
        let (beta, alpha) = (beta.into(), alpha.into());
        compose("addr", &[self, a, b], || {
            let [x, a, b] = crate::promotion::alike([self, a, b])?;
            let dtype = x.meta().dtype;
            if !dtype.is_float() {
                return super::linalg::plus_product(&x, &a.outer(&b), beta, alpha);
            }
            Ok(super::linalg::plus_product(&x.widened(), &a.widened().outer(&b.widened()), beta, alpha)?.rounded(dtype))
        })
    }
}
/// How many elements both groups of axes have.
fn square(shape: &Shape, first: &[usize], last: &[usize]) -> Built<usize> {
    let n: usize = first.iter().product();
    if n == last.iter().product() {
        Ok(n)
    } else {
        Err(ErrorKind::Shape { shape: *shape, expected: format!("as many elements in {first:?} as in {last:?}") }.into())
    }
}
