//! The one way to change behaviour from outside: an interceptor sees the ops that the user applies, composites whole, before
//! inlining. Rules, inlined bodies and passes run below it; a checkpoint that is computed again meets those that stood there. It
//! acts on metas and may add ops; it never reads data.
pub use crate::cell::{cast_once, casting_once};
use crate::{Arg, Device, Op, Origin, Outputs, Tensor, record::context, scope};
use parking_lot::Mutex;
use std::{
    any::{Any, TypeId},
    cell::{Cell, RefCell},
    collections::{HashMap, HashSet},
    sync::{Arc, LazyLock, Weak},
};

/// Sees each op before it is recorded.
///
/// ```
/// # use adamant_core::{Arg, DType, Device, Op, Outputs, Tensor, compile, intercept::{Interceptor, with}, scalar::Unary};
/// # use std::sync::Arc;
/// # Device::reference().make_current();
/// /// Exponentials are taken in another dtype.
/// struct CastExp(DType);
/// impl Interceptor for CastExp {
///     fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs {
///         if !matches!(op, Op::Unary(Unary::Exp)) {
///             return next(op, arg, inputs);
///         }
///         let cast = inputs[0].cast(self.0);
///         next(op, arg, &[&cast]).into_iter().map(|t| t.cast(DType::F32)).collect()
///     }
///     fn key(&self) -> Option<u64> {
///         Some(self.0 as u64)
///     }
/// }
/// let x = Tensor::full([1], 1.0 / 3.0, DType::F32);
/// // Made anew at each step, and one capture: it has the same key each time.
/// let f = compile(|x: &[Tensor]| Ok(vec![x[0].exp()]));
/// for _ in 0..3 {
///     let y = with(Arc::new(CastExp(DType::BF16)), || f.call(&[&x]))?;
///     assert_ne!(y[0].to_vec::<f32>()?, x.exp().to_vec::<f32>()?);
/// }
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub trait Interceptor: Any + Send + Sync {
    /// Returns the op's outputs. `next` applies an op below this interceptor; pass the op through it, change it, or add to it.
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: &dyn Fn(Op, Arg, &[&Tensor]) -> Outputs) -> Outputs;
    /// All that [`Interceptor::intercept`] depends on, as a number: two of one type with the same key do the same, and share
    /// captures and what is kept of cells. It is asked for each time the interceptor is [put](with) around something.
    ///
    /// Without a key, the default, an interceptor is only itself: one made anew at each step is captured anew at each step. A type
    /// without fields needs no key: all of its kind are one.
    fn key(&self) -> Option<u64> {
        None
    }
    /// Does it bring inputs of several dtypes to one? Then functions leave it to their ops to refuse them.
    fn casts(&self) -> bool {
        false
    }
}

/// An interceptor and those below it.
pub(crate) struct Stack {
    top: Arc<dyn Interceptor>,
    below: Option<Arc<Stack>>,
    identity: u64,
    /// does any of them cast?
    casts: bool,
}
impl Stack {
    /// A number that all stacks of the same interceptors in the same order have, and never another one.
    pub fn identity(&self) -> u64 {
        self.identity
    }
}
thread_local! {
    static STACK: RefCell<Option<Arc<Stack>>> = const { RefCell::new(None) };
    /// The number of that stack, 0: none. Each op asks for it.
    static IDENTITY: Cell<u64> = const { Cell::new(0) };
}

/// The most keys that are remembered. One that is forgotten gets another number when it comes again, so it is captured again.
const MOST_KEYS: usize = 256;
/// The number of a key, and when it was last asked for.
struct KeyNumber {
    number: u64,
    used: u64,
}
/// The numbers of interceptors and of stacks, which are given once.
#[derive(Default)]
struct InterceptorNumbers {
    last: u64,
    /// By the address, which no other interceptor has while the weak handle holds the place.
    interceptors: HashMap<usize, (Weak<dyn Interceptor>, u64)>,
    /// By type and key: whoever has the same does the same.
    keys: HashMap<(TypeId, u64), KeyNumber>,
    /// By the number of the stack below, 0 for none, and that of the interceptor on top.
    stacks: HashMap<(u64, u64), u64>,
    /// how many interceptors there may be before those that are gone are looked for
    most: usize,
}
static NUMBERS: LazyLock<Mutex<InterceptorNumbers>> = LazyLock::new(Default::default);
impl InterceptorNumbers {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
    /// `key` was asked for while nothing was locked: it is code of the user's.
    fn of_interceptor(&mut self, interceptor: &Arc<dyn Interceptor>, key: Option<u64>) -> u64 {
        if let Some(key) = key {
            return self.of_key((kind(interceptor), key));
        }
        let address = Arc::as_ptr(interceptor).cast::<()>() as usize;
        if let Some((_, number)) = self.interceptors.get(&address).filter(|(held, _)| held.strong_count() > 0) {
            return *number;
        }
        if self.interceptors.len() >= self.most {
            self.forget();
        }
        let number = self.next();
        self.interceptors.insert(address, (Arc::downgrade(interceptor), number));
        number
    }
    fn of_key(&mut self, key: (TypeId, u64)) -> u64 {
        let number = self.next();
        if let Some(known) = self.keys.get_mut(&key) {
            known.used = number;
            return known.number;
        }
        if self.keys.len() >= MOST_KEYS
            && let Some(oldest) = self.keys.iter().min_by_key(|(_, known)| known.used).map(|(key, _)| *key)
        {
            self.keys.remove(&oldest);
            self.forget();
        }
        self.keys.insert(key, KeyNumber { number, used: number });
        number
    }
    fn of_stack(&mut self, below: u64, top: u64) -> u64 {
        if let Some(number) = self.stacks.get(&(below, top)) {
            return *number;
        }
        let number = self.next();
        self.stacks.insert((below, top), number);
        number
    }
    /// Forgets interceptors that are gone, and the stacks that they stood in.
    fn forget(&mut self) {
        self.interceptors.retain(|_, (held, _)| held.strong_count() > 0);
        let alive: HashSet<u64> = self.interceptors.values().map(|(_, number)| *number).chain(self.keys.values().map(|known| known.number)).collect();
        self.stacks.retain(|(_, top), _| alive.contains(top));
        loop {
            let stacks: HashSet<u64> = self.stacks.values().copied().collect();
            self.stacks.retain(|(below, _), _| *below == 0 || stacks.contains(below));
            if self.stacks.len() == stacks.len() {
                break;
            }
        }
        self.most = 2 * self.interceptors.len() + 64;
    }
}

