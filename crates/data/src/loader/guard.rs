//! Foreign code that may panic: its panic becomes a text with the place, and is not printed.
//!
//! Rust calls the program's panic hook before anything can catch a panic, and the usual hook prints. A loader that names bad
//! records prints nothing, so the first guard puts a hook before the one that is there: it keeps the place of a panic under
//! guard to itself, and hands every other panic on. It is the one thing of the process that this crate touches.
use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::Once,
};

thread_local! {
    /// guards that this thread is under
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}
static HOOK: Once = Once::new();

/// Runs it; of a panic, its text and its place in the source.
pub(crate) fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    // A thread that is panicking already may not change the hook; then its own panic is printed as ever.
    if !std::thread::panicking() {
        HOOK.call_once(|| {
            let before = take_hook();
            set_hook(Box::new(move |info| {
                // A thread that ends has no depth any more: its panic is nobody's.
                if DEPTH.try_with(Cell::get).unwrap_or(0) == 0 {
                    return before(info);
                }
                let place = info.location().map(ToString::to_string);
                let _ = PLACE.try_with(|p| p.try_borrow_mut().map(|mut p| *p = place));
            }));
        });
    }
    DEPTH.set(DEPTH.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(run));
    DEPTH.set(DEPTH.get() - 1);
    done.map_err(|panic| match PLACE.take() {
        Some(place) => format!("{} ({place})", text_of(&*panic)),
        None => text_of(&*panic).to_string(),
    })
}
fn text_of(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "no text",
    }
}
