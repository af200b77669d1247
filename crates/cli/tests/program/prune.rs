//! A run's model with fewer channels or with zeros: by each method a folder that is judged as the run is, and what is refused.
use super::{adamant, err, folder, out};
use serde_json::Value;

fn told(at: &std::path::Path, args: &[&str]) -> Value {
    let done = adamant(at, args);
    assert!(done.status.success(), "{args:?}: {}", err(&done));
    serde_json::from_str(&out(&done)).unwrap()
}
#[test]
fn a_pruned_model_that_is_not_read_again() {
    let folder = folder();
    let at = folder.path();
    assert!(adamant(at, &["train", "run.toml", "--quiet", "--run", "r"]).status.success());
    for method in ["l1", "l2", "taylor"] {
        let done = told(at, &["prune", "r", "--method", method, "--amount", "0.5", "--out", method, "--json"]);
        assert!(done["elements"].as_u64() < done["elements_before"].as_u64(), "{done:#}");
        assert!(done["kept"].as_array().unwrap().iter().any(|k| k["reason"] == "the model returns it"), "{done:#}");
        told(at, &["eval", method, "--json"]);
        // Codes of what is left, and less of what is left.
        told(at, &["quantize", method, "--scheme", "w8", "--out", &format!("{method}-w8"), "--json"]);
        told(at, &["eval", &format!("{method}-w8"), "--json"]);
        let again = told(at, &["prune", method, "--method", method, "--amount", "0.5", "--out", &format!("{method}-2"), "--json"]);
        assert_eq!(again["elements_before"], done["elements"]);
        told(at, &["eval", &format!("{method}-2"), "--json"]);
        let sparse = told(at, &["prune", method, "--method", "magnitude", "--amount", "0.5", "--out", &format!("{method}-3"), "--json"]);
        assert!(sparse["zeros"].as_u64().unwrap() > 0, "{sparse:#}");
        told(at, &["eval", &format!("{method}-3"), "--json"]);
    }
    for (method, more) in [("magnitude", "--global"), ("gradient", "--json")] {
        let done = told(at, &["prune", "r", "--method", method, "--amount", "0.75", more, "--out", method, "--json"][..if more == "--json" { 9 } else { 10 }]);
        let share = done["zeros"].as_f64().unwrap() / done["elements"].as_f64().unwrap();
        assert!((share - 0.75).abs() < 0.05, "{done:#}");
        told(at, &["eval", method, "--json"]);
    }
    let again = adamant(at, &["prune", "r", "--method", "l1", "--amount", "0.5", "--out", "l1"]);
    assert!(!again.status.success() && err(&again).contains("already"), "{}", err(&again));
    for (args, says) in [
        (vec!["--method", "l1", "--amount", "1.5"], "below 1"),
        (vec!["--method", "magnitude", "--amount", "1"], "below 1"),
        (vec!["--method", "magnitue", "--amount", "0.5"], "magnitude"),
        (vec!["--method", "l1", "--pattern", "2:4"], "single weights"),
        (vec!["--method", "magnitude", "--pattern", "2-4"], "2:4"),
        (vec!["--method", "magnitude", "--pattern", "5:4"], "5 of each 4"),
        (vec!["--method", "magnitude"], "--amount"),
    ] {
        let done = adamant(at, &[&["prune", "r", "--out", "u"][..], &args].concat());
        assert!(done.status.code() == Some(2) && err(&done).contains(says) && !at.join("u").exists(), "{args:?}: {}", err(&done));
    }
    let codes = adamant(at, &["prune", "l1-w8", "--method", "l1", "--amount", "0.5", "--out", "u"]);
    assert!(codes.status.code() == Some(2) && err(&codes).contains("codes already"), "{}", err(&codes));
}
#[test]
fn what_could_go_is_told_of_each_layer() {
    let folder = folder();
    let at = folder.path();
    assert!(adamant(at, &["train", "run.toml", "--quiet", "--run", "r"]).status.success());
    let found = told(at, &["doctor", "r", "--prune", "--json"]);
    let layers = found["layers"].as_array().unwrap();
    assert!(!layers.is_empty());
    for layer in layers {
        assert!(layer["rank"].as_u64() <= layer["full_rank"].as_u64() && layer["units"].as_u64() > Some(0), "{layer:#}");
        assert!(layer["decibels"]["8"].as_f64() > layer["decibels"]["3"].as_f64(), "{layer:#}");
    }
    assert!(adamant(at, &["quantize", "r", "--scheme", "w8", "--out", "w8"]).status.success());
    let codes = adamant(at, &["doctor", "w8", "--prune"]);
    assert!(codes.status.code() == Some(2) && err(&codes).contains("codes already"), "{}", err(&codes));
    let text = out(&adamant(at, &["doctor", "r", "--prune"]));
    ["layer", "dead", "static", "redundant", "rank", "bits"].iter().for_each(|word| assert!(text.contains(word), "{text}"));
}
