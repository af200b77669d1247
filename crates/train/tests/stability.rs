//! Numbers that are not finite in a run: what it leaves behind, and how it goes on.
#![allow(clippy::unwrap_used)]

mod schedules;

use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{Device, Tensor};
use adamant_data::{DataLoader, TensorDataset};
use adamant_nn::{BatchNorm1d, Dropout, Linear, Module, Relu, Sequential, Walk, manual_seed};
use adamant_optim::{Adam, UpdateRule, schedule::StepLr};
use adamant_train::{
    CheckpointPlan, Document, Failure, HandlingType, Interrupt, NanOptions, OPTIMIZERS, Run, SCHEDULES, Trainer, Watch,
    checkpoint::{Checkpoints, Retention},
    storage::Disk,
};
use serde_json::Value;
use std::{fs, path::Path, sync::Arc};

const ROWS: usize = 60;
/// A table of two classes, with NaN at a row.
fn table(folder: &Path, bad: Option<usize>) {
    let row = |k: usize| {
        let x = if Some(k) == bad { "nan".to_string() } else { format!("{}", (k * 7 % 11) as f64 / 11.0) };
        format!("{x},{},{}\n", (k * 5 % 13) as f64 / 13.0, k % 2)
    };
    fs::write(folder.join("table.csv"), (0..ROWS).map(row).collect::<String>()).unwrap();
}
const RUN: &str = r#"
seed = 5
epochs = 6
batch = 5
log_every = 4
clip = { kind = "adaptive", adaptive_factor = 1.5 }
checkpoint = { every = 7, last = 1, best = 0, background = false }
[data]
kind = "csv"
path = "table.csv"
label = 2
classes = 2
test = { modulo = 6, equals = 0 }
allow_nonfinite = true
[model]
layers = [
    { kind = "Linear", in_features = 2, out_features = 8 },
    { kind = "BatchNorm1d", num_features = 8 },
    { kind = "Dropout", p = 0.2 },
    { kind = "ReLU" },
    { name = "head", kind = "Linear", in_features = 8, out_features = 2 },
]
[optimizer]
kind = "AdamW"
lr = 0.01
[schedule]
kind = "CosineAnnealingLR"
"#;
fn run(place: &Path, folder: &str, set: &[&str]) -> Result<adamant_train::Report, Failure> {
    let mut document = Document::parse("run.toml", RUN).unwrap();
    set.iter().for_each(|s| document.set(s).unwrap());
    Device::cpu().unwrap().scoped(|| Run::new(&document).data(place).folder(place.join(folder)).resume(true).train(&mut ()))
}
fn incidents(folder: &Path) -> Vec<Value> {
    fs::read_to_string(folder.join("incidents.jsonl")).unwrap_or_default().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}
