//! Losses as modules: the functions of `functional` with their options kept, PyTorch's defaults, and a place in a model for
//! errors. `new` takes nothing, as PyTorch's constructors do; `with` takes what the function takes beside its tensors.
//! Weights are buffers: they move with the model and stand in its state dict, where they are given.
use crate::{Module, Param, Site, Walk};
use adamant_core::{
    Result, Tensor,
    functional::{self, PoissonNllOptions, Reduction},
};

mod classes;
mod pairs;
pub use classes::{
    CrossEntropyLoss, CtcLoss, LinearCrossEntropyLoss, LinearCrossEntropyOptions, MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, NllLoss,
};
pub use pairs::{CosineEmbeddingLoss, MarginRankingLoss, TripletMarginLoss, TripletMarginWithDistanceLoss};

/// A loss of predictions and targets, so that a training loop can be given any: `Box<dyn Criterion>`. Losses of more tensors
/// have a `forward` of their own.
///
/// Where PyTorch warns of sizes that differ, the rule is: one side may be repeated to the other's shape, `[3]` along `[2, 3]`, and
/// nothing is said; that each is repeated along the other, `[n, 1]` beside `[n]`, is an error.
///
/// ```
/// # use adamant_core::{Result, Tensor, functional::Reduction};
/// # use adamant_nn::{Criterion, HuberLoss, MseLoss};
/// # adamant_core::Device::reference().make_current();
/// let (prediction, target) = (Tensor::from_slice(&[1.0f32, 5.0], [2]), Tensor::zeros([2]));
/// let losses: [Box<dyn Criterion>; 2] = [Box::new(MseLoss::new()), Box::new(HuberLoss::with(2.0, Reduction::Sum))];
/// let values: Vec<f32> = losses.iter().map(|l| l.forward(&prediction, &target)?.item()).collect::<Result<_>>()?;
/// assert_eq!(values, [13.0, 8.5]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub trait Criterion: Walk + crate::duplicate::DuplicateCriterion {
    /// The loss of a prediction beside its target.
    ///
    /// # Errors
    /// Shapes, dtypes or options that the loss refuses: the error names the function, the loss's path and the caller's line. A
    /// class index out of range is told when the loss is read.
    #[track_caller]
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor>;
}
impl<T: Criterion + crate::Boxed + ?Sized> Criterion for Box<T> {
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        (**self).forward(input, target)
    }
}

/// A weight that moves with the model and is saved, but not trained.
#[track_caller]
fn buffer(weight: Option<&Tensor>) -> Result<Option<Param>> {
    weight.map(Param::buffer).transpose()
}
fn value(weight: &Option<Param>) -> Option<Tensor> {
    weight.as_ref().map(Param::detached)
}

