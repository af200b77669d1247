//! Where somebody may look on while plans run: the steps' times for a profiler, spans for `tracing`. Without the
//! features `profiling` and `tracing` each function here is the plain call it stands for.
use crate::kernel::Step;
use adamant_runtime::{backend::Refused, execute::Replay};

#[cfg(feature = "profiling")]
use {
    crate::{ErrorKind, profile},
    std::time::Instant,
};

/// Does somebody look on step by step?
#[inline]
pub(super) fn is_on() -> bool {
    #[cfg(feature = "profiling")]
    if profile::is_on() {
        return true;
    }
    #[cfg(feature = "tracing")]
    if tracing::enabled!(target: "adamant::kernel", tracing::Level::TRACE) {
        return true;
    }
    false
}
/// Hands steps to the device; `chosen` are their numbers in the plan.
#[inline]
pub(super) fn submit(replay: &Replay<'_>, steps: &[Step<'_>], chosen: &[usize]) -> Result<(), Refused> {
    #[cfg(feature = "profiling")]
    if profile::is_on() {
        return Ok(submit_timed(replay, steps, chosen)?);
    }
    #[cfg(feature = "tracing")]
    if tracing::enabled!(target: "adamant::kernel", tracing::Level::TRACE) {
        return steps.iter().zip(chosen).try_for_each(|(step, &at)| {
            let _span = kernel_span(replay, step, at).entered();
            replay.hand_over(std::slice::from_ref(step))
        });
    }
    let _ = chosen;
    replay.hand_over(steps)
}
#[cfg(feature = "profiling")]
fn submit_timed(replay: &Replay<'_>, steps: &[Step<'_>], chosen: &[usize]) -> Result<(), ErrorKind> {
    let (thread, device) = (profile::this_thread(), replay.device);
    let mut events = Vec::with_capacity(steps.len());
    let mut ended = |k: usize, begin: Instant, end: Instant| {
        let Some(&at) = chosen.get(k) else { return };
        let origin_of = |node: u32| replay.caller.origin(replay.plan.graph.nodes[node as usize].record);
        let (step, origin) = (&replay.plan.steps[at], origin_of(replay.plan.steps[at].node));
        let parts = if profile::splits_layers() { replay.plan.nodes_of(step) } else { Vec::new() };
        let parts = parts.into_iter().map(|node| (node, origin_of(node).scope)).collect();
        let (plan, sized) = (replay.plan.clone(), replay.sized.clone());
        let ran = profile::Ran { plan, sized, step: at as u32, origin, device, live_bytes: profile::live_bytes(device), parts };
        events.push(profile::ProfileEvent { what: profile::EventKind::Kernel(Box::new(ran)), thread, begin, end });
    };
    let result = device.backend().submit_timed(steps, &mut ended);
    profile::keep(events);
    result
}
#[cfg(feature = "tracing")]
fn kernel_span(replay: &Replay<'_>, step: &Step<'_>, at: usize) -> tracing::Span {
    let planned = &replay.plan.steps[at];
    let origin = replay.caller.origin(replay.plan.graph.nodes[planned.node as usize].record);
    let op = replay.plan.ops_of(planned).join("+");
    let (line, layer) = (origin.at.to_string(), crate::scope::path(origin.scope));
    tracing::trace_span!(target: "adamant::kernel", "kernel", op, family = step.kernel.kind.family(), shape = %step.space, line, layer)
}

/// A window of so many ops that runs, until the guard is dropped.
pub(crate) fn flush(ops: usize) -> Watched {
    Watched::begin(WatchedWork::Flush, ops)
}
/// A plan for so many ops that is made, until the guard is dropped.
pub(super) fn plan(ops: usize) -> Watched {
    Watched::begin(WatchedWork::Plan, ops)
}
#[derive(Clone, Copy)]
enum WatchedWork {
    Flush,
    Plan,
}
/// Tells when it is dropped that something has ended.
pub(crate) struct Watched {
    #[cfg(feature = "profiling")]
    profiled: Option<(WatchedWork, usize, Instant)>,
    #[cfg(feature = "tracing")]
    _span: tracing::span::EnteredSpan,
}
impl Watched {
    fn begin(work: WatchedWork, ops: usize) -> Watched {
        let _ = (work, ops);
        Watched {
            #[cfg(feature = "profiling")]
            profiled: profile::is_on().then(|| (work, ops, Instant::now())),
            #[cfg(feature = "tracing")]
            _span: match work {
                WatchedWork::Flush => tracing::debug_span!(target: "adamant::flush", "flush", ops),
                WatchedWork::Plan => tracing::debug_span!(target: "adamant::plan", "plan", ops),
            }
            .entered(),
        }
    }
}
impl Drop for Watched {
    fn drop(&mut self) {
        #[cfg(feature = "profiling")]
        if let Some((work, ops, begin)) = self.profiled.take() {
            let kind = match work {
                WatchedWork::Flush => profile::SpanKind::Flush,
                WatchedWork::Plan => profile::SpanKind::Plan,
            };
            let what = profile::EventKind::Span(kind, format!("{ops} ops").into());
            profile::keep([profile::ProfileEvent { what, thread: profile::this_thread(), begin, end: Instant::now() }]);
        }
    }
}
