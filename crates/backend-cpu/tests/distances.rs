//! Distances of all pairs of rows: against sums in f64, the same bits on every device and whichever rows stand beside, and the
//! gradients of the body.
#![allow(clippy::unwrap_used)]
mod devices;
use adamant_core::{composite::distances::Distances, *};
use devices::devices;

fn numbers(n: usize, seed: u32, scale: f64) -> Vec<f64> {
    (0..n as u64).map(|k| ((rng::element_bits([seed, 0, 0, 0], k) >> 8) as f64 / (1 << 21) as f64 - 4.0) * scale).collect()
}
fn distance(ord: f64, x: &[f64], y: &[f64]) -> f64 {
    let all = || x.iter().zip(y).map(|(x, y)| (x - y).abs());
    match ord {
        0.0 => all().filter(|&d| d != 0.0).count() as f64,
        f64::INFINITY => all().fold(0.0, |a: f64, b| if b.is_nan() || b > a { b } else { a }),
        _ => {
            let largest = all().fold(f64::MIN_POSITIVE, f64::max);
            all().map(|d| (d / largest).powf(ord)).sum::<f64>().powf(1.0 / ord) * largest
        }
    }
}
fn composite(ord: f64, x: &Tensor, y: Option<&Tensor>) -> Tensor {
    let inputs: Vec<&Tensor> = std::iter::once(x).chain(y).collect();
    Tensor::composite1(Distances { ord, among: y.is_none() }, &inputs)
}

#[test]
fn every_order_of_every_shape() {
    let orders = [0.0, 1.0, 2.0, f64::INFINITY, 3.0];
    for dtype in [DType::F32, DType::F64] {
        for (p, r, m) in [(1, 1, 1), (3, 5, 2), (17, 33, 7), (40, 16, 64), (2, 100, 300), (5, 4, 0), (0, 3, 2), (3, 0, 2), (70, 70, 3)] {
            // Numbers whose squares are of the type, or far beyond it, or nothing.
            for scale in if dtype == DType::F32 { [1.0, 1e30, 1e-30] } else { [1.0, 1e200, 1e-200] } {
                for ord in orders {
                    let (x, y) = (numbers(p * m, 1, scale), numbers(r * m, 2, scale));
                    let mut first: Option<Vec<u64>> = None;
                    for (_, device) in devices(&[1, 2, 8]) {
                        device.scoped(|| {
                            let tensor = |v: &[f64], n: usize| Tensor::from_vec(v.to_vec(), [n, m]).cast(dtype);
                            let (x, y) = (tensor(&x, p), tensor(&y, r));
                            let got = composite(ord, &x, Some(&y)).cast(DType::F64).to_vec::<f64>().unwrap();
                            let (x, y) = (x.cast(DType::F64).to_vec::<f64>().unwrap(), y.cast(DType::F64).to_vec::<f64>().unwrap());
                            let tolerance = if dtype == DType::F32 { 1e-6 } else { 1e-14 };
                            for (at, got) in got.iter().enumerate() {
                                let wanted = distance(ord, &x[at / r * m..][..m], &y[at % r * m..][..m]);
                                assert!((got - wanted).abs() <= tolerance * wanted, "{dtype} order {ord} of {p}, {r}, {m} times {scale}: {got} for {wanted}");
                            }
                            let bits: Vec<u64> = got.iter().map(|v| v.to_bits()).collect();
                            assert_eq!(first.get_or_insert_with(|| bits.clone()), &bits, "bits differ between devices");
                        });
                    }
                }
            }
        }
    }
}
#[test]
fn rows_among_themselves_are_those_above_the_diagonal() {
    for (_, device) in devices(&[1, 2, 8]) {
        device.scoped(|| {
            for (n, m) in [(0, 3), (1, 3), (2, 1), (19, 5), (66, 20)] {
                let x = Tensor::from_vec(numbers(n * m, 1, 1.0), [n, m]).cast(DType::F32);
                for ord in [0.0, 1.0, 2.0, f64::INFINITY] {
                    let (all, among) = (composite(ord, &x, Some(&x)).to_vec::<f32>().unwrap(), composite(ord, &x, None).to_vec::<f32>().unwrap());
                    let above: Vec<f32> = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).map(|(i, j)| all[i * n + j]).collect();
                    assert_eq!(among, above, "{n} rows of {m}, order {ord}");
                }
            }
        });
    }
}
#[test]
fn a_pair_has_its_bits_whoever_stands_beside_it() {
    for (_, device) in devices(&[1, 2, 8]) {
        device.scoped(|| {
            let (x, y) = (
                Tensor::from_vec(numbers(21 * 130, 1, 1.0), [21, 130]).cast(DType::F32),
                Tensor::from_vec(numbers(37 * 130, 2, 1.0), [37, 130]).cast(DType::F32),
            );
            for ord in [1.0, 2.0] {
                let all = composite(ord, &x, Some(&y)).to_vec::<f32>().unwrap();
                for (i, j) in [(0, 0), (3, 17), (20, 36), (16, 31)] {
                    let alone = composite(ord, &x.narrow(0, i, 1), Some(&y.narrow(0, j, 1))).to_vec::<f32>().unwrap();
                    assert_eq!(alone[0].to_bits(), all[i * 37 + j].to_bits(), "order {ord}, rows {i} and {j}");
                }
            }
        });
    }
}
#[test]
fn what_is_no_number_and_what_is_infinite() {
    for (_, device) in devices(&[1, 2, 8]) {
        device.scoped(|| {
            let x = Tensor::from_vec(vec![f32::NAN, 1.0, f32::INFINITY, 1.0, 2.0, 1.0], [3, 2]);
            let y = Tensor::from_vec(vec![0.0f32, 1.0], [1, 2]);
            let of = |ord: f64| composite(ord, &x, Some(&y)).to_vec::<f32>().unwrap();
            for ord in [1.0, 2.0, f64::INFINITY] {
                let got = of(ord);
                assert!(got[0].is_nan() && got[1] == f32::INFINITY && got[2] == 2.0, "order {ord}: {got:?}");
            }
            assert_eq!(of(0.0), [1.0, 1.0, 1.0]);
        });
    }
}
/// Where two rows are the same the gradient is 0.
#[test]
fn gradients_are_those_of_the_body() -> Result<()> {
    let x = numbers(6 * 5, 1, 1.0);
    let mut y = numbers(7 * 5, 2, 1.0);
    y[10..15].copy_from_slice(&x[5..10]);
    let (x, y) = (Tensor::from_vec(x, [6, 5]).tracked(), Tensor::from_vec(y, [7, 5]).tracked());
    for ord in [0.5, 1.0, 2.0, 3.0, f64::INFINITY] {
        for among in [false, true] {
            let spec = Distances { ord, among };
            let inputs = if among { vec![x.clone()] } else { vec![x.clone(), y.clone()] };
            let weighted = |d: &Tensor| -> Result<Tensor> { Ok((Tensor::from_vec(numbers(d.shape()?.elements(), 3, 1.0), d.shape()?) * d).sum(..)) };
            let (own, body) = (Tensor::composite1(spec, &inputs.iter().collect::<Vec<_>>()), spec.body(&inputs)?.remove(0));
            let (own, body) = (weighted(&own)?.backward()?, weighted(&body)?.backward()?);
            for t in &inputs {
                let (own, body) = (own.get(t).unwrap().to_vec::<f64>()?, body.get(t).unwrap().to_vec::<f64>()?);
                for (a, b) in own.iter().zip(&body) {
                    assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "order {ord}, among {among}: {a} for {b}");
                }
            }
        }
    }
    Ok(())
}
