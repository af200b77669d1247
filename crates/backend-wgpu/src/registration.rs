//! How `"wgpu".parse::<Device>()` finds this backend. Nothing of wgpu is loaded before that.
// The distributed slice places its entries in a section of their own, which the compiler counts as unsafe.
#![allow(unsafe_code)]
use crate::WgpuBackend;
use adamant_runtime::{ErrorKind, backend::Backend};

fn open(number: usize) -> Result<Box<dyn Backend>, ErrorKind> {
    Ok(Box::new(WgpuBackend::open(number)?))
}
fn is_software_adapter(backend: &dyn Backend) -> bool {
    backend.downcast::<WgpuBackend>().is_some_and(WgpuBackend::is_software)
}
adamant_runtime::register_backend!(WGPU, "wgpu", 20, open, is_software_adapter);

/// Does nothing; a call keeps the linker from leaving this crate out.
pub fn link() {}