/// The tensors of the checkpoints that are left, the oldest first.
fn checkpoints(run: &Path) -> Vec<(u64, bool, Vec<(String, Vec<u8>)>)> {
    Device::cpu().unwrap().scoped(|| {
        let all = Checkpoints::open(Arc::new(Disk), &run.join("checkpoints"), Retention { last: 9, best: 9 }).unwrap();
        let (listed, _) = all.list().unwrap();
        let read = |step: u64| {
            let snapshot = all.load(step).unwrap().snapshot;
            snapshot.tensors.iter().flat_map(|(part, all)| all.iter().map(move |(name, t)| (format!("{part}/{name}"), t.to_bytes().unwrap()))).collect()
        };
        listed.iter().map(|l| (l.step, l.finite, read(l.step))).collect()
    })
}
#[test]
fn a_bad_number_that_reaches_a_weight_or_is_not_named() {
    for (log_every, capture, bad) in [(1, true, 17), (4, true, 17), (50, true, 31), (4, false, 8)] {
        let place = tempfile::tempdir().unwrap();
        let keys = [format!("log_every={log_every}"), format!("capture={capture}")];
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        table(place.path(), Some(bad));
        let failure = run(place.path(), "run", &keys).unwrap_err();
        let said = failure.to_string();
        assert_eq!(failure.exit_code(), 3, "{said}");
        let folder = place.path().join("run");
        let told = incidents(&folder);
        assert_eq!(told.len(), 1);
        let step = told[0]["step"].as_u64().unwrap();
        assert!(said.starts_with(&format!("step {step}: NaN at [")) && said.contains("(data)") && said.contains("table.csv"), "{said}");
        assert_eq!((&told[0]["origin"]["phase"], &told[0]["origin"]["kind"]), (&"data".into(), &"NaN".into()), "{told:?}");
        let named: Vec<u64> = told[0]["records"].as_array().unwrap().iter().filter(|r| r["finite"] == false).map(|r| r["index"].as_u64().unwrap()).collect();
        // Test rows are those that 6 divides.
        assert_eq!(named, [bad as u64], "{said}");
        // What is left is the state of the step before: that of a run of good data that was stopped there.
        let left = checkpoints(&folder);
        assert_eq!((left.last().unwrap().0, left.iter().all(|l| l.1)), (step - 1, true));
        table(place.path(), Some(bad));
        let good = tempfile::tempdir().unwrap();
        table(good.path(), Some(bad));
        if step > 1 {
            let stopped = [keys.clone(), vec!["schedule.T_max=60", "checkpoint.every=1", "checkpoint.last=100", "stability.handling_type=skip"]].concat();
            let _ = run(good.path(), "run", &stopped).unwrap();
            let before = checkpoints(&good.path().join("run"));
            let same = before.iter().find(|(at, ..)| *at == step - 1).unwrap();
            let of =
                |all: &[(String, Vec<u8>)], parts: &[&str]| all.iter().filter(|(n, _)| parts.iter().any(|p| n.starts_with(p))).cloned().collect::<Vec<_>>();
            assert_eq!(
                of(&same.2, &["model/", "optimizer/", "clip/"]),
                of(&left.last().unwrap().2, &["model/", "optimizer/", "clip/"]),
                "log_every {log_every}"
            );
        }
        // It goes on under another policy, and ends as a run that had it all along.
        let skipped = [keys.clone(), vec!["stability.handling_type=skip"]].concat();
        let resumed = run(place.path(), "run", &skipped).unwrap();
        let other = tempfile::tempdir().unwrap();
        table(other.path(), Some(bad));
        let whole = run(other.path(), "run", &skipped).unwrap();
        assert_eq!(resumed.test.loss.to_bits(), whole.test.loss.to_bits(), "log_every {log_every}");
        assert!(whole.test.loss.is_finite());
        let lines = |f: &Path| fs::read_to_string(f.join("run/metrics.jsonl")).unwrap();
        assert_eq!(lines(place.path()), lines(other.path()));
        assert!(lines(other.path()).contains("\"bad_steps\""));
    }
}
/// Optimizers, schedules, clipping, precision and habits drawn at random, with a bad row at a random place.
#[test]
fn a_combination_that_ends_otherwise_where_it_was_stopped() {
    for seed in 0..12u64 {
        let mut random = Random::new(seed);
        let (optimizer, schedule) = (*random.pick(&OPTIMIZERS), *random.pick(&["StepLR", "ExponentialLR", "CosineAnnealingLR", "OneCycleLR", "LinearLR"]));
        let own = match schedule {
            "StepLR" => "{ kind = \"StepLR\", step_size = 3, gamma = 0.8 }",
            "ExponentialLR" => "{ kind = \"ExponentialLR\", gamma = 0.99 }",
            "OneCycleLR" => "{ kind = \"OneCycleLR\", max_lr = 0.02 }",
            "LinearLR" => "{ kind = \"LinearLR\" }",
            _ => "{ kind = \"CosineAnnealingLR\" }",
        };
        let clip = random.pick(&["off", "norm", "adaptive", "percentile", "exponential", "agc", "zclip"]);
        // In f16 the loss scaler suppresses such steps before they are bad ones.
        let mode = random.pick(&["f32", "bf16"]);
        let mut keys = vec![
            format!("optimizer.kind={optimizer}"),
            format!("schedule={own}"),
            format!("clip={{ kind = \"{clip}\" }}"),
            format!("precision={{ mode = \"{mode}\" }}"),
            format!("accumulate={}", random.between(1, 3)),
            format!("log_every={}", random.between(1, 9)),
            format!("data.workers={}", random.below(3)),
        ];
        keys.extend(random.one_in(2).then(|| "ema.decay=0.9".to_string()));
        let bad = 1 + random.below(9) * 6 + random.below(5);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let told = format!("seed {seed}, row {bad}: {keys:?}");
        let (stopped, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        table(stopped.path(), Some(bad));
        table(whole.path(), Some(bad));
        let failure = run(stopped.path(), "run", &keys).unwrap_err();
        assert!(failure.exit_code() == 3 && failure.to_string().contains(&format!("record {bad} of")), "{told}: {failure}");
        assert!(checkpoints(&stopped.path().join("run")).iter().all(|l| l.1), "{told}");
        let skipped = [&keys[..], &["stability.handling_type=skip"]].concat();
        let (resumed, at_once) = (run(stopped.path(), "run", &skipped), run(whole.path(), "run", &skipped));
        let lines = |f: &Path| fs::read_to_string(f.join("run/metrics.jsonl")).unwrap();
        assert_eq!(resumed.unwrap().test.loss.to_bits(), at_once.unwrap().test.loss.to_bits(), "{told}");
        assert!(lines(stopped.path()) == lines(whole.path()), "{told}");
    }
}
#[test]
fn metrics_that_depend_on_when_somebody_looked() {
    for policy in ["skip", "replace"] {
        let lines = |every: &str| {
            let place = tempfile::tempdir().unwrap();
            table(place.path(), Some(17));
            run(place.path(), "run", &[&format!("stability.handling_type={policy}"), every]).unwrap();
            fs::read_to_string(place.path().join("run/metrics.jsonl")).unwrap()
        };
        let (seldom, often) = (lines("checkpoint.every=50"), lines("checkpoint.every=1"));
        assert!(seldom.contains("\"bad_steps\":{\"all\":6") && seldom == often, "{policy}");
    }
}
#[test]
fn a_watch_that_changes_a_bit_of_a_healthy_run() {
    let ends = |keys: &[&str]| {
        let place = tempfile::tempdir().unwrap();
        table(place.path(), None);
        run(place.path(), "run", keys).unwrap();
        let lines = fs::read_to_string(place.path().join("run/metrics.jsonl")).unwrap();
        let model: Vec<_> = checkpoints(&place.path().join("run")).pop().unwrap().2.into_iter().filter(|(n, _)| !n.starts_with("stability/")).collect();
        (lines, model)
    };
    let off = ends(&["stability.watch=false"]);
    assert!(ends(&["stability.mode=full", "stability.detect_overflow=true"]) == off, "a look at each op");
    for keys in [
        &["precision={ mode = \"bf16\" }", "accumulate=2"][..],
        &["precision={ mode = \"f16\" }"],
        &["capture=false", "optimizer.kind=Lion", "clip={ kind = \"zclip\" }"],
    ] {
        let with = |key: &'static str| ends(&[keys, &[key]].concat());
        assert!(with("stability.mode=full") == with("stability.mode=watch"), "{keys:?}");
    }
    for policy in ["stop", "skip", "detect", "replace", "gradient_zeroing", "adaptive", "gradient_scaling"] {
        let on = ends(&[&format!("stability.handling_type={policy}"), "stability.detect_overflow=true", "stability.activation_checking=true"]);
        assert!(on == off, "{policy}");
    }
}
/// From the first step on, where rules have no use yet for a part of what they compute, and with every schedule and habit.
#[test]
fn an_optimizer_that_makes_a_bad_number_on_its_way() {
    let text = schedules::drawn_run;
    let drawn = (0..OPTIMIZERS.len().max(SCHEDULES.len())).map(|k| (text(k), None));
    let rectified = OPTIMIZERS.iter().position(|o| *o == "RAdam").unwrap();
    let betas = [0.1, 0.5, 0.6, 0.7, 0.8].map(|beta| (text(rectified), Some(format!("optimizer.betas=[0.5, {beta}]"))));
    for (text, key) in drawn.chain(betas) {
        let place = tempfile::tempdir().unwrap();
        let mut document = Document::parse("run.toml", &text).unwrap();
        document.set("stability.mode=full").unwrap();
        key.iter().for_each(|key| document.set(key).unwrap());
        let done = Device::cpu().unwrap().scoped(|| Run::new(&document).folder(place.path()).train(&mut ()));
        assert!(done.is_ok(), "{:?} {key:?}\n{text}", done.err());
    }
}
/// The score of each line, by its formula: from the bad steps that were counted since the line before, and from what was clipped away.
#[test]
fn a_score_that_is_not_its_formula() {
    let place = tempfile::tempdir().unwrap();
    for (policy, log_every, bad) in [("skip", 1, Some(17)), ("replace", 3, Some(31)), ("restore", 2, Some(17)), ("stop", 1, None)] {
        table(place.path(), bad);
        let keys = [format!("stability.handling_type={policy}"), format!("log_every={log_every}"), "clip={ kind = \"global_norm\", max_norm = 0.3 }".into()];
        let folder = format!("score-{policy}");
        run(place.path(), &folder, &keys.each_ref().map(String::as_str)).unwrap();
        let lines: Vec<Value> =
            fs::read_to_string(place.path().join(&folder).join("metrics.jsonl")).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let (mut counted, mut restored, mut scores) = (0, false, Vec::new());
        for line in &lines {
            restored |= line["kind"] == "restore";
            if line["kind"] != "step" {
                continue;
            }
            let now = line["bad_steps"]["all"].as_u64().unwrap_or(0);
            let is_bad = std::mem::replace(&mut counted, now) < now || std::mem::take(&mut restored);
            let norm = line["grad_norm"].as_f64().filter(|norm| *norm > 0.0);
            let clipped = norm.map_or(0.0, |norm| (1.0 - 0.3 / norm).max(0.0));
            // The norm of a step that was left out, or is NaN, is not there: nothing was clipped away.
            assert!((line["clipped"].as_f64().unwrap_or(0.0) - clipped).abs() < 1e-5, "{policy}: {line}");
            let score = 1.0 - if is_bad { 0.3 } else { 0.0 } - 0.1 * line["clipped"].as_f64().unwrap_or(0.0);
            assert!((line["stability_score"].as_f64().unwrap() - score).abs() < 1e-12, "{policy}: {line}");
            scores.push((is_bad, clipped > 0.0));
        }
        assert!(scores.iter().any(|s| s.0) == bad.is_some() && scores.iter().any(|s| s.1), "{policy}: {scores:?}");
    }
}
/// Lines of layers: at their steps, of all layers and parameters in their order, the same whether steps are captured or resumed; and no bit else changes.
#[test]
fn a_look_at_layers_that_changes_a_run_or_is_not_written() {
    let place = tempfile::tempdir().unwrap();
    table(place.path(), None);
    let ends = |folder: &str, set: &[&str]| {
        run(place.path(), folder, set).unwrap();
        let folder = place.path().join(folder);
        let lines = fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
        let (looks, rest): (Vec<String>, Vec<String>) = lines.lines().map(String::from).partition(|line| line.contains("\"kind\":\"layers\""));
        (fs::read(folder.join("weights.safetensors")).unwrap(), rest, looks)
    };
    let (weights, lines, none) = ends("plain", &[]);
    let looked = ends("looked", &["stability.look_every=3"]);
    assert!(none.is_empty() && (&looked.0, &looked.1) == (&weights, &lines), "a look has changed something");
    assert!(ends("by-op", &["stability.look_every=3", "capture=false"]) == looked, "other numbers op by op");
    // Sixty rows without the ten of the test part, by five, six times.
    let read: Vec<Value> = looked.2.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        read.iter().map(|line| line["step"].as_u64().unwrap()).collect::<Vec<_>>(),
        std::iter::once(1).chain((1..=20).map(|k| 3 * k)).collect::<Vec<_>>()
    );
    for line in &read {
        let named = |of: &str, name: &str| line[of].as_array().unwrap().iter().map(|x| x[name].as_str().unwrap().to_string()).collect::<Vec<_>>();
        assert_eq!(named("layers", "layer"), ["0", "1", "2", "3", "head"]);
        assert_eq!(named("parameters", "parameter"), ["0.weight", "0.bias", "1.weight", "1.bias", "head.weight", "head.bias"]);
        assert!(line["parameters"].as_array().unwrap().iter().all(|p| p["update"].as_f64().unwrap() > 0.0 && p["gradient"].as_f64().is_some()), "{line}");
        assert!(line["layers"][3]["op"] == "relu" && line["layers"][3]["zeros"].as_f64().unwrap() > 0.0, "{line}");
    }
    // Resumed from the middle.
    let interrupt = Interrupt::new();
    let mut document = Document::parse("run.toml", RUN).unwrap();
    document.set("stability.look_every=3").unwrap();
    let folder = place.path().join("resumed");
    let ended = Device::cpu()
        .unwrap()
        .scoped(|| Run::new(&document).data(place.path()).folder(&folder).resume(true).interrupt(interrupt.clone()).train(&mut EndAt(31, interrupt)));
    assert!(matches!(ended, Err(Failure::Interrupted { .. })));
    assert!(ends("resumed", &["stability.look_every=3"]) == looked, "other lines where it was resumed");
}
#[test]
fn a_finite_checkpoint_that_is_pushed_out() {
    let place = tempfile::tempdir().unwrap();
    table(place.path(), Some(49));
    let done = run(place.path(), "run", &["stability.handling_type=detect", "checkpoint.every=2"]).unwrap();
    assert!(!done.test.loss.is_finite());
    let left = checkpoints(&place.path().join("run"));
    let finite: Vec<bool> = left.iter().map(|l| l.1).collect();
    assert_eq!(finite, [true, false], "the last finite one, and the last one");
}
/// Asks for an end at a step.
struct EndAt(u64, Interrupt);
impl Watch for EndAt {
    fn step(&mut self, step: u64) {
        if step == self.0 {
            self.1.ask(15);
        }
    }
}
/// What is left in the end: the weights that a run gives away, and its lines.
fn left(place: &Path) -> (Vec<u8>, String) {
    let read = |name: &str| fs::read(place.join("run").join(name)).unwrap();
    (read("weights.safetensors"), String::from_utf8(read("metrics.jsonl")).unwrap())
}
/// Keys of a drawn run under restore, and its bad rows.
fn drawn_restores(random: &mut Random) -> Vec<String> {
    let schedule =
        random.pick(&["{ kind = \"StepLR\", step_size = 3, gamma = 0.8 }", "{ kind = \"OneCycleLR\", max_lr = 0.02 }", "{ kind = \"CosineAnnealingLR\" }"]);
    let mut keys = vec![
        "stability.handling_type=restore".to_string(),
        format!("stability.restore_every={}", random.between(1, 9)),
        format!("stability.restore_skip={}", random.below(3)),
        format!("stability.restore_lr_factor={}", random.pick(&["1", "0.5", "0.9"])),
        format!("optimizer.kind={}", random.pick(&OPTIMIZERS)),
        format!("schedule={schedule}"),
        format!("clip={{ kind = \"{}\" }}", random.pick(&["off", "adaptive", "exponential", "zclip"])),
        format!("accumulate={}", random.between(1, 2)),
    ];
    keys.extend(random.one_in(2).then(|| "ema.decay=0.9".to_string()));
    if random.one_in(2) {
        keys.extend(["stability.detect_explosion=true", "stability.explosion_factor=1.2", "stability.max_consecutive=100"].map(String::from));
    }
    keys
}
#[test]
fn a_restored_run_that_depends_on_who_looked_and_where_it_was_stopped() {
    let mut restores = 0;
    for seed in 0..14u64 {
        let mut random = Random::new(seed);
        let keys = drawn_restores(&mut random);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let bad = 1 + random.below(9) * 6 + random.below(5);
        let place = || {
            let place = tempfile::tempdir().unwrap();
            table(place.path(), Some(bad));
            place
        };
        let with = |place: &Path, more: &[&str]| run(place, "run", &[&keys[..], more].concat()).unwrap();
        let (whole, often) = (place(), place());
        with(whole.path(), &["checkpoint.every=50"]);
        with(often.path(), &["checkpoint.every=1"]);
        let told = format!("seed {seed}, row {bad}: {keys:?}");
        let (weights, lines) = left(whole.path());
        assert!(left(often.path()) == (weights.clone(), lines.clone()), "{told}: other bits where somebody looks after each step");
        restores += lines.matches("\"kind\":\"restore\"").count();
        assert_eq!(incidents(&whole.path().join("run")).len(), lines.matches("\"kind\":\"restore\"").count(), "{told}");
        // Stopped and resumed, more than once.
        let stopped = place();
        let mut document = Document::parse("run.toml", RUN).unwrap();
        keys.iter().for_each(|s| document.set(s).unwrap());
        let mut at = 0;
        for _ in 0..3 {
            at += random.between(1, 15) as u64;
            let interrupt = Interrupt::new();
            let ended = Device::cpu().unwrap().scoped(|| {
                let run = Run::new(&document).data(stopped.path()).folder(stopped.path().join("run")).resume(true).interrupt(interrupt.clone());
                run.train(&mut EndAt(at, interrupt))
            });
            assert!(matches!(&ended, Err(Failure::Interrupted { .. }) | Ok(_)), "{told}: {:?}", ended.err().map(|e| e.to_string()));
        }
        with(stopped.path(), &[]);
        assert!(left(stopped.path()) == (weights, lines), "{told}: other bits where it was stopped");
    }
    assert!(restores > 40, "{restores}");
}
/// The steps behind the held state are as if their batches had been bad too.
#[test]
fn a_state_that_is_not_put_back_whole() {
    let ends = |bad: std::ops::Range<usize>, options: NanOptions| {
        manual_seed(4);
        let net = Sequential::new()
            .add(Linear::new(3, 6).unwrap())
            .add(BatchNorm1d::new(6).unwrap())
            .add(Relu::new())
            .add(Dropout::new(0.2).unwrap())
            .add(Linear::new(6, 1).unwrap());
        // Batches of 5 rows, in their order.
        let x: Vec<f32> = (0..60 * 3).map(|k| if bad.contains(&(k / 15)) { f32::NAN } else { (k * 7 % 13) as f32 / 13.0 }).collect();
        let y: Vec<f32> = (0..60).map(|k| (k % 5) as f32).collect();
        let data = Arc::new(TensorDataset::new(&[&Tensor::from_vec(x, [60, 3]), &Tensor::from_vec(y, [60, 1])]).unwrap());
        let optimizer = Adam::new(0.02).over(net.parameters());
        let fitted = Trainer::new(net, optimizer, |net: &Sequential, b: &Vec<Tensor>| (net.forward(&b[0])? - &b[1]).square().mean(..).ok())
            .stability(NanOptions { max_consecutive: 9, ..options })
            .schedule(StepLr { step_size: 3, gamma: 0.9 })
            .clip(adamant_optim::ClippingType::Adaptive)
            .log_every(7)
            .fit(DataLoader::new(data).batch_size(5).build().unwrap(), &mut ())
            .unwrap();
        fitted.model.state_dict().iter().map(|(_, t)| t.to_bytes().unwrap()).collect::<Vec<_>>()
    };
    Device::cpu().unwrap().scoped(|| {
        for (every, batch) in [(1usize, 3usize), (4, 6), (4, 4), (5, 9), (3, 2)] {
            // A good step lies between.
            let held = (batch - 1) / every * every;
            let restore = NanOptions { restore_every: every as u32, restore_lr_factor: 1.0, ..HandlingType::Restore.into() };
            let told = format!("batch {batch}, a state every {every}");
            let restored = ends(batch..batch + 1, restore.clone());
            assert!(restored == ends(held..batch + 1, HandlingType::Skip.into()), "{told}");
            assert!(ends(batch..batch + 1, NanOptions { restore_lr_factor: 0.5, ..restore.clone() }) != restored, "{told}: the same at half the rate");
            let further = ends(batch..batch + 1, NanOptions { restore_skip: 1, ..restore });
            assert!(further == ends(held..batch + 2, HandlingType::Skip.into()), "{told}, one more left out");
        }
    });
}
/// A rate of 1e30 for a step: its weights are finite, and what is computed from them is not.
#[test]
fn a_spoiled_state_that_is_put_back() {
    for spike in 1..=24 {
        let place = tempfile::tempdir().unwrap();
        table(place.path(), None);
        let spiked = format!(
            "schedule={{ kind = \"ChainedScheduler\", schedulers = [{{ kind = \"MultiStepLR\", milestones = [{spike}], gamma = 1e30 }}, {{ kind = \"MultiStepLR\", milestones = [{}], gamma = 1e-30 }}] }}",
            spike + 1
        );
        let net = "model.layers=[{ kind = \"Linear\", in_features = 2, out_features = 8 }, { kind = \"Linear\", in_features = 8, out_features = 2 }]";
        let keys = [net, "optimizer.kind=SGD", &spiked, "stability.handling_type=restore", "stability.restore_every=4", "stability.restore_lr_factor=1"];
        run(place.path(), "run", &keys).unwrap_or_else(|e| panic!("spike behind step {spike}: {e}"));
        let lines = left(place.path()).1;
        let restores: Vec<Value> = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).filter(|line| line["kind"] == "restore").collect();
        let [restore] = &restores[..] else { panic!("spike behind step {spike}: {restores:?}") };
        // The spoiled step is the one behind it, the bad one the next.
        assert_eq!((restore["step"].as_u64(), restore["to"].as_u64()), (Some(spike + 2), Some(spike / 4 * 4)), "spike behind step {spike}");
    }
}
#[test]
fn bad_steps_in_a_row_that_are_borne_forever() {
    Device::cpu().unwrap().scoped(|| {
        for (most, ends) in [(2u32, true), (3, false)] {
            manual_seed(2);
            let net = Sequential::new()
                .add(Linear::new(3, 6).unwrap())
                .add(BatchNorm1d::new(6).unwrap())
                .add(Relu::new())
                .add(Dropout::new(0.1).unwrap())
                .add(Linear::new(6, 1).unwrap());
            let x: Vec<f32> = (0..40 * 3).map(|k| if (16 * 3..22 * 3).contains(&k) { f32::INFINITY } else { (k * 7 % 13) as f32 / 13.0 }).collect();
            let y: Vec<f32> = (0..40).map(|k| (k % 5) as f32).collect();
            let data = Arc::new(TensorDataset::new(&[&Tensor::from_vec(x, [40, 3]), &Tensor::from_vec(y, [40, 1])]).unwrap());
            let place = tempfile::tempdir().unwrap();
            let optimizer = Adam::new(0.01).over(net.parameters());
            let fitted = Trainer::new(net, optimizer, |net: &Sequential, b: &Vec<Tensor>| (net.forward(&b[0])? - &b[1]).square().mean(..).ok())
                .stability(NanOptions { max_consecutive: most, ..HandlingType::Replace.into() })
                .schedule(StepLr { step_size: 9, gamma: 0.9 })
                .epochs(2)
                .log_every(7)
                .checkpoints(CheckpointPlan { every: 50, last: 3, best: 0, background: false, warn: false })
                .folder(place.path().join("run"))
                .fit(DataLoader::new(data).batch_size(2).build().unwrap(), &mut ());
            match fitted {
                Err(failure) => {
                    assert!(ends && failure.to_string().starts_with("step 11: +Inf at ["), "{failure}");
                    assert_eq!(checkpoints(&place.path().join("run")).pop().map(|l| (l.0, l.1)), Some((10, true)));
                }
                Ok(fitted) => assert!(!ends && fitted.model.state_dict().iter().all(|(_, t)| t.is_finite_all().unwrap()), "{most}"),
            }
        }
    });
}
#[test]
fn a_wrong_key_of_the_section() {
    let place = tempfile::tempdir().unwrap();
    table(place.path(), None);
    for (set, says) in [
        ("stability.handling_type=skipp", "there is no `skipp`; did you mean `skip`?"),
        ("stability.mode=ful", "there is no `ful`; did you mean `full`?"),
        ("stability.restore_every=0", "restore_every is 0: there would be no state to put back"),
        ("stability.restore_lr_factor=-1", "restore_lr_factor is -1, it must be a positive number"),
        ("stability.inf_replacement=0", "inf_replacement is 0, it must be a positive number"),
        ("stability.wach=true", "unknown key `stability.wach`; did you mean `watch`?"),
        ("stability.max_consecutive=-1", "takes an integer from 0"),
    ] {
        let failure = run(place.path(), "run", &[set]).unwrap_err();
        assert!(failure.exit_code() == 2 && failure.to_string().contains(says), "{failure}");
    }
}
