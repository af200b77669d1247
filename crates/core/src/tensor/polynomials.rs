//! Orthogonal polynomials of one degree, by their three-term recurrences (DLMF 18.9.1): composed, so that they have derivatives of
//! every order, also at the ends of the interval, where formulas for derivatives divide by zero. The names are those of
//! `torch.special`; the degree is a number and not a tensor, since it says how many steps there are.
use super::{
    Tensor,
    compose::{Built, compose1, refuse},
};
use crate::composite::wide::floats;

/// Beyond it a polynomial is a sum of parts that cancel, and its graph longer than any program means.
const MOST: i64 = 1024;

/// The polynomial of degree `n` by its first two and the step from k - 1 and k to k + 1. In f32 where the dtype is narrower;
/// integers are f32. Of a negative degree it is 0.
fn recurred(op: &'static str, x: &Tensor, n: i64, first: impl Fn(&Tensor) -> Tensor, step: impl Fn(f64, &Tensor, &Tensor, &Tensor) -> Tensor) -> Built<Tensor> {
    if n > MOST {
        return refuse(format!("degree {n} is above {MOST}, which {op} goes to"));
    }
    let given = x.meta().dtype;
    let dtype = given.to_float();
    let x = &if given.is_float() { x.widened() } else { x.cast(dtype) };
    floats(&x.meta())?;
    if n < 0 {
        return Ok(x.zeros_like().cast(dtype));
    }
    let (mut before, mut this) = (x.ones_like(), first(x));
    if n == 0 {
        return Ok(before.cast(dtype));
    }
    for k in 1..n {
        let next = step(k as f64, x, &this, &before);
        before = std::mem::replace(&mut this, next);
    }
    Ok(this.cast(dtype))
}
/// Chebyshev's step, common to his four kinds.
fn chebyshev(op: &'static str, x: &Tensor, n: i64, first: impl Fn(&Tensor) -> Tensor) -> Built<Tensor> {
    recurred(op, x, n, first, |_, x, this, before| x * 2.0 * this - before)
}

