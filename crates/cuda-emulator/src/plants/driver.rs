//! Faults of who calls the driver and cuBLASLt, through the bindings that programs use.
#![allow(unsafe_code, reason = "the driver's functions are C's")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "the functions are unsafe by their kind, and the emulator looks everything up")]
use super::Caught::{self, Answered, Found};
use super::{PlantCompiler, PlantEnd};
use crate::machine::FindingKind::*;
use crate::{Emulator, Options};
use cudarc::{cublaslt::sys as lt, driver::sys};
use parking_lot::Mutex;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_GLOBAL as GLOBAL;

/// A fault of calls: what is wrong, how it must show, the calls, and whether they launch a kernel.
pub(super) type DriverPlant = (&'static str, Caught, fn(&DriverCalls<'_>) -> Result<(), String>, bool);

pub(super) const DRIVER_PLANTS: &[DriverPlant] = &[
    ("missing event between streams", Found(&[MissingEvent]), missing_event, false),
    ("missing edge in a graph", Found(&[MissingEvent]), missing_edge, false),
    ("missing event between kernels of two streams", Found(&[MissingEvent]), missing_event_of_kernels, true),
    ("missing event between two addresses of a page", Found(&[MissingEvent]), missing_event_of_addresses, false),
    ("staging reused before its copy ran", Found(&[StagingReused]), staging_reused, false),
    ("use after free", Found(&[UseAfterFree]), use_after_free, false),
    ("use after free by a kernel", Found(&[UseAfterFree]), kernel_after_free, true),
    ("double free", Found(&[UseAfterFree]), double_free, false),
    ("copy out of bounds", Found(&[OutOfBounds]), copy_out_of_bounds, false),
    ("unwritten memory read by the host", Found(&[HostReadUnwritten]), host_reads_unwritten, false),
    ("allocation while a stream captures", Answered("cuMemAlloc_v2", 900), allocation_while_capturing, false),
    ("waiting for a stream that captures", Answered("cuStreamSynchronize", 900), waiting_while_capturing, false),
    ("capture that was never joined", Answered("cuStreamEndCapture", 904), unjoined_capture, false),
    ("thread without a context", Answered("cuMemAlloc_v2", 201), thread_without_context, false),
    ("stale executable graph", Answered("cuGraphLaunch", 400), stale_graph, false),
    ("event of another context", Answered("cuEventRecord", 400), event_of_another_context, false),
    ("more threads than a kernel's bounds", Answered("cuLaunchKernel", 1), launch_beyond_bounds, true),
    ("shared memory beyond the limit", Answered("cuLaunchKernel", 1), shared_beyond_limit, true),
    ("leading dimension less than the rows", Answered("cublasLtMatmul", 7), wrong_leading_dimension, false),
];

/// One program's calls.
pub(super) struct DriverCalls<'c> {
    planted: bool,
    context: sys::CUcontext,
    compile: PlantCompiler<'c>,
    /// what did not succeed
    answers: Mutex<Vec<(&'static str, u32)>>,
    /// whether what came back is what was expected
    right: Mutex<bool>,
}
impl DriverCalls<'_> {
    fn note(&self, call: &'static str, code: u32) -> u32 {
        if code != 0 {
            self.answers.lock().push((call, code));
        }
        code
    }
    fn expect<T: PartialEq>(&self, got: T, wanted: T) {
        *self.right.lock() &= got == wanted;
    }
}
/// A call, whose answer is noted.
macro_rules! cu {
    ($calls:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the places outlive the call, and the emulator looks every handle and device address up.
        let code = unsafe { sys::$name($($argument),*) as u32 };
        $calls.note(stringify!($name), code)
    }};
}
/// As `cu`, of cuBLASLt.
macro_rules! lt {
    ($calls:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: as above.
        let code = unsafe { lt::$name($($argument),*) as u32 };
        $calls.note(stringify!($name), code)
    }};
}

