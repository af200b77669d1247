//! What a CSV file looks like, by its first lines: what stands between its fields, and whether its first line holds names.
use super::{CsvOptions, Delimiter, Records};
use adamant_formats::shown;
use std::io::Cursor;

/// What was said or found of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// what stands between fields
    pub delimiter: Delimiter,
    /// does the first line hold names
    pub header: bool,
    /// was that found, not said
    pub found: bool,
    /// a name for each column: those of the header, or numbers from 0
    pub names: Vec<String>,
    /// does each line end in a delimiter behind which nothing stands
    pub trailing: bool,
    /// is the first line a title: of another width than the others, or counts of rows and columns
    pub title: bool,
    /// the fields of the first line
    pub first: Vec<String>,
}
impl Head {
    /// The number of a column by its name, or by its number.
    ///
    /// # Errors
    /// There is none; the columns that there are, and the nearest name.
    pub fn find(&self, name: &str) -> Result<usize, String> {
        let number = || name.parse().ok().filter(|n| *n < self.names.len());
        self.names.iter().position(|n| n == name).filter(|_| self.header).or_else(number).ok_or_else(|| {
            let (name, count) = (shown(name), self.names.len());
            if !self.header {
                return format!("there is no column `{name}` among {count}; the file has no line of names, so columns are numbers from 0");
            }
            let some: Vec<String> = self.names.iter().take(20).map(shown).collect();
            format!("there is no column `{name}` among {}{}", some.join(", "), if count > 20 { ", ..." } else { "" })
        })
    }
}

/// Records that are looked at.
const RECORDS: usize = 200;
const CANDIDATES: [Delimiter; 5] = [Delimiter::Byte(b','), Delimiter::Byte(b';'), Delimiter::Byte(b'\t'), Delimiter::Byte(b'|'), Delimiter::Whitespace];

