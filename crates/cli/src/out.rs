//! What the program writes: answers to stdout, words for people to stderr. A reader that has seen enough (`| head`) is no
//! fault; a disk that is full is one, and has its exit code. Texts may come from files: nothing of them orders a terminal about.
use adamant_train::{Failure, storage::stdout_error};
use std::{
    borrow::Cow,
    io::{ErrorKind, IsTerminal, Write, stderr, stdout},
};

/// Writes to stdout, to the last byte, as it is.
pub fn write(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    sort(out.write_all(text.as_bytes()).and_then(|()| out.flush()), text.len())
}
/// What became of something that was printed. A reader that has left is no fault.
pub fn sort(done: std::io::Result<()>, needed: usize) -> Result<(), Failure> {
    match done {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(stdout_error(&e, needed as u64)),
        _ => Ok(()),
    }
}
/// Writes a line, or a JSON document, to stdout.
pub fn line(text: impl std::fmt::Display) -> Result<(), Failure> {
    write(&format!("{}\n", plain(&text.to_string())))
}
/// Writes a piece of a text that a model makes: as it is into a file or a pipe, as [`plain`] text on a terminal.
pub fn piece(text: &str) -> Result<(), Failure> {
    if stdout().is_terminal() { write(&plain(text)) } else { write(text) }
}
/// Writes a line to stderr. Where even that cannot be written there is nobody to tell.
pub fn note(text: impl std::fmt::Display) {
    let text = text.to_string();
    let _ = writeln!(stderr().lock(), "{}", plain(&text));
}
/// A text without what a terminal would obey: escape sequences, bells and carriage returns are written out; so is nothing in
/// JSON, which has none of them. Characters of the upper control set, and those that turn the direction of text around
/// (Boucher and Anderson, "Trojan Source", 2021), become U+FFFD.
pub fn plain(text: &str) -> Cow<'_, str> {
    let is_written_out = |c: char| c.is_ascii_control() && c != '\n' && c != '\t' && c != '\u{7f}';
    let is_replaced = |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.chars().any(|c| is_written_out(c) || is_replaced(c)) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_written_out(c) {
            out.extend(c.escape_default());
        } else {
            out.push(if is_replaced(c) { '\u{fffd}' } else { c });
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_file_that_a_terminal_obeys() {
        for (text, shown) in [
            ("a \u{1b}[31mred\u{1b}]0;owned\u{7}\r", "a \\u{1b}[31mred\\u{1b}]0;owned\\u{7}\\r"),
            ("\u{9b}31m\u{7f}\u{202e}gpj.exe\u{2069}", "\u{fffd}31m\u{fffd}\u{fffd}gpj.exe\u{fffd}"),
            ("two\n\tlines of Köln \u{1F980}", "two\n\tlines of Köln \u{1F980}"),
        ] {
            assert_eq!(plain(text), shown);
        }
        // A document stays one.
        let document = serde_json::json!({ "name": "\u{1b}[31m\u{202e}\u{7f}\"\\\n" });
        assert!(serde_json::from_str::<serde_json::Value>(&plain(&document.to_string())).is_ok());
    }
}
