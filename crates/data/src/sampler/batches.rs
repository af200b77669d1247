//! Whole batches by a rule of one's own: of like lengths, or with as many records of each class.
use super::{Sampler, fingerprint};
use std::{fmt, sync::Arc};

/// Which records make up which batch of an epoch. As a [`Sampler`], it holds no place.
pub trait BatchOrder: fmt::Debug + Send + Sync {
    /// Batches of an epoch; it never changes.
    fn len(&self) -> usize;
    /// No batches?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The records of a batch, whose number is below [`BatchOrder::len`].
    fn batch(&self, epoch: u64, number: usize) -> Vec<usize>;
    /// As [`Sampler::seed`].
    fn seed(&self) -> u64 {
        0
    }
    /// As [`Sampler::fingerprint`].
    fn fingerprint(&self) -> u64 {
        self.seed()
    }
}
/// Batches of so many draws of a sampler, one after the other.
///
/// ```
/// use adamant_data::{BatchSampler, BatchOrder, SequentialSampler};
/// use std::sync::Arc;
///
/// let batches = BatchSampler::new(Arc::new(SequentialSampler(10)), 3, false);
/// let all: Vec<Vec<usize>> = (0..batches.len()).map(|k| batches.batch(0, k)).collect();
/// assert_eq!(all, [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8], vec![9]]);
/// ```
#[derive(Clone, Debug)]
pub struct BatchSampler {
    sampler: Arc<dyn Sampler>,
    batch_size: usize,
    drop_last: bool,
}
impl BatchSampler {
    /// Batches of `batch_size` (at least 1), the last one left out if it is not full and `drop_last` says so.
    pub fn new(sampler: Arc<dyn Sampler>, batch_size: usize, drop_last: bool) -> BatchSampler {
        BatchSampler { sampler, batch_size: batch_size.max(1), drop_last }
    }
}
impl BatchOrder for BatchSampler {
    fn len(&self) -> usize {
        let (whole, left) = (self.sampler.len() / self.batch_size, self.sampler.len() % self.batch_size);
        whole + usize::from(left > 0 && !self.drop_last)
    }
    fn batch(&self, epoch: u64, number: usize) -> Vec<usize> {
        let start = number.saturating_mul(self.batch_size);
        (start..start.saturating_add(self.batch_size).min(self.sampler.len())).map(|k| self.sampler.at(epoch, k)).collect()
    }
    fn seed(&self) -> u64 {
        self.sampler.seed()
    }
    fn fingerprint(&self) -> u64 {
        fingerprint([self.sampler.fingerprint(), self.batch_size as u64, u64::from(self.drop_last)])
    }
}
