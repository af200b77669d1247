//! What cuBLASLt's stand-in refuses, what it offers, and what becomes of it in streams and graphs.
#![allow(unsafe_code, reason = "the library's functions are C's")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "the library's functions are unsafe by their kind, and the emulator looks everything up")]
mod calls;
mod layouts;

use adamant_cuda_emulator::{EmulatedFault, FindingKind, Options};
use calls::*;
use cudarc::cublaslt::sys;
use layouts::*;
use std::ptr::null_mut;

#[test]
fn what_contradicts_itself_is_refused() {
    let machine = machine(options());
    let lt_handle = handle();
    let plain = || product(68, F32);
    let at = || [upload(&[1.0_f32; 64]), upload(&[1.0_f32; 64]), alloc(256)];
    let s = square(F32, 8);
    let null = std::ptr::null();
    let run = |described, at, lies| multiply(lt_handle, described, at, lies, null, (0, 0));
    let cases: &[(&str, u32, &dyn Fn() -> u32)] = &[
        ("all is well", 0, &|| run(plain(), at(), [s; 3])),
        ("a leading dimension less than the rows", 7, &|| run(plain(), at(), [Lies { leading: 7, ..s }, s, s])),
        ("sizes that do not fit", 7, &|| run(plain(), at(), [Lies { columns: 4, ..s }, s, s])),
        ("a D of another size", 7, &|| run(plain(), at(), [s, s, Lies { rows: 4, ..s }])),
        ("batches that differ", 7, &|| run(plain(), at(), [Lies { batch: 2, ..s }, s, s])),
        ("outputs that overlap", 7, &|| run(plain(), at(), [Lies { batch: 2, ..s }, Lies { batch: 2, ..s }, Lies { batch: 2, stride: 8, ..s }])),
        ("no rows", 7, &|| run(plain(), at(), [Lies { rows: 0, ..s }, s, s])),
        ("no address", 7, &|| run(plain(), [0, at()[1], at()[2]], [s; 3])),
        ("an address between elements", 7, &|| run(plain(), [at()[0] + 2, at()[1], at()[2]], [Lies { rows: 4, leading: 4, columns: 4, ..s }; 3])),
        ("types that do not go together", 15, &|| run(product(68, F32), at(), [square(F16, 8), s, s])),
        ("f64 summed in f32", 15, &|| run(product(68, F32), at(), [square(F64, 4); 3])),
        ("a scale type of another kind", 15, &|| run(product(68, F64), at(), [s; 3])),
        ("a bias that is nowhere", 7, &|| {
            let d = plain();
            set(d, 7, 4_u32);
            run(d, at(), [s; 3])
        }),
        ("a mask whose leading dimension is no multiple of 128", 7, &|| {
            let d = plain();
            set(d, 7, 130_u32);
            set(d, 11, upload(&[0_u8; 256]));
            set(d, 12, 64_i64);
            run(d, at(), [s; 3])
        }),
        ("an epilogue there is not", 7, &|| {
            let d = plain();
            set(d, 7, 5_u32);
            run(d, at(), [s; 3])
        }),
        ("int8 that is not transposed", 15, &|| run(product(72, I32), at(), [square(I8, 8), square(I8, 8), square(I32, 8)])),
        ("a factor of a matrix that needs none", 7, &|| {
            let d = plain();
            set(d, 17, upload(&[1.0_f32]));
            run(d, at(), [s; 3])
        }),
        ("an algorithm made by nobody", 7, &|| multiply(lt_handle, plain(), at(), [s; 3], &sys::cublasLtMatmulAlgo_t { data: [7; 8] }, (0, 0))),
        ("a handle that is none", 1, &|| multiply(null_mut(), plain(), at(), [s; 3], null, (0, 0))),
        ("a descriptor of another kind", 7, &|| run(s.layout().cast(), at(), [s; 3])),
    ];
    for (what, answer, act) in cases {
        assert_eq!(act(), *answer, "{what}");
    }
    assert_eq!(cu!(cuCtxSynchronize()), 0);
    assert_eq!(machine.emulator.findings(), []);
    // What is beyond an allocation is met by the card, not by the library.
    assert_eq!(run(plain(), [at()[0] + 128, at()[1], at()[2]], [s; 3]), 0);
    assert_eq!(cu!(cuCtxSynchronize()), 700);
    assert_eq!(machine.emulator.findings()[0].kind, FindingKind::OutOfBounds);
}
#[test]
fn epilogues_are_refused_as_the_header_says() {
    let machine = machine(options());
    let (lt_handle, null) = (handle(), std::ptr::null());
    let at = |bytes: usize| [upload(&vec![0_u8; bytes]), upload(&vec![0_u8; bytes]), alloc(bytes)];
    // A product of 16 x 16 with an epilogue, whose attributes are these.
    let run = |kind: u32, code: u32, attributes: &[(u32, u64)]| {
        let (compute, scale) = if kind == F64 { (70, F64) } else { (68, F32) };
        let d = product(compute, scale);
        set(d, 7, code);
        for (which, value) in attributes {
            // The dtypes of the bias and of the auxiliary matrix are words.
            if matches!(which, 22 | 26) { set(d, *which, *value as u32) } else { set(d, *which, *value) }
        }
        multiply(lt_handle, d, at(2048), [square(kind, 16); 3], null, (0, 0))
    };
    let there = || upload(&[0_u8; 4096]);
    let (f32s, bf16s) = (u64::from(F32), u64::from(BF16));
    let (bias, gelu, relu_bias, gelu_bias, gelu_aux, relu_aux, gelu_back) = (4, 32, 6, 36, 160, 130, 192);
    let cases: &[(&str, u32, u32)] = &[
        ("a bias", 0, run(BF16, bias, &[(8, there())])),
        ("a bias of the result's dtype, by name", 0, run(BF16, bias, &[(8, there()), (26, bf16s)])),
        ("a bias of f32 behind bf16", 15, run(BF16, bias, &[(8, there()), (26, f32s)])),
        ("a bias of bf16 behind f32", 15, run(F32, bias, &[(8, there()), (26, bf16s)])),
        ("a bias between elements", 7, run(F32, bias, &[(8, there() + 2)])),
        ("no bias where ReLU wants one", 7, run(F32, relu_bias, &[])),
        ("no bias where GELU wants one", 7, run(F32, gelu_bias, &[])),
        ("GELU behind f64", 15, run(F64, gelu, &[])),
        ("GELU that keeps what it was given", 0, run(BF16, gelu_aux, &[(11, there()), (12, 16)])),
        ("where it is kept is nowhere", 7, run(BF16, gelu_aux, &[(12, 16)])),
        ("its leading dimension is no multiple of 8", 7, run(BF16, gelu_aux, &[(11, there()), (12, 20)])),
        ("its leading dimension is less than the rows", 7, run(BF16, gelu_aux, &[(11, there()), (12, 8)])),
        ("it is not aligned to 16 bytes", 15, run(BF16, gelu_aux, &[(11, there() + 8), (12, 16)])),
        ("it is of another dtype", 7, run(BF16, gelu_aux, &[(11, there()), (12, 16), (22, f32s)])),
        ("ReLU's mask of 16 bits a column", 7, run(BF16, relu_aux, &[(11, there()), (12, 16)])),
        ("ReLU's mask of 128 bits a column", 0, run(BF16, relu_aux, &[(11, there()), (12, 128)])),
        ("GELU's backward without what it was given", 7, run(BF16, gelu_back, &[(12, 16)])),
        ("GELU's backward", 0, run(BF16, gelu_back, &[(11, there()), (12, 16)])),
    ];
    for (what, expected, answer) in cases {
        assert_eq!(answer, expected, "{what}");
    }
    assert_eq!(cu!(cuCtxSynchronize()), 0);
    assert_eq!(machine.emulator.findings(), []);
    // A bias that is shorter than the result has rows.
    assert_eq!(run(F32, bias, &[(8, upload(&[0.0_f32; 15]))]), 0);
    assert_eq!(cu!(cuCtxSynchronize()), 700);
    assert_eq!(machine.emulator.findings()[0].kind, FindingKind::OutOfBounds);
}
#[test]
fn inputs_that_nobody_wrote_are_found() {
    let machine = machine(options());
    let s = square(F32, 8);
    assert_eq!(multiply(handle(), product(68, F32), [alloc(256), upload(&[1.0_f32; 64]), alloc(256)], [s; 3], std::ptr::null(), (0, 0)), 0);
    assert_eq!(cu!(cuCtxSynchronize()), 719);
    assert_eq!(machine.emulator.findings()[0].kind, FindingKind::ReadBeforeWritten);
}
#[test]
fn older_cards_lack_types() {
    for (profile, kind, answer) in [("sm_75", BF16, 8), ("sm_75", F16, 0), ("sm_80", BF16, 0), ("sm_80", E4M3, 8), ("sm_120", E4M3, 0)] {
        let _machine = machine(Options { profile: profile.into(), ..options() });
        let (s, out) = (square(kind, 16), square(if kind == E4M3 { F16 } else { kind }, 16));
        let d = product(68, F32);
        set(d, 3, 1_i32);
        let inputs = || upload(&vec![0_u8; 512]);
        assert_eq!(multiply(handle(), d, [inputs(), inputs(), alloc(512)], [s, s, out], std::ptr::null(), (0, 0)), answer, "{profile} {kind}");
    }
}

