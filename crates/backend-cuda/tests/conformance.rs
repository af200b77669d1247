//! The suite on this backend, with the emulator in a card's place. An interpreter runs every kernel, so these are a seeded share
//! of the checks: `cargo xtask conformance --device cuda --emulated` makes all of them.
mod common;

use adamant_core::Device;
use adamant_cuda_emulator::Options;
use std::sync::OnceLock;

/// One device for all tests: windows of several threads meet on it.
fn device() -> Option<Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    *DEVICE.get_or_init(|| common::device(Options::default()))
}
adamant_conformance::suite!(device, graphs = 10, one_of = 64);
