//! `adamant config`: descriptions to begin with, and what is wrong with one.
use crate::{out, verbs::data_beside};
use adamant_train::{
    Document, Failure,
    dataset::describe_table,
    folder::text_of,
    storage::{Operation, StorageError},
    validate,
};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

/// Options of `config`.
#[derive(Args)]
#[command(after_help = "Examples:\n  adamant config create images mine.toml\n  adamant config validate mine.toml")]
pub struct Config {
    #[command(subcommand)]
    verb: Verb,
}
#[derive(Subcommand)]
enum Verb {
    /// Writes a description with a comment on each value, to begin with.
    Create(Create),
    /// Checks every key of a description, and its model against its data where they are.
    Validate(Validate),
}
#[derive(Args)]
#[command(
    after_help = "Examples:\n  adamant config create table iris.csv iris.toml   looks at the table\n  adamant config create table mine.toml\n  adamant config create text          prints it"
)]
struct Create {
    /// what is learned from
    #[arg(value_enum)]
    kind: TemplateKind,
    /// of a table, the CSV file that is looked at; else the description that is written, stdout unless it is named
    file: Option<PathBuf>,
    /// the description that is written for a CSV file; stdout unless it is named
    out: Option<PathBuf>,
    /// of a table, the file of the answers, one for each row
    #[arg(long, value_name = "FILE")]
    target: Option<PathBuf>,
    /// replaces a file that is there
    #[arg(long)]
    force: bool,
    /// prints one JSON document
    #[arg(long)]
    json: bool,
}
#[derive(Clone, Copy, ValueEnum)]
enum TemplateKind {
    /// a CSV of numbers and a class
    Table,
    /// images in MNIST's form
    Images,
    /// pictures, a folder for each class
    Folders,
    /// a text
    Text,
    /// a text, in little memory: 64 features, 2 layers
    MemoryConstrained,
}
impl TemplateKind {
    fn text(self) -> &'static str {
        match self {
            TemplateKind::Table => include_str!("config/table.toml"),
            TemplateKind::Images => include_str!("config/images.toml"),
            TemplateKind::Folders => include_str!("config/folders.toml"),
            TemplateKind::Text => include_str!("config/text.toml"),
            TemplateKind::MemoryConstrained => include_str!("config/memory_constrained.toml"),
        }
    }
}
#[derive(Args)]
#[command(after_help = "Example:\n  adamant config validate mine.toml --data data/mnist --set epochs=3")]
struct Validate {
    /// the description, in TOML
    config: PathBuf,
    /// a value in place of the file's
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// where the data lies, instead of beside the description
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// prints one JSON document
    #[arg(long)]
    json: bool,
}
/// Gives also whether an error is still to be printed as a JSON document: faults that were found are one already.
pub fn run(options: &Config) -> (bool, Result<(), Failure>) {
    match &options.verb {
        Verb::Create(o) => (o.json, create(o)),
        Verb::Validate(o) => match read(o) {
            Ok(document) => (false, check(o, &document)),
            Err(e) => (o.json, Err(e)),
        },
    }
}
fn create(o: &Create) -> Result<(), Failure> {
    let is_toml = |path: &Path| path.extension().is_some_and(|e| e == "toml");
    let table = o.file.as_deref().filter(|file| matches!(o.kind, TemplateKind::Table) && !is_toml(file));
    let out = if table.is_some() { &o.out } else { &o.file };
    if table.is_none() && (o.out.is_some() || o.target.is_some()) {
        return Err(Failure::Usage("two files are a table and its description: adamant config create table iris.csv iris.toml".into()));
    }
    let stem = |path: &Path| path.file_name().map(|n| n.to_string_lossy().split('.').next().unwrap_or_default().to_string());
    let name = out.as_deref().or(table).and_then(stem).unwrap_or_else(|| "NAME".into());
    let text = match table {
        Some(table) => describe_table(&name, table, &seen_from(table, out.as_deref()), o.target.as_deref())?,
        None => o.kind.text().replace("NAME", &name),
    };
    let Some(path) = out else {
        if o.json {
            out::line(json!({ "config": text }))?
        } else {
            out::write(&text)?
        }
        return Ok(());
    };
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::Usage(format!("{} is there already; --force replaces it", path.display())),
        _ => StorageError::of(Operation::Write, path, text.len() as u64, &e).into(),
    };
    let mut file = OpenOptions::new().write(true).create(true).create_new(!o.force).truncate(o.force).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    if o.json {
        out::line(json!({ "config": text_of(path) }))?
    } else {
        out::line(path.display())?
    }
    Ok(())
}
/// How a description names a file: as the command did, or from the folder where the description lies.
fn seen_from(file: &Path, description: Option<&Path>) -> String {
    let place = description.and_then(Path::parent).filter(|p| !p.as_os_str().is_empty());
    let Some(place) = place else { return text_of(file) };
    match (file.canonicalize(), place.canonicalize()) {
        (Ok(file), Ok(place)) => text_of(file.strip_prefix(&place).unwrap_or(&file)),
        _ => text_of(file),
    }
}
fn read(o: &Validate) -> Result<Document, Failure> {
    let mut document = Document::read(&o.config)?;
    o.set.iter().try_for_each(|assignment| document.set(assignment))?;
    Ok(document)
}
fn check(o: &Validate, document: &Document) -> Result<(), Failure> {
    let data = data_beside(&o.config, o.data.as_deref());
    // Nothing is trained, so any device will do; the plain one has no threads to start.
    let found = adamant::Device::reference().scoped(|| validate(document, &data));
    let name = o.config.display();
    if o.json {
        let faults: Vec<Value> = found.faults.iter().map(|f| f.to_json()["error"].clone()).collect();
        let absent: Vec<String> = found.absent.iter().map(|p| text_of(p)).collect();
        let beyond = found.beyond.as_ref().map(ToString::to_string);
        out::line(json!({ "valid": found.faults.is_empty(), "faults": faults, "absent": absent, "beyond_this_machine": beyond }))?;
    } else {
        found.faults.iter().try_for_each(out::line)?;
        found.absent.iter().try_for_each(|p| out::line(format!("{}: not there; what follows from the data was not checked", p.display())))?;
        found.beyond.iter().try_for_each(|what| out::line(format!("{what}: this machine cannot train it")))?;
        if found.faults.is_empty() {
            out::line(format!("{name}: every key is right{}", if found.absent.is_empty() { ", and the model takes the data" } else { "" }))?;
        }
    }
    let Some(first) = found.faults.first() else { return Ok(()) };
    let n = found.faults.len();
    let text = format!("{name}: {n} fault{}", if n == 1 { "" } else { "s" });
    // As the other verbs end that would meet them: what is wrong with the command line alone is no fault of the file.
    let all = |code: u8| found.faults.iter().all(|f| f.exit_code() == code);
    Err(match first {
        Failure::Usage(_) if all(first.exit_code()) => Failure::Usage(text),
        Failure::Memory(_) if all(first.exit_code()) => Failure::Memory(text),
        _ => Failure::Input(text),
    })
}
