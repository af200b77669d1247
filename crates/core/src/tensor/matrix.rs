//! Determinants, inverses, linear systems and factorizations of matrices (the last two axes) or batches of them, in f32
//! and f64. A singular or indefinite matrix is an error of the domain when the result is read.
use super::{
    Tensor,
    compose::{Built, compose, compose1},
    decompose::Factor,
};
use crate::{DType, ErrorKind, Shape};

fn factor(op: &'static str, f: Factor, a: &Tensor, output: usize) -> Built<Tensor> {
    let mut all = Tensor::composite(f, &[a]).into_iter().skip(output);
    all.next().ok_or_else(|| ErrorKind::Internal(format!("{op} has no output {output}")).into())
}

impl Tensor {
    /// The determinant of each square matrix. Its gradient exists for singular matrices too.
    #[track_caller]
    #[must_use]
    pub fn det(&self) -> Tensor {
        compose1("det", self, |x| factor("det", Factor::Det, x, 0))
    }
    /// Sign and logarithm of the magnitude of the determinant: neither overflows.
    #[track_caller]
    #[must_use]
    pub fn slogdet(&self) -> (Tensor, Tensor) {
        compose1("slogdet", self, |x| {
            let out = Tensor::composite(Factor::SlogDet, &[x]);
            match &out[..] {
                [sign, log, ..] => Ok((sign.detach(), log.clone())),
                _ => Err(ErrorKind::Internal("slogdet has two outputs".into()).into()),
            }
        })
    }
    /// The logarithm of the determinant; NaN where it is negative.
    #[track_caller]
    #[must_use]
    pub fn logdet(&self) -> Tensor {
        compose1("logdet", self, |x| {
            let (sign, log) = x.slogdet();
            Ok(sign.lt(0.0).where_(f64::NAN, log))
        })
    }
    /// The inverse of each square matrix.
    #[track_caller]
    #[must_use]
    pub fn inv(&self) -> Tensor {
        compose1("inv", self, |x| factor("inv", Factor::Inv, x, 0))
    }
    /// Moore and Penrose's pseudo-inverse: `[.., m, n]` gives `[.., n, m]`. Singular values up to `rtol` times the largest
    /// count as zero; `None`: the dtype's epsilon times the larger size.
    #[track_caller]
    pub fn pinv(&self, rtol: Option<f64>) -> Tensor {
        compose1("pinv", self, |x| {
            let meta = x.meta();
            let epsilon = if meta.dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
            let larger = meta.shape.iter().rev().take(2).max().copied().unwrap_or(1);
            factor("pinv", Factor::Pinv { rtol: rtol.unwrap_or(epsilon * larger as f64) }, x, 0)
        })
    }
    /// x with `self x = b`: b `[.., n, k]`, or a vector `[n]` (a batch of vectors `[.., n]` where it has one axis less than
    /// the matrices and their leading sizes). Leading axes broadcast.
    #[track_caller]
    pub fn solve(&self, b: &Tensor) -> Tensor {
        compose("solve", &[self, b], || {
            let (s, t) = (self.meta().shape, b.meta().shape);
            let vector = t.rank() == 1 || (s.rank() >= 2 && t.rank() == s.rank() - 1 && t[..] == s[..s.rank() - 1]);
            let right = if vector { b.unsqueeze(-1) } else { b.clone() };
            let (a, right) = together(self, &right)?;
            let x = Tensor::composite1(Factor::Solve, &[&a, &right]);
            Ok(if vector { x.squeeze(-1) } else { x })
        })
    }
    /// x with `self x = b` where one triangle of `self` counts; `unit`: its diagonal counts as ones. Leading axes broadcast.
    #[track_caller]
    pub fn solve_triangular(&self, b: &Tensor, upper: bool, unit: bool) -> Tensor {
        compose("solve_triangular", &[self, b], || {
            let (a, right) = together(self, b)?;
            Ok(Tensor::composite1(Factor::Triangular { upper, unit }, &[&a, &right]))
        })
    }
    /// The lower triangular L with `L Lᵀ = self`, a symmetric positive definite matrix whose lower triangle is read.
    #[track_caller]
    #[must_use]
    pub fn cholesky(&self) -> Tensor {
        compose1("cholesky", self, |x| factor("cholesky", Factor::Cholesky, x, 0))
    }
    /// Orthonormal columns q `[.., m, k]` and an upper triangle r `[.., k, n]` with `q r = self`, k the smaller size.
    #[track_caller]
    #[must_use]
    pub fn qr(&self) -> (Tensor, Tensor) {
        compose1("qr", self, |x| {
            let out = Tensor::composite(Factor::Qr, &[x]);
            match &out[..] {
                [q, r, ..] => Ok((q.clone(), r.clone())),
                _ => Err(ErrorKind::Internal("qr has two outputs".into()).into()),
            }
        })
    }
    /// Eigenvalues `[.., n]` in ascending order and eigenvectors (columns) of a symmetric matrix, whose lower triangle is read.
    #[track_caller]
    #[must_use]
    pub fn eigh(&self) -> (Tensor, Tensor) {
        compose1("eigh", self, |x| {
            let out = Tensor::composite(Factor::Eigh, &[x]);
            match &out[..] {
                [values, vectors, ..] => Ok((values.clone(), vectors.clone())),
                _ => Err(ErrorKind::Internal("eigh has two outputs".into()).into()),
            }
        })
    }
    /// The eigenvalues of [`Tensor::eigh`].
    #[track_caller]
    #[must_use]
    pub fn eigvalsh(&self) -> Tensor {
        compose1("eigvalsh", self, |x| factor("eigvalsh", Factor::Eigenvalues, x, 0))
    }
    /// u `[.., m, k]`, singular values `[.., k]` in descending order, vᵀ `[.., k, n]` with `u diag(s) vᵀ = self`.
    #[track_caller]
    #[must_use]
    pub fn svd(&self) -> (Tensor, Tensor, Tensor) {
        compose1("svd", self, |x| {
            let out = Tensor::composite(Factor::Svd, &[x]);
            match &out[..] {
                [u, s, vt, ..] => Ok((u.clone(), s.clone(), vt.clone())),
                _ => Err(ErrorKind::Internal("svd has three outputs".into()).into()),
            }
        })
    }
    /// The singular values of [`Tensor::svd`].
    #[track_caller]
    #[must_use]
    pub fn svdvals(&self) -> Tensor {
        compose1("svdvals", self, |x| factor("svdvals", Factor::SingularValues, x, 0))
    }
    /// The number of singular values above `rtol` times the largest (i64); `None`: as [`Tensor::pinv`].
    #[track_caller]
    pub fn matrix_rank(&self, rtol: Option<f64>) -> Tensor {
        compose1("matrix_rank", self, |x| {
            let meta = x.meta();
            let epsilon = if meta.dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
            let larger = meta.shape.iter().rev().take(2).max().copied().unwrap_or(1);
            let s = x.detach().svdvals().ok()?;
            if s.meta().shape[s.rank() - 1] == 0 {
                return Ok(s.sum(-1).cast(DType::I64));
            }
            Ok(s.gt(s.amax_keepdim(-1) * rtol.unwrap_or(epsilon * larger as f64)).sum(-1))
        })
    }
    /// A square matrix multiplied with itself `n` times; negative: its inverse.
    #[track_caller]
    pub fn matrix_power(&self, n: i64) -> Tensor {
        compose1("matrix_power", self, |x| {
            let shape = x.meta().shape;
            let rank = shape.rank();
            if rank < 2 || shape[rank - 1] != shape[rank - 2] {
                return Err(ErrorKind::Shape { shape, expected: "a square matrix or a batch of them".into() }.into());
            }
            let mut square = if n < 0 { x.inv() } else { x.clone() };
            let (mut left, mut power) = (n.unsigned_abs(), None::<Tensor>);
            while left > 0 {
                if left & 1 == 1 {
                    power = Some(power.map_or_else(|| square.clone(), |p| p.matmul(&square)));
                }
                left >>= 1;
                if left > 0 {
                    square = square.matmul(&square);
                }
            }
            Ok(power.unwrap_or_else(|| Tensor::eye_on(shape[rank - 1], shape[rank - 1], x.meta().dtype, x.meta().device).expand(shape)))
        })
    }
}
/// A matrix and a right side with their leading axes broadcast.
pub(super) fn together(a: &Tensor, b: &Tensor) -> Built<(Tensor, Tensor)> {
    let (s, t) = (a.meta().shape, b.meta().shape);
    if s.rank() < 2 || t.rank() < 2 {
        return Err(ErrorKind::ShapeMismatch { left: s, right: t, axes: None, expected: "a matrix and a right side of at least two axes" }.into());
    }
    let lead = |s: &Shape| Shape::new(&s[..s.rank() - 2]);
    let Some(batch) = lead(&s)?.broadcast(&lead(&t)?) else {
        return Err(ErrorKind::ShapeMismatch { left: s, right: t, axes: None, expected: "leading sizes do not broadcast" }.into());
    };
    let with = |tail: &[usize]| Shape::new(&batch.iter().chain(tail).copied().collect::<Vec<_>>());
    Ok((a.expand(with(&s[s.rank() - 2..])?), b.expand(with(&t[t.rank() - 2..])?)))
}
