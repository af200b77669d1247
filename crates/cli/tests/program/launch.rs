//! `adamant launch`: ranks of the program itself and of others, what a shell sees of them, and what is left.
use super::{adamant, command, err, folder, out, signals::send};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A launcher that a test can leave at any time.
struct Launched(Child);
impl Drop for Launched {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
fn launched(folder: &Path, script: &str) -> Launched {
    // Also where this process is to ignore signals, as a job in the background: a program inherits that.
    let mut command = Command::new("env");
    command.current_dir(folder).args(["--default-signal=INT,TERM,HUP", env!("CARGO_BIN_EXE_adamant"), "launch", "-n", "3", "--", "sh", "-c", script]);
    Launched(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}
/// Reads lines of the ranks until so many begin with a word; those of `pid`.
fn until(launched: &mut Launched, word: &str, times: usize) -> (Vec<u32>, BufReader<std::process::ChildStdout>) {
    let (mut seen, mut processes) = (0, Vec::new());
    let mut lines = BufReader::new(launched.0.stdout.take().unwrap());
    while seen < times {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "ended after {seen} times {word}");
        let line = line.split_once("] ").unwrap().1.trim_end();
        seen += usize::from(line == word);
        processes.extend(line.strip_prefix("pid ").map(|pid| pid.parse::<u32>().unwrap()));
    }
    (processes, lines)
}
fn all_gone(processes: &[u32]) {
    let is_alive = |process: &u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"));
        stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with(['Z', 'X']))
    };
    let begun = Instant::now();
    while processes.iter().any(is_alive) {
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?} are left", processes.iter().filter(|p| is_alive(p)).collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn ranks_of_the_program_itself() {
    let folder = folder();
    // Whatever `adamant` is in PATH, or none.
    let output = command(folder.path(), &["launch", "-n", "2", "--", "adamant", "info", "--json"]).env("PATH", "/usr/bin:/bin").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    for rank in ["[0] ", "[1] "] {
        let document: String = out(&output).lines().filter_map(|line| line.strip_prefix(rank)).collect();
        assert!(serde_json::from_str::<serde_json::Value>(&document).is_ok(), "{document}");
    }
}
#[test]
fn codes_and_lines_that_a_shell_does_not_see() {
    let folder = folder();
    let launch = |options: &[&str], script: &str| adamant(folder.path(), &[&["launch", "-n", "3"], options, &["--", "sh", "-c", script]].concat());
    let output = launch(&["--max-restarts", "0", "--log-dir", "logs"], "echo out $RANK; echo err $RANK >&2; if [ $RANK = 2 ]; then exit 5; fi");
    assert_eq!(output.status.code(), Some(5), "{}", err(&output));
    for rank in 0..3 {
        assert!(out(&output).lines().any(|line| line == format!("[{rank}] out {rank}")), "{}", out(&output));
        assert!(err(&output).lines().any(|line| line == format!("[{rank}] err {rank}")), "{}", err(&output));
        let log = fs::read_to_string(folder.path().join(format!("logs/rank-{rank}.log"))).unwrap();
        assert!(log.contains(&format!("out {rank}\n")) && log.contains(&format!("err {rank}\n")));
    }
    assert!(err(&output).contains("rank 2 failed first: exit code 5; its last lines on stderr:\n  err 2\n"), "{}", err(&output));
    // Options are those of the launcher up to `--`.
    let output = launch(
        &["--timeout", "90s", "--engine", "local", "--max-restarts=1"],
        "echo $ADAMANT_TIMEOUT $ADAMANT_ENGINE $ADAMANT_EPOCH --json; [ $ADAMANT_EPOCH = 1 ]",
    );
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("[1] 1m 30s local 1 --json\n"), "{}", out(&output));
    assert!(err(&output).contains("starting all 3 ranks again in 1s: restart 1 of 1\n"), "{}", err(&output));
}
#[test]
fn a_command_line_that_starts_anything_in_spite_of_a_mistake() {
    let folder = folder();
    for (arguments, code, words) in [
        (&["launch", "-n", "2"][..], 2, "PROGRAM"),
        (&["launch", "--", "true"], 2, "--ranks <N>"),
        (&["launch", "-n", "0", "--", "touch", "made"], 2, "0 ranks: a job has 1 to"),
        (&["launch", "-n", "x", "--", "touch", "made"], 2, "invalid value 'x'"),
        (&["launch", "-n", "2", "touch", "made"], 2, "unexpected argument 'touch'"),
        (&["launch", "-n", "2", "--timeout", "0", "--", "touch", "made"], 2, "a time above 0"),
        (&["launch", "-n", "2", "--hosts", "a,-b", "--", "touch", "made"], 2, "HOST:RANKS"),
        (&["launch", "-n", "2", "--hosts", "a,b", "--engine", "local", "--", "touch", "made"], 2, "engine local is one host; install openmpi-bin"),
        (&["launch", "-n", "2", "--", "no-such-program", "made"], 127, "no rank was started"),
        (&["launch", "-n", "2", "--", "./points.csv"], 126, "no rank was started"),
    ] {
        let output = adamant(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(words) && out(&output).is_empty(), "{arguments:?}: {}", err(&output));
        assert!(!folder.path().join("made").exists());
    }
    let output = command(folder.path(), &["launch", "-n", "2", "--engine", "mpi", "--", "/bin/true"]).env("PATH", folder.path()).output().unwrap();
    assert!(output.status.code() == Some(9) && err(&output).contains("install openmpi-bin"), "{}", err(&output));
}
#[test]
fn a_signal_that_stops_at_the_launcher() {
    let folder = folder();
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let script = "trap 'echo asked; exit 0' TERM INT; echo pid $$; sleep 1000 & echo pid $!; echo ready; while :; do sleep 0.01; done";
        let mut launcher = launched(folder.path(), script);
        let (processes, mut lines) = until(&mut launcher, "ready", 3);
        send(&launcher.0, signal);
        assert_eq!(launcher.0.wait().unwrap().code(), Some(code), "{signal}");
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        assert_eq!(rest.matches("asked\n").count(), 3, "{rest}");
        all_gone(&processes);
    }
}
#[test]
fn a_launcher_that_is_killed_and_leaves_something() {
    let folder = folder();
    let mut launcher = launched(folder.path(), "trap '' TERM INT HUP; echo pid $$; sleep 1000 & echo pid $!; echo ready; while :; do sleep 1; done");
    let (mut processes, _lines) = until(&mut launcher, "ready", 3);
    let children = Command::new("ps").args(["-o", "pid=", "--ppid", &launcher.0.id().to_string()]).output().unwrap();
    // Three ranks, and the guard.
    let children: Vec<u32> = String::from_utf8_lossy(&children.stdout).split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!((children.len(), processes.len()), (4, 6));
    processes.extend(children);
    launcher.0.kill().unwrap();
    launcher.0.wait().unwrap();
    all_gone(&processes);
}
#[test]
fn a_reader_that_has_seen_enough() {
    let folder = folder();
    let line =
        format!("{} launch -n 2 --max-restarts 0 -- sh -c 'yes | head -n 20000; exit 3' | head -n 1; echo ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_adamant"));
    let output = Command::new("bash").args(["-c", &line]).current_dir(folder.path()).output().unwrap();
    let text = out(&output);
    assert!(text.ends_with("] y\n3\n"), "{text} {}", err(&output));
}
/// A run that ranks share has the files of one rank; one of them is killed, and the others say so; on other ranks it goes on.
#[test]
fn a_run_that_other_ranks_end_in_other_bits() {
    let folder = folder();
    let train = |run: &str| {
        format!("train run.toml --run {run} --resume auto --no-control --set epochs=20 --set batch=6 --set distributed.shards=4 --set checkpoint.every=5")
    };
    let on = |ranks: &str, run: &str| {
        let train = train(run);
        let arguments: Vec<&str> = ["launch", "-n", ranks, "--max-restarts", "0", "--", "adamant"].into_iter().chain(train.split(' ')).collect();
        let output = adamant(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(0), "{ranks} ranks: {}", err(&output));
        // One rank tells how it goes.
        assert!(out(&output).lines().chain(err(&output).lines()).all(|line| !line.starts_with("[1] ")), "{} {}", out(&output), err(&output));
    };
    let alone = adamant(folder.path(), &train("alone").split(' ').collect::<Vec<_>>());
    assert_eq!(alone.status.code(), Some(0), "{}", err(&alone));
    let files = |run: &str| ["weights.safetensors", "metrics.jsonl"].map(|name| fs::read(folder.path().join(run).join(name)).unwrap());
    for ranks in ["2", "3", "4"] {
        on(ranks, &format!("on-{ranks}"));
        assert!(files("alone") == files(&format!("on-{ranks}")), "{ranks} ranks");
    }
    // Too many ranks for the shards: each says so, and nothing is started again.
    let train = train("refused");
    let arguments: Vec<&str> = ["launch", "-n", "5", "--", "adamant"].into_iter().chain(train.split(' ')).collect();
    let output = adamant(folder.path(), &arguments);
    assert!(output.status.code() == Some(2) && err(&output).contains("4 shards on 5 ranks"), "{}", err(&output));
}
