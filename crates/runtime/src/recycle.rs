//! What a thread makes and lets go of all the time: values, nodes of the tape, the lists of a replay. It keeps what it lets
//! go of, empty, for the next of its kind, so that a training step that repeats asks the system for no memory. Each kind has
//! a bound; beyond it, and in a thread that ends, the system gives and takes as ever. Must not know what is in it.
use crate::hash::Folded;
use std::{
    cell::RefCell,
    collections::HashMap,
    ops::{Deref, DerefMut},
    thread::LocalKey,
};
use triomphe::Arc;

/// What is kept of it when nobody holds it any more.
pub trait Recycled: Sized + 'static {
    /// The most that a thread keeps.
    const MOST: usize;
    /// Those that the thread keeps. Nobody else holds them.
    fn spares() -> &'static Spares<Self>;
    /// Lets go of all that it holds.
    fn clear(&mut self);
    /// What a new one is made of.
    type New;
    /// A new one.
    fn make(new: Self::New) -> Self;
    /// A cleared one becomes a new one where it lies.
    fn remake(&mut self, new: Self::New);
}

/// Those of one kind that a thread keeps.
pub type Spares<T> = LocalKey<RefCell<Vec<Arc<T>>>>;
/// An `Arc` whose memory the thread that drops it last keeps for its next one.
pub struct Shared<T: Recycled>(Option<Arc<T>>);
impl<T: Recycled> Shared<T> {
    /// A new one, in the place of one that was let go of where there is one.
    #[inline]
    pub fn new(new: T::New) -> Shared<T> {
        let mut spare = None;
        // In a thread that ends there are none.
        let _ = T::spares().try_with(|spares| {
            if let Ok(mut spares) = spares.try_borrow_mut() {
                spare = spares.pop();
            }
        });
        if let Some(mut spare) = spare
            && let Some(place) = Arc::get_mut(&mut spare)
        {
            place.remake(new);
            return Shared(Some(spare));
        }
        Shared(Some(Arc::new(T::make(new))))
    }
    #[inline]
    fn there(&self) -> &Arc<T> {
        match &self.0 {
            Some(value) => value,
            // Only `drop` takes it out.
            None => unreachable!(),
        }
    }
    /// How many handles there are.
    #[inline]
    pub fn count(&self) -> usize {
        Arc::strong_count(self.there())
    }
    /// The thing itself, where this is the only handle.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut().and_then(Arc::get_mut)
    }
    /// Where the thing is: a number that no other one has while this one is held.
    pub fn address(&self) -> u64 {
        Arc::as_ptr(self.there()) as *const () as usize as u64
    }
    /// Are both handles of the same thing?
    #[inline]
    pub fn is_same(&self, other: &Shared<T>) -> bool {
        Arc::ptr_eq(self.there(), other.there())
    }
}
impl<T: Recycled> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Shared<T> {
        Shared(self.0.clone())
    }
}
impl<T: Recycled> Deref for Shared<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.there()
    }
}
impl<T: Recycled> Drop for Shared<T> {
    #[inline]
    fn drop(&mut self) {
        // Two threads that let go at once may both see the other: then it goes the way of every `Arc`.
        let Some(value) = self.get_mut() else { return };
        value.clear();
        let _ = T::spares().try_with(|spares| {
            if let Ok(mut spares) = spares.try_borrow_mut()
                && spares.len() < T::MOST
            {
                spares.extend(self.0.take());
            }
        });
    }
}

/// A list or table with capacity for more than is in it.
pub trait Reusable: Default {
    /// Leaves nothing in it.
    fn empty(&mut self);
    /// Of its capacity.
    fn bytes(&self) -> usize;
}
impl<T> Reusable for Vec<T> {
    fn empty(&mut self) {
        self.clear();
    }
    fn bytes(&self) -> usize {
        self.capacity() * size_of::<T>()
    }
}
impl<K, V, S: Default> Reusable for HashMap<K, V, S> {
    fn empty(&mut self) {
        self.clear();
    }
    fn bytes(&self) -> usize {
        self.capacity() * size_of::<(K, V)>()
    }
}
/// Those of one kind that a thread keeps, empty.
pub type SpareLists<C> = RefCell<Vec<C>>;
/// The most of a kind, and the most bytes of one.
const LISTS: usize = 32;
const LARGEST: usize = 1 << 18;

/// An empty one, in the memory of one that was given back.
#[inline]
pub fn take<C: Reusable>(spares: &'static LocalKey<SpareLists<C>>) -> C {
    spares.try_with(|spares| spares.try_borrow_mut().ok()?.pop()).ok().flatten().unwrap_or_default()
}
/// Empties it and gives its memory back.
#[inline]
pub fn give_back<C: Reusable>(spares: &'static LocalKey<SpareLists<C>>, mut list: C) {
    list.empty();
    if (1..=LARGEST).contains(&list.bytes()) {
        let _ = spares.try_with(|spares| {
            if let Ok(mut spares) = spares.try_borrow_mut()
                && spares.len() < LISTS
            {
                spares.push(list);
            }
        });
    }
}
/// A list from the thread's spares, which goes back to them.
pub struct SpareList<C: Reusable + 'static> {
    list: C,
    spares: &'static LocalKey<SpareLists<C>>,
}
impl<C: Reusable + 'static> SpareList<C> {
    /// An empty one.
    pub fn take(spares: &'static LocalKey<SpareLists<C>>) -> SpareList<C> {
        SpareList { list: take(spares), spares }
    }
}
impl<C: Reusable + 'static> Deref for SpareList<C> {
    type Target = C;
    #[inline]
    fn deref(&self) -> &C {
        &self.list
    }
}
impl<C: Reusable + 'static> DerefMut for SpareList<C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut C {
        &mut self.list
    }
}
impl<C: Reusable + 'static> Drop for SpareList<C> {
    fn drop(&mut self) {
        give_back(self.spares, std::mem::take(&mut self.list));
    }
}
/// An empty list in the memory of this one. `B` is `A` with other lifetimes.
#[inline]
pub fn emptied<A, B>(mut list: Vec<A>) -> Vec<B> {
    list.clear();
    // The standard library collects into the memory that the items come from, if they fit.
    list.into_iter().filter_map(|_| None).collect()
}

