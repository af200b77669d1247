//! Transforms: functions that make of a function of tensors another one. [`grad`], [`value_and_grad`], [`vjp`], [`jvp()`],
//! [`vmap()`], [`jacobian`], [`hessian`], [`hvp`]. They can be applied to each other's results in any order and to any depth:
//! `vmap(grad(f))` is the gradient of each example, `jvp` of `grad` a product with the Hessian.
//!
//! ```
//! # use adamant_core::{Device, Tensor, transform::{grad, vmap}};
//! # Device::reference().make_current();
//! // The gradient of every example's loss by a weight that they share, in one run.
//! let (w, xs) = (Tensor::ones([2]), Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2]));
//! let each = vmap(|x: Tensor| grad(|w: Tensor| (w * &x).sum(..).square())(w.clone()));
//! assert_eq!(each(xs).to_vec::<f32>()?, [6.0, 12.0, 42.0, 56.0]);
//! # Ok::<(), adamant_core::Error>(())
//! ```
//!
//! # How it works
//! A transform is an interpreter of ops, and it stands where ops are applied. `vmap` and `jvp` run the function once, on
//! tensors that stand for what they carry along (a stack of examples, a tangent), and interpret each op as it comes, by
//! a rule per primitive. Derivatives by reverse walk the tape, which every op is noted on anyway. The alternative was to
//! capture a function as a [`Graph`](crate::graph::Graph) first and to interpret that. It was not taken because
//! - a closure may capture what another transform's function has just computed (`vmap(|x| vmap(|y| &x * y)(ys))`), which
//!   is a value of another capture, and tensors that are tracked, whose place on the tape a captured value does not have;
//! - under `jvp`, `grad` and `vjp` code may look at data and branch, as it may without them;
//! - cells are read and written at the moment the code does, so what is read after a write is what was written;
//! - nothing is recorded twice, and what the rules apply is planned, fused and compiled with what is around.
//!
//! A function of the user's own that is a [`Composite`](crate::Composite) works with all of them through its body, or its
//! gradient rule, without a line more.
//!
//! # Conventions
//! - Functions take and return [`Tensors`]: a tensor, or tuples, arrays, vectors and maps of them.
//! - A function's captures are constants; gradients of what is around flow to those that are tracked.
//! - Building never fails: errors are carried by the tensors that are returned. A failed tensor passes through.
//! - What has no derivative (integers, bools, comparisons, indices, rounding) has the derivative zero; asking for the
//!   gradient *by* an integer is an error.
//! - Inside `vmap` a value has no data to read. To do so, also by an op whose result's shape depends on data, is an error
//!   of the kind [`Transform`](crate::ErrorKind::Transform).
//! - `no_grad` and `detach` inside a function hold for all transforms around it; `no_grad` around a transform does not
//!   change what it computes, only whether the results can be differentiated further.
//! - A transform is a matter of its thread: what is handed to another one is not interpreted there.
//!
//! Sources: JAX, "Autodidax" (2021), whose levels are the frames here; PyTorch's functorch, whose `vmap` has the same
//! options.
use crate::{Error, Result, Tensor};
use std::collections::BTreeMap;

mod batch;
mod forward;
mod frame;
mod jvp;
mod matrix;
mod reverse;
mod vmap;

pub use forward::jvp;
pub(crate) use frame::{any, apart, apply, read_cell, sweep, unreadable, with_tangents, written};
pub use matrix::{JacobianMode, hessian, hvp, jacfwd, jacobian, jacrev};
pub use reverse::{grad, linearize, value_and_grad, vjp};
pub use vmap::{Cells, Randomness, Vmap, vmap, vmap_with};

/// Is a transform at work on this thread? What ops give there is of its levels, and means nothing once it is over: for interceptors that keep values.
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::{is_active, vmap}};
/// # Device::reference().make_current();
/// let inside = |x: Tensor| {
///     assert!(is_active());
///     x
/// };
/// vmap(inside)(Tensor::ones([2, 2])).materialize()?;
/// assert!(!is_active());
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn is_active() -> bool {
    any()
}
/// What a transformed function takes and returns: some tensors in a structure of their own.
///
/// ```
/// # use adamant_core::{Device, Tensor, transform::Tensors};
/// # Device::reference().make_current();
/// let pair = (Tensor::ones([2]), vec![Tensor::zeros([3])]);
/// let doubled = pair.map(&mut |t| t * 2.0);
/// assert_eq!(doubled.0.to_vec::<f32>()?, [2.0, 2.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub trait Tensors: Clone {
    /// The same structure of what `f` makes of each tensor, from first to last.
    #[must_use]
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self;
}
impl Tensors for Tensor {
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Tensor {
        f(self)
    }
}
impl<T: Tensors> Tensors for Vec<T> {
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Vec<T> {
        self.iter().map(|t| t.map(f)).collect()
    }
}
impl<T: Tensors, const N: usize> Tensors for [T; N] {
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> [T; N] {
        self.each_ref().map(|t| t.map(f))
    }
}
impl<T: Tensors> Tensors for Option<T> {
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<T> {
        self.as_ref().map(|t| t.map(f))
    }
}
impl<K: Ord + Clone, T: Tensors> Tensors for BTreeMap<K, T> {
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> BTreeMap<K, T> {
        self.iter().map(|(k, t)| (k.clone(), t.map(f))).collect()
    }
}
/// What `?` is used in: an error stays as it is.
impl<T: Tensors> Tensors for Result<T> {
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Result<T> {
        self.as_ref().map(|t| t.map(f)).map_err(Error::clone)
    }
}
macro_rules! tuples {
    ($(($($name:ident $k:tt),*))*) => { $(
        impl<$($name: Tensors),*> Tensors for ($($name,)*) {
            #[allow(unused_variables, clippy::unused_unit, reason = "the empty one has nothing to map")]
            fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self { ($(self.$k.map(f),)*) }
        }
    )* };
}
tuples! { () (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4) (A 0, B 1, C 2, D 3, E 4, F 5) }

/// The tensors of a structure, in order.
fn leaves(of: &impl Tensors) -> Vec<Tensor> {
    let mut all = Vec::new();
    let _same = of.map(&mut |t| {
        all.push(t.clone());
        t.clone()
    });
    all
}
/// A structure like this one of these tensors.
fn tree<T: Tensors>(like: &T, of: &[Tensor]) -> T {
    let mut next = of.iter();
    like.map(&mut |t| next.next().unwrap_or(t).clone())
}

#[cfg(test)]
mod tests;
