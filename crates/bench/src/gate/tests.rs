//! Gates of simulated programs, whose truth is known: how often equal ones raise an alarm, how often a planted slowdown
//! passes, and how often an interval holds the truth. Seeds are fixed: a figure that changes is a change of the method.
use super::*;
use crate::{
    inputs::RandomWords,
    interleave::{SideState, Taken, Turn},
    verdict::{Pairs, judge},
};

/// How the processes of both sides differ.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// by a normal distribution
    Normal,
    /// one of five is slower by four times as much: a place in memory that is rare
    Modes,
    /// Student's distribution with two degrees of freedom: no variance
    Heavy,
}
/// A machine.
#[derive(Clone, Copy, Debug)]
struct Simulated {
    spread: Spread,
    /// of processes, in logarithms
    sigma: f64,
    /// of one sample
    noise: f64,
    /// the speed goes up and down by so much
    drift: f64,
    /// every other core has a neighbour: its samples take half as long again, some of them much longer, and processes
    /// differ three times as much
    busy: bool,
}
const QUIET: Simulated = Simulated { spread: Spread::Normal, sigma: 0.0, noise: 0.01, drift: 0.2, busy: false };
/// Every machine on which the promises are tried.
fn machines() -> Vec<Simulated> {
    let sigmas = [0.0, 0.003, 0.01, 0.03, 0.1];
    let of = |spread, busy| sigmas.map(|sigma| Simulated { spread, sigma, busy, ..QUIET });
    [of(Spread::Normal, false), of(Spread::Normal, true), of(Spread::Modes, false), of(Spread::Heavy, true)].concat()
}
fn uniform(words: &mut RandomWords) -> f64 {
    (words.word() >> 11) as f64 / (1u64 << 53) as f64
}
/// Box and Muller.
fn normal(words: &mut RandomWords) -> f64 {
    (-2.0 * (1.0 - uniform(words)).ln()).sqrt() * (std::f64::consts::TAU * uniform(words)).cos()
}
impl Simulated {
    fn process(&self, words: &mut RandomWords) -> f64 {
        self.sigma
            * match self.spread {
                Spread::Normal => normal(words),
                Spread::Modes => 4.0 * f64::from(words.below(5) == 0),
                Spread::Heavy => normal(words) / (-(1.0 - uniform(words)).ln()).sqrt(),
            }
    }
    /// One round: both programs, of which B takes `factor` times as long, in eight turns.
    fn round(&self, round: usize, factor: f64, words: &mut RandomWords) -> Vec<Turn> {
        let neighbour = self.busy && round % 2 == 1;
        let wider = if neighbour { 3.0 } else { 1.0 };
        let process = [self.process(words) * wider, self.process(words) * wider];
        let turn = |k: usize, words: &mut RandomWords| {
            let drift = 1.0 + self.drift * ((round * 8 + k) as f64 / 23.0).sin();
            let time = |side: usize, words: &mut RandomWords| {
                let hit = neighbour && words.below(4) == 0;
                let slow = if neighbour { 1.5 } else { 1.0 } * if hit { 1.0 + 2.0 * uniform(words) } else { 1.0 };
                1e6 * drift * slow * [1.0, factor][side] * (process[side] + self.noise * normal(words)).exp()
            };
            Turn { round, ns: vec![time(0, words), time(1, words)], waited: vec![0.0; 2] }
        };
        (0..8).map(|k| turn(k, words)).collect()
    }
}
/// What becomes of a workload: the numbers that are taken from its pairs.
type Unit = fn(&Pairs) -> Vec<f64>;
/// A gate of three workloads with 16 rounds: what it ends with, and after how many rounds.
fn gate(machine: Simulated, factor: f64, unit: Unit, seed: u64) -> (Decision, usize) {
    let mut words = RandomWords::new(seed);
    let looks = Looks::new(3, 16);
    let (mut worst, mut most) = (Decision::Passed, 0);
    for _ in 0..3 {
        let mut taken = Taken { workload: "w".into(), sides: vec![SideState::default(); 2], turns: Vec::new() };
        for round in 0..looks.rounds() {
            taken.turns.extend(machine.round(round, factor, &mut words));
            if !looks.is_look(round + 1) {
                continue;
            }
            let decision = looks.decide(&unit(&Pairs::of(&taken, 0, 1, true)), 0.05).decision;
            let last = round + 1 == looks.rounds();
            if decision != Decision::Undecided || last {
                most = most.max(round + 1);
                match (decision, worst) {
                    (Decision::Slower, _) => worst = Decision::Slower,
                    (Decision::Undecided, Decision::Passed) => worst = Decision::Undecided,
                    _ => {}
                }
                break;
            }
        }
    }
    (worst, most)
}
/// Of so many gates on a machine: how many end as slower, and how many pass.
fn ends(machine: Simulated, factor: f64, unit: Unit, gates: u64) -> [u64; 2] {
    (0..gates).fold([0, 0], |[slower, passed], seed| match gate(machine, factor, unit, seed * 7919 + 1).0 {
        Decision::Slower => [slower + 1, passed],
        Decision::Passed => [slower, passed + 1],
        Decision::Undecided => [slower, passed],
    })
}
const GATES: u64 = 400;
/// The worst machine by the share of gates of equal programs that raise an alarm.
fn false_alarms(unit: Unit) -> (f64, Simulated) {
    let of = |m: Simulated| (ends(m, 1.0, unit, GATES)[0] as f64 / GATES as f64, m);
    machines().into_iter().map(of).max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}
/// Each turn by itself, as if processes did not differ: the fault that the checks below must find.
fn turns(pairs: &Pairs) -> Vec<f64> {
    pairs.changes().into_iter().take(40).collect()
}

