//! Streams, events and captures: which order there is, which there is not, and who notices.
#![allow(unsafe_code, reason = "the driver's functions are C's")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "the functions are unsafe by their kind, and the emulator looks everything up")]
mod calls;

use adamant_cuda_emulator::{CardEngine, FindingKind, Options};
use calls::*;
use cudarc::driver::sys;
use std::collections::BTreeSet;
use std::ptr::null_mut;
use sys::CUstreamCaptureMode_enum::{
    CU_STREAM_CAPTURE_MODE_GLOBAL as GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED as RELAXED, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as THREAD,
};

/// Runs a program under many seeds; gives what it ended with, and how often something was found.
fn under_seeds<T: Ord>(count: u64, program: impl Fn() -> T) -> (BTreeSet<T>, usize) {
    let mut ends = BTreeSet::new();
    let mut found = 0;
    for seed in 0..count {
        let machine = machine(seeded(seed));
        ends.insert(program());
        found += usize::from(machine.emulator.findings().iter().any(|f| f.kind == FindingKind::MissingEvent));
    }
    (ends, found)
}
fn fill(address: u64, item: u32, stream: sys::CUstream) {
    assert_eq!(cu!(cuMemsetD32Async(address, item, 1, stream)), 0);
}

#[test]
fn nothing_runs_before_somebody_waits() {
    let _machine = machine(options());
    let (a, s) = (upload(&[1_u32]), stream());
    let back = pinned(&[7_u32]);
    assert_eq!(cu!(cuMemcpyDtoHAsync_v2(back.as_mut_ptr().cast(), a, 4, s)), 0);
    assert_eq!(back[0], 7);
    assert_eq!(cu!(cuStreamSynchronize(s)), 0);
    assert_eq!(back[0], 1);
}
#[test]
fn work_of_two_streams_without_an_event_ends_in_both_ways_and_is_found_each_time() {
    let (ends, found) = under_seeds(24, || {
        let (a, s, t) = (alloc(4), stream(), stream());
        fill(a, 1, s);
        fill(a, 2, t);
        assert_eq!(cu!(cuCtxSynchronize()), 0);
        download::<u32>(a, 1)[0]
    });
    assert_eq!((ends, found), (BTreeSet::from([1, 2]), 24));
}
#[test]
fn an_event_orders_two_streams_under_every_seed() {
    let (ends, found) = under_seeds(24, || {
        let (a, s, t, e) = (alloc(4), stream(), stream(), event());
        fill(a, 1, s);
        assert_eq!(cu!(cuEventRecord(e, s)), 0);
        assert_eq!(cu!(cuStreamWaitEvent(t, e, 0)), 0);
        fill(a, 2, t);
        assert_eq!(cu!(cuCtxSynchronize()), 0);
        download::<u32>(a, 1)[0]
    });
    assert_eq!((ends, found), (BTreeSet::from([2]), 0));
}
#[test]
fn an_event_that_is_recorded_anew_does_not_move_who_waits_already() {
    let (ends, found) = under_seeds(24, || {
        let (a, s, t, e) = (alloc(4), stream(), stream(), event());
        // Waiting for an event that nobody recorded waits for nothing.
        assert_eq!(cu!(cuStreamWaitEvent(t, e, 0)), 0);
        assert_eq!(cu!(cuEventRecord(e, s)), 0);
        assert_eq!(cu!(cuStreamWaitEvent(t, e, 0)), 0);
        fill(a, 1, s);
        assert_eq!(cu!(cuEventRecord(e, s)), 0);
        fill(a, 2, t);
        assert_eq!(cu!(cuCtxSynchronize()), 0);
        download::<u32>(a, 1)[0]
    });
    assert_eq!((ends, found), (BTreeSet::from([1, 2]), 24));
}
#[test]
fn the_default_stream_orders_blocking_streams_and_no_others() {
    for (flags, expected, missing) in [(0, BTreeSet::from([2]), 0), (1, BTreeSet::from([1, 2]), 24)] {
        let (ends, found) = under_seeds(24, || {
            let (a, mut s) = (alloc(4), null_mut());
            assert_eq!(cu!(cuStreamCreate(&mut s, flags)), 0);
            fill(a, 1, s);
            fill(a, 2, null_mut());
            assert_eq!(cu!(cuCtxSynchronize()), 0);
            download::<u32>(a, 1)[0]
        });
        assert_eq!((ends, found), (expected, missing), "flags {flags}");
    }
}
#[test]
fn a_host_that_waits_orders_what_it_asks_for_next() {
    let (ends, found) = under_seeds(12, || {
        let (a, s, t, e) = (alloc(4), stream(), stream(), event());
        fill(a, 1, s);
        assert_eq!(cu!(cuStreamSynchronize(s)), 0);
        fill(a, 2, t);
        assert_eq!(cu!(cuEventRecord(e, t)), 0);
        assert_eq!(cu!(cuEventSynchronize(e)), 0);
        fill(a, 3, s);
        assert_eq!(cu!(cuStreamSynchronize(s)), 0);
        download::<u32>(a, 1)[0]
    });
    assert_eq!((ends, found), (BTreeSet::from([3]), 0));
}
#[test]
fn what_a_stream_did_that_is_gone_stays_ordered_by_who_waited_for_it() {
    for (waits, missing) in [(true, 0), (false, 12)] {
        let (_, found) = under_seeds(12, || {
            let (a, s, t) = (alloc(4), stream(), stream());
            fill(a, 1, s);
            if waits {
                assert_eq!(cu!(cuStreamSynchronize(s)), 0);
            }
            assert_eq!(cu!(cuStreamDestroy_v2(s)), 0);
            fill(a, 2, t);
            cu!(cuCtxSynchronize())
        });
        assert_eq!(found, missing);
    }
}
#[test]
fn locked_memory_is_read_when_the_copy_runs_and_other_memory_at_the_call() {
    let _machine = machine(options());
    let (a, b, s) = (alloc(4), alloc(4), stream());
    let staging = pinned(&[1_u32]);
    let mut plain = [1_u32];
    assert_eq!(cu!(cuMemcpyHtoDAsync_v2(a, staging.as_ptr().cast(), 4, s)), 0);
    assert_eq!(cu!(cuMemcpyHtoDAsync_v2(b, plain.as_ptr().cast(), 4, s)), 0);
    (staging[0], plain[0]) = (2, 2);
    std::hint::black_box(&plain);
    assert_eq!(cu!(cuStreamSynchronize(s)), 0);
    assert_eq!((download::<u32>(a, 1)[0], download::<u32>(b, 1)[0]), (2, 1), "staging was reused before its copy ran");
    let found = _machine.emulator.findings();
    assert_eq!(found.iter().map(|f| (f.kind, f.address)).collect::<Vec<_>>(), [(FindingKind::StagingReused, Some(staging.as_ptr() as u64))]);
}
#[test]
fn staging_that_the_card_or_a_called_function_writes_is_not_reused() {
    unsafe extern "C" fn five(word: *mut std::ffi::c_void) {
        // SAFETY: the word is the address of a number that outlives the call.
        unsafe { word.cast::<u32>().write(5) };
    }
    let machine = machine(options());
    let (a, b, c, s) = (upload(&[4_u32]), alloc(4), alloc(4), stream());
    let (staging, other) = (pinned(&[1_u32]), pinned(&[1_u32]));
    // Down and up again; and up what a function writes.
    assert_eq!(cu!(cuMemcpyDtoHAsync_v2(staging.as_mut_ptr().cast(), a, 4, s)), 0);
    assert_eq!(cu!(cuMemcpyHtoDAsync_v2(b, staging.as_ptr().cast(), 4, s)), 0);
    assert_eq!(cu!(cuLaunchHostFunc(s, Some(five), other.as_mut_ptr().cast())), 0);
    assert_eq!(cu!(cuMemcpyHtoDAsync_v2(c, other.as_ptr().cast(), 4, s)), 0);
    assert_eq!(cu!(cuStreamSynchronize(s)), 0);
    assert_eq!((download::<u32>(b, 1)[0], download::<u32>(c, 1)[0]), (4, 5));
    // A graph reads what is there when it is launched.
    let (code, graph) = capture(GLOBAL, |s| assert_eq!(cu!(cuMemcpyHtoDAsync_v2(c, other.as_ptr().cast(), 4, s)), 0));
    assert_eq!(code, 0);
    let run = executable(graph);
    for k in 6..9 {
        other[0] = k;
        assert_eq!(cu!(cuGraphLaunch(run, s)), 0);
        assert_eq!(cu!(cuStreamSynchronize(s)), 0);
        assert_eq!(download::<u32>(c, 1)[0], k);
    }
    assert_eq!(machine.emulator.findings(), []);
    assert_eq!(cu!(cuGraphLaunch(run, s)), 0);
    other[0] = 9;
    assert_eq!(cu!(cuStreamSynchronize(s)), 0);
    assert_eq!(machine.emulator.findings()[0].kind, FindingKind::StagingReused);
}
#[test]
fn a_copy_into_memory_that_is_not_locked_waits() {
    let machine = machine(options());
    let (a, s) = (upload(&[5_u32]), stream());
    machine.emulator.waits();
    let mut plain = [0_u32];
    assert_eq!(cu!(cuMemcpyDtoHAsync_v2(plain.as_mut_ptr().cast(), a, 4, s)), 0);
    assert_eq!(plain[0], 5);
    assert_eq!(machine.emulator.waits(), ["cuMemcpyDtoHAsync_v2"]);
    let locked = pinned(&[0_u32]);
    assert_eq!(cu!(cuMemcpyDtoHAsync_v2(locked.as_mut_ptr().cast(), a, 4, s)), 0);
    assert_eq!(cu!(cuMemcpyDtoD_v2(a, a, 0)), 0);
    assert_eq!(cu!(cuMemsetD32_v2(a, 0, 1)), 0);
    assert!(machine.emulator.waits().is_empty(), "locked memory, nothing at all, and fills wait for nothing");
}
#[test]
fn a_copy_whose_memory_is_freed_before_it_runs_is_lost() {
    let machine = machine(options());
    let (a, s) = (upload(&[5_u32]), stream());
    assert_eq!(cu!(cuMemFreeAsync(a, s)), 0);
    fill(a, 1, s);
    assert_eq!(cu!(cuStreamSynchronize(s)), 700);
    assert_eq!(machine.emulator.findings()[0].kind, FindingKind::UseAfterFree);
    assert_eq!(cu!(cuCtxSynchronize()), 700);
}
#[test]
fn asking_makes_progress_and_ends() {
    let machine = machine(options());
    let (a, s, e) = (alloc(4), stream(), event());
    (0..20).for_each(|k| fill(a, k, s));
    assert_eq!(cu!(cuEventRecord(e, s)), 0);
    let mut asked = 0;
    while cu!(cuEventQuery(e)) == 600 {
        asked += 1;
        assert!(asked < 1000);
    }
    assert!(asked > 0 && cu!(cuStreamQuery(s)) == 0);
    assert!(machine.emulator.waits().is_empty(), "asking is not waiting");
}
#[test]
fn times_follow_sizes_and_copies_run_beside_work_of_another_stream() {
    let machine = machine(Options { record: true, ..options() });
    let bytes = 8 << 20;
    let (a, b, c) = (alloc(bytes), alloc(bytes), alloc(bytes));
    assert_eq!(cu!(cuMemsetD8_v2(b, 1, bytes)), 0);
    assert_eq!(cu!(cuCtxSynchronize()), 0);
    machine.emulator.spans();
    let host = pinned(&vec![0_u8; bytes]);
    let (s, t) = (stream(), stream());
    let (start, end, none) = (event(), event(), event());
    assert_eq!(cu!(cuEventRecord(start, s)), 0);
    assert_eq!(cu!(cuMemcpyHtoDAsync_v2(a, host.as_ptr().cast(), bytes, s)), 0);
    assert_eq!(cu!(cuEventRecord(end, s)), 0);
    (0..40).for_each(|_| assert_eq!(cu!(cuMemcpyDtoDAsync_v2(c, b, bytes, t)), 0));
    let mut milliseconds = -1.0;
    assert_eq!(cu!(cuEventElapsedTime_v2(&mut milliseconds, start, end)), 600);
    assert_eq!(cu!(cuCtxSynchronize()), 0);
    assert_eq!(cu!(cuEventElapsedTime_v2(&mut milliseconds, start, end)), 0);
    let expected = bytes as f32 / 55e6;
    assert!((milliseconds - expected).abs() < 0.01, "{milliseconds} ms, not {expected}");
    assert_eq!(cu!(cuEventElapsedTime_v2(&mut milliseconds, start, none)), 400);
    let spans = machine.emulator.spans();
    let up = spans.iter().find(|s| s.engine == CardEngine::Up).unwrap();
    let beside: f64 = spans.iter().filter(|s| s.engine == CardEngine::Compute).map(|s| (s.end.min(up.end) - s.start.max(up.start)).max(0.0)).sum();
    assert!(beside > 0.8 * (up.end - up.start), "{beside} of {} ns", up.end - up.start);
    // A host that waits in between shows.
    assert_eq!(cu!(cuMemcpyHtoDAsync_v2(a, host.as_ptr().cast(), bytes, s)), 0);
    assert_eq!(cu!(cuStreamSynchronize(s)), 0);
    assert_eq!(cu!(cuMemcpyDtoDAsync_v2(c, b, bytes, t)), 0);
    assert_eq!(cu!(cuStreamSynchronize(t)), 0);
    let spans = machine.emulator.spans();
    assert!(spans[1].start >= spans[0].end, "{spans:?}");
}

