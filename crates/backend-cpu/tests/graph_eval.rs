//! Graphs on this backend: what is captured, written, read back, folded and evaluated has the bits of the function itself.
#![allow(clippy::unwrap_used)]
use adamant_backend_cpu as _;
use adamant_conformance::graphs;
use adamant_core::Device;

#[test]
fn a_function_that_is_lost_on_its_way_through_a_graph() {
    let report = graphs::registry(Device::cpu().unwrap());
    println!("{}", report.summary());
    report.assert();
    assert!(report.captured > 3000 && report.captured == report.evaluated, "{}", report.summary());
}
#[test]
fn a_random_program_that_a_graph_changes() {
    let report = graphs::random(Device::cpu().unwrap(), 300, 23);
    println!("{}", report.summary());
    report.assert();
    assert!(report.captured > 100 && report.captured == report.evaluated, "{}", report.summary());
}
