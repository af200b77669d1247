//! `cargo xtask tidy`: the rules that no other tool checks. Each is a plain function from the tree to complaints, and
//! a test runs them all, so that `cargo test` finds what this finds.
mod cycles;
mod figures;
mod functions;
mod layers;
mod lex;
mod names;
mod source;
mod text;
mod words;

use crate::workspace;
use serde::Serialize;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
    /// How large what the rules hold is, instead of whether they hold
    #[arg(long)]
    figures: bool,
    /// Of this checkout instead of the workspace
    #[arg(long, value_name = "FOLDER", requires = "figures")]
    of: Option<PathBuf>,
}

/// One breach of a rule.
#[derive(Clone, Debug, Serialize)]
pub struct Complaint {
    /// the file, from the workspace's root
    pub path: PathBuf,
    /// the line, counted from 1; 0 for the file as a whole
    pub line: usize,
    /// what is wrong and what to do
    pub what: String,
}
impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path.display(), self.what),
            line => write!(f, "{}:{line}: {}", self.path.display(), self.what),
        }
    }
}

/// Prints every complaint; whether there was none.
pub fn run(options: &Options) -> bool {
    if options.figures {
        return show_figures(options);
    }
    let complaints = complaints(&workspace::root());
    if options.json {
        println!("{}", serde_json::json!({ "passed": complaints.is_empty(), "complaints": complaints }));
    } else {
        for complaint in &complaints {
            println!("{complaint}");
        }
        println!("{} complaints", complaints.len());
    }
    complaints.is_empty()
}

/// Prints figures; whether the folder could be read.
fn show_figures(options: &Options) -> bool {
    let root = options.of.clone().unwrap_or_else(workspace::root);
    let (mut files, mut unread) = (Vec::new(), Vec::new());
    collect(&root, Path::new(""), &mut files, &mut unread);
    let figures = figures::figures(&root, &files);
    if options.json {
        let figures: std::collections::BTreeMap<&String, &String> = figures.iter().map(|(what, figure)| (what, figure)).collect();
        println!("{}", serde_json::json!({ "figures": figures, "complaints": unread }));
    } else {
        figures.iter().for_each(|(what, figure)| println!("{what:60} {figure}"));
        unread.iter().for_each(|complaint| println!("{complaint}"));
    }
    unread.is_empty()
}

/// All complaints about a tree, by file.
pub fn complaints(root: &Path) -> Vec<Complaint> {
    let mut found = Vec::new();
    let mut files = Vec::new();
    collect(root, Path::new(""), &mut files, &mut found);
    let glossary = std::fs::read_to_string(root.join(words::GLOSSARY)).unwrap_or_default();
    let table = words::table(&glossary);
    let mut sources = Vec::new();
    for path in &files {
        let Ok(bytes) = std::fs::read(root.join(path)) else {
            found.push(Complaint { path: path.clone(), line: 0, what: "cannot be read".into() });
            continue;
        };
        // Files that are not text hold data; their origin is told beside them.
        let Ok(text) = std::str::from_utf8(&bytes) else { continue };
        found.extend(text::complaints(path, text));
        found.extend(words::complaints(path, text, &table));
        if path.extension().is_some_and(|e| e == "rs") {
            found.extend(source::complaints(path, text));
            sources.push((path.clone(), text.to_owned()));
        }
    }
    sources.sort();
    found.extend(names::complaints(&sources, &glossary));
    found.extend(cycles::complaints(root, &files));
    found.extend(layers::complaints());
    found.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    found
}
/// The files below a folder, without build results and what a version control system keeps.
fn collect(root: &Path, below: &Path, files: &mut Vec<PathBuf>, found: &mut Vec<Complaint>) {
    let entries = match std::fs::read_dir(root.join(below)) {
        Ok(entries) => entries,
        Err(e) => return found.push(Complaint { path: below.to_path_buf(), line: 0, what: e.to_string() }),
    };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), below.join(entry.file_name()));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && name != "target" && name != ".git" && path != Path::new("runs") => collect(root, &path, files, found),
            Ok(kind) if kind.is_file() && name != ".git" => files.push(path),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_tidy() {
        let complaints = super::complaints(&crate::workspace::root());
        assert!(complaints.is_empty(), "{}", complaints.iter().map(|c| format!("{c}\n")).collect::<String>());
    }
}
