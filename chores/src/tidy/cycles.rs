//! Who imports whom inside the crates that everything stands on. Files that import each other in a circle can only be read
//! together, so circles are small and within one folder. An import is a path from `crate`, `super` or `self`, in a `use` or
//! where it is called; what a parent calls in a file below it by that file's name alone is not one.
use super::{Complaint, lex};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// The sources of crates, and the most files that may import each other in a circle: in core these are the tape, cells, the
/// window and its scheduler. What a crate's root re-exports is nobody's file.
const CRATES: &[&str] = &["crates/ir/src", "crates/runtime/src", "crates/core/src"];
const MOST: usize = 4;

/// A module's path (`plan::fuse`) and the text of its file.
type Modules = BTreeMap<String, String>;

/// All circles that are too large or reach over folders. `files` are the paths from the root.
pub fn complaints(root: &Path, files: &[PathBuf]) -> Vec<Complaint> {
    let mut found = Vec::new();
    for folder in CRATES {
        let modules = modules(root, folder, files);
        for circle in circles(&modules).into_iter().filter(|c| c.len() > MOST || folders(c) > 1) {
            let what = format!("{} files import each other in a circle, at most {MOST} of one folder may: {}", circle.len(), circle.join(", "));
            found.push(Complaint { path: folder.into(), line: 0, what });
        }
    }
    found
}
/// Of each of the crates: how many files it has, and how many are in its largest circle.
pub fn largest(root: &Path, files: &[PathBuf]) -> Vec<(&'static str, usize, usize)> {
    let figures = CRATES.iter().map(|folder| {
        let modules = modules(root, folder, files);
        (*folder, modules.len(), circles(&modules).iter().map(Vec::len).max().unwrap_or_default())
    });
    figures.filter(|(_, files, _)| *files > 0).collect()
}
/// The modules of a crate, with their texts.
fn modules(root: &Path, folder: &str, files: &[PathBuf]) -> Modules {
    let sources = files.iter().filter(|p| p.starts_with(folder) && p.extension().is_some_and(|e| e == "rs"));
    sources.filter_map(|path| Some((module(path.strip_prefix(folder).unwrap_or(path)), std::fs::read_to_string(root.join(path)).ok()?))).collect()
}
fn module(path: &Path) -> String {
    let parts: Vec<_> = path.with_extension("").iter().map(|p| p.to_string_lossy().into_owned()).collect();
    if parts == ["lib"] { String::new() } else { parts.join("::") }
}
fn folders(circle: &[String]) -> usize {
    let folder = |m: &String| m.rsplit_once("::").map(|(above, _)| above.to_string()).unwrap_or_default();
    circle.iter().map(folder).collect::<BTreeSet<_>>().len()
}

/// The modules that each module imports.
fn imports(modules: &Modules) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut all = BTreeMap::new();
    for (name, text) in modules {
        let code = lex::code(text).join("\n");
        // Tests stand at the end.
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        let found = paths(code).into_iter().filter_map(|path| resolve(name, &path, modules)).filter(|m| m != name && !m.is_empty());
        all.insert(name.as_str(), found.filter_map(|m| modules.get_key_value(&m).map(|(k, _)| k.as_str())).collect());
    }
    all
}
/// Every path from `crate`, `super` or `self`, with braces written out.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                continue;
            }
            expand(&code[at..], String::new(), &mut found);
        }
    }
    found
}
/// Writes out the path at the start of the text; returns how much of it was read.
fn expand(text: &str, prefix: String, found: &mut Vec<String>) -> usize {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len());
    let path = prefix + &text[..end];
    if !(path.ends_with("::") && text[end..].starts_with('{')) {
        found.push(path.trim_end_matches(':').to_string());
        return end;
    }
    let mut at = end + 1;
    while at < text.len() && !text[at..].starts_with('}') {
        let skipped = text[at..].find(|c: char| c.is_alphanumeric() || c == '_' || c == '}').unwrap_or(text.len() - at);
        at += skipped;
        if at < text.len() && !text[at..].starts_with('}') {
            at += expand(&text[at..], path.clone(), found).max(1);
            // A name of one's own (`as`) is none of theirs.
            if let Some(rest) = text[at..].strip_prefix(" as ") {
                at += 4 + rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            }
        }
    }
    at + 1
}
/// The module that a path in `from` leads into: the longest part of it that is one.
fn resolve(from: &str, path: &str, modules: &Modules) -> Option<String> {
    let mut base: Vec<&str> = from.split("::").filter(|p| !p.is_empty()).collect();
    let mut parts = path.split("::").peekable();
    match parts.next()? {
        "crate" => base.clear(),
        "self" => {}
        _ => {
            base.pop();
            while parts.next_if_eq(&"super").is_some() {
                base.pop();
            }
        }
    }
    base.extend(parts);
    (1..=base.len()).rev().map(|n| base[..n].join("::")).find(|m| modules.contains_key(m))
}
/// The groups of modules each of which reaches all others of it.
fn circles(modules: &Modules) -> Vec<Vec<String>> {
    let imports = imports(modules);
    let reach = |from: &str| {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![from.to_string()]);
        while let Some(m) = todo.pop() {
            for next in imports.get(m.as_str()).into_iter().flatten() {
                if seen.insert(next.to_string()) {
                    todo.push(next.to_string());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<String>> = modules.keys().map(|m| (m.as_str(), reach(m))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for m in modules.keys().filter(|m| reached[m.as_str()].contains(*m)) {
        if !circles.iter().any(|c| c.contains(m)) {
            circles.push(reached[m.as_str()].iter().filter(|o| reached[o.as_str()].contains(m)).cloned().collect());
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        circles(&files.iter().map(|(m, t)| (m.to_string(), t.to_string())).collect())
    }
    #[test]
    fn files_that_import_each_other_are_found() {
        assert_eq!(of(&[("a", "use crate::b::B;"), ("b", "use crate::c::{self, C};"), ("c", "fn f() { crate::a::g() }")]), [["a", "b", "c"]]);
        assert_eq!(of(&[("a", "use crate::{b::{B, D}, x as y};"), ("b", "use super::a::A;")]), [["a", "b"]]);
        assert_eq!(of(&[("a::x", "use super::y::Y;"), ("a::y", "use super::super::a::x::X;"), ("a", "")]), [["a::x", "a::y"]]);
    }
    #[test]
    fn what_is_no_import_makes_no_circle() {
        assert!(of(&[("a", "use crate::b::B;"), ("b", "// use crate::a::A;\nlet s = \"crate::a::A\";")]).is_empty());
        assert!(of(&[("a", "use crate::b::B;"), ("b", "fn f() {}\n#[cfg(test)]\nmod tests { use crate::a::A; }")]).is_empty());
        assert!(of(&[("a", "mod below; use self::inner::C; use other_crate::b::B;"), ("b", "use crate::a::A;")]).is_empty());
    }
}
