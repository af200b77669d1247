//! What launcher and rank say to each other: a line each, over a socket that both have inherited and nobody else can reach.
use std::fmt::Write;

/// A line is no longer.
pub(crate) const LONGEST: usize = 64 * 1024;

/// What a rank says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SeatSays {
    /// its group of this epoch is over, if it had one, and the rank of it that it lost, if that is known
    Want { epoch: Option<u64>, lost: Option<usize> },
    /// what newcomers are to know
    Word(Vec<u8>),
}
/// What the launcher says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LauncherSays {
    /// to one that was just started
    Hello { word: Option<Vec<u8>> },
    /// a newcomer waits
    Call,
    /// they meet now
    Meet { epoch: u64, rank: usize, size: usize, word: Option<Vec<u8>> },
    /// this rank of those who were to meet, or are a group, is gone
    Stale { epoch: u64, rank: usize },
    /// this signal has ended another rank
    End { signal: i32 },
    /// nobody comes any more
    None { why: String },
}
fn hex(bytes: Option<&Vec<u8>>) -> String {
    let Some(bytes) = bytes else { return "-".into() };
    bytes.iter().fold(String::from("="), |mut text, byte| {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
fn bytes(text: &str) -> Option<Option<Vec<u8>>> {
    if text == "-" {
        return Some(None);
    }
    let digits = text.strip_prefix('=')?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let all = digits.chunks(2).map(|pair| Some((digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?) as u8)).collect::<Option<Vec<u8>>>()?;
    Some(Some(all))
}
fn maybe<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    if text == "-" { Some(None) } else { text.parse().ok().map(Some) }
}
fn or_none<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "-".into(), T::to_string)
}
impl SeatSays {
    /// As a line, with its end.
    pub(crate) fn to_line(&self) -> String {
        match self {
            SeatSays::Want { epoch, lost } => format!("want {} {}\n", or_none(epoch.as_ref()), or_none(lost.as_ref())),
            SeatSays::Word(word) => format!("word {}\n", hex(Some(word))),
        }
    }
    /// Of a line without its end.
    pub(crate) fn read(line: &str) -> Option<SeatSays> {
        match *line.split(' ').collect::<Vec<_>>() {
            ["want", epoch, lost] => Some(SeatSays::Want { epoch: maybe(epoch)?, lost: maybe(lost)? }),
            ["word", word] => bytes(word)?.map(SeatSays::Word),
            _ => None,
        }
    }
}
impl LauncherSays {
    /// As a line, with its end.
    pub(crate) fn to_line(&self) -> String {
        match self {
            LauncherSays::Hello { word } => format!("hello {}\n", hex(word.as_ref())),
            LauncherSays::Call => "call\n".into(),
            LauncherSays::Meet { epoch, rank, size, word } => format!("meet {epoch} {rank} {size} {}\n", hex(word.as_ref())),
            LauncherSays::Stale { epoch, rank } => format!("stale {epoch} {rank}\n"),
            LauncherSays::End { signal } => format!("end {signal}\n"),
            LauncherSays::None { why } => format!("none {}\n", hex(Some(&why.as_bytes().to_vec()))),
        }
    }
    /// Of a line without its end.
    pub(crate) fn read(line: &str) -> Option<LauncherSays> {
        match *line.split(' ').collect::<Vec<_>>() {
            ["hello", word] => Some(LauncherSays::Hello { word: bytes(word)? }),
            ["call"] => Some(LauncherSays::Call),
            ["meet", epoch, rank, size, word] => {
                let (epoch, rank, size) = (epoch.parse().ok()?, rank.parse().ok()?, size.parse().ok()?);
                (rank < size).then_some(LauncherSays::Meet { epoch, rank, size, word: bytes(word)? })
            }
            ["stale", epoch, rank] => Some(LauncherSays::Stale { epoch: epoch.parse().ok()?, rank: rank.parse().ok()? }),
            ["end", signal] => signal.parse().ok().map(|signal| LauncherSays::End { signal }),
            ["none", why] => bytes(why)?.map(|why| LauncherSays::None { why: String::from_utf8_lossy(&why).into_owned() }),
            _ => None,
        }
    }
}
/// Lines out of bytes as they come.
#[derive(Default)]
pub(crate) struct SeatLines(Vec<u8>);
impl SeatLines {
    /// Takes bytes; gives the lines that are whole, without their ends. None: a line that has no end.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<Vec<String>> {
        self.0.extend_from_slice(bytes);
        let mut lines = Vec::new();
        while let Some(end) = self.0.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.0.drain(..=end).take(end).collect();
            lines.push(String::from_utf8_lossy(&line).into_owned());
        }
        (self.0.len() <= LONGEST).then_some(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_other_after_their_way() {
        let word = || vec![0, b' ', b'\n', 255];
        let seat = [
            SeatSays::Want { epoch: None, lost: None },
            SeatSays::Want { epoch: Some(u64::MAX), lost: Some(3) },
            SeatSays::Word(word()),
            SeatSays::Word(Vec::new()),
        ];
        let launcher = [
            LauncherSays::Hello { word: None },
            LauncherSays::Hello { word: Some(word()) },
            LauncherSays::Call,
            LauncherSays::Meet { epoch: 7, rank: 2, size: 3, word: Some(Vec::new()) },
            LauncherSays::Stale { epoch: 8, rank: 0 },
            LauncherSays::End { signal: 15 },
            LauncherSays::None { why: "nobody\nis left".into() },
        ];
        let text: String = seat.iter().map(SeatSays::to_line).chain(launcher.iter().map(LauncherSays::to_line)).collect();
        // Cut anywhere, the same lines come out.
        for cut in 0..text.len() {
            let (mut lines, (a, b)) = (SeatLines::default(), text.as_bytes().split_at(cut));
            let all: Vec<String> = [a, b].iter().flat_map(|part| lines.push(part).unwrap()).collect();
            assert_eq!(all[..seat.len()].iter().map(|line| SeatSays::read(line).unwrap()).collect::<Vec<_>>(), seat);
            assert_eq!(all[seat.len()..].iter().map(|line| LauncherSays::read(line).unwrap()).collect::<Vec<_>>(), launcher);
        }
    }
    #[test]
    fn words_that_make_no_sense_and_are_taken() {
        for line in ["", "want", "want 1", "want x -", "word -", "word 00", "word =0", "word =0g", "want 1 2 3", "hello"] {
            assert_eq!(SeatSays::read(line), None, "{line}");
        }
        for line in ["meet 1 3 3 -", "meet 1 0 1", "meet - 0 1 -", "stale 1", "end x", "none -", "want 1 2", "call 1"] {
            assert_eq!(LauncherSays::read(line), None, "{line}");
        }
        assert_eq!(SeatLines::default().push(&vec![b'x'; LONGEST + 1]), None);
    }
}
