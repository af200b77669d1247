//! Calls about memory: the device's, the host's that is locked, and what an address is.
use crate::driver::code::{Answer, CudaCode};
use crate::driver::entry::calls;
use crate::driver::pointer::{Host, OutPointer};
use crate::driver::queue::{StreamWork, WaitGoal};
use crate::driver::state::DriverState;
use crate::machine::finding::FindingKind;

/// Flags of locked memory: for all contexts, mapped, written by the host only.
const HOST_FLAGS: u32 = 7;
/// Flags of registered memory: the same, then input-output space and read-only.
const REGISTER_FLAGS: u32 = 0xf;

calls! { exports, CudaCode;
    fn cuMemGetInfo_v2(state, free: OutPointer<usize>, total: OutPointer<usize>) {
        let memory = state.memory()?;
        free.set(memory.limit().saturating_sub(memory.in_use()) as usize)?;
        total.set(memory.limit() as usize)
    }
    fn cuMemAlloc_v2(state, address: OutPointer<u64>, bytes: usize) {
        address.needed()?;
        let memory = state.memory()?;
        state.refuse_while_capturing()?;
        if bytes == 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        address.set(memory.allocate(bytes as u64).ok_or(CudaCode::OUT_OF_MEMORY)?)
    }
    fn cuMemFree_v2(state, address: u64) {
        let current = state.current()?;
        state.refuse_while_capturing()?;
        state.check_freed("cuMemFree_v2", address)?;
        state.wait("cuMemFree_v2", WaitGoal::Context(current))?;
        state.free(address)
    }
    fn cuMemAllocAsync(state, address: OutPointer<u64>, bytes: usize, stream: u64) {
        address.needed()?;
        let stream = state.stream(stream)?;
        state.refuse_capturing_stream(stream)?;
        if bytes == 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        address.set(state.memory()?.allocate(bytes as u64).ok_or(CudaCode::OUT_OF_MEMORY)?)
    }
    fn cuMemFreeAsync(state, address: u64, stream: u64) {
        let stream = state.stream(stream)?;
        state.check_freed("cuMemFreeAsync", address)?;
        state.enqueue(stream, StreamWork::Free(address))
    }
    fn cuMemGetAddressRange_v2(state, start: OutPointer<u64>, bytes: OutPointer<usize>, address: u64) {
        let (from, length) = state.memory()?.allocation(address).ok_or(CudaCode::NOT_FOUND)?;
        start.set_if_asked(from);
        bytes.set_if_asked(length as usize);
        Ok(())
    }
    fn cuMemAllocHost_v2(state, memory: OutPointer<Host>, bytes: usize) {
        state.lock_host(memory, bytes, 0)
    }
    fn cuMemHostAlloc(state, memory: OutPointer<Host>, bytes: usize, flags: u32) {
        state.lock_host(memory, bytes, flags)
    }
    fn cuMemFreeHost(state, memory: Host) {
        let current = state.current()?;
        state.refuse_while_capturing()?;
        state.host.locked(memory.address(), 1).filter(|(start, _)| *start == memory.address()).ok_or(CudaCode::INVALID_VALUE)?;
        state.wait("cuMemFreeHost", WaitGoal::Context(current))?;
        state.host.free(memory)
    }
    fn cuMemHostGetFlags(state, flags: OutPointer<u32>, memory: Host) {
        state.current()?;
        flags.set(state.host.locked(memory.address(), 1).ok_or(CudaCode::INVALID_VALUE)?.1.flags)
    }
    fn cuMemHostGetDevicePointer_v2(state, address: OutPointer<u64>, memory: Host, flags: u32) {
        state.current()?;
        if flags != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        state.host.locked(memory.address(), 1).ok_or(CudaCode::INVALID_VALUE)?;
        address.set(memory.address())
    }
    fn cuMemHostRegister_v2(state, memory: Host, bytes: usize, flags: u32) {
        let current = state.current()?;
        state.refuse_while_capturing()?;
        if flags & !REGISTER_FLAGS != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        state.host.register(memory, bytes, flags, current)
    }
    fn cuMemHostUnregister(state, memory: Host) {
        let current = state.current()?;
        state.refuse_while_capturing()?;
        state.wait("cuMemHostUnregister", WaitGoal::Context(current))?;
        state.host.unregister(memory)
    }
    fn cuPointerGetAttribute(state, data: OutPointer<u64>, attribute: u32, address: u64) {
        data.needed()?;
        let current = state.current()?;
        let ordinal = state.device_of(address)?;
        let Some(device) = state.devices.get(ordinal) else { return Err(CudaCode::INVALID_VALUE) };
        let on_device = device.memory.allocation(address);
        let on_host = state.host.locked(address, 1);
        let (start, bytes, kind) = match (on_device, on_host) {
            (Some((start, bytes)), _) => (start, bytes, 2),
            (None, Some((start, locked))) => (start, locked.bytes, 1),
            (None, None) => return Err(CudaCode::INVALID_VALUE),
        };
        let context = if on_device.is_some() { if ordinal == state.context(current)?.device { current } else { device.primary } } else { current };
        // What is 4 bytes is written as 4 bytes.
        let short = |value: u32| data.cast::<u32>().set(value);
        match attribute {
            1 => data.set(context),
            2 => short(kind),
            3 => data.set(address),
            4 if kind == 1 => data.set(address),
            6 => short(0),
            7 => data.set(start),
            8 => data.cast::<u8>().set(0),
            9 => short(ordinal as u32),
            11 => data.set(start),
            12 => data.set(bytes),
            13 => data.cast::<u8>().set(1),
            4 | 5 | 10 | 14..=21 => Err(CudaCode::NOT_SUPPORTED),
            _ => Err(CudaCode::INVALID_VALUE),
        }
    }
}

impl DriverState {
    fn lock_host(&mut self, memory: OutPointer<Host>, bytes: usize, flags: u32) -> Answer {
        memory.needed()?;
        let current = self.current()?;
        self.refuse_while_capturing()?;
        if flags & !HOST_FLAGS != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        memory.set(self.host.allocate(bytes, flags, current)?)
    }
    /// Refuses what is no allocation's start, and reports memory that was freed before.
    fn check_freed(&mut self, call: &'static str, address: u64) -> Answer {
        let memory = self.memory()?;
        if memory.is_allocation(address) {
            return Ok(());
        }
        if let Err(fault) = memory.check(address, 1) {
            self.find_of_call(crate::driver::copies::kind_of(&fault), call, fault.to_string(), Some(address));
        } else {
            self.find_of_call(FindingKind::OutOfBounds, call, "no allocation begins there".into(), Some(address));
        }
        Err(CudaCode::INVALID_VALUE)
    }
    fn free(&mut self, address: u64) -> Answer {
        let device = self.context(self.current()?)?.device;
        let Some(device) = self.devices.get_mut(device) else { return Err(CudaCode::INVALID_CONTEXT) };
        if let Some((start, bytes)) = device.memory.allocation(address) {
            device.forget(start, bytes);
            self.log.forget_range(start, bytes);
        }
        device.memory.free(address).map_err(|_| CudaCode::INVALID_VALUE)
    }
}
