//! The functions of the stand-ins against the bindings that call them: names, and how wide each argument is.
#![allow(unsafe_code, reason = "the driver's functions are C's")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "the functions are unsafe by their kind, and the emulator looks everything up")]
mod calls;

use adamant_cuda_emulator::Emulator;
use calls::options;
use std::collections::BTreeMap;

/// A function of the bindings, as wide as its arguments are.
trait Widths {
    fn widths(self) -> Vec<usize>;
}
macro_rules! widths {
    ($($($argument:ident)*;)*) => {$(
        impl<Answer, $($argument),*> Widths for unsafe fn($($argument),*) -> Answer {
            fn widths(self) -> Vec<usize> {
                vec![$(std::mem::size_of::<$argument>()),*]
            }
        }
    )*};
}
widths! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
    A B C D E F G H I J K;
    A B C D E F G H I J K L;
    A B C D E F G H I J K L M;
    A B C D E F G H I J K L M N;
    A B C D E F G H I J K L M N O;
    A B C D E F G H I J K L M N O P;
}
/// Functions of the bindings by the number of their arguments.
macro_rules! functions {
    (@one $all:ident $library:ident $places:tt $($name:ident)*) => {
        $($all.insert(stringify!($name), functions!(@widths $library $places $name));)*
    };
    (@widths $library:ident ($($place:tt)*) $name:ident) => {
        (cudarc::$library::sys::$name as unsafe fn($($place)*) -> _).widths()
    };
    ($table:ident: $($library:ident $places:tt $($name:ident)*;)*) => {
        fn $table() -> BTreeMap<&'static str, Vec<usize>> {
            let mut all = BTreeMap::new();
            $(functions!(@one all $library $places $($name)*);)*
            all
        }
    };
}
functions! { bindings:
    driver () cuCtxSynchronize cuCtxResetPersistingL2Cache cuProfilerStart cuProfilerStop;
    driver (_) cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset_v2 cuCtxDestroy_v2 cuCtxSetCurrent cuCtxGetCurrent cuCtxPushCurrent_v2
        cuCtxPopCurrent_v2 cuCtxGetDevice cuCtxGetFlags cuCtxDisablePeerAccess cuMemFree_v2 cuMemFreeHost cuMemHostUnregister cuGraphDestroy
        cuGraphExecDestroy cuModuleUnload cuModuleGetLoadingMode cuFuncLoad cuStreamDestroy_v2 cuStreamSynchronize cuStreamQuery
        cuThreadExchangeStreamCaptureMode cuEventDestroy_v2 cuEventQuery cuEventSynchronize cuMemRelease cuInit cuDriverGetVersion
        cuDeviceGetCount;
    driver (_, _) cuDevicePrimaryCtxRetain cuDevicePrimaryCtxSetFlags_v2 cuCtxGetApiVersion cuCtxGetId cuCtxGetStreamPriorityRange
        cuCtxGetLimit cuCtxSetLimit cuCtxEnablePeerAccess cuMemGetInfo_v2 cuMemAlloc_v2 cuMemFreeAsync cuMemAllocHost_v2 cuMemHostGetFlags
        cuGraphCreate cuGraphClone cuGraphNodeGetType cuGraphUpload cuGraphLaunch cuModuleLoadData cuModuleGetFunctionCount
        cuFuncSetCacheConfig cuFuncGetModule cuFuncGetName cuFuncIsLoaded cuStreamCreate cuStreamGetPriority cuStreamGetFlags cuStreamGetCtx
        cuStreamGetId cuStreamBeginCapture_v2 cuStreamEndCapture cuStreamIsCapturing cuEventCreate cuEventRecord cuMemAddressFree cuMemUnmap
        cuDeviceGet cuDeviceGetUuid_v2 cuDeviceTotalMem_v2 cuDeviceGetByPCIBusId cuGetErrorName cuGetErrorString;
    driver (_, _, _) cuDevicePrimaryCtxGetState cuMemAllocAsync cuMemGetAddressRange_v2 cuMemHostAlloc
        cuMemHostGetDevicePointer_v2 cuMemHostRegister_v2 cuPointerGetAttribute cuGraphGetNodes cuGraphInstantiateWithFlags
        cuGraphExecUpdate_v2 cuModuleGetFunction cuFuncGetAttribute cuFuncSetAttribute cuStreamCreateWithPriority cuStreamWaitEvent
        cuLaunchHostFunc cuEventRecordWithFlags cuEventElapsedTime_v2 cuMemGetAllocationGranularity cuMemGetAccess
        cuDeviceGetName cuDeviceGetAttribute cuDeviceComputeCapability cuDeviceGetPCIBusId cuDeviceCanAccessPeer cuMemcpyHtoD_v2
        cuMemcpyDtoH_v2 cuMemcpyDtoD_v2 cuMemcpy cuMemsetD8_v2 cuMemsetD16_v2 cuMemsetD32_v2;
    driver (_, _, _, _) cuCtxCreate_v4 cuModuleGetGlobal_v2 cuFuncGetParamInfo cuOccupancyMaxActiveBlocksPerMultiprocessor
        cuOccupancyAvailableDynamicSMemPerBlock cuMemCreate cuMemSetAccess cuLaunchKernelEx cuDeviceGetP2PAttribute cuMemcpyHtoDAsync_v2
        cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2 cuMemcpyAsync cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async;
    driver (_, _, _, _, _) cuModuleLoadDataEx cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuMemAddressReserve cuMemMap cuMemcpyPeer;
    driver (_, _, _, _, _, _) cuMemcpyPeerAsync;
    driver (_, _, _, _, _, _, _) cuStreamGetCaptureInfo_v3;
    driver (_, _, _, _, _, _, _, _, _, _) cuLaunchCooperativeKernel;
    driver (_, _, _, _, _, _, _, _, _, _, _) cuLaunchKernel;
    cublaslt () cublasLtGetVersion cublasLtGetCudartVersion;
    cublaslt (_) cublasLtHeuristicsCacheGetCapacity cublasLtHeuristicsCacheSetCapacity cublasLtCreate cublasLtDestroy
        cublasLtMatmulDescDestroy cublasLtMatrixLayoutDestroy cublasLtMatmulPreferenceCreate cublasLtMatmulPreferenceDestroy
        cublasLtGetStatusName cublasLtGetStatusString;
    cublaslt (_, _) cublasLtGetProperty;
    cublaslt (_, _, _) cublasLtMatmulDescCreate;
    cublaslt (_, _, _, _) cublasLtMatmulDescSetAttribute cublasLtMatrixLayoutSetAttribute cublasLtMatmulPreferenceSetAttribute;
    cublaslt (_, _, _, _, _) cublasLtMatmulAlgoConfigGetAttribute cublasLtMatmulDescGetAttribute cublasLtMatrixLayoutCreate
        cublasLtMatrixLayoutGetAttribute cublasLtMatmulPreferenceGetAttribute;
    cublaslt (_, _, _, _, _, _, _, _) cublasLtMatmulAlgoCheck;
    cublaslt (_, _, _, _, _, _, _, _, _, _) cublasLtMatmulAlgoGetHeuristic cublasLtMatmulAlgoGetIds;
    cublaslt (_, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _) cublasLtMatmul;
}

