//! Which peers there are, and how each is started.
use super::{Ended, Options};
use crate::{exit::Exit, workspace};
use adamant_bench::child::Subject;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// What a peer's runner is.
enum Runner {
    /// a program of the workspace in `xtask/peers`
    Program(&'static str),
    /// a Python script with an argument
    Script(&'static str, &'static [&'static str]),
}
const PEERS: &[(&str, Runner)] = &[
    ("torch", Runner::Script("peer_torch.py", &[])),
    ("torch-compile", Runner::Script("peer_torch.py", &["--compile"])),
    ("torch-graphs", Runner::Script("peer_torch.py", &["--graphs"])),
    ("torch-cudnn", Runner::Script("peer_torch.py", &["--cudnn"])),
    ("onnxruntime", Runner::Script("peer_onnxruntime.py", &[])),
    ("jax", Runner::Script("peer_jax.py", &[])),
    ("candle", Runner::Program("peer-candle")),
    ("burn", Runner::Program("peer-burn")),
];

/// The wanted peers whose runners are there; the others are named.
pub fn peers(options: &Options) -> Result<Vec<Subject>, Ended> {
    let known: Vec<&str> = PEERS.iter().map(|p| p.0).collect();
    if let Some(unknown) = options.peers.iter().find(|p| !known.contains(&p.as_str())) {
        return Err((Exit::Usage, format!("no peer is called {unknown}; there are {}", known.join(", "))));
    }
    if !options.dir.is_dir() {
        return Err((Exit::Unreadable, format!("{} is no folder", options.dir.display())));
    }
    // The forms that only a card has are named by whoever wants them; nobody else runs there.
    let of_cards = |name: &str| ["torch-graphs", "torch-cudnn"].contains(&name);
    let runs_there = |name: &str| options.device == "cpu" || name.starts_with("torch");
    if let Some(other) = options.peers.iter().find(|p| !runs_there(p) || (options.device == "cpu" && of_cards(p))) {
        return Err((Exit::Usage, format!("{other} does not run on {}", options.device)));
    }
    let wanted = |name: &str| if options.peers.is_empty() { runs_there(name) && !of_cards(name) } else { options.peers.iter().any(|p| p == name) };
    let python = options.python.clone().unwrap_or_else(|| {
        let own = options.dir.join("bin/python");
        if own.is_file() { own } else { "python3".into() }
    });
    let mut found = Vec::new();
    for (name, runner) in PEERS.iter().filter(|p| wanted(p.0)) {
        match subject(runner, &options.dir, &python, options.threads.into(), &options.device) {
            Some(subject) => found.push(Subject { name: name.to_string(), starts_quickly: false, ..subject }),
            None => eprintln!("skipped: {name} has no runner: cargo build --release --manifest-path xtask/peers/Cargo.toml"),
        }
    }
    Ok(found)
}
/// In the folder that was named, else where the runners of this repository are.
fn subject(runner: &Runner, dir: &Path, python: &Path, threads: usize, device: &str) -> Option<Subject> {
    let ours = workspace::root().join("xtask/peers");
    let first = |places: Vec<PathBuf>| places.into_iter().find(|p| p.is_file());
    match runner {
        Runner::Program(name) => {
            let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
            let below = |folder: &Path| [folder.join(&name), folder.join("release").join(&name), folder.join("target/release").join(&name)];
            let program = first([below(dir), below(&ours)].concat())?;
            Some(Subject::program(program, threads, device))
        }
        Runner::Script(name, arguments) => {
            let script = first(vec![dir.join(name), ours.join(name)])?;
            let arguments = [OsString::from(script)].into_iter().chain(arguments.iter().map(OsString::from)).collect();
            Some(Subject { arguments, ..Subject::program(python.into(), threads, device) })
        }
    }
}
/// A program that was named itself.
pub fn prints_lines(path: &Path) -> Option<PathBuf> {
    path.is_file().then(|| path.to_path_buf())
}
