//! Some of the eigenvalues or singular values of a large matrix, by products with it: what `torch.lobpcg`, `torch.svd_lowrank` and
//! `torch.pca_lowrank` give.
use super::{
    Tensor,
    compose::{Built, compose, refuse},
};
use crate::{ErrorKind, Rng, grad::no_grad};

/// What [`Tensor::lobpcg`] does with its matrix.
#[derive(Clone, Copy)]
pub struct Lobpcg<'a> {
    /// the other matrix of `A x = λ B x`, symmetric and positive definite; none: the identity
    pub b: Option<&'a Tensor>,
    /// a matrix near the inverse of A, by which residuals are multiplied
    pub preconditioner: Option<&'a Tensor>,
    /// How many steps it takes: no data is read, so it does not stop earlier.
    pub steps: usize,
    /// the largest eigenvalues, or the smallest
    pub largest: bool,
}
impl Default for Lobpcg<'_> {
    fn default() -> Self {
        Lobpcg { b: None, preconditioner: None, steps: 30, largest: true }
    }
}

impl Tensor {
    /// The k largest (or smallest) eigenvalues `[.., k]` of a symmetric matrix `[.., n, n]`, and their vectors `[.., n, k]`, from a
    /// `start` `[.., n, k]` of any independent columns, as random ones; n is at least 3 k.
    ///
    /// The values have first derivatives by A and B; the vectors are constants, so second derivatives of the values are not whole.
    /// [`Tensor::eigh`] has all of them.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor, Tensor, tensor::Lobpcg};
    /// # Device::reference().make_current();
    /// let a = tensor![1.0, 7.0, 3.0, 5.0].diag(0);
    /// let (values, _) = a.lobpcg(&tensor![[1.0], [1.0], [1.0], [1.0]], &Lobpcg::default());
    /// assert!((values.item::<f32>()? - 7.0).abs() < 1e-4);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensors: shapes that do not fit; a dtype other than f32 and f64.
    ///
    /// Source: Knyazev, "Toward the optimal preconditioned eigensolver: locally optimal block preconditioned conjugate gradient method",
    /// SIAM J. Sci. Comput. 23, 2001; `torch.lobpcg`.
    #[track_caller]
    #[must_use]
    pub fn lobpcg(&self, start: &Tensor, options: &Lobpcg<'_>) -> (Tensor, Tensor) {
        let mut inputs = vec![self, start];
        inputs.extend(options.b);
        inputs.extend(options.preconditioner);
        compose("lobpcg", &inputs, || {
            let (a, x) = (self.meta().shape, start.meta().shape);
            let fits = a.rank() >= 2 && x.rank() >= 2 && a[a.rank() - 1] == a[a.rank() - 2] && x[x.rank() - 2] == a[a.rank() - 1];
            if !fits || 3 * x[x.rank() - 1] > a[a.rank() - 1] {
                let expected = "a square matrix and at most a third as many columns to start from as it has rows";
                return Err(ErrorKind::ShapeMismatch { left: a, right: x, axes: None, expected }.into());
            }
            let found = no_grad(|| search(&self.detach(), &start.detach(), options)).ok()?;
            let squares = |x: &Tensor| (&found * x).sum(-2);
            let lengths = squares(&options.b.map_or_else(|| found.clone(), |b| b.matmul(&found)));
            Ok((squares(&self.matmul(&found)) / lengths, found))
        })
    }
    /// U `[.., m, q]`, singular values `[.., q]` and V `[.., n, q]` with `U diag(S) Vᵀ` near this tensor `[.., m, n]` (less
    /// `mean`, if there is one), by products with q random vectors; `steps` more products make them better. 2 are usual.
    ///
    /// ```
    /// # use adamant_core::{Device, Rng, Tensor, tensor};
    /// # Device::reference().make_current();
    /// let a = tensor![1.0, 2.0, 3.0].outer(&tensor![2.0, 0.0, 1.0, 1.0]);
    /// let (u, s, v) = a.svd_lowrank(1, 2, None, &Rng::new(1)?);
    /// assert!((u * s).matmul(v.mt()).allclose(&a, 1e-4, 1e-4)?);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensors: no matrix; a dtype other than f32 and f64; q beyond the smaller size.
    ///
    /// Source: Halko, Martinsson and Tropp, "Finding structure with randomness", 2009, algorithms 4.4 and 5.1; `torch.svd_lowrank`.
    #[track_caller]
    #[must_use]
    pub fn svd_lowrank(&self, q: usize, steps: usize, mean: Option<&Tensor>, rng: &Rng) -> (Tensor, Tensor, Tensor) {
        let inputs: Vec<&Tensor> = [self].into_iter().chain(mean).collect();
        compose("svd_lowrank", &inputs, || {
            let a = mean.map_or_else(|| self.clone(), |m| self - m);
            low_rank(&a.ok()?, q, steps, rng)
        })
    }
    /// As [`Tensor::svd_lowrank`] of the columns less their means, if `center`: the principal components are the columns of V, and
    /// `S²/(m - 1)` their variances. `q`: PyTorch takes 6, or the smaller size.
    ///
    /// # Errors
    /// As [`Tensor::svd_lowrank`].
    ///
    /// Source: `torch.pca_lowrank`.
    #[track_caller]
    #[must_use]
    pub fn pca_lowrank(&self, q: usize, center: bool, steps: usize, rng: &Rng) -> (Tensor, Tensor, Tensor) {
        compose("pca_lowrank", &[self], || {
            if self.rank() < 2 {
                return Err(ErrorKind::Shape { shape: self.meta().shape, expected: "a matrix or a batch of them".into() }.into());
            }
            let a = if center { self - self.mean_keepdim(-2) } else { self.clone() };
            low_rank(&a.ok()?, q, steps, rng)
        })
    }
}
fn low_rank(a: &Tensor, q: usize, steps: usize, rng: &Rng) -> Built<(Tensor, Tensor, Tensor)> {
    let meta = a.meta();
    let [.., m, n] = meta.shape[..] else {
        return Err(ErrorKind::Shape { shape: meta.shape, expected: "a matrix or a batch of them".into() }.into());
    };
    if q == 0 || q > m.min(n) {
        return refuse(format!("{q} singular values of a matrix of {m} rows and {n} columns"));
    }
    let random = rng.normal([n, q], meta.dtype).to(meta.device);
    let mut basis = a.matmul(random).qr().0;
    for _ in 0..steps {
        basis = a.mt().matmul(&basis).qr().0;
        basis = a.matmul(&basis).qr().0;
    }
    let (u, s, vt) = basis.mt().matmul(a).svd();
    Ok((basis.matmul(u), s, vt.mt()))
}
/// The vectors: in each step the best of the space of the last ones, their residuals, and the way that led to them.
fn search(a: &Tensor, start: &Tensor, options: &Lobpcg<'_>) -> Tensor {
    let b = |x: &Tensor| options.b.map_or_else(|| x.clone(), |b| b.detach().matmul(x));
    let best = |space: &Tensor, k: usize| {
        // An orthonormal basis first: the space may be near to one of fewer axes.
        let mut s = space.qr().0;
        if options.b.is_some() {
            let lower = s.mt().matmul(b(&s)).cholesky();
            s = lower.solve_triangular(&s.mt(), false, false).mt();
        }
        let (_, vectors) = s.mt().matmul(a.matmul(&s)).eigh();
        let all = vectors.meta().shape.last().copied().unwrap_or(k);
        s.matmul(vectors.narrow(-1, if options.largest { all - k } else { 0 }, k))
    };
    let k = start.meta().shape.last().copied().unwrap_or(0);
    let mut x = best(start, k);
    let mut way = None::<Tensor>;
    for _ in 0..options.steps {
        let values = (&x * a.matmul(&x)).sum_keepdim(-2);
        let residual = a.matmul(&x) - b(&x) * values;
        let residual = options.preconditioner.map_or(residual.clone(), |p| p.detach().matmul(residual));
        // What the vectors already span is taken out, and its size with it: rounding would be all that is left.
        let residual = &residual - x.matmul(x.mt().matmul(b(&residual)));
        let length = residual.square().sum_keepdim(-2).sqrt();
        let residual = residual / length.eq(0.0).where_(1.0, &length);
        let space = Tensor::cat(&[vec![x.clone(), residual], way.into_iter().collect()].concat(), -1);
        let next = best(&space, k);
        way = Some(&next - x.matmul(x.mt().matmul(b(&next))));
        x = next;
    }
    // In PyTorch's order: the largest first, or the smallest.
    if options.largest { x.flip([-1]) } else { x }
}
