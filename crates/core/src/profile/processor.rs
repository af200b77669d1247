//! How busy the processor is: this process and the machine, between two moments, as the kernel counts in `/proc`.
use crate::memory::MemoryError;
use std::{fs, thread};

/// What the kernel had counted at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessorTimes {
    /// of this process, on all cores
    process: u64,
    /// of the machine, all cores together: not idle
    busy: u64,
    /// busy or idle
    all: u64,
    /// cores that the kernel counts
    machine: u64,
}
/// How busy the processor was.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProcessorUse {
    /// cores that this process kept busy on average: 1.5 is one and a half
    pub process_cores: f64,
    /// the same of the cores that this process may use, in per cent
    pub process_percent: f64,
    /// of all cores of the machine, by whatever program, in per cent
    pub machine_percent: f64,
}
impl ProcessorTimes {
    /// What is counted now.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use adamant_core::profile::ProcessorTimes;
    /// let before = ProcessorTimes::now()?;
    /// let sum: u64 = (0..30_000_000u64).map(|k| std::hint::black_box(k) & 7).sum();
    /// let used = ProcessorTimes::now()?.since(&before);
    /// assert!(sum > 0 && (0.0..=100.0).contains(&used.machine_percent));
    /// # }
    /// # Ok::<(), adamant_core::memory::MemoryError>(())
    /// ```
    ///
    /// # Errors
    /// A system without `/proc`, or one that does not tell.
    pub fn now() -> Result<ProcessorTimes, MemoryError> {
        if !cfg!(target_os = "linux") {
            return Err(MemoryError::Platform { os: std::env::consts::OS });
        }
        let read = |file: &'static str| fs::read_to_string(file).map_err(|source| MemoryError::Read { file: file.into(), source });
        let lacks = |file: &'static str, field| MemoryError::Field { file: file.into(), field };
        let process = of_process(&read("/proc/self/stat")?).ok_or(lacks("/proc/self/stat", "utime"))?;
        let (busy, all, machine) = of_machine(&read("/proc/stat")?).ok_or(lacks("/proc/stat", "cpu"))?;
        Ok(ProcessorTimes { process, busy, all, machine })
    }
    /// How busy it was since an earlier moment; zeros if no tick of the kernel's clock (10 ms) has passed.
    pub fn since(&self, earlier: &ProcessorTimes) -> ProcessorUse {
        let passed = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let all = passed(self.all, earlier.all);
        if all == 0.0 {
            return ProcessorUse { process_cores: 0.0, process_percent: 0.0, machine_percent: 0.0 };
        }
        // All cores' ticks are counted together.
        let process_cores = passed(self.process, earlier.process) / all * self.machine as f64;
        let own = thread::available_parallelism().map_or(self.machine as f64, |n| n.get() as f64);
        ProcessorUse { process_cores, process_percent: 100.0 * process_cores / own, machine_percent: 100.0 * passed(self.busy, earlier.busy) / all }
    }
}
/// Ticks in the program and for it in the kernel. The program's name stands in parentheses and may have any characters.
fn of_process(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    ticks()?.checked_add(ticks()?)
}
/// Ticks that were busy, all ticks, and how many cores there are.
fn of_machine(stat: &str) -> Option<(u64, u64, u64)> {
    let mut ticks = [0u64; 8];
    let whole = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // What follows is counted among these already.
    for (tick, field) in ticks.iter_mut().zip(whole.split_whitespace()) {
        *tick = field.parse().ok()?;
    }
    let [_, _, _, idle, waits, ..] = ticks;
    let all = ticks.iter().sum::<u64>();
    let cores = stat.lines().filter(|line| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))).count();
    Some((all - idle - waits, all, cores as u64)).filter(|_| cores > 0 && all > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_mistaken_for_others() {
        assert_eq!(of_process("42 (a ) b) R 1 2 3 4 5 6 7 8 9 10 500 23 9 9"), Some(523));
        assert_eq!(of_process("42 (a) R 1 2"), None);
        let text = "cpu  10 20 30 400 50 1 2 3 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\ncpu1 1 1 1 1 1 1 1 1 1 1\nintr 9\n";
        assert_eq!(of_machine(text), Some((66, 516, 2)));
        assert_eq!(of_machine("cpu0 1 2 3 4 5 6 7 8\n"), None);
    }
    #[test]
    fn shares_are_of_what_passed_between() {
        let at = |process, busy, all| ProcessorTimes { process, busy, all, machine: 4 };
        let used = at(150, 300, 1400).since(&at(50, 100, 1000));
        assert!((used.process_cores - 1.0).abs() < 1e-12 && (used.machine_percent - 50.0).abs() < 1e-12, "{used:?}");
        assert_eq!(at(1, 1, 7).since(&at(1, 1, 7)).machine_percent, 0.0);
    }
}
