//! Fault words on the device: a report each, which a kernel lowers to the first position of bad data; what kind of data that was
//! is known here when the step is recorded. A buffer of words comes back for the next run when nobody holds it any more: the
//! queue runs in order.
use crate::{
    gpu::{Gpu, internal},
    health::{Health, scoped},
    memory::{OnItsWay, Staging},
};
use adamant_kernels::{Found, skeleton::gate::NOTHING};
use adamant_runtime::{
    ErrorKind,
    backend::{Reports, Words},
    kernel::Fault,
};
use parking_lot::Mutex;
use std::{any::Any, sync::Arc};

/// Words of one report: the first position of bad data, and the index found there.
pub(crate) const REPORT: u32 = 3;

/// Buffers of words that nobody uses.
#[derive(Default)]
pub(crate) struct Spares(Mutex<Vec<wgpu::Buffer>>);
/// The most that are kept.
const KEPT: usize = 64;

/// The words of one run.
#[derive(Clone)]
pub(crate) struct WgpuWords(Arc<Set>);
struct Set {
    buffer: wgpu::Buffer,
    /// what is looked for, by word
    found: Mutex<Vec<Option<Found>>>,
    health: Arc<Health>,
    spares: Arc<Spares>,
}
impl Drop for Set {
    fn drop(&mut self) {
        let mut spares = self.spares.0.lock();
        if spares.len() < KEPT {
            spares.push(self.buffer.clone());
        }
    }
}
impl Words for WgpuWords {
    fn as_any(&self) -> &dyn Any {
        self
    }
}
impl WgpuWords {
    /// So many, none of which is raised.
    ///
    /// # Errors
    /// A lost device; no memory.
    pub fn new(gpu: &Gpu, spares: &Arc<Spares>, count: u32) -> Result<WgpuWords, ErrorKind> {
        gpu.health.check()?;
        let bytes = (u64::from(count.max(1)) * u64::from(REPORT) * 4).next_power_of_two();
        let spare = {
            let mut spares = spares.0.lock();
            spares.iter().position(|b| b.size() == bytes).map(|at| spares.swap_remove(at))
        };
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let buffer = spare.map_or_else(|| gpu.buffer(bytes, usage), Ok)?;
        let nothing = vec![NOTHING.to_le_bytes(); (bytes / 4) as usize];
        scoped(&gpu.device, || gpu.queue.write_buffer(&buffer, 0, nothing.as_flattened()))?;
        let (found, health, spares) = (Mutex::new(vec![None; count as usize]), gpu.health.clone(), spares.clone());
        Ok(WgpuWords(Arc::new(Set { buffer, found, health, spares })))
    }
    /// The words of this backend.
    ///
    /// # Errors
    /// They are another backend's; they went with a device that was lost.
    pub fn of(words: &Arc<dyn Words>) -> Result<WgpuWords, ErrorKind> {
        // Not the pointer's own `as_any`.
        let words: &dyn Words = &**words;
        let ours: &WgpuWords = words.as_any().downcast_ref().ok_or_else(|| internal("words of another backend"))?;
        ours.0.health.lost().map_or(Ok(ours.clone()), Err)
    }
    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.0.buffer
    }
    /// A step reports to this word: what it looks for.
    pub fn looks_for(&self, word: u32, found: Found) {
        if let Some(own) = self.0.found.lock().get_mut(word as usize) {
            *own = Some(found);
        }
    }
    pub fn is_same(&self, other: &WgpuWords) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// Begins to read them.
    ///
    /// # Errors
    /// A lost device.
    pub fn read(&self, gpu: &Gpu, staging: &Staging) -> Result<OnItsWay, ErrorKind> {
        let count = self.0.found.lock().len().max(1) as u64;
        staging.begin(gpu, &self.0.buffer, 0, count * u64::from(REPORT) * 4)
    }
    /// What they say.
    pub fn faults(&self, bytes: &[u8]) -> Vec<Option<Fault>> {
        let found = self.0.found.lock();
        found.iter().zip(bytes.as_chunks::<{ 4 * REPORT as usize }>().0).map(|(found, report)| fault(*found, report)).collect()
    }
    pub fn count(&self) -> usize {
        self.0.found.lock().len().max(1)
    }
}
/// What a report says.
pub(crate) fn fault(found: Option<Found>, report: &[u8; 4 * REPORT as usize]) -> Option<Fault> {
    let mut words = [0; REPORT as usize];
    words.iter_mut().zip(report.as_chunks().0).for_each(|(word, own)| *word = u32::from_le_bytes(*own));
    let [position, low, high] = words;
    (position != NOTHING).then(|| match found {
        Some(Found::Division) => Fault::DivisionByZero,
        Some(Found::Index(bound)) => Fault::Index { index: (u64::from(high) << 32 | u64::from(low)) as i64, bound, position: position as usize },
        None => Fault::Domain("inherited from an earlier run".into()),
    })
}
/// Words on their way to the host.
pub(crate) struct Telling<O> {
    pub opened: O,
    pub words: WgpuWords,
    pub read: OnItsWay,
}
/// The device and its staging buffers that a read is of.
pub(crate) trait ReadsStaging: Send + Sync {
    fn gpu(&self) -> &Gpu;
    fn staging(&self) -> &Staging;
}
impl<O: ReadsStaging> Reports for Telling<O> {
    fn is_ready(&self) -> bool {
        self.read.is_settled(self.opened.gpu())
    }
    fn wait(self: Box<Self>) -> Result<Vec<Option<Fault>>, ErrorKind> {
        let Telling { opened, words, read } = *self;
        opened.gpu().health.check()?;
        let mut bytes = vec![0u8; words.count() * REPORT as usize * 4];
        opened.staging().finish(opened.gpu(), read, 0, &mut bytes)?;
        Ok(words.faults(&bytes))
    }
}
