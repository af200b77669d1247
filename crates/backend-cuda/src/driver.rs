//! The driver's calls that this backend makes, each with its outcome as a `Result`. Calls that want a context are given one
//! first: a context is current on a thread, and a device is called from any.
//!
//! What is handed about here are handles: numbers that the driver looks up. They are sent between threads freely, which the
//! driver's interface promises to bear.
#![allow(unsafe_code)]
use adamant_kernels::CUDA_WORDS;
use adamant_runtime::ErrorKind;
use cudarc::driver::sys::{self, CUresult};
use std::{ffi::CString, fmt, mem::MaybeUninit, ptr};

/// A call that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriverError {
    pub code: CUresult,
    pub call: &'static str,
}
impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} says {:?} ({})", self.call, self.code, self.code as u32)
    }
}
impl DriverError {
    /// Is nothing of the device to be had any more?
    pub fn is_loss(&self) -> bool {
        // Errors that stay with a context, a card that is not there or that no longer corrects its memory.
        matches!(self.code as u32, 4 | 46 | 201 | 202 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 999)
    }
    /// As one of ours.
    pub fn kind(&self) -> ErrorKind {
        match self.code as u32 {
            2 => ErrorKind::OutOfMemory { asked: 0, in_use: 0, cap: None },
            _ if self.is_loss() => ErrorKind::DeviceLost(self.to_string()),
            _ => ErrorKind::Internal(self.to_string()),
        }
    }
}
pub(crate) type Told<T> = Result<T, DriverError>;
fn told(call: &'static str, code: CUresult) -> Told<()> {
    if code == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(DriverError { code, call }) }
}
/// A value that a call writes.
fn made<T>(call: &'static str, f: impl FnOnce(*mut T) -> CUresult) -> Told<T> {
    let mut value = MaybeUninit::uninit();
    told(call, f(value.as_mut_ptr()))?;
    // SAFETY: a call that succeeds has written what it was asked for.
    Ok(unsafe { value.assume_init() })
}
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident($raw:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) struct $name(pub $raw);
        // SAFETY: a handle is a name that the driver looks up; its calls may come from any thread.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )*};
}
handles! {
    /// a context
    ContextHandle(sys::CUcontext);
    /// a stream
    StreamHandle(sys::CUstream);
    /// an event
    EventHandle(sys::CUevent);
    /// a module
    ModuleHandle(sys::CUmodule);
    /// a kernel of a module
    FunctionHandle(sys::CUfunction);
    /// a graph that can be launched
    GraphHandle(sys::CUgraphExec);
}
/// Bytes of the host that the device reads and writes by itself.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub start: *mut u8,
    pub bytes: usize,
}
// SAFETY: it is memory that one owner hands on.
unsafe impl Send for Pinned {}
// SAFETY: it is written through `&mut` alone, and by the device while no reference is held.
unsafe impl Sync for Pinned {}

