//! What no workload of `bench` measures: copies between host and card and what they hide under, what TF32 costs in exactness, and
//! what the device says of itself.
use super::{figures::of_table, lines::FigureVerdict};
use crate::{device, exit::Exit};
use adamant::{Device, Result, Tensor, no_grad};
use adamant_bench::inputs::{tensor, uniform};
use std::{path::PathBuf, time::Instant};

/// Where.
#[derive(clap::Args)]
pub struct Options {
    /// cuda:N
    #[arg(long, default_value = "cuda:0")]
    device: String,
    /// What `gpu_torch.py pinned` printed
    #[arg(long)]
    bus: Option<PathBuf>,
    /// Small on an emulated card: no figure of a card is told
    #[arg(long)]
    small: bool,
}
/// Does `f` on the device that is asked for and prints its lines.
fn on_device(options: &Options, f: impl FnOnce(Device) -> Result<Vec<(&'static str, std::result::Result<f64, FigureVerdict>)>>) -> Exit {
    let device = match device::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    match f(device) {
        Ok(figures) => {
            let lines: Vec<_> = figures.into_iter().map(|(name, figure)| of_table(name, figure)).collect();
            lines.iter().for_each(|line| println!("{line}"));
            if lines.iter().any(|line| matches!(line.verdict, FigureVerdict::Failed(_))) { Exit::Failed } else { Exit::Passed }
        }
        Err(e) => {
            eprintln!("{e}");
            Exit::Failed
        }
    }
}

/// The device's facts on stderr, and how many paths its self-test put off.
pub fn probe(options: &Options) -> Exit {
    on_device(options, |device| {
        let info = device.info();
        eprintln!("{device}: {}", info.name);
        info.details.iter().for_each(|(what, value)| eprintln!("  {what}: {value}"));
        let said = info.details.iter().find(|(what, _)| *what == "self-test").map(|(_, value)| value.as_str());
        Ok(vec![("self_test", paths_off(said))])
    })
}
fn paths_off(said: Option<&str>) -> std::result::Result<f64, FigureVerdict> {
    match said {
        Some("passed") => Ok(0.0),
        None | Some("none") => Err(FigureVerdict::NotRun("this device has no self-test".into())),
        Some(off) => Err(FigureVerdict::Failed(format!("{}: {off}", off.split("; ").count()))),
    }
}

/// Bytes of a copy on a card.
const COPIED: usize = 256 << 20;
/// How often each is timed; the best counts.
const ROUNDS: usize = 5;
/// Copies and products that are timed beside each other.
const BESIDE: usize = 8;

/// Copies both ways, against what the bus gives where that is known; and which share of copies is hidden under products.
pub fn copies(options: &Options) -> Exit {
    on_device(options, |device| {
        let bytes = if options.small { 1 << 16 } else { COPIED };
        let host: Vec<f32> = (0..bytes / 4).map(|k| k as f32).collect();
        let there = device.scoped(|| handed_over(&host))?;
        let came_back = there.to_vec::<f32>()?;
        let wrong = host.iter().zip(&came_back).filter(|(a, b)| a.to_bits() != b.to_bits()).count() + host.len().abs_diff(came_back.len());
        let mut figures = vec![("copies_right", Ok(wrong as f64))];
        if options.small {
            let of_cards = ["copy_up", "copy_up/bus", "copy_down", "copy_down/bus", "overlap"];
            // Both run all the same, so that it is seen here that they do.
            device.scoped(|| overlap(device, 1 << 10, 16))?;
            figures.extend(of_cards.map(|name| (name, Err(FigureVerdict::NotRun("emulated".into())))));
            return Ok(figures);
        }
        let gbps = |seconds: f64| bytes as f64 / seconds * 1e-9;
        let up = gbps(device.scoped(|| best(device, || handed_over(&host).map(drop)))?);
        let down = gbps(best(device, || there.to_vec::<f32>().map(drop))?);
        let bus =
            options.bus.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
        let of_bus = |gbps: f64, field: &str| {
            let most = bus.as_ref().and_then(|bus| bus[field].as_f64()).filter(|most| *most > 0.0);
            most.map(|most| gbps / most).ok_or_else(|| FigureVerdict::NotRun("no PyTorch that tells what the bus gives".into()))
        };
        figures.extend([("copy_up", Ok(up)), ("copy_up/bus", of_bus(up, "up_gbps")), ("copy_down", Ok(down)), ("copy_down/bus", of_bus(down, "down_gbps"))]);
        figures.push(("overlap", Ok(device.scoped(|| overlap(device, 16 << 20, 4096))?)));
        Ok(figures)
    })
}
fn handed_over(host: &[f32]) -> Result<Tensor> {
    let t = Tensor::from_slice(host, [host.len()]);
    t.materialize()?;
    Ok(t)
}
/// Seconds of the quickest, until the device is done.
fn best(device: Device, mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        device.synchronize()?;
        let begun = Instant::now();
        f()?;
        device.synchronize()?;
        least = least.min(begun.elapsed().as_secs_f64());
    }
    Ok(least)
}
/// Of the shorter of copies and products, the share that runs beside the longer.
fn overlap(device: Device, elements: usize, n: usize) -> Result<f64> {
    let (host, a) = (uniform(elements, 1), tensor(&[n, n], 2).cast(adamant::DType::BF16));
    a.materialize()?;
    let product = || no_grad(|| a.matmul(&a)).materialize();
    let copy = || handed_over(&host);
    let times = |n: usize, f: &dyn Fn() -> Result<()>| best(device, || (0..n).try_for_each(|_| f()));
    let one = times(1, &product)?;
    let copies = best(device, || (0..BESIDE).map(|_| copy()).collect::<Result<Vec<_>>>().map(drop))?;
    // So many products that both take about as long.
    let products = ((copies / one / BESIDE as f64).round() as usize).clamp(1, 1000);
    let computing = times(BESIDE * products, &product)?;
    let both = best(device, || {
        let begun = |_| (0..products).try_for_each(|_| product()).and_then(|()| copy());
        (0..BESIDE).map(begun).collect::<Result<Vec<_>>>().map(drop)
    })?;
    Ok(hidden(copies, computing, both))
}
fn hidden(copies: f64, computing: f64, both: f64) -> f64 {
    ((copies + computing - both) / copies.min(computing)).clamp(0.0, 1.0)
}

