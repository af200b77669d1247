//! Streams as queues: nothing runs until somebody waits; then what is ready runs, in an order drawn from the seed.
//!
//! Work waits for what its stream holds before it, for the events its stream was told to wait for, and by the rules of the
//! default stream of old. Everything else may run in any order, and some seeds let one stream run far ahead.
use super::code::{Answer, CudaCode};
use super::copies::{CopyWork, FillWork};
use super::graph::Program;
use super::kernels::KernelLaunch;
use super::order::VectorClock;
use super::pointer::HostCall;
use super::state::{DriverState, EventRecord};
use crate::library::EmulatedProduct;
use std::sync::Arc;

/// What a stream does.
#[derive(Clone)]
pub(crate) enum StreamWork {
    Launch(Arc<KernelLaunch>),
    Copy(Arc<CopyWork>),
    Fill(Arc<FillWork>),
    /// A product of cuBLASLt's.
    Product(Arc<EmulatedProduct>),
    /// A function of the host's.
    Call(HostCall),
    Record(u64),
    /// A graph's launch.
    Graph(Arc<Program>),
    /// An allocation ends.
    Free(u64),
    /// Only what it waits for counts.
    Nothing,
}
/// Work in a stream.
pub(crate) struct StreamTask {
    pub number: u64,
    pub work: StreamWork,
    /// Work of other streams that comes before.
    pub after: Vec<u64>,
    pub clock: Arc<VectorClock>,
    /// Its number within its stream.
    pub place: u64,
    /// It cannot begin earlier, ns.
    pub ready: f64,
    /// What locked memory held that it copies from, node by node, and how much work had run then.
    pub staged: Vec<(usize, u64)>,
    pub asked: u64,
}
/// What somebody waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WaitGoal {
    Stream(u64),
    Task(u64),
    Context(u64),
}

impl DriverState {
    /// Puts work into a stream, or into the graph that the stream captures.
    pub fn enqueue(&mut self, stream: u64, work: StreamWork) -> Answer {
        self.enqueue_after(stream, work, &[], None)
    }
    /// The same, for work that comes after work of other streams, too; `known` is what is known to come before that.
    pub fn enqueue_after(&mut self, stream: u64, work: StreamWork, after: &[u64], known: Option<(&VectorClock, f64)>) -> Answer {
        let this = self.streams.get(&stream).ok_or(CudaCode::INVALID_HANDLE)?;
        if let Some(capture) = this.capture {
            return self.capture_node(stream, capture, work);
        }
        let (context, legacy, blocking) = (this.context, this.legacy, this.blocking());
        if legacy {
            self.refuse_legacy(context)?;
        }
        if self.options.null && matches!(work, StreamWork::Launch(_) | StreamWork::Product(_)) {
            return Ok(());
        }
        let mut after: Vec<u64> = after.iter().copied().filter(|t| self.pending.contains(t)).collect();
        let mut ready = self.clock.host;
        let mut clock = self.host_clock.clone();
        if let Some((before, at)) = known {
            clock.join(before);
            ready = ready.max(at);
        }
        for other in self.streams.values() {
            if other.context == context && (legacy && other.blocking() || blocking && other.legacy) {
                after.extend(other.last.filter(|t| self.pending.contains(t)));
                ready = ready.max(other.time);
                clock.join(&other.clock);
            }
        }
        let (staged, asked) = (self.staged(&work), self.performed);
        let number = self.task_number();
        let Some(this) = self.streams.get_mut(&stream) else { return Err(CudaCode::INVALID_HANDLE) };
        this.clock.join(&clock);
        let place = this.clock.advance(stream);
        if let StreamWork::Record(event) = work {
            let clock = this.clock.clone();
            if let Some(event) = self.events.get_mut(&event) {
                event.recorded = EventRecord::Work { task: number, at: None, clock };
            }
        }
        this.last = Some(number);
        this.work.push_back(StreamTask { number, work, after, clock: Arc::new(this.clock.clone()), place, ready, staged, asked });
        self.pending.insert(number);
        Ok(())
    }

