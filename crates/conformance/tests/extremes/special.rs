//! Special functions of 320 bits by series, continued fractions and Euler-Maclaurin's sums; what each loses by cancellation
//! leaves far more than 128 bits. Compared with mpmath's by a test. Must not know tensors, nor how the project computes them.
use super::big::{BITS, Big};
use std::sync::OnceLock;

fn big(x: f64) -> Big {
    Big::from(x)
}
/// Is a term of a sum too small to count?
fn negligible(term: &Big, sum: &Big) -> bool {
    match (term.exponent(), sum.exponent()) {
        (None, _) => true,
        (Some(t), Some(s)) => t + (BITS as i64) < s,
        (Some(_), None) => false,
    }
}
fn sqrt_pi() -> Big {
    Big::pi().sqrt()
}

/// Below 6 by `2/√π e^(-x²) Σ 2ⁿ x^(2n+1) / (2n+1)!!` (DLMF 7.6.2), above from [`erfc`].
pub fn erf(x: &Big) -> Big {
    if x.abs() > 6.0 {
        let tail = big(1.0) - erfc(&x.abs());
        return if x.is_negative() { -tail } else { tail };
    }
    let double = x.square() * 2.0;
    let (mut term, mut sum, mut n) = (x.clone(), x.clone(), 1.0);
    while !negligible(&term, &sum) {
        n += 2.0;
        term = term * &double / n;
        sum = sum + &term;
    }
    sum * (-x.square()).exp() * 2.0 / sqrt_pi()
}
/// Above 6 by Laplace's continued fraction (DLMF 7.9.4).
pub fn erfc(x: &Big) -> Big {
    if *x <= 6.0 {
        return big(1.0) - erf(x);
    }
    if *x > 1e5 {
        return big(0.0);
    }
    (-x.square()).exp() * scaled_tail(x)
}
/// exp(x²) erfc(x) for x > 6: 1/√π · 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + ..)))).
fn scaled_tail(x: &Big) -> Big {
    let levels = if *x > 100.0 { 60 } else { 900 };
    let fraction = (1..=levels).rev().fold(x.clone(), |rest, k| x + big(f64::from(k) / 2.0) / rest);
    (fraction * sqrt_pi()).recip()
}
pub fn erfcx(x: &Big) -> Big {
    if *x > 6.0 { scaled_tail(x) } else { x.square().exp() * erfc(x) }
}
/// The distribution function of the standard normal.
pub fn ndtr(x: &Big) -> Big {
    erfc(&(-x / big(2.0).sqrt())) / 2.0
}
pub fn log_ndtr(x: &Big) -> Big {
    if *x < -8.0 {
        return (scaled_tail(&(-x / big(2.0).sqrt())) / 2.0).ln() - x.square() / 2.0;
    }
    if *x > 0.0 { (-ndtr(&-x)).ln_1p() } else { ndtr(x).ln() }
}
/// The y with erfc(y) = q, by Newton's method on the logarithm from a guess; 0 < q < 2.
pub fn erfc_inverse(q: &Big, guess: f64) -> Big {
    if *q > 1.0 {
        return -erfc_inverse(&(big(2.0) - q), -guess);
    }
    let (log, mut y) = (q.ln(), big(guess));
    for _ in 0..60 {
        let value = erfc(&y);
        let slope = -(-y.square()).exp() * 2.0 / sqrt_pi() / &value;
        let step = (value.ln() - &log) / slope;
        y = &y - &step;
        if step.is_zero() || step.exponent() < y.exponent().map(|e| e - 200) {
            break;
        }
    }
    y
}
/// The y with erf(y) = x, |x| ≤ ½, by Newton's method.
pub fn erf_inverse(x: &Big, guess: f64) -> Big {
    if x.is_zero() {
        return x.clone();
    }
    if x.abs() > 0.5 {
        let y = erfc_inverse(&(big(1.0) - x.abs()), guess.abs());
        return if x.is_negative() { -y } else { y };
    }
    let mut y = big(guess);
    for _ in 0..60 {
        let step = (erf(&y) - x) * y.square().exp() * sqrt_pi() / 2.0;
        y = &y - &step;
        if step.is_zero() || step.exponent() < y.exponent().map(|e| e - 200) {
            break;
        }
    }
    y
}

