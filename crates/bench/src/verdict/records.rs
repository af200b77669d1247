//! Two records, which share no moment.
//!
//! A record has the spread between its processes: its samples come in rounds, each in a new process. It has not what the
//! machine did at its moment and not at the other's: another clock, another program on the same caches, a sleepier host. With
//! one moment on each side that difference and the one of the programs are the same number, and no count of samples tells
//! them apart. So the interval of one moment against one is the one of their processes (Welch, *Biometrika* 34, 1947), made
//! wider by what two moments may differ by ([`MOMENTS`]), and the p-value is that of a change beyond it. It finds a program
//! that takes twice its time, and calls two moments of load what they are: not told apart.
//!
//! Files that hold records of three moments or more on each side, of one program and one machine each, have a spread
//! between moments: there a moment counts once, by the median of its rounds, and nothing is assumed.
use super::{COVERAGE, Compared, Effect, mean_and_error, with_verdicts};
use crate::{
    record::Case,
    stats::{median, student_quantile, student_tails},
};

/// By so much the times of one program may differ between two moments of one machine: its clock, and what shares its caches
/// and its core's other thread. Waiting for a core is not in it, which is measured.
pub const MOMENTS: f64 = 1.75;
/// So many moments on each side have a spread.
pub const ENOUGH_MOMENTS: usize = 3;
/// The spread of processes that nobody has seen, of a record whose samples are of one.
const UNSEEN: f64 = 0.05;

/// One workload at the moments of some records.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Moments {
    /// for each moment the logarithms of its rounds' medians
    rounds: Vec<Vec<f64>>,
    /// of all of them
    samples: usize,
}
impl Moments {
    /// The moments of cases of one program; of a program of one thread, what it spent on a core.
    pub fn of<'a>(cases: impl IntoIterator<Item = &'a Case>, one_thread: bool) -> Moments {
        let of_case = |case: &Case| {
            let on_core = one_thread && case.waited.iter().all(|w| *w < 1.0);
            let time = |k: usize| case.samples_ns[k] * if on_core { 1.0 - case.waited[k] } else { 1.0 };
            let round = |k: usize| case.rounds.get(k).copied().unwrap_or(0);
            let all: Vec<usize> = (0..case.samples_ns.len()).collect();
            all.chunk_by(|j, k| round(*j) == round(*k)).map(|of| median(&of.iter().map(|k| time(*k)).collect::<Vec<_>>()).ln()).collect::<Vec<f64>>()
        };
        let mut moments = Moments::default();
        for case in cases.into_iter().filter(|c| !c.samples_ns.is_empty()) {
            moments.samples += case.samples_ns.len();
            moments.rounds.push(of_case(case));
        }
        moments
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.rounds.len()
    }
    /// One number for each: the median of its rounds.
    fn middles(&self) -> Vec<f64> {
        self.rounds.iter().map(|rounds| median(rounds)).collect()
    }
    /// The mean, its standard error and its degrees of freedom.
    fn estimate(&self, by_moment: bool) -> (f64, f64, f64) {
        let numbers = if by_moment { self.middles() } else { self.rounds.last().cloned().unwrap_or_default() };
        if numbers.len() < 2 {
            return (median(&numbers), UNSEEN, 1.0);
        }
        let (mean, error) = mean_and_error(&numbers);
        (mean, error, numbers.len() as f64 - 1.0)
    }
}
fn effect(a: &Moments, b: &Moments) -> Effect {
    let by_moment = a.count().min(b.count()) >= ENOUGH_MOMENTS;
    let apart = if by_moment { 0.0 } else { MOMENTS.ln() };
    let ((x, of_x, n), (y, of_y, m)) = (a.estimate(by_moment), b.estimate(by_moment));
    let (variance, middle) = (of_x.powi(2) + of_y.powi(2), y - x);
    // Welch and Satterthwaite; where no number differs from another there is no spread to count.
    let freedom = if variance > 0.0 { variance.powi(2) / (of_x.powi(4) / n + of_y.powi(4) / m) } else { n.min(m) };
    let half = student_quantile(1.0 - COVERAGE, freedom) * variance.sqrt() + apart;
    let beyond = middle.abs() - apart;
    let p = if beyond <= 0.0 { 1.0 } else { student_tails(beyond / variance.sqrt(), freedom) };
    // Of the last moment where moments are not what counts.
    let rounds = |m: &Moments| if by_moment { m.count() } else { m.rounds.last().map_or(0, Vec::len) };
    Effect { middle, low: middle - half, high: middle + half, p, processes: rounds(a).min(rounds(b)) }
}

