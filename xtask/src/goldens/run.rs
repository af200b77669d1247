//! Computing cases: one at a time on each worker thread, panics caught, and a time limit that a hang runs into.
use super::{
    call::OpCall,
    cause::RefusalCause,
    dispatch,
    files::Files,
    init,
    manifest::{Case, INITIALISERS, SCHEDULES, ViewOf},
    module, optim, schedule,
    write::{Ending, Status},
};
use adamant::{Device, Error, Tensor, grad, nn::Param};
use std::{
    any::Any,
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    time::{Duration, Instant},
};

/// Deep recursion in a case should be found by a test of the library, not here.
const STACK_BYTES: usize = 64 << 20;

/// What a case gave: tensors under the manifest's names, and how it went.
#[derive(Clone)]
pub struct Outcome {
    /// evaluated results
    pub tensors: Vec<(String, Tensor)>,
    /// the line for status.jsonl
    pub status: Status,
    /// what schedules and initialisers give
    pub numbers: ResultNumbers,
}
/// Results that are no tensors.
#[derive(Clone)]
pub enum ResultNumbers {
    /// there are none
    None,
    /// of a schedule
    Rates(schedule::ScheduleRates),
    /// of an initialiser
    Statistics(init::Statistics),
}

/// Computes all cases, in any order; the outcomes are in the order of the cases.
pub fn run(cases: Vec<Case>, files: Files, device: Device, workers: usize, limit: Duration) -> Vec<Outcome> {
    run_by(compute, cases, files, device, workers, limit)
}
type Compute = fn(&Case, &Files, Device) -> Outcome;
fn run_by(compute: Compute, cases: Vec<Case>, files: Files, device: Device, workers: usize, limit: Duration) -> Vec<Outcome> {
    let work = Arc::new(CaseWork { compute, cases, files, device, next: AtomicUsize::new(0), running: Mutex::default() });
    let (send, receive) = mpsc::channel();
    let mut started = 0;
    let mut start = |work: &Arc<CaseWork>| {
        let (work, send, me) = (work.clone(), send.clone(), started);
        started += 1;
        std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || work.serve(me, &send))
    };
    let mut outcomes: Vec<Option<Outcome>> = work.cases.iter().map(|_| None).collect();
    let mut open = outcomes.len();
    let mut alive = (0..workers).filter(|_| start(&work).is_ok()).count();
    while open > 0 && alive > 0 {
        if let Ok((k, outcome)) = receive.recv_timeout(Duration::from_millis(50)) {
            // A late result of a case that was given up does not count.
            if outcomes[k].is_none() {
                outcomes[k] = Some(outcome);
                open -= 1;
            }
        }
        let hung: Vec<(usize, usize)> = work.running().iter().filter(|(_, (_, since))| since.elapsed() > limit).map(|(&worker, &(k, _))| (worker, k)).collect();
        for (worker, k) in hung {
            // The thread cannot be ended; another takes its place and the process does not wait for it.
            work.running().remove(&worker);
            if outcomes[k].is_none() {
                outcomes[k] = Some(ended(&work.cases[k], Ending::Error, "hang", format!("not done after {} s", limit.as_secs())));
                open -= 1;
            }
            if start(&work).is_err() {
                alive -= 1;
            }
        }
    }
    let missing = |k: usize| ended(&work.cases[k], Ending::Error, "internal", "no thread was left to compute it".into());
    outcomes.into_iter().enumerate().map(|(k, o)| o.unwrap_or_else(|| missing(k))).collect()
}

struct CaseWork {
    compute: Compute,
    cases: Vec<Case>,
    files: Files,
    device: Device,
    next: AtomicUsize,
    running: Mutex<HashMap<usize, (usize, Instant)>>,
}
impl CaseWork {
    fn running(&self) -> MutexGuard<'_, HashMap<usize, (usize, Instant)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn serve(&self, me: usize, send: &mpsc::Sender<(usize, Outcome)>) {
        self.device.make_current();
        loop {
            let k = self.next.fetch_add(1, Relaxed);
            let Some(case) = self.cases.get(k) else { return };
            self.running().insert(me, (k, Instant::now()));
            let outcome = catch_unwind(AssertUnwindSafe(|| (self.compute)(case, &self.files, self.device)))
                .unwrap_or_else(|panic| ended(case, Ending::Error, "panic", text_of(panic)));
            let given_up = self.running().remove(&me).is_none();
            if send.send((k, outcome)).is_err() || given_up {
                return;
            }
        }
    }
}
fn text_of(panic: Box<dyn Any + Send>) -> String {
    panic.downcast_ref::<&str>().map(|s| s.to_string()).or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a text".into())
}
fn ended(case: &Case, status: Ending, kind: &str, message: String) -> Outcome {
    Outcome { tensors: Vec::new(), numbers: ResultNumbers::None, status: Status { id: case.id.clone(), status, kind: kind.into(), message, cause: None } }
}

