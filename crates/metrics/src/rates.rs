//! Shares of right and wrong answers: all follow from how often each class was found, missed, taken for another, and left alone.
use crate::{Averaging, Classification, Metric, MetricState, classes::TargetKind, state::holds_state};
use adamant_core::{DType, Error, ErrorKind, Result, Tensor};

/// True positives, false positives, false negatives, true negatives of each class.
const COUNTS: [&str; 4] = ["tp", "fp", "fn", "tn"];
#[track_caller]
fn state(name: &'static str, of: &Classification) -> Result<MetricState> {
    of.check(name)?;
    COUNTS.iter().try_fold(MetricState::new(name)?, |state, count| state.count(count, [of.width()]))?.refusing()
}
/// Counts a batch.
#[track_caller]
fn count(of: &Classification, state: &mut MetricState, predictions: &Tensor, targets: &Tensor) -> Result<()> {
    let _scope = state.enter();
    let Some(batch) = of.batch(state, predictions, targets)? else { return Ok(()) };
    let number = |t: Tensor| t.cast(DType::I64);
    let (found, positive, truth, all) = if let TargetKind::Multiclass(classes) = of.kind {
        let zeros = Tensor::zeros_on([classes], DType::I64, state.device);
        let valid = number(batch.valid.clone());
        let right = number(batch.predicted.eq(&batch.truth).logical_and(&batch.valid));
        let [found, truth] = [&right, &valid].map(|counts| zeros.scatter_add(0, &batch.truth, counts));
        (found, zeros.scatter_add(0, &batch.predicted, &valid), truth, valid.sum(0))
    } else {
        // What takes no part is 0 on both sides.
        let found = (&batch.predicted * &batch.truth).sum(0);
        (found, batch.predicted.sum(0), batch.truth.sum(0), number(batch.valid).sum(0))
    };
    let (false_positive, false_negative) = (&positive - &found, &truth - &found);
    let left_alone = all - positive - &false_negative;
    state.add_unless(&batch.refused, &[found, false_positive, false_negative, left_alone])
}
#[derive(Clone, Copy)]
enum Formula {
    Accuracy,
    Precision,
    Recall,
    FBeta(f64),
    Specificity,
}
impl Formula {
    /// Numerator and denominator.
    fn of(self, task: TargetKind, counts: &[Tensor; 4]) -> (Tensor, Tensor) {
        let [tp, fp, fne, tn] = counts;
        match (self, task) {
            // Of one class among several, the share that was found, as torchmetrics has it.
            (Formula::Accuracy, TargetKind::Multiclass(_)) | (Formula::Recall, _) => (tp.clone(), tp + fne),
            (Formula::Accuracy, _) => (tp + tn, tp + fp + fne + tn),
            (Formula::Precision, _) => (tp.clone(), tp + fp),
            (Formula::Specificity, _) => (tn.clone(), tn + fp),
            (Formula::FBeta(beta), _) => {
                let square = beta * beta;
                let right = tp * (1.0 + square);
                (right.clone(), right + fne * square + fp)
            }
        }
    }
}
fn figure(of: &Classification, state: &MetricState, formula: Formula, usual: Averaging) -> Result<Tensor> {
    let _scope = state.enter();
    let averaging = of.averaging.unwrap_or(usual);
    let float = state.float();
    let [mut tp, mut fp, mut fne, mut tn] = COUNTS.map(|name| state.value(name));
    if averaging == Averaging::Micro || of.kind == TargetKind::Binary {
        // As integers: exact.
        [tp, fp, fne, tn] = [tp, fp, fne, tn].map(|t| t.map(|t| t.sum(0)));
    }
    let counts = [tp?.cast(float), fp?.cast(float), fne?.cast(float), tn?.cast(float)];
    let (numerator, denominator) = formula.of(of.kind, &counts);
    let each = denominator.eq(0.0).where_(of.zero_division, numerator / &denominator);
    let [tp, fp, fne, _] = &counts;
    let weight = match averaging {
        _ if of.kind == TargetKind::Binary => return state.unless_refused(each, of.bound()),
        Averaging::Micro | Averaging::None => return state.unless_refused(each, of.bound()),
        Averaging::Macro if matches!(of.kind, TargetKind::Multiclass(_)) => (tp + fp + fne).gt(0.0).cast(float),
        Averaging::Macro => each.ones_like(),
        Averaging::Weighted => tp + fne,
    };
    let mean = mean_of_numbers(&each, &weight, of.zero_division);
    state.unless_refused(mean, of.bound())
}
/// The weighted mean of what is not NaN; `nothing` where all weights are 0.
fn mean_of_numbers(each: &Tensor, weight: &Tensor, nothing: f64) -> Tensor {
    let counts = each.eq(each);
    let (each, weight) = (counts.where_(each, 0.0), counts.where_(weight, 0.0));
    let total = weight.sum(..);
    total.eq(0.0).where_(nothing, (each * weight).sum(..) / &total)
}

