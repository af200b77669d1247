//! Which folder a run lives in: `runs/<name>-<n>`, unless one is named.
//!
//! Invariant: a number is claimed by making its folder, which one process alone can do; so programs that start at the same
//! instant get a folder each.
use adamant_train::{
    Failure,
    storage::{Operation, StorageError},
};
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

const RUNS: &str = "runs";
/// A folder, and whether the run in it goes on.
#[derive(Debug)]
pub struct RunPlace {
    pub folder: PathBuf,
    pub resume: bool,
    /// was it made for this run?
    claimed: bool,
}
impl RunPlace {
    pub fn of(folder: impl Into<PathBuf>, resume: bool) -> RunPlace {
        RunPlace { folder: folder.into(), resume, claimed: false }
    }
    /// Gives a number back that nothing came of. What holds anything stays.
    pub fn leave(&self) {
        if self.claimed {
            let _ = std::fs::remove_dir(&self.folder);
        }
    }
}
/// The folder for a run of `config`: `run` if it is named, else the newest unfinished one of that name if it is to go on,
/// else a new one.
pub fn place(config: &Path, run: Option<&Path>, resume: Option<&str>) -> Result<RunPlace, Failure> {
    let name = config.file_stem().map_or_else(|| "run".into(), |s| s.to_string_lossy().into_owned());
    match (run, resume) {
        (Some(folder), None) => Ok(RunPlace::of(folder, false)),
        (Some(folder), Some("auto")) => Ok(RunPlace::of(folder, true)),
        (Some(_), Some(_)) => Err(Failure::Usage("--run names the folder already: write `--resume auto` beside it".into())),
        (None, Some("auto")) => {
            let is_unfinished = |p: &PathBuf| p.join("config.toml").exists() && !p.join("result.json").exists();
            match numbered(Path::new(RUNS), &name).into_iter().rev().map(|(_, path)| path).find(is_unfinished) {
                Some(folder) => Ok(RunPlace::of(folder, true)),
                None => claim(Path::new(RUNS), &name),
            }
        }
        (None, Some(folder)) => match Path::new(folder) {
            path if path.is_dir() => Ok(RunPlace::of(path, true)),
            path => Err(Failure::Input(format!("{}: there is no such run", path.display()))),
        },
        (None, None) => claim(Path::new(RUNS), &name),
    }
}
/// Makes the folder of the next free number.
fn claim(runs: &Path, name: &str) -> Result<RunPlace, Failure> {
    let failed = |path: &Path, e: &std::io::Error| Failure::from(StorageError::of(Operation::CreateDir, path, 0, e));
    std::fs::create_dir_all(runs).map_err(|e| failed(runs, &e))?;
    let taken = numbered(runs, name);
    // Behind the highest number, so that numbers tell the order; where there is none behind it, the first that is free.
    let mut number = taken.last().map_or(Some(1), |(n, _)| n.checked_add(1)).unwrap_or(1);
    loop {
        let folder = runs.join(format!("{name}-{number}"));
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(RunPlace { folder, resume: false, claimed: true }),
            // Somebody was faster: at the latest behind all those that start now there is one that is free.
            Err(e) if e.kind() == ErrorKind::AlreadyExists && number < u64::MAX => number += 1,
            Err(e) => return Err(failed(&folder, &e)),
        }
    }
}
/// What is called `<name>-<n>`, by its number.
fn numbered(runs: &Path, name: &str) -> Vec<(u64, PathBuf)> {
    let number = |path: &Path| {
        let digits = path.file_name()?.to_str()?.strip_prefix(name)?.strip_prefix('-')?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let mut found: Vec<(u64, PathBuf)> = std::fs::read_dir(runs)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter_map(|path| Some((number(&path)?, path)))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_number_that_two_runs_get() {
        for many in [2, 3, 16, 64] {
            let place = tempfile::tempdir().unwrap();
            let runs = place.path().join("runs");
            let gate = std::sync::Barrier::new(many);
            let claims: BTreeSet<PathBuf> = std::thread::scope(|s| {
                let all: Vec<_> = (0..many).map(|_| s.spawn(|| (gate.wait(), claim(&runs, "digits").unwrap().folder).1)).collect();
                all.into_iter().map(|t| t.join().unwrap()).collect()
            });
            let want: BTreeSet<PathBuf> = (1..=many).map(|n| runs.join(format!("digits-{n}"))).collect();
            assert_eq!(claims, want);
        }
    }
    #[test]
    fn a_name_beside_them_that_misleads_or_ends_the_count() {
        let place = tempfile::tempdir().unwrap();
        let next = |there: &[&str]| {
            let runs = place.path().join(there.len().to_string());
            there.iter().for_each(|n| std::fs::create_dir_all(runs.join(n)).unwrap());
            claim(&runs, "a").unwrap().folder.file_name().unwrap().to_str().unwrap().to_string()
        };
        assert_eq!(next(&[]), "a-1");
        assert_eq!(next(&["a-+7"]), "a-1");
        assert_eq!(next(&["a-7", "b-9"]), "a-8");
        assert_eq!(next(&["a-7", "a-b-9", "a-"]), "a-8");
        assert_eq!(next(&["a-1", "a-2", "a-18446744073709551615", "a-99999999999999999999"]), "a-3");
        // A number that nothing came of is given back; one that something came of is not.
        let claimed = claim(place.path(), "a").unwrap();
        claimed.leave();
        assert!(!claimed.folder.exists());
        let kept = claim(place.path(), "a").unwrap();
        std::fs::write(kept.folder.join("x"), "").unwrap();
        kept.leave();
        assert!(kept.folder.exists());
        // A file where the runs should be.
        let file = kept.folder.join("x");
        assert_eq!(claim(&file, "a").unwrap_err().exit_code(), 6);
    }
}