/// Must come before every other call.
pub(crate) fn init() -> Told<()> {
    // SAFETY: takes no pointer.
    told("cuInit", unsafe { sys::cuInit(0) })
}
pub(crate) fn version() -> Told<i32> {
    // SAFETY: writes where it is told to.
    made("cuDriverGetVersion", |v| unsafe { sys::cuDriverGetVersion(v) })
}
pub(crate) fn device_count() -> Told<i32> {
    // SAFETY: writes where it is told to.
    made("cuDeviceGetCount", |n| unsafe { sys::cuDeviceGetCount(n) })
}
pub(crate) fn device(number: i32) -> Told<sys::CUdevice> {
    // SAFETY: writes where it is told to.
    made("cuDeviceGet", |d| unsafe { sys::cuDeviceGet(d, number) })
}
pub(crate) fn device_name(device: sys::CUdevice) -> Told<String> {
    let mut name = [0u8; 256];
    // SAFETY: at most so many bytes are written, the last of them zero.
    told("cuDeviceGetName", unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as i32, device) })?;
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}
/// What tells this card from all others.
pub(crate) fn device_id(device: sys::CUdevice) -> Told<[u8; 16]> {
    // SAFETY: writes where it is told to.
    made("cuDeviceGetUuid_v2", |id| unsafe { sys::cuDeviceGetUuid_v2(id, device) }).map(|id: sys::CUuuid| id.bytes.map(|b| b as u8))
}
pub(crate) fn device_memory(device: sys::CUdevice) -> Told<usize> {
    // SAFETY: writes where it is told to.
    made("cuDeviceTotalMem_v2", |n| unsafe { sys::cuDeviceTotalMem_v2(n, device) })
}
pub(crate) fn attribute(device: sys::CUdevice, which: sys::CUdevice_attribute) -> Told<i32> {
    // SAFETY: writes where it is told to.
    made("cuDeviceGetAttribute", |v| unsafe { sys::cuDeviceGetAttribute(v, which, device) })
}
/// The device's own context, which other libraries of the program share.
pub(crate) fn retain_context(device: sys::CUdevice) -> Told<ContextHandle> {
    // SAFETY: writes where it is told to.
    made("cuDevicePrimaryCtxRetain", |c| unsafe { sys::cuDevicePrimaryCtxRetain(c, device) }).map(ContextHandle)
}
pub(crate) fn release_context(device: sys::CUdevice) -> Told<()> {
    // SAFETY: takes no pointer.
    told("cuDevicePrimaryCtxRelease_v2", unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) })
}
/// Ends the context with all that is in it.
pub(crate) fn reset_context(device: sys::CUdevice) -> Told<()> {
    // SAFETY: takes no pointer.
    told("cuDevicePrimaryCtxReset_v2", unsafe { sys::cuDevicePrimaryCtxReset_v2(device) })
}
/// Makes a context the current one of this thread.
pub(crate) fn bind(context: ContextHandle) -> Told<()> {
    // SAFETY: a handle that the driver gave.
    told("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context.0) })
}
/// Free and whole memory of the current context's device, in bytes.
pub(crate) fn memory_info() -> Told<(usize, usize)> {
    let mut free = 0;
    // SAFETY: both are written.
    let total = made("cuMemGetInfo_v2", |total| unsafe { sys::cuMemGetInfo_v2(&mut free, total) })?;
    Ok((free, total))
}
pub(crate) fn allocate(bytes: usize) -> Told<u64> {
    // SAFETY: writes where it is told to.
    made("cuMemAlloc_v2", |a| unsafe { sys::cuMemAlloc_v2(a, bytes) })
}
pub(crate) fn free(address: u64) -> Told<()> {
    // SAFETY: an address is a name to the host.
    told("cuMemFree_v2", unsafe { sys::cuMemFree_v2(address) })
}
/// Memory of a card, pinned there, readable and writable by it.
fn on_card(device: sys::CUdevice) -> sys::CUmemLocation {
    sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device }
}
/// A page of memory without an address.
pub(crate) fn create_page(device: sys::CUdevice, bytes: u64) -> Told<u64> {
    let properties = sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: on_card(device),
        win32HandleMetaData: ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 { compressionType: 0, gpuDirectRDMACapable: 0, usage: 0, reserved: [0; 4] },
    };
    // SAFETY: it reads the properties and writes where it is told to.
    made("cuMemCreate", |page| unsafe { sys::cuMemCreate(page, bytes as usize, &properties, 0) })
}
pub(crate) fn release_page(page: u64) -> Told<()> {
    // SAFETY: a handle is a name to the host.
    told("cuMemRelease", unsafe { sys::cuMemRelease(page) })
}
/// Addresses with nothing behind them.
pub(crate) fn reserve_addresses(bytes: u64) -> Told<u64> {
    // SAFETY: writes where it is told to.
    made("cuMemAddressReserve", |a| unsafe { sys::cuMemAddressReserve(a, bytes as usize, 0, 0, 0) })
}
pub(crate) fn give_addresses_back(address: u64, bytes: u64) -> Told<()> {
    // SAFETY: an address is a name to the host.
    told("cuMemAddressFree", unsafe { sys::cuMemAddressFree(address, bytes as usize) })
}
pub(crate) fn map_page(address: u64, bytes: u64, page: u64) -> Told<()> {
    // SAFETY: names of the device's to the host.
    told("cuMemMap", unsafe { sys::cuMemMap(address, bytes as usize, 0, page, 0) })
}
pub(crate) fn unmap_page(address: u64, bytes: u64) -> Told<()> {
    // SAFETY: an address is a name to the host.
    told("cuMemUnmap", unsafe { sys::cuMemUnmap(address, bytes as usize) })
}
/// The card may read and write what is mapped there.
pub(crate) fn allow_access(device: sys::CUdevice, address: u64, bytes: u64) -> Told<()> {
    let access = sys::CUmemAccessDesc { location: on_card(device), flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    // SAFETY: it reads one description.
    told("cuMemSetAccess", unsafe { sys::cuMemSetAccess(address, bytes as usize, &access, 1) })
}
pub(crate) fn pin(bytes: usize) -> Told<Pinned> {
    // SAFETY: writes where it is told to.
    let start = made("cuMemHostAlloc", |p| unsafe { sys::cuMemHostAlloc(p, bytes, 0) })?;
    Ok(Pinned { start: start.cast(), bytes })
}
pub(crate) fn unpin(memory: &Pinned) -> Told<()> {
    // SAFETY: it was given by `cuMemHostAlloc`, and its owner gives it up.
    told("cuMemFreeHost", unsafe { sys::cuMemFreeHost(memory.start.cast()) })
}
/// A stream that waits for no other by itself.
pub(crate) fn stream() -> Told<StreamHandle> {
    let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: writes where it is told to.
    made("cuStreamCreate", |s| unsafe { sys::cuStreamCreate(s, flags) }).map(StreamHandle)
}
pub(crate) fn destroy_stream(stream: StreamHandle) -> Told<()> {
    // SAFETY: its owner gives it up.
    told("cuStreamDestroy_v2", unsafe { sys::cuStreamDestroy_v2(stream.0) })
}
pub(crate) fn synchronize(stream: StreamHandle) -> Told<()> {
    // SAFETY: a handle that the driver gave.
    told("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream.0) })
}
/// The stream goes on behind the event.
pub(crate) fn wait_for(stream: StreamHandle, event: EventHandle) -> Told<()> {
    // SAFETY: handles that the driver gave.
    told("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(stream.0, event.0, 0) })
}
pub(crate) fn event(is_timed: bool) -> Told<EventHandle> {
    let flags = if is_timed { sys::CUevent_flags::CU_EVENT_DEFAULT } else { sys::CUevent_flags::CU_EVENT_DISABLE_TIMING };
    // SAFETY: writes where it is told to.
    made("cuEventCreate", |e| unsafe { sys::cuEventCreate(e, flags as u32) }).map(EventHandle)
}
pub(crate) fn destroy_event(event: EventHandle) -> Told<()> {
    // SAFETY: its owner gives it up.
    told("cuEventDestroy_v2", unsafe { sys::cuEventDestroy_v2(event.0) })
}
pub(crate) fn record(event: EventHandle, stream: StreamHandle) -> Told<()> {
    // SAFETY: handles that the driver gave.
    told("cuEventRecord", unsafe { sys::cuEventRecord(event.0, stream.0) })
}
pub(crate) fn has_passed(event: EventHandle) -> Told<bool> {
    // SAFETY: a handle that the driver gave.
    match unsafe { sys::cuEventQuery(event.0) } {
        CUresult::CUDA_ERROR_NOT_READY => Ok(false),
        code => told("cuEventQuery", code).map(|()| true),
    }
}
pub(crate) fn wait_until(event: EventHandle) -> Told<()> {
    // SAFETY: a handle that the driver gave.
    told("cuEventSynchronize", unsafe { sys::cuEventSynchronize(event.0) })
}
/// Milliseconds between two events that have passed.
pub(crate) fn between(begin: EventHandle, end: EventHandle) -> Told<f32> {
    // SAFETY: handles that the driver gave; it writes where it is told to.
    made("cuEventElapsedTime_v2", |ms| unsafe { sys::cuEventElapsedTime_v2(ms, begin.0, end.0) })
}
/// Loads a compiled image: machine code, or PTX that a zero ends.
pub(crate) fn load(image: &[u8]) -> Told<ModuleHandle> {
    // SAFETY: the image says how long it is, or a zero ends it: `compiler` sees to both.
    made("cuModuleLoadData", |m| unsafe { sys::cuModuleLoadData(m, image.as_ptr().cast()) }).map(ModuleHandle)
}
pub(crate) fn unload(module: ModuleHandle) -> Told<()> {
    // SAFETY: its owner gives it up.
    told("cuModuleUnload", unsafe { sys::cuModuleUnload(module.0) })
}
pub(crate) fn function(module: ModuleHandle, name: &str) -> Told<FunctionHandle> {
    let call = "cuModuleGetFunction";
    let Ok(name) = CString::new(name) else { return Err(DriverError { code: CUresult::CUDA_ERROR_NOT_FOUND, call }) };
    // SAFETY: a zero ends the name; it writes where it is told to.
    made(call, |f| unsafe { sys::cuModuleGetFunction(f, module.0, name.as_ptr()) }).map(FunctionHandle)
}
/// The words of a launch, as kernels take them (`adm_words`): where they lie, or, with 0 there, themselves.
#[repr(C)]
pub(crate) struct GivenWords {
    pub at: u64,
    pub held: [u32; CUDA_WORDS],
}
/// A launch of blocks along x, with words and arguments of 8 bytes each.
pub(crate) fn launch(function: FunctionHandle, blocks: u32, threads: u32, stream: StreamHandle, words: &GivenWords, arguments: &[u64]) -> Told<()> {
    let mut pointers: smallvec::SmallVec<[*mut std::ffi::c_void; 16]> = smallvec::smallvec![ptr::from_ref(words).cast_mut().cast()];
    pointers.extend(arguments.iter().map(|a| ptr::from_ref(a).cast_mut().cast()));
    // SAFETY: as many arguments as the kernel has parameters, of their size: `launch` writes them as the text has them. The
    // driver copies them before it returns.
    told("cuLaunchKernel", unsafe { sys::cuLaunchKernel(function.0, blocks, 1, 1, threads, 1, 1, 0, stream.0, pointers.as_mut_ptr(), ptr::null_mut()) })
}
/// Copies to the device from pinned memory, when the stream comes to it.
pub(crate) fn to_device(to: u64, from: &Pinned, bytes: usize, stream: StreamHandle) -> Told<()> {
    // SAFETY: so many bytes are pinned, and nobody writes to them until the copy has run: `staging` sees to it.
    told("cuMemcpyHtoDAsync_v2", unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.start.cast(), bytes.min(from.bytes), stream.0) })
}
/// Copies to pinned memory from the device, when the stream comes to it.
pub(crate) fn to_host(to: &Pinned, from: u64, bytes: usize, stream: StreamHandle) -> Told<()> {
    // SAFETY: so many bytes are pinned, and nobody looks at them until the copy has run: `staging` sees to it.
    told("cuMemcpyDtoHAsync_v2", unsafe { sys::cuMemcpyDtoHAsync_v2(to.start.cast(), from, bytes.min(to.bytes), stream.0) })
}
/// Fills words.
pub(crate) fn fill(to: u64, word: u32, words: usize, stream: StreamHandle) -> Told<()> {
    // SAFETY: an address is a name to the host.
    told("cuMemsetD32Async", unsafe { sys::cuMemsetD32Async(to, word, words, stream.0) })
}
/// Copies on the device.
pub(crate) fn copy(to: u64, from: u64, bytes: usize, stream: StreamHandle) -> Told<()> {
    // SAFETY: addresses are names to the host.
    told("cuMemcpyDtoDAsync_v2", unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream.0) })
}
/// What `issue` gives to the stream is not run but kept as a graph.
///
/// # Errors
/// As the driver says; those of `issue`.
pub(crate) fn captured<E: From<DriverError>>(stream: StreamHandle, issue: impl FnOnce() -> Result<(), E>) -> Result<GraphHandle, E> {
    // Memory may be asked for meanwhile, here and by other threads: none of it is the graph's.
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: a handle that the driver gave.
    told("cuStreamBeginCapture_v2", unsafe { sys::cuStreamBeginCapture_v2(stream.0, mode) })?;
    let issued = issue();
    // SAFETY: as above; it writes where it is told to.
    let graph = made("cuStreamEndCapture", |g| unsafe { sys::cuStreamEndCapture(stream.0, g) });
    issued?;
    let graph = graph?;
    // SAFETY: a graph that the driver gave; it writes where it is told to.
    let executable = made("cuGraphInstantiateWithFlags", |e| unsafe { sys::cuGraphInstantiateWithFlags(e, graph, 0) });
    // SAFETY: a graph that nobody else has; what can be launched of it stays.
    let destroyed = told("cuGraphDestroy", unsafe { sys::cuGraphDestroy(graph) });
    let executable = executable.map(GraphHandle)?;
    if let Err(e) = destroyed {
        let _ = destroy_graph(executable);
        return Err(e.into());
    }
    Ok(executable)
}
pub(crate) fn launch_graph(graph: GraphHandle, stream: StreamHandle) -> Told<()> {
    // SAFETY: handles that the driver gave.
    told("cuGraphLaunch", unsafe { sys::cuGraphLaunch(graph.0, stream.0) })
}
pub(crate) fn destroy_graph(graph: GraphHandle) -> Told<()> {
    // SAFETY: its owner gives it up.
    told("cuGraphExecDestroy", unsafe { sys::cuGraphExecDestroy(graph.0) })
}
