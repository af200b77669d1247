//! What a model is to learn: the loss of its outputs, and how its answers are judged.
use crate::{Failure, config::Section};
use adamant_core::{
    DType, Error, ErrorKind, Result, Tensor,
    functional::{self, CrossEntropyOptions},
};

/// What is learned from pairs of inputs and targets.
#[derive(Clone, Debug)]
pub enum Objective {
    /// One of several classes for each row, or for each position of a sequence: outputs `[.., classes]`, targets `[..]` of
    /// class numbers. The loss is the cross entropy.
    Classes {
        /// how much of the target is spread over all classes (Szegedy et al. 2016)
        label_smoothing: f64,
    },
    /// Numbers: outputs and targets of one shape. The loss is the mean squared error.
    Numbers,
}
impl Objective {
    /// `loss = "cross_entropy"` or `"mse"` of a description, and `label_smoothing`.
    ///
    /// # Errors
    /// An unknown loss, or smoothing outside 0 to 1.
    pub fn of(root: &Section<'_>, numbers: bool) -> std::result::Result<Objective, Failure> {
        let usual = if numbers { "mse" } else { "cross_entropy" };
        let label_smoothing = root.number("label_smoothing")?.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&label_smoothing) {
            return Err(root.wrong_key("label_smoothing", "it is from 0 to 1"));
        }
        match (root.text("loss")?.unwrap_or(usual), numbers) {
            ("cross_entropy", false) => Ok(Objective::Classes { label_smoothing }),
            ("mse", true) => Ok(Objective::Numbers),
            ("mse", false) => Err(root.wrong_key("loss", "the targets are classes; their loss is cross_entropy")),
            ("cross_entropy", true) => Err(root.wrong_key("loss", "the targets are numbers; their loss is mse")),
            (other, _) => Err(root.wrong_key("loss", format!("there is no `{other}`; there are cross_entropy, mse"))),
        }
    }
    /// The mean loss, a 0-d tensor.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn loss(&self, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        match self {
            Objective::Classes { label_smoothing } => {
                let (outputs, targets) = flat(outputs, targets)?;
                functional::cross_entropy(&outputs, &targets, &CrossEntropyOptions { label_smoothing: *label_smoothing, ..Default::default() }).ok()
            }
            Objective::Numbers => squares(outputs, targets)?.mean(..).ok(),
        }
    }
    /// For each target: its loss (without smoothing) and, for classes, the answer with its probability of the truth.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn judge(&self, outputs: &Tensor, targets: &Tensor) -> Result<Judged> {
        match self {
            Objective::Classes { .. } => {
                let (outputs, targets) = flat(outputs, targets)?;
                let losses = -outputs.log_softmax(-1).gather(-1, &targets.cast(DType::I64).unsqueeze(-1)).squeeze(-1);
                let answers = outputs.argmax(-1);
                Ok(Judged { losses: losses.to_vec_as::<f64>()?, answers: Some(answers.to_vec::<i64>()?), targets: targets.cast(DType::I64).to_vec::<i64>()? })
            }
            Objective::Numbers => {
                let squares = squares(outputs, targets)?;
                let rows = squares.shape()?[0] as isize;
                Ok(Judged { losses: squares.reshape([rows, -1]).mean(-1).to_vec_as::<f64>()?, answers: None, targets: Vec::new() })
            }
        }
    }
}
/// What came of some rows.
pub struct Judged {
    /// the loss of each target
    pub losses: Vec<f64>,
    /// the most likely class for each target
    pub answers: Option<Vec<i64>>,
    /// the right class for each target; empty for numbers
    pub targets: Vec<i64>,
}
#[track_caller]
fn flat(outputs: &Tensor, targets: &Tensor) -> Result<(Tensor, Tensor)> {
    let (o, t) = (outputs.shape()?, targets.shape()?);
    if o.rank() != t.rank() + 1 || o[..t.rank()] != t[..] {
        let kind = ErrorKind::ShapeMismatch { left: o, right: t, axes: None, expected: "outputs [.., classes] and targets [..]" };
        return Err(Error::new("cross_entropy", kind));
    }
    Ok((outputs.reshape([t.elements() as isize, o[t.rank()] as isize]), targets.reshape([-1])))
}
#[track_caller]
fn squares(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let (o, t) = (outputs.shape()?, targets.shape()?);
    // One number for each row is written [rows, 1] by a linear layer and [rows] by a table.
    let targets = if o.elements() == t.elements() && o.rank() == t.rank() + 1 && o[t.rank()] == 1 { targets.unsqueeze(-1) } else { targets.clone() };
    if o != targets.shape()? {
        return Err(Error::new("mse_loss", ErrorKind::ShapeMismatch { left: o, right: t, axes: None, expected: "outputs and targets of one shape" }));
    }
    (outputs - targets).square().ok()
}
