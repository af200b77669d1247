//! Areas under curves over all thresholds. They are exact, so the scores of all batches are kept.
use crate::{Averaging, Classification, Metric, MetricState, classes::TargetKind, curve::Thresholds, state::holds_state};
use adamant_core::{DType, Error, ErrorKind, Result, Tensor};

/// A target that takes no part.
const IGNORED: i64 = -1;

#[track_caller]
fn state(name: &'static str, of: &Classification) -> Result<MetricState> {
    of.check_first(name)?;
    if of.averaging == Some(Averaging::Micro) && matches!(of.kind, TargetKind::Multiclass(_)) {
        return Err(Error::new(name, ErrorKind::Argument("of several classes each has its curve: average macro, weighted or none".into())));
    }
    let state = MetricState::new(name)?.list("scores", [of.width()], DType::F32)?;
    match of.kind {
        TargetKind::Multiclass(_) => state.list("targets", (), DType::I64),
        _ => state.list("targets", [of.width()], DType::I64),
    }?
    .refusing()
}
/// A batch as it is kept: scores `[n, width]`, targets `[n]` or `[n, width]`, and a class out of range.
#[track_caller]
fn prepared(of: &Classification, state: &MetricState, predictions: &Tensor, targets: &Tensor) -> Result<[Tensor; 3]> {
    let (predictions, targets) = (predictions.detach(), targets.detach());
    of.check_shapes(state, &predictions, &targets, true)?;
    let scores = of.scores(state, &predictions)?;
    let truth = of.truth(state, &targets)?;
    Ok([scores, truth.valid.where_(&truth.class, IGNORED), truth.refused()])
}
#[track_caller]
fn keep(of: &Classification, state: &mut MetricState, predictions: &Tensor, targets: &Tensor) -> Result<()> {
    let _scope = state.enter();
    if targets.shape()?.elements() == 0 {
        return of.check_shapes(state, predictions, targets, true);
    }
    let [scores, targets, refused] = prepared(of, state, predictions, targets)?;
    state.append(&refused, &[scores, targets])
}
fn figure(of: &Classification, state: &MetricState, nothing: f64, area: fn(&Thresholds, DType) -> (Tensor, Tensor)) -> Result<Tensor> {
    let _scope = state.enter();
    let (float, width) = (state.float(), of.width());
    let averaging = of.averaging.unwrap_or(Averaging::Macro);
    let (scores, targets) = (state.listed("scores")?, state.listed("targets")?);
    let n = scores.shape()?[0];
    let one = of.kind == TargetKind::Binary || matches!(averaging, Averaging::Macro | Averaging::Weighted | Averaging::Micro);
    if n == 0 {
        let none = Tensor::full_on([width], nothing, float, state.device);
        return state.unless_refused(if one { none.narrow(0, 0, 1).reshape(()) } else { none }, of.bound());
    }
    let mut scores = scores.t();
    let (mut positive, mut valid) = match of.kind {
        TargetKind::Multiclass(_) => {
            let targets = targets.unsqueeze(0);
            (targets.eq(scores.iota_like(0, DType::I64)), targets.ge(0i64).expand([width, n]))
        }
        _ => (targets.t().eq(1i64), targets.t().ge(0i64)),
    };
    let mut n = n;
    if averaging == Averaging::Micro && of.kind != TargetKind::Binary {
        n *= width;
        [scores, positive, valid] = [scores, positive, valid].map(|t| t.reshape([1, n]));
    }
    let curves = Thresholds::new(&scores, &positive, &valid, n);
    let areas = area(&curves, float);
    let figure = match averaging {
        _ if of.kind == TargetKind::Binary => areas.0.reshape(()),
        Averaging::Micro => areas.0.reshape(()),
        Averaging::None => areas.0,
        Averaging::Macro => curves.mean(areas, &Tensor::full_on([width], 1.0, float, state.device), nothing),
        Averaging::Weighted => curves.mean(areas, &curves.support().cast(float), nothing),
    };
    state.unless_refused(figure, of.bound())
}

