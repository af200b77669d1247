//! A table as it was read: numbers and texts by row and column, with what is missing and which rows are bad. What becomes
//! of it (scaling, classes, one column for each text) is [`crate::Columns`]' affair.
use crate::{
    Limits,
    csv::{CsvFile, CsvOptions, Head, Records},
    file_error,
};
use adamant_core::Result;
use adamant_formats::shown;
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// a number in each field
    Number,
    /// one of a few texts in each field
    Text,
    /// as `Text`; a text that is a whole number has one spelling: 1, 1.0 and 01 are one
    Label,
}

/// How the fields of a table are read.
#[derive(Clone, Debug)]
pub struct FrameOptions {
    /// the columns that are read, by their number in the file, and what each holds
    pub columns: Vec<(usize, Kind)>,
    /// is a row bad in which a value is missing
    pub missing_is_bad: bool,
    /// are NaN and infinities numbers like others, rather than bad
    pub allow_nonfinite: bool,
}

/// What stands for a value that is not there: a NaN that no text becomes.
const MISSING: u32 = 0x7fc0_6d69;
/// Places where lines and rows part, that are remembered: of a file whose every row is of several lines, the first ones.
const LINES: usize = 1 << 18;
/// Numbers in a block.
const BLOCK: usize = 256 << 10;

