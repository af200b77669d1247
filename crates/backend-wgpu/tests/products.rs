//! Products and convolutions that store through their epilogues: the bits of their ops one by one, or within the table of what
//! the reference gives. Where the machine
//! has no adapter the test says so and checks nothing else.
mod common;

use adamant_backend_wgpu::WgpuBackend;
use adamant_conformance::products;
use common::device_of;

#[test]
fn a_slice_of_random_products() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    let report = products::run(device, 24, 5, 3);
    for failure in &report.failures {
        println!("{failure}");
    }
    println!("{} cases, {} with ends, {} fused, {} skipped", report.cases, report.with_ends, report.fused, report.skipped);
    assert!(report.failures.is_empty());
    // Operands' programs are kernels of their own here.
    assert!(report.fused * 10 >= report.with_ends * 3, "{} of {} fused", report.fused, report.with_ends);
}
