//! What ran, when, and for how long: kernels, the scheduler's own work, and ranges that the user names.
//!
//! [`Profiler::start`] turns recording on for the whole process. From then on the scheduler hands steps to a device one by
//! one ([`crate::backend::Backend::submit_timed`]) and keeps an event for each: the plan that the step belongs to, its
//! sizes, and two moments. Names, shapes and costs are made from the plan only by [`Recording::stop`], so what is measured
//! is not slowed by being described.
//!
//! Work runs later than it is recorded. A kernel belongs to the layer, the line and the range its op was *recorded* in,
//! whenever it ran; a fused kernel belongs to its last op, and with [`Profiler::split_layers`] to each layer that has an op in it, by
//! what the ops cost. The time of a range on the clock of its thread is another
//! thing: [`Profile::phases`] tells both apart, and adds up to the wall clock.
//!
//! Invariant: while no profiler runs, all of this costs one relaxed load for each batch of steps. Without the feature
//! `profiling` it is not in the program.
use crate::{
    Device, Error, ErrorKind, Meta, Op, Origin, Result, cost,
    expr::{Expr, Instr},
    kernel::KernelKind,
    op::ConvRole,
    product::Sums,
    scope,
};
use adamant_runtime::plan::{Plan, Sized, SizedOperand};
use parking_lot::Mutex;
use std::{
    cell::Cell,
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

mod averages;
mod chrome;
mod monitor;
mod phases;
mod processor;
mod steps;
pub use averages::{Average, Averages, Ceilings, GroupBy, SortBy};
pub use monitor::{OperationSummary, PerformanceMonitor, PerformanceReport};
pub use phases::{Phase, Phases};
pub use processor::{ProcessorTimes, ProcessorUse};
pub use steps::{MetricSummary, PerformanceSummary, StepRecord};

static ON: AtomicBool = AtomicBool::new(false);
static EVENTS: Mutex<Vec<ProfileEvent>> = Mutex::new(Vec::new());
static THREADS: Mutex<Vec<String>> = Mutex::new(Vec::new());
thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Is a profiler running?
pub(crate) fn is_on() -> bool {
    ON.load(Relaxed)
}
/// Something that began and ended.
pub(crate) struct ProfileEvent {
    pub what: EventKind,
    pub thread: u32,
    pub begin: Instant,
    pub end: Instant,
}
/// A step that ran. What it is called and costs follows from the plan, when somebody asks.
pub(crate) struct Ran {
    pub plan: Arc<Plan>,
    pub sized: Arc<Sized>,
    pub step: u32,
    pub origin: Origin,
    pub device: Device,
    pub live_bytes: Option<usize>,
    /// the nodes of the plan that run in it and where each was recorded, if layers are to be told apart
    pub parts: Box<[(u32, scope::ScopeId)]>,
}
pub(crate) enum EventKind {
    Kernel(Box<Ran>),
    Span(SpanKind, Arc<str>),
}
pub(crate) fn keep(events: impl IntoIterator<Item = ProfileEvent>) {
    EVENTS.lock().extend(events);
}
/// The number of this thread in profiles.
pub(crate) fn this_thread() -> u32 {
    if THREAD.get() == u32::MAX {
        let mut threads = THREADS.lock();
        THREAD.set(threads.len() as u32);
        threads.push(std::thread::current().name().unwrap_or("thread").to_string());
    }
    THREAD.get()
}

/// Settings of a profile.
///
/// ```
/// # use adamant_core::{Device, Tensor, profile::{Profiler, record_function}};
/// # Device::reference().make_current();
/// let recording = Profiler::new().record_shapes(true).start()?;
/// {
///     let _range = record_function("forward");
///     Tensor::ones([4, 4]).matmul(Tensor::ones([4, 4])).materialize()?;
/// }
/// let profile = recording.stop();
/// println!("{}", profile.key_averages().table(Default::default(), 10));
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Profiler {
    shapes: bool,
    memory: bool,
    layers: bool,
    since: Option<Instant>,
}
impl Profiler {
    /// Times of kernels and ranges.
    pub fn new() -> Profiler {
        Profiler::default()
    }
    /// Should the same kernel on other shapes count as another one?
    pub fn record_shapes(self, shapes: bool) -> Profiler {
        Profiler { shapes, ..self }
    }
    /// Should the bytes that tensors hold be kept for each kernel?
    pub fn profile_memory(self, memory: bool) -> Profiler {
        Profiler { memory, ..self }
    }
    /// Should a fused kernel say which layers have ops in it, and with what share of its cost ([`Kernel::layers`])?
    pub fn split_layers(self, layers: bool) -> Profiler {
        Profiler { layers, ..self }
    }
    /// Lets the profile's clock begin at an earlier moment, as that of the program, whose ranges are then told with
    /// [`Recording::add_range`].
    pub fn since(self, begin: Instant) -> Profiler {
        Profiler { since: Some(begin), ..self }
    }
    /// Begins to record, in all threads of the process.
    ///
    /// # Errors
    /// A profiler is running already.
    #[track_caller]
    pub fn start(self) -> Result<Recording> {
        if ON.swap(true, Relaxed) {
            return Err(Error::new("profile", ErrorKind::Argument("a profiler is running already: stop it first".into())));
        }
        EVENTS.lock().clear();
        MEMORY.store(self.memory, Relaxed);
        LAYERS.store(self.layers, Relaxed);
        let begin = self.since.unwrap_or_else(Instant::now);
        Ok(Recording { settings: self, thread: this_thread(), begin })
    }
}
static MEMORY: AtomicBool = AtomicBool::new(false);
static LAYERS: AtomicBool = AtomicBool::new(false);
/// Does somebody want to know which layers have ops in a kernel?
pub(crate) fn splits_layers() -> bool {
    LAYERS.load(Relaxed)
}
/// The bytes that tensors hold now, if somebody wants to know.
pub(crate) fn live_bytes(device: Device) -> Option<usize> {
    MEMORY.load(Relaxed).then(|| device.memory().live_bytes)
}

/// A profiler that runs. Dropped, it stops and forgets.
#[must_use = "what is recorded is told by `stop`"]
#[derive(Debug)]
pub struct Recording {
    settings: Profiler,
    thread: u32,
    begin: Instant,
}
impl Drop for Recording {
    fn drop(&mut self) {
        ON.store(false, Relaxed);
        EVENTS.lock().clear();
    }
}
impl Recording {
    /// A range of this thread that has passed already.
    pub fn add_range(&self, name: &str, begin: Instant, end: Instant) {
        keep([ProfileEvent { what: EventKind::Span(SpanKind::Range, name.into()), thread: this_thread(), begin, end }]);
    }
    /// Ends recording and tells what was seen. Work that was recorded as ops and has not run yet is not seen: evaluate
    /// what belongs to the profile first.
    pub fn stop(self) -> Profile {
        ON.store(false, Relaxed);
        let wall = self.begin.elapsed();
        let events = std::mem::take(&mut *EVENTS.lock());
        let mut profile =
            Profile { kernels: Vec::new(), spans: Vec::new(), threads: THREADS.lock().clone(), thread: self.thread, wall, shapes: self.settings.shapes };
        let mut names = KernelNames::default();
        for ProfileEvent { what, thread, begin, end } in events {
            let (at, time) = (begin.saturating_duration_since(self.begin), end.saturating_duration_since(begin));
            match what {
                EventKind::Kernel(ran) => profile.kernels.push(names.kernel(&ran, thread, at, time)),
                EventKind::Span(kind, name) => profile.spans.push(Span { kind, name, thread, begin: at, time }),
            }
        }
        profile
    }
}
/// Profiles what `f` does.
///
/// # Errors
/// A profiler is running already.
#[track_caller]
pub fn profile<R>(f: impl FnOnce() -> R) -> Result<(R, Profile)> {
    let recording = Profiler::new().start()?;
    let result = f();
    Ok((result, recording.stop()))
}

/// A range of code that a user named, or work of the scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// whose
    pub kind: SpanKind,
    /// its name; of a flush, the ops of its window
    pub name: Arc<str>,
    /// an index of [`Profile::threads`]
    pub thread: u32,
    /// since the profiler was started
    pub begin: Duration,
    /// how long it took on the clock
    pub time: Duration,
}
/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanKind {
    /// [`record_function`]
    Range,
    /// a window of recorded ops that runs: finding its plan, memory, the kernels
    Flush,
    /// a plan that is made, within a flush
    Plan,
}
impl SpanKind {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            SpanKind::Range => "range",
            SpanKind::Flush => "flush",
            SpanKind::Plan => "plan",
        }
    }
}

