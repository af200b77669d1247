//! A comparison of two sides: which, in which environments, and the verdicts by case.
use crate::{
    gate::Decision,
    machine::{Facts, differences},
    stats::geometric_mean,
    verdict::{Compared, Verdict, records::MOMENTS},
};
use serde::{Deserialize, Serialize};

/// One of the two sides.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(expecting = "struct Side")]
pub struct ComparedSide {
    /// its name
    pub name: String,
    /// its environment
    pub facts: Facts,
}
/// How the samples of both sides came together, which says what a difference may come from.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// in turn, of pairs of new processes: what the machine did met both
    Turns,
    /// two records, each of one moment: what the machine did then is in the difference
    TwoMoments,
    /// records of several moments on each side, whose spread is in the interval
    ManyMoments,
}
impl Evidence {
    /// In one sentence.
    pub fn words(self) -> String {
        let percent = (MOMENTS - 1.0) * 100.0;
        match self {
            Evidence::Turns => "samples taken in turn, each round in new processes".into(),
            Evidence::TwoMoments => format!(
                "two records, of one moment each: the machine may have been {percent:.0} % slower at one of them, and what is less cannot be told; \
                 three records or more on each side have a spread, and `compare` of two programs takes turns"
            ),
            Evidence::ManyMoments => "records of several moments, whose spread is in the interval".into(),
        }
    }
}
/// Two sides and the verdicts.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Comparison {
    /// what is compared with
    pub a: ComparedSide,
    /// what is judged
    pub b: ComparedSide,
    /// what differs between the environments
    pub differences: Vec<(String, String, String)>,
    /// how the samples of both came together
    pub evidence: Evidence,
    /// the smallest change worth telling
    pub threshold: f64,
    /// the command that does it again
    pub command: String,
    /// the cases
    pub cases: Vec<Compared>,
}
impl Comparison {
    /// Two sides without cases yet.
    pub fn between(a: ComparedSide, b: ComparedSide, evidence: Evidence, threshold: f64, command: String) -> Comparison {
        Comparison { differences: differences(&a.facts, &b.facts), a, b, evidence, threshold, command, cases: Vec::new() }
    }
    /// Differences but for those whose names were chosen, and for what follows from them.
    pub fn unasked(&self, chosen: &[String]) -> Vec<&(String, String, String)> {
        self.differences.iter().filter(|(name, ..)| !chosen.contains(name)).collect()
    }
    /// How many cases have a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|c| c.verdict == Some(verdict)).count()
    }
    /// How many cases a gate ends so for.
    pub fn gated(&self, decision: Decision) -> impl Iterator<Item = &Compared> {
        self.cases.iter().filter(move |c| c.gate.is_some_and(|g| g.decision == decision))
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
            _ if c.gate.is_some_and(|g| g.decision == Decision::Slower) => 0,
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
