//! What a run says of how good its model is: figures of numbers in the units of the data, figures of each class, and a report
//! that shows what they were made from.
#![allow(clippy::unwrap_used)]

use adamant_core::Device;
use adamant_data::{Examples, Labelled, Rows, examples};
use adamant_nn::{Identity, Sequential};
use adamant_train::{
    Document, EvaluateOptions, Objective, Run, evaluate,
    evaluate::{Show, Unit, Units, document},
};
use serde_json::Value;
use std::{fs, path::Path, sync::Arc};

const NUMBERS: &str = r#"
seed = 1
epochs = 40
batch = 5
loss = "mse"
[data]
kind = "csv"
path = "numbers.csv"
targets = [2, 3]
valid = 0.2
test = { modulo = 4, equals = 0 }
[model]
layers = [{ kind = "Linear", in_features = 2, out_features = 2 }]
[optimizer]
kind = "SGD"
lr = 0.05
"#;
fn train(folder: &Path, text: &str) -> Value {
    let document = Document::parse("run.toml", text).unwrap();
    let report = Device::reference().scoped(|| Run::new(&document).data(folder).folder(folder.join("run")).train(&mut ())).unwrap();
    report.to_json()
}
fn json(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("run").join(name)).unwrap()).unwrap()
}

#[test]
fn numbers_that_are_judged_as_if_they_were_classes() {
    let folder = tempfile::tempdir().unwrap();
    let row = |k: u32| {
        let (a, b) = (f64::from(k % 7) / 7.0, f64::from(k % 5) / 5.0);
        format!("{a},{b},{},{}\n", 2.0 * a - b + 0.3, a + b)
    };
    fs::write(folder.path().join("numbers.csv"), (0..80).map(row).collect::<String>()).unwrap();
    let told = train(folder.path(), NUMBERS);
    let test = &told["metrics"]["test"];
    let (mae, rmse, r2) = (test["mae"].as_f64().unwrap(), test["rmse"].as_f64().unwrap(), test["r2"].as_f64().unwrap());
    assert!(mae > 0.0 && mae <= rmse && r2 > 0.5 && r2 < 1.0 && test["accuracy"].is_null(), "{test}");
    // The same figures wherever they stand, and those of the pairs that are shown.
    let evaluation = json(folder.path(), "evaluation.json");
    for name in ["mae", "rmse", "r2"] {
        assert_eq!(evaluation[name], test[name], "{name}");
        assert_eq!(json(folder.path(), "result.json")["metrics"]["test"][name], test[name], "{name}");
    }
    let lines = fs::read_to_string(folder.path().join("run/metrics.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.last().unwrap()["mae"], test["mae"]);
    let epochs: Vec<&Value> = lines.iter().filter(|l| l["kind"] == "epoch").collect();
    assert!(epochs.len() == 40 && epochs.iter().all(|e| e["valid"]["mae"].is_number() && e["valid"]["r2"].is_number()), "{:?}", epochs[0]);
    let targets = evaluation["targets"].as_array().unwrap();
    assert_eq!(targets.len(), 2);
    for target in targets {
        let pairs: Vec<(f64, f64)> = serde_json::from_value(target["pairs"].clone()).unwrap();
        let mean = pairs.iter().map(|(t, p)| (t - p).abs()).sum::<f64>() / pairs.len() as f64;
        assert!(pairs.len() == 20 && (mean - target["mae"].as_f64().unwrap()).abs() < 1e-9, "{target}");
    }
    // The worst record is the one that is furthest away, and says so.
    let worst = evaluation["worst"].as_array().unwrap();
    let away = |w: &Value| w["numbers"].as_array().unwrap().iter().map(|n| n["error"].as_f64().unwrap().powi(2)).sum::<f64>();
    assert!(worst.len() == 20 && worst.windows(2).all(|w| away(&w[0]) >= away(&w[1]) - 1e-12), "{worst:?}");
    let first = &worst[0]["numbers"][0];
    let error = first["prediction"].as_f64().unwrap() - first["truth"].as_f64().unwrap();
    assert!((error - first["error"].as_f64().unwrap()).abs() < 1e-12 && worst[0]["probability"].is_null());
    let html = fs::read_to_string(folder.path().join("run/report.html")).unwrap();
    for wanted in
        ["Test R²", "Test MAE", "Test RMSE", "Predicted against true: 3", "Errors: 2", "Validation MAE", "furthest from the truth", "Mean absolute error"]
    {
        assert!(html.contains(wanted), "{wanted}");
    }
    for unwanted in ["? →", "→ <span class=\"answer\">", "the truth was given", "Test accuracy", "Validation accuracy"] {
        assert!(!html.contains(unwanted), "{unwanted}");
    }
    assert!(fs::read_to_string(folder.path().join("run/metric.svg")).unwrap().contains("Mean absolute error"));
}

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
/// Inputs that the model gives back as they are.
fn echoed(inputs: &[f32], width: usize, targets: Rows) -> Examples {
    examples(Labelled::new(Rows::new(inputs.to_vec(), [inputs.len() / width, width]).unwrap(), targets).unwrap())
}
#[test]
fn a_figure_in_the_units_of_the_model() {
    on_reference(|| {
        let data = echoed(&[0.0, 1.0, 2.0], 1, Rows::new(vec![0.5f32, 1.0, 1.0], [3, 1]).unwrap());
        let unit = |name: &str, mean: f64, std: f64| Unit { name: name.into(), mean, std };
        let units = Arc::new(Units { inputs: vec![unit("size", 100.0, 10.0)], targets: vec![unit("price", 1000.0, 200.0)] });
        let options = EvaluateOptions { worst: 2, units, ..EvaluateOptions::default() };
        let model = Sequential::new().add(Identity::new());
        let seen = evaluate(&model, &Objective::mse(), &data, Device::current().unwrap(), &options).unwrap();
        assert_eq!(seen.figures()[0], ("mae", Some(100.0)));
        let told = serde_json::to_value(document(&seen, &data, &Show::Nothing).unwrap()).unwrap();
        assert_eq!(told["targets"][0]["name"], "price");
        assert_eq!(told["worst"][0]["numbers"][0], serde_json::json!({ "target": "price", "truth": 1200.0, "prediction": 1400.0, "error": 200.0 }));
        assert_eq!(told["worst"][0]["inputs"], serde_json::json!([{ "name": "size", "value": 120.0 }]));
    });
}
#[test]
fn right_answers_among_the_worst_before_wrong_ones() {
    on_reference(|| {
        // Sure and right, unsure and right, hardly wrong (at a smaller loss than the one before), very wrong.
        let outputs = [9.0, 0.0, 0.0, 0.1, 0.0, 0.0, 5.0, 4.9, 0.0, 9.0, 0.0, 0.0];
        let data = echoed(&outputs, 3, Rows::classes(vec![0, 0, 1, 2], 3).unwrap());
        let options = EvaluateOptions { worst: 3, batch: 1, ..EvaluateOptions::default() };
        let model = Sequential::new().add(Identity::new());
        let seen = evaluate(&model, &Objective::cross_entropy(0.0), &data, Device::current().unwrap(), &options).unwrap();
        assert_eq!(seen.worst.iter().map(|w| w.index).collect::<Vec<_>>(), [3, 2, 1]);
        let told = serde_json::to_value(document(&seen, &data, &Show::Nothing).unwrap()).unwrap();
        assert_eq!(told["by_class"][0]["recall"], 1.0);
        assert_eq!(told["by_class"][0]["precision"], 0.5);
        assert!((told["macro"]["f1"].as_f64().unwrap() - 2.0 / 9.0).abs() < 1e-12, "{told}");
        // A report of it shows a right answer as one.
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.toml"), "").unwrap();
        fs::write(folder.path().join("evaluation.json"), told.to_string()).unwrap();
        let html = fs::read_to_string(adamant_train::report::write(folder.path()).unwrap()).unwrap();
        assert_eq!(html.matches("<span class=\"right\">right</span>").count(), 1);
        assert_eq!(html.matches("<span class=\"answer\">").count(), 2);
        assert!(html.contains("Figures by class") && html.contains("Mean of the classes (macro)"));
    });
}
#[test]
fn a_sequence_that_is_shown_as_one_question_mark_after_another() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.toml"), "").unwrap();
    let worst = serde_json::json!({ "worst": [{ "index": 3, "loss": 2.5, "text": "to be or", "probability": 0.08 }] });
    fs::write(folder.path().join("evaluation.json"), worst.to_string()).unwrap();
    let html = fs::read_to_string(adamant_train::report::write(folder.path()).unwrap()).unwrap();
    assert!(html.contains("to be or") && !html.contains("class=\"verdict\"") && !html.contains(">?<"));
}
