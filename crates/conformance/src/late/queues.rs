//! The queues of the late device: a thread each, which does what it is handed in order, behind the events, and after a delay
//! that the seed draws. What is handed over is checked at once: whether the events order it behind every use of the same memory
//! that it must come behind. Must not know what the work is.
use crate::random::Random;
use adamant_core::{
    ErrorKind,
    backend::{Event, Queue},
};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak, mpsc},
    thread,
    time::Duration,
};

/// How far each queue is.
type Clock = [u64; 3];
fn merge(clock: &mut Clock, other: &Clock) {
    clock.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}
fn is_behind(clock: &Clock, event: Event) -> bool {
    event.is_done() || clock[event.queue() as usize] >= event.number()
}

/// The uses of some memory that later uses must come behind.
#[derive(Default)]
pub struct LateAccess(Mutex<Last>);
#[derive(Default)]
struct Last {
    written: Event,
    /// by queue
    used: [u64; 3],
    is_freed: bool,
    /// what the last use was
    what: &'static str,
}
/// What a piece of work does with some memory.
pub struct MemoryUse<'a> {
    pub access: &'a LateAccess,
    pub write: bool,
}
impl<'a> MemoryUse<'a> {
    pub fn read(access: &'a LateAccess) -> MemoryUse<'a> {
        MemoryUse { access, write: false }
    }
    pub fn write(access: &'a LateAccess) -> MemoryUse<'a> {
        MemoryUse { access, write: true }
    }
}

struct Job {
    number: u64,
    after: Vec<Event>,
    run: Box<dyn FnOnce() -> Result<(), ErrorKind> + Send>,
}
pub struct Queues {
    state: Mutex<QueuesState>,
    passed: Condvar,
}
#[derive(Default)]
struct QueuesState {
    lines: [QueueLine; 3],
    /// what the host has waited for
    host: Clock,
    misuse: Vec<String>,
    failure: Option<ErrorKind>,
}
#[derive(Default)]
struct QueueLine {
    jobs: Option<mpsc::Sender<Job>>,
    issued: u64,
    done: u64,
    /// of the jobs that the host has not waited for, the first of which is number `first`
    clocks: VecDeque<Clock>,
    first: u64,
}
impl QueueLine {
    fn last(&self) -> Clock {
        self.clocks.back().copied().unwrap_or_default()
    }
    fn clock(&self, number: u64) -> Option<&Clock> {
        self.clocks.get(number.checked_sub(self.first)? as usize)
    }
}

impl Queues {
    /// Three threads.
    pub fn start(seed: Random) -> Arc<Queues> {
        let queues = Arc::new(Queues { state: Mutex::default(), passed: Condvar::new() });
        for queue in Queue::ALL {
            let (send, receive) = mpsc::channel();
            let line = &mut queues.state.lock().lines[queue as usize];
            (line.jobs, line.first) = (Some(send), 1);
            let (own, random) = (Arc::downgrade(&queues), seed.part(queue as u64));
            thread::spawn(move || work(&own, queue, random, &receive));
        }
        queues
    }
    /// Hands work over to a queue.
    ///
    /// # Errors
    /// The device failed before; uses that the events do not order.
    pub fn hand_over(
        &self,
        queue: Queue,
        after: &[Event],
        what: &'static str,
        uses: &[MemoryUse<'_>],
        run: impl FnOnce() -> Result<(), ErrorKind> + Send + 'static,
    ) -> Result<Event, ErrorKind> {
        let mut state = self.state.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let number = state.lines[queue as usize].issued + 1;
        let event = Event::new(queue, number);
        let mut clock = state.lines[queue as usize].last();
        merge(&mut clock, &state.host);
        for &e in after.iter().filter(|e| !e.is_done()) {
            if e.number() > state.lines[e.queue() as usize].issued {
                return Err(state.misused(format!("{what} waits for work {} of {:?}, which was never handed over", e.number(), e.queue())));
            }
            // What the host has waited for is in its own clock.
            if let Some(other) = state.lines[e.queue() as usize].clock(e.number()).copied() {
                merge(&mut clock, &other);
            }
        }
        clock[queue as usize] = number;
        for u in uses {
            if let Err(why) = u.check(&clock, what) {
                return Err(state.misused(why));
            }
        }
        uses.iter().for_each(|u| u.note(event, what));
        let line = &mut state.lines[queue as usize];
        line.issued = number;
        line.clocks.push_back(clock);
        let gone = || ErrorKind::Internal("a queue's thread is gone".into());
        line.jobs.as_ref().ok_or_else(gone)?.send(Job { number, after: after.to_vec(), run: Box::new(run) }).map_err(|_| gone())?;
        Ok(event)
    }
    /// Has it passed?
    pub fn is_done(&self, event: Event) -> bool {
        self.state.lock().has_passed(event)
    }
    /// Waits until it has.
    ///
    /// # Errors
    /// What failed on the device.
    pub fn wait(&self, event: Event) -> Result<(), ErrorKind> {
        let mut state = self.state.lock();
        if !event.is_done() && event.number() > state.lines[event.queue() as usize].issued {
            return Err(state.misused("somebody waits for work that was never handed over".into()));
        }
        while !state.has_passed(event) {
            self.passed.wait(&mut state);
        }
        state.waited(event);
        state.failure.clone().map_or(Ok(()), Err)
    }
    /// The last work of each queue.
    pub fn all_issued(&self) -> Vec<Event> {
        let state = self.state.lock();
        Queue::ALL.into_iter().filter(|q| state.lines[*q as usize].issued > 0).map(|q| Event::new(q, state.lines[q as usize].issued)).collect()
    }
    /// What was done that may not be done.
    pub fn misuse(&self) -> Vec<String> {
        self.state.lock().misuse.clone()
    }
    /// Memory is let go of.
    pub fn freed(&self, access: &LateAccess) {
        let mut state = self.state.lock();
        let mut last = access.0.lock();
        last.is_freed = true;
        let in_use = Queue::ALL.into_iter().find(|q| last.used[*q as usize] > state.lines[*q as usize].done);
        if let Some(queue) = in_use {
            let why = format!("memory was freed before {} of {queue:?} was done with it ({})", last.used[queue as usize], last.what);
            drop(last);
            state.misused(why);
        }
    }
}
impl MemoryUse<'_> {
    fn check(&self, clock: &Clock, what: &str) -> Result<(), String> {
        let last = self.access.0.lock();
        if last.is_freed {
            return Err(format!("{what} uses memory that was freed"));
        }
        if !is_behind(clock, last.written) {
            let verb = if self.write { "writes" } else { "reads" };
            return Err(format!("{what} {verb} memory before {:?} {} has written it ({})", last.written.queue(), last.written.number(), last.what));
        }
        let used = Queue::ALL.into_iter().map(|q| Event::new(q, last.used[q as usize])).find(|e| e.number() > 0 && !is_behind(clock, *e));
        match used.filter(|_| self.write) {
            Some(e) => Err(format!("{what} writes memory before {:?} {} is done with it ({})", e.queue(), e.number(), last.what)),
            None => Ok(()),
        }
    }
    fn note(&self, event: Event, what: &'static str) {
        let mut last = self.access.0.lock();
        last.used[event.queue() as usize] = event.number();
        last.what = what;
        if self.write {
            last.written = event;
        }
    }
}
impl QueuesState {
    fn has_passed(&self, event: Event) -> bool {
        event.is_done() || self.lines[event.queue() as usize].done >= event.number()
    }
    fn misused(&mut self, why: String) -> ErrorKind {
        let kind = ErrorKind::Internal(format!("misuse of a late device: {why}"));
        self.misuse.push(why);
        self.failure.get_or_insert_with(|| kind.clone());
        kind
    }
    /// The host knows that this, and all that it came behind, is done.
    fn waited(&mut self, event: Event) {
        if event.is_done() {
            return;
        }
        if let Some(clock) = self.lines[event.queue() as usize].clock(event.number()).copied() {
            merge(&mut self.host, &clock);
        }
        for (line, known) in self.lines.iter_mut().zip(self.host) {
            // The last one stays: what comes next comes behind it.
            while line.first < known && line.clocks.len() > 1 {
                line.clocks.pop_front();
                line.first += 1;
            }
        }
    }
}

/// The longest delay.
const LONGEST: u64 = 200;
fn work(queues: &Weak<Queues>, queue: Queue, mut random: Random, jobs: &mpsc::Receiver<Job>) {
    while let Ok(Job { number, after, run }) = jobs.recv() {
        let Some(queues) = queues.upgrade() else { return };
        {
            let mut state = queues.state.lock();
            while !after.iter().all(|event| state.has_passed(*event)) {
                queues.passed.wait(&mut state);
            }
        }
        // Most come at once, so that a late one meets others that are not.
        if random.one_in(12) {
            thread::sleep(Duration::from_micros(random.bits() % LONGEST));
        }
        let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(ErrorKind::Internal("a kernel panicked".into())));
        let mut state = queues.state.lock();
        state.lines[queue as usize].done = number;
        if let Err(kind) = result {
            state.failure.get_or_insert(kind);
        }
        queues.passed.notify_all();
    }
}
