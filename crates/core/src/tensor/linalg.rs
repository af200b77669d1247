//! Products of vectors, matrices and batches of them.
use super::{
    Tensor,
    compose::{Built, compose, refuse},
};
use crate::{Arg, DType, ErrorKind, Op, Scalar, Shape, composite::wide::same_dtype, shape::ToSizes};
use std::borrow::Borrow;

impl Tensor {
    /// The matrix product, as `torch.matmul`: vectors count as a row on the left and a column on the right and lose that
    /// axis again; leading axes are batches and broadcast.
    #[track_caller]
    pub fn matmul(&self, other: impl Borrow<Tensor>) -> Tensor {
        let other = other.borrow();
        let (a, b) = (self.meta().shape, other.meta().shape);
        // The plain case, also what gradients are made of.
        let same_batch = a.rank() >= 2 && a.rank() == b.rank() && a[..a.rank() - 2] == b[..b.rank() - 2];
        if same_batch {
            return Tensor::apply(Op::Matmul, Arg::None, &[self, other]);
        }
        compose("matmul", &[self, other], || {
            if a.rank() == 0 || b.rank() == 0 {
                return Err(ErrorKind::ShapeMismatch {
                    left: a,
                    right: b,
                    axes: None,
                    expected: "a product needs vectors, matrices or batches of them, not scalars",
                }
                .into());
            }
            let dtype = self.meta().dtype;
            if a.rank() == 1 && a == b && dtype == other.meta().dtype && matches!(dtype, DType::F32 | DType::F64) {
                // One sum, whose parts are added side by side: a product's come one after the other.
                return Ok((self * other).sum(..));
            }
            let left = if a.rank() == 1 { self.unsqueeze(0) } else { self.clone() };
            let right = if b.rank() == 1 { other.unsqueeze(1) } else { other.clone() };
            let product = batched(&left, &right)?;
            let (mut dims, rank) = (product.try_meta()?.shape.to_vec(), product.rank());
            if b.rank() == 1 {
                dims.remove(rank - 1);
            }
            if a.rank() == 1 {
                dims.remove(rank - 2);
            }
            Ok(product.reshape(dims))
        })
    }
    /// As [`Tensor::matmul`], of operands whose values `dtype` holds: they are widened to it one by one, and sums and result are
    /// of it. So bytes give whole numbers that do not overflow soon (`torch._int_mm`: i8 or u8 times i8 or u8 to i32, exact
    /// modulo 2^32), and 16-bit floats give sums that are not rounded to 16 bits (`out_dtype` of `torch.mm`). The operands need
    /// not have one dtype. A backend that claims it widens where it reads; no wider copy lies in memory.
    ///
    /// # Errors
    /// A dtype that does not hold the operands'; shapes as of [`Tensor::matmul`].
    ///
    /// ```
    /// # use adamant_core::{DType, Device, Tensor};
    /// # Device::reference().make_current();
    /// let a = Tensor::from_slice(&[100i8, 100, -100, 1], [2, 2]);
    /// let b = Tensor::from_slice(&[200u8, 0, 200, 1], [2, 2]);
    /// assert_eq!(a.matmul_to(&b, DType::I32).to_vec::<i32>()?, [40_000, 100, -19_800, 1]);
    /// assert!(a.matmul_to(&b, DType::I8).error().is_some());
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    pub fn matmul_to(&self, other: impl Borrow<Tensor>, dtype: DType) -> Tensor {
        let other = other.borrow();
        compose("matmul_to", &[self, other], || {
            for narrow in [self.meta().dtype, other.meta().dtype] {
                if !dtype.holds(narrow) {
                    return Err(ErrorKind::Dtype(format!("a product to {dtype} needs operands whose values {dtype} holds, not {narrow}")).into());
                }
            }
            Ok(self.cast(dtype).matmul(other.cast(dtype)))
        })
    }
    /// The product of two matrices, without broadcasting.
    #[track_caller]
    pub fn mm(&self, other: &Tensor) -> Tensor {
        compose("mm", &[self, other], || {
            ranks(self, other, 2, 2, "two matrices")?;
            Ok(self.matmul(other))
        })
    }
    /// The products of two equal batches of matrices (three axes each).
    #[track_caller]
    pub fn bmm(&self, other: &Tensor) -> Tensor {
        compose("bmm", &[self, other], || {
            ranks(self, other, 3, 3, "two batches of matrices, of three axes each")?;
            Ok(Tensor::apply(Op::Matmul, Arg::None, &[self, other]))
        })
    }
    /// A matrix times a vector.
    #[track_caller]
    pub fn mv(&self, vector: &Tensor) -> Tensor {
        compose("mv", &[self, vector], || {
            ranks(self, vector, 2, 1, "a matrix and a vector")?;
            Ok(self.matmul(vector))
        })
    }
    /// The inner product of two vectors of one length.
    #[track_caller]
    pub fn dot(&self, other: &Tensor) -> Tensor {
        compose("dot", &[self, other], || {
            ranks(self, other, 1, 1, "two vectors")?;
            let (a, b) = (self.meta().shape, other.meta().shape);
            if a != b {
                return Err(ErrorKind::ShapeMismatch { left: a, right: b, axes: Some((0, 0)), expected: "both vectors must have one length" }.into());
            }
            Ok(self.matmul(other))
        })
    }
    /// All products of an element of one vector with one of the other: `[m]` and `[n]` give `[m, n]`.
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Tensor {
        compose("outer", &[self, other], || {
            ranks(self, other, 1, 1, "two vectors")?;
            Ok(self.unsqueeze(1) * other.unsqueeze(0))
        })
    }
    /// `beta * self + alpha * a b` for matrices a and b.
    #[track_caller]
    pub fn addmm(&self, a: &Tensor, b: &Tensor, beta: impl Into<Scalar>, alpha: impl Into<Scalar>) -> Tensor {
        let (beta, alpha) = (beta.into(), alpha.into());
        compose("addmm", &[self, a, b], || plus_product(self, &a.mm(b), beta, alpha))
    }
    /// `beta * self + alpha * a v` for a matrix a and a vector v.
    #[track_caller]
    pub fn addmv(&self, a: &Tensor, v: &Tensor, beta: impl Into<Scalar>, alpha: impl Into<Scalar>) -> Tensor {
        let (beta, alpha) = (beta.into(), alpha.into());
        compose("addmv", &[self, a, v], || plus_product(self, &a.mv(v), beta, alpha))
    }
    /// `beta * self + alpha * a b` for batches of matrices a and b.
    #[track_caller]
    pub fn baddbmm(&self, a: &Tensor, b: &Tensor, beta: impl Into<Scalar>, alpha: impl Into<Scalar>) -> Tensor {
        let (beta, alpha) = (beta.into(), alpha.into());
        compose("baddbmm", &[self, a, b], || plus_product(self, &a.bmm(b), beta, alpha))
    }
    /// The product of several matrices, in the order that needs the fewest multiplications (dynamic programming). The first and the
    /// last may be vectors: a row and a column, whose axis the result has not.
    #[track_caller]
    pub fn multi_dot<T: Borrow<Tensor>>(matrices: &[T]) -> Tensor {
        let all: Vec<&Tensor> = matrices.iter().map(|t| t.borrow()).collect();
        compose("multi_dot", &all, || {
            if all.len() < 2 {
                return refuse("at least two matrices are needed");
            }
            let n = all.len();
            let (row, column) = (all[0].rank() == 1, all[n - 1].rank() == 1);
            let ends = [if row { all[0].unsqueeze(0) } else { all[0].clone() }, if column { all[n - 1].unsqueeze(1) } else { all[n - 1].clone() }];
            let all: Vec<&Tensor> = all
                .iter()
                .enumerate()
                .map(|(k, m)| {
                    if k == 0 {
                        &ends[0]
                    } else if k == n - 1 {
                        &ends[1]
                    } else {
                        *m
                    }
                })
                .collect();
            if let Some(m) = all.iter().find(|m| m.rank() != 2) {
                return Err(ErrorKind::Shape { shape: m.meta().shape, expected: "a matrix".into() }.into());
            }
            let sizes: Vec<u128> = all.iter().map(|m| m.meta().shape[0] as u128).chain([all[n - 1].meta().shape[1] as u128]).collect();
            let (mut cost, mut cut) = (vec![vec![0u128; n]; n], vec![vec![0usize; n]; n]);
            for len in 1..n {
                for i in 0..n - len {
                    let j = i + len;
                    (cost[i][j], cut[i][j]) = (i..j).map(|k| (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)).min().unwrap_or((0, i));
                }
            }
            let product = chain(&all, &cut, 0, n - 1);
            let product = if column { product.squeeze(1) } else { product };
            Ok(if row { product.squeeze(0) } else { product })
        })
    }
    /// `out[.., o] = sum_ij self[.., i] weight[o, i, j] other[.., j] + bias[o]`.
    #[track_caller]
    pub fn bilinear(&self, other: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let mut inputs = vec![self, other, weight];
        inputs.extend(bias);
        compose("bilinear", &inputs, || {
            let (a, b, w) = (self.meta().shape, other.meta().shape, weight.meta().shape);
            let (Some(&i), Some(&j)) = (a.last(), b.last()) else {
                return Err(ErrorKind::ShapeMismatch { left: a, right: b, axes: None, expected: "inputs of at least one axis" }.into());
            };
            if a[..a.rank() - 1] != b[..b.rank() - 1] {
                return Err(ErrorKind::ShapeMismatch { left: a, right: b, axes: None, expected: "all sizes but the last must be equal" }.into());
            }
            if w.rank() != 3 || w[1] != i || w[2] != j {
                return Err(ErrorKind::Shape { shape: w, expected: format!("a weight [out, {i}, {j}]") }.into());
            }
            if let Some(bias) = bias.map(|b| b.meta().shape).filter(|shape| **shape != [w[0]]) {
                return Err(ErrorKind::Shape { shape: bias, expected: format!("a bias [{}]", w[0]) }.into());
            }
            let n: usize = a[..a.rank() - 1].iter().product();
            // [n, i] x [i, out * j], then each row's [out, j] times its [j].
            let half = self.reshape([n, i]).matmul(weight.permute([1usize, 0, 2]).reshape([i, w[0] * j]));
            let y = half.reshape([n, w[0], j]).matmul(other.reshape([n, j, 1])).reshape(a.with(a.rank() - 1, w[0]));
            Ok(match bias {
                Some(b) => y + b,
                None => y,
            })
        })
    }
    /// Sums of products over axes of both, which are matched in the order given; the other axes of both follow each other.
    #[track_caller]
    pub fn tensordot(&self, other: &Tensor, axes: impl ToSizes, other_axes: impl ToSizes) -> Tensor {
        compose("tensordot", &[self, other], || {
            let (a, b) = (self.meta().shape, other.meta().shape);
            let resolve = |axes: &[isize], shape: &Shape| -> Built<Vec<usize>> {
                let axes = axes.iter().map(|&k| shape.axis(k)).collect::<Result<Vec<_>, _>>()?;
                if (1..axes.len()).any(|k| axes[..k].contains(&axes[k])) {
                    return refuse(format!("an axis is named twice in {axes:?}"));
                }
                Ok(axes)
            };
            let (left, right) = (resolve(&axes.to_sizes(), &a)?, resolve(&other_axes.to_sizes(), &b)?);
            if left.len() != right.len() {
                return refuse(format!("{} axes are matched with {}", left.len(), right.len()));
            }
            if let Some((&i, &j)) = left.iter().zip(&right).find(|&(&i, &j)| a[i] != b[j]) {
                return Err(ErrorKind::ShapeMismatch { left: a, right: b, axes: Some((i, j)), expected: "matched axes must have one size" }.into());
            }
            let rest = |shape: &Shape, used: &[usize]| (0..shape.rank()).filter(|k| !used.contains(k)).collect::<Vec<_>>();
            let (own_left, own_right) = (rest(&a, &left), rest(&b, &right));
            let size = |shape: &Shape, axes: &[usize]| axes.iter().map(|&k| shape[k]).product::<usize>();
            let inner = size(&a, &left);
            let x = self.permute(own_left.iter().chain(&left).copied().collect::<Vec<_>>()).reshape([size(&a, &own_left), inner]);
            let y = other.permute(right.iter().chain(&own_right).copied().collect::<Vec<_>>()).reshape([inner, size(&b, &own_right)]);
            let dims: Vec<usize> = own_left.iter().map(|&k| a[k]).chain(own_right.iter().map(|&k| b[k])).collect();
            Ok(x.matmul(y).reshape(Shape::new(&dims)?))
        })
    }
    /// [`Tensor::tensordot`] over the last `n` axes of this tensor and the first `n` of the other.
    #[track_caller]
    pub fn tensordot_last(&self, other: &Tensor, n: usize) -> Tensor {
        compose("tensordot_last", &[self, other], || {
            let rank = self.rank();
            if n > rank || n > other.rank() {
                return refuse(format!("{n} axes of tensors of {rank} and {}", other.rank()));
            }
            Ok(self.tensordot(other, (rank - n..rank).collect::<Vec<usize>>(), (0..n).collect::<Vec<usize>>()))
        })
    }
    /// The Kronecker product: each element of this tensor times the whole other one.
    #[track_caller]
    pub fn kron(&self, other: &Tensor) -> Tensor {
        compose("kron", &[self, other], || {
            let rank = self.rank().max(other.rank());
            let lead = |t: &Tensor| std::iter::repeat_n(1, rank - t.rank()).chain(t.meta().shape.iter().copied()).collect::<Vec<usize>>();
            let (a, b) = (lead(self), lead(other));
            let dims: Vec<usize> = a.iter().zip(&b).map(|(x, y)| x * y).collect();
            if 2 * rank > crate::MAX_RANK {
                return Err(
                    ErrorKind::Shape { shape: self.meta().shape, expected: format!("at most {} axes for a Kronecker product", crate::MAX_RANK / 2) }.into()
                );
            }
            let wide = |d: &[usize], at: usize| d.iter().flat_map(|&n| if at == 0 { [n, 1] } else { [1, n] }).collect::<Vec<usize>>();
            Ok((self.reshape(wide(&a, 0)) * other.reshape(wide(&b, 1))).reshape(Shape::new(&dims)?))
        })
    }
    /// The sums of products along the last axis of both, for all pairs of rows: `[.., n]` and `[.., n]` give `[.., ..]`. A scalar
    /// multiplies.
    #[track_caller]
    pub fn inner(&self, other: &Tensor) -> Tensor {
        compose("inner", &[self, other], || if self.rank() == 0 || other.rank() == 0 { Ok(self * other) } else { Ok(self.tensordot(other, &[-1], &[-1])) })
    }
    /// The cross product of the vectors of length 3 along an axis.
    #[track_caller]
    pub fn cross(&self, other: &Tensor, axis: impl crate::Axis) -> Tensor {
        compose("cross", &[self, other], || {
            same_dtype(&self.meta(), &other.meta())?;
            let shape = crate::op::broadcast(&self.meta().shape, &other.meta().shape)?;
            let axis = shape.axis(axis.to_axis())?;
            if shape[axis] != 3 || self.rank() != other.rank() {
                return Err(ErrorKind::ShapeMismatch {
                    left: self.meta().shape,
                    right: other.meta().shape,
                    axes: None,
                    expected: "vectors of length 3 along the axis",
                }
                .into());
            }
            let (a, b) = (self.expand(shape).unbind(axis)?, other.expand(shape).unbind(axis)?);
            let parts = [(1, 2), (2, 0), (0, 1)].map(|(i, j)| &a[i] * &b[j] - &a[j] * &b[i]);
            Ok(Tensor::stack(&parts, axis))
        })
    }
}

