//! Factorizations mean what the host's functions mean, for matrices of all shapes around the sizes of blocks, and their bits do
//! not depend on threads or the set of instructions.
#![allow(clippy::unwrap_used)]
use adamant_backend_cpu::{Context, CpuBackend, Isa};
use adamant_core::*;

fn numbers(shape: &[usize], seed: u32, dtype: DType) -> Tensor {
    let n: usize = shape.iter().product();
    let all = (0..n as u64).map(|k| (rng::element_bits([seed, 0, 0, 0], k) >> 8) as f32 / (1 << 24) as f32 - 0.5).collect();
    Tensor::from_vec(all, shape).cast(dtype)
}
fn definite(shape: &[usize], dtype: DType) -> Tensor {
    let (x, n) = (numbers(shape, 3, dtype), shape[shape.len() - 1]);
    x.matmul(x.mt()) / n as f64 + identity(n, dtype)
}
fn identity(n: usize, dtype: DType) -> Tensor {
    Tensor::eye_on(n, n, dtype, Device::current().unwrap())
}
fn epsilon(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 }
}
/// The largest difference from another tensor.
fn distance(a: &Tensor, b: &Tensor) -> Result<f64> {
    let all = a.to_vec_as::<f64>()?.into_iter().zip(b.to_vec_as::<f64>()?).map(|(a, b)| (a - b).abs());
    Ok(all.fold(0.0, |m, d| if d <= m { m } else { d }))
}
fn largest(a: &Tensor) -> Result<f64> {
    distance(a, &(a * 0.0))
}
/// How far the first columns of each matrix are from orthonormal.
fn skewness(q: &Tensor, dtype: DType) -> Result<f64> {
    let k = q.shape()?[q.rank() - 1];
    let product = q.mt().matmul(q);
    distance(&product, &(identity(k, dtype) + &product * 0.0))
}
const SIZES: [usize; 16] = [1, 2, 3, 4, 7, 16, 17, 31, 32, 33, 48, 64, 65, 100, 129, 200];
const FLOATS: [DType; 2] = [DType::F32, DType::F64];