fn compute(case: &Case, files: &Files, device: Device) -> Outcome {
    // What has no op, but a result of its own kind.
    let of_its_own = match case.group.as_str() {
        SCHEDULES => schedule::rates(case).map(|rates| (Vec::new(), ResultNumbers::Rates(rates))),
        INITIALISERS => init::statistics(case).map(|statistics| (Vec::new(), ResultNumbers::Statistics(statistics))),
        _ if case.op.starts_with("optim.") => optim::trajectories(case, files, device).map(|tensors| (tensors, ResultNumbers::None)),
        _ => return compute_op(case, files, device),
    };
    match of_its_own {
        Ok((tensors, numbers)) => Outcome { tensors, numbers, ..ended(case, Ending::Ok, "", String::new()) },
        Err(e) => failed(case, &e),
    }
}
fn compute_op(case: &Case, files: &Files, device: Device) -> Outcome {
    let mut tensors = Vec::new();
    let done = forward(case, files, device, &mut tensors);
    let mut outcome = match &done {
        Ok(_) => ended(case, Ending::Ok, "", String::new()),
        Err(e) => failed(case, e),
    };
    if let Ok(recorded) = done {
        // A missing gradient does not take the forward's result away; the comparison finds that it was not written.
        if let Err(e) = gradients(case, files, device, &recorded, &mut tensors) {
            // Where a device has no f64, moving its bits is still no arithmetic: the case as a whole is unsupported.
            let absent = RefusalCause::of(&e).filter(|c| matches!(c, RefusalCause::Dtype(_)));
            let ending = if absent.is_some() { Ending::Unsupported } else { Ending::Ok };
            outcome = ended(case, ending, e.kind().word(), format!("gradient: {e}"));
            outcome.status.cause = absent.map(|c| c.to_string());
        }
        outcome.tensors = tensors;
    }
    outcome
}
fn failed(case: &Case, e: &Error) -> Outcome {
    let cause = RefusalCause::of(e);
    let mut outcome = ended(case, if cause.is_some() { Ending::Unsupported } else { Ending::Error }, e.kind().word(), e.to_string());
    outcome.status.cause = cause.map(|c| c.to_string());
    outcome
}

/// What the gradients are taken of.
struct RecordedCase {
    leaves: Vec<Option<Tensor>>,
    outputs: Vec<Tensor>,
    /// of a module, by the names of their gradients
    parameters: Vec<(String, Param)>,
}

fn forward(case: &Case, files: &Files, device: Device, results: &mut Vec<(String, Tensor)>) -> Result<RecordedCase, Error> {
    let stored = case.inputs.iter().map(|name| name.as_ref().map(|n| files.tensor(case, n, device)).transpose()).collect::<Result<Vec<_>, _>>()?;
    let mut leaves = Vec::new();
    for (k, tensor) in stored.into_iter().enumerate() {
        let Some(tensor) = tensor else {
            leaves.push(None);
            continue;
        };
        let differentiable = !case.grads.is_empty() && tensor.dtype()?.is_float() && !case.nograd.contains(&k);
        leaves.push(Some(if differentiable { tensor.tracked() } else { tensor }));
    }
    let viewed = leaves
        .iter()
        .enumerate()
        .map(|(k, leaf)| leaf.as_ref().map(|t| view(t, case.views.get(k).and_then(Option::as_ref))).transpose())
        .collect::<Result<Vec<_>, _>>()?;
    let call = OpCall::new(case, viewed);
    let (outputs, parameters) = if case.op.starts_with("module.") {
        let ran = module::run(&call, files, device)?;
        results.extend(ran.buffers);
        (ran.outputs, ran.parameters)
    } else {
        (dispatch::dispatch(&call)?, Vec::new())
    };
    for (k, output) in outputs.iter().enumerate() {
        // Errors in data show when it is read.
        output.materialize()?;
        if let Some(Some(name)) = case.outputs.get(k) {
            results.push((name.clone(), output.detach()));
        }
    }
    Ok(RecordedCase { leaves, outputs, parameters })
}
/// The view of a stored tensor that the op gets, part of the graph, so that gradients reach the stored tensor.
fn view(stored: &Tensor, of: Option<&ViewOf>) -> Result<Tensor, Error> {
    match of {
        None => Ok(stored.clone()),
        Some(ViewOf::Permute(axes)) => stored.permute(axes.as_slice()).ok(),
        Some(ViewOf::Slice(ranges)) => {
            let shape = stored.shape()?;
            let mut viewed = stored.clone();
            for (axis, &[start, end, step]) in ranges.iter().enumerate() {
                let size = shape.get(axis).copied().unwrap_or(0) as isize;
                let clamp = |i: isize| if i < 0 { (i + size).max(0) } else { i.min(size) } as usize;
                let (start, end) = (start.map_or(0, clamp), end.map_or(size as usize, clamp));
                viewed = viewed.slice(axis, start, end.max(start), step.unwrap_or(1).max(1) as usize);
            }
            viewed.ok()
        }
    }
}

