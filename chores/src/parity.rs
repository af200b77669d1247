//! `cargo xtask parity`: PyTorch's names beside ours. Each is the same, has another name here, or is left out with a reason
//! (`parity/table.txt`); one without any of these fails. Ours are what rustdoc writes of the public crates. Burn's and Candle's names
//! have tables of their own (`parity/peers.rs`).
mod peers;

use chores::workspace;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

#[derive(clap::Args)]
pub struct Options {
    /// A Python that has torch; without it, only Burn's and Candle's names are looked at
    #[arg(long)]
    python: Option<PathBuf>,
    /// Write docs/from-burn.md, docs/from-candle.md and, with a Python, docs/from-pytorch.md
    #[arg(long)]
    page: bool,
}

/// The crates whose public items are ours.
const CRATES: [&str; 8] =
    ["adamant", "adamant-core", "adamant-nn", "adamant-optim", "adamant-data", "adamant-metrics", "adamant-distributions", "adamant-train"];
const TABLE: &str = include_str!("parity/table.txt");

/// What a line of the table says of its names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Relation {
    OtherName,
    Alias,
    LeftOut,
    Internal,
}
struct Line {
    relation: Relation,
    names: Vec<&'static str>,
    text: &'static str,
}
fn table(text: &'static str) -> Result<Vec<Line>, String> {
    text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#')).map(line).collect()
}
fn line(text: &'static str) -> Result<Line, String> {
    let wrong = || format!("a line of the table is `SIGN names : text`, not `{text}`");
    let (head, about) = text.split_once(" : ").ok_or_else(wrong)?;
    let mut names = head.split_whitespace();
    let relation = match names.next() {
        Some("=") => Relation::OtherName,
        Some("~") => Relation::Alias,
        Some("-") => Relation::LeftOut,
        Some(".") => Relation::Internal,
        _ => return Err(wrong()),
    };
    Ok(Line { relation, names: names.collect(), text: about })
}
/// Does a name of the table, which may have its namespace before it and a `*` at an end, mean this one?
fn means(pattern: &str, space: &str, name: &str) -> bool {
    let pattern = match pattern.split_once('/') {
        Some((of, rest)) if of == space => rest,
        Some(_) => return false,
        None => pattern,
    };
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(rest), _) if rest.ends_with('*') => name.contains(rest.trim_end_matches('*')),
        (Some(end), _) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => pattern == name,
    }
}

/// Our public names as rustdoc writes them: items with the path within their crate, methods as `Type::method`.
fn ours(docs: &Path) -> std::io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for package in CRATES {
        let folder = docs.join(package.replace('-', "_"));
        pages(&folder, &mut |name, html| {
            if name == "all.html" {
                found.extend(html.split("<li><a href=\"").skip(1).filter_map(|part| Some(part.split_once("\">")?.1.split_once('<')?.0.to_string())));
            } else if let Some(item) = ["struct.", "trait.", "enum."].iter().find_map(|kind| name.strip_prefix(kind)) {
                let item = item.trim_end_matches(".html");
                for part in ["id=\"method.", "id=\"tymethod."].iter().flat_map(|id| html.split(id).skip(1)) {
                    found.extend(part.split_once('"').map(|(method, _)| format!("{item}::{method}")));
                }
            }
        })?;
    }
    Ok(found)
}
fn pages(folder: &Path, see: &mut dyn FnMut(&str, &str)) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            pages(&path, see)?;
        } else if let Some(name) = path.file_name().and_then(|n| n.to_str()).filter(|n| n.ends_with(".html")) {
            see(name, &fs::read_to_string(&path)?);
        }
    }
    Ok(())
}
/// A name without case and underscores.
fn plain(name: &str) -> String {
    name.chars().filter(|c| *c != '_').flat_map(char::to_lowercase).collect()
}
/// Our names by their last parts.
struct PublicNames(BTreeMap<String, String>);
impl PublicNames {
    fn of(all: &BTreeSet<String>) -> PublicNames {
        let mut by_last = BTreeMap::new();
        for name in all {
            let last = plain(name.rsplit("::").next().unwrap_or(name));
            // A method of a tensor is named before any other.
            if name.starts_with("Tensor::") || !by_last.contains_key(&last) {
                by_last.insert(last, name.clone());
            }
        }
        PublicNames(by_last)
    }
    fn same(&self, name: &str) -> Option<&str> {
        self.0.get(&plain(name)).map(String::as_str)
    }
}