/// B₂, B₄, .. by tangent numbers (Brent and Harvey, "Fast computation of Bernoulli, tangent and secant numbers", 2011), which
/// are whole; those that 320 bits do not hold are rounded.
fn bernoulli() -> &'static [String] {
    // Big is not shared by threads; its digits are.
    static ALL: OnceLock<Vec<String>> = OnceLock::new();
    ALL.get_or_init(|| {
        let count = 60;
        let mut tangent = vec![big(0.0); count + 1];
        tangent[1] = big(1.0);
        for k in 2..=count {
            tangent[k] = &tangent[k - 1] * (k - 1) as f64;
        }
        for k in 2..=count {
            for j in k..=count {
                tangent[j] = &tangent[j - 1] * (j - k) as f64 + &tangent[j] * (j - k + 2) as f64;
            }
        }
        (1..=count)
            .map(|n| {
                let power = big(4.0).pow(&big(n as f64));
                let b = &tangent[n] * (2 * n) as f64 / (&power * (&power - 1.0));
                (if n % 2 == 0 { -b } else { b }).digits(110)
            })
            .collect()
    })
}
thread_local! {
    static BERNOULLI: Vec<Big> = bernoulli().iter().map(|b| Big::parse(b)).collect();
}
/// Where asymptotic series begin: their 50 terms end below 2^-200 there.
const FAR: f64 = 60.0;

