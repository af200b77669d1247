//! Element types: what a tensor may hold, and what a Rust value must be to become an element.
//!
//! Arithmetic is defined for bool, u8, i8, i32, u32, i64, f16, bf16, f32 and f64. The others
//! (i16, u16, u64 and the two fp8 formats) are storage: they can be cast, moved and saved.
use crate::error::ErrorKind;
use bytemuck::{CheckedBitPattern, NoUninit, Zeroable};
use half::{bf16, f16};
use std::fmt;

/// The type of every element of a tensor, a run-time fact as in PyTorch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer (storage).
    I16,
    /// Unsigned 16-bit integer (storage).
    U16,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 64-bit integer (storage).
    U64,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    BF16,
    /// IEEE binary32, the default.
    F32,
    /// IEEE binary64.
    F64,
    /// OCP fp8 with 4 exponent bits (storage).
    F8E4M3,
    /// OCP fp8 with 5 exponent bits (storage).
    F8E5M2,
}

impl DType {
    /// Every dtype, in declaration order.
    pub const ALL: [DType; 15] = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::F8E4M3,
        DType::F8E5M2,
    ];
    /// The dtypes that arithmetic is defined for.
    pub const COMPUTE: [DType; 10] = [DType::Bool, DType::U8, DType::I8, DType::I32, DType::U32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];

    /// Bytes of one element.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 | DType::F8E4M3 | DType::F8E5M2 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 => 8,
        }
    }
    /// The short name: `f32`, `bool`, `bf16`, ...
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::F8E4M3 => "f8_e4m3",
            DType::F8E5M2 => "f8_e5m2",
        }
    }
    /// Is it a floating-point type (fp8 included)?
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::F8E4M3 | DType::F8E5M2)
    }
    /// Is it an integer type (bool is not)?
    #[inline]
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, DType::Bool)
    }
    /// Can it hold negative numbers?
    pub const fn is_signed(self) -> bool {
        self.is_float() || matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }
    /// Is arithmetic defined for it?
    #[inline]
    pub const fn computes(self) -> bool {
        !matches!(self, DType::I16 | DType::U16 | DType::U64 | DType::F8E4M3 | DType::F8E5M2)
    }
    /// Is every value of `other` a value of this dtype too, so that converting to it loses nothing?
    ///
    /// ```
    /// use adamant_ir::DType;
    /// assert!(DType::I32.holds(DType::U8) && DType::F32.holds(DType::BF16) && DType::F32.holds(DType::I16));
    /// assert!(!DType::I8.holds(DType::U8) && !DType::F32.holds(DType::I32) && !DType::BF16.holds(DType::F16));
    /// ```
    pub fn holds(self, other: DType) -> bool {
        use DType::{BF16, Bool, F8E4M3, F8E5M2, F16, F32, F64};
        if self == other {
            return true;
        }
        // Whole numbers up to which a float has all of them.
        let whole = 1i128
            << match self {
                F16 => 11,
                BF16 => 8,
                F32 => 24,
                F64 => 53,
                _ => 0,
            };
        match (self, other) {
            (Bool, _) => false,
            (F8E4M3 | F8E5M2, _) => false,
            (_, Bool) => true,
            (F16 | BF16, F8E4M3 | F8E5M2) | (F32, F16 | BF16 | F8E4M3 | F8E5M2) => true,
            (F64, other) if other.is_float() => true,
            (_, other) => match (self.int_range(), other.int_range()) {
                (Some((low, high)), Some((least, most))) => low <= least && most <= high,
                (None, Some((least, most))) => -whole <= least && most <= whole,
                _ => false,
            },
        }
    }
    /// The inclusive range of an integer dtype.
    pub const fn int_range(self) -> Option<(i128, i128)> {
        Some(match self {
            DType::U8 => (0, u8::MAX as i128),
            DType::I8 => (i8::MIN as i128, i8::MAX as i128),
            DType::I16 => (i16::MIN as i128, i16::MAX as i128),
            DType::U16 => (0, u16::MAX as i128),
            DType::I32 => (i32::MIN as i128, i32::MAX as i128),
            DType::U32 => (0, u32::MAX as i128),
            DType::I64 => (i64::MIN as i128, i64::MAX as i128),
            DType::U64 => (0, u64::MAX as i128),
            _ => return None,
        })
    }
    /// The largest finite number of a float dtype.
    pub const fn largest(self) -> Option<f64> {
        Some(match self {
            DType::F16 => 65504.0,
            DType::BF16 => 3.3895313892515355e38,
            DType::F32 => f32::MAX as f64,
            DType::F64 => f64::MAX,
            DType::F8E4M3 => 448.0,
            DType::F8E5M2 => 57344.0,
            _ => return None,
        })
    }
    /// The dtype in which sums of this dtype are returned: i64 for bool and integers (PyTorch's rule).
    pub const fn sum_dtype(self) -> DType {
        if self.is_float() { self } else { DType::I64 }
    }
    /// The dtype of a true division or a mean: f32 for bool and integers (PyTorch's default dtype).
    pub const fn to_float(self) -> DType {
        if self.is_float() { self } else { DType::F32 }
    }
    /// The dtype in which two meet, by PyTorch's table (`torch.promote_types`); nothing where it has none: wide unsigned integers
    /// meet only themselves and floats, 8-bit floats only themselves.
    pub fn promote(self, other: DType) -> Option<DType> {
        use DType::*;
        Some(match (self, other) {
            (a, b) if a == b => a,
            (F8E4M3 | F8E5M2, _) | (_, F8E4M3 | F8E5M2) => return None,
            (F64, _) | (_, F64) => F64,
            (F16, BF16) | (BF16, F16) => F32,
            (a, b) if a.is_float() && b.is_float() => F32,
            (a, _) if a.is_float() => a,
            (_, b) if b.is_float() => b,
            (U16 | U32 | U64, _) | (_, U16 | U32 | U64) => return None,
            (Bool, b) => b,
            (a, Bool) => a,
            (U8, I8) | (I8, U8) => I16,
            (a, b) => {
                if a.size() > b.size() {
                    a
                } else {
                    b
                }
            }
        })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
impl DType {
    /// As it is written in Rust.
    pub fn in_code(self) -> String {
        if self == DType::Bool { "DType::Bool".into() } else { format!("DType::{}", self.name().to_uppercase()) }
    }
}
impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
impl std::str::FromStr for DType {
    type Err = crate::Error;
    #[track_caller]
    fn from_str(s: &str) -> Result<DType, crate::Error> {
        match DType::ALL.into_iter().find(|d| d.name() == s) {
            Some(dtype) => Ok(dtype),
            None => Err(crate::Error::new("dtype", ErrorKind::Argument(format!("`{s}` is no dtype; there are {:?}", DType::ALL)))),
        }
    }
}

/// A Rust type that can be an element of a tensor: plain old data of a known [`DType`].
///
/// All but `bool` are [`bytemuck::Pod`]; `bool` is checked when bytes become elements.
pub trait Element: NoUninit + CheckedBitPattern + Zeroable + Copy + Default + PartialOrd + fmt::Debug + Send + Sync + 'static {
    /// The dtype of tensors that hold this type.
    const DTYPE: DType;
    /// The element's value as a number.
    fn to_scalar(self) -> Scalar;
    /// The number as an element, rounded once; saturates outside the range of an integer type.
    fn from_f64(value: f64) -> Self;
    /// The integer as an element, wrapped to the type's width.
    fn from_i64(value: i64) -> Self;
    /// The element as f64.
    fn to_f64(self) -> f64 {
        self.to_scalar().to_f64()
    }
    /// Wraps a vector without copying it.
    fn into_host(data: Vec<Self>) -> HostVec;
    /// Unwraps a vector of this type without copying it.
    fn from_host(data: HostVec) -> Option<Vec<Self>>;
}

