//! Small trainings on the CPU, and options that make no sense.
use crate::{
    code,
    options::Options,
    training::{Learner, Outcome, run},
};
use adamant::{
    Result,
    nn::{Walk, init},
    optim::Optimizer,
};
use clap::Parser;

const SMALL: &str = "gpt2 --synthetic --layers 2 --heads 2 --features 32 --context 16 --vocabulary 256 --batch 4 --log-every 1 --lr 3e-3";

/// What stands twice counts as it stands last.
fn options(more: &str) -> Options {
    Options::parse_from(SMALL.split(' ').chain(more.split_whitespace()))
}
fn small(more: &str) -> Result<Outcome> {
    run(&options(more))
}
fn losses(more: &str) -> Vec<(u64, f64)> {
    small(more).unwrap().losses
}

/// Who knows only how often each token comes has a loss of ln 251 = 5.5.
#[test]
fn a_network_that_has_not_learned_what_follows() {
    let outcome = small("--steps 60 --batch 8 --accumulate 2").unwrap();
    let (first, last) = (outcome.losses[0].1, outcome.losses[59].1);
    assert!((5.0..6.0).contains(&first) && last < 4.5, "{first} {last}");
    assert!(outcome.tokens_per_second.is_some_and(|speed| speed > 0.0) && outcome.mfu.is_none());
    assert!(outcome.norms.iter().all(|norm| *norm > 0.0));
    let known = small("--steps 6 --peak-tflops 0.001").unwrap();
    assert!(known.mfu.is_some_and(|share| share > 0.0), "{known:?}");
}
#[test]
fn a_step_of_small_batches_that_is_another_step() {
    let whole = losses("--steps 5 --precision f32");
    let parts = losses("--steps 5 --precision f32 --batch 1 --accumulate 4");
    assert!(whole.iter().zip(&parts).all(|((_, a), (_, b))| (a - b).abs() < 1e-5), "{whole:?} {parts:?}");
    assert_ne!(whole, losses("--steps 5 --precision f32 --batch 2 --accumulate 1"));
}
#[test]
fn a_captured_step_of_other_bits() {
    for more in ["--steps 5", "--steps 5 --batch 2 --accumulate 2 --precision f16"] {
        assert_eq!(losses(more), losses(&format!("{more} --captured")), "{more}");
    }
}
#[test]
fn bf16_that_is_f32_or_learns_something_else() {
    let (wide, narrow) = (losses("--steps 12 --precision f32"), losses("--steps 12"));
    assert!(wide.iter().zip(&narrow).all(|((_, a), (_, b))| a != b && (a - b).abs() < 0.01 * a), "{wide:?} {narrow:?}");
}
#[test]
fn a_limit_of_the_gradients_that_nothing_is_held_to() {
    assert_ne!(losses("--steps 6 --clip 1e-2")[5], losses("--steps 6 --clip 1e9")[5]);
}
#[test]
fn a_resumed_run_of_other_bits() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.safetensors").display().to_string();
    // In the warm-up a rate does not depend on when the run ends.
    for precision in ["bf16", "f16"] {
        let common = format!("--precision {precision} --accumulate 2 --warmup 20");
        let whole = losses(&format!("{common} --steps 6"));
        let begun = losses(&format!("{common} --steps 3 --save {file}"));
        let on = losses(&format!("{common} --steps 6 --resume {file}"));
        assert_eq!(whole, [begun, on].concat(), "{precision}");
    }
    let other = small(&format!("--features 16 --steps 6 --resume {file}")).unwrap_err();
    assert_ne!(code(&other), 0);
    let none = small("--steps 6 --resume nowhere.safetensors").unwrap_err();
    assert_eq!(code(&none), 4, "{none}");
}
#[test]
fn a_run_of_no_steps() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["before", "after"].map(|name| folder.path().join(name).display().to_string());
    let outcome = small(&format!("--steps 0 --save {before}")).unwrap();
    assert!(outcome.losses.is_empty() && outcome.tokens_per_second.is_none());
    assert!(losses(&format!("--steps 0 --resume {before} --save {after}")).is_empty());
    assert_eq!(std::fs::read(&before).unwrap(), std::fs::read(&after).unwrap());
}
#[test]
fn a_rate_that_does_not_rise_and_fall() {
    let course = options("--warmup 10 --steps 100").course();
    let all: Vec<f64> = (0..=100).map(course).collect();
    assert!((all[0] - 0.1).abs() < 1e-12 && all[9] == 1.0 && (all[10] - 1.0).abs() < 1e-12 && (all[100] - 0.1).abs() < 1e-12, "{all:?}");
    assert!(all[..10].is_sorted() && all[10..].iter().rev().is_sorted());
    // Half of the way down after half of the steps.
    assert!((all[55] - 0.55).abs() < 1e-12);
    assert!(options("--warmup 0 --steps 0").course()(0) <= 1.0);
}
#[test]
fn a_decay_of_what_is_no_matrix() {
    let learner = Learner::new(&options("--decay 0.25")).unwrap();
    let decays: Vec<f64> = learner.optimizer.hyperparameters().iter().map(|group| group["weight_decay"]).collect();
    assert_eq!(decays, [0.25, 0.0]);
    let [matrices, others] = &learner.optimizer.parameter_groups()[..] else { panic!("two groups") };
    assert!(matrices.iter().all(|p| p.meta().shape.rank() == 2) && others.iter().all(|p| p.meta().shape.rank() == 1));
    assert_eq!(matrices.len() + others.len(), learner.net.parameters().len());
}
#[test]
fn a_network_of_another_size_than_gpt_2() {
    let gpt2 = Options::parse_from(["gpt2", "--synthetic"]);
    gpt2.check().unwrap();
    let learner = init::shapes_only(|| adamant::models::Gpt2LmHead::new(gpt2.network())).unwrap();
    assert_eq!(learner.parameter_count(), 124_439_808);
}
#[test]
fn options_that_make_no_sense() {
    for (more, exit, says) in [
        ("--heads 5", 2, "5 heads do not divide 32 features"),
        ("--heads 0", 2, "--heads is 0"),
        ("--batch 0", 2, "--batch is 0"),
        ("--accumulate 0", 2, "--accumulate is 0"),
        ("--log-every 0", 2, "--log-every is 0"),
        ("--context 70000", 2, "too few for rows of 70000"),
        ("--lr nan", 2, "--lr is NaN"),
        ("--clip 0", 2, "--clip is 0"),
        ("--peak-tflops=-1", 2, "--peak-tflops"),
        ("--format u16", 2, "--format is about a file"),
        ("--batch 99999999999 --context 99999999999", 2, "more tokens than can be counted"),
        ("--device nothing", 2, "nothing"),
    ] {
        let e = small(&format!("--steps 1 {more}")).unwrap_err();
        assert!(code(&e) == exit && e.to_string().contains(says), "{more}: {e}");
    }
    let nothing = run(&Options::parse_from(["gpt2"])).unwrap_err();
    assert!(code(&nothing) == 2 && nothing.to_string().contains("--data"), "{nothing}");
    assert!(Options::try_parse_from(["gpt2", "--precision", "fp16"]).is_err());
    assert!(Options::try_parse_from(["gpt2", "--synthetic", "--data", "x"]).is_err());
}
/// A card where there is none is told as such, and the program ends with 9.
#[test]
fn a_device_that_is_not_there() {
    let e = small("--steps 1 --device cuda:7").unwrap_err();
    assert!([2, 9].contains(&code(&e)), "{e}");
}