fn gradients(case: &Case, files: &Files, device: Device, recorded: &RecordedCase, results: &mut Vec<(String, Tensor)>) -> Result<(), Error> {
    if case.grads.is_empty() && case.param_grads.is_empty() {
        return Ok(());
    }
    let load = |name: &Option<String>| name.as_ref().map(|n| files.tensor(case, n, device)).transpose();
    let cotangents = case.gout.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let pairs: Vec<(&Tensor, &Tensor)> = recorded.outputs.iter().zip(&cotangents).filter_map(|(y, g)| g.as_ref().map(|g| (y, g))).collect();
    let again = !case.grads2.is_empty();
    let grads = grad::backward_many(&pairs, again)?;
    let of = |k: usize| recorded.leaves.get(k).and_then(Option::as_ref).filter(|leaf| leaf.is_tracked());
    for (k, name) in case.grads.iter().enumerate() {
        if let (Some(name), Some(g)) = (name, of(k).and_then(|leaf| grads.get(leaf))) {
            g.materialize()?;
            results.push((name.clone(), g.detach()));
        }
    }
    for (name, parameter) in &recorded.parameters {
        if let Some(g) = grads.of(&parameter.cell()) {
            g.materialize()?;
            results.push((name.clone(), g.detach()));
        }
    }
    if !again {
        return Ok(());
    }
    let weights = case.v.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let pairs: Vec<(&Tensor, &Tensor)> = weights.iter().enumerate().filter_map(|(k, v)| Some((of(k).and_then(|leaf| grads.get(leaf))?, v.as_ref()?))).collect();
    let second = grad::backward_many(&pairs, false).map_err(|e| e.clone().hint(format!("in the second gradient; {}", e.hint_text().unwrap_or_default())))?;
    for (k, name) in case.grads2.iter().enumerate() {
        let (Some(name), Some(leaf)) = (name, of(k)) else { continue };
        // Gradients that do not depend on an input have a derivative of zero there: a piecewise linear op reaches nothing.
        let g = second.get(leaf).map_or_else(|| leaf.detach().zeros_like(), Tensor::detach);
        g.materialize()?;
        results.push((name.clone(), g));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_or_a_hang_fails_its_case_and_no_other() {
        let compute: Compute = |case, _, _| match case.id.as_str() {
            "panics" => panic!("on purpose"),
            "hangs" => loop {
                std::thread::park();
            },
            _ => ended(case, Ending::Ok, "", String::new()),
        };
        let ids = ["first", "panics", "second", "hangs", "third"];
        let cases = ids.iter().map(|id| Case { id: id.to_string(), ..Case::default() }).collect();
        for workers in [1, 3] {
            let outcomes = run_by(compute, Vec::clone(&cases), Files::default(), Device::reference(), workers, Duration::from_secs(2));
            let found: Vec<_> = outcomes.iter().map(|o| (o.status.id.as_str(), o.status.status, o.status.kind.as_str())).collect();
            let ok = Ending::Ok;
            let want = [("first", ok, ""), ("panics", Ending::Error, "panic"), ("second", ok, ""), ("hangs", Ending::Error, "hang"), ("third", ok, "")];
            assert_eq!(found, want);
        }
    }
}
