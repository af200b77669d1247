//! Floats computed exactly and rounded once, to any format and in any direction: what processors of hosts do not offer.
//! Values are a sign, 128 bits and an exponent; bits that fall off the end leave a mark in the last one.

/// In which direction a result goes that lies between two floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearer, of two the even one.
    Nearest,
    /// To the nearer, of two the one farther from zero.
    NearestAway,
    /// Towards zero.
    Zero,
    /// Downwards.
    Down,
    /// Upwards.
    Up,
}

/// What a format holds: bits of the significand with the leading one, and exponents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloatFormat {
    pub precision: u32,
    /// The exponent of the smallest normal number's leading bit.
    pub least: i32,
    /// The exponent of the largest number's leading bit.
    pub most: i32,
}

pub const F16: FloatFormat = FloatFormat { precision: 11, least: -14, most: 15 };
pub const BF16: FloatFormat = FloatFormat { precision: 8, least: -126, most: 127 };
pub const TF32: FloatFormat = FloatFormat { precision: 11, least: -126, most: 127 };
pub const F32: FloatFormat = FloatFormat { precision: 24, least: -126, most: 127 };
pub const F64: FloatFormat = FloatFormat { precision: 53, least: -1022, most: 1023 };
pub const E5M2: FloatFormat = FloatFormat { precision: 3, least: -14, most: 15 };
/// Without infinities: its largest exponent holds numbers, up to 448.
pub const E4M3: FloatFormat = FloatFormat { precision: 4, least: -6, most: 8 };

/// A value: `mantissa * 2^exponent`, or what is no number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Exact {
    Nan,
    Infinite(bool),
    /// The sign, the mantissa (0: zero) and the exponent.
    Finite(bool, u128, i32),
}

