//! Steps of a run: how long each took, what a user measured in it, and what both add up to.
use super::{PerformanceMonitor, chrome::text, monitor::percentile};
use adamant_runtime::table::columns;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::{self, Write},
    time::{Duration, Instant},
};

/// What was recorded, by step and by metric. A step costs 24 bytes, each value of a metric 16.
#[derive(Debug, Default)]
pub(super) struct StepLog {
    times: BTreeMap<u64, Duration>,
    metrics: BTreeMap<String, BTreeMap<u64, f64>>,
}

/// A step as it was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    /// its number
    pub step: u64,
    /// how long it took, if that was recorded
    pub time: Option<Duration>,
    /// metrics by name
    pub metrics: BTreeMap<String, f64>,
}
/// What all steps add up to.
#[derive(Clone, Debug, PartialEq)]
pub struct PerformanceSummary {
    /// how many steps have a time
    pub steps: u64,
    /// the time of all of them
    pub total: Duration,
    /// the mean time of a step
    pub average_step_time: Duration,
    /// the standard deviation of one step's time (n - 1)
    pub std: Duration,
    /// the shortest step
    pub min: Duration,
    /// the longest step
    pub max: Duration,
    /// the median
    pub p50: Duration,
    /// the time that 99 of 100 steps stay within
    pub p99: Duration,
    /// the time that 999 of 1000 steps stay within
    pub p999: Duration,
    /// steps in a second of their own time
    pub steps_per_second: f64,
    /// metrics by name
    pub metrics: BTreeMap<String, MetricSummary>,
}
/// What the values of a metric add up to. A value that is not a number makes the mean none; it is neither least nor largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricSummary {
    /// how many values
    pub count: u64,
    /// that of the last step that has one
    pub last: f64,
    /// their mean
    pub mean: f64,
    /// the least
    pub min: f64,
    /// the largest
    pub max: f64,
}

