//! Cross entropy from logits, and its gradient, apart or at once.
use super::{
    Attr, Attrs, Composite, Reads,
    wide::{floats, same_dtype, wide},
};
use crate::{Error, ErrorKind, Shape, TensorType, Types};
use smallvec::smallvec;
use std::{any::Any, sync::Arc};

/// How the losses of the elements become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reduction {
    /// Not at all: one loss per element.
    None,
    /// Their mean (weighted where classes have weights).
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// Their sum divided by the size of the first axis: the mean of a divergence over the batch.
    BatchMean,
}
impl Reduction {
    /// PyTorch's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Reduction::None => "none",
            Reduction::Mean => "mean",
            Reduction::Sum => "sum",
            Reduction::BatchMean => "batchmean",
        }
    }
}
impl std::str::FromStr for Reduction {
    type Err = Error;
    /// From PyTorch's word: `none`, `mean`, `sum`, `batchmean`.
    #[track_caller]
    fn from_str(s: &str) -> Result<Reduction, Error> {
        let all = [Reduction::None, Reduction::Mean, Reduction::Sum, Reduction::BatchMean];
        match all.into_iter().find(|r| r.word() == s) {
            Some(reduction) => Ok(reduction),
            None => Err(Error::new("reduction", ErrorKind::Argument(format!("`{s}` is none of none, mean, sum, batchmean")))),
        }
    }
}
/// The class axis of logits.
pub fn class_axis(shape: &Shape) -> usize {
    usize::from(shape.rank() > 1)
}
/// Do class indices fit the logits?
///
/// # Errors
/// They do not.
pub fn check_classes(x: &TensorType, target: &TensorType) -> Result<(), ErrorKind> {
    if x.shape.rank() == 0 {
        return Err(ErrorKind::Shape { shape: x.shape, expected: "[classes] or [batch, classes, ..]".into() });
    }
    if !target.dtype.is_int() {
        return Err(ErrorKind::Dtype(format!("class indices are integers, not {} (probabilities have the input's shape)", target.dtype)));
    }
    let wanted = x.shape.without(class_axis(&x.shape));
    if target.shape != wanted {
        return Err(ErrorKind::ShapeMismatch {
            left: x.shape,
            right: target.shape,
            axes: None,
            expected: "targets have the input's shape without the class axis",
        });
    }
    Ok(())
}
/// Do class weights fit the logits?
///
/// # Errors
/// They do not.
pub fn check_weight(x: &TensorType, weight: &TensorType) -> Result<(), ErrorKind> {
    same_dtype(x, weight)?;
    if *weight.shape != [x.shape[class_axis(&x.shape)]] {
        return Err(ErrorKind::ShapeMismatch { left: x.shape, right: weight.shape, axes: None, expected: "one weight per class" });
    }
    Ok(())
}
impl CrossEntropy {
    fn attributes(&self) -> Attrs {
        smallvec![
            ("probabilities", Attr::Bool(self.probabilities)),
            ("ignore_index", Attr::Int(self.ignore_index)),
            ("label_smoothing", Attr::Float(self.label_smoothing)),
            ("reduction", Attr::Text(self.reduction.word().into())),
            ("weight", Attr::Bool(self.weight)),
        ]
    }
}

/// Inputs: logits `[classes]` or `[batch, classes, ..]`; targets: integer class indices of that shape without the class
/// axis, or probabilities of the logits' shape; then a weight per class where there is one. Outputs: the loss and, with
/// class indices, auxiliary and of the targets' shape: the largest logit of each row, and the logarithm of the sum of
/// `exp(logit - largest)`; both 0 for a row that takes no part.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropy {
    /// are the targets probabilities?
    pub probabilities: bool,
    /// targets of this index take no part (class indices only)
    pub ignore_index: i64,
    /// share of the target that is spread evenly over the classes
    pub label_smoothing: f64,
    /// how losses are reduced
    pub reduction: Reduction,
    /// is there a weight?
    pub weight: bool,
}

/// Inputs: the loss's cotangent, the inputs of [`CrossEntropy`] and its auxiliary outputs. Those follow from the logits: a
/// kernel saves a pass by them, and the body, through which second derivatives go, forms them again. Outputs: the
/// cotangent of the logits and, for probabilities, that of the targets.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropyBackward(pub CrossEntropy);

/// [`CrossEntropy`] and its backward at once. Inputs: those of the loss, then its cotangent. Outputs: those of the loss,
/// then the cotangent of the logits. With class indices only.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropyWithBackward(pub CrossEntropy);

impl Composite for CrossEntropy {
    fn name(&self) -> &'static str {
        "adamant.cross_entropy"
    }
    fn attrs(&self) -> Attrs {
        self.attributes()
    }
    fn can_fault(&self) -> bool {
        !self.probabilities
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let (x, t) = (floats(&inputs[0])?, &inputs[1]);
        if !(0.0..=1.0).contains(&self.label_smoothing) {
            return Err(ErrorKind::Argument(format!("label_smoothing lies between 0 and 1, not {}", self.label_smoothing)));
        }
        if self.reduction == Reduction::BatchMean {
            return Err(ErrorKind::Argument("a cross entropy is reduced by none, mean or sum".into()));
        }
        if self.probabilities {
            same_dtype(&x, t)?;
            if t.shape != x.shape || x.shape.rank() == 0 {
                return Err(ErrorKind::ShapeMismatch {
                    left: x.shape,
                    right: t.shape,
                    axes: None,
                    expected: "probabilities have the input's shape, with a class axis",
                });
            }
        } else {
            check_classes(&x, t)?;
        }
        if self.weight {
            check_weight(&x, &inputs[2])?;
        }
        let each = x.shape.without(class_axis(&x.shape));
        let mut outputs = smallvec![TensorType { shape: if self.reduction == Reduction::None { each } else { Shape::SCALAR }, ..x }];
        outputs.extend(std::iter::repeat_n(TensorType { shape: each, dtype: wide(x.dtype) }, self.auxiliary()));
        Ok(outputs)
    }
    fn auxiliary(&self) -> usize {
        if self.probabilities { 0 } else { 2 }
    }
    fn joined(&self, later: &dyn Composite, reads: &[Reads]) -> Option<Arc<dyn Composite>> {
        let backward: &CrossEntropyBackward = (later as &dyn Any).downcast_ref()?;
        let inputs = (0..2 + self.weight as usize).map(Reads::Input);
        let of_this = std::iter::once(Reads::Else).chain(inputs).chain((1..=self.auxiliary()).map(Reads::Output));
        let fits = !self.probabilities && backward.0.key() == self.key() && of_this.eq(reads.iter().copied());
        fits.then(|| Arc::new(CrossEntropyWithBackward(*self)) as Arc<dyn Composite>)
    }
}

impl Composite for CrossEntropyWithBackward {
    fn name(&self) -> &'static str {
        "adamant.cross_entropy_with_backward"
    }
    fn attrs(&self) -> Attrs {
        self.0.attributes()
    }
    fn can_fault(&self) -> bool {
        self.0.can_fault()
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        let mut outputs = self.0.infer(inputs)?;
        outputs.push(inputs[0]);
        Ok(outputs)
    }
}

impl Composite for CrossEntropyBackward {
    fn name(&self) -> &'static str {
        "adamant.cross_entropy_backward"
    }
    fn attrs(&self) -> Attrs {
        self.0.attributes()
    }
    fn can_fault(&self) -> bool {
        self.0.can_fault()
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        Ok(Types::from_slice(&inputs[1..2 + self.0.probabilities as usize]))
    }
}
