//! Element-wise functions of one tensor. The tangent is the gradient row with the tangent in the place of the cotangent, as the
//! row is linear in it.
use super::{Backward, Batching, Forward, Stacks, one, rounded_once};
use crate::{
    Result, Tensor,
    composite::{Cotangents, Saves},
    scalar::{Saved, Unary, unary_gradient},
};

/// What a row of the scalar tables says that its gradient reads.
pub(super) fn of_row(saved: Saved) -> Saves {
    match saved {
        Saved::Nothing => Saves::default(),
        Saved::Input => Saves { inputs: 0b11, outputs: 0 },
        Saved::Output => Saves { inputs: 0, outputs: 1 },
        Saved::Both => Saves { inputs: 0b11, outputs: 1 },
    }
}
pub(super) fn reads(f: &Unary) -> Option<Saves> {
    f.row().differentiable.then(|| of_row(f.row().saves))
}
pub(super) fn gradient(f: &Unary, back: &Backward<'_>) -> Result<Cotangents> {
    let Some(row) = unary_gradient(*f) else { return Ok(back.none()) };
    let (g, saves) = (back.cotangent, f.row().saves);
    let x = if matches!(saves, Saved::Input | Saved::Both) { back.args.input(0)? } else { g };
    let y = if matches!(saves, Saved::Output | Saved::Both) { back.args.output(0)? } else { g };
    let one_op = saves == Saved::Nothing || matches!(f, Unary::Relu | Unary::Exp);
    one(rounded_once(one_op, [g, x, y], |[g, x, y]| row(g, x, y)))
}
pub(super) fn tangent(f: &Unary, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    Ok(match (unary_gradient(*f), forward.tangent(0)) {
        (Some(row), Some(t)) => Some(rounded_once(false, [t, forward.primal(0), &forward.outputs[0]], |[t, x, y]| row(t, x, y))),
        _ => None,
    })
}
pub(super) fn batched(_: &Unary, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_first(batch.op.clone())
}
