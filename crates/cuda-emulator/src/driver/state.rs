//! All that the driver keeps, in tables by handle: a handle is a number that is looked up, never a pointer that is followed.
use super::capture::Capture;
use super::clock::{CardSpan, VirtualClock};
use super::code::{Answer, CudaCode};
use super::graph::{ExecutableGraph, Graph};
use super::host::LockedMemory;
use super::kernels::{KernelFacts, LoadedCode};
use super::order::{Accesses, DoneLog, Range, Unordered, VectorClock};
use super::profile::CardProfile;
use super::queue::StreamTask;
use crate::emulator::{Options, TextRewriter};
use crate::library::LibraryState;
use crate::machine::finding::{Finding, FindingKind};
use crate::memory::{DeviceMemory, Physical};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Handles begin here and are no address of anything; each is given once.
const FIRST_HANDLE: u64 = 0x0ada_0000_0000_1000;
/// Beyond this, what is noted down is noted no more.
const NOTED: usize = 1 << 20;

/// Names of the streams that nobody made.
pub(crate) const LEGACY: u64 = 1;
pub(crate) const PER_THREAD: u64 = 2;

thread_local! {
    /// The contexts of this thread; the last is the current one.
    static CONTEXTS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// Which calls this thread may make while a stream captures (`CUstreamCaptureMode`).
    pub(super) static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
}
/// A thread, as a number.
pub(crate) fn this_thread() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local!(static ME: u64 = NEXT.fetch_add(1, Ordering::Relaxed));
    ME.with(|me| *me)
}
/// Does something with the contexts of this thread.
pub(super) fn with_contexts<T>(act: impl FnOnce(&mut Vec<u64>) -> T) -> T {
    CONTEXTS.with_borrow_mut(act)
}

/// A card.
pub(crate) struct EmulatedCard {
    pub memory: Arc<DeviceMemory>,
    /// The handle of its primary context, the same for ever.
    pub primary: u64,
    pub retained: u32,
    pub flags: u32,
    /// Who touched what last.
    pub accesses: Accesses,
}
impl EmulatedCard {
    /// Memory that is about to be gone.
    pub fn forget(&mut self, address: u64, bytes: u64) {
        self.memory.places(address, bytes).for_each(|(place, bytes)| self.accesses.forget(place, bytes));
    }
}
/// A context.
pub(crate) struct CardContext {
    pub device: usize,
    pub flags: u32,
    /// What went wrong and stays.
    pub lost: Option<CudaCode>,
    pub legacy: u64,
    /// Default streams of threads.
    pub per_thread: HashMap<u64, u64>,
    /// Contexts whose memory this one may touch.
    pub peers: HashSet<u64>,
    pub limits: HashMap<u32, usize>,
}
/// A stream: work in its order.
pub(crate) struct CardStream {
    pub context: u64,
    pub flags: u32,
    pub priority: i32,
    /// The default stream of old, which all but the non-blocking ones are ordered with.
    pub legacy: bool,
    pub work: VecDeque<StreamTask>,
    /// The last work that was put in.
    pub last: Option<u64>,
    pub capture: Option<u64>,
    pub clock: VectorClock,
    /// When its last work ended, ns.
    pub time: f64,
}
impl CardStream {
    /// Is it ordered with the default stream of old?
    pub fn blocking(&self) -> bool {
        !self.legacy && self.flags & 1 == 0
    }
}
/// What an event was recorded as, last.
#[derive(Clone)]
pub(crate) enum EventRecord {
    Never,
    /// In a stream: the work it stands for, when that is done, and what comes before.
    Work {
        task: u64,
        at: Option<f64>,
        clock: VectorClock,
    },
    /// In a capture: the nodes it stands for.
    Captured {
        capture: u64,
        nodes: Vec<usize>,
    },
}
/// An event.
pub(crate) struct Event {
    pub context: u64,
    pub flags: u32,
    pub recorded: EventRecord,
}
/// A module: its code with the places of its variables.
#[derive(Clone)]
pub(crate) struct ContextModule {
    pub context: u64,
    pub loaded: Arc<LoadedCode>,
    pub functions: HashMap<String, u64>,
}
/// A kernel of a module.
#[derive(Clone)]
pub(crate) struct KernelFunction {
    pub module: u64,
    pub context: u64,
    pub kernel: Arc<KernelFacts>,
    pub name: std::ffi::CString,
    pub loaded: Arc<LoadedCode>,
    /// Bytes of dynamic shared memory that it may ask for.
    pub dynamic_shared: u32,
    pub carveout: i32,
    pub target: u32,
}
/// Memory that may be mapped.
pub(crate) struct Allocated {
    pub device: usize,
    pub bytes: u64,
    pub physical: Physical,
    /// Released by its owner; goes with its last mapping.
    pub released: bool,
    pub mappings: u32,
}
/// A range of addresses, and what is mapped into it.
pub(crate) struct Reserved {
    pub device: usize,
    pub bytes: u64,
    /// By its address: bytes, which memory.
    pub mapped: BTreeMap<u64, (u64, u64)>,
}
/// An error that was planted, and after how many more calls it comes.
pub(crate) struct PlantedError {
    pub call: String,
    pub left: u64,
    pub code: u32,
}
/// A launch that was noted down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmulatedLaunch {
    /// The kernel, or `cublasLtMatmul`.
    pub kernel: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of shared memory, asked for and its own.
    pub shared: u32,
    /// The stream's handle.
    pub stream: u64,
    /// Put in by a graph's launch.
    pub by_graph: bool,
}

