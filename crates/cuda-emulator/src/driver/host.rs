//! The host's memory as the driver knows it: what it locked for the caller, and what the caller had it lock.
use super::code::{Answer, CudaCode};
use super::pointer::Host;
use std::alloc::Layout;
use std::collections::BTreeMap;

/// Locked memory begins at pages.
const PAGE: usize = 4096;

/// One locked range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Locked {
    pub bytes: u64,
    pub flags: u32,
    pub context: u64,
    /// Allocated here; else the caller's own.
    ours: Option<Layout>,
}
/// What is locked, by its address.
#[derive(Default)]
pub(crate) struct LockedMemory(BTreeMap<u64, Locked>);

impl LockedMemory {
    /// Locked memory of its own; its contents are no number that anybody would mistake for data.
    pub fn allocate(&mut self, bytes: usize, flags: u32, context: u64) -> Answer<Host> {
        let layout = Layout::from_size_align(bytes, PAGE).map_err(|_| CudaCode::OUT_OF_MEMORY)?;
        if bytes == 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        // SAFETY: the layout is not empty.
        let memory = unsafe { std::alloc::alloc(layout) };
        if memory.is_null() {
            return Err(CudaCode::OUT_OF_MEMORY);
        }
        // SAFETY: it was just given and has that many bytes.
        unsafe { memory.write_bytes(0xdb, bytes) };
        let address = memory.expose_provenance() as u64;
        self.0.insert(address, Locked { bytes: bytes as u64, flags, context, ours: Some(layout) });
        Ok(Host::at(address))
    }
    /// Gives back what `allocate` gave.
    pub fn free(&mut self, memory: Host) -> Answer {
        let Some(Locked { ours: Some(layout), .. }) = self.0.get(&memory.address()).copied() else {
            return Err(CudaCode::INVALID_VALUE);
        };
        self.0.remove(&memory.address());
        // SAFETY: it was given by `alloc` with this layout and is in the table no more, so it is not given back twice.
        unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(memory.address() as usize), layout) };
        Ok(())
    }
    /// Locks memory of the caller's.
    pub fn register(&mut self, memory: Host, bytes: usize, flags: u32, context: u64) -> Answer {
        if memory.is_null() || bytes == 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        let (from, to) = (memory.address(), memory.address().checked_add(bytes as u64).ok_or(CudaCode::INVALID_VALUE)?);
        if self.0.range(..to).next_back().is_some_and(|(start, locked)| start + locked.bytes > from) {
            return Err(CudaCode::HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.0.insert(from, Locked { bytes: bytes as u64, flags, context, ours: None });
        Ok(())
    }
    /// Unlocks what `register` locked.
    pub fn unregister(&mut self, memory: Host) -> Answer {
        match self.0.get(&memory.address()) {
            Some(Locked { ours: None, .. }) => self.0.remove(&memory.address()),
            Some(_) => return Err(CudaCode::INVALID_VALUE),
            None => return Err(CudaCode::HOST_MEMORY_NOT_REGISTERED),
        };
        Ok(())
    }
    /// The locked range that holds all of these bytes, and where it begins.
    pub fn locked(&self, address: u64, bytes: u64) -> Option<(u64, Locked)> {
        let (start, locked) = self.0.range(..=address).next_back()?;
        (address.checked_add(bytes)? <= start + locked.bytes).then_some((*start, *locked))
    }
    /// Unlocks what belongs to a context that goes; memory stays with the process, for somebody may hold it still.
    pub fn forget(&mut self, context: u64) {
        self.0.retain(|_, locked| locked.context != context);
    }
}
