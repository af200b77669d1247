//! Going on with a run: what must be as it was, what may be longer.
use super::{Batch, learn::RunKept};
use crate::{Document, Failure, session::Session};
use adamant_data::Dataset;
use adamant_nn::Walk;
use adamant_optim::schedule::Schedule;
use std::path::Path;

/// Keys that may change from one start of a run to the next: they decide how long it is and what is written, not what a
/// step computes.
const FREE: [&str; 28] = [
    "capture",
    "device",
    "epochs",
    "iterations",
    "checkpoint.",
    "log_every",
    "eval_every",
    "weights",
    "data.path",
    "data.workers",
    "data.prefetch_factor",
    "data.timeout",
    "schedule.on_extend",
    // A run that a bad number has ended goes on under another policy.
    "stability.",
    "alerts.",
    // How ranks carry a step out; not `shards`, which are what it computes.
    "distributed.mode",
    "distributed.bucket_mb",
    "distributed.overlap",
    "distributed.timeout",
    "distributed.zero",
    "distributed.mesh.",
    "distributed.tensor",
    "distributed.tensor.",
    "distributed.sequence_axis",
    "distributed.schedule",
    "distributed.micro_batches",
    "distributed.static_graph",
    "distributed.retries",
];
/// Among those: what decides when a model is judged, where the next steps depend on what the judgement is.
const JUDGING: &str = "eval_every";

/// Refuses to go on under a description that computes something else. `heeds`: steps depend on what validation gives.
pub(super) fn must_agree(folder: Option<&Path>, document: &Document, heeds: bool) -> Result<(), Failure> {
    let Some(path) = folder.map(|f| f.join("config.toml")).filter(|p| p.exists()) else { return Ok(()) };
    let before = Document::read(&path)?;
    let is_free = |key: &str| FREE.iter().any(|f| if f.ends_with('.') { key.starts_with(f) } else { key == *f && !(heeds && key == JUDGING) });
    let changed: Vec<String> = document.difference(&before).into_iter().filter(|k| !is_free(k)).collect();
    if changed.is_empty() {
        return Ok(());
    }
    Err(Failure::Usage(format!("{} began with another description: {} changed; start a new run for that", path.display(), changed.join(", "))))
}

/// Records that are looked at to tell data apart.
const LOOKED_AT: usize = 8;
/// Refuses to go on with other data, as far as a few records tell; at a beginning, remembers what they are. A path may change, what
/// lies there may not.
pub(super) fn same_data<D: Dataset + ?Sized>(kept: &mut RunKept, data: &D, resumes: bool) -> Result<(), Failure>
where
    D::Batch: Batch,
{
    let mut hash = blake3::Hasher::new();
    let n = data.len();
    for k in 0..LOOKED_AT.min(n) {
        let Ok(record) = data.read(k * (n - 1) / LOOKED_AT.min(n).saturating_sub(1).max(1)) else { continue };
        for tensor in data.collate(vec![record])?.tensors() {
            hash.update(&tensor.to_bytes()?);
        }
    }
    let now = hash.finalize().to_hex().to_string();
    match &kept.data {
        Some(before) if resumes && *before != now => {
            Err(Failure::Input("the data are not those that the run began with: other records stand at the same places; start a new run for them".into()))
        }
        _ => {
            kept.data = Some(now);
            Ok(())
        }
    }
}

/// What is to be done with a schedule that reaches over all steps of a run that is now longer or shorter.
pub(crate) enum Extended {
    /// it reaches over the steps that there are now, from here on too
    Stretched,
    /// it stays as it was, and after its end the rate stays
    Held(Box<dyn Schedule>),
}
/// Decides that, from the number of steps before.
pub(crate) type OnLength<'j> = Box<dyn FnMut(u64) -> Result<Extended, Failure> + 'j>;

/// Goes on with a schedule over another number of steps than the run began with.
pub(super) fn extend<M: Walk, B: Batch>(session: &mut Session<M, B>, kept: &mut RunKept, steps: u64, on_length: &mut OnLength<'_>) -> Result<(), Failure> {
    let before = match kept.reach {
        Some(before) => before,
        // A checkpoint of a version that did not keep it.
        None => return Ok(()),
    };
    if before == steps {
        return Ok(());
    }
    match on_length(before)? {
        Extended::Stretched => {
            kept.reach = Some(steps);
            session.follow_schedule();
        }
        Extended::Held(schedule) => session.reschedule(schedule)?,
    }
    Ok(())
}

/// A warning, if the learning rate is 0 from some step to the end.
pub(super) fn idle<M: Walk, B: Batch>(session: &Session<M, B>, steps: u64) -> Option<String> {
    let rates = session.rates_to(steps)?;
    let idle = rates.iter().rev().take_while(|lr| **lr == 0.0).count() as u64;
    (idle > 0).then(|| {
        format!(
            "the learning rate is 0 in the last {idle} of {steps} steps: nothing is learned in them; make the schedule longer (`T_max`, `total_steps`, \
             `total_iters`), or the run shorter"
        )
    })
}
