//! What rules ask of a run: its files, and the numbers of its description.
use crate::{
    Document,
    report::files::{self, LookedLayer, LookedParameter, ReadFailure, ReadIncident, ReadLook, ReadRun, ReadStep},
};
use std::{collections::BTreeMap, path::Path};

/// Everything that rules ask for.
pub struct RunRecord {
    pub steps: Vec<ReadStep>,
    /// step and loss of each validation
    pub valid: Vec<(u64, f64)>,
    pub looks: Vec<ReadLook>,
    pub incidents: Vec<ReadIncident>,
    pub failure: Option<ReadFailure>,
    pub facts: RunFacts,
    pub notes: Vec<String>,
}
/// What a description says, as far as rules ask for it.
#[derive(Default)]
pub struct RunFacts {
    /// `SGD`, `AdamW`
    pub optimizer: String,
    pub weight_decay: f64,
    /// do the weights come from somewhere?
    pub pretrained: bool,
    pub batch: Option<u64>,
    /// the kind of the data; empty in a program
    pub data: String,
}
impl RunFacts {
    /// Is a step about as long whatever the gradient is?
    pub fn is_adaptive(&self) -> bool {
        !matches!(self.optimizer.as_str(), "SGD" | "ASGD" | "")
    }
    fn of(text: &str) -> Option<RunFacts> {
        let document = Document::parse("config.toml", text).ok()?;
        let root = document.root().ok()?;
        let optimizer = root.section("optimizer").ok().flatten();
        let of_optimizer = |key: &'static str| -> f64 {
            let Some(optimizer) = &optimizer else { return 0.0 };
            let told = optimizer.number(key).ok().flatten();
            // A program's optimizer has the numbers of each group, as texts.
            let in_groups = GROUPS.iter().map_while(|name| optimizer.section(name).ok().flatten());
            let of_groups = in_groups.filter_map(|group| group.text(key).ok().flatten()?.parse().ok()).reduce(f64::max);
            told.or(of_groups).unwrap_or(0.0)
        };
        let data = root.section("data").ok().flatten();
        let word = |section: &Option<crate::config::Section<'_>>, key: &'static str| {
            section.as_ref().and_then(|s| s.text(key).ok().flatten()).unwrap_or_default().to_string()
        };
        Some(RunFacts {
            optimizer: word(&optimizer, "kind"),
            weight_decay: of_optimizer("weight_decay"),
            pretrained: root.section("init_from").is_ok_and(|s| s.is_some()),
            batch: root.size("batch").ok().flatten().map(|n| n as u64),
            data: word(&data, "kind"),
        })
    }
}
/// The names of a program's first groups of parameters.
const GROUPS: [&str; 4] = ["group0", "group1", "group2", "group3"];

