//! Where the workspace is, and how a chore calls cargo in it.
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

/// The folder of the workspace's Cargo.toml.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
/// The cargo that runs this chore.
pub fn cargo_path() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
/// A cargo command in the workspace's folder.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_path());
    command.args(arguments).current_dir(root());
    command
}