#[test]
fn equal_programs_that_raise_an_alarm() {
    let (share, machine) = false_alarms(Pairs::of_processes);
    assert!(share <= ALARM, "{share} of the gates on {machine:?}");
}
#[test]
fn a_false_alarm_that_the_check_above_does_not_see() {
    let (share, machine) = false_alarms(turns);
    assert!(share > 10.0 * ALARM, "{share} of the gates on {machine:?}");
}
#[test]
fn a_slowdown_of_ten_percent_that_passes() {
    for machine in machines() {
        let [slower, passed] = ends(machine, 1.1, Pairs::of_processes, GATES);
        assert!(passed as f64 <= 0.05 * GATES as f64, "{passed} of {GATES} passed on {machine:?}");
        // Where processes differ by little, it is found and not only held back.
        if machine.sigma <= 0.01 && !machine.busy {
            assert!(slower as f64 >= 0.95 * GATES as f64, "{slower} of {GATES} were found on {machine:?}");
        }
    }
}
#[test]
fn equal_programs_on_a_quiet_machine_that_are_held_back_or_take_all_rounds() {
    for sigma in [0.0, 0.003, 0.01] {
        let all: Vec<(Decision, usize)> = (0..100).map(|seed| gate(Simulated { sigma, ..QUIET }, 1.0, Pairs::of_processes, seed)).collect();
        assert!(all.iter().filter(|(d, _)| *d == Decision::Passed).count() >= 98, "{sigma}: {all:?}");
        assert!(all.iter().filter(|(_, rounds)| *rounds == 8).count() >= 90, "{sigma}: {all:?}");
    }
}
/// The share of 95 % intervals that hold the truth, at the worst machine.
fn coverage(interval: fn(&Pairs) -> Option<[f64; 2]>) -> (f64, Simulated) {
    let of = |machine: Simulated| {
        let held = (0..GATES).filter(|seed| {
            let mut words = RandomWords::new(seed * 104_729 + 5);
            let turns = (0..12).flat_map(|round| machine.round(round, 1.07, &mut words)).collect();
            let taken = Taken { workload: "w".into(), sides: vec![SideState::default(); 2], turns };
            interval(&Pairs::of(&taken, 0, 1, true)).is_some_and(|[low, high]| low <= 1.07 && 1.07 <= high)
        });
        (held.count() as f64 / GATES as f64, machine)
    };
    machines().into_iter().map(of).min_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}
#[test]
fn an_interval_that_knows_nothing_of_processes() {
    let judged = |pairs: &Pairs| judge(&[("w".into(), Ok(pairs.clone()))], 0.01)[0].interval;
    // 95 %, less three standard errors of the worst of twenty counts.
    let (share, machine) = coverage(judged);
    assert!(share >= 0.92, "{share} on {machine:?}");
    let of_turns = |pairs: &Pairs| {
        let (low, high) = Walsh::of(&turns(pairs)).interval(0.025);
        Some([low.exp(), high.exp()])
    };
    let (share, _) = coverage(of_turns);
    assert!(share < 0.75, "the check above does not see turns that are taken for processes: {share}");
}
#[test]
fn a_number_of_rounds_that_can_call_nothing_slower() {
    for (workloads, rounds, least) in [(1, 16, 16), (3, 4, 10), (200, 16, 16), (1000, 3, 19), (0, 0, 9)] {
        let looks = Looks::new(workloads, rounds);
        assert_eq!(looks.rounds(), least, "{workloads} {rounds}");
        let slow = vec![1.0; looks.rounds()];
        assert_eq!(looks.decide(&slow, 0.05).decision, Decision::Slower, "{workloads}");
    }
}
#[test]
fn a_gate_that_does_not_say_what_it_would_have_seen() {
    let looks = Looks::new(3, 16);
    let spread = |sigma: f64| (0..16).map(|k| sigma * ((k * 5 % 16) as f64 / 8.0 - 15.0 / 16.0)).collect::<Vec<f64>>();
    let [sharp, blunt] = [0.005, 0.2].map(|sigma| looks.decide(&spread(sigma), 0.05));
    assert_eq!((sharp.decision, blunt.decision), (Decision::Passed, Decision::Undecided));
    assert!(sharp.smallest_seen.unwrap() > 0.05 && sharp.smallest_seen.unwrap() < 0.065, "{sharp:?}");
    assert!(blunt.smallest_seen.unwrap() > 0.15 && blunt.smallest_seen.unwrap() < 0.6, "{blunt:?}");
    // What it says it would have seen, it sees: the same spread around it.
    for gated in [sharp, blunt] {
        let sigma = if gated == sharp { 0.005 } else { 0.2 };
        let slower: Vec<f64> = spread(sigma).iter().map(|x| x + gated.smallest_seen.unwrap().ln_1p()).collect();
        assert_eq!(looks.decide(&slower, 0.05).decision, Decision::Slower);
    }
    // One that passes at its first look says it too, and says the same of the same spread.
    let early = looks.decide(&spread(0.005)[..8], 0.05);
    assert_eq!(early.decision, Decision::Passed);
    assert!((0.05..0.07).contains(&early.smallest_seen.unwrap()), "{early:?}");
    // Of three rounds nothing is called slower, and that is said too.
    let few = looks.decide(&[0.0; 3], 0.05);
    assert_eq!((few.decision, few.smallest_seen, few.at_least, few.at_most), (Decision::Undecided, None, None, None));
    let text = serde_json::to_string(&few).unwrap();
    assert_eq!(serde_json::from_str::<Gated>(&text).unwrap(), few);
}
