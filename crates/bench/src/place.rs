//! Where the workloads of a program run: a device with so many threads, opened once.
use crate::{
    machine::{Facts, Machine, Toolchain, facts_of},
    record::Settings,
};
use adamant::{
    Device, Error,
    cpu::{Context, CpuBackend},
};

/// A device and its threads.
#[derive(Clone, Debug)]
pub struct BenchPlace {
    /// the device
    pub device: Device,
    /// its threads
    pub threads: usize,
}
impl BenchPlace {
    /// The device under its name (`cpu`, `cuda:0`, `reference`); the CPU with a pool of so many threads.
    ///
    /// # Errors
    /// There is no such device, or `ADAMANT_ISA` asks for what the CPU lacks.
    pub fn open(name: &str, threads: usize) -> Result<BenchPlace, Error> {
        let device = if name == "cpu" { Context::new(CpuBackend::builder().threads(threads))?.device() } else { name.parse()? };
        Ok(BenchPlace { device, threads })
    }
    /// The plain interpreter.
    pub fn reference() -> BenchPlace {
        BenchPlace { device: Device::reference(), threads: 1 }
    }
    /// How a run measures there.
    pub fn settings(&self, label: Option<&str>, budget_s: f64, precision: f64, small: bool) -> Settings {
        let info = self.device.info();
        Settings {
            label: label.map_or_else(|| Machine::here().short(), str::to_string),
            device: self.device.to_string(),
            device_name: info.name.clone(),
            device_details: info.details.iter().map(|(k, v)| (k.to_string(), v.clone())).collect(),
            threads: self.threads,
            budget_s,
            precision,
            small,
        }
    }
    /// Facts of the machine, the toolchain and the device, under the names that a record gives them.
    pub fn facts(&self) -> Facts {
        let mut facts = Facts::new();
        facts_of("machine", &serde_json::json!(Machine::here()), &mut facts);
        facts_of("toolchain", &serde_json::json!(Toolchain::here()), &mut facts);
        let info = self.device.info();
        facts.extend([("device".into(), self.device.to_string()), ("device_name".into(), info.name.clone()), ("threads".into(), self.threads.to_string())]);
        facts.extend(info.details.iter().map(|(k, v)| (format!("device.{k}"), v.clone())));
        facts
    }
}
