//! The schemas of `docs/schemas`: what drawn runs write is as they say, each branch of them is met by some run, and a line with a field that is gone,
//! renamed or of another type is none of theirs.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "schemas/validator.rs"]
mod validator;

use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{DType, Device, Tensor};
use adamant_nn::{Linear, Module, Walk, manual_seed};
use adamant_optim::{AdamW, ClippingOptions, Sgd, UpdateRule};
use adamant_stability::{HandlingType, NumericalStabilityManager};
use adamant_train::{
    Document, Failure, Interrupt, Run, Trained, Trainer, Watch,
    control::SOCKET,
    doctor::diagnose,
    trainer::{Callback, Control},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use validator::{CommonFields, FileSchema};

const ROWS: usize = 60;
/// A table of two classes (and of numbers), with NaN or an infinity in some rows.
fn table(folder: &Path, bad: &str) {
    let row = |k: usize| {
        let x = if k % 20 == 17 && !bad.is_empty() { bad.to_string() } else { format!("{}", (k * 7 % 11) as f64 / 11.0) };
        format!("{x},{},{},{}\n", (k * 5 % 13) as f64 / 13.0, k % 2, (k * k % 9) as f64)
    };
    fs::write(folder.join("table.csv"), (0..ROWS).map(row).collect::<String>()).unwrap();
}
const RUN: &str = r#"
seed = 5
epochs = 3
batch = 5
log_every = 2
checkpoint = { every = 4, last = 2, best = 1, background = false }
[data]
kind = "csv"
path = "table.csv"
label = 2
classes = 2
ignore = 3
valid = 0.2
test = { modulo = 6, equals = 0 }
allow_nonfinite = true
[model]
layers = [
    { kind = "Linear", in_features = 2, out_features = 8 },
    { kind = "BatchNorm1d", num_features = 8 },
    { kind = "ReLU" },
    { name = "head", kind = "Linear", in_features = 8, out_features = 2 },
]
[optimizer]
kind = "AdamW"
lr = 0.01
"#;
/// The same for numbers.
const NUMBERS: [&str; 2] = ["loss=mse", "model.layers.3.out_features=1"];
const UNJUDGED: &str = "checkpoint.best=0";
const ALERTS: &str = "alerts={ every = 0, rule = [{ name = \"a\", metric = \"train/loss\", when = \">= 0\" }, { name = \"b\", metric = \"train/loss\", when = \"nonfinite\" }, \
                      { name = \"i\", metric = \"incident\" }, { name = \"f\", metric = \"failure\" }, { name = \"e\", metric = \"end\" }] }";

/// Asks for things behind steps, and for the end behind one.
struct AtStep<'a> {
    folder: &'a Path,
    ends: Option<(u64, Interrupt)>,
    asks: Vec<(u64, &'a str)>,
    kept: Vec<UnixStream>,
}
impl Watch for AtStep<'_> {
    fn step(&mut self, step: u64) {
        for (_, line) in self.asks.iter().filter(|(at, _)| *at == step) {
            let mut asked = UnixStream::connect(self.folder.join(SOCKET)).unwrap();
            asked.write_all(format!("{line}\n").as_bytes()).unwrap();
            // Who comes behind it is answered when it was heard.
            let mut behind = UnixStream::connect(self.folder.join(SOCKET)).unwrap();
            behind.write_all(b"{\"do\": \"status\"}\n").unwrap();
            BufReader::new(behind).read_line(&mut String::new()).unwrap();
            self.kept.push(asked);
        }
        self.ends.iter().filter(|(at, _)| *at == step).for_each(|(_, interrupt)| interrupt.ask(15));
    }
}
/// Runs a description in a folder, killed behind steps and gone on with. Whatever comes of it.
fn run(place: &Path, name: &str, set: &[String], stops: &[u64], asks: &[(u64, &str)]) -> Result<(), Failure> {
    let numbers = set.iter().any(|s| s == NUMBERS[0]);
    let text = if numbers { RUN.replace("label = 2\nclasses = 2\nignore = 3", "targets = 3\nignore = 2") } else { RUN.into() };
    // A run that nobody judges while it learns.
    let text = if set.iter().any(|s| s == UNJUDGED) { text.replace("valid = 0.2\n", "") } else { text };
    let mut document = Document::parse("run.toml", &text).unwrap();
    set.iter().for_each(|s| document.set(s).unwrap());
    let folder = place.join(name);
    for stop in stops.iter().copied().map(Some).chain([None]) {
        let interrupt = Interrupt::new();
        let ends = stop.map(|at| (at, interrupt.clone()));
        let mut watch = AtStep { folder: &folder, ends, asks: if stop.is_none() { asks.to_vec() } else { Vec::new() }, kept: Vec::new() };
        let run = Run::new(&document).data(place).folder(&folder).resume(true).interrupt(interrupt);
        match Device::cpu().unwrap().scoped(|| run.train(&mut watch)) {
            Err(Failure::Interrupted { .. }) => {}
            done => done.map(|_| ())?,
        }
    }
    Ok(())
}
/// Everything that was written, by the schema that it is to follow.
#[derive(Default)]
struct WrittenFiles(BTreeMap<&'static str, Vec<Value>>);
impl WrittenFiles {
    fn add(&mut self, folder: &Path) {
        for (name, file) in [
            ("metrics", "metrics.jsonl"),
            ("timing", "timing.jsonl"),
            ("incidents", "incidents.jsonl"),
            ("control", "control.jsonl"),
            ("alerts", "alerts.jsonl"),
        ] {
            let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
            self.0.entry(name).or_default().extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        self.document("failure", &folder.join("failure.json"));
        self.0.entry("doctor").or_default().push(diagnose(folder).unwrap().to_json());
    }
    fn document(&mut self, name: &'static str, path: &Path) {
        if let Ok(bytes) = fs::read(path) {
            self.0.entry(name).or_default().push(serde_json::from_slice(&bytes).unwrap());
        }
    }
}
/// Options of all sorts, drawn.
fn drawn(random: &mut Random) -> Vec<String> {
    let mut set = Vec::new();
    let mut one = |of: &[&str]| {
        let drawn = of[random.below(of.len())];
        if !drawn.is_empty() {
            set.push(drawn.to_string());
        }
    };
    one(&[
        "",
        "precision.mode=bf16",
        "precision.mode=f16",
        "precision={ mode = \"f16\", scaler = { init_scale = 1e30, backoff_factor = 0.001, hysteresis = 1 } }",
        "precision.mode=fp8",
    ]);
    let policies =
        ["stop", "skip", "restore", "detect", "replace", "gradient_zeroing", "gradient_scaling", "adaptive"].map(|p| format!("stability.handling_type={p}"));
    one(&policies.each_ref().map(String::as_str));
    one(&["stability.mode=full", ""]);
    one(&["stability.restore_every=3", "", ""]);
    one(&["stability.detect_explosion=true", ""]);
    one(&["stability.look_every=3", "stability.look_every=1", ""]);
    one(&["", "clip={ kind = \"global_norm\", max_norm = 0.1 }", "clip={ kind = \"agc\" }", "clip={ kind = \"zclip\" }", "clip={ kind = \"layer_wise\" }"]);
    one(&["early_stopping={ monitor = \"valid_accuracy\", patience = 0 }", "", ""]);
    one(&["eval_every=3", ""]);
    one(&["capture=false", ""]);
    one(&["ema.decay=0.9", ""]);
    one(&["optimizer.lr=1.0", "optimizer.lr=1e30", "", "", ""]);
    one(&["accumulate=2", ""]);
    one(&["log_every=1", ""]);
    one(&[ALERTS, ALERTS, ""]);
    set
}
/// A run in f16 whose first layer leaves its range.
fn loud(place: &Path) {
    let layers = "model.layers=[{ name = \"loud\", kind = \"Linear\", in_features = 2, out_features = 8 }, { kind = \"LayerNorm\", normalized_shape = 8 }, \
                  { name = \"head\", kind = \"Linear\", in_features = 8, out_features = 2 }]";
    run(place, "first", &[layers.into()], &[], &[]).unwrap();
    let file = place.join("loud.safetensors");
    Device::cpu().unwrap().scoped(|| {
        let state = Trained::open(&place.join("first")).unwrap().model.state_dict();
        let state = state.into_iter().map(|(name, t)| if name == "loud.weight" { (name, (&t * 1e6).ok().unwrap()) } else { (name, t) }).collect::<Vec<_>>();
        adamant_formats::safetensors::save(&file, state, &BTreeMap::new()).unwrap();
    });
    let set = [layers.to_string(), format!("init_from.path={}", file.display()), "precision.mode=f16".into(), "precision.enable_fallback_to_fp32=true".into()];
    run(place, "loud", &set, &[], &[]).unwrap();
}
/// A callback that logs a number, and that fails where it is told to.
struct Logs(bool);
impl<M> Callback<M> for Logs {
    fn name(&self) -> &str {
        "logs"
    }
    fn on_step_end(&mut self, run: &mut Control<'_, M>) -> Result<(), Failure> {
        let step = run.position().step;
        run.log("own/step", step as f64);
        run.log("own/none", f64::NAN);
        if self.0 && step == 5 { Err(Failure::Run("a callback has failed".into())) } else { Ok(()) }
    }
}
fn trainers(place: &Path, all: &mut WrittenFiles) {
    // In the last one, a loss is NaN once: when the step is looked into, it is good.
    for (name, fails, nan) in [("own", false, u64::MAX), ("own-fails", true, u64::MAX), ("own-unfound", true, 1)] {
        let place = place.join(name);
        Device::cpu().unwrap().scoped(|| {
            manual_seed(1);
            let model = Linear::new(2, 1).unwrap();
            let optimizer = Sgd::new(0.01).over(model.parameters());
            let table = |width: usize| Tensor::from_vec((0..30 * width).map(|k| (k % 7) as f32 / 7.0).collect::<Vec<_>>(), [30, width]);
            let data = Arc::new(adamant_data::TensorDataset::new(&[&table(2), &table(1)]).unwrap());
            let loader = || adamant_data::DataLoader::new(data.clone()).batch_size(10).build().unwrap();
            let calls = AtomicU64::new(0);
            let loss = move |model: &Linear, batch: &Vec<Tensor>| {
                let factor = if calls.fetch_add(1, Ordering::Relaxed) == nan { f32::NAN } else { 1.0 };
                ((model.forward(&batch[0])? - &batch[1]).square().mean(..) * factor).ok()
            };
            let trainer =
                Trainer::new(model, optimizer, loss).epochs(3).log_every(1).capture(false).valid(loader()).callback(Logs(name == "own-fails")).folder(&place);
            let trainer = trainer.metric("own_measure", |model: &Linear, batch| (model.forward(&batch[0])? - &batch[1]).abs().mean(..).ok());
            assert_eq!(trainer.fit(loader(), &mut ()).is_err(), fails);
        });
        all.add(&place);
    }
}
/// What a manager of a loop of one's own writes.
fn histories(place: &Path, all: &mut WrittenFiles) {
    for (k, handling) in HandlingType::ALL.into_iter().enumerate() {
        let folder = place.join(format!("histories-{k}"));
        Device::cpu().unwrap().scoped(|| {
            manual_seed(1);
            let model = Linear::new(2, 1).unwrap();
            let mut optimizer = AdamW::new(0.1).over(model.parameters());
            let mut manager = NumericalStabilityManager::new(Some(ClippingOptions::global_norm(0.1)), Some(handling.into()), None, None).unwrap();
            for bad in [1.0, 2.0, f32::NAN, 3.0, f32::INFINITY, 1.0] {
                let x = Tensor::full([4, 2], bad, DType::F32);
                // A policy may end it.
                let _ = manager.step(&model, || model.forward(&x)?.square().mean(..).ok(), &mut optimizer);
            }
            manager.save_histories(&folder).unwrap();
        });
        for name in ["clipping_history", "nan_history", "scores"] {
            all.document(name, &folder.join(format!("{name}.json")));
        }
    }
}
/// Drawn runs, and one of each thing that is seldom.
fn written(place: &Path) -> WrittenFiles {
    let mut all = WrittenFiles::default();
    for seed in 0..24 {
        let random = &mut Random::new(seed);
        table(place, ["", "nan", "inf", "1e38"][random.below(4)]);
        let mut set = drawn(random);
        if seed % 6 == 5 {
            // Nobody looks, and nothing is clipped.
            set.retain(|s| !s.starts_with("stability.") && !s.starts_with("clip"));
            set.push("stability.watch=false".into());
        }
        if random.below(4) == 0 {
            set.retain(|s| !s.starts_with("early_stopping"));
            set.extend(NUMBERS.map(String::from));
        }
        if random.below(4) == 0 {
            set.retain(|s| !s.starts_with("early_stopping"));
            set.push(UNJUDGED.into());
        }
        let stops: Vec<u64> = (0..random.below(3)).map(|k| 3 + 5 * k as u64 + random.below(4) as u64).collect();
        let name = format!("drawn-{seed}");
        // That it fails is as good: it has said so in its folder.
        if let Err(failure) = run(place, &name, &set, &stops, &[]) {
            assert!(matches!(failure, Failure::Diverged(_) | Failure::Run(_)), "{failure}: {set:?}");
        }
        all.add(&place.join(name));
    }
    table(place, "nan");
    let ended = run(place, "ended", &["stability.look_every=1".into(), ALERTS.into()], &[], &[]);
    assert!(matches!(ended, Err(Failure::Diverged(_))), "{ended:?}");
    run(place, "restored", &["stability.handling_type=restore".into(), "stability.restore_every=2".into()], &[], &[]).unwrap();
    // Nothing was computed yet when the first line is written: its only batch is left out.
    let all_left_out = ["stability.handling_type=restore", "stability.max_consecutive=100", "batch=60", "log_every=1", "precision.mode=bf16"];
    run(place, "left-out", &all_left_out.map(String::from), &[], &[]).unwrap();
    table(place, "");
    let asks = [(4, r#"{"do": "rate", "factor": 0.5}"#), (6, r#"{"do": "pause"}"#), (6, r#"{"do": "resume"}"#), (9, r#"{"do": "stop_after_epoch"}"#)];
    run(place, "asked", &[], &[2], &asks).unwrap();
    // Values that are set between two steps, and in one, by who debugs it: each line is taken when the one before it is answered.
    let sets = [
        (4, r#"{"do": "set", "of": "0.weight", "at": "0, 0", "value": 0.5}"#),
        (5, r#"{"do": "set", "of": "0.weight", "at": "0, 0", "value": "nan"}"#),
        (5, r#"{"do": "set", "of": "0.weight", "at": "0, 0", "value": 0.25}"#),
        (7, "{\"do\": \"next\", \"of\": \"op\"}\n{\"do\": \"set\", \"of\": \"out.0\", \"at\": \"0\", \"value\": 1}\n{\"do\": \"continue\"}"),
    ];
    run(place, "set", &[], &[2], &sets).unwrap();
    // Lines that a checkpoint counts on are lost.
    run(place, "cut", &[], &[6], &[(20, r#"{"do": "stop"}"#)]).unwrap();
    fs::write(place.join("cut/metrics.jsonl"), "").unwrap();
    run(place, "cut", &[], &[], &[]).unwrap();
    loud(place);
    for name in ["ended", "restored", "left-out", "asked", "set", "cut", "loud"] {
        all.add(&place.join(name));
    }
    trainers(place, &mut all);
    histories(place, &mut all);
    all
}
fn schema(name: &str) -> FileSchema {
    FileSchema::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas").join(format!("{name}.schema.json")))
}

#[test]
fn a_file_of_a_run_that_its_schema_does_not_tell() {
    let place = tempfile::tempdir().unwrap();
    let all = written(place.path());
    if let Some(folder) = std::env::var_os("ADAMANT_KEEP_WRITTEN") {
        fs::write(folder, serde_json::to_vec(&all.0).unwrap()).unwrap();
    }
    let (mut faults, mut planted) = (Vec::new(), 0);
    for (name, values) in &all.0 {
        let (schema, common) = (schema(name), CommonFields::of(values));
        let (mut met, mut shapes) = (BTreeSet::new(), BTreeSet::new());
        for value in values {
            match schema.check(value) {
                Ok(branches) => met.extend(branches),
                Err(why) => faults.push(format!("{name}: {why}: {value:.300}")),
            }
            // One line of each shape is enough to plant faults in.
            if !shapes.insert(validator::shape_of(value)) || shapes.len() > 60 {
                continue;
            }
            for (what, changed) in common.mutations(value) {
                planted += 1;
                if schema.check(&changed).is_ok() {
                    faults.push(format!("{name}: {what} is taken: {value:.300}"));
                }
            }
        }
        let dead: Vec<String> = schema.branches().into_iter().filter(|branch| !met.contains(branch)).collect();
        if !dead.is_empty() {
            faults.push(format!("{name}: no run writes {dead:?}"));
        }
    }
    faults.truncate(30);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(planted > 2000, "{planted}");
    let files: BTreeSet<String> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas"))
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(files, all.0.keys().map(|name| format!("{name}.schema.json")).collect());
}
