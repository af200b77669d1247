//! The device that a chore is asked to run on. A backend that is a feature of this program and is not built in is built
//! in: the chore starts again as a program with that feature.
use crate::{exit::Exit, workspace};
use adamant::{Device, backend::BACKENDS};
use std::{process::Command, str::FromStr};

/// What a device text may begin with.
const NAMES: [&str; 4] = ["cpu", "cuda", "wgpu", "reference"];
/// Set for the program with the feature, so that a feature without its backend cannot start programs for ever.
const BUILT: &str = "ADAMANT_XTASK_BUILT";

/// The device that a text such as `cpu`, `cuda:1` or `reference` means.
///
/// # Errors
/// Usage, if the text means none; device absent, if this machine or this tree has none. Both are explained on stderr.
pub fn open(text: &str) -> Result<Device, Exit> {
    let (name, number) = text.split_once(':').unwrap_or((text, "0"));
    if !NAMES.contains(&name) || number.parse::<usize>().is_err() {
        eprintln!("`{text}` is no device; write cpu, cuda[:n], wgpu[:n] or reference");
        return Err(Exit::Usage);
    }
    build_in(text);
    Device::from_str(text).map_err(|e| {
        eprintln!("{e}");
        Exit::DeviceAbsent
    })
}
/// Starts again with the backend of a device text built in, where it is a feature of this program and is not.
pub fn build_in(text: &str) {
    let name = text.split(':').next().unwrap_or(text);
    if name != "reference" && !BACKENDS.iter().any(|b| b.name == name) && is_feature(name) && std::env::var_os(BUILT).is_none() {
        start_again_with(name);
    }
}
/// Does this program have a feature of that name?
fn is_feature(name: &str) -> bool {
    let read = workspace::cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]).output();
    let metadata: Option<serde_json::Value> = read.ok().and_then(|o| serde_json::from_slice(&o.stdout).ok());
    let packages = metadata.as_ref().and_then(|m| m.get("packages")).and_then(|p| p.as_array());
    packages.into_iter().flatten().any(|p| p["name"] == env!("CARGO_PKG_NAME") && p["features"].get(name).is_some())
}
/// Builds this program with a feature, runs it with the same arguments, and ends as it ends.
fn start_again_with(feature: &str) -> ! {
    eprintln!("building the {feature} backend in");
    let manifest = workspace::root().join("Cargo.toml");
    let mut command = Command::new(workspace::cargo_path());
    command.args(["run", "--quiet", "--release", "--package", env!("CARGO_PKG_NAME"), "--features", feature, "--manifest-path"]).arg(manifest).arg("--");
    let status = command.args(std::env::args_os().skip(1)).env(BUILT, feature).status();
    std::process::exit(match status {
        Ok(status) => status.code().unwrap_or(Exit::Failed as i32),
        Err(e) => {
            eprintln!("cargo: {e}");
            Exit::DeviceAbsent as i32
        }
    })
}
