//! What is wrong with a run, by what stands in its folder: which fault, in which layer, from which step on, and what ends it.
//!
//! ```text
//! metrics.jsonl    steps, validations, looks at layers ─┐
//! incidents.jsonl  where bad numbers came from ─────────┼─ RunRecord (record) ─ traced, looked, learned ─ findings, the root first
//! config.toml      optimizer, schedule, data ───────────┘
//! ```
//!
//! A fault shows in many places: inputs that are not scaled saturate gates, which stops gradients, which looks as if a layer were frozen. So each
//! rule only says what it sees ([`Finding`]), and the order of findings says what follows from what: an op that was given good numbers and made a
//! bad one is a cause, whatever else is seen; then what was there first; of what was there at the same step, what stands nearer to the data
//! ([`RootCause`] lists them in that order). How the loss went has so many causes that rules about it ([`learned`]) are asked only where
//! nothing was found in the numbers themselves.
//!
//! Invariant: nothing but the folder's own files is read, and equal folders are told the same.
mod causes;
mod learned;
mod looked;
mod record;
mod traced;

pub use causes::{RootCause, RunRemedy};

use crate::{Failure, analysis::mermaid_text, report};
use record::RunRecord;
use serde_json::{Value, json};
use std::{
    fmt::{self, Write},
    path::Path,
};

/// A fault, and what tells of it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// what it is
    pub cause: RootCause,
    /// the layer that it is in; none where it is in none: in the data, in how the run learns
    pub layer: Option<String>,
    /// the step from which on it was there, as far as somebody has looked
    pub step: u64,
    /// what tells of it, in numbers
    pub evidence: String,
    /// what ends it
    pub remedy: RunRemedy,
}
impl Finding {
    /// What it is, and in which layer.
    pub fn place(&self) -> String {
        let layer = self.layer.as_ref().map(|layer| format!(", layer {layer}")).unwrap_or_default();
        format!("{}{layer}", self.cause.title())
    }
    fn to_json(&self) -> Value {
        json!({
            "cause": self.cause.name(), "title": self.cause.title(), "layer": self.layer, "step": self.step, "evidence": self.evidence,
            "remedy": self.remedy.text, "set": self.remedy.set,
        })
    }
}
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, from step {} on: {}", self.place(), self.step, self.evidence)
    }
}
/// What was found in a run.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// the most likely root first; what follows may come of it
    pub findings: Vec<Finding>,
    /// where a number that ended a step came from: the op that made it, those that handed it on, and what it was noticed in
    pub chain: Vec<String>,
    /// how many steps layers and parameters were looked at in
    pub looks: usize,
    /// what is missing or cannot be read
    pub notes: Vec<String>,
}
impl Diagnosis {
    /// The most likely root.
    pub fn root(&self) -> Option<&Finding> {
        self.findings.first()
    }
    /// As a JSON document.
    pub fn to_json(&self) -> Value {
        let findings: Vec<Value> = self.findings.iter().map(Finding::to_json).collect();
        json!({ "findings": findings, "chain": self.chain, "looks": self.looks, "notes": self.notes })
    }
    /// From the root to what was noticed, in the language of Mermaid.
    pub fn mermaid(&self) -> String {
        let mut out = String::from("flowchart TB\n");
        for (k, finding) in self.findings.iter().enumerate() {
            let _ = writeln!(out, "    f{k}[\"{}<br/>step {}\"]", mermaid_text(&finding.place()), finding.step);
            if k > 0 {
                let _ = writeln!(out, "    f0 -.-> f{k}");
            }
        }
        for (k, op) in self.chain.iter().enumerate() {
            let from = if k > 0 {
                format!("c{} --> ", k - 1)
            } else if self.findings.is_empty() {
                String::new()
            } else {
                "f0 --> ".into()
            };
            let _ = writeln!(out, "    {from}c{k}[\"{}\"]", mermaid_text(op));
        }
        out
    }
}
/// Looks through the folder of a run, ended or not.
///
/// ```
/// use adamant_train::doctor::{RootCause, diagnose};
///
/// # let run = std::env::temp_dir().join(format!("adamant-doc-doctor-{}", std::process::id()));
/// # std::fs::create_dir_all(&run)?;
/// let look = r#"{"kind":"layers","step":1,"epoch":1,"rows":[32],"batch":[{"tensor":0,"largest":255.0,"mean":97.5,"zeros":0.2}]}"#;
/// std::fs::write(run.join("metrics.jsonl"), format!("{look}\n"))?;
/// let diagnosis = diagnose(&run)?;
/// assert_eq!(diagnosis.root().map(|finding| finding.cause), Some(RootCause::UnscaledInput));
/// # std::fs::remove_dir_all(&run)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `Input`: the folder holds no run. What is missing in it, or cannot be read, is told in [`Diagnosis::notes`].
pub fn diagnose(run: &Path) -> Result<Diagnosis, Failure> {
    report::check_is_run(run).map_err(|e| Failure::Input(e.to_string()))?;
    let mut record = RunRecord::read(run);
    let mut findings = traced::findings(&record);
    findings.extend(looked::findings(&record));
    if findings.is_empty() {
        findings = learned::findings(&record);
    }
    // The same fault in further layers, or told in two ways, is one: the first counts.
    findings.sort_by_key(|f| (f.cause.has_further_causes(), f.step, f.cause));
    let mut told = Vec::new();
    findings.retain(|f| {
        let is_new = !told.contains(&f.cause);
        told.push(f.cause);
        is_new
    });
    let chain = record.incidents.first().and_then(|i| i.origin.as_ref()).map(traced::chain).unwrap_or_default();
    let mut notes = std::mem::take(&mut record.notes);
    if record.looks.is_empty() {
        notes.push("nobody has looked at layers: run it with `--set stability.look_every=10` to know more".into());
    }
    Ok(Diagnosis { findings, chain, looks: record.looks.len(), notes })
}
