//! What a plan for this machine goes by, measured here: a step of the description's own model with the executor of runs, on one device alone and
//! on all at the same time; what a program of one's own takes; and an all-reduce between two ranks.
//!
//! Every step has the same rows of the description's data: how long numbers take does not depend on what they are.
use crate::{
    cluster::{ClusterLink, ComputeRates, PlannedCluster},
    forecast::forecast,
    load::{MeasuredTimes, PassTimes, RunLoad},
    strategy::MeshStrategy,
};
use adamant_core::{
    DType, Device, Tensor, TensorType,
    communicator::{self, CollectiveCall, Communicator, ReductionTree},
    op::{CollectiveKind, RankUse, ReduceOp},
};
use adamant_distributed::local::local_threads;
use adamant_nn::{Module, manual_seed};
use adamant_train::{Course, Document, Failure, Habits, Look, Objective, RunModel, Session, Setup, StepSharing, ZeroStage};
use std::{
    path::Path,
    sync::{Arc, Barrier},
    time::Instant,
};

/// What is measured.
#[derive(Clone, Debug)]
pub struct MeasureOptions {
    /// steps of each sort that count
    pub steps: usize,
    /// devices of this machine, which ranks share
    pub devices: usize,
    /// rows of which passes are timed
    pub rows: Vec<usize>,
    /// is a program of one's own timed too?
    pub program: bool,
}
/// What was measured.
#[derive(Clone, Debug)]
pub struct MeasuredMachine {
    /// this machine
    pub cluster: PlannedCluster,
    /// the model's times
    pub times: MeasuredTimes,
    /// bytes that a step of the rows of the description had at most, on one rank
    pub peak: f64,
}
type Rows = (Tensor, Tensor);

