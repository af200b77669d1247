//! The networks give torchvision's and transformers' numbers: outputs, losses, gradients and running statistics of the folders
//! in `goldens`, which `python/goldens.py small` writes.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_backend_cpu as _;
use std::path::{Path, PathBuf};

#[path = "replay/replay.rs"]
mod replay;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name)
}
#[test]
fn outputs_gradients_and_statistics_are_those_of_pytorch() {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(folder("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() >= 5, "{folders:?}");
    let mut wrong = Vec::new();
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let seen = replay::replay(&folder).unwrap_or_else(|e| panic!("{name}: {e}"));
        println!("{name}: {seen:?}");
        if !seen.are_small() {
            wrong.push(format!("{name}: {seen:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
