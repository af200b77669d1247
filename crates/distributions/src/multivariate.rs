//! The normal distribution of vectors. All three of its constructors give the lower triangle that is a root of the covariance.
use crate::{
    Constraint, Family, Parameters, PointFunction, Statistic,
    distribution::of_parameters,
    line::{LN_TAU, standard_normal},
    parameters::{check, joined, located, read},
};
use adamant_core::{Error, ErrorKind, Result, Rng, Shape, Tensor};

/// The normal distribution of vectors of D elements about `loc` `[batch.., D]`, by its covariance, its inverse (the precision),
/// or the lower triangle L with `L Lᵀ` = covariance, each `[batch.., D, D]`.
///
/// Source: `torch.distributions.MultivariateNormal`.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::{Distribution, MultivariateNormal};
/// # Device::reference().make_current();
/// let p = MultivariateNormal::from_covariance(&tensor![0.0, 1.0], &tensor![[4.0, 2.0], [2.0, 5.0]])?;
/// assert_eq!(p.scale_tril().to_vec::<f32>()?, [2.0, 0.0, 1.0, 2.0]);
/// assert!(MultivariateNormal::from_covariance(&tensor![0.0, 1.0], &tensor![[1.0, 2.0], [2.0, 1.0]]).is_err());
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MultivariateNormal {
    own: Parameters,
    loc: Tensor,
    tril: Tensor,
}
const NAME: &str = "MultivariateNormal";
impl MultivariateNormal {
    /// By the covariance, whose lower triangle is read.
    ///
    /// # Errors
    /// A matrix that is not positive definite; dtypes and shapes as of [`Parameters::new`].
    #[track_caller]
    pub fn from_covariance(loc: &Tensor, covariance: &Tensor) -> Result<MultivariateNormal> {
        MultivariateNormal::of(loc, covariance, "covariance", |c| definite(NAME, "covariance", c.cholesky()))
    }
    /// By the inverse of the covariance, whose upper triangle is read.
    ///
    /// # Errors
    /// A matrix that is not positive definite; dtypes and shapes as of [`Parameters::new`].
    #[track_caller]
    pub fn from_precision(loc: &Tensor, precision: &Tensor) -> Result<MultivariateNormal> {
        MultivariateNormal::of(loc, precision, "precision", |p| {
            // The root of the precision, from the last row up, is the inverse of the covariance's, transposed.
            let inverse = definite(NAME, "precision", p.flip([-2, -1]).cholesky())?.flip([-2, -1]).mt();
            let d = p.shape()?.last().copied().unwrap_or(0);
            Ok(inverse.solve_triangular(&Tensor::eye_on(d, d, p.dtype()?, p.device()?), false, false))
        })
    }
    /// By the lower triangle L with `L Lᵀ` = covariance. What stands above the diagonal is not read.
    ///
    /// # Errors
    /// A diagonal that is not positive; dtypes and shapes as of [`Parameters::new`].
    #[track_caller]
    pub fn from_scale_tril(loc: &Tensor, scale_tril: &Tensor) -> Result<MultivariateNormal> {
        MultivariateNormal::of(loc, scale_tril, "scale_tril", |l| {
            check(NAME, "the diagonal of scale_tril", &l.diagonal(0, -2, -1), &Constraint::Positive)?;
            Ok(l.tril(0))
        })
    }
    #[track_caller]
    fn of(loc: &Tensor, matrix: &Tensor, name: &'static str, root: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<MultivariateNormal> {
        located(NAME, || MultivariateNormal::built(loc, matrix, name, root))
    }
    fn built(loc: &Tensor, matrix: &Tensor, name: &'static str, root: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<MultivariateNormal> {
        let vectors = Parameters::new(NAME, &[("loc", loc, Constraint::Real)], 1)?;
        let matrices = Parameters::new(NAME, &[(name, matrix, Constraint::Real)], 2)?;
        let (d, square) = (vectors.event(), matrices.event());
        if square[0] != square[1] || square[0] != d[0] {
            return Err(Error::new(
                NAME,
                ErrorKind::Shape { shape: matrices.full(), expected: format!("{name} of {0} rows and {0} columns, as loc has", d[0]) },
            ));
        }
        let own = of_vectors(NAME, &vectors, &matrices)?;
        let ([loc], [matrix]) = (vectors.all(), matrices.all());
        let tril = root(matrix)?.expand(joined(&[&own.batch(), &square]));
        Ok(MultivariateNormal { loc: loc.expand(own.full()), tril, own })
    }
    /// The mean, `[batch.., D]`.
    #[track_caller]
    pub fn loc(&self) -> Tensor {
        self.loc.cast(self.own.dtype())
    }
    /// The lower triangle L with `L Lᵀ` = covariance, `[batch.., D, D]`.
    #[track_caller]
    pub fn scale_tril(&self) -> Tensor {
        self.tril.cast(self.own.dtype())
    }
    /// The covariance, `[batch.., D, D]`.
    #[track_caller]
    pub fn covariance(&self) -> Tensor {
        self.tril.matmul(self.tril.mt()).cast(self.own.dtype())
    }
    /// `ln √|covariance|`.
    fn half_log_det(&self) -> Tensor {
        self.tril.diagonal(0, -2, -1).log().sum(-1)
    }
    /// The squared length of `L⁻¹ x` for vectors x `[sample.., batch.., D]`.
    fn mahalanobis(&self, x: &Tensor) -> Tensor {
        squared_lengths(&self.tril, &self.own.batch(), x)
    }
}
/// What distributions of vectors have of their parameters: the vectors' events, and the batch in which they and matrices meet.
fn of_vectors(family: &'static str, vectors: &Parameters, matrices: &Parameters) -> Result<Parameters> {
    if vectors.dtype() != matrices.dtype() {
        return Err(Error::new(family, ErrorKind::DtypeMismatch { left: vectors.dtype(), right: matrices.dtype() }));
    }
    let Some(batch) = vectors.batch().broadcast(&matrices.batch()) else {
        let (left, right) = (vectors.batch(), matrices.batch());
        return Err(Error::new(family, ErrorKind::ShapeMismatch { left, right, axes: None, expected: "parameters broadcast to one batch" }));
    };
    Ok(Parameters::of_parts(family, vectors.dtype(), vectors.device(), batch, vectors.event()))
}
/// The squared lengths of `L⁻¹ x` for vectors x `[sample.., batch.., D]`: samples are columns, so L is not repeated.
fn squared_lengths(tril: &Tensor, batch: &Shape, x: &Tensor) -> Tensor {
    let shape = x.shape().unwrap_or(Shape::SCALAR);
    let d = [shape.last().copied().unwrap_or(1)];
    let samples = joined(&[&shape[..shape.rank().saturating_sub(batch.rank() + 1)]]);
    let columns = x.reshape(joined(&[&[samples.elements()], batch, &d])).movedim(0, -1);
    let lengths = tril.solve_triangular(&columns, false, false).square().sum(-2);
    lengths.movedim(-1, 0).reshape(joined(&[&samples, batch]))
}
/// A root of a matrix that has one.
fn definite(family: &'static str, name: &str, root: Tensor) -> Result<Tensor> {
    match read(&root) {
        Ok(_) => Ok(root),
        Err(e) if matches!(e.kind(), ErrorKind::Domain(_)) => {
            Err(Error::new(family, ErrorKind::Argument(format!("{name} must be positive definite: {}", e.kind()))))
        }
        Err(e) => Err(e),
    }
}
impl Family for MultivariateNormal {
    of_parameters!(own, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        Ok(self.tril.matmul(standard_normal(&self.own, shape, rng).unsqueeze(-1)).squeeze(-1) + &self.loc)
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let d = self.own.event().elements() as f64;
        (function == PointFunction::LogProb).then(|| self.mahalanobis(&(x - &self.loc)) * -0.5 - self.half_log_det() - 0.5 * d * LN_TAU)
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let d = self.own.event().elements() as f64;
        Some(match statistic {
            Statistic::Mean | Statistic::Mode => self.loc.clone(),
            Statistic::Variance => self.tril.square().sum(-1),
            Statistic::Entropy => self.half_log_det() + 0.5 * d * (1.0 + LN_TAU),
        })
    }
    fn kl(&self, other: &MultivariateNormal) -> Option<Tensor> {
        let d = self.own.event().elements() as f64;
        let batch = self.own.batch().broadcast(&other.own.batch())?;
        let apart = (&self.loc - &other.loc).expand(joined(&[&batch, &self.own.event()]));
        let spread = other.tril.solve_triangular(&self.tril, false, false).square().sum([-2, -1]);
        Some(other.half_log_det() - self.half_log_det() + (spread + other.mahalanobis(&apart) - d) * 0.5)
    }
}

