//! Records of a CSV file, one at a time: bytes to fields, with their line and their place, under limits. What the fields
//! mean is [`crate::Frame`]'s affair; what the file looks like (delimiter, header), that of `look`.
mod look;
mod survey;

pub use look::Head;
pub(crate) use look::{is_number, look};
pub use survey::{Seen, Survey};

use crate::Limits;
use std::{
    fmt,
    io::{BufRead, Cursor, Read},
    path::{Path, PathBuf},
    str::FromStr,
};

/// What stands between two fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// one byte
    Byte(u8),
    /// any number of spaces and tabs; those at a line's ends are none
    Whitespace,
}
impl FromStr for Delimiter {
    type Err = String;
    /// One ASCII character, `\t` or `tab`, or `whitespace`.
    fn from_str(text: &str) -> Result<Delimiter, String> {
        match text {
            "whitespace" | " " => Ok(Delimiter::Whitespace),
            "tab" | "\\t" | "\t" => Ok(Delimiter::Byte(b'\t')),
            text => match text.as_bytes() {
                [byte] if byte.is_ascii_punctuation() && *byte != b'"' => Ok(Delimiter::Byte(*byte)),
                _ => Err(format!("`{}` is no delimiter; write \",\", \";\", \"|\", \"\\t\" or \"whitespace\"", adamant_formats::shown(text))),
            },
        }
    }
}
impl fmt::Display for Delimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delimiter::Byte(b'\t') => f.write_str("\\t"),
            Delimiter::Byte(byte) => write!(f, "{}", char::from(*byte)),
            Delimiter::Whitespace => f.write_str("whitespace"),
        }
    }
}

/// How a CSV file is read. What is not said is looked for in its first lines.
///
/// ```
/// use adamant_data::{CsvOptions, Delimiter};
/// let semicolons = CsvOptions { delimiter: Some(Delimiter::Byte(b';')), header: Some(true), ..CsvOptions::default() };
/// assert_eq!(semicolons.skip_rows, 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct CsvOptions {
    /// is its first line one of names; looked for unless it is said
    pub header: Option<bool>,
    /// what stands between fields; looked for unless it is said
    pub delimiter: Option<Delimiter>,
    /// lines before the first that counts
    pub skip_rows: usize,
    /// lines that begin so are left out
    pub comment: Option<u8>,
    /// is a comma in a number what a point is elsewhere
    pub decimal_comma: bool,
    /// the columns that are read, by name (with a header) or number, in this order; all of them if there are none
    pub columns: Vec<String>,
    /// fields that stand for a value that is not there
    pub missing_values: Vec<String>,
    /// how much is read at most
    pub limits: Limits,
}

/// What the first bytes of a file are looked at for.
const SAMPLE: usize = 256 << 10;

/// A CSV file whose first lines were looked at; its records come next.
pub(crate) struct CsvFile {
    pub path: PathBuf,
    pub head: Head,
    pub records: Records,
}
impl CsvFile {
    /// Opens a file, plain or gzipped, and reads its header.
    pub fn open(path: &Path, options: &CsvOptions) -> Result<CsvFile, String> {
        let mut source = crate::source::open(path, &options.limits).map_err(|e| e.to_string())?;
        let (mut line, mut offset) = (1, 0);
        let start = source.bytes.fill_buf().map_err(|e| e.to_string())?;
        if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
            return Err("it is UTF-16; save it as UTF-8".into());
        }
        if start.starts_with(&[0xef, 0xbb, 0xbf]) {
            source.bytes.consume(3);
            offset = 3;
        }
        for _ in 0..options.skip_rows {
            offset += skip_line(&mut *source.bytes)?;
            line += 1;
        }
        let mut sample = Vec::new();
        source.bytes.by_ref().take(SAMPLE as u64).read_to_end(&mut sample).map_err(|e| e.to_string())?;
        let whole = sample.len() < SAMPLE;
        let head = look(&sample, whole, options)?;
        let bytes = Box::new(Cursor::new(sample).chain(source.bytes));
        let mut records = Records::new(bytes, head.delimiter, options.comment, options.limits);
        (records.next_line, records.next_offset) = (line, offset);
        if head.header {
            records.next()?;
        }
        Ok(CsvFile { path: path.to_path_buf(), head, records })
    }
}
/// Bytes of a line that nobody reads.
fn skip_line(source: &mut dyn BufRead) -> Result<u64, String> {
    let mut skipped = 0;
    loop {
        let buffer = source.fill_buf().map_err(|e| e.to_string())?;
        let end = buffer.iter().position(|b| *b == b'\n');
        let n = end.map_or(buffer.len(), |end| end + 1);
        let over = end.is_some() || n == 0;
        source.consume(n);
        skipped += n as u64;
        if over {
            return Ok(skipped);
        }
    }
}

