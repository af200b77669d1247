//! Times of layers: the forward pass by the clock alone and under the profiler, in turn, and what the profiler saw shared out among
//! the layers.
//!
//! Work is fused across the borders of layers, so a kernel may have ops of several: a convolution with the normalisation and the relu
//! behind it. To stop at each border would measure another program. The kernel's time is shared out by what its ops cost
//! ([`Profiler::split_layers`]): so the layers' times add up to those of the kernels, and what is beside them is told apart.
//!
//! What else the machine does only adds, so of the passes of each sort the fastest eighth counts (three, of few). Its mean is what is
//! told: the means of the layers and of what is between them add up to that of the pass, as medians would not.
use super::{Analysis, ForwardTimes, LayerTimes, ModelAnalyzer, Roof};
use crate::summary::{Looked, look};
use adamant_core::{
    DType, Device, Result, Tensor, no_grad,
    profile::{Kernel, Profiler},
};
use adamant_nn::{Module, Param, RngState, Role, rng_state, set_rng_state};
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// A forward pass that was timed twice.
pub(super) struct Round {
    /// by the clock alone
    pub plain: Duration,
    /// by the clock, with the profiler
    pub profiled: Duration,
    pub kernels: Vec<Kernel>,
}
/// Passes of each sort that are timed, if nobody says how many: at least so many, and more of short ones.
const FEWEST: usize = 9;
const MOST: usize = 400;
const BUDGET: Duration = Duration::from_secs(1);
/// One analysis at a time: profilers are of the process.
static TURN: Mutex<()> = Mutex::new(());

#[track_caller]
pub(super) fn analyze(analyzer: &ModelAnalyzer, model: &dyn Module, input: &Tensor) -> Result<Analysis> {
    let meta = input.try_meta()?;
    let looked = look(model, &meta.shape, meta.dtype)?;
    let mut analysis = Analysis::of(&looked, model.is_training());
    let device = meta.device;
    let float = looked.leaves.iter().map(|(_, p)| p.meta().dtype).find(|d| d.is_float());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let state = BeforePasses::of(&looked, device)?;
    let rounds = rounds(analyzer, model, input, device);
    state.put_back()?;
    let (rounds, peak_bytes) = rounds?;
    let roof = match analyzer.roof {
        Some(roof) => roof,
        None => roof(device, float.unwrap_or(DType::F32))?,
    };
    let (timing, times) = share_out(&looked, &rounds, peak_bytes);
    for (layer, times) in analysis.layers.iter_mut().zip(times) {
        layer.bound = roof.bound(layer.row.figures.flops, layer.row.figures.bytes_moved, &times);
        layer.times = Some(times);
    }
    (analysis.timing, analysis.roof) = (Some(timing), Some(roof));
    Ok(analysis)
}
/// The passes, and the most bytes at once.
fn rounds(analyzer: &ModelAnalyzer, model: &dyn Module, input: &Tensor, device: Device) -> Result<(Vec<Round>, u64)> {
    input.materialize()?;
    let pass = || -> Result<Duration> {
        let (done, time) = device.timed(|| no_grad(|| model.forward(input)?.materialize()))?;
        done.map(|()| time)
    };
    let profiled = || -> Result<(Duration, Vec<Kernel>)> {
        let recording = Profiler::new().split_layers(true).start()?;
        let time = pass()?;
        let profile = recording.stop();
        // Other threads have kernels of their own.
        let thread = profile.thread;
        Ok((time, profile.kernels.into_iter().filter(|k| k.thread == thread && k.device == device).collect()))
    };
    for _ in 0..analyzer.warm_up {
        pass()?;
    }
    device.pool().reset_peak();
    pass()?;
    let peak_bytes = device.memory().peak_bytes as u64;
    let begun = Instant::now();
    let mut rounds = Vec::new();
    let wants_more = |n: usize| match analyzer.passes {
        Some(passes) => n < passes,
        None => n < FEWEST || (n < MOST && begun.elapsed() < BUDGET),
    };
    while wants_more(rounds.len()) {
        // Each comes behind a pass that is not counted: threads that sleep have to wake, caches that hold other things have to be filled.
        pass()?;
        let plain = pass()?;
        pass()?;
        let (profiled, kernels) = profiled()?;
        rounds.push(Round { plain, profiled, kernels });
    }
    Ok((rounds, peak_bytes))
}
/// What a forward pass in training changes.
struct BeforePasses {
    device: Device,
    /// each buffer with its value and the version of that
    buffers: Vec<(Param, Tensor, u64)>,
    generator: RngState,
}
impl BeforePasses {
    fn of(looked: &Looked, device: Device) -> Result<BeforePasses> {
        let buffers = looked.leaves.iter().filter(|(_, p)| p.role() != Role::Trainable);
        let buffers: Vec<_> = buffers.map(|(_, p)| (p.clone(), p.detached(), p.cell().version())).collect();
        buffers.iter().try_for_each(|(_, value, _)| value.materialize())?;
        Ok(BeforePasses { device, buffers, generator: rng_state(device)? })
    }
    fn put_back(self) -> Result<()> {
        let changed = self.buffers.iter().filter(|(p, _, version)| p.cell().version() != *version);
        changed.into_iter().try_for_each(|(p, value, _)| p.set(value))?;
        set_rng_state(self.device, self.generator)
    }
}
/// Each layer's part of what the profiler saw.
pub(super) fn share_out(looked: &Looked, rounds: &[Round], peak_bytes: u64) -> (ForwardTimes, Vec<LayerTimes>) {
    let mut layers = vec![LayerTimes::default(); looked.summary.rows.len()];
    let fastest = fastest_of(rounds, |r| r.profiled);
    let mut rows_of: HashMap<&str, Option<usize>> = HashMap::new();
    for round in &fastest {
        for kernel in &round.kernels {
            for (path, share) in &kernel.layers {
                if let Some(row) = *rows_of.entry(path).or_insert_with(|| looked.row_of(path)) {
                    layers[row].time += kernel.time.mul_f64(*share);
                }
            }
        }
    }
    let n = fastest.len().max(1) as u32;
    layers.iter_mut().for_each(|l| l.time /= n);
    // Two paths of one row, as parts of one layer, are one kernel of it.
    for kernel in fastest.first().iter().flat_map(|r| &r.kernels) {
        let rows: HashSet<usize> = kernel.layers.iter().filter_map(|(path, _)| *rows_of.get(&**path)?).collect();
        rows.into_iter().for_each(|row| layers[row].kernels += 1);
    }
    let mean = |all: &[&Round], time: fn(&Round) -> Duration| all.iter().map(|r| time(r)).sum::<Duration>() / n;
    let profiled = mean(&fastest, |r| r.profiled);
    let timing = ForwardTimes {
        forward: mean(&fastest_of(rounds, |r| r.plain), |r| r.plain),
        profiled,
        between: profiled.saturating_sub(layers.iter().map(|l| l.time).sum()),
        peak_bytes,
        passes: rounds.len(),
    };
    (timing, layers)
}
fn fastest_of(rounds: &[Round], time: fn(&Round) -> Duration) -> Vec<&Round> {
    let mut sorted: Vec<&Round> = rounds.iter().collect();
    sorted.sort_by_key(|r| time(r));
    sorted.truncate((rounds.len() / 8).max(3));
    sorted
}
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    match times.len() {
        0 => Duration::ZERO,
        n if n % 2 == 1 => times[n / 2],
        n => (times[n / 2 - 1] + times[n / 2]) / 2,
    }
}

