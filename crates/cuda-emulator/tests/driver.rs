//! The driver as `cudarc` sees it: what each call answers, and what has happened when it returns.
#![allow(unsafe_code, reason = "the driver's functions are C's")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "the functions are unsafe by their kind, and the emulator looks everything up")]
mod calls;

use adamant_cuda_emulator::{Emulator, FindingKind, InstallError, Options, PROFILES};
use calls::*;
use cudarc::driver::sys;
use std::ptr::null_mut;

/// The text of an image of machine code.
const ELF: &[u8] = b"\x7fELF\x02\x01\x01\0";

#[test]
fn memory_comes_back_as_it_was_sent() {
    let _machine = machine(options());
    let a = upload(&[1.0_f32, 2.0, 3.0]);
    let b = alloc(12);
    assert_eq!(cu!(cuMemcpyDtoD_v2(b, a, 12)), 0);
    assert_eq!(download::<f32>(b, 3), [1.0, 2.0, 3.0]);
    assert_eq!(cu!(cuMemsetD32_v2(b + 4, 0x3f80_0000, 2)), 0);
    assert_eq!(download::<f32>(b, 3), [1.0, 1.0, 1.0]);
    assert_eq!(cu!(cuMemsetD16_v2(b, 0x0102, 2)), 0);
    assert_eq!(cu!(cuMemsetD8_v2(b + 4, 7, 1)), 0);
    assert_eq!(download::<u8>(b, 5), [2, 1, 2, 1, 7]);
}
#[test]
fn nothing_works_before_the_driver_is_initialised() {
    let _machine = bare(options());
    let (mut count, mut context) = (0, null_mut());
    assert_eq!(cu!(cuDeviceGetCount(&mut count)), 3);
    assert_eq!(cu!(cuDevicePrimaryCtxRetain(&mut context, 0)), 3);
    assert_eq!(cu!(cuCtxSynchronize()), 3);
    assert_eq!(cu!(cuDriverGetVersion(&mut count)), 0);
    assert_eq!(count, 13_000);
    assert_eq!(cu!(cuInit(1)), 1);
    assert_eq!(cu!(cuInit(0)), 0);
    assert_eq!(cu!(cuDeviceGetCount(&mut count)), 0);
    assert_eq!(count, 1);
    assert_eq!(cu!(cuDeviceGet(&mut count, 1)), 101);
}
#[test]
fn a_machine_without_a_card_says_so_and_an_unknown_profile_is_refused() {
    let machine = bare(Options { devices: 0, ..options() });
    assert_eq!(cu!(cuInit(0)), 100);
    let wrong = Options { profile: "sm_42".into(), ..options() };
    assert!(matches!(machine.emulator.reset(wrong.clone()), Err(InstallError::UnknownProfile(name, _)) if name == "sm_42"));
    assert!(Emulator::install(wrong).is_ok(), "a second time gives what is there");
}
#[test]
fn cards_say_what_they_are() {
    for profile in PROFILES {
        let _machine = machine(Options { profile: profile.name.into(), memory: None, ..Options::default() });
        let attribute = |which: sys::CUdevice_attribute| {
            let mut value = -7;
            assert_eq!(cu!(cuDeviceGetAttribute(&mut value, which, 0)), 0);
            value
        };
        use sys::CUdevice_attribute_enum::*;
        let capability = (attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
        assert_eq!(capability, (profile.capability.0 as i32, profile.capability.1 as i32));
        assert_eq!(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
        assert_eq!(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK), 49_152);
        assert_eq!(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), profile.shared_of_block as i32);
        assert_eq!(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), profile.processors as i32);
        assert_eq!(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED), 1);
        let mut bytes = 0;
        assert_eq!(cu!(cuDeviceTotalMem_v2(&mut bytes, 0)), 0);
        assert_eq!(bytes as u64, profile.memory);
        let mut name = [1_i8; 100];
        assert_eq!(cu!(cuDeviceGetName(name.as_mut_ptr().cast(), 100, 0)), 0);
        let name: Vec<u8> = name.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
        assert_eq!(name, profile.card.as_bytes());
    }
}
#[test]
fn a_thread_has_no_context_until_it_takes_one() {
    let machine = machine(options());
    let context = machine.context as usize;
    std::thread::spawn(move || {
        let mut address = 0;
        assert_eq!(cu!(cuMemAlloc_v2(&mut address, 16)), 201);
        let mut stream = null_mut();
        assert_eq!(cu!(cuStreamCreate(&mut stream, 0)), 201);
        assert_eq!(cu!(cuCtxPushCurrent_v2(context as sys::CUcontext)), 0);
        assert_eq!(cu!(cuMemAlloc_v2(&mut address, 16)), 0);
        let mut popped = null_mut();
        assert_eq!(cu!(cuCtxPopCurrent_v2(&mut popped)), 0);
        assert_eq!(popped as usize, context);
        assert_eq!(cu!(cuMemAlloc_v2(&mut address, 16)), 201);
        assert_eq!(cu!(cuCtxPopCurrent_v2(&mut popped)), 201);
    })
    .join()
    .unwrap();
}
#[test]
fn handles_that_are_stale_or_foreign_are_refused() {
    let machine = machine(options());
    let (gone, event) = (stream(), event());
    assert_eq!(cu!(cuStreamDestroy_v2(gone)), 0);
    assert_eq!(cu!(cuStreamSynchronize(gone)), 400);
    assert_eq!(cu!(cuStreamDestroy_v2(gone)), 400);
    assert_eq!(cu!(cuEventRecord(event, gone)), 400);
    // An event is no stream, a context is no event.
    assert_eq!(cu!(cuStreamSynchronize(event.cast())), 400);
    assert_eq!(cu!(cuEventQuery(machine.context.cast())), 400);
    assert_eq!(cu!(cuModuleUnload(0x1234 as sys::CUmodule)), 400);
    assert_eq!(cu!(cuCtxSetCurrent(gone.cast())), 201);
    assert_eq!(cu!(cuGraphDestroy(null_mut())), 400);
    assert_eq!(cu!(cuEventDestroy_v2(event)), 0);
    assert_eq!(cu!(cuEventDestroy_v2(event)), 400);
}
#[test]
fn a_context_that_was_reset_has_to_be_retained_anew() {
    let machine = machine(options());
    let a = upload(&[1_u8]);
    assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0)), 0);
    let mut byte = 0_u8;
    assert_eq!(cu!(cuMemcpyDtoH_v2((&raw mut byte).cast(), a, 1)), 709);
    let mut context = null_mut();
    assert_eq!(cu!(cuDevicePrimaryCtxRetain(&mut context, 0)), 0);
    assert_eq!(context, machine.context);
    assert_eq!(cu!(cuMemcpyDtoH_v2((&raw mut byte).cast(), a, 1)), 1, "its memory is gone");
    assert_eq!(machine.emulator.findings()[0].kind, FindingKind::UseAfterFree);
    assert_eq!(machine.emulator.memory_in_use(0), 0);
    // A reset releases nothing: once for each time that it was retained.
    assert_eq!([0; 3].map(|_| cu!(cuDevicePrimaryCtxRelease_v2(0))), [0, 0, 201]);
}
#[test]
fn memory_has_a_limit_and_what_is_freed_is_gone() {
    let machine = machine(Options { memory: Some(1 << 20), ..Options::default() });
    let a = alloc(600 << 10);
    let mut b = 0;
    assert_eq!(cu!(cuMemAlloc_v2(&mut b, 600 << 10)), 2);
    assert_eq!(cu!(cuMemAlloc_v2(&mut b, 0)), 1);
    let (mut free, mut total) = (0, 0);
    assert_eq!(cu!(cuMemGetInfo_v2(&mut free, &mut total)), 0);
    assert_eq!((free, total), (424 << 10, 1 << 20));
    assert_eq!(cu!(cuMemFree_v2(a + 8)), 1);
    assert_eq!(cu!(cuMemFree_v2(a)), 0);
    assert_eq!(cu!(cuMemFree_v2(a)), 1);
    let kinds: Vec<FindingKind> = machine.emulator.findings().iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [FindingKind::OutOfBounds, FindingKind::UseAfterFree]);
    assert_eq!(cu!(cuMemsetD8_v2(a, 0, 1)), 1);
    machine.emulator.set_memory_limit(1 << 10);
    assert_eq!(cu!(cuMemAlloc_v2(&mut b, 1 << 11)), 2);
}
#[test]
fn a_copy_beyond_an_allocation_is_refused_and_found() {
    let machine = machine(options());
    let a = alloc(16);
    assert_eq!(cu!(cuMemsetD8_v2(a, 0, 17)), 1);
    assert_eq!(cu!(cuMemcpyHtoD_v2(a, null_mut(), 4)), 1);
    assert_eq!(machine.emulator.findings().iter().map(|f| f.kind).collect::<Vec<_>>(), [FindingKind::OutOfBounds]);
    assert_eq!(cu!(cuMemsetD32_v2(a + 2, 0, 1)), 1, "an item's address is a multiple of its size");
    download::<u8>(a, 16);
    assert_eq!(machine.emulator.findings()[0].kind, FindingKind::HostReadUnwritten);
}
#[test]
fn pages_are_mapped_given_access_and_taken_away() {
    let machine = machine(options());
    const PAGE: usize = 2 << 20;
    // SAFETY: zeros are a value of it.
    let mut properties: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
    properties.type_ = sys::CUmemAllocationType_enum::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE;
    let mut granule = 0;
    let least = sys::CUmemAllocationGranularity_flags_enum::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    assert_eq!(cu!(cuMemGetAllocationGranularity(&mut granule, &properties, least)), 0);
    assert_eq!(granule, PAGE);
    let mut range = 0;
    assert_eq!(cu!(cuMemAddressReserve(&mut range, 3 * PAGE + 1, 0, 0, 0)), 1);
    assert_eq!(cu!(cuMemAddressReserve(&mut range, 3 * PAGE, 0, 0, 0)), 0);
    let page = || {
        let mut handle = 0;
        assert_eq!(cu!(cuMemCreate(&mut handle, PAGE, &properties, 0)), 0);
        handle
    };
    let (a, b) = (page(), page());
    assert_eq!(machine.emulator.memory_in_use(0), 2 * PAGE as u64);
    assert_eq!(cu!(cuMemMap(range, PAGE, 0, a, 0)), 0);
    assert_eq!(cu!(cuMemMap(range, PAGE, 0, b, 0)), 1, "something is there");
    assert_eq!(cu!(cuMemMap(range + PAGE as u64, PAGE, 0, b, 0)), 0);
    assert_eq!(cu!(cuMemsetD8_v2(range, 1, 2)), 1, "nobody has access yet");
    let access = sys::CUmemAccessDesc { location: properties.location, flags: sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    assert_eq!(cu!(cuMemSetAccess(range, 3 * PAGE, &access, 1)), 1, "a part of it is not mapped");
    assert_eq!(cu!(cuMemSetAccess(range, 2 * PAGE, &access, 1)), 0);
    assert_eq!(cu!(cuMemsetD8_v2(range, 1, 2 * PAGE)), 0, "mappings side by side are one piece");
    assert_eq!(cu!(cuMemRelease(a)), 0);
    assert_eq!(cu!(cuMemRelease(a)), 1);
    assert_eq!(cu!(cuMemAddressFree(range, 3 * PAGE)), 1, "something is mapped");
    assert_eq!(download::<u8>(range + PAGE as u64 - 1, 2), [1, 1]);
    assert_eq!(cu!(cuMemUnmap(range, PAGE)), 0);
    assert_eq!(machine.emulator.memory_in_use(0), PAGE as u64, "released, and mapped no more");
    assert_eq!(cu!(cuMemUnmap(range + PAGE as u64, PAGE)), 0);
    assert_eq!(cu!(cuMemRelease(b)), 0);
    assert_eq!(machine.emulator.memory_in_use(0), 0);
    machine.emulator.findings();
    assert_eq!(cu!(cuMemsetD8_v2(range, 1, 1)), 1);
    assert_eq!(machine.emulator.findings()[0].kind, FindingKind::UseAfterFree);
    assert_eq!(cu!(cuMemAddressFree(range, 3 * PAGE)), 0);
}
#[test]
fn host_memory_is_locked_once_and_told_from_the_device() {
    let _machine = machine(options());
    let memory = pinned(&[0_u8; 64]);
    let address = memory.as_mut_ptr() as u64;
    let kind = |address: u64| {
        let mut kind = 0_u32;
        let code = cu!(cuPointerGetAttribute((&raw mut kind).cast(), sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
        (code, kind)
    };
    assert_eq!(kind(address + 63), (0, 1));
    assert_eq!(kind(alloc(16)), (0, 2));
    assert_eq!(kind(&raw const kind as u64).0, 1);
    let mut own = vec![0_u8; 100];
    let at = own.as_mut_ptr().cast();
    assert_eq!(cu!(cuMemHostRegister_v2(at, 100, 0)), 0);
    assert_eq!(cu!(cuMemHostRegister_v2(at, 10, 0)), 712);
    assert_eq!(cu!(cuMemFreeHost(at)), 1, "it is the caller's own");
    assert_eq!(cu!(cuMemHostUnregister(at)), 0);
    assert_eq!(cu!(cuMemHostUnregister(at)), 713);
    assert_eq!(cu!(cuMemFreeHost(address as *mut _)), 0);
    assert_eq!(cu!(cuMemFreeHost(address as *mut _)), 1);
}
#[test]
fn an_error_that_stays_stays_until_the_reset() {
    for heals in [true, false] {
        let machine = machine(Options { reset_heals: heals, ..options() });
        machine.emulator.plant("cuMemcpyDtoD_v2", 2, 700);
        let a = upload(&[1_u8, 2]);
        assert_eq!(cu!(cuMemcpyDtoD_v2(a, a + 1, 1)), 0);
        assert_eq!(cu!(cuMemcpyDtoD_v2(a, a + 1, 1)), 700);
        let (mut address, mut stream) = (0, null_mut());
        assert_eq!(cu!(cuMemAlloc_v2(&mut address, 4)), 700);
        assert_eq!(cu!(cuStreamCreate(&mut stream, 0)), 700);
        assert_eq!(cu!(cuCtxSynchronize()), 700);
        let mut device = 9;
        assert_eq!(cu!(cuCtxGetDevice(&mut device)), 0);
        assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0)), if heals { 0 } else { 700 });
        let mut context = null_mut();
        assert_eq!(cu!(cuDevicePrimaryCtxRetain(&mut context, 0)), 0);
        assert_eq!(cu!(cuMemAlloc_v2(&mut address, 4)), if heals { 0 } else { 700 });
    }
}
#[test]
fn an_error_is_planted_by_name_and_number() {
    let machine = machine(options());
    machine.emulator.plant("cuMemAlloc_v2", 3, 2);
    machine.emulator.plant("cuMemAlloc_v2", 4, 999);
    let mut address = 0;
    let answers: Vec<u32> = (0..5).map(|_| cu!(cuMemAlloc_v2(&mut address, 4))).collect();
    assert_eq!(answers, [0, 0, 2, 999, 0]);
    assert_eq!(machine.emulator.counts()["cuMemAlloc_v2"], 5);
    let fresh = machine.emulator;
    drop(machine);
    let machine = bare(options());
    fresh.plant("cuInit", 1, 803);
    assert_eq!((cu!(cuInit(0)), cu!(cuInit(0))), (803, 0));
    drop(machine);
}
#[test]
fn machine_code_and_newer_texts_are_refused() {
    let machine = machine(Options { profile: "sm_80".into(), ..options() });
    let load = |image: &[u8]| {
        let mut module = null_mut();
        let image = [image, b"\0"].concat();
        cu!(cuModuleLoadData(&mut module, image.as_ptr().cast()))
    };
    assert_eq!(load(ELF), 209);
    assert_eq!(load(b".version 8.0\n.target sm_90\n.address_size 64\n"), 209);
    assert_eq!(load(b".version 8.0\n.target sm_90a\n.address_size 64\n"), 209);
    assert_eq!(load(b".version 9.9\n.target sm_80\n.address_size 64\n"), 222);
    assert_eq!(load(b"no kernel at all"), 218);
    assert_eq!(load(b"\xff\xfe\xfd\xfc"), 200);
    let mut module = null_mut();
    assert_eq!(cu!(cuModuleLoadData(&mut module, std::ptr::null())), 1);
    drop(machine);
}
#[test]
fn errors_have_names_and_texts() {
    let _machine = bare(options());
    for code in [sys::CUresult::CUDA_SUCCESS, sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT] {
        let (mut name, mut text) = (std::ptr::null(), std::ptr::null());
        assert_eq!(cu!(cuGetErrorName(code, &mut name)), 0);
        assert_eq!(cu!(cuGetErrorString(code, &mut text)), 0);
        // SAFETY: both were given by the driver, which keeps them.
        let (name, text) = unsafe { (std::ffi::CStr::from_ptr(name), std::ffi::CStr::from_ptr(text)) };
        assert_eq!(name.to_str().unwrap(), format!("{code:?}"));
        assert!(!text.is_empty());
    }
}
#[test]
fn peers_are_asked_for_before_memory_is_copied_between_them() {
    let _machine = machine(Options { devices: 2, ..options() });
    let mut can = 0;
    assert_eq!(cu!(cuDeviceCanAccessPeer(&mut can, 0, 1)), 0);
    assert_eq!(can, 1);
    let a = upload(&[1_u8, 2, 3]);
    let (mut first, mut second) = (null_mut(), null_mut());
    assert_eq!(cu!(cuCtxGetCurrent(&mut first)), 0);
    assert_eq!(cu!(cuDevicePrimaryCtxRetain(&mut second, 1)), 0);
    assert_eq!(cu!(cuCtxSetCurrent(second)), 0);
    let b = alloc(3);
    assert_eq!(cu!(cuMemcpyDtoD_v2(b, a, 3)), 1, "the other card's memory, without access");
    assert_eq!(cu!(cuMemcpyPeerAsync(b, second, a, first, 3, null_mut())), 0);
    assert_eq!(download::<u8>(b, 3), [1, 2, 3]);
    assert_eq!(cu!(cuCtxEnablePeerAccess(first, 0)), 0);
    assert_eq!(cu!(cuCtxEnablePeerAccess(first, 0)), 704);
    assert_eq!(cu!(cuMemcpyDtoD_v2(b, a + 1, 1)), 0);
    assert_eq!(download::<u8>(b, 1), [2]);
    assert_eq!(cu!(cuCtxDisablePeerAccess(first)), 0);
    assert_eq!(cu!(cuCtxDisablePeerAccess(first)), 705);
}
