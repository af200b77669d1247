//! Convolutions in their three roles. A convolution is one bilinear form of three tensors whose axes are letters: x `[n, g ci, ..]`,
//! w `[g co, ci, ..]`, y `[n, g co, ..]`, and each of its roles makes one of them of the two others; so do its gradients. Of a
//! stack, the examples' axis joins the letter that exactly the batched ones have in common: x and y share n, w and y share co,
//! x and w share ci, and all three g. So the gradient of each example's weight is one grouped convolution.
use super::{Backward, Batching, Forward, Stacks, sum};
use crate::{
    Arg, Error, Meta, Result, Shape, Tensor,
    composite::{Cotangents, Saves},
    op::{ConvRole, ConvSpec},
    shape::MAX_RANK,
    specs::conv_op,
};
use smallvec::{SmallVec, smallvec};

fn product(spec: ConvSpec, a: &Tensor, b: &Tensor) -> Tensor {
    Tensor::apply(conv_op(spec), Arg::None, &[a, b])
}
pub(super) fn reads(_: &ConvSpec) -> Option<Saves> {
    Some(Saves { inputs: 0b11, outputs: 0 })
}
pub(super) fn gradient(spec: &ConvSpec, back: &Backward<'_>) -> Result<Cotangents> {
    let (a, b, g) = (back.args.input(0)?, back.args.input(1)?, back.cotangent);
    let spatial = |m: &Meta| SmallVec::from_slice(&m.shape[2..]);
    let (first, second) = (&back.args.metas[0], &back.args.metas[1]);
    // The gradient for input k.
    let conv = |k: usize, role, open, x: &Tensor, y: &Tensor| {
        back.needs(k).then(|| product(ConvSpec { role, open, ..spec.clone() }, &back.args.operand(k, x), &back.args.operand(k, y)))
    };
    let none = SmallVec::new;
    let (x_role, w_role, y_role) = (ConvRole::InputGrad, ConvRole::WeightGrad, ConvRole::Forward);
    Ok(match spec.role {
        // y(x, w)
        ConvRole::Forward => smallvec![conv(0, x_role, spatial(first), g, b), conv(1, w_role, spatial(second), a, g)],
        // x(y, w)
        ConvRole::InputGrad => smallvec![conv(0, y_role, none(), g, b), conv(1, w_role, spatial(second), g, a)],
        // w(x, y)
        ConvRole::WeightGrad => smallvec![conv(0, x_role, spatial(first), b, g), conv(1, y_role, none(), a, g)],
    })
}
pub(super) fn tangent(spec: &ConvSpec, forward: &Forward<'_>) -> Result<Option<Tensor>> {
    let left = forward.tangent(0).map(|t| product(spec.clone(), t, forward.primal(1)));
    Ok(sum(left, forward.tangent(1).map(|t| product(spec.clone(), forward.primal(0), t))))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Letter {
    Samples,
    Groups,
    In,
    Out,
}
use Letter::*;

/// The letters of a tensor's first two axes, in order.
const X: [&[Letter]; 2] = [&[Samples], &[Groups, In]];
const W: [&[Letter]; 2] = [&[Groups, Out], &[In]];
const Y: [&[Letter]; 2] = [&[Samples], &[Groups, Out]];

pub(super) fn batched(spec: &ConvSpec, batch: &Batching<'_>) -> Result<Stacks> {
    let (x, size) = (batch.lanes, batch.axis.size);
    let (first, second, made) = match spec.role {
        ConvRole::Forward => (X, W, Y),
        ConvRole::InputGrad => (Y, W, X),
        ConvRole::WeightGrad => (X, Y, W),
    };
    let both = x[0].batched && x[1].batched;
    let other = if x[0].batched { first } else { second };
    let has = |axes: [&[Letter]; 2], letter: Letter| axes.iter().any(|axis| axis.contains(&letter));
    // Of the batched input and the output, or of all three.
    let letter = if both { Groups } else { [Samples, In, Out].into_iter().find(|&l| has(other, l) && has(made, l)).unwrap_or(Groups) };
    let groups = if both { spec.groups * size } else { spec.groups };
    let a = if x[0].batched { fold(&x[0].tensor, first, letter, spec.groups)? } else { x[0].tensor.clone() };
    let b = if x[1].batched { fold(&x[1].tensor, second, letter, spec.groups)? } else { x[1].tensor.clone() };
    let out = product(ConvSpec { groups, ..spec.clone() }, &a, &b).ok()?;
    Ok(smallvec![unfold(&out, made, letter, spec.groups, size)?])
}
fn shape(dims: &[usize]) -> Result<Shape> {
    Shape::new(dims).map_err(|k| Error::new("vmap", k))
}
/// Where the examples go: the axis of the tensor, and whether the axis is cut into groups before them.
fn place(axes: [&[Letter]; 2], letter: Letter) -> Option<(usize, bool)> {
    axes.iter().position(|axis| axis.contains(&letter)).map(|at| (at, axes[at].len() == 2 && axes[at][1] == letter))
}
/// `[examples, a, b, ..]` with the examples in the place of a letter.
fn fold(t: &Tensor, axes: [&[Letter]; 2], letter: Letter, groups: usize) -> Result<Tensor> {
    let Some((at, inner)) = place(axes, letter) else { return Ok(t.clone()) };
    let s = t.meta().shape;
    let size = s[0];
    let merged: SmallVec<[usize; MAX_RANK]> = s[1..].iter().enumerate().map(|(k, &d)| if k == at { d * size } else { d }).collect();
    if at == 0 && !inner {
        return Ok(t.reshape(shape(&merged)?));
    }
    if !inner || groups == 1 {
        // The examples' axis stands before the one it joins.
        let order: SmallVec<[isize; MAX_RANK]> = (1..=at as isize).chain([0]).chain(at as isize + 1..s.rank() as isize).collect();
        return Ok(t.permute(&order[..]).reshape(shape(&merged)?));
    }
    // The axis it joins, as groups and the rest, with the examples between.
    let mut apart: SmallVec<[usize; 9]> = SmallVec::from_slice(&s);
    apart[at + 1] = s[at + 1] / groups;
    apart.insert(at + 1, groups);
    let order: SmallVec<[isize; 9]> = (1..=at as isize + 1).chain([0]).chain(at as isize + 2..apart.len() as isize).collect();
    Ok(t.reshape(shape(&apart)?).permute(&order[..]).reshape(shape(&merged)?))
}
/// The inverse of [`fold`].
fn unfold(t: &Tensor, axes: [&[Letter]; 2], letter: Letter, groups: usize, size: usize) -> Result<Tensor> {
    let Some((at, inner)) = place(axes, letter) else { return Ok(t.clone()) };
    let s = t.meta().shape;
    let mut apart: SmallVec<[usize; 9]> = SmallVec::from_slice(&s);
    let one: SmallVec<[usize; 9]> = std::iter::once(size).chain(s.iter().enumerate().map(|(k, &d)| if k == at { d / size } else { d })).collect();
    // Where the examples' axis stands among the others.
    let examples = if inner && groups > 1 {
        apart[at] = s[at] / (groups * size);
        apart.insert_many(at, [groups, size]);
        at + 1
    } else {
        apart[at] = s[at] / size;
        apart.insert(at, size);
        at
    };
    let order: SmallVec<[isize; 9]> = std::iter::once(examples as isize).chain((0..apart.len() as isize).filter(|&k| k != examples as isize)).collect();
    Ok(t.reshape(shape(&apart)?).permute(&order[..]).reshape(shape(&one)?))
}
