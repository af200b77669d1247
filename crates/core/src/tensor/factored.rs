//! Factorizations in LAPACK's packed forms, and what is made of them: LU, LDLᵀ, reflections; functions of matrices; eigenvalues
//! without symmetry. The functions are those of `torch.linalg`, in f32 and f64, of matrices (the last two axes) or batches.
use super::{
    Tensor,
    compose::{Built, compose, compose1},
    packed::{PackedFactor, unpacked},
};
use crate::{DType, ErrorKind, Shape};

/// Which factors [`Tensor::qr_mode`] returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QrMode {
    /// q `[.., m, k]` and r `[.., k, n]`, k the smaller size
    #[default]
    Reduced,
    /// q `[.., m, m]` and r `[.., m, n]`
    Complete,
    /// an empty q and r `[.., k, n]`
    R,
}

fn outputs<const N: usize>(f: PackedFactor, inputs: &[&Tensor]) -> Built<[Tensor; N]> {
    let all: Vec<Tensor> = Tensor::composite(f, inputs).into_iter().take(N).collect();
    all.try_into().map_err(|all: Vec<Tensor>| match all.iter().find_map(|t| t.error()) {
        Some(error) => error.into(),
        None => ErrorKind::Internal(format!("{} outputs instead of {N}", all.len())).into(),
    })
}

