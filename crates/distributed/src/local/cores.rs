//! How many cores there are for all ranks together: a launcher may have given each its own.

/// So many cores can be told, a bit each.
const MOST: usize = 1024;

/// The cores that this process may run on.
pub(super) fn of_process() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
/// Which they are, for others; nothing where the system does not say.
#[cfg(target_os = "linux")]
pub(super) fn told() -> Vec<u8> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    let mut bits = vec![0; MOST / 8];
    (0..MOST.min(rustix::thread::CpuSet::MAX_CPU)).filter(|core| set.is_set(*core)).for_each(|core| bits[core / 8] |= 1 << (core % 8));
    bits
}
#[cfg(not(target_os = "linux"))]
pub(super) fn told() -> Vec<u8> {
    Vec::new()
}
/// How many there are of what all have told.
pub(super) fn of_all(told: &[Vec<u8>]) -> usize {
    let any = |k: usize| told.iter().fold(0, |any, bits| any | bits.get(k).copied().unwrap_or(0));
    match (0..MOST / 8).map(|k| any(k).count_ones() as usize).sum() {
        0 => of_process(),
        cores => cores,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_that_are_counted_twice_or_not_at_all() {
        assert_eq!(of_all(&[vec![0b11, 1], vec![0b110], vec![]]), 4);
        assert_eq!(of_all(&[vec![], vec![]]), of_process());
        if cfg!(target_os = "linux") {
            assert!(of_all(&[told(), told()]) >= of_process());
        }
    }
}
