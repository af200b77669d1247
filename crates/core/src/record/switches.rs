//! How a thread's windows close while a function runs: sooner, or at each op. Tests cut windows by it.
use super::with_switch;

/// Number of pending ops after which this thread's windows close while `f` runs (for tests of window cuts).
pub fn with_window<R>(ops: usize, f: impl FnOnce() -> R) -> R {
    with_switch(|c| &c.window, ops, f)
}
/// Runs every op at once while `f` runs, as `ADAMANT_EAGER=1` does for the whole program.
pub fn with_eager<R>(on: bool, f: impl FnOnce() -> R) -> R {
    with_switch(|c| &c.eager, on, f)
}
