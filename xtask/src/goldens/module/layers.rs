//! Constructors with options: torch's keyword arguments to ours.
use crate::goldens::{
    call::{OpCall, argument},
    dispatch::{conv::sizes, pool},
};
use adamant::{
    Error, Scalar,
    functional::{self as f, PadMode, Padding},
    nn,
    tensor::BagMode,
};

pub fn linear(call: &OpCall) -> Result<nn::Linear, Error> {
    let (from, to) = (call.size("in_features")?, call.size("out_features")?);
    if call.bool_or("bias", true)? { nn::Linear::new(from, to) } else { nn::Linear::no_bias(from, to) }
}
pub fn conv<const N: usize>(call: &OpCall) -> Result<nn::Conv<N>, Error> {
    let padding = match call.value("padding").and_then(|v| v.as_str()) {
        Some(word) => word.parse()?,
        None => Padding::Zeros(sizes(call, "padding", 0)?),
    };
    let padding_mode = match call.text_or("padding_mode", "zeros")? {
        "zeros" => PadMode::default(),
        other => pad_mode(other)?,
    };
    let options = nn::ConvOptions {
        stride: sizes(call, "stride", 1)?,
        padding,
        dilation: sizes(call, "dilation", 1)?,
        groups: call.int_or("groups", 1)? as usize,
        bias: call.bool_or("bias", true)?,
        padding_mode,
    };
    nn::Conv::with(call.size("in_channels")?, call.size("out_channels")?, sizes(call, "kernel_size", 1)?, options)
}
pub fn conv_transpose<const N: usize>(call: &OpCall) -> Result<nn::ConvTranspose<N>, Error> {
    let conv = f::ConvTransposeOptions {
        stride: sizes(call, "stride", 1)?,
        padding: sizes(call, "padding", 0)?,
        output_padding: sizes(call, "output_padding", 0)?,
        dilation: sizes(call, "dilation", 1)?,
        groups: call.int_or("groups", 1)? as usize,
    };
    let options = nn::ConvTransposeOptions { conv, bias: call.bool_or("bias", true)? };
    nn::ConvTranspose::with(call.size("in_channels")?, call.size("out_channels")?, sizes(call, "kernel_size", 1)?, options)
}
/// Left out, the momentum is a number; null, the running statistics are plain averages.
fn statistics(call: &OpCall, defaults: nn::BatchNormOptions) -> Result<nn::BatchNormOptions, Error> {
    Ok(nn::BatchNormOptions {
        eps: call.float_or("eps", defaults.eps)?,
        momentum: if call.case().args.contains_key("momentum") { call.maybe_float("momentum")? } else { defaults.momentum },
        affine: call.bool_or("affine", defaults.affine)?,
        track_running_stats: call.bool_or("track_running_stats", defaults.track_running_stats)?,
    })
}
pub fn batch_norm<const N: usize>(call: &OpCall) -> Result<nn::BatchNorm<N>, Error> {
    nn::BatchNorm::with(call.size("num_features")?, statistics(call, nn::BatchNormOptions::default())?)
}
pub fn instance_norm<const N: usize>(call: &OpCall) -> Result<nn::InstanceNorm<N>, Error> {
    nn::InstanceNorm::with(call.size("num_features")?, statistics(call, nn::BatchNormOptions::instance())?)
}
pub fn layer_norm(call: &OpCall) -> Result<nn::LayerNorm, Error> {
    let options = nn::LayerNormOptions {
        eps: call.float_or("eps", 1e-5)?,
        elementwise_affine: call.bool_or("elementwise_affine", true)?,
        bias: call.bool_or("bias", true)?,
    };
    nn::LayerNorm::with(shape(call, "normalized_shape")?, options)
}
pub fn max_pool<const N: usize>(call: &OpCall) -> Result<nn::MaxPool<N>, Error> {
    Ok(nn::MaxPool::with(pool::max_pool(call)?))
}
pub fn avg_pool<const N: usize>(call: &OpCall) -> Result<nn::AvgPool<N>, Error> {
    Ok(nn::AvgPool::with(pool::avg_pool(call)?))
}
pub fn adaptive_avg_pool<const N: usize>(call: &OpCall) -> Result<nn::AdaptiveAvgPool<N>, Error> {
    Ok(nn::AdaptiveAvgPool::with(output_size(call)?))
}
pub fn adaptive_max_pool<const N: usize>(call: &OpCall) -> Result<nn::AdaptiveMaxPool<N>, Error> {
    Ok(nn::AdaptiveMaxPool::with(output_size(call)?))
}
fn output_size<const N: usize>(call: &OpCall) -> Result<[Option<usize>; N], Error> {
    let sizes = pool::outputs(call, N)?;
    sizes.try_into().map_err(|sizes| argument(format!("output_size {sizes:?} is not for {N} axes")))
}
pub fn embedding(call: &OpCall) -> Result<nn::Embedding, Error> {
    let rows = call.size("num_embeddings")?;
    // A negative index counts from the end of the table.
    let padding = call.maybe_int("padding_idx")?.map(|i| if i < 0 { (i + rows as i64) as usize } else { i as usize });
    nn::Embedding::with(rows, call.size("embedding_dim")?, padding)
}
pub fn embedding_bag(call: &OpCall) -> Result<nn::EmbeddingBag, Error> {
    let mode = match call.text_or("mode", "mean")? {
        "sum" => BagMode::Sum,
        "mean" => BagMode::Mean,
        "max" => BagMode::Max,
        other => return Err(argument(format!("mode {other}"))),
    };
    nn::EmbeddingBag::with(call.size("num_embeddings")?, call.size("embedding_dim")?, mode)
}
pub fn pad(kind: &str, axes: usize, call: &OpCall) -> Result<nn::Pad, Error> {
    let mode = match kind {
        "ReflectionPad" => PadMode::Reflect,
        "ReplicationPad" => PadMode::Replicate,
        "CircularPad" => PadMode::Circular,
        _ => PadMode::Constant(call.maybe_scalar("value")?.unwrap_or(Scalar::Int(0))),
    };
    let widths = call.sizes("padding")?;
    Ok(if widths.len() == 1 { nn::Pad::around(widths[0], axes, mode) } else { nn::Pad::new(widths, mode) })
}
fn pad_mode(name: &str) -> Result<PadMode, Error> {
    match name {
        "reflect" => Ok(PadMode::Reflect),
        "replicate" => Ok(PadMode::Replicate),
        "circular" => Ok(PadMode::Circular),
        other => Err(argument(format!("padding_mode {other}"))),
    }
}
pub fn upsample(call: &OpCall) -> Result<nn::Upsample, Error> {
    let (to, options) = pool::resize(call)?;
    Ok(nn::Upsample::with(to, options))
}
pub fn unfold(call: &OpCall) -> Result<f::UnfoldOptions, Error> {
    pool::windows(call)
}
pub fn fold(call: &OpCall) -> Result<nn::Fold, Error> {
    Ok(nn::Fold::with(pool::plane(call)?, pool::windows(call)?))
}
/// A shape argument: one size or a list.
pub fn shape(call: &OpCall, name: &str) -> Result<Vec<usize>, Error> {
    Ok(sizes(call, name, 1)?.as_slice().to_vec())
}
