//! Ranks whose programs differ, or of which one fails alone: what they come to is right, or all of them say what differs, soon, and their
//! weights are those behind the last step that all took.
pub(super) mod programs;

use super::{
    job::EndedRank,
    rank::{RankStarter, reports},
};
use crate::torture::{CaseDraw, TortureClaim, claim};
use adamant_distributed::launch::{self, LaunchOutput, LaunchPlan, LaunchStop, RankStream};
use programs::{CALLS, PlantedMismatch, PlantedProgram, PlantedReport, STEPS};
use std::{
    fs,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Options of `mismatch`.
#[derive(clap::Args)]
pub struct MismatchOptions {
    /// Programs of each kind, on each engine
    #[arg(long, default_value_t = 6)]
    n: usize,
    /// How many ranks
    #[arg(long, default_value_t = 3)]
    ranks: usize,
    /// Which programs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The launchers of MPIs, each with the library where it is not found by itself: mpirun, or LAUNCHER=LIBRARY
    #[arg(long, value_delimiter = ';', default_values_t = ["mpirun".to_string()])]
    mpi: Vec<String>,
    /// Only faults whose words contain this
    #[arg(long, default_value = "")]
    only: String,
    /// One JSON document instead of text
    #[arg(long)]
    pub(super) json: bool,
}
/// All ranks have their error within this.
const SOON: f64 = 2.0;
/// So long ranks wait for each other: what takes as long is told apart from what is told at once.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn claims(options: &MismatchOptions) -> Vec<TortureClaim> {
    let mut claims = Vec::new();
    let mut engines = vec![Ok(RankStarter::Local)];
    engines.extend(options.mpi.iter().map(|named| RankStarter::mpi(named).map_err(|why| (named.clone(), why))));
    for engine in engines {
        let engine = match engine {
            Ok(engine) => engine,
            Err((named, why)) => {
                claims.push(TortureClaim::skipped(&format!("planted programs on mpi under {named}"), why));
                continue;
            }
        };
        for planted in PlantedMismatch::ALL.into_iter().filter(|planted| planted.words().contains(&options.only)) {
            let outcome = if planted.is_harmless() { "the right weights" } else { "an error on all ranks within 2 s, weights as before" };
            let text = format!("{}: {} on one of {} ranks: {outcome}", engine.name(), planted.words(), options.ranks);
            claims.push(claim(&text, |claim| kind(options, &engine, planted, claim)));
        }
    }
    if "another version of the protocol".contains(&options.only) {
        let text = format!("launch: another version of the protocol on one of {} ranks: it is told which, and the job ends within 2 s", options.ranks);
        claims.push(claim(&text, |claim| {
            for k in 0..options.n {
                claim.count(other_protocol(options.ranks, k));
            }
            Ok(())
        }));
    }
    claims
}
fn kind(options: &MismatchOptions, engine: &RankStarter, planted: PlantedMismatch, claim: &mut TortureClaim) -> Result<(), String> {
    let mut latest: f64 = 0.0;
    let mut told = None;
    for k in 0..options.n {
        let mut draw = CaseDraw::new(options.seed ^ (planted as u64) << 40 ^ (k as u64) << 8);
        let program = PlantedProgram {
            planted,
            seed: draw.next(),
            victim: (k + draw.below(2) as usize) % options.ranks,
            pass: draw.below(STEPS + 1),
            at: draw.below(CALLS as u64) as usize,
            parts: options.ranks,
        };
        let place = tempfile::tempdir().map_err(|e| e.to_string())?;
        let ran = engine.start("mismatch", &program, options.ranks, place.path(), PATIENCE).and_then(|job| job.wait());
        let judged = ran.and_then(|ended| {
            let reports: Vec<PlantedReport> = reports(place.path(), options.ranks).map_err(|e| format!("{e}; {}", said(&ended)))?;
            judge(&program, &reports).map(|took| {
                latest = latest.max(took);
                told = told.take().or_else(|| reports.iter().find_map(|report| report.error.clone()));
            })
        });
        claim.count(judged.map_err(|e| format!("{program:?}: {e}")));
    }
    claim.see(serde_json::json!({ "latest_ms": (latest * 1e4).round() / 10.0, "told": told }));
    Ok(())
}
fn said(ended: &[EndedRank]) -> String {
    ended.iter().map(|end| format!("{:?} {}", end.code, end.stderr.trim())).collect::<Vec<_>>().join("; ")
}
/// How long the last rank took to say it, after what was planted.
fn judge(program: &PlantedProgram, reports: &[PlantedReport]) -> Result<f64, String> {
    if program.planted.is_harmless() {
        let want = programs::alone(program)?;
        for (rank, report) in reports.iter().enumerate() {
            if let Some(error) = &report.error {
                return Err(format!("rank {rank} of a program without harm says: {error}"));
            }
            if report.end != want {
                return Err(format!("rank {rank} ends with other weights than one rank alone"));
            }
        }
        return Ok(0.0);
    }
    let planted_at = reports.iter().find_map(|report| report.planted_at).ok_or("nothing was planted")?;
    let mut latest: f64 = 0.0;
    let steps = reports.iter().map(|report| report.weights.len()).min().unwrap_or(0);
    for (rank, report) in reports.iter().enumerate() {
        let error = report.error.as_deref().ok_or_else(|| format!("rank {rank} sees no error"))?;
        latest = latest.max(report.ended_at - planted_at);
        names(program, rank, error).map_err(|e| format!("rank {rank} {e}: {error}"))?;
        // Another version of the program may have begun with other weights.
        let before = report.weights.get(steps - 1).ok_or("a rank without weights")?;
        if report.weights.len() != steps || report.end != *before {
            return Err(format!("rank {rank} has taken {} steps where {} were taken by all, or its weights changed", report.weights.len() - 1, steps - 1));
        }
        let alike = program.planted == PlantedMismatch::OtherProgram || report.end == reports[0].end;
        if !alike {
            return Err(format!("rank {rank} ends with other weights than rank 0"));
        }
    }
    if latest > SOON { Err(format!("the last rank had its error after {latest:.2} s")) } else { Ok(latest) }
}
/// Does an error name what it has to?
fn names(program: &PlantedProgram, rank: usize, error: &str) -> Result<(), String> {
    let victim = format!("rank {}", program.victim);
    let others = (0..program.parts).filter(|other| *other != program.victim).any(|other| error.contains(&format!("rank {other}")));
    if program.planted.is_of_calls() || program.planted == PlantedMismatch::OtherProgram {
        if !error.contains(&victim) || !others {
            return Err("does not name both ranks".into());
        }
        if program.planted == PlantedMismatch::OtherProgram {
            return if error.contains("other weights") { Ok(()) } else { Err("does not say what differs".into()) };
        }
        // Both calls: op, dtype and shape, line.
        let lines = error.matches(".rs:").count();
        let ops = ["all_reduce", "all_gather", "broadcast", "reduce_scatter", "all_to_all", "barrier"];
        let called: usize = ops.iter().map(|op| error.matches(op).count()).sum();
        return if called >= 2 && lines >= 2 { Ok(()) } else { Err(format!("names {called} ops and {lines} lines")) };
    }
    let words: &[&str] = match program.planted {
        PlantedMismatch::IndexFault => &["index"],
        PlantedMismatch::NotANumber => &["not finite", "NaN"],
        PlantedMismatch::NoMemory => &["memory"],
        _ => &[],
    };
    let is_told = words.iter().any(|word| error.contains(word));
    let is_named = rank == program.victim || program.planted == PlantedMismatch::NotANumber || error.contains(&victim);
    if is_told && is_named { Ok(()) } else { Err("does not say whose fault it is, or which".into()) }
}

