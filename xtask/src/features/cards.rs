//! Rows about CUDA devices: their settings, memory, pinned memory, uploads under compute, TF32, what a card does. They look at the card
//! of this machine, or at the one that the emulator plays (`cargo xtask --emulated features`); without either they say that they
//! were not looked at. What only a card can show, bandwidths, is never counted as seen on the emulator.
use super::{CheckCost, Checked, Lacking, RowCheck, Seen, plant, planted};
use crate::{device, overlap};
use adamant::{
    DType, Device, ErrorKind, Tensor,
    cpu::{Context, CpuBackend, CpuKernel, KernelOperands, Runtime},
    kernel::FaultWord,
    profile::ProcessorTimes,
};
use std::{
    error::Error,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

pub const ROWS: &[RowCheck] = &[
    RowCheck {
        id: "S1.27",
        target: "each setting of the builder is read back, told of by the device and seen in what runs; one that cannot be met is refused by name; without a driver a typed error, and the program goes on",
        cost: CheckCost::Cheap,
        check: settings,
        plants: &[plant("a setting that is dropped", "read back"), plant("graphs in spite of the setting", "seen in what runs")],
    },
    RowCheck {
        id: "S1.46",
        target: "a copy from pinned memory goes through no other memory, at 90 % of PCIe's bandwidth; on the CPU the tensor itself, which says that it is not pinned",
        cost: CheckCost::Cheap,
        check: pinned,
        plants: &[plant("memory that is not pinned", "through no other memory")],
    },
    RowCheck {
        id: "S1.47",
        target: "at least 80 % of the time of uploads lies under compute; on the CPU two queues run at once",
        cost: CheckCost::Cheap,
        check: queues,
        plants: &[plant("a wait before each batch", "80 % under compute"), plant("queues one after the other", "two queues at once")],
    },
    RowCheck {
        id: "S3.21",
        target: "allocated, reserved and the most of both on every device, and consistent after a reset and a trim",
        cost: CheckCost::Cheap,
        check: statistics,
        plants: &[plant("a peak that is not reset", "the peak after a reset")],
    },
    RowCheck {
        id: "S4.09",
        target: "a cap on the pool is kept; beyond it a typed OutOfMemory with what was asked for, in use and the cap, and work goes on",
        cost: CheckCost::Cheap,
        check: capped,
        plants: &[plant("a pool without its cap", "a typed error")],
    },
    RowCheck {
        id: "S4.30",
        target: "what a card does, from NVML; what the processor does, always",
        cost: CheckCost::Cheap,
        check: load,
        plants: &[plant("a process that does nothing", "the processor's use")],
    },
    RowCheck {
        id: "S4.36",
        target: "a deterministic mode: the same bits again, told of by the device, and nothing is measured in it",
        cost: CheckCost::Cheap,
        check: deterministic,
        plants: &[plant("another input", "the same bits")],
    },
    RowCheck {
        id: "S4.37",
        target: "TF32 is a switch: errors near 1e-3 with it, near 1e-6 without",
        cost: CheckCost::Cheap,
        check: tf32,
        plants: &[plant("TF32 in spite of the switch", "1e-6 without")],
    },
];

/// How a card is had.
const CARD: &str = "a machine with a card and `cargo run -p xtask --features cuda -- features`, or `cargo xtask --emulated features` with `pip install nvidia-cuda-nvrtc==13.0.88`";
fn lacking(why: &str) -> Lacking {
    Lacking::new(format!("a CUDA device ({why})"), CARD)
}
/// Is the card played by the emulator? Then nothing is said of bandwidths.
fn is_emulated() -> bool {
    device::take_times().is_some()
}
#[cfg(feature = "cuda")]
use super::probe;
#[cfg(feature = "cuda")]
use adamant::cuda::{CudaBackend, CudaBuilder, CudaMemoryPool};
/// A card, opened as said.
#[cfg(feature = "cuda")]
fn opened(with: impl FnOnce(CudaBuilder) -> CudaBuilder) -> Result<Device, Lacking> {
    match with(CudaBackend::builder().cache(None).self_test(false)).build() {
        Ok(backend) => Ok(Device::from_backend(Box::new(backend))),
        Err(e) => Err(lacking(&e.to_string())),
    }
}
#[cfg(feature = "cuda")]
fn backend(device: Device) -> Result<&'static CudaBackend, Box<dyn Error>> {
    device.backend().downcast::<CudaBackend>().ok_or_else(|| "a device of another backend".into())
}
/// A row that only a card can show, where this program has no CUDA.
#[cfg(not(feature = "cuda"))]
fn without_cuda() -> Checked {
    Ok(Seen::new(true, "").lacking([lacking("this program has not the feature `cuda`")]))
}
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|k| ((k * 7919) % 1009) as f32 / 1009.0 - 0.5).collect()
}
#[cfg(feature = "cuda")]
fn detail(device: Device, name: &str) -> String {
    device.info().details.iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone()).unwrap_or_default()
}

