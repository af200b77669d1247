//! Tables of numbers from CSV files, plain or gzipped.
use adamant_core::{Error, ErrorKind, Result};
use std::{fs::File, io::Read, path::Path};

/// Rows of numbers of one width.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    width: usize,
    values: Vec<f32>,
}
impl Table {
    /// Of row-major values.
    ///
    /// # Errors
    /// Values that do not fill whole rows.
    #[track_caller]
    pub fn new(width: usize, values: Vec<f32>) -> Result<Table> {
        if width == 0 || !values.len().is_multiple_of(width) {
            return Err(Error::new("table", ErrorKind::Argument(format!("{} values do not fill rows of {width}", values.len()))));
        }
        Ok(Table { width, values })
    }
    /// Reads a CSV file without a header, gzipped if its name ends in `.gz`. At most 1 GiB is inflated.
    ///
    /// # Errors
    /// `File`, with the line: a file that cannot be read, a row of another width, something that is no number.
    #[track_caller]
    pub fn read_csv(path: impl AsRef<Path>) -> Result<Table> {
        let path = path.as_ref();
        match read(path) {
            Ok(table) => Ok(table),
            Err(reason) => Err(Error::new("read_csv", ErrorKind::File { path: path.display().to_string(), reason })),
        }
    }
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }
    /// No rows?
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
    /// Numbers in a row.
    pub fn width(&self) -> usize {
        self.width
    }
    /// A row; empty if there is no such row.
    pub fn row(&self, k: usize) -> &[f32] {
        self.values.get(k * self.width..(k + 1) * self.width).unwrap_or_default()
    }
}
/// What a file may inflate to: a small file must not fill the memory.
const MAX_BYTES: u64 = 1 << 30;

fn read(path: &Path) -> std::result::Result<Table, String> {
    let file = File::open(path).map_err(|e| e.to_string())?;
    let zipped = path.extension().is_some_and(|e| e == "gz");
    let source: Box<dyn Read> = if zipped { Box::new(flate2::read::GzDecoder::new(file).take(MAX_BYTES)) } else { Box::new(file) };
    let mut reader = csv::ReaderBuilder::new().has_headers(false).trim(csv::Trim::All).from_reader(source);
    let (mut width, mut values) = (0, Vec::new());
    for (row, record) in reader.records().enumerate() {
        // The parser refuses rows of another width and names the line.
        let record = record.map_err(|e| e.to_string())?;
        width = record.len();
        for (column, text) in record.iter().enumerate() {
            values.push(text.parse().map_err(|_| format!("row {}, column {}: `{text}` is no number", row + 1, column + 1))?);
        }
    }
    if width == 0 {
        return Err("it holds no rows".into());
    }
    Ok(Table { width, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn table(name: &str, bytes: &[u8]) -> Result<Table> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Table::read_csv(path)
    }
    fn zipped(text: &str) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(text.as_bytes()).unwrap();
        writer.finish().unwrap()
    }
    #[test]
    fn numbers_that_are_read_wrong() {
        let expected = Table::new(3, vec![1.0, 2.5, -3.0, 4e2, 0.0, 6.0]).unwrap();
        let text = "1, 2.5,-3\n4e2,0,6\n";
        assert_eq!(table("a.csv", text.as_bytes()).unwrap(), expected);
        assert_eq!(table("a.csv.gz", &zipped(text)).unwrap(), expected);
        assert_eq!((expected.len(), expected.row(1), expected.row(2)), (2, &[4e2, 0.0, 6.0][..], &[][..]));
    }
    #[test]
    fn a_bad_file_that_is_taken_or_not_named() {
        for (name, bytes, says) in [
            ("a.csv", b"1,2\n3\n".to_vec(), "line: 2"),
            ("a.csv", b"1,2\n3,x\n".to_vec(), "row 2, column 2: `x` is no number"),
            ("a.csv", Vec::new(), "no rows"),
            ("a.csv.gz", b"not gzip at all".to_vec(), "gzip"),
            ("a.csv.gz", zipped("1,2\n3,4\n")[..12].to_vec(), "a.csv.gz"),
        ] {
            let error = table(name, &bytes).unwrap_err();
            assert_eq!(error.kind().word(), "file");
            assert!(error.to_string().contains(says) && error.to_string().contains(name), "{error}");
        }
        assert_eq!(Table::read_csv("nowhere.csv").unwrap_err().kind().word(), "file");
    }
}
