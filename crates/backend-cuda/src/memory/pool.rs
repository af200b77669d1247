//! All memory of a card that this process holds: in blocks of mapped pages, or as the driver gives it. What is held is counted
//! here, and a cap is kept here. Nothing is waited for: pages that work uses are handed on behind it (`pages`).
use super::{
    mapped::DriverPages,
    pages::{LastTurns, NoBlock, PAGE, PageBlock, PagePool},
};
use crate::{driver, opened::CudaContext, stream::TurnMarks};
use adamant_runtime::ErrorKind;
use parking_lot::Mutex;
use std::{fmt, sync::Arc};

/// Memory of a card, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CudaMemoryStats {
    /// in blocks that somebody holds
    pub allocated: u64,
    /// held by this process, whether in blocks or free
    pub reserved: u64,
    /// the most that was allocated since the last reset
    pub peak: u64,
    /// the most that was reserved since the last reset
    pub peak_reserved: u64,
    /// what the driver could still give
    pub free: u64,
    /// all that the card has
    pub total: u64,
    /// the most that may be reserved, where there is a cap
    pub cap: Option<u64>,
}
/// Memory that could not be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CudaShortage {
    /// bytes that were asked for
    pub asked: u64,
    /// what there was
    pub memory: CudaMemoryStats,
}
impl fmt::Display for CudaShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CudaMemoryStats { allocated, reserved, free, total, cap, .. } = self.memory;
        write!(f, "{} bytes were asked for; {reserved} are reserved, {allocated} of them in use; {free} of the card's {total} are free", self.asked)?;
        cap.map_or(Ok(()), |cap| write!(f, "; the cap is {cap}"))
    }
}
/// The memory of an opened card.
pub(crate) struct CudaPool {
    state: Mutex<PoolState>,
    pub marks: Arc<TurnMarks>,
    cap: Option<u64>,
    context: Arc<CudaContext>,
}
struct PoolState {
    /// where memory is mapped
    pages: Option<PagePool<DriverPages>>,
    /// bytes as the driver gives them
    plain: u64,
    peak: u64,
    peak_reserved: u64,
    shortage: Option<CudaShortage>,
}
impl PoolState {
    fn reserved(&self) -> u64 {
        self.plain + self.pages.as_ref().map_or(0, PagePool::reserved)
    }
    fn allocated(&self) -> u64 {
        self.plain + self.pages.as_ref().map_or(0, PagePool::handed_out)
    }
    fn note(&mut self) {
        (self.peak, self.peak_reserved) = (self.peak.max(self.allocated()), self.peak_reserved.max(self.reserved()));
    }
}
impl CudaPool {
    /// `addresses`: bytes of addresses to reserve at once; none: nothing is mapped.
    pub fn new(context: &Arc<CudaContext>, marks: &Arc<TurnMarks>, addresses: Option<u64>, cap: Option<u64>) -> CudaPool {
        let pages = addresses.map(|stride| PagePool::new(DriverPages::new(context), stride));
        let state = PoolState { pages, plain: 0, peak: 0, peak_reserved: 0, shortage: None };
        CudaPool { state: Mutex::new(state), marks: marks.clone(), cap, context: context.clone() }
    }
    /// Is memory handed out in mapped pages?
    pub fn is_mapped(&self) -> bool {
        self.state.lock().pages.is_some()
    }
    pub fn context(&self) -> &CudaContext {
        &self.context
    }
    /// A block of a free stretch that is long enough.
    pub fn take_free(&self, bytes: u64) -> Option<PageBlock> {
        let mut state = self.state.lock();
        let taken = state.pages.as_mut()?.take_free(bytes);
        state.note();
        taken
    }
    /// A block of mapped pages, which may be moved for it or new.
    ///
    /// # Errors
    /// No memory; a lost device.
    pub fn take(&self, bytes: u64) -> Result<PageBlock, ErrorKind> {
        let passed = self.marks.passed();
        let mut state = self.state.lock();
        let most = self.cap.map_or(u64::MAX, |cap| cap.saturating_sub(state.plain));
        let Some(pages) = &mut state.pages else { return Err(ErrorKind::Internal("memory that is not mapped".into())) };
        let taken = pages.take(bytes, passed, most);
        state.note();
        taken.map_err(|why| match why {
            NoBlock::Capped | NoBlock::Source(ErrorKind::OutOfMemory { .. }) => self.short_of(&mut state, bytes),
            NoBlock::Source(kind) => kind,
        })
    }
    /// Takes a block back that these turns may use still.
    pub fn give(&self, block: &PageBlock, last: LastTurns) {
        if let Some(pages) = &mut self.state.lock().pages {
            pages.give(block.start, block.bytes, last);
        }
    }
    /// Memory as the driver gives it. Where there is none, free pages that are at rest are given up for it.
    ///
    /// # Errors
    /// No memory; a lost device.
    pub fn plain(&self, bytes: usize) -> Result<u64, ErrorKind> {
        let passed = self.marks.passed();
        let mut state = self.state.lock();
        let trim = |state: &mut PoolState| state.pages.as_mut().map_or(0, |pages| pages.trim(passed));
        let is_over = |state: &PoolState| self.cap.is_some_and(|cap| state.reserved() + bytes as u64 > cap);
        if is_over(&state) {
            trim(&mut state);
        }
        if is_over(&state) {
            return Err(self.short_of(&mut state, bytes as u64));
        }
        let ask = || self.context.call(|| driver::allocate(bytes));
        let mut address = ask();
        if matches!(address, Err(ErrorKind::OutOfMemory { .. })) && trim(&mut state) > 0 {
            address = ask();
        }
        match address {
            Ok(address) => {
                state.plain += bytes as u64;
                state.note();
                Ok(address)
            }
            Err(ErrorKind::OutOfMemory { .. }) => Err(self.short_of(&mut state, bytes as u64)),
            Err(other) => Err(other),
        }
    }
    /// Gives it back to the driver.
    pub fn give_plain(&self, address: u64, bytes: usize) {
        // The driver lets pass what uses it: nothing else must wait for that.
        let _ = self.context.call(|| driver::free(address));
        self.state.lock().plain -= bytes as u64;
    }
    fn short_of(&self, state: &mut PoolState, asked: u64) -> ErrorKind {
        let shortage = CudaShortage { asked, memory: self.told(state) };
        state.shortage = Some(shortage);
        ErrorKind::OutOfMemory { asked: asked as usize, in_use: shortage.memory.allocated as usize, cap: self.cap.map(|cap| cap as usize) }
    }
    fn told(&self, state: &PoolState) -> CudaMemoryStats {
        let (free, total) = self.context.call(driver::memory_info).unwrap_or((0, 0));
        let (allocated, reserved, peak, peak_reserved) = (state.allocated(), state.reserved(), state.peak, state.peak_reserved);
        CudaMemoryStats { allocated, reserved, peak, peak_reserved, free: free as u64, total: total as u64, cap: self.cap }
    }
    pub fn stats(&self) -> CudaMemoryStats {
        self.told(&self.state.lock())
    }
    /// The last time that memory could not be had.
    pub fn shortage(&self) -> Option<CudaShortage> {
        self.state.lock().shortage
    }
    /// The peaks are what is there now.
    pub fn reset_peaks(&self) {
        let mut state = self.state.lock();
        (state.peak, state.peak_reserved) = (state.allocated(), state.reserved());
        if let Some(pages) = &mut state.pages {
            pages.reset_peak();
        }
    }
    /// Gives all free pages that are at rest back to the driver; how many bytes.
    pub fn trim(&self) -> u64 {
        let passed = self.marks.passed();
        self.state.lock().pages.as_mut().map_or(0, |pages| pages.trim(passed))
    }
}
/// Bytes of addresses to reserve at once, for a card with so much memory: blocks of two kinds lie apart, and holes are not always
/// where they are wanted.
pub(crate) fn addresses_for(memory: u64) -> u64 {
    memory.next_multiple_of(PAGE) * 2
}
