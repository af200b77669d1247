//! Derivatives by a walk back over the tape, as functions of functions: `grad`, `value_and_grad`, `vjp`, and the transpose
//! of a linear function. Each puts its inputs at new places of the tape, so that derivatives of derivatives are told
//! apart, and leaves its results on the tape only if something around it is to be differentiated by.
use super::{Tensors, frame::is_tracked_below, leaves, tree};
use crate::{
    Error, ErrorKind, Origin, Result, Tensor,
    composite::Cotangents,
    grad::{Region, alias, grad_enabled, pull_to, with_tape},
    scope::called_here,
};
use smallvec::SmallVec;

/// Inputs at new places, and the numbers of these.
struct BegunReverse {
    inputs: Vec<Tensor>,
    ends: Vec<u64>,
}
/// `linked`: what is computed may be differentiated by what is around.
fn begin(inputs: &[Tensor], linked: bool) -> BegunReverse {
    let place = |x: &Tensor| if x.error().is_none() && x.meta().dtype.is_float() { alias(x, linked) } else { x.clone() };
    let inputs: Vec<Tensor> = inputs.iter().map(place).collect();
    let ends = inputs.iter().filter_map(place_of).collect();
    BegunReverse { inputs, ends }
}
fn place_of(x: &Tensor) -> Option<u64> {
    x.tape().map(|(node, _)| node.number())
}
/// The cotangents as they belong to the inputs: zeros where none arrived, an error for what has no gradient.
fn arrived(op: &'static str, inputs: &[Tensor], found: Result<Vec<Option<Tensor>>>, here: Origin) -> Vec<Tensor> {
    let mut found = found.map(Vec::into_iter);
    let one = |x: &Tensor| match (x.error(), &mut found) {
        (Some(e), _) => Tensor::failed(e),
        _ if !x.meta().dtype.is_float() => {
            let why = format!("only floats have gradients, not {}; let the function capture the tensor instead of taking it", x.meta().dtype);
            Tensor::failed(Error::at(op, ErrorKind::Dtype(why), here))
        }
        (None, Ok(found)) => found.next().flatten().unwrap_or_else(|| x.zeros_like()),
        (None, Err(e)) => Tensor::failed(e.clone()),
    };
    inputs.iter().map(one).collect()
}

/// The gradient of a function that returns a single number, as a function: of the same inputs, with a gradient for each
/// tensor of them, of its shape and dtype; zeros where the number does not depend on it. What the function captures is
/// constant. An error, in the inputs or on the way, is carried by the gradients.
///
/// As all transforms it can be applied to what another one returns: `grad(grad(f))`, `vmap(grad(f))`, `jvp` of it.
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::grad};
/// # Device::reference().make_current();
/// let cube = |x: Tensor| (&x * &x * &x).sum(..);
/// let x = Tensor::from_vec(vec![1.0f32, 2.0], [2]);
/// assert_eq!(grad(cube)(x.clone()).to_vec::<f32>()?, [3.0, 12.0]);
/// let second = grad(move |x: Tensor| grad(cube)(x).sum(..));
/// assert_eq!(second(x).to_vec::<f32>()?, [6.0, 12.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// In the gradients: the function's own; a result of more than one element; an input that is no float.
///
/// Source: `jax.grad`; `torch.func.grad`.
#[track_caller]
pub fn grad<A: Tensors>(f: impl Fn(A) -> Tensor) -> impl Fn(A) -> A {
    grad_at(f, called_here("grad"))
}
/// [`grad`], made at a line by a function of that or another name.
pub(super) fn grad_at<A: Tensors>(f: impl Fn(A) -> Tensor, here: Origin) -> impl Fn(A) -> A {
    let both = both_at(f, here);
    move |x| both(x).1
}
/// As [`grad`], with the function's value before the gradients: one run serves both.
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::value_and_grad};
/// # Device::reference().make_current();
/// let loss = |(w, b): (Tensor, Tensor)| (w * 3.0 + b).square().sum(..);
/// let (value, (w, b)) = value_and_grad(loss)((Tensor::ones([1]), Tensor::ones([1])));
/// assert_eq!(value.item::<f32>()?, 16.0);
/// assert_eq!((w.item::<f32>()?, b.item::<f32>()?), (24.0, 8.0));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// As [`grad`]; the value carries the function's own.
#[track_caller]
pub fn value_and_grad<A: Tensors>(f: impl Fn(A) -> Tensor) -> impl Fn(A) -> (Tensor, A) {
    both_at(f, called_here("value_and_grad"))
}
fn both_at<A: Tensors>(f: impl Fn(A) -> Tensor, here: Origin) -> impl Fn(A) -> (Tensor, A) {
    move |x| {
        let inputs = leaves(&x);
        let around = grad_enabled();
        let begun = begin(&inputs, around);
        let y = with_tape(true, || f(tree(&x, &begun.inputs)));
        let error = |kind| Error::at("grad", kind, here);
        let checked = y.try_meta().and_then(|m| match (m.shape.elements(), m.dtype.is_float()) {
            (1, true) => Ok(()),
            (1, false) => Err(error(ErrorKind::Dtype(format!("only a float has a gradient, not {}", m.dtype)))),
            _ => Err(error(ErrorKind::Backward(format!("only a single number has a gradient, not a tensor of shape {}; reduce it or use vjp", m.shape)))),
        });
        let region = Region::between([&y].into_iter(), &begun.ends);
        let graph = around && (region.depends_on_older || is_tracked_below());
        let found = checked.and_then(|()| pull_to(&[(&y, y.untaped().ones_like())], &region, graph, false, here));
        (if graph { y } else { y.untaped() }, tree(&x, &arrived("grad", &inputs, found, here)))
    }
}

