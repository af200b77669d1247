//! Factorizations, special functions and places by PyTorch's names: its answers and gradients are in `factors.txt`
//! (`python/factors.py` writes it); what has no gradient there is compared with differences.
use adamant_core::{
    DType, Device, Result, Rng, Tensor,
    tensor::{Lobpcg, QrMode},
};
use std::collections::BTreeSet;

/// The rule by which both languages make their inputs.
fn made(seed: usize, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let values: Vec<f64> = (0..n).map(|i| (((i * 7919 + seed * 104729) % 1009) as f64 - 504.0) / 100.0).collect();
    Tensor::from_vec(values, shape)
}
fn eye(n: usize) -> Tensor {
    Tensor::eye_on(n, n, DType::F64, Device::reference())
}
fn square() -> Tensor {
    made(13, &[2, 3, 3]) + eye(3) * 4.0
}
/// Of two: `made` alone is linear in the places, and a matrix of it of rank two.
fn product(seed: usize, shape: &[usize]) -> Tensor {
    made(seed, shape) * made(seed + 20, shape) / 5.0
}
fn tall() -> Tensor {
    product(21, &[2, 5, 3])
}
fn wide() -> Tensor {
    product(22, &[2, 3, 5])
}
fn symmetric() -> Tensor {
    made(23, &[2, 5, 5]) * made(23, &[2, 5, 5]).mt() / 5.0
}
fn zeros_first() -> Tensor {
    Tensor::from_vec(vec![0.0, 2.0, 1.0, 0.5, 2.0, 0.0, 3.0, 1.0, 1.0, 3.0, 0.0, 4.0, 0.5, 1.0, 4.0, 0.0f64], [4, 4])
}
fn singular() -> Tensor {
    Tensor::stack(&[square().get(0), Tensor::full([3, 3], 1.0, DType::F64)], 0)
}
fn b() -> Tensor {
    made(14, &[2, 3, 2])
}
fn tau() -> Tensor {
    made(24, &[2, 3]) / 5.0
}
fn nine() -> Tensor {
    made(23, &[9, 9]) * made(23, &[9, 9]).mt() / 5.0
}
fn definite(a: &Tensor) -> Tensor {
    a.matmul(a.mt()) + eye(5)
}
/// What does not depend on the order of eigenvalues.
fn unsymmetric(values: &Tensor) -> Tensor {
    let (re, im) = (values.real(), values.imag());
    Tensor::stack(&[re.sum(-1), (re.square() - im.square()).sum(-1), (re.square() + im.square()).sum(-1)], 0)
}
fn eig(a: &Tensor) -> Vec<Tensor> {
    let (values, vectors) = a.eig();
    vec![unsymmetric(&values), (vectors.square().sum(-1) * values.real().unsqueeze(-2)).sum(-1)]
}
fn svd_full(a: &Tensor) -> Vec<Tensor> {
    let (u, s, vt) = a.svd_full();
    let k = s.size(-1).unwrap();
    let (u, vt) = (u.slice_signed(-1, Some(k as isize), None, 1), vt.slice_signed(-2, Some(k as isize), None, 1));
    vec![u.matmul(u.mt()), vt.mt().matmul(vt), s]
}
fn edges() -> [Tensor; 2] {
    [Tensor::from_vec(vec![-4.0, -1.0, 0.0, 4.5], [4]), Tensor::from_vec(vec![-5.0, 0.5, 5.0], [3])]
}
fn places(of: [i64; 3]) -> Tensor {
    Tensor::from_vec(of.to_vec(), [3])
}
fn three() -> Tensor {
    b().ravel().narrow(0, 0, 3)
}
fn rows(n: usize, m: usize) -> Tensor {
    made(27, &[n, m])
}
/// A polynomial of a name that ends with its degree.
fn polynomial(name: &str) -> Option<(fn(&Tensor, i64) -> Tensor, i64)> {
    let (name, n) = name.rsplit_once(' ')?;
    let f: fn(&Tensor, i64) -> Tensor = match name {
        "chebyshev_polynomial_t" => Tensor::chebyshev_polynomial_t,
        "chebyshev_polynomial_u" => Tensor::chebyshev_polynomial_u,
        "chebyshev_polynomial_v" => Tensor::chebyshev_polynomial_v,
        "chebyshev_polynomial_w" => Tensor::chebyshev_polynomial_w,
        "shifted_chebyshev_polynomial_t" => Tensor::shifted_chebyshev_polynomial_t,
        "shifted_chebyshev_polynomial_u" => Tensor::shifted_chebyshev_polynomial_u,
        "shifted_chebyshev_polynomial_v" => Tensor::shifted_chebyshev_polynomial_v,
        "shifted_chebyshev_polynomial_w" => Tensor::shifted_chebyshev_polynomial_w,
        "hermite_polynomial_h" => Tensor::hermite_polynomial_h,
        "hermite_polynomial_he" => Tensor::hermite_polynomial_he,
        "laguerre_polynomial_l" => Tensor::laguerre_polynomial_l,
        "legendre_polynomial_p" => Tensor::legendre_polynomial_p,
        _ => return None,
    };
    Some((f, n.parse().ok()?))
}
/// A function of the input whose gradient is compared.
type Case = (&'static str, fn() -> Tensor, fn(&Tensor) -> Vec<Tensor>);
fn two((x, y): (Tensor, Tensor)) -> Vec<Tensor> {
    vec![x, y]
}
fn three_of((x, y, z): (Tensor, Tensor, Tensor)) -> Vec<Tensor> {
    vec![x, y, z]
}
fn ld((ld, pivots): (Tensor, Tensor)) -> Vec<Tensor> {
    vec![ld.tril(0), pivots]
}
fn solved(a: &Tensor, b: &Tensor, adjoint: bool) -> Vec<Tensor> {
    let (lu, pivots) = a.lu_factor();
    vec![lu.lu_solve(&pivots, b, adjoint)]
}
fn ldl_solved(a: &Tensor, b: &Tensor) -> Vec<Tensor> {
    let (ld, pivots) = a.ldl_factor();
    vec![ld.ldl_solve(&pivots, b)]
}
fn lobpcg(a: &Tensor, k: usize, largest: bool) -> Vec<Tensor> {
    vec![a.lobpcg(&made(30, &[9, k]), &Lobpcg { largest, steps: 60, ..Lobpcg::default() }).0]
}
fn rng() -> Rng {
    Rng::new(7).unwrap()
}
const CASES: &[Case] = &[
    ("lu square", square, |a| three_of(a.lu())),
    ("lu tall", tall, |a| three_of(a.lu())),
    ("lu wide", wide, |a| three_of(a.lu())),
    ("lu singular", singular, |a| three_of(a.lu())),
    ("lu_factor", square, |a| two(a.lu_factor())),
    ("lu_factor tall", tall, |a| two(a.lu_factor())),
    ("lu_factor wide", wide, |a| two(a.lu_factor())),
    ("lu_factor_ex", singular, |a| three_of(a.lu_factor_ex())),
    ("lu_unpack", square, |a| {
        let (both, pivots) = a.lu_factor();
        three_of(both.lu_unpack(&pivots))
    }),
    ("lu_solve", square, |a| solved(a, &b(), false)),
    ("lu_solve adjoint", square, |a| solved(a, &b(), true)),
    ("lu_solve b", b, |b| solved(&square(), b, false)),
    ("ldl_factor", symmetric, |a| ld(a.ldl_factor())),
    ("ldl_factor zeros", zeros_first, |a| ld(a.ldl_factor())),
    ("ldl_factor_ex", || Tensor::full([2, 2], 0.0, DType::F64), |a| vec![a.ldl_factor_ex().2]),
    ("ldl_solve", || made(25, &[2, 5, 2]), |b| ldl_solved(&symmetric(), b)),
    ("ldl_solve zeros", || made(25, &[4, 2]), |b| ldl_solved(&zeros_first(), b)),
    ("inv_ex", square, |a| two(a.inv_ex())),
    ("inv_ex singular", singular, |a| vec![a.inv_ex().1]),
    ("solve_ex", square, |a| two(a.solve_ex(&b()))),
    ("solve_ex singular", singular, |a| vec![a.solve_ex(&b()).1]),
    ("cholesky_ex", symmetric, |a| two(definite(a).cholesky_ex(false))),
    ("cholesky_ex upper", symmetric, |a| two(definite(a).cholesky_ex(true))),
    ("cholesky_ex indefinite", symmetric, |a| vec![a.cholesky_ex(false).1]),
    ("matrix_exp", square, |a| vec![(a / 4.0).matrix_exp()]),
    ("matrix_exp large", square, |a| vec![(a * 2.0).matrix_exp()]),
    ("matrix_exp one", || made(26, &[1, 1]), |a| vec![a.matrix_exp()]),
    ("matrix_sqrth", symmetric, |a| vec![definite(a).matrix_sqrth()]),
    ("householder_product", || tall() / 4.0, |a| vec![a.householder_product(&tau())]),
    ("householder_product tau", tau, |t| vec![(tall() / 4.0).householder_product(t)]),
    ("geqrf", tall, |a| two(a.geqrf())),
    ("geqrf wide", wide, |a| two(a.geqrf())),
    ("ormqr", || made(27, &[2, 5, 4]), |c| vec![(tall() / 4.0).ormqr(&tau(), c, true, false)]),
    ("ormqr transposed", || made(27, &[2, 5, 4]), |c| vec![(tall() / 4.0).ormqr(&tau(), c, true, true)]),
    ("ormqr right", || made(27, &[2, 4, 5]), |c| vec![(tall() / 4.0).ormqr(&tau(), c, false, false)]),
    ("ormqr right transposed", || made(27, &[2, 4, 5]), |c| vec![(tall() / 4.0).ormqr(&tau(), c, false, true)]),
    ("ormqr vectors", || tall() / 4.0, |a| vec![a.ormqr(&tau(), &made(27, &[2, 5, 4]), true, false)]),
    ("qr complete", tall, |a| two(a.qr_mode(QrMode::Complete))),
    ("qr complete wide", wide, |a| two(a.qr_mode(QrMode::Complete))),
    ("qr r", tall, |a| vec![a.qr_mode(QrMode::R).1]),
    ("svd_full", tall, svd_full),
    ("svd_full wide", wide, svd_full),
    ("eigvals", || product(28, &[2, 5, 5]), |a| vec![unsymmetric(&a.eigvals())]),
    ("eig", || product(28, &[2, 5, 5]), eig),
    ("eig real", || square() + Tensor::from_vec(vec![20.0, 40.0, 60.0], [3]).diag(0), eig),
    ("eig large", || product(29, &[12, 12]), eig),
    ("eig one", || made(29, &[1, 1]), eig),
    ("lobpcg", nine, |a| lobpcg(a, 2, true)),
    ("lobpcg smallest", nine, |a| lobpcg(a, 3, false)),
    ("svd_lowrank", tall, |a| vec![a.svd_lowrank(3, 2, None, &rng()).1]),
    ("pca_lowrank", tall, |a| vec![a.pca_lowrank(3, true, 2, &rng()).1]),
    ("frexp", || Tensor::from_vec(vec![0.0, -0.0, 1.0, -8.0, 0.3, 1e-310, 1.7e308, 0.999_999_999_999_999_9, f64::INFINITY, -3.5], [10]), |x| two(x.frexp())),
    ("put", tall, |x| vec![x.put(&places([1, -1, 7]), &three(), false)]),
    ("put added", tall, |x| vec![x.put(&places([1, -1, 1]), &three(), true)]),
    ("put source", three, |s| vec![tall().put(&places([1, -1, 7]), s, false)]),
    ("fill_diagonal", || rows(3, 5), |x| vec![x.fill_diagonal(2.5, false)]),
    ("fill_diagonal tall", || rows(8, 3), |x| vec![x.fill_diagonal(2.5, false)]),
    ("fill_diagonal wrap", || rows(8, 3), |x| vec![x.fill_diagonal(2.5, true)]),
    ("fill_diagonal cube", || made(27, &[3, 3, 3]), |x| vec![x.fill_diagonal(2.5, false)]),
    ("sum_to_size", tall, |x| vec![x.sum_to_size([5, 1])]),
    ("sum_to_size same", tall, |x| vec![x.sum_to_size([2, 5, 3])]),
    ("sum_to_size one", tall, |x| vec![x.sum_to_size([1])]),
    ("as_strided", tall, |x| vec![x.as_strided(&[3, 4], &[2, 3], 1)]),
    ("as_strided_scatter", tall, |x| vec![x.as_strided_scatter(&rows(2, 3), &[2, 3], &[10, 2], 3)]),
    ("as_strided_scatter source", || rows(2, 3), |s| vec![tall().as_strided_scatter(s, &[2, 3], &[10, 2], 3)]),
    ("histogramdd", || rows(40, 2), |x| vec![x.histogramdd(&edges(), None, false)]),
    ("histogramdd weighted", || rows(40, 2), |x| vec![x.histogramdd(&edges(), Some(&made(30, &[40]).abs()), true)]),
    ("multigammaln", || made(27, &[6]).abs() + 1.5, |x| vec![x.multigammaln(3)]),
    ("multigammaln 1", || made(27, &[6]).abs() + 1.5, |x| vec![x.multigammaln(1)]),
    ("airy_ai", bessel, |x| vec![x.airy_ai()]),
    ("modified_bessel_k0", bessel, |x| vec![x.modified_bessel_k0()]),
    ("modified_bessel_k1", bessel, |x| vec![x.modified_bessel_k1()]),
    ("scaled_modified_bessel_k0", bessel, |x| vec![x.scaled_modified_bessel_k0()]),
    ("scaled_modified_bessel_k1", bessel, |x| vec![x.scaled_modified_bessel_k1()]),
    ("spherical_bessel_j0", bessel, |x| vec![x.spherical_bessel_j0()]),
];
fn bessel() -> Tensor {
    made(27, &[12]).abs() + 0.1
}
/// The sum of all float results, each times other numbers.
fn loss(results: &[Tensor]) -> Option<Tensor> {
    let part = |(k, t): (usize, &Tensor)| t.dtype().unwrap().is_float().then(|| (t * made(31 + k, &t.shape().unwrap())).sum(..));
    results.iter().enumerate().filter_map(part).reduce(|a, b| a + b)
}
fn near(got: f64, want: f64, scale: f64, name: &str) -> bool {
    // Products with random vectors, and iterations, end where they end; the rest is a matter of rounding.
    let tolerance = if name.contains("lobpcg") { 1e-8 } else { 1e-11 };
    (got - want).abs() <= tolerance * scale || got == want || (got.is_nan() && want.is_nan())
}
fn check(what: &str, got: &[f64], want: &[f64], wrong: &mut Vec<String>) {
    let scale = want.iter().filter(|v| v.is_finite()).fold(1.0f64, |m, v| m.max(v.abs()));
    if got.len() != want.len() {
        wrong.push(format!("{what}: {} numbers instead of {}", got.len(), want.len()));
    } else if let Some(k) = (0..got.len()).find(|&k| !near(got[k], want[k], scale, what)) {
        wrong.push(format!("{what}: number {k} is {}, not {}", got[k], want[k]));
    }
}
fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|v| v.parse().unwrap()).collect()
}

