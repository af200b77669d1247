//! Signals that end a run, a terminal that is closed, and folders that vanish, on the real program.

use super::{command, err, folder};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

/// Long enough that no machine is through before it is stopped; each step is told.
pub(super) const LONG: [&str; 8] = ["--set", "epochs=30000", "--set", "log_every=1", "--set", "checkpoint.every=500", "--set", "optimizer.momentum=0.9"];
/// A length that can be waited for.
pub(super) const SHORT: [&str; 2] = ["--set", "epochs=2000"];

/// The program, and what starts it where this process ignores SIGHUP, as under `nohup`: a program inherits that.
fn that_hears_hangups() -> Vec<&'static str> {
    let ignored = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored.lines().find_map(|l| l.strip_prefix("SigIgn:")).and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    let program = env!("CARGO_BIN_EXE_adamant");
    if ignored.unwrap_or(0) & 1 == 0 { vec![program] } else { vec!["env", "--default-signal=HUP", program] }
}
pub(super) fn long(folder: &Path, run: &str) -> Command {
    let program = that_hears_hangups();
    let mut command = Command::new(program[0]);
    command.current_dir(folder).env("ADAMANT_DEVICE", "reference").args(&program[1..]).args(["train", "run.toml", "--json", "--run", run]);
    command.args(LONG).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
/// How many lines a run has told.
fn told(folder: &Path, run: &str) -> usize {
    fs::read_to_string(folder.join(run).join("metrics.jsonl")).map_or(0, |t| t.lines().count())
}
/// Waits until a run has told so many lines.
pub(super) fn until(child: &mut Child, folder: &Path, run: &str, lines: usize) {
    while told(folder, run) < lines {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be stopped");
        std::thread::yield_now();
    }
}
pub(super) fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success());
}
pub(super) fn goes_on(folder: &Path, run: &str) {
    goes_on_to(folder, run, &SHORT);
}
/// The same to another length.
pub(super) fn goes_on_to(folder: &Path, run: &str, length: &[&str]) {
    let go = |run: &str| {
        let arguments = ["train", "run.toml", "--quiet", "--resume", "auto", "--run", run];
        let output = command(folder, &arguments).args(LONG).args(length).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    };
    go(run);
    if !folder.join("whole").exists() {
        go("whole");
    }
    for name in ["weights.safetensors", "metrics.jsonl"] {
        assert!(fs::read(folder.join(run).join(name)).unwrap() == fs::read(folder.join("whole").join(name)).unwrap(), "{run}: {name}");
    }
}
fn document(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| unreachable!("{e}: {}", err(output)))
}

