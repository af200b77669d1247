//! What blocks of codes stand for, as weights of codes: a block's scale is that of a group of columns.
//!
//! Q8_0 and Q4_0 are such groups already. Q4_1 and Q4_K add a minimum that is no multiple of the scale, so it is a number of its own
//! ([`PackedWeight::with_minimum`]): codes are counted from the middle, `q · d + m = (q - 8) · d + (m + 8 d)`, so that no zero points
//! are stored. The blocks of 256 of Q4_K and Q6_K have codes for the scales of their groups; those become f32, which holds their products exactly.
//! The 6 bits of Q6_K become codes of 8. Scales may be below 0. A scale of 0 becomes 1 with codes of 0.
use super::GgmlType;
use adamant_core::{DType, Device, Shape, Tensor, composite::packed::Packing, f16, functional::PackedWeight};

/// Codes of a weight, row after row, with what belongs to their groups.
struct GroupedCodes {
    /// signed, each a byte
    codes: Vec<i8>,
    scales: Vec<f32>,
    minima: Vec<f32>,
    group: usize,
    bits: u32,
    /// are scales f16 in the file?
    half: bool,
}
impl GroupedCodes {
    fn new(group: usize, bits: u32, half: bool) -> GroupedCodes {
        GroupedCodes { codes: Vec::new(), scales: Vec::new(), minima: Vec::new(), group, bits, half }
    }
    fn group(&mut self, scale: f32, codes: impl Iterator<Item = i8>) {
        self.scales.push(if scale == 0.0 { 1.0 } else { scale });
        self.codes.extend(codes.map(|code| if scale == 0.0 { 0 } else { code }));
    }
    /// Codes that are not signed, and a number that is added.
    fn group_from(&mut self, minimum: f32, scale: f32, codes: impl Iterator<Item = u8>) {
        self.minima.push(if scale == 0.0 { minimum } else { minimum + 8.0 * scale });
        self.group(scale, codes.map(|code| code as i8 - 8));
    }
}
fn half(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}
/// The two codes of each byte: first the lower ones of all, then the upper ones.
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().map(|b| b & 15).chain(bytes.iter().map(|b| b >> 4))
}
/// Scale and minimum of group j of eight, of 6 bits each in 12 bytes.
fn six_bits(packed: &[u8; 12], j: usize) -> (u8, u8) {
    if j < 4 {
        return (packed[j] & 63, packed[j + 4] & 63);
    }
    ((packed[j + 4] & 15) | (packed[j - 4] >> 6 << 4), (packed[j + 4] >> 4) | (packed[j] >> 6 << 4))
}
fn q8_0(bytes: &[u8]) -> GroupedCodes {
    let mut all = GroupedCodes::new(32, 8, true);
    for [d0, d1, codes @ ..] in bytes.as_chunks::<34>().0 {
        all.group(half([*d0, *d1]), codes.iter().map(|code| *code as i8));
    }
    all
}
fn q4_0(bytes: &[u8]) -> GroupedCodes {
    let mut all = GroupedCodes::new(32, 4, true);
    for [d0, d1, codes @ ..] in bytes.as_chunks::<18>().0 {
        all.group(half([*d0, *d1]), nibbles(codes).map(|code| code as i8 - 8));
    }
    all
}
fn q4_1(bytes: &[u8]) -> GroupedCodes {
    let mut all = GroupedCodes::new(32, 4, true);
    for [d0, d1, m0, m1, codes @ ..] in bytes.as_chunks::<20>().0 {
        all.group_from(half([*m0, *m1]), half([*d0, *d1]), nibbles(codes));
    }
    all
}
fn q4_k(bytes: &[u8]) -> GroupedCodes {
    let mut all = GroupedCodes::new(32, 4, false);
    for [d0, d1, m0, m1, rest @ ..] in bytes.as_chunks::<144>().0 {
        let (d, least) = (half([*d0, *d1]), half([*m0, *m1]));
        let Some((scales, codes)) = rest.split_first_chunk::<12>() else { continue };
        for (pair, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
            for (k, shift) in [0, 4].into_iter().enumerate() {
                let (scale, minimum) = six_bits(scales, 2 * pair + k);
                all.group_from(-(least * f32::from(minimum)), d * f32::from(scale), codes.iter().map(|b| (b >> shift) & 15));
            }
        }
    }
    all
}
fn q6_k(bytes: &[u8]) -> GroupedCodes {
    let mut all = GroupedCodes::new(16, 8, false);
    for block in bytes.as_chunks::<210>().0 {
        let (low, rest) = block.split_at(128);
        let (high, rest) = rest.split_at(64);
        let (scales, d) = rest.split_at(16);
        let d = half([d[0], d[1]]);
        // Element 128 h + 32 q + l: quarter q of half h.
        let code = |at: usize| {
            let (h, q, l) = (at / 128, at / 32 % 4, at % 32);
            let four = low[64 * h + 32 * (q % 2) + l] >> (4 * (q / 2)) & 15;
            let two = high[32 * h + l] >> (2 * q) & 3;
            (four | (two << 4)) as i8 - 32
        };
        for (g, scale) in scales.iter().enumerate() {
            all.group(d * f32::from(*scale as i8), (16 * g..16 * g + 16).map(code));
        }
    }
    all
}
/// A weight of codes from the bytes of its blocks.
pub(super) fn packed(kind: GgmlType, shape: Shape, bytes: &[u8], device: Device) -> Result<PackedWeight, String> {
    let of = match kind {
        GgmlType::Q8_0 => q8_0(bytes),
        GgmlType::Q4_0 => q4_0(bytes),
        GgmlType::Q4_1 => q4_1(bytes),
        GgmlType::Q4K => q4_k(bytes),
        GgmlType::Q6K => q6_k(bytes),
        other if other.dtype().is_some() => return Err(format!("it has numbers ({other}) and no codes")),
        other => return Err(format!("weights of type {other} are not read; write it with Q8_0, Q4_0, Q4_1, Q4_K or Q6_K")),
    };
    let [rows, columns] = shape[..] else { return Err(format!("codes are those of a matrix, not of {shape}")) };
    let whole = rows.checked_mul(columns).is_some_and(|n| n == of.codes.len()) && of.scales.len() * of.group == of.codes.len();
    if !whole || rows == 0 || columns == 0 {
        return Err(format!("{} codes are not those of {shape}", of.codes.len()));
    }
    for (what, numbers) in [("scale", &of.scales), ("minimum", &of.minima)] {
        if let Some((at, number)) = numbers.iter().enumerate().find(|(_, v)| !v.is_finite()) {
            return Err(format!("the {what} of group {at} is {number}"));
        }
    }
    let packing = Packing { bits: of.bits, group: Some(of.group), symmetric: true };
    let groups = [rows, columns / of.group];
    let scale = Tensor::from_vec_on(of.scales, groups, device);
    let scale = if of.half { scale.cast(DType::F16) } else { scale };
    let codes = if of.bits == 8 {
        Tensor::from_vec_on(of.codes, shape, device)
    } else {
        let pairs = of.codes.as_chunks::<2>().0.iter().map(|[low, high]| (low + 8) as u8 | ((high + 8) as u8) << 4);
        Tensor::from_vec_on(pairs.collect::<Vec<u8>>(), [rows, columns / 2], device)
    };
    let told = |e: adamant_core::Error| e.kind().to_string();
    let weight = PackedWeight::new(packing, shape, &codes, &scale, None).map_err(told)?;
    if of.minima.is_empty() {
        return Ok(weight);
    }
    weight.with_minimum(&Tensor::from_vec_on(of.minima, groups, device)).map_err(told)
}
