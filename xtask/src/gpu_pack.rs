//! `cargo xtask gpu-pack --out DIR`: what a bare machine with a card needs to show what Adamant does there: this program and `gpt2`, stripped
//! and packed, PyTorch's runners, and one script in stages with a limit each. The script is a driver of verbs that are there anyway; those
//! below say what none of them does, and judge. What was not run never counts as passed.
//!
//! Ends with 1 where the pack is larger than [`stages::LARGEST`].
mod figures;
mod judged;
mod kernels;
mod lines;
mod measured;
mod stages;

use crate::{exit::Exit, workspace};
use flate2::{Compression, write::GzEncoder};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The script, in which the stages are to be written.
const SCRIPT: &str = include_str!("gpu_pack/run.sh");
/// PyTorch's side, for where it is installed.
const RUNNERS: [&str; 4] = ["peer.py", "peer_torch.py", "models_torch.py", "gpu_torch.py"];
/// What is packed of NVRTC.
const NVRTC: [&str; 2] = ["libnvrtc.so.13", "libnvrtc-builtins.so"];

/// What the command line says.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Options {
    /// Where the pack goes: a folder that is empty, or holds a pack
    #[arg(long, value_name = "DIR", required = true)]
    out: Option<PathBuf>,
    /// How the programs are built
    #[arg(long, default_value = "release")]
    profile: String,
    /// A folder with `libnvrtc.so.13`, which is packed too, beside the 64 MiB
    #[arg(long, value_name = "DIR")]
    with_nvrtc: Option<PathBuf>,
    /// Run the script here once it is packed, in small on the emulator
    #[arg(long)]
    emulated_run: bool,
    #[command(subcommand)]
    action: Option<Action>,
}
/// What the script asks this program.
#[derive(clap::Subcommand)]
enum Action {
    /// What the device says of itself and of its self-test
    #[command(hide = true)]
    Probe(measured::Options),
    /// Twenty kernels beside the CPU's, or beside answers that were written
    #[command(hide = true)]
    Kernels(kernels::Options),
    /// Copies between host and card, and what they hide under
    #[command(hide = true)]
    Copies(measured::Options),
    /// What TF32 costs in exactness
    #[command(hide = true)]
    Tf32(measured::Options),
    /// A stage's figures from what programs printed
    #[command(hide = true)]
    Figures(figures::Options),
    /// A figure as it is told
    #[command(hide = true)]
    Say(figures::SaidFigure),
    /// What came of a run of the script, from its results.txt
    Judge { results: PathBuf },
}

/// Packs, or does what the script asks for.
pub fn run(options: &Options) -> Exit {
    match &options.action {
        Some(Action::Probe(o)) => measured::probe(o),
        Some(Action::Kernels(o)) => kernels::run(o),
        Some(Action::Copies(o)) => measured::copies(o),
        Some(Action::Tf32(o)) => measured::tf32(o),
        Some(Action::Figures(o)) => figures::run(o),
        Some(Action::Say(o)) => figures::say(o),
        Some(Action::Judge { results }) => judge(results),
        None => pack(options).unwrap_or_else(|(exit, why)| {
            eprintln!("{why}");
            exit
        }),
    }
}
fn judge(results: &Path) -> Exit {
    let text = match fs::read_to_string(results) {
        Ok(text) => text,
        Err(e) => {
            eprintln!("{}: {e}", results.display());
            return Exit::Unreadable;
        }
    };
    let judged = judged::judge(&text);
    judged.lines.iter().for_each(|line| println!("{line}"));
    let [passed, failed, not_run] = judged.counts();
    println!("{passed} passed, {failed} FAILED, {not_run} not run");
    match (failed, not_run) {
        (0, 0) => Exit::Passed,
        (0, _) => Exit::Skipped,
        _ => Exit::Failed,
    }
}

