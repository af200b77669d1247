//! Optimizers, learning-rate schedules, gradient clipping and accumulation.
//!
//! An optimizer is an [`UpdateRule`] (the formula with its hyper-parameters) over parameters. Its state lives in
//! cells named `<parameter path>.<slot>`, counts of steps too; a step commits all of its writes or none. Hyper-parameters
//! enter the formulas as scalar operands, so a new learning rate runs the plan of the step before, and a captured step
//! (`adamant_core::compile`) asks for them at each call.
//!
//! Architecture invariant: formulas only; this crate names no backend.
#![forbid(unsafe_code)]

mod accumulate;
mod average;
mod boxed;
mod central;
mod clip;
mod ewc;
mod lbfgs;
mod lookahead;
mod numbers;
mod optimizer;
mod pieces;
mod rule;
mod rules;
pub mod schedule;
mod slots;
mod stateless;
mod weights;

pub use accumulate::GradAccumulator;
pub use average::{AveragedModel, WeightAverage, update_bn, update_bn_by};
pub use central::{Centralized, centralize_gradients};
pub use clip::{
    ClipNorm, Clipped, ClippingOptions, ClippingType, GradientClipper, GradientMeasure, clip_grad_norm, clip_grad_value, clip_grads_with_norm, get_total_norm,
};
pub use ewc::Ewc;
pub use lbfgs::{Lbfgs, LbfgsOptions, LineSearch};
pub use lookahead::Lookahead;
pub use numbers::Hyperparameters;
pub use optimizer::{Group, Optimizer, UpdateRule, Updater};
pub use pieces::ParameterPieces;
pub use rule::Rates;
pub use rules::{
    adagrad::{Adadelta, Adagrad},
    adam::{Adam, AdamW, Adamax, NAdam, RAdam},
    large::{Adafactor, Lamb, Lion},
    matrix::{AdjustLr, Muon},
    sgd::{Asgd, RmsProp, Rprop, Sgd},
    sparse::SparseAdam,
};
pub use slots::{Scalars, Slots};
pub use stateless::{SwappedState, swap_in_optimizer_params_and_state};
pub use weights::WeightUpdate;
