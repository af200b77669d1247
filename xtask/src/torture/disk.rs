//! Power cuts at every operation of a save, a retention delete, a replacement and a clean-up, on a disk that keeps, drops
//! or tears what was not synced; operations that fail; full disks. Damage of the files themselves is in `rot.rs`.
use super::{
    TortureClaim, claim, report, rot,
    subject::{FOLDER, newest, no_temporaries, open, same, snapshot, told},
};
use crate::exit::Exit;
use adamant_train::{
    checkpoint::CheckpointError,
    storage::{
        Disk, Operation, Storage, StorageErrorKind,
        simulated::{Fate, Simulated},
    },
};
use std::{path::Path, process::Command};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// Bits that are flipped
    #[arg(long, default_value_t = 10_000)]
    flips: usize,
    /// Files that are cut off
    #[arg(long, default_value_t = 1_000)]
    cuts: usize,
    /// Sizes of the full disk
    #[arg(long, default_value_t = 64)]
    sizes: usize,
    /// Ways to tear what was not synced, for each operation
    #[arg(long, default_value_t = 32)]
    tears: u64,
    /// Which bits, lengths and tears
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// Runs all of it.
pub fn run(options: &Options) -> Exit {
    let fates = fates(options.tears, options.seed);
    let claims = [
        power_cuts(&fates, None),
        cuts_while_cleaning(&fates),
        failing_operations(),
        rot::flips(options.flips, options.seed),
        rot::cuts(options.cuts, options.seed),
        full_disks(options.sizes),
        full_file_systems(options.sizes),
        no_inodes(),
    ];
    report(options.json, &claims)
}
fn fates(tears: u64, seed: u64) -> Vec<Fate> {
    [Fate::Kept, Fate::Dropped].into_iter().chain((0..tears).map(|k| Fate::Torn(seed.wrapping_mul(1_000_003).wrapping_add(k)))).collect()
}

