//! How `"cpu".parse::<Device>()` finds this backend.
// The distributed slice places its entries in a section of their own, which the compiler counts as unsafe.
#![allow(unsafe_code)]
use crate::CpuBackend;
use adamant_runtime::{ErrorKind, backend::Backend};

fn open(number: usize) -> Result<Box<dyn Backend>, ErrorKind> {
    if number != 0 {
        return Err(ErrorKind::DeviceAbsent(format!("there is one CPU device, number 0, and no number {number}")));
    }
    Ok(Box::new(CpuBackend::builder().build()?))
}
adamant_runtime::register_backend!(CPU, "cpu", 10, open);

/// Does nothing; a call keeps the linker from leaving this crate out.
pub fn link() {}
