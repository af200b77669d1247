//! Which norms can be divided by what the columns of the layers behind them are multiplied with: those that only these layers read.
//!
//! It is measured. The norm's output is multiplied by powers of two, another one for each channel, and the inputs of the layers that
//! it reaches are divided by them, which is exact: if then any module's output, or the model's, has another bit than before, someone
//! else reads the norm too.
use super::inputs::{Hooks, Run, SeenInputs, fingerprint, locked};
use crate::{
    quantize::PlannedLayer,
    scheme::InputScheme,
    select::{PlacedParam, placed_params},
};
use adamant_core::{DType, Result, Tensor};
use adamant_nn::{Param, Submodule, Walk};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

/// A norm, and the layers that are all of its readers.
pub(crate) struct FoldableNorm {
    pub path: String,
    pub weight: Param,
    pub bias: Option<Param>,
    /// by their number
    pub readers: Vec<usize>,
}
impl FoldableNorm {
    /// Are its numbers of 16 bits, which few factors divide exactly?
    pub fn is_narrow(&self) -> bool {
        let narrow = |p: &Param| !matches!(p.meta().dtype, DType::F32 | DType::F64);
        narrow(&self.weight) || self.bias.as_ref().is_some_and(narrow)
    }
}

/// The fingerprints of what modules return, by their number, and of what the model returns.
#[derive(Default)]
struct Printed {
    modules: HashMap<usize, Vec<u64>>,
    model: Vec<u64>,
}
/// The modules of a model that run hooks, and what they returned when it ran unchanged.
pub(crate) struct WatchedModules {
    modules: Vec<Submodule>,
    printed: Arc<Mutex<Printed>>,
    hooks: Hooks,
}
impl WatchedModules {
    /// Watches what the modules return, until [`WatchedModules::stop`].
    #[track_caller]
    pub fn new(model: &(impl Walk + ?Sized)) -> Result<WatchedModules> {
        let modules: Vec<Submodule> = model.modules().into_iter().filter(|m| m.site().is_ok_and(|site| site.runs_hooks())).collect();
        let (printed, mut hooks) = (Arc::new(Mutex::new(Printed::default())), Hooks::default());
        for (k, module) in modules.iter().enumerate() {
            let printed = printed.clone();
            hooks.0.push(module.site()?.register_forward_hook(move |_, _, outputs| {
                for y in outputs {
                    let print = fingerprint(y)?;
                    locked(&printed).modules.entry(k).or_default().push(print);
                }
                Ok(None)
            })?);
        }
        Ok(WatchedModules { modules, printed, hooks })
    }
    /// Notes what the model returned.
    #[track_caller]
    pub fn returned(&self, y: &Tensor) -> Result<()> {
        let print = fingerprint(y)?;
        locked(&self.printed).model.push(print);
        Ok(())
    }
    pub fn stop(&mut self) {
        self.hooks = Hooks::default();
    }
    /// Is it known what the model itself returns?
    fn knows_the_answer(&self) -> bool {
        !locked(&self.printed).model.is_empty() || self.modules.iter().any(|m| m.path().is_empty())
    }
    /// The norms that can be divided, and their readers among the layers. Each costs one run of the model.
    #[track_caller]
    pub fn foldable(&self, model: &(impl Walk + ?Sized), layers: &[PlannedLayer], seen: &[SeenInputs], run: &mut Run<'_>) -> Result<Vec<FoldableNorm>> {
        if !self.knows_the_answer() {
            return Ok(Vec::new());
        }
        let mut places: HashMap<usize, usize> = HashMap::new();
        for PlacedParam { param, is_computed, .. } in placed_params(model) {
            *places.entry(param.id()).or_default() += if is_computed { 2 } else { 1 };
        }
        let own = |p: &Param| places.get(&p.id()) == Some(&1) && p.packed().is_none() && !p.is_uninitialized();
        let mut all = Vec::new();
        for (k, norm) in self.modules.iter().enumerate() {
            let Some(weight) = norm.parameter("weight").filter(|_| matches!(norm.kind, "LayerNorm" | "RMSNorm")) else { continue };
            let bias = norm.parameter("bias");
            if weight.meta().shape.rank() != 1 || !own(weight) || bias.is_some_and(|b| !own(b)) {
                continue;
            }
            let outputs = locked(&self.printed).modules.get(&k).cloned().unwrap_or_default();
            let reads = |seen: &SeenInputs| seen.calls.iter().flatten().any(|print| outputs.contains(print));
            if !seen.iter().any(reads) {
                continue;
            }
            let Some(readers) = self.readers(k, weight.elements(), layers, seen, run)? else { continue };
            let can_scale = |k: &usize| {
                let layer = &layers[*k];
                !matches!(layer.scheme.input, InputScheme::Calibrated(_)) && layer.weights.iter().all(|(_, p)| own(p))
            };
            if !readers.is_empty() && readers.iter().all(can_scale) {
                all.push(FoldableNorm { path: norm.path().into(), weight: weight.clone(), bias: bias.cloned(), readers });
            }
        }
        Ok(all)
    }
    /// The layers that read the norm of a number, if nothing else does.
    #[track_caller]
    fn readers(&self, norm: usize, channels: usize, layers: &[PlannedLayer], seen: &[SeenInputs], run: &mut Run<'_>) -> Result<Option<Vec<usize>>> {
        let probe = Arc::new(ChannelProbe::new(channels));
        let printed = std::mem::take(&mut *locked(&self.printed));
        let (model, modules) = (printed.model, Arc::new(printed.modules));
        let mut hooks = Hooks::default();
        for (k, module) in self.modules.iter().enumerate() {
            let (probe, modules, is_root, count) = (probe.clone(), modules.clone(), module.path().is_empty(), AtomicUsize::new(0));
            hooks.0.push(module.site()?.register_forward_hook(move |_, _, outputs| {
                for y in outputs {
                    let call = count.fetch_add(1, Relaxed);
                    let before = modules.get(&k).and_then(|prints| prints.get(call)).copied();
                    probe.check(fingerprint(y)?, before, (!is_root && k != norm).then_some(y))?;
                }
                Ok(if k == norm { Some(outputs.iter().map(|y| probe.times(y, &probe.factors)).collect::<Result<_>>()?) } else { None })
            })?);
        }
        let reads = Arc::new(Mutex::new(vec![0; layers.len()]));
        for (k, layer) in layers.iter().enumerate() {
            let (probe, reads, calls, count) = (probe.clone(), reads.clone(), seen[k].calls.clone(), AtomicUsize::new(0));
            hooks.0.push(layer.layer.site()?.register_forward_pre_hook(move |_, inputs| {
                let call = count.fetch_add(1, Relaxed);
                let mut restored = Vec::with_capacity(inputs.len());
                for (number, x) in inputs.iter().enumerate() {
                    let before = calls.get(call).and_then(|prints| prints.get(number)).copied();
                    let is_read = probe.check(fingerprint(x)?, before, Some(x))?;
                    if !is_read && x.detach().abs().max().item::<f64>()? == 0.0 {
                        // Zeros times anything are the same: whether they are the norm's is not known.
                        probe.failed.store(true, Relaxed);
                    }
                    locked(&reads)[k] += usize::from(is_read);
                    restored.push(if is_read { probe.times(x, &probe.inverse)? } else { x.clone() });
                }
                Ok(Some(restored))
            })?);
        }
        let answers = Mutex::new(0);
        let ran = run(&|y| {
            let mut number = locked(&answers);
            probe.check(fingerprint(y)?, model.get(*number).copied(), None)?;
            *number += 1;
            Ok(())
        });
        drop(hooks);
        *locked(&self.printed) = Printed { model, modules: Arc::try_unwrap(modules).unwrap_or_else(|shared| (*shared).clone()) };
        ran?;
        if probe.failed.load(Relaxed) {
            return Ok(None);
        }
        let reads = std::mem::take(&mut *locked(&reads));
        let all = |k: usize| seen[k].calls.iter().map(Vec::len).sum::<usize>();
        let readers: Vec<usize> = (0..layers.len()).filter(|k| reads[*k] > 0).collect();
        Ok(readers.iter().all(|k| reads[*k] == all(*k)).then_some(readers))
    }
}

