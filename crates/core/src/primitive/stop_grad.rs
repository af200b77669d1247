//! The same value, through which nothing flows.
pub(super) use super::no_attributes as attributes;
pub(super) use super::no_flow::{gradient, reads, tangent};
use super::{Batching, Stacks, form};
use crate::{Op, Result};

pub(super) fn batched((): (), batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_first(batch.op.clone())
}
pub(super) const MAKERS: form::Makers = &[("stop_grad", |_| Ok(Op::StopGrad))];
