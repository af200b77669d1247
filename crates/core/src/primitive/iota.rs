//! 0, 1, 2, ... along an axis: nothing flows into it.
pub(super) use super::no_flow::{gradient, reads, tangent};
use super::{Batching, Stacks, form};
use crate::{Attrs, Op, Result, TensorType};
use smallvec::smallvec;

pub(super) fn batched(_: &u8, batch: &Batching<'_>) -> Result<Stacks> {
    batch.no_input()
}
pub(super) fn attributes(axis: &u8, _: &[TensorType], _: &mut form::FormContext) -> Attrs {
    smallvec![form::axis(*axis)]
}
pub(super) const MAKERS: form::Makers = &[("iota", |m| Ok(Op::Iota { axis: m.axis()?, ty: m.output.ty() }))];
