//! Which records a loader reads, where that is neither their order nor a shuffle: samplers by trait, whose every position is
//! computed, so that a loader begins anywhere at once.
use crate::{Permutation, wrong};
use adamant_core::{Result, rng::philox};
use parking_lot::Mutex;
use std::{fmt, sync::Arc};

mod batches;
pub use batches::{BatchOrder, BatchSampler};

/// Which record stands at each position of an epoch. It holds no place: the same position of the same epoch is always the same record,
/// whoever asks, which is what makes a loader resume exactly.
///
/// ```
/// use adamant_data::{DataLoader, Rows, Sampler};
/// use std::sync::Arc;
/// # adamant_core::Device::reference().make_current();
///
/// /// Every other record, in even epochs the even ones.
/// #[derive(Debug)]
/// struct Halves(usize);
/// impl Sampler for Halves {
///     fn len(&self) -> usize {
///         self.0 / 2
///     }
///     fn at(&self, epoch: u64, position: usize) -> usize {
///         2 * position + (epoch % 2) as usize
///     }
/// }
/// let rows = Arc::new(Rows::new((0..6).collect::<Vec<i64>>(), [6])?);
/// let mut loader = DataLoader::new(rows).batch_size(3).sampler(Arc::new(Halves(6))).build()?;
/// for wanted in [[0, 2, 4], [1, 3, 5]] {
///     let batches = loader.epoch().collect::<Result<Vec<_>, _>>()?;
///     assert_eq!(batches[0].to_vec::<i64>()?, wanted);
/// }
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub trait Sampler: fmt::Debug + Send + Sync {
    /// Positions of an epoch; it never changes.
    fn len(&self) -> usize;
    /// No positions?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The record at a position, which is below [`Sampler::len`].
    fn at(&self, epoch: u64, position: usize) -> usize;
    /// What augmentation draws from, beside the epoch and the record ([`Draw`](crate::Draw)).
    fn seed(&self) -> u64 {
        0
    }
    /// A number that tells this sampler from others: a loader's state refuses to go on with another one. By default the sampler's seed;
    /// of one that holds weights or indices, [`fingerprint`] of them.
    fn fingerprint(&self) -> u64 {
        self.seed()
    }
}
/// A number that follows from others, for [`Sampler::fingerprint`]: the same in every version of this crate.
pub fn fingerprint(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, |state, v| {
        let bits = philox([state as u32, (state >> 32) as u32], [v as u32, (v >> 32) as u32, 0, 0x4650_4e54]);
        u64::from(bits[0]) << 32 | u64::from(bits[1])
    })
}
/// Draws of a sampler apart from everything else that is drawn: the number `k` of an epoch.
fn drawn(seed: u64, epoch: u64, k: u64, stream: u32) -> u64 {
    let key = philox([seed as u32, (seed >> 32) as u32], [epoch as u32, (epoch >> 32) as u32, 0, stream]);
    let bits = philox([key[0], key[1]], [k as u32, (k >> 32) as u32, key[2], stream]);
    u64::from(bits[0]) << 32 | u64::from(bits[1])
}
/// From 0 to below 1.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
const RANDOM: u32 = 0x5241_4e44;
const WEIGHTED: u32 = 0x5745_4947;

