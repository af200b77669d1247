//! Losses whose targets are class indices. An index out of range is an error that names it, when the loss is read.
use super::loss::reduce;
use crate::{Arg, Op, Scalar, Shape};
use crate::{
    DType, ErrorKind, Meta, Tensor,
    composite::{
        ctc::{CtcAlignments, IMPOSSIBLE},
        loss::{Reduction, check_classes, check_weight, class_axis, classes, gather},
        wide::floats,
    },
    op::ScanOp,
    tensor::compose::{Built, compose, refuse},
};
use smallvec::SmallVec;

/// Options of [`nll_loss`].
#[derive(Clone, Copy)]
pub struct NllOptions<'a> {
    /// a weight per class
    pub weight: Option<&'a Tensor>,
    /// class index that takes no part
    pub ignore_index: i64,
    /// how losses are reduced
    pub reduction: Reduction,
}
impl Default for NllOptions<'_> {
    fn default() -> Self {
        NllOptions { weight: None, ignore_index: -100, reduction: Reduction::Mean }
    }
}
/// `-weight[target] x[target]` of log-probabilities `[classes]` or `[batch, classes, ..]`; the mean divides by the weights.
#[track_caller]
pub fn nll_loss(x: &Tensor, target: &Tensor, options: &NllOptions<'_>) -> Tensor {
    let inputs: SmallVec<[&Tensor; 4]> = [x, target].into_iter().chain(options.weight).collect();
    compose("nll_loss", &inputs, || {
        let m = floats(&x.meta())?;
        check_classes(&m.ty(), &target.meta().ty())?;
        if options.reduction == Reduction::BatchMean {
            return refuse("the loss is reduced by none, mean or sum");
        }
        let axis = class_axis(&m.shape);
        let c = classes(target, &m.shape, options.ignore_index);
        let x = x.widened();
        let valid = c.valid.cast(x.meta().dtype);
        let taken = match options.weight {
            None => valid,
            Some(w) => {
                check_weight(&m.ty(), &w.meta().ty())?;
                let dims = Shape::along(axis, m.shape[axis], m.shape.rank());
                let spread = c.index.meta().shape.with(axis, m.shape[axis]);
                valid * gather(&w.widened().reshape(dims).expand(spread), axis, &c.index)
            }
        };
        // Where a target takes no part its weight is 0, but the input there may be infinite.
        let picked = c.valid.where_(gather(&x, axis, &c.index), 0.0);
        let each = (picked * &taken).neg();
        Ok(match options.reduction {
            Reduction::None => each.reshape(m.shape.without(axis)),
            Reduction::Mean => each.sum(..) / taken.sum(..),
            Reduction::Sum | Reduction::BatchMean => each.sum(..),
        }
        .cast(m.dtype))
    })
}

