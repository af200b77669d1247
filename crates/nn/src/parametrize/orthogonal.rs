//! A matrix, or a batch of them, that stays orthogonal.
use super::{Parametrization, register_parametrization};
use crate::{Module, Param, Walk, init};
use adamant_core::{DType, Error, ErrorKind, Result, Tensor};

/// By which function of free numbers a matrix is orthogonal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrthogonalMap {
    /// the exponential of a skew-symmetric matrix
    MatrixExp,
    /// (I + A/2) (I - A/2)⁻¹ of a skew-symmetric matrix A
    Cayley,
    /// a product of Householder reflections
    Householder,
}
/// Options of [`orthogonal`]; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct OrthogonalOptions {
    /// `None`: the exponential for square matrices, reflections for others
    pub map: Option<OrthogonalMap>,
    /// Is the value a fixed matrix, `base`, times what the function gives? Then training starts at the given weight, and near
    /// zero (Lezcano-Casado 2019).
    pub use_trivialization: bool,
}
impl Default for OrthogonalOptions {
    fn default() -> OrthogonalOptions {
        OrthogonalOptions { map: None, use_trivialization: true }
    }
}
/// An orthogonal matrix as a function of one without a constraint: QᵀQ = I, or QQᵀ = I where there are fewer rows than columns.
/// Of more than two axes the last two are those of the matrices.
#[derive(Clone, Module)]
pub struct Orthogonal {
    base: Option<Param>,
    #[module(skip)]
    map: OrthogonalMap,
}
impl Orthogonal {
    /// For weights like this one.
    ///
    /// # Errors
    /// Fewer than two axes.
    #[track_caller]
    pub fn new(weight: &Tensor, options: OrthogonalOptions) -> Result<Orthogonal> {
        let shape = weight.shape()?;
        if shape.rank() < 2 {
            return Err(Error::new("orthogonal", ErrorKind::Shape { shape, expected: "a matrix or a batch of matrices".into() }));
        }
        let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
        let mut square = shape.to_vec();
        square[shape.rank() - 2..].fill(m.max(n));
        let base = Tensor::full_on(square, 0.0, weight.dtype()?, weight.device()?);
        let base = if options.use_trivialization { Some(Param::buffer(&base)?) } else { None };
        let map = options.map.unwrap_or(if m == n { OrthogonalMap::MatrixExp } else { OrthogonalMap::Householder });
        Ok(Orthogonal { base, map })
    }
}
/// A matrix with at least as many rows as columns, and their numbers; was it transposed for that?
#[track_caller]
fn tall(x: &Tensor) -> Result<(Tensor, usize, usize, bool)> {
    let shape = x.shape()?;
    let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    if m < n { Ok((x.mt(), n, m, true)) } else { Ok((x.clone(), m, n, false)) }
}
#[track_caller]
fn identity(n: usize, like: &Tensor) -> Result<Tensor> {
    Tensor::eye_on(n, n, like.dtype()?, like.device()?).ok()
}
impl Parametrization for Orthogonal {
    fn forward(&self, originals: &[Tensor]) -> Result<Tensor> {
        let [x] = originals else {
            return Err(Error::new("orthogonal", ErrorKind::Argument(format!("it is computed from one tensor, not {}", originals.len()))));
        };
        let (x, n, k, transposed) = tall(x)?;
        let q = match self.map {
            OrthogonalMap::Householder => reflections(&x, n, k)?,
            map => {
                let lower = x.tril(0);
                let square = if n == k { lower } else { lower.pad_constant([0isize, (n - k) as isize], 0.0) };
                let skew = &square - square.mt();
                let q = if map == OrthogonalMap::MatrixExp {
                    matrix_exp(&skew, n)?
                } else {
                    let (one, half) = (identity(n, &skew)?, &skew * 0.5);
                    (&one - &half).solve(&(&one + &half))
                };
                if n == k { q } else { q.narrow(-1, 0, k) }
            }
        };
        let q = match &self.base {
            Some(base) => base.detached().matmul(q),
            None => q,
        };
        (if transposed { q.mt() } else { q }).ok()
    }
    fn right_inverse(&self, value: &Tensor) -> Result<Vec<Tensor>> {
        let Some(base) = &self.base else {
            return match self.map {
                OrthogonalMap::Householder => {
                    Err(Error::new("orthogonal", ErrorKind::Argument("reflections without a base cannot be found for a given matrix".into()))
                        .hint("use_trivialization: true"))
                }
                // As in PyTorch: the numbers are taken as they are.
                _ => Ok(vec![value.clone()]),
            };
        };
        let (q, n, k, _) = tall(value)?;
        let full = if n == k {
            if is_orthogonal(&q, n)? { q } else { made_orthogonal(&q)? }
        } else {
            let mut rest = q.shape()?.to_vec();
            if let Some(last) = rest.last_mut() {
                *last = n - k;
            }
            let drawn = init::normal(rest, 0.0, 1.0)?.cast(q.dtype()?).to(q.device()?);
            made_orthogonal(&Tensor::cat(&[q, drawn], -1))?
        };
        base.set(&full)?;
        // The map of minus the identity is the identity, of every kind: its lower triangle is symmetric, and it holds the signs.
        let shape = value.shape()?;
        let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
        let one = Tensor::eye_on(m, n, value.dtype()?, value.device()?);
        Ok(vec![(-one).expand(shape).ok()?])
    }
}
#[track_caller]
fn is_orthogonal(q: &Tensor, n: usize) -> Result<bool> {
    let eps = if q.dtype()? == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
    let apart = (q.mt().matmul(q) - identity(n, q)?).abs().amax(..).cast(DType::F32).item::<f32>()?;
    Ok(f64::from(apart) <= 10.0 * n as f64 * eps + 1e-5)
}
/// The first factor of A = QR where R has a positive diagonal.
#[track_caller]
fn made_orthogonal(a: &Tensor) -> Result<Tensor> {
    let (q, r) = a.qr();
    (q * r.diagonal(0, -2, -1).sign().unsqueeze(-2)).ok()
}
/// The first k columns of H₁ H₂ .. Hₖ, whose vectors are the columns below the diagonal, by the compact form I - V T Vᵀ (Schreiber
/// and Van Loan 1989), where T⁻¹ = diag(1/τ) + the strict upper triangle of VᵀV (Joffrain et al. 2006). The diagonal holds signs,
/// which are not trained.
#[track_caller]
fn reflections(x: &Tensor, n: usize, k: usize) -> Result<Tensor> {
    let below = x.tril(-1);
    let eye = Tensor::eye_on(n, k, x.dtype()?, x.device()?);
    let v = &below + &eye;
    let over_tau = (below.square().sum(-2) + 1.0) * 0.5;
    let inverse = v.mt().matmul(&v).triu(1) + identity(k, x)? * over_tau.unsqueeze(-1);
    let head = v.narrow(-2, 0, k).mt();
    let q = eye - v.matmul(inverse.solve_triangular(&head, true, false));
    (q * x.detach().diagonal(0, -2, -1).trunc().unsqueeze(-2)).ok()
}
/// The exponential by scaling and squaring (Moler and Van Loan 2003): halved until its norm is at most 1/2, of a Taylor polynomial
/// of degree 14, which is exact to 2e-17 there, squared as often. How often is decided on the device, up to 12 times.
#[track_caller]
fn matrix_exp(a: &Tensor, n: usize) -> Result<Tensor> {
    const MOST: usize = 12;
    let norm = a.detach().abs().sum(-2).amax(-1).unsqueeze(-1).unsqueeze(-1);
    let (mut scaled, mut times) = (a.clone(), Vec::with_capacity(MOST));
    for k in 0..MOST {
        let halve = norm.gt(0.5 * 2f64.powi(k as i32));
        scaled = halve.where_(&scaled * 0.5, &scaled);
        times.push(halve);
    }
    let one = identity(n, a)?;
    let mut exp = one.clone();
    for degree in (1..=14).rev() {
        exp = &one + scaled.matmul(&exp) * (1.0 / degree as f64);
    }
    for square in times {
        exp = square.where_(exp.matmul(&exp), &exp);
    }
    exp.ok()
}
/// Has a matrix be orthogonal. What it is at first: the given weight, if that is orthogonal, or else its factor Q.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Walk, parametrize::{OrthogonalOptions, orthogonal}};
/// # adamant_core::Device::reference().make_current();
/// let layer = Linear::new(3, 5)?;
/// orthogonal(&layer, "weight", OrthogonalOptions::default())?;
/// let q = layer.weight.detached();
/// assert!((q.transpose(0, 1).matmul(&q) - Tensor::eye(3)).abs().amax(..).item::<f32>()? < 1e-5);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// As [`register_parametrization`]; fewer than two axes.
///
/// Source: `torch.nn.utils.parametrizations.orthogonal`.
#[track_caller]
pub fn orthogonal(module: &(impl Walk + ?Sized), name: &str, options: OrthogonalOptions) -> Result<()> {
    let weight = super::find(module, name, "orthogonal")?.detached();
    register_parametrization(module, name, Orthogonal::new(&weight, options)?)
}
