//! What is around a computation without being an argument of it, as one value: whether gradients are recorded, interceptors,
//! the default device, the scope, whether ops run at once, whether dtypes promote. All of it belongs to a thread; an [`Ambient`] takes it to another one,
//! and tells a capture whether it was made in the same surroundings. Must not know who carries it.
use crate::{
    Device,
    intercept::{self, Stack},
    record::{RecordingContext, context},
    scope::{self, ScopeGuard, ScopeId},
};
use std::{marker::PhantomData, sync::Arc};

/// The surroundings of a computation. Cheap to clone; taken to another thread, it makes what runs there the same computation:
///
/// ```
/// # use adamant_core::{Ambient, Device, Tensor, grad, no_grad};
/// # Device::reference().make_current();
/// let recorded = no_grad(|| {
///     let ambient = Ambient::current();
///     std::thread::spawn(move || {
///         let _around = ambient.enter();
///         (grad::grad_enabled(), Device::current().map(|d| d.is_reference()))
///     })
///     .join()
/// });
/// assert!(matches!(recorded, Ok((false, Ok(true)))));
/// ```
///
/// Transforms are no part of it: they interpret what their own thread applies.
#[derive(Clone)]
pub struct Ambient {
    grad_off: bool,
    eager: bool,
    strict: bool,
    below_interceptors: u32,
    interceptors: Option<Arc<Stack>>,
    device: Option<Device>,
    scope: ScopeId,
}
impl Ambient {
    /// Those of this thread now.
    pub fn current() -> Ambient {
        context(|c| Ambient {
            grad_off: c.grad_off.get(),
            eager: c.eager.get(),
            strict: c.strict.get(),
            below_interceptors: c.below_interceptors.get(),
            interceptors: intercept::stack(),
            device: Device::of_thread(),
            scope: scope::current(),
        })
    }
    /// Makes them this thread's until the guard is dropped, also by a panic; guards are dropped in the reverse of their order.
    pub fn enter(&self) -> AmbientGuard {
        let before = Ambient::current();
        let scope = scope::enter_again(self.scope);
        self.set();
        AmbientGuard { before, _scope: scope, _of_this_thread: PhantomData }
    }
    fn set(&self) {
        context(|c| {
            c.grad_off.set(self.grad_off);
            c.eager.set(self.eager);
            c.strict.set(self.strict);
            c.below_interceptors.set(self.below_interceptors);
        });
        intercept::set_stack(self.interceptors.clone());
        Device::set_of_thread(self.device);
    }
    /// A number that two have in common exactly if a function does the same in both, whether gradients are recorded and where
    /// layers stand apart: the same interceptors in the same order, one default device, and dtypes that promote in both or in neither. Interceptors are the same if they are
    /// one, or of one type with one [key](crate::intercept::Interceptor::key). It is never used again for others.
    pub fn identity(&self) -> u64 {
        let interceptors = self.interceptors.as_deref().filter(|_| self.below_interceptors == 0);
        identity_of(interceptors.map_or(0, Stack::identity), self.strict, self.device.or_else(|| Device::current().ok()))
    }
}
/// [`Ambient::identity`] of this thread now, whose context this is.
#[inline]
pub(crate) fn identity(c: &RecordingContext) -> u64 {
    // What an interceptor itself applies meets none of them.
    let interceptors = if c.below_interceptors.get() == 0 { intercept::identity() } else { 0 };
    identity_of(interceptors, c.strict.get(), Device::current().ok())
}
fn identity_of(interceptors: u64, strict: bool, device: Option<Device>) -> u64 {
    interceptors << 17 | u64::from(strict) << 16 | device.map_or(0, |d| u64::from(d.index()) + 1)
}

/// Gives a thread back what was around it before.
#[must_use = "the surroundings are left when the guard is dropped"]
pub struct AmbientGuard {
    before: Ambient,
    _scope: ScopeGuard,
    _of_this_thread: PhantomData<*const ()>,
}
impl Drop for AmbientGuard {
    fn drop(&mut self) {
        self.before.set();
    }
}
