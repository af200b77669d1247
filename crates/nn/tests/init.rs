//! Initial values have the statistics their sources promise.
#![allow(clippy::unwrap_used)]

use adamant_core::{Device, Result, Tensor};
use adamant_nn::init::{self, Fan, Nonlinearity};

fn on_reference(f: impl FnOnce() -> Result<()>) {
    Device::reference().scoped(|| {
        init::manual_seed(1);
        f().unwrap();
    });
}
/// (mean, standard deviation, smallest, largest)
fn statistics(t: &Tensor) -> (f64, f64, f64, f64) {
    let v: Vec<f64> = t.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect();
    let mean = v.iter().sum::<f64>() / v.len() as f64;
    let var = v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / v.len() as f64;
    (mean, var.sqrt(), v.iter().copied().fold(f64::MAX, f64::min), v.iter().copied().fold(f64::MIN, f64::max))
}
#[test]
fn a_bound_or_deviation_that_is_not_the_papers() {
    on_reference(|| {
        let shape = [64, 32, 3, 3];
        let (fan_in, fan_out) = (32.0 * 9.0, 64.0 * 9.0);
        let uniform = [
            (init::uniform(shape, -0.3, 0.3)?, 0.3),
            (init::xavier_uniform(shape, 2.0)?, 2.0 * (6.0f64 / (fan_in + fan_out)).sqrt()),
            (init::kaiming_uniform(shape, Fan::Out, Nonlinearity::Relu)?, (6.0f64 / fan_out).sqrt()),
            (init::kaiming_uniform(shape, Fan::In, Nonlinearity::Tanh)?, 5.0 / 3.0 * (3.0f64 / fan_in).sqrt()),
            (init::default_weight(shape)?, 1.0 / fan_in.sqrt()),
        ];
        for (t, bound) in uniform {
            let (mean, std, low, high) = statistics(&t);
            assert!(mean.abs() < 0.03 * bound && (std - bound / 3f64.sqrt()).abs() < 0.03 * bound, "{mean} {std} {bound}");
            assert!(low >= -bound * 1.000001 && high <= bound * 1.000001 && high > 0.97 * bound && low < -0.97 * bound, "{low} {high} {bound}");
        }
        let normal = [
            (init::normal(shape, 0.0, 0.3)?, 0.3),
            (init::xavier_normal(shape, 1.0)?, (2.0f64 / (fan_in + fan_out)).sqrt()),
            (init::kaiming_normal(shape, Fan::In, Nonlinearity::LeakyRelu(0.2))?, (2.0 / 1.04 / fan_in).sqrt()),
            (init::kaiming_normal(shape, Fan::In, Nonlinearity::Selu)?, 0.75 / fan_in.sqrt()),
        ];
        for (t, want) in normal {
            let (mean, std, low, high) = statistics(&t);
            assert!(mean.abs() < 0.03 * want && (std - want).abs() < 0.03 * want, "{mean} {std} {want}");
            assert!(low < -3.0 * want && high > 3.0 * want, "{low} {high} {want}");
        }
        let (mean, std, low, high) = statistics(&init::trunc_normal(shape, 0.0, 1.0, -2.0, 2.0)?);
        // of the normal distribution cut off at 2: standard deviation 0.8796
        assert!(mean.abs() < 0.02 && (std - 0.8796).abs() < 0.02 && low >= -2.0 && high <= 2.0, "{mean} {std} {low} {high}");
        assert!(init::trunc_normal(4, 0.0, 1.0, 50.0, 60.0).is_err());
        Ok(())
    });
}
#[test]
fn rows_that_are_not_orthogonal() {
    on_reference(|| {
        for shape in [[16, 72], [72, 16]] {
            let q = init::orthogonal(shape, 2.0)?;
            let gram = if shape[0] < shape[1] { q.matmul(q.mt()) } else { q.mt().matmul(&q) };
            for (k, v) in gram.to_vec::<f32>()?.into_iter().enumerate() {
                let want = if k / 16 == k % 16 { 4.0 } else { 0.0 };
                assert!((v - want).abs() < 1e-5, "{k} {v}");
            }
        }
        Ok(())
    });
}
#[test]
fn identities_that_change_their_input() {
    on_reference(|| {
        assert_eq!(init::eye([2, 3])?.to_vec::<f32>()?, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        let x = init::normal([1, 4, 5], 0.0, 1.0)?;
        let options = adamant_core::functional::ConvOptions { padding: adamant_core::functional::Padding::Same, groups: 2, ..Default::default() };
        let y = adamant_core::functional::conv1d(&x, &init::dirac([4, 2, 3], 2)?, None, &options);
        assert_eq!(y.to_vec::<f32>()?, x.to_vec::<f32>()?);
        let sparse = init::sparse([10, 6], 0.25, 1.0)?.to_vec::<f32>()?;
        for column in 0..6 {
            assert_eq!((0..10).filter(|r| sparse[r * 6 + column] == 0.0).count(), 3);
        }
        Ok(())
    });
}
