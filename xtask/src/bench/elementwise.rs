//! Element-wise maps, reductions and data movement: what bounds them is memory.
use super::{
    harness::{Checked, Problem, Rate, Scale, Timed, Workload, ensure},
    inputs::{F32, check, indices, tensor, uniform},
};
use adamant::{
    Cell, Rng, Tensor,
    functional::{CrossEntropyOptions, cross_entropy, dropout, embedding, layer_norm},
    no_grad,
};
use std::hint::black_box;

const MANY: f64 = 16_777_216.0;

/// The family.
pub fn workloads() -> Vec<Workload> {
    let bytes = |n: f64| Rate::Bytes(n);
    vec![
        Workload::new("ew_add_16m", bytes(12.0 * MANY), add),
        Workload::new("ew_gelu_xwb_16m", bytes(8.0 * MANY), gelu),
        Workload::new("sum_last_16m", bytes(4.0 * MANY), |s| sum(s, 1)),
        Workload::new("sum_first_16m", bytes(4.0 * MANY), |s| sum(s, 0)),
        Workload::new("softmax_4096x1024", bytes(8.0 * 4096.0 * 1024.0), softmax),
        Workload::new("layernorm_4096x768", bytes(8.0 * 4096.0 * 768.0), norm),
        Workload::new("bcast_add_row_16m", bytes(8.0 * MANY), add_row),
        Workload::new("transpose_copy_4096", bytes(8.0 * MANY), transpose),
        Workload::new("embedding_32000x768_8192", bytes(8.0 * 8192.0 * 768.0), rows),
        Workload::new("dropout_16m", bytes(8.0 * MANY), drop_out),
        Workload::new("xent_2048x50257_fwdbwd", bytes(8.0 * 2048.0 * 50257.0), cross),
    ]
}
/// Evaluates and drops the result of `f`, outside the tape.
fn evaluated(f: impl Fn() -> Tensor + 'static) -> Timed {
    Box::new(move || no_grad(|| black_box(f()).eval()))
}
/// The sum of terms and of their magnitudes.
fn total(terms: impl Iterator<Item = f64>) -> (f64, f64) {
    terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()))
}

