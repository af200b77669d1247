//! A step as one captured function: forward, backward, clipping, the optimizer's step and the running mean, traced once for each
//! kind of batch and replayed. To the bit it is the step op by op, which is what runs where a step cannot be captured; then
//! it is said why.
//!
//! Must not know what a step does.
use super::Look;
use crate::trainer::Batch;
use adamant_core::{
    Device, Error, ErrorKind, Outputs, Result, Tensor,
    compile::{self, Captures, Compiled},
};

/// The most structures that a step is captured for. A step that comes out otherwise more often than that decides by something that
/// changes all the time, and tracing it costs what recording does.
const MOST_STRUCTURES: u64 = 16;

/// Why steps run op by op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpByOp {
    /// the reason
    pub reason: String,
    /// did somebody want it so, or does it follow from the device?
    pub meant: bool,
}
pub(super) struct CapturedStep {
    /// by what is looked at, and whether the step is recorded: names of ranges are known only to what is traced while a profiler runs
    of: [Compiled<()>; 16],
    steps: u64,
    off: Option<OpByOp>,
    told: bool,
}
impl CapturedStep {
    pub fn new(wanted: bool, device: Device) -> CapturedStep {
        let meant = |reason: &str| Some(OpByOp { reason: reason.into(), meant: true });
        let off = match wanted {
            false => meant("`capture` is false"),
            true if device.is_reference() => meant("the reference device plans nothing"),
            true => None,
        };
        CapturedStep { of: std::array::from_fn(|_| compile::captures()), steps: 0, off, told: false }
    }
    /// Forgets what was captured: it was made for ranks that are others now.
    pub fn forget(&mut self) {
        (self.of, self.steps) = (std::array::from_fn(|_| compile::captures()), 0);
    }
    /// Steps run op by op from now on, as somebody wants it so.
    pub fn leave(&mut self, reason: &str) {
        self.off.get_or_insert_with(|| OpByOp { reason: reason.into(), meant: true });
    }
    pub fn off(&self) -> Option<&OpByOp> {
        self.off.as_ref()
    }
    pub fn captures(&self) -> Captures {
        self.of.iter().map(Compiled::captures).fold(Captures::default(), |a, b| Captures {
            structures: a.structures + b.structures,
            sizes: a.sizes + b.sizes,
            evicted: a.evicted + b.evicted,
            held: a.held + b.held,
        })
    }
    /// Why steps run op by op, once.
    pub fn news(&mut self) -> Option<OpByOp> {
        if std::mem::replace(&mut self.told, self.off.is_some()) { None } else { self.off.clone() }
    }
    /// Runs `step` on batches that are on the device, captured. `None`: it is to run op by op; nothing has changed.
    ///
    /// # Errors
    /// Those of `step`.
    pub fn run<B: Batch>(&mut self, batches: &[B], look: Look, step: &mut dyn FnMut(&[B]) -> Result<Vec<Tensor>>) -> Result<Option<Outputs>> {
        if self.off.is_some() || batches.is_empty() {
            return Ok(None);
        }
        let inputs: Vec<&Tensor> = batches.iter().flat_map(B::tensors).collect();
        let mut f = |places: &[Tensor]| {
            let mut places = places.iter().cloned();
            let placed: Option<Vec<B>> = batches.iter().map(|b| b.with_tensors(&mut places)).collect();
            match placed {
                Some(placed) => step(&placed),
                None => Err(Error::new("capture", ErrorKind::Argument("batches do not tell how they are put together (`Batch::with_tensors`)".into()))),
            }
        };
        let compiled = &self.of[usize::from(look.norm) + 2 * usize::from(look.each) + 4 * usize::from(look.layers) + 8 * usize::from(look.recorded)];
        self.steps += 1;
        let checked = if self.steps > 1 && self.steps.is_power_of_two() { compiled.check_with(&inputs, &mut f) } else { Ok(()) };
        match checked.and_then(|()| compiled.call_with(&inputs, &mut f)) {
            Ok(outputs) => {
                // This step has run; the next ones go op by op.
                let captures = compiled.captures();
                if captures.structures > MOST_STRUCTURES || captures.evicted > 0 {
                    let reason =
                        format!("the step was captured {} times: its batches have too many sizes, or it decides by what changes all the time", captures.sizes);
                    self.off = Some(OpByOp { reason, meant: false });
                }
                Ok(Some(outputs))
            }
            Err(e) if falls_back(e.kind()) => {
                self.off = Some(OpByOp { reason: e.to_string(), meant: false });
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}
/// Is it an error that the step may not have op by op?
fn falls_back(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Capturing | ErrorKind::Argument(_) | ErrorKind::Unsupported { .. } | ErrorKind::OutOfMemory { .. } | ErrorKind::Internal(_))
}
