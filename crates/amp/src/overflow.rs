//! Which layers leave the range of f16, and what is done about them ([`LayerFallback`]): no scale of the loss helps where an *activation* is
//! infinite.
//!
//! Data flow: while a region is watched ([`watched`]), it notes for each product and sum whether finite inputs gave a result that is
//! not, as a bool on the device by the layer's path. The bools of a step are one vector, in the order of [`LayerFallback`]'s names, so that a
//! captured step gives it as any other output. The host reads it, counts, and names layers that the next region leaves in f32.
use crate::Autocast;
use adamant_core::{DType, Device, Error, ErrorKind, Result, Tensor, compile::capture_number, composite::finite::AllFinite};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

/// What a watched piece of work has noted: by layer, whether it overflowed.
struct OverflowNotes {
    flags: BTreeMap<String, Tensor>,
    /// the capture that it began in: what another one traces is no value here
    capture: u64,
}
thread_local! {
    static WATCHED: RefCell<Option<OverflowNotes>> = const { RefCell::new(None) };
}
/// Runs `f`, and gives by layer whether it overflowed.
fn watched<R>(f: impl FnOnce() -> R) -> (R, BTreeMap<String, Tensor>) {
    struct Restore(Option<OverflowNotes>);
    impl Drop for Restore {
        fn drop(&mut self) {
            WATCHED.set(self.0.take());
        }
    }
    let restore = Restore(WATCHED.replace(Some(OverflowNotes { flags: BTreeMap::new(), capture: capture_number() })));
    let result = f();
    let seen = WATCHED.take().map_or_else(BTreeMap::new, |w| w.flags);
    drop(restore);
    (result, seen)
}
/// Does anybody watch?
pub(crate) fn is_watched() -> bool {
    WATCHED.with_borrow(|w| w.as_ref().is_some_and(|w| w.capture == capture_number()))
}
/// Notes whether a layer's op gave what is not finite of inputs that were.
pub(crate) fn note(layer: &str, inputs: &[&Tensor], outputs: &[Tensor]) {
    let finite = |tensors: &mut dyn Iterator<Item = &Tensor>| {
        let floats = tensors.filter(|t| t.dtype().is_ok_and(DType::is_float));
        floats.map(|t| Tensor::composite1(AllFinite, &[&t.detach()])).reduce(|a, b| a.logical_and(b))
    };
    let Some(whole) = finite(&mut outputs.iter()) else { return };
    let lost = whole.logical_not();
    let overflowed = match finite(&mut inputs.iter().copied()) {
        Some(given) => given.logical_and(lost),
        None => lost,
    };
    WATCHED.with_borrow_mut(|w| {
        if let Some(w) = w {
            let flag = w.flags.remove(layer).map_or_else(|| overflowed.clone(), |before| before.logical_or(&overflowed));
            w.flags.insert(layer.to_string(), flag);
        }
    });
}

/// When a layer is left in f32, and when that is not the cure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FallbackOptions {
    /// the steps in which a layer overflows before it runs in f32 (3)
    pub fallback_after: u32,
    /// the most such layers (5): more say that the model is not one for f16
    pub max_fp32_fallbacks: usize,
}
impl Default for FallbackOptions {
    fn default() -> FallbackOptions {
        FallbackOptions { fallback_after: 3, max_fp32_fallbacks: 5 }
    }
}

