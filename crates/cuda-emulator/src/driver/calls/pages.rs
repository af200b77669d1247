//! Calls about pages: addresses, memory, and the one mapped into the other.
use crate::driver::code::{Answer, CudaCode};
use crate::driver::entry::calls;
use crate::driver::pointer::{InPointer, OutPointer};
use crate::driver::profile::GRANULE;
use crate::driver::state::{Allocated, DriverState, Reserved};
use crate::emulator::EmulatedFault;
use std::collections::BTreeMap;

/// `CUmemLocation`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Location {
    kind: u32,
    id: i32,
}
/// `CUmemAllocationProp`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Properties {
    kind: u32,
    handles: u32,
    location: Location,
    security: u64,
    flags: [u8; 8],
}
/// `CUmemAccessDesc`.
#[derive(Clone, Copy)]
#[repr(C)]
struct AccessDescription {
    location: Location,
    flags: u32,
}
/// Memory that is pinned, on a device.
const PINNED: u32 = 1;
const ON_DEVICE: u32 = 1;
/// Reads and writes.
const READ_WRITE: u32 = 3;

calls! { exports, CudaCode;
    fn cuMemGetAllocationGranularity(state, bytes: OutPointer<usize>, properties: InPointer<Properties>, option: u32) {
        bytes.needed()?;
        state.ready()?;
        state.device_for(properties.get()?)?;
        if option > 1 {
            return Err(CudaCode::INVALID_VALUE);
        }
        bytes.set(GRANULE as usize)
    }
    fn cuMemAddressReserve(state, address: OutPointer<u64>, bytes: usize, alignment: usize, wanted: u64, flags: u64) {
        address.needed()?;
        let current = state.current()?;
        let whole = bytes > 0 && (bytes as u64).is_multiple_of(GRANULE);
        let aligned = alignment == 0 || alignment.is_power_of_two() && alignment as u64 <= GRANULE;
        if !whole || !aligned || flags != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        let device = state.context(current)?.device;
        let start = state.memory()?.reserve(bytes as u64).ok_or(CudaCode::OUT_OF_MEMORY)?;
        state.reserved.insert(start, Reserved { device, bytes: bytes as u64, mapped: BTreeMap::new() });
        address.set(start)
    }
    fn cuMemAddressFree(state, address: u64, bytes: usize) {
        state.current()?;
        let range = state.reserved.get(&address).filter(|r| r.bytes == bytes as u64 && r.mapped.is_empty()).ok_or(CudaCode::INVALID_VALUE)?;
        let Some(device) = state.devices.get(range.device) else { return Err(CudaCode::INVALID_VALUE) };
        device.memory.release_range(address).map_err(|_| CudaCode::INVALID_VALUE)?;
        state.reserved.remove(&address);
        Ok(())
    }
    fn cuMemCreate(state, handle: OutPointer<u64>, bytes: usize, properties: InPointer<Properties>, flags: u64) {
        handle.needed()?;
        state.ready()?;
        state.refuse_while_capturing()?;
        let device = state.device_for(properties.get()?)?;
        if bytes == 0 || !(bytes as u64).is_multiple_of(GRANULE) || flags != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        let Some(card) = state.devices.get(device) else { return Err(CudaCode::INVALID_DEVICE) };
        let physical = card.memory.create(bytes as u64).ok_or(CudaCode::OUT_OF_MEMORY)?;
        let made = state.handle();
        state.allocated.insert(made, Allocated { device, bytes: bytes as u64, physical, released: false, mappings: 0 });
        handle.set(made)
    }
    fn cuMemRelease(state, handle: u64) {
        state.ready()?;
        let memory = state.allocated.get_mut(&handle).filter(|a| !a.released).ok_or(CudaCode::INVALID_VALUE)?;
        memory.released = true;
        state.end_if_unmapped(handle);
        Ok(())
    }
    fn cuMemMap(state, address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) {
        state.ready()?;
        state.refuse_while_capturing()?;
        let bytes = bytes as u64;
        let memory = state.allocated.get(&handle).filter(|a| !a.released).ok_or(CudaCode::INVALID_VALUE)?;
        let whole = bytes > 0 && bytes.is_multiple_of(GRANULE) && address.is_multiple_of(GRANULE);
        // "offset: must be zero" (cuMemMap).
        if !whole || offset != 0 || flags != 0 || bytes > memory.bytes {
            return Err(CudaCode::INVALID_VALUE);
        }
        let (mut physical, device) = (memory.physical.clone(), memory.device);
        if state.goes_wrong(EmulatedFault::Page) {
            let first = state.allocated.iter().filter(|(_, a)| a.device == device && a.bytes >= bytes).min_by_key(|(handle, _)| **handle);
            physical = first.map_or(physical, |(_, first)| first.physical.clone());
        }
        let card = state.devices.get(device).ok_or(CudaCode::INVALID_DEVICE)?.memory.clone();
        let (_, range) = state.reserved.range_mut(..=address).next_back().ok_or(CudaCode::INVALID_VALUE)?;
        card.map(address, bytes, 0, &physical).map_err(|_| CudaCode::INVALID_VALUE)?;
        range.mapped.insert(address, (bytes, handle));
        if let Some(memory) = state.allocated.get_mut(&handle) {
            memory.mappings += 1;
        }
        Ok(())
    }
    fn cuMemUnmap(state, address: u64, bytes: usize) {
        state.ready()?;
        state.refuse_while_capturing()?;
        let end = address.checked_add(bytes as u64).ok_or(CudaCode::INVALID_VALUE)?;
        let (device, mapped) = state.mapped(address, end)?;
        // It waits for nothing: what is under way and uses it finds nothing there.
        let Some(device) = state.devices.get_mut(device) else { return Err(CudaCode::INVALID_DEVICE) };
        device.memory.unmap(address, bytes as u64).map_err(|_| CudaCode::INVALID_VALUE)?;
        state.log.forget_range(address, bytes as u64);
        for (start, handle) in mapped {
            if let Some((_, range)) = state.reserved.range_mut(..=address).next_back() {
                range.mapped.remove(&start);
            }
            if let Some(memory) = state.allocated.get_mut(&handle) {
                memory.mappings -= 1;
            }
            state.end_if_unmapped(handle);
        }
        Ok(())
    }
    fn cuMemSetAccess(state, address: u64, bytes: usize, access: InPointer<AccessDescription>, count: usize) {
        state.ready()?;
        let end = address.checked_add(bytes as u64).ok_or(CudaCode::INVALID_VALUE)?;
        if count == 0 || count > 64 {
            return Err(CudaCode::INVALID_VALUE);
        }
        let (device, _) = state.mapped(address, end)?;
        for k in 0..count {
            let access = access.at(k)?;
            if access.location.kind != ON_DEVICE || !matches!(access.flags, 0 | 1 | READ_WRITE) {
                return Err(CudaCode::INVALID_VALUE);
            }
            let asked = state.device(access.location.id)?;
            if asked == device {
                let memory = state.devices.get(device).ok_or(CudaCode::INVALID_DEVICE)?.memory.clone();
                memory.set_access(address, bytes as u64, access.flags != 0).map_err(|_| CudaCode::INVALID_VALUE)?;
            }
        }
        Ok(())
    }
    fn cuMemGetAccess(state, flags: OutPointer<u64>, location: InPointer<Location>, address: u64) {
        flags.needed()?;
        state.ready()?;
        let location = location.get()?;
        if location.kind != ON_DEVICE {
            return Err(CudaCode::INVALID_VALUE);
        }
        let asked = state.device(location.id)?;
        let (device, _) = state.mapped(address, address.saturating_add(1)).or_else(|_| state.mapping_of(address))?;
        let may = asked == device && state.devices.get(device).is_some_and(|d| d.memory.check(address, 1).is_ok());
        flags.set(if may { u64::from(READ_WRITE) } else { 0 })
    }
}

