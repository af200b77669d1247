//! `cargo xtask quant fuzz`: a slice of it, and that each fault that can be planted is found.
#![allow(clippy::unwrap_used)]
use std::process::Command;

fn fuzz(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(["quant", "fuzz"]).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr))
}
#[test]
fn a_mutated_file_that_panics_changes_a_model_or_is_read_as_what_it_is_not() {
    let (code, told) = fuzz(&["--n", "3000", "--seed", "22"]);
    assert_eq!(code, Some(0), "{told}");
    // Every kind was there, and each was read and refused.
    let kinds: Vec<&str> = told.lines().filter(|line| line.contains(" Read") || line.contains(" Refused")).collect();
    assert!(kinds.len() >= 36 && kinds.iter().all(|line| line.contains(" Read") && line.contains(" Refused")), "{told}");
}
#[test]
fn a_planted_fault_that_nobody_finds() {
    let (code, told) = fuzz(&["--n", "194", "--seed", "3", "--plant"]);
    assert_eq!(code, Some(0), "{told}");
    for fault in ["Panicked", "ModelChanged", "ReadWrongly"] {
        assert_eq!(told.lines().filter(|line| line.starts_with("file ") && line.contains(fault)).count(), 2, "{fault}: {told}");
    }
}
