//! Stacked layers from their descriptions: PyTorch's kinds under PyTorch's argument names.
mod shapes;

pub(crate) use shapes::{Shapes, shapes};

use crate::{Failure, config::Section, failure::shown};
use adamant_core::{
    functional::{self, PadMode, Padding, Sizes},
    profile::record_function,
};
use adamant_nn::*;
use std::collections::HashSet;

/// The most layers that a model may be stacked from, and the most that a recurrent one may have: what is beyond was
/// mistyped, and to look at its shapes alone would take minutes.
const MOST_LAYERS: usize = 1000;
const MOST_RECURRENT: usize = 100;
/// The most windows of an adaptive pooling along an axis.
const MOST_WINDOWS: usize = 100_000;

const KINDS: [&str; 37] = [
    "Linear",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LayerNorm",
    "RMSNorm",
    "GroupNorm",
    "Embedding",
    "PositionEmbedding",
    "TransformerEncoderLayer",
    "Dropout",
    "Dropout2d",
    "MaxPool1d",
    "MaxPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "Flatten",
    "Unflatten",
    "Identity",
    "ReLU",
    "LeakyReLU",
    "ELU",
    "GELU",
    "SiLU",
    "Mish",
    "Sigmoid",
    "Tanh",
    "Hardswish",
    "Softplus",
    "PReLU",
    "GRU",
    "LSTM",
];

