//! What attention of GPT-2 and BERT has in common: heads, masks of tokens, the function between two linear maps.
use adamant_core::{
    DType, Error, ErrorKind, Result, Tensor,
    functional::{self, AttentionOptions},
};
use adamant_nn::init;
use serde::Deserialize;

/// The function between the two linear maps of a layer, by transformers' names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub enum HiddenActivation {
    /// x times the normal distribution function
    #[serde(rename = "gelu")]
    Gelu,
    /// GELU by its approximation with tanh (Hendrycks and Gimpel 2016)
    #[serde(rename = "gelu_new", alias = "gelu_pytorch_tanh", alias = "gelu_fast")]
    GeluTanh,
    /// max(x, 0)
    #[serde(rename = "relu")]
    Relu,
    /// x times the logistic function
    #[serde(rename = "silu", alias = "swish")]
    Silu,
    /// the hyperbolic tangent
    #[serde(rename = "tanh")]
    Tanh,
}
impl HiddenActivation {
    #[track_caller]
    pub(crate) fn apply(self, x: &Tensor) -> Tensor {
        match self {
            HiddenActivation::Gelu => x.gelu(),
            HiddenActivation::GeluTanh => x.gelu_tanh(),
            HiddenActivation::Relu => x.relu(),
            HiddenActivation::Silu => x.silu(),
            HiddenActivation::Tanh => x.tanh(),
        }
    }
}

/// `[batch, time, heads · features]` to `[batch, heads, time, features]`.
#[track_caller]
pub(crate) fn split_heads(x: &Tensor, heads: usize) -> Result<Tensor> {
    let [batch, time, width] = x.dims()?;
    Ok(x.reshape([batch, time, heads, width / heads]).transpose(1, 2))
}
/// Which keys queries see.
#[derive(Clone, Copy)]
pub(crate) enum Sight<'a> {
    All,
    /// query i sees the keys 0..=i
    Causal,
    /// true where a key is seen: `[batch or 1, 1, queries or 1, keys]`
    Mask(&'a Tensor),
}
/// Attention over heads, and their outputs side by side: `[batch, heads, time, features]` to `[batch, time, heads · features]`.
/// `dropout` is the probability that a weight is dropped, 0 in evaluation.
#[track_caller]
pub(crate) fn attend(q: &Tensor, k: &Tensor, v: &Tensor, sight: Sight<'_>, scale: f64, dropout: f64) -> Result<Tensor> {
    let rng = if dropout > 0.0 { Some(init::generator(q.device()?)?) } else { None };
    let mask = if let Sight::Mask(mask) = sight { Some(mask) } else { None };
    let options = AttentionOptions {
        mask,
        is_causal: matches!(sight, Sight::Causal),
        scale: Some(scale),
        dropout: rng.as_ref().map(|rng| (dropout, rng)),
        ..Default::default()
    };
    join_heads(&functional::scaled_dot_product_attention(q, k, v, &options))
}
/// `[batch, heads, time, features]` to `[batch, time, heads · features]`.
#[track_caller]
pub(crate) fn join_heads(y: &Tensor) -> Result<Tensor> {
    let [batch, heads, time, features] = y.dims()?;
    y.transpose(1, 2).reshape([batch, time, heads * features]).ok()
}
/// A mask of tokens as transformers has it (not 0: seen), as bools.
#[track_caller]
pub(crate) fn seen(mask: &Tensor) -> Result<Tensor> {
    if mask.dtype()? == DType::Bool { mask.clone().ok() } else { mask.ne(0).ok() }
}
/// A loss over tokens: logits `[batch, time, vocabulary]`, labels `[batch, time]`, of which -100 takes no part.
#[track_caller]
pub(crate) fn token_loss(logits: &Tensor, labels: &Tensor) -> Result<Tensor> {
    let [batch, time, vocabulary] = logits.dims()?;
    functional::cross_entropy(&logits.reshape([batch * time, vocabulary]), &labels.reshape([batch * time]), &Default::default()).ok()
}
/// Checks ids and what has a number for each of them, `[batch, time]`, and gives the two sizes.
#[track_caller]
pub(crate) fn check_tokens(op: &'static str, ids: &Tensor, positions: usize) -> Result<[usize; 2]> {
    let shape = ids.shape()?;
    if shape.rank() != 2 || shape[1] > positions || shape[1] == 0 {
        return Err(Error::new(op, ErrorKind::Shape { shape, expected: format!("[batch, time] with a time from 1 to {positions}") }));
    }
    Ok([shape[0], shape[1]])
}
/// A configuration that describes no network of this crate.
#[track_caller]
pub(crate) fn refuse<T>(op: &'static str, text: impl Into<String>) -> Result<T> {
    Err(Error::new(op, ErrorKind::Argument(text.into())))
}
