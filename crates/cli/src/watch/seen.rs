//! What the files of a run say so far, as a screen needs it. Lines of kinds that are not known, and those that cannot be read, are passed over.
use super::curve::SeenCurve;
use crate::{
    follow::{Grown, LineFollower},
    out,
};
use adamant_train::{
    Failure,
    storage::{Operation, StorageError},
};
use serde_json::Value;
use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};

/// The most lines of a diary that are kept.
const MOST_NOTES: usize = 500;

/// Everything that is known of a run.
pub struct SeenRun {
    pub folder: PathBuf,
    files: [LineFollower; 4],
    is_behind: bool,
    pub metrics: SeenMetrics,
    pub machine: SeenMachine,
    pub incidents: Vec<Value>,
    /// lines of `alerts.jsonl`, as the diary has them
    pub alerts: VecDeque<String>,
}
/// Of `metrics.jsonl`.
#[derive(Default)]
pub struct SeenMetrics {
    /// the step and the epoch of the last line
    pub step: u64,
    pub epoch: u64,
    pub loss: SeenCurve,
    pub epoch_loss: SeenCurve,
    pub valid: SeenCurve,
    pub rate: SeenCurve,
    pub norm: SeenCurve,
    /// the last validation, and the test
    pub last_valid: Option<Value>,
    pub test: Option<Value>,
    /// the last line of kind `layers`
    pub layers: Option<Value>,
    /// why the run ended before its last step
    pub stopped: Option<String>,
    pub notes: VecDeque<String>,
}
/// Of `timing.jsonl`.
#[derive(Default)]
pub struct SeenMachine {
    pub rows: SeenCurve,
    pub memory: SeenCurve,
    pub wait: SeenCurve,
    /// the step of the last checkpoint
    pub checkpoint: Option<u64>,
    pub notes: VecDeque<String>,
}
impl SeenRun {
    pub fn of(folder: &Path) -> SeenRun {
        let follow = |name: &str| LineFollower::new(folder.join(name));
        SeenRun {
            folder: folder.to_path_buf(),
            files: [follow("metrics.jsonl"), follow("timing.jsonl"), follow("incidents.jsonl"), follow("alerts.jsonl")],
            is_behind: false,
            metrics: SeenMetrics::default(),
            machine: SeenMachine::default(),
            incidents: Vec::new(),
            alerts: VecDeque::new(),
        }
    }
    /// Is the folder that of a run?
    pub fn is_run(&self) -> bool {
        ["config.toml", "metrics.jsonl", "checkpoints"].iter().any(|name| self.folder.join(name).exists())
    }
    /// `result.json`, where the run has ended.
    pub fn result(&self) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(self.folder.join("result.json")).ok()?).ok()
    }
    /// Is there more in the files than was read?
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }
    /// Reads on in each of the files, a few MiB of it.
    ///
    /// # Errors
    /// `Storage`: one of them cannot be read.
    pub fn read_on(&mut self) -> Result<(), Failure> {
        let [metrics, timing, incidents, alerts] = &mut self.files;
        let read = |follower: &mut LineFollower| follower.read_on().map_err(|e| StorageError::of(Operation::Read, follower.path(), 0, &e));
        let (metrics, timing, incidents, alerts) = (read(metrics)?, read(timing)?, read(incidents)?, read(alerts)?);
        self.is_behind = metrics.more || timing.more || incidents.more || alerts.more;
        if metrics.anew {
            self.metrics = SeenMetrics::default();
        }
        if timing.anew {
            self.machine = SeenMachine::default();
        }
        if incidents.anew {
            self.incidents.clear();
        }
        if alerts.anew {
            self.alerts.clear();
        }
        for line in values(&alerts) {
            let text = |key: &str| line[key].as_str().unwrap_or("?").to_string();
            note(&mut self.alerts, line["step"].as_u64().unwrap_or(0), &format!("alert `{}`: {}", text("rule"), text("text")));
        }
        values(&metrics).for_each(|line| self.metrics.take(line));
        values(&timing).for_each(|line| self.machine.take(&line));
        self.incidents.extend(values(&incidents).filter(Value::is_object));
        Ok(())
    }
    /// Reads all that there is.
    ///
    /// # Errors
    /// As [`SeenRun::read_on`].
    pub fn read_all(&mut self) -> Result<(), Failure> {
        self.read_on()?;
        while self.is_behind {
            self.read_on()?;
        }
        Ok(())
    }
}
/// The lines that can be read.
fn values(grown: &Grown) -> impl Iterator<Item = Value> {
    grown.lines.iter().filter_map(|line| serde_json::from_slice(line).ok())
}
impl SeenMetrics {
    fn take(&mut self, mut line: Value) {
        if !line.is_object() {
            return;
        }
        let step = line["step"].as_u64().unwrap_or(self.step);
        let kind = line["kind"].as_str().unwrap_or_default().to_string();
        self.step = self.step.max(step);
        self.epoch = line["epoch"].as_u64().unwrap_or(self.epoch);
        match kind.as_str() {
            "step" => {
                self.loss.add(step, line["loss"].as_f64());
                self.rate.add(step, line["lr"].as_f64());
                self.norm.add(step, line["grad_norm"].as_f64());
            }
            "epoch" => {
                self.epoch_loss.add(step, line["loss"].as_f64());
                let mut text = format!("epoch {}: loss {}", self.epoch, figure(line["loss"].as_f64()));
                if line["valid"].is_object() {
                    self.valid.add(step, line["valid"]["loss"].as_f64());
                    text += &format!(", valid {}", valid_text(&line["valid"]));
                    self.last_valid = Some(line["valid"].take());
                }
                self.note(step, &text);
            }
            "test" => {
                self.note(step, &format!("test: {}", valid_text(&line)));
                self.test = Some(line);
            }
            "layers" => self.layers = Some(line),
            "stop" => {
                let reason = line["reason"].as_str().unwrap_or_default().to_string();
                self.note(step, &format!("the end: {reason}"));
                self.stopped = Some(reason);
            }
            "control" => {
                let text = match line["action"].as_str().unwrap_or_default() {
                    "rate" => format!("asked for: the rate × {}, now {}", figure(line["factor"].as_f64()), figure(line["lr"].as_f64())),
                    "stop_after_epoch" => "asked for: the end behind the epoch".into(),
                    other => format!("asked for: {other}"),
                };
                self.note(step, &text);
            }
            "restore" => {
                let (to, lr) = (line["to"].as_u64().unwrap_or(0), figure(line["lr"].as_f64()));
                self.note(step, &format!("a bad step: the state is that of step {to}, the rate is {lr}"));
            }
            "fallback" => self.note(step, &format!("`{}` runs in f32", line["layer"].as_str().unwrap_or("?"))),
            "gap" => self.note(step, "lines before this one are lost"),
            _ => {}
        }
    }
    fn note(&mut self, step: u64, text: &str) {
        note(&mut self.notes, step, text);
    }
}
impl SeenMachine {
    fn take(&mut self, line: &Value) {
        let step = line["step"].as_u64().unwrap_or(0);
        match line["kind"].as_str().unwrap_or_default() {
            "step" => {
                self.rows.add(step, line["rows_per_second"].as_f64());
                self.memory.add(step, line["rss_bytes"].as_f64());
                self.wait.add(step, line["loader_wait_seconds"].as_f64());
            }
            "epoch" => self.memory.add(step, line["rss_bytes"].as_f64()),
            "checkpoint" => {
                self.checkpoint = Some(step);
                note(&mut self.notes, step, "a checkpoint");
            }
            "resume" => note(&mut self.notes, step, "goes on from a checkpoint"),
            "pause" => note(&mut self.notes, step, &format!("was paused for {} s", figure(line["paused_seconds"].as_f64()))),
            "op_by_op" => note(&mut self.notes, step, &format!("steps run op by op: {}", line["reason"].as_str().unwrap_or("?"))),
            _ => {}
        }
    }
}
fn note(notes: &mut VecDeque<String>, step: u64, text: &str) {
    // Texts of files: nothing of them orders the terminal about.
    notes.push_back(format!("{step:>8}  {}", out::plain(&text.replace('\n', " "))));
    if notes.len() > MOST_NOTES {
        notes.pop_front();
    }
}
/// A number as it is shown: four digits that matter.
pub fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(0.0) => "0".into(),
        Some(v) if (1e-3..1e5).contains(&v.abs()) => {
            let digits = (3 - v.abs().log10().floor() as i32).clamp(0, 6) as usize;
            format!("{v:.digits$}")
        }
        Some(v) => format!("{v:.3e}"),
    }
}
/// The figures of a validation or a test, by name.
pub fn valid_text(of: &Value) -> String {
    let hidden = ["rows", "step", "epoch", "kind"];
    let figures = of.as_object().into_iter().flatten().filter(|(name, v)| !hidden.contains(&name.as_str()) && v.is_number());
    figures.map(|(name, v)| format!("{name} {}", figure(v.as_f64()))).collect::<Vec<_>>().join(", ")
}
/// Bytes for a person.
pub fn bytes_text(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    format!("{value:.*} {}", usize::from(unit > 0 && value < 100.0), units.get(unit).copied().unwrap_or("B"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    #[test]
    fn a_line_of_a_run_that_is_not_seen_or_ends_the_viewer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let metrics = [
            r#"{"kind":"step","step":2,"epoch":1,"loss":0.5,"lr":0.1,"grad_norm":null}"#,
            r#"{"kind":"step","step":4,"epoch":1,"loss":null,"lr":"x","grad_norm":3}"#,
            "no json",
            "[1, 2]",
            "null",
            r#"{"kind":7,"step":-1}"#,
            r#"{"kind":"epoch","step":4,"epoch":1,"loss":0.4,"lr":0.1,"valid":{"loss":0.3,"accuracy":0.75,"rows":4}}"#,
            "{\"kind\":\"stop\",\"step\":4,\"epoch\":1,\"reason\":\"\\u001b[31mred\"}",
            r#"{"kind":"test","step":4,"epoch":1,"loss":0.2,"rows":3}"#,
            r#"{"kind":"step","step":5,"ep"#,
        ];
        fs::write(path.join("metrics.jsonl"), metrics.join("\n")).unwrap();
        fs::write(path.join("timing.jsonl"), "{\"kind\":\"step\",\"step\":2,\"rss_bytes\":1048576}\n{\"kind\":\"checkpoint\",\"step\":4}\n").unwrap();
        let mut seen = SeenRun::of(path);
        assert!(seen.is_run());
        seen.read_all().unwrap();
        let m = &seen.metrics;
        assert_eq!((m.step, m.loss.last(), m.rate.last(), m.norm.last()), (4, Some((2, 0.5)), Some((2, 0.1)), Some((4, 3.0))));
        assert_eq!((m.valid.last(), seen.machine.memory.last(), seen.machine.checkpoint), (Some((4, 0.3)), Some((2, 1048576.0)), Some(4)));
        assert!(m.notes.iter().all(|n| !n.contains('\u{1b}')) && m.notes.len() == 3, "{:?}", m.notes);
        assert_eq!(valid_text(m.last_valid.as_ref().unwrap()), "accuracy 0.7500, loss 0.3000");
        // The run goes back.
        fs::write(path.join("metrics.jsonl"), format!("{}\n", metrics[0])).unwrap();
        seen.read_all().unwrap();
        assert_eq!((seen.metrics.step, seen.metrics.stopped.is_none(), seen.metrics.notes.len()), (2, true, 0));
    }
    #[test]
    fn a_figure_that_says_too_little_or_too_much() {
        for (value, text) in
            [(0.0, "0"), (0.123456, "0.1235"), (1234.5678, "1235"), (99999.0, "99999"), (1e-4, "1.000e-4"), (-12.345, "-12.35"), (1e9, "1.000e9")]
        {
            assert_eq!(figure(Some(value)), text);
        }
        assert_eq!(figure(None), "-");
        assert_eq!((bytes_text(512.0), bytes_text(1536.0), bytes_text(3e9)), ("512 B".into(), "1.5 KiB".into(), "2.8 GiB".into()));
    }
}
