//! Where code is called that is not this library's: a backend, the body of a composite, a communicator. A panic in it ends
//! what it was asked for, as an error, and nothing else.
use crate::ErrorKind;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs `f`; `place` says whose code it is and what it does, in case it panics.
pub fn guarded<R>(place: impl FnOnce() -> String, f: impl FnOnce() -> R) -> Result<R, ErrorKind> {
    // What `f` was at work on is either dropped with the panic or said to have failed.
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        let message = message(&*payload);
        // A payload's own `Drop` may panic as well. Nobody needs it.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload))).map_err(std::mem::forget);
        ErrorKind::Panicked { place: place(), message }
    })
}
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_string()
}
