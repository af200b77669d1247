//! `doctor`: what is wrong with a run.
use crate::out;
use adamant_train::{
    Failure,
    doctor::{Diagnosis, diagnose},
};
use clap::Args;
use std::path::{Path, PathBuf};

/// Options of `doctor`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  adamant train run.toml --run runs/a --set stability.look_every=10\n  adamant doctor runs/a\n  adamant doctor runs/a --json"
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
}
pub fn run(o: &Options) -> Result<(), Failure> {
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
