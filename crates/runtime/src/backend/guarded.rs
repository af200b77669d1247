//! A backend as core calls it: what panics in it is an error of the call.
use super::{Backend, DeviceInfo, Memory, ReadBack, Support};
use crate::{
    ErrorKind, HostVec,
    foreign::guarded,
    kernel::{KernelKind, Step},
};
use std::{any::Any, time::Instant};

/// A backend whose panics are errors.
pub struct Guarded {
    inner: Box<dyn Backend>,
    /// The same at every call, so it is asked for once.
    info: DeviceInfo,
    updates_in_place: bool,
}
impl Guarded {
    /// Guards a backend.
    pub fn new(inner: Box<dyn Backend>) -> Guarded {
        Guarded { info: inner.info().clone(), updates_in_place: inner.updates_in_place(), inner }
    }
    fn call<R>(&self, method: &str, f: impl FnOnce(&dyn Backend) -> Result<R, ErrorKind>) -> Result<R, ErrorKind> {
        guarded(|| format!("the {} backend's `{method}`", self.info.backend), || f(&*self.inner)).flatten()
    }
}
impl Backend for Guarded {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn updates_in_place(&self) -> bool {
        self.updates_in_place
    }
    /// It can give no error: a panic ends the plan that is being made, and the window with it.
    fn supports(&self, kernel: &KernelKind, dtypes: &[crate::DType]) -> Support {
        self.inner.supports(kernel, dtypes)
    }
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        self.call("alloc", |b| b.alloc(bytes))
    }
    fn adopt(&self, data: HostVec) -> Result<Box<dyn Memory>, ErrorKind> {
        self.call("adopt", |b| b.adopt(data))
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
