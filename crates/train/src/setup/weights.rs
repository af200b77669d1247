//! Weights that are stored in 16 bits, without f32 masters: which they are, and what the optimizer is told of them.
use crate::{Failure, config::Section, recipe::InitFrom};
use adamant_amp::Precision;
use adamant_core::{DType, Device, Tensor};
use adamant_nn::{Param, Sequential, Walk};
use adamant_optim::{Optimizer, WeightUpdate};
use std::collections::HashSet;

/// Stores the trainable weights that only products of 16 bits read in their dtype. Gives them, with their values of before. `low`: their paths,
/// as the model's graph tells. Values from a file are taken over first: none of their digits is lost to the optimizer.
///
/// # Errors
/// The data do not tell the shape of an input, so nobody knows what reads which weight; the file of initial values.
pub(super) fn store_low(
    root: &Section<'_>,
    model: &Sequential,
    precision: &Precision,
    low: Option<&[String]>,
    init_from: &mut Option<InitFrom>,
) -> Result<Vec<(Param, Tensor)>, Failure> {
    let (Some(dtype), Some(section)) = (precision.mode.dtype(), root.section("precision")?) else { return Ok(Vec::new()) };
    let Some(low) = low else {
        return Err(section.wrong_key("master", "the data do not tell the shape of an input, from which follows what reads a weight"));
    };
    if let Some(from) = init_from.take() {
        from.apply(model, Device::current()?)?;
    }
    let mut seen = HashSet::new();
    let mut stored = Vec::new();
    for (_, p) in model.named_parameters().into_iter().filter(|(path, p)| p.is_trainable() && low.contains(path)) {
        if seen.insert(p.id()) && p.meta().dtype == DType::F32 {
            let master = p.detached();
            p.cast(dtype)?;
            stored.push((p, master));
        }
    }
    if stored.is_empty() {
        return Err(section.wrong_key("master", "no trainable weight is read by products of 16 bits alone"));
    }
    Ok(stored)
}
/// Tells the optimizer how its slots and such weights are stored.
///
/// # Errors
/// An optimizer that cannot.
pub(super) fn tell(root: &Section<'_>, optimizer: &mut dyn Optimizer, precision: &Precision, stored: &[(Param, Tensor)]) -> Result<(), Failure> {
    let told = (|| {
        if precision.slots != DType::F32 {
            optimizer.set_slot_dtype(precision.slots)?;
        }
        let Some(update) = precision.update else { return Ok(()) };
        optimizer.set_weight_update(update)?;
        if matches!(update, WeightUpdate::Kahan | WeightUpdate::Split) { optimizer.adopt_masters(stored) } else { Ok(()) }
    })();
    told.map_err(|e: adamant_core::Error| match root.section("precision") {
        Ok(Some(section)) => section.wrong(e.kind().to_string()),
        _ => e.into(),
    })
}
