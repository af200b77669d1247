//! What all tests of a card begin with: the emulator in its place.
#![allow(dead_code, reason = "each test file uses a part")]
pub mod multiplied;

use adamant_backend_cuda::CudaBackend;
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
/// A device on the emulator. Where the compiler is not installed the test says so, and there is none.
pub fn device(options: Options) -> Option<Device> {
    emulator(options)?;
    match CudaBackend::builder().cache(None).build() {
        Ok(backend) => Some(Device::from_backend(Box::new(backend))),
        Err(ErrorKind::DeviceAbsent(why)) => {
            skipped(&why);
            None
        }
        Err(e) => panic!("{e:?}"),
    }
}
/// Not by a macro, whose text a test that passes keeps to itself.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}
