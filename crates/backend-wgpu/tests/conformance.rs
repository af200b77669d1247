//! The suite on this backend, where the machine has an adapter.
use adamant_backend_wgpu::WgpuBackend;
use adamant_core::{Device, ErrorKind};
use std::sync::OnceLock;

/// One device for all tests: windows of several threads meet on it.
fn device() -> Option<Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    *DEVICE.get_or_init(|| match WgpuBackend::open(0) {
        Ok(backend) => Some(Device::from_backend(Box::new(backend))),
        Err(ErrorKind::DeviceAbsent(why)) => {
            eprintln!("SKIPPED: {why}");
            None
        }
        Err(e) => panic!("{e:?}"),
    })
}
adamant_conformance::suite!(device, graphs = 150);
