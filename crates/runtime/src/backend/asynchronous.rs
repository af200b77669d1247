//! What a device must do on which work goes on after the call that handed it over.
//!
//! *Queues and events.* A device has up to three queues, each of which runs what it gets in order; between queues nothing is
//! ordered but by events. An [`Event`] is a queue and a number: it has passed when that queue has done so many pieces of work.
//! [`Event::DONE`] has always passed. Whoever hands work over says behind which events it may begin. The runtime knows these
//! from the buffers: each remembers the piece of work that wrote it last and the last one of each queue that used it
//! ([`crate::buffer::Buffer`]). So the pool hands a buffer out at once, and its next use comes behind the last; memory is
//! given back to the device only when it is at rest; a read of the host waits for the one event that wrote what it reads.
//!
//! *Words.* A run of a plan whose steps may find bad data has a set of fault words ([`Words`]) where the device writes them.
//! A step reports to one of them; a step that must not run on bad data names those that forbid it ([`When`]), and the device
//! looks: no host does before a cell is written. A word may also be inherited from words of an earlier run, whose results
//! this one reads. What was reported comes to the host by a read like any other ([`Asynchronous::read_words`]), begun at the end
//! of the run and waited for by whoever reads what may be spoiled.
//!
//! *Frozen steps.* A plan that comes again and again with its sizes over the same memory may be kept by the device
//! ([`Asynchronous::freeze`]) and run as one piece: what changes from run to run is copied to where it was.
//!
//! A backend whose `submit` returns when all is done knows none of this: it does not implement [`Asynchronous`], the host looks at
//! its [`FaultWord`](crate::kernel::FaultWord)s itself, and no buffer has an event. Must not know: plans, cells, who reads.
use super::{Memory, ReadBack};
use crate::{ErrorKind, Scalar, kernel::Fault, kernel::Step};
use std::{any::Any, sync::Arc};

/// Where work waits for its turn. A device with fewer queues of its own runs several of these on one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Queue {
    /// kernels
    Compute = 0,
    /// between host and device
    Copy = 1,
    /// with other ranks
    Communication = 2,
}
impl Queue {
    /// All of them, by number.
    pub const ALL: [Queue; 3] = [Queue::Compute, Queue::Copy, Queue::Communication];
}

/// A piece of work of a queue, by its number. Of two on one queue the larger one passes later.
///
/// ```
/// use adamant_runtime::backend::{Event, Queue};
/// let event = Event::new(Queue::Copy, 7);
/// assert_eq!((event.queue(), event.number()), (Queue::Copy, 7));
/// assert!(Event::DONE.is_done() && !event.is_done() && Event::default() == Event::DONE);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Event(u64);
impl Event {
    /// Has passed.
    pub const DONE: Event = Event(0);
    /// The piece of work number `number` of a queue, counted from 1.
    #[inline]
    pub fn new(queue: Queue, number: u64) -> Event {
        Event(number << 2 | queue as u64)
    }
    /// Whose it is.
    #[inline]
    pub fn queue(self) -> Queue {
        Queue::ALL[(self.0 & 3).min(2) as usize]
    }
    /// Its number; 0: it has passed.
    #[inline]
    pub fn number(self) -> u64 {
        self.0 >> 2
    }
    /// Is it [`Event::DONE`]?
    #[inline]
    pub fn is_done(self) -> bool {
        self.0 == 0
    }
    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Event {
        Event(bits)
    }
}

/// Bytes of the host that a copy reads when it runs: they are the device's from the call on, which lets go of them behind the
/// copy.
pub type HostBytes = Box<dyn AsRef<[u8]> + Send + Sync>;

/// The fault words of one run. They are the backend's: it holds them until the device is done with them, whoever drops them.
pub trait Words: Any + Send + Sync {
    /// For the backend that made them.
    fn as_any(&self) -> &dyn Any;
}
/// What was reported, on its way to the host. Dropping it gives it up.
pub trait Reports: Send + Sync {
    /// Would `wait` return at once?
    fn is_ready(&self) -> bool;
    /// Waits: by word, what was reported to it. A word that was raised or inherited has any fault.
    ///
    /// # Errors
    /// A lost device.
    fn wait(self: Box<Self>) -> Result<Vec<Option<Fault>>, ErrorKind>;
}

/// When a step runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum When<'a> {
    /// in any case
    #[default]
    Always,
    /// if none of these words is raised: what it writes is good, or stays as it was
    Clean(&'a [u32]),
    /// if one of these words is: it takes back what was not written
    Raised(&'a [u32]),
}
/// What a step has to do with its run's words.
#[derive(Clone, Copy, Default)]
pub struct Guard<'a> {
    /// the run's words; none where no step of it can fault
    pub words: Option<&'a Arc<dyn Words>>,
    /// the word it reports to
    pub reports: Option<u32>,
    /// when it runs
    pub when: When<'a>,
}
impl Guard<'_> {
    /// Reports nothing and runs in any case.
    pub const NONE: Guard<'static> = Guard { words: None, reports: None, when: When::Always };
}

