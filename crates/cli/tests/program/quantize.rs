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
    let unknown = adamant(at, &["quantize", "r", "--scheme", "w4", "--method", "gtpq", "--out", "u"]);
    assert!(unknown.status.code() == Some(2) && err(&unknown).contains("gptq"), "{}", err(&unknown));
    let uneven = adamant(at, &["quantize", "r", "--scheme", "w4", "--method", "gptq", "--group", "3", "--out", "u"]);
    assert!(uneven.status.code() == Some(2) && err(&uneven).contains("no multiple") && !at.join("u").exists(), "{}", err(&uneven));
}
