//! Kernels of the real compiler, launched as programs launch them: through the driver, in streams, in graphs.
#![allow(unsafe_code, reason = "the driver's functions are C's")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "the driver's functions are unsafe by their kind, and the emulator looks everything up")]
mod calls;
mod rig;

use adamant_cuda_emulator::{EmulatedFault, EmulatedLaunch, FindingKind, Options};
use calls::*;
use cudarc::driver::sys;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::null_mut;

const TEXT: &str = r#"
extern "C" __global__ void add(float* to, const float* from, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i] + by;
}
extern "C" __global__ void beyond(float* to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) to[i] = 1.0f;
}
extern "C" __global__ void turn(float* values) {
    extern __shared__ float kept[];
    kept[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
}
__device__ int counter;
extern "C" __global__ void count() { atomicAdd(&counter, 1); }
extern "C" __global__ void __launch_bounds__(64) narrow(float* to) { to[threadIdx.x] = threadIdx.x; }
"#;

/// The text's PTX; none where there is no compiler.
fn text() -> Option<&'static str> {
    static TEXT_OF: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    TEXT_OF.get_or_init(|| rig::compile(TEXT, &["-arch=sm_75"])).as_deref()
}
/// A kernel's arguments, as words.
fn launch(function: sys::CUfunction, grid: u32, block: u32, shared: u32, stream: sys::CUstream, arguments: &[u64]) -> u32 {
    let mut places: Vec<*mut c_void> = arguments.iter().map(|a| std::ptr::from_ref(a).cast_mut().cast()).collect();
    cu!(cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, places.as_mut_ptr(), null_mut()))
}
fn add(function: sys::CUfunction, to: u64, from: u64, by: f32, n: usize, stream: sys::CUstream) {
    assert_eq!(launch(function, n.div_ceil(32) as u32, 32, 0, stream, &[to, from, u64::from(by.to_bits()), n as u64]), 0);
}

