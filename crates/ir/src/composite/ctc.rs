//! The probability of all alignments of a labelling with what a recurrent network emits (Graves et al., 2006), in logarithms, and its
//! gradient.
use super::{Composite, wide::floats};
use crate::{DType, ErrorKind, Shape, TensorType, Types};
use smallvec::smallvec;

/// Stands for the logarithm of 0: finite, so that no difference of two is NaN.
pub const IMPOSSIBLE: f64 = -1e30;

/// Inputs: log-probabilities `[time, batch, classes]` (f32 or f64); of each state of an alignment the class that it emits (i64) and
/// whether it may be reached from the state two before (bool), `[batch, states]`; the steps of time and the labels of each sample, i64
/// `[batch, 1]`. An alignment begins in state 0 or 1, stays or goes on by one state or two at each step, and ends in the last label or
/// behind it, states `2 labels - 1` and `2 labels`. Outputs: the logarithm of the probability of all of them, `[batch, 1]`, no more than
/// [`IMPOSSIBLE`] of none; and, auxiliary, of all that lead to each state at each step, `[time, batch, states]`.
#[derive(Clone, Copy, Debug)]
pub struct CtcAlignments;
/// Inputs: the cotangent of the first output of [`CtcAlignments`], its inputs, its second output. Output: the cotangent of the
/// log-probabilities, which are supposed to be those of a softmax: it is that of what the softmax was taken of.
#[derive(Clone, Copy, Debug)]
pub struct CtcAlignmentsBackward;

fn check(inputs: &[TensorType]) -> Result<(Shape, Shape), ErrorKind> {
    let [emitted, label, skip, steps, labels] = inputs else {
        return Err(ErrorKind::Argument("alignments have log-probabilities, classes, leaps and two lengths".into()));
    };
    floats(emitted)?;
    for (t, dtype) in [(label, DType::I64), (skip, DType::Bool), (steps, DType::I64), (labels, DType::I64)] {
        if t.dtype != dtype {
            return Err(ErrorKind::DtypeMismatch { left: dtype, right: t.dtype });
        }
    }
    let (&[time, n, classes], &[batch, count]) = (&emitted.shape[..], &label.shape[..]) else {
        return Err(ErrorKind::ShapeMismatch { left: emitted.shape, right: label.shape, axes: None, expected: "[time, batch, classes] and [batch, states]" });
    };
    if time * classes * count == 0 || batch != n || skip.shape != label.shape {
        return Err(ErrorKind::ShapeMismatch { left: label.shape, right: skip.shape, axes: None, expected: "states of each sample" });
    }
    let each = Shape::new(&[n, 1])?;
    match [steps, labels].into_iter().find(|t| t.shape != each) {
        Some(t) => Err(ErrorKind::ShapeMismatch { left: each, right: t.shape, axes: None, expected: "a length of each sample" }),
        None => Ok((each, Shape::new(&[time, n, count])?)),
    }
}

impl Composite for CtcAlignments {
    fn name(&self) -> &'static str {
        "adamant.ctc_alignments"
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let (each, states) = check(inputs)?;
        Ok(smallvec![TensorType { shape: each, ..inputs[0] }, TensorType { shape: states, ..inputs[0] }])
    }
    fn auxiliary(&self) -> usize {
        1
    }
    fn can_fault(&self) -> bool {
        true
    }
}
impl Composite for CtcAlignmentsBackward {
    fn name(&self) -> &'static str {
        "adamant.ctc_alignments_backward"
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let [g, of @ .., reached] = inputs else { return Err(ErrorKind::Argument("a gradient of alignments has seven inputs".into())) };
        let (each, states) = check(of)?;
        for (t, shape) in [(g, each), (reached, states)] {
            if t.shape != shape {
                return Err(ErrorKind::ShapeMismatch { left: shape, right: t.shape, axes: None, expected: "what the alignments gave" });
            }
            if t.dtype != of[0].dtype {
                return Err(ErrorKind::DtypeMismatch { left: of[0].dtype, right: t.dtype });
            }
        }
        Ok(smallvec![of[0]])
    }
    fn can_fault(&self) -> bool {
        true
    }
}
