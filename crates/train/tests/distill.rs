//! Runs with `[distill]`: the loss is the formula's, the teacher stays what it is, and a run that was killed ends with the same bits.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core::{Device, Tensor};
use adamant_train::{Document, Failure, Interrupt, Report, Run, Trained, Watch, validate};
use std::{collections::BTreeMap, fs, path::Path};

const DATA: &str = r#"
seed = 3
epochs = 4
batch = 8
log_every = 1
checkpoint = { every = 2, last = 2, best = 1 }
[data]
kind = "csv"
path = "table.csv"
label = 4
classes = 3
test = { modulo = 5, equals = 4 }
[optimizer]
kind = "AdamW"
lr = 0.03
"#;
const TEACHER: &str = r#"
[model]
layers = [
    { kind = "Linear", in_features = 4, out_features = 16 },
    { kind = "BatchNorm1d", num_features = 16 },
    { kind = "ReLU" },
    { kind = "Dropout", p = 0.3 },
    { kind = "Linear", in_features = 16, out_features = 3 },
]
"#;
const STUDENT: &str = r#"
[model]
layers = [
    { kind = "Linear", in_features = 4, out_features = 5 },
    { kind = "ReLU" },
    { kind = "Dropout", p = 0.2 },
    { kind = "Linear", in_features = 5, out_features = 3 },
]
"#;
fn rows() -> Vec<([f32; 4], usize)> {
    (0..60).map(|r| ([(r % 7) as f32, ((r * 3) % 5) as f32, (r % 2) as f32, ((r * 11) % 13) as f32], (r % 7) / 3)).collect()
}
/// A folder with the data and a trained teacher.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let text = rows().iter().map(|(x, y)| format!("{},{},{},{},{y}\n", x[0], x[1], x[2], x[3])).collect::<String>();
    fs::write(place.path().join("table.csv"), text).unwrap();
    train(&document(TEACHER, place.path(), &[]), place.path(), "teacher", &mut (), Interrupt::new()).unwrap();
    place
}
fn document(model: &str, place: &Path, set: &[&str]) -> Document {
    let mut document = Document::parse("run.toml", &format!("{DATA}{model}")).unwrap();
    if model != TEACHER {
        document.set(&format!("distill.teacher='{}'", place.join("teacher").display())).unwrap();
    }
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
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let all = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_file());
    all.map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&p).unwrap())).collect()
}
fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
    let raised: Vec<f64> = logits.iter().map(|x| (f64::from(*x) / temperature).exp()).collect();
    let sum: f64 = raised.iter().sum();
    raised.iter().map(|v| v / sum).collect()
}

