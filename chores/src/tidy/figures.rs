//! `cargo xtask tidy --figures`: how large what the rules hold is, of this checkout or of another one, so that two can be
//! compared. Judges nothing.
use super::{cycles, lex};
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
    let functions = sources.iter().filter_map(|(path, text)| longest_function(text).map(|(lines, name)| (lines, format!("{name} in {}", path.display()))));
    found.extend(functions.max().map(|(lines, at)| ("lines of the longest function".into(), format!("{lines} ({at})"))));
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
/// The lines and the name of the longest function of a formatted file: from its first line to the brace that closes it, which
/// stands as far in.
fn longest_function(text: &str) -> Option<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let function = |(k, line): (usize, &&str)| {
        let words: Vec<&str> = line.split_whitespace().take_while(|w| !w.contains('(') || w.starts_with("pub(")).collect();
        let at = words.iter().position(|w| *w == "fn");
        let before =
            words.iter().take(at.unwrap_or_default()).all(|w| ["pub", "const", "async", "unsafe", "extern", "\"C\""].contains(w) || w.starts_with("pub("));
        if !(line.trim_start().starts_with("fn ") || at.is_some() && before) || line.trim_end().ends_with([';', '}']) {
            return None;
        }
        let name = line.split("fn ").nth(1)?.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
        let end = (k + 1..lines.len()).find(|&e| lines[e].trim_start().starts_with('}') && depth(lines[e]) == depth(line))?;
        Some((end - k + 1, name.to_string()))
    };
    lines.iter().enumerate().filter_map(function).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_is_longer_than_it_is_told() {
        let text = "impl A {\n    pub(crate) fn short(&self) -> u8 {\n        1\n    }\n    fn long(\n        a: u8,\n    ) -> u8 {\n        if a {\n        }\n        2\n    }\n}\nfn none();\n";
        // The first brace as far in as `fn` closes it: of arguments that stand in lines of their own, that of the body.
        assert_eq!(longest_function(text), Some((7, "long".into())));
        assert_eq!(longest_function("struct A;\n"), None);
    }
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
