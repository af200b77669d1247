//! Which folder a run lives in: `runs/<name>-<n>`, unless one is named.
use adamant_train::Failure;
use std::path::{Path, PathBuf};

const RUNS: &str = "runs";
/// A folder, and whether the run in it goes on.
pub struct Place {
    pub folder: PathBuf,
    pub resume: bool,
}
/// The folder for a run of `config`: `run` if it is named, else the newest unfinished one of that name if it is to go on,
/// else a new one.
pub fn place(config: &Path, run: Option<&Path>, resume: Option<&str>) -> Result<Place, Failure> {
    let name = config.file_stem().map_or_else(|| "run".into(), |s| s.to_string_lossy().into_owned());
    match (run, resume) {
        (Some(folder), None) => Ok(Place { folder: folder.into(), resume: false }),
        (Some(folder), Some("auto")) => Ok(Place { folder: folder.into(), resume: true }),
        (Some(_), Some(_)) => Err(Failure::Usage("--run names the folder already: write `--resume auto` beside it".into())),
        (None, Some("auto")) => {
            let unfinished =
                numbered(&name).into_iter().rev().map(|(_, path)| path).find(|p| p.join("config.toml").exists() && !p.join("result.json").exists());
            Ok(unfinished.map_or_else(|| fresh(&name), |folder| Place { folder, resume: true }))
        }
        (None, Some(folder)) => match Path::new(folder) {
            path if path.is_dir() => Ok(Place { folder: path.into(), resume: true }),
            path => Err(Failure::Input(format!("{}: there is no such run", path.display()))),
        },
        (None, None) => Ok(fresh(&name)),
    }
}
fn fresh(name: &str) -> Place {
    let number = numbered(name).last().map_or(1, |(n, _)| n + 1);
    Place { folder: Path::new(RUNS).join(format!("{name}-{number}")), resume: false }
}
/// Folders `runs/<name>-<n>`, by their number.
fn numbered(name: &str) -> Vec<(u64, PathBuf)> {
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix(name)?.strip_prefix('-')?.parse().ok();
    let mut found: Vec<(u64, PathBuf)> = std::fs::read_dir(RUNS)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter_map(|path| Some((number(&path)?, path)))
        .collect();
    found.sort();
    found
}
