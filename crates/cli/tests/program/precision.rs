//! `[precision]` in the verbs: what a run has trained in 16 or 8 bits is judged and timed in them.
use super::{adamant, err, folder, out};
use serde_json::Value;
use std::{fs, path::Path};

fn document(folder: &Path, arguments: &[&str]) -> Value {
    let output = adamant(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {} {}", out(&output), err(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}
/// Trains the table in a mode, into the folder `r`; gives what its result says of the test part.
fn trained(folder: &Path, mode: &str) -> Value {
    let set = format!("precision.mode={mode}");
    let output = adamant(folder, &["train", "run.toml", "--quiet", "--run", "r", "--set", &set, "--set", "optimizer.lr=0.5"]);
    assert_eq!(output.status.code(), Some(0), "{mode}: {}", err(&output));
    let result: Value = serde_json::from_slice(&fs::read(folder.join("r/result.json")).unwrap()).unwrap();
    result["metrics"]["test"].clone()
}
/// The run's description says f32 from now on.
fn forget(folder: &Path, mode: &str) {
    let config = folder.join("r/config.toml");
    let text = fs::read_to_string(&config).unwrap();
    let plain = text.replace(&format!("mode = \"{mode}\""), "mode = \"f32\"");
    assert_ne!(plain, text);
    fs::write(config, plain).unwrap();
}

#[test]
fn a_run_in_16_or_8_bits_that_is_judged_in_f32() {
    for mode in ["bf16", "f16", "fp8"] {
        let folder = folder();
        let kept = trained(folder.path(), mode);
        let eval = || document(folder.path(), &["eval", "r", "--json"]);
        let judged = eval();
        assert!(kept["loss"].is_f64() && kept["accuracy"].is_f64(), "{kept}");
        for figure in ["loss", "accuracy", "rows"] {
            assert_eq!(judged[figure], kept[figure], "{mode}: {figure}");
        }
        // In f32 the same weights give another loss: else this shows nothing.
        forget(folder.path(), mode);
        assert_ne!(eval()["loss"], kept["loss"], "{mode}");
    }
}
/// Are products of a `bench` rounded to 16 bits where they are stored? The kernels' names tell.
#[cfg(feature = "profiling")]
fn rounds(folder: &Path, arguments: &[&str]) -> bool {
    let told =
        document(folder, &[&["bench", "--seconds", "0", "--json", "--device", "cpu", "--trace", "trace.json", "--report", "report.json"], arguments].concat());
    let trace: Value = serde_json::from_slice(&fs::read(folder.join("trace.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let products: Vec<&str> = events.iter().filter_map(|e| e["name"].as_str()).filter(|name| name.contains("matmul")).collect();
    let rounded = products.iter().filter(|name| name.contains("cast")).count();
    assert!(!products.is_empty() && [0, products.len()].contains(&rounded), "{products:?}");
    let record = adamant_bench::record::Record::read(&folder.join("report.json")).unwrap().remove(0);
    assert!(record.cases.len() == 1 && told["precision"].as_str().unwrap().starts_with(&*record.cases[0].dtype), "{told} {:?}", record.cases);
    assert_eq!(record.cases[0].dtype == "f32", rounded == 0, "{told}");
    rounded > 0
}
#[cfg(feature = "profiling")]
#[test]
fn a_model_of_16_or_8_bits_that_is_timed_in_f32() {
    let folder = folder();
    assert!(!rounds(folder.path(), &["run.toml"]));
    for mode in ["bf16", "f16", "fp8"] {
        fs::write(folder.path().join("low.toml"), format!("{}[precision]\nmode = \"{mode}\"\n", super::RUN)).unwrap();
        // Of a description with and without its data, and of a run.
        assert!(rounds(folder.path(), &["low.toml"]) && rounds(folder.path(), &["low.toml", "--input", "2"]), "{mode}");
        let _ = fs::remove_dir_all(folder.path().join("r"));
        trained(folder.path(), mode);
        assert!(rounds(folder.path(), &["r"]), "{mode}");
        let text = out(&adamant(folder.path(), &["bench", "r", "--seconds", "0"]));
        assert!(text.contains(&format!("\nprecision {mode}")), "{text}");
    }
}

/// A char-GPT with a table that reads the answers out too, dropout and clipping: larger than one block of a product, uneven at its ends.
const GPT: &str = r#"
seed = 5
batch = 6
log_every = 2
clip = { kind = "norm", max = 1.0 }
[data]
kind = "text"
path = "input.txt"
context = 40
test = 0.2
[model]
init = { kind = "normal", std = 0.02 }
layers = [
    { name = "wte", kind = "Embedding", num_embeddings = "$vocabulary", embedding_dim = 72 },
    { name = "wpe", kind = "PositionEmbedding", max_length = 40, features = 72 },
    { name = "blocks", repeat = 2, kind = "TransformerEncoderLayer", d_model = 72, nhead = 3, dim_feedforward = 200, activation = "gelu_tanh", norm_first = true, is_causal = true, dropout = 0.1 },
    { name = "lnf", kind = "LayerNorm", normalized_shape = 72 },
    { name = "head", kind = "Linear", tied = "wte" },
]
[optimizer]
kind = "AdamW"
lr = 3e-3
[precision]
mode = "bf16"
"#;
/// The steps that are compared: a few, unless the environment asks for more (50 are what is promised).
const STEPS: &str = "ADAMANT_PRECISION_STEPS";

#[test]
fn bf16_whose_bits_depend_on_threads_instructions_or_capture() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let steps = std::env::var(STEPS).unwrap_or_else(|_| "5".into());
    fs::write(place.join("gpt.toml"), GPT).unwrap();
    fs::write(place.join("input.txt"), "Was it a car, or a cat, I saw? No lemon; no melon! ".repeat(60)).unwrap();
    let sets: Vec<String> = serde_json::from_value(document(place, &["info", "--json"])["cpu"]["instruction_sets"].clone()).unwrap();
    assert!(sets.contains(&"scalar".to_string()), "{sets:?}");
    let in_set = |isa: &str, arguments: &[&str]| {
        let output = super::command(place, arguments).env("ADAMANT_ISA", isa).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{isa} {arguments:?}: {}", err(&output));
        output
    };
    let set = format!("iterations={steps}");
    let mut seen: Vec<(String, [Vec<u8>; 2])> = Vec::new();
    for isa in &sets {
        for (threads, capture) in ["1", "2", "4", "8"].iter().flat_map(|t| [(t, "true"), (t, "false")]) {
            let (run, captured) = (format!("{isa}-{threads}-{capture}"), format!("capture={capture}"));
            let train = ["train", "gpt.toml", "--quiet", "--device", "cpu", "--threads", threads, "--set", &set, "--set", &captured, "--run", &run];
            in_set(isa, &train);
            seen.push((run.clone(), ["weights.safetensors", "metrics.jsonl"].map(|name| fs::read(place.join(&run).join(name)).unwrap())));
        }
    }
    let strangers: Vec<&String> = seen.iter().filter(|(_, files)| *files != seen[0].1).map(|(run, _)| run).collect();
    assert!(strangers.is_empty(), "after {steps} steps of bf16 other bits than those of {}: {strangers:?}", seen[0].0);
    // Without gradients products have other ends.
    let run = format!("{}-1-true", sets[0]);
    let judge = |isa: &str, threads: &str| {
        let said = in_set(isa, &["eval", &run, "--json", "--device", "cpu", "--threads", threads]).stdout;
        serde_json::from_slice::<Value>(&said).unwrap()["loss"].as_f64().unwrap()
    };
    let wanted = judge(&sets[0], "1");
    assert!(wanted.is_finite());
    for (isa, threads) in sets.iter().flat_map(|isa| ["1", "2", "8"].map(|threads| (isa, threads))) {
        assert!(judge(isa, threads) == wanted, "{isa}, {threads} threads");
    }
}