impl Exact {
    pub fn from_f64(value: f64) -> Exact {
        let bits = value.to_bits();
        let (negative, exponent, mantissa) = (bits >> 63 == 1, (bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
        match exponent {
            0x7ff if mantissa != 0 => Exact::Nan,
            0x7ff => Exact::Infinite(negative),
            0 => Exact::Finite(negative, u128::from(mantissa), -1074),
            _ => Exact::Finite(negative, u128::from(mantissa | 1 << 52), exponent - 1075),
        }
    }
    pub fn from_integer(value: i128) -> Exact {
        Exact::Finite(value < 0, value.unsigned_abs(), 0)
    }
    fn negative(self) -> bool {
        matches!(self, Exact::Infinite(true) | Exact::Finite(true, ..))
    }
    pub fn neg(self) -> Exact {
        match self {
            Exact::Nan => Exact::Nan,
            Exact::Infinite(n) => Exact::Infinite(!n),
            Exact::Finite(n, m, e) => Exact::Finite(!n, m, e),
        }
    }
    /// The product, exact for factors of up to 64 bits.
    pub fn mul(self, other: Exact) -> Exact {
        let sign = self.negative() ^ other.negative();
        match (self, other) {
            (Exact::Nan, _) | (_, Exact::Nan) => Exact::Nan,
            (Exact::Infinite(_), Exact::Finite(_, 0, _)) | (Exact::Finite(_, 0, _), Exact::Infinite(_)) => Exact::Nan,
            (Exact::Infinite(_), _) | (_, Exact::Infinite(_)) => Exact::Infinite(sign),
            (Exact::Finite(_, a, ea), Exact::Finite(_, b, eb)) => Exact::Finite(sign, a * b, ea + eb),
        }
    }
    /// The sum; a zero from two that cancel has the sign that the direction of rounding asks for.
    pub fn add(self, other: Exact, rounding: Rounding) -> Exact {
        match (self, other) {
            (Exact::Nan, _) | (_, Exact::Nan) => Exact::Nan,
            (Exact::Infinite(a), Exact::Infinite(b)) if a != b => Exact::Nan,
            (Exact::Infinite(a), _) | (_, Exact::Infinite(a)) => Exact::Infinite(a),
            (Exact::Finite(na, 0, _), Exact::Finite(nb, 0, _)) => Exact::Finite(if na == nb { na } else { rounding == Rounding::Down }, 0, 0),
            (Exact::Finite(_, 0, _), b) => b,
            (a, Exact::Finite(_, 0, _)) => a,
            (Exact::Finite(na, a, ea), Exact::Finite(nb, b, eb)) => {
                // Both with the leading bit at 126: one bit is free for the carry.
                let (mut a, mut ea) = lead(a, ea);
                let (mut b, eb) = lead(b, eb);
                let (mut na, mut nb) = (na, nb);
                let mut eb = eb;
                if (ea, a) < (eb, b) {
                    std::mem::swap(&mut a, &mut b);
                    std::mem::swap(&mut ea, &mut eb);
                    std::mem::swap(&mut na, &mut nb);
                }
                let b = shift_right(b, (ea - eb) as u32);
                match na == nb {
                    true => Exact::Finite(na, a + b, ea),
                    false if a == b => Exact::Finite(rounding == Rounding::Down, 0, 0),
                    false => Exact::Finite(na, a - b, ea),
                }
            }
        }
    }
    pub fn div(self, other: Exact) -> Exact {
        let sign = self.negative() ^ other.negative();
        match (self, other) {
            (Exact::Nan, _) | (_, Exact::Nan) | (Exact::Infinite(_), Exact::Infinite(_)) | (Exact::Finite(_, 0, _), Exact::Finite(_, 0, _)) => Exact::Nan,
            (Exact::Infinite(_), _) | (_, Exact::Finite(_, 0, _)) => Exact::Infinite(sign),
            (_, Exact::Infinite(_)) | (Exact::Finite(_, 0, _), _) => Exact::Finite(sign, 0, 0),
            (Exact::Finite(_, a, ea), Exact::Finite(_, b, eb)) => {
                let (a, ea) = lead(a, ea);
                let shift = b.leading_zeros().saturating_sub(64);
                let (b, eb) = (b << shift, eb - shift as i32);
                let quotient = a / b;
                Exact::Finite(sign, quotient | u128::from(a % b != 0), ea - eb)
            }
        }
    }
    pub fn sqrt(self) -> Exact {
        match self {
            Exact::Finite(n, 0, e) => Exact::Finite(n, 0, e),
            Exact::Infinite(false) => Exact::Infinite(false),
            Exact::Finite(false, m, e) => {
                let (m, e) = lead(m, e);
                let (m, e) = if e % 2 == 0 { (m, e) } else { (m >> 1 | m & 1, e + 1) };
                let root = m.isqrt();
                Exact::Finite(false, root << 1 | u128::from(root * root != m), e / 2 - 1)
            }
            _ => Exact::Nan,
        }
    }
    /// The bits of the float of a format: sign, biased exponent, fraction; `None` if it is no number.
    /// What is beyond the largest number becomes infinite, or the largest, as the direction asks.
    pub fn round(self, format: FloatFormat, rounding: Rounding) -> Option<RoundedFloat> {
        let (negative, mantissa, exponent) = match self {
            Exact::Nan => return None,
            Exact::Infinite(negative) => return Some(RoundedFloat { negative, infinite: true, significand: 0, exponent: 0 }),
            Exact::Finite(negative, 0, _) => return Some(RoundedFloat { negative, infinite: false, significand: 0, exponent: format.least }),
            Exact::Finite(negative, m, e) => (negative, m, e),
        };
        let (mantissa, exponent) = lead(mantissa, exponent);
        let leading = exponent + 126;
        // The exponent of the last bit that is kept.
        let last = leading.max(format.least) - (format.precision as i32 - 1);
        let drop = (last - exponent) as u32;
        let (kept, rest, half) = match drop {
            0..=127 => (mantissa >> drop, mantissa & ((1 << drop) - 1), 1u128 << (drop - 1)),
            // Less than half of the last bit.
            _ => (0, 1, 2),
        };
        let up = match rounding {
            Rounding::Nearest => rest > half || rest == half && kept & 1 == 1,
            Rounding::NearestAway => rest >= half,
            Rounding::Zero => false,
            Rounding::Down => negative && rest != 0,
            Rounding::Up => !negative && rest != 0,
        };
        let (mut significand, mut exponent) = (kept as u64 + u64::from(up), leading.max(format.least));
        if significand >> format.precision != 0 {
            significand >>= 1;
            exponent += 1;
        }
        if exponent > format.most {
            let stays = match rounding {
                Rounding::Nearest | Rounding::NearestAway => false,
                Rounding::Zero => true,
                Rounding::Down => !negative,
                Rounding::Up => negative,
            };
            return Some(if stays {
                RoundedFloat { negative, infinite: false, significand: (1 << format.precision) - 1, exponent: format.most }
            } else {
                RoundedFloat { negative, infinite: true, significand: 0, exponent: 0 }
            });
        }
        Some(RoundedFloat { negative, infinite: false, significand, exponent })
    }
    pub fn to_f64(self, rounding: Rounding) -> f64 {
        self.round(F64, rounding).map_or(f64::NAN, |r| f64::from_bits(r.bits(F64)))
    }
    #[cfg(test)]
    pub fn to_f32(self, rounding: Rounding) -> f32 {
        self.round(F32, rounding).map_or(f32::NAN, |r| f32::from_bits(r.bits(F32) as u32))
    }
    #[cfg(test)]
    pub fn to_bits(self, format: FloatFormat, rounding: Rounding, nan: u64) -> u64 {
        self.round(format, rounding).map_or(nan, |r| r.bits(format))
    }
}

/// A float of some format, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundedFloat {
    pub negative: bool,
    pub infinite: bool,
    /// With the leading one, where the number is normal.
    pub significand: u64,
    pub exponent: i32,
}

impl RoundedFloat {
    /// The bits, of a format whose largest exponent is that of infinities.
    pub fn bits(self, format: FloatFormat) -> u64 {
        let fraction = format.precision - 1;
        let exponents = (format.most - format.least + 1) as u64;
        let sign = u64::from(self.negative) << (fraction + 64 - exponents.leading_zeros());
        if self.infinite {
            return sign | (exponents + 1) << fraction;
        }
        let normal = self.significand >> fraction != 0;
        let biased = if normal { (self.exponent - format.least + 1) as u64 } else { 0 };
        sign | biased << fraction | self.significand & ((1 << fraction) - 1)
    }
}

/// The same value with its leading bit at 126; a bit at 127 goes, and leaves its mark.
fn lead(mantissa: u128, exponent: i32) -> (u128, i32) {
    match mantissa.leading_zeros() {
        0 => (mantissa >> 1 | mantissa & 1, exponent + 1),
        zeros => (mantissa << (zeros - 1), exponent - (zeros as i32 - 1)),
    }
}

/// Shifts right; what falls off leaves its mark in the last bit.
fn shift_right(mantissa: u128, by: u32) -> u128 {
    match by {
        0 => mantissa,
        1..=127 => mantissa >> by | u128::from(mantissa << (128 - by) != 0),
        _ => u128::from(mantissa != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let mut x = *state;
        x ^= x >> 29;
        x = x.wrapping_mul(0xbf58476d1ce4e5b9);
        x ^ x >> 32
    }
    fn same(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
    }
    #[test]
    fn rounded_to_nearest_it_is_what_the_host_computes() {
        let mut state = 1;
        for k in 0..200_000 {
            let (mut a, mut b, mut c) = (random(&mut state), random(&mut state), random(&mut state));
            if k % 2 == 0 {
                // Near to each other, so that sums cancel.
                (b, c) = (a ^ b >> 20, a ^ c >> 12);
            }
            if k % 5 == 0 {
                (a, b, c) = (a & 0x803f_ffff_ffff_ffff, b & 0xbfff_ffff_ffff_ffff, c & 0x800f_ffff_ffff_ffff);
            }
            let (a, b, c) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
            let [x, y, z] = [a, b, c].map(Exact::from_f64);
            let nearest = |e: Exact| e.to_f64(Rounding::Nearest);
            assert!(same(nearest(x.add(y, Rounding::Nearest)), a + b), "{a} + {b}");
            assert!(same(nearest(x.mul(y)), a * b), "{a} * {b}");
            assert!(same(nearest(x.div(y)), a / b), "{a} / {b}");
            assert!(same(nearest(x.sqrt()), a.sqrt()), "sqrt {a}");
            assert!(same(nearest(x.mul(y).add(z, Rounding::Nearest)), a.mul_add(b, c)), "{a} * {b} + {c}");
            let (f, g) = (a as f32, Exact::from_f64(a).to_f32(Rounding::Nearest));
            assert!(f.to_bits() == g.to_bits() || f.is_nan() && g.is_nan());
            let h = f as f64;
            assert!(h.is_nan() || f16::from_f64(h).to_bits() as u64 == Exact::from_f64(h).to_bits(F16, Rounding::Nearest, 0), "{h}");
            assert!(h.is_nan() || bf16::from_f32(f).to_bits() as u64 == Exact::from_f64(h).to_bits(BF16, Rounding::Nearest, 0), "{h}");
        }
    }
    #[test]
    fn directions_enclose_the_value() {
        let mut state = 7;
        for _ in 0..50_000 {
            let (a, b) = (f64::from_bits(random(&mut state)), f64::from_bits(random(&mut state)));
            let sum = |r| Exact::from_f64(a).add(Exact::from_f64(b), r).to_f64(r);
            let (down, up, near, zero) = (sum(Rounding::Down), sum(Rounding::Up), sum(Rounding::Nearest), sum(Rounding::Zero));
            if near.is_nan() {
                continue;
            }
            assert!(down <= near && near <= up && (up == down || up == down.next_up()), "{a} + {b}: {down} {near} {up}");
            assert_eq!(zero, if near < 0.0 { up } else { down });
        }
        assert_eq!(Exact::from_f64(f64::MAX).add(Exact::from_f64(f64::MAX), Rounding::Down).to_f64(Rounding::Down), f64::MAX);
        assert_eq!(Exact::from_f64(1e-300).mul(Exact::from_f64(1e-300)).to_f64(Rounding::Up), f64::from_bits(1));
        assert!(Exact::from_f64(1.0).add(Exact::from_f64(-1.0), Rounding::Down).to_f64(Rounding::Down).is_sign_negative());
    }
}