/// Looks at the beginning of a file; `whole` if that is all of it.
pub(crate) fn look(sample: &[u8], whole: bool, options: &CsvOptions) -> Result<Head, String> {
    let read = |delimiter| records(sample, whole, delimiter, options);
    let (delimiter, records) = match options.delimiter {
        Some(delimiter) => (delimiter, read(delimiter)?),
        None => {
            let mut best = (CANDIDATES[0], Vec::new(), (0, 0));
            for candidate in CANDIDATES {
                // What cannot be read so is not written so, unless nothing else is left.
                let Ok(records) = read(candidate) else { continue };
                let score = score(&records);
                if score > best.2 {
                    best = (candidate, records, score);
                }
            }
            if best.1.is_empty() { (CANDIDATES[0], read(CANDIDATES[0])?) } else { (best.0, best.1) }
        }
    };
    Ok(head(delimiter, &records, options))
}
fn records(sample: &[u8], whole: bool, delimiter: Delimiter, options: &CsvOptions) -> Result<Vec<Vec<String>>, String> {
    let mut reader = Records::new(Box::new(Cursor::new(sample.to_vec())), delimiter, options.comment, options.limits);
    let mut all = Vec::new();
    while all.len() < RECORDS && reader.next()? {
        all.push((0..reader.len()).map(|k| String::from_utf8_lossy(reader.field(k)).into_owned()).collect());
    }
    // The last record of a part may be half of one.
    if !whole && all.len() > 1 && all.len() < RECORDS {
        all.pop();
    }
    Ok(all)
}
/// The most usual number of fields, and how many records have it.
fn usual(records: &[Vec<String>]) -> (usize, usize) {
    let mut widths: Vec<usize> = records.iter().map(Vec::len).collect();
    widths.sort_unstable();
    widths.chunk_by(|a, b| a == b).map(|same| (same[0], same.len())).max_by_key(|(width, count)| (*count, *width)).unwrap_or((0, 0))
}
/// How well records are cut: the share of those that are alike, and that of numbers among their fields, in percent. A file
/// of one column is cut by nothing.
fn score(records: &[Vec<String>]) -> (usize, usize) {
    let (width, count) = usual(records);
    if width < 2 {
        return (usize::from(width == 1), 0);
    }
    let alike = records.iter().filter(|r| r.len() == width);
    let numbers = alike.flatten().filter(|field| is_number(field.as_bytes(), true) || field.is_empty()).count();
    // A few titles do not matter.
    let agreed = if 10 * count >= 9 * records.len() || (records.len() >= 8 && records.len() - count <= 2) { 100 } else { 100 * count / records.len().max(1) };
    (1 + agreed, 100 * numbers / (count * width).max(1))
}
/// Is it a number, also one with a comma for a point?
pub(crate) fn is_number(field: &[u8], comma: bool) -> bool {
    let Ok(text) = std::str::from_utf8(field) else { return false };
    if text.parse::<f64>().is_ok() {
        return true;
    }
    comma && text.matches(',').count() == 1 && text.replace(',', ".").parse::<f64>().is_ok()
}
fn head(delimiter: Delimiter, records: &[Vec<String>], options: &CsvOptions) -> Head {
    let none: Vec<String> = Vec::new();
    let first = records.first().unwrap_or(&none);
    let rest = records.get(1..).unwrap_or_default();
    let (usual_width, _) = usual(records);
    let is_missing = |field: &str| field.is_empty() || options.missing_values.iter().any(|m| m == field);
    let number = |field: &str| is_number(field.as_bytes(), true);
    // Row names and a delimiter at the end make a difference of one.
    let is_title = is_title(first, usual_width, &number) || (rest.len() > 1 && first.len().abs_diff(usual_width) > 1);
    let header = options.header.unwrap_or_else(|| !is_title && is_header(first, rest, &number, &is_missing));
    // Of a file with row names, the header may have one name less.
    let ragged = rest.iter().all(|r| r.len() == usual_width && r.last().is_some_and(String::is_empty));
    let short = header && first.len() + 1 == usual_width && !rest.is_empty() && !ragged && first.last().is_some_and(|f| !f.is_empty());
    let ends_empty = |r: &&Vec<String>| r.len() == usual_width && r.last().is_some_and(String::is_empty);
    let trailing = !short && usual_width > 1 && (!rest.is_empty() || !header) && {
        let rows = if header || is_title { rest } else { records };
        rows.iter().all(|r| ends_empty(&r)) && (!header || first.len() < usual_width || first.last().is_some_and(String::is_empty))
    };
    let width = if rest.is_empty() { first.len() } else { usual_width } - usize::from(trailing);
    let mut names: Vec<String> = Vec::with_capacity(width);
    for k in 0..width {
        let own = if !header {
            None
        } else if short {
            k.checked_sub(1).and_then(|k| first.get(k))
        } else {
            first.get(k)
        };
        let mut name = own.filter(|n| !n.is_empty()).cloned().unwrap_or_else(|| k.to_string());
        let again = names.iter().filter(|n| **n == name).count();
        if again > 0 {
            name += &format!(".{again}");
        }
        names.push(name);
    }
    Head { delimiter, header, found: options.header.is_none(), names, trailing, title: is_title, first: first.clone() }
}
/// Counts of rows and columns and names of classes, as scikit-learn's own tables begin.
fn is_title(first: &[String], width: usize, number: &dyn Fn(&str) -> bool) -> bool {
    let [rows, columns, classes @ ..] = first else { return false };
    let is_count = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty();
    is_count(rows) && is_count(columns) && columns.parse() == Ok(width.wrapping_sub(1)) && !classes.is_empty() && classes.iter().all(|c| !number(c))
}
/// Does the first record name the columns? It does if it holds text where the others hold numbers; where all is text, if
/// what it holds is not among what the others repeat, and where they repeat nothing, if it could be names and they could
/// not.
fn is_header(first: &[String], rest: &[Vec<String>], number: &dyn Fn(&str) -> bool, is_missing: &dyn Fn(&str) -> bool) -> bool {
    if first.is_empty() || first.iter().all(|f| number(f) || is_missing(f)) {
        return false;
    }
    if rest.is_empty() {
        return first.iter().all(|f| !number(f));
    }
    let named = rest.iter().all(|r| r.len() == first.len() + 1) && !rest.iter().all(|r| r.last().is_some_and(String::is_empty));
    let shift = usize::from(named && !first.last().is_some_and(String::is_empty));
    let column = |k: usize| rest.iter().filter_map(move |r| r.get(k + shift)).filter(|f| !is_missing(f));
    // Columns of texts that repeat, and of them those that do not repeat this one.
    let (mut repeating, mut alien) = (0, 0);
    for (k, own) in first.iter().enumerate() {
        let (all, numbers) = (column(k).count(), column(k).filter(|f| number(f)).count());
        if all > 0 && !number(own) && !is_missing(own) && 10 * numbers >= 9 * all {
            return true;
        }
        let mut seen: Vec<&String> = column(k).collect();
        seen.sort_unstable();
        seen.dedup();
        if all > 0 && numbers == 0 && 2 * seen.len() <= all.max(2) {
            repeating += 1;
            alien += usize::from(!seen.contains(&own));
        }
    }
    if repeating > 0 {
        return 10 * alien >= 6 * repeating;
    }
    let is_among = |k: usize, own: &String| column(k).any(|text| text == own);
    first.iter().enumerate().all(|(k, own)| could_be_name(own) && !is_among(k, own))
        && (0..first.len()).any(|k| column(k).any(|text| !could_be_name(text) && !number(text)))
}
/// A few words of letters, digits and what joins them.
fn could_be_name(text: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ' | '.' | '(' | ')' | '/' | '%' | '#');
    text.starts_with(char::is_alphabetic) && text.split(' ').count() <= 4 && text.len() <= 60 && text.chars().all(joins)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Head {
        look(text.as_bytes(), true, &CsvOptions { missing_values: vec!["NA".into()], ..CsvOptions::default() }).unwrap()
    }
    #[test]
    fn a_delimiter_or_a_header_that_is_taken_for_another() {
        for (text, delimiter, header, names) in [
            ("a,b\n1,2\n3,4\n", ",", true, "a b"),
            ("1,2\n3,4\n", ",", false, "0 1"),
            ("x;y\n1,5;2,7\n0,5;3\n", ";", true, "x y"),
            ("1,5;2,7\n0,5;3\n", ";", false, "0 1"),
            ("a\tb c\n1\t2\n", "\\t", true, "a|b c"),
            ("59 2 32.1\n48  1 21.6\n", "whitespace", false, "0 1 2"),
            ("1, 2, 3\n4, 5, 6\n", ",", false, "0 1 2"),
            ("red,small\nblue,large\nred,large\nblue,small\nred,small\n", ",", false, "0 1"),
            ("colour,size\nblue,large\nred,large\nblue,small\nred,small\nred,small\n", ",", true, "colour size"),
            ("NA,1\n2,3\n", ",", false, "0 1"),
            ("\"\",\"a\",\"b\"\n\"1\",5,6\n\"2\",7,8\n", ",", true, "0 a b"),
            ("a b\n1 5 6\n2 7 8\n", "whitespace", true, "0 a b"),
            ("a,b,\n1,2,\n3,4,\n", ",", true, "a b"),
            ("1,2,\n3,4,\n", ",", false, "0 1"),
            ("a,b\n1,2,\n3,4,\n", ",", true, "a b"),
            ("a,a\n1,2\n", ",", true, "a a.1"),
            ("5.1,setosa\n4.9,setosa\n6,virginica\n", ",", false, "0 1"),
            ("value\n1\n2\n", ",", true, "value"),
            ("1|2\n3|4\n", "|", false, "0 1"),
            ("name,text\nx,\"a, b; c\"\ny,\"d\"\n", ",", true, "name text"),
            ("text,label\nI liked it.,good\nno!,bad\nwhat? no,bad\nfine,good\n", ",", true, "text label"),
            ("I liked it.,good\nno!,bad\nwhat? no,bad\nfine,good\n", ",", false, "0 1"),
            ("Anna,Berlin\nOtto,Paris\nEva,Rome\n", ",", false, "0 1"),
        ] {
            let head = seen(text);
            let split = if names.contains('|') { '|' } else { ' ' };
            let names: Vec<&str> = names.split(split).collect();
            assert_eq!(
                (head.delimiter.to_string().as_str(), head.header, head.names.iter().map(String::as_str).collect::<Vec<_>>()),
                (delimiter, header, names),
                "{text:?}"
            );
        }
        for (text, title) in
            [("150,4,setosa,versicolor,virginica\n5.1,3.5,1.4,0.2,0\n4,3,1,0,1\n", true), ("A title\na,b,c\n1,2,3\n", true), ("a,b\n1,2\n", false)]
        {
            assert_eq!(seen(text).title, title, "{text:?}");
        }
    }
}
