//! What stands around a layer in quantization-aware training: its input becomes what codes stand for, its forward passes are
//! counted, and the norms of the model stop following their batches. Hooks hold parameters, never the weight that holds them.
use super::{input::FakeQuantizedInput, norm::FrozenNorm};
use adamant_core::{Result, Tensor, grad::HookHandle};
use adamant_nn::{Copies, Param, Site, Walk, Walker};

/// The hooks of one layer, or of those that share its weight; they go with it.
pub(crate) struct LayerHooks {
    pub sites: Vec<Site>,
    pub input: FakeQuantizedInput,
    observed: Param,
    /// the first layer of a model has all of its norms
    norms: Vec<FrozenNorm>,
    handles: Vec<HookHandle>,
}
impl LayerHooks {
    #[track_caller]
    pub fn attach(sites: Vec<Site>, input: FakeQuantizedInput, observed: &Param, norms: Vec<FrozenNorm>) -> Result<LayerHooks> {
        // What was registered before an error goes with it.
        let mut hooks = LayerHooks { sites, input, observed: observed.clone(), norms, handles: Vec::new() };
        for k in 0..hooks.sites.len() {
            let (site, input) = (hooks.sites[k].clone(), hooks.input.clone());
            if !matches!(input, FakeQuantizedInput::Float) {
                hooks.handles.push(site.register_forward_pre_hook(move |site, inputs| {
                    let all: Result<Vec<Tensor>> = inputs.iter().map(|x| input.fake_quantized(x, site.is_training())).collect();
                    all.map(Some)
                })?);
            }
            // A pass of layers that share a weight counts once.
            if k == 0 {
                let observed = hooks.observed.clone();
                hooks.handles.push(site.register_forward_hook(move |site, _, _| {
                    if site.is_training() {
                        observed.set(&(observed.detached() + 1))?;
                    }
                    Ok(None)
                })?);
            }
        }
        for k in 0..hooks.norms.len() {
            let handles = hooks.norms[k].attach()?;
            hooks.handles.extend(handles);
        }
        Ok(hooks)
    }
    /// Takes the hooks away.
    pub fn detach(&self) {
        self.handles.iter().for_each(HookHandle::remove);
    }
    #[track_caller]
    pub fn apart(&self, copies: &mut Copies) -> Result<LayerHooks> {
        let sites = self.sites.duplicate(copies)?;
        let norms = self.norms.iter().map(|norm| norm.apart(copies)).collect::<Result<_>>()?;
        LayerHooks::attach(sites, self.input.apart(copies)?, &self.observed.duplicate(copies)?, norms)
    }
    pub fn walk(&self, walker: &mut Walker<'_>) {
        if let FakeQuantizedInput::Ranged { range, .. } = &self.input {
            walker.child("input_low", &range.low);
            walker.child("input_high", &range.high);
            walker.child("input_step", &range.step);
        }
    }
}
impl Drop for LayerHooks {
    fn drop(&mut self) {
        self.detach();
    }
}
