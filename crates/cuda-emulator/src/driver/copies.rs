//! Copies and fills: what they check when they are asked for, and what they do when they run.
use super::clock::{CardEngine, crossing, moving};
use super::code::{Answer, CudaCode};
use super::order::WorkNow;
use super::pointer::Host;
use super::queue::StreamWork;
use super::state::{DriverState, EmulatedCard};
use crate::machine::finding::FindingKind;
use crate::machine::touched;
use crate::memory::{MemoryFault, MemoryFaultKind};
use std::sync::Arc;

/// One end of a copy.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum CopyEnd {
    Device {
        device: usize,
        address: u64,
    },
    /// Memory that any program has: written when the copy runs, which is at once.
    Host(Host),
    /// Locked memory: read or written when the copy runs.
    Locked(Host),
    /// Read when the copy was asked for.
    Bytes(Arc<[u8]>),
}
/// A copy.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CopyWork {
    pub from: CopyEnd,
    pub to: CopyEnd,
    pub bytes: u64,
    pub call: &'static str,
}
/// A fill of `count` items of 1, 2 or 4 bytes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FillWork {
    pub device: usize,
    pub address: u64,
    pub item: [u8; 4],
    pub item_bytes: u64,
    pub count: u64,
    pub call: &'static str,
}

/// What a fault of an address is called where it is reported.
pub(crate) fn kind_of(fault: &MemoryFault) -> FindingKind {
    match fault.kind {
        MemoryFaultKind::OutOfBounds | MemoryFaultKind::NotAccessible => FindingKind::OutOfBounds,
        MemoryFaultKind::UseAfterFree => FindingKind::UseAfterFree,
    }
}

/// Bytes as one number: others give another, but for a chance that nobody meets.
fn digest(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mix = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sum = words.iter().fold(bytes.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)))
}

