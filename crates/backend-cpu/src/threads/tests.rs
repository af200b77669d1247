//! What helpers do while they wait, sleep and end.
use super::*;

#[test]
fn every_task_runs_once_for_any_count() {
    for count in [1, 2, 3, 8] {
        let threads = Threads::new(count);
        for tasks in [0, 1, 2, 7, 100] {
            let sum = AtomicUsize::new(0);
            threads.for_each(tasks, |task| {
                sum.fetch_add(task + 1, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), tasks * (tasks + 1) / 2, "{count} threads, {tasks} tasks");
        }
    }
}

#[test]
fn chunks_cover_the_slice() {
    for count in [1, 3] {
        let mut data = vec![0usize; 103];
        Threads::new(count).for_chunks_mut(&mut data, 10, |index, chunk| chunk.fill(index));
        assert!(data.iter().enumerate().all(|(i, &value)| value == i / 10));
    }
}

#[test]
fn nested_calls_neither_hang_nor_lose_tasks() {
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let threads = Threads::with_pool(pool.clone());
    let sum = AtomicUsize::new(0);
    pool.install(|| {
        threads.for_each(8, |_| {
            threads.for_each(8, |_| {
                sum.fetch_add(1, Ordering::Relaxed);
            });
        });
    });
    assert_eq!(sum.into_inner(), 64);
}

#[test]
fn a_waiting_caller_runs_no_foreign_job() {
    // Many jobs of one pool hold a lock across a loop: if the wait stole another job, it would lock twice.
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let threads = Threads::with_pool(pool.clone());
    let inside = Arc::new(Mutex::new(()));
    let done = Arc::new(AtomicUsize::new(0));
    pool.scope(|scope| {
        for _ in 0..200 {
            let (threads, inside, done) = (threads.clone(), inside.clone(), done.clone());
            scope.spawn(move |_| {
                let guard = inside.lock();
                threads.for_each(16, |_| {
                    done.fetch_add(1, Ordering::Relaxed);
                });
                drop(guard);
            });
        }
    });
    assert_eq!(done.load(Ordering::Relaxed), 3200);
}

#[test]
fn a_loop_that_is_offered_to_a_helper_about_to_sleep() {
    // Callers side by side, and pauses around the time that a helper stays awake.
    let threads = Threads::new(3);
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for caller in 0..3 {
            let (threads, done) = (&threads, &done);
            scope.spawn(move || {
                for round in 0..150u32 {
                    threads.for_each(7, |_| {
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                    std::thread::sleep(AWAKE * ((round * 7 + caller) % 23) / 11);
                }
            });
        }
    });
    assert_eq!(done.into_inner(), 3 * 150 * 7);
    let WhosePool::Own(own) = &threads.pool else { panic!("another pool") };
    // What was offered is taken, by a helper that then finds it done, before the helper sleeps.
    let settled = || {
        let waiting = own.station.waiting.lock();
        waiting.idle == 0 && waiting.offered.is_empty() && waiting.asleep.len() == waiting.started
    };
    let since = Instant::now();
    while !settled() && since.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
    }
    assert!(settled(), "an offer was left behind");
}

#[test]
fn a_pool_that_goes_while_a_helper_is_awake() {
    for _ in 0..50 {
        let (threads, done) = (Threads::new(2), AtomicUsize::new(0));
        threads.for_each(4, |_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 4);
        let WhosePool::Own(own) = &threads.pool else { panic!("another pool") };
        let (station, own) = (own.station.clone(), Arc::downgrade(own));
        drop(threads);
        assert!(own.upgrade().is_none());
        // The helper's wait ends with it, and nothing is left behind.
        while Arc::strong_count(&station) > 1 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn one_thread_starts_no_pool() {
    let threads = Threads::new(1);
    let here = std::thread::current().id();
    threads.for_each(4, |_| assert_eq!(std::thread::current().id(), here));
}

#[test]
fn a_panic_reaches_the_caller() {
    let caught = catch_unwind(|| Threads::new(3).for_each(50, |task| assert!(task != 20)));
    assert!(caught.is_err());
}

#[test]
fn our_variable_wins_over_rayons() {
    let both = Threads::from_variables(|name| Some(if name == THREADS_VARIABLE { "3" } else { "5" }.into()));
    assert_eq!((both.count(), both.source()), (3, THREADS_VARIABLE));
    let one = Threads::from_variables(|name| (name != THREADS_VARIABLE).then(|| "5".into()));
    assert_eq!((one.count(), one.source()), (5, "RAYON_NUM_THREADS"));
    assert_eq!(Threads::from_variables(|_| None).source(), "cores");
}
