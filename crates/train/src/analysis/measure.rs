//! Times of layers: the forward pass by the clock alone and under the profiler, in turn, and what the profiler saw shared out among
//! the layers.
//!
//! Work is fused across the borders of layers, so a kernel may have ops of several: a convolution with the normalisation and the relu
//! behind it. To stop at each border would measure another program. The kernel's time is shared out by what its ops cost
//! ([`Profiler::split_layers`]): so the layers' times add up to those of the kernels, and what is beside them is told apart.
use super::{Analysis, LayerTimes, ModelAnalyzer, Roof, Timing};
use crate::summary::{Looked, look};
use adamant_core::{
    DType, Device, Result, Tensor, no_grad,
    profile::{Kernel, Profiler},
};
use adamant_nn::{Module, Param, RngState, Role, rng_state, set_rng_state};
use std::{
    collections::HashMap,
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
    let state = State::of(&looked, device)?;
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
    input.eval()?;
    let pass = || -> Result<Duration> {
        let (done, time) = device.timed(|| no_grad(|| model.forward(input)?.eval()))?;
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
    for _ in 0..analyzer.warm_up.max(1) {
        pass()?;
    }
    device.pool().reset_peak();
    pass()?;
    let peak_bytes = device.memory().peak_bytes as u64;
    let round = |_| {
        let plain = pass()?;
        let (profiled, kernels) = profiled()?;
        Ok(Round { plain, profiled, kernels })
    };
    Ok(((0..analyzer.passes).map(round).collect::<Result<_>>()?, peak_bytes))
}
/// What a forward pass in training changes.
struct State {
    device: Device,
    /// each buffer with its value and the version of that
    buffers: Vec<(Param, Tensor, u64)>,
    generator: RngState,
}
impl State {
    fn of(looked: &Looked, device: Device) -> Result<State> {
        let buffers = looked.leaves.iter().filter(|(_, p)| p.role() != Role::Trainable);
        let buffers: Vec<_> = buffers.map(|(_, p)| (p.clone(), p.read(), p.cell().version())).collect();
        buffers.iter().try_for_each(|(_, value, _)| value.eval())?;
        Ok(State { device, buffers, generator: rng_state(device)? })
    }
    fn put_back(self) -> Result<()> {
        let changed = self.buffers.iter().filter(|(p, _, version)| p.cell().version() != *version);
        changed.into_iter().try_for_each(|(p, value, _)| p.set(value))?;
        set_rng_state(self.device, self.generator)
    }
}
/// Each layer's part of what the profiler saw: of each figure the median over the rounds.
pub(super) fn share_out(looked: &Looked, rounds: &[Round], peak_bytes: u64) -> (Timing, Vec<LayerTimes>) {
    let rows = looked.summary.rows.len();
    let mut by_row: Vec<Vec<Duration>> = vec![Vec::new(); rows];
    let mut kernels = vec![0; rows];
    let mut between = Vec::new();
    let mut rows_of: HashMap<&str, Option<usize>> = HashMap::new();
    for (k, round) in rounds.iter().enumerate() {
        let mut times = vec![Duration::ZERO; rows];
        for kernel in &round.kernels {
            let parts: Vec<(usize, f64)> = (kernel.layers.iter())
                .filter_map(|(path, share)| Some(((*rows_of.entry(path).or_insert_with(|| looked.row_of(path)))?, *share)))
                .collect();
            for (n, &(row, share)) in parts.iter().enumerate() {
                times[row] += kernel.time.mul_f64(share);
                // Two paths of one row, as parts of one layer, are one kernel of it.
                kernels[row] += u32::from(k == 0 && !parts[..n].iter().any(|(other, _)| *other == row));
            }
        }
        between.push(round.profiled.saturating_sub(times.iter().sum()));
        by_row.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
    }
    let timing = Timing {
        forward: median(rounds.iter().map(|r| r.plain).collect()),
        profiled: median(rounds.iter().map(|r| r.profiled).collect()),
        between: median(between),
        peak_bytes,
        passes: rounds.len(),
    };
    (timing, by_row.into_iter().zip(kernels).map(|(all, kernels)| LayerTimes { time: median(all), kernels }).collect())
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
        t.eval()?;
        Ok(t)
    };
    let (mut gflops, mut side) = (0.0f64, 256);
    loop {
        let (a, b) = (filled(&[side, side])?, filled(&[side, side])?);
        let time = fastest(device, || a.matmul(&b).eval())?;
        gflops = gflops.max(2.0 * (side as f64).powi(3) / time.as_secs_f64() * 1e-9);
        if time >= LONG_ENOUGH || side >= LARGEST_SIDE {
            break;
        }
        side *= 2;
    }
    let mut bytes = 16 << 20;
    // The last is what counts: smaller arrays stay in the caches.
    let gbytes = loop {
        let x = filled(&[bytes / dtype.size()])?;
        let time = fastest(device, || (&x + 1.0).eval())?;
        if time >= LONG_ENOUGH || bytes >= LARGEST_ARRAY {
            break 2.0 * bytes as f64 / time.as_secs_f64() * 1e-9;
        }
        bytes *= 2;
    };
    let one = filled(&[1])?;
    let recording = Profiler::new().start()?;
    for _ in 0..101 {
        (&one + 1.0).eval()?;
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
