//! Verdicts about synthetic samples, whose truth is known.
use super::*;
use crate::{
    inputs::RandomWords,
    interleave::{SideState, Turn},
};

const ROUNDS: usize = 16;

/// Pairs of a machine that drifts, is disturbed now and then, and gives each round a place in memory of its own.
fn pairs(seed: u64, factor: f64, noise: f64, of_round: f64, n: usize) -> Pairs {
    let mut words = RandomWords::new(seed);
    let mut normal = || (0..12).map(|_| words.uniform() as f64).sum::<f64>() / 2.0;
    let mut pairs = Pairs::default();
    for round in 0..ROUNDS {
        let (place_a, place_b) = (1.0 + of_round * normal(), 1.0 + of_round * normal());
        for k in 0..n / ROUNDS {
            let drift = 1.0 + 0.3 * ((round * n / ROUNDS + k) as f64 / 37.0).sin();
            let hit = |x: f64| if x > 1.8 { 1.7 } else { 1.0 };
            let (h, i) = (hit(normal()), hit(normal()));
            pairs.a.push(1e6 * drift * place_a * h * (1.0 + noise * normal()));
            pairs.b.push(1e6 * drift * place_b * i * factor * (1.0 + noise * normal()));
            pairs.round.push(round);
        }
    }
    (pairs.all, pairs.quiet) = (pairs.a.len(), pairs.a.len());
    pairs
}
fn verdicts(cases: &[Pairs], threshold: f64) -> Vec<Verdict> {
    let cases: Vec<_> = cases.iter().enumerate().map(|(k, p)| (k.to_string(), Ok(p.clone()))).collect();
    judge(&cases, threshold).into_iter().filter_map(|c| c.verdict).collect()
}