impl DriverState {
    /// Memory that was released is gone when it is mapped nowhere.
    fn end_if_unmapped(&mut self, handle: u64) {
        let is_gone = |a: &Allocated| a.released && a.mappings == 0;
        let Some(gone) = self.allocated.get(&handle).is_some_and(is_gone).then(|| self.allocated.remove(&handle)).flatten() else { return };
        if let Some(device) = self.devices.get_mut(gone.device) {
            device.accesses.forget(gone.physical.place(), gone.bytes);
        }
    }
    /// The card that memory is asked for on.
    fn device_for(&self, properties: Properties) -> Answer<usize> {
        if properties.kind != PINNED || properties.location.kind != ON_DEVICE {
            return Err(CudaCode::INVALID_VALUE);
        }
        if properties.handles != 0 {
            return Err(CudaCode::NOT_SUPPORTED);
        }
        self.device(properties.location.id)
    }
    /// The mappings that make up a range of addresses: which card's, where each begins, and which memory it is.
    fn mapped(&self, address: u64, end: u64) -> Answer<(usize, Vec<(u64, u64)>)> {
        let (_, range) = self.reserved.range(..=address).next_back().ok_or(CudaCode::INVALID_VALUE)?;
        let mut at = address;
        let mut all = Vec::new();
        while at < end {
            let (bytes, handle) = range.mapped.get(&at).ok_or(CudaCode::INVALID_VALUE)?;
            all.push((at, *handle));
            at += bytes;
        }
        let device = all.first().and_then(|(_, h)| self.allocated.get(h)).map_or(range.device, |a| a.device);
        if at == end && !all.is_empty() { Ok((device, all)) } else { Err(CudaCode::INVALID_VALUE) }
    }
    /// The mapping that holds an address.
    fn mapping_of(&self, address: u64) -> Answer<(usize, Vec<(u64, u64)>)> {
        let (_, range) = self.reserved.range(..=address).next_back().ok_or(CudaCode::INVALID_VALUE)?;
        let (start, (bytes, handle)) = range.mapped.range(..=address).next_back().ok_or(CudaCode::INVALID_VALUE)?;
        if address >= start + bytes {
            return Err(CudaCode::INVALID_VALUE);
        }
        Ok((self.allocated.get(handle).map_or(range.device, |a| a.device), vec![(*start, *handle)]))
    }
}
