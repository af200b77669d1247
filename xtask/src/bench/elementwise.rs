//! Element-wise maps, reductions and data movement: what bounds them is memory.
//!
//! Each is a function of `[rows, columns]`, so that the shapes of the document and the sizes of [`sizes`] are the same code.
use adamant::{
    Cell, Rng,
    functional::{CrossEntropyOptions, cross_entropy, dropout, embedding, layer_norm},
    no_grad,
};
use adamant_bench::{
    Checked, Group, Prepared, Problem, Rate, Scale, Workload,
    check::{F32, check},
    ensure,
    inputs::{indices, tensor, uniform},
};
use std::hint::black_box;

const MANY: f64 = 16_777_216.0;
/// Rows and columns.
type Shape = [usize; 2];
type Build = fn(Shape) -> Checked<Prepared>;

/// The family: name, bytes of one call, operations for each byte, shape in full and small, and who builds it.
const WORKLOADS: &[(&str, f64, f64, Shape, Shape, Build)] = &[
    ("ew_add_16m", 12.0 * MANY, 1.0 / 12.0, [4096, 4096], [7, 7], add),
    ("ew_gelu_xwb_16m", 8.0 * MANY, 10.0 / 8.0, [4096, 4096], [7, 7], gelu),
    ("sum_last_16m", 4.0 * MANY, 1.0 / 4.0, [4096, 4096], [37, 37], |s| sum(s, 1)),
    ("sum_first_16m", 4.0 * MANY, 1.0 / 4.0, [4096, 4096], [37, 37], |s| sum(s, 0)),
    ("softmax_4096x1024", 8.0 * 4096.0 * 1024.0, 5.0 / 8.0, [4096, 1024], [5, 33], softmax),
    ("layernorm_4096x768", 8.0 * 4096.0 * 768.0, 7.0 / 8.0, [4096, 768], [5, 33], norm),
    ("bcast_add_row_16m", 8.0 * MANY, 1.0 / 8.0, [4096, 4096], [7, 7], add_row),
    ("transpose_copy_4096", 8.0 * MANY, 0.0, [4096, 4096], [19, 19], transpose),
    ("embedding_32000x768_8192", 8.0 * 8192.0 * 768.0, 0.0, [8192, 768], [21, 9], |s| rows(s, 32000)),
    ("dropout_16m", 8.0 * MANY, 1.0 / 8.0, [4096, 4096], [101, 101], drop_out),
    ("xent_2048x50257_fwdbwd", 8.0 * 2048.0 * 50257.0, 6.0 / 8.0, [2048, 50257], [5, 11], cross),
];
pub fn workloads() -> Vec<Workload> {
    let workload = |&(name, bytes, intensity, full, small, build): &(&'static str, f64, f64, Shape, Shape, Build)| {
        let workload = Workload::new(name, Rate::Bytes(bytes), move |s: Scale| build(if s.is_small() { small } else { full }));
        // What computes nothing has no place below a roofline of operations.
        if intensity > 0.0 { workload.with_intensity(intensity) } else { workload }
    };
    WORKLOADS.iter().map(workload).collect()
}

/// Families over the sizes: bytes for each element, the longest row, and who builds it.
const FAMILIES: &[(&str, f64, usize, Build)] = &[
    ("add", 12.0, 4096, add),
    ("add_row", 8.0, 1024, add_row),
    ("gelu_xwb", 8.0, 1024, gelu),
    ("exp", 8.0, 4096, exp),
    ("sum_all", 4.0, 4096, sum_all),
    ("sum_last", 4.0, 1024, |s| sum(s, 1)),
    ("sum_first", 4.0, 1024, |s| sum(s, 0)),
    ("softmax", 8.0, 1024, softmax),
    ("layernorm", 8.0, 768, norm),
    ("transpose", 8.0, 4096, transpose),
    ("embedding", 8.0, 256, |s| rows(s, 4096)),
    ("dropout", 8.0, 4096, drop_out),
    ("cross_entropy", 8.0, 1024, cross),
];
/// Five decades.
const SIZES: [usize; 9] = [128, 512, 2048, 8192, 32_768, 131_072, 524_288, 2_097_152, 12_582_912];
/// Each family at each size.
pub fn sizes() -> Vec<Workload> {
    let of = |family: &'static (&'static str, f64, usize, Build), n: usize| {
        let &(name, bytes, longest, build) = family;
        // Rows as long as a model's; of what is less than a few rows, a square's.
        let shape = move |n: usize| {
            let columns = longest.min(1 << n.ilog2().div_ceil(2));
            [n / columns, columns]
        };
        let [r, c] = shape(n);
        let elements = r * c;
        let workload = Workload::new(format!("{name}/{elements}"), Rate::Bytes(bytes * elements as f64), move |s: Scale| build(shape(s.at_most(n, 512))));
        workload.sized(elements as u64)
    };
    FAMILIES.iter().flat_map(|family| SIZES.map(|n| of(family, n))).collect()
}
/// Arrays that fit in no accelerator's cache: name, bytes for each element, shape in full and small, and who builds it. The first has
/// the traffic of a copy, of which the others are a share.
const LARGE: &[(&str, f64, Shape, Shape, Build)] = &[
    ("copy_64m", 8.0, [8192, 8192], [7, 7], negative),
    ("add_64m", 12.0, [8192, 8192], [7, 7], add),
    ("gelu_xwb_64m", 8.0, [8192, 8192], [7, 7], gelu),
    ("sum_last_64m", 4.0, [8192, 8192], [37, 37], |s| sum(s, 1)),
    ("softmax_65536x1024", 8.0, [65_536, 1024], [5, 33], softmax),
    ("layernorm_65536x1024", 8.0, [65_536, 1024], [5, 33], norm),
    ("xent_4096x50257_fwdbwd", 8.0, [4096, 50_257], [5, 11], cross),
];
pub fn large() -> Vec<Workload> {
    let workload = |&(name, bytes, full, small, build): &(&'static str, f64, Shape, Shape, Build)| {
        let traffic = Rate::Bytes(bytes * (full[0] * full[1]) as f64);
        Workload::new(name, traffic, move |s: Scale| build(if s.is_small() { small } else { full })).in_group(Group::Large)
    };
    LARGE.iter().map(workload).collect()
}
/// Arrays that fit in no core's own cache, so that a share of the work can be added.
pub fn selftest() -> Workload {
    let shape = |s: Scale| [s.of(512, 4), s.of(1024, 8)];
    Workload::new("selftest_memory", Rate::Bytes(12.0 * 512.0 * 1024.0), move |s| add(shape(s))).in_group(Group::Selftest)
}

