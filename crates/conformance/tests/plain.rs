//! The suite on the plain loops, and the gradients of host functions, which these do not run, on the reference.
use adamant_conformance::{plain, share::CheckShare, suite};
use adamant_core::Device;

adamant_conformance::suite!(|| plain::device(2048, usize::MAX));

#[test]
fn gradients_are_right_on_the_reference_too() {
    suite::gradients(Device::reference(), CheckShare::Whole).assert_complete();
}
#[test]
fn bad_data_leaves_cells_alone_on_the_reference_too() {
    suite::faults(Device::reference()).assert();
}
