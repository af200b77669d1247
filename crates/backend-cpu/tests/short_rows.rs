//! Many rows of a few elements go side by side: with the bits that each row has by itself.
#![allow(clippy::unwrap_used)]
mod devices;
use adamant_conformance::random::Random;
use adamant_core::*;
use devices::in_turn;

fn check(device: &Device, seed: u64) {
    device.scoped(|| {
        let mut r = Random::new(seed);
        let dtype = [DType::F32, DType::F64, DType::BF16, DType::F16][r.below(4)];
        let (rows, n) = ([33, 70, 257, 600][r.below(4)], 1 + r.below(40));
        let mut number = |k: usize| match (k % 97, r.below(40)) {
            (5, 0) => f64::NEG_INFINITY,
            (7, 0) => f64::NAN,
            _ => r.below(4000) as f64 * 0.01 - 20.0,
        };
        let mut of = |scale: f64| Tensor::from_vec((0..rows * n).map(|k| number(k) * scale).collect::<Vec<f64>>(), [rows, n]).cast(dtype);
        let (x, g) = (of(1.0), of(0.05));
        let functions: [fn(&Tensor, &Tensor) -> [Tensor; 2]; 2] = [|x, g| both(x, g, false), |x, g| both(x, g, true)];
        for (name, f) in ["softmax", "log_softmax"].into_iter().zip(functions) {
            let all = f(&x, &g);
            for row in [0, 1, rows / 2, rows - 2, rows - 1] {
                let alone = f(&x.narrow(0, row, 1), &g.narrow(0, row, 1));
                for (what, (all, alone)) in ["values", "gradient"].into_iter().zip(all.iter().zip(&alone)) {
                    let bits =
                        |t: &Tensor| -> Vec<u64> { t.to_vec_as::<f64>().unwrap().into_iter().map(|v| if v.is_nan() { 0 } else { v.to_bits() }).collect() };
                    assert_eq!(bits(&all.narrow(0, row, 1)), bits(alone), "{what} of {name}, row {row} of {dtype} [{rows}, {n}], seed {seed}");
                }
            }
        }
    });
}
fn both(x: &Tensor, g: &Tensor, logarithm: bool) -> [Tensor; 2] {
    let x = x.contiguous().tracked();
    let y = if logarithm { x.log_softmax(1) } else { x.softmax(1) };
    let grads = y.backward_with(g).unwrap();
    let of_x = grads.get(&x).unwrap().clone();
    [y.detach(), of_x]
}

#[test]
fn a_row_that_has_other_bits_among_others() {
    in_turn(0..160, |device, _, seed| check(device, seed));
}
