//! A device that is late on purpose. It has the kernels of any backend, and so that backend's bits; what it adds is time: a
//! thread for each queue, delays that a seed draws, host memory that is read when a copy runs and not when it is called, freed
//! and recycled memory full of poison. Whoever forgets to wait for something gets other bits on it, or an error: each use of
//! memory is checked against the events that order it, by vector clocks (Mattern, "Virtual Time and Global States of Distributed
//! Systems", 1989), so that a missing wait is found however the threads happen to run.
//!
//! Misuse is an error of the call: of a step, so that it is told with the op and the line that asked for it; of memory that is
//! let go of too early, of every call from then on.
//!
//! [`planted::PLANTS`] are the mistakes that the runtime could make between a plan and such a device; each stands between
//! the two and spoils what is handed over.
use crate::random::Random;
use adamant_core::{
    Composite, DType, Device, ErrorKind,
    backend::{Asynchronous, Backend, DeviceInfo, Event, HostBytes, Memory, Queue, ReadBack, Refused, Reports, Support, Words},
    kernel::{Fault, KernelKind, Step},
};
use block::{LateBlock, LateMemory};
use parking_lot::Mutex;
use queues::{MemoryUse, Queues};
use std::{any::Any, sync::Arc};
use work::{LateWords, LateWork};

mod block;
pub mod drive;
pub mod planted;
mod queues;
mod work;

/// What each byte of memory is that nobody may read: not a number, no index, no truth value.
pub const POISON: u8 = 0xFF;

/// How it is late.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// of its delays
    pub seed: u64,
    /// May cells be updated where they lie? `None`: as the backend inside has it.
    pub in_place: Option<bool>,
}
impl Options {
    /// Delays of a seed.
    pub fn of(seed: u64) -> Options {
        Options { seed, in_place: None }
    }
}