/// What a thread shared lately, by its hash.
pub type Remembered<T> = RefCell<HashMap<u64, T, Folded>>;
/// The most of a kind; beyond it, all are forgotten.
const REMEMBERED: usize = 256;

/// What was made of an equal `value` before, if it is still there, or what is made of this one.
pub fn remembered<T: Clone, V>(
    known: &'static LocalKey<Remembered<T>>,
    hash: u64,
    value: V,
    is_of: impl FnOnce(&T, &V) -> bool,
    make: impl FnOnce(V) -> T,
) -> T {
    let found = known.try_with(|known| known.try_borrow().ok()?.get(&hash).cloned()).ok().flatten();
    // What is let go of goes while nothing is borrowed: it may be a user's, whose `Drop` does as it likes.
    if let Some(same) = found.filter(|found| is_of(found, &value)) {
        return same;
    }
    let new = make(value);
    let _before = known.try_with(|known| {
        let mut known = known.try_borrow_mut().ok()?;
        let forgotten = if known.len() >= REMEMBERED { std::mem::take(&mut *known) } else { HashMap::default() };
        Some((known.insert(hash, new.clone()), forgotten))
    });
    new
}
#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::OnceCell;

    struct Thing {
        number: u64,
        next: Option<Shared<Thing>>,
    }
    fn thing(number: u64, next: Option<Shared<Thing>>) -> Shared<Thing> {
        Shared::new(Thing { number, next })
    }
    thread_local! {
        static THINGS: RefCell<Vec<Arc<Thing>>> = const { RefCell::new(Vec::new()) };
        static WORDS: SpareLists<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
        static TABLES: SpareLists<HashMap<u8, u8>> = const { RefCell::new(Vec::new()) };
    }
    impl Recycled for Thing {
        const MOST: usize = 3;
        fn spares() -> &'static Spares<Thing> {
            &THINGS
        }
        fn clear(&mut self) {
            self.next = None;
        }
        type New = Thing;
        fn make(new: Thing) -> Thing {
            new
        }
        fn remake(&mut self, new: Thing) {
            *self = new;
        }
    }
    fn spares() -> usize {
        THINGS.with(|t| t.borrow().len())
    }

    #[test]
    fn what_is_dropped_last_is_the_next_one() {
        let first = thing(1, None);
        let place: *const Thing = &*first;
        let second = thing(2, Some(first.clone()));
        assert_eq!((first.count(), spares()), (2, 0));
        drop(first);
        assert_eq!(spares(), 0, "another still holds it");
        drop(second);
        assert_eq!(spares(), 2);
        let again = [thing(3, None), thing(4, None)];
        assert!(again.iter().any(|t| std::ptr::eq(&**t, place)) && spares() == 0);
        assert_eq!(again.each_ref().map(|t| (t.number, t.next.is_none())), [(3, true), (4, true)]);
    }
    #[test]
    fn no_more_are_kept_than_the_bound() {
        drop([0; 9].map(|n| thing(n, None)));
        assert_eq!(spares(), 3);
    }
    #[test]
    fn threads_that_let_go_at_once_lose_nothing() {
        for n in 0..200 {
            let thing = thing(n, Some(thing(n + 1, None)));
            let (one, other) = (thing.clone(), thing);
            std::thread::scope(|s| {
                s.spawn(move || assert_eq!(one.number, n));
                s.spawn(move || assert_eq!(other.next.as_ref().map(|t| t.number), Some(n + 1)));
            });
        }
    }
    #[test]
    fn a_thread_that_ends_takes_none_back() {
        thread_local! {
            static LAST: OnceCell<Shared<Thing>> = const { OnceCell::new() };
        }
        // Dropped by the thread's end, before or after what it keeps.
        std::thread::spawn(|| LAST.with(|l| drop(l.set(thing(1, None))))).join().unwrap();
    }
    #[test]
    fn a_list_comes_back_with_its_memory() {
        let word = String::from("a word");
        let mut list: Vec<&str> = emptied(take(&WORDS));
        list.resize(100, &word);
        let (place, capacity) = (list.as_ptr(), list.capacity());
        give_back(&WORDS, emptied(list));
        let again: Vec<&str> = emptied(take(&WORDS));
        assert_eq!((again.len(), again.capacity(), again.as_ptr()), (0, capacity, place));
        assert_eq!(take(&WORDS).capacity(), 0, "meanwhile it is in use");
        give_back(&WORDS, Vec::with_capacity(1 << 20));
        assert_eq!(take(&WORDS).capacity(), 0, "too large to be kept");
    }
    #[test]
    fn a_table_comes_back_empty() {
        let mut table = take(&TABLES);
        table.insert(1, 2);
        give_back(&TABLES, table);
        let again = take(&TABLES);
        assert!(again.is_empty() && again.capacity() > 0);
    }
}
