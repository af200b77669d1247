//! Finds a program as a shell does, before anything is started.
use super::LaunchError;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// The file of a program: a path as it is, a name looked up in the folders of `path`.
///
/// # Errors
/// It is not there, or cannot be run.
pub fn find_program(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, LaunchError> {
    let name = || program.to_string_lossy().into_owned();
    if Path::new(program).components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        let at = PathBuf::from(program);
        return match why_not(&at) {
            None => Ok(at),
            Some(WhyNotRun::Absent) => Err(LaunchError::NotFound { program: name(), looked: "at that path".into() }),
            Some(WhyNotRun::Unfit(reason)) => Err(LaunchError::NotExecutable { program: name(), reason }),
        };
    }
    let path = path.unwrap_or_default();
    let mut unfit = None;
    for folder in std::env::split_paths(path) {
        let at = folder.join(program);
        match why_not(&at) {
            None => return Ok(at),
            Some(WhyNotRun::Absent) => {}
            Some(WhyNotRun::Unfit(reason)) => unfit = unfit.or(Some((at, reason))),
        }
    }
    Err(match unfit {
        Some((at, reason)) => LaunchError::NotExecutable { program: at.display().to_string(), reason },
        None => LaunchError::NotFound { program: name(), looked: format!("in PATH ({})", path.to_string_lossy()) },
    })
}
enum WhyNotRun {
    Absent,
    Unfit(String),
}
fn why_not(at: &Path) -> Option<WhyNotRun> {
    match std::fs::metadata(at) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Some(WhyNotRun::Unfit(e.to_string())),
        Err(_) => Some(WhyNotRun::Absent),
        Ok(meta) if meta.is_dir() => Some(WhyNotRun::Unfit("it is a folder".into())),
        Ok(_) => is_executable(at)
            .then_some(())
            .map_or_else(|| Some(WhyNotRun::Unfit("it may not be executed; `chmod +x` it, or name its interpreter".into())), |()| None),
    }
}
#[cfg(unix)]
fn is_executable(at: &Path) -> bool {
    rustix::fs::access(at, rustix::fs::Access::EXEC_OK).is_ok()
}
#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    true
}