/// Measures this machine with a description's model. `device` makes a device of one thread, for each rank one.
///
/// # Errors
/// A description that makes no sense, data that cannot be read; what a step fails with.
pub fn measure(
    document: &Document,
    folder: &Path,
    load: &RunLoad,
    options: &MeasureOptions,
    device: &(dyn Fn() -> Result<Device, Failure> + Sync),
) -> Result<MeasuredMachine, Failure> {
    let steps = options.steps.max(1);
    let mut rows = options.rows.clone();
    rows.push(load.rows);
    rows.sort_unstable();
    rows.dedup();
    let of_run = |rows: usize, shared: bool| alone(device, |device| stepped(document, folder, rows, steps, shared, device));
    let update = alone(device, |_| updated(document, folder, steps))?;
    let (mut passes, mut peak, mut sharing) = (Vec::new(), 0.0, Vec::new());
    for &n in rows.iter().filter(|n| **n > 0) {
        let (seconds, most) = of_run(n, false)?;
        let (shared, _) = of_run(n, true)?;
        sharing.push(shared - seconds);
        passes.push((n as f64, (seconds - update).max(0.2 * seconds)));
        if n == load.rows {
            peak = most;
        }
    }
    let sharing = median(sharing).max(0.0);
    let mut run = PassTimes { passes, update, sharing, units: 0.0 };
    let program = match options.program {
        true => {
            let passes = rows.iter().map(|n| Ok((*n as f64, alone(device, |_| passed(document, folder, *n, steps))?)));
            PassTimes { passes: passes.collect::<Result<_, Failure>>()?, update, sharing, units: 0.0 }
        }
        false => run.clone(),
    };
    let (lone, _) = of_run(load.rows, true)?;
    let ranks = |n: usize, zero: Option<ZeroStage>| beside(document, folder, load.rows, (steps, n, zero), device);
    let devices = options.devices.max(1);
    let crowded = if devices > 1 { ranks(devices, None)? } else { lone };
    let (crowding, switching) = (crowded / lone, ranks(2 * devices, None)? / (2.0 * crowded));
    let inside = link(options.devices)?;
    let memory = adamant_core::memory::system_memory().map_or(f64::INFINITY, |memory| memory.available as f64) / options.devices.max(1) as f64;
    let usual = PlannedCluster::default();
    // What the steps came to: how layers share a pass out among themselves follows from these, how long it is was measured.
    let flops: f64 = load.layers.iter().map(|l| 3.0 * l.flops).sum();
    let full = run.passes.last().map_or(usual.compute.full, |(rows, seconds)| flops * rows / seconds.max(1e-9)).max(1.0);
    let moved = 4.0 * (3.0 + 2.0 * load.slots as f64) * load.parameters();
    let bandwidth = if update > 0.0 && moved > 0.0 { moved / update } else { usual.bandwidth };
    let compute = ComputeRates { full, half: full };
    let cluster = PlannedCluster {
        hosts: Some(1),
        devices: options.devices.max(1),
        compute,
        bandwidth,
        memory,
        crowding: crowding.max(1.0),
        switching: switching.max(1.0),
        inside,
        ..usual
    };
    if devices > 1 {
        // Two ranks that share nothing out beside the rows, and two that share all of it: what the plan does not explain is work.
        let (plain, all) = (ranks(2, Some(ZeroStage::Off))?, ranks(2, Some(ZeroStage::Parameters))?);
        let timed = RunLoad { times: Some(MeasuredTimes { run: run.clone(), program: run.clone() }), shards: None, ..load.clone() };
        let planned = |zero| forecast(&timed, &cluster, &MeshStrategy::data(2, zero), 2 * load.rows).map_or(0.0, |step| step.seconds);
        run.units = ((all - plain) - (planned(3) - planned(0))).max(0.0) / cluster.crowding;
    }
    Ok(MeasuredMachine { cluster, times: MeasuredTimes { run, program }, peak })
}
/// Runs on a device of its own.
fn alone<T>(device: &dyn Fn() -> Result<Device, Failure>, f: impl FnOnce(Device) -> Result<T, Failure>) -> Result<T, Failure> {
    let device = device()?;
    device.scoped(|| f(device))
}
/// What times come to: the mean of the fastest quarter, as what else the machine does only adds.
pub fn fastest(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    let counted = seconds.len().div_ceil(4);
    seconds.iter().take(counted).sum::<f64>() / counted.max(1) as f64
}
fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(0.0)
}
/// So many rows of a description's data, to be timed with: inputs and targets.
///
/// # Errors
/// Data that cannot be read, or have no rows.
pub fn timed_rows(setup: &Setup, rows: usize) -> Result<Rows, Failure> {
    let first = setup.parts.loader(0, rows, None)?.epoch().next();
    let (x, y) = first.ok_or_else(|| Failure::Input("the data have no rows to be timed with".into()))??;
    let has = x.shape()?.first().copied().unwrap_or(1).max(1);
    // Data that have fewer are taken again.
    let tiled = |t: &Tensor| Tensor::cat(&vec![t; rows.div_ceil(has)], 0).narrow(0, 0, rows).contiguous();
    let (x, y) = (tiled(&x), tiled(&y));
    x.materialize()?;
    y.materialize()?;
    Ok((x, y))
}
fn loss_of(objective: Objective) -> impl Fn(&RunModel, &Rows) -> adamant_core::Result<Tensor> {
    move |model, (x, y)| objective.loss(&model.forward(x)?, y)
}
/// Steps of a description's run with the executor of runs, always of the same rows, each by the clock.
pub struct TimedRun {
    session: Session<RunModel, Rows>,
    batch: Rows,
    shared: bool,
}
impl TimedRun {
    /// Of so many rows for this rank, which has one of the parts where steps are shared.
    ///
    /// # Errors
    /// A description that makes no sense, data that cannot be read; what ranks cannot share out.
    pub fn new(document: &Document, folder: &Path, rows: usize, sharing: Option<StepSharing>, device: Device) -> Result<TimedRun, Failure> {
        manual_seed(1);
        let setup = Setup::of(document, folder)?;
        let batch = timed_rows(&setup, rows)?;
        let Setup { model, objective, optimizer, clip, stability, capture, precision, .. } = setup;
        let habits = Habits { optimizer, course: Course::Constant, clip, stability, accumulate: 1, ema: None, capture, precision };
        let mut session = Session::new(model, Arc::new(loss_of(objective)), habits, device)?;
        let shared = sharing.is_some();
        sharing.map(|sharing| session.share(sharing)).transpose()?;
        Ok(TimedRun { session, batch, shared })
    }
    /// A step, to the loss that it gave: seconds.
    ///
    /// # Errors
    /// What the step fails with.
    pub fn step(&mut self) -> Result<f64, Failure> {
        let begun = Instant::now();
        if self.shared {
            self.session.assign(vec![0], 1);
        }
        self.session.step(std::slice::from_ref(&self.batch), Look::default())?;
        self.session.loss()?;
        Ok(begun.elapsed().as_secs_f64())
    }
}
/// A rank that shares its steps with nobody.
fn lone() -> Result<StepSharing, Failure> {
    let group = local_threads(1).map_err(|kind| adamant_core::Error::new("plan", kind))?;
    let group = group.first().map(communicator::group).ok_or_else(|| Failure::Run("a group of one has no rank".into()))?;
    Ok(StepSharing { group, parts: 1, bucket_bytes: 25 << 20, zero: ZeroStage::Off, compress: None })
}
/// Steps that are not counted: plans are made, memory is asked for.
const WARM_UP: usize = 3;

