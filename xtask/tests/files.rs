//! `cargo xtask torture files`: a slice of it, and that each fault that can be planted is found.
#![allow(clippy::unwrap_used)]
use std::process::Command;

fn torture(arguments: &[&str]) -> (Option<i32>, serde_json::Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(["torture", "files", "--json"]).args(arguments).output().unwrap();
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), document)
}
#[test]
#[cfg(unix)]
fn a_mutated_file_that_ends_the_program_or_fills_the_memory() {
    let (code, document) = torture(&["-n", "1000", "--seed", "22"]);
    let claim = &document["claims"][0];
    assert_eq!((code, claim["held"].as_u64()), (Some(0), Some(1000)), "{claim:#}");
    // Every kind was there, and each was read at least once: a reader that refuses everything proves nothing.
    let kinds = claim["seen"]["kinds"].as_object().unwrap();
    let unread: Vec<_> = kinds.iter().filter(|(_, outcomes)| outcomes.get("read").is_none()).map(|(kind, _)| kind).collect();
    assert!(kinds.len() >= 40 && unread.is_empty(), "{unread:?}");
}
#[test]
#[cfg(target_os = "linux")]
fn a_planted_fault_that_nobody_finds() {
    for (fault, word) in [("panic", "panic"), ("abort", "abort"), ("memory", "memory")] {
        let (code, document) = torture(&["-n", "120", "--seed", "3", "--only", "csv", "--plant", fault]);
        let claim = &document["claims"][0];
        let told = claim["failures"].to_string();
        assert_eq!((code, claim["tried"].as_u64(), claim["held"].as_u64()), (Some(1), Some(120), Some(117)), "{fault}: {claim:#}");
        assert!(told.contains(word), "{fault}: {told}");
    }
}
