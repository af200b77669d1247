//! What a block's threads can address: device memory through a cache of its stretches, the block's shared memory, the
//! threads' local memory, the kernel's parameters. Each access is checked here: its alignment, its bounds, whether what is
//! read was written.
use super::{
    finding::FindingKind,
    windows::{LOCAL, PARAMETERS, SHARED, WINDOW},
};
use crate::{
    memory::{AddressRange, DeviceMemory, MemoryFaultKind, WRITTEN, ZeroedBytes},
    ptx::StateSpace,
};
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// The state of a byte that an asynchronous copy is under way to.
pub const IN_FLIGHT: u8 = 2;
/// Stretches of device memory that are remembered.
const REMEMBERED: usize = 16;

/// Bytes and their states.
pub struct Arena {
    pub data: ZeroedBytes,
    pub written: ZeroedBytes,
    bytes: u64,
}

impl Arena {
    pub fn new(bytes: u64) -> Option<Arena> {
        Some(Arena { data: ZeroedBytes::new(bytes)?, written: ZeroedBytes::new(bytes)?, bytes })
    }
}

/// All that is addressed.
pub struct Arenas<'m> {
    memory: &'m DeviceMemory,
    segments: Vec<Arc<AddressRange>>,
    last: usize,
    pub shared: Arena,
    shared_notes: ZeroedBytes,
    /// Of each warp: its lanes one after another.
    locals: Vec<Arena>,
    local: u64,
    parameters: Arena,
}

/// Where an access goes.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    which: Which,
    pub at: u64,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Segment(usize),
    Shared,
    Local(usize),
    Parameters,
}

/// The memory of a spot.
pub struct MemoryView<'a> {
    pub data: &'a ZeroedBytes,
    pub written: &'a ZeroedBytes,
    /// Notes of accesses, where threads can meet.
    pub notes: Option<&'a ZeroedBytes>,
    pub global: bool,
}

