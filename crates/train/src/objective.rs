//! What a model is to learn: the loss of its outputs, and how its answers are judged.
use crate::{Failure, config::Section, failure::shown};
use adamant_core::{
    DType, Error, ErrorKind, Result, Shape, Tensor,
    composite::loss::Reduction,
    functional::{self, CrossEntropyOptions, MultiMarginOptions, NllOptions, PoissonNllOptions},
};
use std::sync::Arc;

/// A loss, as PyTorch names it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    CrossEntropy {
        label_smoothing: f64,
    },
    /// `(1 - p)^gamma` times the cross entropy, p being the probability of the truth (Lin et al. 2017)
    Focal {
        gamma: f64,
    },
    Nll,
    MultiMargin,
    BceWithLogits {
        pos_weight: Option<f64>,
    },
    Bce,
    SoftMargin,
    Mse,
    L1,
    SmoothL1 {
        beta: f64,
    },
    Huber {
        delta: f64,
    },
    KlDiv {
        log_target: bool,
    },
    PoissonNll {
        log_input: bool,
        full: bool,
    },
    /// outputs are means, then as many logarithms of variances (Nix and Weigend 1994)
    GaussianNll {
        full: bool,
    },
}
/// What a loss is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fits {
    /// one of several classes
    Classes,
    /// yes or no: numbers 0 and 1, or two classes
    Flags,
    /// numbers
    Numbers,
}
/// The losses by their names, and what each is for.
const LOSSES: [(&str, Fits); 14] = [
    ("cross_entropy", Fits::Classes),
    ("focal", Fits::Classes),
    ("nll", Fits::Classes),
    ("multi_margin", Fits::Classes),
    ("bce_with_logits", Fits::Flags),
    ("bce", Fits::Flags),
    ("soft_margin", Fits::Flags),
    ("mse", Fits::Numbers),
    ("l1", Fits::Numbers),
    ("smooth_l1", Fits::Numbers),
    ("huber", Fits::Numbers),
    ("kl_div", Fits::Numbers),
    ("poisson_nll", Fits::Numbers),
    ("gaussian_nll", Fits::Numbers),
];
/// A weight for each class.
#[derive(Clone, Debug, PartialEq)]
enum ClassWeights {
    Equal,
    /// in inverse proportion to how often a class occurs in the training part; not counted yet
    Balanced,
    Given(Arc<[f64]>),
}