/// Ends its range when dropped.
#[must_use = "the range ends when the guard is dropped"]
pub struct RangeGuard(Option<(Arc<str>, Instant, scope::ScopeGuard)>);
impl Drop for RangeGuard {
    fn drop(&mut self) {
        if let Some((name, begin, _)) = self.0.take()
            && is_on()
        {
            keep([ProfileEvent { what: EventKind::Span(SpanKind::Range, name), thread: this_thread(), begin, end: Instant::now() }]);
        }
    }
}
/// Names the code until the guard is dropped: `forward`, `data_loading`. Ranges nest; ops belong to the innermost. Costs
/// one load while no profiler runs.
#[track_caller]
pub fn record_function(name: &str) -> RangeGuard {
    if !is_on() {
        return RangeGuard(None);
    }
    let name: Arc<str> = name.into();
    let guard = scope::enter_range(&name);
    RangeGuard(Some((name, Instant::now(), guard)))
}

/// A kernel that ran.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// the ops in it, joined by `+`: `mul+add+gelu`
    pub name: Arc<str>,
    /// the family of kernels: `map`, `matmul`, ...
    pub family: &'static str,
    /// shapes and dtypes of what it reads
    pub inputs: Vec<Meta>,
    /// shapes and dtypes of what it writes
    pub outputs: Vec<Meta>,
    /// floating-point operations, as [`crate::cost`] counts them; 0 where they are not known
    pub flops: u64,
    /// bytes of the elements it reads and writes, each counted once
    pub bytes: u64,
    /// where its op was applied
    pub origin: Origin,
    /// the path of layers it was recorded in; empty outside any
    pub layer: Arc<str>,
    /// with [`Profiler::split_layers`]: the paths that its ops were recorded in, and each one's share of what they cost: floating-point
    /// operations, or where an op has none (a cast, a choice) one for each element that it makes. The shares add up to 1
    pub layers: Vec<(Arc<str>, f64)>,
    /// the range it was recorded in, if any
    pub range: Option<Arc<str>>,
    /// where it ran
    pub device: Device,
    /// an index of [`Profile::threads`]
    pub thread: u32,
    /// since the profiler was started
    pub begin: Duration,
    /// how long it took
    pub time: Duration,
    /// bytes that tensors held on the device when it had run, with [`Profiler::profile_memory`]
    pub live_bytes: Option<usize>,
}
/// What was seen between start and stop.
#[derive(Clone, Debug)]
pub struct Profile {
    /// the kernels, in the order they ended
    pub kernels: Vec<Kernel>,
    /// ranges and the scheduler's own work
    pub spans: Vec<Span>,
    /// names of threads
    pub threads: Vec<String>,
    /// the thread that started the profiler
    pub thread: u32,
    /// from start to stop
    pub wall: Duration,
    shapes: bool,
}

