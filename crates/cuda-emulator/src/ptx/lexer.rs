//! Cuts PTX into tokens with their lines.
use super::PtxError;

/// A piece of the text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PtxToken<'t> {
    /// A name, a directive or an instruction: `%tid.x`, `.reg`, `ld.global.f32`, `shared::cta` within one.
    Word(&'t str),
    /// A number without its sign.
    Integer(u64),
    /// `0f` and eight digits.
    Float32(u32),
    /// `0d` and sixteen digits, or a decimal fraction.
    Float64(u64),
    /// What stands in quotes.
    Text(&'t str),
    /// Anything else that is one character.
    Mark(u8),
}

/// A token, where it stands in the text, and its line.
#[derive(Debug, Clone, Copy)]
pub struct PlacedToken<'t> {
    pub token: PtxToken<'t>,
    pub start: usize,
    pub line: u32,
}

fn starts_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}
fn continues_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}

/// All tokens of a text.
pub fn tokens(text: &str) -> Result<Vec<PlacedToken<'_>>, PtxError> {
    let bytes = text.as_bytes();
    let mut found = Vec::with_capacity(bytes.len() / 5);
    let (mut at, mut line) = (0, 1u32);
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        let rest = &bytes[at..];
        if byte == b'\n' {
            line += 1;
            at += 1;
            continue;
        } else if byte.is_ascii_whitespace() || byte == 0 {
            at += 1;
            continue;
        } else if rest.starts_with(b"//") {
            at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
            continue;
        } else if rest.starts_with(b"/*") {
            let length = rest.windows(2).position(|w| w == b"*/").ok_or_else(|| PtxError::new(line, "a comment without an end"))?;
            line += rest[..length].iter().filter(|b| **b == b'\n').count() as u32;
            at += length + 2;
            continue;
        }
        let token = if byte == b'"' {
            let length = rest[1..].iter().position(|b| matches!(b, b'"' | b'\n')).ok_or_else(|| PtxError::new(line, "a text without an end"))?;
            at += length + 2;
            PtxToken::Text(text.get(start + 1..at - 1).unwrap_or(""))
        } else if byte.is_ascii_digit() {
            let (token, length) = number(rest, line)?;
            at += length;
            token
        } else if starts_word(byte) {
            at += 1;
            loop {
                if bytes.get(at).copied().is_some_and(continues_word) {
                    at += 1;
                } else if bytes[at..].starts_with(b"::") && bytes.get(at + 2).copied().is_some_and(continues_word) {
                    at += 2;
                } else {
                    break;
                }
            }
            PtxToken::Word(text.get(start..at).unwrap_or(""))
        } else if byte.is_ascii_punctuation() {
            at += 1;
            PtxToken::Mark(byte)
        } else {
            return Err(PtxError::new(line, format!("a byte {byte:#04x} that PTX does not know")));
        };
        found.push(PlacedToken { token, start, line });
    }
    Ok(found)
}

/// A number at the start of `bytes`, and its length.
fn number(bytes: &[u8], line: u32) -> Result<(PtxToken<'static>, usize), PtxError> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'.').count();
    let word = std::str::from_utf8(&bytes[..digits]).unwrap_or("");
    let wrong = || PtxError::new(line, format!("`{word}` is no number"));
    let hex = |digits: &str| u64::from_str_radix(digits, 16).map_err(|_| wrong());
    let token = match word.as_bytes() {
        [b'0', b'f' | b'F', rest @ ..] if rest.len() == 8 => PtxToken::Float32(hex(&word[2..])? as u32),
        [b'0', b'd' | b'D', rest @ ..] if rest.len() == 16 => PtxToken::Float64(hex(&word[2..])?),
        [b'0', b'x' | b'X', ..] => PtxToken::Integer(hex(word[2..].trim_end_matches('U'))?),
        [b'0', b'b' | b'B', ..] => PtxToken::Integer(u64::from_str_radix(word[2..].trim_end_matches('U'), 2).map_err(|_| wrong())?),
        _ if word.contains('.') => PtxToken::Float64(word.parse::<f64>().map_err(|_| wrong())?.to_bits()),
        [b'0', rest @ ..] if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => PtxToken::Integer(u64::from_str_radix(word, 8).map_err(|_| wrong())?),
        _ => PtxToken::Integer(word.trim_end_matches('U').parse().map_err(|_| wrong())?),
    };
    Ok((token, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_marks() {
        let text =
            "@!%p1 ld.shared::cta.v2.f32 {%f1, _}, [%r1+-0x10]; // end\n$L_1: mov.f32 %f2, 0f3F800000; /* a\nb */ .pragma \"x\"; 0d3FF0000000000000 017 1.5";
        let tokens = tokens(text).unwrap();
        let expected = [
            PtxToken::Mark(b'@'),
            PtxToken::Mark(b'!'),
            PtxToken::Word("%p1"),
            PtxToken::Word("ld.shared::cta.v2.f32"),
            PtxToken::Mark(b'{'),
            PtxToken::Word("%f1"),
            PtxToken::Mark(b','),
            PtxToken::Word("_"),
            PtxToken::Mark(b'}'),
            PtxToken::Mark(b','),
            PtxToken::Mark(b'['),
            PtxToken::Word("%r1"),
            PtxToken::Mark(b'+'),
            PtxToken::Mark(b'-'),
            PtxToken::Integer(16),
            PtxToken::Mark(b']'),
            PtxToken::Mark(b';'),
            PtxToken::Word("$L_1"),
            PtxToken::Mark(b':'),
            PtxToken::Word("mov.f32"),
            PtxToken::Word("%f2"),
            PtxToken::Mark(b','),
            PtxToken::Float32(0x3f80_0000),
            PtxToken::Mark(b';'),
            PtxToken::Word(".pragma"),
            PtxToken::Text("x"),
            PtxToken::Mark(b';'),
            PtxToken::Float64(0x3ff0_0000_0000_0000),
            PtxToken::Integer(15),
            PtxToken::Float64(1.5f64.to_bits()),
        ];
        assert_eq!(tokens.iter().map(|t| t.token).collect::<Vec<_>>(), expected);
        assert_eq!(tokens.last().map(|t| t.line), Some(3));
        for wrong in ["\"abc", "/* abc", "0xzz", "99999999999999999999999", "0f12", "\u{e9}"] {
            assert!(super::tokens(wrong).is_err(), "{wrong}");
        }
    }
}
