//! A weight in training that is what its codes will stand for. Its arithmetic is that of [`PackedWeight::round`] and of its
//! [`dequantize`](PackedWeight::dequantize), number by number.
use super::{
    CONVERT, PREPARE,
    grid::{FakeQuantizer, LearnedStep},
    hooks::LayerHooks,
    passes,
};
use crate::select::refusal;
use adamant_core::{
    DType, Result, Tensor,
    composite::packed::{Packing, SMALLEST_ROW, matrix},
    functional::PackedWeight,
    grad::no_grad,
};
use adamant_nn::{Copies, Param, Role, Site, Walk, Walker, parametrize::Parametrization};
use std::{cell::RefCell, sync::Arc};

/// The codes of one weight: how they are found now.
#[derive(Clone)]
pub(crate) struct WeightGrid {
    pub packing: Packing,
    /// forward passes of the layer in training, i64
    pub observed: Param,
    /// behind so many of them the scales stay what they are
    pub limit: Option<u64>,
    /// f32 `[rows, groups]`: those of the last weight that was observed, or the learned steps; without a limit there are none
    scale: Option<Param>,
    /// u8 `[rows, groups]`, of an affine packing
    zero_point: Option<Param>,
    learned: bool,
}
impl WeightGrid {
    /// Of a weight as it is.
    #[track_caller]
    pub fn new(weight: &Tensor, packing: Packing, observed: &Param, limit: Option<u64>, learned: bool) -> Result<WeightGrid> {
        let mut grid = WeightGrid { packing, observed: observed.clone(), limit, scale: None, zero_point: None, learned };
        let now = PackedWeight::round(weight, packing)?;
        if learned || limit.is_some() {
            let scale = if learned && packing.symmetric { first_step(weight, &now) } else { now.scale().clone() };
            grid.scale = Some(Param::with_role(&scale, if learned { Role::Trainable } else { Role::Buffer })?);
            grid.zero_point = now.zero_point().map(Param::buffer).transpose()?;
        }
        Ok(grid)
    }
    /// The learned steps.
    pub fn step(&self) -> Option<&Param> {
        self.scale.as_ref().filter(|_| self.learned)
    }
    /// Scales and zero points now, `[rows, groups]`, in f32.
    #[track_caller]
    fn scales(&self, weight: &Tensor) -> Result<(Tensor, Option<Tensor>)> {
        let held = |param: &Option<Param>| param.as_ref().map(|p| p.detached().cast(DType::F32));
        let (scale, zero_point) = (held(&self.scale), held(&self.zero_point));
        if let (true, Some(step)) = (self.learned, &scale) {
            return Ok((step.abs().maximum(SMALLEST_ROW), zero_point));
        }
        let now = PackedWeight::round(weight, self.packing)?;
        let new = (now.scale().clone(), now.zero_point().map(|z| z.cast(DType::F32)));
        let (Some(limit), Some(scale)) = (self.limit, scale) else { return Ok(new) };
        let frozen = self.observed.detached().ge(passes(limit));
        let zero_point = zero_point.zip(new.1).map(|(old, new)| frozen.where_(old, new));
        Ok((frozen.where_(scale, new.0), zero_point))
    }
    /// Keeps what was found of a weight in training.
    #[track_caller]
    fn keep(&self, (scale, zero_point): &(Tensor, Option<Tensor>)) -> Result<()> {
        let Some(held) = self.scale.as_ref().filter(|_| !self.learned) else { return Ok(()) };
        held.set(&scale.cast(held.meta().dtype))?;
        let held = self.zero_point.as_ref().zip(zero_point.as_ref());
        held.map_or(Ok(()), |(held, new)| held.set(&new.cast(DType::U8)))
    }
    fn grid(&self, (scale, zero_point): &(Tensor, Option<Tensor>), (rows, groups): (usize, usize)) -> FakeQuantizer {
        let (low, high) = self.packing.range();
        let by_group = |t: &Tensor| t.reshape([rows, groups, 1]);
        FakeQuantizer { scale: by_group(scale), zero_point: zero_point.as_ref().map(by_group), low: low.into(), high: high.into() }
    }
    /// The codes and scales that hold a weight from now on.
    #[track_caller]
    pub fn packed(&self, weight: &Tensor) -> Result<PackedWeight> {
        let shape = weight.shape()?;
        let (rows, columns) = matrix(&shape);
        let groups = self.packing.groups(columns);
        let scales = self.scales(weight)?;
        let grid = self.grid(&scales, (rows, groups));
        let in_steps = weight.detach().cast(DType::F32).reshape([rows, groups, columns / groups]) / &grid.scale;
        let codes = grid.codes(&in_steps).cast(DType::I32).reshape([rows, columns]);
        let zero_point = scales.1.map(|z| z.cast(DType::U8));
        PackedWeight::of_codes(self.packing, shape, &codes, &scales.0, zero_point.as_ref())
    }
    #[track_caller]
    fn apart(&self, copies: &mut Copies) -> Result<WeightGrid> {
        let scale = self.scale.duplicate(copies)?;
        Ok(WeightGrid { observed: self.observed.duplicate(copies)?, scale, zero_point: self.zero_point.duplicate(copies)?, ..*self })
    }
}
/// The step that training begins with: `2 mean |w| / √Qp` (Esser et al. 2020, section 2.1), or that of the largest weight, if that is
/// less.
fn first_step(weight: &Tensor, now: &PackedWeight) -> Tensor {
    let (rows, columns) = matrix(&now.shape());
    let groups = now.packing().groups(columns);
    let (_, high) = now.packing().range();
    let mean = weight.detach().cast(DType::F32).reshape([rows, groups, columns / groups]).abs().mean(2);
    let theirs = mean * (2.0 / f64::from(high).sqrt());
    theirs.gt(SMALLEST_ROW).where_(theirs.minimum(now.scale()), now.scale())
}

