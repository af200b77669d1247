//! What metrics of classes are asked: of which task, with which averages; and what a batch is in class numbers.
use crate::MetricState;
use adamant_core::{DType, Error, ErrorKind, Result, Shape, Tensor};

/// How the figures of the classes (or labels) become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Averaging {
    /// the counts of all classes together, then the formula
    Micro,
    /// the formula for each class, then their mean; of several classes, those that were neither true nor predicted do not count
    Macro,
    /// as macro, weighted by how often each class was true
    Weighted,
    /// no mean: one figure for each class
    None,
}
/// What is told of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TargetKind {
    /// yes or no
    Binary,
    /// one of so many classes
    Multiclass(usize),
    /// yes or no, so many times
    Multilabel(usize),
}
/// The task of a metric of classes and what it takes beside it.
///
/// | task | predictions | targets |
/// |---|---|---|
/// | [`Classification::binary`] | floats, or 0 and 1 as integers or bool, of any shape | 0 and 1 as integers or bool, of the same shape |
/// | [`Classification::multiclass`] | floats `[batch, classes, ..]`, the largest of which is the answer, of equal ones the first; or class numbers as the targets | class numbers `[batch, ..]`, integers |
/// | [`Classification::multilabel`] | floats, or 0 and 1, `[batch, labels, ..]` | 0 and 1 of the same shape |
///
/// These are the layouts of torchmetrics' `Binary..`, `Multiclass..` and `Multilabel..`.
///
/// ```
/// # use adamant_core::{Device, Tensor, tensor};
/// use adamant_metrics::{Averaging, Classification, Metric, Recall};
/// # Device::reference().make_current();
/// let mut recall = Recall::new(&Classification::multiclass(3).averaging(Averaging::None).ignore_index(-100))?;
/// let (answers, truth) = (Tensor::from_vec(vec![0i64, 1, 1, 2], [4]), Tensor::from_vec(vec![0i64, 1, 2, -100], [4]));
/// recall.update(&answers, &truth)?;
/// assert_eq!(recall.compute()?.to_vec_as::<f64>()?, [1.0, 1.0, 0.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Classification {
    pub(crate) kind: TargetKind,
    pub(crate) threshold: f64,
    pub(crate) top_k: usize,
    pub(crate) averaging: Option<Averaging>,
    pub(crate) ignore_index: Option<i64>,
    pub(crate) zero_division: f64,
}
impl Classification {
    fn of(kind: TargetKind) -> Classification {
        Classification { kind, threshold: 0.5, top_k: 1, averaging: None, ignore_index: None, zero_division: 0.0 }
    }
    /// Yes or no. Figures are those of yes, the class 1.
    #[must_use]
    pub fn binary() -> Classification {
        Classification::of(TargetKind::Binary)
    }
    /// One of `classes`, which are at least 2.
    #[must_use]
    pub fn multiclass(classes: usize) -> Classification {
        Classification::of(TargetKind::Multiclass(classes))
    }
    /// For each of `labels`, yes or no.
    #[must_use]
    pub fn multilabel(labels: usize) -> Classification {
        Classification::of(TargetKind::Multilabel(labels))
    }
    /// Above which score the answer is yes; 0.5. For logits 0. NaN is not above anything.
    #[must_use]
    pub fn threshold(self, threshold: f64) -> Classification {
        Classification { threshold, ..self }
    }
    /// An answer is right if the truth is among the `k` largest scores, of equal ones the first; 1. Otherwise the answer is the
    /// largest, which is how torchmetrics counts. A truth whose score is NaN is not among them.
    #[must_use]
    pub fn top_k(self, k: usize) -> Classification {
        Classification { top_k: k, ..self }
    }
    /// How the figures of classes become one; each metric says what is usual.
    #[must_use]
    pub fn averaging(self, averaging: Averaging) -> Classification {
        Classification { averaging: Some(averaging), ..self }
    }
    /// Targets of this number take no part, nor do their predictions; none.
    #[must_use]
    pub fn ignore_index(self, class: i64) -> Classification {
        Classification { ignore_index: Some(class), ..self }
    }
    /// What 0 / 0 is in precision, recall, F-beta and specificity; 0, which is what scikit-learn's `zero_division="warn"` gives.
    /// NaN: such classes do not count in a mean.
    #[must_use]
    pub fn zero_division(self, value: f64) -> Classification {
        Classification { zero_division: value, ..self }
    }
    /// How many figures there are: classes, labels, or 1.
    pub(crate) fn width(&self) -> usize {
        match self.kind {
            TargetKind::Binary => 1,
            TargetKind::Multiclass(n) | TargetKind::Multilabel(n) => n,
        }
    }
    /// Class numbers are below this.
    pub(crate) fn bound(&self) -> usize {
        if let TargetKind::Multiclass(n) = self.kind { n } else { 2 }
    }
    /// Options that fit together.
    #[track_caller]
    pub(crate) fn check(&self, name: &'static str) -> Result<()> {
        let _call = adamant_core::scope::call(name);
        let wrong = |what: String| Err(Error::new(name, ErrorKind::Argument(what)));
        match self.kind {
            TargetKind::Multiclass(n) if n < 2 => return wrong(format!("{n} classes: there are at least 2")),
            TargetKind::Multilabel(0) => return wrong("0 labels: there is at least one".into()),
            TargetKind::Multiclass(n) if !(1..=n).contains(&self.top_k) => {
                return wrong(format!("the truth is looked for among the {} largest of {n} scores", self.top_k));
            }
            TargetKind::Binary | TargetKind::Multilabel(_) if self.top_k != 1 => {
                return wrong("only where there are several classes is the truth among the k largest scores".into());
            }
            _ => {}
        }
        if self.threshold.is_nan() {
            return wrong("nothing is above the threshold NaN".into());
        }
        Ok(())
    }
    /// As [`Classification::check`], for a metric that knows no k.
    #[track_caller]
    pub(crate) fn check_first(&self, name: &'static str) -> Result<()> {
        self.check(name)?;
        if self.top_k == 1 { Ok(()) } else { Err(Error::new(name, ErrorKind::Argument("it has no top_k: the answer is the largest score".into()))) }
    }
}

