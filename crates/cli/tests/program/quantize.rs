//! A run's model as one of codes: by each method a folder that is judged as the run is, and what is refused.
use super::{adamant, err, folder, out};
use serde_json::Value;

#[test]
fn a_run_whose_codes_are_found_by_another_method_than_was_asked_for() {
    let folder = folder();
    let at = folder.path();
    assert!(adamant(at, &["train", "run.toml", "--quiet", "--run", "r"]).status.success());
    for method in ["rtn", "gptq", "awq"] {
        let done = adamant(at, &["quantize", "r", "--scheme", "w4", "--method", method, "--f16-scales", "--calibration", "6", "--out", method, "--json"]);
        assert!(done.status.success(), "{method}: {}", err(&done));
        let told: Value = serde_json::from_str(&out(&done)).unwrap();
        let layers = told["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 2, "{told:#}");
        for layer in layers {
            assert_eq!((layer["method"].as_str(), layer["scales"].as_str(), layer["bits"].as_u64()), (Some(method), Some("f16"), Some(4)), "{layer:#}");
            assert!(method == "rtn" || layer["error_of_roundings"].as_f64().is_some_and(|e| e <= 1.0), "{layer:#}");
        }
        let judged = adamant(at, &["eval", method, "--json"]);
        assert!(judged.status.success(), "{method}: {}", err(&judged));
        let again = adamant(at, &["quantize", "r", "--scheme", "w4", "--method", method, "--out", method]);
        assert!(!again.status.success() && err(&again).contains("already"), "{method}: {}", err(&again));
    }
    // Which layers are faster is the clock's to say; that none is, is said by name.
    let faster = adamant(at, &["quantize", "r", "--scheme", "int8-dynamic", "--only-faster", "--calibration", "6", "--out", "f"]);
    let none = faster.status.code() == Some(2) && err(&faster).contains("no layer is faster as codes") && !at.join("f").exists();
    assert!(none || faster.status.success() && at.join("f/weights.safetensors").exists(), "{}", err(&faster));
    let unknown = adamant(at, &["quantize", "r", "--scheme", "w4", "--method", "gtpq", "--out", "u"]);
    assert!(unknown.status.code() == Some(2) && err(&unknown).contains("gptq"), "{}", err(&unknown));
    let uneven = adamant(at, &["quantize", "r", "--scheme", "w4", "--method", "gptq", "--group", "3", "--out", "u"]);
    assert!(uneven.status.code() == Some(2) && err(&uneven).contains("no multiple") && !at.join("u").exists(), "{}", err(&uneven));
}

#[test]
fn norms_that_are_folded_and_that_eval_or_the_report_looks_for() {
    let folder = folder();
    let at = folder.path();
    let text = std::fs::read_to_string(at.join("run.toml")).unwrap();
    let text = text.replace("{ kind = \"Tanh\" }", "{ kind = \"BatchNorm1d\", num_features = 4 }, { kind = \"ReLU\" }");
    std::fs::write(at.join("run.toml"), text).unwrap();
    assert!(adamant(at, &["train", "run.toml", "--quiet", "--run", "r"]).status.success());
    for (name, more) in [("q", &["--fuse"][..]), ("p", &[])] {
        let done = adamant(at, &[&["quantize", "r", "--scheme", "int8-static", "--calibration", "6", "--out", name, "--json"], more].concat());
        assert!(done.status.success(), "{}", err(&done));
        let told: Value = serde_json::from_str(&out(&done)).unwrap();
        let norms = told["norms"].as_array();
        assert_eq!(norms.map(|n| (n.len(), n[0]["folded_into"].as_str())), if name == "q" { Some((1, Some("0"))) } else { None }, "{told:#}");
        let judged = adamant(at, &["eval", name, "--json"]);
        assert!(judged.status.success(), "{}", err(&judged));
    }
    let file = std::fs::read(at.join("q/weights.safetensors")).unwrap();
    let text = String::from_utf8_lossy(&file);
    assert!(text.contains("folded") && !text.contains("running_mean"));
    let report = adamant(at, &["quant", "report", "q", "--rows", "6", "--times", "3", "--json"]);
    assert!(report.status.success(), "{}", err(&report));
    let told: Value = serde_json::from_str(&out(&report)).unwrap();
    let of = |path: &str| told["layers"].as_array().unwrap().iter().find(|l| l["path"] == path).cloned().unwrap();
    assert!(of("0")["signal_to_noise_db"].as_f64().is_some_and(|db| db > 20.0), "{told:#}");
    assert_eq!(of("1")["what"], "it is part of `0`", "{told:#}");
}

#[test]
fn a_report_without_a_layer_or_with_bytes_and_times_that_are_not_those_of_the_model() {
    let folder = folder();
    let at = folder.path();
    assert!(adamant(at, &["train", "run.toml", "--quiet", "--run", "r"]).status.success());
    let floats = adamant(at, &["quant", "report", "r"]);
    assert!(floats.status.code() == Some(2) && err(&floats).contains("adamant quantize"), "{}", err(&floats));
    assert!(adamant(at, &["quantize", "r", "--scheme", "int8-static", "--calibration", "6", "--out", "q"]).status.success());
    let done = adamant(at, &["quant", "report", "q", "--rows", "6", "--batch", "4", "--times", "9", "--json"]);
    assert!(done.status.success(), "{}", err(&done));
    let told: Value = serde_json::from_str(&out(&done)).unwrap();
    let layers = told["layers"].as_array().unwrap();
    let coded: Vec<&Value> = layers.iter().filter(|l| l["codes"] == true).collect();
    assert!(coded.len() == 2 && layers.len() > 2 && layers.iter().all(|l| l["what"].as_str().is_some_and(|w| !w.is_empty())), "{told:#}");
    assert!(coded.iter().all(|l| l["signal_to_noise_db"].as_f64().is_some_and(|db| db > 20.0)), "{told:#}");
    let sum = |key: &str, way: &str| layers.iter().filter_map(|l| l[key][way].as_f64()).sum::<f64>();
    for way in ["codes", "floats"] {
        assert_eq!(sum("bytes", way) + told["rest_bytes"][way].as_f64().unwrap(), told["bytes"][way].as_f64().unwrap(), "{told:#}");
        let seconds = sum("seconds", way) + told["rest_seconds"][way].as_f64().unwrap();
        assert!(seconds > 0.0 && told["seconds"][way].as_f64().unwrap() > 0.0, "{told:#}");
    }
    let file = std::fs::metadata(at.join("q/weights.safetensors")).unwrap().len();
    assert_eq!(told["bytes"]["codes"].as_u64(), Some(file));
    let page = std::fs::read_to_string(at.join("q/report.html")).unwrap();
    assert!(page.contains("Integer codes") && layers.iter().all(|l| page.contains(&format!("<bdi>{}</bdi>", l["path"].as_str().unwrap()))), "{page}");
    let text = adamant(at, &["quant", "report", "q", "--rows", "6", "--times", "3"]);
    assert!(text.status.success() && out(&text).contains("the rest") && out(&text).contains("times smaller"), "{}", err(&text));
    // Without the floats there is nothing to compare with, unless they are named.
    std::fs::rename(at.join("r"), at.join("moved")).unwrap();
    let lost = adamant(at, &["quant", "report", "q"]);
    assert!(lost.status.code() == Some(2) && err(&lost).contains("--floats"), "{}", err(&lost));
    assert!(adamant(at, &["quant", "report", "q", "--floats", "moved", "--rows", "6", "--times", "3"]).status.success());
}
