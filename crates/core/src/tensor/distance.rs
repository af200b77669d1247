//! Norms and distances. Their gradients where the norm is 0 are 0, as in PyTorch.
use super::{
    Tensor,
    compose::{Built, compose, compose1, refuse, two_forms},
    reduce::count,
};
use crate::{
    AxisSet, DType, ErrorKind, Shape,
    composite::{
        distances::Distances,
        wide::{floats, same_dtype},
    },
    op::ReduceOp,
    promotion::alike,
    scope::call,
    shape::{Axes, Axis},
};

/// Which norm of a matrix [`Tensor::matrix_norm`] takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum MatrixNorm {
    /// the root of the sum of squares
    Fro,
    /// the sum of the singular values
    Nuc,
    /// ±1: largest (smallest) column sum; ±2: largest (smallest) singular value; ±inf: largest (smallest) row sum
    Ord(f64),
}

impl Tensor {
    #[track_caller]
    fn vector_norm_of(&self, ord: f64, axes: impl Axes, keepdim: bool) -> Tensor {
        compose1("vector_norm", self, |x| {
            let (dtype, axes) = (x.meta().dtype, axes.to_axes(&x.meta().shape)?);
            if !dtype.is_float() {
                return Err(ErrorKind::Dtype(format!("a norm takes floats, not {dtype}")).into());
            }
            Ok(norm(&x.wide(), ord, axes)?.drop(axes, keepdim).cast(dtype))
        })
    }
    /// The Euclidean norm of all elements.
    #[track_caller]
    #[must_use]
    pub fn norm(&self) -> Tensor {
        let _call = call("norm");
        self.vector_norm(2.0, ..)
    }
    #[track_caller]
    fn matrix_norm_of(&self, ord: MatrixNorm, keepdim: bool) -> Tensor {
        compose1("matrix_norm", self, |x| {
            let rank = x.rank();
            if rank < 2 {
                return Err(ErrorKind::Shape { shape: x.meta().shape, expected: "at least two axes".into() }.into());
            }
            let (rows, columns) = (AxisSet::one(rank - 2), AxisSet::one(rank - 1));
            let both = AxisSet(rows.0 | columns.0);
            let sums_then = |first: AxisSet, second: AxisSet, largest: bool| {
                // The largest of no sums is 0: no norm is below it.
                let none = largest && second.iter().any(|axis| x.meta().shape[axis] == 0);
                if none {
                    return x.abs().sum_keepdim(both);
                }
                x.abs().sum_keepdim(first).reduce(if largest { ReduceOp::Max } else { ReduceOp::Min }, second, true)
            };
            let singular = |op| -> Built<Tensor> {
                let s = x.svdvals();
                let none = op == ReduceOp::Max && s.meta().shape.last() == Some(&0);
                Ok(if op == ReduceOp::Sum || none { s.sum_keepdim(-1) } else { s.reduce(op, -1, true) }.unsqueeze(-1))
            };
            let kept = match ord {
                MatrixNorm::Fro => x.vector_norm_keepdim(2.0, both),
                MatrixNorm::Nuc => singular(ReduceOp::Sum)?,
                MatrixNorm::Ord(2.0) => singular(ReduceOp::Max)?,
                MatrixNorm::Ord(-2.0) => singular(ReduceOp::Min)?,
                MatrixNorm::Ord(o) if o.abs() == 1.0 => sums_then(rows, columns, o > 0.0),
                MatrixNorm::Ord(o) if o.is_infinite() => sums_then(columns, rows, o > 0.0),
                MatrixNorm::Ord(o) => return refuse(format!("there is no matrix norm of order {o}; there are ±1, ±2, ±inf, fro and nuc")),
            };
            Ok(kept.drop(both, keepdim))
        })
    }
    /// Divided by its norm along an axis, or by `eps` where that is larger.
    #[track_caller]
    pub fn normalize(&self, p: f64, axis: impl Axes, eps: f64) -> Tensor {
        compose1("normalize", self, |x| {
            let (dtype, axes, wide) = (x.meta().dtype, axis.to_axes(&x.meta().shape)?, x.wide());
            let norm = wide.vector_norm_keepdim(p, axes);
            Ok((&wide / norm.maximum(eps)).cast(dtype))
        })
    }
    /// Distances of all pairs of rows: `[.., p, m]` and `[.., r, m]` give `[.., p, r]`, in the `ord`-norm.
    #[track_caller]
    pub fn cdist(&self, other: &Tensor, ord: f64) -> Tensor {
        compose("cdist", &[self, other], || {
            same_dtype(&self.meta(), &other.meta())?;
            let (a, b) = (self.meta().shape, other.meta().shape);
            if a.rank() < 2 || b.rank() < 2 || a[a.rank() - 1] != b[b.rank() - 1] {
                return Err(ErrorKind::ShapeMismatch { left: a, right: b, axes: None, expected: "rows of one length (the last axis) are needed" }.into());
            }
            if ord.is_nan() || ord < 0.0 {
                return refuse(format!("distances of order {ord}: the order is not negative"));
            }
            let dtype = floats(&self.meta())?.dtype;
            let lead = crate::op::broadcast(&Shape::new(&a[..a.rank() - 2])?, &Shape::new(&b[..b.rank() - 2])?)?;
            let rows = |x: &Tensor, shape: &Shape| -> Built<Tensor> {
                let dims: Vec<usize> = lead.iter().chain(&shape[shape.rank() - 2..]).copied().collect();
                Ok(x.expand(Shape::new(&dims)?).wide())
            };
            Ok(Tensor::composite1(Distances { ord, among: false }, &[&rows(self, &a)?, &rows(other, &b)?]).cast(dtype))
        })
    }
    /// The cosine of the angle between the vectors along an axis; norms below `eps` count as `eps`. Floats, in the dtype in which
    /// they meet.
    #[track_caller]
    pub fn cosine_similarity(&self, other: &Tensor, axis: impl Axis, eps: f64) -> Tensor {
        compose("cosine_similarity", &[self, other], || {
            let (a, b) = (self.meta(), other.meta());
            let shape = crate::op::broadcast(&a.shape, &b.shape)?;
            // A number beside a number is a vector of one.
            let scalar = shape.rank() == 0;
            let shape = if scalar { Shape::new(&[1])? } else { shape };
            let axis = shape.axis(axis.to_axis())?;
            let [x, y] = alike([self, other])?;
            let dtype = floats(&x.meta())?.dtype;
            let (x, y) = (x.expand(shape).wide(), y.expand(shape).wide());
            let unit = |x: &Tensor| x / x.vector_norm_keepdim(2.0, axis).maximum(eps);
            Ok((unit(&x) * unit(&y)).sum(axis as isize).cast(dtype))
        })
    }
    /// The norm of order `ord` of the difference, over all elements.
    #[track_caller]
    pub fn dist(&self, other: &Tensor, ord: f64) -> Tensor {
        compose("dist", &[self, other], || Ok((self - other).ravel().vector_norm(ord, 0)))
    }
}