#[cfg(not(feature = "cuda"))]
fn settings() -> Checked {
    without_cuda()
}
#[cfg(feature = "cuda")]
fn settings() -> Checked {
    let set = |b: CudaBuilder| b.tensor_cores(false).memory_pool(CudaMemoryPool::Bytes(96 << 20)).graphs(None).deterministic(true);
    let other = match opened(|b| if planted("a setting that is dropped") { b } else { set(b) }) {
        Ok(device) => device,
        Err(lack) => return Ok(Seen::new(true, "").lacking([lack])),
    };
    let plain = opened(|b| b)?;
    let (a, b) = (backend(plain)?.options(), backend(other)?.options());
    let read_back = b.memory_pool == CudaMemoryPool::Bytes(96 << 20) && !b.tensor_cores && b.graphs.is_none() && b.deterministic && a.tensor_cores;
    let names = ["tensor cores", "memory pool", "graphs", "deterministic"];
    let told = names.iter().all(|name| !detail(plain, name).is_empty() && detail(plain, name) != detail(other, name));
    let refused = |with: fn(CudaBuilder) -> CudaBuilder, name: &str| matches!(with(CudaBackend::builder()).build(), Err(ErrorKind::Unsupported { what, .. }) if what.contains(name));
    let is_refused = refused(|b| b.stream_count(9), "stream_count") && refused(|b| b.cudnn(true), "cudnn");
    let graphs = |device: Device| -> Result<u64, Box<dyn Error>> {
        device.scoped(|| -> adamant::Result<()> {
            for k in 0..6 {
                // Products between sums: no two of these are one kernel.
                let mut x = Tensor::full([16, 16], f64::from(k), DType::F32);
                for _ in 0..8 {
                    x = x.matmul(&x).sum(1).reshape([16, 1]) * 1e-3 + &x;
                }
                x.to_vec::<f32>()?;
            }
            Ok(())
        })?;
        Ok(device.counters().iter().find(|c| c.0 == "graphs").map_or(0, |c| c.1))
    };
    let looked_at = if planted("graphs in spite of the setting") { plain } else { other };
    let (with, without) = (graphs(plain)?, graphs(looked_at)?);
    let driverless = if is_emulated() { Some(probe::ask(probe::again(&[])?, "card")?) } else { None };
    let says = driverless.as_ref().and_then(|d| d["says"].as_str()).unwrap_or_default().to_string();
    let parts = [
        ("read back", read_back),
        ("told of", told),
        ("refused by name", is_refused),
        ("seen in what runs", with > 0 && without == 0),
        ("without a driver", driverless.is_none() || says.contains("libcuda") && says.contains("device not available")),
    ];
    let lack = driverless.is_none().then(|| Lacking::new("a machine without a driver", "run it where there is none"));
    Ok(Seen::all(&parts, format!("{with} graphs with, {without} without; without a driver: {says}")).lacking(lack))
}

