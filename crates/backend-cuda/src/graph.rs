//! Frozen steps as a graph of CUDA's: one launch of the driver's for all kernels of a plan, over parameters, scratch and flags of
//! its own. What changes from run to run lies beside it: the arguments are patched into the parameters, which are copied again
//! where one differs; bytes that come from elsewhere are copied before it, and those that outlive it behind it. Fault words are
//! the graph's too: they are cleared before each run, and what was reported is copied to words that are nobody else's.
use crate::{
    driver,
    launch::{FrozenLaunches, Launches},
    memory::ours,
    opened::Opened,
    words::CudaWords,
};
use adamant_kernels::{argument_words, skeleton::gate::NOTHING};
use adamant_runtime::{
    ErrorKind,
    backend::{Event, FrozenRun, FrozenSteps, MemoryCopy, Queue, Words},
};
use parking_lot::Mutex;
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// Steps as a graph.
pub(crate) struct CudaGraph {
    opened: Arc<Opened>,
    launches: FrozenLaunches,
    words: Option<CudaWords>,
    state: Mutex<GraphState>,
}
struct GraphState {
    parameters: Vec<u32>,
    /// are they on the device as they are here?
    is_placed: bool,
    /// the last run
    event: Event,
}
impl CudaGraph {
    pub fn new(opened: &Arc<Opened>, mut launches: FrozenLaunches, words: Option<CudaWords>) -> CudaGraph {
        opened.counts.graphs.fetch_add(1, Relaxed);
        let parameters = std::mem::take(&mut launches.parameters);
        let is_placed = parameters.is_empty();
        let state = Mutex::new(GraphState { parameters, is_placed, event: Event::DONE });
        CudaGraph { opened: opened.clone(), launches, words, state }
    }
    /// Clears the words, and takes over what earlier runs raised.
    fn clear(&self, words: &CudaWords, run: &FrozenRun<'_>, after: &[Event]) -> Result<(), ErrorKind> {
        let turn = self.opened.queue(Queue::Compute).turn(&self.opened.behind(Queue::Compute, after))?;
        turn.call(|s| driver::fill(words.address(), NOTHING, words.bytes() / 4, s))?;
        turn.end()?;
        let mut launches = Launches::new(&self.opened);
        for i in run.inherited {
            launches.inherit(words, i.number, &CudaWords::of(i.from)?, &i.of)?;
        }
        launches.run(Queue::Compute, after).map(drop)
    }
}
impl FrozenSteps for CudaGraph {
    fn run(&self, run: &FrozenRun<'_>, after: &[Event]) -> Result<(Event, Option<Arc<dyn Words>>), ErrorKind> {
        let opened = &self.opened;
        opened.context.check()?;
        let mut state = self.state.lock();
        for &(word, number, dtype) in &self.launches.arguments {
            let value = *run.args.get(number).ok_or_else(|| crate::opened::internal("fewer arguments than frozen steps have"))?;
            let words = argument_words(value, dtype);
            if let Some(place) = state.parameters.get_mut(word..word + words.len())
                && *place != words
            {
                place.copy_from_slice(&words);
                state.is_placed = false;
            }
        }
        if let Some(words) = self.words.as_ref().filter(|_| !run.inherited.is_empty()) {
            self.clear(words, run, after)?;
        }
        let told = self.words.as_ref().map(CudaWords::another).transpose()?;
        let mut behind = after.to_vec();
        behind.extend(told.as_ref().map(|(_, read)| *read));
        behind.extend_from_slice(&self.launches.behind);
        let [before, last] = run.copies;
        for c in before.iter().chain(last) {
            behind.extend(ours(c.from)?.behind().chain(ours(c.to)?.behind()));
        }
        let copies = before.len() + last.len() + usize::from(told.is_some()) + usize::from(!state.is_placed);
        let piece = if state.is_placed { None } else { Some(opened.pinned_words(&state.parameters, false)?) };
        let turn = opened.queue(Queue::Compute).turn(&opened.behind(Queue::Compute, &behind))?;
        let event = turn.event();
        if let Some(piece) = piece {
            let placed = turn.call(|s| driver::to_device(self.launches.parameters_at, &piece, state.parameters.len() * 4, s));
            opened.staging.give(piece, event);
            placed?;
            state.is_placed = true;
        }
        if let Some(words) = self.words.as_ref().filter(|_| run.inherited.is_empty()) {
            turn.call(|s| driver::fill(words.address(), NOTHING, words.bytes() / 4, s))?;
        }
        let copy = |c: &MemoryCopy<'_>| {
            let (from, to) = (ours(c.from)?.address(), ours(c.to)?.address());
            turn.call(|s| driver::copy(to, from, c.bytes, s))
        };
        before.iter().try_for_each(copy)?;
        turn.call(|s| driver::launch_graph(self.launches.graph, s))?;
        last.iter().try_for_each(copy)?;
        if let (Some(words), Some((told, _))) = (&self.words, &told) {
            turn.call(|s| driver::copy(told.address(), words.address(), words.bytes(), s))?;
        }
        turn.end()?;
        state.event = event;
        opened.counts.submissions.fetch_add(1, Relaxed);
        opened.counts.launches.fetch_add(1, Relaxed);
        opened.counts.replays.fetch_add(1, Relaxed);
        opened.counts.copies.fetch_add(copies as u64, Relaxed);
        Ok((event, told.map(|(words, _)| Arc::new(words) as Arc<dyn Words>)))
    }
}
impl Drop for CudaGraph {
    fn drop(&mut self) {
        // What it uses goes when it has run; of a lost device nothing runs.
        let event = self.state.get_mut().event;
        let _ = self.opened.wait(event);
        let _ = self.opened.context.call(|| driver::destroy_graph(self.launches.graph));
        self.launches.held.refused.drain(..).for_each(|(piece, _)| piece.into_iter().for_each(|piece| self.opened.staging.give(piece, event)));
    }
}