/// The sum of terms and of their magnitudes.
fn total(terms: impl Iterator<Item = f64>) -> (f64, f64) {
    terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()))
}
fn add([r, c]: Shape) -> Checked<Prepared> {
    let (xs, ys) = (uniform(r * c, 1), uniform(r * c, 2));
    let (x, y) = (tensor(&[r, c], 1), tensor(&[r, c], 2));
    Ok(Prepared::output(move || &x + &y, move |z| check(z, 1, F32, |i| total([xs[i] as f64, ys[i] as f64].into_iter()))))
}
fn negative([r, c]: Shape) -> Checked<Prepared> {
    let xs = uniform(r * c, 1);
    let x = tensor(&[r, c], 1);
    Ok(Prepared::output(move || -&x, move |y| check(y, 1, F32, |i| total(std::iter::once(-xs[i] as f64)))))
}
fn add_row([r, c]: Shape) -> Checked<Prepared> {
    let (xs, ys) = (uniform(r * c, 1), uniform(c, 2));
    let (x, y) = (tensor(&[r, c], 1), tensor(&[c], 2));
    Ok(Prepared::output(move || &x + &y, move |z| check(z, 1, F32, |i| total([xs[i] as f64, ys[i % c] as f64].into_iter()))))
}
fn exp(shape: Shape) -> Checked<Prepared> {
    let xs = uniform(shape[0] * shape[1], 1);
    let x = tensor(&shape, 1);
    Ok(Prepared::output(move || x.exp(), move |y| check(y, 4, F32, |i| ((xs[i] as f64).exp(), (xs[i] as f64).exp()))))
}
fn gelu([r, c]: Shape) -> Checked<Prepared> {
    let (xs, ws, bs) = (uniform(r * c, 1), uniform(c, 2), uniform(c, 3));
    let (x, w, b) = (tensor(&[r, c], 1), tensor(&[c], 2), tensor(&[c], 3));
    let exact = move |i: usize| {
        let z = xs[i] as f64 * ws[i % c] as f64 + bs[i % c] as f64;
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (z + 0.044715 * z * z * z);
        // Where z nearly cancels its error is that of its terms.
        (0.5 * z * (1.0 + inner.tanh()), 1.0)
    };
    Ok(Prepared::output(move || (&x * &w + &b).gelu_tanh(), move |y| check(y, 9, F32, &exact)))
}
fn sum([r, c]: Shape, axis: usize) -> Checked<Prepared> {
    let xs = uniform(r * c, 1);
    let x = tensor(&[r, c], 1);
    let (n, at) = if axis == 1 { (c, [c, 1]) } else { (r, [1, c]) };
    let exact = move |i: usize| total((0..n).map(|j| xs[i * at[0] + j * at[1]] as f64));
    Ok(Prepared::output(move || x.sum(axis), move |y| check(y, n, F32, &exact)))
}
fn sum_all(shape: Shape) -> Checked<Prepared> {
    let xs = uniform(shape[0] * shape[1], 1);
    let x = tensor(&shape, 1);
    Ok(Prepared::output(move || x.sum(..), move |y| check(y, xs.len(), F32, |_| total(xs.iter().map(|&x| x as f64)))))
}
fn softmax([r, c]: Shape) -> Checked<Prepared> {
    let xs = uniform(r * c, 1);
    let x = tensor(&[r, c], 1);
    let exact = move |i: usize| {
        let row = &xs[i / c * c..][..c];
        let y = (xs[i] as f64).exp() / row.iter().map(|&x| (x as f64).exp()).sum::<f64>();
        (y, y)
    };
    Ok(Prepared::output(move || x.softmax(1), move |y| check(y, c, F32, &exact)))
}
fn norm([r, c]: Shape) -> Checked<Prepared> {
    let (xs, ws, bs) = (uniform(r * c, 1), uniform(c, 2), uniform(c, 3));
    let (x, w, b) = (tensor(&[r, c], 1), tensor(&[c], 2), tensor(&[c], 3));
    let exact = move |i: usize| {
        let row = &xs[i / c * c..][..c];
        let mean = row.iter().map(|&x| x as f64).sum::<f64>() / c as f64;
        let variance = row.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>() / c as f64;
        let y = (xs[i] as f64 - mean) / (variance + 1e-5).sqrt() * ws[i % c] as f64;
        (y + bs[i % c] as f64, y.abs() + 1.0)
    };
    Ok(Prepared::output(move || layer_norm(&x, [c], Some(&w), Some(&b), 1e-5), move |y| check(y, c, F32, &exact)))
}
fn transpose([r, c]: Shape) -> Checked<Prepared> {
    let xs = uniform(r * c, 1);
    let x = tensor(&[r, c], 1);
    // A transpose is a layout, and `contiguous` says nothing about memory; as one axis its elements must move.
    let exact = move |i: usize| total(std::iter::once(xs[i % r * c + i / r] as f64));
    Ok(Prepared::output(move || x.mt().reshape([r * c]), move |y| check(y, 1, F32, &exact)))
}
fn rows([n, width]: Shape, table: usize) -> Checked<Prepared> {
    // A table no larger than a few times what is read of it.
    let table = table.min(4 * n + 8);
    let ws = uniform(table * width, 1);
    let (w, at) = (tensor(&[table, width], 1), indices(&[n], table));
    let picks = at.to_vec::<i64>()?;
    let exact = move |i: usize| total(std::iter::once(ws[picks[i / width] as usize * width + i % width] as f64));
    Ok(Prepared::output(move || embedding(&at, &w, None), move |y| check(y, 1, F32, &exact)))
}
fn drop_out(shape: Shape) -> Checked<Prepared> {
    let x = tensor(&shape, 1);
    let host = uniform(shape[0] * shape[1], 1);
    let rng = Rng::new(1)?;
    let dropped = move || dropout(&x, 0.1, &rng);
    let again = dropped.clone();
    let verify = move || {
        let [first, second] = [again(), again()].map(|y| y.to_vec::<f32>());
        let (first, second) = (first?, second?);
        let kept = |y: f32, x: f32| ((y as f64) - x as f64 / 0.9).abs() < 1e-6;
        ensure(first.iter().zip(&host).all(|(&y, &x)| y == 0.0 || kept(y, x)), || "an element is neither zero nor divided by 0.9".into())?;
        ensure(first != second, || "two calls dropped the same elements".into())?;
        let share = first.iter().filter(|&&y| y == 0.0).count() as f64 / first.len() as f64;
        let allowed = 6.0 * (0.09 / first.len() as f64).sqrt() + 1e-9;
        ensure((share - 0.1).abs() < allowed, || format!("{share} of the elements were dropped"))?;
        Ok((share - 0.1).abs() / allowed)
    };
    Ok(Prepared::checked(move || no_grad(|| black_box(dropped()).materialize()), verify))
}
fn cross([batch, classes]: Shape) -> Checked<Prepared> {
    let xs = uniform(batch * classes, 1);
    // The logits are a cell, as what requires a gradient is.
    let logits = Cell::new(&tensor(&[batch, classes], 1), true)?;
    let target = indices(&[batch], classes);
    let picks = target.to_vec::<i64>()?;
    let call = move || cross_entropy(&logits.get(), &target, &CrossEntropyOptions::default()).backward().map(|grads| grads.of(&logits).cloned());
    let (again, shown) = (call.clone(), call.clone());
    let exact = move |i: usize| {
        let (row, class) = (i / classes, i % classes);
        let sum: f64 = xs[row * classes..][..classes].iter().map(|&x| (x as f64).exp()).sum();
        let p = (xs[i] as f64).exp() / sum;
        let hit = (picks[row] as usize == class) as u8 as f64;
        ((p - hit) / batch as f64, (p + hit) / batch as f64)
    };
    let verify = move || {
        let gradient = again()?.ok_or_else(|| Problem::Wrong("no gradient reached the logits".into()))?;
        check(&gradient, 64, F32, &exact)
    };
    // Of the gradient one row, which is not the first: its own class stands at the first place.
    let shown = move || {
        let gradient = shown()?.ok_or_else(|| Problem::Wrong("no gradient reached the logits".into()))?;
        Ok(gradient.narrow(0, 1, 1).to_vec::<f32>()?)
    };
    Ok(Prepared::checked(move || call().map(|g| drop(black_box(g))), verify).showing(shown))
}
