//! The viewer and the requests of a living run, on the real program: in a terminal, and without one.

use super::{
    Wrong, adamant, command, err, folder, out,
    signals::{LONG, SHORT, goes_on_to, long, send, until},
};
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// How long a word is waited for: what takes longer is not going to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A viewer in a terminal of its own.
struct Viewer {
    child: Child,
    keys: File,
    output: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
    /// nobody looks any more
    closed: Arc<AtomicBool>,
}
impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
impl Viewer {
    fn of(folder: &Path, run: &str, (columns, rows): (u16, u16), environment: &[(&str, &str)]) -> Viewer {
        Viewer::start(command(folder, &["watch", run]), (columns, rows), environment)
    }
    /// What a command shows in a terminal.
    fn start(mut command: Command, (columns, rows): (u16, u16), environment: &[(&str, &str)]) -> Viewer {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = OpenOptions::new().read(true).write(true).open(std::ffi::OsStr::from_bytes(name.as_bytes())).unwrap();
        tcsetwinsize(&slave, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        command.env_remove("NO_COLOR").env("TERM", "xterm-256color").env("LANG", "C.UTF-8").env_remove("LC_ALL").env_remove("LC_CTYPE");
        command.envs(environment.iter().copied()).stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        drop(command);
        drop(slave);
        let keys = File::from(master);
        let (output, closed) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let reader = std::thread::spawn({
            let (mut screen, output, closed) = (keys.try_clone().unwrap(), output.clone(), closed.clone());
            move || {
                let mut piece = [0; 4096];
                while let Ok(n @ 1..) = screen.read(&mut piece) {
                    output.lock().unwrap().extend_from_slice(&piece[..n]);
                    if closed.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        });
        Viewer { child, keys, output, reader: Some(reader), closed }
    }
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }
    /// Waits until a word stands on the screen.
    fn shows(&mut self, word: &str) {
        let begun = Instant::now();
        while !screen(&self.text()).contains(word) {
            let lives = self.child.try_wait().unwrap().is_none() && begun.elapsed() < PATIENCE;
            assert!(lives, "`{word}` does not come: {}", screen(&self.text()));
            std::thread::yield_now();
        }
    }
    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
    /// Presses until a word stands on the screen: before the viewer has heard of the run it can only say so.
    fn press_until(&mut self, keys: &str, word: &str) {
        let begun = Instant::now();
        while !screen(&self.text()).contains(word) && begun.elapsed() < PATIENCE {
            self.press(keys);
            std::thread::sleep(Duration::from_millis(300));
        }
        self.shows(word);
    }
    fn resize(&mut self, (columns, rows): (u16, u16)) {
        tcsetwinsize(&self.keys, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    }
    /// Its terminal is closed, and no signal tells: it ends by itself.
    fn close(mut self) {
        self.closed.store(true, Ordering::Relaxed);
        self.reader.take().unwrap().join().unwrap();
        self.keys = File::open("/dev/null").unwrap();
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "it goes on without a terminal");
            std::thread::yield_now();
        }
    }
    /// Leaves; gives what came at last.
    fn leave(mut self) -> String {
        self.press("q");
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let text = self.text();
        assert!(status.success(), "{status}: {text}");
        assert!(text.contains("\u{1b}[?1049l"), "the terminal is left as it was drawn on: {text:?}");
        text
    }
}
/// What stands on a terminal after such an output, line by line.
fn screen(output: &str) -> String {
    let mut cells: BTreeMap<(usize, usize), char> = BTreeMap::new();
    let (mut row, mut column) = (1, 1);
    let mut rest = output.chars();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            cells.insert((row, column), c);
            column += 1;
            continue;
        }
        rest.next();
        let mut of = String::new();
        let last = loop {
            match rest.next() {
                Some(c) if c.is_ascii_alphabetic() => break c,
                Some(c) => of.push(c),
                None => return String::new(),
            }
        };
        match last {
            'H' => (row, column) = of.split_once(';').map_or((1, 1), |(row, column)| (row.parse().unwrap(), column.parse().unwrap())),
            'J' => cells.clear(),
            _ => {}
        }
    }
    let mut text = String::new();
    for row in 1..=cells.keys().map(|(row, _)| *row).max().unwrap_or(0) {
        let width = cells.range((row, 0)..(row + 1, 0)).next_back().map_or(0, |((_, column), _)| *column);
        text.extend((1..=width).map(|column| cells.get(&(row, column)).copied().unwrap_or(' ')));
        text.push('\n');
    }
    text
}
/// A run that waits for nobody to read what it says.
fn living(folder: &Path, run: &str) -> Command {
    let mut command = long(folder, run);
    command.arg("--quiet");
    command
}
/// The parameters of each sequence that sets how characters look.
fn looks(text: &str) -> Vec<String> {
    let sequences = text.split("\u{1b}[").skip(1).filter_map(|s| s.split_once(|c: char| c.is_ascii_alphabetic()).map(|(of, _)| (of, &s[of.len()..])));
    sequences.filter(|(_, rest)| rest.starts_with('m')).flat_map(|(of, _)| of.split(';').map(String::from).collect::<Vec<_>>()).collect()
}
fn is_colour(look: &str) -> bool {
    look.parse::<u32>().is_ok_and(|n| (30..=38).contains(&n) || (40..=48).contains(&n) || (90..=107).contains(&n))
}

