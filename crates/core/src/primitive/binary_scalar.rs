//! Element-wise functions of a tensor and a number.
use super::{Backward, Batching, Forward, Stacks, one, rounded_once, unary::of_row};
use crate::{
    Arg, Op, Result, Scalar, Tensor,
    composite::{Cotangents, Saves},
    op::Side,
    scalar::{Binary, Saved, binary_gradients},
};

type Fields<'a> = (&'a Binary, &'a Side);

pub(super) fn reads((f, side): Fields<'_>) -> Option<Saves> {
    f.row().differentiable.then(|| match (f, side) {
        // The other side is a number and needs no saving, but a product with a number does not read its tensor.
        (Binary::Mul, _) | (Binary::Div, Side::Right) => Saves::default(),
        _ => of_row(f.row().saves),
    })
}
pub(super) fn gradient((f, side): Fields<'_>, back: &Backward<'_>) -> Result<Cotangents> {
    let (Some((left, right)), Arg::Scalar(s)) = (binary_gradients(*f), back.arg) else { return Ok(back.none()) };
    let (g, saves) = (back.cotangent, f.row().saves);
    if *f == Binary::Mul {
        return one(scale(g, s));
    }
    let c = g.full_like(s);
    let x = match (f, side) {
        (Binary::Div, Side::Right) => &c,
        _ if matches!(saves, Saved::Input | Saved::Both) => back.args.input(0)?,
        _ => g,
    };
    let y = if matches!(saves, Saved::Output | Saved::Both) { back.args.output(0)? } else { g };
    one(match side {
        Side::Right => rounded_once(saves == Saved::Nothing, [g, x, &c, y], |[g, x, c, y]| left(g, x, c, y)),
        Side::Left => rounded_once(saves == Saved::Nothing, [g, &c, x, y], |[g, c, x, y]| right(g, c, x, y)),
    })
}
pub(super) fn tangent((f, side): Fields<'_>, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    let (Some((left, right)), Arg::Scalar(s), Some(t)) = (binary_gradients(*f), forward.arg, forward.tangent(0)) else { return Ok(None) };
    if *f == Binary::Mul {
        return Ok(forward.same());
    }
    let (c, x, y) = (t.full_like(s), forward.primal(0), &forward.outputs[0]);
    Ok(Some(match side {
        Side::Right => rounded_once(false, [t, x, &c, y], |[t, x, c, y]| left(t, x, c, y)),
        Side::Left => rounded_once(false, [t, &c, x, y], |[t, c, x, y]| right(t, c, x, y)),
    }))
}
pub(super) fn batched(_: Fields<'_>, batch: &Batching<'_>) -> Result<Stacks> {
    batch.on_first(batch.op.clone())
}

fn scale(g: &Tensor, s: Scalar) -> Tensor {
    Tensor::apply(Op::BinaryScalar(Binary::Mul, Side::Right), Arg::Scalar(s), &[g])
}
