//! The weight and the bias that do a norm's part too: `w · s` and `(b - mean) · s + shift` for each channel, with `s = scale / √(var +
//! eps)`, in f64. Must not know where in a model the two stand.
use crate::method::device_of_f64;
use adamant_core::{DType, Result, Tensor};
use adamant_nn::{Param, Submodule};

/// Weight and bias of the layer, or why there are none.
#[track_caller]
pub(super) fn folded(layer: &Submodule, norm: &Submodule) -> Result<std::result::Result<(Tensor, Tensor), String>> {
    let lacks = |of: &Submodule, what: &str| Ok(Err(format!("`{}` has no {what}", of.path())));
    let (Some(weight), Some(eps)) = (layer.parameter("weight"), norm.site()?.eps()) else { return lacks(layer, "weight") };
    let (Some(mean), Some(var)) = (norm.parameter("running_mean"), norm.parameter("running_var")) else { return lacks(norm, "running statistics") };
    let meta = weight.meta();
    let device = device_of_f64(meta.device);
    let wide = |p: &Param| p.detached().to(device).cast(DType::F64);
    let (mean, var) = (wide(mean), wide(var));
    let Some(channels) = mean.shape()?.first().copied().filter(|n| *n > 0) else { return lacks(norm, "channels") };
    if !mean.is_finite_all()? || !var.is_finite_all()? || var.amin(..).item::<f64>()? + eps <= 0.0 {
        return Ok(Err("its running statistics are not finite, or its variance is negative".into()));
    }
    let scale = 1.0 / (var + eps).sqrt();
    let scale = norm.parameter("weight").map_or(scale.clone(), |w| &scale * wide(w));
    // The shape with which a number for each channel meets the weight.
    let shape = meta.shape.to_vec();
    let (inner, along) = match (layer.kind.starts_with("ConvTranspose"), shape.as_slice()) {
        (false, [out, rest @ ..]) if *out == channels => (shape.clone(), [vec![channels], vec![1; rest.len()]].concat()),
        // [in, out / groups, ..kernel]: the inputs of a group, one group behind the other.
        (true, [inputs, of_group, kernel @ ..]) if *of_group > 0 && channels.is_multiple_of(*of_group) && inputs.is_multiple_of(channels / of_group) => {
            let groups = channels / of_group;
            let inner = [&[groups, inputs / groups, *of_group], kernel].concat();
            (inner, [vec![groups, 1, *of_group], vec![1; kernel.len()]].concat())
        }
        _ => return Ok(Err(format!("it has {channels} channels, and the weight of `{}` is {}", layer.path(), meta.shape))),
    };
    let shift = |name: &str, of: &Submodule| of.parameter(name).map(wide);
    let bias = match shift("bias", layer) {
        Some(bias) if bias.shape()?.elements() != channels => return Ok(Err(format!("it has {channels} channels, and `{}` another number", layer.path()))),
        Some(bias) => bias - mean,
        None => -mean,
    };
    let bias = bias * &scale;
    let bias = shift("bias", norm).map_or(bias.clone(), |shift| &bias + shift);
    let weight = (wide(weight).reshape(inner) * scale.reshape(along)).reshape(shape);
    let [weight, bias] = [weight, bias].map(|t| t.cast(meta.dtype).to(meta.device));
    if !weight.is_finite_all()? || !bias.is_finite_all()? {
        return Ok(Err(format!("{} does not hold the numbers that would come of it", meta.dtype)));
    }
    Ok(Ok((weight.ok()?, bias.ok()?)))
}
