//! Cross entropy of logits of which each rank has those of some classes. No rank ever holds the logits of all: maxima and sums travel.
use super::around::zero_for;
use crate::collective::{all_max, all_reduce};
use adamant_core::{
    DType, Error, ErrorKind, Result, Scalar, Tensor,
    functional::Reduction,
    op::{Group, RankUse, rank_parts},
};
use adamant_nn::{Criterion, Module, Site};

/// Options of [`vocabulary_cross_entropy`]; the defaults are PyTorch's of `cross_entropy`.
#[derive(Clone, Copy, Debug)]
pub struct VocabularyLossOptions {
    /// class index that takes no part
    pub ignore_index: i64,
    /// how losses are reduced
    pub reduction: Reduction,
    /// the share of the target that is spread evenly over all classes
    pub label_smoothing: f64,
}
impl Default for VocabularyLossOptions {
    fn default() -> VocabularyLossOptions {
        VocabularyLossOptions { ignore_index: -100, reduction: Reduction::Mean, label_smoothing: 0.0 }
    }
}
#[track_caller]
fn refuse(kind: ErrorKind) -> Error {
    Error::new("vocabulary_cross_entropy", kind)
}
/// `-log softmax(x)[t]` of logits of which each rank of a group has those of its classes: as many as [`rank_parts`] gives it of `classes`, which is
/// how a table is cut by [`ParallelStyle::Vocabulary`](super::ParallelStyle::Vocabulary).
///
/// Logits `[.., own classes]` of floats, class indices `[..]`, alike on all ranks. The result is alike on all ranks: a number, or `[..]` without a
/// reduction. Logits of 16 bits are computed with in f32.
///
/// ```
/// use adamant_core::Tensor;
/// use adamant_parallel::{Mesh, MeshAxis, tensor::{VocabularyLossOptions, vocabulary_cross_entropy}};
/// # adamant_core::Device::reference().make_current();
/// let (logits, target, mesh) = (Tensor::zeros([2, 4]), Tensor::from_slice(&[3i64, -100], [2]), Mesh::alone());
/// let loss = vocabulary_cross_entropy(&logits, &target, 4, mesh.group(MeshAxis::Tensor), &VocabularyLossOptions::default())?;
/// assert!((loss.item::<f32>()? - 4f32.ln()).abs() < 1e-6);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Other shapes; another number of logits than of the rank's classes; targets that are no integers; smoothing outside `0..=1`. An index out of range,
/// when the loss is read.
#[track_caller]
pub fn vocabulary_cross_entropy(logits: &Tensor, target: &Tensor, classes: usize, group: &Group, options: &VocabularyLossOptions) -> Result<Tensor> {
    let (shape, dtype) = (logits.shape()?, logits.dtype()?);
    let own = rank_parts(classes, group.rank as usize, group.size as usize);
    let (Some((&columns, rows)), true) = (shape.split_last(), dtype.is_float()) else {
        return Err(refuse(ErrorKind::Shape { shape, expected: "logits of floats, [.., classes]".into() }));
    };
    if columns != own.len() {
        return Err(refuse(ErrorKind::Shape {
            shape,
            expected: format!("[.., {}], the logits of the classes {own:?} that rank {} of {} has", own.len(), group.rank, group.size),
        }));
    }
    if target.shape()?[..] != *rows || !target.dtype()?.is_int() {
        return Err(refuse(ErrorKind::Shape { shape: target.shape()?, expected: format!("class indices {rows:?}, one for each row of logits") }));
    }
    if !(0.0..=1.0).contains(&options.label_smoothing) {
        return Err(refuse(ErrorKind::Argument(format!("label_smoothing is {}, a share is from 0 to 1", options.label_smoothing))));
    }
    if options.reduction == Reduction::BatchMean {
        return Err(refuse(ErrorKind::Argument("the loss is reduced by none, mean or sum".into())));
    }
    let x = if dtype == DType::F64 { logits.clone() } else { logits.cast(DType::F32) };
    let wide = x.dtype()?;
    let target = target.cast(DType::I64);
    let counted = target.ne(options.ignore_index);
    let target = counted.where_(&target, Scalar::Int(0));
    let local = &target - own.start as i64;
    let inside = local.ge(0i64).logical_and(&local.lt(own.len() as i64));
    // The largest only keeps the exponentials finite: no gradient flows through it.
    let largest = all_max(&x.detach().max_dim(-1).0, group, RankUse::Alike);
    let shifted = &x - largest.unsqueeze(-1);
    let at = inside.where_(&local, Scalar::Int(0)).unsqueeze(-1);
    let picked = inside.where_(shifted.gather(-1, &at).squeeze(-1), 0.0) + zero_for(&target, classes).cast(wide);
    let mut terms = vec![shifted.exp().sum(-1), picked];
    if options.label_smoothing > 0.0 {
        terms.push(shifted.sum(-1) / classes as f64);
    }
    let sums = all_reduce(&Tensor::stack(&terms, 0), group, RankUse::Alike);
    // What is counted on every rank must be added once: the zero that carries a fault is 0 anyway.
    let (log, picked) = (sums.select(0, 0).log(), sums.select(0, 1));
    let each = match options.label_smoothing {
        0.0 => log - picked,
        share => &log - picked * (1.0 - share) - sums.select(0, 2) * share,
    };
    let each = counted.where_(each, 0.0);
    let loss = match options.reduction {
        Reduction::None => each,
        Reduction::Sum | Reduction::BatchMean => each.sum(..),
        Reduction::Mean => each.sum(..) / counted.cast(wide).sum(..),
    };
    loss.cast(dtype).ok()
}

/// [`vocabulary_cross_entropy`] as a criterion: logits `[.., own classes]`, class indices `[..]`.
#[derive(Clone, Module)]
pub struct VocabularyCrossEntropy {
    site: Site,
    classes: usize,
    #[module(skip)]
    group: Group,
    #[module(skip)]
    options: VocabularyLossOptions,
}
impl VocabularyCrossEntropy {
    /// Over so many classes, which the ranks of a group share out.
    pub fn new(classes: usize, group: &Group) -> VocabularyCrossEntropy {
        VocabularyCrossEntropy::with(classes, group, VocabularyLossOptions::default())
    }
    /// The same with options.
    pub fn with(classes: usize, group: &Group, options: VocabularyLossOptions) -> VocabularyCrossEntropy {
        VocabularyCrossEntropy { site: Site::with_hooks("VocabularyCrossEntropy"), classes, group: group.clone(), options }
    }
}
impl Criterion for VocabularyCrossEntropy {
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[input, target])?;
        let (input, target) = (call.input(0, input), call.input(1, target));
        let y = vocabulary_cross_entropy(input, target, self.classes, &self.group, &self.options)?;
        call.end(y)
    }
}