/// What is learned from pairs of inputs and targets.
#[derive(Clone, Debug)]
pub struct Objective {
    loss: Loss,
    weights: ClassWeights,
}
impl Objective {
    /// One of several classes for each row, or for each position of a sequence: outputs `[.., classes]`, targets `[..]` of
    /// class numbers. `label_smoothing`: how much of the target is spread over all classes (Szegedy et al. 2016).
    pub fn cross_entropy(label_smoothing: f64) -> Objective {
        Objective { loss: Loss::CrossEntropy { label_smoothing }, weights: ClassWeights::Equal }
    }
    /// Numbers: outputs and targets of one shape. The loss is the mean squared error.
    pub fn mse() -> Objective {
        Objective { loss: Loss::Mse, weights: ClassWeights::Equal }
    }
    /// `loss = "focal"` of a description, with `loss_options`, `label_smoothing` and `class_weights`. `numbers`: are the targets
    /// numbers, and not classes?
    ///
    /// # Errors
    /// An unknown loss, one that does not fit the targets, or a value that makes no sense.
    pub fn of(root: &Section<'_>, numbers: bool) -> std::result::Result<Objective, Failure> {
        let name = root.text("loss")?.unwrap_or(if numbers { "mse" } else { "cross_entropy" });
        let names = |fits: &[Fits]| LOSSES.iter().filter(|(_, f)| fits.contains(f)).map(|(n, _)| *n).collect::<Vec<_>>().join(", ");
        let own: &[Fits] = if numbers { &[Fits::Numbers, Fits::Flags] } else { &[Fits::Classes, Fits::Flags] };
        let Some((_, fits)) = LOSSES.iter().find(|(known, _)| *known == name) else {
            let hint = match adamant_nn::nearest(name, LOSSES.iter().map(|(n, _)| *n)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", names(own)),
            };
            return Err(root.wrong_key("loss", format!("there is no `{}`; {hint}", shown(name))));
        };
        if !own.contains(fits) {
            let targets = if numbers { "numbers" } else { "classes" };
            return Err(root.wrong_key("loss", format!("the targets are {targets}; their losses are {}", names(own))));
        }
        let label_smoothing = root.number("label_smoothing")?;
        if label_smoothing.is_some_and(|v| !(0.0..=1.0).contains(&v)) {
            return Err(root.wrong_key("label_smoothing", "it is from 0 to 1"));
        }
        if label_smoothing.is_some_and(|v| v != 0.0) && name != "cross_entropy" {
            return Err(root.wrong_key("label_smoothing", format!("only cross_entropy is smoothed, not {name}")));
        }
        let weights = class_weights(root)?;
        if weights != ClassWeights::Equal && !matches!(name, "cross_entropy" | "nll" | "focal" | "multi_margin") {
            return Err(root.wrong_key("class_weights", format!("{name} weighs no classes")));
        }
        let loss = options(root, name, label_smoothing.unwrap_or(0.0))?;
        Ok(Objective { loss, weights })
    }
    /// Is the answer one of several classes, for each of which the model gives a number?
    pub fn tells_classes(&self) -> bool {
        matches!(self.loss, Loss::CrossEntropy { .. } | Loss::Focal { .. } | Loss::Nll | Loss::MultiMargin)
    }
    /// Are the outputs logarithms of what is predicted?
    pub fn predicts_logarithms(&self) -> bool {
        matches!(self.loss, Loss::PoissonNll { log_input: true, .. })
    }
    /// Is the answer yes or no?
    pub fn binary(&self) -> bool {
        matches!(self.loss, Loss::BceWithLogits { .. } | Loss::Bce | Loss::SoftMargin)
    }
    /// Must it be told how often each class occurs?
    pub fn counts_classes(&self) -> bool {
        self.weights == ClassWeights::Balanced
    }
    /// The same with the weights that balance classes that occur so often: `rows / (classes * count)`, as scikit-learn's "balanced".
    /// A class that never occurs weighs 0.
    #[must_use]
    pub fn balanced(self, counts: &[u64]) -> Objective {
        let (rows, classes) = (counts.iter().sum::<u64>() as f64, counts.len() as f64);
        let weight = |n: &u64| if *n == 0 { 0.0 } else { rows / (classes * *n as f64) };
        Objective { weights: ClassWeights::Given(counts.iter().map(weight).collect()), ..self }
    }
    /// The number of classes that are weighed, if any are.
    pub fn weighs(&self) -> Option<usize> {
        if let ClassWeights::Given(w) = &self.weights { Some(w.len()) } else { None }
    }
    /// The mean loss, a 0-d tensor.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn loss(&self, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        self.reduced(outputs, targets, Reduction::Mean, true)
    }
    /// The loss of each target or the mean of all; `shaped`: by weights and smoothing, as it is learned.
    #[track_caller]
    fn reduced(&self, outputs: &Tensor, targets: &Tensor, reduction: Reduction, shaped: bool) -> Result<Tensor> {
        match self.loss {
            Loss::CrossEntropy { .. } | Loss::Focal { .. } | Loss::Nll | Loss::MultiMargin => self.of_classes(outputs, targets, reduction, shaped),
            Loss::BceWithLogits { pos_weight } => {
                let targets = flags(outputs, targets)?;
                let weight = pos_weight.filter(|_| shaped).map(|w| outputs.full_like(w));
                functional::binary_cross_entropy_with_logits(outputs, &targets, None, weight.as_ref(), reduction).ok()
            }
            Loss::Bce => functional::binary_cross_entropy(outputs, &flags(outputs, targets)?, None, reduction).ok(),
            Loss::SoftMargin => functional::soft_margin_loss(outputs, &(flags(outputs, targets)? * 2.0 - 1.0), reduction).ok(),
            Loss::GaussianNll { full } => {
                let (mean, log_variance) = halves(outputs, targets)?;
                let targets = alike("gaussian_nll_loss", &mean, targets)?;
                functional::gaussian_nll_loss(&mean, &targets, &log_variance.exp(), full, 1e-6, reduction).ok()
            }
            Loss::Mse | Loss::L1 | Loss::SmoothL1 { .. } | Loss::Huber { .. } | Loss::KlDiv { .. } | Loss::PoissonNll { .. } => {
                self.of_numbers(outputs, targets, reduction)
            }
        }
    }
    #[track_caller]
    fn of_classes(&self, outputs: &Tensor, targets: &Tensor, reduction: Reduction, shaped: bool) -> Result<Tensor> {
        let (outputs, targets) = flat(outputs, targets)?;
        let weight = match &self.weights {
            ClassWeights::Given(w) if shaped => Some(Tensor::from_vec(w.to_vec(), [w.len()]).cast(outputs.dtype()?).to(outputs.device()?)),
            _ => None,
        };
        let weight = weight.as_ref();
        match self.loss {
            Loss::CrossEntropy { label_smoothing } => {
                let label_smoothing = if shaped { label_smoothing } else { 0.0 };
                functional::cross_entropy(&outputs, &targets, &CrossEntropyOptions { label_smoothing, weight, reduction, ..Default::default() }).ok()
            }
            Loss::Focal { gamma } => {
                let each = functional::cross_entropy(&outputs, &targets, &CrossEntropyOptions { reduction: Reduction::None, ..Default::default() });
                let wrong = (each.neg().exp() * -1.0 + 1.0).maximum(0.0);
                let mut each = wrong.pow(gamma) * &each;
                if let Some(w) = weight {
                    each = each * w.gather(0, &targets.cast(DType::I64));
                }
                if reduction == Reduction::None { each.ok() } else { each.mean(..).ok() }
            }
            Loss::MultiMargin => functional::multi_margin_loss(&outputs, &targets, &MultiMarginOptions { weight, reduction, ..Default::default() }).ok(),
            _ => functional::nll_loss(&outputs, &targets, &NllOptions { weight, reduction, ..Default::default() }).ok(),
        }
    }
    #[track_caller]
    fn of_numbers(&self, outputs: &Tensor, targets: &Tensor, reduction: Reduction) -> Result<Tensor> {
        let t = alike(self.name(), outputs, targets)?;
        match self.loss {
            // As formula: the same bits as ever.
            Loss::Mse if reduction == Reduction::Mean => (outputs - t).square().mean(..).ok(),
            Loss::L1 => functional::l1_loss(outputs, &t, reduction).ok(),
            Loss::SmoothL1 { beta } => functional::smooth_l1_loss(outputs, &t, beta, reduction).ok(),
            Loss::Huber { delta } => functional::huber_loss(outputs, &t, delta, reduction).ok(),
            // The mean over the rows is what the divergence is by its definition.
            Loss::KlDiv { log_target } => {
                let reduction = if reduction == Reduction::Mean { Reduction::BatchMean } else { reduction };
                functional::kl_div(outputs, &t, log_target, reduction).ok()
            }
            Loss::PoissonNll { log_input, full } => {
                functional::poisson_nll_loss(outputs, &t, &PoissonNllOptions { log_input, full, reduction, ..Default::default() }).ok()
            }
            _ => (outputs - t).square().ok(),
        }
    }
    /// The name of the loss in errors.
    fn name(&self) -> &'static str {
        match self.loss {
            Loss::CrossEntropy { .. } => "cross_entropy",
            Loss::Focal { .. } => "focal_loss",
            Loss::Nll => "nll_loss",
            Loss::MultiMargin => "multi_margin_loss",
            Loss::BceWithLogits { .. } => "binary_cross_entropy_with_logits",
            Loss::Bce => "binary_cross_entropy",
            Loss::SoftMargin => "soft_margin_loss",
            Loss::Mse => "mse_loss",
            Loss::L1 => "l1_loss",
            Loss::SmoothL1 { .. } => "smooth_l1_loss",
            Loss::Huber { .. } => "huber_loss",
            Loss::KlDiv { .. } => "kl_div",
            Loss::PoissonNll { .. } => "poisson_nll_loss",
            Loss::GaussianNll { .. } => "gaussian_nll_loss",
        }
    }
    /// For each target: its loss (without smoothing and weights) and, for classes, the answer with its probability of the truth.
    ///
    /// # Errors
    /// Shapes that do not go together.
    #[track_caller]
    pub fn judge(&self, outputs: &Tensor, targets: &Tensor) -> Result<Judged> {
        let losses = self.reduced(outputs, targets, Reduction::None, false)?;
        match self.loss {
            Loss::CrossEntropy { .. } | Loss::Focal { .. } | Loss::Nll | Loss::MultiMargin => {
                let (outputs, targets) = flat(outputs, targets)?;
                let answers = outputs.argmax(-1).to_vec::<i64>()?;
                Ok(Judged { losses: losses.to_vec_as::<f64>()?, answers: Some(answers), targets: targets.cast(DType::I64).to_vec::<i64>()? })
            }
            Loss::BceWithLogits { .. } | Loss::Bce | Loss::SoftMargin => {
                let threshold = if self.loss == Loss::Bce { 0.5 } else { 0.0 };
                let answers = outputs.gt(threshold).cast(DType::I64).to_vec::<i64>()?;
                let targets = flags(outputs, targets)?.gt(0.5).cast(DType::I64).to_vec::<i64>()?;
                Ok(Judged { losses: losses.to_vec_as::<f64>()?, answers: Some(answers), targets })
            }
            _ => {
                let rows = losses.shape()?.first().copied().unwrap_or(1) as isize;
                let each = losses.reshape([rows, -1]);
                let each = if matches!(self.loss, Loss::KlDiv { .. }) { each.sum(-1) } else { each.mean(-1) };
                Ok(Judged { losses: each.to_vec_as::<f64>()?, answers: None, targets: Vec::new() })
            }
        }
    }
}
/// What came of some rows.
pub struct Judged {
    /// the loss of each target
    pub losses: Vec<f64>,
    /// the most likely class for each target; for yes or no, 1 or 0
    pub answers: Option<Vec<i64>>,
    /// the right class for each target; empty for numbers
    pub targets: Vec<i64>,
}
/// `class_weights`, a list or the word "balanced".
fn class_weights(root: &Section<'_>) -> std::result::Result<ClassWeights, Failure> {
    let given = match root.numbers("class_weights") {
        Ok(None) => return Ok(ClassWeights::Equal),
        Ok(Some(given)) => given,
        Err(no_list) => match root.text("class_weights") {
            Ok(Some("balanced")) => return Ok(ClassWeights::Balanced),
            Ok(Some(other)) => return Err(root.wrong_key("class_weights", format!("there is no `{other}`; say \"balanced\", or a list of weights"))),
            _ => return Err(no_list),
        },
    };
    if given.is_empty() || given.iter().any(|w| *w < 0.0) || given.iter().all(|w| *w == 0.0) {
        return Err(root.wrong_key("class_weights", "a weight for each class, from 0 on, and not all of them 0"));
    }
    Ok(ClassWeights::Given(given.into()))
}
/// `loss_options`: what the loss takes beside outputs and targets.
fn options(root: &Section<'_>, name: &str, label_smoothing: f64) -> std::result::Result<Loss, Failure> {
    let s = root.section("loss_options")?;
    let number =
        |key: &'static str, usual: f64| -> std::result::Result<f64, Failure> { Ok(s.as_ref().map(|s| s.number(key)).transpose()?.flatten().unwrap_or(usual)) };
    let flag =
        |key: &'static str, usual: bool| -> std::result::Result<bool, Failure> { Ok(s.as_ref().map(|s| s.flag(key)).transpose()?.flatten().unwrap_or(usual)) };
    let from = |key: &'static str, usual: f64, least: f64, above: bool| -> std::result::Result<f64, Failure> {
        let v = number(key, usual)?;
        if v.is_finite() && (v > least || (!above && v == least)) {
            return Ok(v);
        }
        let what = format!("{v} is no number {} {least}", if above { "above" } else { "from" });
        Err(s.as_ref().map_or_else(|| root.wrong_key("loss_options", &what), |s| s.wrong_key(key, &what)))
    };
    let loss = match name {
        "cross_entropy" => Loss::CrossEntropy { label_smoothing },
        "focal" => Loss::Focal { gamma: from("gamma", 2.0, 0.0, false)? },
        "nll" => Loss::Nll,
        "multi_margin" => Loss::MultiMargin,
        "bce_with_logits" => {
            let weight = from("pos_weight", 1.0, 0.0, true)?;
            Loss::BceWithLogits { pos_weight: (weight != 1.0).then_some(weight) }
        }
        "bce" => Loss::Bce,
        "soft_margin" => Loss::SoftMargin,
        "l1" => Loss::L1,
        "smooth_l1" => Loss::SmoothL1 { beta: from("beta", 1.0, 0.0, false)? },
        "huber" => Loss::Huber { delta: from("delta", 1.0, 0.0, true)? },
        "kl_div" => Loss::KlDiv { log_target: flag("log_target", false)? },
        "poisson_nll" => Loss::PoissonNll { log_input: flag("log_input", true)?, full: flag("full", false)? },
        "gaussian_nll" => Loss::GaussianNll { full: flag("full", false)? },
        _ => Loss::Mse,
    };
    s.map_or(Ok(()), |s| s.finish())?;
    Ok(loss)
}
#[track_caller]
fn mismatch<T>(op: &'static str, left: Shape, right: Shape, expected: &'static str) -> Result<T> {
    Err(Error::new(op, ErrorKind::ShapeMismatch { left, right, axes: None, expected }))
}
#[track_caller]
fn flat(outputs: &Tensor, targets: &Tensor) -> Result<(Tensor, Tensor)> {
    let (o, t) = (outputs.shape()?, targets.shape()?);
    if o.rank() != t.rank() + 1 || o[..t.rank()] != t[..] {
        return mismatch("cross_entropy", o, t, "outputs [.., classes] and targets [..]");
    }
    Ok((outputs.reshape([t.elements() as isize, o[t.rank()] as isize]), targets.reshape([-1])))
}
/// Targets of the outputs' shape.
#[track_caller]
fn alike(op: &'static str, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let (o, t) = (outputs.shape()?, targets.shape()?);
    // One number for each row is written [rows, 1] by a linear layer and [rows] by a table.
    let targets = if o.elements() == t.elements() && o.rank() == t.rank() + 1 && o[t.rank()] == 1 { targets.unsqueeze(-1) } else { targets.clone() };
    if o != targets.shape()? { mismatch(op, o, t, "outputs and targets of one shape") } else { Ok(targets) }
}
/// Zeros and ones of the outputs' shape and dtype.
#[track_caller]
fn flags(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    alike("binary_cross_entropy", outputs, &targets.cast(outputs.dtype()?))
}
/// Means and logarithms of variances.
#[track_caller]
fn halves(outputs: &Tensor, targets: &Tensor) -> Result<(Tensor, Tensor)> {
    let (o, t) = (outputs.shape()?, targets.shape()?);
    match o.last() {
        Some(width) if width % 2 == 0 && o.elements() == 2 * t.elements() => Ok((outputs.narrow(-1, 0, width / 2), outputs.narrow(-1, width / 2, width / 2))),
        _ => mismatch("gaussian_nll_loss", o, t, "outputs [.., 2 * values]: means, then logarithms of variances"),
    }
}
