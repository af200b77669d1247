//! Discrete Fourier transforms. Their body is made of matrix products: a transform of length `n = p q` is done as q transforms of
//! length p, a twist, and p of length q (Cooley and Tukey, 1965), down to lengths that are done as a product with the matrix of
//! roots of unity. So it runs on every device; a device may have a faster one. A transform is linear, and its gradient is the
//! transform with the other sign.
use super::{Compound, RuleArgs, Saves, StackedInput, of_first};
use crate::{DType, Device, Meta, Result, Tensor, composite::Cotangents};
pub use adamant_ir::composite::fourier::*;
use smallvec::smallvec;

/// Lengths up to this are done as one matrix product.
const DIRECT: usize = 64;

/// Real and imaginary parts.
#[derive(Clone)]
struct ComplexParts {
    re: Tensor,
    im: Tensor,
}
impl ComplexParts {
    fn of(x: &Tensor) -> ComplexParts {
        ComplexParts { re: x.select(-1, 0), im: x.select(-1, 1) }
    }
    fn joined(self) -> Tensor {
        Tensor::stack(&[self.re, self.im], -1)
    }
    fn map(&self, f: impl Fn(&Tensor) -> Tensor) -> ComplexParts {
        ComplexParts { re: f(&self.re), im: f(&self.im) }
    }
    fn times(&self, other: &ComplexParts) -> ComplexParts {
        ComplexParts { re: &self.re * &other.re - &self.im * &other.im, im: &self.re * &other.im + &self.im * &other.re }
    }
    /// The product of rows with a matrix.
    fn matmul(&self, m: &ComplexParts) -> ComplexParts {
        ComplexParts { re: self.re.matmul(&m.re) - self.im.matmul(&m.im), im: self.re.matmul(&m.im) + self.im.matmul(&m.re) }
    }
}

/// `exp(±2πi j k / n)` for all j < rows, k < columns.
fn roots(rows: usize, columns: usize, n: usize, inverse: bool, dtype: DType, device: Device) -> ComplexParts {
    let sign = if inverse { 1.0 } else { -1.0 };
    // The exponent is reduced modulo n in integers, so that large ones lose nothing.
    let angle = |j: usize, k: usize| sign * std::f64::consts::TAU * ((j * k) % n) as f64 / n as f64;
    let table = |f: fn(f64) -> f64| {
        let all: Vec<f64> = (0..rows).flat_map(|j| (0..columns).map(move |k| f(angle(j, k)))).collect();
        numbers(all, &[rows, columns], dtype, device)
    };
    ComplexParts { re: table(f64::cos), im: table(f64::sin) }
}
fn numbers(all: Vec<f64>, shape: &[usize], dtype: DType, device: Device) -> Tensor {
    match dtype {
        DType::F64 => Tensor::from_vec_on(all, shape, device),
        _ => Tensor::from_vec_on(all.into_iter().map(|v| v as f32).collect(), shape, device),
    }
}
/// The largest divisor of n up to [`DIRECT`], or n itself if it is small or prime.
fn divisor(n: usize) -> usize {
    if n <= DIRECT { n } else { (2..=DIRECT).rev().find(|d| n % d == 0).unwrap_or(n) }
}
/// The transform of the rows of `[rows, n]`.
fn transform(x: &ComplexParts, rows: usize, n: usize, inverse: bool) -> ComplexParts {
    let meta = x.re.meta();
    let p = divisor(n);
    if p == n {
        return x.matmul(&roots(n, n, n, inverse, meta.dtype, meta.device));
    }
    // j = q j1 + j2, k = k1 + p k2: over j1, the twist, then over j2.
    let q = n / p;
    let columns = x.map(|t| t.reshape([rows, p, q]).mt().reshape([rows * q, p]));
    let first = transform(&columns, rows * q, p, inverse).map(|t| t.reshape([rows, q, p]));
    let twisted = first.times(&roots(q, p, n, inverse, meta.dtype, meta.device));
    let second = transform(&twisted.map(|t| t.mt().reshape([rows * p, q])), rows * p, q, inverse);
    second.map(|t| t.reshape([rows, p, q]).mt().reshape([rows, n]))
}
/// How often each point of the first half counts among all: twice, but for the first and the middle one, whose imaginary parts
/// do not count at all. Times `factor`, or `factor` by them.
fn counts(n: usize, m: &Meta, of: impl Fn(f64) -> f64) -> Tensor {
    let half = n / 2 + 1;
    let single = |k: usize| k == 0 || 2 * k == n;
    let all = (0..half).flat_map(|k| if single(k) { [of(1.0), 0.0] } else { [of(2.0), of(2.0)] }).collect();
    numbers(all, &[half, 2], m.dtype, m.device)
}

impl Compound for Fourier {
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (x, n) = (&inputs[0], self.n);
        let shape = x.meta().shape;
        let points = |t: &Tensor| -> usize { t.meta().shape.elements() / n };
        let flat = |t: &Tensor| t.reshape([points(t), n]);
        let parts = match self.kind {
            FourierKind::Complex => ComplexParts::of(x).map(flat),
            FourierKind::RealToHalf => ComplexParts { re: flat(x), im: flat(&x.detach().zeros_like()) },
            FourierKind::HalfToReal => {
                let half = ComplexParts::of(x);
                let mirror = (n - 1) / 2;
                let back = |t: &Tensor| t.narrow(-1, 1, mirror).flip(-1);
                let own = |t: &Tensor| {
                    let inner = t.narrow(-1, 1, mirror).pad_constant([1, (n / 2 - mirror) as isize], 0);
                    Tensor::cat(&[inner, back(t).neg()], -1)
                };
                ComplexParts { re: flat(&Tensor::cat(&[half.re.clone(), back(&half.re)], -1)), im: flat(&own(&half.im)) }
            }
        };
        let rows = parts.re.meta().shape[0];
        let y = transform(&parts, rows, n, self.inverse).map(|t| if self.scale == 1.0 { t.clone() } else { t * self.scale });
        let lead = shape.split_at(shape.rank() - if self.kind == FourierKind::RealToHalf { 1 } else { 2 }).0;
        let to = |t: &Tensor, last: usize| t.narrow(-1, 0, last).reshape(lead.iter().copied().chain([last]).collect::<Vec<_>>());
        Ok(vec![match self.kind {
            FourierKind::Complex => y.map(|t| to(t, n)).joined(),
            FourierKind::RealToHalf => y.map(|t| to(t, n / 2 + 1)).joined(),
            FourierKind::HalfToReal => to(&y.re, n),
        }])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::inputs(0))
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let Some(g) = &args.cotangents[0] else { return Ok(smallvec![None]) };
        let back = |kind, g: &Tensor| Tensor::composite1(Fourier { kind, inverse: !self.inverse, ..*self }, &[g]);
        let m = g.meta();
        Ok(smallvec![Some(match self.kind {
            FourierKind::Complex => back(FourierKind::Complex, g),
            FourierKind::RealToHalf => back(FourierKind::HalfToReal, &(g * counts(self.n, &m, f64::recip))),
            FourierKind::HalfToReal => back(FourierKind::RealToHalf, g) * counts(self.n, &m, |count| count),
        })])
    }
    fn stacked(&self, inputs: &[StackedInput], _: usize) -> Option<Result<Vec<Tensor>>> {
        of_first(*self, inputs)
    }
}