#[test]
fn values_and_gradients_are_pytorchs() -> Result<()> {
    Device::reference().make_current();
    let (mut wrong, mut seen) = (vec![], BTreeSet::new());
    for line in include_str!("factors.txt").lines() {
        let fields: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let (name, values, gradient) = (fields[0], numbers(fields[2]), numbers(fields.get(3).unwrap_or(&"")));
        seen.insert(name);
        let (input, results, leaf) = match (CASES.iter().find(|c| c.0 == name), polynomial(name)) {
            (Some((_, input, f)), _) => {
                let leaf = input().tracked();
                (input(), f(&leaf), leaf)
            }
            (None, Some((f, n))) => {
                let x = rows(12, 1).ravel() / 4.0;
                let leaf = x.tracked();
                (x, vec![f(&leaf, n)], leaf)
            }
            (None, None) => panic!("{name} is not a case"),
        };
        let _ = input;
        let shapes: Vec<String> = results
            .iter()
            .map(|t| match &t.shape().unwrap_or_else(|e| panic!("{name}: {e}"))[..] {
                [] => ".".to_string(),
                sizes => sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
            })
            .collect();
        if shapes.join(" ") != fields[1] {
            wrong.push(format!("{name}: shapes {}, not {}", shapes.join(" "), fields[1]));
            continue;
        }
        let got: Vec<f64> = results.iter().flat_map(|t| t.cast(DType::F64).to_vec::<f64>().unwrap_or_else(|e| panic!("{name}: {e}"))).collect();
        check(name, &got, &values, &mut wrong);
        if !gradient.is_empty() {
            let of = loss(&results).unwrap().backward()?;
            let got: Vec<f64> = of.get(&leaf).unwrap().to_vec()?;
            check(&format!("gradient of {name}"), &got, &gradient, &mut wrong);
        }
    }
    for (name, ..) in CASES {
        if !seen.contains(name) {
            wrong.push(format!("{name} has no answers"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}
/// What PyTorch does not differentiate.
#[test]
fn gradients_are_those_of_differences() -> Result<()> {
    Device::reference().make_current();
    let names = [
        "legendre_polynomial_p 5",
        "chebyshev_polynomial_t 4",
        "chebyshev_polynomial_u 3",
        "chebyshev_polynomial_v 3",
        "chebyshev_polynomial_w 3",
        "shifted_chebyshev_polynomial_u 3",
        "hermite_polynomial_h 4",
        "hermite_polynomial_he 4",
        "laguerre_polynomial_l 4",
    ];
    // At the ends of the interval, too.
    let x = Tensor::from_vec(vec![-1.0f64, -0.3, 0.0, 0.7, 1.0], [5]);
    let mut wrong = vec![];
    for name in names {
        let (f, n) = polynomial(name).unwrap();
        let leaf = x.tracked();
        let got: Vec<f64> = f(&leaf, n).sum(..).backward()?.get(&leaf).unwrap().to_vec()?;
        let want: Vec<f64> = ((f(&(&x + 1e-5), n) - f(&(&x - 1e-5), n)) / 2e-5).to_vec()?;
        if !got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-7 * (1.0 + w.abs())) {
            wrong.push(format!("{name}: {got:?}, by differences {want:?}"));
        }
    }
    for (name, function) in [
        ("ldl_solve", (|b: &Tensor| ldl_solved(&symmetric(), b).remove(0)) as fn(&Tensor) -> Tensor),
        ("qr complete", |a| {
            let (q, r) = a.qr_mode(QrMode::Complete);
            q.narrow(-1, 0, 3).square() + r.narrow(-2, 0, 3).sum_keepdim(-2).sin()
        }),
        ("as_strided_scatter", |a| a.as_strided_scatter(&rows(2, 3), &[2, 3], &[10, 2], 3)),
    ] {
        let input = if name == "ldl_solve" { made(25, &[2, 5, 2]) } else { tall() };
        let leaf = input.tracked();
        let of = |t: &Tensor| loss(&[function(t)]).unwrap();
        let gradient: Vec<f64> = of(&leaf).backward()?.get(&leaf).unwrap().to_vec()?;
        let shape = input.shape()?;
        for (k, g) in gradient.iter().enumerate() {
            let moved = |by: f64| {
                let mut values: Vec<f64> = input.to_vec().unwrap();
                values[k] += by;
                of(&Tensor::from_vec(values, shape)).item::<f64>().unwrap()
            };
            let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            if (g - numeric).abs() > 1e-6 * (1.0 + numeric.abs()) {
                wrong.push(format!("{name} at {k}: {g}, by differences {numeric}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
#[test]
fn eigenvectors_are_those_of_the_matrix() -> Result<()> {
    Device::reference().make_current();
    let defective = Tensor::from_vec(vec![2.0f64, 1.0, 0.0, 2.0], [2, 2]);
    for a in [product(29, &[12, 12]), product(28, &[3, 7, 7]), eye(4), made(28, &[4, 4]) * 0.0, defective, product(23, &[40, 40]), nine()] {
        let (values, vectors) = a.eig();
        let left = Tensor::complex(&a.matmul(vectors.real()), &a.matmul(vectors.imag()));
        let right = vectors.complex_mul(&values.unsqueeze(-3));
        let scale = 1.0 + a.abs().max().item::<f64>()?;
        assert!((left - right).abs().max().item::<f64>()? < 1e-11 * scale, "{a}");
        assert!((vectors.square().sum([-1, -3]) - 1.0).abs().max().item::<f64>()? < 1e-12);
    }
    Ok(())
}
#[test]
fn what_has_no_gradient_says_so() {
    Device::reference().make_current();
    let leaf = square().tracked();
    for (name, result) in [("geqrf", leaf.geqrf().0), ("ldl_factor", leaf.ldl_factor().0)] {
        let text = result.sum(..).backward().err().unwrap_or_else(|| panic!("{name} has a gradient")).to_string();
        assert!(text.contains("no gradient"), "{text}");
    }
}
#[test]
fn wrong_calls_name_the_function() {
    Device::reference().make_current();
    let (lu, pivots) = square().lu_factor();
    for (name, refused) in [
        ("lu_factor", singular().lu_factor().0.materialize().err()),
        ("lu_factor", tau().ravel().lu_factor().0.error()),
        ("lu_solve", lu.lu_solve(&pivots, &made(1, &[4, 2]), false).error()),
        ("lu_unpack", lu.lu_unpack(&pivots.long()).0.error()),
        ("lu_unpack", lu.lu_unpack(&(&pivots + 7).int()).0.materialize().err()),
        ("ldl_factor", wide().ldl_factor().0.error()),
        ("ldl_factor", Tensor::full([2, 2], 0.0, DType::F64).ldl_factor().0.materialize().err()),
        ("inv_ex", wide().inv_ex().0.error()),
        ("matrix_exp", wide().matrix_exp().error()),
        ("matrix_exp", square().half().matrix_exp().error()),
        ("matrix_sqrth", symmetric().matrix_sqrth().materialize().err()),
        ("eig", wide().eig().0.error()),
        ("householder_product", wide().householder_product(&tau()).error()),
        ("ormqr", tall().ormqr(&tau(), &wide(), true, false).error()),
        ("lobpcg", nine().lobpcg(&made(1, &[9, 4]), &Lobpcg::default()).0.error()),
        ("svd_lowrank", tall().svd_lowrank(4, 2, None, &rng()).0.error()),
        ("put", tall().put(&places([0, 1, 2]), &b(), false).error()),
        ("fill_diagonal", made(1, &[2, 3, 3]).fill_diagonal(1.0, false).error()),
        ("sum_to_size", tall().sum_to_size([5, 2]).error()),
        ("as_strided", tall().as_strided(&[6, 6], &[6, 1], 0).error()),
        ("histogramdd", rows(4, 3).histogramdd(&edges(), None, false).error()),
        ("legendre_polynomial_p", tall().legendre_polynomial_p(5000).error()),
        ("multigammaln", tall().multigammaln(0).error()),
        ("multinomial", tall().abs().multinomial(4, false, &rng()).error()),
        ("poisson", (tall() * 0.0 - 1.0).poisson(&rng()).materialize().err()),
        ("rand_like", tall().long().rand_like(&rng()).error()),
        ("randn_dtype", Tensor::randn_dtype([2], DType::I64, &rng()).error()),
    ] {
        let text = refused.unwrap_or_else(|| panic!("{name} took it")).to_string();
        assert!(text.contains(name) && text.contains("factors.rs"), "{name}: {text}");
    }
}
#[test]
fn draws_have_the_moments_of_their_families() -> Result<()> {
    Device::reference().make_current();
    let rng = rng();
    let mean = |t: &Tensor| t.cast(DType::F64).mean(..).item::<f64>();
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
        let like = Tensor::full([20_000], 0.3, dtype);
        assert_eq!(like.rand_like(&rng).dtype()?, dtype);
        assert!((mean(&like.rand_like(&rng))? - 0.5).abs() < 0.01, "{dtype}");
        let normal = like.randn_like(&rng).cast(DType::F64);
        assert!(mean(&normal)?.abs() < 0.03 && (mean(&normal.square())? - 1.0).abs() < 0.05, "{dtype}");
        assert!((mean(&like.bernoulli(&rng))? - 0.3).abs() < 0.02, "{dtype}");
        let dice = like.randint_like(1, 7, &rng);
        assert!(dice.dtype()? == dtype && (mean(&dice)? - 3.5).abs() < 0.05, "{dtype}");
        for rate in [0.0, 0.5, 4.0, 60.0] {
            let counts = Tensor::full([20_000], rate, dtype).poisson(&rng).cast(DType::F64);
            let (m, square) = (mean(&counts)?, mean(&(&counts - rate).square())?);
            assert!((m - rate).abs() <= 0.04 * rate.max(0.5) && (square - rate).abs() <= 0.06 * rate.max(0.5), "{dtype} {rate}: {m}, {square}");
        }
    }
    let u = Tensor::rand_dtype([1000], DType::F64, &rng);
    assert!((&u * 2f64.powi(24)).frac().ne(0.0).any(..).item::<bool>()?, "f64 has more than 24 random bits");
    // Tails, which a wrong sum would show.
    let large = Tensor::full([2000], 1e6, DType::F64).poisson(&rng);
    assert!((mean(&large)? - 1e6).abs() < 150.0);
    let weights = Tensor::from_vec(vec![0.0f32, 1.0, 0.0, 3.0], [4]).expand([2000, 4]);
    let with = weights.multinomial(5, true, &rng);
    assert_eq!(with.dims::<2>()?, [2000, 5]);
    assert!((mean(&with.eq(3i64).cast(DType::F64))? - 0.75).abs() < 0.02);
    assert!(with.ne(1i64).logical_and(with.ne(3i64)).sum(..).item::<i64>()? == 0);
    let without = weights.multinomial(2, false, &rng);
    assert!((mean(&without.narrow(1, 0, 1).eq(3i64).cast(DType::F64))? - 0.75).abs() < 0.04);
    assert_eq!(without.sum(-1).to_vec::<i64>()?, vec![4; 2000]);
    let (m, s) = (Tensor::full([2, 1], 3.0, DType::F64).tracked(), Tensor::full([5000], 0.5, DType::F64).tracked());
    let x = Tensor::normal(&m, &s, &rng);
    assert!((mean(&x)? - 3.0).abs() < 0.03 && x.dims::<2>()? == [2, 5000]);
    let grads = x.sum(..).backward()?;
    assert_eq!(grads.get(&m).unwrap().to_vec::<f64>()?, [5000.0, 5000.0]);
    Ok(())
}
