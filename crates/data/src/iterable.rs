//! Data that can only be read through: records come one after the other, and nobody knows how many there are. Where a loader stands
//! is how many it read, so what it goes on from is the same reading with so many left out.
use crate::{BadRecord, Draw, strategy::shuffle_stream};
use adamant_core::Result;
use std::sync::Arc;

mod loader;
pub use loader::{IterableLoader, IterableLoaderBuilder, IterableState};

/// Which reading it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPass {
    /// what is drawn follows from it
    pub seed: u64,
    /// the epoch, from 0
    pub epoch: u64,
}
impl StreamPass {
    /// Where what is drawn for a record of this reading comes from.
    pub fn draw(&self, index: usize) -> Draw {
        Draw { seed: self.seed, epoch: self.epoch, index }
    }
}
/// The records of a reading.
pub type Records<R> = Box<dyn Iterator<Item = std::result::Result<R, BadRecord>> + Send>;

/// Records in the order of their source, each epoch from its beginning ("iterable style").
///
/// What a reading gives depends on the [`StreamPass`] alone, never on who reads or when: a loader resumes by that.
///
/// ```
/// use adamant_core::{Result, Tensor};
/// use adamant_data::{IterableDataset, IterableLoader, StreamPass, Records};
/// use std::sync::Arc;
/// # adamant_core::Device::reference().make_current();
///
/// /// Numbers from a sensor, here a formula.
/// struct Sensor;
/// impl IterableDataset for Sensor {
///     type Record = f32;
///     type Batch = Tensor;
///     fn records(self: Arc<Self>, pass: &StreamPass) -> Records<f32> {
///         let pass = *pass;
///         Box::new((0..10).map(move |k| Ok(k as f32 + pass.draw(k).rng().uniform() as f32)))
///     }
///     fn collate(&self, records: Vec<f32>) -> Result<Tensor> {
///         let n = records.len();
///         Tensor::from_vec(records, [n]).ok()
///     }
/// }
/// let mut loader = IterableLoader::new(Arc::new(Sensor)).batch_size(4).prefetch(2).build()?;
/// loader.next_batch().transpose()?;
/// let saved = loader.state();
/// let rest: Vec<Tensor> = loader.epoch().collect::<Result<_>>()?;
///
/// let mut resumed = IterableLoader::new(Arc::new(Sensor)).batch_size(4).build()?;
/// resumed.restore(saved)?;
/// assert_eq!(resumed.next_batch().transpose()?.unwrap().to_vec::<f32>()?, rest[0].to_vec::<f32>()?);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub trait IterableDataset: Send + Sync + 'static {
    /// One record as it was read.
    type Record: Send + 'static;
    /// What the training loop gets.
    type Batch: Send + 'static;
    /// The records of a reading, from the first one on. A bad record is an item like any other.
    fn records(self: Arc<Self>, pass: &StreamPass) -> Records<Self::Record>;
    /// As [`IterableDataset::records`] without the first `skip` of them: for sources that can find a place at once.
    fn records_from(self: Arc<Self>, pass: &StreamPass, skip: u64) -> Records<Self::Record> {
        let mut records = self.records(pass);
        let mut left = skip;
        while left > 0 && records.next().is_some() {
            left -= 1;
        }
        records
    }
    /// Makes a batch of records, in their order. Not called without records.
    ///
    /// # Errors
    /// They do not go together, or there is no memory.
    fn collate(&self, records: Vec<Self::Record>) -> Result<Self::Batch>;
}

/// Sources one behind the other, each read to its end.
///
/// ```
/// use adamant_data::{ChainDataset, IterableDataset, StreamPass, Records};
/// use std::sync::Arc;
///
/// struct Range(std::ops::Range<i64>);
/// impl IterableDataset for Range {
///     type Record = i64;
///     type Batch = Vec<i64>;
///     fn records(self: Arc<Self>, _: &StreamPass) -> Records<i64> {
///         Box::new(self.0.clone().map(Ok))
///     }
///     fn collate(&self, records: Vec<i64>) -> adamant_core::Result<Vec<i64>> {
///         Ok(records)
///     }
/// }
/// let chain = Arc::new(ChainDataset::new([0..3, 7..9].map(|r| Arc::new(Range(r)))));
/// let all: Vec<i64> = chain.records(&StreamPass { seed: 0, epoch: 0 }).collect::<Result<_, _>>()?;
/// assert_eq!(all, [0, 1, 2, 7, 8]);
/// # Ok::<(), adamant_data::BadRecord>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChainDataset<D: ?Sized> {
    parts: Vec<Arc<D>>,
}
impl<D: IterableDataset + ?Sized> ChainDataset<D> {
    /// In this order. The first one makes the batches.
    pub fn new(parts: impl IntoIterator<Item = Arc<D>>) -> ChainDataset<D> {
        ChainDataset { parts: parts.into_iter().collect() }
    }
}
impl<D: IterableDataset + ?Sized> IterableDataset for ChainDataset<D> {
    type Record = D::Record;
    type Batch = D::Batch;
    fn records(self: Arc<Self>, pass: &StreamPass) -> Records<D::Record> {
        let (pass, parts) = (*pass, self.parts.clone());
        Box::new(parts.into_iter().flat_map(move |part| part.records(&pass)))
    }
    fn collate(&self, records: Vec<D::Record>) -> Result<D::Batch> {
        match self.parts.first() {
            Some(first) => first.collate(records),
            None => Err(crate::wrong("chain_dataset", "there are no sources".into())),
        }
    }
}
/// A source whose records leave a buffer in random order ([`shuffle_stream`]), another one in each epoch.
#[derive(Clone, Debug)]
pub struct ShuffledStream<D: ?Sized> {
    buffer: usize,
    source: Arc<D>,
}
impl<D: IterableDataset + ?Sized> ShuffledStream<D> {
    /// `buffer` records wait at once.
    pub fn new(source: Arc<D>, buffer: usize) -> ShuffledStream<D> {
        ShuffledStream { buffer, source }
    }
}
impl<D: IterableDataset + ?Sized> IterableDataset for ShuffledStream<D> {
    type Record = D::Record;
    type Batch = D::Batch;
    fn records(self: Arc<Self>, pass: &StreamPass) -> Records<D::Record> {
        // Of each epoch its own: the record beyond all others draws nothing else.
        let seed = pass.draw(usize::MAX).rng().next_u64();
        Box::new(shuffle_stream(self.source.clone().records(pass), self.buffer, seed))
    }
    fn collate(&self, records: Vec<D::Record>) -> Result<D::Batch> {
        self.source.collate(records)
    }
}

#[cfg(test)]
mod tests;
