//! Functions that PyTorch has by name and that are composed here: its answers are in `names.txt` (`python/names.py` writes it),
//! and every float function has the gradient of differences.
use adamant_core::{
    DType, Device, Result, Tensor,
    tensor::{FftNorm, MatrixNorm, ScatterReduce},
};
use std::collections::BTreeSet;

/// The rule by which both languages make their inputs.
fn made(seed: usize, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let values: Vec<f64> = (0..n).map(|i| (((i * 7919 + seed * 104729) % 1009) as f64 - 504.0) / 100.0).collect();
    Tensor::from_vec(values, shape)
}
fn whole(seed: usize, shape: &[usize]) -> Tensor {
    let numbers: Vec<f64> = (made(seed, shape) * 100.0).to_vec().unwrap();
    Tensor::from_vec(numbers.iter().map(|v| (*v as i64).rem_euclid(7)).collect(), shape)
}
fn x() -> Tensor {
    made(1, &[3, 5])
}
fn y() -> Tensor {
    made(2, &[3, 5])
}
fn v() -> Tensor {
    made(4, &[6])
}
fn w() -> Tensor {
    made(5, &[6])
}
fn cube() -> Tensor {
    made(6, &[2, 4, 6])
}
fn points() -> Tensor {
    (made(7, &[5]).abs() + 0.1).cumsum(0)
}
fn edges() -> Tensor {
    Tensor::from_vec(vec![-4.0, -1.5, 0.0, 0.25, 3.0], [5])
}
fn one(t: Tensor) -> Result<Vec<Tensor>> {
    Ok(vec![t])
}
fn c() -> Tensor {
    made(12, &[3, 4, 5, 2])
}
fn a() -> Tensor {
    made(13, &[2, 3, 3]) + Tensor::eye(3) * 4.0
}
fn b() -> Tensor {
    made(14, &[2, 3, 2])
}
/// A Cholesky factor.
fn l() -> Tensor {
    (a().matmul(a().mt()) + Tensor::eye(3)).cholesky()
}
fn z() -> Tensor {
    made(3, &[4, 5])
}
type Transform = fn(FftNorm) -> Tensor;
const TRANSFORMS: &[(&str, Transform)] = &[
    ("fftn", |norm| c().fftn(&[], [0isize; 0], norm)),
    ("fftn axes", |norm| c().fftn(&[], [2, 0], norm)),
    ("fftn sizes", |norm| c().fftn(&[3, 6], [0isize; 0], norm)),
    ("ifftn", |norm| c().ifftn(&[2, 7], [-1, 0], norm)),
    ("rfftn", |norm| cube().rfftn(&[], [0isize; 0], norm)),
    ("rfftn axes", |norm| cube().rfftn(&[5, 3], [2, 1], norm)),
    ("irfftn", |norm| c().irfftn(&[], [0isize; 0], norm)),
    ("irfftn sizes", |norm| c().irfftn(&[4, 7], [0, 2], norm)),
    ("fft2", |norm| c().fft2(norm)),
    ("ifft2", |norm| c().ifft2(norm)),
    ("rfft2", |norm| cube().rfft2(norm)),
    ("hfft", |norm| c().hfft(None, -1, norm)),
    ("hfft 7", |norm| c().hfft(Some(7), 1, norm)),
    ("ihfft", |norm| cube().ihfft(None, -1, norm)),
    ("hfftn", |norm| c().hfftn(&[4, 6], [0, 2], norm)),
    ("ihfftn", |norm| cube().ihfftn(&[], [0, 2], norm)),
    ("hfft2", |norm| c().hfft2(norm)),
    ("ihfft2", |norm| cube().ihfft2(norm)),
    ("ihfft 5", |norm| cube().ihfft(Some(5), 1, norm)),
];
/// The answer to a name that is put together of parts: a transform and its norm, a window, its length and kind.
fn of_parts(name: &str) -> Option<Tensor> {
    let norms = [("backward", FftNorm::Backward), ("ortho", FftNorm::Ortho), ("forward", FftNorm::Forward)];
    let (function, last) = name.rsplit_once(' ')?;
    if let Some((_, norm)) = norms.iter().find(|n| n.0 == last) {
        return TRANSFORMS.iter().find(|t| t.0 == function).map(|t| t.1(*norm));
    }
    let reduce = [("prod", ScatterReduce::Prod), ("mean", ScatterReduce::Mean), ("amax", ScatterReduce::Amax), ("amin", ScatterReduce::Amin)];
    if let Some((_, reduce)) = reduce.iter().find(|r| r.0 == function) {
        return Some(x().index_reduce(1, &Tensor::from_slice(&[3i64, 0, 3, 3, 1], [5]), &y(), *reduce, last == "True"));
    }
    let (kind, n) = function.split_once(' ')?;
    let (n, periodic, d) = (n.parse().ok()?, last == "True", DType::F64);
    Some(match kind {
        "hann" => Tensor::hann_window(n, periodic, d),
        "hamming" => Tensor::hamming_window(n, periodic, d),
        "blackman" => Tensor::blackman_window(n, periodic, d),
        "bartlett" => Tensor::bartlett_window(n, periodic, d),
        "kaiser" => Tensor::kaiser_window(n, periodic, 12.0, d),
        _ => return None,
    })
}
type Case = fn() -> Result<Vec<Tensor>>;
const CASES: &[(&str, Case)] = &[
    ("max", || one(x().max())),
    ("min", || one(x().min())),
    ("type_as", || one(x().long().type_as(&y()))),
    ("diagflat", || one(made(8, &[2, 2]).diagflat(0))),
    ("diagflat_off", || one(v().diagflat(-2))),
    ("inner", || one(x().inner(&made(3, &[4, 5])))),
    ("inner_vector", || one(v().inner(&w()))),
    ("inner_scalar", || one(x().inner(&v().select(0, 0)))),
    ("dist", || one(x().dist(&y(), 2.0))),
    ("dist_1", || one(x().dist(&y(), 1.0))),
    ("dist_inf", || one(x().dist(&y().select(0, 0), f64::INFINITY))),
    ("dist_half", || one(x().dist(&y(), 0.5))),
    ("trapezoid", || one(x().trapezoid(0.5, -1))),
    ("trapezoid_0", || one(x().trapezoid(1, 0))),
    ("trapezoid_points", || one(x().trapezoid(points(), -1))),
    ("trapezoid_wide_points", || one(x().trapezoid(y().cumsum(0), 0))),
    ("trapezoid_one", || one(x().narrow(1, 0, 1).trapezoid(2.0, -1))),
    ("trapezoid_int", || one(whole(1, &[3, 5]).trapezoid(2.0, -1))),
    ("cumulative_trapezoid", || one(x().cumulative_trapezoid(0.5, 1))),
    ("cumulative_trapezoid_points", || one(x().cumulative_trapezoid(points(), -1))),
    ("gradient", || one(x().gradient(0.5, 1, 1))),
    ("gradient_0", || one(x().gradient(1.0, 0, 1))),
    ("gradient_2", || one(x().gradient(2.0, 1, 2))),
    ("gradient_points", || one(x().gradient(points(), 1, 1))),
    ("gradient_points_2", || one(x().gradient(points(), 1, 2))),
    ("gradient_short", || one(x().narrow(1, 0, 2).gradient(1.0, 1, 1))),
    ("column_stack", || one(Tensor::column_stack(&[v().narrow(0, 0, 3), x(), w().narrow(0, 3, 3)]))),
    ("column_stack_scalars", || one(Tensor::column_stack(&[v().select(0, 0), w().select(0, 1)]))),
    ("hsplit", || cube().hsplit(2)),
    ("hsplit_vector", || v().hsplit(3)),
    ("vsplit", || cube().vsplit(2)),
    ("dsplit", || cube().dsplit(3)),
    ("broadcast_tensors", || Tensor::broadcast_tensors(&[x(), points(), x().narrow(1, 0, 1)])),
    ("cartesian_prod", || one(Tensor::cartesian_prod(&[v().narrow(0, 0, 3), w().narrow(0, 0, 2), v().narrow(0, 4, 2)]))),
    ("cartesian_prod_one", || one(Tensor::cartesian_prod(&[v()]))),
    ("combinations", || one(v().combinations(3, false))),
    ("combinations_again", || one(v().narrow(0, 0, 4).combinations(3, true))),
    ("combinations_few", || one(v().narrow(0, 0, 2).combinations(3, false))),
    ("combinations_1", || one(v().combinations(1, false))),
    ("cov", || one(x().cov(1.0, None, None))),
    ("cov_0", || one(x().cov(0.0, None, None))),
    ("cov_vector", || one(v().cov(1.0, None, None))),
    ("cov_f", || one(x().cov(1.0, Some(&(whole(9, &[5]) + 1)), None))),
    ("cov_a", || one(x().cov(1.0, None, Some(&points())))),
    ("cov_fa", || one(x().cov(2.0, Some(&(whole(9, &[5]) + 1)), Some(&points())))),
    ("corrcoef", || one(x().corrcoef())),
    ("corrcoef_vector", || one(v().corrcoef())),
    ("histogram", || one(cube().histogram(&edges(), None, false))),
    ("histogram_w", || one(x().histogram(&edges(), Some(&y()), false))),
    ("histogram_d", || one(cube().histogram(&edges(), None, true))),
    ("isin", || one(whole(1, &[3, 5]).isin(&whole(2, &[2, 2])))),
    ("isin_mixed", || one(whole(1, &[3, 5]).isin(&edges().round()))),
    ("reshape_as", || one(x().reshape_as(&made(1, &[5, 3])))),
    ("fftshift", || one(cube().fftshift([0isize; 0]))),
    ("fftshift axes", || one(x().fftshift([1]))),
    ("ifftshift", || one(x().ifftshift([0isize; 0]))),
    ("fftfreq 5", || one(Tensor::fftfreq(5, 0.25))),
    ("fftfreq 8", || one(Tensor::fftfreq(8, 1.0))),
    ("rfftfreq 5", || one(Tensor::rfftfreq(5, 0.25))),
    ("rfftfreq 8", || one(Tensor::rfftfreq(8, 1.0))),
    ("polar", || one(Tensor::polar(&x().abs(), &y()))),
    ("angle", || one(c().complex_angle())),
    ("conj", || one(c().conj())),
    ("complex_mul", || one(c().complex_mul(&c().select(0, 1)))),
    ("complex", || one(Tensor::complex(&x(), &y()))),
    ("cholesky_solve", || one(l().cholesky_solve(&b(), false))),
    ("cholesky_solve upper", || one(l().mt().cholesky_solve(&b(), true))),
    ("cholesky_inverse", || one(l().cholesky_inverse(false))),
    ("lstsq tall", || one(cube().narrow(2, 0, 3).lstsq(&cube().narrow(2, 3, 3), None))),
    ("lstsq wide", || one(x().lstsq(&z().narrow(0, 0, 3), None))),
    ("cond", || one(a().cond(None))),
    ("cond fro", || one(a().cond(Some(MatrixNorm::Fro)))),
    ("cond 1", || one(a().cond(Some(MatrixNorm::Ord(1.0))))),
    ("cond wide", || one(x().cond(None))),
    ("vander", || one(x().vander(4))),
    ("vander 2", || one(v().vander(2))),
    ("vecdot", || one(x().vecdot(&y(), -1))),
    ("vecdot 0", || one(x().vecdot(&y().narrow(1, 0, 1), 0))),
    ("tensorinv", || one((made(15, &[24, 24]) + Tensor::eye(24) * 40.0).reshape([4, 6, 8, 3]).tensorinv(2))),
    ("tensorsolve", || one((made(15, &[6, 6]) + Tensor::eye(6) * 10.0).reshape([2, 3, 6]).tensorsolve(&made(16, &[2, 3])))),
    ("addbmm", || one(made(17, &[3, 2]).addbmm(&a(), &b(), 0.5, 2.0))),
    ("addr", || one(x().addr(&v().narrow(0, 0, 3), &w().narrow(0, 0, 5), 0.5, 2.0))),
    ("select_scatter", || one(x().select_scatter(&v().narrow(0, 0, 5), 0, -1))),
    ("slice_scatter", || one(x().slice_scatter(&y().narrow(1, 0, 2), 1, Some(1), Some(-1), 2))),
    ("diagonal_scatter", || one(x().diagonal_scatter(&v().narrow(0, 0, 3), 1, 0, 1))),
    ("diagonal_scatter batch", || one(cube().diagonal_scatter(&made(18, &[4, 2]), 2, 0, 2))),
    ("unravel_index", || (whole(1, &[3, 5]) * 5).unravel_index(&[4, 2, 6])),
    ("renorm", || one(x().renorm(2.0, 0, 3.0))),
    ("renorm 1", || one(cube().renorm(1.0, 1, 20.0))),
    ("pdist", || one(x().pdist(2.0))),
    ("pdist 1", || one(z().pdist(1.0))),
    ("float_power", || one(x().float().abs().float_power(1.5))),
    ("float_power tensor", || one(whole(1, &[3, 5]).float_power(whole(2, &[3, 5])))),
    ("expand_as", || one(x().narrow(1, 0, 1).expand_as(&y()))),
];
/// Shapes as the file writes them, and all values after each other.
fn told(tensors: &[Tensor]) -> (String, Vec<f64>) {
    let shape = |t: &Tensor| match &*t.shape().unwrap() {
        [] => ".".to_string(),
        sizes => sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
    };
    let values = tensors.iter().flat_map(|t| t.cast(DType::F64).to_vec::<f64>().unwrap());
    (tensors.iter().map(shape).collect::<Vec<_>>().join(" "), values.collect())
}
#[test]
fn answers_are_pytorch_s() {
    Device::reference().make_current();
    let mut untold: BTreeSet<&str> = CASES.iter().map(|c| c.0).collect();
    for line in include_str!("names.txt").lines() {
        let [name, shapes, values] = line.split(" | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        let answer = CASES.iter().find(|c| c.0 == name).map(|case| case.1()).or_else(|| of_parts(name).map(one));
        let answer = answer.unwrap_or_else(|| panic!("no case {name}")).unwrap_or_else(|e| panic!("{name}: {e}"));
        let tolerance = if answer[0].dtype().unwrap() == DType::F32 { 1e-7 } else { 1e-12 };
        let (ours, got) = told(&answer);
        let wanted: Vec<f64> = values.split_whitespace().map(|v| v.parse().unwrap()).collect();
        assert_eq!(ours, shapes, "{name}");
        assert_eq!(got.len(), wanted.len(), "{name}");
        for (a, b) in got.iter().zip(&wanted) {
            assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{name}: {a} where PyTorch has {b}");
        }
        untold.remove(name);
    }
    assert!(untold.is_empty(), "cases that the file lacks: {untold:?}");
}
/// 32- and 16-bit inputs give their own dtype, near the answer in f64; integers give f32.
#[test]
fn every_float_dtype_keeps_its_own() {
    Device::reference().make_current();
    type Unary = fn(&Tensor) -> Tensor;
    let functions: [(&str, Unary); 6] = [
        ("trapezoid", |t| t.trapezoid(0.5, -1)),
        ("cumulative_trapezoid", |t| t.cumulative_trapezoid(0.5, -1)),
        ("gradient", |t| t.gradient(0.5, 1, 2)),
        ("cov", |t| t.cov(1.0, None, None)),
        ("corrcoef", Tensor::corrcoef),
        ("max", Tensor::max),
    ];
    for (name, f) in functions {
        for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F16, 5e-3), (DType::BF16, 4e-2)] {
            let input = x().cast(dtype);
            let (narrow, wide) = (f(&input), f(&input.double()));
            assert_eq!(narrow.dtype().unwrap(), dtype, "{name}");
            let largest: f64 = wide.abs().max().item().unwrap();
            let off: f64 = (narrow.double() - wide).abs().max().item().unwrap();
            assert!(off <= tolerance * largest, "{name} in {dtype}: {off} of {largest}");
        }
        if name != "max" {
            assert_eq!(f(&whole(1, &[3, 5])).dtype().unwrap(), DType::F32, "{name}");
        }
    }
}
#[test]
fn gradients_are_those_of_differences() {
    Device::reference().make_current();
    type Of = fn(&Tensor) -> Tensor;
    let functions: [(&str, Of); 9] = [
        ("max", Tensor::max),
        ("diagflat", |t| t.diagflat(1)),
        ("inner", |t| t.inner(&made(3, &[4, 5]))),
        ("dist", |t| t.dist(&y(), 3.0)),
        ("trapezoid", |t| y().trapezoid(t.abs().cumsum(-1), -1)),
        ("gradient", |t| t.gradient(points(), 1, 2)),
        ("cov", |t| t.cov(1.0, None, Some(&points()))),
        ("corrcoef", |t| t.corrcoef().tril(-1)),
        ("combinations", |t| t.ravel().combinations(2, false)),
    ];
    for (name, f) in functions {
        let loss = |t: &Tensor| {
            let out = f(t);
            let weights = made(11, &out.shape().unwrap());
            (out * weights).sum(..)
        };
        let leaf = x().tracked();
        let gradient: Vec<f64> = loss(&leaf).backward().unwrap().get(&leaf).unwrap().to_vec().unwrap();
        for (k, g) in gradient.iter().enumerate() {
            let moved = |by: f64| {
                let mut values: Vec<f64> = x().to_vec().unwrap();
                values[k] += by;
                loss(&Tensor::from_vec(values, [3, 5])).item::<f64>().unwrap()
            };
            let numeric = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((g - numeric).abs() <= 1e-6 * (1.0 + numeric.abs()), "{name} at {k}: {g}, by differences {numeric}");
        }
    }
}
#[test]
fn wrong_calls_name_the_function() {
    Device::reference().make_current();
    for (name, refused) in [
        ("gradient", x().gradient(1.0, 1, 3).error()),
        ("gradient", x().narrow(1, 0, 2).gradient(1.0, 1, 2).error()),
        ("gradient", x().gradient(v(), 1, 1).error()),
        ("trapezoid", x().trapezoid(v(), 1).error()),
        ("hsplit", x().hsplit(2).err()),
        ("vsplit", v().vsplit(2).err()),
        ("dsplit", x().dsplit(0).err()),
        ("cov", cube().cov(1.0, None, None).error()),
        ("cov", x().cov(1.0, Some(&v()), None).error()),
        ("histogram", whole(1, &[3]).histogram(&edges(), None, false).error()),
        ("histogram", x().histogram(&v().narrow(0, 0, 1), None, false).error()),
        ("cartesian_prod", Tensor::cartesian_prod(&[x(), v()]).error()),
        ("combinations", x().combinations(2, false).error()),
        ("size", x().size(2).err()),
    ] {
        let text = refused.unwrap_or_else(|| panic!("{name} took it")).to_string();
        assert!(text.starts_with(&format!("{name}: ")) && text.contains("names.rs"), "{text}");
    }
}