macro_rules! elements {
    ($($t:ty, $d:ident, $variant:ident, $to:expr, $f:expr, $i:expr;)*) => {
        /// A vector of any element type, adopted without a copy.
        #[derive(Clone, Debug)]
        pub enum HostVec { $(#[doc = stringify!($t)] $d(Vec<$t>),)* }
        impl HostVec {
            /// The element type.
            pub fn dtype(&self) -> DType { match self { $(HostVec::$d(_) => DType::$d,)* } }
            /// How many elements.
            pub fn len(&self) -> usize { match self { $(HostVec::$d(v) => v.len(),)* } }
            /// Is it empty?
            pub fn is_empty(&self) -> bool { self.len() == 0 }
            /// The elements' bytes.
            #[inline]
            pub fn bytes(&self) -> &[u8] { match self { $(HostVec::$d(v) => bytemuck::cast_slice(v),)* } }
        }
        $(impl Element for $t {
            const DTYPE: DType = DType::$d;
            #[inline]
            fn to_scalar(self) -> Scalar { ($to)(self) }
            fn from_f64(value: f64) -> Self { ($f)(value) }
            fn from_i64(value: i64) -> Self { ($i)(value) }
            fn into_host(data: Vec<Self>) -> HostVec { HostVec::$d(data) }
            fn from_host(data: HostVec) -> Option<Vec<Self>> { if let HostVec::$d(v) = data { Some(v) } else { None } }
        })*
    };
}
elements! {
    bool, Bool, Bool, Scalar::Bool, |v: f64| v != 0.0, |v: i64| v != 0;
    u8, U8, Int, |v| Scalar::Int(v as i64), |v: f64| v as u8, |v: i64| v as u8;
    i8, I8, Int, |v| Scalar::Int(v as i64), |v: f64| v as i8, |v: i64| v as i8;
    i16, I16, Int, |v| Scalar::Int(v as i64), |v: f64| v as i16, |v: i64| v as i16;
    u16, U16, Int, |v| Scalar::Int(v as i64), |v: f64| v as u16, |v: i64| v as u16;
    i32, I32, Int, |v| Scalar::Int(v as i64), |v: f64| v as i32, |v: i64| v as i32;
    u32, U32, Int, |v| Scalar::Int(v as i64), |v: f64| v as u32, |v: i64| v as u32;
    i64, I64, Int, Scalar::Int, |v: f64| v as i64, |v: i64| v;
    u64, U64, Int, |v| Scalar::Int(v as i64), |v: f64| v as u64, |v: i64| v as u64;
    f16, F16, Float, |v: f16| Scalar::Float(v.to_f64()), f16_from_f64, |v: i64| f16_from_f64(v as f64);
    bf16, BF16, Float, |v: bf16| Scalar::Float(v.to_f64()), bf16_from_f64, |v: i64| bf16_from_f64(v as f64);
    f32, F32, Float, |v| Scalar::Float(v as f64), |v: f64| v as f32, |v: i64| v as f32;
    f64, F64, Float, Scalar::Float, |v: f64| v, |v: i64| v as f64;
}
impl HostVec {
    /// The elements' bytes, to write; none of a vector of bool, which may not hold every byte.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            HostVec::Bool(_) => &mut [],
            HostVec::U8(v) => v,
            HostVec::I8(v) => bytemuck::cast_slice_mut(v),
            HostVec::I16(v) => bytemuck::cast_slice_mut(v),
            HostVec::U16(v) => bytemuck::cast_slice_mut(v),
            HostVec::I32(v) => bytemuck::cast_slice_mut(v),
            HostVec::U32(v) => bytemuck::cast_slice_mut(v),
            HostVec::I64(v) => bytemuck::cast_slice_mut(v),
            HostVec::U64(v) => bytemuck::cast_slice_mut(v),
            HostVec::F16(v) => bytemuck::cast_slice_mut(v),
            HostVec::BF16(v) => bytemuck::cast_slice_mut(v),
            HostVec::F32(v) => bytemuck::cast_slice_mut(v),
            HostVec::F64(v) => bytemuck::cast_slice_mut(v),
        }
    }
}

