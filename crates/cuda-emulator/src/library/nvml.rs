//! NVML: what a card's owner looks at. Its numbers are made up but for memory and names, and plausible.
use crate::driver::entry::{CallStatus, Export, calls};
use crate::driver::pointer::{OutPointer, Text};
use crate::driver::state::DriverState;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// `nvmlReturn_t`, other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Declined(u32);
impl Declined {
    const UNINITIALIZED: Declined = Declined(1);
    const INVALID_ARGUMENT: Declined = Declined(2);
    const NOT_SUPPORTED: Declined = Declined(3);
    const NOT_FOUND: Declined = Declined(6);
    const INSUFFICIENT_SIZE: Declined = Declined(7);
    const VERSION_MISMATCH: Declined = Declined(25);
    const UNKNOWN: Declined = Declined(999);
}
impl CallStatus for Declined {
    fn of(number: u32) -> Declined {
        Declined(number)
    }
    fn number(&self) -> u32 {
        self.0
    }
    fn unknown() -> Declined {
        Declined::UNKNOWN
    }
    fn forbidden() -> Declined {
        Declined::UNKNOWN
    }
    fn absent() -> Declined {
        Declined::UNINITIALIZED
    }
}
/// Handles of cards: this and a number.
const CARD: u64 = 0x0ada_c0de_0000_0000;
/// `nvmlMemory_v2`: its bytes and its version.
const MEMORY_VERSION: u32 = 40 | 2 << 24;
/// The driver that is stood in for.
const DRIVER: &str = "580.65.06";

calls! { exports, Declined;
    fn nvmlInit_v2(state) {
        state.library.nvml += 1;
        Ok(())
    }
    fn nvmlInitWithFlags(state, flags: u32) {
        state.library.nvml += 1;
        Ok(())
    }
    fn nvmlShutdown(state) {
        state.library.nvml = state.library.nvml.checked_sub(1).ok_or(Declined::UNINITIALIZED)?;
        Ok(())
    }
    fn nvmlDeviceGetCount_v2(state, count: OutPointer<u32>) {
        state.told()?;
        tell(count, state.devices.len() as u32)
    }
    fn nvmlDeviceGetHandleByIndex_v2(state, index: u32, card: OutPointer<u64>) {
        state.told()?;
        if index as usize >= state.devices.len() {
            return Err(Declined::INVALID_ARGUMENT);
        }
        tell(card, CARD | u64::from(index))
    }
    fn nvmlDeviceGetName(state, card: u64, name: OutPointer<c_char>, capacity: u32) {
        state.told_of(card)?;
        text(name, state.profile.card, capacity)
    }
    fn nvmlDeviceGetUUID(state, card: u64, uuid: OutPointer<c_char>, capacity: u32) {
        let number = state.told_of(card)?;
        text(uuid, &state.uuid_text(number), capacity)
    }
    fn nvmlDeviceGetUtilizationRates(state, card: u64, rates: OutPointer<[u32; 2]>) {
        state.told_of(card)?;
        // Of compute, of memory, in percent: busy while anything is under way.
        tell(rates, if state.pending.is_empty() { [0, 0] } else { [100, 50] })
    }
    fn nvmlDeviceGetClockInfo(state, card: u64, kind: u32, clock: OutPointer<u32>) {
        state.told_of(card)?;
        let clocks = state.profile.clocks;
        // Graphics, processors, memory, video; MHz.
        tell(clock, match kind {
            0 | 1 | 3 => clocks.0 / 1000,
            2 => clocks.1 / 1000,
            _ => return Err(Declined::INVALID_ARGUMENT),
        })
    }
    fn nvmlDeviceGetMaxClockInfo(state, card: u64, kind: u32, clock: OutPointer<u32>) {
        state.told_of(card)?;
        let clocks = state.profile.clocks;
        tell(clock, match kind {
            0 | 1 | 3 => clocks.0 / 1000,
            2 => clocks.1 / 1000,
            _ => return Err(Declined::INVALID_ARGUMENT),
        })
    }
    fn nvmlDeviceGetPowerUsage(state, card: u64, milliwatts: OutPointer<u32>) {
        state.told_of(card)?;
        tell(milliwatts, if state.pending.is_empty() { 70_000 } else { 350_000 })
    }
    fn nvmlDeviceGetEnforcedPowerLimit(state, card: u64, milliwatts: OutPointer<u32>) {
        state.told_of(card)?;
        tell(milliwatts, 400_000)
    }
    fn nvmlDeviceGetMemoryInfo(state, card: u64, memory: OutPointer<[u64; 3]>) {
        let number = state.told_of(card)?;
        let device = state.devices.get(number).ok_or(Declined::INVALID_ARGUMENT)?;
        let (total, used) = (device.memory.limit(), device.memory.in_use());
        tell(memory, [total, total.saturating_sub(used), used])
    }
    fn nvmlDeviceGetMemoryInfo_v2(state, card: u64, memory: OutPointer<[u64; 5]>) {
        let number = state.told_of(card)?;
        let asked = memory.get().map_err(|_| Declined::INVALID_ARGUMENT)?;
        if asked[0] as u32 != MEMORY_VERSION {
            return Err(Declined::VERSION_MISMATCH);
        }
        let device = state.devices.get(number).ok_or(Declined::INVALID_ARGUMENT)?;
        let (total, used) = (device.memory.limit(), device.memory.in_use());
        // The version, all, what the driver keeps, free, used.
        tell(memory, [asked[0], total, 0, total.saturating_sub(used), used])
    }
    fn nvmlDeviceGetHandleByPciBusId_v2(state, text: Text, card: OutPointer<u64>) {
        state.told()?;
        let asked = text.get().map_err(|_| Declined::INVALID_ARGUMENT)?.to_ascii_uppercase();
        let is = |d: &usize| asked.ends_with(&format!(":{:02X}:00.0", d + 1));
        tell(card, CARD | (0..state.devices.len()).find(is).ok_or(Declined::NOT_FOUND)? as u64)
    }
    fn nvmlDeviceGetHandleByUUID(state, text: Text, card: OutPointer<u64>) {
        state.told()?;
        let asked = text.get().map_err(|_| Declined::INVALID_ARGUMENT)?;
        tell(card, CARD | (0..state.devices.len()).find(|d| asked == state.uuid_text(*d)).ok_or(Declined::NOT_FOUND)? as u64)
    }
    fn nvmlDeviceGetTotalEnergyConsumption(state, card: u64, millijoules: OutPointer<u64>) {
        state.told_of(card)?;
        // At the power of a busy card, over the virtual clock.
        tell(millijoules, (state.clock.host * 350.0 / 1e6) as u64)
    }
    fn nvmlDeviceGetTemperature(state, card: u64, sensor: u32, degrees: OutPointer<u32>) {
        state.told_of(card)?;
        if sensor != 0 {
            return Err(Declined::INVALID_ARGUMENT);
        }
        tell(degrees, 42)
    }
    fn nvmlDeviceGetFanSpeed(state, card: u64, speed: OutPointer<u32>) {
        state.told_of(card)?;
        Err(Declined::NOT_SUPPORTED)
    }
    fn nvmlSystemGetDriverVersion(state, version: OutPointer<c_char>, capacity: u32) {
        state.told()?;
        text(version, DRIVER, capacity)
    }
    fn nvmlSystemGetCudaDriverVersion_v2(state, version: OutPointer<i32>) {
        tell(version, 13_000)
    }
}