/// A thing that a run does to its checkpoints, with what is there before.
struct Scenario {
    name: &'static str,
    before: fn(&Simulated) -> Result<(), String>,
    /// the step that is saved, and its flavour
    saves: (u64, u64),
    /// what is newest before, if anything is
    old: Option<(u64, u64)>,
}
const SCENARIOS: [Scenario; 3] = [
    Scenario { name: "first save", before: |_| Ok(()), saves: (10, 0), old: None },
    Scenario { name: "save and retention", before: |d| given(d, &[(10, 0), (20, 0)]), saves: (30, 0), old: Some((20, 0)) },
    Scenario { name: "save in place of one", before: |d| given(d, &[(10, 0), (20, 0)]), saves: (20, 1), old: Some((20, 0)) },
];
fn given(disk: &Simulated, states: &[(u64, u64)]) -> Result<(), String> {
    let checkpoints = open(disk.clone(), Path::new(FOLDER))?;
    for (step, flavour) in states {
        checkpoints.save(&snapshot(*step, *flavour), None).map_err(|e| e.to_string())?;
    }
    Ok(())
}
/// Does what the scenario does; the first error of the disk ends it, as it ends a process without power.
fn act(disk: &Simulated, scenario: &Scenario) -> Result<(), String> {
    given(disk, &[scenario.saves])
}
/// Before which operation nothing of the new one can be found, and after which it must be.
struct Turning {
    operations: u64,
    renamed: u64,
    durable: u64,
}
fn turning(disk: &Simulated, scenario: &Scenario) -> Result<Turning, String> {
    let dry_run = disk.copied();
    act(&dry_run, scenario)?;
    let history = dry_run.history();
    let new = Path::new(FOLDER).join(format!(".tmp-step-{:08}", scenario.saves.0));
    let renamed = history.iter().position(|(op, path)| *op == Operation::Rename && *path == new).ok_or("the new folder is never renamed")?;
    let durable = history.iter().skip(renamed).position(|(op, path)| *op == Operation::SyncDir && path == Path::new(FOLDER));
    let durable = renamed + durable.ok_or("the folder is never synced")?;
    Ok(Turning { operations: history.len() as u64, renamed: renamed as u64, durable: durable as u64 })
}
/// What the next process finds must be the newest complete checkpoint, without a warning, and it must be able to go on.
fn recovers(found: &Simulated, scenario: &Scenario, old_may_be: bool, new_may_be: bool) -> Result<(), String> {
    let checkpoints = open(found.clone(), Path::new(FOLDER))?;
    no_temporaries(found, Path::new(FOLDER))?;
    let new = snapshot(scenario.saves.0, scenario.saves.1);
    match (checkpoints.latest().map_err(|e| e.to_string())?, scenario.old) {
        (None, None) if old_may_be => {}
        (None, _) => return Err("no checkpoint is left".into()),
        (Some(restored), _) if !restored.warnings.is_empty() => return Err(told(&restored.warnings)),
        (Some(restored), old) => {
            let is_new = new_may_be && same(&restored.snapshot, &new).is_ok();
            let is_old = old_may_be && old.is_some_and(|(step, flavour)| same(&restored.snapshot, &snapshot(step, flavour)).is_ok());
            if !is_new && !is_old {
                return Err(format!("step {} was found, state {}", restored.snapshot.step, restored.snapshot.state));
            }
        }
    }
    checkpoints.save(&snapshot(90, 0), None).map_err(|e| format!("the next save: {e}"))?;
    same(&newest(&checkpoints)?.snapshot, &snapshot(90, 0))
}
fn power_cuts(fates: &[Fate], lie: Option<Operation>) -> TortureClaim {
    claim(
        "the power goes out before every operation of a save of 3 files, of a retention delete, of a replacement; kept, dropped, torn: the newest complete checkpoint is found",
        |claim| {
            let mut boundaries = 0;
            for scenario in &SCENARIOS {
                let disk = Simulated::new();
                (scenario.before)(&disk)?;
                lie.into_iter().for_each(|op| disk.lie_about(op));
                let turning = turning(&disk, scenario)?;
                boundaries += turning.operations + 1;
                for k in 0..=turning.operations {
                    for fate in fates {
                        let victim = disk.copied();
                        victim.crash_at(k);
                        // A save that is done says so, although the power goes out while the oldest one is removed.
                        let done = act(&victim, scenario);
                        if victim.crashed() != (k < turning.operations) || (done.is_ok() && k <= turning.durable) {
                            return Err(format!("{}: {k}: the disk did not crash where it should", scenario.name));
                        }
                        // Kept is as if all was synced.
                        let new_must_be = k > turning.durable || (*fate == Fate::Kept && k > turning.renamed);
                        let recovered = recovers(&victim.restarted(*fate), scenario, !new_must_be, k > turning.renamed);
                        claim.count(recovered.map_err(|e| format!("{}, before operation {k} ({}), {fate:?}: {e}", scenario.name, named(&victim, k))));
                    }
                }
            }
            claim.seen = serde_json::json!({ "boundaries": boundaries, "fates": fates.len() });
            Ok(())
        },
    )
}
fn named(disk: &Simulated, k: u64) -> String {
    disk.history().get(k as usize).map_or("the end".into(), |(op, path)| format!("{op} {}", path.display()))
}
/// What a power cut left is cleaned up at the next start; there too the power may go out.
fn cuts_while_cleaning(fates: &[Fate]) -> TortureClaim {
    claim("the power goes out again at every operation of the next start", |claim| {
        for scenario in &SCENARIOS {
            let disk = Simulated::new();
            (scenario.before)(&disk)?;
            let turning = turning(&disk, scenario)?;
            for k in 0..turning.operations {
                let victim = disk.copied();
                victim.crash_at(k);
                let _ = act(&victim, scenario);
                let found = victim.restarted(Fate::Kept);
                let dry_run = found.copied();
                open(dry_run.clone(), Path::new(FOLDER))?;
                for j in 0..dry_run.history().len() as u64 {
                    for fate in &fates[..fates.len().min(4)] {
                        let second = found.copied();
                        second.crash_at(j);
                        let _ = open(second.clone(), Path::new(FOLDER));
                        let recovered = recovers(&second.restarted(*fate), scenario, k <= turning.renamed, k > turning.renamed);
                        claim.count(recovered.map_err(|e| format!("{}, {k} ({}), then {j}, {fate:?}: {e}", scenario.name, named(&victim, k))));
                    }
                }
            }
        }
        Ok(())
    })
}
/// The disk fails once and works again: the save says so, or the checkpoint is there; nothing else changes.
fn failing_operations() -> TortureClaim {
    claim("every operation fails once: a typed error, the previous checkpoint as it was, and the next save works", |claim| {
        for scenario in &SCENARIOS {
            let disk = Simulated::new();
            (scenario.before)(&disk)?;
            let operations = turning(&disk, scenario)?.operations;
            for k in 0..operations {
                for kind in [StorageErrorKind::Io("input/output error".into()), StorageErrorKind::Denied, StorageErrorKind::Full { needed: 1, free: Some(0) }] {
                    let victim = disk.copied();
                    victim.fail_at(k, kind.clone());
                    let done = act(&victim, scenario);
                    let recovered = recovers(&victim.restarted(Fate::Kept), scenario, done.is_err(), true);
                    claim.count(recovered.map_err(|e| format!("{}, {k} ({}) fails ({kind}): {e}", scenario.name, named(&victim, k))));
                }
            }
        }
        Ok(())
    })
}

