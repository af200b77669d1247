//! What a card does at this moment, as NVML tells its owner. It comes with the driver; where it is absent, nothing else fails.
use crate::options::unsupported;
use adamant_runtime::ErrorKind;
use nvml_wrapper::{
    Nvml,
    enum_wrappers::device::{Clock, TemperatureSensor},
    error::NvmlError,
};
use std::sync::OnceLock;

/// A card at one moment. What a card does not tell is none.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CudaLoad {
    /// share of the time in which kernels ran lately, from 0 to 1
    pub compute: Option<f64>,
    /// share of the time in which memory was read or written lately, from 0 to 1
    pub memory: Option<f64>,
    /// clock of the multiprocessors, in MHz
    pub compute_clock: Option<u32>,
    /// clock of the memory, in MHz
    pub memory_clock: Option<u32>,
    /// power that is drawn, in watts
    pub power: Option<f64>,
    /// temperature of the card, in degrees Celsius
    pub temperature: Option<u32>,
}
/// Opened when it is first asked for.
fn nvml() -> Result<&'static Nvml, ErrorKind> {
    static NVML: OnceLock<Result<Nvml, String>> = OnceLock::new();
    let opened = NVML.get_or_init(|| Nvml::init().map_err(|e| format!("the card's load: NVML, libnvidia-ml.so.1 of the card's driver, does not open: {e}")));
    opened.as_ref().map_err(|why| unsupported(why))
}
/// What the card of this id does.
///
/// # Errors
/// There is no NVML, or it knows no such card.
pub(crate) fn load_of(id: [u8; 16]) -> Result<CudaLoad, ErrorKind> {
    let hex: Vec<String> = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("GPU-{}-{}-{}-{}-{}", hex[..4].concat(), hex[4..6].concat(), hex[6..8].concat(), hex[8..10].concat(), hex[10..].concat());
    let failed = |e: NvmlError| unsupported(&format!("the card's load: NVML says of {name}: {e}"));
    let card = nvml()?.device_by_uuid(name.as_str()).map_err(failed)?;
    let told = |said: Result<u32, NvmlError>| match said {
        Ok(value) => Ok(Some(value)),
        Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => Ok(None),
        Err(e) => Err(failed(e)),
    };
    let rates = match card.utilization_rates() {
        Ok(rates) => Some(rates),
        Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => None,
        Err(e) => return Err(failed(e)),
    };
    let share = |percent: u32| f64::from(percent) / 100.0;
    Ok(CudaLoad {
        compute: rates.as_ref().map(|r| share(r.gpu)),
        memory: rates.as_ref().map(|r| share(r.memory)),
        compute_clock: told(card.clock_info(Clock::SM))?,
        memory_clock: told(card.clock_info(Clock::Memory))?,
        power: told(card.power_usage())?.map(|milliwatts| f64::from(milliwatts) / 1e3),
        temperature: told(card.temperature(TemperatureSensor::Gpu))?,
    })
}