/// LU with row pivots.
impl Tensor {
    /// Both factors in one matrix `[.., m, n]` (L below the diagonal, whose own ones are not stored, and U) and pivots
    /// `[.., min(m, n)]` (i32): row i changed places with row `pivots[i] - 1`, as in LAPACK. What [`Tensor::lu_solve`] takes.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// let a = tensor![[1.0, 2.0], [4.0, 4.0]];
    /// let (lu, pivots) = a.lu_factor();
    /// assert_eq!(lu.to_vec::<f32>()?, [4.0, 4.0, 0.25, 1.0]);
    /// assert_eq!(pivots.to_vec::<i32>()?, [2, 2]);
    /// assert_eq!(lu.lu_solve(&pivots, &tensor![[5.0], [12.0]], false).to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensors: no matrix; a dtype other than f32 and f64; at the first read, a pivot that is zero
    /// ([`Tensor::lu_factor_ex`] returns its number instead).
    ///
    /// Source: `torch.linalg.lu_factor`; its gradient is PyTorch's `linalg_lu_backward`, written for both shapes at once.
    #[track_caller]
    #[must_use]
    pub fn lu_factor(&self) -> (Tensor, Tensor) {
        compose1("lu_factor", self, |a| outputs::<4>(PackedFactor::Lu { checked: true }, &[a]).map(|[both, pivots, ..]| (both, pivots)))
    }
    /// As [`Tensor::lu_factor`], with the number (from 1, i32 `[..]`) of the first pivot that is zero, or 0, instead of an error.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// let (_, _, info) = tensor![[1.0, 1.0], [1.0, 1.0]].lu_factor_ex();
    /// assert_eq!(info.item::<i32>()?, 2);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn lu_factor_ex(&self) -> (Tensor, Tensor, Tensor) {
        compose1("lu_factor_ex", self, |a| outputs::<4>(PackedFactor::Lu { checked: false }, &[a]).map(|[both, pivots, _, info]| (both, pivots, info)))
    }
    /// P `[.., m, m]`, L `[.., m, k]` with ones on its diagonal and U `[.., k, n]` with `P L U = self`, k the smaller size. The
    /// matrix may be singular.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// let a = tensor![[1.0, 2.0, 3.0], [4.0, 4.0, 8.0]];
    /// let (p, l, u) = a.lu();
    /// assert_eq!(p.matmul(l).matmul(u).to_vec::<f32>()?, a.to_vec::<f32>()?);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensors: no matrix; a dtype other than f32 and f64.
    ///
    /// Source: `torch.linalg.lu`.
    #[track_caller]
    #[must_use]
    pub fn lu(&self) -> (Tensor, Tensor, Tensor) {
        compose1("lu", self, |a| {
            let [both, _, order, _] = outputs(PackedFactor::Lu { checked: false }, &[a])?;
            let (lower, upper) = unpacked(&both.ok()?);
            Ok((permutation(&order, a), lower, upper))
        })
    }
    /// P, L and U of [`Tensor::lu`] from what [`Tensor::lu_factor`] returns: this tensor is both factors.
    ///
    /// # Errors
    /// In the tensors: pivots that are not i32 or, at the first read, name no row.
    ///
    /// Source: `torch.lu_unpack`.
    #[track_caller]
    #[must_use]
    pub fn lu_unpack(&self, pivots: &Tensor) -> (Tensor, Tensor, Tensor) {
        compose("lu_unpack", &[self, pivots], || {
            let (m, _) = sizes(self)?;
            let order = order_of(pivots, m)?;
            let (lower, upper) = unpacked(self);
            Ok((permutation(&order, self), lower, upper))
        })
    }
    /// x with `A x = b`, b `[.., n, k]`, where this tensor and `pivots` are what [`Tensor::lu_factor`] returns of A; `adjoint`:
    /// with `Aᵀ x = b`. Leading axes broadcast.
    ///
    /// # Errors
    /// In the tensor: shapes that do not fit; two dtypes; pivots that are not i32.
    ///
    /// Source: `torch.linalg.lu_solve`.
    #[track_caller]
    pub fn lu_solve(&self, pivots: &Tensor, b: &Tensor, adjoint: bool) -> Tensor {
        compose("lu_solve", &[self, pivots, b], || {
            let (n, _) = sizes(self)?;
            if sizes(b)?.0 != n {
                let (left, right) = (self.meta().shape, b.meta().shape);
                return Err(ErrorKind::ShapeMismatch { left, right, axes: None, expected: "a right side with as many rows as the matrix" }.into());
            }
            let (both, b) = super::matrix::together(self, b)?;
            let lead = both.meta().shape.without(both.rank() - 1);
            let order = order_of(pivots, n)?.expand(lead);
            let rows = |x: &Tensor, order: &Tensor| x.take_along_dim(&order.unsqueeze(-1), -2);
            if adjoint {
                let half = both.mt().solve_triangular(&b, false, false);
                return Ok(rows(&both.mt().solve_triangular(&half, true, true), &order.argsort(-1, false)));
            }
            Ok(both.solve_triangular(&both.solve_triangular(&rows(&b, &order), false, true), true, false))
        })
    }
}
fn sizes(a: &Tensor) -> Built<(usize, usize)> {
    a.error().map_or(Ok(()), Err)?;
    let shape = a.meta().shape;
    match shape[..] {
        [.., m, n] => Ok((m, n)),
        _ => Err(ErrorKind::Shape { shape, expected: "a matrix or a batch of them".into() }.into()),
    }
}
fn order_of(pivots: &Tensor, rows: usize) -> Built<Tensor> {
    let [order] = outputs(PackedFactor::Order { rows }, &[pivots])?;
    Ok(order.ok()?)
}
/// The matrix with ones where rows go by an order `[.., m]`: column i has its one in row `order[i]`.
fn permutation(order: &Tensor, like: &Tensor) -> Tensor {
    let rows = order.meta().shape.last().copied().unwrap_or(0);
    order.one_hot(rows).cast(like.meta().dtype).mt()
}