/// Captures what `program` does on a stream, and gives its graph.
fn capture(mode: sys::CUstreamCaptureMode, program: impl Fn(sys::CUstream)) -> (u32, sys::CUgraph) {
    let (s, mut graph) = (stream(), null_mut());
    assert_eq!(cu!(cuStreamBeginCapture_v2(s, mode)), 0);
    program(s);
    (cu!(cuStreamEndCapture(s, &mut graph)), graph)
}
fn executable(graph: sys::CUgraph) -> sys::CUgraphExec {
    let mut executable = null_mut();
    assert_eq!(cu!(cuGraphInstantiateWithFlags(&mut executable, graph, 0)), 0);
    executable
}

#[test]
fn a_graph_does_each_time_what_was_captured() {
    let (ends, found) = under_seeds(12, || {
        let (a, b) = (upload(&[1_u32, 2, 3]), alloc(12));
        let (t, forked, joined) = (stream(), event(), event());
        let (code, graph) = capture(GLOBAL, |s| {
            // Two branches: what is copied, and what is filled, then both are used.
            assert_eq!(cu!(cuEventRecord(forked, s)), 0);
            assert_eq!(cu!(cuStreamWaitEvent(t, forked, 0)), 0);
            assert_eq!(cu!(cuMemcpyDtoDAsync_v2(b, a, 8, s)), 0);
            assert_eq!(cu!(cuMemsetD32Async(b + 8, 9, 1, t)), 0);
            assert_eq!(cu!(cuEventRecord(joined, t)), 0);
            assert_eq!(cu!(cuStreamWaitEvent(s, joined, 0)), 0);
            assert_eq!(cu!(cuMemcpyDtoDAsync_v2(a, b + 4, 8, s)), 0);
        });
        assert_eq!(code, 0);
        assert_eq!(download::<u32>(a, 3), [1, 2, 3], "nothing runs while a stream captures");
        let mut count = 0;
        assert_eq!(cu!(cuGraphGetNodes(graph, null_mut(), &mut count)), 0);
        let mut nodes = vec![null_mut(); count];
        assert_eq!(cu!(cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count)), 0);
        let kinds: Vec<u32> = nodes
            .iter()
            .map(|n| {
                let mut kind = sys::CUgraphNodeType_enum::CU_GRAPH_NODE_TYPE_EMPTY;
                assert_eq!(cu!(cuGraphNodeGetType(*n, &mut kind)), 0);
                kind as u32
            })
            .collect();
        assert_eq!(kinds, [1, 2, 1]);
        let (run, s) = (executable(graph), stream());
        assert_eq!(cu!(cuGraphDestroy(graph)), 0);
        let mut seen = Vec::new();
        for _ in 0..3 {
            assert_eq!(cu!(cuGraphLaunch(run, s)), 0);
            assert_eq!(cu!(cuStreamSynchronize(s)), 0);
            seen.push(download::<u32>(a, 3));
        }
        assert_eq!(cu!(cuGraphExecDestroy(run)), 0);
        assert_eq!(cu!(cuGraphLaunch(run, s)), 400);
        seen
    });
    let expected = vec![vec![2, 9, 3], vec![9, 9, 3], vec![9, 9, 3]];
    assert_eq!((ends, found), (BTreeSet::from([expected]), 0));
}
#[test]
fn a_graph_that_lacks_an_edge_is_found() {
    let (ends, found) = under_seeds(24, || {
        let (a, t, forked, joined) = (alloc(4), stream(), event(), event());
        let (code, graph) = capture(GLOBAL, |s| {
            assert_eq!(cu!(cuEventRecord(forked, s)), 0);
            assert_eq!(cu!(cuStreamWaitEvent(t, forked, 0)), 0);
            fill(a, 1, s);
            fill(a, 2, t);
            assert_eq!(cu!(cuEventRecord(joined, t)), 0);
            assert_eq!(cu!(cuStreamWaitEvent(s, joined, 0)), 0);
        });
        assert_eq!(code, 0);
        let run = executable(graph);
        assert_eq!(cu!(cuGraphLaunch(run, null_mut())), 0);
        download::<u32>(a, 1)[0]
    });
    assert_eq!((ends, found), (BTreeSet::from([1, 2]), 24));
}
#[test]
fn what_breaks_a_capture_is_refused_and_the_capture_is_invalid() {
    // What somebody does meanwhile, in which mode, what it answers, what the end answers.
    let a = std::cell::Cell::new(0_u64);
    let allocate = || {
        let mut address = 0;
        cu!(cuMemAlloc_v2(&mut address, 4))
    };
    let cases: &[(&str, sys::CUstreamCaptureMode, &dyn Fn(sys::CUstream) -> u32, u32, u32)] = &[
        ("nothing", GLOBAL, &|_| 0, 0, 0),
        ("an allocation", GLOBAL, &|_| allocate(), 900, 901),
        ("an allocation", THREAD, &|_| allocate(), 900, 901),
        ("an allocation", RELAXED, &|_| allocate(), 0, 0),
        ("waiting for it", RELAXED, &|s| cu!(cuStreamSynchronize(s)), 900, 901),
        ("asking for it", RELAXED, &|s| cu!(cuStreamQuery(s)), 900, 901),
        ("waiting for all", RELAXED, &|_| cu!(cuCtxSynchronize()), 900, 901),
        ("a free", GLOBAL, &|_| cu!(cuMemFree_v2(a.get())), 900, 901),
        ("a copy that waits", GLOBAL, &|_| cu!(cuMemcpyDtoD_v2(a.get(), a.get(), 4)), 900, 901),
        ("a copy of memory that is not locked", GLOBAL, &|s| cu!(cuMemcpyHtoDAsync_v2(a.get(), [0_u32].as_ptr().cast(), 4, s)), 900, 901),
        ("an event of before", GLOBAL, &|s| cu!(cuStreamWaitEvent(s, recorded(), 0)), 905, 901),
        ("asking for an event of before", GLOBAL, &|_| cu!(cuEventQuery(recorded())), 900, 901),
        ("asking for its own event", RELAXED, &|s| own_event(s), 907, 0),
        ("a launch of a graph", RELAXED, &|s| cu!(cuGraphLaunch(a_graph(), s)), 900, 901),
        ("a second begin", GLOBAL, &|s| cu!(cuStreamBeginCapture_v2(s, GLOBAL)), 401, 0),
        ("the stream of another", GLOBAL, &|_| cu!(cuMemsetD32Async(a.get(), 1, 1, stream())), 0, 0),
    ];
    thread_local!(static BEFORE: std::cell::Cell<(sys::CUevent, sys::CUgraphExec)> = const { std::cell::Cell::new((null_mut(), null_mut())) });
    fn recorded() -> sys::CUevent {
        BEFORE.get().0
    }
    fn a_graph() -> sys::CUgraphExec {
        BEFORE.get().1
    }
    fn own_event(s: sys::CUstream) -> u32 {
        let e = event();
        assert_eq!(cu!(cuEventRecord(e, s)), 0);
        cu!(cuEventQuery(e))
    }
    for (what, mode, act, answer, end) in cases {
        let _machine = machine(options());
        a.set(upload(&[1_u32]));
        let before = event();
        assert_eq!(cu!(cuEventRecord(before, stream())), 0);
        let (_, graph) = capture(GLOBAL, |_| ());
        BEFORE.set((before, executable(graph)));
        let (code, graph) = capture(*mode, |s| {
            assert_eq!(act(s), *answer, "{what}, {mode:?}");
            let mut status = sys::CUstreamCaptureStatus_enum::CU_STREAM_CAPTURE_STATUS_NONE;
            assert_eq!(cu!(cuStreamIsCapturing(s, &mut status)), 0);
            assert_eq!(status as u32, if *end == 901 { 2 } else { 1 }, "{what}");
            if *end == 901 {
                assert_eq!(cu!(cuMemsetD32Async(a.get(), 1, 1, s)), 901, "{what}: nothing more comes in");
            }
        });
        assert_eq!(code, *end, "{what}, {mode:?}");
        assert_eq!(graph.is_null(), *end != 0, "{what}");
        let mut address = 0;
        assert_eq!(cu!(cuMemAlloc_v2(&mut address, 4)), 0, "{what}: afterwards all is as before");
    }
}
#[test]
fn captures_end_where_they_began_and_joined() {
    let _machine = machine(options());
    let (a, t, e) = (alloc(4), stream(), event());
    let mut graph = null_mut();
    assert_eq!(cu!(cuStreamBeginCapture_v2(null_mut(), RELAXED)), 900);
    assert_eq!(cu!(cuStreamEndCapture(t, &mut graph)), 401);
    let fork = |s| {
        assert_eq!(cu!(cuEventRecord(e, s)), 0);
        assert_eq!(cu!(cuStreamWaitEvent(t, e, 0)), 0);
        fill(a, 1, t);
    };
    assert_eq!(capture(GLOBAL, fork).0, 904);
    let unmatched = |s| {
        fork(s);
        let mut graph = null_mut();
        assert_eq!(cu!(cuStreamEndCapture(t, &mut graph)), 903);
    };
    assert_eq!(capture(GLOBAL, unmatched).0, 901);
    // Two captures never become one.
    let other = stream();
    let merged = |s| {
        assert_eq!(cu!(cuStreamBeginCapture_v2(other, GLOBAL)), 0);
        assert_eq!(cu!(cuEventRecord(e, other)), 0);
        assert_eq!(cu!(cuStreamWaitEvent(s, e, 0)), 902);
    };
    assert_eq!(capture(GLOBAL, merged).0, 901);
    assert_eq!(cu!(cuStreamEndCapture(other, &mut graph)), 901);
    // Another thread ends what this one began only where that was allowed.
    for (mode, answer) in [(GLOBAL, 908), (RELAXED, 0)] {
        let s = stream();
        assert_eq!(cu!(cuStreamBeginCapture_v2(s, mode)), 0);
        let (s_there, context) = (s as usize, _machine.context as usize);
        let code = std::thread::spawn(move || {
            assert_eq!(cu!(cuCtxSetCurrent(context as sys::CUcontext)), 0);
            let mut graph = null_mut();
            cu!(cuStreamEndCapture(s_there as sys::CUstream, &mut graph))
        });
        assert_eq!(code.join().unwrap(), answer);
        assert_eq!(cu!(cuStreamEndCapture(s, &mut graph)), if answer == 0 { 401 } else { 0 });
    }
}
#[test]
fn the_default_stream_breaks_captures_of_blocking_streams() {
    for (flags, answer) in [(0, 906), (1, 0)] {
        let _machine = machine(options());
        let (a, mut s, mut graph) = (alloc(4), null_mut(), null_mut());
        assert_eq!(cu!(cuStreamCreate(&mut s, flags)), 0);
        assert_eq!(cu!(cuStreamBeginCapture_v2(s, RELAXED)), 0);
        assert_eq!(cu!(cuMemsetD32Async(a, 1, 1, null_mut())), answer);
        assert_eq!(cu!(cuStreamEndCapture(s, &mut graph)), if answer == 0 { 0 } else { 901 });
    }
}
#[test]
fn a_thread_may_be_let_off() {
    let _machine = machine(options());
    let (code, _) = capture(GLOBAL, |_| {
        let mut mode = RELAXED;
        assert_eq!(cu!(cuThreadExchangeStreamCaptureMode(&mut mode)), 0);
        assert_eq!(mode, GLOBAL);
        alloc(4);
        assert_eq!(cu!(cuThreadExchangeStreamCaptureMode(&mut mode)), 0);
        assert_eq!(mode, RELAXED);
    });
    assert_eq!(code, 0);
}
#[test]
fn a_stream_calls_the_host_when_its_turn_comes_and_that_may_not_call_back() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static SEEN: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn note(word: *mut std::ffi::c_void) {
        let mut address = 0;
        SEEN.store(word as usize as u32 + cu!(cuMemAlloc_v2(&mut address, 4)), Ordering::SeqCst);
    }
    let _machine = machine(options());
    let s = stream();
    assert_eq!(cu!(cuLaunchHostFunc(s, Some(note), 1000 as *mut _)), 0);
    assert_eq!(SEEN.load(Ordering::SeqCst), 0);
    assert_eq!(cu!(cuStreamSynchronize(s)), 0);
    assert_eq!(SEEN.load(Ordering::SeqCst), 1800);
}