impl RunRecord {
    pub fn read(folder: &Path) -> RunRecord {
        let ReadRun { config, steps, epochs, looks, incidents, failure, test, notes, .. } = files::read(folder);
        let mut valid: Vec<(u64, f64)> = epochs.iter().filter_map(|e| Some((e.step, e.valid.as_ref()?.loss?))).collect();
        // Without a validation part, what was tested once.
        let tested = test.and_then(|test| Some((epochs.last()?.step, test.loss?)));
        valid.extend(tested.filter(|_| valid.is_empty()));
        RunRecord { steps, valid, looks, incidents, failure, facts: config.as_deref().and_then(RunFacts::of).unwrap_or_default(), notes }
    }
    /// The last step that is told of.
    pub fn last_step(&self) -> u64 {
        self.steps.last().map_or(0, |s| s.step).max(self.looks.last().map_or(0, |l| l.step))
    }
    /// The largest learning rate.
    pub fn rate(&self) -> f64 {
        let looked = self.looks.iter().filter_map(|l| l.lr);
        self.steps.iter().filter_map(|s| s.lr).chain(looked).fold(0.0, f64::max)
    }
    /// Does the rate rise at the beginning?
    pub fn warms_up(&self) -> bool {
        let most = self.rate();
        let first = self.looks.first().and_then(|l| l.lr).or_else(|| self.steps.first()?.lr);
        first.is_some_and(|first| first < 0.5 * most)
    }
    /// Losses of the log and of looks, by their steps; what is not finite stands as infinite.
    pub fn losses(&self) -> Vec<(u64, f64)> {
        let looked = self.looks.iter().map(|l| (l.step, l.loss));
        let all: BTreeMap<u64, Option<f64>> = looked.chain(self.steps.iter().map(|s| (s.step, s.loss))).collect();
        all.into_iter().map(|(step, loss)| (step, loss.unwrap_or(f64::INFINITY))).collect()
    }
    /// The first loss, and what it came to: of the validation part where there is one, else the mean of the last third.
    pub fn began_and_ended(&self) -> Option<(f64, f64)> {
        let losses = self.losses();
        let third = &losses[losses.len() - losses.len().div_ceil(3)..];
        let end = mean(&third.iter().map(|l| l.1).collect::<Vec<_>>())?;
        Some((losses.first()?.1, self.valid.last().map_or(end, |valid| valid.1)))
    }
    /// The mode of mixed precision; none in f32.
    pub fn mode(&self) -> Option<&str> {
        self.steps.iter().rev().find_map(|s| s.precision.as_ref()?.mode.as_deref())
    }
    pub fn is_f16(&self) -> bool {
        self.mode() == Some("f16")
    }
}
/// The layer that a parameter is of.
pub fn layer_of(parameter: &str) -> &str {
    parameter.rsplit_once('.').map_or("", |(layer, _)| layer)
}
/// A matrix, or the weights of a convolution: what is looked at where depth, rates and initial values are judged.
pub struct LookedMatrix<'a> {
    pub of: &'a LookedParameter,
    /// rows: how many results it makes
    pub outputs: f64,
    pub elements: f64,
    pub weight: f64,
}
impl LookedMatrix<'_> {
    pub fn layer(&self) -> &str {
        layer_of(&self.of.parameter)
    }
    /// By how much it makes numbers larger, were they independent: the root of the sum of squares of a row.
    pub fn gain(&self) -> f64 {
        self.weight / self.outputs.sqrt()
    }
    /// The root mean square of its gradient.
    pub fn gradient(&self) -> Option<f64> {
        Some(self.of.gradient? / self.elements.sqrt())
    }
    /// What a step adds to it, as a share of it.
    pub fn step(&self) -> Option<f64> {
        Some(self.of.update? / self.weight).filter(|_| self.weight > 0.0)
    }
}
impl LookedParameter {
    /// How many elements it has. Sizes of a file that is damaged may be any.
    pub fn elements(&self) -> f64 {
        self.shape.iter().map(|n| *n as f64).product()
    }
}
impl ReadLook {
    /// Rows of the whole step.
    pub fn rows(&self) -> usize {
        self.rows.iter().fold(0, |sum: usize, n| sum.saturating_add(*n))
    }
    /// How long a step is, as a share of weights: of a typical matrix.
    pub fn step_length(&self) -> Option<f64> {
        median(self.matrices().iter().filter_map(|m| m.step()).collect())
    }
    pub fn layer(&self, path: &str) -> Option<&LookedLayer> {
        self.layers.iter().find(|l| l.layer == path)
    }
    pub fn parameter(&self, path: &str) -> Option<&LookedParameter> {
        self.parameters.iter().find(|p| p.parameter == path)
    }
    /// The matrices in the model's order, without tables that rows are taken out of.
    pub fn matrices<'a>(&'a self) -> Vec<LookedMatrix<'a>> {
        // Rows that are taken out of a table; or a table that is added as it is, the one parameter of its layer: places of a sequence.
        let alone = |layer: &str| self.parameters.iter().filter(|p| layer_of(&p.parameter) == layer).count() == 1;
        let is_table = |p: &LookedParameter| {
            let layer = layer_of(&p.parameter);
            self.layer(layer).is_some_and(|l| TABLES.iter().any(|op| l.op.contains(op)) || (l.op == "add" && alone(layer)))
        };
        let matrix = |of: &'a LookedParameter| -> Option<LookedMatrix<'a>> {
            let (elements, outputs) = (of.elements(), *of.shape.first()? as f64);
            let is_matrix = of.shape.len() >= 2 && elements > outputs && !is_table(of);
            Some(LookedMatrix { of, outputs, elements, weight: of.weight? }).filter(|_| is_matrix)
        };
        self.parameters.iter().filter_map(matrix).collect()
    }
}
/// Ops that take rows out of a table.
const TABLES: [&str; 4] = ["embedding", "gather", "index", "take"];
/// The middle one of some numbers; none of none.
pub fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}
/// The mean; none of none.
pub fn mean(all: &[f64]) -> Option<f64> {
    if all.is_empty() { None } else { Some(all.iter().sum::<f64>() / all.len() as f64) }
}