/// Symmetric matrices that need not be definite.
impl Tensor {
    /// `L D Lᵀ` of a symmetric matrix, whose lower triangle is read: L and the blocks of D in the lower triangle of one matrix, and
    /// pivots (i32) as LAPACK's `sytrf` gives them. What [`Tensor::ldl_solve`] takes. It has no gradient, as in PyTorch: to ask for it is an error.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// let a = tensor![[0.0, 2.0], [2.0, 0.0]];
    /// let (ld, pivots) = a.ldl_factor();
    /// assert_eq!(ld.ldl_solve(&pivots, &tensor![[4.0], [6.0]]).to_vec::<f32>()?, [3.0, 2.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensors: no square matrix; a dtype other than f32 and f64; at the first read, a block of D that is zero.
    ///
    /// Source: `torch.linalg.ldl_factor`; Bunch and Kaufman, 1977.
    #[track_caller]
    #[must_use]
    pub fn ldl_factor(&self) -> (Tensor, Tensor) {
        compose1("ldl_factor", self, |a| outputs::<3>(PackedFactor::Ldl { checked: true }, &[a]).map(|[both, pivots, _]| (both.tril(0), pivots)))
    }
    /// As [`Tensor::ldl_factor`], with the number (from 1, i32) of the first block of D that is zero, or 0, instead of an error.
    #[track_caller]
    #[must_use]
    pub fn ldl_factor_ex(&self) -> (Tensor, Tensor, Tensor) {
        compose1("ldl_factor_ex", self, |a| outputs::<3>(PackedFactor::Ldl { checked: false }, &[a]).map(|[both, pivots, info]| (both.tril(0), pivots, info)))
    }
    /// x with `A x = b`, b `[.., n, k]`, where this tensor and `pivots` are what [`Tensor::ldl_factor`] returns of A. Leading axes
    /// broadcast. The gradient goes to b (PyTorch has none).
    ///
    /// # Errors
    /// In the tensor: shapes that do not fit; two dtypes; pivots that are not i32 or, at the first read, of no such factorization.
    ///
    /// Source: `torch.linalg.ldl_solve`.
    #[track_caller]
    pub fn ldl_solve(&self, pivots: &Tensor, b: &Tensor) -> Tensor {
        compose("ldl_solve", &[self, pivots, b], || {
            let (factors, b) = super::matrix::together(self, b)?;
            let shape = factors.meta().shape;
            let pivots =
                if pivots.meta().shape[..] == self.meta().shape[..self.rank() - 1] { pivots.expand(shape.without(shape.rank() - 1)) } else { pivots.clone() };
            outputs(PackedFactor::LdlSolve, &[&factors, &pivots, &b]).map(|[x]| x)
        })
    }
}

/// Functions that tell by a number what is wrong with a matrix of a batch, where those without `_ex` are errors.
impl Tensor {
    /// The inverse of each square matrix, and the number (from 1, i32 `[..]`) of the first pivot that is zero, or 0. Of a singular
    /// matrix the inverse is NaN.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// let (inverse, info) = tensor![[[2.0, 0.0], [0.0, 4.0]], [[1.0, 1.0], [1.0, 1.0]]].inv_ex();
    /// assert_eq!(info.to_vec::<i32>()?, [0, 2]);
    /// assert_eq!(inverse.get(0).to_vec::<f32>()?, [0.5, 0.0, 0.0, 0.25]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// Source: `torch.linalg.inv_ex`.
    #[track_caller]
    #[must_use]
    pub fn inv_ex(&self) -> (Tensor, Tensor) {
        compose1("inv_ex", self, |a| outputs(PackedFactor::InvEx, &[a]).map(|[x, info]| (x, info)))
    }
    /// As [`Tensor::solve`] of a right side `[.., n, k]`, and the number of [`Tensor::inv_ex`] of each matrix, however often it is
    /// repeated: leading axes broadcast.
    ///
    /// Source: `torch.linalg.solve_ex`.
    #[track_caller]
    #[must_use]
    pub fn solve_ex(&self, b: &Tensor) -> (Tensor, Tensor) {
        compose("solve_ex", &[self, b], || {
            let (own, device) = (self.meta().shape, self.meta().device);
            let (a, b) = super::matrix::together(self, b)?;
            let [x, info] = outputs(PackedFactor::SolveEx, &[&a, &b])?;
            let (each, lead) = (info.try_meta()?.shape, Shape::new(&own[..own.rank() - 2])?);
            if each.elements() == 0 {
                return Ok((x, Tensor::zeros_on(lead, DType::I32, device)));
            }
            let once = (lead.rank()..each.rank()).fold(info, |info, _| info.select(0, 0));
            Ok((x, (0..lead.rank()).filter(|&axis| lead[axis] == 1).fold(once, |info, axis| info.narrow(axis, 0, 1))))
        })
    }
    /// As [`Tensor::cholesky`] (`upper`: its transpose), and the order (i32 `[..]`) of the first leading minor that is not positive, or
    /// 0. The factor of such a matrix is NaN.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// let (l, info) = tensor![[4.0, 2.0], [2.0, 2.0]].cholesky_ex(false);
    /// assert_eq!((l.to_vec::<f32>()?, info.item::<i32>()?), (vec![2.0, 0.0, 1.0, 1.0], 0));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// Source: `torch.linalg.cholesky_ex`.
    #[track_caller]
    #[must_use]
    pub fn cholesky_ex(&self, upper: bool) -> (Tensor, Tensor) {
        compose1("cholesky_ex", self, |a| outputs(PackedFactor::CholeskyEx, &[a]).map(|[l, info]| (if upper { l.mt() } else { l }, info)))
    }
}

