//! The launches of one submission: recorded step by step, then encoded into one command buffer in their order. All
//! parameters lie in one buffer, and so do the reports of bad data, which are read when everything is done.
use crate::{
    bindings::{Bindings, Place},
    clock::Clock,
    gpu::{Gpu, internal},
    health::scoped,
    memory::{Staging, ours},
    pipeline::Pipeline,
};
use adamant_runtime::{
    ErrorKind,
    kernel::{Fault, FaultWord, Operand, Step},
};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// Invocations of a workgroup.
pub(crate) const GROUP: u64 = 256;
/// Words of one report: the first position of bad data, and the index found there.
const REPORT: u64 = 3;
/// No bad data so far.
const NOTHING: u32 = u32::MAX;

/// What a step reports.
pub(crate) enum Found {
    /// a division by zero
    Division,
    /// an index out of this bound
    Index(usize),
}
struct Launch {
    pipeline: Arc<Pipeline>,
    places: SmallVec<[Place; 8]>,
    /// where its parameters begin, and how many there are, in words
    parameters: (usize, usize),
    groups: [u32; 3],
}
/// The launches of a submission.
pub(crate) struct Recorder<'a> {
    pub gpu: &'a Gpu,
    launches: Vec<Launch>,
    parameters: Vec<u32>,
    reports: Vec<(&'a FaultWord, Found)>,
    scratch_words: u64,
    /// where passes begin that are timed
    passes: Vec<usize>,
    /// only what it compiles matters
    rehearses: bool,
}
/// Buffers that submissions use one after the other: a queue runs them in order.
#[derive(Default)]
pub(crate) struct Shared(Mutex<Buffers>);
#[derive(Default)]
struct Buffers {
    parameters: Option<wgpu::Buffer>,
    reports: Option<wgpu::Buffer>,
    scratch: Option<wgpu::Buffer>,
}

/// The buffer of an operand.
///
/// # Errors
/// It has no memory, or another backend's.
pub(crate) fn buffer(o: &Operand<'_>) -> Result<wgpu::Buffer, ErrorKind> {
    let guard = o.buffer.read();
    Ok(ours(guard.as_deref().ok_or_else(|| internal("a buffer without memory"))?)?.buffer.clone())
}

impl<'a> Recorder<'a> {
    /// Nothing yet.
    pub fn new(gpu: &'a Gpu) -> Recorder<'a> {
        Recorder { gpu, launches: Vec::new(), parameters: Vec::new(), reports: Vec::new(), scratch_words: 0, passes: Vec::new(), rehearses: false }
    }
    /// Has the kernel of a step compiled nothing yet? Then `f` may record it in another way, for other sizes, on a recorder
    /// that launches nothing: what that way needs is compiled now and not when the sizes change.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn rehearse(&self, step: &Step<'a>, f: impl FnOnce(&mut Recorder<'a>) -> Result<(), ErrorKind>) -> Result<(), ErrorKind> {
        if self.gpu.is_new(step.kernel)? { f(&mut Recorder { rehearses: true, ..Recorder::new(self.gpu) }) } else { Ok(()) }
    }
    /// What follows is timed by itself.
    pub fn begin_pass(&mut self) {
        self.passes.push(self.launches.len());
    }
    /// The place of a new report among the reports, in words.
    pub fn report(&mut self, fault: &'a FaultWord, found: Found) -> u32 {
        self.reports.push((fault, found));
        ((self.reports.len() as u64 - 1) * REPORT) as u32
    }
    /// Asks for so many words between the launches of a step. The next step has the same memory.
    ///
    /// # Errors
    /// More than a kernel can see at once.
    pub fn scratch(&mut self, words: u64) -> Result<(), ErrorKind> {
        if words * 4 > self.gpu.largest_buffer() && !self.rehearses {
            return Err(ErrorKind::OutOfMemory { asked: (words * 4) as usize, in_use: 0, cap: None });
        }
        self.scratch_words = self.scratch_words.max(words);
        Ok(())
    }
    /// A launch of enough workgroups for `units` invocations.
    pub fn launch(&mut self, pipeline: Arc<Pipeline>, bindings: &Bindings, parameters: &[u32], units: u64) {
        self.launch_groups(pipeline, bindings, parameters, units.div_ceil(GROUP));
    }
    /// A launch of `groups` workgroups, numbered along x, then y.
    pub fn launch_groups(&mut self, pipeline: Arc<Pipeline>, bindings: &Bindings, parameters: &[u32], groups: u64) {
        let most = self.gpu.limits.max_compute_workgroups_per_dimension as u64;
        let rows = groups.div_ceil(most).max(1);
        self.launch_grid(pipeline, bindings, parameters, [groups.div_ceil(rows) as u32, rows as u32, 1]);
    }
    /// A launch of a grid of workgroups.
    pub fn launch_grid(&mut self, pipeline: Arc<Pipeline>, bindings: &Bindings, parameters: &[u32], groups: [u32; 3]) {
        let align = (self.gpu.limits.min_storage_buffer_offset_alignment / 4).max(1) as usize;
        let at = self.parameters.len().next_multiple_of(align);
        self.parameters.resize(at, 0);
        self.parameters.extend_from_slice(parameters);
        self.launches.push(Launch { pipeline, places: bindings.places.clone(), parameters: (at, parameters.len().max(1)), groups });
        if parameters.is_empty() {
            self.parameters.push(0);
        }
    }

