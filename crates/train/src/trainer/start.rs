//! What a run is made of, and how it begins: from nothing or from a checkpoint, alone or as one of several ranks.
use super::{
    Batch, Callback, EarlyStopping, Score, alerted,
    controlled::Controls,
    elastic,
    handed::HandedState,
    learn::{Judge, Learning, Pattern, RunKept},
    ranks::RunRanks,
    restored::HeldStates,
    resume::{self, OnLength},
    safe::Safe,
    together,
};
use crate::{
    Document, Failure,
    alerts::Alerts,
    checkpoint::{OnError, Snapshot},
    control::ControlPlan,
    folder::{Mark, RunFolder},
    session::{Session, StepSharing, ZeroStage},
    setup::CheckpointPlan,
    watch::{Interrupt, Plan, Watch},
};
use adamant_data::{DataLoader, Dataset};
use adamant_nn::Walk;
use serde_json::Value;
use std::{path::Path, rc::Rc};

/// What a run came to, before anything of its end is written.
pub(crate) struct Learned {
    pub losses: Vec<f64>,
    pub seconds: f64,
    pub resumed: Option<u64>,
    pub stopped: Option<String>,
    pub valid: Option<Score>,
    pub folder: Option<RunFolder>,
    /// its socket, which is open until the caller lets go of it
    pub controls: Controls,
    /// does this rank write what there is to write?
    pub leads: bool,
}
/// All that a run is made of.
pub(crate) struct Start<'a, 'j, M: Walk, D: Dataset + ?Sized + 'static>
where
    D::Batch: Batch,
{
    pub session: &'a mut Session<M, D::Batch>,
    pub loader: DataLoader<D>,
    pub pattern: Pattern,
    pub judge: Option<Judge<'j, M>>,
    pub stopping: Option<&'a mut EarlyStopping>,
    pub callbacks: &'a mut [Box<dyn Callback<M>>],
    pub folder: Option<&'a Path>,
    pub resume: bool,
    /// does a socket in the folder take requests?
    pub control: ControlPlan,
    pub interrupt: &'a Interrupt,
    pub checkpoint: CheckpointPlan,
    pub alerts: &'a Alerts,
    pub document: &'a Document,
    pub environment: &'a Value,
    pub plan: &'a Plan,
    /// what is done with a schedule that reaches over all steps when there are more or fewer of them than before
    pub on_length: Option<OnLength<'j>>,
    /// what is done to the model where a run begins, and not where it goes on
    pub init: Option<Box<dyn FnOnce(&M) -> Result<(), Failure> + 'j>>,
    /// those who share the run, if it is shared
    pub ranks: Option<RunRanks>,
    /// more that is written when the folder is open
    pub opened: Box<dyn FnOnce(&RunFolder) -> Result<(), Failure> + 'j>,
}
/// Learns until the end, from the beginning or from the newest checkpoint; the model then has the weights that are to be kept. Ranks that
/// share the run are told when this one fails.
pub(crate) fn learn<M: Walk, D: Dataset + ?Sized + 'static>(start: Start<'_, '_, M, D>, watch: &mut dyn Watch) -> Result<Learned, Failure>
where
    D::Batch: Batch,
{
    let ranks = start.ranks.clone();
    learn_here(start, watch).inspect_err(|failure| {
        // An end that was asked for is that of all.
        if !matches!(failure, Failure::Interrupted { .. }) {
            ranks.iter().for_each(|ranks| ranks.failed(failure));
        }
    })
}
fn learn_here<M: Walk, D: Dataset + ?Sized + 'static>(start: Start<'_, '_, M, D>, watch: &mut dyn Watch) -> Result<Learned, Failure>
where
    D::Batch: Batch,
{
    let Start {
        session,
        loader,
        pattern,
        judge,
        mut stopping,
        callbacks,
        resume,
        interrupt,
        document,
        environment,
        plan,
        mut on_length,
        init,
        opened,
        ranks,
        ..
    } = start;
    let (shares, mut loader, mut ranks, checkpoint) = (start.folder, loader, ranks, start.checkpoint);
    let place = StartPlace { shares, checkpoint, document, plan, heeds: session.heeds_measures() || stopping.is_some() };
    let RunBegin { mut kept, found, mut safe, handed } = begin_together(session, (&mut ranks, &mut loader), resume, &place, interrupt, watch)?;
    let path = shares.filter(|_| ranks.as_ref().is_none_or(RunRanks::leads));
    let resumed = found.as_ref().map(|snapshot| snapshot.step);
    resume::same_data(&mut kept, loader.dataset(), resumed.is_some())?;
    match (&mut on_length, resumed) {
        (Some(on_length), Some(_)) => resume::extend(session, &mut kept, pattern.steps, on_length)?,
        (Some(_), None) => kept.reach = Some(pattern.steps),
        (None, _) => {}
    }
    if let (None, Some(init)) = (resumed, init) {
        init(&session.model)?;
    }
    if kept.stopped.is_none() {
        resume::idle(session, pattern.steps).into_iter().for_each(|warning| watch.warn(&warning));
    }
    let on_error = if checkpoint.warn && shares.is_some() { OnError::Warn } else { OnError::Stop };
    let mark = resumed.map(|step| Mark { metrics_bytes: kept.metrics_bytes, step });
    let mut folder = path.map(|f| RunFolder::open(f, document, environment, mark, on_error)).transpose()?;
    alerted::begin(start.alerts, folder.as_mut(), (kept.alerts.take(), resumed), watch)?;
    if let Some(folder) = &folder {
        opened(folder)?;
    }
    if let (Some(shares), true) = (shares, ranks.as_ref().is_some_and(RunRanks::is_elastic)) {
        let folder = folder.get_or_insert_with(|| RunFolder::of_another(shares, kept.metrics_bytes, on_error, !start.alerts.is_empty()));
        folder.keep_journal(mark.map_or(0, |mark| mark.metrics_bytes))?;
        if let Some(handed) = &handed {
            folder.take_journal(handed.journal.clone())?;
        }
    }
    let controls = Controls::open(path, (resume, kept.controls), start.control, pattern.steps, watch)?;
    let mut learning = Learning {
        session,
        pattern,
        loader,
        judge,
        stopping: stopping.as_deref_mut(),
        callbacks,
        folder: folder.as_mut(),
        safe: safe.take(),
        kept,
        score: None,
        valid: None,
        watch,
        places: Vec::new(),
        held: HeldStates::default(),
        best: None,
        controls,
        interrupt,
        described: elastic::description(document),
        checkpoint,
        ranks,
        paused: Rc::default(),
    };
    if let Some(snapshot) = &found {
        learning.restore(snapshot)?;
    }
    // Its tensors are not to stay in memory while the run learns.
    drop(found);
    if let Some(handed) = handed {
        learning.session.set_used(handed.used);
        learning.score = handed.score;
    }
    if let Err(failure) = learning.run() {
        learning.failed(&failure);
        return Err(failure);
    }
    learning.session.put_together()?;
    let (kept, valid, mut controls) = (learning.kept, learning.valid, learning.controls);
    let (mut safe, leads) = (learning.safe, learning.ranks.as_ref().is_none_or(RunRanks::leads));
    controls.over();
    if let Some(safe) = &mut safe {
        safe.flush(watch)?;
    }
    match stopping.and_then(|s| s.best.take().filter(|_| s.restore_best)) {
        Some(best) => session.model.load_state_dict(&best)?,
        None => session.settle_on_judged()?,
    }
    let folder = folder.filter(RunFolder::is_written_here);
    Ok(Learned { losses: kept.losses(), seconds: kept.seconds, resumed, stopped: kept.stopped, valid, folder, controls, leads })
}
/// Checkpoints are there that the run is not to go on from.
pub(super) fn of_an_earlier_run(path: &Path) -> Failure {
    Failure::Usage(format!("{} has checkpoints of an earlier run: go on with `--resume auto`, or name another folder", path.display()))
}
/// Where a run begins.
pub(super) struct StartPlace<'p> {
    pub shares: Option<&'p Path>,
    checkpoint: CheckpointPlan,
    pub document: &'p Document,
    plan: &'p Plan,
    /// do steps depend on what validation gives?
    pub heeds: bool,
}
/// What a run begins with.
struct RunBegin {
    kept: RunKept,
    found: Option<Snapshot>,
    safe: Option<Safe>,
    /// of a newcomer, what the others gave it
    handed: Option<HandedState>,
}
/// Begins, alone or as one of several ranks; whoever is left of them begins anew where one is lost meanwhile.
fn begin_together<M: Walk, D: Dataset + ?Sized + 'static>(
    session: &mut Session<M, D::Batch>,
    (ranks, loader): (&mut Option<RunRanks>, &mut DataLoader<D>),
    resume: bool,
    place: &StartPlace<'_>,
    interrupt: &Interrupt,
    watch: &mut dyn Watch,
) -> Result<RunBegin, Failure>
where
    D::Batch: Batch,
{
    if let Some(ranks) = ranks.as_ref().filter(|ranks| ranks.is_elastic()) {
        let StepSharing { zero, compress, .. } = ranks.sharing();
        let kept = if *zero > ZeroStage::Off { Some("`zero`") } else { compress.map(|_| "`compress`") };
        if let Some(kept) = kept {
            let told = format!("[distributed]: with {kept} a lost rank takes along what only it has: ranks do not come and go then");
            return Err(Failure::Usage(told + "; leave out `--elastic`, and go on from the newest checkpoint by `--max-restarts`"));
        }
    }
    let mut waits = ranks.as_ref().is_some_and(RunRanks::is_newcomer);
    let (mut resumes, mut lost, mut has_met) = (resume, None, false);
    loop {
        // Nobody has learned anything yet.
        if let Some(before) = ranks.as_ref().filter(|_| waits) {
            let met = before.meet(lost.as_ref(), interrupt)?;
            let met = met.map_err(|signal| Failure::Interrupted { signal, step: session.position().step, checkpoint: None })?;
            loader.hold(met.sharing().held())?;
            *ranks = Some(met);
        }
        match begin(session, ranks.as_ref(), place, (resumes, has_met), watch) {
            Ok(begun) => return Ok(begun),
            Err(failure) => match ranks.as_ref().and_then(|ranks| ranks.goes_on_after(&failure)) {
                // One of those who are gone may have written a checkpoint.
                Some(kind) => (waits, resumes, lost, has_met) = (true, true, Some(kind), true),
                None => return Err(failure),
            },
        }
    }
}
/// Brings the session to where the run begins or goes on: as it was made, as the newest checkpoint has it, or as those have it who train already.
fn begin<M: Walk, B: Batch>(
    session: &mut Session<M, B>,
    ranks: Option<&RunRanks>,
    place: &StartPlace<'_>,
    (resumes, is_told): (bool, bool),
    watch: &mut dyn Watch,
) -> Result<RunBegin, Failure> {
    // Who does not lead reads what the leader has written, and writes nothing.
    let path = place.shares.filter(|_| ranks.is_none_or(RunRanks::leads));
    if let Some(handed) = ranks.filter(|ranks| ranks.is_elastic()).map(|ranks| ranks.taken(place.document)).transpose()?.flatten() {
        ranks.map_or(Ok(()), |ranks| session.share(ranks.sharing().clone()))?;
        let kept = RunKept::read(session.restore(&handed.snapshot)?)?;
        if !is_told {
            watch.begin(place.plan);
        }
        watch.resume(handed.snapshot.step);
        return Ok(RunBegin { kept, found: Some(handed.snapshot.clone()), safe: None, handed: Some(handed) });
    }
    let open = if ranks.is_some_and(RunRanks::is_elastic) { Safe::take_over } else { Safe::open };
    let safe = path.map(|f| open(f, place.checkpoint)).transpose()?;
    if !is_told {
        watch.begin(place.plan);
    }
    if let Some(ranks) = ranks {
        let whole = session.meshed().is_none().then_some(&session.model);
        ranks.must_be_alike(place.document, whole)?;
        session.share(ranks.sharing().clone())?;
    }
    let (mut kept, mut found) = (RunKept::default(), None);
    if let Some(ranks) = ranks.filter(|_| session.shares_out()) {
        if let Some(newest) = together::newest(session, ranks, (safe.as_ref(), place, resumes), watch)? {
            kept = RunKept::read(session.restore(&newest.snapshot)?)?;
            watch.resume(newest.snapshot.step);
            found = Some(newest.snapshot);
        }
        return Ok(RunBegin { kept, found, safe, handed: None });
    }
    if let Some(safe) = &safe {
        match safe.latest(watch)? {
            None => {}
            Some(newest) if resumes => {
                resume::must_agree(path, place.document, place.heeds)?;
                kept = RunKept::read(session.restore(&newest.snapshot)?)?;
                watch.resume(newest.snapshot.step);
                found = Some(newest.snapshot);
            }
            Some(newest) => return Err(of_an_earlier_run(path.unwrap_or(&newest.folder))),
        }
    }
    if let Some(led) = ranks.map(|ranks| ranks.agree_on(place.shares, found.as_ref())).transpose()?.flatten() {
        kept = RunKept::read(session.restore(&led.snapshot)?)?;
        found = Some(led.snapshot);
    }
    Ok(RunBegin { kept, found, safe, handed: None })
}
