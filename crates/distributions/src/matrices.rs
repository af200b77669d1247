//! Distributions of matrices: of correlations, and of covariances.
use crate::{
    Constraint, Family, Parameters, PointFunction, Statistic,
    distribution::of_parameters,
    host::{self, SampleWords},
    parameters::{check, joined, located},
};
use adamant_core::{Error, ErrorKind, Result, Rng, Shape, Tensor};
use std::f64::consts::{LN_2, PI};

/// The distribution of the roots L of N x N correlation matrices `L Lᵀ` whose density is proportional to `det^(concentration - 1)`:
/// uniform at a concentration of 1. Mean, variance and entropy have no closed form.
///
/// Shapes: `concentration` `[batch..]`, values `[sample.., batch.., N, N]`. Source: `torch.distributions.LKJCholesky`; Lewandowski,
/// Kurowicka and Joe, "Generating random correlation matrices based on vines and extended onion method", 2009.
///
/// ```
/// # use adamant_core::{Device, Rng, tensor};
/// use adamant_distributions::{Constraint, Distribution, LkjCholesky};
/// # Device::reference().make_current();
/// let p = LkjCholesky::new(3, &tensor![0.5])?;
/// let l = p.sample(&[4], &Rng::new(1)?);
/// assert_eq!(Constraint::CorrCholesky.check(&l).to_vec::<bool>()?, [true; 4]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LkjCholesky {
    own: Parameters,
    concentration: Tensor,
    rows: usize,
}
impl LkjCholesky {
    /// Of `dim` x `dim` matrices.
    ///
    /// # Errors
    /// Fewer than two rows; a concentration that is not positive.
    #[track_caller]
    pub fn new(dim: usize, concentration: &Tensor) -> Result<LkjCholesky> {
        located("LkjCholesky", || {
            if dim < 2 {
                return Err(Error::new("LkjCholesky", ErrorKind::Argument(format!("dim must be at least 2, and is {dim}"))));
            }
            let own = Parameters::new("LkjCholesky", &[("concentration", concentration, Constraint::Positive)], 0)?;
            let [concentration] = own.all();
            Ok(LkjCholesky { concentration: concentration.clone(), own: own.with_event(joined(&[&[dim, dim]])), rows: dim })
        })
    }
    /// The concentration.
    #[track_caller]
    pub fn concentration(&self) -> Tensor {
        self.own.named("concentration")
    }
}
/// A beta variable.
fn beta(a: f64, b: f64, words: &mut SampleWords) -> f64 {
    let (x, y) = (host::log_gamma(a, words), host::log_gamma(b, words));
    1.0 / (1.0 + (y - x).exp())
}
impl Family for LkjCholesky {
    of_parameters!(own);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let (p, n) = (&self.own, self.rows);
        let each = self.concentration.unsqueeze(-1).unsqueeze(-1).expand(p.full());
        // The onion: each row is a direction, and how far it reaches away from the last axis.
        host::drawn(shape, [&each], n * n, (p.wide(), p.device()), rng, |[c], words, out| {
            out[0] = 1.0;
            for row in 1..n {
                let y = beta(0.5 * row as f64, c[0] + 0.5 * (n as f64 - 1.0 - row as f64), words);
                let direction: Vec<f64> = (0..row).map(|_| words.normal()).collect();
                let length = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
                for (k, x) in direction.iter().enumerate() {
                    out[row * n + k] = y.sqrt() * x / length;
                }
                out[row * n + row] = (1.0 - y).sqrt();
            }
        })
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let (c, n) = (&self.concentration, self.rows);
        (function == PointFunction::LogProb).then(|| {
            let diagonal = x.diagonal(0, -2, -1).narrow(-1, 1, n - 1);
            // 2 (c - 1) + N - k of the rows k = 2, .., N.
            let orders: Vec<f64> = (2..=n).map(|k| n as f64 - k as f64).collect();
            let orders = Tensor::from_vec_on(orders, [n - 1], self.own.device()).cast(self.own.wide());
            let powers = ((c - 1.0) * 2.0).unsqueeze(-1) + orders;
            let less = (n - 1) as f64;
            let alpha = c + 0.5 * less;
            let norm = (&alpha - 0.5).multigammaln(n - 1) - alpha.lgamma() * less + 0.5 * less * PI.ln();
            (powers * diagonal.log()).sum(-1) - norm
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        // The identity has the largest determinant: the mode from a concentration of 1 on.
        let eye = || Tensor::eye_on(self.rows, self.rows, self.own.wide(), self.own.device()).expand(self.own.full());
        (statistic == Statistic::Mode).then(|| self.concentration.unsqueeze(-1).unsqueeze(-1).ge(1.0).where_(&eye(), f64::NAN))
    }
}

/// The Wishart distribution of N x N covariance matrices: of the sum of `df` products `x xᵀ` of normal vectors with the covariance V, where
/// df need not be a whole number.
///
/// Shapes: `df` `[batch..]`, V `[batch.., N, N]`, by itself or by its root. Source: `torch.distributions.Wishart`; samples by Bartlett's
/// decomposition.
///
/// ```
/// # use adamant_core::{Device, tensor};
/// use adamant_distributions::{Distribution, Wishart};
/// # Device::reference().make_current();
/// let p = Wishart::from_scale_tril(&tensor![3.0], &tensor![[[2.0, 0.0], [1.0, 1.0]]])?;
/// assert_eq!(p.mean().to_vec::<f32>()?, [12.0, 6.0, 6.0, 6.0]);
/// assert!(Wishart::from_scale_tril(&tensor![0.5], &tensor![[[2.0, 0.0], [1.0, 1.0]]]).unwrap_err().to_string().contains("df"));
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Wishart {
    own: Parameters,
    df: Tensor,
    tril: Tensor,
}
impl Wishart {
    /// By the covariance V.
    ///
    /// # Errors
    /// `df` is not above N - 1; a covariance that is not positive definite; shapes that do not broadcast.
    #[track_caller]
    pub fn from_covariance(df: &Tensor, covariance: &Tensor) -> Result<Wishart> {
        located("Wishart", || {
            check("Wishart", "covariance", covariance, &Constraint::PositiveDefinite)?;
            Wishart::built(df, &covariance.cholesky())
        })
    }
    /// By the lower triangle L with `L Lᵀ` = V.
    ///
    /// # Errors
    /// As of [`Wishart::from_covariance`]; a diagonal that is not positive.
    #[track_caller]
    pub fn from_scale_tril(df: &Tensor, scale_tril: &Tensor) -> Result<Wishart> {
        located("Wishart", || Wishart::built(df, scale_tril))
    }
    fn built(df: &Tensor, tril: &Tensor) -> Result<Wishart> {
        let matrices = Parameters::new("Wishart", &[("scale_tril", tril, Constraint::Real)], 2)?;
        let square = matrices.event();
        if square[0] != square[1] {
            return Err(Error::new("Wishart", ErrorKind::Shape { shape: matrices.full(), expected: "scale_tril of as many rows as columns".into() }));
        }
        check("Wishart", "the diagonal of scale_tril", &tril.diagonal(0, -2, -1), &Constraint::Positive)?;
        let given = Parameters::new("Wishart", &[("df", df, Constraint::GreaterThan(square[0] as f64 - 1.0))], 0)?;
        if given.dtype() != matrices.dtype() {
            return Err(Error::new("Wishart", ErrorKind::DtypeMismatch { left: given.dtype(), right: matrices.dtype() }));
        }
        let Some(batch) = given.batch().broadcast(&matrices.batch()) else {
            let (left, right) = (given.batch(), matrices.batch());
            return Err(Error::new("Wishart", ErrorKind::ShapeMismatch { left, right, axes: None, expected: "parameters broadcast to one batch" }));
        };
        let own = Parameters::of_parts("Wishart", given.dtype(), given.device(), batch, square);
        let ([df], [tril]) = (given.all(), matrices.all());
        Ok(Wishart { df: df.expand(batch), tril: tril.tril(0).expand(own.full()), own })
    }
    /// The degrees of freedom, broadcast.
    #[track_caller]
    pub fn df(&self) -> Tensor {
        self.df.cast(self.own.dtype())
    }
    /// The lower triangle L with `L Lᵀ` = V, `[batch.., N, N]`.
    #[track_caller]
    pub fn scale_tril(&self) -> Tensor {
        self.tril.cast(self.own.dtype())
    }
    fn rows(&self) -> usize {
        self.own.event()[0]
    }
    fn covariance(&self) -> Tensor {
        self.tril.matmul(self.tril.mt())
    }
    fn log_diagonal(tril: &Tensor) -> Tensor {
        tril.diagonal(0, -2, -1).log().sum(-1)
    }
    /// `ln Γ_N(df / 2)` and the powers of 2 and of |V| with it.
    fn log_norm(&self) -> Tensor {
        let n = self.rows();
        (&self.df * 0.5).multigammaln(n) + &self.df * (0.5 * n as f64 * LN_2) + &self.df * Wishart::log_diagonal(&self.tril)
    }
    /// `E ln |X| - ln |V|`.
    fn log_det(&self) -> Tensor {
        let terms = (0..self.rows()).map(|k| ((&self.df - k as f64) * 0.5).digamma());
        terms.fold(self.df.full_like(self.rows() as f64 * LN_2), |sum, t| sum + t)
    }
}
impl Family for Wishart {
    of_parameters!(own);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let (p, n) = (&self.own, self.rows());
        let each = self.df.unsqueeze(-1).unsqueeze(-1).expand(p.full());
        let triangle = host::drawn(shape, [&each], n * n, (p.wide(), p.device()), rng, |[df], words, out| {
            for row in 0..n {
                for column in 0..row {
                    out[row * n + column] = words.normal();
                }
                out[row * n + row] = (2.0 * host::log_gamma(0.5 * (df[0] - row as f64), words).exp()).sqrt();
            }
        })?;
        let root = self.tril.matmul(&triangle);
        Ok(root.matmul(root.mt()))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        (function == PointFunction::LogProb).then(|| {
            let root = x.cholesky();
            let tril = self.tril.expand(root.shape().unwrap_or(Shape::SCALAR));
            let spread = tril.solve_triangular(&root, false, false).square().sum([-2, -1]);
            (&self.df - (self.rows() as f64 + 1.0)) * Wishart::log_diagonal(&root) - spread * 0.5 - self.log_norm()
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let (n, df) = (self.rows() as f64, self.df.unsqueeze(-1).unsqueeze(-1));
        let v = self.covariance();
        Some(match statistic {
            Statistic::Mean => df * v,
            Statistic::Mode => {
                let factor = df - (n + 1.0);
                factor.le(0.0).where_(f64::NAN, &(factor * v))
            }
            Statistic::Variance => {
                let diagonal = v.diagonal(0, -2, -1);
                df * (v.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))
            }
            Statistic::Entropy => {
                let log_det = self.log_det() + Wishart::log_diagonal(&self.tril) * 2.0;
                self.log_norm() - (&self.df - (n + 1.0)) * 0.5 * log_det + &self.df * (0.5 * n)
            }
        })
    }
    fn kl(&self, other: &Wishart) -> Option<Tensor> {
        let batch = self.own.batch().broadcast(&other.own.batch())?;
        let full = joined(&[&batch, &self.own.event()]);
        let spread = other.tril.expand(full).solve_triangular(&self.tril.expand(full), false, false).square().sum([-2, -1]);
        let log_det = self.log_det() + Wishart::log_diagonal(&self.tril) * 2.0;
        let norms = other.log_norm() - self.log_norm();
        Some(norms + ((&self.df - &other.df) * log_det + &self.df * (spread - self.rows() as f64)) * 0.5)
    }
}