#[cfg(not(feature = "cuda"))]
fn pinned() -> Checked {
    Ok(on_the_cpu()?.lacking([lacking("this program has not the feature `cuda`")]))
}
fn on_the_cpu() -> Checked {
    let cpu = Device::cpu()?;
    let x = Tensor::from_vec_on(numbers(8), [8], cpu);
    let same = x.pin_memory(cpu)?;
    let is_itself = !same.is_pinned()? && same.to_vec::<f32>()? == numbers(8);
    Ok(Seen::all(&[("on the CPU the tensor itself", is_itself)], "on the CPU not pinned"))
}
#[cfg(feature = "cuda")]
fn pinned() -> Checked {
    let mut seen = on_the_cpu()?;
    let device = match opened(|b| b) {
        Ok(device) => device,
        Err(lack) => return Ok(seen.lacking([lack])),
    };
    let (cpu, count) = (Device::cpu()?, 3 << 20);
    let host = Tensor::from_vec_on(numbers(count), [count], cpu);
    let pinned = if planted("memory that is not pinned") { host.clone() } else { host.pin_memory(device)? };
    device.synchronize()?;
    let copies = |device: Device| device.counters().iter().find(|c| c.0 == "staged bytes").map_or(0, |c| c.1);
    let (before, begun) = (copies(device), Instant::now());
    let there = pinned.to(device);
    device.synchronize()?;
    let (seconds, staged) = (begun.elapsed().as_secs_f64(), copies(device) - before);
    let is_right = there.to_vec::<f32>()? == numbers(count);
    let whole = Seen::all(
        &[("through no other memory", staged == 0), ("the values", is_right)],
        format!("{} bytes, {staged} of them through other memory, {:.1} GB/s", 4 * count, 4e-9 * count as f64 / seconds),
    );
    seen.value = format!("{}; {}", whole.value, seen.value);
    seen.failed.extend(whole.failed);
    Ok(seen.lacking([Lacking::new("90 % of PCIe's bandwidth", "the command `cargo xtask gpu-pack`, whose stages run on a card")]))
}

/// A kernel that ends when two of its kind are under way, or after a time.
#[derive(Default)]
struct KernelMeeting {
    here: Mutex<usize>,
    changed: Condvar,
    met: Mutex<bool>,
}
struct MeetingKernel(Arc<KernelMeeting>);
impl CpuKernel for MeetingKernel {
    fn supports(&self, _: &dyn adamant::Composite, dtypes: &[DType]) -> bool {
        dtypes.iter().all(|d| *d == DType::F64)
    }
    fn run(&self, _: &dyn adamant::Composite, operands: &mut KernelOperands<'_, '_, '_>, _: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let meeting = &self.0;
        let mut here = meeting.here.lock().unwrap_or_else(PoisonError::into_inner);
        *here += 1;
        meeting.changed.notify_all();
        let (all, _) = meeting.changed.wait_timeout_while(here, Duration::from_secs(3), |here| *here < 2).unwrap_or_else(PoisonError::into_inner);
        *meeting.met.lock().unwrap_or_else(PoisonError::into_inner) |= *all >= 2;
        drop(all);
        operands.output::<f64>(0)?.fill(0.5);
        Ok(())
    }
}
/// Do two threads' ops run on one CPU device at the same time?
fn meet() -> Result<bool, Box<dyn Error>> {
    let meeting = Arc::new(KernelMeeting::default());
    let device = Context::new(CpuBackend::builder().threads(1))?.device();
    device.register("adamant.softmax", Box::new(Box::new(MeetingKernel(meeting.clone())) as Box<dyn CpuKernel>))?;
    let soften = move || device.scoped(|| Tensor::ones([4]).cast(DType::F64).softmax(0).to_vec::<f64>().map(drop));
    if planted("queues one after the other") {
        soften()?;
        *meeting.here.lock().unwrap_or_else(PoisonError::into_inner) = 0;
        soften()?;
    } else {
        let threads = [std::thread::spawn(soften), std::thread::spawn(soften)];
        for thread in threads {
            thread.join().map_err(|_| "a thread that panicked")??;
        }
    }
    Ok(*meeting.met.lock().unwrap_or_else(PoisonError::into_inner))
}
fn queues() -> Checked {
    let met = meet()?;
    let parts = |under: Option<f64>| {
        let mut parts = vec![("two queues at once", met)];
        parts.extend(under.map(|u| ("80 % under compute", u >= overlap::WANTED)));
        Seen::all(&parts, under.map_or(String::new(), |u| format!("{:.1} % of uploads under compute, by the emulator's clock", u * 100.0)))
    };
    if !is_emulated() {
        return Ok(parts(None).lacking([Lacking::new("the clock of a card", "`cargo xtask --emulated features`; on a card `cargo xtask gpu-pack`")]));
    }
    let waits = planted("a wait before each batch").then_some("synchronisation");
    let device = "cuda".parse::<Device>()?;
    let mut times = device.scoped(|| overlap::by_loader(device, false, 8, waits))?;
    Ok(parts(Some(times.hidden().1)))
}

