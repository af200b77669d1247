//! The batched matrix product.
use super::{Backward, Batching, Forward, MaybeBatched, Stacks, reshape, sum};
use crate::{
    Result, Tensor,
    composite::{Cotangents, Saves},
};
use smallvec::smallvec;

pub(super) fn reads((): ()) -> Option<Saves> {
    Some(Saves { inputs: 0b11, outputs: 0 })
}
pub(super) fn gradient((): (), back: &Backward<'_>) -> Result<Cotangents> {
    let (a, b, g) = (back.args.input(0)?, back.args.input(1)?, back.cotangent);
    let of = |k: usize, x: &Tensor| back.args.operand(k, x);
    Ok(smallvec![back.needs(0).then(|| of(0, g).matmul(of(0, b).mt())), back.needs(1).then(|| of(1, a).mt().matmul(of(1, g)))])
}
pub(super) fn tangent((): (), forward: &Forward<'_>) -> Result<Option<Tensor>> {
    Ok(sum(forward.tangent(0).map(|t| t.matmul(forward.primal(1))), forward.tangent(1).map(|t| forward.primal(0).matmul(t))))
}
/// A shared right side sees the examples' rows as more rows; a shared left side is each example's by strides of zero.
pub(super) fn batched((): (), batch: &Batching<'_>) -> Result<Stacks> {
    let (a, b, x) = (&batch.metas[0].shape, &batch.metas[1].shape, batch.lanes);
    if let ([MaybeBatched { tensor, batched: true }, MaybeBatched { tensor: right, batched: false }], 2) = (x, a.rank()) {
        let rows = reshape(tensor, &[batch.axis.size * a[0], a[1]])?;
        return Ok(smallvec![reshape(&rows.matmul(right), &[batch.axis.size, a[0], b[1]])?]);
    }
    Ok(smallvec![batch.axis.stacked(&x[0])?.matmul(batch.axis.stacked(&x[1])?)])
}
