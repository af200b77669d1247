//! The benchmarks of a crate of one's own: two workloads and `bench_main!`. In a crate this file is a `[[bench]]` with
//! `harness = false`, and `cargo bench --bench own_workload -- compare main self` compares it with its main branch.
use adamant::{Tensor, functional::linear};
use adamant_bench::{Checked, Prepared, Scale, bench_main, check, inputs, workload};

workload!(own_layer, flop = 2.0 * 32.0 * 256.0 * 256.0, |scale: Scale| -> Checked<Prepared> {
    let (batch, width) = (scale.of(32, 3), scale.of(256, 9));
    let (xs, ws) = (inputs::uniform(batch * width, 1), inputs::uniform(width * width, 2));
    let (x, w) = (inputs::tensor(&[batch, width], 1), inputs::tensor(&[width, width], 2));
    // The value of an element in f64, and the size of what was added up to it.
    let exact = move |i: usize| {
        let terms = (0..width).map(|k| xs[i / width * width + k] as f64 * ws[i % width * width + k] as f64);
        terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()))
    };
    Ok(Prepared::output(move || linear(&x, &w, None), move |y| check(y, width, check::F32, &exact)))
});
workload!(own_wrong, |_| -> Checked<Prepared> {
    let x = Tensor::ones([8]);
    Ok(Prepared::output(move || &x * 2.0, |y| check(y, 1, check::F32, |_| (3.0, 3.0))))
});

bench_main!();
