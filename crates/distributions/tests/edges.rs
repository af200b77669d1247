//! Far values, extreme parameters, and wrong calls.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_core::{DType, Device, ErrorKind, Rng, Tensor, tensor};
use adamant_distributions::*;

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
fn vec(t: &Tensor) -> Vec<f64> {
    t.to_vec_as::<f64>().unwrap()
}
#[test]
fn log_probabilities_are_finite_where_they_exist() {
    on_reference(|| {
        let far = |p: &dyn Distribution, x: f64, expected: f64| {
            let x = Tensor::scalar(x as f32).tracked();
            let log = p.log_prob(&x);
            let got = vec(&log)[0];
            assert!(got == expected || (got - expected).abs() <= 1e-5 * expected.abs(), "{} at {}: {got} and not {expected}", p.name(), vec(&x)[0]);
            if expected.is_finite() {
                let gradient = vec(log.sum(..).backward().unwrap().get(&x).unwrap())[0];
                assert!(gradient.is_finite(), "{}: gradient {gradient}", p.name());
            }
        };
        let (zero, one) = (Tensor::scalar(0f32), Tensor::scalar(1f32));
        let big = Tensor::scalar(1e4f32);
        far(&Bernoulli::from_logits(&big).unwrap(), 0.0, -1e4);
        far(&Bernoulli::from_logits(&big).unwrap(), 1.0, 0.0);
        far(&Bernoulli::new(&zero).unwrap(), 0.0, 0.0);
        far(&Bernoulli::new(&one).unwrap(), 1.0, 0.0);
        far(&Bernoulli::new(&one).unwrap(), 0.0, f64::NEG_INFINITY);
        far(&Geometric::from_logits(&(0.0 - &big)).unwrap(), 0.0, -1e4);
        far(&Geometric::new(&one).unwrap(), 0.0, 0.0);
        far(&Binomial::from_logits(&Tensor::scalar(3f32), &big).unwrap(), 0.0, -3e4);
        far(&Binomial::new(&Tensor::scalar(3f32), &one).unwrap(), 3.0, 0.0);
        far(&Poisson::new(&zero).unwrap(), 0.0, 0.0);
        far(&Normal::new(&zero, &one).unwrap(), 1e15, -5e29);
        far(&Laplace::new(&zero, &one).unwrap(), -1e30, -1e30);
        far(&Cauchy::new(&zero, &one).unwrap(), 1e30, -2.0 * 1e30f64.ln() - std::f64::consts::PI.ln());
        far(&StudentT::new(&one, &zero, &one).unwrap(), 1e30, -2.0 * 1e30f64.ln() - std::f64::consts::PI.ln());
        far(&VonMises::new(&zero, &big).unwrap(), std::f64::consts::PI, -2e4 + 0.5 * (1e4 / std::f64::consts::TAU).ln());
        far(&Gamma::new(&one, &one).unwrap(), 0.0, 0.0);
        far(&Exponential::new(&one).unwrap(), -1.0, f64::NEG_INFINITY);
        far(&Uniform::new(&zero, &one).unwrap(), 1.0, f64::NEG_INFINITY);
        far(&Pareto::new(&one, &one).unwrap(), 0.5, f64::NEG_INFINITY);
        far(&Normal::new(&zero, &one).unwrap(), f64::NAN.max(0.0), -0.918_938_5);
        let nan = Exponential::new(&one).unwrap().log_prob(&Tensor::scalar(f32::NAN));
        assert!(vec(&nan)[0].is_nan());
        let p = Categorical::from_logits(&tensor![1e4, 0.0, -1e4]).unwrap();
        assert_eq!(vec(&p.log_prob(&tensor![0, 1, 2])), [0.0, -1e4, -2e4]);
        assert_eq!(vec(&p.entropy()), [0.0]);
        let weights = tensor![1.0, 0.0].tracked();
        let p = Categorical::new(&weights).unwrap();
        let grads = (p.log_prob(&tensor![0]).sum(..) + p.entropy()).backward().unwrap();
        assert!(vec(grads.get(&weights).unwrap()).iter().all(|g| g.is_finite()));
    });
}
#[test]
fn parameters_out_of_range_are_named() {
    on_reference(|| {
        let (one, none) = (tensor![1.0], tensor![1.0, 0.0]);
        let says = |e: adamant_core::Result<()>, kind: &str, words: &[&str]| {
            let e = e.unwrap_err();
            assert_eq!(e.kind().word(), kind, "{e}");
            words.iter().for_each(|w| assert!(e.to_string().contains(w), "{e}: {w}"));
            assert!(e.to_string().contains("edges.rs"), "{e}: the caller's line");
        };
        says(Normal::new(&one, &none).map(drop), "argument", &["Normal", "scale", "greater than 0", "element 1 is 0"]);
        says(Gamma::new(&tensor![f32::NAN], &one).map(drop), "argument", &["Gamma", "concentration", "NaN"]);
        says(Bernoulli::new(&tensor![1.5]).map(drop), "argument", &["Bernoulli", "probs", "[0, 1]"]);
        says(Geometric::new(&tensor![0.0]).map(drop), "argument", &["Geometric", "probs", "(0, 1]"]);
        says(Binomial::new(&tensor![1.5], &one).map(drop), "argument", &["Binomial", "total_count", "whole"]);
        says(Categorical::new(&tensor![0.0, 0.0]).map(drop), "argument", &["Categorical", "probs"]);
        says(Categorical::new(&tensor![1.0, -1.0]).map(drop), "argument", &["Categorical", "probs", "at least 0"]);
        says(Uniform::new(&one, &one).map(drop), "argument", &["Uniform", "high", "low"]);
        says(NegativeBinomial::new(&one, &one).map(drop), "argument", &["NegativeBinomial", "probs", "[0, 1)"]);
        says(RelaxedBernoulli::new(&tensor![0.0], &one).map(drop), "argument", &["RelaxedBernoulli", "temperature"]);
        says(RelaxedOneHotCategorical::new(&tensor![0.0], &one).map(drop), "argument", &["RelaxedOneHotCategorical", "temperature"]);
        says(ContinuousBernoulli::new(&tensor![1.5]).map(drop), "argument", &["ContinuousBernoulli", "probs"]);
        says(LogisticNormal::new(&one, &tensor![0.0]).map(drop), "argument", &["LogisticNormal", "scale"]);
        says(LkjCholesky::new(1, &one).map(drop), "argument", &["LkjCholesky", "dim"]);
        says(LkjCholesky::new(3, &tensor![0.0]).map(drop), "argument", &["LkjCholesky", "concentration"]);
        says(Wishart::from_scale_tril(&one, &tensor![[1.0, 0.0], [0.0, 1.0]]).map(drop), "argument", &["Wishart", "df", "greater than 1"]);
        says(Wishart::from_covariance(&one, &tensor![[-1.0]]).map(drop), "argument", &["Wishart", "covariance", "positive definite", "event 0"]);
        says(LowRankMultivariateNormal::new(&one, &tensor![[1.0]], &tensor![0.0]).map(drop), "argument", &["LowRankMultivariateNormal", "cov_diag"]);
        says(LowRankMultivariateNormal::new(&one, &tensor![[1.0], [1.0]], &one).map(drop), "shape", &["LowRankMultivariateNormal", "cov_factor"]);
        says(MultivariateNormal::from_covariance(&one, &tensor![[-1.0]]).map(drop), "argument", &["MultivariateNormal", "covariance", "positive definite"]);
        says(MultivariateNormal::from_scale_tril(&one, &tensor![[0.0]]).map(drop), "argument", &["MultivariateNormal", "scale_tril"]);
        says(Normal::new(&tensor![1.0, 2.0], &tensor![1.0, 2.0, 3.0]).map(drop), "shape", &["Normal", "[2]", "[3]"]);
        says(Normal::new(&one, &tensor![1.0; f64]).map(drop), "dtype", &["f32", "f64"]);
        says(Normal::new(&tensor![1], &one).map(drop), "dtype", &["loc", "i64"]);
        assert!(unchecked(|| Normal::new(&one, &none)).is_ok());
        assert!(Normal::new(&one, &none).is_err());
    });
}
#[test]
fn what_is_not_there_is_a_failed_tensor_that_names_it() {
    on_reference(|| {
        let one = tensor![1.0];
        let rng = Rng::new(1).unwrap();
        let p = Gamma::new(&one, &one).unwrap();
        for failed in [p.rsample(&[1], &rng), p.icdf(&one), kl_divergence(&p, &Poisson::new(&one).unwrap())] {
            let e = failed.error().unwrap();
            assert!(matches!(e.kind(), ErrorKind::Argument(_)) && e.to_string().contains("Gamma") && e.to_string().contains("edges.rs"), "{e}");
        }
        assert!(Beta::new(&one, &one).unwrap().rsample(&[1], &rng).error().is_some());
        assert!(!Beta::new(&one, &one).unwrap().has_rsample());
        let normal = Normal::new(&tensor![1.0, 2.0], &one).unwrap();
        assert_eq!(normal.log_prob(&tensor![1.0; f64]).error().unwrap().kind().word(), "dtype");
        assert_eq!(normal.log_prob(&tensor![1.0, 2.0, 3.0]).error().unwrap().kind().word(), "shape");
        assert!(Categorical::new(&tensor![1.0, 1.0]).unwrap().log_prob(&tensor![2]).to_vec::<f32>().is_err());
    });
}
#[test]
fn sixteen_bits_stay_sixteen_and_compute_in_more() {
    on_reference(|| {
        for dtype in [DType::F16, DType::BF16] {
            let one = tensor![1.0, 2.0].cast(dtype);
            let p = Gamma::new(&one, &one).unwrap();
            let x = p.sample(&[3], &Rng::new(1).unwrap());
            for t in [&x, &p.log_prob(&x), &p.mean(), &p.entropy(), &kl_divergence(&p, &p)] {
                assert_eq!(t.dtype().unwrap(), dtype);
                assert!(vec(t).iter().all(|x| x.is_finite()));
            }
            let wide = Gamma::new(&tensor![1.0, 2.0], &tensor![1.0, 2.0]).unwrap().log_prob(&x.cast(DType::F32)).cast(dtype);
            assert_eq!(vec(&p.log_prob(&x)), vec(&wide));
            assert_eq!(Normal::new(&one, &one).unwrap().rsample(&[3], &Rng::new(1).unwrap()).dtype().unwrap(), dtype);
        }
    });
}