type Function = (&'static str, fn(&[Tensor]) -> Vec<Tensor>);
/// Results that are unique.
const UNIQUE: &[Function] = &[
    ("det", |x| vec![x[0].det()]),
    ("slogdet", |x| vec![x[0].slogdet().0, x[0].slogdet().1]),
    ("inv", |x| vec![x[0].inv()]),
    ("solve", |x| vec![x[0].solve(&x[1])]),
    ("cholesky", |x| vec![x[0].cholesky()]),
    ("upper", |x| vec![x[0].solve_triangular(&x[1], true, false)]),
    ("lower", |x| vec![x[0].solve_triangular(&x[1], false, false)]),
    ("unit", |x| vec![(&x[0] * 0.1).solve_triangular(&x[1], true, true), (&x[0] * 0.1).solve_triangular(&x[1], false, true)]),
    ("qr", |x| vec![x[0].qr().0, x[0].qr().1]),
    ("eigvalsh", |x| vec![x[0].eigvalsh()]),
    ("svdvals", |x| vec![x[0].svdvals()]),
    ("pinv", |x| vec![x[0].pinv(None)]),
    ("matrix_exp", |x| vec![(&x[0] * 0.01).matrix_exp(), (&x[0] * 0.3).matrix_exp(), x[0].matrix_exp(), (&x[0] * 9.0).matrix_exp()]),
    ("lu_factor", |x| vec![x[0].lu_factor().0, x[0].lu_factor().1]),
    ("lu", |x| vec![x[1].lu().0, x[1].lu().1, x[1].lu().2]),
    ("geqrf", |x| vec![x[0].geqrf().0, x[0].geqrf().1]),
    ("told", |x| vec![x[0].inv_ex().0, x[0].inv_ex().1, x[0].solve_ex(&x[1]).0, x[0].cholesky_ex(false).0, x[0].cholesky_ex(false).1]),
    ("cofactors", |x| {
        let a = x[0].detach().tracked();
        a.det().sum(..).backward().map_or_else(|_| vec![], |g| g.get(&a).cloned().into_iter().collect())
    }),
];
#[test]
fn results_that_are_unique_are_those_of_the_host() -> Result<()> {
    let device = Context::new(CpuBackend::builder().threads(2))?.device();
    let mut wrong = Vec::new();
    for dtype in FLOATS {
        for n in SIZES {
            for lead in [&[][..], &[3]] {
                let shape: Vec<usize> = lead.iter().copied().chain([n, n]).collect();
                let right: Vec<usize> = lead.iter().copied().chain([n, n / 2 + 1]).collect();
                if lead.len() == 1 && n > 65 {
                    continue;
                }
                for (name, f) in UNIQUE {
                    let on = |device: Device| {
                        device.scoped(|| {
                            f(&[definite(&shape, dtype), numbers(&right, 8, dtype)]).iter().map(|t| t.to_vec_as::<f64>()).collect::<Result<Vec<_>>>()
                        })
                    };
                    let (ours, wanted) = (on(device)?, on(Device::reference())?);
                    assert!(ours.len() == wanted.len() && !wanted.is_empty(), "{name}");
                    for (ours, wanted) in ours.iter().zip(&wanted) {
                        let size = wanted.iter().fold(1e-30f64, |m, v| m.max(v.abs()));
                        let off = ours.iter().zip(wanted).fold(0.0f64, |m, (a, b)| if (a - b).abs() <= m { m } else { (a - b).abs() });
                        // Determinants and exponentials of matrices of large norms lose more places on the way, the host's too.
                        let places = if ["cofactors", "det", "matrix_exp"].contains(name) { 3000.0 } else { 40.0 };
                        if !(off <= places * (n as f64).sqrt() * epsilon(dtype) * size) || ours.len() != wanted.len() {
                            wrong.push(format!("{name} of {dtype} {shape:?} is off by {off} of {size}"));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}
/// Matrices of one shape: of every rank, of ends of the range, and with equal values.
fn kinds(m: usize, n: usize, dtype: DType) -> Vec<(&'static str, Tensor)> {
    let x = || numbers(&[m, n], 5, dtype);
    let mut all = vec![
        ("any", x()),
        ("large", x() * if dtype == DType::F64 { 1e200 } else { 1e30 }),
        ("small", x() * if dtype == DType::F64 { 1e-200 } else { 1e-30 }),
        ("of rank 1", numbers(&[m, 1], 5, dtype).matmul(numbers(&[1, n], 6, dtype))),
        ("zero", x() * 0.0),
        ("graded", x() * (numbers(&[n], 7, dtype) * 20.0).exp()),
    ];
    if m == n {
        all.push(("identity", identity(n, dtype)));
        all.push(("upper", x().triu(0)));
        all.push(("lower", x().tril(0)));
    }
    all
}
#[test]
fn factors_are_orthonormal_and_make_the_matrix_again() -> Result<()> {
    let device = Context::new(CpuBackend::builder().threads(2))?.device();
    let mut wrong = Vec::new();
    device.scoped(|| {
        for dtype in FLOATS {
            let shapes = SIZES.map(|n| (n, n)).into_iter().chain([(2, 1), (1, 2), (5, 3), (3, 5), (100, 7), (7, 100), (130, 90), (90, 130), (200, 33)]);
            for (m, n) in shapes {
                for (kind, a) in kinds(m, n, dtype) {
                    let bound = 8.0 * (m.max(n) as f64).sqrt() * epsilon(dtype);
                    let mut check = |what: &str, off: f64, size: f64| {
                        if !(off <= 6.0 * bound * size) {
                            wrong.push(format!("{what} of {dtype} {kind} [{m}, {n}]: {off} of {size}"));
                        }
                    };
                    let size = largest(&a)? * (m.max(n) as f64).sqrt();
                    let (q, r) = a.qr();
                    check("q", skewness(&q, dtype)?, 1.0);
                    check("q r", distance(&q.matmul(&r), &a)?, size);
                    check("what is below r", largest(&r.tril(-1))?, 0.0);
                    let (u, s, vt) = a.svd();
                    check("u", skewness(&u, dtype)?, 1.0);
                    check("v", skewness(&vt.mt(), dtype)?, 1.0);
                    check("u s v", distance(&(u * s.unsqueeze(0)).matmul(vt), &a)?, size);
                    check("singular values alone", distance(&a.svdvals(), &s)?, size);
                    let values = s.to_vec_as::<f64>()?;
                    check("order of singular values", if values.windows(2).all(|w| w[0] >= w[1]) && values[values.len() - 1] >= 0.0 { 0.0 } else { 1.0 }, 0.0);
                    if m == n {
                        let b = a.tril(0) + a.tril(-1).mt();
                        let (values, vectors) = a.eigh();
                        check("eigenvectors", skewness(&vectors, dtype)?, 1.0);
                        check("v λ v", distance(&(&vectors * values.unsqueeze(0)).matmul(vectors.mt()), &b)?, size);
                        check("eigenvalues alone", distance(&a.eigvalsh(), &values)?, size);
                        let values = values.to_vec_as::<f64>()?;
                        check("order of eigenvalues", if values.is_sorted() { 0.0 } else { 1.0 }, 0.0);
                    }
                }
            }
        }
        Ok::<(), Error>(())
    })?;
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}
#[test]
fn bits_do_not_depend_on_threads_or_instructions() -> Result<()> {
    let all = |threads: usize, isa: Isa| -> Result<Vec<(&str, Vec<u8>)>> {
        Context::new(CpuBackend::builder().threads(threads).isa(isa))?.device().scoped(|| {
            let mut out = Vec::new();
            for dtype in FLOATS {
                for (n, k) in [(33, 5), (150, 150)] {
                    let x = [definite(&[n, n], dtype), numbers(&[n, k], 8, dtype)];
                    let more: [Function; 2] = [
                        ("vectors", |x| {
                            let ((u, s, vt), (values, vectors)) = (x[0].svd(), x[0].eigh());
                            vec![u, s, vt, values, vectors]
                        }),
                        ("a tall one", |x| vec![x[1].svd().0, x[1].qr().0]),
                    ];
                    for (name, f) in UNIQUE.iter().chain(&more) {
                        for t in f(&x) {
                            out.push((*name, t.to_bytes()?));
                        }
                    }
                }
                let many = definite(&[70, 5, 5], dtype);
                out.push(("a batch", many.inv().to_bytes()?));
            }
            Ok(out)
        })
    };
    let one = all(1, Isa::Scalar)?;
    let mut wrong = Vec::new();
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        for threads in [1, 2, 4, 8] {
            for (one, other) in one.iter().zip(all(threads, isa)?) {
                if one.1 != other.1 {
                    wrong.push(format!("{} with {threads} threads and {isa:?}", one.0));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}
#[test]
fn the_first_bad_matrix_of_a_batch_is_told_of_as_the_host_tells() -> Result<()> {
    let device = Context::new(CpuBackend::builder().threads(4))?.device();
    let cases: &[Function] = &[
        ("inv", |x| vec![x[0].inv()]),
        ("solve", |x| vec![x[0].solve(&x[1])]),
        ("cholesky", |x| vec![x[0].cholesky()]),
        ("eigh", |x| vec![x[2].eigh().0]),
        ("eigvalsh", |x| vec![x[2].eigvalsh()]),
        ("svd", |x| vec![x[2].svd().0]),
        ("svdvals", |x| vec![x[2].svdvals()]),
        ("pinv", |x| vec![x[2].pinv(None)]),
    ];
    let told = |x: &Tensor| [x.inv_ex().0, x.inv_ex().1, x.cholesky_ex(false).0, x.cholesky_ex(false).1];
    for dtype in FLOATS {
        for n in [3usize, 40] {
            // Numbers in place of errors.
            let in_place = |device: Device| {
                device.scoped(|| {
                    let zeros = Tensor::from_vec((0..n).map(|i| if i == n - 1 { 0.0f32 } else { 1.0 }).collect(), [n, 1]).cast(dtype);
                    let a = Tensor::cat(&[definite(&[20, n, n], dtype), (identity(n, dtype) * zeros).unsqueeze(0)], 0);
                    told(&a).iter().map(|t| t.to_vec_as::<f64>()).collect::<Result<Vec<_>>>()
                })
            };
            let (ours, wanted) = (in_place(device)?, in_place(Device::reference())?);
            for (ours, wanted) in ours.iter().flatten().zip(wanted.iter().flatten()) {
                assert!((ours - wanted).abs() < 1e-4 || ours.is_nan() && wanted.is_nan(), "{ours} instead of {wanted}");
            }
            // Two bad ones, of which the first has its bad pivot later.
            let make = || {
                let zeros = |row: usize| Tensor::from_vec((0..n).map(|i| if i == row { 0.0f32 } else { 1.0 }).collect(), [n, 1]).cast(dtype);
                let good = |lead: usize| definite(&[lead, n, n], dtype);
                let bad = |row: usize| (identity(n, dtype) * zeros(row)).unsqueeze(0);
                let a = Tensor::cat(&[good(150), bad(n - 1), good(100), bad(1), good(50)], 0);
                let nan = Tensor::cat(&[good(150), good(1) * f64::NAN, good(100)], 0);
                [a, numbers(&[302, n, 2], 4, dtype), nan]
            };
            for (name, f) in cases {
                let told = |device: Device| device.scoped(|| f(&make())[0].to_bytes().map_err(|e| e.kind().to_string()).err());
                let (ours, wanted) = (told(device), told(Device::reference()));
                assert!(ours == wanted && ours.is_some(), "{name} of {dtype} {n}: {ours:?} instead of {wanted:?}");
            }
        }
    }
    Ok(())
}
