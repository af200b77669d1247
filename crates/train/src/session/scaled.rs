//! The mixed precision of a session: the region of its forward passes, the scaler of its losses, layers that fell back to f32, and
//! what is kept of them for a run that goes on.
//!
//! Data flow: a step's outputs hold a *verdict*, its gradients' finiteness and the scale they were made under, and, where layers are watched,
//! which overflowed. Verdicts are read when losses are, at the lines of the log; the flags of layers after each step, for the
//! next one may run in another region.
use crate::{Failure, checkpoint::Snapshot};
use adamant_amp::{AmpStats, Autocast, GradScaler, LayerFallback, Precision, ScheduleOn, underflow_share};
use adamant_core::{
    DType, Device, Error, ErrorKind, Grads, Result as Computed, Tensor, compile::decide, grad::saved_bytes, intercept::casting_once, is_capturing,
    step_reviewed,
};
use adamant_nn::Param;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Tensors of a checkpoint with the scaler's state, and with the magnitudes that fp8 remembers.
pub(super) const SCALER: &str = "scaler";
pub(crate) const FP8: &str = "fp8";

/// Were the gradients of a step finite, and under which scale were they made: two numbers, where there is a scaler.
pub(super) fn verdict(scaler: &GradScaler) -> Option<Tensor> {
    let (finite, scale) = (scaler.finite()?, scaler.scale_tensor()?);
    Some(Tensor::stack(&[&finite.cast(DType::F32), &scale], 0))
}

/// The layers that had fallen back to f32 when a checkpoint was made.
pub(crate) fn fallen(snapshot: &Snapshot, precision: &Precision) -> Vec<String> {
    let saved: Option<SavedPrecision> = snapshot.state.get("precision").and_then(|v| serde_json::from_value(v.clone()).ok());
    let Some((saved, Ok(mut fallback))) = saved.zip(precision.fallback.map(LayerFallback::new)) else { return Vec::new() };
    fallback.resume(saved.overflows);
    fallback.in_f32().map(str::to_string).collect()
}

