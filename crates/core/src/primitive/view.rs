//! Other views of the same elements. The transpose of each is a view again, but for a slice, which is padded back, and an
//! expansion, which is summed.
use super::{Backward, Batching, Forward, Stacks, behind, expand, one, sum_to};
use crate::{
    Arg, Error, Op, Result, Scalar, Shape, Tensor,
    composite::{Cotangents, Saves},
    op::{PadSpec, View},
    shape::MAX_RANK,
};
use smallvec::{SmallVec, smallvec};

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
        View::Slice { axis, len, step } => {
            let start = if let Arg::Start(start) = back.arg { start } else { 0 };
            unsliced(g, &shape, *axis as usize, start, *len, *step)
        }
        View::Flip(axes) => one(g.flip(*axes)),
    }
}
/// A slice's cotangent where the slice was, zeros elsewhere.
fn unsliced(g: &Tensor, shape: &Shape, axis: usize, start: usize, len: usize, step: usize) -> Result<Cotangents> {
    let zero = Arg::Scalar(Scalar::Float(0.0));
    let mut spread = g.clone();
    if step > 1 {
        // Put zeros between the elements: a pad of an added axis, merged into the sliced one.
        let s = g.meta().shape;
        let wide = g.reshape(s.insert(axis + 1, 1).map_err(|k| Error::new("slice", k))?);
        let mut widths: SmallVec<[(isize, isize); 8]> = SmallVec::from_elem((0, 0), s.rank() + 1);
        widths[axis + 1] = (0, step as isize - 1);
        let padded = Tensor::apply(Op::Pad(Box::new(PadSpec { widths })), zero, &[&wide]);
        let merged = padded.reshape(s.with(axis, len * step));
        spread = merged.narrow(axis, 0, (len - 1) * step + 1);
    }
    let span = (len - 1) * step + 1;
    let mut widths: SmallVec<[(isize, isize); 8]> = SmallVec::from_elem((0, 0), shape.rank());
    widths[axis] = (start as isize, (shape[axis] - start - span) as isize);
    one(Tensor::apply(Op::Pad(Box::new(PadSpec { widths })), zero, &[&spread]))
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
    };
    batch.on_first(Op::View(view))
}
