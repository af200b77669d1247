//! Text from a file as a person gets to see it: what a terminal would obey, or what would reorder a line, is written as
//! an escape, and a text of a megabyte is cut. Everything that quotes a file goes through here; so no file can colour a
//! terminal, name its window or push a message off the screen.

/// Characters of a quoted cell, name or value.
const QUOTED: usize = 80;
/// Characters of a whole reason, which may quote several.
const REASON: usize = 600;

/// A text of a file, as it stands in a message: at most 80 characters, control and direction characters escaped. Bytes that
/// are no UTF-8 become the replacement character.
///
/// ```
/// use adamant_formats::shown;
/// assert_eq!(shown("petal_width"), "petal_width");
/// assert_eq!(shown("\u{1b}[31mred"), "\\u{1b}[31mred");
/// assert!(shown("x".repeat(10_000_000)).ends_with("... (10000000 bytes)"));
/// ```
pub fn shown(text: impl AsRef<[u8]>) -> String {
    cut(text.as_ref(), QUOTED)
}
/// A reason that quotes files, as the last step before it becomes an error: longer than [`shown`], and the same else.
pub fn shown_reason(text: impl AsRef<[u8]>) -> String {
    cut(text.as_ref(), REASON)
}
fn cut(bytes: &[u8], most: usize) -> String {
    // A character takes at most 4 bytes, so what lies behind cannot be shown and need not be decoded.
    let head = &bytes[..bytes.len().min(4 * most + 4)];
    let text = String::from_utf8_lossy(head);
    let mut out = String::with_capacity(head.len());
    for (k, c) in text.chars().enumerate() {
        if k == most {
            return out + &format!("... ({} bytes)", bytes.len());
        }
        if c.is_control() || is_hidden(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    if head.len() < bytes.len() { out + &format!("... ({} bytes)", bytes.len()) } else { out }
}
/// Characters that change the order of others or have no width: marks, embeddings, overrides and isolates of direction,
/// joiners, line and paragraph separators, tags (Boucher and Anderson, "Trojan Source", 2021).
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_reaches_the_terminal_as_it_is() {
        for hostile in ["\u{1b}]0;owned\u{7}", "a\rb\nc\td\u{8}", "\u{9b}31m", "\u{202e}gpj.exe", "\u{2066}x\u{2069}", "\u{feff}", "\u{200b}", "\u{2028}", "\0"]
        {
            let text = shown(hostile);
            assert!(text.chars().all(|c| !c.is_control() && !is_hidden(c)), "{text:?}");
            // What is shown is shown the same when it is quoted again.
            assert_eq!(shown_reason(&text), text);
        }
        assert_eq!(shown("K\u{f6}ln \u{1F980} `x`\\"), "K\u{f6}ln \u{1F980} `x`\\");
        assert_eq!(shown(b"ok \xff"), "ok \u{fffd}");
    }
    #[test]
    fn a_text_that_is_longer_than_a_line() {
        for (text, most) in [("x".repeat(81), QUOTED), ("\u{1F980}".repeat(5000), QUOTED), ("\u{e9}".repeat(81), QUOTED)] {
            let cut = shown(&text);
            assert!(cut.starts_with(&text.chars().take(most).collect::<String>()) && cut.ends_with(&format!("... ({} bytes)", text.len())), "{cut}");
        }
        assert_eq!(shown("x".repeat(80)).len(), 80);
        assert!(shown_reason("x".repeat(1 << 20)).len() < 700);
    }
}
