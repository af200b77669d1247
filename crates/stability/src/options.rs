//! What counts as bad, and what is done about it.
use crate::TraceOptions;
use adamant_core::{Error, ErrorKind, Result};
use std::fmt;

/// What a [`NanHandler`](crate::NanHandler) does about a step with bad numbers. All but [`Detect`](HandlingType::Detect) keep numbers that are not finite out
/// of weights, slots and buffers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HandlingType {
    /// Bad steps are counted, and go on.
    Detect,
    /// In gradients NaN becomes `nan_replacement`, an infinity ± `inf_replacement`, what is beyond ± `overflow_threshold` ±
    /// `overflow_replacement`.
    Replace,
    /// The step changes nothing.
    Skip,
    /// The step changes nothing and none after it does, until somebody has put an earlier state back: the
    /// [`NumericalStabilityManager`](crate::NumericalStabilityManager) does.
    Restore,
    /// All gradients of the step are 0.
    GradientZeroing,
    /// By the severity of the step, NaN 1.0 + infinity 0.7 + overflow 0.3: from 1.5 gradients are 0, from 0.8 replaced, else replaced and halved.
    Adaptive,
    /// Bad elements are replaced, then all gradients scaled by the worst that there was: NaN 0.1, infinity 0.3, overflow 0.7.
    GradientScaling,
    /// The step changes nothing and none after it does: the run is to end.
    #[default]
    Stop,
}
impl HandlingType {
    /// All of them.
    pub const ALL: [HandlingType; 8] = [
        HandlingType::Detect,
        HandlingType::Replace,
        HandlingType::Skip,
        HandlingType::Restore,
        HandlingType::GradientZeroing,
        HandlingType::Adaptive,
        HandlingType::GradientScaling,
        HandlingType::Stop,
    ];
    /// The name in descriptions.
    pub fn name(self) -> &'static str {
        match self {
            HandlingType::Detect => "detect",
            HandlingType::Replace => "replace",
            HandlingType::Skip => "skip",
            HandlingType::Restore => "restore",
            HandlingType::GradientZeroing => "gradient_zeroing",
            HandlingType::Adaptive => "adaptive",
            HandlingType::GradientScaling => "gradient_scaling",
            HandlingType::Stop => "stop",
        }
    }
    /// The policy of a name.
    ///
    /// # Errors
    /// There is no such policy.
    #[track_caller]
    pub fn from_name(name: &str) -> Result<HandlingType> {
        match HandlingType::ALL.into_iter().find(|policy| policy.name() == name) {
            Some(policy) => Ok(policy),
            None => Err(Error::new("HandlingType", ErrorKind::Argument(format!("bad numbers are not handled by `{name}`")))
                .hint("there are detect, replace, skip, restore, gradient_zeroing, adaptive, gradient_scaling, stop")),
        }
    }
    /// Does it change gradients, and let the step commit?
    pub fn mends(self) -> bool {
        matches!(self, HandlingType::Replace | HandlingType::GradientZeroing | HandlingType::Adaptive | HandlingType::GradientScaling)
    }
    /// Does nothing commit from the first bad step on?
    pub fn latches(self) -> bool {
        matches!(self, HandlingType::Stop | HandlingType::Restore)
    }
}
impl fmt::Display for HandlingType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
/// How much of a step a [`NanHandler`](crate::NanHandler) looks at.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_stability::{HandlingType, NanHandler, NanOptions, WatchMode};
/// # adamant_core::Device::reference().make_current();
/// let mut handler = NanHandler::new(NanOptions { mode: WatchMode::Full, ..HandlingType::Skip.into() })?;
/// handler.attempt(|handler| {
///     // The loss is finite, what it was made of is not.
///     let loss = Tensor::zeros([2]).log().exp().sum(..);
///     handler.handle(&loss, &mut Default::default(), &[])
/// })?;
/// assert_eq!(handler.look()?.bad, 1);
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum WatchMode {
    /// what it comes to: loss, gradients of parameters, what it writes
    #[default]
    Watch,
    /// The results of each op too, and the gradients of them, clipping and the optimizer included: what reaches no weight is found as well. An
    /// infinity is bad where no input of its op has one and nobody asked for it (a mask does), NaN everywhere. Ops under a transform
    /// (`vmap`, `jvp`) are not looked at.
    Full,
}
impl WatchMode {
    /// All of them.
    pub const ALL: [WatchMode; 2] = [WatchMode::Watch, WatchMode::Full];
    /// The name in descriptions.
    pub fn name(self) -> &'static str {
        match self {
            WatchMode::Watch => "watch",
            WatchMode::Full => "full",
        }
    }
}
/// What is looked at, and what is done about what is found.
#[derive(Clone, Debug, PartialEq)]
pub struct NanOptions {
    /// the policy (stop)
    pub handling_type: HandlingType,
    /// how much is looked at (what a step comes to)
    pub mode: WatchMode,
    /// Is NaN bad (yes)?
    pub detect_nan: bool,
    /// Are infinities bad (yes)?
    pub detect_inf: bool,
    /// Are finite numbers beyond ± `overflow_threshold` bad (no: losses of large targets are large)?
    pub detect_overflow: bool,
    /// what stands for NaN (0)
    pub nan_replacement: f64,
    /// what stands for an infinity, with its sign (1e6; in 16 bits the largest number that there is, if that is less)
    pub inf_replacement: f64,
    /// above which a number has overflowed (1e6)
    pub overflow_threshold: f64,
    /// what stands for it, with its sign (1e6)
    pub overflow_replacement: f64,
    /// Is a step bad whose gradients are far larger than those before it (no: clipping is for them)?
    pub detect_explosion: bool,
    /// how many times the largest norm of late, of all gradients before clipping, a norm is an explosion (100)
    pub explosion_factor: f64,
    /// Is the loss looked at (yes)?
    pub loss_checking: bool,
    /// Are gradients looked at (yes)?
    pub gradient_checking: bool,
    /// Is what a step writes looked at, weights, slots and buffers (yes)? There NaN and infinities alone are bad.
    pub parameter_checking: bool,
    /// Are the results of all ops of the forward pass looked at (no)? Infinities that a mask fills in are bad then too.
    pub activation_checking: bool,
    /// how many bad steps in a row are borne (3); one more, and no step commits any more
    pub max_consecutive: u32,
    /// under restore, behind how many steps a state is held that can be put back (10): memory for it all once more
    pub restore_every: u32,
    /// under restore in a described run or a `Trainer`, how many batches behind the bad one are left out too (0)
    pub restore_skip: u32,
    /// by what the learning rates are multiplied each time a state is put back (0.5)
    pub restore_lr_factor: f64,
}
impl Default for NanOptions {
    fn default() -> NanOptions {
        NanOptions {
            handling_type: HandlingType::Stop,
            mode: WatchMode::Watch,
            detect_nan: true,
            detect_inf: true,
            detect_overflow: false,
            nan_replacement: 0.0,
            inf_replacement: 1e6,
            overflow_threshold: 1e6,
            overflow_replacement: 1e6,
            detect_explosion: false,
            explosion_factor: 100.0,
            loss_checking: true,
            gradient_checking: true,
            parameter_checking: true,
            activation_checking: false,
            max_consecutive: 3,
            restore_every: 10,
            restore_skip: 0,
            restore_lr_factor: 0.5,
        }
    }
}
impl From<HandlingType> for NanOptions {
    fn from(handling_type: HandlingType) -> NanOptions {
        NanOptions { handling_type, ..NanOptions::default() }
    }
}
impl NanOptions {
    /// What a trace of a bad step looks for.
    pub fn traced(&self) -> TraceOptions {
        TraceOptions {
            threshold: self.detect_overflow.then_some(self.overflow_threshold),
            explosion: self.detect_explosion,
            every_op: self.activation_checking || self.mode == WatchMode::Full,
        }
    }
    /// Does it make sense?
    ///
    /// # Errors
    /// The first number that does not, by its name.
    #[track_caller]
    pub fn check(&self) -> Result<()> {
        let positive =
            [("inf_replacement", self.inf_replacement), ("overflow_threshold", self.overflow_threshold), ("overflow_replacement", self.overflow_replacement)];
        let refused = if !self.nan_replacement.is_finite() {
            format!("nan_replacement is {}, it must be finite", self.nan_replacement)
        } else if let Some((name, x)) = positive.into_iter().find(|(_, x)| !(x.is_finite() && *x > 0.0)) {
            format!("{name} is {x}, it must be a positive number")
        } else if self.restore_every == 0 {
            "restore_every is 0: there would be no state to put back".into()
        } else if !(self.restore_lr_factor.is_finite() && self.restore_lr_factor > 0.0) {
            format!("restore_lr_factor is {}, it must be a positive number", self.restore_lr_factor)
        } else if !(self.explosion_factor.is_finite() && self.explosion_factor > 1.0) {
            format!("explosion_factor is {}, it must be a number above 1", self.explosion_factor)
        } else if self.detect_explosion && !self.gradient_checking {
            "detect_explosion looks at gradients, and gradient_checking is off".into()
        } else if !(self.detect_nan || self.detect_inf || self.detect_overflow || self.detect_explosion) {
            "detect_nan, detect_inf, detect_overflow and detect_explosion are all off: nothing is bad then".into()
        } else if !(self.loss_checking || self.gradient_checking || self.parameter_checking || self.activation_checking || self.mode == WatchMode::Full) {
            "nothing is looked at: loss_checking, gradient_checking, parameter_checking and activation_checking are all off".into()
        } else {
            return Ok(());
        };
        Err(Error::new("NanHandler", ErrorKind::Argument(refused)))
    }
}
