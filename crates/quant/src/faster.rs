//! Layers that take no less time as codes stay what they were: each is timed once as floats and as codes, on the calibration data, and
//! what is kept is what the scheme says from then on. No plan and no result depends on a clock later.
//!
//! Must not know how codes are found.
use crate::{
    method::{Run, WeightMethod},
    quantize::QuantizationPlan,
    report::{Outcome, QuantizationReport},
    scheme::QuantizationConfig,
};
use adamant_core::{
    Error, ErrorKind, Result, Tensor,
    functional::PackedWeight,
    grad::{HookHandle, no_grad},
};
use adamant_nn::{InputCodes, Param, Submodule, Walk};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How often the model is run as floats and as codes, in turn; the least time of each layer counts.
const ROUNDS: usize = 4;

/// Does a configuration go with it?
///
/// # Errors
/// A method that changes what layers before others give.
#[track_caller]
pub(crate) fn check(op: &'static str, config: &QuantizationConfig) -> Result<()> {
    match config.weight_method() {
        WeightMethod::Awq(_) if config.keeps_only_faster() => {
            Err(Error::new(op, ErrorKind::Argument("AWQ divides norms by what it scales columns with, so no layer alone can go back to its floats".into()))
                .hint("take `rtn` or `gptq` with `only_faster`, or leave layers out by name (`skip`)"))
        }
        _ => Ok(()),
    }
}

/// A weight as it was, and as codes once it is packed.
struct BothForms {
    param: Param,
    floats: Tensor,
    codes: Option<(PackedWeight, InputCodes)>,
}
/// The layers of a plan, with their weights as they are before anything changes.
pub(crate) struct LayersOfBothForms {
    layers: Vec<(Submodule, Vec<BothForms>)>,
}
impl LayersOfBothForms {
    pub(crate) fn of(plan: &QuantizationPlan) -> LayersOfBothForms {
        let of = |(_, param): &(String, Param)| BothForms { param: param.clone(), floats: param.detached(), codes: None };
        let layers = plan.planned.iter().filter(|planned| planned.weights.iter().all(|(_, param)| !param.is_uninitialized()));
        LayersOfBothForms { layers: layers.map(|planned| (planned.layer.clone(), planned.weights.iter().map(of).collect())).collect() }
    }
    fn weights(&self) -> impl Iterator<Item = &BothForms> {
        self.layers.iter().flat_map(|(_, weights)| weights)
    }
    fn set_floats(&self) -> Result<()> {
        self.weights().try_for_each(BothForms::set_floats)
    }
    fn set_codes(&self) -> Result<()> {
        self.weights().try_for_each(BothForms::set_codes)
    }
    /// Gives the layers that are no faster their floats back, and says so in the report.
    ///
    /// # Errors
    /// No layer was run. Then all have their floats again.
    #[track_caller]
    pub(crate) fn keep_faster(
        mut self,
        op: &'static str,
        model: &(impl Walk + ?Sized),
        mut report: QuantizationReport,
        run: &mut Run<'_>,
    ) -> Result<QuantizationReport> {
        for (_, weights) in &mut self.layers {
            for weight in weights {
                weight.codes = weight.param.packed().map(|codes| Ok::<_, Error>((codes.weight()?, codes.input()?))).transpose()?;
            }
        }
        let slower = match self.slower(op, run) {
            Ok(slower) => slower,
            Err(error) => {
                self.set_floats()?;
                return Err(error);
            }
        };
        self.set_codes()?;
        for (layer, weights) in &self.layers {
            if slower.contains_key(layer.path()) {
                weights.iter().try_for_each(BothForms::set_floats)?;
            }
        }
        for layer in &mut report.layers {
            let Some(ratio) = slower.get(&layer.path) else { continue };
            let with = if matches!(layer.outcome, Outcome::Tied(_)) { ", with those that have the same weight" } else { "" };
            layer.outcome = Outcome::Left(format!("no faster as codes: {ratio:.2} of its time as floats{with}"));
        }
        report.after = model.memory_usage();
        Ok(report)
    }
    /// The layers that take no less time as codes, with how much they take of that of floats.
    #[track_caller]
    fn slower(&self, op: &'static str, run: &mut Run<'_>) -> Result<HashMap<String, f64>> {
        let clocks = Clocks::over(self.layers.iter().map(|(layer, _)| layer))?;
        let (mut codes, mut floats) = (vec![Duration::MAX; self.layers.len()], vec![Duration::MAX; self.layers.len()]);
        for round in 0..=ROUNDS {
            for (form, least) in [(true, &mut codes), (false, &mut floats)] {
                if form {
                    self.set_codes()?
                } else {
                    self.set_floats()?
                }
                let taken = clocks.run(run)?;
                // The first is a warm-up.
                if round > 0 {
                    least.iter_mut().zip(taken).for_each(|(least, taken)| *least = (*least).min(taken));
                }
            }
        }
        if floats.iter().all(|taken| taken.is_zero()) && !floats.is_empty() {
            return Err(Error::new(op, ErrorKind::Argument("no layer was run, so it is not known which are faster as codes".into()))
                .hint("give calibration data: layers are timed on them"));
        }
        // Layers with a weight in common stay or go together.
        let ids: Vec<HashSet<usize>> = self.layers.iter().map(|(_, weights)| weights.iter().map(|w| w.param.id()).collect()).collect();
        let mut slower = HashMap::new();
        for ((layer, _), own) in self.layers.iter().zip(&ids) {
            let with = ids.iter().zip(codes.iter().zip(&floats)).filter(|(ids, _)| !ids.is_disjoint(own));
            let (codes, floats) = with.fold((0.0, 0.0), |(c, f), (_, (codes, floats))| (c + codes.as_secs_f64(), f + floats.as_secs_f64()));
            // What no hook saw is not judged.
            if floats > 0.0 && codes >= floats {
                slower.insert(layer.path().to_string(), codes / floats);
            }
        }
        Ok(slower)
    }
}
impl BothForms {
    fn set_floats(&self) -> Result<()> {
        if self.codes.is_none() {
            return Ok(());
        }
        self.param.unpack()?;
        self.param.set(&self.floats)
    }
    fn set_codes(&self) -> Result<()> {
        match &self.codes {
            Some((weight, input)) if self.param.packed().is_none() => self.param.pack(weight, input.clone()),
            _ => Ok(()),
        }
    }
}

