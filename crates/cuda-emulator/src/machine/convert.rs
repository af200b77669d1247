//! Conversions between types: the usual ones as rows, all others lane by lane through a value that holds any of them.
use super::{
    exact::{BF16, E4M3, E5M2, Exact, F16, F32, F64, FloatFormat, Rounding, TF32},
    floats::{canonical, flush},
    registers::{Plain, map1},
};
use crate::ptx::PtxType;
use half::{bf16, f16};

/// A conversion of one value to another type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conversion {
    pub to: PtxType,
    pub from: PtxType,
    /// How floats are rounded to the type; `None` where nothing can be lost.
    pub rounding: Option<Rounding>,
    /// Rounded to a whole number first (`rni`, `rzi`, …).
    pub whole: Option<Rounding>,
    pub ftz: bool,
    pub saturate: bool,
    pub relu: bool,
    /// What is beyond the largest number becomes that.
    pub finite: bool,
}

/// A number of any type.
#[derive(Debug, Clone, Copy, PartialEq)]
enum AnyNumber {
    Whole(i128),
    Float(f64),
}

/// The usual conversions as rows.
pub fn usual(c: &Conversion) -> Option<Plain> {
    if c.saturate || c.ftz || c.relu || c.finite {
        return None;
    }
    macro_rules! whole {
        ($from:ty) => {
            match c.to {
                PtxType::U8 | PtxType::B8 => |r, o, m| map1::<$from, u8>(r, o, m, |a| a as u8),
                PtxType::S8 => |r, o, m| map1::<$from, u32>(r, o, m, |a| a as i8 as i32 as u32),
                PtxType::U16 | PtxType::B16 => |r, o, m| map1::<$from, u16>(r, o, m, |a| a as u16),
                PtxType::S16 => |r, o, m| map1::<$from, u32>(r, o, m, |a| a as i16 as i32 as u32),
                PtxType::U32 | PtxType::B32 | PtxType::S32 => |r, o, m| map1::<$from, u32>(r, o, m, |a| a as u32),
                PtxType::U64 | PtxType::B64 | PtxType::S64 => |r, o, m| map1::<$from, u64>(r, o, m, |a| a as u64),
                PtxType::F32 if c.rounding == Some(Rounding::Nearest) => |r, o, m| map1::<$from, f32>(r, o, m, |a| a as f32),
                PtxType::F64 if c.rounding != Some(Rounding::Zero) && c.rounding != Some(Rounding::Up) && c.rounding != Some(Rounding::Down) => {
                    |r, o, m| map1::<$from, f64>(r, o, m, |a| a as f64)
                }
                _ => return None,
            }
        };
    }
    Some(match (c.from, c.to, c.whole) {
        (PtxType::U8 | PtxType::B8, ..) => whole!(u8),
        (PtxType::S8, ..) => whole!(i8),
        (PtxType::U16 | PtxType::B16, ..) => whole!(u16),
        (PtxType::S16, ..) => whole!(i16),
        (PtxType::U32 | PtxType::B32, ..) => whole!(u32),
        (PtxType::S32, ..) => whole!(i32),
        (PtxType::U64 | PtxType::B64, ..) => whole!(u64),
        (PtxType::S64, ..) => whole!(i64),
        (PtxType::F32, PtxType::S32, Some(Rounding::Zero)) => |r, o, m| map1::<f32, i32>(r, o, m, |a| a as i32),
        (PtxType::F32, PtxType::U32, Some(Rounding::Zero)) => |r, o, m| map1::<f32, u32>(r, o, m, |a| a as u32),
        (PtxType::F32, PtxType::S32, Some(Rounding::Nearest)) => |r, o, m| map1::<f32, i32>(r, o, m, |a| a.round_ties_even() as i32),
        (PtxType::F32, PtxType::F32, Some(Rounding::Zero)) => |r, o, m| map1::<f32, f32>(r, o, m, |a| canonical(a.trunc())),
        (PtxType::F32, PtxType::F32, Some(Rounding::Nearest)) => |r, o, m| map1::<f32, f32>(r, o, m, |a| canonical(a.round_ties_even())),
        (PtxType::F32, PtxType::F64, None) => |r, o, m| map1::<f32, f64>(r, o, m, f64::from),
        (PtxType::F64, PtxType::F32, None) if c.rounding == Some(Rounding::Nearest) => |r, o, m| map1::<f64, f32>(r, o, m, |a| canonical(a as f32)),
        (PtxType::F16, PtxType::F32, None) => |r, o, m| map1::<f16, f32>(r, o, m, |a| canonical(a.to_f32())),
        (PtxType::Bf16, PtxType::F32, None) => |r, o, m| map1::<bf16, f32>(r, o, m, |a| canonical(a.to_f32())),
        (PtxType::F32, PtxType::F16, None) if c.rounding == Some(Rounding::Nearest) => {
            |r, o, m| map1::<f32, f16>(r, o, m, |a| if a.is_nan() { f16::from_bits(0x7fff) } else { f16::from_f32(a) })
        }
        (PtxType::F32, PtxType::Bf16, None) if c.rounding == Some(Rounding::Nearest) => {
            |r, o, m| map1::<f32, bf16>(r, o, m, |a| if a.is_nan() { bf16::from_bits(0x7fff) } else { bf16::from_f32(a) })
        }
        _ => return None,
    })
}