    /// Submits the launches. Returns at once unless bad data can be found, which must be known when the call returns.
    ///
    /// # Errors
    /// A lost device, memory for scratch.
    pub fn run(self, shared: &Shared, staging: &Staging) -> Result<(), ErrorKind> {
        if self.launches.is_empty() { Ok(()) } else { self.run_timed(shared, staging, None) }
    }
    /// As [`Recorder::run`], with the times of its passes.
    ///
    /// # Errors
    /// As [`Recorder::run`].
    pub fn run_timed(self, shared: &Shared, staging: &Staging, clock: Option<&Clock>) -> Result<(), ErrorKind> {
        let gpu = self.gpu;
        let mut buffers = shared.0.lock();
        let storage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let parameters = grown(gpu, &mut buffers.parameters, self.parameters.len() as u64 * 4, storage)?;
        let reports = grown(gpu, &mut buffers.reports, (self.reports.len() as u64 * REPORT).max(1) * 4, storage)?;
        let scratch = grown(gpu, &mut buffers.scratch, self.scratch_words.max(1) * 4, storage)?;
        let submitted = scoped(&gpu.device, || {
            let words = |w: &[u32]| w.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
            gpu.queue.write_buffer(&parameters, 0, &words(&self.parameters));
            if !self.reports.is_empty() {
                gpu.queue.write_buffer(&reports, 0, &words(&vec![NOTHING; self.reports.len() * REPORT as usize]));
            }
            let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            let begins = if clock.is_some() { &self.passes[..] } else { &[0] };
            for (k, &begin) in begins.iter().enumerate() {
                let end = begins.get(k + 1).copied().unwrap_or(self.launches.len());
                let timestamp_writes = clock.map(|c| c.of_pass(k));
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes });
                for l in &self.launches[begin..end] {
                    let own = wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                        buffer: &parameters,
                        offset: l.parameters.0 as u64 * 4,
                        size: std::num::NonZeroU64::new(l.parameters.1 as u64 * 4),
                    });
                    let others = l.places.iter().map(|p| match p {
                        Place::Buffer(b) => b.as_entire_binding(),
                        Place::Scratch => scratch.as_entire_binding(),
                        Place::Faults => reports.as_entire_binding(),
                    });
                    let entries: SmallVec<[wgpu::BindGroupEntry<'_>; 9]> =
                        std::iter::once(own).chain(others).zip(0..).map(|(resource, binding)| wgpu::BindGroupEntry { binding, resource }).collect();
                    let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout: &l.pipeline.layout, entries: &entries });
                    pass.set_pipeline(&l.pipeline.pipeline);
                    pass.set_bind_group(0, &group, &[]);
                    pass.dispatch_workgroups(l.groups[0], l.groups[1], l.groups[2]);
                }
            }
            if let Some(clock) = clock {
                clock.resolve(&mut encoder, begins.len());
            }
            gpu.queue.submit([encoder.finish()]);
        });
        gpu.counts.submissions.fetch_add(1, Relaxed);
        gpu.counts.launches.fetch_add(self.launches.len() as u64, Relaxed);
        gpu.health.check()?;
        submitted?;
        if !self.reports.is_empty() {
            let mut found = vec![0u8; self.reports.len() * REPORT as usize * 4];
            staging.read(gpu, &reports, 0, &mut found)?;
            let word = |k: usize| found[k * 4..k * 4 + 4].iter().rev().fold(0u32, |w, &b| w << 8 | b as u32);
            for (k, (fault, kind)) in self.reports.iter().enumerate() {
                let [position, low, high] = [0, 1, 2].map(|w| word(k * REPORT as usize + w));
                if position != NOTHING {
                    fault.set(match kind {
                        Found::Division => Fault::DivisionByZero,
                        Found::Index(bound) => {
                            Fault::Index { index: (u64::from(high) << 32 | u64::from(low)) as i64, bound: *bound, position: position as usize }
                        }
                    });
                }
            }
        }
        Ok(())
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