#[test]
fn a_loss_that_is_not_the_formulas() {
    let place = place();
    for (temperature, alpha) in [(4.0, 0.5), (1.5, 1.0), (2.0, 0.0), (3.0, 0.8)] {
        let set = [
            format!("distill.temperature={temperature:?}"),
            format!("distill.alpha={alpha:?}"),
            "epochs=1".into(),
            "batch=48".into(),
            "optimizer.lr=0.0".into(),
            "optimizer.weight_decay=0.0".into(),
        ];
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let run = format!("run-{temperature}-{alpha}");
        train(&document(&STUDENT.replace("p = 0.2", "p = 0.0"), place.path(), &set), place.path(), &run, &mut (), Interrupt::new()).unwrap();
        let told = fs::read_to_string(place.path().join(&run).join("metrics.jsonl")).unwrap();
        let line: serde_json::Value = serde_json::from_str(told.lines().find(|l| l.contains("\"step\":1")).unwrap()).unwrap();
        let of_training: Vec<_> = rows().into_iter().enumerate().filter(|(r, _)| r % 5 != 4).map(|(_, row)| row).collect();
        let x = Tensor::from_vec(of_training.iter().flat_map(|(x, _)| *x).collect(), [of_training.len(), 4]);
        // Nothing was learned, so the run ends with what it began with.
        let [s, t] = [&run, "teacher"]
            .map(|of| Device::cpu().unwrap().scoped(|| Trained::open(&place.path().join(of)).unwrap().answer(&x).unwrap().to_vec::<f32>().unwrap()));
        let mut want = 0.0;
        for (k, (_, y)) in of_training.iter().enumerate() {
            let [s, t] = [&s[3 * k..3 * k + 3], &t[3 * k..3 * k + 3]];
            let (p, q, own) = (softmax(t, temperature), softmax(s, temperature), softmax(s, 1.0));
            let kl: f64 = p.iter().zip(&q).map(|(p, q)| p * (p / q).ln()).sum();
            want += (alpha * temperature * temperature * kl - (1.0 - alpha) * own[*y].ln()) / of_training.len() as f64;
        }
        let got = line["loss"].as_f64().unwrap_or_else(|| panic!("{line}"));
        assert!((got - want).abs() < 2e-5 * want.abs().max(1.0), "{temperature} {alpha}: {got}, not {want}");
    }
}
#[test]
fn a_run_that_was_killed_and_ends_with_other_weights() {
    let place = place();
    let teacher = files(&place.path().join("teacher"));
    let document = document(STUDENT, place.path(), &["accumulate=2", "ema.decay=0.8"]);
    train(&document, place.path(), "whole", &mut (), Interrupt::new()).unwrap();
    for step in [3, 7, 10] {
        let interrupt = Interrupt::new();
        let failure = train(&document, place.path(), "run", &mut StopAt(step, interrupt.clone()), interrupt).unwrap_err();
        assert!(matches!(failure, Failure::Interrupted { .. }), "{failure}");
    }
    train(&document, place.path(), "run", &mut (), Interrupt::new()).unwrap();
    for name in ["weights.safetensors", "metrics.jsonl"] {
        let read = |run: &str| fs::read(place.path().join(run).join(name)).unwrap();
        assert!(read("run") == read("whole"), "{name}");
    }
    assert!(files(&place.path().join("teacher")) == teacher, "the teacher's folder has changed");
}
#[test]
fn a_student_that_begins_elsewhere_because_it_has_a_teacher() {
    let place = place();
    let set = ["epochs=1", "optimizer.lr=0.0", "optimizer.weight_decay=0.0"];
    train(&document(STUDENT, place.path(), &set), place.path(), "taught", &mut (), Interrupt::new()).unwrap();
    let mut alone = Document::parse("run.toml", &format!("{DATA}{STUDENT}")).unwrap();
    set.iter().for_each(|s| alone.set(s).unwrap());
    train(&alone, place.path(), "alone", &mut (), Interrupt::new()).unwrap();
    let read = |run: &str| fs::read(place.path().join(run).join("weights.safetensors")).unwrap();
    assert!(read("taught") == read("alone"));
}
#[test]
fn what_makes_no_sense_is_told_with_its_key() {
    let place = place();
    let folder = place.path().join("teacher");
    let quoted = |name: &str| format!("distill.teacher='{}'", place.path().join(name).display());
    for (set, says) in [
        (vec!["distill.temperature=0.0".to_string()], vec!["`distill.temperature`", "above 0"]),
        (vec!["distill.alpha=1.5".into()], vec!["`distill.alpha`", "0 to 1"]),
        (vec!["distill.temprature=2.0".into()], vec!["temprature", "temperature"]),
        (vec![quoted("nowhere")], vec!["`distill.teacher`", "no run folder"]),
        (vec!["distill.teacher=3".into()], vec!["distill.teacher"]),
    ] {
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let faults = validate(&document(STUDENT, place.path(), &set), place.path()).faults;
        let text = faults.iter().map(ToString::to_string).collect::<String>();
        says.iter().for_each(|says| assert!(text.contains(says), "{text} lacks {says}"));
    }
    // What only the teacher's own folder tells.
    let mut other = Document::parse("run.toml", &format!("{DATA}{}", TEACHER.replace("out_features = 3", "out_features = 4"))).unwrap();
    other.set("data.classes=4").unwrap();
    train(&other, place.path(), "four", &mut (), Interrupt::new()).unwrap();
    let failure = train(&document(STUDENT, place.path(), &[&quoted("four")]), place.path(), "of-four", &mut (), Interrupt::new()).unwrap_err();
    assert!(failure.to_string().contains("`distill.teacher`") && failure.to_string().contains("3 classes"), "{failure}");
    fs::remove_file(folder.join("weights.safetensors")).unwrap();
    fs::remove_dir_all(folder.join("checkpoints")).unwrap();
    let failure = train(&document(STUDENT, place.path(), &[]), place.path(), "of-none", &mut (), Interrupt::new()).unwrap_err();
    assert!(failure.to_string().contains("`distill.teacher`"), "{failure}");
}
