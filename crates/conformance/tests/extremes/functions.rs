//! The exact meaning of the scalar table's rows on finite numbers, in 320 bits. Must not know how the project computes them.
use super::{big::Big, special};
use adamant_core::scalar::{Binary, Unary};

fn big(x: f64) -> Big {
    Big::from(x)
}
/// x - tanh x, near zero by its series.
fn tanhshrink(x: &Big) -> Big {
    if x.exponent().is_some_and(|e| e < -40) {
        let square = x.square();
        return x * &square * (big(1.0) / 3.0 - &square * 2.0 / 15.0 + square.square() * 17.0 / 315.0 - square.square() * &square * 62.0 / 2835.0);
    }
    x - x.tanh()
}
pub fn sigmoid(x: &Big) -> Big {
    ((-x).exp() + 1.0).recip()
}
pub fn softplus(x: &Big) -> Big {
    if *x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() }
}
fn sinc(x: &Big) -> Big {
    if x.is_zero() { big(1.0) } else { special::sin_pi(x) / (Big::pi() * x) }
}
/// (cos πx - sinc x) / x; near zero by the first terms.
fn sinc_derivative(x: &Big) -> Big {
    if x.is_zero() {
        return x.clone();
    }
    if x.exponent().is_some_and(|e| e < -40) {
        let pi_2 = Big::pi().square();
        let u = &pi_2 * x.square();
        return -&pi_2 * x * (big(1.0) / 3.0 - &u / 30.0 + u.square() / 840.0 - u.square() * &u / 45360.0);
    }
    (special::cos_pi(x) - sinc(x)) / x
}
fn gelu_tanh(x: &Big) -> Big {
    // The constants of the definition, not the f64 that are nearest to them.
    let u = (big(2.0) / Big::pi()).sqrt() * 2.0 * x * (big(1.0) + Big::parse("0.044715") * x.square());
    x * sigmoid(&u)
}
/// -x ln x.
fn entr(x: &Big) -> Big {
    if x.is_zero() {
        x.clone()
    } else if *x < 0.0 {
        -Big::infinity()
    } else {
        -(x * x.ln())
    }
}
fn inside(x: &Big, low: f64, high: f64, f: impl FnOnce(&Big) -> Big) -> Big {
    if *x < low || *x > high { Big::nan() } else { f(x) }
}

/// The value of a row at a finite number, where the table promises one; NaN where it promises NaN or nothing. `ours` is where
/// the search for an inverse begins: its end does not depend on it.
pub fn unary(f: Unary, at: f64, ours: f64) -> Option<Big> {
    use Unary::*;
    let x = &big(at);
    let guess = if ours.is_finite() { ours } else { at };
    Some(match f {
        Square => x.square(),
        Frac => big(at - at.trunc()),
        Deg2rad => x * Big::pi() / 180.0,
        Rad2deg => x * 180.0 / Big::pi(),
        Exp => x.exp(),
        Exp2 => (x * Big::ln_2()).exp(),
        Expm1 => x.exp_m1(),
        Log => x.ln(),
        Log2 => x.ln() / Big::ln_2(),
        Log10 => x.ln() / big(10.0).ln(),
        Log1p => {
            if *x == -1.0 {
                -Big::infinity()
            } else {
                inside(x, -1.0, f64::MAX, Big::ln_1p)
            }
        }
        Sqrt => inside(x, 0.0, f64::MAX, Big::sqrt),
        Rsqrt => inside(x, 0.0, f64::MAX, |x| if x.is_zero() { Big::infinity() } else { x.sqrt().recip() }),
        Reciprocal => {
            if at == 0.0 {
                Big::nan()
            } else {
                x.recip()
            }
        }
        Sin => x.sin(),
        Cos => x.cos(),
        Tan => x.sin() / x.cos(),
        Asin => inside(x, -1.0, 1.0, Big::asin),
        Acos => inside(x, -1.0, 1.0, Big::acos),
        Atan => x.atan(),
        Sinh => {
            if x.abs() > 1e6 {
                if at > 0.0 { Big::infinity() } else { -Big::infinity() }
            } else {
                (x.exp_m1() + x.exp_m1() / x.exp()) / 2.0
            }
        }
        Cosh => {
            if x.abs() > 1e6 {
                Big::infinity()
            } else {
                (x.exp() + (-x).exp()) / 2.0
            }
        }
        Tanh => x.tanh(),
        Asinh => {
            let a = x.abs();
            // ln(a + √(a² + 1)) = ln1p(a + a²/(1 + √(a² + 1)))
            let s = (&a + a.square() / ((a.square() + 1.0).sqrt() + 1.0)).ln_1p();
            if at < 0.0 { -s } else { s }
        }
        Acosh => inside(x, 1.0, f64::MAX, |x| (x + (x.square() - 1.0).sqrt()).ln()),
        Atanh => {
            if at.abs() == 1.0 {
                if at > 0.0 { Big::infinity() } else { -Big::infinity() }
            } else {
                inside(x, -1.0, 1.0, |x| (x * 2.0 / (big(1.0) - x)).ln_1p() / 2.0)
            }
        }
        Sinc => sinc(x),
        SincDerivative => sinc_derivative(x),
        Erf => special::erf(x),
        Erfc => special::erfc(x),
        Erfcx => special::erfcx(x),
        Erfinv if at.abs() == 1.0 => big(at) * Big::infinity(),
        Erfinv => inside(x, -1.0, 1.0, |x| special::erf_inverse(x, guess)),
        Ndtr => special::ndtr(x),
        LogNdtr => special::log_ndtr(x),
        Ndtri if at == 0.0 || at == 1.0 => big(at - 0.5) * Big::infinity(),
        Ndtri => inside(x, 0.0, 1.0, |x| if *x == 0.5 { big(0.0) } else { -big(2.0).sqrt() * special::erfc_inverse(&(x * 2.0), -guess / 2f64.sqrt()) }),
        Sigmoid => sigmoid(x),
        LogSigmoid => -softplus(&-x),
        Softplus => softplus(x),
        Silu => x * sigmoid(x),
        Gelu => x * special::ndtr(x),
        GeluTanh => gelu_tanh(x),
        Mish => x * softplus(x).tanh(),
        Tanhshrink => tanhshrink(x),
        Softsign => x / (x.abs() + 1.0),
        Logit if at == 0.0 || at == 1.0 => big(at - 0.5) * Big::infinity(),
        Logit => inside(x, 0.0, 1.0, |x| (x / (big(1.0) - x)).ln()),
        Entr => entr(x),
        Lgamma => special::ln_gamma(x),
        Digamma => special::digamma(x),
        Trigamma => special::trigamma(x),
        I0 => special::bessel_i(0, x),
        I0e => special::bessel_i_scaled(0, x),
        I1 => special::bessel_i(1, x),
        I1e => special::bessel_i_scaled(1, x),
        BesselJ0 => special::bessel_j(0, x),
        BesselJ1 => special::bessel_j(1, x),
        BesselY0 => special::bessel_y(0, x),
        BesselY1 => special::bessel_y(1, x),
        _ => return None,
    })
}