/// Roofs by device and dtype: a device does not change while a program runs.
static ROOFS: Mutex<Vec<((Device, DType), Roof)>> = Mutex::new(Vec::new());
/// So long at least must a timing take that is to count, and so large may its operands become.
const LONG_ENOUGH: Duration = Duration::from_millis(20);
const LARGEST_SIDE: usize = 4096;
const LARGEST_ARRAY: usize = 128 << 20;
const TIMES: usize = 5;

fn roof(device: Device, dtype: DType) -> Result<Roof> {
    let known = ROOFS.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|(key, _)| *key == (device, dtype)).map(|(_, roof)| *roof);
    if let Some(roof) = known {
        return Ok(roof);
    }
    let roof = device.scoped(|| no_grad(|| measured(device, dtype)))?;
    ROOFS.lock().unwrap_or_else(PoisonError::into_inner).push(((device, dtype), roof));
    Ok(roof)
}
fn measured(device: Device, dtype: DType) -> Result<Roof> {
    let filled = |shape: &[usize]| -> Result<Tensor> {
        let t = Tensor::full_on(shape, 0.5, dtype, device);
        t.materialize()?;
        Ok(t)
    };
    let (mut gflops, mut side) = (0.0f64, 64);
    loop {
        let (a, b) = (filled(&[side, side])?, filled(&[side, side])?);
        let time = fastest(device, || a.matmul(&b).materialize())?;
        gflops = gflops.max(2.0 * (side as f64).powi(3) / time.as_secs_f64() * 1e-9);
        if time >= LONG_ENOUGH || side >= LARGEST_SIDE {
            break;
        }
        side *= 2;
    }
    let mut bytes = 1 << 20;
    // The last is what counts: smaller arrays stay in the caches.
    let gbytes = loop {
        let x = filled(&[bytes / dtype.size()])?;
        let time = fastest(device, || (&x + 1.0).materialize())?;
        if time >= LONG_ENOUGH || bytes >= LARGEST_ARRAY {
            break 2.0 * bytes as f64 / time.as_secs_f64() * 1e-9;
        }
        bytes *= 2;
    };
    let one = filled(&[1])?;
    let recording = Profiler::new().start()?;
    for _ in 0..101 {
        (&one + 1.0).materialize()?;
    }
    let kernels = recording.stop().kernels;
    let launch = median(kernels.iter().filter(|k| k.device == device).map(|k| k.time).collect());
    Ok(Roof { gflops, gbytes, launch })
}
/// The fastest of a few, of which the first is not counted: it plans and asks for memory.
fn fastest(device: Device, f: impl Fn() -> Result<()>) -> Result<Duration> {
    f()?;
    let mut least = Duration::MAX;
    let begun = Instant::now();
    for k in 0..TIMES {
        let (done, time) = device.timed(&f)?;
        done?;
        least = least.min(time.max(Duration::from_nanos(1)));
        if k > 0 && begun.elapsed() > LONG_ENOUGH * 20 {
            break;
        }
    }
    Ok(least)
}

#[cfg(test)]
mod tests;