two_forms! {
    /// The `ord`-norm over the axes: `sum(|x|^ord)^(1/ord)`; ±inf: the largest (smallest) magnitude; 0: how many are not zero.
    vector_norm vector_norm_keepdim(ord: f64, axes: impl Axes) -> Tensor = |x, keepdim| x.vector_norm_of(ord, axes, keepdim);
    /// A norm of each matrix (the last two axes).
    matrix_norm matrix_norm_keepdim(ord: MatrixNorm) -> Tensor = |x, keepdim| x.matrix_norm_of(ord, keepdim);
    /// The norm of `self - other + eps` along the last axis.
    pairwise_distance pairwise_distance_keepdim(other: &Tensor, ord: f64, eps: f64) -> Tensor = |x, keepdim| {
        compose("pairwise_distance", &[x, other], || Ok((x - other + eps).vector_norm_of(ord, -1, keepdim)))
    };
}

/// The norm with its axes kept.
fn norm(x: &Tensor, ord: f64, axes: AxisSet) -> Built<Tensor> {
    let sum = |t: &Tensor| t.reduce(ReduceOp::Sum, axes, true);
    if ord.is_nan() {
        return refuse("the order of a norm is a number");
    }
    if ord.is_infinite() {
        if count(&x.meta().shape, axes) == 0 && ord > 0.0 {
            return Ok(sum(&x.abs()));
        }
        return Ok(x.abs().reduce(if ord > 0.0 { ReduceOp::Max } else { ReduceOp::Min }, axes, true));
    }
    if ord == 0.0 {
        return Ok(sum(&x.detach().nonzero_mask()).cast(x.meta().dtype));
    }
    if ord == 1.0 {
        return Ok(sum(&x.abs()));
    }
    if ord == 2.0 {
        return Ok(euclidean(x, axes));
    }
    if count(&x.meta().shape, axes) == 0 {
        return Ok(sum(&x.abs()));
    }
    // Zeros take no part in the gradient, whose powers of 0 are infinite or undefined; nor does what is nothing beside the others.
    let none_of = if ord > 0.0 { 0.0 } else { f64::INFINITY };
    let size = x.eq(0.0).where_(none_of, x.abs()).detach();
    let scale = power_of_two_near(&size.reduce(if ord > 0.0 { ReduceOp::Max } else { ReduceOp::Min }, axes, true));
    let scaled = x.abs() / &scale;
    let zero = scaled.eq(0.0);
    let power = zero.where_(1.0, &scaled).pow(ord);
    let total = sum(&zero.where_(none_of, &power));
    let none = total.eq(0.0);
    Ok(none.where_(0.0, none.where_(1.0, &total).pow(1.0 / ord) * scale))
}
/// The root of the sum of squares of what has been scaled by a power of two, exactly: squares of numbers beyond the square root of
/// the dtype's largest or smallest are infinite or nothing.
pub(super) fn euclidean(x: &Tensor, axes: AxisSet) -> Tensor {
    if count(&x.meta().shape, axes) == 0 {
        return x.square().reduce(ReduceOp::Sum, axes, true);
    }
    let meta = x.meta();
    if meta.dtype == DType::F32 && meta.device.widest_float() == DType::F64 {
        // Squares of f32 are numbers of f64, whatever they are.
        return x.cast(DType::F64).square().reduce(ReduceOp::Sum, axes, true).sqrt_flat_at_zero().cast(DType::F32);
    }
    let scale = power_of_two_near(&x.detach().abs().reduce(ReduceOp::Max, axes, true));
    (x / &scale).square().reduce(ReduceOp::Sum, axes, true).sqrt_flat_at_zero() * scale
}
/// A power of two up to four times smaller than a size, and 1 for 0 and what is no number. No gradient flows to it.
pub(super) fn power_of_two_near(size: &Tensor) -> Tensor {
    let last = if size.meta().dtype == DType::F64 { 1022.0 } else { 126.0 };
    let plain = size.gt(0.0).logical_and(size.lt(f64::INFINITY));
    let whole = (plain.where_(size, 1.0).log2().floor() - 1.0).clamp(-last, last);
    plain.where_(&whole.exp2(), 1.0).detach()
}
