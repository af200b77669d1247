//! The one table of scalar functions. A row holds everything the project knows about a function: its name and
//! doc, its exact meaning in f64, its gradient, its C and WGSL text, its ONNX name, its domain. The enum, the
//! `Tensor` method, the gradient, the GPU text, the reference and the tests all come from the row, so adding a
//! unary function with its gradient on every backend touches this file only.
//!
//! Meaning in a narrower dtype: the exact meaning of the operands, rounded once to the dtype.
use crate::{DType, ErrorKind, Scalar, Tensor, special};

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

/// Gradient of a unary function: (cotangent, input, output) → cotangent of the input. Only what [`Saved`] names may be read.
pub type UnaryRule = fn(&Tensor, &Tensor, &Tensor) -> Tensor;
/// Gradient of a binary function: (cotangent, left, right, output) → cotangent of one side.
pub type BinaryRule = fn(&Tensor, &Tensor, &Tensor, &Tensor) -> Tensor;

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
    /// meaning on integers, wrapped to the dtype afterwards
    pub int: Option<fn(i64) -> i64>,
    /// what the gradient reads
    pub saves: Saved,
    /// the gradient; `None`: no gradient flows (bool results)
    pub grad: Option<UnaryRule>,
    /// C expression of `x`, with the f32 functions of `<math.h>` and the helpers of `codegen`
    pub c: &'static str,
    /// WGSL expression of `x` (f32)
    pub wgsl: &'static str,
    /// the operator's name in ONNX, if it has one
    pub onnx: Option<&'static str>,
    /// where the function is defined and tests draw from
    pub domain: (f64, f64),
    /// points at which the gradient is PyTorch's convention
    pub kinks: &'static [f64],
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
    /// gradients of the left and the right side
    pub grad: Option<(BinaryRule, BinaryRule)>,
    /// C expression of `x` and `y`
    pub c: &'static str,
    /// WGSL expression of `x` and `y` (f32)
    pub wgsl: &'static str,
    /// the operator's name in ONNX, if it has one
    pub onnx: Option<&'static str>,
    /// where tests draw the left and the right operand from
    pub domain: ((f64, f64), (f64, f64)),
}

