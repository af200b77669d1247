//! The device's memory: addresses, what stands behind them, which bytes were ever written, what was freed. It knows nothing
//! of kernels, streams or contexts; who may ask when is the driver's affair.
//!
//! Addresses are given once and never again, with a gap after each allocation: an access beyond an allocation or after its
//! end hits nothing that is alive, and which of both it was can be told. Bytes that nobody wrote are remembered as such;
//! who copies them copies that, too.
//!
//! Physical memory and addresses are two things, as in the driver's virtual memory calls: an allocation is both at once.

mod chunk;
#[cfg(test)]
mod tests;

pub(crate) use chunk::{MemoryChunk, WRITTEN, ZeroedBytes};

use parking_lot::RwLock;
use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// What a byte reads as that nobody wrote: as a float of any width it is no number.
pub const POISON: u8 = 0xff;
/// The first address that is given: everything below is a null pointer with an offset.
const FIRST_ADDRESS: u64 = 0x2_0000_0000;
/// No address at or beyond this one is given; the machine keeps the windows of shared and local memory there.
pub(crate) const END_OF_ADDRESSES: u64 = 0x7000_0000_0000;
/// Devices of one machine have this many addresses each.
const ADDRESSES_OF_A_DEVICE: u64 = 1 << 42;
/// Allocations start at multiples of it.
const ALIGNMENT: u64 = 256;
/// What lies between two allocations at least: rows that run over an end should not meet a neighbour.
const GAP: u64 = 1 << 20;
/// Reserved ranges and physical memory come in multiples of it.
pub const GRANULARITY: u64 = 2 << 20;

/// The memory of one device.
pub struct DeviceMemory {
    limit: AtomicU64,
    in_use: Arc<AtomicU64>,
    places: RwLock<AddressSpace>,
}

/// What stands where.
#[derive(Default)]
struct AddressSpace {
    next: u64,
    /// Alive, by first address.
    segments: BTreeMap<u64, Arc<AddressRange>>,
    /// Reserved address space: first address to bytes.
    reserved: BTreeMap<u64, u64>,
    /// What was once alive: first address to the one after the last.
    freed: BTreeMap<u64, u64>,
}

/// A stretch of addresses with memory behind it.
pub(crate) struct AddressRange {
    pub start: u64,
    pub end: u64,
    pub chunk: Arc<MemoryChunk>,
    /// Where in the chunk the first address lies.
    pub offset: u64,
    pub constant: bool,
    accessible: bool,
    /// Made by `allocate`, so ended by `free`.
    plain: bool,
}

/// Memory without an address, as `cuMemCreate` gives it: it lives as long as a handle or a mapping does.
#[derive(Clone)]
pub struct Physical(Arc<MemoryChunk>);

impl Physical {
    /// How many bytes it holds.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    /// The place of its first byte.
    pub(crate) fn place(&self) -> u64 {
        self.0.place(0)
    }
}

/// The address names nothing that could be ended or changed so: never given, ended before, or still in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// The address that was named.
    pub address: u64,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} is not the start of something alive that could be ended or changed so", self.address)
    }
}

impl Error for Stale {}

/// Why an access touched no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryFaultKind {
    /// No allocation was ever there.
    OutOfBounds,
    /// What was there was freed or unmapped.
    UseAfterFree,
    /// It is mapped, and nobody gave access to it.
    NotAccessible,
}

/// An access that touched no memory: nothing was read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryFault {
    /// What is wrong with the address.
    pub kind: MemoryFaultKind,
    /// The first address of the access behind which there is nothing.
    pub address: u64,
}

impl fmt::Display for MemoryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            MemoryFaultKind::OutOfBounds => "no allocation holds it",
            MemoryFaultKind::UseAfterFree => "its allocation was freed",
            MemoryFaultKind::NotAccessible => "it is mapped without access",
        };
        write!(f, "device address {:#x}: {what}", self.address)
    }
}

impl Error for MemoryFault {}

