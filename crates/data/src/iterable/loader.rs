//! The loader of what is read through: batches in order, made in the caller's thread or ahead in one of its own.
use super::{IterableDataset, Records, StreamPass};
use crate::{
    BadRecord, Cause, Place, Policy,
    loader::{Ledger, check_batches, guarded},
    wrong,
};
use adamant_core::{Ambient, Device, Error, ErrorKind, Origin, Result};
use serde::{Deserialize, Serialize};
use std::{
    sync::{
        Arc,
        mpsc::{Receiver, sync_channel},
    },
    thread,
};

/// Where a loader stands: after the last batch that it handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterableState {
    /// what is drawn follows from it
    pub seed: u64,
    /// records of a batch
    pub batch_size: usize,
    /// ranks that share the source
    pub world: usize,
    /// the epoch, from 0
    pub epoch: u64,
    /// records of the source that were read in this epoch, those of other ranks too
    pub records: u64,
    /// batches of this epoch that were handed out
    pub batch: usize,
    /// bad records of this epoch so far
    pub bad: usize,
}
/// Settings of an [`IterableLoader`] that is being made.
#[must_use]
pub struct IterableLoaderBuilder<D: IterableDataset + ?Sized> {
    source: Arc<D>,
    batch_size: usize,
    drop_last: bool,
    seed: u64,
    prefetch: usize,
    policy: Policy,
    shard: (usize, usize),
    device: Option<Device>,
}
impl<D: IterableDataset + ?Sized> IterableLoaderBuilder<D> {
    /// Records in a batch; 1 unless it is set. A record that is skipped makes its batch smaller.
    pub fn batch_size(mut self, records: usize) -> Self {
        self.batch_size = records;
        self
    }
    /// Leaves out the last batch of an epoch if it is not full.
    pub fn drop_last(mut self, drop: bool) -> Self {
        self.drop_last = drop;
        self
    }
    /// What is drawn follows from it; 0 unless it is set.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
    /// Batches that a thread reads ahead; with none, the default, they are read in the caller's thread when they are asked for.
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = batches;
        self
    }
    /// What to do about bad records; fail unless it is set.
    pub fn on_bad_record(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }
    /// This process's part: of each `world` records the one at place `rank`.
    pub fn shard(mut self, rank: usize, world: usize) -> Self {
        self.shard = (rank, world);
        self
    }
    /// Where batches are made; unless it is set, the device that is current when the loader is built.
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }
    /// The loader.
    ///
    /// # Errors
    /// A setting that makes no sense; a quarantine file that cannot be opened.
    #[track_caller]
    pub fn build(self) -> Result<IterableLoader<D>> {
        check_batches("iterable_loader", self.batch_size, self.shard)?;
        let ledger = Ledger::new(self.policy.clone())?;
        let state = IterableState { seed: self.seed, batch_size: self.batch_size, world: self.shard.1, epoch: 0, records: 0, batch: 0, bad: 0 };
        let device = self.device.or_else(|| Device::current().ok());
        Ok(IterableLoader { settings: self, device, ambient: Ambient::current(), ledger, state, reading: None })
    }
}

/// A batch as it was made, or the end of the epoch.
struct MadeBatch<B> {
    /// records of the source behind it
    records: u64,
    batch: Option<Result<B>>,
    bad: Vec<BadRecord>,
    is_end: bool,
}
/// What is open on the source.
enum Reading<R, B> {
    Here(BatchReader<R>),
    Ahead(Receiver<MadeBatch<B>>),
}
struct BatchReader<R> {
    source: Records<R>,
    records: u64,
    batch_size: usize,
    drop_last: bool,
    shard: (usize, usize),
    is_over: bool,
}
impl<R> BatchReader<R> {
    /// The next batch's records. After a panic of the source nothing more is read from it.
    fn read(&mut self) -> (Vec<R>, Vec<BadRecord>) {
        let (mut records, mut bad, mut met) = (Vec::new(), Vec::new(), 0);
        while met < self.batch_size && !self.is_over {
            let index = self.records as usize;
            let item = match guarded(|| self.source.next()) {
                Ok(Some(item)) => item,
                Ok(None) => {
                    self.is_over = true;
                    break;
                }
                Err(panic) => {
                    self.is_over = true;
                    let place = Place { file: "<stream>".into(), index, offset: 0 };
                    Err(BadRecord { place, cause: Cause::Panicked, reason: format!("reading it panicked: {panic}") })
                }
            };
            let is_own = self.records % self.shard.1 as u64 == self.shard.0 as u64;
            self.records += 1;
            if !is_own {
                continue;
            }
            met += 1;
            match item {
                Ok(record) => records.push(record),
                Err(e) => bad.push(e),
            }
        }
        if self.drop_last && met < self.batch_size {
            records.clear();
        }
        (records, bad)
    }
    fn made<D: IterableDataset<Record = R> + ?Sized>(&mut self, source: &D, device: Option<Device>) -> MadeBatch<D::Batch> {
        let (records, bad) = self.read();
        let is_end = self.is_over && records.is_empty() && bad.is_empty();
        let batch = (!records.is_empty()).then(|| {
            let collate = || match device {
                Some(device) => device.scoped(|| source.collate(records)),
                None => source.collate(records),
            };
            guarded(collate).unwrap_or_else(|panic| Err(wrong("iterable_loader", format!("collating a batch panicked: {panic}"))))
        });
        MadeBatch { records: self.records, batch, bad, is_end }
    }
}

