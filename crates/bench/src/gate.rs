//! When a gate lets a program pass, and when it cannot tell.
//!
//! A gate asks of each workload whether B takes more than the allowance, which is a share of A's time, longer. There are
//! three answers ([`Decision`]), and the third is not the first: *passed* means that a slowdown above the allowance is left
//! out by an interval, not that none was seen.
//!
//! The numbers are the rounds' changes, one for each pair of processes, and the tests are those of ranks: why, stands in
//! [`verdict`](crate::verdict). With `θ` the change in logarithms and `δ = ln(1 + allowance)`:
//!
//! - *slower*: the chance of such ranks under `θ ≤ δ` is at most [`ALARM`], divided by the number of workloads and of looks;
//! - *passed*: the interval that leaves `θ` out above itself with a chance of [`MISS`], divided by the number of looks, ends
//!   at `δ` or below;
//! - *undecided*: neither.
//!
//! A gate looks at its rounds a few times and stops for the workloads that are decided ([`Looks`]). Who looks `k` times at a
//! test of level `α` has up to `k` chances to be wrong; so each look has `α / k` (Bonferroni; Jennison and Turnbull, *Group
//! Sequential Methods*, 1999, chapter 2, have finer shares and no fewer false alarms). Ranks of `n` rounds know no chance
//! below `2⁻ⁿ`: more workloads take more rounds, which [`Looks::new`] knows.
//!
//! What this promises of equal programs: at most [`ALARM`] of all gates, with all their workloads, end as slower, whatever
//! the processes' spread is, and far fewer where the spread is small beside the allowance, because then `θ = 0` is far
//! from `δ`. What it cannot know: a difference that every process of one side has and that is none of its source, as
//! the place of a program's own pages in memory, which live longer than its processes.
use crate::stats::{student_quantile, walsh::Walsh};
use serde::{Deserialize, Serialize};

/// The chance that a gate of programs that just keep to the allowance calls one of its workloads slower.
pub const ALARM: f64 = 0.01;
/// The chance that a workload passes which is slower by just the allowance.
pub const MISS: f64 = 0.025;
/// At these shares of all rounds a gate looks.
const SHARES: [f64; 3] = [0.5, 0.75, 1.0];
/// A slowdown that would have been seen is found with a chance of 95 %: so many standard errors beyond the least.
const POWER: f64 = 1.645;
/// Half of a 95 % interval in standard errors.
const HALF: f64 = 1.96;

/// How a gate ends for a workload.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// a slowdown above the allowance is left out
    Passed,
    /// it is slower by more than the allowance
    Slower,
    /// the samples leave neither out
    Undecided,
}
impl Decision {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Decision::Passed => "passed",
            Decision::Slower => "SLOWER",
            Decision::Undecided => "could not tell",
        }
    }
}
/// What a gate says of one workload.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Gated {
    /// the share that B may take longer
    pub allowance: f64,
    /// how it ends
    pub decision: Decision,
    /// the ratio is above this, as sure as an alarm must be; nothing where the rounds are too few for that
    pub at_least: Option<f64>,
    /// and below this, as sure as a pass must be
    pub at_most: Option<f64>,
    /// the smallest slowdown, as a share, that rounds of this spread call slower with a chance of 95 %, if the gate takes all
    /// that it may; nothing where they are too few to have a spread
    pub smallest_seen: Option<f64>,
}
impl Gated {
    /// From bounds of the change, and from how far above the allowance it is found, all in logarithms.
    fn by_bounds(allowance: f64, [low, high]: [f64; 2], found: f64) -> Gated {
        let limit = allowance.ln_1p();
        let decision = match (low > limit, high <= limit) {
            (true, _) => Decision::Slower,
            (_, true) => Decision::Passed,
            _ => Decision::Undecided,
        };
        let bound = |x: f64| Some(x.exp()).filter(|x| x.is_finite() && *x > 0.0);
        let smallest_seen = Some((limit + found).exp_m1()).filter(|x| x.is_finite());
        Gated { allowance, decision, at_least: bound(low), at_most: bound(high), smallest_seen }
    }
    /// From a ratio and its 95 % interval alone, as two records have them.
    pub fn of_interval(allowance: f64, ratio: f64, [low, high]: [f64; 2]) -> Gated {
        let [middle, low, high] = [ratio, low, high].map(f64::ln);
        Gated::by_bounds(allowance, [low, high], (middle - low) + POWER * (high - low) / 2.0 / HALF)
    }
}

/// When a gate looks, and how sure each look must be.
#[derive(Clone, PartialEq, Debug)]
pub struct Looks {
    /// after so many rounds
    at: Vec<usize>,
    alarm: f64,
    miss: f64,
}
impl Looks {
    /// A gate of so many workloads that is given so many rounds; more, if ranks of so few could call nothing slower.
    pub fn new(workloads: usize, rounds: usize) -> Looks {
        let looks = SHARES.len() as f64;
        let alarm = ALARM / (workloads.max(1) as f64 * looks);
        let rounds = rounds.max((-alarm.log2()).ceil() as usize);
        Looks { at: SHARES.map(|share| (share * rounds as f64).ceil() as usize).to_vec(), alarm, miss: MISS / looks }
    }
    /// The most rounds.
    pub fn rounds(&self) -> usize {
        self.at.last().copied().unwrap_or(1)
    }
    /// Does the gate look after so many rounds?
    pub fn is_look(&self, rounds: usize) -> bool {
        self.at.contains(&rounds)
    }
    /// What the changes of all rounds so far say, in logarithms.
    pub fn decide(&self, processes: &[f64], allowance: f64) -> Gated {
        let walsh = Walsh::of(processes);
        let (low, _) = walsh.interval(self.alarm);
        let (_, high) = walsh.interval(self.miss);
        let (from, to) = walsh.interval(0.025);
        // A gate that passes early would have gone on beside a slowdown: the standard error of all rounds is what counts.
        let all = self.rounds() as f64;
        let error = (to - from) / 2.0 / HALF * (processes.len() as f64 / all).sqrt();
        let found = (student_quantile(2.0 * self.alarm, all - 1.0) + POWER) * error;
        Gated::by_bounds(allowance, [low, high], found)
    }
}

#[cfg(test)]
#[path = "gate/tests.rs"]
mod tests;
