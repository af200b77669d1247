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
        check: on_card::settings,
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
        check: on_card::deterministic,
        plants: &[plant("another input", "the same bits")],
    },
    RowCheck {
        id: "S4.37",
        target: "TF32 is a switch: errors near 1e-3 with it, near 1e-6 without",
        cost: CheckCost::Cheap,
        check: on_card::tf32,
        plants: &[plant("TF32 in spite of the switch", "1e-6 without")],
    },
];

/// The parts of the rows that look at a card.
#[cfg(feature = "cuda")]
mod on_card;
#[cfg(not(feature = "cuda"))]
mod on_card {
    //! What is said of a card where this program has no CUDA.
    use super::{Checked, lacking};
    pub fn unseen() -> Checked {
        Err(lacking("this program has not the feature `cuda`").into())
    }
    pub use self::{unseen as capped, unseen as deterministic, unseen as load, unseen as pinned, unseen as settings, unseen as statistics, unseen as tf32};
}
/// How a card is had.
const CARD: &str = "a machine with a card and `cargo run -p xtask --features cuda -- features`, or `cargo xtask --emulated features` with `pip install nvidia-cuda-nvrtc==13.0.88`";
fn lacking(why: &str) -> Lacking {
    Lacking::new(format!("a CUDA device ({why})"), CARD)
}
/// With what is seen on a card, where there is one.
fn beside(seen: Seen, card: Checked) -> Checked {
    match card {
        Ok(card) => Ok(seen.and(card)),
        Err(e) => Ok(seen.lacking([*e.downcast::<Lacking>()?])),
    }
}
/// Is the card played by the emulator? Then nothing is said of bandwidths.
fn is_emulated() -> bool {
    device::take_times().is_some()
}
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|k| ((k * 7919) % 1009) as f32 / 1009.0 - 0.5).collect()
}
fn pinned() -> Checked {
    let cpu = Device::cpu()?;
    let x = Tensor::from_vec_on(numbers(8), [8], cpu);
    let same = x.pin_memory(cpu)?;
    let is_itself = !same.is_pinned()? && same.to_vec::<f32>()? == numbers(8);
    beside(Seen::all(&[("on the CPU the tensor itself", is_itself)], "on the CPU not pinned"), on_card::pinned())
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
    beside(Seen::all(&is_consistent(cpu)?, "on the CPU"), on_card::statistics())
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
    beside(seen, on_card::capped())
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
    beside(seen, on_card::load())
}
