//! Numbers as text that is read back to the bit: floats by their shortest decimal form, NaNs by their bits, and the elements
//! of a constant in its dtype. Nothing is known here of graphs.
use crate::{DType, bf16, f8_to_f32, f16, f32_to_f8};
use std::fmt::Write;

/// The quiet NaN that is written `nan`.
fn plain_nan(dtype: DType) -> u64 {
    match dtype {
        DType::F16 => 0x7e00,
        DType::BF16 => 0x7fc0,
        DType::F32 => 0x7fc0_0000,
        DType::F64 => 0x7ff8_0000_0000_0000,
        _ => 0x7f,
    }
}
/// Do the bits of a float dtype mean no number?
fn is_nan(bits: u64, dtype: DType) -> bool {
    match dtype {
        DType::F16 => f16::from_bits(bits as u16).is_nan(),
        DType::BF16 => bf16::from_bits(bits as u16).is_nan(),
        DType::F32 => f32::from_bits(bits as u32).is_nan(),
        DType::F64 => f64::from_bits(bits).is_nan(),
        _ => f8_to_f32(bits as u8, dtype).is_nan(),
    }
}
/// Appends an element given by its bits.
pub(crate) fn write_bits(out: &mut String, bits: u64, dtype: DType) {
    // Writing to a string does not fail.
    let _ = match dtype {
        DType::Bool => write!(out, "{}", bits != 0),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => write!(out, "{bits}"),
        DType::I8 => write!(out, "{}", bits as i8),
        DType::I16 => write!(out, "{}", bits as i16),
        DType::I32 => write!(out, "{}", bits as i32),
        DType::I64 => write!(out, "{}", bits as i64),
        _ if bits == plain_nan(dtype) => write!(out, "nan"),
        _ if is_nan(bits, dtype) => write!(out, "nan({bits:#x})"),
        DType::F64 => write!(out, "{:?}", f64::from_bits(bits)),
        DType::F32 => write!(out, "{:?}", f32::from_bits(bits as u32)),
        // Each of these is an f32, whose shortest decimal form is nearest to it and to no other of its dtype.
        DType::F16 => write!(out, "{:?}", f16::from_bits(bits as u16).to_f32()),
        DType::BF16 => write!(out, "{:?}", bf16::from_bits(bits as u16).to_f32()),
        DType::F8E4M3 | DType::F8E5M2 => write!(out, "{:?}", f8_to_f32(bits as u8, dtype)),
    };
}
/// The bits of an element as it was written, or `None` if it is none of the dtype.
pub(crate) fn read_bits(text: &str, dtype: DType) -> Option<u64> {
    fn whole<T: std::str::FromStr>(text: &str) -> Option<T> {
        text.parse().ok()
    }
    if dtype.is_float() {
        if text == "nan" {
            return Some(plain_nan(dtype));
        }
        if let Some(hex) = text.strip_prefix("nan(0x").and_then(|t| t.strip_suffix(')')) {
            let bits = u64::from_str_radix(hex, 16).ok()?;
            let fits = dtype.size() == 8 || bits >> (8 * dtype.size()) == 0;
            return (fits && is_nan(bits, dtype)).then_some(bits);
        }
        if !decimal(text) {
            return None;
        }
    }
    Some(match dtype {
        DType::Bool => match text {
            "true" => 1,
            "false" => 0,
            _ => return None,
        },
        DType::U8 => whole::<u8>(text)?.into(),
        DType::U16 => whole::<u16>(text)?.into(),
        DType::U32 => whole::<u32>(text)?.into(),
        DType::U64 => whole::<u64>(text)?,
        DType::I8 => whole::<i8>(text)? as u8 as u64,
        DType::I16 => whole::<i16>(text)? as u16 as u64,
        DType::I32 => whole::<i32>(text)? as u32 as u64,
        DType::I64 => whole::<i64>(text)? as u64,
        DType::F64 => whole::<f64>(text)?.to_bits(),
        DType::F32 => whole::<f32>(text)?.to_bits().into(),
        DType::F16 => f16::from_f32(whole(text)?).to_bits().into(),
        DType::BF16 => bf16::from_f32(whole(text)?).to_bits().into(),
        DType::F8E4M3 | DType::F8E5M2 => f32_to_f8(whole(text)?, dtype).into(),
    })
}
/// Is it a number in decimal, or an infinity? (Rust's own reader takes other words too.)
fn decimal(text: &str) -> bool {
    let bare = text.strip_prefix('-').unwrap_or(text);
    bare == "inf" || (bare.starts_with(|c: char| c.is_ascii_digit()) && bare.chars().all(|c| c.is_ascii_digit() || ".eE+-".contains(c)))
}
/// The bits of element `k` of a constant.
pub(crate) fn bits_at(bytes: &[u8], k: usize, size: usize) -> u64 {
    let mut word = [0; 8];
    word[..size].copy_from_slice(&bytes[k * size..(k + 1) * size]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_that_reads_back_as_another() {
        let check = |bits: u64, dtype: DType| {
            let mut text = String::new();
            write_bits(&mut text, bits, dtype);
            assert_eq!(read_bits(&text, dtype), Some(bits), "{text} of {dtype}");
        };
        for dtype in DType::ALL {
            let count = if dtype == DType::Bool { 2u64 } else { 1 << (8 * dtype.size()).min(16) };
            (0..count).for_each(|bits| check(bits, dtype));
            // Wide ones by words that a multiplication spreads over all bits.
            if dtype.size() > 2 {
                let mask = u64::MAX >> (64 - 8 * dtype.size());
                (0..100_000u64).for_each(|k| check(k.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask, dtype));
            }
        }
        for bits in [0x7fc0_0000, 0x7fc0_0001, 0xffc0_0000, 0x7f80_0001, 0x7f80_0000, 0xff80_0000, 0x8000_0000, 1] {
            check(bits, DType::F32);
        }
    }
    #[test]
    fn text_that_is_no_element() {
        for (text, dtype) in [
            ("256", DType::U8),
            ("-1", DType::U64),
            ("1.5", DType::I32),
            ("yes", DType::Bool),
            ("nan(0x1)", DType::F32),
            ("nan(0x17fc00000)", DType::F32),
            ("infinity", DType::F32),
            ("", DType::F64),
            ("-", DType::F64),
        ] {
            assert_eq!(read_bits(text, dtype), None, "{text} of {dtype}");
        }
    }
}