/// A batch in class numbers, `[n]` for several classes, else `[n, labels]`, in which 0 and 1 are such numbers.
pub(crate) struct ClassBatch {
    pub predicted: Tensor,
    pub truth: Tensor,
    /// what takes part, bool; elsewhere both numbers are 0
    pub valid: Tensor,
    /// a class out of range, 0 for none
    pub refused: Tensor,
}
/// Targets in class numbers.
pub(crate) struct Truth {
    pub class: Tensor,
    pub valid: Tensor,
    refused: Tensor,
}
impl Truth {
    pub fn refused(self) -> Tensor {
        self.refused
    }
}
/// The class that is out of range, if one is: the largest, or the smallest if none is too large.
fn out_of_range(class: &Tensor, takes_part: &Tensor, bound: usize) -> (Tensor, Tensor) {
    let inside = class.ge(0i64).logical_and(class.lt(bound as i64));
    let bad = takes_part.logical_and(inside.logical_not()).where_(class, 0i64);
    let (high, low) = (bad.amax(..), bad.amin(..));
    (inside, high.ne(0i64).where_(&high, low))
}
fn mismatch<T>(state: &MetricState, left: Shape, right: Shape, expected: &'static str) -> Result<T> {
    Err(Error::new(state.name, ErrorKind::ShapeMismatch { left, right, axes: None, expected }))
}
/// Class numbers of any integer dtype, or bool.
fn numbers(state: &MetricState, t: &Tensor, whose: &str) -> Result<Tensor> {
    let dtype = t.dtype()?;
    if dtype.is_float() {
        let error = Error::new(state.name, ErrorKind::Dtype(format!("{whose} are class numbers, integers or bool, not {dtype}")));
        return Err(error.hint(adamant_core::Hint::new("where they are whole numbers, cast them").code("x.cast(DType::I64)")));
    }
    t.cast(DType::I64).ok()
}
/// `[batch, columns, ..]` as `[n, columns]`.
fn rows(t: &Tensor, columns: usize) -> Tensor {
    t.movedim(1, -1).reshape([-1, columns as isize])
}
impl Classification {
    /// Targets as they are counted, with what takes part.
    pub(crate) fn truth(&self, state: &MetricState, targets: &Tensor) -> Result<Truth> {
        let class = numbers(state, targets, "targets")?;
        let class = match self.kind {
            TargetKind::Binary => class.reshape([-1, 1]),
            TargetKind::Multiclass(_) => class.reshape([-1]),
            TargetKind::Multilabel(labels) => rows(&class, labels),
        };
        let takes_part = match self.ignore_index {
            Some(ignored) => class.ne(ignored),
            None => Tensor::full_on(class.shape()?, true, DType::Bool, state.device),
        };
        let (inside, refused) = out_of_range(&class, &takes_part, self.bound());
        let valid = takes_part.logical_and(inside);
        Ok(Truth { class: valid.where_(&class, 0i64), valid, refused })
    }
    /// Scores in rows, `[n, width]`: predictions that must be floats.
    #[track_caller]
    pub(crate) fn scores(&self, state: &MetricState, predictions: &Tensor) -> Result<Tensor> {
        let dtype = predictions.dtype()?;
        if !dtype.is_float() {
            return Err(Error::new(state.name, ErrorKind::Dtype(format!("predictions are scores, floats, not {dtype}"))));
        }
        match self.kind {
            TargetKind::Binary => predictions.reshape([-1, 1]),
            TargetKind::Multiclass(n) | TargetKind::Multilabel(n) => rows(predictions, n),
        }
        .ok()
    }
    /// Do the shapes go together? `scored`: predictions of several classes have a score for each.
    #[track_caller]
    pub(crate) fn check_shapes(&self, state: &MetricState, predictions: &Tensor, targets: &Tensor, scored: bool) -> Result<()> {
        state.here([predictions, targets])?;
        let (p, t) = (predictions.shape()?, targets.shape()?);
        match self.kind {
            TargetKind::Multiclass(classes) if scored => {
                let fits = t.rank() > 0 && p.rank() == t.rank() + 1 && p[0] == t[0] && p[1] == classes && p[2..] == t[1..];
                if !fits {
                    return mismatch(state, p, t, "predictions [batch, classes, ..] and targets [batch, ..]");
                }
            }
            TargetKind::Multilabel(labels) if p.rank() < 2 || p[1] != labels => {
                return Err(Error::new(state.name, ErrorKind::Shape { shape: p, expected: format!("predictions [batch, {labels}, ..]") }));
            }
            _ if p != t => return mismatch(state, p, t, "predictions and targets of one shape"),
            _ => {}
        }
        Ok(())
    }
    /// A batch in class numbers, none if it is empty.
    #[track_caller]
    pub(crate) fn batch(&self, state: &MetricState, predictions: &Tensor, targets: &Tensor) -> Result<Option<ClassBatch>> {
        let (predictions, targets) = (predictions.detach(), targets.detach());
        let floats = predictions.dtype()?.is_float();
        let scored = floats && matches!(self.kind, TargetKind::Multiclass(_));
        self.check_shapes(state, &predictions, &targets, scored)?;
        if !floats && self.top_k > 1 {
            return Err(state.wrong(format!("the {} largest scores are asked for, and predictions are class numbers", self.top_k)));
        }
        if targets.shape()?.elements() == 0 {
            numbers(state, &targets, "targets")?;
            return Ok(None);
        }
        let Truth { class: truth, valid, refused } = self.truth(state, &targets)?;
        if floats {
            let scores = self.scores(state, &predictions)?;
            let predicted = if scored { self.answers(&scores, &truth) } else { scores.gt(self.threshold).cast(DType::I64) };
            return Ok(Some(ClassBatch { predicted: valid.where_(predicted, 0i64), truth, valid, refused }));
        }
        let predicted = numbers(state, &predictions, "predictions")?;
        let predicted = if let TargetKind::Multilabel(labels) = self.kind { rows(&predicted, labels) } else { predicted.reshape(truth.shape()?) };
        let (inside, of_predictions) = out_of_range(&predicted, &valid, self.bound());
        let valid = valid.logical_and(inside);
        let [predicted, truth] = [predicted, truth].map(|t| valid.where_(t, 0i64));
        Ok(Some(ClassBatch { predicted, truth, valid, refused: refused.ne(0i64).where_(&refused, of_predictions) }))
    }
    /// The class of the largest score in each row; the truth itself where that is among the k largest.
    fn answers(&self, scores: &Tensor, truth: &Tensor) -> Tensor {
        let largest = scores.argmax(-1);
        if self.top_k == 1 {
            return largest;
        }
        let at = truth.unsqueeze(-1);
        let of_truth = scores.gather(1, &at);
        let before = scores.eq(&of_truth).logical_and(scores.iota_like(1, DType::I64).lt(&at));
        let place = scores.gt(&of_truth).logical_or(before).cast(DType::I64).sum(1);
        let found = place.lt(self.top_k as i64).logical_and(of_truth.eq(&of_truth).squeeze(1));
        found.where_(truth, largest)
    }
}
