//! A run whose steps are captured is the run op by op: the same files, to the byte; where it cannot be, it says so.
#![allow(clippy::unwrap_used)]

mod schedules;

use adamant_backend_cpu as _;
use adamant_core::{Device, Result, Tensor};
use adamant_data::{DataLoader, TensorDataset};
use adamant_nn::{Linear, Module, Sequential, Walk, manual_seed};
use adamant_optim::{AdamW, UpdateRule};
use adamant_train::{Document, Habits, Interrupt, Look, OPTIMIZERS, Precision, Run, SCHEDULES, Session, Trainer, Watch, course, optimizer};
use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

#[derive(Default)]
struct Seen {
    warnings: Vec<String>,
    stop: Option<(u64, Interrupt)>,
}
impl Watch for Seen {
    fn warn(&mut self, text: &str) {
        self.warnings.push(text.into());
    }
    fn step(&mut self, step: u64) {
        if let Some((_, interrupt)) = self.stop.as_ref().filter(|(at, _)| *at == step) {
            interrupt.ask(15);
        }
    }
}
fn run(text: &str, set: &[&str], folder: &Path, stop: Option<u64>) -> Vec<String> {
    let mut document = Document::parse("run.toml", text).unwrap();
    set.iter().for_each(|s| document.set(s).unwrap());
    let interrupt = Interrupt::new();
    let mut seen = Seen { stop: stop.map(|at| (at, interrupt.clone())), ..Seen::default() };
    let done = Device::cpu().unwrap().scoped(|| Run::new(&document).folder(folder).resume(true).interrupt(interrupt).train(&mut seen));
    assert_eq!(done.is_err(), stop.is_some(), "{:?}\n{text}", done.err());
    seen.warnings
}
#[test]
fn a_run_that_ends_in_other_bits_than_op_by_op() {
    let place = tempfile::tempdir().unwrap();
    // As many that every schedule and every optimizer comes.
    for k in 0..OPTIMIZERS.len().max(SCHEDULES.len()) {
        let text = schedules::drawn_run(k);
        let at = |name: &str| place.path().join(format!("{k}-{name}"));
        let warnings = run(&text, &[], &at("whole"), None);
        assert!(warnings.iter().all(|w| !w.contains("op by op")), "{warnings:?}\n{text}");
        run(&text, &["capture=false"], &at("plain"), None);
        // Stopped twice; once it goes on the other way.
        run(&text, &[], &at("stopped"), Some(2));
        run(&text, &["capture=false"], &at("stopped"), Some(5));
        run(&text, &[], &at("stopped"), None);
        for name in ["weights.safetensors", "metrics.jsonl"] {
            let [whole, plain, stopped] = ["whole", "plain", "stopped"].map(|run| fs::read(at(run).join(name)).unwrap());
            assert!(whole == plain, "{name} of\n{text}");
            assert!(whole == stopped, "{name}, stopped, of\n{text}");
        }
        let told = |name: &str| fs::read_to_string(at(name).join("timing.jsonl")).unwrap().contains("op_by_op");
        assert_eq!((told("whole"), told("plain")), (false, true));
    }
}

