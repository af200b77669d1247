//! The dense layer, tables of rows, dropout and the loss that most models end in: calls of their composites.
use crate::{
    DType, ErrorKind, Rng, Tensor,
    composite::{
        dropout::Dropout,
        embedding::Embedding,
        linear::Linear,
        loss::{CrossEntropy, Reduction},
        wide::{floats, wide},
    },
    scope::call,
    tensor::compose::{compose, refuse},
};
use smallvec::{SmallVec, smallvec};

/// `x weightᵀ + bias`: x `[.., in]`, weight `[out, in]`, bias `[out]`, result `[.., out]`.
#[track_caller]
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
    let mut inputs: SmallVec<[&Tensor; 3]> = smallvec![x, weight];
    inputs.extend(bias);
    Tensor::composite1(Linear, &inputs)
}
/// Rows of the table `weight` `[rows, features]` by integer indices of any shape: `[..indices, features]`. The row
/// `padding_idx` gets no gradient. An index out of range is an error when the result is read.
#[track_caller]
pub fn embedding(indices: &Tensor, weight: &Tensor, padding_idx: Option<usize>) -> Tensor {
    Tensor::composite1(Embedding { padding_idx }, &[weight, indices])
}
/// Each element zero with probability p, else divided by 1 - p; the draws come from `rng`, one per element.
#[track_caller]
pub fn dropout(x: &Tensor, p: f64, rng: &Rng) -> Tensor {
    let _call = call("dropout");
    if p == 0.0 || x.error().is_some() {
        return x.clone();
    }
    Tensor::composite1(Dropout { p }, &[x, &rng.key()])
}

/// As [`dropout`], with one draw for each channel of x `[batch, channels, ..]`, which is dropped whole (Tompson et al.,
/// 2015).
#[track_caller]
pub fn feature_dropout(x: &Tensor, p: f64, rng: &Rng) -> Tensor {
    compose("feature_dropout", &[x], || {
        let m = floats(&x.meta())?;
        if m.shape.rank() < 2 {
            return Err(ErrorKind::Shape { shape: m.shape, expected: "[batch, channels, ..]".into() }.into());
        }
        let mut dims = vec![1; m.shape.rank()];
        dims[..2].copy_from_slice(&m.shape[..2]);
        let ones = Tensor::full_on(dims, 1, wide(m.dtype), m.device);
        Ok((x.widened() * dropout(&ones, p, rng)).cast(m.dtype))
    })
}
/// Dropout that keeps mean and variance of standard normal inputs: dropped elements become the limit of SELU at -inf,
/// and all are scaled and moved back (Klambauer et al., 2017).
#[track_caller]
pub fn alpha_dropout(x: &Tensor, p: f64, rng: &Rng) -> Tensor {
    compose("alpha_dropout", &[x], || {
        let m = floats(&x.meta())?;
        if !(0.0..=1.0).contains(&p) {
            return refuse(format!("a probability lies between 0 and 1, not {p}"));
        }
        if p == 0.0 || p == 1.0 {
            return Ok(if p == 0.0 { x.clone() } else { x * 0.0 });
        }
        Ok(dropped_to_limit(x, &rng.uniform(m.shape, DType::F32).ge(p), p).cast(m.dtype))
    })
}

/// As [`alpha_dropout`], with one draw for each channel of x `[batch, channels, ..]`, which is dropped whole.
///
/// # Errors
/// Fewer than two axes; no float; a number that is no probability.
///
/// Source: `torch.nn.functional.feature_alpha_dropout`.
#[track_caller]
pub fn feature_alpha_dropout(x: &Tensor, p: f64, rng: &Rng) -> Tensor {
    compose("feature_alpha_dropout", &[x], || {
        let m = floats(&x.meta())?;
        if m.shape.rank() < 2 {
            return Err(ErrorKind::Shape { shape: m.shape, expected: "[batch, channels, ..]".into() }.into());
        }
        if !(0.0..=1.0).contains(&p) {
            return refuse(format!("a probability lies between 0 and 1, not {p}"));
        }
        if p == 0.0 || p == 1.0 {
            return Ok(if p == 0.0 { x.clone() } else { x * 0.0 });
        }
        let mut dims = vec![1; m.shape.rank()];
        dims[..2].copy_from_slice(&m.shape[..2]);
        Ok(dropped_to_limit(x, &rng.uniform(dims, DType::F32).ge(p), p).cast(m.dtype))
    })
}
/// What is not kept becomes SELU's limit at -inf, and all are scaled and moved so that mean and variance stay.
#[track_caller]
fn dropped_to_limit(x: &Tensor, keep: &Tensor, p: f64) -> Tensor {
    const LIMIT: f64 = -1.758_099_340_847_376_6;
    let scale = 1.0 / ((1.0 - p) * (1.0 + p * LIMIT * LIMIT)).sqrt();
    keep.where_(x.widened(), LIMIT) * scale - scale * p * LIMIT
}

/// [`cross_entropy`] of [`linear`]: x `[in]` or `[batch, in]`, weight `[classes, in]`, bias `[classes]`.
///
/// ```
/// # use adamant_core::{Device, Tensor, functional::linear_cross_entropy};
/// # Device::reference().make_current();
/// let (x, weight) = (Tensor::ones([3, 2]), Tensor::zeros([4, 2]));
/// let loss = linear_cross_entropy(&x, &weight, None, &Tensor::from_vec(vec![0i64, 1, 3], [3]), &Default::default());
/// assert!((loss.item::<f32>()? - 4f32.ln()).abs() < 1e-6);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Those of both.
///
/// Source: `torch.nn.functional.linear_cross_entropy`.
#[track_caller]
pub fn linear_cross_entropy(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, target: &Tensor, options: &CrossEntropyOptions<'_>) -> Tensor {
    compose("linear_cross_entropy", &[x, weight, target], || {
        let shape = weight.meta().shape;
        if shape.first() == Some(&0) {
            return Err(ErrorKind::Shape { shape, expected: "a weight [classes, features] of at least one class".into() }.into());
        }
        Ok(cross_entropy(&linear(x, weight, bias), target, options))
    })
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
    let mut inputs: SmallVec<[&Tensor; 3]> = smallvec![logits, target];
    inputs.extend(options.weight);
    Tensor::composite1(loss, &inputs)
}
