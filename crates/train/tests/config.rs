//! A description that is wrong is refused with its line and a hint, word for word as below.
#![allow(clippy::unwrap_used)]

use adamant_core::Device;
use adamant_train::{Document, Failure, train};
use std::path::Path;

const GOOD: &str = r#"seed = 1
epochs = 1
batch = 4

[data]
kind = "permutation"
classes = 5
rows = 20

[model]
layers = [
    { kind = "Embedding", num_embeddings = 5, embedding_dim = 3 },
    { kind = "Linear", in_features = 3, out_features = 5 },
]

[optimizer]
kind = "SGD"
lr = 0.1
"#;

fn run(text: &str, set: &[&str]) -> Result<adamant_train::Report, Failure> {
    let mut document = Document::parse("run.toml", text)?;
    for assignment in set {
        document.set(assignment)?;
    }
    Device::reference().scoped(|| train(&document, Path::new(""), &mut ()))
}
#[test]
fn an_error_in_a_description_that_does_not_say_where_and_what() {
    let cases: [(&str, &str, u8, &str); 23] = [
        ("epochs = 1", "epoch = 1", 4, "run.toml:2: unknown key `epoch`; did you mean `epochs`?"),
        ("batch = 4", "batch = 4\nbatches = 3", 4, "run.toml:4: unknown key `batches`; did you mean `batch`?"),
        (
            "batch = 4",
            "batch = 4\ncolour = 3",
            4,
            "run.toml:4: unknown key `colour`; there are accumulate, alerts, batch, capture, checkpoint, class_weights, clip, data, device, distill, distributed, early_stopping, ema, epochs, eval_every, freeze, init_from, iterations, label_smoothing, log_every, loss, loss_options, model, optimizer, precision, quantize, schedule, seed, stability, weights",
        ),
        ("batch = 4", "batch = -4", 4, "run.toml:3: `batch` takes an integer from 0 to 2147483647, not a negative integer"),
        ("batch = 4", "batch = 0", 4, "run.toml:3: `batch`: at least one row is needed"),
        ("batch = 4", "batch = \"four\"", 4, "run.toml:3: `batch` takes an integer from 0 to 2147483647, not a text"),
        ("batch = 4", "batch = ", 4, "run.toml:3: string values must be quoted, expected literal string"),
        ("\"SGD\"", "\"SGDD\"", 4, "run.toml:17: `optimizer.kind`: there is no `SGDD`; did you mean `SGD`?"),
        (
            "lr = 0.1",
            "learning_rate = 0.1",
            4,
            "run.toml:18: unknown key `optimizer.learning_rate`; there are dampening, groups, kind, lr, maximize, momentum, nesterov, weight_decay",
        ),
        ("lr = 0.1", "lr = -0.1", 4, "run.toml:18: `optimizer.lr`: lr is -0.1, it must be a number from 0 on"),
        ("lr = 0.1", "momentun = 0.1", 4, "run.toml:18: unknown key `optimizer.momentun`; did you mean `momentum`?"),
        ("\"Linear\", in_features = 3", "\"Linear\", in_feature = 3", 4, "run.toml:13: unknown key `model.layers.1.in_feature`; did you mean `in_features`?"),
        ("out_features = 5 }", "out_features = 5, bais = false }", 4, "run.toml:13: unknown key `model.layers.1.bais`; did you mean `bias`?"),
        ("\"Embedding\"", "\"Embeding\"", 4, "run.toml:12: `model.layers.0.kind`: there is no `Embeding`; did you mean `Embedding`?"),
        (
            "embedding_dim = 3",
            "embedding_dim = 3, padding_idx = 9",
            4,
            "run.toml:12: `model.layers.0.padding_idx`: Embedding: padding_idx 9 is outside a table of 5 rows",
        ),
        (
            "kind = \"permutation\"\nclasses = 5\nrows = 20",
            "kind = \"csv\"\npath = \"gone.csv\"\nlabel = 0\nclasses = 5\ntest = { modulo = 2, equals = 1 }",
            4,
            "run.toml:7: `data.path`: gone.csv: No such file or directory (os error 2)",
        ),
        ("batch = 4", "batch = 4\nclip = { kind = \"norm\", max = 0 }", 4, "run.toml:4: `clip.max`: gradients can be clipped only at a positive number"),
        ("batch = 4", "batch = 4\nclip = { kind = \"percentil\" }", 4, "run.toml:4: `clip.kind`: there is no `percentil`; did you mean `percentile`?"),
        (
            "batch = 4",
            "batch = 4\nclip = { kind = \"exponential\", exponential_alpha = 1.5 }",
            4,
            "run.toml:4: `clip.exponential_alpha`: exponential_alpha is 1.5, it must lie between 0 and 1",
        ),
        (
            "batch = 4",
            "batch = 4\nclip = { kind = \"percentile\", percentile_threshold = 101 }",
            4,
            "run.toml:4: `clip.percentile_threshold`: percentile_threshold is 101, it must be above 0 and at most 100",
        ),
        (
            "batch = 4",
            "batch = 4\nclip = { kind = \"agc\", max_norm = 1.0 }",
            4,
            "run.toml:4: unknown key `clip.max_norm`; there are agc_clipping, agc_eps, kind",
        ),
        (
            "batch = 4",
            "batch = 4\nclip = { kind = \"norm\", max = 1.0, max_norm = 1.0 }",
            4,
            "run.toml:4: `clip.max`: it is short for `max_norm`, which is there too; say one of them",
        ),
        (
            "batch = 4",
            "batch = 4\n[clip]\nkind = \"layer_wise\"\nlayer_norm_thresholds = [{ layers = \"hea\", max_norm = 0.1 }]",
            4,
            "run.toml:6: `clip.layer_norm_thresholds.0.layers`: no layer that is trained is met by `hea`",
        ),
    ];
    for (from, to, code, says) in cases {
        assert!(GOOD.contains(from), "{from}");
        let failure = run(&GOOD.replace(from, to), &[]).unwrap_err();
        let text = failure.to_string();
        assert!(text == says || (code == 4 && text.starts_with(says)), "\n got: {text}\nwant: {says}");
        assert_eq!(failure.exit_code(), code, "{text}");
    }
}
#[test]
fn a_value_of_the_command_line_that_is_not_taken() {
    let report = run(
        GOOD,
        &["seed=7", "epochs = 2", "optimizer.lr=1e-2", "model.layers.0.embedding_dim=4", "model.layers.1.in_features=4", "clip={ kind = \"norm\", max = 1.0 }"],
    )
    .unwrap();
    assert_eq!((report.plan.seed, report.plan.epochs, report.losses.len(), report.plan.parameters), (7, Some(2), 2, 5 * 4 + 4 * 5 + 5));
    assert_eq!(report.plan.clip, "norm (max_norm 1)");
    for (assignment, says) in [
        ("seeed=1", "--set: unknown key `seeed`; did you mean `seed`?"),
        ("seed", "--set seed: write key=value"),
        ("seed.x=1", "--set seed.x=1: `x` lies inside an integer, not a table"),
        ("model.layers.9.p=1", "--set model.layers.9.p=1: `9` is no element of a list of 2"),
        ("optimizer.kind=Adan", "--set: `optimizer.kind`: there is no `Adan`; did you mean `Adam`?"),
    ] {
        let failure = run(GOOD, &[assignment]).unwrap_err();
        assert_eq!((failure.to_string().as_str(), failure.exit_code()), (says, 2));
    }
}
#[test]
fn a_run_that_does_not_follow_from_its_seed() {
    let losses = |seed: &str| run(GOOD, &[seed, "epochs=3"]).unwrap().losses;
    assert_eq!(losses("seed=1"), losses("seed=1"));
    assert_ne!(losses("seed=1"), losses("seed=2"));
}
#[test]
fn a_table_that_is_not_learned_by_heart() {
    let report = run(GOOD, &["epochs=40", "optimizer.kind=Adam", "optimizer.lr=0.03"]).unwrap();
    assert!(report.losses.windows(2).filter(|w| w[1] < w[0]).count() > 30, "{:?}", report.losses);
    assert_eq!(report.test.accuracy, Some(1.0));
}
#[test]
fn a_run_that_diverges_and_ends_well() {
    let failure = run(GOOD, &["epochs=30", "optimizer.lr=1e30"]).unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    assert!(
        failure.to_string().starts_with("step 2: -Inf at [1, 0], made by linear in 1 (forward): training has diverged; nothing of the step was kept"),
        "{failure}"
    );
}
