//! One pool for all kernels: one of a given size, the user's own, or, for a call from inside a rayon job, the job's.
//!
//! Must not know what a task computes. Results never depend on the count: a kernel splits its work by shape and
//! each task writes its own part. One thread or one task runs inline and wakes nobody.
//!
//! The caller of a loop takes tasks itself, from a counter that it shares with helpers spawned on the pool. When the
//! counter is exhausted it waits only for helpers that have begun; one that begins later finds the loop closed. So a
//! loop inside a job of the same pool ends even if every other thread is busy, and the waiting thread never runs a
//! stranger's job on top of its own.
//!
//! A helper on a pool of our own stays awake for a while behind its loop ([`Station`]): kernels follow each other within
//! microseconds, and waking a thread takes tens of them. Then it sleeps until it is woken for the next. It never goes back
//! to the pool, whose jobs take memory, and a loop is made where an old one was: a training step that repeats asks the
//! system for none.

use rayon::ThreadPool;
use std::{
    any::Any,
    cell::RefCell,
    collections::VecDeque,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread::Thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// The environment variable that fixes the number of threads; `RAYON_NUM_THREADS` is looked at next.
pub const THREADS_VARIABLE: &str = "ADAMANT_NUM_THREADS";

/// Where kernels run their tasks. Cloning shares the pool.
#[derive(Clone, Debug)]
pub struct Threads {
    count: usize,
    pool: WhosePool,
    source: &'static str,
}

#[derive(Clone, Debug)]
enum WhosePool {
    /// A pool of our own, started by the first piece of work that can use it.
    Own(Arc<OwnPool>),
    /// As `Own`, but a call from inside a rayon job takes the job's pool: two pools at work would be more threads than
    /// cores. Rayon's global pool is not started for our sake: it has a thread for every core, and the caller works too.
    Shared(Arc<OwnPool>),
    /// The user's.
    Given(Arc<ThreadPool>),
}

#[derive(Default, Debug)]
struct OwnPool {
    /// `None` in it: it could not start
    threads: OnceLock<Option<ThreadPool>>,
    station: Arc<Station>,
}
impl Drop for OwnPool {
    fn drop(&mut self) {
        self.station.close();
    }
}
impl OwnPool {
    /// Is this one of its threads?
    fn is_here(&self) -> bool {
        self.threads.get().and_then(|pool| pool.as_ref()?.current_thread_index()).is_some()
    }
}
/// How long a helper stays awake behind its last loop, and how much of that its core is nobody else's.
const AWAKE: Duration = Duration::from_millis(1);
const ALONE: Duration = Duration::from_micros(50);
/// Looks for a loop between two looks at the clock.
const LOOKS: usize = 64;
/// Where helpers that are awake wait for the next loop.
#[derive(Default, Debug)]
struct Station {
    waiting: Mutex<WaitingHelpers>,
    /// changes with each offer, so that who waits need not lock
    offers: AtomicUsize,
}
/// As many helpers are awake and wait as are idle and as were offered a loop that they have not taken yet.
#[derive(Default, Debug)]
struct WaitingHelpers {
    idle: usize,
    offered: VecDeque<Arc<Loop>>,
    asleep: Vec<Thread>,
    /// loops for which nobody was there: who has done another one looks here first
    wanted: VecDeque<Arc<Loop>>,
    /// helpers that were started; none of them ends before the pool does
    started: usize,
    /// the pool is gone
    closed: bool,
}
impl Station {
    /// Offers a loop to helpers, `most` of them: to idle ones, then to those that sleep. How many of `all` that there may be
    /// are still to be started for it.
    fn offer(&self, shared: &Arc<Loop>, most: usize, all: usize) -> usize {
        let mut waiting = self.waiting.lock();
        let waiting = &mut *waiting;
        let idle = waiting.idle.min(most);
        waiting.idle -= idle;
        let awake = waiting.asleep.len() - (most - idle).min(waiting.asleep.len());
        waiting.offered.extend((0..idle + waiting.asleep.len() - awake).map(|_| shared.clone()));
        self.offers.fetch_add(1, Ordering::Release);
        let mut missing = most - idle;
        for sleeper in waiting.asleep.drain(awake..) {
            missing -= 1;
            sleeper.unpark();
        }
        let start = missing.min(all - waiting.started.min(all));
        waiting.started += start;
        if missing > start {
            waiting.wanted.retain(|l| !l.is_closed());
            waiting.wanted.extend((start..missing).map(|_| shared.clone()));
        }
        start
    }
    /// Helps a loop, then every one that is offered, for as long as there is the pool.
    fn help(&self, first: Arc<Loop>) {
        first.help();
        drop(first);
        while let Some(shared) = self.wait() {
            shared.help();
        }
    }
    /// Sends the helpers home.
    fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        waiting.asleep.drain(..).for_each(|sleeper| sleeper.unpark());
    }
    fn wait(&self) -> Option<Arc<Loop>> {
        let mut seen = self.offers.load(Ordering::Acquire);
        {
            let mut waiting = self.waiting.lock();
            while let Some(shared) = waiting.wanted.pop_front() {
                if !shared.is_closed() {
                    return Some(shared);
                }
            }
            waiting.idle += 1;
        }
        let mut since = Instant::now();
        loop {
            for _ in 0..LOOKS {
                let offers = self.offers.load(Ordering::Acquire);
                if offers != std::mem::replace(&mut seen, offers)
                    && let Some(shared) = self.waiting.lock().offered.pop_front()
                {
                    return Some(shared);
                }
                std::hint::spin_loop();
            }
            let waited = since.elapsed();
            if waited > AWAKE {
                let mut waiting = self.waiting.lock();
                if waiting.closed {
                    return None;
                }
                match waiting.idle.checked_sub(1) {
                    Some(idle) => waiting.idle = idle,
                    // It was offered one that it has not taken yet.
                    None => {
                        if let Some(shared) = waiting.offered.pop_front() {
                            return Some(shared);
                        }
                    }
                }
                waiting.asleep.push(std::thread::current());
                drop(waiting);
                self.sleep()?;
                if let Some(shared) = self.waiting.lock().offered.pop_front() {
                    return Some(shared);
                }
                since = Instant::now();
                continue;
            }
            if waited > ALONE {
                std::thread::yield_now();
            }
        }
    }
}