/// A batch `[batch, classes]` from x `[classes]` or `[batch, classes]`, and was there one?
fn batch(x: &Tensor) -> Built<(Tensor, bool)> {
    let shape = floats(&x.meta())?.shape;
    match shape.rank() {
        1 => Ok((x.widened().reshape(shape.insert(0, 1)?), false)),
        2 => Ok((x.widened(), true)),
        _ => Err(ErrorKind::Shape { shape, expected: "[classes] or [batch, classes]".into() }.into()),
    }
}
/// Options of [`multi_margin_loss`].
#[derive(Clone, Copy)]
pub struct MultiMarginOptions<'a> {
    /// 1 or 2: the power of each margin
    pub p: u32,
    /// by how much the target's score must be larger
    pub margin: f64,
    /// a weight per class
    pub weight: Option<&'a Tensor>,
    /// how losses are reduced
    pub reduction: Reduction,
}
impl Default for MultiMarginOptions<'_> {
    fn default() -> Self {
        MultiMarginOptions { p: 1, margin: 1.0, weight: None, reduction: Reduction::Mean }
    }
}
/// The mean over all classes of `max(0, margin - x[target] + x[i])^p`, i not the target.
#[track_caller]
pub fn multi_margin_loss(x: &Tensor, target: &Tensor, options: &MultiMarginOptions<'_>) -> Tensor {
    let inputs: SmallVec<[&Tensor; 4]> = [x, target].into_iter().chain(options.weight).collect();
    compose("multi_margin_loss", &inputs, || {
        let m = floats(&x.meta())?;
        let (x, batched) = batch(x)?;
        check_classes(&m.ty(), &target.meta().ty())?;
        if !(1..=2).contains(&options.p) {
            return refuse(format!("p is 1 or 2, not {}", options.p));
        }
        let shape = x.meta().shape;
        let index = target.reshape([shape[0], 1]);
        let mut each = (&x - gather(&x, 1, &index) + options.margin).relu();
        if options.p == 2 {
            each = each.square();
        }
        if let Some(w) = options.weight {
            check_weight(&m.ty(), &w.meta().ty())?;
            each = each * gather(&w.widened().reshape([1, shape[1]]).expand(shape), 1, &index);
        }
        let index = index.cast(DType::I64);
        let sum = x.iota_like(1, DType::I64).eq(&index).where_(0.0, &each).sum(1) / shape[1] as f64;
        Ok(reduce(if batched { sum } else { sum.reshape(()) }, options.reduction, m.dtype))
    })
}
/// For each sample the target classes come first in a row as long as the classes, ended by -1: the mean over all
/// classes of `max(0, 1 - x[target] + x[i])`, i no target.
#[track_caller]
pub fn multilabel_margin_loss(x: &Tensor, target: &Tensor, reduction: Reduction) -> Tensor {
    compose("multilabel_margin_loss", &[x, target], || {
        let m = floats(&x.meta())?;
        let (x, batched) = batch(x)?;
        if target.meta().shape != m.shape {
            return Err(ErrorKind::ShapeMismatch { left: m.shape, right: target.meta().shape, axes: None, expected: "input and target have one shape" }.into());
        }
        if !target.meta().dtype.is_int() {
            return Err(ErrorKind::Dtype(format!("class indices are integers, not {}", target.meta().dtype)).into());
        }
        let shape = x.meta().shape;
        let (n, classes) = (shape[0], shape[1]);
        let target = target.reshape(shape).cast(DType::I64);
        let ended = Tensor::apply(Op::Scan { op: ScanOp::Max, axis: 1, reverse: false }, Arg::None, &[&target.lt(0).cast(DType::I32)]);
        let valid = ended.eq(0);
        let index = valid.where_(&target, Scalar::Int(0));
        let rows = |t: &Tensor| t.reshape([n, classes, 1]);
        // Behind the classes is a place for targets that are none.
        let marked = valid.where_(&target, classes as i64);
        let none = Tensor::full_on([n, classes + 1], false, DType::Bool, m.device);
        let is_target = none.scatter_value(1, &marked, true).narrow(1, 0, classes).reshape([n, 1, classes]);
        let margins = (x.reshape([n, 1, classes]) - rows(&gather(&x, 1, &index)) + 1.0).relu();
        let counted = rows(&valid).logical_and(is_target.logical_not());
        let sum = counted.where_(&margins, 0.0).sum([1, 2]) / classes as f64;
        Ok(reduce(if batched { sum } else { sum.reshape(()) }, reduction, m.dtype))
    })
}

