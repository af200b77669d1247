//! How often each class was answered by each class, and what follows from that table alone.
use crate::{Classification, Metric, MetricState, classes::TargetKind, state::holds_state};
use adamant_core::{DType, Error, ErrorKind, Result, Tensor};

const TABLE: &str = "confusion";

/// The table as it is kept: `[classes, classes]`, for labels `[labels, 2, 2]`; truth in rows, answers in columns.
fn state(name: &'static str, of: &Classification) -> Result<MetricState> {
    of.check_first(name)?;
    let state = MetricState::new(name)?;
    match of.kind {
        TargetKind::Binary => state.count(TABLE, [2, 2]),
        TargetKind::Multiclass(n) => state.count(TABLE, [n, n]),
        TargetKind::Multilabel(n) => state.count(TABLE, [n, 2, 2]),
    }?
    .refusing()
}
#[track_caller]
fn count(of: &Classification, state: &mut MetricState, predictions: &Tensor, targets: &Tensor) -> Result<()> {
    let _scope = state.enter();
    let Some(batch) = of.batch(state, predictions, targets)? else { return Ok(()) };
    let shape = state.value(TABLE)?.shape()?;
    let bound = of.bound() as i64;
    let mut cell = batch.truth * bound + batch.predicted;
    if let TargetKind::Multilabel(_) = of.kind {
        cell = &cell + cell.iota_like(1, DType::I64) * (bound * bound);
    }
    let counts = batch.valid.cast(DType::I64).reshape([-1]);
    let table = Tensor::zeros_on([shape.elements()], DType::I64, state.device).scatter_add(0, &cell.reshape([-1]), &counts);
    state.add_unless(&batch.refused, &[table.reshape(shape)])
}

/// What the counts of a confusion matrix are divided by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfusionShares {
    /// nothing: counts, i64
    Counts,
    /// how often the row's class was true
    Truth,
    /// how often the column's class was predicted
    Predictions,
    /// all of them
    All,
}
/// How often truth (row) was answered by answer (column): `[classes, classes]`, of yes or no `[2, 2]` with no first, of labels
/// `[labels, 2, 2]` (scikit-learn's `confusion_matrix` and `multilabel_confusion_matrix`; torchmetrics' `ConfusionMatrix`).
///
/// Shapes and dtypes of batches: [`Classification`], without `top_k`. Counts are i64; shares are f64 where the device has it, else
/// f32, and 0 where a class never occurs, as both have it. Its averages mean nothing here.
///
/// ```
/// # use adamant_core::{Device, Tensor};
/// use adamant_metrics::{Classification, ConfusionMatrix, ConfusionShares, Metric};
/// # Device::reference().make_current();
/// let mut confusion = ConfusionMatrix::new(&Classification::multiclass(2), ConfusionShares::Counts)?;
/// confusion.update(&Tensor::from_vec(vec![0i64, 1, 1], [3]), &Tensor::from_vec(vec![0i64, 0, 1], [3]))?;
/// assert_eq!(confusion.compute()?.to_vec::<i64>()?, [1, 1, 0, 1]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct ConfusionMatrix {
    of: Classification,
    shares: ConfusionShares,
    state: MetricState,
}
impl ConfusionMatrix {
    /// Nothing seen yet, on the current device.
    ///
    /// # Errors
    /// Options that do not go together; memory.
    #[track_caller]
    pub fn new(of: &Classification, shares: ConfusionShares) -> Result<ConfusionMatrix> {
        Ok(ConfusionMatrix { of: of.clone(), shares, state: state("confusion_matrix", of)? })
    }
}
impl Metric for ConfusionMatrix {
    holds_state!();
    #[track_caller]
    fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        count(&self.of, &mut self.state, predictions, targets)
    }
    fn compute(&self) -> Result<Tensor> {
        let _scope = self.state.enter();
        let counts = self.state.value(TABLE)?;
        let total = match self.shares {
            ConfusionShares::Counts => return self.state.unless_refused(counts, self.of.bound()),
            ConfusionShares::Truth => counts.sum_keepdim(-1),
            ConfusionShares::Predictions => counts.sum_keepdim(-2),
            ConfusionShares::All => counts.sum_keepdim([-1, -2]),
        };
        let [counts, total] = [counts, total].map(|t| t.cast(self.state.float()));
        self.state.unless_refused(total.eq(0.0).where_(0.0, counts / &total), self.of.bound())
    }
}

