//! The backend itself: core's contract on one opened card.
use crate::{
    compiler::{CompiledImage, compile_for},
    graph::CudaGraph,
    launch::{HeldStep, Launches},
    libraries,
    memory::{CudaMemory, CudaMemoryStats, CudaShortage, ours},
    nvml::{self, CudaLoad},
    opened::{LARGEST, Opened},
    options::{CudaBuilder, CudaOptions},
    products,
    times::TurnTimes,
    words::CudaWords,
};
use adamant_kernels::skeleton::{self, Mapped};
use adamant_runtime::{
    Composite, DType, ErrorKind,
    backend::{
        Asynchronous, Backend, Determinism, DeviceInfo, Event, FreezeRule, FrozenSteps, Guard, HostBytes, Memory, PinnedMemory, Queue, ReadBack, Refused,
        Reports, Support, Words,
    },
    kernel::{KernelKind, Step},
};
use parking_lot::RwLock;
use std::{any::Any, collections::HashMap, path::PathBuf, ptr, sync::Arc, time::Instant};

/// A card as a device.
pub struct CudaBackend {
    /// another after a loss
    opened: RwLock<Arc<Opened>>,
    info: DeviceInfo,
    options: CudaOptions,
}
impl CudaBackend {
    /// An opened card as a device.
    pub(crate) fn new(opened: Arc<Opened>, options: CudaOptions) -> CudaBackend {
        let card = &opened.card;
        let mut details = vec![
            ("compute capability", format!("{}.{}", card.capability / 10, card.capability % 10)),
            ("memory", format!("{} bytes", card.memory)),
            ("driver", format!("CUDA {}.{}", card.driver / 1000, card.driver % 1000 / 10)),
            ("compiler", opened.compiler.described()),
            ("kernels on disk", opened.kept.clone()),
            ("largest tensor", format!("{LARGEST} bytes")),
            ("products", opened.multiplies.clone()),
            ("pages", opened.paged.clone()),
        ];
        details.extend(options.told());
        let off: Vec<String> = opened.paths.all().iter().map(|(path, why)| format!("{} off: {why}", path.name())).collect();
        details.push((
            "self-test",
            if !options.self_test {
                "none".into()
            } else if off.is_empty() {
                "passed".into()
            } else {
                off.join("; ")
            },
        ));
        let info = DeviceInfo {
            backend: "cuda",
            name: card.name.clone(),
            parallelism: card.multiprocessors,
            details,
            // Fixed trees and no order of threads anywhere; another card's compiler may order other products.
            determinism: Determinism::RunToRun,
            dtypes: &DType::COMPUTE,
            window_ops: 2048,
            // A window that closed by its bytes would be cut elsewhere when the batch grows, and its kernels be others.
            window_bytes: usize::MAX,
        };
        CudaBackend { opened: RwLock::new(opened), info, options }
    }
}
impl CudaBackend {
    /// How a card may be opened.
    ///
    /// ```
    /// use adamant_backend_cuda::CudaBackend;
    /// use adamant_runtime::{ErrorKind, backend::Backend};
    /// match CudaBackend::builder().device(0).build() {
    ///     Ok(backend) => assert_eq!(backend.info().backend, "cuda"),
    ///     // Says what to install.
    ///     Err(e) => assert!(matches!(e, ErrorKind::DeviceAbsent(_))),
    /// }
    /// ```
    pub fn builder() -> CudaBuilder {
        CudaBuilder::default()
    }
    /// How it was opened.
    pub fn options(&self) -> &CudaOptions {
        &self.options
    }
    /// The card's memory: what this process holds of it, and what is free.
    ///
    /// ```no_run
    /// use adamant_backend_cuda::{CudaBackend, CudaMemoryPool};
    /// let backend = CudaBackend::builder().memory_pool(CudaMemoryPool::Share(0.5)).build()?;
    /// let memory = backend.memory();
    /// assert!(memory.allocated <= memory.reserved && memory.reserved <= memory.total / 2);
    /// # Ok::<(), adamant_runtime::ErrorKind>(())
    /// ```
    pub fn memory(&self) -> CudaMemoryStats {
        self.opened().pool.stats()
    }
    /// From now on the peaks of [`CudaBackend::memory`] are those since now.
    pub fn reset_peak(&self) {
        self.opened().pool.reset_peaks();
    }
    /// Waits for all work, and gives the pages that nobody holds a part of back to the driver: how many bytes. What the runtime's pool
    /// keeps it holds: `device.pool().trim()` comes first.
    ///
    /// # Errors
    /// A lost device.
    pub fn trim(&self) -> Result<u64, ErrorKind> {
        let opened = self.opened();
        opened.synchronize()?;
        Ok(opened.pool.trim())
    }
    /// What the card does at this moment: its use, clocks, power and temperature.
    ///
    /// ```no_run
    /// use adamant_backend_cuda::CudaBackend;
    /// let load = CudaBackend::builder().build()?.load()?;
    /// println!("{:.0} % busy, {:.0} W", load.compute.unwrap_or(0.0) * 100.0, load.power.unwrap_or(0.0));
    /// # Ok::<(), adamant_runtime::ErrorKind>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported`: there is no NVML, or it does not know the card.
    pub fn load(&self) -> Result<CudaLoad, ErrorKind> {
        nvml::load_of(self.opened().card.id)
    }
    /// The last time that memory could not be had: what was asked for, and what there was.
    pub fn shortage(&self) -> Option<CudaShortage> {
        self.opened().pool.shortage()
    }
    /// The texts of all kernels that were written for it so far, for tools that look at what a compiler makes of them.
    pub fn texts(&self) -> Vec<String> {
        self.opened().texts().into_iter().map(|t| t.1).collect()
    }
    /// As [`CudaBackend::texts`], each with its kernel's family: `map`, `reduce`, `product`, `adamant.attention`, ...
    pub fn texts_by_family(&self) -> Vec<(&'static str, String)> {
        self.opened().texts()
    }
    /// From now on new kernels are written and not compiled, and do nothing: for tools that look at texts and at no result.
    pub fn write_only(&self) {
        self.opened().compiler.idle();
    }
    /// What the compiler makes of kernels' texts, one behind the other, by the options of every kernel, for tools that look at it.
    /// `architecture` is `sm_90a` for machine code, with a log of each function's registers and spills, or `compute_90` for PTX.
    /// Needs no card.
    ///
    /// ```
    /// use adamant_backend_cuda::CudaBackend;
    /// use adamant_runtime::ErrorKind;
    /// match CudaBackend::compile("extern \"C\" __global__ void twice(int *x) { *x *= 2; }", "compute_90") {
    ///     Ok(made) => assert!(String::from_utf8_lossy(&made.image).contains(".entry twice")),
    ///     // Says what to install.
    ///     Err(e) => assert!(matches!(e, ErrorKind::DeviceAbsent(_))),
    /// }
    /// ```
    ///
    /// # Errors
    /// `DeviceAbsent`: no compiler, with what to install. What is no CUDA C++, in the compiler's words.
    pub fn compile(text: &str, architecture: &str) -> Result<CompiledImage, ErrorKind> {
        libraries::open_compiler()?;
        compile_for(text, architecture)
    }
    /// A program of CUDA's, such as `nvdisasm`: sought where the compiler is, then where the system has its programs.
    pub fn tool(name: &str) -> Option<PathBuf> {
        libraries::tool(name)
    }
    fn opened(&self) -> Arc<Opened> {
        self.opened.read().clone()
    }
    /// Records steps, equal ones that may be together; `before` hears of each launch and how many steps it is for.
    fn record_all<'a>(launches: &mut Launches<'a>, steps: &[Step<'a>], mut before: impl FnMut(&mut Launches<'a>, usize)) -> Result<(), ErrorKind> {
        let mut rest = steps;
        while let [first, ..] = rest {
            // What may be together has one program.
            let alike = rest.iter().take_while(|s| is_alike(first, s)).count().max(1);
            let held: Vec<HeldStep<'a>> = rest[..alike].iter().map(HeldStep::new).collect();
            let mapped: Vec<Mapped<'_>> = rest.iter().zip(&held).filter_map(|(s, h)| mapped(s, h)).collect();
            let equal = if mapped.len() > 1 { skeleton::together(&launches.opened.target(&first.kernel.kind), &mapped) } else { 1 };
            before(launches, equal);
            if equal > 1 {
                launches.begin(&rest[..equal])?;
                skeleton::record_together(launches, &mapped[..equal])?;
            } else if let ([own, ..], true) = (&held[..], first.outputs.iter().any(|o| o.shape.elements() > 0)) {
                launches.begin(&rest[..1])?;
                if !launches.by_library(first, &own.work())? {
                    skeleton::record(launches, &first.kernel.kind, &own.work())?;
                }
            }
            rest = &rest[equal..];
        }
        Ok(())
    }
}
impl Backend for CudaBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn supports(&self, kernel: &KernelKind, dtypes: &[DType]) -> Support {
        let opened = self.opened();
        let is_ours = !products::is_apart(kernel, &opened) && skeleton::supports(&opened.target(kernel), kernel, dtypes);
        if is_ours { Support::Native } else { Support::No }
    }
    fn takes_rows(&self, composite: &dyn Composite) -> bool {
        skeleton::takes_rows(composite)
    }
    fn alloc(&self, bytes: usize) -> Result<Box<dyn Memory>, ErrorKind> {
        Ok(Box::new(CudaMemory::new(&self.opened(), bytes)?))
    }
    fn pin(&self, bytes: usize) -> Result<Option<Box<dyn PinnedMemory>>, ErrorKind> {
        Ok(Some(Box::new(self.opened().staging.pin(bytes)?)))
    }
    fn upload(&self, to: &mut dyn Memory, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
        self.opened().upload(ours(to)?, offset, from)
    }
    fn download(&self, from: &dyn Memory, offset: usize, to: &mut [u8]) -> Result<(), ErrorKind> {
        let opened = self.opened();
        opened.begin(Queue::Compute, ours(from)?, offset, to.len(), &opened.everything())?.finish(to)
    }
    fn read_back(&self, from: &dyn Memory, offset: usize, bytes: usize) -> Result<Box<dyn ReadBack>, ErrorKind> {
        let opened = self.opened();
        Ok(Box::new(opened.begin(Queue::Compute, ours(from)?, offset, bytes, &opened.everything())?))
    }
    /// Kernels do not fail once they have begun, but with the device.
    fn updates_in_place(&self) -> bool {
        true
    }
    fn keeps_memory(&self) -> bool {
        self.opened().pool.is_mapped()
    }
    fn submit(&self, steps: &[Step<'_>]) -> Result<(), ErrorKind> {
        let opened = self.opened();
        opened.context.check()?;
        let mut launches = Launches::new(&opened);
        CudaBackend::record_all(&mut launches, steps, |_, _| ())?;
        launches.run(Queue::Compute, &opened.everything()).map(drop)
    }
    fn asynchronous(&self) -> Option<&dyn Asynchronous> {
        Some(self)
    }
    fn submit_timed(&self, steps: &[Step<'_>], ended: &mut dyn FnMut(usize, Instant, Instant)) -> Result<(), ErrorKind> {
        self.synchronize()?;
        let opened = self.opened();
        let mut launches = Launches::new(&opened);
        // Steps that share a launch share its time.
        let mut sizes = Vec::new();
        CudaBackend::record_all(&mut launches, steps, |launches, together| {
            launches.begin_pass();
            sizes.push(together);
        })?;
        let times = TurnTimes::new(&opened, sizes.len())?;
        let begin = Instant::now();
        launches.run_timed(Queue::Compute, &[], Some(&times))?;
        let mut rest = 0..steps.len();
        for (times, together) in times.read()?.into_iter().zip(sizes) {
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
        self.opened().synchronize()
    }
    fn recover(&self) -> Result<(), ErrorKind> {
        let mut opened = self.opened.write();
        if opened.context.lost().is_none() {
            return Ok(());
        }
        let new = opened.opened_anew(&self.options, opened.paths.clone())?;
        // What was told of the device must still hold.
        if new.card != opened.card {
            return Err(ErrorKind::DeviceAbsent(format!("card number {} was {} and is {} now", self.options.device, opened.card.name, new.card.name)));
        }
        *opened = new;
        Ok(())
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.opened().counts.all()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
impl Asynchronous for CudaBackend {
    fn submit(&self, queue: Queue, steps: &[Step<'_>], after: &[Event]) -> Result<Event, Refused> {
        let opened = self.opened();
        opened.context.check()?;
        let mut launches = Launches::new(&opened);
        launches.hears = false;
        CudaBackend::record_all(&mut launches, steps, |_, _| ())?;
        Ok(launches.run(queue, after)?)
    }
    fn upload(&self, to: &dyn Memory, from: HostBytes, after: &[Event]) -> Result<Event, ErrorKind> {
        self.opened().fill(ours(to)?, from, after)
    }
    fn read_back(&self, from: &dyn Memory, offset: usize, bytes: usize, after: &[Event]) -> Result<(Event, Box<dyn ReadBack>), ErrorKind> {
        let read = self.opened().begin(Queue::Copy, ours(from)?, offset, bytes, after)?;
        Ok((read.event, Box::new(read)))
    }
    fn words(&self, count: u32) -> Result<Arc<dyn Words>, ErrorKind> {
        Ok(Arc::new(CudaWords::new(&self.opened(), count)?))
    }
    fn inherit(&self, words: &Arc<dyn Words>, number: u32, from: &Arc<dyn Words>, of: &[u32], after: &[Event]) -> Result<Event, ErrorKind> {
        let opened = self.opened();
        opened.context.check()?;
        let mut launches = Launches::new(&opened);
        launches.inherit(&CudaWords::of(words)?, number, &CudaWords::of(from)?, of)?;
        launches.run(Queue::Compute, after)
    }
    fn read_words(&self, words: &Arc<dyn Words>, after: Event) -> Result<Box<dyn Reports>, ErrorKind> {
        Ok(Box::new(CudaWords::of(words)?.read(after)?))
    }
    fn freezes(&self) -> Option<FreezeRule> {
        self.options.graphs.filter(|_| self.opened().freezes())
    }
    fn freeze(&self, steps: &[Step<'_>]) -> Result<Box<dyn FrozenSteps>, ErrorKind> {
        let opened = self.opened();
        opened.context.check()?;
        let mut launches = Launches::for_graph(&opened);
        CudaBackend::record_all(&mut launches, steps, |_, _| ())?;
        let places: HashMap<usize, usize> = steps.iter().flat_map(|s| s.args).enumerate().map(|(k, a)| (ptr::from_ref(a) as usize, k)).collect();
        let words = steps.iter().find_map(|s| s.guard.words).map(CudaWords::of).transpose()?;
        Ok(Box::new(CudaGraph::new(&opened, launches.freeze(|place| places.get(&place).copied())?, words)))
    }
    fn is_done(&self, event: Event) -> bool {
        self.opened().is_done(event)
    }
    fn wait(&self, event: Event) -> Result<(), ErrorKind> {
        self.opened().wait(event)
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
