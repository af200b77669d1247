//! Which device a command runs on.
use adamant::Device;
use adamant_train::{Document, Failure};
use clap::Args;

/// Options about the device, the same for all verbs.
#[derive(Args, Clone, Default)]
pub struct DeviceOptions {
    /// cpu, cuda:N, wgpu:N, auto or reference
    #[arg(long)]
    device: Option<String>,
    /// as --device cpu: no GPU is looked for
    #[arg(long, conflicts_with = "device")]
    cpu: bool,
    /// threads of the CPU, the caller's among them
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}
impl DeviceOptions {
    /// Does the command say anything of it?
    pub fn is_given(&self) -> bool {
        self.device.is_some() || self.cpu || self.threads.is_some()
    }
    /// Opens it.
    pub fn open(&self) -> Result<Device, Failure> {
        self.of(self.named()?)
    }
    /// Opens it; where the command names none, that of the description.
    pub fn open_for(&self, document: &Document) -> Result<Device, Failure> {
        match self.named()? {
            None => self.of(document.device(chosen)?),
            named => self.of(named),
        }
    }
    /// What the command names.
    fn named(&self) -> Result<Option<Device>, Failure> {
        let named = if self.cpu { Some("cpu") } else { self.device.as_deref() }.map(chosen).transpose();
        named.map_err(|e| if e.kind().word() == "argument" { Failure::Usage(e.kind().to_string()) } else { e.into() })
    }
    fn of(&self, named: Option<Device>) -> Result<Device, Failure> {
        match (self.threads, named) {
            (None, Some(device)) => Ok(device),
            (None, None) => Ok(Device::current()?),
            (Some(n), named) => threads(n, named),
        }
    }
}
/// The device of a name, `auto` among them.
fn chosen(name: &str) -> adamant::Result<Device> {
    match name {
        "auto" => Device::choose().map(|(device, why)| {
            crate::out::note(format!("device {device} ({why})"));
            device
        }),
        name => name.parse::<Device>(),
    }
}
/// The device with one thread of the host: another context of the CPU, any other device as it is.
pub fn one_thread(device: Device) -> Result<Device, Failure> {
    if device.info().backend == "cpu" { threads(1, Some(device)) } else { Ok(device) }
}
/// More threads than any machine has cores: to start them would take what memory there is for their stacks.
#[cfg(feature = "cpu")]
const MOST_THREADS: usize = 1024;
/// The CPU with a number of threads.
#[cfg(feature = "cpu")]
fn threads(n: usize, named: Option<Device>) -> Result<Device, Failure> {
    if n > MOST_THREADS {
        return Err(Failure::Usage(format!("--threads {n}: at most {MOST_THREADS} can be started")));
    }
    if n == 0 || named.is_some_and(|d| d.info().backend != "cpu") {
        return Err(Failure::Usage("--threads takes a number from 1 on, for the cpu".into()));
    }
    let context = adamant::cpu::Context::new(adamant::cpu::CpuBackend::builder().threads(n))?;
    Ok(context.device())
}
#[cfg(not(feature = "cpu"))]
fn threads(_: usize, _: Option<Device>) -> Result<Device, Failure> {
    Err(Failure::Usage("--threads needs the cpu backend, which is not compiled in".into()))
}
