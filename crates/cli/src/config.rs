//! `adamant config`: descriptions to begin with, and what is wrong with one.
use crate::out;
use adamant_train::{
    Document, Failure,
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
#[command(after_help = "Examples:\n  adamant config create table mine.toml\n  adamant config create text          prints it")]
struct Create {
    /// what is learned from
    #[arg(value_enum)]
    kind: Kind,
    /// the file; stdout unless it is named
    file: Option<PathBuf>,
    /// replaces a file that is there
    #[arg(long)]
    force: bool,
    /// prints one JSON document
    #[arg(long)]
    json: bool,
}
#[derive(Clone, Copy, ValueEnum)]
enum Kind {
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
impl Kind {
    fn text(self) -> &'static str {
        match self {
            Kind::Table => include_str!("config/table.toml"),
            Kind::Images => include_str!("config/images.toml"),
            Kind::Folders => include_str!("config/folders.toml"),
            Kind::Text => include_str!("config/text.toml"),
            Kind::MemoryConstrained => include_str!("config/memory_constrained.toml"),
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
    let name = o.file.as_deref().and_then(Path::file_stem).map_or_else(|| "NAME".into(), |s| s.to_string_lossy());
    let text = o.kind.text().replace("NAME", &name);
    let Some(path) = &o.file else {
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
fn read(o: &Validate) -> Result<Document, Failure> {
    let mut document = Document::read(&o.config)?;
    o.set.iter().try_for_each(|assignment| document.set(assignment))?;
    Ok(document)
}
fn check(o: &Validate, document: &Document) -> Result<(), Failure> {
    let data = o.data.clone().unwrap_or_else(|| o.config.parent().unwrap_or(Path::new("")).to_path_buf());
    // Nothing is trained, so any device will do; the plain one has no threads to start.
    let found = adamant::Device::reference().scoped(|| validate(document, &data));
    let name = o.config.display();
    if o.json {
        let faults: Vec<Value> = found.faults.iter().map(|f| f.to_json()["error"].clone()).collect();
        out::line(json!({ "valid": found.faults.is_empty(), "faults": faults, "absent": found.absent.iter().map(|p| text_of(p)).collect::<Vec<_>>() }))?;
    } else {
        found.faults.iter().try_for_each(out::line)?;
        found.absent.iter().try_for_each(|p| out::line(format!("{}: not there; what follows from the data was not checked", p.display())))?;
        if found.faults.is_empty() {
            out::line(format!("{name}: every key is right{}", if found.absent.is_empty() { ", and the model takes the data" } else { "" }))?;
        }
    }
    match found.faults.len() {
        0 => Ok(()),
        n => Err(Failure::Input(format!("{name}: {n} fault{}", if n == 1 { "" } else { "s" }))),
    }
}
