//! What a run leaves in OUT: tensors under the manifest's names, one file a group, and a status line a case.
use super::run::Outcome;
use adamant::{Tensor, formats::safetensors};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io::Write, path::Path};

/// A line of status.jsonl.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// the case
    pub id: String,
    /// how it went
    pub status: Ending,
    /// the kind of the error, empty if there is none
    pub kind: String,
    /// the error's text, empty if there is none
    pub message: String,
}
/// How a case went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// it gave tensors
    Ok,
    /// the library says that it has no such thing
    Unsupported,
    /// anything else
    Error,
}

/// Writes all outcomes. Files of an earlier run with the names of this one's groups are replaced.
pub fn write(out: &Path, outcomes: &[(String, Outcome)]) -> Result<(), String> {
    let mut files: BTreeMap<&str, Vec<(String, Tensor)>> = BTreeMap::new();
    for (file, outcome) in outcomes {
        files.entry(file).or_default().extend(outcome.tensors.iter().cloned());
    }
    for (file, tensors) in files {
        safetensors::save(out.join(file), tensors, &BTreeMap::new()).map_err(|e| e.to_string())?;
    }
    let mut lines = Vec::new();
    for (_, outcome) in outcomes {
        serde_json::to_writer(&mut lines, &outcome.status).map_err(|e| e.to_string())?;
        lines.push(b'\n');
    }
    let path = out.join("status.jsonl");
    std::fs::File::create(&path).and_then(|mut f| f.write_all(&lines)).map_err(|e| format!("{}: {e}", path.display()))
}
/// Removes what an earlier run with other cases left in OUT and this one would not replace.
pub fn clear(out: &Path, files: impl IntoIterator<Item = String>) -> Result<(), String> {
    std::fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
    for file in files.into_iter().chain(["status.jsonl", "schedulers.json", "init.json"].map(String::from)) {
        let path = out.join(file);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(format!("{}: {e}", path.display())),
            _ => {}
        }
    }
    Ok(())
}
/// The status lines of OUT by id.
pub fn read_status(out: &Path) -> Result<BTreeMap<String, Status>, String> {
    let path = out.join("status.jsonl");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    text.lines().map(|l| serde_json::from_str::<Status>(l).map(|s| (s.id.clone(), s)).map_err(|e| format!("{}: {e}", path.display()))).collect()
}
