//! What safety costs: the training of `examples/digits` with a checkpoint each 100 steps and with none but the last, in turns, so that what
//! else the machine does meets both; the ratio of each pair, and the median of the ratios.
use super::{claim, program::TrainingProgram, report};
use crate::{exit::Exit, workspace};
use std::path::{Path, PathBuf};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// Pairs of runs
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// Steps between two checkpoints
    #[arg(long, default_value_t = 100)]
    every: u64,
    /// The program, instead of building it
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}
/// The most that checkpoints may take of the throughput.
const MOST: f64 = 0.03;
/// The description: a small CNN, 690 steps of some milliseconds.
const DESCRIPTION: &str = "examples/digits/digits.toml";
const NEVER: u64 = 1_000_000_000;

/// Runs it.
pub fn run(options: &Options) -> Exit {
    let measured = claim("a checkpoint each 100 steps costs at most 3 % of the throughput", |claim| {
        let program = TrainingProgram::on(workspace::root().join(DESCRIPTION), &workspace::root().join("examples/digits"), options.program.as_deref())?;
        let mut ratios = Vec::new();
        let (mut with_best, mut without_best) = (f64::INFINITY, f64::INFINITY);
        for k in 0..options.pairs.max(1) {
            // Which goes first changes from pair to pair.
            let order = if k % 2 == 0 { [options.every, NEVER] } else { [NEVER, options.every] };
            let mut seconds = [0.0; 2];
            for every in order {
                let run = program.run(&format!("cost-{k}-{every}"));
                let set = [format!("checkpoint.every={every}")];
                program.finish(&run, false, &set)?.well()?;
                seconds[usize::from(every == NEVER)] = trained(&run)?;
                let _ = std::fs::remove_dir_all(&run);
            }
            let [with, without] = seconds;
            (with_best, without_best) = (with_best.min(with), without_best.min(without));
            ratios.push(with / without - 1.0);
        }
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        claim.seen = serde_json::json!({
            "median_cost": median, "cost_of_the_best": with_best / without_best - 1.0, "costs": ratios,
            "seconds_with": with_best, "seconds_without": without_best,
        });
        claim.count(if median <= MOST { Ok(()) } else { Err(format!("{:.1} %", 100.0 * median)) });
        Ok(())
    });
    report(options.json, &[measured])
}
/// Seconds of training, as the run's own clock saw them: without start, reading of data, test and report.
fn trained(run: &Path) -> Result<f64, String> {
    let path = run.join("timing.jsonl");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let lines: Vec<serde_json::Value> = text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let seconds = |line: Option<&serde_json::Value>| line.and_then(|l| l["seconds"].as_f64()).ok_or_else(|| format!("{}: no epochs", path.display()));
    let epochs: Vec<&serde_json::Value> = lines.iter().filter(|l| l["kind"] == "epoch").collect();
    Ok(seconds(epochs.last().copied())? - seconds(epochs.first().copied())?)
}
