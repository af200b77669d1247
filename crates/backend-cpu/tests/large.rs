//! Results so large that they are written by non-temporal stores have the bits of small ones.
#![allow(clippy::unwrap_used)]
use adamant_backend_cpu as _;
use adamant_core::{
    composite::loss::Reduction,
    functional::{CrossEntropyOptions, cross_entropy},
    *,
};

fn bits(x: &Tensor) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

#[test]
fn a_piece_of_a_large_gradient_that_is_lost_or_written_twice() -> Result<()> {
    let gradient = |x: &Tensor, targets: &Tensor| -> Result<Tensor> {
        let x = x.detach().tracked();
        let options = CrossEntropyOptions { reduction: Reduction::Sum, ..CrossEntropyOptions::default() };
        Ok(cross_entropy(&x, targets, &options).backward()?.get(&x).cloned().unwrap())
    };
    // Rows that no cache holds, and rows of which it holds several; classes at the ends of pieces and of rows, and rows that
    // do not count: first, last, alone and side by side.
    let wide = [0, 2047, 2048, 4095, 1_100_002, -100, 7, 600_000i64];
    let narrow: Vec<i64> = (0..48).map(|k| if [0, 5, 9, 10, 47].contains(&k) { -100 } else { k * 1276 + k % 2 * 30 }).collect();
    for (classes, targets) in [(1_100_003, wide.to_vec()), (60_003, narrow)] {
        let rows = targets.len();
        let targets = Tensor::from_vec(targets, [rows]);
        let x = Tensor::arange(0, (rows * classes) as i64, 1, DType::F32).reshape([rows, classes]).sin();
        let all = bits(&gradient(&x, &targets)?);
        for (row, large) in all.chunks(classes).enumerate() {
            let small = bits(&gradient(&x.narrow(0, row, 1), &targets.narrow(0, row, 1))?);
            assert!(large == small, "row {row} of {classes} classes");
        }
    }
    Ok(())
}

#[test]
fn a_block_of_a_large_transpose_that_is_lost_or_in_another_place() -> Result<()> {
    // The rows of the second lie where one set of a cache has to hold them all.
    for (m, n) in [(2900, 3001), (3072, 2048)] {
        let x = Tensor::arange(0, (m * n) as i64, 1, DType::I64);
        for dtype in [DType::F32, DType::I64, DType::BF16] {
            let x = x.cast(dtype).reshape([m, n]);
            let (whole, transposed) = (x.cast(DType::F64).to_vec::<f64>()?, x.mt().reshape([m * n]).cast(DType::F64).to_vec::<f64>()?);
            let wrong = (0..m * n).find(|k| transposed[*k] != whole[k % m * n + k / m]);
            assert_eq!(wrong, None, "{dtype}");
        }
    }
    Ok(())
}

#[test]
fn an_element_at_the_rim_of_a_large_sum_that_is_lost() -> Result<()> {
    // Rows that begin with a cache line and rows that do not, and ones too short to be taken each by itself.
    for (rows, n) in [(3001, 1003), (2900, 1024), (9001, 333)] {
        let number = |k: usize| (k * 37 % 1009) as f32 * 0.01 - 4.0;
        let values: Vec<f32> = (0..rows * n + 3).map(number).collect();
        let row: Vec<f32> = (0..n).map(|k| number(k * 7 + 1)).collect();
        let column: Vec<f32> = (0..rows).map(|k| number(k * 11 + 2)).collect();
        let all = Tensor::from_slice(&values, [rows * n + 3]);
        // It begins in the midst of a line.
        let x = all.narrow(0, 3, rows * n).reshape([rows, n]);
        let (by_row, by_column) = (Tensor::from_slice(&row, [n]), Tensor::from_slice(&column, [rows, 1]));
        let x_at = |k: usize| values[k + 3];
        let cases: [(&str, Tensor, &dyn Fn(usize) -> f32); 5] = [
            ("a row", &x + &by_row, &|k| x_at(k) + row[k % n]),
            ("a column", &x + &by_column, &|k| x_at(k) + column[k / n]),
            ("a number", &x + 1.5, &|k| x_at(k) + 1.5),
            ("itself, elsewhere", &x + all.narrow(0, 0, rows * n).reshape([rows, n]), &|k| x_at(k) + values[k]),
            ("scaled and shifted", &x * &by_row + &by_column, &|k| x_at(k) * row[k % n] + column[k / n]),
        ];
        for (name, y, exact) in cases {
            let wrong = y.to_vec::<f32>()?.iter().enumerate().position(|(k, v)| v.to_bits() != exact(k).to_bits());
            assert_eq!(wrong, None, "{name}, rows of {n}");
        }
    }
    Ok(())
}