/// The value of a function, and the function that pulls cotangents of its outputs back to its inputs: the product of a
/// cotangent with the Jacobian. It may be called more than once; each call is a walk over the same tape.
///
/// Cotangents have the shapes and dtypes of the outputs, and those of outputs that are no floats are not looked at.
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::vjp};
/// # Device::reference().make_current();
/// let (y, pull) = vjp(|x: Tensor| x.sin(), Tensor::zeros([2]));
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.0]);
/// assert_eq!(pull(Tensor::from_vec(vec![2.0f32, 3.0], [2])).to_vec::<f32>()?, [2.0, 3.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// In the tensors: the function's own; an input that is no float; a cotangent of another shape or dtype.
///
/// Source: `jax.vjp`; `torch.func.vjp`.
pub fn vjp<A: Tensors, R: Tensors>(f: impl Fn(A) -> R, x: A) -> (R, impl Fn(R) -> A) {
    let here = Origin::here();
    let inputs = leaves(&x);
    let around = grad_enabled();
    let begun = begin(&inputs, around);
    let y = with_tape(true, || f(tree(&x, &begun.inputs)));
    let outputs = leaves(&y);
    let linked = around && (Region::between(outputs.iter(), &begun.ends).depends_on_older || is_tracked_below());
    let shown: Vec<Tensor> = outputs.iter().map(|y| if linked { y.clone() } else { y.untaped() }).collect();
    let shown = tree(&y, &shown);
    let pull = move |cotangents: R| {
        let cotangents = leaves(&cotangents);
        let graph = grad_enabled() && (linked || is_tracked_below() || cotangents.iter().any(Tensor::is_tracked));
        let found = roots(&outputs, &cotangents, here).and_then(|roots| {
            let region = Region::between(outputs.iter(), &begun.ends);
            pull_to(&roots, &region, graph, true, here)
        });
        tree(&x, &arrived("vjp", &inputs, found, here))
    };
    (shown, pull)
}
/// The value of a function, and its derivative there as a linear function of directions: what [`jvp()`](super::jvp()) gives for each, from one
/// run of the function. It is the transpose of what [`vjp`] returns, so inputs and outputs are floats.
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::linearize, tensor};
/// # Device::reference().make_current();
/// let (y, push) = linearize(|x: Tensor| x.square(), tensor![1.0, 3.0]);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 9.0]);
/// assert_eq!(push(tensor![1.0, 0.0]).to_vec::<f32>()?, [2.0, 0.0]);
/// assert_eq!(push(tensor![0.0, 10.0]).to_vec::<f32>()?, [0.0, 60.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// In the tensors: the function's own; an input or output that is no float; a direction of another shape or dtype.
///
/// Source: `torch.func.linearize`, `jax.linearize`.
pub fn linearize<A: Tensors, R: Tensors>(f: impl Fn(A) -> R, x: A) -> (R, impl Fn(A) -> R) {
    let (y, pull) = vjp(f, x);
    // The pull is linear: its own derivative is the same at every cotangent.
    let (_, push) = vjp(pull, y.map(&mut |y| y.untaped().zeros_like()));
    (y, push)
}
/// Outputs with their cotangents, of one shape and dtype.
fn roots<'a>(outputs: &'a [Tensor], cotangents: &[Tensor], here: Origin) -> Result<Vec<(&'a Tensor, Tensor)>> {
    let error = |kind| Error::at("vjp", kind, here);
    if outputs.len() != cotangents.len() {
        return Err(error(ErrorKind::Argument(format!("{} cotangents for {} outputs", cotangents.len(), outputs.len()))));
    }
    let mut roots = Vec::new();
    for (y, g) in outputs.iter().zip(cotangents) {
        let of = y.try_meta()?;
        if !of.dtype.is_float() {
            continue;
        }
        let given = g.try_meta()?;
        if given.shape != of.shape {
            let expected = "a cotangent has the shape of its tensor";
            return Err(error(ErrorKind::ShapeMismatch { left: of.shape, right: given.shape, axes: None, expected }));
        }
        if given.dtype != of.dtype {
            return Err(error(ErrorKind::DtypeMismatch { left: of.dtype, right: given.dtype }));
        }
        roots.push((y, g.clone()));
    }
    Ok(roots)
}

/// The transpose of a gradient rule, which is linear in its cotangents: tangents of the inputs pushed to the outputs. The
/// rule is run on cotangents that nobody computes, and walked back.
pub(super) fn transposed(
    rule: impl Fn(&[Option<Tensor>]) -> Result<Cotangents>,
    outputs: &[Tensor],
    tangents: &[Option<Tensor>],
) -> Result<SmallVec<[Option<Tensor>; 3]>> {
    let here = Origin::here();
    let around = grad_enabled();
    let places: Vec<Option<Tensor>> = outputs.iter().map(|y| y.meta().dtype.is_float().then(|| alias(&y.untaped().zeros_like(), false))).collect();
    let ends: Vec<u64> = places.iter().flatten().filter_map(place_of).collect();
    let pulled = with_tape(true, || rule(&places))?;
    let roots: Vec<(&Tensor, Tensor)> = pulled.iter().zip(tangents).filter_map(|(r, t)| Some((r.as_ref()?, t.clone()?))).collect();
    for (r, _) in &roots {
        r.try_meta()?;
    }
    let region = Region::between(roots.iter().map(|(r, _)| *r), &ends);
    let graph = around && (region.depends_on_older || is_tracked_below() || tangents.iter().flatten().any(Tensor::is_tracked));
    let mut found = pull_to(&roots, &region, graph, false, here)?.into_iter();
    Ok(places.iter().map(|place| place.as_ref().and_then(|_| found.next().flatten())).collect())
}
