//! Tensors out of literals, ranges and generators.
use adamant_core::*;

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
fn check<T: Element>(what: &str, got: Tensor, shape: &[usize], want: &[T]) {
    assert_eq!(got.shape().unwrap().to_vec(), shape, "{what}");
    assert_eq!(got.to_vec::<T>().unwrap(), want, "{what}");
}

#[test]
fn literals_have_pytorchs_default_dtypes() {
    on_reference(|| {
        check("floats", tensor![1.5, 2.5], &[2], &[1.5f32, 2.5]);
        check("typed floats", tensor![1.5f64, 2.5], &[2], &[1.5f32, 2.5]);
        check("integers", tensor![[1, 2], [3, 4]], &[2, 2], &[1i64, 2, 3, 4]);
        check("bytes", tensor![1u8, 2], &[2], &[1i64, 2]);
        check("bool", tensor![true, false], &[2], &[true, false]);
        check("asked for", tensor![1, 2; f64], &[2], &[1.0f64, 2.0]);
        check("exact in f64", tensor![0.1; f64], &[1], &[0.1f64]);
        check("deep", tensor![[[[1.0]], [[2.0]]]], &[1, 2, 1, 1], &[1.0f32, 2.0]);
        check("nothing", tensor![], &[0], &[] as &[f32]);
        let refused = tensor![300; u8].ok().unwrap_err();
        assert_eq!(refused.kind().word(), "dtype");
    });
}
#[test]
fn nested_vectors_keep_their_type_and_name_a_ragged_row() {
    on_reference(|| {
        check("f64", Tensor::from_nested(&vec![vec![1.0f64], vec![2.0]]), &[2, 1], &[1.0f64, 2.0]);
        check("a vector of arrays", Tensor::from_nested(&vec![[1u8, 2], [3, 4]]), &[2, 2], &[1u8, 2, 3, 4]);
        check("no rows", Tensor::from_nested(&Vec::<Vec<f32>>::new()), &[0], &[] as &[f32]);
        let cases: [(Vec<Vec<Vec<f32>>>, &str); 2] = [
            (vec![vec![vec![1.0], vec![2.0]], vec![vec![3.0], vec![4.0, 5.0]]], "row [1][1]: rows of different lengths: 2 elements where the first row has 1"),
            (vec![vec![vec![1.0]], vec![]], "row [1]: rows of different lengths: 0 elements where the first row has 1"),
        ];
        for (nested, text) in cases {
            let line = line!() + 1;
            let e = Tensor::from_nested(&nested).ok().unwrap_err();
            assert_eq!(e.kind().word(), "argument");
            assert_eq!(e.kind().to_string(), text);
            assert_eq!(e.location().line(), line);
        }
    });
}
#[test]
fn ranges_end_where_pytorchs_do() {
    on_reference(|| {
        check("up", Tensor::arange(0, 5, 2, DType::I64), &[3], &[0i64, 2, 4]);
        check("down", Tensor::arange(5, 0, -2, DType::I32), &[3], &[5i32, 3, 1]);
        check("empty", Tensor::arange(3, 3, 1, DType::F32), &[0], &[] as &[f32]);
        check("fractions", Tensor::arange(0.0, 1.0, 0.25, DType::F64), &[4], &[0.0f64, 0.25, 0.5, 0.75]);
        check(
            "beyond f64",
            Tensor::arange(9_007_199_254_740_993i64, 9_007_199_254_740_995i64, 1, DType::I64),
            &[2],
            &[9_007_199_254_740_993i64, 9_007_199_254_740_994],
        );
        check("line", Tensor::linspace(0.0, 1.0, 5, DType::F64), &[5], &[0.0f64, 0.25, 0.5, 0.75, 1.0]);
        check("one point", Tensor::linspace(3.0, 7.0, 1, DType::F32), &[1], &[3.0f32]);
        check("powers", Tensor::logspace(0.0, 2.0, 3, 10.0, DType::F64), &[3], &[1.0f64, 10.0, 100.0]);
        check("identity", Tensor::eye(2), &[2, 2], &[1.0f32, 0.0, 0.0, 1.0]);
        check("lower", Tensor::tril_indices(2, 3, 0), &[2, 3], &[0i64, 1, 1, 0, 0, 1]);
        check("upper", Tensor::triu_indices(2, 2, 1), &[2, 1], &[0i64, 1]);
        for (what, t) in [
            ("no step", Tensor::arange(0, 5, 0, DType::I64)),
            ("away", Tensor::arange(0, 5, -1, DType::I64)),
            ("endless", Tensor::arange(0.0, f64::INFINITY, 1, DType::F32)),
        ] {
            assert_eq!(t.ok().unwrap_err().kind().word(), "argument", "{what}");
        }
    });
}
#[test]
fn random_integers_stay_in_range_and_permutations_hold_each_number_once() {
    on_reference(|| {
        let rng = Rng::new(7).unwrap();
        let drawn = Tensor::randint(-3, 5, [4000], &rng).to_vec::<i64>().unwrap();
        for v in -3..5 {
            let n = drawn.iter().filter(|&&d| d == v).count();
            assert!((400..600).contains(&n), "{v} occurs {n} times in 4000");
        }
        assert!(drawn.iter().all(|v| (-3..5).contains(v)));
        assert_eq!(Tensor::randint(0, 1 << 32, [8], &rng).to_vec::<i64>().unwrap().iter().filter(|v| !(0..1i64 << 32).contains(*v)).count(), 0);
        let mut order = Tensor::randperm(50, &rng).to_vec::<i64>().unwrap();
        assert_ne!(order, (0..50).collect::<Vec<_>>());
        order.sort();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
        assert_eq!(Tensor::randint(5, 5, [1], &rng).ok().unwrap_err().kind().word(), "argument");
    });
}
