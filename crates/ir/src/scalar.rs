//! The one table of scalar functions. A row (`scalar/table.rs`) holds everything the project knows about a function: its name
//! and doc, its exact meaning in f64, its gradient, its C and WGSL text, its ONNX name, its domain. The enum, the `Tensor`
//! method, the gradient, the GPU text, the reference and the tests all come from the row, so adding a unary function with its
//! gradient on every backend touches one file only.
//!
//! The rows are expanded twice: here to all that is data, and in the crate of tensors to methods and gradients.
//!
//! Meaning in a narrower dtype: the exact meaning of the operands, rounded once to the dtype.
use crate::{DType, ErrorKind, special};
use std::f64::consts::PI;

#[macro_use]
mod table;

/// Which dtypes a function takes and what it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// numbers of any kind, same dtype out
    Number,
    /// floats (the `Tensor` method casts integers and bool to f32 first), same dtype out
    Float,
    /// any dtype in, bool out
    ToBool,
    /// bool and integers, same dtype out
    Bits,
    /// integers only, same dtype out
    Integer,
    /// any dtype, same dtype out (bool included)
    Any,
}
impl Class {
    fn infer(self, name: &str, d: DType) -> Result<DType, ErrorKind> {
        let ok = match self {
            Class::Number => d != DType::Bool,
            Class::Float => d.is_float(),
            Class::ToBool | Class::Any => true,
            Class::Bits => !d.is_float(),
            Class::Integer => d.is_int(),
        };
        if !ok {
            let wanted = match self {
                Class::Number => "numbers",
                Class::Float => "floats",
                Class::Bits => "bool or integers",
                Class::Integer => "integers",
                Class::ToBool | Class::Any => "any dtype",
            };
            return Err(ErrorKind::Dtype(format!("{name} takes {wanted}, not {d}")));
        }
        Ok(if self == Class::ToBool { DType::Bool } else { d })
    }
}

/// What a gradient reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Saved {
    /// nothing
    Nothing,
    /// the input(s)
    Input,
    /// the output
    Output,
    /// both
    Both,
}

/// A row of the unary table.
pub struct UnaryRow {
    /// name of the method and of the op
    pub name: &'static str,
    /// the method's doc
    pub doc: &'static str,
    /// dtypes
    pub class: Class,
    /// exact meaning
    pub exact: fn(f64) -> f64,
    /// meaning for floats of at most 32 bits where it is another: on the way PyTorch's f32 overflows, and so do we
    pub narrow: Option<fn(f64) -> f64>,
    /// meaning on integers, wrapped to the dtype afterwards
    pub int: Option<fn(i64) -> i64>,
    /// what the gradient reads
    pub saves: Saved,
    /// Does a gradient flow? (Not through bool results.)
    pub differentiable: bool,
    /// C expression of `x`, with the functions of `<tgmath.h>` and the helpers of the crate of kernels
    pub c: &'static str,
    /// WGSL expression of `x` (f32)
    pub wgsl: &'static str,
    /// the operator's name in ONNX, if it has one
    pub onnx: Option<&'static str>,
    /// where the function is defined and tests draw from
    pub domain: (f64, f64),
    /// points at which the gradient is PyTorch's convention
    pub kinks: &'static [f64],
    /// the expression of `x` on integers, in the part of WGSL that is also written as C, where `c` does not serve; `T` is the type
    pub int_text: Option<&'static str>,
    /// how many units in the last place the f32 C text may be off on the domain
    pub ulp: f64,
}
/// A row of the binary table.
pub struct BinaryRow {
    /// name of the method and of the op
    pub name: &'static str,
    /// the method's doc
    pub doc: &'static str,
    /// dtypes
    pub class: Class,
    /// exact meaning
    pub exact: fn(f64, f64) -> f64,
    /// meaning on integers, wrapped to the dtype afterwards; `None` result is a fault (division by zero)
    pub int: Option<fn(i64, i64) -> Option<i64>>,
    /// what the gradient reads
    pub saves: Saved,
    /// Does a gradient flow?
    pub differentiable: bool,
    /// C expression of `x` and `y`
    pub c: &'static str,
    /// WGSL expression of `x` and `y` (f32)
    pub wgsl: &'static str,
    /// the operator's name in ONNX, if it has one
    pub onnx: Option<&'static str>,
    /// where tests draw the left and the right operand from
    pub domain: ((f64, f64), (f64, f64)),
    /// as in [`UnaryRow`]
    pub int_text: Option<&'static str>,
    /// as in [`UnaryRow`]
    pub ulp: f64,
}

