//! Which device is the fastest for tensors of a size. It is not guessed from names but measured, by who records work: from
//! recording to the number that is read, which is where small tensors lose on a far device.
use super::{Device, RECORDERS};
use crate::{Error, ErrorKind, Result, backend::BACKENDS};
use parking_lot::Mutex;
use std::time::Duration;

/// What was chosen so far, by the power of two of the size.
static CHOSEN: Mutex<Vec<(u32, Device)>> = Mutex::new(Vec::new());

impl Device {
    /// The backends that are compiled in, each with its first device, or why there is none.
    pub fn available() -> Vec<(&'static str, Result<Device>)> {
        BACKENDS.iter().map(|r| (r.name, Device::open(r.name, 0))).collect()
    }
    /// The device that is the fastest for work on tensors of so many elements. The first call for a power of two measures
    /// all devices that are there, in fractions of a second; later ones give the same device.
    ///
    /// ```no_run
    /// # use adamant_runtime::Device;
    /// let device = Device::for_size(1_000_000)?;
    /// # Ok::<(), adamant_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// No device is there.
    #[track_caller]
    pub fn for_size(elements: usize) -> Result<Device> {
        let class = elements.max(1).next_power_of_two().trailing_zeros();
        if let Some((_, device)) = CHOSEN.lock().iter().find(|c| c.0 == class) {
            return Ok(*device);
        }
        let (devices, reasons): (Vec<_>, Vec<_>) = Device::available().into_iter().map(|(_, found)| found).partition(|found| found.is_ok());
        let devices: Vec<Device> = devices.into_iter().flatten().collect();
        let timed = |device: &Device| device.time_of(elements).ok().map(|time| (time, *device));
        let fastest = if let [only] = devices[..] { Some(only) } else { devices.iter().filter_map(timed).min_by_key(|t| t.0).map(|t| t.1) };
        let Some(device) = fastest else {
            let why: Vec<String> = reasons.into_iter().filter_map(|r| r.err().map(|e| e.kind().to_string())).collect();
            return Err(Error::new("device", ErrorKind::DeviceAbsent(format!("no device can be used: {}", why.join("; ")))));
        };
        let mut chosen = CHOSEN.lock();
        // Another thread may have been as fast.
        if let Some((_, device)) = chosen.iter().find(|c| c.0 == class) {
            return Ok(*device);
        }
        chosen.push((class, device));
        Ok(device)
    }
    /// How long the device takes for the work by which [`Device::for_size`] compares.
    ///
    /// # Errors
    /// Memory, a lost device; nobody records work for devices in this program.
    #[track_caller]
    pub fn time_of(self, elements: usize) -> Result<Duration> {
        match RECORDERS.iter().next() {
            Some(recorder) => (recorder.time_of)(self, elements),
            None => Err(Error::new("device", ErrorKind::Internal("nobody records work for devices in this program".into()))),
        }
    }
}
