//! Samples follow their distribution: Kolmogorov-Smirnov and chi-squared tests of fixed seeds, each at a significance of
//! 0.001; and what must hold of any distribution, by sums and integrals.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_core::{DType, Device, Rng, Tensor};
use adamant_distributions::*;

const SAMPLES: usize = 4000;

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
fn t(x: f64) -> Tensor {
    Tensor::scalar(x)
}
fn v(x: &[f64]) -> Tensor {
    Tensor::from_slice(x, x.len())
}
fn vec(t: &Tensor) -> Vec<f64> {
    t.to_vec_as::<f64>().unwrap()
}
type OnALine = (&'static str, Box<dyn Distribution>, f64, f64);
/// Distributions on a line, with an interval that holds all but 1e-7 of them. Densities have no poles.
fn continuous() -> Vec<OnALine> {
    let mixing = Categorical::new(&v(&[1.0, 3.0])).unwrap();
    let mixed = MixtureSameFamily::new(mixing, Normal::new(&v(&[-2.0, 1.5]), &v(&[0.5, 1.0])).unwrap()).unwrap();
    vec![
        ("Normal", Box::new(Normal::new(&t(-1.0), &t(2.5)).unwrap()), -20.0, 20.0),
        ("LogNormal", Box::new(LogNormal::new(&t(0.3), &t(0.5)).unwrap()), 0.0, 40.0),
        ("HalfNormal", Box::new(HalfNormal::new(&t(2.0)).unwrap()), 0.0, 16.0),
        ("Laplace", Box::new(Laplace::new(&t(1.0), &t(0.7)).unwrap()), -16.0, 18.0),
        ("Cauchy", Box::new(Cauchy::new(&t(1.0), &t(0.5)).unwrap()), f64::NAN, 0.0),
        ("Gumbel", Box::new(Gumbel::new(&t(1.0), &t(1.5)).unwrap()), -8.0, 40.0),
        ("Uniform", Box::new(Uniform::new(&t(-1.0), &t(3.0)).unwrap()), -1.0, 3.0),
        ("Exponential", Box::new(Exponential::new(&t(3.0)).unwrap()), 0.0, 8.0),
        ("Weibull", Box::new(Weibull::new(&t(2.0), &t(2.5)).unwrap()), 0.0, 9.0),
        ("Pareto", Box::new(Pareto::new(&t(1.5), &t(9.0)).unwrap()), 1.5, 12.0),
        ("Gamma", Box::new(Gamma::new(&t(4.5), &t(2.0)).unwrap()), 0.0, 20.0),
        ("Gamma", Box::new(Gamma::new(&t(0.3), &t(2.0)).unwrap()), f64::NAN, 0.0),
        ("Chi2", Box::new(Chi2::new(&t(5.0)).unwrap()), 0.0, 60.0),
        ("Beta", Box::new(Beta::new(&t(2.5), &t(3.5)).unwrap()), 0.0, 1.0),
        ("StudentT", Box::new(StudentT::new(&t(7.0), &t(1.0), &t(0.5)).unwrap()), -40.0, 42.0),
        ("VonMises", Box::new(VonMises::new(&t(0.5), &t(1.5)).unwrap()), -std::f64::consts::PI, std::f64::consts::PI),
        ("VonMises", Box::new(VonMises::new(&t(0.5), &t(1e-7)).unwrap()), -std::f64::consts::PI, std::f64::consts::PI),
        ("HalfCauchy", Box::new(HalfCauchy::new(&t(0.5)).unwrap()), f64::NAN, 0.0),
        ("InverseGamma", Box::new(InverseGamma::new(&t(9.0), &t(8.0)).unwrap()), 0.0, 20.0),
        ("Kumaraswamy", Box::new(Kumaraswamy::new(&t(2.0), &t(3.5)).unwrap()), 0.0, 1.0),
        ("GeneralizedPareto", Box::new(GeneralizedPareto::new(&t(1.0), &t(2.0), &t(0.1)).unwrap()), 1.0, 90.0),
        ("GeneralizedPareto", Box::new(GeneralizedPareto::new(&t(1.0), &t(2.0), &t(-0.4)).unwrap()), 1.0, 6.0),
        ("FisherSnedecor", Box::new(FisherSnedecor::new(&t(8.0), &t(60.0)).unwrap()), 0.0, 16.0),
        ("ContinuousBernoulli", Box::new(ContinuousBernoulli::new(&t(0.2)).unwrap()), 0.0, 1.0),
        ("ContinuousBernoulli", Box::new(ContinuousBernoulli::from_logits(&t(3.0)).unwrap()), 0.0, 1.0),
        ("MixtureSameFamily", Box::new(mixed), -8.0, 10.0),
    ]
}
fn discrete() -> Vec<(&'static str, Box<dyn Distribution>)> {
    vec![
        ("Bernoulli", Box::new(Bernoulli::new(&t(0.3)).unwrap())),
        ("Geometric", Box::new(Geometric::from_logits(&t(-1.0)).unwrap())),
        ("Poisson by products", Box::new(Poisson::new(&t(2.5)).unwrap())),
        ("Poisson by rejection", Box::new(Poisson::new(&t(23.0)).unwrap())),
        ("Binomial by waiting", Box::new(Binomial::new(&t(20.0), &t(0.3)).unwrap())),
        ("Binomial by rejection", Box::new(Binomial::new(&t(100.0), &t(0.45)).unwrap())),
        ("Binomial of many", Box::new(Binomial::from_logits(&t(90.0), &t(1.5)).unwrap())),
        ("NegativeBinomial", Box::new(NegativeBinomial::new(&t(2.5), &t(0.4)).unwrap())),
        ("Categorical", Box::new(Categorical::new(&v(&[1.0, 0.0, 3.0, 2.0])).unwrap())),
    ]
}
/// Points of an interval, and the integral of a function up to each (by midpoints).
fn integral(low: f64, high: f64, f: impl Fn(&Tensor) -> Tensor) -> (Vec<f64>, Vec<f64>) {
    let n = 40_000;
    let step = (high - low) / n as f64;
    let x: Vec<f64> = (0..n).map(|k| low + (k as f64 + 0.5) * step).collect();
    let add = |sum: &mut f64, y: &f64| {
        *sum += y * step;
        Some(*sum)
    };
    let sums = vec(&f(&v(&x))).iter().scan(0.0, add).collect();
    (x.iter().map(|x| x + 0.5 * step).collect(), sums)
}
fn at(points: &(Vec<f64>, Vec<f64>), x: f64) -> f64 {
    let k = points.0.partition_point(|p| *p < x).min(points.0.len() - 1);
    points.1[k]
}
/// The largest distance between the share of samples below and the probability, times √n.
fn smirnov(mut x: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    x.sort_by(f64::total_cmp);
    let n = x.len() as f64;
    let far = |(k, x): (usize, &f64)| (cdf(*x) - k as f64 / n).abs().max((cdf(*x) - (k + 1) as f64 / n).abs());
    x.iter().enumerate().map(far).fold(0.0, f64::max) * n.sqrt()
}
/// The statistic over what it exceeds with a probability of 0.001 (Wilson and Hilferty, 1931). Rare outcomes are one.
fn chi_squared(samples: &[f64], probabilities: &[f64]) -> f64 {
    let n = samples.len() as f64;
    let (mut sum, mut cells, mut rest, mut seen) = (0.0, 0.0, n, n);
    for (k, p) in probabilities.iter().enumerate() {
        let (expected, observed) = (p * n, samples.iter().filter(|s| **s == k as f64).count() as f64);
        assert!(*p > 0.0 || observed == 0.0, "{k} has no probability, and was drawn");
        if expected >= 5.0 {
            sum += (observed - expected).powi(2) / expected;
            (cells, rest, seen) = (cells + 1.0, rest - expected, seen - observed);
        }
    }
    if rest > 1.0 {
        sum += (seen - rest).powi(2) / rest;
        cells += 1.0;
    }
    let df: f64 = cells - 1.0;
    sum / (df * (1.0 - 2.0 / (9.0 * df) + 3.09 * (2.0 / (9.0 * df)).sqrt()).powi(3))
}
#[test]
fn samples_of_numbers_follow_the_cdf_and_the_moments() {
    on_reference(|| {
        for (name, p, low, high) in continuous() {
            let x = vec(&p.sample(&[SAMPLES], &Rng::new(11).unwrap()));
            let distance = if p.cdf(&t(0.5)).error().is_none() {
                let mut sorted = x.clone();
                sorted.sort_by(f64::total_cmp);
                let cdf = vec(&p.cdf(&v(&sorted)));
                smirnov(sorted.clone(), |x| cdf[sorted.partition_point(|y| *y < x)])
            } else {
                let points = integral(low, high, |x| p.log_prob(x).exp());
                smirnov(x.clone(), |x| at(&points, x))
            };
            assert!(distance < 1.95, "{name}: {distance}");
            let (mean, variance) = (vec(&p.mean())[0], vec(&p.variance())[0]);
            if mean.is_finite() && name != "VonMises" {
                let found = x.iter().sum::<f64>() / SAMPLES as f64;
                assert!((found - mean).abs() < 4.0 * (variance / SAMPLES as f64).sqrt(), "{name}: mean {found} and not {mean}");
                let found = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / SAMPLES as f64;
                assert!((found / variance - 1.0).abs() < 0.3, "{name}: variance {found} and not {variance}");
            }
        }
    });
}
#[test]
fn samples_of_counts_follow_their_probabilities() {
    on_reference(|| {
        for (name, p) in discrete() {
            let x = vec(&p.sample(&[10 * SAMPLES], &Rng::new(5).unwrap()));
            let counts = if name == "Categorical" { 4 } else { 120 };
            let probabilities = vec(&p.log_prob(&Tensor::arange(0, counts, 1, DType::I64)).exp());
            let ratio = chi_squared(&x, &probabilities);
            assert!(ratio < 1.0, "{name}: {ratio}");
            assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{name}: probabilities are one");
            if name == "Categorical" {
                continue;
            }
            let moment = |f: &dyn Fn(f64) -> f64| probabilities.iter().enumerate().map(|(k, p)| p * f(k as f64)).sum::<f64>();
            let mean = vec(&p.mean())[0];
            assert!((moment(&|k| k) - mean).abs() < 1e-7 * mean, "{name}: mean");
            let variance = vec(&p.variance())[0];
            assert!((moment(&|k| (k - mean).powi(2)) - variance).abs() < 1e-6 * variance, "{name}: variance");
            if p.cdf(&t(0.0)).error().is_none() {
                let below: f64 = probabilities[..3].iter().sum();
                assert!((vec(&p.cdf(&t(2.5)))[0] - below).abs() < 1e-9, "{name}: cdf");
            }
        }
    });
}
#[test]
fn densities_are_one_and_entropies_and_moments_are_their_integrals() {
    on_reference(|| {
        for (name, p, low, high) in continuous().into_iter().filter(|c| !c.2.is_nan()) {
            let of = |f: &dyn Fn(&Tensor, &Tensor) -> Tensor| {
                let log = |x: &Tensor| f(x, &p.log_prob(x)) * p.log_prob(x).exp();
                *integral(low, high, log).1.last().unwrap()
            };
            let one = of(&|x, _| x.ones_like());
            assert!((one - 1.0).abs() < 1e-5, "{name}: {one}");
            if p.entropy().error().is_none() {
                let (entropy, told) = (of(&|_, log| log.neg()), vec(&p.entropy())[0]);
                assert!((entropy - told).abs() < 1e-4, "{name}: entropy {told} and not {entropy}");
            }
            if name != "VonMises" {
                let mean = of(&|x, _| x.clone());
                assert!((mean - vec(&p.mean())[0]).abs() < 1e-3, "{name}: mean {mean}");
                let variance = of(&|x, _| (x - mean).square());
                assert!((variance - vec(&p.variance())[0]).abs() < 1e-2, "{name}: variance {variance}");
            }
        }
        // PyTorch has no divergence of these.
        let (p, q) = (Weibull::new(&t(2.0), &t(2.5)).unwrap(), Weibull::new(&t(1.5), &t(1.3)).unwrap());
        let kl = integral(0.0, 9.0, |x| (p.log_prob(x) - q.log_prob(x)) * p.log_prob(x).exp()).1;
        assert!((kl.last().unwrap() - vec(&kl_divergence(&p, &q))[0]).abs() < 1e-6);
    });
}
#[test]
fn the_inverse_of_the_cdf_undoes_it() {
    on_reference(|| {
        let p: Vec<f64> = (1..100).map(|k| k as f64 / 100.0).collect();
        let mut inverses = 0;
        for (name, d, ..) in continuous() {
            let x = d.icdf(&v(&p));
            if x.error().is_none() {
                let back = vec(&d.cdf(&x));
                assert!(back.iter().zip(&p).all(|(a, b)| (a - b).abs() < 1e-12), "{name}");
                inverses += 1;
            }
        }
        assert_eq!(inverses, 16);
    });
}
#[test]
fn a_seed_is_its_samples_and_shapes_follow_each_other() {
    on_reference(|| {
        let batch = Tensor::from_slice(&[1.0, 2.0, 3.0], 3);
        let all: Vec<Box<dyn Distribution>> = vec![
            Box::new(Normal::new(&batch, &t(1.0)).unwrap()),
            Box::new(Gamma::new(&batch, &t(1.0)).unwrap()),
            Box::new(Poisson::new(&batch).unwrap()),
            Box::new(Dirichlet::new(&v(&[1.0, 2.0]).expand([3, 2])).unwrap()),
            Box::new(OneHotCategorical::new(&v(&[1.0, 2.0]).expand([3, 2])).unwrap()),
            Box::new(Multinomial::new(5, &v(&[1.0, 2.0]).expand([3, 2])).unwrap()),
            Box::new(MultivariateNormal::from_scale_tril(&v(&[1.0, 2.0]), &Tensor::eye_on(2, 2, DType::F64, Device::reference()).expand([3, 2, 2])).unwrap()),
            Box::new(Independent::new(Normal::new(&batch.unsqueeze(1), &v(&[1.0, 2.0])).unwrap(), 1).unwrap()),
        ];
        for p in &all {
            let draw = |seed| p.sample(&[4, 2], &Rng::new(seed).unwrap());
            let x = draw(1);
            let event: &[usize] = &p.event_shape();
            assert_eq!(x.shape().unwrap().to_vec(), [&[4, 2, 3], event].concat(), "{}", p.name());
            assert_eq!(x.to_bytes().unwrap(), draw(1).to_bytes().unwrap(), "{}", p.name());
            assert_ne!(x.to_bytes().unwrap(), draw(2).to_bytes().unwrap(), "{}", p.name());
            assert_eq!(p.log_prob(&x).shape().unwrap().to_vec(), [4, 2, 3], "{}", p.name());
            let rng = Rng::new(1).unwrap();
            assert_ne!(p.sample(&[4, 2], &rng).to_bytes().unwrap(), p.sample(&[4, 2], &rng).to_bytes().unwrap(), "{}: the counter moves", p.name());
        }
        let p = &all[7];
        let base = Normal::new(&batch.unsqueeze(1), &v(&[1.0, 2.0])).unwrap();
        let x = p.sample(&[4], &Rng::new(3).unwrap());
        assert!(p.log_prob(&x).allclose(&base.log_prob(&x).sum(-1), 1e-12, 1e-12).unwrap());
        assert!(kl_divergence(p.as_ref(), p.as_ref()).allclose(&Tensor::zeros_on(3, DType::F64, Device::reference()), 0.0, 1e-12).unwrap());
    });
}
#[test]
fn vectors_follow_their_marginals() {
    on_reference(|| {
        let rng = Rng::new(8).unwrap();
        let a = [0.7, 2.0, 3.3];
        let x = Dirichlet::new(&v(&a)).unwrap().sample(&[SAMPLES], &rng);
        let marginal = Beta::new(&t(2.0), &t(4.0)).unwrap();
        let points = integral(0.0, 1.0, |x| marginal.log_prob(x).exp());
        let distance = smirnov(vec(&x.select(1, 1)), |x| at(&points, x));
        assert!(distance < 1.95, "Dirichlet: {distance}");
        let x = Multinomial::new(12, &v(&[1.0, 0.0, 3.0, 2.0])).unwrap().sample(&[SAMPLES], &rng);
        assert!(vec(&x.sum(-1)).iter().all(|n| *n == 12.0));
        for (k, p) in [1.0, 0.0, 3.0, 2.0].iter().enumerate().filter(|(_, p)| **p > 0.0) {
            let one = Binomial::new(&t(12.0), &t(p / 6.0)).unwrap();
            let ratio = chi_squared(&vec(&x.select(1, k)), &vec(&one.log_prob(&Tensor::arange(0, 13, 1, DType::I64)).exp()));
            assert!(ratio < 1.0, "Multinomial {k}: {ratio}");
        }
        let covariance = Tensor::from_slice(&[4.0, 2.0, 2.0, 5.0], [2, 2]);
        let x = MultivariateNormal::from_covariance(&v(&[1.0, -1.0]), &covariance).unwrap().sample(&[SAMPLES], &rng);
        let centred = &x - v(&[1.0, -1.0]);
        let found = vec(&(centred.mt().matmul(&centred) / SAMPLES as f64));
        assert!(found.iter().zip([4.0, 2.0, 2.0, 5.0]).all(|(a, b)| (a - b).abs() < 0.5), "{found:?}");
    });
}
#[test]
fn matrices_and_shares_follow_what_is_known_of_them() {
    on_reference(|| {
        let rng = Rng::new(9).unwrap();
        // Of an element of a correlation matrix (1 + r) / 2 is a beta variable, of c + N / 2 - 1 both.
        let root = LkjCholesky::new(4, &t(1.5)).unwrap().sample(&[SAMPLES], &rng);
        let r = root.matmul(root.mt());
        let marginal = Beta::new(&t(2.5), &t(2.5)).unwrap();
        let points = integral(0.0, 1.0, |x| marginal.log_prob(x).exp());
        for (row, column) in [(1, 0), (3, 1), (3, 2)] {
            let distance = smirnov(vec(&((r.select(1, row).select(1, column) + 1.0) * 0.5)), |x| at(&points, x));
            assert!(distance < 1.95, "LkjCholesky {row} {column}: {distance}");
        }
        // A diagonal element of a Wishart matrix, over V's, is a chi-squared variable.
        let tril = Tensor::from_slice(&[2.0, 0.0, 1.0, 1.5], [2, 2]);
        let x = Wishart::from_scale_tril(&t(5.5), &tril).unwrap().sample(&[SAMPLES], &rng);
        let chi2 = Chi2::new(&t(5.5)).unwrap();
        for (k, v) in [(0, 4.0), (1, 3.25)] {
            let mut sorted = vec(&(x.select(1, k).select(1, k) / v));
            sorted.sort_by(f64::total_cmp);
            let cdf = vec(&chi2.cdf(&self::v(&sorted)));
            let distance = smirnov(sorted.clone(), |x| cdf[sorted.partition_point(|y| *y < x)]);
            assert!(distance < 1.95, "Wishart {k}: {distance}");
        }
        let factor = Tensor::from_slice(&[1.0, 2.0], [2, 1]);
        let x = LowRankMultivariateNormal::new(&v(&[1.0, -1.0]), &factor, &v(&[3.0, 1.0])).unwrap().sample(&[SAMPLES], &rng);
        let centred = &x - v(&[1.0, -1.0]);
        let found = vec(&(centred.mt().matmul(&centred) / SAMPLES as f64));
        assert!(found.iter().zip([4.0, 2.0, 2.0, 5.0]).all(|(a, b)| (a - b).abs() < 0.5), "LowRankMultivariateNormal {found:?}");
        // Which share is the largest, the temperature does not change.
        let p = [1.0 / 6.0, 3.0 / 6.0, 2.0 / 6.0];
        let x = RelaxedOneHotCategorical::new(&t(0.7), &v(&p)).unwrap().sample(&[SAMPLES], &rng);
        let ratio = chi_squared(&vec(&x.argmax(-1)), &p);
        assert!(ratio < 1.0, "RelaxedOneHotCategorical: {ratio}");
        let x = OneHotCategoricalStraightThrough::new(&v(&p)).unwrap().sample(&[SAMPLES], &rng);
        let ratio = chi_squared(&vec(&x.argmax(-1)), &p);
        assert!(ratio < 1.0, "OneHotCategoricalStraightThrough: {ratio}");
        let x = RelaxedBernoulli::new(&t(0.7), &t(0.3)).unwrap().sample(&[SAMPLES], &rng);
        let ratio = chi_squared(&vec(&x.gt(0.5).cast(DType::F64)), &[0.7, 0.3]);
        assert!(ratio < 1.0, "RelaxedBernoulli: {ratio}");
        // The first share is a sigmoid of a normal variable less ln 2.
        let x = LogisticNormal::new(&v(&[0.5, -1.0]), &v(&[1.5, 0.5])).unwrap().sample(&[SAMPLES], &rng);
        let normal = Normal::new(&t(0.5), &t(1.5)).unwrap();
        let mut sorted = vec(&(x.select(1, 0).logit() + 2f64.ln()));
        sorted.sort_by(f64::total_cmp);
        let cdf = vec(&normal.cdf(&v(&sorted)));
        let distance = smirnov(sorted.clone(), |x| cdf[sorted.partition_point(|y| *y < x)]);
        assert!(distance < 1.95, "LogisticNormal: {distance}");
    });
}
#[test]
fn gradients_flow_through_rsample_as_differences_say() {
    on_reference(|| {
        type Make = fn(&[Tensor]) -> Box<dyn Distribution>;
        macro_rules! of {
            ($($t:ident($($k:literal = $value:literal),+))+) => {
                [$((stringify!($t), vec![$($value),+], (|p| Box::new($t::new($(&p[$k]),+).unwrap())) as Make)),+]
            };
        }
        let cases = of!(Normal(0 = 1.0, 1 = 2.0) LogNormal(0 = 0.1, 1 = 0.4) HalfNormal(0 = 1.5) Laplace(0 = 1.0, 1 = 2.0) Cauchy(0 = 1.0, 1 = 2.0)
            Gumbel(0 = 1.0, 1 = 2.0) Uniform(0 = 1.0, 1 = 2.0) Exponential(0 = 1.5) Weibull(0 = 1.0, 1 = 2.0) Pareto(0 = 1.0, 1 = 2.0)
            HalfCauchy(0 = 1.5) ContinuousBernoulli(0 = 0.3) RelaxedBernoulli(0 = 0.7, 1 = 0.4) Kumaraswamy(0 = 2.0, 1 = 3.5) GeneralizedPareto(0 = 1.0, 1 = 2.0, 2 = 0.3));
        for (name, values, make) in cases {
            let sum = |p: &[Tensor]| make(p).rsample(&[20], &Rng::new(4).unwrap()).sum(..);
            let leaves: Vec<Tensor> = values.iter().map(|x| t(*x).tracked()).collect();
            let grads = sum(&leaves).backward().unwrap();
            for k in 0..values.len() {
                let moved = |h: f64| vec(&sum(&values.iter().enumerate().map(|(n, x)| t(if n == k { x + h } else { *x })).collect::<Vec<_>>()))[0];
                let (told, found) = (vec(grads.get(&leaves[k]).unwrap())[0], (moved(1e-5) - moved(-1e-5)) / 2e-5);
                assert!((told - found).abs() < 1e-5 * (1.0 + found.abs()), "{name} {k}: {told} and not {found}");
            }
            assert!(!make(&leaves).sample(&[2], &Rng::new(4).unwrap()).is_tracked(), "{name}");
        }
        let tril = Tensor::from_slice(&[2.0, 0.0, 1.0, 3.0], [2, 2]).tracked();
        let x = MultivariateNormal::from_scale_tril(&v(&[0.0, 0.0]), &tril).unwrap().rsample(&[5], &Rng::new(4).unwrap());
        assert!(x.sum(..).backward().unwrap().get(&tril).is_some());
    });
}