#[test]
fn a_false_alarm_among_two_hundred_equal_cases() {
    let cases: Vec<Pairs> = (0..200).map(|k| pairs(k, 1.0, 0.02, 0.003, 160)).collect();
    let alarms = verdicts(&cases, 0.01).into_iter().filter(|v| matches!(v, Verdict::Faster | Verdict::Slower)).count();
    assert!(alarms <= 1, "{alarms}");
}
#[test]
fn a_slowdown_of_three_percent_that_is_missed() {
    for (factor, want) in [(1.03, Verdict::Slower), (1.0 / 1.03, Verdict::Faster)] {
        let found = (0..40).filter(|&k| verdicts(&[pairs(900 + k, factor, 0.02, 0.003, 200)], 0.01) == [want]).count();
        assert!(found >= 38, "{found} of 40 at {factor}");
    }
}
#[test]
fn a_place_in_memory_that_is_taken_for_a_change() {
    // Each pair is sharp, but rounds differ by 5 %: the samples cannot tell.
    let cases: Vec<Pairs> = (0..40).map(|k| pairs(k, 1.0, 0.001, 0.05, 200)).collect();
    let alarms = verdicts(&cases, 0.01).into_iter().filter(|v| matches!(v, Verdict::Faster | Verdict::Slower)).count();
    assert!(alarms <= 1, "{alarms} of 40");
    assert!(verdicts(&cases, 0.01).contains(&Verdict::Noisy));
}
#[test]
fn a_change_too_small_to_count_or_pairs_too_few_to_tell() {
    assert_eq!(verdicts(&[pairs(1, 1.004, 0.0005, 0.0, 200)], 0.01), [Verdict::Same]);
    let few = |rounds: usize, pairs: Pairs| {
        let kept = pairs.round.iter().filter(|r| **r < rounds).count();
        let first = |of: &[f64]| of[..kept].to_vec();
        Pairs { a: first(&pairs.a), b: first(&pairs.b), round: pairs.round[..kept].to_vec(), all: kept, quiet: kept }
    };
    // Of two processes of each side nothing is known, however many their pairs; of seven with a pair each too little.
    assert_eq!(verdicts(&[few(2, pairs(1, 1.5, 0.01, 0.0, 160))], 0.01), [Verdict::Noisy]);
    assert_eq!(verdicts(&[few(7, pairs(1, 1.5, 0.01, 0.0, 16))], 0.01), [Verdict::Noisy]);
    assert_eq!(verdicts(&[few(3, pairs(1, 1.5, 0.01, 0.0, 160)), few(8, pairs(1, 1.5, 0.01, 0.0, 16))], 0.01), [Verdict::Slower; 2]);
    // Among ten cases eight processes are too few to be sure of anything, but half as long again is not the same.
    let ten: Vec<Pairs> = (0..10).map(|k| few(8, pairs(k, 1.5, 0.001, 0.0, 160))).collect();
    assert_eq!(verdicts(&ten, 0.01), [Verdict::Noisy; 10]);
    let nothing = judge(&[("none".into(), Ok(Pairs::default())), ("broken".into(), Err("why".into()))], 0.01);
    assert_eq!(nothing.iter().map(|c| (c.verdict, c.error.as_deref())).collect::<Vec<_>>(), [(None, Some("no samples")), (None, Some("why"))]);
}
#[test]
fn a_large_change_of_a_long_case_that_a_gate_lets_pass() {
    // As few turns as a case has whose one call is as long as the budget, one in each round, beside nineteen equal cases.
    let few = |seed, factor| pairs(seed, factor, 0.02, 0.0, ROUNDS);
    let mut cases: Vec<Pairs> = (0..19).map(|k| few(k, 1.0)).collect();
    cases.push(few(99, 20.0));
    assert_eq!(verdicts(&cases, 0.01).last(), Some(&Verdict::Slower));
}
#[test]
fn cases_of_a_record_that_were_not_taken_in_turn() {
    let case = |who: &str, n: usize, factor: f64| {
        let ns = (0..n).map(|k| factor * (100.0 + (k % 7) as f64)).collect();
        Case { rounds: (0..n as u32).map(|k| k / 10).collect(), ..Case::new("w", who).sampled(ns, vec![0.0; n], 1) }
    };
    let compared = judge(&[("w".into(), Pairs::of_cases(&case("a", 40, 1.0), &case("b", 40, 1.1), true))], 0.01);
    assert_eq!(compared[0].verdict, Some(Verdict::Slower));
    let failed = Case { error: Some("wrong result".into()), ..Case::new("w", "c") };
    for (other, what) in [(case("b", 39, 1.0), "in turn"), (failed, "c: wrong result"), (Case::new("w", "d"), "in turn")] {
        let said = Pairs::of_cases(&case("a", 40, 1.0), &other, true).unwrap_err();
        assert!(said.contains(what), "{said}");
    }
}
#[test]
fn a_program_that_was_not_let_run_and_is_called_slow() {
    let turn = |k: usize| {
        // B waits for half of its time, in all turns but every fifth.
        let waited = if k % 5 == 0 { 0.0 } else { 0.5 };
        Turn { round: k / 20, ns: vec![1e6 * (1.0 + 0.002 * (k % 3) as f64), 1e6 * (1.0 + 0.002 * (k % 4) as f64) / (1.0 - waited)], waited: vec![0.0, waited] }
    };
    let taken = Taken { workload: "w".into(), sides: vec![SideState::default(); 2], turns: (0..100).map(turn).collect() };
    let verdict = |pairs| judge(&[("w".into(), Ok(pairs))], 0.01)[0].clone();
    let seen = verdict(Pairs::of(&taken, 0, 1, true));
    assert_eq!((seen.verdict, seen.samples, seen.quiet), (Some(Verdict::Same), 100, 20));
    assert_eq!(verdict(Pairs::of(&taken, 0, 1, false)).verdict, Some(Verdict::Slower));
    // With enough quiet pairs the others are left out, whatever the threads.
    let mut quiet = taken.clone();
    quiet.turns.iter_mut().step_by(2).for_each(|t| (t.ns[1], t.waited[1]) = (1e6, 0.0));
    assert_eq!(verdict(Pairs::of(&quiet, 0, 1, false)).verdict, Some(Verdict::Same));
}
