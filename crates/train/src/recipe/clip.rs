//! `clip`: how gradients are limited before a step.
//!
//! ```toml
//! clip = { kind = "global_norm", max_norm = 1.0 }     # off, norm, value, adaptive, layer_wise, percentile, exponential, agc, zclip
//!
//! [clip]
//! kind = "layer_wise"
//! max_norm = 1.0
//! layer_norm_thresholds = [{ layers = "head", max_norm = 0.1 }]
//! ```
use crate::{Failure, config::Section};
use adamant_nn::{Param, glob_matches, nearest};
use adamant_optim::{ClippingOptions, ClippingType};

/// The section's numbers; none where gradients stay as they are. Each kind takes its own numbers by the names that they have in
/// [`ClippingOptions`]; `max` is short for the largest norm or element.
///
/// # Errors
/// An unknown kind, a number that makes no sense, a key that the kind does not read.
pub(crate) fn clip(root: &Section<'_>) -> Result<Option<ClippingOptions>, Failure> {
    let Some(s) = root.section("clip")? else { return Ok(None) };
    let mut kinds = vec!["off"];
    kinds.extend(ClippingType::ALL.map(ClippingType::name));
    let given = s.kind(&kinds)?;
    let Some(kind) = ClippingType::ALL.into_iter().find(|kind| kind.name() == given) else {
        // What was limited may be kept beside it, to be switched on again.
        s.number("max")?;
        return s.finish().map(|()| None);
    };
    let mut options = ClippingOptions::from(kind);
    for (name, number) in options.numbers() {
        let short = if matches!(name, "max_norm" | "max_value") { s.number("max")? } else { None };
        let long = s.number(name)?;
        match (short, long) {
            (Some(_), Some(_)) => return Err(s.wrong_key("max", format!("it is short for `{name}`, which is there too; say one of them"))),
            (Some(max), None) if max <= 0.0 => return Err(s.wrong_key("max", "gradients can be clipped only at a positive number")),
            (short, long) => *number = short.or(long).unwrap_or(*number),
        }
    }
    if kind == ClippingType::ZClip
        && let Some(steps) = s.size_in("z_warm_up", 1..=u32::MAX as usize)?
    {
        options.z_warm_up = steps as u32;
    }
    if kind == ClippingType::LayerWise {
        for of in s.sections("layer_norm_thresholds")?.unwrap_or_default() {
            let glob = of.need("layers", of.text("layers")?)?.to_string();
            let max = of.need("max_norm", of.number("max_norm")?)?;
            if max <= 0.0 {
                return Err(of.wrong_key("max_norm", "gradients can be clipped only at a positive number"));
            }
            of.finish()?;
            options.layer_norm_thresholds.push((glob, max));
        }
    }
    options.check().map_err(|e| s.wrong(e.kind().to_string()))?;
    s.finish()?;
    Ok(Some(options))
}
/// Refuses thresholds of layers that there are not.
///
/// # Errors
/// The first glob that meets neither a layer nor a parameter, at its line.
pub(crate) fn clipped_layers(root: &Section<'_>, options: Option<&ClippingOptions>, parameters: &[Param]) -> Result<(), Failure> {
    let globs = options.map_or(&[][..], |options| &options.layer_norm_thresholds);
    let paths: Vec<String> = parameters.iter().map(|p| p.path().to_string()).collect();
    let names: Vec<&str> = paths.iter().flat_map(|path| path.rsplit_once('.').map(|(layer, _)| layer).into_iter().chain([path.as_str()])).collect();
    let lost = globs.iter().position(|(glob, _)| !names.iter().any(|name| glob_matches(glob, name)));
    let of = root.section("clip")?.map(|s| s.sections("layer_norm_thresholds")).transpose()?.flatten().unwrap_or_default();
    let Some((at, of)) = lost.and_then(|at| Some((at, of.get(at)?))) else { return Ok(()) };
    let glob = &globs[at].0;
    let hint = nearest(glob, names.iter().copied()).map_or_else(|| format!("there are {}", names.join(", ")), |near| format!("did you mean `{near}`?"));
    Err(of.wrong_key("layers", format!("no layer that is trained is met by `{}`; {hint}", crate::failure::shown(glob))))
}
