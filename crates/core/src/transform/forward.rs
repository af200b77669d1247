//! `jvp`: a function is run once with a tangent carried along each value. The rules are `jvp.rs`.
use super::{
    Tensors,
    frame::{LevelGuard, LevelKind},
    leaves, tree,
};
use crate::{Error, ErrorKind, Origin, Tensor};

/// The value of a function and its derivative along a direction: the product of the Jacobian with `tangent`, which has the
/// inputs' structure, shapes and dtypes (those of inputs that are no floats are not looked at). The second result has the
/// shapes of the first, and zeros where an output does not depend on the inputs or is no float.
///
/// It costs about one more run of the function, whatever the number of outputs, and remembers nothing of the way.
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::jvp};
/// # Device::reference().make_current();
/// let x = Tensor::from_vec(vec![1.0f32, 2.0], [2]);
/// let (y, moved) = jvp(|x: Tensor| x.square(), x, Tensor::from_vec(vec![1.0f32, 10.0], [2]));
/// assert_eq!((y.to_vec::<f32>()?, moved.to_vec::<f32>()?), (vec![1.0, 4.0], vec![2.0, 40.0]));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// In the tensors: the function's own; a tangent of another shape or dtype than its input; an op without a derivative.
///
/// Source: `jax.jvp`; `torch.func.jvp`.
#[track_caller]
pub fn jvp<A: Tensors, R: Tensors>(f: impl FnOnce(A) -> R, x: A, tangent: A) -> (R, R) {
    let here = Origin::here();
    let (inputs, tangents) = (leaves(&x), leaves(&tangent));
    let inside = LevelGuard::new(LevelKind::Forward);
    let begin = |(k, x): (usize, &Tensor)| match direction(x, tangents.get(k), here) {
        _ if x.error().is_some() => x.clone(),
        Ok(t) => inside.dual(x, t),
        Err(e) => Tensor::failed(e),
    };
    let duals: Vec<Tensor> = inputs.iter().enumerate().map(begin).collect();
    let y = inside.run(|| f(tree(&x, &duals)));
    let results: Vec<_> = leaves(&y).iter().map(|y| inside.to_dual(y)).collect();
    let (values, moved): (Vec<Tensor>, Vec<Tensor>) = results
        .into_iter()
        .map(|d| {
            let moved = d.tangent.unwrap_or_else(|| d.primal.zeros_like());
            (d.primal, moved)
        })
        .unzip();
    (tree(&y, &values), tree(&y, &moved))
}
fn direction(x: &Tensor, t: Option<&Tensor>, here: Origin) -> crate::Result<Option<Tensor>> {
    let error = |kind| Error::at("jvp", kind, here);
    let m = x.meta();
    if x.error().is_some() || !m.dtype.is_float() {
        return Ok(None);
    }
    let t = t.ok_or_else(|| error(ErrorKind::Argument("fewer tangents than inputs".into())))?.clone().ok()?;
    let given = t.meta();
    if given.shape != m.shape {
        return Err(error(ErrorKind::ShapeMismatch { left: m.shape, right: given.shape, axes: None, expected: "a tangent has the shape of its input" }));
    }
    if given.dtype != m.dtype {
        return Err(error(ErrorKind::DtypeMismatch { left: m.dtype, right: given.dtype }));
    }
    Ok(Some(t))
}