#[test]
fn a_kernel_computes_and_arguments_come_either_way() {
    let Some(text) = text() else { return };
    let machine = machine(options());
    let (function, a, b) = (kernel(text, "add"), upload(&[1.0_f32; 100]), alloc(400));
    add(function, b, a, 2.0, 100, null_mut());
    assert_eq!(download::<f32>(b, 100), [3.0; 100]);
    // As one piece: two addresses, a number, a count.
    let mut piece: Vec<u8> = [b, a].iter().flat_map(|w| w.to_le_bytes()).collect();
    piece.extend(5.0_f32.to_le_bytes());
    piece.extend(100_i32.to_le_bytes());
    let mut as_piece = |mut bytes: usize| {
        let marks = [1_usize, 2].map(std::ptr::without_provenance_mut::<c_void>);
        let mut extra = [marks[0], piece.as_mut_ptr().cast(), marks[1], (&raw mut bytes).cast(), null_mut()];
        cu!(cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, null_mut(), null_mut(), extra.as_mut_ptr()))
    };
    assert_eq!(as_piece(24), 0);
    assert_eq!(download::<f32>(b, 100), [6.0; 100]);
    assert_eq!((as_piece(23), as_piece(25)), (1, 1));
    assert_eq!(cu!(cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, null_mut(), null_mut(), null_mut())), 1, "no arguments at all");
    // With attributes.
    let words = [b, a, u64::from(7.0_f32.to_bits()), 100];
    let mut places: Vec<*mut c_void> = words.iter().map(|a| std::ptr::from_ref(a).cast_mut().cast()).collect();
    let mut with_attribute = |id: sys::CUlaunchAttributeID, cluster: u32| {
        // SAFETY: zeros are a value of both.
        let (mut configuration, mut attribute): (sys::CUlaunchConfig, sys::CUlaunchAttribute) = unsafe { std::mem::zeroed() };
        attribute.id = id;
        attribute.value.clusterDim.x = cluster;
        (configuration.gridDimX, configuration.gridDimY, configuration.gridDimZ) = (4, 1, 1);
        (configuration.blockDimX, configuration.blockDimY, configuration.blockDimZ) = (32, 1, 1);
        (configuration.attrs, configuration.numAttrs) = (&mut attribute, 1);
        cu!(cuLaunchKernelEx(&configuration, function, places.as_mut_ptr(), null_mut()))
    };
    assert_eq!(with_attribute(sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 0), 0);
    assert_eq!(download::<f32>(b, 100), [8.0; 100]);
    assert_eq!(with_attribute(sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 2), 801);
    assert_eq!(machine.emulator.findings(), []);
}
#[test]
fn launches_beyond_a_limit_are_refused() {
    let Some(text) = text() else { return };
    let _machine = machine(options());
    let (turn, narrow, a) = (kernel(text, "turn"), kernel(text, "narrow"), upload(&[1.0_f32; 1024]));
    let words = [a];
    let mut places: Vec<*mut c_void> = words.iter().map(|a| std::ptr::from_ref(a).cast_mut().cast()).collect();
    let mut launch = |f: sys::CUfunction, g: [u32; 3], b: [u32; 3], shared: u32| {
        cu!(cuLaunchKernel(f, g[0], g[1], g[2], b[0], b[1], b[2], shared, null_mut(), places.as_mut_ptr(), null_mut()))
    };
    for (grid, block, shared, answer) in [
        ([1, 1, 1], [32, 1, 1], 128, 0),
        ([0, 1, 1], [32, 1, 1], 128, 1),
        ([1, 1, 1], [0, 1, 1], 128, 1),
        ([1, 65_536, 1], [32, 1, 1], 128, 1),
        ([1, 1, 1], [1025, 1, 1], 4100, 1),
        ([1, 1, 1], [32, 33, 1], 4100, 1),
        ([1, 1, 1], [1, 1, 65], 4100, 1),
        ([1, 1, 1], [32, 1, 1], 49_153, 1),
    ] {
        assert_eq!(launch(turn, grid, block, shared), answer, "{grid:?} {block:?} {shared}");
    }
    assert_eq!(launch(narrow, [1; 3], [65, 1, 1], 0), 1, "more threads than its bounds");
    assert_eq!(launch(narrow, [1; 3], [64, 1, 1], 0), 0);
    let dynamic = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_eq!(cu!(cuFuncSetAttribute(turn, dynamic, 232_449)), 1);
    assert_eq!(cu!(cuFuncSetAttribute(turn, dynamic, 232_448)), 0);
    assert_eq!(launch(turn, [1; 3], [32, 1, 1], 100_000), 0, "asked for before");
    assert_eq!(cu!(cuCtxSynchronize()), 0);
    let (mut blocks, mut most) = (0, 0);
    assert_eq!(cu!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, turn, 256, 100_000)), 0);
    assert_eq!(blocks, 2);
    assert_eq!(cu!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, turn, 256, 0)), 0);
    assert_eq!(blocks, 8);
    assert_eq!(cu!(cuFuncGetAttribute(&mut most, sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, narrow)), 0);
    assert_eq!(most, 64);
}
#[test]
fn modules_have_functions_and_variables_until_they_are_unloaded() {
    let Some(text) = text() else { return };
    let _machine = machine(options());
    let text = std::ffi::CString::new(text).unwrap();
    let (mut module, mut function, mut address, mut bytes) = (null_mut(), null_mut(), 0, 0);
    assert_eq!(cu!(cuModuleLoadData(&mut module, text.as_ptr().cast())), 0);
    assert_eq!(cu!(cuModuleGetFunction(&mut function, module, c"nothing".as_ptr())), 500);
    assert_eq!(cu!(cuModuleGetFunction(&mut function, module, c"count".as_ptr())), 0);
    assert_eq!(cu!(cuModuleGetGlobal_v2(&mut address, &mut bytes, module, c"counter".as_ptr())), 0);
    assert_eq!(bytes, 4);
    assert_eq!(download::<i32>(address, 1), [0]);
    assert_eq!(launch(function, 3, 32, 0, null_mut(), &[]), 0);
    assert_eq!(download::<i32>(address, 1), [96]);
    assert_eq!(cu!(cuModuleUnload(module)), 0);
    assert_eq!(launch(function, 3, 32, 0, null_mut(), &[]), 400);
    assert_eq!(cu!(cuModuleUnload(module)), 400);
    assert_eq!(cu!(cuMemsetD8_v2(address, 0, 1)), 1, "its variables are gone");
}
#[test]
fn what_a_kernel_does_wrong_comes_later_and_stays() {
    let Some(text) = text() else { return };
    let machine = machine(options());
    let (beyond, a) = (kernel(text, "beyond"), alloc(256));
    assert_eq!(launch(beyond, 3, 32, 0, null_mut(), &[a, 64]), 0);
    assert_eq!(cu!(cuCtxSynchronize()), 700);
    let found = machine.emulator.findings();
    assert_eq!((found.len(), found[0].kind, found[0].kernel.as_str(), found[0].address), (1, FindingKind::OutOfBounds, "beyond", Some(a + 256)));
    assert_eq!((found[0].block, found[0].thread), ([2, 0, 0], [0, 0, 0]));
    assert_eq!(launch(beyond, 1, 32, 0, null_mut(), &[a, 64]), 700);
    assert_eq!(cu!(cuMemFree_v2(a)), 700);
    assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0)), 0);
    let mut context = null_mut();
    assert_eq!(cu!(cuDevicePrimaryCtxRetain(&mut context, 0)), 0);
    assert_eq!(launch(beyond, 1, 32, 0, null_mut(), &[a, 64]), 400, "its module went with the context");
    let beyond = kernel(text, "beyond");
    machine.emulator.plant_in_kernel(2, 719);
    let a = alloc(260);
    for expected in [0, 719] {
        assert_eq!(launch(beyond, 3, 32, 0, null_mut(), &[a, 64]), 0);
        assert_eq!(cu!(cuCtxSynchronize()), expected);
    }
    assert_eq!(machine.emulator.findings(), [], "what was planted is no finding");
}
#[test]
fn memory_that_was_freed_is_no_more() {
    let Some(text) = text() else { return };
    let machine = machine(options());
    let (function, a, b) = (kernel(text, "add"), upload(&[1.0_f32; 32]), alloc(128));
    // What was put in before is done before the memory goes.
    add(function, b, a, 2.0, 32, null_mut());
    assert_eq!(cu!(cuMemFree_v2(a)), 0);
    assert_eq!(download::<f32>(b, 32), [3.0; 32]);
    add(function, b, a, 2.0, 32, null_mut());
    assert_eq!(cu!(cuCtxSynchronize()), 700);
    assert_eq!(machine.emulator.findings()[0].kind, FindingKind::UseAfterFree);
}
#[test]
fn kernels_of_two_streams_without_an_event_are_found_under_every_seed() {
    let Some(text) = text() else { return };
    // What each of two streams does with the same buffer, whether an event is between, whether something is to be found.
    let kernel_writes = |f, a: u64, b: u64, s| add(f, a, b, 1.0, 32, s);
    let kernel_reads = |f, a: u64, c: u64, s| add(f, c, a, 1.0, 32, s);
    for event_between in [false, true] {
        for case in 0..5 {
            let mut ends = BTreeSet::new();
            for seed in 0..8 {
                let machine = machine(seeded(seed));
                let f = kernel(text, "add");
                let (a, b, c, d) = (upload(&[1.0_f32; 32]), upload(&[2.0_f32; 32]), alloc(128), alloc(128));
                assert_eq!(cu!(cuCtxSynchronize()), 0);
                let (s, t, e) = (stream(), stream(), event());
                let (mut conflict, mut after) = (true, None);
                match case {
                    0 => kernel_writes(f, a, b, s),
                    1 => kernel_writes(f, a, b, s),
                    2 => assert_eq!(cu!(cuMemcpyDtoDAsync_v2(a, b, 128, s)), 0),
                    3 => kernel_writes(f, a, b, s),
                    _ => kernel_reads(f, a, d, s),
                }
                if event_between {
                    assert_eq!(cu!(cuEventRecord(e, s)), 0);
                    assert_eq!(cu!(cuStreamWaitEvent(t, e, 0)), 0);
                }
                match case {
                    0 => kernel_reads(f, a, c, t),
                    1 => kernel_writes(f, a, b, t),
                    2 => kernel_reads(f, a, c, t),
                    3 => {
                        after = Some(pinned(&[0.0_f32; 32]));
                        let to = after.as_mut().unwrap();
                        assert_eq!(cu!(cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), a, 128, t)), 0);
                    }
                    // Two that only read do not meet.
                    _ => {
                        kernel_reads(f, a, c, t);
                        conflict = false;
                    }
                }
                cu!(cuCtxSynchronize());
                let found = machine.emulator.findings();
                assert_eq!(found.iter().any(|f| f.kind == FindingKind::MissingEvent), conflict && !event_between, "case {case}, seed {seed}: {found:?}");
                assert!(found.iter().all(|f| f.kind == FindingKind::MissingEvent), "{found:?}");
                if event_between {
                    ends.insert(download::<f32>(a, 32).iter().map(|v| v.to_bits()).collect::<Vec<_>>());
                    if let Some(after) = after {
                        assert_eq!(after, [3.0; 32]);
                    }
                }
            }
            assert!(ends.len() <= 1, "the seed changes nothing where all is ordered");
        }
    }
}
#[test]
fn a_graph_of_kernels_ends_as_the_kernels_one_by_one() {
    let Some(text) = text() else { return };
    let steps = |f, buffers: [u64; 3], s: sys::CUstream| {
        let [a, b, c] = buffers;
        add(f, b, a, 1.0, 64, s);
        add(f, c, b, 2.0, 64, s);
        assert_eq!(cu!(cuMemcpyDtoDAsync_v2(a, c, 256, s)), 0);
    };
    let mut ends = BTreeSet::new();
    for (seed, frozen) in [(0, false), (1, false), (0, true), (1, true), (2, true)] {
        let machine = machine(Options { record: true, ..seeded(seed) });
        let (f, s) = (kernel(text, "add"), stream());
        let buffers = [upload(&[0.5_f32; 64]), alloc(256), alloc(256)];
        if frozen {
            let (mut graph, mut executable) = (null_mut(), null_mut());
            assert_eq!(cu!(cuStreamBeginCapture_v2(s, sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_GLOBAL)), 0);
            steps(f, buffers, s);
            assert_eq!(cu!(cuStreamEndCapture(s, &mut graph)), 0);
            assert_eq!(cu!(cuGraphInstantiateWithFlags(&mut executable, graph, 0)), 0);
            machine.emulator.launches();
            (0..5).for_each(|_| assert_eq!(cu!(cuGraphLaunch(executable, s)), 0));
        } else {
            (0..5).for_each(|_| steps(f, buffers, s));
        }
        let launches = machine.emulator.launches();
        assert_eq!(launches.len(), 10);
        assert!(
            launches
                .iter()
                .all(|l| *l == EmulatedLaunch { kernel: "add".into(), grid: [2, 1, 1], block: [32, 1, 1], shared: 0, stream: s as u64, by_graph: frozen })
        );
        assert_eq!(cu!(cuStreamSynchronize(s)), 0);
        ends.insert(download::<f32>(buffers[0], 64).iter().map(|v| v.to_bits()).collect::<Vec<_>>());
        assert_eq!(machine.emulator.findings(), []);
    }
    assert_eq!(ends, BTreeSet::from([vec![15.5_f32.to_bits(); 64]]));
}
#[test]
fn a_graph_may_be_stale_where_that_is_asked_for() {
    let Some(text) = text() else { return };
    let machine = machine(Options { wrong: vec![EmulatedFault::StaleGraph], ..options() });
    let (f, s, a) = (kernel(text, "add"), stream(), upload(&[0.5_f32; 32]));
    let (mut graph, mut executable) = (null_mut(), null_mut());
    assert_eq!(cu!(cuStreamBeginCapture_v2(s, sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_GLOBAL)), 0);
    add(f, a, a, 1.0, 32, s);
    assert_eq!(cu!(cuStreamEndCapture(s, &mut graph)), 0);
    assert_eq!(cu!(cuGraphInstantiateWithFlags(&mut executable, graph, 0)), 0);
    (0..3).for_each(|_| assert_eq!(cu!(cuGraphLaunch(executable, s)), 0));
    assert_eq!(cu!(cuStreamSynchronize(s)), 0);
    assert_eq!(download::<f32>(a, 1), [1.5]);
    machine.emulator.set_wrong(&[]);
    assert_eq!(cu!(cuGraphLaunch(executable, s)), 0);
    assert_eq!(cu!(cuStreamSynchronize(s)), 0);
    assert_eq!(download::<f32>(a, 1), [2.5]);
}
#[test]
fn the_bindings_own_types_work_unmodified() {
    use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
    let Some(text) = text() else { return };
    let machine = bare(options());
    let context = CudaContext::new(0).unwrap();
    assert_eq!(context.compute_capability().unwrap(), (9, 0));
    let module = context.load_module(cudarc::nvrtc::Ptx::from_src(text)).unwrap();
    let function = module.load_function("add").unwrap();
    let stream = context.new_stream().unwrap();
    let from = stream.clone_htod(&[1.0_f32; 100]).unwrap();
    let mut to = stream.alloc_zeros::<f32>(100).unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut to).arg(&from).arg(&2.5_f32).arg(&100_i32);
    // SAFETY: the arguments are those of the kernel.
    unsafe { launch.launch(LaunchConfig::for_num_elems(100)) }.unwrap();
    assert_eq!(stream.clone_dtoh(&to).unwrap(), [3.5; 100]);
    drop((from, to, function, module, stream, context));
    assert_eq!(machine.emulator.findings(), []);
    assert_eq!(machine.emulator.memory_in_use(0), 0);
}
#[test]
fn a_null_machine_counts_and_runs_nothing() {
    let Some(text) = text() else { return };
    let machine = machine(Options { record: true, ..options() });
    let (function, a, b) = (kernel(text, "add"), upload(&[1.0_f32; 32]), upload(&[9.0_f32; 32]));
    machine.emulator.set_null(true);
    (0..3).for_each(|_| add(function, b, a, 2.0, 32, null_mut()));
    assert_eq!(download::<f32>(b, 32), [9.0; 32]);
    assert_eq!((machine.emulator.launches().len(), machine.emulator.counts()["cuLaunchKernel"]), (3, 3));
    machine.emulator.set_null(false);
    add(function, b, a, 2.0, 32, null_mut());
    assert_eq!(download::<f32>(b, 32), [3.0; 32]);
}
