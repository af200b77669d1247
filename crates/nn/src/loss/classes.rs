//! Losses whose targets are classes: indices, sets of indices, or sequences of them. An index out of range is an error that
//! names it, when the loss is read.
use super::{Criterion, buffer, losses, value};
use crate::{Linear, Module, Param, Site};
use adamant_core::{
    Error, ErrorKind, Result, Tensor,
    functional::{self, CrossEntropyOptions, CtcOptions, MultiMarginOptions, NllOptions, Reduction},
};

/// A loss with a weight of each class: its type, `new`, `with` the function's own options, and `forward`.
macro_rules! weighted {
    ($($(#[$doc:meta])* $name:ident $kind:literal $function:ident $options:ident { $($option:ident),+ })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Module)]
        pub struct $name {
            site: Site,
            /// a weight of each class
            pub weight: Option<Param>,
            #[module(skip)]
            options: $options<'static>,
        }
        impl $name {
            /// PyTorch's defaults.
            pub fn new() -> $name {
                $name { site: Site::with_hooks($kind), weight: None, options: $options::default() }
            }
            /// With options; the weight is copied.
            ///
            /// # Errors
            /// The error the weight carries.
            #[track_caller]
            pub fn with(options: $options<'_>) -> Result<$name> {
                let kept = $options { weight: None, $($option: options.$option),+ };
                Ok($name { weight: buffer(options.weight)?, options: kept, ..$name::new() })
            }
        }
        impl Default for $name {
            fn default() -> $name {
                $name::new()
            }
        }
        impl Criterion for $name {
            fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
                let call = self.site.begin(&[input, target])?;
                let (input, target) = (call.input(0, input), call.input(1, target));
                let weight = value(&self.weight);
                let y = functional::$function(input, target, &$options { weight: weight.as_ref(), ..self.options }).ok()?;
                call.end(y)
            }
        }
    )* };
}
weighted! {
    /// Cross entropy of logits with the true class, or with a probability of each class: `-w[t] log softmax(x)[t]`. The mean divides by
    /// the weights of the targets. `label_smoothing` spreads a share of the target evenly over the classes (Szegedy et al., 2016).
    ///
    /// Input `[classes]` or `[batch, classes, ..]` of floats. Target: class indices, integers of that shape without the axis of classes,
    /// or probabilities, floats of the input's shape. The result is a number, or one for each target without a reduction. Defaults: no
    /// weight, ignore_index -100, no smoothing, the mean.
    ///
    /// # Errors
    /// Other shapes; a weight of another dtype than the input, or not one for each class; smoothing outside `0..=1`; an index out of
    /// range, when the loss is read.
    ///
    /// ```
    /// # use adamant_core::{Tensor, functional::CrossEntropyOptions};
    /// # use adamant_nn::{Criterion, CrossEntropyLoss, Walk};
    /// # adamant_core::Device::reference().make_current();
    /// let (logits, classes) = (Tensor::zeros([2, 4]), Tensor::from_slice(&[3i64, -100], [2]));
    /// assert!((CrossEntropyLoss::new().forward(&logits, &classes)?.item::<f32>()? - 4f32.ln()).abs() < 1e-6);
    ///
    /// let weight = Tensor::from_slice(&[1.0f32, 1.0, 1.0, 2.0], [4]);
    /// let loss = CrossEntropyLoss::with(CrossEntropyOptions { weight: Some(&weight), label_smoothing: 0.1, ..Default::default() })?;
    /// assert_eq!(loss.state_dict()[0].0, "weight");
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    CrossEntropyLoss "CrossEntropyLoss" cross_entropy CrossEntropyOptions { ignore_index, reduction, label_smoothing }

    /// The negative log-likelihood of the true class: `-w[t] x[t]`, x being log-probabilities. The mean divides by the weights of the
    /// targets.
    ///
    /// Input `[classes]` or `[batch, classes, ..]` of floats, class indices of that shape without the axis of classes. The result is a
    /// number, or one for each target without a reduction. Defaults: no weight, ignore_index -100, the mean.
    ///
    /// # Errors
    /// Other shapes; a target that is no integer; a weight of another dtype than the input, or not one for each class; an index out of
    /// range, when the loss is read.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Criterion, NllLoss};
    /// # adamant_core::Device::reference().make_current();
    /// let log_probabilities = Tensor::from_slice(&[-1.0f32, -2.0, -3.0, -4.0], [2, 2]);
    /// assert_eq!(NllLoss::new().forward(&log_probabilities, &Tensor::from_slice(&[0i64, 1], [2]))?.item::<f32>()?, 2.5);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[doc(alias = "NLLLoss")]
    NllLoss "NLLLoss" nll_loss NllOptions { ignore_index, reduction }

    /// The mean over all classes of `w[t] max(0, margin - x[t] + x[i])^p`, i not the target t.
    ///
    /// Input `[classes]` or `[batch, classes]` of floats, class indices `[]` or `[batch]`. The result is a number, or one for each target
    /// without a reduction. Defaults: p 1, margin 1, no weight, the mean.
    ///
    /// # Errors
    /// Other shapes; a target that is no integer; a p that is not 1 or 2; a weight of another dtype than the input, or not one for each
    /// class; an index out of range, when the loss is read.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Criterion, MultiMarginLoss};
    /// # adamant_core::Device::reference().make_current();
    /// let (x, class) = (Tensor::from_slice(&[0.5f32, 1.0], [1, 2]), Tensor::from_slice(&[0i64], [1]));
    /// assert_eq!(MultiMarginLoss::new().forward(&x, &class)?.item::<f32>()?, 0.75);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    MultiMarginLoss "MultiMarginLoss" multi_margin_loss MultiMarginOptions { p, margin, reduction }
}
losses! {
    /// For samples of several classes at once: the mean over all classes of `max(0, 1 - x[t] + x[i])`, summed over the targets t, i
    /// being no target.
    ///
    /// Input `[classes]` or `[batch, classes]` of floats; the target has the input's shape, its first numbers are the classes of the
    /// sample, and -1 ends them. The result is a number, or `[batch]` without a reduction. Default: the mean.
    ///
    /// # Errors
    /// Other shapes; a target that is no integer; an index out of range, when the loss is read.
    ///
    /// ```
    /// # use adamant_core::Tensor;
    /// # use adamant_nn::{Criterion, MultiLabelMarginLoss};
    /// # adamant_core::Device::reference().make_current();
    /// let (x, classes) = (Tensor::from_slice(&[0.1f32, 0.2, 0.4, 0.8], [1, 4]), Tensor::from_slice(&[3i64, 0, -1, 1], [1, 4]));
    /// assert!((MultiLabelMarginLoss::new().forward(&x, &classes)?.item::<f32>()? - 0.85).abs() < 1e-6);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    MultiLabelMarginLoss "MultiLabelMarginLoss" (reduction: Reduction = Reduction::Mean)
        |self, x, target| functional::multilabel_margin_loss(x, target, self.reduction);

    /// Connectionist temporal classification (Graves et al., 2006): the negative logarithm of the probability of all alignments of
    /// a target with the input.
    ///
    /// Log-probabilities `[time, batch, classes]` or `[time, classes]` of floats; integers: targets `[batch, longest]` or all after one
    /// another `[sum]`, and the lengths of inputs and targets, `[batch]` each. The result is a number, or one for each sample without a
    /// reduction; the mean divides each by its target's length first. An alignment that cannot be has the loss inf, or 0 with
    /// `zero_infinity`. Defaults: blank 0, the mean, inf. The gradient supposes that `log_softmax` gave the log-probabilities, as
    /// PyTorch's does.
    ///
    /// # Errors
    /// Other shapes; targets or lengths that are no integers; a blank that is no class; a label out of range, when the loss is read.
    ///
    /// ```
    /// # use adamant_core::{DType, Tensor};
    /// # use adamant_nn::CtcLoss;
    /// # adamant_core::Device::reference().make_current();
    /// // Two steps, two classes, all even: "1" is said by 1 1, 1 blank and blank 1.
    /// let (log_probabilities, integer) = (Tensor::full([2, 1, 2], 0.5, DType::F32).log(), |n: i64| Tensor::from_slice(&[n], [1]));
    /// let loss = CtcLoss::new().forward(&log_probabilities, &integer(1).reshape([1, 1]), &integer(2), &integer(1))?;
    /// assert!((loss.item::<f32>()? + 0.75f32.ln()).abs() < 1e-6);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[doc(alias = "CTCLoss")]
    CtcLoss "CTCLoss" (options: CtcOptions = CtcOptions::default())
        |self, log_probs, targets, input_lengths, target_lengths| functional::ctc_loss(log_probs, targets, input_lengths, target_lengths, &self.options);
}

