//! Arithmetic of f32 and f64, as PTX has it: subnormals kept or flushed, saturated or not, rounded in any direction, one
//! pattern for what is no number in f32.
//!
//! The approximate functions are rounded nearly correctly: PTX bounds their errors and leaves the rest open.
#![allow(unsafe_code, reason = "fused multiply-adds by the host's own instruction, where it has one")]
use super::{
    exact::{Exact, Rounding},
    registers::{Plain, Registers, RowOperands, map1, map2, map3},
};

/// The rounding that a word names.
pub fn rounding(word: &str) -> Option<Rounding> {
    Some(match word {
        "rn" => Rounding::Nearest,
        "rz" => Rounding::Zero,
        "rm" => Rounding::Down,
        "rp" => Rounding::Up,
        "rna" => Rounding::NearestAway,
        _ => return None,
    })
}

/// Zero with its sign instead of a subnormal.
#[inline(always)]
pub fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}
#[inline(always)]
fn start<const FTZ: bool>(x: f32) -> f32 {
    if FTZ { flush(x) } else { x }
}
/// What an instruction gives: one pattern for no number, flushed, saturated as it says.
#[inline(always)]
fn finish<const FTZ: bool, const SAT: bool>(x: f32) -> f32 {
    let x = if FTZ { flush(x) } else { x };
    if SAT {
        return saturate(x);
    }
    canonical(x)
}
/// One pattern for what is no number. (Asked by its bits: what `is_nan` says of a float may be taken to be so already.)
#[inline(always)]
pub fn canonical(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fff_ffff } else { bits })
}
/// Into 0 to 1; what is no number becomes 0.
#[inline(always)]
pub fn saturate(x: f32) -> f32 {
    let x = if x > 0.0 { x } else { 0.0 };
    if x < 1.0 { x } else { 1.0 }
}

/// The four versions of an instruction, with subnormals flushed or not, saturated or not.
macro_rules! versions {
    ($ftz:expr, $sat:expr, |$r:ident, $o:ident, $m:ident, $FTZ:ident, $SAT:ident| $body:expr) => {
        match ($ftz, $sat) {
            (false, false) => {
                const $FTZ: bool = false;
                const $SAT: bool = false;
                |$r: &mut Registers, $o: &RowOperands, $m: u32| $body
            }
            (false, true) => {
                const $FTZ: bool = false;
                const $SAT: bool = true;
                |$r: &mut Registers, $o: &RowOperands, $m: u32| $body
            }
            (true, false) => {
                const $FTZ: bool = true;
                const $SAT: bool = false;
                |$r: &mut Registers, $o: &RowOperands, $m: u32| $body
            }
            (true, true) => {
                const $FTZ: bool = true;
                const $SAT: bool = true;
                |$r: &mut Registers, $o: &RowOperands, $m: u32| $body
            }
        }
    };
}
macro_rules! unary {
    ($ftz:expr, $sat:expr, |$a:ident| $e:expr) => {
        Some(versions!($ftz, $sat, |r, o, m, F, S| map1::<f32, f32>(r, o, m, |$a| {
            let $a = start::<F>($a);
            finish::<F, S>($e)
        })))
    };
}
macro_rules! binary {
    ($ftz:expr, $sat:expr, |$a:ident, $b:ident| $e:expr) => {
        Some(versions!($ftz, $sat, |r, o, m, F, S| map2::<f32, f32, f32>(r, o, m, |$a, $b| {
            let ($a, $b) = (start::<F>($a), start::<F>($b));
            finish::<F, S>($e)
        })))
    };
}
/// The same for the three directions that are not the nearest.
macro_rules! directed {
    ($rounding:expr, |$d:ident| $e:expr) => {
        match $rounding {
            Rounding::Zero => {
                const $d: Rounding = Rounding::Zero;
                $e
            }
            Rounding::Down => {
                const $d: Rounding = Rounding::Down;
                $e
            }
            Rounding::Up => {
                const $d: Rounding = Rounding::Up;
                $e
            }
            _ => None,
        }
    };
}

