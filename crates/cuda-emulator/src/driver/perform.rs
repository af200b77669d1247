//! Doing the work of a stream: kernels, copies, products, graphs, each with its time and with what it touched.
use super::clock::{CardEngine, CardSpan};
use super::code::Answer;
use super::graph::Program;
use super::order::{Stamp, WorkNow};
use super::queue::{StreamTask, StreamWork};
use super::state::{DriverState, EventRecord};
use crate::machine::next_serial;
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// A function of the host's runs on this thread; it may not call the driver.
    pub(crate) static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

impl StreamWork {
    /// What it is, for reports.
    pub fn what(&self) -> Arc<str> {
        match self {
            StreamWork::Launch(launch) => launch.name.clone(),
            StreamWork::Copy(copy) => copy.call.into(),
            StreamWork::Fill(fill) => fill.call.into(),
            StreamWork::Product(_) => "cublasLtMatmul".into(),
            StreamWork::Call(_) => "cuLaunchHostFunc".into(),
            StreamWork::Record(_) => "cuEventRecord".into(),
            StreamWork::Graph(_) => "cuGraphLaunch".into(),
            StreamWork::Free(_) => "cuMemFreeAsync".into(),
            StreamWork::Nothing => "nothing".into(),
        }
    }
}

impl DriverState {
    /// Does a piece of work that may begin at `ready`; gives when it ends.
    pub fn perform(&mut self, stream: u64, task: &StreamTask, ready: f64) -> Answer<f64> {
        let stamp = Stamp { stream, number: task.place, node: 0, what: task.work.what() };
        match &task.work {
            StreamWork::Graph(program) => self.perform_graph(stream, task, program, stamp, ready),
            work => {
                let staged = task.staged.first().map(|(_, held)| (*held, task.asked));
                let end = self.perform_one(work, &WorkNow { stamp, clock: &task.clock, ancestors: &[], staged }, ready, false)?;
                if let StreamWork::Record(event) = work {
                    self.arrive(*event, task.number, end);
                }
                Ok(end)
            }
        }
    }
    /// An event's work is done, unless it was recorded anew.
    fn arrive(&mut self, event: u64, number: u64, end: f64) {
        if let Some(EventRecord::Work { task, at, .. }) = self.events.get_mut(&event).map(|e| &mut e.recorded)
            && *task == number
        {
            *at = Some(end);
        }
    }
    /// Does a graph's nodes, in an order by seed that their edges allow.
    fn perform_graph(&mut self, stream: u64, task: &StreamTask, program: &Program, stamp: Stamp, ready: f64) -> Answer<f64> {
        let count = program.nodes.len();
        let mut left: Vec<usize> = program.nodes.iter().map(|n| n.after.len()).collect();
        let mut followers: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (k, node) in program.nodes.iter().enumerate() {
            for before in &node.after {
                if let Some(followers) = followers.get_mut(*before) {
                    followers.push(k);
                }
            }
        }
        let mut ends = vec![ready; count];
        let mut open: Vec<usize> = (0..count).filter(|k| left.get(*k) == Some(&0)).collect();
        let mut last = ready;
        while !open.is_empty() {
            let k = open.swap_remove(self.random.below(open.len()));
            let (Some(node), Some(ancestors)) = (program.nodes.get(k), program.ancestors.get(k)) else { continue };
            let begin = node.after.iter().filter_map(|b| ends.get(*b)).fold(ready, |a, b| a.max(*b));
            let stamp = Stamp { stream, number: stamp.number, node: k, what: node.work.what() };
            let staged = task.staged.iter().find(|(node, _)| *node == k).map(|(_, held)| (*held, task.asked));
            let end = self.perform_one(&node.work, &WorkNow { stamp, clock: &task.clock, ancestors, staged }, begin, true)?;
            if let Some(slot) = ends.get_mut(k) {
                *slot = end;
            }
            last = last.max(end);
            for follower in followers.get(k).into_iter().flatten() {
                if let Some(left) = left.get_mut(*follower) {
                    *left -= 1;
                    if *left == 0 {
                        open.push(*follower);
                    }
                }
            }
        }
        Ok(last)
    }
    /// Does what is no graph.
    fn perform_one(&mut self, work: &StreamWork, present: &WorkNow, ready: f64, by_graph: bool) -> Answer<f64> {
        let idle = self.options.null && matches!(work, StreamWork::Launch(_) | StreamWork::Product(_));
        let watched = !self.options.null && matches!(work, StreamWork::Launch(_) | StreamWork::Product(_) | StreamWork::Copy(_) | StreamWork::Fill(_));
        if watched {
            self.unordered = self.log.unordered(present);
            self.touching.clear();
        }
        let first = next_serial();
        let (engine, start, end) = match work {
            _ if idle => (CardEngine::Compute, ready, ready),
            StreamWork::Launch(launch) => self.perform_launch(launch, present, ready, by_graph)?,
            StreamWork::Copy(copy) => self.perform_copy(copy, present, ready)?,
            StreamWork::Fill(fill) => self.perform_fill(fill, present, ready)?,
            StreamWork::Product(product) => self.perform_product(product, present, ready, by_graph)?,
            StreamWork::Call(callback) => {
                IN_CALLBACK.set(true);
                callback.call();
                IN_CALLBACK.set(false);
                self.called_back = self.performed;
                // So the host knows what came before it.
                self.host_clock.join(present.clock);
                (CardEngine::Host, ready, ready)
            }
            StreamWork::Free(address) => {
                let device = self.device_of_any(*address);
                if let Some(device) = device.and_then(|d| self.devices.get_mut(d)) {
                    if let Some((start, bytes)) = device.memory.allocation(*address) {
                        device.forget(start, bytes);
                        self.log.forget_range(start, bytes);
                    }
                    // It was checked when it was asked for; a second end in between is refused there.
                    let _ = device.memory.free(*address);
                }
                (CardEngine::Host, ready, ready)
            }
            StreamWork::Record(_) | StreamWork::Graph(_) | StreamWork::Nothing => (CardEngine::Host, ready, ready),
        };
        if watched {
            let end = next_serial();
            let ranges = std::mem::take(&mut self.touching);
            self.log.note(&present.stamp, (first != end).then_some((first, end)), ranges);
        }
        if engine != CardEngine::Host {
            let stream = present.stamp.stream;
            let what = present.stamp.what.to_string();
            self.spent(|| CardSpan { what, engine, stream, start, end });
        }
        Ok(end)
    }
    /// The card whose memory holds an address.
    fn device_of_any(&self, address: u64) -> Option<usize> {
        self.devices.iter().position(|d| d.memory.allocation(address).is_some())
    }
}
