//! Densities, their gradients, moments and divergences are PyTorch's, in f64 and in f32. (`xtask/python/distributions.py`.)
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_core::{DType, Device, Result, Tensor};
use adamant_distributions::*;
use serde_json::Value;

fn numbers(v: &Value) -> Vec<f64> {
    v["data"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap_or_else(|| x.as_str().unwrap().parse().unwrap())).collect()
}
fn tensor(v: &Value, dtype: DType) -> Tensor {
    let dims: Vec<usize> = v["shape"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect();
    Tensor::from_vec(numbers(v), dims).cast(dtype)
}
/// The distribution over tensors that are found by PyTorch's names.
fn made(name: &str, given: &Value, p: impl Fn(&str) -> Tensor) -> Result<Box<dyn Distribution>> {
    let by_logits = given.get("logits").is_some();
    macro_rules! of {
        ($t:ident $($a:literal)+) => { Box::new($t::new($(&p($a)),+)?) };
    }
    macro_rules! two {
        ($t:ident $($more:expr)?) => { if by_logits { Box::new($t::from_logits($($more,)? &p("logits"))?) } else { Box::new($t::new($($more,)? &p("probs"))?) } };
    }
    Ok(match name {
        "Normal" => of!(Normal "loc" "scale"),
        "LogNormal" => of!(LogNormal "loc" "scale"),
        "HalfNormal" => of!(HalfNormal "scale"),
        "Laplace" => of!(Laplace "loc" "scale"),
        "Cauchy" => of!(Cauchy "loc" "scale"),
        "Gumbel" => of!(Gumbel "loc" "scale"),
        "Uniform" => of!(Uniform "low" "high"),
        "Exponential" => of!(Exponential "rate"),
        "Weibull" => of!(Weibull "scale" "concentration"),
        "Pareto" => of!(Pareto "scale" "alpha"),
        "HalfCauchy" => of!(HalfCauchy "scale"),
        "InverseGamma" => of!(InverseGamma "concentration" "rate"),
        "Kumaraswamy" => of!(Kumaraswamy "concentration1" "concentration0"),
        "GeneralizedPareto" => of!(GeneralizedPareto "loc" "scale" "concentration"),
        "FisherSnedecor" => of!(FisherSnedecor "df1" "df2"),
        "Gamma" => of!(Gamma "concentration" "rate"),
        "Chi2" => of!(Chi2 "df"),
        "Beta" => of!(Beta "concentration1" "concentration0"),
        "Dirichlet" => of!(Dirichlet "concentration"),
        "StudentT" => of!(StudentT "df" "loc" "scale"),
        "VonMises" => of!(VonMises "loc" "concentration"),
        "Poisson" => of!(Poisson "rate"),
        "Bernoulli" => two!(Bernoulli),
        "Geometric" => two!(Geometric),
        "Binomial" => two!(Binomial & p("total_count")),
        "Categorical" => two!(Categorical),
        "OneHotCategorical" => two!(OneHotCategorical),
        "Multinomial" => two!(Multinomial 7),
        "NegativeBinomial" => two!(NegativeBinomial & p("total_count")),
        "ContinuousBernoulli" => two!(ContinuousBernoulli),
        "RelaxedBernoulli" => two!(RelaxedBernoulli & p("temperature")),
        "RelaxedOneHotCategorical" => two!(RelaxedOneHotCategorical & p("temperature")),
        "OneHotCategoricalStraightThrough" => two!(OneHotCategoricalStraightThrough),
        "LogisticNormal" => of!(LogisticNormal "loc" "scale"),
        "LowRankMultivariateNormal" => of!(LowRankMultivariateNormal "loc" "cov_factor" "cov_diag"),
        "LkjCholesky" => Box::new(LkjCholesky::new(3, &p("concentration"))?),
        "Wishart" => Box::new(Wishart::from_scale_tril(&p("df"), &p("scale_tril"))?),
        "MultivariateNormal" => {
            let loc = p("loc");
            Box::new(match given {
                g if g.get("scale_tril").is_some() => MultivariateNormal::from_scale_tril(&loc, &p("scale_tril"))?,
                g if g.get("covariance_matrix").is_some() => MultivariateNormal::from_covariance(&loc, &p("covariance_matrix"))?,
                _ => MultivariateNormal::from_precision(&loc, &p("precision_matrix"))?,
            })
        }
        _ => panic!("{name}"),
    })
}
/// Is a tensor what PyTorch says, in shape and numbers?
fn compare(what: &str, got: &Tensor, expected: &Value, tolerance: f64, wrong: &mut Vec<String>) {
    let got = match got.clone().ok().and_then(|t| Ok((t.shape()?.to_vec(), t.to_vec_as::<f64>()?))) {
        Ok(got) => got,
        Err(e) => return wrong.push(format!("{what}: {e}")),
    };
    let dims: Vec<u64> = expected["shape"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap()).collect();
    if !got.0.iter().map(|d| *d as u64).eq(dims.iter().copied()) {
        return wrong.push(format!("{what}: shape {:?} and not {dims:?}", got.0));
    }
    let expected = numbers(expected);
    // Of the whole: a gradient is a sum of terms that cancel.
    let size = expected.iter().filter(|x| x.is_finite()).fold(1.0f64, |m, x| m.max(x.abs()));
    let near = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * size;
    if let Some(k) = (0..expected.len()).find(|&k| !near(got.1[k], expected[k])) {
        wrong.push(format!("{what}: element {k} is {} and not {}", got.1[k], expected[k]));
    }
}
fn check(case: &Value, dtype: DType, tolerance: f64, wrong: &mut Vec<String>) -> Result<usize> {
    let name = case["name"].as_str().unwrap();
    let leaves: Vec<(&String, Tensor)> = case["parameters"].as_object().unwrap().iter().map(|(k, v)| (k, tensor(v, dtype).tracked())).collect();
    let p = made(name, &case["parameters"], |k| leaves.iter().find(|(n, _)| *n == k).unwrap().1.clone())?;
    let q = made(name, &case["other"], |k| tensor(&case["other"][k], dtype))?;
    let value = if name == "Categorical" { tensor(&case["value"], DType::I64) } else { tensor(&case["value"], dtype).tracked() };
    let log_prob = p.log_prob(&value);
    let grads = log_prob.sum(..).backward()?;
    let mut compared = 0;
    for (key, expected) in case.as_object().unwrap() {
        let got = match key.as_str() {
            "log_prob" => log_prob.clone(),
            "mean" => p.mean(),
            "variance" => p.variance(),
            "mode" => p.mode(),
            "entropy" => p.entropy(),
            "cdf" => p.cdf(&value),
            "icdf" => p.icdf(&tensor(&case["probability"], dtype)),
            "kl" => kl_divergence(p.as_ref(), q.as_ref()),
            "d value" => grads.get(&value).unwrap().clone(),
            d if d.starts_with("d ") => grads.get(&leaves.iter().find(|(n, _)| **n == d[2..]).unwrap().1).unwrap().clone(),
            _ => continue,
        };
        let wanted = if name == "Categorical" && key == "mode" { DType::I64 } else { dtype };
        assert_eq!(got.dtype()?, wanted, "{name} {key}");
        compare(&format!("{name} {key} {dtype}"), &got, expected, tolerance, wrong);
        compared += 1;
    }
    Ok(compared)
}
#[test]
fn every_number_is_the_one_of_torch() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("torch.json")).unwrap();
    Device::reference().scoped(|| {
        let (mut wrong, mut compared) = (Vec::new(), 0);
        for case in &cases {
            for (dtype, tolerance) in [(DType::F64, 1e-10), (DType::F32, 3e-5)] {
                match check(case, dtype, tolerance, &mut wrong) {
                    Ok(n) => compared += n,
                    Err(e) => wrong.push(format!("{}: {e}", case["name"])),
                }
            }
        }
        assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
        assert!(compared > 1500, "{compared}");
    });
}