    /// Is what somebody waits for done?
    fn is_done(&self, goal: WaitGoal) -> bool {
        match goal {
            WaitGoal::Stream(stream) => self.streams.get(&stream).is_none_or(|s| s.work.is_empty()),
            WaitGoal::Task(task) => !self.pending.contains(&task),
            WaitGoal::Context(context) => self.streams.values().all(|s| s.context != context || s.work.is_empty()),
        }
    }
    /// Runs work until the goal is met.
    pub fn run_until(&mut self, goal: WaitGoal) {
        if self.is_done(goal) {
            return;
        }
        // Half of the time one stream after the other, as far as it goes: what lacks an event meets the worst order soon.
        let greedy = self.random.below(2) == 0;
        let mut order: Vec<u64> = self.streams.keys().copied().collect();
        for k in (1..order.len()).rev() {
            order.swap(k, self.random.below(k + 1));
        }
        while !self.is_done(goal) && self.step(greedy.then_some(order.as_slice())) {}
    }
    /// Runs a little, as time passes while somebody asks.
    pub fn run_a_little(&mut self) {
        for _ in 0..self.random.below(4) {
            self.step(None);
        }
    }
    /// Runs one piece of work that is ready: of the first stream of `order` that has one, or of any. False where there is none.
    fn step(&mut self, order: Option<&[u64]>) -> bool {
        let is_ready = |state: &DriverState, stream: u64| {
            let front = state.streams.get(&stream).and_then(|s| s.work.front());
            front.is_some_and(|t| t.after.iter().all(|a| !state.pending.contains(a)))
        };
        let chosen = match order {
            Some(order) => order.iter().copied().find(|s| is_ready(self, *s)),
            None => {
                let ready: Vec<u64> = self.streams.keys().copied().filter(|s| is_ready(self, *s)).collect();
                ready.get(self.random.below(ready.len())).copied()
            }
        };
        let Some(stream) = chosen else { return false };
        let Some(this) = self.streams.get_mut(&stream) else { return false };
        let Some(task) = this.work.pop_front() else { return false };
        let context = this.context;
        let ready = task.after.iter().filter_map(|t| self.ends.get(t)).fold(task.ready.max(this.time), |a, b| a.max(*b));
        self.performed += 1;
        let ended = self.perform(stream, &task, ready);
        self.pending.remove(&task.number);
        match ended {
            Ok(end) => {
                self.ends.insert(task.number, end);
                if let Some(this) = self.streams.get_mut(&stream) {
                    this.time = end;
                }
            }
            Err(code) => self.lose(context, code),
        }
        if self.pending.is_empty() {
            self.ends.clear();
            self.written_by_device.clear();
        }
        true
    }
    /// From now on the context answers this; what its streams hold is never run.
    pub fn lose(&mut self, context: u64, code: CudaCode) {
        let Some(lost) = self.contexts.get_mut(&context) else { return };
        lost.lost.get_or_insert(code);
        for stream in self.streams.values_mut().filter(|s| s.context == context) {
            for task in stream.work.drain(..) {
                self.pending.remove(&task.number);
            }
        }
    }

    /// The host waits: runs what is waited for, and what the host asks for next comes after it.
    pub fn wait(&mut self, call: &'static str, goal: WaitGoal) -> Answer {
        self.waits(call);
        self.finish(goal)
    }
    /// As `wait`, where the host's waiting is not what the call is for.
    pub fn finish(&mut self, goal: WaitGoal) -> Answer {
        self.run_until(goal);
        let waited = |context: u64, stream: u64| match goal {
            WaitGoal::Stream(s) => s == stream,
            WaitGoal::Context(c) => c == context,
            WaitGoal::Task(_) => false,
        };
        for (handle, stream) in self.streams.iter().filter(|(h, s)| waited(s.context, **h)) {
            self.host_clock.join(&stream.clock);
            // A stream that ran ahead of what was waited for has not been waited for; its clock is that of what was put in.
            if stream.work.is_empty() && (matches!(goal, WaitGoal::Stream(s) if s == *handle) || !matches!(goal, WaitGoal::Stream(_))) {
                self.clock.waited(stream.time);
            }
        }
        if self.pending.is_empty() && matches!(goal, WaitGoal::Context(_)) {
            for device in &mut self.devices {
                device.accesses.clear();
            }
        }
        if self.pending.is_empty() {
            self.log.forget(&self.host_clock);
        }
        match self.contexts.get(&self.current_if_lost()?).and_then(|c| c.lost) {
            Some(code) => Err(code),
            None => Ok(()),
        }
    }
}
