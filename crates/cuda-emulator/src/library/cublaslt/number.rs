//! The numbers that matrices hold: their bytes to f64, and f64 rounded once to them.
//!
//! Formats of 8 bits: "FP8 formats for deep learning" (Micikevicius and others, 2022); what is too large becomes the
//! largest number, as cuBLASLt's conversions do.
use half::{bf16, f16};

/// `cudaDataType` as far as products know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum LtNumber {
    F32,
    F64,
    F16,
    Bf16,
    I8,
    I32,
    /// Four bits of exponent, three of fraction; no infinity.
    E4m3,
    /// Five bits of exponent, two of fraction.
    E5m2,
}
use LtNumber::*;

impl LtNumber {
    pub fn of(code: u32) -> Option<LtNumber> {
        [(0, F32), (1, F64), (2, F16), (3, I8), (10, I32), (14, Bf16), (28, E4m3), (29, E5m2)].iter().find(|(c, _)| *c == code).map(|(_, n)| *n)
    }
    pub fn bytes(self) -> u64 {
        match self {
            F64 => 8,
            F32 | I32 => 4,
            F16 | Bf16 => 2,
            I8 | E4m3 | E5m2 => 1,
        }
    }
    pub fn is_fp8(self) -> bool {
        matches!(self, E4m3 | E5m2)
    }
    /// The value of these bytes.
    pub fn read(self, bytes: &[u8]) -> f64 {
        fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
            let mut all = [0; N];
            all.iter_mut().zip(bytes).for_each(|(a, b)| *a = *b);
            all
        }
        match self {
            F64 => f64::from_le_bytes(array(bytes)),
            F32 => f64::from(f32::from_le_bytes(array(bytes))),
            I32 => f64::from(i32::from_le_bytes(array(bytes))),
            F16 => f16::from_le_bytes(array(bytes)).to_f64(),
            Bf16 => bf16::from_le_bytes(array(bytes)).to_f64(),
            I8 => f64::from(i8::from_le_bytes(array(bytes))),
            E4m3 => eight_bits(array::<1>(bytes)[0], 3, 7),
            E5m2 => eight_bits(array::<1>(bytes)[0], 2, 15),
        }
    }
    /// The bytes of the nearest number, the even one of two.
    pub fn write(self, value: f64, to: &mut Vec<u8>) {
        match self {
            F64 => to.extend(value.to_le_bytes()),
            F32 => to.extend((value as f32).to_le_bytes()),
            I32 => to.extend((value.round_ties_even() as i64 as i32).to_le_bytes()),
            F16 => to.extend(f16::from_f64(value).to_le_bytes()),
            Bf16 => to.extend(bf16::from_f64(value).to_le_bytes()),
            I8 => to.extend((value.round_ties_even() as i8).to_le_bytes()),
            E4m3 => to.push(to_eight_bits(value, 3, 7, 448.0, 0x7f)),
            E5m2 => to.push(to_eight_bits(value, 2, 15, 57_344.0, 0x7f)),
        }
    }
    /// The value as this kind holds it.
    pub fn rounded(self, value: f64) -> f64 {
        let mut bytes = Vec::with_capacity(8);
        self.write(value, &mut bytes);
        self.read(&bytes)
    }
}

