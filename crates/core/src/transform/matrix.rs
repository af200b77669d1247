//! Whole matrices of derivatives, by the other transforms: all columns of a Jacobian are one push, all rows one pull, of a
//! stack of unit vectors.
use super::{Tensors, forward::jvp, leaves, reverse::grad_at, reverse::vjp, tree, vmap::vmap};
use crate::{Error, ErrorKind, Meta, Origin, Shape, Tensor, scope::called_here};

/// Which way a [`jacobian`] is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JacobianMode {
    /// By [`jvp()`], one column for each element of the input: the better where the output has more elements.
    Forward,
    /// By [`vjp`], one row for each element of the output: the better where the input has more elements.
    Backward,
}

/// The Jacobian of a function of one tensor, as a function: for each output tensor `[..out]` and the input `[..in]` the
/// derivatives `[..out, ..in]`.
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::{JacobianMode, jacobian}};
/// # Device::reference().make_current();
/// let x = Tensor::from_vec(vec![1.0f32, 2.0], [2]);
/// let f = |x: Tensor| Tensor::cat(&[&x.square(), &x.sum_keepdim(0)], 0);
/// for mode in [JacobianMode::Forward, JacobianMode::Backward] {
///     let j = jacobian(f, mode)(x.clone());
///     assert_eq!(j.dims::<2>()?, [3, 2]);
///     assert_eq!(j.to_vec::<f32>()?, [2.0, 0.0, 0.0, 4.0, 1.0, 1.0]);
/// }
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// In the results: the function's own; an input or, backward, an output that is no float; more axes than a tensor can have.
///
/// Source: `jax.jacfwd`, `jax.jacrev`.
#[track_caller]
pub fn jacobian<R: Tensors>(f: impl Fn(Tensor) -> R, mode: JacobianMode) -> impl Fn(Tensor) -> R {
    jacobian_at(f, mode, called_here("jacobian"))
}
fn jacobian_at<R: Tensors>(f: impl Fn(Tensor) -> R, mode: JacobianMode, here: Origin) -> impl Fn(Tensor) -> R {
    move |x| match mode {
        JacobianMode::Forward => forward(&f, x, here),
        JacobianMode::Backward => backward(&f, x, here),
    }
}
/// [`jacobian`] by [`vjp`], a row for each element of the output: PyTorch's and JAX's name.
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::jacrev, tensor};
/// # Device::reference().make_current();
/// let j = jacrev(|x: Tensor| x.square())(tensor![1.0, 2.0]);
/// assert_eq!(j.to_vec::<f32>()?, [2.0, 0.0, 0.0, 4.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[track_caller]
pub fn jacrev<R: Tensors>(f: impl Fn(Tensor) -> R) -> impl Fn(Tensor) -> R {
    jacobian_at(f, JacobianMode::Backward, called_here("jacrev"))
}
/// [`jacobian`] by [`jvp()`], a column for each element of the input: PyTorch's and JAX's name.
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::jacfwd, tensor};
/// # Device::reference().make_current();
/// let j = jacfwd(|x: Tensor| x.square())(tensor![1.0, 2.0]);
/// assert_eq!(j.to_vec::<f32>()?, [2.0, 0.0, 0.0, 4.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[track_caller]
pub fn jacfwd<R: Tensors>(f: impl Fn(Tensor) -> R) -> impl Fn(Tensor) -> R {
    jacobian_at(f, JacobianMode::Forward, called_here("jacfwd"))
}
fn forward<R: Tensors>(f: &impl Fn(Tensor) -> R, x: Tensor, here: Origin) -> R {
    let meta = match input(&x, here) {
        Ok(meta) => meta,
        Err(e) => return f(Tensor::failed(e.clone())).map(&mut |_| Tensor::failed(e.clone())),
    };
    // [in, ..out]: the examples' axis goes last and becomes the input's axes.
    let columns = vmap(|t: Tensor| jvp(f, x.clone(), t).1)(units(meta));
    columns.map(&mut |c| {
        let Ok(out) = c.shape() else { return c.clone() };
        let order: Vec<isize> = (1..out.rank() as isize).chain([0]).collect();
        shaped(&c.permute(&order[..]), &out[1..], &meta.shape)
    })
}
fn backward<R: Tensors>(f: &impl Fn(Tensor) -> R, x: Tensor, here: Origin) -> R {
    let shape = match input(&x, here) {
        Ok(meta) => meta.shape,
        Err(e) => return f(Tensor::failed(e.clone())).map(&mut |_| Tensor::failed(e.clone())),
    };
    let (y, pull) = vjp(f, x);
    let outputs = leaves(&y);
    let rows: Vec<Tensor> = outputs
        .iter()
        .enumerate()
        .map(|(k, of)| {
            let Ok(m) = of.try_meta() else { return of.clone() };
            if !m.dtype.is_float() {
                return Tensor::failed(Error::at("jacobian", ErrorKind::Dtype(format!("only floats have derivatives, not {}", m.dtype)), here));
            }
            // One for this output at a time; the others' cotangents are zero.
            let of_one = |g: Tensor| {
                let all: Vec<Tensor> = outputs.iter().enumerate().map(|(j, y)| if j == k { g.clone() } else { y.untaped().zeros_like() }).collect();
                pull(tree(&y, &all))
            };
            shaped(&vmap(of_one)(units(m)), &m.shape, &shape)
        })
        .collect();
    tree(&y, &rows)
}
fn input(x: &Tensor, here: Origin) -> crate::Result<Meta> {
    let meta = x.try_meta()?;
    if meta.dtype.is_float() {
        Ok(meta)
    } else {
        Err(Error::at("jacobian", ErrorKind::Dtype(format!("only floats have derivatives, not {}", meta.dtype)), here))
    }
}
/// The unit vectors of a shape, stacked: `[elements, ..shape]`.
fn units(m: Meta) -> Tensor {
    let n = m.shape.elements();
    match m.shape.insert(0, n) {
        Ok(stack) => Tensor::eye_on(n, n, m.dtype, m.device).reshape(stack),
        Err(kind) => Tensor::failed(Error::new("jacobian", kind)),
    }
}
/// The elements with the axes `[..out, ..in]`.
fn shaped(t: &Tensor, out: &[usize], input: &Shape) -> Tensor {
    let dims: Vec<usize> = out.iter().chain(input.iter()).copied().collect();
    match Shape::new(&dims) {
        Ok(shape) => t.reshape(shape),
        Err(kind) => Tensor::failed(Error::new("jacobian", kind)),
    }
}

