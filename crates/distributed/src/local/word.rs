//! A number that one rank raises and others wait for, in memory that all of them see. It knows nothing of ranks or memory, so that
//! `loom` can try every order of events.
//!
//! Who waits counts itself as a sleeper and looks once more; who raises the number writes it and then looks for sleepers. Between
//! writing and looking both have a fence, so one of them sees the other, and nobody sleeps through what it waits for.
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;
#[cfg(loom)]
use {
    loom::sync::atomic::{AtomicU32, Ordering, fence},
    model::Futex,
};

/// The number. It is compared as a distance, so that it may come round; zeroed memory is one that is 0.
#[repr(C, align(64))]
pub(crate) struct SharedWord {
    value: AtomicU32,
    sleepers: AtomicU32,
    #[cfg(loom)]
    futex: Futex,
}
impl SharedWord {
    #[cfg(loom)]
    pub(crate) fn new(value: u32) -> SharedWord {
        SharedWord { value: AtomicU32::new(value), sleepers: AtomicU32::new(0), futex: Futex::default() }
    }
    /// The number; what was written before it was raised can be read.
    #[inline]
    pub(crate) fn load(&self) -> u32 {
        self.value.load(Ordering::Acquire)
    }
    /// Raises the number, and wakes who sleeps. Only one rank does.
    #[inline]
    pub(crate) fn publish(&self, value: u32) {
        self.value.store(value, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }
    /// Wakes who sleeps, whatever for. Who is about to sleep may not be woken, and wakes by itself after its time.
    pub(crate) fn disturb(&self) {
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }
    #[cold]
    fn wake(&self) {
        #[cfg(loom)]
        self.futex.wake();
        #[cfg(not(loom))]
        futex::wake(&self.value);
    }
    /// Sleeps while the number is `seen`, and no longer than that; or wakes for no reason.
    #[cold]
    pub(crate) fn sleep(&self, seen: u32, longest: Duration) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.value.load(Ordering::Relaxed) == seen {
            #[cfg(loom)]
            self.futex.wait(|| self.value.load(Ordering::Relaxed) == seen);
            #[cfg(not(loom))]
            futex::wait(&self.value, seen, longest);
        }
        let _ = longest;
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}
/// Has a number come so far?
#[inline]
pub(crate) fn reached(value: u32, wanted: u32) -> bool {
    value.wrapping_sub(wanted) as i32 >= 0
}

#[cfg(all(target_os = "linux", not(loom)))]
mod futex {
    use rustix::thread::futex;
    use std::{sync::atomic::AtomicU32, time::Duration};

    pub(super) fn wait(value: &AtomicU32, seen: u32, longest: Duration) {
        let longest = rustix::fs::Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: i64::from(longest.subsec_nanos()) };
        // Woken, interrupted, too late or changed meanwhile: who waits looks again in any case.
        let _ = futex::wait(value, futex::Flags::empty(), seen, Some(&longest));
    }
    pub(super) fn wake(value: &AtomicU32) {
        // It fails for addresses that are none.
        let _ = futex::wake(value, futex::Flags::empty(), i32::MAX as u32);
    }
}
/// Systems without a futex that processes can share: who waits looks now and then.
#[cfg(all(not(target_os = "linux"), not(loom)))]
mod futex {
    use std::{sync::atomic::AtomicU32, thread, time::Duration};

    pub(super) fn wait(_: &AtomicU32, _: u32, longest: Duration) {
        thread::sleep(longest.min(Duration::from_micros(50)));
    }
    pub(super) fn wake(_: &AtomicU32) {}
}
/// What the system's futex promises, on loom's terms: it looks and falls asleep in one. No time passes in a model: who is not woken
/// sleeps for ever, which loom finds.
#[cfg(loom)]
mod model {
    use loom::sync::{Condvar, Mutex};

    #[derive(Default)]
    pub(super) struct Futex {
        lock: Mutex<()>,
        woken: Condvar,
    }
    impl Futex {
        pub(super) fn wait(&self, is_same: impl Fn() -> bool) {
            let lock = self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if is_same() {
                drop(self.woken.wait(lock));
            }
        }
        pub(super) fn wake(&self) {
            let _lock = self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            self.woken.notify_all();
        }
    }
}

