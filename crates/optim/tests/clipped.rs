//! Norms of any finite gradients and what is scaled by them, against the formula in plain f64: numbers whose squares leave the dtype, several
//! dtypes side by side, empty tensors.
#![allow(clippy::unwrap_used)]

mod common;

use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{DType, Tensor};
use adamant_nn::Param;
use adamant_optim::{ClipNorm, clip_grad_norm, get_total_norm};
use common::set;

fn gradient(random: &mut Random) -> Tensor {
    let n = *random.pick(&[0, 1, 3, 40]);
    let dtype = *random.pick(&[DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16]);
    let size = match dtype {
        DType::F16 => *random.pick(&[1.0, 6e4, 1e-5]),
        DType::F64 => *random.pick(&[1.0, 1e25, 1e150]),
        _ => *random.pick(&[1.0, 1e25, 3e38, 1e-20]),
    };
    Tensor::from_vec((0..n).map(|_| (random.unit() * 2.0 - 1.0) * size).collect::<Vec<f64>>(), [n]).cast(dtype)
}
fn numbers(t: &Tensor) -> Vec<f64> {
    t.to_vec_as::<f64>().unwrap()
}
/// The norm by the definition, of numbers brought near to 1 by the largest one.
fn plain_norm(all: &[Vec<f64>], ord: f64) -> f64 {
    let largest = all.iter().flatten().fold(0f64, |m, x| m.max(x.abs()));
    if largest == 0.0 || ord.is_infinite() {
        return largest;
    }
    all.iter().flatten().map(|x| (x.abs() / largest).powf(ord)).sum::<f64>().powf(1.0 / ord) * largest
}
#[test]
fn every_finite_gradient_has_its_norm_and_is_scaled_by_it() {
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let gradients: Vec<Tensor> = (0..random.between(1, 4)).map(|_| gradient(&mut random)).collect();
        let parameters: Vec<Param> = gradients.iter().map(|g| Param::new(&g.zeros_like()).unwrap()).collect();
        let before: Vec<Vec<f64>> = gradients.iter().map(numbers).collect();
        let (ord, max) = (*random.pick(&[2.0, 2.0, 1.0, f64::INFINITY]), *random.pick(&[0.5, 1.0, 100.0]));
        let norm = plain_norm(&before, ord);
        let near = |x: f64, y: f64, relative: f64| (x - y).abs() <= relative * y.abs() || x == y;
        let wide = gradients.iter().any(|g| g.dtype().unwrap() == DType::F64);
        let as_told = if wide { norm } else { f64::from(norm as f32) };
        let told = get_total_norm(&gradients, ord, false).unwrap();
        assert_eq!(told.dtype().unwrap(), if wide { DType::F64 } else { DType::F32 });
        assert!(near(numbers(&told)[0], as_told, 1e-6), "seed {seed}, order {ord}: {told} is not {norm}");

        let mut grads = set(&parameters, &gradients);
        clip_grad_norm(&mut grads, &parameters, ClipNorm { norm_type: ord, ..max.into() }).unwrap();
        let scale = (max / (norm + 1e-6)).min(1.0);
        let mut after = Vec::new();
        for ((p, before), g) in parameters.iter().zip(&before).zip(&gradients) {
            let dtype = g.dtype().unwrap();
            let clipped = grads.of(&p.cell()).unwrap();
            assert_eq!(clipped.dtype().unwrap(), dtype);
            let (unit, least) = match dtype {
                DType::F16 => (1e-3, 1e-7),
                DType::BF16 => (8e-3, 1e-38),
                DType::F32 => (1e-5, 1e-38),
                _ => (1e-5, 0.0),
            };
            let clipped = numbers(clipped);
            for (x, y) in clipped.iter().zip(before.iter().map(|x| x * scale)) {
                // A scale below f32's normal numbers has fewer digits.
                let unit = if dtype != DType::F64 && scale < 1e-37 { 0.3 } else { unit };
                assert!((x - y).abs() <= unit * y.abs() + least, "seed {seed}, {dtype}: {x} is not {y}");
            }
            after.push(clipped);
        }
        let all_f32 = gradients.iter().all(|g| g.dtype().unwrap() == DType::F32);
        assert!(!all_f32 || scale < 1e-37 || plain_norm(&after, ord) <= max * (1.0 + 1e-6), "seed {seed}");
    }
}
#[test]
fn gradients_whose_squares_are_infinite_have_a_finite_norm() {
    for (value, dtype) in [(1e25, DType::F32), (6e4, DType::F16), (3e38, DType::BF16)] {
        let g = Tensor::full([4], value, DType::F64).cast(dtype);
        let exact = numbers(&g)[0] * 2.0;
        let norm = numbers(&get_total_norm([&g], 2.0, true).map_or_else(|_| Tensor::full([1], f64::NAN, DType::F64), |t| t.reshape([1])))[0];
        // The last one's is beyond f32, and told to be.
        assert!(if exact > f64::from(f32::MAX) { norm.is_nan() } else { (norm / exact - 1.0).abs() < 1e-6 }, "{dtype}: {norm}");
        let p = [Param::new(&g.zeros_like()).unwrap()];
        let mut grads = set(&p, std::slice::from_ref(&g));
        clip_grad_norm(&mut grads, &p, 1.0).unwrap();
        let clipped = numbers(grads.of(&p[0].cell()).unwrap());
        assert!(clipped.iter().all(|x| (x - 0.5).abs() < 3e-3), "{dtype}: {clipped:?}");
    }
}
