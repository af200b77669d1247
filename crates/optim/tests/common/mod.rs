//! What tests of several files do with gradients.
use adamant_core::{Grads, Tensor};
use adamant_nn::Param;

/// Gradients of parameters.
pub fn set(parameters: &[Param], gradients: &[Tensor]) -> Grads {
    let mut grads = Grads::default();
    parameters.iter().zip(gradients).for_each(|(p, g)| grads.set(&p.cell(), g.clone()));
    grads
}
