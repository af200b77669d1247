//! What a run leaves in OUT: tensors under the manifest's names, one file a group, a status line a case, and by id the
//! rates (schedulers.json), the momenta (momentum.json) and the statistics of initialisers (init.json).
use super::run::{Outcome, ResultNumbers};
use adamant::{Tensor, formats::safetensors};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
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
    /// of an unsupported case
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
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
    for (file, tensors) in files.into_iter().filter(|(file, _)| !file.is_empty()) {
        safetensors::save(out.join(file), tensors, &BTreeMap::new()).map_err(|e| e.to_string())?;
    }
    let mut lines = Vec::new();
    for (_, outcome) in outcomes {
        serde_json::to_writer(&mut lines, &outcome.status).map_err(|e| e.to_string())?;
        lines.push(b'\n');
    }
    write_file(&out.join("status.jsonl"), &lines)?;
    let (mut rates, mut momenta, mut statistics) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (_, outcome) in outcomes {
        match &outcome.numbers {
            ResultNumbers::None => {}
            ResultNumbers::Rates(r) => {
                rates.insert(&outcome.status.id, &r.lr);
                momenta.extend(r.momentum.as_ref().map(|m| (&outcome.status.id, m)));
            }
            ResultNumbers::Statistics(s) => {
                statistics.insert(&outcome.status.id, s);
            }
        }
    }
    write_map(&out.join("schedulers.json"), &rates)?;
    write_map(&out.join("momentum.json"), &momenta)?;
    write_map(&out.join("init.json"), &statistics)
}
fn write_file(path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::File::create(path).and_then(|mut f| f.write_all(bytes)).map_err(|e| format!("{}: {e}", path.display()))
}
fn write_map(path: &Path, map: &impl Serialize) -> Result<(), String> {
    write_file(path, &serde_json::to_vec(map).map_err(|e| format!("{}: {e}", path.display()))?)
}
/// A map by id that `write` has written.
pub fn read_map<T: DeserializeOwned>(path: &Path) -> Result<BTreeMap<String, T>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}
/// Removes what an earlier run with other cases left in OUT and this one would not replace.
pub fn clear(out: &Path, files: impl IntoIterator<Item = String>) -> Result<(), String> {
    std::fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
    for file in files.into_iter().chain(["status.jsonl", "schedulers.json", "momentum.json", "init.json"].map(String::from)) {
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
