//! Tapes and cells of several threads. They go back through one tape at once: what only the tape remembers is computed again by
//! whoever comes first, and all get the gradients that one thread alone gets. And they train one model without asking each other:
//! what a tape remembers of a cell stays what it was while others write the cell.
use adamant_conformance::plain;
use adamant_core::{Cell, DType, Result, Tensor, step};

/// A loss through Maps whose results only the tape wants, so that they are deferred.
fn loss(weights: &[Cell], x: &Tensor) -> Tensor {
    weights.iter().fold(x.clone(), |x, w| (x * w.get()).sin().exp().sigmoid() * 1.5).sum(..)
}
fn gradients(loss: &Tensor, weights: &[Cell]) -> Result<Vec<Vec<f32>>> {
    let grads = loss.backward_keep()?;
    weights.iter().map(|w| grads.of(w).map_or_else(|| Ok(Vec::new()), Tensor::to_vec)).collect()
}

#[test]
fn threads_that_go_back_at_once_get_the_same() {
    for device in [plain::device(2048, usize::MAX), plain::device(3, usize::MAX)] {
        for round in 0..200 {
            let fill = |k: usize| Tensor::full_on([5], 0.3 + 0.1 * k as f64, DType::F32, device);
            let weights: Vec<Cell> = (0..4).map(|k| Cell::new(&fill(k), true).unwrap()).collect();
            let x = fill(9);
            let alone = gradients(&loss(&weights, &x), &weights).unwrap();
            let shared = loss(&weights, &x);
            if round % 2 == 0 {
                shared.materialize().unwrap();
            }
            let begin = std::sync::Barrier::new(4);
            std::thread::scope(|s| {
                let run = || {
                    begin.wait();
                    gradients(&shared, &weights)
                };
                let all: Vec<_> = (0..4).map(|_| s.spawn(run)).collect();
                for thread in all {
                    assert_eq!(thread.join().unwrap().unwrap(), alone, "{device}, round {round}");
                }
            });
        }
    }
}

/// One training step of whoever comes; the weights that it saw may be of several others' steps.
fn train(weights: &[Cell], x: &Tensor) -> Result<()> {
    let grads = loss(weights, x).backward()?;
    step(|| weights.iter().try_for_each(|w| grads.of(w).map_or(Ok(()), |g| w.set(&(w.detached() - g * 1e-3)))))
}
#[test]
fn threads_that_train_one_model_together_fail_nothing() {
    for device in [plain::device(2048, usize::MAX), plain::device(3, usize::MAX)] {
        let fill = |k: usize| Tensor::full_on([5], 0.3 + 0.1 * k as f64, DType::F32, device);
        let weights: Vec<Cell> = (0..4).map(|k| Cell::new(&fill(k), true).unwrap()).collect();
        let before: Vec<Vec<f32>> = weights.iter().map(|w| w.detached().to_vec().unwrap()).collect();
        std::thread::scope(|s| {
            let all: Vec<_> = (0..4).map(|_| s.spawn(|| (0..400).try_for_each(|_| train(&weights, &fill(9))))).collect();
            for thread in all {
                thread.join().unwrap().unwrap();
            }
        });
        assert!(weights.iter().zip(before).all(|(w, before)| w.detached().to_vec::<f32>().unwrap() != before));
    }
}
