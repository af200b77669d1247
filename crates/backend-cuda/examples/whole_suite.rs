use adamant_backend_cuda::CudaBackend;
use adamant_conformance::{
    share::CheckShare,
    suite::{self, Report},
};
use adamant_core::Device;
use adamant_cuda_emulator::{Emulator, Options};
fn main() {
    let mut args = std::env::args().skip(1);
    let profile = args.next().unwrap_or("sm_90".into());
    let modes: Vec<String> = args.collect();
    let e = Emulator::install(Options { profile, seed: std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1), ..Options::default() }).unwrap();
    let device = Device::from_backend(Box::new(CudaBackend::builder().build().unwrap()));
    let all: Vec<(&str, Box<dyn Fn() -> Report>)> = vec![
        ("correctness", Box::new(move || suite::correctness(device, CheckShare::Whole))),
        ("errors", Box::new(move || suite::errors(device))),
        ("gradients", Box::new(move || suite::gradients(device, CheckShare::Whole))),
        ("special", Box::new(move || suite::special_values(device, CheckShare::Whole))),
        ("faults", Box::new(move || suite::faults(device))),
        ("in-place", Box::new(move || suite::in_place(device))),
        ("cuts", Box::new(move || suite::cuts(device, CheckShare::Whole))),
        ("threads", Box::new(move || suite::threads(device))),
        ("fuzz", Box::new(move || suite::fuzzing(device, 200))),
    ];
    for (name, mode) in all {
        if !modes.is_empty() && !modes.iter().any(|m| m == name) {
            continue;
        }
        let t = std::time::Instant::now();
        let r = mode();
        for f in r.failures.iter().take(40) {
            println!("{f}");
        }
        for (f, why) in &r.unsupported {
            println!("unsupported: {f}: {why}");
        }
        println!("{name}: {} checks, {} failed, {} unsupported, {:.1} s", r.checks, r.failures.len(), r.unsupported.len(), t.elapsed().as_secs_f64());
        let mut seen = std::collections::BTreeMap::new();
        for f in e.findings() {
            if std::env::var_os("FULL").is_some() {
                println!("{f:?}");
            }
            *seen.entry(format!("{:?} {} {} {}", f.kind, f.kernel, f.line, f.instruction)).or_insert(0) += 1;
        }
        for (k, n) in seen.iter().take(20) {
            println!("  finding x{n}: {k}");
        }
        println!("{:?}", device.counters());
    }
}
