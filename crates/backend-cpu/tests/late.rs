//! A seeded share of the suite (`cargo xtask late` makes all checks) on a device that is late on purpose and has this backend's kernels: the bits are the same, whatever comes when. In
//! one test cells are written where they lie, in the other they get memory of their own.
use adamant_backend_cpu::CpuBackend;
use adamant_conformance::{
    fuzz,
    late::{self, Options},
    suite,
};
use adamant_core::Device;

fn device_of(seed: u64, in_place: bool) -> Device {
    let backend = CpuBackend::builder().threads(1).build().unwrap();
    late::device(Box::new(backend), Options { seed, in_place: Some(in_place) })
}
fn device() -> Device {
    device_of(1, true)
}
adamant_conformance::suite!(device, graphs = 150, one_of = 2);

#[test]
fn cells_with_memory_of_their_own() {
    let device = device_of(2, false);
    suite::faults(device).assert();
    suite::in_place(device).assert();
    let report = fuzz::run(device, &fuzz::Options { n: 100, seed: 7, failures: 3, shrink: true });
    assert!(report.failures.is_empty(), "{}", report.failures[0]);
}
