//! The backend itself: core's contract on one opened adapter.
use crate::{
    clock::PassClock,
    gpu::Gpu,
    launch::{HeldStep, Launches, SharedBuffers},
    memory::{self, OnItsWay, Staging, WgpuMemory, download, ours, upload},
    words::{ReadsStaging, Spares, Telling, WgpuWords},
};
use adamant_kernels::skeleton::{self, Mapped};
use adamant_runtime::{
    Composite, DType, ErrorKind,
    backend::{Asynchronous, Backend, Determinism, DeviceInfo, Event, Guard, HostBytes, Memory, Queue, ReadBack, Refused, Reports, Support, Words},
    kernel::{KernelKind, Step},
};
use parking_lot::RwLock;
use std::{any::Any, path::PathBuf, sync::Arc, time::Instant};

/// An adapter as a device.
pub struct WgpuBackend {
    /// another after a loss
    opened: RwLock<Arc<Opened>>,
    info: DeviceInfo,
    number: usize,
    /// where compiled pipelines are kept
    caches: Option<PathBuf>,
}
/// A device of wgpu and the buffers that submissions share.
struct Opened {
    gpu: Gpu,
    shared: SharedBuffers,
    staging: Staging,
    spares: Arc<Spares>,
}
impl ReadsStaging for Arc<Opened> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }
    fn staging(&self) -> &Staging {
        &self.staging
    }
}
const WIDE: [DType; 9] = [DType::Bool, DType::U8, DType::I8, DType::I32, DType::U32, DType::I64, DType::F16, DType::BF16, DType::F32];
const NARROW: [DType; 8] = [DType::Bool, DType::U8, DType::I8, DType::I32, DType::U32, DType::F16, DType::BF16, DType::F32];

