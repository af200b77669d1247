//! `[stability]`: what is done about numbers that are NaN, infinite or too large.
//!
//! ```toml
//! [stability]
//! watch = true                 # false: nobody looks
//! mode = "watch"               # full: what each op of each step gives
//! handling_type = "stop"       # detect, replace, skip, restore, gradient_zeroing, adaptive, gradient_scaling
//! detect_nan = true
//! detect_inf = true
//! detect_overflow = false
//! detect_explosion = false     # gradients whose norm is explosion_factor (100) times the largest of late
//! max_consecutive = 3
//! restore_every = 10           # with restore: behind how many steps a state is held
//! restore_skip = 0             # batches that are left out behind the bad one
//! restore_lr_factor = 0.5
//! look_every = 0               # steps between two looks at layers and parameters; 0: none
//! ```
use super::precision::word;
use crate::{Failure, config::Section};
use adamant_stability::{HandlingType, NanOptions, WatchMode};

/// The section's values.
pub(crate) struct WatchedNumbers {
    /// how bad numbers are handled: by default as without the section; none where nobody is to look
    pub handling: Option<NanOptions>,
    /// steps between two looks at layers
    pub look_every: Option<u64>,
}
/// Reads the section.
///
/// # Errors
/// A policy that there is not, a number that makes no sense.
pub(crate) fn stability(root: &Section<'_>) -> Result<WatchedNumbers, Failure> {
    let mut options = NanOptions::default();
    let Some(s) = root.section("stability")? else { return Ok(WatchedNumbers { handling: Some(options), look_every: None }) };
    let watch = s.flag("watch")?.unwrap_or(true);
    let policies = HandlingType::ALL.map(|policy| (policy.name(), policy));
    options.handling_type = word(&s, "handling_type", &policies)?.unwrap_or_default();
    options.mode = word(&s, "mode", &WatchMode::ALL.map(|mode| (mode.name(), mode)))?.unwrap_or_default();
    let flags = [
        ("detect_nan", &mut options.detect_nan),
        ("detect_inf", &mut options.detect_inf),
        ("detect_overflow", &mut options.detect_overflow),
        ("detect_explosion", &mut options.detect_explosion),
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
        ("explosion_factor", &mut options.explosion_factor),
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
    let look_every = s.size_in("look_every", 0..=u32::MAX as usize)?.filter(|n| *n > 0).map(|n| n as u64);
    options.check().map_err(|e| s.wrong(e.kind().to_string()))?;
    s.finish()?;
    Ok(WatchedNumbers { handling: watch.then_some(options), look_every })
}
