//! Schedules that rise and fall, and move the momentum against the rate (Smith 2017; Smith and Topin 2018).
use super::Schedule;
use std::f64::consts::PI;

/// How the height of a cycle changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CyclicMode {
    /// it does not
    Triangular,
    /// it is halved each cycle
    Triangular2,
    /// times gamma each step
    ExpRange,
}
/// Between `base_lr` and `max_lr` and back, in straight lines. The base rate of the optimizer plays no part.
#[derive(Clone, Debug)]
pub struct CyclicLr {
    /// the lowest rate
    pub base_lr: f64,
    /// the highest rate
    pub max_lr: f64,
    /// steps upward
    pub step_size_up: u64,
    /// steps downward (`None`: as many)
    pub step_size_down: Option<u64>,
    /// how the height changes
    pub mode: CyclicMode,
    /// the factor of [`CyclicMode::ExpRange`]
    pub gamma: f64,
    /// lowest and highest momentum (`None`: it stays)
    pub momentum: Option<(f64, f64)>,
}
impl CyclicLr {
    /// PyTorch's defaults: triangles of 2,000 steps up and down, momentum from 0.9 to 0.8 and back.
    pub fn new(base_lr: f64, max_lr: f64) -> CyclicLr {
        CyclicLr { base_lr, max_lr, step_size_up: 2000, step_size_down: None, mode: CyclicMode::Triangular, gamma: 1.0, momentum: Some((0.8, 0.9)) }
    }
    /// Where between bottom (0) and the cycle's top (1) step `t` is.
    fn height(&self, t: u64) -> f64 {
        let up = self.step_size_up.max(1) as f64;
        let total = up + self.step_size_down.map_or(up, |d| d as f64);
        let ratio = up / total;
        let cycle = (1.0 + t as f64 / total).floor();
        let x = 1.0 + t as f64 / total - cycle;
        let height = if x <= ratio { x / ratio } else { (x - 1.0) / (ratio - 1.0) };
        height
            * match self.mode {
                CyclicMode::Triangular => 1.0,
                CyclicMode::Triangular2 => 0.5f64.powf(cycle - 1.0),
                CyclicMode::ExpRange => self.gamma.powf(t as f64),
            }
    }
}
impl Schedule for CyclicLr {
    fn lr(&self, t: u64, _base: f64, _present: f64) -> f64 {
        self.base_lr + (self.max_lr - self.base_lr) * self.height(t)
    }
    fn momentum(&self, t: u64) -> Option<f64> {
        self.momentum.map(|(low, high)| high - (high - low) * self.height(t))
    }
}

/// The line between two rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anneal {
    /// half a cosine
    Cos,
    /// a straight line
    Linear,
}
/// Up to `max_lr` and down to almost nothing, once. The base rate of the optimizer plays no part. After its last step the rate stays.
#[derive(Clone, Debug)]
pub struct OneCycleLr {
    /// the highest rate
    pub max_lr: f64,
    /// steps of the whole cycle
    pub total_steps: u64,
    /// the part of it that rises
    pub pct_start: f64,
    /// the lines between
    pub anneal: Anneal,
    /// lowest and highest momentum (`None`: it stays)
    pub momentum: Option<(f64, f64)>,
    /// the first rate is `max_lr / div_factor`
    pub div_factor: f64,
    /// the last rate is the first divided by this
    pub final_div_factor: f64,
    /// fall as fast as it rose, then fade out
    pub three_phase: bool,
}
impl OneCycleLr {
    /// PyTorch's defaults.
    pub fn new(max_lr: f64, total_steps: u64) -> OneCycleLr {
        OneCycleLr {
            max_lr,
            total_steps,
            pct_start: 0.3,
            anneal: Anneal::Cos,
            momentum: Some((0.85, 0.95)),
            div_factor: 25.0,
            final_div_factor: 1e4,
            three_phase: false,
        }
    }
    /// The value at step `t` of a quantity that starts low, peaks, and ends.
    fn value(&self, t: u64, low: f64, peak: f64, end: f64) -> f64 {
        let total = self.total_steps as f64;
        let top = self.pct_start * total - 1.0;
        let phases = if self.three_phase {
            vec![(top, low, peak), (2.0 * top, peak, low), (total - 1.0, low, end)]
        } else {
            vec![(top, low, peak), (total - 1.0, peak, end)]
        };
        let (t, mut start) = ((t as f64).min(total - 1.0), 0.0);
        for (k, (stop, from, to)) in phases.iter().enumerate() {
            if t <= *stop || k + 1 == phases.len() {
                let part = (t - start) / (stop - start);
                return match self.anneal {
                    Anneal::Cos => to + (from - to) / 2.0 * (1.0 + (PI * part).cos()),
                    Anneal::Linear => from + (to - from) * part,
                };
            }
            start = *stop;
        }
        end
    }
}
impl Schedule for OneCycleLr {
    fn lr(&self, t: u64, _base: f64, _present: f64) -> f64 {
        let first = self.max_lr / self.div_factor;
        self.value(t, first, self.max_lr, first / self.final_div_factor)
    }
    fn momentum(&self, t: u64) -> Option<f64> {
        self.momentum.map(|(low, high)| self.value(t, high, low, high))
    }
}
