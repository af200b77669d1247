//! `[quantize]`: training with what integer codes will stand for; the run ends with a model of codes beside that of floats.
//!
//! ```toml
//! [quantize]
//! scheme = "int8-static"        # int8-dynamic, w8, w4, w3, as in `adamant quantize`
//! bits = 4                      # of weights, in the place of the scheme's: 8, 4, 3
//! group = 32                    # columns of a row that share a scale; all, unless it is given
//! symmetric = true              # weights about 0; false: with zero points
//! skip = ["head*"]              # layers that stay what they are
//! freeze_observers_after = 500  # steps behind which ranges and scales stay what they are; never, unless it is given
//! freeze_norms_after = 800      # steps behind which batch norms normalise by their running statistics
//! learned_steps = false         # are steps of codes trained?
//! ```
use super::precision::word;
use crate::{Failure, config::Section};
use adamant_core::Error;
use adamant_nn::Sequential;
use adamant_quant::{
    QatOptions, QuantizationConfig,
    qat::{check_qat, prepare_qat},
};

/// What is prepared, and how.
#[derive(Clone, Debug)]
pub(crate) struct QuantizedTraining {
    config: QuantizationConfig,
    options: QatOptions,
}
/// Reads the section. A step is `accumulate` forward passes.
///
/// # Errors
/// A scheme that there is not, a number that makes no sense.
pub(crate) fn quantize(root: &Section<'_>, accumulate: usize) -> Result<Option<QuantizedTraining>, Failure> {
    let Some(s) = root.section("quantize")? else { return Ok(None) };
    type Made = fn() -> QuantizationConfig;
    let schemes: [(&'static str, Made); 5] = [
        ("int8-static", QuantizationConfig::int8),
        ("int8-dynamic", QuantizationConfig::int8_dynamic),
        ("w8", || QuantizationConfig::weights(8)),
        ("w4", || QuantizationConfig::weights(4)),
        ("w3", || QuantizationConfig::weights(3)),
    ];
    let scheme = s.need("scheme", word(&s, "scheme", &schemes)?)?;
    let bits = s.size("bits")?;
    if bits.is_some_and(|bits| !matches!(bits, 3 | 4 | 8)) {
        return Err(s.wrong_key("bits", "codes have 8, 4 or 3 bits"));
    }
    let group = s.size("group")?;
    if group == Some(0) {
        return Err(s.wrong_key("group", "at least one column shares a scale"));
    }
    let config = scheme().group(group).symmetric(s.flag("symmetric")?.unwrap_or(true));
    let config = bits.map_or(config.clone(), |bits| config.bits(bits as u32));
    let config = s.texts("skip")?.unwrap_or_default().into_iter().fold(config, |config, pattern| config.skip(pattern));
    let passes = |key: &'static str| -> Result<Option<u64>, Failure> { Ok(s.count(key)?.map(|steps| steps.saturating_mul(accumulate as u64))) };
    let options = QatOptions {
        freeze_observers_after: passes("freeze_observers_after")?,
        freeze_norms_after: passes("freeze_norms_after")?,
        learned_steps: s.flag("learned_steps")?.unwrap_or(false),
    };
    if options.freeze_observers_after == Some(0) {
        return Err(s.wrong_key("freeze_observers_after", "at least one step observes"));
    }
    s.finish()?;
    if root.section("precision")?.is_some_and(|precision| precision.text("master").ok().flatten() == Some("none")) {
        return Err(s.wrong_key("scheme", "codes are found of weights in f32, and `precision.master` is \"none\""));
    }
    Ok(Some(QuantizedTraining { config, options }))
}
impl QuantizedTraining {
    /// Looks at the shapes of a model.
    ///
    /// # Errors
    /// As [`QuantizedTraining::prepare`].
    pub fn check(&self, root: &Section<'_>, model: &Sequential) -> Result<(), Failure> {
        check_qat(model, &self.config, self.options).map_err(|e| refused(root, &e))
    }
    /// Prepares a model.
    ///
    /// # Errors
    /// A layer that the section does not suit, with its path.
    pub fn prepare(&self, root: &Section<'_>, model: &Sequential) -> Result<(), Failure> {
        prepare_qat(model, &self.config, self.options).map(drop).map_err(|e| refused(root, &e))
    }
}
fn refused(root: &Section<'_>, error: &Error) -> Failure {
    let text = error.kind().to_string() + &error.hint_text().map(|hint| format!("; {hint}")).unwrap_or_default();
    root.wrong_key("quantize", text)
}
