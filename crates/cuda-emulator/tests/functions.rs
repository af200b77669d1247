//! The compiler's library of mathematical functions, as compiled and run: each within the error that CUDA's programming guide
//! states for it (with one more, for what the reference itself is off), special values as IEEE 754 and C99 have them.
mod rig;
use rig::{Arg, Random, Rig};

/// A function of one argument: its name (of f64), the reference, the range of arguments, the bounds in ULP (f32, f64).
type Unary = (&'static str, fn(f64) -> f64, f64, f64, f64, f64);
const UNARY: &[Unary] = &[
    ("exp", libm::exp, -100.0, 90.0, 2.0, 2.0),
    ("exp2", libm::exp2, -140.0, 127.0, 2.0, 2.0),
    ("exp10", libm::exp10, -40.0, 38.0, 3.0, 4.0),
    ("expm1", libm::expm1, -20.0, 80.0, 2.0, 2.0),
    ("log", libm::log, 0.0, 1e6, 2.0, 2.0),
    ("log2", libm::log2, 0.0, 1e6, 2.0, 2.0),
    ("log10", libm::log10, 0.0, 1e6, 3.0, 2.0),
    ("log1p", libm::log1p, -1.0, 1e3, 2.0, 2.0),
    ("sin", libm::sin, -1e6, 1e6, 2.0, 3.0),
    ("cos", libm::cos, -1e6, 1e6, 2.0, 3.0),
    ("tan", libm::tan, -1e6, 1e6, 5.0, 3.0),
    ("sin", libm::sin, -4.0, 4.0, 2.0, 3.0),
    ("cos", libm::cos, -4.0, 4.0, 2.0, 3.0),
    ("tan", libm::tan, -4.0, 4.0, 5.0, 3.0),
    ("asin", libm::asin, -1.0, 1.0, 3.0, 3.0),
    ("acos", libm::acos, -1.0, 1.0, 3.0, 3.0),
    ("atan", libm::atan, -30.0, 30.0, 3.0, 3.0),
    ("sinh", libm::sinh, -80.0, 80.0, 4.0, 3.0),
    ("cosh", libm::cosh, -80.0, 80.0, 3.0, 3.0),
    ("tanh", libm::tanh, -9.0, 9.0, 3.0, 3.0),
    ("asinh", libm::asinh, -1e3, 1e3, 4.0, 4.0),
    ("acosh", libm::acosh, 1.0, 1e3, 5.0, 4.0),
    ("atanh", libm::atanh, -1.0, 1.0, 4.0, 4.0),
    ("sqrt", libm::sqrt, 0.0, 1e9, 0.5, 0.5),
    ("cbrt", libm::cbrt, -1e9, 1e9, 2.0, 2.0),
    ("erf", libm::erf, -4.0, 4.0, 3.0, 3.0),
    ("erfc", libm::erfc, -4.0, 8.0, 5.0, 6.0),
    ("lgamma", libm::lgamma, 0.1, 1e3, 7.0, 5.0),
    ("tgamma", libm::tgamma, 0.1, 30.0, 12.0, 11.0),
    ("floor", libm::floor, -1e3, 1e3, 0.0, 0.0),
    ("ceil", libm::ceil, -1e3, 1e3, 0.0, 0.0),
    ("trunc", libm::trunc, -1e3, 1e3, 0.0, 0.0),
    ("rint", libm::rint, -1e3, 1e3, 0.0, 0.0),
    ("round", libm::round, -1e3, 1e3, 0.0, 0.0),
    ("fabs", libm::fabs, -1e3, 1e3, 0.0, 0.0),
];
/// A function of two.
type Binary = (&'static str, fn(f64, f64) -> f64, f64, f64, f64, f64);
const BINARY: &[Binary] = &[
    ("pow", libm::pow, -8.0, 8.0, 10.0, 3.0),
    ("fmod", libm::fmod, -1e4, 1e4, 0.0, 0.0),
    ("remainder", libm::remainder, -1e4, 1e4, 0.0, 0.0),
    ("atan2", libm::atan2, -10.0, 10.0, 4.0, 3.0),
    ("hypot", libm::hypot, -1e3, 1e3, 4.0, 3.0),
    ("fmin", libm::fmin, -10.0, 10.0, 0.0, 0.0),
    ("fmax", libm::fmax, -10.0, 10.0, 0.0, 0.0),
    ("copysign", libm::copysign, -10.0, 10.0, 0.0, 0.0),
];
const SPECIAL: [f64; 14] = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, -1e-40];
const COUNT: usize = 2000;

fn text() -> String {
    let mut text = String::new();
    let head = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) o[i] =";
    let mut seen: Vec<&str> = Vec::new();
    for (name, two) in UNARY.iter().map(|f| (f.0, false)).chain(BINARY.iter().map(|f| (f.0, true))) {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        for (t, suffix) in [("float", "f"), ("double", "")] {
            let (parameter, argument) = if two { (format!(", const {t}* y"), ", y[i]") } else { (String::new(), "") };
            text += &format!("extern \"C\" __global__ void {name}_{t}({t}* o, const {t}* x{parameter}, int n) {{ {head} {name}{suffix}(x[i]{argument}); }}\n");
        }
    }
    text
}

