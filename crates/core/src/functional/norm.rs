//! Normalisations. Statistics of 16-bit floats are f32, and weight and bias may be f32 as well.
use crate::{
    Arg, Cell, ErrorKind, Shape, Tensor,
    composite::norm::{BatchNormInference, Norm, Over},
    op::{WindowOp, WindowSpec},
    promotion::alike,
    scope::call,
    shape::ToShape,
    tensor::{Outputs, compose::compose},
};
use smallvec::{SmallVec, smallvec};

#[track_caller]
fn norm(over: Over, eps: f64, x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Outputs {
    let mut inputs: SmallVec<[&Tensor; 3]> = smallvec![x];
    inputs.extend(weight);
    inputs.extend(bias);
    Tensor::composite(Norm { over, eps, weight: weight.is_some(), bias: bias.is_some() }, &inputs)
}
#[track_caller]
fn first(outputs: Outputs, op: &'static str) -> Tensor {
    outputs.into_iter().next().unwrap_or_else(|| Tensor::fail(op, ErrorKind::Internal("no output".into())))
}
/// How many trailing axes of x have this shape.
#[track_caller]
fn trailing(op: &'static str, x: &Tensor, normalized: impl ToShape) -> Result<usize, Tensor> {
    if x.error().is_some() {
        return Err(x.clone());
    }
    let normalized = normalized.to_shape().map_err(|k| x.refused(op, k))?;
    let shape = x.meta().shape;
    if normalized.rank() == 0 || !shape.ends_with(&normalized) {
        return Err(x.refused(
            op,
            ErrorKind::ShapeMismatch { left: shape, right: normalized, axes: None, expected: "the input's last axes must be the normalised shape" },
        ));
    }
    Ok(normalized.rank())
}

/// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axes, whose shape is `normalized_shape`.
#[track_caller]
pub fn layer_norm(x: &Tensor, normalized_shape: impl ToShape, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
    let _call = call("layer_norm");
    match trailing("layer_norm", x, normalized_shape) {
        Ok(axes) => first(norm(Over::Layer { axes }, eps, x, weight, bias), "layer_norm"),
        Err(failed) => failed,
    }
}
/// `x / sqrt(mean(x²) + eps) * weight` over the last axes, whose shape is `normalized_shape`; without `eps`, that of
/// the dtype.
#[track_caller]
pub fn rms_norm(x: &Tensor, normalized_shape: impl ToShape, weight: Option<&Tensor>, eps: Option<f64>) -> Tensor {
    let _call = call("rms_norm");
    match trailing("rms_norm", x, normalized_shape) {
        Ok(axes) => {
            let eps = eps.unwrap_or(match x.meta().dtype {
                crate::DType::F64 => f64::EPSILON,
                crate::DType::F16 => 2f64.powi(-10),
                crate::DType::BF16 => 2f64.powi(-7),
                _ => f32::EPSILON as f64,
            });
            let dtype = x.meta().dtype;
            // A weight of another dtype: both meet, and the result has that of x.
            match weight.filter(|w| w.error().is_none() && dtype.is_float() && w.meta().dtype != dtype) {
                Some(w) => match alike([x, w]) {
                    Ok([x, w]) => first(norm(Over::Rms { axes }, eps, &x, Some(&w), None), "rms_norm").cast(dtype),
                    Err(kind) => x.refused("rms_norm", kind),
                },
                None => first(norm(Over::Rms { axes }, eps, x, weight, None), "rms_norm"),
            }
        }
        Err(failed) => failed,
    }
}
/// Normalises each of `groups` groups of channels of each sample of x `[samples, channels, ..]`.
#[track_caller]
pub fn group_norm(x: &Tensor, groups: usize, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
    let _call = call("group_norm");
    first(norm(Over::Group { groups }, eps, x, weight, bias), "group_norm")
}
/// Normalises each channel of each sample of x `[samples, channels, ..]` over its spatial axes.
#[track_caller]
pub fn instance_norm(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
    let _call = call("instance_norm");
    match instances(x) {
        Ok((_, channels)) => first(norm(Over::Group { groups: channels }, eps, x, weight, bias), "instance_norm"),
        Err(failed) => failed,
    }
}
/// As [`instance_norm`], with mean and biased variance of each channel of each sample, `[samples, channels]`: what
/// running statistics are made of.
#[track_caller]
pub fn instance_norm_statistics(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> (Tensor, Tensor, Tensor) {
    let _call = call("instance_norm_statistics");
    let (samples, channels) = match instances(x) {
        Ok(sizes) => sizes,
        Err(failed) => return (failed.clone(), failed.clone(), failed),
    };
    let shape = x.meta().shape;
    let mut flat = shape.to_vec();
    flat[0] = 1;
    flat[1] = samples * channels;
    let (y, mean, var) = batch_norm_training(&x.reshape(flat), None, None, eps);
    let mut y = y.reshape(shape);
    let dtype = y.dtype().unwrap_or(x.meta().dtype);
    let dims = Shape::along(0, channels, shape.rank() - 1);
    if let Some(w) = weight {
        y = y * w.reshape(&dims);
    }
    if let Some(b) = bias {
        y = y + b.reshape(&dims);
    }
    (y.cast(dtype), mean.reshape([samples, channels]), var.reshape([samples, channels]))
}
#[track_caller]
fn instances(x: &Tensor) -> Result<(usize, usize), Tensor> {
    if x.error().is_some() {
        return Err(x.clone());
    }
    let shape = x.meta().shape;
    if shape.rank() < 2 {
        return Err(x.refused("instance_norm", ErrorKind::Shape { shape, expected: "a batch of channels [samples, channels, ..]".into() }));
    }
    if shape[2..].iter().product::<usize>() == 1 {
        return Err(x.refused("instance_norm", ErrorKind::Shape { shape, expected: "more than one spatial element per channel".into() }));
    }
    Ok((shape[0], shape[1]))
}
/// Normalises each channel of x `[samples, channels, ..]` over the batch. Also returns the batch's mean and biased
/// variance, `[channels]`; running statistics take the variance times n / (n - 1), n elements per channel.
#[track_caller]
pub fn batch_norm_training(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> (Tensor, Tensor, Tensor) {
    let _call = call("batch_norm_training");
    let mut outputs = norm(Over::Batch, eps, x, weight, bias).into_iter();
    let mut next = || outputs.next().unwrap_or_else(|| Tensor::fail("batch_norm", ErrorKind::Internal("no output".into())));
    (next(), next(), next())
}
/// Normalises each channel of x `[samples, channels, ..]` with a given mean and variance `[channels]`, to which no
/// gradient flows.
#[track_caller]
pub fn batch_norm_inference(x: &Tensor, mean: &Tensor, var: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
    let _call = call("batch_norm_inference");
    let mut inputs = vec![x, mean, var];
    inputs.extend(weight);
    inputs.extend(bias);
    Tensor::composite1(BatchNormInference { eps, weight: weight.is_some(), bias: bias.is_some() }, &inputs)
}
/// Options of [`batch_norm`]; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormOptions {
    /// By the batch's statistics, which move the running ones? Else by these.
    pub training: bool,
    /// weight of this batch in the running statistics
    pub momentum: f64,
    /// added to the variance
    pub eps: f64,
}
impl Default for BatchNormOptions {
    fn default() -> BatchNormOptions {
        BatchNormOptions { training: false, momentum: 0.1, eps: 1e-5 }
    }
}
/// Normalises each channel of x `[samples, channels, ..]`: in training by the batch's statistics, toward which running mean and
/// variance move (the latter without bias); else by the running ones. The cells are written as any: in a step when it commits.
///
/// ```
/// # use adamant_core::{Cell, Device, Tensor, functional::{BatchNormOptions, batch_norm}};
/// # Device::reference().make_current();
/// let (mean, var) = (Cell::new(&Tensor::zeros([1]), false)?, Cell::new(&Tensor::ones([1]), false)?);
/// let x = Tensor::from_vec(vec![1.0f32, 3.0], [2, 1]);
/// let y = batch_norm(&x, Some((&mean, &var)), None, None, BatchNormOptions { training: true, ..Default::default() });
/// assert!((y.to_vec::<f32>()?[1] - 1.0).abs() < 1e-4);
/// assert_eq!((mean.detached().item::<f32>()?, var.detached().item::<f32>()?), (0.2, 1.1));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Evaluation without running statistics; one element per channel in training; shapes that do not fit.
///
/// Source: `torch.nn.functional.batch_norm`.
#[track_caller]
pub fn batch_norm(x: &Tensor, running: Option<(&Cell, &Cell)>, weight: Option<&Tensor>, bias: Option<&Tensor>, options: BatchNormOptions) -> Tensor {
    const OP: &str = "batch_norm";
    let _call = call(OP);
    if !options.training {
        return match running {
            Some((mean, var)) => batch_norm_inference(x, &mean.detached(), &var.detached(), weight, bias, options.eps),
            None => Tensor::fail(OP, ErrorKind::Argument("evaluation needs running statistics".into())),
        };
    }
    if x.error().is_some() {
        return x.clone();
    }
    let shape = x.meta().shape;
    let n = if shape.rank() < 2 { 0 } else { shape.elements() / shape[1].max(1) };
    if n < 2 {
        let kind = ErrorKind::Shape { shape, expected: "more than one element per channel, to normalise by their variance".into() };
        return x.refused(OP, kind);
    }
    let (y, mean, var) = batch_norm_training(x, weight, bias, options.eps);
    if let Some((running_mean, running_var)) = running
        && y.error().is_none()
    {
        let unbiased = var * (n as f64 / (n - 1) as f64);
        for (cell, new) in [(running_mean, mean), (running_var, unbiased)] {
            let moved = cell.detached() * (1.0 - options.momentum) + new.detach().cast(cell.meta().dtype) * options.momentum;
            if let Err(e) = cell.set(&moved) {
                return Tensor::failed(e);
            }
        }
    }
    y
}
/// Each element divided by `(k + alpha · mean of squares of `size` neighbouring channels)^beta`, zeros beyond the
/// first and last channel (Krizhevsky et al., 2012). x is `[samples, channels, ..]`.
#[track_caller]
pub fn local_response_norm(x: &Tensor, size: usize, alpha: f64, beta: f64, k: f64) -> Tensor {
    compose("local_response_norm", &[x], || {
        let m = x.meta();
        if m.shape.rank() < 3 {
            return Err(ErrorKind::Shape { shape: m.shape, expected: "a batch of channels with spatial axes [samples, channels, ..]".into() }.into());
        }
        if size == 0 {
            return Err(ErrorKind::Argument("the number of neighbouring channels is at least 1".into()).into());
        }
        let dtype = m.dtype.to_float();
        if m.shape.elements() == 0 {
            return Ok(x.cast(dtype));
        }
        let wide = x.cast(dtype).widened();
        let inner: usize = m.shape[2..].iter().product();
        let rows = wide.square().reshape([m.shape[0], m.shape[1], inner]);
        let spec = WindowSpec {
            op: WindowOp::Sum,
            size: smallvec![size, 1],
            stride: smallvec![1, 1],
            padding: smallvec![(size / 2, (size - 1) / 2), (0, 0)],
            dilation: smallvec![1, 1],
            open: smallvec![],
        };
        let mean = Tensor::apply(crate::specs::window_op(spec), Arg::None, &[&rows]).reshape(m.shape) / size as f64;
        Ok((wide / (mean * alpha + k).pow(beta)).cast(dtype))
    })
}
