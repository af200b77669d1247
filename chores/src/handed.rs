//! Chores that measure or judge Adamant and are built with it, in the package `xtask`: cargo builds it and starts it with the
//! words that were given here. Must not know what the words mean.
use chores::workspace;
use std::{ffi::OsString, process::ExitCode};

/// What stands behind the chore's name, `--help` too.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct HandedWords {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}
/// Builds the program and becomes it, where the system can.
pub fn run() -> ExitCode {
    // As they were given: clap takes a `--` away.
    let mut command = program(std::env::args_os().skip(1));
    #[cfg(unix)]
    let failed = std::os::unix::process::CommandExt::exec(&mut command);
    #[cfg(not(unix))]
    let failed = match command.status() {
        Ok(status) => return status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1).into(),
        Err(e) => e,
    };
    eprintln!("cargo: {failed}");
    ExitCode::FAILURE
}
/// In the folder of whoever asks: files that they name are there.
fn program(words: impl Iterator<Item = OsString>) -> std::process::Command {
    let mut command = std::process::Command::new(workspace::cargo_path());
    command.args(["run", "--quiet", "--release", "--package", "xtask", "--manifest-path"]).arg(workspace::root().join("Cargo.toml"));
    command.arg("--").args(words);
    command
}
