//! Fault words on the device: a report each, which a kernel lowers to the first position of bad data; what kind of data that
//! was is known here when the step is recorded. Words come back for the next run when nobody holds them any more; what was
//! still being read of them is waited for by the stream, not by the host.
use crate::{
    driver,
    memory::{DeviceBlock, OnItsWay},
    opened::{Opened, internal},
};
use adamant_kernels::{Found, skeleton::gate::NOTHING};
use adamant_runtime::{
    ErrorKind,
    backend::{Event, Queue, Reports, Words},
    kernel::Fault,
};
use parking_lot::Mutex;
use std::{any::Any, sync::Arc};

/// Words of one report: the first position of bad data, and the index found there.
pub(crate) const REPORT: u32 = 3;

/// Blocks of words that nobody uses behind an event.
#[derive(Default)]
pub(crate) struct Spares(Mutex<Vec<(DeviceBlock, Event)>>);
/// The most that are kept.
const KEPT: usize = 64;

/// The words of one run.
#[derive(Clone)]
pub(crate) struct CudaWords(Arc<WordSet>);
struct WordSet {
    block: Option<DeviceBlock>,
    address: u64,
    /// what is looked for, by word
    found: Mutex<Vec<Option<Found>>>,
    /// when nothing is raised: behind it they may be read
    cleared: Event,
    /// the last read of them
    read: Mutex<Event>,
    opened: Arc<Opened>,
}
impl WordSet {
    /// A block for so many words, and behind what it may be written.
    ///
    /// # Errors
    /// A lost device; no memory.
    fn block(opened: &Arc<Opened>, count: u32) -> Result<(DeviceBlock, Event), ErrorKind> {
        let bytes = (count.max(1) as usize * REPORT as usize * 4).next_power_of_two();
        let spare = {
            let mut spares = opened.spares.0.lock();
            spares.iter().position(|(b, _)| b.bytes == bytes).map(|at| spares.swap_remove(at))
        };
        spare.map_or_else(|| Ok((DeviceBlock::new(opened, bytes)?, Event::DONE)), Ok)
    }
    fn of(opened: &Arc<Opened>, block: DeviceBlock, found: Vec<Option<Found>>, cleared: Event) -> CudaWords {
        let (found, read) = (Mutex::new(found), Mutex::new(Event::DONE));
        CudaWords(Arc::new(WordSet { address: block.address, block: Some(block), found, cleared, read, opened: opened.clone() }))
    }
}
impl Drop for WordSet {
    fn drop(&mut self) {
        let mut spares = self.opened.spares.0.lock();
        if let Some(block) = self.block.take()
            && spares.len() < KEPT
        {
            spares.push((block, *self.read.get_mut()));
        }
    }
}
impl Words for CudaWords {
    fn as_any(&self) -> &dyn Any {
        self
    }
}
impl CudaWords {
    /// So many, none of which is raised.
    ///
    /// # Errors
    /// A lost device; no memory.
    pub fn new(opened: &Arc<Opened>, count: u32) -> Result<CudaWords, ErrorKind> {
        opened.context.check()?;
        let (block, read) = WordSet::block(opened, count)?;
        let turn = opened.queue(Queue::Compute).turn(&opened.behind(Queue::Compute, &[read]))?;
        turn.call(|s| driver::fill(block.address, NOTHING, block.bytes / 4, s))?;
        let cleared = turn.end()?;
        Ok(WordSet::of(opened, block, vec![None; count as usize], cleared))
    }
    /// Others, into which a turn of the compute stream copies what these hold then; and what that turn comes behind.
    ///
    /// # Errors
    /// As [`CudaWords::new`].
    pub fn another(&self) -> Result<(CudaWords, Event), ErrorKind> {
        let found = self.0.found.lock().clone();
        let (block, read) = WordSet::block(&self.0.opened, found.len() as u32)?;
        Ok((WordSet::of(&self.0.opened, block, found, Event::DONE), read))
    }
    /// The words of this backend.
    ///
    /// # Errors
    /// They are another backend's; they went with a device that was lost.
    pub fn of(words: &Arc<dyn Words>) -> Result<CudaWords, ErrorKind> {
        // Not the pointer's own `as_any`.
        let words: &dyn Words = &**words;
        let ours: &CudaWords = words.as_any().downcast_ref().ok_or_else(|| internal("words of another backend"))?;
        ours.0.opened.context.lost().map_or(Ok(ours.clone()), Err)
    }
    pub fn address(&self) -> u64 {
        self.0.address
    }
    /// A step reports to this word: what it looks for.
    pub fn looks_for(&self, word: u32, found: Found) {
        if let Some(own) = self.0.found.lock().get_mut(word as usize) {
            *own = Some(found);
        }
    }
    pub fn is_same(&self, other: &CudaWords) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// Begins to read them behind an event.
    ///
    /// # Errors
    /// A lost device.
    pub fn read(&self, after: Event) -> Result<Telling, ErrorKind> {
        let read = self.0.opened.copy_out(Queue::Copy, self.0.address, self.bytes(), &[after, self.0.cleared])?;
        *self.0.read.lock() = read.event;
        Ok(Telling { words: self.clone(), read })
    }
    pub fn bytes(&self) -> usize {
        self.0.found.lock().len().max(1) * REPORT as usize * 4
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
pub(crate) struct Telling {
    words: CudaWords,
    read: OnItsWay,
}
impl Reports for Telling {
    fn is_ready(&self) -> bool {
        self.read.is_settled()
    }
    fn wait(self: Box<Self>) -> Result<Vec<Option<Fault>>, ErrorKind> {
        let Telling { words, read } = *self;
        let mut bytes = vec![0u8; words.bytes()];
        read.finish(&mut bytes)?;
        let found = words.0.found.lock();
        Ok(found.iter().zip(bytes.as_chunks::<{ 4 * REPORT as usize }>().0).map(|(found, report)| fault(*found, report)).collect())
    }
}
