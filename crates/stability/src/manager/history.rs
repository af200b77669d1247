//! What is kept of a run's steps, and the files of it.
use super::{ClippingStats, NanStepStats, StepStability, written};
use crate::HandlingType;
use adamant_core::{Error, ErrorKind, Result};
use adamant_plot::{Plot, Series, Stroke};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The lines of a run's steps, in their order.
#[derive(Clone, Debug, Default)]
pub struct Histories {
    /// steps with clipping
    pub clipping: Vec<(u64, ClippingStats)>,
    /// steps with a policy
    pub nan: Vec<(u64, NanStepStats)>,
    /// all steps, with their loss and score
    pub scores: Vec<(u64, f64, f64)>,
}
/// Files that were written.
#[derive(Clone, Debug)]
pub struct SavedHistories {
    /// `clipping_history.json`: a list of objects with `step` and the fields of [`ClippingStats`]
    pub clipping: PathBuf,
    /// `nan_history.json`: a list of objects with `step`, `action` and the fields of [`NanStepStats`]
    pub nan: PathBuf,
    /// `scores.json`: a list of objects with `step`, `loss` and `stability_score`
    pub scores: PathBuf,
    /// `stability.html`
    pub report: PathBuf,
}
/// What was done about a step.
fn action(stats: &NanStepStats, handling: Option<HandlingType>) -> &'static str {
    match (stats.bad, handling) {
        (false, _) if stats.committed => "none",
        // A step behind one that ended all.
        (false, _) => "held back",
        (true, handling) => handling.map_or("none", HandlingType::name),
    }
}
/// An object's fields, with the step's number before them.
fn line(step: u64, fields: impl Serialize) -> Value {
    let mut object = serde_json::Map::from_iter([("step".to_string(), json!(step))]);
    if let Ok(Value::Object(fields)) = serde_json::to_value(fields) {
        object.extend(fields);
    }
    Value::Object(object)
}
/// As it stands in files.
pub(super) fn text(value: &Value) -> String {
    format!("{value:#}\n")
}
/// The folder, which is made if it is not there.
pub(super) fn made(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::new("NumericalStabilityManager", ErrorKind::Argument(format!("{}: {e}", folder.display()))))
}
impl Histories {
    pub(super) fn note(&mut self, of: &StepStability) {
        self.clipping.extend(of.clipping_stats.map(|c| (of.step, c)));
        self.nan.extend(of.nan_stats.map(|n| (of.step, n)));
        self.scores.push((of.step, of.loss, of.stability_score));
    }
    #[track_caller]
    pub(super) fn save(&self, folder: &Path, handling: Option<HandlingType>) -> Result<SavedHistories> {
        made(folder)?;
        let clipping: Value = self.clipping.iter().map(|(step, c)| line(*step, c)).collect();
        let nan = self.nan.iter().map(|(step, n)| {
            let mut of = line(*step, n);
            of["action"] = action(n, handling).into();
            of
        });
        let nan: Value = nan.collect();
        let scores: Value = self.scores.iter().map(|(step, loss, score)| json!({ "step": step, "loss": loss, "stability_score": score })).collect();
        Ok(SavedHistories {
            clipping: written(folder.join("clipping_history.json"), &text(&clipping))?,
            nan: written(folder.join("nan_history.json"), &text(&nan))?,
            scores: written(folder.join("scores.json"), &text(&scores))?,
            report: written(folder.join("stability.html"), &self.page(handling))?,
        })
    }
    /// A page of its own: nothing is fetched for it.
    fn page(&self, handling: Option<HandlingType>) -> String {
        let series = |name: &str, colour: usize, points: Vec<(f64, f64)>| Series { name: name.into(), points, stroke: Stroke::Solid, colour };
        let clipped = |of: &dyn Fn(&ClippingStats) -> f64| self.clipping.iter().map(|(step, c)| (*step as f64, of(c))).collect::<Vec<_>>();
        let cumulative = |is: &dyn Fn(&NanStepStats) -> bool| {
            let mut n = 0.0;
            let of = |(step, stats): &(u64, NanStepStats)| {
                n += f64::from(u8::from(is(stats)));
                (*step as f64, n)
            };
            self.nan.iter().map(of).collect::<Vec<_>>()
        };
        let plot = |title: &str, y_label: &str, log: bool, series: Vec<Series>| Plot {
            title: title.into(),
            x_label: "step".into(),
            y_label: y_label.into(),
            log,
            series,
            ..Plot::default()
        };
        let plots = [
            plot(
                "Norms of gradients",
                "norm",
                true,
                vec![series("before clipping", 0, clipped(&|c| c.norm)), series("behind clipping", 1, clipped(&|c| c.clipped_norm))],
            ),
            plot("Share that was clipped away", "ratio", false, vec![series("ratio", 0, clipped(&|c| c.ratio))]),
            plot(
                "Bad steps up to each step",
                "steps",
                false,
                vec![
                    series("NaN", 0, cumulative(&|n| n.nan)),
                    series("infinity", 1, cumulative(&|n| n.inf)),
                    series("overflow", 2, cumulative(&|n| n.overflow)),
                    series("explosion", 4, cumulative(&|n| n.explosion)),
                    series("bad", 3, cumulative(&|n| n.bad)),
                ],
            ),
            plot("Stability score", "score", false, vec![series("score", 0, self.scores.iter().map(|(step, _, score)| (*step as f64, *score)).collect())]),
        ];
        let mut actions: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
        self.nan.iter().for_each(|(_, n)| *actions.entry(action(n, handling)).or_default() += 1);
        let rows: String = actions.iter().map(|(action, n)| format!("<tr><td>{action}</td><td>{n}</td></tr>")).collect();
        let drawn: String = plots.iter().filter(|p| !p.is_empty()).enumerate().map(|(k, p)| p.svg(&format!("plot{k}"))).collect();
        format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Stability</title><style>:root{{{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}{}\
             body{{font-family:sans-serif;margin:2rem}}svg{{max-width:40rem;display:block}}td{{padding:0 1rem 0 0}}</style></head>\
             <body><h1>Stability of {} steps</h1>{drawn}<h2>Actions</h2><table><tr><th>action</th><th>steps</th></tr>{rows}</table></body></html>\n",
            adamant_plot::LIGHT,
            adamant_plot::DARK,
            adamant_plot::SHAPES_CSS,
            self.scores.len()
        )
    }
}
