//! `baseline save|list|rm`: records under a name, to compare with as `baseline:NAME`.
use super::{
    Ended, Exit, ended,
    out::{OutStream, unwritable},
};
use crate::record::Record;
use clap::{Args, Subcommand};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What is done with baselines.
#[derive(Args, Debug)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
}
#[derive(Subcommand, Debug)]
enum Action {
    /// Keep a file of records under a name
    Save {
        /// the name: letters, digits, `-`, `_` and `.`
        name: String,
        /// the file
        record: PathBuf,
    },
    /// Names, dates and sources
    List,
    /// Forget one
    Rm {
        /// the name
        name: String,
    },
}
const FOLDER: &str = "target/bench/baselines";

/// The file of a baseline.
pub(super) fn path(name: &str) -> Result<PathBuf, Ended> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err((Exit::Usage, format!("`{name}` is no name of a baseline: letters, digits, `-`, `_` and `.`")));
    }
    Ok(Path::new(FOLDER).join(format!("{name}.jsonl")))
}
/// Does it.
pub(super) fn run(options: &Options) -> Result<Exit, Ended> {
    let mut out = OutStream::default();
    match &options.action {
        Action::Save { name, record } => {
            let to = path(name)?;
            // Read first: what cannot be compared with is no baseline.
            Record::read(record).map_err(|e| ended(Exit::Unreadable)(&e))?;
            // Beside it first: the one of before stays until there is another, also where that is the file itself.
            let beside = to.with_extension("new");
            let kept = fs::create_dir_all(FOLDER).and_then(|()| fs::copy(record, &beside)).and_then(|_| fs::rename(&beside, &to));
            kept.map_err(|e| {
                let _ = fs::remove_file(&beside);
                unwritable(&to, &e)
            })?;
        }
        Action::List => {
            let Ok(entries) = fs::read_dir(FOLDER) else { return out.end(Exit::Passed) };
            let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "jsonl")).collect();
            files.sort();
            for file in files {
                let name = file.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
                match Record::read(&file) {
                    Ok(records) => records.iter().for_each(|r| {
                        let git = r.git.as_ref().map(|g| format!("{:.12}{}", g.commit, if g.dirty { "+" } else { "" })).unwrap_or_default();
                        out.say(format_args!("{name:<20} {}  {git:<13}  {} cases  {}", r.started, r.cases.len(), r.column()));
                    }),
                    Err(e) => out.say(format_args!("{name:<20} {e}")),
                }
            }
        }
        Action::Rm { name } => {
            let file = path(name)?;
            fs::remove_file(&file).map_err(|e| (Exit::Unreadable, format!("{}: {e}", file.display())))?;
        }
    }
    out.end(Exit::Passed)
}