impl Station {
    /// Until somebody offers this thread a loop; `None` once the pool is gone.
    fn sleep(&self) -> Option<()> {
        let own = std::thread::current().id();
        loop {
            std::thread::park();
            let waiting = self.waiting.lock();
            if waiting.closed {
                return None;
            }
            // A thread may wake for no reason.
            if waiting.asleep.iter().all(|t| t.id() != own) {
                return Some(());
            }
        }
    }
}

/// Set in `Loop::state` when no helper may begin any more; below it, the number of helpers at work.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// A loop that its caller and helpers share.
#[derive(Debug)]
struct Loop {
    next: AtomicUsize,
    tasks: usize,
    state: AtomicUsize,
    /// threads that took a task
    workers: AtomicUsize,
    caller: Thread,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// The body, its lifetime erased: it is called only between a successful `enter` and the matching `leave`,
    /// and the caller's frame, which owns it, waits for every `leave`.
    body: Body,
}
struct Body(*const (dyn Fn(usize) -> ControlFlow<()> + Sync));
impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}
// SAFETY: the pointee is `Sync`, and the pointer is only read.
#[allow(unsafe_code)]
unsafe impl Send for Body {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Body {}

impl Loop {
    /// Registers a helper, unless the loop is closed.
    fn enter(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & CLOSED == 0 {
            match self.state.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }
    fn is_closed(&self) -> bool {
        self.state.load(Ordering::Relaxed) & CLOSED != 0
    }
    fn leave(&self) {
        // The handle is taken first: after the last `leave` only the Arc keeps the loop alive, not the caller.
        if self.state.fetch_sub(1, Ordering::Release) == CLOSED + 1 {
            self.caller.unpark();
        }
    }
    /// Works at it, unless it is closed.
    fn help(&self) {
        if self.enter() {
            self.work();
            self.leave();
        }
    }
    /// Takes tasks until none is left.
    #[allow(unsafe_code)]
    fn work(&self) {
        // SAFETY: the caller of the loop is inside `share`, which returns only after every helper has left.
        let body = unsafe { &*self.body.0 };
        let mut idle = true;
        loop {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task >= self.tasks {
                return;
            }
            if std::mem::take(&mut idle) {
                self.workers.fetch_add(1, Ordering::Relaxed);
            }
            match catch_unwind(AssertUnwindSafe(|| body(task))) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return self.next.store(self.tasks, Ordering::Relaxed),
                Err(payload) => {
                    self.next.store(self.tasks, Ordering::Relaxed);
                    self.panic.lock().get_or_insert(payload);
                    return;
                }
            }
        }
    }
    fn close_and_wait(&self) {
        if self.state.fetch_or(CLOSED, Ordering::AcqRel) == 0 {
            return;
        }
        let mut spins = 0;
        while self.state.load(Ordering::Acquire) != CLOSED {
            if spins < 2000 {
                spins += 1;
                std::hint::spin_loop();
            } else {
                std::thread::park();
            }
        }
    }
}

/// The most loops that a thread keeps: one for each that helpers may not have let go of yet.
const KEPT: usize = 16;
thread_local! {
    /// Loops that are done, to make the next ones where they are.
    static DONE: RefCell<Vec<Arc<Loop>>> = const { RefCell::new(Vec::new()) };
}
/// A loop, where one is that nobody holds any more.
fn made(new: Loop) -> Arc<Loop> {
    let unused = DONE.try_with(|done| {
        let mut done = done.try_borrow_mut().ok()?;
        let at = (0..done.len()).find(|k| Arc::get_mut(&mut done[*k]).is_some())?;
        Some(done.swap_remove(at))
    });
    match unused.ok().flatten() {
        Some(mut shared) => match Arc::get_mut(&mut shared) {
            Some(place) => {
                *place = new;
                shared
            }
            None => Arc::new(new),
        },
        None => Arc::new(new),
    }
}
/// For [`made`]. In a thread that ends there is nothing to keep it in.
fn keep(shared: Arc<Loop>) {
    let _ = DONE.try_with(|done| {
        if let Ok(mut done) = done.try_borrow_mut()
            && done.len() < KEPT
        {
            done.push(shared);
        }
    });
}

impl Threads {
    /// A pool of `count` threads of its own (0 counts as 1), started when first needed.
    pub fn new(count: usize) -> Threads {
        Threads { count: count.max(1), pool: WhosePool::Own(Arc::default()), source: "set" }
    }