#[test]
fn every_function_is_one_of_the_bindings_with_arguments_of_the_same_widths() {
    let emulator = Emulator::install(options()).unwrap();
    let bindings = bindings();
    let mut seen = 0;
    for (name, arguments) in emulator.functions().iter().filter(|(name, _)| !name.starts_with("nvml")) {
        assert_eq!(bindings.get(name).map(Vec::as_slice), Some(*arguments), "{name}");
        seen += 1;
    }
    assert_eq!(seen, bindings.len(), "the table above lists each function once");
}
#[test]
fn every_function_is_found_by_name_in_the_libraries_that_programs_open() {
    let emulator = Emulator::install(options()).unwrap();
    for (name, _) in emulator.functions() {
        let candidates: &[&str] = match name {
            name if name.starts_with("nvml") => &["libnvidia-ml.so", "libnvidia-ml.so.1"],
            name if name.starts_with("cublasLt") => &["libcublasLt.so", "libcublasLt.so.13"],
            _ => &["libcuda.so", "libcuda.so.1"],
        };
        for library in candidates {
            // SAFETY: the libraries are the emulator's, which is installed.
            let library = unsafe { libloading::Library::new(*library) }.unwrap();
            // SAFETY: nothing is called.
            let found = unsafe { library.get::<*const std::ffi::c_void>(name.as_bytes()) };
            assert!(found.is_ok(), "{name}");
        }
    }
    // SAFETY: the library is the emulator's.
    let library = unsafe { libloading::Library::new("libcuda.so.1") }.unwrap();
    // SAFETY: nothing is called.
    assert!(unsafe { library.get::<*const std::ffi::c_void>(b"cuNoSuchFunction") }.is_err());
}
#[test]
fn the_card_tells_of_its_load() {
    type Init = unsafe extern "C" fn() -> u32;
    type Count = unsafe extern "C" fn(*mut u32) -> u32;
    type Handle = unsafe extern "C" fn(u32, *mut u64) -> u32;
    type Memory = unsafe extern "C" fn(u64, *mut [u64; 3]) -> u32;
    let _machine = calls::machine(options());
    calls::alloc(1 << 20);
    // SAFETY: the library is the emulator's; the functions have the types that NVML's header gives them.
    unsafe {
        let library = libloading::Library::new("libnvidia-ml.so.1").unwrap();
        let (mut count, mut card, mut memory) = (0, 0, [0; 3]);
        let counted = library.get::<Count>(b"nvmlDeviceGetCount_v2").unwrap();
        assert_eq!(counted(&mut count), 1, "not initialised");
        assert_eq!(library.get::<Init>(b"nvmlInit_v2").unwrap()(), 0);
        assert_eq!((counted(&mut count), count), (0, 1));
        let handle = library.get::<Handle>(b"nvmlDeviceGetHandleByIndex_v2").unwrap();
        assert_eq!((handle(1, &mut card), handle(0, &mut card)), (2, 0));
        let told = library.get::<Memory>(b"nvmlDeviceGetMemoryInfo").unwrap();
        assert_eq!((told(card + 1, &mut memory), told(card, &mut memory)), (2, 0));
        assert_eq!(memory, [64 << 20, 63 << 20, 1 << 20]);
        type Memory2 = unsafe extern "C" fn(u64, *mut [u64; 5]) -> u32;
        type ByPlace = unsafe extern "C" fn(*const std::ffi::c_char, *mut u64) -> u32;
        let told = library.get::<Memory2>(b"nvmlDeviceGetMemoryInfo_v2").unwrap();
        let mut memory = [40 | 2 << 24, 0, 0, 0, 0];
        assert_eq!((told(card, &mut memory), &memory[1..]), (0, [64 << 20, 0, 63 << 20, 1 << 20].as_slice()));
        assert_eq!(told(card, &mut [0; 5]), 25);
        // The card that CUDA calls its first.
        let (mut place, mut found) = ([0; 20], 0);
        assert_eq!(cudarc::driver::sys::cuDeviceGetPCIBusId(place.as_mut_ptr(), 20, 0) as u32, 0);
        let by_place = library.get::<ByPlace>(b"nvmlDeviceGetHandleByPciBusId_v2").unwrap();
        assert_eq!((by_place(place.as_ptr(), &mut found), found), (0, card));
        assert_eq!(by_place(c"00000000:7F:00.0".as_ptr(), &mut found), 6);
        assert_eq!(library.get::<Init>(b"nvmlShutdown").unwrap()(), 0);
        assert_eq!(library.get::<Init>(b"nvmlShutdown").unwrap()(), 1);
    }
}
