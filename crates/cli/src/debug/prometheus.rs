//! Figures of a run in the text format that Prometheus reads.
use super::feed::KnownRun;
use adamant_train::folder::text_of;
use serde_json::Value;
use std::{fmt::Write, path::Path};

/// A figure: its name, what it is, of which kind, and its values with their label.
struct Figure {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    values: Vec<(Option<(&'static str, String)>, f64)>,
}
/// The figures that are known now.
pub fn text(run: &Path, known: &KnownRun) -> String {
    let record = &known.record;
    let last = |file: usize, kind: &str| record.last(file, kind).unwrap_or_default();
    let (step, epoch, timing) = (last(0, "step"), last(0, "epoch"), last(1, "step"));
    let status = &known.status;
    let one = |value: Option<f64>| value.map(|v| (None, v)).into_iter().collect::<Vec<_>>();
    let numbers = |of: &Value, label: &'static str, hidden: &[&str]| {
        let fields = of.as_object().into_iter().flatten().filter(|(name, _)| !hidden.contains(&name.as_str()));
        fields.filter_map(|(name, v)| Some((Some((label, name.clone())), v.as_f64()?))).collect::<Vec<_>>()
    };
    let newest = |name: &str| status[name].as_f64().or_else(|| [&step, &epoch].into_iter().filter_map(|line| line[name].as_f64()).reduce(f64::max));
    let gauge = |name, help, values| Figure { name, help, kind: "gauge", values };
    let figures = [
        gauge("adamant_up", "1 while the run answers on its socket.", one(Some(if status["step"].is_u64() { 1.0 } else { 0.0 }))),
        gauge("adamant_step", "Steps done.", one(newest("step"))),
        gauge("adamant_steps", "Steps of the whole run, where it says so.", one(status["steps"].as_f64())),
        gauge("adamant_epoch", "The epoch, from 1.", one(newest("epoch"))),
        gauge("adamant_loss", "The loss of the last step that was logged.", one(step["loss"].as_f64())),
        gauge("adamant_epoch_loss", "The mean loss of the last epoch.", one(epoch["loss"].as_f64())),
        gauge("adamant_learning_rate", "The learning rate.", one(step["lr"].as_f64())),
        gauge("adamant_grad_norm", "The norm of all gradients before clipping.", one(step["grad_norm"].as_f64())),
        gauge("adamant_stability_score", "1 where no number was bad and nothing was clipped, else less.", one(step["stability_score"].as_f64())),
        gauge("adamant_valid", "What the last validation gave.", numbers(&epoch["valid"], "metric", &["rows"])),
        gauge("adamant_rows_per_second", "Rows learned in a second.", one(timing["rows_per_second"].as_f64())),
        gauge("adamant_loader_wait_seconds", "How long the loader was waited for since the line before.", one(timing["loader_wait_seconds"].as_f64())),
        gauge("adamant_resident_bytes", "Memory of the process.", one(timing["rss_bytes"].as_f64())),
        gauge("adamant_bad_steps", "Steps whose numbers were not finite or too large.", numbers(&step["bad_steps"], "kind", &[])),
        gauge("adamant_incidents", "Lines of incidents.jsonl.", one(Some(record.count(2) as f64))),
    ];
    let run = text_of(run);
    let mut out = String::new();
    for figure in figures.iter().filter(|figure| !figure.values.is_empty()) {
        let _ = writeln!(out, "# HELP {} {}\n# TYPE {} {}", figure.name, figure.help, figure.name, figure.kind);
        for (label, value) in &figure.values {
            let more = label.as_ref().map_or_else(String::new, |(name, of)| format!(",{name}=\"{}\"", escaped(of)));
            let _ = writeln!(out, "{}{{run=\"{}\"{more}}} {value}", figure.name, escaped(&run));
        }
    }
    out
}
/// A label's value: what would end it is escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_or_a_label_that_cannot_be_parsed() {
        let mut known = KnownRun::default();
        for line in [
            r#"{"kind":"step","step":6,"epoch":1,"loss":null,"lr":0.5,"grad_norm":1e300,"bad_steps":{"all":2,"nan":1}}"#,
            r#"{"kind":"epoch","step":6,"epoch":1,"loss":0.25,"valid":{"loss":0.5,"rows":4,"a\"b\\\n":1}}"#,
        ] {
            known.record.take(0, line.as_bytes());
        }
        known.status = serde_json::json!({ "step": 7, "steps": 10, "epoch": 2 });
        let text = text(Path::new("runs/\"x\"\\\n"), &known);
        for line in [
            "adamant_step{run=\"runs/\\\"x\\\"\\\\\\n\"} 7",
            "adamant_valid{run=\"runs/\\\"x\\\"\\\\\\n\",metric=\"a\\\"b\\\\\\n\"} 1",
            "adamant_bad_steps{run=\"runs/\\\"x\\\"\\\\\\n\",kind=\"nan\"} 1",
            "# TYPE adamant_learning_rate gauge",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
        assert!(!text.contains("adamant_loss") && !text.contains("\"rows\"") && text.ends_with('\n'), "{text}");
    }
}
