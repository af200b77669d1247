//! Calls about streams, events and captures.
use crate::driver::code::{Answer, CudaCode};
use crate::driver::entry::calls;
use crate::driver::pointer::{Host, HostCall, OutPointer};
use crate::driver::queue::{StreamWork, WaitGoal};
use crate::driver::state::{CAPTURE_MODE, DriverState, Event, EventRecord, LEGACY, PER_THREAD};
use std::ffi::c_void;

/// A stream that is not ordered with the default stream of old.
const NON_BLOCKING: u32 = 1;
/// An event waits asleep; it keeps no time; it is for several processes.
const BLOCKING_SYNC: u32 = 1;
const NO_TIME: u32 = 2;
const INTERPROCESS: u32 = 4;
/// `CU_EVENT_RECORD_EXTERNAL`, `CU_EVENT_WAIT_EXTERNAL`: a node of its own in a capture.
const EXTERNAL: u32 = 1;

/// A function that a stream calls.
type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;

calls! { exports, CudaCode;
    fn cuStreamCreate(state, stream: OutPointer<u64>, flags: u32) {
        state.create_stream(stream, flags, 0)
    }
    fn cuStreamCreateWithPriority(state, stream: OutPointer<u64>, flags: u32, priority: i32) {
        state.create_stream(stream, flags, priority)
    }
    fn cuStreamDestroy_v2(state, stream: u64) {
        state.current_if_lost()?;
        let known = state.streams.get(&stream).ok_or(CudaCode::INVALID_HANDLE)?;
        let per_thread = state.contexts.values().any(|c| c.per_thread.values().any(|s| *s == stream));
        if known.legacy || per_thread {
            return Err(CudaCode::INVALID_HANDLE);
        }
        state.refuse_capturing_stream(stream)?;
        // It goes when its work is done; the host does not wait for that.
        state.run_until(WaitGoal::Stream(stream));
        state.drop_stream(stream);
        state.current().map(drop)
    }
    fn cuStreamSynchronize(state, stream: u64) {
        let stream = state.asked_stream(stream)?;
        state.wait("cuStreamSynchronize", WaitGoal::Stream(stream))
    }
    fn cuStreamQuery(state, stream: u64) {
        let stream = state.asked_stream(stream)?;
        state.run_a_little();
        state.current()?;
        let done = state.streams.get(&stream).is_none_or(|s| s.work.is_empty() && s.time <= state.clock.host);
        if done { state.finish(WaitGoal::Stream(stream)) } else { Err(CudaCode::NOT_READY) }
    }
    fn cuStreamWaitEvent(state, stream: u64, event: u64, flags: u32) {
        let stream = state.stream(stream)?;
        state.event(event)?;
        if flags & !EXTERNAL != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        if flags & EXTERNAL != 0 {
            return Err(CudaCode::NOT_SUPPORTED);
        }
        state.wait_event(stream, event)
    }
    fn cuStreamGetPriority(state, stream: u64, priority: OutPointer<i32>) {
        let stream = state.stream(stream)?;
        priority.set(state.streams.get(&stream).map_or(0, |s| s.priority))
    }
    fn cuStreamGetFlags(state, stream: u64, flags: OutPointer<u32>) {
        let stream = state.stream(stream)?;
        flags.set(state.streams.get(&stream).map_or(0, |s| s.flags))
    }
    fn cuStreamGetCtx(state, stream: u64, context: OutPointer<u64>) {
        let stream = state.stream(stream)?;
        context.set(state.streams.get(&stream).map_or(0, |s| s.context))
    }
    fn cuStreamGetId(state, stream: u64, id: OutPointer<u64>) {
        let stream = state.stream(stream)?;
        id.set(stream)
    }
    fn cuStreamBeginCapture_v2(state, stream: u64, mode: u32) {
        if matches!(stream, 0 | LEGACY) {
            state.current()?;
            return Err(CudaCode::STREAM_CAPTURE_UNSUPPORTED);
        }
        let stream = state.stream(stream)?;
        state.begin_capture(stream, mode)
    }
    fn cuStreamEndCapture(state, stream: u64, graph: OutPointer<u64>) {
        graph.needed()?;
        let stream = state.stream(stream)?;
        graph.set(0)?;
        graph.set(state.end_capture(stream)?)
    }
    fn cuStreamIsCapturing(state, stream: u64, status: OutPointer<u32>) {
        let legacy = matches!(stream, 0 | LEGACY);
        let stream = state.stream(stream)?;
        if legacy {
            let context = state.current()?;
            let blocked = state.streams.values().any(|s| s.context == context && s.blocking() && s.capture.is_some());
            if blocked {
                return Err(CudaCode::STREAM_CAPTURE_IMPLICIT);
            }
        }
        status.set(state.capture_status(stream))
    }
    fn cuStreamGetCaptureInfo_v3(state, stream: u64, status: OutPointer<u32>, id: OutPointer<u64>, graph: OutPointer<u64>, nodes: OutPointer<u64>, edges: OutPointer<u64>, count: OutPointer<usize>) {
        edges.set_if_asked(0);
        state.capture_info(stream, status, id, graph, nodes, count)
    }
    fn cuThreadExchangeStreamCaptureMode(state, mode: OutPointer<u32>) {
        state.always()?;
        let new = mode.get()?;
        if new > 2 {
            return Err(CudaCode::INVALID_VALUE);
        }
        mode.set(CAPTURE_MODE.replace(new))
    }
    fn cuLaunchHostFunc(state, stream: u64, function: HostFunction, word: Host) {
        let stream = state.stream(stream)?;
        let function = function.ok_or(CudaCode::INVALID_VALUE)?;
        state.enqueue(stream, StreamWork::Call(HostCall { function, word }))
    }
    fn cuEventCreate(state, event: OutPointer<u64>, flags: u32) {
        event.needed()?;
        let context = state.current()?;
        let known = flags & !(BLOCKING_SYNC | NO_TIME | INTERPROCESS) == 0;
        if !known || flags & INTERPROCESS != 0 && flags & NO_TIME == 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        let handle = state.handle();
        state.events.insert(handle, Event { context, flags, recorded: EventRecord::Never });
        event.set(handle)
    }
    fn cuEventDestroy_v2(state, event: u64) {
        state.current_if_lost()?;
        state.events.remove(&event).ok_or(CudaCode::INVALID_HANDLE)?;
        state.current().map(drop)
    }
    fn cuEventRecord(state, event: u64, stream: u64) {
        state.event(event)?;
        let stream = state.stream(stream)?;
        state.record(event, stream)
    }
    fn cuEventRecordWithFlags(state, event: u64, stream: u64, flags: u32) {
        if flags & !EXTERNAL != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        if flags & EXTERNAL != 0 {
            return Err(CudaCode::NOT_SUPPORTED);
        }
        state.event(event)?;
        let stream = state.stream(stream)?;
        state.record(event, stream)
    }
    fn cuEventQuery(state, event: u64) {
        let task = state.asked_event(event)?;
        state.run_a_little();
        state.current()?;
        if task.is_some_and(|t| state.pending.contains(&t)) || state.is_yet_to_be(event) {
            return Err(CudaCode::NOT_READY);
        }
        state.after_event(event);
        Ok(())
    }
    fn cuEventSynchronize(state, event: u64) {
        let task = state.asked_event(event)?;
        if let Some(task) = task {
            state.wait("cuEventSynchronize", WaitGoal::Task(task))?;
        }
        state.after_event(event);
        Ok(())
    }
    fn cuEventElapsedTime_v2(state, milliseconds: OutPointer<f32>, start: u64, end: u64) {
        state.elapsed(milliseconds, start, end)
    }
}

