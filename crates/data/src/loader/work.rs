//! Workers and the window between them and the loop that trains.
//!
//! The loader asks for batches of a window; each is a [`Job`] in one queue, from which idle workers take. What they made
//! waits in a map by batch number until the loader comes for it, so order does not depend on who was faster. `generation`
//! numbers the times that plans changed: what belongs to an older one is dropped. No code of a data set runs under a lock.
use super::{guard::guarded, watch};
use crate::{BadRecord, Cause, Dataset, Draw};
use adamant_core::{Ambient, Device, Error, ErrorKind, Origin};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Poll, Waker},
    thread,
    time::{Duration, Instant},
};

/// A batch that is to be made.
pub(super) struct Job {
    pub batch: usize,
    pub generation: u64,
    /// (seed, epoch): where what is drawn for a record comes from
    pub draws: (u64, u64),
    pub records: Vec<usize>,
}
/// What became of a job: the batch, if any record is left, and the records that are missing from it, in order.
pub(super) struct Loaded<B> {
    pub batch: Option<Result<B, FailedBatch>>,
    pub bad: Vec<BadRecord>,
}
/// Why there is no batch although there are records.
pub(super) enum FailedBatch {
    /// The data set says so.
    Own(Error),
    /// It did not come to say anything.
    Lost(String),
}
impl FailedBatch {
    /// As an error; of what was lost, at the line that asked for the batch.
    pub fn at(self, here: Origin) -> Error {
        match self {
            FailedBatch::Own(error) => error,
            FailedBatch::Lost(what) => Error::at("data_loader", ErrorKind::Argument(what), here),
        }
    }
}
/// What a worker is at.
pub(super) struct Doing {
    pub job: Arc<Job>,
    /// the record; none while it collates
    pub record: Option<usize>,
    pub since: Instant,
}
/// A worker as seen from outside. Whoever holds the lock knows whether the worker still counts.
#[derive(Default)]
pub(super) struct Slot {
    pub abandoned: bool,
    pub doing: Option<Doing>,
}
pub(super) struct WorkState<B> {
    pub queue: VecDeque<Arc<Job>>,
    pub made: BTreeMap<usize, Loaded<B>>,
    /// Batches of this generation up to here are asked for.
    requested: usize,
    pub slots: Vec<Arc<Mutex<Slot>>>,
    /// Records that hung once: they are not read again.
    pub hung: HashMap<usize, BadRecord>,
    pub waker: Option<Waker>,
    pub closed: bool,
    watching: bool,
}
pub(super) struct SharedLoader<D: Dataset + ?Sized> {
    pub dataset: Arc<D>,
    device: Option<Device>,
    /// what was around the loader when it was built
    pub ambient: Ambient,
    pub timeout: Option<Duration>,
    stop_at_first: bool,
    pub generation: AtomicU64,
    pub state: Mutex<WorkState<D::Batch>>,
    /// For workers: there is a job, or it is over.
    pub jobs: Condvar,
    /// For the loader: a batch was made.
    pub done: Condvar,
    /// For the watch: there is work to watch, or it is over.
    pub watched: Condvar,
}
/// The loader's end of it.
pub(super) struct LoaderPipeline<D: Dataset + ?Sized + 'static> {
    shared: Arc<SharedLoader<D>>,
    workers: usize,
}