/// Powers of two for channels, and whether anything has come out otherwise.
struct ChannelProbe {
    factors: Tensor,
    inverse: Tensor,
    channels: usize,
    failed: AtomicBool,
}
impl ChannelProbe {
    fn new(channels: usize) -> ChannelProbe {
        // No two channels near each other have one power, so that a change of their order is seen.
        let powers: Vec<i32> = (0..channels).map(|k| ((k as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61) as i32 - 3).collect();
        let of = |sign: i32| Tensor::from_vec(powers.iter().map(|p| 2f32.powi(sign * p)).collect::<Vec<_>>(), [channels]);
        ChannelProbe { factors: of(1), inverse: of(-1), channels, failed: AtomicBool::new(false) }
    }
    #[track_caller]
    fn times(&self, x: &Tensor, factors: &Tensor) -> Result<Tensor> {
        (x * factors.to(x.device()?).cast(x.dtype()?)).ok()
    }
    /// Is a tensor that may have the factors in it what it was before, times them? It is something else where it is neither that
    /// nor the same.
    #[track_caller]
    fn check(&self, print: u64, before: Option<u64>, x: Option<&Tensor>) -> Result<bool> {
        if before == Some(print) {
            return Ok(false);
        }
        if let Some(x) = x
            && x.shape()?.last() == Some(&self.channels)
            && x.dtype()?.is_float()
            && before == Some(fingerprint(&self.times(x, &self.inverse)?)?)
        {
            return Ok(true);
        }
        self.failed.store(true, Relaxed);
        Ok(false)
    }
}
