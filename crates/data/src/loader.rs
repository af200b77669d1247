//! The loader: one epoch after the other in batches, read ahead by workers, handed out in order.
//!
//! index -> order -> workers -> in-order window -> batch. The order ([`crate::Order`]) gives each batch's records from its
//! number alone. Batches inside a window ahead of the position are jobs ([`work`]); a worker reads a job's records one by
//! one, guarded against panics and watched for the time they take ([`watch`]), and collates them. The position moves only
//! when a batch is handed out, and what happened to bad records counts only then ([`policy`]); so batches, errors and
//! state are the same for any number of workers, and nothing that was read ahead is part of the state.
mod guard;
mod policy;
#[cfg(feature = "stream")]
mod stream;
#[cfg(test)]
mod tests;
mod watch;
mod work;

pub(crate) use guard::guarded;
pub(crate) use policy::Ledger;
pub use policy::Policy;
#[cfg(feature = "stream")]
pub use stream::BatchStream;

use crate::{
    BadRecord, BatchOrder, Collated, Dataset, Order, PinBatch, PinnedBatches, Place, Sampler,
    order::{BatchShare, Cut, GivenOrder},
    wrong,
};
use adamant_core::{Device, Origin, Result};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    ops::Range,
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};
use work::{Loaded, LoaderPipeline};

impl fmt::Display for LoaderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.order {
            Order::Sequential => f.write_str("in order")?,
            Order::Shuffle { seed } => write!(f, "shuffled with seed {seed}")?,
            Order::Replacement { seed, .. } => write!(f, "drawn with seed {seed}")?,
            Order::Sampler { seed, draws, fingerprint } => write!(f, "{draws} by a sampler with seed {seed} ({fingerprint:016x})")?,
        }
        let LoaderState { records, step, epoch, batch, .. } = self;
        write!(f, ", {records} records, {step} at once, epoch {epoch}, batch {batch}")
    }
}
/// Where a loader stands: after the last batch that it handed out. Small, and enough to go on from at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderState {
    /// the order, with its seed
    pub order: Order,
    /// records of the data set
    pub records: usize,
    /// records of one step, over all ranks
    pub step: usize,
    /// the epoch, from 0
    pub epoch: u64,
    /// the next batch of the epoch
    pub batch: usize,
    /// bad records of this epoch so far
    pub bad: usize,
}

/// What every loader asks of its batches and its part of them.
#[track_caller]
pub(crate) fn check_batches(loader: &'static str, batch_size: usize, (rank, world): (usize, usize)) -> Result<()> {
    if batch_size == 0 {
        return Err(wrong(loader, "a batch needs at least one record".into()));
    }
    if rank >= world {
        return Err(wrong(loader, format!("there is no rank {rank} of {world}")));
    }
    Ok(())
}

