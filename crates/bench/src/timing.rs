//! Functions under the clock, for programs that measure a part of themselves: one function, two against each other, and
//! named parts over many runs.
use crate::{
    inputs::RandomWords,
    record::{SEED, Summary},
    sampler::{MOST_SAMPLES, SHORTEST_SAMPLE, calls_of_a_sample},
    verdict::{Compared, Pairs, judge},
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Fewer samples say nothing.
const FEWEST: usize = 10;

/// Nanoseconds of one call of so many.
fn sample(f: &mut impl FnMut(), calls: u64) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| f());
    start.elapsed().as_secs_f64() * 1e9 / calls as f64
}
/// Calls until the caches are warm, which are not counted; how many calls a sample has.
fn warm_up(f: &mut impl FnMut(), budget: Duration) -> u64 {
    let (start, mut calls) = (Instant::now(), 0u64);
    while calls < 2 || (start.elapsed() < budget / 10 && calls < 100_000) {
        f();
        calls += 1;
    }
    calls_of_a_sample(start.elapsed().as_secs_f64() * 1e9 / calls as f64, SHORTEST_SAMPLE)
}
/// The time of one call, in nanoseconds, over samples that take about `budget` together. What warms up is discarded.
///
/// ```
/// use std::time::Duration;
/// let summary = adamant_bench::timing::benchmark(Duration::from_millis(20), || { std::hint::black_box((0..100).sum::<u64>()); });
/// assert!(summary.min_ns > 0.0 && summary.median_ns >= summary.min_ns && summary.max_ns >= summary.mean_ns);
/// ```
pub fn benchmark(budget: Duration, mut f: impl FnMut()) -> Summary {
    let calls = warm_up(&mut f, budget);
    let (start, mut samples) = (Instant::now(), Vec::new());
    while samples.len() < FEWEST || (start.elapsed() < budget && samples.len() < MOST_SAMPLES) {
        samples.push(sample(&mut f, calls));
    }
    Summary::of(&samples).unwrap_or(Summary { median_ns: 0.0, mad_ns: 0.0, ci95_ns: [0.0; 2], min_ns: 0.0, mean_ns: 0.0, std_ns: 0.0, max_ns: 0.0 })
}
/// Two functions against each other, sample by sample in random order: the time of `b` over that of `a`, with its 95 %
/// interval and a verdict about changes of at least 1 %.
///
/// ```
/// use std::{hint::black_box, time::Duration};
/// let sum = |n: u64| move || { black_box((0..black_box(n)).fold(0u64, |s, x| s ^ x.wrapping_mul(s | 3))); };
/// let compared = adamant_bench::timing::compare(Duration::from_millis(60), sum(20_000), sum(60_000));
/// let [low, high] = compared.interval.unwrap();
/// assert!(low > 1.5 && high < 6.0, "{compared:?}");
/// ```
pub fn compare(budget: Duration, mut a: impl FnMut(), mut b: impl FnMut()) -> Compared {
    let calls = [warm_up(&mut a, budget / 2), warm_up(&mut b, budget / 2)];
    let (mut words, start) = (RandomWords::new(SEED), Instant::now());
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    while of_a.len() < FEWEST || (start.elapsed() < budget && of_a.len() < MOST_SAMPLES) {
        if words.below(2) == 0 {
            of_a.push(sample(&mut a, calls[0]));
            of_b.push(sample(&mut b, calls[1]));
        } else {
            of_b.push(sample(&mut b, calls[1]));
            of_a.push(sample(&mut a, calls[0]));
        }
    }
    judge(&[("b against a".into(), Ok(Pairs::new(of_a, of_b)))], 0.01).swap_remove(0)
}

/// Times of named parts over many runs.
///
/// ```
/// let mut tracker = adamant_bench::timing::Tracker::default();
/// for _ in 0..3 {
///     let answer = tracker.track("load", || 6 * 7);
///     assert_eq!(answer, 42);
/// }
/// let summary = tracker.summary();
/// assert_eq!(tracker.runs("load"), 3);
/// assert!(summary["load"].min_ns <= summary["load"].mean_ns && summary["load"].mean_ns <= summary["load"].max_ns);
/// ```
#[derive(Clone, Default, Debug)]
pub struct Tracker {
    ns: BTreeMap<String, Vec<f64>>,
}
impl Tracker {
    /// Runs a part and adds its time under a name.
    pub fn track<T>(&mut self, name: &str, f: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = f();
        self.add(name, start.elapsed());
        result
    }
    /// Adds a time that was taken elsewhere.
    pub fn add(&mut self, name: &str, time: Duration) {
        // The clock may not have ticked.
        let ns = (time.as_secs_f64() * 1e9).max(1.0);
        self.ns.entry(name.into()).or_default().push(ns);
    }
    /// How often a part ran.
    pub fn runs(&self, name: &str) -> usize {
        self.ns.get(name).map_or(0, Vec::len)
    }
    /// Mean, standard deviation, least, largest, median of each part, in nanoseconds.
    pub fn summary(&self) -> BTreeMap<&str, Summary> {
        self.ns.iter().filter_map(|(name, ns)| Some((name.as_str(), Summary::of(ns)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 6500 / 5, and the root of 9,425,000 / 4.
    #[test]
    fn a_mean_or_a_standard_deviation_that_is_another() {
        let mut tracker = Tracker::default();
        [250, 500, 750, 1000, 4000].iter().for_each(|ns| tracker.add("few", Duration::from_nanos(*ns)));
        tracker.add("one", Duration::from_nanos(70));
        tracker.add("none", Duration::ZERO);
        let summary = tracker.summary();
        let near = |got: f64, want: f64| assert!((got - want).abs() <= 1e-6 * want.max(1.0), "{got} instead of {want}");
        let few = summary["few"];
        [(few.mean_ns, 1300.0), (few.std_ns, 1_535.008_143_300_9), (few.median_ns, 750.0), (few.min_ns, 250.0), (few.max_ns, 4000.0)]
            .iter()
            .for_each(|(got, want)| near(*got, *want));
        // Of one time there is no spread, and a clock that did not tick took no negative one.
        near(summary["one"].mean_ns, 70.0);
        assert_eq!((summary["one"].std_ns, summary["none"].mean_ns), (0.0, 1.0));
    }
    /// The same of times that the clock gave, whatever they were.
    #[test]
    fn a_summary_that_does_not_follow_from_the_runs() {
        let mut tracker = Tracker::default();
        for n in 1..30u64 {
            tracker.track("work", || std::hint::black_box((0..n * 1000).fold(0u64, |x, k| x ^ k.rotate_left(7))));
        }
        let times = tracker.ns["work"].clone();
        let n = times.len() as f64;
        let mean = times.iter().sum::<f64>() / n;
        // Of all pairs, which is another way to the same: half the mean square of their differences.
        let squares: f64 = times.iter().flat_map(|x| times.iter().map(move |y| (x - y).powi(2))).sum();
        let std = (squares / 2.0 / n / (n - 1.0)).sqrt();
        let summary = tracker.summary()["work"];
        assert!((summary.mean_ns - mean).abs() <= 1e-9 * mean && (summary.std_ns - std).abs() <= 1e-6 * std, "{summary:?}: {mean} ± {std}");
        assert_eq!(tracker.runs("work"), 29);
    }
}
