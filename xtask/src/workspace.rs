//! Where the workspace is, and how a chore calls cargo in it.
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The folder of the workspace's Cargo.toml.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
/// A cargo command in the workspace, by the cargo that runs this chore.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}
