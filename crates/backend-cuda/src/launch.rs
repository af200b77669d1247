//! The launches of one turn: recorded step by step, then issued in their order. The words of a launch (sizes, strides, arguments) go
//! with it; where they are too many, or change from run to run of a graph, they lie in one block, which is copied before the
//! launches. Reports of bad data go to the run's words; where the host wants them at once, to a block that it reads when
//! everything is done. A launch that bad data forbids looks at a word that a gate before it has written.
mod library;

use crate::{
    blaslt::{LtPlan, WORKSPACE},
    driver::{self, DriverError, GivenWords, GraphHandle, StreamHandle},
    memory::{DeviceBlock, ours},
    opened::{CompiledKernel, Opened, internal, prepared},
    times::TurnTimes,
    words::{CudaWords, REPORT, fault},
};
use adamant_kernels::{
    Again, ArgumentPlace, Array, Bindings, CUDA_WORDS, CompiledText, Cuda, Found, Key, LaunchTarget, Launcher, Nest, Place, Strides, Work, skeleton::gate,
};
use adamant_runtime::{
    DType, ErrorKind, Shape,
    backend::{Event, Queue, When},
    buffer::{Events, also},
    kernel::{FaultWord, Kernel, KernelKind, Operand, Step},
};
use library::{LibraryLaunch, Refusal};
use smallvec::SmallVec;
use std::{
    ops::{Deref, Range},
    ptr,
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// What is bound to a launch.
#[derive(Clone, Copy)]
enum Resource {
    /// an address
    At(u64),
    /// memory between two launches of one step
    Scratch,
    /// where bad data is reported
    Reports,
    /// what the gates write
    Gates,
}
enum Issued<'a> {
    Kernel(Launch),
    Library(LibraryLaunch<'a>),
}
/// The words of a launch: sizes, strides, arguments.
#[derive(Clone)]
enum LaunchWords {
    /// go with it: this part of [`Launches::given`]
    Given(Range<usize>),
    /// lie on the device, from this place among [`Launches::parameters`] on
    Placed(usize),
}
struct Launch {
    kernel: Arc<CompiledKernel>,
    resources: SmallVec<[Resource; 8]>,
    words: LaunchWords,
    blocks: u32,
    /// the gate that it looks at
    gate: Option<usize>,
}
/// What lets launches run: if one of the words, by their places, is raised, or if none is.
struct Gate {
    words: CudaWords,
    places: Vec<u32>,
    if_raised: bool,
    /// the launches before it
    before: usize,
}
/// A gate writes a grid, whose first number is the word that launches look at.
const GRID: u64 = 12;
/// The launches of a turn.
pub(crate) struct Launches<'a> {
    pub opened: &'a Arc<Opened>,
    launches: Vec<Issued<'a>>,
    /// words that go with their launches
    given: Vec<u32>,
    /// words that lie on the device: too many to go with a launch, or such as change between the runs of a graph
    parameters: Vec<u32>,
    /// where the steps' arguments lie among them
    arguments: Vec<ArgumentPlace>,
    /// Is it to be a graph?
    becomes_graph: bool,
    reports: Vec<(&'a FaultWord, Found)>,
    gates: Vec<Gate>,
    /// Does the host want to know of bad data when the call returns?
    pub hears: bool,
    /// kernels leave the matrix unit alone
    pub is_plain: bool,
    scratch_words: u64,
    /// where passes begin that are timed
    passes: Vec<usize>,
    /// only what it compiles matters
    warms_up: bool,
    /// what is recorded now
    current: Option<Current<'a>>,
    /// the kernels of what is recorded now, as skeletons number them
    compiled: Vec<Arc<CompiledKernel>>,
    /// those of all that is recorded that are not loaded yet
    unloaded: Vec<Arc<CompiledKernel>>,
    /// what the memory of operands was used for before
    behind: Events,
}
/// The kernel that is recorded, where it reports, and the addresses of its operands by their buffers' numbers.
#[derive(Clone)]
struct Current<'a> {
    kernel: CurrentKernel<'a>,
    fault: &'a FaultWord,
    /// the run's words, and the one that it reports to
    words: Option<(CudaWords, Option<u32>)>,
    gate: Option<usize>,
    buffers: SmallVec<[(usize, u64); 8]>,
}
/// A step's kernel, or that of a part of it.
#[derive(Clone)]
enum CurrentKernel<'a> {
    Whole(&'a Kernel),
    Part(Arc<Kernel>),
}
impl Deref for CurrentKernel<'_> {
    type Target = Kernel;
    fn deref(&self) -> &Kernel {
        match self {
            CurrentKernel::Whole(kernel) => kernel,
            CurrentKernel::Part(kernel) => kernel,
        }
    }
}
/// A step as skeletons see it.
pub(crate) struct HeldStep<'a> {
    step: Step<'a>,
    inputs: SmallVec<[Array; 4]>,
    outputs: SmallVec<[Array; 4]>,
}
impl<'a> HeldStep<'a> {
    pub fn new(step: &Step<'a>) -> HeldStep<'a> {
        let arrays = |operands: &[Operand<'_>]| operands.iter().map(array).collect();
        HeldStep { step: *step, inputs: arrays(step.inputs), outputs: arrays(step.outputs) }
    }
    pub fn work(&self) -> Work<'_> {
        Work { space: self.step.space, inputs: &self.inputs, outputs: &self.outputs, args: self.step.args }
    }
}
/// A buffer's number is where it lies: while a step is recorded, it stays there.
fn number(o: &Operand<'_>) -> usize {
    ptr::from_ref(o.buffer) as usize
}
fn array(o: &Operand<'_>) -> Array {
    Array { buffer: number(o), shape: o.shape, offset: o.offset, strides: *o.strides, dtype: o.dtype, dense: o.dense }
}
/// The address of an operand's memory; what may use that still for whoever had it before is put to `behind`.
///
/// # Errors
/// It has no memory, or another backend's.
fn address(o: &Operand<'_>, behind: &mut Events) -> Result<u64, ErrorKind> {
    let guard = o.buffer.read();
    let memory = ours(guard.as_deref().ok_or_else(|| internal("a buffer without memory"))?)?;
    memory.behind().for_each(|event| also(behind, event));
    Ok(memory.address())
}
impl<'a> Launches<'a> {
    /// Nothing yet.
    pub fn new(opened: &'a Arc<Opened>) -> Launches<'a> {
        Launches {
            opened,
            launches: Vec::new(),
            given: Vec::new(),
            parameters: Vec::new(),
            arguments: Vec::new(),
            becomes_graph: false,
            reports: Vec::new(),
            gates: Vec::new(),
            hears: true,
            is_plain: false,
            scratch_words: 0,
            passes: Vec::new(),
            warms_up: false,
            current: None,
            compiled: Vec::new(),
            unloaded: Vec::new(),
            behind: Events::new(),
        }
    }
    /// Nothing yet, of what is to be a graph: [`Launches::freeze`].
    pub fn for_graph(opened: &'a Arc<Opened>) -> Launches<'a> {
        Launches { becomes_graph: true, hears: false, ..Launches::new(opened) }
    }
    /// What follows is the work of these steps, by the kernel of the first.
    ///
    /// # Errors
    /// Operands without memory.
    pub fn begin(&mut self, steps: &[Step<'a>]) -> Result<(), ErrorKind> {
        let Some(first) = steps.first() else { return Ok(()) };
        let mut buffers: SmallVec<[(usize, u64); 8]> = SmallVec::new();
        for o in steps.iter().flat_map(|s| s.inputs.iter().chain(s.outputs)) {
            if !buffers.iter().any(|b| b.0 == number(o)) {
                buffers.push((number(o), address(o, &mut self.behind)?));
            }
        }
        let words = first.guard.words.map(CudaWords::of).transpose()?;
        let gate = self.gate(words.as_ref(), first.guard.when);
        let words = words.map(|words| (words, first.guard.reports));
        self.current = Some(Current { kernel: CurrentKernel::Whole(first.kernel), fault: first.fault, words, gate, buffers });
        self.compiled.clear();
        Ok(())
    }
    /// As [`Launches::begin`], of a step that reports nothing, whose buffers lie at these addresses.
    pub fn begin_at(&mut self, kernel: &'a Kernel, buffers: &[(usize, u64)]) {
        static NO_FAULT: FaultWord = FaultWord::none();
        self.current =
            Some(Current { kernel: CurrentKernel::Whole(kernel), fault: &NO_FAULT, words: None, gate: None, buffers: SmallVec::from_slice(buffers) });
        self.compiled.clear();
    }
    /// What follows is launched when the words say so; a gate serves all that follow it with the same words.
    fn gate(&mut self, words: Option<&CudaWords>, when: When<'_>) -> Option<usize> {
        let (of, if_raised) = match when {
            When::Always => return None,
            When::Clean(of) => (of, false),
            When::Raised(of) => (of, true),
        };
        let words = words?;
        let places: Vec<u32> = of.iter().map(|word| word * REPORT).collect();
        let goes_on = self.gates.last().is_some_and(|g| g.words.is_same(words) && g.places == places && g.if_raised == if_raised);
        // What was launched since may have raised one of them.
        if !goes_on || self.launches.last().is_none_or(|l| !matches!(l, Issued::Kernel(Launch { gate: Some(_), .. }))) {
            self.gates.push(Gate { words: words.clone(), places, if_raised, before: self.launches.len() });
        }
        Some(self.gates.len() - 1)
    }
    /// Takes over the words of an earlier run.
    ///
    /// # Errors
    /// A text that cannot be compiled.
    pub fn inherit(&mut self, words: &CudaWords, number: u32, from: &CudaWords, of: &[u32]) -> Result<(), ErrorKind> {
        let kernel = self.opened.compiled(gate::inherits(&Cuda)?.1)?;
        self.unloaded.push(kernel.clone());
        let places: Vec<u32> = of.iter().map(|word| word * REPORT).collect();
        let resources = [from, words].map(|w| Resource::At(w.address()));
        let words = self.words(&gate::inheritance(&places, number * REPORT), &[]);
        self.push(kernel, SmallVec::from_iter(resources), words, 1);
        Ok(())
    }
    fn kernel(&self) -> Result<CurrentKernel<'a>, ErrorKind> {
        self.current.as_ref().map(|c| c.kernel.clone()).ok_or_else(|| internal("a launch outside a step"))
    }
    /// What follows is timed by itself.
    pub fn begin_pass(&mut self) {
        self.passes.push(self.launches.len());
    }
    fn push(&mut self, kernel: Arc<CompiledKernel>, resources: SmallVec<[Resource; 8]>, words: LaunchWords, blocks: u64) {
        let gate = self.current.as_ref().and_then(|c| c.gate);
        // More blocks than a grid has along x there are not: elements are counted in 32 bits.
        let blocks = blocks.clamp(1, i32::MAX as u64) as u32;
        self.launches.push(Issued::Kernel(Launch { kernel, resources, words, blocks, gate }));
    }
    /// Takes a launch's words; `changing` are the arguments among them.
    fn words(&mut self, words: &[u32], changing: &[ArgumentPlace]) -> LaunchWords {
        if words.len() <= CUDA_WORDS && (!self.becomes_graph || changing.is_empty()) {
            let at = self.given.len();
            self.given.extend_from_slice(words);
            return LaunchWords::Given(at..self.given.len());
        }
        let at = self.parameters.len();
        self.arguments.extend(changing.iter().map(|a| ArgumentPlace { word: at + a.word, ..*a }));
        self.parameters.extend_from_slice(words);
        LaunchWords::Placed(at)
    }
    /// What a launch is handed; `parameters` is where those lie that go with none.
    fn handed(&self, words: &LaunchWords, parameters: u64) -> GivenWords {
        let mut handed = GivenWords { at: 0, held: [0; CUDA_WORDS] };
        match words {
            LaunchWords::Placed(at) => handed.at = parameters + *at as u64 * 4,
            LaunchWords::Given(range) => {
                let given = self.given.get(range.clone()).unwrap_or_default();
                handed.held.iter_mut().zip(given).for_each(|(held, word)| *held = *word);
            }
        }
        handed
    }
    /// The launches of the gates, each with the number of launches before it.
    fn gate_launches(&mut self) -> Result<Vec<(usize, Launch)>, ErrorKind> {
        let gates = std::mem::take(&mut self.gates);
        if gates.is_empty() {
            return Ok(Vec::new());
        }
        let kernel = self.opened.compiled(gate::text(&Cuda)?.1)?;
        self.unloaded.push(kernel.clone());
        let launch = |(k, g): (usize, Gate)| {
            let words = self.words(&gate::parameters(&g.places, g.if_raised, k, &[[1, 0, 0]]), &[]);
            let resources = SmallVec::from_slice(&[Resource::At(g.words.address()), Resource::Gates]);
            (g.before, Launch { kernel: kernel.clone(), resources, words, blocks: 1, gate: None })
        };
        Ok(gates.into_iter().enumerate().map(launch).collect())
    }
    /// Issues the launches to a queue, behind events. Returns at once unless the host wants to know of bad data.
    ///
    /// # Errors
    /// A lost device, memory for scratch.
    pub fn run(self, queue: Queue, behind: &[Event]) -> Result<Event, ErrorKind> {
        if self.launches.is_empty() { self.opened.load(&self.unloaded).map(|()| Event::DONE) } else { self.run_timed(queue, behind, None) }
    }
    /// As [`Launches::run`], with the times of its passes.
    ///
    /// # Errors
    /// As [`Launches::run`].
    pub fn run_timed(mut self, queue: Queue, behind: &[Event], times: Option<&TurnTimes>) -> Result<Event, ErrorKind> {
        let opened = self.opened;
        let gates = self.ready()?;
        let piece = if self.parameters.is_empty() { None } else { Some(opened.pinned_words(&self.parameters, false)?) };
        let report_words = self.report_words();
        behind.iter().for_each(|event| also(&mut self.behind, *event));
        let mut turn = opened.queue(queue).turn(&opened.behind(queue, &self.behind))?;
        let stream = turn.stream();
        let shared = turn.shared();
        let places = TurnPlaces {
            parameters: DeviceBlock::grown(opened, &mut shared.parameters, self.parameters.len() * 4)?,
            reports: DeviceBlock::grown(opened, &mut shared.reports, report_words * 4)?,
            scratch: DeviceBlock::grown(opened, &mut shared.scratch, self.scratch_words as usize * 4)?,
            gates: DeviceBlock::grown(opened, &mut shared.gates, gates.len() * GRID as usize)?,
            workspace: if self.has_products() { DeviceBlock::grown(opened, &mut shared.workspace, WORKSPACE)? } else { 0 },
        };
        let event = turn.event();
        if let Some(piece) = piece {
            let placed = turn.call(|s| driver::to_device(places.parameters, &piece, self.parameters.len() * 4, s));
            opened.staging.give(piece, event);
            placed?;
        }
        if report_words > 0 {
            turn.call(|s| driver::fill(places.reports, gate::NOTHING, report_words, s))?;
        }
        let mut refused = self.issue(&gates, &places, stream, times)?;
        turn.end()?;
        if !refused.is_empty() {
            opened.wait(event)?;
            refused.drain(..).for_each(|(piece, _)| piece.into_iter().for_each(|piece| opened.staging.give(piece, event)));
        }
        opened.counts.submissions.fetch_add(1, Relaxed);
        opened.counts.launches.fetch_add((self.launches.len() + gates.len()) as u64, Relaxed);
        if report_words > 0 && self.hears {
            let mut found = vec![0u8; report_words * 4];
            opened.copy_out(queue, places.reports, found.len(), &[])?.finish(&mut found)?;
            for ((word, found), report) in self.reports.iter().zip(found.as_chunks::<{ 4 * REPORT as usize }>().0) {
                if let Some(fault) = fault(Some(*found), report) {
                    word.set(fault);
                }
            }
        }
        Ok(event)
    }
    /// Loads what is to be launched; the launches of the gates, each with the number of launches before it.
    fn ready(&mut self) -> Result<Vec<(usize, Launch)>, ErrorKind> {
        let gates = self.gate_launches()?;
        self.opened.load(&self.unloaded)?;
        Ok(gates)
    }
    fn report_words(&self) -> usize {
        self.reports.len() * REPORT as usize
    }
    fn has_products(&self) -> bool {
        self.launches.iter().any(|l| matches!(l, Issued::Library(_)))
    }
    /// Gives all launches to a stream. Gives the parameters of products that the library failed to compute: held until that
    /// has passed.
    ///
    /// # Errors
    /// A lost device, memory.
    fn issue(&mut self, gates: &[(usize, Launch)], places: &TurnPlaces, stream: StreamHandle, times: Option<&TurnTimes>) -> Result<Vec<Refusal>, ErrorKind> {
        let opened = self.opened;
        let issue = |l: &Launch| {
            let mut arguments: SmallVec<[u64; 16]> = SmallVec::new();
            arguments.push(l.gate.map_or(0, |k| places.gates + k as u64 * GRID));
            arguments.extend(l.resources.iter().map(|r| match *r {
                Resource::At(address) => address,
                Resource::Scratch => places.scratch,
                Resource::Reports => places.reports,
                Resource::Gates => places.gates,
            }));
            let (function, words) = (l.kernel.function()?, self.handed(&l.words, places.parameters));
            opened.context.call(|| driver::launch(function, l.blocks, l.kernel.threads, stream, &words, &arguments))
        };
        let mut refused = Vec::new();
        let mut next_gate = gates.iter().peekable();
        for (at, launch) in self.launches.iter().enumerate() {
            while let Some((_, gate)) = next_gate.next_if(|(before, _)| *before <= at) {
                issue(gate)?;
            }
            if let Some(times) = times {
                times.before(&self.passes, at, stream)?;
            }
            match launch {
                Issued::Kernel(launch) => issue(launch)?,
                Issued::Library(product) => refused.extend(product.issue(opened, places.workspace, stream)?),
            }
        }
        if let Some(times) = times {
            self.passes.push(self.launches.len());
            times.before(&self.passes, self.launches.len(), stream)?;
        }
        Ok(refused)
    }
    /// Keeps all launches as a graph over memory of its own. `argument`: the number of the argument whose value lies there.
    ///
    /// # Errors
    /// `Unsupported`: the host wants to know of bad data at once, or an argument is nobody's; a lost device, memory.
    pub fn freeze(mut self, argument: impl Fn(usize) -> Option<usize>) -> Result<FrozenLaunches, ErrorKind> {
        let opened = self.opened;
        let unsupported = |what: &str| ErrorKind::Unsupported { backend: "cuda".into(), what: what.into() };
        if !self.becomes_graph {
            return Err(internal("a graph of launches whose arguments went with them"));
        }
        if !self.reports.is_empty() {
            return Err(unsupported("frozen steps that report to the host"));
        }
        let gates = self.ready()?;
        let arguments = self.arguments.iter().map(|a| Some((a.word, argument(a.argument)?, a.dtype)));
        let arguments = arguments.collect::<Option<Vec<_>>>().ok_or_else(|| unsupported("an argument that is no step's"))?;
        let block = |bytes: usize| DeviceBlock::new(opened, bytes);
        let workspace = if self.has_products() { Some(block(WORKSPACE)?) } else { None };
        let blocks = [block(self.parameters.len() * 4)?, block(self.scratch_words as usize * 4)?, block(gates.len() * GRID as usize)?];
        let [parameters, scratch, flags] = blocks.each_ref().map(|b| b.address);
        let places = TurnPlaces { parameters, reports: 0, scratch, gates: flags, workspace: workspace.as_ref().map_or(0, |w| w.address) };
        let stream = CaptureStream::new(opened)?;
        let mut refused = Vec::new();
        let captured = driver::captured(stream.handle, || {
            refused = self.issue(&gates, &places, stream.handle, None)?;
            Ok::<(), CaptureFailure>(())
        });
        let graph = captured.map_err(|e| match e {
            CaptureFailure::Driver(e) => opened.context.told(&e),
            CaptureFailure::Other(kind) => kind,
        })?;
        let gate_kernels = gates.iter().map(|(_, l)| l.kernel.clone());
        let kernels = self.launches.iter().filter_map(|l| if let Issued::Kernel(l) = l { Some(l.kernel.clone()) } else { None });
        let plans = self.launches.iter().filter_map(|l| if let Issued::Library(l) = l { Some(l.plan.clone()) } else { None });
        Ok(FrozenLaunches {
            graph,
            behind: std::mem::take(&mut self.behind),
            parameters: std::mem::take(&mut self.parameters),
            arguments,
            parameters_at: parameters,
            held: HeldByGraph { _blocks: blocks, _workspace: workspace, _kernels: kernels.chain(gate_kernels).collect(), _plans: plans.collect(), refused },
        })
    }
}
/// Where what the launches of a turn share begins.
struct TurnPlaces {
    parameters: u64,
    reports: u64,
    scratch: u64,
    gates: u64,
    workspace: u64,
}
/// A graph of launches, and where it reads what may change.
pub(crate) struct FrozenLaunches {
    pub graph: GraphHandle,
    /// what its memory was used for before
    pub behind: Events,
    /// what the parameters are
    pub parameters: Vec<u32>,
    /// where they lie on the device
    pub parameters_at: u64,
    /// the word, the argument's number among those of all steps, its dtype
    pub arguments: Vec<(usize, usize, DType)>,
    pub held: HeldByGraph,
}
/// What the launches of a graph use, for as long as it is there.
pub(crate) struct HeldByGraph {
    _blocks: [DeviceBlock; 3],
    _workspace: Option<DeviceBlock>,
    _kernels: Vec<Arc<CompiledKernel>>,
    _plans: Vec<Arc<LtPlan>>,
    pub refused: Vec<Refusal>,
}
/// Why a capture failed.
enum CaptureFailure {
    Driver(DriverError),
    Other(ErrorKind),
}
impl From<DriverError> for CaptureFailure {
    fn from(e: DriverError) -> CaptureFailure {
        CaptureFailure::Driver(e)
    }
}
impl From<ErrorKind> for CaptureFailure {
    fn from(kind: ErrorKind) -> CaptureFailure {
        CaptureFailure::Other(kind)
    }
}
/// A stream that runs nothing: what it is given is captured.
struct CaptureStream<'o> {
    handle: StreamHandle,
    opened: &'o Opened,
}
impl CaptureStream<'_> {
    fn new(opened: &Opened) -> Result<CaptureStream<'_>, ErrorKind> {
        Ok(CaptureStream { handle: opened.context.call(driver::stream)?, opened })
    }
}
impl Drop for CaptureStream<'_> {
    fn drop(&mut self) {
        let _ = self.opened.context.call(|| driver::destroy_stream(self.handle));
    }
}
impl Launcher for Launches<'_> {
    fn target(&self) -> LaunchTarget {
        let mut target = self.current.as_ref().map_or_else(|| self.opened.target(&KernelKind::Matmul), |c| self.opened.target(&c.kernel.kind));
        target.matrices &= !self.is_plain;
        target
    }
    fn compile(&mut self, key: &Key, _: &Bindings, write: &mut dyn FnMut() -> Result<String, ErrorKind>) -> Result<CompiledText, ErrorKind> {
        let current = self.kernel()?;
        let kernel = self.opened.kernel(&current, key, write)?;
        if !kernel.is_loaded() {
            self.unloaded.push(kernel.clone());
        }
        self.compiled.push(kernel);
        Ok(CompiledText(self.compiled.len() - 1))
    }
    fn known(&self, beginning: &[u8]) -> Result<Vec<Key>, ErrorKind> {
        let current = self.kernel()?;
        self.opened.known(&current, beginning)
    }
    fn is_new(&self) -> Result<bool, ErrorKind> {
        let current = self.kernel()?;
        self.opened.is_new(&current)
    }
    fn warm_up(&mut self, again: Again<'_>) -> Result<(), ErrorKind> {
        if !self.is_new()? {
            return Ok(());
        }
        // What is recorded for other sizes looks for nothing.
        let current = self.current.clone().map(|c| Current { words: None, gate: None, ..c });
        let mut other = Launches { warms_up: true, current, is_plain: self.is_plain, ..Launches::new(self.opened) };
        let done = again(&mut other);
        self.unloaded.append(&mut other.unloaded);
        done
    }
    fn nest(&mut self, place: u8, bindings: &Bindings, space: &Shape, axes: [&[usize]; 2], operands: &[(usize, Strides)]) -> Result<Nest, ErrorKind> {
        let current = self.kernel()?;
        Ok(prepared(&current)?.nest(self.opened.forms(), place, bindings, space, axes, operands))
    }
    fn report(&mut self, found: Found) -> u32 {
        match &self.current {
            Some(Current { words: Some((words, Some(word))), .. }) => {
                words.looks_for(*word, found);
                return word * REPORT;
            }
            Some(current) => self.reports.push((current.fault, found)),
            None => {}
        }
        (self.reports.len() as u32).saturating_sub(1) * REPORT
    }
    fn scratch(&mut self, words: u64) -> Result<(), ErrorKind> {
        if words * 4 > self.target().largest && !self.warms_up {
            return Err(ErrorKind::OutOfMemory { asked: (words * 4) as usize, in_use: 0, cap: None });
        }
        self.scratch_words = self.scratch_words.max(words);
        Ok(())
    }
    fn launch_groups(&mut self, text: CompiledText, bindings: &Bindings, parameters: &[u32], groups: u64) {
        let (Some(kernel), Some(current)) = (self.compiled.get(text.0), &self.current) else { return };
        // A number is one of the step's own: skeletons have them from its operands.
        let resources = bindings.places.iter().filter_map(|p| match *p {
            Place::Buffer(number) => current.buffers.iter().find(|b| b.0 == number).map(|b| Resource::At(b.1)),
            Place::Scratch => Some(Resource::Scratch),
            Place::Faults => match &current.words {
                Some((words, Some(_))) => Some(Resource::At(words.address())),
                _ => Some(Resource::Reports),
            },
        });
        let (kernel, resources) = (kernel.clone(), resources.collect());
        let words = self.words(parameters, &bindings.arguments);
        self.push(kernel, resources, words, groups);
    }
}