/// A number of 8 bits: a sign, exponent, `fraction` bits of fraction.
fn eight_bits(bits: u8, fraction: u32, bias: i32) -> f64 {
    let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits & 0x7f) >> fraction;
    let part = f64::from(bits & ((1 << fraction) - 1)) / f64::from(1 << fraction);
    let highest = (1 << (7 - fraction)) - 1;
    if fraction == 3 && bits & 0x7f == 0x7f || fraction == 2 && exponent == highest && part != 0.0 {
        return f64::NAN;
    }
    if fraction == 2 && exponent == highest {
        return sign * f64::INFINITY;
    }
    sign * if exponent == 0 { part * 2_f64.powi(1 - bias) } else { (1.0 + part) * 2_f64.powi(exponent - bias) }
}
/// The nearest number of 8 bits, the largest where that is too small.
fn to_eight_bits(value: f64, fraction: u32, bias: i32, largest: f64, nan: u8) -> u8 {
    if value.is_nan() {
        return nan;
    }
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let value = value.abs().min(largest);
    // The exponent of the step between neighbours; subnormals share that of the smallest normals.
    let exponent = if value == 0.0 { 1 - bias } else { (value.log2().floor() as i32).max(1 - bias) };
    // A logarithm that was rounded up is one too high, and never more than that: the step is then twice too wide.
    let exponent = if 2_f64.powi(exponent) > value { (exponent - 1).max(1 - bias) } else { exponent };
    let steps = (value / 2_f64.powi(exponent - fraction as i32)).round_ties_even() as u32;
    // Steps that carry into the exponent are the next exponent's first number.
    let bits = (((exponent + bias - 1) as u32) << fraction) + steps;
    sign | bits as u8
}
/// An f32 as tensor cores take it with TF32: ten bits of fraction, halves away from zero.
pub(crate) fn tf32(value: f64) -> f64 {
    let value = value as f32;
    if !value.is_finite() {
        return f64::from(value);
    }
    f64::from(f32::from_bits(value.to_bits().wrapping_add(0x1000) & !0x1fff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bits_read_as_the_paper_says() {
        // Table 1 of the paper: largest, smallest normal, largest and smallest subnormal.
        for (kind, bits, value) in [
            (E4m3, 0x7e, 448.0),
            (E4m3, 0x08, 2_f64.powi(-6)),
            (E4m3, 0x07, 0.875 * 2_f64.powi(-6)),
            (E4m3, 0x01, 2_f64.powi(-9)),
            (E5m2, 0x7b, 57_344.0),
            (E5m2, 0x04, 2_f64.powi(-14)),
            (E5m2, 0x03, 0.75 * 2_f64.powi(-14)),
            (E5m2, 0x01, 2_f64.powi(-16)),
            (E5m2, 0x7c, f64::INFINITY),
            (E4m3, 0xb8, -1.0),
            (E5m2, 0xbc, -1.0),
        ] {
            assert_eq!(kind.read(&[bits]), value, "{kind:?} {bits:#x}");
        }
        assert!(E4m3.read(&[0x7f]).is_nan() && E5m2.read(&[0x7d]).is_nan());
    }
    #[test]
    fn every_number_of_eight_bits_is_its_own_nearest_and_halves_go_to_even() {
        for kind in [E4m3, E5m2] {
            let finite: Vec<(u8, f64)> = (0..0x80_u8).map(|b| (b, kind.read(&[b]))).filter(|(_, v)| v.is_finite()).collect();
            for (bits, value) in &finite {
                let mut written = Vec::new();
                kind.write(*value, &mut written);
                kind.write(-*value, &mut written);
                assert_eq!(written, [*bits, *bits | 0x80], "{kind:?} {value}");
            }
            for pair in finite.windows(2) {
                let (low, high) = (pair[0], pair[1]);
                let even = if low.0 % 2 == 0 { low } else { high };
                assert_eq!(kind.rounded((low.1 + high.1) / 2.0), even.1, "{kind:?} between {} and {}", low.1, high.1);
                assert_eq!(kind.rounded(low.1 + (high.1 - low.1) * 0.49), low.1);
            }
            assert_eq!(kind.rounded(1e9), finite.last().unwrap().1);
        }
    }
    #[test]
    fn tf32_keeps_ten_bits() {
        for (value, expected) in
            [(1.0 + 2_f64.powi(-10), 1.0 + 2_f64.powi(-10)), (1.0 + 2_f64.powi(-11), 1.0 + 2_f64.powi(-10)), (1.0 + 2_f64.powi(-12), 1.0), (-3.0, -3.0)]
        {
            assert_eq!(tf32(value), expected);
        }
    }
}
