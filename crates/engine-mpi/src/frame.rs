//! The bytes that ranks exchange beside the data: the header of each call, and notes.
//!
//! Headers come before any data of a call, so that ranks which call different things see it before anything is
//! written. All numbers are little-endian. A frame that is no frame of this version is told as such, and read no further.
use std::borrow::Cow;

/// Bytes of a header; what is small enough follows it in the same message.
pub(crate) const HEADER: usize = 320;
/// The longest data that travel with the header.
pub(crate) const INLINE: usize = 4096;
/// Bytes of a note.
pub(crate) const NOTE: usize = 512;
/// Ranks that a note can name.
const NAMED: usize = 16;
const MAGIC: [u8; 4] = *b"ADM\x01";

/// What a rank calls, told to each other rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallHeader {
    /// how many calls of this sort there were before, between these ranks
    pub(crate) number: u64,
    /// what must be the same
    pub(crate) fingerprint: u64,
    /// how many bytes the receiver gets
    pub(crate) bytes: u64,
    /// how many its sender is to get from the receiver
    pub(crate) expects: u64,
    /// the call in words
    pub(crate) text: String,
}
impl CallHeader {
    /// Writes it; `out` is as long as a header at least.
    pub(crate) fn write(&self, out: &mut [u8]) {
        let mut at = HeaderWriter { out, at: 0 };
        at.put(&MAGIC);
        at.put(&self.number.to_le_bytes());
        at.put(&self.fingerprint.to_le_bytes());
        at.put(&self.bytes.to_le_bytes());
        at.put(&self.expects.to_le_bytes());
        at.text(&self.text, HEADER);
    }
    /// Reads it.
    ///
    /// # Errors
    /// Not one of this version: what it is, in words.
    pub(crate) fn read(bytes: &[u8]) -> Result<CallHeader, String> {
        let mut at = HeaderReader { bytes };
        match at.take::<4>() {
            Some(MAGIC) => {}
            Some([b'A', b'D', b'M', version]) => return Err(format!("something of version {version} of this engine (this rank's is {})", MAGIC[3])),
            _ => return Err("something that is no header of this engine".into()),
        }
        let mut read = || Some(CallHeader { number: at.number()?, fingerprint: at.number()?, bytes: at.number()?, expects: at.number()?, text: at.text()? });
        read().ok_or_else(|| "a header that is cut off".into())
    }
}

/// What a rank tells the others outside of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// It waits, in the call of these words, for these ranks: until they come to it, or for their data.
    Waiting { agreeing: bool, missing: Vec<usize>, call: String },
    /// Its group has ended by this.
    Failed { cause: EndCause, text: String },
    /// It calls no more, after so many calls: its program has let go of the group, or has ended.
    Left { calls: u64 },
    /// Its program has ended.
    Ending,
    /// It asks whether the other lives.
    Ask,
    /// The answer.
    Here,
}
/// Why a group ended, as far as it matters to the other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndCause {
    /// one rank failed or asked for it
    Told,
    /// ranks call different things
    Differ,
    /// this rank is lost
    Lost(usize),
}
impl Note {
    /// Writes it into a buffer of a note's length.
    pub(crate) fn write(&self, out: &mut [u8]) {
        let mut at = HeaderWriter { out, at: 0 };
        at.put(&MAGIC);
        match self {
            Note::Waiting { agreeing, missing, call } => {
                at.put(&[1, u8::from(*agreeing)]);
                let named = &missing[..missing.len().min(NAMED)];
                at.put(&[named.len() as u8]);
                named.iter().for_each(|rank| at.put(&(*rank as u32).to_le_bytes()));
                at.text(call, NOTE);
            }
            Note::Failed { cause, text } => {
                let (code, rank) = match cause {
                    EndCause::Told => (0, 0),
                    EndCause::Differ => (1, 0),
                    EndCause::Lost(rank) => (2, *rank as u32),
                };
                at.put(&[2, code]);
                at.put(&rank.to_le_bytes());
                at.text(text, NOTE);
            }
            Note::Left { calls } => {
                at.put(&[3]);
                at.put(&calls.to_le_bytes());
            }
            Note::Ending => at.put(&[6]),
            Note::Ask => at.put(&[4]),
            Note::Here => at.put(&[5]),
        }
    }
    /// Reads it; none of what is no note of this version.
    pub(crate) fn read(bytes: &[u8]) -> Option<Note> {
        let mut at = HeaderReader { bytes };
        if at.take::<4>()? != MAGIC {
            return None;
        }
        match at.take::<1>()? {
            [1] => {
                let [agreeing, n] = at.take::<2>()?;
                let missing = (0..n).map(|_| at.take::<4>().map(|rank| u32::from_le_bytes(rank) as usize)).collect::<Option<_>>()?;
                Some(Note::Waiting { agreeing: agreeing != 0, missing, call: at.text()? })
            }
            [2] => {
                let ([code], rank) = (at.take::<1>()?, at.take::<4>()?);
                let cause = match code {
                    0 => EndCause::Told,
                    1 => EndCause::Differ,
                    2 => EndCause::Lost(u32::from_le_bytes(rank) as usize),
                    _ => return None,
                };
                Some(Note::Failed { cause, text: at.text()? })
            }
            [3] => Some(Note::Left { calls: at.number()? }),
            [6] => Some(Note::Ending),
            [4] => Some(Note::Ask),
            [5] => Some(Note::Here),
            _ => None,
        }
    }
}