/// What a session's steps run in.
pub(super) struct SteppedPrecision {
    precision: Precision,
    region: Option<Autocast>,
    pub scaler: GradScaler,
    pub fallback: Option<LayerFallback>,
    /// overflows in a row at the least scale, as far as verdicts were read
    floor: u32,
    /// was the last step whose verdict was read applied?
    applied: bool,
    /// How many layers fell back: a captured step is good for those that it knows.
    fallen: Arc<AtomicUsize>,
    /// layers that fell back since somebody asked
    news: Vec<String>,
    /// what the walk back kept of the first batch
    saved_bytes: Option<usize>,
    /// the share of gradient elements that underflow, where it was looked at last
    underflow: Option<f64>,
}
/// What of it is no tensor.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct SavedPrecision {
    floor: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    overflows: BTreeMap<String, u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    saved_bytes: Option<usize>,
    /// by its bits
    #[serde(default, skip_serializing_if = "Option::is_none")]
    underflow: Option<u64>,
}
impl SteppedPrecision {
    pub fn new(precision: Precision, device: Device) -> Computed<SteppedPrecision> {
        let mut scaler = GradScaler::with(precision.scaler.clone())?;
        scaler.prepare(device)?;
        let fallback = precision.fallback.map(LayerFallback::new).transpose()?;
        Ok(SteppedPrecision {
            region: precision.region()?,
            precision,
            scaler,
            fallback,
            floor: 0,
            applied: true,
            fallen: Arc::default(),
            news: Vec::new(),
            saved_bytes: None,
            underflow: None,
        })
    }
    /// Is it yet to be seen what the walk back keeps? Then a step runs op by op: one that is captured holds no values.
    pub fn is_unmeasured(&self) -> bool {
        self.region.is_some() && self.saved_bytes.is_none()
    }
    /// Looks at what the walk back from a loss keeps, once.
    pub fn measure(&mut self, loss: &Tensor) -> Computed<()> {
        if self.is_unmeasured() && !is_capturing() {
            loss.materialize()?;
            self.saved_bytes = Some(saved_bytes(loss));
        }
        Ok(())
    }
    /// The same of a forward pass of its own, which is taken back: for a step that keeps more, because somebody looks into it.
    pub fn measure_apart(&mut self, forward: impl FnOnce() -> Computed<Tensor>) -> Computed<()> {
        if !self.is_unmeasured() {
            return Ok(());
        }
        let run = || {
            let mean = self.forward(&mut None, forward)?;
            self.measure(&mean)
        };
        let taken_back = || Error::new("measure", ErrorKind::Argument("the forward pass is taken back".into()));
        let ended = casting_once(|| step_reviewed(run, |(), _| Err::<(), _>(taken_back())));
        if self.is_unmeasured() { ended } else { Ok(()) }
    }
    /// The share of gradient elements that underflow, not yet computed; none in f32.
    pub fn underflow(&self, grads: &Grads, parameters: &[Param]) -> Option<Tensor> {
        let dtype = self.region.as_ref()?.dtype();
        Some(underflow_share(grads, parameters, dtype).unwrap_or_else(|| Tensor::scalar(0f32)))
    }
    /// Reads it.
    pub fn look(&mut self, share: &Tensor) -> Computed<()> {
        self.underflow = Some(share.item::<f64>()?);
        Ok(())
    }
    /// The region of now: less the layers that fell back.
    pub fn region(&self) -> Option<Autocast> {
        let region = self.region.as_ref()?;
        Some(self.fallback.as_ref().map_or_else(|| region.clone(), |fallback| fallback.region(region)))
    }
    /// Runs a forward pass; what overflowed in it is joined to `flags`.
    pub fn forward<R>(&mut self, flags: &mut Option<Tensor>, f: impl FnOnce() -> R) -> R {
        match (&self.region, &mut self.fallback) {
            (None, _) => f(),
            (Some(region), None) => region.run(f),
            (Some(region), Some(fallback)) => {
                let (fallen, known) = (self.fallen.clone(), self.fallen.load(Relaxed));
                if is_capturing() {
                    decide(move || fallen.load(Relaxed) == known);
                }
                let (result, seen) = fallback.watch(region, f);
                *flags = Some(flags.take().map_or_else(|| seen.clone(), |before| LayerFallback::join(&before, &seen)));
                result
            }
        }
    }
    /// Takes notice of a step's verdict. Gives whether it was applied.
    ///
    /// # Errors
    /// `Diverged`: gradients overflow however small the scale is.
    pub fn judge(&mut self, verdict: &Tensor, step: u64) -> Result<bool, Failure> {
        let told = verdict.to_vec_as::<f64>()?;
        let (finite, scale) = (told.first().is_some_and(|f| *f == 1.0), told.get(1).copied().unwrap_or_default());
        let least = f64::from(self.precision.scaler.min_scale as f32);
        self.floor = if finite || scale > least { 0 } else { self.floor + 1 };
        self.applied = finite;
        if self.floor < self.precision.patience {
            return Ok(finite);
        }
        let layers = match &self.fallback {
            Some(fallback) if !fallback.counts().is_empty() => {
                format!("; layers that overflowed: {}", fallback.counts().iter().map(|(name, n)| format!("`{name}` {n} times")).collect::<Vec<_>>().join(", "))
            }
            Some(_) => String::new(),
            None => "; `precision.enable_fallback_to_fp32 = true` finds the layers".into(),
        };
        Err(Failure::Diverged(format!(
            "the gradients of {} steps up to {step} are not finite at the least scale ({least:e}): it is not the scale{layers}",
            self.floor
        )))
    }
    /// Does the schedule count the steps that changed the weights? Then their verdicts are read one by one.
    pub fn counts_applied(&self) -> bool {
        self.precision.schedule_on == ScheduleOn::Applied && self.scaler.is_enabled()
    }
    /// Does the schedule count the last step?
    pub fn counts_last(&self) -> bool {
        self.applied || !self.counts_applied()
    }
    /// Reads which layers overflowed in a step.
    ///
    /// # Errors
    /// `Diverged`: more layers than may fall back.
    pub fn observe(&mut self, flags: &Tensor) -> Result<(), Failure> {
        let Some(fallback) = &mut self.fallback else { return Ok(()) };
        match fallback.observe(flags) {
            Ok(fallen) => {
                self.fallen.fetch_add(fallen.len(), Relaxed);
                self.news.extend(fallen);
                Ok(())
            }
            Err(e) if e.kind().word() == "argument" => Err(Failure::Diverged(e.kind().to_string())),
            Err(e) => Err(e.into()),
        }
    }
    /// The layers that fell back since this was asked last.
    pub fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }
    pub fn stats(&self) -> Computed<Option<AmpStats>> {
        if self.region.is_none() && !self.scaler.is_enabled() {
            return Ok(None);
        }
        let scaler = self.scaler.is_enabled().then(|| self.scaler.stats()).transpose()?;
        let fallback = self.fallback.as_ref();
        Ok(Some(AmpStats {
            mode: self.precision.mode,
            scaler,
            overflows: fallback.map(|f| f.counts().clone()).unwrap_or_default(),
            fallbacks: fallback.map(|f| f.in_f32().map(str::to_string).collect()).unwrap_or_default(),
            saved_bytes: self.saved_bytes,
            underflow: self.underflow,
        }))
    }
    /// What of it is no tensor; none where nothing is kept.
    pub fn saved(&self) -> Option<SavedPrecision> {
        let keeps = self.scaler.is_enabled() || self.region.is_some();
        keeps.then(|| SavedPrecision {
            floor: self.floor,
            overflows: self.fallback.as_ref().map(|f| f.counts().clone()).unwrap_or_default(),
            saved_bytes: self.saved_bytes,
            underflow: self.underflow.map(f64::to_bits),
        })
    }
    /// Its tensors, by the part of a checkpoint that they are.
    pub fn state(&self) -> Computed<Vec<(String, Vec<(String, Tensor)>)>> {
        let scaler = self.scaler.is_enabled().then(|| self.scaler.state_dict()).transpose()?;
        let fp8 = self.region.as_ref().map(Autocast::fp8_state_dict).filter(|state| !state.is_empty());
        Ok(scaler.map(|state| (SCALER.to_string(), state)).into_iter().chain(fp8.map(|state| (FP8.to_string(), state))).collect())
    }
    /// Are weights stored in 16 bits, whose gradients are best not rounded?
    pub fn stores_low(&self) -> bool {
        self.precision.update.is_some()
    }
    /// Goes on from what was saved.
    pub fn restore(&mut self, saved: Option<SavedPrecision>, parts: &BTreeMap<String, Vec<(String, Tensor)>>) -> Computed<()> {
        if let Some(state) = parts.get(SCALER) {
            self.scaler.load_state_dict(state)?;
        }
        if let Some(region) = &self.region {
            region.load_fp8_state_dict(parts.get(FP8).map_or(&[][..], Vec::as_slice))?;
        }
        let SavedPrecision { floor, overflows, saved_bytes, underflow } = saved.unwrap_or_default();
        (self.floor, self.saved_bytes, self.underflow) = (floor, saved_bytes, underflow.map(f64::from_bits));
        if let Some(fallback) = &mut self.fallback {
            fallback.resume(overflows);
            self.fallen.store(fallback.in_f32().count(), Relaxed);
        }
        Ok(())
    }
}
