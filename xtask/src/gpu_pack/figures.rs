//! Figures of stages from what the programs wrote: lines of `bench`, and what runs of `gpt2` came to. What each figure is follows from its
//! name ([`AskedFigure`]). Must not know how anything was measured.
use super::{
    lines::{FigureLine, FigureTarget, FigureVerdict},
    stages::{AskedFigure, PackStage, named},
};
use crate::exit::Exit;
use adamant_bench::lines::Line;
use serde_json::Value;
use std::{fs, path::PathBuf};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// The stage
    stage: String,
    /// What `bench run --json` or `bench peers --json` printed
    #[arg(long)]
    lines: Option<PathBuf>,
    /// What `gpt2 --json` printed, of each run
    #[arg(long)]
    run: Vec<PathBuf>,
    /// What the same run in PyTorch printed
    #[arg(long)]
    theirs: Option<PathBuf>,
    /// The lines of the stage that measured a copy
    #[arg(long)]
    copy: Option<PathBuf>,
    /// Small shapes on an emulated card: no figure of a card is told
    #[arg(long)]
    small: bool,
}
/// Bytes of the weights that a token of GPT-2 124M reads, in 16 bits.
const DECODED: f64 = 124_439_808.0 * 2.0;
/// The word of this project in lines.
const OURS: &str = "adamant";

/// What was written, as it is read.
#[derive(Default)]
struct WrittenStage {
    lines: Vec<Line>,
    runs: Vec<Value>,
    theirs: Option<Value>,
    /// 10^9 bytes in a second
    copy: Option<f64>,
    small: bool,
}

