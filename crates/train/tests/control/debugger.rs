//! A run that somebody debugs: it stops where it was told to, who looks changes no bit, and a value that is set has the bits of a program with
//! that change, also in a run that goes on behind a kill.
use super::{AtSteps, How, Raw, copy, cut, document, lines, same, train};
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_conformance::random::Random;
use adamant_core::{Device, Result as Computed, Tensor, grad::tap};
use adamant_data::{BadRecord, DataLoader, Dataset};
use adamant_nn::{BatchNorm1d, Linear, Module, Walk};
use adamant_optim::{AdamW, UpdateRule};
use adamant_train::{
    Failure, Interrupt, Run, Watch,
    control::SOCKET,
    trainer::{Callback, Control, Trainer},
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

/// Somebody who debugs.
struct Dialog {
    raw: Raw,
    /// asks for the status
    second: Raw,
    folder: PathBuf,
    stops: Vec<Value>,
}
impl Dialog {
    fn ask(&mut self, request: Value) -> Value {
        self.raw.write(format!("{request}\n").as_bytes());
        self.raw.answer()
    }
    fn done(&mut self, request: Value) -> Value {
        let answer = self.ask(request.clone());
        assert_eq!(answer["ok"], true, "{request}: {answer}");
        answer
    }
    fn refused(&mut self, request: Value) -> String {
        let answer = self.ask(request.clone());
        assert_eq!(answer["ok"], false, "{request}: {answer}");
        answer["error"].as_str().unwrap().to_string()
    }
    /// Waits until it has stopped; none: the run is over.
    fn stop(&mut self) -> Option<Value> {
        loop {
            self.second.write(b"{\"do\": \"status\"}\n");
            let status = self.second.try_answer()?;
            match status["state"].as_str() {
                Some("stopped") => break,
                Some("ending") => return None,
                _ => {}
            }
        }
        let at = self.done(json!({ "do": "where" }));
        assert_eq!(at["stopped"], true, "{at}");
        self.stops.push(at.clone());
        Some(at)
    }
    fn next(&mut self, of: &str) -> Option<Value> {
        self.done(json!({ "do": "next", "of": of }));
        self.stop()
    }
    fn go_on(&mut self) {
        self.done(json!({ "do": "continue" }));
    }
}
type Script = Box<dyn FnOnce(&mut Dialog) + Send>;
/// Begins a script behind a step, with its first request handed in; gives the thread, which is joined when the run is over.
struct Debugs {
    folder: PathBuf,
    at: u64,
    first: Value,
    script: Option<Script>,
    talks: Option<JoinHandle<Vec<Value>>>,
    warnings: Vec<String>,
}
impl Debugs {
    fn new(folder: &Path, at: u64, first: Value, script: impl FnOnce(&mut Dialog) + Send + 'static) -> Debugs {
        Debugs { folder: folder.to_path_buf(), at, first, script: Some(Box::new(script)), talks: None, warnings: Vec::new() }
    }
    fn stops(self) -> Vec<Value> {
        self.talks.unwrap().join().unwrap()
    }
}
impl Watch for Debugs {
    fn step(&mut self, step: u64) {
        if step == self.at {
            let mut dialog = Dialog {
                raw: Raw::hand_in(&self.folder, &self.first.to_string()),
                second: Raw::to(&self.folder),
                folder: self.folder.clone(),
                stops: Vec::new(),
            };
            let script = self.script.take().unwrap();
            self.talks = Some(std::thread::spawn(move || {
                assert_eq!(dialog.raw.answer()["ok"], true);
                script(&mut dialog);
                dialog.stops
            }));
        }
    }
    fn warn(&mut self, text: &str) {
        self.warnings.push(text.into());
    }
}
fn cpu() -> Device {
    Context::new(CpuBackend::builder().threads(1)).unwrap().device()
}

#[test]
fn who_only_looks_and_changes_a_bit() {
    let place = tempfile::tempdir().unwrap();
    let variants: [&[&str]; 7] = [
        &[],
        &["precision.mode=bf16", "clip={ kind = \"global_norm\", max_norm = 0.5 }"],
        &["precision.mode=f16", "accumulate=2"],
        &["stability.handling_type=restore", "stability.restore_every=4", "stability.look_every=3"],
        &["optimizer.kind=Lion", "clip={ kind = \"zclip\" }"],
        &[
            "model.layers=[{ kind = \"Embedding\", num_embeddings = 12, embedding_dim = 8 }, { kind = \"LSTM\", input_size = 8, hidden_size = 6, batch_first = true }, { kind = \"Linear\", in_features = 6, out_features = 12 }]",
        ],
        &[
            "model.layers=[{ kind = \"Embedding\", num_embeddings = 12, embedding_dim = 8 }, { kind = \"TransformerEncoderLayer\", d_model = 8, nhead = 2, dim_feedforward = 16 }, { kind = \"Linear\", in_features = 8, out_features = 12 }]",
        ],
    ];
    for (k, set) in variants.into_iter().enumerate() {
        let at = |name: &str| place.path().join(format!("{name}-{k}"));
        let how = || How { set, ..How::default() };
        train(&at("plain"), &mut (), how()).unwrap_or_else(|e| unreachable!("{set:?}: {e}"));
        let at_all = k % 3 == 0;
        let script = move |dialog: &mut Dialog| {
            // A whole step op by op, each value of each op looked at.
            let first = dialog.stop().unwrap();
            assert_eq!((first["step"].as_u64(), first["in_step"].as_u64()), (Some(2), None), "{first}");
            let mut ops = 0;
            while let Some(at) = dialog.next("op").filter(|at| at["in_step"] == 3) {
                ops += 1;
                // All that there is at some, what belongs to the op at others.
                let all = at["values"].as_array().unwrap();
                let count = if ops == 5 {
                    all.len()
                } else if ops % 4 == 0 {
                    2
                } else {
                    0
                };
                for value in all.iter().take(count) {
                    let name = value["name"].as_str().unwrap();
                    let figures = dialog.done(json!({ "do": "look", "of": name }));
                    assert_eq!(figures["shape"], value["shape"], "{name} of {at}");
                }
                if ops % 4 == 1 {
                    let slice = dialog.ask(json!({ "do": "slice", "of": at["values"][0]["name"], "at": "" }));
                    assert!(slice["ok"] == true || slice["error"].as_str().is_some_and(|e| e.contains("at most")), "{slice}");
                }
            }
            assert!(ops > 10, "{ops}");
            dialog.done(json!({ "do": "break", "when": "absmax > 2", "step": 7 }));
            if at_all {
                dialog.done(json!({ "do": "break", "layer": "*", "step": 9 }));
            }
            dialog.done(json!({ "do": "break", "phase": "backward", "op": if at_all { "*" } else { "linear" }, "step": 9 }));
            loop {
                dialog.go_on();
                if dialog.stop().is_none() {
                    break;
                }
            }
        };
        let mut debugs = Debugs::new(&at("debugged"), 2, json!({ "do": "break", "step": 3 }), script);
        train(&at("debugged"), &mut debugs, how()).unwrap();
        let stops = debugs.stops();
        assert!(stops.iter().any(|s| s["in_step"] == 9 && s["shows"] == "gradients" && s["phase"] == "backward"), "{set:?}");
        same(&at("debugged"), &at("plain"), &format!("{set:?}"));
        assert!(!at("debugged").join("control.jsonl").exists());
    }
}
/// A run of a drawn net, optimizer, precision, policy and clipping, as keys of a description.
fn drawn(random: &mut Random) -> Vec<String> {
    const NETS: [&str; 4] = [
        "{ kind = \"GRU\", input_size = 8, hidden_size = 5, batch_first = true }, { kind = \"Linear\", in_features = 5, out_features = 12 }",
        "{ kind = \"LayerNorm\", normalized_shape = [8] }, { kind = \"GELU\" }, { kind = \"Linear\", in_features = 8, out_features = 12 }",
        "{ kind = \"Linear\", in_features = 8, out_features = 10 }, { kind = \"PReLU\" }, { kind = \"Dropout\", p = 0.3 }, { kind = \"RMSNorm\", normalized_shape = [10] }, { kind = \"Linear\", in_features = 10, out_features = 12 }",
        "{ kind = \"TransformerEncoderLayer\", d_model = 8, nhead = 4, dim_feedforward = 12 }, { kind = \"Tanh\" }, { kind = \"Linear\", in_features = 8, out_features = 12 }",
    ];
    let mut keys = vec![
        format!("seed={}", random.below(1000)),
        format!("model.layers=[{{ kind = \"Embedding\", num_embeddings = 12, embedding_dim = 8 }}, {}]", random.pick(&NETS)),
        format!("optimizer.kind={}", random.pick(&["SGD", "AdamW", "RMSprop", "Lion", "Adagrad", "NAdam"])),
    ];
    let mut maybe = |odds: usize, key: &str, values: &[&str]| {
        let value = random.pick(values).to_string();
        if random.one_in(odds) {
            keys.push(format!("{key}={value}"));
        }
    };
    maybe(2, "precision.mode", &["bf16", "f16"]);
    maybe(2, "clip.kind", &["global_norm", "agc", "percentile", "adaptive", "exponential", "zclip"]);
    maybe(2, "accumulate", &["2", "3"]);
    maybe(3, "ema.decay", &["0.8"]);
    maybe(2, "stability.handling_type", &["skip", "detect", "replace", "restore"]);
    maybe(2, "stability.mode", &["full"]);
    maybe(3, "stability.look_every", &["1", "2"]);
    maybe(3, "schedule", &["{ kind = \"OneCycleLR\", max_lr = 0.02 }"]);
    keys
}
#[test]
fn who_looks_into_a_drawn_run_and_changes_a_bit() {
    let place = tempfile::tempdir().unwrap();
    let mut stops = 0;
    for seed in 0..10 {
        let mut random = Random::new(seed ^ 0x6465_6275);
        let keys = drawn(&mut random);
        let set: Vec<&str> = keys.iter().map(String::as_str).collect();
        let at = |name: &str| place.path().join(format!("{name}-{seed}"));
        train(&at("plain"), &mut (), How { set: &set, ..How::default() }).unwrap_or_else(|e| unreachable!("{set:?}: {e}"));
        let mut breakpoint = json!({ "do": "break", "step": random.between(1, 5) });
        let (key, value) =
            *random.pick(&[("op", "*"), ("layer", "*"), ("when", "absmax > 1"), ("phase", "backward"), ("phase", "optimizer"), ("when", "zeros > 0.2")]);
        breakpoint[key] = value.into();
        let moves: Vec<usize> = (0..random.between(3, 12)).map(|_| random.below(4)).collect();
        let script = move |dialog: &mut Dialog| {
            for step in moves {
                let Some(seen) = dialog.stop() else { return };
                for value in seen["values"].as_array().into_iter().flatten().take(step) {
                    dialog.ask(json!({ "do": "look", "of": value["name"] }));
                }
                match step {
                    0 => dialog.go_on(),
                    1 => drop(dialog.done(json!({ "do": "next", "of": "layer" }))),
                    _ => drop(dialog.done(json!({ "do": "next", "of": "op" }))),
                }
            }
        };
        // It waits before its first step.
        let folder = at("debugged");
        let talks = std::thread::spawn(move || {
            while UnixStream::connect(folder.join(SOCKET)).is_err() {
                std::thread::yield_now();
            }
            let mut dialog = Dialog { raw: Raw::to(&folder), second: Raw::to(&folder), folder, stops: Vec::new() };
            dialog.done(breakpoint);
            dialog.go_on();
            script(&mut dialog);
            dialog.stops.len()
        });
        let document = document(&set);
        let run = Run::new(&document).folder(&at("debugged")).begin_paused(true).control(true);
        Device::reference().scoped(|| run.train(&mut ())).unwrap_or_else(|e| unreachable!("{set:?}: {e}"));
        stops += talks.join().unwrap();
        same(&at("debugged"), &at("plain"), &format!("{set:?}"));
    }
    assert!(stops > 30, "{stops}");
}
#[test]
fn a_breakpoint_that_is_passed_over_or_met_elsewhere() {
    let place = tempfile::tempdir().unwrap();
    // Each kind of breakpoint from step 2 on, and where the run is to stop: step, phase, op, layer.
    let linear = |step: u64| (step, "forward", "linear", "head");
    // Twice: the gradient of what it gave, and those of its parameters.
    let back = |step: u64| (step, "backward", "linear", "head");
    let cases: Vec<(Value, Vec<(u64, &str, &str, &str)>)> = vec![
        (json!({ "step": 5 }), vec![(5, "", "", "")]),
        (json!({ "layer": "head" }), vec![linear(3), linear(4), linear(5)]),
        (json!({ "layer": "head", "step": 4 }), vec![linear(4)]),
        (json!({ "op": "linear" }), vec![linear(3), linear(4)]),
        (json!({ "op": "lin*", "phase": "backward" }), vec![back(3), back(3), back(4), back(4)]),
        (json!({ "op": "linear", "phase": "optimizer", "step": 4 }), vec![]),
        (json!({ "op": "linear", "when": "absmax > 1e9" }), vec![]),
        (json!({ "op": "linear", "when": "absmax > 0", "step": 6 }), vec![linear(6), back(6), back(6)]),
        (json!({ "when": "nonfinite" }), vec![]),
    ];
    for (k, (breakpoint, stops)) in cases.into_iter().enumerate() {
        let folder = place.path().join(k.to_string());
        let mut request = breakpoint.clone();
        request["do"] = "break".into();
        let wanted = stops.clone();
        let script = move |dialog: &mut Dialog| {
            for (step, phase, op, layer) in wanted {
                let at = dialog.stop().unwrap();
                let text = |key: &str| at[key].as_str().unwrap_or_default().to_string();
                let found = (at["step"].as_u64().unwrap() + 1, text("phase"), text("op"), text("layer"));
                assert_eq!(found, (step, phase.to_string(), op.to_string(), layer.to_string()), "{at}");
                assert_eq!(at["breakpoint"], 1);
                dialog.go_on();
            }
            if breakpoint.get("step").is_some() || breakpoint.get("when").is_some() {
                // Nowhere else.
                assert_eq!(dialog.stop(), None);
            } else {
                dialog.done(json!({ "do": "unbreak" }));
                dialog.ask(json!({ "do": "continue" }));
                assert_eq!(dialog.stop(), None);
            }
        };
        let mut debugs = Debugs::new(&folder, 2, request, script);
        train(&folder, &mut debugs, How { set: &["epochs=1"], ..How::default() }).unwrap();
        debugs.stops();
    }
}
#[test]
fn what_is_refused_and_what_is_put_off() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let script = |dialog: &mut Dialog| {
        dialog.stop().unwrap();
        for (request, says) in [
            (json!({ "do": "look", "of": "head.wieght" }), "is it `head.weight`?"),
            (json!({ "do": "slice", "of": "head.weight", "at": "99" }), "no element 99 on axis 0, which has 12"),
            (json!({ "do": "slice", "of": "head.weight", "at": "0, 0, 0" }), "names 3 axes"),
            (json!({ "do": "set", "of": "head.weight", "at": "0", "value": 1 }), "`out.K` can; parameters are set between two steps"),
            (json!({ "do": "set", "of": "out.0", "at": "1000000", "value": 1 }), "no element 1000000"),
            (json!({ "do": "set", "of": "out.7", "at": "0", "value": 1 }), "there is no value `out.7`"),
            (json!({ "do": "unbreak", "breakpoint": 9 }), "there is no breakpoint 9"),
        ] {
            let why = dialog.refused(request.clone());
            assert!(why.contains(says), "{request}: {why}");
        }
        let all = dialog.done(json!({ "do": "slice", "of": "head.weight", "at": ":2, -1" }));
        assert_eq!((&all["shape"], all["values"].as_array().unwrap().len()), (&json!([2, 1]), 2));
        // About the run as a whole: behind the step.
        let later = Raw::hand_in(&dialog.folder, "{\"do\": \"checkpoint\"}");
        dialog.done(json!({ "do": "unbreak" }));
        for _ in 0..100 {
            dialog.done(json!({ "do": "break", "step": 1000 }));
        }
        assert!(dialog.refused(json!({ "do": "break", "step": 1000 })).contains("there are 100 breakpoints"));
        dialog.go_on();
        let mut later = later;
        let answer = later.answer();
        assert!(answer["ok"] == true && answer["step"] == 4, "{answer}");
    };
    let mut debugs = Debugs::new(&folder, 3, json!({ "do": "break", "op": "linear" }), script);
    train(&folder, &mut debugs, How::default()).unwrap();
    debugs.stops();
}
#[test]
fn a_run_that_waits_for_somebody_who_has_left() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    train(&at("plain"), &mut (), How::default()).unwrap();
    for (name, first) in
        [("between", json!({ "do": "break", "step": 6 })), ("within", json!({ "do": "break", "op": "linear" })), ("next", json!({ "do": "next", "of": "op" }))]
    {
        let mut debugs = Debugs::new(&at(name), 3, first, |dialog| drop(dialog.stop().unwrap()));
        // The thread ends while the run is stopped, and its connection with it.
        train(&at(name), &mut debugs, How::default()).unwrap();
        debugs.stops();
        same(&at(name), &at("plain"), name);
    }
    // A signal, and a request to end, reach a run that is stopped in a step; it goes on from there to the same bits.
    for (name, signal) in [("signal", Some(2)), ("stop", None)] {
        let interrupt = Interrupt::new();
        let asks = interrupt.clone();
        let script = move |dialog: &mut Dialog| {
            dialog.stop().unwrap();
            match signal {
                Some(signal) => asks.ask(signal),
                None => drop(Raw::hand_in(&dialog.folder, "{\"do\": \"stop\"}")),
            }
            while dialog.folder.join(SOCKET).exists() {
                std::thread::yield_now();
            }
        };
        let mut debugs = Debugs::new(&at(name), 3, json!({ "do": "break", "op": "linear" }), script);
        let failure = train(&at(name), &mut debugs, How { interrupt, ..How::default() }).unwrap_err();
        assert!(matches!(&failure, Failure::Interrupted { step: 4, checkpoint: Some(_), .. }), "{failure}");
        debugs.stops();
        train(&at(name), &mut (), How { resume: true, ..How::default() }).unwrap();
        same(&at(name), &at("plain"), name);
    }
}
/// Sets a parameter, a slot, results and gradients, in steps 10, 18 and 19.
fn sets(dialog: &mut Dialog) {
    let set = |dialog: &mut Dialog, of: &str, at: &str, value: Value| dialog.done(json!({ "do": "set", "of": of, "at": at, "value": value }));
    dialog.stop().unwrap();
    assert_eq!(set(dialog, "head.weight", "0:2, 1", json!(0.25))["elements"], 2);
    set(dialog, "optimizer.head.bias.exp_avg_sq", ":", json!(4));
    assert_eq!(dialog.done(json!({ "do": "slice", "of": "optimizer.head.bias.exp_avg_sq", "at": "3" }))["values"], json!([4.0]));
    dialog.done(json!({ "do": "break", "op": "linear", "step": 18 }));
    dialog.done(json!({ "do": "break", "op": "linear", "phase": "backward", "step": 19 }));
    dialog.go_on();
    dialog.stop().unwrap();
    set(dialog, "out.0", "0", json!(1.5));
    set(dialog, "out.0", "-1, :3", json!(-2));
    assert_eq!(dialog.done(json!({ "do": "slice", "of": "out.0", "at": "0, :2" }))["values"][0], json!(1.5));
    dialog.go_on();
    let at = dialog.stop().unwrap();
    let gradient = at["values"].as_array().unwrap().iter().find(|v| v["name"].as_str().is_some_and(|n| n.starts_with("grad."))).unwrap();
    set(dialog, gradient["name"].as_str().unwrap(), "0", json!(0.125));
    dialog.go_on();
}
#[test]
fn a_value_that_was_set_and_is_forgotten_by_a_resumed_run() {
    let place = tempfile::tempdir().unwrap();
    for (k, set) in [&[][..], &["precision.mode=bf16"], &["stability.handling_type=restore", "stability.restore_every=4"]].into_iter().enumerate() {
        let at = |name: &str| place.path().join(format!("{name}-{k}"));
        let how = || How { set, ..How::default() };
        train(&at("plain"), &mut (), how()).unwrap();
        let mut debugs = Debugs::new(&at("whole"), 8, json!({ "do": "break", "step": 10 }), sets);
        train(&at("whole"), &mut debugs, how()).unwrap();
        debugs.stops();
        let journal = fs::read_to_string(at("whole").join("control.jsonl")).unwrap();
        assert_eq!((journal.lines().count(), lines(&at("whole"), "control").len()), (5, 2), "{journal}");
        assert!(fs::read(at("whole").join("weights.safetensors")).unwrap() != fs::read(at("plain").join("weights.safetensors")).unwrap());
        for keep in [0, 8, 16, 24] {
            let run = at(&format!("killed-{keep}"));
            copy(&at("whole"), &run);
            cut(&run, keep);
            ["weights.safetensors", "result.json", "evaluation.json"].iter().for_each(|name| fs::remove_file(run.join(name)).unwrap());
            let mut watch = AtSteps::new(&run, |_, _| {});
            train(&run, &mut watch, How { resume: true, ..how() }).unwrap();
            same(&run, &at("whole"), &format!("from step {keep}, {set:?}"));
            assert!(!watch.warnings.iter().any(|w| w.contains("another run")), "{:?}", watch.warnings);
            assert_eq!(fs::read_to_string(run.join("control.jsonl")).unwrap(), journal);
        }
    }
}

