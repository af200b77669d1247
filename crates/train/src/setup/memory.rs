//! How much memory a run may take: what the machine has left, what its container allows, and what the shell allows
//! (`ulimit -v`). Nothing is tried out; the kernel's own figures are read.
use adamant_core::{Device, memory::system_memory};
use std::fs;

/// Bytes of working memory for each byte of a parameter on the reference device, which computes in f64 on lists.
const REFERENCE: u64 = 6;

/// Bytes that a model on this device may take; none where nobody tells, or where the device has memory of its own, which says
/// itself when it is full.
pub(super) fn available(device: Device) -> Option<u64> {
    let own = device.pool().take(device, 64).ok()?;
    own.read().as_deref()?.host()?;
    let machine = system_memory().ok().map(|memory| memory.available);
    let least = [machine, address_space(), container()].into_iter().flatten().min()?;
    Some(if device == Device::reference() { least / REFERENCE } else { least })
}
/// What is left of the address space (`ulimit -v`), where that is limited.
fn address_space() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let used = field(&status, "VmSize:")?.checked_mul(1024)?;
    Some(field(&limits, "Max address space")?.saturating_sub(used))
}
/// The first number behind a name.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}
/// What is left of the limit of this process's control group (version 2) and of those above it.
fn container() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut left: Option<u64> = None;
    let mut path = group.trim().trim_end_matches('/');
    loop {
        let of = |file: &str| fs::read_to_string(format!("/sys/fs/cgroup{path}/{file}")).ok();
        let number = |file: &str| of(file)?.trim().parse::<u64>().ok();
        if let (Some(limit), Some(used)) = (number("memory.max"), number("memory.current")) {
            // What files are cached in is given back when it is wanted.
            let cached = of("memory.stat").and_then(|text| field(&text, "inactive_file")).unwrap_or(0);
            let here = limit.saturating_sub(used.saturating_sub(cached));
            left = Some(left.map_or(here, |left| left.min(here)));
        }
        match path.rfind('/') {
            Some(at) => path = &path[..at],
            None => return left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_read_as_another() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max cpu time              unlimited            unlimited            seconds\n\
                      Max address space         2147483648           2147483648           bytes\n";
        assert_eq!(field(limits, "Max address space"), Some(2 << 30));
        assert_eq!(field(limits, "Max cpu time"), None);
        assert_eq!(field("VmSize:\t   12 kB", "VmSize:"), Some(12));
    }
    #[test]
    fn a_device_of_the_host_without_a_limit() {
        // The machine has some memory left, whatever else it does.
        assert!(available(Device::reference()).is_none_or(|bytes| bytes > 0));
    }
}
