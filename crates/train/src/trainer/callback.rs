//! What a program does at places of the loop: callbacks.
use super::Trainer;
use crate::{Failure, Position, trainer::Score};
use adamant_optim::Optimizer;

/// What a callback may see and change of the run.
pub(crate) trait Steer<M> {
    fn model(&self) -> &M;
    fn position(&self) -> Position;
    fn loss(&mut self) -> Result<f64, Failure>;
    fn optimizer(&mut self) -> &mut dyn Optimizer;
}
/// The run, as a callback meets it.
pub struct Control<'a, M> {
    pub(crate) session: &'a mut dyn Steer<M>,
    pub(crate) stop: &'a mut Option<String>,
    pub(crate) logged: &'a mut Vec<(String, f64)>,
}
impl<M> Control<'_, M> {
    /// The model.
    pub fn model(&self) -> &M {
        self.session.model()
    }
    /// Steps and epochs done.
    pub fn position(&self) -> Position {
        self.session.position()
    }
    /// The loss of the last step. The device is waited for.
    ///
    /// # Errors
    /// `Diverged`: it is no number.
    pub fn loss(&mut self) -> Result<f64, Failure> {
        self.session.loss()
    }
    /// The optimizer: its learning rates and other numbers may be changed, and come back when the run is resumed. A schedule sets the
    /// rate again after each step.
    pub fn optimizer(&mut self) -> &mut dyn Optimizer {
        self.session.optimizer()
    }
    /// Ends the run after this step, with a checkpoint.
    pub fn stop(&mut self, reason: impl Into<String>) {
        self.stop.get_or_insert(reason.into());
    }
    /// A number of one's own: it goes to `metrics.jsonl` and to TensorBoard.
    pub fn log(&mut self, name: impl Into<String>, value: f64) {
        self.logged.push((name.into(), value));
    }
}

/// Code of a program at places of the loop. Everything has an empty body: write what you need. What the callback must remember
/// when a run is resumed it gives in [`Callback::state`].
///
/// ```
/// use adamant_train::{Failure, trainer::{Callback, Control}};
/// use serde_json::{Value, json};
///
/// /// Halves the learning rate at each epoch's end, and ends the run when it is small.
/// #[derive(Default)]
/// struct Halve { times: u64 }
/// impl<M> Callback<M> for Halve {
///     fn name(&self) -> &str { "halve" }
///     fn on_epoch_end(&mut self, run: &mut Control<'_, M>, _loss: f64) -> Result<(), Failure> {
///         self.times += 1;
///         let lrs: Vec<f64> = run.optimizer().lrs().iter().map(|lr| lr / 2.0).collect();
///         run.optimizer().set_lrs(&lrs);
///         if lrs.iter().all(|lr| *lr < 1e-6) {
///             run.stop("the learning rate is below 1e-6");
///         }
///         Ok(())
///     }
///     fn state(&self) -> Value { json!(self.times) }
///     fn restore(&mut self, state: &Value) -> Result<(), Failure> {
///         self.times = state.as_u64().unwrap_or(0);
///         Ok(())
///     }
/// }
/// ```
///
/// # Errors
/// An error of any of them ends the run; what it had learned is in the newest checkpoint.
#[allow(unused_variables, clippy::missing_errors_doc)]
pub trait Callback<M>: Send {
    /// Under which name its state is kept: one of its own for each callback of a run.
    fn name(&self) -> &str;
    /// Training begins, or goes on.
    fn on_train_begin(&mut self, run: &mut Control<'_, M>) -> Result<(), Failure> {
        Ok(())
    }
    /// A step is done.
    fn on_step_end(&mut self, run: &mut Control<'_, M>) -> Result<(), Failure> {
        Ok(())
    }
    /// An epoch is done; `loss` is the mean of its steps.
    fn on_epoch_end(&mut self, run: &mut Control<'_, M>, loss: f64) -> Result<(), Failure> {
        Ok(())
    }
    /// The validation part was judged.
    fn on_validation_end(&mut self, run: &mut Control<'_, M>, score: &Score) -> Result<(), Failure> {
        Ok(())
    }
    /// A checkpoint is about to be made: what is remembered here is in it. An interrupted run makes one more.
    fn on_checkpoint(&mut self, run: &mut Control<'_, M>) -> Result<(), Failure> {
        Ok(())
    }
    /// Training is over. Not called at an interruption.
    fn on_train_end(&mut self, run: &mut Control<'_, M>) -> Result<(), Failure> {
        Ok(())
    }
    /// What must come back when the run is resumed. Numbers come back to the last bit; what is not finite becomes null.
    fn state(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
    /// Takes over what [`Callback::state`] gave.
    fn restore(&mut self, state: &serde_json::Value) -> Result<(), Failure> {
        Ok(())
    }
}
impl<M, B> Trainer<M, B> {
    /// Code of yours at places of the loop. Callbacks are called in the order in which they were given.
    #[must_use]
    pub fn callback(mut self, callback: impl Callback<M> + 'static) -> Self {
        self.callbacks.push(Box::new(callback));
        self
    }
}
