//! Gradients and second gradients of what is composed, against central differences in f64.
use adamant_core::{tensor::*, *};

type Function = fn(&Tensor) -> Tensor;
/// (name, shape of the input, function). Elements are distinct numbers of both signs, away from 0 and from ties.
const CASES: &[(&str, &[usize], Function)] = &[
    ("flatten, transpose, roll", &[2, 3, 4], |x| x.flatten(1, 2).t().roll([1, -2], [0, 1]).square()),
    ("unfold", &[2, 7], |x| x.unfold(1, 3, 2).square()),
    ("repeat", &[2, 3], |x| x.repeat([2, 1, 3]).square() * 0.5),
    ("repeat at full rank", &[1, 1, 1, 1, 1, 1, 2, 3], |x| x.repeat([1, 1, 1, 1, 1, 1, 2, 2]).square()),
    ("repeat_interleave", &[2, 3], |x| x.repeat_interleave(2, 1).exp()),
    ("rot90", &[2, 3], |x| x.rot90(3, [0, 1]).exp()),
    ("pad", &[2, 3], |x| x.pad_constant([1, -1, 0, 2], 2.5).square()),
    ("update_slice", &[3, 4], |x| x.update_slice(1, 1, &(x.narrow(1, 0, 2) * 2.0)).square()),
    ("block_diag", &[2, 3], |x| Tensor::block_diag(&[x.clone(), x.t()]).exp()),
    ("stack of parts", &[4, 2], |x| Tensor::stack(&x.split(2, 0).unwrap(), -1).square()),
    ("diagonal", &[3, 4], |x| x.diagonal(1, 0, 1).square()),
    ("diagonal of a batch", &[2, 4, 3], |x| x.diagonal(-1, 1, 2).square()),
    ("diag_embed", &[2, 3], |x| x.diag_embed(-1, 0, 2).square()),
    ("tril", &[2, 3, 3], |x| x.tril(-1).square() + x.triu(1)),
    ("index", &[3, 4, 2], |x| x.index(&[Some(&at(&[0, 2, -1])), None, Some(&at(&[1, 0, 1]))]).square()),
    ("index by a mask", &[2, 2], |x| x.index(&[Some(&tensor![[true, false], [true, true]])]).exp()),
    ("index_put", &[3, 2], |x| x.index_put(&[Some(&at(&[0, 2]))], &(x.narrow(0, 0, 2) * 3.0), false).square()),
    ("index_put, adding", &[3, 2], |x| x.index_put(&[Some(&at(&[1, 1])), Some(&at(&[0, 0]))], &x.get(0), true).square()),
    ("index_add", &[3, 2], |x| x.index_add(0, &at(&[2, 2]), &x.narrow(0, 0, 2), 2).square()),
    ("scatter_reduce prod", &[4], |x| x.scatter_reduce(0, &at(&[0, 0, 1]), &x.narrow(0, 1, 3), ScatterReduce::Prod, true)),
    ("scatter_reduce mean", &[4], |x| x.scatter_reduce(0, &at(&[0, 0, 1]), &x.narrow(0, 1, 3), ScatterReduce::Mean, false).square()),
    ("take", &[2, 3], |x| x.take(&at(&[-1, 0, 4]).reshape([3, 1])).square()),
    ("masked_select", &[2, 2], |x| x.masked_select(&tensor![true, false]).square()),
    ("masked_scatter", &[4], |x| x.masked_scatter(&tensor![true, false, true, false], &x.exp()).square()),
    ("embedding_bag", &[4, 2], |x| x.embedding_bag(&at(&[0, 3, 3]), Some(&at(&[0, 1, 3])), BagMode::Mean).square()),
    ("sort", &[3, 2], |x| x.sort(0, true).0.cumsum(0).square()),
    ("topk", &[2, 4], |x| x.topk(2, 1, false).0.square()),
    ("median", &[2, 4], |x| x.median_dim(1).0.square()),
    ("quantile", &[2, 4], |x| x.quantile_keepdim(0.4, 1, Interpolation::Linear).square()),
    ("cumprod", &[2, 4], |x| x.cumprod(1)),
    ("cummax", &[4], |x| x.cummax(0).0.square()),
    ("logcumsumexp", &[2, 4], |x| (x * 3.0).logcumsumexp(1)),
    ("linear_recurrence", &[2, 4], |x| x.get(0).linear_recurrence(&x.get(1), 0, true).square()),
    ("diff", &[2, 4], |x| x.diff(2, 1).square()),
    ("prod", &[2, 3], |x| x.prod(1).square()),
    ("var", &[2, 4], |x| x.var(1, 1.0)),
    ("std of all", &[2, 3], |x| x.std(.., 0.0)),
    ("logsumexp", &[2, 3], |x| x.logsumexp([0, 1])),
    ("max_dim", &[2, 3], |x| x.max_dim_keepdim(1).0.square()),
    ("norm 2", &[2, 3], |x| x.vector_norm(2.0, 1)),
    ("norm 3", &[2, 3], |x| x.vector_norm(3.0, 1)),
    ("norm 1/2", &[2, 3], |x| x.vector_norm(0.5, ..)),
    ("norm inf", &[2, 3], |x| x.vector_norm(f64::INFINITY, 1).square()),
    ("nuclear norm", &[2, 3], |x| x.matrix_norm(MatrixNorm::Nuc)),
    ("normalize", &[2, 3], |x| x.normalize(2.0, 1, 1e-12)),
    ("cdist", &[3, 2], |x| x.cdist(&(x + 1.5), 2.0)),
    ("cosine_similarity", &[3, 2], |x| x.cosine_similarity(&x.flip(0), 1, 1e-8)),
    ("matmul, broadcast", &[2, 2, 3], |x| x.matmul(x.get(0).t()).square() + x.get(1).matmul(x.mt()).sum(2).unsqueeze(1)),
    ("matmul, vectors", &[3], |x| x.matmul(x).unsqueeze(0) * x.matmul(x.outer(&x.exp()))),
    ("bilinear", &[2, 3], |x| x.bilinear(x, &x.outer_cube(), None)),
    ("einsum", &[3, 3], |x| Tensor::einsum("ii,ij,kj->ki", &[x, x, x])),
    ("einsum with an ellipsis", &[2, 3], |x| Tensor::einsum("...i,j...->j", &[x, &x.t()])),
    ("tensordot", &[2, 3], |x| x.tensordot(x, [1, 0], [1, 0]).unsqueeze(0) * x),
    ("kron", &[2, 2], |x| x.kron(x)),
    ("cross", &[2, 3], |x| x.cross(&x.flip(0), 1).square()),
    ("det", &[3, 3], |x| x.det()),
    ("slogdet", &[2, 3, 3], |x| x.slogdet().1),
    ("inv", &[3, 3], |x| x.inv()),
    ("solve", &[3, 3], |x| x.solve(&x.select(1, 0)) + x.solve(&x.exp()).sum(1)),
    ("solve_triangular", &[3, 3], |x| x.solve_triangular(&x.exp(), true, false) + x.solve_triangular(x, false, true)),
    ("cholesky", &[3, 3], |x| spd(x).cholesky()),
    ("qr", &[4, 3], |x| x.qr().0 * 0.5 + Tensor::cat(&[x.qr().1, x.narrow(0, 0, 1)], 0)),
    ("qr of a wide matrix", &[2, 3], |x| x.qr().1 + x.qr().0.sum(1).unsqueeze(1)),
    ("eigvalsh", &[3, 3], |x| (x + x.t()).eigvalsh()),
    ("eigh, vectors", &[3, 3], |x| (x + x.t()).eigh().1.square()),
    ("svdvals", &[3, 2], |x| x.svdvals()),
    ("svd, vectors", &[3, 2], |x| x.svd().0.square() + x.svd().2.square().sum(0)),
    ("pinv", &[3, 2], |x| x.pinv(None)),
    ("pinv of a wide matrix", &[2, 3], |x| x.pinv(None)),
    ("matrix_power", &[2, 2], |x| x.matrix_power(3) + x.matrix_power(-1)),
    ("rfft", &[2, 6], |x| x.rfft(None, 1, FftNorm::Ortho).square()),
    ("irfft", &[4, 2], |x| x.irfft(Some(7), 0, FftNorm::Backward).square()),
    ("fft and back", &[5, 2], |x| x.fft(Some(6), 0, FftNorm::Forward).square().ifft(None, 0, FftNorm::Forward)),
    ("stft", &[12], |x| x.stft(4, 2, &(Tensor::ones([4]) * 0.5).cast(DType::F64), true, FftNorm::Backward).square()),
    ("safe_log", &[3], |x| x.square().safe_log()),
];
trait Cube {
    fn outer_cube(&self) -> Tensor;
}
impl Cube for Tensor {
    fn outer_cube(&self) -> Tensor {
        (self.unsqueeze(-1) * self.get(0)).exp()
    }
}
fn at(v: &[i64]) -> Tensor {
    Tensor::from_slice(v, v.len())
}
fn spd(x: &Tensor) -> Tensor {
    let n = x.dims::<2>().unwrap()[0];
    x.matmul(x.t()) + Tensor::eye_on(n, n, DType::F64, Device::reference())
}
/// Distinct, of both signs, irregular.
fn input(shape: &[usize], salt: f64) -> Vec<f64> {
    (0..shape.iter().product()).map(|k| ((k as f64 + 1.0) * 2.399963 + salt).sin() * 1.3 + 0.07 * k as f64).collect()
}
fn weighted(y: &Tensor) -> Result<Tensor> {
    let n = y.shape()?.elements();
    let w = Tensor::from_vec((0..n).map(|k| (k as f64 * 1.7 + 0.3).cos()).collect(), y.shape()?);
    Ok((y * w).sum(..))
}
/// The gradient of a weighted sum of `f`, tracked itself if `graph`.
fn gradient(f: Function, x: &Tensor, graph: bool) -> Result<Tensor> {
    let y = weighted(&f(x))?;
    let grads = if graph { y.backward_graph()? } else { y.backward()? };
    grads.get(x).cloned().ok_or_else(|| Error::new("gradient", ErrorKind::Backward("the input was not reached".into())))
}
fn check(f: Function, shape: &[usize]) -> Result<Vec<String>> {
    let data = input(shape, 0.4);
    let make = |v: &[f64]| Tensor::from_slice(v, shape.to_vec()).tracked();
    let value = |v: &[f64]| weighted(&f(&make(v)))?.item::<f64>();
    let first = gradient(f, &make(&data), false)?.to_vec::<f64>()?;
    let x = make(&data);
    let along = Tensor::from_vec(input(shape, 1.9), shape.to_vec());
    let second = (gradient(f, &x, true)? * &along).sum(..);
    let second = if second.is_tracked() { second.backward()?.get(&x).map(|g| g.to_vec::<f64>()).transpose()? } else { None };
    let second = second.unwrap_or_else(|| vec![0.0; data.len()]);
    let h = 1e-6;
    let mut wrong = Vec::new();
    for k in 0..data.len() {
        let moved = |by: f64| {
            let mut v = data.clone();
            v[k] += by;
            v
        };
        let slope = (value(&moved(h))? - value(&moved(-h))?) / (2.0 * h);
        let projected = |v: Vec<f64>| (gradient(f, &make(&v), false)? * &along).sum(..).item::<f64>();
        let curve = (projected(moved(h))? - projected(moved(-h))?) / (2.0 * h);
        for (what, got, want) in [("gradient", first[k], slope), ("second gradient", second[k], curve)] {
            if (got - want).abs() > 1e-5 * (1.0 + want.abs()) {
                wrong.push(format!("{what} {k}: {got}, difference {want}"));
            }
        }
    }
    Ok(wrong)
}