/// Cross entropy of the sigmoid σ of each class, averaged over the classes: `-w (t log σ(x) + (1 - t) log(1 - σ(x)))`.
///
/// Input and target `[.., classes]` of one float dtype and shape, targets from 0 to 1; a weight of each class. The result is a
/// number, or `[..]` without a reduction. Defaults: no weight, the mean.
///
/// # Errors
/// Other shapes; other dtypes.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Criterion, MultiLabelSoftMarginLoss};
/// # adamant_core::Device::reference().make_current();
/// let loss = MultiLabelSoftMarginLoss::new().forward(&Tensor::zeros([2, 3]), &Tensor::ones([2, 3]))?;
/// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct MultiLabelSoftMarginLoss {
    site: Site,
    /// a weight of each class
    pub weight: Option<Param>,
    #[module(skip)]
    reduction: Reduction,
}
impl MultiLabelSoftMarginLoss {
    /// PyTorch's defaults.
    pub fn new() -> MultiLabelSoftMarginLoss {
        MultiLabelSoftMarginLoss { site: Site::with_hooks("MultiLabelSoftMarginLoss"), weight: None, reduction: Reduction::Mean }
    }
    /// With weight and reduction.
    ///
    /// # Errors
    /// The error the weight carries.
    #[track_caller]
    pub fn with(weight: Option<&Tensor>, reduction: Reduction) -> Result<MultiLabelSoftMarginLoss> {
        Ok(MultiLabelSoftMarginLoss { weight: buffer(weight)?, reduction, ..MultiLabelSoftMarginLoss::new() })
    }
}
impl Default for MultiLabelSoftMarginLoss {
    fn default() -> MultiLabelSoftMarginLoss {
        MultiLabelSoftMarginLoss::new()
    }
}
impl Criterion for MultiLabelSoftMarginLoss {
    fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x, target])?;
        let (x, target) = (call.input(0, x), call.input(1, target));
        let y = functional::multilabel_soft_margin_loss(x, target, value(&self.weight).as_ref(), self.reduction).ok()?;
        call.end(y)
    }
}

