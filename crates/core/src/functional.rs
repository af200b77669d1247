//! Functions of deep learning under the names of `torch.nn.functional`: free functions of tensors and options, one
//! file per family. Element-wise activations are methods of [`Tensor`](crate::Tensor). Like all building they never
//! fail: what PyTorch refuses becomes a failed tensor that says why.
mod attention;
mod classes;
mod conv;
mod fold;
mod fractional;
mod grid;
mod interpolate;
mod linear;
mod loss;
mod norm;
mod packed;
mod padding;
mod pool;
mod quantize;
mod sizes;
mod token_codes;

pub use crate::composite::loss::Reduction;
pub use attention::{AttentionOptions, rotary_half, scaled_dot_product_attention};
pub use classes::{CtcOptions, MultiMarginOptions, NllOptions, ctc_loss, multi_margin_loss, multilabel_margin_loss, nll_loss};
pub use conv::{
    ConvOptions, ConvTransposeOptions, Padding, conv_tbc, conv_transpose1d, conv_transpose2d, conv_transpose3d, conv1d, conv2d, conv3d, quantized_conv,
};
pub use fold::{UnfoldOptions, channel_shuffle, fold, pixel_shuffle, pixel_unshuffle, unfold};
pub use fractional::{FractionalMaxPoolOptions, fractional_max_pool};
pub use grid::{Beyond, GridSampleOptions, Sampling, affine_grid, grid_sample};
pub use interpolate::{InterpolateMode, InterpolateOptions, Resize, interpolate};
pub use linear::{CrossEntropyOptions, alpha_dropout, cross_entropy, dropout, embedding, feature_alpha_dropout, feature_dropout, linear, linear_cross_entropy};
pub use loss::{
    BinaryCrossEntropy, PoissonNllOptions, TripletMarginOptions, binary_cross_entropy, binary_cross_entropy_with_logits, cosine_embedding_loss,
    gaussian_nll_loss, hinge_embedding_loss, huber_loss, kl_div, l1_loss, margin_ranking_loss, mse_loss, multilabel_soft_margin_loss, poisson_nll_loss,
    smooth_l1_loss, soft_margin_loss, triplet_margin_loss, triplet_margin_with_distance_loss,
};
pub use norm::{
    BatchNormOptions, batch_norm, batch_norm_inference, batch_norm_training, group_norm, instance_norm, instance_norm_statistics, layer_norm,
    local_response_norm, rms_norm,
};
pub use packed::{PackedWeight, QuantizedInput, quantized_embedding, quantized_linear};
pub use padding::{PadMode, pad};
pub use pool::{
    AvgPoolOptions, MaxPoolOptions, adaptive_avg_pool, adaptive_max_pool, avg_pool1d, avg_pool2d, avg_pool3d, lp_pool1d, lp_pool2d, lp_pool3d, max_pool1d,
    max_pool2d, max_pool3d, max_unpool,
};
pub use quantize::{clip_grad_norm, dequantize, fake_quantize_per_channel, fake_quantize_per_tensor, quantize};
pub use sizes::Sizes;
pub use token_codes::{QuantizedAttentionOptions, TokenCodes, quantized_attention};
