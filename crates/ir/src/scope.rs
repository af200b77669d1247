//! The path of layers that the code is in, kept per thread. An op remembers the scope it was applied in,
//! so that an error, a profile or a trace can name `encoder.block.3.attn` and the line that entered it.
use crate::error::Origin;
use parking_lot::Mutex;
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    panic::Location,
    sync::{Arc, LazyLock},
};

/// A scope: 0 is outside any layer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ScopeId(pub u32);

#[derive(Clone, PartialEq, Eq, Hash)]
struct ScopeKey {
    path: Arc<str>,
    entered_at: &'static Location<'static>,
    /// the range that a profiler's user named, if the code is in one
    range: Option<Arc<str>>,
}
#[derive(Default)]
struct ScopeTable {
    ids: HashMap<ScopeKey, u32>,
    scopes: Vec<ScopeKey>,
}
impl ScopeTable {
    fn get(&self, scope: ScopeId) -> Option<&ScopeKey> {
        self.scopes.get((scope.0 as usize).checked_sub(1)?)
    }
    fn id(&mut self, key: ScopeKey) -> ScopeId {
        let next = self.scopes.len() as u32 + 1;
        let id = *self.ids.entry(key.clone()).or_insert(next);
        if id == next {
            self.scopes.push(key);
        }
        ScopeId(id)
    }
}
static TABLE: LazyLock<Mutex<ScopeTable>> = LazyLock::new(Default::default);
thread_local! {
    static STACK: RefCell<Vec<ScopeId>> = const { RefCell::new(Vec::new()) };
    static INHERITED: Cell<Option<Origin>> = const { Cell::new(None) };
}
/// The origin that all this thread applies takes over: inside a function composed of ops, and while rules run.
#[inline]
pub fn inherited() -> Option<Origin> {
    // No destructor, so it is always there.
    INHERITED.get()
}
/// Sets what [`inherited`] gives, and returns what it gave.
#[inline]
pub fn inherit(origin: Option<Origin>) -> Option<Origin> {
    INHERITED.replace(origin)
}

/// The name of a function that a user calls and that applies several ops, as a number: an origin carries it. 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CalledId(u32);
static CALLED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
/// The names that a thread asked for last, by their addresses.
const RECENT: usize = 64;
thread_local! {
    static RECENT_CALLS: [Cell<((usize, usize), u32)>; RECENT] = const { [const { Cell::new(((0, 0), 0)) }; RECENT] };
}
impl CalledId {
    /// The number of a name.
    #[inline]
    pub fn of(name: &'static str) -> CalledId {
        let at = (name.as_ptr() as usize, name.len());
        RECENT_CALLS.with(|recent| {
            let place = &recent[(at.0 >> 2) % RECENT];
            match place.get() {
                (known, id) if known == at => CalledId(id),
                _ => {
                    let id = CalledId::looked_up(name);
                    place.set((at, id.0));
                    id
                }
            }
        })
    }
    #[cold]
    fn looked_up(name: &'static str) -> CalledId {
        let mut names = CALLED.lock();
        let known = names.iter().position(|n| *n == name);
        let k = known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        CalledId(k as u32 + 1)
    }
}
/// The function that was called, unless it was a single op.
pub fn called_name(id: CalledId) -> Option<&'static str> {
    CALLED.lock().get((id.0 as usize).checked_sub(1)?).copied()
}
/// Ends the call when dropped.
#[must_use = "the call ends when the guard is dropped"]
pub struct CallGuard(Option<Origin>);
impl Drop for CallGuard {
    #[inline(never)]
    fn drop(&mut self) {
        inherit(self.0);
    }
}
/// What this thread applies until the guard is dropped is of the function `name`, which was called from the caller's line:
/// errors of it name both. A function that calls this one, and the walk back, keep their own. Not around a user's closure.
#[track_caller]
#[inline]
pub fn call(name: &'static str) -> CallGuard {
    call_at(name, Origin::here())
}
/// The origin of what a function does later that is made here: its line, under the function's name.
#[track_caller]
pub fn called_here(name: &'static str) -> Origin {
    let origin = Origin::here();
    if origin.called == CalledId::default() { Origin { called: CalledId::of(name), ..origin } } else { origin }
}
/// [`call`] from a known line.
#[inline]
pub fn call_at(name: &'static str, origin: Origin) -> CallGuard {
    let outer = inherited();
    if outer.is_none() {
        inherit(Some(Origin { called: CalledId::of(name), ..origin }));
    }
    CallGuard(outer)
}