/// Goes on from wherever a run was ended, as long as that took, and is held against one that nobody looked at.
fn goes_on_a_little(at: &Path, run: &str) {
    let steps = fs::read_to_string(at.join(run).join("metrics.jsonl")).unwrap().lines().filter(|line| line.contains("\"kind\":\"step\"")).count();
    goes_on_to(at, run, &["--set", &format!("epochs={}", steps / 3 + 100)]);
}
#[test]
fn a_viewer_that_changes_a_run_or_ends_it() {
    let folder = folder();
    let at = folder.path();
    let mut run = living(at, "run").spawn().unwrap();
    until(&mut run, at, "run", 20);
    // Comes and goes, in windows of all sizes.
    for size in [(80, 24), (200, 60), (20, 5)] {
        let mut viewer = Viewer::of(at, "run", size, &[]);
        viewer.shows("training  run");
        viewer.press("\t12345?x");
        for size in [(80, 24), (40, 10), (5, 2), (1, 1), (120, 40), (80, 24)] {
            viewer.resize(size);
            viewer.press("\t");
        }
        viewer.press("1");
        viewer.shows("Curves");
        viewer.leave();
    }
    // Is killed, with a request under way.
    let mut viewer = Viewer::of(at, "run", (80, 24), &[]);
    viewer.shows("training  run");
    viewer.press("c");
    viewer.child.kill().unwrap();
    viewer.child.wait().unwrap();
    // Its terminal is closed.
    let mut viewer = Viewer::of(at, "run", (80, 24), &[]);
    viewer.shows("training  run");
    viewer.close();
    // A checkpoint, a pause, and on.
    let mut viewer = Viewer::of(at, "run", (80, 24), &[]);
    viewer.shows("training  run");
    viewer.press("c");
    viewer.shows("checkpoints/step-");
    viewer.press("p");
    // Not the answer alone: what `p` asks for next follows from where the run says that it is.
    viewer.shows("paused  run");
    viewer.press("p");
    viewer.shows("goes on after step");
    viewer.press("rn");
    viewer.shows("nothing was asked for");
    viewer.leave();
    assert!(run.try_wait().unwrap().is_none(), "the run has ended");
    send(&run, "TERM");
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(143));
    assert!(!at.join("run/control.sock").exists() && !at.join("run/control.jsonl").exists());
    goes_on_a_little(at, "run");
}
/// The names in a run's folder; those of events have the time and the process in them.
fn names(folder: &Path) -> BTreeSet<String> {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    all.filter(|name| !name.starts_with("events.out")).collect()
}
#[test]
fn fifty_viewers_that_leave_a_trace() {
    let folder = folder();
    let at = folder.path();
    let mut run = living(at, "run").spawn().unwrap();
    until(&mut run, at, "run", 20);
    for k in 0..50 {
        let mut viewer = Viewer::of(at, "run", [(80, 24), (120, 40), (30, 8)][k % 3], &[]);
        viewer.shows("training  run");
        viewer.press(["\t\t", "5j", "?x", "2", "34"][k % 5]);
        viewer.resize((80, 24));
        match k % 4 {
            0 => {
                viewer.child.kill().unwrap();
                viewer.child.wait().unwrap();
            }
            1 => viewer.close(),
            _ => drop(viewer.leave()),
        }
        assert!(run.try_wait().unwrap().is_none(), "the run has ended");
    }
    send(&run, "TERM");
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(143));
    goes_on_a_little(at, "run");
    assert_eq!(names(&at.join("run")), names(&at.join("whole")));
}
#[test]
fn a_run_with_its_viewer_that_is_another_run_or_ends_with_it() {
    let folder = folder();
    let at = folder.path();
    let length = ["--set", "epochs=3000", "--set", "log_every=1"];
    assert!(command(at, &["train", "run.toml", "--quiet", "--run", "plain"]).args(length).status().unwrap().success());
    let start = |run: &str, more: &[&str]| {
        let mut command = command(at, &["train", "run.toml", "--tui", "--run", run]);
        command.args(length).args(more);
        Viewer::start(command, (100, 30), &[])
    };
    let same = |run: &str| {
        for name in ["weights.safetensors", "metrics.jsonl"] {
            assert!(fs::read(at.join(run).join(name)).unwrap() == fs::read(at.join("plain").join(name)).unwrap(), "{run}: {name}");
        }
        assert_eq!(names(&at.join(run)), names(&at.join("plain")), "{run}");
    };
    let ends = |mut viewer: Viewer| {
        let status = viewer.child.wait().unwrap();
        viewer.reader.take().unwrap().join().unwrap();
        let text = viewer.text();
        let (shown, after) = text.split_once("\u{1b}[?1049l").unwrap_or_else(|| unreachable!("the terminal is left as it was drawn on: {text:?}"));
        (status, shown.to_string(), after.to_string())
    };
    // Somebody leaves: the run goes on in plain lines.
    let mut viewer = start("left", &[]);
    viewer.shows("training  left");
    viewer.press("\t?x");
    viewer.resize((80, 24));
    viewer.press("q");
    let (status, shown, after) = ends(viewer);
    assert!(
        status.success() && after.contains("rows to train on") && after.contains("epoch 3000/3000") && after.contains("report in"),
        "{status} {after:.300}"
    );
    assert!(!shown.contains("epoch    1/3000"), "{shown:?}");
    same("left");
    // Nobody does: it leaves when the run is over.
    let mut viewer = start("stays", &[]);
    viewer.shows("training  stays");
    viewer.press("c");
    viewer.shows("checkpoints/step-");
    let (status, _, after) = ends(viewer);
    assert!(
        status.success() && after.contains("rows to train on") && after.contains("report in") && !after.contains("epoch 3000/3000"),
        "{status} {after:.300}"
    );
    same("stays");
    // A signal, and a failure: the terminal is given back, and the code is the run's.
    let mut viewer = start("ended", &["--set", "epochs=30000"]);
    viewer.shows("training  ended");
    send(&viewer.child, "TERM");
    let (status, _, after) = ends(viewer);
    assert!(status.code() == Some(143) && after.contains("interrupted by SIGTERM"), "{status} {after:?}");
    let (status, _, after) = ends(start("fails", &["--set", "optimizer.lr=1e300"]));
    assert!(status.code() == Some(3) && after.contains("training has diverged"), "{status} {after:?}");
    // Without a terminal, and beside what says otherwise.
    let mut wrong = Wrong::default();
    wrong.ends("no terminal", &adamant(at, &["train", "run.toml", "--tui", "--run", "none"]), 2, "--tui draws on a terminal");
    wrong.unless(!at.join("none").exists(), || "a folder was made".into());
    for other in ["--json", "--quiet", "--no-control", "--dry-run"] {
        wrong.ends(other, &adamant(at, &["train", "run.toml", "--tui", other]), 2, "cannot be used with");
    }
}
#[test]
fn a_key_that_the_run_does_not_obey() {
    let folder = folder();
    let at = folder.path();
    let mut run = living(at, "run").spawn().unwrap();
    until(&mut run, at, "run", 20);
    let mut viewer = Viewer::of(at, "run", (100, 30), &[]);
    viewer.shows("training  run");
    viewer.press("r");
    viewer.shows("y/n");
    viewer.press("y");
    viewer.shows("it is 5e-2 now");
    viewer.press("e");
    viewer.shows("y/n");
    viewer.press("y");
    viewer.shows("ended");
    viewer.leave();
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(0));
    let journal = fs::read_to_string(at.join("run/control.jsonl")).unwrap();
    assert!(journal.lines().count() == 2 && journal.contains("\"factor\":0.5") && journal.contains("stop_after_epoch"), "{journal}");
    let metrics = fs::read_to_string(at.join("run/metrics.jsonl")).unwrap();
    assert!(metrics.contains("\"kind\":\"stop\"") && metrics.contains("\"kind\":\"control\""));
    // Of an ended run nothing can be asked, and that is said.
    let mut viewer = Viewer::of(at, "run", (100, 30), &[]);
    viewer.shows("ended");
    viewer.press_until("c", "the run is not running");
    viewer.press("5");
    viewer.shows("asked for: the end behind the epoch");
    viewer.leave();
}
#[test]
fn colours_where_none_are_wanted() {
    let folder = folder();
    let at = folder.path();
    assert!(adamant(at, &["train", "run.toml", "--quiet", "--run", "run"]).status.success());
    for (environment, colours, plain) in [(&[][..], true, false), (&[("NO_COLOR", "1")], false, false), (&[("NO_COLOR", "1"), ("LC_ALL", "C")], false, true)] {
        let mut viewer = Viewer::of(at, "run", (80, 24), environment);
        for (key, word) in [("1", "ended"), ("2", "look_every"), ("3", "not finite"), ("4", "memory"), ("5", "what happened"), ("?", "Keys")] {
            viewer.press(key);
            viewer.shows(word);
        }
        viewer.press("x");
        let all = viewer.leave();
        let seen = looks(&all);
        assert!(!seen.is_empty());
        assert_eq!(seen.iter().any(|look| is_colour(look)), colours, "{environment:?}: {seen:?}");
        assert!(!plain || all.is_ascii(), "{all:?}");
    }
}
#[test]
fn a_viewer_without_a_terminal() {
    let folder = folder();
    let at = folder.path();
    let mut wrong = Wrong::default();
    assert!(adamant(at, &["train", "run.toml", "--quiet", "--run", "run"]).status.success());
    for arguments in [&["watch", "run"][..], &["watch", "run", "--once"]] {
        let output = adamant(at, arguments);
        wrong.ends("ended", &output, 0, "state      ended");
        wrong.unless(out(&output).contains("step       6") && out(&output).contains("epoch 2: loss"), || out(&output));
        wrong.unless(!out(&output).contains('\u{1b}'), || out(&output));
    }
    let output = adamant(at, &["--json", "watch", "run"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    wrong.unless(document["state"] == "ended" && document["step"] == 6 && document["incidents"] == 0, || document.to_string());
    // One that was killed, and one whose files are damaged.
    fs::remove_file(at.join("run/result.json")).unwrap();
    wrong.ends("dead", &adamant(at, &["watch", "run"]), 0, "state      not running");
    fs::write(at.join("run/metrics.jsonl"), b"{\"kind\":\"step\",\"step\":3,\"loss\":1e999}\n\xff\xfe\n{\"kind\":\"epoch\"}\n{\"kind\":\"st").unwrap();
    wrong.ends("damaged", &adamant(at, &["watch", "run"]), 0, "state      not running");
    wrong.ends("nowhere", &adamant(at, &["watch", "nowhere"]), 4, "nowhere: there is no such run");
    fs::create_dir(at.join("empty")).unwrap();
    wrong.ends("no run", &adamant(at, &["watch", "empty"]), 4, "neither config.toml nor metrics.jsonl");
}
#[test]
fn a_request_of_a_script_that_is_lost_or_not_told() {
    let folder = folder();
    let at = folder.path();
    let mut wrong = Wrong::default();
    let mut run = living(at, "run").spawn().unwrap();
    until(&mut run, at, "run", 20);
    let ask = |arguments: &[&str]| adamant(at, &[&["control", "run"], arguments].concat());
    wrong.ends("status", &ask(&["status"]), 0, "training: step ");
    wrong.ends("checkpoint", &ask(&["checkpoint"]), 0, "; checkpoint in run/checkpoints/step-");
    wrong.ends("pause", &ask(&["pause"]), 0, "paused after step ");
    wrong.ends("paused", &ask(&["status"]), 0, "paused: step ");
    let lines = fs::read_to_string(at.join("run/metrics.jsonl")).unwrap().lines().count();
    let document = |output: &std::process::Output| serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    let status = document(&ask(&["status", "--json"]));
    wrong.unless(status["state"] == "paused" && status["pid"] == run.id() && status["run"] == "run", || status.to_string());
    wrong.unless(fs::read_to_string(at.join("run/metrics.jsonl")).unwrap().lines().count() == lines, || "it goes on".into());
    wrong.ends("rate", &ask(&["rate", "--factor", "0.5"]), 0, "the rate × 0.5 after step ");
    wrong.ends("resume", &ask(&["resume"]), 0, "goes on after step ");
    let answer = document(&ask(&["rate", "--factor", "2", "--json"]));
    wrong.unless(answer["ok"] == true && answer["lr"] == 0.1 && answer["action"] == "rate", || answer.to_string());
    for (arguments, says) in [
        (&["rate"][..], "--factor F says"),
        (&["pause", "--factor", "1"], "--factor is for rate alone"),
        (&["rate", "--factor", "0"], "take a finite number above 0"),
        (&["rate", "--factor", "-1"], "take a finite number above 0"),
        (&["rate", "--factor", "nan"], "take a finite number above 0"),
        (&["dance"], "dance"),
    ] {
        wrong.ends(&arguments.join(" "), &ask(arguments), 2, says);
    }
    wrong.ends("stop", &ask(&["stop"]), 0, "ended after step ");
    let output = run.wait_with_output().unwrap();
    wrong.ends("the run", &output, 143, "interrupted");
    let dead = ask(&["checkpoint", "--json"]);
    wrong.ends("dead", &dead, 2, "run: the run is not running");
    wrong.unless(document(&dead)["error"]["kind"] == "usage", || out(&dead));
    wrong.ends("nowhere", &adamant(at, &["control", "nowhere", "status"]), 4, "there is no such run");
    // Nobody can ask a run that was told so.
    let mut alone = living(at, "alone").arg("--no-control").spawn().unwrap();
    until(&mut alone, at, "alone", 20);
    wrong.unless(!at.join("alone/control.sock").exists(), || "it has a socket".into());
    wrong.ends("alone", &adamant(at, &["control", "alone", "pause"]), 2, "--no-control");
    send(&alone, "TERM");
    alone.wait_with_output().unwrap();
}
#[test]
fn a_rate_that_a_killed_run_forgets() {
    let folder = folder();
    let at = folder.path();
    let mut run = living(at, "killed").spawn().unwrap();
    until(&mut run, at, "killed", 700);
    assert!(adamant(at, &["control", "killed", "rate", "--factor", "0.25"]).status.success());
    let lines = fs::read_to_string(at.join("killed/metrics.jsonl")).unwrap().lines().count();
    until(&mut run, at, "killed", lines + 100);
    run.kill().unwrap();
    run.wait().unwrap();
    // What the dead run has left is in nobody's way: neither its socket nor its lines.
    assert!(at.join("killed/control.sock").exists());
    let journal = fs::read(at.join("killed/control.jsonl")).unwrap();
    let go = |name: &str| {
        let output = command(at, &["train", "run.toml", "--quiet", "--resume", "auto", "--run", name]).args(LONG).args(SHORT).output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        err(&output)
    };
    go("killed");
    // One that was told of it before it began, and was never killed.
    fs::create_dir(at.join("whole")).unwrap();
    fs::write(at.join("whole/control.jsonl"), &journal).unwrap();
    let told = go("whole");
    assert!(told.contains("is done again: the rate × 0.25"), "{told}");
    for name in ["weights.safetensors", "metrics.jsonl"] {
        assert!(fs::read(at.join("killed").join(name)).unwrap() == fs::read(at.join("whole").join(name)).unwrap(), "{name}");
    }
    assert!(fs::read_to_string(at.join("whole/metrics.jsonl")).unwrap().contains("\"kind\":\"control\""));
}
