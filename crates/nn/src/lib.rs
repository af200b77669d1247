//! Layers, losses, parameters and initialisers, with PyTorch's constructors, defaults and state-dict names.
//!
//! A model is a struct of its parts with `#[derive(Module)]`; what runs is `forward`. Every layer enters its path
//! before it computes and checks its result before it returns it, so an error names `features.0.conv` and the
//! caller's line. Paths are given when a model is first walked (`parameters()`, `state_dict()`, `train()`, ...).
//!
//! Architecture invariant: this crate names no backend and writes no gradient; it composes functions of core.
#![forbid(unsafe_code)]

extern crate self as adamant_nn;

mod activation;
mod adaptive;
mod attention;
mod batch_norm;
pub mod cache;
mod conv;
mod dict;
mod dropout;
#[doc(hidden)]
pub mod duplicate;
mod embedding;
mod folded;
pub mod hooks;
pub mod init;
mod linear;
mod loss;
mod modules;
mod norm;
mod packed;
mod param;
pub mod parametrize;
mod pool;
mod recurrent;
mod sequence;
mod sequential;
mod shape;
mod site;
mod state;
mod transformer;
mod walk;

pub use activation::{
    Celu, Elu, Gelu, Glu, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, Identity, LeakyRelu, LogSigmoid, LogSoftmax, Mish, PRelu, RRelu, Relu, Relu6, Selu,
    Sigmoid, Silu, Softmax, Softmax2d, Softmin, Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
};
pub use adamant_derive::Module;
pub use adaptive::{AdaptiveLogSoftmaxOptions, AdaptiveLogSoftmaxWithLoss};
pub use attention::{Masks, MultiheadAttention, MultiheadAttentionOptions};
pub use batch_norm::{
    BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d, BatchNormOptions, InstanceNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, counts_all_batches,
    with_cumulative_statistics,
};
pub use cache::{CacheStep, CacheStorage, CachedAttentionOptions, KeyValueCache};
pub use conv::{Conv, Conv1d, Conv2d, Conv3d, ConvOptions, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, ConvTransposeOptions};
pub use dict::{ModuleDict, ParameterDict};
pub use dropout::{AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout};
pub use duplicate::{Boxed, Copies};
pub use embedding::{Embedding, EmbeddingBag, PositionEmbedding};
pub use folded::FoldedNorm;
pub use init::{RngState, manual_seed, rng_state, set_rng_state};
pub use linear::{Bilinear, Linear};
pub use loss::{
    BceLoss, BceWithLogitsLoss, CosineEmbeddingLoss, Criterion, CrossEntropyLoss, CtcLoss, GaussianNllLoss, HingeEmbeddingLoss, HuberLoss, KlDivLoss, L1Loss,
    LinearCrossEntropyLoss, LinearCrossEntropyOptions, MarginRankingLoss, MseLoss, MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, NllLoss,
    PoissonNllLoss, SmoothL1Loss, SoftMarginLoss, TripletMarginLoss, TripletMarginWithDistanceLoss,
};
pub use modules::{ParameterStats, Submodule, glob_matches, parameters_to_vector, vector_to_parameters};
pub use norm::{CrossMapLrn2d, GroupNorm, GroupNormOptions, LayerNorm, LayerNormOptions, LocalResponseNorm, RmsNorm, RmsNormOptions};
pub use packed::{InputCodes, PackedParam};
pub use param::{Param, Role};
pub use pool::{
    AdaptiveAvgPool, AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d,
    AvgPool, AvgPool1d, AvgPool2d, AvgPool3d, FractionalMaxPool, FractionalMaxPool2d, FractionalMaxPool3d, LpPool, LpPool1d, LpPool2d, LpPool3d, MaxPool,
    MaxPool1d, MaxPool2d, MaxPool3d, MaxUnpool, MaxUnpool1d, MaxUnpool2d, MaxUnpool3d,
};
pub use recurrent::{Gru, GruCell, Lstm, LstmCell, RecurrentOptions, Rnn, RnnCell, RnnNonlinearity};
pub use sequence::{PackedSequence, PaddingSide, pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence, unpack_sequence, unpad_sequence};
pub use sequential::Sequential;
pub use shape::{ChannelShuffle, CosineSimilarity, Flatten, Fold, Pad, PairwiseDistance, PixelShuffle, PixelUnshuffle, Unflatten, Unfold, Upsample};
pub use site::{Hooked, Site, SiteCall};
pub use state::{LoadOptions, LoadReport, ShapeDifference, map_keys, nearest};
pub use transformer::{Activation, Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer, TransformerOptions};
pub use walk::{Module, Visit, Walk, Walker};