/// f64 to f16 with one rounding (through f32 it would be two).
pub fn f16_from_f64(v: f64) -> f16 {
    f16::from_f32(round_to_odd(v))
}
/// f64 to bf16 with one rounding.
pub fn bf16_from_f64(v: f64) -> bf16 {
    bf16::from_f32(round_to_odd(v))
}
/// f64 to f32 with rounding to odd, so that a second rounding to at most 22 bits is exact
/// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
pub fn round_to_odd(v: f64) -> f32 {
    let nearest = v as f32;
    if nearest as f64 == v || !nearest.is_finite() || v.is_nan() {
        return if nearest.is_infinite() && v.is_finite() { f32::MAX.copysign(v as f32) } else { nearest };
    }
    let bits = nearest.to_bits();
    if bits & 1 == 1 {
        return nearest;
    }
    // The other neighbour of v is odd.
    let away = (nearest as f64).abs() < v.abs();
    f32::from_bits(if away { bits + 1 } else { bits - 1 })
}

/// The least power of two that is a number of this fp8 format, the exponent's bias less f32's, and the bits of its mantissa.
fn f8_fields(dtype: DType) -> (f32, u32, u32) {
    if dtype == DType::F8E4M3 { (1.0 / 512.0, 120, 3) } else { (1.0 / 65536.0, 112, 2) }
}
/// fp8 (OCP e4m3fn and e5m2) to f32: storage formats, so decoding moves the fields to where f32 has them.
pub fn f8_to_f32(bits: u8, dtype: DType) -> f32 {
    let (least, bias, mantissa) = f8_fields(dtype);
    let code = u32::from(bits & 0x7f);
    let magnitude = match (dtype, code) {
        (DType::F8E4M3, 0x7f) => return f32::NAN,
        (DType::F8E4M3, _) => None,
        (_, 0x7c) => Some(f32::INFINITY),
        (_, 0x7d..) => return f32::NAN,
        _ => None,
    };
    let is_normal = code >> mantissa > 0;
    let number = || if is_normal { f32::from_bits((code << (23 - mantissa)) + (bias << 23)) } else { code as f32 * least };
    magnitude.unwrap_or_else(number).copysign(if bits & 0x80 != 0 { -1.0 } else { 1.0 })
}
/// f32 to fp8 with one rounding to nearest even; e4m3fn overflows to NaN, e5m2 to infinity (as PyTorch).
pub fn f32_to_f8(value: f32, dtype: DType) -> u8 {
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    if value.is_nan() {
        return sign | 0x7f;
    }
    let overflow = if dtype == DType::F8E4M3 { 0x7f } else { 0x7c };
    let (least, bias, mantissa) = f8_fields(dtype);
    let magnitude = value.abs();
    let bits = magnitude.to_bits();
    let code = if bits >> 23 > bias {
        // What is cut off is at most half of the last bit that stays, and less where that is even.
        let cut = 23 - mantissa;
        let rounded = bits + (1 << (cut - 1)) - 1 + (bits >> cut & 1);
        (rounded >> cut) - (bias << mantissa)
    } else {
        // Numbers of f32 from here on are as far apart as the least ones of fp8: the sum rounds.
        let apart = least * 8_388_608.0;
        (magnitude + apart).to_bits() - apart.to_bits()
    };
    sign | code.min(overflow) as u8
}

