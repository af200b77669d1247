//! Operators and element-wise functions that are composed without losing accuracy.
use super::{Operand, OperandRef, Tensor};
use crate::{Arg, ErrorKind, Op, Origin, Scalar, scalar::Binary};
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

macro_rules! operators {
    ($($tr:ident $method:ident $variant:ident),*) => { $(
        impl<R: Operand> $tr<R> for &Tensor { type Output = Tensor; #[track_caller] fn $method(self, other: R) -> Tensor { self.binary(Binary::$variant, other) } }
        impl<R: Operand> $tr<R> for Tensor { type Output = Tensor; #[track_caller] fn $method(self, other: R) -> Tensor { self.binary(Binary::$variant, other) } }
        operators!(@scalars $tr $method $variant: f32, f64, i32, i64);
    )* };
    (@scalars $tr:ident $method:ident $variant:ident: $($t:ty),*) => { $(
        impl $tr<&Tensor> for $t { type Output = Tensor; #[track_caller] fn $method(self, other: &Tensor) -> Tensor { other.binary_reversed(Binary::$variant, self) } }
        impl $tr<Tensor> for $t { type Output = Tensor; #[track_caller] fn $method(self, other: Tensor) -> Tensor { other.binary_reversed(Binary::$variant, self) } }
    )* };
}
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Remainder);
impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(self)
    }
}
impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(&self)
    }
}

impl Tensor {
    /// This tensor (bool) picks: `then` where true, `otherwise` where false. A number takes the other side's dtype.
    #[track_caller]
    pub fn select(&self, then: impl Operand, otherwise: impl Operand) -> Tensor {
        let origin = Origin::here();
        let as_tensor = |o: OperandRef<'_>, like: Option<&Tensor>| match o {
            OperandRef::Tensor(t) => t.clone(),
            OperandRef::Scalar(s) => match like {
                Some(t) if t.error().is_some() => t.clone(),
                Some(t) => Tensor::full_on((), s, t.meta().dtype, t.meta().device),
                None => Tensor::fail("select", ErrorKind::Argument("one side of select must be a tensor, to give the dtype".into())),
            },
        };
        let (a, b) = (then.operand(), otherwise.operand());
        let a_tensor = if let OperandRef::Tensor(t) = &a { Some((*t).clone()) } else { None };
        let b_tensor = if let OperandRef::Tensor(t) = &b { Some((*t).clone()) } else { None };
        let (x, y) = (as_tensor(a, b_tensor.as_ref()), as_tensor(b, a_tensor.as_ref()));
        Tensor::apply_at(Op::Select, Arg::None, &[self, &x, &y], origin)
    }
    /// The elements where the mask (bool) is false, `value` where it is true.
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, value: impl Into<Scalar>) -> Tensor {
        let value = value.into();
        mask.select(value, self)
    }
}