type Pairs = Session<Sequential, (Tensor, Tensor)>;
fn session(kind: &str, capture: bool) -> Pairs {
    let document = Document::parse("run.toml", &format!("[optimizer]\nkind = \"{kind}\"\nlr = 0.01\n")).unwrap();
    let root = document.root().unwrap();
    manual_seed(2);
    let model = Sequential::new().add(Linear::new(3, 4).unwrap()).add(Linear::new(4, 2).unwrap());
    let optimizer = optimizer(root.section("optimizer").unwrap().unwrap(), model.parameters()).unwrap();
    let habits = Habits {
        optimizer,
        course: course(&root, 20, false).unwrap(),
        clip: None,
        stability: None,
        accumulate: 1,
        ema: None,
        capture,
        precision: Precision::default(),
    };
    let loss = |m: &Sequential, (x, y): &(Tensor, Tensor)| (m.forward(x)? - y).square().mean(..).ok();
    Session::new(model, Arc::new(loss), habits, Device::current().unwrap()).unwrap()
}
fn pair(k: usize) -> (Tensor, Tensor) {
    let values = |n: usize, of: usize| (0..n).map(|i| ((i * 7 + k * 3 + of) % 11) as f32 / 5.0 - 1.0).collect::<Vec<f32>>();
    (Tensor::from_vec(values(15, 0), [5, 3]), Tensor::from_vec(values(10, 4), [5, 2]))
}
#[test]
fn a_number_of_a_rule_that_a_captured_step_does_not_ask_for() {
    let (mut changed, mut structures) = (0, Vec::new());
    Device::cpu().unwrap().scoped(|| {
        for kind in OPTIMIZERS {
            let names: Vec<String> = session(kind, true).optimizer().hyperparameters()[0].keys().cloned().collect();
            for name in names {
                let run = |capture: bool| {
                    let mut session = session(kind, capture);
                    let mut losses = Vec::new();
                    for k in 0..9 {
                        if k == 3 || k == 6 {
                            let mut numbers = session.optimizer_mut().hyperparameters();
                            let value = numbers[0].get_mut(&name).unwrap();
                            // From nothing to something, and on; others stay where they make sense.
                            *value = if *value == 0.0 { 0.05 } else { *value * 0.97 };
                            if name == "t0" {
                                *value = 2.0;
                            }
                            session.optimizer_mut().set_hyperparameters(&numbers).unwrap();
                        }
                        session.step(&[pair(k)], Look::default()).unwrap();
                        losses.push(session.loss().unwrap().to_bits());
                    }
                    assert_eq!(session.op_by_op().is_none(), capture, "{:?}", session.op_by_op());
                    let state = session.snapshot(serde_json::Value::Null).unwrap();
                    let tensors = state.tensors.values().flatten().map(|(name, t)| (name.clone(), t.to_bytes().unwrap())).collect::<Vec<_>>();
                    structures.push(session.captures().structures);
                    (losses, tensors, state.state.to_string())
                };
                let mut run = run;
                assert!(run(true) == run(false), "{kind}: {name} changes, and a captured step goes on with what it was");
                changed += 1;
            }
        }
    });
    assert!(changed > 60, "{changed}");
    // A number that was nothing and becomes something is another formula; else nothing is captured anew.
    assert!(structures.iter().all(|n| *n <= 2), "{structures:?}");
}

/// Lines of numbers, and twice their sums.
fn lines() -> DataLoader<TensorDataset> {
    let x: Vec<f32> = (0..60).map(|k| ((k * 7) % 13) as f32 / 6.0 - 1.0).collect();
    let y: Vec<f32> = x.chunks(3).map(|row| 2.0 * row.iter().sum::<f32>()).collect();
    let data = TensorDataset::new(&[&Tensor::from_vec(x, [20, 3]), &Tensor::from_vec(y, [20, 1])]).unwrap();
    DataLoader::new(Arc::new(data)).batch_size(6).build().unwrap()
}
fn fit(capture: bool, loss: impl Fn(&Linear, &Vec<Tensor>) -> Result<Tensor> + Send + Sync + 'static) -> (Vec<u8>, Vec<String>) {
    manual_seed(3);
    let model = Linear::new(3, 1).unwrap();
    let optimizer = AdamW::new(0.05).over(model.parameters());
    let mut seen = Seen::default();
    let fitted = Trainer::new(model, optimizer, loss).epochs(4).capture(capture).fit(lines(), &mut seen).unwrap();
    (fitted.model.weight.detached().to_bytes().unwrap(), seen.warnings)
}
#[test]
fn a_loss_that_reads_a_number_that_changes_or_a_value() {
    Device::cpu().unwrap().scoped(|| {
        let square = |m: &Linear, b: &Vec<Tensor>| (m.forward(&b[0])? - &b[1]).square().mean(..).ok();
        assert_eq!(fit(true, square), (fit(false, square).0, Vec::new()));
        let counting = || {
            let calls = AtomicU32::new(0);
            move |m: &Linear, b: &Vec<Tensor>| {
                let scale = f64::from(1 + calls.fetch_add(1, Relaxed) % 3);
                ((m.forward(&b[0])? - &b[1]).square() * scale).mean(..).ok()
            }
        };
        let (_, warnings) = fit(true, counting());
        assert!(warnings.iter().any(|w| w.contains("op by op from step 2 on") && w.contains("captured.rs:")), "{warnings:?}");
        let reading = |m: &Linear, b: &Vec<Tensor>| {
            let loss = (m.forward(&b[0])? - &b[1]).square().mean(..).ok()?;
            let scale = if loss.item::<f32>()? > 1.0 { 0.5 } else { 1.0 };
            (loss * scale).ok()
        };
        let (weights, warnings) = fit(true, reading);
        assert!(warnings.iter().any(|w| w.contains("op by op from step 1 on") && w.contains("captured.rs:")), "{warnings:?}");
        assert_eq!(weights, fit(false, reading).0);
    });
}
