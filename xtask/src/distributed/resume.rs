//! Ended by a signal to one rank, gone on with on another number of ranks: the bits of the run that nobody disturbed.
mod killed;
mod meshes;
mod pieces;

use super::{
    ResumeOptions,
    job::{RankedTraining, set},
};
use crate::torture::{CaseDraw, TortureClaim, claim, sha256};
use nix::sys::signal::Signal;
use std::{
    path::Path,
    time::{Duration, Instant},
};

fn shards() -> Vec<String> {
    set(&["distributed.shards=8"])
}
const RANKS: [usize; 5] = [1, 2, 3, 4, 8];

pub fn claims(options: &ResumeOptions) -> Vec<TortureClaim> {
    let made = RankedTraining::with_short_steps(&options.common).and_then(|(program, path)| {
        program.finish(1, &path, &program.place("undisturbed"), &shards())?;
        Ok((program, path))
    });
    let (program, description) = match made {
        Ok(made) => made,
        Err(e) => return vec![claim("the program", |_| Err(e))],
    };
    let mut claims = vec![claim(
        "SIGTERM to one rank ends all behind one step (exit 143, within 2 s); gone on with on others, the run ends in the undisturbed bits",
        |claim| {
            let want = bits(&program.place("undisturbed"))?;
            let (mut draw, mut longest) = (CaseDraw::new(options.seed), Duration::ZERO);
            for k in 0..options.n {
                let run = program.place(&format!("run-{k}"));
                claim.count(one(&program, &description, &run, &mut draw, &mut longest).and_then(|through| match bits(&run)? {
                    got if got == want => Ok(()),
                    _ => Err(format!("run {k}: through {through:?} it ends in other bits")),
                }));
            }
            claim.see(serde_json::json!({ "longest_end_ms": longest.as_millis() as u64 }));
            Ok(())
        },
    )];
    claims.extend(pieces::claims(options));
    claims.push(meshes::claim_of(options));
    claims
}
/// Two ends and a last start, each on another number of ranks; gives how many there were.
fn one(program: &RankedTraining, description: &Path, run: &Path, draw: &mut CaseDraw, longest: &mut Duration) -> Result<Vec<usize>, String> {
    let mut through = Vec::new();
    for _ in 0..2 {
        let ranks = RANKS[1 + draw.below(RANKS.len() as u64 - 1) as usize];
        through.push(ranks);
        let mut job = program.start(ranks, description, run, &shards())?;
        std::thread::sleep(Duration::from_millis(300 + draw.below(900)));
        let victim = draw.below(ranks as u64) as usize;
        if job.is_over(victim) {
            job.wait()?;
            continue;
        }
        job.signal(victim, Signal::SIGTERM)?;
        let begun = Instant::now();
        let mut steps = Vec::new();
        for (rank, end) in job.wait()?.into_iter().enumerate() {
            // It may have come to its end meanwhile, on all ranks.
            if end.code != Some(143) && end.code != Some(0) {
                return Err(format!("rank {victim} of {ranks} had SIGTERM, and rank {rank} ended with {:?}: {}", end.code, end.stderr.trim()));
            }
            let took = end.at.saturating_duration_since(begun);
            *longest = (*longest).max(took);
            if took > Duration::from_secs(2) {
                return Err(format!("rank {rank} of {ranks} ended {} ms after the signal", took.as_millis()));
            }
            steps.push(end.stderr.lines().find_map(|line| line.split("after step ").nth(1)?.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()));
        }
        if steps.iter().any(|step| step != &steps[0]) {
            return Err(format!("ranks ended behind other steps: {steps:?}"));
        }
    }
    let ranks = RANKS[draw.below(RANKS.len() as u64) as usize];
    through.push(ranks);
    program.finish(ranks, description, run, &shards())?;
    Ok(through)
}
fn bits(run: &Path) -> Result<[String; 2], String> {
    Ok([sha256(&run.join("weights.safetensors"))?, sha256(&run.join("metrics.jsonl"))?])
}