impl<D: Dataset + ?Sized + 'static> LoaderPipeline<D> {
    pub fn new(dataset: Arc<D>, device: Option<Device>, workers: usize, timeout: Option<Duration>, stop_at_first: bool) -> LoaderPipeline<D> {
        let state = WorkState {
            queue: VecDeque::new(),
            made: BTreeMap::new(),
            requested: 0,
            slots: Vec::new(),
            hung: HashMap::new(),
            waker: None,
            closed: false,
            watching: false,
        };
        let shared = SharedLoader {
            dataset,
            device,
            ambient: Ambient::current(),
            timeout,
            stop_at_first,
            generation: AtomicU64::new(0),
            state: Mutex::new(state),
            jobs: Condvar::new(),
            done: Condvar::new(),
            watched: Condvar::new(),
        };
        LoaderPipeline { shared: Arc::new(shared), workers }
    }
    pub fn dataset(&self) -> &Arc<D> {
        &self.shared.dataset
    }
    /// Forgets what was asked for and what was made of it.
    pub fn cancel(&mut self) {
        let mut state = self.shared.state.lock();
        self.shared.generation.fetch_add(1, Relaxed);
        state.queue.clear();
        state.requested = 0;
        let made = std::mem::take(&mut state.made);
        drop(state);
        drop(made);
    }
    /// Loads in the caller's thread, where a worker's surroundings stand too: batches do not depend on how many there are.
    pub fn load_here(&self, batch: usize, draws: (u64, u64), records: Vec<usize>) -> Loaded<D::Batch> {
        let job = Job { batch, generation: 0, draws, records };
        let _around = self.shared.ambient.enter();
        // Nobody watches, so nobody stops it.
        load(&self.shared, &job, &HashMap::new(), |_| true).unwrap_or(Loaded { batch: None, bad: Vec::new() })
    }
    /// Sees to it that these batches are being made.
    pub fn request(&mut self, batches: Range<usize>, draws: (u64, u64), records: impl Fn(usize) -> Vec<usize>, here: Origin) -> Result<(), Error> {
        let mut state = self.shared.state.lock();
        self.start(&mut state).map_err(|e| no_thread(&e, here))?;
        let generation = self.shared.generation.load(Relaxed);
        for batch in batches.start.max(state.requested)..batches.end {
            state.queue.push_back(Arc::new(Job { batch, generation, draws, records: records(batch) }));
            state.requested = batch + 1;
            self.shared.jobs.notify_one();
        }
        if self.shared.timeout.is_some() {
            self.shared.watched.notify_one();
        }
        Ok(())
    }
    /// Takes a batch that was asked for, waiting for it unless there is a waker to be told.
    pub fn receive(&mut self, batch: usize, waker: Option<&Waker>) -> Poll<Loaded<D::Batch>> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(loaded) = state.made.remove(&batch) {
                return Poll::Ready(loaded);
            }
            if let Some(waker) = waker {
                state.waker = Some(waker.clone());
                return Poll::Pending;
            }
            self.shared.done.wait(&mut state);
        }
    }
    /// Starts what threads are missing; with one worker, the others may be.
    fn start(&self, state: &mut WorkState<D::Batch>) -> Result<(), String> {
        while state.slots.len() < self.workers {
            match spawn(&self.shared) {
                Ok(slot) => state.slots.push(slot),
                Err(_) if !state.slots.is_empty() => break,
                Err(why) => return Err(why),
            }
        }
        if self.shared.timeout.is_some() && !state.watching {
            let shared = self.shared.clone();
            thread::Builder::new().name("adamant-watch".into()).spawn(move || watch::watch(&shared)).map_err(|e| e.to_string())?;
            state.watching = true;
        }
        Ok(())
    }
}
impl<D: Dataset + ?Sized + 'static> Drop for LoaderPipeline<D> {
    /// Tells the threads to end and does not wait: one of them may hang.
    fn drop(&mut self) {
        self.cancel();
        self.shared.state.lock().closed = true;
        self.shared.jobs.notify_all();
        self.shared.watched.notify_all();
    }
}
fn no_thread(why: &str, here: Origin) -> Error {
    Error::at("data_loader", ErrorKind::Argument(format!("a worker's thread could not be started: {why}")), here)
        .hint("ask for fewer workers, or raise the system's limit on threads")
}

