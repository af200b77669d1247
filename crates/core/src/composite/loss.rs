//! Cross entropy from logits. The rule reads the logits, the targets and two numbers of each row (PyTorch keeps the
//! log-probabilities): the softmax is formed again in the backward, where it is needed anyway, so nothing of the logits'
//! size is written by the forward. Where both run in one window, a device may do both at once, and forms it once. All
//! other losses are short formulas in `functional::loss`.
use super::{Composite, Compound, RuleArgs, Saves, softmax::shifted_of};
use crate::{Arg, AxisSet, DType, Error, ErrorKind, Op, Result, Shape, Tensor, composite::Cotangents};
pub use adamant_ir::composite::loss::*;
use smallvec::{SmallVec, smallvec};

/// Class indices with the class axis put back: where they take part, and the index to read there (0 where they do not).
pub(crate) struct ClassIndices {
    pub valid: Tensor,
    pub index: Tensor,
}
pub(crate) fn classes(target: &Tensor, x: &Shape, ignore: i64) -> ClassIndices {
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
    ClassIndices { index: ignored.where_(crate::Scalar::Int(0), &target), valid: ignored.logical_not() }
}
/// `x[.., index, ..]` along an axis.
pub(crate) fn gather(x: &Tensor, axis: usize, index: &Tensor) -> Tensor {
    Tensor::apply(Op::Gather { axis: axis as u8 }, Arg::None, &[x, index])
}

/// The class weights as they broadcast to the logits.
fn weights(of: &CrossEntropy, inputs: &[Tensor], x: &Shape) -> Option<Tensor> {
    let axis = class_axis(x);
    inputs.get(2).filter(|_| of.weight).map(|w| {
        let dims = Shape::along(axis, x[axis], x.rank());
        w.widened().reshape(dims)
    })
}
/// The weight of each target's class.
fn target_weights(_of: &CrossEntropy, w: &Tensor, index: &Tensor) -> Tensor {
    let shape = index.meta().shape;
    let axis = class_axis(&shape);
    let all = shape.with(axis, w.meta().shape[axis]);
    gather(&w.expand(all), axis, index)
}
/// How many elements, or how much weight, a mean divides by.
fn total(of: &CrossEntropy, x: &Shape, classes: Option<&ClassIndices>, w: Option<&Tensor>, like: &Tensor) -> Option<Tensor> {
    if of.reduction != Reduction::Mean {
        return None;
    }
    let axis = class_axis(x);
    Some(match classes {
        None => like.full_like(x.with(axis, 1).elements() as f64).reshape(()),
        Some(c) => {
            let valid = c.valid.cast(like.meta().dtype);
            let taken = w.map_or_else(|| valid.clone(), |w| &valid * target_weights(of, w, &c.index));
            taken.sum(..)
        }
    })
}
/// The targets as smoothed probabilities of the logits' shape.
fn smoothed(of: &CrossEntropy, t: Tensor, n: usize) -> Tensor {
    if of.label_smoothing == 0.0 { t } else { t * (1.0 - of.label_smoothing) + of.label_smoothing / n as f64 }
}
impl Compound for CrossEntropy {
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
        let w = weights(self, inputs, &m.shape);
        let weighted = w.as_ref().map_or_else(|| log_p.clone(), |w| &log_p * w);
        let over_classes = |t: Tensor| t.sum_keepdim(AxisSet::one(axis));
        let (each, classes) = if self.probabilities {
            (over_classes(smoothed(self, inputs[1].widened(), n) * &weighted).neg(), None)
        } else {
            let c = classes(&inputs[1], &m.shape, self.ignore_index);
            let mut each = gather(&weighted, axis, &c.index) * -(1.0 - self.label_smoothing);
            if self.label_smoothing > 0.0 {
                each = each - over_classes(weighted) * (self.label_smoothing / n as f64);
            }
            (c.valid.where_(&each, 0.0), Some(c))
        };
        let loss = match self.reduction {
            Reduction::None => each.reshape(m.shape.without(axis)),
            Reduction::Sum | Reduction::BatchMean => each.sum(..),
            Reduction::Mean => {
                let sum = each.sum(..);
                match total(self, &m.shape, classes.as_ref(), w.as_ref(), &sum) {
                    Some(total) => sum / total,
                    None => sum,
                }
            }
        };
        let mut outputs = vec![loss.cast(m.dtype)];
        if let Some(classes) = classes {
            outputs.extend(of_rows.map(|t| classes.valid.where_(&t, 0.0).reshape(m.shape.without(axis))));
        }
        Ok(outputs)
    }
    fn saves(&self) -> Option<Saves> {
        let outputs = if self.probabilities { 0 } else { 0b110 };
        Some(Saves { outputs, ..Saves::inputs(2 + self.weight as usize) })
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
impl Compound for CrossEntropyWithBackward {
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
impl Compound for CrossEntropyBackward {
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
        let w = weights(f, inputs, &m.shape);
        let classes = (!f.probabilities).then(|| classes(&inputs[1], &m.shape, f.ignore_index));
        let mut g = if f.reduction == Reduction::None { g.reshape(m.shape.with(axis, 1)) } else { g };
        if let Some(total) = total(f, &m.shape, classes.as_ref(), w.as_ref(), &g) {
            g = g / total;
        }
        let target = match &classes {
            None => inputs[1].widened(),
            Some(c) => shifted.iota_like(axis, c.index.meta().dtype).eq(&c.index).cast(shifted.meta().dtype),
        };
        let mut q = smoothed(f, target, n);
        if let Some(w) = &w {
            q = q * w;
        }
        // d/dx of -sum_c q_c log_p_c is p sum(q) - q. The exponentials are those of the sum: formed once, they serve both.
        let p = shifted.exp() * log_sum.neg().exp();
        let mut dx = (p * q.sum_keepdim(AxisSet::one(axis)) - &q) * &g;
        if let Some(c) = &classes {
            dx = c.valid.where_(&dx, 0.0);
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
