//! `cargo xtask tidy --figures`: how large what the rules hold is, of this checkout or of another one, so that two can be
//! compared. Judges nothing.
use super::{cycles, functions::functions, lex};
use std::path::{Path, PathBuf};

/// Primitives that every revision has, by which it is told over how many files one is spread.
const PRIMITIVES: &[&str] = &["Conv", "Gather", "Reduce", "Scan", "Scatter", "Sort", "UpdateSlice"];
/// What only the text of a WGSL kernel has.
const WGSL: &[&str] = &["@compute", "var<storage"];

/// A figure and what it is of.
pub type Figure = (String, String);

/// The figures of the checkout at `root`, of which these are the files.
pub fn figures(root: &Path, files: &[PathBuf]) -> Vec<Figure> {
    let is_source =
        |p: &&PathBuf| p.starts_with("crates") && p.components().nth(2).is_some_and(|c| c.as_os_str() == "src") && p.extension().is_some_and(|e| e == "rs");
    let sources: Vec<(&PathBuf, String)> =
        files.iter().filter(is_source).filter_map(|path| Some((path, std::fs::read_to_string(root.join(path)).ok()?))).collect();
    let mut found: Vec<Figure> = Vec::new();
    for (folder, files, circle) in cycles::largest(root, files) {
        found.push((format!("files of {folder}, and of its largest circle of imports"), format!("{files}, {circle}")));
    }
    let largest = sources.iter().map(|(path, text)| (text.lines().count(), path.display())).max_by_key(|(lines, _)| *lines);
    found.extend(largest.map(|(lines, path)| ("lines of the largest file".into(), format!("{lines} ({path})"))));
    let functions = sources.iter().filter_map(|(path, text)| functions(&lex::code(text)).into_iter().max().map(|longest| (longest, path.display())));
    let longest = functions.max_by_key(|(function, _)| function.lines);
    found.extend(longest.map(|(f, path)| ("lines of the longest function".into(), format!("{} ({} in {path})", f.lines, f.name))));
    let wgpu = || sources.iter().filter(|(path, _)| path.starts_with("crates/backend-wgpu"));
    let writing = wgpu().filter(|(_, text)| WGSL.iter().any(|w| text.contains(w))).count();
    found.push(("files of backend-wgpu, and of them with the text of kernels".into(), format!("{}, {writing}", wgpu().count())));
    for name in PRIMITIVES {
        let word = format!("Op::{name}");
        let names = |text: &str| lex::code(text).iter().any(|line| line.match_indices(&word).any(|(at, _)| ends(&line[at + word.len()..])));
        found.push((format!("files that name {word}"), sources.iter().filter(|(_, text)| names(text)).count().to_string()));
    }
    found
}
fn ends(rest: &str) -> bool {
    rest.chars().next().is_none_or(|c| !(c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_only_begins_like_a_primitive() {
        assert!(ends("(x)") && ends("") && !ends("Along"));
    }
    #[test]
    fn this_checkout_has_figures() {
        let (mut files, mut complaints) = (Vec::new(), Vec::new());
        let root = crate::workspace::root();
        super::super::collect(&root, Path::new(""), &mut files, &mut complaints);
        let figures = figures(&root, &files);
        assert!(figures.len() >= 6 + PRIMITIVES.len(), "{figures:?}");
    }
}
