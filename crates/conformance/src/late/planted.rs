//! Mistakes that the runtime could make on an asynchronous device, one at a time. Each stands between the runtime and a late
//! device and spoils what is handed over, as if a plan's events, guards or copies were wrong; `caught` shows that the device or
//! the check of [`super::drive`] finds it. Without a mistake the same way finds nothing.
use super::{Late, Options, drive};
use adamant_core::{
    Composite, DType, Device, ErrorKind,
    backend::{Asynchronous, Backend, DeviceInfo, Event, Guard, HostBytes, Memory, Queue, ReadBack, Refused, Reports, Support, When, Words},
    kernel::{KernelKind, Step},
};
use parking_lot::Mutex;
use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// kernels do not wait for the copies that bring their inputs
    MissingWait,
    /// the host reads before what it reads was written
    HostReadsEarly,
    /// the pool hands memory out to a copy while kernels use it
    PoolIgnoresEvents,
    /// memory is given back to the device while it is in use
    FreedEarly,
    /// a buffer does not learn of the work that uses it
    UseForgotten,
    /// a buffer learns of the work before instead
    EventsOutOfOrder,
    /// a buffer is said to be in use by another queue
    EventOfAnotherQueue,
    /// host memory is let go of before the copy has read it
    HostFreedEarly,
    /// steps that write cells ask no word
    NotPredicated,
    /// they ask the first word alone
    OneWordAsked,
    /// a cell's old bits are not copied back
    NoCopyBack,
    /// they are copied back whatever was found
    CopiedBackAlways,
    /// a run does not inherit the faults of one before
    NotInherited,
    /// a fault is reported to nobody
    LostReport,
    /// a fault is reported to another step's word
    ReportedElsewhere,
    /// the words are read before the run has written them
    WordsReadEarly,
    /// a run gets the words of the one before, as they are
    WordsReused,
    /// the steps of a batch come in the wrong order
    StepsOutOfOrder,
}
/// All of them.
pub const PLANTS: [Plant; 18] = [
    Plant::MissingWait,
    Plant::HostReadsEarly,
    Plant::PoolIgnoresEvents,
    Plant::FreedEarly,
    Plant::UseForgotten,
    Plant::EventsOutOfOrder,
    Plant::EventOfAnotherQueue,
    Plant::HostFreedEarly,
    Plant::NotPredicated,
    Plant::OneWordAsked,
    Plant::NoCopyBack,
    Plant::CopiedBackAlways,
    Plant::NotInherited,
    Plant::LostReport,
    Plant::ReportedElsewhere,
    Plant::WordsReadEarly,
    Plant::WordsReused,
    Plant::StepsOutOfOrder,
];

