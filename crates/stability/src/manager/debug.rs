//! A debug session: for so many steps, or so long, each step is looked at closer.
//!
//! What it looks at is computed beside the step and changes none of its bits: what has to run once more (an origin, a check of gradients) runs
//! in a step that is taken back.
use super::{differences::grad_check, history, written};
use crate::{BadNumber, NanOptions, NumberStats, StepTrace, TracedOp, kinds::BadKinds};
use adamant_core::{DType, Device, Error, ErrorKind, Result, Tensor, grad::with_grad, step};
use adamant_nn::Param;
use serde::{Serialize, Serializer};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// What follows where a step has an origin of bad numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AnomalyMode {
    /// It is told, and training goes on.
    #[default]
    Detect,
    /// The step is an error and has changed nothing.
    Raise,
}
/// How much is told of gradients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum DebugLevel {
    /// all of them together
    #[default]
    Summary,
    /// each parameter's too
    Layers,
}
/// What a debug session looks at.
#[derive(Clone, Debug, PartialEq)]
pub struct DebugOptions {
    /// Is the origin of a bad number looked for (yes)? The step is run once more, op by op, where it had one.
    pub enable_autograd_anomaly: bool,
    /// what follows then (detect)
    pub autograd_anomaly_mode: AnomalyMode,
    /// Are gradients compared with differences of the loss, along random directions, in f64 (no)? Four runs of the model for each step.
    pub enable_grad_check: bool,
    /// Is the device's memory told for each step (no)?
    pub enable_memory_debugging: bool,
    /// Is each part of a step waited for, so that its seconds are those of its work and not of recording it (no)?
    pub device_synchronize: bool,
    /// Are the kernels of each step told, with their times (no)? Needs the feature `profiling`.
    pub profile_autograd: bool,
    /// Are the bytes that tensors held behind each of them told too (no)? Needs `profile_autograd`.
    pub profile_memory: bool,
    /// after how many steps a session has run out (1000)
    pub max_debug_iterations: u64,
    /// after what time it has (300 seconds)
    pub debug_timeout: Duration,
    /// how much is told of gradients (summary)
    pub debug_level: DebugLevel,
    /// where a session's files are written when it ends (nowhere)
    pub debug_output_dir: Option<PathBuf>,
}
impl Default for DebugOptions {
    fn default() -> DebugOptions {
        DebugOptions {
            enable_autograd_anomaly: true,
            autograd_anomaly_mode: AnomalyMode::Detect,
            enable_grad_check: false,
            enable_memory_debugging: false,
            device_synchronize: false,
            profile_autograd: false,
            profile_memory: false,
            max_debug_iterations: 1000,
            debug_timeout: Duration::from_secs(300),
            debug_level: DebugLevel::Summary,
            debug_output_dir: None,
        }
    }
}
impl DebugOptions {
    /// Does it make sense?
    ///
    /// # Errors
    /// The first option that does not, by its name.
    #[track_caller]
    pub fn check(&self) -> Result<()> {
        let refused = if self.max_debug_iterations == 0 {
            "max_debug_iterations is 0: a session would have no step"
        } else if self.debug_timeout.is_zero() {
            "debug_timeout is 0: a session would have no step"
        } else if self.profile_memory && !self.profile_autograd {
            "profile_memory needs profile_autograd"
        } else if self.profile_autograd && cfg!(not(feature = "profiling")) {
            "profile_autograd needs the feature `profiling`"
        } else {
            return Ok(());
        };
        Err(Error::new("DebugOptions", ErrorKind::Argument(refused.into())))
    }
}
/// Seconds of the parts of a step: of their work with `device_synchronize`, else of recording it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PhaseSeconds {
    /// the loss
    pub forward: f64,
    /// the walk back
    pub backward: f64,
    /// the policy and clipping
    pub clip: f64,
    /// the optimizer
    pub optimizer: f64,
}
/// What gradients are like, before clipping.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GradientStats {
    /// elements
    pub elements: u64,
    /// their mean
    pub mean: f64,
    /// their standard deviation (of all of them: divided by their number)
    pub std: f64,
    /// the least
    pub min: f64,
    /// the largest
    pub max: f64,
    /// their Euclidean norm
    pub total: f64,
}
/// Bytes on the model's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryInfo {
    /// that tensors hold behind the step
    pub live_bytes: u64,
    /// the most that tensors held in it, where nobody else counts from another moment
    pub peak_bytes: u64,
    /// more than behind the session's first step
    pub growth_bytes: i64,
}
/// A gradient along a random direction, and what the loss says of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GradCheck {
    /// the gradient's share along the direction
    pub analytic: f64,
    /// how fast the loss changes along it, by a difference to both sides
    pub numeric: f64,
    /// how far apart they are, as a share of the larger
    pub relative_error: f64,
}
/// A kernel that ran in a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelTime {
    /// the ops in it
    pub kernel: String,
    /// how often
    pub calls: u64,
    /// seconds of all calls
    pub seconds: f64,
    /// the most bytes that tensors held behind one, with `profile_memory`
    pub peak_bytes: Option<u64>,
}
/// The origin of a bad number.
#[derive(Clone, Debug, Serialize)]
pub struct Anomaly {
    /// in words
    pub text: String,
    /// NaN, +Inf or -Inf
    pub kind: String,
    /// the part of the step
    pub phase: String,
    /// the op that made it, where one did
    pub op: Option<String>,
    /// the layer's path, empty outside of all
    pub layer: String,
    /// `file:line` of whoever applied the op
    pub line: Option<String>,
    /// what it stands in, where no op made it
    pub place: Option<String>,
    /// the first bad element
    pub at: Vec<usize>,
    /// what the op was given
    #[serde(serialize_with = "stats")]
    pub inputs: Vec<NumberStats>,
    /// from the op to the symptom: those that handed it on
    pub chain: Vec<String>,
}
fn stats<S: Serializer>(all: &[NumberStats], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct TracedInput {
        elements: usize,
        non_finite: usize,
        least: Option<f64>,
        most: Option<f64>,
    }
    let of = |s: &NumberStats| TracedInput { elements: s.elements, non_finite: s.non_finite, least: s.least, most: s.most };
    serializer.collect_seq(all.iter().map(of))
}
impl From<&BadNumber> for Anomaly {
    fn from(bad: &BadNumber) -> Anomaly {
        Anomaly {
            text: bad.to_string(),
            kind: bad.kind().into(),
            phase: bad.phase.name().into(),
            op: bad.op.as_ref().map(|op| op.name().to_string()),
            layer: bad.op.as_ref().map(|op| op.layer.clone()).unwrap_or_default(),
            line: bad.op.as_ref().map(|op| format!("{}:{}", op.line.file(), op.line.line())),
            place: bad.place.clone(),
            at: bad.at.clone(),
            inputs: bad.inputs.clone(),
            chain: bad.chain.iter().map(TracedOp::to_string).collect(),
        }
    }
}
/// What a session has seen of a step.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DebugInfo {
    /// of the session's steps, which one, from 1
    pub iteration: u64,
    /// how long its parts took
    pub seconds: PhaseSeconds,
    /// all gradients together; none where there is none
    pub gradients: Option<GradientStats>,
    /// each parameter's, with the level layers
    pub layers: Option<Vec<(String, GradientStats)>>,
    /// where a bad number came from
    pub anomaly: Option<Anomaly>,
    /// with `enable_grad_check`
    pub grad_check: Option<GradCheck>,
    /// with `enable_memory_debugging`
    pub memory: Option<MemoryInfo>,
    /// with `profile_autograd`
    pub kernels: Option<Vec<KernelTime>>,
}
/// How a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionEnd {
    /// somebody stopped it
    Stopped,
    /// its steps were over before
    Iterations,
    /// its time was over before
    Timeout,
}
/// What a session leaves.
#[derive(Clone, Debug)]
pub struct DebugSummary {
    /// steps that it looked at
    pub iterations: u64,
    /// from its begin to its end, or until it had run out
    pub time: Duration,
    /// how it ended
    pub end: SessionEnd,
    /// bad steps whose origin was found
    pub anomalies: usize,
    /// the files that were written
    pub files: Vec<PathBuf>,
}
/// The parts of a step that have a time.
#[derive(Clone, Copy)]
pub(super) enum SeenPhase {
    Forward,
    Backward,
    Clip,
    Optimizer,
}
/// The time of the parts of a step.
pub(super) struct PhaseClock {
    waits: bool,
    since: Instant,
    pub seconds: PhaseSeconds,
}
impl PhaseClock {
    /// A part has ended, which gave these.
    #[track_caller]
    pub fn ended(&mut self, phase: SeenPhase, tensors: &[&Tensor]) -> Result<()> {
        if self.waits {
            for x in tensors {
                x.materialize()?;
                x.try_meta()?.device.synchronize()?;
            }
        }
        let seconds = match phase {
            SeenPhase::Forward => &mut self.seconds.forward,
            SeenPhase::Backward => &mut self.seconds.backward,
            SeenPhase::Clip => &mut self.seconds.clip,
            SeenPhase::Optimizer => &mut self.seconds.optimizer,
        };
        *seconds = self.since.elapsed().as_secs_f64();
        self.since = Instant::now();
        Ok(())
    }
}
/// A session under way, or one that has run out.
pub(super) struct DebugSession {
    options: DebugOptions,
    begun: Instant,
    ended: Option<(SessionEnd, Duration)>,
    seen: Vec<(u64, DebugInfo)>,
    first_live: Option<u64>,
    #[cfg(feature = "profiling")]
    recording: Option<adamant_core::profile::Recording>,
}
impl DebugSession {
    #[track_caller]
    pub fn begin(options: &DebugOptions) -> Result<DebugSession> {
        options.check()?;
        Ok(DebugSession {
            options: options.clone(),
            begun: Instant::now(),
            ended: None,
            seen: Vec::new(),
            first_live: None,
            #[cfg(feature = "profiling")]
            recording: None,
        })
    }
    /// Does it look at one more step?
    pub fn is_open(&mut self) -> bool {
        if self.ended.is_none() {
            let time = self.begun.elapsed();
            self.ended = if self.seen.len() as u64 >= self.options.max_debug_iterations {
                Some((SessionEnd::Iterations, time))
            } else if time >= self.options.debug_timeout {
                Some((SessionEnd::Timeout, time))
            } else {
                None
            };
        }
        self.ended.is_none()
    }
    pub fn looks_for_origins(&self) -> bool {
        self.options.enable_autograd_anomaly
    }
    pub fn clock(&self) -> PhaseClock {
        PhaseClock { waits: self.options.device_synchronize, since: Instant::now(), seconds: PhaseSeconds::default() }
    }
    /// Before a step.
    #[track_caller]
    pub fn before(&mut self, parameters: &[(String, Param)], loss: &mut dyn FnMut() -> Result<Tensor>) -> Result<DebugInfo> {
        let grad_check = if self.options.enable_grad_check { grad_check(parameters, loss, self.seen.len() as u64)? } else { None };
        if self.options.enable_memory_debugging
            && let Some(device) = device_of(parameters)
        {
            device.pool().reset_peak();
        }
        #[cfg(feature = "profiling")]
        if self.options.profile_autograd {
            // That of a step that failed.
            self.recording = None;
            self.recording = Some(adamant_core::profile::Profiler::new().profile_memory(self.options.profile_memory).start()?);
        }
        Ok(DebugInfo { iteration: self.seen.len() as u64 + 1, grad_check, ..DebugInfo::default() })
    }
    /// Behind it.
    #[track_caller]
    pub fn after(&mut self, number: u64, info: &mut DebugInfo, gradients: &[(usize, Tensor)], parameters: &[(String, Param)]) -> Result<()> {
        #[cfg(feature = "profiling")]
        if let Some(recording) = self.recording.take() {
            if let Some(device) = device_of(parameters) {
                device.synchronize()?;
            }
            let rows = recording.stop().key_averages().rows;
            let time = |row: adamant_core::profile::Average| KernelTime {
                kernel: row.key,
                calls: row.calls,
                seconds: row.total.as_secs_f64(),
                peak_bytes: row.peak_bytes.map(|bytes| bytes as u64),
            };
            info.kernels = Some(rows.into_iter().map(time).collect());
        }
        let each = gradient_stats(&gradients.iter().map(|(_, g)| g).collect::<Vec<_>>())?;
        info.gradients = together(&each);
        if self.options.debug_level >= DebugLevel::Layers {
            let named = gradients.iter().zip(&each).filter_map(|((k, _), stats)| Some((parameters.get(*k)?.0.clone(), stats.stats())));
            info.layers = Some(named.collect());
        }
        if self.options.enable_memory_debugging
            && let Some(device) = device_of(parameters)
        {
            let memory = device.memory();
            let live = memory.live_bytes as u64;
            let first = *self.first_live.get_or_insert(live);
            info.memory = Some(MemoryInfo { live_bytes: live, peak_bytes: memory.peak_bytes as u64, growth_bytes: live as i64 - first as i64 });
        }
        self.seen.push((number, info.clone()));
        Ok(())
    }
    /// What was found where the step was run again; an error where that is asked for.
    #[track_caller]
    pub fn found(&self, info: &mut DebugInfo, traced: &StepTrace) -> Result<()> {
        let Some(bad) = &traced.bad else { return Ok(()) };
        info.anomaly = Some(Anomaly::from(bad));
        match self.options.autograd_anomaly_mode {
            AnomalyMode::Detect => Ok(()),
            AnomalyMode::Raise => Err(Error::new("NumericalStabilityManager", ErrorKind::Domain(format!("the step has numbers that are not finite: {bad}")))
                .hint("with `autograd_anomaly_mode` detect it is told and training goes on")),
        }
    }
    #[track_caller]
    pub fn end(mut self) -> Result<DebugSummary> {
        let _has_run_out = self.is_open();
        let (end, time) = self.ended.unwrap_or((SessionEnd::Stopped, self.begun.elapsed()));
        let anomalies: Vec<(u64, &Anomaly)> = self.seen.iter().filter_map(|(step, info)| Some((*step, info.anomaly.as_ref()?))).collect();
        let mut files = Vec::new();
        if let Some(folder) = &self.options.debug_output_dir {
            history::made(folder)?;
            let mut write = |name: &str, value: serde_json::Value| -> Result<()> {
                files.push(written(folder.join(name), &history::text(&value))?);
                Ok(())
            };
            let of = |part: &dyn Fn(&DebugInfo) -> serde_json::Value| -> serde_json::Value {
                self.seen.iter().map(|(step, info)| serde_json::json!({ "step": step, "value": part(info) })).collect()
            };
            write("history.json", of(&|info| serde_json::json!({ "seconds": info.seconds, "grad_check": info.grad_check, "kernels": info.kernels })))?;
            write("anomalies.json", anomalies.iter().map(|(step, a)| serde_json::json!({ "step": step, "value": a })).collect())?;
            write("gradients.json", of(&|info| serde_json::json!({ "all": info.gradients, "layers": info.layers })))?;
            write("memory.json", of(&|info| serde_json::json!(info.memory)))?;
        }
        Ok(DebugSummary { iterations: self.seen.len() as u64, time, end, anomalies: anomalies.len(), files })
    }
}
fn device_of(parameters: &[(String, Param)]) -> Option<Device> {
    parameters.first().map(|(_, p)| p.cell().meta().device)
}
/// What statistics of a gradient are made of.
struct GradientMoments {
    elements: u64,
    sum: f64,
    squares: f64,
    min: f64,
    max: f64,
}
impl GradientMoments {
    fn stats(&self) -> GradientStats {
        let n = self.elements as f64;
        let mean = self.sum / n;
        let std = (self.squares / n - mean * mean).max(0.0).sqrt();
        GradientStats { elements: self.elements, mean, std, min: self.min, max: self.max, total: self.squares.sqrt() }
    }
}
fn together(each: &[GradientMoments]) -> Option<GradientStats> {
    let all = each.iter().fold(GradientMoments { elements: 0, sum: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }, |a, b| GradientMoments {
        elements: a.elements + b.elements,
        sum: a.sum + b.sum,
        squares: a.squares + b.squares,
        // Unlike `f64::min`: NaN stays.
        min: if b.min.is_nan() || b.min < a.min { b.min } else { a.min },
        max: if b.max.is_nan() || b.max > a.max { b.max } else { a.max },
    });
    (all.elements > 0).then(|| all.stats())
}
/// One read for all of them.
#[track_caller]
fn gradient_stats(gradients: &[&Tensor]) -> Result<Vec<GradientMoments>> {
    let (mut parts, mut sizes) = (Vec::new(), Vec::new());
    let Some(first) = gradients.first() else { return Ok(Vec::new()) };
    let device = first.try_meta()?.device;
    let wide = device.widest_float();
    with_grad(false, || {
        for g in gradients {
            let n = g.try_meta()?.shape.elements() as u64;
            let x = g.detach().cast(wide);
            let edge = |x: Tensor| if n == 0 { Tensor::zeros_on([1], wide, device) } else { x.to(device).reshape([1]) };
            parts.extend([edge(x.sum(..)), edge(x.square().sum(..)), edge(x.amin(..)), edge(x.amax(..))]);
            sizes.push(n);
        }
        let all = Tensor::cat(&parts, 0).to_vec_as::<f64>()?;
        let of = |(elements, v): (u64, &[f64])| match (elements, v) {
            (0, _) => GradientMoments { elements, sum: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY },
            (_, [sum, squares, min, max]) => GradientMoments { elements, sum: *sum, squares: *squares, min: *min, max: *max },
            _ => GradientMoments { elements, sum: f64::NAN, squares: f64::NAN, min: f64::NAN, max: f64::NAN },
        };
        Ok(sizes.into_iter().zip(all.chunks(4)).map(of).collect())
    })
}
/// Runs `f` as a step that changes nothing.
#[track_caller]
pub(super) fn taken_back<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    let mut result = None;
    let ended = step(|| -> Result<()> {
        result = Some(f()?);
        Err(Error::new("step", ErrorKind::Argument("it is taken back".into())))
    });
    match (result, ended) {
        (Some(result), _) => Ok(result),
        (None, Err(e)) => Err(e),
        (None, Ok(())) => Err(Error::new("step", ErrorKind::Argument("it was not run".into()))),
    }
}
/// Is there NaN, an infinity, an overflow in the loss or in a gradient of it, where those are looked at and for?
#[track_caller]
pub(super) fn kinds_of(parameters: &[(String, Param)], loss: &mut dyn FnMut() -> Result<Tensor>, options: &NanOptions) -> Result<[bool; 3]> {
    taken_back(|| {
        let loss = loss()?;
        let grads = loss.backward()?;
        let mut all = if options.loss_checking { vec![loss.detach()] } else { Vec::new() };
        if options.gradient_checking {
            all.extend(parameters.iter().filter_map(|(_, p)| grads.of(&p.cell()).cloned()));
        }
        let mut kinds = [false; 3];
        for x in all.iter().filter(|x| x.dtype().is_ok_and(DType::is_float)) {
            let BadKinds { nan, inf, overflow, .. } = BadKinds::of(x, options, x.try_meta()?.device);
            for (known, kind) in kinds.iter_mut().zip([nan, inf, overflow]) {
                *known |= kind.map_or(Ok(false), |kind| kind.item::<bool>())?;
            }
        }
        Ok(kinds)
    })
}