/// Work that was not taken.
#[derive(Debug)]
pub struct Refused {
    /// the step that it was, where one can be named
    pub step: Option<usize>,
    /// why
    pub kind: ErrorKind,
}
impl From<ErrorKind> for Refused {
    fn from(kind: ErrorKind) -> Refused {
        Refused { step: None, kind }
    }
}

/// Steps that a device keeps to run them again as one piece, over the same memory: a graph of launches, say.
pub trait FrozenSteps: Send + Sync {
    /// Runs them on the compute queue, behind the events; the copies before and behind them are part of that piece of work.
    /// Where their guards have words, what was reported is given in words that are nobody else's.
    ///
    /// # Errors
    /// A lost device.
    fn run(&self, run: &FrozenRun<'_>, after: &[Event]) -> Result<(Event, Option<Arc<dyn Words>>), ErrorKind>;
}
/// Which plans a device wants to keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreezeRule {
    /// the run of a plan with its sizes that is the first frozen one
    pub run: u32,
    /// plans of fewer steps are not worth it
    pub steps: usize,
}
/// What is not the same whenever frozen steps run.
#[derive(Clone, Copy)]
pub struct FrozenRun<'r> {
    /// the arguments of all steps, one step's behind the other's
    pub args: &'r [Scalar],
    /// what is copied before them, and behind them
    pub copies: [&'r [MemoryCopy<'r>]; 2],
    /// words that earlier runs may have raised
    pub inherited: &'r [Inherited<'r>],
}
/// Bytes of one memory that go to the beginning of another.
#[derive(Clone, Copy)]
pub struct MemoryCopy<'m> {
    /// from its beginning
    pub from: &'m dyn Memory,
    /// where to
    pub to: &'m dyn Memory,
    /// how many
    pub bytes: usize,
}
/// A word that is raised if one of some words of an earlier run is.
#[derive(Clone)]
pub struct Inherited<'w> {
    /// its number
    pub number: u32,
    /// the words of that run
    pub from: &'w Arc<dyn Words>,
    /// which of them
    pub of: Vec<u32>,
    /// the last work that writes them
    pub after: Event,
}

/// A device that is asynchronous: each call hands work over and returns. What fails later on fails what is waited for next.
pub trait Asynchronous: Send + Sync {
    /// Runs the steps in order on a queue, behind the events and behind all that the queue had before.
    ///
    /// # Errors
    /// A lost device or an internal error; data errors go to the steps' words.
    fn submit(&self, queue: Queue, steps: &[Step<'_>], after: &[Event]) -> Result<Event, Refused>;
    /// Copies host bytes to the beginning of memory. What lies behind them is of no use to anybody.
    ///
    /// # Errors
    /// A lost device.
    fn upload(&self, to: &dyn Memory, from: HostBytes, after: &[Event]) -> Result<Event, ErrorKind>;
    /// Begins to copy `bytes` from `offset` on to the host, as they are behind the events. The memory is in use until the
    /// event has passed.
    ///
    /// # Errors
    /// A lost device; memory for the copy.
    fn read_back(&self, from: &dyn Memory, offset: usize, bytes: usize, after: &[Event]) -> Result<(Event, Box<dyn ReadBack>), ErrorKind>;
    /// New fault words, none of which is raised.
    ///
    /// # Errors
    /// As `Backend::alloc`.
    fn words(&self, count: u32) -> Result<Arc<dyn Words>, ErrorKind>;
    /// Raises a word on the compute queue if one of these words of an earlier run is.
    ///
    /// # Errors
    /// A lost device.
    fn inherit(&self, words: &Arc<dyn Words>, number: u32, from: &Arc<dyn Words>, of: &[u32], after: &[Event]) -> Result<Event, ErrorKind>;
    /// Begins to read what was reported, behind an event.
    ///
    /// # Errors
    /// A lost device.
    fn read_words(&self, words: &Arc<dyn Words>, after: Event) -> Result<Box<dyn Reports>, ErrorKind>;
    /// Has it passed?
    fn is_done(&self, event: Event) -> bool;
    /// Waits until it has passed.
    ///
    /// # Errors
    /// A lost device.
    fn wait(&self, event: Event) -> Result<(), ErrorKind>;
    /// Which plans are to be frozen; none: none.
    fn freezes(&self) -> Option<FreezeRule> {
        None
    }
    /// Keeps steps that are to run again over the memory that they have now. None of them runs.
    ///
    /// # Errors
    /// `Unsupported`, with what of them the device cannot keep; memory; a lost device.
    fn freeze(&self, _steps: &[Step<'_>]) -> Result<Box<dyn FrozenSteps>, ErrorKind> {
        Err(ErrorKind::Unsupported { backend: "this".into(), what: "frozen steps".into() })
    }
    /// The pool hands this memory out again: from here on, behind the events, nobody needs what is in it.
    ///
    /// # Errors
    /// A lost device.
    fn recycled(&self, _memory: &dyn Memory, _after: &[Event]) -> Result<Event, ErrorKind> {
        Ok(Event::DONE)
    }
}
