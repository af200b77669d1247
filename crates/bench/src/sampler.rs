//! One workload under the clock, in this process.
//!
//! [`Active`] is a workload that is built and whose result is right. [`Active::sample`] is one sample: a loop of calls
//! long enough for the clock. Beside the time it says for which share of it the process wanted to run and could not
//! (`/proc`'s run queue), so that whoever compares can tell a sample that other programs disturbed from one that was slow.
use crate::{
    stats::median_interval,
    workload::{Checked, Prepared, Problem, Scale, Workload, WorkloadForm, ensure},
};
use adamant::Device;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

/// Calls that take less are looped, so that a sample takes about as long.
pub const SHORTEST_SAMPLE: Duration = Duration::from_micros(200);
/// The most samples of one case.
pub const MOST_SAMPLES: usize = 300;
/// The fewest, whatever the budget.
const FEWEST_SAMPLES: usize = 5;
/// How many samples there must be before a narrow interval ends the sampling.
const ENOUGH_SAMPLES: usize = 30;

/// One sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TimedSample {
    /// nanoseconds of one call
    pub ns: f64,
    /// the share of the time for which threads of the process waited for a core; 0 where the system does not tell
    pub waited: f64,
}
/// When to stop.
#[derive(Clone, Copy, Debug)]
pub struct StopRule {
    /// time for samples
    pub budget: Duration,
    /// the half width of the median's 95 % interval, relative, that is narrow enough
    pub precision: f64,
}

