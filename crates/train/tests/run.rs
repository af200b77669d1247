//! The run folder, and runs that stop and go on.
#![allow(clippy::unwrap_used)]

use adamant_core::Device;
use adamant_train::{Document, EpochReport, Failure, Interrupt, Plan, Report, Run, StepReport, Watch, dry_run};
use std::{fs, path::Path};

/// Dropout, shuffling, a schedule, momentum, accumulation, validation, an epoch that ends in a ragged group.
const RUN: &str = r#"
seed = 3
epochs = 5
batch = 7
accumulate = 2
log_every = 3
clip = { kind = "norm", max = 0.5 }
checkpoint = { every = 4, last = 2, best = 1 }
[data]
kind = "permutation"
classes = 12
rows = 60
valid = 0.2
workers = 2
[model]
layers = [
    { kind = "Embedding", num_embeddings = "$classes", embedding_dim = 8 },
    { kind = "Dropout", p = 0.2 },
    { name = "head", kind = "Linear", in_features = 8, out_features = "$classes" },
]
[optimizer]
kind = "AdamW"
lr = 0.02
[schedule]
kind = "CosineAnnealingLR"
"#;
fn document(set: &[&str]) -> Document {
    let mut document = Document::parse("run.toml", RUN).unwrap();
    set.iter().for_each(|s| document.set(s).unwrap());
    document
}
fn train(folder: &Path, resume: bool, interrupt: Interrupt, watch: &mut dyn Watch) -> Result<Report, Failure> {
    let document = document(&[]);
    Device::reference().scoped(|| Run::new(&document).folder(folder).resume(resume).interrupt(interrupt).train(watch))
}
/// Asks for an end after some steps.
struct StopAt(u64, Interrupt);
impl Watch for StopAt {
    fn step(&mut self, step: u64) {
        if step == self.0 {
            self.1.ask(15);
        }
    }
}
#[derive(Default)]
struct Seen(Vec<String>);
impl Watch for Seen {
    fn begin(&mut self, plan: &Plan) {
        self.0.push(format!("begin {} {:?}", plan.steps, plan.rows));
    }
    fn resume(&mut self, step: u64) {
        self.0.push(format!("resume {step}"));
    }
    fn log(&mut self, r: &StepReport) {
        self.0.push(format!("log {} {}", r.step, r.epoch));
    }
    fn epoch(&mut self, r: &EpochReport) {
        self.0.push(format!("epoch {} {}", r.epoch, r.step));
    }
}

#[test]
fn a_run_that_goes_on_otherwise_than_it_would_have() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    train(&whole, false, Interrupt::new(), &mut ()).unwrap();
    let read = |run: &Path, name: &str| fs::read(run.join(name)).unwrap();
    // 48 rows: 7 batches, 4 steps in an epoch; every kind of place is met: in an epoch, at its end, at a checkpoint.
    for stops in [vec![1], vec![3, 4], vec![5, 6, 7, 8], vec![2, 11, 19], (1..20).collect()] {
        let run = folder.path().join(format!("{stops:?}"));
        for stop in &stops {
            let interrupt = Interrupt::new();
            let failure = train(&run, true, interrupt.clone(), &mut StopAt(*stop, interrupt)).unwrap_err();
            let Failure::Interrupted { signal: 15, step, checkpoint: Some(path) } = &failure else { unreachable!("{failure}") };
            assert_eq!((step, path.file_name().unwrap().to_str().unwrap(), failure.exit_code()), (stop, format!("step-{stop:08}").as_str(), 143));
        }
        let report = train(&run, true, Interrupt::new(), &mut ()).unwrap();
        assert_eq!(report.resumed, stops.last().copied());
        assert_eq!(report.losses.len(), 5);
        for name in ["weights.safetensors", "metrics.jsonl", "config.toml"] {
            assert!(read(&run, name) == read(&whole, name), "{name} after {stops:?}");
        }
    }
}
#[test]
fn lines_that_are_missing_or_not_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Seen::default();
    train(folder.path(), false, Interrupt::new(), &mut seen).unwrap();
    assert_eq!(seen.0[0], "begin 20 Rows { train: 48, valid: 12, test: 12 }");
    assert_eq!(seen.0[1..6], ["log 3 1", "epoch 1 4", "log 6 2", "epoch 2 8", "log 9 3"]);
    let text = fs::read_to_string(folder.path().join("metrics.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let kinds: Vec<(&str, u64)> = lines.iter().map(|l| (l["kind"].as_str().unwrap(), l["step"].as_u64().unwrap())).collect();
    assert_eq!(kinds[..4], [("step", 3), ("epoch", 4), ("step", 6), ("epoch", 8)]);
    assert_eq!(kinds[kinds.len() - 3..], [("step", 20), ("epoch", 20), ("test", 20)]);
    assert!(lines[0]["grad_norm"].as_f64().unwrap() > 0.0);
    assert_eq!(lines[1]["grad_norms"].as_object().unwrap().len(), 3);
    assert!(lines[1]["valid"]["accuracy"].is_number());
    for name in ["config.toml", "environment.json", "timing.jsonl", "evaluation.json", "result.json", "task.json", "report.html", "weights.safetensors"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
    // The description as it ran can be run again; what followed from the data stands in it.
    let config = fs::read_to_string(folder.path().join("config.toml")).unwrap();
    assert!(config.contains("num_embeddings = 12"), "{config}");
    assert!(document(&[]).resolve(&[("classes", 12)]).difference(&Document::parse("config.toml", &config).unwrap()).is_empty());
}
#[test]
fn a_run_on_top_of_another_one() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), false, Interrupt::new(), &mut ()).unwrap();
    let failure = train(folder.path(), false, Interrupt::new(), &mut ()).unwrap_err();
    assert_eq!(failure.exit_code(), 2);
    assert!(failure.to_string().contains("has checkpoints of an earlier run"), "{failure}");
    // And one that goes on with something else.
    let other = document(&["optimizer.lr=0.1", "epochs=9"]);
    let failure = Device::reference().scoped(|| Run::new(&other).folder(folder.path()).resume(true).train(&mut ())).unwrap_err();
    assert!(failure.to_string().ends_with("optimizer.lr changed; start a new run for that"), "{failure}");
    // A longer one is no other one.
    let longer = document(&["epochs=6", "schedule.on_extend=stretch"]);
    let report = Device::reference().scoped(|| Run::new(&longer).folder(folder.path()).resume(true).train(&mut ())).unwrap();
    assert_eq!((report.resumed, report.losses.len()), (Some(20), 6));
}
#[test]
fn a_dry_run_that_costs_or_leaves_something() {
    let document = document(&[]);
    let dry = Device::reference().scoped(|| dry_run(&document, Path::new(""))).unwrap();
    assert_eq!((dry.steps, dry.parameters), (20, 12 * 8 + 8 * 12 + 12));
    assert_eq!(dry.model_bytes, 4 * dry.parameters);
    assert!(dry.optimizer_bytes >= 2 * dry.model_bytes && dry.checkpoint_bytes == dry.model_bytes + dry.optimizer_bytes, "{dry}");
    assert!(dry.step_seconds > 0.0 && dry.loss.is_finite() && dry.to_string().contains("20 steps"), "{dry}");
}