macro_rules! unary_table {
    ($($(#[doc = $doc:literal])+ $variant:ident $method:ident {
        class: $class:ident, exact: $exact:expr, int: $int:expr, saves: $saves:ident, grad: $grad:expr,
        c: $c:literal, wgsl: $wgsl:literal, onnx: $onnx:expr, domain: $domain:expr, kinks: $kinks:expr $(,)?
    })*) => {
        /// The element-wise functions of one tensor.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u16)]
        pub enum Unary { $($(#[doc = $doc])+ $variant,)* }
        impl Unary {
            /// All of them, in table order.
            pub const ALL: &'static [Unary] = &[$(Unary::$variant,)*];
            /// The function's row.
            pub fn row(self) -> &'static UnaryRow {
                static ROWS: &[UnaryRow] = &[$(UnaryRow {
                    name: stringify!($method), doc: concat!($($doc, "\n",)+), class: Class::$class, exact: $exact, int: $int, saves: Saved::$saves,
                    grad: $grad, c: $c, wgsl: $wgsl, onnx: $onnx, domain: $domain, kinks: $kinks,
                },)*];
                &ROWS[self as usize]
            }
        }
        impl Tensor { $($(#[doc = $doc])+ #[track_caller] #[must_use] pub fn $method(&self) -> Tensor { self.unary(Unary::$variant) })* }
    };
}
macro_rules! binary_table {
    ($($(#[doc = $doc:literal])+ $variant:ident $method:ident {
        class: $class:ident, exact: $exact:expr, int: $int:expr, saves: $saves:ident, grad: $grad:expr,
        c: $c:literal, wgsl: $wgsl:literal, onnx: $onnx:expr, domain: $domain:expr $(,)?
    })*) => {
        /// The element-wise functions of two tensors.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u16)]
        pub enum Binary { $($(#[doc = $doc])+ $variant,)* }
        impl Binary {
            /// All of them, in table order.
            pub const ALL: &'static [Binary] = &[$(Binary::$variant,)*];
            /// The function's row.
            pub fn row(self) -> &'static BinaryRow {
                static ROWS: &[BinaryRow] = &[$(BinaryRow {
                    name: stringify!($method), doc: concat!($($doc, "\n",)+), class: Class::$class, exact: $exact, int: $int, saves: Saved::$saves,
                    grad: $grad, c: $c, wgsl: $wgsl, onnx: $onnx, domain: $domain,
                },)*];
                &ROWS[self as usize]
            }
        }
        impl Tensor { $($(#[doc = $doc])+ #[track_caller] #[must_use] pub fn $method(&self, other: impl crate::tensor::Operand) -> Tensor { self.binary(Binary::$variant, other) })* }
    };
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
        dtype.is_int() && matches!(self, Binary::FloorDivide | Binary::Remainder | Binary::Fmod)
    }
}

const ALL: (f64, f64) = (-10.0, 10.0);
const BOTH: ((f64, f64), (f64, f64)) = (ALL, ALL);

unary_table! {
    /// The absolute value. The gradient at 0 is 0.
    Abs abs { class: Number, exact: f64::abs, int: Some(i64::wrapping_abs), saves: Input, grad: Some(|g, x, _| g * x.sign()),
        c: "fabs(x)", wgsl: "abs(x)", onnx: Some("Abs"), domain: ALL, kinks: &[0.0] }
    /// The negative.
    Neg neg { class: Number, exact: |x| -x, int: Some(i64::wrapping_neg), saves: Nothing, grad: Some(|g, _, _| g.neg()),
        c: "-x", wgsl: "-x", onnx: Some("Neg"), domain: ALL, kinks: &[] }
    /// -1, 0 or 1 by the sign; NaN stays NaN.
    Sign sign { class: Number, exact: |x| if x == 0.0 { 0.0 } else if x.is_nan() { x } else { x.signum() }, int: Some(i64::signum), saves: Nothing, grad: Some(|g, _, _| g.zeros_like()),
        c: "adm_sign(x)", wgsl: "sign(x)", onnx: Some("Sign"), domain: ALL, kinks: &[0.0] }
    /// x·x.
    Square square { class: Number, exact: |x| x * x, int: Some(|x| x.wrapping_mul(x)), saves: Input, grad: Some(|g, x, _| g * (x * 2.0)),
        c: "x * x", wgsl: "x * x", onnx: None, domain: ALL, kinks: &[] }
    /// e to the x.
    Exp exp { class: Float, exact: f64::exp, int: None, saves: Output, grad: Some(|g, _, y| g * y),
        c: "exp(x)", wgsl: "exp(x)", onnx: Some("Exp"), domain: ALL, kinks: &[] }
    /// The natural logarithm; NaN below 0, -inf at 0.
    Log log { class: Float, exact: f64::ln, int: None, saves: Input, grad: Some(|g, x, _| g / x),
        c: "log(x)", wgsl: "log(x)", onnx: Some("Log"), domain: (1e-3, 10.0), kinks: &[] }
    /// The square root; NaN below 0.
    Sqrt sqrt { class: Float, exact: f64::sqrt, int: None, saves: Output, grad: Some(|g, _, y| g / (y * 2.0)),
        c: "sqrt(x)", wgsl: "sqrt(x)", onnx: Some("Sqrt"), domain: (1e-3, 10.0), kinks: &[] }
    /// The error function 2/sqrt(pi) times the integral of exp(-t²) from 0 to x.
    Erf erf { class: Float, exact: libm::erf, int: None, saves: Input, grad: Some(|g, x, _| g * ((x * x).neg().exp() * std::f64::consts::FRAC_2_SQRT_PI)),
        c: "erf(x)", wgsl: "adm_erf(x)", onnx: Some("Erf"), domain: (-4.0, 4.0), kinks: &[] }
    /// max(x, 0). The gradient at 0 is 0; NaN stays NaN.
    Relu relu { class: Number, exact: |x| if x <= 0.0 { 0.0 } else { x }, int: Some(|x| x.max(0)), saves: Output, grad: Some(|g, _, y| y.gt(0.0).select(g, 0.0)),
        c: "x <= 0 ? 0 : x", wgsl: "select(x, 0.0, x <= 0.0)", onnx: Some("Relu"), domain: ALL, kinks: &[0.0] }
    /// The cosine of x in radians.
    Cos cos { class: Float, exact: f64::cos, int: None, saves: Input, grad: Some(|g, x, _| (g * x.sin()).neg()),
        c: "cos(x)", wgsl: "cos(x)", onnx: Some("Cos"), domain: ALL, kinks: &[] }
    /// The sine of x in radians.
    Sin sin { class: Float, exact: f64::sin, int: None, saves: Input, grad: Some(|g, x, _| g * x.cos()),
        c: "sin(x)", wgsl: "sin(x)", onnx: Some("Sin"), domain: ALL, kinks: &[] }
    /// Toward zero to an integer.
    Trunc trunc { class: Number, exact: f64::trunc, int: Some(|x| x), saves: Nothing, grad: Some(|g, _, _| g.zeros_like()),
        c: "trunc(x)", wgsl: "trunc(x)", onnx: None, domain: ALL, kinks: &[] }
    /// Is it NaN?
    IsNan isnan { class: ToBool, exact: |x| x.is_nan() as u8 as f64, int: Some(|_| 0), saves: Nothing, grad: None,
        c: "x != x", wgsl: "adm_isnan(x)", onnx: Some("IsNaN"), domain: ALL, kinks: &[] }
    /// Logical not: true where the value is zero.
    LogicalNot logical_not { class: ToBool, exact: |x| (x == 0.0) as u8 as f64, int: Some(|x| (x == 0) as i64), saves: Nothing, grad: None,
        c: "x == 0", wgsl: "x == 0.0", onnx: Some("Not"), domain: ALL, kinks: &[] }
}

binary_table! {
    /// x + y.
    Add add { class: Any, exact: |x, y| x + y, int: Some(|x, y| Some(x.wrapping_add(y))), saves: Nothing,
        grad: Some((|g, _, _, _| g.clone(), |g, _, _, _| g.clone())), c: "x + y", wgsl: "x + y", onnx: Some("Add"), domain: BOTH }
    /// x - y.
    Sub sub { class: Number, exact: |x, y| x - y, int: Some(|x, y| Some(x.wrapping_sub(y))), saves: Nothing,
        grad: Some((|g, _, _, _| g.clone(), |g, _, _, _| g.neg())), c: "x - y", wgsl: "x - y", onnx: Some("Sub"), domain: BOTH }
    /// x · y.
    Mul mul { class: Any, exact: |x, y| x * y, int: Some(|x, y| Some(x.wrapping_mul(y))), saves: Input,
        grad: Some((|g, _, y, _| g * y, |g, x, _, _| g * x)), c: "x * y", wgsl: "x * y", onnx: Some("Mul"), domain: BOTH }
    /// x / y, true division: integers are divided as f32.
    Div div { class: Float, exact: |x, y| x / y, int: None, saves: Input,
        grad: Some((|g, _, y, _| g / y, |g, x, y, _| (g * (x / y) / y).neg())), c: "x / y", wgsl: "x / y", onnx: Some("Div"), domain: (ALL, (0.5, 4.0)) }
    /// The larger; NaN if either is NaN. Equal values share the gradient.
    Maximum maximum { class: Any, exact: |x, y| if x.is_nan() || y.is_nan() { f64::NAN } else { x.max(y) }, int: Some(|x, y| Some(x.max(y))), saves: Input,
        grad: Some((|g, x, y, _| crate::grad::extreme_share(g, x, y), |g, x, y, _| crate::grad::extreme_share(g, y, x))),
        c: "adm_max(x, y)", wgsl: "adm_max(x, y)", onnx: Some("Max"), domain: BOTH }
    /// floor(x / y).
    FloorDivide floor_divide { class: Number, exact: |x, y| special::floor_divide(x, y), int: Some(|x, y| if y == 0 { None } else { Some(x.wrapping_div_euclid(y) - (y < 0 && x.wrapping_rem_euclid(y) != 0) as i64) }), saves: Nothing,
        grad: Some((|g, _, _, _| g.zeros_like(), |g, _, _, _| g.zeros_like())), c: "adm_floor_divide(x, y)", wgsl: "floor(x / y)", onnx: None, domain: (ALL, (0.5, 4.0)) }
    /// x - y · floor(x / y): the sign of y, as Python's `%`.
    Remainder remainder { class: Number, exact: |x, y| special::remainder(x, y), int: Some(|x, y| if y == 0 { None } else { let r = x.wrapping_rem(y); Some(if r != 0 && (r < 0) != (y < 0) { r + y } else { r }) }), saves: Input,
        grad: Some((|g, _, _, _| g.clone(), |g, x, y, _| (g * x.floor_divide(y)).neg())), c: "adm_remainder(x, y)", wgsl: "x - y * floor(x / y)", onnx: None, domain: (ALL, (0.5, 4.0)) }
    /// x - y · trunc(x / y): the sign of x, as C's `fmod`.
    Fmod fmod { class: Number, exact: |x, y| x % y, int: Some(|x, y| if y == 0 { None } else { Some(x.wrapping_rem(y)) }), saves: Input,
        grad: Some((|g, _, _, _| g.clone(), |g, x, y, _| (g * (x / y).trunc()).neg())), c: "fmod(x, y)", wgsl: "x % y", onnx: Some("Mod"), domain: (ALL, (0.5, 4.0)) }
    /// Is x equal to y?
    Eq eq { class: ToBool, exact: |x, y| (x == y) as u8 as f64, int: Some(|x, y| Some((x == y) as i64)), saves: Nothing, grad: None,
        c: "x == y", wgsl: "x == y", onnx: Some("Equal"), domain: BOTH }
    /// Is x less than y?
    Lt lt { class: ToBool, exact: |x, y| (x < y) as u8 as f64, int: Some(|x, y| Some((x < y) as i64)), saves: Nothing, grad: None,
        c: "x < y", wgsl: "x < y", onnx: Some("Less"), domain: BOTH }
    /// Is x greater than y?
    Gt gt { class: ToBool, exact: |x, y| (x > y) as u8 as f64, int: Some(|x, y| Some((x > y) as i64)), saves: Nothing, grad: None,
        c: "x > y", wgsl: "x > y", onnx: Some("Greater"), domain: BOTH }
    /// Is either side not zero?
    LogicalOr logical_or { class: ToBool, exact: |x, y| (x != 0.0 || y != 0.0) as u8 as f64, int: Some(|x, y| Some((x != 0 || y != 0) as i64)), saves: Nothing, grad: None,
        c: "x != 0 || y != 0", wgsl: "x != 0.0 || y != 0.0", onnx: Some("Or"), domain: BOTH }
    /// Are both sides not zero?
    LogicalAnd logical_and { class: ToBool, exact: |x, y| (x != 0.0 && y != 0.0) as u8 as f64, int: Some(|x, y| Some((x != 0 && y != 0) as i64)), saves: Nothing, grad: None,
        c: "x != 0 && y != 0", wgsl: "x != 0.0 && y != 0.0", onnx: Some("And"), domain: BOTH }
    /// x shifted right by y bits, with the sign. Of y outside the width: all bits gone.
    ShiftRight bitwise_right_shift { class: Integer, exact: |x, y| ((x as i64) >> (y as i64).clamp(0, 63)) as f64, int: Some(|x, y| Some(x >> if (0..64).contains(&y) { y } else { 63 })), saves: Nothing, grad: None,
        c: "x >> y", wgsl: "x >> y", onnx: Some("BitShift"), domain: ((0.0, 100.0), (0.0, 7.0)) }
    /// Both bits; on bool: both true.
    BitAnd bitwise_and { class: Bits, exact: |x, y| ((x as i64) & (y as i64)) as f64, int: Some(|x, y| Some(x & y)), saves: Nothing, grad: None,
        c: "x & y", wgsl: "x & y", onnx: Some("BitwiseAnd"), domain: BOTH }
}

/// A function's value in a dtype, from the exact meaning: the twin that every kernel is compared with.
pub fn unary_exact(f: Unary, x: Scalar) -> Scalar {
    let row = f.row();
    let v = match (x, row.int) {
        (Scalar::Float(v), _) => Scalar::Float((row.exact)(v)),
        (v, Some(int)) => Scalar::Int(int(v.to_i64())),
        (v, None) => Scalar::Float((row.exact)(v.to_f64())),
    };
    if row.class == Class::ToBool { Scalar::Bool(v.to_f64() != 0.0) } else { v }
}
