//! Records that never return: a thread of its own looks at what each worker is at. A worker that is over the limit is
//! left behind with its record (a thread cannot be stopped from outside), a new one takes its place, and its batch is made
//! again without the record. The old one, should it ever return, finds itself abandoned and ends.
use super::work::{Doing, FailedBatch, Job, Loaded, SharedLoader, WorkState, bad_record, deliver, spawn};
use crate::{Cause, Dataset};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

/// How often at most, and at least, one looks.
const LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// The watch's thread, until the loader is gone.
pub(super) fn watch<D: Dataset + ?Sized + 'static>(shared: &Arc<SharedLoader<D>>) {
    let Some(timeout) = shared.timeout else { return };
    // The data set is asked where a record lies.
    let _around = shared.ambient.enter();
    let pause = (timeout / 8).clamp(LOOK.0, LOOK.1);
    let mut state = shared.state.lock();
    while !state.closed {
        match overdue(&mut state, timeout) {
            Some((worker, doing)) => {
                replace(shared, &mut state, worker);
                drop(state);
                give_up(shared, doing, timeout);
                state = shared.state.lock();
            }
            None if is_idle(&state) => shared.watched.wait(&mut state),
            None => {
                shared.watched.wait_for(&mut state, pause);
            }
        }
    }
}
/// Nothing is being read, and nothing will be before the loader asks.
fn is_idle<B>(state: &WorkState<B>) -> bool {
    state.queue.is_empty() && state.slots.iter().all(|slot| slot.lock().doing.is_none())
}
/// A worker that is over the limit, now abandoned, and what it was at.
fn overdue<B>(state: &mut WorkState<B>, timeout: Duration) -> Option<(usize, Doing)> {
    let now = Instant::now();
    state.slots.iter().enumerate().find_map(|(worker, slot)| {
        let mut slot = slot.lock();
        let late = slot.doing.as_ref().is_some_and(|doing| now.saturating_duration_since(doing.since) > timeout);
        let doing = slot.doing.take_if(|_| late)?;
        slot.abandoned = true;
        Some((worker, doing))
    })
}
/// Puts a new worker in the place of an abandoned one. If the system has no thread left, the others go on without it.
fn replace<D: Dataset + ?Sized + 'static>(shared: &Arc<SharedLoader<D>>, state: &mut WorkState<D::Batch>, worker: usize) {
    match spawn(shared) {
        Ok(slot) => state.slots[worker] = slot,
        Err(_) => drop(state.slots.remove(worker)),
    }
}
fn give_up<D: Dataset + ?Sized + 'static>(shared: &Arc<SharedLoader<D>>, doing: Doing, timeout: Duration) {
    let Doing { job, record, .. } = doing;
    let limit = format!("{:.3} s", timeout.as_secs_f64());
    let fail = |job: &Job, what: String| deliver(shared, job, Loaded { batch: Some(Err(FailedBatch::Lost(what))), bad: Vec::new() });
    let Some(index) = record else {
        return fail(&job, format!("collating batch {} did not end within {limit}", job.batch));
    };
    // Outside the lock: `locate` is the data set's code.
    let bad = bad_record(&*shared.dataset, index, Cause::TimedOut, format!("reading it did not end within {limit}"));
    let mut state = shared.state.lock();
    let why = format!("no worker is left: {bad}, and its worker could not be replaced");
    state.hung.insert(index, bad);
    if state.slots.is_empty() {
        // The loader must not wait for ever; its next request tries to start workers again.
        let waiting = std::mem::take(&mut state.queue);
        drop(state);
        return waiting.iter().chain([&job]).for_each(|job| fail(job, why.clone()));
    }
    if shared.generation.load(Relaxed) == job.generation {
        state.queue.push_front(job);
        shared.jobs.notify_one();
    }
}