/// Settings of a [`DataLoader`] that is being made.
#[derive(Debug)]
#[must_use]
pub struct DataLoaderBuilder<D: Dataset + ?Sized> {
    dataset: Arc<D>,
    order: Order,
    given: Option<GivenOrder>,
    batch_size: usize,
    drop_last: bool,
    workers: usize,
    prefetch_factor: usize,
    policy: Policy,
    timeout: Option<Duration>,
    share: BatchShare,
    device: Option<Device>,
}
impl<D: Dataset + ?Sized + 'static> DataLoaderBuilder<D> {
    /// Records in a batch; 1 unless it is set. A record that is skipped makes its batch smaller.
    pub fn batch_size(mut self, records: usize) -> Self {
        self.batch_size = records;
        self
    }
    /// Each record once in an epoch, in an order that follows from the seed and the epoch.
    pub fn shuffle(self, seed: u64) -> Self {
        self.order(Order::Shuffle { seed })
    }
    /// The order; sequential unless it is set.
    pub fn order(mut self, order: Order) -> Self {
        (self.order, self.given) = (order, None);
        self
    }
    /// The records that a sampler draws, in its order.
    pub fn sampler(mut self, sampler: Arc<dyn Sampler>) -> Self {
        let given = GivenOrder::Records(sampler);
        (self.order, self.given) = (given.order(), Some(given));
        self
    }
    /// The batches that it makes; `batch_size` and `drop_last` play no part. Ranks cannot share them.
    pub fn batch_sampler(mut self, batches: Arc<dyn BatchOrder>) -> Self {
        let given = GivenOrder::Batches(batches);
        (self.order, self.given) = (given.order(), Some(given));
        self
    }
    /// Batches of one's own making from the data set and the records that were read, instead of [`Dataset::collate`]: to pad
    /// sequences, say. It runs in the workers.
    ///
    /// ```
    /// use adamant_data::{DataLoader, Rows};
    /// use std::sync::Arc;
    /// # adamant_core::Device::reference().make_current();
    /// // Rows in memory have their index for a record, and `gather` takes them together.
    /// let rows = Arc::new(Rows::new(vec![1.0f32, 2.0, 3.0], [3])?);
    /// let loader = DataLoader::new(rows).batch_size(2).collate_fn(|rows, records| Ok((records.len(), rows.gather(&records)?.sum(..).item::<f32>()?)));
    /// assert_eq!(loader.build()?.epoch().collect::<Result<Vec<_>, _>>()?, [(2, 3.0), (1, 3.0)]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    pub fn collate_fn<B: Send + 'static>(self, f: impl Fn(&D, Vec<D::Record>) -> Result<B> + Send + Sync + 'static) -> DataLoaderBuilder<Collated<D, B>> {
        self.of_dataset(|dataset| Collated::new(dataset, f))
    }
    /// Batches on the CPU, in memory from which `device` copies by itself: [`Tensor::to`](adamant_core::Tensor::to) costs the host no
    /// copy then and goes on at once. With [`DataLoaderBuilder::device`] instead, workers make batches on the device, through pinned
    /// memory of the device's own; nothing need be pinned for that.
    ///
    /// ```
    /// use adamant_core::Device;
    /// use adamant_data::{DataLoader, Rows};
    /// use std::sync::Arc;
    /// # use adamant_backend_cpu as _;
    /// let device = Device::cpu()?; // `Device::cuda(0)?` where there is one: on the CPU it makes no difference
    /// # device.make_current();
    /// let rows = Arc::new(Rows::new(vec![1.0f32, 2.0, 3.0], [3])?);
    /// let mut loader = DataLoader::new(rows).batch_size(3).pin_memory(device).build()?;
    /// let batch = loader.next_batch().transpose()?.unwrap();
    /// assert_eq!((batch.is_pinned()?, batch.to(device).to_vec::<f32>()?), (false, vec![1.0, 2.0, 3.0]));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    pub fn pin_memory(self, device: Device) -> DataLoaderBuilder<PinnedBatches<D>>
    where
        D: Dataset<Batch: PinBatch>,
    {
        self.of_dataset(|dataset| PinnedBatches::new(dataset, device))
    }
    fn of_dataset<E: Dataset>(self, of: impl FnOnce(Arc<D>) -> E) -> DataLoaderBuilder<E> {
        let DataLoaderBuilder { dataset, order, given, batch_size, drop_last, workers, prefetch_factor, policy, timeout, share, device } = self;
        let dataset = Arc::new(of(dataset));
        DataLoaderBuilder { dataset, order, given, batch_size, drop_last, workers, prefetch_factor, policy, timeout, share, device }
    }
    /// Leaves out the last batch of an epoch if it is not full.
    pub fn drop_last(mut self, drop: bool) -> Self {
        self.drop_last = drop;
        self
    }
    /// Threads that read ahead. They live as long as the loader. With none, the default, batches are read in the
    /// caller's thread when they are asked for.
    pub fn workers(mut self, threads: usize) -> Self {
        self.workers = threads;
        self
    }
    /// Batches per worker that are read ahead or being read, at least 1; 2 unless it is set.
    pub fn prefetch_factor(mut self, batches: usize) -> Self {
        self.prefetch_factor = batches;
        self
    }
    /// What to do about records that are damaged, panic or hang; fail unless it is set.
    pub fn on_bad_record(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }
    /// How long one record (or collating one batch) may take before it counts as bad. Its worker is left behind and
    /// replaced, and the record is not read again by this loader. Needs workers.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }
    /// This process's part of every batch: `rank` of `world`. `batch_size` is that of one rank; the ranks' batches put
    /// together are those of one process with `world` times the batch size. The last batch of an epoch is shared evenly;
    /// one of fewer records than ranks is left out by all of them, so that all take equally many steps.
    pub fn shard(mut self, rank: usize, world: usize) -> Self {
        self.share = BatchShare::Rank(rank, world);
        self
    }
    /// Cuts each batch into `parts` parts and reads those that are held, each as a batch of its own ([`DataLoader::next_parts`]).
    /// `batch_size` is that of the whole batch. Which parts there are does not depend on who holds them, and none is left out: of a batch
    /// with fewer records than parts, some are empty.
    ///
    /// Ranks that hold parts one behind the other read, together, what one process with all parts reads.
    pub fn parts(mut self, held: Range<usize>, parts: usize) -> Self {
        self.share = BatchShare::Parts(held, parts);
        self
    }
    /// Where batches are made; unless it is set, the device that is current when the loader is built.
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }
    /// The loader. Its threads start with the first batch, and what is around it here (interceptors, whether gradients are
    /// recorded, the scope) is around their work.
    ///
    /// # Errors
    /// A setting that makes no sense; a quarantine file that cannot be opened.
    #[track_caller]
    pub fn build(self) -> Result<DataLoader<D>> {
        let _call = adamant_core::scope::call("data_loader");
        let refuse = |what: &str| Err(wrong("data_loader", what.into()));
        match &self.share {
            BatchShare::Rank(rank, world) => check_batches("data_loader", self.batch_size, (*rank, *world))?,
            BatchShare::Parts(held, parts) if held.is_empty() || held.end > *parts => return refuse(&format!("there are no parts {held:?} of {parts}")),
            BatchShare::Parts(..) => check_batches("data_loader", self.batch_size, (0, 1))?,
        }
        if self.prefetch_factor == 0 {
            return refuse("prefetch_factor is at least 1");
        }
        if self.timeout.is_some() && self.workers == 0 {
            return refuse("a timeout needs workers: a record that hangs in the caller's own thread cannot be left");
        }
        match &self.given {
            None if matches!(self.order, Order::Sampler { .. }) => return refuse("an order by a sampler needs the sampler: give it to `sampler`"),
            Some(GivenOrder::Batches(_)) if self.share.among() > 1 => return refuse("the batches of a batch sampler are whole and cannot be shared by ranks"),
            _ => {}
        }
        let (order, given, batch_size, drop_last, share) = (self.order, self.given, self.batch_size, self.drop_last, self.share);
        let cut = Cut { order, given, records: self.dataset.len(), batch_size, drop_last, share };
        let device = self.device.or_else(|| Device::current().ok());
        let window = self.workers.saturating_mul(self.prefetch_factor);
        let ledger = Ledger::new(self.policy)?;
        let pipeline = LoaderPipeline::new(self.dataset, device, self.workers, self.timeout, matches!(ledger.policy(), Policy::Fail));
        Ok(DataLoader { cut, window, pipeline, ledger, epoch: 0, piece: 0 })
    }
}

