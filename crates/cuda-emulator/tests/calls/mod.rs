//! What the tests that call the driver share: one emulator for the process, one test at a time, calls that answer numbers.
#![allow(dead_code, reason = "each test program uses some of it")]
#![allow(unsafe_code, reason = "the driver's functions are C's")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "the driver's functions are unsafe by their kind, and the emulator looks everything up")]

use adamant_cuda_emulator::{Emulator, Options};
use cudarc::driver::sys;
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A fresh machine that no other test uses meanwhile.
pub struct Machine {
    pub emulator: &'static Emulator,
    pub context: sys::CUcontext,
    _alone: MutexGuard<'static, ()>,
}

/// A machine as asked for, initialised, its primary context current.
pub fn machine(options: Options) -> Machine {
    let machine = bare(options);
    // SAFETY: all places are of this function.
    unsafe {
        assert_eq!(number(sys::cuInit(0)), 0);
        let mut context = std::ptr::null_mut();
        assert_eq!(number(sys::cuDevicePrimaryCtxRetain(&mut context, 0)), 0);
        assert_eq!(number(sys::cuCtxSetCurrent(context)), 0);
        Machine { context, ..machine }
    }
}
/// A machine whose driver nobody has called.
pub fn bare(options: Options) -> Machine {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let emulator = Emulator::install(options.clone()).unwrap();
    emulator.reset(options).unwrap();
    Machine { emulator, context: std::ptr::null_mut(), _alone: alone }
}
pub fn options() -> Options {
    Options { memory: Some(64 << 20), ..Options::default() }
}
pub fn seeded(seed: u64) -> Options {
    Options { seed, ..options() }
}
/// An answer as a number.
pub fn number(result: sys::CUresult) -> u32 {
    result as u32
}
/// A call with its answer as a number.
#[macro_export]
macro_rules! cu {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the test's places outlive the call, and the emulator looks every handle up.
        unsafe { cudarc::driver::sys::$name($($argument),*) as u32 }
    }};
}
/// Device memory.
pub fn alloc(bytes: usize) -> u64 {
    let mut address = 0;
    assert_eq!(cu!(cuMemAlloc_v2(&mut address, bytes)), 0);
    address
}
/// Device memory that holds these values.
pub fn upload<T: Copy>(values: &[T]) -> u64 {
    let bytes = std::mem::size_of_val(values);
    let address = alloc(bytes);
    assert_eq!(cu!(cuMemcpyHtoD_v2(address, values.as_ptr().cast(), bytes)), 0);
    address
}
/// Values of device memory.
pub fn download<T: Copy + Default>(address: u64, count: usize) -> Vec<T> {
    let mut values = vec![T::default(); count];
    assert_eq!(cu!(cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), address, std::mem::size_of_val(values.as_slice()))), 0);
    values
}
/// A stream that is not ordered with the default one.
pub fn stream() -> sys::CUstream {
    let mut stream = std::ptr::null_mut();
    assert_eq!(cu!(cuStreamCreate(&mut stream, 1)), 0);
    stream
}
pub fn event() -> sys::CUevent {
    let mut event = std::ptr::null_mut();
    assert_eq!(cu!(cuEventCreate(&mut event, 0)), 0);
    event
}
/// Locked host memory of `count` values.
pub fn pinned<T: Copy>(values: &[T]) -> &'static mut [T] {
    let mut memory = std::ptr::null_mut();
    assert_eq!(cu!(cuMemHostAlloc(&mut memory, std::mem::size_of_val(values).max(1), 0)), 0);
    // SAFETY: it was just given, has that many bytes, and lives until the machine goes; every bit pattern is a value of T.
    let slice = unsafe { std::slice::from_raw_parts_mut(memory.cast::<T>(), values.len()) };
    slice.copy_from_slice(values);
    slice
}
/// A module's kernel.
pub fn kernel(text: &str, name: &str) -> sys::CUfunction {
    let text = CString::new(text).unwrap();
    let mut module = std::ptr::null_mut();
    assert_eq!(cu!(cuModuleLoadData(&mut module, text.as_ptr().cast())), 0);
    let name = CString::new(name).unwrap();
    let mut function = std::ptr::null_mut();
    assert_eq!(cu!(cuModuleGetFunction(&mut function, module, name.as_ptr())), 0);
    function
}