/// What is wrong with an address.
pub type Wrong = (FindingKind, &'static str);

impl<'m> Arenas<'m> {
    /// None if the system has no memory for it.
    pub fn new(memory: &'m DeviceMemory, shared: u64, local: u64, warps: usize, parameters: &[u8]) -> Option<Arenas<'m>> {
        let local = local.next_multiple_of(16);
        let given = Arena::new(parameters.len() as u64)?;
        for (k, byte) in parameters.iter().enumerate() {
            given.data.word8(k as u64).store(*byte, Relaxed);
            given.written.word8(k as u64).store(WRITTEN, Relaxed);
        }
        let locals = (0..warps).map(|_| Arena::new(local * 32)).collect::<Option<_>>()?;
        Some(Arenas {
            memory,
            segments: Vec::new(),
            last: 0,
            shared: Arena::new(shared)?,
            shared_notes: ZeroedBytes::new(shared.div_ceil(4) * super::watch::NOTES)?,
            locals,
            local,
            parameters: given,
        })
    }
    /// Nothing of shared and local memory is written, as when a block begins.
    pub fn begin(&mut self) {
        self.shared.written.fill(0, self.shared.bytes, 0);
        // The block that had this memory before is nobody's neighbour.
        self.shared_notes.fill(0, self.shared.bytes.div_ceil(4) * super::watch::NOTES, 0);
        for arena in &self.locals {
            arena.written.fill(0, arena.bytes, 0);
        }
    }
    /// Whether an address is one of shared memory.
    pub fn is_shared(&self, space: StateSpace, address: u64) -> bool {
        space == StateSpace::Shared || space == StateSpace::Generic && address.wrapping_sub(SHARED) < WINDOW
    }
    /// Finds what an access of some bytes goes to.
    #[inline(always)]
    pub fn locate(&mut self, space: StateSpace, address: u64, bytes: u64, warp: usize, lane: usize, write: bool) -> Result<Spot, Wrong> {
        if address & (bytes - 1) != 0 {
            return Err((FindingKind::Misaligned, ""));
        }
        match space {
            StateSpace::Shared => within(Which::Shared, address, bytes, self.shared.bytes),
            StateSpace::Global | StateSpace::Const => self.device(address, bytes, write),
            StateSpace::Local => {
                let spot = within(Which::Local(warp), address, bytes, self.local)?;
                Ok(Spot { at: spot.at + lane as u64 * self.local, ..spot })
            }
            StateSpace::Param => within(Which::Parameters, address, bytes, self.parameters.bytes),
            StateSpace::Generic => {
                if address.wrapping_sub(SHARED) < WINDOW {
                    within(Which::Shared, address - SHARED, bytes, self.shared.bytes)
                } else if address.wrapping_sub(LOCAL) < WINDOW {
                    let spot = within(Which::Local(warp), address - LOCAL, bytes, self.local)?;
                    Ok(Spot { at: spot.at + lane as u64 * self.local, ..spot })
                } else if address.wrapping_sub(PARAMETERS) < WINDOW {
                    if write {
                        return Err((FindingKind::WriteToConstant, "a kernel's parameter"));
                    }
                    within(Which::Parameters, address - PARAMETERS, bytes, self.parameters.bytes)
                } else {
                    self.device(address, bytes, write)
                }
            }
        }
    }
    #[inline(always)]
    fn device(&mut self, address: u64, bytes: u64, write: bool) -> Result<Spot, Wrong> {
        if let Some(segment) = self.segments.get(self.last)
            && address >= segment.start
            && address < segment.end
        {
            return spot(self.last, segment, address, bytes, write);
        }
        self.seek(address, bytes, write)
    }
    #[cold]
    fn seek(&mut self, address: u64, bytes: u64, write: bool) -> Result<Spot, Wrong> {
        let found = match self.segments.iter().position(|s| address >= s.start && address < s.end) {
            Some(found) => found,
            None => {
                let segment = self.memory.segment(address).map_err(|fault| match fault.kind {
                    MemoryFaultKind::OutOfBounds => (FindingKind::OutOfBounds, ""),
                    MemoryFaultKind::UseAfterFree => (FindingKind::UseAfterFree, ""),
                    MemoryFaultKind::NotAccessible => (FindingKind::OutOfBounds, "mapped, and nobody has access"),
                })?;
                if self.segments.len() == REMEMBERED {
                    self.segments.remove(0);
                }
                self.segments.push(segment);
                self.segments.len() - 1
            }
        };
        self.last = found;
        match self.segments.get(found) {
            Some(segment) => spot(found, segment, address, bytes, write),
            None => Err((FindingKind::OutOfBounds, "")),
        }
    }
    #[inline(always)]
    pub fn view(&self, spot: Spot) -> MemoryView<'_> {
        match spot.which {
            Which::Segment(at) => {
                let segment = &self.segments[at];
                let notes = if segment.constant { None } else { segment.chunk.notes(super::watch::NOTES) };
                MemoryView { data: segment.chunk.data(), written: segment.chunk.written(), notes, global: true }
            }
            Which::Shared => MemoryView { data: &self.shared.data, written: &self.shared.written, notes: Some(&self.shared_notes), global: false },
            Which::Local(warp) => MemoryView { data: &self.locals[warp].data, written: &self.locals[warp].written, notes: None, global: false },
            Which::Parameters => MemoryView { data: &self.parameters.data, written: &self.parameters.written, notes: None, global: false },
        }
    }
    /// Copies bytes within the local memory of a lane, with their states.
    pub fn copy_local(&self, warp: usize, lane: usize, (from, to, bytes): (u32, u32, u32)) {
        let arena = &self.locals[warp];
        let base = lane as u64 * self.local;
        for k in 0..u64::from(bytes) {
            let (from, to) = (base + u64::from(from) + k, base + u64::from(to) + k);
            arena.data.word8(to).store(arena.data.word8(from).load(Relaxed), Relaxed);
            arena.written.word8(to).store(arena.written.word8(from).load(Relaxed), Relaxed);
        }
    }
}

#[inline(always)]
fn spot(which: usize, segment: &AddressRange, address: u64, bytes: u64, write: bool) -> Result<Spot, Wrong> {
    if segment.end - address < bytes {
        return Err((FindingKind::OutOfBounds, "it runs over the end of an allocation"));
    }
    if write && segment.constant {
        return Err((FindingKind::WriteToConstant, ""));
    }
    Ok(Spot { which: Which::Segment(which), at: segment.offset + (address - segment.start) })
}
#[inline(always)]
fn within(which: Which, at: u64, bytes: u64, limit: u64) -> Result<Spot, Wrong> {
    if at >= limit || limit - at < bytes { Err((FindingKind::OutOfBounds, "")) } else { Ok(Spot { which, at }) }
}

impl MemoryView<'_> {
    /// Reads up to 8 bytes, a power of two.
    #[inline(always)]
    pub fn load(&self, at: u64, bytes: u32) -> u64 {
        match bytes {
            1 => u64::from(self.data.word8(at).load(Relaxed)),
            2 => u64::from(self.data.word16(at).load(Relaxed)),
            4 => u64::from(self.data.word32(at).load(Relaxed)),
            _ => self.data.word64(at).load(Relaxed),
        }
    }
    /// Writes up to 8 bytes, a power of two.
    #[inline(always)]
    pub fn store(&self, at: u64, bytes: u32, value: u64) {
        match bytes {
            1 => self.data.word8(at).store(value as u8, Relaxed),
            2 => self.data.word16(at).store(value as u16, Relaxed),
            4 => self.data.word32(at).store(value as u32, Relaxed),
            _ => self.data.word64(at).store(value, Relaxed),
        }
    }
    /// The states of up to 8 bytes, a power of two, as the bytes of a word.
    #[inline(always)]
    pub fn states(&self, at: u64, bytes: u32) -> u64 {
        match bytes {
            1 => u64::from(self.written.word8(at).load(Relaxed)),
            2 => u64::from(self.written.word16(at).load(Relaxed)),
            4 => u64::from(self.written.word32(at).load(Relaxed)),
            _ => self.written.word64(at).load(Relaxed),
        }
    }
    /// Sets the states of up to 8 bytes, a power of two.
    #[inline(always)]
    pub fn set_states(&self, at: u64, bytes: u32, state: u8) {
        let all = u64::from(state) * 0x0101_0101_0101_0101;
        match bytes {
            1 => self.written.word8(at).store(state, Relaxed),
            2 => self.written.word16(at).store(all as u16, Relaxed),
            4 => self.written.word32(at).store(all as u32, Relaxed),
            _ => self.written.word64(at).store(all, Relaxed),
        }
    }
    /// What is wrong with reading up to 8 bytes.
    #[inline(always)]
    pub fn readable(&self, at: u64, bytes: u32) -> Result<(), Wrong> {
        let states = self.states(at, bytes);
        if states == all_written(bytes) { Ok(()) } else { Err(unreadable(states)) }
    }
}

#[inline(always)]
fn all_written(bytes: u32) -> u64 {
    0x0101_0101_0101_0101 >> (64 - 8 * bytes)
}
#[cold]
fn unreadable(states: u64) -> Wrong {
    if states.to_le_bytes().contains(&IN_FLIGHT) { (FindingKind::CopyNotAwaited, "") } else { (FindingKind::ReadBeforeWritten, "") }
}
