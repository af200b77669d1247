//! The glossary's second table: what has a word in the field is called by it. Must not know any of the words.
use super::Complaint;
use std::path::Path;

/// The table's place.
pub const GLOSSARY: &str = "docs/glossary.md";
const HEAD: &str = "| not | but |";

/// The words of the table, each with what is written instead.
pub fn table(glossary: &str) -> Vec<(String, String)> {
    let rows = glossary.lines().skip_while(|line| *line != HEAD).skip(2).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
        Some((cells.next().filter(|word| !word.is_empty())?, cells.next()?))
    })
    .collect()
}
/// Where a file has one of them. What changed for users is told in the words of its time.
pub fn complaints(path: &Path, text: &str, table: &[(String, String)]) -> Vec<Complaint> {
    let is_ours = path.extension().is_some_and(|e| e == "rs" || e == "md");
    if !is_ours || path == Path::new(GLOSSARY) || path == Path::new("CHANGELOG.md") {
        return Vec::new();
    }
    let found = text.lines().enumerate().flat_map(|(k, line)| {
        let lower = line.to_lowercase();
        let has = move |word: &str| has_word(&lower, word);
        table.iter().filter(move |(word, _)| has(word)).map(move |(word, instead)| Complaint {
            path: path.to_path_buf(),
            line: k + 1,
            what: format!("`{word}` is `{instead}` in {GLOSSARY}"),
        })
    });
    found.collect()
}
/// Is the word there on its own, also between underscores?
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        apart(line[..at].chars().next_back()) && apart(line[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_the_table_that_is_not_found() {
        let table = table("a\n\n| not | but |\n|---|---|\n| held back | suppressed |\n| sham | software adapter |\n\n| sized | x |\n");
        assert_eq!(table.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>(), ["held back", "sham"]);
        let count = |path: &str, line: &str| complaints(Path::new(path), line, &table).len();
        for (line, found) in [("a commit is Held back", 1), ("fn is_sham() {}", 1), ("shame, shambles", 0), ("held\nback", 0), ("sized", 0)] {
            assert_eq!(count("crates/a/src/a.rs", line), found, "{line}");
        }
        assert_eq!((count(GLOSSARY, "sham"), count("CHANGELOG.md", "sham"), count("data.csv", "sham")), (0, 0, 0));
    }
    #[test]
    fn a_glossary_whose_table_is_not_read() {
        let glossary = std::fs::read_to_string(crate::workspace::root().join(GLOSSARY)).unwrap();
        assert!(table(&glossary).len() >= 6);
    }
}