impl WgpuBackend {
    /// Opens adapter number `number`, with everything it can do. Compiled pipelines are kept in `ADAMANT_CACHE_DIR`, else in
    /// the user's directory for caches; with the variable set to nothing, nowhere.
    ///
    /// # Errors
    /// `DeviceAbsent`: there is none, or no such number.
    pub fn open(number: usize) -> Result<WgpuBackend, ErrorKind> {
        let caches = adamant_kernels::cache_directory();
        WgpuBackend::from(Gpu::open(number, true, caches.as_deref())?, number, caches)
    }
    /// As [`WgpuBackend::open`], with compiled pipelines kept in a directory of the user's choice, or nowhere. What is wrong
    /// with the directory is no error: the device's details say it, and pipelines are compiled.
    ///
    /// # Errors
    /// As [`WgpuBackend::open`].
    pub fn open_with_cache(number: usize, directory: Option<PathBuf>) -> Result<WgpuBackend, ErrorKind> {
        WgpuBackend::from(Gpu::open(number, true, directory.as_deref())?, number, directory)
    }
    /// As [`WgpuBackend::open`], without 64-bit integers: what an adapter that lacks them can do.
    ///
    /// # Errors
    /// As [`WgpuBackend::open`].
    pub fn open_without_i64(number: usize) -> Result<WgpuBackend, ErrorKind> {
        WgpuBackend::from(Gpu::open(number, false, None)?, number, None)
    }
    fn from(gpu: Gpu, number: usize, caches: Option<PathBuf>) -> Result<WgpuBackend, ErrorKind> {
        let yes = |b: bool| if b { "yes" } else { "no" }.to_string();
        let a = &gpu.adapter;
        let mut details = vec![
            ("api", a.backend.to_string()),
            ("kind", format!("{:?}", a.device_type)),
            ("driver", format!("{} {}", a.driver, a.driver_info)),
            ("subgroups", format!("{} to {}", a.subgroup_min_size, a.subgroup_max_size)),
            ("largest tensor", format!("{} bytes", gpu.largest_buffer())),
            ("buffers of a kernel", gpu.limits.max_storage_buffers_per_shader_stage.to_string()),
            ("i64", yes(gpu.int64)),
            ("f64", "no".to_string()),
            ("pipelines on disk", gpu.cached.clone()),
            ("cooperative matrices", gpu.matrices.clone()),
        ];
        details.extend(crate::probe::probe(&gpu)?.details());
        let info = DeviceInfo {
            backend: "wgpu",
            name: a.name.clone(),
            parallelism: gpu.limits.max_compute_invocations_per_workgroup as usize,
            details,
            // Fixed trees and no order of invocations anywhere; other drivers may contract other products.
            determinism: Determinism::RunToRun,
            dtypes: if gpu.int64 { &WIDE } else { &NARROW },
            window_ops: 2048,
            // A window that closed by its bytes would be cut elsewhere when the batch grows, and its kernels be others.
            window_bytes: usize::MAX,
        };
        Ok(WgpuBackend { opened: RwLock::new(Opened::new(gpu)), info, number, caches })
    }
    fn opened(&self) -> Arc<Opened> {
        self.opened.read().clone()
    }
    /// Is the adapter a driver that computes on the host's processor?
    pub fn is_software(&self) -> bool {
        self.opened().gpu.adapter.device_type == wgpu::DeviceType::Cpu
    }
    /// Destroys the device under the backend: every later call fails as it does when a driver is lost.
    pub fn destroy(&self) {
        let gpu = &self.opened().gpu;
        gpu.device.destroy();
        gpu.health.lose("it was destroyed");
    }
    /// Records steps, equal ones that may be together; `before` hears of each launch and how many steps it is for.
    fn record_all<'a>(launches: &mut Launches<'a>, steps: &[Step<'a>], mut before: impl FnMut(&mut Launches<'a>, usize)) -> Result<(), ErrorKind> {
        let mut rest = steps;
        while let [first, ..] = rest {
            // What may be together has one program.
            let alike = rest.iter().take_while(|s| is_alike(first, s)).count().max(1);
            let held: Vec<HeldStep<'a>> = rest[..alike].iter().map(HeldStep::new).collect();
            let mapped: Vec<Mapped<'_>> = rest.iter().zip(&held).filter_map(|(s, h)| mapped(s, h)).collect();
            let equal = if mapped.len() > 1 { skeleton::together(&launches.gpu.target(), &mapped) } else { 1 };
            before(launches, equal);
            if equal > 1 {
                launches.begin(&rest[..equal])?;
                skeleton::record_together(launches, &mapped[..equal])?;
            } else if let ([own, ..], true) = (&held[..], first.outputs.iter().any(|o| o.shape.elements() > 0)) {
                launches.begin(&rest[..1])?;
                skeleton::record(launches, &first.kernel.kind, &own.work())?;
            }
            rest = &rest[equal..];
        }
        Ok(())
    }
}
impl Opened {
    fn new(gpu: Gpu) -> Arc<Opened> {
        Arc::new(Opened { gpu, shared: SharedBuffers::default(), staging: Staging::default(), spares: Arc::default() })
    }
}
/// A read that was begun, of the generation that it was begun on.
struct Reading {
    opened: Arc<Opened>,
    read: OnItsWay,
    lead: usize,
}
impl ReadBack for Reading {
    fn is_ready(&self) -> bool {
        self.read.is_settled(&self.opened.gpu)
    }
    fn wait(self: Box<Self>, to: &mut [u8]) -> Result<(), ErrorKind> {
        let Reading { opened, read, lead } = *self;
        opened.gpu.health.check()?;
        opened.staging.finish(&opened.gpu, read, lead, to)
    }
}
impl Backend for WgpuBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn supports(&self, kernel: &KernelKind, dtypes: &[DType]) -> Support {
        if skeleton::supports(&self.opened().gpu.target(), kernel, dtypes) { Support::Native } else { Support::No }
    }
    fn takes_rows(&self, composite: &dyn Composite) -> bool {
        skeleton::takes_rows(composite)
    }
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        Ok(Box::new(WgpuMemory::new(&self.opened().gpu, bytes)?))
    }
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
        let opened = self.opened();
        upload(&opened.gpu, &opened.staging, ours(to)?, offset, from)
    }
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        let opened = self.opened();
        download(&opened.gpu, &opened.staging, ours(from)?, offset, to)
    }
    fn read_back(&self, from: &dyn Memory, offset: usize, bytes: usize) -> Result<Box<dyn ReadBack>, ErrorKind> {
        let opened = self.opened();
        let (read, lead) = memory::begin(&opened.gpu, &opened.staging, ours(from)?, offset, bytes)?;
        Ok(Box::new(Reading { opened, read, lead }))
    }
    /// Nothing is given back of a device that is lost, and its memory is scarce.
    fn updates_in_place(&self) -> bool {
        true
    }
    fn submit(&self, steps: &[Step<'_>]) -> Result<(), ErrorKind> {
        let opened = self.opened();
        opened.gpu.health.check()?;
        let mut launches = Launches::new(&opened.gpu);
        WgpuBackend::record_all(&mut launches, steps, |_, _| ())?;
        launches.run(&opened.shared, &opened.staging)
    }
    fn asynchronous(&self) -> Option<&dyn Asynchronous> {
        Some(self)
    }
    fn submit_timed(&self, steps: &[Step<'_>], ended: &mut dyn FnMut(usize, Instant, Instant)) -> Result<(), ErrorKind> {
        self.synchronize()?;
        let opened = self.opened();
        let gpu = &opened.gpu;
        let Some(clock) = PassClock::new(gpu, steps.len())? else {
            for (k, step) in steps.iter().enumerate() {
                let begin = Instant::now();
                Backend::submit(self, std::slice::from_ref(step))?;
                self.synchronize()?;
                ended(k, begin, Instant::now());
            }
            return Ok(());
        };
        let mut launches = Launches::new(gpu);
        // Steps that share a launch share its pass.
        let mut sizes = Vec::new();
        WgpuBackend::record_all(&mut launches, steps, |launches, together| {
            launches.begin_pass();
            sizes.push(together);
        })?;
        let begin = Instant::now();
        launches.run_timed(&opened.shared, &opened.staging, Some(&clock))?;
        let mut rest = 0..steps.len();
        for (times, together) in clock.read(gpu, &opened.staging, sizes.len())?.into_iter().zip(sizes) {
            let own: Vec<usize> = rest.by_ref().take(together).collect();
            let elements = |k: usize| steps[k].space.elements() as f64;
            let all: f64 = own.iter().map(|k| elements(*k)).sum();
            let mut at = begin + times[0];
            for k in own {
                let end = if together == 1 { begin + times[1] } else { at + (times[1] - times[0]).mul_f64(elements(k) / all) };
                ended(k, at, end);
                at = end;
            }
        }
        Ok(())
    }
    fn synchronize(&self) -> Result<(), ErrorKind> {
        let gpu = &self.opened().gpu;
        gpu.health.check()?;
        gpu.wait_for(None)
    }
    fn recover(&self) -> Result<(), ErrorKind> {
        let mut opened = self.opened.write();
        if opened.gpu.health.lost().is_none() {
            return Ok(());
        }
        let (old, new) = (&opened.gpu, Gpu::open(self.number, opened.gpu.int64, self.caches.as_deref())?);
        // What was told of the device must still hold.
        if (&new.adapter.name, new.int64, &new.limits) != (&old.adapter.name, old.int64, &old.limits) {
            return Err(ErrorKind::DeviceAbsent(format!("adapter number {} was {} and is {} now", self.number, old.adapter.name, new.adapter.name)));
        }
        *opened = Opened::new(new);
        Ok(())
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.opened().gpu.counts.all()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
impl Asynchronous for WgpuBackend {
    fn submit(&self, _: Queue, steps: &[Step<'_>], _: &[Event]) -> Result<Event, Refused> {
        let opened = self.opened();
        opened.gpu.health.check()?;
        let mut launches = Launches::new(&opened.gpu);
        launches.hears = false;
        WgpuBackend::record_all(&mut launches, steps, |_, _| ())?;
        launches.run(&opened.shared, &opened.staging)?;
        Ok(Event::DONE)
    }
    fn upload(&self, to: &dyn Memory, from: HostBytes, _: &[Event]) -> Result<Event, ErrorKind> {
        memory::fill(&self.opened().gpu, ours(to)?, (*from).as_ref())?;
        Ok(Event::DONE)
    }
    fn read_back(&self, from: &dyn Memory, offset: usize, bytes: usize, _: &[Event]) -> Result<(Event, Box<dyn ReadBack>), ErrorKind> {
        Ok((Event::DONE, Backend::read_back(self, from, offset, bytes)?))
    }
    fn words(&self, count: u32) -> Result<Arc<dyn Words>, ErrorKind> {
        let opened = self.opened();
        Ok(Arc::new(WgpuWords::new(&opened.gpu, &opened.spares, count)?))
    }
    fn inherit(&self, words: &Arc<dyn Words>, number: u32, from: &Arc<dyn Words>, of: &[u32], _: &[Event]) -> Result<Event, ErrorKind> {
        let opened = self.opened();
        opened.gpu.health.check()?;
        let mut launches = Launches::new(&opened.gpu);
        launches.inherit(&WgpuWords::of(words)?, number, &WgpuWords::of(from)?, of)?;
        launches.run(&opened.shared, &opened.staging)?;
        Ok(Event::DONE)
    }
    fn read_words(&self, words: &Arc<dyn Words>, _: Event) -> Result<Box<dyn Reports>, ErrorKind> {
        let (opened, words) = (self.opened(), WgpuWords::of(words)?);
        let read = words.read(&opened.gpu, &opened.staging)?;
        Ok(Box::new(Telling { opened, words, read }))
    }
    fn is_done(&self, _: Event) -> bool {
        true
    }
    fn wait(&self, _: Event) -> Result<(), ErrorKind> {
        Ok(())
    }
}
/// Are both the same program, over whatever tensors, that run when the same words say so?
fn is_alike(a: &Step<'_>, b: &Step<'_>) -> bool {
    let (KernelKind::Map { expr, outputs }, KernelKind::Map { expr: other, outputs: others }) = (&a.kernel.kind, &b.kernel.kind) else { return false };
    (std::ptr::eq(a.kernel, b.kernel) || (outputs == others && expr == other)) && is_guarded_alike(&a.guard, &b.guard)
}
fn mapped<'m>(step: &Step<'m>, held: &'m HeldStep<'_>) -> Option<Mapped<'m>> {
    let KernelKind::Map { expr, outputs } = &step.kernel.kind else { return None };
    Some((expr, &outputs[..], held.work()))
}
/// Whoever reports does so alone: a launch has one report.
fn is_guarded_alike(a: &Guard<'_>, b: &Guard<'_>) -> bool {
    a.reports.is_none() && b.reports.is_none() && a.when == b.when
}
