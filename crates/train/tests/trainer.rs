//! The trainer as a library: a module of one's own with two inputs, killed and resumed, with everything that a run can have.
#![allow(clippy::unwrap_used)]

use adamant_core::{Device, Result, Tensor};
use adamant_data::{BadRecord, DataLoader, Dataset};
use adamant_nn::{Dropout, Linear, Module, Walk, manual_seed};
use adamant_optim::{
    Adam, ClippingOptions, UpdateRule,
    schedule::{Goal, OneCycleLr, ReduceLrOnPlateau},
};
use adamant_train::{
    CheckpointPlan, Failure, Interrupt, Watch,
    trainer::{Callback, Control, EarlyStopping, Fitted, Monitor, Score, Trainer},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

#[derive(Module)]
struct Net {
    left: Linear,
    right: Linear,
    drop: Dropout,
    head: Linear,
}
impl Net {
    fn new() -> Net {
        Net { left: Linear::new(3, 6).unwrap(), right: Linear::new(2, 6).unwrap(), drop: Dropout::new(0.2).unwrap(), head: Linear::new(6, 1).unwrap() }
    }
    fn answer(&self, (left, right, _): &Batch) -> Result<Tensor> {
        self.head.forward(&self.drop.forward(&(self.left.forward(left)? + self.right.forward(right)?).tanh())?)
    }
}
type Batch = (Tensor, Tensor, Tensor);
struct Pairs(usize);
impl Dataset for Pairs {
    type Record = usize;
    type Batch = Batch;
    fn len(&self) -> usize {
        self.0
    }
    fn read(&self, index: usize) -> std::result::Result<usize, BadRecord> {
        Ok(index)
    }
    fn collate(&self, rows: Vec<usize>) -> Result<Batch> {
        let table = |width: usize, of: usize| {
            let values: Vec<f32> = rows.iter().flat_map(|r| (0..width).map(move |c| ((r * 7 + c * 5 + of) % 13) as f32 / 13.0)).collect();
            Tensor::from_vec(values, [rows.len(), width])
        };
        Ok((table(3, 0), table(2, 1), table(1, 2)))
    }
}
/// Counts what it saw, changes the rate of the optimizer's second moment, and keeps what it remembers.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<Vec<String>>>, u64);
impl Callback<Net> for Counts {
    fn name(&self) -> &str {
        "counts"
    }
    fn on_train_begin(&mut self, _: &mut Control<'_, Net>) -> std::result::Result<(), Failure> {
        self.0.lock().unwrap().push("begin".into());
        Ok(())
    }
    fn on_step_end(&mut self, run: &mut Control<'_, Net>) -> std::result::Result<(), Failure> {
        self.1 += 1;
        let mut numbers = run.optimizer().hyperparameters();
        numbers[0].insert("weight_decay".into(), self.1 as f64 * 1e-3);
        run.optimizer().set_hyperparameters(&numbers)?;
        Ok(())
    }
    fn on_epoch_end(&mut self, run: &mut Control<'_, Net>, loss: f64) -> std::result::Result<(), Failure> {
        run.log("steps_seen", self.1 as f64);
        assert!(loss.is_finite() && run.loss()?.is_finite() && run.model().parameter_count() == 49);
        self.0.lock().unwrap().push(format!("epoch {}", run.position().step));
        Ok(())
    }
    fn on_validation_end(&mut self, run: &mut Control<'_, Net>, score: &Score) -> std::result::Result<(), Failure> {
        assert!(score.metrics["mae"].is_finite());
        self.0.lock().unwrap().push(format!("valid {}", run.position().step));
        Ok(())
    }
    fn on_checkpoint(&mut self, run: &mut Control<'_, Net>) -> std::result::Result<(), Failure> {
        self.0.lock().unwrap().push(format!("checkpoint {}", run.position().step));
        Ok(())
    }
    fn on_train_end(&mut self, _: &mut Control<'_, Net>) -> std::result::Result<(), Failure> {
        self.0.lock().unwrap().push("end".into());
        Ok(())
    }
    fn state(&self) -> Value {
        json!(self.1)
    }
    fn restore(&mut self, state: &Value) -> std::result::Result<(), Failure> {
        self.1 = state.as_u64().unwrap();
        Ok(())
    }
}
struct StopAt(u64, Interrupt);
impl Watch for StopAt {
    fn step(&mut self, step: u64) {
        if step == self.0 {
            self.1.ask(2);
        }
    }
}
#[derive(Clone, Copy)]
enum Pace {
    Cycle,
    Plateau,
}
fn fit(folder: &Path, pace: Pace, seed: u64, stop: Option<u64>, patience: u64, counts: Counts) -> std::result::Result<Fitted<Net>, Failure> {
    Device::reference().scoped(|| {
        manual_seed(seed);
        let net = Net::new();
        let optimizer = Adam::new(0.05).over(net.parameters());
        let mae = |net: &Net, batch: &Batch| (net.answer(batch)? - &batch.2).abs().mean(..).ok();
        let mut stopping = EarlyStopping::new(Monitor::named("valid_mae"), patience);
        stopping.restore_best = true;
        if patience == 0 {
            stopping.min_delta = 0.02;
        }
        let trainer = Trainer::new(net, optimizer, |net: &Net, batch: &Batch| (net.answer(batch)? - &batch.2).square().mean(..).ok())
            .epochs(8)
            .clip(ClippingOptions::global_norm(1.0))
            .accumulate(2)
            .ema(0.7)
            .log_every(1)
            .valid(DataLoader::new(Arc::new(Pairs(11))).batch_size(4).build()?)
            .metric("mae", mae)
            .early_stopping(stopping)
            .callback(counts)
            .checkpoints(CheckpointPlan { every: 3, last: 2, best: 1, background: true, warn: false })
            .note("width", 6)
            .folder(folder)
            .resume(true);
        let trainer = match pace {
            Pace::Cycle => trainer.schedule(OneCycleLr::new(0.05, 24)),
            Pace::Plateau => {
                let mut rule = ReduceLrOnPlateau::new(Goal::Min);
                rule.patience = 0;
                trainer.reduce_on_plateau(rule, Monitor::TrainLoss)
            }
        };
        let interrupt = Interrupt::new();
        let loader = DataLoader::new(Arc::new(Pairs(50))).batch_size(10).shuffle(3).workers(2).build()?;
        match stop {
            Some(step) => trainer.interrupt(interrupt.clone()).fit(loader, &mut StopAt(step, interrupt)),
            None => trainer.fit(loader, &mut ()),
        }
    })
}
#[test]
fn a_module_of_ones_own_that_goes_on_otherwise_than_it_would_have() {
    let place = tempfile::tempdir().unwrap();
    for (k, pace) in [Pace::Cycle, Pace::Plateau].into_iter().enumerate() {
        let (whole, run) = (place.path().join(format!("whole-{k}")), place.path().join(format!("run-{k}")));
        let undisturbed = fit(&whole, pace, 1, None, 50, Counts::default()).unwrap();
        for stop in [1, 5, 6, 13, 20] {
            let failure = fit(&run, pace, stop, Some(stop), 50, Counts::default()).err().unwrap();
            assert!(matches!(failure, Failure::Interrupted { signal: 2, step, checkpoint: Some(_) } if step == stop), "{failure}");
            if stop == 1 {
                // The first start decides the initial values.
                fs::remove_dir_all(&run).unwrap();
                fit(&run, pace, 1, Some(2), 50, Counts::default()).err().unwrap();
            }
        }
        let resumed = fit(&run, pace, 9, None, 50, Counts::default()).unwrap();
        assert_eq!((resumed.resumed, &resumed.losses, &resumed.valid), (Some(20), &undisturbed.losses, &undisturbed.valid));
        for name in ["weights.safetensors", "metrics.jsonl", "config.toml"] {
            assert!(fs::read(run.join(name)).unwrap() == fs::read(whole.join(name)).unwrap(), "{name}");
        }
        for name in ["result.json", "timing.jsonl", "report.html", "environment.json"] {
            assert!(run.join(name).exists(), "{name}");
        }
    }
}
#[test]
fn a_run_that_ends_early_and_not_with_its_best_weights_or_not_again() {
    let place = tempfile::tempdir().unwrap();
    let fitted = fit(place.path(), Pace::Cycle, 1, None, 0, Counts::default()).unwrap();
    let reason = fitted.stopped.unwrap();
    assert!(reason.starts_with("valid_mae has not improved for 1 validations: best "), "{reason}");
    let lines = fs::read_to_string(place.path().join("metrics.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let measures: Vec<f64> = lines.iter().filter(|l| l["kind"] == "epoch").map(|l| l["valid"]["mae"].as_f64().unwrap()).collect();
    assert!(measures.len() < 8, "{measures:?}");
    assert_eq!(lines.iter().filter(|l| l["kind"] == "stop").count(), 1);
    // The weights that are left are those of the best validation.
    let batch = Device::reference().scoped(|| Pairs(11).collate((0..11).collect()).unwrap());
    let left = Device::reference().scoped(|| {
        fitted.model.eval();
        (fitted.model.answer(&batch).unwrap() - &batch.2).abs().mean(..).item::<f64>().unwrap()
    });
    assert!((left - measures[measures.len() - 2]).abs() < 1e-5, "{left} {measures:?}");
    // A start more trains no more.
    let weights = fs::read(place.path().join("weights.safetensors")).unwrap();
    let again = fit(place.path(), Pace::Cycle, 2, None, 0, Counts::default()).unwrap();
    assert_eq!(again.stopped.as_ref(), Some(&reason));
    assert!(fs::read(place.path().join("weights.safetensors")).unwrap() == weights);
}
#[test]
fn a_callback_that_is_not_called_where_it_should_be() {
    let place = tempfile::tempdir().unwrap();
    let counts = Counts::default();
    fit(place.path(), Pace::Cycle, 1, None, 50, counts.clone()).unwrap();
    let seen = counts.0.lock().unwrap().clone();
    // 50 rows: 5 batches, 3 steps in an epoch. Checkpoints each half of three steps.
    assert_eq!(seen[..7], ["begin", "checkpoint 1", "valid 3", "epoch 3", "checkpoint 3", "checkpoint 4", "valid 6"]);
    assert_eq!(seen[seen.len() - 2..], ["checkpoint 24", "end"]);
    let lines = fs::read_to_string(place.path().join("metrics.jsonl")).unwrap();
    assert!(lines.contains(r#"{"epoch":1,"kind":"own","step":3,"values":{"steps_seen":3.0}}"#), "{lines}");
}
#[test]
fn a_module_of_ones_own_that_goes_on_under_other_numbers() {
    let place = tempfile::tempdir().unwrap();
    fit(place.path(), Pace::Cycle, 1, Some(4), 50, Counts::default()).err().unwrap();
    let other = Device::reference().scoped(|| {
        let net = Net::new();
        let optimizer = Adam::new(0.04).over(net.parameters());
        Trainer::new(net, optimizer, |net: &Net, batch: &Batch| (net.answer(batch)? - &batch.2).square().mean(..).ok())
            .folder(place.path())
            .resume(true)
            .fit(DataLoader::new(Arc::new(Pairs(50))).batch_size(10).shuffle(3).build()?, &mut ())
    });
    let text = other.err().unwrap().to_string();
    assert!(text.contains("began with another description") && text.contains("optimizer.group0.lr") && text.contains("notes.width"), "{text}");
}
