//! Layers in pieces: each rank of a group holds a piece of a layer's weights and computes with it, and all have the same rows.
//!
//! [`parallelize`] does it to an ordinary model from outside, by patterns over the paths of its modules: parameters are cut to this rank's
//! pieces, and hooks around the layers exchange what has to be exchanged. The model is built alike on every rank (one seed), so that the
//! pieces are those of the model that one process would have.
//!
//! ```text
//!               Column                        Row
//! x, alike --> [replicate] x W1ᵀ + b1 --> h, cut --> h W2ᵀ [all-reduce] + b2 --> y, alike
//! ```
//!
//! With a sequence axis ([`TensorOptions::sequence_axis`]) what lies between such pairs is cut along the sequence: the first exchange gathers the
//! sequence, the second scatters it, and norms, dropout and residuals in between work on a slice each (style [`ParallelStyle::Apart`]).
//!
//! Sources: Shoeybi et al. 2019 (Megatron-LM), Korthikanti et al. 2022 (sequence parallel).
mod around;
mod cut;
mod layers;
mod loss;
mod random;
mod styles;

pub use cut::{CutParam, Sharding};
pub use layers::{ColumnLinear, RowLinear, VocabularyEmbedding};
pub use loss::{VocabularyCrossEntropy, VocabularyLossOptions, vocabulary_cross_entropy};
pub use random::rank_stream;
pub(crate) use random::{StreamAround, stage_stream};
pub use styles::{ParallelStyle, TensorOptions, parallelize, parallelize_with};