/// The parametrization of a weight: the numbers of its codes. The first weight of a layer has the layer's hooks.
#[derive(Clone)]
pub(crate) struct FakeQuantizedWeight {
    /// the layer's
    pub site: Site,
    pub grid: WeightGrid,
    pub hooks: Option<Arc<LayerHooks>>,
}
thread_local! {
    /// Those that a walk has met, while [`super::convert::met`] asks for them.
    pub(super) static MET: RefCell<Option<Vec<FakeQuantizedWeight>>> = const { RefCell::new(None) };
}
impl Walk for FakeQuantizedWeight {
    fn walk(&self, walker: &mut Walker<'_>) {
        MET.with_borrow_mut(|met| {
            if let Some(met) = met {
                met.push(self.clone());
            }
        });
        walker.child("scale", &self.grid.scale);
        walker.child("zero_point", &self.grid.zero_point);
        walker.child("observed", &self.grid.observed);
        if let Some(hooks) = &self.hooks {
            hooks.walk(walker);
        }
    }
    fn duplicate(&self, copies: &mut Copies) -> Result<FakeQuantizedWeight> {
        let hooks = self.hooks.as_ref().map(|hooks| hooks.apart(copies).map(Arc::new)).transpose()?;
        Ok(FakeQuantizedWeight { site: self.site.duplicate(copies)?, grid: self.grid.apart(copies)?, hooks })
    }
}
impl Parametrization for FakeQuantizedWeight {
    fn forward(&self, originals: &[Tensor]) -> Result<Tensor> {
        let [weight] = originals else {
            return Err(refusal(PREPARE, format!("codes are of one tensor, not of {}", originals.len())));
        };
        let meta = weight.try_meta()?;
        let (rows, columns) = matrix(&meta.shape);
        let groups = self.grid.packing.groups(columns);
        let scales = no_grad(|| {
            let scales = self.grid.scales(weight)?;
            if self.site.is_training() {
                self.grid.keep(&scales)?;
            }
            Ok::<_, adamant_core::Error>(scales)
        })?;
        let grid = self.grid.grid(&scales, (rows, groups));
        let x = weight.cast(DType::F32).reshape([rows, groups, columns / groups]);
        let in_steps = x.detach() / &grid.scale;
        let learned = self.grid.step().map(|step| {
            let step = step.get().cast(DType::F32).abs().reshape([rows, groups, 1]);
            LearnedStep { step, shared_by: columns / groups }
        });
        grid.fake_quantized(&x, &in_steps, learned.as_ref()).reshape(meta.shape).cast(meta.dtype).ok()
    }
}
/// The step of a code must be a number.
#[track_caller]
pub(crate) fn check_scales(path: &str, weight: &PackedWeight) -> Result<()> {
    let finite = weight.scale().isfinite().all(..).item::<bool>()?;
    crate::select::check(CONVERT, finite, || format!("the steps of `{path}` are not finite"))
}