/// Instructions on f32 by name, rounding, and whether they flush and saturate.
pub fn single(name: &str, rounding: Rounding, ftz: bool, sat: bool) -> Option<Plain> {
    if rounding != Rounding::Nearest {
        return match name {
            "add" => directed!(rounding, |D| binary!(ftz, sat, |a, b| sum(a.into(), b.into(), D))),
            "sub" => directed!(rounding, |D| binary!(ftz, sat, |a, b| sum(a.into(), (-b).into(), D))),
            "mul" => directed!(rounding, |D| binary!(ftz, sat, |a, b| toward(f64::from(a) * f64::from(b), 0.0, D))),
            "div" => directed!(rounding, |D| binary!(ftz, sat, |a, b| quotient(a, b, D))),
            "rcp" => directed!(rounding, |D| unary!(ftz, sat, |a| quotient(1.0, a, D))),
            "sqrt" => directed!(rounding, |D| unary!(ftz, sat, |a| root(a, D))),
            "fma" => directed!(rounding, |D| Some(versions!(ftz, sat, |r, o, m, F, S| map3::<f32, f32, f32, f32>(r, o, m, |a, b, c| {
                let (a, b, c) = (start::<F>(a), start::<F>(b), start::<F>(c));
                finish::<F, S>(sum(f64::from(a) * f64::from(b), c.into(), D))
            })))),
            _ => None,
        };
    }
    match name {
        "add" => binary!(ftz, sat, |a, b| a + b),
        "sub" => binary!(ftz, sat, |a, b| a - b),
        "mul" => binary!(ftz, sat, |a, b| a * b),
        "div" => binary!(ftz, sat, |a, b| a / b),
        "fma" => Some(fused_single(ftz, sat)),
        "rcp" => unary!(ftz, sat, |a| 1.0 / a),
        "sqrt" => unary!(ftz, sat, |a| a.sqrt()),
        "rsqrt" => unary!(ftz, sat, |a| (1.0 / f64::from(a).sqrt()) as f32),
        "ex2" => unary!(ftz, sat, |a| a.exp2()),
        "lg2" => unary!(ftz, sat, |a| a.log2()),
        "sin" => unary!(ftz, sat, |a| a.sin()),
        "cos" => unary!(ftz, sat, |a| a.cos()),
        "tanh" => unary!(ftz, sat, |a| f64::from(a).tanh() as f32),
        "min" => binary!(ftz, sat, |a, b| least(a, b)),
        "max" => binary!(ftz, sat, |a, b| -least(-a, -b)),
        "min.NaN" => binary!(ftz, sat, |a, b| if a.is_nan() || b.is_nan() { f32::NAN } else { least(a, b) }),
        "max.NaN" => binary!(ftz, sat, |a, b| if a.is_nan() || b.is_nan() { f32::NAN } else { -least(-a, -b) }),
        "neg" => Some(if ftz { |r, o, m| map1::<f32, f32>(r, o, m, |a| -flush(a)) } else { |r, o, m| map1::<f32, f32>(r, o, m, |a| -a) }),
        "abs" => Some(if ftz { |r, o, m| map1::<f32, f32>(r, o, m, |a| flush(a).abs()) } else { |r, o, m| map1::<f32, f32>(r, o, m, |a| a.abs()) }),
        "copysign" => Some(|r, o, m| map2::<f32, f32, f32>(r, o, m, |a, b| b.copysign(a))),
        _ => None,
    }
}

/// The lesser; of a number and what is none the number; -0 is less than 0.
#[inline(always)]
fn least(a: f32, b: f32) -> f32 {
    let lesser = a < b || a == b && a.is_sign_negative();
    if lesser || b.is_nan() { a } else { b }
}

