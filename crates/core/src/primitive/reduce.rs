//! Combining all elements along axes, which keep size 1.
use super::{Backward, Batching, Forward, Stacks, behind, one, scan::exclusive_product};
use crate::{
    Error, Op, Result, Shape, Tensor,
    composite::{Cotangents, Saves},
    op::ReduceOp,
    shape::{AxisSet, MAX_RANK},
};

type Fields<'a> = (&'a ReduceOp, &'a AxisSet);

pub(super) fn reads((op, _): Fields<'_>) -> Option<Saves> {
    Some(match op {
        ReduceOp::Sum => Saves::default(),
        ReduceOp::Prod => Saves { inputs: 1, outputs: 0 },
        ReduceOp::Max | ReduceOp::Min => Saves { inputs: 1, outputs: 1 },
    })
}
pub(super) fn gradient((op, axes): Fields<'_>, back: &Backward<'_>) -> Result<Cotangents> {
    let (g, args) = (back.cotangent, back.args);
    match op {
        // Expanded and, where the sum widened the dtype, cast.
        ReduceOp::Sum => one(g.cast(args.metas[0].dtype).expand(args.metas[0].shape)),
        ReduceOp::Prod => one(g * others(args.input(0)?, *axes)?),
        ReduceOp::Max | ReduceOp::Min => {
            let hit = hits(args.input(0)?, args.output(0)?).cast(g.meta().dtype);
            let count = hit.sum_keepdim(*axes);
            one(hit * (g / count))
        }
    }
}
/// Which elements are the extreme. Equal ones share the gradient, as torch.amax has it; NaN takes it where NaN won.
fn hits(x: &Tensor, y: &Tensor) -> Tensor {
    x.eq(y).logical_or(&x.isnan().logical_and(&y.isnan()))
}
pub(super) fn tangent((op, axes): Fields<'_>, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    let Some(t) = forward.tangent(0) else { return Ok(None) };
    let x = forward.primal(0);
    Ok(Some(match op {
        ReduceOp::Sum => t.reduce(ReduceOp::Sum, *axes, true),
        ReduceOp::Prod => (t * others(x, *axes)?).reduce(ReduceOp::Sum, *axes, true),
        ReduceOp::Max | ReduceOp::Min => {
            let hit = hits(x, &forward.outputs[0]).cast(t.meta().dtype);
            (&hit * t).reduce(ReduceOp::Sum, *axes, true) / hit.reduce(ReduceOp::Sum, *axes, true)
        }
    }))
}
/// For each element the product of all others along the axes, without dividing: running products from both sides.
fn others(x: &Tensor, axes: AxisSet) -> Result<Tensor> {
    let shape = x.meta().shape;
    let rank = shape.rank();
    let (kept, reduced): (Vec<usize>, Vec<usize>) = (0..rank).partition(|&k| !axes.has(k));
    let order: Vec<isize> = kept.iter().chain(&reduced).map(|&k| k as isize).collect();
    let n: usize = reduced.iter().map(|&k| shape[k]).product();
    let outer: usize = kept.iter().map(|&k| shape[k]).product();
    let flat = x.permute(&order).reshape([outer, n]);
    let product = exclusive_product(&flat, false) * exclusive_product(&flat, true);
    let moved: Vec<usize> = order.iter().map(|&k| shape[k as usize]).collect();
    let mut inverse = [0isize; MAX_RANK];
    for (k, &p) in order.iter().enumerate() {
        inverse[p as usize] = k as isize;
    }
    Ok(product.reshape(Shape::new(&moved).map_err(|k| Error::new("prod", k))?).permute(&inverse[..rank]))
}
pub(super) fn batched((op, axes): Fields<'_>, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_first(Op::Reduce { op: *op, axes: behind(*axes) })
}
