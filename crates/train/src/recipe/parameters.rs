//! Parameters by the patterns of their names: which are frozen, which form a group, which come from a file.
use crate::{Failure, config::Section};
use adamant_core::{Device, Tensor};
use adamant_formats::safetensors::SafeTensors;
use adamant_nn::{Param, Walk, nearest};
use std::path::PathBuf;

/// Does a name match? A pattern is a name, the name of a layer above it (`blocks.0`), or either with `*` for any part (`*.bias`).
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    // Either the whole name is meant, or a layer above it.
    let ends = name.match_indices('.').map(|(at, _)| at).chain([name.len()]);
    ends.into_iter().any(|end| is_of(pattern.as_bytes(), &name.as_bytes()[..end]))
}
/// Is this whole name of the pattern? Going back to the last `*` alone is enough, so many of them take no longer.
fn is_of(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, n));
            p += 1;
        } else if pattern.get(p) == Some(&name[n]) {
            (p, n) = (p + 1, n + 1);
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            (p, n) = (at + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}
/// The first pattern that matches none of the names, with a hint.
fn stray(patterns: &[String], names: &[String]) -> Option<String> {
    let lost = patterns.iter().find(|p| !names.iter().any(|n| matches(p, n)))?;
    let layers = names.iter().flat_map(|n| n.match_indices('.').map(|(at, _)| &n[..at]).chain([n.as_str()]));
    let hint = nearest(lost, layers).map_or_else(|| format!("; there are {}", names.join(", ")), |near| format!("; did you mean `{near}`?"));
    Some(format!("`{lost}` is the name of no parameter and of no layer{hint}"))
}
/// `freeze = ["0", "blocks.*.bias"]`: parameters that stay as they are.
///
/// # Errors
/// A pattern that matches nothing, or nothing that is left to be trained.
pub(crate) fn freeze(root: &Section<'_>, model: &dyn Walk) -> Result<(), Failure> {
    let Some(patterns) = root.texts("freeze")? else { return Ok(()) };
    let all: Vec<(String, Param)> = model.named_parameters();
    let names: Vec<String> = all.iter().map(|(n, _)| n.clone()).collect();
    if let Some(what) = stray(&patterns, &names) {
        return Err(root.wrong_key("freeze", what));
    }
    let frozen = |name: &str| patterns.iter().any(|p| matches(p, name));
    if names.iter().all(|n| frozen(n)) {
        return Err(root.wrong_key("freeze", "every parameter is frozen: nothing is left to be trained"));
    }
    all.iter().filter(|(n, _)| frozen(n)).for_each(|(_, p)| p.set_frozen(true));
    Ok(())
}
/// The name of a parameter before another one was computed from it: `head.weight` of `head.parametrizations.weight.original`.
pub(crate) fn first_name(path: &str) -> String {
    let first = path.replace("parametrizations.", "");
    first.strip_suffix(".original").map_or(first.clone(), str::to_string)
}
/// The parameters of each list of patterns, in the order of the lists, and those that are left. The first list that matches counts. Each pattern is
/// that of a name in `all`, which may be those of a whole model, of which only some are here.
pub(super) fn grouped(s: &Section<'_>, lists: &[Vec<String>], parameters: Vec<Param>, all: &[String]) -> Result<(Vec<Param>, Vec<Vec<Param>>), Failure> {
    let names: Vec<String> = parameters.iter().map(|p| first_name(&p.path())).collect();
    for patterns in lists {
        if let Some(what) = stray(patterns, all).filter(|_| !all.is_empty()) {
            return Err(s.wrong_key("groups", what));
        }
    }
    let (mut left, mut groups) = (Vec::new(), vec![Vec::new(); lists.len()]);
    for (name, parameter) in names.iter().zip(parameters) {
        match lists.iter().position(|patterns| patterns.iter().any(|p| matches(p, name))) {
            Some(k) => groups[k].push(parameter),
            None => left.push(parameter),
        }
    }
    Ok((left, groups))
}
/// `[init_from]`: initial values from a file of weights.
pub(crate) struct InitFrom {
    /// the file, as it is found from where the program runs
    pub path: PathBuf,
    /// parameters and buffers that keep the values that they have
    skip: Vec<String>,
}
impl InitFrom {
    /// Of the section; the file is not opened.
    ///
    /// # Errors
    /// The file is not there.
    pub fn of(root: &Section<'_>) -> Result<Option<InitFrom>, Failure> {
        let Some(s) = root.section("init_from")? else { return Ok(None) };
        let path = PathBuf::from(s.need("path", s.text("path")?)?);
        let skip = s.texts("skip")?.unwrap_or_default();
        if !path.is_file() {
            return Err(s.wrong_key("path", format!("{} is no file of weights", path.display())));
        }
        s.finish()?;
        Ok(Some(InitFrom { path, skip }))
    }
    /// Gives a model the values.
    ///
    /// # Errors
    /// `Input`: no such file, or one of another model.
    pub fn apply(&self, model: &dyn Walk, device: Device) -> Result<(), Failure> {
        let file = SafeTensors::open(&self.path)?;
        let skipped = |name: &str| self.skip.iter().any(|p| matches(p, name));
        let mut state: Vec<(String, Tensor)> = model.state_dict().into_iter().filter(|(n, _)| skipped(n)).collect();
        for name in file.names().into_iter().filter(|n| !skipped(n)) {
            state.push((name.clone(), file.tensor(&name, device)?));
        }
        model.load_state_dict(&state).map_err(|e| {
            let hint = e.hint_text().map_or_else(String::new, |h| format!(" ({h})"));
            Failure::Input(format!("{}: {}{hint}; `init_from.skip` names what keeps its first values", self.path.display(), e.kind()))
        })
    }
}
#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_pattern_that_means_another_parameter() {
        for (pattern, name, is) in [
            ("0", "0.weight", true),
            ("0", "01.weight", false),
            ("head", "head.bias", true),
            ("head.bias", "head.bias", true),
            ("*.bias", "blocks.1.fc.bias", true),
            ("*.bias", "blocks.1.bias.scale", true),
            ("blocks.*.fc", "blocks.1.fc.weight", true),
            ("blocks.*.fc", "blocks.1.gc.weight", false),
            ("*", "anything", true),
            ("", "0.weight", false),
            ("ead", "head.bias", false),
            ("**a**a**a**a**a**a**a**a**a**a**a**a**a**b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }
}