/// A job of a launcher, of which one rank speaks another version of the protocol.
fn other_protocol(ranks: usize, k: usize) -> Result<(), String> {
    #[derive(Clone, Default)]
    struct LaunchLines(Arc<Mutex<Vec<(Option<usize>, String)>>>);
    impl LaunchOutput for LaunchLines {
        fn line(&mut self, rank: Option<usize>, _: RankStream, line: &[u8]) -> std::io::Result<()> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((rank, String::from_utf8_lossy(line).into_owned()));
            Ok(())
        }
        fn note(&mut self, _: &str) {}
    }
    let place = tempfile::tempdir().map_err(|e| e.to_string())?;
    let victim = 1 + k % (ranks - 1);
    let mut plan = LaunchPlan::new(ranks, std::env::current_exe().map_err(|e| e.to_string())?);
    let task = serde_json::json!({ "ways": "strange", "who": victim }).to_string();
    plan.arguments = ["distributed", "rank", "join", &task].map(Into::into).to_vec();
    plan.arguments.push(place.path().into());
    (plan.max_restarts, plan.timeout, plan.engine) = (0, Some(PATIENCE), Some("local".into()));
    let (said, begun) = (LaunchLines::default(), Instant::now());
    let ended = launch::run(&plan, Box::new(said.clone()), &LaunchStop::new()).map_err(|e| e.to_string())?;
    let took = begun.elapsed();
    let cause = ended.cause.ok_or("the job ended well")?;
    let words = cause.words.join(" ");
    let lines = said.0.lock().unwrap_or_else(PoisonError::into_inner).len();
    let _ = fs::remove_dir_all(place.path());
    match (cause.rank == Some(victim), words.contains("version"), took.as_secs_f64() <= SOON) {
        (true, true, true) => Ok(()),
        _ => Err(format!("the first cause is {:?} after {:.2} s and {lines} lines: {words}", cause.rank, took.as_secs_f64())),
    }
}