/// The second derivatives of a function of one tensor `[..in]` that returns a single number, as a function: `[..in, ..in]`.
/// Forward over backward, the cheapest way (Griewank and Walther, 2008).
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::hessian};
/// # Device::reference().make_current();
/// let h = hessian(|x: Tensor| x.prod(..))(Tensor::from_vec(vec![2.0f32, 3.0], [2]));
/// assert_eq!(h.to_vec::<f32>()?, [0.0, 1.0, 1.0, 0.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// As [`grad`](super::grad) and [`jacobian`].
///
/// Source: `jax.hessian`.
#[track_caller]
pub fn hessian(f: impl Fn(Tensor) -> Tensor) -> impl Fn(Tensor) -> Tensor {
    let here = called_here("hessian");
    jacobian_at(grad_at(f, here), JacobianMode::Forward, here)
}
/// The product of the second derivatives of a function that returns a single number with a direction `v`, as a function of
/// `(x, v)`: what a column of the Hessian costs, without the Hessian (Pearlmutter, "Fast exact multiplication by the
/// Hessian", 1994).
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::hvp};
/// # Device::reference().make_current();
/// let x = Tensor::from_vec(vec![2.0f32, 3.0], [2]);
/// let v = Tensor::from_vec(vec![1.0f32, 10.0], [2]);
/// assert_eq!(hvp(|x: Tensor| x.prod(..))(x, v).to_vec::<f32>()?, [10.0, 1.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// As [`grad`](super::grad) and [`jvp()`].
#[track_caller]
pub fn hvp<A: Tensors>(f: impl Fn(A) -> Tensor) -> impl Fn(A, A) -> A {
    let gradient = grad_at(f, called_here("hvp"));
    move |x, v| jvp(&gradient, x, v).1
}
