//! Samples that criterion left: `target/criterion/GROUP/FUNCTION/new/sample.json`. Criterion stays the harness of single
//! kernels; its samples join the record, so that they are merged and compared like all others.
use crate::record::Case;
use serde::Deserialize;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Why samples cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CriterionError {
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// which
        path: PathBuf,
        /// the cause
        source: io::Error,
    },
    /// A file is not what criterion writes.
    #[error("{}: {what}", path.display())]
    Form {
        /// which
        path: PathBuf,
        /// what is wrong
        what: String,
    },
}
/// Each sample is so many iterations, and all of them took so many nanoseconds.
#[derive(Deserialize)]
struct Samples {
    iters: Vec<f64>,
    times: Vec<f64>,
}
#[derive(Deserialize)]
struct Benchmark {
    full_id: String,
}

/// The samples of all benchmarks below a folder, by name: `criterion/GROUP/FUNCTION`.
///
/// # Errors
/// The folder or a file cannot be read, or is not criterion's.
pub fn read(folder: &Path) -> Result<Vec<Case>, CriterionError> {
    let mut found = Vec::new();
    collect(folder, &mut found)?;
    found.sort();
    found.iter().map(|path| case(path)).collect()
}
/// Every `new/sample.json`; `base` holds the run before.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), CriterionError> {
    let failed = |source| CriterionError::Read { path: folder.into(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Links are not followed: they may lead back.
        match entry.file_type().map_err(failed)? {
            kind if kind.is_dir() => collect(&entry.path(), found)?,
            kind if kind.is_file() && entry.path().ends_with("new/sample.json") => found.push(entry.path()),
            _ => {}
        }
    }
    Ok(())
}
fn case(path: &Path) -> Result<Case, CriterionError> {
    let read = |path: &Path| fs::read_to_string(path).map_err(|source| CriterionError::Read { path: path.into(), source });
    let form = |what: String| CriterionError::Form { path: path.into(), what };
    let samples: Samples = serde_json::from_str(&read(path)?).map_err(|e| form(e.to_string()))?;
    let about: Benchmark = serde_json::from_str(&read(&path.with_file_name("benchmark.json"))?).map_err(|e| form(e.to_string()))?;
    if samples.iters.len() != samples.times.len() || samples.iters.is_empty() {
        return Err(form(format!("{} times of {} samples", samples.times.len(), samples.iters.len())));
    }
    let ns: Vec<f64> = samples.times.iter().zip(&samples.iters).map(|(t, n)| t / n).collect();
    if ns.iter().any(|x| !x.is_finite() || *x <= 0.0) {
        return Err(form("a time is no positive number".into()));
    }
    let waited = vec![0.0; ns.len()];
    Ok(Case::new(format!("criterion/{}", about.full_id), "adamant").sampled(ns, waited, samples.iters[0] as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_the_run_before_or_of_a_broken_file() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for run in ["new", "base"] {
            put(&format!("gemm/cpu/{run}/sample.json"), r#"{"sampling_mode":"Linear","iters":[10.0,20.0],"times":[1000.0,2200.0]}"#);
            put(&format!("gemm/cpu/{run}/benchmark.json"), r#"{"group_id":"gemm","function_id":"cpu","full_id":"gemm/cpu"}"#);
        }
        let cases = read(folder.path()).unwrap();
        assert_eq!(cases.iter().map(|c| (&*c.workload, &*c.samples_ns)).collect::<Vec<_>>(), [("criterion/gemm/cpu", &[100.0, 110.0][..])]);
        for broken in [r#"{"iters":[1.0],"times":[]}"#, r#"{"iters":[0.0],"times":[1.0]}"#, "{"] {
            put("gemm/cpu/new/sample.json", broken);
            assert!(matches!(read(folder.path()), Err(CriterionError::Form { .. })), "{broken}");
        }
        assert!(read(&folder.path().join("none")).is_err());
    }
}
