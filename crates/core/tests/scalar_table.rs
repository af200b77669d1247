//! Every row of the scalar table: its meaning against values of 50 digits, its gradient and second gradient against
//! central differences of its meaning, integers, NaN. A new row is tested by being in the table.
use adamant_core::{
    reference,
    scalar::{Binary, Class, Unary},
    *,
};

const UNARY_VALUES: &[(&str, f64, f64)] = include!("scalar_table/unary_values.in");
const BINARY_VALUES: &[(&str, f64, f64, f64)] = include!("scalar_table/binary_values.in");

fn unary(name: &str) -> Unary {
    Unary::ALL.iter().copied().find(|f| f.name() == name).unwrap_or_else(|| panic!("no unary row `{name}`"))
}
fn binary(name: &str) -> Binary {
    Binary::ALL.iter().copied().find(|f| f.name() == name).unwrap_or_else(|| panic!("no binary row `{name}`"))
}
fn check_all(what: &str, wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{what}: {} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Relative error allowed to the f64 meaning, and the absolute error near a zero of the function that is no zero of
/// its parts (Bessel functions, lgamma).
fn tolerance(name: &str) -> (f64, f64) {
    match name {
        "igamma" | "igammac" => (1e-13, 0.0),
        // Deep in the tail the rounding of its cubic is magnified by the size of the exponent.
        "gelu_tanh" => (1e-14, 0.0),
        "bessel_j0" | "bessel_j1" | "bessel_y0" | "bessel_y1" | "lgamma" | "digamma" | "polygamma" => (4e-15, 4e-16),
        "ndtri" | "erfinv" | "trigamma" => (4e-15, 0.0),
        _ => (2e-15, 0.0),
    }
}
fn off(name: &str, got: f64, want: f64) -> bool {
    let (relative, absolute) = tolerance(name);
    !((got - want).abs() <= relative * want.abs() + absolute || got == want)
}

#[test]
fn meanings_are_accurate_to_the_last_places() {
    let one = UNARY_VALUES.iter().filter_map(|&(name, x, want)| {
        let got = (unary(name).row().exact)(x);
        off(name, got, want).then(|| format!("{name}({x:?}) = {got:?}, not {want:?}: relative {:.1e}", (got - want).abs() / want.abs()))
    });
    let two = BINARY_VALUES.iter().filter_map(|&(name, x, y, want)| {
        let got = (binary(name).row().exact)(x, y);
        off(name, got, want).then(|| format!("{name}({x:?}, {y:?}) = {got:?}, not {want:?}: relative {:.1e}", (got - want).abs() / want.abs()))
    });
    check_all("exact meaning", one.chain(two).collect());
}

/// Points of a domain at even fractions, none of them near a kink.
fn points(domain: (f64, f64), kinks: &[f64]) -> Vec<f64> {
    let at = |t: f64| domain.0 + (domain.1 - domain.0) * t;
    [0.037, 0.21, 0.34, 0.472, 0.613, 0.78, 0.949].map(at).into_iter().filter(|x| kinks.iter().all(|k| (x - k).abs() > 0.02)).collect()
}
/// The derivative by differences of fourth order.
fn slope(f: impl Fn(f64) -> f64, x: f64, margin: f64) -> f64 {
    let h = 5e-4f64.min(margin / 500.0);
    (8.0 * (f(x + h) - f(x - h)) - (f(x + 2.0 * h) - f(x - 2.0 * h))) / (12.0 * h)
}
fn near(got: f64, want: f64) -> bool {
    (got - want).abs() <= 2e-8 * (1.0 + want.abs())
}
fn column(values: &[f64]) -> Tensor {
    Tensor::from_slice(values, [values.len()]).tracked()
}
/// The gradient of sum(y) to x, and the gradient of that gradient's sum.
fn first_and_second(y: &Tensor, x: &Tensor) -> Result<(Vec<f64>, Vec<f64>)> {
    let zeros = || x.detach().zeros_like();
    let g = y.sum(..).backward_graph()?.get(x).cloned().unwrap_or_else(zeros);
    let second = if g.is_tracked() { g.sum(..).backward()?.get(x).cloned().unwrap_or_else(zeros) } else { zeros() };
    Ok((g.to_vec()?, second.to_vec()?))
}

#[test]
fn unary_gradients_are_the_slopes_of_the_meaning_and_second_gradients_of_the_gradient() -> Result<()> {
    let mut wrong = vec![];
    Device::reference().scoped(|| -> Result<()> {
        for &f in Unary::ALL {
            let row = f.row();
            let xs = points(row.domain, row.kinks);
            assert!(xs.len() > 2, "{} has no points", row.name);
            if !row.differentiable {
                continue;
            }
            let gradient = |xs: &[f64]| -> Result<(Vec<f64>, Vec<f64>)> {
                let x = column(xs);
                first_and_second(&x.unary(f), &x)
            };
            let (first, second) = gradient(&xs)?;
            for (k, &x) in xs.iter().enumerate() {
                let margin = (x - row.domain.0).min(row.domain.1 - x);
                let want = slope(row.exact, x, margin);
                if !near(first[k], want) {
                    wrong.push(format!("{}'({x}) = {}, slope {want}", row.name, first[k]));
                }
                let want = slope(|x| gradient(&[x]).map_or(f64::NAN, |(g, _)| g[0]), x, margin);
                if !near(second[k], want) {
                    wrong.push(format!("{}''({x}) = {}, slope {want}", row.name, second[k]));
                }
            }
        }
        Ok(())
    })?;
    check_all("unary gradients", wrong);
    Ok(())
}

/// No gradient to the left side: PyTorch has none either.
const RIGHT_ONLY: &[Binary] = &[Binary::Igamma, Binary::Igammac, Binary::Zeta];
/// No gradient to the right side, or a right side that must stay whole.
const LEFT_ONLY: &[Binary] = &[Binary::Polygamma];

#[test]
fn binary_gradients_are_the_slopes_of_the_meaning_and_second_gradients_of_the_gradient() -> Result<()> {
    let mut wrong = vec![];
    Device::reference().scoped(|| -> Result<()> {
        for &f in Binary::ALL {
            let row = f.row();
            if !row.differentiable {
                continue;
            }
            let (xs, ys) = (points(row.domain.0, &[]), points(row.domain.1, &[]));
            // Pair them so that neither grows with the other.
            let pairs: Vec<(f64, f64)> = (0..xs.len()).map(|k| (xs[k], ys[k * 3 % ys.len()])).filter(|(x, y)| (x - y).abs() > 0.05).collect();
            for (x, y) in pairs {
                // A quotient near a whole number is a kink of the rounding ones.
                let quotient = x / y;
                if matches!(f, Binary::FloorDivide | Binary::DivTrunc | Binary::Remainder | Binary::Fmod) && (quotient - quotient.round()).abs() < 0.05 {
                    continue;
                }
                for left in [true, false] {
                    if (left && RIGHT_ONLY.contains(&f)) || (!left && LEFT_ONLY.contains(&f)) {
                        continue;
                    }
                    let gradient = |v: f64| -> Result<(f64, f64)> {
                        let t = column(&[v]);
                        let out = if left { t.binary(f, &column(&[y]).detach()) } else { column(&[x]).detach().binary(f, &t) };
                        let (g, h) = first_and_second(&out, &t)?;
                        Ok((g[0], h[0]))
                    };
                    let (at, side, exact): (f64, &str, Box<dyn Fn(f64) -> f64>) =
                        if left { (x, "left", Box::new(move |v| (row.exact)(v, y))) } else { (y, "right", Box::new(move |v| (row.exact)(x, v))) };
                    let (first, second) = gradient(at)?;
                    let want = slope(exact, at, 0.4 * at.abs());
                    if !near(first, want) {
                        wrong.push(format!("{}({x}, {y}) {side}: {first}, slope {want}", row.name));
                    }
                    let want = slope(|v| gradient(v).map_or(f64::NAN, |g| g.0), at, 0.4 * at.abs());
                    if !near(second, want) {
                        wrong.push(format!("{}({x}, {y}) {side} second: {second}, slope {want}", row.name));
                    }
                    // The same with a number on the other side.
                    let t = column(&[at]);
                    let out = if left { t.binary(f, y) } else { t.binary_reversed(f, x) };
                    let (scalar, _) = first_and_second(&out, &t)?;
                    if !near(scalar[0], first) {
                        wrong.push(format!("{}({x}, {y}) {side} with a number: {}, with a tensor {first}", row.name, scalar[0]));
                    }
                }
            }
        }
        Ok(())
    })?;
    check_all("binary gradients", wrong);
    Ok(())
}

#[test]
fn missing_gradients_are_errors_and_not_zeros() {
    Device::reference().scoped(|| {
        for &f in RIGHT_ONLY {
            let x = column(&[2.0]);
            let g = x.binary(f, 3.0).sum(..).backward();
            let error = g.and_then(|g| g.get(&x).map_or(Ok(vec![]), Tensor::to_vec::<f64>)).unwrap_err().to_string();
            assert!(error.contains(f.name()), "{error}");
        }
    });
}

#[test]
fn nan_propagates_except_where_the_function_says_otherwise() {
    let mut wrong = vec![];
    for &f in Unary::ALL {
        let got = (f.row().exact)(f64::NAN);
        if f != Unary::Sign && f.row().class != Class::ToBool && f.row().class != Class::Integer && !got.is_nan() {
            wrong.push(format!("{}(NaN) = {got}", f.name()));
        }
    }
    for &f in Binary::ALL {
        let row = f.row();
        if matches!(row.class, Class::ToBool | Class::Bits | Class::Integer) {
            continue;
        }
        for (x, y) in [(f64::NAN, 2.5), (2.5, f64::NAN)] {
            let ignores = matches!(f, Binary::Fmax | Binary::Fmin | Binary::Heaviside) || (f == Binary::Copysign && y.is_nan());
            let got = (row.exact)(x, y);
            if !ignores && !got.is_nan() {
                wrong.push(format!("{}({x}, {y}) = {got}", row.name));
            }
        }
    }
    check_all("NaN", wrong);
}

/// One expression with its expected elements, on the reference device.
macro_rules! check {
    ($t:ty: $($e:expr => $want:expr),* $(,)?) => { $({
        let got = $e;
        match got.to_vec::<$t>() {
            Ok(v) => assert_eq!(format!("{v:?}"), format!("{:?}", Vec::<$t>::from($want)), "{}", stringify!($e)),
            Err(e) => panic!("{}: {e}", stringify!($e)),
        }
    })* };
}
fn of<T: Element, const N: usize>(data: [T; N]) -> Tensor {
    Tensor::from_slice(&data, [N])
}

#[test]
fn integers_wrap_divide_and_shift_as_pytorch_does() {
    Device::reference().scoped(|| {
        let (a, b) = (of([-7i32, -7, 7, 7, 6]), of([2i32, -2, 2, -2, 3]));
        check!(i32:
            a.floor_divide(&b) => [-4, 3, 3, -4, 2],
            a.div_trunc(&b) => [-3, 3, 3, -3, 2],
            a.remainder(&b) => [1, -1, 1, -1, 0],
            a.fmod(&b) => [-1, -1, 1, 1, 0],
            of([2i32, -3, 0, 1, -1]).pow(&of([10i32, 3, 0, -5, -3])) => [1024, -27, 1, 1, -1],
            of([2i32, 0]).pow(&of([-1i32, -1])) => [0, 0],
            of([12i32, -12, 0]).gcd(&of([18i32, 8, 0])) => [6, 4, 0],
            of([4i32, -6, 0]).lcm(&of([6i32, 4, 5])) => [12, 12, 0],
            of([1i32, -1, 5]).bitwise_left_shift(&of([4i32, 40, 1])) => [16, 0, 10],
            of([-8i32, 8, -8]).bitwise_right_shift(&of([1i32, 40, -1])) => [-4, 0, -1],
            of([5i32, -1]).bitwise_not() => [-6, 0],
            of([-3i32, 0, 4]).sign() => [-1, 0, 1],
            of([-3i32, 0, 4]).relu() => [0, 0, 4],
            of([-3i32, 4]).floor() => [-3, 4],
            of([-3i32, 0, 4]).heaviside(9i32) => [0, 9, 1],
            of([-3i32, 4]).copysign(1i32).cast(DType::I32) => [3, 4],
        );
        check!(i8: of([-128i8, 100]).abs() => [-128, 100], of([100i8, 100]) + of([100i8, 1]) => [-56, 101], of([-128i8]).floor_divide(&of([-1i8])) => [-128]);
        check!(u8: of([200u8]).square() => [64], of([3u8]) - of([5u8]) => [254]);
        check!(bool: of([true, true, false]) + of([true, false, false]) => [true, true, false],
            of([true, true, false]) * of([true, false, false]) => [true, false, false],
            of([true, false]).bitwise_not() => [false, true],
            of([true, false]).bitwise_xor(&of([true, true])) => [false, true],
            of([3i32, 0]).logical_xor(&of([1i32, 1])) => [false, true],
            of([1i64, -2]).signbit() => [false, true],
            of([1i64, 2]).isfinite() => [true, true],
            of([1i64, 2]).isinf() => [false, false]);
        check!(f32: of([7i32, 1]) / of([2i32, 4]) => [3.5, 0.25], of([1i64]).exp() => [std::f32::consts::E], of([3i32]).atan2(&of([0i32])) => [std::f32::consts::FRAC_PI_2]);
        for refused in [of([true]).neg(), of([true]) - of([true]), of([true]).pow(of([true])), of([1.5f32]).bitwise_not(), of([1.5f32]).gcd(&of([1.0f32])), of([true]).positive()] {
            assert!(matches!(refused.ok().map_err(|e| e.kind().clone()), Err(ErrorKind::Dtype(_))));
        }
    });
}

#[test]
fn an_integer_divided_by_zero_is_a_fault() {
    for f in [Binary::FloorDivide, Binary::DivTrunc, Binary::Remainder, Binary::Fmod] {
        assert!(f.can_fault(DType::I32) && !f.can_fault(DType::F32), "{f:?}");
        assert_eq!(reference::binary(f, Scalar::Int(3), Scalar::Int(0), DType::I32), None, "{f:?}");
    }
}

#[test]
fn special_points_are_pytorchs() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    Device::reference().scoped(|| {
        check!(f64:
            of([-0.0, 0.0, nan, -2.0]).sign() => [0.0, 0.0, 0.0, -1.0],
            of([inf, -inf]).gelu() => [nan, nan],
            of([0.5, 1.5, 2.5, -0.5]).round() => [0.0, 2.0, 2.0, -0.0],
            of([nan, -1.0, -0.0]).relu() => [nan, 0.0, 0.0],
            of([-inf, inf, -800.0]).sigmoid() => [0.0, 1.0, (-800f64).exp()],
            of([-inf, inf]).softplus() => [0.0, inf],
            of([0.0, 1.0, -0.1]).logit() => [-inf, inf, nan],
            of([0.0, 1.0, 2.5]).sinc() => [1.0, 0.0, 1.0 / (2.5 * std::f64::consts::PI)],
            of([0.0, -1.0]).entr() => [0.0, -inf],
            of([0.0, -0.0, -1.0]).digamma() => [-inf, inf, nan],
            of([0.0, -1.0]).trigamma() => [inf, inf],
            of([0.0, -2.0, inf]).lgamma() => [inf, inf, inf],
            of([1.0, -1.0, 1.5]).erfinv() => [inf, -inf, nan],
            of([0.0, 1.0, -0.5]).ndtri() => [-inf, inf, nan],
            of([0.0, 0.0, nan, 1.0]).pow(&of([0.0, -1.0, 0.0, nan])) => [1.0, inf, 1.0, 1.0],
            of([0.0, 0.0, nan]).xlogy(&of([0.0, nan, 2.0])) => [0.0, nan, nan],
            of([inf, -inf, inf]).logaddexp(&of([inf, -inf, -inf])) => [inf, -inf, inf],
            of([nan, 1.0, nan]).fmax(&of([1.0, nan, nan])) => [1.0, 1.0, nan],
            of([0.0, -1.0, 2.0, nan]).heaviside(&of([0.5, 0.5, 0.5, 0.5])) => [0.5, 0.0, 1.0, 0.0],
            of([7.5, -7.5, 1.0]).floor_divide(&of([2.0, 2.0, 0.0])) => [3.0, -4.0, inf],
            of([-7.5, 7.5]).remainder(&of([2.0, -2.0])) => [0.5, -0.5],
            of([-0.0, 3.0]).copysign(-1.0) => [-0.0, -3.0],
            of([0.0, 1.0, 0.0]).igamma(&of([1.0, 0.0, 0.0])) => [1.0, 0.0, nan],
            of([1e300]).hypot(1e300) => [2f64.sqrt() * 1e300],
        );
        check!(bool: of([-0.0, 0.0, -1.0]).signbit() => [true, false, true], of([nan, inf, 1.0]).isfinite() => [false, false, true], of([nan, inf, -inf]).isneginf() => [false, false, true], of([nan]).ne(nan) => [true]);
    });
}

