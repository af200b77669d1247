//! `doctor`: what is wrong with a run, and what of its model could go.
use crate::{device::DeviceOptions, out, verbs::data_of};
use adamant_train::{
    Failure,
    doctor::{Diagnosis, diagnose},
    pruned::{SignalLimits, signals, signals_to_json},
};
use clap::Args;
use std::path::{Path, PathBuf};

/// Options of `doctor`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  adamant train run.toml --run runs/a --set stability.look_every=10\n  adamant doctor runs/a\n  adamant doctor runs/a --json\n  adamant doctor runs/a --prune"
)]
pub struct Options {
    /// the run folder, of a run that has ended or goes on
    run: PathBuf,
    /// prints one JSON document
    #[arg(long)]
    pub json: bool,
    /// draws what follows from what, in the language of Mermaid
    #[arg(long, conflicts_with = "json")]
    mermaid: bool,
    /// looks at the model instead: units that are dead, static or redundant, weights of low rank or that few bits hold
    #[arg(long, conflicts_with = "mermaid")]
    prune: bool,
    /// rows of the training part that activations are looked at by
    #[arg(long, value_name = "N", default_value_t = 512, requires = "prune")]
    rows: usize,
    /// where the data lies; where the run had it, unless it is named
    #[arg(long, value_name = "DIR", requires = "prune")]
    data: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceOptions,
}
pub fn run(o: &Options) -> Result<(), Failure> {
    if o.prune {
        let device = o.device.open()?;
        let found = device.scoped(|| signals(&o.run, &data_of(&o.run, o.data.as_deref()), o.rows, SignalLimits::default()))?;
        return if o.json { out::line(signals_to_json(&found)) } else { out::line(found.to_string()) };
    }
    let diagnosis = diagnose(&o.run)?;
    if o.json {
        return out::line(diagnosis.to_json());
    }
    if o.mermaid {
        return out::write(&diagnosis.mermaid());
    }
    diagnosis.notes.iter().for_each(out::note);
    out::line(text(&o.run, &diagnosis))
}
fn text(run: &Path, diagnosis: &Diagnosis) -> String {
    let Some((root, rest)) = diagnosis.findings.split_first() else {
        return format!("nothing is wrong that {} looks at layers would show", diagnosis.looks);
    };
    let mut lines = vec![
        format!("cause     {}, from step {} on", root.place(), root.step),
        format!("evidence  {}", root.evidence),
        format!("remedy    {}", root.remedy.text),
    ];
    if !root.remedy.set.is_empty() {
        let set: Vec<String> = root.remedy.set.iter().map(|set| format!(" --set '{set}'")).collect();
        lines.push(format!("          adamant train {}{}", run.join("config.toml").display(), set.concat()));
    }
    lines.extend(rest.iter().map(|f| format!("beside    {f}")));
    lines.join("\n")
}