struct HeaderWriter<'o> {
    out: &'o mut [u8],
    at: usize,
}
impl HeaderWriter<'_> {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.out.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }
    /// Its length and what fits before `end`.
    fn text(&mut self, text: &str, end: usize) {
        let text = cut(text, end.saturating_sub(self.at + 2));
        self.put(&(text.len() as u16).to_le_bytes());
        self.put(text.as_bytes());
    }
}
/// As much of a text as fits: its beginning and its end, which tells the line.
fn cut(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return text.into();
    }
    let half = bytes.saturating_sub(4) / 2;
    let start = (0..=half).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let end = (text.len() - half..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    format!("{} .. {}", &text[..start], &text[end..]).into()
}
struct HeaderReader<'b> {
    bytes: &'b [u8],
}
impl HeaderReader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }
    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
    fn text(&mut self) -> Option<String> {
        let n = usize::from(u16::from_le_bytes(self.take()?));
        let text = self.bytes.get(..n)?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_a_long_text_keeps_both_ends() {
        for text in ["", "all_reduce (sum) of f32 [3] at a.rs:1", &format!("begin{}end", "é".repeat(400))] {
            let header = CallHeader { number: u64::MAX, fingerprint: 7, bytes: 1 << 40, expects: 9, text: text.into() };
            let mut out = [0xffu8; HEADER];
            header.write(&mut out);
            let read = CallHeader::read(&out).unwrap();
            assert_eq!((read.number, read.fingerprint, read.bytes, read.expects), (u64::MAX, 7, 1 << 40, 9));
            if text.len() < 200 {
                assert_eq!(read.text, text);
            } else {
                assert!(read.text.starts_with("begin") && read.text.ends_with("end") && read.text.contains(" .. "), "{}", read.text);
            }
        }
    }
    #[test]
    fn notes_are_read_as_they_were_written() {
        let notes = [
            Note::Waiting { agreeing: true, missing: vec![0, 3, 70_000], call: "barrier".into() },
            Note::Waiting { agreeing: false, missing: vec![], call: String::new() },
            Note::Failed { cause: EndCause::Told, text: "no memory".into() },
            Note::Failed { cause: EndCause::Differ, text: "x".into() },
            Note::Failed { cause: EndCause::Lost(1023), text: "x".into() },
            Note::Left { calls: 12 },
            Note::Ending,
            Note::Ask,
            Note::Here,
        ];
        for note in notes {
            let mut out = [0u8; NOTE];
            note.write(&mut out);
            assert_eq!(Note::read(&out), Some(note));
        }
        let many = Note::Waiting { agreeing: true, missing: (0..40).collect(), call: "y".repeat(2000) };
        let mut out = [0u8; NOTE];
        many.write(&mut out);
        assert!(matches!(Note::read(&out), Some(Note::Waiting { missing, .. }) if missing.len() == NAMED));
    }
    #[test]
    fn what_is_no_frame_is_refused() {
        let mut out = [0u8; HEADER];
        assert!(CallHeader::read(&out).unwrap_err().contains("no header"));
        out[..4].copy_from_slice(b"ADM\x09");
        assert!(CallHeader::read(&out).unwrap_err().contains("version 9"));
        out[..4].copy_from_slice(&MAGIC);
        out[36..38].copy_from_slice(&60_000u16.to_le_bytes());
        assert!(CallHeader::read(&out).unwrap_err().contains("cut off"));
        assert_eq!(Note::read(&[0; NOTE]), None);
        assert_eq!(Note::read(b"ADM\x01\x01\x01\xff"), None);
        assert_eq!(Note::read(b"ADM\x01\x07"), None);
    }
}
