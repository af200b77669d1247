//! The program of a user's crate (`examples/own_workload.rs`), run as from a shell.
#![allow(clippy::unwrap_used)]
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Cargo builds the examples of a package beside its tests.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    folder.join("examples").join(format!("own_workload{}", std::env::consts::EXE_SUFFIX))
}
pub fn run(folder: &Path, arguments: &str) -> Output {
    Command::new(program()).args(arguments.split(' ')).current_dir(folder).output().unwrap()
}
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
