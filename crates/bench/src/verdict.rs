//! What differs, and what only looks so.
//!
//! Interleaved samples come as pairs ([`Pairs`]): the two of a pair met the same machine, so the ratio within a pair is
//! what is looked at, and the median of these ratios is the answer. Samples of two records ([`judge_samples`]) share no
//! moment; their ratio is that of their medians.
//!
//! A verdict of *faster* or *slower* takes all of this:
//! - the tests say so after Holm's correction over all cases: for pairs the signed-rank test and, over the medians of
//!   rounds, Student's, because a program that happened to get its memory at a bad place is slower in all pairs of that
//!   round; for records Mann-Whitney's;
//! - the 95 % interval of the ratio leaves out 1; for pairs it is the wider of two, over pairs and over rounds;
//! - the change is at least the threshold.
//!
//! Otherwise it is *same* where the interval is narrow enough to say so, and *noisy* where it is not.
use crate::{
    interleave::{DISTURBED, Taken, Turn},
    record::{Case, SEED},
    stats::{bootstrap_ratio, holm, mann_whitney, median, signed_rank, student},
};
use serde::{Deserialize, Serialize};

/// The chance of one false alarm among all cases.
const LEVEL: f64 = 0.05;
/// An interval that reaches further from the ratio cannot say *same*.
const NARROW: f64 = 0.025;
/// Fewer pairs say nothing.
const FEWEST_PAIRS: usize = 8;
/// Student's t at 97.5 % for 1, 2, ... degrees of freedom.
const STUDENT: [f64; 12] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179];

/// What the samples show of B against A.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// B takes less time
    Faster,
    /// B takes more
    Slower,
    /// no difference that counts
    Same,
    /// the samples cannot tell
    Noisy,
}
impl Verdict {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "same",
            Verdict::Noisy => "noisy",
        }
    }
}
/// One case of a comparison.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Compared {
    /// the workload
    pub workload: String,
    /// the median of A
    pub a_ns: Option<f64>,
    /// the median of B
    pub b_ns: Option<f64>,
    /// time of B over time of A
    pub ratio: Option<f64>,
    /// its 95 % interval
    pub interval: Option<[f64; 2]>,
    /// the ratio of the medians, which is the ratio where samples are not paired
    pub ratio_of_medians: Option<f64>,
    /// the chance of such samples where nothing differs
    pub p: Option<f64>,
    /// after Holm's correction over all cases
    pub adjusted_p: Option<f64>,
    /// of the Mann-Whitney test, which does not know of pairs
    pub mann_whitney: Option<f64>,
    /// pairs, or samples of the smaller side
    pub samples: usize,
    /// pairs that no other program disturbed
    pub quiet: usize,
    /// the smallest change that these samples would have shown
    pub smallest_visible: Option<f64>,
    /// what they show
    pub verdict: Option<Verdict>,
    /// why there is no verdict
    pub error: Option<String>,
}
impl Compared {
    fn without(workload: &str, error: String) -> Compared {
        Compared {
            workload: workload.into(),
            a_ns: None,
            b_ns: None,
            ratio: None,
            interval: None,
            ratio_of_medians: None,
            p: None,
            adjusted_p: None,
            mann_whitney: None,
            samples: 0,
            quiet: 0,
            smallest_visible: None,
            verdict: None,
            error: Some(error),
        }
    }
    /// Is B slower, and by more than so much even at the near end of the interval?
    pub fn is_regression(&self, threshold: f64) -> bool {
        self.verdict == Some(Verdict::Slower) && self.interval.is_some_and(|[low, _]| low > 1.0 + threshold)
    }
}

