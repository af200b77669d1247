//! The kinds of files: a good one of each, and the reader that a user's program would call.
use super::super::subject::snapshot;
use crate::pictures;
use adamant::{
    Device, Tensor,
    data::{
        Columns, CsvOptions, DataLoader, Dataset, Delimiter, FrameFile, FrameOptions, Idx, ImageOptions, Kind, Policy, Rows, Survey, Table, Tokens, read_image,
    },
    formats::{npy::Npy, npz::Npz, safetensors::SafeTensors},
};
use adamant_train::{Document, Run, Trained, checkpoint, dataset, report, storage::Disk};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What is around the bytes that are mutated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Packed {
    Plain,
    /// mutated inside, then compressed
    Gzip,
    /// chunks with checksums
    Png,
    /// hashes in a manifest beside it, which are made right again
    Hashed,
}
/// A kind of file.
pub struct FileSubject {
    pub name: &'static str,
    /// the file, in the folder of the stage
    file: &'static str,
    pub packed: Packed,
    read: fn(&Path) -> Result<(), String>,
}
const fn plain(name: &'static str, file: &'static str, read: fn(&Path) -> Result<(), String>) -> FileSubject {
    FileSubject { name, file, packed: Packed::Plain, read }
}
const fn zipped(name: &'static str, file: &'static str, read: fn(&Path) -> Result<(), String>) -> FileSubject {
    FileSubject { name, file, packed: Packed::Gzip, read }
}
/// All kinds.
pub const SUBJECTS: [FileSubject; 41] = [
    plain("npy", "x.npy", npy),
    plain("npy_records", "x.npy", npy_records),
    plain("npz", "x.npz", npz),
    plain("npz_deflated", "d.npz", npz),
    plain("safetensors", "x.safetensors", safetensors),
    plain("csv", "plain.csv", csv),
    plain("csv_header", "header.csv", csv),
    plain("csv_text", "text.csv", csv_text),
    plain("csv_quotes", "quotes.csv", csv_text),
    plain("csv_semicolon", "semicolon.csv", csv_semicolon),
    plain("csv_spaces", "spaces.csv", csv_spaces),
    plain("csv_survey", "quotes.csv", csv_survey),
    plain("csv_table", "plain.csv", csv_table),
    plain("csv_inputs", "points.csv", inputs),
    zipped("csv_gz", "plain.csv.gz", csv),
    zipped("csv_text_gz", "text.csv.gz", csv_text),
    zipped("csv_spaces_gz", "spaces.csv.gz", csv_spaces),
    plain("text", "a.txt", text),
    plain("text_damaged", "a.txt", text_or_bad),
    zipped("text_gz", "a.txt.gz", text_or_bad),
    plain("idx", "images.idx", idx),
    plain("idx_floats", "floats.idx", idx),
    plain("idx_labels", "labels.idx", idx_labels),
    zipped("idx_gz", "images.idx.gz", idx),
    zipped("idx_labels_gz", "labels.idx.gz", idx_labels),
    FileSubject { name: "png", file: "a.png", packed: Packed::Png, read: image },
    plain("jpeg", "a.jpeg", image),
    plain("bmp", "a.bmp", image),
    plain("ppm", "a.ppm", image),
    plain("pgm", "a.pgm", image),
    plain("toml", "run.toml", toml),
    plain("quarantine", "quarantine.jsonl", quarantine),
    plain("checkpoint_model", "checkpoint/model.safetensors", checkpoint_),
    plain("checkpoint_manifest", "checkpoint/manifest.json", checkpoint_),
    FileSubject { name: "hashed_state", file: "checkpoint/state.json", packed: Packed::Hashed, read: checkpoint_ },
    FileSubject { name: "hashed_model", file: "checkpoint/model.safetensors", packed: Packed::Hashed, read: checkpoint_ },
    plain("run_metrics", "run/metrics.jsonl", run_report),
    plain("run_timing", "run/timing.jsonl", run_report),
    plain("run_evaluation", "run/evaluation.json", run_report),
    plain("run_task", "run/task.json", run_trained),
    plain("run_table", "run/table.json", run_trained),
];

