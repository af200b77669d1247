//! An optimizer in a box is one.
use crate::{Hyperparameters, Optimizer, ParameterPieces, Rates, WeightUpdate};
use adamant_core::{DType, Grads, Result, Tensor};
use adamant_nn::Param;
use std::sync::Arc;

impl<O: Optimizer + ?Sized> Optimizer for Box<O> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn step(&mut self, grads: &Grads) -> Result<()> {
        (**self).step(grads)
    }
    fn lrs(&self) -> Vec<f64> {
        (**self).lrs()
    }
    fn set_lrs(&mut self, lrs: &[f64]) {
        (**self).set_lrs(lrs);
    }
    fn rates(&self) -> Arc<dyn Rates> {
        (**self).rates()
    }
    fn set_momentum(&mut self, momentum: f64) {
        (**self).set_momentum(momentum);
    }
    fn hyperparameters(&self) -> Vec<Hyperparameters> {
        (**self).hyperparameters()
    }
    fn set_hyperparameters(&mut self, groups: &[Hyperparameters]) -> Result<()> {
        (**self).set_hyperparameters(groups)
    }
    fn parameters(&self) -> Vec<Param> {
        (**self).parameters()
    }
    fn parameter_groups(&self) -> Vec<Vec<Param>> {
        (**self).parameter_groups()
    }
    fn state_dict(&self) -> Vec<(String, Tensor)> {
        (**self).state_dict()
    }
    fn load_state_dict(&mut self, state: &[(String, Tensor)]) -> Result<()> {
        (**self).load_state_dict(state)
    }
    fn set_weight_update(&mut self, by: WeightUpdate) -> Result<()> {
        (**self).set_weight_update(by)
    }
    fn set_slot_dtype(&mut self, dtype: DType) -> Result<()> {
        (**self).set_slot_dtype(dtype)
    }
    fn adopt_masters(&mut self, masters: &[(Param, Tensor)]) -> Result<()> {
        (**self).adopt_masters(masters)
    }
    fn is_elementwise(&self) -> bool {
        (**self).is_elementwise()
    }
    fn share_out(&mut self, pieces: Arc<dyn ParameterPieces>) -> Result<()> {
        (**self).share_out(pieces)
    }
}