fn ranks(a: &Tensor, b: &Tensor, left: usize, right: usize, expected: &'static str) -> Built<()> {
    if a.rank() == left && b.rank() == right {
        Ok(())
    } else {
        Err(ErrorKind::ShapeMismatch { left: a.meta().shape, right: b.meta().shape, axes: None, expected }.into())
    }
}
pub(super) fn plus_product(x: &Tensor, product: &Tensor, beta: Scalar, alpha: Scalar) -> Built<Tensor> {
    if product.error().is_none() {
        same_dtype(&x.meta(), &product.meta())?;
    }
    let scaled = |t: &Tensor, s: Scalar| if s.to_f64() == 1.0 { t.clone() } else { t * s };
    if product.error().is_none() && x.meta().shape.broadcast(&product.meta().shape) != Some(product.meta().shape) {
        return Err(ErrorKind::ShapeMismatch {
            left: x.meta().shape,
            right: product.meta().shape,
            axes: None,
            expected: "what is added must broadcast to the product",
        }
        .into());
    }
    // As in PyTorch, nothing of x is read where beta is 0, not even NaN.
    Ok(if beta.to_f64() == 0.0 { scaled(product, alpha) } else { scaled(x, beta) + scaled(product, alpha) })
}
fn chain(matrices: &[&Tensor], cut: &[Vec<usize>], i: usize, j: usize) -> Tensor {
    if i == j { matrices[i].clone() } else { chain(matrices, cut, i, cut[i][j]).matmul(chain(matrices, cut, cut[i][j] + 1, j)) }
}
/// Matrices or batches of them, whose leading axes broadcast.
fn batched(a: &Tensor, b: &Tensor) -> Built<Tensor> {
    let (s, t) = (a.meta().shape, b.meta().shape);
    let (m, k, n) = (s[s.rank() - 2], s[s.rank() - 1], t[t.rank() - 1]);
    if k != t[t.rank() - 2] {
        return Err(ErrorKind::ShapeMismatch { left: s, right: t, axes: Some((s.rank() - 1, t.rank() - 2)), expected: "inner sizes must be equal" }.into());
    }
    let lead = |s: &Shape| Shape::new(&s[..s.rank() - 2]);
    let (lead_a, lead_b) = (lead(&s)?, lead(&t)?);
    let Some(batch) = lead_a.broadcast(&lead_b) else {
        return Err(ErrorKind::ShapeMismatch { left: s, right: t, axes: None, expected: "batch sizes do not broadcast" }.into());
    };
    let with = |rows: usize, columns: usize| Shape::new(&batch.iter().copied().chain([rows, columns]).collect::<Vec<_>>());
    let out = with(m, n)?;
    if lead_b.elements() == 1 && lead_a.elements() != 1 {
        // One matrix for the whole batch: the batch's rows follow each other in one product.
        let rows: usize = lead_a.iter().product::<usize>() * m;
        return Ok(a.reshape([rows, k]).matmul(b.reshape([k, n])).reshape(out));
    }
    if batch.elements() == 1 {
        return Ok(a.reshape([m, k]).matmul(b.reshape([k, n])).reshape(out));
    }
    if lead_a.elements() == 1 && a.meta().dtype.size() == 2 {
        // The same from the other side, (bᵀ aᵀ)ᵀ: the gradient of a is one product, not a sum of rounded ones.
        let columns: usize = lead_b.iter().product::<usize>() * n;
        return Ok(b.mt().reshape([columns, k]).matmul(a.reshape([m, k]).mt()).reshape(with(n, m)?).mt());
    }
    Ok(Tensor::apply(Op::Matmul, Arg::None, &[&a.expand(with(m, k)?), &b.expand(with(k, n)?)]))
}
