//! Functions of deep learning under the names of `torch.nn.functional`: free functions of tensors and options, one
//! file per family. Element-wise activations are methods of [`Tensor`](crate::Tensor). Like all building they never
//! fail: what PyTorch refuses becomes a failed tensor that says why.
mod attention;
mod conv;
mod linear;
mod norm;
mod pool;
mod sizes;

pub use crate::composite::loss::Reduction;
pub use attention::{AttentionOptions, scaled_dot_product_attention};
pub use conv::{Conv, ConvTranspose, Padding, conv_transpose1d, conv_transpose2d, conv_transpose3d, conv1d, conv2d, conv3d};
pub use linear::{CrossEntropyOptions, cross_entropy, dropout, embedding, linear};
pub use norm::{batch_norm_inference, batch_norm_training, group_norm, instance_norm, instance_norm_statistics, layer_norm, local_response_norm, rms_norm};
pub use pool::{AvgPool, MaxPool, adaptive_avg_pool, adaptive_max_pool, avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d};
pub use sizes::Sizes;
