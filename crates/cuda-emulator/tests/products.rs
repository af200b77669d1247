//! cuBLASLt's stand-in against products by three plain loops: random sizes, layouts, types and epilogues; and what it refuses.
#![allow(unsafe_code, reason = "the library's functions are C's")]
mod calls;
mod layouts;

use adamant_cuda_emulator::{FindingKind, Options, Wrong};
use calls::*;
use cudarc::cublaslt::sys;
use layouts::*;
use std::ptr::null_mut;

/// What a product is made of.
#[derive(Clone, Copy)]
struct Kinds {
    compute: u32,
    scale: u32,
    input: u32,
    output: u32,
    bias: u32,
    /// What one rounding of the output, or of the sums, may be off, relative.
    slack: f64,
}
const KINDS: &[Kinds] = &[
    Kinds { compute: 70, scale: F64, input: F64, output: F64, bias: F64, slack: 1e-14 },
    Kinds { compute: 68, scale: F32, input: F32, output: F32, bias: F32, slack: 3e-7 },
    Kinds { compute: 77, scale: F32, input: F32, output: F32, bias: F32, slack: 3e-7 },
    Kinds { compute: 68, scale: F32, input: F16, output: F16, bias: F16, slack: 6e-4 },
    Kinds { compute: 68, scale: F32, input: F16, output: F32, bias: F32, slack: 3e-7 },
    Kinds { compute: 64, scale: F16, input: F16, output: F16, bias: F16, slack: 6e-3 },
    Kinds { compute: 68, scale: F32, input: BF16, output: BF16, bias: BF16, slack: 5e-3 },
    Kinds { compute: 68, scale: F32, input: BF16, output: F32, bias: F32, slack: 3e-7 },
    Kinds { compute: 72, scale: I32, input: I8, output: I32, bias: I32, slack: 0.0 },
    Kinds { compute: 68, scale: F32, input: E4M3, output: BF16, bias: BF16, slack: 5e-3 },
    Kinds { compute: 68, scale: F32, input: E4M3, output: F32, bias: BF16, slack: 3e-7 },
];
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
}

/// A random product: what goes in and how it lies.
struct Asked {
    kinds: Kinds,
    code: u32,
    sizes: [u64; 3],
    batch: u64,
    transposed: [bool; 2],
    lies: [Lies; 4],
    values: [Vec<f64>; 3],
    alpha: f64,
    beta: f64,
    scales: [f64; 2],
    longer: u64,
    bias: Vec<f64>,
    aux: [u64; 2],
    before: Vec<f64>,
    mask: Vec<u8>,
}
/// What came out.
struct Came {
    d: Vec<f64>,
    aux: Vec<u8>,
    vector: Vec<f64>,
}

