//! What a trainer looks at while it trains.
use super::Trainer;
use crate::{folder::number, session::Position};
use adamant_stability::{BatchNumbers, LayerNumbers, LookedNumbers, NanOptions, ParameterNumbers};
use serde_json::{Value, json};

impl<M, B> Trainer<M, B> {
    /// What is done about numbers that are NaN, infinite or too large. Unless it is set, a step with one that is not finite changes nothing
    /// and ends the run, with a checkpoint of the step before it.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Linear, Module, Walk};
    /// # use adamant_optim::{Sgd, UpdateRule};
    /// # use adamant_train::{HandlingType, Trainer};
    /// # adamant_core::Device::reference().make_current();
    /// # let model = Linear::new(2, 1)?;
    /// # let optimizer = Sgd::new(0.1).over(model.parameters());
    /// # let loss = |model: &Linear, (x, y): &(Tensor, Tensor)| (model.forward(x)? - y).square().mean(..).ok();
    /// let trainer = Trainer::new(model, optimizer, loss).stability(HandlingType::Skip);
    /// # let _ = trainer;
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[must_use]
    pub fn stability(mut self, options: impl Into<NanOptions>) -> Self {
        self.habits.stability = Some(options.into());
        self
    }
    /// Nobody looks at gradients and weights: a loss that is no number ends the run when it is read.
    #[must_use]
    pub fn unwatched(mut self) -> Self {
        self.habits.stability = None;
        self
    }
    /// Looks at layers and parameters in the first step and each so many steps; unless it is set, never. Lines of kind `layers` in the folder's
    /// `metrics.jsonl` have what the batch was like, what each layer gave (the largest and the mean absolute value, shares of zeros, of dead
    /// units, of saturated elements) and, of each parameter, the norms of its gradient, of itself and of its update
    /// ([`adamant_stability::LayerLook`]): what [`crate::doctor`] reads. It changes no bit of a run.
    #[must_use]
    pub fn look_every(self, steps: u64) -> Self {
        Trainer { look_every: Some(steps.max(1)), ..self }
    }
}
/// What batch, layers and parameters were like, in their order, as a line of metrics; with the step's loss and rate, and the rows of each of
/// its batches.
pub(super) fn layers_line(at: Position, (loss, lr): (f64, f64), rows: &[usize], seen: &LookedNumbers) -> Value {
    let known = |x: Option<f64>| x.map(number);
    let batch = |b: &BatchNumbers| json!({ "tensor": b.tensor, "largest": number(b.largest), "mean": number(b.mean), "zeros": number(b.zeros) });
    let layer = |l: &LayerNumbers| {
        json!({
            "layer": l.layer, "op": l.op, "largest": number(l.largest), "mean": number(l.mean),
            "zeros": number(l.zeros), "dead": known(l.dead), "saturated": known(l.saturated),
        })
    };
    let parameter = |p: &ParameterNumbers| {
        json!({
            "parameter": p.parameter, "shape": p.shape, "gradient": known(p.gradient), "weight": number(p.weight), "update": number(p.update),
            "range": known(p.range),
        })
    };
    json!({
        "kind": "layers", "step": at.step, "epoch": at.epoch + 1, "loss": number(loss), "lr": number(lr), "rows": rows,
        "batch": seen.batch.iter().map(batch).collect::<Vec<_>>(),
        "layers": seen.layers.iter().map(layer).collect::<Vec<_>>(), "parameters": seen.parameters.iter().map(parameter).collect::<Vec<_>>(),
    })
}
