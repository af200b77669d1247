//! Matrix products by the machine's library, with the features `openblas`, `mkl` or `accelerate`.
#![cfg(any(feature = "openblas", feature = "mkl", feature = "accelerate"))]
use adamant::{
    DType, Device, Result, Tensor,
    backend::Determinism,
    cpu::{Blas, Context, CpuBackend, trace::trace},
};

fn numbers(shape: &[usize], dtype: DType) -> Tensor {
    let n = shape.iter().product::<usize>() as i64;
    ((Tensor::arange(0, n, 1, DType::I64) * 7919i64).remainder(101i64).cast(dtype) / 101.0 - 0.5).reshape(shape)
}
#[test]
fn a_product_that_the_library_gets_wrong_or_never_sees() -> Result<()> {
    let library = Blas::built_in().name();
    let blas = Context::new(CpuBackend::builder().threads(2).blas(library))?.device();
    let own = Context::new(CpuBackend::builder().threads(2).blas("own"))?.device();
    assert_eq!((blas.info().determinism, own.info().determinism), (Determinism::None, Determinism::Bitwise));
    assert!(blas.info().details.contains(&("blas", library.to_string())));
    // Sizes, then what is done to the operands: plain, transposed, of a batch, broadcast, with a gap between rows.
    type Make = fn(DType) -> (Tensor, Tensor);
    const CASES: &[(&str, &str, Make)] = &[
        ("plain", "", |d| (numbers(&[65, 33], d), numbers(&[33, 47], d))),
        ("transposed", "", |d| (numbers(&[33, 65], d).t(), numbers(&[47, 33], d).t())),
        ("batch", "", |d| (numbers(&[3, 5, 7], d), numbers(&[3, 7, 4], d))),
        ("broadcast", "", |d| (numbers(&[3, 5, 7], d), numbers(&[7, 4], d))),
        ("rows with a gap", "", |d| (numbers(&[20, 32], d).narrow(1, 3, 11), numbers(&[11, 9], d))),
        ("a row", "", |d| (numbers(&[1, 40], d), numbers(&[40, 30], d))),
        ("a column", "", |d| (numbers(&[30, 40], d), numbers(&[40, 1], d))),
        // BLAS has no strides on both axes: the built-in kernels run.
        ("every other column", "own", |d| (numbers(&[20, 32], d).slice(1, 0, 32, 2), numbers(&[16, 9], d))),
    ];
    for (name, by, make) in CASES {
        for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F64, 1e-13)] {
            let run = |device: Device| {
                device.scoped(|| -> Result<Vec<f64>> {
                    let (a, b) = make(dtype);
                    a.materialize()?;
                    b.materialize()?;
                    a.matmul(b).cast(DType::F64).to_vec()
                })
            };
            let (got, ran) = trace(|| run(blas));
            let (got, want) = (got?, run(own)?);
            let by = if by.is_empty() { library } else { by };
            let product = ran.iter().find(|r| r.kernel == "matmul").expect("a matmul ran");
            assert!(product.by.starts_with(by), "{name} {dtype}: by {}", product.by);
            assert!(got.len() == want.len() && got.iter().zip(&want).all(|(g, w)| (g - w).abs() <= tolerance * 40.0), "{name} {dtype}");
        }
    }
    // Gradients go the same way.
    blas.scoped(|| {
        let (a, b) = (numbers(&[8, 6], DType::F64).tracked(), numbers(&[6, 5], DType::F64));
        let grads = a.matmul(&b).sum(..).backward()?;
        let want = Tensor::ones([8, 5]).cast(DType::F64).matmul(b.t());
        assert!(grads.get(&a).is_some_and(|g| g.allclose(&want, 1e-12, 1e-12).unwrap_or(false)));
        Ok(())
    })
}