/// All of it.
pub(crate) struct DriverState {
    pub options: Options,
    pub profile: &'static CardProfile,
    pub initialised: bool,
    pub devices: Vec<EmulatedCard>,
    pub contexts: HashMap<u64, CardContext>,
    pub streams: BTreeMap<u64, CardStream>,
    pub events: HashMap<u64, Event>,
    pub modules: HashMap<u64, ContextModule>,
    pub functions: HashMap<u64, KernelFunction>,
    pub graphs: HashMap<u64, Graph>,
    pub executables: HashMap<u64, ExecutableGraph>,
    /// A graph's nodes: which graph, which number.
    pub nodes: HashMap<u64, (u64, usize)>,
    pub captures: HashMap<u64, Capture>,
    pub allocated: HashMap<u64, Allocated>,
    pub reserved: BTreeMap<u64, Reserved>,
    pub host: LockedMemory,
    pub library: LibraryState,
    /// Work that is not done, whichever stream holds it.
    pub pending: HashSet<u64>,
    /// When work ended that is done, while some is pending, ns.
    pub ends: HashMap<u64, f64>,
    pub clock: VirtualClock,
    /// What the host waited for comes before all that it asks for next.
    pub host_clock: VectorClock,
    /// What is done, and of the work that runs now what it is not ordered with and what it touched so far.
    pub log: DoneLog,
    pub unordered: Unordered,
    pub touching: Vec<Range>,
    /// How much work has run; when the host was last called; what was written to locked memory, and when.
    pub performed: u64,
    pub called_back: u64,
    pub written_by_device: Vec<(u64, u64, u64)>,
    pub random: DriverRandom,
    pub findings: Vec<Finding>,
    pub launches: Vec<EmulatedLaunch>,
    pub waits: Vec<&'static str>,
    pub spans: Vec<CardSpan>,
    pub planted: Vec<PlantedError>,
    pub rewriter: Option<TextRewriter>,
    next_handle: u64,
    next_task: u64,
}

