//! How `"cuda".parse::<Device>()` finds this backend. Nothing of CUDA is loaded before that.
// The distributed slice places its entries in a section of their own, which the compiler counts as unsafe.
#![allow(unsafe_code)]
use crate::CudaBackend;
use adamant_runtime::{ErrorKind, backend::Backend};

fn open(number: usize) -> Result<Box<dyn Backend>, ErrorKind> {
    Ok(Box::new(CudaBackend::builder().device(number).build()?))
}
adamant_runtime::register_backend!(CUDA, "cuda", 30, open);

/// Does nothing; a call keeps the linker from leaving this crate out.
pub fn link() {}