/// Why a row is bad, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub reason: String,
    pub offset: u64,
}
/// Rows of a table in memory: one `f32` for each field that was asked for.
#[derive(Clone, Debug)]
pub struct Frame {
    path: PathBuf,
    head: Head,
    columns: Vec<(usize, Kind)>,
    /// by column, the texts in it; a field's number is its place among them
    levels: Vec<Vec<String>>,
    /// whole rows, in pieces, so that growing needs no second copy
    blocks: Vec<Vec<f32>>,
    rows_per_block: usize,
    len: usize,
    /// rows from which on the line is so many above the row
    lines: Vec<(usize, i64)>,
    bad: BTreeMap<usize, Bad>,
    has_missing: bool,
}
/// A CSV file whose first lines were looked at, so that columns can be chosen by their names.
pub struct FrameFile {
    file: CsvFile,
    options: CsvOptions,
}
impl std::fmt::Debug for FrameFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FrameFile({}, {:?})", self.file.path.display(), self.file.head)
    }
}
impl FrameFile {
    /// Opens a CSV file, plain or gzipped, and looks at its beginning.
    ///
    /// # Errors
    /// `File`: it cannot be read, is no regular file, or begins with a record beyond the limits.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>, options: &CsvOptions) -> Result<FrameFile> {
        let _call = adamant_core::scope::call("read_csv");
        let path = path.as_ref();
        let file = CsvFile::open(path, options).map_err(|reason| file_error("read_csv", path, reason))?;
        Ok(FrameFile { file, options: options.clone() })
    }
    /// What it looks like.
    pub fn head(&self) -> &Head {
        &self.file.head
    }
    /// Reads its rows.
    ///
    /// ```
    /// use adamant_data::{CsvOptions, FrameFile, FrameOptions, Kind};
    /// # let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    /// # let path = folder.path().join("a.csv");
    /// std::fs::write(&path, "height,kind\n1.5,oak\nnan,elm\n2.5,oak\n").map_err(|e| e.to_string())?;
    /// let file = FrameFile::open(&path, &CsvOptions::default()).map_err(|e| e.to_string())?;
    /// assert_eq!(file.head().names, ["height", "kind"]);
    /// let options = FrameOptions { columns: vec![(0, Kind::Number), (1, Kind::Text)], missing_is_bad: true, allow_nonfinite: false };
    /// let frame = file.read(&options).map_err(|e| e.to_string())?;
    /// assert_eq!((frame.len(), frame.value(2, 0), frame.level(2, 1)), (3, 2.5, Some("oak")));
    /// assert_eq!(frame.bad_rows().collect::<Vec<_>>(), [(1, "row 2 (line 3), column `height`: nan")]);
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// `File`: what cannot be read at all, or is beyond the limits. A row that cannot be used is no error: it is bad
    /// ([`Frame::bad_rows`]).
    #[track_caller]
    pub fn read(self, options: &FrameOptions) -> Result<Frame> {
        let path = self.file.path.clone();
        read(self, options).map_err(|reason| file_error("read_csv", &path, reason))
    }
}
impl Frame {
    /// Of numbers that are in memory already, row-major; what is not finite makes a row bad, unless it is allowed.
    ///
    /// # Errors
    /// `File`: numbers that do not fill whole rows; too many bad rows.
    #[track_caller]
    pub fn of_numbers(path: &Path, width: usize, values: Vec<f32>, allow_nonfinite: bool) -> Result<Frame> {
        if width == 0 || !values.len().is_multiple_of(width) {
            return Err(file_error("frame", path, format!("{} numbers do not fill rows of {width}", values.len())));
        }
        let names = (0..width).map(|k| k.to_string()).collect();
        let head = Head { delimiter: crate::Delimiter::Byte(b','), header: false, found: false, names, trailing: false, title: false, first: Vec::new() };
        let mut frame = Frame::empty(path, head, (0..width).map(|k| (k, Kind::Number)).collect());
        frame.len = values.len() / width;
        frame.rows_per_block = frame.len.max(1);
        for (place, v) in values.iter().enumerate().filter(|(_, v)| !allow_nonfinite && !v.is_finite()) {
            let (row, column) = (place / width, place % width);
            frame.bad.entry(row).or_insert_with(|| Bad { reason: format!("row {}, column {column}: {v}", row + 1), offset: 0 });
            if frame.bad.len() > Limits::default().bad_records {
                return Err(file_error("frame", path, too_many(&frame.bad)));
            }
        }
        frame.blocks.push(values);
        Ok(frame)
    }
    fn empty(path: &Path, head: Head, columns: Vec<(usize, Kind)>) -> Frame {
        let levels = vec![Vec::new(); columns.len()];
        let rows_per_block = (BLOCK / columns.len().max(1)).max(1);
        Frame {
            path: path.to_path_buf(),
            head,
            columns,
            levels,
            blocks: Vec::new(),
            rows_per_block,
            len: 0,
            lines: Vec::new(),
            bad: BTreeMap::new(),
            has_missing: false,
        }
    }
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// What the file looks like.
    pub fn head(&self) -> &Head {
        &self.head
    }
    /// Number of rows, the bad ones among them.
    pub fn len(&self) -> usize {
        self.len
    }
    /// No rows?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The columns that were read: their numbers in the file, and what they hold.
    pub fn columns(&self) -> &[(usize, Kind)] {
        &self.columns
    }
    /// The name of a column that was read.
    pub fn name(&self, column: usize) -> &str {
        self.columns.get(column).and_then(|(number, _)| self.head.names.get(*number)).map_or("", String::as_str)
    }
    /// The texts of a column, in the order in which they were met.
    pub fn levels(&self, column: usize) -> &[String] {
        self.levels.get(column).map_or(&[], Vec::as_slice)
    }
    /// A row's numbers, of texts their places among the levels; empty beyond the last row.
    pub fn row(&self, row: usize) -> &[f32] {
        let width = self.columns.len();
        let within = row % self.rows_per_block * width;
        self.blocks.get(row / self.rows_per_block).and_then(|b| b.get(within..within + width)).unwrap_or_default()
    }
    /// A field; NaN if it is not there.
    pub fn value(&self, row: usize, column: usize) -> f32 {
        self.row(row).get(column).copied().unwrap_or(f32::NAN)
    }
    /// A field's text.
    pub fn level(&self, row: usize, column: usize) -> Option<&str> {
        let value = self.value(row, column);
        if is_missing(value) { None } else { self.levels(column).get(value as usize).map(String::as_str) }
    }
    /// Is a value missing in some row?
    pub fn has_missing(&self) -> bool {
        self.has_missing
    }
    /// Is a value missing in that row?
    pub fn row_has_missing(&self, row: usize) -> bool {
        self.has_missing && self.row(row).iter().any(|v| is_missing(*v))
    }
    /// The rows that cannot be used, and why.
    pub fn bad_rows(&self) -> impl Iterator<Item = (usize, &str)> {
        self.bad.iter().map(|(row, bad)| (*row, bad.reason.as_str()))
    }
    pub(crate) fn bad(&self, row: usize) -> Option<&Bad> {
        self.bad.get(&row)
    }
    /// How a place is named to a person: its row, its line in the file, its column.
    pub fn place(&self, row: usize, column: usize) -> String {
        named(row, self.line(row), self.name(column))
    }
    fn line(&self, row: usize) -> u64 {
        let k = self.lines.partition_point(|(from, _)| *from <= row);
        k.checked_sub(1).map_or(0, |k| u64::try_from(row as i64 + self.lines[k].1).unwrap_or(0))
    }
}
pub(crate) fn is_missing(value: f32) -> bool {
    value.to_bits() == MISSING
}
fn named(row: usize, line: u64, column: &str) -> String {
    let line = if line == 0 { String::new() } else { format!(" (line {line})") };
    format!("row {}{line}, column `{}`", row + 1, shown(column))
}
fn too_many(bad: &BTreeMap<usize, Bad>) -> String {
    let first = bad.values().next().map_or("", |b| b.reason.as_str());
    format!("{} rows and more are bad (the limit `bad_records`), the first of them {first}", bad.len())
}