/// Records as they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequentialSampler(pub usize);
impl Sampler for SequentialSampler {
    fn len(&self) -> usize {
        self.0
    }
    fn at(&self, _: u64, position: usize) -> usize {
        position
    }
}
/// Records at random: each once before one comes again, or each draw from all of them (`replacement`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomSampler {
    records: usize,
    seed: u64,
    replacement: bool,
    num_samples: usize,
}
impl RandomSampler {
    /// Each of `records` once in an epoch, as [`Order::Shuffle`](crate::Order::Shuffle) has them.
    pub fn new(records: usize, seed: u64) -> RandomSampler {
        RandomSampler { records, seed, replacement: false, num_samples: records }
    }
    /// Is each draw from all records?
    #[must_use]
    pub fn replacement(self, replacement: bool) -> RandomSampler {
        RandomSampler { replacement, ..self }
    }
    /// Draws of an epoch. Without replacement, more than there are records begin another shuffle.
    #[must_use]
    pub fn num_samples(self, num_samples: usize) -> RandomSampler {
        RandomSampler { num_samples, ..self }
    }
}
impl Sampler for RandomSampler {
    fn len(&self) -> usize {
        if self.records == 0 { 0 } else { self.num_samples }
    }
    fn at(&self, epoch: u64, position: usize) -> usize {
        if self.replacement {
            let draw = drawn(self.seed, epoch, position as u64, RANDOM);
            return ((u128::from(draw) * self.records as u128) >> 64) as usize;
        }
        let (round, within) = (position / self.records.max(1), position % self.records.max(1));
        let seed = if round == 0 { self.seed } else { drawn(self.seed, epoch, round as u64, RANDOM) };
        Permutation::new(self.records as u64, seed, epoch).at(within as u64) as usize
    }
    fn seed(&self) -> u64 {
        self.seed
    }
    fn fingerprint(&self) -> u64 {
        fingerprint([self.seed, self.records as u64, u64::from(self.replacement)])
    }
}
/// The records of a list, each once in an epoch, at random.
#[derive(Clone, Debug)]
pub struct SubsetRandomSampler {
    indices: Arc<[usize]>,
    seed: u64,
}
impl SubsetRandomSampler {
    /// Of these records.
    pub fn new(indices: impl Into<Arc<[usize]>>, seed: u64) -> SubsetRandomSampler {
        SubsetRandomSampler { indices: indices.into(), seed }
    }
}
impl Sampler for SubsetRandomSampler {
    fn len(&self) -> usize {
        self.indices.len()
    }
    fn at(&self, epoch: u64, position: usize) -> usize {
        let place = Permutation::new(self.indices.len() as u64, self.seed, epoch).at(position as u64) as usize;
        self.indices.get(place).copied().unwrap_or(place)
    }
    fn seed(&self) -> u64 {
        self.seed
    }
    fn fingerprint(&self) -> u64 {
        fingerprint(std::iter::once(self.seed).chain(self.indices.iter().map(|i| *i as u64)))
    }
}
/// Records as likely as their weights say, which need not sum to 1: for classes of which few examples are there.
///
/// With replacement a draw takes the logarithm of the number of records. Without, an epoch's order is drawn as a whole when its first
/// record is asked for (Efraimidis and Spirakis 2006) and held until another epoch's is.
pub struct WeightedRandomSampler {
    /// sums of the weights up to and with each record
    sums: Vec<f64>,
    num_samples: usize,
    replacement: bool,
    seed: u64,
    weights: u64,
    /// without replacement: the epoch's order
    order: Mutex<Option<(u64, Arc<[usize]>)>>,
}
impl fmt::Debug for WeightedRandomSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeightedRandomSampler({} of {} records, replacement {}, seed {})", self.num_samples, self.sums.len(), self.replacement, self.seed)
    }
}
impl WeightedRandomSampler {
    /// `num_samples` draws in an epoch.
    ///
    /// # Errors
    /// A weight that is negative or not finite, none above 0; without replacement, more draws than weights above 0.
    #[track_caller]
    pub fn new(weights: &[f64], num_samples: usize, replacement: bool, seed: u64) -> Result<WeightedRandomSampler> {
        const OP: &str = "weighted_random_sampler";
        if let Some((k, w)) = weights.iter().enumerate().find(|(_, w)| !(w.is_finite() && **w >= 0.0)) {
            return Err(wrong(OP, format!("the weight of record {k} is {w}, it must be a number from 0 on")));
        }
        let likely = weights.iter().filter(|w| **w > 0.0).count();
        if num_samples > 0 && likely == 0 {
            return Err(wrong(OP, format!("none of {} weights is above 0", weights.len())));
        }
        if !replacement && num_samples > likely {
            return Err(wrong(OP, format!("{num_samples} records cannot be drawn without replacement: {likely} have a weight above 0")));
        }
        let mut sum = 0.0;
        let sums: Vec<f64> = weights
            .iter()
            .map(|w| {
                sum += w;
                sum
            })
            .collect();
        if !sum.is_finite() {
            return Err(wrong(OP, "the weights have no finite sum".into()));
        }
        let weights = fingerprint(weights.iter().map(|w| w.to_bits()));
        Ok(WeightedRandomSampler { sums, num_samples, replacement, seed, weights, order: Mutex::new(None) })
    }
    fn weight(&self, k: usize) -> f64 {
        self.sums[k] - if k == 0 { 0.0 } else { self.sums[k - 1] }
    }
    /// The order of an epoch: by exponential clocks, the earliest first.
    fn order(&self, epoch: u64) -> Arc<[usize]> {
        let mut held = self.order.lock();
        if let Some((of, order)) = &*held
            && *of == epoch
        {
            return order.clone();
        }
        let clock = |k: usize| -(1.0 - unit(drawn(self.seed, epoch, k as u64, WEIGHTED))).ln() / self.weight(k);
        let mut clocks: Vec<(f64, usize)> = (0..self.sums.len()).filter(|k| self.weight(*k) > 0.0).map(|k| (clock(k), k)).collect();
        clocks.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let order: Arc<[usize]> = clocks.into_iter().map(|(_, k)| k).take(self.num_samples).collect();
        *held = Some((epoch, order.clone()));
        order
    }
}
impl Sampler for WeightedRandomSampler {
    fn len(&self) -> usize {
        self.num_samples
    }
    fn at(&self, epoch: u64, position: usize) -> usize {
        if !self.replacement {
            return self.order(epoch).get(position).copied().unwrap_or(0);
        }
        let total = self.sums.last().copied().unwrap_or(0.0);
        let at = unit(drawn(self.seed, epoch, position as u64, WEIGHTED)) * total;
        // A record without weight has the sum of the one before it, and is passed over; so is all behind the last one with weight.
        let place = self.sums.partition_point(|sum| *sum <= at);
        place.min(self.sums.partition_point(|sum| *sum < total))
    }
    fn seed(&self) -> u64 {
        self.seed
    }
    fn fingerprint(&self) -> u64 {
        fingerprint([self.seed, self.weights, u64::from(self.replacement)])
    }
}

#[cfg(test)]
mod tests;
