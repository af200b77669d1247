//! The losses of steps, which a device is asked for late.
use super::scaled::SteppedPrecision;
use crate::Failure;
use adamant_core::{Tensor, profile::record_function};

/// Losses since the epoch began. A device is asked for them only where somebody wants to know.
pub(super) struct Losses {
    pub sum: f64,
    pub count: u64,
    /// the last that is a number; NaN before there is one
    pub last: f64,
    pub unread: Vec<UnreadLoss>,
}
/// A step's loss, and with a scaler what became of its gradients.
pub(super) struct UnreadLoss {
    pub loss: Tensor,
    pub verdict: Option<Tensor>,
}
impl Losses {
    /// Of an epoch that begins.
    pub fn after(last: f64) -> Losses {
        Losses { sum: 0.0, count: 0, last, unread: Vec::new() }
    }
    /// Reads what was not read, in order: the same sum whenever it is asked for. A step that the scaler suppressed may have a loss that
    /// is no number, which is not counted; nor is that of a step that is `watched`.
    pub fn settle(&mut self, step: u64, precision: &mut SteppedPrecision, watched: bool) -> Result<(), Failure> {
        let _range = record_function("metrics");
        let first = step + 1 - self.unread.len() as u64;
        for (k, UnreadLoss { loss, verdict }) in std::mem::take(&mut self.unread).into_iter().enumerate() {
            let (at, value) = (first + k as u64, loss.item::<f64>()?);
            let applied = verdict.map(|v| precision.judge(&v, at)).transpose()?.unwrap_or(true);
            if value.is_finite() {
                self.sum += value;
                self.count += 1;
                self.last = value;
            } else if applied && !watched {
                return Err(Failure::Diverged(format!("the loss is {value} in step {at}: training has diverged")));
            }
        }
        Ok(())
    }
}
