//! One core for programs of one thread. Cores differ, by what else runs on them or beside them: two programs that are
//! compared must run on the same one, or a difference of the cores is taken for one of the programs. Which one is chosen
//! before anything is measured, by how much of it is to be had, and the next processes get the next of those that are as
//! good, so that no neighbour stands beside all of them.
use std::time::Duration;

/// A core.
pub type Core = usize;
/// More are not looked at: each costs time.
const MOST_CORES: usize = 4;
/// For so long a core is asked, which is longer than a scheduler lets one program run beside another.
const ASKED: Duration = Duration::from_millis(12);
/// How often each is asked.
const TIMES: usize = 2;
/// A core is as good as the best if so much of the best's share is to be had.
const AS_GOOD: f64 = 0.9;

/// While it lives, programs that this thread starts run on one core. Where the system has no such thing it does nothing.
#[derive(Debug)]
pub struct OneCore {
    #[cfg(target_os = "linux")]
    before: Option<rustix::thread::CpuSet>,
}
impl OneCore {
    /// From now on, on this core; without one, on the last that this thread may use, because the first serves most
    /// interrupts.
    pub fn enter(core: Option<Core>) -> OneCore {
        #[cfg(not(target_os = "linux"))]
        let _ = core;
        OneCore {
            #[cfg(target_os = "linux")]
            before: core.or_else(|| cores().last().copied()).and_then(keep_on),
        }
    }
}
/// Keeps this thread on a core; where it was allowed before, if that worked.
#[cfg(target_os = "linux")]
fn keep_on(core: Core) -> Option<rustix::thread::CpuSet> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let before = sched_getaffinity(None).ok()?;
    let mut one = CpuSet::new();
    one.set(core);
    sched_setaffinity(None, &one).ok()?;
    Some(before)
}
#[cfg(target_os = "linux")]
impl Drop for OneCore {
    fn drop(&mut self) {
        // It was allowed before; if it no longer is, this thread stays where it is, which is slower and not wrong.
        if let Some(before) = &self.before {
            let _ = rustix::thread::sched_setaffinity(None, before);
        }
    }
}
/// The cores that this thread may use; none where the system does not tell.
pub fn cores() -> Vec<Core> {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_getaffinity};
        sched_getaffinity(None).map_or_else(|_| Vec::new(), |set| (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
    }
    #[cfg(not(target_os = "linux"))]
    Vec::new()
}
/// Of the last few cores those of which as much is to be had as of the best: one at least, where the system knows cores.
pub fn quiet_cores() -> Vec<Core> {
    let all = cores();
    let asked = &all[all.len().saturating_sub(MOST_CORES)..];
    if asked.len() < 2 {
        return asked.to_vec();
    }
    let mut shares = vec![0.0; asked.len()];
    for _ in 0..TIMES {
        asked.iter().zip(&mut shares).for_each(|(core, share)| *share += share_of(*core) / TIMES as f64);
    }
    as_good(asked, &shares)
}
fn as_good(cores: &[Core], shares: &[f64]) -> Vec<Core> {
    let best = shares.iter().copied().fold(0.0, f64::max);
    cores.iter().zip(shares).filter(|(_, share)| **share >= AS_GOOD * best).map(|(core, _)| *core).collect()
}
/// Which share of a core this thread gets that asks for all of it.
#[cfg(target_os = "linux")]
fn share_of(core: Core) -> f64 {
    use rustix::time::{ClockId, clock_gettime};
    let _here = OneCore::enter(Some(core));
    let on_core = || {
        let t = clock_gettime(ClockId::ThreadCPUTime);
        t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
    };
    let (begun, before) = (std::time::Instant::now(), on_core());
    while begun.elapsed() < ASKED {
        std::hint::spin_loop();
    }
    (on_core() - before) / begun.elapsed().as_secs_f64()
}
#[cfg(not(target_os = "linux"))]
fn share_of(_: Core) -> f64 {
    1.0
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_may_run_elsewhere_or_a_thread_that_stays_pinned() {
        let allowed = || {
            let status = std::process::Command::new("grep").args(["Cpus_allowed_list:", "/proc/self/status"]).output().unwrap();
            String::from_utf8(status.stdout).unwrap().split_whitespace().nth(1).unwrap().to_string()
        };
        let before = allowed();
        for core in cores().into_iter().map(Some).chain([None]) {
            let one = OneCore::enter(core);
            assert_eq!(allowed(), core.or(cores().last().copied()).unwrap().to_string());
            drop(one);
            assert_eq!(allowed(), before);
        }
    }
    #[test]
    fn a_core_with_a_neighbour_that_is_chosen_or_a_machine_without_a_core() {
        for (shares, chosen) in [([1.0, 0.5, 0.95], vec![3, 5]), ([0.5, 0.5, 0.48], vec![3, 4, 5]), ([0.0, 0.0, 0.0], vec![3, 4, 5])] {
            assert_eq!(as_good(&[3, 4, 5], &shares), chosen);
        }
        let quiet = quiet_cores();
        assert!(!quiet.is_empty() && quiet.iter().all(|core| cores().contains(core)), "{quiet:?}");
    }
}