/// The type behind the trait.
fn kind(interceptor: &Arc<dyn Interceptor>) -> TypeId {
    let any: &dyn Any = &**interceptor;
    any.type_id()
}
/// What an interceptor says of itself. One without fields has no settings by which two could differ.
fn key(interceptor: &dyn Interceptor) -> Option<u64> {
    interceptor.key().or_else(|| (size_of_val(interceptor) == 0).then_some(0))
}

/// Runs `f` with an interceptor on top of those already there.
pub fn with<R>(interceptor: Arc<dyn Interceptor>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<Arc<Stack>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            set_stack(self.0.take());
        }
    }
    let below = stack();
    let key = key(&*interceptor);
    let identity = {
        let mut numbers = NUMBERS.lock();
        let top = numbers.of_interceptor(&interceptor, key);
        numbers.of_stack(below.as_ref().map_or(0, |s| s.identity), top)
    };
    let casts = interceptor.casts() || below.as_ref().is_some_and(|s| s.casts);
    set_stack(Some(Arc::new(Stack { top: interceptor, below: below.clone(), identity, casts })));
    let _restore = Restore(below);
    f()
}
/// Those of this thread. A thread that ends has none: nothing is recorded there.
pub(crate) fn stack() -> Option<Arc<Stack>> {
    STACK.try_with(|s| s.borrow().clone()).ok().flatten()
}
/// The number of this thread's stack, 0 where there is none.
#[inline]
pub(crate) fn identity() -> u64 {
    IDENTITY.with(Cell::get)
}
pub(crate) fn set_stack(stack: Option<Arc<Stack>>) {
    let identity = stack.as_ref().map_or(0, |s| s.identity);
    // What goes may be a user's, whose `Drop` does as it likes: nothing is borrowed meanwhile.
    let before = STACK.try_with(|s| s.replace(stack));
    // A thread that ends has no stack, and no number of one.
    IDENTITY.set(if before.is_ok() { identity } else { 0 });
}
pub(crate) fn any() -> bool {
    identity() != 0 && context(|c| c.below_interceptors.get() == 0)
}
/// Is an interceptor around that [casts](Interceptor::casts)?
pub(crate) fn casts() -> bool {
    any() && stack().is_some_and(|s| s.casts)
}
pub(crate) fn apply(op: Op, arg: Arg, inputs: &[&Tensor], source: Option<Device>, origin: Origin) -> Outputs {
    through(stack().as_deref(), op, arg, inputs, source, origin)
}
fn through(stack: Option<&Stack>, op: Op, arg: Arg, inputs: &[&Tensor], source: Option<Device>, origin: Origin) -> Outputs {
    match stack {
        None => below(|| Tensor::apply_below(op, arg, inputs, source, origin)),
        Some(s) => below(|| {
            let _line = OriginOf::new(origin);
            s.top.intercept(op, arg, inputs, &|op, arg, inputs| through(s.below.as_deref(), op, arg, inputs, source, origin))
        }),
    }
}
/// What an interceptor applies is of the line and the layer of the op that it sees ([`Origin::here`] tells it them).
struct OriginOf(Option<Origin>);
impl OriginOf {
    fn new(origin: Origin) -> OriginOf {
        OriginOf(scope::inherit(Some(origin)))
    }
}
impl Drop for OriginOf {
    fn drop(&mut self) {
        scope::inherit(self.0);
    }
}
/// Runs `f` under all interceptors of this thread, for one that applies what a composite is made of in its place: from the top, so it
/// must not apply that composite again.
pub fn again<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            context(|c| c.below_interceptors.set(self.0));
        }
    }
    let _restore = Restore(context(|c| c.below_interceptors.replace(0)));
    f()
}
/// Runs `f` below the interceptors.
pub(crate) fn below<R>(f: impl FnOnce() -> R) -> R {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            context(|c| c.below_interceptors.set(c.below_interceptors.get() - 1));
        }
    }
    context(|c| c.below_interceptors.set(c.below_interceptors.get() + 1));
    let _restore = Restore;
    f()
}
