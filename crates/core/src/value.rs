//! Values: results of ops, computed or not. A user's `Tensor` holds a plain `Arc<Value>`; core refers to values
//! through [`Kept`], which counts itself, so that `users = strong count - kept count` tells whether anybody
//! outside core can still see the value. Only those force it into memory.
use crate::{
    Error, Meta, Shape,
    buffer::Buffer,
    error::Origin,
    op::{Arg, Op},
    shape::{Layout, MAX_RANK},
};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::{
    Arc,
    atomic::{
        AtomicU8, AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

pub(crate) struct Value {
    pub meta: Meta,
    pub origin: Origin,
    /// The stream that recorded it.
    pub home: u32,
    kept: AtomicU32,
    /// (window epoch, slot) while it is in a window; [`FAILED`] for a failed tensor.
    place: AtomicU64,
    /// What everybody asks of the state, to be had without its lock.
    stage: AtomicU8,
    state: Mutex<State>,
}
/// Stages: pending; in memory; in memory and row-major without gaps; anything else (bad data among it).
const PENDING: u8 = 0;
const IN_MEMORY: u8 = 1;
const DENSE: u8 = 2;
const OTHER: u8 = 3;
/// The place of a value that never ran because it could not be recorded.
const FAILED: u64 = u64::MAX;

pub(crate) enum State {
    /// Recorded, not run.
    Pending,
    /// In memory.
    Ready(Stored),
    /// Only the tape wants it, and it is a Map of values that are kept: computed again where it is read.
    Deferred(Box<Recipe>),
    /// It could not be recorded, or its step was withheld.
    Failed(Error),
    /// Its buffer was given to its successor (an old value of a cell that nobody can read any more).
    Donated,
}
impl State {
    fn stage(&self, meta: &Meta) -> u8 {
        match self {
            State::Ready(s) if s.taint.is_some() => OTHER,
            State::Ready(s) if s.is_dense(&meta.shape) => DENSE,
            State::Ready(_) => IN_MEMORY,
            State::Pending => PENDING,
            _ => OTHER,
        }
    }
}
/// Where a value lies.
#[derive(Clone)]
pub(crate) struct Stored {
    pub buffer: Arc<Buffer>,
    /// Index of the first element.
    pub offset: usize,
    /// Steps between neighbours; `None`: row-major without gaps, as nearly all are.
    pub strides: Option<Box<[isize; MAX_RANK]>>,
    /// The error found in data that this value was computed from.
    pub taint: Option<Error>,
}
impl Stored {
    pub fn new(buffer: Arc<Buffer>, shape: &Shape, offset: usize, strides: &[isize; MAX_RANK], taint: Option<Error>) -> Stored {
        let strides = (*strides != shape.strides()).then(|| Box::new(*strides));
        Stored { buffer, offset, strides, taint }
    }
    pub fn dense(buffer: Arc<Buffer>) -> Stored {
        Stored { buffer, offset: 0, strides: None, taint: None }
    }
    pub fn layout(&self, shape: &Shape) -> Layout {
        Layout { offset: self.offset, strides: self.strides.as_deref().copied().unwrap_or_else(|| shape.strides()) }
    }
    /// Are its elements row-major without gaps, from any offset?
    pub fn is_dense(&self, shape: &Shape) -> bool {
        self.strides.is_none() || self.layout(shape).is_dense(shape)
    }
}
/// How to compute a deferred value.
pub(crate) struct Recipe {
    pub op: Op,
    pub arg: Arg,
    pub inputs: SmallVec<[Kept; 3]>,
}

impl Value {
    pub fn new(meta: Meta, origin: Origin, home: u32, state: State) -> Arc<Value> {
        let place = if matches!(state, State::Failed(_)) { FAILED } else { 0 };
        let stage = AtomicU8::new(state.stage(&meta));
        Arc::new(Value { meta, origin, home, kept: AtomicU32::new(0), place: AtomicU64::new(place), stage, state: Mutex::new(state) })
    }
    /// A value just recorded, with the window's own reference to it.
    pub fn pending(meta: Meta, origin: Origin, home: u32, epoch: u32, slot: u32) -> (Arc<Value>, Kept) {
        let place = AtomicU64::new((epoch as u64) << 32 | slot as u64);
        let value = Arc::new(Value { meta, origin, home, kept: AtomicU32::new(1), place, stage: AtomicU8::new(PENDING), state: Mutex::new(State::Pending) });
        let kept = Kept(value.clone());
        (value, kept)
    }
    /// How many handles outside core there are. Errs on the side of more.
    pub fn users(self: &Arc<Value>) -> u32 {
        (Arc::strong_count(self) as u32).saturating_sub(self.kept.load(Acquire))
    }
    pub fn kept(&self) -> u32 {
        self.kept.load(Acquire)
    }
    pub fn is_failed(&self) -> bool {
        self.place.load(Relaxed) == FAILED
    }
    pub fn fail(&self, error: Error) {
        self.place.store(FAILED, Relaxed);
        self.set(State::Failed(error));
    }
    /// The state, to look at.
    pub fn state(&self) -> impl std::ops::Deref<Target = State> + '_ {
        self.state.lock()
    }
    /// Enters another state; returns the one before.
    pub fn set(&self, state: State) -> State {
        let stage = state.stage(&self.meta);
        let mut now = self.state.lock();
        self.stage.store(stage, Release);
        std::mem::replace(&mut *now, state)
    }
    /// A deferred value is pending again: the recipe, to be recorded.
    pub fn take_recipe(&self) -> Option<Box<Recipe>> {
        let mut now = self.state.lock();
        match std::mem::replace(&mut *now, State::Pending) {
            State::Deferred(recipe) => {
                self.stage.store(PENDING, Release);
                Some(recipe)
            }
            other => {
                *now = other;
                None
            }
        }
    }
    /// Is it in memory, computed from good data?
    pub fn is_in_memory(&self) -> bool {
        matches!(self.stage.load(Acquire), IN_MEMORY | DENSE)
    }
    /// Is it recorded and not run?
    pub fn is_pending(&self) -> bool {
        self.stage.load(Acquire) == PENDING
    }
    /// Is it in memory, computed from good data, row-major and without gaps?
    pub fn is_dense(&self) -> bool {
        self.stage.load(Acquire) == DENSE
    }
    pub fn slot(&self, epoch: u32) -> Option<u32> {
        let place = self.place.load(Relaxed);
        ((place >> 32) as u32 == epoch && place != FAILED).then_some(place as u32)
    }
    pub fn set_slot(&self, epoch: u32, slot: u32) {
        self.place.store((epoch as u64) << 32 | slot as u64, Relaxed);
    }
    pub fn error(&self) -> Option<Error> {
        if !self.is_failed() {
            return None;
        }
        match &*self.state.lock() {
            State::Failed(e) => Some(e.clone()),
            _ => None,
        }
    }
    pub fn stored(&self) -> Option<Stored> {
        match &*self.state.lock() {
            State::Ready(s) => Some(s.clone()),
            _ => None,
        }
    }
}

/// Core's own reference to a value.
pub(crate) struct Kept(Arc<Value>);
impl Kept {
    pub fn new(value: &Arc<Value>) -> Kept {
        let value = value.clone();
        value.kept.fetch_add(1, AcqRel);
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
        self.0.kept.fetch_sub(1, AcqRel);
    }
}
impl std::ops::Deref for Kept {
    type Target = Arc<Value>;
    fn deref(&self) -> &Arc<Value> {
        &self.0
    }
}