/// Counts the layers whose activations overflow, and leaves in f32 those that did so too often.
///
/// ```
/// use adamant_amp::{Autocast, FallbackOptions, LayerFallback};
/// use adamant_core::{DType, Tensor};
/// use adamant_nn::{LayerNorm, Linear, Module, Sequential, Walk};
///
/// # adamant_core::Device::reference().make_current();
/// let model = Sequential::new().add(Linear::new(2, 2)?).add(LayerNorm::new([2])?);
/// model.load_state_dict(&[
///     ("0.weight".into(), Tensor::ones([2, 2])), ("0.bias".into(), Tensor::zeros([2])),
///     ("1.weight".into(), Tensor::ones([2])), ("1.bias".into(), Tensor::zeros([2])),
/// ])?;
/// let large = Tensor::full([1, 2], 6e4, DType::F32);
/// let region = Autocast::new(DType::F16)?;
/// let mut fallback = LayerFallback::new(FallbackOptions { fallback_after: 2, ..Default::default() })?;
/// for step in 0..3 {
///     let (y, flags) = fallback.watch(&region, || model.forward(&large));
///     assert_eq!(y?.isfinite().all(..).item::<bool>()?, step == 2);
///     let fallen = fallback.observe(&flags)?;
///     assert_eq!(fallen, if step == 1 { vec!["0".to_string()] } else { vec![] });
/// }
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct LayerFallback {
    options: FallbackOptions,
    /// in the order of the flags
    names: Vec<String>,
    /// the steps in which each layer overflowed
    counts: BTreeMap<String, u32>,
    in_f32: BTreeSet<String>,
}
impl LayerFallback {
    /// Nothing has overflowed yet.
    ///
    /// # Errors
    /// A layer that falls back after 0 overflows.
    #[track_caller]
    pub fn new(options: FallbackOptions) -> Result<LayerFallback> {
        if options.fallback_after == 0 {
            return Err(Error::new("LayerFallback", ErrorKind::Argument("fallback_after is 0, it must be at least 1".into())));
        }
        Ok(LayerFallback { options, ..LayerFallback::default() })
    }
    /// The region with the layers in f32 that fell back.
    pub fn region(&self, region: &Autocast) -> Autocast {
        region.clone().without(self.in_f32.iter().cloned())
    }
    /// Runs `f` in the region, less the layers that fell back. Gives what `f` gives, and which layers overflowed: bools of shape \[n\] on the current
    /// device, for [`LayerFallback::observe`]; those of several pieces of work of one step are joined by
    /// [`LayerFallback::join`].
    pub fn watch<R>(&mut self, region: &Autocast, f: impl FnOnce() -> R) -> (R, Tensor) {
        let (result, mut seen) = watched(|| self.region(region).run(f));
        for name in seen.keys() {
            if !self.names.contains(name) {
                self.names.push(name.clone());
            }
        }
        // One place more than there are names: there is always something to give.
        let device = seen.values().find_map(|t| t.try_meta().ok()).map(|m| m.device).or_else(|| Device::current().ok());
        let none = device.map_or_else(|| Tensor::scalar(false), |device| Tensor::from_vec_on(vec![false], (), device));
        let flags: Vec<Tensor> = self.names.iter().map(|name| seen.remove(name).unwrap_or_else(|| none.clone())).chain([none.clone()]).collect();
        (result, Tensor::stack(&flags.iter().collect::<Vec<_>>(), 0))
    }
    /// Of two pieces of work, the later one second: which layers overflowed in any.
    pub fn join(before: &Tensor, now: &Tensor) -> Tensor {
        let (Ok(m), Ok(n)) = (before.try_meta(), now.try_meta()) else { return before.logical_or(now) };
        let missing = n.shape.elements().saturating_sub(m.shape.elements());
        let none = Tensor::from_vec_on(vec![false; missing], [missing], m.device);
        Tensor::cat(&[before, &none], 0).logical_or(now)
    }
    /// Reads which layers overflowed in a step, which waits for the device. Gives those that are in f32 from now on.
    ///
    /// # Errors
    /// More than `max_fp32_fallbacks` layers, which it names; a device that failed.
    #[track_caller]
    pub fn observe(&mut self, flags: &Tensor) -> Result<Vec<String>> {
        let flags = flags.to_vec::<bool>()?;
        let mut fallen = Vec::new();
        for (name, _) in self.names.iter().zip(flags).filter(|(_, overflowed)| *overflowed) {
            let count = self.counts.entry(name.clone()).or_default();
            *count = count.saturating_add(1);
            if *count >= self.options.fallback_after && self.in_f32.insert(name.clone()) {
                fallen.push(name.clone());
            }
        }
        if self.in_f32.len() > self.options.max_fp32_fallbacks {
            let names = self.in_f32.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
            let text = format!(
                "{} layers left the range of f16 {} times each, more than max_fp32_fallbacks ({}): {names}",
                self.in_f32.len(),
                self.options.fallback_after,
                self.options.max_fp32_fallbacks
            );
            return Err(Error::new("LayerFallback", ErrorKind::Argument(text)).hint("train in bf16, which has f32's range, or in f32"));
        }
        Ok(fallen)
    }
    /// The layers in f32, in the order of their names.
    pub fn in_f32(&self) -> impl Iterator<Item = &str> {
        self.in_f32.iter().map(String::as_str)
    }
    /// In how many steps each layer overflowed; what never did is not there.
    pub fn counts(&self) -> &BTreeMap<String, u32> {
        &self.counts
    }
    /// Goes on from what another had [counted](LayerFallback::counts): the same layers are in f32.
    pub fn resume(&mut self, counts: BTreeMap<String, u32>) {
        self.in_f32 = counts.iter().filter(|(_, count)| **count >= self.options.fallback_after).map(|(name, _)| name.clone()).collect();
        self.counts = counts;
    }
}
