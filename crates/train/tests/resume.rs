//! A run that goes on is the run that it was: for every optimizer under every schedule, for every key that is changed.
#![allow(clippy::unwrap_used)]

mod schedules;

use adamant_core::{Device, Tensor};
use adamant_nn::{Linear, Module, Sequential, Walk, manual_seed};
use adamant_train::{
    Document, Failure, Habits, Interrupt, Look, OPTIMIZERS, Precision, Report, Run, SCHEDULES, Session, Watch, checkpoint::Snapshot, course, optimizer,
};
use std::{fs, path::Path, sync::Arc};

/// Steps before and after the place where it is resumed.
const STEPS: u64 = 6;

fn schedule(kind: &str) -> String {
    if kind == "ReduceLROnPlateau" { "patience = 1\ncooldown = 1\nfactor = 0.5".into() } else { schedules::options(kind, 0.1) }
}
type Pairs = Session<Sequential, (Tensor, Tensor)>;
fn session(text: &str, seed: u64) -> Pairs {
    let document = Document::parse("run.toml", text).unwrap();
    let root = document.root().unwrap();
    manual_seed(seed);
    let model = Sequential::new().add(Linear::new(3, 4).unwrap()).add(Linear::new(4, 2).unwrap());
    let optimizer = optimizer(root.section("optimizer").unwrap().unwrap(), model.parameters()).unwrap();
    let habits = Habits {
        optimizer,
        course: course(&root, 2 * STEPS, false).unwrap(),
        clip: None,
        stability: None,
        accumulate: 1,
        ema: Some(0.8),
        capture: true,
        precision: Precision::default(),
    };
    let loss = |m: &Sequential, (x, y): &(Tensor, Tensor)| (m.forward(x)? - y).square().mean(..).ok();
    Session::new(model, Arc::new(loss), habits, Device::reference()).unwrap()
}
fn learn(session: &mut Pairs, steps: std::ops::Range<u64>) {
    for k in steps {
        let values = |n: usize, of: u64| (0..n as u64).map(|i| ((i * 7 + k * 3 + of) % 11) as f32 / 5.0 - 1.0).collect::<Vec<f32>>();
        session.step(&[(Tensor::from_vec(values(15, 0), [5, 3]), Tensor::from_vec(values(10, 4), [5, 2]))], Look::default()).unwrap();
        // It gets better, then stalls.
        session.measured(if k < 3 { 1.0 / (k + 1) as f64 } else { 0.5 }, None).unwrap();
    }
}
fn bits(snapshot: &Snapshot) -> (String, Vec<(String, Vec<u8>)>) {
    let tensors = snapshot.tensors.iter().flat_map(|(part, all)| all.iter().map(move |(name, t)| (format!("{part}/{name}"), t.to_bytes().unwrap())));
    (snapshot.state.to_string(), tensors.collect())
}
#[test]
fn an_optimizer_or_a_schedule_that_forgets_something() {
    let schedules = SCHEDULES.iter().map(|kind| format!("[schedule]\nkind = \"{kind}\"\n{}\n", schedule(kind)));
    for schedule in [String::new()].into_iter().chain(schedules) {
        for kind in OPTIMIZERS {
            let groups = "groups = [{ parameters = [\"*.bias\"], lr = 0.02 }]";
            let text = format!("[optimizer]\nkind = \"{kind}\"\nlr = 0.05\n{groups}\n{schedule}");
            Device::reference().scoped(|| {
                let mut whole = session(&text, 1);
                learn(&mut whole, 0..STEPS);
                let taken = whole.snapshot(serde_json::Value::Null).unwrap();
                let state = serde_json::from_str(&taken.state.to_string()).unwrap();
                learn(&mut whole, STEPS..2 * STEPS);
                let mut resumed = session(&text, 2);
                resumed.restore(&Snapshot { state, ..taken }).unwrap();
                learn(&mut resumed, STEPS..2 * STEPS);
                let (got, want) = (resumed.snapshot(serde_json::Value::Null).unwrap(), whole.snapshot(serde_json::Value::Null).unwrap());
                assert_eq!(bits(&got), bits(&want), "{text}");
            });
        }
    }
}
/// The names behind `marker` in the sources of a folder.
fn named(folder: &str, marker: &str) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let text = fs::read_to_string(path).unwrap();
            let lines = text.lines().filter(|l| l.starts_with("impl")).filter_map(|l| l.split_once(marker)).map(|(_, name)| name.to_string());
            names.extend(lines.map(|n| n.chars().take_while(|c| c.is_alphanumeric()).collect()));
        }
    }
    names.sort();
    names
}
#[test]
fn an_optimizer_or_a_schedule_of_the_library_that_is_not_in_the_lists() {
    let mut rules = named("../optim/src/rules", "UpdateRule for ");
    // For matrices alone, and a recipe has all parameters of a model.
    rules.retain(|r| r != "Muon");
    assert_eq!(rules.len(), OPTIMIZERS.len(), "{rules:?} and {OPTIMIZERS:?}");
    // Boxes and what holds one; those that take a function.
    let own = ["Box", "Held", "LambdaLr", "MultiplicativeLr"];
    let mut schedules: Vec<String> = ["../optim/src", "../optim/src/schedule"].iter().flat_map(|f| named(f, "Schedule for ")).collect();
    schedules.retain(|s| !own.contains(&s.as_str()));
    assert_eq!(schedules.len() + 1, SCHEDULES.len(), "{schedules:?} and {SCHEDULES:?}");
}