/// How much a disagreement counts in [`CohenKappa`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KappaWeights {
    /// each as much
    Equal,
    /// by the distance of the classes' numbers
    Linear,
    /// by the square of that
    Quadratic,
}
/// A metric of the table, of yes or no or of several classes.
#[track_caller]
fn of_classes(name: &'static str, of: &Classification) -> Result<MetricState> {
    if let TargetKind::Multilabel(_) = of.kind {
        return Err(Error::new(name, ErrorKind::Argument("it is defined for classes, not for labels".into())));
    }
    state(name, of)
}
/// The table as floats, how often each class was true, how often it was predicted, and how many there were.
fn margins(state: &MetricState) -> Result<[Tensor; 4]> {
    let table = state.value(TABLE)?;
    // Sums of integers: exact.
    let all = [table.clone(), table.sum(1), table.sum(0), table.sum(..)];
    Ok(all.map(|t| t.cast(state.float())))
}
/// Agreement beyond what chance would bring (Cohen 1960; scikit-learn's `cohen_kappa_score`, torchmetrics' `CohenKappa`):
/// `1 - Σ w n / Σ w e`, with the counts `n` and what independent margins would give, `e`. NaN where chance alone agrees, as 0 / 0
/// is in scikit-learn.
///
/// Shapes and dtypes of batches: [`Classification`], binary or multiclass, without `top_k`. The figure is a number, f64 where the
/// device has it, else f32.
///
/// ```
/// # use adamant_core::{Device, Tensor};
/// use adamant_metrics::{Classification, CohenKappa, KappaWeights, Metric};
/// # Device::reference().make_current();
/// let mut kappa = CohenKappa::new(&Classification::binary(), KappaWeights::Equal)?;
/// kappa.update(&Tensor::from_vec(vec![0i64, 1, 0, 0], [4]), &Tensor::from_vec(vec![1i64, 1, 0, 0], [4]))?;
/// assert_eq!(kappa.compute()?.item::<f64>()?, 0.5);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct CohenKappa {
    of: Classification,
    weights: KappaWeights,
    state: MetricState,
}
impl CohenKappa {
    /// Nothing seen yet, on the current device.
    ///
    /// # Errors
    /// Labels instead of classes, other options that do not go together; memory.
    #[track_caller]
    pub fn new(of: &Classification, weights: KappaWeights) -> Result<CohenKappa> {
        Ok(CohenKappa { of: of.clone(), weights, state: of_classes("cohen_kappa", of)? })
    }
}
impl Metric for CohenKappa {
    holds_state!();
    #[track_caller]
    fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        count(&self.of, &mut self.state, predictions, targets)
    }
    fn compute(&self) -> Result<Tensor> {
        let _scope = self.state.enter();
        let [table, truth, predicted, all] = margins(&self.state)?;
        let far = (table.iota_like(0, DType::I64) - table.iota_like(1, DType::I64)).abs();
        let weight = match self.weights {
            KappaWeights::Equal => far.ne(0i64).cast(self.state.float()),
            KappaWeights::Linear => far.cast(self.state.float()),
            KappaWeights::Quadratic => (&far * &far).cast(self.state.float()),
        };
        let expected = (&weight * truth.unsqueeze(1) * predicted.unsqueeze(0)).sum(..) / all;
        self.state.unless_refused(1.0 - (weight * table).sum(..) / expected, self.of.bound())
    }
}
/// The correlation of truth and answer over all classes (Matthews 1975; Gorodkin 2004; scikit-learn's `matthews_corrcoef`,
/// torchmetrics' `MatthewsCorrCoef`); 0 where all truths or all answers are one class, as in scikit-learn.
///
/// Shapes and dtypes of batches: [`Classification`], binary or multiclass, without `top_k`. The figure is a number, f64 where the
/// device has it, else f32.
///
/// ```
/// # use adamant_core::{Device, Tensor};
/// use adamant_metrics::{Classification, MatthewsCorrCoef, Metric};
/// # Device::reference().make_current();
/// let mut correlation = MatthewsCorrCoef::new(&Classification::binary())?;
/// correlation.update(&Tensor::from_vec(vec![0i64, 1, 1, 0], [4]), &Tensor::from_vec(vec![1i64, 0, 0, 1], [4]))?;
/// assert_eq!(correlation.compute()?.item::<f64>()?, -1.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct MatthewsCorrCoef {
    of: Classification,
    state: MetricState,
}
impl MatthewsCorrCoef {
    /// Nothing seen yet, on the current device.
    ///
    /// # Errors
    /// Labels instead of classes, other options that do not go together; memory.
    #[track_caller]
    pub fn new(of: &Classification) -> Result<MatthewsCorrCoef> {
        Ok(MatthewsCorrCoef { of: of.clone(), state: of_classes("matthews_corr_coef", of)? })
    }
}
impl Metric for MatthewsCorrCoef {
    holds_state!();
    #[track_caller]
    fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
        count(&self.of, &mut self.state, predictions, targets)
    }
    fn compute(&self) -> Result<Tensor> {
        let _scope = self.state.enter();
        let [table, truth, predicted, all] = margins(&self.state)?;
        let right = table.diagonal(0, 0, 1).sum(..);
        let square = &all * &all;
        let covariance = right * all - (&truth * &predicted).sum(..);
        let spread = (&square - (&truth * &truth).sum(..)) * (&square - (&predicted * &predicted).sum(..));
        self.state.unless_refused(spread.eq(0.0).where_(0.0, covariance / spread.sqrt()), self.of.bound())
    }
}
