//! A training run from a TOML file: what data, what model of stacked layers, which optimizer and schedule.
//!
//! The test part is read once, after training. Keys that nobody asked for are errors with the line and the nearest
//! known spelling; nothing in a file is silently ignored.
//!
//! Architecture invariant: no backend is named here and nothing is printed; a caller watches through [`Watch`].
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod config;
mod dataset;
pub mod events;
pub mod memory;
mod model;
pub mod monitor;
pub mod plot;
mod recipe;
pub mod report;
mod run;
pub mod storage;
pub mod suggest;
pub mod summary;

pub use config::Document;
pub use dataset::{Dataset, Part};
pub use model::model;
pub use recipe::{optimizer, schedule};
pub use run::{EpochReport, Plan, Report, Watch, train};

use adamant_core::ErrorKind;
use std::fmt;

/// Why a run did not end well.
#[derive(Debug)]
pub enum Failure {
    /// The description asks for something that makes no sense.
    Usage(String),
    /// A file cannot be read.
    Input(String),
    /// The device is not there.
    Device(String),
    /// The run began and failed.
    Run(String),
}
impl Failure {
    /// The exit code of a command that ends so: 1 failed, 2 usage, 4 unreadable input, 9 device absent.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Run(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Input(_) => 4,
            Failure::Device(_) => 9,
        }
    }
}
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Input(text) | Failure::Device(text) | Failure::Run(text) => f.write_str(text),
        }
    }
}
impl std::error::Error for Failure {}
impl From<adamant_core::Error> for Failure {
    fn from(error: adamant_core::Error) -> Failure {
        match error.kind() {
            ErrorKind::File { .. } => Failure::Input(error.to_string()),
            ErrorKind::DeviceAbsent(_) => Failure::Device(error.to_string()),
            _ => Failure::Run(error.to_string()),
        }
    }
}
