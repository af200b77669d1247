//! Meanings that the goldens do not reach: ties, NaN, empty and scalar tensors, long inputs, properties of factors.
use adamant_core::{tensor::*, *};

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
fn check<T: Element>(what: &str, got: &Tensor, shape: &[usize], want: &[T]) {
    assert_eq!(got.shape().unwrap_or_else(|e| panic!("{what}: {e}")).to_vec(), shape, "{what}");
    let got = got.to_vec::<T>().unwrap_or_else(|e| panic!("{what}: {e}"));
    let same = |a: &T, b: &T| a == b || (a.to_f64().is_nan() && b.to_f64().is_nan());
    assert!(got.len() == want.len() && got.iter().zip(want).all(|(a, b)| same(a, b)), "{what}: {got:?}, not {want:?}");
}
fn close(what: &str, got: &Tensor, want: &Tensor, tolerance: f64) {
    assert!(got.allclose(want, tolerance, tolerance).unwrap_or_else(|e| panic!("{what}: {e}")), "{what}: {got} is not {want}");
}
/// Irregular numbers in -1..1.
fn irregular(shape: &[usize]) -> Tensor {
    Tensor::from_vec((0..shape.iter().product()).map(|k| (((k as f64 + 1.0) * 12.9898).sin() * 43758.5453).fract()).collect::<Vec<f64>>(), shape.to_vec())
}
const NAN: f64 = f64::NAN;