/// Batches of a data set, epoch after epoch.
///
/// ```
/// use adamant_data::{DataLoader, Labelled, Rows};
/// use std::sync::Arc;
/// # adamant_core::Device::reference().make_current();
///
/// let inputs = Rows::new((0..40).map(|v| v as f32).collect::<Vec<_>>(), [10, 4])?;
/// let targets = Rows::classes((0..10).map(|k| k % 2).collect(), 2)?;
/// let set = Arc::new(Labelled::new(inputs, targets)?);
///
/// let mut loader = DataLoader::new(set.clone()).batch_size(4).shuffle(7).workers(2).build()?;
/// for batch in loader.epoch() {
///     let (x, y) = batch?;
///     assert_eq!(x.shape()?[0], y.shape()?[0]);
/// }
///
/// // A training loop that writes checkpoints asks for one batch at a time, and for the state between them.
/// let mut saved = None;
/// while let Some(batch) = loader.next_batch() {
///     batch?;
///     saved.get_or_insert(loader.state());
/// }
/// let mut resumed = DataLoader::new(set).batch_size(4).shuffle(7).build()?;
/// resumed.restore(saved.unwrap_or(resumed.state()))?;
/// assert_eq!(resumed.epoch().count(), 2);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct DataLoader<D: Dataset + ?Sized + 'static> {
    cut: Cut,
    /// Batches ahead of the position that may exist at once.
    window: usize,
    pipeline: LoaderPipeline<D>,
    ledger: Ledger,
    epoch: u64,
    /// the next piece: of each batch there is one, or each part that is held
    piece: usize,
}
impl<D: Dataset + ?Sized + 'static> std::fmt::Debug for DataLoader<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DataLoader({} batches of {}, at epoch {} batch {})", self.batches(), self.cut.batch_size, self.epoch, self.state().batch)
    }
}
impl<D: Dataset + ?Sized + 'static> DataLoader<D> {
    /// Over a data set that other loaders may share.
    #[allow(clippy::new_ret_no_self)]
    pub fn new(dataset: Arc<D>) -> DataLoaderBuilder<D> {
        DataLoaderBuilder {
            dataset,
            order: Order::Sequential,
            given: None,
            batch_size: 1,
            drop_last: false,
            workers: 0,
            prefetch_factor: 2,
            policy: Policy::Fail,
            timeout: None,
            share: BatchShare::Rank(0, 1),
            device: None,
        }
    }
    /// The setting for throughput: batches of 1,024 in the order of the file, eight workers.
    pub fn high_throughput(dataset: Arc<D>) -> DataLoaderBuilder<D> {
        DataLoader::new(dataset).batch_size(1024).workers(8)
    }
    /// The data set.
    pub fn dataset(&self) -> &Arc<D> {
        self.pipeline.dataset()
    }
    /// Batches of an epoch.
    pub fn batches(&self) -> usize {
        self.cut.batches()
    }
    /// The parts of each batch that are read here, and how many there are.
    pub fn parts(&self) -> (Range<usize>, usize) {
        match &self.cut.share {
            BatchShare::Rank(rank, world) => (*rank..*rank + 1, *world),
            BatchShare::Parts(held, parts) => (held.clone(), *parts),
        }
    }
    /// The position after the last batch that was handed out. It is saved in a checkpoint as it is.
    pub fn state(&self) -> LoaderState {
        LoaderState {
            order: self.cut.order,
            records: self.cut.records,
            step: self.cut.global(),
            epoch: self.epoch,
            batch: self.piece / self.cut.share.pieces(),
            bad: self.ledger.count(),
        }
    }
    /// Where the records of the next batch of a position stand. Nothing is read.
    pub fn places_at(&self, state: LoaderState) -> Vec<Place> {
        let pieces = self.cut.share.pieces();
        let own = if state.batch < self.batches() { state.batch * pieces..(state.batch + 1) * pieces } else { 0..0 };
        own.flat_map(|piece| self.cut.records(state.epoch, piece)).map(|index| self.dataset().locate(index)).collect()
    }
    /// Goes to a position. What was read ahead is dropped; nothing before the position is read.
    ///
    /// # Errors
    /// The position is one of another data set, order or batch size, by the values that differ.
    #[track_caller]
    pub fn restore(&mut self, state: LoaderState) -> Result<()> {
        let own = self.state();
        let at = LoaderState { order: own.order, records: own.records, step: own.step, ..state };
        if at != state || state.batch > self.batches() {
            return Err(wrong("data_loader", format!("the saved position ({state}) does not fit this loader ({own}, {} batches)", self.batches())));
        }
        self.seek(state.epoch, state.batch, state.bad);
        Ok(())
    }
    /// Reads other parts of each batch from here on: the position is that of all, and stays.
    ///
    /// # Errors
    /// Batches that are not cut into parts; parts that there are not.
    #[track_caller]
    pub fn hold(&mut self, held: Range<usize>) -> Result<()> {
        let at = self.state();
        match &mut self.cut.share {
            BatchShare::Parts(own, parts) if !held.is_empty() && held.end <= *parts => *own = held,
            BatchShare::Parts(_, parts) => return Err(wrong("data_loader", format!("there are no parts {held:?} of {parts}"))),
            BatchShare::Rank(..) => return Err(wrong("data_loader", "batches are not cut into parts, and none can be held".into())),
        }
        self.seek(at.epoch, at.batch, at.bad);
        Ok(())
    }
    /// Goes to the beginning of an epoch, from 0.
    pub fn start_epoch(&mut self, epoch: u64) {
        self.seek(epoch, 0, 0);
    }
    fn seek(&mut self, epoch: u64, batch: usize, bad: usize) {
        self.pipeline.cancel();
        (self.epoch, self.piece) = (epoch, batch.saturating_mul(self.cut.share.pieces()));
        self.ledger.set_count(bad);
    }
    /// The bad records that were met since this was last asked, in the order of the batches they are missing from.
    pub fn take_bad_records(&mut self) -> Vec<BadRecord> {
        self.ledger.take()
    }
    /// The next batch of the epoch; `None` after the last one, once, and then the next epoch begins. A batch of which no
    /// record is left is passed over.
    ///
    /// After an error the position has not moved: another call tries the same batch again.
    #[track_caller]
    pub fn next_batch(&mut self) -> Option<Result<D::Batch>> {
        self.wait(Origin::here())
    }
    /// The parts of the next batch that are read here, in order: none for a part without a record. `None` after the last batch, once,
    /// and then the next epoch begins. Without [`DataLoaderBuilder::parts`] there is one part.
    ///
    /// After an error the position has not moved: another call tries the same batch again.
    #[track_caller]
    pub fn next_parts(&mut self) -> Option<Result<Vec<Option<D::Batch>>>> {
        let (here, pieces, begin) = (Origin::here(), self.cut.share.pieces(), self.state());
        if begin.batch >= self.batches() {
            self.seek(self.epoch + 1, 0, 0);
            return None;
        }
        let mut parts = Vec::with_capacity(pieces);
        for piece in begin.batch * pieces..(begin.batch + 1) * pieces {
            self.piece = piece;
            let made = match self.load(None, here) {
                Poll::Ready(loaded) => loaded.and_then(|loaded| self.settle(loaded, here)),
                Poll::Pending => Err(wrong("data_loader", "a batch that nobody waits for".into())),
            };
            match made {
                Ok(made) => parts.push(made),
                Err(e) => {
                    self.seek(begin.epoch, begin.batch, begin.bad);
                    return Some(Err(e));
                }
            }
        }
        self.piece = (begin.batch + 1) * pieces;
        Some(Ok(parts))
    }
    /// What became of a piece, and of its bad records.
    fn settle(&mut self, loaded: Loaded<D::Batch>, here: Origin) -> Result<Option<D::Batch>> {
        let (epoch, number) = (self.epoch, self.state().batch);
        let Loaded { batch, bad } = loaded;
        batch.transpose().map_err(|failed| failed.at(here)).and_then(|made| self.ledger.settle(bad, epoch, number, here).map(|()| made))
    }
    fn wait(&mut self, here: Origin) -> Option<Result<D::Batch>> {
        match self.advance(None, here) {
            Poll::Ready(next) => next,
            Poll::Pending => None,
        }
    }
    /// The rest of the epoch, one batch at a time. Ends after an error.
    #[track_caller]
    pub fn epoch(&mut self) -> Epoch<'_, D> {
        Epoch { loader: self, here: Origin::here(), over: false }
    }
    /// Another name for [`DataLoader::epoch`].
    #[track_caller]
    pub fn stream_batches(&mut self) -> Epoch<'_, D> {
        self.epoch()
    }
    /// The next batch; pending only with a waker, which is told when there is something to be had.
    fn advance(&mut self, waker: Option<&Waker>, here: Origin) -> Poll<Option<Result<D::Batch>>> {
        while self.piece < self.cut.pieces() {
            let loaded = match self.load(waker, here) {
                Poll::Ready(Ok(loaded)) => loaded,
                Poll::Ready(Err(e)) => return Poll::Ready(Some(Err(e))),
                Poll::Pending => return Poll::Pending,
            };
            match self.settle(loaded, here) {
                Ok(made) => {
                    self.piece += 1;
                    if let Some(batch) = made {
                        return Poll::Ready(Some(Ok(batch)));
                    }
                }
                Err(e) => {
                    self.pipeline.cancel();
                    return Poll::Ready(Some(Err(e)));
                }
            }
        }
        self.seek(self.epoch + 1, 0, 0);
        Poll::Ready(None)
    }
    fn load(&mut self, waker: Option<&Waker>, here: Origin) -> Poll<Result<Loaded<D::Batch>>> {
        let draws = (self.cut.order.seed(), self.epoch);
        if self.window == 0 {
            return Poll::Ready(Ok(self.pipeline.load_here(self.piece, draws, self.cut.records(self.epoch, self.piece))));
        }
        let (cut, epoch, end) = (&self.cut, self.epoch, self.cut.pieces().min(self.piece.saturating_add(self.window)));
        if let Err(e) = self.pipeline.request(self.piece..end, draws, |piece| cut.records(epoch, piece), here) {
            return Poll::Ready(Err(e));
        }
        self.pipeline.receive(self.piece, waker).map(Ok)
    }
}

/// The batches of an epoch that are left.
pub struct Epoch<'a, D: Dataset + ?Sized + 'static> {
    loader: &'a mut DataLoader<D>,
    here: Origin,
    over: bool,
}
impl<D: Dataset + ?Sized + 'static> Epoch<'_, D> {
    /// The position after the last batch.
    pub fn state(&self) -> LoaderState {
        self.loader.state()
    }
}
impl<D: Dataset + ?Sized + 'static> Iterator for Epoch<'_, D> {
    type Item = Result<D::Batch>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.loader.wait(self.here);
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}
