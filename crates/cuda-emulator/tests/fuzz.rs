//! Thousands of calls with handles, addresses and numbers that make no sense: each answers something, none crashes.
#![allow(unsafe_code, reason = "the driver's functions are C's")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "the functions are unsafe by their kind, and the emulator looks everything up")]
mod calls;

use adamant_cuda_emulator::{FindingKind, Options};
use calls::*;
use cudarc::cublaslt::sys as lt;
use cudarc::driver::sys;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Numbers that look drawn, and what was given so far.
struct Draw {
    state: u64,
    given: Vec<u64>,
}
impl Draw {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state >> 33
    }
    fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }
    /// A handle or an address: of any kind, alive or not, or none at all.
    fn word(&mut self) -> u64 {
        match self.below(8) {
            0 => self.below(4),
            1 => self.next() << 8,
            2 => u64::MAX - self.below(9),
            _ if self.given.is_empty() => 0,
            kind => {
                let k = self.below(self.given.len() as u64) as usize;
                let word = self.given[k];
                if kind == 3 { word.wrapping_add(self.below(600)) } else { word }
            }
        }
    }
    fn handle<T>(&mut self) -> *mut T {
        self.word() as *mut T
    }
    fn small(&mut self) -> u64 {
        match self.below(12) {
            0 => u64::MAX,
            1 => 1 << 40,
            2 => 2 << 20,
            _ => self.below(70),
        }
    }
    fn keep(&mut self, word: u64) {
        if word != 0 && !self.given.contains(&word) {
            self.given.push(word);
        }
        if self.given.len() > 24 {
            let k = self.below(24) as usize;
            self.given.swap_remove(k);
        }
    }
}

