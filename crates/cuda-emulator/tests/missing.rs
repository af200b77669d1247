//! An old driver and a machine without cuBLASLt: what is lacking is lacking by name, not by a crash.
#![allow(unsafe_code, reason = "the driver's functions are C's")]

use adamant_cuda_emulator::{Emulator, Options};

#[test]
fn functions_and_libraries_that_are_to_be_missing_are_missing() {
    let options = Options { missing: vec!["cuGraphUpload".into(), "cuMemMap".into()], cublaslt: false, nvml: false, ..Options::default() };
    let emulator = Emulator::install(options).unwrap();
    // SAFETY: the library is the emulator's.
    let library = unsafe { libloading::Library::new("libcuda.so.1") }.unwrap();
    // SAFETY: nothing is called.
    let has = |name: &str| unsafe { library.get::<*const std::ffi::c_void>(name.as_bytes()) }.is_ok();
    assert!(has("cuInit") && has("cuGraphLaunch") && !has("cuGraphUpload") && !has("cuMemMap"));
    assert!(emulator.functions().iter().all(|(name, _)| name.starts_with("cu") && !name.starts_with("cublas")));
    // SAFETY: nothing of the emulator's runs; a library of the machine's own, if there is one, is only opened.
    if let Ok(library) = unsafe { libloading::Library::new("libcublasLt.so.13") } {
        // SAFETY: nothing is called.
        assert!(unsafe { library.get::<*const std::ffi::c_void>(b"adamant_table") }.is_err(), "the emulator's was not asked for");
    }
    // SAFETY: the place is of this function.
    unsafe {
        assert_eq!(cudarc::driver::sys::cuInit(0) as u32, 0);
        let mut count = 0;
        assert_eq!(cudarc::driver::sys::cuDeviceGetCount(&mut count) as u32, 0);
        assert_eq!(count, 1);
    }
}
