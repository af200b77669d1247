//! How much memory this process, this machine and a device use. The process's and the machine's figures are the
//! kernel's own, read from `/proc` when asked; the device's are its pool's counters. Nothing is kept between calls.
use crate::{Device, buffer::MemoryStats};
use std::{fmt, fs, io, path::PathBuf};

/// Why memory cannot be told.
#[derive(Debug)]
#[non_exhaustive]
pub enum MemoryError {
    /// This system has no `/proc`.
    Platform {
        /// the operating system
        os: &'static str,
    },
    /// A file of `/proc` cannot be read.
    Read {
        /// the file
        file: PathBuf,
        /// the cause
        source: io::Error,
    },
    /// A file of `/proc` lacks a field.
    Field {
        /// the file
        file: PathBuf,
        /// the field
        field: &'static str,
    },
}
impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::Platform { os } => write!(f, "the memory of a process is read from /proc, which {os} does not have"),
            MemoryError::Read { file, source } => write!(f, "cannot read {}: {source}", file.display()),
            MemoryError::Field { file, field } => write!(f, "{} has no field {field} in kB", file.display()),
        }
    }
}
impl std::error::Error for MemoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            MemoryError::Read { source, .. } => Some(source),
            MemoryError::Platform { .. } | MemoryError::Field { .. } => None,
        }
    }
}

/// Memory of this process, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessMemory {
    /// in physical memory now (`VmRSS`)
    pub resident: u64,
    /// the most that was (`VmHWM`)
    pub peak: u64,
}
/// Memory of this machine, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SystemMemory {
    /// all of it (`MemTotal`)
    pub total: u64,
    /// what a new program could have without swapping (`MemAvailable`)
    pub available: u64,
}
impl SystemMemory {
    /// How much is in use, from 0 to 100.
    pub fn percent(&self) -> f64 {
        if self.total == 0 { 0.0 } else { 100.0 * self.total.saturating_sub(self.available) as f64 / self.total as f64 }
    }
}
/// What the machine, this process and a device use.
#[derive(Clone, Copy, Debug)]
pub struct MemoryUsage {
    /// the machine
    pub system: SystemMemory,
    /// this process
    pub process: ProcessMemory,
    /// the device's pool: live and peak bytes among its counters
    pub device: MemoryStats,
}

/// Memory of this process.
///
/// # Errors
/// A system without `/proc`, or one that does not tell.
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// let memory = adamant_core::memory::process_memory()?;
/// assert!(memory.peak >= memory.resident / 2 && memory.resident > 0);
/// # }
/// # Ok::<(), adamant_core::memory::MemoryError>(())
/// ```
pub fn process_memory() -> Result<ProcessMemory, MemoryError> {
    let [resident, peak] = fields("/proc/self/status", ["VmRSS", "VmHWM"])?;
    Ok(ProcessMemory { resident, peak })
}
/// Memory of this machine.
///
/// # Errors
/// As [`process_memory`].
pub fn system_memory() -> Result<SystemMemory, MemoryError> {
    let [total, available] = fields("/proc/meminfo", ["MemTotal", "MemAvailable"])?;
    Ok(SystemMemory { total, available })
}
/// All of it at once.
///
/// # Errors
/// As [`process_memory`].
pub fn memory_usage(device: Device) -> Result<MemoryUsage, MemoryError> {
    Ok(MemoryUsage { system: system_memory()?, process: process_memory()?, device: device.memory() })
}

fn fields<const N: usize>(file: &str, names: [&'static str; N]) -> Result<[u64; N], MemoryError> {
    if !cfg!(target_os = "linux") {
        return Err(MemoryError::Platform { os: std::env::consts::OS });
    }
    let text = fs::read_to_string(file).map_err(|source| MemoryError::Read { file: file.into(), source })?;
    let mut values = [0; N];
    for (value, field) in values.iter_mut().zip(names) {
        *value = kilobytes(&text, field).ok_or(MemoryError::Field { file: file.into(), field })?;
    }
    Ok(values)
}
/// `VmRSS:      5432 kB` in bytes.
fn kilobytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_mistaken_for_another() {
        let text = "VmPeak:\t 9 kB\nVmRSSx:\t 1 kB\nVmRSS:\t   120 kB\nVmHWM:\t lots kB\nVmData: 7 MB\n";
        assert_eq!(kilobytes(text, "VmRSS"), Some(120 * 1024));
        assert_eq!(kilobytes(text, "VmHWM"), None);
        assert_eq!(kilobytes(text, "VmData"), None);
        assert_eq!(kilobytes(text, "VmSwap"), None);
        assert_eq!(kilobytes("VmRSS: 99999999999999999999 kB", "VmRSS"), None);
    }
    #[test]
    fn a_share_of_no_memory() {
        assert_eq!(SystemMemory { total: 0, available: 0 }.percent(), 0.0);
        assert_eq!(SystemMemory { total: 8, available: 2 }.percent(), 75.0);
        assert_eq!(SystemMemory { total: 8, available: 9 }.percent(), 0.0);
    }
    #[cfg(target_os = "linux")]
    #[test]
    fn pages_that_are_not_counted() {
        let before = process_memory().unwrap();
        let held = vec![1u8; 256 << 20];
        let during = process_memory().unwrap();
        // Other tests give memory back meanwhile.
        assert!(during.resident >= before.resident + (192 << 20), "{before:?} {during:?}");
        assert!(during.peak >= during.resident);
        drop(held);
    }
}
