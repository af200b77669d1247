//! `--report FILE`: what was measured, with the machine, the versions and the settings, as one JSON document. It is a record
//! as `docs/bench-record.md` describes it, so that whatever reads records reads it too: `bench merge`, `report`, `history`
//! of a benchmark program.
use adamant::{Device, formats::whole::replace};
use adamant_bench::{
    place::BenchPlace,
    record::{Case, Record},
};
use adamant_train::{
    Failure,
    storage::{Operation, StorageError, check_output},
};
use std::{
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// More samples of a line say nothing new, and make the file large: beyond, each is the mean of some calls.
const MOST_SAMPLES: usize = 2000;

/// A report that is being made.
pub struct Report {
    file: PathBuf,
    record: Record,
}
impl Report {
    /// Of what a device will do. The file is looked at first: what was measured in minutes is not lost to a wrong name.
    pub fn begin(file: &Path, device: Device, seconds: f64) -> Result<Report, Failure> {
        check_output(file)?;
        let place = BenchPlace { device, threads: device.info().parallelism.max(1) };
        Ok(Report { file: file.into(), record: Record::begun(SystemTime::now(), place.settings(None, seconds, 0.0, false)) })
    }
    /// Adds the calls of a case, as they took.
    pub fn add(&mut self, case: Case, calls: &[Duration]) {
        let each = calls.len().div_ceil(MOST_SAMPLES).max(1);
        // What is left over would be a sample of fewer calls.
        let mean = |some: &[Duration]| some.iter().map(Duration::as_nanos).sum::<u128>() as f64 / some.len() as f64;
        // The clock may not have ticked.
        let samples: Vec<f64> = calls.chunks_exact(each).map(|some| mean(some).max(1.0)).collect();
        let waited = vec![0.0; samples.len()];
        self.record.cases.push(case.sampled(samples, waited, each as u64));
    }
    /// Writes the file, whole or not at all.
    pub fn write(mut self) -> Result<(), Failure> {
        self.record.load_after = adamant_bench::machine::Load::now();
        let text = serde_json::to_string(&self.record).map_err(|e| Failure::Run(format!("the report cannot be told: {e}")))?;
        let unwritable = |e: std::io::Error| Failure::from(StorageError::of(Operation::Write, &self.file, text.len() as u64, &e));
        replace(&self.file, unwritable, |to| writeln!(to, "{text}").map_err(unwritable))
    }
}
