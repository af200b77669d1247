//! Cuts what a rank writes into lines.

/// A line is shown in pieces of at most so many bytes.
pub const LONGEST_LINE: usize = 64 * 1024;

/// Bytes as they come, and lines as they are whole. A line ends with a line feed, or with a carriage return: a progress bar that draws
/// over itself is seen line by line. What has no end is a line when the stream ends.
#[derive(Debug, Default)]
pub struct LineCutter {
    held: Vec<u8>,
    /// of `held`, what was looked through
    seen: usize,
}
impl LineCutter {
    /// Takes bytes, and gives each line that is whole: without its end, and with it.
    pub fn push(&mut self, bytes: &[u8], line: &mut dyn FnMut(&[u8], &[u8])) {
        self.held.extend_from_slice(bytes);
        let mut from = 0;
        loop {
            let rest = &self.held[from..];
            let seen = self.seen.max(from) - from;
            let end = rest.iter().skip(seen).position(|byte| matches!(byte, b'\n' | b'\r')).map(|at| at + seen);
            let (length, ending) = match end {
                Some(at) if at <= LONGEST_LINE => match (rest[at], rest.get(at + 1)) {
                    (b'\r', Some(b'\n')) => (at, 2),
                    // Its line feed may be on the way.
                    (b'\r', None) => {
                        self.seen = from + at;
                        break;
                    }
                    _ => (at, 1),
                },
                _ if rest.len() > LONGEST_LINE => (whole_characters(&rest[..LONGEST_LINE]), 0),
                _ => {
                    self.seen = self.held.len();
                    break;
                }
            };
            line(&rest[..length], &rest[..length + ending]);
            from += length + ending;
        }
        self.held.drain(..from);
        self.seen = self.seen.saturating_sub(from);
    }
    /// Gives what is left when the stream has ended.
    pub fn finish(&mut self, line: &mut dyn FnMut(&[u8], &[u8])) {
        let rest = std::mem::take(&mut self.held);
        self.seen = 0;
        if !rest.is_empty() {
            line(rest.strip_suffix(b"\r").unwrap_or(&rest), &rest);
        }
    }
}
/// So many of these bytes end with a whole character, where they are UTF-8.
fn whole_characters(bytes: &[u8]) -> usize {
    let is_inside = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let inside = bytes.iter().rev().take_while(is_inside).count();
    let begin = bytes.len().saturating_sub(inside + 1);
    let needed = match bytes.get(begin) {
        Some(0b1100_0000..=0b1101_1111) => 2,
        Some(0b1110_0000..=0b1110_1111) => 3,
        Some(0b1111_0000..=0b1111_0111) => 4,
        _ => 0,
    };
    if begin > 0 && needed > inside + 1 { begin } else { bytes.len() }
}