/// ln |Γ(x)|: reflection (DLMF 5.5.3), recurrence, Stirling's series (5.11.1).
pub fn ln_gamma(x: &Big) -> Big {
    if x.is_infinite() {
        return x.abs();
    }
    if *x <= 0.0 {
        if x.is_whole() {
            return Big::infinity();
        }
        return (Big::pi() / sin_pi(x).abs()).ln() - ln_gamma(&(big(1.0) - x));
    }
    if *x == 1.0 || *x == 2.0 {
        return big(0.0);
    }
    let (mut at, mut product) = (x.clone(), big(1.0));
    while at < FAR {
        product = product * &at;
        at = at + 1.0;
    }
    let half_log = (Big::pi() * 2.0).ln() / 2.0;
    let mut sum = (&at - 0.5) * at.ln() - &at + half_log - product.ln();
    let mut power = at.recip();
    let square = at.square();
    BERNOULLI.with(|all| {
        for (k, b) in all.iter().take(50).enumerate() {
            let n = 2.0 * (k + 1) as f64;
            sum = &sum + b * &power / (n * (n - 1.0));
            power = &power / &square;
        }
    });
    sum
}
/// ψ(x): reflection, recurrence, asymptotic series (DLMF 5.11.2).
pub fn digamma(x: &Big) -> Big {
    if *x <= 0.0 {
        if x.is_whole() {
            return Big::nan();
        }
        return digamma(&(big(1.0) - x)) - Big::pi() * cos_pi(x) / sin_pi(x);
    }
    let (mut at, mut steps) = (x.clone(), big(0.0));
    while at < FAR {
        steps = steps + at.recip();
        at = at + 1.0;
    }
    let square = at.square();
    let mut sum = at.ln() - at.recip() / 2.0 - steps;
    let mut power = square.recip();
    BERNOULLI.with(|all| {
        for (k, b) in all.iter().take(50).enumerate() {
            sum = &sum - b * &power / (2.0 * (k + 1) as f64);
            power = &power / &square;
        }
    });
    sum
}
/// Hurwitz' ζ(s, q), q > 0, s > 1, by Euler and Maclaurin.
pub fn zeta(s: &Big, q: &Big) -> Big {
    let minus = -s;
    let (mut at, mut sum) = (q.clone(), big(0.0));
    while at < &big(FAR) + s {
        let term = at.pow(&minus);
        sum = sum + &term;
        if negligible(&(&term * 1e6), &sum) {
            return sum;
        }
        at = at + 1.0;
    }
    let edge = at.pow(&minus);
    sum = sum + &edge * &at / (s - 1.0) + &edge / 2.0;
    let mut factor = &edge * s / &at;
    let square = at.square();
    let mut factorial = big(2.0);
    BERNOULLI.with(|all| {
        for (k, b) in all.iter().take(50).enumerate() {
            sum = &sum + b * &factor / &factorial;
            let n = 2.0 * k as f64;
            factor = &factor * (s + (n + 1.0)) * (s + (n + 2.0)) / &square;
            factorial = &factorial * ((n + 3.0) * (n + 4.0));
        }
    });
    sum
}
pub fn trigamma(x: &Big) -> Big {
    if *x <= 0.0 {
        if x.is_whole() {
            return Big::infinity();
        }
        return (Big::pi() / sin_pi(x)).square() - trigamma(&(big(1.0) - x));
    }
    zeta(&big(2.0), x)
}
/// The n-th derivative of digamma for x > 0.
pub fn polygamma(x: &Big, n: u32) -> Big {
    if n == 0 {
        return digamma(x);
    }
    let factorial = (1..=n).fold(big(1.0), |f, k| f * f64::from(k));
    let size = factorial * zeta(&big(f64::from(n) + 1.0), x);
    if n % 2 == 0 { -size } else { size }
}
/// P and Q of the incomplete gamma functions, for moderate a > 0, x > 0: the series of one or the other (DLMF 8.7.1, 8.9.2).
pub fn incomplete_gamma(a: &Big, x: &Big) -> (Big, Big) {
    let weight = (a * x.ln() - x - ln_gamma(&(a + 1.0))).exp();
    if *x < a + 1.0 || *x < 40.0 {
        let (mut term, mut sum, mut n) = (big(1.0), big(1.0), a.clone());
        while !negligible(&term, &sum) {
            n = n + 1.0;
            term = term * x / &n;
            sum = sum + &term;
        }
        let p = weight * sum;
        return (p.clone(), big(1.0) - p);
    }
    // Lentz's method.
    let mut b = x + 1.0 - a;
    let mut d = b.recip();
    let (mut c, mut h) = (Big::from(1e300), d.clone());
    for i in 1..200_000 {
        let n = -(big(f64::from(i)) * (big(f64::from(i)) - a));
        b = b + 2.0;
        d = (&n * &d + &b).recip();
        c = &b + &n / &c;
        let step = &c * &d;
        h = h * &step;
        if (step - 1.0).exponent().is_none_or(|e| e < -220) {
            break;
        }
    }
    let q = weight * a * h;
    (big(1.0) - &q, q)
}

/// sin πx, the argument reduced exactly.
pub fn sin_pi(x: &Big) -> Big {
    if x.exponent().is_some_and(|e| e > 60) {
        // An even number, if it was a float.
        return big(0.0);
    }
    let whole = (x + 0.5).floor();
    let s = (Big::pi() * (x - &whole)).sin();
    if (whole / 2.0).is_whole() { s } else { -s }
}
pub fn cos_pi(x: &Big) -> Big {
    if x.exponent().is_some_and(|e| e > 60) {
        // An even number, if it was a float.
        return big(1.0);
    }
    let whole = (x + 0.5).floor();
    let c = (Big::pi() * (x - &whole)).cos();
    if (whole / 2.0).is_whole() { c } else { -c }
}

