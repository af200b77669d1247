//! Operands that are broadcast, or lie apart, beside others along lines of a few elements; joins of which each gives every second, third, ..
//! place. Every dtype, against plain loops.
#![allow(clippy::unwrap_used)]
mod devices;
use adamant_conformance::random::Random;
use adamant_core::*;
use devices::in_turn;

/// The last one is stored and not computed with.
const DTYPES: [DType; 10] = [DType::U8, DType::I8, DType::I32, DType::U32, DType::I64, DType::F32, DType::F64, DType::BF16, DType::F16, DType::I16];

/// Small whole numbers, of which every dtype has the sums.
fn numbers(r: &mut Random, shape: &[usize], dtype: DType) -> (Tensor, Vec<i64>) {
    let values: Vec<i64> = (0..shape.iter().product()).map(|_| r.below(50) as i64).collect();
    let dense = Tensor::from_vec(values.clone(), shape).cast(dtype);
    let rank = shape.len() as isize;
    // As it is, every second element of another, backwards, or between others.
    let x = match r.below(4) {
        0 => dense,
        1 => Tensor::stack(&[dense.clone(), dense.zeros_like()], rank).select(rank, 0),
        2 => {
            let reversed = dense.flip(-1);
            reversed.materialize().unwrap();
            Tensor::from_vec(reversed.cast(DType::I64).to_vec::<i64>().unwrap(), shape).cast(dtype).flip(-1)
        }
        _ => {
            let wide = Tensor::cat(&[dense.zeros_like(), dense.clone(), dense.zeros_like()], -1);
            wide.materialize().unwrap();
            let width = shape[shape.len() - 1];
            wide.narrow(-1, width, width)
        }
    };
    x.materialize().unwrap();
    (x, values)
}
fn sums(device: &Device, seed: u64) {
    device.scoped(|| {
        let mut r = Random::new(seed);
        let dtype = DTYPES[r.below(DTYPES.len() - 1)];
        let rank = 2 + r.below(3);
        let inner = [1, 2, 3, 4, 5, 7, 13, 50, 63, 64, 65, 130][r.below(12)];
        let mut space: Vec<usize> = (1..rank).map(|_| [1, 2, 3, 9, 40, 170][r.below(6)]).collect();
        space.push(inner);
        if space.iter().product::<usize>() > 200_000 {
            space[0] = 2;
        }
        let mut wanted = vec![0i64; space.iter().product()];
        let mut total: Option<Tensor> = None;
        for _ in 0..2 {
            let own: Vec<usize> = space.iter().map(|&d| if r.below(3) == 0 { 1 } else { d }).collect();
            let (x, values) = numbers(&mut r, &own, dtype);
            for (k, to) in wanted.iter_mut().enumerate() {
                let (mut rest, mut at, mut step) = (k, 0, 1);
                for a in (0..space.len()).rev() {
                    if own[a] > 1 {
                        at += rest % space[a] * step;
                        step *= own[a];
                    }
                    rest /= space[a];
                }
                *to += values[at];
            }
            let x = x.expand(&space[..]);
            total = Some(total.map_or(x.clone(), |all| all + x));
        }
        let y = total.unwrap().cast(DType::I64).to_vec::<i64>().unwrap();
        let wrong = y.iter().zip(&wanted).position(|(a, b)| a != b);
        assert_eq!(wrong.map(|k| (k, y[k], wanted[k])), None, "{dtype} {space:?}, seed {seed}");
    });
}
fn joined(device: &Device, seed: u64) {
    device.scoped(|| {
        let mut r = Random::new(seed);
        let dtype = DTYPES[r.below(DTYPES.len())];
        let (rows, columns, parts) = (1 + r.below(60), [1, 2, 5, 33, 700][r.below(5)], 2 + r.below(4));
        let given: Vec<(Tensor, Vec<i64>)> = (0..parts)
            .map(|_| {
                let own = [if r.below(3) == 0 { 1 } else { rows }, if r.below(3) == 0 { 1 } else { columns }];
                let (x, values) = numbers(&mut r, &own, dtype);
                let all = (0..rows * columns).map(|k| values[(k / columns % own[0]) * own[1] + k % columns % own[1]]).collect();
                (x.expand([rows, columns]), all)
            })
            .collect();
        let tensors: Vec<Tensor> = given.iter().map(|g| g.0.clone()).collect();
        let y = Tensor::stack(&tensors, -1).cast(DType::I64).to_vec::<i64>().unwrap();
        let wanted: Vec<i64> = (0..rows * columns).flat_map(|k| given.iter().map(move |g| g.1[k])).collect();
        assert!(y == wanted, "{parts} of {dtype} [{rows}, {columns}], seed {seed}");
    });
}

#[test]
fn an_element_of_a_short_line_that_is_another() {
    in_turn(0..900, |device, _, seed| sums(device, seed));
}
#[test]
fn a_place_between_others_that_is_lost() {
    in_turn(0..300, |device, _, seed| joined(device, seed));
}
