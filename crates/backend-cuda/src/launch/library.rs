//! Products among the launches of a turn that the library computes, whole or their sums alone with the rest as a Map behind them,
//! and what takes their place where it fails.
use super::{CurrentKernel, HeldStep, Issued, Launches, Resource};
use crate::{
    blaslt::{LtPlaces, LtPlan},
    driver::{self, Pinned, StreamHandle},
    memory::DeviceBlock,
    opened::Opened,
    products,
};
use adamant_kernels::{Array, Work, skeleton};
use adamant_runtime::{
    ErrorKind,
    kernel::{Kernel, KernelKind, Step},
};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// A product that the library computes.
pub(super) struct LibraryLaunch<'a> {
    pub plan: Arc<LtPlan>,
    places: LtPlaces,
    /// what it is a part of
    step: Step<'a>,
    /// all of the step, and not its sums alone
    is_whole: bool,
}
/// The parameters and the memory of a product that the library did not compute.
pub(super) type Refusal = (Option<Pinned>, [DeviceBlock; 2]);

impl<'a> Launches<'a> {
    /// Leaves a product to the library, if it is one for it and the library takes it: whole, or its sums.
    ///
    /// # Errors
    /// A lost device; a text that cannot be written.
    pub fn by_library(&mut self, step: &Step<'a>, work: &Work<'_>) -> Result<bool, ErrorKind> {
        let (Some(library), Some(current), false) = (&self.opened.products, &self.current, self.warms_up) else { return Ok(false) };
        let address = |number: usize| current.buffers.iter().find(|b| b.0 == number).map(|b| b.1);
        let Some(asked) = products::of(step, work, address) else { return Ok(false) };
        let (sums, places) = asked.sums;
        if !self.opened.multiplies(sums.dtype) {
            return Ok(false);
        }
        if let Some((product, places)) = asked.whole
            && let Some(plan) = library.plan(&product, &places)?
        {
            self.launches.push(Issued::Library(LibraryLaunch { plan, places, step: *step, is_whole: true }));
            return Ok(true);
        }
        let (KernelKind::Product(product), Some(plan)) = (&step.kernel.kind, library.plan(&sums, &places)?) else { return Ok(false) };
        self.launches.push(Issued::Library(LibraryLaunch { plan, places, step: *step, is_whole: false }));
        let kernel = self.opened.apart.behind(product);
        self.become_part(kernel.clone());
        let mut inputs: SmallVec<[Array; 4]> = smallvec![];
        inputs.extend(work.outputs.first().copied());
        inputs.extend(work.inputs.iter().skip(2).copied());
        skeleton::record(self, &kernel.kind, &Work { inputs: &inputs, ..*work })?;
        Ok(true)
    }
    /// What follows is the work of a part of the step that was begun.
    fn become_part(&mut self, kernel: Arc<Kernel>) {
        if let Some(current) = &mut self.current {
            current.kernel = CurrentKernel::Part(kernel);
        }
        self.compiled.clear();
    }
}
impl LibraryLaunch<'_> {
    /// Gives it to a stream. Where the library fails it is kernels of our own, whose parameters and memory are held until
    /// the stream has come by.
    ///
    /// # Errors
    /// A lost device, memory.
    pub fn issue(&self, opened: &Arc<Opened>, workspace: u64, stream: StreamHandle) -> Result<Option<Refusal>, ErrorKind> {
        let is_taken = opened.products.as_ref().map_or(Ok(false), |library| library.run(&self.plan, &self.places, workspace, stream))?;
        if is_taken { Ok(None) } else { self.by_kernel(opened, stream).map(Some) }
    }
    fn by_kernel(&self, opened: &Arc<Opened>, stream: StreamHandle) -> Result<Refusal, ErrorKind> {
        let step = &self.step;
        let mut own = Launches::new(opened);
        let held = HeldStep::new(step);
        own.begin(std::slice::from_ref(step))?;
        if self.is_whole {
            skeleton::record(&mut own, &step.kernel.kind, &held.work())?;
        } else {
            let (kernel, work) = (opened.apart.sums(), held.work());
            own.become_part(kernel.clone());
            skeleton::record(&mut own, &kernel.kind, &Work { inputs: work.inputs.get(..2).unwrap_or_default(), ..work })?;
        }
        opened.load(&own.unloaded)?;
        let parameters = DeviceBlock::new(opened, own.parameters.len() * 4)?;
        let scratch = DeviceBlock::new(opened, own.scratch_words as usize * 4)?;
        let piece = if own.parameters.is_empty() { None } else { Some(opened.pinned_words(&own.parameters, true)?) };
        if let Some(piece) = &piece {
            opened.context.call(|| driver::to_device(parameters.address, piece, own.parameters.len() * 4, stream))?;
        }
        for launch in &own.launches {
            let Issued::Kernel(l) = launch else { continue };
            let mut arguments: SmallVec<[u64; 16]> = smallvec![0];
            arguments.extend(l.resources.iter().map(|r| if let Resource::At(address) = *r { address } else { scratch.address }));
            let (function, words) = (l.kernel.function()?, own.handed(&l.words, parameters.address));
            opened.context.call(|| driver::launch(function, l.blocks, l.kernel.threads, stream, &words, &arguments))?;
        }
        Ok((piece, [parameters, scratch]))
    }
}
