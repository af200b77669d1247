//! Where and how a run was made, for its folder.
use adamant::Device;
use serde_json::{Value, json};
use std::{path::Path, time::SystemTime};

/// `environment.json`: program, device, machine, command, and where the data were.
pub fn environment(device: Device, config: &Path, data: &Path) -> Value {
    let info = device.info();
    let detail = |key: &str| info.details.iter().find(|(k, _)| *k == key).map(|(_, v)| v.clone());
    json!({
        "program": "adamant",
        "version": env!("CARGO_PKG_VERSION"),
        "device": device.to_string(),
        "threads": info.parallelism,
        "cpu": info.name,
        "isa": detail("isa"),
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
        "rustc": option_env!("RUSTC_VERSION"),
        "started": humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        "command": std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        "config": config.file_stem().map(|s| s.to_string_lossy().into_owned()),
        "data": std::path::absolute(data).unwrap_or_else(|_| data.to_path_buf()).to_string_lossy(),
    })
}