/// One random product of these kinds with this epilogue, against three loops.
fn check(draw: &mut Draw, kinds: Kinds, code: u32, lt_handle: sys::cublasLtHandle_t, stream: *mut cudarc::driver::sys::CUstream_st) {
    let asked = ask(draw, kinds, code);
    let from_device = draw.below(2) == 1;
    let came = run(&asked, from_device, lt_handle, stream);
    compare(&asked, &came);
}
/// Draws a product.
fn ask(draw: &mut Draw, kinds: Kinds, code: u32) -> Asked {
    let narrow = matches!(kinds.input, I8 | E4M3);
    let side = |draw: &mut Draw| if narrow { 16 * (1 + draw.below(3)) } else { 1 + draw.below(20) };
    let (m, n, k) = (side(draw), side(draw), side(draw));
    let (ta, tb) = if narrow { (true, false) } else { (draw.below(2) == 1, draw.below(2) == 1) };
    let plain = narrow || code != 1;
    let batch = 1 + draw.below(3);
    let mut lies = |draw: &mut Draw, kind: u32, rows: u64, columns: u64, by_rows: bool, shared: bool| {
        let line = if by_rows { columns } else { rows };
        let padding = draw.below(3) * if narrow { 16 } else { 1 };
        let leading = line + padding;
        let lines = if by_rows { rows } else { columns };
        let stride = if shared { 0 } else { lines * leading + draw.below(2) * 16 };
        Lies { kind, rows, columns, leading, by_rows, batch, stride }
    };
    let order = |draw: &mut Draw| !plain && draw.below(3) == 0;
    let (a_order, b_order, d_order) = (!narrow && order(draw), !narrow && order(draw), order(draw));
    let shared = draw.below(4) == 0;
    let a = if ta { lies(draw, kinds.input, k, m, a_order, shared) } else { lies(draw, kinds.input, m, k, a_order, shared) };
    let b = if tb { lies(draw, kinds.input, n, k, b_order, false) } else { lies(draw, kinds.input, k, n, b_order, false) };
    let (c, d) = (lies(draw, kinds.output, m, n, d_order, false), lies(draw, kinds.output, m, n, d_order, false));
    let values = |draw: &mut Draw, l: &Lies| -> Vec<f64> {
        (0..l.elements()).map(|_| if kinds.input == I8 { draw.below(9) as f64 - 4.0 } else { draw.number() }).collect()
    };
    let (av, bv, cv) = (values(draw, &a), values(draw, &b), values(draw, &c));
    let whole = kinds.scale == I32;
    let (alpha, beta) = if whole { (2.0, draw.pick(&[0.0, 3.0])) } else { (draw.pick(&[1.0, -0.5]), draw.pick(&[0.0, 1.0, 0.25])) };
    let longer = m.max(n);
    let bias: Vec<f64> = (0..longer * batch).map(|_| draw.number()).collect();
    let bits = code & 2 != 0 || code == 136 || code == 152;
    let aux_leading = m.next_multiple_of(if bits { 128 } else { 8 });
    let aux_stride = aux_leading * n;
    let before: Vec<f64> = (0..aux_stride * batch).map(|_| draw.number()).collect();
    let mask: Vec<u8> = (0..aux_stride * batch / 8).map(|_| draw.next() as u8).collect();
    let scales = if kinds.input == E4M3 { [0.5, 4.0] } else { [1.0, 1.0] };
    let (lies, values) = ([a, b, c, d], [av, bv, cv]);
    Asked {
        kinds,
        code,
        sizes: [m, n, k],
        batch,
        transposed: [ta, tb],
        lies,
        values,
        alpha,
        beta,
        scales,
        longer,
        bias,
        aux: [aux_leading, aux_stride],
        before,
        mask,
    }
}
impl Asked {
    fn told(&self) -> String {
        let [m, n, k] = self.sizes;
        let Kinds { input, output, compute, .. } = self.kinds;
        let Asked { code, batch, transposed, alpha, beta, .. } = self;
        format!("{m}x{n}x{k} of {input} to {output}, compute {compute}, transposed {transposed:?}, batch {batch}, epilogue {code}, alpha {alpha} beta {beta}")
    }
    /// The auxiliary matrix is a mask of bits.
    fn bits(&self) -> bool {
        self.code & 2 != 0 || self.code == 136 || self.code == 152
    }
}
/// Runs a product.
fn run(asked: &Asked, from_device: bool, lt_handle: sys::cublasLtHandle_t, stream: *mut cudarc::driver::sys::CUstream_st) -> Came {
    let Asked { kinds, code, transposed: [ta, tb], lies: [a, b, c, d], values: [av, bv, cv], .. } = asked;
    let described = product(kinds.compute, kinds.scale);
    set(described, 3, i32::from(*ta));
    set(described, 4, i32::from(*tb));
    set(described, 7, *code);
    let bias_at = upload(&encode(kinds.bias, &asked.bias));
    set(described, 8, bias_at);
    set(described, 10, asked.longer as i64);
    let aux_at = if asked.bits() { upload(&asked.mask) } else { upload(&encode(kinds.output, &asked.before)) };
    if code & 128 != 0 {
        set(described, 11, aux_at);
        set(described, 12, asked.aux[0] as i64);
        set(described, 13, asked.aux[1] as i64);
    }
    if kinds.input == E4M3 {
        set(described, 17, upload(&[asked.scales[0] as f32]));
        set(described, 18, upload(&[asked.scales[1] as f32]));
    }
    let factors = [encode(kinds.scale, &[asked.alpha]), encode(kinds.scale, &[asked.beta])];
    let mut places: Vec<*const std::ffi::c_void> = factors.iter().map(|f| f.as_ptr().cast()).collect();
    if from_device {
        set(described, 2, 1_i32);
        places = factors.iter().map(|f| upload(f) as *const std::ffi::c_void).collect();
    }
    let at = |l: &Lies, v: &[f64]| upload(&encode(l.kind, v));
    let (a_at, b_at, c_at, d_at) = (at(a, av), at(b, bv), at(c, cv), at(d, &vec![3.0; d.elements()]));
    let answer = lt!(cublasLtMatmul(
        lt_handle,
        described,
        places[0],
        a_at as *const _,
        a.layout(),
        b_at as *const _,
        b.layout(),
        places[1],
        c_at as *const _,
        c.layout(),
        d_at as *mut _,
        d.layout(),
        std::ptr::null(),
        null_mut(),
        0,
        stream.cast(),
    ));
    let told = asked.told();
    assert_eq!(answer, 0, "{told}");
    assert_eq!(cu!(cuStreamSynchronize(stream)), 0, "{told}");

    Came {
        d: decode(kinds.output, &download::<u8>(d_at, d.elements() * size(d.kind))),
        aux: download::<u8>(aux_at, if asked.bits() { asked.mask.len() } else { asked.before.len() * size(kinds.output) }),
        vector: decode(kinds.bias, &download::<u8>(bias_at, asked.bias.len() * size(kinds.bias))),
    }
}
/// Holds what came out against three loops.
fn compare(asked: &Asked, came: &Came) {
    let Asked { kinds, code, sizes: [m, n, k], batch, transposed: [ta, tb], lies: [a, b, c, d], values: [av, bv, cv], .. } = asked;
    let Asked { alpha, beta, scales: [scale_a, scale_b], longer, bias, aux: [aux_leading, aux_stride], before, mask, .. } = asked;
    let (code, m, n, k, batch, ta, tb, longer) = (*code, *m, *n, *k, *batch, *ta, *tb, *longer);
    let (got, after, vector, told) = (&came.d, &came.aux, &came.vector, asked.told());
    let mut touched = vec![false; d.elements()];
    let close = |got: f64, want: f64, scale: f64, what: &str| {
        let allowed = kinds.slack * (scale + want.abs()) * 2.0;
        assert!((got - want).abs() <= allowed, "{told}: {what} {got}, not {want} (within {allowed})");
    };
    for z in 0..batch {
        let mut row_sums = vec![0.0; m as usize];
        let mut row_sizes = vec![0.0; m as usize];
        for i in 0..m {
            for j in 0..n {
                let (mut x, mut magnitude) = (0.0, 0.0);
                for l in 0..k {
                    let left = if ta { av[a.at(z, l, i)] } else { av[a.at(z, i, l)] };
                    let right = if tb { bv[b.at(z, j, l)] } else { bv[b.at(z, l, j)] };
                    x += left * right;
                    magnitude += (left * right).abs();
                }
                x = alpha * scale_a * scale_b * x + beta * cv[c.at(z, i, j)];
                magnitude = magnitude * (alpha * scale_a * scale_b).abs() + 3.0;
                if code & 4 != 0 && code != 1 {
                    x += bias[(z * longer + i) as usize];
                }
                let aux = (z * aux_stride + j * aux_leading + i) as usize;
                match code {
                    130 | 134 => assert_eq!(after[aux / 8] >> (aux % 8) & 1 == 1, x > 0.0, "{told}: mask"),
                    136 | 152 => x *= f64::from(mask[aux / 8] >> (aux % 8) & 1),
                    160 | 164 => close(decode(kinds.output, after)[aux], x, magnitude, "input of GELU"),
                    192 | 208 => {
                        // The slope by a central difference, which is as exact as these types are.
                        let h = 1e-4;
                        x *= (gelu(before[aux] + h) - gelu(before[aux] - h)) / (2.0 * h);
                    }
                    _ => {}
                }
                if code & 2 != 0 && code != 1 {
                    x = x.max(0.0);
                } else if code & 32 != 0 {
                    x = gelu(x);
                }
                row_sums[i as usize] += x;
                row_sizes[i as usize] += magnitude;
                touched[d.at(z, i, j)] = true;
                close(got[d.at(z, i, j)], x, magnitude, &format!("[{z}, {i}, {j}]"));
            }
        }
        for i in 0..m as usize {
            match code {
                152 | 208 => close(vector[(z * longer) as usize + i], row_sums[i], row_sizes[i], "gradient of the bias"),
                256 => {
                    let sum: f64 = (0..k).map(|l| if ta { av[a.at(z, l, i as u64)] } else { av[a.at(z, i as u64, l)] }).sum();
                    close(vector[(z * longer) as usize + i], sum, 20.0, "sums of A");
                }
                _ => {}
            }
        }
        for j in 0..if code == 512 { n } else { 0 } {
            let sum: f64 = (0..k).map(|l| if tb { bv[b.at(z, j, l)] } else { bv[b.at(z, l, j)] }).sum();
            close(vector[(z * longer + j) as usize], sum, 20.0, "sums of B");
        }
    }
    for (k, _) in touched.iter().enumerate().filter(|(_, t)| !**t) {
        assert_eq!(got[k], 3.0, "{told}: what lies between the columns of D is not D's");
    }
}

