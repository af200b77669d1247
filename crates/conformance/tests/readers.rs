//! A slice of `cargo xtask torture readers`, and that its judge can fail. Nothing else writes cells in this process.
use adamant_conformance::{plain, torture::readers};
use adamant_core::Device;

#[test]
fn a_request_computes_with_two_versions() {
    for device in [plain::device(2048, usize::MAX), Device::reference()] {
        let seen = readers::run(device, 8, 1600, true).unwrap();
        assert!(seen.requests == 1600 && seen.mixed == 0 && seen.failed == 0 && seen.versions > 10, "{device}: {seen:?}");
    }
}
#[test]
fn the_judge_of_readers_overlooks_mixtures() {
    let seen = readers::run(plain::device(2048, usize::MAX), 2, 160, false).unwrap();
    assert!(seen.mixed > 0, "{seen:?}");
}
