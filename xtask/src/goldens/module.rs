//! Modules: built by torch's constructor arguments, given torch's weights, run once.
use super::{
    call::{OpCall, unsupported},
    files::Files,
    manifest::Case,
};
use adamant::{
    Device, Error, Tensor,
    nn::{Param, Walk},
};
use std::sync::Arc;

mod build;
mod layers;
mod sequence;

/// What a case's forward needs.
type Forward = Box<dyn Fn(&OpCall) -> Result<Vec<Tensor>, Error>>;
/// A module, and how it takes a case's inputs.
pub struct BuiltModule {
    parts: Arc<dyn Walk>,
    forward: Forward,
}
impl BuiltModule {
    /// Any module with a forward of its own.
    fn new<M: Walk + 'static>(module: M, forward: impl Fn(&M, &OpCall) -> Result<Vec<Tensor>, Error> + 'static) -> BuiltModule {
        let module = Arc::new(module);
        BuiltModule { parts: module.clone(), forward: Box::new(move |call| forward(&module, call)) }
    }
    /// A module from one tensor to one tensor.
    fn one<M: adamant::nn::Module + 'static>(module: M) -> BuiltModule {
        BuiltModule::new(module, |m, call| Ok(vec![m.forward(call.tensor(0)?)?]))
    }
}

/// The outputs of a module case, and the parameters whose gradients it asks for by the names of their tensors.
pub struct Ran {
    /// what forward gave
    pub outputs: Vec<Tensor>,
    /// the parameters by the names of their gradients
    pub parameters: Vec<(String, Param)>,
    /// the buffers after forward by the names of their tensors
    pub buffers: Vec<(String, Tensor)>,
}
/// Builds the module of a case, loads its state, and runs it on the inputs.
pub fn run(call: &OpCall, files: &Files, device: Device) -> Result<Ran, Error> {
    let case = call.case();
    if let Some((name, value)) = case.call.iter().find(|(_, v)| !v.is_null()) {
        return Err(unsupported(format!("forward of {} with {name} = {value}", case.op)));
    }
    let built = build::build(call)?;
    let state = state(case, files, device)?;
    if let Some(dtype) = state.iter().map(|(_, t)| t).chain(call.tensors()).filter_map(|t| t.dtype().ok()).find(|d| d.is_float()) {
        built.parts.cast(dtype)?;
    }
    built.parts.load_state_dict(&state)?;
    built.parts.set_training(case.mode != "eval");
    let outputs = (built.forward)(call)?;
    for output in &outputs {
        output.materialize()?;
    }
    let wanted = |name: &str| case.param_grads.get(name).cloned().flatten();
    let parameters = built.parts.named_parameters().into_iter().filter_map(|(name, p)| Some((wanted(&name)?, p))).collect();
    let buffers = built.parts.named_buffers().into_iter().filter_map(|(name, b)| Some((case.buffers_after.get(&name)?.clone(), b.detached()))).collect();
    Ok(Ran { outputs, parameters, buffers })
}
fn state(case: &Case, files: &Files, device: Device) -> Result<Vec<(String, Tensor)>, Error> {
    case.state.iter().map(|(name, stored)| Ok((name.clone(), files.tensor(case, stored, device)?))).collect()
}