/// Everything that a run may have to bring back.
const RUN: &str = r#"
seed = 3
epochs = 5
batch = 7
accumulate = 2
log_every = 3
clip = { kind = "norm", max = 0.5 }
checkpoint = { every = 4, last = 2, best = 1 }
label_smoothing = 0.1
eval_every = 3
[data]
kind = "permutation"
classes = 12
rows = 60
valid = 0.2
workers = 2
prefetch_factor = 2
[model]
layers = [
    { kind = "Embedding", num_embeddings = 12, embedding_dim = 8 },
    { kind = "Dropout", p = 0.2 },
    { name = "head", kind = "Linear", in_features = 8, out_features = 12 },
]
[optimizer]
kind = "AdamW"
lr = 0.02
betas = [0.9, 0.99]
weight_decay = 0.02
[schedule]
kind = "CosineAnnealingLR"
T_max = 25
eta_min = 1e-4
[ema]
decay = 0.9
[early_stopping]
patience = 30
"#;
fn document(text: &str, set: &[&str]) -> Document {
    let mut document = Document::parse("run.toml", text).unwrap();
    set.iter().for_each(|s| document.set(s).unwrap());
    document
}
fn train(document: &Document, folder: &Path, watch: &mut dyn Watch, interrupt: Interrupt) -> Result<Report, Failure> {
    Device::reference().scoped(|| Run::new(document).folder(folder).resume(true).interrupt(interrupt).train(watch))
}
struct StopAt(u64, Interrupt);
impl Watch for StopAt {
    fn step(&mut self, step: u64) {
        if step == self.0 {
            self.1.ask(15);
        }
    }
}
#[derive(Default)]
struct Warnings(Vec<String>);
impl Watch for Warnings {
    fn warn(&mut self, text: &str) {
        self.0.push(text.into());
    }
}
fn stop(document: &Document, folder: &Path, step: u64) {
    let interrupt = Interrupt::new();
    let failure = train(document, folder, &mut StopAt(step, interrupt.clone()), interrupt).unwrap_err();
    assert!(matches!(failure, Failure::Interrupted { .. }), "{failure}");
}
#[test]
fn a_run_whose_momentum_or_rate_is_not_what_it_was() {
    let place = tempfile::tempdir().unwrap();
    let base = RUN.replace("kind = \"CosineAnnealingLR\"\nT_max = 25\neta_min = 1e-4\n", "");
    for (k, schedule) in [
        "kind = \"OneCycleLR\"\nmax_lr = 0.03\n",
        "kind = \"CyclicLR\"\nbase_lr = 0.01\nmax_lr = 0.1\nstep_size_up = 7\n",
        "kind = \"ReduceLROnPlateau\"\npatience = 0\nfactor = 0.7\nmonitor = \"valid_accuracy\"\n",
    ]
    .iter()
    .enumerate()
    {
        let document = document(&base.replace("[schedule]\n", &format!("[schedule]\n{schedule}")), &[]);
        let (whole, run) = (place.path().join(format!("whole-{k}")), place.path().join(format!("run-{k}")));
        train(&document, &whole, &mut (), Interrupt::new()).unwrap();
        [2, 9, 14].iter().for_each(|step| stop(&document, &run, *step));
        train(&document, &run, &mut (), Interrupt::new()).unwrap();
        for name in ["weights.safetensors", "metrics.jsonl"] {
            assert!(fs::read(run.join(name)).unwrap() == fs::read(whole.join(name)).unwrap(), "{name} under {schedule}");
        }
    }
}
#[test]
fn a_checkpoint_of_an_earlier_version_that_is_not_read() {
    Device::reference().scoped(|| {
        let text = "[optimizer]\nkind = \"AdamW\"\nlr = 0.05\n[schedule]\nkind = \"OneCycleLR\"\nmax_lr = 0.1\n";
        let mut whole = session(text, 1);
        learn(&mut whole, 0..STEPS);
        let mut old = whole.snapshot(serde_json::Value::Null).unwrap();
        let state = old.state.as_object_mut().unwrap();
        let groups = state.remove("hyperparameters").unwrap();
        state.insert("rates".into(), groups.as_array().unwrap().iter().map(|g| g["lr"].clone()).collect());
        state.insert("schedule".into(), STEPS.into());
        learn(&mut whole, STEPS..2 * STEPS);
        let mut resumed = session(text, 2);
        resumed.restore(&old).unwrap();
        learn(&mut resumed, STEPS..2 * STEPS);
        assert_eq!(bits(&resumed.snapshot(serde_json::Value::Null).unwrap()), bits(&whole.snapshot(serde_json::Value::Null).unwrap()));
        // And one of something else is refused in words.
        let mut other = session("[optimizer]\nkind = \"SGD\"\nlr = 0.05\n", 2);
        let failure = other.restore(&whole.snapshot(serde_json::Value::Null).unwrap()).unwrap_err();
        assert_eq!((failure.exit_code(), failure.to_string().as_str()), (4, "the checkpoint of step 12: it has another schedule"));
    });
}
#[test]
fn a_longer_run_that_goes_on_at_another_rate_in_silence() {
    let place = tempfile::tempdir().unwrap();
    let reaching = RUN.replace("T_max = 25\neta_min = 1e-4\n", "");
    let go = |name: &str, set: &[&str]| {
        let run = place.path().join(name);
        if !run.exists() {
            train(&document(&reaching, &[]), &run, &mut (), Interrupt::new()).unwrap();
        }
        let mut seen = Warnings::default();
        (train(&document(&reaching, set), &run, &mut seen, Interrupt::new()), seen.0)
    };
    let (failure, _) = go("refused", &["epochs=6"]);
    let failure = failure.unwrap_err();
    assert_eq!(failure.exit_code(), 2);
    let text = failure.to_string();
    for part in ["began with 20 steps and is now to have 24", "CosineAnnealingLR", "`T_max`", "schedule.on_extend", "\"stretch\"", "\"hold\""] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let rates = |run: &str| -> Vec<f64> {
        let lines = fs::read_to_string(place.path().join(run).join("metrics.jsonl")).unwrap();
        let values = lines.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()).filter(|l| l["kind"] == "step");
        values.filter(|l| l["step"].as_u64() > Some(20)).map(|l| l["lr"].as_f64().unwrap()).collect()
    };
    let (stretched, warnings) = go("stretched", &["epochs=6", "schedule.on_extend=stretch"]);
    assert_eq!((stretched.unwrap().losses.len(), warnings.len()), (6, 0), "{warnings:?}");
    assert!(rates("stretched")[0] > 1e-4, "{:?}", rates("stretched"));
    let (held, warnings) = go("held", &["epochs=6", "schedule.on_extend=hold"]);
    held.unwrap();
    assert!(warnings.iter().any(|w| w.contains("the learning rate is 0 in the last 4 of 24 steps")), "{warnings:?}");
    assert!(rates("held").iter().all(|lr| *lr == 0.0), "{:?}", rates("held"));
    // A schedule with a length of its own goes on as it is.
    let run = place.path().join("own");
    train(&document(RUN, &[]), &run, &mut (), Interrupt::new()).unwrap();
    assert_eq!(train(&document(RUN, &["epochs=6"]), &run, &mut (), Interrupt::new()).unwrap().losses.len(), 6);
}
#[test]
fn a_key_that_is_changed_for_a_run_that_goes_on_and_would_have_changed_what_was_done() {
    let place = tempfile::tempdir().unwrap();
    let changes = [
        "seed=4",
        "epochs=6",
        "batch=6",
        "accumulate=1",
        "log_every=1",
        "clip.max=0.1",
        "clip.kind=value",
        "clip={ kind = \"zclip\" }",
        "checkpoint.every=3",
        "checkpoint.last=1",
        "checkpoint.best=2",
        "label_smoothing=0.2",
        "eval_every=2",
        "data.rows=61",
        "data.valid=0.3",
        "data.workers=0",
        "data.prefetch_factor=3",
        "data.seed=9",
        "model.layers.1.p=0.3",
        "optimizer.lr=0.03",
        "optimizer.betas=[0.8, 0.99]",
        "optimizer.weight_decay=0.0",
        "optimizer.kind=NAdam",
        "optimizer.amsgrad=true",
        "schedule.T_max=30",
        "schedule.eta_min=0.0",
        "schedule.kind=PolynomialLR",
        "schedule.on_extend=hold",
        "ema.decay=0.8",
        "early_stopping.patience=31",
        "early_stopping.min_delta=0.1",
        "early_stopping.monitor=train_loss",
        "early_stopping.restore_best=true",
        "loss=focal",
        "freeze=[\"head.bias\"]",
        "class_weights=balanced",
        "quantize.scheme=w8",
    ];
    let lines = |run: &Path| -> Vec<(String, u64, String)> {
        let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        let values = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        values.map(|v| (v["kind"].to_string(), v["step"].as_u64().unwrap(), v["loss"].to_string())).filter(|l| l.1 <= 8).collect()
    };
    let (mut refused, mut free) = (0, 0);
    for (k, change) in changes.iter().enumerate() {
        let (run, other) = (place.path().join(format!("run-{k}")), place.path().join(format!("other-{k}")));
        stop(&document(RUN, &[]), &run, 8);
        let changed = document(RUN, &[change]);
        match train(&changed, &run, &mut (), Interrupt::new()) {
            Err(failure) => {
                assert!(matches!(failure, Failure::Usage(_) | Failure::Input(_)), "{change}: {failure}");
                refused += 1;
            }
            Ok(_) => {
                train(&changed, &other, &mut (), Interrupt::new()).unwrap();
                let (got, want) = (lines(&run), lines(&other));
                assert!(!got.is_empty());
                for (kind, step, loss) in &got {
                    let same = want.iter().find(|w| w.0 == *kind && w.1 == *step);
                    assert!(same.is_none_or(|w| w.2 == *loss), "{change}: {kind} of step {step} is {loss}, it would have been {same:?}");
                }
                free += 1;
            }
        }
    }
    assert_eq!((refused, free), (changes.len() - 8, 8));
}
#[test]
fn weights_that_cannot_be_written_and_are_trained_for() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "").unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    for (path, says) in [(at("gone/x.safetensors"), "there is no such folder"), (at(""), "it names a folder"), (at("file/x.safetensors"), "is no folder")] {
        let document = document(RUN, &[&format!("weights='{path}'")]);
        let failure = Device::reference().scoped(|| Run::new(&document).train(&mut ())).unwrap_err();
        assert!(failure.to_string().contains("`weights`") && failure.to_string().contains(says), "{path}: {failure}");
        let found = Device::reference().scoped(|| adamant_train::validate(&document, Path::new("")));
        assert!(found.faults.iter().any(|f| f.to_string().contains(says)), "{:?}", found.faults);
    }
}
