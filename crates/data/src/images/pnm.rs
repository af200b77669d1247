//! PNM: P1 to P6, black and white, grey and colours, in decimal numbers or as they are.
use super::{
    decode::samples,
    picture::{Picture, PictureSamples},
};

/// Decodes a file whose first two bytes are known.
///
/// # Errors
/// It ends too early, or has numbers that the format does not have.
pub(super) fn decode(bytes: &[u8]) -> Result<Picture, String> {
    let kind = bytes[1] - b'0';
    let mut text = PnmText(&bytes[2..]);
    let (width, height) = (text.number()?, text.number()?);
    // Black and white has no largest sample.
    let most = if kind == 1 || kind == 4 { 1 } else { text.number()? };
    if !(1..=65535).contains(&most) {
        return Err(format!("its largest sample is {most}, not one of 1 to 65535"));
    }
    let (width, height) = (width as usize, height as usize);
    let channels = if kind == 3 || kind == 6 { 3 } else { 1 };
    let each = if most > 255 { 2 } else { 1 };
    let count = samples(height, width, channels, each)?;
    let short = || format!("it ends before its {count} samples");
    let rest = text.0;
    if kind >= 5 && most == 255 {
        return Ok(Picture { height, width, channels, samples: PictureSamples::Bytes(rest.get(..count).ok_or_else(short)?.to_vec()) });
    }
    // What the type of the samples holds; above the largest of them it is the largest.
    let sample = |v: u32| if v >> (8 * each) == 0 { Ok(v as u16) } else { Err(format!("{v} is no sample")) };
    let found: Vec<u16> = match (kind, each) {
        (1, _) => text.bits(count)?,
        (2 | 3, _) => (0..count).map(|_| text.number().and_then(sample)).collect::<Result<_, _>>()?,
        (4, _) => {
            let line = width.div_ceil(8);
            let rows = rest.get(..line * height).ok_or_else(short)?.chunks_exact(line);
            // 1 is black.
            rows.flat_map(|row| (0..width).map(|x| u16::from(row[x / 8] >> (7 - x % 8) & 1 == 0))).collect()
        }
        (_, 1) => rest.get(..count).ok_or_else(short)?.iter().map(|&v| u16::from(v)).collect(),
        _ => rest.get(..2 * count).ok_or_else(short)?.as_chunks().0.iter().map(|b| u16::from_be_bytes(*b)).collect(),
    };
    let samples = match each {
        1 => PictureSamples::Bytes(scaled(&found, most, 255).map(|v| v as u8).collect()),
        _ => PictureSamples::Words(scaled(&found, most, 65535).map(|v| v as u16).collect()),
    };
    Ok(Picture { height, width, channels, samples })
}
/// So that the largest sample is what the type holds.
fn scaled(found: &[u16], most: u32, to: u32) -> impl Iterator<Item = f32> {
    let factor = to as f32 / most as f32;
    found.iter().map(move |&v| if most == to { f32::from(v) } else { (f32::from(v) * factor).round() })
}

/// What is not read yet.
struct PnmText<'a>(&'a [u8]);
impl PnmText<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }
    /// The next number, with one white space behind it; a comment goes from `#` to the end of its line.
    fn number(&mut self) -> Result<u32, String> {
        let mut value = None::<u32>;
        while let Some(byte) = self.next() {
            match byte {
                b'#' => while self.next().is_some_and(|b| b != b'\n' && b != b'\r') {},
                b'0'..=b'9' => {
                    let more = value.unwrap_or(0).checked_mul(10).and_then(|v| v.checked_add(u32::from(byte - b'0')));
                    value = Some(more.ok_or("a number is too large")?);
                }
                b'\t' | b'\n' | b'\x0b' | b'\x0c' | b'\r' | b' ' if value.is_some() => break,
                b'\t' | b'\n' | b'\x0b' | b'\x0c' | b'\r' | b' ' => {}
                other => return Err(format!("byte {other:#04x} where a number is due")),
            }
        }
        value.ok_or_else(|| "it ends where a number is due".into())
    }
    /// Digits that need not be apart; 1 is black.
    fn bits(&mut self, count: usize) -> Result<Vec<u16>, String> {
        let mut found = Vec::with_capacity(count);
        while found.len() < count {
            match self.next() {
                Some(b'0') => found.push(1),
                Some(b'1') => found.push(0),
                Some(b'\t' | b'\n' | b'\x0b' | b'\x0c' | b'\r' | b' ') => {}
                Some(other) => return Err(format!("byte {other:#04x} among black and white")),
                None => return Err(format!("it ends before its {count} samples")),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(bytes: &[u8]) -> Result<Vec<u8>, String> {
        decode(bytes).map(|p| p.bytes(1))
    }
    #[test]
    fn a_format_whose_samples_are_others() {
        for (bytes, want) in [
            (&b"P1 3 2 0 1 0\n111"[..], &[255, 0, 255, 0, 0, 0][..]),
            (b"P4 10 1\n\xaa\x40", &[0, 255, 0, 255, 0, 255, 0, 255, 255, 0]),
            (b"P2 # a comment\n2 1\n3\n0 2 ", &[0, 170]),
            (b"P5 2 1 255\n\x05\xff", &[5, 255]),
            (b"P5 2 1 65535\n\x05\x00\xff\xff", &[5, 255]),
            (b"P5 2 1 256\n\x01\x00\x00\x80", &[255, 128]),
        ] {
            assert_eq!(grey(bytes).unwrap(), want, "{:?}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(decode(b"P6 1 1 255\n\x01\x02\x03").unwrap().bytes(3), [1, 2, 3]);
        assert_eq!(decode(b"P3 1 1 15\n15 0 1").unwrap().bytes(3), [255, 0, 17]);
    }
    #[test]
    fn a_damaged_file_that_is_a_picture() {
        for bytes in [
            &b"P5"[..],
            b"P5 2 1",
            b"P5 2 1 0\n..",
            b"P5 2 1 65536\n....",
            b"P5 2 1 255\n.",
            b"P1 2 1 0 2",
            b"P4 9 2 \xff",
            b"P2 1 1 9 x",
            b"P2 1 1 9 256",
            b"P5 0 1 255\n",
        ] {
            assert!(grey(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        assert!(grey(b"P5 4000000000 4000000000 255\n").unwrap_err().contains("limit"));
    }
}
