//! Random graphs on this backend: fused, cut into short windows and eager give the same bits, and each op is within
//! its tolerance of the reference.
#![allow(clippy::unwrap_used)]
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_conformance::fuzz;

#[test]
fn fused_cut_and_eager_agree_on_random_graphs() {
    for threads in [1, 2] {
        let device = Context::new(CpuBackend::builder().threads(threads)).unwrap().device();
        let report = fuzz::run(device, &fuzz::Options { n: 150, seed: threads as u64, failures: 4, shrink: true });
        for f in &report.failures {
            println!("{f}");
        }
        println!("{} graphs, {} ops, {} values, {} faulted", report.graphs, report.checked, report.compared, report.faulted);
        assert!(report.failures.is_empty());
    }
}
