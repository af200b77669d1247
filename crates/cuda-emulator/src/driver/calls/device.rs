//! Calls about the driver itself, its devices and its errors.
use crate::driver::code::{CudaCode, described};
use crate::driver::entry::calls;
use crate::driver::pointer::{OutPointer, Text};
use std::ffi::c_char;

/// The driver that is stood in for: CUDA 13.0.
const DRIVER: i32 = 13_000;

/// `CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED`.
const MAPPING: i32 = 102;

calls! { exports, CudaCode;
    fn cuInit(state, flags: u32) {
        if flags != 0 {
            return Err(CudaCode::INVALID_VALUE);
        }
        if state.devices.is_empty() {
            return Err(CudaCode::NO_DEVICE);
        }
        state.initialised = true;
        Ok(())
    }
    fn cuDriverGetVersion(state, version: OutPointer<i32>) {
        state.always()?;
        version.set(DRIVER)
    }
    fn cuDeviceGetCount(state, count: OutPointer<i32>) {
        state.ready()?;
        count.set(state.devices.len() as i32)
    }
    fn cuDeviceGet(state, device: OutPointer<i32>, ordinal: i32) {
        device.needed()?;
        state.device(ordinal)?;
        device.set(ordinal)
    }
    fn cuDeviceGetName(state, name: OutPointer<c_char>, capacity: i32, device: i32) {
        state.device(device)?;
        name.text(state.profile.card, capacity)
    }
    fn cuDeviceGetUuid_v2(state, uuid: OutPointer<[u8; 16]>, device: i32) {
        let device = state.device(device)?;
        uuid.set(state.uuid(device))
    }
    fn cuDeviceTotalMem_v2(state, bytes: OutPointer<usize>, device: i32) {
        let device = state.device(device)?;
        bytes.set(state.devices.get(device).map_or(0, |d| d.memory.limit() as usize))
    }
    fn cuDeviceGetAttribute(state, value: OutPointer<i32>, which: i32, device: i32) {
        value.needed()?;
        let device = state.device(device)?;
        let known = state.profile.attribute(which, device).ok_or(CudaCode::INVALID_VALUE)?;
        value.set(if which == MAPPING && !state.options.mapping { 0 } else { known })
    }
    fn cuDeviceComputeCapability(state, major: OutPointer<i32>, minor: OutPointer<i32>, device: i32) {
        state.device(device)?;
        major.set(state.profile.capability.0 as i32)?;
        minor.set(state.profile.capability.1 as i32)
    }
    fn cuDeviceGetPCIBusId(state, text: OutPointer<c_char>, capacity: i32, device: i32) {
        let device = state.device(device)?;
        text.text(&format!("00000000:{:02X}:00.0", device + 1), capacity)
    }
    fn cuDeviceGetByPCIBusId(state, device: OutPointer<i32>, text: Text) {
        state.ready()?;
        let asked = text.get()?;
        let is = |d: &usize| asked.ends_with(&format!(":{:02X}:00.0", d + 1)) || asked.ends_with(&format!(":{:02x}:00.0", d + 1));
        device.set((0..state.devices.len()).find(is).ok_or(CudaCode::INVALID_DEVICE)? as i32)
    }
    fn cuDeviceCanAccessPeer(state, can: OutPointer<i32>, device: i32, peer: i32) {
        let (device, peer) = (state.device(device)?, state.device(peer)?);
        can.set(i32::from(device != peer))
    }
    fn cuDeviceGetP2PAttribute(state, value: OutPointer<i32>, which: u32, from: i32, to: i32) {
        value.needed()?;
        let (from, to) = (state.device(from)?, state.device(to)?);
        // Rank, access, native atomics, arrays.
        if from == to || !(1..=4).contains(&which) {
            return Err(CudaCode::INVALID_VALUE);
        }
        value.set(i32::from(which == 2))
    }
    fn cuGetErrorName(state, number: u32, text: OutPointer<*const c_char>) {
        text.needed()?;
        let found = described(number);
        text.set(found.map_or(std::ptr::null(), |(name, _)| name.as_ptr()))?;
        found.map(|_| ()).ok_or(CudaCode::INVALID_VALUE)
    }
    fn cuGetErrorString(state, number: u32, text: OutPointer<*const c_char>) {
        text.needed()?;
        let found = described(number);
        text.set(found.map_or(std::ptr::null(), |(_, says)| says.as_ptr()))?;
        found.map(|_| ()).ok_or(CudaCode::INVALID_VALUE)
    }
    fn cuProfilerStart(state) {
        state.current().map(drop)
    }
    fn cuProfilerStop(state) {
        state.current().map(drop)
    }
}

impl crate::driver::state::DriverState {
    /// A number of the card's own: it says that it is none, and which of them.
    pub(crate) fn uuid(&self, device: usize) -> [u8; 16] {
        let mut uuid = *b"emulated        ";
        uuid[8..12].copy_from_slice(&self.profile.architecture().to_le_bytes());
        uuid[12..16].copy_from_slice(&(device as u32).to_le_bytes());
        uuid
    }
}