/// Functions of matrices.
impl Tensor {
    /// exp(self) of each square matrix: the sum of its powers by their factorials. Its gradient is an exponential of twice the size.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// let turn = tensor![[0.0, -1.0], [1.0, 0.0]] * std::f64::consts::PI;
    /// assert!(turn.matrix_exp().allclose(&tensor![[-1.0, 0.0], [0.0, -1.0]], 1e-6, 1e-6)?);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: no square matrix; a dtype other than f32 and f64. Of elements that are not finite the result is NaN.
    ///
    /// Source: `torch.linalg.matrix_exp`; Higham, 2005, and Mathias, 1996.
    #[track_caller]
    #[must_use]
    pub fn matrix_exp(&self) -> Tensor {
        compose1("matrix_exp", self, |a| outputs(PackedFactor::Exponential, &[a]).map(|[x]| x))
    }
    /// The symmetric x with `x x = self` of a symmetric positive definite matrix, whose lower triangle is read.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(tensor![[4.0, 0.0], [0.0, 9.0]].matrix_sqrth().to_vec::<f32>()?, [2.0, 0.0, 0.0, 3.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: no square matrix; a dtype other than f32 and f64; at the first read, a negative eigenvalue.
    ///
    /// Source: `torch.linalg.matrix_sqrth`. Its gradient solves `x dx + dx x = da`, which equal eigenvalues do not disturb.
    #[track_caller]
    #[must_use]
    pub fn matrix_sqrth(&self) -> Tensor {
        compose1("matrix_sqrth", self, |a| outputs(PackedFactor::Root, &[a]).map(|[x]| x))
    }
    /// Eigenvalues `[.., n, 2]` and eigenvectors `[.., n, n, 2]` of square matrices, as complex numbers: pairs along a last axis.
    /// `self · vectors[.., j] = values[j] · vectors[.., j]`; the vectors have length 1 and a real largest component. The order of
    /// the values is not defined. Real matrices of complex values have them in conjugate pairs, next to each other.
    ///
    /// The gradient takes for granted that what is computed does not depend on the vectors' phases, which are nobody's; where
    /// values are equal it does not exist.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// let (values, _) = tensor![[0.0, -2.0], [2.0, 0.0]].eig();
    /// assert_eq!(values.to_vec::<f32>()?, [0.0, 2.0, 0.0, -2.0]); // 2i and -2i
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensors: no square matrix; a dtype other than f32 and f64; at the first read, elements that are not finite.
    ///
    /// Source: `torch.linalg.eig`.
    #[track_caller]
    #[must_use]
    pub fn eig(&self) -> (Tensor, Tensor) {
        compose1("eig", self, |a| outputs(PackedFactor::Eig, &[a]).map(|[values, vectors]| (values, vectors)))
    }
    /// The eigenvalues of [`Tensor::eig`].
    #[track_caller]
    #[must_use]
    pub fn eigvals(&self) -> Tensor {
        let _call = crate::scope::call("eigvals");
        self.eig().0
    }
}

