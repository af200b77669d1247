//! What may be wrong with a run, in the order in which one thing brings about another.
use std::fmt;

/// A fault of a run. Of two that show in the same step the one that is listed first is the likelier root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum RootCause {
    /// a record has a number that is NaN or infinite
    NonFiniteInput,
    /// a weight was NaN or infinite before the run's first step
    NonFiniteWeight,
    /// a row of attention, or of a softmax, in which everything is masked
    MaskedRow,
    /// a logarithm of 0, or the gradient of one
    LogOfZero,
    /// the gradient of a square root, or of a norm, at 0
    RootOfZero,
    /// 0 / 0, as where a row of zeros is divided by its norm
    ZeroOverZero,
    /// a number divided by 0
    DivisionByZero,
    /// a function outside of where it is defined: the root or the logarithm of a negative number
    OutOfDomain,
    /// inputs that are far from the range of -1 to 1
    UnscaledInput,
    /// numbers to be predicted that are far from that range
    UnscaledTarget,
    /// initial weights that are too large for their layer
    InitTooLarge,
    /// initial weights that are next to nothing
    InitTooSmall,
    /// initial weights that are all equal: units that can never differ
    SymmetricInit,
    /// numbers and gradients that grow from layer to layer
    ExplodingDepth,
    /// an exponential beyond the largest number
    ExpOverflow,
    /// numbers beyond 65504 in f16
    F16Overflow,
    /// gradients that are nothing in f16
    F16Underflow,
    /// batch statistics of a single row
    BatchNormOneRow,
    /// dropout that leaves next to nothing
    DropoutTooHigh,
    /// units of a rectifier that are 0 for all inputs
    DeadRelu,
    /// gates, or results of a tanh, that are at their ends for all inputs
    SaturatedGates,
    /// a softmax before a loss that has its own
    SoftmaxTwice,
    /// gradients that shrink from layer to layer
    VanishingDepth,
    /// parameters that no step changes
    FrozenLayer,
    /// clipping that leaves next to nothing of every gradient
    ClipTooSmall,
    /// a learning rate at which steps undo each other
    RateTooHigh,
    /// a learning rate that is too high for the first steps alone
    NoWarmUp,
    /// weight decay that weights die of
    DecayTooLarge,
    /// a learning rate at which nothing changes
    RateTooLow,
    /// batches of so few rows that steps follow the noise
    SmallBatch,
    /// classes that do not belong to their records
    ShuffledLabels,
}
impl RootCause {
    /// Every one.
    pub const ALL: [RootCause; 31] = [
        RootCause::NonFiniteInput,
        RootCause::NonFiniteWeight,
        RootCause::MaskedRow,
        RootCause::LogOfZero,
        RootCause::RootOfZero,
        RootCause::ZeroOverZero,
        RootCause::DivisionByZero,
        RootCause::OutOfDomain,
        RootCause::UnscaledInput,
        RootCause::UnscaledTarget,
        RootCause::InitTooLarge,
        RootCause::InitTooSmall,
        RootCause::SymmetricInit,
        RootCause::ExplodingDepth,
        RootCause::ExpOverflow,
        RootCause::F16Overflow,
        RootCause::F16Underflow,
        RootCause::BatchNormOneRow,
        RootCause::DropoutTooHigh,
        RootCause::DeadRelu,
        RootCause::SaturatedGates,
        RootCause::SoftmaxTwice,
        RootCause::VanishingDepth,
        RootCause::FrozenLayer,
        RootCause::ClipTooSmall,
        RootCause::RateTooHigh,
        RootCause::NoWarmUp,
        RootCause::DecayTooLarge,
        RootCause::RateTooLow,
        RootCause::SmallBatch,
        RootCause::ShuffledLabels,
    ];
    /// A word for machines.
    pub fn name(self) -> &'static str {
        self.words().0
    }
    /// A few words for people.
    pub fn title(self) -> &'static str {
        self.words().1
    }
    fn words(self) -> (&'static str, &'static str) {
        match self {
            RootCause::NonFiniteInput => ("non_finite_input", "inputs that are not finite"),
            RootCause::NonFiniteWeight => ("non_finite_weight", "weights that are not finite"),
            RootCause::MaskedRow => ("masked_row", "a row that is masked whole"),
            RootCause::LogOfZero => ("log_of_zero", "the logarithm of 0"),
            RootCause::RootOfZero => ("root_of_zero", "the gradient of a root at 0"),
            RootCause::ZeroOverZero => ("zero_over_zero", "0 / 0"),
            RootCause::DivisionByZero => ("division_by_zero", "a division by 0"),
            RootCause::OutOfDomain => ("out_of_domain", "a function outside of where it is defined"),
            RootCause::UnscaledInput => ("unscaled_input", "inputs that are not scaled"),
            RootCause::UnscaledTarget => ("unscaled_target", "targets that are not scaled"),
            RootCause::InitTooLarge => ("init_too_large", "initial weights too large"),
            RootCause::InitTooSmall => ("init_too_small", "initial weights too small"),
            RootCause::SymmetricInit => ("symmetric_init", "initial weights all equal"),
            RootCause::ExplodingDepth => ("exploding_depth", "numbers that grow from layer to layer"),
            RootCause::ExpOverflow => ("exp_overflow", "an exponential that overflows"),
            RootCause::F16Overflow => ("f16_overflow", "overflow of f16"),
            RootCause::F16Underflow => ("f16_underflow", "underflow of f16"),
            RootCause::BatchNormOneRow => ("batch_norm_one_row", "BatchNorm on one row"),
            RootCause::DropoutTooHigh => ("dropout_too_high", "dropout too high"),
            RootCause::DeadRelu => ("dead_relu", "dead rectifiers"),
            RootCause::SaturatedGates => ("saturated_gates", "saturated gates"),
            RootCause::SoftmaxTwice => ("softmax_twice", "a softmax before the loss's own"),
            RootCause::VanishingDepth => ("vanishing_depth", "gradients that shrink from layer to layer"),
            RootCause::FrozenLayer => ("frozen_layer", "a layer that does not learn"),
            RootCause::ClipTooSmall => ("clip_too_small", "clipping too tight"),
            RootCause::RateTooHigh => ("rate_too_high", "learning rate too high"),
            RootCause::NoWarmUp => ("no_warm_up", "no warm-up"),
            RootCause::DecayTooLarge => ("decay_too_large", "weight decay too large"),
            RootCause::RateTooLow => ("rate_too_low", "learning rate too low"),
            RootCause::SmallBatch => ("small_batch", "batches too small"),
            RootCause::ShuffledLabels => ("shuffled_labels", "labels that do not belong to their records"),
        }
    }
    /// May it come of something else? Not what an op made of good numbers, nor what came with the data.
    pub(super) fn has_further_causes(self) -> bool {
        self > RootCause::OutOfDomain
    }
}
impl fmt::Display for RootCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
/// What ends a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRemedy {
    /// in words
    pub text: String,
    /// as keys of a description (`--set KEY=VALUE`); none where it is to be done in the model's code, or in the data
    pub set: Vec<String>,
}
impl RunRemedy {
    pub(super) fn of(text: impl Into<String>) -> RunRemedy {
        RunRemedy { text: text.into(), set: Vec::new() }
    }
    /// For what leaves the range of f16.
    pub(super) fn wider() -> RunRemedy {
        let text = "bf16 has the range of f32; or keep this layer in f32 (`precision.keep`)";
        RunRemedy::set(text, ["precision.mode=bf16".to_string()])
    }
    pub(super) fn set(text: impl Into<String>, set: impl IntoIterator<Item = String>) -> RunRemedy {
        RunRemedy { text: text.into(), set: set.into_iter().collect() }
    }
}
