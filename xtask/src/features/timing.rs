//! Times for checks: the least of many runs, because what else the machine does only adds.
use std::time::Instant;

/// Seconds of the fastest of `n` runs.
pub fn least(n: usize, mut f: impl FnMut()) -> f64 {
    (0..n)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}
/// The same for two, run in turn, so that both meet the same machine.
pub fn least_of_two(n: usize, mut f: impl FnMut(), mut g: impl FnMut()) -> (f64, f64) {
    (0..n).fold((f64::INFINITY, f64::INFINITY), |(a, b), _| (a.min(least(1, &mut f)), b.min(least(1, &mut g))))
}