/// Householder's reflections `I - τ v vᵀ`.
impl Tensor {
    /// r in the upper triangle with the vectors of the reflections below, whose leading ones are not stored, `[.., m, n]`, and their
    /// factors τ `[.., min(m, n)]`. It has no gradient, as in PyTorch: to ask for it is an error; [`Tensor::qr`] has one.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// let a = tensor![[3.0, 1.0], [4.0, 2.0]];
    /// let (packed, tau) = a.geqrf();
    /// let (q, r) = (packed.householder_product(&tau), packed.triu(0));
    /// assert!(q.matmul(r).allclose(&a, 1e-6, 1e-6)?);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// Source: `torch.geqrf`.
    #[track_caller]
    #[must_use]
    pub fn geqrf(&self) -> (Tensor, Tensor) {
        compose1("geqrf", self, |a| outputs(PackedFactor::Reflections, &[a]).map(|[packed, tau]| (packed, tau)))
    }
    /// The first n columns of the product of the reflections whose vectors stand below the diagonal of this tensor `[.., m, n]`,
    /// m at least n, with the factors `tau` `[.., k]`, k at most n.
    ///
    /// # Errors
    /// In the tensor: shapes that do not fit.
    ///
    /// Source: `torch.linalg.householder_product`; all reflections are one product (Puglisi, "Modification of the Householder method
    /// based on the compact WY representation", 1992).
    #[doc(alias = "orgqr")]
    #[track_caller]
    pub fn householder_product(&self, tau: &Tensor) -> Tensor {
        compose("householder_product", &[self, tau], || {
            let (m, n) = sizes(self)?;
            if m < n {
                return Err(ErrorKind::Shape { shape: self.meta().shape, expected: "at least as many rows as columns".into() }.into());
            }
            let first = Tensor::eye_on(m, n, self.meta().dtype, self.meta().device);
            reflected(&vectors(self, tau)?, tau, &first, false)
        })
    }
    /// `q other`, or `other q` if not `left`, where q is the whole product of the reflections of [`Tensor::householder_product`];
    /// `transpose`: qᵀ for q.
    ///
    /// # Errors
    /// In the tensor: shapes that do not fit.
    ///
    /// Source: `torch.ormqr`.
    #[track_caller]
    pub fn ormqr(&self, tau: &Tensor, other: &Tensor, left: bool, transpose: bool) -> Tensor {
        compose("ormqr", &[self, tau, other], || {
            let v = vectors(self, tau)?;
            let (rows, columns) = sizes(other)?;
            if sizes(self)?.0 != if left { rows } else { columns } {
                let (left, right) = (self.meta().shape, other.meta().shape);
                return Err(ErrorKind::ShapeMismatch { left, right, axes: None, expected: "reflections of as many rows as they are applied to" }.into());
            }
            if left { reflected(&v, tau, other, transpose) } else { Ok(reflected(&v, tau, &other.mt(), !transpose)?.mt()) }
        })
    }
    /// [`Tensor::qr`] with another choice of what is returned. The columns of a complete q that r does not reach are constants: no gradient flows from them
    /// (PyTorch refuses to differentiate the complete form of a tall matrix altogether).
    ///
    /// ```
    /// # use adamant_core::{Device, tensor, tensor::QrMode};
    /// # Device::reference().make_current();
    /// let (q, r) = tensor![[3.0], [4.0]].qr_mode(QrMode::Complete);
    /// assert_eq!((q.dims::<2>()?, r.dims::<2>()?), ([2, 2], [2, 1]));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// Source: `torch.linalg.qr`.
    #[track_caller]
    #[must_use]
    pub fn qr_mode(&self, mode: QrMode) -> (Tensor, Tensor) {
        compose1("qr_mode", self, |a| {
            let (m, n) = sizes(a)?;
            let (q, r) = a.qr();
            let (q, r) = (q.ok()?, r.ok()?);
            Ok(match mode {
                QrMode::Reduced => (q, r),
                QrMode::R => (Tensor::zeros_on([0usize], a.meta().dtype, a.meta().device), r),
                QrMode::Complete if m <= n => (q, r),
                QrMode::Complete => {
                    let below = Tensor::zeros_on(r.meta().shape.with(r.rank() - 2, m - n), a.meta().dtype, a.meta().device);
                    (Tensor::cat(&[q, complement(&a.detach())?], -1), Tensor::cat(&[r, below], -2))
                }
            })
        })
    }
    /// [`Tensor::svd`] with square u `[.., m, m]` and vᵀ `[.., n, n]`. The vectors that belong to no singular value are constants: no
    /// gradient flows from them, as they are any basis of what the others leave.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// let (u, s, vt) = tensor![[3.0], [4.0]].svd_full();
    /// assert_eq!((u.dims::<2>()?, s.dims::<1>()?, vt.dims::<2>()?), ([2, 2], [1], [1, 1]));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// Source: `torch.linalg.svd` with `full_matrices=True`.
    #[track_caller]
    #[must_use]
    pub fn svd_full(&self) -> (Tensor, Tensor, Tensor) {
        compose1("svd_full", self, |a| {
            let (m, n) = sizes(a)?;
            let (u, s, vt) = a.svd();
            let (mut u, s, mut vt) = (u.ok()?, s.ok()?, vt.ok()?);
            if m > n {
                u = Tensor::cat(&[&u, &complement(&u.detach())?], -1);
            } else if n > m {
                vt = Tensor::cat(&[&vt, &complement(&vt.detach().mt())?.mt()], -2);
            }
            Ok((u, s, vt))
        })
    }
}
/// The vectors with their ones, `[.., m, k]`.
fn vectors(packed: &Tensor, tau: &Tensor) -> Built<Tensor> {
    let (m, n) = sizes(packed)?;
    let (meta, factors) = (packed.meta(), tau.meta());
    let k = factors.shape.last().copied().unwrap_or(usize::MAX);
    let lead = meta.shape.rank() - 2;
    if factors.shape.rank() != lead + 1 || factors.shape[..lead] != meta.shape[..lead] || k > n.min(m) {
        return Err(ErrorKind::ShapeMismatch { left: meta.shape, right: factors.shape, axes: None, expected: "a factor for each of the first columns" }.into());
    }
    if factors.dtype != meta.dtype || !matches!(meta.dtype, DType::F32 | DType::F64) {
        return Err(ErrorKind::Dtype(format!("reflections are of f32 or f64, not of {} and {}", meta.dtype, factors.dtype)).into());
    }
    Ok(packed.narrow(-1, 0, k).tril(-1) + Tensor::eye_on(m, k, meta.dtype, meta.device))
}
/// H₁ ‥ Hₖ c, or its transpose. The product is I - V T Vᵀ with T = D (I + S D)⁻¹, D the factors and S the upper part of VᵀV: a factor of zero needs no
/// case of its own.
fn reflected(v: &Tensor, tau: &Tensor, c: &Tensor, transpose: bool) -> Built<Tensor> {
    let inner = v.mt().matmul(v).triu(1) * tau.unsqueeze(-2);
    let (across, factors) = (v.mt().matmul(c), tau.unsqueeze(-1));
    let middle = if transpose { inner.mt().solve_triangular(&(across * factors), false, true) } else { inner.solve_triangular(&across, true, true) * factors };
    Ok(c - v.matmul(middle))
}
/// The columns after the n-th of the whole q of a matrix `[.., m, n]`.
fn complement(a: &Tensor) -> Built<Tensor> {
    let (m, n) = sizes(a)?;
    let (packed, tau) = a.geqrf();
    let all = reflected(&vectors(&packed, &tau)?, &tau, &Tensor::eye_on(m, m, a.meta().dtype, a.meta().device), false)?;
    Ok(all.narrow(-1, n, m - n))
}
