//! How far the outputs of layers of codes are from those of layers of floats that were given the same, and their weights.
use super::{BothWays, codes};
use crate::{Failure, Trained, evaluate};
use adamant_core::{Error, Tensor};
use adamant_nn::{Submodule, Walk, hooks::HookHandle};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Ratios of signal to noise in decibels.
#[derive(Clone, Copy, Default)]
pub(super) struct LayerNoise {
    pub outputs: Option<f64>,
    pub worst_row: Option<f64>,
}
/// What a layer of floats was given and gave at one call.
struct SeenCall {
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}
/// The calls of a layer in one run, which of them the layer of codes is at, and the squares of all runs.
#[derive(Default)]
struct SeenCalls {
    calls: Vec<SeenCall>,
    at: usize,
    signal: f64,
    noise: f64,
    compared: bool,
}
/// Hooks that are gone when this is.
#[derive(Default)]
pub(super) struct Attached(pub Vec<HookHandle>);
impl Drop for Attached {
    fn drop(&mut self) {
        self.0.iter().for_each(HookHandle::remove);
    }
}
type Shared = Arc<Mutex<SeenCalls>>;
fn locked(of: &Mutex<SeenCalls>) -> MutexGuard<'_, SeenCalls> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
/// The sums of squares of numbers, and of how far others are from them.
fn compared(floats: &[f32], codes: &[f32]) -> (f64, f64) {
    floats.iter().zip(codes).fold((0.0, 0.0), |(signal, noise), (f, c)| {
        let (f, c) = (f64::from(*f), f64::from(*c));
        (signal + f * f, noise + (f - c) * (f - c))
    })
}
fn decibels(signal: f64, noise: f64) -> f64 {
    if noise == 0.0 { f64::INFINITY } else { 10.0 * (signal / noise).log10() }
}

/// Of each layer, over all batches.
pub(super) fn of_layers(models: &BothWays<Trained>, layers: &[Submodule], batches: &[Tensor]) -> Result<Vec<LayerNoise>, Failure> {
    let floats: HashMap<String, Submodule> = models.floats.model.modules().into_iter().map(|m| (m.path().to_string(), m)).collect();
    let runs = |m: &Submodule| m.site().is_ok_and(|site| site.runs_hooks());
    let seen: Vec<Option<Shared>> = layers
        .iter()
        .map(|layer| {
            let both = codes(layer).next().is_some() && runs(layer) && floats.get(layer.path()).is_some_and(runs);
            both.then(Shared::default)
        })
        .collect();
    for x in batches {
        let mut hooks = Attached::default();
        for (layer, seen) in layers.iter().zip(&seen) {
            if let (Some(seen), Some(of_floats)) = (seen, floats.get(layer.path())) {
                let mut calls = locked(seen);
                calls.calls.clear();
                calls.at = 0;
                hooks.0.push(remember(of_floats, seen.clone())?);
            }
        }
        evaluate::answer(&models.floats.model, x, models.floats.region.as_ref())?.materialize()?;
        drop(hooks);
        let mut hooks = Attached::default();
        for (layer, seen) in layers.iter().zip(&seen) {
            if let Some(seen) = seen {
                hooks.0.extend(compare(layer, seen)?);
            }
        }
        evaluate::answer(&models.codes.model, x, models.codes.region.as_ref())?.materialize()?;
    }
    let of = |(layer, seen): (&Submodule, &Option<Shared>)| {
        let outputs = seen.as_ref().and_then(|seen| {
            let seen = locked(seen);
            seen.compared.then(|| decibels(seen.signal, seen.noise))
        });
        Ok(LayerNoise { outputs, worst_row: worst_row(layer, floats.get(layer.path()))? })
    };
    layers.iter().zip(&seen).map(of).collect()
}
fn remember(layer: &Submodule, seen: Shared) -> Result<HookHandle, Error> {
    layer.site()?.register_forward_hook(move |_, inputs, outputs| {
        let kept = |all: &[Tensor]| all.iter().map(Tensor::detach).collect();
        locked(&seen).calls.push(SeenCall { inputs: kept(inputs), outputs: kept(outputs) });
        Ok(None)
    })
}
/// The layer of codes is given what the one of floats was given at the same call, and its outputs are compared.
fn compare(layer: &Submodule, seen: &Shared) -> Result<[HookHandle; 2], Error> {
    let (given, compared_with) = (seen.clone(), seen.clone());
    let before = layer.site()?.register_forward_pre_hook(move |_, inputs| {
        let seen = locked(&given);
        Ok(seen.calls.get(seen.at).filter(|call| call.inputs.len() == inputs.len()).map(|call| call.inputs.clone()))
    })?;
    let after = layer.site()?.register_forward_hook(move |_, _, outputs| {
        let mut seen = locked(&compared_with);
        let at = seen.at;
        seen.at += 1;
        let Some(call) = seen.calls.get(at) else { return Ok(None) };
        let (mut signal, mut noise) = (0.0, 0.0);
        for (floats, codes) in call.outputs.iter().zip(outputs).filter(|(f, _)| f.dtype().is_ok_and(|d| d.is_float())) {
            let (s, n) = compared(&floats.to_vec_as::<f32>()?, &codes.detach().to_vec_as::<f32>()?);
            (signal, noise) = (signal + s, noise + n);
        }
        (seen.signal, seen.noise, seen.compared) = (seen.signal + signal, seen.noise + noise, true);
        Ok(None)
    })?;
    Ok([before, after])
}
/// The row of a layer's weights that lost most.
fn worst_row(layer: &Submodule, floats: Option<&Submodule>) -> Result<Option<f64>, Failure> {
    let mut worst: Option<f64> = None;
    for (name, param) in codes(layer) {
        let Some(of_floats) = floats.and_then(|m| m.parameter(name)) else { continue };
        let (codes, floats) = (param.detached().to_vec_as::<f32>()?, of_floats.detached().to_vec_as::<f32>()?);
        let rows = param.meta().shape.first().copied().unwrap_or(1).max(1);
        let columns = (codes.len() / rows).max(1);
        for (floats, codes) in floats.chunks(columns).zip(codes.chunks(columns)) {
            let (signal, noise) = compared(floats, codes);
            let of_row = decibels(signal, noise);
            worst = Some(worst.map_or(of_row, |w| if of_row.is_nan() { f64::NEG_INFINITY } else { w.min(of_row) }));
        }
    }
    Ok(worst)
}