/// Is what a pool says so, before and after a reset and a trim?
fn is_consistent(device: Device) -> Result<Vec<(&'static str, bool)>, Box<dyn Error>> {
    const BYTES: usize = 4 << 20;
    let held = device.scoped(|| Tensor::full([BYTES / 4], 1.0, DType::F32));
    held.materialize()?;
    let with = device.memory();
    drop(held);
    device.synchronize()?;
    let without = device.memory();
    if !planted("a peak that is not reset") {
        device.pool().reset_peak();
    }
    let reset = device.memory();
    device.pool().trim();
    let trimmed = device.memory();
    Ok(vec![
        ("allocated", with.live_bytes >= without.live_bytes + BYTES),
        ("the peak", without.peak_bytes >= with.live_bytes),
        ("the peak after a reset", reset.peak_bytes < with.live_bytes && reset.peak_bytes >= reset.live_bytes),
        ("nothing waits after a trim", trimmed.cached_bytes == 0),
    ])
}
fn statistics() -> Checked {
    let cpu = Context::new(CpuBackend::builder())?.device();
    let mut seen = Seen::all(&is_consistent(cpu)?, "on the CPU");
    match card_statistics() {
        Ok(card) => {
            seen.value += &format!("; {}", card.value);
            seen.failed.extend(card.failed);
            Ok(seen.lacking(card.missing))
        }
        Err(e) => Ok(seen.lacking([*e.downcast::<Lacking>()?])),
    }
}
#[cfg(not(feature = "cuda"))]
fn card_statistics() -> Checked {
    Err(lacking("this program has not the feature `cuda`").into())
}
#[cfg(feature = "cuda")]
fn card_statistics() -> Checked {
    let device = opened(|b| b)?;
    let mut parts = is_consistent(device)?;
    let card = backend(device)?;
    let held = device.scoped(|| Tensor::full([1 << 21], 1.0, DType::F32));
    held.materialize()?;
    let with = card.memory();
    drop(held);
    device.synchronize()?;
    device.pool().trim();
    card.trim().map_err(|kind| format!("{kind:?}"))?;
    card.reset_peak();
    let after = card.memory();
    parts.extend([
        ("reserved on the card", with.reserved >= with.allocated && with.allocated >= 8 << 20 && with.peak_reserved >= with.reserved),
        ("given back", after.reserved < with.reserved && after.allocated <= after.reserved),
        ("peaks after a reset on the card", after.peak == after.allocated && after.peak_reserved == after.reserved),
        ("the card's own", after.total >= after.free && after.total > 0),
    ]);
    Ok(Seen::all(&parts, format!("on the card {} bytes allocated of {} reserved, {} after a trim", with.allocated, with.reserved, after.reserved)))
}

/// Is the error what it should be, and does work go on?
fn keeps_cap(device: Device, what: &'static str) -> Result<(bool, bool, String), Box<dyn Error>> {
    let asked = 64 << 20;
    let refused = device.scoped(|| Tensor::full([asked / 4], 1.0, DType::F32).materialize());
    let said = refused.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let is_typed = refused.is_err_and(|e| matches!(e.kind(), ErrorKind::OutOfMemory { asked: a, cap: Some(_), .. } if *a >= asked));
    let goes_on = device.scoped(|| Tensor::ones([1000]).sum(..).item::<f32>())? == 1000.0;
    Ok((is_typed, goes_on, format!("{what}: {said}")))
}
fn capped() -> Checked {
    let cpu = Context::new(CpuBackend::builder())?.device();
    if !planted("a pool without its cap") {
        cpu.pool().set_cap(16 << 20);
    }
    let (typed, goes_on, said) = keeps_cap(cpu, "the CPU")?;
    let seen = Seen::all(&[("a typed error", typed), ("work goes on", goes_on)], said);
    with_card_cap(seen)
}
#[cfg(not(feature = "cuda"))]
fn with_card_cap(seen: Seen) -> Checked {
    Ok(seen.lacking([lacking("this program has not the feature `cuda`")]))
}
#[cfg(feature = "cuda")]
fn with_card_cap(mut seen: Seen) -> Checked {
    let device = match opened(|b| b.memory_pool(CudaMemoryPool::Bytes(16 << 20))) {
        Ok(device) => device,
        Err(lack) => return Ok(seen.lacking([lack])),
    };
    let (typed, goes_on, said) = keeps_cap(device, "a card")?;
    let card = Seen::all(&[("a typed error of the card", typed), ("work goes on on the card", goes_on)], said);
    seen.value += &format!("; {}", card.value);
    seen.failed.extend(card.failed);
    Ok(seen)
}