/// Prints the figures of a stage that follow from files.
pub fn run(options: &Options) -> Exit {
    let Some(stage) = named(&options.stage) else {
        eprintln!("no stage is called {}", options.stage);
        return Exit::Usage;
    };
    let document = |path: &PathBuf| fs::read_to_string(path).ok().and_then(|text| last_document(&text));
    let lines = |path: &Option<PathBuf>| path.as_ref().and_then(|p| fs::read_to_string(p).ok()).map(|text| read(&text)).unwrap_or_default();
    let copies = lines(&options.copy);
    let written = WrittenStage {
        lines: lines(&options.lines),
        // A run that wrote nothing is one that failed.
        runs: options.run.iter().map(|path| document(path).unwrap_or(Value::Null)).collect(),
        theirs: options.theirs.as_ref().and_then(document),
        copy: copies.iter().filter(|l| l.workload == "copy_64m").filter_map(|l| l.extra.gbps).reduce(f64::max),
        small: options.small,
    };
    let all = of_stage(stage, &written);
    all.iter().for_each(|line| println!("{line}"));
    if all.iter().any(|line| matches!(line.verdict, FigureVerdict::Failed(_))) { Exit::Failed } else { Exit::Passed }
}
/// Whatever of a text is a line of `bench`.
fn read(text: &str) -> Vec<Line> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
fn last_document(text: &str) -> Option<Value> {
    text.lines().rev().find_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object)
}
fn of_stage(stage: &PackStage, written: &WrittenStage) -> Vec<FigureLine> {
    let has = |figure: &&AskedFigure| {
        if figure.name.starts_with("gpt2_") && !figure.name.contains("decode") { !written.runs.is_empty() } else { stage.name != "first" }
    };
    stage.figures.iter().filter(has).map(|asked| of_figure(stage, asked, written)).collect()
}
fn of_figure(stage: &PackStage, asked: &AskedFigure, written: &WrittenStage) -> FigureLine {
    let found = if asked.of_cards && written.small {
        Err(FigureVerdict::NotRun("emulated".into()))
    } else if asked.name.ends_with("_right") {
        wrong(stage, &written.lines)
    } else if stage.name == "gpt2" || stage.name == "first" {
        trained(asked.name, written)
    } else {
        let (workload, over) = asked.name.split_once('/').map_or((asked.name, None), |(workload, over)| (workload, Some(over)));
        measured(workload, over, asked.unit, written)
    };
    match found {
        Ok(figure) => FigureLine::of(asked.name, figure, asked.unit, asked.target),
        Err(verdict) => FigureLine::without(asked.name, asked.unit, asked.target, verdict),
    }
}
fn failed(why: impl Into<String>) -> FigureVerdict {
    FigureVerdict::Failed(why.into())
}
/// How many workloads of a stage gave an error, or nothing.
fn wrong(stage: &PackStage, lines: &[Line]) -> Result<f64, FigureVerdict> {
    let ours = |workload: &str| lines.iter().find(|l| l.workload == workload && l.implementation == OURS);
    let mut names: Vec<&str> = stage.figures.iter().filter(|f| !f.name.ends_with("_right")).filter_map(|f| f.name.split('/').next()).collect();
    names.dedup();
    let errors: Vec<String> = names
        .iter()
        .filter_map(|name| match ours(name) {
            Some(line) => line.error.as_ref().map(|e| format!("{name}: {e}")),
            None => Some(format!("{name}: it did not run")),
        })
        .collect();
    if errors.is_empty() { Ok(0.0) } else { Err(failed(format!("{} wrong: {}", errors.len(), errors.join("; ")))) }
}
/// A rate of a workload, or its share of something.
fn measured(workload: &str, over: Option<&str>, unit: &str, written: &WrittenStage) -> Result<f64, FigureVerdict> {
    let of = |who: &str| written.lines.iter().find(|l| l.workload == workload && l.implementation == who);
    let time = |line: &Line| line.median_ms.filter(|ms| *ms > 0.0);
    let ours = of(OURS).ok_or_else(|| failed("it did not run"))?;
    if let Some(error) = &ours.error {
        return Err(failed(error.clone()));
    }
    let rate = |rate: Option<f64>| rate.ok_or_else(|| failed("it has no rate"));
    let copy = || written.copy.filter(|gbps| *gbps > 0.0).ok_or_else(|| FigureVerdict::NotRun("no copy was measured".into()));
    match (over, unit) {
        (None, "TFLOP/s") => rate(ours.extra.gflops.map(|gflops| gflops * 1e-3)),
        (None, "GB/s") => rate(ours.extra.gbps),
        (None, _) => rate(ours.extra.tokens_per_s),
        (Some("copy"), _) => Ok(rate(ours.extra.gbps)? / copy()?),
        (Some("bandwidth"), _) => Ok(rate(ours.extra.tokens_per_s)? * DECODED * 1e-9 / copy()?),
        (Some(peer), _) => {
            let theirs = of(peer).ok_or_else(|| FigureVerdict::NotRun(format!("{peer} is not there")))?;
            if let Some(error) = &theirs.error {
                return Err(FigureVerdict::NotRun(format!("{peer}: {error}")));
            }
            let both = time(ours).zip(time(theirs)).ok_or_else(|| failed("it has no time"))?;
            Ok(both.1 / both.0)
        }
    }
}
/// What runs of `gpt2` came to, on average.
fn trained(name: &str, written: &WrittenStage) -> Result<f64, FigureVerdict> {
    let mean = |numbers: Vec<Option<f64>>| {
        let all: Option<Vec<f64>> = numbers.into_iter().collect();
        all.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>() / all.len() as f64)
    };
    let of = |field: &str| mean(written.runs.iter().map(|run| run[field].as_f64()).collect());
    let speed = || of("tokens_per_second").ok_or_else(|| failed("a run did not end"));
    match name {
        "gpt2_124m" => speed(),
        "gpt2_124m_mfu" => {
            speed()?;
            of("mfu").ok_or_else(|| FigureVerdict::NotRun("the card's peak is not known".into()))
        }
        "gpt2_124m/torch-compile" => {
            let theirs = written.theirs.as_ref().and_then(|t| t["tokens_per_second"].as_f64());
            Ok(speed()? / theirs.ok_or_else(|| FigureVerdict::NotRun("torch-compile is not there".into()))?)
        }
        // By how much the loss changed.
        _ => {
            let loss = |run: &Value, at: fn(&Vec<Value>) -> Option<&Value>| run["losses"].as_array().and_then(at).and_then(|pair| pair[1].as_f64());
            mean(written.runs.iter().map(|run| Some(loss(run, |all| all.last())? - loss(run, |all| all.first())?)).collect())
                .ok_or_else(|| failed("a run did not end, or its loss is no number"))
        }
    }
}
/// A figure of the table, said by the script.
#[derive(clap::Args)]
pub struct SaidFigure {
    name: String,
    #[arg(long)]
    figure: Option<f64>,
    #[arg(long)]
    not_run: Option<String>,
    #[arg(long)]
    failed: Option<String>,
}
/// Prints it.
pub fn say(said: &SaidFigure) -> Exit {
    let Some(asked) = super::stages::asked(&said.name) else {
        eprintln!("no figure is called {}", said.name);
        return Exit::Usage;
    };
    let without = |verdict| FigureLine::without(asked.name, asked.unit, asked.target, verdict);
    let line = match (&said.failed, &said.not_run, said.figure) {
        (Some(why), ..) => without(failed(why.clone())),
        (None, Some(why), _) => without(FigureVerdict::NotRun(why.clone())),
        (None, None, Some(figure)) => FigureLine::of(asked.name, figure, asked.unit, asked.target),
        (None, None, None) => without(failed("nothing was found")),
    };
    println!("{line}");
    if matches!(line.verdict, FigureVerdict::Failed(_)) { Exit::Failed } else { Exit::Passed }
}
/// Of the table, with a figure or without.
pub fn of_table(name: &str, figure: Result<f64, FigureVerdict>) -> FigureLine {
    let (unit, target) = super::stages::asked(name).map_or(("-", FigureTarget::Told), |asked| (asked.unit, asked.target));
    match figure {
        Ok(figure) => FigureLine::of(name, figure, unit, target),
        Err(verdict) => FigureLine::without(name, unit, target, verdict),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(workload: &str, who: &str, ms: f64) -> String {
        json!({ "workload": workload, "impl": who, "median_ms": ms, "min_ms": ms, "extra": { "threads": 4, "gflops": 1000.0 / ms, "gbps": 90.0 / ms } })
            .to_string()
    }
    fn error(workload: &str, who: &str) -> String {
        json!({ "workload": workload, "impl": who, "error": "wrong result: 1 instead of 2", "extra": { "threads": 4 } }).to_string()
    }
    fn told(stage: &str, written: &WrittenStage) -> Vec<(String, String)> {
        of_stage(named(stage).unwrap(), written)
            .iter()
            .map(|l| (l.name.clone(), l.to_string().split(' ').nth(1).unwrap_or_default().to_string() + " " + &l.verdict.to_string()))
            .collect()
    }
    fn verdict_of(stage: &str, written: &WrittenStage, name: &str) -> String {
        told(stage, written).into_iter().find(|(n, _)| n == name).unwrap().1
    }
    const GEMMS: [&str; 3] = ["gemm_bf16_4096", "gemm_bf16_8192", "gemm_f16_8192"];

    #[test]
    fn a_ratio_the_wrong_way_round_or_of_somebody_else() {
        let mut text: Vec<String> = GEMMS.iter().flat_map(|g| [line(g, "adamant", 2.0), line(g, "adamant-compile", 9.0), line(g, "torch", 1.96)]).collect();
        text.push("noise".into());
        let written = WrittenStage { lines: read(&text.join("\n")), ..WrittenStage::default() };
        assert_eq!(verdict_of("gemm", &written, "gemm_bf16_8192"), "0.5 passed");
        assert_eq!(verdict_of("gemm", &written, "gemm_bf16_8192/torch"), "0.98 passed");
        assert_eq!(verdict_of("gemm", &written, "gemm_right"), "0 passed");
        let slow = WrittenStage { lines: read(&[line(GEMMS[0], "adamant", 2.0), line(GEMMS[0], "torch", 1.9)].join("\n")), ..WrittenStage::default() };
        assert_eq!(verdict_of("gemm", &slow, "gemm_bf16_4096/torch"), "0.95 FAILED");
    }
    #[test]
    fn what_is_missing_or_wrong_and_passed() {
        let alone = WrittenStage { lines: read(&GEMMS.map(|g| line(g, "adamant", 2.0)).join("\n")), ..WrittenStage::default() };
        assert_eq!(verdict_of("gemm", &alone, "gemm_f16_8192/torch"), "- not run (torch is not there)");
        let theirs = WrittenStage { lines: read(&[line(GEMMS[0], "adamant", 2.0), error(GEMMS[0], "torch")].join("\n")), ..WrittenStage::default() };
        assert!(verdict_of("gemm", &theirs, "gemm_bf16_4096/torch").starts_with("- not run (torch: wrong"));
        let nothing = WrittenStage::default();
        assert!(told("gemm", &nothing).iter().all(|(_, v)| v.starts_with("- FAILED")), "{:?}", told("gemm", &nothing));
        let ours = WrittenStage { lines: read(&GEMMS.map(|g| error(g, "adamant")).join("\n")), ..WrittenStage::default() };
        assert!(told("gemm", &ours).iter().all(|(_, v)| v.contains("FAILED") && v.contains("instead of 2")), "{:?}", told("gemm", &ours));
        // On an emulated card wrong results count, times do not.
        let small = WrittenStage { small: true, ..WrittenStage { lines: read(&GEMMS.map(|g| line(g, "adamant", 2.0)).join("\n")), ..WrittenStage::default() } };
        let all = told("gemm", &small);
        assert!(all[0].1 == "0 passed" && all[1..].iter().all(|(_, v)| v == "- not run (emulated)"), "{all:?}");
    }
    #[test]
    fn a_share_of_no_copy() {
        let lines = read(&[line("copy_64m", "adamant", 1.0), line("add_64m", "adamant", 1.1)].join("\n"));
        let of = |copy| WrittenStage { lines: lines.clone(), copy, ..WrittenStage::default() };
        assert_eq!(verdict_of("elementwise", &of(None), "add_64m/copy"), "- not run (no copy was measured)");
        assert_eq!(verdict_of("elementwise", &of(Some(90.0)), "add_64m/copy"), "0.909 passed");
        assert_eq!(verdict_of("elementwise", &of(Some(100.0)), "add_64m/copy"), "0.818 FAILED");
    }
    #[test]
    fn a_run_of_gpt2_that_did_not_end() {
        let run = |speed: f64, last: f64| json!({ "losses": [[1, 10.8], [24, last]], "tokens_per_second": speed, "mfu": 0.4 });
        let of = |runs: Vec<Value>, theirs| WrittenStage { runs, theirs, ..WrittenStage::default() };
        let good = of(vec![run(500e3, 9.0), run(480e3, 9.0)], Some(json!({ "tokens_per_second": 400e3 })));
        assert_eq!(verdict_of("gpt2", &good, "gpt2_124m"), "490000 passed");
        assert_eq!(verdict_of("gpt2", &good, "gpt2_124m/torch-compile"), "1.225 passed");
        assert_eq!(verdict_of("gpt2", &good, "gpt2_learns"), "-1.8 passed");
        let broken = of(vec![run(500e3, 9.0), Value::Null], None);
        assert!(told("gpt2", &broken).iter().all(|(_, v)| v.starts_with("- FAILED")), "{:?}", told("gpt2", &broken));
        let worse = of(vec![run(500e3, 10.9)], None);
        assert_eq!(verdict_of("gpt2", &worse, "gpt2_learns"), "0.1 FAILED");
        assert_eq!(told("first", &worse).len(), 1);
        assert_eq!(verdict_of("gpt2", &worse, "gpt2_124m/torch-compile"), "- not run (torch-compile is not there)");
    }
}
