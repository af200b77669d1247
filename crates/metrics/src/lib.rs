//! Metrics as accumulators on the device: what a model is judged by, over as many batches as there are.
//!
//! A metric takes batches in by [`Metric::update`], which records ops and waits for nothing; [`Metric::compute`] gives the figure
//! as a tensor, and the host waits only where somebody reads that. What is accumulated is a few cells ([`MetricState`]): counts
//! are i64, exact up to 2^63; sums of floats are f64 where the device has it, else f32 and then as exact as a sum in f32 is. Cells
//! are written in a step at the end of each update, so memory stays the same however many updates there are, an update may be
//! part of a captured function ([`adamant_core::compile()`]), and one that is refused changes nothing. Areas under curves are
//! exact, so [`Auroc`] and [`AveragePrecision`] keep the scores of all batches.
//!
//! Workers that run beside one another have a metric each; [`Metric::merge`] takes in what another has seen.
//! [`Metric::state_dict`] and [`Metric::load_state_dict`] are for checkpoints.
//!
//! A class out of range is found by the device, which no update waits for: the update counts nothing of that target and
//! notes the class, and what [`Metric::compute`] gives is an error that names it, when it is read, until [`Metric::reset`].
//!
//! ```
//! # use adamant_core::{Device, Tensor, tensor};
//! use adamant_metrics::{Accuracy, Classification, Metric};
//! # Device::reference().make_current();
//! let mut accuracy = Accuracy::new(&Classification::multiclass(3))?;
//! for (scores, classes) in [
//!     (tensor![[0.8, 0.1, 0.1], [0.2, 0.3, 0.5]], Tensor::from_vec(vec![0i64, 2], [2])),
//!     (tensor![[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]], Tensor::from_vec(vec![1i64, 1], [2])),
//! ] {
//!     accuracy.update(&scores, &classes)?;
//! }
//! assert_eq!(accuracy.compute()?.item::<f64>()?, 0.75);
//! # Ok::<(), adamant_core::Error>(())
//! ```
//!
//! Definitions, defaults and what 0 / 0 is are those of scikit-learn 1.9 (`sklearn.metrics`) and torchmetrics 1.x
//! (`torchmetrics.classification`, `.regression`, `.text`, `.aggregation`); where the two differ, the metric says which is followed.
//! Scores are taken as they are: nothing guesses that they are logits and applies a sigmoid, as torchmetrics does.
//!
//! Architecture invariant: formulas on tensors only; this crate names no backend and no layer, and reads no value.
#![forbid(unsafe_code)]

mod classes;
mod collection;
mod confusion;
mod curve;
mod means;
mod ranking;
mod rates;
mod regression;
mod state;

pub use classes::{Averaging, Classification};
pub use collection::MetricCollection;
pub use confusion::{CohenKappa, ConfusionMatrix, ConfusionShares, KappaWeights, MatthewsCorrCoef};
pub use means::{MeanMetric, Perplexity};
pub use ranking::{Auroc, AveragePrecision};
pub use rates::{Accuracy, FBeta, Precision, Recall, Specificity};
pub use regression::{MeanAbsoluteError, MeanSquaredError, OutputAveraging, R2Score};
pub use state::{Metric, MetricState};