/// What became of one of PyTorch's names.
enum NameFate {
    Same(String),
    InPlace,
    Listed(Relation, &'static str),
    Nowhere,
}
fn fate(space: &str, name: &str, names: &PublicNames, table: &[Line]) -> NameFate {
    let listed = |name: &str| table.iter().find(|l| l.names.iter().any(|n| means(n, space, name)));
    if let Some(line) = listed(name) {
        return NameFate::Listed(line.relation, line.text);
    }
    // `x.add_(y)` is `x = x + y`.
    if name.strip_suffix('_').is_some_and(|pure| names.same(pure).is_some() || listed(pure).is_some()) {
        return NameFate::InPlace;
    }
    names.same(name).map_or(NameFate::Nowhere, |ours| NameFate::Same(ours.to_string()))
}

pub fn run(options: &Options) -> bool {
    let peers = peers::compare(&workspace::root(), options.page).map(|wrong| {
        wrong.iter().for_each(|w| println!("{w}"));
        println!("Burn and Candle: {} things wrong", wrong.len());
        wrong.is_empty()
    });
    let pytorch = match &options.python {
        Some(python) => compare(python, options.page),
        None => {
            println!("PyTorch: skipped, for no --python is given");
            Ok(true)
        }
    };
    [peers, pytorch].into_iter().fold(true, |passed, result| {
        passed
            & result.unwrap_or_else(|e| {
                eprintln!("parity: {e}");
                false
            })
    })
}
fn compare(python: &Path, write: bool) -> Result<bool, String> {
    let table = table(TABLE)?;
    let root = workspace::root();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // In a folder of its own: other runs write private items, too.
    let folder = root.join("target/parity");
    cargo.current_dir(&root).args(["doc", "--quiet", "--no-deps", "--target-dir"]).arg(&folder);
    for package in CRATES {
        cargo.args(["-p", package]);
    }
    if !cargo.status().map_err(|e| format!("cargo doc: {e}"))?.success() {
        return Err("cargo doc failed".into());
    }
    let ours = ours(&folder.join("doc")).map_err(|e| format!("{}: {e}", folder.display()))?;
    let script = root.join("xtask/python/names.py");
    let told = Command::new(python).arg(&script).output().map_err(|e| format!("{}: {e}", python.display()))?;
    if !told.status.success() {
        return Err(format!("{}: {}", script.display(), String::from_utf8_lossy(&told.stderr).trim()));
    }
    let theirs = String::from_utf8_lossy(&told.stdout);
    let names = PublicNames::of(&ours);
    let mut wrong = unknown(&table, &names);
    let mut page = Page::default();
    for (space, name) in theirs.lines().filter_map(|l| l.split_once(' ')) {
        let fate = fate(space, name, &names, &table);
        if matches!(fate, NameFate::Nowhere) {
            wrong.push(format!("{space}.{name}: neither here nor in the table"));
        }
        page.note(space, name, &fate);
    }
    println!("{}", page.counts());
    if write {
        let file = root.join("docs/from-pytorch.md");
        fs::write(&file, page.markdown()).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    for w in &wrong {
        println!("{w}");
    }
    println!("{} names without an answer", wrong.len());
    Ok(wrong.is_empty())
}
/// PublicNames of the table that are said to be ours and are not.
fn unknown(table: &[Line], names: &PublicNames) -> Vec<String> {
    let others = table.iter().filter(|l| l.relation == Relation::OtherName);
    others
        .filter(|l| names.same(l.text.rsplit("::").next().unwrap_or(l.text)).is_none())
        .map(|l| format!("the table names `{}`, which is not public here", l.text))
        .collect()
}

/// What is printed, and written as a page.
#[derive(Default)]
struct Page {
    /// same, other name, in place, alias, left out, internal, nowhere
    counts: BTreeMap<String, [usize; 7]>,
    rows: BTreeMap<String, Vec<String>>,
}
impl Page {
    fn note(&mut self, space: &str, name: &str, fate: &NameFate) {
        let (column, row) = match fate {
            NameFate::Same(ours) => (0, Some(format!("`{ours}`"))),
            NameFate::Listed(Relation::OtherName, ours) => (1, Some(format!("`{ours}`"))),
            NameFate::InPlace => (2, None),
            NameFate::Listed(Relation::Alias, of) => (3, Some(format!("an alias: {of}"))),
            NameFate::Listed(Relation::LeftOut, why) => (4, Some(format!("left out: {why}"))),
            NameFate::Listed(Relation::Internal, _) => (5, None),
            NameFate::Nowhere => (6, None),
        };
        self.counts.entry(space.to_string()).or_default()[column] += 1;
        if let Some(row) = row {
            self.rows.entry(space.to_string()).or_default().push(format!("| `{name}` | {row} |"));
        }
    }
    fn counts(&self) -> String {
        let mut text = String::from(
            "| namespace | same name | other name | in place | alias | left out | its own | no answer | here of non-aliases |\n|---|---|---|---|---|---|---|---|---|\n",
        );
        let mut all = [0; 7];
        for (space, counts) in &self.counts {
            for (sum, n) in all.iter_mut().zip(counts) {
                *sum += n;
            }
            text += &Page::line(space, counts);
        }
        text + &Page::line("all", &all)
    }
    fn line(space: &str, counts: &[usize; 7]) -> String {
        let [same, other, .., left_out, _, nowhere] = counts;
        let (here, asked) = (same + other, same + other + left_out + nowhere);
        let columns: Vec<String> = counts.iter().map(usize::to_string).collect();
        format!("| {space} | {} | {:.1} % |\n", columns.join(" | "), 100.0 * here as f64 / asked.max(1) as f64)
    }
    fn markdown(&self) -> String {
        let mut text = String::from(
            "# From PyTorch\n\n`cargo xtask parity --python VENV/bin/python --page` writes this page: PyTorch's documented names, and what they are here. A\nform that changes a tensor in place (`add_`) has no counterpart: values do not change, and `x = x + y` is as fast. Rust's `Option` and\n`Default` stand for arguments that may be left out; an axis is an `axis`, negative ones count from the end.\n\n",
        );
        text += &self.counts();
        for (space, rows) in &self.rows {
            text += &format!("\n## {space}\n\n| PyTorch | here |\n|---|---|\n{}\n", rows.join("\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> PublicNames {
        PublicNames::of(&["Tensor::exp", "functional::bce_loss", "nn::Conv2d"].iter().map(|n| n.to_string()).collect())
    }
    #[test]
    fn a_name_that_is_nowhere_is_told() {
        let table = table("= conv_twod : nn::Conv2d\n- sparse* : dense\n. nn/Container : its own").unwrap();
        let fates = |space: &str, name: &str| fate(space, name, &names(), &table);
        assert!(matches!(fates("torch", "exp"), NameFate::Same(ours) if ours == "Tensor::exp"));
        assert!(matches!(fates("Tensor", "exp_"), NameFate::InPlace));
        assert!(matches!(fates("nn", "BCELoss"), NameFate::Same(_)));
        assert!(matches!(fates("torch", "sparse_sum"), NameFate::Listed(Relation::LeftOut, "dense")));
        assert!(matches!(fates("nn", "Container"), NameFate::Listed(Relation::Internal, _)));
        for nowhere in [("optim", "Container"), ("torch", "sin"), ("torch", "sin_")] {
            assert!(matches!(fates(nowhere.0, nowhere.1), NameFate::Nowhere), "{nowhere:?}");
        }
    }
    #[test]
    fn a_name_of_the_table_that_is_not_ours_is_told() {
        let wrong = table("= conv : nn::Conv2d\n= sin : Tensor::sine").unwrap();
        assert_eq!(unknown(&wrong, &names()).len(), 1);
        assert!(line("= conv").is_err() && line("? conv : x").is_err());
    }
    #[test]
    fn the_table_reads() {
        assert!(table(TABLE).unwrap().len() > 40);
    }
}
