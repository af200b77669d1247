//! Pooling, unfolding, interpolation, padding.
use super::conv::sizes;
use crate::goldens::call::{OpCall, argument};
use adamant::{
    Error, Tensor,
    functional::{self as f, Sizes},
};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let Some(name) = case.op().strip_prefix("nn.functional.") else { return Ok(None) };
    let one = |y: Tensor| Ok(Some(vec![y]));
    let n = || -> Result<usize, Error> {
        let digit = name.as_bytes().iter().rev().find(|b| b.is_ascii_digit()).map_or(0, |b| (b - b'0') as usize);
        (1..=3).contains(&digit).then_some(digit).ok_or_else(|| argument(format!("{name} has no number of axes")))
    };
    match name {
        "max_pool1d" | "max_pool2d" | "max_pool3d" => {
            let (values, indices) = [f::max_pool1d, f::max_pool2d, f::max_pool3d][n()? - 1](case.tensor(0)?, &max_pool(case)?);
            Ok(Some(if case.bool_or("return_indices", false)? { vec![values, indices] } else { vec![values] }))
        }
        "avg_pool1d" | "avg_pool2d" | "avg_pool3d" => one([f::avg_pool1d, f::avg_pool2d, f::avg_pool3d][n()? - 1](case.tensor(0)?, &avg_pool(case)?)),
        "lp_pool1d" | "lp_pool2d" | "lp_pool3d" => {
            let (x, p, kernel, ceil) = (case.tensor(0)?, case.float("norm_type")?, sizes(case, "kernel_size", 1)?, case.bool_or("ceil_mode", false)?);
            one(match n()? {
                1 => f::lp_pool1d(x, p, kernel, stride(case)?, ceil),
                2 => f::lp_pool2d(x, p, kernel, stride(case)?, ceil),
                _ => f::lp_pool3d(x, p, kernel, stride(case)?, ceil),
            })
        }
        "adaptive_avg_pool1d" | "adaptive_avg_pool2d" | "adaptive_avg_pool3d" => one(f::adaptive_avg_pool(case.tensor(0)?, &outputs(case, n()?)?)),
        "adaptive_max_pool1d" | "adaptive_max_pool2d" | "adaptive_max_pool3d" => {
            let (values, indices) = f::adaptive_max_pool(case.tensor(0)?, &outputs(case, n()?)?);
            Ok(Some(if case.bool_or("return_indices", false)? { vec![values, indices] } else { vec![values] }))
        }
        "unfold" => one(f::unfold(case.tensor(0)?, &windows(case)?)),
        "fold" => one(f::fold(case.tensor(0)?, plane(case)?, &windows(case)?)),
        "interpolate" => {
            let (to, options) = resize(case)?;
            one(f::interpolate(case.tensor(0)?, &to, options))
        }
        "grid_sample" => {
            let mode = match case.text_or("mode", "bilinear")? {
                "nearest" => f::Sampling::Nearest,
                "bicubic" => f::Sampling::Bicubic,
                _ => f::Sampling::Bilinear,
            };
            let padding = match case.text_or("padding_mode", "zeros")? {
                "border" => f::Beyond::Border,
                "reflection" => f::Beyond::Reflection,
                _ => f::Beyond::Zeros,
            };
            one(f::grid_sample(case.tensor(0)?, case.tensor(1)?, f::GridSampleOptions { mode, padding, align_corners: case.bool_or("align_corners", false)? }))
        }
        "affine_grid" => one(f::affine_grid(case.tensor(0)?, sizes(case, "size", 1)?.as_slice(), case.bool_or("align_corners", false)?)),
        "pixel_shuffle" => one(f::pixel_shuffle(case.tensor(0)?, case.size("upscale_factor")?)),
        "pixel_unshuffle" => one(f::pixel_unshuffle(case.tensor(0)?, case.size("downscale_factor")?)),
        "channel_shuffle" => one(f::channel_shuffle(case.tensor(0)?, case.size("groups")?)),
        "pad" => {
            let value = case.maybe_scalar("value")?.unwrap_or(adamant::Scalar::Int(0));
            let mode = match case.text_or("mode", "constant")? {
                "reflect" => f::PadMode::Reflect,
                "replicate" => f::PadMode::Replicate,
                "circular" => f::PadMode::Circular,
                _ => f::PadMode::Constant(value),
            };
            one(f::pad(case.tensor(0)?, &case.sizes("pad")?, mode))
        }
        _ => Ok(None),
    }
}
/// The options of a maximum pooling.
pub fn max_pool(case: &OpCall) -> Result<f::MaxPoolOptions, Error> {
    Ok(f::MaxPoolOptions {
        kernel_size: sizes(case, "kernel_size", 1)?,
        stride: stride(case)?,
        padding: sizes(case, "padding", 0)?,
        dilation: sizes(case, "dilation", 1)?,
        ceil_mode: case.bool_or("ceil_mode", false)?,
    })
}
/// The options of an average pooling.
pub fn avg_pool(case: &OpCall) -> Result<f::AvgPoolOptions, Error> {
    let divisor = case.maybe_int("divisor_override")?.map(|d| usize::try_from(d).map_err(|_| argument("divisor_override is negative".into())));
    Ok(f::AvgPoolOptions {
        kernel_size: sizes(case, "kernel_size", 1)?,
        stride: stride(case)?,
        padding: sizes(case, "padding", 0)?,
        ceil_mode: case.bool_or("ceil_mode", false)?,
        count_include_pad: case.bool_or("count_include_pad", true)?,
        divisor_override: divisor.transpose()?,
    })
}
/// The windows of unfold and fold.
pub fn windows(case: &OpCall) -> Result<f::UnfoldOptions, Error> {
    Ok(f::UnfoldOptions {
        kernel_size: sizes(case, "kernel_size", 1)?,
        stride: sizes(case, "stride", 1)?,
        padding: sizes(case, "padding", 0)?,
        dilation: sizes(case, "dilation", 1)?,
    })
}
/// Height and width of what fold puts together.
pub fn plane(case: &OpCall) -> Result<[usize; 2], Error> {
    let size = sizes(case, "output_size", 1)?;
    Ok([size.as_slice()[0], size.as_slice()[size.as_slice().len() - 1]])
}
/// What an interpolation aims at, and how it goes there.
pub fn resize(case: &OpCall) -> Result<(f::Resize, f::InterpolateOptions), Error> {
    let to = match case.maybe_ints("size")? {
        Some(_) => f::Resize::Size(sizes(case, "size", 1)?.as_slice().to_vec()),
        None => f::Resize::Scale(case.maybe_floats("scale_factor")?.unwrap_or_default()),
    };
    Ok((to, f::InterpolateOptions { mode: case.text_or("mode", "nearest")?.parse()?, align_corners: case.bool_or("align_corners", false)? }))
}
fn stride(case: &OpCall) -> Result<Option<Sizes>, Error> {
    case.value("stride").map(|_| sizes(case, "stride", 1)).transpose()
}
/// The sizes of an adaptive pooling: null keeps an axis, one number stands for all.
pub fn outputs(case: &OpCall, n: usize) -> Result<Vec<Option<usize>>, Error> {
    let given = case.ints_or_null("output_size")?;
    let one = |v: Option<i64>| v.map(|v| usize::try_from(v).map_err(|_| argument(format!("output size {v} is negative")))).transpose();
    let sizes = given.iter().map(|&v| one(v)).collect::<Result<Vec<_>, _>>()?;
    Ok(if sizes.len() == 1 { vec![sizes[0]; n] } else { sizes })
}
