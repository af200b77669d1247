//! Batched inference: single samples put together into batches, run, and taken apart again, in their order.
use crate::wrong;
use adamant_core::{Result, Tensor};

/// Samples of one shape as a batch `[samples, ...]`.
///
/// # Errors
/// No samples; two shapes, dtypes or devices.
#[track_caller]
pub fn stack_samples(samples: &[Tensor]) -> Result<Tensor> {
    if samples.is_empty() {
        return Err(wrong("stack_samples", "there are no samples".into()));
    }
    let first = samples[0].shape()?;
    if first.rank() == 0 || samples.iter().any(|s| s.try_meta().is_ok_and(|m| m.shape != first)) {
        return Tensor::stack(samples, 0isize).ok();
    }
    // Side by side along the first axis they lie as they do in the batch: without a view of each.
    let mut shape = vec![samples.len()];
    shape.extend(first.iter());
    Tensor::cat(samples, 0isize).reshape(&shape[..]).ok()
}
/// A batch `[samples, ...]` as its samples.
///
/// # Errors
/// The batch's own; it has no axes.
#[track_caller]
pub fn split_samples(batch: &Tensor) -> Result<Vec<Tensor>> {
    if batch.shape()?.rank() == 0 {
        return Err(wrong("split_samples", "a scalar is no batch".into()));
    }
    let shape = batch.shape()?;
    if shape.rank() != 2 {
        return batch.unbind(0isize);
    }
    // Rows of one axis are pieces of the whole: one view of each instead of two.
    let (rows, width) = (shape[0], shape[1]);
    let whole = batch.reshape(&[rows * width][..]);
    (0..rows).map(|k| whole.narrow(0isize, k * width, width).ok()).collect()
}
/// Runs `f` on batches of at most `size` samples and gives one result for each sample, in order. The last batch may be
/// smaller.
///
/// ```
/// use adamant_core::Tensor;
/// use adamant_data::in_batches;
/// # adamant_core::Device::reference().make_current();
///
/// let samples: Vec<Tensor> = (0..10).map(|k| Tensor::from_vec(vec![k as f32, 1.0], [2])).collect();
/// let sums = in_batches(&samples, 4, |batch| batch.sum(1).ok())?;
/// assert_eq!(sums[9].item::<f32>()?, 10.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// What `f` returns; samples of two shapes; a size of 0; a result of `f` that has not one row for each sample.
#[track_caller]
pub fn in_batches(samples: &[Tensor], size: usize, mut f: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    if size == 0 {
        return Err(wrong("in_batches", "a batch needs at least one sample".into()));
    }
    let mut results = Vec::with_capacity(samples.len());
    for part in samples.chunks(size) {
        let batch = f(&stack_samples(part)?)?;
        // Computed as one, before it is taken apart.
        batch.materialize()?;
        let rows = split_samples(&batch)?;
        if rows.len() != part.len() {
            return Err(wrong("in_batches", format!("{} samples gave {} rows", part.len(), rows.len())));
        }
        results.extend(rows);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant_core::Device;

    #[test]
    fn a_result_that_belongs_to_another_sample() {
        Device::reference().make_current();
        let samples: Vec<Tensor> = (0..7).map(|k| Tensor::from_vec(vec![k as f32], [1])).collect();
        for size in [1, 2, 3, 7, 100] {
            let mut sizes = Vec::new();
            let results = in_batches(&samples, size, |batch| {
                sizes.push(batch.shape()?[0]);
                (batch * 2.0).ok()
            });
            let results: Vec<f32> = results.unwrap().iter().map(|t| t.item().unwrap()).collect();
            assert_eq!(results, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
            assert!(sizes.iter().all(|s| *s <= size) && sizes.iter().sum::<usize>() == 7);
        }
        assert!(in_batches(&[], 3, |x| Ok(x.clone())).unwrap().is_empty());
    }
    #[test]
    fn samples_that_cannot_be_stacked_and_are() {
        Device::reference().make_current();
        let one = Tensor::from_vec(vec![1.0f32], [1]);
        assert!(stack_samples(&[]).is_err() && in_batches(std::slice::from_ref(&one), 0, |x| Ok(x.clone())).is_err());
        assert!(stack_samples(&[one.clone(), Tensor::zeros([2])]).is_err());
        assert!(split_samples(&Tensor::scalar(1.0f32)).is_err());
        assert!(in_batches(&[one.clone(), one], 2, |x| x.sum_keepdim(0).ok()).is_err());
    }
}
