//! Training runs from TOML files: what data, what model of stacked layers, which optimizer and schedule; a run folder that
//! a person and a program can read; runs that survive being killed.
//!
//! ```text
//! Document (config) -> Setup (setup, dataset, model, recipe, objective) -> Session (session) <-> Snapshot (checkpoint, storage)
//!                                                                             |
//!                      trainer: steps, lines, validation, checkpoints --------+--> RunFolder (folder, events) --> report, plot
//!                      Run (run): the same for a description, then the test part
//! ```
//!
//! The test part is read once, after training. Keys that nobody asked for are errors with the line and the nearest
//! known spelling; nothing in a file is silently ignored.
//!
//! Architecture invariant: no backend is named here and nothing is printed; a caller watches through [`Watch`] and asks
//! for an end through [`Interrupt`]. Who is no caller does both over the socket of [`control`].
#![forbid(unsafe_code)]

pub mod alerts;
pub mod analysis;
pub mod checkpoint;
pub mod config;
pub mod control;
pub mod dataset;
pub mod doctor;
mod dry;
pub mod evaluate;
pub mod events;
mod failure;
pub mod folder;
mod incident;
pub mod merged;
mod model;
pub mod monitor;
mod objective;
pub mod pruned;
pub mod quantized;
pub use adamant_plot as plot;
mod recipe;
pub mod report;
mod run;
mod session;
mod setup;
pub mod storage;
pub mod suggest;
pub mod summary;
pub mod trained;
pub mod trainer;
mod watch;

pub use adamant_amp::{AmpStats, FallbackOptions, Precision, PrecisionMode, ScalerOptions, ScheduleOn};
pub use adamant_stability::{HandlingType, NanOptions};
pub use config::Document;
pub use dry::{DryRun, Sample, Summarised, dry_run, sample, summarise};
pub use evaluate::{EvaluateOptions, Evaluation, evaluate};
pub use failure::Failure;
pub use model::model;
pub use objective::{Judged, Objective};
pub use recipe::{OPTIMIZERS, OnExtend, SCHEDULES, course, optimizer, schedule};
pub use run::{Report, Run, rank_timeout, train};
pub use session::{
    ALL_AT_ONCE, CompressionPlan, Course, GradientCompression, Habits, Look, LossOf, MeshedModel, OpByOp, PassOf, Position, Session, StepSharing, Stepped,
    UnitCuts, WholeModel, ZeroStage, first_bucket,
};
pub use setup::{CheckpointPlan, Length, RunModel, Setup, Validation, validate};
pub use trained::{Sampling, Task, Trained};
pub use trainer::{EarlyStopping, MetAgain, Monitor, RankMeeting, Trainer};
pub use watch::{EpochReport, Interrupt, Plan, Rows, StepReport, Watch};
