//! What a graph names and does not know: devices, composites. The crate that has them answers.
use super::Graph;
use crate::{
    DeviceId, ErrorKind, PlacedType, TensorType, Types,
    composite::{Built, Given, Keyed},
};

/// Answers for the names of a graph. `()` answers for a graph of primitives on devices that have numbers alone.
///
/// ```
/// use adamant_ir::{DeviceId, graph::{Graph, Reading}};
///
/// let text = "adamant graph 1\n\
///     input %x: f32[2, 3]\n\
///     %exp: f32[2, 3] = exp(%x)\n\
///     return %exp\n";
/// let graph = Graph::parse(text, &Reading::new(DeviceId(0)), &())?;
/// assert_eq!(graph.text(&())?.text, text);
/// # Ok::<(), adamant_ir::graph::GraphError>(())
/// ```
pub trait Environment {
    /// What a device is called.
    ///
    /// # Errors
    /// It is not there.
    fn device_name(&self, device: DeviceId) -> Result<String, ErrorKind> {
        Ok(format!("device {}", device.0))
    }
    /// The device of that name.
    ///
    /// # Errors
    /// It is not there.
    fn device_named(&self, name: &str) -> Result<DeviceId, ErrorKind> {
        let number = name.strip_prefix("device ").and_then(|n| n.parse().ok());
        number.map(DeviceId).ok_or_else(|| ErrorKind::DeviceAbsent(format!("`{name}` is no device")))
    }
    /// The names of all composites.
    fn composites(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// Is there a composite of that name?
    fn has_composite(&self, name: &str) -> bool {
        self.composites().contains(&name)
    }
    /// The composite of that name with these attributes.
    ///
    /// # Errors
    /// There is none; attributes that it does not take.
    fn composite(&self, name: &str, _given: &mut Given) -> Result<Built, ErrorKind> {
        Err(ErrorKind::Argument(format!("there is no composite `{name}`")))
    }
    /// What a composite makes of these inputs. Its rule may be a user's, and may panic.
    ///
    /// # Errors
    /// It does not take them.
    fn infer(&self, composite: &Keyed, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        composite.infer(inputs)
    }
    /// The body of a composite, with all outputs, auxiliary ones too.
    ///
    /// # Errors
    /// It is known to devices alone; what the body returns.
    fn body(&self, composite: &Keyed, _inputs: &[PlacedType]) -> Result<Graph, ErrorKind> {
        Err(ErrorKind::Internal(format!("the body of {} is not known here", composite.name())))
    }
}
impl Environment for () {}
