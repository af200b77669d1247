//! What differs, and what only looks so.
//!
//! # Where the spread comes from
//!
//! Two programs take their samples in turn, in *rounds* ([`interleave`](crate::interleave)): for each round both are started
//! anew, prepare the workload anew, and run on the same core. Of the time of sample `i` in round `k`,
//!
//! ```text
//! ln t(side, k, i) = ln t(side) + moment(k, i) + process(side, k) + noise(side, k, i)
//! ```
//!
//! `moment` is what the machine did in those milliseconds: it met both, and goes away in the ratio within a turn. `noise`
//! goes down with more turns. `process` does not: where a process happened to get its memory, its stack and its pages makes
//! it slower in all turns of its round, by percents (Mytkowicz, Diwan, Hauswirth and Sweeney, *Producing Wrong Data Without
//! Doing Anything Obviously Wrong!*, ASPLOS 2009; Kalibera and Jones, *Rigorous Benchmarking in Reasonable Time*, ISMM
//! 2013). Five hundred turns of two processes are two observations of `process`, not five hundred. So the unit is the pair
//! of processes: a round counts once, by the median of its ratios ([`Pairs::of_processes`]), and the spread between rounds
//! is the spread of the answer.
//!
//! # Why ranks
//!
//! Which side is asked first in a turn, and which is started first in a round, is drawn by lot; both run on the same core
//! with the same neighbours. So if the programs are equal, exchanging the sides changes nothing, and the logarithm of a
//! round's ratio is as likely to be `+x` as `-x`, whatever the distribution of `process` is: heavy tails, two modes, rounds
//! beside a busy neighbour that are much less sure than others. That symmetry is all that the signed-rank test and its
//! interval ask for ([`walsh`](crate::stats::walsh)), with exact chances for any number of rounds. Below
//! [`ENOUGH_PROCESSES`] rounds there is no such chance of 5 %: there it is the wider of Student's interval of the rounds and
//! the bootstrap of the turns; below three rounds there is no verdict.
//!
//! # A verdict
//!
//! of *faster* or *slower* takes all of this: the test says so after Holm's correction over all cases; the 95 % interval of
//! the ratio leaves out 1; the change is at least the threshold. Otherwise it is *same* where the interval is narrow and reaches
//! to what would not count, and *noisy* where it is or does not. What a gate does beyond that stands in [`gate`](crate::gate),
//! and what two records can tell, which share no moment, in [`records`].
pub mod records;

use crate::{
    gate::Gated,
    interleave::{DISTURBED, Taken, Turn},
    record::{Case, SEED},
    stats::{bootstrap_ratio, holm, mann_whitney, median, signed_rank, student, student_quantile, walsh::Walsh},
};
use serde::{Deserialize, Serialize};