/// A Rust number on its way into a tensor: it takes the tensor's dtype, and never changes its value to do so.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// true or false
    Bool(bool),
    /// an integer
    Int(i64),
    /// a floating-point number
    Float(f64),
}
impl Scalar {
    /// The value as f64.
    #[inline]
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as u8 as f64,
            Scalar::Int(i) => i as f64,
            Scalar::Float(f) => f,
        }
    }
    /// The value as i64, truncated.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => b as i64,
            Scalar::Int(i) => i,
            Scalar::Float(f) => f as i64,
        }
    }
    /// The scalar as a tensor of `dtype` would hold it.
    ///
    /// # Errors
    /// A float on an integer tensor and an integer out of the dtype's range are refused.
    pub fn fit(self, dtype: DType) -> Result<Scalar, ErrorKind> {
        match (self, dtype) {
            (s, d) if d.is_float() => Ok(Scalar::Float(s.to_f64())),
            (Scalar::Bool(b), DType::Bool) => Ok(Scalar::Bool(b)),
            (Scalar::Int(i @ (0 | 1)), DType::Bool) => Ok(Scalar::Bool(i == 1)),
            (Scalar::Bool(b), _) => Ok(Scalar::Int(b as i64)),
            (Scalar::Int(i), d) => match d.int_range() {
                Some((lo, hi)) if (lo..=hi).contains(&(i as i128)) => Ok(Scalar::Int(i)),
                _ => Err(ErrorKind::Dtype(format!("{i} does not fit {d}"))),
            },
            (Scalar::Float(f), d) => Err(ErrorKind::Dtype(format!("the float {f} on a tensor of {d}; cast the tensor to a float dtype first"))),
        }
    }
    /// Bits that identify the value (for hashing).
    #[inline]
    pub fn bits(self) -> u64 {
        match self {
            Scalar::Bool(b) => b as u64,
            Scalar::Int(i) => i as u64,
            Scalar::Float(f) => f.to_bits(),
        }
    }
}
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(v) => write!(f, "{v}"),
            Scalar::Int(v) => write!(f, "{v}"),
            Scalar::Float(v) => write!(f, "{v}"),
        }
    }
}
macro_rules! scalar_from { ($($t:ty => $v:ident as $w:ty),*) => { $(impl From<$t> for Scalar { fn from(v: $t) -> Scalar { Scalar::$v(v as $w) } })* } }
scalar_from!(f32 => Float as f64, f64 => Float as f64, i8 => Int as i64, i16 => Int as i64, i32 => Int as i64, i64 => Int as i64, u8 => Int as i64, u16 => Int as i64, u32 => Int as i64, bool => Bool as bool);
impl From<usize> for Scalar {
    fn from(v: usize) -> Scalar {
        Scalar::Int(i64::try_from(v).unwrap_or(i64::MAX))
    }
}
impl From<f16> for Scalar {
    fn from(v: f16) -> Scalar {
        Scalar::Float(v.to_f64())
    }
}
impl From<bf16> for Scalar {
    fn from(v: bf16) -> Scalar {
        Scalar::Float(v.to_f64())
    }
}
