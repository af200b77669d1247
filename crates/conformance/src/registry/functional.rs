//! Functions of `functional`.
use super::{Entry, FLOAT, INTEGER, NUMBER, SINGLE, WIDE, fixed, given, index, p, samples, v, whole, within};
use adamant_core::{
    DType, Tensor,
    composite::packed::Packing,
    functional::{self as f, *},
};

const MEAN: Reduction = Reduction::Mean;

pub(super) fn samples() -> Vec<Entry> {
    let mut all = layers();
    all.extend(losses());
    all
}
fn layers() -> Vec<Entry> {
    samples! {
        "functional::linear" 2 FLOAT [v(&[2, 3]), v(&[4, 3]), v(&[4])] |x| f::linear(&x[0], &x[1], Some(&x[2])); "shape" => f::linear(&x[0], &x[1].mt(), None),
        "functional::embedding" 2 FLOAT [v(&[5, 3]), index(&[2, 4], 5)] |x| f::embedding(&x[1], &x[0], None); "dtype" => f::embedding(&x[0], &x[0], None),
        "functional::scaled_dot_product_attention" 2 FLOAT [v(&[2, 3, 4]), v(&[2, 5, 4]), v(&[2, 5, 2])] |x| f::scaled_dot_product_attention(&x[0], &x[1], &x[2], &AttentionOptions::default()); "shape" => f::scaled_dot_product_attention(&x[0], &x[1].mt(), &x[2], &AttentionOptions::default()),
        "functional::scaled_dot_product_attention" 2 FLOAT [v(&[2, 3, 4]), v(&[2, 3, 4]), v(&[2, 3, 2])] |x| f::scaled_dot_product_attention(&x[0], &x[1], &x[2], &AttentionOptions { is_causal: true, ..Default::default() }),
        "functional::scaled_dot_product_attention" 2 WIDE [v(&[2, 3, 4]), v(&[2, 3, 4]), v(&[2, 3, 2]), v(&[3, 3])] |x| f::scaled_dot_product_attention(&x[0], &x[1], &x[2], &AttentionOptions { mask: Some(&x[3]), ..Default::default() }),
        "functional::rotary_half" 2 FLOAT [v(&[2, 3, 4]), fixed(v(&[3, 4])), fixed(v(&[3, 4]))] |x| f::rotary_half(&x[0], &x[1], &x[2]),
        "functional::conv1d" 2 FLOAT [v(&[2, 2, 5]), v(&[3, 2, 2]), v(&[3])] |x| f::conv1d(&x[0], &x[1], Some(&x[2]), &ConvOptions::default()); "shape" => f::conv1d(&x[0], &x[1].narrow(1, 0, 1), None, &ConvOptions::default()),
        "functional::conv2d" 2 FLOAT [v(&[1, 2, 4, 4]), v(&[2, 1, 2, 2]), v(&[2])] |x| f::conv2d(&x[0], &x[1], Some(&x[2]), &ConvOptions { stride: 2.into(), padding: Padding::Zeros(1.into()), dilation: 1.into(), groups: 2 }); "shape" => f::conv2d(&x[0], &x[1], None, &ConvOptions::default()),
        "functional::conv3d" 2 WIDE [v(&[1, 1, 2, 3, 2]), v(&[2, 1, 2, 2, 1])] |x| f::conv3d(&x[0], &x[1], None, &ConvOptions::default()); "shape" => f::conv3d(&x[0].reshape([12]), &x[1], None, &ConvOptions::default()),
        "functional::conv_transpose1d" 2 FLOAT [v(&[2, 2, 3]), v(&[2, 3, 2]), v(&[3])] |x| f::conv_transpose1d(&x[0], &x[1], Some(&x[2]), &ConvTransposeOptions { stride: 2.into(), ..Default::default() }); "shape" => f::conv_transpose1d(&x[0], &x[1].narrow(0, 0, 1), None, &ConvTransposeOptions::default()),
        "functional::conv_transpose2d" 2 WIDE [v(&[1, 2, 2, 3]), v(&[2, 1, 2, 2])] |x| f::conv_transpose2d(&x[0], &x[1], None, &ConvTransposeOptions { padding: 1.into(), stride: 2.into(), ..Default::default() }); "shape" => f::conv_transpose2d(&x[0], &x[1].narrow(0, 0, 1), None, &ConvTransposeOptions::default()),
        "functional::conv_transpose3d" 2 WIDE [v(&[1, 1, 2, 1, 2]), v(&[1, 1, 2, 1, 1])] |x| f::conv_transpose3d(&x[0], &x[1], None, &ConvTransposeOptions::default()); "shape" => f::conv_transpose3d(&x[0].reshape([4]), &x[1], None, &ConvTransposeOptions::default()),
        "functional::max_pool1d" 2 FLOAT [v(&[2, 2, 6])] |x| f::max_pool1d(&x[0], &MaxPoolOptions::new(2)); "shape" => f::max_pool1d(&x[0], &MaxPoolOptions::new(9)),
        "functional::max_pool2d" 2 FLOAT [v(&[1, 2, 4, 4])] |x| f::max_pool2d(&x[0], &MaxPoolOptions { padding: 1.into(), ..MaxPoolOptions::new([3, 2]) }); "shape" => f::max_pool2d(&x[0], &MaxPoolOptions::new(9)),
        "functional::max_pool3d" 2 WIDE [v(&[1, 1, 2, 3, 4])] |x| f::max_pool3d(&x[0], &MaxPoolOptions::new(2)); "shape" => f::max_pool3d(&x[0], &MaxPoolOptions::new(9)),
        "functional::max_unpool" 2 FLOAT [v(&[1, 2, 3]), whole(&[1, 2, 3], &[0.0, 3.0, 4.0, 1.0, 2.0, 5.0])] |x| f::max_unpool(&x[0], &x[1], &[6]); "shape" => f::max_unpool(&x[0], &x[1].narrow(2, 0, 2), &[6]),
        "functional::fractional_max_pool" 2 WIDE [v(&[1, 2, 5, 4]), fixed(within(&[1, 2, 2], 0.1, 0.9))] |x| f::fractional_max_pool(&x[0], &FractionalMaxPoolOptions { kernel_size: 2.into(), output_size: [3, 2].into() }, &x[1]); "shape" => f::fractional_max_pool(&x[0], &FractionalMaxPoolOptions { kernel_size: 3.into(), output_size: 4.into() }, &x[1]),
        "functional::conv_tbc" 2 WIDE [v(&[5, 2, 2]), v(&[2, 2, 3]), v(&[3])] |x| f::conv_tbc(&x[0], &x[1], &x[2], 1); "shape" => f::conv_tbc(&x[0], &x[1].narrow(1, 0, 1), &x[2], 0),
        "functional::linear_cross_entropy" 2 WIDE [v(&[3, 2]), v(&[4, 2]), v(&[4]), index(&[3], 4)] |x| f::linear_cross_entropy(&x[0], &x[1], Some(&x[2]), &x[3], &CrossEntropyOptions::default()); "shape" => f::linear_cross_entropy(&x[0], &x[1].mt(), None, &x[3], &CrossEntropyOptions::default()),
        "functional::batch_norm" 2 WIDE [v(&[3, 2, 2]), v(&[2]), v(&[2])] |x| f::batch_norm(&x[0], None, Some(&x[1]), Some(&x[2]), BatchNormOptions { training: true, ..Default::default() }); "shape" => f::batch_norm(&x[0].narrow(0, 0, 1).narrow(2, 0, 1), None, None, None, BatchNormOptions { training: true, ..Default::default() }),
        "functional::avg_pool1d" 2 FLOAT [v(&[2, 2, 6])] |x| f::avg_pool1d(&x[0], &AvgPoolOptions::new(2)); "shape" => f::avg_pool1d(&x[0], &AvgPoolOptions::new(9)),
        "functional::avg_pool2d" 2 FLOAT [v(&[1, 2, 4, 4])] |x| f::avg_pool2d(&x[0], &AvgPoolOptions { padding: 1.into(), count_include_pad: false, ..AvgPoolOptions::new([3, 2]) }); "shape" => f::avg_pool2d(&x[0], &AvgPoolOptions::new(9)),
        "functional::avg_pool3d" 2 WIDE [v(&[1, 1, 2, 3, 4])] |x| f::avg_pool3d(&x[0], &AvgPoolOptions::new(2)); "shape" => f::avg_pool3d(&x[0], &AvgPoolOptions::new(9)),
        "functional::lp_pool1d" 2 WIDE [p(&[2, 2, 6])] |x| f::lp_pool1d(&x[0], 2.0, 2, None, false); "shape" => f::lp_pool1d(&x[0], 2.0, 9, None, false),
        "functional::lp_pool2d" 2 WIDE [p(&[1, 2, 4, 4])] |x| f::lp_pool2d(&x[0], 2.0, 2, None, false); "shape" => f::lp_pool2d(&x[0], 2.0, 9, None, false),
        "functional::lp_pool3d" 2 WIDE [p(&[1, 1, 2, 2, 4])] |x| f::lp_pool3d(&x[0], 2.0, 2, None, false); "shape" => f::lp_pool3d(&x[0], 2.0, 9, None, false),
        "functional::adaptive_avg_pool" 2 WIDE [v(&[1, 2, 5])] |x| f::adaptive_avg_pool(&x[0], &[Some(3)]),
        "functional::adaptive_max_pool" 2 WIDE [v(&[1, 2, 5])] |x| f::adaptive_max_pool(&x[0], &[Some(3)]),
        "functional::layer_norm" 2 FLOAT [v(&[2, 4]), v(&[4]), v(&[4])] |x| f::layer_norm(&x[0], [4], Some(&x[1]), Some(&x[2]), 1e-5); "shape" => f::layer_norm(&x[0], [3], None, None, 1e-5),
        "functional::rms_norm" 2 FLOAT [v(&[2, 4]), v(&[4])] |x| f::rms_norm(&x[0], [4], Some(&x[1]), Some(1e-5)); "shape" => f::rms_norm(&x[0], [3], None, None),
        "functional::group_norm" 2 FLOAT [v(&[2, 4, 3]), v(&[4]), v(&[4])] |x| f::group_norm(&x[0], 2, Some(&x[1]), Some(&x[2]), 1e-5),
        "functional::instance_norm" 2 FLOAT [v(&[2, 2, 4]), v(&[2]), v(&[2])] |x| f::instance_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-5),
        "functional::instance_norm_statistics" 2 WIDE [v(&[2, 2, 4]), v(&[2]), v(&[2])] |x| f::instance_norm_statistics(&x[0], Some(&x[1]), Some(&x[2]), 1e-5).0,
        "functional::batch_norm_training" 2 FLOAT [v(&[3, 2, 2]), v(&[2]), v(&[2])] |x| f::batch_norm_training(&x[0], Some(&x[1]), Some(&x[2]), 1e-5).0,
        "functional::batch_norm_inference" 2 FLOAT [v(&[3, 2, 2]), fixed(v(&[2])), fixed(p(&[2])), v(&[2]), v(&[2])] |x| f::batch_norm_inference(&x[0], &x[1], &x[2], Some(&x[3]), Some(&x[4]), 1e-5),
        "functional::local_response_norm" 2 WIDE [v(&[2, 4, 3])] |x| f::local_response_norm(&x[0], 3, 1e-2, 0.75, 1.0),
        "functional::unfold" 2 FLOAT [v(&[1, 2, 4, 4])] |x| f::unfold(&x[0], &UnfoldOptions::new(2)),
        "functional::fold" 2 FLOAT [v(&[1, 4, 9])] |x| f::fold(&x[0], [4, 4], &UnfoldOptions::new(2)); "shape" => f::fold(&x[0], [9, 9], &UnfoldOptions::new(2)),
        "functional::pixel_shuffle" 2 FLOAT [v(&[1, 4, 2, 3])] |x| f::pixel_shuffle(&x[0], 2),
        "functional::pixel_unshuffle" 2 FLOAT [v(&[1, 1, 4, 2])] |x| f::pixel_unshuffle(&x[0], 2),
        "functional::channel_shuffle" 2 FLOAT [v(&[1, 4, 2])] |x| f::channel_shuffle(&x[0], 2),
        "functional::grid_sample" 2 WIDE [v(&[1, 2, 3, 4]), within(&[1, 2, 3, 2], -0.9, 0.9)] |x| f::grid_sample(&x[0], &x[1], GridSampleOptions::default()),
        "functional::affine_grid" 2 WIDE [v(&[2, 2, 3])] |x| f::affine_grid(&x[0], &[2, 1, 3, 2], true),
        "functional::interpolate" 2 WIDE [v(&[1, 2, 3])] |x| f::interpolate(&x[0], &Resize::Size(vec![5]), InterpolateOptions { mode: InterpolateMode::Linear, align_corners: false }),
        "functional::interpolate" 2 WIDE [v(&[1, 1, 3, 3])] |x| f::interpolate(&x[0], &Resize::Scale(vec![2.0]), InterpolateOptions { mode: InterpolateMode::Bicubic, align_corners: true }),
        "functional::interpolate" 2 WIDE [v(&[1, 2, 3])] |x| f::interpolate(&x[0], &Resize::Size(vec![5]), InterpolateOptions::default()),
        "functional::pad" 2 FLOAT [v(&[1, 2, 4])] |x| f::pad(&x[0], &[1, 2], PadMode::Reflect),
        "functional::pad" 2 FLOAT [v(&[1, 2, 4])] |x| f::pad(&x[0], &[1, 2], PadMode::Replicate),
        "functional::pad" 2 FLOAT [v(&[1, 2, 4])] |x| f::pad(&x[0], &[1, 2], PadMode::Circular),
        "functional::pad" 2 NUMBER [v(&[2, 4])] |x| f::pad(&x[0], &[1, -2], PadMode::default()),
        "functional::fake_quantize_per_tensor" 0 WIDE [v(&[2, 3])] |x| f::fake_quantize_per_tensor(&x[0], 0.1, 0, -8, 7),
        "functional::fake_quantize_per_channel" 0 WIDE [v(&[2, 3]), fixed(p(&[2])), index(&[2], 3)] |x| f::fake_quantize_per_channel(&x[0], &x[1], &x[2], 0, -8, 7),
        "functional::quantize" 0 WIDE [v(&[2, 3])] |x| f::quantize(&x[0], 0.1, 3, DType::I8),
        "functional::dequantize" 0 INTEGER [v(&[2, 3])] |x| f::dequantize(&x[0], 0.1, 3),
        "functional::quantized_linear" 1 SINGLE [v(&[2, 6]), v(&[3])] |x| packed(&x[0], &[3, 6], |w| f::quantized_linear(&x[0], w, Some(&x[1]), QuantizedInput::Float)); "shape" => packed(&x[0], &[3, 5], |w| f::quantized_linear(&x[0], w, None, QuantizedInput::Float)),
        "functional::quantized_conv" 1 SINGLE [v(&[1, 2, 4, 3]), v(&[2])] |x| packed(&x[0], &[2, 1, 2, 2], |w| f::quantized_conv(&x[0], w, Some(&x[1]), &ConvOptions { groups: 2, padding: 1.into(), ..Default::default() }, QuantizedInput::Float)); "shape" => packed(&x[0], &[2, 3, 2, 2], |w| f::quantized_conv(&x[0], w, None, &ConvOptions::default(), QuantizedInput::Float)),
        "functional::quantized_attention" 1 SINGLE [v(&[2, 2, 3, 4])] |x| coded(&x[0], &[2, 1, 5, 4], |k, v| f::quantized_attention(&x[0], k, v, &QuantizedAttentionOptions { is_causal: true, tokens: Some(4), ..Default::default() })); "shape" => coded(&x[0], &[2, 1, 5, 3], |k, v| f::quantized_attention(&x[0], k, v, &QuantizedAttentionOptions::default())),
        "functional::quantized_embedding" 0 SINGLE [index(&[2, 2], 5)] |x| packed(&x[0], &[5, 4], |w| f::quantized_embedding(&x[0], w)),
        "functional::clip_grad_norm" 0 WIDE [v(&[2, 3]), v(&[4])] |x| f::clip_grad_norm(&[&x[0], &x[1]], 1.0, 2.0).0,
    }
}
/// What a function makes of keys and values of 8-bit codes beside an input.
fn coded(beside: &Tensor, shape: &[usize], f: impl FnOnce(&TokenCodes, &TokenCodes) -> Tensor) -> Tensor {
    let device = match beside.device() {
        Ok(device) => device,
        Err(error) => return Tensor::failed(error),
    };
    let numbers = Tensor::arange_on(0i64, shape.iter().product::<usize>() as i64, 1i64, DType::F32, device).reshape(shape);
    let round = |x: Tensor| TokenCodes::round(&x, Packing { bits: 8, group: None, symmetric: true });
    match (round(numbers.sin()), round(numbers.cos())) {
        (Ok(keys), Ok(values)) => f(&keys, &values),
        (Err(error), _) | (_, Err(error)) => Tensor::failed(error),
    }
}
/// What a function makes of a matrix of 8-bit codes beside an input.
fn packed(beside: &Tensor, shape: &[usize], f: impl FnOnce(&PackedWeight) -> Tensor) -> Tensor {
    let device = match beside.device() {
        Ok(device) => device,
        Err(error) => return Tensor::failed(error),
    };
    let numbers = Tensor::arange_on(0i64, shape.iter().product::<usize>() as i64, 1i64, DType::F32, device).sin().reshape(shape);
    PackedWeight::round(&numbers, Packing { bits: 8, group: None, symmetric: true }).map_or_else(Tensor::failed, |w| f(&w))
}
fn losses() -> Vec<Entry> {
    samples! {
        "functional::cross_entropy" 2 FLOAT [v(&[3, 4]), index(&[3], 4)] |x| f::cross_entropy(&x[0], &x[1], &CrossEntropyOptions::default()); "shape" => f::cross_entropy(&x[0], &x[1].narrow(0, 0, 2), &CrossEntropyOptions::default()),
        "functional::cross_entropy" 2 WIDE [v(&[3, 4]), index(&[3], 4), fixed(p(&[4]))] |x| f::cross_entropy(&x[0], &x[1], &CrossEntropyOptions { weight: Some(&x[2]), label_smoothing: 0.1, reduction: Reduction::Sum, ..Default::default() }),
        "functional::nll_loss" 2 FLOAT [v(&[3, 4]), index(&[3], 4)] |x| f::nll_loss(&x[0], &x[1], &NllOptions::default()); "shape" => f::nll_loss(&x[0], &x[1].narrow(0, 0, 2), &NllOptions::default()),
        "functional::multi_margin_loss" 2 WIDE [v(&[3, 4]), index(&[3], 4)] |x| f::multi_margin_loss(&x[0], &x[1], &MultiMarginOptions::default()),
        "functional::multilabel_margin_loss" 2 WIDE [v(&[2, 4]), whole(&[2, 4], &[3.0, 0.0, -1.0, 1.0, 2.0, -1.0, 0.0, 0.0])] |x| f::multilabel_margin_loss(&x[0], &x[1], MEAN),
        "functional::ctc_loss" 2 WIDE [within(&[4, 2, 3], -2.0, -0.5), whole(&[2, 2], &[1.0, 2.0, 2.0, 1.0]), whole(&[2], &[4.0, 4.0]), whole(&[2], &[2.0, 1.0])] |x| f::ctc_loss(&x[0].log_softmax(2), &x[1], &x[2], &x[3], &CtcOptions::default()),
        "functional::mse_loss" 2 FLOAT [v(&[2, 3]), v(&[2, 3])] |x| f::mse_loss(&x[0], &x[1], MEAN); "dtype" => f::mse_loss(&x[0].long(), &x[1].long(), MEAN),
        "functional::l1_loss" 2 FLOAT [v(&[2, 3]), v(&[2, 3])] |x| f::l1_loss(&x[0], &x[1], Reduction::Sum); "dtype" => f::l1_loss(&x[0].long(), &x[1].long(), MEAN),
        "functional::smooth_l1_loss" 2 FLOAT [v(&[2, 3]), v(&[2, 3])] |x| f::smooth_l1_loss(&x[0], &x[1], 0.5, MEAN),
        "functional::huber_loss" 2 FLOAT [v(&[2, 3]), v(&[2, 3])] |x| f::huber_loss(&x[0], &x[1], 0.5, MEAN),
        "functional::binary_cross_entropy" 2 WIDE [within(&[2, 3], 0.1, 0.9), fixed(within(&[2, 3], 0.1, 0.9))] |x| f::binary_cross_entropy(&x[0], &x[1], None, MEAN),
        "functional::binary_cross_entropy_with_logits" 2 FLOAT [v(&[2, 3]), fixed(within(&[2, 3], 0.1, 0.9)), fixed(p(&[3]))] |x| f::binary_cross_entropy_with_logits(&x[0], &x[1], None, Some(&x[2]), MEAN),
        "functional::kl_div" 2 WIDE [v(&[2, 3]), p(&[2, 3])] |x| f::kl_div(&x[0], &x[1], false, Reduction::BatchMean),
        "functional::cosine_embedding_loss" 2 WIDE [v(&[2, 3]), v(&[2, 3]), fixed(given(&[2], &[1.0, -1.0]))] |x| f::cosine_embedding_loss(&x[0], &x[1], &x[2], 0.1, MEAN),
        "functional::margin_ranking_loss" 2 WIDE [v(&[3]), v(&[3]), fixed(given(&[3], &[1.0, -1.0, 1.0]))] |x| f::margin_ranking_loss(&x[0], &x[1], &x[2], 0.3, MEAN),
        "functional::hinge_embedding_loss" 2 WIDE [v(&[3]), fixed(given(&[3], &[1.0, -1.0, 1.0]))] |x| f::hinge_embedding_loss(&x[0], &x[1], 1.0, MEAN),
        "functional::soft_margin_loss" 2 WIDE [v(&[3]), fixed(given(&[3], &[1.0, -1.0, 1.0]))] |x| f::soft_margin_loss(&x[0], &x[1], MEAN),
        "functional::triplet_margin_loss" 2 WIDE [v(&[2, 3]), v(&[2, 3]), v(&[2, 3])] |x| f::triplet_margin_loss(&x[0], &x[1], &x[2], &TripletMarginOptions::default()),
        "functional::triplet_margin_with_distance_loss" 2 WIDE [v(&[2, 3]), v(&[2, 3]), v(&[2, 3])] |x| f::triplet_margin_with_distance_loss(&x[0], &x[1], &x[2], |a, b| (a - b).square().sum(-1), 1.0, true, MEAN); "argument" => f::triplet_margin_with_distance_loss(&x[0], &x[1], &x[2], |a, b| (a - b).square().sum(-1), 0.0, true, MEAN),
        "functional::multilabel_soft_margin_loss" 2 WIDE [v(&[2, 3]), fixed(given(&[2, 3], &[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]))] |x| f::multilabel_soft_margin_loss(&x[0], &x[1], None, MEAN),
        "functional::poisson_nll_loss" 2 WIDE [v(&[2, 3]), fixed(p(&[2, 3]))] |x| f::poisson_nll_loss(&x[0], &x[1], &PoissonNllOptions::default()),
        "functional::gaussian_nll_loss" 2 WIDE [v(&[2, 3]), v(&[2, 3]), p(&[2, 3])] |x| f::gaussian_nll_loss(&x[0], &x[1], &x[2], false, 1e-6, MEAN),
    }
}
