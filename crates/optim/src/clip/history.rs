//! What a clipper remembers of the norms before, in cells.
use super::clipper::{ClippingOptions, ClippingType};
use adamant_core::{Cell, DType, Device, Error, ErrorKind, Result, Tensor, grad::with_grad, step};

/// How many norms [`ClippingType::Adaptive`] remembers.
const NORMS: usize = 10;
/// The cells of a kind, each of a name: numbers in the widest float of the device, and counts (u32).
pub(super) struct ClipHistory {
    device: Device,
    cells: Vec<(&'static str, Cell)>,
}
/// What a kind begins with, in f64 and u32.
fn first(options: &ClippingOptions, device: Device) -> Vec<(&'static str, Tensor)> {
    let number = |x: f64| Tensor::from_vec_on(vec![x], (), device);
    let none = || Tensor::from_vec_on(vec![0u32], (), device);
    match options.clipping_type {
        ClippingType::Adaptive => vec![("count", none()), ("norms", Tensor::from_vec_on(vec![0.0; NORMS], [NORMS], device))],
        ClippingType::Exponential => vec![("threshold", number(options.max_norm))],
        ClippingType::ZClip => vec![("count", none()), ("mean", number(0.0)), ("variance", number(0.0))],
        _ => Vec::new(),
    }
}
impl ClipHistory {
    #[track_caller]
    pub fn new(options: &ClippingOptions, device: Device) -> Result<ClipHistory> {
        let made_on = if device.widest_float() == DType::F64 { device } else { Device::reference() };
        // What is cast from f64 is made where there is f64.
        let cells = first(options, made_on).into_iter().map(|(name, value)| {
            let dtype = if name == "count" { DType::U32 } else { device.widest_float() };
            Ok((name, Cell::new(&value.cast(dtype).to(device), false)?))
        });
        Ok(ClipHistory { device, cells: cells.collect::<Result<_>>()? })
    }
    pub fn device(&self) -> Device {
        self.device
    }
    /// The limit of this norm; then the norm belongs to the past, if it is finite.
    #[track_caller]
    pub fn limit(&self, norm: &Tensor, options: &ClippingOptions) -> Result<Tensor> {
        with_grad(false, || {
            let norm = norm.cast(self.device.widest_float());
            let finite = norm.isfinite();
            let values: Vec<Tensor> = self.cells.iter().map(|(_, cell)| cell.detached()).collect();
            let (limit, next) = match (options.clipping_type, &values[..]) {
                (ClippingType::Adaptive, [count, norms]) => adaptive(&norm, count, norms, options),
                (ClippingType::Exponential, [threshold]) => {
                    let next = threshold * options.exponential_alpha + &norm * (1.0 - options.exponential_alpha);
                    let next = finite.where_(next, threshold);
                    (next.maximum(options.exponential_min_threshold), vec![next])
                }
                (ClippingType::ZClip, [count, mean, variance]) => zclip(&norm, count, mean, variance, options),
                _ => (norm.full_like(f64::INFINITY), Vec::new()),
            };
            step(|| self.cells.iter().zip(&values).zip(&next).try_for_each(|(((_, cell), old), new)| cell.set(&finite.where_(new, old))))?;
            limit.ok()
        })
    }
    pub fn state_dict(&self) -> Vec<(String, Tensor)> {
        self.cells.iter().map(|(name, cell)| (name.to_string(), cell.detached())).collect()
    }
    /// Begins anew.
    #[track_caller]
    pub fn forget(&self, options: &ClippingOptions) -> Result<()> {
        self.load(&ClipHistory::new(options, Device::reference())?.state_dict())
    }
    #[track_caller]
    pub fn load(&self, state: &[(String, Tensor)]) -> Result<()> {
        if let Some((name, _)) = state.iter().find(|(name, _)| !self.cells.iter().any(|(n, _)| n == name)) {
            return refused(format!("a clipper of this kind has no `{name}`"));
        }
        let mut values = Vec::new();
        for (name, cell) in &self.cells {
            let Some((_, value)) = state.iter().find(|(n, _)| n == name) else {
                return refused(format!("the state of a clipper of this kind has `{name}`, and this one has not"));
            };
            let meta = cell.meta();
            if value.try_meta()?.shape != meta.shape {
                return refused(format!("`{name}` is of shape {}, not {}", meta.shape, value.shape()?));
            }
            values.push((cell, value.cast(meta.dtype).to(meta.device).ok()?));
        }
        step(|| values.iter().try_for_each(|(cell, value)| cell.set(value)))
    }
}
#[track_caller]
fn refused(text: String) -> Result<()> {
    Err(Error::new("load_state_dict", ErrorKind::Argument(text)))
}
/// The mean of the norms before, times a factor.
fn adaptive(norm: &Tensor, count: &Tensor, norms: &Tensor, options: &ClippingOptions) -> (Tensor, Vec<Tensor>) {
    let known = count.cast(norm.dtype().unwrap_or(DType::F32));
    // Those that there are not yet are 0.
    let mean = norms.sum(..) / known.maximum(1.0);
    let limit = count.gt(0u32).where_(mean * options.adaptive_factor, f64::INFINITY);
    let next = Tensor::cat(&[&norm.reshape([1]), &norms.narrow(0, 0, NORMS - 1)], 0);
    (limit, vec![(count + 1u32).minimum(NORMS as u32), next])
}
/// A norm far above the mean is brought near to it: the further, the nearer.
fn zclip(norm: &Tensor, count: &Tensor, mean: &Tensor, variance: &Tensor, options: &ClippingOptions) -> (Tensor, Vec<Tensor>) {
    let (above, z, alpha) = (norm - mean, options.z_threshold, options.z_alpha);
    let ready = count.ge(options.z_warm_up);
    let outlier = ready.logical_and(above.gt(variance.sqrt() * z));
    // z² σ / z_t, with z_t = above / σ
    let target = mean + variance * (z * z) / &above;
    let x = outlier.where_(&target, norm);
    let n = (count + 1u32).cast(norm.dtype().unwrap_or(DType::F32));
    let away = &x - mean;
    let moved = ready.where_(mean * alpha + &x * (1.0 - alpha), mean + &away / &n);
    let square = &x - &moved;
    let moving = variance * alpha + square.square() * (1.0 - alpha);
    // Welford 1962, as a mean
    let plain = variance + (away * &square - variance) / &n;
    let next = vec![(count + 1u32).minimum(options.z_warm_up), moved, ready.where_(moving, plain)];
    (outlier.where_(target, f64::INFINITY), next)
}