/// Every order in which ranks can meet: `RUSTFLAGS="--cfg loom" cargo test -p adamant-distributed --lib loom_models`.
#[cfg(all(test, loom))]
mod loom_models {
    use super::{SharedWord, reached};
    use crate::local::ring::{RingBytes, RingWords};
    use loom::{cell::UnsafeCell, sync::Arc, thread};
    use std::time::Duration;

    const EVER: Duration = Duration::MAX;
    /// Orders with at most so many switches that no wait forces: all of them, of the models below, would take days.
    fn model(run: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(run);
    }
    fn wait(word: &SharedWord, is_there: impl Fn(u32) -> bool) {
        loop {
            let seen = word.load();
            if is_there(seen) {
                return;
            }
            word.sleep(seen, EVER);
        }
    }
    /// Two ranks that go through stages with two slots each: every write and read is seen by loom, which finds two at once.
    #[test]
    fn a_slot_written_while_it_is_read_and_a_rank_that_is_not_woken() {
        const STAGES: u32 = 3;
        struct StagedRank {
            stage: SharedWord,
            slots: [UnsafeCell<u32>; 2],
        }
        #[allow(unsafe_code)]
        fn run(ranks: &[StagedRank; 2], own: usize) {
            for stage in 1..=STAGES {
                let slot = stage as usize & 1;
                // SAFETY: what is tested: loom stops where somebody reads it meanwhile.
                ranks[own].slots[slot].with_mut(|slot| unsafe { *slot = stage * 10 + own as u32 });
                ranks[own].stage.publish(stage);
                wait(&ranks[1 - own].stage, |value| reached(value, stage));
                // SAFETY: as above.
                let read = ranks[1 - own].slots[slot].with(|slot| unsafe { *slot });
                assert_eq!(read, stage * 10 + (1 - own) as u32);
            }
        }
        model(|| {
            let rank = || StagedRank { stage: SharedWord::new(0), slots: [UnsafeCell::new(0), UnsafeCell::new(0)] };
            let ranks = Arc::new([rank(), rank()]);
            let other = ranks.clone();
            let thread = thread::spawn(move || run(&other, 1));
            run(&ranks, 0);
            thread.join().unwrap();
        });
    }
    struct Bytes(Vec<UnsafeCell<u8>>);
    #[allow(unsafe_code)]
    impl RingBytes for Bytes {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn put(&self, at: usize, bytes: &[u8]) {
            // SAFETY: what is tested.
            bytes.iter().enumerate().for_each(|(k, byte)| self.0[at + k].with_mut(|cell| unsafe { *cell = *byte }));
        }
        fn take(&self, at: usize, bytes: &mut [u8]) {
            // SAFETY: what is tested.
            bytes.iter_mut().enumerate().for_each(|(k, byte)| *byte = self.0[at + k].with(|cell| unsafe { *cell }));
        }
    }
    #[test]
    fn bytes_lost_torn_or_out_of_order_and_a_side_that_is_not_woken() {
        const SENT: [u8; 4] = [1, 2, 3, 4];
        model(|| {
            // It comes round with 32 bits on the way.
            let begin = u32::MAX - 1;
            let words = RingWords { head: SharedWord::new(begin), tail: SharedWord::new(begin) };
            let ring = Arc::new((words, Bytes((0..2).map(|_| UnsafeCell::new(0)).collect())));
            let sender = ring.clone();
            let thread = thread::spawn(move || {
                let mut sent = &SENT[..];
                while !sent.is_empty() {
                    let n = sender.0.put(&sender.1, sent);
                    sent = &sent[n..];
                    if n == 0 {
                        let head = sender.0.head.load();
                        wait(&sender.0.tail, |tail| head.wrapping_sub(tail) < 2);
                    }
                }
            });
            let mut came = [0; 4];
            let mut at = 0;
            while at < came.len() {
                let n = ring.0.take(&ring.1, &mut came[at..]);
                at += n;
                if n == 0 {
                    let tail = ring.0.tail.load();
                    wait(&ring.0.head, |head| head != tail);
                }
            }
            assert_eq!(came, SENT);
            thread.join().unwrap();
        });
    }
}
