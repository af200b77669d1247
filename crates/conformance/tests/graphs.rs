//! Graphs on the reference and on the plain loops: text, evaluation and passes of every public function and of random programs.
use adamant_conformance::{graphs, plain};
use adamant_core::Device;

#[test]
fn a_function_that_is_lost_on_its_way_through_a_graph() {
    let report = graphs::registry(Device::reference());
    println!("{}", report.summary());
    report.assert();
    assert!(report.captured > 3000 && report.captured == report.read_back && report.read_back == report.evaluated, "{}", report.summary());
}
#[test]
fn a_random_program_that_a_graph_changes() {
    let report = graphs::random(plain::device(2048, usize::MAX), 300, 11);
    println!("{}", report.summary());
    report.assert();
    assert!(report.captured > 100 && report.captured == report.evaluated, "{}", report.summary());
}
#[test]
fn a_text_that_the_reader_panics_at() {
    let report = graphs::mutated(Device::reference(), 20_000, 5);
    println!("{} texts, {} graphs, errors {:?}", report.texts, report.graphs, report.errors);
    assert!(report.panics.is_empty(), "{} panics, the first at\n{}", report.panics.len(), report.panics[0]);
    assert!(report.errors.len() >= 3 && report.graphs > 0, "{:?}", report.errors);
}