/// Steps and metrics.
///
/// ```
/// # use adamant_core::profile::PerformanceMonitor;
/// let monitor = PerformanceMonitor::new();
/// for step in 1..=3 {
///     let loss = monitor.time_step(step, || 1.0 / step as f64);
///     monitor.record_metrics(step, [("loss", loss), ("lr", 0.1)]);
/// }
/// assert_eq!(monitor.metric("loss"), [(1, 1.0), (2, 0.5), (3, 1.0 / 3.0)]);
/// let summary = monitor.performance_summary();
/// assert_eq!((summary.steps, summary.metrics["loss"].last), (3, 1.0 / 3.0));
/// let mut report = Vec::new();
/// monitor.log_performance_report(&mut report)?;
/// assert!(String::from_utf8_lossy(&report).contains("Average step ms"));
/// # Ok::<(), std::io::Error>(())
/// ```
impl PerformanceMonitor {
    /// Runs `f` and counts its time as that of a step. Tensors that it only records are not computed: evaluate what belongs
    /// to the step.
    pub fn time_step<R>(&self, step: u64, f: impl FnOnce() -> R) -> R {
        let begin = Instant::now();
        let result = f();
        self.record_step(step, begin.elapsed());
        result
    }
    /// Counts a time that was measured elsewhere; the times of the same step add up.
    pub fn record_step(&self, step: u64, time: Duration) {
        let mut log = self.steps.lock();
        let all = log.times.entry(step).or_default();
        *all = all.saturating_add(time);
    }
    /// Stores values of one's own for a step; a value that is there already is replaced.
    pub fn record_metrics<'a>(&self, step: u64, metrics: impl IntoIterator<Item = (&'a str, f64)>) {
        // The caller's iterator may ask this monitor, so the lock is not held while it runs.
        let metrics: Vec<(&str, f64)> = metrics.into_iter().collect();
        let mut log = self.steps.lock();
        for (name, value) in metrics {
            match log.metrics.get_mut(name) {
                Some(values) => _ = values.insert(step, value),
                None => _ = log.metrics.insert(name.into(), [(step, value)].into()),
            }
        }
    }
    /// The values of a metric with their steps, by rising step; nothing if nobody recorded it.
    pub fn metric(&self, name: &str) -> Vec<(u64, f64)> {
        self.steps.lock().metrics.get(name).map_or_else(Vec::new, |values| values.iter().map(|(s, v)| (*s, *v)).collect())
    }
    /// The names of all metrics.
    pub fn metric_names(&self) -> Vec<String> {
        self.steps.lock().metrics.keys().cloned().collect()
    }
    /// The raw log: every step that has a time or a metric, by rising step.
    pub fn steps(&self) -> Vec<StepRecord> {
        let log = self.steps.lock();
        let numbers: BTreeSet<u64> = log.times.keys().chain(log.metrics.values().flat_map(BTreeMap::keys)).copied().collect();
        let metrics = |step| log.metrics.iter().filter_map(|(name, values)| Some((name.clone(), *values.get(&step)?))).collect();
        numbers.into_iter().map(|step| StepRecord { step, time: log.times.get(&step).copied(), metrics: metrics(step) }).collect()
    }
    /// Writes the raw log as JSON lines: `{"step":1,"seconds":0.0012,"metrics":{"loss":0.3}}`. What is not recorded, or not a
    /// number, is null.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn write_log(&self, to: &mut dyn Write) -> io::Result<()> {
        let number = |x: f64| if x.is_finite() { format!("{x:?}") } else { "null".into() };
        for s in self.steps() {
            let metrics: Vec<String> = s.metrics.iter().map(|(name, value)| format!("{}:{}", text(name), number(*value))).collect();
            let seconds = s.time.map_or_else(|| "null".into(), |t| number(t.as_secs_f64()));
            writeln!(to, "{{\"step\":{},\"seconds\":{seconds},\"metrics\":{{{}}}}}", s.step, metrics.join(","))?;
        }
        Ok(())
    }
    /// What all steps add up to.
    pub fn performance_summary(&self) -> PerformanceSummary {
        let log = self.steps.lock();
        let mut sorted: Vec<Duration> = log.times.values().copied().collect();
        sorted.sort_unstable();
        let total = sorted.iter().fold(Duration::ZERO, |all, t| all.saturating_add(*t));
        let mean = total.div_f64(sorted.len().max(1) as f64);
        let squares: f64 = sorted.iter().map(|t| (t.as_secs_f64() - mean.as_secs_f64()).powi(2)).sum();
        let deviation = (squares / sorted.len().saturating_sub(1).max(1) as f64).sqrt();
        PerformanceSummary {
            steps: sorted.len() as u64,
            total,
            average_step_time: mean,
            std: Duration::try_from_secs_f64(deviation).unwrap_or_default(),
            min: sorted.first().copied().unwrap_or_default(),
            max: sorted.last().copied().unwrap_or_default(),
            p50: percentile(&sorted, 0.5),
            p99: percentile(&sorted, 0.99),
            p999: percentile(&sorted, 0.999),
            steps_per_second: if total.is_zero() { 0.0 } else { sorted.len() as f64 / total.as_secs_f64() },
            metrics: log.metrics.iter().map(|(name, values)| (name.clone(), MetricSummary::of(values))).collect(),
        }
    }
    /// Writes the summary as text.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn log_performance_report(&self, to: &mut dyn Write) -> io::Result<()> {
        write!(to, "{}", self.performance_summary())
    }
}
impl MetricSummary {
    fn of(values: &BTreeMap<u64, f64>) -> MetricSummary {
        let numbers = || values.values().copied();
        MetricSummary {
            count: values.len() as u64,
            last: numbers().next_back().unwrap_or(f64::NAN),
            mean: numbers().sum::<f64>() / values.len() as f64,
            min: numbers().fold(f64::INFINITY, f64::min),
            max: numbers().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}
impl fmt::Display for PerformanceSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milli = |d: Duration| format!("{:.3}", d.as_secs_f64() * 1e3);
        let rows = [
            ("Steps", self.steps.to_string()),
            ("Total ms", milli(self.total)),
            ("Average step ms", milli(self.average_step_time)),
            ("Std ms", milli(self.std)),
            ("Least ms", milli(self.min)),
            ("p50 ms", milli(self.p50)),
            ("p99 ms", milli(self.p99)),
            ("p99.9 ms", milli(self.p999)),
            ("Most ms", milli(self.max)),
            ("Steps a second", format!("{:.1}", self.steps_per_second)),
        ];
        f.write_str(&columns(&rows.map(|(name, value)| vec![name.to_string(), value])))?;
        if self.metrics.is_empty() {
            return Ok(());
        }
        let mut lines = vec![["Metric", "Count", "Last", "Mean", "Min", "Max"].map(String::from).to_vec()];
        for (name, m) in &self.metrics {
            lines.push([name.clone(), m.count.to_string()].into_iter().chain([m.last, m.mean, m.min, m.max].map(|x| format!("{x:.6}"))).collect());
        }
        write!(f, "\n{}", columns(&lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_that_is_not_of_the_raw_log() {
        let monitor = PerformanceMonitor::new();
        for step in 1..=100 {
            monitor.record_step(step, Duration::from_micros(step * 10));
        }
        // Steps come in any order, in parts, and with metrics alone.
        monitor.record_step(100, Duration::from_micros(500));
        monitor.record_metrics(200, [("loss", f64::NAN)]);
        monitor.record_metrics(7, [("loss", 3.0), ("loss", 2.0)]);
        let (summary, steps) = (monitor.performance_summary(), monitor.steps());
        let times: Vec<f64> = steps.iter().filter_map(|s| s.time).map(|t| t.as_secs_f64()).collect();
        assert_eq!((steps.len(), times.len(), summary.steps), (101, 100, 100));
        assert!((summary.average_step_time.as_secs_f64() - times.iter().sum::<f64>() / 100.0).abs() < 1e-9);
        assert_eq!([summary.min, summary.p50, summary.p99, summary.p999].map(|t| t.as_micros()), [10, 500, 990, 1500]);
        let loss = summary.metrics["loss"];
        assert!((loss.count, loss.min, loss.max) == (2, 2.0, 2.0) && loss.last.is_nan() && loss.mean.is_nan());
        monitor.reset();
        assert!(monitor.steps().is_empty() && monitor.metric_names().is_empty());
    }
    #[test]
    fn a_line_of_the_log_that_is_not_json() {
        let monitor = PerformanceMonitor::new();
        monitor.record_metrics(1, [("a \"b\"\n", f64::INFINITY), ("c", 1e300)]);
        let mut log = Vec::new();
        monitor.write_log(&mut log).unwrap();
        assert_eq!(String::from_utf8(log).unwrap(), "{\"step\":1,\"seconds\":null,\"metrics\":{\"a \\\"b\\\"\\u000a\":null,\"c\":1e300}}\n");
    }
    #[test]
    fn a_summary_of_nothing() {
        let summary = PerformanceMonitor::new().performance_summary();
        assert_eq!((summary.steps, summary.average_step_time, summary.steps_per_second), (0, Duration::ZERO, 0.0));
    }
}