fn tell<T: Copy>(to: OutPointer<T>, value: T) -> Result<(), Declined> {
    to.set(value).map_err(|_| Declined::INVALID_ARGUMENT)
}
fn text(to: OutPointer<c_char>, text: &str, capacity: u32) -> Result<(), Declined> {
    if (capacity as usize) <= text.len() {
        return Err(Declined::INSUFFICIENT_SIZE);
    }
    to.text(text, capacity as i32).map_err(|_| Declined::INVALID_ARGUMENT)
}
impl DriverState {
    /// The driver's name of a card, as NVML writes it.
    fn uuid_text(&self, number: usize) -> String {
        let hex: String = self.uuid(number).iter().map(|byte| format!("{byte:02x}")).collect();
        let (mut rest, mut parts) = (&hex[..], Vec::new());
        for length in [8, 4, 4, 4, 12] {
            let (part, others) = rest.split_at(length);
            parts.push(part);
            rest = others;
        }
        format!("GPU-{}", parts.join("-"))
    }
    fn told(&self) -> Result<(), Declined> {
        if self.library.nvml > 0 { Ok(()) } else { Err(Declined::UNINITIALIZED) }
    }
    /// The number of the card that a handle stands for.
    fn told_of(&self, card: u64) -> Result<usize, Declined> {
        self.told()?;
        let number = (card ^ CARD) as usize;
        if number < self.devices.len() { Ok(number) } else { Err(Declined::INVALID_ARGUMENT) }
    }
}

static CALLS: AtomicU64 = AtomicU64::new(0);
unsafe extern "C" fn error_text(number: u32) -> *const c_char {
    CALLS.fetch_add(1, Ordering::Relaxed);
    let known = match number {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        9 => c"Driver Not Loaded",
        15 => c"GPU is lost",
        _ => c"Unknown Error",
    };
    known.as_ptr()
}
/// Functions that answer no number.
pub(crate) fn plain_exports() -> Vec<Export> {
    vec![Export { name: "nvmlErrorString", arguments: &[4], function: error_text as *const c_void, calls: &CALLS }]
}
