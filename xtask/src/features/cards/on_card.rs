//! What the rows about CUDA devices look at on a card, or on the one that the emulator plays. Without one each is a [`Lacking`].
use super::{super::probe, Checked, Lacking, Seen, is_consistent, is_emulated, keeps_cap, lacking, numbers, planted};
use adamant::{
    DType, Device, ErrorKind, Tensor,
    cuda::{CudaBackend, CudaBuilder, CudaMemoryPool},
};
use std::{error::Error, time::Instant};

/// A card, opened as said. Where there is none the machine lacks it; what else stands in the way is a failure.
fn opened(with: impl FnOnce(CudaBuilder) -> CudaBuilder) -> Result<Device, Box<dyn Error>> {
    match with(CudaBackend::builder().cache(None).self_test(false)).build() {
        Ok(backend) => Ok(Device::from_backend(Box::new(backend))),
        Err(ErrorKind::DeviceAbsent(why)) => Err(lacking(&why).into()),
        Err(kind) => Err(kind.to_string().into()),
    }
}
fn backend(device: Device) -> Result<&'static CudaBackend, Box<dyn Error>> {
    device.backend().downcast::<CudaBackend>().ok_or_else(|| "a device of another backend".into())
}
fn detail(device: Device, name: &str) -> String {
    device.info().details.iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone()).unwrap_or_default()
}
pub fn settings() -> Checked {
    let set = |b: CudaBuilder| b.tensor_cores(false).memory_pool(CudaMemoryPool::Bytes(96 << 20)).graphs(None).deterministic(true);
    let other = opened(|b| if planted("a setting that is dropped") { b } else { set(b) })?;
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
pub fn pinned() -> Checked {
    let device = opened(|b| b)?;
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
    let seen = Seen::all(
        &[("through no other memory", staged == 0), ("the values", is_right)],
        format!("{} bytes, {staged} of them through other memory, {:.1} GB/s", 4 * count, 4e-9 * count as f64 / seconds),
    );
    Ok(seen.lacking([Lacking::new("90 % of PCIe's bandwidth", "the command `cargo xtask gpu-pack`, whose stages run on a card")]))
}
pub fn statistics() -> Checked {
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
pub fn capped() -> Checked {
    let device = opened(|b| b.memory_pool(CudaMemoryPool::Bytes(16 << 20)))?;
    let (typed, goes_on, said) = keeps_cap(device, "a card")?;
    Ok(Seen::all(&[("a typed error of the card", typed), ("work goes on on the card", goes_on)], said))
}
pub fn load() -> Checked {
    let load = backend(opened(|b| b)?)?.load();
    let is_told = load.as_ref().is_ok_and(|l| l.compute.is_some_and(|share| (0.0..=1.0).contains(&share)) && l.compute_clock.is_some_and(|mhz| mhz > 0));
    Ok(Seen::all(&[("what a card does", is_told)], format!("the card: {load:?}")))
}
pub fn deterministic() -> Checked {
    let device = opened(|b| b.deterministic(true))?;
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
pub fn tf32() -> Checked {
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
    let with = error(true)?;
    let without = error(planted("TF32 in spite of the switch"))?;
    let parts = [("1e-3 with it", (1e-4..1e-2).contains(&with)), ("1e-6 without", without < 1e-5)];
    Ok(Seen::all(&parts, format!("largest error {with:.1e} of the largest element with it, {without:.1e} without")))
}
