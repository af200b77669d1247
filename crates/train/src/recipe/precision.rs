//! `[precision]`: what a run computes in.
//!
//! ```toml
//! [precision]
//! mode = "f16"                       # f32, bf16, f16, fp8
//! table = "adamant"                  # or torch: PyTorch's list of ops
//! keep = ["head", "einsum"]          # layers and functions that stay f32
//! enable_fallback_to_fp32 = true     # layers that overflow `fallback_after` times run in f32, at most `max_fp32_fallbacks`
//! patience = 20                      # overflows in a row at the least scale that end the run
//! schedule_on = "attempted"          # or applied
//! scaler = { init_scale = 65536.0, growth_interval = 2000 }
//! master = "f32"                     # or none: weights of products are stored in their dtype
//! update = "stochastic"              # nearest, stochastic, kahan, split: how such weights are updated
//! slots = "f32"                      # or bf16: what the optimizer keeps
//! fp8 = { recipe = "delayed", margin = 0, amax_history_len = 1024, amax_compute_algo = "max" }  # current, block; most_recent
//! ```
use crate::{Failure, config::Section};
use adamant_amp::{
    AmaxAlgorithm, Autocast, BlockScaling, CurrentScaling, DelayedScaling, FallbackOptions, Fp8Recipe, GradScaler, Precision, PrecisionMode, PrecisionTable,
    ScheduleOn,
};
use adamant_core::DType;
use adamant_nn::{Walk, nearest};
use adamant_optim::WeightUpdate;

