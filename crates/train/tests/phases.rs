//! Where the time of a training run goes: every kernel of it is in a phase, so that no picture has a stack without a name.
//!
//! One test, for a profiler records the whole process.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{Device, Tensor, profile::Profiler};
use adamant_data::{DataLoader, TensorDataset};
use adamant_nn::{Linear, Module, Sequential, Walk, manual_seed};
use adamant_optim::{AdamW, ClippingOptions, UpdateRule};
use adamant_train::{
    CheckpointPlan, Document, Failure, Run,
    trainer::{Callback, Control, EarlyStopping, Monitor, Trainer},
};
use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

/// The phases that a run entered, and the kernels that ran in none.
fn phases(what: impl FnOnce()) -> (BTreeSet<String>, BTreeSet<String>) {
    let recording = Profiler::new().start().unwrap();
    what();
    let profile = recording.stop();
    let bare = profile.kernels.iter().filter(|k| k.range.is_none());
    (
        profile.kernels.iter().filter_map(|k| k.range.as_deref().map(String::from)).collect(),
        bare.map(|k| format!("{} at {}, layer `{}`", k.name, k.origin.at, k.layer)).collect(),
    )
}
const HEAD: &str = "epochs = 3\nbatch = 7\nlog_every = 2\neval_every = 4\ncheckpoint = { every = 3, last = 2, best = 1 }\n";
/// Everything that computes outside the steps: validation, test, a running mean, the best weights, figures and the report.
fn described(folder: &Path) -> [(&'static str, String); 3] {
    let row = |k: usize| format!("{},{},{},{}\n", k % 7, (k * 31) % 11, (k * 17) % 5, k % 3);
    fs::write(folder.join("table.csv"), (0..80).map(row).collect::<String>()).unwrap();
    let table = |data: &str, out: usize| {
        format!(
            "[data]\nkind = \"csv\"\npath = \"table.csv\"\nvalid = 0.2\ntest = {{ modulo = 5, equals = 0 }}\n{data}\n[model]\nlayers = [\
             {{ kind = \"Linear\", in_features = 3, out_features = 8 }}, {{ kind = \"ReLU\" }}, {{ kind = \"Linear\", in_features = 8, out_features = {out} }}]\n\
             [optimizer]\nkind = \"Adam\"\nlr = 0.01\n"
        )
    };
    let classes = table("label = 3\nclasses = 3\nscale = \"standard\"", 3) + "[ema]\ndecay = 0.9\n[early_stopping]\npatience = 9\nrestore_best = true\n";
    let numbers = table("targets = [3]\ntarget_scale = \"standard\"", 1) + "[early_stopping]\npatience = 9\nrestore_best = true\n";
    let sequences = "[data]\nkind = \"permutation\"\nclasses = 12\nrows = 60\nvalid = 0.2\n[model]\nlayers = [\
                     { kind = \"Embedding\", num_embeddings = 12, embedding_dim = 8 }, { kind = \"Linear\", in_features = 8, out_features = 12 }]\n\
                     [optimizer]\nkind = \"SGD\"\nlr = 0.1\nmomentum = 0.9\n";
    [
        ("classes", format!("accumulate = 2\nclip = {{ kind = \"norm\", max = 0.5 }}\n{HEAD}{classes}")),
        ("numbers", format!("clip = {{ kind = \"value\", max = 0.5 }}\n{HEAD}{numbers}")),
        ("sequences", format!("{HEAD}{sequences}")),
    ]
}
/// Computes where a callback may.
struct Watches;
impl Callback<Sequential> for Watches {
    fn name(&self) -> &str {
        "watches"
    }
    fn on_step_end(&mut self, run: &mut Control<'_, Sequential>) -> Result<(), Failure> {
        let weight = run.model().parameters()[0].detached();
        run.log("norm", weight.square().sum(..).item::<f64>()?);
        Ok(())
    }
}
/// A net of one's own, with its initial values: what comes before the run is not the run's.
fn net() -> Sequential {
    manual_seed(3);
    let net = Sequential::new().add(Linear::new(3, 4).unwrap()).add(Linear::new(4, 1).unwrap());
    net.parameters().iter().for_each(|p| p.detached().materialize().unwrap());
    net
}
/// A loss, a measure and a callback of one's own.
fn own(net: Sequential, folder: &Path, capture: bool) {
    let data = |n: usize| {
        let values = |width: usize| Tensor::from_vec((0..n * width).map(|k| (k * 7 % 13) as f32 / 13.0).collect::<Vec<f32>>(), [n, width]);
        Arc::new(TensorDataset::new(&[&values(3), &values(1)]).unwrap())
    };
    let loader = |n: usize| DataLoader::new(data(n)).batch_size(6).build().unwrap();
    let optimizer = AdamW::new(0.01).over(net.parameters());
    let fitted = Trainer::new(net, optimizer, |net: &Sequential, b: &Vec<Tensor>| (net.forward(&b[0])? - &b[1]).square().mean(..).ok())
        .epochs(2)
        .ema(0.9)
        .accumulate(2)
        .capture(capture)
        .clip(ClippingOptions::global_norm(1.0))
        .log_every(2)
        .valid(loader(13))
        .metric("mae", |net: &Sequential, b| (net.forward(&b[0])? - &b[1]).abs().mean(..).ok())
        .early_stopping(EarlyStopping::new(Monitor::named("valid_mae"), 5))
        .callback(Watches)
        .checkpoints(CheckpointPlan { every: 3, last: 3, best: 1, background: false, warn: false })
        .folder(folder)
        .fit(loader(40), &mut ());
    assert!(fitted.unwrap().valid.unwrap().metrics["mae"].is_finite());
}
#[test]
fn a_kernel_of_a_training_run_that_is_in_no_phase() {
    let place = tempfile::tempdir().unwrap();
    let device = Device::cpu().unwrap();
    let mut all = Vec::new();
    for capture in [true, false] {
        for (name, text) in described(place.path()) {
            let mut document = Document::parse("run.toml", &text).unwrap();
            document.set(&format!("capture={capture}")).unwrap();
            let run = || Run::new(&document).data(place.path()).folder(place.path().join(format!("{name}-{capture}"))).train(&mut ());
            all.push((name, capture, phases(|| drop(device.scoped(run).unwrap()))));
        }
        let net = device.scoped(net);
        all.push(("own", capture, phases(|| device.scoped(|| own(net, &place.path().join(format!("own-{capture}")), capture)))));
    }
    for (name, capture, (entered, bare)) in &all {
        assert!(bare.is_empty(), "{name}, capture {capture}: {bare:#?}");
        let expected = ["backward", "evaluation", "forward", "metrics", "optimizer_step", if *name == "own" { "callback" } else { "loss" }];
        assert!(expected.iter().all(|phase| entered.contains(*phase)), "{name}: {entered:?}");
    }
}
