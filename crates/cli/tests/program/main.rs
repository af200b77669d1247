//! The program from outside, as a user's shell sees it: a small table to train on, and each verb as a child process.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "profiling")]
mod bench;
#[cfg(target_os = "linux")]
#[allow(dead_code)]
#[path = "../../../train/tests/browser/mod.rs"]
mod browser;
mod config;
#[cfg(target_os = "linux")]
mod debug;
#[cfg(target_os = "linux")]
mod debug_page;
#[cfg(unix)]
mod debugger;
#[cfg(unix)]
mod full;
mod gpu;
#[cfg(unix)]
mod hostile;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod merge;
#[cfg(unix)]
mod misuse;
mod plan;
mod precision;
mod prune;
mod quantize;
#[cfg(unix)]
mod signals;
mod summary;
#[cfg(unix)]
mod table;
#[cfg(all(target_os = "linux", feature = "profiling"))]
mod traced;
mod train;
#[cfg(target_os = "linux")]
mod watch;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

const RUN: &str = r#"
seed = 1
epochs = 2
batch = 3
[data]
kind = "csv"
path = "points.csv"
label = 2
classes = 2
test = { divide = 2, modulo = 3, equals = 0 }
[model]
layers = [{ kind = "Linear", in_features = 2, out_features = 4 }, { kind = "Tanh" }, { kind = "Linear", in_features = 4, out_features = 2 }]
[optimizer]
kind = "SGD"
lr = 0.1
"#;

/// The program in a folder, on the reference device unless the test says another.
fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adamant"));
    command.current_dir(folder).env("ADAMANT_DEVICE", "reference").args(arguments);
    command
}
fn adamant(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}
/// `run.toml` and the twelve rows of `points.csv` that it learns.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("run.toml"), RUN).unwrap();
    let rows: String = (0..12).map(|k| format!("{},{},{}\n", k % 5, k % 3, k % 2)).collect();
    fs::write(folder.path().join("points.csv"), rows).unwrap();
    folder
}
fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
/// Remembers what went wrong, for the end of a test.
#[derive(Default)]
struct Wrong(Vec<String>, usize);
impl Wrong {
    fn unless(&mut self, right: bool, what: impl FnOnce() -> String) {
        self.1 += 1;
        if !right {
            self.0.push(what());
        }
    }
    fn ends(&mut self, case: &str, output: &Output, code: i32, says: &str) {
        let said = out(output) + &err(output);
        let right = output.status.code() == Some(code) && said.contains(says) && said.len() < 20_000;
        self.unless(right, || format!("{case}: {:?} and not {code} with {says:?}: {said:.400}", output.status));
    }
}
impl Drop for Wrong {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.0.is_empty() && self.1 > 0, "{} of {} are wrong:\n{}", self.0.len(), self.1, self.0.join("\n"));
        }
    }
}