/// Batches of an [`IterableDataset`], epoch after epoch.
pub struct IterableLoader<D: IterableDataset + ?Sized> {
    settings: IterableLoaderBuilder<D>,
    device: Option<Device>,
    ambient: Ambient,
    ledger: Ledger,
    state: IterableState,
    reading: Option<Reading<D::Record, D::Batch>>,
}
impl<D: IterableDataset + ?Sized> std::fmt::Debug for IterableLoader<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IterableLoader(batches of {}, at epoch {} record {})", self.state.batch_size, self.state.epoch, self.state.records)
    }
}
impl<D: IterableDataset + ?Sized> IterableLoader<D> {
    /// Over a source that other loaders may share.
    #[allow(clippy::new_ret_no_self)]
    pub fn new(source: Arc<D>) -> IterableLoaderBuilder<D> {
        IterableLoaderBuilder { source, batch_size: 1, drop_last: false, seed: 0, prefetch: 0, policy: Policy::Fail, shard: (0, 1), device: None }
    }
    /// The position after the last batch that was handed out. It is saved in a checkpoint as it is.
    pub fn state(&self) -> IterableState {
        IterableState { bad: self.ledger.count(), ..self.state }
    }
    /// Goes to a position: the source is read anew without the records before it.
    ///
    /// # Errors
    /// The position is one of another seed, batch size or number of ranks.
    #[track_caller]
    pub fn restore(&mut self, state: IterableState) -> Result<()> {
        let own = self.state;
        if (state.seed, state.batch_size, state.world) != (own.seed, own.batch_size, own.world) {
            return Err(wrong("iterable_loader", format!("the saved position ({state:?}) does not fit this loader ({own:?})")));
        }
        self.go_to(state);
        Ok(())
    }
    /// Goes to the beginning of an epoch, from 0.
    pub fn start_epoch(&mut self, epoch: u64) {
        self.go_to(IterableState { epoch, records: 0, batch: 0, bad: 0, ..self.state });
    }
    fn go_to(&mut self, state: IterableState) {
        self.reading = None;
        self.ledger.set_count(state.bad);
        self.state = state;
    }
    /// The bad records that were met since this was last asked, in order.
    pub fn take_bad_records(&mut self) -> Vec<BadRecord> {
        self.ledger.take()
    }
    /// The next batch of the epoch; `None` after the last one, once, and then the next epoch begins. A batch of which no record is left
    /// is passed over. After an error the position has not moved.
    #[track_caller]
    pub fn next_batch(&mut self) -> Option<Result<D::Batch>> {
        self.wait(Origin::here())
    }
    fn wait(&mut self, here: Origin) -> Option<Result<D::Batch>> {
        loop {
            let made = match self.load(here) {
                Ok(made) => made,
                Err(e) => return Some(Err(e)),
            };
            if made.is_end {
                self.start_epoch(self.state.epoch + 1);
                return None;
            }
            let (epoch, number) = (self.state.epoch, self.state.batch);
            let settled = made.batch.transpose().and_then(|batch| self.ledger.settle(made.bad, epoch, number, here).map(|()| batch));
            match settled {
                Err(e) => {
                    self.reading = None;
                    return Some(Err(e));
                }
                Ok(batch) => {
                    self.state.records = made.records;
                    self.state.batch += 1;
                    if let Some(batch) = batch {
                        return Some(Ok(batch));
                    }
                }
            }
        }
    }
    /// The rest of the epoch, one batch at a time. Ends after an error.
    #[track_caller]
    pub fn epoch(&mut self) -> impl Iterator<Item = Result<D::Batch>> {
        let (here, mut over) = (Origin::here(), false);
        std::iter::from_fn(move || {
            if over {
                return None;
            }
            let next = self.wait(here);
            over = !matches!(next, Some(Ok(_)));
            next
        })
    }
    fn load(&mut self, here: Origin) -> Result<MadeBatch<D::Batch>> {
        let reading = match self.reading.take() {
            Some(reading) => reading,
            None => self.open(here)?,
        };
        match self.reading.insert(reading) {
            Reading::Here(reader) => {
                let _around = self.ambient.enter();
                Ok(reader.made(&*self.settings.source, self.device))
            }
            Reading::Ahead(batches) => batches.recv().map_err(|_| no_thread("it ended", here)),
        }
    }
    fn open(&self, here: Origin) -> Result<Reading<D::Record, D::Batch>> {
        let IterableLoaderBuilder { source, batch_size, drop_last, seed, prefetch, shard, .. } = &self.settings;
        let (pass, skip) = (StreamPass { seed: *seed, epoch: self.state.epoch }, self.state.records);
        let opened = source.clone().records_from(&pass, skip);
        let mut reader = BatchReader { source: opened, records: skip, batch_size: *batch_size, drop_last: *drop_last, shard: *shard, is_over: false };
        if *prefetch == 0 {
            return Ok(Reading::Here(reader));
        }
        let (send, batches) = sync_channel(*prefetch);
        let (source, device, ambient) = (source.clone(), self.device, self.ambient.clone());
        let work = move || {
            let _around = ambient.enter();
            loop {
                let made = reader.made(&*source, device);
                let is_end = made.is_end;
                // Nobody takes it any more: the loader is gone or elsewhere.
                if send.send(made).is_err() || is_end {
                    return;
                }
            }
        };
        thread::Builder::new().name("adamant-data".into()).spawn(work).map_err(|e| no_thread(&e.to_string(), here))?;
        Ok(Reading::Ahead(batches))
    }
}
fn no_thread(why: &str, here: Origin) -> Error {
    Error::at("iterable_loader", ErrorKind::Argument(format!("the thread that reads ahead could not be had: {why}")), here)
}