#[test]
fn gradients_at_kinks_ties_and_edges_are_pytorchs() {
    let nan = f64::NAN;
    let gradient = |f: &dyn Fn(&Tensor) -> Tensor, at: &[f64]| -> Vec<f64> {
        let x = column(at);
        first_and_second(&f(&x), &x).map(|g| g.0).unwrap()
    };
    let same = |got: Vec<f64>, want: &[f64], what: &str| assert_eq!(format!("{got:?}"), format!("{want:?}"), "{what}");
    Device::reference().scoped(|| {
        let ties = || of([1.0, 1.0, 1.0]);
        same(gradient(&|x| x.abs(), &[0.0, -2.0]), &[0.0, -1.0], "abs");
        same(gradient(&|x| x.relu(), &[0.0, -1.0, 2.0]), &[0.0, 0.0, 1.0], "relu");
        same(gradient(&|x| x.maximum(&ties()), &[1.0, 0.0, 2.0]), &[0.5, 0.0, 1.0], "maximum");
        same(gradient(&|x| ties().minimum(x), &[1.0, 0.0, 2.0]), &[0.5, 1.0, 0.0], "minimum");
        same(gradient(&|x| x.fmax(&ties()), &[1.0, 0.0, nan]), &[0.5, 0.0, 0.0], "fmax left");
        same(gradient(&|x| ties().fmin(x), &[1.0, 0.0, nan]), &[0.5, 1.0, 0.0], "fmin right");
        same(gradient(&|x| x.pow(0.0), &[0.0, 2.0]), &[0.0, 0.0], "pow 0");
        same(gradient(&|x| x.pow(2.0), &[0.0, 3.0]), &[0.0, 6.0], "pow 2");
        same(gradient(&|x| x.pow(1.0), &[0.0]), &[1.0], "pow 1");
        same(gradient(&|y| y.binary_reversed(Binary::Pow, 0.0), &[0.0, 2.0]), &[0.0, 0.0], "0 pow");
        same(gradient(&|x| x.xlogy(0.0), &[0.0]), &[0.0], "xlogy");
        same(gradient(&|x| x.sinc(), &[0.0]), &[0.0], "sinc");
        same(gradient(&|x| x.i1(), &[0.0]), &[0.5], "i1");
        same(gradient(&|x| x.logit(), &[1.5]), &[nan], "logit");
        same(gradient(&|x| x.copysign(-3.0), &[2.0, 0.0, -1.0]), &[-1.0, -0.0, 1.0], "copysign");
        same(gradient(&|x| x.log_sigmoid(), &[-1e3, 1e3]), &[1.0, 0.0], "log_sigmoid");
        same(gradient(&|x| x.tanh(), &[1e3]), &[0.0], "tanh");
    });
}