/// Runs a program on a fresh machine with two cards.
///
/// # Errors
/// No emulator, no compiler.
pub(super) fn run(program: fn(&DriverCalls<'_>) -> Result<(), String>, compile: PlantCompiler<'_>, seed: u64, planted: bool) -> Result<PlantEnd, String> {
    let emulator = Emulator::installed().ok_or("no emulator is installed")?;
    let options = Options { seed, memory: Some(64 << 20), devices: 2, ..Options::default() };
    emulator.reset(options).map_err(|e| e.to_string())?;
    let mut calls = DriverCalls { planted, context: null_mut(), compile, answers: Mutex::default(), right: Mutex::new(true) };
    cu!(calls, cuInit(0));
    let mut context = null_mut();
    cu!(calls, cuDevicePrimaryCtxRetain(&mut context, 0));
    cu!(calls, cuCtxSetCurrent(context));
    calls.context = context;
    program(&calls)?;
    Ok(PlantEnd { findings: emulator.findings(), answers: calls.answers.into_inner(), right: calls.right.into_inner() })
}

impl DriverCalls<'_> {
    fn alloc(&self, bytes: usize) -> u64 {
        let mut address = 0;
        cu!(self, cuMemAlloc_v2(&mut address, bytes));
        address
    }
    fn upload<T: Copy>(&self, values: &[T]) -> u64 {
        let bytes = size_of_val(values);
        let address = self.alloc(bytes);
        cu!(self, cuMemcpyHtoD_v2(address, values.as_ptr().cast(), bytes));
        address
    }
    fn word(&self, address: u64) -> u32 {
        let mut word = 0_u32;
        cu!(self, cuMemcpyDtoH_v2((&raw mut word).cast(), address, 4));
        word
    }
    fn fill(&self, address: u64, word: u32, stream: sys::CUstream) {
        cu!(self, cuMemsetD32Async(address, word, 1, stream));
    }
    /// A stream that is not ordered with the default one.
    fn stream(&self) -> sys::CUstream {
        let mut stream = null_mut();
        cu!(self, cuStreamCreate(&mut stream, 1));
        stream
    }
    fn event(&self) -> sys::CUevent {
        let mut event = null_mut();
        cu!(self, cuEventCreate(&mut event, 0));
        event
    }
    /// What is put into `later` from now on comes after what is in `earlier`.
    fn order(&self, earlier: sys::CUstream, later: sys::CUstream) {
        let event = self.event();
        cu!(self, cuEventRecord(event, earlier));
        cu!(self, cuStreamWaitEvent(later, event, 0));
    }
    /// What a program puts into a stream, as a graph that can be launched.
    fn captured(&self, program: impl FnOnce(sys::CUstream)) -> sys::CUgraphExec {
        let (stream, mut graph, mut executable) = (self.stream(), null_mut(), null_mut());
        cu!(self, cuStreamBeginCapture_v2(stream, GLOBAL));
        program(stream);
        if cu!(self, cuStreamEndCapture(stream, &mut graph)) == 0 {
            cu!(self, cuGraphInstantiateWithFlags(&mut executable, graph, 0));
        }
        executable
    }
    fn kernel(&self, text: &str, name: &str) -> Result<sys::CUfunction, String> {
        let text = CString::new((self.compile)(text)?).map_err(|e| e.to_string())?;
        let name = CString::new(name).map_err(|e| e.to_string())?;
        let (mut module, mut function) = (null_mut(), null_mut());
        cu!(self, cuModuleLoadData(&mut module, text.as_ptr().cast()));
        cu!(self, cuModuleGetFunction(&mut function, module, name.as_ptr()));
        Ok(function)
    }
    fn launch(&self, function: sys::CUfunction, threads: u32, shared: u32, stream: sys::CUstream, arguments: &[u64]) {
        let mut places: Vec<*mut c_void> = arguments.iter().map(|a| std::ptr::from_ref(a).cast_mut().cast()).collect();
        cu!(self, cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, shared, stream, places.as_mut_ptr(), null_mut()));
    }
}
fn missing_event(c: &DriverCalls<'_>) -> Result<(), String> {
    let (a, s, t) = (c.alloc(4), c.stream(), c.stream());
    c.fill(a, 1, s);
    if !c.planted {
        c.order(s, t);
    }
    c.fill(a, 2, t);
    cu!(c, cuCtxSynchronize());
    c.expect(c.word(a), 2);
    Ok(())
}
fn missing_event_of_addresses(c: &DriverCalls<'_>) -> Result<(), String> {
    const PAGE: usize = 2 << 20;
    let (s, t) = (c.stream(), c.stream());
    let location = sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: 0 };
    // SAFETY: zeros are a value of all its parts.
    let mut properties: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = location;
    let access = sys::CUmemAccessDesc { location, flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    let (mut start, mut page) = (0, 0);
    cu!(c, cuMemAddressReserve(&mut start, 2 * PAGE, 0, 0, 0));
    cu!(c, cuMemCreate(&mut page, PAGE, &properties, 0));
    let addresses = [start, start + PAGE as u64];
    for address in addresses {
        cu!(c, cuMemMap(address, PAGE, 0, page, 0));
    }
    cu!(c, cuMemSetAccess(start, 2 * PAGE, &access, 1));
    c.fill(addresses[0], 1, s);
    if !c.planted {
        c.order(s, t);
    }
    c.fill(addresses[1], 2, t);
    cu!(c, cuCtxSynchronize());
    c.expect(c.word(addresses[0]), 2);
    Ok(())
}
fn missing_edge(c: &DriverCalls<'_>) -> Result<(), String> {
    let (a, t) = (c.alloc(4), c.stream());
    let graph = c.captured(|s| {
        if !c.planted {
            c.fill(a, 1, s);
        }
        c.order(s, t);
        if c.planted {
            c.fill(a, 1, s);
        }
        c.fill(a, 2, t);
        c.order(t, s);
    });
    cu!(c, cuGraphLaunch(graph, null_mut()));
    c.expect(c.word(a), 2);
    Ok(())
}
const ADD: &str = r#"extern "C" __global__ void add(float* to, const float* from) { to[threadIdx.x] = from[threadIdx.x] + 1.0f; }"#;
fn missing_event_of_kernels(c: &DriverCalls<'_>) -> Result<(), String> {
    let function = c.kernel(ADD, "add")?;
    let (a, b, d) = (c.upload(&[1.0_f32; 32]), c.upload(&[0.0_f32; 32]), c.upload(&[0.0_f32; 32]));
    cu!(c, cuCtxSynchronize());
    let (s, t) = (c.stream(), c.stream());
    c.launch(function, 32, 0, s, &[b, a]);
    if !c.planted {
        c.order(s, t);
    }
    c.launch(function, 32, 0, t, &[d, b]);
    cu!(c, cuCtxSynchronize());
    c.expect(c.word(d), 3.0_f32.to_bits());
    Ok(())
}
fn staging_reused(c: &DriverCalls<'_>) -> Result<(), String> {
    let (a, s) = (c.alloc(4), c.stream());
    let mut staging = null_mut();
    cu!(c, cuMemHostAlloc(&mut staging, 4, 0));
    let write = |word: u32| {
        // SAFETY: it has four bytes, and lives until the machine goes.
        unsafe { staging.cast::<u32>().write(word) }
    };
    write(1);
    cu!(c, cuMemcpyHtoDAsync_v2(a, staging, 4, s));
    if !c.planted {
        cu!(c, cuStreamSynchronize(s));
    }
    write(2);
    cu!(c, cuStreamSynchronize(s));
    c.expect(c.word(a), 1);
    Ok(())
}
fn use_after_free(c: &DriverCalls<'_>) -> Result<(), String> {
    let a = c.upload(&[1_u32]);
    if c.planted {
        cu!(c, cuMemFree_v2(a));
    }
    c.expect(c.word(a), 1);
    Ok(())
}
fn kernel_after_free(c: &DriverCalls<'_>) -> Result<(), String> {
    let function = c.kernel(ADD, "add")?;
    let (a, b) = (c.upload(&[1.0_f32; 32]), c.upload(&[0.0_f32; 32]));
    if c.planted {
        cu!(c, cuMemFree_v2(a));
    }
    c.launch(function, 32, 0, null_mut(), &[b, a]);
    cu!(c, cuCtxSynchronize());
    c.expect(c.word(b), 2.0_f32.to_bits());
    Ok(())
}
fn double_free(c: &DriverCalls<'_>) -> Result<(), String> {
    let a = c.alloc(16);
    for _ in 0..1 + u32::from(c.planted) {
        cu!(c, cuMemFree_v2(a));
    }
    Ok(())
}
fn copy_out_of_bounds(c: &DriverCalls<'_>) -> Result<(), String> {
    let (a, b) = (c.upload(&[1_u8; 17]), c.alloc(16));
    cu!(c, cuMemcpyDtoD_v2(b, a, 16 + usize::from(c.planted)));
    Ok(())
}
fn host_reads_unwritten(c: &DriverCalls<'_>) -> Result<(), String> {
    let a = c.alloc(4);
    if !c.planted {
        c.fill(a, 7, null_mut());
    }
    c.expect(c.word(a), 7);
    Ok(())
}
fn allocation_while_capturing(c: &DriverCalls<'_>) -> Result<(), String> {
    let a = c.alloc(4);
    c.captured(|s| {
        if c.planted {
            c.alloc(4);
        }
        c.fill(a, 1, s);
    });
    Ok(())
}
fn waiting_while_capturing(c: &DriverCalls<'_>) -> Result<(), String> {
    let a = c.alloc(4);
    c.captured(|s| {
        c.fill(a, 1, s);
        if c.planted {
            cu!(c, cuStreamSynchronize(s));
        }
    });
    Ok(())
}
fn unjoined_capture(c: &DriverCalls<'_>) -> Result<(), String> {
    let (a, t) = (c.alloc(4), c.stream());
    c.captured(|s| {
        c.order(s, t);
        c.fill(a, 1, t);
        if !c.planted {
            c.order(t, s);
        }
    });
    Ok(())
}
fn thread_without_context(c: &DriverCalls<'_>) -> Result<(), String> {
    let context = c.context as usize;
    let (planted, mut code) = (c.planted, 0);
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            let mut address = 0;
            // SAFETY: the place outlives the call, and the emulator looks the handle up.
            unsafe {
                if !planted {
                    sys::cuCtxSetCurrent(context as sys::CUcontext);
                }
                sys::cuMemAlloc_v2(&mut address, 16) as u32
            }
        });
        code = other.join().unwrap_or(u32::MAX);
    });
    c.note("cuMemAlloc_v2", code);
    Ok(())
}
fn stale_graph(c: &DriverCalls<'_>) -> Result<(), String> {
    let a = c.upload(&[0_u32]);
    let (graph, s) = (c.captured(|s| c.fill(a, 1, s)), c.stream());
    if c.planted {
        cu!(c, cuGraphExecDestroy(graph));
    }
    cu!(c, cuGraphLaunch(graph, s));
    cu!(c, cuStreamSynchronize(s));
    c.expect(c.word(a), 1);
    Ok(())
}
fn event_of_another_context(c: &DriverCalls<'_>) -> Result<(), String> {
    let s = c.stream();
    let mut event = c.event();
    if c.planted {
        let mut other = null_mut();
        cu!(c, cuDevicePrimaryCtxRetain(&mut other, 1));
        cu!(c, cuCtxSetCurrent(other));
        event = c.event();
        cu!(c, cuCtxSetCurrent(c.context));
    }
    cu!(c, cuEventRecord(event, s));
    Ok(())
}
const NARROW: &str = r#"extern "C" __global__ void __launch_bounds__(64) narrow(float* to) { to[threadIdx.x] = threadIdx.x; }"#;
fn launch_beyond_bounds(c: &DriverCalls<'_>) -> Result<(), String> {
    let (function, a) = (c.kernel(NARROW, "narrow")?, c.alloc(512));
    c.launch(function, 64 + u32::from(c.planted), 0, null_mut(), &[a]);
    cu!(c, cuCtxSynchronize());
    Ok(())
}
fn shared_beyond_limit(c: &DriverCalls<'_>) -> Result<(), String> {
    let (function, a) = (c.kernel(NARROW, "narrow")?, c.alloc(512));
    // 48 KiB need not be asked for.
    c.launch(function, 64, (48 << 10) + u32::from(c.planted), null_mut(), &[a]);
    cu!(c, cuCtxSynchronize());
    Ok(())
}
fn wrong_leading_dimension(c: &DriverCalls<'_>) -> Result<(), String> {
    const SIDE: u64 = 8;
    let (float, compute) = (lt::cudaDataType_t::CUDA_R_32F, lt::cublasComputeType_t::CUBLAS_COMPUTE_32F);
    let matrix = |value: f32| c.upload(&vec![value; (SIDE * SIDE) as usize]);
    let (a, b, d) = (matrix(0.5), matrix(2.0), matrix(0.0));
    let (mut handle, mut product) = (null_mut(), null_mut());
    lt!(c, cublasLtCreate(&mut handle));
    lt!(c, cublasLtMatmulDescCreate(&mut product, compute, float));
    let layout = |leading: u64| {
        let mut layout = null_mut();
        lt!(c, cublasLtMatrixLayoutCreate(&mut layout, float, SIDE, SIDE, leading as i64));
        layout
    };
    let (first, other) = (layout(SIDE - u64::from(c.planted)), layout(SIDE));
    let (one, zero) = (1.0_f32, 0.0_f32);
    let (one, zero): (*const c_void, *const c_void) = ((&raw const one).cast(), (&raw const zero).cast());
    let stream = null_mut();
    let (a, b, d) = (a as *const c_void, b as *const c_void, d as *mut c_void);
    lt!(c, cublasLtMatmul(handle, product, one, a, first, b, other, zero, d.cast_const(), other, d, other, null(), null_mut(), 0, stream));
    cu!(c, cuCtxSynchronize());
    c.expect(c.word(d as u64), 8.0_f32.to_bits());
    Ok(())
}
