//! A rank that is killed, or stopped: the others end, soon, and say whom they lost.
use super::{
    KillOptions,
    job::{EndedRank, RankedTraining, set},
};
use crate::{
    torture::{CaseDraw, TortureClaim, claim},
    workspace,
};
use nix::sys::signal::Signal;
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// A run of several seconds, so that moments fall into every phase, with frequent checkpoints.
const VALUES: [&str; 2] = ["iterations=15000", "checkpoint.every=40"];
/// The exit code of a rank that lost another one.
const PEER_LOST: i32 = 7;
/// So long a rank that is stopped is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// A rank that joins the group, or leaves it, is not the engine's to be timed: this much passes between the start and the last moment.
const LONGEST: u64 = 2500;

pub fn claims(options: &KillOptions) -> Vec<TortureClaim> {
    let (program, description) = match RankedTraining::with_short_steps(&options.common) {
        Ok(made) => made,
        Err(e) => return vec![claim("the program", |_| Err(e))],
    };
    let text = format!("{} ranks, one killed at a random moment: the others say whom they lost (exit 7), none later than a second", options.ranks);
    let killed = claim(&text, |claim| {
        let mut times = Vec::new();
        let mut draw = CaseDraw::new(options.seed);
        for k in 0..options.n {
            let seen = one(&program, &description, options, &mut draw, Signal::SIGKILL, k);
            claim.count(seen.and_then(|seen| {
                times.extend(seen.iter().copied());
                match seen.iter().max() {
                    Some(most) if *most > Duration::from_secs(1) => Err(format!("run {k}: a survivor ended after {} ms", most.as_millis())),
                    _ => Ok(()),
                }
            }));
        }
        claim.see(told(&mut times));
        leftovers()
    });
    let text = format!("one stopped: the others say so after {} s", PATIENCE.as_secs());
    let stopped = claim(&text, |claim| {
        let mut times = Vec::new();
        let mut draw = CaseDraw::new(options.seed ^ 0x57_0b);
        for k in 0..options.stops {
            let seen = one(&program, &description, options, &mut draw, Signal::SIGSTOP, k);
            claim.count(seen.and_then(|seen| {
                times.extend(seen.iter().copied());
                match seen.iter().find(|took| **took < PATIENCE - Duration::from_millis(200) || **took > PATIENCE + Duration::from_millis(500)) {
                    Some(took) => Err(format!("run {k}: a survivor ended after {} ms", took.as_millis())),
                    None => Ok(()),
                }
            }));
        }
        claim.see(told(&mut times));
        leftovers()
    });
    vec![killed, stopped]
}
/// Kills or stops one rank; gives how long each of the others lived on. A run that was over before is none.
fn one(program: &RankedTraining, description: &Path, options: &KillOptions, draw: &mut CaseDraw, signal: Signal, k: usize) -> Result<Vec<Duration>, String> {
    let run = program.place(&format!("{signal}-{k}"));
    let victim = draw.below(options.ranks as u64) as usize;
    let moment = Duration::from_micros(draw.below(LONGEST * 1000));
    let mut job = program.start_with(options.ranks, description, &run, &set(&VALUES), PATIENCE)?;
    std::thread::sleep(moment);
    if (0..job.len()).any(|rank| job.is_over(rank)) {
        return Err(format!("run {k}: it was over after {} ms already: {}", moment.as_millis(), said(job.wait()?)));
    }
    job.signal(victim, signal)?;
    let begun = Instant::now();
    job.wait_for_others(&[victim])?;
    let _ = job.signal(victim, Signal::SIGKILL);
    let ended = job.wait()?;
    let mut times = Vec::new();
    for (rank, end) in ended.iter().enumerate().filter(|(rank, _)| *rank != victim) {
        if end.code != Some(PEER_LOST) {
            return Err(format!(
                "run {k}: rank {victim} had {signal} after {} ms, and rank {rank} ended with {:?}: {}",
                moment.as_millis(),
                end.code,
                end.stderr.trim()
            ));
        }
        if !end.stderr.contains(&format!("rank {victim}")) {
            return Err(format!("run {k}: rank {rank} does not say that rank {victim} is lost: {}", end.stderr.trim()));
        }
        times.push(end.at.saturating_duration_since(begun));
    }
    let _ = fs::remove_dir_all(&run);
    Ok(times)
}
fn said(ended: Vec<EndedRank>) -> String {
    ended.iter().map(|end| format!("{:?} {}", end.code, end.stderr.trim())).collect::<Vec<_>>().join("; ")
}
pub(super) fn told(times: &mut [Duration]) -> serde_json::Value {
    times.sort_unstable();
    let ms = |at: Option<&Duration>| at.map(|t| (t.as_secs_f64() * 10_000.0).round() / 10.0);
    serde_json::json!({ "survivors": times.len(), "median_ms": ms(times.get(times.len() / 2)), "least_ms": ms(times.first()), "most_ms": ms(times.last()) })
}
/// Nothing of the program is left: no process, no segment.
pub(super) fn leftovers() -> Result<(), String> {
    let named = |folder: &str, has: &str| -> Vec<String> {
        let all = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.file_name().to_string_lossy().into_owned());
        all.filter(|name| name.contains(has)).collect()
    };
    let segments = named("/dev/shm", "adamant");
    let mine = workspace::target().display().to_string();
    let processes: Vec<String> = named("/proc", "")
        .into_iter()
        .filter(|id| id.bytes().all(|b| b.is_ascii_digit()))
        .filter(|id| fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains("short-steps.toml")))
        .collect();
    if segments.is_empty() && processes.is_empty() { Ok(()) } else { Err(format!("left behind ({mine}): segments {segments:?}, processes {processes:?}")) }
}