impl DriverState {
    /// A machine whose driver nobody has called yet.
    pub fn new(options: Options, profile: &'static CardProfile) -> DriverState {
        let mut state = DriverState {
            profile,
            initialised: false,
            devices: Vec::new(),
            contexts: HashMap::new(),
            streams: BTreeMap::new(),
            events: HashMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            graphs: HashMap::new(),
            executables: HashMap::new(),
            nodes: HashMap::new(),
            captures: HashMap::new(),
            allocated: HashMap::new(),
            reserved: BTreeMap::new(),
            host: LockedMemory::default(),
            library: LibraryState::default(),
            pending: HashSet::new(),
            ends: HashMap::new(),
            clock: VirtualClock::default(),
            host_clock: VectorClock::default(),
            log: DoneLog::default(),
            unordered: Unordered::default(),
            touching: Vec::new(),
            performed: 0,
            called_back: 0,
            written_by_device: Vec::new(),
            random: DriverRandom::new(options.seed),
            findings: Vec::new(),
            launches: Vec::new(),
            waits: Vec::new(),
            spans: Vec::new(),
            planted: Vec::new(),
            rewriter: None,
            next_handle: FIRST_HANDLE,
            next_task: 1,
            options,
        };
        for number in 0..state.options.devices {
            let memory = Arc::new(DeviceMemory::of_device(number, state.options.memory.unwrap_or(profile.memory)));
            let primary = state.handle();
            state.devices.push(EmulatedCard { memory, primary, retained: 0, flags: 0, accesses: Accesses::default() });
        }
        state
    }
    /// A handle that nobody has.
    pub fn handle(&mut self) -> u64 {
        self.next_handle += 0x40;
        self.next_handle
    }
    /// The next piece of work's number.
    pub fn task_number(&mut self) -> u64 {
        self.next_task += 1;
        self.next_task
    }

    /// The driver was initialised.
    pub fn ready(&self) -> Answer {
        if self.initialised { Ok(()) } else { Err(CudaCode::NOT_INITIALIZED) }
    }
    /// The card of this number.
    pub fn device(&self, ordinal: i32) -> Answer<usize> {
        self.ready()?;
        usize::try_from(ordinal).ok().filter(|d| *d < self.devices.len()).ok_or(CudaCode::INVALID_DEVICE)
    }
    /// The context of this thread, which may be lost.
    pub fn current_if_lost(&self) -> Answer<u64> {
        self.ready()?;
        let current = with_contexts(|all| all.last().copied()).ok_or(CudaCode::INVALID_CONTEXT)?;
        if self.contexts.contains_key(&current) { Ok(current) } else { Err(CudaCode::CONTEXT_IS_DESTROYED) }
    }
    /// The context of this thread, which works.
    pub fn current(&self) -> Answer<u64> {
        let current = self.current_if_lost()?;
        match self.context(current)?.lost {
            Some(code) => Err(code),
            None => Ok(current),
        }
    }
    pub fn context(&self, handle: u64) -> Answer<&CardContext> {
        self.contexts.get(&handle).ok_or(CudaCode::INVALID_CONTEXT)
    }
    /// The card of a context.
    pub fn card(&self, context: u64) -> Answer<&EmulatedCard> {
        self.devices.get(self.context(context)?.device).ok_or(CudaCode::INVALID_CONTEXT)
    }
    /// The memory of this thread's card.
    pub fn memory(&self) -> Answer<Arc<DeviceMemory>> {
        Ok(self.card(self.current()?)?.memory.clone())
    }
    /// The stream that a caller names, which must be of the current context.
    pub fn stream(&mut self, handle: u64) -> Answer<u64> {
        let current = self.current()?;
        match handle {
            0 | LEGACY => Ok(self.context(current)?.legacy),
            PER_THREAD => {
                let me = this_thread();
                if let Some(stream) = self.context(current)?.per_thread.get(&me) {
                    return Ok(*stream);
                }
                let stream = self.new_stream(current, 0, 0, false);
                if let Some(context) = self.contexts.get_mut(&current) {
                    context.per_thread.insert(me, stream);
                }
                Ok(stream)
            }
            made => match self.streams.get(&made) {
                Some(stream) if stream.context == current && !stream.legacy => Ok(made),
                _ => Err(CudaCode::INVALID_HANDLE),
            },
        }
    }
    /// An event of the current context.
    pub fn event(&self, handle: u64) -> Answer<&Event> {
        let current = self.current()?;
        self.events.get(&handle).filter(|e| e.context == current).ok_or(CudaCode::INVALID_HANDLE)
    }
    /// A stream of a context.
    pub fn new_stream(&mut self, context: u64, flags: u32, priority: i32, legacy: bool) -> u64 {
        let handle = self.handle();
        let stream =
            CardStream { context, flags, priority, legacy, work: VecDeque::new(), last: None, capture: None, clock: VectorClock::default(), time: 0.0 };
        self.streams.insert(handle, stream);
        handle
    }
    /// A context of a card, under this handle.
    pub fn open_context(&mut self, handle: u64, device: usize, flags: u32) {
        let legacy = self.new_stream(handle, 0, 0, true);
        let per_thread = HashMap::new();
        self.contexts.insert(handle, CardContext { device, flags, lost: None, legacy, per_thread, peers: HashSet::new(), limits: HashMap::new() });
    }
    /// A context goes, and with it all that is of it; memory of a primary context's card is the context's.
    pub fn close_context(&mut self, handle: u64) {
        let Some(context) = self.contexts.remove(&handle) else { return };
        let gone: Vec<u64> = self.streams.iter().filter(|(_, s)| s.context == handle).map(|(h, _)| *h).collect();
        for stream in gone {
            self.drop_stream(stream);
        }
        self.captures.retain(|_, c| c.context != handle);
        self.events.retain(|_, e| e.context != handle);
        self.modules.retain(|_, m| m.context != handle);
        self.functions.retain(|_, f| f.context != handle);
        self.executables.retain(|_, g| g.context != handle);
        self.host.forget(handle);
        if let Some(device) = self.devices.get_mut(context.device).filter(|d| d.primary == handle) {
            device.memory.clear();
            device.accesses.clear();
            self.log.forget(&self.host_clock);
            self.allocated.retain(|_, a| a.device != context.device);
            self.reserved.retain(|_, r| r.device != context.device);
        }
    }
    /// A stream goes with the work it holds.
    pub fn drop_stream(&mut self, handle: u64) {
        let Some(stream) = self.streams.remove(&handle) else { return };
        for task in stream.work {
            self.pending.remove(&task.number);
        }
    }