#[test]
fn products_are_those_of_three_loops() {
    let machine = machine(Options { memory: Some(4 << 30), ..options() });
    let (lt_handle, stream) = (handle(), stream());
    let mut draw = Draw(1);
    for kinds in KINDS {
        for _ in 0..40 {
            check(&mut draw, *kinds, 1, lt_handle, stream);
        }
    }
    assert_eq!(machine.emulator.findings(), []);
}
#[test]
fn epilogues_are_those_of_loops() {
    let machine = machine(Options { memory: Some(4 << 30), ..options() });
    let (lt_handle, stream) = (handle(), stream());
    let mut draw = Draw(2);
    for kinds in KINDS.iter().filter(|k| k.compute != 72 && k.compute != 64) {
        for code in [2, 4, 6, 32, 36, 130, 134, 160, 164, 136, 152, 192, 208, 256, 512] {
            let back = matches!(code, 136 | 152 | 192 | 208 | 256 | 512);
            let refused = kinds.input == F64 && !matches!(code, 2 | 4 | 6) || kinds.input == E4M3 && back;
            for _ in 0..if refused { 0 } else { 4 } {
                check(&mut draw, *kinds, code, lt_handle, stream);
            }
        }
    }
    assert_eq!(machine.emulator.findings(), []);
}
#[test]
fn what_takes_tf32_rounds_its_inputs_and_else_not() {
    let _machine = machine(options());
    let (lt_handle, value) = (handle(), 1.0 + 2_f32.powi(-12));
    for (compute, expected) in [(68, value), (77, 1.0)] {
        let one = Lies { kind: F32, rows: 1, columns: 1, leading: 1, by_rows: false, batch: 1, stride: 0 };
        let (a, b, d) = (upload(&[value]), upload(&[1.0_f32]), alloc(4));
        assert_eq!(multiply(lt_handle, product(compute, F32), [a, b, d], [one; 3], null_mut(), (0, 0)), 0);
        assert_eq!(download::<f32>(d, 1), [expected]);
    }
}
/// A product without C.
fn multiply(
    lt_handle: sys::cublasLtHandle_t,
    described: sys::cublasLtMatmulDesc_t,
    at: [u64; 3],
    lies: [Lies; 3],
    words: *const sys::cublasLtMatmulAlgo_t,
    workspace: (u64, usize),
) -> u32 {
    let (one, zero) = (1.0_f32, 0.0_f32);
    let layouts = lies.map(|l| l.layout());
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
        words,
        workspace.0 as *mut _,
        workspace.1,
        null_mut(),
    ))
}
fn square(kind: u32, side: u64) -> Lies {
    Lies { kind, rows: side, columns: side, leading: side, by_rows: false, batch: 1, stride: 0 }
}

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
    let mut put = |which: u32, value: u64, bytes: usize| {
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
    machine.emulator.set_wrong(&[Wrong::Epilogue, Wrong::Tf32]);
    let wrong = [result(68, 4), result(77, 1), result(68, 1)];
    assert!((wrong[0] - 8.8).abs() < 1e-5 && wrong[1] == 9.0 && (wrong[2] - 8.8).abs() < 1e-5, "{wrong:?}");
}
