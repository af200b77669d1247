//! The fuzzer on the plain loops: what CI runs of `cargo xtask fuzz-graphs`.
use adamant_conformance::{fuzz, plain};

#[test]
fn fused_cut_and_eager_agree_on_a_slice_of_random_graphs() {
    let device = plain::device(2048, usize::MAX);
    let report = fuzz::run(device, &fuzz::Options { n: 500, seed: 1, failures: 6, shrink: true });
    for f in report.failures.iter().take(6) {
        println!("{f}");
    }
    println!(
        "{} failures, {} graphs, {:.3} fused, {} ops, {} values, {} faulted, {} differentiated, {:?} cells",
        report.failures.len(),
        report.graphs,
        report.fused_share(),
        report.checked,
        report.compared,
        report.faulted,
        report.differentiated,
        report.coverage.filled()
    );
    assert!(report.failures.is_empty());
    assert!(report.fused_share() >= 0.6, "{}", report.fused_share());
}
