//! Captures: streams whose work becomes a graph's nodes instead of being done, and what nobody may do meanwhile.
//!
//! The rules are those of `cuStreamBeginCapture` and of the section "CUDA Graphs" of NVIDIA's programming guide. What is
//! refused makes the capture invalid, too: its end tells so once more.
use super::code::{Answer, CudaCode};
use super::graph::{Graph, GraphNode};
use super::queue::StreamWork;
use super::state::{CAPTURE_MODE, DriverState, EventRecord, this_thread};
use std::collections::HashMap;

/// Nobody may do what could break a capture; only this thread may not; everybody may.
const GLOBAL: u32 = 0;
const THREAD: u32 = 1;
pub(crate) const RELAXED: u32 = 2;

/// A capture under way.
pub(crate) struct Capture {
    pub context: u64,
    pub origin: u64,
    pub mode: u32,
    pub thread: u64,
    pub invalid: bool,
    pub nodes: Vec<GraphNode>,
    /// For each of its streams the nodes that what comes next comes after.
    pub fronts: HashMap<u64, Vec<usize>>,
}

impl DriverState {
    /// A stream begins to capture.
    pub fn begin_capture(&mut self, stream: u64, mode: u32) -> Answer {
        if mode > RELAXED {
            return Err(CudaCode::INVALID_VALUE);
        }
        let this = self.streams.get(&stream).ok_or(CudaCode::INVALID_HANDLE)?;
        if this.legacy {
            return Err(CudaCode::STREAM_CAPTURE_UNSUPPORTED);
        }
        if this.capture.is_some() {
            return Err(CudaCode::ILLEGAL_STATE);
        }
        let context = this.context;
        let number = self.handle();
        let fronts = HashMap::from([(stream, Vec::new())]);
        self.captures.insert(number, Capture { context, origin: stream, mode, thread: this_thread(), invalid: false, nodes: Vec::new(), fronts });
        if let Some(this) = self.streams.get_mut(&stream) {
            this.capture = Some(number);
        }
        Ok(())
    }
    /// A stream's capture ends and becomes a graph.
    pub fn end_capture(&mut self, stream: u64) -> Answer<u64> {
        let number = self.streams.get(&stream).and_then(|s| s.capture).ok_or(CudaCode::ILLEGAL_STATE)?;
        let capture = self.captures.get_mut(&number).ok_or(CudaCode::ILLEGAL_STATE)?;
        if capture.origin != stream {
            capture.invalid = true;
            return Err(CudaCode::STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != RELAXED && capture.thread != this_thread() {
            return Err(CudaCode::STREAM_CAPTURE_WRONG_THREAD);
        }
        for stream in self.streams.values_mut().filter(|s| s.capture == Some(number)) {
            stream.capture = None;
        }
        let capture = self.captures.remove(&number).ok_or(CudaCode::ILLEGAL_STATE)?;
        if capture.invalid {
            return Err(CudaCode::STREAM_CAPTURE_INVALIDATED);
        }
        // All that other streams did must come before where the first one is.
        let mut joined = vec![false; capture.nodes.len()];
        let mut open: Vec<usize> = capture.fronts.get(&stream).cloned().unwrap_or_default();
        while let Some(node) = open.pop() {
            if let Some(seen) = joined.get_mut(node).filter(|seen| !**seen) {
                *seen = true;
                open.extend(capture.nodes.get(node).into_iter().flat_map(|n| &n.after));
            }
        }
        if joined.contains(&false) {
            return Err(CudaCode::STREAM_CAPTURE_UNJOINED);
        }
        Ok(self.keep_graph(Graph { nodes: capture.nodes, handles: Vec::new() }))
    }
    /// Work of a stream that captures: a node.
    pub fn capture_node(&mut self, stream: u64, capture: u64, work: StreamWork) -> Answer {
        let capture = self.captures.get_mut(&capture).ok_or(CudaCode::STREAM_CAPTURE_INVALIDATED)?;
        if capture.invalid {
            return Err(CudaCode::STREAM_CAPTURE_INVALIDATED);
        }
        if matches!(work, StreamWork::Free(_) | StreamWork::Graph(_)) {
            capture.invalid = true;
            return Err(CudaCode::STREAM_CAPTURE_UNSUPPORTED);
        }
        let front = capture.fronts.entry(stream).or_default();
        let node = capture.nodes.len();
        capture.nodes.push(GraphNode { work, after: std::mem::replace(front, vec![node]) });
        Ok(())
    }
    /// An event is recorded: in a capture it stands for nodes.
    pub fn record(&mut self, event: u64, stream: u64) -> Answer {
        let Some(number) = self.streams.get(&stream).and_then(|s| s.capture) else {
            return self.enqueue(stream, StreamWork::Record(event));
        };
        let capture = self.captures.get(&number).filter(|c| !c.invalid).ok_or(CudaCode::STREAM_CAPTURE_INVALIDATED)?;
        let nodes = capture.fronts.get(&stream).cloned().unwrap_or_default();
        if let Some(event) = self.events.get_mut(&event) {
            event.recorded = EventRecord::Captured { capture: number, nodes };
        }
        Ok(())
    }
    /// A stream waits for an event; so it may come into a capture.
    pub fn wait_event(&mut self, stream: u64, event: u64) -> Answer {
        let capturing = self.streams.get(&stream).and_then(|s| s.capture);
        if let Some(capture) = capturing {
            self.captures.get(&capture).filter(|c| !c.invalid).ok_or(CudaCode::STREAM_CAPTURE_INVALIDATED)?;
        }
        let recorded = self.events.get(&event).map(|e| e.recorded.clone()).ok_or(CudaCode::INVALID_HANDLE)?;
        match (recorded, capturing) {
            (EventRecord::Never, _) => Ok(()),
            (EventRecord::Work { task, at, clock }, None) => self.enqueue_after(stream, StreamWork::Nothing, &[task], Some((&clock, at.unwrap_or(0.0)))),
            (EventRecord::Work { .. }, Some(capture)) => {
                self.invalidate(capture);
                Err(CudaCode::STREAM_CAPTURE_ISOLATION)
            }
            (EventRecord::Captured { capture, nodes }, own) => {
                let Some(into) = self.captures.get_mut(&capture) else {
                    return Err(CudaCode::CAPTURED_EVENT);
                };
                if own.is_some_and(|own| own != capture) {
                    into.invalid = true;
                    own.into_iter().for_each(|own| self.invalidate(own));
                    return Err(CudaCode::STREAM_CAPTURE_MERGE);
                }
                if into.invalid {
                    return Err(CudaCode::STREAM_CAPTURE_INVALIDATED);
                }
                let this = self.streams.get_mut(&stream).ok_or(CudaCode::INVALID_HANDLE)?;
                if this.legacy {
                    into.invalid = true;
                    return Err(CudaCode::STREAM_CAPTURE_IMPLICIT);
                }
                this.capture = Some(capture);
                let front = into.fronts.entry(stream).or_default();
                front.extend(nodes);
                front.sort_unstable();
                front.dedup();
                Ok(())
            }
        }
    }
    fn invalidate(&mut self, capture: u64) {
        if let Some(capture) = self.captures.get_mut(&capture) {
            capture.invalid = true;
        }
    }
    /// The default stream of old would wait for streams that capture.
    pub fn refuse_legacy(&mut self, context: u64) -> Answer {
        let blocked: Vec<u64> = self.streams.values().filter(|s| s.context == context && s.blocking()).filter_map(|s| s.capture).collect();
        for capture in &blocked {
            self.invalidate(*capture);
        }
        if blocked.is_empty() { Ok(()) } else { Err(CudaCode::STREAM_CAPTURE_IMPLICIT) }
    }
    /// A call that could break a capture is refused while one is under way that forbids it.
    pub fn refuse_while_capturing(&mut self) -> Answer {
        let mode = CAPTURE_MODE.get();
        if self.captures.is_empty() || mode == RELAXED {
            return Ok(());
        }
        let me = this_thread();
        let mut refused = false;
        for capture in self.captures.values_mut() {
            let forbids = match capture.mode {
                GLOBAL => capture.thread == me || mode == GLOBAL,
                THREAD => capture.thread == me,
                _ => false,
            };
            capture.invalid |= forbids;
            refused |= forbids;
        }
        if refused { Err(CudaCode::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }
    /// A stream that captures can be neither asked nor waited for.
    pub fn refuse_capturing_stream(&mut self, stream: u64) -> Answer {
        let Some(capture) = self.streams.get(&stream).and_then(|s| s.capture) else { return Ok(()) };
        self.invalidate(capture);
        Err(CudaCode::STREAM_CAPTURE_UNSUPPORTED)
    }
    /// Nor can a context in which a stream captures.
    pub fn refuse_capturing_context(&mut self, context: u64) -> Answer {
        let here: Vec<u64> = self.captures.iter().filter(|(_, c)| c.context == context).map(|(number, _)| *number).collect();
        for capture in &here {
            self.invalidate(*capture);
        }
        if here.is_empty() { Ok(()) } else { Err(CudaCode::STREAM_CAPTURE_UNSUPPORTED) }
    }
}
