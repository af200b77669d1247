//! What a run looks like: a bar on a terminal, one line per epoch elsewhere. Colours end where `NO_COLOR` is set.
use adamant_train::{EpochReport, Plan, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// A watcher for this terminal, or for none. With `json`, stdout is kept for the document and text goes to stderr.
pub fn watch(json: bool) -> Box<dyn Watch> {
    if std::io::stderr().is_terminal() { Box::new(Bar { bar: ProgressBar::hidden(), json }) } else { Box::new(Lines { json, epochs: 0 }) }
}
/// A line of text to whom it may concern.
pub fn say(json: bool, text: &str) {
    if json { eprintln!("{text}") } else { println!("{text}") }
}
fn begin(json: bool, plan: &Plan) {
    say(
        json,
        &format!(
            "{} parameters on {}; {} rows to train on, {} to test; {} epochs of {} steps, batch {}; {}, clipping {}; seed {}",
            plan.parameters, plan.device, plan.rows.0, plan.rows.1, plan.epochs, plan.steps, plan.batch, plan.optimizer, plan.clip, plan.seed
        ),
    );
}
fn line(report: &EpochReport, epochs: usize) -> String {
    format!("epoch {:>3}/{epochs}  loss {:.4}  lr {:.2e}  {:.1} s", report.epoch, report.loss, report.lr, report.seconds)
}

struct Lines {
    json: bool,
    epochs: usize,
}
impl Watch for Lines {
    fn begin(&mut self, plan: &Plan) {
        self.epochs = plan.epochs;
        begin(self.json, plan);
    }
    fn epoch(&mut self, report: &EpochReport) {
        say(self.json, &line(report, self.epochs));
    }
}

struct Bar {
    bar: ProgressBar,
    json: bool,
}
impl Watch for Bar {
    fn begin(&mut self, plan: &Plan) {
        begin(self.json, plan);
        let template = if std::env::var_os("NO_COLOR").is_some() { "{bar:30} {pos}/{len} steps  {msg}" } else { "{bar:30.green} {pos}/{len} steps  {msg}" };
        self.bar = ProgressBar::with_draw_target(Some((plan.epochs * plan.steps) as u64), ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
        self.bar.set_prefix(plan.epochs.to_string());
    }
    fn step(&mut self, _epoch: usize, _step: usize) {
        self.bar.inc(1);
    }
    fn epoch(&mut self, report: &EpochReport) {
        let epochs = self.bar.prefix().parse().unwrap_or(report.epoch);
        self.bar.set_message(line(report, epochs));
        if report.epoch == epochs {
            self.bar.finish();
        }
    }
}
impl Drop for Bar {
    fn drop(&mut self) {
        if !self.bar.is_finished() {
            self.bar.abandon();
        }
    }
}