/// Why a function may be farther off than the bound, and its derivative: near a root half a unit of the argument is worth more than
/// the value.
pub fn conditioned(f: Unary, at: f64) -> Option<(&'static str, Big)> {
    let x = &big(at);
    let slope = match f {
        Unary::BesselJ0 => special::bessel_j(1, x),
        Unary::BesselJ1 if at == 0.0 => big(0.5),
        Unary::BesselJ1 => special::bessel_j(0, x) - special::bessel_j(1, x) / x,
        Unary::BesselY0 => special::bessel_y(1, x),
        Unary::BesselY1 => special::bessel_y(0, x) - special::bessel_y(1, x) / x,
        // f'' = -π² sinc - 2 f' / x
        Unary::SincDerivative if at != 0.0 => Big::pi().square() * sinc(x) + sinc_derivative(x) * 2.0 / x,
        _ => return None,
    };
    Some(("beside its roots, which no float is", slope))
}

/// ln(eˣ + eʸ) from the larger one.
fn log_add(x: &Big, y: &Big) -> Big {
    let top = x.max(y);
    &top + (-(x - y).abs()).exp().ln_1p()
}
/// As [`unary`], of two finite numbers.
pub fn binary(f: Binary, left: f64, right: f64) -> Option<Big> {
    use Binary::*;
    let (x, y) = (&big(left), &big(right));
    let modulus = |quotient: Big| x - quotient * y;
    Some(match f {
        Add => x + y,
        Sub => x - y,
        Mul => x * y,
        Div => {
            if right == 0.0 {
                Big::nan()
            } else {
                x / y
            }
        }
        Pow => x.pow(y),
        Atan2 => {
            if left == 0.0 || right == 0.0 {
                big(left.atan2(right))
            } else {
                let (a, b) = (x.abs(), y.abs());
                let a = if a < b { (a / b).atan() } else { Big::pi() / 2.0 - (b / a).atan() };
                let a = if y.is_negative() { Big::pi() - a } else { a };
                if x.is_negative() { -a } else { a }
            }
        }
        Hypot => (x.square() + y.square()).sqrt(),
        Logaddexp => log_add(x, y),
        Logaddexp2 => log_add(&(x * Big::ln_2()), &(y * Big::ln_2())) / Big::ln_2(),
        Xlogy => {
            if left == 0.0 {
                big(0.0)
            } else if right < 0.0 {
                Big::nan()
            } else {
                x * y.ln()
            }
        }
        Xlog1py => {
            if left == 0.0 {
                big(0.0)
            } else if right < -1.0 {
                Big::nan()
            } else if right == -1.0 {
                x * -Big::infinity()
            } else {
                x * y.ln_1p()
            }
        }
        FloorDivide if right != 0.0 && (x / y).abs() < 1e60 => (x / y).floor(),
        Remainder if right != 0.0 && (x / y).abs() < 1e60 => modulus((x / y).floor()),
        Fmod if right != 0.0 && (x / y).abs() < 1e60 => {
            let whole = (x / y).abs().floor();
            modulus(if (x / y).is_negative() { -whole } else { whole })
        }
        Ldexp => {
            if y.abs() > 1e8 {
                return None;
            } else {
                x * (y * Big::ln_2()).exp()
            }
        }
        Igamma | Igammac => {
            if left < 1e-20 || right <= 0.0 || left > 1e4 || right > 1e5 {
                return None;
            }
            let (p, q) = special::incomplete_gamma(x, y);
            if f == Igamma { p } else { q }
        }
        Zeta => {
            if left <= 1.0 || right <= 0.0 || left > 1e4 {
                return None;
            } else {
                special::zeta(x, y)
            }
        }
        Polygamma => {
            if left <= 0.0 || !(0.0..100.0).contains(&right) || right.fract() != 0.0 {
                return None;
            } else {
                special::polygamma(x, right as u32)
            }
        }
        _ => return None,
    })
}
