//! What this program answers for the names of a graph: its devices, its groups of ranks, its composites and their bodies.
use super::capture::body_of;
use crate::{
    Device, DeviceId, ErrorKind, Meta, TensorType, Types,
    composite::{Built, Given, Keyed, build, is_registered, registered},
    foreign::guarded,
};
use adamant_ir::{
    PlacedType,
    graph::{Environment, Graph},
};

/// The devices, groups and composites of this program.
pub(crate) struct Program;
impl Environment for Program {
    fn device_name(&self, device: DeviceId) -> Result<String, ErrorKind> {
        Device::of_id(device).map(|d| d.to_string())
    }
    fn device_named(&self, name: &str) -> Result<DeviceId, ErrorKind> {
        name.parse::<Device>().map(Device::id).map_err(|e| e.kind().clone())
    }
    fn composites(&self) -> Vec<&'static str> {
        registered().collect()
    }
    fn has_composite(&self, name: &str) -> bool {
        is_registered(name)
    }
    fn composite(&self, name: &str, given: &mut Given) -> Result<Built, ErrorKind> {
        build(name, given)
    }
    fn infer(&self, composite: &Keyed, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        guarded(|| format!("the shape rule of {}", composite.name()), || composite.infer(inputs))?
    }
    fn body(&self, composite: &Keyed, inputs: &[PlacedType]) -> Result<Graph, ErrorKind> {
        let metas = inputs.iter().map(|x| Ok(Meta::new(x.ty, Device::of_id(x.place)?))).collect::<Result<Vec<_>, ErrorKind>>()?;
        body_of(composite, &metas)
    }
}
