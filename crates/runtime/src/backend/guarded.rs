//! A backend as core calls it: what panics in it is an error of the call.
use super::{
    Asynchronous, Backend, DeviceInfo, Event, FreezeRule, FrozenRun, FrozenSteps, HostBytes, Memory, PinnedMemory, Queue, ReadBack, Refused, Reports, Support,
    Words,
};
use crate::{
    Composite, ErrorKind, HostVec,
    foreign::guarded,
    kernel::{KernelKind, Step},
};
use std::{any::Any, sync::Arc, time::Instant};

/// A backend whose panics are errors.
pub struct Guarded {
    inner: Box<dyn Backend>,
    /// The same at every call, so it is asked for once.
    info: DeviceInfo,
    updates_in_place: bool,
    keeps_memory: bool,
    is_asynchronous: bool,
    freezes: Option<FreezeRule>,
}
impl Guarded {
    /// Guards a backend.
    pub fn new(inner: Box<dyn Backend>) -> Guarded {
        let asynchronous = inner.asynchronous();
        Guarded {
            info: inner.info().clone(),
            updates_in_place: inner.updates_in_place(),
            keeps_memory: inner.keeps_memory(),
            is_asynchronous: asynchronous.is_some(),
            freezes: asynchronous.and_then(Asynchronous::freezes),
            inner,
        }
    }
    fn call<R>(&self, method: &str, f: impl FnOnce(&dyn Backend) -> Result<R, ErrorKind>) -> Result<R, ErrorKind> {
        guarded(|| format!("the {} backend's `{method}`", self.info.backend), || f(&*self.inner)).flatten()
    }
    fn call_asynchronous<R>(&self, method: &str, f: impl FnOnce(&dyn Asynchronous) -> Result<R, ErrorKind>) -> Result<R, ErrorKind> {
        self.call(method, |b| b.asynchronous().ok_or_else(|| ErrorKind::Internal("a device that is asynchronous no more".into())).and_then(f))
    }
}
impl Backend for Guarded {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn updates_in_place(&self) -> bool {
        self.updates_in_place
    }
    fn keeps_memory(&self) -> bool {
        self.keeps_memory
    }
    /// It can give no error: a panic ends the plan that is being made, and the window with it.
    fn supports(&self, kernel: &KernelKind, dtypes: &[crate::DType]) -> Support {
        self.inner.supports(kernel, dtypes)
    }
    /// As `supports`.
    fn takes_rows(&self, composite: &dyn Composite) -> bool {
        self.inner.takes_rows(composite)
    }
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        self.call("alloc", |b| b.alloc(bytes))
    }
    fn adopt(&self, data: HostVec) -> Result<Box<dyn Memory>, ErrorKind> {
        self.call("adopt", |b| b.adopt(data))
    }
    fn pin(&self, bytes: usize) -> Result<Option<Box<dyn PinnedMemory>>, ErrorKind> {
        self.call("pin", |b| b.pin(bytes))
    }
    fn adopt_pinned(&self, memory: Arc<dyn PinnedMemory>) -> Result<Box<dyn Memory>, ErrorKind> {
        self.call("adopt_pinned", |b| b.adopt_pinned(memory))
    }
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
        self.call("upload", |b| b.upload(to, offset, from))
    }
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        self.call("download", |b| b.download(from, offset, to))
    }
    fn read_back(&self, from: &dyn Memory, offset: usize, bytes: usize) -> Result<Box<dyn ReadBack>, ErrorKind> {
        self.call("read_back", |b| b.read_back(from, offset, bytes))
    }
    fn submit(&self, steps: &[Step<'_>]) -> Result<(), ErrorKind> {
        self.call("submit", |b| b.submit(steps))
    }
    fn submit_timed(&self, steps: &[Step<'_>], ended: &mut dyn FnMut(usize, Instant, Instant)) -> Result<(), ErrorKind> {
        self.call("submit_timed", |b| b.submit_timed(steps, ended))
    }
    fn asynchronous(&self) -> Option<&dyn Asynchronous> {
        self.is_asynchronous.then_some(self)
    }
    fn synchronize(&self) -> Result<(), ErrorKind> {
        self.call("synchronize", |b| b.synchronize())
    }
    fn recover(&self) -> Result<(), ErrorKind> {
        self.call("recover", |b| b.recover())
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        // What is counted is no reason to fail.
        self.call("counters", |b| Ok(b.counters())).unwrap_or_default()
    }
    fn register(&self, composite: &'static str, kernel: Box<dyn Any + Send + Sync>) -> Result<(), ErrorKind> {
        self.call("register", |b| b.register(composite, kernel))
    }
    fn as_any(&self) -> &dyn Any {
        self.inner.as_any()
    }
}
impl Asynchronous for Guarded {
    fn submit(&self, queue: Queue, steps: &[Step<'_>], after: &[Event]) -> Result<Event, Refused> {
        let mut step = None;
        let submitted = self.call_asynchronous("submit", |a| {
            a.submit(queue, steps, after).map_err(|refused| {
                step = refused.step;
                refused.kind
            })
        });
        submitted.map_err(|kind| Refused { step, kind })
    }
    fn upload(&self, to: &dyn Memory, from: HostBytes, after: &[Event]) -> Result<Event, ErrorKind> {
        self.call_asynchronous("upload", |a| a.upload(to, from, after))
    }
    fn read_back(&self, from: &dyn Memory, offset: usize, bytes: usize, after: &[Event]) -> Result<(Event, Box<dyn ReadBack>), ErrorKind> {
        self.call_asynchronous("read_back", |a| a.read_back(from, offset, bytes, after))
    }
    fn words(&self, count: u32) -> Result<Arc<dyn Words>, ErrorKind> {
        self.call_asynchronous("words", |a| a.words(count))
    }
    fn inherit(&self, words: &Arc<dyn Words>, number: u32, from: &Arc<dyn Words>, of: &[u32], after: &[Event]) -> Result<Event, ErrorKind> {
        self.call_asynchronous("inherit", |a| a.inherit(words, number, from, of, after))
    }
    fn read_words(&self, words: &Arc<dyn Words>, after: Event) -> Result<Box<dyn Reports>, ErrorKind> {
        self.call_asynchronous("read_words", |a| a.read_words(words, after))
    }
    /// It can give no error: what cannot be asked is waited for, and waiting tells.
    fn is_done(&self, event: Event) -> bool {
        event.is_done() || self.call_asynchronous("is_done", |a| Ok(a.is_done(event))).unwrap_or(false)
    }
    fn wait(&self, event: Event) -> Result<(), ErrorKind> {
        self.call_asynchronous("wait", |a| a.wait(event))
    }
    fn freezes(&self) -> Option<FreezeRule> {
        self.freezes
    }
    fn freeze(&self, steps: &[Step<'_>]) -> Result<Box<dyn FrozenSteps>, ErrorKind> {
        let inner = self.call_asynchronous("freeze", |a| a.freeze(steps))?;
        Ok(Box::new(GuardedSteps { inner, backend: self.info.backend }))
    }
    fn recycled(&self, memory: &dyn Memory, after: &[Event]) -> Result<Event, ErrorKind> {
        self.call_asynchronous("recycled", |a| a.recycled(memory, after))
    }
}
/// Frozen steps whose panics are errors.
struct GuardedSteps {
    inner: Box<dyn FrozenSteps>,
    backend: &'static str,
}
impl FrozenSteps for GuardedSteps {
    fn run(&self, run: &FrozenRun<'_>, after: &[Event]) -> Result<(Event, Option<Arc<dyn Words>>), ErrorKind> {
        guarded(|| format!("the {} backend's `FrozenSteps::run`", self.backend), || self.inner.run(run, after)).flatten()
    }
}
