//! Matrix products: single, batched, in bf16, and the dense layer.
use super::{
    harness::{Checked, Problem, Rate, Scale, Timed, Workload},
    inputs::{BF16, F32, check, tensor, uniform},
};
use adamant::{DType, Error, ErrorKind, Tensor, functional::linear, no_grad};
use std::hint::black_box;

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
    let flop = |n: usize| Rate::Flop(2.0 * n as f64);
    let mut all = Vec::new();
    for &(tail, m, n, k, stored) in PRODUCTS {
        all.push(Workload::new(format!("gemm_f32_{tail}"), flop(m * n * k), move |s| product(s, DType::F32, 1, [m, n, k], stored)));
    }
    for (tail, stored) in [("nn", [false, false]), ("nt", [false, true])] {
        all.push(Workload::new(format!("bmm_f32_48_256x64x256_{tail}"), flop(48 * 256 * 256 * 64), move |s| {
            product(s, DType::F32, s.of(48, 3), [256, 256, 64], stored)
        }));
    }
    for n in [1024usize, 2048] {
        all.push(Workload::new(format!("gemm_bf16_{n}"), flop(n * n * n), move |s| product(s, DType::BF16, 1, [n, n, n], [false, false])));
    }
    all.push(Workload::new("gemm_int8_1024", flop(1024 * 1024 * 1024), |_| missing("a matrix product of 8-bit integers")));
    for batch in [1usize, 32] {
        all.push(Workload::new(format!("linear_f32_1024_b{batch}"), flop(batch * 1024 * 1024), move |s| dense(s, batch)));
        all.push(Workload::new(format!("qlinear_dyn_int8_1024_b{batch}"), flop(batch * 1024 * 1024), |_| missing("a dense layer with 8-bit weights")));
    }
    all
}
fn missing(what: &str) -> Checked<Timed> {
    Err(Problem::Failed(Error::new("matmul", ErrorKind::Unsupported { backend: "cpu".into(), what: what.into() })))
}

/// `batch` products of `[m, k]` and `[k, n]`.
fn product(scale: Scale, dtype: DType, batch: usize, sizes: [usize; 3], stored: [bool; 2]) -> Checked<Timed> {
    let [m, n, k] = sizes.map(|size| scale.at_most(size, 17));
    let round = |x: f32| if dtype == DType::BF16 { adamant::bf16::from_f32(x).to_f32() } else { x };
    let host = |n: usize, seed| uniform(n, seed).into_iter().map(round).collect::<Vec<f32>>();
    let (x, y) = (host(batch * m * k, 1), host(batch * k * n, 2));
    // Made of the transposed storage and turned back by a view, as a user's weights are.
    let lead: &[usize] = if batch == 1 { &[] } else { &[batch] };
    let operand = |data: &[f32], rows: usize, columns: usize, transposed: bool| -> Result<Tensor, Error> {
        let sizes = if transposed { [columns, rows] } else { [rows, columns] };
        let t = Tensor::from_slice(data, [lead, &sizes].concat()).cast(dtype);
        t.eval()?;
        if transposed { t.mt().ok() } else { t.ok() }
    };
    let (a, b) = (operand(&x, m, k, stored[0])?, operand(&y, k, n, stored[1])?);
    let at = |rows: usize, columns: usize, transposed: bool, p: usize, i: usize, j: usize| {
        p * rows * columns + if transposed { j * rows + i } else { i * columns + j }
    };
    let result = no_grad(|| a.matmul(&b));
    check(&result, k, if dtype == DType::BF16 { BF16 } else { F32 }, |flat| {
        let (p, i, j) = (flat / (m * n), flat / n % m, flat % n);
        (0..k)
            .map(|l| x[at(m, k, stored[0], p, i, l)] as f64 * y[at(k, n, stored[1], p, l, j)] as f64)
            .fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
    })?;
    drop(result);
    Ok(Box::new(move || no_grad(|| black_box(a.matmul(&b)).eval())))
}
/// y = x Wᵀ + b, square.
fn dense(scale: Scale, batch: usize) -> Checked<Timed> {
    let (n, batch) = (scale.at_most(1024, 33), scale.at_most(batch, 3));
    let (xs, ws, bs) = (uniform(batch * n, 1), uniform(n * n, 2), uniform(n, 3));
    let (x, w, b) = (tensor(&[batch, n], 1), tensor(&[n, n], 2), tensor(&[n], 3));
    check(&no_grad(|| linear(&x, &w, Some(&b))), n, F32, |flat| {
        let (i, j) = (flat / n, flat % n);
        let terms = (0..n).map(|l| xs[i * n + l] as f64 * ws[j * n + l] as f64).chain([bs[j] as f64]);
        terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
    })?;
    Ok(Box::new(move || no_grad(|| black_box(linear(&x, &w, Some(&b))).eval())))
}
