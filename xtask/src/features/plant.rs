//! The fault that is planted now. A check asks for its faults by name at the place where its subject is: the subject is
//! then made wrong or slow, and goes before the same judge. A program that a check starts is told by an argument.
use parking_lot::RwLock;

static NOW: RwLock<Option<String>> = RwLock::new(None);

/// Is this fault planted?
pub fn planted(fault: &str) -> bool {
    NOW.read().as_deref() == Some(fault)
}
/// What is planted, for a program that is started.
pub fn current() -> Option<String> {
    NOW.read().clone()
}
/// Plants a fault for the rest of the program, or none.
pub fn set(fault: Option<String>) {
    *NOW.write() = fault;
}