/// The normal distribution of vectors of D elements whose covariance is `W Wᵀ + diag(d)`, with W of M columns, M far less than D: no matrix
/// of D x D is made.
///
/// Shapes: `loc` `[batch.., D]`, `cov_factor` (W) `[batch.., D, M]`, `cov_diag` (d) `[batch.., D]`. Source:
/// `torch.distributions.LowRankMultivariateNormal`; by the lemmas of the determinant and of Woodbury.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::{Distribution, LowRankMultivariateNormal};
/// # Device::reference().make_current();
/// let p = LowRankMultivariateNormal::new(&tensor![0.0, 1.0], &tensor![[1.0], [2.0]], &tensor![1.0, 1.0])?;
/// assert_eq!(p.variance().to_vec::<f32>()?, [2.0, 5.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LowRankMultivariateNormal {
    own: Parameters,
    loc: Tensor,
    factor: Tensor,
    diagonal: Tensor,
    /// the root of `1 + Wᵀ diag(d)⁻¹ W`, M x M
    capacitance: Tensor,
}
const LOW_RANK: &str = "LowRankMultivariateNormal";
impl LowRankMultivariateNormal {
    /// By its mean, and the two parts of its covariance.
    ///
    /// # Errors
    /// A `cov_diag` that is not positive; dtypes and shapes as of [`Parameters::new`].
    #[track_caller]
    pub fn new(loc: &Tensor, cov_factor: &Tensor, cov_diag: &Tensor) -> Result<LowRankMultivariateNormal> {
        located(LOW_RANK, || LowRankMultivariateNormal::built(loc, cov_factor, cov_diag))
    }
    fn built(loc: &Tensor, cov_factor: &Tensor, cov_diag: &Tensor) -> Result<LowRankMultivariateNormal> {
        let vectors = Parameters::new(LOW_RANK, &[("loc", loc, Constraint::Real), ("cov_diag", cov_diag, Constraint::Positive)], 1)?;
        let matrices = Parameters::new(LOW_RANK, &[("cov_factor", cov_factor, Constraint::Real)], 2)?;
        let (d, wide) = (vectors.event(), matrices.event());
        if wide[0] != d[0] {
            return Err(Error::new(LOW_RANK, ErrorKind::Shape { shape: matrices.full(), expected: format!("cov_factor of {} rows, as loc has", d[0]) }));
        }
        let own = of_vectors(LOW_RANK, &vectors, &matrices)?;
        let ([loc, diagonal], [factor]) = (vectors.all(), matrices.all());
        let (loc, diagonal) = (loc.expand(own.full()), diagonal.expand(own.full()));
        let factor = factor.expand(joined(&[&own.batch(), &wide]));
        let scaled = &factor / diagonal.sqrt().unsqueeze(-1);
        let eye = Tensor::eye_on(wide[1], wide[1], own.wide(), own.device());
        let capacitance = definite(LOW_RANK, "cov_factor", (scaled.mt().matmul(&scaled) + eye).cholesky())?;
        Ok(LowRankMultivariateNormal { own, loc, factor, diagonal, capacitance })
    }
    /// The mean, `[batch.., D]`.
    #[track_caller]
    pub fn loc(&self) -> Tensor {
        self.loc.cast(self.own.dtype())
    }
    /// W, `[batch.., D, M]`.
    #[track_caller]
    pub fn cov_factor(&self) -> Tensor {
        self.factor.cast(self.own.dtype())
    }
    /// d, `[batch.., D]`.
    #[track_caller]
    pub fn cov_diag(&self) -> Tensor {
        self.diagonal.cast(self.own.dtype())
    }
    /// The covariance, `[batch.., D, D]`.
    #[track_caller]
    pub fn covariance(&self) -> Tensor {
        (self.factor.matmul(self.factor.mt()) + self.diagonal.diag_embed(0, -2, -1)).cast(self.own.dtype())
    }
    fn half_log_det(&self) -> Tensor {
        self.capacitance.diagonal(0, -2, -1).log().sum(-1) + self.diagonal.log().sum(-1) * 0.5
    }
    /// `Wᵀ diag(d)⁻¹`, of M rows.
    fn weights(&self) -> Tensor {
        (&self.factor / self.diagonal.unsqueeze(-1)).mt()
    }
    /// `xᵀ covariance⁻¹ x` for vectors x `[sample.., batch.., D]`.
    fn mahalanobis(&self, x: &Tensor) -> Tensor {
        let inner = self.weights().matmul(x.unsqueeze(-1)).squeeze(-1);
        (x.square() / &self.diagonal).sum(-1) - squared_lengths(&self.capacitance, &self.own.batch(), &inner)
    }
    /// The trace of `covariance⁻¹ X Xᵀ`.
    fn trace(&self, x: &Tensor) -> Tensor {
        let inner = self.capacitance.solve_triangular(&self.weights().matmul(x), false, false);
        (x.square() / self.diagonal.unsqueeze(-1)).sum([-2, -1]) - inner.square().sum([-2, -1])
    }
}
impl Family for LowRankMultivariateNormal {
    of_parameters!(own, reparameterized);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let columns = self.capacitance.shape()?.last().copied().unwrap_or(1);
        let of_factor = joined(&[&shape[..shape.rank() - 1], &[columns]]);
        let common = self.factor.matmul(standard_normal(&self.own, of_factor, rng).unsqueeze(-1)).squeeze(-1);
        Ok(common + standard_normal(&self.own, shape, rng) * self.diagonal.sqrt() + &self.loc)
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let d = self.own.event().elements() as f64;
        (function == PointFunction::LogProb).then(|| self.mahalanobis(&(x - &self.loc)) * -0.5 - self.half_log_det() - 0.5 * d * LN_TAU)
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let d = self.own.event().elements() as f64;
        Some(match statistic {
            Statistic::Mean | Statistic::Mode => self.loc.clone(),
            Statistic::Variance => self.factor.square().sum(-1) + &self.diagonal,
            Statistic::Entropy => self.half_log_det() + 0.5 * d * (1.0 + LN_TAU),
        })
    }
    fn kl(&self, other: &LowRankMultivariateNormal) -> Option<Tensor> {
        let d = self.own.event().elements() as f64;
        let batch = self.own.batch().broadcast(&other.own.batch())?;
        let wide = |p: &Parameters, t: &Tensor| t.expand(joined(&[&batch, &p.event()]));
        let apart = wide(&self.own, &(&self.loc - &other.loc));
        let spread = other.trace(&self.factor) + other.trace(&self.diagonal.sqrt().diag_embed(0, -2, -1));
        Some(other.half_log_det() - self.half_log_det() + (spread + other.mahalanobis(&apart) - d) * 0.5)
    }
}
