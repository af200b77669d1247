//! Runs whose ranks share the model too: on any mesh a description ends where one process ends, writes as many lines, goes on from the
//! checkpoints of any other mesh; what does not go together is refused with the line.
#![allow(clippy::unwrap_used)]

mod ranked;

use adamant_backend_cpu as _;
use adamant_core::DType;
use adamant_distributed::local::local_threads_with;
use adamant_formats::safetensors;
use adamant_train::{Failure, Report};
use ranked::train_on;
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

/// Data, pipeline, tensor.
type Axes = [usize; 3];

/// Characters that do not follow from each other, 24 of them.
fn characters(folder: &Path) {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    let text: String = (0..24).chain((0..704).map(|_| next() % 24)).map(|k| char::from(b'a' + k as u8)).collect();
    fs::write(folder.join("input.txt"), text).unwrap();
}
/// A model, what is cut of it, and how it learns; all of it by a number.
struct MeshSubject {
    text: String,
    /// `distributed.tensor`
    tensor: &'static str,
    /// may what is between pieces be cut along the sequence?
    sequence: bool,
}
const BLOCKS: &str = "{ \"wte\" = \"vocabulary\", \"head\" = \"column_gathered\", \"blocks.*.self_attn\" = \"heads\", \"blocks.*.linear1\" = \"column\", \
                      \"blocks.*.linear2\" = \"row\" }";
const SLICES: &str = "{ \"wpe\" = \"scatter\", \"lnf\" = \"apart\", \"lnf*\" = \"gather\", \"blocks.*.norm1\" = \"apart\", \"blocks.*.norm2\" = \"apart\", \"blocks.*.self_attn\" = \
                      \"heads\", \"blocks.*.linear1\" = \"column\", \"blocks.*.linear2\" = \"row\" }";