    /// Notes a finding.
    pub fn find(&mut self, finding: Finding) {
        if self.findings.len() < NOTED {
            self.findings.push(finding);
        }
    }
    /// Notes what a call of the driver's did wrong.
    pub fn find_of_call(&mut self, kind: FindingKind, call: &str, what: String, address: Option<u64>) {
        let (kernel, instruction) = (call.to_owned(), String::new());
        self.find(Finding { kind, kernel, line: 0, instruction, block: [0; 3], thread: [0; 3], address, other: None, note: what });
    }
    /// The host waits in this call.
    pub fn waits(&mut self, call: &'static str) {
        if self.waits.len() < NOTED {
            self.waits.push(call);
        }
    }
    /// Notes a launch, where launches are asked for.
    pub fn launched(&mut self, launched: impl FnOnce() -> EmulatedLaunch) {
        if self.options.record && self.launches.len() < NOTED {
            self.launches.push(launched());
        }
    }
    /// Notes work on the virtual clock, where it is asked for.
    pub fn spent(&mut self, span: impl FnOnce() -> CardSpan) {
        if self.options.record && self.spans.len() < NOTED {
            self.spans.push(span());
        }
    }
}

/// Numbers that look drawn, from a seed (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug, Clone)]
pub(crate) struct DriverRandom(u64);

impl DriverRandom {
    pub fn new(seed: u64) -> DriverRandom {
        DriverRandom(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6a09_e667_f3bc_c908)
    }
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    /// One of `0..count`; 0 where there is none.
    pub fn below(&mut self, count: usize) -> usize {
        if count < 2 { 0 } else { (self.next() % count as u64) as usize }
    }
}
