//! Products with ends on the plain loops, and that the judge sees what a backend could get wrong about them.
use adamant_conformance::{
    plain::{self, EndFault},
    products,
};

#[test]
fn a_slice_of_products_on_the_loops_that_are_their_reference() {
    let report = products::run(plain::with_ends(None), 400, 7, 3);
    for failure in &report.failures {
        println!("{failure}");
    }
    println!("{} cases, {} with ends, {} fused, {} of integers", report.cases, report.with_ends, report.fused, report.integers);
    assert!(report.failures.is_empty());
    assert!(report.fused * 10 >= report.with_ends * 6, "{} of {} fused", report.fused, report.with_ends);
    assert!(report.integers > 0);
}
#[test]
fn what_a_backend_does_not_claim_is_left_apart() {
    let report = products::run(plain::device(2048, usize::MAX), 100, 7, 3);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
}
#[test]
fn each_planted_fault_is_found() {
    for fault in EndFault::ALL {
        let report = products::run(plain::with_ends(Some(fault)), 2000, 11, 1);
        assert!(!report.failures.is_empty(), "{fault:?} was not found in {} cases", report.cases);
        println!("{fault:?}: found at case {}", report.cases);
    }
}