/// Pairs of one workload.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Pairs {
    a: Vec<f64>,
    b: Vec<f64>,
    round: Vec<usize>,
    /// how many there were before the disturbed ones were left out
    all: usize,
    /// how many were not disturbed
    quiet: usize,
}
impl Pairs {
    /// Pairs that were taken in turn by whoever calls this; what has no partner is left out.
    pub fn new(mut a: Vec<f64>, mut b: Vec<f64>) -> Pairs {
        let n = a.len().min(b.len());
        a.truncate(n);
        b.truncate(n);
        Pairs { a, b, round: vec![0; n], all: n, quiet: n }
    }
    /// Pairs of two programs of a run. Those in which a program waited for a core are left out, if at least a third and
    /// no fewer than 20 remain. On a machine that is never quiet, the time of a program of one thread is what it spent on
    /// a core: a thread that is not let run is no slower program.
    pub fn of(taken: &Taken, a: usize, b: usize, one_thread: bool) -> Pairs {
        let whole: Vec<_> = taken.turns.iter().filter(|t| t.ns[a] > 0.0 && t.ns[b] > 0.0).collect();
        let quiet: Vec<_> = whole.iter().filter(|t| t.waited[a].max(t.waited[b]) < DISTURBED).collect();
        let (all, quiet_pairs) = (whole.len(), quiet.len());
        let enough = quiet.len() * 3 >= all && quiet.len() >= 20;
        let on_core = one_thread && !enough && whole.iter().all(|t| t.waited[a].max(t.waited[b]) < 1.0);
        let used: Vec<_> = if enough { quiet } else { whole.iter().collect() };
        let pick = |k: usize| used.iter().map(|t| if on_core { t.ns[k] * (1.0 - t.waited[k]) } else { t.ns[k] }).collect();
        Pairs { a: pick(a), b: pick(b), round: used.iter().map(|t| t.round).collect(), all, quiet: quiet_pairs }
    }
    /// Pairs of two cases of one record, whose samples were taken in turn.
    ///
    /// # Errors
    /// One of them has no samples, or not as many as the other.
    pub fn of_cases(a: &Case, b: &Case, one_thread: bool) -> Result<Pairs, String> {
        let n = a.samples_ns.len();
        let failed = [a, b].into_iter().find_map(|c| Some(format!("{}: {}", c.implementation, c.error.as_ref()?)));
        match failed {
            Some(error) => return Err(error),
            None if n == 0 || b.samples_ns.len() != n => return Err(format!("{} and {} were not measured in turn", a.implementation, b.implementation)),
            None => {}
        }
        let turn = |k: usize| Turn {
            round: a.rounds.get(k).map_or(0, |r| *r as usize),
            ns: vec![a.samples_ns[k], b.samples_ns[k]],
            waited: [a, b].map(|c| c.waited.get(k).copied().unwrap_or(0.0)).to_vec(),
        };
        let taken = Taken { workload: a.workload.clone(), sides: Vec::new(), turns: (0..n).map(turn).collect() };
        Ok(Pairs::of(&taken, 0, 1, one_thread))
    }
    /// Logarithms of the ratios.
    fn changes(&self) -> Vec<f64> {
        self.a.iter().zip(&self.b).map(|(a, b)| (b / a).ln()).collect()
    }
    /// The median change of each round, in logarithms; nothing if there are too few rounds to speak of a spread.
    fn of_rounds(&self, changes: &[f64]) -> Option<Vec<f64>> {
        let rounds = self.round.iter().max().map_or(0, |r| r + 1);
        let of_round = |r| median(&changes.iter().zip(&self.round).filter(|(_, k)| **k == r).map(|(c, _)| *c).collect::<Vec<_>>());
        let middles: Vec<f64> = (0..rounds).map(of_round).filter(|m| m.is_finite()).collect();
        (middles.len() >= 3).then_some(middles)
    }
    /// The chance of such pairs where nothing differs: the larger of both tests.
    fn p(&self, changes: &[f64]) -> f64 {
        signed_rank(changes).max(self.of_rounds(changes).map_or(0.0, |middles| student(&middles)))
    }
    /// The 95 % interval of the median change: the wider of both kinds, in logarithms.
    fn interval(&self, changes: &[f64]) -> (f64, f64) {
        let ones = vec![1.0; changes.len()];
        let factors: Vec<f64> = changes.iter().map(|c| c.exp()).collect();
        let (low, high) = bootstrap_ratio(&ones, &factors, true, SEED);
        let (low, high) = (low.ln(), high.ln());
        let Some(middles) = self.of_rounds(changes) else { return (low, high) };
        let n = middles.len() as f64;
        let mean = middles.iter().sum::<f64>() / n;
        let deviation = (middles.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        let half = STUDENT[(middles.len() - 2).min(STUDENT.len() - 1)] * deviation / n.sqrt();
        let middle = median(changes);
        (low.min(middle - half), high.max(middle + half))
    }
}

/// Compares pairs; each case is pairs, or why there are none. The threshold is the smallest change worth telling.
pub fn judge(cases: &[(String, Result<Pairs, String>)], threshold: f64) -> Vec<Compared> {
    let compared = cases.iter().map(|(workload, pairs)| match pairs {
        Err(error) => Compared::without(workload, error.clone()),
        Ok(pairs) if pairs.a.is_empty() => Compared::without(workload, "no samples".into()),
        Ok(pairs) => {
            let changes = pairs.changes();
            let (low, high) = pairs.interval(&changes);
            let (a, b) = (median(&pairs.a), median(&pairs.b));
            Compared {
                a_ns: Some(a),
                b_ns: Some(b),
                ratio: Some(median(&changes).exp()),
                interval: Some([low.exp(), high.exp()]),
                ratio_of_medians: Some(b / a),
                p: Some(pairs.p(&changes)),
                mann_whitney: Some(mann_whitney(&pairs.a, &pairs.b)),
                samples: pairs.all,
                quiet: pairs.quiet,
                error: None,
                ..Compared::without(workload, String::new())
            }
        }
    });
    with_verdicts(compared.collect(), threshold)
}
/// Compares samples that share no moment.
pub fn judge_samples(cases: &[(String, Result<(Vec<f64>, Vec<f64>), String>)], threshold: f64) -> Vec<Compared> {
    let compared = cases.iter().map(|(workload, samples)| match samples {
        Err(error) => Compared::without(workload, error.clone()),
        Ok((a, b)) if a.is_empty() || b.is_empty() => Compared::without(workload, "no samples".into()),
        Ok((a, b)) => {
            let ((low, high), p) = (bootstrap_ratio(a, b, false, SEED), mann_whitney(a, b));
            let (x, y) = (median(a), median(b));
            Compared {
                a_ns: Some(x),
                b_ns: Some(y),
                ratio: Some(y / x),
                interval: Some([low, high]),
                ratio_of_medians: Some(y / x),
                p: Some(p),
                mann_whitney: Some(p),
                samples: a.len().min(b.len()),
                quiet: a.len().min(b.len()),
                error: None,
                ..Compared::without(workload, String::new())
            }
        }
    });
    with_verdicts(compared.collect(), threshold)
}
fn with_verdicts(mut cases: Vec<Compared>, threshold: f64) -> Vec<Compared> {
    let judged: Vec<usize> = (0..cases.len()).filter(|&k| cases[k].p.is_some()).collect();
    let adjusted = holm(&judged.iter().filter_map(|&k| cases[k].p).collect::<Vec<_>>());
    for (&k, p) in judged.iter().zip(adjusted) {
        let case = &mut cases[k];
        let (Some(ratio), Some([low, high])) = (case.ratio, case.interval) else { continue };
        let half = (high / ratio - 1.0).max(1.0 - low / ratio);
        let told = p < LEVEL && case.samples >= FEWEST_PAIRS && (low > 1.0 || high < 1.0);
        let counts = (ratio - 1.0).abs() >= threshold;
        case.adjusted_p = Some(p);
        case.smallest_visible = Some(half.max(threshold));
        case.verdict = Some(match (told, counts) {
            (true, true) if ratio > 1.0 => Verdict::Slower,
            (true, true) => Verdict::Faster,
            (true, false) => Verdict::Same,
            (false, _) if half <= NARROW.max(threshold) && case.samples >= FEWEST_PAIRS => Verdict::Same,
            (false, _) => Verdict::Noisy,
        });
    }
    cases
}

#[cfg(test)]
#[path = "verdict/tests.rs"]
mod tests;