/// How long layers take, each waited for to its end, in one run of the model.
struct Clocks {
    taken: Arc<Mutex<Vec<Duration>>>,
    hooks: Vec<HookHandle>,
}
impl Drop for Clocks {
    fn drop(&mut self) {
        self.hooks.iter().for_each(HookHandle::remove);
    }
}
impl Clocks {
    #[track_caller]
    fn over<'a>(layers: impl Iterator<Item = &'a Submodule>) -> Result<Clocks> {
        let mut clocks = Clocks { taken: Arc::default(), hooks: Vec::new() };
        for (k, layer) in layers.enumerate() {
            clocks.taken.lock().unwrap_or_else(PoisonError::into_inner).push(Duration::ZERO);
            let Ok(site) = layer.site() else { continue };
            // Calls may be nested: the last that began is the first that ends.
            let (begun, taken) = (Arc::new(Mutex::new(Vec::new())), clocks.taken.clone());
            let ended = begun.clone();
            clocks.hooks.push(site.register_forward_pre_hook(move |_, inputs| {
                waited(inputs)?;
                begun.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
                Ok(None)
            })?);
            clocks.hooks.push(site.register_forward_hook(move |_, _, outputs| {
                waited(outputs)?;
                if let Some(begun) = ended.lock().unwrap_or_else(PoisonError::into_inner).pop()
                    && let Some(taken) = taken.lock().unwrap_or_else(PoisonError::into_inner).get_mut(k)
                {
                    *taken += begun.elapsed();
                }
                Ok(None)
            })?);
        }
        Ok(clocks)
    }
    #[track_caller]
    fn run(&self, run: &mut Run<'_>) -> Result<Vec<Duration>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(|taken| *taken = Duration::ZERO);
        no_grad(|| run(&|output| output.materialize().map(drop)))?;
        Ok(self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}
fn waited(tensors: &[Tensor]) -> Result<()> {
    tensors.iter().try_for_each(|t| t.materialize().map(drop))
}
