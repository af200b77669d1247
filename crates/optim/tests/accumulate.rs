//! Several small batches are one large one.
#![allow(clippy::unwrap_used)]

use adamant_core::{Device, Result, Tensor, functional};
use adamant_nn::{Linear, Module, Walk, manual_seed};
use adamant_optim::{Adam, GradAccumulator, Optimizer, UpdateRule, clip_grad_norm};

fn rows(from: usize, to: usize) -> (Tensor, Tensor) {
    let x: Vec<f32> = (from * 5..to * 5).map(|k| ((k * 37 % 101) as f32 - 50.0) / 20.0).collect();
    let y: Vec<i64> = (from..to).map(|k| (k * 7 % 3) as i64).collect();
    (Tensor::from_vec(x, [to - from, 5]), Tensor::from_vec(y, [to - from]))
}
/// The weights after some steps on 128 rows (the last step's group is ragged), by batches of `mini`.
fn weights(mini: usize, every: usize, total: usize) -> Result<Vec<f32>> {
    manual_seed(3);
    let model = Linear::new(5, 3)?;
    let mut optimizer = Adam::new(1e-2).over(model.parameters());
    let mut accumulator = GradAccumulator::new(model.parameters(), every)?;
    let mut step = |mut grads: adamant_core::Grads| {
        clip_grad_norm(&mut grads, &model.parameters(), 0.05)?;
        optimizer.step(&grads)
    };
    for from in (0..total).step_by(mini) {
        let (x, y) = rows(from, (from + mini).min(total));
        let n = x.shape()?[0];
        let loss = functional::cross_entropy(&model.forward(&x)?, &y, &Default::default());
        if let Some(grads) = accumulator.add(loss.backward()?, n)? {
            step(grads)?;
        }
    }
    if let Some(grads) = accumulator.finish()? {
        step(grads)?;
    }
    model.weight.detached().to_vec()
}
#[test]
fn small_batches_that_step_elsewhere_than_the_large_one() {
    Device::reference().scoped(|| {
        // 300 rows: two whole steps and a ragged one, whose last small batch is ragged too.
        let (small, large) = (weights(16, 8, 300).unwrap(), weights(128, 1, 300).unwrap());
        for (a, b) in small.iter().zip(&large) {
            assert!((a - b).abs() <= 1e-6, "{a} {b}");
        }
    });
}
#[test]
fn a_step_after_too_few_or_too_many_batches() {
    Device::reference().scoped(|| {
        let model = Linear::new(5, 3).unwrap();
        for every in 1..=9 {
            let mut accumulator = GradAccumulator::new(model.parameters(), every).unwrap();
            let steps: Vec<usize> = (1..=20)
                .filter(|k| {
                    let (x, _) = rows(*k, k + 2);
                    accumulator.add(model.forward(&x).unwrap().mean(..).backward().unwrap(), 2).unwrap().is_some()
                })
                .collect();
            assert_eq!(steps, (1..=20 / every).map(|n| n * every).collect::<Vec<_>>());
            assert_eq!(accumulator.waiting(), if every == 1 { 0 } else { 20 % every });
        }
        assert!(GradAccumulator::new(model.parameters(), 0).is_err());
    });
}
