//! A hostile pass over the keys of `[distributed]`: options of which each pair of values comes together somewhere, and models. Such a description
//! ends where one process ends, or is refused with an error that names a key that was said; without that key it is tried again, until it runs.
#![allow(clippy::unwrap_used)]

mod ranked;

use adamant_backend_cpu as _;
use adamant_core::DType;
use adamant_distributed::local::local_threads_with;
use adamant_formats::safetensors;
use adamant_train::{Failure, Report};
use ranked::train_on;
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

/// A key, how an error may call it, and what may be said of it; an empty text: nothing is said.
struct KeyOption {
    key: &'static str,
    called: &'static [&'static str],
    values: &'static [&'static str],
}
const fn option(key: &'static str, called: &'static [&'static str], values: &'static [&'static str]) -> KeyOption {
    KeyOption { key, called, values }
}
const BLOCKS: &str = "{ \"blocks.*.self_attn\" = \"heads\", \"blocks.*.linear1\" = \"column\", \"blocks.*.linear2\" = \"row\", \"wte\" = \"vocabulary\" }";
const SLICES: &str = "{ \"wpe\" = \"scatter\", \"lnf\" = \"apart\", \"lnf*\" = \"gather\", \"blocks.*.norm1\" = \"apart\", \"blocks.*.norm2\" = \"apart\", \
                      \"blocks.*.self_attn\" = \"heads\", \"blocks.*.linear1\" = \"column\", \"blocks.*.linear2\" = \"row\" }";
const OPTIONS: [KeyOption; 20] = [
    option(
        "distributed.mesh",
        &["mesh"],
        &[
            "{ tensor = 2 }",
            "{ pipeline = 2 }",
            "",
            "{ pipeline = 2, tensor = 2 }",
            "{ tensor = 4 }",
            "{ pipeline = 4 }",
            "{ data = 2, pipeline = 2 }",
            "{ data = 4 }",
            "{ data = 2, expert = 2 }",
            "{}",
        ],
    ),
    option(
        "distributed.tensor",
        &["tensor"],
        &[
            "auto",
            BLOCKS,
            SLICES,
            "",
            "{}",
            "{ fc = \"column\", proj = \"row\" }",
            "{ fc = \"column\" }",
            "{ head = \"column_gathered\" }",
            "{ \"*\" = \"apart\" }",
        ],
    ),
    option("distributed.sequence_axis", &["sequence_axis", "tensor"], &["", "1", "0", "7"]),
    option("distributed.schedule", &["schedule"], &["", "gpipe", "1f1b", "interleaved", "interleaved:3"]),
    option("distributed.micro_batches", &["micro_batches"], &["", "1", "3", "1000"]),
    option("distributed.shards", &["shards"], &["", "2", "4", "5"]),
    option("distributed.mode", &["mode"], &["", "hybrid", "distributed", "none", "rpc"]),
    option("distributed.zero", &["zero"], &["", "0", "1", "3"]),
    option("distributed.compress", &["compress"], &["", "none", "bf16"]),
    option("distributed.sync_bn", &["sync_bn"], &["", "true", "false"]),
    option("distributed.static_graph", &["static_graph"], &["", "false"]),
    option("distributed.overlap", &["overlap"], &["", "false"]),
    option("distributed.retries", &["retries"], &["", "0", "-1"]),
    option("accumulate", &["accumulate"], &["1", "2"]),
    option("batch", &[], &["8", "3", "1"]),
    option(
        "clip",
        &["clip"],
        &[
            "",
            "{ kind = \"global_norm\", max_norm = 0.3 }",
            "{ kind = \"percentile\" }",
            "{ kind = \"agc\" }",
            "{ kind = \"zclip\" }",
            "{ kind = \"norm\", max_norm = 0.2 }",
        ],
    ),
    option(
        "stability",
        &["stability", "handling_type"],
        &["", "{ handling_type = \"skip\" }", "{ handling_type = \"restore\" }", "{ handling_type = \"replace\" }"],
    ),
    option("ema", &["ema"], &["", "{ decay = 0.5 }"]),
    option("precision", &["precision"], &["", "{ mode = \"bf16\" }"]),
    option(
        "optimizer",
        &["optimizer"],
        &[
            "{ kind = \"SGD\", lr = 0.1, momentum = 0.9 }",
            "{ kind = \"AdamW\", lr = 0.01, eps = 0.01 }",
            "{ kind = \"LAMB\", lr = 0.01, eps = 0.01 }",
            "{ kind = \"Adafactor\", lr = 0.01 }",
            "{ kind = \"SGD\", lr = 0.1, groups = [{ parameters = [\"head\"], lr = 0.05 }] }",
            "{ kind = \"RMSprop\", lr = 0.01, eps = 0.1 }",
        ],
    ),
];
/// What each option says, by its number.
type Choice = [usize; OPTIONS.len()];

struct Draw(u64);
impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }
}
/// Choices in which each two values of two options come together: of some that are drawn, always the one with the most pairs that were not there yet.
fn all_pairs() -> Vec<Choice> {
    let mut left: Vec<[(usize, usize); 2]> = Vec::new();
    for (a, of_a) in OPTIONS.iter().enumerate() {
        for (b, of_b) in OPTIONS.iter().enumerate().skip(a + 1) {
            left.extend((0..of_a.values.len()).flat_map(|x| (0..of_b.values.len()).map(move |y| [(a, x), (b, y)])));
        }
    }
    let (mut draw, mut choices) = (Draw(11), Vec::new());
    while let Some(&[(a, x), (b, y)]) = left.first() {
        let drawn = (0..60).map(|_| {
            let mut choice: Choice = std::array::from_fn(|k| draw.below(OPTIONS[k].values.len()));
            (choice[a], choice[b]) = (x, y);
            choice
        });
        let met = |choice: &Choice, pair: &[(usize, usize); 2]| pair.iter().all(|(k, value)| choice[*k] == *value);
        let best = drawn.max_by_key(|choice| left.iter().filter(|pair| met(choice, pair)).count()).unwrap();
        left.retain(|pair| !met(&best, pair));
        choices.push(best);
    }
    choices
}
/// Blocks of a language model; a perceptron; one with a batch norm; one with dropout.
fn model(k: usize, folder: &Path) -> String {
    if k == 0 {
        return format!(
            "seed = 3\niterations = 3\nlog_every = 1\n[data]\nkind = \"text\"\npath = \"{}\"\ncontext = 8\ntest = 0.1\nvalid = 0.1\nworkers = 0\n[model]\n\
             init = {{ kind = \"normal\", std = 0.1 }}\nlayers = [\n\
             {{ name = \"wte\", kind = \"Embedding\", num_embeddings = \"$vocabulary\", embedding_dim = 16 }},\n\
             {{ name = \"wpe\", kind = \"PositionEmbedding\", max_length = 8, features = 16 }},\n\
             {{ name = \"blocks\", repeat = 2, kind = \"TransformerEncoderLayer\", d_model = 16, nhead = 4, dim_feedforward = 32, dropout = 0.0, \
             norm_first = true, is_causal = true }},\n\
             {{ name = \"lnf\", kind = \"LayerNorm\", normalized_shape = 16 }},\n\
             {{ name = \"head\", kind = \"Linear\", in_features = 16, out_features = \"$vocabulary\" }},\n]\n",
            folder.join("input.txt").display()
        );
    }
    let between = ["", "{ name = \"norm\", kind = \"BatchNorm1d\", num_features = 8 },\n", "{ kind = \"Dropout\", p = 0.2 },\n"][k - 1];
    format!(
        "seed = 3\niterations = 3\nlog_every = 1\n[data]\nkind = \"permutation\"\nclasses = 12\nrows = 60\nvalid = 0.2\nworkers = 0\n[model]\nlayers = [\n\
         {{ name = \"table\", kind = \"Embedding\", num_embeddings = 12, embedding_dim = 8 }},\n{{ name = \"fc\", kind = \"Linear\", in_features = 8, out_features = 16 }},\n\
         {{ kind = \"Tanh\" }},\n{{ name = \"proj\", kind = \"Linear\", in_features = 16, out_features = 8 }},\n{between}\
         {{ name = \"head\", kind = \"Linear\", in_features = 8, out_features = 12 }},\n]\n"
    )
}
fn said(choice: &Choice, k: usize) -> &'static str {
    OPTIONS[k].values[choice[k]]
}
/// What is said, as `--set` takes it.
fn set(choice: &Choice) -> Vec<String> {
    let all = OPTIONS.iter().enumerate().filter(|(k, _)| !said(choice, *k).is_empty());
    all.map(|(k, option)| format!("{}={}", option.key, said(choice, k))).collect()
}
fn at(key: &str) -> usize {
    OPTIONS.iter().position(|option| option.key == key).unwrap()
}
fn run(text: &str, ranks: usize, set: &[String], folder: &Path) -> Vec<Result<Report, Failure>> {
    train_on(text, local_threads_with(ranks, Duration::from_secs(20)).unwrap(), set, folder, None)
}
/// The option that an error is about: the first that it names, of those that were said.
fn named(choice: &Choice, error: &str) -> Option<usize> {
    let place = |option: &KeyOption| option.called.iter().filter_map(|name| word(error, name)).min();
    OPTIONS.iter().enumerate().filter(|(k, _)| !said(choice, *k).is_empty()).filter_map(|(k, option)| Some((place(option)?, k))).min().map(|(_, k)| k)
}
/// The choice without what an error is about; none where it is about nothing that was said.
fn without(choice: &Choice, error: &str) -> Option<Choice> {
    let mut other = *choice;
    if let Some(option) = named(choice, error) {
        // What there always is takes its first value.
        other[option] = OPTIONS[option].values.iter().position(|value| value.is_empty()).unwrap_or(0);
    } else if word(error, "batch").is_some() && choice[at("batch")] > 0 {
        other[at("batch")] = 0;
    } else if word(error, "micro_batches").is_some() {
        // There are some where nobody says how many.
        other[at("distributed.micro_batches")] = 1;
    }
    (other != *choice).then_some(other)
}
/// Where a whole word stands.
fn word(text: &str, name: &str) -> Option<usize> {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(name).map(|(at, _)| at).find(|at| !is_part(text[..*at].chars().next_back()) && !is_part(text[at + name.len()..].chars().next()))
}
fn weights(folder: &Path) -> BTreeMap<String, Vec<f64>> {
    let all = safetensors::load(&folder.join("weights.safetensors")).unwrap();
    all.into_iter().map(|(name, t)| (name, t.cast(DType::F64).to_vec::<f64>().unwrap())).collect()
}
fn apart(a: &BTreeMap<String, Vec<f64>>, b: &BTreeMap<String, Vec<f64>>) -> f64 {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    a.iter().flat_map(|(name, x)| x.iter().zip(&b[name])).map(|(x, y)| (x - y).abs()).fold(0f64, f64::max)
}
/// What one process makes of the same description; none where it refuses it.
fn alone(text: &str, choice: &Choice, data: usize, folder: &Path) -> Option<BTreeMap<String, Vec<f64>>> {
    let mut own = *choice;
    for (k, option) in OPTIONS.iter().enumerate().filter(|(_, option)| option.key.starts_with("distributed.")) {
        own[k] = option.values.iter().position(|value| value.is_empty()).unwrap_or(0);
    }
    let shards = said(choice, at("distributed.shards")).parse().unwrap_or(data);
    let mut all: Vec<String> = set(&own).into_iter().filter(|s| !s.starts_with("distributed.")).collect();
    // Batch norms of all ranks are those of one part.
    let sync = said(choice, at("distributed.sync_bn")) == "true";
    all.push(format!("distributed.shards={}", if sync { 1 } else { shards }));
    let done = run(text, 1, &all, folder).remove(0);
    done.ok().map(|_| weights(folder))
}
/// How many ranks along `data` a mesh of four has.
fn data(mesh: &str) -> usize {
    let axis = |name: &str| mesh.split_once(&format!("{name} = ")).map_or(1, |(_, rest)| rest.split([',', ' ']).next().unwrap().parse().unwrap());
    4 / (axis("pipeline") * axis("tensor") * axis("expert"))
}
/// Tries a choice until it runs: how often it was refused, and whether its end could be compared.
fn tried(number: usize, mut choice: Choice, place: &Path) -> Result<(usize, bool), String> {
    let (subject, mut refused) = (number % 4, 0);
    let text = model(subject, place);
    loop {
        let (folder, said_now) = (place.join(format!("{number}-{refused}")), set(&choice));
        let done = run(&text, 4, &said_now, &folder);
        let wrong = |what: String| Err(format!("{number}: {what}: {said_now:?} of model {subject}"));
        let errors: Vec<&Failure> = done.iter().filter_map(|done| done.as_ref().err()).collect();
        if errors.is_empty() {
            let mesh = said(&choice, at("distributed.mesh"));
            let shares = data(mesh) < 4;
            // A batch norm sees micro-batches; on stages, and in pieces, other random numbers are drawn; what is compressed is rounded.
            let of_micros = subject == 2 && mesh.contains("pipeline") && said(&choice, at("distributed.micro_batches")) != "1";
            let is_rounded = !["none", ""].contains(&said(&choice, at("distributed.compress")));
            if of_micros || is_rounded || (subject == 3 && shares) {
                return Ok((refused, false));
            }
            let Some(want) = alone(&text, &choice, data(mesh), &place.join(format!("{number}-alone"))) else {
                return wrong("one process refuses it".into());
            };
            // Rows alone are shared without another bit.
            let allowed = if shares || said(&choice, at("distributed.sync_bn")) == "true" { 3e-6 } else { 0.0 };
            let off = apart(&want, &weights(&folder));
            return if off <= allowed { Ok((refused, true)) } else { wrong(format!("off by {off:e}")) };
        }
        let at_all = || alone(&text, &choice, 1, &place.join(format!("{number}-alone-{refused}")));
        let Some(told) = errors.iter().find(|error| error.exit_code() == 2).map(|error| error.to_string()) else {
            // What one process does not take either, with a line.
            let is_input = errors.len() == 4 && errors.iter().all(|error| error.exit_code() == 4);
            return if is_input && at_all().is_none() { Ok((refused, false)) } else { wrong(format!("{errors:?}")) };
        };
        if errors.len() < 4 || errors.iter().any(|error| ![2, 7].contains(&error.exit_code())) {
            return wrong(format!("not all ranks are refused: {done:?}"));
        }
        let Some(other) = without(&choice, &told) else { return wrong(format!("names no key that was said: {told}")) };
        println!("{number}: {told}");
        (choice, refused) = (other, refused + 1);
    }
}
#[test]
fn a_table_that_neither_runs_nor_is_refused_by_its_keys() {
    let place = tempfile::tempdir().unwrap();
    let mut draw = Draw(5);
    let text: String = (0..24).chain((0..704).map(|_| draw.below(24))).map(|k| char::from(b'a' + k as u8)).collect();
    fs::write(place.path().join("input.txt"), text).unwrap();
    let choices = all_pairs();
    let (mut refused, mut compared, mut wrong) = (0, 0, Vec::new());
    for (number, choice) in choices.iter().enumerate() {
        match tried(number, *choice, place.path()) {
            Ok((times, was_compared)) => (refused, compared) = (refused + times, compared + usize::from(was_compared)),
            Err(what) => wrong.push(what),
        }
    }
    let seen = format!("{} choices, {refused} refusals, {compared} compared", choices.len());
    assert!(wrong.is_empty(), "{seen}\n{}", wrong.join("\n"));
    println!("{seen}");
    assert!(choices.len() > 60 && refused > 60 && compared > 40, "{seen}");
}