impl DriverState {
    fn create_stream(&mut self, stream: OutPointer<u64>, flags: u32, priority: i32) -> Answer {
        stream.needed()?;
        let context = self.current()?;
        if flags & !NON_BLOCKING != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        // Numbers beyond the range count as its nearest end.
        let priority = priority.clamp(super::context::GREATEST_PRIORITY, super::context::LEAST_PRIORITY);
        let made = self.new_stream(context, flags, priority, false);
        stream.set(made)
    }
    /// A stream that somebody asks or waits for.
    fn asked_stream(&mut self, handle: u64) -> Answer<u64> {
        let context = self.current()?;
        let stream = self.stream(handle)?;
        if matches!(handle, 0 | LEGACY) {
            self.refuse_legacy(context)?;
        }
        debug_assert!(handle != PER_THREAD || stream != handle);
        self.refuse_capturing_stream(stream)?;
        self.refuse_while_capturing()?;
        Ok(stream)
    }
    /// The work that an event stands for, for somebody who asks or waits.
    fn asked_event(&mut self, handle: u64) -> Answer<Option<u64>> {
        let recorded = self.event(handle)?.recorded.clone();
        self.refuse_while_capturing()?;
        match recorded {
            EventRecord::Never => Ok(None),
            EventRecord::Work { task, .. } => Ok(Some(task)),
            EventRecord::Captured { .. } => Err(CudaCode::CAPTURED_EVENT),
        }
    }
    /// Was the work that an event stands for run ahead of the host's time? Who only asks does not come to that time by asking.
    fn is_yet_to_be(&self, handle: u64) -> bool {
        matches!(self.events.get(&handle).map(|e| &e.recorded), Some(EventRecord::Work { at: Some(at), .. }) if *at > self.clock.host)
    }
    /// The host knows now that what an event stands for is done.
    fn after_event(&mut self, handle: u64) {
        if let Some(EventRecord::Work { at, clock, .. }) = self.events.get(&handle).map(|e| &e.recorded) {
            self.host_clock.join(clock);
            self.clock.waited(at.unwrap_or(0.0));
        }
    }
    fn elapsed(&mut self, milliseconds: OutPointer<f32>, start: u64, end: u64) -> Answer {
        milliseconds.needed()?;
        let time = |state: &DriverState, handle: u64| {
            let event = state.event(handle)?;
            match &event.recorded {
                _ if event.flags & NO_TIME != 0 => Err(CudaCode::INVALID_HANDLE),
                EventRecord::Never => Err(CudaCode::INVALID_HANDLE),
                EventRecord::Captured { .. } => Err(CudaCode::CAPTURED_EVENT),
                EventRecord::Work { at, .. } => at.ok_or(CudaCode::NOT_READY),
            }
        };
        let (start, end) = (time(self, start)?, time(self, end)?);
        milliseconds.set(((end - start) / 1e6) as f32)
    }
    /// `CUstreamCaptureStatus` of a stream.
    fn capture_status(&self, stream: u64) -> u32 {
        let capture = self.streams.get(&stream).and_then(|s| s.capture);
        match capture.map(|c| self.captures.get(&c).is_some_and(|c| !c.invalid)) {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        }
    }
    fn capture_info(
        &mut self,
        stream: u64,
        status: OutPointer<u32>,
        id: OutPointer<u64>,
        graph: OutPointer<u64>,
        nodes: OutPointer<u64>,
        count: OutPointer<usize>,
    ) -> Answer {
        let stream = self.stream(stream)?;
        status.set(self.capture_status(stream))?;
        id.set_if_asked(self.streams.get(&stream).and_then(|s| s.capture).unwrap_or(0));
        // A graph under way and its nodes have no handles here.
        graph.set_if_asked(0);
        nodes.set_if_asked(0);
        count.set_if_asked(0);
        Ok(())
    }
}