/// What a kernel is called and costs, looked up once for each step of a plan.
#[derive(Default)]
struct KernelNames {
    of: HashMap<(usize, usize, u32), Described>,
    layers: HashMap<u32, (Arc<str>, Option<Arc<str>>)>,
}
#[derive(Clone)]
struct Described {
    name: Arc<str>,
    family: &'static str,
    inputs: Vec<Meta>,
    outputs: Vec<Meta>,
    flops: u64,
}
impl KernelNames {
    fn kernel(&mut self, ran: &Ran, thread: u32, begin: Duration, time: Duration) -> Kernel {
        let key = (Arc::as_ptr(&ran.plan) as usize, Arc::as_ptr(&ran.sized) as usize, ran.step);
        let Described { name, family, inputs, outputs, flops } = self.of.entry(key).or_insert_with(|| describe(ran)).clone();
        let scope = ran.origin.scope;
        let (layer, range) = self.layers.entry(scope.0).or_insert_with(|| (scope::path(scope).into(), scope::range(scope))).clone();
        let bytes = inputs.iter().chain(&outputs).map(|m| m.bytes() as u64).sum();
        let layers = self.shares(ran);
        let Ran { origin, device, live_bytes, .. } = *ran;
        Kernel { name, family, inputs, outputs, flops, bytes, origin, layer, layers, range, device, thread, begin, time, live_bytes }
    }
    /// The layers that have ops in a kernel, in the order of their first. Costs are those of the sizes that the plan was made for: a
    /// batch of another size has all ops of a kernel grow alike.
    fn shares(&mut self, ran: &Ran) -> Vec<(Arc<str>, f64)> {
        let mut shares: Vec<(Arc<str>, f64)> = Vec::new();
        for &(node, scope) in &ran.parts {
            let layer = self.layers.entry(scope.0).or_insert_with(|| (scope::path(scope).into(), scope::range(scope))).0.clone();
            let weight = weight(&ran.plan, node);
            match shares.iter_mut().find(|(known, _)| *known == layer) {
                Some((_, share)) => *share += weight,
                None => shares.push((layer, weight)),
            }
        }
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        shares.iter_mut().for_each(|(_, share)| *share /= total);
        shares
    }
}
/// What a node of a plan costs beside the others of its kernel: never nothing.
fn weight(plan: &Plan, node: u32) -> f64 {
    let (graph, node) = (&plan.graph, &plan.graph.nodes[node as usize]);
    let inputs: Vec<Meta> = node.inputs.iter().map(|&v| graph.vals[v as usize].meta).collect();
    let outputs: Vec<Meta> = (node.first..node.first + node.outputs).map(|v| graph.vals[v as usize].meta).collect();
    let flops = cost::of(&node.op, &inputs, &outputs).map_or(0, |c| c.flops);
    let made: usize = outputs.iter().map(|m| m.shape.elements()).sum();
    flops.max(made as u64).max(1) as f64
}
fn describe(ran: &Ran) -> Described {
    let (step, sized) = (&ran.plan.steps[ran.step as usize], &ran.sized.steps[ran.step as usize]);
    let meta = |o: &SizedOperand| Meta { shape: o.shape, dtype: o.dtype, device: ran.device };
    // An input that is repeated along an axis is read once.
    let inputs: Vec<Meta> = sized.inputs.iter().map(|o| Meta { shape: o.place.layout.distinct(&o.shape), ..meta(o) }).collect();
    let outputs: Vec<Meta> = sized.outputs.iter().map(meta).collect();
    let elements = sized.space.elements() as u64;
    let of_op = |op: &Op, inputs: &[Meta]| cost::of(op, inputs, &outputs).map_or(0, |c| c.flops);
    let flops = match &step.kernel.kind {
        KernelKind::Map { expr, .. } => arithmetic(expr) * elements,
        KernelKind::Reduce { expr, .. } => (arithmetic(expr) + 1) * elements,
        KernelKind::Product(product) => {
            let of = |k: usize| sized.inputs.get(if k == 0 { 0 } else { product.loads(0) }).map_or(0, |o| o.shape.elements() as u64);
            // Each sum is as long as what makes it: of rows, or of what a kernel sees.
            let length = match &product.sums {
                // Nothing runs behind the gradients of a convolution.
                Sums::Conv(spec) if spec.role != ConvRole::Forward => {
                    let operands: Vec<Meta> = [0, product.loads(0)].iter().filter_map(|&k| sized.inputs.get(k).map(meta)).collect();
                    of_op(&Op::Conv(spec.clone()), &operands) / (2 * elements).max(1)
                }
                Sums::Matmul => sized.inputs.first().and_then(|a| a.shape.last().copied()).unwrap_or(0) as u64,
                Sums::Conv(_) => of(1) / sized.inputs.get(product.loads(0)).map_or(1, |w| w.shape.first().copied().unwrap_or(1).max(1)) as u64,
            };
            let before: u64 = (0..2).map(|k| arithmetic(&product.prologue[k].expr) * of(k)).sum();
            before + (2 * length + arithmetic(&product.epilogue.expr)) * elements
        }
        // A composite without a body, or one whose body refuses these shapes: its cost is not known.
        _ => of_op(&ran.plan.graph.nodes[step.node as usize].op, &sized.inputs.iter().map(meta).collect::<Vec<_>>()),
    };
    Described { name: ran.plan.ops_of(step).join("+").into(), family: step.kernel.kind.family(), inputs, outputs, flops }
}
fn arithmetic(expr: &Expr) -> u64 {
    expr.instrs.iter().filter(|i| matches!(i, Instr::Unary(..) | Instr::Binary(..))).count() as u64
}
