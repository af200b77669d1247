//! Whether any element is true, and whether all are: every dtype, every way to lie in memory, against plain loops.
#![allow(clippy::unwrap_used)]
mod devices;
use adamant_conformance::random::Random;
use adamant_core::*;
use devices::in_turn;

/// All zero but few, all true but few, either, or one alone.
fn numbers(r: &mut Random, n: usize) -> Vec<f64> {
    // One alone stands anywhere, or at an end.
    let (kind, alone) = (r.below(4), [0, n.saturating_sub(1), r.below(n.max(1))][r.below(3)]);
    let rare = [2, 40, 5000][r.below(3)];
    let some = [1.0, 2.0, -1.0, f64::NAN, f64::INFINITY, 0.5, 128.0];
    (0..n)
        .map(|k| {
            let is_true = match kind {
                0 => r.below(rare) == 0,
                1 => r.below(rare) != 0,
                2 => k == alone,
                _ => k != alone,
            };
            if is_true { some[r.below(some.len())] } else { [0.0, -0.0][r.below(2)] }
        })
        .collect()
}
fn check(device: &Device, name: &str, seed: u64) {
    device.scoped(|| {
        let mut r = Random::new(seed);
        let dtypes = [DType::Bool, DType::U8, DType::I8, DType::I32, DType::U32, DType::I64, DType::F32, DType::F64, DType::BF16, DType::F16];
        let dtype = dtypes[r.below(dtypes.len())];
        let rank = 1 + r.below(3);
        let long = r.below(rank);
        let shape: Vec<usize> = (0..rank).map(|k| if k == long { [1, 3, 40, 700, 40_000][r.below(5)] } else { 1 + r.below(9) }).collect();
        let n = shape.iter().product();
        let whole = |v: f64| if v.is_nan() || v.is_infinite() || v == 0.5 || v < 0.0 { v.abs().min(3.0).ceil().max(1.0) } else { v };
        let given = numbers(&mut r, n);
        let values: Vec<f64> = given.iter().map(|&v| if dtype.is_float() || v == 0.0 { v } else { whole(v).min(100.0) }).collect();
        let dense = Tensor::from_vec(values.clone(), &shape[..]).cast(DType::F64).cast(dtype);
        // As it is, every second element of another, backwards, or with its axes transposed.
        let way = r.below(4);
        let x = match way {
            0 => dense,
            1 => Tensor::stack(&[dense.clone(), dense.logical_not().cast(dtype)], rank as isize).select(rank as isize, 0),
            2 => dense.flip(0).flip(0),
            _ => {
                let back: Vec<usize> = (0..rank).rev().collect();
                let transposed = dense.permute(&back);
                Tensor::from_vec(transposed.cast(DType::F64).to_vec::<f64>().unwrap(), transposed.shape().unwrap()).cast(dtype).permute(&back)
            }
        };
        let axes: Vec<isize> = (0..rank as isize).filter(|_| r.below(2) == 0).collect();
        let mut any = vec![false; n];
        let mut all = vec![true; n];
        let kept: Vec<usize> = shape.iter().enumerate().map(|(k, &d)| if axes.contains(&(k as isize)) { 1 } else { d }).collect();
        let outputs: usize = kept.iter().product();
        for (k, &v) in values.iter().enumerate() {
            let (mut rest, mut at, mut step) = (k, 0, 1);
            for axis in (0..rank).rev() {
                if kept[axis] > 1 {
                    at += rest % shape[axis] * step;
                    step *= shape[axis];
                }
                rest /= shape[axis];
            }
            any[at] |= v != 0.0;
            all[at] &= v != 0.0;
        }
        let of = |t: Tensor| t.cast(DType::Bool).to_vec::<bool>().unwrap();
        let what = format!("{dtype} {shape:?} over {axes:?}, lying {way}, seed {seed} on {name}");
        // The number itself is asked for beside its truth.
        if dtype.computes() && dtype != DType::Bool {
            let read = x.cast(DType::F64).to_vec::<f64>().unwrap();
            let chosen = x.cast(DType::Bool).where_(&x.cast(DType::F64) + 1.0, 7.0).to_vec::<f64>().unwrap();
            let wrong = chosen.iter().zip(&read).position(|(c, v)| *c != if *v != 0.0 { v + 1.0 } else { 7.0 } && !v.is_nan());
            assert_eq!(wrong, None, "numbers beside their truth, of {what}");
        }
        assert_eq!(of(x.any(&axes[..])), any[..outputs], "any of {what}");
        assert_eq!(of(x.all(&axes[..])), all[..outputs], "all of {what}");
    });
}

#[test]
fn an_element_whose_truth_is_lost() {
    in_turn(0..400, check);
}
