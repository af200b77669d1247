//! The one door to change behaviour: an interceptor sees the ops that the user applies, composites whole, before
//! inlining. Rules, inlined bodies, passes and recomputation run below it. It acts on metas and may add ops; it
//! never reads data.
use crate::{Arg, Device, Op, Origin, Tensor, record::context, tensor::Outputs};
use std::{cell::RefCell, sync::Arc};

/// Sees each op before it is recorded.
pub trait Interceptor: Send + Sync {
    /// Returns the op's outputs. `next` applies an op below this interceptor; pass the op through it, change it, or add to it.
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs;
}
thread_local! {
    static STACK: RefCell<Vec<Arc<dyn Interceptor>>> = const { RefCell::new(Vec::new()) };
}
/// Runs `f` with an interceptor on top of those already there.
pub fn with<R>(interceptor: Arc<dyn Interceptor>, f: impl FnOnce() -> R) -> R {
    struct Pop;
    impl Drop for Pop {
        fn drop(&mut self) {
            let _top = STACK.try_with(|s| s.borrow_mut().pop());
        }
    }
    // A thread that ends has no doors: nothing is recorded there.
    let _ = STACK.try_with(|s| s.borrow_mut().push(interceptor));
    let _pop = Pop;
    f()
}
pub(crate) fn any() -> bool {
    STACK.try_with(|s| !s.borrow().is_empty()).unwrap_or(false) && context(|c| c.below_door.get() == 0)
}
/// How many interceptors stand before the ops of this thread.
pub(crate) fn depth() -> usize {
    STACK.try_with(|s| s.borrow().len()).unwrap_or(0)
}
pub(crate) fn apply(op: Op, arg: Arg, inputs: &[&Tensor], source: Option<Device>, origin: Origin) -> Outputs {
    let stack = STACK.try_with(|s| s.borrow().clone()).unwrap_or_default();
    through(&stack, op, arg, inputs, source, origin)
}
fn through(stack: &[Arc<dyn Interceptor>], op: Op, arg: Arg, inputs: &[&Tensor], source: Option<Device>, origin: Origin) -> Outputs {
    match stack.split_last() {
        None => below(|| Tensor::apply_below(op, arg, inputs, source, origin)),
        Some((top, rest)) => below(|| top.intercept(op, arg, inputs, &|op, arg, inputs| through(rest, op, arg, inputs, source, origin))),
    }
}
/// Runs `f` below the interceptors.
pub(crate) fn below<R>(f: impl FnOnce() -> R) -> R {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            context(|c| c.below_door.set(c.below_door.get() - 1));
        }
    }
    context(|c| c.below_door.set(c.below_door.get() + 1));
    let _restore = Restore;
    f()
}
