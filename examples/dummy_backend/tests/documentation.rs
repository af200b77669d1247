//! docs/adding-a-backend.md quotes this crate: each of its blocks names a file and stands in it, word for word.
use std::{fs, path::Path};

/// The blocks of Rust: the file that the first line names, and the quotation.
fn blocks(page: &str) -> Vec<(String, String)> {
    let fenced = page.split("```rust\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let named = fenced.filter_map(|(block, _)| block.split_once('\n'));
    named.map(|(first, rest)| (first.trim_start_matches("// ").to_string(), rest.to_string())).collect()
}
/// Is each part between lines of `// ...` in the text, one after the other?
fn is_quoted(text: &str, block: &str) -> bool {
    let mut parts: Vec<String> = vec![String::new()];
    for line in block.lines() {
        if line.trim() == "// ..." {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            *part += &format!("{line}\n");
        }
    }
    let mut from = 0;
    parts.iter().all(|part| match text[from..].find(part.as_str()) {
        Some(at) => {
            from += at + part.len();
            !part.trim().is_empty()
        }
        None => false,
    })
}

#[test]
fn a_quotation_that_is_not_in_its_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/adding-a-backend.md")).unwrap();
    let blocks = blocks(&page);
    assert!(blocks.len() >= 8, "{} blocks", blocks.len());
    for (file, block) in blocks {
        let text = fs::read_to_string(root.join(&file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(is_quoted(&text, &block), "not in {file}:\n{block}");
    }
}
#[test]
fn a_changed_line_is_noticed() {
    let text = "fn f() {\n    one();\n    two();\n}\n";
    assert!(is_quoted(text, "fn f() {\n    // ...\n    two();\n}\n"));
    assert!(!is_quoted(text, "fn f() {\n    // ...\n    three();\n}\n"));
    assert!(!is_quoted(text, "    two();\n    // ...\nfn f() {\n"));
}
