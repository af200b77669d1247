//! Devices that must agree in every bit: of so many threads, and of each instruction set that the processor has.
#![allow(dead_code, reason = "each program of tests takes what it needs")]
use adamant_backend_cpu::{Context, CpuBackend, Isa};
use adamant_core::Device;
use std::ops::Range;

/// The devices with their names.
pub fn devices(threads: &[usize]) -> Vec<(String, Device)> {
    let of_threads = threads.iter().map(|&t| (format!("{t} threads"), CpuBackend::builder().threads(t)));
    let of_sets = Isa::ALL.into_iter().filter(|i| i.is_available()).map(|isa| (format!("{isa:?}"), CpuBackend::builder().threads(1).isa(isa)));
    of_threads.chain(of_sets).map(|(name, builder)| (name, Context::new(builder).unwrap().device())).collect()
}
/// Checks drawn cases by their seeds, on one device after the other.
pub fn in_turn(seeds: Range<u64>, check: impl Fn(&Device, &str, u64)) {
    let devices = devices(&[1, 3]);
    for (seed, (name, device)) in seeds.zip(devices.iter().cycle()) {
        check(device, name, seed);
    }
}
