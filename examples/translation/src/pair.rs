//! The language pair: days from 1950 to 2049 in a form that is drawn, and as ISO dates.
use adamant::data::Draw;

/// All signs of both languages; `^` begins a translation and `_` fills up a source.
pub const ALPHABET: &str = "_^ ,-./'0123456789abcdefghijklmnopqrstuvwxyz";
/// The longest source.
pub const LONGEST: usize = 32;
/// The length of a translation, with the sign it begins with.
pub const ISO: usize = 11;

const MONTHS: [&str; 12] = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"];

/// A day, twice.
#[derive(Debug)]
pub struct DatePair {
    /// as somebody writes it
    pub written: String,
    /// as a computer does
    pub iso: String,
    /// a number that is the day's own
    pub day_number: usize,
}

/// The pair of a number: always the same one, for the generator follows from seed and number.
pub fn draw(seed: u64, index: usize) -> DatePair {
    let mut rng = Draw { seed, epoch: 0, index }.rng();
    let (year, month, day) = (1950 + rng.below(100), 1 + rng.below(12), 1 + rng.below(28));
    let name = MONTHS[month - 1];
    let short = &name[..3];
    let th = match day {
        1 | 21 => "st",
        2 | 22 => "nd",
        3 | 23 => "rd",
        _ => "th",
    };
    let written = match rng.below(7) {
        0 => format!("{day} {name} {year}"),
        1 => format!("the {day}{th} of {name}, {year}"),
        2 => format!("{name} {day}{th}, {year}"),
        3 => format!("{short}. {day}, {year}"),
        4 => format!("{day}/{month}/{year}"),
        5 => format!("{day}. {month}. '{:02}", year % 100),
        _ => format!("{year}, {name} the {day}{th}"),
    };
    DatePair { written, iso: format!("^{year}-{month:02}-{day:02}"), day_number: (year * 12 + month) * 31 + day }
}