/// The records of a file, one after the other. Empty lines are none.
pub(crate) struct Records {
    source: Box<dyn BufRead + Send>,
    /// none where white space is between the fields
    core: Option<csv_core::Reader>,
    comment: Option<u8>,
    limits: Limits,
    /// the bytes of the fields, one after the other, without quotes, and where each ends
    bytes: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
    /// of the record that was read last: its line, from 1, and its first byte
    pub line: u64,
    pub offset: u64,
    next_line: u64,
    next_offset: u64,
}
impl Records {
    pub fn new(source: Box<dyn BufRead + Send>, delimiter: Delimiter, comment: Option<u8>, limits: Limits) -> Records {
        let core = match delimiter {
            Delimiter::Byte(byte) => Some(csv_core::ReaderBuilder::new().delimiter(byte).build()),
            Delimiter::Whitespace => None,
        };
        Records { source, core, comment, limits, bytes: Vec::new(), ends: Vec::new(), count: 0, line: 0, offset: 0, next_line: 1, next_offset: 0 }
    }
    /// Fields of the record.
    pub fn len(&self) -> usize {
        self.count
    }
    /// A field without the white space around it; empty if there is none.
    pub fn field(&self, k: usize) -> &[u8] {
        if k >= self.count {
            return &[];
        }
        let start = if k == 0 { 0 } else { self.ends[k - 1] };
        self.bytes[start..self.ends[k]].trim_ascii()
    }
    /// Reads the next record; false at the end.
    ///
    /// # Errors
    /// The system's; a record beyond the limits, with its line.
    pub fn next(&mut self) -> Result<bool, String> {
        loop {
            let Some(first) = self.fill()?.first().copied() else { return Ok(false) };
            match first {
                b'\n' => {
                    self.consume(1);
                    self.next_line += 1;
                }
                b'\r' => self.consume(1),
                first if Some(first) == self.comment => {
                    self.next_offset += skip_line(&mut *self.source)?;
                    self.next_line += 1;
                }
                _ => {
                    (self.line, self.offset, self.count) = (self.next_line, self.next_offset, 0);
                    let found = if self.core.is_some() { self.delimited()? } else { self.spaced()? };
                    if found {
                        return self.check().map(|()| true);
                    }
                }
            }
        }
    }
    fn fill(&mut self) -> Result<&[u8], String> {
        let line = self.next_line;
        self.source.fill_buf().map_err(|e| format!("line {line}: {e}"))
    }
    fn consume(&mut self, n: usize) {
        self.source.consume(n);
        self.next_offset += n as u64;
    }
    fn over(&self, what: String, key: &str) -> String {
        format!("line {}: a record of {what}, the limit `{key}`; is the delimiter right, and is every quote closed?", self.line)
    }
    fn check(&self) -> Result<(), String> {
        let mut start = 0;
        // What is no longer as a whole is not longer in a part.
        for end in self.ends[..self.count].iter().filter(|_| self.bytes.len() > self.limits.field_bytes) {
            if end - start > self.limits.field_bytes {
                return Err(self.over(format!("a field of more than {} bytes", self.limits.field_bytes), "field_bytes"));
            }
            start = *end;
        }
        Ok(())
    }
    /// Capacity for more, as far as the limits allow.
    fn grow(&mut self) -> Result<(), String> {
        let (bytes, fields) = (self.limits.line_bytes, self.limits.fields);
        if self.bytes.len() >= bytes {
            return Err(self.over(format!("more than {bytes} bytes"), "line_bytes"));
        }
        if self.ends.len() > fields {
            return Err(self.over(format!("more than {fields} fields"), "fields"));
        }
        Ok(())
    }
    fn delimited(&mut self) -> Result<bool, String> {
        use csv_core::ReadRecordResult as Did;
        let (mut bytes, mut ends) = (0, 0);
        loop {
            if self.bytes.len() == bytes {
                self.grow()?;
                self.bytes.resize((2 * bytes).clamp(256, self.limits.line_bytes.max(256)), 0);
            }
            if self.ends.len() == ends {
                self.grow()?;
                self.ends.resize((2 * ends).clamp(16, self.limits.fields + 1), 0);
            }
            let line = self.next_line;
            let Some(core) = &mut self.core else { return Ok(false) };
            let before = core.line();
            let input = self.source.fill_buf().map_err(|e| format!("line {line}: {e}"))?;
            let (did, read, wrote, ended) = core.read_record(input, &mut self.bytes[bytes..], &mut self.ends[ends..]);
            self.next_line += core.line() - before;
            self.consume(read);
            bytes += wrote;
            ends += ended;
            match did {
                Did::InputEmpty | Did::OutputFull | Did::OutputEndsFull => {}
                Did::Record => {
                    self.count = ends;
                    return if ends > self.limits.fields { self.grow().map(|()| true) } else { Ok(true) };
                }
                Did::End => return Ok(false),
            }
        }
    }
    /// A line whose fields have white space between them; one in quotes may hold some. False if there are none.
    fn spaced(&mut self) -> Result<bool, String> {
        let mut line = Vec::new();
        loop {
            let buffer = self.source.fill_buf().map_err(|e| e.to_string())?;
            let end = buffer.iter().position(|b| *b == b'\n');
            let n = end.map_or(buffer.len(), |end| end + 1);
            line.extend_from_slice(&buffer[..n]);
            self.consume(n);
            if line.len() > self.limits.line_bytes {
                return Err(self.over(format!("more than {} bytes", self.limits.line_bytes), "line_bytes"));
            }
            if end.is_some() || n == 0 {
                break;
            }
        }
        self.next_line += 1;
        self.bytes.clear();
        self.ends.clear();
        let (mut quoted, mut inside) = (false, false);
        for byte in line {
            match byte {
                b'"' => (quoted, inside) = (!quoted, true),
                b' ' | b'\t' | b'\r' | b'\n' if !quoted => {
                    if inside {
                        self.ends.push(self.bytes.len());
                    }
                    inside = false;
                }
                byte => {
                    self.bytes.push(byte);
                    inside = true;
                }
            }
            if self.ends.len() > self.limits.fields {
                return Err(self.over(format!("more than {} fields", self.limits.fields), "fields"));
            }
        }
        if inside {
            self.ends.push(self.bytes.len());
        }
        self.count = self.ends.len();
        Ok(self.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(bytes: &[u8], delimiter: Delimiter, comment: Option<u8>, limits: Limits) -> Result<Vec<(u64, u64, Vec<String>)>, String> {
        // A buffer of three bytes: every record is cut somewhere.
        let source = std::io::BufReader::with_capacity(3, Cursor::new(bytes.to_vec()));
        let mut records = Records::new(Box::new(source), delimiter, comment, limits);
        let mut all = Vec::new();
        while records.next()? {
            let fields = (0..records.len()).map(|k| String::from_utf8_lossy(records.field(k)).into_owned()).collect();
            all.push((records.line, records.offset, fields));
        }
        Ok(all)
    }
    #[test]
    fn a_record_that_is_cut_at_the_wrong_place_or_counted_on_the_wrong_line() {
        let comma = Delimiter::Byte(b',');
        for (bytes, delimiter, expected) in [
            ("1,2\r\n\r\n\"a,\nb\", c \r\n# no\r\n3,\"\"\"\"", comma, vec![(1, 0, "1|2"), (3, 7, "a,\nb|c"), (6, 25, "3|\"")]),
            ("\n\n1\n\n2", comma, vec![(3, 2, "1"), (5, 5, "2")]),
            ("1;2;\n;;\n", Delimiter::Byte(b';'), vec![(1, 0, "1|2|"), (2, 5, "||")]),
            ("a\rb\r", comma, vec![(1, 0, "a"), (1, 2, "b")]),
            ("  1  2\t 3 \n   \n\"x y\"  4\n", Delimiter::Whitespace, vec![(1, 0, "1|2|3"), (3, 15, "x y|4")]),
            ("", comma, vec![]),
        ] {
            let found = records(bytes.as_bytes(), delimiter, Some(b'#'), Limits::default()).unwrap();
            let found: Vec<_> = found.into_iter().map(|(line, offset, fields)| (line, offset, fields.join("|"))).collect();
            let expected: Vec<_> = expected.into_iter().map(|(l, o, f)| (l, o, f.to_string())).collect();
            assert_eq!(found, expected, "{bytes:?}");
        }
    }
    #[test]
    fn a_record_without_an_end() {
        let limits = Limits { line_bytes: 4096, field_bytes: 1000, fields: 50, ..Limits::default() };
        for (bytes, says) in [
            ("x".repeat(5000), "line_bytes"),
            ("x".repeat(2000), "field_bytes"),
            ("1,".repeat(60), "`fields`"),
            ("\"\n".to_string() + &"a\n".repeat(3000), "line_bytes"),
        ] {
            let error = records(format!("1,2\n{bytes}").as_bytes(), Delimiter::Byte(b','), None, limits).unwrap_err();
            assert!(error.contains(says) && error.starts_with("line 2"), "{error}");
        }
        for (bytes, says) in [("x".repeat(5000), "line_bytes"), ("1 ".repeat(60), "`fields`"), ("x".repeat(2000), "field_bytes")] {
            let error = records(bytes.as_bytes(), Delimiter::Whitespace, None, limits).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