/// A workload that is built, right, and may be called.
pub struct Active {
    prepared: Prepared,
    /// the worst error as a share of what is allowed, where the workload has a check
    pub worst: Option<f64>,
}
impl Active {
    /// Builds a workload and checks its result.
    ///
    /// # Errors
    /// It cannot be built, is wrong, or panicked.
    pub fn start(workload: &Workload, scale: Scale) -> Checked<Active> {
        Active::start_in(workload, scale, WorkloadForm::Plain)
    }
    /// Builds a workload in a form and checks its result.
    ///
    /// # Errors
    /// As [`Active::start`]; the workload has no such form.
    pub fn start_in(workload: &Workload, scale: Scale, form: impl Into<WorkloadForm>) -> Checked<Active> {
        Active::unchecked_in(workload, scale, form)?.right()
    }
    fn right(mut self) -> Checked<Active> {
        self.worst = guarded(|| self.prepared.verify.as_mut().map(|verify| verify()).transpose())?;
        Ok(self)
    }
    /// Builds a workload; nothing is called, so that what its first call takes can be seen.
    ///
    /// # Errors
    /// It cannot be built, or panicked.
    pub fn unchecked(workload: &Workload, scale: Scale) -> Checked<Active> {
        Active::unchecked_in(workload, scale, WorkloadForm::Plain)
    }
    /// The same in a form.
    ///
    /// # Errors
    /// As [`Active::unchecked`]; the workload has no such form.
    pub fn unchecked_in(workload: &Workload, scale: Scale, form: impl Into<WorkloadForm>) -> Checked<Active> {
        Ok(Active { prepared: guarded(|| workload.build_in(scale, form))?, worst: None })
    }
    /// This many calls as one from now on.
    pub fn repeated(self, times: usize) -> Active {
        Active { prepared: self.prepared.repeated(times), ..self }
    }
    /// Elements of the output of one more call, at flat positions modulo their number.
    ///
    /// # Errors
    /// The workload shows no output, it is empty, or the call fails.
    pub fn values(&mut self, places: &[u64]) -> Checked<Vec<f64>> {
        let output = self.prepared.output.as_mut().ok_or_else(|| Problem::Wrong("it shows no output".into()))?;
        let values = guarded(output)?;
        ensure(!values.is_empty(), || "the result is empty".into())?;
        Ok(places.iter().map(|p| values[(p % values.len() as u64) as usize]).collect())
    }
    /// One sample of so many calls.
    ///
    /// # Errors
    /// A call failed, or panicked.
    pub fn sample(&mut self, calls: u64) -> Checked<TimedSample> {
        let call = &mut self.prepared.call;
        guarded(|| {
            let queued = run_queue_wait();
            let start = Instant::now();
            for _ in 0..calls {
                call()?;
            }
            settle()?;
            let ns = start.elapsed().as_secs_f64() * 1e9;
            let waited = run_queue_wait().saturating_sub(queued) as f64 / ns.max(1.0);
            Ok(TimedSample { ns: ns / calls as f64, waited })
        })
    }
    /// Calls until the caches are warm and for at least `warmth`: the nanoseconds of the quickest. How many calls make a
    /// sample follows from it, and a mean would depend on whether this program was let run meanwhile.
    ///
    /// # Errors
    /// A call failed, or panicked.
    pub fn warm_up(&mut self, warmth: Duration) -> Checked<f64> {
        let call = &mut self.prepared.call;
        guarded(|| {
            call()?;
            settle()?;
            let (start, mut calls, mut quickest) = (Instant::now(), 0u64, Duration::MAX);
            let mut before = Duration::ZERO;
            while calls < 2 || (before < warmth && calls < 100_000) {
                call()?;
                settle()?;
                calls += 1;
                let now = start.elapsed();
                (quickest, before) = (quickest.min(now - before), now);
            }
            Ok(quickest.as_secs_f64() * 1e9)
        })
    }
    /// Samples until the median is known or the budget is spent; then the result is checked again where it can be.
    ///
    /// # Errors
    /// A call failed or panicked, or what it gives is wrong by now.
    pub fn measure(&mut self, stop: StopRule) -> Checked<(Vec<TimedSample>, u64)> {
        let one = self.warm_up(Duration::from_millis(200).min(stop.budget))?;
        let calls = calls_of_a_sample(one, SHORTEST_SAMPLE);
        let (mut samples, start) = (Vec::new(), Instant::now());
        while samples.len() < FEWEST_SAMPLES || (start.elapsed() < stop.budget && samples.len() < MOST_SAMPLES && !is_narrow(&samples, stop.precision)) {
            samples.push(self.sample(calls)?);
        }
        self.check_again()?;
        Ok((samples, calls))
    }
    /// Compares the output of one more call, where calls leave no trace.
    ///
    /// # Errors
    /// It is wrong by now.
    pub fn check_again(&mut self) -> Checked<()> {
        if let (Some(verify), true) = (&mut self.prepared.verify, self.prepared.verify_again) {
            let worst = guarded(verify)?;
            self.worst = Some(self.worst.map_or(worst, |w| w.max(worst)));
        }
        Ok(())
    }
}
/// How many calls of so many nanoseconds make a sample of a length.
pub fn calls_of_a_sample(one_ns: f64, shortest: Duration) -> u64 {
    let wanted = shortest.as_nanos() as f64;
    if one_ns > wanted { 1 } else { (wanted / one_ns.max(1e-3)).ceil() as u64 }
}
/// Is the median known to within `precision`? Asked at every tenth sample, for the cost of sorting.
fn is_narrow(samples: &[TimedSample], precision: f64) -> bool {
    if samples.len() < ENOUGH_SAMPLES || samples.len() % 10 != 0 {
        return false;
    }
    let mut sorted: Vec<f64> = samples.iter().map(|s| s.ns).collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = median_interval(&sorted);
    (high - low) / 2.0 <= precision * sorted[sorted.len() / 2]
}
/// A panic in a workload is its failure, not the end of the run.
fn guarded<T>(f: impl FnOnce() -> Checked<T>) -> Checked<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|s| s.to_string()).or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Problem::Wrong(format!("panicked: {}", text.unwrap_or_default())))
    })
}
/// Waits until the device has done what it was handed: one that works beside the host is timed, and not how fast it is asked.
fn settle() -> Checked<()> {
    Ok(Device::current()?.synchronize()?)
}
/// Nanoseconds for which threads of this process stood in a run queue so far; 0 where the system does not tell.
fn run_queue_wait() -> u64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let of_thread = |path: std::path::PathBuf| std::fs::read_to_string(path.join("schedstat")).ok()?.split_whitespace().nth(1)?.parse::<u64>().ok();
    threads.flatten().filter_map(|thread| of_thread(thread.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::Cell, rc::Rc};

    fn counting(right: bool) -> (Workload, Rc<Cell<u64>>) {
        let calls = Rc::new(Cell::new(0));
        let counted = calls.clone();
        let build = move |_| {
            let counted = counted.clone();
            let verify = move || if right { Ok(0.5) } else { Err(Problem::Wrong("2 instead of 1".into())) };
            Ok(Prepared::checked(
                move || {
                    counted.set(counted.get() + 1);
                    Ok(())
                },
                verify,
            ))
        };
        (Workload::new("counting", None, build), calls)
    }
    #[test]
    fn a_wrong_result_that_gets_a_time() {
        let (workload, calls) = counting(false);
        let problem = Active::start(&workload, Scale::FULL).err().map(|p| p.to_string());
        assert_eq!((problem.as_deref(), calls.get()), (Some("wrong result: 2 instead of 1"), 0));
    }
    #[test]
    fn a_sample_that_divides_by_another_number_of_calls() {
        let (workload, calls) = counting(true);
        let mut active = Active::start(&workload, Scale::FULL).unwrap().repeated(3);
        active.sample(7).unwrap();
        assert_eq!(calls.get(), 21);
        let (samples, looped) = active.measure(StopRule { budget: Duration::ZERO, precision: 0.0 }).unwrap();
        assert_eq!(samples.len(), 5);
        assert!(looped > 1 && samples.iter().all(|s| s.ns > 0.0 && s.waited >= 0.0));
        assert_eq!(active.worst, Some(0.5));
    }
    #[test]
    fn a_panic_that_ends_the_run() {
        let workload = Workload::new("panics", None, |_| -> Checked<Prepared> { panic!("at the first call") });
        let text = Active::start(&workload, Scale::FULL).err().map(|p| p.to_string());
        assert_eq!(text.as_deref(), Some("wrong result: panicked: at the first call"));
    }
    #[test]
    fn a_median_that_is_known_and_sampled_on() {
        let all = |n: usize, spread: f64| (0..n).map(|k| TimedSample { ns: 100.0 + spread * (k % 2) as f64, waited: 0.0 }).collect::<Vec<_>>();
        assert!(is_narrow(&all(30, 0.1), 0.005));
        assert!(!is_narrow(&all(30, 10.0), 0.005) && !is_narrow(&all(20, 0.0), 0.005));
    }
}