impl DeviceMemory {
    /// A device with `bytes` of memory.
    pub fn new(bytes: u64) -> DeviceMemory {
        let places = AddressSpace { next: FIRST_ADDRESS, ..AddressSpace::default() };
        DeviceMemory { limit: AtomicU64::new(bytes), in_use: Arc::default(), places: RwLock::new(places) }
    }
    /// The same for the device of this number of a machine: no address of one is an address of another.
    pub(crate) fn of_device(number: usize, bytes: u64) -> DeviceMemory {
        let memory = DeviceMemory::new(bytes);
        memory.places.write().next += number as u64 * ADDRESSES_OF_A_DEVICE;
        memory
    }
    /// Ends all that is alive: allocations, mappings, reserved addresses.
    pub(crate) fn clear(&self) {
        let mut places = self.places.write();
        for (start, segment) in std::mem::take(&mut places.segments) {
            places.freed.insert(start, segment.end);
        }
        places.reserved.clear();
    }
    /// Whether a stretch of addresses is alive.
    ///
    /// # Errors
    /// Not all of it is.
    pub(crate) fn check(&self, address: u64, bytes: u64) -> Result<(), MemoryFault> {
        self.pieces(address, bytes).map(drop)
    }
    /// Whether an allocation of `allocate` begins there.
    pub(crate) fn is_allocation(&self, address: u64) -> bool {
        self.places.read().segments.get(&address).is_some_and(|s| s.plain && !s.constant)
    }
    /// Whether an address was ever given.
    pub(crate) fn knows(&self, address: u64) -> bool {
        let places = self.places.read();
        let is_in = |start: Option<(&u64, u64)>| start.is_some_and(|(_, end)| address < end);
        is_in(places.segments.range(..=address).next_back().map(|(s, segment)| (s, segment.end)))
            || is_in(places.reserved.range(..=address).next_back().map(|(s, bytes)| (s, s + bytes)))
            || is_in(places.freed.range(..=address).next_back().map(|(s, end)| (s, *end)))
    }
    /// How many bytes are alive.
    pub fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }
    /// How many bytes may be alive.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }
    /// From now on so many bytes may be alive; what is alive stays.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }
    /// Memory of `bytes` that nobody wrote; none if the limit is met, or `bytes` is 0.
    pub fn allocate(&self, bytes: u64) -> Option<u64> {
        self.place(bytes, false)
    }
    /// As `allocate`, for what kernels may not write.
    pub(crate) fn allocate_constant(&self, bytes: u64) -> Option<u64> {
        self.place(bytes, true)
    }
    fn place(&self, bytes: u64, constant: bool) -> Option<u64> {
        let chunk = self.chunk(bytes)?;
        let mut places = self.places.write();
        let start = places.take(bytes, ALIGNMENT)?;
        let segment = AddressRange { start, end: start + bytes, chunk, offset: 0, constant, accessible: true, plain: true };
        places.segments.insert(start, Arc::new(segment));
        Some(start)
    }
    /// Memory within the limit. What is asked for is counted before it is made, so that two threads cannot both have the rest.
    fn chunk(&self, bytes: u64) -> Option<Arc<MemoryChunk>> {
        let limit = self.limit();
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| bytes > 0 && *sum <= limit);
        self.in_use.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        let made = MemoryChunk::new(bytes, Arc::clone(&self.in_use));
        if made.is_none() {
            self.in_use.fetch_sub(bytes, Ordering::Relaxed);
        }
        made.map(Arc::new)
    }
    /// Ends an allocation.
    ///
    /// # Errors
    /// The address is not one that `allocate` gave, or was freed before.
    pub fn free(&self, address: u64) -> Result<(), Stale> {
        let mut places = self.places.write();
        let end = places.segments.get(&address).filter(|s| s.plain).map(|s| s.end).ok_or(Stale { address })?;
        places.segments.remove(&address);
        places.freed.insert(address, end);
        Ok(())
    }
    /// Addresses without memory: `bytes`, rounded up to the granularity. None if there are no more.
    pub fn reserve(&self, bytes: u64) -> Option<u64> {
        let bytes = bytes.max(1).checked_next_multiple_of(GRANULARITY)?;
        let mut places = self.places.write();
        let start = places.take(bytes, GRANULARITY)?;
        places.reserved.insert(start, bytes);
        Some(start)
    }
    /// Gives reserved addresses back; they are not given again.
    ///
    /// # Errors
    /// They were not reserved, or something is mapped there.
    pub fn release_range(&self, address: u64) -> Result<(), Stale> {
        let mut places = self.places.write();
        let bytes = *places.reserved.get(&address).ok_or(Stale { address })?;
        if places.segments.range(address..address + bytes).next().is_some() {
            return Err(Stale { address });
        }
        places.reserved.remove(&address);
        Ok(())
    }
    /// Physical memory; none if the limit is met.
    pub fn create(&self, bytes: u64) -> Option<Physical> {
        self.chunk(bytes).map(Physical)
    }
    /// Puts `bytes` of physical memory, from `offset` on, at reserved addresses. Nobody has access yet.
    ///
    /// # Errors
    /// The addresses are not all reserved, something is mapped there, the memory is shorter, or one of both begins at no
    /// multiple of 256.
    pub fn map(&self, address: u64, bytes: u64, offset: u64, physical: &Physical) -> Result<(), Stale> {
        let stale = Stale { address };
        let aligned = (address | offset).is_multiple_of(ALIGNMENT);
        let end = address.checked_add(bytes).filter(|_| bytes > 0 && aligned).ok_or(stale)?;
        offset.checked_add(bytes).filter(|e| *e <= physical.bytes()).ok_or(stale)?;
        let mut places = self.places.write();
        let range = places.reserved.range(..=address).next_back().filter(|(start, bytes)| end <= *start + *bytes);
        if range.is_none() || places.overlaps(address, end) {
            return Err(stale);
        }
        let segment = AddressRange { start: address, end, chunk: Arc::clone(&physical.0), offset, constant: false, accessible: false, plain: false };
        places.segments.insert(address, Arc::new(segment));
        places.unfree(address, end);
        Ok(())
    }
    /// Takes mappings away: those that make up `bytes` from `address` on, each as a whole.
    ///
    /// # Errors
    /// The stretch is not exactly some mappings.
    pub fn unmap(&self, address: u64, bytes: u64) -> Result<(), Stale> {
        let mut places = self.places.write();
        for start in places.mappings(address, bytes)? {
            if let Some(segment) = places.segments.remove(&start) {
                places.freed.insert(segment.start, segment.end);
            }
        }
        Ok(())
    }
    /// Gives or takes access to mappings.
    ///
    /// # Errors
    /// The stretch is not exactly some mappings.
    pub fn set_access(&self, address: u64, bytes: u64, accessible: bool) -> Result<(), Stale> {
        let mut places = self.places.write();
        for start in places.mappings(address, bytes)? {
            if let Some(segment) = places.segments.get_mut(&start) {
                let AddressRange { start, end, offset, constant, plain, .. } = **segment;
                *segment = Arc::new(AddressRange { start, end, chunk: Arc::clone(&segment.chunk), offset, constant, accessible, plain });
            }
        }
        Ok(())
    }
    /// The stretch of the allocation that holds an address: its start and its bytes.
    pub fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        self.segment(address).ok().map(|s| (s.start, s.end - s.start))
    }
    /// Reads bytes; those that nobody wrote read as `POISON`.
    ///
    /// # Errors
    /// Not all of the addresses are alive: nothing is read.
    pub fn read(&self, address: u64, to: &mut [u8]) -> Result<(), MemoryFault> {
        let pieces = self.pieces(address, to.len() as u64)?;
        let mut rest = to;
        for (segment, at, bytes) in pieces {
            let (piece, others) = rest.split_at_mut(bytes as usize);
            segment.chunk.read(at, piece);
            rest = others;
        }
        Ok(())
    }
    /// Writes bytes.
    ///
    /// # Errors
    /// Not all of the addresses are alive: nothing is written.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), MemoryFault> {
        let pieces = self.pieces(address, from.len() as u64)?;
        let mut rest = from;
        for (segment, at, bytes) in pieces {
            let (piece, others) = rest.split_at(bytes as usize);
            segment.chunk.write(at, piece);
            rest = others;
        }
        Ok(())
    }
    /// Copies bytes, as if all were read before the first is written; bytes that nobody wrote stay such.
    ///
    /// # Errors
    /// Not all of the addresses are alive: nothing is copied.
    pub fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), MemoryFault> {
        let (sources, targets) = (self.pieces(from, bytes)?, self.pieces(to, bytes)?);
        let mut data = vec![0u8; bytes as usize];
        let mut written = vec![0u8; bytes as usize];
        let mut done = 0;
        for (segment, at, bytes) in sources {
            let range = done..done + bytes as usize;
            segment.chunk.take(at, &mut data[range.clone()], &mut written[range]);
            done += bytes as usize;
        }
        done = 0;
        for (segment, at, bytes) in targets {
            let range = done..done + bytes as usize;
            segment.chunk.put(at, &data[range.clone()], &written[range]);
            done += bytes as usize;
        }
        Ok(())
    }
    /// Makes bytes such that nobody wrote them, as memory has them that is given out anew.
    ///
    /// # Errors
    /// Not all of the addresses are alive: nothing changes.
    pub fn forget(&self, address: u64, bytes: u64) -> Result<(), MemoryFault> {
        for (segment, at, bytes) in self.pieces(address, bytes)? {
            segment.chunk.forget(at, bytes);
        }
        Ok(())
    }
    /// Whether all of the bytes are alive and were written.
    pub fn is_written(&self, address: u64, bytes: u64) -> bool {
        self.pieces(address, bytes).is_ok_and(|pieces| pieces.iter().all(|(segment, at, bytes)| segment.chunk.is_written(*at, *bytes)))
    }
    /// The segment that holds an address, if it may be accessed.
    pub(crate) fn segment(&self, address: u64) -> Result<Arc<AddressRange>, MemoryFault> {
        let places = self.places.read();
        let fault = |kind| MemoryFault { kind, address };
        match places.segments.range(..=address).next_back() {
            Some((_, segment)) if address < segment.end && segment.accessible => Ok(Arc::clone(segment)),
            Some((_, segment)) if address < segment.end => Err(fault(MemoryFaultKind::NotAccessible)),
            _ if places.freed.range(..=address).next_back().is_some_and(|(_, end)| address < *end) => Err(fault(MemoryFaultKind::UseAfterFree)),
            _ => Err(fault(MemoryFaultKind::OutOfBounds)),
        }
    }
    /// Where a stretch of addresses lies physically: the place of each piece, and its bytes. None where it is not alive.
    pub(crate) fn places(&self, address: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let pieces = self.pieces(address, bytes).unwrap_or_default();
        pieces.into_iter().map(|(segment, at, bytes)| (segment.chunk.place(at), bytes))
    }
    /// The segments behind a stretch of addresses: each with where in its chunk the piece begins, and its bytes.
    pub(crate) fn pieces(&self, address: u64, bytes: u64) -> Result<Vec<(Arc<AddressRange>, u64, u64)>, MemoryFault> {
        let end = address.checked_add(bytes).ok_or(MemoryFault { kind: MemoryFaultKind::OutOfBounds, address })?;
        let mut pieces = Vec::new();
        let mut at = address;
        while at < end {
            let segment = self.segment(at)?;
            let upto = segment.end.min(end);
            let offset = segment.offset + (at - segment.start);
            pieces.push((segment, offset, upto - at));
            at = upto;
        }
        Ok(pieces)
    }
}

