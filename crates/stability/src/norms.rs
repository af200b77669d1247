//! What norms the gradients had of late: by them an explosion is told, on the device.
//!
//! Data flow: the norm of all gradients of a step, as they are before clipping, is held against the largest of late. That is one number in a cell:
//! it falls by 1 % with each step and rises to each norm of a good step. Clipping by the global norm computes the same norm; in a captured step it
//! is there once.
use crate::NanOptions;
use adamant_core::{Cell, DType, Device, Result, Tensor};
use adamant_optim::get_total_norm;

/// What the largest norm keeps with each step.
const KEPT: f64 = 0.99;
/// Of so many good steps a norm must be known before one is called an explosion.
const KNOWN: f32 = 3.0;

/// The cell: the largest norm of late, and how many there were.
pub(crate) struct NormsOfLate(Cell);
/// The norm of a step.
#[derive(Clone)]
pub(crate) struct StepNorm {
    norm: Tensor,
    largest: Tensor,
    /// Is it an explosion? A bool of no axes.
    pub explodes: Tensor,
}
impl StepNorm {
    /// By what gradients are scaled: where there is an explosion, to the largest norm of late.
    pub fn factor(&self, explosion: &Tensor) -> Tensor {
        explosion.where_(&self.largest / &self.norm, 1.0)
    }
}
impl NormsOfLate {
    pub fn new(device: Device) -> Result<NormsOfLate> {
        Ok(NormsOfLate(Cell::new(&Tensor::from_vec_on(vec![0f32; 2], [2], device), false)?))
    }
    pub fn detached(&self) -> Tensor {
        self.0.detached()
    }
    pub fn set(&self, to: &Tensor) -> Result<()> {
        self.0.set(to)
    }
    /// Holds gradients against what there was.
    #[track_caller]
    pub fn of(&self, gradients: &[&Tensor], options: &NanOptions) -> Result<Option<StepNorm>> {
        if gradients.is_empty() {
            return Ok(None);
        }
        let of_late = self.0.detached();
        let norm = get_total_norm(gradients.iter().copied(), 2.0, false)?.cast(DType::F32).to(self.0.meta().device);
        let (largest, known) = (of_late.narrow(0, 0, 1).reshape(()), of_late.narrow(0, 1, 1).reshape(()));
        let explodes = norm.gt(&largest * options.explosion_factor).logical_and(known.ge(KNOWN));
        Ok(Some(StepNorm { norm, largest, explodes }))
    }
    /// Takes in the norm of a step where `enters`, a bool of no axes, says so.
    #[track_caller]
    pub fn take_in(&self, step: &StepNorm, enters: &Tensor) -> Result<()> {
        let of_late = self.0.detached();
        let known = of_late.narrow(0, 1, 1) + 1.0;
        let largest = (&step.largest * KEPT).maximum(&step.norm).reshape([1]);
        let next = Tensor::cat(&[largest, known.minimum(KNOWN)], 0);
        self.0.set(&enters.logical_and(step.norm.isfinite()).where_(next, of_late))
    }
}
