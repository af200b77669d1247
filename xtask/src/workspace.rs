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
/// The program `adamant`, built in release where cargo puts it.
///
/// # Errors
/// It cannot be built.
pub fn program() -> Result<PathBuf, String> {
    let status = cargo(&["build", "--quiet", "--release", "--package", "adamant-cli"]).status().map_err(|e| format!("cargo: {e}"))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let path = target.join("release").join(format!("adamant{}", std::env::consts::EXE_SUFFIX));
    match (status.success(), path.is_file()) {
        (true, true) => Ok(path),
        (true, false) => Err(format!("{} is not there: name the program", path.display())),
        (false, _) => Err("the program cannot be built".into()),
    }
}
