//! Models that are trained by a description, once for each seed, and then judged.
use super::AccuracyOptions;
use crate::exit::Exit;
use adamant::Device;
use adamant_train::{Document, Failure, Run, Watch};
use std::path::{Path, PathBuf};

/// A description, and where its data lie among the real data sets.
pub struct JudgedExample {
    pub name: &'static str,
    pub text: &'static str,
    /// below the folder of data sets; `None`: beside the description
    pub data: Option<&'static str>,
}
pub struct SilentWatch;
impl Watch for SilentWatch {}

impl JudgedExample {
    /// Its data, below a folder of data sets; `None`: they are not there.
    pub fn data(&self, sets: Option<&Path>) -> Option<PathBuf> {
        match (self.data, sets) {
            (None, _) => Some(crate::workspace::root().join("examples").join(self.name)),
            (Some(name), Some(all)) => Some(all.join(name)),
            (Some(_), None) => None,
        }
    }
    /// The description with a seed.
    pub fn document(&self, seed: u64) -> Result<Document, Failure> {
        let mut document = Document::parse(self.name, self.text)?;
        document.set(&format!("seed={seed}"))?;
        Ok(document)
    }
    /// The folder of its run, which is trained where there is none.
    pub fn trained(&self, data: &Path, seed: u64, runs: &Path) -> Result<PathBuf, Failure> {
        let run = runs.join(format!("{}-{seed}", self.name));
        if !run.join("weights.safetensors").exists() {
            println!("{}, seed {seed}: training", self.name);
            Run::new(&self.document(seed)?).data(data).folder(&run).train(&mut SilentWatch)?;
        }
        Ok(run)
    }
}
/// Judges cases with each seed; a case may have several outcomes.
pub fn judge_all<C>(
    options: &AccuracyOptions,
    cases: &[C],
    model: impl Fn(&C) -> &JudgedExample,
    judge: impl Fn(&C, &Path, u64, Device) -> Result<Vec<bool>, Failure>,
) -> Result<Exit, String> {
    let device = Device::current().map_err(|e| e.to_string())?;
    let (mut failed, mut skipped, mut judged) = (0, 0, 0);
    for case in cases.iter().filter(|c| model(c).name.contains(&options.only)) {
        let name = model(case).name;
        let Some(data) = model(case).data(options.data.as_deref()) else {
            println!("skipped {name}: --data names no folder of data sets");
            skipped += 1;
            continue;
        };
        for seed in &options.seeds {
            let outcomes = judge(case, &data, *seed, device).map_err(|e| format!("{name}: {e}"))?;
            judged += outcomes.len();
            failed += outcomes.iter().filter(|passed| !**passed).count();
        }
    }
    println!("{judged} models judged, {failed} worse than promised, {skipped} descriptions skipped");
    Ok(if failed > 0 {
        Exit::Failed
    } else if skipped > 0 || judged == 0 {
        Exit::Skipped
    } else {
        Exit::Passed
    })
}
