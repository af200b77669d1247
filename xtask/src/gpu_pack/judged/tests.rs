//! Runs as the script writes them, in which something went wrong.
use super::*;
use crate::gpu_pack::{lines::FigureTarget, stages};

/// A figure as it is asked for.
fn good(asked: &AskedFigure) -> String {
    let figure = match asked.target {
        FigureTarget::Told => 1.0,
        FigureTarget::AtLeast(x) | FigureTarget::AtMost(x) => x,
    };
    FigureLine::of(asked.name, figure, asked.unit, asked.target).to_string()
}
/// The text of a run in which all is well but for what `change` makes of one stage's text.
fn run(head: &str, change: impl Fn(&str, String) -> String) -> JudgedPack {
    let of = |stage: &stages::PackStage| {
        let lines: Vec<String> = stage.figures.iter().map(good).collect();
        let text = format!(
            "== stage {} begins, limit {} s\n{}\n== stage {} ends, code 0, after {}.5 s\n",
            stage.name,
            stage.limit,
            lines.join("\n"),
            stage.name,
            stage.limit - 1
        );
        change(stage.name, text)
    };
    judge(&format!("== {head}\n{}== whole ends, after 400.5 s\n", stages::STAGES.iter().map(of).collect::<String>()))
}
fn gemm_alone(change: impl Fn(String) -> String) -> JudgedPack {
    run("pack on cuda:0", |name, text| if name == "gemm" { change(text) } else { text })
}
const GEMM: usize = 7;

#[test]
fn a_run_in_which_all_is_well() {
    let judged = run("pack on cuda:0", |_, text| text);
    let asked: usize = stages::STAGES.iter().map(|s| s.figures.len()).sum();
    assert_eq!(judged.counts(), [asked + 1, 0, 0], "{judged:?}");
}
/// None of the figures of a stage that went wrong counts as passed, and all others do.
#[test]
fn a_stage_that_went_wrong_and_passed() {
    let all = run("pack on cuda:0", |_, text| text).counts()[0];
    let without_its_end = |text: String| text.lines().filter(|l| !l.contains(" ends,")).map(|l| format!("{l}\n")).collect::<String>();
    let without_its_lines = |text: String| text.lines().filter(|l| l.starts_with("==")).map(|l| format!("{l}\n")).collect::<String>();
    for (what, judged) in [
        ("it ended late", gemm_alone(|text| text.replace("after 44.5 s", "after 45.6 s"))),
        ("it was ended", gemm_alone(|text| text.replace("code 0", "code 124"))),
        ("it was killed", gemm_alone(|text| text.replace("code 0", "code 137"))),
        ("it crashed", gemm_alone(|text| text.replace("code 0", "code 139"))),
        ("it failed", gemm_alone(|text| text.replace("code 0", "code 1"))),
        ("its device went", gemm_alone(|text| text.replace("code 0", "code 9"))),
        ("it did not end", gemm_alone(without_its_end)),
        ("it said nothing", gemm_alone(without_its_lines)),
        ("it has no limit", gemm_alone(|text| text.replace("limit 45 s", "limit"))),
        ("its end is no end", gemm_alone(|text| text.replace("code 0,", "code ?,"))),
        ("it printed FAILED", gemm_alone(|text| text.replace("passed", "FAILED"))),
        ("its lines are cut", gemm_alone(|text| text.replace(" passed", ""))),
        (
            "it said it of a figure that misses",
            gemm_alone(|text| text.replace(" 0.97 x", " 0.5 x").replace(" 1 TFLOP/s", " NaN TFLOP/s").replace(" 0 wrong", " 2 wrong")),
        ),
        ("it asked for less", gemm_alone(|text| text.replace(">=0.97", ">=0.5").replace("<=0", "<=9").replace("TFLOP/s", "GFLOP/s"))),
    ] {
        assert_eq!(judged.counts(), [all - GEMM, GEMM, 0], "{what}: {judged:?}");
    }
}
#[test]
fn what_was_not_run_and_passed() {
    let all = run("pack on cuda:0", |_, text| text).counts()[0];
    let judged = gemm_alone(|_| String::new());
    assert_eq!(judged.counts(), [all - GEMM, 0, GEMM], "{judged:?}");
    let judged = gemm_alone(|text| text.replace("passed", "not run (no PyTorch)").replace("code 0", "code 11"));
    assert_eq!(judged.counts(), [all - GEMM, 0, GEMM], "{judged:?}");
    // It passed once and was not run another time, or failed.
    let twice = |more: &'static str| gemm_alone(move |text| text.replace("== stage gemm ends", &format!("{more}\n== stage gemm ends")));
    assert_eq!(twice("gemm_right - wrong <=0 not run (gone)").counts(), [all - 1, 0, 1]);
    assert_eq!(twice("gemm_right 3 wrong <=0 FAILED").counts(), [all - 1, 1, 0]);
    assert_eq!(twice("gemm_right").counts(), [all - 1, 1, 0]);
    // What nobody asked for.
    assert_eq!(twice("gemm_other 3 wrong <=0 FAILED").counts(), [all, 1, 0]);
}
#[test]
fn an_emulated_card_that_has_a_speed() {
    let judged = run("pack emulated on cuda:0", |_, text| text);
    let of_cards = stages::STAGES.iter().flat_map(|s| s.figures).filter(|f| f.of_cards).count();
    let asked: usize = stages::STAGES.iter().map(|s| s.figures.len()).sum();
    assert_eq!(judged.counts(), [asked - of_cards, of_cards, 0], "{judged:?}");
}
#[test]
fn a_whole_that_takes_longer_than_is_promised() {
    let text = format!("== pack on cuda:0\n== whole ends, after {}.1 s\n", WHOLE);
    assert_eq!(judge(&text).counts()[1], 1);
    let nothing = judge("");
    assert_eq!(nothing.counts()[..2], [0, 0], "{nothing:?}");
}