/// Losses whose options hold no tensors: their type, `new`, `with` and `forward` of two tensors or more.
macro_rules! losses {
    ($($(#[$doc:meta])* $name:ident $kind:literal ($($field:ident: $ty:ty = $default:expr),*) |$self:ident, $($x:ident),+| $body:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Module)]
        pub struct $name {
            site: Site,
            $(#[module(skip)] $field: $ty,)*
        }
        impl $name {
            /// PyTorch's defaults.
            pub fn new() -> $name {
                $name::with($($default),*)
            }
            #[doc = concat!("With ", losses!(@list $($field)*), ".")]
            pub fn with($($field: $ty),*) -> $name {
                $name { site: Site::with_hooks($kind), $($field),* }
            }
        }
        impl Default for $name {
            fn default() -> $name {
                $name::new()
            }
        }
        losses!(@forward $name $self ($($x),+) $body);
    )* };
    (@list $only:ident) => { stringify!($only) };
    (@list $first:ident $last:ident) => { concat!(stringify!($first), " and ", stringify!($last)) };
    (@list $first:ident $($rest:ident)+) => { concat!(stringify!($first), ", ", losses!(@list $($rest)+)) };
    (@forward $name:ident $self:ident ($x:ident, $target:ident) $body:expr) => {
        impl Criterion for $name {
            fn forward(&$self, $x: &Tensor, $target: &Tensor) -> Result<Tensor> {
                crate::site::run!($self.site, $x, $target => $body)
            }
        }
    };
    (@forward $name:ident $self:ident ($($x:ident),+) $body:expr) => {
        impl $name {
            /// The loss.
            ///
            /// # Errors
            /// Shapes, dtypes or options that do not go together, as the type's text says.
            #[track_caller]
            pub fn forward(&$self, $($x: &Tensor),+) -> Result<Tensor> {
                crate::site::run!($self.site, $($x),+ => $body)
            }
        }
    };
}
use losses;

losses! {
    /// The absolute error: `|x - t|`.
    ///
    /// Input and target `[..]` of one float dtype and shape, or one of them repeats to the other's; each repeating along the other
    /// (`[n, 1]` beside `[n]`) is an error. The result is a number, or `[..]` without a reduction. Default: the mean.
    ///
    /// # Errors
    /// Other shapes; other dtypes.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Criterion, L1Loss};
    /// # adamant_core::Device::reference().make_current();
    /// let loss = L1Loss::new().forward(&Tensor::from_slice(&[1.0f32, -3.0], [2]), &Tensor::zeros([2]))?;
    /// assert_eq!(loss.item::<f32>()?, 2.0);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    L1Loss "L1Loss" (reduction: Reduction = Reduction::Mean) |self, x, target| functional::l1_loss(x, target, self.reduction);

    /// The squared error: `(x - t)²`.
    ///
    /// Input and target `[..]` of one float dtype and shape, or one of them repeats to the other's; each repeating along the other
    /// (`[n, 1]` beside `[n]`) is an error. The result is a number, or `[..]` without a reduction. Default: the mean.
    ///
    /// # Errors
    /// Other shapes; other dtypes.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Criterion, MseLoss};
    /// # adamant_core::Device::reference().make_current();
    /// let prediction = Tensor::from_slice(&[1.0f32, -3.0], [2]);
    /// assert_eq!(MseLoss::new().forward(&prediction, &Tensor::zeros([2]))?.item::<f32>()?, 5.0);
    /// // Four pairs of two predictions and two targets are not meant.
    /// let column = prediction.reshape([2, 1]);
    /// assert_eq!(MseLoss::new().forward(&column, &Tensor::zeros([2])).unwrap_err().op(), "mse_loss");
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[doc(alias = "MSELoss")]
    MseLoss "MSELoss" (reduction: Reduction = Reduction::Mean) |self, x, target| functional::mse_loss(x, target, self.reduction);

    /// `d² / (2 beta)` where `d = |x - t|` is below beta, else `d - beta / 2` (Girshick, "Fast R-CNN", 2015). A beta of 0 is
    /// [`L1Loss`].
    ///
    /// Input and target `[..]` of one float dtype and shape, or one of them repeats to the other's. The result is a number, or `[..]`
    /// without a reduction. Defaults: beta 1, the mean.
    ///
    /// # Errors
    /// Other shapes; other dtypes; a beta below 0.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Criterion, SmoothL1Loss};
    /// # adamant_core::Device::reference().make_current();
    /// let loss = SmoothL1Loss::new().forward(&Tensor::from_slice(&[0.5f32, -3.0], [2]), &Tensor::zeros([2]))?;
    /// assert_eq!(loss.item::<f32>()?, (0.125 + 2.5) / 2.0);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    SmoothL1Loss "SmoothL1Loss" (beta: f64 = 1.0, reduction: Reduction = Reduction::Mean)
        |self, x, target| functional::smooth_l1_loss(x, target, self.beta, self.reduction);

    /// `d² / 2` where `d = |x - t|` is at most delta, else `delta (d - delta / 2)` (Huber, 1964).
    ///
    /// Input and target `[..]` of one float dtype and shape, or one of them repeats to the other's. The result is a number, or `[..]`
    /// without a reduction. Defaults: delta 1, the mean.
    ///
    /// # Errors
    /// Other shapes; other dtypes; a delta that is not above 0.
    ///
    /// ```
    /// # use adamant_core::{Tensor, functional::Reduction};
    /// # use adamant_nn::{Criterion, HuberLoss};
    /// # adamant_core::Device::reference().make_current();
    /// let loss = HuberLoss::with(2.0, Reduction::Sum).forward(&Tensor::from_slice(&[1.0f32, -3.0], [2]), &Tensor::zeros([2]))?;
    /// assert_eq!(loss.item::<f32>()?, 0.5 + 4.0);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    HuberLoss "HuberLoss" (delta: f64 = 1.0, reduction: Reduction = Reduction::Mean)
        |self, x, target| functional::huber_loss(x, target, self.delta, self.reduction);

    /// The Kullback-Leibler divergence of the targets from the predictions: `t (log t - x)`, x being log-probabilities; with
    /// `log_target` the targets are too: `exp(t) (t - x)`.
    ///
    /// Input and target `[..]` of one float dtype and shape, or one of them repeats to the other's. The result is a number, or `[..]`
    /// without a reduction. Defaults: targets are probabilities, the mean over all elements, as in PyTorch; what the divergence is
    /// by its definition is `Reduction::BatchMean`.
    ///
    /// # Errors
    /// Other shapes; other dtypes.
    ///
    /// ```
    /// # use adamant_core::{Tensor, functional::Reduction};
    /// # use adamant_nn::{Criterion, KlDivLoss};
    /// # adamant_core::Device::reference().make_current();
    /// let (even, sure) = (Tensor::from_slice(&[0.5f32, 0.5], [1, 2]), Tensor::from_slice(&[1.0f32, 0.0], [1, 2]));
    /// let loss = KlDivLoss::with(false, Reduction::BatchMean).forward(&even.log(), &sure)?;
    /// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[doc(alias = "KLDivLoss")]
    KlDivLoss "KLDivLoss" (log_target: bool = false, reduction: Reduction = Reduction::Mean)
        |self, x, target| functional::kl_div(x, target, self.log_target, self.reduction);

    /// The negative log-likelihood of counts under a Poisson distribution: `exp(x) - t x`, x being the logarithm of the rate, or
    /// `x - t log(x + eps)` without `log_input`; `full` adds Stirling's `t log t - t + log(2π t) / 2` where t is above 1.
    ///
    /// Input and target `[..]` of one float dtype and shape, or one of them repeats to the other's. The result is a number, or `[..]`
    /// without a reduction. Defaults: logarithms of rates, not full, eps 1e-8, the mean.
    ///
    /// # Errors
    /// Other shapes; other dtypes.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Criterion, PoissonNllLoss};
    /// # adamant_core::Device::reference().make_current();
    /// let loss = PoissonNllLoss::new().forward(&Tensor::zeros([2]), &Tensor::from_slice(&[0.0f32, 3.0], [2]))?;
    /// assert_eq!(loss.item::<f32>()?, 1.0);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[doc(alias = "PoissonNLLLoss")]
    PoissonNllLoss "PoissonNLLLoss" (options: PoissonNllOptions = PoissonNllOptions::default()) |self, x, target| functional::poisson_nll_loss(x, target, &self.options);

    /// The negative log-likelihood under a normal distribution of predicted mean and variance (Nix and Weigend, 1994):
    /// `(log var + (x - t)² / var) / 2`, var no smaller than eps; `full` adds `log(2π) / 2`.
    ///
    /// Input and target `[..]` of one float dtype and shape, or one of them repeats to the other's; var has the shape of the input, or
    /// 1 or nothing in the place of its last axis. The result is a number, or `[..]` without a reduction. Defaults: not full, eps 1e-6,
    /// the mean.
    ///
    /// # Errors
    /// Other shapes; other dtypes. A negative variance counts as eps, where PyTorch refuses it.
    ///
    /// ```
    /// # use adamant_core::{DType, Tensor};
    /// # use adamant_nn::GaussianNllLoss;
    /// # adamant_core::Device::reference().make_current();
    /// let (mean, target, var) = (Tensor::zeros([2, 1]), Tensor::full([2, 1], 2.0, DType::F32), Tensor::ones([2, 1]));
    /// assert_eq!(GaussianNllLoss::new().forward(&mean, &target, &var)?.item::<f32>()?, 2.0);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[doc(alias = "GaussianNLLLoss")]
    GaussianNllLoss "GaussianNLLLoss" (full: bool = false, eps: f64 = 1e-6, reduction: Reduction = Reduction::Mean)
        |self, x, target, var| functional::gaussian_nll_loss(x, target, var, self.full, self.eps, self.reduction);

    /// `log(1 + exp(-t x))`, targets being 1 or -1.
    ///
    /// Input and target `[..]` of one float dtype and shape, or one of them repeats to the other's. The result is a number, or `[..]`
    /// without a reduction. Default: the mean.
    ///
    /// # Errors
    /// Other shapes; other dtypes.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Criterion, SoftMarginLoss};
    /// # adamant_core::Device::reference().make_current();
    /// let loss = SoftMarginLoss::new().forward(&Tensor::zeros([3]), &Tensor::from_slice(&[1.0f32, -1.0, 1.0], [3]))?;
    /// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    SoftMarginLoss "SoftMarginLoss" (reduction: Reduction = Reduction::Mean) |self, x, target| functional::soft_margin_loss(x, target, self.reduction);

    /// x where the target is 1, `max(0, margin - x)` where it is -1: x is a distance of pairs that are alike or not.
    ///
    /// Input `[..]` of floats, target of the same shape and any dtype, or one of them repeats to the other's. The result is a number,
    /// or `[..]` without a reduction. Defaults: margin 1, the mean. A target that is neither counts both, as in PyTorch.
    ///
    /// # Errors
    /// Other shapes; an input that is no float.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Criterion, HingeEmbeddingLoss};
    /// # adamant_core::Device::reference().make_current();
    /// let (distances, alike) = (Tensor::from_slice(&[0.5f32, 0.25], [2]), Tensor::from_slice(&[1i64, -1], [2]));
    /// assert_eq!(HingeEmbeddingLoss::new().forward(&distances, &alike)?.item::<f32>()?, (0.5 + 0.75) / 2.0);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    HingeEmbeddingLoss "HingeEmbeddingLoss" (margin: f64 = 1.0, reduction: Reduction = Reduction::Mean)
        |self, x, target| functional::hinge_embedding_loss(x, target, self.margin, self.reduction);
}

/// Cross entropy of probabilities: `-w (t log x + (1 - t) log(1 - x))`, the logarithms no lower than -100, as PyTorch's.
///
/// Input and target `[..]` of one float dtype and shape; `weight` broadcasts to them. The result is a number, or `[..]` without a
/// reduction. Defaults: no weight, the mean. Numbers that no sigmoid has been through belong to [`BceWithLogitsLoss`]; an input
/// outside `0..=1` gives NaN, where PyTorch refuses it.
///
/// # Errors
/// Other shapes; other dtypes.
///
/// ```
/// # use adamant_core::{DType, Tensor};
/// # use adamant_nn::{BceLoss, Criterion};
/// # adamant_core::Device::reference().make_current();
/// let loss = BceLoss::new().forward(&Tensor::full([2], 0.5, DType::F32), &Tensor::from_slice(&[1.0f32, 0.0], [2]))?;
/// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[doc(alias = "BCELoss")]
#[derive(Clone, Module)]
pub struct BceLoss {
    site: Site,
    /// a weight of each element, or one that broadcasts to them
    pub weight: Option<Param>,
    #[module(skip)]
    reduction: Reduction,
}
impl BceLoss {
    /// PyTorch's defaults.
    pub fn new() -> BceLoss {
        BceLoss { site: Site::with_hooks("BCELoss"), weight: None, reduction: Reduction::Mean }
    }
    /// With weight and reduction.
    ///
    /// # Errors
    /// The error the weight carries.
    #[track_caller]
    pub fn with(weight: Option<&Tensor>, reduction: Reduction) -> Result<BceLoss> {
        Ok(BceLoss { weight: buffer(weight)?, reduction, ..BceLoss::new() })
    }
}
impl Default for BceLoss {
    fn default() -> BceLoss {
        BceLoss::new()
    }
}
impl Criterion for BceLoss {
    fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x, target])?;
        let (x, target) = (call.input(0, x), call.input(1, target));
        let y = functional::binary_cross_entropy(x, target, value(&self.weight).as_ref(), self.reduction).ok()?;
        call.end(y)
    }
}