/// The device.
pub struct Late {
    info: DeviceInfo,
    inner: Device,
    in_place: bool,
    queues: Arc<Queues>,
}
/// A device of its own that runs the kernels of `inner`, late.
///
/// ```
/// use adamant_conformance::{late, plain};
/// use adamant_core::Tensor;
/// let device = late::device(plain::backend(64, usize::MAX), late::Options::of(1));
/// let x = Tensor::from_vec_on(vec![1.0f32, 2.0], [2], device);
/// assert_eq!((x * 3.0f32).to_vec::<f32>()?, [3.0, 6.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn device(inner: Box<dyn Backend>, options: Options) -> Device {
    Device::from_backend(Box::new(Late::new(inner, options)))
}
impl Late {
    /// As [`device`], to be wrapped.
    pub fn new(inner: Box<dyn Backend>, options: Options) -> Late {
        let in_place = options.in_place.unwrap_or_else(|| inner.updates_in_place());
        let inner = Device::from_backend(inner);
        let mut info = inner.info().clone();
        info.name = format!("{}, late", info.name);
        Late { info, inner, in_place, queues: Queues::start(Random::new(options.seed)) }
    }
    /// What was done to it that may not be done.
    pub fn misuse(&self) -> Vec<String> {
        self.queues.misuse()
    }
    fn block(&self, memory: &dyn Memory) -> Result<Arc<LateBlock>, ErrorKind> {
        memory.as_any().downcast_ref::<LateMemory>().map(|m| m.block.clone()).ok_or_else(|| ErrorKind::Internal("memory of another backend".into()))
    }
}
impl Backend for Late {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn supports(&self, kernel: &KernelKind, dtypes: &[DType]) -> Support {
        self.inner.backend().supports(kernel, dtypes)
    }
    fn takes_rows(&self, composite: &dyn Composite) -> bool {
        self.inner.backend().takes_rows(composite)
    }
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        Ok(Box::new(LateMemory { block: LateBlock::new(self.inner, bytes)?, queues: self.queues.clone() }))
    }
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
        let (block, bytes) = (self.block(to)?, from.to_vec());
        let into = block.clone();
        let run = move || into.write(offset, &bytes);
        let event = self.queues.hand_over(Queue::Copy, &self.queues.all_issued(), "upload", &[MemoryUse::write(&block.access)], run)?;
        self.queues.wait(event)
    }
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        Asynchronous::read_back(self, from, offset, to.len(), &self.queues.all_issued())?.1.wait(to)
    }
    fn submit(&self, steps: &[Step<'_>]) -> Result<(), ErrorKind> {
        let event = Asynchronous::submit(self, Queue::Compute, steps, &self.queues.all_issued()).map_err(|refused| refused.kind)?;
        self.queues.wait(event)
    }
    fn updates_in_place(&self) -> bool {
        self.in_place
    }
    fn synchronize(&self) -> Result<(), ErrorKind> {
        self.queues.all_issued().into_iter().try_for_each(|event| self.queues.wait(event))
    }
    fn asynchronous(&self) -> Option<&dyn Asynchronous> {
        Some(self)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
impl Asynchronous for Late {
    fn submit(&self, queue: Queue, steps: &[Step<'_>], after: &[Event]) -> Result<Event, Refused> {
        let mut last = Event::DONE;
        for (k, step) in steps.iter().enumerate() {
            let refused = |kind| Refused { step: Some(k), kind };
            let work = LateWork::new(step, |memory| self.block(memory)).map_err(refused)?;
            let (inner, uses) = (self.inner, work.uses());
            let uses: Vec<MemoryUse<'_>> = uses.iter().map(|(access, write)| MemoryUse { access, write: *write }).collect();
            let run = work.clone();
            last = self.queues.hand_over(queue, after, step.kernel.kind.family(), &uses, move || run.run(inner)).map_err(refused)?;
        }
        Ok(last)
    }
    fn upload(&self, to: &dyn Memory, from: HostBytes, after: &[Event]) -> Result<Event, ErrorKind> {
        let block = self.block(to)?;
        let into = block.clone();
        // The host's bytes are read when the copy runs.
        self.queues.hand_over(Queue::Copy, after, "upload", &[MemoryUse::write(&block.access)], move || into.write(0, (*from).as_ref()))
    }
    fn read_back(&self, from: &dyn Memory, offset: usize, bytes: usize, after: &[Event]) -> Result<(Event, Box<dyn ReadBack>), ErrorKind> {
        let block = self.block(from)?;
        let came: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
        let (to, source) = (came.clone(), block.clone());
        let run = move || {
            *to.lock() = Some(source.read(offset, bytes)?);
            Ok(())
        };
        let event = self.queues.hand_over(Queue::Copy, after, "read", &[MemoryUse::read(&block.access)], run)?;
        Ok((event, Box::new(Coming { queues: self.queues.clone(), event, came })))
    }
    fn words(&self, count: u32) -> Result<Arc<dyn Words>, ErrorKind> {
        Ok(Arc::new(LateWords::new(count)))
    }
    fn inherit(&self, words: &Arc<dyn Words>, number: u32, from: &Arc<dyn Words>, of: &[u32], after: &[Event]) -> Result<Event, ErrorKind> {
        let (own, from, of) = (LateWords::of(words)?, LateWords::of(from)?, of.to_vec());
        let uses = [MemoryUse::write(own.access()), MemoryUse::read(from.access())];
        let (to, source) = (own.clone(), from.clone());
        self.queues.hand_over(Queue::Compute, after, "inherit", &uses, move || {
            if source.is_any_raised(&of) {
                to.raise(number, Fault::Domain("inherited".into()));
            }
            Ok(())
        })
    }
    fn read_words(&self, words: &Arc<dyn Words>, after: Event) -> Result<Box<dyn Reports>, ErrorKind> {
        let words = LateWords::of(words)?;
        let came: Arc<Mutex<Option<Vec<Option<Fault>>>>> = Arc::default();
        let (to, source) = (came.clone(), words.clone());
        let run = move || {
            *to.lock() = Some(source.all());
            Ok(())
        };
        let event = self.queues.hand_over(Queue::Copy, &[after], "read of words", &[MemoryUse::read(words.access())], run)?;
        Ok(Box::new(ToldEvent { queues: self.queues.clone(), event, came }))
    }
    fn is_done(&self, event: Event) -> bool {
        self.queues.is_done(event)
    }
    fn wait(&self, event: Event) -> Result<(), ErrorKind> {
        self.queues.wait(event)
    }
    fn recycled(&self, memory: &dyn Memory, after: &[Event]) -> Result<Event, ErrorKind> {
        let block = self.block(memory)?;
        let into = block.clone();
        self.queues.hand_over(Queue::Compute, after, "recycling", &[MemoryUse::write(&block.access)], move || into.poison())
    }
}

struct Coming {
    queues: Arc<Queues>,
    event: Event,
    came: Arc<Mutex<Option<Vec<u8>>>>,
}
impl ReadBack for Coming {
    fn is_ready(&self) -> bool {
        self.queues.is_done(self.event)
    }
    fn wait(self: Box<Self>, to: &mut [u8]) -> Result<(), ErrorKind> {
        self.queues.wait(self.event)?;
        let came = self.came.lock().take().filter(|came| came.len() == to.len());
        to.copy_from_slice(&came.ok_or_else(|| ErrorKind::Internal("a read that did not run".into()))?);
        Ok(())
    }
}
struct ToldEvent {
    queues: Arc<Queues>,
    event: Event,
    came: Arc<Mutex<Option<Vec<Option<Fault>>>>>,
}
impl Reports for ToldEvent {
    fn is_ready(&self) -> bool {
        self.queues.is_done(self.event)
    }
    fn wait(self: Box<Self>) -> Result<Vec<Option<Fault>>, ErrorKind> {
        self.queues.wait(self.event)?;
        self.came.lock().take().ok_or_else(|| ErrorKind::Internal("words that were not read".into()))
    }
}
