//! What ran: each kernel of a piece of work with what ran it (which matrix library, which instruction set) and on how
//! many threads. Costs one thread-local flag where nobody asks. Must not know what a kernel computes.
use std::cell::{Cell, RefCell};

/// One kernel that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// its family: `map`, `reduce`, `matmul`, ...
    pub kernel: &'static str,
    /// what ran it: an instruction set (`avx2`), for a matrix product after its library (`own avx2`, `openblas`)
    pub by: String,
    /// the threads that took part of its work, the caller's among them
    pub threads: usize,
}
thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static RAN: RefCell<Vec<Ran>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` and lists the kernels that this thread handed to CPU devices meanwhile, in order.
///
/// ```
/// # use adamant_backend_cpu::{Context, CpuBackend, trace::trace};
/// # use adamant_core::Tensor;
/// let device = Context::new(CpuBackend::builder().threads(1))?.device();
/// let (_, ran) = trace(|| device.scoped(|| Tensor::ones([4, 4]).matmul(Tensor::ones([4, 4])).materialize()));
/// assert!(ran.iter().any(|r| r.kernel == "matmul" && r.threads == 1));
/// # Ok::<(), adamant_runtime::Error>(())
/// ```
pub fn trace<R>(f: impl FnOnce() -> R) -> (R, Vec<Ran>) {
    /// An outer trace goes on without what an inner one has seen, also if `f` panics.
    struct Outer(bool, Vec<Ran>);
    impl Drop for Outer {
        fn drop(&mut self) {
            ON.set(self.0);
            let _ = RAN.try_with(|ran| ran.replace(std::mem::take(&mut self.1)));
        }
    }
    // A thread that ends lists nothing.
    let taken = || RAN.try_with(|ran| ran.take()).unwrap_or_default();
    let outer = Outer(ON.replace(true), taken());
    let result = f();
    let ran = taken();
    drop(outer);
    (result, ran)
}
/// A kernel begins, of this family and run by this.
#[inline]
pub(crate) fn begin(told: impl FnOnce() -> (&'static str, String)) {
    if ON.get() {
        let (kernel, by) = told();
        let _ = RAN.try_with(|ran| ran.borrow_mut().push(Ran { kernel, by, threads: 1 }));
    }
}
/// The kernel at work is run by this.
pub(crate) fn by(text: impl FnOnce() -> String) {
    if ON.get() {
        let _ = RAN.try_with(|ran| {
            if let Some(last) = ran.borrow_mut().last_mut() {
                last.by = text();
            }
        });
    }
}
/// The kernel at work has used so many threads.
pub(crate) fn threads(count: usize) {
    if ON.get() {
        let _ = RAN.try_with(|ran| {
            if let Some(last) = ran.borrow_mut().last_mut() {
                last.threads = last.threads.max(count);
            }
        });
    }
}
