//! `[stability]`: what is done about numbers that are NaN, infinite or too large.
//!
//! ```toml
//! [stability]
//! watch = true                 # false: nobody looks
//! handling_type = "stop"       # detect, replace, skip, gradient_zeroing, adaptive, gradient_scaling
//! detect_nan = true
//! detect_inf = true
//! detect_overflow = false
//! max_consecutive = 3
//! ```
use super::precision::word;
use crate::{Failure, config::Section};
use adamant_stability::{HandlingType, NanOptions};

/// The section's values; watched with their defaults where there is none, and none where nobody is to look.
///
/// # Errors
/// A policy that there is not, a number that makes no sense.
pub(crate) fn stability(root: &Section<'_>) -> Result<Option<NanOptions>, Failure> {
    let mut options = NanOptions::default();
    let Some(s) = root.section("stability")? else { return Ok(Some(options)) };
    let watch = s.flag("watch")?.unwrap_or(true);
    let policies = HandlingType::ALL.map(|policy| (policy.name(), policy));
    options.handling_type = word(&s, "handling_type", &policies)?.unwrap_or_default();
    if options.handling_type == HandlingType::Restore {
        return Err(s.wrong_key("handling_type", "a run does not go back to an earlier state by itself: use `stop`, and `--resume auto` from its checkpoint"));
    }
    let flags = [
        ("detect_nan", &mut options.detect_nan),
        ("detect_inf", &mut options.detect_inf),
        ("detect_overflow", &mut options.detect_overflow),
        ("loss_checking", &mut options.loss_checking),
        ("gradient_checking", &mut options.gradient_checking),
        ("parameter_checking", &mut options.parameter_checking),
        ("activation_checking", &mut options.activation_checking),
    ];
    for (key, flag) in flags {
        *flag = s.flag(key)?.unwrap_or(*flag);
    }
    let numbers = [
        ("nan_replacement", &mut options.nan_replacement),
        ("inf_replacement", &mut options.inf_replacement),
        ("overflow_threshold", &mut options.overflow_threshold),
        ("overflow_replacement", &mut options.overflow_replacement),
    ];
    for (key, number) in numbers {
        *number = s.number(key)?.unwrap_or(*number);
    }
    if let Some(steps) = s.size_in("max_consecutive", 0..=u32::MAX as usize)? {
        options.max_consecutive = steps as u32;
    }
    options.check().map_err(|e| s.wrong(e.kind().to_string()))?;
    s.finish()?;
    Ok(watch.then_some(options))
}