/// Cross entropy of the sigmoid σ of logits, without forming it: `-w (p t log σ(x) + (1 - t) log(1 - σ(x)))`.
///
/// Input and target `[..]` of one float dtype and shape; `weight` w and `pos_weight` p broadcast to them. The result is a number,
/// or `[..]` without a reduction. Defaults: no weights, the mean.
///
/// # Errors
/// Other shapes; other dtypes.
///
/// ```
/// # use adamant_core::{Tensor, functional::Reduction};
/// # use adamant_nn::{BceWithLogitsLoss, Criterion};
/// # adamant_core::Device::reference().make_current();
/// let loss = BceWithLogitsLoss::with(None, Some(&Tensor::from_slice(&[3.0f32], [1])), Reduction::Sum)?;
/// let loss = loss.forward(&Tensor::zeros([2]), &Tensor::from_slice(&[1.0f32, 0.0], [2]))?;
/// assert!((loss.item::<f32>()? - 4.0 * 2f32.ln()).abs() < 1e-6);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[doc(alias = "BCEWithLogitsLoss")]
#[derive(Clone, Module)]
pub struct BceWithLogitsLoss {
    site: Site,
    /// a weight of each element, or one that broadcasts to them
    pub weight: Option<Param>,
    /// a weight of the positive answers
    pub pos_weight: Option<Param>,
    #[module(skip)]
    reduction: Reduction,
}
impl BceWithLogitsLoss {
    /// PyTorch's defaults.
    pub fn new() -> BceWithLogitsLoss {
        BceWithLogitsLoss { site: Site::with_hooks("BCEWithLogitsLoss"), weight: None, pos_weight: None, reduction: Reduction::Mean }
    }
    /// With weights and reduction.
    ///
    /// # Errors
    /// The error a weight carries.
    #[track_caller]
    pub fn with(weight: Option<&Tensor>, pos_weight: Option<&Tensor>, reduction: Reduction) -> Result<BceWithLogitsLoss> {
        Ok(BceWithLogitsLoss { weight: buffer(weight)?, pos_weight: buffer(pos_weight)?, reduction, ..BceWithLogitsLoss::new() })
    }
}
impl Default for BceWithLogitsLoss {
    fn default() -> BceWithLogitsLoss {
        BceWithLogitsLoss::new()
    }
}
impl Criterion for BceWithLogitsLoss {
    fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x, target])?;
        let (x, target) = (call.input(0, x), call.input(1, target));
        let (weight, pos_weight) = (value(&self.weight), value(&self.pos_weight));
        let y = functional::binary_cross_entropy_with_logits(x, target, weight.as_ref(), pos_weight.as_ref(), self.reduction).ok()?;
        call.end(y)
    }
}