/// The chance of one false alarm among all cases.
const LEVEL: f64 = 0.05;
/// An interval that reaches further from the ratio cannot say *same*.
const NARROW: f64 = 0.025;
/// Fewer pairs say nothing.
const FEWEST_PAIRS: usize = 8;
/// With so many pairs of processes ranks have a chance below 5 %, on both sides.
pub const ENOUGH_PROCESSES: usize = 6;
/// Fewer pairs of processes have no spread to speak of.
const FEWEST_PROCESSES: usize = 3;
/// Quiet turns of a round that are enough to leave the others out.
const ENOUGH_QUIET: usize = 5;
/// Parts of a run of pairs in one process, by which what changes slowly is seen.
const PARTS: usize = 10;

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
    /// pairs of processes, which are what counts; of records, the rounds or moments of the smaller side
    pub processes: usize,
    /// the smallest change that these samples would have shown
    pub smallest_visible: Option<f64>,
    /// what they show
    pub verdict: Option<Verdict>,
    /// how a gate ends for it, where one was asked
    pub gate: Option<Gated>,
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
            processes: 0,
            smallest_visible: None,
            verdict: None,
            gate: None,
            error: Some(error),
        }
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
    /// Pairs that were taken in turn by whoever calls this, of functions in one process; what has no partner is left out.
    /// There is no other process that could differ, so it is parts of the time that count.
    pub fn new(mut a: Vec<f64>, mut b: Vec<f64>) -> Pairs {
        let n = a.len().min(b.len());
        a.truncate(n);
        b.truncate(n);
        Pairs { a, b, round: (0..n).map(|k| k * PARTS / n).collect(), all: n, quiet: n }
    }
    /// Pairs of two programs of a run. Of each round those in which a program waited for a core are left out, if at least a
    /// third and no fewer than five remain. In a round that is never quiet, the time of a program of one thread is what it
    /// spent on a core: a thread that is not let run is no slower program.
    pub fn of(taken: &Taken, a: usize, b: usize, one_thread: bool) -> Pairs {
        let mut pairs = Pairs::default();
        let whole: Vec<&Turn> = taken.turns.iter().filter(|t| t.ns[a] > 0.0 && t.ns[b] > 0.0).collect();
        let waited = |t: &Turn| t.waited[a].max(t.waited[b]);
        for of_round in whole.chunk_by(|s, t| s.round == t.round) {
            let quiet: Vec<&Turn> = of_round.iter().copied().filter(|t| waited(t) < DISTURBED).collect();
            pairs.all += of_round.len();
            pairs.quiet += quiet.len();
            let enough = quiet.len() * 3 >= of_round.len() && quiet.len() >= ENOUGH_QUIET;
            let on_core = one_thread && !enough && of_round.iter().all(|t| waited(t) < 1.0);
            for t in if enough { quiet } else { of_round.to_vec() } {
                let time = |k: usize| if on_core { t.ns[k] * (1.0 - t.waited[k]) } else { t.ns[k] };
                pairs.a.push(time(a));
                pairs.b.push(time(b));
                pairs.round.push(t.round);
            }
        }
        pairs
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
    pub(crate) fn changes(&self) -> Vec<f64> {
        self.a.iter().zip(&self.b).map(|(a, b)| (b / a).ln()).collect()
    }
    /// The median change of each round, in logarithms: one number for each pair of processes.
    pub fn of_processes(&self) -> Vec<f64> {
        let changes = self.changes();
        let rounds = self.round.iter().max().map_or(0, |r| r + 1);
        let of_round = |r| median(&changes.iter().zip(&self.round).filter(|(_, k)| **k == r).map(|(c, _)| *c).collect::<Vec<_>>());
        (0..rounds).map(of_round).filter(|m| m.is_finite()).collect()
    }
    /// Is the ratio known to within this share?
    pub fn is_narrow(&self, precision: f64) -> bool {
        let effect = self.effect();
        effect.high - effect.low <= 2.0 * precision
    }
    fn effect(&self) -> Effect {
        let (changes, processes) = (self.changes(), self.of_processes());
        if processes.len() >= ENOUGH_PROCESSES {
            let walsh = Walsh::of(&processes);
            let (low, high) = walsh.interval((1.0 - COVERAGE) / 2.0);
            return Effect { middle: walsh.centre(), low, high, p: walsh.chance_beyond(0.0), processes: processes.len() };
        }
        let middle = median(&changes);
        let factors: Vec<f64> = changes.iter().map(|c| c.exp()).collect();
        let (low, high) = bootstrap_ratio(&vec![1.0; factors.len()], &factors, true, SEED);
        let (low, high) = (low.ln(), high.ln());
        if processes.len() < FEWEST_PROCESSES {
            return Effect { middle, low, high, p: 1.0, processes: processes.len() };
        }
        let (_, error) = mean_and_error(&processes);
        let half = student_quantile(1.0 - COVERAGE, processes.len() as f64 - 1.0) * error;
        let p = signed_rank(&changes).max(student(&processes));
        Effect { middle, low: low.min(middle - half), high: high.max(middle + half), p, processes: processes.len() }
    }
}
/// Of every interval that is shown.
const COVERAGE: f64 = 0.95;
/// A change in logarithms: its middle and interval, the chance of such numbers where nothing differs, and of how many.
struct Effect {
    middle: f64,
    low: f64,
    high: f64,
    p: f64,
    processes: usize,
}
/// The mean of some numbers and its standard error.
fn mean_and_error(numbers: &[f64]) -> (f64, f64) {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// Compares pairs; each case is pairs, or why there are none. The threshold is the smallest change worth telling.
pub fn judge(cases: &[(String, Result<Pairs, String>)], threshold: f64) -> Vec<Compared> {
    let compared = cases.iter().map(|(workload, pairs)| match pairs {
        Err(error) => Compared::without(workload, error.clone()),
        Ok(pairs) if pairs.a.is_empty() => Compared::without(workload, "no samples".into()),
        Ok(pairs) => {
            let (a, b) = (median(&pairs.a), median(&pairs.b));
            let mann_whitney = Some(mann_whitney(&pairs.a, &pairs.b));
            let samples = Compared { mann_whitney, samples: pairs.all, quiet: pairs.quiet, ..Compared::without(workload, String::new()) };
            samples.showing(a, b, pairs.effect())
        }
    });
    with_verdicts(compared.collect(), threshold)
}
impl Compared {
    /// Its verdict in a few words, and how a gate ends for it; or why there is none.
    pub fn words(&self) -> String {
        match (self.verdict, self.gate) {
            (Some(v), Some(g)) => format!("{}; {}", v.word(), g.decision.words()),
            (Some(v), None) => v.word().into(),
            (None, _) => self.error.clone().unwrap_or_default(),
        }
    }
    fn showing(self, a: f64, b: f64, e: Effect) -> Compared {
        let (a_ns, b_ns, ratio_of_medians) = (Some(a), Some(b), Some(b / a));
        let (ratio, interval) = (Some(e.middle.exp()), Some([e.low.exp(), e.high.exp()]));
        Compared { a_ns, b_ns, ratio_of_medians, ratio, interval, p: Some(e.p), processes: e.processes, error: None, ..self }
    }
}
fn with_verdicts(mut cases: Vec<Compared>, threshold: f64) -> Vec<Compared> {
    let judged: Vec<usize> = (0..cases.len()).filter(|&k| cases[k].p.is_some()).collect();
    let adjusted = holm(&judged.iter().filter_map(|&k| cases[k].p).collect::<Vec<_>>());
    for (&k, p) in judged.iter().zip(adjusted) {
        let case = &mut cases[k];
        let (Some(ratio), Some([low, high])) = (case.ratio, case.interval) else { continue };
        let half = (high / ratio - 1.0).max(1.0 - low / ratio);
        let enough = case.samples >= FEWEST_PAIRS && case.processes >= FEWEST_PROCESSES;
        let told = enough && p < LEVEL && (low > 1.0 || high < 1.0);
        let counts = (ratio - 1.0).abs() >= threshold;
        // A change that is plain to see, but not sure among so many cases with so few processes, is not none.
        let near_one = low <= 1.0 + threshold && high >= 1.0 - threshold;
        case.adjusted_p = Some(p);
        case.smallest_visible = Some(half.max(threshold));
        case.verdict = Some(match (told, counts) {
            (true, true) if ratio > 1.0 => Verdict::Slower,
            (true, true) => Verdict::Faster,
            (true, false) => Verdict::Same,
            (false, _) if enough && half <= NARROW.max(threshold) && near_one => Verdict::Same,
            (false, _) => Verdict::Noisy,
        });
    }
    cases
}

#[cfg(test)]
#[path = "verdict/tests.rs"]
mod tests;