#[test]
fn gradients_equal_differences() {
    Device::reference().scoped(|| {
        let mut wrong = Vec::new();
        for (name, shape, f) in CASES {
            match check(*f, shape) {
                Ok(w) => wrong.extend(w.into_iter().map(|w| format!("{name}: {w}"))),
                Err(e) => wrong.push(format!("{name}: {e}")),
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}
#[test]
fn gradients_at_kinks_are_pytorchs() {
    Device::reference().scoped(|| {
        let cases: &[(&str, &[f64], &[f64], Function)] = &[
            ("a norm at 0", &[0.0, 0.0], &[0.0, 0.0], |x| x.vector_norm(2.0, 0)),
            ("a 3-norm at 0", &[0.0, 0.0], &[0.0, 0.0], |x| x.vector_norm(3.0, 0)),
            ("std of equal elements", &[2.0, 2.0], &[0.0, 0.0], |x| x.std(0, 1.0)),
            ("shared maxima", &[1.0, 1.0, 0.0], &[0.5, 0.5, 0.0], |x| x.amax(0)),
            ("the first maximum alone", &[1.0, 1.0, 0.0], &[1.0, 0.0, 0.0], |x| x.max_dim(0).0),
            ("the largest magnitudes", &[-2.0, 2.0], &[-0.5, 0.5], |x| x.vector_norm(f64::INFINITY, 0)),
            ("a product with one zero", &[0.0, 2.0, 3.0], &[6.0, 0.0, 0.0], |x| x.prod(0)),
            ("a product with two zeros", &[0.0, 0.0, 3.0], &[0.0, 0.0, 0.0], |x| x.prod(0)),
            ("a scattered product with one zero", &[0.0, 2.0, 3.0], &[6.0, 0.0, 0.0], |x| {
                Tensor::ones_on([1], DType::F64, Device::reference()).scatter_reduce(0, &at(&[0, 0, 0]), x, ScatterReduce::Prod, true)
            }),
            ("the determinant of a singular matrix", &[1.0, 2.0, 2.0, 4.0], &[4.0, -2.0, -2.0, 1.0], |x| x.reshape([2, 2]).det()),
        ];
        for (what, x, want, f) in cases {
            let x = Tensor::from_slice(x, x.len()).tracked();
            let g = f(&x).sum(..).backward().unwrap().get(&x).unwrap().to_vec::<f64>().unwrap();
            assert!(g.iter().zip(*want).all(|(a, b)| (a - b).abs() < 1e-12), "{what}: {g:?}, not {want:?}");
        }
    });
}
#[test]
fn parts_of_an_axis_join_their_cotangents_however_many_they_are() -> Result<()> {
    Device::reference().scoped(|| {
        for n in [1usize, 2, 31, 32, 33, 61, 64, 65, 100, 1030] {
            let x = Tensor::arange(0, 2 * n as i64, 1, DType::F64).reshape([n, 2]).tracked();
            for size in [1, 2, 3] {
                let parts = if size == 1 { x.unbind(0)? } else { x.split(size, 0)? };
                assert_eq!(parts.len(), n.div_ceil(size));
                let mut loss = Tensor::zeros_on((), DType::F64, Device::reference());
                for (k, part) in parts.iter().enumerate() {
                    let first = part.reshape([part.shape()?.elements()]).to_vec::<f64>()?[0];
                    assert_eq!(first, (2 * k * size) as f64, "{n} in parts of {size}");
                    loss = loss + (k + 1) as f64 * part.sum(..);
                }
                let gradient = loss.backward()?.get(&x).cloned().unwrap().to_vec::<f64>()?;
                let want: Vec<f64> = (0..2 * n).map(|i| (i / 2 / size + 1) as f64).collect();
                assert_eq!(gradient, want, "{n} in parts of {size}");
            }
        }
        Ok(())
    })
}

#[test]
fn gradients_by_some_leaves_are_those_of_the_whole_walk() -> Result<()> {
    use adamant_core::grad::{GradOptions, gradients};
    Device::reference().make_current();
    let leaf = |values: &[f64]| Tensor::from_slice(values, [values.len()]).tracked();
    let (x, w, other) = (leaf(&[1.0, 2.0]), leaf(&[3.0, 4.0]), leaf(&[5.0]));
    let values = |g: &Option<Tensor>| g.as_ref().map(|g| g.to_vec::<f64>().unwrap());
    let h = &x * &w;
    let (y, z) = (h.exp().log(), h.square().sum(..));
    let cotangents = [Tensor::from_slice(&[10.0f64, 100.0], [2]), Tensor::scalar(1.0f64)];
    let both = GradOptions { cotangents: &cotangents, keep: true, ..GradOptions::default() };
    let got = gradients(&[&y, &z], &[&w, &h, &w], &both)?;
    // d/dw of 10 h₀ + 100 h₁ + h₀² + h₁².
    let want = vec![10.0 + 2.0 * 3.0, 2.0 * 100.0 + 2.0 * 2.0 * 8.0];
    for k in [0, 2] {
        assert!(values(&got[k]).unwrap().iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-12), "{:?}", values(&got[k]));
    }
    assert!(values(&got[1]).unwrap().iter().zip([16.0, 116.0]).all(|(g, w)| (g - w).abs() < 1e-12));
    let unused = GradOptions { allow_unused: true, keep: true, ..GradOptions::default() };
    assert_eq!(gradients(&[&z], &[&other, &x], &unused)?.iter().map(values).collect::<Vec<_>>(), [None, Some(vec![18.0, 64.0])]);
    // The second derivative is a walk over the first one's tape.
    let graph = GradOptions { create_graph: true, ..GradOptions::default() };
    let first = gradients(&[&z], &[&x], &graph)?.remove(0).unwrap();
    let second = gradients(&[&first.sum(..)], &[&x, &w], &GradOptions::default())?;
    assert_eq!(second.iter().map(values).collect::<Vec<_>>(), [Some(vec![18.0, 32.0]), Some(vec![12.0, 32.0])]);
    let refused = |outputs: &[&Tensor], leaves: &[&Tensor], options: &GradOptions<'_>| gradients(outputs, leaves, options).err().unwrap().to_string();
    for (text, part) in [
        (refused(&[&z], &[&other], &GradOptions::default()), "allow_unused"),
        (refused(&[&y], &[&x], &GradOptions::default()), "give cotangents"),
        (refused(&[&z], &[&x.detach()], &GradOptions::default()), "is not tracked"),
        (refused(&[&x.detach().sum(..)], &[&x], &GradOptions::default()), "depends on no tracked"),
        (refused(&[&y], &[&x], &both), "2 cotangents for 1 outputs"),
        (refused(&[&z], &[&x.sort(0, false).0], &unused), "one of 2 results"),
    ] {
        assert!(text.starts_with("gradients: ") && text.contains(part) && text.contains("api_gradients.rs"), "{text}");
    }
    // Without `keep` what was saved is released.
    let z = (&x * &w).square().sum(..);
    gradients(&[&z], &[&x], &GradOptions::default())?;
    assert!(gradients(&[&z], &[&x], &GradOptions::default()).is_err());
    Ok(())
}