/// The sizes from 10 % to 110 % of a checkpoint.
fn share(k: usize, sizes: usize, bytes: u64) -> u64 {
    (bytes as f64 * (0.1 + k as f64 / (sizes.max(2) - 1) as f64)).round() as u64
}
fn full_disks(sizes: usize) -> TortureClaim {
    claim("a simulated disk with space for 10 % to 110 % of a checkpoint: `Full` or saved, nothing lost, nothing left", |claim| {
        let disk = Simulated::new();
        given(&disk, &[(10, 0)])?;
        let before = disk.used();
        given(&disk, &[(20, 0)])?;
        let one = disk.used() - before;
        let space_is_enough = |space: u64| space >= one;
        let mut full = 0;
        for k in 0..sizes {
            let (space, victim) = (share(k, sizes, one), disk.copied());
            let used = victim.used();
            victim.set_capacity(Some(used + space));
            let checkpoints = open(victim.clone(), Path::new(FOLDER))?;
            let outcome = checkpoints.save(&snapshot(30, 0), None);
            let check = || {
                let expected = match &outcome {
                    Ok(_) if space_is_enough(space) => 30,
                    Err(CheckpointError::Storage(e)) if !space_is_enough(space) => match e.kind {
                        StorageErrorKind::Full { needed, free: Some(free) } if needed > free && e.path.starts_with(FOLDER) => 20,
                        _ => return Err(e.to_string()),
                    },
                    Ok(_) => return Err("saved where there is no space".into()),
                    Err(e) => return Err(e.to_string()),
                };
                if expected == 20 && victim.used() != used {
                    return Err(format!("{} bytes were left", victim.used() - used));
                }
                no_temporaries(&victim, Path::new(FOLDER))?;
                same(&newest(&checkpoints)?.snapshot, &snapshot(expected, 0))
            };
            full += usize::from(outcome.is_err());
            claim.count(check().map_err(|e| format!("space for {space} of {one} bytes: {e}")));
        }
        claim.seen = serde_json::json!({ "full": full, "saved": sizes - full });
        Ok(())
    })
}
/// The same on file systems of the kernel, where this user may mount them.
fn full_file_systems(sizes: usize) -> TortureClaim {
    const TEXT: &str = "tmpfs with space for 10 % to 110 % of a checkpoint: `Full` or saved, nothing lost, nothing left";
    let place = match tempfile::tempdir() {
        Ok(place) => place,
        Err(e) => return TortureClaim::skipped(TEXT, e.to_string()),
    };
    if let Err(e) = Mounted::new(place.path(), 1 << 20) {
        return TortureClaim::skipped(TEXT, e);
    }
    claim(TEXT, |claim| {
        // Whole pages: what a checkpoint takes there is found by trying.
        const PAGE: u64 = 4096;
        let pages = {
            let _mounted = Mounted::new(place.path(), 64 << 20)?;
            let folder = place.path().join("checkpoints");
            let checkpoints = open(Disk, &folder)?;
            checkpoints.save(&snapshot(20, 0), None).map_err(|e| e.to_string())?;
            let free = Disk.free(&folder).ok_or("tmpfs does not tell its free space")?;
            checkpoints.save(&snapshot(30, 0), None).map_err(|e| e.to_string())?;
            (free - Disk.free(&folder).ok_or("tmpfs does not tell its free space")?) / PAGE
        };
        let mut full = 0;
        for k in 0..sizes {
            let space = share(k, sizes, pages * PAGE) / PAGE;
            // The first checkpoint, the lock, and the space for part of the second.
            let _mounted = Mounted::new(place.path(), (pages + 1 + space) * PAGE)?;
            let folder = place.path().join("checkpoints");
            let checkpoints = open(Disk, &folder)?;
            checkpoints.save(&snapshot(20, 0), None).map_err(|e| e.to_string())?;
            let outcome = checkpoints.save(&snapshot(30, 0), None);
            let check = || {
                let expected = match &outcome {
                    Ok(_) => 30,
                    Err(CheckpointError::Storage(e)) if e.is_full() => 20,
                    Err(e) => return Err(e.to_string()),
                };
                if (expected == 30) != (space >= pages) {
                    return Err(format!("{outcome:?}"));
                }
                no_temporaries(&Disk, &folder)?;
                same(&newest(&checkpoints)?.snapshot, &snapshot(expected, 0))
            };
            full += usize::from(outcome.is_err());
            claim.count(check().map_err(|e| format!("space for {space} of {pages} pages: {e}")));
        }
        claim.seen = serde_json::json!({ "full": full, "saved": sizes - full });
        Ok(())
    })
}
/// Bytes enough, and names for part of a checkpoint.
fn no_inodes() -> TortureClaim {
    const TEXT: &str = "tmpfs with inodes for part of a checkpoint and bytes for many: `NoInodes` or saved, nothing lost, nothing left";
    /// what the folder, its lock and a first checkpoint take, and what a second one does: its folder and files
    const TAKEN: u64 = 12;
    let place = match tempfile::tempdir() {
        Ok(place) => place,
        Err(e) => return TortureClaim::skipped(TEXT, e.to_string()),
    };
    if let Err(e) = Mounted::with(place.path(), 64 << 20, Some(TAKEN)) {
        return TortureClaim::skipped(TEXT, e);
    }
    claim(TEXT, |claim| {
        let (mut lacking, mut saved) = (0, 0);
        for inodes in TAKEN - 3..TAKEN + 8 {
            let _mounted = Mounted::with(place.path(), 64 << 20, Some(inodes))?;
            let folder = place.path().join("checkpoints");
            let checkpoints = open(Disk, &folder)?;
            if checkpoints.save(&snapshot(20, 0), None).is_err() {
                continue;
            }
            let outcome = checkpoints.save(&snapshot(30, 0), None);
            let check = || {
                let expected = match &outcome {
                    Ok(_) => 30,
                    Err(CheckpointError::Storage(e)) if matches!(e.kind, StorageErrorKind::NoInodes { free: Some(free) } if free > 1 << 20) => 20,
                    Err(e) => return Err(e.to_string()),
                };
                no_temporaries(&Disk, &folder)?;
                same(&newest(&checkpoints)?.snapshot, &snapshot(expected, 0))
            };
            if outcome.is_err() {
                lacking += 1
            } else {
                saved += 1
            }
            claim.count(check().map_err(|e| format!("{inodes} inodes: {e}")));
        }
        claim.seen = serde_json::json!({ "lacking": lacking, "saved": saved });
        if lacking == 0 || saved == 0 { Err("the inodes were never scarce, or always".into()) } else { Ok(()) }
    })
}
/// A tmpfs that is unmounted when it is dropped.
struct Mounted<'a>(&'a Path);
impl<'a> Mounted<'a> {
    fn new(place: &'a Path, bytes: u64) -> Result<Mounted<'a>, String> {
        Mounted::with(place, bytes, None)
    }
    fn with(place: &'a Path, bytes: u64, inodes: Option<u64>) -> Result<Mounted<'a>, String> {
        let inodes = inodes.map_or_else(String::new, |n| format!(",nr_inodes={n}"));
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={bytes}{inodes}"), "tmpfs"]).arg(place).output();
        match done {
            Ok(output) if output.status.success() => Ok(Mounted(place)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
            Err(e) => Err(format!("mount: {e}")),
        }
    }
}
impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).output();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_hold(claim: &TortureClaim) {
        assert!(claim.holds(), "{} of {}: {:?}", claim.held, claim.tried, claim.failures);
    }

    #[test]
    fn a_power_cut_that_loses_a_checkpoint() {
        all_hold(&power_cuts(&fates(4, 1), None));
    }
    #[test]
    fn a_check_of_power_cuts_that_passes_on_a_disk_that_does_not_sync() {
        for lie in [Operation::Sync, Operation::SyncDir] {
            let claim = power_cuts(&fates(4, 1), Some(lie));
            assert!(claim.tried > 500 && claim.held < claim.tried, "{lie}: {} of {}", claim.held, claim.tried);
        }
    }
    #[test]
    fn a_power_cut_while_cleaning_up_that_loses_a_checkpoint() {
        all_hold(&cuts_while_cleaning(&fates(1, 2)));
    }
    #[test]
    fn an_operation_that_fails_and_takes_a_checkpoint_with_it() {
        all_hold(&failing_operations());
    }
    #[test]
    fn a_full_disk_that_loses_something() {
        all_hold(&full_disks(64));
    }
}
