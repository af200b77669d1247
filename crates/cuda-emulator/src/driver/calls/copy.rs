//! Calls that copy and fill: which of them wait, and when each end is read or written.
//!
//! After "API synchronization behavior" of NVIDIA's driver API: what goes to the device from memory that is not locked is
//! read at the call; what comes from it into such memory has come when the call returns; between locked memory and the
//! device, and within the device, a copy of a stream runs when its turn comes.
use crate::driver::code::{Answer, CudaCode};
use crate::driver::copies::{CopyEnd, CopyWork, FillWork};
use crate::driver::entry::calls;
use crate::driver::pointer::Host;
use crate::driver::queue::{StreamWork, WaitGoal};
use crate::driver::state::DriverState;
use std::sync::Arc;

/// A caller's end of a copy.
#[derive(Clone, Copy)]
enum Place {
    Device(u64),
    Host(Host),
}
use Place::{Device as OnDevice, Host as OnHost};

calls! { exports, CudaCode;
    fn cuMemcpyHtoD_v2(state, to: u64, from: Host, bytes: usize) {
        state.copy("cuMemcpyHtoD_v2", OnHost(from), OnDevice(to), bytes, None)
    }
    fn cuMemcpyDtoH_v2(state, to: Host, from: u64, bytes: usize) {
        state.copy("cuMemcpyDtoH_v2", OnDevice(from), OnHost(to), bytes, None)
    }
    fn cuMemcpyDtoD_v2(state, to: u64, from: u64, bytes: usize) {
        state.copy("cuMemcpyDtoD_v2", OnDevice(from), OnDevice(to), bytes, None)
    }
    fn cuMemcpyHtoDAsync_v2(state, to: u64, from: Host, bytes: usize, stream: u64) {
        state.copy("cuMemcpyHtoDAsync_v2", OnHost(from), OnDevice(to), bytes, Some(stream))
    }
    fn cuMemcpyDtoHAsync_v2(state, to: Host, from: u64, bytes: usize, stream: u64) {
        state.copy("cuMemcpyDtoHAsync_v2", OnDevice(from), OnHost(to), bytes, Some(stream))
    }
    fn cuMemcpyDtoDAsync_v2(state, to: u64, from: u64, bytes: usize, stream: u64) {
        state.copy("cuMemcpyDtoDAsync_v2", OnDevice(from), OnDevice(to), bytes, Some(stream))
    }
    fn cuMemcpy(state, to: u64, from: u64, bytes: usize) {
        let (from, to) = (state.place(from)?, state.place(to)?);
        state.copy("cuMemcpy", from, to, bytes, None)
    }
    fn cuMemcpyAsync(state, to: u64, from: u64, bytes: usize, stream: u64) {
        let (from, to) = (state.place(from)?, state.place(to)?);
        state.copy("cuMemcpyAsync", from, to, bytes, Some(stream))
    }
    fn cuMemcpyPeer(state, to: u64, to_context: u64, from: u64, from_context: u64, bytes: usize) {
        state.current()?;
        state.context(to_context)?;
        state.context(from_context)?;
        state.copy("cuMemcpyPeer", OnDevice(from), OnDevice(to), bytes, None)
    }
    fn cuMemcpyPeerAsync(state, to: u64, to_context: u64, from: u64, from_context: u64, bytes: usize, stream: u64) {
        state.current()?;
        state.context(to_context)?;
        state.context(from_context)?;
        state.copy("cuMemcpyPeerAsync", OnDevice(from), OnDevice(to), bytes, Some(stream))
    }
    fn cuMemsetD8_v2(state, address: u64, item: u8, count: usize) {
        state.fill("cuMemsetD8_v2", address, [item, 0, 0, 0], 1, count, None)
    }
    fn cuMemsetD16_v2(state, address: u64, item: u16, count: usize) {
        state.fill("cuMemsetD16_v2", address, u32::from(item).to_le_bytes(), 2, count, None)
    }
    fn cuMemsetD32_v2(state, address: u64, item: u32, count: usize) {
        state.fill("cuMemsetD32_v2", address, item.to_le_bytes(), 4, count, None)
    }
    fn cuMemsetD8Async(state, address: u64, item: u8, count: usize, stream: u64) {
        state.fill("cuMemsetD8Async", address, [item, 0, 0, 0], 1, count, Some(stream))
    }
    fn cuMemsetD16Async(state, address: u64, item: u16, count: usize, stream: u64) {
        state.fill("cuMemsetD16Async", address, u32::from(item).to_le_bytes(), 2, count, Some(stream))
    }
    fn cuMemsetD32Async(state, address: u64, item: u32, count: usize, stream: u64) {
        state.fill("cuMemsetD32Async", address, item.to_le_bytes(), 4, count, Some(stream))
    }
}

