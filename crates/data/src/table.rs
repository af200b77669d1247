//! Tables of numbers from CSV files, plain or gzipped, and what is learned from them: a class or values by row.
use crate::{CsvOptions, FrameFile, FrameOptions, Head, Kind, Labelled, Rows, Scale, file_error, wrong};
use adamant_core::Result;
use std::path::{Path, PathBuf};

/// Rows of numbers of one width.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    path: PathBuf,
    names: Vec<String>,
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
            return Err(wrong("table", format!("{} values do not fill rows of {width}", values.len())));
        }
        Ok(Table { path: "<memory>".into(), names: Vec::new(), width, values })
    }
    /// Reads a CSV file, plain or gzipped. Whether its first line holds names is looked for.
    ///
    /// # Errors
    /// As [`Table::read_csv_with`].
    #[track_caller]
    pub fn read_csv(path: impl AsRef<Path>) -> Result<Table> {
        let _call = adamant_core::scope::call("read_csv");
        Table::read_csv_with(path, &CsvOptions::default())
    }
    /// Reads a CSV file as the options say.
    ///
    /// ```
    /// use adamant_data::{CsvOptions, Table};
    /// # let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    /// # let path = folder.path().join("a.csv");
    /// std::fs::write(&path, "id,width,height\n1,2.5,3\n2,4,5\n").map_err(|e| e.to_string())?;
    /// let options = CsvOptions { header: Some(true), columns: vec!["height".into(), "width".into()], ..CsvOptions::default() };
    /// let table = Table::read_csv_with(&path, &options).map_err(|e| e.to_string())?;
    /// assert_eq!((table.names(), table.row(1)), (&["height".to_string(), "width".into()][..], &[5.0, 4.0][..]));
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// `File`, with the line: a file that cannot be read, a row of another width, something that is no number, a column
    /// that is not there.
    #[track_caller]
    pub fn read_csv_with(path: impl AsRef<Path>, options: &CsvOptions) -> Result<Table> {
        let _call = adamant_core::scope::call("read_csv");
        read(path.as_ref(), options)
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
    /// The columns' names; empty without a header.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// A row; empty if there is no such row.
    pub fn row(&self, k: usize) -> &[f32] {
        self.values.get(k * self.width..(k + 1) * self.width).unwrap_or_default()
    }
    /// Each row's class is the whole number in one column; the others, scaled, are what is learned from.
    ///
    /// # Errors
    /// There is no such column or no other one; a number that is no class in `0..classes`, by its row.
    #[track_caller]
    pub fn classification(&self, label: usize, classes: usize, scale: Scale) -> Result<Labelled<Rows, Rows>> {
        self.column(label)?;
        let mut labels = Vec::with_capacity(self.len());
        for row in 0..self.len() {
            let class = self.row(row)[label];
            if !(class >= 0.0 && class.fract() == 0.0 && class < classes as f32) {
                return Err(file_error("table", &self.path, format!("row {}: {class} is none of {classes} classes", row + 1)));
            }
            labels.push(class as i64);
        }
        Labelled::new(self.without(&[label])?.scaled(scale)?, Rows::classes(labels, classes)?)
    }
    /// The numbers in some columns are to be predicted from the others, which are scaled.
    ///
    /// # Errors
    /// There is no such column, or none is left.
    #[track_caller]
    pub fn regression(&self, targets: &[usize], scale: Scale) -> Result<Labelled<Rows, Rows>> {
        targets.iter().try_for_each(|column| self.column(*column))?;
        let picked: Vec<f32> = self.values.chunks_exact(self.width).flat_map(|row| targets.iter().map(|c| row[*c])).collect();
        Labelled::new(self.without(targets)?.scaled(scale)?, Rows::new(picked, [self.len(), targets.len()])?)
    }
    #[track_caller]
    fn column(&self, column: usize) -> Result<()> {
        if column < self.width { Ok(()) } else { Err(file_error("table", &self.path, format!("there is no column {column} among {}", self.width))) }
    }
    #[track_caller]
    fn without(&self, columns: &[usize]) -> Result<Rows> {
        let kept: Vec<usize> = (0..self.width).filter(|c| !columns.contains(c)).collect();
        if kept.is_empty() || columns.is_empty() {
            return Err(file_error("table", &self.path, format!("of {} columns, both inputs and targets need some", self.width)));
        }
        let values: Vec<f32> = self.values.chunks_exact(self.width).flat_map(|row| kept.iter().map(|c| row[*c])).collect();
        Rows::new(values, [self.len(), kept.len()])
    }
}