fn load() -> Checked {
    let before = ProcessorTimes::now()?;
    let begun = Instant::now();
    let mut sum = 0u64;
    while begun.elapsed() < Duration::from_millis(300) {
        if planted("a process that does nothing") {
            std::thread::sleep(Duration::from_millis(10));
        } else {
            sum = (0..100_000u64).fold(sum, |sum, k| std::hint::black_box(sum.wrapping_mul(31).wrapping_add(k)));
        }
    }
    let used = ProcessorTimes::now()?.since(&before);
    // Other programs may have the other half of the core that this thread was on.
    let is_busy = used.process_cores > 0.15 && used.process_percent <= 110.0 && (0.0..=100.0).contains(&used.machine_percent) && used.machine_percent > 0.0;
    let seen = Seen::all(
        &[("the processor's use", is_busy)],
        format!("{:.2} cores by this process, {:.0} % of the machine's busy", used.process_cores, used.machine_percent),
    );
    with_card_load(seen)
}
#[cfg(not(feature = "cuda"))]
fn with_card_load(seen: Seen) -> Checked {
    Ok(seen.lacking([lacking("this program has not the feature `cuda`")]))
}
#[cfg(feature = "cuda")]
fn with_card_load(mut seen: Seen) -> Checked {
    let device = match opened(|b| b) {
        Ok(device) => device,
        Err(lack) => return Ok(seen.lacking([lack])),
    };
    let load = backend(device)?.load();
    let is_told = load.as_ref().is_ok_and(|l| l.compute.is_some_and(|share| (0.0..=1.0).contains(&share)) && l.compute_clock.is_some_and(|mhz| mhz > 0));
    seen.value += &format!("; the card: {load:?}");
    if !is_told {
        seen.failed.push("what a card does".into());
    }
    Ok(seen)
}

#[cfg(not(feature = "cuda"))]
fn deterministic() -> Checked {
    without_cuda()
}
#[cfg(feature = "cuda")]
fn deterministic() -> Checked {
    let device = match opened(|b| b.deterministic(true)) {
        Ok(device) => device,
        Err(lack) => return Ok(Seen::new(true, "").lacking([lack])),
    };
    let product = |shift: f32| -> Result<Vec<u32>, Box<dyn Error>> {
        let x = numbers(96 * 80).into_iter().map(|v| v + shift).collect();
        let x = Tensor::from_vec_on(x, [96, 80], device);
        Ok(x.matmul(&x.t()).softmax(1).to_vec::<f32>()?.into_iter().map(f32::to_bits).collect())
    };
    let first = product(0.0)?;
    let again = product(if planted("another input") { 1e-3 } else { 0.0 })?;
    let both = CudaBackend::builder().deterministic(true).benchmark(true).build();
    let parts = [
        ("the same bits", first == again),
        ("told of", detail(device, "deterministic") == "on"),
        ("nothing is measured in it", matches!(both, Err(ErrorKind::Argument(what)) if what.contains("benchmark"))),
    ];
    Ok(Seen::all(&parts, format!("{} elements, determinism {:?}", first.len(), device.info().determinism)))
}

#[cfg(not(feature = "cuda"))]
fn tf32() -> Checked {
    without_cuda()
}
#[cfg(feature = "cuda")]
fn tf32() -> Checked {
    let error = |on: bool| -> Result<f64, Box<dyn Error>> {
        let device = opened(|b| b.tf32(on))?;
        const N: usize = 64;
        let values = numbers(N * N);
        let x = Tensor::from_vec_on(values.clone(), [N, N], device);
        let got = x.matmul(&x).to_vec::<f32>()?;
        let exact = |r: usize, c: usize| (0..N).map(|k| f64::from(values[r * N + k]) * f64::from(values[k * N + c])).sum::<f64>();
        let largest = (0..N * N).map(|i| exact(i / N, i % N).abs()).fold(0.0, f64::max);
        Ok((0..N * N).map(|i| (f64::from(got[i]) - exact(i / N, i % N)).abs()).fold(0.0, f64::max) / largest)
    };
    let with = match error(true) {
        Ok(with) => with,
        Err(e) => return Ok(Seen::new(true, "").lacking([*e.downcast::<Lacking>()?])),
    };
    let without = error(planted("TF32 in spite of the switch"))?;
    let parts = [("1e-3 with it", (1e-4..1e-2).contains(&with)), ("1e-6 without", without < 1e-5)];
    Ok(Seen::all(&parts, format!("largest error {with:.1e} of the largest element with it, {without:.1e} without")))
}
