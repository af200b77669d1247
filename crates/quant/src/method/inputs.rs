//! What layers are given when a model runs on calibration data: which of them read the same numbers, in which order they run, and
//! the second moments of their inputs.
use crate::{quantize::PlannedLayer, scheme::LayerKind, select::refusal};
use adamant_core::{DType, Device, Error, Result, Tensor};
use adamant_nn::hooks::HookHandle;
use std::{
    hash::{DefaultHasher, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Runs the model on the calibration data; the function that it is given is called with each output of the model, if those are known.
pub(crate) type Run<'a> = dyn FnMut(&dyn Fn(&Tensor) -> Result<()>) -> Result<()> + 'a;

/// Hooks that are gone when this is.
#[derive(Default)]
pub(crate) struct Hooks(pub Vec<HookHandle>);
impl Drop for Hooks {
    fn drop(&mut self) {
        self.0.iter().for_each(HookHandle::remove);
    }
}
pub(crate) fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
/// A number that tensors of other elements do not have.
#[track_caller]
pub(crate) fn fingerprint(x: &Tensor) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&x.detach().to_bytes()?);
    Ok(hasher.finish())
}

/// Rows of a weight, and the number of the layer's input that they are multiplied with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct WeightRows {
    pub start: usize,
    pub rows: usize,
    pub input: usize,
}
/// How the rows of a layer's weight of a name meet the layer's inputs; `None`: hooks do not see what they meet.
pub(crate) fn rows_by_input(layer: &PlannedLayer, name: &str, rows: usize) -> Option<Vec<WeightRows>> {
    let kind = LayerKind::of(layer.layer.kind)?;
    let whole = |input| vec![WeightRows { start: 0, rows, input }];
    match (kind, name) {
        (LayerKind::Linear, _) => Some(whole(0)),
        (LayerKind::Attention, "in_proj_weight") => {
            let third = rows / 3;
            Some((0..3).map(|input| WeightRows { start: input * third, rows: third, input }).collect())
        }
        (LayerKind::Attention, "q_proj_weight") => Some(whole(0)),
        (LayerKind::Attention, "k_proj_weight") => Some(whole(1)),
        (LayerKind::Attention, "v_proj_weight") => Some(whole(2)),
        _ => None,
    }
}
/// Do hooks see the inputs of a layer's weights?
pub(crate) fn is_seen(layer: &PlannedLayer) -> bool {
    let hooked = layer.layer.site().is_ok_and(|site| site.runs_hooks());
    hooked && layer.weights.iter().all(|(name, _)| rows_by_input(layer, name, 0).is_some())
}

/// What one layer was given, over all of its calls.
#[derive(Clone, Default, Debug)]
pub(crate) struct SeenInputs {
    /// the number of its first call among those of all layers
    pub first: usize,
    /// the fingerprints of each call's inputs
    pub calls: Vec<Vec<u64>>,
}
impl SeenInputs {
    /// The numbers of the inputs that differ, and for each input the place of its like among those.
    pub fn distinct(&self) -> (Vec<usize>, Vec<usize>) {
        let same = |a: usize, b: usize| self.calls.iter().all(|call| call.get(a) == call.get(b));
        let (mut distinct, mut places) = (Vec::new(), Vec::new());
        for input in 0..self.calls.first().map_or(0, Vec::len) {
            let known = distinct.iter().position(|other| same(*other, input));
            places.push(known.unwrap_or(distinct.len()));
            distinct.extend(known.is_none().then_some(input));
        }
        (distinct, places)
    }
}
/// Runs the model once and says what each layer was given.
///
/// # Errors
/// Inputs that are not finite; a layer that no input reaches.
#[track_caller]
pub(crate) fn survey(op: &'static str, layers: &[PlannedLayer], run: &mut Run<'_>, output: &dyn Fn(&Tensor) -> Result<()>) -> Result<Vec<SeenInputs>> {
    let seen = Arc::new(Mutex::new((0, vec![SeenInputs::default(); layers.len()])));
    let mut hooks = Hooks::default();
    for (k, layer) in layers.iter().enumerate() {
        let (seen, path) = (seen.clone(), layer.layer.path().to_string());
        hooks.0.push(layer.layer.site()?.register_forward_pre_hook(move |_, inputs| {
            let mut prints = Vec::with_capacity(inputs.len());
            for x in inputs {
                let finite = x.detach().is_finite_all()?;
                if !finite {
                    return Err(refusal(op, format!("the layer `{path}`: calibration data give it inputs that are NaN or infinite"))
                        .hint("look for such numbers in the calibration data, or for a layer before it that overflows"));
                }
                prints.push(fingerprint(x)?);
            }
            let mut seen = locked(&seen);
            let number = seen.0;
            seen.0 += 1;
            let own = &mut seen.1[k];
            if own.calls.is_empty() {
                own.first = number;
            }
            own.calls.push(prints);
            Ok(None)
        })?);
    }
    let ran = run(output);
    drop(hooks);
    ran?;
    let seen = std::mem::take(&mut locked(&seen).1);
    match layers.iter().zip(&seen).find(|(_, seen)| seen.calls.is_empty()) {
        None => Ok(seen),
        Some((layer, _)) => Err(not_reached(op, layer.layer.path())),
    }
}
#[track_caller]
fn not_reached(op: &'static str, path: &str) -> Error {
    refusal(op, format!("the layer `{path}`: no inputs were seen: the calibration data are empty, or do not reach the layer"))
        .hint("give a few hundred rows of the training data, or leave the layer out (`skip`)")
}