macro_rules! areas {
    ($($(#[$doc:meta])+ $metric:ident $name:literal $nothing:expr, $area:expr;)*) => {$(
        $(#[$doc])+
        pub struct $metric {
            of: Classification,
            state: MetricState,
        }
        impl $metric {
            /// Nothing seen yet, on the current device.
            ///
            /// # Errors
            /// Options that do not go together: `top_k`, several classes and [`Averaging::Micro`]; memory.
            #[track_caller]
            pub fn new(of: &Classification) -> Result<$metric> {
                Ok($metric { of: of.clone(), state: state($name, of)? })
            }
        }
        impl Metric for $metric {
            holds_state!();
            /// As [`Metric::update`].
            ///
            /// # Errors
            /// Predictions that are no floats, or of another dtype than those of the batches before; a call in a function that is
            /// being captured; as [`Metric::update`].
            #[track_caller]
            fn update(&mut self, predictions: &Tensor, targets: &Tensor) -> Result<()> {
                keep(&self.of, &mut self.state, predictions, targets)
            }
            fn compute(&self) -> Result<Tensor> {
                figure(&self.of, &self.state, $nothing, $area)
            }
        }
    )*};
}
areas! {
    /// The area under the curve of true over false positive rates: how often a positive has a larger score than a negative, equal
    /// scores counting half (scikit-learn's `roc_auc_score`, torchmetrics' `AUROC`). Exact up to 2^31 samples: all scores are kept and sorted. Of
    /// several classes each against the rest. Usual: macro; labels have micro too.
    ///
    /// Shapes and dtypes of batches: [`Classification`], predictions are floats of one dtype. The figure is a number, or
    /// `[classes]` for [`Averaging::None`]; f64 where the device has it, else f32. Memory: the scores and 8 bytes for each target.
    ///
    /// Without a positive or without a negative it is NaN, as in scikit-learn (torchmetrics: 0); such classes do not count in a mean, as in
    /// torchmetrics (scikit-learn: the mean is NaN). A score that is NaN makes it NaN, and every mean.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor, tensor};
    /// use adamant_metrics::{Auroc, Classification, Metric};
    /// # Device::reference().make_current();
    /// let mut area = Auroc::new(&Classification::binary())?;
    /// area.update(&tensor![0.1, 0.4, 0.35, 0.8], &Tensor::from_vec(vec![0i64, 0, 1, 1], [4]))?;
    /// assert_eq!(area.compute()?.item::<f64>()?, 0.75);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[doc(alias = "AUROC")]
    Auroc "auroc" f64::NAN, Thresholds::roc_area;
    /// The mean of precisions, each weighted by the gain in recall over the threshold before (scikit-learn's
    /// `average_precision_score`, torchmetrics' `AveragePrecision`): no interpolation. Of several classes each against the rest.
    /// Usual: macro; labels have micro too.
    ///
    /// Shapes, dtypes and memory: as [`Auroc`]. Without a positive it is 0, as in scikit-learn (torchmetrics: NaN). A score that is
    /// NaN makes it NaN, and every mean.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor, tensor};
    /// use adamant_metrics::{AveragePrecision, Classification, Metric};
    /// # Device::reference().make_current();
    /// let mut precision = AveragePrecision::new(&Classification::binary())?;
    /// precision.update(&tensor![0.1, 0.4, 0.35, 0.8], &Tensor::from_vec(vec![0i64, 0, 1, 1], [4]))?;
    /// assert!((precision.compute()?.item::<f64>()? - 5.0 / 6.0).abs() < 1e-15);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    AveragePrecision "average_precision" 0.0, Thresholds::average_precision;
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant_backend_cpu as _;
    use adamant_core::{Device, compile};

    #[test]
    fn what_is_kept_of_a_batch_is_made_without_reading_it() {
        Device::cpu().unwrap().make_current();
        for of in [Classification::binary(), Classification::multiclass(3).ignore_index(1), Classification::multilabel(3)] {
            let kept = state("auroc", &of).unwrap();
            let captured = compile(|x: &[Tensor]| Ok(prepared(&of, &kept, &x[0], &x[1])?.to_vec()));
            let shape: &[usize] = if of.kind == TargetKind::Multiclass(3) { &[4] } else { &[4, 3] };
            let (scores, targets) = (Tensor::ones([4, 3]), Tensor::full(shape, 0, DType::I64));
            assert_eq!(captured.call(&[&scores, &targets]).unwrap().len(), 3);
            assert_eq!(captured.captures().structures, 1);
        }
    }
}