/// A folder with a good file of each kind.
pub struct FileStage {
    place: tempfile::TempDir,
    good: BTreeMap<&'static str, Vec<u8>>,
}
impl FileStage {
    pub fn new() -> Result<FileStage, String> {
        let place = tempfile::tempdir().map_err(text_of)?;
        let at = |name: &str| place.path().join(name);
        let put = |name: &str, bytes: &[u8]| fs::write(place.path().join(name), bytes).map_err(text_of);
        let values = Tensor::from_vec((0..240).map(|k| k as f32 / 8.0).collect::<Vec<_>>(), [20, 3, 4]);
        let others = Tensor::from_vec((0..20).collect::<Vec<i64>>(), [20]);
        adamant::formats::write_npy(at("x.npy"), &values).map_err(text_of)?;
        let arrays = || [("x", values.clone()), ("y", others.clone())];
        adamant::formats::npz::write_npz(at("x.npz"), arrays(), adamant::formats::npz::NpzCompression::Stored).map_err(text_of)?;
        adamant::formats::npz::write_npz(at("d.npz"), arrays(), adamant::formats::npz::NpzCompression::Deflated).map_err(text_of)?;
        let texts = BTreeMap::from([("note".to_string(), "a text".to_string())]);
        adamant::formats::safetensors::save(at("x.safetensors"), arrays(), &texts).map_err(text_of)?;
        let rows = |separator: &str, end: &str| (0..60).map(|k| format!("{}.5{separator}{k}{separator}{}{end}", k * 7 % 13, k % 3)).collect::<String>();
        put("plain.csv", rows(",", "\n").as_bytes())?;
        put("points.csv", rows(",", "\n").as_bytes())?;
        // Never mutated: what a run is asked whose own files are.
        put("asked.csv", rows(",", "\n").as_bytes())?;
        put("header.csv", ("width,height,kind\r\n".to_string() + &rows(",", "\r\n")).as_bytes())?;
        put("semicolon.csv", ("a;b;c\n".to_string() + &rows(";", "\n").replace('.', ",")).as_bytes())?;
        put("spaces.csv", rows("  ", "\n").as_bytes())?;
        let kinds = ["oak", "elm", "NA", "ash"];
        put("text.csv", ("w,h,k\n".to_string() + &(0..60).map(|k| format!("{k},{},{}\n", k * 3 % 7, kinds[k % 4])).collect::<String>()).as_bytes())?;
        put(
            "quotes.csv",
            ("\"w\",\"h\",\"k\"\n".to_string() + &(0..60).map(|k| format!("{k},\"1\",\"{}, \"\"x\"\"\"\n", kinds[k % 4])).collect::<String>()).as_bytes(),
        )?;
        put("a.txt", "Zw\u{f6}lf Boxk\u{e4}mpfer jagen Viktor quer \u{fc}ber den gro\u{df}en Sylter Deich.\n".repeat(20).as_bytes())?;
        let idx =
            |code: u8, sizes: &[u32], data: Vec<u8>| [vec![0, 0, code, sizes.len() as u8], sizes.iter().flat_map(|s| s.to_be_bytes()).collect(), data].concat();
        put("images.idx", &idx(8, &[20, 7, 5], (0..700).map(|k| k as u8).collect()))?;
        put("floats.idx", &idx(0x0d, &[20, 3], (0..60).flat_map(|k| (k as f32).to_be_bytes()).collect()))?;
        put("labels.idx", &idx(8, &[20], (0..20).map(|k| k % 10).collect()))?;
        let pixels: Vec<u8> = (0..12 * 9 * 3).map(|k| (k * 37 % 256) as u8).collect();
        for name in ["a.png", "a.jpeg", "a.bmp", "a.ppm"] {
            pictures::write(&at(name), 12, 9, &pixels).map_err(text_of)?;
        }
        put("a.pgm", &[&b"P5 12 9 255\n"[..], &[7; 108]].concat())?;
        put("run.toml", RUN.as_bytes())?;
        put(
            "quarantine.jsonl",
            "{\"file\":\"a.csv\",\"index\":3,\"offset\":17,\"cause\":\"invalid\",\"reason\":\"x\",\"epoch\":0,\"batch\":1}\n".repeat(8).as_bytes(),
        )?;
        let checkpoints = super::super::subject::open(Disk, &at("checkpoints"))?;
        let saved = checkpoints.save(&snapshot(10, 0), None).map_err(text_of)?;
        fs::rename(&saved.folder, at("checkpoint")).map_err(text_of)?;
        let document = Document::parse("run.toml", RUN).map_err(text_of)?;
        Run::new(&document).data(place.path()).folder(at("run")).train(&mut ()).map_err(text_of)?;
        let mut good = BTreeMap::new();
        for subject in &SUBJECTS {
            // What is packed is mutated first.
            let file = subject.file.strip_suffix(".gz").unwrap_or(subject.file);
            good.insert(subject.name, fs::read(at(file)).map_err(|e| format!("{file}: {e}"))?);
        }
        let manifest = fs::read(at("checkpoint/manifest.json")).map_err(text_of)?;
        good.insert("manifest", manifest);
        Ok(FileStage { place, good })
    }
    fn path(&self, subject: &FileSubject) -> PathBuf {
        self.place.path().join(subject.file)
    }
    pub fn good(&self, subject: &FileSubject) -> Result<Vec<u8>, String> {
        self.good.get(subject.name).cloned().ok_or_else(|| subject.name.to_string())
    }
    /// Puts a mutated file in its place.
    pub fn place(&self, subject: &FileSubject, bytes: &[u8]) -> Result<(), String> {
        fs::write(self.path(subject), bytes).map_err(text_of)?;
        if subject.packed == Packed::Hashed {
            let manifest = self.good.get("manifest").and_then(|m| rehashed(m, subject.file.rsplit('/').next()?, bytes)).ok_or("the manifest")?;
            fs::write(self.place.path().join("checkpoint/manifest.json"), manifest).map_err(text_of)?;
        }
        Ok(())
    }
    /// Reads the file, and puts the good one back.
    pub fn read(&self, subject: &FileSubject) -> Result<(), String> {
        let read = (subject.read)(&self.path(subject));
        if subject.file.contains('/') || subject.packed == Packed::Hashed {
            let _ = fs::write(self.path(subject), &self.good[subject.name]);
            let _ = fs::write(self.place.path().join("checkpoint/manifest.json"), &self.good["manifest"]);
        }
        read
    }
}
/// A manifest whose hashes are those of a file that was changed: who can write the one can write the other.
fn rehashed(manifest: &[u8], file: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut whole: serde_json::Value = serde_json::from_slice(manifest).ok()?;
    let record = whole.get_mut("manifest")?.get_mut("files")?.get_mut(file)?;
    let len = bytes.len() as u64;
    record["bytes"] = len.into();
    record["blake3"] = blake3::hash(bytes).to_hex().as_str().into();
    let parts = record.get_mut("parts")?.as_array_mut()?;
    let count = parts.len();
    for (k, part) in parts.iter_mut().enumerate() {
        let start = part["start"].as_u64()?.min(len);
        let end = if k + 1 == count { len } else { part["end"].as_u64()?.min(len) };
        (part["start"], part["end"]) = (start.into(), end.into());
        part["blake3"] = blake3::hash(&bytes[start as usize..end.max(start) as usize]).to_hex().as_str().into();
    }
    // The order of keys is that of the writer: maps of serde_json are sorted, structs are not.
    let body = &whole["manifest"];
    let ordered = |value: &serde_json::Value, keys: &[&str]| {
        let fields: Vec<String> = keys.iter().map(|k| format!("\"{k}\":{}", value[*k])).collect();
        format!("{{{}}}", fields.join(","))
    };
    let files: Vec<String> = body["files"]
        .as_object()?
        .iter()
        .map(|(name, f)| {
            let parts: Vec<String> = f["parts"].as_array().into_iter().flatten().map(|p| ordered(p, &["tensor", "start", "end", "blake3"])).collect();
            format!("\"{name}\":{{\"bytes\":{},\"blake3\":{},\"parts\":[{}]}}", f["bytes"], f["blake3"], parts.join(","))
        })
        .collect();
    let body = format!(
        "{{\"version\":{},\"step\":{},\"sequence\":{},\"score\":{},\"files\":{{{}}}}}",
        body["version"],
        body["step"],
        body["sequence"],
        body["score"],
        files.join(",")
    );
    let hash = blake3::hash(body.as_bytes()).to_hex();
    Some(format!("{{\"blake3\":\"{hash}\",\"manifest\":{body}}}\n").into_bytes())
}
const RUN: &str = r#"
seed = 1
epochs = 2
batch = 16
[data]
kind = "csv"
path = "points.csv"
label = 2
scale = "standard"
test = 0.25
[model]
layers = [{ kind = "Linear", in_features = "$features", out_features = "$classes" }]
[optimizer]
kind = "SGD"
lr = 0.1
"#;

