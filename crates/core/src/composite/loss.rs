//! Cross entropy from logits. The rule reads the logits, the targets and two numbers of each row (PyTorch keeps the
//! log-probabilities): the softmax is formed again in the backward, where it is needed anyway, so nothing of the logits'
//! size is written by the forward. Where both run in one window, a device may do both at once, and forms it once. All
//! other losses are short formulas in `functional::loss`.
use super::{
    Attr, Attrs, Composite, Reads, RuleArgs, Saves,
    softmax::shifted_of,
    wide::{floats, one_device, same_dtype, wide},
};
use crate::{Arg, AxisSet, DType, Error, ErrorKind, Meta, Op, Result, Shape, Tensor, composite::Cotangents, op::Metas};
use smallvec::{SmallVec, smallvec};
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
    pub(crate) fn word(self) -> &'static str {
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
    fn from_str(s: &str) -> Result<Reduction> {
        let all = [Reduction::None, Reduction::Mean, Reduction::Sum, Reduction::BatchMean];
        match all.into_iter().find(|r| r.word() == s) {
            Some(reduction) => Ok(reduction),
            None => Err(Error::new("reduction", ErrorKind::Argument(format!("`{s}` is none of none, mean, sum, batchmean")))),
        }
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

/// The class axis of logits.
pub(crate) fn class_axis(shape: &Shape) -> usize {
    usize::from(shape.rank() > 1)
}
/// Do class indices fit the logits?
pub(crate) fn check_classes(x: &Meta, target: &Meta) -> std::result::Result<(), ErrorKind> {
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
pub(crate) fn check_weight(x: &Meta, weight: &Meta) -> std::result::Result<(), ErrorKind> {
    same_dtype(x, weight)?;
    if *weight.shape != [x.shape[class_axis(&x.shape)]] {
        return Err(ErrorKind::ShapeMismatch { left: x.shape, right: weight.shape, axes: None, expected: "one weight per class" });
    }
    Ok(())
}
/// Class indices with the class axis put back: where they take part, and the index to read there (0 where they do not).
pub(crate) struct Classes {
    pub valid: Tensor,
    pub index: Tensor,
}
pub(crate) fn classes(target: &Tensor, x: &Shape, ignore: i64) -> Classes {
    let target = target.reshape(x.with(class_axis(x), 1));
    // Narrow and unsigned targets are compared as i32 or i64, so that any ignored index can be written.
    let dtype = match target.meta().dtype {
        DType::I64 | DType::U32 | DType::U64 => DType::I64,
        _ => DType::I32,
    };
    let target = target.cast(dtype);
    let ignored = match i32::try_from(ignore) {
        Err(_) if dtype == DType::I32 => Tensor::full_on(target.meta().shape, false, DType::Bool, target.meta().device),
        _ => target.eq(crate::Scalar::Int(ignore)),
    };
    Classes { index: ignored.select(crate::Scalar::Int(0), &target), valid: ignored.logical_not() }
}
/// `x[.., index, ..]` along an axis.
pub(crate) fn gather(x: &Tensor, axis: usize, index: &Tensor) -> Tensor {
    Tensor::apply(Op::Gather { axis: axis as u8 }, Arg::None, &[x, index])
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
    /// The class weights as they broadcast to the logits.
    fn weights(&self, inputs: &[Tensor], x: &Shape) -> Option<Tensor> {
        let axis = class_axis(x);
        inputs.get(2).filter(|_| self.weight).map(|w| {
            let dims = Shape::along(axis, x[axis], x.rank());
            w.widened().reshape(dims)
        })
    }
    /// The weight of each target's class.
    fn target_weights(&self, w: &Tensor, index: &Tensor) -> Tensor {
        let shape = index.meta().shape;
        let axis = class_axis(&shape);
        let all = shape.with(axis, w.meta().shape[axis]);
        gather(&w.expand(all), axis, index)
    }
    /// How many elements, or how much weight, a mean divides by.
    fn total(&self, x: &Shape, classes: Option<&Classes>, w: Option<&Tensor>, like: &Tensor) -> Option<Tensor> {
        if self.reduction != Reduction::Mean {
            return None;
        }
        let axis = class_axis(x);
        Some(match classes {
            None => like.full_like(x.with(axis, 1).elements() as f64).reshape(()),
            Some(c) => {
                let valid = c.valid.cast(like.meta().dtype);
                let taken = w.map_or_else(|| valid.clone(), |w| &valid * self.target_weights(w, &c.index));
                taken.sum(..)
            }
        })
    }
    /// The targets as smoothed probabilities of the logits' shape.
    fn smoothed(&self, t: Tensor, n: usize) -> Tensor {
        if self.label_smoothing == 0.0 { t } else { t * (1.0 - self.label_smoothing) + self.label_smoothing / n as f64 }
    }
}

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
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        one_device(inputs)?;
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
        let mut outputs = smallvec![Meta { shape: if self.reduction == Reduction::None { each } else { Shape::SCALAR }, ..x }];
        outputs.extend(std::iter::repeat_n(Meta { shape: each, dtype: wide(x.dtype), ..x }, self.auxiliary()));
        Ok(outputs)
    }
    fn auxiliary(&self) -> usize {
        if self.probabilities { 0 } else { 2 }
    }
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let m = inputs[0].meta();
        let axis = class_axis(&m.shape);
        let n = m.shape[axis];
        if m.shape.elements() == 0 && n > 0 {
            // A mean of nothing is 0 / 0.
            let zero = inputs[0].widened().sum(AxisSet::one(axis));
            let loss = match self.reduction {
                Reduction::None => zero.clone(),
                Reduction::Sum | Reduction::BatchMean => zero.sum(..),
                Reduction::Mean => zero.sum(..) + f64::NAN,
            };
            let mut outputs = vec![loss.cast(m.dtype)];
            outputs.extend(std::iter::repeat_n(zero, self.auxiliary()));
            return Ok(outputs);
        }
        let (shifted, of_rows) = shifted_of(&inputs[0].widened(), axis);
        let log_p = shifted - &of_rows[1];
        let w = self.weights(inputs, &m.shape);
        let weighted = w.as_ref().map_or_else(|| log_p.clone(), |w| &log_p * w);
        let over_classes = |t: Tensor| t.sum_keepdim(AxisSet::one(axis));
        let (each, classes) = if self.probabilities {
            (over_classes(self.smoothed(inputs[1].widened(), n) * &weighted).neg(), None)
        } else {
            let c = classes(&inputs[1], &m.shape, self.ignore_index);
            let mut each = gather(&weighted, axis, &c.index) * -(1.0 - self.label_smoothing);
            if self.label_smoothing > 0.0 {
                each = each - over_classes(weighted) * (self.label_smoothing / n as f64);
            }
            (c.valid.select(&each, 0.0), Some(c))
        };
        let loss = match self.reduction {
            Reduction::None => each.reshape(m.shape.without(axis)),
            Reduction::Sum | Reduction::BatchMean => each.sum(..),
            Reduction::Mean => {
                let sum = each.sum(..);
                match self.total(&m.shape, classes.as_ref(), w.as_ref(), &sum) {
                    Some(total) => sum / total,
                    None => sum,
                }
            }
        };
        let mut outputs = vec![loss.cast(m.dtype)];
        if let Some(classes) = classes {
            outputs.extend(of_rows.map(|t| classes.valid.select(&t, 0.0).reshape(m.shape.without(axis))));
        }
        Ok(outputs)
    }
    fn saves(&self) -> Option<Saves> {
        let outputs = if self.probabilities { 0 } else { 0b110 };
        Some(Saves { outputs, ..Saves::inputs(2 + self.weight as usize) })
    }
    fn joined(&self, later: &dyn Composite, reads: &[Reads]) -> Option<Arc<dyn Composite>> {
        let backward: &CrossEntropyBackward = (later as &dyn Any).downcast_ref()?;
        let inputs = (0..2 + self.weight as usize).map(Reads::Input);
        let of_this = std::iter::once(Reads::Else).chain(inputs).chain((1..=self.auxiliary()).map(Reads::Output));
        let fits = !self.probabilities && backward.0.key() == self.key() && of_this.eq(reads.iter().copied());
        fits.then(|| Arc::new(CrossEntropyWithBackward(*self)) as Arc<dyn Composite>)
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        let mut out = smallvec![None; args.metas.len()];
        let Some(g) = &args.cotangents[0] else { return Ok(out) };
        let mut inputs: SmallVec<[&Tensor; 6]> = smallvec![g];
        for k in 0..args.metas.len() {
            inputs.push(args.input(k)?);
        }
        for k in 0..self.auxiliary() {
            inputs.push(args.output(1 + k)?);
        }
        for (k, d) in Tensor::composite(CrossEntropyBackward(*self), &inputs).into_iter().enumerate() {
            out[k] = args.needs[k].then_some(d);
        }
        Ok(out)
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
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        let mut outputs = self.0.infer(inputs)?;
        outputs.push(inputs[0]);
        Ok(outputs)
    }
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [of_loss @ .., g] = inputs else {
            return Err(Error::new(self.name(), ErrorKind::Internal("no cotangent".into())));
        };
        let mut outputs = self.0.body(of_loss)?;
        let of_backward: Vec<Tensor> = std::iter::once(g).chain(of_loss).chain(&outputs[1..]).cloned().collect();
        outputs.extend(CrossEntropyBackward(self.0).body(&of_backward)?);
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
    fn infer(&self, inputs: &[Meta]) -> std::result::Result<Metas, ErrorKind> {
        Ok(Metas::from_slice(&inputs[1..2 + self.0.probabilities as usize]))
    }
    fn body(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let f = &self.0;
        let (g, inputs) = (inputs[0].widened(), &inputs[1..]);
        let m = inputs[0].meta();
        if m.shape.elements() == 0 {
            return Ok(inputs[..1 + f.probabilities as usize].to_vec());
        }
        let axis = class_axis(&m.shape);
        let n = m.shape[axis];
        let (shifted, [_, log_sum]) = shifted_of(&inputs[0].widened(), axis);
        let w = f.weights(inputs, &m.shape);
        let classes = (!f.probabilities).then(|| classes(&inputs[1], &m.shape, f.ignore_index));
        let mut g = if f.reduction == Reduction::None { g.reshape(m.shape.with(axis, 1)) } else { g };
        if let Some(total) = f.total(&m.shape, classes.as_ref(), w.as_ref(), &g) {
            g = g / total;
        }
        let target = match &classes {
            None => inputs[1].widened(),
            Some(c) => shifted.iota_like(axis, c.index.meta().dtype).eq(&c.index).cast(shifted.meta().dtype),
        };
        let mut q = f.smoothed(target, n);
        if let Some(w) = &w {
            q = q * w;
        }
        // d/dx of -sum_c q_c log_p_c is p sum(q) - q. The exponentials are those of the sum: formed once, they serve both.
        let p = shifted.exp() * log_sum.neg().exp();
        let mut dx = (p * q.sum_keepdim(AxisSet::one(axis)) - &q) * &g;
        if let Some(c) = &classes {
            dx = c.valid.select(&dx, 0.0);
        }
        let mut out = vec![dx.cast(m.dtype)];
        if f.probabilities {
            let log_p = shifted - log_sum;
            let weighted = w.map_or_else(|| log_p.clone(), |w| &log_p * w);
            out.push((weighted * g * (f.label_smoothing - 1.0)).cast(m.dtype));
        }
        Ok(out)
    }
}