    /// The thread that calls, and no other.
    pub(crate) fn alone() -> &'static Threads {
        static ALONE: LazyLock<Threads> = LazyLock::new(|| Threads::new(1));
        &ALONE
    }

    /// The user's pool, all of its threads.
    pub fn with_pool(pool: Arc<ThreadPool>) -> Threads {
        Threads { count: pool.current_num_threads().max(1), pool: WhosePool::Given(pool), source: "given pool" }
    }

    /// What the environment asks for: `ADAMANT_NUM_THREADS`, then `RAYON_NUM_THREADS`, then the cores this process
    /// may use (affinity and cgroup limits count). Unless the first is set, a call from inside a rayon job runs on the
    /// job's own pool.
    pub fn from_environment() -> Threads {
        Threads::from_variables(|name| std::env::var(name).ok())
    }
    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Threads {
        let asked = |name: &str| variable(name).and_then(|text| text.trim().parse::<usize>().ok()).filter(|&count| count > 0);
        if let Some(count) = asked(THREADS_VARIABLE) {
            return Threads { source: THREADS_VARIABLE, ..Threads::new(count) };
        }
        if let Some(count) = asked("RAYON_NUM_THREADS") {
            return Threads { count, pool: WhosePool::Shared(Arc::default()), source: "RAYON_NUM_THREADS" };
        }
        let count = std::thread::available_parallelism().map_or(1, |count| count.get());
        Threads { count, pool: WhosePool::Shared(Arc::default()), source: "cores" }
    }

    /// How many tasks run at a time.
    pub fn count(&self) -> usize {
        self.count
    }
    /// Where the count came from: `set`, `given pool`, a variable's name, or `cores`.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// Runs `f(0), .., f(tasks - 1)`, in any order, and returns when all are done. A panic in a task is passed on.
    pub fn for_each(&self, tasks: usize, f: impl Fn(usize) + Sync) {
        if self.count == 1 || tasks <= 1 {
            (0..tasks).for_each(f);
            return;
        }
        self.share(tasks, &|task| {
            f(task);
            ControlFlow::Continue(())
        });
    }

