//! `[stability]`: what is done about numbers that are NaN, infinite or too large.
//!
//! ```toml
//! [stability]
//! watch = true                 # false: nobody looks
//! handling_type = "stop"       # detect, replace, skip, restore, gradient_zeroing, adaptive, gradient_scaling
//! detect_nan = true
//! detect_inf = true
//! detect_overflow = false
//! max_consecutive = 3
//! restore_every = 10           # with restore: behind how many steps a state is held
//! restore_skip = 0             # batches that are left out behind the bad one
//! restore_lr_factor = 0.5
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
        ("restore_lr_factor", &mut options.restore_lr_factor),
    ];
    for (key, number) in numbers {
        *number = s.number(key)?.unwrap_or(*number);
    }
    let counts =
        [("max_consecutive", &mut options.max_consecutive), ("restore_every", &mut options.restore_every), ("restore_skip", &mut options.restore_skip)];
    for (key, count) in counts {
        if let Some(n) = s.size_in(key, 0..=u32::MAX as usize)? {
            *count = n as u32;
        }
    }
    options.check().map_err(|e| s.wrong(e.kind().to_string()))?;
    s.finish()?;
    Ok(watch.then_some(options))
}
