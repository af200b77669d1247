//! Gradient clipping. Nothing is clipped unless it is asked for.
use adamant_core::{DType, Device, Error, ErrorKind, Grads, Result, Tensor, composite::wide::wide, is_capturing};
use adamant_nn::Param;

mod clipper;
mod history;
mod measure;
pub use clipper::{Clipped, ClippingOptions, ClippingType, GradientClipper};
pub use measure::GradientMeasure;

#[track_caller]
fn positive(called: &'static str, limit: f64) -> Result<()> {
    if limit > 0.0 {
        Ok(())
    } else {
        Err(Error::new(called, ErrorKind::Argument(format!("gradients cannot be clipped at {limit}, only at a positive number"))))
    }
}
/// How [`clip_grad_norm`] measures and limits gradients. A number alone is the limit of their Euclidean norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipNorm {
    /// the largest norm
    pub max: f64,
    /// the order of the norm: 2 is Euclid's, infinity the largest element
    pub norm_type: f64,
    /// Is a norm that is not finite an error? To know it, the norm is read.
    pub error_if_nonfinite: bool,
}
impl From<f64> for ClipNorm {
    fn from(max: f64) -> ClipNorm {
        ClipNorm { max, norm_type: 2.0, error_if_nonfinite: false }
    }
}
/// The norm of all tensors together, as if they were one vector: a 0-d tensor on the first one's device, 0 of none (as
/// `torch.nn.utils.get_total_norm`). `norm_type` is its order, which may be infinite.
///
/// ```
/// # use adamant_core::Tensor;
/// # adamant_core::Device::reference().make_current();
/// let (a, b) = (Tensor::from_vec(vec![3.0f32], [1]), Tensor::from_vec(vec![0.0f32, -4.0], [2]));
/// assert_eq!(adamant_optim::get_total_norm([&a, &b], 2.0, true)?.item::<f32>()?, 5.0);
/// assert_eq!(adamant_optim::get_total_norm([&a, &b], f64::INFINITY, true)?.item::<f32>()?, 4.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A tensor that carries an error. With `error_if_nonfinite`: a norm that is infinite or NaN (`Domain`), and a call in a function that is
/// being captured, where it cannot be read.
#[track_caller]
pub fn get_total_norm<'t>(tensors: impl IntoIterator<Item = &'t Tensor>, norm_type: f64, error_if_nonfinite: bool) -> Result<Tensor> {
    let tensors: Vec<&Tensor> = tensors.into_iter().collect();
    let total = total_norm(&tensors, norm_type)?;
    let told = total.norm.cast(total.dtype).ok()?;
    if error_if_nonfinite {
        finite(&told, norm_type)?;
    }
    Ok(told)
}
/// A norm as it was computed, and the dtype in which it is told: f32, unless something that it is of is wider.
struct TotalNorm {
    norm: Tensor,
    dtype: DType,
}
/// The norm, in f64 where devices have it: that of finite numbers is finite.
#[track_caller]
fn total_norm(tensors: &[&Tensor], norm_type: f64) -> Result<TotalNorm> {
    if norm_type.is_nan() {
        return Err(Error::new("get_total_norm", ErrorKind::Argument("a norm has an order, which is no NaN".into())));
    }
    let metas = tensors.iter().map(|g| g.try_meta()).collect::<Result<Vec<_>>>()?;
    let Some(first) = metas.first() else {
        return Ok(TotalNorm { norm: Tensor::from_vec_on(vec![0f32], (), Device::reference()).ok()?, dtype: DType::F32 });
    };
    let dtype = if metas.iter().any(|m| m.dtype == DType::F64) { DType::F64 } else { DType::F32 };
    // Squares of all narrower floats are numbers of f64, and so is the sum of as many as there can be.
    if norm_type == 2.0 && metas.iter().all(|m| m.dtype != DType::F64 && m.dtype.is_float() && m.device.widest_float() == DType::F64) {
        let squares = tensors.iter().map(|g| g.cast(DType::F64).square().sum(..).to(first.device));
        let sum = squares.reduce(|a, b| a + b).unwrap_or_else(|| Tensor::scalar(0f64));
        return Ok(TotalNorm { norm: sum.sqrt().ok()?, dtype });
    }
    // The norm of the norms, in the order of the tensors.
    let norms = tensors
        .iter()
        .zip(&metas)
        .map(|(g, m)| g.cast(if m.dtype.is_float() { m.device.widest_float() } else { m.dtype }).vector_norm(norm_type, ..).to(first.device).ok());
    let norm = Tensor::stack(&norms.collect::<Result<Vec<_>>>()?, 0).vector_norm(norm_type, ..).ok()?;
    Ok(TotalNorm { norm, dtype })
}
#[track_caller]
fn finite(total: &Tensor, norm_type: f64) -> Result<()> {
    if is_capturing() {
        return Err(Error::new("get_total_norm", ErrorKind::Argument("a function that is being captured cannot ask whether the norm is finite".into()))
            .hint("hold the step back by `step_when(norm.isfinite())` there, which asks nobody"));
    }
    match total.to_vec_as::<f64>()?.first() {
        Some(norm) if !norm.is_finite() => Err(Error::new(
            "get_total_norm",
            ErrorKind::Domain(format!("the norm of order {norm_type} of the gradients is {norm}: they cannot be scaled by it")),
        )
        .hint("look for the loss that overflowed, or set `error_if_nonfinite` to false to scale by it anyway")),
        _ => Ok(()),
    }
}
/// Scales all gradients by min(1, max / (norm + 1e-6)), as `torch.nn.utils.clip_grad_norm_`; returns the norm before, a 0-d tensor
/// that need not be read. The limit is a number, or a [`ClipNorm`] for norms of another order and for gradients that are not finite.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module, Walk};
/// # use adamant_optim::{ClipNorm, clip_grad_norm};
/// # adamant_core::Device::reference().make_current();
/// let model = Linear::new(3, 2)?;
/// let mut grads = model.forward(&Tensor::full([1, 3], 7.0, adamant_core::DType::F32))?.sum(..).backward()?;
/// let largest = clip_grad_norm(&mut grads, &model.parameters(), ClipNorm { norm_type: f64::INFINITY, ..0.5.into() })?;
/// assert_eq!(largest.item::<f32>()?, 7.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A limit that is not positive; no gradient at all; those of [`get_total_norm`].
#[track_caller]
pub fn clip_grad_norm(grads: &mut Grads, parameters: &[Param], limit: impl Into<ClipNorm>) -> Result<Tensor> {
    let ClipNorm { max, norm_type, error_if_nonfinite } = limit.into();
    positive("clip_grad_norm", max)?;
    let cells: Vec<_> = parameters.iter().map(Param::cell).collect();
    if !cells.iter().any(|cell| grads.of(cell).is_some()) {
        return Err(Error::new("clip_grad_norm", ErrorKind::Argument("none of the parameters has a gradient".into())));
    }
    let all: Vec<&Tensor> = cells.iter().filter_map(|cell| grads.of(cell)).collect();
    let total = total_norm(&all, norm_type)?;
    if error_if_nonfinite {
        finite(&total.norm, norm_type)?;
    }
    // By the norm as it is computed: rounded to f32 it may be infinite.
    clip_grads_with_norm(grads, parameters, max, &total.norm)?;
    total.norm.cast(total.dtype).ok()
}
/// Scales all gradients by min(1, max / (norm + 1e-6)) with a norm that is known: of more parameters than these, or of all ranks (as
/// `torch.nn.utils.clip_grads_with_norm_`).
///
/// # Errors
/// A limit that is not positive; a norm that carries an error or has axes.
#[track_caller]
pub fn clip_grads_with_norm(grads: &mut Grads, parameters: &[Param], max: f64, norm: &Tensor) -> Result<()> {
    positive("clip_grads_with_norm", max)?;
    if norm.shape()?.rank() != 0 {
        return Err(Error::new("clip_grads_with_norm", ErrorKind::Argument(format!("a norm is a single number, not a tensor of shape {}", norm.shape()?))));
    }
    // min(1, r) as -max(-1, -r)
    let scale = (norm + 1e-6).binary_reversed(adamant_core::scalar::Binary::Div, max).neg().maximum(-1.0).neg();
    scale_gradients(grads, parameters, &scale)
}
/// Multiplies gradients by a 0-d tensor.
#[track_caller]
fn scale_gradients(grads: &mut Grads, parameters: &[Param], scale: &Tensor) -> Result<()> {
    for p in parameters {
        if let Some(g) = grads.of(&p.cell()) {
            let meta = g.try_meta()?;
            // In 16 bits a scale may be nothing.
            let dtype = wide(meta.dtype);
            let clipped = (g.cast(dtype) * scale.to(meta.device).cast(dtype)).cast(meta.dtype).ok()?;
            grads.set(&p.cell(), clipped);
        }
    }
    Ok(())
}
/// Cuts every element off at ± `max`.
///
/// # Errors
/// A limit that is not positive.
#[track_caller]
pub fn clip_grad_value(grads: &mut Grads, parameters: &[Param], max: f64) -> Result<()> {
    positive("clip_grad_value", max)?;
    for p in parameters {
        if let Some(g) = grads.of(&p.cell()) {
            let clipped = g.maximum(-max).neg().maximum(-max).neg().ok()?;
            grads.set(&p.cell(), clipped);
        }
    }
    Ok(())
}