impl Conversion {
    /// The bits of the value in the new type; integers are as wide as 64 bits, with their sign.
    pub fn run(&self, bits: u64) -> u64 {
        self.write(self.read(bits))
    }
    fn read(&self, bits: u64) -> AnyNumber {
        let float = |x: f32| AnyNumber::Float(f64::from(if self.ftz { flush(x) } else { x }));
        match self.from {
            PtxType::U8 | PtxType::B8 => AnyNumber::Whole(i128::from(bits as u8)),
            PtxType::S8 => AnyNumber::Whole(i128::from(bits as i8)),
            PtxType::U16 | PtxType::B16 => AnyNumber::Whole(i128::from(bits as u16)),
            PtxType::S16 => AnyNumber::Whole(i128::from(bits as i16)),
            PtxType::U32 | PtxType::B32 => AnyNumber::Whole(i128::from(bits as u32)),
            PtxType::S32 => AnyNumber::Whole(i128::from(bits as i32)),
            PtxType::S64 => AnyNumber::Whole(i128::from(bits as i64)),
            PtxType::F32 | PtxType::Tf32 => float(f32::from_bits(bits as u32)),
            PtxType::F16 => AnyNumber::Float(f16::from_bits(bits as u16).to_f64()),
            PtxType::Bf16 => AnyNumber::Float(f64::from(bf16::from_bits(bits as u16).to_f32())),
            PtxType::E4m3 => AnyNumber::Float(f64::from(e4m3(bits as u8))),
            PtxType::E5m2 => AnyNumber::Float(f64::from(e5m2(bits as u8))),
            PtxType::F64 => AnyNumber::Float(f64::from_bits(bits)),
            _ => AnyNumber::Whole(i128::from(bits)),
        }
    }
    fn write(&self, number: AnyNumber) -> u64 {
        let float = |format: FloatFormat, nan: u64| self.float(number, format, nan);
        match self.to {
            PtxType::F16 => float(F16, 0x7fff),
            PtxType::Bf16 => float(BF16, 0x7fff),
            PtxType::F32 => float(F32, 0x7fff_ffff),
            PtxType::F64 => match number {
                // What is no number keeps its bits where it can.
                AnyNumber::Float(x) if x.is_nan() => x.to_bits(),
                _ => float(F64, 0x7fff_ffff_ffff_ffff),
            },
            PtxType::Tf32 => float(TF32, 0x3_ffff) << 13,
            PtxType::E4m3 => float(E4M3, 0x7f),
            PtxType::E5m2 => float(E5M2, 0x7f),
            _ => self.integer(number),
        }
    }
    fn float(&self, number: AnyNumber, format: FloatFormat, nan: u64) -> u64 {
        let exact = match number {
            AnyNumber::Whole(n) => Exact::from_integer(n),
            AnyNumber::Float(x) => {
                let x = self.whole.map_or(x, |rounding| to_whole(x, rounding));
                let x = if self.relu && x <= 0.0 { 0.0 } else { x };
                let x = if self.saturate { saturated(x) } else { x };
                Exact::from_f64(x)
            }
        };
        let Some(mut rounded) = exact.round(format, self.rounding.unwrap_or(Rounding::Nearest)) else { return nan };
        // The largest of e4m3 is 448; its next would be the pattern of no number.
        let largest = if format == E4M3 { 0b1110 } else { (1 << format.precision) - 1 };
        let beyond = rounded.infinite || rounded.exponent == format.most && rounded.significand > largest;
        if beyond && (self.finite || format == E4M3) {
            rounded.infinite = false;
            (rounded.significand, rounded.exponent) = (largest, format.most);
        }
        let bits = rounded.bits(format);
        if self.ftz && self.to == PtxType::F32 { u64::from(flush(f32::from_bits(bits as u32)).to_bits()) } else { bits }
    }
    fn integer(&self, number: AnyNumber) -> u64 {
        let bits = self.to.bits() as u32;
        let signed = self.to.signed();
        let (least, most) = if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
        let value = match number {
            AnyNumber::Whole(n) if self.saturate => n.clamp(least, most),
            AnyNumber::Whole(n) => n,
            AnyNumber::Float(x) if x.is_nan() => {
                if self.from != PtxType::F64 && bits < 64 {
                    0
                } else {
                    1i128 << (bits - 1)
                }
            }
            AnyNumber::Float(x) => (to_whole(x, self.whole.unwrap_or(Rounding::Zero)) as i128).clamp(least, most),
        };
        match (signed, bits) {
            (true, 8) => value as i8 as i64 as u64,
            (true, 16) => value as i16 as i64 as u64,
            (true, 32) => value as i32 as i64 as u64,
            (false, 8) => u64::from(value as u8),
            (false, 16) => u64::from(value as u16),
            (false, 32) => u64::from(value as u32),
            _ => value as u64,
        }
    }
}