/// Second moments of a layer's input of `columns` features, over all rows of the calibration data.
#[derive(Clone)]
pub(crate) struct InputMoments {
    /// `2 XᵀX`, f64 `[columns, columns]`
    pub hessian: Tensor,
    /// sums of absolute values, f64 `[columns]`
    pub absolute: Tensor,
    /// rows that were seen
    pub rows: usize,
}
/// The device's, or where that has no f64 the host's.
pub(crate) fn device_of_f64(device: Device) -> Device {
    if device.info().dtypes.contains(&DType::F64) { device } else { Device::reference() }
}
impl InputMoments {
    /// Those of a weight `[rows, columns]` of floats with another reader, which has moments of its own or, where hooks do not see
    /// its inputs, takes rows as they are: relative errors of what both give count alike.
    #[track_caller]
    pub fn and(&self, weight: &Tensor, other: Option<&InputMoments>) -> Result<InputMoments> {
        let device = self.hessian.device()?;
        let weight = weight.detach().to(device).cast(DType::F64);
        let own = self.row_errors(&weight).sum(..).item::<f64>()?;
        let (hessian, whole) = match other {
            Some(other) => (other.hessian.to(device), other.row_errors(&weight).sum(..).item::<f64>()?),
            // A Hessian has twice the squares.
            None => (Tensor::eye_on(weight.shape()?[1], weight.shape()?[1], DType::F64, device) * 2.0, (&weight * &weight).sum(..).item::<f64>()?),
        };
        let share = if own > 0.0 && whole > 0.0 { own / whole } else { 1.0 };
        let hessian = &self.hessian + hessian * share;
        hessian.materialize()?;
        Ok(InputMoments { hessian, ..self.clone() })
    }
    #[track_caller]
    fn with(sum: Option<InputMoments>, x: &Tensor) -> Result<InputMoments> {
        let columns = x.shape()?.last().copied().unwrap_or(1);
        let rows = x.shape()?.elements() / columns.max(1);
        let x = x.detach().to(device_of_f64(x.device()?)).cast(DType::F64).reshape([rows, columns]);
        let (hessian, absolute) = (x.mt().matmul(&x) * 2.0, x.abs().sum(0));
        let sum = match sum {
            None => InputMoments { hessian, absolute, rows },
            Some(sum) => InputMoments { hessian: sum.hessian + hessian, absolute: sum.absolute + absolute, rows: sum.rows + rows },
        };
        sum.hessian.materialize()?;
        sum.absolute.materialize()?;
        Ok(sum)
    }
    /// The squared error of a layer's outputs, summed over the calibration data, that a change f64 `[rows, columns]` of its weight
    /// makes: for each of its rows, `[rows]`.
    #[track_caller]
    pub fn row_errors(&self, change: &Tensor) -> Tensor {
        (change.matmul(&self.hessian) * change).sum(1) * 0.5
    }
}
/// Runs the model once and gathers the moments of some inputs of a layer.
///
/// # Errors
/// Sums that are not finite; those of the run.
#[track_caller]
pub(crate) fn gather(op: &'static str, layer: &PlannedLayer, inputs: &[usize], run: &mut Run<'_>) -> Result<Vec<InputMoments>> {
    let sums = Arc::new(Mutex::new(vec![None; inputs.len()]));
    let mut hooks = Hooks::default();
    let (into, wanted) = (sums.clone(), inputs.to_vec());
    hooks.0.push(layer.layer.site()?.register_forward_pre_hook(move |_, inputs| {
        let mut sums = locked(&into);
        for (sum, input) in sums.iter_mut().zip(&wanted) {
            if let Some(x) = inputs.get(*input) {
                *sum = Some(InputMoments::with(sum.take(), x)?);
            }
        }
        Ok(None)
    })?);
    let ran = run(&|_| Ok(()));
    drop(hooks);
    ran?;
    let sums: Option<Vec<InputMoments>> = std::mem::take(&mut *locked(&sums)).into_iter().collect();
    let path = layer.layer.path();
    let sums = sums.ok_or_else(|| not_reached(op, path))?;
    for sum in &sums {
        if !sum.hessian.is_finite_all()? {
            return Err(refusal(op, format!("the layer `{path}`: the Hessian of its inputs on the calibration data is not finite"))
                .hint("the layers quantized before it may overflow: take more bits, or smaller groups"));
        }
    }
    Ok(sums)
}