fn read(path: &Path, options: &CsvOptions) -> Result<Table> {
    let file = FrameFile::open(path, options)?;
    let columns = columns(options, file.head()).map_err(|reason| file_error("read_csv", path, reason))?;
    let width = columns.len();
    let names = if file.head().header { columns.iter().map(|c| file.head().names[*c].clone()).collect() } else { Vec::new() };
    let picked = columns.into_iter().map(|c| (c, Kind::Number)).collect();
    let frame = file.read(&FrameOptions { columns: picked, missing_is_bad: true, allow_nonfinite: true })?;
    if let Some((_, reason)) = frame.bad_rows().next() {
        return Err(file_error("read_csv", path, reason));
    }
    let mut values = Vec::with_capacity(frame.len() * width);
    (0..frame.len()).for_each(|row| values.extend_from_slice(frame.row(row)));
    Ok(Table { path: path.to_path_buf(), names, width, values })
}
fn columns(options: &CsvOptions, head: &Head) -> std::result::Result<Vec<usize>, String> {
    if options.columns.is_empty() {
        return Ok((0..head.names.len()).collect());
    }
    options.columns.iter().map(|name| head.find(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dataset, Target};
    use adamant_core::Device;
    use std::io::Write;

    fn table(name: &str, bytes: &[u8]) -> Result<Table> {
        with(name, bytes, &CsvOptions::default())
    }
    fn with(name: &str, bytes: &[u8], options: &CsvOptions) -> Result<Table> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Table::read_csv_with(path, options)
    }
    fn zipped(text: &str) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(text.as_bytes()).unwrap();
        writer.finish().unwrap()
    }
    #[test]
    fn numbers_that_are_read_wrong() {
        let expected = [1.0, 2.5, -3.0, 4e2, 0.0, 6.0];
        let text = "1, 2.5,-3\n4e2,0,6\n";
        for read in [table("a.csv", text.as_bytes()).unwrap(), table("a.csv.gz", &zipped(text)).unwrap()] {
            assert_eq!((read.len(), read.width(), &read.values[..]), (2, 3, &expected[..]));
            assert_eq!((read.row(1), read.row(2)), (&[4e2, 0.0, 6.0][..], &[][..]));
        }
    }
    #[test]
    fn a_bad_file_that_is_taken_or_not_named() {
        for (name, bytes, says) in [
            ("a.csv", b"1,2\n3\n".to_vec(), "row 2 (line 2): 1 fields, and 2 were expected"),
            ("a.csv", b"1,2\n3,x\n".to_vec(), "row 2 (line 2), column `1`: `x` is no number"),
            ("a.csv", Vec::new(), "no rows"),
            ("a.csv", b"1,2\n\xff,3\n".to_vec(), "UTF-8"),
            ("a.csv.gz", b"not gzip at all".to_vec(), "gzip"),
            ("a.csv.gz", zipped("1,2\n3,4\n")[..12].to_vec(), "a.csv.gz"),
        ] {
            let error = table(name, &bytes).unwrap_err();
            assert_eq!(error.kind().word(), "file");
            assert!(error.to_string().contains(says) && error.to_string().contains(name), "{error}");
        }
        assert_eq!(Table::read_csv("nowhere.csv").unwrap_err().kind().word(), "file");
    }
    #[test]
    fn columns_that_are_not_the_ones_named() {
        let text = b"a;b;c\n1;2;x\n4;5;y\n";
        let options = |columns: &[&str], header| CsvOptions {
            header: Some(header),
            delimiter: Some(crate::Delimiter::Byte(b';')),
            columns: columns.iter().map(|c| c.to_string()).collect(),
            ..CsvOptions::default()
        };
        let picked = with("a.csv", text, &options(&["b", "0"], true)).unwrap();
        assert_eq!((picked.names(), picked.row(1)), (&["b".to_string(), "a".into()][..], &[5.0, 4.0][..]));
        for (columns, header, says) in
            [(&["d"][..], true, "no column `d` among a, b, c"), (&["3"], true, "no column `3`"), (&["a"], false, "no column `a` among 3"), (&[], true, "`x`")]
        {
            let error = with("a.csv", text, &options(columns, header)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
    #[test]
    fn a_class_or_a_target_from_the_wrong_column() {
        Device::reference().make_current();
        let table = Table::new(3, vec![2.0, 1.0, 4.0, 6.0, 0.0, 8.0]).unwrap();
        let set = table.classification(1, 2, Scale { divide: 2.0, ..Scale::default() }).unwrap();
        let (x, y) = set.collate(vec![(1, 1), (0, 0)]).unwrap();
        assert_eq!((x.to_vec::<f32>().unwrap(), y.to_vec::<i64>().unwrap()), (vec![3.0, 4.0, 1.0, 2.0], vec![0, 1]));
        assert_eq!(set.describe().targets, Some(Target::Classes { count: 2, names: vec![] }));
        let (x, y) = table.regression(&[2, 0], Scale::default()).unwrap().collate(vec![(1, 1)]).unwrap();
        assert_eq!((x.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap()), (vec![0.0], vec![8.0, 6.0]));
        for (error, says) in [
            (table.classification(3, 2, Scale::default()).unwrap_err(), "no column 3"),
            (table.classification(0, 2, Scale::default()).unwrap_err(), "row 1: 2 is none of 2 classes"),
            (Table::new(2, vec![f32::NAN, 1.0]).unwrap().classification(0, 2, Scale::default()).unwrap_err(), "NaN"),
            (table.regression(&[], Scale::default()).unwrap_err(), "both"),
            (table.regression(&[0, 1, 2], Scale::default()).unwrap_err(), "both"),
        ] {
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