impl DriverState {
    /// What locked memory holds that work copies from: itself, or node by node.
    pub fn staged(&self, work: &StreamWork) -> Vec<(usize, u64)> {
        let held = |work: &StreamWork| match work {
            StreamWork::Copy(copy) => match &copy.from {
                CopyEnd::Locked(from) if self.host.locked(from.address(), copy.bytes).is_some() => Some(digest(&from.read(copy.bytes as usize))),
                _ => None,
            },
            _ => None,
        };
        match work {
            _ if self.options.null => Vec::new(),
            StreamWork::Graph(program) => program.nodes.iter().enumerate().filter_map(|(k, node)| Some((k, held(&node.work)?))).collect(),
            work => held(work).map(|held| (0, held)).into_iter().collect(),
        }
    }
    /// Reports locked memory that holds other bytes than when the copy was asked for, unless the card or a function that a
    /// stream called may have written them.
    fn check_staged(&mut self, copy: &CopyWork, address: u64, bytes: &[u8], present: &WorkNow) {
        let Some((held, asked)) = present.staged else { return };
        let overlaps = |(start, length, when): &(u64, u64, u64)| *when >= asked && *start < address + copy.bytes && address < start + length;
        if digest(bytes) != held && self.called_back <= asked && !self.written_by_device.iter().any(overlaps) {
            let note = format!("{} bytes of locked memory are not those of when the copy was asked for", copy.bytes);
            self.find_of_call(FindingKind::StagingReused, copy.call, note, Some(address));
        }
    }
    /// Refuses a range of device memory that is not alive, and says so.
    pub fn check_range(&mut self, call: &'static str, device: usize, address: u64, bytes: u64) -> Answer {
        let memory = self.devices.get(device).ok_or(CudaCode::INVALID_VALUE)?.memory.clone();
        memory.check(address, bytes).map_err(|fault| {
            self.find_of_call(kind_of(&fault), call, fault.to_string(), Some(fault.address));
            CudaCode::INVALID_VALUE
        })
    }
    /// Which card's memory an address is of; that of the current context where it is nobody's.
    pub fn device_of(&self, address: u64) -> Answer<usize> {
        let mine = self.context(self.current()?)?.device;
        let is_of = |d: &usize| self.devices.get(*d).is_some_and(|d| d.memory.allocation(address).is_some());
        Ok([mine].into_iter().chain(0..self.devices.len()).find(is_of).unwrap_or(mine))
    }
    /// A range of memory that work touches when it runs: notes it, and reports work that is not ordered with it.
    pub fn touch(&mut self, device: usize, address: u64, bytes: u64, writes: bool, present: &WorkNow) {
        if self.options.null || bytes == 0 {
            return;
        }
        self.touching.push((address, bytes, writes));
        let Some(device) = self.devices.get_mut(device) else { return };
        let EmulatedCard { memory, accesses, .. } = device;
        // All of them note it, whichever finds another.
        let others = memory.places(address, bytes).map(|(place, bytes)| accesses.touch(place, bytes, writes, present));
        let other = others.fold(None, Option::or).map(|other| other.what);
        // Kernels left marks of their own; no address of the host's has any.
        let launches = &self.unordered.launches;
        let marked = || if launches.is_empty() { None } else { touched(memory, address, bytes, launches, writes) };
        let other = other.or_else(|| marked().map(|_| self.unordered.names.join("`, `").into()));
        if let Some(other) = other {
            let (what, act) = (present.stamp.what.clone(), if writes { "writes" } else { "reads" });
            let note = format!("it {act} what `{other}` of another stream touched, and no event orders the two");
            self.find_of_call(FindingKind::MissingEvent, &what, note, Some(address));
        }
    }
    /// Runs a copy; gives when it begins and ends.
    pub fn perform_copy(&mut self, copy: &CopyWork, present: &WorkNow, ready: f64) -> Answer<(CardEngine, f64, f64)> {
        let failed = |state: &mut DriverState, fault: MemoryFault| {
            state.find_of_call(kind_of(&fault), copy.call, fault.to_string(), Some(fault.address));
            CudaCode::ILLEGAL_ADDRESS
        };
        for (end, writes) in [(&copy.from, false), (&copy.to, true)] {
            match end {
                CopyEnd::Device { device, address } => self.touch(*device, *address, copy.bytes, writes, present),
                CopyEnd::Locked(host) => {
                    let address = host.address();
                    if self.host.locked(address, copy.bytes).is_none() {
                        let note = format!("{} bytes of locked memory are not locked any more", copy.bytes);
                        self.find_of_call(FindingKind::HostMemoryGone, copy.call, note, Some(address));
                        return Err(CudaCode::ILLEGAL_ADDRESS);
                    }
                    self.touch(0, address, copy.bytes, writes, present);
                }
                CopyEnd::Host(_) | CopyEnd::Bytes(_) => {}
            }
        }
        let memory = |state: &DriverState, device: usize| state.devices.get(device).map(|d| d.memory.clone()).ok_or(CudaCode::INVALID_VALUE);
        match (&copy.from, &copy.to) {
            (CopyEnd::Device { device: from, address: source }, CopyEnd::Device { device: to, address: target }) => {
                let (from_memory, to_memory) = (memory(self, *from)?, memory(self, *to)?);
                let done = if from == to {
                    from_memory.copy(*source, *target, copy.bytes)
                } else {
                    let mut bytes = vec![0; copy.bytes as usize];
                    from_memory.read(*source, &mut bytes).and_then(|()| to_memory.write(*target, &bytes))
                };
                done.map_err(|fault| failed(self, fault))?;
            }
            (CopyEnd::Device { device, address }, to) => {
                let mut bytes = vec![0; copy.bytes as usize];
                let memory = memory(self, *device)?;
                memory.read(*address, &mut bytes).map_err(|fault| failed(self, fault))?;
                if !self.options.null && !memory.is_written(*address, copy.bytes) {
                    let note = format!("of {} bytes, some were never written", copy.bytes);
                    self.find_of_call(FindingKind::HostReadUnwritten, copy.call, note, Some(*address));
                }
                if let CopyEnd::Locked(to) = to {
                    self.written_by_device.push((to.address(), copy.bytes, self.performed));
                }
                if let CopyEnd::Host(to) | CopyEnd::Locked(to) = to {
                    to.write(&bytes);
                }
            }
            (from, CopyEnd::Device { device, address }) => {
                let bytes: Arc<[u8]> = match from {
                    CopyEnd::Host(from) | CopyEnd::Locked(from) => from.read(copy.bytes as usize).into(),
                    CopyEnd::Bytes(bytes) => bytes.clone(),
                    CopyEnd::Device { .. } => [].into(),
                };
                if let CopyEnd::Locked(from) = from {
                    self.check_staged(copy, from.address(), &bytes, present);
                }
                memory(self, *device)?.write(*address, &bytes).map_err(|fault| failed(self, fault))?;
            }
            (CopyEnd::Host(from) | CopyEnd::Locked(from), CopyEnd::Host(to) | CopyEnd::Locked(to)) => to.write(&from.read(copy.bytes as usize)),
            _ => {}
        }
        let (engine, duration) = match (&copy.from, &copy.to) {
            (CopyEnd::Device { device: a, .. }, CopyEnd::Device { device: b, .. }) if a == b => (CardEngine::Compute, moving(self.profile, copy.bytes)),
            (CopyEnd::Device { .. }, _) => (CardEngine::Down, crossing(self.profile, copy.bytes)),
            _ => (CardEngine::Up, crossing(self.profile, copy.bytes)),
        };
        let (start, end) = self.clock.run(engine, ready, duration);
        Ok((engine, start, end))
    }
    /// Runs a fill.
    pub fn perform_fill(&mut self, fill: &FillWork, present: &WorkNow, ready: f64) -> Answer<(CardEngine, f64, f64)> {
        let bytes = fill.count * fill.item_bytes;
        self.touch(fill.device, fill.address, bytes, true, present);
        let item = fill.item.get(..fill.item_bytes as usize).unwrap_or(&[]);
        let filled = item.repeat(fill.count as usize);
        let memory = self.devices.get(fill.device).ok_or(CudaCode::INVALID_VALUE)?.memory.clone();
        if let Err(fault) = memory.write(fill.address, &filled) {
            self.find_of_call(kind_of(&fault), fill.call, fault.to_string(), Some(fault.address));
            return Err(CudaCode::ILLEGAL_ADDRESS);
        }
        let duration = moving(self.profile, bytes / 2);
        let (start, end) = self.clock.run(CardEngine::Compute, ready, duration);
        Ok((CardEngine::Compute, start, end))
    }
}
