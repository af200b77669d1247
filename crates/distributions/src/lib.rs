//! Probability distributions: densities, samples, moments and divergences, under the names of `torch.distributions`.
//!
//! A distribution is a [`Family`] (its formulas) over [`Parameters`], which broadcast to the batch; what users call is the
//! object-safe [`Distribution`], which every family has: it checks shapes and dtypes once, for all. 16-bit floats compute
//! in f32 and round once; results are of the parameters' dtype.
//!
//! # What is checked, and when
//! Parameters are read when a distribution is made, and one out of its range is an error that names distribution,
//! parameter and constraint. Nothing is read while a graph is captured, inside a transform, and in [`unchecked`]: on a GPU
//! the reading waits for the device. Values are never read: the density of one outside the support is 0, its logarithm -inf.
//!
//! # Samples
//! All come from the [`Rng`](adamant_core::Rng): the same state gives the same bits. What has a closed form is drawn by the device. Gamma and
//! what is made of it (Beta, Chi2, Dirichlet, StudentT, NegativeBinomial, Wishart, LkjCholesky), Poisson, Binomial, Multinomial and
//! VonMises need rejections, of
//! which no fixed number is exact: they read their parameters, draw on the host, and upload.
//!
//! Architecture invariant: formulas in tensors only; this crate knows `adamant-core`, no backend and no layer.
#![forbid(unsafe_code)]

mod categorical;
mod coin;
mod composed;
mod constraints;
mod count;
mod distribution;
mod gamma;
mod host;
mod line;
mod matrices;
mod multivariate;
mod parameters;
mod positive;
mod relaxed;
mod saddle;
mod tails;
mod transformed;
pub mod transforms;
mod trials;

pub use categorical::{Categorical, Multinomial, OneHotCategorical};
pub use coin::{Bernoulli, Binomial, Geometric};
pub use composed::{Independent, MixtureSameFamily};
pub use constraints::Constraint;
pub use count::Poisson;
pub use distribution::{Distribution, Family, PointFunction, Statistic, kl_divergence};
pub use gamma::{Beta, Chi2, Dirichlet, Gamma, StudentT};
pub use line::{Cauchy, Gumbel, Laplace, Normal, Uniform, VonMises};
pub use matrices::{LkjCholesky, Wishart};
pub use multivariate::{LowRankMultivariateNormal, MultivariateNormal};
pub use parameters::{Parameters, unchecked};
pub use positive::{Exponential, HalfNormal, LogNormal, Pareto, Weibull};
pub use relaxed::{LogisticNormal, OneHotCategoricalStraightThrough, RelaxedOneHotCategorical};
pub use tails::{FisherSnedecor, GeneralizedPareto, HalfCauchy, InverseGamma, Kumaraswamy};
pub use transformed::TransformedDistribution;
pub use trials::{ContinuousBernoulli, NegativeBinomial, RelaxedBernoulli};
