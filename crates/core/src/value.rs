//! Values: results of ops, computed or not. A user's `Tensor` holds a plain `Shared<Value>`; the tape and the recipes refer
//! to values through [`Kept`], which counts itself, so that `users = strong count - kept count` tells whether anybody
//! else can still see the value. Only those force it into memory. A window holds each of its values once, as a user
//! would, and leaves itself out where it counts.
//!
//! A value gets its memory once and lies there until it dies: whoever holds the value may look at the memory without a
//! lock. What can still change is the stage: the memory may be given to a successor once nobody can read it here.
use crate::{
    Error, ErrorKind, Meta, Shape,
    buffer::Buffer,
    error::Origin,
    op::{Arg, Op},
    planted::{Plant, is},
    recycle::{Recycled, Shared, Spares},
};
pub(crate) use adamant_runtime::Stored;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::{
    cell::RefCell,
    sync::{
        OnceLock,
        atomic::{
            AtomicU8, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
            fence,
        },
    },
};

pub(crate) struct Value {
    pub meta: Meta,
    pub origin: Origin,
    /// The stream that recorded it.
    pub home: u32,
    /// how many handles count themselves, in the lower half, and how often that has changed, in the upper one
    kept: AtomicU64,
    /// (window epoch, slot) while it is in a window; [`FAILED`] for a failed tensor; with epoch [`NO_WINDOW`] the mark of
    /// one that was made ahead.
    place: AtomicU64,
    /// What is to be said of the memory; see the constants.
    stage: AtomicU8,
    stored: ValueMemory,
    /// What became of it, where its stage is `OTHER`.
    other: Mutex<Other>,
}
/// What a new value is made of.
pub(crate) struct NewValue {
    meta: Meta,
    origin: Origin,
    home: u32,
    place: u64,
    stage: u8,
    stored: Option<Stored>,
}
/// Where a value lies.
enum ValueMemory {
    /// It lay there from the beginning.
    Given(Stored),
    /// From the moment it has been computed.
    Computed(OnceLock<Stored>),
}
impl ValueMemory {
    const fn none() -> ValueMemory {
        ValueMemory::Computed(OnceLock::new())
    }
    fn get(&self) -> Option<&Stored> {
        match self {
            ValueMemory::Given(stored) => Some(stored),
            ValueMemory::Computed(stored) => stored.get(),
        }
    }
    fn take(&mut self) -> Option<Stored> {
        match std::mem::replace(self, ValueMemory::none()) {
            ValueMemory::Given(stored) => Some(stored),
            ValueMemory::Computed(stored) => stored.into_inner(),
        }
    }
    /// Sets it. False: it was set before.
    fn set(&self, stored: Stored) -> bool {
        match self {
            ValueMemory::Given(_) => false,
            ValueMemory::Computed(place) => place.set(stored).is_ok(),
        }
    }
}
/// Recorded, not run.
const PENDING: u8 = 0;
/// In memory.
const IN_MEMORY: u8 = 1;
/// In memory, row-major and without gaps.
const DENSE: u8 = 2;
/// In memory, computed from bad data, or it is not known yet from what.
const TAINTED: u8 = 3;
/// Not to be had, or not yet: see [`Other`].
const OTHER: u8 = 4;
/// What is said of memory from the beginning.
fn stage(stored: &Stored, shape: &Shape) -> u8 {
    match stored.taint {
        Some(_) => TAINTED,
        None if stored.is_dense(shape) => DENSE,
        None => IN_MEMORY,
    }
}
/// One change of the handles that count themselves.
const CHANGED: u64 = 1 << 32;
/// The epoch that no window has.
const NO_WINDOW: u32 = 0;
/// The place of a value that never ran because it could not be recorded.
const FAILED: u64 = u64::MAX;

/// What became of a value that is neither pending nor in memory.
#[derive(Default)]
pub(crate) enum Other {
    /// Nothing: its stage says all.
    #[default]
    None,
    /// Only the tape wants it, and it is a Map of values that are kept: computed again where it is read. That may be in the
    /// windows of several threads at once, none of which waits for another; the first that has run gives it its memory.
    Deferred(Shared<Recipe>),
    /// It could not be recorded, or its step was suppressed.
    Failed(Error),
    /// Its buffer was given to its successor (an old value of a cell that nobody can read any more).
    Donated,
}
/// How to compute a deferred value.
pub(crate) struct Recipe {
    pub op: Op,
    pub arg: Arg,
    pub inputs: SmallVec<[Kept; 3]>,
}