/// The layers of `layers`, one after another. A layer is named by its position, or by its key `name`; with `repeat = n` it
/// stands there n times. `init = { kind = "normal", std = 0.02 }` beside the layers draws all matrices anew and sets biases
/// to zero.
///
/// # Errors
/// A layer that makes no sense, with its line.
pub fn model(section: Section<'_>) -> Result<Sequential, Failure> {
    Ok(stack(&section)?.model)
}
/// A model, and for each of its layers the one of the description that it is of.
pub(crate) struct LayerStack {
    pub model: Sequential,
    places: Vec<(String, usize)>,
}
/// As [`model`].
pub(crate) fn stack(section: &Section<'_>) -> Result<LayerStack, Failure> {
    let _range = record_function("shape");
    let layers = section.need("layers", section.sections("layers")?)?;
    let mut stack = LayerStack { model: Sequential::new(), places: Vec::new() };
    let mut names = HashSet::new();
    for (at, layer) in layers.iter().enumerate() {
        let (name, times) = (layer.text("name")?, layer.size_in("repeat", 0..=MOST_LAYERS)?);
        for k in 0..times.unwrap_or(1) {
            if stack.model.len() == MOST_LAYERS {
                return Err(layer.wrong(format!("repeat: a model has at most {MOST_LAYERS} layers")));
            }
            let name = match (name, times) {
                (None, _) => stack.model.len().to_string(),
                (Some(name), None) => name.to_string(),
                (Some(name), Some(_)) => format!("{name}.{k}"),
            };
            if name.is_empty() || !names.insert(name.clone()) {
                return Err(layer.wrong_key("name", format!("`{}` names no layer, or another one already", shown(&name))));
            }
            let built = build(layer, &stack.model)?;
            stack.model.push(&name, built);
            stack.places.push((name, at));
        }
        layer.finish()?;
    }
    if stack.model.is_empty() {
        return Err(section.wrong_key("layers", "a model has at least one layer"));
    }
    if let Some(s) = section.section("init")? {
        let _ = s.kind(&["normal"])?;
        let std = s.need("std", s.number("std")?)?;
        if std < 0.0 {
            return Err(s.wrong_key("std", "a standard deviation is a number from 0 on"));
        }
        s.finish()?;
        for (name, p) in stack.model.named_parameters() {
            let shape = p.meta().shape;
            if shape.rank() >= 2 {
                p.set(&init::normal(shape, 0.0, std)?)?;
            } else if name.ends_with("bias") {
                p.set(&init::zeros(shape)?)?;
            }
        }
    }
    section.finish()?;
    Ok(stack)
}
fn sizes(s: &Section<'_>, key: &'static str) -> Result<Option<Sizes>, Failure> {
    Ok(s.sizes(key)?.map(|v| Sizes::from(v.as_slice())))
}
/// Said of the key itself: a layer without a channel or a step is found out by another one's key otherwise.
const NONE: &str = "it is at least 1, not 0";
/// A width: at least 1.
fn need_size(s: &Section<'_>, key: &'static str) -> Result<usize, Failure> {
    match s.need(key, s.size(key)?)? {
        0 => Err(s.wrong_key(key, NONE)),
        width => Ok(width),
    }
}
/// The size of a window or of its steps: at least 1 along each axis.
fn extents(s: &Section<'_>, key: &'static str) -> Result<Option<Sizes>, Failure> {
    match s.sizes(key)? {
        Some(v) if v.contains(&0) => Err(s.wrong_key(key, NONE)),
        v => Ok(v.map(|v| Sizes::from(v.as_slice()))),
    }
}
fn need_extents(s: &Section<'_>, key: &'static str) -> Result<Sizes, Failure> {
    s.need(key, extents(s, key)?)
}
fn conv(s: &Section<'_>) -> Result<(usize, usize, Sizes, ConvOptions), Failure> {
    let defaults = ConvOptions::default();
    let padding = match s.sizes("padding") {
        Ok(v) => v.map_or(defaults.padding.clone(), |v| Padding::Zeros(Sizes::from(v.as_slice()))),
        Err(no_sizes) => match s.text("padding") {
            Ok(Some(word)) => word.parse().map_err(|e| s.wrong_key("padding", e))?,
            _ => return Err(no_sizes),
        },
    };
    let padding_mode = match s.text("padding_mode")? {
        None | Some("zeros") => PadMode::default(),
        Some("reflect") => PadMode::Reflect,
        Some("replicate") => PadMode::Replicate,
        Some("circular") => PadMode::Circular,
        Some(other) => return Err(s.wrong_key("padding_mode", format!("there is no `{}`; there are zeros, reflect, replicate, circular", shown(other)))),
    };
    let options = ConvOptions {
        stride: extents(s, "stride")?.unwrap_or(defaults.stride),
        padding,
        dilation: extents(s, "dilation")?.unwrap_or(defaults.dilation),
        groups: if s.has("groups") { need_size(s, "groups")? } else { defaults.groups },
        bias: s.flag("bias")?.unwrap_or(true),
        padding_mode,
    };
    Ok((need_size(s, "in_channels")?, need_size(s, "out_channels")?, need_extents(s, "kernel_size")?, options))
}
fn batch_norm(s: &Section<'_>) -> Result<(usize, BatchNormOptions), Failure> {
    let d = BatchNormOptions::default();
    let options = BatchNormOptions {
        eps: s.number("eps")?.unwrap_or(d.eps),
        momentum: s.number("momentum")?.or(d.momentum),
        affine: s.flag("affine")?.unwrap_or(d.affine),
        track_running_stats: s.flag("track_running_stats")?.unwrap_or(d.track_running_stats),
    };
    Ok((need_size(s, "num_features")?, options))
}
fn max_pool(s: &Section<'_>) -> Result<functional::MaxPoolOptions, Failure> {
    let d = functional::MaxPoolOptions::new(need_extents(s, "kernel_size")?);
    Ok(functional::MaxPoolOptions {
        stride: extents(s, "stride")?,
        padding: sizes(s, "padding")?.unwrap_or(d.padding.clone()),
        dilation: extents(s, "dilation")?.unwrap_or(d.dilation.clone()),
        ceil_mode: s.flag("ceil_mode")?.unwrap_or(false),
        ..d
    })
}
fn avg_pool(s: &Section<'_>) -> Result<functional::AvgPoolOptions, Failure> {
    let d = functional::AvgPoolOptions::new(need_extents(s, "kernel_size")?);
    Ok(functional::AvgPoolOptions {
        stride: extents(s, "stride")?,
        padding: sizes(s, "padding")?.unwrap_or(d.padding.clone()),
        ceil_mode: s.flag("ceil_mode")?.unwrap_or(false),
        ..d
    })
}
fn recurrent(s: &Section<'_>) -> Result<(usize, usize, RecurrentOptions), Failure> {
    let d = RecurrentOptions::default();
    let options = RecurrentOptions {
        num_layers: s.size_in("num_layers", 1..=MOST_RECURRENT)?.unwrap_or(d.num_layers),
        bias: s.flag("bias")?.unwrap_or(d.bias),
        batch_first: s.flag("batch_first")?.unwrap_or(d.batch_first),
        dropout: s.number("dropout")?.unwrap_or(d.dropout),
        bidirectional: s.flag("bidirectional")?.unwrap_or(d.bidirectional),
        proj_size: 0,
    };
    Ok((need_size(s, "input_size")?, need_size(s, "hidden_size")?, options))
}
fn build(s: &Section<'_>, before: &Sequential) -> Result<Box<dyn Module>, Failure> {
    match s.kind(&KINDS)? {
        "Linear" => linear(s, before),
        kind @ ("Conv1d" | "Conv2d" | "Conv3d") => convolution(s, kind),
        kind @ ("BatchNorm1d" | "BatchNorm2d" | "BatchNorm3d") => batch_normalization(s, kind),
        "LayerNorm" => layer_normalization(s),
        "RMSNorm" => {
            let affine = s.flag("elementwise_affine")?.unwrap_or(true);
            made(
                s,
                "RMSNorm",
                RmsNorm::with(s.need("normalized_shape", s.sizes("normalized_shape")?)?, RmsNormOptions { eps: s.number("eps")?, elementwise_affine: affine }),
            )
        }
        "GroupNorm" => {
            let (eps, affine) = (s.number("eps")?.unwrap_or(1e-5), s.flag("affine")?.unwrap_or(true));
            made(s, "GroupNorm", GroupNorm::with(need_size(s, "num_groups")?, need_size(s, "num_channels")?, GroupNormOptions { eps, affine }))
        }
        "Embedding" => made(s, "Embedding", Embedding::with(need_size(s, "num_embeddings")?, need_size(s, "embedding_dim")?, s.size("padding_idx")?)),
        "PositionEmbedding" => made(s, "PositionEmbedding", PositionEmbedding::new(need_size(s, "max_length")?, need_size(s, "features")?)),
        "TransformerEncoderLayer" => encoder_layer(s),
        "GRU" => {
            let (input, hidden, options) = recurrent(s)?;
            made(s, "GRU", Gru::with(input, hidden, options))
        }
        "LSTM" => {
            let (input, hidden, options) = recurrent(s)?;
            made(s, "LSTM", Lstm::with(input, hidden, options))
        }
        "Dropout" => made(s, "Dropout", Dropout::new(s.number("p")?.unwrap_or(0.5))),
        "Dropout2d" => made(s, "Dropout2d", Dropout2d::new(s.number("p")?.unwrap_or(0.5))),
        "PReLU" => made(s, "PReLU", PRelu::with(s.size("num_parameters")?.unwrap_or(1), s.number("init")?.unwrap_or(0.25))),
        kind => without_parameters(s, kind),
    }
}
/// What a constructor refuses is said with the layer's line; what the device refuses is no fault of the file.
fn made<M: Module + 'static>(s: &Section<'_>, kind: &str, layer: adamant_core::Result<M>) -> Result<Box<dyn Module>, Failure> {
    match layer {
        Ok(layer) => Ok(Box::new(layer)),
        Err(e) if e.kind().word() == "argument" => Err(s.wrong(format!("{kind}: {}", e.kind()))),
        Err(e) => Err(e.into()),
    }
}
fn linear(s: &Section<'_>, before: &Sequential) -> Result<Box<dyn Module>, Failure> {
    if let Some(to) = s.text("tied")? {
        let path = format!("{to}.weight");
        let Some((_, weight)) = before.named_parameters().into_iter().find(|(n, _)| *n == path) else {
            return Err(s.wrong_key("tied", format!("no layer before this one is named `{}` and has a weight", shown(to))));
        };
        return made(s, "Linear", Linear::tied(&weight));
    }
    let (from, to) = (need_size(s, "in_features")?, need_size(s, "out_features")?);
    let layer = if s.flag("bias")?.unwrap_or(true) { Linear::new(from, to) } else { Linear::no_bias(from, to) };
    made(s, "Linear", layer)
}
fn convolution(s: &Section<'_>, kind: &str) -> Result<Box<dyn Module>, Failure> {
    let (from, to, kernel, options) = conv(s)?;
    match kind {
        "Conv1d" => made(s, kind, Conv1d::with(from, to, kernel, options)),
        "Conv2d" => made(s, kind, Conv2d::with(from, to, kernel, options)),
        _ => made(s, kind, Conv3d::with(from, to, kernel, options)),
    }
}
fn batch_normalization(s: &Section<'_>, kind: &str) -> Result<Box<dyn Module>, Failure> {
    let (features, options) = batch_norm(s)?;
    match kind {
        "BatchNorm1d" => made(s, kind, BatchNorm1d::with(features, options)),
        "BatchNorm2d" => made(s, kind, BatchNorm2d::with(features, options)),
        _ => made(s, kind, BatchNorm3d::with(features, options)),
    }
}
fn layer_normalization(s: &Section<'_>) -> Result<Box<dyn Module>, Failure> {
    let d = LayerNormOptions::default();
    let options = LayerNormOptions {
        eps: s.number("eps")?.unwrap_or(d.eps),
        elementwise_affine: s.flag("elementwise_affine")?.unwrap_or(d.elementwise_affine),
        bias: s.flag("bias")?.unwrap_or(d.bias),
    };
    made(s, "LayerNorm", LayerNorm::with(s.need("normalized_shape", s.sizes("normalized_shape")?)?, options))
}
fn encoder_layer(s: &Section<'_>) -> Result<Box<dyn Module>, Failure> {
    let d = TransformerOptions::default();
    let activation = match s.text("activation")? {
        None | Some("relu") => Activation::Relu,
        Some("gelu") => Activation::Gelu,
        Some("gelu_tanh") => Activation::GeluTanh,
        Some(other) => return Err(s.wrong_key("activation", format!("there is no `{}`; there are relu, gelu, gelu_tanh", shown(other)))),
    };
    let options = TransformerOptions {
        dim_feedforward: s.size("dim_feedforward")?.unwrap_or(d.dim_feedforward),
        dropout: s.number("dropout")?.unwrap_or(d.dropout),
        activation,
        layer_norm_eps: s.number("layer_norm_eps")?.unwrap_or(d.layer_norm_eps),
        // Everything else that is stacked here has the batch first.
        batch_first: s.flag("batch_first")?.unwrap_or(true),
        norm_first: s.flag("norm_first")?.unwrap_or(d.norm_first),
        bias: s.flag("bias")?.unwrap_or(d.bias),
        is_causal: s.flag("is_causal")?.unwrap_or(d.is_causal),
    };
    made(s, "TransformerEncoderLayer", TransformerEncoderLayer::with(need_size(s, "d_model")?, need_size(s, "nhead")?, options))
}
/// A layer without parameters, whose constructor refuses nothing: shapes, pooling, activations.
fn without_parameters(s: &Section<'_>, kind: &str) -> Result<Box<dyn Module>, Failure> {
    Ok(match kind {
        "MaxPool1d" => Box::new(MaxPool1d::with(max_pool(s)?)),
        "MaxPool2d" => Box::new(MaxPool2d::with(max_pool(s)?)),
        "AvgPool1d" => Box::new(AvgPool1d::with(avg_pool(s)?)),
        "AvgPool2d" => Box::new(AvgPool2d::with(avg_pool(s)?)),
        "AdaptiveAvgPool1d" => Box::new(AdaptiveAvgPool1d::new(s.need("output_size", s.size_in("output_size", 0..=MOST_WINDOWS)?)?)),
        "AdaptiveAvgPool2d" => match s.need("output_size", s.sizes("output_size")?)?.as_slice() {
            all if all.iter().any(|n| *n > MOST_WINDOWS) => return Err(s.wrong_key("output_size", format!("at most {MOST_WINDOWS} along an axis"))),
            [one] => Box::new(AdaptiveAvgPool2d::new(*one)),
            [height, width] => Box::new(AdaptiveAvgPool2d::with([Some(*height), Some(*width)])),
            other => return Err(s.wrong_key("output_size", format!("{} sizes for 2 spatial axes", other.len()))),
        },
        "Flatten" => Box::new(Flatten::with(s.int("start_dim")?.unwrap_or(1) as isize, s.int("end_dim")?.unwrap_or(-1) as isize)),
        "Unflatten" => {
            let dim = s.need("dim", s.int("dim")?)? as isize;
            let to: Vec<isize> = s.need("unflattened_size", s.ints("unflattened_size")?)?.into_iter().map(|v| v as isize).collect();
            Box::new(Unflatten::new(dim, to))
        }
        "Identity" => Box::new(Identity::new()),
        "ReLU" => Box::new(Relu::new()),
        "LeakyReLU" => Box::new(LeakyRelu::with(s.number("negative_slope")?.unwrap_or(0.01))),
        "ELU" => Box::new(Elu::with(s.number("alpha")?.unwrap_or(1.0))),
        "GELU" => match s.text("approximate")? {
            None | Some("none") => Box::new(Gelu::with(false)),
            Some("tanh") => Box::new(Gelu::with(true)),
            Some(other) => return Err(s.wrong_key("approximate", format!("there is no `{}`; there are none, tanh", shown(other)))),
        },
        "SiLU" => Box::new(Silu::new()),
        "Mish" => Box::new(Mish::new()),
        "Sigmoid" => Box::new(Sigmoid::new()),
        "Tanh" => Box::new(Tanh::new()),
        "Hardswish" => Box::new(Hardswish::new()),
        "Softplus" => Box::new(Softplus::with(s.number("beta")?.unwrap_or(1.0), s.number("threshold")?.unwrap_or(20.0))),
        other => return Err(s.wrong(format!("{other} cannot be built"))),
    })
}
