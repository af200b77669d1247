//! The program is killed (SIGKILL) at random moments, three quarters uniform over the run, a quarter while a checkpoint is being
//! written, and goes on with `--resume auto`. Signals that ask it to end are in `signals.rs`.
use super::{
    CaseDraw, TortureClaim, claim,
    matrix::matrix,
    program::{
        EVERY, STEPS, TorturePrecision, TrainingProgram, Undisturbed, alive, as_undisturbed, ended, logged, newest, sha256, somewhere, temporaries, weights,
    },
    report, signals,
};
use crate::exit::Exit;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// Runs that are killed
    #[arg(long, default_value_t = 200)]
    n: usize,
    /// Runs that are interrupted, for each kind of signal
    #[arg(long, default_value_t = 5)]
    signals: usize,
    /// Training goes on while a checkpoint is written, as it does unless told otherwise; a kill costs an interval at the most all the
    /// same
    #[arg(long)]
    background: bool,
    /// Every optimizer, every schedule and all else that a step depends on, in pairs, instead of one run many times
    #[arg(long)]
    matrix: bool,
    /// Rows of the matrix, instead of all
    #[arg(long, requires = "matrix")]
    pub(super) rows: Option<usize>,
    /// Forgets a part of the state at each kill: the matrix must then fail
    #[arg(long, requires = "matrix", value_parser = super::matrix::PLANTS)]
    pub(super) plant: Option<String>,
    /// What the run computes in; f32 unless it is given
    #[arg(long, value_enum, conflicts_with = "matrix")]
    precision: Option<TorturePrecision>,
    /// Which moments
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// The program, instead of building it
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Runs all of it.
pub fn run(options: &Options) -> Exit {
    let program = match TrainingProgram::new(options.program.as_deref()) {
        Ok(program) => program.in_precision(options.precision),
        Err(e) => {
            eprintln!("{e}");
            return Exit::Failed;
        }
    };
    if options.matrix {
        return report(options.json, &[matrix(&program, options)]);
    }
    let mut undisturbed = None;
    let mut claims = vec![claim("undisturbed runs, with and without checkpoints, come to the same weights and lines", |claim| {
        undisturbed = Some(reference(&program, claim)?);
        Ok(())
    })];
    if let Some(undisturbed) = &undisturbed {
        claims.push(kills(&program, undisturbed, options));
        claims.extend(signals::claims(&program, undisturbed, options.signals, options.seed));
    }
    report(options.json, &claims)
}
fn reference(program: &TrainingProgram, claim: &mut TortureClaim) -> Result<Undisturbed, String> {
    let (mut seconds, mut first) = (f64::INFINITY, None);
    for (k, set) in [vec![], vec![], vec![format!("checkpoint.every={STEPS}")]].iter().enumerate() {
        let run = program.run(&format!("undisturbed-{k}"));
        let ended = program.finish(&run, false, set)?.well()?;
        seconds = ended.seconds.min(seconds);
        let got = (weights(&run)?, sha256(&run.join("metrics.jsonl"))?);
        let first = first.get_or_insert_with(|| got.clone());
        claim.count(if *first == got { Ok(()) } else { Err(format!("{got:?} and {first:?}")) });
    }
    let (weights, metrics) = first.ok_or("no run")?;
    claim.seen = serde_json::json!({ "sha256": weights, "seconds": seconds, "steps": STEPS, "every": EVERY });
    Ok(Undisturbed { weights, metrics })
}

fn kills(program: &TrainingProgram, undisturbed: &Undisturbed, options: &Options) -> TortureClaim {
    claim(
        "killed at a random moment, a run resumes from its newest checkpoint, loses none and no more steps than it may, leaves nothing behind, and comes to the weights and the lines of the undisturbed one",
        |claim| {
            let mut draw = CaseDraw(options.seed);
            let (mut inside, mut missed, mut fresh, mut steps, mut lost) = (0, 0, 0, Vec::new(), Vec::new());
            for k in 0..options.n {
                let run = program.run(&format!("killed-{k}"));
                let aimed = k % 4 == 0;
                let mut killed = kill(program, &run, aimed, options.background, &mut draw)?;
                // A run or a write that was faster than the hand that was to kill it is made again.
                while !killed.alive || (aimed && killed.writing.is_none()) {
                    missed += 1;
                    std::fs::remove_dir_all(&run).map_err(|e| e.to_string())?;
                    killed = kill(program, &run, aimed, options.background, &mut draw)?;
                }
                inside += usize::from(killed.writing.is_some());
                let from = newest(&run).map_err(|e| format!("after the kill: {e}"));
                let check = |from: Option<u64>| {
                    // What was being written is the next one: what is lost is at most the work since it was begun, and the write.
                    if let Some(next) = killed.writing.filter(|next| *next > from.unwrap_or(0) + EVERY) {
                        return Err(format!("step {next} was being written, the newest checkpoint is {from:?}"));
                    }
                    let behind = killed.reached.saturating_sub(from.unwrap_or(0));
                    lost.push(behind);
                    if behind > EVERY {
                        return Err(format!("{behind} steps were lost: it had come to {}, the newest checkpoint is {from:?}", killed.reached));
                    }
                    let again = program.finish(&run, true, &[])?.well()?;
                    as_undisturbed(&run, &again, from, undisturbed)
                };
                if let Ok(from) = from {
                    fresh += usize::from(from.is_none());
                    steps.extend(from);
                }
                claim.count(from.and_then(check).map_err(|e| format!("kill {k}: {e}")));
                let _ = std::fs::remove_dir_all(&run);
            }
            steps.sort_unstable();
            lost.sort_unstable();
            claim.seen = serde_json::json!({
                "missed_and_made_again": missed, "inside_a_write": inside, "before_the_first_checkpoint": fresh,
                "resumed_from": { "least": steps.first(), "median": steps.get(steps.len() / 2), "most": steps.last() },
                "steps_lost": { "least": lost.first(), "median": lost.get(lost.len() / 2), "most": lost.last(), "more_than_an_interval": lost.iter().filter(|l| **l > EVERY).count() },
                "interval": EVERY, "run": STEPS, "background": options.background, "may_lose": EVERY,
            });
            Ok(())
        },
    )
}
/// How a kill hit.
struct Killed {
    alive: bool,
    /// the last step that it logged
    reached: u64,
    /// the step of the checkpoint that was being written
    writing: Option<u64>,
}
fn kill(program: &TrainingProgram, run: &Path, aimed: bool, background: bool, draw: &mut CaseDraw) -> Result<Killed, String> {
    let mut child = program.start(run, false, &[format!("checkpoint.background={background}")])?;
    somewhere(&mut child, run, draw)?;
    if aimed {
        // The next write that is seen, and a little into it.
        while writing(run).is_none() && alive(&mut child)? {
            std::thread::yield_now();
        }
        let later = Instant::now() + Duration::from_micros(draw.below(500));
        while Instant::now() < later {
            std::hint::spin_loop();
        }
    }
    let alive = alive(&mut child)?;
    child.kill().map_err(|e| e.to_string())?;
    ended(child, Instant::now())?;
    Ok(Killed { alive, reached: logged(run), writing: writing(run) })
}
/// The step of the checkpoint that is being written, or was when its writer died.
fn writing(run: &Path) -> Option<u64> {
    let left = temporaries(&run.join("checkpoints"));
    left.iter().filter_map(|p| p.file_name()?.to_str()?.strip_prefix(".tmp-step-")?.parse().ok()).max()
}
