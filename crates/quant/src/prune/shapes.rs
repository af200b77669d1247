//! Shapes of models that lost channels, so that a fresh model can be given them. Must not know why a shape is what it is.
use super::structured::STRUCTURED;
use crate::select::{check, nothing_means, placed_params};
use adamant_core::{Result, Shape, Tensor};
use adamant_nn::Walk;
use std::collections::BTreeMap;

/// Gives parameters and buffers of a fresh model smaller shapes, as [`super::StructuredReport::shapes`] tells them; their values are
/// zeros until a state dict is loaded.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module, Relu, Sequential, Walk};
/// # use adamant_quant::prune::{StructuredPruner, shrink_to};
/// # adamant_core::Device::reference().make_current();
/// let net = || Ok::<_, adamant_core::Error>(Sequential::new().add(Linear::new(4, 8)?).add(Relu::new()).add(Linear::new(8, 2)?));
/// let (model, fresh, x) = (net()?, net()?, Tensor::ones([1, 4]));
/// let pruner = StructuredPruner::new(0.5)?;
/// let report = pruner.prune(&model, &pruner.compute_importance(&model, &x)?)?;
/// shrink_to(&fresh, &report.shapes(&model))?;
/// fresh.load_state_dict(&model.state_dict())?;
/// assert_eq!(fresh.forward(&x)?.to_vec::<f32>()?, model.forward(&x)?.to_vec::<f32>()?);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A parameter that there is not; a shape of another rank, or larger along an axis, than the model's. Then nothing has changed.
#[track_caller]
pub fn shrink_to(model: &(impl Walk + ?Sized), shapes: &BTreeMap<String, Vec<usize>>) -> Result<()> {
    let placed = placed_params(model);
    let mut smaller = Vec::new();
    for (path, dims) in shapes {
        let Some(place) = placed.iter().find(|place| place.path == *path) else {
            return Err(nothing_means(STRUCTURED, "parameter", path, placed.iter().map(|place| place.path.as_str())));
        };
        let meta = place.param.meta();
        let fits = dims.len() == meta.shape.rank() && dims.iter().zip(meta.shape.iter()).all(|(new, old)| (1..=*old).contains(new));
        check(STRUCTURED, fits, || format!("`{path}` has shape {}, and {dims:?} is no part of it", meta.shape))?;
        let shape = Shape::new(dims).map_err(|kind| adamant_core::Error::new(STRUCTURED, kind))?;
        smaller.push((&place.param, Tensor::full_on(shape, 0, meta.dtype, meta.device)));
    }
    smaller.iter().try_for_each(|(param, value)| param.resize(value))
}
