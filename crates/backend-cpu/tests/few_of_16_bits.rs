//! A few elements that are combined with those of a large tensor of 16 bits: in f32, in the order of the indices, rounded once.
#![allow(clippy::unwrap_used)]
use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{tensor::ScatterReduce, *};

fn numbers(r: &mut Random, shape: &[usize], dtype: DType) -> (Tensor, Vec<f32>) {
    let n: usize = shape.iter().product();
    let x = Tensor::from_vec((0..n).map(|_| r.below(4000) as f32 * 0.013 - 20.0).collect::<Vec<_>>(), shape.to_vec()).cast(dtype);
    let values = x.cast(DType::F32).to_vec::<f32>().unwrap();
    (x, values)
}
fn check(seed: u64) {
    let mut r = Random::new(seed);
    let dtype = [DType::F16, DType::BF16][r.below(2)];
    let (outer, rows, inner) = (1 + r.below(3), 2000 + r.below(900), [1, 1, 3, 40][r.below(4)]);
    let count = 1 + r.below(30);
    let (x, mut wanted) = numbers(&mut r, &[outer, rows, inner], dtype);
    let (source, of) = numbers(&mut r, &[outer, count, inner], dtype);
    // Some places more than once, the last one too.
    let at: Vec<i64> = (0..outer * count).map(|_| if r.below(2) == 0 { r.below(3) } else { rows - 1 - r.below(rows) } as i64).collect();
    let index = Tensor::from_vec(at.clone(), [outer, count, 1]).expand([outer, count, inner]);
    let mode = r.below(4);
    let y = match mode {
        0 => x.scatter_add(1, &index, &source),
        1 => x.scatter_reduce(1, &index, &source, ScatterReduce::Prod, true),
        2 => x.scatter_reduce(1, &index, &source, ScatterReduce::Amax, true),
        _ => x.scatter_reduce(1, &index, &source, ScatterReduce::Amin, true),
    };
    for (k, &row) in at.iter().enumerate() {
        for j in 0..inner {
            let place = &mut wanted[(k / count * rows + row as usize) * inner + j];
            let v = of[k * inner + j];
            *place = match mode {
                0 => *place + v,
                1 => *place * v,
                2 => place.max(v),
                _ => place.min(v),
            };
        }
    }
    let rounded = Tensor::from_vec(wanted, [outer * rows * inner]).cast(dtype).cast(DType::F32).to_vec::<f32>().unwrap();
    let y = y.cast(DType::F32).to_vec::<f32>().unwrap();
    let wrong = y.iter().zip(&rounded).position(|(y, w)| y != w && !(y.is_nan() && w.is_nan()));
    assert_eq!(wrong.map(|at| (at, y[at], rounded[at])), None, "{dtype} [{outer}, {rows}, {inner}], {count} in mode {mode}, seed {seed}");
}

#[test]
fn a_sum_that_is_rounded_twice_or_lost() {
    Device::cpu().unwrap().scoped(|| (0..150).for_each(check));
}
