//! The scale and what is counted for it, as cells on one device: who follows from what is written as ops.
use super::{ScalerOptions, ScalerStats};
use adamant_core::{Cell, DType, Device, Error, ErrorKind, Result, Tensor, step};

/// The scale in a state.
pub(super) const SCALE: &str = "scale";
/// The counts in a state.
pub(super) const COUNTS: [&str; 4] = ["growth_tracker", "tolerance", "applied", "skipped"];
/// All cells in a state.
pub(super) const NAMES: [&str; 7] = [SCALE, COUNTS[0], COUNTS[1], COUNTS[2], COUNTS[3], "least", "most"];

/// What the cells hold, in the order of their names.
#[derive(Clone, Copy)]
pub(super) struct Values([f64; NAMES.len()]);
impl Values {
    /// Those of a scaler that has not begun.
    pub fn first(options: &ScalerOptions) -> Values {
        Values([options.init_scale, 0.0, options.hysteresis.into(), 0.0, 0.0, options.init_scale, options.init_scale])
    }
    /// Those of a state.
    #[track_caller]
    pub fn of(state: &[(String, Tensor)]) -> Result<Values> {
        let mut values = [0.0; NAMES.len()];
        for (value, name) in values.iter_mut().zip(NAMES) {
            *value = if COUNTS.contains(&name) { count(state, name)?.into() } else { number(state, name)? };
        }
        Ok(Values(values))
    }
    pub fn scale(&self) -> f64 {
        self.0[0]
    }
    pub fn stats(&self) -> ScalerStats {
        let [scale, _, _, applied, skipped, least, most] = self.0;
        ScalerStats { applied: applied as u32, skipped: skipped as u32, scale, least, most }
    }
    pub fn with_scale(self, scale: f64) -> Values {
        let [_, good, tolerance, applied, skipped, least, most] = self.0;
        Values([scale, good, tolerance, applied, skipped, least.min(scale), most.max(scale)])
    }
}
#[track_caller]
fn refused<T>(text: String) -> Result<T> {
    Err(Error::new("load_state_dict", ErrorKind::Argument(text)))
}
/// A number of a state.
#[track_caller]
pub(super) fn number(state: &[(String, Tensor)], name: &str) -> Result<f64> {
    let Some((_, tensor)) = state.iter().find(|(n, _)| n == name) else {
        return refused(format!("the state of a scaler has `{name}`, and this one has not"));
    };
    match tensor.to_vec_as::<f64>()?[..] {
        [x] if tensor.rank() == 0 => Ok(x),
        _ => refused(format!("`{name}` is a single number, not a tensor of shape {}", tensor.shape()?)),
    }
}
/// A count of a state.
#[track_caller]
pub(super) fn count(state: &[(String, Tensor)], name: &str) -> Result<u32> {
    let x = number(state, name)?;
    let is = x.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&x);
    if is { Ok(x as u32) } else { refused(format!("`{name}` is {x}, it must be a count")) }
}
/// A scale and its counts. Counts are u32: exact, and there on every device.
pub(super) struct ScaleCells {
    device: Device,
    scale: Cell,
    /// good steps since the scale was changed last
    growth_tracker: Cell,
    /// how many bad steps there may be until the scale is made smaller
    tolerance: Cell,
    applied: Cell,
    skipped: Cell,
    least: Cell,
    most: Cell,
}
/// A scale times a factor, rounded once.
fn times(scale: &Tensor, factor: f64) -> Tensor {
    // The product of two f32 is rounded once; another factor has more digits than f32.
    if f64::from(factor as f32) == factor { scale * factor } else { (scale.cast(DType::F64) * factor).cast(DType::F32) }
}

impl ScaleCells {
    #[track_caller]
    pub fn new(device: Device, values: &Values) -> Result<ScaleCells> {
        let float = |x: f64| Cell::new(&Tensor::from_vec_on(vec![x as f32], (), device), false);
        let count = |x: f64| Cell::new(&Tensor::from_vec_on(vec![x as u32], (), device), false);
        let [scale, good, tolerance, applied, skipped, least, most] = values.0;
        Ok(ScaleCells {
            device,
            scale: float(scale)?,
            growth_tracker: count(good)?,
            tolerance: count(tolerance)?,
            applied: count(applied)?,
            skipped: count(skipped)?,
            least: float(least)?,
            most: float(most)?,
        })
    }
    pub fn device(&self) -> Device {
        self.device
    }
    pub fn scale(&self) -> Tensor {
        self.scale.detached()
    }
    fn cells(&self) -> [&Cell; NAMES.len()] {
        [&self.scale, &self.growth_tracker, &self.tolerance, &self.applied, &self.skipped, &self.least, &self.most]
    }
    /// What follows from a step whose gradients were finite or not.
    #[track_caller]
    pub fn update(&self, finite: &Tensor, options: &ScalerOptions) -> Result<()> {
        let scale = self.scale.detached();
        let good = self.growth_tracker.detached() + 1u32;
        let grows = good.eq(options.growth_interval).logical_and(finite);
        let left = finite.where_(options.hysteresis, self.tolerance.detached().maximum(1u32) - 1u32);
        let shrinks = finite.logical_or(left.ne(0u32)).logical_not();
        let grown = times(&scale, options.growth_factor).minimum(options.max_scale);
        // One more and it would be infinite.
        let grown = grown.isfinite().where_(&grown, &scale);
        let shrunk = times(&scale, options.backoff_factor).maximum(options.min_scale);
        let next = grows.where_(grown, shrinks.where_(shrunk, &scale));
        step(|| {
            self.growth_tracker.set(&finite.logical_and(grows.logical_not()).where_(&good, 0u32))?;
            self.tolerance.set(&left)?;
            self.applied.set(&(self.applied.detached() + finite.cast(DType::U32)))?;
            self.skipped.set(&(self.skipped.detached() + finite.logical_not().cast(DType::U32)))?;
            self.seen(&next)
        })
    }
    /// The next scale.
    #[track_caller]
    fn seen(&self, scale: &Tensor) -> Result<()> {
        self.least.set(&self.least.detached().minimum(scale))?;
        self.most.set(&self.most.detached().maximum(scale))?;
        self.scale.set(scale)
    }
    #[track_caller]
    pub fn set_scale(&self, scale: f64) -> Result<()> {
        step(|| self.seen(&Tensor::from_vec_on(vec![scale as f32], (), self.device)))
    }
    #[track_caller]
    pub fn stats(&self) -> Result<ScalerStats> {
        let mut values = [0.0; NAMES.len()];
        for (value, cell) in values.iter_mut().zip(self.cells()) {
            *value = cell.detached().to_vec_as::<f64>()?.first().copied().unwrap_or_default();
        }
        Ok(Values(values).stats())
    }
    pub fn state_dict(&self) -> Vec<(String, Tensor)> {
        NAMES.iter().zip(self.cells()).map(|(name, cell)| ((*name).to_string(), cell.detached())).collect()
    }
    /// Takes over what others held.
    #[track_caller]
    pub fn load(&self, values: &Values) -> Result<()> {
        step(|| {
            self.cells().into_iter().zip(values.0).try_for_each(|(cell, x)| {
                let is_count = cell.meta().dtype == DType::U32;
                cell.set(&if is_count { Tensor::from_vec_on(vec![x as u32], (), self.device) } else { Tensor::from_vec_on(vec![x as f32], (), self.device) })
            })
        })
    }
}
