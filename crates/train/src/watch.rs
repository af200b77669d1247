//! What those who watch a run get to see.
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
};

/// What a run is going to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// the device's text
    pub device: String,
    /// elements of all parameters
    pub parameters: usize,
    /// rows of the training, validation and test part
    pub rows: Rows,
    /// passes over the training part; none in a run of so many iterations
    pub epochs: Option<u64>,
    /// rows in a batch
    pub batch: usize,
    /// batches in a step
    pub accumulate: usize,
    /// steps of the whole run
    pub steps: u64,
    /// where initial values, order and dropout come from
    pub seed: u64,
    /// the optimizer's name
    pub optimizer: &'static str,
    /// how gradients are limited: `off`, or the kind with its numbers
    pub clip: String,
    /// what steps compute in
    pub precision: String,
    /// where the run is kept
    pub folder: Option<PathBuf>,
}
/// Rows of each part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// learned from
    pub train: usize,
    /// judged by while learning
    pub valid: usize,
    /// judged by once, at the end
    pub test: usize,
}
/// A line of the log.
#[derive(Clone, Copy, Debug)]
pub struct StepReport {
    /// steps done
    pub step: u64,
    /// the epoch, from 1
    pub epoch: u64,
    /// the loss of the step
    pub loss: f64,
    /// the learning rate of the next step
    pub lr: f64,
    /// rows in a second since the line before
    pub rows_per_second: f64,
}
/// An epoch that is over, or a validation within one.
#[derive(Clone, Copy, Debug)]
pub struct EpochReport {
    /// which, from 1
    pub epoch: u64,
    /// steps done
    pub step: u64,
    /// the mean loss of its batches
    pub loss: f64,
    /// (loss, accuracy) on the validation part
    pub valid: Option<(f64, Option<f64>)>,
    /// the learning rate at its end
    pub lr: f64,
    /// seconds of training, since this program began with it
    pub seconds: f64,
}
/// Somebody who watches a run. Everything has an empty body: watch what you like.
pub trait Watch {
    /// Training begins.
    fn begin(&mut self, _plan: &Plan) {}
    /// The run goes on from a checkpoint.
    fn resume(&mut self, _step: u64) {}
    /// A step is done.
    fn step(&mut self, _step: u64) {}
    /// A line is logged.
    fn log(&mut self, _report: &StepReport) {}
    /// An epoch is done.
    fn epoch(&mut self, _report: &EpochReport) {}
    /// A checkpoint lies on the disk.
    fn checkpoint(&mut self, _path: &Path) {}
    /// Something that a person should know, and that does not stop the run.
    fn warn(&mut self, _text: &str) {}
}
impl Watch for () {}

/// A request to stop, set from anywhere (a signal handler among them): the run ends after the step it is in, with a checkpoint.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicI32>);
impl Interrupt {
    /// Nobody has asked yet.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }
    /// Asks, for a signal of this number.
    pub fn ask(&self, signal: i32) {
        self.0.store(signal, Ordering::Relaxed);
    }
    /// The signal, if somebody asked.
    pub fn asked(&self) -> Option<i32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|s| *s != 0)
    }
}