fn subject(k: usize, folder: &Path) -> MeshSubject {
    let optimizer = [
        "kind = \"SGD\"\nlr = 0.2\nmomentum = 0.9",
        "kind = \"AdamW\"\nlr = 0.01\neps = 0.01\nweight_decay = 0.1",
        "kind = \"RMSprop\"\nlr = 0.01\neps = 0.1",
        "kind = \"Adagrad\"\nlr = 0.05\neps = 0.1",
        "kind = \"NAdam\"\nlr = 0.01\neps = 0.01",
        "kind = \"Adamax\"\nlr = 0.01\neps = 0.1",
        "kind = \"SGD\"\nlr = 0.1\ngroups = [{ parameters = [\"head\", \"*.bias\"], lr = 0.05 }]",
    ][k % 7];
    let clip =
        ["clip = { kind = \"global_norm\", max_norm = 0.3 }", "", "clip = { kind = \"value\", max = 0.02 }", "clip = { kind = \"zclip\", z_warm_up = 2 }"]
            [k % 4];
    let (ema, accumulate) = (["", "[ema]\ndecay = 0.5\n"][k % 2], [1, 2, 1][k % 3]);
    let head = format!(
        "seed = {k}\niterations = 6\nbatch = 8\naccumulate = {accumulate}\nlog_every = 1\neval_every = 3\n{clip}\ncheckpoint = {{ every = 2, last = 9, best = 0 }}\n"
    );
    let tail = format!("[optimizer]\n{optimizer}\n[schedule]\nkind = \"CosineAnnealingLR\"\nT_max = 9\n{ema}");
    let stopping = "[early_stopping]\npatience = 5\nrestore_best = true\n";
    if k % 2 == 0 {
        let path = folder.join("input.txt");
        let tied = if k % 4 == 0 { "tied = \"wte\"" } else { "in_features = 16, out_features = \"$vocabulary\"" };
        let (tensor, sequence) = [(BLOCKS, false), ("auto", false), (SLICES, true)][(k / 2) % 3];
        let text = format!(
            "{head}[data]\nkind = \"text\"\npath = \"{}\"\ncontext = 8\ntest = 0.1\nvalid = 0.1\nworkers = 0\n[model]\ninit = {{ kind = \"normal\", std = 0.1 }}\nlayers = [\n\
             {{ name = \"wte\", kind = \"Embedding\", num_embeddings = \"$vocabulary\", embedding_dim = 16 }},\n\
             {{ name = \"wpe\", kind = \"PositionEmbedding\", max_length = 8, features = 16 }},\n\
             {{ name = \"blocks\", repeat = 2, kind = \"TransformerEncoderLayer\", d_model = 16, nhead = 4, dim_feedforward = 32, dropout = 0.0, activation = \"gelu\", \
             norm_first = true, is_causal = true }},\n\
             {{ name = \"lnf\", kind = \"LayerNorm\", normalized_shape = 16 }},\n{{ name = \"head\", kind = \"Linear\", {tied} }},\n]\n{tail}{stopping}",
            path.display()
        );
        return MeshSubject { text, tensor, sequence };
    }
    let text = format!(
        "{head}[data]\nkind = \"permutation\"\nclasses = 12\nrows = 60\nvalid = 0.2\nworkers = 0\n[model]\nlayers = [\n\
         {{ name = \"table\", kind = \"Embedding\", num_embeddings = 12, embedding_dim = 8 }},\n{{ name = \"fc\", kind = \"Linear\", in_features = 8, out_features = 16 }},\n\
         {{ kind = \"Tanh\" }},\n{{ name = \"proj\", kind = \"Linear\", in_features = 16, out_features = 8 }},\n{{ name = \"norm\", {} }},\n{}\
         {{ name = \"head\", kind = \"Linear\", in_features = 8, out_features = 12 }},\n]\n{tail}",
        ["kind = \"LayerNorm\", normalized_shape = 8", "kind = \"BatchNorm1d\", num_features = 8"][(k / 2) % 2],
        if k % 6 == 5 { "{ kind = \"Dropout\", p = 0.2 },\n" } else { "" }
    );
    MeshSubject { text, tensor: ["auto", "{ fc = \"column\", proj = \"row\", table = \"vocabulary\" }"][(k / 4) % 2], sequence: false }
}
fn on(subject: &MeshSubject, [data, pipeline, tensor]: Axes, more: &[String]) -> Vec<String> {
    let mut set = vec![format!("distributed.mesh={{ data = {data}, pipeline = {pipeline}, tensor = {tensor} }}")];
    set.push(if subject.tensor == "auto" { "distributed.tensor=auto".to_string() } else { format!("distributed.tensor={}", subject.tensor) });
    if subject.sequence {
        set.push("distributed.sequence_axis=1".into());
    }
    set.extend(more.iter().cloned());
    set
}
fn run(text: &str, ranks: usize, set: &[String], folder: &Path, stop: Option<u64>) -> Vec<Result<Report, Failure>> {
    train_on(text, local_threads_with(ranks, Duration::from_secs(20)).unwrap(), set, folder, stop)
}
fn weights(folder: &Path) -> BTreeMap<String, Vec<f32>> {
    let all = safetensors::load(&folder.join("weights.safetensors")).unwrap();
    all.into_iter().map(|(name, t)| (name, t.cast(DType::F32).to_vec::<f32>().unwrap())).collect()
}
/// The largest difference of two runs' weights.
fn apart(a: &Path, b: &Path) -> f64 {
    let (a, b) = (weights(a), weights(b));
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    let of = |(name, x): (&String, &Vec<f32>)| {
        assert_eq!(x.len(), b[name].len(), "{name}");
        x.iter().zip(&b[name]).map(|(x, y)| f64::from((x - y).abs())).fold(0f64, f64::max)
    };
    a.iter().map(of).fold(0f64, f64::max)
}
/// Lines of metrics: their kinds and steps, the names of their norms, and the numbers of each.
fn lines(folder: &Path) -> (Vec<String>, Vec<Vec<f64>>) {
    let text = fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    let (mut heads, mut numbers) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let norms = line["grad_norms"].as_object();
        heads.push(format!("{} {} {:?}", line["kind"], line["step"], norms.map(|n| n.keys().cloned().collect::<Vec<_>>())));
        let mut of = vec![line["loss"].as_f64(), line["valid"]["loss"].as_f64(), line["grad_norm"].as_f64()];
        of.extend(norms.into_iter().flat_map(|n| n.values().map(|v| v.as_f64())));
        numbers.push(of.into_iter().map(|v| v.unwrap_or(0.0)).collect());
    }
    (heads, numbers)
}
/// A layer whose inputs are cut adds up in another order than one process does. In f32 loss and norms of a first step are off by this at most, as a share
/// of them (batch norms of four rows are what doubles it); ..
const NEAR: f64 = 2e-6;
/// .. and so far optimizers have carried it after six steps: weights, and a share of the lines' numbers. In f64 it is 1e-12 (`mesh_trainer`, `mesh_state`).
const DRIFTED: [f64; 2] = [3e-6, 3e-5];
/// The largest difference of numbers, as a share of them.
fn share_off(want: &[f64], got: &[f64]) -> f64 {
    assert_eq!(want.len(), got.len());
    want.iter().zip(got).map(|(a, b)| (a - b).abs() / a.abs().max(1.0)).fold(0f64, f64::max)
}
fn near(alone: &Path, shared: &Path, case: &str) {
    let off = apart(alone, shared);
    let ((want, numbers), (heads, got)) = (lines(alone), lines(shared));
    assert_eq!(heads, want, "{case}");
    let (first, all) = (share_off(&numbers[0], &got[0]), share_off(&numbers.concat(), &got.concat()));
    assert!(first <= NEAR && off <= DRIFTED[0] && all <= DRIFTED[1], "{case}: the first line is off by {first:e}, weights by {off:e}, lines by {all:e}");
}
/// Without pieces of layers nothing is added in another order.
fn same(alone: &Path, shared: &Path, case: &str) {
    let ((want, numbers), (heads, got)) = (lines(alone), lines(shared));
    assert_eq!(heads, want, "{case}");
    for (a, b) in numbers.iter().zip(&got) {
        // Norms that are only looked at one process without parts adds up in f32.
        assert_eq!(a[..2], b[..2], "{case}");
        assert!(share_off(a, b) <= NEAR, "{case}: {a:?} {b:?}");
    }
    let bytes = |folder: &Path| fs::read(folder.join("weights.safetensors")).unwrap();
    assert!(bytes(alone) == bytes(shared), "{case}: weights off by {:e}", apart(alone, shared));
}
/// The meshes that a subject is run on: all of four ranks, in turns those of two, three and eight.
fn meshes(k: usize) -> Vec<Axes> {
    let of_four = [[1, 1, 4], [1, 2, 2], [2, 2, 1], [2, 1, 2], [1, 4, 1], [4, 1, 1]];
    let others = [[2, 2, 2], [1, 1, 2], [1, 2, 1], [1, 3, 1], [3, 2, 1]];
    vec![of_four[k % 6], of_four[(k + 1 + k / 6) % 6], of_four[(k + 3) % 6], others[k % 5]]
}
fn ended(done: Vec<Result<Report, Failure>>, case: &str) {
    for (rank, done) in done.into_iter().enumerate() {
        let report = done.unwrap_or_else(|e| panic!("rank {rank}, {case}: {e}"));
        assert!(report.test.loss.is_finite(), "{case}");
    }
}
#[test]
fn a_mesh_that_ends_elsewhere_than_one_process() {
    let place = tempfile::tempdir().unwrap();
    characters(place.path());
    let schedules = ["gpipe", "1f1b", "interleaved"];
    for k in 0..14 {
        let subject = subject(k, place.path());
        let mut alone: BTreeMap<usize, std::path::PathBuf> = BTreeMap::new();
        for (m, axes) in meshes(k).into_iter().enumerate() {
            let [data, pipeline, _] = axes;
            // On stages other masks are drawn.
            if pipeline > 1 && subject.text.contains("Dropout") {
                continue;
            }
            let schedule = if pipeline == 2 && data < 3 { schedules[(k + m) % 3] } else { schedules[(k + m) % 2] };
            let more = [format!("distributed.schedule={schedule}"), "distributed.micro_batches=1".into()];
            let more = if schedule == "interleaved" { &more[..1] } else { &more[..] };
            // A batch norm sees a micro-batch: one, or none is the same.
            if schedule == "interleaved" && subject.text.contains("BatchNorm") && pipeline > 1 {
                continue;
            }
            let alone = alone.entry(data).or_insert_with(|| {
                let folder = place.path().join(format!("{k}-alone-{data}"));
                ended(run(&subject.text, 1, &[format!("distributed.shards={data}")], &folder, None), &format!("alone, of\n{}", subject.text));
                folder
            });
            let folder = place.path().join(format!("{k}-on-{data}-{pipeline}-{}", axes[2]));
            let case = format!("{k}: {axes:?}, {schedule}, of\n{}", subject.text);
            ended(run(&subject.text, axes.iter().product(), &on(&subject, axes, more), &folder, None), &case);
            if axes[2] == 1 && (pipeline == 1 || schedule != "interleaved") {
                same(alone, &folder, &case);
            } else {
                near(alone, &folder, &case);
            }
        }
    }
}
/// Every schedule has the bits of a process that takes the micro-batches one by one.
#[test]
fn micro_batches_that_add_up_otherwise() {
    let place = tempfile::tempdir().unwrap();
    for k in [1, 9, 13] {
        let subject = subject(k, place.path());
        let clip = ["clip={ kind = \"global_norm\", max_norm = 0.3 }".to_string()];
        let alone = place.path().join(format!("{k}-one-by-one"));
        let one_by_one = [&clip[..], &["batch=2".into(), "accumulate=4".into()]].concat();
        ended(run(&subject.text, 1, &one_by_one, &alone, None), &subject.text);
        for (axes, schedule) in [([1, 2, 1], "gpipe"), ([1, 2, 1], "1f1b"), ([1, 2, 1], "interleaved"), ([1, 4, 1], "gpipe"), ([1, 4, 1], "1f1b")] {
            let folder = place.path().join(format!("{k}-{axes:?}-{schedule}"));
            let case = format!("{k}: {axes:?}, {schedule}, of\n{}", subject.text);
            let more = [&clip[..], &["accumulate=1".into(), "distributed.micro_batches=4".into(), format!("distributed.schedule={schedule}")]].concat();
            ended(run(&subject.text, axes.iter().product(), &on(&subject, axes, &more), &folder, None), &case);
            // Validation has other batches.
            let learned = |folder: &Path| -> Vec<f64> {
                let (heads, numbers) = lines(folder);
                heads.into_iter().zip(numbers).filter(|(head, _)| head.starts_with("\"step")).map(|(_, of)| of[0]).collect()
            };
            assert_eq!(learned(&alone), learned(&folder), "{case}");
            assert_eq!(apart(&alone, &folder), 0.0, "{case}");
        }
    }
}
#[test]
fn a_run_that_another_mesh_does_not_go_on_with() {
    let place = tempfile::tempdir().unwrap();
    characters(place.path());
    let of_four: [Axes; 6] = [[1, 1, 4], [1, 2, 2], [2, 2, 1], [4, 1, 1], [1, 4, 1], [2, 1, 2]];
    for k in [0, 1, 6] {
        let subject = subject(k, place.path());
        let more = ["distributed.shards=4".to_string(), "distributed.micro_batches=1".into(), "distributed.schedule=1f1b".into()];
        let alone = place.path().join(format!("{k}-undisturbed"));
        ended(run(&subject.text, 1, &more[..1], &alone, None), "undisturbed");
        for (m, from) in of_four.into_iter().enumerate() {
            // Each to two others, the last of which is one process.
            for to in [of_four[(m + 1 + k) % 6], [1, 1, 1]] {
                let folder = place.path().join(format!("{k}-{from:?}-{to:?}"));
                let case = format!("{k}: from {from:?} to {to:?}, of\n{}", subject.text);
                let stopped = run(&subject.text, 4, &on(&subject, from, &more), &folder, Some(3));
                assert!(stopped.iter().all(|done| matches!(done, Err(Failure::Interrupted { step: 3, .. }))), "{case}: {stopped:?}");
                let set = if to == [1, 1, 1] { more[..1].to_vec() } else { on(&subject, to, &more) };
                ended(run(&subject.text, to.iter().product(), &set, &folder, None), &case);
                if from[2] == 1 && to[2] == 1 {
                    same(&alone, &folder, &case);
                } else {
                    near(&alone, &folder, &case);
                }
            }
        }
    }
}
const REFUSED: &str = r#"seed = 1
epochs = 1
batch = 8
[data]
kind = "permutation"
classes = 12
rows = 60
workers = 0
[model]
layers = [
    { name = "table", kind = "Embedding", num_embeddings = 12, embedding_dim = 8 },
    { name = "fc", kind = "Linear", in_features = 8, out_features = 16 },
    { kind = "Tanh" },
    { name = "proj", kind = "Linear", in_features = 16, out_features = 8 },
    { name = "norm", kind = "LayerNorm", normalized_shape = 8 },
    { name = "head", kind = "Linear", in_features = 8, out_features = 12 },
]
[optimizer]
kind = "SGD"
[distributed]
"#;
#[test]
fn what_a_mesh_cannot_be() {
    let place = tempfile::tempdir().unwrap();
    let tensor = "mesh = { tensor = 2 }\n";
    let stages = "mesh = { pipeline = 2 }\n";
    let cases: Vec<(String, Vec<&str>, usize, &str)> = vec![
        // What follows from the keys.
        ("mesh = { tensors = 2 }".into(), vec![], 2, "run.toml:21: unknown key `distributed.mesh.tensors`; did you mean `tensor`?"),
        ("mesh = { data = 3 }".into(), vec![], 2, "run.toml:21: `distributed.mesh`: data 3 is 3 ranks, and 2 ranks were started"),
        ("mesh = { data = 0 }".into(), vec![], 2, "run.toml:21: `distributed.mesh.data`: an axis that is not used has 1"),
        ("mesh = { expert = 2 }".into(), vec![], 2, "run.toml:21: `distributed.mesh.expert`: no layer of a description has experts"),
        (tensor.into(), vec![], 2, "run.toml:21: `distributed.mesh.tensor`: which layers are cut is not said"),
        ("schedule = \"1f1b\"".into(), vec![], 1, "run.toml:21: `distributed.schedule`: it says nothing without a `mesh`"),
        (format!("{stages}schedule = \"2f2b\""), vec![], 2, "run.toml:22: `distributed.schedule`: `2f2b` is no schedule"),
        (format!("{stages}micro_batches = 0"), vec![], 2, "run.toml:22: `distributed.micro_batches`: it is 1 at least"),
        (format!("{stages}schedule = \"interleaved\"\nmicro_batches = 3"), vec![], 2, "run.toml:23: `distributed.micro_batches`: with 2 stretches"),
        (format!("{tensor}tensor = \"all\""), vec![], 2, "run.toml:22: `distributed.tensor`: there is no `all`"),
        (
            format!("{tensor}[distributed.tensor]\nfc = \"columns\""),
            vec![],
            2,
            "run.toml:23: `distributed.tensor.fc`: there is no `columns`; there are column, column_gathered",
        ),
        (
            format!("{tensor}[distributed.tensor]\nfcc = \"column\""),
            vec![],
            2,
            "run.toml:23: `distributed.tensor.fcc`: no layer has a path like this one; there are table, fc",
        ),
        (format!("{tensor}tensor = \"auto\"\nzero = 1"), vec![], 2, "run.toml:23: `distributed.zero`: ranks of a `mesh` hold pieces"),
        (format!("{tensor}tensor = \"auto\"\ncompress = \"bf16\""), vec![], 2, "run.toml:23: `distributed.compress`: what a rank has not sent"),
        (format!("{tensor}tensor = \"auto\"\n[precision]\nmode = \"bf16\""), vec![], 2, "run.toml:24: `precision.mode`: a model that ranks share"),
        (format!("{tensor}tensor = \"auto\""), vec!["clip={ kind = \"percentile\" }"], 2, "`clip`: `percentile` looks at gradients as a whole"),
        (
            stages.into(),
            vec!["clip={ kind = \"layer_wise\", layer_norm_thresholds = [{ layers = \"head\", max_norm = 0.1 }] }"],
            2,
            "which lie on several stages",
        ),
        ("mode = \"hybrid\"".into(), vec![], 2, "run.toml:21: `distributed.mode`: ranks that share rows and model have a `mesh`"),
        ("mode = \"dataparallel\"".into(), vec![], 2, "run.toml:21: `distributed.mode`: several devices in one process are `adamant::parallel::DataParallel`"),
        ("mode = \"rpc\"".into(), vec![], 2, "run.toml:21: `distributed.mode`: who takes remote calls runs code that a peer sends"),
        ("sync_bn = true".into(), vec![], 2, "run.toml:21: `distributed.sync_bn`: the model has no batch norm"),
        ("sync_bn = true\nshards = 4".into(), vec![], 2, "run.toml:21: `distributed.sync_bn`: a norm sees one part of each rank: 2 shards on 2 ranks, not 4"),
        (format!("{stages}sync_bn = true"), vec![], 2, "run.toml:22: `distributed.sync_bn`: stages of a pipeline see micro-batches"),
        ("retries = -1".into(), vec![], 1, "run.toml:21: `distributed.retries`"),
        // What the model says.
        (format!("{tensor}[distributed.tensor]\nfc = \"row\"\nproj = \"heads\""), vec![], 2, "run.toml:24: `distributed.tensor.proj`"),
        (format!("{tensor}[distributed.tensor]\nfc = \"column\""), vec![], 2, "these patterns do not go together"),
        (format!("{tensor}[distributed.tensor]\nhead = \"column\""), vec![], 2, "what a `column` cuts a `row` takes up"),
        (format!("{tensor}[distributed.tensor]\nfc = \"column\"\nproj = \"row\"\nnorm = \"apart\""), vec![], 2, "the gradient of norm.weight is another one"),
        ("mesh = { tensor = 5 }\ntensor = \"auto\"".into(), vec![], 5, "run.toml:22: `distributed.tensor`: no layer is cut"),
        ("mesh = { tensor = 3 }\n[distributed.tensor]\nhead = \"column_gathered\"\nfc = \"column\"".into(), vec![], 3, "run.toml:24: `distributed.tensor.fc`"),
        ("mesh = { pipeline = 3 }\nschedule = \"interleaved\"".into(), vec![], 3, "run.toml:21: `distributed.mesh`: 5 layers are trained"),
        (
            format!("{stages}schedule = \"interleaved\""),
            vec!["batch=1"],
            2,
            "takes as many micro-batches as there are stages (2), and a part of a step has 1 rows",
        ),
        (format!("{tensor}tensor = \"auto\""), vec!["optimizer.kind=LAMB"], 2, "looks at each parameter as a whole"),
        (stages.into(), vec!["stability.handling_type=restore"], 2, "is held as a whole"),
        (format!("{tensor}tensor = \"auto\""), vec!["stability.handling_type=replace"], 2, "looks at gradients as a whole"),
    ];
    for (k, (keys, set, ranks, told)) in cases.into_iter().enumerate() {
        let set: Vec<String> = set.into_iter().map(String::from).collect();
        for done in run(&format!("{REFUSED}{keys}\n"), ranks, &set, &place.path().join(format!("refused-{k}")), None) {
            let error = done.map(|_| keys.clone()).expect_err(&keys);
            assert!(error.to_string().contains(told), "{keys} {set:?}: {error}");
            assert!([2, 4].contains(&error.exit_code()), "{keys}: {error}");
        }
    }
}
/// Batch norms of several ranks see what one process sees.
#[test]
fn norms_that_see_their_own_rows() {
    let place = tempfile::tempdir().unwrap();
    let text =
        REFUSED.replace("kind = \"LayerNorm\", normalized_shape = 8", "kind = \"BatchNorm1d\", num_features = 8").replace("epochs = 1", "iterations = 7");
    let alone = place.path().join("alone");
    ended(run(&text, 1, &[], &alone, None), "alone");
    let plain = place.path().join("plain");
    ended(run(&text, 4, &["distributed.shards=4".into()], &plain, None), "each its own");
    assert!(apart(&alone, &plain) > 1e-4, "norms of their own rows do the same");
    for (ranks, mesh) in [(2, ""), (4, ""), (4, "{ data = 2, tensor = 2 }")] {
        let folder = place.path().join(format!("{ranks}{}", mesh.len()));
        let mut set = vec!["distributed.sync_bn=true".to_string()];
        if !mesh.is_empty() {
            set.extend([format!("distributed.mesh={mesh}"), "distributed.tensor=auto".into()]);
        }
        ended(run(&text, ranks, &set, &folder, None), mesh);
        near(&alone, &folder, &format!("{ranks} ranks {mesh}"));
    }
}
/// Which parameters have gradients is found out before each step: the bits of a graph that never changes.
#[test]
fn a_graph_that_may_change_and_ends_elsewhere() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    ended(run(REFUSED, 2, &[], &at("static"), None), "static");
    ended(run(REFUSED, 2, &["distributed.static_graph=false".into()], &at("changing"), None), "changing");
    for name in ["weights.safetensors", "metrics.jsonl"] {
        assert!(fs::read(at("static").join(name)).unwrap() == fs::read(at("changing").join(name)).unwrap(), "{name}");
    }
}
/// The checkpoint of the step before a bad one is of whole tensors, too.
#[test]
fn a_bad_step_that_leaves_pieces_behind() {
    let place = tempfile::tempdir().unwrap();
    for (k, mesh) in ["{ tensor = 2 }", "{ pipeline = 2, tensor = 2 }", "{ data = 2, pipeline = 2 }"].into_iter().enumerate() {
        let folder = place.path().join(k.to_string());
        let far = ["optimizer.lr=1e25".to_string(), "distributed.shards=2".into()];
        let set = [&far[..], &[format!("distributed.mesh={mesh}"), "distributed.tensor=auto".into()]].concat();
        for done in run(REFUSED, if k == 0 { 2 } else { 4 }, &set, &folder, None) {
            assert!(matches!(done, Err(Failure::Diverged(_))), "{mesh}: {done:?}");
        }
        let newest = fs::read_dir(folder.join("checkpoints")).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
        assert!(newest > 0, "{mesh}: no checkpoint");
        // One process goes on from it, and comes to the same step.
        let done = run(REFUSED, 1, &far, &folder, None);
        assert!(matches!(done[..], [Err(Failure::Diverged(_))]), "{mesh}: {done:?}");
    }
}
