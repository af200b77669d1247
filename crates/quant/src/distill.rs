//! Knowledge distillation: a student learns from what a teacher gives, beside or instead of the targets.
//!
//! A [`Distiller`] holds the teacher, which runs in evaluation mode and without a graph ([`Distiller::teacher_forward`]), and mixes the
//! two losses of logits ([`Distiller::distillation_loss`]). [`FeatureLoss`] and [`attention_loss`] compare what lies inside.
//!
//! | loss | compares | source |
//! |---|---|---|
//! | [`Distiller::distillation_loss`] | logits `[batch, classes, ..]` | Hinton, Vinyals and Dean 2015 |
//! | [`FeatureLoss`] | features of any shape, through a learned map where widths differ | FitNets, Romero et al. 2015 |
//! | [`attention_loss`] | where maps `[batch, channels, ..]` are large | Zagoruyko and Komodakis 2017 |
use crate::select::{check, evaluating};
use adamant_core::{
    Error, ErrorKind, Result, Tensor,
    functional::{self, CrossEntropyOptions, Reduction},
    grad::no_grad,
};
use adamant_nn::{Linear, Module};

/// A teacher, and how much a student listens to it.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Linear, Module, Walk};
/// # use adamant_quant::distill::Distiller;
/// # adamant_core::Device::reference().make_current();
/// let (teacher, student) = (Linear::new(4, 3)?, Linear::new(4, 3)?);
/// let distiller = Distiller::new(teacher, 2.0)?.alpha(0.7)?;
/// let (x, target) = (Tensor::ones([5, 4]), Tensor::from_slice(&[0i64, 1, 2, 0, 1], [5]));
/// let taught = distiller.teacher_forward(&x)?;
/// let loss = distiller.distillation_loss(&student.forward(&x)?, &taught, &target)?;
/// assert!(loss.backward()?.of(&student.weight.cell()).is_some());
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct Distiller<M> {
    teacher: M,
    temperature: f64,
    alpha: f64,
}
impl<M: Module> Distiller<M> {
    /// By a teacher whose and whose student's logits are divided by a temperature. Half of the loss is the teacher's.
    ///
    /// # Errors
    /// A temperature that is no number above 0.
    #[track_caller]
    pub fn new(teacher: M, temperature: f64) -> Result<Distiller<M>> {
        check("distillation", temperature.is_finite() && temperature > 0.0, || format!("the temperature is {temperature}, it must be a number above 0"))?;
        Ok(Distiller { teacher, temperature, alpha: 0.5 })
    }
    /// With another share of the teacher in the loss: 0 is the targets alone, 1 the teacher alone.
    ///
    /// # Errors
    /// A share that is not from 0 to 1.
    #[track_caller]
    pub fn alpha(self, alpha: f64) -> Result<Distiller<M>> {
        check("distillation", (0.0..=1.0).contains(&alpha), || format!("alpha is {alpha}, a share is from 0 to 1"))?;
        Ok(Distiller { alpha, ..self })
    }
    /// The teacher.
    pub fn teacher(&self) -> &M {
        &self.teacher
    }
    /// What the teacher gives: in evaluation mode, without a graph. Each layer's mode is afterwards what it was, and no running
    /// statistic has moved. In a captured step have the teacher evaluate before ([`Walk::eval`](adamant_nn::Walk::eval)): a mode that is changed and
    /// changed back in it makes every call a new capture.
    ///
    /// # Errors
    /// The teacher's own.
    #[track_caller]
    pub fn teacher_forward(&self, x: &Tensor) -> Result<Tensor> {
        evaluating(&self.teacher, || no_grad(|| self.teacher.forward(x)))?.detach().ok()
    }
    /// `alpha · T² · KL(teacher ‖ student) + (1 - alpha) · CE(student, target)`, the divergence between softmaxes of logits divided by
    /// the temperature T; T² keeps its gradients' size whatever T is. Both are means over all but the axis of classes.
    ///
    /// Logits `[batch, classes, ..]` of one shape; targets as [`functional::cross_entropy`] takes them: classes `[batch, ..]` or
    /// probabilities. The teacher's logits get no gradient. The result is a number.
    ///
    /// # Errors
    /// Logits of two shapes; targets that do not go with them.
    #[track_caller]
    pub fn distillation_loss(&self, student: &Tensor, teacher: &Tensor, target: &Tensor) -> Result<Tensor> {
        let soft = self.soft_loss(student, teacher)?;
        let hard = functional::cross_entropy(student, target, &CrossEntropyOptions::default());
        (soft * self.alpha + hard * (1.0 - self.alpha)).ok()
    }
    /// `T² · KL(teacher ‖ student)` alone: what a student can learn from without targets.
    ///
    /// # Errors
    /// Logits of two shapes, or with fewer than two axes.
    #[track_caller]
    pub fn soft_loss(&self, student: &Tensor, teacher: &Tensor) -> Result<Tensor> {
        let shape = same_shape("distillation_loss", student, teacher)?;
        if shape.rank() < 2 {
            return Err(Error::new("distillation_loss", ErrorKind::Shape { shape, expected: "[batch, classes, ..]".into() }));
        }
        let (own, taught) = (log_softmax(student, self.temperature), log_softmax(&teacher.detach(), self.temperature));
        let positions = (shape.elements() / shape[1].max(1)).max(1);
        (functional::kl_div(&own, &taught, true, Reduction::Sum) * (self.temperature * self.temperature / positions as f64)).ok()
    }
}
#[track_caller]
fn log_softmax(logits: &Tensor, temperature: f64) -> Tensor {
    (logits / temperature).log_softmax(1)
}
#[track_caller]
fn same_shape(op: &'static str, left: &Tensor, right: &Tensor) -> Result<adamant_core::Shape> {
    let (l, r) = (left.shape()?, right.shape()?);
    if l == r { Ok(l) } else { Err(Error::new(op, ErrorKind::ShapeMismatch { left: l, right: r, axes: None, expected: "student and teacher of one shape" })) }
}
/// The mean squared difference between a student's features and a teacher's, which get no gradient; the student's go through a
/// learned linear map along one axis where widths differ. The map is a part of the student while it learns: give its parameters to
/// the optimizer.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::Walk;
/// # use adamant_quant::distill::FeatureLoss;
/// # adamant_core::Device::reference().make_current();
/// let hint = FeatureLoss::projected(8, 32, 1)?;
/// let (student, teacher) = (Tensor::ones([2, 8, 5, 5]), Tensor::ones([2, 32, 5, 5]));
/// assert_eq!(hint.forward(&student, &teacher)?.backward()?.len(), hint.parameters().len());
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct FeatureLoss {
    projection: Option<Linear>,
    #[module(skip)]
    axis: isize,
}
impl FeatureLoss {
    /// Between features of one shape.
    pub fn new() -> FeatureLoss {
        FeatureLoss { projection: None, axis: -1 }
    }
    /// With a learned map of the student's width to the teacher's along an axis: 1 for maps `[batch, channels, ..]` (a convolution of
    /// 1 x 1), -1 for sequences `[batch, time, width]`.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn projected(student: usize, teacher: usize, axis: isize) -> Result<FeatureLoss> {
        Ok(FeatureLoss { projection: Some(Linear::no_bias(student, teacher)?), axis })
    }
    /// The loss, a number.
    ///
    /// # Errors
    /// Shapes that differ, also behind the map.
    #[track_caller]
    pub fn forward(&self, student: &Tensor, teacher: &Tensor) -> Result<Tensor> {
        let student = match &self.projection {
            None => student.clone(),
            Some(map) => map.forward(&student.movedim([self.axis], [-1]))?.movedim([-1], [self.axis]),
        };
        same_shape("feature_loss", &student, teacher)?;
        functional::mse_loss(&student, &teacher.detach(), Reduction::Mean).ok()
    }
}
impl Default for FeatureLoss {
    fn default() -> FeatureLoss {
        FeatureLoss::new()
    }
}
/// Where a map is large: the mean over channels of its squares, as a vector of length 1 for each sample. `[batch, channels, ..]` to
/// `[batch, places]`.
///
/// # Errors
/// Fewer than three axes.
///
/// Source: the function `at` of Zagoruyko and Komodakis' own code (szagoruyko/attention-transfer, `utils.py`).
#[track_caller]
pub fn attention_map(features: &Tensor) -> Result<Tensor> {
    let shape = features.shape()?;
    if shape.rank() < 3 {
        return Err(Error::new("attention_map", ErrorKind::Shape { shape, expected: "[batch, channels, ..]".into() }));
    }
    features.square().mean(1).reshape([shape[0] as isize, -1]).normalize(2.0, 1, 1e-12).ok()
}
/// The mean squared difference between where a student's map and a teacher's are large: their channels may differ in number. The
/// teacher's gets no gradient. The result is a number.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_quant::distill::attention_loss;
/// # adamant_core::Device::reference().make_current();
/// let (student, teacher) = (Tensor::ones([2, 4, 3, 3]), Tensor::ones([2, 16, 3, 3]) * 5.0);
/// assert!(attention_loss(&student, &teacher)?.item::<f32>()? < 1e-12);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Maps of other places, or with fewer than three axes.
#[track_caller]
pub fn attention_loss(student: &Tensor, teacher: &Tensor) -> Result<Tensor> {
    let (own, taught) = (attention_map(student)?, attention_map(&teacher.detach())?);
    same_shape("attention_loss", &own, &taught)?;
    functional::mse_loss(&own, &taught, Reduction::Mean).ok()
}
