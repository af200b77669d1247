//! How good a model is, by its loss and by measures of its own.
use super::{Batch, MetricOf, Score};
use crate::{Failure, evaluate::evaluating};
use adamant_core::{Device, Result as Computed, Tensor};
use adamant_nn::Walk;

/// Judges a model by its loss and by measures of its own.
pub(super) fn score<M: Walk, B: Batch>(
    model: &M,
    device: Device,
    pass: &mut dyn FnMut(&M, &mut dyn FnMut(&M, B) -> Result<(), Failure>) -> Result<(), Failure>,
    loss: &dyn Fn(&M, &B) -> Computed<Tensor>,
    metrics: &[(String, MetricOf<M, B>)],
) -> Result<Score, Failure> {
    let (mut rows, mut sum, mut sums) = (0, 0.0, vec![0.0; metrics.len()]);
    let mut each = |model: &M, batch: B| -> Result<(), Failure> {
        let (n, batch) = (batch.rows()?, batch.to(device));
        sum += loss(model, &batch)?.item::<f64>()? * n as f64;
        for (sum, (_, metric)) in sums.iter_mut().zip(metrics) {
            *sum += metric(model, &batch)?.item::<f64>()? * n as f64;
        }
        rows += n;
        Ok(())
    };
    evaluating(model, || pass(model, &mut each))?;
    let mean = |sum: f64| sum / rows.max(1) as f64;
    Ok(Score { loss: mean(sum), metrics: metrics.iter().zip(&sums).map(|((name, _), sum)| (name.clone(), mean(*sum))).collect(), rows })
}