macro_rules! rates {
    ($($(#[$doc:meta])+ $metric:ident $averaging:ident [$($beta:ident: $float:ty)?] $formula:expr;)*) => {$(
        $(#[$doc])+
        pub struct $metric {
            of: Classification,
            state: MetricState,
            $($beta: $float,)?
        }
        impl Metric for $metric {
            holds_state!();
            #[track_caller]
            fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
                count(&self.of, &mut self.state, predictions, targets)
            }
            fn compute(&self) -> Result<Tensor> {
                $(let $beta = self.$beta;)?
                figure(&self.of, &self.state, $formula, Averaging::$averaging)
            }
        }
    )*};
}
rates! {
    /// The share of right answers. Usual: micro, the share of all (scikit-learn's `accuracy_score`; with [`Classification::top_k`]
    /// its `top_k_accuracy_score`). Of one class among several it is the share of its targets that were found, and
    /// macro their mean (torchmetrics' `MulticlassAccuracy`); of a label the share of right yes and no. Nothing seen: the
    /// `zero_division` of the options.
    ///
    /// Shapes and dtypes: [`Classification`]. The figure is a number, or `[classes]` for [`Averaging::None`]; f64 where the device
    /// has it, else f32.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor, tensor};
    /// use adamant_metrics::{Accuracy, Classification, Metric};
    /// # Device::reference().make_current();
    /// let mut accuracy = Accuracy::new(&Classification::multiclass(3).top_k(2))?;
    /// accuracy.update(&tensor![[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], &Tensor::from_vec(vec![1i64, 2], [2]))?;
    /// assert_eq!(accuracy.compute()?.item::<f64>()?, 0.5);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Accuracy Micro [] Formula::Accuracy;
    /// `tp / (tp + fp)`: how much of what was said is so (scikit-learn's `precision_score`, torchmetrics' `Precision`). Usual: macro.
    ///
    /// Shapes, dtypes and the figure: as [`Accuracy`].
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor, tensor};
    /// use adamant_metrics::{Classification, Metric, Precision};
    /// # Device::reference().make_current();
    /// let mut precision = Precision::new(&Classification::binary())?;
    /// precision.update(&tensor![0.9, 0.8, 0.2, 0.6], &Tensor::from_vec(vec![1i64, 0, 1, 0], [4]))?;
    /// assert!((precision.compute()?.item::<f64>()? - 1.0 / 3.0).abs() < 1e-15);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Precision Macro [] Formula::Precision;
    /// `tp / (tp + fn)`: how much of what is so was said (scikit-learn's `recall_score`, torchmetrics' `Recall`). Usual: macro.
    ///
    /// Shapes, dtypes and the figure: as [`Accuracy`].
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor, tensor};
    /// use adamant_metrics::{Classification, Metric, Recall};
    /// # Device::reference().make_current();
    /// let mut recall = Recall::new(&Classification::binary().threshold(0.0))?; // of logits
    /// recall.update(&tensor![0.9, -0.8, 0.2, 0.6], &Tensor::from_vec(vec![1i64, 1, 1, 0], [4]))?;
    /// assert!((recall.compute()?.item::<f64>()? - 2.0 / 3.0).abs() < 1e-15);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Recall Macro [] Formula::Recall;
    /// `(1 + beta²) tp / ((1 + beta²) tp + beta² fn + fp)`, the harmonic mean of precision and recall, which counts `beta` times as much
    /// (van Rijsbergen 1979; scikit-learn's `fbeta_score`, torchmetrics' `FBetaScore`). F1 is `beta` 1. Usual: macro.
    ///
    /// Shapes, dtypes and the figure: as [`Accuracy`].
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor, tensor};
    /// use adamant_metrics::{Classification, FBeta, Metric};
    /// # Device::reference().make_current();
    /// let mut f1 = FBeta::f1(&Classification::binary())?;
    /// f1.update(&tensor![0.9, 0.8, 0.2, 0.6], &Tensor::from_vec(vec![1i64, 0, 1, 0], [4]))?;
    /// assert!((f1.compute()?.item::<f64>()? - 0.4).abs() < 1e-15);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[doc(alias = "F1Score")]
    #[doc(alias = "FBetaScore")]
    FBeta Macro [beta: f64] Formula::FBeta(beta);
    /// `tn / (tn + fp)`: how much of what is not so was not said (torchmetrics' `Specificity`). Usual: macro.
    ///
    /// Shapes, dtypes and the figure: as [`Accuracy`].
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor, tensor};
    /// use adamant_metrics::{Classification, Metric, Specificity};
    /// # Device::reference().make_current();
    /// let mut specificity = Specificity::new(&Classification::binary())?;
    /// specificity.update(&tensor![0.9, 0.8, 0.2, 0.1], &Tensor::from_vec(vec![1i64, 0, 1, 0], [4]))?;
    /// assert_eq!(specificity.compute()?.item::<f64>()?, 0.5);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Specificity Macro [] Formula::Specificity;
}
macro_rules! constructors {
    ($($metric:ident $name:literal)*) => {$(
        impl $metric {
            /// Nothing seen yet, on the current device.
            ///
            /// # Errors
            /// Options that do not go together; memory.
            #[track_caller]
            pub fn new(of: &Classification) -> Result<$metric> {
                Ok($metric { of: of.clone(), state: state($name, of)? })
            }
        }
    )*};
}
constructors! { Accuracy "accuracy" Precision "precision" Recall "recall" Specificity "specificity" }
impl FBeta {
    /// Nothing seen yet, on the current device.
    ///
    /// # Errors
    /// A `beta` that is not a finite number above 0, options that do not go together; memory.
    #[track_caller]
    pub fn new(beta: f64, of: &Classification) -> Result<FBeta> {
        if !beta.is_finite() || beta <= 0.0 {
            return Err(Error::new("f_beta", ErrorKind::Argument(format!("beta is {beta}, it must be a number above 0"))));
        }
        Ok(FBeta { of: of.clone(), state: state("f_beta", of)?, beta })
    }
    /// With `beta` 1.
    ///
    /// # Errors
    /// As [`FBeta::new`].
    #[track_caller]
    pub fn f1(of: &Classification) -> Result<FBeta> {
        FBeta::new(1.0, of)
    }
}
