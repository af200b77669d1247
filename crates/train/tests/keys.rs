//! A key that is wrong is found by its line, whatever is wrong with it, and a misspelt one is seen through.
#![allow(clippy::unwrap_used)]

use adamant_core::{DType, Device};
use adamant_train::{Document, summarise, validate};
use std::path::Path;

const GOOD: &str = r#"seed = 1
epochs = 1
batch = 4
accumulate = 2
log_every = 5
label_smoothing = 0.1
clip = { kind = "norm", max = 1.0 }

[data]
kind = "permutation"
classes = 5
rows = 20
workers = 0

[model]
init = { kind = "normal", std = 0.02 }
layers = [
    { kind = "Embedding", num_embeddings = 5, embedding_dim = 4 },
    { kind = "Unflatten", dim = 1, unflattened_size = [1, 2, 2] },
    { kind = "Conv2d", in_channels = 1, out_channels = 2, kernel_size = 1, padding = 0, groups = 1 },
    { kind = "MaxPool2d", kernel_size = 2, stride = 2 },
    { kind = "Flatten", start_dim = 1 },
    { kind = "LayerNorm", normalized_shape = 2, eps = 1e-5 },
    { kind = "Dropout", p = 0.1 },
    { name = "head", kind = "Linear", in_features = 2, out_features = 5, bias = true },
]

[optimizer]
kind = "AdamW"
lr = 0.1
betas = [0.9, 0.99]
weight_decay = 0.01

[schedule]
kind = "OneCycleLR"
max_lr = 0.1
pct_start = 0.3

[checkpoint]
every = 5
last = 3
best = 1
background = true
on_error = "stop"

[quantize]
scheme = "int8-static"
bits = 4
group = 1
symmetric = true
skip = ["head"]
freeze_observers_after = 3
freeze_norms_after = 4
learned_steps = false

[precision]
mode = "f16"
table = "torch"
keep = ["head"]
enable_fallback_to_fp32 = true
fallback_after = 2
max_fp32_fallbacks = 4
patience = 30
schedule_on = "applied"
scaler = { init_scale = 1024.0, growth_factor = 2.0, backoff_factor = 0.5, growth_interval = 100, hysteresis = 2 }
"#;

fn faults(text: &str) -> Vec<String> {
    let document = match Document::parse("run.toml", text) {
        Ok(document) => document,
        Err(e) => return vec![e.to_string()],
    };
    validate(&document, Path::new("")).faults.iter().map(ToString::to_string).collect()
}
/// Each `key = value` of the description: line, byte, key.
fn keys() -> Vec<(usize, usize, String)> {
    let mut keys = Vec::new();
    let mut at = 0;
    for (k, line) in GOOD.lines().enumerate() {
        for (equals, _) in line.match_indices(" = ") {
            let begin = line[..equals].rfind([' ', '{', ',']).map_or(0, |b| b + 1);
            keys.push((k + 1, at + begin, line[begin..equals].to_string()));
        }
        at += line.len() + 1;
    }
    keys
}
fn with(at: usize, old: &str, new: &str) -> String {
    format!("{}{new}{}", &GOOD[..at], &GOOD[at + old.len()..])
}

