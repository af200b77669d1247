//! The same files on any number of ranks.
use super::{
    BitsOptions,
    job::{RankedTraining, set},
};
use crate::{
    torture::{TortureClaim, claim, sha256, sha256_of},
    workspace,
};
use adamant_train::{checkpoint::CheckpointReader, storage::Disk};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A CNN with batch norms and dropout.
const CNN: &str = r#"
seed = 3
batch = 64
log_every = 5
[model]
layers = [
    { kind = "Unflatten", dim = 1, unflattened_size = [1, SIDE, SIDE] },
    { kind = "Conv2d", in_channels = 1, out_channels = 8, kernel_size = 3 },
    { kind = "BatchNorm2d", num_features = 8 },
    { kind = "ReLU" },
    { kind = "MaxPool2d", kernel_size = 2 },
    { kind = "Dropout", p = 0.25 },
    { kind = "Flatten" },
    { kind = "Linear", out_features = 32 },
    { kind = "BatchNorm1d", num_features = 32 },
    { kind = "ReLU" },
    { kind = "Dropout", p = 0.5 },
    { kind = "Linear", in_features = 32, out_features = 10 },
]
[optimizer]
kind = "AdamW"
lr = 2e-3
[schedule]
kind = "CosineAnnealingLR"
"#;
const DIGITS: &str =
    "[data]\nkind = \"csv\"\npath = \"DATA/digits.csv.gz\"\nlabel = 64\nclasses = 10\ndivisor = 16.0\ntest = { divide = 10, modulo = 5, equals = 4 }\n";
const MNIST: &str = "[data]\nkind = \"idx\"\npath = \"DATA\"\ndivisor = 255.0\nmean = 0.1307\nstd = 0.3081\n";
const GPT: &str = r#"
seed = 5
batch = 16
log_every = 5
clip = { kind = "norm", max_norm = 1.0 }
[model]
init = { kind = "normal", std = 0.02 }
layers = [
    { name = "wte", kind = "Embedding", num_embeddings = "$vocabulary", embedding_dim = 64 },
    { name = "wpe", kind = "PositionEmbedding", max_length = 32, features = 64 },
    { name = "blocks", repeat = 2, kind = "TransformerEncoderLayer", d_model = 64, nhead = 4, dim_feedforward = 128, activation = "gelu_tanh", norm_first = true, is_causal = true, dropout = DROPOUT },
    { name = "lnf", kind = "LayerNorm", normalized_shape = 64 },
    { name = "head", kind = "Linear", tied = "wte" },
]
[optimizer]
kind = "AdamW"
lr = 1e-3
[data]
kind = "text"
path = "TEXT"
context = 32
test = 0.1
"#;

