//! Something that is opened when it is first asked for: whoever comes meanwhile waits for it and gets the same, whoever comes
//! later finds it without a lock. Opening that failed is tried again by the next. It knows nothing of devices, so that `loom`
//! can try every order of events.
#[cfg(loom)]
use loom_once::OnceLock;
#[cfg(not(loom))]
use {parking_lot::Mutex, std::sync::OnceLock};

/// The place of one thing.
pub struct FirstTouch<T> {
    opened: OnceLock<T>,
    opening: Mutex<()>,
}
impl<T: Copy> Default for FirstTouch<T> {
    fn default() -> Self {
        FirstTouch::new()
    }
}
impl<T: Copy> FirstTouch<T> {
    /// A place where nothing is yet.
    pub fn new() -> FirstTouch<T> {
        FirstTouch { opened: OnceLock::new(), opening: Mutex::new(()) }
    }
    /// What is there.
    pub fn there(&self) -> Option<T> {
        let there = self.opened.get()?;
        Some(*there)
    }
    /// What is there, or what `open` gives.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn get<E>(&self, open: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if let Some(there) = self.there() {
            return Ok(there);
        }
        let _opening = self.opening.lock();
        // Somebody may have opened it while this thread waited.
        match self.there() {
            Some(there) => Ok(there),
            None => {
                let new = open()?;
                let _ = self.opened.set(new);
                Ok(new)
            }
        }
    }
}

/// `std`'s cell is taken on trust: here it is what it promises, on loom's terms.
#[cfg(loom)]
mod loom_once {
    pub struct OnceLock<T>(loom::sync::Mutex<Option<T>>);
    pub struct LoomHeld<T>(T);
    impl<T> std::ops::Deref for LoomHeld<T> {
        type Target = T;
        fn deref(&self) -> &T {
            &self.0
        }
    }
    impl<T: Copy> OnceLock<T> {
        pub fn new() -> OnceLock<T> {
            OnceLock(loom::sync::Mutex::new(None))
        }
        pub fn get(&self) -> Option<LoomHeld<T>> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).map(LoomHeld)
        }
        pub fn set(&self, value: T) -> Result<(), T> {
            let mut there = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            there.map_or_else(|| Ok(*there.insert(value)), |_| Err(value)).map(drop)
        }
    }
}
#[cfg(loom)]
struct Mutex<T>(loom::sync::Mutex<T>);
#[cfg(loom)]
impl<T> Mutex<T> {
    fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }
    fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Every order in which threads can meet: `RUSTFLAGS="--cfg loom" cargo test -p adamant-core --lib first_touch`.
#[cfg(all(test, loom))]
mod models {
    use super::FirstTouch;
    use loom::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        thread,
    };

    type Place = (FirstTouch<usize>, AtomicUsize);
    /// Opens number 0, 1, ... of which the first `failing` fail.
    fn touch(place: &Place, failing: usize) -> Result<usize, ()> {
        place.0.get(|| {
            let before = place.1.fetch_add(1, Ordering::SeqCst);
            if before < failing { Err(()) } else { Ok(before) }
        })
    }
    fn check(threads: usize, failing: usize, opened: usize) {
        loom::model(move || {
            let place: Arc<Place> = Arc::new((FirstTouch::new(), AtomicUsize::new(0)));
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let place = place.clone();
                    thread::spawn(move || touch(&place, failing))
                })
                .collect();
            let mut got = vec![touch(&place, failing)];
            got.extend(others.into_iter().map(|t| t.join().unwrap()));
            // All that succeeded have the one that was opened; each failure was told once.
            assert_eq!(got.iter().filter(|r| r.is_err()).count(), failing);
            assert!(got.iter().flatten().all(|&n| n == failing), "{got:?}");
            assert_eq!(place.1.load(Ordering::SeqCst), opened);
        });
    }
    #[test]
    fn two_that_open_it_twice_or_get_different_ones() {
        check(3, 0, 1);
    }
    #[test]
    fn a_failure_that_stays_or_that_lets_two_open_it() {
        check(3, 1, 2);
    }
}