impl AddressSpace {
    /// Addresses that were never given.
    fn take(&mut self, bytes: u64, alignment: u64) -> Option<u64> {
        let start = self.next.checked_next_multiple_of(alignment)?;
        let end = start.checked_add(bytes).filter(|end| *end < END_OF_ADDRESSES)?;
        self.next = end + GAP;
        Some(start)
    }
    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.segments.range(..end).next_back().is_some_and(|(_, segment)| segment.end > start)
    }
    /// The starts of the mappings that make up a stretch.
    fn mappings(&self, address: u64, bytes: u64) -> Result<Vec<u64>, Stale> {
        let stale = Stale { address };
        let end = address.checked_add(bytes).filter(|_| bytes > 0).ok_or(stale)?;
        let mut starts = Vec::new();
        let mut at = address;
        while at < end {
            let segment = self.segments.get(&at).filter(|s| !s.plain && s.end <= end).ok_or(stale)?;
            starts.push(at);
            at = segment.end;
        }
        Ok(starts)
    }
    /// What is mapped again is no longer freed.
    fn unfree(&mut self, start: u64, end: u64) {
        let hit: Vec<(u64, u64)> = self.freed.range(..end).filter(|(_, e)| **e > start).map(|(s, e)| (*s, *e)).collect();
        for (s, e) in hit {
            self.freed.remove(&s);
            if s < start {
                self.freed.insert(s, start);
            }
            if e > end {
                self.freed.insert(end, e);
            }
        }
    }
}
