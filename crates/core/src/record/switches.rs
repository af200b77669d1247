//! How a thread's windows close while a function runs: sooner, or at each op. Tests cut windows by it.
use super::context;

/// Number of pending ops after which this thread's windows close while `f` runs (for tests of window cuts).
pub fn with_window<R>(ops: usize, f: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            context(|c| c.window.set(self.0));
        }
    }
    let _restore = Restore(context(|c| c.window.replace(ops)));
    f()
}
/// Runs every op at once while `f` runs, as `ADAMANT_EAGER=1` does for the whole program.
pub fn with_eager<R>(on: bool, f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            context(|c| c.eager.set(self.0));
        }
    }
    let _restore = Restore(context(|c| c.eager.replace(on)));
    f()
}
