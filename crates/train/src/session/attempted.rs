//! One attempt at a step: forward and back, judged, clipped, and what the optimizer makes of it. It is the same ops each time, so that it can be
//! captured. Must not know whether it is.
use super::{Look, StepParts, scaled, sharded::ZeroStage, shared::SharedSteps};
use crate::{monitor, trainer::Batch};
use adamant_amp::GradScaler;
use adamant_core::{Grads, Result as Computed, Tensor, intercept::casting_once, profile::record_function};
use adamant_nn::Param;
use adamant_optim::ClippingType;
use adamant_stability::{LayerLook, NanHandler, StepPhase};

/// The norm of all gradients together, not yet computed.
fn total_norm(grads: &Grads, parameters: &[Param]) -> Option<Tensor> {
    let squares = parameters.iter().filter_map(|p| grads.of(&p.cell())).map(|g| (g * g).sum(..));
    Some(squares.reduce(|sum, square| sum + square)?.sqrt())
}

impl<M, B: Batch> StepParts<'_, M, B> {
    /// Gives the loss; with a scaler, the verdict; where layers are watched, which overflowed; in 16 bits, with the norm, the share of gradient elements that underflow; the norm of all gradients where it was asked
    /// for or needed anyway, and behind clipping; in the end the norms of each parameter, and the numbers of layers, where they were asked for.
    pub(super) fn step(&mut self, batches: &[B], look: Look) -> Computed<Vec<Tensor>> {
        match self.handler.take() {
            Some(handler) => handler.attempt(|handler| self.scaled(batches, look, Some(handler))),
            None => self.scaled(batches, look, None),
        }
    }
    fn scaled(&mut self, batches: &[B], look: Look, handler: Option<&mut NanHandler>) -> Computed<Vec<Tensor>> {
        let mut scaler = std::mem::take(&mut self.precision.scaler);
        let outputs = match scaler.is_enabled() {
            true => scaler.attempt(|scaler| self.attempt(batches, look, scaler, handler)),
            false if self.precision.region().is_some() => casting_once(|| self.attempt(batches, look, &mut scaler, handler)),
            false => self.attempt(batches, look, &mut scaler, handler),
        };
        self.precision.scaler = scaler;
        outputs
    }
    fn attempt(&mut self, batches: &[B], look: Look, scaler: &mut GradScaler, handler: Option<&mut NanHandler>) -> Computed<Vec<Tensor>> {
        let (mut flags, mut seen) = (None, look.layers.then(LayerLook::new));
        let (mut grads, loss) = match self.shared {
            Some(shared) => self.learn_shared(shared, batches, &mut flags, scaler)?,
            None => self.learn(batches, &mut flags, &mut seen, scaler)?,
        };
        let mut outputs = vec![loss];
        let _range = record_function("optimizer_step");
        let leaves: Vec<Param> = self.parameters.iter().map(|(_, p)| p.clone()).collect();
        let underflow = if look.norm { self.precision.underflow(&grads, &leaves) } else { None };
        // All that follows looks at gradients as they are without the scale.
        scaler.unscale_(&mut grads, &*self.optimizer)?;
        outputs.extend(scaled::verdict(scaler));
        outputs.extend(flags);
        outputs.extend(underflow);
        // With pieces all ranks measure, whether they look or not.
        let (shared, parameters) = (self.shared, self.parameters);
        let pieces = shared.is_some_and(SharedSteps::has_pieces);
        let measure = |grads: &Grads, wanted: bool| shared.filter(|_| wanted || pieces).map(|shared| shared.norms(grads, parameters)).transpose();
        let of_pieces = measure(&grads, false)?;
        if let Some(handler) = handler {
            let judged = match &of_pieces {
                Some(measured) if handler.options().gradient_checking => measured.or_bad(&outputs[0])?,
                _ => outputs[0].clone(),
            };
            handler.handle(&judged, &mut grads, &leaves)?;
            scaler.finite().map(|applied| handler.excuse(&applied)).transpose()?;
        }
        let measured = match of_pieces {
            Some(measured) => Some(measured),
            None => measure(&grads, look.norm || look.each || self.clipper.is_some())?,
        };
        let norms = match &measured {
            Some(measured) if look.each => Some(measured.each(parameters, monitor::NONE)?),
            None if look.each => Some(monitor::norms(&grads, parameters)?),
            _ => None,
        };
        seen.as_mut().map(|seen| seen.gradients(&grads, &self.looks.parameters)).transpose()?;
        let clipped = StepPhase::Clip.run(|| match (&mut self.clipper, &measured) {
            (None, _) => Ok(None),
            (Some(clipper), Some(measured)) => clipper.clip_measured(&mut grads, &*self.optimizer, measured).map(Some),
            (Some(clipper), None) if clipper.options().clipping_type == ClippingType::Norm => clipper.clip_for(&mut grads, &*self.optimizer).map(Some),
            (Some(clipper), None) => clipper.clip(&mut grads, &leaves).map(Some),
        })?;
        outputs.extend(match clipped {
            Some(clipped) => Some(clipped.norm),
            None if look.norm => measured.map_or_else(|| total_norm(&grads, &leaves), |measured| Some(measured.total())),
            None => None,
        });
        if self.clipper.is_some() && (look.norm || pieces) {
            let behind = match measure(&grads, true)? {
                Some(measured) => Some(measured.total()),
                None => total_norm(&grads, &leaves),
            };
            outputs.extend(behind.filter(|_| look.norm));
        }
        outputs.extend(norms);
        if let Some(shared) = shared.filter(|shared| shared.sharded.stage() == ZeroStage::Slots && !shared.has_pieces()) {
            shared.sharded.cut(&mut grads);
        }
        shared.iter().for_each(|shared| shared.agree_on_data(self.device));
        StepPhase::Optimizer.run(|| scaler.step(&mut *self.optimizer, &mut grads))?;
        if let Some(seen) = seen {
            outputs.push(self.looks.finish(seen)?);
        }
        if let Some(average) = &mut self.average {
            average.update()?;
        }
        Ok(outputs)
    }
}
