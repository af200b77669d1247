//! Which kinds of bad numbers tensors hold, and what stands in their places, as ops.
use crate::NanOptions;
use adamant_core::{DType, Device, Tensor, composite::finite::AllFinite, composite::wide::wide};

/// Is there NaN, an infinity, an overflow, an explosion of all gradients? Bools of no axes; a kind that is not looked for is none.
#[derive(Clone, Default)]
pub(crate) struct BadKinds {
    pub nan: Option<Tensor>,
    pub inf: Option<Tensor>,
    pub overflow: Option<Tensor>,
    pub explosion: Option<Tensor>,
}
/// How steady a step, or some of them, was: 1 less 0.3 for NaN, 0.2 for infinities, 0.1 for overflows, and a tenth of the share of the gradients' norm that
/// was clipped away, from 0 to 1.
///
/// ```
/// # use adamant_stability::stability_score;
/// assert_eq!(stability_score([false; 3], 0.0), 1.0);
/// assert_eq!(stability_score([true, false, false], 0.5), 1.0 - 0.3 - 0.05);
/// ```
pub fn stability_score([nan, inf, overflow]: [bool; 3], clipped: f64) -> f64 {
    let kinds: f64 = [(nan, 0.3), (inf, 0.2), (overflow, 0.1)].into_iter().filter(|(is, _)| *is).map(|(_, weight)| weight).sum();
    1.0 - kinds - 0.1 * clipped
}
/// Either of two that may be missing.
fn either(a: Option<Tensor>, b: Option<Tensor>) -> Option<Tensor> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.logical_or(&b)),
        (one, None) | (None, one) => one,
    }
}
impl BadKinds {
    pub fn or(self, other: BadKinds) -> BadKinds {
        BadKinds {
            nan: either(self.nan, other.nan),
            inf: either(self.inf, other.inf),
            overflow: either(self.overflow, other.overflow),
            explosion: either(self.explosion, other.explosion),
        }
    }
    /// Those of a step that is applied: one that is not is none's affair.
    pub fn where_applied(self, applied: Option<&Tensor>) -> BadKinds {
        let Some(applied) = applied else { return self };
        let only = |kind: Option<Tensor>| kind.map(|bad| bad.logical_and(applied));
        BadKinds { nan: only(self.nan), inf: only(self.inf), overflow: only(self.overflow), explosion: only(self.explosion) }
    }
    /// Is there any of them?
    pub fn any(&self) -> Option<Tensor> {
        either(self.not_finite(), either(self.overflow.clone(), self.explosion.clone()))
    }
    /// Is there NaN or an infinity?
    pub fn not_finite(&self) -> Option<Tensor> {
        either(self.nan.clone(), self.inf.clone())
    }
    /// What a tensor holds, told on a device: no single one explodes.
    pub fn of(x: &Tensor, options: &NanOptions, device: Device) -> BadKinds {
        let x = x.detach();
        let there = |is: bool, bad: &dyn Fn() -> Tensor| is.then(|| bad().any(..).to(device));
        BadKinds {
            nan: there(options.detect_nan, &|| x.isnan()),
            inf: there(options.detect_inf, &|| x.isinf()),
            overflow: there(options.detect_overflow, &|| overflows(&x, options.overflow_threshold)),
            explosion: None,
        }
    }
}
/// Is a tensor free of what is bad? Where NaN and infinities are, and nothing else, one look at its exponents tells.
pub(crate) fn is_good(x: &Tensor, options: &NanOptions, device: Device) -> Tensor {
    let x = x.detach();
    let finite = || Tensor::composite1(AllFinite, &[&x]);
    let good = if looks_at_exponents(options) {
        finite()
    } else {
        BadKinds::of(&x, options, device).any().map_or_else(|| finite().logical_or(true), |bad| bad.logical_not())
    };
    good.to(device)
}
/// Is what bad numbers are told by their exponents alone?
pub(crate) fn looks_at_exponents(options: &NanOptions) -> bool {
    options.detect_nan && options.detect_inf && !options.detect_overflow
}
/// Are all elements of tensors of one shape and device finite, told on `device`? One pass over what they are made of: nothing of it need be in
/// memory for that. As in the body of [`AllFinite`], `0 * x` is NaN where `x` is not finite.
pub(crate) fn are_finite(tensors: &[Tensor], device: Device) -> Option<Tensor> {
    let widest = if tensors.iter().any(|x| x.dtype().is_ok_and(|d| d == DType::F64)) { DType::F64 } else { DType::F32 };
    let zero = tensors.iter().map(|x| x.detach().cast(widest) * 0.0).reduce(|sum, x| sum + x)?;
    Some(zero.sum(..).eq(0.0).to(device))
}
/// Finite, and beyond the threshold.
pub(crate) fn overflows(x: &Tensor, threshold: f64) -> Tensor {
    let size = x.cast(wide(x.dtype().unwrap_or(DType::F32))).abs();
    size.gt(threshold).logical_and(size.isfinite())
}
/// The tensor with each bad element replaced.
pub(crate) fn replaced(x: &Tensor, options: &NanOptions) -> Tensor {
    let Ok(dtype) = x.dtype() else { return x.clone() };
    let wide = wide(dtype);
    let largest = dtype.largest().unwrap_or(f64::MAX);
    let own = x.cast(wide);
    let sign = |size: f64| {
        let size = size.min(largest);
        own.gt(0.0).where_(own.full_like(size), own.full_like(-size))
    };
    let mut new = own.clone();
    if options.detect_overflow {
        new = overflows(x, options.overflow_threshold).where_(sign(options.overflow_replacement), &new);
    }
    if options.detect_inf {
        new = own.isinf().where_(sign(options.inf_replacement), &new);
    }
    if options.detect_nan {
        new = own.isnan().where_(own.full_like(options.nan_replacement), &new);
    }
    new.cast(dtype)
}
/// What a cell is to hold: the new number where it is finite, else the one before where that is, else a replacement.
pub(crate) fn mended(new: &Tensor, before: &Tensor, options: &NanOptions) -> Tensor {
    let all = NanOptions { detect_nan: true, detect_inf: true, detect_overflow: false, ..options.clone() };
    let old = before.isfinite().where_(before, replaced(new, &all));
    new.isfinite().where_(new, old)
}
