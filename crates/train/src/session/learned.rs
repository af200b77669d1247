//! Forward and backward of a step that is nobody else's. Must not know what becomes of the gradients.
use super::StepParts;
use crate::trainer::Batch;
use adamant_amp::GradScaler;
use adamant_core::{Error, ErrorKind, Grads, Result as Computed, Tensor, grad::with_wide_gradients, time_block};
use adamant_stability::LayerLook;

impl<M, B: Batch> StepParts<'_, M, B> {
    /// Forward and backward of all batches: the gradients of the mean loss over all rows, and that loss.
    pub(super) fn learn(
        &mut self,
        batches: &[B],
        flags: &mut Option<Tensor>,
        seen: &mut Option<LayerLook>,
        scaler: &mut GradScaler,
    ) -> Computed<(Grads, Tensor)> {
        let (mut grads, mut loss, mut total) = (None, None::<Tensor>, 0);
        self.accumulator.reset();
        for batch in batches {
            let n = batch.rows()?;
            let forward = || (self.loss)(self.model, batch);
            let mean = self.precision.forward(flags, || match seen {
                Some(seen) => seen.forward(forward),
                None => forward(),
            })?;
            self.precision.measure(&mean)?;
            let scaled = scaler.scale(&mean)?;
            let backward = || if self.precision.stores_low() { with_wide_gradients(|| scaled.backward()) } else { scaled.backward() };
            grads = time_block!("backward", backward().and_then(|grads| self.accumulator.add(grads, n)))?;
            loss = time_block!("loss", {
                let weighted = if batches.len() == 1 { mean.detach() } else { mean.detach() * n as f64 };
                Some(loss.map_or_else(|| weighted.clone(), |sum| sum + &weighted))
            });
            total += n;
            seen.iter_mut().for_each(|seen| seen.batch(&batch.tensors()));
        }
        let waiting = match grads {
            None => time_block!("backward", self.accumulator.finish())?,
            some => some,
        };
        let (Some(grads), Some(loss)) = (waiting, loss) else {
            return Err(Error::new("step", ErrorKind::Argument("a step without a batch".into())));
        };
        Ok((grads, if batches.len() == 1 { loss } else { time_block!("loss", loss / total as f64) }))
    }
}
