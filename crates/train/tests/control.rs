//! A living run that is looked at and steered over its socket: each request acts within a step, what is decided comes back to the same
//! bits, and nothing that a client does holds the run up.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "control/debugger.rs"]
mod debugger;

use adamant_core::Device;
use adamant_train::{
    Document, Failure, Interrupt, Report, Run, Watch,
    control::{ControlClient, ControlRequest, SOCKET},
};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// Four epochs of 14 steps each; all checkpoints are kept, each fourth step's.
const RUN: &str = r#"
seed = 3
epochs = 4
batch = 6
log_every = 1
checkpoint = { every = 8, last = 100, best = 1 }
[data]
kind = "permutation"
classes = 12
rows = 100
valid = 0.2
workers = 0
[model]
layers = [
    { kind = "Embedding", num_embeddings = 12, embedding_dim = 8 },
    { kind = "Dropout", p = 0.2 },
    { name = "head", kind = "Linear", in_features = 8, out_features = 12 },
]
[optimizer]
kind = "AdamW"
lr = 0.02
[schedule]
kind = "CosineAnnealingLR"
[ema]
decay = 0.9
"#;
const FILES: [&str; 2] = ["metrics.jsonl", "weights.safetensors"];

fn document(set: &[&str]) -> Document {
    let mut document = Document::parse("run.toml", RUN).unwrap();
    set.iter().for_each(|s| document.set(s).unwrap());
    document
}
struct How<'a> {
    set: &'a [&'a str],
    resume: bool,
    control: bool,
    interrupt: Interrupt,
}
impl Default for How<'_> {
    fn default() -> Self {
        How { set: &[], resume: false, control: true, interrupt: Interrupt::new() }
    }
}
fn train(folder: &Path, watch: &mut dyn Watch, how: How<'_>) -> Result<Report, Failure> {
    let document = document(how.set);
    let run = Run::new(&document).folder(folder).resume(how.resume).control(how.control).interrupt(how.interrupt);
    Device::reference().scoped(|| run.train(watch))
}
/// The connection of a client that writes what it likes.
struct Raw(BufReader<UnixStream>);
impl Raw {
    fn to(folder: &Path) -> Raw {
        Raw(BufReader::new(UnixStream::connect(folder.join(SOCKET)).unwrap()))
    }
    fn write(&mut self, bytes: &[u8]) {
        // Where there is nobody any more, no answer comes.
        let _ = self.0.get_mut().write_all(bytes);
    }
    fn answer(&mut self) -> Value {
        self.try_answer().unwrap()
    }
    /// None: there is nobody any more.
    fn try_answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        Some(serde_json::from_str(&line).unwrap_or_else(|e| unreachable!("{e}: {line:?}")))
    }
    /// Asks for something that the run has before it when this returns: behind it on the line of clients, a status was answered.
    fn hand_in(folder: &Path, line: &str) -> Raw {
        let mut raw = Raw::to(folder);
        raw.write(format!("{line}\n").as_bytes());
        let mut barrier = Raw::to(folder);
        barrier.write(b"{\"do\": \"status\"}\n");
        assert_eq!(barrier.answer()["ok"], true);
        raw
    }
}
type Act = Box<dyn FnMut(&Path, u64)>;
/// Does something when a step is done, and remembers warnings.
struct AtSteps {
    folder: PathBuf,
    act: Act,
    warnings: Vec<String>,
}
impl AtSteps {
    fn new(folder: &Path, act: impl FnMut(&Path, u64) + 'static) -> AtSteps {
        AtSteps { folder: folder.to_path_buf(), act: Box::new(act), warnings: Vec::new() }
    }
}
impl Watch for AtSteps {
    fn step(&mut self, step: u64) {
        (self.act)(&self.folder, step);
    }
    fn warn(&mut self, text: &str) {
        self.warnings.push(text.into());
    }
}
type Answers = Arc<Mutex<Vec<Raw>>>;
/// Asks for things behind steps; the answers are read when the run is over.
fn asking(folder: &Path, asks: &[(u64, &str)]) -> (AtSteps, Answers) {
    let (answers, asks) = (Answers::default(), asks.iter().map(|(step, line)| (*step, line.to_string())).collect::<Vec<_>>());
    let keep = answers.clone();
    let act = move |folder: &Path, step: u64| {
        asks.iter().filter(|(at, _)| *at == step).for_each(|(_, line)| keep.lock().unwrap().push(Raw::hand_in(folder, line)));
    };
    (AtSteps::new(folder, act), answers)
}
fn read(answers: &Answers) -> Vec<Value> {
    answers.lock().unwrap().iter_mut().map(Raw::answer).collect()
}
fn same(a: &Path, b: &Path, why: &str) {
    for name in FILES {
        assert!(fs::read(a.join(name)).unwrap() == fs::read(b.join(name)).unwrap(), "{why}: {name}");
    }
}
fn lines(folder: &Path, kind: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()).filter(|l| l["kind"] == kind).collect()
}
fn rates(folder: &Path) -> Vec<f64> {
    lines(folder, "step").iter().map(|l| l["lr"].as_f64().unwrap()).collect()
}

