//! Layers over space with their options, and the layers and losses with more than a word to choose.
use super::{
    ArgKind::{Flag, Indices, Int, Real, Sample, Shaped, Word},
    Seen, TorchFunction, functions,
    layers::{picture, reduction, signal},
};
use crate::{
    random::Random,
    registry::{fixed, p, v, whole, within},
};
use adamant_core::{
    DType,
    functional::{
        self as f, AvgPoolOptions, BatchNormOptions, Beyond, ConvOptions, ConvTransposeOptions, CrossEntropyOptions, CtcOptions, FractionalMaxPoolOptions,
        GridSampleOptions, InterpolateMode, InterpolateOptions, MaxPoolOptions, Padding, Resize, Sampling, UnfoldOptions,
    },
};

fn volume(_: &Seen, random: &mut Random) -> Vec<usize> {
    let mut shape = vec![random.between(1, 2), random.between(1, 2)];
    shape.extend((0..3).map(|_| random.between(1, 4)));
    shape
}
/// Weights `[out, in, ..]` over as many axes as argument 0 has, of sizes 1 and 2.
fn filters(seen: &Seen, random: &mut Random) -> Vec<usize> {
    let shape = seen.shape(0);
    let mut sizes = vec![random.between(1, 3), shape.get(1).copied().unwrap_or(1)];
    sizes.extend((2..shape.len()).map(|_| random.between(1, 2)));
    sizes
}
/// The same of a transposed convolution: `[in, out, ..]`.
fn transposed(seen: &Seen, random: &mut Random) -> Vec<usize> {
    let mut sizes = filters(seen, random);
    sizes.swap(0, 1);
    sizes
}
fn outputs(seen: &Seen, _: &mut Random) -> Vec<usize> {
    vec![seen.shape(1).get(1).copied().unwrap_or(1)]
}
fn channels(seen: &Seen, _: &mut Random) -> Vec<usize> {
    vec![seen.shape(0).get(1).copied().unwrap_or(1)]
}
fn batched(_: &Seen, random: &mut Random) -> Vec<usize> {
    vec![random.between(1, 3), random.between(1, 3), random.between(1, 4)]
}
fn points(seen: &Seen, random: &mut Random) -> Vec<usize> {
    vec![seen.shape(0).first().copied().unwrap_or(1), random.between(1, 3), random.between(1, 3), 2]
}
fn classes(seen: &Seen, _: &mut Random) -> (Vec<usize>, usize) {
    (vec![seen.shape(0).first().copied().unwrap_or(1)], seen.shape(1).first().copied().unwrap_or(1))
}
fn transposition(a: &super::Args) -> ConvTransposeOptions {
    ConvTransposeOptions { stride: a.size(2).into(), padding: a.size(3).into(), output_padding: a.size(4).into(), dilation: a.size(5).into(), groups: 1 }
}
fn windows(a: &super::Args, first: usize) -> UnfoldOptions {
    UnfoldOptions {
        dilation: a.size(first + 1).into(),
        padding: a.size(first + 2).into(),
        stride: a.size(first + 3).into(),
        ..UnfoldOptions::new(a.size(first))
    }
}
fn mode(word: &str) -> InterpolateMode {
    word.parse().unwrap_or_default()
}
const WAYS: super::ArgKind = Word(&["mean", "sum", "none"]);

