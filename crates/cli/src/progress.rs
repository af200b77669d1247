//! What a run looks like: a bar on a terminal, plain lines elsewhere. Colours end where `NO_COLOR` is set.
use crate::out;
use adamant_train::{EpochReport, Plan, StepReport, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

/// Where there is no terminal, a line within an epoch comes at most this often.
const QUIET: Duration = Duration::from_secs(10);

/// A watcher for this terminal, or for none. With `json`, stdout is kept for the document and text goes to stderr.
pub fn watch(json: bool, quiet: bool) -> Box<dyn Watch> {
    match (quiet, std::io::stderr().is_terminal()) {
        (true, _) => Box::new(Quiet),
        (false, true) => Box::new(Bar { bar: ProgressBar::hidden(), json, plan: None, step: None, valid: None }),
        (false, false) => Box::new(ProgressLines { json, plan: None, said: Instant::now() }),
    }
}
/// Plain lines, wherever they go.
pub fn lines() -> Box<dyn Watch + Send> {
    Box::new(ProgressLines { json: false, plan: None, said: Instant::now() })
}
/// A line of text to whom it may concern.
pub fn say(json: bool, text: &str) {
    if json {
        out::note(text);
    } else {
        // The run's results are in its folder; that nobody could read this line is no reason to stop.
        let _ = out::line(text);
    }
}
fn begin(plan: &Plan) -> String {
    let length = match plan.epochs {
        Some(n) => format!("{n} epochs, {} steps", plan.steps),
        None => format!("{} iterations", plan.steps),
    };
    let batch = if plan.accumulate == 1 { plan.batch.to_string() } else { format!("{} x {}", plan.accumulate, plan.batch) };
    let valid = if plan.rows.valid > 0 { format!("{} to validate, ", plan.rows.valid) } else { String::new() };
    let mut text = format!(
        "{} parameters on {}; {} rows to train on, {valid}{} to test; {length}, batch {batch}; {}, clipping {}; seed {}",
        plan.parameters, plan.device, plan.rows.train, plan.rows.test, plan.optimizer, plan.clip, plan.seed
    );
    if plan.precision != "f32" {
        text += &format!("; {}", plan.precision);
    }
    if let Some(folder) = &plan.folder {
        text += &format!("; run folder {}", folder.display());
    }
    text
}
fn epoch(report: &EpochReport, plan: Option<&Plan>) -> String {
    let head = match plan.and_then(|p| p.epochs) {
        Some(n) => format!("epoch {:>3}/{n}", report.epoch),
        None => format!("step {:>6}/{}", report.step, plan.map_or(0, |p| p.steps)),
    };
    let valid = match report.valid {
        Some((loss, Some(accuracy))) => format!("  valid {loss:.4}, {:.2} %", 100.0 * accuracy),
        Some((loss, None)) => format!("  valid {loss:.4}"),
        None => String::new(),
    };
    format!("{head}  loss {:.4}{valid}  lr {:.2e}  {:.1} s", report.loss, report.lr, report.seconds)
}
fn resumed(step: u64) -> String {
    format!("resuming from step {step}")
}

/// Says what a person must know in any case.
struct Quiet;
impl Watch for Quiet {
    fn resume(&mut self, step: u64) {
        out::note(resumed(step));
    }
    fn warn(&mut self, text: &str) {
        out::note(format!("warning: {text}"));
    }
}

struct ProgressLines {
    json: bool,
    plan: Option<Plan>,
    said: Instant,
}
impl Watch for ProgressLines {
    fn begin(&mut self, plan: &Plan) {
        say(self.json, &begin(plan));
        self.plan = Some(plan.clone());
    }
    fn resume(&mut self, step: u64) {
        out::note(resumed(step));
    }
    fn log(&mut self, r: &StepReport) {
        if self.said.elapsed() < QUIET {
            return;
        }
        self.said = Instant::now();
        let steps = self.plan.as_ref().map_or(0, |p| p.steps);
        say(self.json, &format!("step {:>6}/{steps}  loss {:.4}  lr {:.2e}  {:.0} rows/s", r.step, r.loss, r.lr, r.rows_per_second));
    }
    fn epoch(&mut self, report: &EpochReport) {
        self.said = Instant::now();
        say(self.json, &epoch(report, self.plan.as_ref()));
    }
    fn warn(&mut self, text: &str) {
        out::note(format!("warning: {text}"));
    }
}

/// One line that moves: how far, how long still, loss, rate, and the last validation.
struct Bar {
    bar: ProgressBar,
    json: bool,
    plan: Option<Plan>,
    step: Option<StepReport>,
    valid: Option<String>,
}
impl Bar {
    fn line(&self) {
        let mut parts = Vec::new();
        if let Some(s) = &self.step {
            if self.plan.as_ref().is_some_and(|p| p.epochs.is_some()) {
                parts.push(format!("epoch {}", s.epoch));
            }
            parts.push(format!("loss {:.4}", s.loss));
            parts.push(format!("{:.0} rows/s", s.rows_per_second));
        }
        parts.extend(self.valid.clone());
        self.bar.set_message(parts.join("  "));
    }
}
impl Watch for Bar {
    fn begin(&mut self, plan: &Plan) {
        say(self.json, &begin(plan));
        let colours = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        let template = if colours { "{bar:24.cyan/dim} {pos}/{len}  {elapsed} < {eta}  {msg}" } else { "{bar:24} {pos}/{len}  {elapsed} < {eta}  {msg}" };
        self.bar = ProgressBar::with_draw_target(Some(plan.steps), ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("━╸─"));
        }
        self.plan = Some(plan.clone());
    }
    fn resume(&mut self, step: u64) {
        self.bar.println(resumed(step));
        // What was done before says nothing about how fast this start is.
        self.bar.set_position(step);
        self.bar.reset_eta();
    }
    fn step(&mut self, step: u64) {
        self.bar.set_position(step);
    }
    fn log(&mut self, report: &StepReport) {
        self.step = Some(*report);
        self.line();
    }
    fn epoch(&mut self, report: &EpochReport) {
        self.valid = report.valid.map(|(loss, accuracy)| match accuracy {
            Some(a) => format!("valid {loss:.4}, {:.2} %", 100.0 * a),
            None => format!("valid {loss:.4}"),
        });
        self.bar.println(epoch(report, self.plan.as_ref()));
        self.line();
        if self.plan.as_ref().is_some_and(|p| p.steps == report.step) {
            self.bar.finish_and_clear();
        }
    }
    fn warn(&mut self, text: &str) {
        self.bar.println(out::plain(&format!("warning: {text}")));
    }
}
impl Drop for Bar {
    fn drop(&mut self) {
        if !self.bar.is_finished() {
            self.bar.abandon();
        }
    }
}
