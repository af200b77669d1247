//! The names of the devices that a graph's text mentions: the one file of the graph that asks a device anything.
use crate::{Device, ErrorKind};

/// What the text calls the device that the graph is at home on.
const HOME: &str = "home";

/// The device's name in the text of a graph.
pub(super) fn name(device: Device, home: Device) -> String {
    if device == home { HOME.into() } else { device.to_string() }
}
/// A number that tells devices apart in this process.
pub(super) fn number(device: Device) -> u32 {
    device.index()
}
/// The device of that name.
///
/// # Errors
/// It is not there.
pub(super) fn device(name: &str, home: Device) -> Result<Device, ErrorKind> {
    if name == HOME { Ok(home) } else { name.parse::<Device>().map_err(|e| e.kind().clone()) }
}