type Ended = (Exit, String);
fn unwritable(path: &Path) -> impl Fn(io::Error) -> Ended {
    let path = path.to_path_buf();
    move |e| (Exit::Unwritable, format!("{}: {e}", path.display()))
}
fn pack(options: &Options) -> Result<Exit, Ended> {
    let Some(out) = &options.out else { return Err((Exit::Usage, "name a folder with --out".into())) };
    let nvrtc = options.with_nvrtc.as_deref().map(compiler).transpose()?;
    let occupied = fs::read_dir(out).is_ok_and(|mut all| all.next().is_some());
    if occupied && !out.join("run.sh").is_file() {
        return Err((Exit::Usage, format!("{} holds something that is no pack", out.display())));
    }
    // Built first: a pack that is there stays as it is where this fails.
    let programs = built(&options.profile)?;
    for folder in ["bin", "peers", "nvrtc", "results"] {
        let _ = fs::remove_dir_all(out.join(folder));
    }
    let folders = ["bin", "peers"].map(|folder| out.join(folder));
    folders.iter().try_for_each(|folder| fs::create_dir_all(folder).map_err(unwritable(folder)))?;
    for (name, program) in &programs {
        packed(program, &out.join("bin").join(format!("{name}.gz")))?;
    }
    for name in RUNNERS {
        let (from, to) = (workspace::root().join("xtask/peers").join(name), out.join("peers").join(name));
        fs::copy(&from, &to).map_err(unwritable(&to))?;
    }
    let script = out.join("run.sh");
    fs::write(&script, written()).map_err(unwritable(&script))?;
    let bytes = size(out).map_err(unwritable(out))?;
    for (name, program) in &programs {
        let plain = fs::metadata(program).map_or(0, |m| m.len());
        println!("{name}: {:.1} MB, packed {:.1} MB", mega(plain), mega(fs::metadata(out.join(format!("bin/{name}.gz"))).map_or(0, |m| m.len())));
    }
    if let Some(files) = nvrtc {
        let folder = out.join("nvrtc/lib");
        fs::create_dir_all(&folder).map_err(unwritable(&folder))?;
        for file in files {
            let to = folder.join(file.file_name().unwrap_or_default());
            fs::copy(&file, &to).map_err(unwritable(&to))?;
            println!("{}: {:.1} MB beside the pack's", to.display(), mega(fs::metadata(&to).map_or(0, |m| m.len())));
        }
    }
    let fits = bytes <= stages::LARGEST;
    println!("{}: {:.1} of {:.1} MB: {}", out.display(), mega(bytes), mega(stages::LARGEST), if fits { "passed" } else { "FAILED" });
    if !fits {
        return Ok(Exit::Failed);
    }
    println!("on the machine with the card: bash run.sh");
    if options.emulated_run { emulated(&script) } else { Ok(Exit::Passed) }
}
fn mega(bytes: u64) -> f64 {
    bytes as f64 * 1e-6
}
/// The script with its stages.
fn written() -> String {
    SCRIPT.replace("@STAGES@", &stages::written())
}
/// Both programs of a profile with the backend and the emulator, without symbols.
fn built(profile: &str) -> Result<Vec<(&'static str, PathBuf)>, Ended> {
    // Of these two packages alone: what they depend on is what other builds have, and is not compiled anew.
    let stripped = |package: &str| format!("profile.{profile}.package.{package}.strip=true");
    let mut command = workspace::cargo(&["build", "--profile", profile, "--message-format", "json-render-diagnostics"]);
    command.args(["--package", "xtask", "--package", "gpt2", "--features", "xtask/emulated,gpt2/emulated"]);
    command.args(["--config", &stripped("xtask"), "--config", &stripped("gpt2")]);
    let output = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).output().map_err(|e| (Exit::Failed, format!("cargo: {e}")))?;
    if !output.status.success() {
        return Err((Exit::Failed, format!("the programs were not built ({})", output.status)));
    }
    let documents = String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<serde_json::Value>>();
    let of = |name: &'static str| {
        let made = documents.iter().filter(|d| d["target"]["name"] == name).filter_map(|d| d["executable"].as_str()).next_back();
        made.map(|path| (name, PathBuf::from(path))).ok_or_else(|| (Exit::Failed, format!("cargo does not say where {name} is")))
    };
    Ok(vec![of("xtask")?, of("gpt2")?])
}
fn packed(from: &Path, to: &Path) -> Result<(), Ended> {
    let mut source = fs::File::open(from).map_err(|e| (Exit::Unreadable, format!("{}: {e}", from.display())))?;
    let file = fs::File::create(to).map_err(unwritable(to))?;
    let mut encoder = GzEncoder::new(io::BufWriter::new(file), Compression::default());
    io::copy(&mut source, &mut encoder).and_then(|_| encoder.finish()).and_then(|mut inner| io::Write::flush(&mut inner)).map_err(unwritable(to))
}
/// The files of NVRTC in a folder, or in its `lib`.
fn compiler(folder: &Path) -> Result<Vec<PathBuf>, Ended> {
    let of = |folder: &Path| {
        let all: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        let named = |part: &str| all.iter().filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(part))).cloned().collect::<Vec<_>>();
        let found = NVRTC.map(named);
        (!found.iter().any(Vec::is_empty)).then(|| found.concat())
    };
    let there = [folder.to_path_buf(), folder.join("lib"), folder.join("lib64")].iter().find_map(|folder| of(folder));
    there.ok_or_else(|| (Exit::Unreadable, format!("{} has no {} with its builtins: pip install nvidia-cuda-nvrtc==13.0.88", folder.display(), NVRTC[0])))
}
/// Bytes of all files below a folder.
fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { size(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}
/// The script in small, on the emulator; what came of it goes where builds go.
fn emulated(script: &Path) -> Result<Exit, Ended> {
    let results = workspace::target().join("gpu-pack");
    let mut command = Command::new("bash");
    let status = command.arg(script).args(["--emulated", "--results"]).arg(results).status().map_err(|e| (Exit::Failed, format!("bash: {e}")))?;
    Ok(match status.code() {
        Some(0) => Exit::Passed,
        Some(9) => Exit::DeviceAbsent,
        Some(11) => Exit::Skipped,
        _ => Exit::Failed,
    })
}

#[cfg(test)]
#[path = "gpu_pack/tests.rs"]
mod tests;
