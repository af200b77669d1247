//! Times of named operations: how often, how long, how evenly.
use adamant_runtime::table::columns;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

/// The most samples that are kept of an operation. Percentiles are exact up to here; beyond, they are those of a uniform
/// choice among all samples (Vitter's algorithm R, 1985).
const KEPT: usize = 4096;

/// Counts and times operations by name, from any thread; operations may nest.
///
/// ```
/// # use adamant_core::profile::PerformanceMonitor;
/// let monitor = PerformanceMonitor::new();
/// let sum = monitor.time_operation("sum", || (0..1000).sum::<u32>());
/// assert_eq!((sum, monitor.report().of("sum").map(|s| s.count)), (499_500, Some(1)));
/// ```
#[derive(Debug, Default)]
pub struct PerformanceMonitor {
    operations: Mutex<BTreeMap<String, MetricSamples>>,
    pub(super) steps: Mutex<super::steps::StepLog>,
}
#[derive(Debug, Default)]
struct MetricSamples {
    count: u64,
    /// nanoseconds: the mean, and the sum of squares around it (Welford, 1962)
    mean: f64,
    spread: f64,
    least: u64,
    most: u64,
    kept: Vec<u64>,
    /// the state of the choice
    choice: u64,
}
impl MetricSamples {
    fn push(&mut self, nanoseconds: u64) {
        self.least = if self.count == 0 { nanoseconds } else { self.least.min(nanoseconds) };
        self.most = self.most.max(nanoseconds);
        self.count += 1;
        let off = nanoseconds as f64 - self.mean;
        self.mean += off / self.count as f64;
        self.spread += off * (nanoseconds as f64 - self.mean);
        if self.kept.len() < KEPT {
            self.kept.push(nanoseconds);
            return;
        }
        // Knuth's linear congruential generator: any even choice will do.
        self.choice = self.choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = ((u128::from(self.choice) * u128::from(self.count)) >> 64) as usize;
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = nanoseconds;
        }
    }
    fn summary(&self, name: &str) -> OperationSummary {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        let percentile = |p: f64| Duration::from_nanos(percentile(&sorted, p));
        let duration = |nanoseconds: f64| Duration::from_nanos(nanoseconds.round() as u64);
        let variance = if self.count > 1 { self.spread / (self.count - 1) as f64 } else { 0.0 };
        OperationSummary {
            name: name.into(),
            count: self.count,
            mean: duration(self.mean),
            std: duration(variance.max(0.0).sqrt()),
            min: Duration::from_nanos(self.least),
            max: Duration::from_nanos(self.most),
            p50: percentile(0.5),
            p99: percentile(0.99),
            p999: percentile(0.999),
        }
    }
}
/// What a share `p` of the samples, in rising order, stays within: the nearest rank. Of none, the default.
pub(super) fn percentile<T: Copy + Default>(sorted: &[T], p: f64) -> T {
    sorted.get(((sorted.len() as f64 * p).ceil() as usize).max(1) - 1).copied().unwrap_or_default()
}

/// What is known of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationSummary {
    /// its name
    pub name: String,
    /// how often it ran
    pub count: u64,
    /// the mean time
    pub mean: Duration,
    /// the standard deviation of one time (n - 1)
    pub std: Duration,
    /// the shortest
    pub min: Duration,
    /// the longest
    pub max: Duration,
    /// the median
    pub p50: Duration,
    /// the time that 99 of 100 stay within
    pub p99: Duration,
    /// the time that 999 of 1000 stay within
    pub p999: Duration,
}
/// All operations, by name.
#[derive(Clone, Debug, PartialEq)]
pub struct PerformanceReport {
    /// a line each
    pub operations: Vec<OperationSummary>,
}
impl PerformanceReport {
    /// The line of an operation.
    pub fn of(&self, name: &str) -> Option<&OperationSummary> {
        self.operations.iter().find(|o| o.name == name)
    }
}
impl PerformanceMonitor {
    /// One that has seen nothing.
    pub fn new() -> PerformanceMonitor {
        PerformanceMonitor::default()
    }
    /// Runs `f` and counts its time under `name`. Tensors that it only records are not computed: evaluate what belongs to it.
    pub fn time_operation<R>(&self, name: &str, f: impl FnOnce() -> R) -> R {
        let begin = Instant::now();
        let result = f();
        self.record(name, begin.elapsed());
        result
    }
    /// Counts a time that was measured elsewhere.
    pub fn record(&self, name: &str, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut operations = self.operations.lock();
        match operations.get_mut(name) {
            Some(samples) => samples.push(nanoseconds),
            None => operations.entry(name.into()).or_default().push(nanoseconds),
        }
    }
    /// What was seen so far.
    pub fn report(&self) -> PerformanceReport {
        PerformanceReport { operations: self.operations.lock().iter().map(|(name, samples)| samples.summary(name)).collect() }
    }
    /// Forgets everything: operations, steps and metrics.
    pub fn reset(&self) {
        self.operations.lock().clear();
        *self.steps.lock() = Default::default();
    }
}
impl fmt::Display for PerformanceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micro = |d: Duration| format!("{:.3}", d.as_secs_f64() * 1e6);
        let mut lines = vec![["Operation", "Count", "Mean us", "Std us", "p50 us", "p99 us"].map(String::from).to_vec()];
        lines.extend(self.operations.iter().map(|o| vec![o.name.clone(), o.count.to_string(), micro(o.mean), micro(o.std), micro(o.p50), micro(o.p99)]));
        f.write_str(&columns(&lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_or_deviation_of_another_list() {
        let monitor = PerformanceMonitor::new();
        (1..=100).for_each(|n| monitor.record("even", Duration::from_nanos(n)));
        let report = monitor.report();
        let seen = report.of("even").unwrap();
        assert_eq!((seen.count, seen.p50.as_nanos(), seen.p99.as_nanos()), (100, 50, 99));
        // Mean 50.5, standard deviation 29.01.
        assert_eq!((seen.mean.as_nanos(), seen.std.as_nanos()), (51, 29));
        assert_eq!((seen.min.as_nanos(), seen.max.as_nanos(), seen.p999.as_nanos()), (1, 100, 100));
        assert!(report.to_string().lines().count() == 2 && report.of("odd").is_none());
    }
    #[test]
    fn many_samples_that_are_not_chosen_evenly() {
        let monitor = PerformanceMonitor::new();
        (0..200_000).for_each(|n| monitor.record("ramp", Duration::from_nanos(n)));
        let seen = monitor.report().of("ramp").unwrap().clone();
        assert_eq!(seen.count, 200_000);
        assert!((90_000..110_000).contains(&seen.p50.as_nanos()) && (194_000..200_000).contains(&seen.p99.as_nanos()), "{seen:?}");
    }
    #[test]
    fn operations_inside_each_other_or_on_other_threads() {
        let monitor = PerformanceMonitor::new();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| monitor.time_operation("outer", || monitor.time_operation("inner", || ())));
            }
        });
        let report = monitor.report();
        assert!(["outer", "inner"].iter().all(|name| report.of(name).unwrap().count == 4));
        monitor.reset();
        assert!(monitor.report().operations.is_empty());
    }
}
