//! A slice of `cargo xtask torture sharing`.
use adamant_conformance::{late, plain, torture::sharing};
use adamant_core::Device;

fn holds(device: Device, from: u64, n: usize) {
    let wrong = sharing::run(device, from, n);
    assert!(wrong.is_empty(), "{} of {n}: {:#?}", wrong.len(), &wrong[..wrong.len().min(3)]);
}
#[test]
fn threads_that_share_disagree_or_fail() {
    holds(plain::device(2048, usize::MAX), 0, 300);
    holds(plain::device(3, usize::MAX), 1000, 100);
}
#[test]
fn threads_that_share_disagree_on_the_reference() {
    holds(Device::reference(), 2000, 100);
}
#[test]
fn threads_that_share_forget_to_wait_for_a_device() {
    for seed in 0..3 {
        let options = late::Options { seed, in_place: Some(seed % 2 == 0) };
        holds(late::device(plain::backend(2048, usize::MAX), options), 3000 + 100 * seed, 40);
    }
}
