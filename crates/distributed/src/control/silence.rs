//! How sure it is that a rank that says nothing will say nothing more: the phi accrual failure detector of Hayashibara, Défago, Yared
//! and Katayama (2004). Must not know of sockets; times are given to it.
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// So often a rank says that it is there.
pub const BEAT: Duration = Duration::from_millis(500);
/// So many intervals are remembered.
const WINDOW: usize = 64;
/// No schedule keeps time better than this, whatever the last intervals were.
const LEAST_SPREAD: f64 = 0.1;
/// The largest phi told: beyond it, floats have no tail left.
const MOST: f64 = 300.0;

/// When a rank was heard.
#[derive(Clone, Debug)]
pub struct SilenceDetector {
    heard: Instant,
    intervals: VecDeque<f64>,
}
impl SilenceDetector {
    /// Of a rank that was heard now.
    pub fn new(now: Instant) -> SilenceDetector {
        SilenceDetector { heard: now, intervals: VecDeque::from([BEAT.as_secs_f64()]) }
    }
    /// A heartbeat came.
    pub fn beat(&mut self, now: Instant) {
        if self.intervals.len() == WINDOW {
            self.intervals.pop_front();
        }
        self.intervals.push_back(self.silent(now).as_secs_f64());
        self.heard = now;
    }
    /// For how long nothing came.
    pub fn silent(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.heard)
    }
    /// -log10 of the probability that the next heartbeat is only late, if intervals are as they were (section 4: a normal
    /// distribution of those in the window).
    pub fn phi(&self, now: Instant) -> f64 {
        let n = self.intervals.len() as f64;
        let mean = self.intervals.iter().sum::<f64>() / n;
        let variance = self.intervals.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / n;
        let late = (self.silent(now).as_secs_f64() - mean) / variance.sqrt().max(LEAST_SPREAD);
        let tail = 0.5 * libm::erfc(late / std::f64::consts::SQRT_2);
        (-tail.log10()).clamp(0.0, MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(beats: usize, silent: f64) -> f64 {
        let start = Instant::now();
        let mut detector = SilenceDetector::new(start);
        (1..=beats).for_each(|k| detector.beat(start + BEAT * k as u32));
        detector.phi(start + BEAT * beats as u32 + Duration::from_secs_f64(silent))
    }
    #[test]
    fn a_phi_that_is_no_tail_of_a_normal_distribution() {
        // -log10(1 - Φ(z)) at z = 0, 1, 2, 3, 5 of a table; the spread is the least, 0.1 s.
        for (z, phi) in [(0.0, 0.30103), (1.0, 0.79955), (2.0, 1.64302), (3.0, 2.86969), (5.0, 6.54265)] {
            let told = after(40, 0.5 + z * LEAST_SPREAD);
            assert!((told - phi).abs() < 1e-4, "{z}: {told} for {phi}");
        }
    }
    #[test]
    fn silence_that_does_not_grow_or_ends_in_no_number() {
        let grown: Vec<f64> = [0.0, 0.5, 1.0, 2.0, 5.0, 60.0].iter().map(|t| after(10, *t)).collect();
        assert!(grown.is_sorted() && grown.iter().all(|phi| phi.is_finite()) && grown[5] == MOST, "{grown:?}");
    }
    #[test]
    fn a_rank_whose_beats_are_irregular_is_suspected_as_fast_as_a_regular_one() {
        let start = Instant::now();
        let mut detector = SilenceDetector::new(start);
        let mut now = start;
        for k in 0..40 {
            now += Duration::from_millis(if k % 2 == 0 { 100 } else { 1500 });
            detector.beat(now);
        }
        assert!(detector.phi(now + Duration::from_secs(2)) < after(40, 2.0) / 4.0);
    }
}
