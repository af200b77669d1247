//! Pooling windows as reductions over columns: a copy of the input for each element of the window. A transposed sum is a sum
//! over elements set `stride` apart. What a maximum was found at comes from a table of places, one for each window and made
//! of coordinates alone.
use super::slide::{Slide, columns, slides, transposed, zero};
use crate::{
    AxisSet, DType, Result, Scalar, Tensor,
    op::{ReduceOp, WindowOp, WindowSpec},
};

pub(crate) fn body(spec: &WindowSpec, x: &Tensor) -> Result<Vec<Tensor>> {
    let meta = x.meta();
    let (lead, wide) = meta.shape.split_at(meta.shape.rank() - spec.spatial());
    let over = slides(&spec.size, &spec.stride, &spec.dilation, &spec.padding);
    // All leading axes as one, so that the rank suffices for an axis per place of the window.
    let flat = x.reshape([&[lead.iter().product()], wide].concat());
    match spec.op {
        WindowOp::Max => maximum(&flat, lead, wide, &over),
        WindowOp::Sum => Ok(vec![sum(&flat, lead, &over)?.cast(meta.dtype)]),
        WindowOp::SumTransposed => {
            let (apart, back) = transposed(&flat, &over, &spec.open)?;
            Ok(vec![sum(&apart, lead, &back)?.cast(meta.dtype)])
        }
    }
}
/// The axes of columns that are places of the window.
fn places(over: &[Slide]) -> AxisSet {
    AxisSet((0..over.len()).fold(0, |set, d| set | 1 << (1 + 2 * d)))
}
/// `[lead, 1, out0, 1, out1, ..]` → `[lead.., out0, out1, ..]`
fn unfold(reduced: &Tensor, lead: &[usize]) -> Tensor {
    let shape = reduced.meta().shape;
    let out = shape.iter().skip(2).step_by(2);
    reduced.reshape(lead.iter().chain(out).copied().collect::<Vec<usize>>())
}
fn sum(x: &Tensor, lead: &[usize], over: &[Slide]) -> Result<Tensor> {
    Ok(unfold(&columns(x, 1, over, zero(x.meta().dtype))?.reduce(ReduceOp::Sum, places(over), true), lead))
}
fn maximum(x: &Tensor, lead: &[usize], wide: &[usize], over: &[Slide]) -> Result<Vec<Tensor>> {
    let dtype = x.meta().dtype;
    let least = dtype.int_range().map_or(Scalar::Float(f64::NEG_INFINITY), |(low, _)| Scalar::Int(low as i64));
    let columns = columns(x, 1, over, least)?;
    let extreme = columns.reduce(ReduceOp::Max, places(over), true);
    // The flat index in the plane of each place of each window; outside of it the largest number.
    let shape = columns.meta().shape.with(0, 1);
    let grid = Tensor::zeros_on(shape, DType::I64, columns.meta().device);
    let (mut at, mut inside) = (grid.iota_like(0, DType::I64), None::<Tensor>);
    for (d, s) in over.iter().enumerate() {
        let coordinate = |axis: usize, step: usize| grid.iota_like(axis, DType::I64) * step as i64;
        let p = coordinate(1 + 2 * d, s.dilation) + coordinate(2 + 2 * d, s.stride) - s.padding.0 as i64;
        let fits = p.ge(0i64).logical_and(p.lt(wide[d] as i64));
        at = at * wide[d] as i64 + p;
        inside = Some(inside.map_or(fits.clone(), |i| i.logical_and(fits)));
    }
    let at = inside.map_or(at.clone(), |inside| inside.where_(&at, i64::MAX));
    // NaN wins, as in the index of an extreme: the first of those that are as large.
    let hit = columns.eq(&extreme).logical_or(columns.ne(&columns));
    let found = hit.where_(&at, i64::MAX).reduce(ReduceOp::Min, places(over), true);
    // A window that lies outside altogether holds nothing.
    let nothing = found.eq(i64::MAX);
    let index = nothing.where_(0i64, &found);
    let empty = if dtype.is_float() { least } else { zero(dtype) };
    let value = nothing.where_(empty, &extreme);
    Ok([value, index].map(|t| unfold(&t, lead)).to_vec())
}