/// The rows that the digits are learned from.
const ALL_DIGITS: usize = 1440;
/// A description and what it is called.
struct BitsSubject {
    name: &'static str,
    path: PathBuf,
}
impl BitsSubject {
    fn folder(&self, program: &RankedTraining, shards: usize, name: &str) -> PathBuf {
        program.place(&format!("{}-{shards}-{name}", self.name.replace(' ', "-")))
    }
}
pub fn claims(options: &BitsOptions) -> Vec<TortureClaim> {
    let made = RankedTraining::new(&options.common).and_then(|program| Ok((subjects(&program)?, program)));
    let (subjects, program) = match made {
        Ok(made) => made,
        Err(e) => return vec![claim("the program and its data", |_| Err(e))],
    };
    let mut claims = Vec::new();
    for subject in &subjects {
        let text = format!("{}: weights, slots and metrics.jsonl have one sha256 on 1 and on {:?} ranks", subject.name, options.ranks);
        claims.push(claim(&text, |claim| on_all(&program, subject, options, &options.ranks, options.shards, claim)));
    }
    for (stage, subject) in options.zero.iter().flat_map(|stage| subjects.iter().map(move |subject| (stage, subject))) {
        let text = format!("{}: the same with `zero = {stage}` on {:?} ranks", subject.name, options.zero_ranks);
        claims.push(claim(&text, |claim| {
            let (mut values, want) = alone(&program, subject, options, options.shards)?;
            values.extend(set(&[format!("distributed.zero={stage}")]));
            for n in &options.zero_ranks {
                let folder = subject.folder(&program, options.shards, &format!("zero-{stage}-on-{n}"));
                let ran = program.finish(*n, &subject.path, &folder, &values);
                claim.count(ran.and_then(|()| compare(&folder, &want, *n)));
            }
            Ok(())
        }));
    }
    for launcher in &options.mpi {
        let text = format!("digits CNN: the same under `{launcher}` on {:?} ranks", options.mpi_ranks);
        let Some(digits) = subjects.first() else { continue };
        match version(launcher) {
            None => claims.push(TortureClaim::skipped(&text, "it is not there: install openmpi-bin")),
            Some(version) => claims.push(claim(&text, |claim| {
                let (values, want) = alone(&program, digits, options, options.shards)?;
                claim.see(serde_json::json!(version));
                for n in &options.mpi_ranks {
                    let folder = program.place(&format!("mpi-{}-{n}", launcher.replace(|c: char| !c.is_ascii_alphanumeric(), "-")));
                    let ran = program.finish_under(launcher, version.contains("Open MPI"), *n, &digits.path, &folder, &values);
                    claim.count(ran.and_then(|()| compare(&folder, &want, *n)));
                }
                Ok(())
            })),
        }
    }
    if let (Some(digits), true) = (subjects.first(), options.many > 1) {
        let text = format!("{}: the same on {} ranks, a part each", digits.name, options.many);
        claims.push(claim(&text, |claim| on_all(&program, digits, options, &[options.many], options.many, claim)));
    }
    claims
}
fn on_all(
    program: &RankedTraining,
    subject: &BitsSubject,
    options: &BitsOptions,
    ranks: &[usize],
    shards: usize,
    claim: &mut TortureClaim,
) -> Result<(), String> {
    let (mut values, want) = alone(program, subject, options, shards)?;
    claim.see(serde_json::json!(want.iter().map(|(name, hash)| format!("{name} {}", &hash[..12])).collect::<Vec<_>>()));
    values.extend(set(&["distributed.bucket_mb=1"]));
    for n in ranks {
        let folder = subject.folder(program, shards, &format!("on-{n}"));
        let ran = program.finish(*n, &subject.path, &folder, &values);
        claim.count(ran.and_then(|()| compare(&folder, &want, *n)));
    }
    Ok(())
}
pub(super) type FileHashes = Vec<(String, String)>;
/// What a run on one rank was given, and the files that it ended with; it is run once.
fn alone(program: &RankedTraining, subject: &BitsSubject, options: &BitsOptions, shards: usize) -> Result<(Vec<String>, FileHashes), String> {
    let mut values = vec![format!("iterations={}", options.steps), format!("distributed.shards={shards}"), format!("checkpoint.every={}", options.steps / 2)];
    // A part of one row has no variance for a norm: all rows in one batch.
    values.extend((shards > options.shards).then(|| format!("batch={ALL_DIGITS}")));
    let (values, folder) = (set(&values), subject.folder(program, shards, "alone"));
    if !folder.exists() {
        program.finish(1, &subject.path, &folder, &values)?;
    }
    Ok((values, hashes(&folder)?))
}
pub(super) fn compare(run: &Path, want: &FileHashes, ranks: usize) -> Result<(), String> {
    let got = hashes(run)?;
    let other: Vec<&String> = got.iter().zip(want).filter(|(a, b)| a != b).map(|(a, _)| &a.0).collect();
    if other.is_empty() && got.len() == want.len() { Ok(()) } else { Err(format!("on {ranks} ranks other bits: {other:?}")) }
}
/// What a launcher says that it is; none: it is not there.
fn version(launcher: &str) -> Option<String> {
    let launcher = launcher.split('=').next().unwrap_or(launcher);
    let output = Command::new(launcher).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).take(2).collect();
    Some(lines.join(", "))
}
/// The files of a run, and the tensors of its newest checkpoint, that follow from the description alone.
pub(super) fn hashes(run: &Path) -> Result<FileHashes, String> {
    let mut hashes = Vec::new();
    for name in ["weights.safetensors", "metrics.jsonl"] {
        hashes.push((name.to_string(), sha256(&run.join(name))?));
    }
    let newest = fs::read_dir(run.join("checkpoints")).map_err(|e| e.to_string())?.flatten().map(|e| e.path()).filter(|p| p.is_dir()).max();
    if let Some(folder) = newest {
        // Whoever wrote them: one process, or ranks their pieces.
        let mut reader = CheckpointReader::open(&Disk, &folder).map_err(|e| e.to_string())?;
        for group in reader.groups() {
            let mut all = Vec::new();
            for entry in reader.entries(&group) {
                all.extend(format!("{} {} {}", entry.name, entry.dtype, entry.shape).into_bytes());
                all.extend(reader.bytes(&group, &entry.name, 0..entry.shape.elements()).map_err(|e| e.to_string())?);
            }
            hashes.push((group, sha256_of(&all)));
        }
    }
    Ok(hashes)
}
fn cnn(side: usize, flat: usize, data: &str, at: &Path) -> String {
    CNN.replace("SIDE", &side.to_string()).replace("kind = \"Linear\", out", &format!("kind = \"Linear\", in_features = {flat}, out"))
        + &data.replace("DATA", &at.display().to_string())
}
/// The description of a CNN that learns handwritten digits.
pub(super) fn digits_cnn(program: &RankedTraining) -> Result<PathBuf, String> {
    let path = program.place("digits-CNN.toml");
    fs::write(&path, cnn(8, 8 * 3 * 3, DIGITS, &workspace::root().join("examples/digits/data"))).map_err(|e| e.to_string())?;
    Ok(path)
}
/// What is run: real data where they lie beside the project, else what the project has itself, which is said.
fn subjects(program: &RankedTraining) -> Result<Vec<BitsSubject>, String> {
    let shared = workspace::root().join("../shared/data");
    let (mnist, text) = (shared.join("mnist-20k"), shared.join("tinyshakespeare/input.txt"));
    let write = |name: &'static str, text: String| -> Result<BitsSubject, String> {
        let path = program.place(&format!("{}.toml", name.replace(' ', "-")));
        fs::write(&path, text).map_err(|e| e.to_string())?;
        Ok(BitsSubject { name, path })
    };
    let mut subjects = vec![BitsSubject { name: "digits CNN", path: digits_cnn(program)? }];
    if mnist.is_dir() {
        subjects.push(write(
            "mnist CNN",
            cnn(28, 8 * 13 * 13, MNIST, &mnist).replace("    { kind = \"Unflatten\", axis = 1, unflattened_size = [1, 28, 28] },\n", ""),
        )?);
    } else {
        eprintln!("SKIPPED  mnist: {} is not there", mnist.display());
    }
    let text = if text.is_file() {
        text
    } else {
        eprintln!("{} is not there: a text of the project instead", text.display());
        workspace::root().join("docs/architecture.md")
    };
    let gpt = |dropout: &str| GPT.replace("DROPOUT", dropout).replace("TEXT", &text.display().to_string());
    subjects.push(write("char-GPT", gpt("0.1"))?);
    Ok(subjects)
}