fn text_of(e: impl std::fmt::Display) -> String {
    e.to_string()
}
fn npy(path: &Path) -> Result<(), String> {
    Npy::open(path).and_then(|f| f.elements()).map(drop).map_err(text_of)
}
fn npy_records(path: &Path) -> Result<(), String> {
    let rows = Rows::read_npy(path).map_err(text_of)?.finite(path);
    (0..rows.len()).filter(|k| rows.read(*k).is_ok()).for_each(drop);
    Ok(())
}
fn npz(path: &Path) -> Result<(), String> {
    let file = Npz::open(path).map_err(text_of)?;
    file.names().iter().try_for_each(|name| file.elements(name).map(drop)).map_err(text_of)
}
fn safetensors(path: &Path) -> Result<(), String> {
    let file = SafeTensors::open(path).map_err(text_of)?;
    file.names().iter().try_for_each(|name| file.bytes(name).map(drop)).map_err(text_of)
}
fn frame(path: &Path, options: &CsvOptions, kind: Kind, missing_is_bad: bool) -> Result<(), String> {
    let file = FrameFile::open(path, options).map_err(text_of)?;
    let last = file.head().names.len().saturating_sub(1);
    let columns = (0..=last).map(|c| (c, if c == last { kind } else { Kind::Number })).collect();
    let frame = file.read(&FrameOptions { columns, missing_is_bad, allow_nonfinite: false }).map_err(text_of)?;
    (0..frame.len()).for_each(|row| {
        frame.place(row, 0);
    });
    Ok(())
}
fn csv(path: &Path) -> Result<(), String> {
    frame(path, &CsvOptions::default(), Kind::Number, true)
}
fn csv_text(path: &Path) -> Result<(), String> {
    frame(path, &CsvOptions { missing_values: vec!["NA".into()], comment: Some(b'#'), ..CsvOptions::default() }, Kind::Label, false)
}
fn csv_semicolon(path: &Path) -> Result<(), String> {
    frame(path, &CsvOptions { delimiter: Some(Delimiter::Byte(b';')), decimal_comma: true, header: Some(true), ..CsvOptions::default() }, Kind::Text, false)
}
fn csv_spaces(path: &Path) -> Result<(), String> {
    frame(path, &CsvOptions { delimiter: Some(Delimiter::Whitespace), skip_rows: 1, ..CsvOptions::default() }, Kind::Number, true)
}
fn csv_survey(path: &Path) -> Result<(), String> {
    Survey::of(path, &CsvOptions::default()).map_err(text_of)?;
    dataset::describe_table("a", path, "a.csv", None).map(drop).map_err(text_of)
}
fn csv_table(path: &Path) -> Result<(), String> {
    Table::read_csv(path).map(drop).map_err(text_of)
}
fn text(path: &Path) -> Result<(), String> {
    Tokens::read_bytes(path).map_err(text_of)?;
    Tokens::read_characters(path).map(drop).map_err(text_of)
}
fn text_or_bad(path: &Path) -> Result<(), String> {
    let tokens = Tokens::read_characters_or_bad(path).map_err(text_of)?;
    let windows = tokens.windows(8).map_err(text_of)?;
    (0..windows.len()).filter(|k| windows.read(*k).is_ok()).for_each(drop);
    Ok(())
}
fn idx(path: &Path) -> Result<(), String> {
    let rows = Idx::read(path).and_then(Idx::into_rows).map_err(text_of)?;
    (0..rows.len()).filter(|k| rows.read(*k).is_ok()).for_each(drop);
    Ok(())
}
fn idx_labels(path: &Path) -> Result<(), String> {
    Idx::read(path).and_then(|i| i.into_classes(10)).map(drop).map_err(text_of)
}
fn image(path: &Path) -> Result<(), String> {
    read_image(path, &ImageOptions { size: Some((8, 8)), ..ImageOptions::default() }).map(drop).map_err(text_of)
}
fn toml(path: &Path) -> Result<(), String> {
    let document = Document::read(path).map_err(text_of)?;
    let again = Document::parse("again", &document.to_toml()).map_err(text_of)?;
    if again.difference(&document).is_empty() { Ok(()) } else { Err("written and read again it differs".into()) }
}
/// Goes on with a quarantine file.
fn quarantine(path: &Path) -> Result<(), String> {
    let rows = Rows::new(vec![1.0f32, f32::NAN], [2]).map_err(text_of)?.finite("a.csv".as_ref());
    let policy = Policy::Quarantine { file: path.to_path_buf(), at_most: 5 };
    let mut loader = DataLoader::new(Arc::new(rows)).batch_size(2).on_bad_record(policy).build().map_err(text_of)?;
    loader.epoch().try_for_each(|batch| batch.map(drop)).map_err(text_of)
}
fn checkpoint_(path: &Path) -> Result<(), String> {
    checkpoint::read(&Disk, path.parent().ok_or("no folder")?).map(drop).map_err(text_of)
}
fn run_report(path: &Path) -> Result<(), String> {
    report::write(path.parent().ok_or("no folder")?).map(drop).map_err(text_of)
}
/// Opens a trained model and asks it.
fn run_trained(path: &Path) -> Result<(), String> {
    asked(path.parent().ok_or("no folder")?, None)
}
fn inputs(path: &Path) -> Result<(), String> {
    asked(&path.parent().ok_or("no folder")?.join("run"), Some(path))
}
fn asked(run: &Path, inputs: Option<&Path>) -> Result<(), String> {
    let trained = Trained::open(run).map_err(text_of)?;
    let kept: Option<Arc<Columns>> = trained.columns.clone();
    let own = run.parent().ok_or("no folder")?.join("asked.csv");
    let inputs = trained.inputs(inputs.unwrap_or(&own)).map_err(text_of)?;
    for batch in inputs.batches(32) {
        let (_, x) = batch.map_err(text_of)?;
        trained.answer(&x).and_then(|y| Ok(y.to(Device::reference()).to_vec_as::<f32>()?)).map_err(text_of)?;
    }
    drop(kept);
    Ok(())
}
