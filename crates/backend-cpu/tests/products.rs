//! Products with ends on every instruction set of this machine: fused = op by op, bit for bit.
use adamant_backend_cpu::{Context, CpuBackend, isa::Isa};
use adamant_conformance::products;

fn check(isa: Isa, threads: usize, n: usize, seed: u64) {
    let device = Context::new(CpuBackend::builder().threads(threads).isa(isa)).unwrap().device();
    let report = products::run(device, n, seed, 3);
    for failure in &report.failures {
        println!("{failure}");
    }
    println!("{isa:?}: {} cases, {} with ends, {} fused, {} of integers", report.cases, report.with_ends, report.fused, report.integers);
    assert!(report.failures.is_empty());
    assert!(report.fused * 10 >= report.with_ends * 6, "{} of {} fused", report.fused, report.with_ends);
}
#[test]
fn a_slice_of_random_products_fused_and_apart() {
    for (k, isa) in [Isa::Scalar, Isa::Avx2, Isa::Avx512].into_iter().filter(|isa| isa.is_available()).enumerate() {
        check(isa, 1 + k % 2, 1500, 3 + k as u64);
    }
}