    /// Runs tasks `0, 1, ..`: `tasks` of them, or until one of them finds nothing to do any more.
    #[allow(unsafe_code)]
    fn share(&self, tasks: usize, f: &(dyn Fn(usize) -> ControlFlow<()> + Sync)) {
        // SAFETY: only the lifetime changes. `close_and_wait` below keeps this frame until no helper uses it.
        let body = Body(unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) -> ControlFlow<()> + Sync + '_), *const (dyn Fn(usize) -> ControlFlow<()> + Sync + 'static)>(f)
        });
        let shared = made(Loop {
            next: AtomicUsize::new(0),
            tasks,
            state: AtomicUsize::new(0),
            workers: AtomicUsize::new(0),
            caller: std::thread::current(),
            panic: Mutex::new(None),
            body,
        });
        self.call_helpers(&shared, self.count.min(tasks) - 1);
        shared.work();
        shared.close_and_wait();
        crate::trace::threads(shared.workers.load(Ordering::Relaxed));
        let panic = shared.panic.lock().take();
        keep(shared);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    /// Gives each of `parts` to one task. For work whose pieces are prepared by the caller, who may do so one by one as
    /// threads ask for them: a list of pieces takes memory of its own.
    pub fn for_parts<P: Send>(&self, parts: impl IntoIterator<Item = P, IntoIter: Send>, f: impl Fn(usize, P) + Sync) {
        let parts = parts.into_iter().enumerate();
        let most = parts.size_hint().1.unwrap_or(usize::MAX);
        if self.count == 1 || most <= 1 {
            parts.for_each(|(index, part)| f(index, part));
            return;
        }
        let parts = Mutex::new(parts);
        self.share(most, &|_| {
            let next = parts.lock().next();
            match next {
                Some((index, part)) => f(index, part),
                None => return ControlFlow::Break(()),
            }
            ControlFlow::Continue(())
        });
    }

    /// As [`Threads::for_parts`], of work that can fail: the first error found.
    ///
    /// # Errors
    /// That of a part.
    pub fn try_for_parts<P: Send, E: Send>(
        &self,
        parts: impl IntoIterator<Item = P, IntoIter: Send>,
        f: impl Fn(usize, P) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let failed = Mutex::new(None);
        self.for_parts(parts, |index, part| {
            if let Err(e) = f(index, part) {
                failed.lock().get_or_insert(e);
            }
        });
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Cuts `data` into pieces of `chunk_len` (the last may be shorter) and runs `f(index, piece)` on each.
    pub fn for_chunks_mut<T: Send>(&self, data: &mut [T], chunk_len: usize, f: impl Fn(usize, &mut [T]) + Sync) {
        self.for_parts(data.chunks_mut(chunk_len.max(1)), f);
    }

    /// As [`Threads::for_chunks_mut`], of work that can fail: the first error found.
    ///
    /// # Errors
    /// That of a piece.
    pub fn try_for_chunks_mut<T: Send, E: Send>(&self, data: &mut [T], chunk_len: usize, f: impl Fn(usize, &mut [T]) -> Result<(), E> + Sync) -> Result<(), E> {
        self.try_for_parts(data.chunks_mut(chunk_len.max(1)), f)
    }

    fn call_helpers(&self, shared: &Arc<Loop>, helpers: usize) {
        let help = || {
            let shared = shared.clone();
            move || shared.help()
        };
        match &self.pool {
            WhosePool::Shared(own) if rayon::current_thread_index().is_some() && !own.is_here() => (0..helpers).for_each(|_| rayon::spawn(help())),
            WhosePool::Given(pool) => (0..helpers).for_each(|_| pool.spawn(help())),
            WhosePool::Own(own) | WhosePool::Shared(own) => {
                // The caller works too, so the pool has one thread less. A pool that the system gives no threads
                // for is no loss of results: the caller does all tasks.
                let start = || rayon::ThreadPoolBuilder::new().num_threads(self.count - 1).thread_name(|k| format!("adamant-cpu-{k}")).build().ok();
                let Some(pool) = own.threads.get_or_init(start) else { return };
                for _ in 0..own.station.offer(shared, helpers, self.count - 1) {
                    let (shared, station) = (shared.clone(), own.station.clone());
                    pool.spawn(move || station.help(shared));
                }
            }
        }
    }
}

impl Default for Threads {
    fn default() -> Threads {
        Threads::from_environment()
    }
}

#[cfg(test)]
mod tests;
