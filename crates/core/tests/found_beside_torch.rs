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
#[test]
fn losses_of_several_tensors_meet_in_the_wider_dtype() {
    use adamant_core::functional::{Reduction::Mean, TripletMarginOptions};
    Device::reference().make_current();
    let a = Tensor::from_vec(vec![1.0f32, 2.0, -1.0, 0.5], [2, 2]);
    let b = floats(&[0.5, -1.0, 2.0, 1.0]).reshape([2, 2]);
    let c = floats(&[3.0, 1.0, 0.25, -2.0]).reshape([2, 2]).half();
    let whole = Tensor::from_vec(vec![1i64, 2, 3, 4], [2, 2]);
    let sides = Tensor::from_vec(vec![1i64, -1], [2]);
    let orders = Tensor::from_vec(vec![1i64, -1, 1, 1], [2, 2]);
    let apart = |u: &Tensor, v: &Tensor| (u - v).square().sum(-1);
    let weight = Tensor::from_vec(vec![1.0f32, 2.0], [2]);
    for (what, got, wanted) in [
        ("cosine_embedding_loss", functional::cosine_embedding_loss(&a, &b, &sides, 0.0, Mean), 0.7999999999998799),
        ("cosine_embedding_loss of integers", functional::cosine_embedding_loss(&whole, &b, &sides, 0.0, Mean), 1.2472135954997932),
        ("margin_ranking_loss", functional::margin_ranking_loss(&a, &b, &orders, 0.5, Mean), 2.0),
        ("triplet_margin_loss", functional::triplet_margin_loss(&a, &b, &c, &TripletMarginOptions::default()), 1.5258047833300683),
        ("triplet_margin_with_distance_loss", functional::triplet_margin_with_distance_loss(&a, &b, &c, apart, 1.0, false, Mean), 3.84375),
        ("gaussian_nll_loss", functional::gaussian_nll_loss(&a, &b, &c.abs().float(), false, 1e-6, Mean), 5.701724807421367),
        ("multilabel_soft_margin_loss", functional::multilabel_soft_margin_loss(&a, &b.gt(0.0).double(), Some(&weight), Mean), 1.7071333974599838),
    ] {
        assert_eq!(got.dtype().unwrap_or_else(|e| panic!("{what}: {e}")), DType::F64, "{what}");
        let got = got.item::<f64>().unwrap();
        assert!((got - wanted).abs() < 1e-7 * wanted, "{what}: {got} for {wanted}");
    }
    let sides = Tensor::from_vec(vec![1u8, 0], [2]);
    assert_eq!(functional::hinge_embedding_loss(&floats(&[0.5, 2.0]), &sides, 1.0, Mean).item::<f64>().unwrap(), 1.25, "no u8 is -1");
    let labels = functional::multilabel_soft_margin_loss(&a, &b.gt(0.0).long(), None, Mean);
    assert!((labels.item::<f32>().unwrap() - 1.056_882_1).abs() < 1e-6);
    for (what, refused) in [
        ("multilabel_soft_margin_loss of integers", functional::multilabel_soft_margin_loss(&whole, &b, None, Mean)),
        ("gaussian_nll_loss with an integer variance", functional::gaussian_nll_loss(&a, &a, &whole, false, 1e-6, Mean)),
    ] {
        assert_eq!(refused.materialize().err().unwrap_or_else(|| panic!("{what} is not refused")).kind().word(), "dtype", "{what}");
    }
}
#[test]
fn whole_bounds_keep_integers() {
    Device::reference().make_current();
    let x = Tensor::from_vec(vec![3i64, -2, 0], [3]);
    let small = Tensor::from_vec(vec![3u8, 2, 0], [3]);
    assert_eq!(x.hardtanh(-1.0, 1.0).to_vec::<i64>().unwrap(), [1, -1, 0]);
    assert_eq!(small.hardtanh(-1.0, 1.0).to_vec::<u8>().unwrap(), [1, 1, 0]);
    assert_eq!(x.threshold(1.0, 5.0).to_vec::<i64>().unwrap(), [3, 5, 5]);
    assert_eq!(small.threshold(1.0, 5.0).to_vec::<u8>().unwrap(), [3, 2, 5]);
    // PyTorch makes 1 of 1.5; a number keeps its value here.
    assert_eq!(x.hardtanh(-1.5, 1.5).to_vec::<f32>().unwrap(), [1.5, -1.5, 0.0]);
    assert_eq!(small.threshold(0.5, -1.0).to_vec::<f32>().unwrap(), [3.0, 2.0, -1.0]);
}
#[test]
fn types_of_sums_and_of_what_has_no_axes() {
    Device::reference().make_current();
    let small = Tensor::from_vec(vec![1u8, 2, 3, 4, 5, 6], [2, 3]);
    let summed = small.sum_to_size([3]);
    assert_eq!(summed.to_vec::<i64>().unwrap(), [5, 7, 9]);
    assert_eq!(small.sum_to_size([2, 3]).dtype().unwrap(), DType::U8, "nothing is summed");
    let row = floats(&[1.0, 2.0, 4.0]).reshape([1, 3]);
    let (covariance, correlation) = (row.cov(1.0, None, None), row.corrcoef());
    assert_eq!((covariance.rank(), correlation.rank()), (0, 0));
    assert!((covariance.item::<f64>().unwrap() - 7.0 / 3.0).abs() < 1e-12 && correlation.item::<f64>().unwrap() == 1.0);
    let number = Tensor::scalar(2.0f64);
    let (one, two) = (Tensor::from_vec(vec![0i64], [1]), Tensor::from_vec(vec![0i64, 0], [2]));
    assert_eq!((number.index_select(0, &one).rank(), number.index_select(0, &one).item::<f64>().unwrap()), (0, 2.0));
    assert_eq!(number.index_select(0, &two).materialize().unwrap_err().kind().word(), "shape");
    assert_eq!(number.unfold(0, 1, 2).dims::<1>().unwrap(), [1]);
    assert_eq!(number.unfold(-1, 0, 2).dims::<1>().unwrap(), [0]);
    assert_eq!(number.cosine_similarity(&Tensor::scalar(-3.0f64), 0, 1e-8).item::<f64>().unwrap(), -1.0);
    let window = floats(&[1.0, 2.0, 3.0, 1.0]);
    let spectrum = Tensor::ones([3, 4, 2]);
    assert_eq!(spectrum.istft(4, 2, &window, None, Default::default()).dtype().unwrap(), DType::F64);
}
#[test]
fn ends_and_nothing_are_pytorchs() {
    use adamant_core::tensor::{Interpolation::*, MatrixNorm};
    Device::reference().make_current();
    let (least, most) = (f64::NEG_INFINITY, f64::INFINITY);
    let (apart, alike) = (floats(&[least, 1.0, most]), floats(&[most, most, 0.0]));
    for (how, first, second) in [(Linear, least, f64::NAN), (Lower, least, most), (Higher, 1.0, most), (Nearest, 1.0, most), (Midpoint, least, f64::NAN)] {
        for (x, q, wanted) in [(&apart, 0.3, first), (&alike, 0.9, second)] {
            let got = x.quantile(q, 0, how).item::<f64>().unwrap();
            assert!(got == wanted || (got.is_nan() && wanted.is_nan()), "{how:?}: {got} for {wanted}");
        }
    }
    assert_eq!(Tensor::fftfreq(0, 0.5).to_vec::<f32>().unwrap(), [] as [f32; 0]);
    assert!(Tensor::rfftfreq(0, 0.5).item::<f32>().unwrap().is_nan());
    for (ord, shape) in [(1.0, [0, 5]), (1.0, [5, 0]), (most, [0, 5]), (most, [5, 0]), (2.0, [0, 5])] {
        assert_eq!(Tensor::zeros(shape).matrix_norm(MatrixNorm::Ord(ord)).item::<f32>().unwrap(), 0.0, "{ord} of {shape:?}");
    }
    assert_eq!(Tensor::zeros([1, 5, 0]).matrix_norm_keepdim(MatrixNorm::Ord(most)).dims::<3>().unwrap(), [1, 1, 1]);
    assert!(Tensor::zeros([5, 0]).matrix_norm(MatrixNorm::Ord(-1.0)).materialize().is_err());
    let one = floats(&[3.0]).tracked();
    let gradient = one.std(.., 1.0).backward().unwrap();
    assert!(gradient.get(&one).unwrap().item::<f64>().unwrap().is_nan());
    let (ld, _) = floats(&[2.0, 1.0, 1.0, 3.0]).reshape([2, 2]).ldl_factor();
    assert_eq!(ld.to_vec::<f64>().unwrap(), [2.0, 0.0, 0.5, 2.5]);
}
#[test]
fn weights_of_another_dtype_and_outputs_of_nothing() {
    use adamant_core::functional::ConvTransposeOptions;
    Device::reference().make_current();
    let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0], [1, 3]);
    let scaled = functional::rms_norm(&x, [3], Some(&floats(&[1.0, 0.5, 2.0])), Some(1e-5));
    for (got, wanted) in scaled.to_vec::<f32>().unwrap().iter().zip([0.46290955, 0.46290955, 2.7774572]) {
        assert!((got - wanted).abs() < 1e-6, "{got} for {wanted}");
    }
    let (two, one) = (Tensor::ones([1, 1, 2, 1]), Tensor::ones([1, 1, 1, 1]));
    let options = ConvTransposeOptions { stride: 3.into(), padding: 1.into(), output_padding: 1.into(), ..Default::default() };
    assert_eq!(*functional::conv_transpose2d(&two, &one, None, &options).shape().unwrap(), [1, 1, 3, 0]);
    let more = ConvTransposeOptions { padding: 2.into(), ..options };
    assert_eq!(functional::conv_transpose2d(&two, &one, None, &more).materialize().unwrap_err().kind().word(), "shape");
    let most = floats(&[-65504.0, 1.25]).half();
    assert_eq!(most.round_with(1).to_vec_as::<f64>().unwrap(), [-65504.0, 1.2001953125]);
    let (rows, ones) = (Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [1, 2, 2]).bfloat16(), Tensor::ones([2]));
    assert_eq!(functional::instance_norm_statistics(&rows, Some(&ones), Some(&ones), 1e-5).0.dtype().unwrap(), DType::BF16);
    let counts = Tensor::from_vec(vec![1i64, 2], [2]);
    assert_eq!(functional::clip_grad_norm(&[&x, &counts], 1.0, 2.0).1.materialize().unwrap_err().kind().word(), "dtype");
}
#[test]
fn gradients_of_istft_stay_finite_and_repeated_numbers_are_promoted() {
    use adamant_core::functional::Reduction::Mean;
    Device::reference().make_current();
    let window = Tensor::from_vec(vec![0.0f32, 0.0, 1.0, 1.0], [4]);
    let spectrum = Tensor::ones([3, 4, 2]).tracked();
    let signal = spectrum.istft(4, 2, &window, None, Default::default());
    assert_eq!(signal.to_vec::<f32>().unwrap(), [0.0, 0.5, 0.0, 0.5, 0.0, 0.5]);
    let gradient = signal.sum(..).backward().unwrap();
    let mut wanted = [0.0f32; 24];
    wanted[..14].copy_from_slice(&[0.5, 0.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0, -0.5, 0.5, -0.5, 0.5, -0.5, 0.5]);
    for (got, wanted) in gradient.get(&spectrum).unwrap().to_vec::<f32>().unwrap().iter().zip(wanted) {
        assert!((got - wanted).abs() < 1e-6, "{got} for {wanted}");
    }
    let (x, number) = (floats(&[1.0, 2.0]).half(), Tensor::scalar(0.25f32));
    for (what, got, wanted) in [
        ("mse_loss", functional::mse_loss(&x, &number, Mean), 1.8125),
        ("l1_loss", functional::l1_loss(&x, &number, Mean), 1.25),
        ("smooth_l1_loss", functional::smooth_l1_loss(&x, &number, 1.0, Mean), 0.765625),
    ] {
        assert_eq!(got.dtype().unwrap(), DType::F32, "{what}");
        assert_eq!(got.item::<f32>().unwrap(), wanted, "{what}");
    }
    assert_eq!(functional::huber_loss(&x, &number, 1.0, Mean).dtype().unwrap(), DType::F16);
    let counts = Tensor::from_vec(vec![0i64, -1, 0, 1, 0, 2], [2, 3]);
    assert_eq!(counts.cov(1.0, None, Some(&floats(&[1.0, 0.5, 1.0]).half())).dtype().unwrap(), DType::F16);
    let (small, minus) = (Tensor::from_vec(vec![6u8, 3], [2]), Tensor::scalar(-4i32));
    assert_eq!(small.copysign(&minus).to_vec::<f32>().unwrap(), [-6.0, -3.0]);
    assert_eq!((&small / &minus).to_vec::<f32>().unwrap(), [-1.5, -0.75]);
    let (row, column, matrix) = (floats(&[1.0, 2.0]), floats(&[3.0, -1.0]), floats(&[1.0, 2.0, 3.0, 4.0]).reshape([2, 2]));
    assert_eq!(Tensor::multi_dot(&[&row, &matrix, &column]).item::<f64>().unwrap(), 11.0);
    assert_eq!(Tensor::multi_dot(&[&row, &matrix, &matrix]).to_vec::<f64>().unwrap(), [37.0, 54.0]);
    assert_eq!(Tensor::multi_dot(&[&matrix, &matrix, &column]).to_vec::<f64>().unwrap(), [11.0, 23.0]);
    let (left, weight) = (Tensor::ones([2, 3]), Tensor::ones([4, 3, 3]));
    assert_eq!(left.bilinear(&left, &weight, Some(&Tensor::ones([1]))).materialize().unwrap_err().kind().word(), "shape");
}
#[test]
fn nan_is_the_largest_where_places_are_searched() {
    Device::reference().make_current();
    for n in [3usize, 100] {
        let mut row: Vec<f64> = (0..n).map(|k| k as f64).collect();
        row[n - 2..].fill(f64::NAN);
        let (sorted, last) = (floats(&row), (n - 2) as i64);
        let values = floats(&[0.0, f64::INFINITY, f64::NAN]);
        assert_eq!(sorted.searchsorted(&values, false).to_vec::<i64>().unwrap(), [0, last, last], "{n}");
        assert_eq!(sorted.searchsorted(&values, true).to_vec::<i64>().unwrap(), [1, last, n as i64], "{n}");
        assert_eq!(values.isin(&sorted).to_vec::<bool>().unwrap(), [true, false, false], "{n}");
    }
}
#[test]
fn gradients_are_those_of_the_side_that_was_taken() {
    Device::reference().make_current();
    let (x, weight) = (floats(&[1.0, -1.0]).reshape([1, 2]).tracked(), floats(&[f64::INFINITY, 0.5]).tracked());
    let gradient = x.prelu(&weight).sum(..).backward().unwrap();
    assert_eq!(gradient.get(&x).unwrap().to_vec::<f64>().unwrap(), [1.0, 0.5]);
    assert_eq!(gradient.get(&weight).unwrap().to_vec::<f64>().unwrap(), [0.0, -1.0]);
    // At the margin no gradient passes, as of `clamp_min`.
    let x = floats(&[1.0, 0.5, 0.0]).tracked();
    let gradient = functional::hinge_embedding_loss(&x, &floats(&[-1.0, -1.0, 1.0]), 1.0, functional::Reduction::Sum).backward().unwrap();
    assert_eq!(gradient.get(&x).unwrap().to_vec::<f64>().unwrap(), [0.0, -1.0, 1.0]);
}
#[test]
fn products_of_16_bits_are_rounded_after_they_met() {
    Device::reference().make_current();
    let (z, w) = (floats(&[1.5244140625, 1.283203125]).half(), floats(&[0.46484375, 0.59423828125]).half());
    assert_eq!(z.complex_mul(&w).to_vec_as::<f64>().unwrap()[0], -0.053924560546875);
    // One complex number is a scalar, whose dtype counts less.
    assert_eq!(z.complex_mul(&w.double()).dtype().unwrap(), DType::F64);
    assert_eq!(z.unsqueeze(0).complex_mul(&w.double()).dtype().unwrap(), DType::F16);
    let (x, a, b) = (floats(&[0.375]).reshape([1, 1]).half(), floats(&[1.05859375]).half(), floats(&[-0.243408203125]).half());
    assert_eq!(x.addr(&a, &b, 2, 3).to_vec_as::<f64>().unwrap(), [-0.0230102539062500]);
}
#[test]
fn leading_axes_of_solved_equations_are_pytorchs() {
    Device::reference().make_current();
    let a = floats(&[4.0, 2.0, 2.0, 3.0]).reshape([2, 2]);
    let b = floats(&[8.0, 7.0, 6.0, 5.0]).reshape([2, 2, 1]);
    let (x, info) = a.solve_ex(&b);
    assert_eq!((x.dims::<3>().unwrap(), info.item::<i32>().unwrap()), ([2, 2, 1], 0));
    assert_eq!(info.shape().unwrap().rank(), 0);
    let (_, info) = a.unsqueeze(0).solve_ex(&b);
    assert_eq!(info.dims::<1>().unwrap(), [1]);
    let (none, info) = Tensor::ones([1, 2, 2]).solve_ex(&Tensor::ones([0, 2, 1]));
    assert_eq!((none.dims::<3>().unwrap(), info.dims::<1>().unwrap()), ([0, 2, 1], [1]));
    let refused = Tensor::ones([3, 0, 1, 2]).solve_ex(&Tensor::ones([3, 2])).0;
    assert_eq!(refused.materialize().unwrap_err().kind().word(), "shape");
    let (factors, pivots) = a.ldl_factor();
    assert!(factors.ldl_solve(&pivots, &b).allclose(&x, 1e-12, 1e-12).unwrap());
}
#[test]
fn nothing_is_filled_and_met_as_in_pytorch() {
    Device::reference().make_current();
    let spectrum = Tensor::zeros([2, 0, 2]).fftn(&[2, 3], [1, 0], Default::default());
    assert_eq!(spectrum.dims::<3>().unwrap(), [3, 2, 2]);
    assert!(spectrum.to_vec::<f32>().unwrap().iter().all(|v| *v == 0.0));
    let empty = Tensor::zeros([3, 0, 2, 1]);
    assert_eq!(functional::local_response_norm(&empty, 3, 1e-2, 0.75, 1.0).dims::<4>().unwrap(), [3, 0, 2, 1]);
    let blocks = [Tensor::scalar(0.5f32), floats(&[1.0, 2.0]).half()];
    let joined = Tensor::block_diag(&blocks);
    assert_eq!((joined.dtype().unwrap(), joined.dims::<2>().unwrap()), (DType::F16, [2, 3]));
}
