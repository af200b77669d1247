//! One name for one idea: a type's name stands once in the workspace, or the glossary's third table says what all that have
//! it are. Types of tests may be called as is handy there, what a macro names is not seen, and an alias defines no type.
use super::{Complaint, lex, words::GLOSSARY};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

const HEAD: &str = "| name | what it is in all its places |";
/// Folders of sources beside those of `crates`.
const SOURCES: &[&str] = &["xtask/src", "chores/src"];

/// Where a name stands: a file and a line of it.
type At<'a> = (&'a Path, usize);

/// What is wrong with the names of the types in these sources, each the path from the root and the text.
pub fn complaints(sources: &[(PathBuf, String)], glossary: &str) -> Vec<Complaint> {
    let listed = table(glossary);
    let mut defined: BTreeMap<String, Vec<At<'_>>> = BTreeMap::new();
    for (path, text) in sources.iter().filter(|(path, _)| is_source(path)) {
        for (line, name) in definitions(text) {
            defined.entry(name).or_default().push((path, line));
        }
    }
    let unlisted = defined.iter().filter(|(name, places)| places.len() > 1 && !listed.contains_key(*name));
    let mut found: Vec<_> = unlisted.flat_map(|(name, places)| again(name, places)).collect();
    let idle = listed.iter().filter(|(name, _)| defined.get(*name).is_none_or(|places| places.len() < 2));
    found.extend(idle.map(|(name, line)| Complaint {
        path: GLOSSARY.into(),
        line: *line,
        what: format!("`{name}` is not the name of more than one type any more: take it out of the table"),
    }));
    found
}
/// Every place of a name after the first one, with that.
fn again<'a>(name: &'a str, places: &'a [At<'a>]) -> impl Iterator<Item = Complaint> + 'a {
    let (first, line) = places[0];
    places[1..].iter().map(move |(path, at)| Complaint {
        path: path.to_path_buf(),
        line: *at,
        what: format!("{}:{line} has a type `{name}` too: say what this one is, or in {GLOSSARY} what both are", first.display()),
    })
}
/// The names of the table, each with its line in the glossary. A row may have several.
fn table(glossary: &str) -> BTreeMap<String, usize> {
    let rows = glossary.lines().enumerate().skip_while(|(_, line)| *line != HEAD).skip(2).take_while(|(_, line)| line.starts_with('|'));
    rows.flat_map(|(k, row)| row.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2).map(move |name| (name.to_owned(), k + 1))).collect()
}
/// Is it compiled into something else than a test?
fn is_source(path: &Path) -> bool {
    let mut parts = path.iter().skip(2);
    let sources = SOURCES.iter().any(|folder| path.starts_with(folder)) || (path.starts_with("crates") && parts.next().is_some_and(|part| part == "src"));
    sources && !path.iter().any(|part| part == "tests" || part == "tests.rs")
}
/// The types that a source defines, with their lines.
fn definitions(text: &str) -> Vec<(usize, String)> {
    let code = lex::code(text);
    let mut found = Vec::new();
    let mut lines = code.iter().enumerate();
    while let Some((k, line)) = lines.next() {
        if line.trim_start().starts_with("#[cfg(test)]") {
            skip_item(&mut lines);
        } else if let Some(name) = defined(line) {
            found.push((k + 1, name.to_owned()));
        }
    }
    found
}
/// Goes behind the item that begins here.
fn skip_item<'a>(lines: &mut impl Iterator<Item = (usize, &'a String)>) {
    let mut depth = 0_i32;
    for (_, line) in lines {
        depth += line.chars().map(|c| i32::from(c == '{') - i32::from(c == '}')).sum::<i32>();
        if depth <= 0 && line.trim_end().ends_with(['}', ';']) {
            return;
        }
    }
}
/// The type that is defined in a line.
fn defined(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        rest = public.trim_start();
        if rest.starts_with('(') {
            rest = rest.split_once(')')?.1.trim_start();
        }
    }
    rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (keyword, rest) = rest.split_once(' ')?;
    let name = &rest[..rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())];
    (["struct", "enum", "trait", "union"].contains(&keyword) && name.starts_with(char::is_uppercase)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Glossary\n\n| name | what it is in all its places |\n|---|---|\n| `Options` | asked |\n| `Cli`, `Verb` | said |\n\n| `Line` | x |\n";

    /// The complaints about these files, as they are printed.
    fn told(files: &[(&str, &str)], glossary: &str) -> Vec<String> {
        let sources: Vec<_> = files.iter().map(|(path, text)| (PathBuf::from(path), text.to_string())).collect();
        complaints(&sources, glossary).iter().map(Complaint::to_string).collect()
    }
    #[test]
    fn a_name_that_two_types_have_is_told_with_both_places() {
        let (a, b) = (("crates/a/src/a.rs", "//! Why.\nstruct Line;"), ("xtask/src/b.rs", "//! Why.\n\npub(crate) enum Line<'a> {}"));
        let found = told(&[a, b], "");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("xtask/src/b.rs:3: crates/a/src/a.rs:2 has a type `Line` too"), "{found:?}");
        // One that is in a function, in the same file.
        assert_eq!(told(&[("chores/src/a.rs", "struct Line;\nfn f() {\n    struct Line;\n}")], "").len(), 1);
    }
    #[test]
    fn a_name_is_no_other_types() {
        let of = |text| told(&[("crates/a/src/a.rs", "pub struct Line;"), ("crates/b/src/b.rs", text)], "").len();
        for (text, found) in [
            ("pub unsafe trait Line {}", 1),
            ("union Line {}", 1),
            ("pub struct Lines;", 0),
            ("// struct Line;\nlet s = \"\nstruct Line;\";", 0),
            ("struct $Line;", 0),
            ("enum Part {\n    Line(Line),\n}", 0),
            ("#[cfg(test)]\nmod tests {\n    struct Line;\n    fn f() {}\n}", 0),
            // What stands behind the tests counts.
            ("#[cfg(test)]\nmod tests;\nstruct Line;", 1),
            ("#[cfg(test)]\nmod tests {\n    fn f() {}\n}\nstruct Line;", 1),
        ] {
            assert_eq!(of(text), found, "{text}");
        }
        for path in ["crates/b/tests/b.rs", "crates/b/src/b/tests.rs", "crates/b/examples/b.rs", "examples/b/src/lib.rs"] {
            assert!(told(&[("crates/a/src/a.rs", "struct Line;"), (path, "struct Line;")], "").is_empty(), "{path}");
        }
    }
    #[test]
    fn a_row_of_the_table_allows_its_names_and_is_told_when_nothing_needs_it() {
        let file = |path| (path, "struct Options;\nstruct Cli;\nenum Verb {}");
        assert!(told(&[file("xtask/src/a.rs"), file("xtask/src/b.rs")], TABLE).is_empty());
        let found = told(&[file("xtask/src/a.rs"), ("xtask/src/b.rs", "struct Options;\nstruct Line;")], TABLE);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("docs/glossary.md:6: `Cli`") && found[1].starts_with("docs/glossary.md:6: `Verb`"), "{found:?}");
    }
    #[test]
    fn a_glossary_whose_table_is_not_read() {
        let glossary = std::fs::read_to_string(crate::workspace::root().join(GLOSSARY)).unwrap();
        assert!(table(&glossary).len() >= 30);
    }
}
