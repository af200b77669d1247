//! The run folder: what a run leaves behind, file by file.
//!
//! ```text
//! config.toml        the description as it ran            environment.json   machine, device, versions, command
//! metrics.jsonl      what the computation determines      timing.jsonl       what the machine determines
//! events.out.*       the same for TensorBoard             checkpoints/       one folder each, all or nothing
//! weights.safetensors, evaluation.json, result.json, loss.svg, metric.svg, report.html: at the end
//! ```
//!
//! `metrics.jsonl` is the same, byte for byte, for any number of threads and however often the run was interrupted: a
//! checkpoint knows how long the file was, and a run that goes on cuts it back to there. Lines after that were of steps
//! that are made again.
use crate::{Document, Failure, events::EventWriter};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::Instant,
};

fn broken(path: &Path, e: &std::io::Error) -> Failure {
    Failure::Storage(format!("{}: {e}", path.display()))
}
/// A number as JSON has it: what is not finite is null.
pub fn number(v: f64) -> Value {
    serde_json::Number::from_f64(v).map_or(Value::Null, Value::Number)
}

/// An open run folder.
pub struct RunFolder {
    path: PathBuf,
    metrics: File,
    metrics_bytes: u64,
    timing: File,
    events: EventWriter,
    begun: Instant,
}
/// Where the lines of a run stood when a checkpoint was made.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// length of `metrics.jsonl`
    pub metrics_bytes: u64,
    /// the step
    pub step: u64,
}
impl RunFolder {
    /// Opens the folder for a run at its start, or for one that goes on from `mark`.
    ///
    /// # Errors
    /// `Storage`: it cannot be written.
    pub fn open(path: &Path, document: &Document, environment: &Value, mark: Option<Mark>) -> Result<RunFolder, Failure> {
        std::fs::create_dir_all(path).map_err(|e| broken(path, &e))?;
        let open = |name: &str| {
            let path = path.join(name);
            OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&path).map_err(|e| broken(&path, &e))
        };
        let (mut metrics, mut timing) = (open("metrics.jsonl")?, open("timing.jsonl")?);
        let metrics_path = path.join("metrics.jsonl");
        let had = metrics.metadata().map_err(|e| broken(&metrics_path, &e))?.len();
        let metrics_bytes = mark.map_or(0, |m| m.metrics_bytes);
        if had < metrics_bytes {
            return Err(Failure::Input(format!("{}: {had} bytes, but the checkpoint was made after {metrics_bytes}: lines are lost", metrics_path.display())));
        }
        metrics.set_len(metrics_bytes).and_then(|()| metrics.seek(SeekFrom::End(0))).map_err(|e| broken(&metrics_path, &e))?;
        match mark {
            None => timing.set_len(0).and_then(|()| timing.rewind()),
            // Times are a diary: nothing is cut out of it.
            Some(_) => timing.seek(SeekFrom::End(0)).map(|_| ()),
        }
        .map_err(|e| broken(&path.join("timing.jsonl"), &e))?;
        if mark.is_none() {
            for old in ["result.json", "evaluation.json", "report.html", "loss.svg", "metric.svg", "weights.safetensors"] {
                // A file of an earlier run of the same name would be taken for this one's.
                match std::fs::remove_file(path.join(old)) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(broken(&path.join(old), &e)),
                    _ => {}
                }
            }
        }
        write(&path.join("config.toml"), document.to_toml().as_bytes())?;
        write(&path.join("environment.json"), format!("{environment:#}\n").as_bytes())?;
        let events = match mark {
            None => EventWriter::create(path),
            Some(mark) => EventWriter::resume(path, mark.step + 1),
        }
        .map_err(|e| broken(path, &e))?;
        let mut folder = RunFolder { path: path.to_path_buf(), metrics, metrics_bytes, timing, events, begun: Instant::now() };
        if let Some(mark) = mark {
            folder.time(json!({ "kind": "resume", "step": mark.step }))?;
        }
        Ok(folder)
    }
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// A line of `metrics.jsonl`.
    ///
    /// # Errors
    /// `Storage`.
    pub fn metric(&mut self, line: &Value) -> Result<(), Failure> {
        let text = format!("{line}\n");
        self.metrics.write_all(text.as_bytes()).map_err(|e| broken(&self.path.join("metrics.jsonl"), &e))?;
        self.metrics_bytes += text.len() as u64;
        Ok(())
    }
    /// A line of `timing.jsonl`, with the seconds since the run was opened.
    ///
    /// # Errors
    /// `Storage`.
    pub fn time(&mut self, mut line: Value) -> Result<(), Failure> {
        if let Value::Object(fields) = &mut line {
            fields.entry("seconds").or_insert_with(|| number(self.begun.elapsed().as_secs_f64()));
        }
        self.timing.write_all(format!("{line}\n").as_bytes()).map_err(|e| broken(&self.path.join("timing.jsonl"), &e))
    }
    /// Numbers for TensorBoard.
    ///
    /// # Errors
    /// `Storage`.
    pub fn scalars(&mut self, step: u64, values: &BTreeMap<String, f64>) -> Result<(), Failure> {
        for (tag, value) in values {
            self.events.scalar(tag, step, *value).map_err(|e| broken(&self.path, &e))?;
        }
        Ok(())
    }
    /// Makes all lines durable, so that a checkpoint may count on them; gives the length of `metrics.jsonl`.
    ///
    /// # Errors
    /// `Storage`.
    pub fn settle(&mut self) -> Result<u64, Failure> {
        self.metrics.sync_data().map_err(|e| broken(&self.path.join("metrics.jsonl"), &e))?;
        self.events.flush().map_err(|e| broken(&self.path, &e))?;
        Ok(self.metrics_bytes)
    }
    /// A file of the end, whole or not at all.
    ///
    /// # Errors
    /// `Storage`.
    pub fn document(&self, name: &str, value: &Value) -> Result<(), Failure> {
        write(&self.path.join(name), format!("{value:#}\n").as_bytes())
    }
}
/// Writes a file so that a reader finds the old one or the new one whole.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let partial = path.with_extension("partial");
    let all = || {
        let mut file = File::create(&partial)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        std::fs::rename(&partial, path)
    };
    all().map_err(|e| {
        let _ = std::fs::remove_file(&partial);
        broken(path, &e)
    })
}
