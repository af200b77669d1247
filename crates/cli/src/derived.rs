//! What verbs share that make another model of a run's, in a folder of its own.
use crate::{device::DeviceOptions, out, verbs::data_of};
use adamant_train::{Failure, folder::text_of};
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Where the data are, and where the model goes.
#[derive(Args)]
pub struct DerivedModel {
    /// where the data lies; where the run had it, unless it is named
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// the folder of the new model
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    device: DeviceOptions,
    /// prints one JSON document
    #[arg(long)]
    pub json: bool,
}
impl DerivedModel {
    /// Makes it on the device, of a run, into the folder, with the data, and tells what came of it.
    pub fn make<T>(
        &self,
        run: &Path,
        make: impl FnOnce(&Path, &Path) -> Result<T, Failure>,
        json: impl FnOnce(&T) -> Value,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        let device = self.device.open()?;
        let done = device.scoped(|| make(&self.out, &data_of(run, self.data.as_deref())))?;
        if self.json {
            let mut told = json(&done);
            told["out"] = text_of(&self.out).into();
            return out::line(told);
        }
        out::line(format!("{}\nwritten to {}", text(&done), self.out.display()))
    }
}