#[test]
fn a_key_whose_misspelling_is_not_seen_through() {
    assert_eq!(faults(GOOD), [""; 0]);
    let (mut seen, mut all) = (0, 0);
    for (line, at, key) in keys() {
        let letters: Vec<char> = key.chars().collect();
        let mut wrong: Vec<String> = Vec::new();
        for k in 0..letters.len() {
            let mut missing = letters.clone();
            missing.remove(k);
            let mut more = letters.clone();
            more.insert(k, 'z');
            wrong.extend([missing.into_iter().collect(), more.into_iter().collect()]);
            if k > 0 && letters[k] != letters[k - 1] {
                let mut swapped = letters.clone();
                swapped.swap(k, k - 1);
                wrong.push(swapped.into_iter().collect());
            }
        }
        wrong.push(key.to_uppercase());
        for name in wrong.into_iter().filter(|w| !w.is_empty() && *w != key) {
            let told = faults(&with(at, &key, &name));
            let first = told.first().cloned().unwrap_or_default();
            assert!(first.starts_with(&format!("run.toml:{line}: ")), "{key} as {name}: {told:?}");
            all += 1;
            seen += usize::from(first.contains(&format!("did you mean `{key}`?")));
        }
    }
    assert!(all > 800 && seen as f64 >= 0.95 * all as f64, "{seen} of {all}");
}
#[test]
fn a_value_of_another_type_that_is_taken_or_told_elsewhere() {
    for (line, at, key) in keys() {
        let rest = &GOOD[at..].lines().next().unwrap()[key.len() + 3..];
        // Values of the table end at a comma or brace outside of brackets.
        let mut depth = 0i32;
        let end = rest
            .char_indices()
            .find(|(_, c)| {
                depth += i32::from("[{".contains(*c)) - i32::from("]}".contains(*c));
                depth < 0 || (depth == 0 && *c == ',') || (depth == 0 && *c == ' ' && rest.ends_with('}') && !rest.starts_with(['[', '{']))
            })
            .map_or(rest.len(), |(k, _)| k);
        let value = rest[..end].trim_end();
        if key == "layers" {
            continue;
        }
        for other in ["nan", "inf", "-1e400", "1979-05-27", "99999999999999999999", "{ a = 1 }", "[[1]]"] {
            let told = faults(&with(at + key.len() + 3, value, other));
            assert!(told.iter().any(|t| t.starts_with(&format!("run.toml:{line}: ")) && t.contains(&key)), "{key} = {other} for {value}: {told:?}");
        }
    }
}
#[test]
fn a_size_of_nothing_that_is_told_of_another_key() {
    for (old, new, says) in [
        ("kernel_size = 1", "kernel_size = 0", "run.toml:20: `model.layers.2.kernel_size`: it is at least 1, not 0"),
        ("kernel_size = 2", "kernel_size = [2, 0]", "run.toml:21: `model.layers.3.kernel_size`: it is at least 1, not 0"),
        ("stride = 2", "stride = 0", "run.toml:21: `model.layers.3.stride`: it is at least 1, not 0"),
        ("groups = 1", "groups = 0", "run.toml:20: `model.layers.2.groups`: it is at least 1, not 0"),
        ("groups = 1", "dilation = 0", "run.toml:20: `model.layers.2.dilation`: it is at least 1, not 0"),
        ("out_channels = 2", "out_channels = 0", "run.toml:20: `model.layers.2.out_channels`: it is at least 1, not 0"),
        ("out_features = 5", "out_features = 0", "run.toml:25: `model.layers.7.out_features`: it is at least 1, not 0"),
    ] {
        assert_eq!(faults(&GOOD.replacen(old, new, 1)), [says], "{new}");
    }
}
#[test]
fn a_window_that_is_longer_than_a_part_and_told_of_the_data() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("input.txt"), "Once upon a time. ".repeat(20)).unwrap();
    let text = "epochs = 1\nbatch = 1\n[data]\nkind = \"text\"\npath = \"input.txt\"\ncontext = 400\ntest = 0.1\n[model]\n\
                layers = [{ kind = \"Embedding\", num_embeddings = \"$vocabulary\", embedding_dim = 4 }]\n[optimizer]\nkind = \"SGD\"\n";
    let found = Device::reference().scoped(|| validate(&Document::parse("run.toml", text).unwrap(), folder.path()));
    let said: Vec<String> = found.faults.iter().map(ToString::to_string).collect();
    assert!(said.len() == 1 && said[0].starts_with("run.toml:6: `data.context`: windows of 400 tokens leave 0 rows to train on and 0 to test on"), "{said:?}");
}
#[test]
fn a_second_fault_that_the_first_one_hides() {
    let cases: [(&[(&str, &str)], &[&str]); 5] = [
        (
            &[("epochs = 1", "epoch = 1"), ("lr = 0.1\nb", "lr = \"x\"\nb")],
            &["run.toml:2: unknown key `epoch`; did you mean `epochs`?", "run.toml:30: `optimizer.lr` takes"],
        ),
        (
            &[("[optimizer]", "[optimiser]"), ("batch = 4", "bacth = 4")],
            &["run.toml:3: unknown key `bacth`; did you mean `batch`?", "run.toml:28: unknown key `optimiser`; did you mean `optimizer`?"],
        ),
        (
            &[("classes = 5", "clases = 5"), ("rows = 20", "rwos = 20")],
            &["run.toml:11: unknown key `data.clases`; did you mean `classes`?", "run.toml:12: unknown key `data.rwos`; did you mean `rows`?"],
        ),
        (
            &[("in_channels = 1", "in_chanels = 1"), ("out_features = 5", "out_featrues = 5")],
            &["run.toml:20: unknown key `model.layers.2.in_chanels`", "run.toml:25: unknown key `model.layers.7.out_featrues`"],
        ),
        (
            &[("batch = 4", "batch = 0"), ("log_every = 5", "log_every = 0")],
            &["run.toml:3: `batch`: at least one row", "run.toml:5: `log_every`: at least one step"],
        ),
    ];
    for (edits, says) in cases {
        let text = edits.iter().fold(GOOD.to_string(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
        let told = faults(&text);
        assert!(told.len() == says.len() && told.iter().zip(says).all(|(t, s)| t.starts_with(s)), "\n got: {told:#?}\nwant: {says:#?}");
    }
}
#[test]
fn a_model_that_takes_memory_to_be_looked_at() {
    let document = Document::parse(
        "run.toml",
        "[model]\nlayers = [{ kind = \"Embedding\", num_embeddings = 2000000000, embedding_dim = 1000000, padding_idx = 0 }, { kind = \"GRU\", input_size = 1000000, hidden_size = 2000000, batch_first = true }]",
    )
    .unwrap();
    let failure = summarise(&document, Path::new(""), Some((vec![64], DType::I64)), Some(8)).map(|s| s.summary.parameters);
    // The embedding alone is 2e15 numbers, the network 1.8e13.
    assert_eq!(failure.unwrap(), 2_000_000_000 * 1_000_000 + 3 * 2_000_000 * (1_000_000 + 2_000_000 + 2));
    assert!(Device::reference().memory().peak_bytes < 1 << 30, "numbers were drawn");
}