#[test]
fn ties_and_nan_are_pytorchs() {
    on_reference(|| {
        let x = tensor![1.0, 3.0, 3.0, 2.0; f64];
        check("cummax index", &x.cummax(0).1, &[4], &[0i64, 1, 2, 2]);
        check("cummin of falling", &tensor![2.0, 2.0, 3.0].cummin(0).1, &[3], &[0i64, 1, 1]);
        let n = tensor![1.0, NAN, 3.0; f64];
        check("cummax sticks", &n.cummax(0).0, &[3], &[1.0, NAN, NAN]);
        check("argmax of NaN", &n.argmax(0), &[], &[1i64]);
        check("sort puts NaN last", &n.sort(0, false).1, &[3], &[0i64, 2, 1]);
        check("and first", &n.sort(0, true).1, &[3], &[1i64, 2, 0]);
        check("median of NaN", &n.median_dim(0).0, &[], &[NAN]);
        check("nanmedian", &n.nanmedian_dim(0).0, &[], &[1.0]);
        check("nanmedian of nothing else", &tensor![NAN; f64].nanmedian_dim(0).0, &[], &[NAN]);
        check("lower of two", &tensor![4.0, 1.0, 3.0, 2.0; f64].median_dim_keepdim(0).0, &[1], &[2.0]);
        check("its index", &tensor![4.0, 1.0, 3.0, 2.0; f64].median_dim_keepdim(0).1, &[1], &[3i64]);
        check("quantile of NaN", &n.quantile(0.5, 0, Interpolation::Linear), &[], &[NAN]);
        check("nanquantile", &n.nanquantile(0.5, 0, Interpolation::Linear), &[], &[2.0]);
        let m = tensor![3, 1, 3, 1, 2];
        check("the smaller mode", &m.mode(0).0, &[], &[1i64]);
        check("its last place", &m.mode(0).1, &[], &[3i64]);
        check("aminmax", &n.aminmax(0).0, &[], &[NAN]);
        check("nanmean", &n.nanmean(0), &[], &[2.0]);
        check("nansum", &n.nansum(..), &[], &[4.0]);
        check("count", &n.count_nonzero(..), &[], &[3i64]);
        check(
            "logcumsumexp from -inf",
            &Tensor::from_vec(vec![f64::NEG_INFINITY, -1e4, f64::NEG_INFINITY], 3).logcumsumexp(0),
            &[3],
            &[f64::NEG_INFINITY, -1e4, -1e4],
        );
    });
}
#[test]
fn quantiles_interpolate_in_five_ways() {
    on_reference(|| {
        let x = tensor![4.0, 1.0, 3.0, 2.0; f64];
        use Interpolation::*;
        for (how, want) in [(Linear, 2.2), (Lower, 2.0), (Higher, 3.0), (Nearest, 2.0), (Midpoint, 2.5)] {
            close(&format!("{how:?}"), &x.quantile(0.4, 0, how), &Tensor::scalar(want), 1e-12);
        }
        close("several", &x.quantiles_keepdim(&[0.0, 1.0], 0, Linear), &tensor![[1.0], [4.0]; f64], 0.0);
    });
}
#[test]
fn scalars_count_as_one_element() {
    on_reference(|| {
        let x = Tensor::scalar(2.0f64);
        check("sum", &x.sum(0), &[], &[2.0]);
        check("cumsum", &x.cumsum(-1), &[], &[2.0]);
        check("sort", &x.sort(0, false).1, &[], &[0i64]);
        check("max", &x.max_dim_keepdim(0).1, &[], &[0i64]);
        check("gather", &x.gather(0, &Tensor::scalar(0i64)), &[], &[2.0]);
        check("index_select", &x.index_select(0, &Tensor::from_slice(&[0i64], 1)), &[], &[2.0]);
        check("flatten", &x.flatten(0, -1), &[1], &[2.0]);
        check("topk", &x.topk(1, 0, true).0, &[], &[2.0]);
        check("median", &x.median_dim(0).1, &[], &[0i64]);
        check("cat", &Tensor::stack(&[x.clone(), x.clone()], 0), &[2], &[2.0, 2.0]);
        check("transpose", &x.transpose(0, -1), &[], &[2.0]);
        check("nonzero", &x.nonzero(), &[1, 0], &[] as &[i64]);
        check("take", &x.take(&Tensor::scalar(-1i64)), &[], &[2.0]);
        check("diff", &tensor![5.0; f64].diff(1, 0), &[0], &[] as &[f64]);
    });
}
#[test]
fn empty_tensors_have_shapes() {
    on_reference(|| {
        let x = Tensor::zeros_on([0, 3], DType::F64, Device::reference());
        check("sum", &x.sum(0), &[3], &[0.0; 3]);
        check("prod", &x.prod(0), &[3], &[1.0; 3]);
        check("mean", &x.mean(0), &[3], &[NAN; 3]);
        check("all", &x.all(0), &[3], &[true; 3]);
        check("any", &x.any(..), &[], &[false]);
        check("logsumexp", &x.logsumexp(0), &[3], &[f64::NEG_INFINITY; 3]);
        check("norm", &x.vector_norm(2.0, 0), &[3], &[0.0; 3]);
        check("amax over the other axis", &x.amax(1), &[0], &[] as &[f64]);
        check("matmul", &x.t().matmul(&x), &[3, 3], &[0.0; 9]);
        check("einsum", &Tensor::einsum("ij,ik->jk", &[&x, &x]), &[3, 3], &[0.0; 9]);
        check("cat", &Tensor::cat(&[x.clone(), x.clone()], 0), &[0, 3], &[] as &[f64]);
        check("cat with an empty vector", &Tensor::cat(&[tensor![], tensor![[1.0]]], 0), &[1, 1], &[1.0f32]);
        check("sort", &x.sort(0, false).0, &[0, 3], &[] as &[f64]);
        check("unique", &x.unique().0, &[0], &[] as &[f64]);
        check("nonzero", &x.nonzero(), &[0, 2], &[] as &[i64]);
        check("index", &x.index(&[Some(&Tensor::from_vec(Vec::<i64>::new(), 0))]), &[0, 3], &[] as &[f64]);
        check("gather", &x.gather(0, &Tensor::from_vec(Vec::<i64>::new(), [0, 3])), &[0, 3], &[] as &[f64]);
        check("inv", &Tensor::zeros_on([2, 0, 0], DType::F64, Device::reference()).det(), &[2], &[1.0, 1.0]);
        check("repeat to nothing", &tensor![1, 2].repeat([0]), &[0], &[] as &[i64]);
        check("bincount", &Tensor::from_vec(Vec::<i64>::new(), 0).bincount(None, 2), &[2], &[0i64, 0]);
        check("diagonal", &x.diagonal(0, 0, 1), &[0], &[] as &[f64]);
        assert_eq!(x.chunk(2, 1).unwrap().len(), 2);
    });
}
#[test]
fn searches_by_counting_and_by_halving_agree() {
    on_reference(|| {
        for n in [1usize, 63, 64, 65, 200] {
            let row: Vec<f64> = (0..n).map(|k| (k / 3) as f64).collect();
            let values: Vec<f64> = (-2..=n as i64 / 3 + 2).flat_map(|v| [v as f64, v as f64 + 0.5]).chain([NAN]).collect();
            for right in [false, true] {
                #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "NaN is neither before nor behind")]
                let want: Vec<i64> = values.iter().map(|v| row.iter().filter(|r| if right { !(*r > v) } else { !(*r >= v) }).count() as i64).collect();
                let got = Tensor::from_slice(&row, n).searchsorted(&Tensor::from_slice(&values, values.len()), right);
                check(&format!("{n} {right}"), &got, &[values.len()], &want);
                let rows = Tensor::stack(&[Tensor::from_slice(&row, n), Tensor::from_slice(&row, n) + 1.0], 0);
                let two = Tensor::from_slice(&values, values.len()).unsqueeze(0).repeat([2, 1]);
                check(&format!("{n} {right} rows"), &rows.searchsorted(&two, right).get(0), &[values.len()], &want);
            }
        }
        check("bucketize", &tensor![0.0, 1.0, 2.5].bucketize(&tensor![1.0, 2.0], false), &[3], &[0i64, 0, 2]);
    });
}
#[test]
fn distinct_values_and_counts() {
    on_reference(|| {
        let x = tensor![[3, 1], [3, 2]];
        let (values, inverse, counts) = x.unique();
        check("values", &values, &[3], &[1i64, 2, 3]);
        check("inverse", &inverse, &[2, 2], &[2i64, 0, 2, 1]);
        check("counts", &counts, &[3], &[1i64, 1, 2]);
        let (values, group, counts) = tensor![1, 1, 2, 1].unique_consecutive();
        check("runs", &values, &[3], &[1i64, 2, 1]);
        check("their numbers", &group, &[4], &[0i64, 0, 1, 2]);
        check("their lengths", &counts, &[3], &[2i64, 1, 1]);
        check("weights", &tensor![0, 2, 2].bincount(Some(&tensor![0.5, 1.0, 2.0]), 0), &[3], &[0.5f32, 0.0, 3.0]);
        check("histogram", &tensor![0.0, 0.4, 1.0, 2.0, 5.0; f64].histc(2, 0.0, 2.0), &[2], &[2.0, 2.0]);
        check("of equal elements", &tensor![3.0, 3.0; f64].histc(3, 0.0, 0.0), &[3], &[0.0, 2.0, 0.0]);
        let (at, count) = tensor![[0, 5], [6, 0]].nonzero_static(3, -1);
        check("padded", &at, &[3, 2], &[0i64, 1, 1, 0, -1, -1]);
        check("count", &count, &[], &[2i64]);
        check("cut", &tensor![1, 1, 1].nonzero_static(2, 0).0, &[2, 1], &[0i64, 1]);
        check("repeats", &tensor![7, 8, 9].repeat_interleave_by(&tensor![2, 0, 1], 0), &[3], &[7i64, 7, 9]);
    });
}
#[test]
fn indexing_follows_numpy() {
    on_reference(|| {
        let x = Tensor::arange(0, 24, 1, DType::I64).reshape([2, 3, 4]);
        let i = tensor![1, -1];
        let shape = |t: Tensor| t.shape().unwrap().to_vec();
        assert_eq!(shape(x.index(&[None, Some(&i), Some(&i)])), [2, 2]);
        assert_eq!(shape(x.index(&[Some(&i), None, Some(&i)])), [2, 3]);
        assert_eq!(shape(x.index(&[None, Some(&i.unsqueeze(0))])), [2, 1, 2, 4]);
        assert_eq!(shape(x.index(&[Some(&i.unsqueeze(1)), Some(&tensor![0, 1, 2])])), [2, 3, 4]);
        check("neighbours", &x.index(&[None, Some(&i), Some(&tensor![0, 3])]), &[2, 2], &[4i64, 11, 16, 23]);
        check("apart", &x.index(&[Some(&tensor![0, 1]), None, Some(&tensor![0, 3])]), &[2, 3], &[0i64, 4, 8, 15, 19, 23]);
        check("mask and index", &x.index(&[Some(&tensor![false, true]), Some(&tensor![2])]), &[1, 4], &[20i64, 21, 22, 23]);
        let put = Tensor::zeros_on([2, 3], DType::I64, Device::reference()).index_put(&[None, Some(&tensor![0, 2])], &tensor![5, 6], false);
        check("put", &put, &[2, 3], &[5i64, 0, 6, 5, 0, 6]);
        check("slice", &x.slice_signed(2, Some(-2), None, 1).get(0).get(0), &[2], &[2i64, 3]);
        check("slice backwards", &x.slice_signed(2, Some(3), Some(1), 1), &[2, 3, 0], &[] as &[i64]);
        check("i32 ids", &tensor![10, 20].index_select(0, &tensor![1, 0; i32]), &[2], &[20i64, 10]);
        check("u8 ids", &tensor![10, 20].index(&[Some(&tensor![1; u8])]), &[1], &[20i64]);
    });
}
#[test]
fn transforms_of_any_length_equal_their_definition() {
    on_reference(|| {
        for n in [1usize, 2, 5, 64, 65, 97, 128, 130, 360] {
            let x = irregular(&[2, n, 2]);
            let angle =
                Tensor::arange(0, n, 1, DType::F64).outer(&Tensor::arange(0, n, 1, DType::F64)).remainder(n as f64) * (-std::f64::consts::TAU / n as f64);
            let (re, im) = (x.select(2, 0), x.select(2, 1));
            let (c, s) = (angle.cos(), angle.sin());
            let want = Tensor::stack(&[re.matmul(&c) - im.matmul(&s), re.matmul(&s) + im.matmul(&c)], -1);
            let got = x.fft(None, 1, FftNorm::Backward);
            close(&format!("fft {n}"), &got, &want, 1e-10);
            close(&format!("ifft {n}"), &got.ifft(None, 1, FftNorm::Backward), &x, 1e-12);
            close(&format!("irfft {n}"), &re.rfft(None, 1, FftNorm::Forward).irfft(Some(n), 1, FftNorm::Forward), &re, 1e-12);
        }
        let x = irregular(&[3, 200]);
        let window = Tensor::from_vec((0..32).map(|k| 0.5 - 0.5 * (k as f64 * std::f64::consts::TAU / 32.0).cos()).collect::<Vec<f64>>(), 32);
        let back = x.stft(32, 8, &window, true, FftNorm::Backward).istft(32, 8, &window, None, FftNorm::Backward);
        close("istft", &back, &x, 1e-10);
        close("rfft2", &irregular(&[6, 8]).rfft2(FftNorm::Ortho).irfft2(Some(8), FftNorm::Ortho), &irregular(&[6, 8]), 1e-12);
    });
}
#[test]
fn factors_multiply_to_their_matrix() {
    on_reference(|| {
        for (m, n) in [(1usize, 1usize), (5, 5), (9, 4), (4, 9), (12, 12)] {
            let a = irregular(&[2, m, n]);
            let (q, r) = a.qr();
            close("qr", &q.matmul(&r), &a, 1e-12);
            let k = m.min(n);
            let identity = Tensor::eye_on(k, k, DType::F64, Device::reference()).expand([2, k, k]);
            close("q is orthonormal", &q.mt().matmul(&q), &identity, 1e-12);
            close("r is a triangle", &r.triu(0), &r, 0.0);
            let (u, s, vt) = a.svd();
            close("svd", &(&u * s.unsqueeze(1)).matmul(&vt), &a, 1e-12);
            close("u is orthonormal", &u.mt().matmul(&u), &identity, 1e-12);
            close("v is orthonormal", &vt.matmul(vt.mt()), &identity, 1e-12);
            close("descending", &s.sort(1, true).0, &s, 0.0);
            close("pinv", &a.matmul(a.pinv(None)).matmul(&a), &a, 1e-10);
            if m == n {
                let (values, v) = (&a + a.mt()).eigh();
                close("eigh", &(&v * values.unsqueeze(1)).matmul(v.mt()), &(&a + a.mt()), 1e-11);
                close("inv", &a.inv().matmul(&a), &identity, 1e-8);
                let (sign, log) = a.slogdet();
                close("det", &a.det(), &(sign * log.exp()), 1e-10);
            }
        }
        let low = tensor![[1.0, 2.0], [2.0, 4.0]; f64];
        let (u, s, vt) = low.svd();
        close("a singular matrix", &(&u * s.unsqueeze(0)).matmul(&vt), &low, 1e-14);
        close("completed", &u.t().matmul(&u), &Tensor::eye_on(2, 2, DType::F64, Device::reference()), 1e-14);
        check("rank", &low.matrix_rank(None), &[], &[1i64]);
        check("sign of singular", &low.slogdet().0, &[], &[0.0]);
        let matrices: Vec<Tensor> = [(3, 7), (7, 2), (2, 5)].iter().map(|&(m, n)| irregular(&[m, n])).collect();
        close("multi_dot", &Tensor::multi_dot(&matrices), &matrices[0].matmul(&matrices[1]).matmul(&matrices[2]), 1e-12);
    });
}
#[test]
fn checks_of_whole_tensors() {
    on_reference(|| {
        let x = Tensor::from_vec(vec![1.0f32, 2.0, f32::INFINITY, f32::NAN, 0.0, 1.0], [2, 3]);
        assert!(!x.is_finite_all().unwrap());
        assert_eq!(x.find_non_finite().unwrap().map(|f| f.0), Some(vec![0, 2]));
        assert_eq!(x.get(0).narrow(0, 0, 2).find_non_finite().unwrap(), None);
        assert!(Tensor::full([4096], f32::MAX, DType::F32).is_finite_all().unwrap());
        assert!(x.get(0).allclose(&x.get(0), 0.0, 0.0).unwrap() && !x.allclose(&x, 0.0, 1.0).unwrap());
        assert!(!tensor![1.0].allclose(&Tensor::from_slice(&[f32::INFINITY], 1), 1.0, 1.0).unwrap());
        assert!(tensor![1, 2].equal(&tensor![1, 2]).unwrap() && !tensor![1, 2].equal(&tensor![[1, 2]]).unwrap());
        assert_eq!(tensor![1, 2].to_array::<i64, 2>().unwrap(), [1, 2]);
        assert_eq!(tensor![[1, 2], [3, 4]].to_rows::<i64>().unwrap(), [[1, 2], [3, 4]]);
        assert!(tensor![1, 2].to_array::<i64, 3>().is_err());
        assert!(Tensor::zeros([1]).safe_log().item::<f32>().unwrap().is_finite());
    });
}
#[test]
fn sixteen_bits_are_summed_wide_and_rounded_once() {
    on_reference(|| {
        let x = Tensor::full([4096], 60000.0f32, DType::F16);
        check("mean does not overflow", &x.mean(..).cast(DType::F32), &[], &[60000.0f32]);
        check("nor does the norm", &Tensor::full([4], 300.0f32, DType::F16).vector_norm(2.0, ..).cast(DType::F32), &[], &[600.0f32]);
        check("variance", &tensor![1000.0, 1001.0].cast(DType::BF16).var(0, 1.0).cast(DType::F32), &[], &[0.0f32]);
    });
}