/// Instructions on f64 by name and rounding.
pub fn double(name: &str, rounding: Rounding) -> Option<Plain> {
    macro_rules! two {
        (|$a:ident, $b:ident| $e:expr) => {
            Some(|r, o, m| map2::<f64, f64, f64>(r, o, m, |$a, $b| $e))
        };
    }
    macro_rules! one {
        (|$a:ident| $e:expr) => {
            Some(|r, o, m| map1::<f64, f64>(r, o, m, |$a| $e))
        };
    }
    if rounding != Rounding::Nearest {
        return match name {
            "add" => directed!(rounding, |D| two!(|a, b| Exact::from_f64(a).add(Exact::from_f64(b), D).to_f64(D))),
            "sub" => directed!(rounding, |D| two!(|a, b| Exact::from_f64(a).add(Exact::from_f64(b).neg(), D).to_f64(D))),
            "mul" => directed!(rounding, |D| two!(|a, b| Exact::from_f64(a).mul(Exact::from_f64(b)).to_f64(D))),
            "div" => directed!(rounding, |D| two!(|a, b| Exact::from_f64(a).div(Exact::from_f64(b)).to_f64(D))),
            "rcp" => directed!(rounding, |D| one!(|a| Exact::from_f64(1.0).div(Exact::from_f64(a)).to_f64(D))),
            "sqrt" => directed!(rounding, |D| one!(|a| Exact::from_f64(a).sqrt().to_f64(D))),
            "fma" => directed!(rounding, |D| Some(|r, o, m| map3::<f64, f64, f64, f64>(r, o, m, |a, b, c| {
                Exact::from_f64(a).mul(Exact::from_f64(b)).add(Exact::from_f64(c), D).to_f64(D)
            }))),
            _ => None,
        };
    }
    match name {
        "add" => two!(|a, b| a + b),
        "sub" => two!(|a, b| a - b),
        "mul" => two!(|a, b| a * b),
        "div" => two!(|a, b| a / b),
        "fma" => Some(fused_double()),
        "rcp" => one!(|a| 1.0 / a),
        "sqrt" => one!(|a| a.sqrt()),
        "rsqrt" => one!(|a| 1.0 / a.sqrt()),
        "rcp.gross" => one!(|a| gross(a, |a| 1.0 / a)),
        "rsqrt.gross" => one!(|a| gross(a, |a| 1.0 / a.sqrt())),
        "min" => two!(|a, b| if a < b || a == b && a.is_sign_negative() || b.is_nan() { a } else { b }),
        "max" => two!(|a, b| if a > b || a == b && a.is_sign_positive() || b.is_nan() { a } else { b }),
        "neg" => one!(|a| -a),
        "abs" => one!(|a| a.abs()),
        "copysign" => two!(|a, b| b.copysign(a)),
        _ => None,
    }
}

/// `rcp.approx.ftz.f64` and its kin look at the upper word alone, and give an upper word; subnormals are zeros.
fn gross(a: f64, f: impl Fn(f64) -> f64) -> f64 {
    let bits = a.to_bits() & 0xffff_ffff_0000_0000;
    let flushed = |bits: u64| f64::from_bits(if bits & 0x7ff0_0000_0000_0000 == 0 { bits & 1 << 63 } else { bits });
    let exact = f(flushed(if a.is_nan() { f64::NAN.to_bits() } else { bits }));
    if exact.is_nan() {
        return f64::from_bits(0x7fff_ffff_0000_0000);
    }
    flushed(exact.to_bits() & 0xffff_ffff_0000_0000)
}

