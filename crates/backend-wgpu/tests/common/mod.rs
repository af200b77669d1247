//! What all tests of an adapter begin with.
use adamant_backend_wgpu::WgpuBackend;
use adamant_core::{Device, ErrorKind};

/// The device of a backend. Where the machine has no adapter the test says so, and there is none.
pub fn device_of(backend: Result<WgpuBackend, ErrorKind>) -> Option<Device> {
    match backend {
        Ok(backend) => Some(Device::from_backend(Box::new(backend))),
        Err(ErrorKind::DeviceAbsent(why)) => {
            eprintln!("SKIPPED: {why}");
            None
        }
        Err(e) => panic!("{e:?}"),
    }
}
