//! A queue of the runtime as a stream of the driver. Work is handed over in turns: who has the turn issues to the stream, and
//! at its end an event of the driver is recorded, which stands for the turn's number. So numbers pass in their order, and an
//! event that has passed is used again.
use crate::{
    driver::{self, EventHandle, StreamHandle},
    memory::{DeviceBlock, LastTurns},
    opened::CudaContext,
};
use adamant_runtime::{
    ErrorKind,
    backend::{Event, Queue},
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// How far the streams of a device are, by queue, for those who must not wait for whoever has the turn.
#[derive(Default)]
pub(crate) struct TurnMarks {
    begun: [AtomicU64; 3],
    passed: [AtomicU64; 3],
}
impl TurnMarks {
    /// The last turns that began.
    pub fn begun(&self) -> LastTurns {
        LastTurns(std::array::from_fn(|k| self.begun[k].load(Relaxed)))
    }
    /// The last turns that are known to have passed.
    pub fn passed(&self) -> LastTurns {
        LastTurns(std::array::from_fn(|k| self.passed[k].load(Relaxed)))
    }
}

/// A stream.
pub(crate) struct CudaStream {
    queue: Queue,
    handle: StreamHandle,
    state: Mutex<StreamState>,
    marks: Arc<TurnMarks>,
    context: Arc<CudaContext>,
}
#[derive(Default)]
struct StreamState {
    /// the number of the last turn, and of the last that has passed
    issued: u64,
    passed: u64,
    pending: VecDeque<(u64, EventHandle)>,
    spare: Vec<EventHandle>,
    shared: SharedBlocks,
}
/// Memory that turns use one after the other: a stream runs them in order.
#[derive(Default)]
pub(crate) struct SharedBlocks {
    pub parameters: Option<DeviceBlock>,
    pub reports: Option<DeviceBlock>,
    pub scratch: Option<DeviceBlock>,
    /// what gates write
    pub gates: Option<DeviceBlock>,
    /// what a library uses beside operands
    pub workspace: Option<DeviceBlock>,
}
/// What a turn waits for.
pub(crate) type Waits = smallvec::SmallVec<[EventHandle; 4]>;

impl CudaStream {
    /// # Errors
    /// As the driver says.
    pub fn new(context: &Arc<CudaContext>, queue: Queue, marks: &Arc<TurnMarks>) -> Result<CudaStream, ErrorKind> {
        let handle = context.call(driver::stream)?;
        Ok(CudaStream { queue, handle, state: Mutex::default(), marks: marks.clone(), context: context.clone() })
    }
    /// Looks which turns have passed.
    pub fn look_at_turns(&self) {
        self.look(&mut self.state.lock());
    }
    /// Has this turn passed?
    pub fn has_passed(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        self.look(&mut state);
        // What a lost device has not done it never will.
        state.passed >= number || self.context.lost().is_some()
    }
    fn look(&self, state: &mut StreamState) {
        while let Some(&(number, event)) = state.pending.front() {
            if !matches!(self.context.call(|| driver::has_passed(event)), Ok(true)) {
                break;
            }
            state.pending.pop_front();
            state.passed = number;
            state.spare.push(event);
        }
        self.marks.passed[self.queue as usize].fetch_max(state.passed, Relaxed);
    }
    /// The driver's event of a turn that may not have passed.
    pub fn event_of(&self, number: u64) -> Option<EventHandle> {
        let state = self.state.lock();
        let at = state.pending.partition_point(|(n, _)| *n < number);
        state.pending.get(at).map(|(_, event)| *event)
    }
    /// The number of the last turn.
    pub fn last(&self) -> Event {
        let issued = self.state.lock().issued;
        if issued == 0 { Event::DONE } else { Event::new(self.queue, issued) }
    }
    /// Waits until a turn has passed.
    ///
    /// # Errors
    /// A lost device.
    pub fn wait(&self, number: u64) -> Result<(), ErrorKind> {
        // It may be another turn's by the time that it is waited for: a later one's.
        if let Some(event) = self.event_of(number) {
            self.context.call(|| driver::wait_until(event))?;
        }
        self.look(&mut self.state.lock());
        self.context.check()
    }
    /// Waits for all turns.
    ///
    /// # Errors
    /// A lost device.
    pub fn synchronize(&self) -> Result<(), ErrorKind> {
        self.context.call(|| driver::synchronize(self.handle))?;
        self.look(&mut self.state.lock());
        Ok(())
    }
    /// Takes the turn, behind these events.
    ///
    /// # Errors
    /// A lost device.
    pub fn turn(&self, behind: &Waits) -> Result<StreamTurn<'_>, ErrorKind> {
        let turn = StreamTurn { stream: self, state: self.state.lock() };
        self.marks.begun[self.queue as usize].fetch_max(turn.state.issued + 1, Relaxed);
        behind.iter().try_for_each(|e| self.context.call(|| driver::wait_for(self.handle, *e)))?;
        Ok(turn)
    }
}
impl Drop for CudaStream {
    fn drop(&mut self) {
        // What still runs runs to its end before anything is given back; of a lost device there is nothing to give.
        let _ = self.context.call(|| driver::synchronize(self.handle));
        self.marks.passed[self.queue as usize].store(u64::MAX, Relaxed);
        let state = self.state.get_mut();
        state.shared = SharedBlocks::default();
        for event in state.spare.drain(..).chain(state.pending.drain(..).map(|(_, e)| e)) {
            let _ = self.context.call(|| driver::destroy_event(event));
        }
        let _ = self.context.call(|| driver::destroy_stream(self.handle));
    }
}
/// The right to issue to a stream.
pub(crate) struct StreamTurn<'s> {
    stream: &'s CudaStream,
    state: MutexGuard<'s, StreamState>,
}
impl StreamTurn<'_> {
    pub fn stream(&self) -> StreamHandle {
        self.stream.handle
    }
    /// The event that the end of this turn will be.
    pub fn event(&self) -> Event {
        Event::new(self.stream.queue, self.state.issued + 1)
    }
    pub fn shared(&mut self) -> &mut SharedBlocks {
        &mut self.state.shared
    }
    /// Makes a call of the driver.
    ///
    /// # Errors
    /// As [`CudaContext::call`].
    pub fn call<T>(&self, f: impl FnOnce(StreamHandle) -> driver::Told<T>) -> Result<T, ErrorKind> {
        self.stream.context.call(|| f(self.stream.handle))
    }
    /// Ends it.
    ///
    /// # Errors
    /// A lost device.
    pub fn end(mut self) -> Result<Event, ErrorKind> {
        self.stream.look(&mut self.state);
        let context = &self.stream.context;
        let event = match self.state.spare.pop() {
            Some(event) => event,
            None => context.call(|| driver::event(false))?,
        };
        context.call(|| driver::record(event, self.stream.handle))?;
        self.state.issued += 1;
        let number = self.state.issued;
        self.state.pending.push_back((number, event));
        Ok(Event::new(self.stream.queue, number))
    }
}