/// Options of [`LinearCrossEntropyLoss`]. (PyTorch's type of this name says how its computation is cut in chunks.)
#[derive(Clone, Default)]
pub struct LinearCrossEntropyOptions<'a> {
    /// the axes `d1, d2, ..` of the targets behind the batch
    pub out_features: Vec<usize>,
    /// has the layer a bias?
    pub bias: bool,
    /// the options of the cross entropy
    pub loss: CrossEntropyOptions<'a>,
}
/// A [`Linear`] layer to logits and their [`CrossEntropyLoss`].
///
/// Input `[in_features]` or `[batch, in_features]` of floats. Target: class indices `[]` or `[batch, ..out_features]`, or
/// probabilities `[classes]` or `[batch, classes, ..out_features]`. The result is a number, or one for each target without a
/// reduction. Defaults: no out_features, no bias, those of the cross entropy. In a state dict the layer is `linear`.
///
/// # Errors
/// As [`Linear`] and [`CrossEntropyLoss`].
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::{Criterion, LinearCrossEntropyLoss, LinearCrossEntropyOptions};
/// # adamant_core::Device::reference().make_current();
/// let loss = LinearCrossEntropyLoss::with(5, 10, LinearCrossEntropyOptions { out_features: vec![4, 3], ..Default::default() })?;
/// let classes = Tensor::from_vec(vec![7i64; 24], [2, 4, 3]);
/// assert!((loss.forward(&Tensor::zeros([2, 5]), &classes)?.item::<f32>()? - 10f32.ln()).abs() < 1e-5);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Module)]
pub struct LinearCrossEntropyLoss {
    site: Site,
    #[module(flatten)]
    loss: CrossEntropyLoss,
    /// to `classes · d1 · d2 · ..` logits
    pub linear: Linear,
    num_classes: usize,
    out_features: Vec<usize>,
}
impl LinearCrossEntropyLoss {
    /// PyTorch's defaults.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(in_features: usize, num_classes: usize) -> Result<LinearCrossEntropyLoss> {
        LinearCrossEntropyLoss::with(in_features, num_classes, LinearCrossEntropyOptions::default())
    }
    /// With options.
    ///
    /// # Errors
    /// There is no device; the error the weight carries.
    #[track_caller]
    pub fn with(in_features: usize, num_classes: usize, options: LinearCrossEntropyOptions<'_>) -> Result<LinearCrossEntropyLoss> {
        let logits = num_classes * options.out_features.iter().product::<usize>();
        let linear = if options.bias { Linear::new(in_features, logits)? } else { Linear::no_bias(in_features, logits)? };
        let loss = CrossEntropyLoss::with(options.loss)?;
        Ok(LinearCrossEntropyLoss { site: Site::with_hooks("LinearCrossEntropyLoss"), loss, linear, num_classes, out_features: options.out_features })
    }
    /// The weight of each class, if there is one.
    pub fn weight(&self) -> Option<&Param> {
        self.loss.weight.as_ref()
    }
}
impl Criterion for LinearCrossEntropyLoss {
    fn forward(&self, x: &Tensor, target: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x, target])?;
        let (x, target) = (call.input(0, x), call.input(1, target));
        let shape = x.shape()?;
        if !(1..=2).contains(&shape.rank()) {
            return Err(Error::new("linear_cross_entropy", ErrorKind::Shape { shape, expected: "[in_features] or [batch, in_features]".into() }));
        }
        let dims: Vec<usize> = shape[..shape.rank() - 1].iter().copied().chain([self.num_classes]).chain(self.out_features.iter().copied()).collect();
        let y = self.loss.forward(&self.linear.forward(x)?.reshape(dims), target)?;
        call.end(y)
    }
}
