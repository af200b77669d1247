//! Matrix products: single, batched, in bf16, and the dense layer.
use crate::quant::token;
use adamant::{
    DType, Error, Tensor,
    functional::{PackedWeight, QuantizedInput, linear, quantized_linear},
};
use adamant_bench::{
    Checked, Group, Prepared, Rate, Scale, Workload,
    check::{BF16, F16, F32, check},
    ensure,
    inputs::uniform,
};
use adamant_core::composite::packed::Packing;

/// m, n, k and how the operands are stored (n: as named, t: transposed); the name's tail.
const PRODUCTS: &[(&str, usize, usize, usize, [bool; 2])] = &[
    ("64", 64, 64, 64, [false, false]),
    ("128", 128, 128, 128, [false, false]),
    ("256", 256, 256, 256, [false, false]),
    ("512", 512, 512, 512, [false, false]),
    ("1024", 1024, 1024, 1024, [false, false]),
    ("2048", 2048, 2048, 2048, [false, false]),
    ("4096", 4096, 4096, 4096, [false, false]),
    ("m1_n768_k3072_nn", 1, 768, 3072, [false, false]),
    ("m1_n768_k3072_nt", 1, 768, 3072, [false, true]),
    ("m64_n768_k768_nn", 64, 768, 768, [false, false]),
    ("m64_n768_k768_nt", 64, 768, 768, [false, true]),
    ("m1024_n2304_k768_nn", 1024, 2304, 768, [false, false]),
    ("m1024_n2304_k768_nt", 1024, 2304, 768, [false, true]),
    ("m1024_n3072_k768_nn", 1024, 3072, 768, [false, false]),
    ("m1024_n3072_k768_nt", 1024, 3072, 768, [false, true]),
    ("m1024_n3072_k768_tn", 1024, 3072, 768, [true, false]),
];

