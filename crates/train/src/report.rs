//! The report of a run: pictures and a page that are made from the files of its folder alone.
//!
//! [`files`] reads what is there, [`curves`] makes plots of it, [`page`] and [`sections`] put them into one HTML file
//! with everything inside: no network, no library, light and dark, usable by keyboard and screen reader. A folder that
//! is half there gives a report of what is there, which says what is missing.
//!
//! Invariants: every text that comes from the run is escaped where it is written; equal folders give equal reports.
mod curves;
pub(crate) mod files;
mod image;
mod model;
mod page;
mod sections;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Why no report was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// There is no such folder, or it holds no file of a run.
    #[error("{} is no run folder: it has neither metrics.jsonl nor config.toml nor environment.json", .0.display())]
    NoRun(PathBuf),
    /// A file of the report cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// the file
        path: PathBuf,
        /// the cause
        source: io::Error,
    },
}

/// Refuses a folder that holds no file of a run.
pub(crate) fn check_is_run(folder: &Path) -> Result<(), ReportError> {
    let files = ["metrics.jsonl", "config.toml", "environment.json"];
    if files.iter().any(|file| folder.join(file).is_file()) { Ok(()) } else { Err(ReportError::NoRun(folder.to_path_buf())) }
}
/// Writes `loss.svg`, `metric.svg` and `report.html` into a run folder, from the folder's own files, and returns the
/// page's path. Files of an earlier report are replaced.
///
/// ```
/// # let run = std::env::temp_dir().join(format!("adamant-doc-report-{}", std::process::id()));
/// # std::fs::create_dir_all(&run)?;
/// std::fs::write(run.join("metrics.jsonl"), "{\"kind\":\"step\",\"step\":1,\"epoch\":1,\"loss\":2.3,\"lr\":0.01}\n")?;
/// let page = adamant_train::report::write(&run)?;
/// assert!(std::fs::read_to_string(page)?.contains("evaluation.json is not there"));
/// # std::fs::remove_dir_all(&run)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The folder holds no run, or cannot be written.
pub fn write(run: &Path) -> Result<PathBuf, ReportError> {
    check_is_run(run)?;
    let told = files::read(run);
    let curves = curves::of(&told);
    let put = |name: &str, text: &str| {
        let path = run.join(name);
        let fail = |source| ReportError::Write { path: path.clone(), source };
        adamant_formats::whole::replace(&path, fail, |file| file.write_all(text.as_bytes()).map_err(fail))?;
        Ok(path)
    };
    put("loss.svg", &curves.loss.document())?;
    put("metric.svg", &curves.metric.document())?;
    let folder = run.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    put("report.html", &page::html(&told, &curves, &folder))
}
