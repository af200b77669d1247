//! A state that can be put back whole: values are shared with the cells until these are written, so that holding one costs nothing before the
//! next step, and the memory of it all from then on.
use adamant_core::{Device, Result, Tensor, step};
use adamant_nn::{Param, RngState, rng_state, set_rng_state};
use adamant_optim::{GradientClipper, Hyperparameters, Optimizer};

/// See the module's documentation.
pub(super) struct HeldState {
    /// steps that were done then
    pub step: u64,
    /// the step behind which it was held, or put back last
    pub since: u64,
    leaves: Vec<(Param, Tensor)>,
    slots: Vec<(String, Tensor)>,
    hyperparameters: Vec<Hyperparameters>,
    clipping: Vec<(String, Tensor)>,
    generators: Vec<(Device, RngState)>,
}
impl HeldState {
    #[track_caller]
    pub fn of(step: u64, leaves: Vec<(String, Param)>, optimizer: &dyn Optimizer, clipper: Option<&GradientClipper>) -> Result<HeldState> {
        let mut devices: Vec<Device> = vec![Device::current()?];
        for (_, p) in &leaves {
            let device = p.cell().meta().device;
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
        Ok(HeldState {
            step,
            since: step,
            leaves: leaves.into_iter().map(|(_, p)| (p.clone(), p.detached())).collect(),
            slots: optimizer.state_dict(),
            hyperparameters: optimizer.hyperparameters(),
            clipping: clipper.map(GradientClipper::state_dict).unwrap_or_default(),
            generators: devices.into_iter().map(|device| Ok((device, rng_state(device)?))).collect::<Result<_>>()?,
        })
    }
    /// All of it, at rates that are multiplied by `factor`: also those that a later bad step puts back.
    #[track_caller]
    pub fn put_back(&mut self, optimizer: &mut dyn Optimizer, clipper: Option<&mut GradientClipper>, factor: f64) -> Result<()> {
        step(|| {
            self.leaves.iter().try_for_each(|(p, value)| p.cell().set(value))?;
            optimizer.load_state_dict(&self.slots)?;
            self.generators.iter().try_for_each(|(device, state)| set_rng_state(*device, *state))?;
            clipper.map_or(Ok(()), |clipper| clipper.load_state_dict(&self.clipping))
        })?;
        optimizer.set_hyperparameters(&self.hyperparameters)?;
        let rates: Vec<f64> = optimizer.lrs().iter().map(|lr| lr * factor).collect();
        optimizer.set_lrs(&rates);
        self.hyperparameters = optimizer.hyperparameters();
        Ok(())
    }
}
