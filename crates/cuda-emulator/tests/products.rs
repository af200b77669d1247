//! cuBLASLt's stand-in against products by three plain loops: random sizes, layouts, types and epilogues.
#![allow(unsafe_code, reason = "the library's functions are C's")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "the functions are unsafe by their kind, and the emulator looks everything up")]
mod calls;
mod layouts;

use adamant_cuda_emulator::Options;
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
    let lies = |draw: &mut Draw, kind: u32, rows: u64, columns: u64, by_rows: bool, shared: bool| {
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
#[test]
fn eight_bits_come_out_scaled_with_their_largest_value_told() {
    let _machine = machine(options());
    let lt_handle = handle();
    let eight = square(E4M3, 16);
    let described = product(68, F32);
    set(described, 3, 1_i32);
    let largest = alloc(4);
    set(described, 17, upload(&[0.5_f32]));
    set(described, 20, upload(&[4.0_f32]));
    set(described, 21, largest);
    let mut draw = Draw(5);
    let values = |draw: &mut Draw| -> Vec<f64> { (0..256).map(|_| draw.number()).collect() };
    let (a, b) = (values(&mut draw), values(&mut draw));
    let (a_at, b_at, d_at) = (upload(&encode(E4M3, &a)), upload(&encode(E4M3, &b)), alloc(256));
    let (one, zero) = (1.0_f32, 0.0_f32);
    let (input, c, d) = (eight.layout(), square(BF16, 16).layout(), eight.layout());
    let answer = lt!(cublasLtMatmul(
        lt_handle,
        described,
        (&raw const one).cast(),
        a_at as *const _,
        input,
        b_at as *const _,
        input,
        (&raw const zero).cast(),
        std::ptr::null(),
        c,
        d_at as *mut _,
        d,
        std::ptr::null(),
        null_mut(),
        0,
        null_mut(),
    ));
    assert_eq!(answer, 0);
    let got = decode(E4M3, &download::<u8>(d_at, 256));
    let mut most = 0.0_f64;
    for i in 0..16 {
        for j in 0..16 {
            let x = 0.5 * (0..16).map(|l| a[i * 16 + l] * b[j * 16 + l]).sum::<f64>();
            most = most.max(x.abs());
            let error = (got[j * 16 + i] - 4.0 * x).abs();
            assert!(error <= (4.0 * x).abs() / 16.0 + 1e-3, "[{i}, {j}]: {} for {}", got[j * 16 + i], 4.0 * x);
        }
    }
    assert_eq!(download::<f32>(largest, 1), [most as f32]);
}
#[test]
fn factors_come_one_for_each_row() {
    let _machine = machine(options());
    let (lt_handle, s) = (handle(), square(F32, 8));
    let alphas: Vec<f32> = (0..16).map(|k| k as f32).collect();
    // Alpha and beta for each row; alpha alone, without C; alpha with a beta of the host's, another for each of the batch.
    for mode in [2_i32, 3, 4] {
        let batch = if mode == 4 { 2 } else { 1 };
        let lies = Lies { batch, stride: 64, ..s };
        let layout = lies.layout();
        let described = product(68, F32);
        set(described, 2, mode);
        let beta = 0.5_f32;
        let beta_at: *const std::ffi::c_void = match mode {
            2 => upload(&[2.0_f32; 8]) as *const _,
            3 => std::ptr::null(),
            _ => (&raw const beta).cast(),
        };
        if mode == 4 {
            set(described, 14, 8_i64);
        }
        let count = 64 * batch as usize;
        let ones = || upload(&vec![1.0_f32; count]);
        let (a, b, c, d) = (ones(), ones(), ones(), alloc(4 * count));
        let alpha = upload(&alphas) as *const _;
        let answer = lt!(cublasLtMatmul(
            lt_handle,
            described,
            alpha,
            a as *const _,
            layout,
            b as *const _,
            layout,
            beta_at,
            c as *const _,
            layout,
            d as *mut _,
            layout,
            std::ptr::null(),
            null_mut(),
            0,
            null_mut(),
        ));
        assert_eq!(answer, 0, "mode {mode}");
        let added = [2.0, 0.0, 0.5][mode as usize - 2];
        for (k, value) in download::<f32>(d, count).into_iter().enumerate() {
            let row = k / 64 * 8 + k % 8;
            assert_eq!(value, 8.0 * alphas[row] + added, "mode {mode}, {k}");
        }
    }
}