/// The scope this thread is in.
#[inline]
pub fn current() -> ScopeId {
    // A thread that ends is in no layer.
    STACK.try_with(|s| s.borrow().last().copied()).ok().flatten().unwrap_or_default()
}
/// The dotted path of a scope.
pub fn path(scope: ScopeId) -> String {
    TABLE.lock().get(scope).map(|k| k.path.to_string()).unwrap_or_default()
}
/// The line that entered the scope.
pub fn entered_at(scope: ScopeId) -> Option<&'static Location<'static>> {
    if scope.0 == 0 { None } else { TABLE.lock().get(scope).map(|k| k.entered_at) }
}

/// Leaves the scope when dropped.
#[must_use = "the scope ends when the guard is dropped"]
pub struct ScopeGuard(());
impl Drop for ScopeGuard {
    fn drop(&mut self) {
        let _ = STACK.try_with(|s| s.borrow_mut().pop());
    }
}
/// Enters the layer `name` inside the current scope until the guard is dropped.
#[track_caller]
pub fn enter(name: &str) -> ScopeGuard {
    let parent = path(current());
    let full: Arc<str> = if parent.is_empty() { name.into() } else { format!("{parent}.{name}").into() };
    enter_path(&full)
}
/// Enters the scope of a full path (a parameter knows its own).
#[track_caller]
pub fn enter_path(full: &Arc<str>) -> ScopeGuard {
    let (outer, entered_at) = (current(), Location::caller());
    let id = {
        let mut table = TABLE.lock();
        let range = table.get(outer).and_then(|k| k.range.clone());
        table.id(ScopeKey { path: full.clone(), entered_at, range })
    };
    push(id)
}
fn push(id: ScopeId) -> ScopeGuard {
    let _ = STACK.try_with(|s| s.borrow_mut().push(id));
    ScopeGuard(())
}
/// Enters a known scope until the guard is dropped, as another thread's.
pub fn enter_again(scope: ScopeId) -> ScopeGuard {
    push(scope)
}
/// Runs `f` in a known scope (backward ops inherit the scope of the op they differentiate).
pub fn within<R>(scope: ScopeId, f: impl FnOnce() -> R) -> R {
    let _guard = push(scope);
    f()
}

/// The ranges of a profiler. They are part of the scope, so an op remembers for nothing in which one it was recorded.
#[cfg(feature = "profiling")]
mod ranges {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// Has any range been entered? Only then may a scope have one.
    static ANY: AtomicBool = AtomicBool::new(false);

    /// Enters the range `name` in the layer that the code is in.
    #[track_caller]
    pub fn enter_range(name: &Arc<str>) -> ScopeGuard {
        ANY.store(true, Relaxed);
        let (outer, caller) = (current(), Location::caller());
        let id = {
            let mut table = TABLE.lock();
            let (path, entered_at) = table.get(outer).map_or_else(|| ("".into(), caller), |k| (k.path.clone(), k.entered_at));
            table.id(ScopeKey { path, entered_at, range: Some(name.clone()) })
        };
        push(id)
    }
    /// The range that a scope is in.
    pub fn range(scope: ScopeId) -> Option<Arc<str>> {
        TABLE.lock().get(scope).and_then(|k| k.range.clone())
    }
    /// A layer's scope in the range that this thread is in now: the backward of a layer belongs to the layer, and to the
    /// range of the backward.
    #[inline]
    pub fn in_this_range(scope: ScopeId) -> ScopeId {
        if ANY.load(Relaxed) { ranged(scope) } else { scope }
    }
    #[cold]
    fn ranged(scope: ScopeId) -> ScopeId {
        let outer = current();
        let mut table = TABLE.lock();
        let now = table.get(outer).and_then(|k| k.range.clone());
        let (path, entered_at) = match (table.get(scope), table.get(outer)) {
            (Some(k), _) if k.range == now => return scope,
            (Some(k), _) => (k.path.clone(), k.entered_at),
            (None, Some(k)) if now.is_some() => ("".into(), k.entered_at),
            _ => return scope,
        };
        table.id(ScopeKey { path, entered_at, range: now })
    }
}
#[cfg(feature = "profiling")]
pub use ranges::{enter_range, in_this_range, range};