/// Options of [`ctc_loss`].
#[derive(Clone, Copy, Debug)]
pub struct CtcOptions {
    /// the class that stands for no label
    pub blank: usize,
    /// how losses are reduced; the mean divides each by its target's length first
    pub reduction: Reduction,
    /// are losses of alignments that cannot be, and their gradients, zero?
    pub zero_infinity: bool,
}
impl Default for CtcOptions {
    fn default() -> CtcOptions {
        CtcOptions { blank: 0, reduction: Reduction::Mean, zero_infinity: false }
    }
}
/// Connectionist temporal classification (Graves et al., 2006) by the forward recursion in logarithms: log-probabilities
/// `[time, batch, classes]` (or `[time, classes]`), targets `[batch, longest]` or all after one another `[sum]`, and the
/// lengths of both, `[batch]`. An alignment that cannot be has the loss inf. The gradient supposes that `log_softmax`
/// gave the log-probabilities, as PyTorch's does.
#[track_caller]
pub fn ctc_loss(log_probs: &Tensor, targets: &Tensor, input_lengths: &Tensor, target_lengths: &Tensor, options: &CtcOptions) -> Tensor {
    compose("ctc_loss", &[log_probs, targets, input_lengths, target_lengths], || {
        let m = floats(&log_probs.meta())?;
        let sizes = CtcSizes::of(m)?;
        let CtcSizes { time, n, classes, is_batched, .. } = sizes;
        if options.blank >= classes {
            return Err(ErrorKind::Index { index: options.blank as i64, axis: None, bound: classes, position: None }.into());
        }
        check_ctc_integers(targets, input_lengths, target_lengths, n)?;
        let length = |t: &Tensor| t.reshape([n, 1]).cast(DType::I64);
        let (input_lengths, target_lengths) = (length(input_lengths), length(target_lengths));
        let (labels, longest) = ctc_labels(targets, &target_lengths, &sizes)?;
        let lp = log_probs.widened().reshape([time, n, classes]);
        let states = CtcStates::new(&labels, longest, &target_lengths, options.blank, sizes);
        if time == 0 {
            return Err(ErrorKind::Shape { shape: m.shape, expected: "at least one step of time".into() }.into());
        }
        let total = Tensor::composite1(CtcAlignments, &[&lp, &states.label, &states.skip, &input_lengths, &target_lengths]);
        let lost = total.lt(IMPOSSIBLE / 2.0);
        let each = lost.where_(if options.zero_infinity { 0.0 } else { f64::INFINITY }, total.neg()).reshape([n]);
        Ok(match options.reduction {
            Reduction::None if is_batched => each,
            Reduction::None => each.reshape(()),
            Reduction::Sum | Reduction::BatchMean => each.sum(..),
            Reduction::Mean => {
                let lengths = target_lengths.maximum(1i64).reshape([n]).cast(each.meta().dtype);
                (each / lengths).sum(..) / n as f64
            }
        }
        .cast(m.dtype))
    })
}
/// What log-probabilities `[time, batch, classes]` or `[time, classes]` are of.
#[derive(Clone, Copy)]
struct CtcSizes {
    of: Meta,
    time: usize,
    n: usize,
    classes: usize,
    is_batched: bool,
}
impl CtcSizes {
    fn of(of: Meta) -> Built<CtcSizes> {
        match of.shape[..] {
            [time, n, classes] => Ok(CtcSizes { of, time, n, classes, is_batched: true }),
            [time, classes] => Ok(CtcSizes { of, time, n: 1, classes, is_batched: false }),
            _ => Err(ErrorKind::Shape { shape: of.shape, expected: "[time, batch, classes] or [time, classes]".into() }.into()),
        }
    }
}
fn check_ctc_integers(targets: &Tensor, input_lengths: &Tensor, target_lengths: &Tensor, n: usize) -> Built<()> {
    for t in [targets, input_lengths, target_lengths] {
        if !t.meta().dtype.is_int() {
            return Err(ErrorKind::Dtype(format!("targets and lengths are integers, not {}", t.meta().dtype)).into());
        }
    }
    for t in [input_lengths, target_lengths] {
        if t.meta().shape.elements() != n {
            return Err(ErrorKind::Shape { shape: t.meta().shape, expected: format!("one length for each of {n} samples") }.into());
        }
    }
    Ok(())
}
/// One row of labels per sample, `[batch, longest]`, and how long it is. Labels after one another are cut at the lengths' running sum.
fn ctc_labels(targets: &Tensor, target_lengths: &Tensor, sizes: &CtcSizes) -> Built<(Tensor, usize)> {
    let &CtcSizes { of, n, is_batched, .. } = sizes;
    let ts = targets.meta().shape;
    let labels = targets.cast(DType::I64);
    Ok(match ts.rank() {
        2 if ts[0] == n => (labels, ts[1]),
        1 if !is_batched => (labels.reshape([1, ts[0]]), ts[0]),
        1 if ts[0] > 0 => {
            let end = Tensor::apply(Op::Scan { op: ScanOp::Sum, axis: 0, reverse: false }, Arg::None, &[target_lengths]);
            let row = Tensor::full_on([n, ts[0]], 0, DType::I64, of.device).iota_like(1, DType::I64);
            let at = (end - target_lengths + row).minimum(ts[0] as i64 - 1);
            (gather(&labels.reshape([1, ts[0]]).expand([n, ts[0]]), 1, &at), ts[0])
        }
        1 => (labels.reshape([1, 0]).expand([n, 0]), 0),
        _ => {
            let expected = "targets are [batch, longest], or one axis of all labels";
            return Err(ErrorKind::ShapeMismatch { left: of.shape, right: ts, axes: None, expected }.into());
        }
    })
}
/// The states of an alignment, `[batch, states]`: blank, label 0, blank, label 1, .., blank. Labels beyond a target's length
/// are never read at the end.
struct CtcStates {
    /// the class that each emits
    label: Tensor,
    /// may it be reached from the state two before?
    skip: Tensor,
}
impl CtcStates {
    fn new(labels: &Tensor, longest: usize, target_lengths: &Tensor, blank: usize, sizes: CtcSizes) -> CtcStates {
        let (n, device, count) = (sizes.n, sizes.of.device, 2 * longest + 1);
        let grid = Tensor::full_on([n, count], 0, DType::I64, device);
        let state = grid.iota_like(1, DType::I64);
        let odd = state.remainder(2i64).eq(1);
        let blank = Scalar::Int(blank as i64);
        let label = if longest == 0 {
            grid.full_like(blank)
        } else {
            let at = state.div_trunc(2i64).minimum(longest as i64 - 1);
            let inside = at.lt(target_lengths).logical_and(&odd);
            inside.where_(gather(labels, 1, &at), blank)
        };
        // Two steps at once are allowed onto a label that differs from the label before.
        let skip = if count > 2 {
            let blanks = Tensor::full_on([n, 2], blank, DType::I64, device);
            let before = Tensor::apply(Op::Concat { axis: 1 }, Arg::None, &[&blanks, &label.narrow(1, 0, count - 2)]);
            odd.logical_and(label.ne(&before)).logical_and(state.gt(1))
        } else {
            Tensor::full_on([n, count], false, DType::Bool, device)
        };
        CtcStates { label, skip }
    }
}