impl DriverState {
    /// What an address is, in the one address space of host and devices.
    fn place(&self, address: u64) -> Answer<Place> {
        self.current()?;
        let on_device = self.devices.iter().any(|d| d.memory.knows(address));
        Ok(if on_device { OnDevice(address) } else { OnHost(Host::at(address)) })
    }
    /// A copy is asked for: in a stream, or, without one, as one that the host waits for where it must.
    fn copy(&mut self, call: &'static str, from: Place, to: Place, bytes: usize, stream: Option<u64>) -> Answer {
        let current = self.current()?;
        let target = self.stream(stream.unwrap_or(0))?;
        if stream.is_none() {
            self.refuse_legacy(current)?;
            self.refuse_while_capturing()?;
        }
        if bytes == 0 {
            return Ok(());
        }
        let capturing = self.streams.get(&target).is_some_and(|s| s.capture.is_some());
        let mut waits = stream.is_none() && !matches!((from, to), (OnDevice(_), OnDevice(_)));
        let mut end = |state: &mut DriverState, place: Place, is_source: bool| -> Answer<CopyEnd> {
            match place {
                OnDevice(address) => {
                    let device = state.device_of(address)?;
                    state.check_range(call, device, address, bytes as u64)?;
                    let peers = call.starts_with("cuMemcpyPeer");
                    if !peers && !state.may_touch(current, device) {
                        return Err(CudaCode::INVALID_VALUE);
                    }
                    Ok(CopyEnd::Device { device, address })
                }
                OnHost(host) if host.is_null() => Err(CudaCode::INVALID_VALUE),
                OnHost(host) if state.host.locked(host.address(), bytes as u64).is_some() => Ok(CopyEnd::Locked(host)),
                // Only a part of it is locked.
                OnHost(host) if state.host.locked(host.address(), 1).is_some() => Err(CudaCode::INVALID_VALUE),
                OnHost(_) if capturing => Err(CudaCode::STREAM_CAPTURE_UNSUPPORTED),
                OnHost(host) if is_source => Ok(CopyEnd::Bytes(host.read(bytes).into())),
                OnHost(host) => {
                    waits = true;
                    Ok(CopyEnd::Host(host))
                }
            }
        };
        let from = end(self, from, true);
        let to = end(self, to, false);
        if capturing && from.as_ref().err().or(to.as_ref().err()) == Some(&CudaCode::STREAM_CAPTURE_UNSUPPORTED) {
            self.refuse_capturing_stream(target)?;
        }
        let copy = CopyWork { from: from?, to: to?, bytes: bytes as u64, call };
        self.enqueue(target, StreamWork::Copy(Arc::new(copy)))?;
        if waits { self.wait(call, WaitGoal::Stream(target)) } else { Ok(()) }
    }
    /// A fill is asked for; the host waits for none.
    fn fill(&mut self, call: &'static str, address: u64, item: [u8; 4], item_bytes: u64, count: usize, stream: Option<u64>) -> Answer {
        let current = self.current()?;
        let target = self.stream(stream.unwrap_or(0))?;
        if stream.is_none() {
            self.refuse_legacy(current)?;
            self.refuse_while_capturing()?;
        }
        if !address.is_multiple_of(item_bytes) {
            return Err(CudaCode::INVALID_VALUE);
        }
        if count == 0 {
            return Ok(());
        }
        let bytes = (count as u64).checked_mul(item_bytes).ok_or(CudaCode::INVALID_VALUE)?;
        let device = self.device_of(address)?;
        self.check_range(call, device, address, bytes)?;
        self.enqueue(target, StreamWork::Fill(Arc::new(FillWork { device, address, item, item_bytes, count: count as u64, call })))
    }
}
