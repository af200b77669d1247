//! The launches of one submission: recorded step by step, then encoded into one command buffer in their order. All
//! parameters lie in one buffer. Reports of bad data go to the run's words; where the host wants them at once, to a buffer that
//! is read when everything is done.
use crate::{
    clock::PassClock,
    gpu::{Gpu, internal},
    health::scoped,
    memory::{Staging, ours},
    pipeline::Pipeline,
    words::{REPORT, WgpuWords, fault},
};
use adamant_kernels::{Again, Array, Bindings, CompiledText, Found, Key, LaunchTarget, Launcher, Nest, Place, Strides, Work, skeleton::gate};
use adamant_runtime::{
    ErrorKind, Shape,
    backend::When,
    kernel::{FaultWord, Kernel, Operand, Step},
};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::{
    ptr,
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// What is bound to a launch.
#[derive(Clone)]
enum Resource {
    /// a tensor's buffer
    Buffer(wgpu::Buffer),
    /// memory between two launches of one step
    Scratch,
    /// where bad data is reported
    Reports,
}
struct Launch {
    pipeline: Arc<Pipeline>,
    resources: SmallVec<[Resource; 8]>,
    /// where its parameters begin, and how many there are, in words
    parameters: (usize, usize),
    groups: [u32; 3],
    /// which of the launches that may be left out it is
    gated: Option<usize>,
}
/// Launches that run by what the device has found: if one of the words, by their places, is raised, or if none is.
struct Gate {
    words: WgpuWords,
    places: Vec<u32>,
    if_raised: bool,
    /// the first launch behind it, and the first and the number of those that may be left out
    before: usize,
    first: usize,
    launches: Vec<[u32; 3]>,
}
/// The launches of a submission.
pub(crate) struct Launches<'a> {
    pub gpu: &'a Gpu,
    launches: Vec<Launch>,
    parameters: Vec<u32>,
    reports: Vec<(&'a FaultWord, Found)>,
    gates: Vec<Gate>,
    gated: usize,
    /// Does the host want to know of bad data when the call returns?
    pub hears: bool,
    scratch_words: u64,
    /// where passes begin that are timed
    passes: Vec<usize>,
    /// only what it compiles matters
    warms_up: bool,
    /// what is recorded now
    current: Option<Current<'a>>,
    /// the pipelines of what is recorded now, as skeletons number them
    compiled: Vec<Arc<Pipeline>>,
}
/// The kernel that is recorded, where it reports, and the memory of its operands by their buffers' numbers.
#[derive(Clone)]
struct Current<'a> {
    kernel: &'a Kernel,
    fault: &'a FaultWord,
    /// the run's words, and the one that it reports to
    words: Option<(WgpuWords, Option<u32>)>,
    is_gated: bool,
    buffers: SmallVec<[(usize, wgpu::Buffer); 8]>,
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
/// Buffers that submissions use one after the other: a queue runs them in order.
#[derive(Default)]
pub(crate) struct SharedBuffers(Mutex<LaunchBuffers>);
#[derive(Default)]
struct LaunchBuffers {
    parameters: Option<wgpu::Buffer>,
    reports: Option<wgpu::Buffer>,
    scratch: Option<wgpu::Buffer>,
    /// of launches that may be left out
    workgroups: Option<wgpu::Buffer>,
}

/// The buffer of an operand.
///
/// # Errors
/// It has no memory, or another backend's.
fn buffer(o: &Operand<'_>) -> Result<wgpu::Buffer, ErrorKind> {
    let guard = o.buffer.read();
    Ok(ours(guard.as_deref().ok_or_else(|| internal("a buffer without memory"))?)?.buffer.clone())
}

impl<'a> Launches<'a> {
    /// Nothing yet.
    pub fn new(gpu: &'a Gpu) -> Launches<'a> {
        Launches {
            gpu,
            launches: Vec::new(),
            parameters: Vec::new(),
            reports: Vec::new(),
            gates: Vec::new(),
            gated: 0,
            hears: true,
            scratch_words: 0,
            passes: Vec::new(),
            warms_up: false,
            current: None,
            compiled: Vec::new(),
        }
    }
    /// What follows is the work of these steps, by the kernel of the first.
    ///
    /// # Errors
    /// Operands without memory.
    pub fn begin(&mut self, steps: &[Step<'a>]) -> Result<(), ErrorKind> {
        let Some(first) = steps.first() else { return Ok(()) };
        let mut buffers: SmallVec<[(usize, wgpu::Buffer); 8]> = SmallVec::new();
        for o in steps.iter().flat_map(|s| s.inputs.iter().chain(s.outputs)) {
            if !buffers.iter().any(|b| b.0 == number(o)) {
                buffers.push((number(o), buffer(o)?));
            }
        }
        let words = first.guard.words.map(WgpuWords::of).transpose()?;
        let is_gated = self.gate(words.as_ref(), first.guard.when);
        let words = words.map(|words| (words, first.guard.reports));
        self.current = Some(Current { kernel: first.kernel, fault: first.fault, words, is_gated, buffers });
        self.compiled.clear();
        Ok(())
    }
    /// What follows is launched when the words say so; a gate serves all that follow it with the same words.
    fn gate(&mut self, words: Option<&WgpuWords>, when: When<'_>) -> bool {
        let (of, if_raised) = match when {
            When::Always => return false,
            When::Clean(of) => (of, false),
            When::Raised(of) => (of, true),
        };
        let Some(words) = words else { return false };
        let places: Vec<u32> = of.iter().map(|word| word * REPORT).collect();
        let goes_on = self.gates.last().is_some_and(|g| g.words.is_same(words) && g.places == places && g.if_raised == if_raised);
        if !goes_on || self.launches.last().is_none_or(|l| l.gated.is_none()) {
            self.gates.push(Gate { words: words.clone(), places, if_raised, before: self.launches.len(), first: self.gated, launches: Vec::new() });
        }
        true
    }
    /// Takes over the words of an earlier run.
    ///
    /// # Errors
    /// A text that cannot be compiled.
    pub fn inherit(&mut self, words: &WgpuWords, number: u32, from: &WgpuWords, of: &[u32]) -> Result<(), ErrorKind> {
        let (bindings, text) = gate::inherits(self.gpu.target().dialect)?;
        let pipeline = self.gpu.compiled(text, &bindings.access)?;
        let places: Vec<u32> = of.iter().map(|word| word * REPORT).collect();
        let resources = [from, words].map(|w| Resource::Buffer(w.buffer().clone()));
        self.push(pipeline, SmallVec::from_iter(resources), &gate::inheritance(&places, number * REPORT), 1);
        Ok(())
    }
    fn kernel(&self) -> Result<&'a Kernel, ErrorKind> {
        self.current.as_ref().map(|c| c.kernel).ok_or_else(|| internal("a launch outside a step"))
    }
    /// What follows is timed by itself.
    pub fn begin_pass(&mut self) {
        self.passes.push(self.launches.len());
    }
    /// A launch of one workgroup over one buffer.
    pub fn launch_one(&mut self, pipeline: Arc<Pipeline>, buffer: wgpu::Buffer, parameters: &[u32]) {
        self.push(pipeline, SmallVec::from_iter([Resource::Buffer(buffer)]), parameters, 1);
    }
    /// A launch of `groups` workgroups, numbered along x, then y.
    fn push(&mut self, pipeline: Arc<Pipeline>, resources: SmallVec<[Resource; 8]>, parameters: &[u32], groups: u64) {
        let most = self.gpu.limits.max_compute_workgroups_per_dimension as u64;
        let rows = groups.div_ceil(most).max(1);
        let align = (self.gpu.limits.min_storage_buffer_offset_alignment / 4).max(1) as usize;
        let at = self.parameters.len().next_multiple_of(align);
        self.parameters.resize(at, 0);
        self.parameters.extend_from_slice(parameters);
        let groups = [groups.div_ceil(rows) as u32, rows as u32, 1];
        let gated = self.current.as_ref().is_some_and(|c| c.is_gated).then_some(self.gated);
        if let (Some(gate), Some(_)) = (self.gates.last_mut(), gated) {
            gate.launches.push(groups);
            self.gated += 1;
        }
        self.launches.push(Launch { pipeline, resources, parameters: (at, parameters.len().max(1)), groups, gated });
        if parameters.is_empty() {
            self.parameters.push(0);
        }
    }

    /// The launches of the gates, which write to a buffer of workgroups.
    ///
    /// # Errors
    /// A text that cannot be compiled.
    fn gate_launches(&mut self, workgroups: &wgpu::Buffer) -> Result<Vec<(usize, Launch)>, ErrorKind> {
        let gates = std::mem::take(&mut self.gates);
        if gates.is_empty() {
            return Ok(Vec::new());
        }
        let (bindings, text) = gate::text(self.gpu.target().dialect)?;
        let pipeline = self.gpu.compiled(text, &bindings.access)?;
        self.current = None;
        let (mut launches, end) = (Vec::new(), self.launches.len());
        for g in gates.into_iter().filter(|g| !g.launches.is_empty()) {
            let parameters = gate::parameters(&g.places, g.if_raised, g.first, &g.launches);
            let resources = [g.words.buffer(), workgroups].map(|b| Resource::Buffer(b.clone()));
            self.push(pipeline.clone(), SmallVec::from_iter(resources), &parameters, 1);
            launches.extend(self.launches.drain(end..).map(|l| (g.before, l)));
        }
        Ok(launches)
    }
    /// Submits the launches. Returns at once unless the host wants to know of bad data when the call returns.
    ///
    /// # Errors
    /// A lost device, memory for scratch.
    pub fn run(self, shared: &SharedBuffers, staging: &Staging) -> Result<(), ErrorKind> {
        if self.launches.is_empty() { Ok(()) } else { self.run_timed(shared, staging, None) }
    }
    /// As [`Launches::run`], with the times of its passes.
    ///
    /// # Errors
    /// As [`Launches::run`].
    pub fn run_timed(mut self, shared: &SharedBuffers, staging: &Staging, clock: Option<&PassClock>) -> Result<(), ErrorKind> {
        let gpu = self.gpu;
        let mut buffers = shared.0.lock();
        let storage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let workgroups = grown(gpu, &mut buffers.workgroups, (self.gated as u64).max(1) * 12, storage | wgpu::BufferUsages::INDIRECT)?;
        let gates = self.gate_launches(&workgroups)?;
        let parameters = grown(gpu, &mut buffers.parameters, self.parameters.len() as u64 * 4, storage)?;
        let reports = grown(gpu, &mut buffers.reports, (self.reports.len() as u64 * u64::from(REPORT)).max(1) * 4, storage)?;
        let scratch = grown(gpu, &mut buffers.scratch, self.scratch_words.max(1) * 4, storage)?;
        let submitted = scoped(&gpu.device, || {
            let words = |w: &[u32]| w.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
            gpu.queue.write_buffer(&parameters, 0, &words(&self.parameters));
            if !self.reports.is_empty() {
                gpu.queue.write_buffer(&reports, 0, &words(&vec![gate::NOTHING; self.reports.len() * REPORT as usize]));
            }
            let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            let begins = if clock.is_some() { &self.passes[..] } else { &[0] };
            for (k, &begin) in begins.iter().enumerate() {
                let end = begins.get(k + 1).copied().unwrap_or(self.launches.len());
                let timestamp_writes = clock.map(|c| c.of_pass(k));
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes });
                let behind = |at: usize| gates.iter().filter(move |(before, _)| *before == at).map(|(_, gate)| gate);
                for l in (begin..end).flat_map(|at| behind(at).chain([&self.launches[at]])) {
                    let own = wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                        buffer: &parameters,
                        offset: l.parameters.0 as u64 * 4,
                        size: std::num::NonZeroU64::new(l.parameters.1 as u64 * 4),
                    });
                    let others = l.resources.iter().map(|r| match r {
                        Resource::Buffer(b) => b.as_entire_binding(),
                        Resource::Scratch => scratch.as_entire_binding(),
                        Resource::Reports => reports.as_entire_binding(),
                    });
                    let entries: SmallVec<[wgpu::BindGroupEntry<'_>; 9]> =
                        std::iter::once(own).chain(others).zip(0..).map(|(resource, binding)| wgpu::BindGroupEntry { binding, resource }).collect();
                    let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout: &l.pipeline.layout, entries: &entries });
                    pass.set_pipeline(&l.pipeline.pipeline);
                    pass.set_bind_group(0, &group, &[]);
                    match l.gated {
                        Some(number) => pass.dispatch_workgroups_indirect(&workgroups, 12 * number as u64),
                        None => pass.dispatch_workgroups(l.groups[0], l.groups[1], l.groups[2]),
                    }
                }
            }
            if let Some(clock) = clock {
                clock.resolve(&mut encoder, begins.len());
            }
            gpu.queue.submit([encoder.finish()]);
        });
        gpu.counts.submissions.fetch_add(1, Relaxed);
        gpu.counts.launches.fetch_add((self.launches.len() + gates.len()) as u64, Relaxed);
        gpu.health.check()?;
        submitted?;
        if !self.reports.is_empty() && self.hears {
            let mut found = vec![0u8; self.reports.len() * REPORT as usize * 4];
            staging.read(gpu, &reports, 0, &mut found)?;
            for ((word, found), report) in self.reports.iter().zip(found.as_chunks::<{ 4 * REPORT as usize }>().0) {
                if let Some(fault) = fault(Some(*found), report) {
                    word.set(fault);
                }
            }
        }
        Ok(())
    }
}
impl Launcher for Launches<'_> {
    fn target(&self) -> LaunchTarget {
        self.gpu.target()
    }
    fn compile(&mut self, key: &Key, bindings: &Bindings, write: &mut dyn FnMut() -> Result<String, ErrorKind>) -> Result<CompiledText, ErrorKind> {
        let pipeline = self.gpu.pipeline(self.kernel()?, key, &bindings.access, write)?;
        self.compiled.push(pipeline);
        Ok(CompiledText(self.compiled.len() - 1))
    }
    fn known(&self, beginning: &[u8]) -> Result<Vec<Key>, ErrorKind> {
        self.gpu.forms(self.kernel()?, beginning)
    }
    fn is_new(&self) -> Result<bool, ErrorKind> {
        self.gpu.is_new(self.kernel()?)
    }
    fn warm_up(&mut self, again: Again<'_>) -> Result<(), ErrorKind> {
        if !self.is_new()? {
            return Ok(());
        }
        // What is recorded for other sizes looks for nothing.
        let current = self.current.clone().map(|c| Current { words: None, is_gated: false, ..c });
        again(&mut Launches { warms_up: true, current, ..Launches::new(self.gpu) })
    }
    fn nest(&mut self, place: u8, bindings: &Bindings, space: &Shape, axes: [&[usize]; 2], operands: &[(usize, Strides)]) -> Result<Nest, ErrorKind> {
        self.gpu.nest(self.kernel()?, place, bindings, space, axes, operands)
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
        if words * 4 > self.gpu.largest_buffer() && !self.warms_up {
            return Err(ErrorKind::OutOfMemory { asked: (words * 4) as usize, in_use: 0, cap: None });
        }
        self.scratch_words = self.scratch_words.max(words);
        Ok(())
    }
    fn launch_groups(&mut self, text: CompiledText, bindings: &Bindings, parameters: &[u32], groups: u64) {
        let (Some(pipeline), Some(current)) = (self.compiled.get(text.0), &self.current) else { return };
        // A number is one of the step's own: skeletons have them from its operands.
        let resources = bindings.places.iter().filter_map(|p| match *p {
            Place::Buffer(number) => current.buffers.iter().find(|b| b.0 == number).map(|b| Resource::Buffer(b.1.clone())),
            Place::Scratch => Some(Resource::Scratch),
            Place::Faults => match &current.words {
                Some((words, Some(_))) => Some(Resource::Buffer(words.buffer().clone())),
                _ => Some(Resource::Reports),
            },
        });
        let resources = resources.collect();
        self.push(pipeline.clone(), resources, parameters, groups);
    }
}
/// A buffer of at least so many bytes. One that is too small is left to what was submitted before.
fn grown(gpu: &Gpu, kept: &mut Option<wgpu::Buffer>, bytes: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer, ErrorKind> {
    if let Some(b) = kept.as_ref().filter(|b| b.size() >= bytes) {
        return Ok(b.clone());
    }
    let new = gpu.buffer(bytes.next_power_of_two().max(4096).min(gpu.largest_buffer()).max(bytes), usage)?;
    *kept = Some(new.clone());
    Ok(new)
}
