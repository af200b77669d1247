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
/// Says which packages there are if one of these is none of them.
///
/// # Errors
/// One is no package of the workspace, or cargo does not tell.
pub fn packages(named: &[&str]) -> Result<(), String> {
    let output = cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]).output().map_err(|e| format!("cargo: {e}"))?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let there: Vec<&str> = metadata["packages"].as_array().into_iter().flatten().filter_map(|p| p["name"].as_str()).collect();
    match named.iter().find(|name| !there.contains(name)) {
        Some(name) => Err(format!("`{name}` is no package of the workspace; there are {}", there.join(" "))),
        None => Ok(()),
    }
}
/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
/// The program `adamant`, built in release where cargo puts it.
///
/// # Errors
/// It cannot be built.
pub fn program() -> Result<PathBuf, String> {
    program_with(&[])
}
/// The same with more features than its own, such as `wgpu`: until it is built without them again.
///
/// # Errors
/// It cannot be built.
pub fn program_with(features: &[&str]) -> Result<PathBuf, String> {
    let mut command = cargo(&["build", "--quiet", "--release", "--package", "adamant-cli"]);
    if !features.is_empty() {
        command.args(["--features", &features.join(",")]);
    }
    let status = command.status().map_err(|e| format!("cargo: {e}"))?;
    let path = target().join("release").join(format!("adamant{}", std::env::consts::EXE_SUFFIX));
    match (status.success(), path.is_file()) {
        (true, true) => Ok(path),
        (true, false) => Err(format!("{} is not there: name the program", path.display())),
        (false, _) => Err("the program cannot be built".into()),
    }
}
