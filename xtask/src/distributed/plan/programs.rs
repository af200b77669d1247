//! The programs whose steps are timed: rows alone by the executor of runs, stages and pieces by a program of one's own.
use super::super::rank;
use adamant::{
    DType, Device, Tensor,
    cpu::{Context, CpuBackend},
    nn::{Module, Walk, manual_seed},
    op::Group,
    parallel::{
        Mesh, MeshShape,
        pipeline::{Pipeline, PipelineSchedule},
        sum_gradients,
        tensor::{ParallelStyle, parallelize},
    },
};
use adamant_core::communicator;
use adamant_distributed::place::RankPlace;
use adamant_plan::{MeshStrategy, RunLoad, TimedRun, fastest, timed_rows};
use adamant_train::{Document, Failure, RunModel, Setup, StepSharing, ZeroStage, optimizer};
use serde::{Deserialize, Serialize};
use std::{path::Path, time::Instant};

/// What a rank is to run.
#[derive(Serialize, Deserialize)]
pub struct PlannedTask {
    text: String,
    data: usize,
    pipeline: usize,
    tensor: usize,
    zero: usize,
    micro_batches: usize,
    schedule: String,
    rows: usize,
    steps: usize,
    column: Vec<String>,
    row: Vec<String>,
    table: Vec<String>,
}
/// What a step took.
#[derive(Serialize, Deserialize)]
pub struct PlannedReport {
    /// its seconds
    pub seconds: f64,
    /// seconds of processors of this rank for each step
    pub cpu: f64,
    /// bytes of tensors at most in a step
    pub peak: usize,
}
impl PlannedTask {
    pub fn of(strategy: &MeshStrategy, text: &str, rows: usize, steps: usize, load: &RunLoad) -> PlannedTask {
        let styles = load.styles();
        let of = |style: ParallelStyle| styles.iter().filter(|(_, s)| *s == style).map(|(path, _)| path.clone()).collect();
        PlannedTask {
            text: text.into(),
            data: strategy.mesh.data,
            pipeline: strategy.mesh.pipeline,
            tensor: strategy.mesh.tensor,
            zero: strategy.zero,
            micro_batches: strategy.micro_batches,
            schedule: strategy.schedule.to_string(),
            rows,
            steps,
            column: of(ParallelStyle::Column),
            row: of(ParallelStyle::Row),
            table: of(ParallelStyle::Vocabulary),
        }
    }
    fn styles(&self) -> Vec<(&str, ParallelStyle)> {
        let column = self.column.iter().map(|path| (path.as_str(), ParallelStyle::Column));
        let row = self.row.iter().map(|path| (path.as_str(), ParallelStyle::Row));
        column.chain(row).chain(self.table.iter().map(|path| (path.as_str(), ParallelStyle::Vocabulary))).collect()
    }
}
/// Steps that are not counted.
const WARM_UP: usize = 3;

/// Runs as a rank.
pub fn run(task: &PlannedTask, place: &RankPlace) -> Result<PlannedReport, String> {
    let group = rank::opened(place).map_err(|e| e.to_string())?;
    let device = Context::new(CpuBackend::builder().threads(1)).map_err(|e| e.to_string())?.device();
    let handle = communicator::group(&group);
    let done = device.scoped(|| {
        let document = Document::parse("plan", &task.text)?;
        if task.pipeline * task.tensor == 1 { of_rows(task, &document, &handle, device) } else { of_program(task, &document, &handle, device) }
    });
    done.inspect_err(|e| group.abort(&e.to_string())).map_err(|e| e.to_string())
}
fn processor_seconds() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |used| seconds(used.user_time()) + seconds(used.system_time()))
}
/// Times steps, with the most memory of those that count.
fn timed(steps: usize, device: Device, mut step: impl FnMut() -> Result<(), Failure>) -> Result<PlannedReport, Failure> {
    (0..WARM_UP).try_for_each(|_| step())?;
    device.pool().reset_peak();
    let mut times = Vec::new();
    let before = processor_seconds();
    for _ in 0..steps.max(1) {
        let begun = Instant::now();
        step()?;
        times.push(begun.elapsed().as_secs_f64());
    }
    let cpu = (processor_seconds() - before) / times.len() as f64;
    Ok(PlannedReport { seconds: fastest(times), cpu, peak: device.memory().peak_bytes })
}
fn of_rows(task: &PlannedTask, document: &Document, group: &Group, device: Device) -> Result<PlannedReport, Failure> {
    let zero = ZeroStage::from_number(task.zero).unwrap_or_default();
    let sharing = StepSharing { group: group.clone(), parts: task.data, bucket_bytes: 25 << 20, zero, compress: None };
    let mut run = TimedRun::new(document, Path::new(""), task.rows.div_ceil(task.data), Some(sharing), device)?;
    timed(task.steps, device, || run.step().map(|_| ()))
}
fn of_program(task: &PlannedTask, document: &Document, group: &Group, device: Device) -> Result<PlannedReport, Failure> {
    let shape = MeshShape { data: task.data, pipeline: task.pipeline, tensor: task.tensor, expert: 1 };
    let mesh = Mesh::new(group, shape)?;
    manual_seed(1);
    let setup = Setup::of(document, Path::new(""))?;
    let rows = task.rows.div_ceil(task.data);
    let (x, y) = timed_rows(&setup, rows)?;
    let Setup { model: RunModel::Whole(model), objective, optimizer: whole, .. } = setup else {
        return Err(Failure::Run("a description of one rank has the whole model".into()));
    };
    drop(whole);
    let section = document.root()?.section("optimizer")?.ok_or_else(|| Failure::Run("a description without an optimizer".into()))?;
    let share = 1.0 / task.data as f64;
    if task.pipeline == 1 {
        let _sharding = parallelize(&model, &mesh, &task.styles())?;
        let mut rule = optimizer(section, model.trainable_parameters())?;
        return timed(task.steps, device, || {
            let loss = objective.loss(&model.forward(&x)?, &y)? * share;
            let mut grads = loss.backward()?;
            // Gradients are there before they are used: else all of the step would be planned as one.
            adamant_core::flush()?;
            sum_gradients(&model, &mut grads, &mesh)?;
            rule.step(&grads)?;
            Ok(adamant_core::flush()?)
        });
    }
    let schedule: PipelineSchedule = task.schedule.parse()?;
    let micro = rows / task.micro_batches;
    let cut = |t: &Tensor| -> Vec<Tensor> { (0..task.micro_batches).map(|m| t.narrow(0, m * micro, micro)).collect() };
    let (inputs, targets) = (cut(&x), cut(&y));
    let pipeline = Pipeline::cut(model, &mesh, schedule, &Tensor::zeros([micro]).cast(DType::I64))?;
    let mut rule = optimizer(section, pipeline.trainable_parameters())?;
    let share = share / task.micro_batches as f64;
    timed(task.steps, device, || {
        let mut step = pipeline.step(&inputs, |m, logits| (objective.loss(logits, &targets[m])? * share).ok())?;
        sum_gradients(&pipeline, &mut step.grads, &mesh)?;
        rule.step(&step.grads)?;
        Ok(adamant_core::flush()?)
    })
}