fn read(file: FrameFile, options: &FrameOptions) -> std::result::Result<Frame, String> {
    let FrameFile { file: CsvFile { path, head, mut records }, options: csv } = file;
    let (width, trailing) = (head.names.len(), head.trailing);
    if let Some((column, _)) = options.columns.iter().find(|(c, _)| *c >= width) {
        return Err(format!("there is no column {column} among {width}"));
    }
    if width == 0 {
        return Err("it holds no rows".into());
    }
    if options.columns.is_empty() {
        return Err("no column is left to be read".into());
    }
    let mut frame = Frame::empty(&path, head, options.columns.clone());
    let mut places: Vec<HashMap<String, usize>> = vec![HashMap::new(); options.columns.len()];
    let mut fields = Fields { csv: &csv, options, places: &mut places };
    while records.next()? {
        let row = frame.len;
        let above = records.line as i64 - row as i64;
        if frame.lines.last().is_none_or(|(_, last)| *last != above) && frame.lines.len() < LINES {
            frame.lines.push((row, above));
        }
        let count = records.len() - usize::from(trailing && records.len() == width + 1 && records.field(width).is_empty());
        if frame.blocks.last().is_none_or(|b| b.len() == frame.rows_per_block * options.columns.len()) {
            if (row + frame.rows_per_block).saturating_mul(options.columns.len().max(1)) > csv.limits.elements.saturating_add(BLOCK) {
                return Err(format!("more than {} numbers are over the limit `elements`", csv.limits.elements));
            }
            frame.blocks.push(Vec::new());
        }
        let Some(block) = frame.blocks.last_mut() else { continue };
        let start = block.len();
        let done = if count == width {
            fields.row(&records, row, &mut frame.levels, &frame.head, block)
        } else {
            Err(format!("row {} (line {}): {count} fields, and {width} were expected{}", row + 1, records.line, advice(row, &frame.head)))
        };
        if let Err(reason) = done {
            block.truncate(start);
            block.resize(start + options.columns.len(), f32::NAN);
            frame.bad.insert(row, Bad { reason: adamant_formats::shown_reason(reason), offset: records.offset });
            if frame.bad.len() > csv.limits.bad_records {
                return Err(too_many(&frame.bad));
            }
        } else {
            frame.has_missing |= block[start..].iter().any(|v| is_missing(*v));
        }
        frame.len += 1;
        if frame.len > csv.limits.records {
            return Err(format!("more than {} records are over the limit `records`", csv.limits.records));
        }
    }
    if frame.len == 0 {
        return Err("it holds no rows".into());
    }
    Ok(frame)
}
/// What may be done about a first line that is not like the others.
fn advice(row: usize, head: &Head) -> &'static str {
    match row {
        0 if head.title => "; is it a title? Then say `skip_rows = 1`",
        _ => "",
    }
}
/// The same about a text where a number should stand.
fn advice_on_text(row: usize, head: &Head, number: usize) -> &'static str {
    let is_text = head.first.get(number).is_some_and(|text| text.chars().any(char::is_alphabetic) && text.parse::<f64>().is_err());
    match advice(row, head) {
        "" if row == 0 && !head.header && is_text => "; does its first line name the columns? Then say `header = true`",
        advice => advice,
    }
}
/// Fields to numbers.
struct Fields<'a> {
    csv: &'a CsvOptions,
    options: &'a FrameOptions,
    /// by column, where each text stands among the levels
    places: &'a mut [HashMap<String, usize>],
}
impl Fields<'_> {
    fn row(&mut self, records: &Records, row: usize, levels: &mut [Vec<String>], head: &Head, out: &mut Vec<f32>) -> std::result::Result<(), String> {
        for (k, (number, kind)) in self.options.columns.iter().enumerate() {
            let field = records.field(*number);
            let bad = |what: String| {
                let advice = advice_on_text(row, head, *number);
                format!("{}: {what}{advice}", named(row, records.line, &head.names[*number]))
            };
            // A number that is not finite may also be a word for what is missing; where that is bad, it is told as what it is.
            let is_nan = || std::str::from_utf8(field).is_ok_and(|t| t.parse::<f32>().is_ok_and(|v| !v.is_finite()));
            let is_missing = field.is_empty() || self.csv.missing_values.iter().any(|m| m.as_bytes() == field);
            if is_missing && !(self.options.missing_is_bad && *kind == Kind::Number && is_nan()) {
                if self.options.missing_is_bad {
                    let what = if field.is_empty() { "nothing stands there".into() } else { format!("`{}` stands for a missing value", shown(field)) };
                    return Err(bad(format!("{what}; `missing` says what is done about that")));
                }
                out.push(f32::from_bits(MISSING));
                continue;
            }
            out.push(match kind {
                Kind::Number => self.number(field).map_err(bad)?,
                kind => {
                    let text = std::str::from_utf8(field).map_err(|_| bad(format!("`{}` is no UTF-8", shown(field))))?;
                    self.level(k, &mut levels[k], if *kind == Kind::Label { spelled(text) } else { text.into() }).map_err(bad)?
                }
            });
        }
        Ok(())
    }
    fn number(&self, field: &[u8]) -> std::result::Result<f32, String> {
        let text = std::str::from_utf8(field).map_err(|_| format!("`{}` is no UTF-8", shown(field)))?;
        let value = if self.csv.decimal_comma && text.contains(',') { text.replace(',', ".").parse::<f32>() } else { text.parse::<f32>() };
        match value {
            Ok(v) if v.is_finite() || self.options.allow_nonfinite => Ok(v),
            Ok(_) => Err(shown(field)),
            Err(_) if crate::csv::is_number(field, true) => Err(format!("`{}` is no number; is its comma a point? Then say `decimal = \",\"`", shown(field))),
            Err(_) => Err(format!("`{}` is no number", shown(field))),
        }
    }
    fn level(&mut self, k: usize, levels: &mut Vec<String>, text: String) -> std::result::Result<f32, String> {
        if let Some(place) = self.places[k].get(&text) {
            return Ok(*place as f32);
        }
        if levels.len() >= self.csv.limits.levels {
            return Err(format!("more than {} different texts, the limit `levels`: is it a column of classes?", levels.len()));
        }
        self.places[k].insert(text.clone(), levels.len());
        levels.push(text);
        Ok((levels.len() - 1) as f32)
    }
}
/// A label in its one spelling.
pub(crate) fn spelled(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(v) if v.fract() == 0.0 && v.abs() < 1e15 => format!("{}", v as i64),
        _ => text.into(),
    }
}
