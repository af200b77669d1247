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
        MultivariateNormal::of(loc, covariance, "covariance", |c| definite("covariance", c.cholesky()))
    }
    /// By the inverse of the covariance, whose upper triangle is read.
    ///
    /// # Errors
    /// A matrix that is not positive definite; dtypes and shapes as of [`Parameters::new`].
    #[track_caller]
    pub fn from_precision(loc: &Tensor, precision: &Tensor) -> Result<MultivariateNormal> {
        MultivariateNormal::of(loc, precision, "precision", |p| {
            // The root of the precision, from the last row up, is the inverse of the covariance's, transposed.
            let inverse = definite("precision", p.flip([-2, -1]).cholesky())?.flip([-2, -1]).mt();
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
            check(NAME, "the diagonal of scale_tril", &l.diagonal(0, -2, -1), Constraint::Positive)?;
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
        if vectors.dtype() != matrices.dtype() {
            return Err(Error::new(NAME, ErrorKind::DtypeMismatch { left: vectors.dtype(), right: matrices.dtype() }));
        }
        let Some(batch) = vectors.batch().broadcast(&matrices.batch()) else {
            let (left, right) = (vectors.batch(), matrices.batch());
            return Err(Error::new(NAME, ErrorKind::ShapeMismatch { left, right, axes: None, expected: "parameters broadcast to one batch" }));
        };
        let own = Parameters::of_parts(NAME, vectors.dtype(), vectors.device(), batch, d);
        let ([loc], [matrix]) = (vectors.all(), matrices.all());
        let tril = root(matrix)?.expand(joined(&[&batch, &square]));
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
    /// The squared length of `L⁻¹ x` for vectors x `[sample.., batch.., D]`: samples are columns, so L is not repeated.
    fn mahalanobis(&self, x: &Tensor) -> Tensor {
        let (batch, d) = (self.own.batch(), self.own.event());
        let shape = x.shape().unwrap_or(Shape::SCALAR);
        let samples = joined(&[&shape[..shape.rank().saturating_sub(batch.rank() + 1)]]);
        let columns = x.reshape(joined(&[&[samples.elements()], &batch, &d])).movedim(0, -1);
        let lengths = self.tril.solve_triangular(&columns, false, false).square().sum(-2);
        lengths.movedim(-1, 0).reshape(joined(&[&samples, &batch]))
    }
}
/// A root of a matrix that has one.
fn definite(name: &str, root: Tensor) -> Result<Tensor> {
    match read(&root) {
        Ok(_) => Ok(root),
        Err(e) if matches!(e.kind(), ErrorKind::Domain(_)) => {
            Err(Error::new(NAME, ErrorKind::Argument(format!("{name} must be positive definite: {}", e.kind()))))
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