/// The family.
pub fn workloads() -> Vec<Workload> {
    let mut all = Vec::new();
    for &(tail, m, n, k, stored) in PRODUCTS {
        all.push(multiplication(format!("gemm_f32_{tail}"), 1, [m, n, k], move |s, dtype| product(s, dtype, 1, [m, n, k], stored)));
    }
    for (tail, stored) in [("nn", [false, false]), ("nt", [false, true])] {
        let name = format!("bmm_f32_48_256x64x256_{tail}");
        all.push(multiplication(name, 48, [256, 256, 64], move |s, dtype| product(s, dtype, s.of(48, 3), [256, 256, 64], stored)));
    }
    for n in [1024usize, 2048] {
        let w = narrow(format!("gemm_bf16_{n}"), 1, [n; 3], 2, move |s| product(s, DType::BF16, 1, [n, n, n], [false, false]));
        all.push(w.of_dtype("bf16"));
    }
    all.push(narrow("gemm_int8_1024".into(), 1, [1024; 3], 1, integers).of_dtype("int8"));
    for batch in [1usize, 32] {
        let sizes = [batch, 1024, 1024];
        all.push(multiplication(format!("linear_f32_1024_b{batch}"), 1, sizes, move |s, dtype| dense(s, dtype, batch)));
        let bytes = Packing { bits: 8, group: None, symmetric: true };
        let of_bytes = narrow(format!("qlinear_dyn_int8_1024_b{batch}"), 1, sizes, 1, move |s| quantized(s, 1024, batch, bytes));
        all.push(of_bytes.of_dtype("int8"));
        let nibbles = move |s: Scale| quantized(s, 4096, batch, Packing { bits: 4, group: Some(s.of(32, 11)), symmetric: true });
        all.push(narrow(format!("qlinear_int4_g32_4096_b{batch}"), 1, [batch, 4096, 4096], 1, nibbles).of_dtype("int4"));
    }
    all
}
/// Squares over the sizes.
pub fn sizes() -> Vec<Workload> {
    let square = |n: usize| multiplication(format!("matmul/{}", n * n), 1, [n; 3], move |s, dtype| product(s, dtype, 1, [n; 3], [false; 2]));
    [4usize, 8, 16, 32, 64, 128, 256, 512, 1024, 2048].map(|n| square(n).sized((n * n) as u64)).into()
}
/// Squares that fill an accelerator.
pub fn large() -> Vec<Workload> {
    let square = |n: usize, dtype: DType, word: &'static str| {
        let w = narrow(format!("gemm_{word}_{n}"), 1, [n; 3], 2, move |s| product(s, dtype, 1, [n; 3], [false; 2]));
        w.of_dtype(word).in_group(Group::Large)
    };
    vec![square(4096, DType::BF16, "bf16"), square(8192, DType::BF16, "bf16"), square(8192, DType::F16, "f16")]
}
/// Many small ones, so that a share of the work can be added.
pub fn selftest() -> Workload {
    let flop = Rate::Flop(2.0 * 128f64.powi(3));
    Workload::new("selftest_compute", flop, |s| product(s, DType::F32, 1, [128; 3], [false; 2])).in_group(Group::Selftest)
}
/// A product in f32, which has forms with operands of 16 bits.
fn multiplication(name: String, batch: usize, sizes: [usize; 3], build: impl Fn(Scale, DType) -> Checked<Prepared> + Copy + 'static) -> Workload {
    narrow(name, batch, sizes, 4, move |s| build(s, DType::F32)).with_precision(build)
}
/// A product of operands of so many bytes with its operations, and with the traffic of reading both and writing the result once.
fn narrow(name: String, batch: usize, [m, n, k]: [usize; 3], width: usize, build: impl Fn(Scale) -> Checked<Prepared> + 'static) -> Workload {
    let (flop, bytes) = (2 * batch * m * n * k, width * batch * (m * n + n * k + m * k));
    Workload::new(name, Rate::Flop(flop as f64), build).with_intensity(flop as f64 / bytes as f64)
}
/// A product of bytes into i32.
fn integers(scale: Scale) -> Checked<Prepared> {
    let n = scale.at_most(1024, 17);
    let host = |seed| uniform(n * n, seed).into_iter().map(|v| (v * 127.0).round() as i8).collect::<Vec<i8>>();
    let (x, y) = (host(1), host(2));
    let operand = |data: &[i8]| -> Result<Tensor, Error> {
        let t = Tensor::from_slice(data, [n, n]);
        t.materialize()?;
        t.ok()
    };
    let (a, b) = (operand(&x)?, operand(&y)?);
    let exact = move |flat: usize| {
        let (i, j) = (flat / n, flat % n);
        let terms = (0..n).map(|l| f64::from(x[i * n + l]) * f64::from(y[l * n + j]));
        terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
    };
    Ok(Prepared::output(move || a.cast(DType::I32).matmul(b.cast(DType::I32)), move |result| check(result, n, F32, &exact)))
}
/// y = x Wᵀ + b, square, of codes: those of W made before, of x 8 bits by row as it comes.
fn quantized(scale: Scale, n: usize, batch: usize, packing: Packing) -> Checked<Prepared> {
    let (n, batch) = (scale.at_most(n, 33), scale.at_most(batch, 3));
    let (xs, ws, bs) = (uniform(batch * n, 1), uniform(n * n, 2), uniform(n, 3));
    let operand = |data: &[f32], shape: &[usize]| -> Result<Tensor, Error> {
        let t = Tensor::from_slice(data, shape);
        t.materialize()?;
        t.ok()
    };
    let (x, w, b) = (operand(&xs, &[batch, n])?, operand(&ws, &[n, n])?, operand(&bs, &[n])?);
    let weight = PackedWeight::round(&w, packing)?;
    let (steps, group) = (weight.scale().to_vec::<f32>()?, packing.group.unwrap_or(n));
    let codes: Vec<i8> = match packing.bits {
        8 => weight.codes().to_vec()?,
        // The first of two in the low bits, 8 more than they are; a row ends with its byte.
        _ => {
            let bytes = weight.codes().to_vec::<u8>()?;
            let row = bytes.len() / n;
            (0..n * n).map(|k| ((bytes[k / n * row + k % n / 2] >> (k % n % 2 * 4)) & 15) as i8 - 8).collect()
        }
    };
    let missed = |(k, w): (usize, &f32)| (f64::from(codes[k]) * f64::from(steps[k / group]) - f64::from(*w)).abs() / f64::from(steps[k / group]);
    let most = ws.iter().enumerate().map(missed).fold(0.0, f64::max);
    ensure(most <= 0.5 + 1e-4, || format!("a code of the weight is {most} steps off"))?;
    let rows: Vec<(Vec<i64>, f32, i64)> = xs.chunks(n).map(|row| token(row, true)).collect();
    let exact = move |flat: usize| {
        let ((x, step, _), j) = (&rows[flat / n], flat % n);
        let of_group = |g: usize| {
            (g * group..(g + 1) * group).map(|l| x[l] * i64::from(codes[j * n + l])).sum::<i64>() as f64 * f64::from(steps[(j * n + g * group) / group])
        };
        let parts: Vec<f64> = (0..n / group).map(|g| of_group(g) * f64::from(*step)).collect();
        (parts.iter().sum::<f64>() + f64::from(bs[j]), parts.iter().map(|part| part.abs()).sum::<f64>() + f64::from(bs[j]).abs())
    };
    let run = move || quantized_linear(&x, &weight, Some(&b), QuantizedInput::PerToken { symmetric: true });
    Ok(Prepared::output(run, move |y| check(y, 1, F32, &exact)))
}