fn add(scale: Scale) -> Checked<Timed> {
    let n = scale.of(4096, 7);
    let (xs, ys) = (uniform(n * n, 1), uniform(n * n, 2));
    let (x, y) = (tensor(&[n, n], 1), tensor(&[n, n], 2));
    check(&(&x + &y), 1, F32, |i| total([xs[i] as f64, ys[i] as f64].into_iter()))?;
    Ok(evaluated(move || &x + &y))
}
fn add_row(scale: Scale) -> Checked<Timed> {
    let n = scale.of(4096, 7);
    let (xs, ys) = (uniform(n * n, 1), uniform(n, 2));
    let (x, y) = (tensor(&[n, n], 1), tensor(&[n], 2));
    check(&(&x + &y), 1, F32, |i| total([xs[i] as f64, ys[i % n] as f64].into_iter()))?;
    Ok(evaluated(move || &x + &y))
}
fn gelu(scale: Scale) -> Checked<Timed> {
    let n = scale.of(4096, 7);
    let (xs, ws, bs) = (uniform(n * n, 1), uniform(n, 2), uniform(n, 3));
    let (x, w, b) = (tensor(&[n, n], 1), tensor(&[n], 2), tensor(&[n], 3));
    check(&(&x * &w + &b).gelu_tanh(), 9, F32, |i| {
        let z = xs[i] as f64 * ws[i % n] as f64 + bs[i % n] as f64;
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (z + 0.044715 * z * z * z);
        // Where z nearly cancels its error is that of its terms.
        (0.5 * z * (1.0 + inner.tanh()), 1.0)
    })?;
    Ok(evaluated(move || (&x * &w + &b).gelu_tanh()))
}
fn sum(scale: Scale, axis: usize) -> Checked<Timed> {
    let n = scale.of(4096, 37);
    let xs = uniform(n * n, 1);
    let x = tensor(&[n, n], 1);
    check(&x.sum(axis), n, F32, |i| total((0..n).map(|j| xs[if axis == 1 { i * n + j } else { j * n + i }] as f64)))?;
    Ok(evaluated(move || x.sum(axis)))
}
fn softmax(scale: Scale) -> Checked<Timed> {
    let (rows, n) = (scale.of(4096, 5), scale.of(1024, 33));
    let xs = uniform(rows * n, 1);
    let x = tensor(&[rows, n], 1);
    check(&x.softmax(1), n, F32, |i| {
        let row = &xs[i / n * n..][..n];
        let y = (xs[i] as f64).exp() / row.iter().map(|&x| (x as f64).exp()).sum::<f64>();
        (y, y)
    })?;
    Ok(evaluated(move || x.softmax(1)))
}
fn norm(scale: Scale) -> Checked<Timed> {
    let (rows, n) = (scale.of(4096, 5), scale.of(768, 33));
    let (xs, ws, bs) = (uniform(rows * n, 1), uniform(n, 2), uniform(n, 3));
    let (x, w, b) = (tensor(&[rows, n], 1), tensor(&[n], 2), tensor(&[n], 3));
    check(&layer_norm(&x, [n], Some(&w), Some(&b), 1e-5), n, F32, |i| {
        let row = &xs[i / n * n..][..n];
        let mean = row.iter().map(|&x| x as f64).sum::<f64>() / n as f64;
        let variance = row.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>() / n as f64;
        let y = (xs[i] as f64 - mean) / (variance + 1e-5).sqrt() * ws[i % n] as f64;
        (y + bs[i % n] as f64, y.abs() + 1.0)
    })?;
    Ok(evaluated(move || layer_norm(&x, [n], Some(&w), Some(&b), 1e-5)))
}
fn transpose(scale: Scale) -> Checked<Timed> {
    let n = scale.of(4096, 19);
    let xs = uniform(n * n, 1);
    let x = tensor(&[n, n], 1);
    // A transpose is a layout, and `contiguous` says nothing about memory; as one axis its elements must move.
    check(&x.mt().reshape([n * n]), 1, F32, |i| total(std::iter::once(xs[i % n * n + i / n] as f64)))?;
    Ok(evaluated(move || x.mt().reshape([n * n])))
}
fn rows(scale: Scale) -> Checked<Timed> {
    let (table, width, n) = (scale.of(32000, 50), scale.of(768, 9), scale.of(8192, 21));
    let ws = uniform(table * width, 1);
    let (w, at) = (tensor(&[table, width], 1), indices(&[n], table));
    let picks = at.to_vec::<i64>()?;
    check(&embedding(&w, &at, None), 1, F32, |i| total(std::iter::once(ws[picks[i / width] as usize * width + i % width] as f64)))?;
    Ok(evaluated(move || embedding(&w, &at, None)))
}
fn drop_out(scale: Scale) -> Checked<Timed> {
    let n = scale.of(4096, 101);
    let x = tensor(&[n, n], 1);
    let rng = Rng::new(1)?;
    let (host, first, second) = (x.to_vec::<f32>()?, dropout(&x, 0.1, &rng).to_vec::<f32>()?, dropout(&x, 0.1, &rng).to_vec::<f32>()?);
    let kept = |y: f32, x: f32| ((y as f64) - x as f64 / 0.9).abs() < 1e-6;
    ensure(first.iter().zip(&host).all(|(&y, &x)| y == 0.0 || kept(y, x)), || "an element is neither zero nor divided by 0.9".into())?;
    ensure(first != second, || "two calls dropped the same elements".into())?;
    let share = first.iter().filter(|&&y| y == 0.0).count() as f64 / first.len() as f64;
    let spread = (0.09 / first.len() as f64).sqrt();
    ensure((share - 0.1).abs() < 6.0 * spread + 1e-9, || format!("{share} of the elements were dropped"))?;
    Ok(evaluated(move || dropout(&x, 0.1, &rng)))
}
fn cross(scale: Scale) -> Checked<Timed> {
    let (batch, classes) = (scale.of(2048, 5), scale.of(50257, 11));
    let xs = uniform(batch * classes, 1);
    // The logits are a cell, as what requires a gradient is.
    let logits = Cell::new(&tensor(&[batch, classes], 1), true)?;
    let target = indices(&[batch], classes);
    let picks = target.to_vec::<i64>()?;
    let call = move || cross_entropy(&logits.get(), &target, &CrossEntropyOptions::default()).backward().map(|grads| grads.of(&logits).cloned());
    let gradient = call()?.ok_or_else(|| Problem::Wrong("no gradient reached the logits".into()))?;
    let sums: Vec<f64> = xs.chunks(classes).map(|row| row.iter().map(|&x| (x as f64).exp()).sum()).collect();
    check(&gradient, 64, F32, |i| {
        let (row, class) = (i / classes, i % classes);
        let p = (xs[i] as f64).exp() / sums[row];
        let hit = (picks[row] as usize == class) as u8 as f64;
        ((p - hit) / batch as f64, (p + hit) / batch as f64)
    })?;
    drop((xs, gradient));
    Ok(Box::new(move || call().map(|g| drop(black_box(g)))))
}