struct PlantedBackend {
    late: Arc<Late>,
    plant: Option<Plant>,
    /// the words that were made last
    words: Mutex<Option<Arc<dyn Words>>>,
}
/// What was seen of a mistake, or of none: what the device and the check complain of.
pub fn complaint(inner: Box<dyn Backend>, options: Options, plant: Option<Plant>) -> Option<String> {
    let late = Arc::new(Late::new(inner, options));
    let device = Device::from_backend(Box::new(PlantedBackend { late: late.clone(), plant, words: Mutex::default() }));
    let driven = drive::everything(device).err();
    late.misuse().first().cloned().or(driven)
}
impl PlantedBackend {
    fn is(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }
    /// What the runtime is told of work that was handed over.
    fn told(&self, event: Event) -> Event {
        match self.plant {
            Some(Plant::UseForgotten) => Event::DONE,
            Some(Plant::EventsOutOfOrder) if event.number() > 1 => Event::new(event.queue(), event.number() - 1),
            Some(Plant::EventOfAnotherQueue) if event.queue() == Queue::Compute => Event::new(Queue::Communication, event.number()),
            _ => event,
        }
    }
    fn guard<'g>(&self, guard: Guard<'g>) -> Guard<'g> {
        let when = match (guard.when, self.plant) {
            (When::Clean(_), Some(Plant::NotPredicated)) | (When::Raised(_), Some(Plant::CopiedBackAlways)) => When::Always,
            (When::Clean(words), Some(Plant::OneWordAsked)) => When::Clean(&words[..1]),
            (when, _) => when,
        };
        let reports = match self.plant {
            Some(Plant::LostReport) => None,
            Some(Plant::ReportedElsewhere) => guard.reports.map(|word| if word == 0 { 1 } else { word - 1 }),
            _ => guard.reports,
        };
        Guard { words: guard.words, reports, when }
    }
}
impl Backend for PlantedBackend {
    fn info(&self) -> &DeviceInfo {
        self.late.info()
    }
    fn supports(&self, kernel: &KernelKind, dtypes: &[DType]) -> Support {
        self.late.supports(kernel, dtypes)
    }
    fn takes_rows(&self, composite: &dyn Composite) -> bool {
        self.late.takes_rows(composite)
    }
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        self.late.alloc(bytes)
    }
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
        Backend::upload(&*self.late, to, offset, from)
    }
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        self.late.download(from, offset, to)
    }
    fn submit(&self, steps: &[Step<'_>]) -> Result<(), ErrorKind> {
        Backend::submit(&*self.late, steps)
    }
    fn updates_in_place(&self) -> bool {
        self.late.updates_in_place()
    }
    fn synchronize(&self) -> Result<(), ErrorKind> {
        self.late.synchronize()
    }
    fn asynchronous(&self) -> Option<&dyn Asynchronous> {
        Some(self)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// Host bytes whose owner lets go of them when the call returns: somebody else writes there.
struct Freed {
    bytes: Vec<u8>,
    other: Vec<u8>,
    is_gone: Arc<AtomicBool>,
}
impl AsRef<[u8]> for Freed {
    fn as_ref(&self) -> &[u8] {
        if self.is_gone.load(SeqCst) { &self.other } else { &self.bytes }
    }
}
impl Asynchronous for PlantedBackend {
    fn submit(&self, queue: Queue, steps: &[Step<'_>], after: &[Event]) -> Result<Event, Refused> {
        let mut spoiled: Vec<Step<'_>> = steps.iter().map(|step| Step { guard: self.guard(step.guard), ..*step }).collect();
        if self.is(Plant::NoCopyBack) {
            spoiled.retain(|step| !matches!(step.guard.when, When::Raised(_)));
        }
        if self.is(Plant::StepsOutOfOrder) {
            spoiled.reverse();
        }
        let after = if self.is(Plant::MissingWait) { &[] } else { after };
        if spoiled.is_empty() {
            return Ok(Event::DONE);
        }
        Ok(self.told(Asynchronous::submit(&*self.late, queue, &spoiled, after)?))
    }
    fn upload(&self, to: &dyn Memory, from: HostBytes, after: &[Event]) -> Result<Event, ErrorKind> {
        let after = if self.is(Plant::PoolIgnoresEvents) { &[] } else { after };
        if !self.is(Plant::HostFreedEarly) {
            return Ok(self.told(Asynchronous::upload(&*self.late, to, from, after)?));
        }
        let (bytes, is_gone) = ((*from).as_ref().to_vec(), Arc::new(AtomicBool::new(false)));
        let freed = Freed { other: vec![super::POISON; bytes.len()], bytes, is_gone: is_gone.clone() };
        let event = Asynchronous::upload(&*self.late, to, Box::new(freed), after)?;
        is_gone.store(true, SeqCst);
        Ok(event)
    }
    fn read_back(&self, from: &dyn Memory, offset: usize, bytes: usize, after: &[Event]) -> Result<(Event, Box<dyn ReadBack>), ErrorKind> {
        let after = if self.is(Plant::HostReadsEarly) { &[] } else { after };
        let (event, read) = Asynchronous::read_back(&*self.late, from, offset, bytes, after)?;
        Ok((self.told(event), read))
    }
    fn words(&self, count: u32) -> Result<Arc<dyn Words>, ErrorKind> {
        let mut last = self.words.lock();
        if let (true, Some(words)) = (self.is(Plant::WordsReused), &*last) {
            return Ok(words.clone());
        }
        let words = self.late.words(count)?;
        *last = Some(words.clone());
        Ok(words)
    }
    fn inherit(&self, words: &Arc<dyn Words>, number: u32, from: &Arc<dyn Words>, of: &[u32], after: &[Event]) -> Result<Event, ErrorKind> {
        let of = if self.is(Plant::NotInherited) { &[] } else { of };
        self.late.inherit(words, number, from, of, after)
    }
    fn read_words(&self, words: &Arc<dyn Words>, after: Event) -> Result<Box<dyn Reports>, ErrorKind> {
        self.late.read_words(words, if self.is(Plant::WordsReadEarly) { Event::DONE } else { after })
    }
    fn is_done(&self, event: Event) -> bool {
        self.is(Plant::FreedEarly) || self.late.is_done(event)
    }
    fn wait(&self, event: Event) -> Result<(), ErrorKind> {
        if self.is(Plant::FreedEarly) { Ok(()) } else { self.late.wait(event) }
    }
    fn recycled(&self, memory: &dyn Memory, after: &[Event]) -> Result<Event, ErrorKind> {
        let after = if self.is(Plant::PoolIgnoresEvents) { &[] } else { after };
        Ok(self.told(self.late.recycled(memory, after)?))
    }
}
