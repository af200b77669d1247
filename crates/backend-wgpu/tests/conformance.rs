//! The suite on this backend, where the machine has an adapter.
use adamant_backend_wgpu::WgpuBackend;
use adamant_conformance::suite;
use adamant_core::{Device, ErrorKind};
use std::sync::OnceLock;

/// One device for all tests: windows of several threads meet on it.
fn device() -> Option<Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    *DEVICE.get_or_init(|| match WgpuBackend::open(0) {
        Ok(backend) => Some(Device::from_backend(Box::new(backend))),
        Err(ErrorKind::DeviceAbsent(why)) => {
            eprintln!("SKIPPED: {why}");
            None
        }
        Err(e) => panic!("{e:?}"),
    })
}
#[test]
fn first() {
    let Some(device) = device() else { return };
    let which = std::env::var("MODE").unwrap_or_default();
    println!("{:#?}", device.info());
    let t = std::time::Instant::now();
    let report = match which.as_str() {
        "correctness" => suite::correctness(device),
        "errors" => suite::errors(device),
        "gradients" => suite::gradients(device),
        "special" => suite::special_values(device),
        "faults" => suite::faults(device),
        "inplace" => suite::in_place(device),
        "cuts" => suite::cuts(device),
        "threads" => suite::threads(device),
        _ => suite::fuzzing(device, std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(20)),
    };
    for f in &report.failures {
        println!("FAIL {}", f.to_string().replace('\n', " | ").chars().take(1500).collect::<String>());
    }
    for (k, w) in &report.unsupported {
        println!("UNSUP {k}: {w}");
    }
    println!("{} checks {} failures {} unsupported {:?}", report.checks, report.failures.len(), report.unsupported.len(), t.elapsed());
}
