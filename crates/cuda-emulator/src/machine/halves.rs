//! Arithmetic of floats of 16 bits, one or two to a word. Sums, products and quotients of f32 rounded once more are right for
//! them (f32 has more than twice their digits); fused ones go through a sum rounded to odd.
use super::registers::{Plain, Registers, RowOperands, map1, map2, map3};
use crate::ptx::PtxType;
use half::{bf16, f16};

/// A float of 16 bits.
pub trait Half: Copy {
    fn of(bits: u16) -> Self;
    fn bits(self) -> u16;
    fn wide(self) -> f32;
    fn narrow(x: f32) -> Self;
}
macro_rules! half {
    ($t:ty, $nan:literal) => {
        impl Half for $t {
            #[inline(always)]
            fn of(bits: u16) -> $t {
                <$t>::from_bits(bits)
            }
            #[inline(always)]
            fn bits(self) -> u16 {
                self.to_bits()
            }
            #[inline(always)]
            fn wide(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn narrow(x: f32) -> $t {
                if x.is_nan() { <$t>::from_bits($nan) } else { <$t>::from_f32(x) }
            }
        }
    };
}
half!(f16, 0x7fff);
half!(bf16, 0x7fff);

/// An f64 as f32; where it lies between two, the one whose last bit is set, so that rounding again is right.
fn to_odd(x: f64, error: f64) -> f32 {
    let near = x as f32;
    if !near.is_finite() {
        // Beyond f32 is beyond all halves as well, or no number.
        return near;
    }
    let beyond = x - f64::from(near) + error;
    match (beyond == 0.0 || near.to_bits() & 1 == 1, beyond > 0.0) {
        (true, _) => near,
        (false, true) => near.next_up(),
        (false, false) => near.next_down(),
    }
}
/// `a * b + c`, rounded once.
pub fn fused<H: Half>(a: H, b: H, c: H) -> H {
    let (product, c) = (f64::from(a.wide()) * f64::from(b.wide()), f64::from(c.wide()));
    let sum = product + c;
    let there = sum - product;
    let error = (product - (sum - there)) + (c - there);
    H::narrow(to_odd(sum, if error.is_nan() { 0.0 } else { error }))
}
fn least<H: Half>(a: H, b: H, nan: bool) -> H {
    let (x, y) = (a.wide(), b.wide());
    if nan && (x.is_nan() || y.is_nan()) || x.is_nan() && y.is_nan() {
        return H::narrow(f32::NAN);
    }
    if x < y || x == y && x.is_sign_negative() || y.is_nan() { a } else { b }
}
fn negated<H: Half>(a: H) -> H {
    H::of(a.bits() ^ 0x8000)
}
fn rectified<H: Half>(a: H) -> H {
    // What is no number stays so.
    if a.wide() < 0.0 || a.bits() == 0x8000 { H::of(0) } else { a }
}
fn saturated<H: Half>(a: H) -> H {
    H::narrow(super::floats::saturate(a.wide()))
}

/// The lesser, of a number and what is none the number.
pub fn half_min<H: Half>(a: H, b: H) -> H {
    least(a, b, false)
}
/// The greater, of a number and what is none the number.
pub fn half_max<H: Half>(a: H, b: H) -> H {
    let least = least(negated(a), negated(b), false);
    if least.wide().is_nan() { least } else { negated(least) }
}

#[inline(always)]
fn both<H: Half>(words: [u32; 3], f: impl Fn(H, H, H) -> H) -> u32 {
    let part = |shift: u32| words.map(|w| H::of((w >> shift) as u16));
    let ([a, b, c], [x, y, z]) = (part(0), part(16));
    u32::from(f(a, b, c).bits()) | u32::from(f(x, y, z).bits()) << 16
}

/// Instructions on halves by name, with their extras (`fma.relu`), and type.
pub fn half(name: &str, t: PtxType) -> Option<Plain> {
    macro_rules! each {
        (1, |$H:ident, $a:ident| $e:expr) => {
            each!(@ map1::<u32, u32>, |a| [a, 0, 0], |$H, $a, _b, _c| $e)
        };
        (2, |$H:ident, $a:ident, $b:ident| $e:expr) => {
            each!(@@ map2::<u32, u32, u32>, |$H, $a, $b, _c| $e)
        };
        (3, |$H:ident, $a:ident, $b:ident, $c:ident| $e:expr) => {
            each!(@@@ map3::<u32, u32, u32, u32>, |$H, $a, $b, $c| $e)
        };
        (@ $map:expr, |$w:ident| $words:expr, |$H:ident, $a:ident, $b:ident, $c:ident| $e:expr) => {
            each!(= |$H, $a, $b, $c, r, o, m, run| map1::<u32, u32>(r, o, m, |a| run([a, 0, 0])), $e)
        };
        (@@ $map:expr, |$H:ident, $a:ident, $b:ident, $c:ident| $e:expr) => {
            each!(= |$H, $a, $b, $c, r, o, m, run| map2::<u32, u32, u32>(r, o, m, |a, b| run([a, b, 0])), $e)
        };
        (@@@ $map:expr, |$H:ident, $a:ident, $b:ident, $c:ident| $e:expr) => {
            each!(= |$H, $a, $b, $c, r, o, m, run| map3::<u32, u32, u32, u32>(r, o, m, |a, b, c| run([a, b, c])), $e)
        };
        (= |$H:ident, $a:ident, $b:ident, $c:ident, $r:ident, $o:ident, $m:ident, $run:ident| $map:expr, $e:expr) => {
            match t {
                PtxType::F16 => |$r: &mut Registers, $o: &RowOperands, $m: u32| { type $H = f16; let $run = |w: [u32; 3]| both::<$H>(w, |$a, $b, $c| $e) & 0xffff; $map },
                PtxType::F16x2 => |$r: &mut Registers, $o: &RowOperands, $m: u32| { type $H = f16; let $run = |w: [u32; 3]| both::<$H>(w, |$a, $b, $c| $e); $map },
                PtxType::Bf16 => |$r: &mut Registers, $o: &RowOperands, $m: u32| { type $H = bf16; let $run = |w: [u32; 3]| both::<$H>(w, |$a, $b, $c| $e) & 0xffff; $map },
                PtxType::Bf16x2 => |$r: &mut Registers, $o: &RowOperands, $m: u32| { type $H = bf16; let $run = |w: [u32; 3]| both::<$H>(w, |$a, $b, $c| $e); $map },
                _ => return None,
            }
        };
    }
    Some(match name {
        "add" => each!(2, |H, a, b| H::narrow(a.wide() + b.wide())),
        "sub" => each!(2, |H, a, b| H::narrow(a.wide() - b.wide())),
        "mul" => each!(2, |H, a, b| H::narrow(a.wide() * b.wide())),
        "add.sat" => each!(2, |H, a, b| saturated(H::narrow(a.wide() + b.wide()))),
        "mul.sat" => each!(2, |H, a, b| saturated(H::narrow(a.wide() * b.wide()))),
        "fma" => each!(3, |H, a, b, c| fused(a, b, c)),
        "fma.sat" => each!(3, |H, a, b, c| saturated(fused(a, b, c))),
        "fma.relu" => each!(3, |H, a, b, c| rectified(fused(a, b, c))),
        "neg" => each!(1, |H, a| negated::<H>(a)),
        "abs" => each!(1, |H, a| H::of(a.bits() & 0x7fff)),
        "min" => each!(2, |H, a, b| half_min::<H>(a, b)),
        "max" => each!(2, |H, a, b| half_max::<H>(a, b)),
        "min.NaN" => each!(2, |H, a, b| least::<H>(a, b, true)),
        "max.NaN" => each!(2, |H, a, b| least_or_nan_flipped::<H>(a, b)),
        "ex2" => each!(1, |H, a| H::narrow(a.wide().exp2())),
        "tanh" => each!(1, |H, a| H::narrow(to_odd(f64::from(a.wide()).tanh(), 0.0))),
        _ => return None,
    })
}

fn least_or_nan_flipped<H: Half>(a: H, b: H) -> H {
    let least = least::<H>(negated(a), negated(b), true);
    if least.wide().is_nan() { least } else { negated(least) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::exact::{BF16, Exact, F16, Rounding};

    #[test]
    fn fused_halves_are_rounded_once() {
        let mut state = 9u64;
        for _ in 0..300_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let [a, b, c] = [16, 32, 48].map(|shift| (state >> shift) as u16);
            let exact = |x: f32, y: f32, z: f32| {
                let e = |v: f32| Exact::from_f64(v.into());
                e(x).mul(e(y)).add(e(z), Rounding::Nearest)
            };
            let (x, y, z) = (f16::from_bits(a), f16::from_bits(b), f16::from_bits(c));
            assert_eq!(u64::from(fused(x, y, z).to_bits()), exact(x.wide(), y.wide(), z.wide()).to_bits(F16, Rounding::Nearest, 0x7fff), "{x} {y} {z}");
            let (x, y, z) = (bf16::from_bits(a), bf16::from_bits(b), bf16::from_bits(c));
            assert_eq!(u64::from(fused(x, y, z).to_bits()), exact(x.wide(), y.wide(), z.wide()).to_bits(BF16, Rounding::Nearest, 0x7fff), "{x} {y} {z}");
        }
    }
}
