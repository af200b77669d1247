//! Functions with a fault, to show that programs find it.
use super::table::{Callee, TorchFunction};
use adamant_core::Tensor;

/// A fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// sums of narrow integers stay narrow
    DtypeRule,
    /// a range whose end counts from the end is one element short
    NegativeRange,
    /// a gather takes numbers beyond the axis for the last element
    MissingRefusal,
    /// a product has no gradient by its right side
    Gradient,
    /// a logarithm is off by a thousandth
    Value,
    /// a transposition of a vector is refused
    Refusal,
    /// the larger of two has the dtype of the left one
    Promotion,
    /// a shape to which nothing expands leaves the tensor as it is
    ShapeRefusal,
}
impl Plant {
    /// All of them.
    pub const ALL: [Plant; 8] =
        [Plant::DtypeRule, Plant::NegativeRange, Plant::MissingRefusal, Plant::Gradient, Plant::Value, Plant::Refusal, Plant::Promotion, Plant::ShapeRefusal];

    /// Plants it.
    pub fn into_functions(self, functions: &mut [TorchFunction]) {
        let (name, callee) = self.faulty();
        functions.iter_mut().filter(|f| f.name == name).for_each(|f| f.callee = Callee::Row(callee));
    }
    /// The function that has it.
    pub fn function(self) -> &'static str {
        self.faulty().0
    }
    fn faulty(self) -> (&'static str, fn(&super::arguments::Args) -> Vec<Tensor>) {
        match self {
            Plant::DtypeRule => ("Tensor::sum", |a| {
                let dtype = a.t(0).dtype().unwrap_or(adamant_core::DType::F32);
                vec![a.t(0).sum(a.axes(1)).cast(dtype)]
            }),
            Plant::NegativeRange => ("Tensor::i", |a| {
                let items = a.index(1);
                let y = a.t(0).i(&items[..]);
                let short = format!("{items:?}").contains("Excluded(-");
                let size = if y.rank() > 0 { y.size(0).unwrap_or(0) } else { 0 };
                vec![if short && size > 0 { y.narrow(0, 0, size - 1) } else { y }]
            }),
            Plant::MissingRefusal => ("Tensor::gather", |a| {
                let last = a.t(0).size(a.int(1)).unwrap_or(1).saturating_sub(1);
                vec![a.t(0).gather(a.int(1), &a.t(2).clamp(0, last as i64))]
            }),
            Plant::Gradient => ("Tensor::mul", |a| match a.operand(1) {
                super::arguments::Value::Tensor(right) => vec![a.t(0) * right.detach()],
                number => vec![a.t(0).binary(adamant_core::scalar::Binary::Mul, number)],
            }),
            Plant::Value => ("Tensor::log", |a| vec![a.t(0).log() * 1.001]),
            Plant::Refusal => ("Tensor::t", |a| vec![a.t(0).mt()]),
            Plant::Promotion => ("Tensor::maximum", |a| {
                let left = a.t(0);
                let dtype = left.dtype().unwrap_or(adamant_core::DType::F32);
                vec![left.binary(adamant_core::scalar::Binary::Maximum, a.operand(1)).cast(dtype)]
            }),
            Plant::ShapeRefusal => ("Tensor::expand", |a| {
                let wide = a.t(0).expand(a.ints(1));
                vec![if wide.error().is_some() { a.t(0) } else { wide }]
            }),
        }
    }
}