/// What is offered for a product.
fn offers(
    lt_handle: sys::cublasLtHandle_t,
    described: sys::cublasLtMatmulDesc_t,
    lies: [Lies; 3],
    capacity: u64,
    alignment: u32,
) -> (u32, Vec<sys::cublasLtMatmulHeuristicResult_t>) {
    let mut preference = null_mut();
    assert_eq!(lt!(cublasLtMatmulPreferenceCreate(&mut preference)), 0);
    let put = |which: u32, value: u64, bytes: usize| {
        // SAFETY: the numbers are of the enumeration.
        let which = unsafe { std::mem::transmute::<u32, sys::cublasLtMatmulPreferenceAttributes_t>(which) };
        assert_eq!(lt!(cublasLtMatmulPreferenceSetAttribute(preference, which, (&raw const value).cast(), bytes)), 0);
    };
    put(1, capacity, 8);
    (5..=8).for_each(|which| put(which, u64::from(alignment), 4));
    let layouts = lies.map(|l| l.layout());
    // SAFETY: zeros are a value of it.
    let mut results: [sys::cublasLtMatmulHeuristicResult_t; 8] = unsafe { std::mem::zeroed() };
    let mut count = -1;
    let answer = lt!(cublasLtMatmulAlgoGetHeuristic(
        lt_handle,
        described,
        layouts[0],
        layouts[1],
        layouts[2],
        layouts[2],
        preference,
        8,
        results.as_mut_ptr(),
        &mut count
    ));
    (answer, results[..count.max(0) as usize].to_vec())
}
#[test]
fn what_is_offered_fits_alignment_and_workspace_and_is_held_to_it() {
    let _machine = machine(options());
    let lt_handle = handle();
    let s = square(F32, 8);
    let (answer, all) = offers(lt_handle, product(68, F32), [s; 3], 1 << 20, 256);
    assert_eq!((answer, all.len()), (0, 4));
    let needs: Vec<usize> = all.iter().map(|o| o.workspaceSize).collect();
    assert!(needs[0] > 0 && needs[1..] == [0; 3]);
    assert_eq!(offers(lt_handle, product(68, F32), [s; 3], 0, 256).1.len(), 3, "no capacity, none that wants some");
    assert_eq!(offers(lt_handle, product(68, F32), [s; 3], 0, 4).1.len(), 2, "addresses in multiples of 4");
    let odd = Lies { leading: 9, ..s };
    assert_eq!(offers(lt_handle, product(68, F32), [odd, s, s], 0, 256).1.len(), 2, "a leading dimension that is odd");
    let biased = product(68, F32);
    set(biased, 7, 4_u32);
    assert_eq!(offers(lt_handle, biased, [s; 3], 0, 256).0, 7, "the bias is not set yet");
    let bias = upload(&[1.0_f32; 16]);
    set(biased, 8, bias + 4);
    assert_eq!(offers(lt_handle, biased, [s; 3], 0, 256).1.len(), 2, "judged by where the bias is");

    let at = [upload(&[1.0_f32; 128]), upload(&[1.0_f32; 64]), alloc(256)];
    let run = |words: &sys::cublasLtMatmulHeuristicResult_t, at, lies, workspace| multiply(lt_handle, product(68, F32), at, lies, &words.algo, workspace);
    let workspace = alloc(1 << 20);
    assert_eq!(run(&all[0], at, [s; 3], (workspace, needs[0])), 0);
    assert_eq!(run(&all[0], at, [s; 3], (workspace, needs[0] - 1)), 7);
    assert_eq!(run(&all[0], at, [s; 3], (0, needs[0])), 7);
    assert_eq!(run(&all[1], at, [s; 3], (0, 0)), 0);
    assert_eq!(run(&all[1], [at[0] + 4, at[1], at[2]], [s; 3], (0, 0)), 7, "aligned worse than was asked for");
    assert_eq!(run(&all[2], [at[0] + 4, at[1], at[2]], [s; 3], (0, 0)), 0);
    assert_eq!(run(&all[1], at, [Lies { columns: 4, ..s }, Lies { rows: 4, leading: 4, ..s }, s], (0, 0)), 7, "made for another product");
}
#[test]
fn a_stubborn_library_offers_nothing_or_what_fails_by_seed() {
    let (mut none, mut fails, mut works) = (0, 0, 0);
    for seed in 0..40 {
        let _machine = machine(Options { stubborn: true, ..seeded(seed) });
        let (lt_handle, s) = (handle(), square(F32, 8));
        let (answer, all) = offers(lt_handle, product(68, F32), [s; 3], 0, 256);
        if answer != 0 {
            assert_eq!((answer, all.len()), (15, 0));
            none += 1;
            continue;
        }
        for offer in all {
            let at = [upload(&[1.0_f32; 64]), upload(&[1.0_f32; 64]), alloc(256)];
            match multiply(lt_handle, product(68, F32), at, [s; 3], &offer.algo, (0, 0)) {
                0 => works += 1,
                13 | 15 => fails += 1,
                other => panic!("{other}"),
            }
        }
    }
    assert!(none > 3 && fails > 10 && works > 30, "{none} {fails} {works}");
}
#[test]
fn a_product_is_a_node_of_a_graph_and_one_workspace_of_two_streams_is_found() {
    let machine = machine(options());
    let (lt_handle, s) = (handle(), square(F32, 8));
    let (described, workspace) = (product(68, F32), alloc(1 << 20));
    let (_, all) = offers(lt_handle, described, [s; 3], 1 << 20, 256);
    let at = || [upload(&[1.0_f32; 64]), upload(&[2.0_f32; 64]), alloc(256)];
    let layouts = [s.layout(), s.layout(), s.layout()];
    let (one, zero) = (1.0_f32, 0.0_f32);
    let run = |at: [u64; 3], stream: cudarc::driver::sys::CUstream| {
        lt!(cublasLtMatmul(
            lt_handle,
            described,
            (&raw const one).cast(),
            at[0] as *const _,
            layouts[0],
            at[1] as *const _,
            layouts[1],
            (&raw const zero).cast(),
            std::ptr::null(),
            layouts[2],
            at[2] as *mut _,
            layouts[2],
            &all[0].algo,
            workspace as *mut _,
            1 << 20,
            stream.cast(),
        ))
    };
    let (captured, mut graph, mut executable) = (stream(), null_mut(), null_mut());
    let buffers = at();
    assert_eq!(cu!(cuStreamBeginCapture_v2(captured, cudarc::driver::sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_GLOBAL)), 0);
    let refused = offers(lt_handle, described, [s; 3], 0, 256).0;
    assert_eq!(refused, 15, "the heuristic is asked before a capture");
    let mut gone = null_mut();
    assert_eq!(cu!(cuStreamEndCapture(captured, &mut gone)), 901);
    assert_eq!(cu!(cuStreamBeginCapture_v2(captured, cudarc::driver::sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_GLOBAL)), 0);
    assert_eq!(run(buffers, captured), 0);
    assert_eq!(cu!(cuStreamEndCapture(captured, &mut graph)), 0);
    assert_eq!(cu!(cuGraphInstantiateWithFlags(&mut executable, graph, 0)), 0);
    for k in 1..4 {
        assert_eq!(cu!(cuMemsetD32_v2(buffers[0], (k as f32).to_bits(), 64)), 0);
        assert_eq!(cu!(cuCtxSynchronize()), 0);
        assert_eq!(cu!(cuGraphLaunch(executable, captured)), 0);
        assert_eq!(cu!(cuStreamSynchronize(captured)), 0);
        assert_eq!(download::<f32>(buffers[2], 64), [k as f32 * 16.0; 64]);
    }
    assert_eq!(machine.emulator.findings(), []);
    let (first, second) = (at(), at());
    assert_eq!((run(first, stream()), run(second, stream())), (0, 0));
    assert_eq!(cu!(cuCtxSynchronize()), 0);
    assert_eq!(machine.emulator.findings()[0].kind, FindingKind::MissingEvent);
}
#[test]
fn what_is_to_go_wrong_goes_wrong() {
    let machine = machine(options());
    let (lt_handle, s) = (handle(), square(F32, 8));
    let result = |compute: u32, code: u32| {
        let described = product(compute, F32);
        set(described, 7, code);
        set(described, 8, upload(&[1.0_f32; 8]));
        let at = [upload(&[1.1_f32; 64]), upload(&[1.0_f32; 64]), alloc(256)];
        assert_eq!(multiply(lt_handle, described, at, [s; 3], std::ptr::null(), (0, 0)), 0);
        download::<f32>(at[2], 1)[0]
    };
    let right = [result(68, 4), result(77, 1)];
    assert!((right[0] - 9.8).abs() < 1e-5 && (right[1] - 8.8).abs() < 5e-3, "{right:?}");
    machine.emulator.set_wrong(&[EmulatedFault::Epilogue, EmulatedFault::Tf32]);
    let wrong = [result(68, 4), result(77, 1), result(68, 1)];
    assert!((wrong[0] - 8.8).abs() < 1e-5 && wrong[1] == 9.0 && (wrong[2] - 8.8).abs() < 1e-5, "{wrong:?}");
}
#[test]
fn descriptors_have_the_sizes_and_first_values_of_the_library() {
    let _machine = machine(options());
    let (described, layout, mut preference) = (product(68, F32), square(F32, 8).layout(), null_mut());
    assert_eq!(lt!(cublasLtMatmulPreferenceCreate(&mut preference)), 0);
    // Number, bytes, first value, as libcublasLt 13 itself answers, which needs no card for it.
    let of_product: &[(u32, usize, u64)] = &[
        (0, 4, 68),
        (1, 4, 0),
        (2, 4, 0),
        (3, 4, 0),
        (5, 4, 0),
        (6, 4, 2),
        (7, 4, 1),
        (8, 8, 0),
        (10, 8, 0),
        (12, 8, 0),
        (15, 4, 0),
        (17, 8, 0),
        (21, 8, 0),
        (22, 4, 0xffff_ffff),
        (25, 1, 0),
        (26, 4, 0xffff_ffff),
        (31, 4, 0),
        (36, 8, 0),
        (37, 4, 0),
    ];
    let of_layout: &[(u32, usize, u64)] = &[(0, 4, 0), (1, 4, 0), (2, 8, 8), (4, 8, 8), (5, 4, 1), (6, 8, 0), (7, 8, 0), (8, 4, 0)];
    let of_preference: &[(u32, usize, u64)] = &[(0, 4, 0), (1, 8, 0), (3, 4, 7), (5, 4, 256), (8, 4, 256), (9, 4, 0), (12, 8, u64::MAX)];
    for (which, bytes, first) in of_product {
        // SAFETY: it is a number of the enumeration.
        let name = unsafe { std::mem::transmute::<u32, sys::cublasLtMatmulDescAttributes_t>(*which) };
        let (mut value, mut written) = (0_u64, 0);
        assert_eq!(lt!(cublasLtMatmulDescGetAttribute(described, name, null_mut(), 0, &mut written)), 0);
        assert_eq!(written, *bytes, "product, {which}");
        assert_eq!(lt!(cublasLtMatmulDescGetAttribute(described, name, (&raw mut value).cast(), *bytes, &mut written)), 0);
        assert_eq!(value, *first, "product, {which}");
        assert_eq!(lt!(cublasLtMatmulDescGetAttribute(described, name, (&raw mut value).cast(), bytes + 1, &mut written)), 7);
        assert_eq!(lt!(cublasLtMatmulDescSetAttribute(described, name, (&raw const value).cast(), bytes + 1)), 7);
        assert_eq!(lt!(cublasLtMatmulDescSetAttribute(described, name, std::ptr::null(), *bytes)), 7);
    }
    for (which, bytes, first) in of_layout {
        // SAFETY: it is a number of the enumeration.
        let name = unsafe { std::mem::transmute::<u32, sys::cublasLtMatrixLayoutAttribute_t>(*which) };
        let (mut value, mut written) = (0_u64, 0);
        assert_eq!(lt!(cublasLtMatrixLayoutGetAttribute(layout, name, (&raw mut value).cast(), *bytes, &mut written)), 0);
        assert_eq!((value, written), (*first, *bytes), "layout, {which}");
    }
    for (which, bytes, first) in of_preference {
        // SAFETY: it is a number of the enumeration.
        let name = unsafe { std::mem::transmute::<u32, sys::cublasLtMatmulPreferenceAttributes_t>(*which) };
        let (mut value, mut written) = (0_u64, 0);
        assert_eq!(lt!(cublasLtMatmulPreferenceGetAttribute(preference, name, (&raw mut value).cast(), *bytes, &mut written)), 0);
        assert_eq!((value, written), (*first, *bytes), "preference, {which}");
    }
}
