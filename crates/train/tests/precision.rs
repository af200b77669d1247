//! Mixed precision of runs: what a description says of it, what is kept for a run that goes on, layers that fall back, ends.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{DType, Device, Tensor};
use adamant_train::{Document, Failure, Interrupt, Report, Run, Trained, Watch, summarise, validate};
use std::{collections::BTreeMap, fs, path::Path};

/// A net with dropout, running statistics, accumulation, validation and a schedule.
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
[model]
layers = [
    { kind = "Embedding", num_embeddings = 12, embedding_dim = 8 },
    { kind = "Linear", in_features = 8, out_features = 16 },
    { kind = "BatchNorm1d", num_features = 16 },
    { kind = "Dropout", p = 0.2 },
    { name = "head", kind = "Linear", in_features = 16, out_features = 12 },
]
[optimizer]
kind = "AdamW"
lr = 0.02
[schedule]
kind = "CosineAnnealingLR"
[ema]
decay = 0.9
"#;
fn document(set: &[&str]) -> Document {
    let mut document = Document::parse("run.toml", RUN).unwrap();
    set.iter().for_each(|s| document.set(s).unwrap());
    document
}
fn without_ema(set: &[&str]) -> Document {
    let mut document = Document::parse("run.toml", &RUN.replace("[ema]\ndecay = 0.9\n", "")).unwrap();
    set.iter().for_each(|s| document.set(s).unwrap());
    document
}
fn train(document: &Document, folder: &Path, watch: &mut dyn Watch, interrupt: Interrupt) -> Result<Report, Failure> {
    Run::new(document).folder(folder).resume(true).interrupt(interrupt).train(watch)
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
fn lines(folder: &Path) -> Vec<serde_json::Value> {
    fs::read_to_string(folder.join("metrics.jsonl")).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// A scale that moves every few steps, and one that is far too large when a run begins.
const MOVING: &str = "precision.scaler={ init_scale = 1e30, growth_interval = 2, backoff_factor = 0.001, hysteresis = 1 }";

#[test]
fn a_run_in_16_bits_that_goes_on_otherwise_than_it_would_have() {
    let place = tempfile::tempdir().unwrap();
    let cases: [&[&str]; 13] = [
        &["precision.mode=bf16"],
        &["precision.mode=f16"],
        &["precision.mode=f16", MOVING],
        &["precision.mode=f16", MOVING, "precision.schedule_on=applied", "capture=false"],
        &["precision.mode=f16", MOVING, "precision.enable_fallback_to_fp32=true", "precision.table=torch"],
        &["precision.mode=bf16", "precision.keep=[\"head\"]", "precision.scaler={ init_scale = 4.0 }"],
        &["precision.mode=fp8", "precision.fp8={ amax_history_len = 5 }", "precision.slots=bf16"],
        &["precision.mode=fp8", "precision.fp8={ recipe = \"current\", margin = 1 }"],
        &["precision.mode=fp8", "precision.fp8={ recipe = \"block\" }"],
        &["precision.mode=bf16", "precision.master=none", "precision.update=nearest"],
        &["precision.mode=bf16", "precision.master=none"],
        &["precision.mode=f16", MOVING, "precision.master=none", "precision.update=kahan"],
        &["precision.mode=fp8", "precision.master=none", "precision.update=split"],
    ];
    for (k, set) in cases.iter().enumerate() {
        let mut document = document(set);
        if set.iter().any(|s| s.contains("master")) {
            document = without_ema(set);
        }
        let whole = place.path().join(format!("whole-{k}"));
        let report = train(&document, &whole, &mut (), Interrupt::new()).unwrap();
        let skipped = report.amp.as_ref().unwrap().scaler.map_or(0, |s| s.skipped);
        assert_eq!(skipped > 0, set.contains(&MOVING), "{set:?}: {:?}", report.amp);
        // Before and after a step of each kind; in an epoch, at its end, at a checkpoint.
        for stop in [[1, 5, 11], [2, 6, 19], [3, 4, 12]][k % 3] {
            let run = place.path().join(format!("run-{k}-{stop}"));
            let interrupt = Interrupt::new();
            let ended = train(&document, &run, &mut StopAt(stop, interrupt.clone()), interrupt).unwrap_err();
            assert!(matches!(ended, Failure::Interrupted { .. }), "{ended}");
            let resumed = train(&document, &run, &mut (), Interrupt::new()).unwrap();
            assert_eq!(resumed.amp, report.amp);
            for name in ["weights.safetensors", "metrics.jsonl"] {
                assert!(fs::read(run.join(name)).unwrap() == fs::read(whole.join(name)).unwrap(), "{name} of {set:?} after {stop}");
            }
        }
    }
}
#[test]
fn steps_that_come_out_otherwise_captured_than_op_by_op() {
    let place = tempfile::tempdir().unwrap();
    for (k, set) in
        [&["precision.mode=bf16"][..], &["precision.mode=f16", MOVING], &["precision.mode=f16", "precision.enable_fallback_to_fp32=true"]].iter().enumerate()
    {
        let weights = [true, false].map(|capture| {
            let folder = place.path().join(format!("{k}-{capture}"));
            let mut seen = Warnings::default();
            train(&document(&[set, &[&*format!("capture={capture}")][..]].concat()), &folder, &mut seen, Interrupt::new()).unwrap();
            assert_eq!(seen.0, [""; 0], "{set:?}");
            fs::read(folder.join("weights.safetensors")).unwrap()
        });
        assert!(weights[0] == weights[1], "{set:?}");
    }
}
/// Weights that are split into halves are f32 masters rounded to bf16, bit for bit, in the same steps.
#[test]
fn halves_of_weights_that_are_not_their_masters() {
    let place = tempfile::tempdir().unwrap();
    for (k, set) in [&["precision.mode=bf16"][..], &["precision.mode=fp8", "precision.fp8={ amax_history_len = 4 }"]].iter().enumerate() {
        let weights = |name: &str, more: &[&str]| {
            let folder = place.path().join(format!("{k}-{name}"));
            train(&without_ema(&[set, more].concat()), &folder, &mut (), Interrupt::new()).unwrap();
            let file = adamant_formats::safetensors::SafeTensors::open(&folder.join("weights.safetensors")).unwrap();
            let names = file.names();
            names.into_iter().map(|n| (n.clone(), file.tensor(&n, Device::current().unwrap()).unwrap())).collect::<BTreeMap<_, _>>()
        };
        let (masters, halves) = (weights("masters", &[]), weights("halves", &["precision.master=none", "precision.update=split"]));
        let nearest = weights("nearest", &["precision.master=none", "precision.update=nearest"]);
        let mut low = Vec::new();
        let mut lost = 0;
        for (name, master) in &masters {
            let half = &halves[name];
            let dtype = half.dtype().unwrap();
            low.extend((dtype == DType::BF16).then_some(name.as_str()));
            assert_eq!(master.cast(dtype).to_bytes().unwrap(), half.to_bytes().unwrap(), "{name}");
            lost += usize::from(master.cast(dtype).to_bytes().unwrap() != nearest[name].to_bytes().unwrap());
        }
        // The embedding is read as it is, norms compute in f32.
        assert_eq!(low, ["1.bias", "1.weight", "head.bias", "head.weight"]);
        assert!(lost > 0, "rounding to nearest loses nothing here, so this shows nothing");
    }
}
#[test]
fn a_scale_that_changes_what_is_learned() {
    // Scales are powers of two: the weights of a bf16 run are those with a scaler, bit for bit.
    let place = tempfile::tempdir().unwrap();
    let weights = ["", "precision.scaler={ init_scale = 256.0, growth_interval = 3 }"].map(|scaler| {
        let folder = place.path().join(if scaler.is_empty() { "off" } else { "on" });
        let set: Vec<&str> = ["precision.mode=bf16", scaler].into_iter().filter(|s| !s.is_empty()).collect();
        let report = train(&document(&set), &folder, &mut (), Interrupt::new()).unwrap();
        assert_eq!(report.amp.unwrap().scaler.map(|s| (s.applied, s.scale)), (!scaler.is_empty()).then_some((20, 256.0 * 64.0)));
        fs::read(folder.join("weights.safetensors")).unwrap()
    });
    assert!(weights[0] == weights[1]);
}
#[test]
fn a_run_that_does_not_tell_what_its_scaler_did() {
    let place = tempfile::tempdir().unwrap();
    let report = train(&document(&["precision.mode=f16", MOVING]), place.path(), &mut (), Interrupt::new()).unwrap();
    let scaler = report.amp.unwrap().scaler.unwrap();
    assert_eq!(scaler.applied + scaler.skipped, 20);
    let steps: Vec<serde_json::Value> = lines(place.path()).into_iter().filter(|l| l["kind"] == "step").collect();
    let last = &steps.last().unwrap()["precision"];
    assert_eq!((last["mode"].as_str(), last["skipped"].as_u64(), last["scale"].as_f64()), (Some("f16"), Some(scaler.skipped.into()), Some(scaler.scale)));
    assert_eq!(steps[0]["precision"]["scale_most"].as_f64(), Some(f64::from(1e30f32)));
    let result: serde_json::Value = serde_json::from_slice(&fs::read(place.path().join("result.json")).unwrap()).unwrap();
    assert_eq!(result["precision"]["applied"], scaler.applied);
    assert!(fs::read_to_string(place.path().join("report.html")).unwrap().contains("Mixed precision"));
}

/// A layer in the midst passes 65504; what follows brings it back.
fn overflowing(count: usize) -> String {
    let mut layers = String::from("{ kind = \"Embedding\", num_embeddings = 12, embedding_dim = 8 },");
    for k in 0..count {
        layers += &format!("{{ name = \"loud{k}\", kind = \"Linear\", in_features = 8, out_features = 8 }}, {{ kind = \"LayerNorm\", normalized_shape = 8 }},");
    }
    layers += "{ name = \"head\", kind = \"Linear\", in_features = 8, out_features = 12 }";
    format!(
        "seed = 1\nepochs = 12\nbatch = 12\nlog_every = 2\n[data]\nkind = \"permutation\"\nclasses = 12\nrows = 120\n[model]\nlayers = [{layers}]\n\
         [optimizer]\nkind = \"AdamW\"\nlr = 0.01\n"
    )
}
/// The description's own initial values with the loud layers made so loud.
fn loud(place: &Path, count: usize) -> Document {
    let text = overflowing(count);
    let mut document = Document::parse("run.toml", &text).unwrap();
    let first = place.join(format!("first-{count}"));
    train(&Document::parse("run.toml", &text.replace("epochs = 12", "iterations = 1")).unwrap(), &first, &mut (), Interrupt::new()).unwrap();
    let model = Trained::open(&first).unwrap().model;
    let state: Vec<(String, Tensor)> = adamant_nn::Walk::state_dict(&model)
        .into_iter()
        .map(|(name, t)| if name.starts_with("loud") && name.ends_with("weight") { (name, (&t * 1e6).ok().unwrap()) } else { (name, t) })
        .collect();
    let file = place.join(format!("loud-{count}.safetensors"));
    adamant_formats::safetensors::save(&file, state, &BTreeMap::new()).unwrap();
    document.set(&format!("init_from.path={}", file.display())).unwrap();
    document
}
#[test]
fn a_layer_beyond_the_range_of_f16_that_is_not_left_in_f32() {
    let place = tempfile::tempdir().unwrap();
    let mut document = loud(place.path(), 1);
    let exact = train(&document, &place.path().join("f32"), &mut (), Interrupt::new()).unwrap();
    document.set("precision.mode=f16").unwrap();
    document.set("precision.enable_fallback_to_fp32=true").unwrap();
    let (run, mut seen) = (place.path().join("f16"), Warnings::default());
    let report = train(&document, &run, &mut seen, Interrupt::new()).unwrap();
    let amp = report.amp.unwrap();
    assert_eq!((amp.fallbacks, amp.overflows), (vec!["loud0".to_string()], BTreeMap::from([("loud0".to_string(), 3)])));
    assert_eq!(amp.scaler.unwrap().skipped, 3);
    assert_eq!(seen.0, ["`loud0` left the range of f16 too often: from step 4 on it runs in f32"]);
    let (ours, theirs) = (report.losses.last().unwrap(), exact.losses.last().unwrap());
    assert!((ours - theirs).abs() <= 0.05 * theirs.abs() + 0.05, "{ours} {theirs}");
    // Who opens the run answers as it was trained.
    let trained = Trained::open(&run).unwrap();
    let answer = trained.answer(&Tensor::from_vec(vec![1i64, 5, 7], [3])).unwrap();
    assert!(answer.isfinite().all(..).item::<bool>().unwrap());
    assert_eq!(answer.dtype().unwrap(), DType::F32);
    // A run that goes on from before and after the third overflow.
    for stop in [2, 3, 4, 9] {
        let again = place.path().join(format!("again-{stop}"));
        let interrupt = Interrupt::new();
        train(&document, &again, &mut StopAt(stop, interrupt.clone()), interrupt).unwrap_err();
        train(&document, &again, &mut (), Interrupt::new()).unwrap();
        assert!(fs::read(again.join("weights.safetensors")).unwrap() == fs::read(run.join("weights.safetensors")).unwrap(), "after {stop}");
    }
}
#[test]
fn six_such_layers_that_do_not_end_the_run_with_their_names() {
    let place = tempfile::tempdir().unwrap();
    let mut document = loud(place.path(), 6);
    document.set("precision.mode=f16").unwrap();
    document.set("precision.enable_fallback_to_fp32=true").unwrap();
    let failure = train(&document, &place.path().join("f16"), &mut (), Interrupt::new()).unwrap_err();
    assert_eq!(failure.exit_code(), 3, "{failure}");
    (0..6).for_each(|k| assert!(failure.to_string().contains(&format!("`loud{k}`")), "{failure}"));
    assert!(!format!("{failure} {:?}", failure.help()).contains("larger"));
    // Without a fallback the scale falls to its least, and the run ends.
    let mut document = loud(place.path(), 1);
    document.set("precision.mode=f16").unwrap();
    let failure = train(&document, &place.path().join("never"), &mut (), Interrupt::new()).unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    assert!(failure.to_string().starts_with("the gradients of 20 steps up to"), "{failure}");
}
#[test]
fn an_epoch_without_a_loss_whose_mean_is_a_number() {
    let place = tempfile::tempdir().unwrap();
    let mut document = loud(place.path(), 1);
    document.set("precision.mode=f16").unwrap();
    document.set("epochs=1").unwrap();
    let run = place.path().join("f16");
    let report = train(&document, &run, &mut (), Interrupt::new()).unwrap();
    assert_eq!(report.amp.unwrap().scaler.map(|s| (s.applied, s.skipped)), Some((0, 10)));
    assert!(report.losses.len() == 1 && report.losses[0].is_nan(), "{:?}", report.losses);
    let losses: Vec<_> = lines(&run).into_iter().map(|line| line["loss"].clone()).collect();
    assert!(losses.len() > 5 && losses.iter().all(serde_json::Value::is_null), "{losses:?}");
    let result: serde_json::Value = serde_json::from_slice(&fs::read(run.join("result.json")).unwrap()).unwrap();
    assert!(result["metrics"]["train"]["loss"].is_null(), "{result}");
}
#[test]
fn a_summary_that_does_not_tell_dtypes() {
    let document = document(&["precision.mode=bf16", "precision.keep=[\"head\"]"]);
    let rows = summarise(&document, Path::new(""), Some((vec![], DType::I64)), None).unwrap().summary.rows;
    let dtypes: Vec<(String, Option<DType>)> = rows.into_iter().map(|r| (r.path, r.dtype)).collect();
    let of = |path: &str| dtypes.iter().find(|(p, _)| p == path).unwrap().1;
    assert_eq!((of("1"), of("head")), (Some(DType::BF16), Some(DType::F32)));
}
#[test]
fn what_makes_no_sense_is_told_with_its_line() {
    let said = |section: &str| {
        let document = Document::parse("run.toml", &format!("{RUN}[precision]\n{section}\n")).unwrap();
        let faults = Device::reference().scoped(|| validate(&document, Path::new(""))).faults;
        assert!(faults.iter().all(|f| [2, 4].contains(&f.exit_code())), "{faults:?}");
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let at = 2 + RUN.lines().count();
    for (section, says) in [
        ("mode = \"f16\"\nscaler = { growth_factor = 1.0 }", "1: `precision.scaler.growth_factor`: growth_factor is 1, it must be more than 1"),
        ("mode = \"f16\"\nscaler = { backoff_factor = 1.5 }", "1: `precision.scaler.backoff_factor`: backoff_factor is 1.5, it must lie between 0 and 1"),
        ("mode = \"f16\"\nscaler = { growth_interval = 0 }", "1: `precision.scaler.growth_interval`: growth_interval is 0, it must be at least 1"),
        ("mode = \"f16\"\nscaler = { init_scale = -2.0 }", "1: `precision.scaler.init_scale`: init_scale is -2, it must be a positive number"),
        ("mode = \"f16\"\nscaler = { init_scale = nan }", "1: `precision.scaler.init_scale` takes a number, not NaN"),
        ("mode = \"i32\"", "0: `precision.mode`: there is no `i32`; "),
        ("mode = \"fp16\"", "0: `precision.mode`: there is no `fp16`; did you mean `f16`?"),
        ("mode = \"bf16\"\ntable = \"tourch\"", "1: `precision.table`: there is no `tourch`; did you mean `torch`?"),
        ("mode = \"bf16\"\nkeep = [\"haed\"]", "1: `precision.keep`: `haed` means no layer and no function; did you mean `head`?"),
        ("mode = \"bf16\"\nkeep = \"matmull\"", "1: `precision.keep`: `matmull` means no layer and no function; did you mean `matmul`?"),
        ("mode = \"bf16\"\nfallback_after = 2", "1: `precision.fallback_after`: it means something only with mode = f16"),
        ("mode = \"f16\"\nfallback_after = 2", "1: `precision.fallback_after`: it means something only with enable_fallback_to_fp32 = true"),
        ("mode = \"f32\"\nkeep = [\"head\"]", "1: `precision.keep`: it means something only with mode"),
        ("mode = \"f16\"\npatience = 0", "1: `precision.patience`: it is at least 1, not 0"),
        ("mode = \"f16\"\nmdoe = \"f16\"", "1: unknown key `precision.mdoe`"),
        ("table = \"torch\"", "-1: `precision.mode` is missing"),
        ("mode = \"bf16\"\nupdate = \"kahan\"", "1: `precision.update`: it means something only with master = \"none\""),
        ("mode = \"bf16\"\nmaster = \"f16\"", "1: `precision.master`: there is no `f16`; "),
        ("mode = \"bf16\"\nmaster = \"none\"", "1: `precision.master`: `ema` keeps a mean in the weights' dtype"),
        ("mode = \"f16\"\nmaster = \"none\"\nupdate = \"split\"", "2: `precision.update`: split keeps the other half of an f32's bits beside bf16"),
        ("mode = \"f32\"\nmaster = \"none\"", "1: `precision.master`: it means something only with mode"),
        ("mode = \"bf16\"\nslots = \"f16\"", "1: `precision.slots`: there is no `f16`; "),
        ("mode = \"bf16\"\nfp8 = {}", "1: `precision.fp8`: it means something only with mode = fp8"),
        ("mode = \"fp8\"\nfp8 = { amax_history_len = 0 }", "1: `precision.fp8.amax_history_len`: amax_history_len is 0, it must be at least 1"),
        ("mode = \"fp8\"\nfp8 = { margin = 100 }", "1: `precision.fp8.margin`: margin is 100, it must be from -64 to 64"),
        ("mode = \"fp8\"\nfp8 = { recipe = \"blok\" }", "1: `precision.fp8.recipe`: there is no `blok`; did you mean `block`?"),
        ("mode = \"fp8\"\nfp8 = { recipe = \"block\", margin = 1 }", "1: `precision.fp8.margin`: this recipe has no such number"),
        ("mode = \"f16\"\nscaler = { grwth_factor = 3 }", "1: unknown key `precision.scaler.grwth_factor`; did you mean `growth_factor`?"),
    ] {
        let (line, what) = says.split_once(": ").unwrap();
        let line = at as i64 + line.parse::<i64>().unwrap();
        let told = said(section);
        assert!(told.contains(&format!("run.toml:{line}: {what}")), "{section}: {told}");
    }
    // A run in 16 bits goes on in no other precision.
    let place = tempfile::tempdir().unwrap();
    train(&document(&["precision.mode=bf16"]), place.path(), &mut (), Interrupt::new()).unwrap();
    let failure = train(&document(&[]), place.path(), &mut (), Interrupt::new()).unwrap_err();
    assert!(failure.to_string().contains("precision.mode changed") && failure.exit_code() == 2, "{failure}");
}
