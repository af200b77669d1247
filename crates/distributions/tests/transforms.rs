//! Maps of values, and distributions through them, are PyTorch's (`xtask/python/transforms.py`); and what they refuse.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_core::{DType, Device, Rng, Tensor, tensor};
use adamant_distributions::{transforms::*, *};
use serde_json::Value;

fn tensor_of(v: &Value) -> Tensor {
    let dims: Vec<usize> = v["shape"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect();
    Tensor::from_vec(v["data"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<f64>>(), dims)
}
fn v(x: &[f64]) -> Tensor {
    Tensor::from_slice(x, [x.len()])
}
fn s(x: f64) -> Tensor {
    Tensor::scalar(x)
}
fn boxed(t: impl Transform + 'static) -> Box<dyn Transform> {
    Box::new(t)
}
fn affine(event_rank: usize) -> AffineTransform {
    AffineTransform::with(&v(&[1.0, 2.0, 3.0]), &v(&[2.0, -0.5, 0.25]), event_rank).unwrap()
}
fn line(loc: f64, scale: f64) -> AffineTransform {
    AffineTransform::new(&s(loc), &s(scale)).unwrap()
}
fn map(name: &str) -> Box<dyn Transform> {
    let independent = Constraint::Independent(Box::new(Constraint::Positive), 1);
    match name {
        "Affine" => boxed(affine(0)),
        "Affine of vectors" => boxed(affine(1)),
        "Power" => boxed(PowerTransform::new(&v(&[2.0, 0.5, -1.5])).unwrap()),
        "Exp" => boxed(ExpTransform),
        "Sigmoid" => boxed(SigmoidTransform),
        "Softplus" => boxed(SoftplusTransform),
        "Tanh" => boxed(TanhTransform),
        "Abs" => boxed(AbsTransform),
        "Softmax" => boxed(SoftmaxTransform),
        "StickBreaking" => boxed(StickBreakingTransform),
        "LowerCholesky" => boxed(LowerCholeskyTransform),
        "PositiveDefinite" => boxed(PositiveDefiniteTransform),
        "CorrCholesky" => boxed(CorrCholeskyTransform),
        "Cumulative" => boxed(CumulativeDistributionTransform::new(Normal::new(&s(0.5), &s(2.0)).unwrap())),
        "Reshape" => boxed(ReshapeTransform::new(&[2, 3], &[6]).unwrap()),
        "Independent" => boxed(IndependentTransform::new(ExpTransform, 1)),
        "Compose" => boxed(ComposeTransform::new(vec![boxed(line(0.5, 2.0)), boxed(SigmoidTransform)])),
        "Compose of vectors" => boxed(ComposeTransform::new(vec![boxed(ExpTransform), boxed(AffineTransform::with(&s(0.5), &s(2.0), 1).unwrap())])),
        "Compose to the simplex" => boxed(ComposeTransform::new(vec![boxed(line(0.5, 2.0)), boxed(StickBreakingTransform)])),
        "Cat" => boxed(CatTransform::new(vec![(boxed(ExpTransform), 1), (boxed(TanhTransform), 2)], -1).unwrap()),
        "Stack" => boxed(StackTransform::new(vec![boxed(ExpTransform), boxed(TanhTransform), boxed(SigmoidTransform)], -1).unwrap()),
        "biject GreaterThan" => biject_to(&Constraint::GreaterThan(1.5)).unwrap(),
        "biject LessThan" => biject_to(&Constraint::LessThan(1.5)).unwrap(),
        "biject Interval" => biject_to(&Constraint::Interval(-1.0, 2.5)).unwrap(),
        "biject Simplex" => biject_to(&Constraint::Simplex).unwrap(),
        "biject Independent" => biject_to(&independent).unwrap(),
        "to Simplex" => transform_to(&Constraint::Simplex).unwrap(),
        "to PositiveDefinite" => transform_to(&Constraint::PositiveDefinite).unwrap(),
        _ => panic!("{name}"),
    }
}
fn distribution(name: &str) -> TransformedDistribution {
    let normal = || Normal::new(&v(&[0.5, 1.0, -1.0]), &s(2.0)).unwrap();
    let two = v(&[2.0, -0.5, 0.25]);
    let of = |base: Normal, maps: Vec<Box<dyn Transform>>| TransformedDistribution::new(base, maps).unwrap();
    match name {
        "exp of Normal" => of(normal(), vec![boxed(ExpTransform)]),
        "falling" => of(normal(), vec![boxed(AffineTransform::new(&s(1.0), &two.abs().neg()).unwrap()), boxed(TanhTransform)]),
        "simplex of Normals" => of(normal(), vec![boxed(StickBreakingTransform)]),
        "vectors of Normals" => {
            let base = MultivariateNormal::from_covariance(&v(&[0.0; 3]), &(Tensor::eye_on(3, 3, DType::F64, Device::reference()) * 2.0)).unwrap();
            TransformedDistribution::new(base, vec![boxed(AffineTransform::new(&s(0.5), &two).unwrap()), boxed(ExpTransform)]).unwrap()
        }
        _ => panic!("{name}"),
    }
}
/// Notes what is not the expected one to 1e-10 of the whole.
fn compare(what: String, got: &Tensor, expected: &Value, wrong: &mut Vec<String>) {
    let expected = tensor_of(expected);
    let size = expected.to_vec::<f64>().unwrap().iter().fold(1.0f64, |m, x| m.max(x.abs()));
    match got.shape() {
        Ok(shape) if shape != expected.shape().unwrap() => wrong.push(format!("{what}: shape {shape}")),
        Ok(_) if got.allclose(&expected, 0.0, 1e-10 * size).unwrap() => {}
        Ok(_) => wrong.push(format!("{what}: {:?} and not {:?}", got.to_vec::<f64>(), expected.to_vec::<f64>())),
        Err(e) => wrong.push(format!("{what}: {e}")),
    }
}
/// The gradient of a tensor, weighed by 1, 2, 3, ..
fn weighed(y: &Tensor, x: &Tensor) -> Tensor {
    let shape = y.shape().unwrap();
    let weights = Tensor::from_vec((1..=shape.elements()).map(|k| k as f64).collect::<Vec<f64>>(), shape);
    let grads = (y * weights).sum(..).backward().unwrap();
    grads.get(x).unwrap().clone()
}
#[test]
fn every_number_is_the_one_of_torch() {
    let cases: Value = serde_json::from_str(include_str!("transforms.json")).unwrap();
    Device::reference().scoped(|| {
        let (mut wrong, mut compared) = (Vec::new(), 0);
        for case in cases["maps"].as_array().unwrap() {
            let name = case["name"].as_str().unwrap();
            let (t, x) = (map(name), tensor_of(&case["x"]).tracked());
            let y = t.forward(&x);
            compare(format!("{name} y"), &y, &case["y"], &mut wrong);
            compare(format!("{name} dy"), &weighed(&y, &x), &case["dy"], &mut wrong);
            compare(format!("{name} back"), &t.inverse(&tensor_of(&case["y"])), &case["back"], &mut wrong);
            assert_eq!(t.forward_shape(x.shape().unwrap()).unwrap(), y.shape().unwrap(), "{name}");
            assert_eq!(t.inverse_shape(y.shape().unwrap()).unwrap(), x.shape().unwrap(), "{name}");
            assert_eq!(t.bijective(), case.get("volume").is_some(), "{name}");
            let inside = t.codomain().check(&y).cast(DType::F64).to_vec::<f64>().unwrap();
            assert!(inside.iter().all(|x| *x == 1.0), "{name}: {}", t.codomain());
            compared += 3;
            let volume = t.log_abs_det_jacobian(&x, &t.forward(&x));
            match case.get("volume") {
                Some(expected) => compare(format!("{name} volume"), &volume, expected, &mut wrong),
                None => assert!(volume.error().unwrap().to_string().contains("not bijective"), "{name}"),
            }
            if let Some(expected) = case.get("dvolume") {
                compare(format!("{name} dvolume"), &weighed(&volume, &x), expected, &mut wrong);
                compared += 2;
            }
        }
        for case in cases["distributions"].as_array().unwrap() {
            let name = case["name"].as_str().unwrap();
            let (p, x) = (distribution(name), tensor_of(&case["value"]).tracked());
            let log_prob = p.log_prob(&x);
            compare(format!("{name} log_prob"), &log_prob, &case["log_prob"], &mut wrong);
            let grads = log_prob.sum(..).backward().unwrap();
            compare(format!("{name} d value"), grads.get(&x).unwrap(), &case["d value"], &mut wrong);
            if case.get("cdf").is_some() {
                compare(format!("{name} cdf"), &p.cdf(&x), &case["cdf"], &mut wrong);
                compare(format!("{name} icdf"), &p.icdf(&tensor_of(&case["probability"])), &case["icdf"], &mut wrong);
            }
            compared += 2;
        }
        assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
        assert!(compared > 120, "{compared}");
    });
}
#[test]
fn samples_are_mapped_and_have_gradients() {
    Device::reference().scoped(|| {
        let loc = s(0.5).tracked();
        let make = |loc: &Tensor| TransformedDistribution::new(Normal::new(loc, &s(2.0)).unwrap(), vec![boxed(ExpTransform)]).unwrap();
        let x = make(&loc).rsample(&[20], &Rng::new(4).unwrap());
        let same = LogNormal::new(&s(0.5), &s(2.0)).unwrap().rsample(&[20], &Rng::new(4).unwrap());
        assert!(x.allclose(&same, 1e-12, 0.0).unwrap());
        // The derivative of exp(loc + ..) to loc is the sample itself.
        let gradient = x.sum(..).backward().unwrap().get(&loc).unwrap().to_vec::<f64>().unwrap()[0];
        let sum = x.sum(..).to_vec::<f64>().unwrap()[0];
        assert!((gradient - sum).abs() < 1e-9 * sum, "{gradient} and not {sum}");
        let p = distribution("simplex of Normals");
        let x = p.sample(&[50], &Rng::new(4).unwrap());
        assert_eq!((p.batch_shape().to_vec(), p.event_shape().to_vec()), (vec![], vec![4]));
        assert!(p.support().check(&x).to_vec::<bool>().unwrap().iter().all(|x| *x));
    });
}
#[test]
fn constraints_hold_where_they_should() {
    Device::reference().scoped(|| {
        let of = |c: Constraint, x: &Tensor, expected: &[bool]| assert_eq!(c.check(x).to_vec::<bool>().unwrap(), expected, "{c}");
        let x = tensor![-1.0, 0.0, 0.5, 1.0, 2.0, f32::NAN, f32::INFINITY];
        of(Constraint::Real, &x, &[true, true, true, true, true, false, true]);
        of(Constraint::Positive, &x, &[false, false, true, true, true, false, false]);
        of(Constraint::Boolean, &x, &[false, true, false, true, false, false, false]);
        of(Constraint::Count, &x, &[false, true, false, true, true, false, false]);
        of(Constraint::GreaterThan(0.5), &x, &[false, false, false, true, true, false, false]);
        of(Constraint::AtLeast(0.5), &x, &[false, false, true, true, true, false, false]);
        of(Constraint::LessThan(0.5), &x, &[true, true, false, false, false, false, false]);
        of(Constraint::HalfOpenInterval(0.0, 1.0), &x, &[false, true, true, false, false, false, false]);
        of(Constraint::IntegerInterval(0.0, 1.0), &x, &[false, true, false, true, false, false, false]);
        of(Constraint::Independent(Box::new(Constraint::Positive), 1), &tensor![[1.0, 2.0], [1.0, 0.0]], &[true, false]);
        of(Constraint::Cat(vec![(Constraint::Positive, 1), (Constraint::Real, 1)], -1), &tensor![-1.0, -1.0], &[false, true]);
        of(Constraint::Stack(vec![Constraint::Positive, Constraint::Real], -1), &tensor![-1.0, -1.0], &[false, true]);
        let (lower, other) = (tensor![[1.0, 0.0], [0.5, 1.0]], tensor![[1.0, 0.5], [0.5, 0.1]]);
        let both = Tensor::stack(&[lower, other], 0);
        of(Constraint::LowerTriangular, &both, &[true, false]);
        of(Constraint::LowerCholesky, &both, &[true, false]);
        of(Constraint::CorrCholesky, &both, &[false, false]);
        of(Constraint::Symmetric, &both, &[false, true]);
        of(Constraint::PositiveDefinite, &both, &[false, false]);
        of(Constraint::PositiveDefinite, &tensor![[2.0, 0.5], [0.5, 2.0]], &[true]);
        assert!(Constraint::Simplex.check(&Tensor::scalar(1f32)).error().unwrap().to_string().contains("axes"));
        assert!(Constraint::Symmetric.check(&Tensor::zeros([2, 3])).error().unwrap().to_string().contains("square"));
    });
}
#[test]
fn what_is_refused_names_the_argument() {
    Device::reference().scoped(|| {
        let says = |e: adamant_core::Error, words: &[&str]| words.iter().for_each(|w| assert!(e.to_string().contains(w), "{e}: {w}"));
        let one = tensor![1.0];
        says(AffineTransform::new(&one, &tensor![0.0]).unwrap_err(), &["AffineTransform", "scale", "element 0"]);
        says(PowerTransform::new(&tensor![1.0, 0.0]).unwrap_err(), &["PowerTransform", "exponent", "element 1"]);
        says(ReshapeTransform::new(&[2], &[3]).unwrap_err(), &["ReshapeTransform", "out_shape"]);
        says(CatTransform::new(vec![], -1).unwrap_err(), &["CatTransform", "parts"]);
        says(StackTransform::new(vec![boxed(ExpTransform)], 0).unwrap_err(), &["StackTransform", "axis"]);
        says(biject_to(&Constraint::Count).unwrap_err(), &["biject_to", "whole number"]);
        says(biject_to(&Constraint::PositiveDefinite).unwrap_err(), &["biject_to", "positive definite"]);
        says(CorrCholeskyTransform.forward(&Tensor::zeros([4])).error().unwrap().clone(), &["CorrCholeskyTransform", "4"]);
        let normal = || Normal::new(&Tensor::scalar(0f32), &Tensor::scalar(1f32)).unwrap();
        says(TransformedDistribution::new(normal(), vec![boxed(StickBreakingTransform)]).unwrap_err(), &["TransformedDistribution", "base", "1 axes"]);
        let wide = AffineTransform::new(&tensor![1.0, 2.0], &one).unwrap();
        says(TransformedDistribution::new(normal(), vec![boxed(wide)]).unwrap_err(), &["TransformedDistribution", "base", "[2]"]);
        let falls = TransformedDistribution::new(normal(), vec![boxed(AbsTransform)]).unwrap();
        says(falls.cdf(&one).error().unwrap().clone(), &["TransformedDistribution", "cdf"]);
        says(falls.log_prob(&one).error().unwrap().clone(), &["AbsTransform", "bijective"]);
        says(falls.entropy().error().unwrap().clone(), &["TransformedDistribution", "entropy"]);
    });
}
