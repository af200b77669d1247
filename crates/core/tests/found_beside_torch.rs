//! What random programs beside PyTorch (`cargo xtask programs`) found and was mended, each with PyTorch's answer.
#![allow(clippy::unwrap_used, clippy::panic)]
use adamant_core::{
    DType, Device, Tensor,
    functional::{self, AvgPoolOptions, MaxPoolOptions},
};

fn bools(values: &[bool], shape: &[usize]) -> Tensor {
    Tensor::from_vec(values.to_vec(), shape.to_vec())
}
fn floats(values: &[f64]) -> Tensor {
    Tensor::from_vec(values.to_vec(), [values.len()])
}
#[test]
fn dtypes_are_pytorchs() {
    Device::reference().make_current();
    let (mask, ints) = (bools(&[true, false, true, true], &[2, 2]), Tensor::from_vec(vec![7i32, -1, 3], [3]));
    let pooled = Tensor::from_vec(vec![3i64, 4], [1, 1, 2]);
    for (what, got, wanted) in [
        ("tril", mask.tril(0), DType::Bool),
        ("triu", mask.triu(0), DType::Bool),
        ("diag_embed", mask.diag_embed(0, -2, -1), DType::Bool),
        ("relu6", ints.relu6(), DType::I32),
        ("vander", ints.vander(2), DType::I64),
        ("lp_pool1d", functional::lp_pool1d(&pooled, 2.0, 2, None, false), DType::F32),
        ("local_response_norm", functional::local_response_norm(&pooled, 1, 1e-2, 0.75, 1.0), DType::F32),
        ("cov", ints.float().cov(1.0, None, Some(&floats(&[1.0, 2.0, 1.0]))), DType::F64),
    ] {
        got.materialize().unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(got.dtype().unwrap(), wanted, "{what}");
    }
    assert_eq!(ints.relu6().to_vec::<i32>().unwrap(), [6, 0, 3]);
    assert_eq!(functional::lp_pool1d(&pooled, 2.0, 2, None, false).to_vec::<f32>().unwrap(), [5.0]);
}
#[test]
fn refusals_are_pytorchs() {
    Device::reference().make_current();
    let ints = Tensor::from_vec(vec![2i64, 3], [2]);
    for (what, refused, kind) in [
        ("mean_dtype", ints.mean_dtype(.., DType::I32), "dtype"),
        ("addcdiv", ints.addcdiv(&ints, &ints, 1), "dtype"),
        ("pow", ints.pow(-1), "argument"),
        (
            "max_pool1d",
            functional::max_pool1d(&Tensor::ones([1, 1, 1]), &MaxPoolOptions { stride: Some(1.into()), ceil_mode: true, ..MaxPoolOptions::new(3) }).0,
            "shape",
        ),
    ] {
        let error = refused.materialize().err().unwrap_or_else(|| panic!("{what} is not refused"));
        assert_eq!(error.kind().word(), kind, "{what}: {error}");
    }
}
#[test]
fn values_are_pytorchs() {
    Device::reference().make_current();
    let x = floats(&[1.0, 2.0, 3.0]);
    let last = Tensor::from_vec(vec![-1i64], [1]);
    assert_eq!(x.index_fill(0, &last, 0).to_vec::<f64>().unwrap(), [1.0, 2.0, 0.0]);
    // A window of 3 over 2 elements, in ceil mode.
    let two = floats(&[1.0, 3.0]).reshape([1, 1, 2]);
    assert_eq!(functional::max_pool1d(&two, &MaxPoolOptions { ceil_mode: true, ..MaxPoolOptions::new(3) }).0.to_vec::<f64>().unwrap(), [3.0]);
    assert_eq!(functional::avg_pool1d(&two, &AvgPoolOptions { ceil_mode: true, ..AvgPoolOptions::new(3) }).to_vec::<f64>().unwrap(), [2.0]);
    // One rank of three: singular values are 3 and twice nothing.
    let flat = Tensor::full([3, 3], 0.9966777408637874, DType::F64);
    let singular = flat.svdvals().to_vec::<f64>().unwrap();
    assert!((singular[0] - 3.0 * 0.9966777408637874).abs() < 1e-12 && singular[1..].iter().all(|s| s.abs() < 1e-12), "{singular:?}");
    let scalar = Tensor::from_vec(vec![5.0], ());
    assert_eq!(scalar.movedim(-1, 0).to_vec::<f64>().unwrap(), [5.0]);
    assert!(Tensor::zeros([0]).masked_scatter(&bools(&[true], &[]), &Tensor::zeros([2, 0])).materialize().is_ok());
}
#[test]
fn gradients_are_pytorchs() {
    Device::reference().make_current();
    type Of = fn(&Tensor, &Tensor) -> Tensor;
    for (what, f, by_x, by_y) in [
        ("clamp at a number", (|x, _| x.clamp(0.0, 1.0)) as Of, [0.0, 1.0], [0.0, 0.0]),
        ("fmin of equal sides", |x, y| x.fmin(y), [0.5, 1.0], [0.5, 0.0]),
        ("fmax of equal sides", |x, y| x.fmax(y), [0.5, 0.0], [0.5, 1.0]),
        ("atan2 at the origin", |x, y| x.atan2(y), [0.0, 0.8], [0.0, -0.4]),
        ("i1e near 0", |x, _| (x * 1e-40).i1e() * 1e40, [0.5, 0.5], [0.0, 0.0]),
    ] {
        let (x, y) = (floats(&[0.0, 0.5]).tracked(), floats(&[0.0, 1.0]).tracked());
        let grads = f(&x, &y).sum(..).backward().unwrap_or_else(|e| panic!("{what}: {e}"));
        for (leaf, wanted) in [(&x, by_x), (&y, by_y)] {
            let got = grads.get(leaf).map_or(vec![0.0; 2], |g| g.to_vec::<f64>().unwrap());
            assert!(got.iter().zip(&wanted).all(|(g, w)| (g - w).abs() < 1e-6), "{what}: {got:?} for {wanted:?}");
        }
    }
}
