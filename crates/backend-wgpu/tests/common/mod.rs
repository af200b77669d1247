//! What all tests of an adapter begin with.
use adamant_backend_wgpu::WgpuBackend;
use adamant_core::{Device, ErrorKind};
use std::io::Write;

/// The device of a backend. Where the machine has no adapter the test says so, and there is none.
pub fn device_of(backend: Result<WgpuBackend, ErrorKind>) -> Option<Device> {
    match backend {
        Ok(backend) => Some(Device::from_backend(Box::new(backend))),
        Err(ErrorKind::DeviceAbsent(why)) => {
            // Not by a macro, whose text a test that passes keeps to itself.
            let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
            None
        }
        Err(e) => panic!("{e:?}"),
    }
}