#[test]
fn a_request_that_does_not_act_within_a_step() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    train(&at("plain"), &mut (), How::default()).unwrap();
    let run = |name: &str, line: &str| {
        let (mut watch, answers) = asking(&at(name), &[(13, line)]);
        let done = train(&at(name), &mut watch, How::default());
        let answers = read(&answers);
        assert_eq!(answers.len(), 1);
        assert!(!at(name).join(SOCKET).exists(), "{name}: its socket is left");
        (done, answers.into_iter().next().unwrap(), watch.warnings)
    };
    let (done, answer, _) = run("checkpoint", r#"{"do": "checkpoint"}"#);
    done.unwrap();
    assert_eq!((answer["ok"].as_bool(), answer["step"].as_u64()), (Some(true), Some(13)), "{answer}");
    assert!(answer["checkpoint"].as_str().unwrap().ends_with("step-00000013") && at("checkpoint/checkpoints/step-00000013").is_dir(), "{answer}");
    same(&at("checkpoint"), &at("plain"), "a checkpoint");

    let (done, answer, warnings) = run("rate", r#"{"do": "rate", "factor": 0.5}"#);
    done.unwrap();
    let (got, want) = (rates(&at("rate")), rates(&at("plain")));
    assert_eq!((answer["step"].as_u64(), answer["lr"].as_f64()), (Some(13), Some(want[12] / 2.0)), "{answer}");
    for (k, (got, want)) in got.iter().zip(&want).enumerate() {
        let factor = if k < 13 { 1.0 } else { 0.5 };
        assert!((got - factor * want).abs() <= 1e-14, "step {}: {got} and {want}", k + 1);
    }
    let control = lines(&at("rate"), "control");
    assert_eq!(control.len(), 1);
    assert_eq!((control[0]["step"].as_u64(), control[0]["epoch"].as_u64(), control[0]["action"].as_str()), (Some(13), Some(1), Some("rate")));
    assert_eq!(control[0]["factor"].as_f64(), Some(0.5));
    assert!(warnings.iter().any(|w| w.contains("the rate × 0.5 from step 14 on")), "{warnings:?}");
    let journal = fs::read_to_string(at("rate").join("control.jsonl")).unwrap();
    assert_eq!(journal, "{\"step\":13,\"action\":\"rate\",\"factor\":0.5}\n");

    let (done, answer, _) = run("epoch", r#"{"do": "stop_after_epoch"}"#);
    let report = done.unwrap();
    assert_eq!((answer["step"].as_u64(), report.losses.len()), (Some(13), 1), "{answer}");
    assert_eq!(report.stopped.as_deref(), Some("it was asked to stop behind the epoch"));
    assert_eq!(lines(&at("epoch"), "stop")[0]["step"].as_u64(), lines(&at("epoch"), "step").last().unwrap()["step"].as_u64());

    let (done, answer, _) = run("stop", r#"{"do": "stop"}"#);
    match done.unwrap_err() {
        Failure::Interrupted { signal: 15, step: 13, checkpoint: Some(path) } => assert!(path.ends_with("step-00000013") && path.is_dir()),
        other => unreachable!("{other:?}"),
    }
    assert!(answer["ok"] == true && answer["checkpoint"].as_str().unwrap().ends_with("step-00000013"), "{answer}");
    train(&at("stop"), &mut (), How { resume: true, ..How::default() }).unwrap();
    same(&at("stop"), &at("plain"), "a stop");

    for (line, says) in [
        (r#"{"do": "rate", "factor": -1}"#.to_string(), "cannot be multiplied by -1"),
        (r#"{"do": "dance"}"#.into(), "`dance` is nothing"),
        ("x".repeat(5000), "at most 4096 bytes"),
        ("\u{7f}\u{0}".into(), "no JSON"),
    ] {
        let (done, answer, _) = run("refused", &line);
        done.unwrap();
        assert!(answer["ok"] == false && answer["error"].as_str().unwrap().contains(says), "{line:.40}: {answer}");
        same(&at("refused"), &at("plain"), &line);
        fs::remove_dir_all(at("refused")).unwrap();
    }
}
#[test]
fn a_factor_that_makes_no_rate_of_a_rate() {
    let place = tempfile::tempdir().unwrap();
    for (factor, name) in [("1e-300", "small"), ("1e300", "large")] {
        let folder = place.path().join(name);
        let line = format!("{{\"do\": \"rate\", \"factor\": {factor}}}");
        let (mut watch, answers) = asking(&folder, &[(5, &line), (5, &line)]);
        // Whatever becomes of the model: the numbers of the run stay numbers.
        let _ = train(&folder, &mut watch, How { set: &["stability.handling_type=skip"], ..How::default() });
        let answers = read(&answers);
        assert!(answers[0]["ok"] == true && answers[1]["ok"] == false, "{answers:?}");
        assert!(answers[1]["error"].as_str().unwrap().contains("it is no rate any more"), "{answers:?}");
        assert_eq!(lines(&folder, "control").len(), 1);
    }
}
#[test]
fn a_decision_that_is_made_and_cannot_be_written_down() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    train(&at("plain"), &mut (), How::default()).unwrap();
    let answers = Answers::default();
    let keep = answers.clone();
    let act = move |folder: &Path, step: u64| {
        if step == 13 {
            fs::create_dir_all(folder.join("control.jsonl/in the way")).unwrap();
            for line in [r#"{"do": "rate", "factor": 0.5}"#, r#"{"do": "stop_after_epoch"}"#] {
                keep.lock().unwrap().push(Raw::hand_in(folder, line));
            }
        }
    };
    train(&at("run"), &mut AtSteps::new(&at("run"), act), How::default()).unwrap();
    for answer in read(&answers) {
        assert!(answer["ok"] == false && answer["error"].as_str().unwrap().contains("control.jsonl"), "{answer}");
    }
    same(&at("run"), &at("plain"), "nothing was decided");
}
/// Goes on from a checkpoint before the requests, as after a kill that took everything since.
fn killed_and_resumed(whole: &Path, run: &Path, keep: u64, how: How<'_>) -> Vec<String> {
    copy(whole, run);
    cut(run, keep);
    FILES[1..].iter().chain(&["result.json", "evaluation.json"]).for_each(|name| fs::remove_file(run.join(name)).unwrap());
    let mut watch = AtSteps::new(run, |_, _| {});
    let report = train(run, &mut watch, How { resume: true, ..how }).unwrap();
    assert_eq!(report.resumed, (keep > 0).then_some(keep));
    watch.warnings
}
/// Takes all checkpoints behind a step away.
fn cut(run: &Path, keep: u64) {
    for entry in fs::read_dir(run.join("checkpoints")).unwrap().flatten() {
        let step = entry.file_name().to_str().unwrap().strip_prefix("step-").and_then(|s| s.parse::<u64>().ok());
        if step.is_some_and(|step| step > keep) {
            fs::remove_dir_all(entry.path()).unwrap();
        }
    }
}
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy(&from, &to),
            false => assert!(fs::copy(&from, &to).is_ok()),
        }
    }
}
#[test]
fn a_decision_that_a_resumed_run_forgets_or_makes_at_another_step() {
    let place = tempfile::tempdir().unwrap();
    let asks = [
        (9, r#"{"do": "rate", "factor": 0.5}"#),
        (17, r#"{"do": "rate", "factor": 3}"#),
        (17, r#"{"do": "checkpoint"}"#),
        (17, r#"{"do": "rate", "factor": 0.7}"#),
        (23, r#"{"do": "stop_after_epoch"}"#),
        (23, r#"{"do": "stop_after_epoch"}"#),
    ];
    for (k, schedule) in [
        &["schedule.kind=CosineAnnealingLR"][..],
        &["schedule={ kind = \"OneCycleLR\", max_lr = 0.03 }"],
        &["schedule={ kind = \"ReduceLROnPlateau\", patience = 0, factor = 0.7 }"],
        &["schedule.kind=CosineAnnealingLR", "stability.handling_type=restore", "stability.restore_every=4"],
    ]
    .into_iter()
    .enumerate()
    {
        let how = || How { set: schedule, ..How::default() };
        let at = |name: &str| place.path().join(format!("{name}-{k}"));
        let (mut watch, answers) = asking(&at("whole"), &asks);
        let report = train(&at("whole"), &mut watch, how()).unwrap();
        let answers = read(&answers);
        assert!(answers.iter().zip(&asks).all(|(a, (step, _))| a["ok"] == true && a["step"].as_u64() == Some(*step)), "{answers:?}");
        assert_eq!((report.losses.len(), lines(&at("whole"), "control").len()), (2, 4), "{schedule:?}");
        train(&at("plain"), &mut (), how()).unwrap();
        assert!(rates(&at("whole"))[20] != rates(&at("plain"))[20]);
        for keep in [0, 8, 16, 17, 24] {
            for control in [true, false] {
                let run = at(&format!("killed-{keep}-{control}"));
                let warnings = killed_and_resumed(&at("whole"), &run, keep, How { control, ..how() });
                same(&run, &at("whole"), &format!("from step {keep} under {schedule:?}"));
                assert_eq!(warnings.iter().any(|w| w.contains("is done again")), keep < 24, "{keep}: {warnings:?}");
                assert_eq!(fs::read(run.join("control.jsonl")).unwrap(), fs::read(at("whole").join("control.jsonl")).unwrap());
            }
        }
    }
}
#[test]
fn a_run_that_is_asked_again_before_what_it_has_to_do_again() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let half = r#"{"do": "rate", "factor": 0.5}"#;
    let (mut watch, _answers) = asking(&at("first"), &[(20, half)]);
    train(&at("first"), &mut watch, How::default()).unwrap();
    let (mut watch, answers) = asking(&at("both"), &[(12, half), (20, half)]);
    train(&at("both"), &mut watch, How::default()).unwrap();
    assert_eq!(read(&answers).len(), 2);
    // Goes on from before both, and is asked for the earlier one only then.
    copy(&at("first"), &at("late"));
    cut(&at("late"), 8);
    let (mut watch, answers) = asking(&at("late"), &[(12, half)]);
    let report = train(&at("late"), &mut watch, How { resume: true, ..How::default() }).unwrap();
    assert_eq!((report.resumed, read(&answers)[0]["step"].as_u64()), (Some(8), Some(12)));
    same(&at("late"), &at("both"), "asked in another order");
    // And once more, from before all.
    killed_and_resumed(&at("late"), &at("again"), 8, How::default());
    same(&at("again"), &at("both"), "done again in their order");
}
#[test]
fn a_run_that_follows_what_another_one_was_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    train(&at("plain"), &mut (), How::default()).unwrap();
    let (mut watch, _answers) = asking(&at("run"), &[(3, r#"{"do": "rate", "factor": 0.5}"#)]);
    train(&at("run"), &mut watch, How::default()).unwrap();
    fs::remove_dir_all(at("run").join("checkpoints")).unwrap();
    train(&at("run"), &mut (), How::default()).unwrap();
    same(&at("run"), &at("plain"), "begun anew");
    assert!(!at("run").join("control.jsonl").exists());
    // What cannot be done again is no reason to go on as another run.
    fs::write(at("run").join("control.jsonl"), "{\"step\":3,\"act").unwrap();
    let failure = train(&at("run"), &mut (), How { resume: true, ..How::default() }).unwrap_err();
    assert!(failure.exit_code() == 4 && failure.to_string().contains("control.jsonl: line 1 cannot be read"), "{failure}");
}
#[test]
fn a_look_that_changes_a_bit() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    train(&at("alone"), &mut AtSteps::new(&at("alone"), |folder, _| assert!(!folder.join(SOCKET).exists())), How { control: false, ..How::default() }).unwrap();
    train(&at("nobody"), &mut (), How::default()).unwrap();
    same(&at("nobody"), &at("alone"), "nobody is there");
    // Each step is looked at; at some, and at each epoch's end, the run waits or is saved.
    let mut viewer: Option<ControlClient> = None;
    let mut kept = Vec::new();
    let act = move |folder: &Path, step: u64| {
        let status = viewer.get_or_insert_with(|| ControlClient::attach(folder).unwrap()).status().unwrap();
        assert_eq!((status.step, status.steps, status.pid), (step - 1, 56, std::process::id()));
        assert!(status.state == "training" && !status.stops_after_epoch && (1..=4).contains(&status.epoch));
        match step % 14 {
            3 => kept.push(Raw::hand_in(folder, r#"{"do": "checkpoint"}"#)),
            5 | 0 => {
                kept.push(Raw::hand_in(folder, r#"{"do": "pause"}"#));
                kept.push(Raw::hand_in(folder, r#"{"do": "resume"}"#));
            }
            9 => viewer = None,
            _ => {}
        }
    };
    train(&at("looked"), &mut AtSteps::new(&at("looked"), act), How::default()).unwrap();
    same(&at("looked"), &at("alone"), "looked at");
    assert!(!at("looked").join("control.jsonl").exists());
}
#[test]
fn a_paused_run_that_cannot_be_reached_or_counts_its_pause() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    train(&at("plain"), &mut (), How::default()).unwrap();
    // While it is paused another thread talks to it.
    let mut talks = None;
    let begun = Instant::now();
    let act = move |folder: &Path, step: u64| match step {
        10 => {
            let (mut pauses, folder) = (Raw::hand_in(folder, r#"{"do": "pause"}"#), folder.to_path_buf());
            talks = Some(std::thread::spawn(move || {
                assert_eq!(pauses.answer()["step"], 10);
                let mut client = ControlClient::attach(&folder).unwrap();
                for _ in 0..100 {
                    let status = client.status().unwrap();
                    assert_eq!((status.state.as_str(), status.step), ("paused", 10));
                }
                assert_eq!(client.ask(ControlRequest::Pause).unwrap()["step"], 10);
                assert!(client.ask(ControlRequest::Checkpoint).unwrap()["checkpoint"].as_str().unwrap().ends_with("step-00000010"));
                assert_eq!(client.ask(ControlRequest::Resume).unwrap()["step"], 10);
            }));
        }
        11 => talks.take().unwrap().join().unwrap(),
        _ => {}
    };
    let report = train(&at("paused"), &mut AtSteps::new(&at("paused"), act), How::default()).unwrap();
    let wall = begun.elapsed().as_secs_f64();
    same(&at("paused"), &at("plain"), "paused");
    let timing = fs::read_to_string(at("paused").join("timing.jsonl")).unwrap();
    let pause = timing.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()).find(|l| l["kind"] == "pause").unwrap();
    let paused = pause["paused_seconds"].as_f64().unwrap();
    assert!(pause["step"] == 10 && paused > 0.0 && report.seconds <= wall - paused, "{} of {wall}, {pause}", report.seconds);
    // An interrupt reaches it, and so does a request to stop.
    for (name, stop) in [("signal", None), ("stop", Some(r#"{"do": "stop"}"#))] {
        let interrupt = Interrupt::new();
        let (asks, mut kept) = (interrupt.clone(), Vec::new());
        let act = move |folder: &Path, step: u64| {
            if step == 10 {
                kept.push(Raw::hand_in(folder, r#"{"do": "pause"}"#));
                match stop {
                    Some(line) => kept.push(Raw::hand_in(folder, line)),
                    None => {
                        let (asks, mut paused) = (asks.clone(), Raw::to(folder));
                        std::thread::spawn(move || {
                            while !is_paused(&mut paused) {}
                            asks.ask(2);
                        });
                    }
                }
            }
        };
        let failure = train(&at(name), &mut AtSteps::new(&at(name), act), How { interrupt, ..How::default() }).unwrap_err();
        let number = if stop.is_some() { 15 } else { 2 };
        assert!(matches!(&failure, Failure::Interrupted { signal, step: 10, checkpoint: Some(_) } if *signal == number), "{failure}");
        train(&at(name), &mut (), How { resume: true, ..How::default() }).unwrap();
        same(&at(name), &at("plain"), name);
    }
}
fn is_paused(raw: &mut Raw) -> bool {
    raw.write(b"{\"do\": \"status\"}\n");
    raw.answer()["state"] == "paused"
}
#[test]
fn a_client_that_holds_the_run_up_or_keeps_others_out() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let how = || How { set: &["epochs=12"], ..How::default() };
    train(&at("plain"), &mut (), how()).unwrap();
    let (mut held, mut waits): (Vec<UnixStream>, Option<Raw>) = (Vec::new(), None);
    let act = move |folder: &Path, step: u64| {
        let connect = || UnixStream::connect(folder.join(SOCKET)).unwrap();
        match step {
            // Half a line, and silence.
            5 => held.extend((0..40).map(|_| {
                let mut stream = connect();
                stream.write_all(b"{\"do\": \"chec").unwrap();
                stream
            })),
            // Asks and never reads; a client that is full is not heard any more.
            10 => held.extend((0..4).map(|_| {
                let mut stream = connect();
                stream.set_nonblocking(true).unwrap();
                while stream.write(&b"{\"do\": \"status\"}\n".repeat(100)).is_ok_and(|n| n > 0) {}
                stream
            })),
            // Garbage: bytes, a line without an end, JSON that goes deep, empty lines.
            15 => held.extend([vec![0xff; 300], vec![b'x'; 100_000], "[".repeat(4000).into_bytes(), vec![b'\n'; 4000]].map(|bytes| {
                let mut stream = connect();
                stream.set_nonblocking(true).unwrap();
                let _ = stream.write(&bytes);
                stream
            })),
            // A thousand come, and some go at once.
            20 => (0..1000).for_each(|k| {
                let stream = connect();
                if k % 2 == 0 {
                    held.push(stream);
                }
            }),
            // Who was silent longest has made place.
            24 => held.iter_mut().take(8).for_each(|stream| {
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                let read = stream.read(&mut [0; 1]);
                assert!(read.as_ref().map_or_else(|e| e.kind() == ErrorKind::ConnectionReset, |n| *n == 0), "it is still there: {read:?}");
            }),
            25 => held.clear(),
            30 => (0..1000).for_each(|_| drop(connect())),
            _ => {}
        }
        // Whatever they do, who asks is answered.
        if step % 5 == 1 {
            assert_eq!(ControlClient::attach(folder).unwrap().status().unwrap().step, step - 1);
        }
        match step {
            33 => waits = Some(Raw::hand_in(folder, r#"{"do": "checkpoint"}"#)),
            34 => assert_eq!(waits.take().unwrap().answer()["step"], 33),
            _ => {}
        }
    };
    train(&at("run"), &mut AtSteps::new(&at("run"), act), how()).unwrap();
    assert!(at("run/checkpoints/step-00000033").is_dir());
    same(&at("run"), &at("plain"), "hostile clients");
}
#[test]
fn a_request_of_somebody_who_has_left_or_half_left() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let answers = Answers::default();
    let keep = answers.clone();
    let act = move |folder: &Path, step: u64| match step {
        // The request was made all the same.
        4 => drop(Raw::hand_in(folder, r#"{"do": "checkpoint"}"#)),
        // Nothing more is said, and the answer is waited for: as `nc` does at the end of a pipe.
        9 => {
            let raw = Raw::hand_in(folder, r#"{"do": "checkpoint"}"#);
            raw.0.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
            keep.lock().unwrap().push(raw);
        }
        // Two at once, and one that comes when nothing can be done any more.
        14 => keep.lock().unwrap().push(Raw::hand_in(folder, "{\"do\": \"checkpoint\"}\n{\"do\": \"status\"}")),
        56 => keep.lock().unwrap().push(Raw::hand_in(folder, r#"{"do": "pause"}"#)),
        _ => {}
    };
    train(&folder, &mut AtSteps::new(&folder, act), How::default()).unwrap();
    for step in [4, 9, 14] {
        assert!(folder.join(format!("checkpoints/step-{step:08}")).is_dir(), "{step}");
    }
    let mut answers = std::mem::take(&mut *answers.lock().unwrap());
    assert_eq!(answers[0].answer()["step"], 9);
    assert_eq!((answers[1].answer()["step"].as_u64(), answers[1].answer()["state"].as_str()), (Some(14), Some("training")));
    assert!(answers[2].answer()["error"].as_str().unwrap().contains("are over"));
    let mut rest = Vec::new();
    answers[2].0.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}
#[test]
fn a_socket_that_is_open_to_others_or_left_or_in_the_way() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let check = |folder: &Path, step: u64| {
        let about = fs::symlink_metadata(folder.join(SOCKET)).unwrap();
        assert!(about.file_type().is_socket() && about.permissions().mode() & 0o777 == 0o600, "{step}");
    };
    let warnings = |name: &str, act: fn(&Path, u64)| {
        let mut watch = AtSteps::new(&at(name), act);
        train(&at(name), &mut watch, How::default()).unwrap();
        watch.warnings
    };
    // One that a dead run has left.
    fs::create_dir(at("stale")).unwrap();
    drop(UnixListener::bind(at("stale").join(SOCKET)).unwrap());
    assert!(at("stale").join(SOCKET).exists());
    let mut watch = AtSteps::new(&at("stale"), check);
    train(&at("stale"), &mut watch, How::default()).unwrap();
    assert!(watch.warnings.is_empty() && !at("stale").join(SOCKET).exists(), "{:?}", watch.warnings);
    // One that somebody listens on.
    fs::create_dir(at("living")).unwrap();
    let living = UnixListener::bind(at("living").join(SOCKET)).unwrap();
    let failure = train(&at("living"), &mut (), How::default()).unwrap_err();
    assert!(failure.exit_code() == 2 && failure.to_string().contains("living/control.sock: a living run listens there"), "{failure}");
    UnixStream::connect(at("living").join(SOCKET)).unwrap();
    drop(living);
    // Something else, and a path that is too long: one warning, and the run.
    fs::create_dir(at("file")).unwrap();
    fs::write(at("file").join(SOCKET), "mine").unwrap();
    let told = warnings("file", |_, _| {});
    assert!(told.len() == 1 && told[0].contains("something else stands in the socket's place; the run goes on"), "{told:?}");
    assert_eq!(fs::read_to_string(at("file").join(SOCKET)).unwrap(), "mine");
    let long = "n".repeat(120);
    let told = warnings(&long, |folder, _| assert!(!folder.join(SOCKET).exists()));
    assert!(told.len() == 1 && told[0].contains("the path is too long for a socket"), "{told:?}");
    assert!(at(&long).join("result.json").exists());
    let failure = ControlClient::attach(&at(&long)).unwrap_err();
    assert!(failure.exit_code() == 2 && failure.to_string().contains("too long for a socket"), "{failure}");
    // Nobody is there.
    for (name, code, says) in [("stale", 2, "the run is not running"), ("nowhere", 4, "there is no such run")] {
        let failure = ControlClient::attach(&at(name)).unwrap_err();
        assert!(failure.exit_code() == code && failure.to_string().contains(says), "{failure}");
    }
    // One that was put in the place of ours while we ran is somebody else's.
    let mut others = Vec::new();
    let act = move |folder: &Path, step: u64| {
        if step == 5 {
            fs::remove_file(folder.join(SOCKET)).unwrap();
            others.push(UnixListener::bind(folder.join(SOCKET)).unwrap());
        }
    };
    train(&at("replaced"), &mut AtSteps::new(&at("replaced"), act), How::default()).unwrap();
    assert!(at("replaced").join(SOCKET).exists());
}