/// The numbers as a dtype has them, and half a unit of its last place.
fn rounded(dtype: DType) -> (fn(f32) -> f32, f64) {
    match dtype {
        DType::BF16 => (|x| adamant::bf16::from_f32(x).to_f32(), BF16),
        DType::F16 => (|x| adamant::f16::from_f32(x).to_f32(), F16),
        _ => (|x| x, F32),
    }
}
/// `batch` products of `[m, k]` and `[k, n]`.
fn product(scale: Scale, dtype: DType, batch: usize, sizes: [usize; 3], stored: [bool; 2]) -> Checked<Prepared> {
    let [m, n, k] = sizes.map(|size| scale.at_most(size, 17));
    let (round, epsilon) = rounded(dtype);
    let host = |n: usize, seed| uniform(n, seed).into_iter().map(round).collect::<Vec<f32>>();
    let (x, y) = (host(batch * m * k, 1), host(batch * k * n, 2));
    // Made of the transposed storage and transposed back by a view, as a user's weights are.
    let lead: &[usize] = if batch == 1 { &[] } else { &[batch] };
    let operand = |data: &[f32], rows: usize, columns: usize, transposed: bool| -> Result<Tensor, Error> {
        let sizes = if transposed { [columns, rows] } else { [rows, columns] };
        let t = Tensor::from_slice(data, [lead, &sizes].concat()).cast(dtype);
        t.materialize()?;
        if transposed { t.mt().ok() } else { t.ok() }
    };
    let (a, b) = (operand(&x, m, k, stored[0])?, operand(&y, k, n, stored[1])?);
    let at = |rows: usize, columns: usize, transposed: bool, p: usize, i: usize, j: usize| {
        p * rows * columns + if transposed { j * rows + i } else { i * columns + j }
    };
    let exact = move |flat: usize| {
        let (p, i, j) = (flat / (m * n), flat / n % m, flat % n);
        (0..k)
            .map(|l| x[at(m, k, stored[0], p, i, l)] as f64 * y[at(k, n, stored[1], p, l, j)] as f64)
            .fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
    };
    Ok(Prepared::output(move || a.matmul(&b), move |result| check(result, k, epsilon, &exact)))
}
/// y = x Wᵀ + b, square.
fn dense(scale: Scale, dtype: DType, batch: usize) -> Checked<Prepared> {
    let (n, batch) = (scale.at_most(1024, 33), scale.at_most(batch, 3));
    let (round, epsilon) = rounded(dtype);
    let host = |n: usize, seed| uniform(n, seed).into_iter().map(round).collect::<Vec<f32>>();
    let (xs, ws, bs) = (host(batch * n, 1), host(n * n, 2), host(n, 3));
    let operand = |data: &[f32], shape: &[usize]| -> Result<Tensor, Error> {
        let t = Tensor::from_slice(data, shape).cast(dtype);
        t.materialize()?;
        t.ok()
    };
    let (x, w, b) = (operand(&xs, &[batch, n])?, operand(&ws, &[n, n])?, operand(&bs, &[n])?);
    let exact = move |flat: usize| {
        let (i, j) = (flat / n, flat % n);
        let terms = (0..n).map(|l| xs[i * n + l] as f64 * ws[j * n + l] as f64).chain([bs[j] as f64]);
        terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
    };
    Ok(Prepared::output(move || linear(&x, &w, Some(&b)), move |y| check(y, n, epsilon, &exact)))
}
