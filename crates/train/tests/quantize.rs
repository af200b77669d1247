//! Runs with `[quantize]`: what they end with, and that one that was killed ends with the same bits.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{Device, Tensor};
use adamant_nn::Walk;
use adamant_train::{Document, Failure, Interrupt, Report, Run, Trained, Watch, validate};
use std::{fs, path::Path};

const RUN: &str = r#"
seed = 3
epochs = 4
batch = 8
log_every = 2
checkpoint = { every = 2, last = 2, best = 1 }
[data]
kind = "csv"
path = "table.csv"
label = 4
classes = 2
test = { modulo = 5, equals = 4 }
[model]
layers = [
    { name = "stem", kind = "Linear", in_features = 4, out_features = 8 },
    { name = "norm", kind = "BatchNorm1d", num_features = 8 },
    { kind = "ReLU" },
    { name = "head", kind = "Linear", in_features = 8, out_features = 2 },
]
[optimizer]
kind = "AdamW"
lr = 0.03
[quantize]
scheme = "int8-static"
bits = 4
group = 4
freeze_observers_after = 5
freeze_norms_after = 9
"#;
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let row = |r: usize| format!("{},{},{},{},{}\n", r % 7, (r * 3) % 5, r % 2, (r * 11) % 13, usize::from(r % 7 > 3));
    fs::write(place.path().join("table.csv"), (0..60).map(row).collect::<String>()).unwrap();
    place
}
fn document(set: &[&str]) -> Document {
    let mut document = Document::parse("run.toml", RUN).unwrap();
    set.iter().for_each(|s| document.set(s).unwrap());
    document
}
fn train(document: &Document, place: &Path, run: &str, watch: &mut dyn Watch, interrupt: Interrupt) -> Result<Report, Failure> {
    Device::cpu().unwrap().scoped(|| Run::new(document).data(place).folder(place.join(run)).resume(true).interrupt(interrupt).train(watch))
}
struct StopAt(u64, Interrupt);
impl Watch for StopAt {
    fn step(&mut self, step: u64) {
        if step == self.0 {
            self.1.ask(15);
        }
    }
}
fn stop(document: &Document, place: &Path, run: &str, step: u64) {
    let interrupt = Interrupt::new();
    let failure = train(document, place, run, &mut StopAt(step, interrupt.clone()), interrupt).unwrap_err();
    assert!(matches!(failure, Failure::Interrupted { .. }), "{failure}");
}

#[test]
fn a_run_that_ends_without_its_two_models_or_with_codes_of_another() {
    let place = place();
    let report = train(&document(&[]), place.path(), "run", &mut (), Interrupt::new()).unwrap();
    let run = place.path().join("run");
    let end = report.quantized.unwrap();
    assert_eq!((end.folder.as_path(), end.report.quantized().count()), (run.join("quantized").as_path(), 2));
    let told: serde_json::Value = serde_json::from_str(&fs::read_to_string(run.join("result.json")).unwrap()).unwrap();
    assert_eq!((&told["quantized"]["layers"][0]["bits"], &told["quantized"]["layers"][0]["group"]), (&4.into(), &4.into()));
    // What was tested is what was converted.
    assert_eq!(end.test.accuracy, report.test.accuracy);
    assert!((end.test.loss - report.test.loss).abs() < 1e-3, "{} and {}", end.test.loss, report.test.loss);
    Device::cpu().unwrap().scoped(|| {
        let (floats, codes) = (Trained::open(&run).unwrap(), Trained::open(&run.join("quantized")).unwrap());
        let names = |t: &Trained| t.model.state_dict().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert!(names(&floats).iter().all(|n| !n.contains("parametrizations") && !n.contains("scale")), "{:?}", names(&floats));
        assert!(names(&codes).contains(&"stem.weight_input_scale".to_string()), "{:?}", names(&codes));
        let x = Tensor::from_vec((0..40).map(|k| (k % 11) as f32 / 5.0 - 1.0).collect(), [10, 4]);
        let [a, b] = [&floats, &codes].map(|t| t.answer(&x).unwrap());
        let (off, largest) = ((&a - &b).abs().max().item::<f32>().unwrap(), a.abs().max().item::<f32>().unwrap());
        assert!(off > 0.0 && off < 0.5 * largest, "{off} of {largest}");
    });
}
#[test]
fn a_run_that_was_killed_and_ends_with_other_codes() {
    let place = place();
    let more = "ema.decay=0.8";
    for (k, set) in [
        vec![],
        vec!["quantize.learned_steps=true", "accumulate=2", "optimizer.groups=[{ parameters = [\"head.weight\"], lr = 0.01 }]"],
        vec!["quantize.scheme=int8-dynamic", more],
    ]
    .iter()
    .enumerate()
    {
        let (document, whole, run) = (document(set), format!("whole-{k}"), format!("run-{k}"));
        train(&document, place.path(), &whole, &mut (), Interrupt::new()).unwrap();
        [3, 7, 10].iter().for_each(|step| stop(&document, place.path(), &run, *step));
        // It answers before it has ended too.
        Device::cpu().unwrap().scoped(|| {
            let trained = Trained::open(&place.path().join(&run)).unwrap();
            let answer = trained.answer(&Tensor::from_vec(vec![1.0f32; 8], [2, 4])).unwrap();
            assert!(answer.isfinite().all(..).item::<bool>().unwrap());
        });
        train(&document, place.path(), &run, &mut (), Interrupt::new()).unwrap();
        for name in ["weights.safetensors", "quantized/weights.safetensors", "metrics.jsonl"] {
            let read = |run: &str| fs::read(place.path().join(run).join(name)).unwrap();
            assert!(read(&run) == read(&whole), "{name} of {set:?}");
        }
    }
}
#[test]
fn first_values_from_a_file_that_codes_are_not_found_of() {
    let place = place();
    train(&document(&[]), place.path(), "run", &mut (), Interrupt::new()).unwrap();
    let path = format!("init_from.path='{}'", place.path().join("run/weights.safetensors").display());
    let fine = document(&[&path, "optimizer.lr=1e-9", "quantize.scheme=w8", "epochs=1"]);
    assert!(Device::cpu().unwrap().scoped(|| validate(&fine, place.path())).faults.is_empty());
    train(&fine, place.path(), "tuned", &mut (), Interrupt::new()).unwrap();
    Device::cpu().unwrap().scoped(|| {
        let stem = |run: &str| Trained::open(&place.path().join(run)).unwrap().model.state_dict()[0].1.to_vec::<f32>().unwrap();
        assert!(stem("run").iter().zip(stem("tuned")).all(|(a, b)| (a - b).abs() < 1e-5));
    });
    let none = document(&["precision={ mode = \"bf16\", master = \"none\" }"]);
    let failure = train(&none, place.path(), "none", &mut (), Interrupt::new()).unwrap_err();
    assert!(failure.to_string().contains("`quantize.scheme`: codes are found of weights in f32"), "{failure}");
}