/// A program of its own: two layers and a norm between them.
#[derive(Module)]
struct Net {
    first: Linear,
    norm: BatchNorm1d,
    last: Linear,
}
struct Rows;
impl Dataset for Rows {
    type Record = usize;
    type Batch = (Tensor, Tensor);
    fn len(&self) -> usize {
        48
    }
    fn read(&self, index: usize) -> Result<usize, BadRecord> {
        Ok(index)
    }
    fn collate(&self, rows: Vec<usize>) -> Computed<(Tensor, Tensor)> {
        let of = |width: usize| rows.iter().flat_map(|r| (0..width).map(move |c| ((r * 13 + c * 7) % 17) as f32 / 9.0 - 1.0)).collect::<Vec<f32>>();
        Ok((Tensor::from_vec(of(5), [rows.len(), 5]), Tensor::from_vec(of(2), [rows.len(), 2])))
    }
}
/// What is changed in the program.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Change {
    Nothing,
    Result,
    Gradient,
    Weight,
    Statistic,
}
/// The step in which something is changed.
const CHANGED: u64 = 7;
fn replaced(x: &Tensor, row: usize, to: f64) -> Computed<Tensor> {
    let shape = x.shape()?;
    let width = shape[1];
    let mask = (0..shape[0] * width).map(|k| k / width == row).collect::<Vec<bool>>();
    Ok(x.masked_fill(&Tensor::from_vec_on(mask, [shape[0], width], x.device()?), to))
}
struct Sets(Change);
impl Callback<Net> for Sets {
    fn name(&self) -> &str {
        "sets"
    }
    fn on_step_end(&mut self, run: &mut Control<'_, Net>) -> Result<(), Failure> {
        if run.position().step == CHANGED - 1 {
            let model = run.model();
            match self.0 {
                Change::Weight => model.last.weight.set(&replaced(&model.last.weight.detached(), 1, 0.5)?)?,
                Change::Statistic => {
                    let mean = model.named_buffers().into_iter().find(|(name, _)| name == "norm.running_mean").unwrap().1;
                    mean.set(&(mean.detached() * 0.0 + 3.0))?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
fn program(folder: &Path, change: Change, by_program: bool, watch: &mut dyn Watch) -> Vec<u8> {
    adamant_nn::manual_seed(5);
    let model = Net { first: Linear::new(5, 6).unwrap(), norm: BatchNorm1d::new(6).unwrap(), last: Linear::new(6, 2).unwrap() };
    let optimizer = AdamW::new(0.05).over(model.parameters());
    let steps = Arc::new(AtomicU64::new(0));
    let loss = move |net: &Net, (x, y): &(Tensor, Tensor)| {
        let is_now = by_program && steps.fetch_add(1, Ordering::Relaxed) + 1 == CHANGED;
        let mut hidden = net.first.forward(x)?;
        if is_now && change == Change::Result {
            hidden = replaced(&hidden, 2, -1.5)?;
        }
        hidden = net.norm.forward(&hidden)?.tanh();
        if is_now && change == Change::Gradient {
            hidden = tap(&[&hidden], |gradients| Ok(Some(vec![gradients[0].as_ref().map(|g| replaced(g, 3, 0.75)).transpose()?])))?.remove(0);
        }
        (net.last.forward(&hidden)? - y).square().mean(..).ok()
    };
    let loader = DataLoader::new(Arc::new(Rows)).batch_size(12).shuffle(3).build().unwrap();
    let trainer =
        Trainer::new(model, optimizer, loss).epochs(5).folder(folder).capture(!by_program).callback(Sets(if by_program { change } else { Change::Nothing }));
    let fitted = trainer.fit(loader, watch).unwrap();
    fitted.model.state_dict().into_iter().flat_map(|(_, value)| value.to_bytes().unwrap()).collect()
}
#[test]
fn a_value_that_was_set_and_has_other_bits_than_a_program_with_that_change() {
    let place = tempfile::tempdir().unwrap();
    for (name, device) in [("reference", Device::reference()), ("cpu", cpu())] {
        device.scoped(|| {
            let at = |of: &str| place.path().join(format!("{name}-{of}"));
            let plain = program(&at("plain"), Change::Nothing, true, &mut ());
            for change in [Change::Result, Change::Gradient, Change::Weight, Change::Statistic] {
                let changed = program(&at(&format!("{change:?}")), change, true, &mut ());
                let (first, set) = match change {
                    Change::Result => (json!({ "layer": "first", "step": CHANGED }), json!({ "of": "out.0", "at": "2", "value": -1.5 })),
                    Change::Gradient => (json!({ "op": "tanh", "phase": "backward", "step": CHANGED }), json!({ "of": "grad.0", "at": "3", "value": 0.75 })),
                    Change::Weight => (json!({ "step": CHANGED }), json!({ "of": "last.weight", "at": "1", "value": 0.5 })),
                    _ => (json!({ "step": CHANGED }), json!({ "of": "norm.running_mean", "at": ":", "value": 3 })),
                };
                let (mut first, mut set) = (first, set);
                (first["do"], set["do"]) = ("break".into(), "set".into());
                let script = move |dialog: &mut Dialog| {
                    dialog.stop().unwrap();
                    dialog.done(set);
                    dialog.done(json!({ "do": "unbreak" }));
                    dialog.go_on();
                };
                let mut debugs = Debugs::new(&at(&format!("{change:?}-set")), 4, first, script);
                let debugged = program(&at(&format!("{change:?}-set")), change, false, &mut debugs);
                debugs.stops();
                assert!(changed != plain, "{change:?} on {name}");
                assert!(debugged == changed, "{change:?} on {name}");
            }
        });
    }
}