/// Into 0 to 1; what is no number becomes 0.
fn saturated(x: f64) -> f64 {
    if x > 0.0 { x.min(1.0) } else { 0.0 }
}
fn to_whole(x: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => x.round_ties_even(),
        Rounding::NearestAway => x.round(),
        Rounding::Zero => x.trunc(),
        Rounding::Down => x.floor(),
        Rounding::Up => x.ceil(),
    }
}

/// The value of a float of 8 bits with four of exponent and three of fraction.
#[inline(always)]
pub fn e4m3(bits: u8) -> f32 {
    // Its bits at their place in an f32, times what the biases of the exponents differ by.
    let magnitude = f32::from_bits(u32::from(bits & 0x7f) << 20) * 2f32.powi(120);
    let magnitude = if bits & 0x7f == 0x7f { f32::NAN } else { magnitude };
    if bits >> 7 == 1 { -magnitude } else { magnitude }
}
/// The value of a float of 8 bits with five of exponent and two of fraction: the upper half of an f16.
pub fn e5m2(bits: u8) -> f32 {
    f16::from_bits(u16::from(bits) << 8).to_f32()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Conversion = Conversion {
        to: PtxType::F32,
        from: PtxType::F32,
        rounding: Some(Rounding::Nearest),
        whole: None,
        ftz: false,
        saturate: false,
        relu: false,
        finite: false,
    };

    #[test]
    fn eight_bits_there_and_back() {
        for bits in 0..=255u8 {
            for (t, value) in [(PtxType::E4m3, e4m3(bits)), (PtxType::E5m2, e5m2(bits))] {
                let there = Conversion { to: t, finite: true, ..PLAIN };
                let back = there.run(u64::from(value.to_bits()));
                if value.is_nan() {
                    assert_eq!(back, 0x7f);
                } else if value.is_infinite() {
                    assert_eq!(back as u8, bits - 1);
                } else {
                    assert_eq!(back as u8, bits, "{t:?} {value}");
                }
            }
        }
        let to = |t, x: f32| Conversion { to: t, finite: true, ..PLAIN }.run(u64::from(x.to_bits()));
        // Halfway cases go to the even one; beyond the largest stays the largest.
        for (x, bits) in [(448.0, 0x7e), (464.0, 0x7e), (1e9, 0x7e), (-1e9, 0xfe), (17.0, 0x58), (19.0, 0x5a), (0.0009765625, 0), (0.00098, 1)] {
            assert_eq!(to(PtxType::E4m3, x), bits, "{x}");
        }
        assert_eq!(to(PtxType::E5m2, 61440.0), 0x7b);
    }
    #[test]
    fn integers_of_floats_saturate_and_no_number_is_zero() {
        let to = |t, x: f32| Conversion { to: t, whole: Some(Rounding::Zero), ..PLAIN }.run(u64::from(x.to_bits()));
        assert_eq!(to(PtxType::S32, 1e20) as i32, i32::MAX);
        assert_eq!(to(PtxType::S32, -1e20) as i32, i32::MIN);
        assert_eq!(to(PtxType::U8, 300.0), 255);
        assert_eq!(to(PtxType::U32, -1.0), 0);
        assert_eq!(to(PtxType::S32, f32::NAN), 0);
        assert_eq!(to(PtxType::S64, f32::NAN), 1 << 63);
        assert_eq!(Conversion { from: PtxType::F64, to: PtxType::S32, whole: Some(Rounding::Zero), ..PLAIN }.run(f64::NAN.to_bits()) as u32, 1 << 31);
    }
    #[test]
    fn tf32_drops_thirteen_bits() {
        let to = |r, x: u32| Conversion { to: PtxType::Tf32, rounding: Some(r), ..PLAIN }.run(x.into()) as u32;
        assert_eq!(to(Rounding::NearestAway, 0x3f80_1000), 0x3f80_2000);
        assert_eq!(to(Rounding::NearestAway, 0x3f80_0fff), 0x3f80_0000);
        assert_eq!(to(Rounding::Nearest, 0x3f80_1000), 0x3f80_0000);
    }
}
