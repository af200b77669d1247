//! Rust source without its comments and the insides of its literals, line by line: enough to look for words in code.

/// The lines of a source; what is no code is replaced by spaces.
pub fn code(source: &str) -> Vec<String> {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = not_code(&chars, at);
        if end > at {
            out.extend(chars[at..end].iter().map(|&c| if c == '\n' { c } else { ' ' }));
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out.lines().map(str::to_string).collect()
}
/// Where the comment or literal that begins here ends; the same place if none begins.
fn not_code(chars: &[char], at: usize) -> usize {
    let get = |k: usize| chars.get(k).copied().unwrap_or('\0');
    let word_before = at > 0 && (get(at - 1).is_alphanumeric() || get(at - 1) == '_');
    match (get(at), get(at + 1)) {
        ('/', '/') => (at..chars.len()).find(|&k| chars[k] == '\n').unwrap_or(chars.len()),
        ('/', '*') => block_comment(chars, at),
        ('"', _) => quoted(chars, at + 1, '"'),
        ('r', '"' | '#') | ('b', 'r') | ('c', 'r') if !word_before => raw_string(chars, at),
        // A lifetime has no closing quote after one character.
        ('\'', '\\') => quoted(chars, at + 1, '\''),
        ('\'', _) if get(at + 2) == '\'' => at + 3,
        _ => at,
    }
}
fn block_comment(chars: &[char], start: usize) -> usize {
    let (mut depth, mut k) = (0, start);
    while k < chars.len() {
        match (chars[k], chars.get(k + 1)) {
            ('/', Some('*')) => (depth, k) = (depth + 1, k + 2),
            ('*', Some('/')) if depth == 1 => return k + 2,
            ('*', Some('/')) => (depth, k) = (depth - 1, k + 2),
            _ => k += 1,
        }
    }
    chars.len()
}
fn quoted(chars: &[char], mut k: usize, quote: char) -> usize {
    while k < chars.len() && chars[k] != quote {
        k += if chars[k] == '\\' { 2 } else { 1 };
    }
    (k + 1).min(chars.len())
}
fn raw_string(chars: &[char], start: usize) -> usize {
    let r = (start..chars.len()).find(|&k| chars[k] == 'r').unwrap_or(start);
    let hashes = chars[r + 1..].iter().take_while(|c| **c == '#').count();
    if chars.get(r + 1 + hashes) != Some(&'"') {
        return start;
    }
    let mut k = r + 2 + hashes;
    while k < chars.len() {
        if chars[k] == '"' && chars[k + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes {
            return k + 1 + hashes;
        }
        k += 1;
    }
    chars.len()
}
/// Does the line hold this word, not as a part of a longer one?
pub fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| !part(line[..at].chars().next_back()) && !part(line[at + word.len()..].chars().next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        for (source, word) in [
            ("let x = \"todo\";", false),
            ("let x = \"a\\\" todo\";", false),
            ("// todo", false),
            ("/* a /* todo */ todo */ ", false),
            ("/* a */ todo", true),
            ("r#\"a\" todo\"#", false),
            ("br\"todo\" ", false),
            ("let r = todo;", true),
            ("let c = '\"'; todo", true),
            ("let c = '\\''; todo", true),
            ("fn f<'a>(x: &'a str) { todo }", true),
            ("for r in todo {}", true),
            ("todo_list", false),
        ] {
            assert_eq!(code(source).iter().any(|l| has_word(l, "todo")), word, "{source}");
        }
    }
}
