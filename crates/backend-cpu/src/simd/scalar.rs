//! One lane, no intrinsics: what every other instruction set must agree with.
//!
//! Must not know that wider vectors exist.

use super::{Arithmetic, Float, Halves, Integer, Mask, Simd};

/// The set that needs nothing from the CPU.
#[derive(Clone, Copy)]
pub(crate) struct ScalarSimd;

impl Simd for ScalarSimd {
    type F32 = f32;
    type F64 = f64;
}

impl Mask for bool {
    #[inline(always)]
    fn and(self, other: bool) -> bool {
        self & other
    }
    #[inline(always)]
    fn or(self, other: bool) -> bool {
        self | other
    }
    #[inline(always)]
    fn not(self) -> bool {
        !self
    }
    #[inline(always)]
    fn any(self) -> bool {
        self
    }
}

macro_rules! one_lane {
    ($float:ident, $int:ident, $unsigned:ident) => {
        impl Float for $float {
            type Elem = $float;
            type Group = [$float; 16];
            #[inline(always)]
            fn group(value: $float) -> [$float; 16] {
                [value; 16]
            }
            const LANES: usize = 1;
            #[inline(always)]
            fn splat(value: $float) -> $float {
                value
            }
            #[inline(always)]
            unsafe fn load(at: *const $float) -> $float {
                // SAFETY: the caller vouches for one element.
                unsafe { at.read() }
            }
            #[inline(always)]
            unsafe fn store(self, at: *mut $float) {
                // SAFETY: the caller vouches for one element.
                unsafe { at.write(self) }
            }
            #[inline(always)]
            unsafe fn load_first(at: *const $float, count: usize) -> $float {
                // SAFETY: the caller vouches for `count` elements, and one is read only if there is one.
                if count == 0 { 0.0 } else { unsafe { at.read() } }
            }
            #[inline(always)]
            unsafe fn store_first(self, at: *mut $float, count: usize) {
                if count != 0 {
                    // SAFETY: the caller vouches for `count` elements.
                    unsafe { at.write(self) }
                }
            }
            #[inline(always)]
            unsafe fn load_transposed(at: *const $float, _stride: usize, rows: usize, count: usize) -> [$float; 16] {
                let mut out = [0.0; 16];
                if rows != 0 {
                    // SAFETY: the caller vouches for `count` elements of the row.
                    out[0] = unsafe { Self::load_first(at, count) };
                }
                out
            }
        }
        impl Arithmetic for $float {
            type Int = $int;
            type Mask = bool;
            const SIGNIFICAND: u32 = $float::MANTISSA_DIGITS - 1;

            #[inline(always)]
            fn constant(value: f64) -> $float {
                value as $float
            }
            #[inline(always)]
            fn add(self, other: $float) -> $float {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: $float) -> $float {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: $float) -> $float {
                self * other
            }
            #[inline(always)]
            fn div(self, other: $float) -> $float {
                self / other
            }
            #[inline(always)]
            fn mul_add(self, factor: $float, addend: $float) -> $float {
                $float::mul_add(self, factor, addend)
            }
            #[inline(always)]
            fn sqrt(self) -> $float {
                $float::sqrt(self)
            }
            #[inline(always)]
            fn min(self, other: $float) -> $float {
                if self < other { self } else { other }
            }
            #[inline(always)]
            fn max(self, other: $float) -> $float {
                if self > other { self } else { other }
            }
            #[inline(always)]
            fn round(self) -> $float {
                self.round_ties_even()
            }
            #[inline(always)]
            fn floor(self) -> $float {
                $float::floor(self)
            }
            #[inline(always)]
            fn ceil(self) -> $float {
                $float::ceil(self)
            }
            #[inline(always)]
            fn trunc(self) -> $float {
                $float::trunc(self)
            }
            #[inline(always)]
            fn lt(self, other: $float) -> bool {
                self < other
            }
            #[inline(always)]
            fn le(self, other: $float) -> bool {
                self <= other
            }
            #[inline(always)]
            fn eq(self, other: $float) -> bool {
                self == other
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $float::is_nan(self)
            }
            #[inline(always)]
            fn select(mask: bool, yes: $float, no: $float) -> $float {
                if mask { yes } else { no }
            }
            #[inline(always)]
            fn to_bits(self) -> $int {
                $float::to_bits(self) as $int
            }
            #[inline(always)]
            fn from_bits(bits: $int) -> $float {
                $float::from_bits(bits as $unsigned)
            }
            #[inline(always)]
            fn abs(self) -> $float {
                $float::abs(self)
            }
            #[inline(always)]
            fn neg(self) -> $float {
                -self
            }
            #[inline(always)]
            fn copysign(self, sign: $float) -> $float {
                $float::copysign(self, sign)
            }
        }

        impl Integer for $int {
            type Elem = $int;
            type Mask = bool;

            #[inline(always)]
            fn constant(value: i64) -> $int {
                value as $int
            }
            #[inline(always)]
            fn splat(value: $int) -> $int {
                value
            }
            #[inline(always)]
            fn add(self, other: $int) -> $int {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: $int) -> $int {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn and(self, other: $int) -> $int {
                self & other
            }
            #[inline(always)]
            fn or(self, other: $int) -> $int {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: $int) -> $int {
                self ^ other
            }
            #[inline(always)]
            fn shl(self, count: u32) -> $int {
                self << count
            }
            #[inline(always)]
            fn shr(self, count: u32) -> $int {
                ((self as $unsigned) >> count) as $int
            }
            #[inline(always)]
            fn eq(self, other: $int) -> bool {
                self == other
            }
            #[inline(always)]
            fn gt(self, other: $int) -> bool {
                self > other
            }
        }
    };
}

one_lane!(f32, i32, u32);
one_lane!(f64, i64, u64);

impl Halves for i64 {
    #[inline(always)]
    fn mul_halves(self, other: i64) -> i64 {
        (self as u32 as u64 * other as u32 as u64) as i64
    }
    #[inline(always)]
    fn upper(self) -> i64 {
        self >> 32
    }
    #[inline(always)]
    fn join(self, above: i64) -> i64 {
        self & 0xFFFF_FFFF | above << 32
    }
    #[inline(always)]
    fn pairs(self, other: i64) -> [i64; 2] {
        [self, other]
    }
}