pub(super) fn rows() -> Vec<TorchFunction> {
    let mut all = convolutions();
    all.extend(pools());
    all.extend(samples());
    all.extend(others());
    all
}
fn convolutions() -> Vec<TorchFunction> {
    functions! {
        "functional::conv3d" "F.conv3d(x[0], x[1], stride=x[2], padding=x[3])" [Shaped(volume), Shaped(filters), Int(1, 2), Int(0, 1)] |a| f::conv3d(&a.t(0), &a.t(1), None, &ConvOptions { stride: a.size(2).into(), padding: Padding::Zeros(a.size(3).into()), ..Default::default() }),
        "functional::conv_transpose1d" "F.conv_transpose1d(x[0], x[1], x[6], stride=x[2], padding=x[3], output_padding=x[4], dilation=x[5])" [Shaped(batched), Shaped(transposed), Int(1, 3), Int(0, 1), Int(0, 1), Int(1, 2), Shaped(outputs)] |a| f::conv_transpose1d(&a.t(0), &a.t(1), Some(&a.t(6)), &transposition(a)),
        "functional::conv_transpose2d" "F.conv_transpose2d(x[0], x[1], stride=x[2], padding=x[3], output_padding=x[4], dilation=x[5])" [Shaped(picture), Shaped(transposed), Int(1, 3), Int(0, 1), Int(0, 1), Int(1, 2)] |a| f::conv_transpose2d(&a.t(0), &a.t(1), None, &transposition(a)),
        "functional::conv_transpose3d" "F.conv_transpose3d(x[0], x[1], stride=x[2], padding=x[3], output_padding=x[4], dilation=x[5])" [Shaped(volume), Shaped(transposed), Int(1, 2), Int(0, 1), Int(0, 1), Int(1, 2)] |a| f::conv_transpose3d(&a.t(0), &a.t(1), None, &transposition(a)),
    }
}
fn pools() -> Vec<TorchFunction> {
    functions! {
        "functional::max_pool3d" "F.max_pool3d(x[0], x[1], stride=x[2], ceil_mode=x[3], return_indices=True)" [Shaped(volume), Int(1, 3), Int(1, 2), Flag] |a| f::max_pool3d(&a.t(0), &MaxPoolOptions { stride: Some(a.size(2).into()), ceil_mode: a.flag(3), ..MaxPoolOptions::new(a.size(1)) }),
        "functional::avg_pool3d" "F.avg_pool3d(x[0], x[1], x[2], padding=x[3], ceil_mode=x[4], count_include_pad=x[5])" [Shaped(volume), Int(1, 3), Int(1, 2), Int(0, 1), Flag, Flag] |a| f::avg_pool3d(&a.t(0), &AvgPoolOptions { stride: Some(a.size(2).into()), padding: a.size(3).into(), ceil_mode: a.flag(4), count_include_pad: a.flag(5), ..AvgPoolOptions::new(a.size(1)) }),
        "functional::fractional_max_pool" "F.fractional_max_pool2d(x[0], 2, output_size=(3, 2), return_indices=True, _random_samples=x[1])" [Sample(v(&[1, 2, 5, 4])), Sample(fixed(within(&[1, 2, 2], 0.1, 0.9)))] |a| f::fractional_max_pool(&a.t(0), &FractionalMaxPoolOptions { kernel_size: 2.into(), output_size: [3, 2].into() }, &a.t(1)),
    }
}
fn samples() -> Vec<TorchFunction> {
    functions! {
        "functional::unfold" "F.unfold(x[0], x[1], x[2], x[3], x[4])" [Shaped(picture), Int(1, 3), Int(1, 2), Int(0, 1), Int(1, 2)] |a| f::unfold(&a.t(0), &windows(a, 1)),
        "functional::fold" "F.fold(x[0], (4, 4), x[1], x[2], x[3], x[4])" [Sample(v(&[1, 4, 9])), Int(2, 2), Int(1, 1), Int(0, 1), Int(1, 2)] |a| f::fold(&a.t(0), [4, 4], &windows(a, 1)),
        "functional::grid_sample" "F.grid_sample(x[0], x[1], mode=x[2], padding_mode=x[3], align_corners=x[4])" [Shaped(picture), Shaped(points), Word(&["bilinear", "nearest", "bicubic"]), Word(&["zeros", "border", "reflection"]), Flag] |a| f::grid_sample(&a.t(0), &a.t(1), GridSampleOptions {
            mode: match a.word(2) {
                "nearest" => Sampling::Nearest,
                "bicubic" => Sampling::Bicubic,
                _ => Sampling::Bilinear,
            },
            padding: match a.word(3) {
                "border" => Beyond::Border,
                "reflection" => Beyond::Reflection,
                _ => Beyond::Zeros,
            },
            align_corners: a.flag(4),
        }),
        "functional::interpolate" "F.interpolate(x[0], x[1], mode=x[2])" [Shaped(signal), Int(1, 6), Word(&["nearest", "nearest-exact", "linear", "area"])] |a| f::interpolate(&a.t(0), &Resize::Size(vec![a.size(1)]), InterpolateOptions { mode: mode(a.word(2)), align_corners: false }),
        "functional::interpolate" "F.interpolate(x[0], scale_factor=x[1], mode=x[2])" [Shaped(picture), Real(&[0.5, 1.5, 2.0]), Word(&["nearest", "nearest-exact", "area", "bilinear", "bicubic"])] |a| f::interpolate(&a.t(0), &Resize::Scale(vec![a.real(1)]), InterpolateOptions { mode: mode(a.word(2)), align_corners: false }),
        "functional::interpolate" "F.interpolate(x[0], (x[1], x[2]), mode=x[3], align_corners=x[4])" [Shaped(picture), Int(1, 5), Int(1, 5), Word(&["bilinear", "bicubic"]), Flag] |a| f::interpolate(&a.t(0), &Resize::Size(vec![a.size(1), a.size(2)]), InterpolateOptions { mode: mode(a.word(3)), align_corners: a.flag(4) }),
    }
}
fn others() -> Vec<TorchFunction> {
    functions! {
        "functional::batch_norm" "F.batch_norm(x[0], None, None, x[1], x[2], True)" [Shaped(batched), Shaped(channels), Shaped(channels)] |a| f::batch_norm(&a.t(0), None, Some(&a.t(1)), Some(&a.t(2)), BatchNormOptions { training: true, ..Default::default() }),
        "functional::batch_norm_training" "F.batch_norm(x[0], None, None, x[1], x[2], True)" [Shaped(batched), Shaped(channels), Shaped(channels)] |a| f::batch_norm_training(&a.t(0), Some(&a.t(1)), Some(&a.t(2)), 1e-5).0,
        "functional::instance_norm_statistics" "F.instance_norm(x[0], None, None, x[1], x[2])" [Sample(v(&[2, 2, 4])), Sample(v(&[2])), Sample(v(&[2]))] |a| f::instance_norm_statistics(&a.t(0), Some(&a.t(1)), Some(&a.t(2)), 1e-5).0,
        "functional::linear_cross_entropy" "F.cross_entropy(F.linear(x[0], x[1], x[2]), x[3], reduction=x[4], label_smoothing=x[5])" [Sample(v(&[3, 2])), Sample(v(&[4, 2])), Sample(v(&[4])), Indices(classes), WAYS, Real(&[0.0, 0.1])] |a| f::linear_cross_entropy(&a.t(0), &a.t(1), Some(&a.t(2)), &a.t(3), &CrossEntropyOptions { reduction: reduction(a.word(4)), label_smoothing: a.real(5), ..Default::default() }),
        "functional::ctc_loss" "F.ctc_loss(x[0].log_softmax(2), below(x[1], 3), x[2], x[3], reduction=x[4], zero_infinity=x[5])" [Sample(within(&[4, 2, 3], -2.0, -0.5)), Sample(whole(&[2, 2], &[1.0, 2.0, 2.0, 1.0])), Sample(whole(&[2], &[4.0, 4.0])), Sample(whole(&[2], &[2.0, 1.0])), WAYS, Flag] |a| f::ctc_loss(&a.t(0).log_softmax(2), &a.t(1), &a.t(2), &a.t(3), &CtcOptions { reduction: reduction(a.word(4)), zero_infinity: a.flag(5), ..Default::default() }),
        "functional::triplet_margin_with_distance_loss" "F.triplet_margin_with_distance_loss(x[0], x[1], x[2], distance_function=lambda a, b: (a - b).square().sum(-1), margin=x[3], swap=x[4], reduction=x[5])" [Sample(v(&[2, 3])), Sample(v(&[2, 3])), Sample(v(&[2, 3])), Real(&[0.5, 1.0]), Flag, WAYS] |a| f::triplet_margin_with_distance_loss(&a.t(0), &a.t(1), &a.t(2), |a, b| (a - b).square().sum(-1), a.real(3), a.flag(4), reduction(a.word(5))),
        "functional::clip_grad_norm" "clipped(x[0], x[1], x[2], x[3])" [Sample(v(&[2, 3])), Sample(p(&[4])), Real(&[0.5, 1.0, 9.0]), Real(&[1.0, 2.0])] |a| f::clip_grad_norm(&[&a.t(0), &a.t(1)], a.real(2), a.real(3)).0,
        "functional::quantize" "torch.quantize_per_tensor(x[0], 0.1, 3, torch.qint8).int_repr()" [Sample(v(&[2, 3]))] |a| f::quantize(&a.t(0), 0.1, 3, DType::I8),
        "functional::dequantize" "torch._make_per_tensor_quantized_tensor(x[0].to(torch.int32), 0.1, 3).dequantize()" [Indices(|_, _| (vec![2, 3], 9))] |a| f::dequantize(&a.t(0), 0.1, 3),
    }
}