/// The distance from the reference in units of the last place.
fn ulps(got: f64, wanted: f64, single: bool) -> f64 {
    let rounded = if single { f64::from(wanted as f32) } else { wanted };
    if got.is_nan() || rounded.is_nan() {
        return if got.is_nan() && rounded.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got == rounded {
        // The sign of a zero is part of the answer.
        return if got == 0.0 && got.is_sign_negative() != rounded.is_sign_negative() { f64::INFINITY } else { 0.0 };
    }
    let unit = if single {
        let near = (wanted.abs() as f32).max(f32::MIN_POSITIVE);
        f64::from(near.next_up()) - f64::from(near)
    } else {
        let near = wanted.abs().max(f64::MIN_POSITIVE);
        near.next_up() - near
    };
    if got.is_infinite() && wanted.abs() + unit * 4.0 > if single { f32::MAX.into() } else { f64::MAX } {
        return 1.0;
    }
    (got - wanted).abs() / unit
}

fn check(rig: &Rig, name: &str, single: bool, arguments: [&[f64]; 2], reference: impl Fn(f64, f64) -> f64, bound: f64) {
    let [x, y] = arguments;
    let n = x.len();
    let put = |values: &[f64]| if single { rig.upload(&values.iter().map(|v| *v as f32).collect::<Vec<_>>()) } else { rig.upload(values) };
    let out = if single { rig.empty::<f32>(n) } else { rig.empty::<f64>(n) };
    let mut args = vec![Arg::P(out), Arg::P(put(x))];
    if !y.is_empty() {
        args.push(Arg::P(put(y)));
    }
    args.push(Arg::I(n as i32));
    rig.go(&format!("{name}_{}", if single { "float" } else { "double" }), n.div_ceil(128) as u32, 128, &args);
    let got: Vec<f64> = if single { rig.download::<f32>(out, n).iter().map(|v| f64::from(*v)).collect() } else { rig.download(out, n) };
    let exactly = |v: f64| if single { f64::from(v as f32) } else { v };
    for k in 0..n {
        let (a, b) = (exactly(x[k]), y.get(k).map_or(0.0, |v| exactly(*v)));
        let wanted = reference(a, b);
        let error = ulps(got[k], wanted, single);
        // What is below the normal numbers has few bits: an absolute error of as much is let through.
        assert!(error <= bound, "{name} single {single}: {a} {b}: {} instead of {wanted}: {error} ULP", got[k]);
    }
}

fn check_all(options: &[&str]) {
    let Some(rig) = Rig::of(&text(), options) else { return };
    let mut random = Random(5);
    for (name, reference, low, high, of_f32, of_f64) in UNARY {
        let mut x: Vec<f64> = (0..COUNT).map(|_| low + (high - low) * (random.unit() + 1.0) / 2.0).collect();
        // Small arguments, too: most functions have a branch for them.
        x.extend((0..COUNT / 4).map(|_| random.unit() * 2f64.powi(-(random.below(30) as i32))).filter(|v| v >= low && v <= high));
        x.extend(SPECIAL);
        if *name == "lgamma" || *name == "tgamma" {
            // Near the poles the guide promises nothing.
            x.retain(|v| *v > 0.0 || v.is_infinite() || v.is_nan());
            x.retain(|v| *v > 1e-30 && (*name != "lgamma" || !(*v > 0.9 && *v < 2.1 && *v != 1.0 && *v != 2.0)));
        }
        check(&rig, name, true, [&x, &[]], |a, _| reference(a), *of_f32);
        check(&rig, name, false, [&x, &[]], |a, _| reference(a), *of_f64);
    }
    for (name, reference, low, high, of_f32, of_f64) in BINARY {
        let mut draw = || -> Vec<f64> { (0..COUNT).map(|_| low + (high - low) * (random.unit() + 1.0) / 2.0).collect() };
        let (mut x, mut y) = (draw(), draw());
        for a in SPECIAL {
            for b in SPECIAL {
                x.push(a);
                y.push(b);
            }
        }
        if *name == "fmin" || *name == "fmax" {
            // Which zero they give is left open.
            for k in 0..x.len() {
                if x[k] == 0.0 && y[k] == 0.0 {
                    y[k] = 1.0;
                }
            }
        }
        check(&rig, name, true, [&x, &y], reference, *of_f32);
        check(&rig, name, false, [&x, &y], reference, *of_f64);
    }
}

#[test]
fn functions_keep_their_bounds_on_hopper() {
    check_all(&["-arch=sm_90a"]);
}
#[test]
fn functions_keep_their_bounds_on_blackwell() {
    check_all(&["-arch=sm_120"]);
}
#[test]
fn functions_keep_their_bounds_without_contraction() {
    check_all(&["-arch=sm_80", "--fmad=false"]);
}