/// One of several words.
pub(super) fn word<T: Copy>(s: &Section<'_>, key: &'static str, words: &[(&'static str, T)]) -> Result<Option<T>, Failure> {
    let Some(given) = s.text(key)? else { return Ok(None) };
    match words.iter().find(|(word, _)| *word == given) {
        Some((_, value)) => Ok(Some(*value)),
        None => {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let hint = nearest(given, all.iter().copied()).map_or_else(|| format!("there are {}", all.join(", ")), |near| format!("did you mean `{near}`?"));
            Err(s.wrong_key(key, format!("there is no `{}`; {hint}", crate::failure::shown(given))))
        }
    }
}
/// The section's values; f32 where there is none.
///
/// # Errors
/// A word or a number that makes no sense, or that another key makes meaningless.
pub(crate) fn precision(root: &Section<'_>) -> Result<Precision, Failure> {
    let Some(s) = root.section("precision")? else { return Ok(Precision::default()) };
    let modes = PrecisionMode::ALL.map(|mode| (mode.name(), mode));
    let mode = s.need("mode", word(&s, "mode", &modes)?)?;
    let mut precision = Precision::of(mode);
    let only = |key: &'static str, of: &str| -> Result<(), Failure> {
        if s.has(key) { Err(s.wrong_key(key, format!("it means something only with mode = {of}, not with {mode}"))) } else { Ok(()) }
    };
    precision.table = word(&s, "table", &[("adamant", PrecisionTable::Adamant), ("torch", PrecisionTable::Torch)])?.unwrap_or_default();
    precision.keep = s.texts("keep")?.unwrap_or_default();
    let falls_back = s.flag("enable_fallback_to_fp32")?.unwrap_or(false);
    let (after, most) = (s.count("fallback_after")?, s.size("max_fp32_fallbacks")?);
    let patience = s.count("patience")?;
    let on = word(&s, "schedule_on", &[("attempted", ScheduleOn::Attempted), ("applied", ScheduleOn::Applied)])?;
    let scaler = s.section("scaler")?;
    let master = word(&s, "master", &[("f32", true), ("none", false)])?.unwrap_or(true);
    let updates = [
        ("nearest", WeightUpdate::Nearest),
        ("stochastic", WeightUpdate::Stochastic { seed: root.count("seed")?.unwrap_or(0) }),
        ("kahan", WeightUpdate::Kahan),
        ("split", WeightUpdate::Split),
    ];
    let update = word(&s, "update", &updates)?;
    precision.slots = word(&s, "slots", &[("f32", DType::F32), ("bf16", DType::BF16)])?.unwrap_or(DType::F32);
    let fp8 = s.section("fp8")?;
    if mode == PrecisionMode::F32 {
        ["table", "keep", "master"].into_iter().try_for_each(|key| only(key, "bf16, f16 or fp8"))?;
    }
    if let Some(fp8) = fp8 {
        if mode != PrecisionMode::FP8 {
            only("fp8", "fp8")?;
        }
        precision.fp8 = fp8_of(&fp8)?;
    }
    if !master {
        if mode == PrecisionMode::F16 && update == Some(WeightUpdate::Split) {
            return Err(s.wrong_key("update", "split keeps the other half of an f32's bits beside bf16, and f16 is no half of it"));
        }
        if root.has("ema") {
            return Err(s.wrong_key("master", "`ema` keeps a mean in the weights' dtype, and one in 16 bits would stand still"));
        }
        precision.update = Some(update.unwrap_or(updates[1].1));
    }
    if mode != PrecisionMode::F16 {
        let keys = ["enable_fallback_to_fp32", "fallback_after", "max_fp32_fallbacks"];
        keys.into_iter().try_for_each(|key| only(key, "f16, whose range activations leave"))?;
    }
    let small = |key: &'static str, given: Option<u64>, usual: u32| match given {
        None => Ok(usual),
        Some(0) => Err(s.wrong_key(key, "it is at least 1, not 0")),
        Some(n) => u32::try_from(n).map_err(|_| s.wrong_key(key, format!("it is at most {}, not {n}", u32::MAX))),
    };
    let usual = FallbackOptions::default();
    let fallback =
        FallbackOptions { fallback_after: small("fallback_after", after, usual.fallback_after)?, max_fp32_fallbacks: most.unwrap_or(usual.max_fp32_fallbacks) };
    precision.fallback = falls_back.then_some(fallback);
    if let Some(scaler) = scaler {
        if mode == PrecisionMode::F32 {
            only("scaler", "f16 or bf16")?;
        }
        scaler_of(&scaler, &mut precision)?;
    }
    precision.patience = small("patience", patience, precision.patience)?;
    precision.schedule_on = on.unwrap_or_default();
    s.finish()?;
    // What another key makes meaningless is told after that key, if it is the one that is misspelt.
    if s.has("update") && master {
        return Err(s.wrong_key("update", "it means something only with master = \"none\""));
    }
    for key in ["fallback_after", "max_fp32_fallbacks"] {
        if s.has(key) && !falls_back {
            return Err(s.wrong_key(key, "it means something only with enable_fallback_to_fp32 = true"));
        }
    }
    for key in ["patience", "schedule_on"] {
        if s.has(key) && !precision.scaler.enabled {
            return Err(s.wrong_key(key, "there is no scaler that could suppress a step"));
        }
    }
    Ok(precision)
}
/// `fp8 = { .. }`, by the names of Transformer Engine's recipes.
fn fp8_of(s: &Section<'_>) -> Result<Fp8Recipe, Failure> {
    let recipe = word(s, "recipe", &[("delayed", 0), ("current", 1), ("block", 2)])?.unwrap_or(0);
    let usual = DelayedScaling::default();
    let margin = s.int("margin")?;
    let length = s.size("amax_history_len")?;
    let algorithm = word(s, "amax_compute_algo", &[("max", AmaxAlgorithm::Max), ("most_recent", AmaxAlgorithm::MostRecent)])?;
    let small = margin.map(|m| i32::try_from(m).unwrap_or(i32::MAX)).unwrap_or(usual.margin);
    let chosen = match recipe {
        0 => Fp8Recipe::Delayed(DelayedScaling {
            margin: small,
            amax_history_len: length.unwrap_or(usual.amax_history_len),
            amax_compute_algo: algorithm.unwrap_or_default(),
        }),
        1 => Fp8Recipe::Current(CurrentScaling { margin: small }),
        _ => Fp8Recipe::Block(BlockScaling),
    };
    // The recipe itself knows what makes sense, and its error begins with the key.
    if let Err(e) = Autocast::fp8(chosen) {
        return Err(s.wrong(e.kind().to_string()));
    }
    s.finish()?;
    let meaningless = match recipe {
        0 => &[][..],
        1 => &["amax_history_len", "amax_compute_algo"],
        _ => &["margin", "amax_history_len", "amax_compute_algo"],
    };
    match meaningless.iter().find(|key| s.has(key)) {
        Some(key) => Err(s.wrong_key(key, "this recipe has no such number; delayed scaling has")),
        None => Ok(chosen),
    }
}
/// `scaler = { .. }`, by the names of [`adamant_amp::ScalerOptions`].
fn scaler_of(s: &Section<'_>, precision: &mut Precision) -> Result<(), Failure> {
    let options = &mut precision.scaler;
    options.enabled = s.flag("enabled")?.unwrap_or(true);
    for (key, place) in [
        ("init_scale", &mut options.init_scale),
        ("growth_factor", &mut options.growth_factor),
        ("backoff_factor", &mut options.backoff_factor),
        ("min_scale", &mut options.min_scale),
        ("max_scale", &mut options.max_scale),
    ] {
        *place = s.any_number(key)?.unwrap_or(*place);
    }
    for (key, place) in [("growth_interval", &mut options.growth_interval), ("hysteresis", &mut options.hysteresis)] {
        if let Some(n) = s.count(key)? {
            *place = u32::try_from(n).map_err(|_| s.wrong_key(key, format!("it is at most {}, not {n}", u32::MAX)))?;
        }
    }
    // The scaler itself knows what makes sense, and its error begins with the key.
    if let Err(e) = GradScaler::with(options.clone()) {
        return Err(s.wrong(e.kind().to_string()));
    }
    s.finish()
}
/// The same, and are there the layers that `keep` names?
///
/// # Errors
/// As [`precision`]; a pattern that means no layer and no function.
pub(crate) fn precision_of(root: &Section<'_>, model: &dyn Walk) -> Result<Precision, Failure> {
    let precision = precision(root)?;
    let modules = model.named_modules();
    let layers: Vec<&str> = modules.iter().map(|(path, _)| path.as_str()).filter(|path| !path.is_empty()).collect();
    let Some(region) = precision.region()? else { return Ok(precision) };
    let Some((stray, section)) = region.stray(&layers).zip(root.section("precision")?) else { return Ok(precision) };
    // A layer is what is meant most often.
    let near = nearest(stray, layers.iter().copied()).or_else(|| nearest(stray, precision.table.rows().map(|(name, _)| name)));
    let hint = near.map_or_else(|| format!("; layers are {}", layers.join(", ")), |near| format!("; did you mean `{near}`?"));
    Err(section.wrong_key("keep", format!("`{}` means no layer and no function{hint}", crate::failure::shown(stray))))
}
