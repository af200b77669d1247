//! The suite on this backend, where the machine has an adapter. Software that plays a GPU compiles every kernel for long, so
//! these are a seeded share of the checks: `cargo xtask conformance --device wgpu` makes all of them.
mod common;

use adamant_backend_wgpu::WgpuBackend;
use adamant_core::Device;
use common::device_of;
use std::sync::OnceLock;

/// One device for all tests: windows of several threads meet on it.
fn device() -> Option<Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    *DEVICE.get_or_init(|| device_of(WgpuBackend::open_with_cache(0, None)))
}
adamant_conformance::suite!(device, graphs = 60, one_of = 4);
