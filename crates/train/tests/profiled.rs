//! Steps of a living run that are recorded because somebody asks over its socket: the run has the bits of one that nobody asked, and the
//! file says what ran.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::Device;
use adamant_train::{
    Document, Run, Watch,
    control::{ControlClient, ControlRequest},
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

const RUN: &str = r#"
seed = 3
epochs = 4
batch = 6
log_every = 1
[data]
kind = "permutation"
classes = 12
rows = 100
valid = 0.2
workers = 0
[model]
layers = [
    { kind = "Embedding", num_embeddings = 12, embedding_dim = 8 },
    { kind = "Dropout", p = 0.2 },
    { name = "middle", kind = "Linear", in_features = 8, out_features = 16 },
    { kind = "ReLU" },
    { name = "head", kind = "Linear", in_features = 16, out_features = 12 },
]
[optimizer]
kind = "AdamW"
lr = 0.02
[clip]
kind = "global_norm"
max_norm = 1.0
"#;

/// Asks behind each of these steps; a request is handed in and its answer read by a thread, as the run answers between two steps.
struct Asking {
    folder: PathBuf,
    at: Vec<u64>,
    waits: Vec<std::thread::JoinHandle<Value>>,
}
impl Watch for Asking {
    fn step(&mut self, step: u64) {
        if self.at.contains(&step) {
            let mut client = ControlClient::attach(&self.folder).unwrap();
            self.waits.push(std::thread::spawn(move || client.ask(ControlRequest::Profile).unwrap()));
        }
        // Slow enough that who asks is heard before the run is over.
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
fn train(folder: &Path, device: Device, set: &[&str], at: &[u64]) -> Vec<Value> {
    let mut document = Document::parse("run.toml", RUN).unwrap();
    set.iter().for_each(|s| document.set(s).unwrap());
    let mut asking = Asking { folder: folder.to_path_buf(), at: at.to_vec(), waits: Vec::new() };
    device.scoped(|| Run::new(&document).folder(folder).train(&mut asking)).unwrap();
    asking.waits.into_iter().map(|wait| wait.join().unwrap()).collect()
}
fn profiles(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("profiles.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_recorded_step_that_changes_a_bit_of_the_run() {
    let place = tempfile::tempdir().unwrap();
    let devices = [("reference", Device::reference()), ("cpu", Device::cpu().unwrap())];
    let sets: [(&str, &[&str]); 3] = [("plain", &[]), ("looked", &["stability.look_every=3"]), ("summed", &["accumulate=2", "ema.decay=0.9"])];
    for (name, device) in devices {
        for (how, set) in sets {
            let at = |which: &str| place.path().join(format!("{name}-{how}-{which}"));
            train(&at("alone"), device, set, &[]);
            let answers = train(&at("asked"), device, set, &[1, 9, 10, 17]);
            for file in ["metrics.jsonl", "weights.safetensors"] {
                assert!(fs::read(at("alone").join(file)).unwrap() == fs::read(at("asked").join(file)).unwrap(), "{name}, {how}: {file}");
            }
            assert!(profiles(&at("alone")).is_empty());
            let lines = profiles(&at("asked"));
            // Two that ask before the same step share its line.
            assert!(lines.len() >= 3 && lines.len() <= answers.len(), "{name}, {how}: {} lines", lines.len());
            for answer in answers {
                assert!(answer["ok"] == true && answer["profile"].as_str().unwrap().ends_with("profiles.jsonl"), "{answer}");
                assert!(lines.iter().any(|line| line["step"].as_u64() == answer["step"].as_u64().map(|step| step + 1)), "{answer}");
            }
        }
    }
}
#[test]
fn a_recorded_step_that_says_too_little() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    // Steps that are looked at were captured before the first one that is recorded; the second one is replayed.
    train(&folder, Device::cpu().unwrap(), &["stability.look_every=1"], &[5, 9]);
    let lines = profiles(&folder);
    let [_, line] = lines.as_slice() else { unreachable!("{} lines", lines.len()) };
    assert_eq!(line["plan_ms"], 0.0);
    let words = |key: &str| line[key].as_array().unwrap().iter().map(|w| w.as_str().unwrap().to_string()).collect::<Vec<_>>();
    for (key, word) in [("layers", "middle"), ("layers", "head"), ("phases_of", "forward"), ("phases_of", "backward"), ("phases_of", "optimizer_step")] {
        assert!(words(key).iter().any(|w| w == word), "{key} without {word}: {:?}", words(key));
    }
    let rows = line["kernels"].as_array().unwrap();
    let columns = words("columns");
    let at = |name: &str| columns.iter().position(|c| c == name).unwrap();
    let (mut flops, mut live) = (0, 0);
    for row in rows {
        assert_eq!(row.as_array().unwrap().len(), columns.len(), "{row}");
        for (column, key) in [("name", "names"), ("kind", "kinds"), ("layer", "layers"), ("phase", "phases_of")] {
            assert!((row[at(column)].as_u64().unwrap() as usize) < words(key).len(), "{row}");
        }
        assert!(row[at("ms")].as_f64().unwrap() >= 0.0 && row[at("start_ms")].as_f64().unwrap() <= line["wall_ms"].as_f64().unwrap(), "{row}");
        flops += row[at("flops")].as_u64().unwrap();
        live = live.max(row[at("live_bytes")].as_u64().unwrap());
    }
    // Two linear layers, forward and backward by weight, of 6 rows: 6 * (8 * 16 + 16 * 12) * 2 * 2 at least.
    assert!(!rows.is_empty() && flops >= 7680 && live > 0 && line["left_out"] == 0, "{flops} {live}");
    assert_eq!(line["shapes"]["head"], serde_json::json!([6, 12]), "{}", line["shapes"]);
    let look = &line["look"];
    assert!(look["layers"].as_array().unwrap().len() >= 3 && look["parameters"].as_array().unwrap().len() == 5, "{look}");
    // A run that begins anew in the folder begins without what was recorded before.
    fs::remove_dir_all(folder.join("checkpoints")).unwrap();
    train(&folder, Device::reference(), &["epochs=1"], &[]);
    assert!(profiles(&folder).is_empty());
}
