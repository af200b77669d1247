//! The dense layer, tables of rows, dropout and the loss that most models end in: thin doors to their composites.
use crate::{
    Rng, Tensor,
    composite::{
        dropout::Dropout,
        embedding::Embedding,
        linear::Linear,
        loss::{CrossEntropy, Reduction},
    },
};

/// `x weightᵀ + bias`: x `[.., in]`, weight `[out, in]`, bias `[out]`, result `[.., out]`.
#[track_caller]
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
    let mut inputs = vec![x, weight];
    inputs.extend(bias);
    Tensor::composite1(Linear, &inputs)
}
/// Rows of a table `[rows, features]` by integer indices of any shape: `[..indices, features]`. The row `padding_idx`
/// gets no gradient. An index out of range is an error when the result is read.
#[track_caller]
pub fn embedding(weight: &Tensor, indices: &Tensor, padding_idx: Option<usize>) -> Tensor {
    Tensor::composite1(Embedding { padding_idx }, &[weight, indices])
}
/// Each element zero with probability p, else divided by 1 - p; the draws come from `rng`, one per element.
#[track_caller]
pub fn dropout(x: &Tensor, p: f64, rng: &Rng) -> Tensor {
    if p == 0.0 || x.error().is_some() {
        return x.clone();
    }
    Tensor::composite1(Dropout { p }, &[x, &rng.key()])
}

/// Options of [`cross_entropy`].
#[derive(Clone, Copy)]
pub struct CrossEntropyOptions<'a> {
    /// a weight per class
    pub weight: Option<&'a Tensor>,
    /// class index that takes no part
    pub ignore_index: i64,
    /// how losses are reduced
    pub reduction: Reduction,
    /// share of the target that is spread evenly over the classes
    pub label_smoothing: f64,
}
impl Default for CrossEntropyOptions<'_> {
    fn default() -> Self {
        CrossEntropyOptions { weight: None, ignore_index: -100, reduction: Reduction::Mean, label_smoothing: 0.0 }
    }
}
/// Cross entropy of logits `[classes]` or `[batch, classes, ..]` with integer class indices (the same shape without
/// the class axis) or, where the target is a float tensor, with probabilities of the logits' shape.
#[track_caller]
pub fn cross_entropy(logits: &Tensor, target: &Tensor, options: &CrossEntropyOptions<'_>) -> Tensor {
    let loss = CrossEntropy {
        probabilities: target.meta().dtype.is_float(),
        ignore_index: options.ignore_index,
        label_smoothing: options.label_smoothing,
        reduction: options.reduction,
        weight: options.weight.is_some(),
    };
    let mut inputs = vec![logits, target];
    inputs.extend(options.weight);
    Tensor::composite1(loss, &inputs)
}