/// Starts a worker.
pub(super) fn spawn<D: Dataset + ?Sized + 'static>(shared: &Arc<SharedLoader<D>>) -> Result<Arc<Mutex<Slot>>, String> {
    let slot = Arc::new(Mutex::new(Slot::default()));
    let (of_thread, shared) = (slot.clone(), shared.clone());
    thread::Builder::new().name("adamant-data".into()).spawn(move || work(&shared, &of_thread)).map_err(|e| e.to_string())?;
    Ok(slot)
}
fn work<D: Dataset + ?Sized>(shared: &SharedLoader<D>, slot: &Mutex<Slot>) {
    let _around = shared.ambient.enter();
    while let Some((job, hung)) = take(shared) {
        let mut abandoned = false;
        let report = |record: Option<usize>| {
            let mut slot = slot.lock();
            abandoned = slot.abandoned;
            if shared.timeout.is_some() && !abandoned {
                slot.doing = Some(Doing { job: job.clone(), record, since: Instant::now() });
            }
            !abandoned && shared.generation.load(Relaxed) == job.generation
        };
        let loaded = load(shared, &job, &hung, report);
        {
            let mut slot = slot.lock();
            abandoned |= slot.abandoned;
            slot.doing = None;
        }
        if abandoned {
            return;
        }
        if let Some(loaded) = loaded {
            deliver(shared, &job, loaded);
        }
    }
}
/// The next job, with those of its records that are known to hang; `None` when it is over.
fn take<D: Dataset + ?Sized>(shared: &SharedLoader<D>) -> Option<(Arc<Job>, HashMap<usize, BadRecord>)> {
    let mut state = shared.state.lock();
    loop {
        if state.closed {
            return None;
        }
        if let Some(job) = state.queue.pop_front() {
            let hung = if state.hung.is_empty() { HashMap::new() } else { job.records.iter().filter_map(|r| Some((*r, state.hung.get(r)?.clone()))).collect() };
            return Some((job, hung));
        }
        shared.jobs.wait(&mut state);
    }
}
/// Puts what was made where the loader finds it, if it is still wanted.
pub(super) fn deliver<D: Dataset + ?Sized>(shared: &SharedLoader<D>, job: &Job, loaded: Loaded<D::Batch>) {
    let mut state = shared.state.lock();
    // Under the lock, as plans change under it.
    if state.closed || shared.generation.load(Relaxed) != job.generation {
        drop(state);
        return drop(loaded);
    }
    state.made.insert(job.batch, loaded);
    let waker = state.waker.take();
    drop(state);
    shared.done.notify_one();
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Reads and collates. `report` is told what comes next, and says whether to go on.
fn load<D: Dataset + ?Sized>(
    shared: &SharedLoader<D>,
    job: &Job,
    hung: &HashMap<usize, BadRecord>,
    mut report: impl FnMut(Option<usize>) -> bool,
) -> Option<Loaded<D::Batch>> {
    let dataset = &*shared.dataset;
    let (mut records, mut bad) = (Vec::with_capacity(job.records.len()), Vec::new());
    for index in &job.records {
        if let Some(known) = hung.get(index) {
            bad.push(known.clone());
        } else {
            if !report(Some(*index)) {
                return None;
            }
            let draw = Draw { seed: job.draws.0, epoch: job.draws.1, index: *index };
            match guarded(|| dataset.read_at(*index, &draw)) {
                Ok(Ok(record)) => records.push(record),
                Ok(Err(e)) => bad.push(e),
                Err(panic) => bad.push(bad_record(dataset, *index, Cause::Panicked, format!("reading it panicked: {panic}"))),
            }
        }
        if shared.stop_at_first && !bad.is_empty() {
            return Some(Loaded { batch: None, bad });
        }
    }
    if records.is_empty() {
        return Some(Loaded { batch: None, bad });
    }
    if !report(None) {
        return None;
    }
    let collate = || match shared.device {
        Some(device) => device.scoped(|| dataset.collate(records)),
        None => dataset.collate(records),
    };
    let batch = match guarded(collate) {
        Ok(batch) => batch.map_err(FailedBatch::Own),
        Err(panic) => Err(FailedBatch::Lost(format!("collating batch {} panicked: {panic}", job.batch))),
    };
    Some(Loaded { batch: Some(batch), bad })
}
/// A bad record that the data set itself did not name.
pub(super) fn bad_record<D: Dataset + ?Sized>(dataset: &D, index: usize, cause: Cause, reason: String) -> BadRecord {
    let place = guarded(|| dataset.locate(index));
    let place = place.unwrap_or_else(|_| crate::Place { file: "<unknown>".into(), index, offset: 0 });
    BadRecord { place, cause, reason }
}
