//! The notation that helpers and skeletons are written in: the part of WGSL that goes to C word by word.
//!
//! Functions, `let` and `var` with their types, `if`, `for`, `while`, `return`; `bool`, `i32`, `u32`, `f32` and, where a
//! dialect has them, `i64`, `u64` and `f64`; `vec2<u32>` and `vec2<f32>`, whose halves are named one by one; local arrays;
//! structs; `select`, `min`, `max`, `bitcast` between `f32` and `u32`, conversions by a type's name. `p[k]` is word k of
//! the parameters. What is left out has a method of [`Dialect`](crate::Dialect): memory of a binding, atomics, barriers,
//! subgroups.

/// Around statements that are in a dialect itself: nothing in them is translated.
pub(crate) const BEGIN: char = '\u{2}';
pub(crate) const END: char = '\u{3}';

/// One word of a text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Word<'a> {
    /// a name or keyword
    Name(&'a str),
    /// a number
    Number(&'a str),
    /// statements in a dialect itself
    Verbatim(&'a str),
    /// anything else: an operator, a bracket, white space, a comment
    Other(&'a str),
}

/// Cuts a text into words that joined give it back.
pub(crate) fn words(text: &str) -> Vec<Word<'_>> {
    let bytes = text.as_bytes();
    let end_of = |from: usize, f: &dyn Fn(usize) -> bool| (from..bytes.len()).find(|&k| !f(k)).unwrap_or(bytes.len());
    let mut out = vec![];
    let mut at = 0;
    while at < bytes.len() {
        let b = bytes[at];
        let next = bytes.get(at + 1).copied().unwrap_or(0);
        let end;
        if b.is_ascii_alphabetic() || b == b'_' {
            end = end_of(at, &|k| bytes[k].is_ascii_alphanumeric() || bytes[k] == b'_');
            out.push(Word::Name(&text[at..end]));
        } else if b.is_ascii_digit() {
            let hex = b == b'0' && next == b'x';
            end = end_of(at, &|k| {
                bytes[k].is_ascii_alphanumeric() || bytes[k] == b'.' || (!hex && matches!(bytes[k], b'+' | b'-') && matches!(bytes[k - 1], b'e' | b'E'))
            });
            out.push(Word::Number(&text[at..end]));
        } else if b == BEGIN as u8 {
            let inside = end_of(at, &|k| bytes[k] != END as u8);
            out.push(Word::Verbatim(&text[at + 1..inside]));
            end = (inside + 1).min(bytes.len());
        } else if b == b'/' && next == b'/' {
            end = text[at..].find('\n').map_or(bytes.len(), |k| at + k);
            out.push(Word::Other(&text[at..end]));
        } else {
            end = at + text[at..].chars().next().map_or(1, char::len_utf8);
            out.push(Word::Other(&text[at..end]));
        }
        at = end;
    }
    out
}

/// The text with names replaced.
pub(crate) fn substitute(text: &str, names: &[(&str, &str)]) -> String {
    words(text)
        .into_iter()
        .map(|w| match w {
            Word::Name(n) => names.iter().find(|(from, _)| *from == n).map_or(n, |(_, to)| to),
            Word::Number(s) | Word::Verbatim(s) | Word::Other(s) => s,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_join_to_the_text() {
        let text = "fn f(x: f32) -> f32 { // why: π\n return -1.5e-3 * x + 0x7fu; }";
        let joined: String = words(text)
            .into_iter()
            .map(|w| match w {
                Word::Name(s) | Word::Number(s) | Word::Verbatim(s) | Word::Other(s) => s,
            })
            .collect();
        assert_eq!(joined, text);
        assert!(words(text).contains(&Word::Number("1.5e-3")));
    }
    #[test]
    fn operands_replace_whole_names_only() {
        assert_eq!(substitute("exp(x) + x0 * max(x, y)", &[("x", "r1"), ("y", "x")]), "exp(r1) + x0 * max(r1, x)");
    }
}