macro_rules! polynomials {
    ($($(#[$doc:meta])* $name:ident($x:ident, $n:ident) => $value:expr;)*) => {
        impl Tensor { $(
            $(#[$doc])*
            ///
            /// Element-wise; floats of every width (16-bit ones are computed in f32), integers count as f32. A negative degree
            /// gives 0.
            ///
            /// # Errors
            /// In the tensor: a degree above 1024.
            #[track_caller]
            #[must_use]
            pub fn $name(&self, $n: i64) -> Tensor {
                compose1(stringify!($name), self, |$x| $value(stringify!($name)))
            }
        )* }
    };
}
polynomials! {
    /// Chebyshev's polynomial of the first kind: cos(n acos x). `torch.special.chebyshev_polynomial_t`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// // T₃ = 4x³ - 3x
    /// assert_eq!(tensor![0.5, 1.0, 2.0].chebyshev_polynomial_t(3).to_vec::<f32>()?, [-1.0, 1.0, 26.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    chebyshev_polynomial_t(x, n) => |op| chebyshev(op, x, n, Tensor::clone);
    /// Chebyshev's polynomial of the second kind: sin((n + 1) t) / sin t of t = acos x. `torch.special.chebyshev_polynomial_u`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(tensor![0.5, 1.0].chebyshev_polynomial_u(2).to_vec::<f32>()?, [0.0, 3.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    chebyshev_polynomial_u(x, n) => |op| chebyshev(op, x, n, |x| x * 2.0);
    /// Chebyshev's polynomial of the third kind, which begins 1, 2x - 1. `torch.special.chebyshev_polynomial_v`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(tensor![0.5, 1.0].chebyshev_polynomial_v(2).to_vec::<f32>()?, [-1.0, 1.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    chebyshev_polynomial_v(x, n) => |op| chebyshev(op, x, n, |x| x * 2.0 - 1.0);
    /// Chebyshev's polynomial of the fourth kind, which begins 1, 2x + 1. `torch.special.chebyshev_polynomial_w`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(tensor![0.5, 1.0].chebyshev_polynomial_w(2).to_vec::<f32>()?, [1.0, 5.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    chebyshev_polynomial_w(x, n) => |op| chebyshev(op, x, n, |x| x * 2.0 + 1.0);
    /// [`Tensor::chebyshev_polynomial_t`] of 2x - 1: on [0, 1]. `torch.special.shifted_chebyshev_polynomial_t`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(tensor![0.0, 0.75].shifted_chebyshev_polynomial_t(2).to_vec::<f32>()?, [1.0, -0.5]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    shifted_chebyshev_polynomial_t(x, n) => |op| shifted(x, |x| chebyshev(op, x, n, Tensor::clone));
    /// [`Tensor::chebyshev_polynomial_u`] of 2x - 1. `torch.special.shifted_chebyshev_polynomial_u`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(tensor![0.75, 1.0].shifted_chebyshev_polynomial_u(2).to_vec::<f32>()?, [0.0, 3.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    shifted_chebyshev_polynomial_u(x, n) => |op| shifted(x, |x| chebyshev(op, x, n, |x| x * 2.0));
    /// [`Tensor::chebyshev_polynomial_v`] of 2x - 1. `torch.special.shifted_chebyshev_polynomial_v`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(tensor![0.75, 1.0].shifted_chebyshev_polynomial_v(2).to_vec::<f32>()?, [-1.0, 1.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    shifted_chebyshev_polynomial_v(x, n) => |op| shifted(x, |x| chebyshev(op, x, n, |x| x * 2.0 - 1.0));
    /// [`Tensor::chebyshev_polynomial_w`] of 2x - 1. `torch.special.shifted_chebyshev_polynomial_w`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(tensor![0.75, 1.0].shifted_chebyshev_polynomial_w(2).to_vec::<f32>()?, [1.0, 5.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    shifted_chebyshev_polynomial_w(x, n) => |op| shifted(x, |x| chebyshev(op, x, n, |x| x * 2.0 + 1.0));
    /// The physicists' Hermite polynomial, orthogonal under exp(-x²). `torch.special.hermite_polynomial_h`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// // H₂ = 4x² - 2
    /// assert_eq!(tensor![0.5, 1.0].hermite_polynomial_h(2).to_vec::<f32>()?, [-1.0, 2.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    hermite_polynomial_h(x, n) => |op| recurred(op, x, n, |x| x * 2.0, |k, x, this, before| (x * this - before * k) * 2.0);
    /// The probabilists' Hermite polynomial, orthogonal under exp(-x²/2). `torch.special.hermite_polynomial_he`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(tensor![0.5, 2.0].hermite_polynomial_he(2).to_vec::<f32>()?, [-0.75, 3.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    hermite_polynomial_he(x, n) => |op| recurred(op, x, n, Tensor::clone, |k, x, this, before| x * this - before * k);
    /// Laguerre's polynomial, orthogonal under exp(-x) right of 0. `torch.special.laguerre_polynomial_l`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// // L₂ = (x² - 4x + 2) / 2
    /// assert_eq!(tensor![0.0, 2.0].laguerre_polynomial_l(2).to_vec::<f32>()?, [1.0, -1.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    laguerre_polynomial_l(x, n) => |op| recurred(op, x, n, |x| 1.0 - x, |k, x, this, before| ((2.0 * k + 1.0 - x) * this - before * k) / (k + 1.0));
    /// Legendre's polynomial, orthogonal on [-1, 1]. `torch.special.legendre_polynomial_p`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// // P₂ = (3x² - 1) / 2
    /// assert_eq!(tensor![0.0, 1.0, 3.0].legendre_polynomial_p(2).to_vec::<f32>()?, [-0.5, 1.0, 13.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    legendre_polynomial_p(x, n) => |op| recurred(op, x, n, Tensor::clone, |k, x, this, before| (x * (2.0 * k + 1.0) * this - before * k) / (k + 1.0));
}
/// Of 2x - 1, computed no narrower than the polynomial is.
fn shifted(x: &Tensor, f: impl FnOnce(&Tensor) -> Built<Tensor>) -> Built<Tensor> {
    let dtype = x.meta().dtype.to_float();
    let wide = if x.meta().dtype.is_float() { x.widened() } else { x.cast(dtype) };
    Ok(f(&(wide * 2.0 - 1.0))?.cast(dtype))
}

impl Tensor {
    /// The logarithm of the multivariate gamma function of dimension `p`: `p (p - 1) / 4 · ln π + Σ lgamma(x - i/2)` over i from 0 to
    /// p - 1. For x above (p - 1)/2; below, it is what the sum is there.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// # Device::reference().make_current();
    /// // Γ₂(1.5) = π^(1/2) Γ(1.5) Γ(1) = π / 2
    /// let y = tensor![1.5].multigammaln(2).item::<f32>()?;
    /// assert!((y - std::f32::consts::FRAC_PI_2.ln()).abs() < 1e-6);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: a dimension of 0, or above 1024. Source: `torch.special.multigammaln`.
    #[doc(alias = "mvlgamma")]
    #[track_caller]
    #[must_use]
    pub fn multigammaln(&self, p: usize) -> Tensor {
        compose1("multigammaln", self, |x| {
            if p == 0 || p > MOST as usize {
                return refuse(format!("dimension {p} is not one of 1 to {MOST}"));
            }
            let dtype = x.meta().dtype.to_float();
            let x = if x.meta().dtype.is_float() { x.widened() } else { x.cast(dtype) };
            let sum = (1..p).fold(x.lgamma(), |sum, i| sum + (&x - 0.5 * i as f64).lgamma());
            Ok((sum + (p * (p - 1)) as f64 * 0.25 * std::f64::consts::PI.ln()).cast(dtype))
        })
    }
}