#[test]
fn a_dropped_element_of_a_large_tensor_that_is_none_of_a_small_one() -> Result<()> {
    let (n, rng) = (9_000_001, Rng::new(7)?);
    let key = rng.cell().detached();
    let kept = functional::dropout(&Tensor::ones([n]), 0.25, &rng).to_vec::<f32>()?;
    let key = key.to_vec::<u32>()?;
    for (k, v) in kept.iter().enumerate() {
        let draw = rng::element_bits([key[0], key[1], key[2], key[3]], k as u64) >> 8;
        assert_eq!(*v, if draw < 1 << 22 { 0.0 } else { 1.0 / 0.75 }, "{k}");
    }
    Ok(())
}

#[test]
fn a_row_of_a_large_softmax_that_is_lost_or_another_one() -> Result<()> {
    // A row of each kind: ordinary numbers, some so far apart that exponentials vanish, minus infinity, NaN, equal ones.
    let number = |row: usize, i: usize| match row % 5 {
        1 => (i as f32).sin() * 300.0,
        2 if i % 7 == 3 => f32::NEG_INFINITY,
        3 if i == 11 => f32::NAN,
        4 => 2.5,
        _ => ((row * 31 + i) as f32).sin() * 9.0,
    };
    let sizes = [
        (DType::F32, 1003, 8803),
        (DType::F32, 2801, 1024),
        (DType::F32, 2701, 1001),
        (DType::F32, 9001, 300),
        (DType::F64, 7, 700_001),
        (DType::F64, 1401, 1000),
        (DType::BF16, 40, 440_003),
    ];
    for (dtype, rows, n) in sizes {
        let x = Tensor::from_vec((0..rows * n).map(|k| number(k / n, k % n)).collect::<Vec<f32>>(), [rows, n]).cast(dtype);
        for function in [|x: &Tensor| x.softmax(-1), |x: &Tensor| x.log_softmax(-1)] {
            let bits = |x: &Tensor| {
                Ok::<_, Error>(x.cast(DType::F64).to_vec::<f64>()?.into_iter().map(|v| if v.is_nan() { 0 } else { v.to_bits() }).collect::<Vec<_>>())
            };
            let all = bits(&function(&x))?;
            for row in (0..rows).step_by((rows / 103).max(1)).chain([rows - 1]) {
                assert!(all[row * n..][..n] == bits(&function(&x.narrow(0, row, 1)))?, "{dtype}, row {row} of {n}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_row_of_a_large_norm_that_is_lost_or_another_one() -> Result<()> {
    let (rows, n) = (4099, 771);
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        let x = (Tensor::arange(0, (rows * n) as i64, 1, DType::F32).sin() * 3.0).cast(dtype).reshape([rows, n]);
        let (w, b) = (Tensor::arange(0, n as i64, 1, DType::F32).cos().cast(dtype), Tensor::ones([n]).cast(dtype));
        let both = |x: &Tensor| -> Result<[Vec<f64>; 2]> {
            let x = x.detach().tracked();
            let y = functional::layer_norm(&x, [n], Some(&w), Some(&b), 1e-5);
            let dx = (&y * &y).sum(..).backward()?.get(&x).cloned().unwrap();
            Ok([y.detach().cast(DType::F64).to_vec()?, dx.cast(DType::F64).to_vec()?])
        };
        let large = both(&x)?;
        for row in (0..rows).step_by(rows / 7) {
            let small = both(&x.narrow(0, row, 1))?;
            for (large, small) in large.iter().zip(small) {
                assert!(large[row * n..][..n] == small, "{dtype}, row {row}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_picked_row_that_is_lost_or_another_one() -> Result<()> {
    let (table, rows, n) = (1000, 20_011, 193);
    let weight = Tensor::arange(0, (table * n) as i64, 1, DType::F32).reshape([table, n]);
    let at: Vec<i64> = (0..rows as i64).map(|k| k * 7919 % table as i64).collect();
    let picked = |at: &[i64]| functional::embedding(&Tensor::from_slice(at, [at.len()]), &weight, None);
    let all = picked(&at).to_vec::<f32>()?;
    for (row, (&i, picked)) in at.iter().zip(all.chunks(n)).enumerate() {
        assert!(picked.iter().enumerate().all(|(j, &v)| v == (i as usize * n + j) as f32), "row {row}");
    }
    // An index that is bad is told, wherever it stands.
    for bad in [0, rows / 2, rows - 1] {
        let mut at = at.clone();
        at[bad] = table as i64;
        assert!(matches!(picked(&at).to_vec::<f32>().unwrap_err().kind(), ErrorKind::Index { .. }), "{bad}");
    }
    Ok(())
}
