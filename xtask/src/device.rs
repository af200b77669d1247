//! The device that a chore is asked to run on. A backend that is a feature of this program and is not built in is built
//! in: the chore starts again as a program with that feature.
use crate::{exit::Exit, workspace};
use adamant::{Device, backend::BACKENDS};
use std::{process::Command, str::FromStr};

/// What a device text may begin with.
const NAMES: [&str; 4] = ["cpu", "cuda", "wgpu", "reference"];
/// Cards that it plays.
const CARDS: [&str; 4] = ["sm_75", "sm_80", "sm_90", "sm_120"];
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
/// `--emulated[=sm_90]`: CUDA devices are played by the emulator from now on. It is built in where it is not.
///
/// # Errors
/// Usage: no card of that name.
pub fn emulate(card: &str) -> Result<(), Exit> {
    if !CARDS.contains(&card) {
        eprintln!("`{card}` is no card that the emulator plays; there are {}", CARDS.join(", "));
        return Err(Exit::Usage);
    }
    with_emulator()?;
    installed(card)
}
/// The emulator is a part of this program, or it starts again as one of which it is.
///
/// # Errors
/// Device absent: it could not be built in.
pub fn with_emulator() -> Result<(), Exit> {
    if cfg!(feature = "emulated") {
        return Ok(());
    }
    if std::env::var_os(BUILT).is_none() {
        start_again_with("emulated");
    }
    eprintln!("this program was built without its feature `emulated`");
    Err(Exit::DeviceAbsent)
}
#[cfg(feature = "emulated")]
fn installed(card: &str) -> Result<(), Exit> {
    use adamant_cuda_emulator::{Emulator, Options};
    // Without mapped pages each tensor has memory of its own, and accesses beyond it are seen.
    Emulator::install(Options { profile: card.into(), mapping: false, ..Options::default() }).map(drop).map_err(|e| {
        eprintln!("{e}");
        Exit::DeviceAbsent
    })
}
/// The driver that the emulator plays launches nothing from now on: what is left is what the host does.
///
/// # Errors
/// Usage: no emulator was asked for.
pub fn launch_nothing() -> Result<(), Exit> {
    #[cfg(feature = "emulated")]
    if let Some(emulator) = adamant_cuda_emulator::Emulator::installed() {
        emulator.set_null(true);
        return Ok(());
    }
    eprintln!("only a driver that is emulated launches nothing: give `--emulated` too");
    Err(Exit::Usage)
}
/// A device like the one of the text that freezes no plan, where it would freeze some.
pub fn never_frozen(text: &str) -> Option<Device> {
    #[cfg(feature = "cuda")]
    if text.starts_with("cuda") {
        let backend = adamant::cuda::CudaBackend::builder().graphs(None).build().ok()?;
        return Some(Device::from_backend(Box::new(backend)));
    }
    let _ = text;
    None
}
/// From now on the card that the emulator plays takes its work in the order of this seed. Is there such a card?
pub fn draw_order(seed: u64) -> bool {
    #[cfg(feature = "emulated")]
    if let Some(emulator) = adamant_cuda_emulator::Emulator::installed() {
        emulator.set_seed(seed);
        return true;
    }
    let _ = seed;
    false
}
/// What the card that the emulator plays has done on its virtual clock since this was asked last; from the first time on it is noted.
pub fn take_times() -> Option<crate::overlap::CardTimes> {
    #[cfg(feature = "emulated")]
    if let Some(emulator) = adamant_cuda_emulator::Emulator::installed() {
        use adamant_cuda_emulator::CardEngine;
        emulator.set_record(true);
        let mut times = crate::overlap::CardTimes::default();
        for span in emulator.spans() {
            match span.engine {
                CardEngine::Up => times.uploads.push((span.start, span.end)),
                CardEngine::Compute => times.compute.push((span.start, span.end)),
                CardEngine::Down | CardEngine::Host => {}
            }
        }
        return Some(times);
    }
    None
}
/// A kernel that runs soon is the last one of the card that the emulator plays: error `code`, which a reset heals or not.
pub fn plant_loss(code: u32, heals: bool) {
    #[cfg(feature = "emulated")]
    if let Some(emulator) = adamant_cuda_emulator::Emulator::installed() {
        emulator.set_reset_heals(heals);
        emulator.plant_in_kernel(4, code);
    }
    let _ = (code, heals);
}
/// The card as a process finds it that starts now, where the emulator plays it.
pub fn of_a_new_process() -> Option<Device> {
    #[cfg(feature = "emulated")]
    if let Some(emulator) = adamant_cuda_emulator::Emulator::installed() {
        emulator.reset(emulator.options()).ok()?;
        let backend = adamant::cuda::CudaBackend::builder().build().ok()?;
        return Some(Device::from_backend(Box::new(backend)));
    }
    None
}
#[cfg(not(feature = "emulated"))]
fn installed(_: &str) -> Result<(), Exit> {
    Err(Exit::DeviceAbsent)
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
