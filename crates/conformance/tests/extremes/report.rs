//! What was measured, by function: how many values, the median and the worst error, and what does not hold.
use std::fmt::Write;

/// The promised bounds, in units in the last place.
pub const MEDIAN: f64 = 2.0;
pub const WORST: f64 = 4.0;

/// The errors of one function in one dtype.
#[derive(Default)]
pub struct Measured {
    pub name: String,
    errors: Vec<f64>,
    worst: Option<(f64, String)>,
    /// why more than the bound is allowed where the exact value itself hangs on the inputs' last bits
    pub ill: Option<&'static str>,
    /// how many values used that allowance, and the worst error in units of what the condition permits
    pub excused: usize,
    conditioned: f64,
    /// what the worst error and the median may be
    pub bound: f64,
    pub median: f64,
}
impl Measured {
    pub fn new(name: impl Into<String>) -> Measured {
        Measured { name: name.into(), bound: WORST, median: MEDIAN, ..Measured::default() }
    }
    /// Counts an error; `at` tells where.
    pub fn add(&mut self, error: f64, at: impl FnOnce() -> String) {
        self.add_conditioned(error, error, at);
    }
    /// `conditioned`: the error against what half a unit of each input makes of the result besides a unit of its own.
    pub fn add_conditioned(&mut self, error: f64, conditioned: f64, at: impl FnOnce() -> String) {
        let error = if error.is_nan() { f64::INFINITY } else { error };
        let decisive = if self.ill.is_some() { conditioned } else { error };
        if self.ill.is_some() && error > WORST && conditioned <= WORST {
            self.excused += 1;
        }
        self.conditioned = self.conditioned.max(conditioned);
        if self.worst.as_ref().is_none_or(|(w, _)| decisive > *w) {
            self.worst = Some((decisive, at()));
        }
        self.errors.push(error);
    }
    pub fn count(&self) -> usize {
        self.errors.len()
    }
    pub fn middle(&self) -> f64 {
        let mut all = self.errors.clone();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(0.0)
    }
    pub fn plain_worst(&self) -> f64 {
        self.errors.iter().fold(0.0, |a, b| a.max(*b))
    }
    pub fn holds(&self) -> bool {
        self.middle() <= self.median && self.worst.as_ref().is_none_or(|(w, _)| *w <= self.bound)
    }
    pub fn line(&self) -> String {
        let over = self.errors.iter().filter(|e| **e > WORST).count();
        let infinite = self.errors.iter().filter(|e| e.is_infinite()).count();
        let mut line = format!(
            "{:34} {:6} median {:8.3} worst {:10.3} over {over:4} lost {infinite:4}",
            self.name,
            self.count(),
            self.middle(),
            self.plain_worst().min(1e9)
        );
        if let Some(why) = self.ill {
            let _ = write!(line, "  conditioned {:8.3} excused {} ({why})", self.conditioned, self.excused);
        }
        if !self.holds() {
            let _ = write!(line, "\n    FAILS: {:?}", self.worst);
        }
        line
    }
}
/// Prints the table and tells which functions break their promise.
pub fn conclude(all: &[Measured]) -> Vec<String> {
    for m in all.iter().filter(|m| m.count() > 0) {
        println!("{}", m.line());
    }
    all.iter().filter(|m| !m.holds()).map(Measured::line).collect()
}
