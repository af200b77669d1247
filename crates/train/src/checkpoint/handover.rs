//! The hand-over of jobs from one thread to another: one is being worked on, and who gives the next waits until that one is
//! done. It knows nothing of what the jobs are, so that `loom` can try every order of events.
#[cfg(loom)]
use loom::sync::{Condvar, Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex, MutexGuard};

/// The state that giver and worker share.
pub struct Handover<J, R> {
    state: Mutex<HandoverState<J, R>>,
    changed: Condvar,
}
struct HandoverState<J, R> {
    waiting: Option<J>,
    working: bool,
    /// no more jobs will come
    closed: bool,
    /// the worker has ended
    gone: bool,
    results: Vec<R>,
}
impl<J, R> Handover<J, R> {
    pub fn new() -> Handover<J, R> {
        let state = HandoverState { waiting: None, working: false, closed: false, gone: false, results: Vec::new() };
        Handover { state: Mutex::new(state), changed: Condvar::new() }
    }
    /// Hands over a job, after the one before is done. Returns the results since the last call, and the job itself if there
    /// is no worker any more.
    pub fn give(&self, job: J) -> (Vec<R>, Option<J>) {
        let mut state = self.until(|s| (s.waiting.is_none() && !s.working) || s.gone);
        let refused = if state.gone { Some(job) } else { state.waiting.replace(job) };
        self.changed.notify_all();
        (std::mem::take(&mut state.results), refused)
    }
    /// Waits until all jobs are done. Returns the results since the last call, and whether all were done.
    pub fn flush(&self) -> (Vec<R>, bool) {
        let mut state = self.until(|s| (s.waiting.is_none() && !s.working) || s.gone);
        let done = state.waiting.is_none() && !state.working;
        (std::mem::take(&mut state.results), done)
    }
    /// The next job, for the worker; none when all are done and no more will come.
    pub fn take(&self) -> Option<J> {
        let mut state = self.until(|s| s.waiting.is_some() || s.closed);
        let job = state.waiting.take();
        state.working = job.is_some();
        self.changed.notify_all();
        job
    }
    /// The worker's result for the job it took.
    pub fn done(&self, result: R) {
        let mut state = self.state();
        state.working = false;
        state.results.push(result);
        self.changed.notify_all();
    }
    /// No more jobs will come: the worker ends when it has done what it has.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
    /// The worker ends, whatever the reason.
    pub fn leave(&self) {
        self.state().gone = true;
        self.changed.notify_all();
    }
    fn state(&self) -> MutexGuard<'_, HandoverState<J, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn until(&self, ready: impl Fn(&HandoverState<J, R>) -> bool) -> MutexGuard<'_, HandoverState<J, R>> {
        let mut state = self.state();
        while !ready(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }
}

/// Every order in which a giver and a worker can meet: `RUSTFLAGS="--cfg loom" cargo test -p adamant-train --lib handover`.
#[cfg(all(test, loom))]
mod models {
    use super::Handover;
    use loom::{sync::Arc, thread};

    fn worker(shared: &Arc<Handover<u32, u32>>, jobs: usize) -> thread::JoinHandle<()> {
        let shared = shared.clone();
        thread::spawn(move || {
            for _ in 0..jobs {
                match shared.take() {
                    Some(job) => shared.done(job * 10),
                    None => break,
                }
            }
            shared.leave();
        })
    }

    #[test]
    fn a_job_lost_done_twice_or_out_of_order_and_a_flush_that_returns_early() {
        loom::model(|| {
            let shared = Arc::new(Handover::new());
            let thread = worker(&shared, usize::MAX);
            let mut results = Vec::new();
            for job in [1, 2, 3] {
                let (done, refused) = shared.give(job);
                assert_eq!(refused, None);
                results.extend(done);
            }
            let (done, all) = shared.flush();
            results.extend(done);
            assert!(all);
            assert_eq!(results, [10, 20, 30]);
            shared.close();
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_giver_that_waits_for_ever_for_a_worker_that_died() {
        loom::model(|| {
            let shared = Arc::new(Handover::new());
            let thread = worker(&shared, 1);
            let mut refused = 0;
            for job in [1, 2, 3] {
                refused += usize::from(shared.give(job).1.is_some());
            }
            assert!(refused >= 1);
            let _ = shared.flush();
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_job_that_is_dropped_when_the_giver_closes_at_once() {
        loom::model(|| {
            let shared = Arc::new(Handover::new());
            let thread = worker(&shared, usize::MAX);
            shared.give(7);
            shared.close();
            thread.join().unwrap();
            assert_eq!(shared.flush(), (vec![70], true));
        });
    }
}
