//! From torch's name of a module and its constructor's arguments to our module.
use super::{BuiltModule, layers as l, sequence};
use crate::goldens::call::{OpCall, unsupported};
use adamant::{Error, nn};

/// The module that the case names.
pub fn build(call: &OpCall) -> Result<BuiltModule, Error> {
    let name = call.op().trim_start_matches("module.");
    if let Some(built) = sequence::build(name, call)? {
        return Ok(built);
    }
    /// The layer for the number of spatial axes in its name.
    macro_rules! over {
        ($axes:expr, $layer:ident) => {
            match $axes {
                1 => BuiltModule::one(l::$layer::<1>(call)?),
                2 => BuiltModule::one(l::$layer::<2>(call)?),
                _ => BuiltModule::one(l::$layer::<3>(call)?),
            }
        };
    }
    let (base, axes) = match ["1d", "2d", "3d"].iter().position(|d| name.ends_with(d)) {
        Some(k) => (&name[..name.len() - 2], k + 1),
        None => (name, 0),
    };
    let dim = |default: isize| call.axis_or("dim", default);
    let f = |name: &str, default: f64| call.float_or(name, default);
    Ok(match (base, axes) {
        ("Conv", 1..) => over!(axes, conv),
        ("ConvTranspose", 1..) => over!(axes, conv_transpose),
        ("BatchNorm", 1..) => over!(axes, batch_norm),
        ("InstanceNorm", 1..) => over!(axes, instance_norm),
        ("MaxPool", 1..) => over!(axes, max_pool),
        ("AvgPool", 1..) => over!(axes, avg_pool),
        ("AdaptiveAvgPool", 1..) => over!(axes, adaptive_avg_pool),
        ("AdaptiveMaxPool", 1..) => over!(axes, adaptive_max_pool),
        ("ZeroPad" | "ConstantPad" | "ReflectionPad" | "ReplicationPad" | "CircularPad", 1..) => BuiltModule::one(l::pad(base, axes, call)?),
        ("Dropout", 0) => BuiltModule::one(nn::Dropout::new(f("p", 0.5)?)?),
        ("Dropout", 1) => BuiltModule::one(nn::Dropout1d::new(f("p", 0.5)?)?),
        ("Dropout", 2) => BuiltModule::one(nn::Dropout2d::new(f("p", 0.5)?)?),
        ("Dropout", 3) => BuiltModule::one(nn::Dropout3d::new(f("p", 0.5)?)?),
        ("AlphaDropout", 0) => BuiltModule::one(nn::AlphaDropout::new(f("p", 0.5)?)?),
        ("Softmax", 2) => BuiltModule::one(nn::Softmax2d::new()),
        ("Linear", 0) => BuiltModule::one(l::linear(call)?),
        ("Bilinear", 0) => {
            let (left, right, out) = (call.size("in1_features")?, call.size("in2_features")?, call.size("out_features")?);
            let make = if call.bool_or("bias", true)? { nn::Bilinear::new } else { nn::Bilinear::no_bias };
            let layer = make(left, right, out)?;
            BuiltModule::new(layer, |m, call| Ok(vec![m.forward(call.tensor(0)?, call.tensor(1)?)?]))
        }
        ("LayerNorm", 0) => BuiltModule::one(l::layer_norm(call)?),
        ("RMSNorm", 0) => {
            let options = nn::RmsNormOptions { eps: call.maybe_float("eps")?, elementwise_affine: call.bool_or("elementwise_affine", true)? };
            BuiltModule::one(nn::RmsNorm::with(l::shape(call, "normalized_shape")?, options)?)
        }
        ("GroupNorm", 0) => {
            let options = nn::GroupNormOptions { eps: f("eps", 1e-5)?, affine: call.bool_or("affine", true)? };
            BuiltModule::one(nn::GroupNorm::with(call.size("num_groups")?, call.size("num_channels")?, options)?)
        }
        ("LocalResponseNorm", 0) => BuiltModule::one(nn::LocalResponseNorm::with(call.size("size")?, f("alpha", 1e-4)?, f("beta", 0.75)?, f("k", 1.0)?)),
        ("Embedding", 0) => BuiltModule::one(l::embedding(call)?),
        ("EmbeddingBag", 0) => BuiltModule::new(l::embedding_bag(call)?, |m, call| {
            let ids = call.tensor(0)?;
            Ok(vec![match call.optional(1) {
                Some(offsets) => m.forward_offsets(ids, offsets)?,
                None => nn::Module::forward(m, ids)?,
            }])
        }),
        ("Identity", 0) => BuiltModule::one(nn::Identity::new()),
        ("ReLU", 0) => BuiltModule::one(nn::Relu::new()),
        ("ReLU6", 0) => BuiltModule::one(nn::Relu6::new()),
        ("LeakyReLU", 0) => BuiltModule::one(nn::LeakyRelu::with(f("negative_slope", 0.01)?)),
        ("PReLU", 0) => BuiltModule::one(nn::PRelu::with(call.int_or("num_parameters", 1)? as usize, f("init", 0.25)?)?),
        ("RReLU", 0) => BuiltModule::one(nn::RRelu::with(f("lower", 1.0 / 8.0)?, f("upper", 1.0 / 3.0)?)),
        ("ELU", 0) => BuiltModule::one(nn::Elu::with(f("alpha", 1.0)?)),
        ("CELU", 0) => BuiltModule::one(nn::Celu::with(f("alpha", 1.0)?)),
        ("SELU", 0) => BuiltModule::one(nn::Selu::new()),
        ("GELU", 0) => BuiltModule::one(nn::Gelu::with(call.text_or("approximate", "none")? == "tanh")),
        ("SiLU", 0) => BuiltModule::one(nn::Silu::new()),
        ("Mish", 0) => BuiltModule::one(nn::Mish::new()),
        ("Sigmoid", 0) => BuiltModule::one(nn::Sigmoid::new()),
        ("LogSigmoid", 0) => BuiltModule::one(nn::LogSigmoid::new()),
        ("Tanh", 0) => BuiltModule::one(nn::Tanh::new()),
        ("Tanhshrink", 0) => BuiltModule::one(nn::Tanhshrink::new()),
        ("Softsign", 0) => BuiltModule::one(nn::Softsign::new()),
        ("Softplus", 0) => BuiltModule::one(nn::Softplus::with(f("beta", 1.0)?, f("threshold", 20.0)?)),
        ("Hardtanh", 0) => BuiltModule::one(nn::Hardtanh::with(f("min_val", -1.0)?, f("max_val", 1.0)?)),
        ("Hardsigmoid", 0) => BuiltModule::one(nn::Hardsigmoid::new()),
        ("Hardswish", 0) => BuiltModule::one(nn::Hardswish::new()),
        ("Hardshrink", 0) => BuiltModule::one(nn::Hardshrink::with(f("lambd", 0.5)?)),
        ("Softshrink", 0) => BuiltModule::one(nn::Softshrink::with(f("lambd", 0.5)?)),
        ("Threshold", 0) => BuiltModule::one(nn::Threshold::new(f("threshold", 0.0)?, f("value", 0.0)?)),
        ("GLU", 0) => BuiltModule::one(nn::Glu::with(dim(-1)?)),
        ("Softmax", 0) => BuiltModule::one(nn::Softmax::new(dim(-1)?)),
        ("LogSoftmax", 0) => BuiltModule::one(nn::LogSoftmax::new(dim(-1)?)),
        ("Softmin", 0) => BuiltModule::one(nn::Softmin::new(dim(-1)?)),
        ("Flatten", 0) => BuiltModule::one(nn::Flatten::with(call.axis_or("start_dim", 1)?, call.axis_or("end_dim", -1)?)),
        ("Unflatten", 0) => BuiltModule::one(nn::Unflatten::new(call.axis("dim")?, call.sizes("unflattened_size")?)),
        ("Upsample", 0) => BuiltModule::one(l::upsample(call)?),
        ("PixelShuffle", 0) => BuiltModule::one(nn::PixelShuffle::new(call.size("upscale_factor")?)),
        ("PixelUnshuffle", 0) => BuiltModule::one(nn::PixelUnshuffle::new(call.size("downscale_factor")?)),
        ("ChannelShuffle", 0) => BuiltModule::one(nn::ChannelShuffle::new(call.size("groups")?)),
        ("Unfold", 0) => BuiltModule::one(nn::Unfold::with(l::unfold(call)?)),
        ("Fold", 0) => BuiltModule::one(l::fold(call)?),
        ("CosineSimilarity", 0) => {
            let layer = nn::CosineSimilarity::with(dim(1)?, f("eps", 1e-8)?);
            BuiltModule::new(layer, |m, call| Ok(vec![m.forward(call.tensor(0)?, call.tensor(1)?)?]))
        }
        ("PairwiseDistance", 0) => {
            let layer = nn::PairwiseDistance::with(f("p", 2.0)?, f("eps", 1e-6)?, call.bool_or("keepdim", false)?);
            BuiltModule::new(layer, |m, call| Ok(vec![m.forward(call.tensor(0)?, call.tensor(1)?)?]))
        }
        _ => return Err(unsupported(format!("the module {name}"))),
    })
}
