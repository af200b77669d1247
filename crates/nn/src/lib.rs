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
mod attention;
mod batch_norm;
mod conv;
mod dict;
mod dropout;
mod embedding;
pub mod init;
mod linear;
mod loss;
mod norm;
mod param;
mod pool;
mod recurrent;
mod sequential;
mod shape;
mod state;
mod transformer;
mod walk;

pub use activation::{
    Celu, Elu, Gelu, Glu, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, Identity, LeakyRelu, LogSigmoid, LogSoftmax, Mish, PRelu, RRelu, Relu, Relu6, Selu,
    Sigmoid, Silu, Softmax, Softmax2d, Softmin, Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
};
pub use adamant_derive::Module;
pub use attention::{Masks, MultiheadAttention, MultiheadAttentionOptions};
pub use batch_norm::{
    BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d, BatchNormOptions, InstanceNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d,
    with_cumulative_statistics,
};
pub use conv::{Conv, Conv1d, Conv2d, Conv3d, ConvOptions, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, ConvTransposeOptions};
pub use dict::{ModuleDict, ParameterDict};
pub use dropout::{AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d};
pub use embedding::{Embedding, EmbeddingBag, PositionEmbedding};
pub use init::{RngState, manual_seed, rng_state, set_rng_state};
pub use linear::{Bilinear, Linear};
pub use loss::{
    BceLoss, BceWithLogitsLoss, CosineEmbeddingLoss, Criterion, CrossEntropyLoss, CtcLoss, GaussianNllLoss, HingeEmbeddingLoss, HuberLoss, KlDivLoss, L1Loss,
    LinearCrossEntropyLoss, LinearCrossEntropyOptions, MarginRankingLoss, MseLoss, MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, NllLoss,
    PoissonNllLoss, SmoothL1Loss, SoftMarginLoss, TripletMarginLoss, TripletMarginWithDistanceLoss,
};
pub use norm::{GroupNorm, GroupNormOptions, LayerNorm, LayerNormOptions, LocalResponseNorm, RmsNorm, RmsNormOptions};
pub use param::{Param, Role};
pub use pool::{
    AdaptiveAvgPool, AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d,
    AvgPool, AvgPool1d, AvgPool2d, AvgPool3d, MaxPool, MaxPool1d, MaxPool2d, MaxPool3d,
};
pub use recurrent::{Gru, GruCell, Lstm, LstmCell, RecurrentOptions, Rnn, RnnCell, RnnNonlinearity};
pub use sequential::Sequential;
pub use shape::{ChannelShuffle, CosineSimilarity, Flatten, Fold, Pad, PairwiseDistance, PixelShuffle, PixelUnshuffle, Unflatten, Unfold, Upsample};
pub use state::nearest;
pub use transformer::{Activation, Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer, TransformerOptions};
pub use walk::{Module, Site, Visit, Walk, Walker};