/// Does something to the run folder after a step.
struct Meddles<'a>(u64, Box<dyn Fn() + 'a>);
impl Watch for Meddles<'_> {
    fn step(&mut self, step: u64) {
        if step == self.0 {
            (self.1)();
        }
    }
}
#[test]
#[cfg(target_os = "linux")]
fn a_run_that_goes_on_beside_its_folder() {
    type Meddle = fn(&Path, &Path);
    let place = |folder: &Path| -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder).into_iter().flatten().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    // What is done to it, what the message says, what stands at its path afterwards.
    let cases: [(&str, Meddle, &str, &[&str]); 6] = [
        ("deleted", |run, _| fs::remove_dir_all(run).unwrap(), "it was deleted while it was written to, with all that it held", &[]),
        ("renamed", |run, other| fs::rename(run, other).unwrap(), "/other; its newest checkpoint is ", &[]),
        (
            "replaced",
            |run, other| {
                fs::rename(run, other).unwrap();
                fs::create_dir(run).unwrap();
            },
            "something else stands in its place, and was left alone; its newest checkpoint is ",
            &[],
        ),
        (
            "a file in its place",
            |run, other| {
                fs::rename(run, other).unwrap();
                fs::write(run, "").unwrap();
            },
            "something else stands in its place",
            &[],
        ),
        ("no log", |run, _| fs::remove_file(run.join("metrics.jsonl")).unwrap(), "metrics.jsonl: it was deleted", &["checkpoints"]),
        ("no checkpoints", |run, _| fs::remove_dir_all(run.join("checkpoints")).unwrap(), "checkpoints: it was deleted", &["metrics.jsonl"]),
    ];
    for (name, meddle, says, left) in cases {
        for warn in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (run, other) = (folder.path().join("run"), folder.path().join("other"));
            let document = document(&["checkpoint.background=false", if warn { "checkpoint.on_error=\"warn\"" } else { "checkpoint.on_error=\"stop\"" }]);
            let mut watch = Meddles(9, Box::new(|| meddle(&run, &other)));
            let done = Device::reference().scoped(|| Run::new(&document).folder(&run).train(&mut watch));
            let told = match done {
                Err(failure) => {
                    assert_eq!(failure.exit_code(), 6, "{name}: {failure}");
                    failure.to_string()
                }
                // Its checkpoints alone are what the policy lets a run go on without.
                Ok(_) if warn && name == "no checkpoints" => continue,
                Ok(_) => unreachable!("{name}: it went on"),
            };
            assert!(told.contains(says) && told.contains(&*run.to_string_lossy()), "{name}: {told}");
            let there = place(&run);
            assert!(there.is_empty() == left.is_empty() && left.iter().all(|l| there.contains(&l.to_string())), "{name}: {there:?}");
            assert!(!there.contains(&(*["metrics.jsonl", "checkpoints"].iter().find(|n| !left.contains(n)).unwrap()).to_string()), "{name}: {there:?}");
            // Where it was moved to, it goes on, to the same end.
            if other.exists() {
                assert!(told.contains("step-00000008"), "{told}");
                let (again, whole) = (folder.path().join("other"), folder.path().join("whole"));
                let go_on = |at: &Path, resume| Device::reference().scoped(|| Run::new(&document).folder(at).resume(resume).train(&mut ())).unwrap();
                assert_eq!(go_on(&again, true).resumed, Some(8));
                go_on(&whole, false);
                for file in ["weights.safetensors", "metrics.jsonl"] {
                    assert!(fs::read(again.join(file)).unwrap() == fs::read(whole.join(file)).unwrap(), "{name}: {file}");
                }
            }
        }
    }
}
/// Remembers what a person was told.
#[derive(Default)]
struct Warned(Vec<String>);
impl Watch for Warned {
    fn warn(&mut self, text: &str) {
        self.0.push(text.into());
    }
}
#[test]
fn a_log_that_is_lost_and_takes_the_checkpoint_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    train(&whole, false, Interrupt::new(), &mut ()).unwrap();
    let lines = fs::read_to_string(whole.join("metrics.jsonl")).unwrap();
    let cut = |k: usize| move |path: &Path| fs::write(path, &fs::read(path).unwrap()[..k]).unwrap();
    type Damage = Box<dyn Fn(&Path)>;
    let cases: [(&str, Damage, usize); 6] = [
        ("deleted", Box::new(|path| fs::remove_file(path).unwrap()), 1),
        ("empty", Box::new(cut(0)), 1),
        ("cut in a line", Box::new(cut(200)), 1),
        ("zeros", Box::new(|path| fs::write(path, vec![0; 10_000]).unwrap()), 1),
        ("longer", Box::new(|path| fs::write(path, [fs::read(path).unwrap(), b"{\"kind\":\"st".to_vec()].concat()).unwrap()), 0),
        (
            "a line of rubbish",
            Box::new(|path| fs::write(path, fs::read_to_string(path).unwrap().replacen("\"kind\":\"step\"", "\"kind\"!\"step\"", 1)).unwrap()),
            1,
        ),
    ];
    for (name, damage, warnings) in cases {
        let run = folder.path().join(name);
        let interrupt = Interrupt::new();
        train(&run, false, interrupt.clone(), &mut StopAt(9, interrupt)).unwrap_err();
        damage(&run.join("metrics.jsonl"));
        let mut warned = Warned::default();
        let report = train(&run, true, Interrupt::new(), &mut warned).unwrap();
        assert_eq!((report.resumed, warned.0.len()), (Some(9), warnings), "{name}: {:?}", warned.0);
        assert!(warned.0.iter().all(|w| w.contains("metrics.jsonl: ")), "{:?}", warned.0);
        assert!(fs::read(run.join("weights.safetensors")).unwrap() == fs::read(whole.join("weights.safetensors")).unwrap(), "{name}");
        // Every step after the checkpoint stands in the log as in the undisturbed one.
        let log = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        let after = |log: &str| log.lines().filter(|l| l.contains("\"step\":12") || l.contains("\"step\":20")).map(str::to_string).collect::<Vec<_>>();
        assert_eq!(after(&log), after(&lines), "{name}");
        let is_told = fs::read_to_string(run.join("report.html")).unwrap().contains("were lost before the run went on from there");
        assert_eq!(is_told, warnings > 0 && name != "a line of rubbish", "{name}");
    }
}
#[test]
fn outputs_that_cannot_be_written_and_are_found_out_after_training() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for (path, says) in [("none/w", "there is no such folder"), ("", "it names a folder"), (".", "a folder"), ("file/w", "is no folder")] {
        let weights = format!("weights={:?}", if path.is_empty() { String::new() } else { folder.path().join(path).to_string_lossy().into_owned() });
        let mut seen = Seen::default();
        let document = document(&[&weights]);
        let run = folder.path().join("run");
        let failure = Device::reference().scoped(|| Run::new(&document).folder(&run).train(&mut seen)).unwrap_err();
        let told = failure.to_string();
        assert!(told.contains("`weights`: cannot write ") && told.contains(says), "{path}: {failure}");
        assert!(failure.exit_code() == 2 && seen.0.is_empty() && !run.exists(), "{path}: {failure} {:?}", seen.0);
        assert_eq!(Device::reference().scoped(|| dry_run(&document, Path::new(""))).unwrap_err().to_string(), told);
    }
}
