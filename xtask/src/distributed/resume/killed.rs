//! Ranks that are killed while they write a checkpoint together.
use super::{
    super::ResumeOptions,
    bits,
    pieces::{STAGES, UndisturbedRun, steps, values},
};
use crate::torture::{CaseDraw, TortureClaim, claim};
use adamant_train::{checkpoint, storage::Disk};
use nix::sys::signal::Signal;
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// Kills in a run, before it goes on to its end.
const IN_A_RUN: usize = 10;
/// Within this time after a save has begun a rank is killed.
const MOMENTS: Duration = Duration::from_millis(12);
/// So long a save is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What there was to be seen.
#[derive(Default)]
struct SeenKills {
    /// at a moment when something was half written
    inside: usize,
    /// which left something that was half written
    left: usize,
    /// of all ranks at once
    of_all: usize,
    /// after which a later start said from which step it goes on, the newest one that was there
    resumed: usize,
    runs: usize,
}
pub fn claim_of(run: &UndisturbedRun, options: &ResumeOptions) -> TortureClaim {
    let text = "one rank or all killed inside a save: the newest whole checkpoint is gone on from, nothing half written is left, the undisturbed end";
    if options.kills == 0 {
        return TortureClaim::skipped(text, "no kills are asked for");
    }
    claim(text, |claim| {
        let (mut draw, mut seen, mut killed) = (CaseDraw::new(options.seed ^ 0x51), SeenKills::default(), 0);
        while killed < options.kills {
            let folder = run.program.place(&format!("killed-{}", seen.runs));
            let many = IN_A_RUN.min(options.kills - killed);
            let went = one_run(run, &folder, many, (&mut draw, &mut seen));
            let (n, went) = match went {
                Ok(n) => (n.max(1), Ok(())),
                Err(e) => (many, Err(format!("run {}: {e}", seen.runs))),
            };
            (0..n).for_each(|_| claim.count(went.clone()));
            killed += n;
            seen.runs += 1;
            let _ = fs::remove_dir_all(&folder);
        }
        claim.see(serde_json::json!({ "kills": killed, "inside_a_save": seen.inside, "left_something_half_written": seen.left, "of_all_ranks": seen.of_all, "said_the_newest": seen.resumed, "runs": seen.runs }));
        Ok(())
    })
}
/// What stands in a folder of checkpoints that has a name for the time being.
fn half_written(run: &Path) -> Vec<String> {
    let names = fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with('.') && name != ".lock").collect()
}
fn one_run(run: &UndisturbedRun, folder: &Path, many: usize, (draw, seen): (&mut CaseDraw, &mut SeenKills)) -> Result<usize, String> {
    let (mut killed, mut expected) = (0, None::<u64>);
    while killed < many {
        let (ranks, zero) = (2 + draw.below(3) as usize, 1 + draw.below(STAGES as u64 - 1) as usize);
        let mut job = run.program.start(ranks, &run.description, folder, &values(zero))?;
        let begun = Instant::now();
        let mut cleaned = false;
        // What was left goes first; then the next save begins.
        let is_saving = loop {
            let half = !half_written(folder).is_empty();
            cleaned |= !half && folder.join("checkpoints").exists();
            match () {
                () if cleaned && half => break true,
                () if (0..ranks).any(|rank| job.is_over(rank)) => break false,
                () if begun.elapsed() > PATIENCE => return Err("no save in a minute".into()),
                () => std::thread::sleep(Duration::from_micros(100)),
            }
        };
        if is_saving {
            std::thread::sleep(Duration::from_micros(draw.below(MOMENTS.as_micros() as u64)));
            let all = draw.below(3) == 0;
            seen.of_all += usize::from(all);
            let victim = draw.below(ranks as u64) as usize;
            seen.inside += usize::from(!half_written(folder).is_empty());
            for rank in (0..ranks).filter(|rank| all || *rank == victim) {
                // It may be over by itself.
                let _ = job.signal(rank, Signal::SIGKILL);
            }
            killed += 1;
        }
        let ended = job.wait()?;
        seen.left += usize::from(is_saving && !half_written(folder).is_empty());
        let said = ended.first().and_then(|end| end.stderr.lines().find_map(|line| line.split("resuming from step ").nth(1)?.trim().parse::<u64>().ok()));
        match (said, expected) {
            (Some(said), Some(expected)) if said != expected => return Err(format!("it goes on from step {said}, and {expected} was the newest")),
            (Some(_), Some(_)) => seen.resumed += 1,
            (None, Some(_)) => return Err(format!("it does not say from which step it goes on: {}", ended.first().map_or("", |end| end.stderr.trim()))),
            (_, None) => {}
        }
        if let Some(end) = ended.iter().find(|end| !matches!(end.code, None | Some(0 | 7))) {
            return Err(format!("a rank ended with {:?}: {}", end.code, end.stderr.trim()));
        }
        expected = steps(folder).last().copied();
        if !is_saving {
            break;
        }
    }
    let (ranks, zero) = (1 + draw.below(4) as usize, draw.below(STAGES as u64) as usize);
    run.program.finish(ranks, &run.description, folder, &values(zero))?;
    let half = half_written(folder);
    if !half.is_empty() {
        return Err(format!("{half:?} is left"));
    }
    adamant::Device::reference().scoped(|| {
        for step in steps(folder) {
            checkpoint::read(&Disk, &folder.join(format!("checkpoints/step-{step:08}"))).map_err(|e| e.to_string())?;
        }
        Ok::<(), String>(())
    })?;
    if bits(folder)? == run.bits { Ok(killed) } else { Err("it ends in other bits".into()) }
}
