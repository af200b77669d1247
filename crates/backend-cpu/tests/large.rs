//! Results so large that they are written past the caches have the bits of small ones.
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
    let (rows, classes) = (8, 1_100_003);
    let x = Tensor::arange(0, (rows * classes) as i64, 1, DType::F32).reshape([rows, classes]).sin();
    // Classes at the ends of pieces, and a row that does not count.
    let targets = Tensor::from_vec(vec![0, 2047, 2048, 4095, 1_100_002, -100, 7, 600_000i64], [rows]);
    let gradient = |x: &Tensor, targets: &Tensor| -> Result<Tensor> {
        let x = x.detach().tracked();
        let options = CrossEntropyOptions { reduction: Reduction::Sum, ..CrossEntropyOptions::default() };
        Ok(cross_entropy(&x, targets, &options).backward()?.get(&x).cloned().unwrap())
    };
    let all = bits(&gradient(&x, &targets)?);
    for (row, large) in all.chunks(classes).enumerate() {
        let small = bits(&gradient(&x.narrow(0, row, 1), &targets.narrow(0, row, 1))?);
        assert!(large == small, "row {row}");
    }
    Ok(())
}

#[test]
fn a_block_of_a_large_transpose_that_is_lost_or_in_another_place() -> Result<()> {
    let (m, n) = (2900, 3001);
    let x = Tensor::arange(0, (m * n) as i64, 1, DType::I64);
    for dtype in [DType::F32, DType::I64, DType::BF16] {
        let x = x.cast(dtype).reshape([m, n]);
        let (whole, turned) = (x.cast(DType::F64).to_vec::<f64>()?, x.mt().reshape([m * n]).cast(DType::F64).to_vec::<f64>()?);
        let wrong = (0..m * n).find(|k| turned[*k] != whole[k % m * n + k / m]);
        assert_eq!(wrong, None, "{dtype}");
    }
    Ok(())
}

#[test]
fn a_dropped_element_of_a_large_tensor_that_is_none_of_a_small_one() -> Result<()> {
    let (n, rng) = (9_000_001, Rng::new(7)?);
    let key = rng.cell().read();
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
    for (dtype, rows, n) in [(DType::F32, 1003, 8803), (DType::F64, 7, 700_001), (DType::BF16, 40, 440_003)] {
        let x = (Tensor::arange(0, (rows * n) as i64, 1, DType::F32).sin() * 9.0).cast(dtype).reshape([rows, n]);
        for function in [|x: &Tensor| x.softmax(-1), |x: &Tensor| x.log_softmax(-1)] {
            let all = function(&x).cast(DType::F64).to_vec::<f64>()?;
            for row in (0..rows).step_by(rows / 7) {
                let small = function(&x.narrow(0, row, 1)).cast(DType::F64).to_vec::<f64>()?;
                assert!(all[row * n..][..n] == small, "{dtype}, row {row}");
            }
        }
    }
    Ok(())
}
