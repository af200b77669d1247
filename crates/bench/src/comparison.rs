//! A comparison of two sides: which, in which environments, and the verdicts by case.
use crate::{
    machine::{Facts, differences},
    stats::geometric_mean,
    verdict::{Compared, Verdict},
};
use serde::{Deserialize, Serialize};

/// One of the two sides.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Side {
    /// its name
    pub name: String,
    /// its environment
    pub facts: Facts,
}
/// Two sides and the verdicts.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Comparison {
    /// what is compared with
    pub a: Side,
    /// what is judged
    pub b: Side,
    /// what differs between the environments
    pub differences: Vec<(String, String, String)>,
    /// samples were taken in turn, in one run
    pub interleaved: bool,
    /// the smallest change worth telling
    pub threshold: f64,
    /// the command that does it again
    pub command: String,
    /// the cases
    pub cases: Vec<Compared>,
}
impl Comparison {
    /// Two sides without cases yet.
    pub fn between(a: Side, b: Side, interleaved: bool, threshold: f64, command: String) -> Comparison {
        Comparison { differences: differences(&a.facts, &b.facts), a, b, interleaved, threshold, command, cases: Vec::new() }
    }
    /// Differences but for those whose names were chosen, and for what follows from them.
    pub fn unasked(&self, chosen: &[String]) -> Vec<&(String, String, String)> {
        self.differences.iter().filter(|(name, ..)| !chosen.contains(name)).collect()
    }
    /// How many cases have a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|c| c.verdict == Some(verdict)).count()
    }
    /// Cases that could not be compared.
    pub fn failures(&self) -> impl Iterator<Item = &Compared> {
        self.cases.iter().filter(|c| c.error.is_some())
    }
    /// The geometric mean of all ratios.
    pub fn mean_ratio(&self) -> Option<f64> {
        let ratios: Vec<f64> = self.cases.iter().filter_map(|c| c.ratio).collect();
        (!ratios.is_empty()).then(|| geometric_mean(&ratios))
    }
    /// In one sentence.
    pub fn headline(&self) -> String {
        let of = |v: Verdict| format!("{} {}", self.count(v), v.word());
        let failed = self.failures().count();
        let failed = if failed > 0 { format!(", {failed} not compared") } else { String::new() };
        let mean = self.mean_ratio().map(|r| format!("; time of B over A: {r:.3} in the geometric mean")).unwrap_or_default();
        format!("{}, {}, {}, {}{failed}{mean}", of(Verdict::Slower), of(Verdict::Faster), of(Verdict::Same), of(Verdict::Noisy))
    }
    /// What is slower first, the worst at the top; then faster, noisy, same, and what failed.
    pub fn sorted(&self) -> Vec<&Compared> {
        let rank = |c: &Compared| match c.verdict {
            Some(Verdict::Slower) => 0,
            Some(Verdict::Faster) => 1,
            None => 2,
            Some(Verdict::Noisy) => 3,
            Some(Verdict::Same) => 4,
        };
        let size = |c: &Compared| c.ratio.map_or(0.0, |r| -r.ln().abs());
        let mut cases: Vec<&Compared> = self.cases.iter().collect();
        cases.sort_by(|x, y| rank(x).cmp(&rank(y)).then(size(x).total_cmp(&size(y))));
        cases
    }
}
