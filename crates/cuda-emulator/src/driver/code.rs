//! The driver's answers: their numbers, their names, and what each says in a few words.

/// An answer other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CudaCode(pub u32);
/// What a call answers.
pub(crate) type Answer<T = ()> = Result<T, CudaCode>;

/// Number, name, text with the zero that C wants.
const CODES: &[(u32, &std::ffi::CStr, &std::ffi::CStr)] = &[
    (0, c"CUDA_SUCCESS", c"no error"),
    (1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (4, c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down"),
    (5, c"CUDA_ERROR_PROFILER_DISABLED", c"profiler disabled"),
    (6, c"CUDA_ERROR_PROFILER_NOT_INITIALIZED", c"profiler not initialized"),
    (7, c"CUDA_ERROR_PROFILER_ALREADY_STARTED", c"profiler already started"),
    (8, c"CUDA_ERROR_PROFILER_ALREADY_STOPPED", c"profiler already stopped"),
    (34, c"CUDA_ERROR_STUB_LIBRARY", c"the library is a stub"),
    (36, c"CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", c"a newer driver is needed"),
    (46, c"CUDA_ERROR_DEVICE_UNAVAILABLE", c"the device is taken"),
    (100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device"),
    (101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (102, c"CUDA_ERROR_DEVICE_NOT_LICENSED", c"device not licensed"),
    (200, c"CUDA_ERROR_INVALID_IMAGE", c"not a kernel image"),
    (201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (202, c"CUDA_ERROR_CONTEXT_ALREADY_CURRENT", c"context already current"),
    (205, c"CUDA_ERROR_MAP_FAILED", c"map failed"),
    (206, c"CUDA_ERROR_UNMAP_FAILED", c"unmap failed"),
    (207, c"CUDA_ERROR_ARRAY_IS_MAPPED", c"array is mapped"),
    (208, c"CUDA_ERROR_ALREADY_MAPPED", c"already mapped"),
    (209, c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"no kernel image for this device"),
    (210, c"CUDA_ERROR_ALREADY_ACQUIRED", c"already acquired"),
    (211, c"CUDA_ERROR_NOT_MAPPED", c"not mapped"),
    (212, c"CUDA_ERROR_NOT_MAPPED_AS_ARRAY", c"not mapped as array"),
    (213, c"CUDA_ERROR_NOT_MAPPED_AS_POINTER", c"not mapped as pointer"),
    (214, c"CUDA_ERROR_ECC_UNCORRECTABLE", c"uncorrectable ECC error"),
    (215, c"CUDA_ERROR_UNSUPPORTED_LIMIT", c"limit not supported"),
    (216, c"CUDA_ERROR_CONTEXT_ALREADY_IN_USE", c"context in use elsewhere"),
    (217, c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", c"no peer access between these devices"),
    (218, c"CUDA_ERROR_INVALID_PTX", c"PTX does not compile"),
    (219, c"CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", c"invalid graphics context"),
    (220, c"CUDA_ERROR_NVLINK_UNCORRECTABLE", c"nvlink uncorrectable"),
    (221, c"CUDA_ERROR_JIT_COMPILER_NOT_FOUND", c"no JIT compiler"),
    (222, c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", c"PTX of an unsupported toolchain"),
    (223, c"CUDA_ERROR_JIT_COMPILATION_DISABLED", c"JIT compilation is off"),
    (224, c"CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", c"unsupported exec affinity"),
    (225, c"CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC", c"unsupported devside sync"),
    (226, c"CUDA_ERROR_CONTAINED", c"contained"),
    (300, c"CUDA_ERROR_INVALID_SOURCE", c"invalid source"),
    (301, c"CUDA_ERROR_FILE_NOT_FOUND", c"file not found"),
    (302, c"CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", c"symbol of a shared object not found"),
    (303, c"CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", c"shared object init failed"),
    (304, c"CUDA_ERROR_OPERATING_SYSTEM", c"operating system error"),
    (400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (401, c"CUDA_ERROR_ILLEGAL_STATE", c"not allowed in this state"),
    (402, c"CUDA_ERROR_LOSSY_QUERY", c"lossy query"),
    (500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (600, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"illegal memory access"),
    (701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources asked for by the launch"),
    (702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"launch timed out"),
    (703, c"CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", c"launch incompatible texturing"),
    (704, c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", c"peer access is on already"),
    (705, c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", c"peer access is not on"),
    (708, c"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", c"primary context already active"),
    (709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed or not there yet"),
    (710, c"CUDA_ERROR_ASSERT", c"device-side assertion"),
    (711, c"CUDA_ERROR_TOO_MANY_PEERS", c"too many peers"),
    (712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", c"host memory is registered already"),
    (713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", c"host memory is not registered"),
    (714, c"CUDA_ERROR_HARDWARE_STACK_ERROR", c"hardware stack error"),
    (715, c"CUDA_ERROR_ILLEGAL_INSTRUCTION", c"illegal instruction"),
    (716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
    (717, c"CUDA_ERROR_INVALID_ADDRESS_SPACE", c"wrong address space"),
    (718, c"CUDA_ERROR_INVALID_PC", c"invalid program counter"),
    (719, c"CUDA_ERROR_LAUNCH_FAILED", c"launch failure"),
    (720, c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", c"too many blocks in a cooperative launch"),
    (721, c"CUDA_ERROR_TENSOR_MEMORY_LEAK", c"tensor memory leak"),
    (800, c"CUDA_ERROR_NOT_PERMITTED", c"not permitted"),
    (801, c"CUDA_ERROR_NOT_SUPPORTED", c"not supported"),
    (802, c"CUDA_ERROR_SYSTEM_NOT_READY", c"system not ready"),
    (803, c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", c"driver and library versions differ"),
    (804, c"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", c"forward compatibility not supported"),
    (805, c"CUDA_ERROR_MPS_CONNECTION_FAILED", c"mps connection failed"),
    (806, c"CUDA_ERROR_MPS_RPC_FAILURE", c"mps rpc failure"),
    (807, c"CUDA_ERROR_MPS_SERVER_NOT_READY", c"mps server not ready"),
    (808, c"CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", c"mps max clients reached"),
    (809, c"CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", c"mps max connections reached"),
    (810, c"CUDA_ERROR_MPS_CLIENT_TERMINATED", c"mps client terminated"),
    (811, c"CUDA_ERROR_CDP_NOT_SUPPORTED", c"cdp not supported"),
    (812, c"CUDA_ERROR_CDP_VERSION_MISMATCH", c"cdp version mismatch"),
    (900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"not permitted while a stream is capturing"),
    (901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"the capture was invalidated by an earlier error"),
    (902, c"CUDA_ERROR_STREAM_CAPTURE_MERGE", c"two captures would merge"),
    (903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", c"the stream did not begin this capture"),
    (904, c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", c"a captured stream was not joined"),
    (905, c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", c"a captured event would depend on work outside the capture"),
    (906, c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", c"would depend on a capture through the legacy stream"),
    (907, c"CUDA_ERROR_CAPTURED_EVENT", c"the event was recorded in a capturing stream"),
    (908, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", c"another thread began this capture"),
    (909, c"CUDA_ERROR_TIMEOUT", c"timed out"),
    (910, c"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", c"the graph cannot be updated in place"),
    (911, c"CUDA_ERROR_EXTERNAL_DEVICE", c"external device"),
    (912, c"CUDA_ERROR_INVALID_CLUSTER_SIZE", c"invalid cluster size"),
    (913, c"CUDA_ERROR_FUNCTION_NOT_LOADED", c"function not loaded"),
    (914, c"CUDA_ERROR_INVALID_RESOURCE_TYPE", c"invalid resource type"),
    (915, c"CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", c"invalid resource configuration"),
    (916, c"CUDA_ERROR_KEY_ROTATION", c"key rotation"),
    (999, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

/// What stays until the context is made anew: a kernel went wrong, or the card did.
const STAY: &[u32] = &[214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721];

#[rustfmt::skip]
impl CudaCode {
    pub const INVALID_VALUE: CudaCode = CudaCode(1);
    pub const OUT_OF_MEMORY: CudaCode = CudaCode(2);
    pub const NOT_INITIALIZED: CudaCode = CudaCode(3);
    pub const NO_DEVICE: CudaCode = CudaCode(100);
    pub const INVALID_DEVICE: CudaCode = CudaCode(101);
    pub const INVALID_IMAGE: CudaCode = CudaCode(200);
    pub const INVALID_CONTEXT: CudaCode = CudaCode(201);
    pub const NO_BINARY_FOR_GPU: CudaCode = CudaCode(209);
    pub const UNSUPPORTED_LIMIT: CudaCode = CudaCode(215);
    pub const PEER_ACCESS_UNSUPPORTED: CudaCode = CudaCode(217);
    pub const INVALID_PTX: CudaCode = CudaCode(218);
    pub const UNSUPPORTED_PTX_VERSION: CudaCode = CudaCode(222);
    pub const INVALID_HANDLE: CudaCode = CudaCode(400);
    pub const ILLEGAL_STATE: CudaCode = CudaCode(401);
    pub const NOT_FOUND: CudaCode = CudaCode(500);
    pub const NOT_READY: CudaCode = CudaCode(600);
    pub const ILLEGAL_ADDRESS: CudaCode = CudaCode(700);
    pub const LAUNCH_TIMEOUT: CudaCode = CudaCode(702);
    pub const PEER_ACCESS_ALREADY_ENABLED: CudaCode = CudaCode(704);
    pub const PEER_ACCESS_NOT_ENABLED: CudaCode = CudaCode(705);
    pub const CONTEXT_IS_DESTROYED: CudaCode = CudaCode(709);
    pub const HOST_MEMORY_ALREADY_REGISTERED: CudaCode = CudaCode(712);
    pub const HOST_MEMORY_NOT_REGISTERED: CudaCode = CudaCode(713);
    pub const MISALIGNED_ADDRESS: CudaCode = CudaCode(716);
    pub const LAUNCH_FAILED: CudaCode = CudaCode(719);
    pub const COOPERATIVE_LAUNCH_TOO_LARGE: CudaCode = CudaCode(720);
    pub const NOT_PERMITTED: CudaCode = CudaCode(800);
    pub const NOT_SUPPORTED: CudaCode = CudaCode(801);
    pub const STREAM_CAPTURE_UNSUPPORTED: CudaCode = CudaCode(900);
    pub const STREAM_CAPTURE_INVALIDATED: CudaCode = CudaCode(901);
    pub const STREAM_CAPTURE_MERGE: CudaCode = CudaCode(902);
    pub const STREAM_CAPTURE_UNMATCHED: CudaCode = CudaCode(903);
    pub const STREAM_CAPTURE_UNJOINED: CudaCode = CudaCode(904);
    pub const STREAM_CAPTURE_ISOLATION: CudaCode = CudaCode(905);
    pub const STREAM_CAPTURE_IMPLICIT: CudaCode = CudaCode(906);
    pub const CAPTURED_EVENT: CudaCode = CudaCode(907);
    pub const STREAM_CAPTURE_WRONG_THREAD: CudaCode = CudaCode(908);
    pub const GRAPH_EXEC_UPDATE_FAILURE: CudaCode = CudaCode(910);
    pub const UNKNOWN: CudaCode = CudaCode(999);
}
impl CudaCode {
    /// Does every later call of the context answer this, too?
    pub fn stays(self) -> bool {
        STAY.contains(&self.0)
    }
}

/// The name and the text of a number.
pub(crate) fn described(number: u32) -> Option<(&'static std::ffi::CStr, &'static std::ffi::CStr)> {
    CODES.iter().find(|(n, ..)| *n == number).map(|(_, name, text)| (*name, *text))
}