#[test]
fn a_signal_that_loses_what_was_learned() {
    let folder = folder();
    for (signal, number, name) in [("HUP", 1, "SIGHUP"), ("INT", 2, "SIGINT"), ("TERM", 15, "SIGTERM"), ("XCPU", 24, "SIGXCPU")] {
        for lines in [1, 40] {
            let run = format!("{signal}-{lines}");
            let mut child = long(folder.path(), &run).spawn().unwrap();
            until(&mut child, folder.path(), &run, lines);
            send(&child, signal);
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(128 + number), "{}", err(&output));
            let error = &document(&output)["error"];
            assert_eq!((error["kind"].as_str(), error["context"]["signal"].as_i64()), (Some("interrupted"), Some(i64::from(number))));
            assert!(error["message"].as_str().unwrap().starts_with(&format!("interrupted by {name} after step ")), "{error}");
            assert!(folder.path().join(error["context"]["checkpoint"].as_str().unwrap()).is_dir(), "{error}");
            goes_on(folder.path(), &run);
        }
    }
}
/// Schedules that move the momentum with the rate, whose state is more than a count.
#[test]
fn a_run_that_goes_on_with_another_momentum() {
    let schedules = ["kind = \"OneCycleLR\"\nmax_lr = 0.3", "kind = \"CyclicLR\"\nbase_lr = 0.01\nmax_lr = 0.3\nstep_size_up = 40"];
    for (k, schedule) in schedules.iter().enumerate() {
        for optimizer in ["kind = \"SGD\"\nmomentum = 0.9", "kind = \"AdamW\""] {
            let folder = folder();
            let text = super::RUN.replace("kind = \"SGD\"", optimizer).replace("epochs = 2", "epochs = 1000");
            fs::write(folder.path().join("run.toml"), format!("{text}[schedule]\n{schedule}\n")).unwrap();
            let run = |name: &str| command(folder.path(), &["train", "run.toml", "--quiet", "--resume", "auto", "--set", "log_every=1", "--run", name]);
            for more in [30, 60] {
                // Of lines of an earlier start nothing follows: a signal may come before the program listens.
                let lines = told(folder.path(), "stopped") + more;
                let mut child = run("stopped").spawn().unwrap();
                until(&mut child, folder.path(), "stopped", lines);
                send(&child, "INT");
                assert_eq!(child.wait().unwrap().code(), Some(130));
            }
            for name in ["stopped", "whole"] {
                assert!(run(name).status().unwrap().success());
            }
            for file in ["weights.safetensors", "metrics.jsonl"] {
                let of = |name: &str| fs::read(folder.path().join(name).join(file)).unwrap();
                assert!(of("stopped") == of("whole"), "{file} under schedule {k} of {optimizer}");
            }
        }
    }
}
/// Descriptions that the program comes with, which cycle the momentum.
#[test]
fn an_example_that_does_not_go_on_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (part, count) in [("train", 24u32), ("t10k", 8)] {
        let images =
            [0, 0, 8, 3].into_iter().chain([count, 28, 28].into_iter().flat_map(u32::to_be_bytes)).chain((0..count * 784).map(|k| (k * k % 251) as u8));
        let labels = [0, 0, 8, 1].into_iter().chain(count.to_be_bytes()).chain((0..count).map(|k| (k % 10) as u8));
        fs::write(at.join(format!("{part}-images-idx3-ubyte")), images.collect::<Vec<u8>>()).unwrap();
        fs::write(at.join(format!("{part}-labels-idx1-ubyte")), labels.collect::<Vec<u8>>()).unwrap();
    }
    assert!(super::adamant(at, &["config", "create", "images", "images.toml"]).status.success());
    let mnist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mnist/mnist.toml");
    for (name, description, epochs) in [("mnist", mnist, "epochs=10"), ("images", at.join("images.toml"), "epochs=20")] {
        assert!(fs::read_to_string(&description).unwrap().contains("OneCycleLR"));
        let run = |run: &str| {
            let mut command = command(at, &["train", "--data", ".", "--quiet", "--device", "cpu", "--resume", "auto", "--run", run]);
            command.args(["--set", epochs, "--set", "batch=4", "--set", "log_every=1", "--set", "checkpoint.every=4"]).arg(&description);
            command
        };
        let (stopped, whole) = (format!("{name}-stopped"), format!("{name}-whole"));
        for more in [2, 6] {
            let lines = told(at, &stopped) + more;
            let mut child = run(&stopped).spawn().unwrap();
            until(&mut child, at, &stopped, lines);
            send(&child, "INT");
            assert_eq!(child.wait().unwrap().code(), Some(130), "{name}");
        }
        assert!(run(&stopped).status().unwrap().success() && run(&whole).status().unwrap().success());
        for file in ["weights.safetensors", "metrics.jsonl"] {
            assert!(fs::read(at.join(&stopped).join(file)).unwrap() == fs::read(at.join(&whole).join(file)).unwrap(), "{name}: {file}");
        }
    }
}
#[test]
fn a_hangup_that_comes_twice_and_ends_the_save() {
    let folder = folder();
    let mut child = long(folder.path(), "twice").spawn().unwrap();
    until(&mut child, folder.path(), "twice", 5);
    // As a shell and the system send it together.
    for _ in 0..5 {
        send(&child, "HUP");
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(129), "{}", err(&output));
    assert!(folder.path().join(document(&output)["error"]["context"]["checkpoint"].as_str().unwrap()).is_dir());
    goes_on(folder.path(), "twice");
}
#[test]
#[cfg(target_os = "linux")]
fn a_run_under_nohup_that_is_hung_up() {
    let folder = folder();
    let line = "trap '' HUP; exec \"$@\"";
    let mut command = Command::new("sh");
    command.current_dir(folder.path()).env("ADAMANT_DEVICE", "reference").args(["-c", line, "sh", env!("CARGO_BIN_EXE_adamant")]);
    command.args(["train", "run.toml", "--json", "--run", "nohup"]).args(LONG).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    until(&mut child, folder.path(), "nohup", 5);
    send(&child, "HUP");
    until(&mut child, folder.path(), "nohup", 50);
    send(&child, "TERM");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
    goes_on(folder.path(), "nohup");
}
/// The run's terminal: a pseudo-terminal that is its own session's, as a window or ssh gives one.
#[test]
#[cfg(target_os = "linux")]
fn a_terminal_that_is_closed_and_takes_the_run_with_it() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::os::unix::ffi::OsStrExt;
    if Command::new("setsid").arg("--version").output().is_err() {
        return eprintln!("SKIPPED: there is no setsid, which gives a program a terminal of its own");
    }
    let folder = folder();
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = fs::OpenOptions::new().read(true).write(true).open(std::ffi::OsStr::from_bytes(name.as_bytes())).unwrap();
    let end = || Stdio::from(slave.try_clone().unwrap());
    let mut command = Command::new("setsid");
    command.current_dir(folder.path()).env("ADAMANT_DEVICE", "reference").args(["--ctty", "--wait"]).args(that_hears_hangups());
    command.args(["train", "run.toml", "--run", "window"]).args(LONG).stdin(end()).stdout(end()).stderr(end());
    let mut child = command.spawn().unwrap();
    drop(command);
    drop(slave);
    // Somebody looks at the window, or the run would wait for space in it.
    let mut screen = fs::File::from(master);
    let looks = std::thread::spawn({
        let mut screen = screen.try_clone().unwrap();
        let (folder, run) = (folder.path().to_path_buf(), "window");
        move || {
            let mut piece = [0; 4096];
            let told = || fs::read_to_string(folder.join(run).join("metrics.jsonl")).map_or(0, |t| t.lines().count());
            while told() < 40 && std::io::Read::read(&mut screen, &mut piece).is_ok_and(|n| n > 0) {}
        }
    });
    looks.join().unwrap();
    assert!(child.try_wait().unwrap().is_none(), "it ended before its window was closed");
    std::io::Write::flush(&mut screen).unwrap();
    drop(screen);
    assert_eq!(child.wait().unwrap().code(), Some(129));
    assert!(fs::read_dir(folder.path().join("window/checkpoints")).unwrap().flatten().any(|e| e.file_name().to_string_lossy().starts_with("step-")));
    goes_on(folder.path(), "window");
}
#[test]
fn a_run_folder_that_is_taken_away_under_the_program() {
    let folder = folder();
    let mut child = long(folder.path(), "gone").spawn().unwrap();
    until(&mut child, folder.path(), "gone", 20);
    fs::rename(folder.path().join("gone"), folder.path().join("moved")).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = &document(&output)["error"];
    assert_eq!((output.status.code(), error["kind"].as_str(), error["context"]["path"].as_str()), (Some(6), Some("storage"), Some("gone")), "{error}");
    assert!(error["context"]["now"].as_str().unwrap().ends_with("/moved") && !folder.path().join("gone").exists(), "{error}");
    goes_on(folder.path(), "moved");
}
#[test]
fn runs_that_begin_at_one_instant_and_take_each_others_folder() {
    let folder = folder();
    for (round, many) in [3, 5, 8, 16].into_iter().enumerate() {
        let children: Vec<Child> = (0..many)
            .map(|k| {
                command(folder.path(), &["train", "run.toml", "--json", "--set", &format!("seed={k}")])
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let mut places: Vec<String> = Vec::new();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", err(&output));
            places.push(document(&output)["run"].as_str().unwrap().to_string());
        }
        places.sort();
        places.dedup();
        assert_eq!(places.len(), many, "round {round}: {places:?}");
        assert!(places.iter().all(|p| folder.path().join(p).join("result.json").exists()));
    }
    // A start that fails leaves no number behind.
    let before = fs::read_dir(folder.path().join("runs")).unwrap().count();
    assert_eq!(super::adamant(folder.path(), &["train", "run.toml", "--set", "data.path=gone.csv"]).status.code(), Some(2));
    assert_eq!(fs::read_dir(folder.path().join("runs")).unwrap().count(), before);
}
