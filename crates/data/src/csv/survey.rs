//! A whole CSV file looked at once, column by column: what a description of it needs to say.
use super::{CsvFile, CsvOptions, Head, is_number};
use crate::{file_error, frame::spelled};
use adamant_core::Result;
use adamant_formats::shown;
use std::{collections::BTreeMap, path::Path};

/// Different texts of a column that are counted.
const LEVELS: usize = 60;

/// What was seen of a file.
#[derive(Clone, Debug)]
pub struct Survey {
    /// what it looks like
    pub head: Head,
    /// rows of the usual width
    pub rows: usize,
    /// rows of another width
    pub odd: usize,
    /// each column
    pub columns: Vec<Seen>,
}
/// What was seen in a column.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// fields that are finite numbers
    pub numbers: usize,
    /// fields that are numbers if a comma is a point
    pub commas: usize,
    /// fields that are numbers with a point
    pub points: usize,
    /// fields that are no finite number, but NaN or an infinity
    pub nonfinite: usize,
    /// fields that stand for a missing value
    pub missing: usize,
    /// is some number no whole one
    pub fractions: bool,
    /// the different texts and how often each occurs; none where there are more than a few
    pub levels: Option<BTreeMap<String, usize>>,
    /// does it count the rows, from 0 or 1
    pub counts: bool,
}
impl Survey {
    /// Reads a whole file, and keeps little of it.
    ///
    /// # Errors
    /// `File`: it cannot be read, or a record is beyond the limits.
    #[track_caller]
    pub fn of(path: impl AsRef<Path>, options: &CsvOptions) -> Result<Survey> {
        let path = path.as_ref();
        survey(path, options).map_err(|reason| file_error("survey", path, reason))
    }
}
impl Seen {
    /// Fields that hold something.
    pub fn held(&self, rows: usize) -> usize {
        rows - self.missing
    }
    /// Are all its fields numbers, missing ones aside?
    pub fn is_numeric(&self, rows: usize) -> bool {
        self.held(rows) > 0 && self.numbers + self.nonfinite + self.commas >= self.held(rows)
    }
    fn see(&mut self, text: &str, row: usize, options: &CsvOptions) {
        let field = text.as_bytes();
        if field.is_empty() || options.missing_values.iter().any(|m| m.as_bytes() == field) {
            self.missing += 1;
            self.counts = false;
            return;
        }
        match text.parse::<f64>() {
            Ok(v) if v.is_finite() => {
                self.numbers += 1;
                self.points += usize::from(text.contains('.'));
                self.fractions |= v.fract() != 0.0;
                self.counts &= v == row as f64 || v == row as f64 + 1.0;
            }
            Ok(_) => {
                self.nonfinite += 1;
                self.counts = false;
            }
            Err(_) if is_number(field, true) => {
                self.commas += 1;
                self.fractions = true;
                self.counts = false;
            }
            Err(_) => self.counts = false,
        }
        if let Some(levels) = &mut self.levels {
            *levels.entry(spelled(text)).or_default() += 1;
            if levels.len() > LEVELS {
                self.levels = None;
            }
        }
    }
}
fn survey(path: &Path, options: &CsvOptions) -> std::result::Result<Survey, String> {
    let CsvFile { head, mut records, .. } = CsvFile::open(path, options)?;
    let width = head.names.len();
    let mut columns = vec![Seen { levels: Some(BTreeMap::new()), counts: true, ..Seen::default() }; width];
    let (mut rows, mut odd) = (0, 0);
    while records.next()? {
        let count = records.len() - usize::from(head.trailing && records.len() == width + 1);
        if count != width {
            odd += 1;
            continue;
        }
        for (k, column) in columns.iter_mut().enumerate() {
            let text = std::str::from_utf8(records.field(k));
            let text = text.map_err(|_| format!("row {}, column {}: it is no UTF-8; save the file as UTF-8", rows + odd + 1, shown(&head.names[k])))?;
            column.see(text, rows, options);
        }
        rows += 1;
    }
    if rows == 0 {
        return Err("it holds no rows".into());
    }
    Ok(Survey { head, rows, odd, columns })
}
