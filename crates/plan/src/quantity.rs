//! Quantities as people write them: a number and its unit, `100us`, `200MB/s`, `16GiB`, `4TFLOP/s`.
//! Must not know what they are of.
use std::fmt::Write;

/// What a quantity is measured in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuantityUnit {
    /// time
    Seconds,
    /// memory
    Bytes,
    /// how fast bytes move
    BytesPerSecond,
    /// how fast something is computed
    FlopsPerSecond,
}
/// Factors of bytes; the first that ends a text is its unit.
const BYTES: [(&str, f64); 9] =
    [("KiB", 1024.0), ("MiB", 1048576.0), ("GiB", 1073741824.0), ("TiB", 1099511627776.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12), ("B", 1.0)];
const SECONDS: [(&str, f64); 4] = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
const FLOPS: [(&str, f64); 5] = [("MFLOP", 1e6), ("GFLOP", 1e9), ("TFLOP", 1e12), ("PFLOP", 1e15), ("FLOP", 1.0)];

impl QuantityUnit {
    /// How such a quantity is written.
    pub fn example(self) -> &'static str {
        match self {
            QuantityUnit::Seconds => "100us",
            QuantityUnit::Bytes => "16GiB",
            QuantityUnit::BytesPerSecond => "200MB/s",
            QuantityUnit::FlopsPerSecond => "50GFLOP/s",
        }
    }
    fn units(self) -> (&'static [(&'static str, f64)], &'static str) {
        match self {
            QuantityUnit::Seconds => (&SECONDS, ""),
            QuantityUnit::Bytes => (&BYTES, ""),
            QuantityUnit::BytesPerSecond => (&BYTES, "/s"),
            QuantityUnit::FlopsPerSecond => (&FLOPS, "/s"),
        }
    }
    /// The quantity in seconds, bytes or operations, of a text.
    ///
    /// ```
    /// use adamant_plan::QuantityUnit::{Bytes, BytesPerSecond, Seconds};
    /// assert_eq!(Seconds.parse("100us"), Ok(1e-4));
    /// assert_eq!(BytesPerSecond.parse("2.5 GB/s"), Ok(2.5e9));
    /// assert!(Bytes.parse("16").unwrap_err().contains("without a unit"));
    /// ```
    ///
    /// # Errors
    /// No number, no unit, another unit, a number below 0 or beyond all numbers: what is wrong, as the end of a sentence.
    pub fn parse(self, text: &str) -> Result<f64, String> {
        let text = text.trim();
        let (units, behind) = self.units();
        let write = || format!("write it as {}", self.example());
        let at = text.char_indices().find(|(at, c)| c.is_alphabetic() && !is_exponent(&text[*at..])).map_or(text.len(), |(at, _)| at);
        let (number, unit) = (text[..at].trim(), text[at..].trim());
        let number: f64 = number.parse().map_err(|_| format!("`{text}` does not begin with a number; {}", write()))?;
        if unit.is_empty() {
            return Err(format!("`{text}` is a number without a unit; {}", write()));
        }
        let factor = unit.strip_suffix(behind).and_then(|unit| units.iter().find(|(name, _)| *name == unit)).map(|(_, factor)| *factor);
        let Some(factor) = factor else {
            let mut known = String::new();
            units.iter().for_each(|(name, _)| write!(known, "{}{name}{behind}", if known.is_empty() { "" } else { ", " }).unwrap_or_default());
            return Err(format!("`{unit}` is no unit of it; there are {known}"));
        };
        // A power of ten below 1 is no exact number.
        let value = if factor < 1.0 { number / (1.0 / factor).round() } else { number * factor };
        match value {
            value if value < 0.0 => Err(format!("`{text}` is below 0")),
            value if value.is_finite() => Ok(value),
            _ => Err(format!("`{text}` is no finite number")),
        }
    }
    /// The quantity as a person reads it, with three digits.
    pub fn show(self, value: f64) -> String {
        let (units, behind) = self.units();
        // Powers of ten, of which the largest that fits.
        let ordered = units.iter().filter(|(name, _)| !name.contains('i')).filter(|(_, factor)| value >= *factor);
        let (name, factor) =
            ordered.max_by(|a, b| a.1.total_cmp(&b.1)).or_else(|| units.iter().min_by(|a, b| a.1.total_cmp(&b.1))).copied().unwrap_or(("", 1.0));
        let scaled = value / factor;
        let digits = if scaled >= 100.0 || scaled == 0.0 { 0 } else { 2 - (scaled.abs().log10().floor().clamp(-3.0, 2.0) as usize).min(2) };
        format!("{scaled:.digits$} {name}{behind}")
    }
}
/// Does a text begin with an exponent of a number?
fn is_exponent(text: &str) -> bool {
    let mut rest = text.chars();
    matches!(rest.next(), Some('e' | 'E')) && matches!(rest.next(), Some('0'..='9' | '+' | '-'))
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_is_taken_for_another() {
        for (unit, text, value) in [
            (QuantityUnit::Seconds, "3s", 3.0),
            (QuantityUnit::Seconds, "1.5ms", 1.5e-3),
            (QuantityUnit::Seconds, "250 ns", 2.5e-7),
            (QuantityUnit::Bytes, "2KiB", 2048.0),
            (QuantityUnit::Bytes, "2kB", 2000.0),
            (QuantityUnit::Bytes, "1e3B", 1000.0),
            (QuantityUnit::BytesPerSecond, "1e-1GB/s", 1e8),
            (QuantityUnit::FlopsPerSecond, "4TFLOP/s", 4e12),
        ] {
            let got = unit.parse(text).unwrap();
            assert!((got / value - 1.0f64).abs() < 1e-12, "{text}: {got}");
        }
        for (unit, text, says) in [
            (QuantityUnit::Seconds, "100", "without a unit"),
            (QuantityUnit::Seconds, "us", "does not begin with a number"),
            (QuantityUnit::Seconds, "5MB", "no unit of it"),
            (QuantityUnit::BytesPerSecond, "5MB", "no unit of it"),
            (QuantityUnit::Bytes, "5MB/s", "no unit of it"),
            (QuantityUnit::Seconds, "-1s", "below 0"),
            (QuantityUnit::Seconds, "1e999s", "no finite number"),
        ] {
            let told = unit.parse(text).unwrap_err();
            assert!(told.contains(says), "{text}: {told}");
        }
        for (unit, value, text) in [
            (QuantityUnit::Seconds, 0.0123, "12.3 ms"),
            (QuantityUnit::Seconds, 2.0, "2.00 s"),
            (QuantityUnit::Bytes, 640e6, "640 MB"),
            (QuantityUnit::Bytes, 0.0, "0 B"),
            (QuantityUnit::BytesPerSecond, 1.25e9, "1.25 GB/s"),
        ] {
            assert_eq!(unit.show(value), text);
        }
    }
}
