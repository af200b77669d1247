//! One core for programs of one thread. Cores differ, by what else runs on them or beside them: two programs that are
//! compared must run on the same one, or a difference of the cores is taken for one of the programs.

/// While it lives, programs that this thread starts run on one core: the last that this thread may use, because the first
/// serves most interrupts. Where the system has no such thing it does nothing.
#[derive(Debug)]
pub struct OneCore {
    #[cfg(target_os = "linux")]
    before: Option<rustix::thread::CpuSet>,
}
impl OneCore {
    /// From now on.
    pub fn enter() -> OneCore {
        OneCore {
            #[cfg(target_os = "linux")]
            before: last_core(),
        }
    }
}
/// Keeps this thread on the last of its cores; where it was allowed before, if that worked.
#[cfg(target_os = "linux")]
fn last_core() -> Option<rustix::thread::CpuSet> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let before = sched_getaffinity(None).ok()?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|&cpu| before.is_set(cpu))?;
    let mut one = CpuSet::new();
    one.set(last);
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_may_run_elsewhere_or_a_thread_that_stays_pinned() {
        let cores = || {
            let status = std::process::Command::new("grep").args(["Cpus_allowed:", "/proc/self/status"]).output().unwrap();
            let text = String::from_utf8(status.stdout).unwrap();
            let mask = text.split_whitespace().nth(1).unwrap().replace(',', "");
            mask.chars().filter_map(|c| c.to_digit(16)).map(u32::count_ones).sum::<u32>()
        };
        let before = cores();
        let one = OneCore::enter();
        assert_eq!(cores(), 1);
        drop(one);
        assert_eq!(cores(), before);
    }
}
