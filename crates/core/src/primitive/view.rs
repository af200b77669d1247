//! Other views of the same elements. The transpose of each is a view again, but for a slice and a diagonal, which are padded back, and an
//! expansion and windows, which are summed.
use super::{Backward, Batching, Forward, Stacks, behind, expand, one, sum_to};
use crate::{
    Arg, AxisSet, DType, Error, Op, Result, Shape, Tensor,
    composite::{Cotangents, Saves},
    op::View,
    shape::MAX_RANK,
};
use smallvec::{SmallVec, smallvec};

/// Windows that overlap more often are added up place by place.
const MOST_PARTS: usize = 16;

pub(super) fn reads(_: &View) -> Option<Saves> {
    Some(Saves::default())
}
pub(super) fn gradient(view: &View, back: &Backward<'_>) -> Result<Cotangents> {
    let (g, shape) = (back.cotangent, back.shape(0));
    match view {
        View::Reshape(_) => one(g.reshape(shape)),
        View::Permute(perm) => {
            let rank = shape.rank();
            let mut inverse = [0isize; MAX_RANK];
            for k in 0..rank {
                inverse[perm[k] as usize] = k as isize;
            }
            one(g.permute(&inverse[..rank]))
        }
        View::Expand(_) => one(sum_to(g, &shape)),
        View::Slice { len: 0, .. } => one(back.zeros(0)),
        View::Slice { axis, step, .. } => {
            let start = if let Arg::Start(start) = back.arg { start } else { 0 };
            one(g.dilated(*axis as usize, start, *step, shape[*axis as usize])?)
        }
        View::Flip(axes) => one(g.flip(*axes)),
        View::Diagonal(axes) => one(undiagonal(g, &shape, *axes)?),
        View::Windows { axis, step, .. } => one(unwindowed(back, *axis as usize, *step)),
    }
}
/// A diagonal's cotangent on it, zeros beside it. In the flattened plane the diagonal is every (columns + 1)-th element.
fn undiagonal(g: &Tensor, shape: &Shape, axes: AxisSet) -> Result<Tensor> {
    let plane: SmallVec<[usize; 2]> = axes.iter().collect();
    let (rows, columns) = (shape[plane[0]], shape[plane[1]]);
    let last = shape.rank() - 2;
    let flat = g.dilated(last, 0, columns + 1, rows * columns)?;
    let apart = flat.meta().shape.with(last, rows).insert(last + 1, columns).map_err(|kind| Error::new("diagonal", kind))?;
    Ok(flat.reshape(apart).movedim([-2isize, -1], [plane[0] as isize, plane[1] as isize]))
}
/// A cotangent of windows, summed where they overlap. Windows are cut into parts as long as a step: the first parts of all of them lie
/// side by side in the source, the second ones a step further on, and so on.
fn unwindowed(back: &Backward<'_>, axis: usize, step: usize) -> Tensor {
    let (g, shape) = (back.cotangent, back.shape(0));
    let (count, size) = (g.meta().shape[axis], g.meta().shape[shape.rank()]);
    let inside = g.movedim(-1, axis as isize + 1);
    if size.div_ceil(step) > MOST_PARTS {
        let like = Tensor::zeros_on([count, size], DType::I64, g.meta().device);
        let places = like.iota_like(0, DType::I64) * step + like.iota_like(1, DType::I64);
        return back.zeros(0).index_add(axis, &places.ravel(), &inside.reshape(shape.with(axis, count * size)), 1);
    }
    let parts = (0..size).step_by(step).map(|from| {
        let part = inside.narrow(axis + 1, from, step.min(size - from));
        part.placed(axis + 1, 0, step).reshape(shape.with(axis, count * step)).placed(axis, from, shape[axis])
    });
    parts.reduce(|sum, part| sum + part).unwrap_or_else(|| back.zeros(0))
}
pub(super) fn tangent(_: &View, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    Ok(forward.same())
}
pub(super) fn batched(view: &View, batch: &Batching<'_>) -> Result<Stacks> {
    let rank = batch.made[0].shape.rank();
    let view = match view {
        View::Reshape(to) => View::Reshape(batch.axis.stack(*to)?),
        View::Permute(order) => {
            let mut shifted = [0u8; MAX_RANK];
            for k in 0..rank.min(MAX_RANK - 1) {
                shifted[k + 1] = order[k] + 1;
            }
            View::Permute(shifted)
        }
        View::Expand(to) => return Ok(smallvec![expand(&batch.axis.aligned(&batch.lanes[0], rank)?, batch.axis.stack(*to)?)]),
        View::Slice { axis, len, step } => View::Slice { axis: axis + 1, len: *len, step: *step },
        View::Flip(axes) => View::Flip(behind(*axes)),
        View::Diagonal(axes) => View::Diagonal(behind(*axes)),
        View::Windows { axis, size, step } => View::Windows { axis: axis + 1, size: *size, step: *step },
    };
    batch.on_first(Op::View(view))
}