/// How long steps take, and the most bytes of one.
fn stepped(document: &Document, folder: &Path, rows: usize, steps: usize, shared: bool, device: Device) -> Result<(f64, f64), Failure> {
    let sharing = if shared { Some(lone()?) } else { None };
    let mut run = TimedRun::new(document, folder, rows, sharing, device)?;
    (0..WARM_UP).try_for_each(|_| run.step().map(|_| ()))?;
    device.pool().reset_peak();
    let times = (0..steps).map(|_| run.step()).collect::<Result<_, _>>()?;
    Ok((fastest(times), device.memory().peak_bytes as f64))
}
/// The same steps of several ranks at once: each alone, or together, with what they share out.
fn beside(
    document: &Document,
    folder: &Path,
    rows: usize,
    (steps, ranks, zero): (usize, usize, Option<ZeroStage>),
    device: &(dyn Fn() -> Result<Device, Failure> + Sync),
) -> Result<f64, Failure> {
    let groups = local_threads(ranks).map_err(|kind| adamant_core::Error::new("plan", kind))?;
    let sharing = |on: &Arc<dyn Communicator>| match zero {
        None => lone(),
        Some(zero) => Ok(StepSharing { group: communicator::group(on), parts: ranks, bucket_bytes: 25 << 20, zero, compress: None }),
    };
    let together = Barrier::new(ranks);
    let one = |on: &Arc<dyn Communicator>| -> Result<f64, Failure> {
        // Whoever fails comes to the meetings all the same, or the others would wait for ever.
        let made = device().map(|device| (device, device.scoped(|| TimedRun::new(document, folder, rows, Some(sharing(on)?), device))));
        let mut times = Vec::new();
        let mut failed = None;
        let mut made = match made {
            Ok((device, Ok(run))) => Some((device, run)),
            Ok((_, Err(e))) | Err(e) => {
                on.abort(&e.to_string());
                failed = Some(e);
                None
            }
        };
        for step in 0..WARM_UP + steps {
            together.wait();
            let Some((device, run)) = made.as_mut() else { continue };
            match device.scoped(|| run.step()) {
                Ok(seconds) if step >= WARM_UP => times.push(seconds),
                Ok(_) => {}
                Err(e) => {
                    on.abort(&e.to_string());
                    (failed, made) = (Some(e), None);
                }
            }
        }
        failed.map_or_else(|| Ok(fastest(times)), Err)
    };
    let all: Vec<Result<f64, Failure>> = std::thread::scope(|scope| {
        let one = &one;
        let ranks: Vec<_> = groups.iter().map(|on| scope.spawn(move || one(on))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| Err(Failure::Run("a rank has panicked".into())))).collect()
    });
    Ok(median(all.into_iter().collect::<Result<_, _>>()?))
}
/// The update of all parameters, with the gradients of one pass.
fn updated(document: &Document, folder: &Path, steps: usize) -> Result<f64, Failure> {
    let mut setup = Setup::of(document, folder)?;
    let batch = timed_rows(&setup, 1)?;
    let grads = loss_of(setup.objective.clone())(&setup.model, &batch)?.backward()?;
    let mut times = Vec::new();
    for step in 0..WARM_UP + steps {
        adamant_core::flush()?;
        let begun = Instant::now();
        setup.optimizer.step(&grads)?;
        adamant_core::flush()?;
        if step >= WARM_UP {
            times.push(begun.elapsed().as_secs_f64());
        }
    }
    Ok(fastest(times))
}
/// Forward and back as a program writes it.
fn passed(document: &Document, folder: &Path, rows: usize, steps: usize) -> Result<f64, Failure> {
    let setup = Setup::of(document, folder)?;
    let (batch, loss) = (timed_rows(&setup, rows)?, loss_of(setup.objective.clone()));
    let mut times = Vec::new();
    for step in 0..WARM_UP + steps {
        let begun = Instant::now();
        let mean = loss(&setup.model, &batch)?;
        let grads = mean.backward()?;
        mean.materialize()?;
        adamant_core::flush()?;
        drop(grads);
        if step >= WARM_UP {
            times.push(begun.elapsed().as_secs_f64());
        }
    }
    Ok(fastest(times))
}
/// A link by two lengths of an all-reduce between two ranks, of which each sends half of it twice: α and β. They take the time of the devices.
fn link(devices: usize) -> Result<ClusterLink, Failure> {
    const LENGTHS: [usize; 2] = [4096, 8 << 20];
    let usual = PlannedCluster::default().inside;
    if devices < 2 {
        return Ok(usual);
    }
    let failed = |kind| Failure::from(adamant_core::Error::new("plan", kind));
    let groups = local_threads(2).map_err(failed)?;
    let times: Vec<Result<Vec<f64>, Failure>> = std::thread::scope(|scope| {
        let time = |on: &Arc<dyn Communicator>| LENGTHS.iter().map(|n| all_reduced(&**on, *n).map_err(failed)).collect();
        let ranks: Vec<_> = groups.iter().map(|on| scope.spawn(move || time(on))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| Err(Failure::Run("a rank has panicked".into())))).collect()
    });
    let times = times.into_iter().next().unwrap_or_else(|| Ok(Vec::new()))?;
    let [short, long] = times[..] else { return Ok(usual) };
    let beta = (LENGTHS[1] - LENGTHS[0]) as f64 / (long - short).max(1e-9);
    let alpha = ((short - LENGTHS[0] as f64 / beta) / 2.0).max(1e-8);
    Ok(ClusterLink { alpha, beta, uses_devices: true })
}
/// How long an all-reduce of so many bytes takes.
fn all_reduced(on: &dyn Communicator, n: usize) -> Result<f64, adamant_core::ErrorKind> {
    let kind = CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike };
    let tree = ReductionTree::of_ranks(ReduceOp::Sum, DType::F32, on.size());
    let shape = adamant_core::Shape::new(&[n / 4])?;
    let (own, mut sum) = (vec![0u8; n], vec![0u8; n]);
    let rounds = ((64 << 20) / n).clamp(8, 500);
    let mut times = Vec::new();
    for round in 0..rounds + 4 {
        let call = CollectiveCall::next(on, kind, TensorType { shape, dtype: DType::F32 }, None);
        let begun = Instant::now();
        on.all_reduce(&call, &tree, &own, &mut sum)?;
        if round >= 4 {
            times.push(begun.elapsed().as_secs_f64());
        }
    }
    Ok(fastest(times))
}
