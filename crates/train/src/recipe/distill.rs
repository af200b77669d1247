//! `[distill]`: training with what the model of another run says, beside the targets.
//!
//! ```toml
//! [distill]
//! teacher = "runs/mnist-1"  # a run folder, as it is found from where the program runs
//! temperature = 4.0         # what both models' logits are divided by; 4, unless it is given
//! alpha = 0.5               # the teacher's share of the loss, from 0 to 1; a half, unless it is given
//! ```
use crate::{Failure, Objective, Task, Trained, config::Section, evaluate};
use adamant_core::{Error, Result as Computed, Tensor, grad::no_grad};
use adamant_data::{Facts, Target};
use adamant_nn::{Sequential, Walk};
use adamant_quant::distill::Distiller;
use std::path::PathBuf;

/// Where a teacher is, and how much a student listens to it.
#[derive(Clone, Debug)]
pub(crate) struct DistilledTraining {
    teacher: PathBuf,
    temperature: f64,
    alpha: f64,
}
/// A teacher that was read.
pub(crate) struct Teaching {
    distiller: Distiller<Sequential>,
    alpha: f64,
}
/// Reads the section; of the teacher's folder it is seen that it is one.
///
/// # Errors
/// No run folder, a number that makes no sense.
pub(crate) fn distill(root: &Section<'_>) -> Result<Option<DistilledTraining>, Failure> {
    let Some(s) = root.section("distill")? else { return Ok(None) };
    let teacher = PathBuf::from(s.need("teacher", s.text("teacher")?)?);
    let temperature = s.number("temperature")?.unwrap_or(4.0);
    if temperature <= 0.0 {
        return Err(s.wrong_key("temperature", "it is a number above 0: 1 leaves the logits as they are, more of it shows more of what is unlikely"));
    }
    let alpha = s.number("alpha")?.unwrap_or(0.5);
    if !(0.0..=1.0).contains(&alpha) {
        return Err(s.wrong_key("alpha", "it is from 0 to 1: 0 is the targets alone, 1 the teacher alone"));
    }
    if !teacher.join("config.toml").is_file() {
        return Err(s.wrong_key("teacher", format!("{} is no run folder; `adamant train` writes one", teacher.display())));
    }
    s.finish()?;
    Ok(Some(DistilledTraining { teacher, temperature, alpha }))
}
impl DistilledTraining {
    /// Reads the teacher, and asks it about zeros of the shape of the run's inputs.
    ///
    /// # Errors
    /// A run that cannot be read, or whose model is for other inputs or other classes; an objective that is not of classes.
    pub fn open(&self, root: &Section<'_>, objective: &Objective, inputs: Option<Facts>, targets: Option<&Target>) -> Result<Teaching, Failure> {
        let section = root.need("distill", root.section("distill")?)?;
        let wrong = |what: String| section.wrong_key("teacher", what);
        let classes = match targets {
            Some(Target::Classes { count, .. }) if objective.tells_classes() => *count,
            Some(Target::NextToken { vocabulary }) if objective.tells_classes() => *vocabulary,
            _ => return Err(section.wrong("a student learns what a teacher says of classes, and this run's loss is not of several classes")),
        };
        let trained = Trained::open(&self.teacher).map_err(|failure| wrong(failure.to_string()))?;
        if matches!(trained.task, Task::Numbers) {
            return Err(wrong(format!("{} tells numbers, no classes", self.teacher.display())));
        }
        trained.model.eval();
        if let Some(facts) = inputs {
            let shape = facts.shape.insert(0, 1).map_err(|kind| Error::new("distill", kind))?;
            let zeros = Tensor::full(shape, 0, facts.dtype);
            let answer = no_grad(|| evaluate::answer(&trained.model, &zeros, trained.region.as_ref())).map_err(|failure| wrong(failure.to_string()))?;
            let said = answer.shape().map_err(|e| wrong(format!("its model does not take this run's inputs: {}", e.kind())))?;
            if said.last() != Some(&classes) {
                return Err(wrong(format!("{} answers {said}, and this run's data have {classes} classes", self.teacher.display())));
            }
        }
        let distiller = Distiller::new(trained.model, self.temperature)?;
        Ok(Teaching { distiller, alpha: self.alpha })
    }
}
impl Teaching {
    /// `alpha · T² · KL(teacher ‖ student) + (1 - alpha) · objective`, of logits `[.., classes]` for inputs.
    ///
    /// # Errors
    /// The teacher's own, or the objective's.
    #[track_caller]
    pub fn loss(&self, objective: &Objective, outputs: &Tensor, x: &Tensor, y: &Tensor) -> Computed<Tensor> {
        let taught = self.distiller.teacher_forward(x)?;
        let rows = |logits: &Tensor| -> Computed<Tensor> {
            let classes = logits.shape()?.last().copied().unwrap_or(1);
            logits.reshape([-1, classes as isize]).ok()
        };
        let soft = self.distiller.soft_loss(&rows(outputs)?, &rows(&taught)?)?;
        (soft * self.alpha + objective.loss(outputs, y)? * (1.0 - self.alpha)).ok()
    }
}
