//! Joining along an axis.
use super::{Backward, Batching, Forward, Stacks};
use crate::{
    Op, Result, Tensor,
    composite::{Cotangents, Saves},
};
use smallvec::SmallVec;

pub(super) fn reads(_: &u8) -> Option<Saves> {
    Some(Saves::default())
}
pub(super) fn gradient(axis: &u8, back: &Backward<'_>) -> Result<Cotangents> {
    let mut at = 0;
    let part = |(k, m): (usize, &crate::Meta)| {
        let len = m.shape[*axis as usize];
        let part = back.needs(k).then(|| back.cotangent.narrow(*axis as usize, at, len));
        at += len;
        part
    };
    Ok(back.args.metas.iter().enumerate().map(part).collect())
}
pub(super) fn tangent(_: &u8, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    let parts: Vec<Tensor> = (0..forward.inputs.len()).map(|k| forward.moved(k)).collect();
    Ok(Some(Tensor::apply(forward.op.clone(), forward.arg, &parts.iter().collect::<SmallVec<[&Tensor; 8]>>())))
}
pub(super) fn batched(axis: &u8, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_stacks(Op::Concat { axis: axis + 1 })
}