#[test]
fn nextafter_counts_in_the_dtypes_own_grid() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    Device::reference().scoped(|| {
        let (x, toward) = ([1.0, 1.0, -1.0, -1.0, 0.0, 0.0, 2.0, inf, f32::MAX, nan, 1.0], [2.0, 0.0, 0.0, -2.0, 1.0, -1.0, 2.0, 0.0, inf, 1.0, nan]);
        let tiny = f32::from_bits(1);
        let want = [1f32.next_up(), 1f32.next_down(), -1f32.next_down(), -1f32.next_up(), tiny, -tiny, 2.0, f32::MAX, inf, nan, nan];
        check!(f32: of(x).nextafter(&of(toward)) => want, of([1.0f32]).cast(DType::BF16).nextafter(2.0).cast(DType::F32) => [1.0078125f32]);
        check!(f64: of([-1.0f64]).nextafter(f64::NEG_INFINITY) => [(-1f64).next_down()]);
        assert!(of([1i32]).nextafter(2i32).error().is_some());
    });
}
#[test]
fn gradients_in_bf16_round_once() -> Result<()> {
    Device::reference().scoped(|| {
        let xs: Vec<f32> = (-40..40).map(|k| k as f32 * 0.125).collect();
        for f in [Unary::Gelu, Unary::Silu, Unary::Mish, Unary::GeluTanh, Unary::Tanh, Unary::Atan] {
            let wide = Tensor::from_slice(&xs, [xs.len()]).tracked();
            let narrow = Tensor::from_slice(&xs, [xs.len()]).cast(DType::BF16).tracked();
            let want = wide.unary(f).sum(..).backward()?.get(&wide).map(|g| g.cast(DType::BF16).to_vec::<bf16>()).transpose()?.unwrap_or_default();
            let got = narrow.unary(f).sum(..).backward()?.get(&narrow).map(|g| g.to_vec::<bf16>()).transpose()?.unwrap_or_default();
            for (k, (g, w)) in got.iter().zip(&want).enumerate() {
                // What tanh saved is rounded to bf16, as PyTorch's is; the others read the input and are exact.
                let slack = if f == Unary::Tanh { 0.02 } else { 0.0 };
                assert!((g.to_f32() - w.to_f32()).abs() <= slack, "{f:?} at {}: {g} {w}", xs[k]);
            }
        }
        Ok(())
    })
}
