//! What all tests of a card begin with: the emulator in its place.
#![allow(dead_code, reason = "each test file uses a part")]
pub mod fast;
pub mod lengths;
pub mod multiplied;

use adamant_backend_cuda::{CudaBackend, CudaBuilder, CudaMemoryPool};
use adamant_core::{Device, ErrorKind};
use adamant_cuda_emulator::{Emulator, Options};
use std::io::Write;

/// The emulator of this process. Where it cannot be had the test says so, and there is none.
pub fn emulator(options: Options) -> Option<&'static Emulator> {
    match Emulator::install(options) {
        Ok(emulator) => Some(emulator),
        Err(e) => {
            skipped(&e.to_string());
            None
        }
    }
}
/// A device on the emulator, each of whose tensors has memory of its own, so that accesses beyond it are seen. Where the compiler is
/// not installed the test says so, and there is none.
pub fn device(options: Options) -> Option<Device> {
    opened(options, |builder| builder.memory_pool(CudaMemoryPool::Off))
}
/// As [`device`], opened with options of its own.
pub fn opened(options: Options, with: impl FnOnce(CudaBuilder) -> CudaBuilder) -> Option<Device> {
    emulator(options)?;
    match with(CudaBackend::builder().cache(None).self_test(false)).build() {
        Ok(backend) => Some(Device::from_backend(Box::new(backend))),
        Err(ErrorKind::DeviceAbsent(why)) => {
            skipped(&why);
            None
        }
        Err(e) => panic!("{e:?}"),
    }
}
/// The backend of a device.
pub fn backend(device: Device) -> &'static CudaBackend {
    device.backend().downcast().unwrap()
}
/// Not by a macro, whose text a test that passes keeps to itself.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}
