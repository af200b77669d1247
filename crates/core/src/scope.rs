//! The path of layers that the code is in, kept per thread. An op remembers the scope it was applied in,
//! so that an error, a profile or a trace can name `encoder.block.3.attn` and the line that entered it.
use parking_lot::Mutex;
use std::{
    cell::RefCell,
    collections::HashMap,
    panic::Location,
    sync::{Arc, LazyLock},
};

/// A scope: 0 is outside any layer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ScopeId(pub u32);

type Key = (Arc<str>, &'static Location<'static>);
#[derive(Default)]
struct Table {
    ids: HashMap<Key, u32>,
    scopes: Vec<Key>,
}
static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Default::default);
thread_local! {
    static STACK: RefCell<Vec<ScopeId>> = const { RefCell::new(Vec::new()) };
}

/// The scope this thread is in.
pub fn current() -> ScopeId {
    STACK.with(|s| s.borrow().last().copied().unwrap_or_default())
}
/// The dotted path of a scope.
pub fn path(scope: ScopeId) -> String {
    match scope.0 {
        0 => String::new(),
        n => TABLE.lock().scopes.get(n as usize - 1).map(|k| k.0.to_string()).unwrap_or_default(),
    }
}
/// The line that entered the scope.
pub fn entered_at(scope: ScopeId) -> Option<&'static Location<'static>> {
    if scope.0 == 0 { None } else { TABLE.lock().scopes.get(scope.0 as usize - 1).map(|k| k.1) }
}

/// Leaves the scope when dropped.
#[must_use = "the scope ends when the guard is dropped"]
pub struct ScopeGuard(());
impl Drop for ScopeGuard {
    fn drop(&mut self) {
        STACK.with(|s| s.borrow_mut().pop());
    }
}
/// Enters the layer `name` inside the current scope until the guard is dropped.
#[track_caller]
pub fn enter(name: &str) -> ScopeGuard {
    let parent = current();
    let full: Arc<str> = if parent.0 == 0 { name.into() } else { format!("{}.{name}", path(parent)).into() };
    enter_path(&full)
}
/// Enters the scope of a full path (a parameter knows its own).
#[track_caller]
pub fn enter_path(full: &Arc<str>) -> ScopeGuard {
    let key = (full.clone(), Location::caller());
    let id = {
        let mut table = TABLE.lock();
        match table.ids.get(&key) {
            Some(&id) => id,
            None => {
                table.scopes.push(key.clone());
                let id = table.scopes.len() as u32;
                table.ids.insert(key, id);
                id
            }
        }
    };
    STACK.with(|s| s.borrow_mut().push(ScopeId(id)));
    ScopeGuard(())
}
/// Runs `f` in a known scope (backward ops inherit the scope of the op they differentiate).
pub fn within<R>(scope: ScopeId, f: impl FnOnce() -> R) -> R {
    STACK.with(|s| s.borrow_mut().push(scope));
    let _guard = ScopeGuard(());
    f()
}