/// One call that makes as little sense as chance has it.
fn call(draw: &mut Draw, host: &mut [u8]) -> (u64, u32) {
    let which = draw.below(56);
    let (mut out, mut word, mut number, mut float) = (0_u64, 0_usize, 0_i32, 0_f32);
    let memory: *mut c_void = if draw.below(6) == 0 { null_mut() } else { host.as_mut_ptr().cast() };
    let bytes = draw.small().min(host.len() as u64) as usize;
    let (a, b, c) = (draw.word(), draw.word(), draw.word());
    let size = draw.small() as usize;
    let flags = draw.below(9) as u32;
    let place: *mut u64 = if draw.below(10) == 0 { null_mut() } else { &mut out };
    let mode =
        [sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_GLOBAL, sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED][draw.below(2) as usize];
    // SAFETY: zeros are a value of it.
    let mut properties: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
    properties.type_ = sys::CUmemAllocationType_enum::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = draw.below(2) as i32;
    let access = sys::CUmemAccessDesc { location: properties.location, flags: sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    let mut nothing: *mut c_void = null_mut();
    let answer = match which {
        0 => cu!(cuMemAlloc_v2(place, size)),
        1 => cu!(cuMemFree_v2(a)),
        2 => cu!(cuMemcpyHtoD_v2(a, memory, bytes)),
        3 => cu!(cuMemcpyDtoH_v2(memory, a, bytes)),
        4 => cu!(cuMemcpyDtoD_v2(a, b, size)),
        5 => cu!(cuMemcpyHtoDAsync_v2(a, memory, bytes, draw.handle())),
        6 => cu!(cuMemcpyDtoHAsync_v2(memory, a, bytes, draw.handle())),
        7 => cu!(cuMemcpyDtoDAsync_v2(a, b, size, draw.handle())),
        8 => cu!(cuMemsetD8Async(a, 3, size, draw.handle())),
        9 => cu!(cuMemsetD32_v2(a, 3, size)),
        10 => cu!(cuStreamCreate(place.cast(), flags & 3)),
        11 => cu!(cuStreamDestroy_v2(draw.handle())),
        12 => cu!(cuStreamSynchronize(draw.handle())),
        13 => cu!(cuStreamQuery(draw.handle())),
        14 => cu!(cuStreamWaitEvent(draw.handle(), draw.handle(), flags & 1)),
        15 => cu!(cuEventCreate(place.cast(), flags)),
        16 => cu!(cuEventRecord(draw.handle(), draw.handle())),
        17 => cu!(cuEventQuery(draw.handle())),
        18 => cu!(cuEventSynchronize(draw.handle())),
        19 => cu!(cuEventElapsedTime_v2(&mut float, draw.handle(), draw.handle())),
        20 => cu!(cuEventDestroy_v2(draw.handle())),
        21 => cu!(cuStreamBeginCapture_v2(draw.handle(), mode)),
        22 | 23 => cu!(cuStreamEndCapture(draw.handle(), place.cast())),
        24 => cu!(cuGraphInstantiateWithFlags(place.cast(), draw.handle(), u64::from(flags))),
        25 => cu!(cuGraphLaunch(draw.handle(), draw.handle())),
        26 => cu!(cuGraphDestroy(draw.handle())),
        27 => cu!(cuGraphExecDestroy(draw.handle())),
        28 => cu!(cuGraphGetNodes(draw.handle(), null_mut(), &mut word)),
        29 => cu!(cuModuleUnload(draw.handle())),
        30 => cu!(cuModuleGetFunction(place.cast(), draw.handle(), c"kernel".as_ptr())),
        31 => cu!(cuFuncGetAttribute(&mut number, sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_NUM_REGS, draw.handle())),
        32 => cu!(cuLaunchKernel(draw.handle(), flags, 1, 1, size as u32, flags, 1, 0, draw.handle(), &mut nothing, null_mut())),
        33 => cu!(cuMemAddressReserve(place, size, 0, 0, 0)),
        34 => cu!(cuMemAddressFree(a, size)),
        35 => cu!(cuMemCreate(place, size, &properties, 0)),
        36 => cu!(cuMemRelease(a)),
        37 => cu!(cuMemMap(a, size, 0, b, 0)),
        38 => cu!(cuMemUnmap(a, size)),
        39 => cu!(cuMemSetAccess(a, size, &access, 1)),
        40 => cu!(cuMemHostAlloc(place.cast(), size.min(1 << 12), flags)),
        41 => cu!(cuMemFreeHost(a as *mut _)),
        42 => cu!(cuMemHostUnregister(a as *mut _)),
        43 => cu!(cuPointerGetAttribute(place.cast(), sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a)),
        44 => cu!(cuCtxSetCurrent(draw.handle())),
        45 => cu!(cuCtxPushCurrent_v2(draw.handle())),
        46 => cu!(cuCtxPopCurrent_v2(place.cast())),
        47 => cu!(cuDevicePrimaryCtxRetain(place.cast(), flags as i32 - 1)),
        48 => cu!(cuMemFreeAsync(a, draw.handle())),
        49 => cu!(cuMemGetAddressRange_v2(place, &mut word, a)),
        50 => cu!(cuGraphExecUpdate_v2(draw.handle(), draw.handle(), null_mut())),
        51 => {
            let kind = lt::cudaDataType_t::CUDA_R_32F;
            // SAFETY: the places are of this function.
            unsafe { lt::cublasLtMatrixLayoutCreate(place.cast(), kind, a & 0xff, b & 0xff, c as i64) as u32 }
        }
        // SAFETY: as above.
        52 => unsafe { lt::cublasLtMatmulDescCreate(place.cast(), lt::cublasComputeType_t::CUBLAS_COMPUTE_32F, lt::cudaDataType_t::CUDA_R_32F) as u32 },
        // SAFETY: as above.
        53 => unsafe { lt::cublasLtCreate(place.cast()) as u32 },
        54 => {
            let one = 1.0_f32;
            let at = (&raw const one).cast();
            // SAFETY: every handle and address of the device is looked up.
            unsafe {
                let layout = draw.handle();
                lt::cublasLtMatmul(
                    draw.handle(),
                    draw.handle(),
                    at,
                    a as *const _,
                    layout,
                    b as *const _,
                    layout,
                    at,
                    c as *const _,
                    layout,
                    c as *mut _,
                    layout,
                    std::ptr::null(),
                    draw.handle(),
                    size,
                    draw.handle(),
                ) as u32
            }
        }
        _ => cu!(cuCtxSynchronize()),
    };
    draw.keep(out);
    (which, answer)
}

#[test]
fn calls_that_make_no_sense_are_answered() {
    let mut answers = BTreeSet::new();
    let mut worked = BTreeSet::new();
    for seed in 0..20 {
        let machine = machine(Options { memory: Some(32 << 20), ..seeded(seed) });
        let mut draw = Draw { state: seed, given: vec![machine.context as u64] };
        let mut host = vec![0_u8; 4096];
        for k in 0..2000 {
            let (which, answer) = call(&mut draw, &mut host);
            answers.insert(answer);
            if answer == 0 {
                worked.insert(which);
            }
            // A thread without a context, and a card that is lost, answer the same ever after.
            if k % 10 == 9 {
                cu!(cuCtxSetCurrent(machine.context));
                if [700, 709, 719].contains(&cu!(cuMemGetInfo_v2(&mut 0, &mut 0))) {
                    cu!(cuDevicePrimaryCtxReset_v2(0));
                    let mut context = null_mut();
                    cu!(cuDevicePrimaryCtxRetain(&mut context, 0));
                    cu!(cuCtxSetCurrent(context));
                }
            }
        }
        let failed = machine.emulator.findings().into_iter().filter(|f| f.kind == FindingKind::EmulatorFailed);
        assert_eq!(failed.map(|f| f.to_string()).collect::<Vec<_>>(), Vec::<String>::new());
    }
    assert!(worked.len() > 35, "of 56 calls only {worked:?} ever worked");
    assert!([0, 1, 2, 201, 400].iter().all(|a| answers.contains(a)) && !answers.contains(&999), "{answers:?}");
}