/// How far products of f32 are from those of f64, with TF32 and without it.
pub fn tf32(options: &Options) -> Exit {
    on_device(options, |device| {
        let off = device.scoped(product_error)?;
        Ok(match with_tf32(&options.device) {
            Ok(with) => {
                let on = with.scoped(product_error)?;
                vec![("tf32_off_error", Ok(off)), ("tf32_on_error", Ok(on)), ("tf32_on/off", Ok(on / off.max(1e-12)))]
            }
            Err(why) => {
                vec![("tf32_off_error", Ok(off)), ("tf32_on_error", Err(FigureVerdict::NotRun(why.clone()))), ("tf32_on/off", Err(FigureVerdict::NotRun(why)))]
            }
        })
    })
}
#[cfg(feature = "cuda")]
fn with_tf32(device: &str) -> std::result::Result<Device, String> {
    let number = device.split_once(':').and_then(|(_, n)| n.parse().ok()).unwrap_or(0);
    if !device.starts_with("cuda") {
        return Err(format!("{device} has no TF32"));
    }
    let backend = adamant::cuda::CudaBackend::builder().device(number).tf32(true).build();
    backend.map(|backend| Device::from_backend(Box::new(backend))).map_err(|kind| format!("{kind:?}"))
}
#[cfg(not(feature = "cuda"))]
fn with_tf32(_: &str) -> std::result::Result<Device, String> {
    Err("this program was built without its feature `cuda`".into())
}
/// The root of the mean square of the error of a product, as a share of that of the product.
fn product_error() -> Result<f64> {
    const N: usize = 256;
    let (x, y) = (uniform(N * N, 1), uniform(N * N, 2));
    let got = no_grad(|| Tensor::from_slice(&x, [N, N]).matmul(Tensor::from_slice(&y, [N, N]))).to_vec::<f32>()?;
    let (mut error, mut size) = (0.0, 0.0);
    // Every seventh row.
    for i in (0..N).step_by(7) {
        for j in 0..N {
            let exact: f64 = (0..N).map(|k| f64::from(x[i * N + k]) * f64::from(y[k * N + j])).sum();
            error += (f64::from(got[i * N + j]) - exact).powi(2);
            size += exact.powi(2);
        }
    }
    Ok((error / size).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_are_hidden_and_count_as_waited_for() {
        assert_eq!([hidden(1.0, 1.0, 1.0), hidden(1.0, 1.0, 2.0), hidden(1.0, 3.0, 3.5), hidden(2.0, 1.0, 9.0)], [1.0, 0.0, 0.5, 0.0]);
    }
    #[test]
    fn a_self_test_that_put_paths_off_and_passed() {
        assert_eq!(paths_off(Some("passed")), Ok(0.0));
        assert!(matches!(paths_off(Some("TF32 off: wrong; graphs off: stale")), Err(FigureVerdict::Failed(why)) if why.starts_with("2: ")));
        assert!(matches!(paths_off(None), Err(FigureVerdict::NotRun(_))) && matches!(paths_off(Some("none")), Err(FigureVerdict::NotRun(_))));
    }
    #[test]
    fn a_product_in_f32_that_is_taken_for_tf32() {
        let error = Device::reference().scoped(product_error).unwrap();
        assert!(error > 0.0 && error < 1e-6, "{error}");
    }
}