/// Compares workloads of records; each case is the moments of both sides, or why there are none. The threshold is the
/// smallest change worth telling.
pub fn judge_records(cases: &[(String, Result<[Moments; 2], String>)], threshold: f64) -> Vec<Compared> {
    let compared = cases.iter().map(|(workload, moments)| match moments {
        Err(error) => Compared::without(workload, error.clone()),
        Ok([a, b]) if a.count() == 0 || b.count() == 0 => Compared::without(workload, "no samples".into()),
        Ok([a, b]) => {
            let all = a.samples.min(b.samples);
            let of = |m: &Moments| median(&m.middles()).exp();
            Compared { samples: all, quiet: all, ..Compared::without(workload, String::new()) }.showing(of(a), of(b), effect(a, b))
        }
    });
    with_verdicts(compared.collect(), threshold)
}

#[cfg(test)]
mod tests {
    use super::{super::Verdict, *};
    use crate::inputs::RandomWords;

    /// A case of six processes at one moment, in which the machine takes `moment` times as long.
    fn case(seed: u64, ns: f64, moment: f64) -> Case {
        let mut words = RandomWords::new(seed);
        let rounds: Vec<u32> = (0..60).map(|k| k / 10).collect();
        let process: Vec<f64> = (0..6).map(|_| 1.0 + 0.01 * words.uniform() as f64).collect();
        let samples = rounds.iter().map(|r| ns * moment * process[*r as usize] * (1.0 + 0.01 * words.uniform() as f64)).collect();
        Case { rounds, ..Case::new("w", "x").sampled(samples, vec![0.0; 60], 1) }
    }
    fn verdict(a: &[Case], b: &[Case]) -> Compared {
        judge_records(&[("w".into(), Ok([Moments::of(a, true), Moments::of(b, true)]))], 0.01).swap_remove(0)
    }
    #[test]
    fn two_moments_of_load_that_are_called_two_programs() {
        for (moment, found) in [(1.0, Verdict::Noisy), (0.656, Verdict::Noisy), (1.5, Verdict::Noisy), (2.1, Verdict::Slower), (0.4, Verdict::Faster)] {
            let compared = verdict(&[case(1, 1e3, 1.0)], &[case(2, 1e3, moment)]);
            assert_eq!(compared.verdict, Some(found), "{compared:?}");
        }
    }
    #[test]
    fn a_change_that_many_moments_show_and_is_not_told() {
        // Moments that differ by a tenth, and programs by 0, 30 and -20 %.
        let moments = |seed: u64, factor: f64| {
            let mut words = RandomWords::new(seed);
            (0..6).map(|k| case(seed * 100 + k, 1e3 * factor, 1.0 + 0.1 * words.uniform() as f64)).collect::<Vec<_>>()
        };
        for (factor, found) in [(1.3, Verdict::Slower), (0.8, Verdict::Faster)] {
            assert_eq!(verdict(&moments(1, 1.0), &moments(2, factor)).verdict, Some(found));
        }
        let alarms = (0..200).filter(|k| matches!(verdict(&moments(3 + k, 1.0), &moments(900 + k, 1.0)).verdict, Some(Verdict::Slower | Verdict::Faster)));
        // One comparison is one case: 5 % of them, and what 200 of them spread by.
        assert!(alarms.count() <= 19);
    }
    #[test]
    fn a_record_of_one_process_that_is_surer_than_one_of_six() {
        let one = Case { rounds: Vec::new(), ..case(5, 2e3, 1.0) };
        let width = |c: &Compared| c.interval.map(|[low, high]| high / low).unwrap();
        let (of_one, of_six) = (verdict(&[case(4, 1e3, 1.0)], &[one]), verdict(&[case(4, 1e3, 1.0)], &[case(5, 2e3, 1.0)]));
        assert!(width(&of_one) > width(&of_six), "{of_one:?} {of_six:?}");
        assert_eq!((of_one.verdict, of_one.processes), (Some(Verdict::Noisy), 1));
        assert_eq!(judge_records(&[("gone".into(), Ok(Default::default()))], 0.01)[0].error.as_deref(), Some("no samples"));
    }
}
