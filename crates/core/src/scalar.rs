//! The scalar table's gradients and methods: what of a row is written in tensors. The rows themselves, with the meaning, are
//! those of the crate `adamant-ir` (`scalar/table.rs`).
use crate::{
    DType, ErrorKind, Tensor,
    special::{GELU_CUBE, GELU_SCALE},
};
pub use adamant_ir::scalar::*;
use std::f64::consts::{FRAC_1_PI, FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, LN_10, PI, TAU};

/// Gradient of a unary function: (cotangent, input, output) → cotangent of the input. Only what [`Saved`] names may be read.
pub type UnaryRule = fn(&Tensor, &Tensor, &Tensor) -> Tensor;
/// Gradient of a binary function: (cotangent, left, right, output) → cotangent of one side.
pub type BinaryRule = fn(&Tensor, &Tensor, &Tensor, &Tensor) -> Tensor;

macro_rules! unary_gradients {
    ($($(#[doc = $doc:literal])+ $variant:ident $method:ident {
        class: $class:ident, exact: $exact:expr, int: $int:expr, saves: $saves:ident, grad: $grad:expr,
        c: $c:literal, wgsl: $wgsl:literal, onnx: $onnx:expr, domain: $domain:expr, kinks: $kinks:expr $(, narrow: $narrow:expr)? $(, int_text: $int_text:literal)? $(, ulp: $ulp:literal)? $(,)?
    })*) => {
        /// The gradient of a unary function; `None`: none flows.
        pub fn unary_gradient(f: Unary) -> Option<UnaryRule> {
            static RULES: &[Option<UnaryRule>] = &[$($grad,)*];
            RULES[f as usize]
        }
        impl Tensor { $($(#[doc = $doc])+ #[track_caller] #[must_use] pub fn $method(&self) -> Tensor { self.unary(Unary::$variant) })* }
    };
}
macro_rules! binary_gradients {
    ($($(#[doc = $doc:literal])+ $variant:ident $method:ident {
        class: $class:ident, exact: $exact:expr, int: $int:expr, saves: $saves:ident, grad: $grad:expr,
        c: $c:literal, wgsl: $wgsl:literal, onnx: $onnx:expr, domain: $domain:expr $(, int_text: $int_text:literal)? $(, ulp: $ulp:literal)? $(,)?
    })*) => {
        /// The gradients of a binary function to its left and its right side; `None`: none flow.
        pub fn binary_gradients(f: Binary) -> Option<(BinaryRule, BinaryRule)> {
            static RULES: &[Option<(BinaryRule, BinaryRule)>] = &[$($grad,)*];
            RULES[f as usize]
        }
        impl Tensor { $($(#[doc = $doc])+ #[track_caller] #[must_use] pub fn $method(&self, other: impl crate::Operand) -> Tensor { self.binary(Binary::$variant, other) })* }
    };
}
adamant_ir::unary_rows!(unary_gradients);
adamant_ir::binary_rows!(binary_gradients);

/// 1 - x² as a product, which does not cancel near 1.
fn one_minus_square(x: &Tensor) -> Tensor {
    (1.0 - x) * (x + 1.0)
}
/// The density of the standard normal.
fn normal_density(x: &Tensor) -> Tensor {
    (x * x * -0.5).exp() * (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2)
}
/// The density of the gamma distribution of shape a: the derivative of igamma.
fn gamma_density(a: &Tensor, x: &Tensor) -> Tensor {
    ((a - 1.0).xlogy(x) - x - a.lgamma()).exp()
}
/// The share of one side of a maximum or minimum: half of it at ties, none where the side is beaten.
fn unless_beaten(g: &Tensor, x: &Tensor, y: &Tensor, beaten: &Tensor) -> Tensor {
    x.eq(y).where_(&(g * 0.5), beaten.where_(0.0, g))
}
/// PyTorch has no such gradient either.
fn no_gradient(name: &'static str) -> Tensor {
    Tensor::fail(name, ErrorKind::Argument(format!("{name} has no gradient to its first operand; detach it")))
}

impl Tensor {
    /// As [`Tensor::sign`], the name that PyTorch also has for it.
    #[track_caller]
    #[must_use]
    pub fn sgn(&self) -> Tensor {
        let _call = crate::scope::call("sgn");
        self.sign()
    }
    /// The tensor itself; bool is refused, as PyTorch does.
    #[track_caller]
    #[must_use]
    pub fn positive(&self) -> Tensor {
        if self.error().is_none() && self.meta().dtype == DType::Bool {
            return self.refused("positive", ErrorKind::Dtype("positive takes numbers, not bool".into()));
        }
        self.clone()
    }
}