impl Value {
    /// A value that was recorded at a place of a window.
    pub fn pending(meta: Meta, origin: Origin, home: u32, epoch: u32, slot: u32) -> Shared<Value> {
        Shared::new(NewValue { meta, origin, home, place: place(epoch, slot), stage: PENDING, stored: None })
    }
    /// A value that is in memory.
    pub fn ready(meta: Meta, origin: Origin, home: u32, stored: Stored) -> Shared<Value> {
        Shared::new(NewValue { meta, origin, home, place: 0, stage: stage(&stored, &meta.shape), stored: Some(stored) })
    }
    /// As `ready`, of a value that was computed before anybody asked for it; the mark, not 0, tells which.
    pub fn made_ahead(meta: Meta, origin: Origin, home: u32, stored: Stored, mark: u32) -> Shared<Value> {
        Shared::new(NewValue { meta, origin, home, place: place(NO_WINDOW, mark), stage: stage(&stored, &meta.shape), stored: Some(stored) })
    }
    /// A value that could not be recorded.
    pub fn failed(meta: Meta, origin: Origin, home: u32, error: Error) -> Shared<Value> {
        let value: Shared<Value> = Shared::new(NewValue { meta, origin, home, place: FAILED, stage: OTHER, stored: None });
        *value.other.lock() = Other::Failed(error);
        value
    }
    pub fn is_failed(&self) -> bool {
        self.place.load(Relaxed) == FAILED
    }
    fn set_other(&self, what: Other) {
        let mut other = self.other.lock();
        self.stage.store(OTHER, Release);
        *other = what;
    }
    pub fn fail(&self, error: Error) {
        self.place.store(FAILED, Relaxed);
        self.set_other(Other::Failed(error));
    }
    /// It has been computed. Only the first time counts.
    pub fn store(&self, stored: Stored) {
        let stage = stage(&stored, &self.meta.shape);
        if !self.stored.set(stored) {
            return;
        }
        if self.stage.load(Acquire) == OTHER {
            let mut other = self.other.lock();
            if matches!(*other, Other::Deferred(_)) {
                self.stage.store(stage, Release);
                // The recipe goes while nothing is locked: it may hold a user's composite.
                let _recipe = std::mem::take(&mut *other);
                drop(other);
            }
        } else {
            self.stage.store(stage, Release);
        }
    }
    /// What was behind it is known to be good.
    pub fn is_good(&self) {
        if let Some(stored) = self.stored().filter(|s| s.is_clean()) {
            let good = if stored.is_dense(&self.meta.shape) { DENSE } else { IN_MEMORY };
            let _ = self.stage.compare_exchange(TAINTED, good, AcqRel, Relaxed);
        }
    }
    /// It is computed where it is read, unless another thread has done so already.
    pub fn defer(&self, recipe: Recipe) {
        let mut deferred = Other::Deferred(Shared::new(recipe));
        let mut other = self.other.lock();
        if self.stored.get().is_none() {
            self.stage.store(OTHER, Release);
            std::mem::swap(&mut *other, &mut deferred);
        }
        drop(other);
    }
    /// Its buffer is given to its successor.
    pub fn donate(&self) {
        self.set_other(Other::Donated);
    }
    /// How a deferred value is computed.
    pub fn recipe(&self) -> Option<Shared<Recipe>> {
        if self.stage.load(Acquire) != OTHER {
            return None;
        }
        let mut other = self.other.lock();
        let Other::Deferred(recipe) = &*other else { return None };
        let recipe = recipe.clone();
        if is(Plant::RecipeTaken) {
            *other = Other::None;
            self.stage.store(PENDING, Release);
        }
        Some(recipe)
    }
    /// Is it in memory, computed from good data?
    pub fn is_in_memory(&self) -> bool {
        matches!(self.stage.load(Acquire), IN_MEMORY | DENSE)
    }
    /// Is it recorded and not run?
    pub fn is_pending(&self) -> bool {
        self.stage.load(Acquire) == PENDING
    }
    /// Is it neither in memory nor beyond being had: pending or deferred?
    pub fn is_to_run(&self) -> bool {
        self.is_pending() || self.is_deferred()
    }
    /// Is it in memory, computed from good data, row-major and without gaps?
    pub fn is_dense(&self) -> bool {
        self.stage.load(Acquire) == DENSE
    }
    /// Is it to be computed where it is read?
    pub fn is_deferred(&self) -> bool {
        self.stage.load(Acquire) == OTHER && matches!(*self.other.lock(), Other::Deferred(_))
    }
    /// Where it lies, if it is in memory, from good data or bad.
    pub fn stored(&self) -> Option<&Stored> {
        if matches!(self.stage.load(Acquire), IN_MEMORY | DENSE | TAINTED) { self.stored.get() } else { None }
    }
    /// Where it lies, if that is in memory from good data, row-major and without gaps.
    #[inline]
    pub fn dense(&self) -> Option<&Stored> {
        if self.is_dense() { self.stored.get() } else { None }
    }
    /// What became of it, if it is neither pending nor in memory.
    pub fn other(&self) -> impl std::ops::Deref<Target = Other> + '_ {
        self.other.lock()
    }
    pub fn slot(&self, epoch: u32) -> Option<u32> {
        let place = self.place.load(Relaxed);
        ((place >> 32) as u32 == epoch && place != FAILED).then_some(place as u32)
    }
    pub fn set_slot(&self, epoch: u32, slot: u32) {
        self.place.store(place(epoch, slot), Relaxed);
    }
    /// The mark of a value that was made ahead and has neither been read nor been in a window since; else 0.
    pub fn mark(&self) -> u32 {
        let place = self.place.load(Relaxed);
        if (place >> 32) as u32 == NO_WINDOW { place as u32 } else { 0 }
    }
    /// Somebody reads it.
    pub fn is_read(&self) {
        if self.place.load(Relaxed) != 0
            && let mark @ 1.. = self.mark()
        {
            // Meanwhile another thread may have given it a place in its window.
            let _ = self.place.compare_exchange(place(NO_WINDOW, mark), 0, Relaxed, Relaxed);
        }
    }
    pub fn error(&self) -> Option<Error> {
        if !self.is_failed() {
            return None;
        }
        match &*self.other.lock() {
            Other::Failed(e) => Some(e.clone()),
            _ => None,
        }
    }
    /// The internal error of reading a value whose buffer its successor has.
    pub fn was_donated() -> ErrorKind {
        ErrorKind::Internal("a value whose buffer was reused was read".into())
    }
}
/// How many handles there are besides those that count themselves, and how many of these, both at one moment. Where one begins
/// or ceases to count itself meanwhile, all are taken for users: another thread may be about to make a user of one that counts
/// itself, so neither number may be of another moment than the other.
pub(crate) fn reference_counts(value: &Shared<Value>) -> (u32, u32) {
    let before = value.kept.load(Acquire);
    let all = value.count() as u32;
    fence(Acquire);
    let kept = if value.kept.load(Relaxed) == before { before as u32 } else { 0 };
    (all.saturating_sub(kept), kept)
}
/// Where the caller's handle is the only one, a deferred value is one that runs in the caller's window and nowhere else.
pub(crate) fn forget_recipe(value: &Shared<Value>) {
    if value.is_deferred() && reference_counts(value) == (1, 0) {
        value.stage.store(PENDING, Release);
        let _recipe = std::mem::take(&mut *value.other.lock());
    }
}
/// How many handles there are besides those that count themselves.
pub(crate) fn users(value: &Shared<Value>) -> u32 {
    reference_counts(value).0
}
thread_local! {
    static SPARES: RefCell<Vec<triomphe::Arc<Value>>> = const { RefCell::new(Vec::new()) };
    static RECIPES: RefCell<Vec<triomphe::Arc<Recipe>>> = const { RefCell::new(Vec::new()) };
}
impl Recycled for Recipe {
    const MOST: usize = 1024;
    #[inline]
    fn spares() -> &'static Spares<Recipe> {
        &RECIPES
    }
    fn clear(&mut self) {
        self.op = Op::Input;
        self.inputs = SmallVec::new();
    }
    type New = Recipe;
    fn make(new: Recipe) -> Recipe {
        new
    }
    fn remake(&mut self, new: Recipe) {
        *self = new;
    }
}
impl Recycled for Value {
    const MOST: usize = 4096;
    #[inline]
    fn spares() -> &'static Spares<Value> {
        &SPARES
    }
    fn clear(&mut self) {
        if let Some(stored) = self.stored.take() {
            Buffer::release(stored.buffer);
        }
        *self.other.get_mut() = Other::None;
    }
    type New = NewValue;
    fn make(new: NewValue) -> Value {
        let NewValue { meta, origin, home, place, stage, stored } = new;
        let (kept, place, stage) = (AtomicU64::new(0), AtomicU64::new(place), AtomicU8::new(stage));
        Value { meta, origin, home, kept, place, stage, stored: stored.map_or(ValueMemory::none(), ValueMemory::Given), other: Mutex::default() }
    }
    fn remake(&mut self, new: NewValue) {
        // Nobody holds it, so nobody keeps it, and what became of it was forgotten.
        (self.meta, self.origin, self.home) = (new.meta, new.origin, new.home);
        (*self.place.get_mut(), *self.stage.get_mut()) = (new.place, new.stage);
        self.stored = new.stored.map_or(ValueMemory::none(), ValueMemory::Given);
    }
}
impl Drop for Value {
    fn drop(&mut self) {
        self.clear();
    }
}
fn place(epoch: u32, slot: u32) -> u64 {
    (epoch as u64) << 32 | slot as u64
}

/// The tape's or a recipe's reference to a value.
pub(crate) struct Kept(Shared<Value>);
impl Kept {
    pub fn new(value: &Shared<Value>) -> Kept {
        let value = value.clone();
        value.kept.fetch_add(CHANGED | 1, AcqRel);
        Kept(value)
    }
}
impl Clone for Kept {
    fn clone(&self) -> Kept {
        Kept::new(&self.0)
    }
}
impl Drop for Kept {
    fn drop(&mut self) {
        // Before the Arc goes, so that `users` errs on the side of "somebody holds it".
        self.0.kept.fetch_add(CHANGED - 1, AcqRel);
    }
}
impl std::ops::Deref for Kept {
    type Target = Shared<Value>;
    fn deref(&self) -> &Shared<Value> {
        &self.0
    }
}