/// The error allowed to a text whose row names none.
const ULP: f64 = 4.0;
macro_rules! or_default {
    ($default:expr,) => {
        $default
    };
    ($default:expr, $given:expr) => {
        $given
    };
}
/// A gradient is there, whatever it is.
macro_rules! flows {
    ($rule:expr) => {
        true
    };
}
macro_rules! unary_table {
    ($($(#[doc = $doc:literal])+ $variant:ident $method:ident {
        class: $class:ident, exact: $exact:expr, int: $int:expr, saves: $saves:ident, grad: $grad:ident $(($rule:expr))?,
        c: $c:literal, wgsl: $wgsl:literal, onnx: $onnx:expr, domain: $domain:expr, kinks: $kinks:expr $(, narrow: $narrow:expr)? $(, int_text: $int_text:literal)? $(, ulp: $ulp:literal)? $(,)?
    })*) => {
        /// The element-wise functions of one tensor.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u16)]
        pub enum Unary { $($(#[doc = $doc])+ $variant,)* }
        impl Unary {
            /// All of them, in table order.
            pub const ALL: &'static [Unary] = &[$(Unary::$variant,)*];
            /// The function's row.
            #[inline]
            pub fn row(self) -> &'static UnaryRow {
                static ROWS: &[UnaryRow] = &[$(UnaryRow {
                    name: stringify!($method), doc: concat!($($doc, "\n",)+), class: Class::$class, exact: $exact, int: $int, saves: Saved::$saves,
                    narrow: or_default!(None, $(Some($narrow))?), differentiable: or_default!(false, $(flows!($rule))?), c: $c, wgsl: $wgsl, onnx: $onnx, domain: $domain, kinks: $kinks,
                    int_text: or_default!(None, $(Some($int_text))?), ulp: or_default!(ULP, $($ulp)?),
                },)*];
                &ROWS[self as usize]
            }
        }
    };
}
macro_rules! binary_table {
    ($($(#[doc = $doc:literal])+ $variant:ident $method:ident {
        class: $class:ident, exact: $exact:expr, int: $int:expr, saves: $saves:ident, grad: $grad:ident $(($rule:expr))?,
        c: $c:literal, wgsl: $wgsl:literal, onnx: $onnx:expr, domain: $domain:expr $(, int_text: $int_text:literal)? $(, ulp: $ulp:literal)? $(,)?
    })*) => {
        /// The element-wise functions of two tensors.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u16)]
        pub enum Binary { $($(#[doc = $doc])+ $variant,)* }
        impl Binary {
            /// All of them, in table order.
            pub const ALL: &'static [Binary] = &[$(Binary::$variant,)*];
            /// The function's row.
            #[inline]
            pub fn row(self) -> &'static BinaryRow {
                static ROWS: &[BinaryRow] = &[$(BinaryRow {
                    name: stringify!($method), doc: concat!($($doc, "\n",)+), class: Class::$class, exact: $exact, int: $int, saves: Saved::$saves,
                    differentiable: or_default!(false, $(flows!($rule))?), c: $c, wgsl: $wgsl, onnx: $onnx, domain: $domain,
                    int_text: or_default!(None, $(Some($int_text))?), ulp: or_default!(ULP, $($ulp)?),
                },)*];
                &ROWS[self as usize]
            }
        }
    };
}

impl UnaryRow {
    /// The exact meaning for floats of a dtype.
    pub fn exact_in(&self, dtype: DType) -> fn(f64) -> f64 {
        self.narrow.filter(|_| dtype.is_float() && dtype != DType::F64).unwrap_or(self.exact)
    }
}
impl Unary {
    /// The method's name.
    pub fn name(self) -> &'static str {
        self.row().name
    }
    /// The result's dtype.
    ///
    /// # Errors
    /// A dtype the function is not defined for.
    pub fn infer(self, dtype: DType) -> Result<DType, ErrorKind> {
        self.row().class.infer(self.row().name, dtype)
    }
}
impl Binary {
    /// The method's name.
    pub fn name(self) -> &'static str {
        self.row().name
    }
    /// The result's dtype.
    ///
    /// # Errors
    /// A dtype the function is not defined for.
    pub fn infer(self, dtype: DType) -> Result<DType, ErrorKind> {
        self.row().class.infer(self.row().name, dtype)
    }
    /// Can it find bad values in integer data?
    pub fn can_fault(self, dtype: DType) -> bool {
        dtype.is_int() && matches!(self, Binary::FloorDivide | Binary::DivTrunc | Binary::Remainder | Binary::Fmod)
    }
}

const ALL: (f64, f64) = (-10.0, 10.0);
const F32_MAX: f64 = f32::MAX as f64;
const BOTH: ((f64, f64), (f64, f64)) = (ALL, ALL);

unary_rows!(unary_table);
binary_rows!(binary_table);
