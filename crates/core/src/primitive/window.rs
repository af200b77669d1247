//! Sliding windows over the trailing axes.
use super::{Backward, Batching, Body, Forward, Stacks, gather::gather, one, scatter::scatter};
use crate::{
    Arg, Error, Result, Shape, Tensor,
    composite::{Cotangents, Saves},
    op::{ScatterMode, WindowOp, WindowSpec},
    schedule::lower,
    shape::MAX_RANK,
    specs::window_op,
};
use smallvec::SmallVec;
use std::sync::Arc;

fn slide(spec: WindowSpec, x: &Tensor) -> Tensor {
    Tensor::apply(window_op(spec), Arg::None, &[x])
}
/// The shape with the axes that windows slide over as one, in which the index of a maximum counts.
fn flat(spec: &WindowSpec, shape: &Shape) -> Result<Shape> {
    let lead = shape.rank() - spec.spatial();
    let dims: SmallVec<[usize; MAX_RANK]> = shape[..lead].iter().copied().chain([shape[lead..].iter().product()]).collect();
    Shape::new(&dims).map_err(|k| Error::new("max_pool", k))
}
pub(super) fn reads(spec: &WindowSpec) -> Option<Saves> {
    Some(Saves { inputs: 0, outputs: if spec.op == WindowOp::Max { 0b10 } else { 0 } })
}
pub(super) fn gradient(spec: &WindowSpec, back: &Backward<'_>) -> Result<Cotangents> {
    let (g, shape) = (back.cotangent, back.shape(0));
    let lead = shape.rank() - spec.spatial();
    match spec.op {
        WindowOp::Max => {
            let (large, small) = (flat(spec, &shape)?, flat(spec, &back.outputs[0].shape)?);
            let zeros = Tensor::full_on(large, 0, g.meta().dtype, g.meta().device);
            let spread = scatter(lead as u8, ScatterMode::Add, &zeros, &back.args.output(1)?.reshape(small), &g.reshape(small));
            one(spread.reshape(shape))
        }
        WindowOp::Sum => one(slide(WindowSpec { op: WindowOp::SumTransposed, open: SmallVec::from_slice(&shape[lead..]), ..spec.clone() }, g)),
        WindowOp::SumTransposed => one(slide(WindowSpec { op: WindowOp::Sum, open: SmallVec::new(), ..spec.clone() }, g)),
    }
}
pub(super) fn tangent(spec: &WindowSpec, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    let Some(t) = forward.tangent(0) else { return Ok(None) };
    if spec.op != WindowOp::Max {
        return Ok(Some(slide(spec.clone(), t)));
    }
    // The index of each largest element, in its plane.
    let (from, to) = (t.meta().shape, forward.outputs[0].meta().shape);
    let lead = from.rank() - spec.spatial();
    let moved = gather(lead as u8, &t.reshape(flat(spec, &from)?), &forward.outputs[1].reshape(flat(spec, &to)?));
    Ok(Some(moved.reshape(to)))
}
/// The windows slide over the last axes.
pub(super) fn batched(_: &WindowSpec, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_first(batch.op.clone())
}
pub(super) fn body(spec: &Arc<WindowSpec>) -> Option<Body> {
    let spec = spec.clone();
    Some(Box::new(move |x| lower::window::body(&spec, &x[0])))
}