/// Σ (sign x²/4)^k / (k! (k + order)!) and the same with harmonic numbers as factors, for Y: H_k + H_(k + order).
fn bessel_series(order: i32, x: &Big, sign: f64) -> (Big, Big) {
    let q = x.square() * (sign / 4.0);
    let (mut term, mut k) = (big(1.0), 0);
    let mut harmonic = if order == 0 { big(0.0) } else { big(1.0) };
    let (mut sum, mut with_harmonic) = (term.clone(), &harmonic * &term);
    let enough = x.abs().to_f64() as i32;
    while k < enough + 8 || !negligible(&term, &sum) {
        k += 1;
        term = term * &q / f64::from(k * (k + order));
        harmonic = harmonic + big(f64::from(k)).recip() + big(f64::from(k + order)).recip();
        sum = &sum + &term;
        with_harmonic = &with_harmonic + &harmonic * &term;
    }
    (sum, with_harmonic)
}
/// e^-|x| I(x): the power series, far out Hankel's expansion (DLMF 10.40.1).
pub fn bessel_i_scaled(order: i32, x: &Big) -> Big {
    let a = x.abs();
    let size = if a < 200.0 {
        let sum = bessel_series(order, &a, 1.0).0 * (-&a).exp();
        if order == 0 { sum } else { sum * &a / 2.0 }
    } else {
        let mu = f64::from(4 * order * order);
        let (mut term, mut sum) = (big(1.0), big(1.0));
        for k in 1..120 {
            let odd = f64::from(2 * k - 1);
            term = -term * (mu - odd * odd) / (&a * (8.0 * f64::from(k)));
            sum = sum + &term;
        }
        sum / (Big::pi() * 2.0 * &a).sqrt()
    };
    if order == 1 && x.is_negative() { -size } else { size }
}
pub fn bessel_i(order: i32, x: &Big) -> Big {
    bessel_i_scaled(order, x) * x.abs().exp()
}
/// Hankel's P and Q at x (DLMF 10.17.3): J = √(2/πx) (P cos ω - Q sin ω), Y = √(2/πx) (P sin ω + Q cos ω).
fn hankel(order: i32, x: &Big) -> (Big, Big, Big, Big) {
    let mu = f64::from(4 * order * order);
    let (mut term, mut p, mut q) = (big(1.0), big(1.0), big(0.0));
    for k in 1..(2 * x.to_f64().min(150.0) as i32) {
        let odd = f64::from(2 * k - 1);
        term = term * (mu - odd * odd) / (x * (8.0 * f64::from(k)));
        match k % 4 {
            1 => q = q + &term,
            2 => p = p - &term,
            3 => q = q - &term,
            _ => p = p + &term,
        }
    }
    // ω = x - (order/2 + 1/4) π, by sums of sine and cosine of x, whose argument is reduced exactly.
    let (s, c, root) = (x.sin(), x.cos(), big(2.0).sqrt());
    let (cos, sin) = if order == 0 { ((&c + &s) / &root, (&s - &c) / &root) } else { ((&s - &c) / &root, -(&s + &c) / &root) };
    let _ = root;
    (p, q, cos, sin)
}
/// From here on Hankel's expansion has 2^-230 and better.
const HANKEL: f64 = 90.0;
pub fn bessel_j(order: i32, x: &Big) -> Big {
    let a = x.abs();
    let value = if a < HANKEL {
        let sum = bessel_series(order, &a, -1.0).0;
        if order == 0 { sum } else { sum * &a / 2.0 }
    } else {
        let (p, q, cos, sin) = hankel(order, &a);
        (p * cos - q * sin) * (big(2.0) / (Big::pi() * &a)).sqrt()
    };
    if order == 1 && x.is_negative() { -value } else { value }
}
/// Y for x > 0 (DLMF 10.8.1 with ψ(k+1) = H_k - γ).
pub fn bessel_y(order: i32, x: &Big) -> Big {
    if x.is_zero() {
        return -Big::infinity();
    }
    if *x < 0.0 {
        return Big::nan();
    }
    if *x >= HANKEL {
        let (p, q, cos, sin) = hankel(order, x);
        return (p * sin + q * cos) * (big(2.0) / (Big::pi() * x)).sqrt();
    }
    let gamma = -digamma(&big(1.0));
    let (sum, with_harmonic) = bessel_series(order, x, -1.0);
    let log = (x / 2.0).ln() + gamma;
    if order == 0 {
        return (log * sum * 2.0 - with_harmonic) / Big::pi();
    }
    let j = &sum * x / 2.0;
    (log * j * 2.0 - x.recip() * 2.0 - with_harmonic * x / 2.0) / Big::pi()
}
