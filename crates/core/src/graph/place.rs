//! The names of the devices that a graph's text mentions: the one file of the graph that asks a device anything.
use crate::{Device, DeviceId, ErrorKind};

/// What the text calls the device that the graph is at home on.
const HOME: &str = "home";

/// The device's name in the text of a graph.
pub(super) fn name(device: Device, home: Device) -> String {
    if device == home { HOME.into() } else { device.to_string() }
}
/// The name of the device of a number.
pub(crate) fn name_of(id: DeviceId, home: Device) -> String {
    Device::of_id(id).map_or_else(|_| format!("device {}", id.0), |device| name(device, home))
}
/// A number that tells devices apart in this process.
pub(super) fn number(device: Device) -> u32 {
    device.index()
}
/// The device of that name.
///
/// # Errors
/// It is not there.
pub(crate) fn device(name: &str, home: Device) -> Result<Device, ErrorKind> {
    if name == HOME { Ok(home) } else { name.parse::<Device>().map_err(|e| e.kind().clone()) }
}
