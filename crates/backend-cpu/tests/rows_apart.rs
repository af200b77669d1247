//! Rows that lie side by side along an axis that is not the last, and their extremes; lines that lie apart. Against each row by itself.
#![allow(clippy::unwrap_used)]
mod devices;
use adamant_conformance::random::Random;
use adamant_core::{
    composite::loss::Reduction,
    functional::{CrossEntropyOptions, cross_entropy},
    *,
};
use devices::in_turn;

fn bits(t: &Tensor) -> Vec<u64> {
    t.to_vec_as::<f64>().unwrap().into_iter().map(|v| if v.is_nan() { 0 } else { v.to_bits() }).collect()
}
/// `[outer, n, inner]` as rows `[outer inner, n]`, one behind the other.
fn as_rows(t: &Tensor) -> Tensor {
    let rows = t.movedim(1, -1);
    let n = rows.size(-1).unwrap();
    Tensor::from_vec(rows.to_vec_as::<f64>().unwrap(), [rows.numel().unwrap() / n, n]).cast(t.dtype().unwrap())
}
/// What a function of values and weights gives, and its gradient by the values.
fn both(x: &Tensor, g: &Tensor, f: impl Fn(&Tensor) -> Tensor) -> [Tensor; 2] {
    let x = x.detach().tracked();
    let y = f(&x);
    let of_x = y.backward_with(g).unwrap().get(&x).unwrap().clone();
    [y.detach(), of_x]
}
fn softmaxes(device: &Device, seed: u64) {
    device.scoped(|| {
        let mut r = Random::new(seed);
        let dtype = [DType::F32, DType::F64, DType::BF16, DType::F16][r.below(4)];
        let (outer, n, inner) = (1 + r.below(2), [2, 21, 256, 257, 520][r.below(5)], [32, 33, 130, 300][r.below(4)]);
        let shape = [outer, n, inner];
        let mut of = |scale: f64| {
            Tensor::from_vec((0..outer * n * inner).map(|_| (r.below(4000) as f64 * 0.01 - 20.0) * scale).collect::<Vec<f64>>(), shape).cast(dtype)
        };
        let (x, g) = (of(1.0), of(0.05));
        let (rows, of_rows) = (as_rows(&x), as_rows(&g));
        for logarithm in [false, true] {
            let f = |axis: isize| move |x: &Tensor| if logarithm { x.log_softmax(axis) } else { x.softmax(axis) };
            let (side, alone) = (both(&x, &g, f(1)), both(&rows, &of_rows, f(-1)));
            for (what, (side, alone)) in ["values", "gradient"].into_iter().zip(side.iter().zip(&alone)) {
                assert!(bits(&as_rows(side)) == bits(alone), "{what} of {dtype} {shape:?}, logarithm {logarithm}, seed {seed}");
            }
        }
    });
}
fn entropies(device: &Device, seed: u64) {
    device.scoped(|| {
        let mut r = Random::new(seed);
        let dtype = [DType::F32, DType::F64, DType::BF16][r.below(3)];
        let (outer, n, inner) = (1 + r.below(2), [2, 21, 257, 520][r.below(4)], [32, 129, 300, 600][r.below(4)]);
        let x = Tensor::from_vec((0..outer * n * inner).map(|_| r.below(4000) as f64 * 0.01 - 20.0).collect::<Vec<f64>>(), [outer, n, inner]).cast(dtype);
        let g = Tensor::from_vec((0..outer * inner).map(|_| r.below(400) as f64 * 0.01 - 2.0).collect::<Vec<f64>>(), [outer, inner]).cast(dtype);
        let targets: Vec<i64> = (0..outer * inner).map(|_| if r.below(9) == 0 { -100 } else { r.below(n) as i64 }).collect();
        let options = || CrossEntropyOptions { reduction: Reduction::None, ..CrossEntropyOptions::default() };
        let side = both(&x, &g, |x| cross_entropy(x, &Tensor::from_vec(targets.clone(), [outer, inner]), &options()));
        let alone = both(&as_rows(&x), &g.ravel(), |x| cross_entropy(x, &Tensor::from_vec(targets.clone(), [outer * inner]), &options()));
        let what = format!("{dtype} [{outer}, {n}, {inner}], seed {seed}");
        assert!(bits(&side[0]) == bits(&alone[0]), "losses of {what}");
        assert!(bits(&as_rows(&side[1])) == bits(&alone[1]), "the gradient of {what}");
    });
}
fn extremes(device: &Device, seed: u64) {
    device.scoped(|| {
        let mut r = Random::new(seed);
        let dtype = [DType::U8, DType::I32, DType::F32, DType::F64][r.below(4)];
        let (rows, n) = ([1, 70, 5000, 40_000][r.below(4)], 1 + r.below(60));
        let (before, behind) = (r.below(4), r.below(4));
        let width = before + n + behind;
        let values: Vec<i64> = (0..rows * width).map(|_| r.below(30) as i64).collect();
        let x = Tensor::from_vec(values.clone(), [rows, width]).cast(dtype);
        x.materialize().unwrap();
        let lines = x.narrow(1, before, n);
        let largest = r.below(2) == 0;
        let at = if largest { lines.argmax(1) } else { lines.argmin(1) }.to_vec::<i64>().unwrap();
        for (k, &at) in at.iter().enumerate() {
            let line = &values[k * width + before..][..n];
            let best = if largest { line.iter().max() } else { line.iter().min() };
            let wanted = line.iter().position(|v| Some(v) == best).unwrap();
            assert_eq!(at as usize, wanted, "line {k} of {rows} of {n}, {before} before and {behind} behind, {dtype}, seed {seed}");
        }
    });
}

#[test]
fn a_row_among_its_neighbours_that_has_other_bits() {
    in_turn(0..100, |device, _, seed| softmaxes(device, seed));
}
#[test]
fn a_pixel_whose_loss_is_anothers() {
    in_turn(0..100, |device, _, seed| entropies(device, seed));
}
#[test]
fn a_line_whose_extreme_is_looked_for_elsewhere() {
    in_turn(0..120, |device, _, seed| extremes(device, seed));
}