/// `sum + error` rounded to f32 in a direction; `error` is less than the last bit of `sum`.
fn toward(sum: f64, error: f64, direction: Rounding) -> f32 {
    let near = sum as f32;
    if !sum.is_finite() {
        return near;
    }
    let beyond = sum - f64::from(near) + error;
    match direction {
        Rounding::Down if beyond < 0.0 => near.next_down(),
        Rounding::Up if beyond > 0.0 => near.next_up(),
        Rounding::Zero if beyond < 0.0 && near > 0.0 => near.next_down(),
        Rounding::Zero if beyond > 0.0 && near < 0.0 => near.next_up(),
        _ => near,
    }
}
/// The sum of two f64 that are exact, rounded to f32 in a direction (the error by Knuth's TwoSum).
fn sum(a: f64, b: f64, direction: Rounding) -> f32 {
    let sum = a + b;
    if sum == 0.0 && direction == Rounding::Down && a.is_sign_negative() != b.is_sign_negative() {
        return -0.0;
    }
    let there = sum - a;
    toward(sum, (a - (sum - there)) + (b - there), direction)
}
fn quotient(a: f32, b: f32, direction: Rounding) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let quotient = a / b;
    let rest = (-quotient).mul_add(b, a);
    toward(quotient, if rest.is_finite() && b.is_finite() { rest / b } else { 0.0 }, direction)
}
fn root(a: f32, direction: Rounding) -> f32 {
    let a = f64::from(a);
    let root = a.sqrt();
    let rest = (-root).mul_add(root, a);
    toward(root, if root > 0.0 { rest / root } else { 0.0 }, direction)
}

#[inline(always)]
fn fma_single<const FTZ: bool, const SAT: bool>(r: &mut Registers, o: &RowOperands, m: u32) {
    map3::<f32, f32, f32, f32>(r, o, m, |a, b, c| finish::<FTZ, SAT>(start::<FTZ>(a).mul_add(start::<FTZ>(b), start::<FTZ>(c))));
}
#[inline(always)]
fn fma_double(r: &mut Registers, o: &RowOperands, m: u32) {
    map3::<f64, f64, f64, f64>(r, o, m, f64::mul_add);
}

#[cfg(target_arch = "x86_64")]
mod host {
    use super::{Registers, RowOperands};
    #[target_feature(enable = "avx2,fma")]
    pub fn fma_single<const FTZ: bool, const SAT: bool>(r: &mut Registers, o: &RowOperands, m: u32) {
        super::fma_single::<FTZ, SAT>(r, o, m);
    }
    #[target_feature(enable = "avx2,fma")]
    pub fn fma_double(r: &mut Registers, o: &RowOperands, m: u32) {
        super::fma_double(r, o, m);
    }
    pub fn has() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }
}

fn fused_single(ftz: bool, sat: bool) -> Plain {
    #[cfg(target_arch = "x86_64")]
    if host::has() {
        // SAFETY: the host has the instructions, as just asked.
        return versions!(ftz, sat, |r, o, m, F, S| unsafe { host::fma_single::<F, S>(r, o, m) });
    }
    versions!(ftz, sat, |r, o, m, F, S| fma_single::<F, S>(r, o, m))
}
fn fused_double() -> Plain {
    #[cfg(target_arch = "x86_64")]
    if host::has() {
        // SAFETY: the host has the instructions, as just asked.
        return |r, o, m| unsafe { host::fma_double(r, o, m) };
    }
    fma_double
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_of_f32_agree_with_exact_arithmetic() {
        let mut state = 3u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            f32::from_bits((state >> 32) as u32)
        };
        for _ in 0..100_000 {
            let (a, mut b, mut c) = (random(), random(), random());
            if c.to_bits() % 3 == 0 {
                (b, c) = (f32::from_bits(a.to_bits() ^ b.to_bits() >> 12), -(a * b));
            }
            let e = |x: f32| Exact::from_f64(x.into());
            for d in [Rounding::Zero, Rounding::Down, Rounding::Up] {
                let check = |what: &str, x: f32, y: f32| assert!(x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan(), "{what} {d:?}: {a} {b} {c}: {x} {y}");
                check("add", sum(a.into(), b.into(), d), e(a).add(e(b), d).to_f32(d));
                check("mul", toward(f64::from(a) * f64::from(b), 0.0, d), e(a).mul(e(b)).to_f32(d));
                check("fma", sum(f64::from(a) * f64::from(b), c.into(), d), e(a).mul(e(b)).add(e(c), d).to_f32(d));
                check("div", quotient(a, b, d), e(a).div(e(b)).to_f32(d));
                check("sqrt", root(a, d), e(a).sqrt().to_f32(d));
            }
        }
    }
}
